/* miras_cuda.cuh - v0.4.0 - the memories of miras.h on a GPU; public domain or MIT (see miras.h)

   The engines of miras.h are programs over kernels. Here their text is compiled once more as device
   code: a block of threads owns a memory, one head of one sequence, and runs the engine in every
   thread alike; each kernel spreads its rows or elements over the block and ends in a barrier. So
   every row of the table, every choice and every gradient is here too, and states, tapes and
   parameters are laid out as on the host. Compiled with -fmad=false, without --use_fast_math, they
   have the bits of its sets with fused multiply-add, but for what takes the logarithm, sine or
   cosine of the C library: the value of a loss and the angles of attention, whose last bit may
   differ.

   Write this in exactly one source file for nvcc, and the includes alone in the others, which any
   compiler of C or C++ takes:

       #define MIRAS_IMPLEMENTATION
       #include "miras.h"
       #define MIRAS_CUDA_IMPLEMENTATION
       #include "miras_cuda.cuh"

   What is told from here on is the reference tier. MIRAS_CUDA_FAST adds a fast one, for training
   some models in bfloat16, which has a part of its own below; MIRAS_CUDA_NO_REFERENCE leaves this
   one out.

   A memory begins on the host, where it is made, read from a file, or set. Its device half lies in
   memory that the caller gives; all calls are queued in the caller's stream and allocate nothing.
   Those between _init and _copy wait for nothing and may be captured in a graph; these two wait
   where the host's memory is not pinned.

       miras_memory *m = miras_memory_open(&d, NULL, NULL, 0);
       size_t bytes = miras_cuda_memory_size(m, NULL, NULL, 0);
       cudaMalloc(&room, bytes);
       miras_cuda_memory_init(&g, m, NULL, room, bytes, stream);
       miras_cuda_memory_forward(&g, &tokens, y, NULL, stream); // pointers in tokens, and y: device
       miras_cuda_memory_copy(m, &g, stream); // and back, state and parameters

   HOW IT IS COMPILED
     unit     16 threads, half a warp, are a vector of 16 lanes, each holding one float of it. Sums
              fold as on the host
     kernel   by elements or rows, by units, or on the first unit alone; then a barrier. What it
              returns is told to all threads
     engine   runs in every thread, calls kernels and stores nothing by itself
     state    of a head: in shared memory while a block works on it, where it fits there
     task     of a layer or a trainer (@75 to @79 in miras.h): a tile of rows, a head, a block of
              parameters. A block takes tasks in turn; a phase of them is a grid
   Needs CUDA 12.1 (grids are told more than 4 KB) and compute capability 7.0. Not here: the choices
   that call functions of the caller's (bias and retention custom).

   THE BUILD
       nvcc -O3 -rdc=true -fmad=false -arch=sm_90 program.cu -o program
   -rdc=true    translates every device function once. In one piece, nvcc's default, ptxas takes
                many minutes, and the stack that threads need is not known. nvlink says of each
                grid that its stack cannot be determined (-Xnvlink -suppress-stack-size-warning)
   -arch        of the card, sm_80 and later for matrix units. nvcc's default is older code: right,
                but translated anew by the driver when the program starts, and without matrix units
                (miras_cuda_memory_size and miras_cuda_model_size say so)
   -fmad=false  for the host's bits; without it products and sums fuse, which is a little faster

   STACK
   Engines are called through pointers, so CUDA asks to be told how much stack a thread may take
   (cudaLimitStackSize, 1 KB unless set). It sets that aside for every thread that the card can
   hold, some 2048 x MIRAS_CUDA_STACK bytes for each multiprocessor beside what the _size calls
   say: 3.0 GB of an H100's memory. The limit is of a device and a process. Where it is lower than
   MIRAS_CUDA_STACK it is raised by the _init calls, and by any later call if something else in the
   process has lowered it since; not in a capture, where CUDA refuses that, nor for graphs that are
   replayed: see to it before. */
#ifndef MIRAS_CUDA_H
#define MIRAS_CUDA_H

#ifdef __CUDACC__
  #include <cuda_runtime.h>
#elif !defined(MIRAS_CUDA_SHIM)    /* tests/cuda_shim.h is there                                  */
  #include <cuda_runtime_api.h>
#endif

#ifdef MIRAS_CUDA_CUBLASLT         /* -lcublasLt                                                  */
  #include <cublasLt.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Threads of a block: a multiple of 32, and a constant, or else MIRAS_CUDA_MOST is what it is at
 * most. */
#ifndef MIRAS_CUDA_THREADS
  #define MIRAS_CUDA_THREADS 128
#endif
#ifndef MIRAS_CUDA_MOST
  #define MIRAS_CUDA_MOST MIRAS_CUDA_THREADS
#endif

/* Blocks that work on the tasks of a trainer at a time, each with a worker's scratch.
 * What an H200 has room for at 128 threads: two blocks to a multiprocessor. */
#ifndef MIRAS_CUDA_BLOCKS
  #define MIRAS_CUDA_BLOCKS 264
#endif

/* Bytes of stack that a thread may take (STACK, above). No chain of calls takes more than seven
 * eighths of it in the build above (tests/cuda_table.txt). 0: the limit is the caller's business,
 * and it must be as high before the first call: calls change nothing then. */
#ifndef MIRAS_CUDA_STACK
  #define MIRAS_CUDA_STACK 12288
#endif

#ifndef MIRAS_CUDA_NO_REFERENCE
/* How products of matrices are made. On matrix units sums are float32, and what is not a product of
 * matrices (sums, elementary functions, substitution, products of a single row) is as ever; the
 * same call has the same bits, but the same tokens cut into other calls may differ by rounding.
 * There matrix memories that are linear in their state have kernels of their own for passes of 16
 * tokens and more: with a decay per head or channel, up to 128 features, the identity as feature
 * and any length of keys; without normalize, value gate, separate erase, diagonal, inner_steps,
 * reset_every and learning_rate_gate per channel; and for the adjoint with values and chunks of up
 * to 128 where a block has the shared memory. Their substitution is over 16 rows at a time.
 * Perceptrons of two layers have one for passes in chunks of 8 to 128 and another for the adjoint:
 * with gates per head, or per channel of up to 128, retention all, l2, l2-both, or one whose
 * weights follow from A by a link (LQ and its p-norm form, KL on logits, signed, tanh, sigmoid;
 * bounded steps where that is a number), one inner step and no reset_every, where a block has the
 * shared memory (tiles of a chunk of C tokens of 64 entries with momentum, in KB: 0.8 C, twice that
 * with two bfloat16, beside slabs of 32 hidden columns and more). */
typedef enum miras_cuda_products {
  MIRAS_CUDA_FLOAT,      /* a chain of fused multiply-adds for each element: the host's bits      */
  MIRAS_CUDA_BF16X3,     /* matrix units: factors are sums of two bfloat16 each, of whose products
                            three are taken: to 2^-16 of |a| |b|, about                           */
  MIRAS_CUDA_BF16        /* matrix units: factors are rounded to bfloat16: to 2^-8, about         */
} miras_cuda_products;

/* Zeros, and NULL for all of it, are the host's bits. */
typedef struct miras_cuda_options {
  miras_cuda_products products;      /* but MIRAS_CUDA_FLOAT: code for compute capability 8.0 or
                                        later (-arch), and 128 or 256 for MIRAS_CUDA_THREADS      */
  int half_state;                    /* 1: states on the device are bfloat16, half the bytes that a
                                        call reads and writes. While a block works on them, in
                                        shared memory or, for one token of a matrix, in registers,
                                        they are float32, and every call rounds them once, to
                                        nearest, halfway to even; bench/results/gpu-expected.md says
                                        how far answers drift. For memories of chunk 1 whose states
                                        fit there; without tapes, and not for models              */
  int segments;                      /* most segments of a sequence that run side by side, where a
                                        call of miras_cuda_memory_forward has several: 2..65536;
                                        0: none. batch * heads * segments lies in 1..2^20. Not for
                                        models                                                    */
  int segment_length;                /* tokens of a segment, a multiple of the memory's chunk; 0
                                        without segments                                          */
} miras_cuda_options;

/* The device half of a memory: a record of the host that says where everything lies. It may be
 * copied, which makes no second memory. */
typedef struct miras_cuda_memory {
  uint64_t first;                    /* aligns what lies in the bytes behind it                   */
  unsigned char held[6136];
} miras_cuda_memory;

/* Bytes of device memory that the device half of m takes; 0 and a sentence in why (why_size bytes,
 * or NULL) if m is NULL, has a choice that calls a function of the caller's, or an option is not
 * for this memory or device. */
size_t miras_cuda_memory_size(const miras_memory *m, const miras_cuda_options *o, char *why,
                              size_t why_size);

/* Lay the device half of m out in `bytes` of device memory, aligned to 64, and send it m's
 * parameters and state. Raises the device's limit of stacks to MIRAS_CUDA_STACK where it is lower,
 * before any capture. m may go afterwards; until `stream` has come past this call it must stay as
 * it is. MIRAS_ERR_ARGUMENT: something but o is NULL; MIRAS_ERR_SIZE: too few bytes;
 * MIRAS_ERR_DESC: as miras_cuda_memory_size says in a sentence; MIRAS_ERR_DEVICE: a call of CUDA
 * failed, and cudaGetLastError says how. An error that was pending before a call of this header
 * stays the caller's. */
miras_result miras_cuda_memory_init(miras_cuda_memory *g, const miras_memory *m,
                                    const miras_cuda_options *o, void *device, size_t bytes,
                                    cudaStream_t stream);

/* Bring parameters and state to m, a memory of the same descriptor (MIRAS_ERR_MISMATCH where a size
 * or one of the four choices differs). They are there when `stream` has come past this call. */
miras_result miras_cuda_memory_copy(miras_memory *m, const miras_cuda_memory *g,
                                    cudaStream_t stream);

/* The parameters and the state on the device, as miras_memory_params and miras_memory_state have
 * them on the host. With half_state each sequence has its 16 floats of a header and then bfloat16,
 * as many as floats on the host. */
float *miras_cuda_memory_params(const miras_cuda_memory *g, size_t *count);
void *miras_cuda_memory_state(const miras_cuda_memory *g, size_t *bytes);

/* As if no token had come. */
miras_result miras_cuda_memory_reset(const miras_cuda_memory *g, cudaStream_t stream);

/* Segments. A plain call leaves all of a sequence to one block per head. Where the update of a
 * matrix is linear in the state, the state behind a segment is linear in the one before it: so
 * segments run from zeros, all at once, and so does what they make of the identity; a product for
 * each then says where they begin, and they run again from there. Forward goes over the tokens
 * three times and backward twice: that gains where batch * heads is well below a third of the
 * multiprocessors, with batch * heads * segments about as many as there are. Calls of 2 to
 * options.segments times options.segment_length tokens, which begin on the chunk grid, are run so,
 * and all others as without. Sums are in another order then: results agree up to rounding, and
 * have the same bits on every device. The memory is a matrix with bias dot or l2, retention all or
 * l2 and algorithm gradient-descent, implicit or normalized, without reset_every and
 * value_decay_gate, and with l2 without learning_rate_gate per channel and with up to 4096
 * features; miras_cuda_memory_size refuses others. Beside the rest it takes a state for every
 * segment of every head, what the segment makes of the identity ([features, features] with l2, else
 * [features]), and scratch.
 *
 * miras_memory_forward and miras_memory_backward with device pointers in x, dx and everywhere: the
 * same shapes, what is overwritten and what is added to. tape: miras_cuda_memory_tape_size floats,
 * NULL for none, which it is with half_state. Not checked here is where in a sequence a call comes,
 * which the device alone knows: a tape begins on the chunk grid, and dstate is NULL or zeros where
 * the call ends off it. */
miras_result miras_cuda_memory_forward(const miras_cuda_memory *g, const miras_memory_input *x,
                                       float *y, float *tape, cudaStream_t stream);

/* miras_memory_read: query [batch, heads, key_dim], out [batch, heads, value_dim] on the device. */
miras_result miras_cuda_memory_read(const miras_cuda_memory *g, const float *query, float *out,
                             cudaStream_t stream);
#ifndef MIRAS_NO_TRAINING
size_t miras_cuda_memory_tape_size(const miras_cuda_memory *g, int length);
miras_result miras_cuda_memory_backward(const miras_cuda_memory *g, const miras_memory_input *x,
                                        float *tape, const float *dy,
                                        const miras_memory_input_grad *dx, float *dparams,
                                        float *dstate, cudaStream_t stream);
#endif

#ifndef MIRAS_NO_MODEL
/* ---- models ---- */

/* The device half of a model. It refers to the host's, which must stay where it is. */
typedef struct miras_cuda_model {
  uint64_t first;                    /* aligns what lies in the bytes behind it                   */
  unsigned char held[56];
} miras_cuda_model;

/* As miras_cuda_memory_size and _init; what trains or runs the model makes its products so, too. */
size_t miras_cuda_model_size(const miras_model *m, const miras_cuda_options *o, char *why,
                             size_t why_size);
miras_result miras_cuda_model_init(miras_cuda_model *g, const miras_model *m,
                                   const miras_cuda_options *o, void *device, size_t bytes,
                                   cudaStream_t stream);
/* Bring the parameters to m, the host's model or one of the same descriptor (MIRAS_ERR_MISMATCH
 * where a size differs). */
miras_result miras_cuda_model_copy(miras_model *m, const miras_cuda_model *g,
                                   cudaStream_t stream);
/* As miras_model_params: on the device. */
float *miras_cuda_model_params(const miras_cuda_model *g, size_t *count);

#ifndef MIRAS_NO_TRAINING
/* ---- training ---- */

/* A trainer of a model on the device, which both stay where they are. Calls return before what they
 * ask for is done, in the order of one stream. */
typedef struct miras_cuda_trainer {
  uint64_t first;                    /* aligns what lies in the bytes behind it                   */
  unsigned char held[31800];
} miras_cuda_trainer;

/* Bytes of device memory; 0 and a sentence in why, as miras_trainer_size. d->parallel is NULL. */
size_t miras_cuda_trainer_size(const miras_cuda_model *g, const miras_trainer_desc *d, char *why,
                               size_t why_size);
miras_result miras_cuda_trainer_init(miras_cuda_trainer *t, const miras_cuda_model *g,
                                     const miras_trainer_desc *d, void *device, size_t bytes,
                                     cudaStream_t stream);
/* miras_trainer_loss of arrays on the device, which all of x's are; of what must be right in
 * them, as there, nothing is checked. loss: one float on the device, or NULL. */
miras_result miras_cuda_trainer_loss(miras_cuda_trainer *t, const miras_batch *x, int train,
                                     float *loss, cudaStream_t stream);
/* As miras_trainer_backward; what g (may be NULL) has, and wants, lies on the device. */
miras_result miras_cuda_trainer_backward(miras_cuda_trainer *t, const miras_batch_grad *g,
                                         cudaStream_t stream);
/* miras_trainer_step; norm: one float on the device, or NULL. In a graph the learning rate is that
 * of the capture. */
miras_result miras_cuda_trainer_step(miras_cuda_trainer *t, const miras_adamw_options *o,
                                     float learning_rate, float *norm, cudaStream_t stream);
/* As miras_trainer_grads: on the device. */
float *miras_cuda_trainer_grads(const miras_cuda_trainer *t, size_t *count);
/* Gradients, moments, steps and streams to a trainer of the host, which may have another batch and
 * context, and from one; MIRAS_ERR_MISMATCH for another model or number of streams. Parameters go
 * by miras_cuda_model_copy and _init. */
miras_result miras_cuda_trainer_copy(miras_trainer *to, const miras_cuda_trainer *t,
                                     cudaStream_t stream);
miras_result miras_cuda_trainer_send(miras_cuda_trainer *t, const miras_trainer *from,
                                     cudaStream_t stream);

/* ---- running texts, many at a time; their grids are those of training ---- */

/* `batch` texts side by side, each as miras_session has one. It stays where it is. */
typedef struct miras_cuda_session {
  uint64_t first;                    /* aligns what lies in the bytes behind it                   */
  unsigned char held[31800];
} miras_cuda_session;

/* Bytes of device memory for calls of up to `length` tokens of each; 0 if an argument is out of
 * range or they are too many. */
size_t miras_cuda_session_size(const miras_cuda_model *g, int batch, int length);
miras_result miras_cuda_session_init(miras_cuda_session *s, const miras_cuda_model *g, int batch,
                                     int length, void *device, size_t bytes, cudaStream_t stream);
/* Feed every text `length` rows, tokens [batch, length, tokens], which must be words of the model,
 * and vectors [batch, length, vectors], NULL where it reads none; logits [batch, rows, outputs]
 * behind the last `rows` of them, up to 64; rows 0: none. */
miras_result miras_cuda_session_feed(miras_cuda_session *s, const int32_t *tokens,
                                     const float *vectors, int length, float *logits, int rows,
                                     cudaStream_t stream);
/* As if no token had come: text `text`, or -1 for all. */
miras_result miras_cuda_session_reset(miras_cuda_session *s, int text, cudaStream_t stream);
/* The state of a text on the device, as miras_session_state has it on the host. */
void *miras_cuda_session_state(const miras_cuda_session *s, int text, size_t *bytes);
#endif
#endif
#endif   /* MIRAS_CUDA_NO_REFERENCE */

#if defined(MIRAS_CUDA_FAST) && !defined(MIRAS_NO_MODEL) && !defined(MIRAS_NO_TRAINING)
/* ---- the fast tier ----
 *
 * Opt-in: the macro MIRAS_CUDA_FAST; MIRAS_CUDA_NO_REFERENCE leaves all else here out, which takes
 * most of nvcc's time. It trains models whose layers' operations it has kernels for, on matrix
 * units (code for compute capability 8.0 and later): activations and the copies of matrices that
 * products read are bfloat16, parameters, moments, gradients of parameters, states at work and all
 * sums are float. Results have the same bits from run to run, and differ from the host's by
 * rounding. The list of a layer's operations is the list of launches: one each, two of a memory;
 * back two to four where sums over rows follow. Calls allocate nothing, wait for nothing, and may
 * be captured in a graph, but for _init. key_dim 128 takes 143 KB of shared memory for a block, 64
 * and 32 less than 99 KB.
 *
 * It has: norms, products, branches with dropout, convolutions, lengths, rotary positions of
 * memories, gates of decays and learning rates, skips, pointwise operations, and exact matrix
 * memories (linear attention, RetNet, Mamba-2, DeltaNet, Gated DeltaNet and their likes) with a
 * decay and a step per head, key_dim 32, 64 or 128 and value_dim a multiple of 32. It reads tokens
 * and says the next one. miras_cuda_fast_op tells what it has not. */
typedef struct miras_cuda_fast {
  uint64_t first;                    /* aligns what lies in the bytes behind it                   */
  unsigned char held[7168];
} miras_cuda_fast;

/* Operation `index` of a layer: 1, and its words in text (text_size bytes, or NULL), if it is run
 * here; 0, and why not behind them; -1: there is no such layer or operation. */
int miras_cuda_fast_op(const miras_model *m, int layer, int index, char *text, size_t text_size);

/* Bytes of device memory for training m; 0 and a sentence in why (why_size bytes, or NULL) if an
 * operation or the model is not run here. d: batch and context, carried is 0. */
size_t miras_cuda_fast_size(const miras_model *m, const miras_trainer_desc *d, char *why,
                            size_t why_size);
/* Lay a trainer out in `bytes` of device memory, aligned to 256, and send it m's parameters. m
 * stays where it is. MIRAS_ERR_ARGUMENT, MIRAS_ERR_DESC, MIRAS_ERR_SIZE, MIRAS_ERR_DEVICE as
 * miras_cuda_trainer_init. */
miras_result miras_cuda_fast_init(miras_cuda_fast *f, const miras_model *m,
                                  const miras_trainer_desc *d, void *device, size_t bytes,
                                  cudaStream_t stream);
#ifdef MIRAS_CUDA_CUBLASLT
/* From now on dense products are cuBLASLt's, of a handle of the caller's, and the tier's own where
 * it refuses one; _init sets that back. With the macro _size has 32 MB for it. Not run on
 * a card yet. The bits are those of its version, device and number of rows. */
miras_result miras_cuda_fast_cublaslt(miras_cuda_fast *f, cublasLtHandle_t handle);
#endif
/* The mean loss of texts, each from its start: x has tokens, classes and perhaps weights, on the
 * device, and nothing else; loss: one float on the device, or NULL. */
miras_result miras_cuda_fast_loss(miras_cuda_fast *f, const miras_batch *x, int train, float *loss,
                                  cudaStream_t stream);
/* The gradient of the last loss with train 1, which is added to. */
miras_result miras_cuda_fast_backward(miras_cuda_fast *f, cudaStream_t stream);
/* As miras_cuda_trainer_step. */
miras_result miras_cuda_fast_step(miras_cuda_fast *f, const miras_adamw_options *o,
                                  float learning_rate, float *norm, cudaStream_t stream);
/* Bring the parameters to m, a model of the same descriptor. */
miras_result miras_cuda_fast_copy(miras_model *m, const miras_cuda_fast *f, cudaStream_t stream);
/* Gradients, moments and steps to a trainer of the host, and from one (MIRAS_ERR_MISMATCH for
 * another model), as miras_cuda_trainer_copy and _send. */
miras_result miras_cuda_fast_trainer_copy(miras_trainer *to, const miras_cuda_fast *f,
                                          cudaStream_t stream);
miras_result miras_cuda_fast_trainer_send(miras_cuda_fast *f, const miras_trainer *from,
                                          cudaStream_t stream);
/* On the device, as miras_model_params and miras_trainer_grads. */
float *miras_cuda_fast_params(const miras_cuda_fast *f, size_t *count);
float *miras_cuda_fast_grads(const miras_cuda_fast *f, size_t *count);

/* One token of `batch` texts through matrix memories, decoding: rows of bfloat16, query and key
 * [batch, key_heads, key_dim], value and answer [batch, heads, value_dim], keep and step [batch,
 * heads]; state [batch, heads, value_dim, key_dim] floats, which change. All on the device, and
 * aligned to 16 bytes. key_dim 32, 64 or 128, value_dim a multiple of 16, of 32 with key_dim 32. */
typedef struct miras_cuda_fast_row {
  float *state;
  const uint16_t *query, *key, *value;
  uint16_t *answer;
  const float *keep, *step;
  int batch, heads, key_heads, key_dim, value_dim;
  int delta;                         /* 1: what is written is the error, step (value - read)      */
  int decay_first;                   /* 1: and errors are read behind the decay                   */
} miras_cuda_fast_row;
miras_result miras_cuda_fast_token(const miras_cuda_fast_row *x, cudaStream_t stream);
#endif

#ifdef __cplusplus
}
#endif
#endif   /* MIRAS_CUDA_H */

#ifdef MIRAS_CUDA_IMPLEMENTATION
#ifndef MIRAS_SELF
  #define MIRAS_SELF "miras.h"
#endif

#ifndef MIRAS_CUDA_NO_REFERENCE
#ifdef __CUDACC__
  #pragma nv_diagnostic push
  #pragma nv_diag_suppress 1675    /* pragmas of the host's compiler                              */
#endif
#ifdef __GNUC__                    /* records of kernels are this file's own                      */
  #pragma GCC diagnostic push
  #pragma GCC diagnostic ignored "-Wsubobject-linkage"
#endif

namespace { namespace miras_cuda {

/* ---- the vocabulary of room @21 for 16 threads ---- */

#define MIRAS__KERNEL_PASS
#define MIRAS__SET_SUFFIX _unit
#define MIRAS__SHARED_SUFFIX _unit
typedef float miras__vf;
typedef int miras__vm;
#define V_W 16
#define V_MATHS static inline
#define V_UNROLL MIRAS__UNROLL
#ifdef __CUDACC__
  #define V_UNROLL4 _Pragma("unroll 4")
#else
  #define V_UNROLL4
#endif
#define K_ROWS4 6
#define K_ROWS2 8
#define K_ROWS1 8

__device__ static inline size_t miras__lane(void) { return threadIdx.x % 16; }
__device__ static inline unsigned miras__unit_mask(void) { return 0xffffu << (threadIdx.x & 16); }
__device__ static inline float miras__load_n(const float *p, size_t n) {
  return miras__lane() < n ? p[miras__lane()] : 0.0f;
}
__device__ static inline void miras__store_n(float *p, float v, size_t n) {
  if (miras__lane() < n) p[miras__lane()] = v;
}
__device__ static inline float miras__pow2(float n) {
  return __int_as_float(((int)n + 127) * (1 << 23));
}
__device__ static inline int miras__logb(float x) {
  return (__float_as_int(x) - 0x3f3504f3) >> 23;
}
__device__ static inline float miras__fraction(float x) {
  return __int_as_float(__float_as_int(x) - miras__logb(x) * (1 << 23));
}
__device__ static inline void miras__transpose4(float *d, size_t ldd, const float *s, size_t lds) {
  for (int k = 0; k < 4; k++) d[k * ldd + miras__lane()] = s[miras__lane() * lds + k];
}
__device__ static inline float miras__hsum(const float *v) {
  float a = *v;
  for (int k = 8; k; k >>= 1) a = __fadd_rn(a, __shfl_xor_sync(miras__unit_mask(), a, k));
  return a;
}
__device__ static inline float miras__hmax(const float *v) {
  float a = *v >= -HUGE_VALF ? *v : -HUGE_VALF;      /* all lanes know one number, never NaN */
  for (int k = 8; k; k >>= 1) {
    const float b = __shfl_xor_sync(miras__unit_mask(), a, k);
    a = a < b ? b : a;
  }
  return a;
}
__device__ static inline float miras__at_lane(float v, size_t lane) {
  return __shfl_sync(miras__unit_mask(), v, (int)lane, 16);
}
#define V_LANE(v, r) miras__at_lane(v, r)
#define V_MOST(v) miras__hmax(&(v))
#define V_FRONT(v, n) (miras__lane() < (n) ? (v) : 0.0f)
#define V_FETCH(p, write) ((void)0)
#define V_AHEAD(p) ((void)0)
#define V_SYNC() __syncwarp(miras__unit_mask())
#define V_KEEP(to, value) do { \
    const float v_kept = (value); \
    V_SYNC(); \
    (to) = v_kept; \
  } while (0)
#define V_UNIT (threadIdx.x / 16)
#define V_UNITS (blockDim.x / 16)
#define V_MEET() __syncthreads()
#define V_ZERO() 0.0f
#define V_SET1(x) ((float)(x))
#define V_LOAD(p) ((p)[miras__lane()])
#define V_STORE(p, v) ((void)((p)[miras__lane()] = (v)))
#define V_ADD(a, b) __fadd_rn(a, b)
#define V_SUB(a, b) __fsub_rn(a, b)
#define V_MUL(a, b) __fmul_rn(a, b)
#define V_DIV(a, b) __fdiv_rn(a, b)
#define V_FMA(a, b, c) __fmaf_rn(a, b, c)
#define V_FNMA(a, b, c) __fmaf_rn(-(a), b, c)
#define V_MIN(a, b) ((a) < (b) ? (a) : (b))
#define V_MAX(a, b) ((a) > (b) ? (a) : (b))
#define V_ABS(a) fabsf(a)
#define V_NEG(a) (-(a))
#define V_SQRT(a) __fsqrt_rn(a)
#define V_LT(a, b) ((a) < (b))
#define V_LE(a, b) ((a) <= (b))
#define V_SELECT(m, a, b) ((m) ? (a) : (b))
#define V_COPYSIGN(m, s) copysignf(m, s)
#define V_ROUND(a) rintf(a)
#define V_LOGB(x) ((float)miras__logb(x))

#undef MIRAS__INLINE
#undef MIRAS__ALWAYS
#define MIRAS__INLINE static inline
#define MIRAS__ALWAYS static inline

/* ---- types, kernels of a unit ---- */

/* What takes types of the public part alone would be found in both namespaces. */
#define miras__features miras__cuda_features
#define miras__bias_growth miras__cuda_bias_growth
#define miras__gate_width miras__cuda_gate_width
#define miras__has_threshold miras__cuda_has_threshold
#define miras__keep_width miras__cuda_keep_width
#define miras__since miras__cuda_since
#define miras__since_read miras__cuda_since_read
#define miras__stretch miras__cuda_stretch
#define miras__sweeps miras__cuda_sweeps
#define miras__divergence_map miras__cuda_divergence_map
#define miras__gemm_room miras__cuda_gemm_room
#define miras__panel_room miras__cuda_panel_room
#define miras__rows_room miras__cuda_rows_room
#define miras__larger miras__cuda_larger

#define static static __device__
#define miras__kernels miras__unit_kernels
#define MIRAS__DEVICE MIRAS__DEVICE_TYPES
#include MIRAS_SELF
#undef MIRAS__DEVICE

#define MIRAS_X(part, result, name, arguments) static result miras__##name arguments;
MIRAS__KERNELS(MIRAS_X)
#undef MIRAS_X

/* Kernels call each other through a record of objects that can be called. */
template <class F, F f> struct miras__of_unit;
template <class R, class... P, R (*f)(P...)> struct miras__of_unit<R (*)(P...), f> {
  struct after { __device__ ~after() { V_SYNC(); } };
  __device__ __noinline__ R operator()(P... p) const {
    after last;
    (void)last;
    V_SYNC();
    return f(p...);
  }
};
struct miras__unit_kernels {
#define MIRAS_X(part, result, name, arguments) \
  miras__of_unit<decltype(&miras__##name), miras__##name> name;
  MIRAS__KERNELS(MIRAS_X)
#undef MIRAS_X
};

#define MIRAS__ISA MIRAS__ISA_WARP
#include MIRAS_SELF
#undef miras__kernels
#define MIRAS__SET_SUFFIX _unit    /* the kernel rooms end with taking these back */
#define MIRAS__SHARED_SUFFIX _unit

/* ---- kernels of a block, engines ---- */

struct miras__cuda_kernels;
/* Shared memory of a block: what a kernel returns, how many floats of room follow, how products are
 * made, floats of what lies behind the room, of a head's state and of parts of rows; whether a grid
 * of chunks has run the heads; that room, from MIRAS__ROOM on, and those. */
#ifdef __CUDACC__
extern __shared__ __align__(16) float miras__shared[];
#else
  #define miras__shared ((float *)shim_shared)
#endif
enum { MIRAS__ROOM = 8 };
static void miras__tell_room(size_t floats, int products, size_t state = 0, size_t parts = 0,
                             int ran = 0) {
  if (!threadIdx.x) {
    miras__shared[1] = (float)floats;  /* less than 2^24: exact                                   */
    miras__shared[2] = (float)products;
    miras__shared[3] = (float)state;   /* 0: a state stays where it is                            */
    miras__shared[4] = (float)parts;
    miras__shared[5] = (float)ran;
  }
  __syncthreads();
}
static int miras__products(void) { return (int)miras__shared[2]; }
template <class T> struct miras__of_block { typedef T type; };
template <> struct miras__of_block<const miras__unit_kernels *> {
  typedef const miras__cuda_kernels *type;
};
template <class T> static T miras__to_unit(T x) { return x; }
static const miras__unit_kernels miras__of_units = {};
static const miras__unit_kernels *miras__to_unit(const miras__cuda_kernels *) {
  return &miras__of_units;
}

/* What the units of a block share of `count` rows: as many to each, but for the last ones. */
static unsigned miras__unit(void) { return threadIdx.x / 16; }
static unsigned miras__units(void) { return blockDim.x / 16; }
static size_t miras__from(size_t count) {
  const size_t each = (count + miras__units() - 1) / miras__units();
  return each * miras__unit() < count ? each * miras__unit() : count;
}
static size_t miras__till(size_t count) {
  const size_t each = (count + miras__units() - 1) / miras__units();
  return each * (miras__unit() + 1) < count ? each * (miras__unit() + 1) : count;
}

/* The same of n elements, in vectors. */
static size_t miras__at_from(size_t n) {
  const size_t at = 16 * miras__from((n + 15) / 16);
  return at < n ? at : n;
}
static size_t miras__at_till(size_t n) {
  const size_t at = 16 * miras__till((n + 15) / 16);
  return at < n ? at : n;
}

/* An argument of a kernel of elements, as it is for those from `at` to `end`: arrays begin there,
 * and the number of elements, the one size among the arguments, is theirs. */
template <class T> static T miras__of_range(T x, size_t, size_t) { return x; }
static float *miras__of_range(float *p, size_t at, size_t) { return p ? p + at : p; }
static const float *miras__of_range(const float *p, size_t at, size_t) { return p ? p + at : p; }
static size_t miras__of_range(size_t, size_t at, size_t end) { return end - at; }

/* The last argument. */
static size_t miras__last(size_t n) { return n; }
template <class T, class... P> static size_t miras__last(T, P... p) { return miras__last(p...); }

/* How a kernel is spread over the block: on one unit unless said otherwise below. There are:
 *   dot, sum                              the 16 lanes of a sum are a unit's, in order
 *   decay_rows, scalar_decays, coefficients, and their adjoints
 *                                         a row comes from the one before, and is as short as a
 *                                         chunk is long; the adjoints sum every row
 *   implicit_bwd, diagonal_bwd            one token, with a sum in the middle
 *   erase_bwd                             one row of room for all rows, whose gains collect them
 *   bound_bwd                             products in the middle, on one place to pack; of a number
 *                                         that collects rows
 *   channel_row, channel_mix              what channel_rows of one unit calls
 * and what cases of others a comment there leaves to one unit. */
enum { MIRAS__ONE_UNIT, MIRAS__BY_ELEMENTS, MIRAS__ALL_UNITS };
template <class F, F f> struct miras__spread { enum { how = MIRAS__ONE_UNIT }; };
#define MIRAS_X(name)                                                              \
  template <> struct miras__spread<decltype(&miras__##name), miras__##name> {      \
    enum { how = MIRAS__BY_ELEMENTS };                                             \
  };
MIRAS_X(axpy)
MIRAS_X(scale)
MIRAS_X(add)
MIRAS_X(mul)
MIRAS_X(muladd)
MIRAS_X(fill)
MIRAS_X(flush)
MIRAS_X(copy)
MIRAS_X(map)
MIRAS_X(act_grad2)
MIRAS_X(sub)
MIRAS_X(sigmoid_bwd)
MIRAS_X(rest)
MIRAS_X(momentum_fwd)
MIRAS_X(shrink_from)
MIRAS_X(diagonal)
MIRAS_X(both_fwd)
MIRAS_X(both_bwd)
MIRAS_X(invert)
MIRAS_X(recede)
#undef MIRAS_X
/* These share what they do by themselves (V_UNIT in their text), or read and store nothing. */
#define MIRAS_X(name)                                                              \
  template <> struct miras__spread<decltype(&miras__##name), miras__##name> {      \
    enum { how = MIRAS__ALL_UNITS };                                               \
  };
MIRAS_X(signed_fwd)
MIRAS_X(simplex_fwd)
MIRAS_X(simplex_bwd)
MIRAS_X(divergence_step)
MIRAS_X(lq_fwd)
MIRAS_X(lq_bwd)
MIRAS_X(fold_column)
MIRAS_X(online_softmax)
MIRAS_X(conjugate_step)
MIRAS_X(conjugate_end)
MIRAS_X(absorb)
MIRAS_X(scan_fwd)
MIRAS_X(scan_bwd)
MIRAS_X(count_meet)
MIRAS_X(count_take)
MIRAS_X(count_bwd)
MIRAS_X(outer_even)
MIRAS_X(triangle_bwd)
MIRAS_X(conv_bwd)
MIRAS_X(linear_run)
#undef MIRAS_X

template <class F, F f, int how> struct miras__by_block;
template <class... P, void (*f)(P...)>
struct miras__by_block<void (*)(P...), f, MIRAS__ONE_UNIT> {
  __device__ __noinline__ void operator()(typename miras__of_block<P>::type... p) const {
    if (threadIdx.x < 16) f(miras__to_unit(p)...);
    __syncthreads();
  }
};
template <class R, class... P, R (*f)(P...)>
struct miras__by_block<R (*)(P...), f, MIRAS__ONE_UNIT> {
  __device__ __noinline__ R operator()(typename miras__of_block<P>::type... p) const {
    R r = 0;
    if (threadIdx.x < 16) r = f(miras__to_unit(p)...);
    if (threadIdx.x == 0) *miras__shared = (float)r;
    __syncthreads();
    r = (R)*miras__shared;
    __syncthreads();
    return r;
  }
};
template <class... P, void (*f)(P...)>
struct miras__by_block<void (*)(P...), f, MIRAS__BY_ELEMENTS> {
  __device__ __noinline__ void operator()(P... p) const {
    const size_t n = miras__last(p...), at = miras__at_from(n), end = miras__at_till(n);
    if (at < end) f(miras__of_range(p, at, end)...);
    __syncthreads();
  }
};

template <class... P, void (*f)(P...)>
struct miras__by_block<void (*)(P...), f, MIRAS__ALL_UNITS> {
  __device__ __noinline__ void operator()(P... p) const {
    f(p...);
    __syncthreads();
  }
};
template <class R, class... P, R (*f)(P...)>
struct miras__by_block<R (*)(P...), f, MIRAS__ALL_UNITS> {
  __device__ __noinline__ R operator()(P... p) const {
    const R r = f(p...);
    __syncthreads();
    return r;
  }
};

/* What a kernel is instead of a call by one unit. */
#define MIRAS__IS(name)                                                                           \
  template <>                                                                                     \
  struct miras__by_block<decltype(&miras__##name), miras__##name, MIRAS__ONE_UNIT>                \
      : miras__block_##name {}

/* Kernels of rows: what of the arguments begins with row r, and m of them. Where the rows of the
 * result, `far` apart, are one row that all are added to, one unit does it. */
#define MIRAS__BY_ROWS(name, afar, arguments, part)                                                \
  struct miras__block_##name {                                                                    \
    __device__ __noinline__ void operator() arguments const {                                     \
      const size_t r = afar ? miras__from(rows) : 0;                                               \
      const size_t m = afar ? miras__till(rows) - r : threadIdx.x < 16 ? rows : 0;                 \
      if (m) miras__##name part;                                                                  \
      __syncthreads();                                                                            \
    }                                                                                             \
  };                                                                                              \
  MIRAS__IS(name);

/* The same where columns do not see each other: where rows are few, or collected in one, w columns
 * of all of them from `at` on. */
#define MIRAS__BY_TILES(name, afar, arguments, part)                                               \
  struct miras__block_##name {                                                                    \
    __device__ __noinline__ void operator() arguments const {                                     \
      const int down = afar && (n <= 16 || rows >= blockDim.x / 16);                               \
      const size_t r = down ? miras__from(rows) : 0, m = down ? miras__till(rows) - r : rows;     \
      const size_t at = down ? 0 : miras__at_from(n), w = down ? n : miras__at_till(n) - at;      \
      if (m && w) miras__##name part;                                                             \
      __syncthreads();                                                                            \
    }                                                                                             \
  };                                                                                              \
  MIRAS__IS(name);
MIRAS__BY_TILES(copy_rows, ldy,
                (float *y, size_t ldy, const float *x, size_t ldx, size_t rows, size_t n),
                (y + r * ldy + at, ldy, x + r * ldx + at, ldx, m, w))
MIRAS__BY_TILES(fill_rows, ldy, (float *y, size_t ldy, float value, size_t rows, size_t n),
                (y + r * ldy + at, ldy, value, m, w))
MIRAS__BY_TILES(spread_rows, ldy,
                (float *y, size_t ldy, const float *s, size_t lds, size_t rows, size_t n),
                (y + r * ldy + at, ldy, s + r * lds, lds, m, w))
MIRAS__BY_TILES(add_rows, ldy,
                (float *y, size_t ldy, const float *x, size_t ldx, size_t rows, size_t n),
                (y + r * ldy + at, ldy, x + r * ldx + at, ldx, m, w))
MIRAS__BY_TILES(mul_rows, ldy,
                (float *y, size_t ldy, const float *a, size_t lda, const float *b, size_t ldb,
                 size_t rows, size_t n),
                (y + r * ldy + at, ldy, a + r * lda + at, lda, b + r * ldb + at, ldb, m, w))
MIRAS__BY_TILES(muladd_rows, ldy,
                (float *y, size_t ldy, const float *a, size_t lda, const float *b, size_t ldb,
                 size_t rows, size_t n),
                (y + r * ldy + at, ldy, a + r * lda + at, lda, b + r * ldb + at, ldb, m, w))
MIRAS__BY_TILES(scale_rows, ldy,
                (float *y, size_t ldy, float c, const float *s, size_t lds, const float *x,
                 size_t ldx, size_t rows, size_t n),
                (y + r * ldy + at, ldy, c, s ? s + r * lds : s, lds, x + r * ldx + at, ldx, m, w))
MIRAS__BY_TILES(axpy_rows, ldy,
                (float *y, size_t ldy, float c, const float *s, size_t lds, const float *x,
                 size_t ldx, size_t rows, size_t n),
                (y + r * ldy + at, ldy, c, s ? s + r * lds : s, lds, x + r * ldx + at, ldx, m, w))
MIRAS__BY_TILES(mask_rows, ldy,
                (float *y, size_t ldy, float value, size_t rows, size_t n, ptrdiff_t lo,
                 ptrdiff_t hi, size_t step),
                (y + r * ldy + at, ldy, value, m, w, lo + (ptrdiff_t)(r * step) - (ptrdiff_t)at,
                 hi + (ptrdiff_t)(r * step) - (ptrdiff_t)at, step))
MIRAS__BY_TILES(transpose, 1,
                (float *y, size_t ldy, const float *x, size_t ldx, size_t rows, size_t n),
                (y + r + at * ldy, ldy, x + r * ldx + at, ldx, m, w))
MIRAS__BY_TILES(squash_fwd, 1, (int f, float *y, size_t ldy, size_t rows, size_t n),
                (f, y + r * ldy + at, ldy, m, w))
MIRAS__BY_TILES(squash_bwd, 1,
                (int f, float *dy, size_t lddy, const float *y, size_t ldy, size_t rows,
                 size_t n),
                (f, dy + r * lddy + at, lddy, y + r * ldy + at, ldy, m, w))
MIRAS__BY_TILES(gate_rows_fwd, 1,
                (int f, float *s, size_t lds, const float *a, size_t lda, const float *b,
                 size_t ldb, size_t rows, size_t n),
                (f, s + r * lds + at, lds, a + r * lda + at, lda, b + r * ldb + at, ldb, m, w))
MIRAS__BY_TILES(gate_rows_bwd, 1,
                (int f, float *ds, size_t lds, float *a, size_t lda, float *b, size_t ldb,
                 size_t rows, size_t n),
                (f, ds + r * lds + at, lds, a + r * lda + at, lda, b + r * ldb + at, ldb, m, w))
MIRAS__BY_TILES(gates_fwd, 1,
                (const miras__gating *how, float *y, float *g, size_t ld, const float *offset,
                 const float *c, size_t rows, size_t n),
                (how, y + r * ld + at, g + r * ld + at, ld, miras__at(offset, at), c + at, m, w))
MIRAS__BY_TILES(gates_bwd, 0,
                (const miras__gating *how, float *dy, const float *g, size_t ld, float *doffset,
                 float *dc, const float *c, size_t rows, size_t n),
                (how, dy + r * ld + at, g + r * ld + at, ld, doffset + at, miras__to(dc, at),
                 c + at, m, w))
MIRAS__BY_ROWS(act_rows, 1,
               (int kind, float *y, size_t ldy, float *slope, const float *z, size_t rows,
                size_t n),
               (kind, y + r * ldy, ldy, miras__to(slope, r * n), z + r * n, m, n))
MIRAS__BY_ROWS(feature_rows, ldf,
               (int map, float *y, size_t ldf, const float *x, size_t ldx, size_t rows, size_t n),
               (map, y + r * ldf, ldf, x + r * ldx, ldx, m, n))

MIRAS__BY_ROWS(dot_rows, lds,
               (int add, float *s, size_t lds, const float *a, size_t lda, const float *b,
                size_t ldb, size_t rows, size_t n),
               (add, s + r * lds, lds, a + r * lda, lda, b + r * ldb, ldb, m, n))
MIRAS__BY_ROWS(sum_rows, lds,
               (int add, float *s, size_t lds, const float *a, size_t lda, size_t rows, size_t n),
               (add, s + r * lds, lds, a + r * lda, lda, m, n))
MIRAS__BY_ROWS(feature_rows_bwd, lddx,
               (int map, float *dx, size_t lddx, const float *df, const float *f, size_t ldf,
                const float *x, size_t ldx, size_t rows, size_t n),
               (map, dx + r * lddx, lddx, df + r * ldf, f + r * ldf, ldf, x + r * ldx, ldx, m, n))
MIRAS__BY_ROWS(implicit_rows, rates,
               (float epsilon, float *eta, size_t rates, const float *x, size_t ldx, size_t rows,
                size_t n),
               (epsilon, eta + r * rates, rates, x + r * ldx, ldx, m, n))
MIRAS__BY_ROWS(norm_rows, 1,
               (float *y, size_t ldy, float *xh, float *rstd, const float *z, const float *gain,
                const float *bias, float epsilon, size_t rows, size_t n),
               (y + r * ldy, ldy, xh + r * n, rstd + r, z + r * n, gain, bias, epsilon, m, n))
MIRAS__BY_ROWS(online_softmax_rows, 1,
               (float *s, float *top, float *sum, float *o, size_t dv, size_t count, size_t rows),
               (s + r * count, top + r, sum + r, o + r * dv, dv, count, m))
MIRAS__BY_ROWS(qk_norm_fwd, 1, (float *x, float *inverse, float length, size_t rows, size_t n),
               (x + r * n, inverse ? inverse + r : inverse, length, m, n))
MIRAS__BY_ROWS(fade, 1,
               (int side, float *to, const float *a, const float *init, size_t rows, size_t out),
               (side, to + r * out, a + (side == MIRAS__INPUTS ? r : 0), miras__at(init, r * out),
                m, out))
MIRAS__BY_ROWS(qk_norm_bwd, 1,
               (float *dx, const float *x, const float *inverse, float length, size_t rows,
                size_t n),
               (dx + r * n, x + r * n, inverse + r, length, m, n))
MIRAS__BY_ROWS(norm_project, 1,
               (float *out, const float *y, const float *xh, const float *scale, size_t rows,
                size_t n),
               (out + r * n, y + r * n, xh + r * n, scale + r, m, n))
MIRAS__BY_ROWS(complement, 1,
               (int form, float cap, float *key, const float *gate, const float *g, size_t ld,
                size_t rows, size_t n),
               (form, cap, key + r * n, gate + r * ld, g + r * ld, ld, m, n))
MIRAS__BY_ROWS(attend_bwd, 1,
               (float *s, float *bs, const float *top, const float *sum, const float *along,
                size_t rows, size_t n),
               (s + r * n, bs + r * n, top, sum, along, m, n))
MIRAS__BY_ROWS(triangle, 1,
               (float *p, float inv, const float *g, size_t ldg, const float *x, size_t ldx,
                size_t seen, size_t inner_steps, size_t rows),
               (p + r * ldx, inv, miras__at(g, r * ldg), ldg, x + r * ldx, ldx,
                seen + r * inner_steps, inner_steps, m))
MIRAS__BY_ROWS(normaliser, 1,
               (const miras__cuda_kernels *K, float *den, const float *p, size_t ld,
                const float *eta, size_t rows, size_t first, size_t step),
               (miras__to_unit(K), den + r, p + r * ld, ld, eta, m, first + r * step, step))
MIRAS__BY_ROWS(rates_fwd, 1,
               (int form, float *rate, float *slope, const float *rho, size_t row, size_t rows,
                size_t inner_steps),
               (form, rate + r, slope + r, rho, row + r, m, inner_steps))
MIRAS__BY_ROWS(bound_share, 1,
               (float *share, float *eta, const float *along, const float *curve,
                const float *drift, float c, size_t rows, size_t wide),
               (share + r, eta + r * wide, along + r, curve + r, drift + r, c, m, wide))
MIRAS__BY_ROWS(bound_share_bwd, 1,
               (float *eta, float *b_eta, float *along, float *curve, float *drift,
                const float *share, float c, size_t rows, size_t wide),
               (eta + r * wide, b_eta + r * wide, along + r, curve + r, drift + r, share + r, c, m,
                wide))

/* Rows, or where they are few some of the heads of all of them. */
struct miras__block_rotary {
  __device__ __noinline__ void operator()(float *y, size_t ldy, const float *x, size_t ldx,
                                          const float *angles, int way, size_t rows,
                                          size_t heads, size_t dim, size_t turn) const {
    const int down = rows >= blockDim.x / 16;
    const size_t r = down ? miras__from(rows) : 0, m = down ? miras__till(rows) - r : rows;
    const size_t h = down ? 0 : miras__from(heads), own = down ? heads : miras__till(heads) - h;
    if (m && own)
      miras__rotary(y + r * ldy + h * dim, ldy, x + r * ldx + h * dim, ldx, angles + r * turn, way,
                    m, own, dim, turn);
    __syncthreads();
  }
};
MIRAS__IS(rotary);

/* Rows, or where they are few some of the heads of all of them. */
struct miras__block_heads_norm_fwd {
  __device__ __noinline__ void operator()(float *y, size_t ldy, const miras__norming *all) const {
    const int down = all->rows >= blockDim.x / 16;
    const size_t h = down ? 0 : miras__from(all->heads), r = down ? miras__from(all->rows) : 0;
    miras__norming x = *all;
    x.x += r * x.ldx + h * x.dim, x.gain += h * x.dim, x.bias = miras__at(x.bias, h * x.dim);
    x.gate = miras__at(x.gate, r * x.ld_gate + h * x.dim);
    if (down) x.rows = miras__till(x.rows) - r;
    else x.heads = miras__till(x.heads) - h;
    if (x.rows && x.heads) miras__heads_norm_fwd(y + r * ldy + h * x.dim, ldy, &x);
    __syncthreads();
  }
};
MIRAS__IS(heads_norm_fwd);

/* Vectors of channels of a row, in turn. */
struct miras__block_conv_fwd {
  __device__ __noinline__ void operator()(float *z, const miras__conv *x) const {
    const size_t each = (x->dim + 15) / 16, all = x->rows * x->heads * each;
    for (size_t e = miras__unit(); e < all; e += miras__units()) {
      const size_t t = e / each / x->heads, h = e / each % x->heads, at = e % each * 16;
      const float acc = miras__conv_sum(x, t, h * x->dim + at, x->dim - at);
      float slope;
      miras__store_n(z + h * x->per + t * x->dim + at,
                     miras__v_function(x->function, acc, &slope), x->dim - at);
    }
    __syncthreads();
  }
};
MIRAS__IS(conv_fwd);

struct miras__block_erase_fwd {
  __device__ __noinline__ void operator()(float *key, float *erase, float *replace,
                                          const miras__erasing *all) const {
    const size_t r = miras__from(all->rows), at = r * all->n;
    miras__erasing x = *all;
    x.x += at, x.c += r * x.ldc, x.rows = miras__till(x.rows) - r;
    if (x.rows) miras__erase_fwd(key + at, erase + at, replace + at, &x);
    __syncthreads();
  }
};
MIRAS__IS(erase_fwd);

/* Which elements stay is drawn from key and number: with the key of the first one's number. */
struct miras__block_dropout {
  __device__ __noinline__ void operator()(float *y, const float *base, const float *x,
                                          uint64_t key, uint32_t limit, float scale,
                                          size_t n) const {
    const size_t at = miras__at_from(n), end = miras__at_till(n);
    const uint32_t low = (uint32_t)key + (uint32_t)at * 0x9e3779b1u;
    if (at < end)
      miras__dropout(y + at, miras__at(base, at), x + at, key >> 32 << 32 | low, limit, scale,
                     end - at);
    __syncthreads();
  }
};
MIRAS__IS(dropout);

struct miras__block_adamw {
  __device__ __noinline__ void operator()(float *w, float *m, float *v, float *g, size_t n,
                                          const float *c) const {
    const size_t at = miras__at_from(n), end = miras__at_till(n);
    if (at < end) miras__adamw(w + at, m + at, v + at, g + at, end - at, c);
    __syncthreads();
  }
};
MIRAS__IS(adamw);

/* Every unit looks through some of it; they tell what they found one after the other. */
struct miras__block_any {
  __device__ __noinline__ int operator()(const float *x, size_t n) const {
    const size_t at = miras__at_from(n), end = miras__at_till(n);
    const int some = at < end && miras__any(x + at, end - at);
    if (!threadIdx.x) *miras__shared = 0;
    for (unsigned unit = 0; unit < miras__units(); unit++) {
      if (some && threadIdx.x == unit * 16) *miras__shared = 1;
      __syncthreads();
    }
    const int found = *miras__shared > 0;
    __syncthreads();
    return found;
  }
};
MIRAS__IS(any);

/* The largest by all units, one after the other, then the exponentials; their sum, whose order is
 * told, takes the first unit. Where none are stored it takes all of it. */
struct miras__block_cross_entropy {
  __device__ __noinline__ float operator()(float *x, size_t n, size_t target, float scale) const {
    const size_t at = miras__at_from(n), end = miras__at_till(n);
    const float own = miras__top(x + at, end - at);
    float top, now, total = 0;
    if (!(scale > 0)) {
      if (miras__unit() == 0) total = miras__cross_entropy(x, n, target, scale);
      if (!threadIdx.x) *miras__shared = total;
      __syncthreads();
      total = *miras__shared;
      __syncthreads();
      return total;
    }
    now = x[target];
    for (unsigned unit = 0; unit < miras__units(); unit++) {
      if (threadIdx.x == unit * 16 && (!unit || own > *miras__shared)) *miras__shared = own;
      __syncthreads();
    }
    top = *miras__shared;
    __syncthreads();
    (void)miras__exp_sum(x + at, x + at, top, end - at);
    __syncthreads();
    if (miras__unit() == 0) total = miras__sum(x, n);
    if (!threadIdx.x) *miras__shared = total;
    __syncthreads();
    total = *miras__shared;
    miras__scale(x + at, scale / total, x + at, end - at);
    __syncthreads();
    if (!threadIdx.x) x[target] = __fsub_rn(x[target], scale);
    __syncthreads();
    return logf(total) + top - now;
  }
};
MIRAS__IS(cross_entropy);

/* The first unit takes all of it. */
struct miras__block_number_loss {
  __device__ __noinline__ float operator()(int type, float *x, const float *y, size_t n, float at,
                                           float scale, float *room) const {
    float loss = 0;
    if (miras__unit() == 0) loss = miras__number_loss(type, x, y, n, at, scale, room);
    if (!threadIdx.x) *miras__shared = loss;
    __syncthreads();
    loss = *miras__shared;
    __syncthreads();
    return loss;
  }
};
MIRAS__IS(number_loss);

/* A cotangent of gamma is summed by 256 elements, which units take in turn, and from these. */
struct miras__block_shrink_from_bwd {
  __device__ __noinline__ float operator()(const miras__plan *p, float *ba, int add,
                                           const float *bw, const float *a, const float *b,
                                           float *bb, float gamma, size_t n) const {
    const size_t parts = (n + 255) / 256;
    const int spread = parts <= (size_t)miras__shared[1];
    float *const sums = miras__shared + MIRAS__ROOM;
    double total = 0;
    for (size_t i = miras__unit(); spread && i < parts; i += miras__units()) {
      const size_t at = 256 * i;
      const float sum = miras__shrink_from_bwd(p, ba + at, add, bw + at, a + at, miras__at(b, at),
                                               miras__to(bb, at), gamma,
                                               n - at < 256 ? n - at : 256);
      if (miras__lane() == 0) sums[i] = sum;
    }
    if (!spread && miras__unit() == 0)
      total = miras__shrink_from_bwd(p, ba, add, bw, a, b, bb, gamma, n);
    __syncthreads();
    for (size_t i = 0; spread && i < parts; i++) total += (double)sums[i];
    if (!threadIdx.x) *miras__shared = (float)total;
    __syncthreads();
    const float all = *miras__shared;
    __syncthreads();
    return all;
  }
};
MIRAS__IS(shrink_from_bwd);

struct miras__block_fold_few {
  __device__ __noinline__ void operator()(size_t pairs, float *s, const float *c, size_t ld_c,
                                          const float *const *x, const float *const *u, size_t n,
                                          size_t dv) const {
    const size_t r = miras__from(n), m = miras__till(n) - r;
    const float *own[4] = {NULL, NULL, NULL, NULL};
    for (size_t i = 0; i < pairs; i++) own[i] = x[i] + r;
    if (m) miras__fold_few(pairs, s + r * dv, c + r * ld_c, ld_c, own, u, m, dv);
    __syncthreads();
  }
};
MIRAS__IS(fold_few);

/* Rows have a decay each, or all share one, whose cotangent one unit sums; a decay of values
 * collects rows, and a column more lies behind all of them: one unit. */
struct miras__block_decays_bwd {
  __device__ __noinline__ void operator()(float *ds, float *dc, float *dcv, const float *s0,
                                          const float *c, size_t ld_c, const float *cv,
                                          int column, size_t n, size_t dv) const {
    if (!ld_c && !cv) {
      const size_t all = n * dv + (column ? n : 0), at = miras__at_from(all);
      const float sum = dc && miras__unit() == 0 ? miras__dot(s0, ds, all) : 0;
      if (dc && threadIdx.x == 0) *dc = __fadd_rn(*dc, sum);
      __syncthreads();
      if (at < all) miras__scale(ds + at, *c, ds + at, miras__at_till(all) - at);
    } else if (cv || column) {
      if (miras__unit() == 0) miras__decays_bwd(ds, dc, dcv, s0, c, ld_c, cv, column, n, dv);
    } else {
      const size_t r = miras__from(n), m = miras__till(n) - r;
      if (m)
        miras__decays_bwd(ds + r * dv, miras__to(dc, r), NULL, s0 + r * dv, c + r, ld_c, NULL, 0, m,
                        dv);
    }
    __syncthreads();
  }
};
MIRAS__IS(decays_bwd);

struct miras__block_norm_rows_begin2 {
  __device__ __noinline__ void operator()(const miras__cuda_kernels *, float *be,
                                          const miras__norm2 *all) const {
    const size_t r = miras__from(all->rows), at = r * all->n;
    miras__norm2 x = *all;
    x.rows = miras__till(x.rows) - r;
    x.bd += at, x.d += at, x.e += at, x.xh += at, x.rstd += r, x.u += at, x.bxh += at, x.bs += r;
    if (x.rows) miras__norm_rows_begin2(&miras__of_units, be + at, &x);
    __syncthreads();
  }
};
MIRAS__IS(norm_rows_begin2);

/* A row at a time, whose product needs no place to pack. */
struct miras__block_bound_fwd {
  __device__ __noinline__ void operator()(const miras__cuda_kernels *, const miras__bound *all,
                                          float *u, float *v, float *z) const {
    for (size_t i = miras__unit(); i < all->m; i += miras__units()) {
      miras__bound x = *all;
      x.m = 1;
      x.y += i * x.in, x.d += i * x.out, x.eta += i * x.wide;
      x.fed = miras__at(x.fed, i * x.hears);
      x.curve += i, x.drift = miras__to(x.drift, i);
      miras__bound_fwd(&miras__of_units, &x, u + i * x.in, v + i * x.out, z + i * x.out);
    }
    __syncthreads();
  }
};
MIRAS__IS(bound_fwd);

/* Channels do not see each other. */
struct miras__block_channel_decay {
  __device__ __noinline__ void operator()(const miras__cuda_kernels *, float *a,
                                          const float *before, const float *alpha, size_t m,
                                          size_t n) const {
    const size_t at = miras__at_from(n), w = miras__at_till(n) - at;
    for (a += at, alpha += at, before = miras__at(before, at); w && m; m--) {
      if (before) miras__mul(a, alpha, before, w);
      else miras__copy(a, alpha, w);
      before = a, a += n, alpha += n;
    }
    __syncthreads();
  }
};
MIRAS__IS(channel_decay);

struct miras__block_channel_decay_bwd {
  __device__ __noinline__ void operator()(const miras__cuda_kernels *, float *dalpha, float *ba,
                                          const float *a, const float *alpha, size_t m,
                                          size_t n) const {
    const size_t at = miras__at_from(n), w = miras__at_till(n) - at;
    for (dalpha += at, ba += at, a += at, alpha += at, m *= n; w && m > n;) {
      m -= n;
      miras__muladd(dalpha + m, ba + m, a + m - n, w);
      miras__muladd(ba + m - n, alpha + m, ba + m, w);
    }
    if (w) miras__add(dalpha, ba, w);
    __syncthreads();
  }
};
MIRAS__IS(channel_decay_bwd);

/* Head by head: what rows are known by and what stands in front of a gate, row by row; then
 * channels, whose gains collect rows. */
struct miras__block_heads_norm_bwd {
  __device__ __noinline__ void operator()(float *dx, size_t lddx, const float *base, size_t ldbase,
                                          const miras__norm_grads *g, float *y, size_t ldy,
                                          float *dy, size_t lddy, const miras__norming *of) const {
    const size_t rows = of->rows, at = miras__at_from(of->dim), w = miras__at_till(of->dim) - at;
    miras__norm_row *const known = (miras__norm_row *)(miras__shared + MIRAS__ROOM);
    const int spread = 4 * rows <= (size_t)miras__shared[1];
    for (size_t h = 0; spread && h < of->heads * of->dim; h += of->dim) {
      for (size_t t = miras__unit(); t < rows; t += miras__units()) {
        const float *x = of->x + t * of->ldx + h;
        float *d = dy + t * lddy + h;
        miras__norm_row k = miras__norm_known(x, of);
        if (of->gate)
          miras__norm_gate_bwd(g->gate + t * g->ld_gate + h, miras__to(y, t * ldy + h), d, x,
                               of->gate + t * of->ld_gate + h, of, h, &k, of->dim);
        miras__norm_along(&k, d, x, of->gain + h, of);
        if (miras__lane() == 0) known[t] = k;
      }
      __syncthreads();
      for (size_t t = 0; w && t < rows; t++)
        miras__norm_bwd_row(dx + t * lddx + h + at, miras__at(base, t * ldbase + h + at), g,
                            of->gate ? NULL : miras__to(y, t * ldy + h + at),
                            dy + t * lddy + h + at, of->x + t * of->ldx + h + at, of, h + at,
                            known + t, w);
      __syncthreads();
    }
    if (!spread && miras__unit() == 0)
      miras__heads_norm_bwd(dx, lddx, base, ldbase, g, y, ldy, dy, lddy, of);
    __syncthreads();
  }
};
MIRAS__IS(heads_norm_bwd);

/* What is collected over rows by channels, then rows. */
struct miras__block_norm_rows_end2 {
  __device__ __noinline__ void operator()(const miras__cuda_kernels *, float *bz, const float *br,
                                          float *dgain, float *dbias,
                                          const miras__norm2 *x) const {
    const size_t n = x->n, at = miras__at_from(n), w = miras__at_till(n) - at;
    for (size_t i = 0, e = at; w && i < x->rows; i++, e += n) {
      miras__muladd(dgain + at, x->e + e, x->u + e, w);
      miras__muladd(x->bxh + e, x->gain + at, br + e, w);
      miras__muladd(dgain + at, x->xh + e, br + e, w);
      miras__add(dbias + at, br + e, w);
    }
    __syncthreads();
    for (size_t i = miras__unit(); i < x->rows; i += miras__units()) {
      miras__norm_project(bz + i * n, x->bxh + i * n, x->xh + i * n, x->rstd + i, 1, n);
      miras__axpy(bz + i * n, __fdiv_rn(x->bs[i], (float)n), x->xh + i * n, n);
    }
    __syncthreads();
  }
};
MIRAS__IS(norm_rows_end2);

/* Rows, where each sees more than the one before; else one unit does it. */
struct miras__block_weigh_bwd {
  __device__ __noinline__ void operator()(const miras__cuda_kernels *, float *dl, float *dp,
                                          const float *l, const float *z, size_t ld, size_t rows,
                                          size_t first, size_t step, size_t n) const {
    const size_t r = step ? miras__from(rows) : 0;
    const size_t m = step ? miras__till(rows) - r : miras__unit() ? 0 : rows;
    if (m)
      miras__weigh_bwd(&miras__of_units, miras__to(dl, r * step * ld), dp + r * ld,
                       l + r * step * ld, z + r * ld, ld, m, first + r * step, step, n);
    __syncthreads();
  }
};
MIRAS__IS(weigh_bwd);

/* By channels, as channel_decay. */
struct miras__block_channel_decays {
  __device__ __noinline__ void operator()(const miras__cuda_kernels *, float *last, float *c,
                                          const float *alpha, size_t n, size_t r0,
                                          size_t m) const {
    const size_t at = miras__at_from(n), w = miras__at_till(n) - at;
    c += at, last += at, alpha += at;
    if (w && r0) miras__copy(c, last, w);
    else if (w) miras__fill(c, 1, w);
    for (size_t i = 0; w && i < m; i++, c += n, alpha += n) {
      miras__mul(c + n, alpha, c, w);
      if ((r0 + i + 1) % MIRAS__SWEEP == 0) miras__flush(c + n, c + n, w);
    }
    if (w) miras__copy(last, c, w);
    __syncthreads();
  }
};
MIRAS__IS(channel_decays);

struct miras__block_normaliser_bwd {
  __device__ __noinline__ void operator()(const miras__cuda_kernels *, float *deta,
                                          const float *dden, const float *p, size_t ld,
                                          size_t rows, size_t first, size_t step) const {
    const size_t last = rows ? first + (rows - 1) * step : 0;
    const size_t at = miras__at_from(last), end = miras__at_till(last);
    for (size_t i = 0; at < end && i < rows; i++, p += ld, first += step)
      if (first > at) miras__axpy(deta + at, dden[i], p + at, (first < end ? first : end) - at);
    __syncthreads();
  }
};
MIRAS__IS(normaliser_bwd);

/* The row that had nothing to read by the first unit, the others by all. */
struct miras__block_softmax_mean {
  __device__ __noinline__ void operator()(const miras__cuda_kernels *, float *o, size_t dv,
                                          float *top, float *sum, size_t m, const float *empty,
                                          size_t width) const {
    const size_t first = empty ? 1 : 0, r = first + miras__from(m - first);
    const size_t end = first + miras__till(m - first);
    if (empty && miras__unit() == 0)
      miras__softmax_mean(&miras__of_units, o, dv, top, sum, 1, empty, width);
    if (r < end)
      miras__softmax_mean(&miras__of_units, o + r * dv, dv, top + r, sum + r, end - r, NULL, 0);
    __syncthreads();
  }
};
MIRAS__IS(softmax_mean);

struct miras__block_conjugate_start {
  __device__ __noinline__ void operator()(const miras__conjugate *all) const {
    const size_t r = miras__from(all->rows), at = r * all->n;
    miras__conjugate g = *all;
    g.rows = miras__till(g.rows) - r;
    g.x += at, g.r += at, g.s += at, g.rr += r, g.limit += r;
    if (g.rows) miras__conjugate_start(&g);
    __syncthreads();
  }
};
MIRAS__IS(conjugate_start);

/* Rows that have a decay each; of others one number or one row collects them all. */
struct miras__block_fade_bwd {
  __device__ __noinline__ void operator()(int side, float *b, float *ba, float *binit,
                                          const float *a, const float *from, const float *init,
                                          size_t in, size_t out) const {
    const size_t r = side == MIRAS__INPUTS ? miras__from(in) : 0, at = r * out;
    const size_t m = side == MIRAS__INPUTS ? miras__till(in) - r : miras__unit() ? 0 : in;
    if (m)
      miras__fade_bwd(side, b + at, ba + r, init ? binit + at : NULL, a + r, from + at,
                      init ? init + at : NULL, m, out);
    __syncthreads();
  }
};
MIRAS__IS(fade_bwd);

/* A unit for each sum, and then elements by all. */
struct miras__block_momentum_bwd {
  __device__ __noinline__ void operator()(float *bs, float *bf, float *bh, const float *s,
                                          const float *ba, float f, float h, size_t n) const {
    const size_t at = miras__at_from(n), end = miras__at_till(n);
    if (miras__unit() == 0) miras__dot_rows(1, bf, 1, s, n, ba, n, 1, n);
    if (miras__unit() == miras__units() - 1) miras__dot_rows(1, bh, 1, s, n, bs, n, 1, n);
    __syncthreads();
    if (at < end) miras__scale(bs + at, h, bs + at, end - at);
    if (at < end) miras__axpy(bs + at, f, ba + at, end - at);
    __syncthreads();
  }
};
MIRAS__IS(momentum_bwd);

/* Errors of rows: those of some of them. Adjoints with one threshold for a row share the room. */
struct miras__block_bias_rows {
  __device__ __noinline__ void operator()(const miras__errors *all, float *b, float *bv,
                                          float *bdelta, float *room) const {
    const int apart = !b || all->d->threshold_gate == MIRAS_GATE_CHANNEL;
    const size_t r = apart ? miras__from(all->rows) : 0;
    const size_t m = apart ? miras__till(all->rows) - r : threadIdx.x < 16 ? all->rows : 0;
    miras__errors x = *all;
    x.rows = m;
    x.e += r * x.n, x.loss += r, x.r += r * x.n, x.v += r * x.n, x.delta += r * x.bounds;
    x.along = miras__to(x.along, r), x.balong = miras__at(x.balong, r);
    if (m)
      miras__bias_rows(&x, b ? b + r * x.n : b, b ? bv + r * x.n : bv,
                       b ? bdelta + r * x.bounds : bdelta, room);
    __syncthreads();
  }
};
MIRAS__IS(bias_rows);

/* Columns of values do not see each other: a vector of them to each unit, in turn. */
struct miras__block_exact_solve {
  __device__ __noinline__ void operator()(int back, const miras__solve *s, size_t r0,
                                          size_t m) const {
    size_t x = threadIdx.x & ~(size_t)15;
    for (; x < s->dv; x += blockDim.x)
      if (back) miras__exact_strip(1, 1, s->dv - x, s, x, r0, m);
      else miras__exact_strip(0, 1, s->dv - x, s, x, r0, m);
    __syncthreads();
  }
};
MIRAS__IS(exact_solve);

/* ---- products ----
 *
 * Every element of a product is one chain of fused multiply-adds in the order of k (room @24), and
 * a thread has elements of its own. A tile of the result is 8 R rows of T / 2 columns for T
 * threads, of which each holds R rows and 4 columns in registers: 8 x 4 where there are rows for
 * it. It runs over all of k in parts of 16, which lie in shared memory [16, rows] and [16,
 * columns], twice: while a part is multiplied the next one is on its way into registers, so that
 * there is one barrier to a part. Then 64 x 64 elements of 128 threads take 65536 multiply-adds a
 * barrier, 512 of a thread, over 8 KB that came from memory, and 3 loads of 16 bytes from shared
 * memory to every 32 of them. A warp is 8 threads down by 4 across: their rows and columns are 128
 * and 64 bytes that lie together, so that such a load is one access. What goes in turned is written
 * down the rows of a part, 4 floats longer than they need be, two threads to a bank.
 *
 * Products of up to 8 rows, single elements among them, wait for memory. A thread has a column and
 * some of the rows: all of them, unless columns are few. Factors come to shared memory by copies
 * that run on beside the chains, in parts of all rows, some columns and some of k: one part where
 * all of k fits, or else two to four of them are there or on their way. The left factor lies there
 * in rows along k, and so does a right one that is turned. A straight one, in rows of columns, is
 * read in place where that is shared memory, or where each thread has a column of it: neighbours
 * read neighbours, 16 of k on their way. A few steps of k are read where they are. */
enum { MIRAS__DEEP = 16 };
#define MIRAS__PRODUCT_ROOM(threads) \
  (2 * 16 * (64 + 4 + 4 + ((threads) < 512 ? (threads) / 2 : 256)))
#ifdef __CUDACC__
  #define K_ALL _Pragma("unroll")
#else
  #define K_ALL
#endif

/* A factor as tiles take it: element (w, k) of `wide` rows of the left one, or columns of the right
 * one, is p[w * across + k * along]. Quads of it lie along k, or else across it. */
typedef struct miras__factor {
  const float *p;
  size_t across, along, wide, deep;
  unsigned quads;                    /* of a tile across k                                        */
  int turned;
} miras__factor;

/* Where quad q of this thread lies in a part of D. */
template <int D> static unsigned miras__quad_w(const miras__factor *f, unsigned q) {
  const unsigned e = threadIdx.x + q * blockDim.x;
  return f->turned ? e / (D / 4) : e % f->quads * 4;
}
template <int D> static unsigned miras__quad_k(const miras__factor *f, unsigned q) {
  const unsigned e = threadIdx.x + q * blockDim.x;
  return f->turned ? e % (D / 4) * 4 : e / f->quads;
}

template <int D> static int miras__quad_in(const miras__factor *f, unsigned q) {
  return threadIdx.x + q * blockDim.x < D * f->quads;
}

/* The Q quads of this thread of the part at (w0, k0), zeros beyond the factor's end. */
template <int D, int Q>
static void miras__fetch(float v[Q][4], const miras__factor *f, size_t w0, size_t k0) {
  const size_t step = f->turned ? f->along : f->across;
  K_ALL for (unsigned q = 0; q < Q; q++) {
    const size_t w = w0 + miras__quad_w<D>(f, q), k = k0 + miras__quad_k<D>(f, q);
    const int in = miras__quad_in<D>(f, q) && w < f->wide && k < f->deep;
    const size_t left = !in ? 0 : f->turned ? f->deep - k : f->wide - w;
    const float *p = f->p + w * f->across + k * f->along;
    if (left >= 4 && step == 1 && (uintptr_t)p % sizeof(float4) == 0) {
      const float4 four = *(const float4 *)(const void *)p;
      v[q][0] = four.x, v[q][1] = four.y, v[q][2] = four.z, v[q][3] = four.w;
    } else {
      K_ALL for (unsigned i = 0; i < 4; i++) v[q][i] = i < left ? p[i * step] : 0;
    }
  }
}

/* They go into a part [16, ld]. */
static void miras__stow(float *to, size_t ld, const float v[2][4], const miras__factor *f) {
  K_ALL for (unsigned q = 0; q < 2; q++) {
    float *p = to + miras__quad_k<MIRAS__DEEP>(f, q) * ld + miras__quad_w<MIRAS__DEEP>(f, q);
    if (!miras__quad_in<MIRAS__DEEP>(f, q)) continue;
    if (f->turned) {
      K_ALL for (unsigned i = 0; i < 4; i++) p[i * ld] = v[q][i];
    } else {
      float4 four;
      four.x = v[q][0], four.y = v[q][1], four.z = v[q][2], four.w = v[q][3];
      *(float4 *)(void *)p = four;
    }
  }
}

/* Row r of a thread's R in its tile. */
template <int R> static unsigned miras__tile_row(unsigned r) {
  return R == 8 ? r / 4 * 32 + threadIdx.x % 8 * 4 + r % 4 : threadIdx.x % 8 * R + r;
}

/* Step k of a part: to all R rows of a thread, or with `some` to those that end behind it. */
template <int R, int some>
static inline void miras__tile_step(float c[R][4], const float *a, const float *b, int k,
                                    const int *end) {
  const float4 by = *(const float4 *)(const void *)b;
  float left[R];
  if (R == 2) {
    left[0] = a[0], left[R - 1] = a[1];
  } else {
    K_ALL for (int r = 0; r + 4 <= R; r += 4) {
      const float4 four = *(const float4 *)(const void *)(a + r * 8);
      left[r] = four.x, left[r + 1] = four.y, left[r + 2] = four.z, left[r + 3] = four.w;
    }
  }
  K_ALL for (int r = 0; r < R; r++) {
    if (some && k >= end[r]) continue;
    c[r][0] = __fmaf_rn(left[r], by.x, c[r][0]);
    c[r][1] = __fmaf_rn(left[r], by.y, c[r][1]);
    c[r][2] = __fmaf_rn(left[r], by.z, c[r][2]);
    c[r][3] = __fmaf_rn(left[r], by.w, c[r][3]);
  }
}

/* The parts of the tile whose first row and column are i0 and j0; rows end at `seen` or, with most,
 * at i + most. */
template <int R>
static void miras__tile_parts(float c[R][4], const miras__factor *A, const miras__factor *B,
                              size_t i0, size_t j0, size_t most, float *room) {
  const size_t lda = 8 * R + 4, ldb = 4 * B->quads + 4, K = A->deep;
  const size_t last = i0 + 8 * R < A->wide ? i0 + 8 * R - 1 : A->wide - 1;
  const size_t seen = most && last + most < K ? last + most : K;
  const unsigned tx = threadIdx.x / 8 < B->quads ? threadIdx.x / 8 : 0;
  float next_a[2][4], next_b[2][4], *at = room, *other = room + MIRAS__DEEP * (lda + ldb);
  if (!seen) return;
  miras__fetch<MIRAS__DEEP, 2>(next_a, A, i0, 0);
  miras__fetch<MIRAS__DEEP, 2>(next_b, B, j0, 0);
  miras__stow(at, lda, next_a, A);
  miras__stow(at + MIRAS__DEEP * lda, ldb, next_b, B);
  __syncthreads();
  for (size_t k0 = 0; k0 < seen; k0 += MIRAS__DEEP) {
    const int more = k0 + MIRAS__DEEP < seen;
    const float *a = at + miras__tile_row<R>(0), *b = at + MIRAS__DEEP * lda + 4 * tx;
    if (more) {
      miras__fetch<MIRAS__DEEP, 2>(next_a, A, i0, k0 + MIRAS__DEEP);
      miras__fetch<MIRAS__DEEP, 2>(next_b, B, j0, k0 + MIRAS__DEEP);
    }
    if (k0 + MIRAS__DEEP <= (most && i0 + most < K ? i0 + most : K)) {
      K_ALL for (int k = 0; k < MIRAS__DEEP; k++)
        miras__tile_step<R, 0>(c, a + k * lda, b + k * ldb, k, NULL);
    } else {
      int end[R];
      K_ALL for (int r = 0; r < R; r++) {
        const size_t row = i0 + miras__tile_row<R>((unsigned)r) + most;
        const size_t stop = most && row < K ? row : K;
        end[r] = stop < k0 ? 0 : stop - k0 < 16 ? (int)(stop - k0) : 16;
      }
      for (int k = 0; k < MIRAS__DEEP; k++)
        miras__tile_step<R, 1>(c, a + k * lda, b + k * ldb, k, end);
    }
    if (more) {
      miras__stow(other, lda, next_a, A);
      miras__stow(other + MIRAS__DEEP * lda, ldb, next_b, B);
    }
    __syncthreads();
    float *const was = at;
    at = other;
    other = was;
  }
}

/* A product whose parts fit into the room. */
template <int R>
static void miras__tiled(int mode, float *C, size_t ldc, const miras__factor *A,
                         const miras__factor *B, size_t most, float *room) {
  const size_t M = A->wide, N = B->wide, tx = threadIdx.x / 8;
  for (size_t i0 = 0; i0 < M; i0 += 8 * R)
    for (size_t j0 = 0; j0 < N; j0 += 4 * B->quads) {
      const size_t j = j0 + 4 * tx, own = tx >= B->quads || j >= N ? 0 : N - j < 4 ? N - j : 4;
      float c[R][4];
      K_ALL for (unsigned r = 0; r < R; r++) {
        const size_t i = i0 + miras__tile_row<R>(r);
        K_ALL for (unsigned q = 0; q < 4; q++) {
          const float old = mode != MIRAS__SET && i < M && q < own ? C[i * ldc + j + q] : 0;
          c[r][q] = mode == MIRAS__SUB ? -old : old;
        }
      }
      miras__tile_parts<R>(c, A, B, i0, j0, most, room);
      K_ALL for (unsigned r = 0; r < R; r++) {
        const size_t i = i0 + miras__tile_row<R>(r);
        K_ALL for (unsigned q = 0; q < 4; q++)
          if (i < M && q < own)
            C[i * ldc + j + q] = mode == MIRAS__SUB ? __fsub_rn(0, c[r][q]) : c[r][q];
      }
    }
}

/* 16 or 4 bytes of global memory are on their way to shared memory. Until its wait a thread has
 * none of what it asked for, and the others of the block until a barrier behind that. */
static void miras__copy16(float *to, const float *from) {
#ifndef __CUDACC__
  shim_copy(to, from);
#elif __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
               :
               : "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from)
               : "memory");
#else
  *(float4 *)(void *)to = *(const float4 *)(const void *)from;
#endif
}
static void miras__copy4(float *to, const float *from) {
#ifndef __CUDACC__
  shim_copy(to, from, 4);
#elif __CUDA_ARCH__ >= 800
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"
               :
               : "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from)
               : "memory");
#else
  *to = *from;
#endif
}
static void miras__copies_wait(void) {
#ifndef __CUDACC__
  shim_copies_wait();
#elif __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" : : : "memory");
#endif
}
/* What was asked for since the last call is a group. */
static void miras__copies_group(void) {
#ifndef __CUDACC__
  shim_copies_group();
#elif __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" : : : "memory");
#endif
}
/* For all but the last groups, two of them at most. */
static void miras__copies_wait_but(unsigned groups) {
  if (!groups) miras__copies_wait();
#ifndef __CUDACC__
  else shim_copies_wait((int)groups);
#elif __CUDA_ARCH__ >= 800
  else if (groups == 1) asm volatile("cp.async.wait_group 1;" : : : "memory");
  else asm volatile("cp.async.wait_group 2;" : : : "memory");
#endif
}

/* A product of few rows, and how it goes through shared memory. A part has `deep` of k, a power of
 * two, of all rows and of `columns` columns; a row of a straight right factor takes `wide` floats
 * there, 0 where it is read in place. */
typedef struct miras__few {
  miras__matrix A, B;
  unsigned M, N, K, columns, wide, deep, ahead;   /* ahead: parts on their way at a time          */
  int turned;
} miras__few;

/* Quads of rows along k, of which threads read neighbours: eight of them lie in all banks. */
static unsigned miras__few_swap(const miras__few *f, unsigned row) {
  return f->deep == 16 ? row / 2 % 4 : row % 8;
}

/* Of `rows` rows, `down` apart, elements first, first + 1, ... n - 1, W at a time, go to rows `ld`
 * apart; f: quads are swapped. */
template <int W>
static void miras__few_copy(float *to, unsigned ld, const float *from, size_t down, size_t right,
                            unsigned rows, unsigned first, unsigned n, const miras__few *f) {
  const unsigned by = (n - first) / W, T = blockDim.x;
  const int afar = __isGlobal(from);
  if (!by) return;
  for (unsigned r = threadIdx.x / by, q = threadIdx.x % by; r < rows; r += T / by, q += T % by) {
    if (q >= by) {
      q -= by;
      if (++r == rows) break;
    }
    const unsigned k = first + q * W, quad = f ? k / 4 ^ miras__few_swap(f, r) : k / 4;
    const float *x = from + r * down + k * right;
    float *y = to + r * ld + 4 * quad + k % 4;
    if (afar && W == 4) miras__copy16(y, x);
    else if (afar) miras__copy4(y, x);
    else if (W == 4) *(float4 *)(void *)y = *(const float4 *)(const void *)x;
    else *y = *x;
  }
}
static void miras__few_rows_copy(float *to, unsigned ld, const float *from, size_t down,
                                 size_t right, unsigned rows, unsigned n, const miras__few *f) {
  const int quads = right == 1 && (rows == 1 || down % 4 == 0) &&
                    (uintptr_t)from % sizeof(float4) == 0;
  if (quads) miras__few_copy<4>(to, ld, from, down, 1, rows, 0, n, f);
  miras__few_copy<1>(to, ld, from, down, right, rows, quads ? n / 4 * 4 : 0, n, f);
}

/* Part p of all columns and all of k, a group of copies; a group of none behind the last one. */
static float *miras__few_part(const miras__few *f, unsigned p) {
  return miras__shared + MIRAS__ROOM +
         p % (f->ahead + 1) * (f->M + (f->turned ? f->columns : f->wide)) * f->deep;
}
__device__ __noinline__ void miras__few_bring(const miras__few *f, unsigned p) {
  const unsigned parts = (f->K + f->deep - 1) / f->deep;
  const unsigned k = p % parts * f->deep, j = p / parts * f->columns;
  const unsigned n = f->K - k < f->deep ? f->K - k : f->deep;
  const size_t down = miras__down(f->B), right = miras__right(f->B);
  const float *b = f->B.p + k * down + j * right;
  float *to = miras__few_part(f, p);
  if (j < f->N) {
    const unsigned w = f->N - j < f->columns ? f->N - j : f->columns;
    miras__few_rows_copy(to, f->deep, f->A.p + k * miras__right(f->A), miras__down(f->A),
                         miras__right(f->A), f->M, n, NULL);
    to += f->M * f->deep;
    if (f->turned || f->wide)
      miras__few_rows_copy(to, f->turned ? f->deep : f->wide, b, f->turned ? right : down,
                           f->turned ? down : right, f->turned ? w : n, f->turned ? n : w,
                           f->turned ? f : NULL);
  }
  miras__copies_group();
}

/* `steps` of k: R rows from a on, of which `own` are there, and a column, along k or `ld` apart.
 * Row r takes part in the first end[r]; all of them in `whole`, quads of them. */
template <int R, int turned>
static void miras__few_steps(float c[R], const float *a, unsigned deep, const float *b, size_t ld,
                             unsigned swap, unsigned own, unsigned whole, unsigned steps,
                             const unsigned end[R]) {
  unsigned k = 0;
  V_UNROLL4
  for (; k < whole; k += 4) {
    float y[4];
    if (turned) {
      const float4 by = *(const float4 *)(const void *)(b + 4 * (k / 4 ^ swap));
      y[0] = by.x, y[1] = by.y, y[2] = by.z, y[3] = by.w;
    } else {
      K_ALL for (unsigned i = 0; i < 4; i++) y[i] = b[(k + i) * ld];
    }
    K_ALL for (unsigned r = 0; r < R; r++) {
      const float4 x = *(const float4 *)(const void *)(a + (r < own ? r : 0) * deep + k);
      c[r] = __fmaf_rn(x.x, y[0], c[r]);
      c[r] = __fmaf_rn(x.y, y[1], c[r]);
      c[r] = __fmaf_rn(x.z, y[2], c[r]);
      c[r] = __fmaf_rn(x.w, y[3], c[r]);
    }
  }
  for (; k < steps; k++) {
    const float y = turned ? b[4 * (k / 4 ^ swap) + k % 4] : b[k * ld];
    K_ALL for (unsigned r = 0; r < R; r++)
      if (k < end[r]) c[r] = __fmaf_rn(a[r * deep + k], y, c[r]);
  }
}

/* With most, row i ends at i + most. Of a block's threads some have no column, or no rows. */
template <int R, int turned>
static void miras__few_rows(int mode, float *C, size_t ldc, const miras__few *f, size_t most) {
  const unsigned groups = blockDim.x / f->columns, each = (f->M + groups - 1) / groups;
  const unsigned parts = (f->K + f->deep - 1) / f->deep, column = threadIdx.x % f->columns;
  const unsigned i = threadIdx.x / f->columns * each, left = f->M > i ? f->M - i : 0;
  const unsigned own = left < each ? left : each;
  float c[R];
  for (unsigned p = 0; p < f->ahead; p++) miras__few_bring(f, p);
  for (unsigned p = 0; p / parts * f->columns < f->N; p++) {
    const unsigned j = p / parts * f->columns + column, k0 = p % parts * f->deep;
    const unsigned n = f->K - k0 < f->deep ? f->K - k0 : f->deep;
    const float *a = miras__few_part(f, p), *b = a + f->M * f->deep;
    unsigned end[R], last = 0;
    K_ALL for (unsigned r = 0; r < R; r++) {
      const float old = !k0 && mode != MIRAS__SET && j < f->N && r < own ? C[(i + r) * ldc + j] : 0;
      const size_t stop = most ? i + r + most : f->K;
      if (!k0) c[r] = mode == MIRAS__SUB ? -old : old;
      end[r] = r >= own || stop <= k0 ? 0 : stop - k0 < n ? (unsigned)(stop - k0) : n;
      if (end[r]) last = end[r];
    }
    miras__copies_wait_but(f->ahead - 1);
    __syncthreads();
    miras__few_bring(f, p + f->ahead);
    if (j >= f->N || !own) continue;
    if (turned) b += column * f->deep;
    else b = f->wide ? b + column : f->B.p + k0 * miras__down(f->B) + j;
    miras__few_steps<R, turned>(c, a + i * f->deep, f->deep, b,
                                f->wide ? f->wide : miras__down(f->B), miras__few_swap(f, column),
                                own, end[0] / 4 * 4, last, end);
    K_ALL for (unsigned r = 0; r < R; r++)
      if (k0 + n == f->K && r < own)
        C[(i + r) * ldc + j] = mode == MIRAS__SUB ? __fsub_rn(0, c[r]) : c[r];
  }
}

/* A product of up to 8 rows. Its parts: all of k where it fits, or else as much of it as leaves
 * room for four of them, two where nothing has to be waited for, but not less than 16. */
__device__ __noinline__ void miras__few_gemm(int mode, float *C, size_t ldc, miras__matrix A,
                                             miras__matrix B, size_t M, size_t N, size_t K,
                                             size_t most) {
  const unsigned T = blockDim.x < 128 ? blockDim.x : 128;
  miras__few f;
  f.A = A, f.B = B, f.M = (unsigned)M, f.N = (unsigned)N, f.K = (unsigned)K;
  f.turned = miras__down(B) == 1 && (N == 1 || miras__right(B) != 1);
  f.columns = f.N < T ? f.N : T;
  f.wide = (f.columns + 3) / 4 * 4;
  if (f.turned || (miras__right(B) == 1 && (f.columns == T || !__isGlobal(B.p)))) f.wide = 0;
  const unsigned all = (unsigned)miras__shared[1] / (f.M + (f.turned ? f.columns : f.wide));
  const unsigned groups = blockDim.x / f.columns, each = (f.M + groups - 1) / groups;
  for (f.deep = 16; f.deep < f.K && 2 * f.deep <= all;) f.deep *= 2;
  if (f.deep < f.K || f.columns < f.N)
    for (f.deep = 16; f.deep < f.K && (__isGlobal(B.p) ? 8 : 4) * f.deep <= all;) f.deep *= 2;
  f.ahead = all / f.deep < 3 ? 1 : all / f.deep < 4 ? 2 : 3;
#define K_FEW(R) \
  if (f.turned) miras__few_rows<R, 1>(mode, C, ldc, &f, most); \
  else miras__few_rows<R, 0>(mode, C, ldc, &f, most)
  if (each == 1) { K_FEW(1); }
  else if (each == 2) { K_FEW(2); }
  else if (each <= 4) { K_FEW(4); }
  else { K_FEW(8); }
#undef K_FEW
}

/* Element by element, in place: few steps of k, or where the room is too small. */
static void miras__by_columns(int mode, float *C, size_t ldc, miras__matrix A, miras__matrix B,
                              size_t M, size_t N, size_t K, size_t most) {
  const size_t right = miras__right(A), down = miras__down(B);
  for (size_t e = threadIdx.x; e < M * N; e += blockDim.x) {
    const size_t i = e / N, j = e % N, seen = most && i + most < K ? i + most : K;
    const float *a = A.p + i * miras__down(A), *b = B.p + j * miras__right(B);
    float c = mode == MIRAS__SET ? 0 : mode == MIRAS__SUB ? -C[i * ldc + j] : C[i * ldc + j];
    size_t k = 0;
    for (; k + 8 <= seen; k += 8) {
      float x[8], y[8];
      K_ALL for (size_t q = 0; q < 8; q++) x[q] = a[(k + q) * right], y[q] = b[(k + q) * down];
      K_ALL for (size_t q = 0; q < 8; q++) c = __fmaf_rn(x[q], y[q], c);
    }
    for (; k < seen; k++) c = __fmaf_rn(a[k * right], b[k * down], c);
    C[i * ldc + j] = mode == MIRAS__SUB ? __fsub_rn(0, c) : c;
  }
}

/* Up to three steps of k, of a C that lies in quads: a thread has one of each `step` rows, four of
 * them on their way, and keeps what it needs of B. */
static void miras__by_quads(int mode, float *C, size_t ldc, miras__matrix A, miras__matrix B,
                            size_t M, size_t N, size_t K, size_t most) {
  const unsigned by = (unsigned)N / 4, step = blockDim.x / by, j = threadIdx.x % by * 4;
  float y[3][4], x[4][3], c[4][4];
  K_ALL for (unsigned k = 0; k < 3; k++)
    K_ALL for (unsigned i = 0; i < 4; i++)
      y[k][i] = k < K ? B.p[k * miras__down(B) + (j + i) * miras__right(B)] : 0;
  for (size_t i = threadIdx.x / by; threadIdx.x < step * by && i < M; i += 4 * step) {
    K_ALL for (unsigned q = 0; q < 4; q++) {
      const size_t row = i + q * step < M ? i + q * step : i;
      const float4 zero = {0, 0, 0, 0};
      const float4 old = mode == MIRAS__SET ? zero : *(const float4 *)(C + row * ldc + j);
      c[q][0] = old.x, c[q][1] = old.y, c[q][2] = old.z, c[q][3] = old.w;
      K_ALL for (unsigned k = 0; k < 3; k++)
        x[q][k] = k < K ? A.p[row * miras__down(A) + k * miras__right(A)] : 0;
    }
    K_ALL for (unsigned q = 0; q < 4; q++) {
      const size_t row = i + q * step;
      float4 sum;
      K_ALL for (unsigned e = 0; e < 4; e++) {
        float own = mode == MIRAS__SUB ? -c[q][e] : c[q][e];
        K_ALL for (unsigned k = 0; k < 3; k++)
          if (k < K && (!most || k < row + most)) own = __fmaf_rn(x[q][k], y[k][e], own);
        c[q][e] = mode == MIRAS__SUB ? __fsub_rn(0, own) : own;
      }
      sum.x = c[q][0], sum.y = c[q][1], sum.z = c[q][2], sum.w = c[q][3];
      if (row < M) *(float4 *)(C + row * ldc + j) = sum;
    }
  }
}

static miras__factor miras__factor_of(const float *p, size_t across, size_t along, size_t wide,
                                      size_t deep, unsigned quads) {
  miras__factor f;
  f.p = p, f.across = across, f.along = along, f.wide = wide, f.deep = deep, f.quads = quads;
  f.turned = along == 1 && across != 1;
  return f;
}

/* ---- products on matrix units ----
 *
 * A tile is 64 rows of T / 2 columns, or 32 where there are no more; of it a warp has 32 rows, 2
 * fragments of 16, and 32 columns (16 in a tile of 32 rows), fragments of 8. Parts of a tile are 64
 * bytes of each row or column: 32 of k, rounded to bfloat16, or 16 of k twice, what rounding leaves
 * behind them. They lie in shared memory in the order in which the factor lies in memory, rows of
 * k or rows of what is across it; matrix units can load either. A row is of pieces of 16 bytes,
 * whose order differs among the eight rows that are loaded together, so that all banks have one of
 * them. There are two parts, as above, and a barrier to each. */

#ifdef __CUDACC__
/* Code for older GPUs has no matrix units; miras__cuda_options_ok keeps callers from here. */
#if __CUDA_ARCH__ < 800
static void miras__no_units(void) { asm volatile("trap;"); }
#endif
/* Two numbers rounded to bfloat16, the first one in the lower half. */
static unsigned miras__pair_of(float low, float high) {
  unsigned pair;
#if __CUDA_ARCH__ >= 800
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
#else
  miras__no_units();
  pair = low < high;
#endif
  return pair;
}

/* Four 8 x 8 matrices of which a thread says where a row lies: lane 8 i + r row r of matrix i. It
 * gets of row lane / 4 of each the elements 2 (lane % 4) and the next; or of column lane / 4. */
static void miras__load_matrices(unsigned to[4], const void *row, int turned) {
#if __CUDA_ARCH__ >= 800
  const unsigned at = (unsigned)__cvta_generic_to_shared(row);
  if (turned)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(at) : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(at) : "memory");
#else
  miras__no_units();
  (void)to, (void)row, (void)turned;
#endif
}

/* c += a b of a warp: a [16, 16], b [16, 8]. A thread has of c rows lane / 4 and 8 below, columns
 * 2 (lane % 4) and the next. */
static void miras__multiply(float c[4], const unsigned a[4], unsigned b0, unsigned b1) {
#if __CUDA_ARCH__ >= 800
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  miras__no_units();
  (void)c, (void)a, (void)b0, (void)b1;
#endif
}
#else
  #define miras__pair_of shim_halves
  #define miras__load_matrices(to, row, turned) shim_load_matrices(to, row, turned, SHIM_HERE)
  #define miras__multiply(c, a, b0, b1) shim_multiply(c, a, b0, b1, SHIM_HERE)
#endif

/* Where element (w, k) of a part of D of k begins, in bytes; four of them lie together. */
template <int D>
static unsigned miras__place(const miras__factor *f, unsigned w, unsigned k) {
  const unsigned pieces = f->turned ? D / 8 : f->quads / 2, most = pieces < 8 ? pieces : 8;
  const unsigned row = f->turned ? w : k, column = f->turned ? k : w;
  return (row * pieces + (column / 8 ^ (row * most / 8 & (most - 1)))) * 16 + column % 8 * 2;
}

/* The quads of this thread go into a part: what is nearest to them in bfloat16 and, with P 2, what
 * that leaves. */
template <int P>
static void miras__stow_halves(char *to, const float v[4 / P][4], const miras__factor *f) {
  const unsigned bytes = f->quads * (256 / P);
  K_ALL for (unsigned q = 0; q < 4 / P; q++) {
    char *p = to + miras__place<32 / P>(f, miras__quad_w<32 / P>(f, q),
                                        miras__quad_k<32 / P>(f, q));
    uint2 pairs;
    if (!miras__quad_in<32 / P>(f, q)) continue;
    pairs.x = miras__pair_of(v[q][0], v[q][1]), pairs.y = miras__pair_of(v[q][2], v[q][3]);
    *(uint2 *)(void *)p = pairs;
    if (P == 2) {
      float left[4];
      K_ALL for (int i = 0; i < 4; i++) {
        const unsigned pair = i < 2 ? pairs.x : pairs.y;
        left[i] = __fsub_rn(v[q][i], __int_as_float((int)(i % 2 ? pair >> 16 << 16 : pair << 16)));
      }
      pairs.x = miras__pair_of(left[0], left[1]), pairs.y = miras__pair_of(left[2], left[3]);
      *(uint2 *)(void *)(p + bytes) = pairs;
    }
  }
}

/* A fragment of a part: 16 of what is across from w on, 16 of k from k on. The second matrix lies
 * below the first one on the left, behind it in k on the right. */
template <int D>
static void miras__fragment(unsigned to[4], const char *part, const miras__factor *f, int left,
                            unsigned w, unsigned k) {
  const unsigned lane = threadIdx.x % 32, second = lane / 8 % 2 * 8, third = lane / 16 * 8;
  const unsigned i = lane % 8;
  w += left ? second : third, k += left ? third : second;
  if (f->turned) w += i;
  else k += i;
  miras__load_matrices(to, part + miras__place<D>(f, w, k), !f->turned);
}

/* Rows of the left factor end at i + most: what lies behind is zero. */
template <int P>
static void miras__cut(float v[4 / P][4], const miras__factor *f, size_t w0, size_t k0,
                       size_t most) {
  K_ALL for (unsigned q = 0; q < 4 / P; q++) {
    const size_t w = w0 + miras__quad_w<32 / P>(f, q), k = k0 + miras__quad_k<32 / P>(f, q);
    K_ALL for (unsigned i = 0; i < 4; i++)
      if (k + (f->turned ? i : 0) >= w + (f->turned ? 0 : i) + most) v[q][i] = 0;
  }
}

/* A part times a part: frags fragments of 16 rows from w on, by R fragments of 16 columns from x
 * on. */
template <int P, int R>
static void miras__part_times(float c[2][2 * R][4], const char *a, const char *b,
                              const miras__factor *A, const miras__factor *B, unsigned w,
                              unsigned x, unsigned frags) {
  enum { D = 32 / P };
  K_ALL for (unsigned k = 0; k < D; k += 16) {
    unsigned right[P][R][4];
    K_ALL for (int part = 0; part < P; part++)
      K_ALL for (unsigned r = 0; r < R; r++)
        miras__fragment<D>(right[part][r], b + part * B->quads * (256 / P), B, 0, x + 16 * r, k);
    K_ALL for (unsigned i = 0; i < 2; i++) {
      unsigned left[P][4];
      if (i >= frags) continue;
      K_ALL for (int part = 0; part < P; part++)
        miras__fragment<D>(left[part], a + part * A->quads * (256 / P), A, 1, w + 16 * i, k);
      K_ALL for (unsigned j = 0; j < 2 * R; j++) {
        if (P == 2) {                                /* what is small first */
          miras__multiply(c[i][j], left[P - 1], right[0][j / 2][j % 2 * 2],
                          right[0][j / 2][j % 2 * 2 + 1]);
          miras__multiply(c[i][j], left[0], right[P - 1][j / 2][j % 2 * 2],
                          right[P - 1][j / 2][j % 2 * 2 + 1]);
        }
        miras__multiply(c[i][j], left[0], right[0][j / 2][j % 2 * 2],
                        right[0][j / 2][j % 2 * 2 + 1]);
      }
    }
  }
}

/* All parts of the tile whose first row and column are i0 and j0. */
template <int P, int R>
static void miras__unit_parts(float c[2][2 * R][4], const miras__factor *A, const miras__factor *B,
                              size_t i0, size_t j0, size_t most, char *room) {
  enum { D = 32 / P };
  const unsigned bytes = 256 * (A->quads + B->quads), across = blockDim.x / 32 / R;
  const unsigned warp = threadIdx.x / 32, w = warp / across * 32, x = warp % across * (16 * R);
  const size_t K = A->deep, left = A->wide - i0;
  const size_t last = left < 32 * R ? A->wide - 1 : i0 + 32 * R - 1;
  const size_t seen = most && last + most < K ? last + most : K;
  const unsigned frags = left <= w ? 0 : left <= w + 16 ? 1 : 2;
  float next_a[4 / P][4], next_b[4 / P][4];
  for (size_t k0 = 0, turn = 0; k0 < seen + D; k0 += D, turn = !turn) {
    if (k0 < seen) {
      miras__fetch<D, 4 / P>(next_a, A, i0, k0);
      miras__fetch<D, 4 / P>(next_b, B, j0, k0);
      if (most) miras__cut<P>(next_a, A, i0, k0, most);
    }
    if (k0) {
      const char *at = room + !turn * bytes;
      miras__part_times<P, R>(c, at, at + 256 * A->quads, A, B, w, x, frags);
    }
    if (k0 < seen) {
      char *at = room + turn * bytes;
      miras__stow_halves<P>(at, next_a, A);
      miras__stow_halves<P>(at + 256 * A->quads, next_b, B);
    }
    __syncthreads();
  }
}

template <int P, int R>
static void miras__on_units(int mode, float *C, size_t ldc, const miras__factor *A,
                            const miras__factor *B, size_t most, char *room) {
  const size_t M = A->wide, N = B->wide, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const size_t across = blockDim.x / 32 / R;
  for (size_t i0 = 0; i0 < M; i0 += 32 * R)
    for (size_t j0 = 0; j0 < N; j0 += 4 * B->quads) {
      const size_t first = i0 + warp / across * 32 + lane / 4;
      const size_t column = j0 + warp % across * (16 * R) + lane % 4 * 2;
      float c[2][2 * R][4];
      K_ALL for (unsigned i = 0; i < 2; i++)
        K_ALL for (unsigned j = 0; j < 2 * R; j++)
          K_ALL for (unsigned e = 0; e < 4; e++) {
            const size_t row = first + 16 * i + e / 2 * 8, at = column + 8 * j + e % 2;
            const float old = mode != MIRAS__SET && row < M && at < N ? C[row * ldc + at] : 0;
            c[i][j][e] = mode == MIRAS__SUB ? -old : old;
          }
      miras__unit_parts<P, R>(c, A, B, i0, j0, most, room);
      K_ALL for (unsigned i = 0; i < 2; i++)
        K_ALL for (unsigned j = 0; j < 2 * R; j++)
          K_ALL for (unsigned e = 0; e < 4; e++) {
            const size_t row = first + 16 * i + e / 2 * 8, at = column + 8 * j + e % 2;
            const float all = mode == MIRAS__SUB ? -c[i][j][e] : c[i][j][e];
            if (row < M && at < N) C[row * ldc + at] = all;
          }
    }
}

/* A product on matrix units, of two rows and more. */
__device__ __noinline__ void miras__unit_gemm(int mode, float *C, size_t ldc, miras__matrix A,
                                              miras__matrix B, size_t M, size_t N, size_t K,
                                              size_t most) {
  char *const room = (char *)(void *)(miras__shared + MIRAS__ROOM);
  const miras__factor a = miras__factor_of(A.p, miras__down(A), miras__right(A), M, K,
                                           M <= 32 ? 8 : 16);
  const miras__factor b = miras__factor_of(B.p, miras__right(B), miras__down(B), N, K,
                                           blockDim.x / 8);
  if (miras__products() == MIRAS_CUDA_BF16X3) {
    if (M <= 32) miras__on_units<2, 1>(mode, C, ldc, &a, &b, most, room);
    else miras__on_units<2, 2>(mode, C, ldc, &a, &b, most, room);
  } else {
    if (M <= 32) miras__on_units<1, 1>(mode, C, ldc, &a, &b, most, room);
    else miras__on_units<1, 2>(mode, C, ldc, &a, &b, most, room);
  }
}

struct miras__block_gemm {
  __device__ __noinline__ void operator()(int mode, float *C, size_t ldc, miras__matrix A,
                                          miras__matrix B, size_t M, size_t N, size_t K,
                                          float *pack) const {
    const size_t most = (size_t)mode >> 2;
    const unsigned T = blockDim.x, wide = T < 512 ? T / 2 : 256;
    float *const room = miras__shared + MIRAS__ROOM;
    (void)pack;
    mode &= 3;
    if (K < 4 && N % 4 == 0 && N <= 4 * T && M * N >= 16 * T && ldc % 4 == 0 &&
        (uintptr_t)C % sizeof(float4) == 0) {
      miras__by_quads(mode, C, ldc, A, B, M, N, K, most);
    } else if ((size_t)miras__shared[1] < MIRAS__PRODUCT_ROOM(T) || K < 4 || (M == 1 && K < 32)) {
      miras__by_columns(mode, C, ldc, A, B, M, N, K, most);
    } else if (miras__products() && M > 1 && N > 1 && K >= 16) {
      miras__unit_gemm(mode, C, ldc, A, B, M, N, K, most);
    } else if (M <= 8) {
      miras__few_gemm(mode, C, ldc, A, B, M, N, K, most);
    } else {
      const unsigned rows = M <= 16 || T < 64 ? 2 : M <= 32 || T < 128 ? 4 : 8;
      const miras__factor a =
          miras__factor_of(A.p, miras__down(A), miras__right(A), M, K, 2 * rows);
      const miras__factor b =
          miras__factor_of(B.p, miras__right(B), miras__down(B), N, K, wide / 4);
      if (rows == 2) miras__tiled<2>(mode, C, ldc, &a, &b, most, room);
      else if (rows == 4) miras__tiled<4>(mode, C, ldc, &a, &b, most, room);
      else miras__tiled<8>(mode, C, ldc, &a, &b, most, room);
    }
    __syncthreads();
  }
};
MIRAS__IS(gemm);

/* ---- rows with a decay per channel ----
 *
 * In the host's bits every row goes through all older rows by itself (room @28, which has the
 * letters). Where products are made otherwise, up to 16 rows that lie together are a part, and what
 * a part r..e-1 has to do with the rows j < r before it are products. With
 *   E_i = alpha_r (.) .. (.) alpha_i,  E_(r-1) = 1,  and V_j = D_(r-1)j, the rows as it finds them,
 * D_ij = E_i (.) V_j, and the decays go to what reads or to what is answered:
 *   P_ij = (E_i (.) q_i) . V_j     A_ij = (E_i (.) z_i) . V_j after, (E_(i-1) (.) z_i) . V_j before
 *   o_i += E_i (.) sum_j P_ij V_j     and V_j of the next part is E_(e-1) (.) V_j
 * Nothing is divided here either, and no product of decays begins before its row and ends behind
 * it. Rows of a part meet each other one by one, a thread to a channel, which holds its D_ij.
 *
 * The adjoint takes parts from the last one. W_j is what they leave of the cotangent of D_(e-1)j,
 * g->live_j at first. In the order of i = e-1 down to r, per channel:
 *   T_i = sum_j bP_ij V_j     U_i = sum_j bA_ij V_j     H = sum_j W_j (.) V_j at first
 *   H += q_i T_i + z_i U_i (after)     bq_i += E_i T_i     bz_i += E_i U_i, or E_(i-1) U_i before
 *   balpha_i += E_(i-1) H              H <- alpha_i H + z_i U_i (before)
 * for with B_ij, the cotangent of D_ij, balpha_i is the sum of B_ij (.) D_(i-1)j, and of this H is
 * all but the factor E_(i-1) that every D_(i-1)j has; so alpha may be 0. Then
 *   W_j <- E_(e-1) W_j + sum_i bP_ij E_i q_i + bA_ij E_i z_i, or E_(i-1) z_i before
 * and rows of the part itself add as in room @28, with W for g->live. V cannot be had backwards
 * without a division, so each part makes it anew of x, at the price of one pass over these rows. V
 * and W lie in shared memory, for a panel of rows j at a time where they are more than it holds. */
enum { MIRAS__PART = 16, MIRAS__PART_LEAST = 8, MIRAS__PART_END = 2 * MIRAS__PART };

typedef struct miras__patch {
  size_t row, rows;                  /* of the block; the part's own                              */
  size_t from, read, reads;          /* its first row and query among the new ones; queries       */
} miras__patch;

/* The part that begins at row `row` of the block, which is row `from` of m new ones. */
static miras__patch miras__part_of(const miras__channels *c, int queried, size_t row, size_t from,
                                  size_t m) {
  const size_t most = MIRAS__PART / c->every * c->every;
  miras__patch t;
  t.row = row, t.from = from, t.rows = most - row % most;
  if (t.rows > m - from) t.rows = m - from;
  t.read = from / c->every;
  t.reads = queried ? (from + t.rows) / c->every - t.read : 0;
  return t;
}

/* Room of parts: [reads, n] of queries and behind them, or from row MIRAS__PART on in the adjoint,
 * [rows, n] of errors; E_(e-1) in row MIRAS__PART_END, and then MIRAS__PART_END rows of scores. */
static float *miras__part_room(void) {
  return miras__shared + MIRAS__ROOM + (size_t)miras__shared[1] + (size_t)miras__shared[3];
}

/* A row as it enters. */
static float miras__part_enters(const miras__channels *c, size_t at) {
  return c->eta ? __fmul_rn(c->eta[at], c->x[at]) : c->x[at];
}

/* Lane l of a warp gets the sum of its v[l % V]. */
template <int V> static float miras__warp_sums(float v[V]) {
  K_ALL for (int turn = V == 32 ? 5 : 4; turn-- > 0;) {
    const int k = 1 << turn, up = threadIdx.x >> turn & 1;
    K_ALL for (int t = 0; t < V / 2; t++) {
      if (t >= k) continue;
      const float keep = up ? v[t + k] : v[t], give = up ? v[t] : v[t + k];
      v[t] = __fadd_rn(keep, __shfl_xor_sync(0xffffffffu, give, k));
    }
  }
  if (V == 16) v[0] = __fadd_rn(v[0], __shfl_xor_sync(0xffffffffu, v[0], 16));
  return v[0];
}

/* The rows of a part enter, and their scores among themselves, for each warp its channels' part of
 * them [rows, V], go to sums; what reads of older rows goes to x. V: 16, or 32 with errors. */
template <int V>
__device__ __noinline__ void miras__part_meet(const miras__channels *c, const miras__patch *t,
                                              float *x, float *sums) {
  const size_t n = c->n, lane = threadIdx.x % 32;
  float *const own = sums + threadIdx.x / 32 * (MIRAS__PART * V) + lane;
  for (size_t first = 0; first < n; first += blockDim.x) {
    const size_t w = first + threadIdx.x;
    const int in = w < n;
    float d[MIRAS__PART], e = 1;
    K_ALL for (unsigned j = 0; j < MIRAS__PART; j++) d[j] = 0;
    for (unsigned i = 0; i < t->rows; i++) {
      const size_t at = (t->from + i) * n + w, read = i / c->every;
      const int reads = t->reads && (i + 1) % c->every == 0;
      const float alpha = in ? c->alpha[at] : 0, row = in ? miras__part_enters(c, at) : 0;
      const float q = in && reads ? c->q[(t->read + read) * n + w] : 0;
      const float z = V == 32 && in ? c->z[at] : 0, before = e;
      float v[V];
      e = __fmul_rn(e, alpha);
      K_ALL for (unsigned j = 0; j < MIRAS__PART; j++) {
        const float old = d[j];
        d[j] = __fmul_rn(alpha, old);
        if (V == 32) v[(MIRAS__PART + j) % V] = __fmul_rn(z, c->after ? d[j] : old);
        if (j == i) d[j] = row;
        v[j] = __fmul_rn(q, d[j]);
      }
      if (in && reads) x[read * n + w] = __fmul_rn(e, q);
      if (in && V == 32) x[(t->reads + i) * n + w] = __fmul_rn(c->after ? e : before, z);
      if (reads || V == 32) {
        const float sum = miras__warp_sums<V>(v);
        if (lane < V) own[i * V] = first ? __fadd_rn(own[i * V], sum) : sum;
      }
    }
    if (!in) continue;
    x[MIRAS__PART_END * n + w] = e;
    K_ALL for (unsigned j = 0; j < MIRAS__PART; j++)
      if (j < t->rows) c->live[(t->row + j) * n + w] = d[j];
  }
  __syncthreads();
  for (size_t at = threadIdx.x; at < t->rows * V; at += blockDim.x) {
    const size_t i = at / V, j = at % V;
    float sum = 0;
    if (j < MIRAS__PART ? !t->reads || (i + 1) % c->every || j > i : j - MIRAS__PART >= i) continue;
    for (size_t warp = 0; warp < blockDim.x / 32; warp++)
      sum = __fadd_rn(sum, sums[warp * (MIRAS__PART * V) + at]);
    if (j < MIRAS__PART) c->p[(t->read + i / c->every) * c->ld_p + t->row + j] = sum;
    else c->a[(t->from + i) * c->ld_p + t->row + j - MIRAS__PART] = sum;
  }
  __syncthreads();
}

/* The square of p, of `rows` by t->rows, that belongs to the rows of a part, to rows of 16. */
static void miras__part_square(float *to, const float *p, size_t ld, size_t rows,
                               const miras__patch *t) {
  for (size_t e = threadIdx.x; e < rows * MIRAS__PART; e += blockDim.x)
    if (e % MIRAS__PART < t->rows)
      to[e] = p[e / MIRAS__PART * ld + t->row + e % MIRAS__PART];
}

/* The rows of a part enter, and what its queries see of each other's, and of x = P V, goes to o. */
__device__ __noinline__ void miras__part_mix(const miras__channels *c, const miras__patch *t,
                                             float *o, size_t ldo, float *x, const float *square) {
  const size_t n = c->n;
  for (size_t w = threadIdx.x; w < n; w += blockDim.x) {
    float d[MIRAS__PART], e = 1;
    K_ALL for (unsigned j = 0; j < MIRAS__PART; j++) d[j] = 0;
    for (unsigned i = 0; i < t->rows; i++) {
      const size_t at = (t->from + i) * n + w, read = i / c->every;
      const int reads = (i + 1) % c->every == 0;
      const float alpha = c->alpha[at], row = miras__part_enters(c, at);
      const float *p = square + read * MIRAS__PART;
      float sum;
      e = __fmul_rn(e, alpha);
      sum = t->row && reads ? __fmul_rn(e, x[read * n + w]) : 0;
      K_ALL for (unsigned j = 0; j < MIRAS__PART; j++) {
        d[j] = j == i ? row : __fmul_rn(alpha, d[j]);
        if (reads && j <= i) sum = __fmaf_rn(p[j], d[j], sum);
      }
      if (reads) o[(t->read + read) * ldo + w] = __fadd_rn(o[(t->read + read) * ldo + w], sum);
    }
    x[MIRAS__PART_END * n + w] = e;
    K_ALL for (unsigned j = 0; j < MIRAS__PART; j++)
      if (j < t->rows) c->live[(t->row + j) * n + w] = d[j];
  }
  __syncthreads();
}

/* Older rows go to the part's end. */
static void miras__part_decay(const miras__channels *c, const miras__patch *t, const float *end) {
  const size_t n = c->n, across = n < blockDim.x ? blockDim.x / n : 1;
  const int sweeps = t->row / MIRAS__SWEEP != (t->row + t->rows) / MIRAS__SWEEP;
  const size_t j = n < blockDim.x ? threadIdx.x / n : 0;
  size_t w = n < blockDim.x ? threadIdx.x % n : threadIdx.x;
  if (j < across)
    for (; w < n; w += blockDim.x) {
      const float by = end[w];
      V_UNROLL4
      for (size_t i = j; i < t->row; i += across) {
        const float left = __fmul_rn(by, c->live[i * n + w]);
        c->live[i * n + w] = sweeps && fabsf(left) < MIRAS__FADED ? 0 : left;
      }
    }
  __syncthreads();
}

/* Scores of queries and errors with older rows: of both at once where there is room for `wide`
 * columns of them. */
static void miras__part_scores(const miras__channels *c, const miras__patch *t, const float *x,
                               float *scores, size_t wide) {
  const size_t n = c->n, ld = c->ld_p, all = t->reads + t->rows;
  float *const p = miras__to(c->p, t->read * ld), *const a = miras__to(c->a, t->from * ld);
  const miras__block_gemm gemm = {};
  if (!t->reads || !c->z || wide < MIRAS__PART) {
    if (t->reads)
      gemm(MIRAS__SET, p, ld, miras__mat(x, n), miras__turned(c->live, n), t->reads, t->row, n,
           NULL);
    if (c->z)
      gemm(MIRAS__SET, a, ld, miras__mat(x + t->reads * n, n), miras__turned(c->live, n), t->rows,
           t->row, n, NULL);
    return;
  }
  for (size_t at = 0; at < t->row; at += wide) {
    const size_t columns = t->row - at < wide ? t->row - at : wide;
    gemm(MIRAS__SET, scores, wide, miras__mat(x, n), miras__turned(c->live + at * n, n), all,
         columns, n, NULL);
    for (size_t e = threadIdx.x; e < all * columns; e += blockDim.x) {
      const size_t i = e / columns, j = e % columns;
      (i < t->reads ? p + i * ld : a + (i - t->reads) * ld)[at + j] = scores[i * wide + j];
    }
    __syncthreads();
  }
}

/* channel_rows by parts; 0: it is not for them. */
static int miras__parts_rows(const miras__channels *c, float *o, size_t ldo, size_t r0, size_t m) {
  const size_t n = c->n, most = MIRAS__PART / c->every * c->every, end = r0 + m;
  const size_t least = MIRAS__PART_END, own = (least + 1) * n;
  const miras__block_gemm gemm = {};
  float *const x = miras__part_room(), *const room = miras__shared + MIRAS__ROOM;
  if (!most || m < MIRAS__PART_LEAST || (o && c->z) ||
      own > (size_t)miras__shared[4] ||
      MIRAS__PART * blockDim.x > (size_t)miras__shared[1])
    return 0;
  for (size_t row = r0; row < end;) {
    const miras__patch t = miras__part_of(c, o || c->q, row, row - r0, m);
    if (o) {
      const float *p = c->p + t.read * c->ld_p;
      if (row && t.reads)
        gemm(MIRAS__SET, x, n, miras__mat(p, c->ld_p), miras__mat(c->live, n), t.reads, n, row,
             NULL);
      miras__part_square(room, p, c->ld_p, t.reads, &t);
      __syncthreads();
      miras__part_mix(c, &t, o, ldo, x, room);
    } else {
      if (c->z) miras__part_meet<32>(c, &t, x, room);
      else miras__part_meet<16>(c, &t, x, room);
      if (row) miras__part_scores(c, &t, x, x + own, ((size_t)miras__shared[4] - own) / least);
    }
    miras__part_decay(c, &t, x + MIRAS__PART_END * n);
    row += t.rows;
  }
  return 1;
}

/* Rows j from `first` on that the adjoint has in hand, of which `older` lie before the part; own:
 * the part's rows are among them. x holds T and U, and then E_i q_i and E_i z_i. */
typedef struct miras__part_panel {
  size_t first, older;
  int own;
  float *x, *v, *w;
  const float *p, *a;                /* squares of bP and bA, for own                             */
} miras__part_panel;

/* Where a panel begins, W of its rows; for each part, V of the older ones. */
static void miras__panel_begin(const miras__part_panel *b, const miras__channel_grads *g,
                               size_t rows, size_t n) {
  for (size_t w = threadIdx.x; w < n; w += blockDim.x)
    for (size_t j = 0; j < rows; j++)
      b->w[j * n + w] = g->live ? g->live[(b->first + j) * n + w] : 0;
}
static void miras__panel_rows(const miras__part_panel *b, const miras__channels *c, size_t row) {
  const size_t n = c->n, end = b->first + b->older;
  for (size_t w = threadIdx.x; w < n; w += blockDim.x) {
    float e = 1;
    size_t j = row;
    V_UNROLL4
    for (; j > end; j--) e = __fmul_rn(e, c->alpha[(j - 1) * n + w]);
    V_UNROLL4
    for (; j > b->first; j--) {
      const size_t at = (j - 1) * n + w;
      b->v[(j - 1 - b->first) * n + w] = __fmul_rn(e, miras__part_enters(c, at));
      e = __fmul_rn(e, c->alpha[at]);
    }
  }
}

/* What row i of a part and row j before it in it have to do with each other: d = D_(i-1)j, b = B_ij
 * and then B_(i-1)j, and sums over j of balpha_i, bq_i and bz_i. */
typedef struct miras__pair {
  float alpha, q, z, h, t, u;
} miras__pair;
static inline float miras__part_pair(miras__pair *s, float b, float d, float bp, float ba,
                                     int after) {
  if (after) b = __fmaf_rn(ba, s->z, b);
  b = __fmaf_rn(bp, s->q, b);
  s->h = __fmaf_rn(b, d, s->h);
  s->t = __fmaf_rn(bp, d, s->t);
  s->u = __fmaf_rn(ba, d, s->u);
  b = __fmul_rn(s->alpha, b);
  return after ? b : __fmaf_rn(ba, s->z, b);
}

/* What a part gives to its rows' gradients, channel w, and x; W of older rows goes to its start. */
__device__ __noinline__ void miras__part_bwd(const miras__channels *c,
                                             const miras__channel_grads *g, const miras__patch *t,
                                             const miras__part_panel *of, size_t w) {
  const size_t n = c->n;
  float alpha[MIRAS__PART], y[MIRAS__PART], b[MIRAS__PART], h = 0, e = 1;
  K_ALL for (unsigned j = 0; j < MIRAS__PART; j++) {
    const size_t at = (t->row + j) * n + w;
    const int in = j < t->rows;
    alpha[j] = in ? c->alpha[at] : 1;
    y[j] = in && of->own ? miras__part_enters(c, at) : 0;
    b[j] = in && of->own ? of->w[(t->row - of->first + j) * n + w] : 0;
    e = __fmul_rn(e, alpha[j]);
  }
  V_UNROLL4
  for (size_t j = w; j < of->older * n; j += n) {
    const float left = of->w[j];
    h = __fmaf_rn(left, of->v[j], h);
    of->w[j] = __fmul_rn(e, left);
  }
  for (unsigned i = (unsigned)t->rows; i-- > 0;) {
    const size_t at = (t->row + i) * n + w, read = i / c->every;
    const size_t at_q = (t->read + read) * n + w, x_q = read * n + w;
    const size_t x_z = (MIRAS__PART + i) * n + w;
    const int reads = c->q && (i + 1) % c->every == 0, errs = c->z != NULL;
    const float T = reads && of->older ? of->x[x_q] : 0, U = errs && of->older ? of->x[x_z] : 0;
    const float *p = of->p + read * MIRAS__PART, *a = of->a + i * MIRAS__PART;
    miras__pair s;
    float itself = 0, ends;
    s.alpha = c->alpha[at], s.q = reads ? c->q[at_q] : 0, s.z = errs ? c->z[at] : 0, s.h = 0;
    s.t = 0, s.u = 0;
    e = 1;
    K_ALL for (unsigned j = MIRAS__PART; j-- > 0;) {
      if (j == i && reads && of->own) {
        b[j] = __fmaf_rn(p[j], s.q, b[j]);
        itself = __fmul_rn(p[j], y[j]);
      }
      if (j < i) {
        if (of->own)
          b[j] = miras__part_pair(&s, b[j], __fmul_rn(e, y[j]), reads ? p[j] : 0, errs ? a[j] : 0,
                                  c->after);
        e = __fmul_rn(e, alpha[j]);
      }
    }
    ends = __fmul_rn(s.alpha, e);
    h = __fmaf_rn(s.q, T, h);
    if (c->after) h = __fmaf_rn(s.z, U, h);
    g->alpha[at] = __fadd_rn(g->alpha[at], __fmaf_rn(e, h, s.h));
    if (reads && g->q)
      g->q[at_q] = __fadd_rn(g->q[at_q], __fmaf_rn(ends, T, __fmaf_rn(s.alpha, s.t, itself)));
    if (errs)
      g->z[at] = __fadd_rn(g->z[at], c->after ? __fmaf_rn(ends, U, __fmul_rn(s.alpha, s.u))
                                              : __fmaf_rn(e, U, s.u));
    if (reads && of->older) of->x[x_q] = __fmul_rn(ends, s.q);
    if (errs && of->older) of->x[x_z] = __fmul_rn(c->after ? ends : e, s.z);
    h = __fmul_rn(s.alpha, h);
    if (!c->after) h = __fmaf_rn(s.z, U, h);
  }
  K_ALL for (unsigned j = 0; j < MIRAS__PART; j++) {
    const size_t at = (t->row + j) * n + w;
    if (j >= t->rows || !of->own) continue;
    g->x[at] = __fadd_rn(g->x[at], c->eta ? __fmul_rn(c->eta[at], b[j]) : b[j]);
    if (c->eta && g->eta) g->eta[at] = __fmaf_rn(c->x[at], b[j], g->eta[at]);
  }
}

/* channel_bwd by parts; 0: there is no room for them. */
static int miras__parts_bwd(const miras__channels *c, const miras__channel_grads *g, size_t m) {
  const size_t n = c->n, most = MIRAS__PART / c->every * c->every, ld = c->ld_p;
  const size_t fits = (size_t)miras__shared[4] / n, least = MIRAS__PART_END;
  const size_t wide = most && fits > least ? (fits - least) / 2 / most * most : 0;
  const miras__block_gemm gemm = {};
  float *const square = miras__shared + MIRAS__ROOM;
  miras__part_panel of;
  if (!wide || 2 * MIRAS__PART * MIRAS__PART > (size_t)miras__shared[1]) return 0;
  of.x = miras__part_room(), of.v = of.x + least * n, of.w = of.v + wide * n;
  of.p = square, of.a = square + MIRAS__PART * MIRAS__PART;
  for (of.first = 0; of.first < m; of.first += wide) {
    const size_t rows = m - of.first < wide ? m - of.first : wide;
    miras__panel_begin(&of, g, rows, n);
    for (size_t row = (m - 1) / most * most + most; row > of.first;) {
      const miras__patch t = miras__part_of(c, c->q != NULL, row - most, row - most, m);
      const float *p, *a;
      row = t.row;
      of.older = row - of.first < rows ? row - of.first : rows;
      of.own = of.older < rows;
      p = miras__at(c->q ? c->p : NULL, t.read * ld), a = miras__at(c->z ? c->a : NULL, row * ld);
      if (of.older) {
        miras__panel_rows(&of, c, row);
        __syncthreads();
        if (p && t.reads)
          gemm(MIRAS__SET, of.x, n, miras__mat(p + of.first, ld), miras__mat(of.v, n), t.reads, n,
               of.older, NULL);
        if (a)
          gemm(MIRAS__SET, of.x + MIRAS__PART * n, n, miras__mat(a + of.first, ld),
               miras__mat(of.v, n), t.rows, n, of.older, NULL);
      }
      if (of.own && p) miras__part_square(square, p, ld, t.reads, &t);
      if (of.own && a) miras__part_square(square + MIRAS__PART * MIRAS__PART, a, ld, t.rows, &t);
      __syncthreads();
      for (size_t w = threadIdx.x; w < n; w += blockDim.x) miras__part_bwd(c, g, &t, &of, w);
      __syncthreads();
      if (of.older && p && t.reads)
        gemm(MIRAS__ADD, of.w, n, miras__turned(p + of.first, ld), miras__mat(of.x, n), of.older,
             n, t.reads, NULL);
      if (of.older && a)
        gemm(MIRAS__ADD, of.w, n, miras__turned(a + of.first, ld),
             miras__mat(of.x + MIRAS__PART * n, n), of.older, n, t.rows, NULL);
    }
  }
  return 1;
}

/* Scores: every unit has rows of the block for its own, which no other sees: one of so many in
 * turn, so that the older ones, which have more to do, are shared. Mixes: channels for its own. */
struct miras__block_channel_rows {
  __device__ void mix(const miras__channels *all, float *o, size_t ldo, size_t r0,
                      size_t m) const {
    const size_t n = all->n, at = miras__at_from(n), w = miras__at_till(n) - at;
    for (size_t i = 0; w && i < m; i++) {
      const size_t row = r0 + i, read = i / all->every;
      const float *x = all->x + i * n + at, *alpha = all->alpha + i * n + at;
      const float *p = (i + 1) % all->every == 0 ? all->p + read * all->ld_p : NULL;
      float *d = all->live + at, *to = o + read * ldo + at;
      for (size_t j = 0; j < row; j++, d += n) {
        if (row % MIRAS__SWEEP == 0) miras__flush(d, d, w);
        miras__mul(d, alpha, d, w);
        if (p) miras__axpy(to, p[j], d, w);
      }
      if (all->eta) miras__mul(d, all->eta + i * n + at, x, w);
      else miras__copy(d, x, w);
      if (p) miras__axpy(to, p[row], d, w);
    }
  }
  __device__ __noinline__ void operator()(const miras__cuda_kernels *, const miras__channels *all,
                                          float *o, size_t ldo, size_t r0, size_t m) const {
    const size_t n = all->n;
    if (miras__products() && miras__parts_rows(all, o, ldo, r0, m)) return;
    for (size_t j = miras__unit(); !o && j < r0 + m; j += miras__units()) {
      miras__channels c = *all;
      c.live += j * n, c.p = miras__to(c.p, j), c.a = miras__to(c.a, j);
      for (size_t i = j < r0 ? 0 : j - r0; i < m; i++) {
        const int reads = c.q && (i + 1) % c.every == 0;
        const size_t row = r0 + i, read = i / c.every;
        if (row > j) {
          if (row % MIRAS__SWEEP == 0) miras__flush(c.live, c.live, n);
          miras__channel_row(&c, 1 - i, i, reads);
          continue;
        }
        if (c.eta) miras__mul(c.live, c.eta + i * n, c.x + i * n, n);
        else miras__copy(c.live, c.x + i * n, n);
        if (reads) {
          const float p = miras__dot(c.q + read * n, c.live, n);
          if (miras__lane() == 0) c.p[read * c.ld_p] = p;
        }
      }
    }
    if (o && all->z) {
      if (miras__unit() == 0) miras__channel_rows(&miras__of_units, all, o, ldo, r0, m);
    } else if (o) {
      mix(all, o, ldo, r0, m);
    }
    __syncthreads();
  }
};
MIRAS__IS(channel_rows);

/* The history of a vector of channels lies in shared memory, as there is one to each unit; or they
 * have one after the other. */
struct miras__block_channel_bwd {
  __device__ __noinline__ void operator()(const miras__channels *c, const miras__channel_grads *g,
                                          size_t m, float *history) const {
    if (miras__products() && miras__parts_bwd(c, g, m)) return;
    if (16 * m * miras__units() <= (size_t)miras__shared[1]) {
      miras__channel_bwd(c, g, m, miras__shared + MIRAS__ROOM + 16 * m * miras__unit());
    } else {
      for (unsigned unit = 0; unit < miras__units(); unit++) {
        if (miras__unit() == unit) miras__channel_bwd(c, g, m, history);
        __syncthreads();
      }
    }
    __syncthreads();
  }
};
MIRAS__IS(channel_bwd);

struct miras__cuda_kernels {
#define MIRAS_X(part, result, name, arguments) \
  miras__by_block<decltype(&miras__##name), miras__##name, \
                  miras__spread<decltype(&miras__##name), miras__##name>::how> name;
  MIRAS__KERNELS(MIRAS_X)
#undef MIRAS_X
};
static const miras__cuda_kernels miras__of_blocks = {};
static const miras__cuda_kernels *miras__kernels_best(void) { return &miras__of_blocks; }

struct miras__net;       /* what is named before it is defined, in this namespace */
struct miras__hidden;
struct miras__answer;
struct miras__retention_record;
#define miras__kernels miras__cuda_kernels
/* Chunks on matrix units (below) have a state on the tape and no errors. */
#undef MIRAS__IN_FLOATS
#define MIRAS__IN_FLOATS (miras__products() == MIRAS_CUDA_FLOAT)
#define MIRAS__DEVICE MIRAS__DEVICE_ENGINES
#include MIRAS_SELF
#undef MIRAS__DEVICE

/* ---- states in shared memory ----
 *
 * A token rewrites a state, and engines read and write it several times over. So it lies in shared
 * memory while a block works on it, where a grid has room for it: it comes there before the engine
 * runs and is taken back behind it, and global memory sees it once each way, whatever the tokens of
 * the call. */

/* n floats, a multiple of 4, all of them on their way at once; and back. */
static void miras__state_bring(float *to, const float *from, size_t n) {
  for (size_t i = 4 * threadIdx.x; i < n; i += 4 * blockDim.x) miras__copy16(to + i, from + i);
  miras__copies_wait();
  __syncthreads();
}
static void miras__state_take(float *to, const float *from, size_t n) {
  const float4 *x = (const float4 *)(const void *)from;
  float4 *y = (float4 *)(void *)to;
  V_UNROLL4
  for (size_t i = threadIdx.x; i < n / 4; i += blockDim.x) y[i] = x[i];
  __syncthreads();
}

/* States of half_state are n bfloat16, two to a word, the first in its lower half. */
static unsigned miras__half_of(float x) {
  const unsigned bits = (unsigned)__float_as_int(x);
  return x != x ? 0x7fc0u : (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
}
static unsigned miras__halves_of(float a, float b) {
  return miras__half_of(a) | miras__half_of(b) << 16;
}
static float4 miras__of_halves(unsigned a, unsigned b) {
  float4 v;
  v.x = __int_as_float((int)(a << 16)), v.y = __int_as_float((int)(a & 0xffff0000u));
  v.z = __int_as_float((int)(b << 16)), v.w = __int_as_float((int)(b & 0xffff0000u));
  return v;
}

/* The same of them, n a multiple of 8: what is to be rewritten comes through registers, 16 bytes at
 * a time and four of a thread on their way. */
static void miras__halves_bring(float *to, const float *from, size_t n) {
  const uint4 *x = (const uint4 *)(const void *)from;
  float4 *y = (float4 *)(void *)to;
  for (size_t i = threadIdx.x; i < n / 8; i += 4 * blockDim.x) {
    uint4 v[4];
    V_UNROLL4
    for (unsigned q = 0; q < 4; q++)
      if (i + q * blockDim.x < n / 8) v[q] = x[i + q * blockDim.x];
    V_UNROLL4
    for (unsigned q = 0; q < 4; q++) {
      const size_t at = 2 * (i + q * blockDim.x);
      if (at >= n / 4) continue;
      y[at] = miras__of_halves(v[q].x, v[q].y);
      y[at + 1] = miras__of_halves(v[q].z, v[q].w);
    }
  }
  __syncthreads();
}
static void miras__halves_take(float *to, const float *from, size_t n) {
  const float4 *x = (const float4 *)(const void *)from;
  uint4 *y = (uint4 *)(void *)to;
  for (size_t i = threadIdx.x; i < n / 8; i += blockDim.x) {
    const float4 a = x[2 * i], b = x[2 * i + 1];
    uint4 v;
    v.x = miras__halves_of(a.x, a.y), v.y = miras__halves_of(a.z, a.w);
    v.z = miras__halves_of(b.x, b.y), v.w = miras__halves_of(b.z, b.w);
    y[i] = v;
  }
  __syncthreads();
}

/* If there is room for it, the state comes to shared memory and the call has it there. A plan whose
 * heads have less room for theirs is one of half_state. */
static int miras__bring(miras__call *a) {
  const size_t n = (size_t)miras__shared[3];
  float *to = miras__shared + MIRAS__ROOM + (size_t)miras__shared[1];
  if (!n) return 0;
  if (a->p->head_state < n) miras__halves_bring(to, a->state, n);
  else miras__state_bring(to, a->state, n);
  a->state = to;
  return 1;
}

/* Of a head that a grid of chunks has run: tokens behind the last state of a tape that it made,
 * which it has left where the next one goes. */
static void miras__forward_rest(const miras__call *a) {
  const size_t per = (size_t)a->p->tape_tokens, t = (size_t)a->io->length / per * per;
  miras__call run = *a;
  miras__head_io io = *a->io;
  if (!a->tape || t == (size_t)a->io->length) return;
  run.tape += t / per * a->p->tape_chunk;
  run.position += (uint64_t)t;
  run.io = &io;
  miras__inputs_on(&io, t);
  io.y += t * io.ldy;
  io.length -= (int)t;
  a->K->copy(run.state, run.tape, a->p->weights);
  if (a->p->at.s) a->K->copy(run.state + a->p->at.s, run.tape + a->p->weights, a->p->weights);
  if (a->p->stores_link)
    miras__weights_of(a->K, a->p, run.state + a->p->at.w, run.state, run.init,
                      run.state + a->p->at.scalars + 4);
  miras__head_forward(&run);
}

/* miras__head_forward where heads of memories and layers call it. */
static void miras__near_forward(const miras__call *a) {
  const size_t n = (size_t)miras__shared[3];
  miras__call run = *a;
  if (miras__shared[5] > 0) {
    miras__forward_rest(a);
    return;
  }
  const int nearby = miras__bring(&run);
  miras__head_forward(&run);
  if (!nearby) return;
  if (a->p->head_state < n) miras__halves_take(a->state, run.state, n);
  else miras__state_take(a->state, run.state, n);
}

#ifndef MIRAS_NO_TRAINING
/* And its adjoint. */
static void miras__near_backward(const miras__call *a) {
  if (!(miras__shared[5] > 0)) miras__head_backward(a);
}
#endif

/* ---- chunks on matrix units ----
 *
 * Rows of room @50 that read no normaliser and have one stream, one step and one gate of a kind
 * each, where products are not the host's: one kernel from keys to answers, with the state in
 * registers. A step is up to 64 tokens, four parts of 16. With S the state at a part's start (F
 * where decays lead to B), room @50's c_i, L_ij and, by the order of error and decay, ce_i, E_ij
 * within the part, h_i = v_i - ce_i z_i S [- z_i B], and U the rows without their steps, so that
 * room @50's are diag(eta) U:
 *   (I + A diag(eta)) U = H     U = T H with T = (I + A diag(eta))^-1
 *   Y = diag(c) Q S [+ Q B] + P diag(eta) U     S <- c_15 S + (diag(L_15) X)' diag(eta) U
 * and without errors U = V. So there is a product of decays over 16 rows at most, nothing
 * is divided, and T, of 16 rows, is found in float.
 *   keys      A warp has a part: what does not depend on values, K, Q, T and P, goes to shared
 *             memory as bfloat16, P factors of each number (1, or 2 whose sum it is). With a decay
 *             per channel z, q and x go there times ce, c and L, and P and A are sums over channels
 *             whose D_ij (room @28) a thread has in registers; else L scales them as they are.
 *   values    A warp has 16 columns of S and goes through the parts by itself, as columns do not
 *             see each other. Everything is turned by the diagonal: rows of fragments are columns
 *             of values, so that S', H' and U', which products leave in registers, are left factors
 *             of the next ones as they lie there.
 * Keys, queries and decays of the next step are on their way to shared memory in the meantime.
 * There are two barriers to a step. Blocks of a head, each with T / 2 columns of values for T
 * threads, do the work on keys anew. */
enum { MIRAS__CHUNKS_STEP = 64 };

/* Bytes of shared memory from MIRAS__ROOM on: rows of a step as they come; as factors; T and P; of
 * rows c, ce, what a row u is written with, eta; of channels what a part leaves of S. */
template <int N_, int P_, int CH_, int ROWS_, int BACK_> struct miras__chunks_room {
  enum {
    N = N_, P = P_, CH = CH_, ROWS = ROWS_, BACK = BACK_, PARTS = ROWS / MIRAS__PART,
    WIDE = 16 * N, LD = WIDE + 8, SQUARE_LD = MIRAS__PART + 8,
    RAW = ROWS * WIDE, APART = ROWS * LD * 2, SQUARE_APART = ROWS * SQUARE_LD * 2,
    FACTORS = (2 + CH) * RAW * 4, SQUARES = FACTORS + (2 + CH) * P * APART,
    LEFT = SQUARES + 2 * P * SQUARE_APART, BYTES = LEFT + 4 * (4 * ROWS + CH * PARTS * WIDE)
  };
  __device__ static char *start(void) { return (char *)(void *)(miras__shared + MIRAS__ROOM); }
  __device__ static float *raw(unsigned which) { return (float *)(void *)start() + which * RAW; }
  __device__ static char *factor(unsigned which) {     /* K, Q, and per channel X                 */
    return start() + FACTORS + which * P * APART;
  }
  __device__ static char *square(unsigned which) {     /* T, P                                    */
    return start() + SQUARES + which * P * SQUARE_APART;
  }
  __device__ static float *left(unsigned which) {      /* c, ce, eta L_15 or eta, eta             */
    return (float *)(void *)(start() + LEFT) + which * ROWS;
  }
  __device__ static float *end(unsigned part) { return left(4) + part * WIDE; }
};

/* A block's share of a head: tokens from `first` on. */
typedef struct miras__chunks {
  const miras__plan *p;
  const miras__head_io *io;
  const float *init;                 /* B, or NULL                                                */
  float *tape;
  size_t first, end, column;         /* column: its first of values                               */
  int ones;                          /* a state of none: zeros, or 1 on the diagonal, or in the
                                        only column                                               */
} miras__chunks;

/* Two numbers as P factors, and where they go, `apart` bytes from each other. */
template <int P> static void miras__split(unsigned to[P], float a, float b) {
  to[0] = miras__pair_of(a, b);
  if (P == 2)
    to[P - 1] = miras__pair_of(__fsub_rn(a, __int_as_float((int)(to[0] << 16))),
                               __fsub_rn(b, __int_as_float((int)(to[0] >> 16 << 16))));
}
template <int P> static void miras__split_to(char *to, unsigned apart, float a, float b) {
  unsigned pairs[P];
  miras__split<P>(pairs, a, b);
  K_ALL for (int i = 0; i < P; i++) *(unsigned *)(void *)(to + i * apart) = pairs[i];
}

/* What a product left, [16, 16], as a left factor. */
template <int P> static void miras__left_of(unsigned to[P][4], const float c[2][4]) {
  K_ALL for (unsigned i = 0; i < 4; i++) {
    unsigned pairs[P];
    miras__split<P>(pairs, c[i / 2][i % 2 * 2], c[i / 2][i % 2 * 2 + 1]);
    K_ALL for (int part = 0; part < P; part++) to[part][i] = pairs[part];
  }
}

/* [16, 16] of rows from memory: matrices 0 and 1 below each other, 2 and 3 to their right. So it is
 * a left factor; or a right one whose columns are these rows, pairs 0 2 and 1 3; or, turned, one
 * whose rows of k they are, pairs 0 1 and 2 3. */
template <int P>
static void miras__square_of(unsigned to[P][4], const char *rows, unsigned apart, unsigned ld,
                             unsigned row, unsigned column, int turned) {
  const unsigned lane = threadIdx.x % 32;
  row += lane % 16, column += lane / 16 * 8;
  K_ALL for (int part = 0; part < P; part++)
    miras__load_matrices(to[part], rows + part * apart + (row * ld + column) * 2, turned);
}
template <int P>
static void miras__add_product(float c[4], const unsigned a[P][4], const unsigned b[P][4], int x,
                               int y) {
  if (P == 2) {                                      /* what is small first */
    miras__multiply(c, a[P - 1], b[0][x], b[0][y]);
    miras__multiply(c, a[0], b[P - 1][x], b[P - 1][y]);
  }
  miras__multiply(c, a[0], b[0][x], b[0][y]);
}

/* [16, 16] whose rows are k: as a right factor, and the same turned, as a left one. */
template <int P>
static void miras__chunks_turn(unsigned to[P][4], const unsigned b[P][4]) {
  K_ALL for (int i = 0; i < P; i++)
    to[i][0] = b[i][0], to[i][1] = b[i][2], to[i][2] = b[i][1], to[i][3] = b[i][3];
}
template <int P>
static void miras__left_turned(unsigned to[P][4], const char *rows, unsigned apart, unsigned ld,
                               unsigned row, unsigned column) {
  unsigned b[P][4];
  miras__square_of<P>(b, rows, apart, ld, row, column, 1);
  miras__chunks_turn<P>(to, b);
}

/* Rows of n floats, for a warp. */
static void miras__chunks_copy(float *to, unsigned wide, const float *from, size_t ld,
                               unsigned rows, unsigned n) {
  const unsigned lane = threadIdx.x % 32;
  const int quads = n % 4 == 0 && ld % 4 == 0 && (uintptr_t)from % sizeof(float4) == 0;
  for (unsigned r = 0; r < rows; r++) {
    if (quads)
      for (unsigned w = 4 * lane; w < n; w += 128)
        miras__copy16(to + r * wide + w, from + r * ld + w);
    else
      for (unsigned w = lane; w < n; w += 32) miras__copy4(to + r * wide + w, from + r * ld + w);
  }
}

/* How many rows has part `part` of `rows`? */
static unsigned miras__part_rows(unsigned rows, unsigned part) {
  const unsigned row = part * MIRAS__PART;
  return rows <= row ? 0 : rows - row < MIRAS__PART ? rows - row : (unsigned)MIRAS__PART;
}

/* Tokens from t on are on their way to this warp's parts. */
template <class room>
static void miras__chunks_bring(const miras__chunks *g, size_t t, unsigned rows) {
  enum { CH = room::CH };
  const miras__head_io *io = g->io;
  const unsigned n = (unsigned)g->p->features;
  for (unsigned part = threadIdx.x / 32; part < room::PARTS; part += blockDim.x / 32) {
    const unsigned m = miras__part_rows(rows, part), at = part * MIRAS__PART * room::WIDE;
    const size_t from = t + part * MIRAS__PART;
    if (!m) continue;
    miras__chunks_copy(room::raw(0) + at, room::WIDE, io->k + from * io->ldk, io->ldk, m, n);
    miras__chunks_copy(room::raw(1) + at, room::WIDE, io->q + from * io->ldq, io->ldq, m, n);
    if (CH)
      miras__chunks_copy(room::raw(CH * 2) + at, room::WIDE, io->keep + from * io->ld_keep,
                         io->ld_keep, m, n);
  }
}

/* m rows of a unit get their length, as miras__feature_fwd gives it, two at a time. What lies
 * behind a row's n numbers is left. */
template <int N>
static void miras__chunks_lengths(float *x, unsigned wide, unsigned m, unsigned n, float length) {
  const unsigned own = threadIdx.x % 16;
  for (unsigned r = 0; r < m; r += 2) {
    const unsigned next = r + 1 < m ? wide : 0;      /* an odd row is its own other one           */
    float *const row = x + r * wide + own;
    float a[N], b[N], sum = 0, other = 0;
    K_ALL for (unsigned w = 0; w < N; w++) {
      a[w] = 16 * w + own < n ? row[16 * w] : 0, b[w] = 16 * w + own < n ? row[next + 16 * w] : 0;
      sum = __fmaf_rn(a[w], a[w], sum), other = __fmaf_rn(b[w], b[w], other);
    }
    sum = miras__hsum(&sum), other = miras__hsum(&other);
    sum = __fdiv_rn(length, __fsqrt_rn(__fadd_rn(sum, MIRAS__LENGTH_EPS)));
    other = __fdiv_rn(length, __fsqrt_rn(__fadd_rn(other, MIRAS__LENGTH_EPS)));
    K_ALL for (unsigned w = 0; w < N; w++)
      if (16 * w + own < n) {
        row[16 * w] = __fmul_rn(sum, a[w]);
        if (next) row[next + 16 * w] = __fmul_rn(other, b[w]);
      }
  }
}

/* Keys and queries get their length, and lane i the step of row i % 16. Each unit has 8 rows. */
template <int N>
static float miras__chunks_rates(const miras__chunks *g, float *k, float *q, unsigned wide,
                                 size_t t, unsigned rows) {
  const miras__head_io *io = g->io;
  const size_t n = g->p->features;
  const unsigned lane = threadIdx.x % 32, first = lane / 16 * 8, own = lane % 16;
  const unsigned m = rows <= first ? 0 : rows - first < 8 ? rows - first : 8;
  float eta = own < rows ? io->rate[(t + own) * io->ld_rate] : 0, along = 0;
  if (g->p->map) {
    const float length = g->p->map / 16 == MIRAS_QK_NORM_RMS ? sqrtf((float)n) : 1;
    miras__chunks_lengths<N>(k + first * wide, wide, m, (unsigned)n, length);
    miras__chunks_lengths<N>(q + first * wide, wide, m, (unsigned)n, length);
  }
  __syncwarp(0xffffffffu);
  if (!g->p->implicit) return eta;
  for (unsigned r = 0; r < m; r++) {
    const float *row = k + (first + r) * wide, sum = miras__dot(row, row, n);
    if (own == first + r) along = sum;
  }
  along = __shfl_sync(0xffffffffu, along, (int)(own < 8 ? own : own + 16), 32);
  return g->p->epsilon > 0 ? __fdiv_rn(eta, __fadd_rn(g->p->epsilon, along))
                           : __fdiv_rn(eta, __fmaf_rn(eta, along, 1));
}

/* T, from rows of A diag(eta), `ld` apart; lane i has a column. */
template <class room>
static void miras__chunks_invert(const float *m, unsigned ld, unsigned row) {
  enum { P = room::P };
  const unsigned own = threadIdx.x % 16;
  float t[MIRAS__PART];
  K_ALL for (unsigned i = 0; i < MIRAS__PART; i++) {
    float sum = i == own, other;
    K_ALL for (unsigned j = 0; j < MIRAS__PART; j++)
      if (j < i) sum = __fmaf_rn(-m[i * ld + j], t[j], sum);
    t[i] = sum;
    other = __shfl_xor_sync(0xffffffffu, sum, 1);
    if (threadIdx.x % 32 < 16 && own % 2 == 0)
      miras__split_to<P>(room::square(0) + ((row + i) * room::SQUARE_LD + own) * 2,
                         room::SQUARE_APART, sum, other);
  }
}

/* What is known of a part without its values, with one decay for a row. */
template <class room>
static void miras__chunks_keys(const miras__chunks *g, unsigned part, size_t t, unsigned rows) {
  enum { N = room::N, P = room::P };
  const unsigned lane = threadIdx.x % 32, own = lane % 16, row = part * MIRAS__PART;
  const unsigned n = (unsigned)g->p->features;
  float *const k = room::raw(0) + row * room::WIDE, *const q = room::raw(1) + row * room::WIDE;
  float *const l = k, *const m = k + 17 * MIRAS__PART;          /* where the keys were */
  const float eta = miras__chunks_rates<N>(g, k, q, room::WIDE, t, rows);
  const float alpha = own < rows ? g->io->keep[(t + own) * g->io->ld_keep] : 1;
  float kk[2][4], qk[2][4], left = 0, c = 1, c_own = 1, ce_own = 1;
  for (unsigned r = 0; r < MIRAS__PART; r++)
    K_ALL for (unsigned x = 0; x < N / 4; x++) {
      const unsigned w = 64 * x + 2 * lane, at = r * room::WIDE + w;
      const unsigned to = ((row + r) * room::LD + w) * 2;
      const int a = r < rows && w < n, b = r < rows && w + 1 < n;
      miras__split_to<P>(room::factor(0) + to, room::APART, a ? k[at] : 0, b ? k[at + 1] : 0);
      miras__split_to<P>(room::factor(1) + to, room::APART, a ? q[at] : 0, b ? q[at + 1] : 0);
    }
  __syncwarp(0xffffffffu);
  for (unsigned i = 0; i < MIRAS__PART; i++) {
    const float by = __shfl_sync(0xffffffffu, alpha, (int)i, 32), before = c;
    c = __fmul_rn(c, by);
    left = i == own ? 1 : __fmul_rn(left, by);
    if (lane < 16) l[i * 17 + own] = left;
    if (i == own) c_own = c, ce_own = g->p->after ? c : before;
  }
  if (lane < 16) {
    room::left(0)[row + own] = c_own, room::left(1)[row + own] = ce_own;
    room::left(2)[row + own] = __fmul_rn(left, eta), room::left(3)[row + own] = eta;
  }
  K_ALL for (unsigned e = 0; e < 8; e++) kk[e / 4][e % 4] = qk[e / 4][e % 4] = 0;
  K_ALL for (unsigned f = 0; f < N; f++) {
    unsigned a[P][4], b[P][4];
    miras__square_of<P>(b, room::factor(0), room::APART, room::LD, row, 16 * f, 0);
    miras__square_of<P>(a, room::factor(1), room::APART, room::LD, row, 16 * f, 0);
    miras__add_product<P>(qk[0], a, b, 0, 2);
    miras__add_product<P>(qk[1], a, b, 1, 3);
    if (!g->p->delta) continue;
    miras__add_product<P>(kk[0], b, b, 0, 2);
    miras__add_product<P>(kk[1], b, b, 1, 3);
  }
  __syncwarp(0xffffffffu);
  K_ALL for (unsigned x = 0; x < 4; x++) {
    const unsigned i = lane / 4 + x % 2 * 8, j = x / 2 * 8 + lane % 4 * 2;
    const unsigned seen = g->p->after || !i ? i : i - 1;
    float p[2];
    K_ALL for (unsigned e = 0; e < 2; e++) {
      const float by = __shfl_sync(0xffffffffu, eta, (int)(j + e), 32);
      const float reads = __fmul_rn(by, qk[x / 2][x % 2 * 2 + e]);
      const float errs = __fmul_rn(by, kk[x / 2][x % 2 * 2 + e]);
      p[e] = j + e <= i ? __fmul_rn(l[i * 17 + j + e], reads) : 0;
      m[i * 16 + j + e] = j + e < i ? __fmul_rn(l[seen * 17 + j + e], errs) : 0;
      if (room::BACK) q[i * 16 + j + e] = reads, q[256 + i * 16 + j + e] = errs;
    }
    miras__split_to<P>(room::square(1) + ((row + i) * room::SQUARE_LD + j) * 2, room::SQUARE_APART,
                       p[0], p[1]);
  }
  __syncwarp(0xffffffffu);
  if (g->p->delta) miras__chunks_invert<room>(m, 16, row);
}

/* The same with a decay per channel: a lane has N / 2 channels, in pairs, and D_ij of theirs. */
template <class room>
static void miras__chunks_channels(const miras__chunks *g, unsigned part, size_t t,
                                   unsigned rows) {
  enum { N = room::N, P = room::P };
  const unsigned lane = threadIdx.x % 32, row = part * MIRAS__PART, n = (unsigned)g->p->features;
  float *const k = room::raw(0) + row * room::WIDE, *const q = room::raw(1) + row * room::WIDE;
  float *const m = room::raw(2) + row * room::WIDE;   /* rows of it where those of alpha were */
  const float eta = miras__chunks_rates<N>(g, k, q, room::WIDE, t, rows);
  float d[N / 2][MIRAS__PART], e[N / 2];
  if (lane < 16) room::left(2)[row + lane] = room::left(3)[row + lane] = eta;
  K_ALL for (unsigned x = 0; x < N / 2; x++) {
    e[x] = 1;
    K_ALL for (unsigned j = 0; j < MIRAS__PART; j++) d[x][j] = 0;
  }
  for (unsigned i = 0; i < MIRAS__PART; i++) {
    float v[2 * MIRAS__PART], reads[N / 2], errs[N / 2], sum, other;
    K_ALL for (unsigned j = 0; j < 2 * MIRAS__PART; j++) v[j] = 0;
    K_ALL for (unsigned x = 0; x < N / 2; x++) {
      const unsigned w = x / 2 * 64 + 2 * lane + x % 2, at = i * room::WIDE + w;
      const int in = i < rows && w < n;
      const float alpha = in ? m[at] : 1, key = in ? k[at] : 0, query = in ? q[at] : 0;
      const float before = e[x];
      e[x] = __fmul_rn(before, alpha);
      reads[x] = __fmul_rn(e[x], query);
      errs[x] = __fmul_rn(g->p->after ? e[x] : before, key);
      K_ALL for (unsigned j = 0; j < MIRAS__PART; j++) {
        const float old = d[x][j], now = __fmul_rn(alpha, old);
        v[MIRAS__PART + j] = __fmaf_rn(key, g->p->after ? now : old, v[MIRAS__PART + j]);
        d[x][j] = j == i ? key : now;
        v[j] = __fmaf_rn(query, d[x][j], v[j]);
      }
    }
    K_ALL for (unsigned x = 0; x < N / 2; x += 2) {
      const unsigned to = ((row + i) * room::LD + x / 2 * 64 + 2 * lane) * 2;
      miras__split_to<P>(room::factor(0) + to, room::APART, errs[x], errs[x + 1]);
      miras__split_to<P>(room::factor(1) + to, room::APART, reads[x], reads[x + 1]);
    }
    sum = __fmul_rn(miras__warp_sums<2 * MIRAS__PART>(v), eta);
    if (lane % 16 > i || (lane >= 16 && lane % 16 == i)) sum = 0;
    other = __shfl_xor_sync(0xffffffffu, sum, 1);
    __syncwarp(0xffffffffu);                         /* all have read their decays */
    if (lane >= 16) m[i * room::WIDE + lane - 16] = sum;
    else if (lane % 2 == 0)
      miras__split_to<P>(room::square(1) + ((row + i) * room::SQUARE_LD + lane) * 2,
                         room::SQUARE_APART, sum, other);
  }
  K_ALL for (unsigned x = 0; x < N / 2; x += 2) {
    const unsigned w = x / 2 * 64 + 2 * lane;
    room::end(part)[w] = e[x], room::end(part)[w + 1] = e[x + 1];
    K_ALL for (unsigned j = 0; j < MIRAS__PART; j++)
      miras__split_to<P>(room::factor(2) + ((row + j) * room::LD + w) * 2, room::APART, d[x][j],
                         d[x + 1][j]);
  }
  __syncwarp(0xffffffffu);
  if (g->p->delta) miras__chunks_invert<room>(m, room::WIDE, row);
}

/* A lane's numbers of S': of features 8 b + 2 (lane % 4) + e % 2 and a column of values, or the
 * next but 7 of them. Less B, or with it. */
template <int N>
static void miras__chunks_load(float s[2 * N][4], const miras__chunks *g, const float *from) {
  const size_t n = g->p->features, dv = (size_t)g->p->d.value_dim;
  const unsigned lane = threadIdx.x % 32;
  K_ALL for (unsigned b = 0; b < 2 * N; b++)
    K_ALL for (unsigned e = 0; e < 4; e++) {
      const size_t w = 8 * b + lane % 4 * 2 + e % 2, at = w * dv + g->column + lane / 4 + e / 2 * 8;
      const size_t column = g->column + lane / 4 + e / 2 * 8;
      const int in = w < n && column < dv;
      const float all = !in ? 0 : from ? from[at] : g->ones && (dv == 1 || w == column) ? 1 : 0;
      s[b][e] = in && g->init ? __fsub_rn(all, g->init[at]) : all;
    }
}
template <int N>
static void miras__chunks_keep(const float s[2 * N][4], const miras__chunks *g, float *to,
                               int flushes) {
  const size_t n = g->p->features, dv = (size_t)g->p->d.value_dim;
  const unsigned lane = threadIdx.x % 32;
  K_ALL for (unsigned b = 0; b < 2 * N; b++)
    K_ALL for (unsigned e = 0; e < 4; e++) {
      const size_t w = 8 * b + lane % 4 * 2 + e % 2, at = w * dv + g->column + lane / 4 + e / 2 * 8;
      const int in = w < n && g->column + lane / 4 + e / 2 * 8 < dv;
      const float all = in && g->init ? __fadd_rn(g->init[at], s[b][e]) : s[b][e];
      if (in) to[at] = flushes && fabsf(all) < MIRAS__FADED ? 0 : all;
    }
}

/* Two columns of a right factor, z or q of this lane's rows: from rows as they came, where those
 * that are factors have their decays in them. */
template <class room>
static void miras__chunks_raw(unsigned to[room::P][4], unsigned which, unsigned row, unsigned rows,
                              unsigned column, unsigned n) {
  enum { P = room::P };
  const unsigned lane = threadIdx.x % 32;
  K_ALL for (unsigned i = 0; i < 4; i++) {
    const unsigned r = lane / 4 + i % 2 * 8, w = column + lane % 4 * 2 + i / 2 * 8;
    const float *from = room::raw(which) + (row + r) * room::WIDE + w;
    unsigned pairs[P];
    miras__split<P>(pairs, r < rows && w < n ? from[0] : 0, r < rows && w + 1 < n ? from[1] : 0);
    K_ALL for (int part = 0; part < P; part++) to[part][i] = pairs[part];
  }
}

/* What is read of B is added. */
template <class room>
static void miras__chunks_init(float u[2][4], float o[2][4], const miras__chunks *g, unsigned row,
                               unsigned rows) {
  enum { N = room::N, P = room::P, CH = room::CH };
  const size_t n = g->p->features, dv = (size_t)g->p->d.value_dim;
  const unsigned lane = threadIdx.x % 32;
  for (unsigned f = 0; f < N; f++) {
    float init[2][4];
    unsigned a[P][4], z[P][4], q[P][4];
    K_ALL for (unsigned e = 0; e < 8; e++) {
      const size_t w = 16 * f + e / 4 * 8 + lane % 4 * 2 + e % 2;
      const size_t column = g->column + lane / 4 + e % 4 / 2 * 8;
      init[e / 4][e % 4] = w < n && column < dv ? g->init[w * dv + column] : 0;
    }
    miras__left_of<P>(a, init);
    if (CH) {
      miras__chunks_raw<room>(z, 0, row, rows, 16 * f, (unsigned)n);
      miras__chunks_raw<room>(q, 1, row, rows, 16 * f, (unsigned)n);
    } else {
      miras__square_of<P>(z, room::factor(0), room::APART, room::LD, row, 16 * f, 0);
      miras__square_of<P>(q, room::factor(1), room::APART, room::LD, row, 16 * f, 0);
    }
    K_ALL for (int b = 0; b < 2; b++) {
      if (g->p->delta) miras__add_product<P>(u[b], a, z, b, b + 2);
      miras__add_product<P>(o[b], a, q, b, b + 2);
    }
  }
}

/* A factor rests in memory as it lies in a warp. */
template <int P> static void miras__chunks_stow(unsigned *to, const unsigned a[P][4]) {
  K_ALL for (unsigned i = 0; i < 4 * P; i++) to[i * 32 + threadIdx.x % 32] = a[i / 4][i % 4];
}
template <int P> static void miras__chunks_fetch(unsigned a[P][4], const unsigned *from) {
  K_ALL for (unsigned i = 0; i < 4 * P; i++) a[i / 4][i % 4] = from[i * 32 + threadIdx.x % 32];
}

/* What a part leaves of 16 features of a state. */
template <class room> static void miras__chunks_fade(float s[][4], unsigned part, unsigned f) {
  const float all = room::CH ? 1 : room::left(0)[(part + 1) * MIRAS__PART - 1];
  K_ALL for (unsigned e = 0; e < 8; e++) {
    const unsigned w = 16 * f + e / 4 * 8 + threadIdx.x % 4 * 2 + e % 2;
    const float c = room::CH ? room::end(part)[w] : all;
    s[2 * f + e / 4][e % 4] = __fmul_rn(c, s[2 * f + e / 4][e % 4]);
  }
}

/* A part of `rows` tokens from t on, for a warp's 16 columns. To go back later (room::BACK), no
 * answers: S and u go to `stash`, and S moves on if something follows. */
template <class room>
static void miras__chunks_values(float s[2 * room::N][4], const miras__chunks *g, unsigned part,
                                 size_t t, unsigned rows, unsigned *stash, int moves) {
  enum { N = room::N, P = room::P, CH = room::CH, BACK = room::BACK };
  const miras__head_io *io = g->io;
  const unsigned lane = threadIdx.x % 32, row = part * MIRAS__PART, first = lane % 4 * 2;
  const size_t column = g->column + lane / 4, dv = (size_t)g->p->d.value_dim;
  float v[2][4], u[2][4], o[2][4];
  unsigned a[P][4], b[P][4];
  K_ALL for (unsigned e = 0; e < 8; e++) {
    const unsigned r = e / 4 * 8 + first + e % 2;
    const size_t at = column + e % 4 / 2 * 8;
    v[e / 4][e % 4] = r < rows && at < dv ? io->v[(t + r) * io->ldv + at] : 0;
    u[e / 4][e % 4] = o[e / 4][e % 4] = 0;
  }
  K_ALL for (unsigned f = 0; f < N; f++) {
    miras__left_of<P>(a, s + 2 * f);
    if (BACK) miras__chunks_stow<P>(stash + f * P * 128, a);
    if (!BACK) {
      miras__square_of<P>(b, room::factor(1), room::APART, room::LD, row, 16 * f, 0);
      K_ALL for (int x = 0; x < 2; x++) miras__add_product<P>(o[x], a, b, x, x + 2);
    }
    if (!g->p->delta) continue;
    miras__square_of<P>(b, room::factor(0), room::APART, room::LD, row, 16 * f, 0);
    K_ALL for (int x = 0; x < 2; x++) miras__add_product<P>(u[x], a, b, x, x + 2);
  }
  K_ALL for (unsigned e = 0; !CH && e < 8; e++) {
    const unsigned r = row + e / 4 * 8 + first + e % 2;
    o[e / 4][e % 4] = __fmul_rn(room::left(0)[r], o[e / 4][e % 4]);
    u[e / 4][e % 4] = __fmul_rn(room::left(1)[r], u[e / 4][e % 4]);
  }
  if (g->init && (!BACK || g->p->delta)) miras__chunks_init<room>(u, o, g, row, rows);
  if (g->p->delta) {
    K_ALL for (unsigned e = 0; e < 8; e++)
      v[e / 4][e % 4] = __fsub_rn(v[e / 4][e % 4], u[e / 4][e % 4]), u[e / 4][e % 4] = 0;
    miras__left_of<P>(a, v);
    miras__square_of<P>(b, room::square(0), room::SQUARE_APART, room::SQUARE_LD, row, 0, 0);
    K_ALL for (int x = 0; x < 2; x++) miras__add_product<P>(u[x], a, b, x, x + 2);
  } else {
    K_ALL for (unsigned e = 0; e < 8; e++) u[e / 4][e % 4] = v[e / 4][e % 4];
  }
  miras__left_of<P>(a, u);
  if (BACK) {
    miras__chunks_stow<P>(stash + N * P * 128, a);
    if (!moves) return;
  } else {
    miras__square_of<P>(b, room::square(1), room::SQUARE_APART, room::SQUARE_LD, row, 0, 0);
    K_ALL for (int x = 0; x < 2; x++) miras__add_product<P>(o[x], a, b, x, x + 2);
  }
  K_ALL for (unsigned e = 0; e < 8; e++) {
    const unsigned r = e / 4 * 8 + first + e % 2;
    const size_t at = column + e % 4 / 2 * 8;
    if (!BACK && io->y && r < rows && at < dv) io->y[(t + r) * io->ldy + at] = o[e / 4][e % 4];
    u[e / 4][e % 4] = __fmul_rn(room::left(2)[row + r], u[e / 4][e % 4]);
  }
  miras__left_of<P>(a, u);
  K_ALL for (unsigned f = 0; f < N; f++) {
    miras__chunks_fade<room>(s, part, f);
    miras__square_of<P>(b, room::factor(CH * 2), room::APART, room::LD, row, 16 * f, 1);
    K_ALL for (int x = 0; x < 2; x++)
      miras__add_product<P>(s[2 * f + x], a, b, 2 * x, 2 * x + 1);
  }
}

/* Tokens of the step that begins at token t: states of a tape lie where a part begins. */
static unsigned miras__chunks_step(const miras__chunks *g, size_t t) {
  const size_t per = (size_t)g->p->tape_tokens, left = g->end - t;
  size_t step = MIRAS__CHUNKS_STEP;
  if (g->tape && per % MIRAS__PART && per - t % per < step) step = per - t % per;
  return (unsigned)(left < step ? left : step);
}

/* Keys of the step of `rows` tokens from t on, of which a warp has brought its own parts'. */
template <class room>
static void miras__chunks_keys_of(const miras__chunks *g, size_t t, unsigned rows) {
  miras__copies_wait();
  __syncwarp(0xffffffffu);
  for (unsigned part = threadIdx.x / 32; part < room::PARTS; part += blockDim.x / 32) {
    const unsigned m = miras__part_rows(rows, part);
    if (!m) continue;
    if (room::CH) miras__chunks_channels<room>(g, part, t + part * MIRAS__PART, m);
    else miras__chunks_keys<room>(g, part, t + part * MIRAS__PART, m);
  }
  __syncthreads();
}

/* From state `from` to states `to` and `also`, where there are such. */
template <class room>
static void miras__chunks_forward(const miras__chunks *block, const float *from, float *to,
                                  float *also) {
  enum { N = room::N };
  const unsigned warp = threadIdx.x / 32;
  const size_t per = (size_t)block->p->tape_tokens, dv = (size_t)block->p->d.value_dim;
  const int late = room::CH && block->init;          /* rows as they came are wanted longer */
  miras__chunks own = *block;
  const miras__chunks *g = &own;
  float s[2 * N][4];
  unsigned rows = miras__chunks_step(g, g->first);
  own.column += 16 * warp;
  miras__chunks_load<N>(s, g, from);
  miras__chunks_bring<room>(g, g->first, rows);
  for (size_t t = g->first; t < g->end;) {
    const size_t next = t + rows;
    const unsigned ahead = next < g->end ? miras__chunks_step(g, next) : 0;
    miras__chunks_keys_of<room>(g, t, rows);
    if (ahead && !late) miras__chunks_bring<room>(g, next, ahead);
    for (unsigned part = 0; g->column < dv && part * MIRAS__PART < rows; part++) {
      const size_t at = t + part * MIRAS__PART;
      if (g->tape && at % per == 0)
        miras__chunks_keep<N>(s, g, g->tape + at / per * g->p->tape_chunk, 0);
      miras__chunks_values<room>(s, g, part, at, miras__part_rows(rows, part), NULL, 1);
    }
    __syncthreads();
    if (ahead && late) miras__chunks_bring<room>(g, next, ahead);
    t = next, rows = ahead;
  }
  if (to && g->column < dv) miras__chunks_keep<N>(s, g, to, 1);
  if (also && g->column < dv) miras__chunks_keep<N>(s, g, also, 1);
}

/* What an adjoint is told beside: where gradients go, of answers and of the state behind. */
typedef struct miras__chunks_back {
  miras__chunks g;
  const miras__head_grads *d;
  const float *dy;
  size_t lddy, position;
  float *dinit, *dstate;             /* dinit: added to                                           */
  unsigned *stash;
} miras__chunks_back;

#ifndef MIRAS_NO_TRAINING
/* ---- their adjoint ----
 *
 * A block is a head, with all its columns of values, and goes through the parts from the last one
 * to the first, with G, the cotangent of the state behind a part, in registers as S is above: a
 * warp has 16 columns. With U of rows u_j, lam_j = eta_j L_15j (G' X is so scaled), g = dY, and
 * l, E as above, a part is
 *   H = V - diag(ce) Z S   U = T H   Y = diag(c) Q S + P U   S_end = c_15 S + (diag(lam) X)' U
 *   P_ij = L_ij eta_j q_i . x_j (j <= i)     T = (I + A)^-1, A_ij = E_ij eta_j z_i . x_j (j < i)
 * and so, column by column, which is what warps do first (values):
 *   dU = P' g + diag(lam) X G     dH = T' dU     dV = dH
 *   dS = c_15 G + (diag(c) Q)' g - (diag(ce) Z)' dH                       the G of the part before
 * and over all columns, which is what they do next, each with 16 features (features):
 *   r = g S'     s = -dH S'     w = U G'     f = diag(S G')     dP = g U'     dA = -dH U'
 *   dq_i = c_i r_i + sum_j dP_ij L_ij eta_j x_j     dz_i = ce_i s_i + sum_j dA_ij E_ij eta_j x_j
 *   a_j = L_15j w_j + sum_i dP_ij L_ij q_i + dA_ij E_ij z_i
 *   dx_j = eta_j a_j     deta_j = a_j . x_j
 * In the end rows are whole (rows): keys are read and written, dk_i = dz_i + dx_i; implicit steps,
 * lengths; and decays, one to a row, from
 *   dL_ij = eta_j dP_ij q_i . x_j + eta_j dA_ij z_i . x_j, the latter at (i-1)j before,
 *   dL_15j += eta_j w_j . x_j     dc_i = q_i . r_i + z_i . s_i, or at i-1     dc_15 += sum f
 * by B_ij = dL_ij + alpha_(i+1) B_(i+1)j and dalpha_i = sum_(j<i) B_ij L_(i-1)j, with c as a column
 * j = -1.
 * With a decay per channel r, s and w belong to E_i q_i, E_i z_i and D_15j, and a thread has a
 * channel (channels): with B_ij the cotangent of D_ij = L_ij (.) x_j, of which B_15j = w_j, and F
 * that of E_i, F = f at first, for i = 15 down to 0
 *   B_ij += dP_ij q_i [+ dA_ij z_i after]     F += q_i r_i [+ z_i s_i after]
 *   dq_i = E_i r_i + sum_j dP_ij D_ij     dz_i = E_i s_i + sum_j dA_ij D_ij, before: of i - 1
 *   dalpha_i = E_(i-1) F + sum_(j<i) B_ij D_(i-1)j     a_i = B_ii
 *   B_(i-1)j = alpha_i B_ij [+ dA_ij z_i before]     F <- alpha_i F [+ z_i s_i before]
 * with eta_j in x_j. Nothing is divided. Where there is B, rows add g B' and -dH B' to dq and dz.
 *
 * S and U are made anew: for as many tokens as a step or a stretch of the tape has, whichever is
 * more, a pass forward leaves both of each part in memory, as factors as they lie in a warp, while
 * G rests there too, so that registers have one of S and G at a time. A part has three barriers,
 * between what warps do; sums are made in one order, whatever the block's size. */

/* Shared memory behind what keys have: dP and dA, as they are or as factors with their decays and
 * with eta too; rows that become dq, dz and w, dk; sums of warps; g, U and dH, their rows the
 * columns of values; S and G likewise, COLUMNS of them at a time. */
template <class room> struct miras__chunks_more {
  enum {
    P = room::P, CH = room::CH, STAGE = MIRAS__PART * room::WIDE, TURNED_LD = MIRAS__PART + 8,
    SQUARE = MIRAS__PART * MIRAS__PART, SUMS = 5 * MIRAS__PART,
    SQUARE_APART = MIRAS__PART * room::SQUARE_LD * 2,
    STAGES = room::BYTES + (CH ? 0 : 4 * P * SQUARE_APART) + 2 * SQUARE * 4,
    ENDS = STAGES + (2 + CH) * STAGE * 4 + CH * room::WIDE * 4
  };
  static __host__ __device__ unsigned columns(unsigned warps) {
    return P > 1 && warps > 4 ? 64 : 16 * warps;
  }
  static __host__ __device__ size_t bytes(unsigned warps) {
    return ENDS + warps * (SUMS * 4 + 3 * P * MIRAS__PART * TURNED_LD * 2) +
           (size_t)2 * P * columns(warps) * room::LD * 2;
  }
  /* words of memory for a head: S and U of `parts` parts, G, and S where a step ends */
  static __host__ __device__ size_t part_words(void) { return (room::N + 1) * P * 128; }
  static __host__ __device__ size_t words(unsigned warps, size_t parts) {
    return warps * (parts * part_words() + 512 * room::N);
  }
  __device__ static float *score(unsigned which) {     /* of dP, of dA                            */
    return (float *)(void *)(room::start() + STAGES) - (2 - which) * SQUARE;
  }
  __device__ static char *square(unsigned which) {     /* with decays: of dP, dA; and with eta    */
    return room::start() + room::BYTES + which * P * SQUARE_APART;
  }
  __device__ static float *stage(unsigned which) {
    return (float *)(void *)(room::start() + STAGES) + which * STAGE;
  }
  __device__ static float *sums(unsigned warp) {       /* q.r, z.s, x.w, a.x of rows; f           */
    return (float *)(void *)(room::start() + ENDS) + warp * SUMS;
  }
  __device__ static unsigned turned_apart(void) { return blockDim.x / 2 * TURNED_LD * 2; }
  __device__ static char *turned(unsigned which) {     /* g, U, dH                                */
    return (char *)(void *)sums(blockDim.x / 32) + which * P * turned_apart();
  }
  __device__ static unsigned state_apart(void) { return columns(blockDim.x / 32) * room::LD * 2; }
  __device__ static char *state(unsigned which) {      /* S, G                                    */
    return turned(3) + which * P * state_apart();
  }
};

/* A factor as it lies in a warp to rows of shared memory. */
template <int P>
static void miras__chunks_put(char *to, unsigned apart, unsigned ld, unsigned row, unsigned column,
                              const unsigned a[P][4]) {
  const unsigned lane = threadIdx.x % 32;
  K_ALL for (unsigned i = 0; i < 4 * P; i++)
    *(unsigned *)(void *)(to + i / 4 * apart +
                          ((row + lane / 4 + i % 2 * 8) * ld + column + i % 4 / 2 * 8 +
                           lane % 4 * 2) * 2) = a[i / 4][i % 4];
}

/* Elements w and w + 1 of a factor's row. */
template <class room>
static void miras__chunks_pair(float to[2], unsigned which, unsigned row, unsigned w) {
  const char *at = room::factor(which) + (row * room::LD + w) * 2;
  to[0] = to[1] = 0;
  K_ALL for (int i = room::P; i-- > 0;) {
    const unsigned both = *(const unsigned *)(const void *)(at + i * room::APART);
    to[0] = __fadd_rn(to[0], __int_as_float((int)(both << 16)));
    to[1] = __fadd_rn(to[1], __int_as_float((int)(both & 0xffff0000u)));
  }
}

/* Values: dU, dH and dV of a part; g, U and dH go to shared memory. Leaves g and dH. */
template <class room>
static void miras__chunks_values_bwd(float y[2][4], float h[2][4], float G[2 * room::N][4],
                                     const miras__chunks_back *x, unsigned part, size_t t,
                                     unsigned rows, const unsigned *stash) {
  typedef miras__chunks_more<room> more;
  enum { N = room::N, P = room::P, CH = room::CH };
  const miras__chunks *g = &x->g;
  const unsigned lane = threadIdx.x % 32, row = part * MIRAS__PART, first = lane % 4 * 2;
  const unsigned own = threadIdx.x / 32 * 16;
  const size_t column = g->column + lane / 4, dv = (size_t)g->p->d.value_dim;
  float d[2][4];
  unsigned a[P][4], b[P][4];
  K_ALL for (unsigned e = 0; e < 8; e++) {
    const unsigned r = e / 4 * 8 + first + e % 2;
    const size_t at = column + e % 4 / 2 * 8;
    y[e / 4][e % 4] = r < rows && at < dv ? x->dy[(t + r) * x->lddy + at] : 0;
    d[e / 4][e % 4] = h[e / 4][e % 4] = 0;
  }
  K_ALL for (unsigned f = 0; f < N; f++) {
    miras__left_of<P>(a, G + 2 * f);
    miras__square_of<P>(b, room::factor(CH * 2), room::APART, room::LD, row, 16 * f, 0);
    K_ALL for (int z = 0; z < 2; z++) miras__add_product<P>(d[z], a, b, z, z + 2);
  }
  K_ALL for (unsigned e = 0; e < 8; e++)
    d[e / 4][e % 4] = __fmul_rn(room::left(2)[row + e / 4 * 8 + first + e % 2], d[e / 4][e % 4]);
  miras__left_of<P>(a, y);
  miras__chunks_put<P>(more::turned(0), more::turned_apart(), more::TURNED_LD, own, 0, a);
  miras__square_of<P>(b, room::square(1), room::SQUARE_APART, room::SQUARE_LD, row, 0, 1);
  K_ALL for (int z = 0; z < 2; z++) miras__add_product<P>(d[z], a, b, 2 * z, 2 * z + 1);
  if (g->p->delta) {
    miras__left_of<P>(a, d);
    miras__square_of<P>(b, room::square(0), room::SQUARE_APART, room::SQUARE_LD, row, 0, 1);
    K_ALL for (int z = 0; z < 2; z++) miras__add_product<P>(h[z], a, b, 2 * z, 2 * z + 1);
    miras__left_of<P>(a, h);
    miras__chunks_put<P>(more::turned(2), more::turned_apart(), more::TURNED_LD, own, 0, a);
  }
  miras__chunks_fetch<P>(a, stash + N * P * 128);
  miras__chunks_put<P>(more::turned(1), more::turned_apart(), more::TURNED_LD, own, 0, a);
  K_ALL for (unsigned e = 0; e < 8; e++) {
    const unsigned r = e / 4 * 8 + first + e % 2;
    const size_t at = column + e % 4 / 2 * 8;
    if (x->d->v && r < rows && at < dv)
      x->d->v[(t + r) * x->d->ldv + at] = g->p->delta ? h[e / 4][e % 4] : d[e / 4][e % 4];
  }
}

/* S and G go to shared memory, and G becomes that of the part before. */
template <class room>
static void miras__chunks_state_bwd(float G[2 * room::N][4], float y[2][4], float h[2][4],
                                    const miras__chunks_back *x, unsigned part,
                                    const unsigned *stash) {
  typedef miras__chunks_more<room> more;
  enum { N = room::N, P = room::P, CH = room::CH };
  const unsigned row = part * MIRAS__PART, first = threadIdx.x % 4 * 2;
  const unsigned own = threadIdx.x / 32 * 16 % more::columns(blockDim.x / 32);
  unsigned a[P][4], b[P][4], z[P][4];
  K_ALL for (unsigned f = 0; f < N; f++) {
    miras__chunks_fetch<P>(a, stash + f * P * 128);
    miras__chunks_put<P>(more::state(0), more::state_apart(), room::LD, own, 16 * f, a);
    miras__left_of<P>(a, G + 2 * f);
    miras__chunks_put<P>(more::state(1), more::state_apart(), room::LD, own, 16 * f, a);
  }
  K_ALL for (unsigned e = 0; e < 8; e++) {
    const unsigned r = row + e / 4 * 8 + first + e % 2;
    if (!CH) y[e / 4][e % 4] = __fmul_rn(room::left(0)[r], y[e / 4][e % 4]);
    h[e / 4][e % 4] = __fmul_rn(CH ? -1 : -room::left(1)[r], h[e / 4][e % 4]);
  }
  miras__left_of<P>(a, y);
  miras__left_of<P>(z, h);
  K_ALL for (unsigned f = 0; f < N; f++) {
    miras__chunks_fade<room>(G, part, f);
    miras__square_of<P>(b, room::factor(1), room::APART, room::LD, row, 16 * f, 1);
    K_ALL for (int i = 0; i < 2; i++)
      miras__add_product<P>(G[2 * f + i], a, b, 2 * i, 2 * i + 1);
    if (!x->g.p->delta) continue;
    miras__square_of<P>(b, room::factor(0), room::APART, room::LD, row, 16 * f, 1);
    K_ALL for (int i = 0; i < 2; i++)
      miras__add_product<P>(G[2 * f + i], z, b, 2 * i, 2 * i + 1);
  }
}

/* Sums over columns, of 16 features; f is on the diagonal. */
typedef struct miras__chunks_sums {
  float r[2][4], s[2][4], w[2][4], f[2][4];
} miras__chunks_sums;

template <class room>
static void miras__chunks_sum(miras__chunks_sums *to, const miras__chunks_back *x, unsigned f,
                              size_t column) {
  typedef miras__chunks_more<room> more;
  enum { P = room::P };
  const size_t dv = (size_t)x->g.p->d.value_dim, wide = more::columns(blockDim.x / 32);
  for (size_t c = column; c < dv && c < column + wide; c += 16) {
    const unsigned at = (unsigned)c, from = (unsigned)(c - column);
    unsigned a[P][4], b[P][4];
    miras__left_turned<P>(a, more::turned(0), more::turned_apart(), more::TURNED_LD, at, 0);
    miras__square_of<P>(b, more::state(0), more::state_apart(), room::LD, from, 16 * f, 1);
    K_ALL for (int i = 0; i < 2; i++) miras__add_product<P>(to->r[i], a, b, 2 * i, 2 * i + 1);
    if (x->g.p->delta) {
      miras__left_turned<P>(a, more::turned(2), more::turned_apart(), more::TURNED_LD, at, 0);
      K_ALL for (int i = 0; i < 2; i++) miras__add_product<P>(to->s[i], a, b, 2 * i, 2 * i + 1);
    }
    miras__chunks_turn<P>(a, b);
    miras__square_of<P>(b, more::state(1), more::state_apart(), room::LD, from, 16 * f, 1);
    if (x->d->keep)
      K_ALL for (int i = 0; i < 2; i++) miras__add_product<P>(to->f[i], a, b, 2 * i, 2 * i + 1);
    miras__left_turned<P>(a, more::turned(1), more::turned_apart(), more::TURNED_LD, at, 0);
    K_ALL for (int i = 0; i < 2; i++) miras__add_product<P>(to->w[i], a, b, 2 * i, 2 * i + 1);
  }
}

/* Scores: dP, or of the second warp dA; with one decay to a row also as factors. */
template <class room>
static void miras__chunks_scores_bwd(const miras__chunks_back *x, unsigned part, unsigned which) {
  typedef miras__chunks_more<room> more;
  enum { P = room::P, CH = room::CH };
  const unsigned lane = threadIdx.x % 32, row = part * MIRAS__PART;
  const float *l = room::raw(0) + row * room::WIDE;
  const float *known = room::raw(1) + row * room::WIDE + which * more::SQUARE;
  float d[2][4], *const score = more::score(which);
  K_ALL for (unsigned e = 0; e < 8; e++) d[e / 4][e % 4] = 0;
  for (size_t c = 0; c < (size_t)x->g.p->d.value_dim; c += 16) {
    unsigned a[P][4], b[P][4];
    miras__left_turned<P>(a, more::turned(2 * which), more::turned_apart(), more::TURNED_LD,
                          (unsigned)c, 0);
    miras__square_of<P>(b, more::turned(1), more::turned_apart(), more::TURNED_LD, (unsigned)c, 0,
                        1);
    K_ALL for (int i = 0; i < 2; i++) miras__add_product<P>(d[i], a, b, 2 * i, 2 * i + 1);
  }
  K_ALL for (unsigned z = 0; z < 4; z++) {
    const unsigned i = lane / 4 + z % 2 * 8, j = z / 2 * 8 + lane % 4 * 2;
    const unsigned seen = !which || x->g.p->after || !i ? i : i - 1;
    float plain[2], with[2];
    K_ALL for (unsigned e = 0; e < 2; e++) {
      const float all = d[z / 2][z % 2 * 2 + e];
      const float own = j + e < i + !which ? (which ? -all : all) : 0;
      if (CH) score[i * MIRAS__PART + j + e] = own;
      if (CH) continue;
      score[i * MIRAS__PART + j + e] = j + e < i ? __fmul_rn(own, known[i * 16 + j + e]) : 0;
      plain[e] = own != 0 ? __fmul_rn(l[seen * 17 + j + e], own) : 0;
      with[e] = __fmul_rn(room::left(3)[row + j + e], plain[e]);
    }
    if (CH) continue;
    miras__split_to<P>(more::square(which) + (i * room::SQUARE_LD + j) * 2, more::SQUARE_APART,
                       plain[0], plain[1]);
    miras__split_to<P>(more::square(2 + which) + (i * room::SQUARE_LD + j) * 2,
                       more::SQUARE_APART, with[0], with[1]);
  }
}

/* Rows of 16 features to or from shared memory. */
template <class room>
static void miras__chunks_stage(const float c[2][4], unsigned which, unsigned f) {
  float *to = miras__chunks_more<room>::stage(which);
  const unsigned lane = threadIdx.x % 32;
  K_ALL for (unsigned e = 0; e < 8; e++)
    to[(lane / 4 + e % 4 / 2 * 8) * room::WIDE + 16 * f + e / 4 * 8 + lane % 4 * 2 + e % 2] =
      c[e / 4][e % 4];
}

template <class room>
static void miras__chunks_stage_add(float c[2][4], unsigned which, unsigned f) {
  const float *from = miras__chunks_more<room>::stage(which);
  const unsigned lane = threadIdx.x % 32;
  K_ALL for (unsigned e = 0; e < 8; e++) {
    const unsigned w = 16 * f + e / 4 * 8 + lane % 4 * 2 + e % 2;
    c[e / 4][e % 4] = __fadd_rn(c[e / 4][e % 4],
                                from[(lane / 4 + e % 4 / 2 * 8) * room::WIDE + w]);
  }
  miras__chunks_stage<room>(c, which, f);
}

/* What rows read of B. */
template <class room>
static void miras__chunks_init_bwd(float q[2][4], float z[2][4], const miras__chunks_back *x,
                                   unsigned f) {
  typedef miras__chunks_more<room> more;
  enum { P = room::P };
  const size_t n = x->g.p->features, dv = (size_t)x->g.p->d.value_dim;
  const unsigned lane = threadIdx.x % 32;
  for (size_t c = 0; c < dv; c += 16) {
    unsigned a[P][4], b[P][4];
    K_ALL for (unsigned i = 0; i < 4; i++) {
      const size_t w = 16 * f + i / 2 * 8 + lane / 4, at = c + i % 2 * 8 + lane % 4 * 2;
      const float *from = x->g.init + w * dv + at;
      unsigned pairs[P];
      miras__split<P>(pairs, w < n && at < dv ? from[0] : 0, w < n && at + 1 < dv ? from[1] : 0);
      K_ALL for (int k = 0; k < P; k++) b[k][i] = pairs[k];
    }
    miras__left_turned<P>(a, more::turned(0), more::turned_apart(), more::TURNED_LD, (unsigned)c,
                          0);
    K_ALL for (int i = 0; i < 2; i++) miras__add_product<P>(q[i], a, b, 2 * i, 2 * i + 1);
    if (!x->g.p->delta) continue;
    miras__left_turned<P>(a, more::turned(2), more::turned_apart(), more::TURNED_LD, (unsigned)c,
                          0);
    K_ALL for (unsigned i = 0; i < 4 * P; i++) a[i / 4][i % 4] ^= 0x80008000u;
    K_ALL for (int i = 0; i < 2; i++) miras__add_product<P>(z[i], a, b, 2 * i, 2 * i + 1);
  }
}

/* Features, with one decay to a row: dq and dk, and this warp's part of sums over features. */
template <class room>
static void miras__chunks_features_bwd(miras__chunks_sums *of, const miras__chunks_back *x,
                                       unsigned part, unsigned f) {
  typedef miras__chunks_more<room> more;
  enum { P = room::P };
  const unsigned lane = threadIdx.x % 32, row = part * MIRAS__PART;
  const float *last = room::raw(0) + row * room::WIDE + (MIRAS__PART - 1) * 17;
  float sums[2][4], all = 0;
  unsigned a[P][4], k[P][4], q[P][4];
  K_ALL for (unsigned e = 0; e < 8; e++) sums[e / 4][e % 4] = 0;
  K_ALL for (unsigned e = 0; e < 8; e += 2) {
    const unsigned half = e % 4 / 2, i = lane / 4 + half * 8, w = 16 * f + e / 4 * 8 + lane % 4 * 2;
    float keys[2], queries[2];
    miras__chunks_pair<room>(keys, 0, row + i, w);
    miras__chunks_pair<room>(queries, 1, row + i, w);
    K_ALL for (unsigned o = 0; o < 2; o++) {
      float *r = &of->r[e / 4][e % 4 + o], *s = &of->s[e / 4][e % 4 + o];
      float *to = &of->w[e / 4][e % 4 + o];
      *s = -*s;
      sums[half][0] = __fmaf_rn(queries[o], *r, sums[half][0]);
      sums[half][1] = __fmaf_rn(keys[o], *s, sums[half][1]);
      sums[half][2] = __fmaf_rn(keys[o], *to, sums[half][2]);
      *r = __fmul_rn(room::left(0)[row + i], *r);
      *s = __fmul_rn(room::left(1)[row + i], *s);
      *to = __fmul_rn(last[i], *to);
      if (lane / 4 == lane % 4 * 2 + o && half == e / 4)
        all = __fadd_rn(all, of->f[e / 4][e % 4 + o]);
    }
  }
  miras__square_of<P>(k, room::factor(0), room::APART, room::LD, row, 16 * f, 1);
  miras__square_of<P>(q, room::factor(1), room::APART, room::LD, row, 16 * f, 1);
  miras__square_of<P>(a, more::square(2), more::SQUARE_APART, room::SQUARE_LD, 0, 0, 0);
  K_ALL for (int i = 0; i < 2; i++) miras__add_product<P>(of->r[i], a, k, 2 * i, 2 * i + 1);
  miras__left_turned<P>(a, more::square(0), more::SQUARE_APART, room::SQUARE_LD, 0, 0);
  K_ALL for (int i = 0; i < 2; i++) miras__add_product<P>(of->w[i], a, q, 2 * i, 2 * i + 1);
  if (x->g.p->delta) {
    miras__square_of<P>(a, more::square(3), more::SQUARE_APART, room::SQUARE_LD, 0, 0, 0);
    K_ALL for (int i = 0; i < 2; i++) miras__add_product<P>(of->s[i], a, k, 2 * i, 2 * i + 1);
    miras__left_turned<P>(a, more::square(1), more::SQUARE_APART, room::SQUARE_LD, 0, 0);
    K_ALL for (int i = 0; i < 2; i++) miras__add_product<P>(of->w[i], a, k, 2 * i, 2 * i + 1);
  }
  if (x->g.init) miras__chunks_init_bwd<room>(of->r, of->s, x, f);
  K_ALL for (unsigned e = 0; e < 8; e += 2) {
    const unsigned half = e % 4 / 2, i = lane / 4 + half * 8, w = 16 * f + e / 4 * 8 + lane % 4 * 2;
    float keys[2];
    miras__chunks_pair<room>(keys, 0, row + i, w);
    K_ALL for (unsigned o = 0; o < 2; o++) {
      float *s = &of->s[e / 4][e % 4 + o], to = of->w[e / 4][e % 4 + o];
      sums[half][3] = __fmaf_rn(keys[o], to, sums[half][3]);
      *s = __fmaf_rn(room::left(3)[row + i], to, *s);
    }
  }
  miras__chunks_stage<room>(of->r, 0, f);
  miras__chunks_stage<room>(of->s, 1, f);
  K_ALL for (unsigned e = 0; e < 8; e++) {
    float sum = sums[e / 4][e % 4];
    sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, 1));
    sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, 2));
    if (lane % 4 == 0) more::sums(f)[e % 4 * MIRAS__PART + lane / 4 + e / 4 * 8] = sum;
  }
  for (int k2 = 16; k2; k2 /= 2) all = __fadd_rn(all, __shfl_xor_sync(0xffffffffu, all, k2));
  if (!lane) more::sums(f)[4 * MIRAS__PART] = all;
}

/* Channels: dq, dk and a (.) k of all rows, and decays, a thread to a channel. */
template <class room>
static void miras__chunks_channels_bwd(const miras__chunks_back *x, unsigned part, size_t t,
                                       unsigned rows) {
  typedef miras__chunks_more<room> more;
  const miras__plan *p = x->g.p;
  const miras__head_io *io = x->g.io;
  const unsigned row = part * MIRAS__PART;
  for (unsigned w = threadIdx.x; w < p->features; w += blockDim.x) {
    const float *const k = room::raw(0) + row * room::WIDE + w;
    const float *const q = room::raw(1) + row * room::WIDE + w;
    const float *const eta = room::left(3) + row;
    float *const r = more::stage(0) + w, *const s = more::stage(1) + w;
    float *const to = more::stage(2) + w;
    float *const y = room::raw(2) + row * room::WIDE + w;
    float alpha[MIRAS__PART], b[MIRAS__PART], all = more::stage(3)[w];
    K_ALL for (unsigned j = 0; j < MIRAS__PART; j++) {
      alpha[j] = j < rows ? io->keep[(t + j) * io->ld_keep + w] : 1;
      y[j * room::WIDE] = j < rows ? __fmul_rn(eta[j], k[j * room::WIDE]) : 0;
      b[j] = to[j * room::WIDE];
    }
    for (unsigned i = rows; i-- > 0;) {
      const unsigned at = i * room::WIDE;
      const float *const dp = more::score(0) + i * MIRAS__PART;
      const float *const da = more::score(1) + i * MIRAS__PART;
      const float reads = r[at], errs = p->delta ? s[at] : 0;
      miras__pair of;
      float itself = 0, a = 0, e = 1, z;
      of.alpha = io->keep[(t + i) * io->ld_keep + w], of.q = q[at], of.z = k[at], of.h = 0;
      of.t = 0, of.u = 0;
      K_ALL for (unsigned j = MIRAS__PART; j-- > 0;) {
        if (j == i) {
          a = __fmaf_rn(dp[j], of.q, b[j]);
          itself = __fmul_rn(dp[j], y[j * room::WIDE]);
        }
        if (j < i) {
          b[j] = miras__part_pair(&of, b[j], __fmul_rn(e, y[j * room::WIDE]), dp[j],
                                  p->delta ? da[j] : 0, p->after);
          e = __fmul_rn(e, alpha[j]);
        }
      }
      all = __fmaf_rn(of.q, reads, all);
      if (p->after) all = __fmaf_rn(of.z, errs, all);
      if (x->d->keep)
        x->d->keep[(t + i) * x->d->ld_keep + w] = __fmaf_rn(e, all, of.h);
      r[at] = __fmaf_rn(__fmul_rn(of.alpha, e), reads, __fmaf_rn(of.alpha, of.t, itself));
      z = p->after ? __fmaf_rn(__fmul_rn(of.alpha, e), errs, __fmul_rn(of.alpha, of.u))
                   : __fmaf_rn(e, errs, of.u);
      s[at] = __fmaf_rn(eta[i], a, z);
      to[at] = __fmul_rn(of.z, a);
      all = __fmul_rn(of.alpha, all);
      if (!p->after) all = __fmaf_rn(of.z, errs, all);
    }
  }
  __syncthreads();
}

/* Decays, one to a row, of a warp: lane j has column j of dL, and lane 16 that of c. */
template <class room>
static void miras__chunks_decay_bwd(const miras__chunks_back *x, unsigned part, size_t t,
                                    unsigned rows) {
  typedef miras__chunks_more<room> more;
  const miras__plan *p = x->g.p;
  const unsigned lane = threadIdx.x % 32, row = part * MIRAS__PART, j = lane % MIRAS__PART;
  const float *const l = room::raw(0) + row * room::WIDE, *const c = room::left(0) + row;
  float b = 0, last = 0;
  for (unsigned w = 0; w < room::N; w++)
    last = __fadd_rn(last, lane < 16 ? __fmul_rn(room::left(3)[row + j],
                                                 more::sums(w)[2 * MIRAS__PART + j])
                                     : more::sums(w)[4 * MIRAS__PART]);
  for (unsigned i = MIRAS__PART; i-- > 0;) {
    const unsigned at = p->after ? i : i + 1;          /* the row whose error has L_ij            */
    const float by = i + 1 < rows ? x->g.io->keep[(t + i + 1) * x->g.io->ld_keep] : 1;
    float own = i + 1 == MIRAS__PART ? last : 0, sum;
    if (lane < 16) {
      if (j < i) own = __fadd_rn(own, more::score(0)[i * MIRAS__PART + j]);
      if (p->delta && j < i && at < MIRAS__PART)
        own = __fadd_rn(own, more::score(1)[at * MIRAS__PART + j]);
    } else {
      for (unsigned w = 0; w < room::N; w++) {
        own = __fadd_rn(own, more::sums(w)[i]);
        if (p->delta && at < MIRAS__PART)
          own = __fadd_rn(own, more::sums(w)[MIRAS__PART + at]);
      }
    }
    b = __fmaf_rn(by, b, own);
    sum = lane > 16 || (lane < 16 && j >= i) ? 0
        : __fmul_rn(b, lane < 16 ? l[(i ? i - 1 : 0) * 17 + j] : i ? c[i - 1] : 1);
    for (int k = 16; k; k /= 2) sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, k));
    if (!lane && i < rows) x->d->keep[(t + i) * x->d->ld_keep] = sum;
  }
}

/* Rows, a unit to each: steps, and what keys and queries were made of. */
template <class room>
static void miras__chunks_rows_bwd(const miras__chunks_back *x, unsigned part, size_t t,
                                   unsigned rows) {
  typedef miras__chunks_more<room> more;
  enum { CH = room::CH };
  const miras__plan *p = x->g.p;
  const miras__head_io *io = x->g.io;
  const size_t n = p->features;
  for (unsigned i = threadIdx.x / 16; i < rows; i += blockDim.x / 16) {
    const unsigned own = part * MIRAS__PART + i;
    float *const dq = more::stage(0) + i * room::WIDE, *const dk = more::stage(1) + i * room::WIDE;
    float deta = 0;
    if (CH)
      for (size_t w = miras__lane(); w < n; w += 16)
        deta = __fadd_rn(deta, more::stage(2)[i * room::WIDE + w]);
    else for (unsigned w = 0; w < room::N; w++)
      deta = __fadd_rn(deta, more::sums(w)[3 * MIRAS__PART + i]);
    if (CH) deta = miras__hsum(&deta);
    if (p->implicit) {
      const float eta = room::left(3)[own], rate = io->rate[(t + i) * io->ld_rate];
      const int normalized = p->epsilon > 0;         /* the step is rate by, else rate / (1 + ..) */
      const float less = -2 * eta * (!normalized ? eta : rate > 0 ? eta / rate : 0) * deta;
      float xx = 0, by;
      for (size_t w = miras__lane(); w < n; w += 16) {
        float k[2];
        if (CH) k[0] = room::raw(0)[own * room::WIDE + w];
        else miras__chunks_pair<room>(k, 0, own, (unsigned)w / 2 * 2);
        if (!CH && w % 2) k[0] = k[1];
        xx = __fmaf_rn(k[0], k[0], xx);
        dk[w] = __fmaf_rn(less, k[0], dk[w]);
      }
      xx = miras__hsum(&xx);
      by = __fdiv_rn(1, normalized ? __fadd_rn(p->epsilon, xx) : __fmaf_rn(rate, xx, 1));
      deta = __fmul_rn(deta, normalized ? by : by * by);
    }
    if (x->d->rate && miras__lane() == 0) x->d->rate[(t + i) * x->d->ld_rate] = deta;
    if (x->d->k)
      miras__feature_rows_bwd(p->map, x->d->k + (t + i) * x->d->ldk, 0, dk, dk, 0,
                              io->k + (t + i) * io->ldk, 0, 1, n);
    if (x->d->q)
      miras__feature_rows_bwd(p->map, x->d->q + (t + i) * x->d->ldq, 0, dq, dq, 0,
                              io->q + (t + i) * io->ldq, 0, 1, n);
  }
}

/* A part. */
template <class room>
static void miras__chunks_part_bwd(float G[2 * room::N][4], const miras__chunks_back *x,
                                   unsigned part, size_t t, unsigned rows, const unsigned *stash) {
  typedef miras__chunks_more<room> more;
  const unsigned warp = threadIdx.x / 32, wide = more::columns(blockDim.x / 32);
  const size_t dv = (size_t)x->g.p->d.value_dim;
  miras__chunks_sums of;
  float y[2][4], h[2][4];
  K_ALL for (unsigned e = 0; e < 8; e++)
    of.r[e / 4][e % 4] = of.s[e / 4][e % 4] = of.w[e / 4][e % 4] = of.f[e / 4][e % 4] = 0;
  if (x->g.column < dv) miras__chunks_values_bwd<room>(y, h, G, x, part, t, rows, stash);
  for (unsigned from = 0; from < dv; from += wide) {
    if (from) __syncthreads();
    if (x->g.column < dv && warp * 16 / wide * wide == from)
      miras__chunks_state_bwd<room>(G, y, h, x, part, stash);
    __syncthreads();
    if (warp < room::N) miras__chunks_sum<room>(&of, x, warp, from);
  }
  if (warp < (x->g.p->delta ? 2u : 1u)) miras__chunks_scores_bwd<room>(x, part, warp);
  if (room::CH && warp < room::N) {
    const unsigned lane = threadIdx.x % 32;
    K_ALL for (unsigned e = 0; e < 8; e++) {
      const unsigned i = lane / 4 + e % 4 / 2 * 8;
      of.s[e / 4][e % 4] = -of.s[e / 4][e % 4];
      if (i == e / 4 * 8 + lane % 4 * 2 + e % 2) more::stage(3)[16 * warp + i] = of.f[e / 4][e % 4];
    }
    miras__chunks_stage<room>(of.r, 0, warp);
    miras__chunks_stage<room>(of.s, 1, warp);
    miras__chunks_stage<room>(of.w, 2, warp);
  }
  __syncthreads();
  if (room::CH) miras__chunks_channels_bwd<room>(x, part, t, rows);
  else if (warp < room::N) miras__chunks_features_bwd<room>(&of, x, part, warp);
  if (room::CH && x->g.init) {
    if (warp < room::N) {
      K_ALL for (unsigned e = 0; e < 8; e++) of.r[e / 4][e % 4] = of.s[e / 4][e % 4] = 0;
      miras__chunks_init_bwd<room>(of.r, of.s, x, warp);
      miras__chunks_stage_add<room>(of.r, 0, warp);
      miras__chunks_stage_add<room>(of.s, 1, warp);
    }
    __syncthreads();
  } else if (!room::CH) {
    __syncthreads();
  }
  miras__chunks_rows_bwd<room>(x, part, t, rows);
  if (!room::CH && x->d->keep && warp + 1 == blockDim.x / 32)
    miras__chunks_decay_bwd<room>(x, part, t, rows);
}

/* G rests in memory, or comes back. */
template <int N> static void miras__chunks_rest(float s[2 * N][4], unsigned *words, int back) {
  float *const at = (float *)(void *)words + threadIdx.x % 32;
  K_ALL for (unsigned e = 0; e < 8 * N; e++) {
    if (back) s[e / 4][e % 4] = at[e * 32];
    else at[e * 32] = s[e / 4][e % 4];
  }
}

/* to += by s, by 1 or -1. */
template <int N>
static void miras__chunks_add(const float s[2 * N][4], const miras__chunks *g, float *to,
                              float by) {
  const size_t n = g->p->features, dv = (size_t)g->p->d.value_dim;
  const unsigned lane = threadIdx.x % 32;
  K_ALL for (unsigned b = 0; b < 2 * N; b++)
    K_ALL for (unsigned e = 0; e < 4; e++) {
      const size_t w = 8 * b + lane % 4 * 2 + e % 2, c = g->column + lane / 4 + e / 2 * 8;
      if (w < n && c < dv) to[w * dv + c] = __fmaf_rn(by, s[b][e], to[w * dv + c]);
    }
}

/* From the last token to the first. */
template <class room>
static void miras__chunks_backward(const miras__chunks_back *block) {
  typedef miras__chunks_more<room> more;
  enum { N = room::N };
  const unsigned warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const size_t per = (size_t)block->g.p->tape_tokens, dv = (size_t)block->g.p->d.value_dim;
  const size_t ROWS = room::ROWS, all = ROWS % per ? per : ROWS, each = more::part_words();
  const int to_init = block->g.p->to_init;
  miras__chunks_back own = *block;
  const miras__chunks_back *x = &own;
  const miras__chunks *g = &own.g;
  miras__chunks plain;
  unsigned *const rests = own.stash + (all + 15) / 16 * warps * each + warp * 512 * N;
  float s[2 * N][4];
  own.g.column = 16 * warp;
  own.stash += warp * each;
  plain = own.g;
  plain.init = NULL;
  K_ALL for (unsigned e = 0; e < 8 * N; e++) s[e / 4][e % 4] = 0;
  if (x->dstate && g->column < dv) {
    miras__chunks_load<N>(s, &plain, x->dstate);
    if (to_init) miras__chunks_add<N>(s, g, x->dinit, 1);
  }
  miras__chunks_rest<N>(s, rests, 0);
  for (size_t start = (g->end + all - 1) / all * all; start > 0;) {
    const size_t end = start < g->end ? start : g->end;
    size_t t, steps;
    start -= all;
    steps = (end - start + ROWS - 1) / ROWS;
    for (size_t step = 0; step < 2 * steps - 1; step++) {
      const int back = step + 1 >= steps;
      t = start + (back ? 2 * steps - 2 - step : step) * ROWS;
      const unsigned rows = (unsigned)(end - t < ROWS ? end - t : ROWS);
      __syncthreads();
      miras__chunks_bring<room>(g, t, rows);
      miras__chunks_keys_of<room>(g, t, rows);
      if (step < steps && t % per) miras__chunks_rest<N>(s, rests + 256 * N, 1);
      for (unsigned part = 0; step < steps && g->column < dv && part * MIRAS__PART < rows; part++) {
        const size_t at = t + part * MIRAS__PART, next = at + MIRAS__PART;
        if (at % per == 0) miras__chunks_load<N>(s, g, g->tape + at / per * g->p->tape_chunk);
        miras__chunks_values<room>(s, g, part, at, miras__part_rows(rows, part),
                                   x->stash + (at - start) / MIRAS__PART * warps * each,
                                   next < end && next % per);
      }
      if (!back) {
        miras__chunks_rest<N>(s, rests + 256 * N, 0);
        continue;
      }
      miras__chunks_rest<N>(s, rests, 1);
      for (unsigned part = (rows + MIRAS__PART - 1) / MIRAS__PART; part-- > 0;) {
        const size_t at = t + part * MIRAS__PART;
        miras__chunks_part_bwd<room>(s, x, part, at, miras__part_rows(rows, part),
                                     x->stash + (at - start) / MIRAS__PART * warps * each);
      }
      miras__chunks_rest<N>(s, rests, 0);
    }
  }
  if (g->column >= dv) return;
  if (to_init && x->position) miras__chunks_add<N>(s, g, x->dinit, -1);
  if (!to_init && !x->position) miras__chunks_add<N>(s, g, x->dinit, 1);
  K_ALL for (unsigned e = 0; e < 8 * N; e++) s[e / 4][e % 4] = x->position ? s[e / 4][e % 4] : 0;
  if (x->dstate) miras__chunks_keep<N>(s, &plain, x->dstate, 0);
}

/* What all rows read of B goes to its gradient: Q' dY - Z' dV. */
template <class room>
static void miras__chunks_inits(const miras__chunks_back *x) {
  enum { N = room::N, P = room::P };
  const unsigned first = threadIdx.x % 4 * 2;
  const size_t dv = (size_t)x->g.p->d.value_dim, ROWS = room::ROWS;
  miras__chunks g = x->g;
  float s[2 * N][4];
  g.column = threadIdx.x / 32 * 16;
  K_ALL for (unsigned e = 0; e < 8 * N; e++) s[e / 4][e % 4] = 0;
  for (size_t t = 0; t < g.end; t += ROWS) {
    const unsigned rows = (unsigned)(g.end - t < ROWS ? g.end - t : ROWS);
    __syncthreads();
    miras__chunks_bring<room>(&g, t, rows);
    miras__chunks_keys_of<room>(&g, t, rows);
    for (unsigned row = 0; g.column < dv && row < rows; row += MIRAS__PART) {
      float y[2][4], h[2][4];
      unsigned a[P][4], z[P][4], b[P][4];
      K_ALL for (unsigned e = 0; e < 8; e++) {
        const size_t r = row + e / 4 * 8 + first + e % 2;
        const size_t at = g.column + threadIdx.x % 32 / 4 + e % 4 / 2 * 8;
        const int in = r < rows && at < dv;
        y[e / 4][e % 4] = in ? x->dy[(t + r) * x->lddy + at] : 0;
        h[e / 4][e % 4] = in && g.p->delta ? -x->d->v[(t + r) * x->d->ldv + at] : 0;
      }
      miras__left_of<P>(a, y);
      miras__left_of<P>(z, h);
      K_ALL for (unsigned f = 0; f < N; f++) {
        miras__square_of<P>(b, room::factor(1), room::APART, room::LD, row, 16 * f, 1);
        K_ALL for (int i = 0; i < 2; i++)
          miras__add_product<P>(s[2 * f + i], a, b, 2 * i, 2 * i + 1);
        if (!g.p->delta) continue;
        miras__square_of<P>(b, room::factor(0), room::APART, room::LD, row, 16 * f, 1);
        K_ALL for (int i = 0; i < 2; i++)
          miras__add_product<P>(s[2 * f + i], z, b, 2 * i, 2 * i + 1);
      }
    }
  }
  if (g.column < dv) miras__chunks_add<N>(s, &g, x->dinit, 1);
}
#endif
/* ---- perceptrons on matrix units ----
 *
 * Rows of room @51 of two layers, where products are not the host's: one kernel for all whole
 * chunks of a call. In room @51's letters a chunk is
 *   pairs   z_1 = x W_1     y = act(z_1)     z_2 = y W_2     e, d_2 from z_2 and v
 *           d_1 = (d_2 W_2') (.) act'(z_1)
 *   reads   z_1 = a_t q W_1 [+ (1 - a_t) q B_1] [+ f_t q S_1] - (G (.) q x') d_1     p = act(z_1)
 *           z_2 = a_t p W_2 [+ (1 - a_t) p B_2] [+ f_t p S_2] - (G (.) p y') d_2
 *   fold    W_1 <- a_C W_1 [+ (1 - a_C) B_1] [+ f_C S_1] - (G_C x)' d_1
 *           S_1 <- h_C S_1 - (N_C x)' d_1
 *           W_2 <- the same with y and d_2
 * With gates per channel, G_tj = eta_j alpha_(j+1) .. alpha_t and a_t are vectors, of inputs of the
 * first layer and of outputs of the last, and there is no momentum:
 *   reads   z_1 = (a_t (.) q) W_1 [+ ((1 - a_t) (.) q) B_1] - P d_1,  P_tj = q_t . (G_tj (.) x_j)
 *           z_2 = a_t (.) (p W_2) [+ (1 - a_t) (.) (p B_2)] - sum_j (p y')_tj (G_tj (.) d_j2)
 *   fold    W_1 <- a_C (.) W_1 [+ (1 - a_C) (.) B_1] - (G_C (.) x)' d_1,  a_C of rows
 *           W_2 <- W_2 (.) a_C [+ B_2 (.) (1 - a_C)] - y' (G_C (.) d_2),  a_C of columns
 * P, and the sum over j, are floats: a row t goes from j = t back to 0 and takes the decays along,
 * so nothing is divided.
 * Of a link, W = link(A), the fold's W above is A. It is applied, as the engine has it, when the
 * chunk has closed, and its last token then reads W alone. So do the other tokens before that; or,
 * where W is A times a number, they read as above, with that number beside B, P and (p y').
 * Of everything that has hidden columns a column meets the others in sums alone, z_2 and p y'. So
 * they are taken in slabs of `wide`: y, act' (then d_1) and p of a slab lie in shared memory, as
 * bfloat16, P factors of each number, and a slab goes all the way from z_1 to the fold of its
 * weights. z_2 of the pairs is known behind all slabs; where there are several, y is made again.
 *   weights   float32: in shared memory from the first chunk of a call to the last where they fit
 *             beside the rest, else where the state lies, of which a chunk reads them three times;
 *             A of a link lies there anyway
 *             Products take them as they are: a warp splits what it needs
 *   tiles     x, q, d_2, the scores and what is folded, G_C x, G_C d_2 [, N_C x, N_C d_2]
 *   rows      what is tokens by values, errors, norms and steps, the engine's kernels do in its
 *             scratch
 * A warp has 32 rows and 16 columns of a product. There is a barrier to a stage: of each slab five,
 * two more where y is made again, and about 25 of rows to a chunk. No sum depends on how many
 * threads or blocks there are. */
enum { MIRAS__HALVES, MIRAS__HALVES_TURNED, MIRAS__FLOATS, MIRAS__FLOATS_TURNED, MIRAS__EITHER,
       MIRAS__EITHER_TURNED };

/* A factor: rows of bfloat16 in shared memory, `ld` of them to a row, P parts `apart` bytes from
 * each other; or floats [rows, columns] anywhere; either: a tile of such floats where there is one,
 * which gives the same bits. */
typedef struct miras__side {
  char *tile;
  const float *p;
  unsigned ld, apart, rows, columns;
} miras__side;

static miras__side miras__side_floats(const float *p, size_t ld, size_t rows, size_t columns) {
  miras__side s;
  s.tile = NULL, s.p = p, s.ld = (unsigned)ld, s.apart = 0, s.rows = (unsigned)rows;
  s.columns = (unsigned)columns;
  return s;
}

/* [16, 16] of a right factor of floats: 16 of k from k on, columns from `column` on, and as a
 * fragment, whose pairs 0 1 and 2 3 are those of 8 columns. Beyond the factor are zeros. */
template <int TURNED>
static void miras__side_bring(float to[4][2], const miras__side *s, unsigned k, unsigned column) {
  const unsigned deep = TURNED ? s->columns : s->rows, wide = TURNED ? s->rows : s->columns;
  const unsigned lane = threadIdx.x % 32, across = TURNED ? s->ld : 1, along = TURNED ? 1 : s->ld;
  const float *p = s->p + (k + lane % 4 * 2) * along + (column + lane / 4) * across;
  const int whole = k + 16 <= deep && column + 16 <= wide;
  K_ALL for (unsigned e = 0; whole && e < 8; e++)
    to[e / 2][e % 2] = p[(e / 2 % 2 * 8 + e % 2) * along + e / 4 * 8 * across];
  K_ALL for (unsigned e = 0; !whole && e < 8; e++) {
    const unsigned n = column + lane / 4 + e / 4 * 8, at = k + lane % 4 * 2 + e / 2 % 2 * 8 + e % 2;
    to[e / 2][e % 2] =
      n < wide && at < deep ? p[(e / 2 % 2 * 8 + e % 2) * along + e / 4 * 8 * across] : 0;
  }
}
template <int P> static void miras__side_split(unsigned to[P][4], const float v[4][2]) {
  K_ALL for (unsigned i = 0; i < 4; i++) {
    unsigned pairs[P];
    miras__split<P>(pairs, v[i][0], v[i][1]);
    K_ALL for (int part = 0; part < P; part++) to[part][i] = pairs[part];
  }
}

/* [16, 16] of a right factor: 16 of k from k on, columns from `column` on. Pairs are as those of
 * floats, or, of a tile that is not turned, 0 2 and 1 3. */
template <int P, int HOW>
static void miras__side_right(unsigned to[P][4], const miras__side *s, unsigned k,
                              unsigned column) {
  if (HOW == MIRAS__HALVES) {
    miras__square_of<P>(to, s->tile, s->apart, s->ld, column, k, 0);
  } else if (HOW == MIRAS__HALVES_TURNED) {
    miras__square_of<P>(to, s->tile, s->apart, s->ld, k, column, 1);
  } else {
    float v[4][2];
    miras__side_bring<HOW == MIRAS__FLOATS_TURNED>(v, s, k, column);
    miras__side_split<P>(to, v);
  }
}

/* c [32, 16] += a left factor's rows from `row` on, of which there are `frags` times 16, times a
 * right one's columns from `column` on, over `deep` of k. Rows of a turned left factor are k.
 * Floats are on their way while those before them are multiplied. */
template <int P, int LEFT, int RIGHT>
static void miras__side_product(float c[2][2][4], const miras__side *left,
                                const miras__side *right, unsigned row, unsigned frags,
                                unsigned column, unsigned deep) {
  enum { Y = RIGHT == MIRAS__HALVES ? 2 : 1, X = RIGHT == MIRAS__HALVES ? 1 : 2 };
  enum { FLOATS = RIGHT == MIRAS__FLOATS || RIGHT == MIRAS__FLOATS_TURNED };
  enum { TURNED = RIGHT == MIRAS__EITHER_TURNED };
  if (RIGHT >= MIRAS__EITHER) {
    if (right->tile)                                 /* turned: [columns, k], as a tile is not    */
      miras__side_product<P, LEFT, TURNED ? MIRAS__HALVES : MIRAS__HALVES_TURNED>(
        c, left, right, row, frags, column, deep);
    else
      miras__side_product<P, LEFT, TURNED ? MIRAS__FLOATS_TURNED : MIRAS__FLOATS>(
        c, left, right, row, frags, column, deep);
    return;
  }
  const miras__side l = *left, r = *right;           /* they stay in registers, beside what may
                                                        change memory                             */
  float v[4][2];
  if (FLOATS) miras__side_bring<RIGHT == MIRAS__FLOATS_TURNED>(v, &r, 0, column);
  for (unsigned k = 0; k < deep; k += 16) {
    unsigned b[P][4];
    if (FLOATS) {
      miras__side_split<P>(b, v);
      if (k + 16 < deep)
        miras__side_bring<RIGHT == MIRAS__FLOATS_TURNED>(v, &r, k + 16, column);
    } else {
      miras__side_right<P, RIGHT>(b, &r, k, column);
    }
    K_ALL for (unsigned i = 0; i < 2; i++) {
      unsigned a[P][4];
      if (i >= frags) continue;
      if (LEFT == MIRAS__HALVES_TURNED)
        miras__left_turned<P>(a, l.tile, l.apart, l.ld, k, row + 16 * i);
      else
        miras__square_of<P>(a, l.tile, l.apart, l.ld, row + 16 * i, k, 0);
      K_ALL for (int j = 0; j < 2; j++) miras__add_product<P>(c[i][j], a, b, j * X, j * X + Y);
    }
  }
}
#define K_PAIRS K_ALL for (unsigned pair = 0; pair < 8; pair++)     /* neighbours in a row of c   */
#define K_ROW (row + pair / 4 * 16 + pair % 2 * 8 + threadIdx.x % 32 / 4)
#define K_COLUMN (column + pair / 2 % 2 * 8 + threadIdx.x % 4 * 2)
#define K_OF(c) (c[pair / 4][pair / 2 % 2] + pair % 2 * 2)

/* A warp's share of a product [rows, columns], in turn; 0: there is no more. */
typedef struct miras__share {
  unsigned row, frags, column;
} miras__share;
static int miras__share_of(miras__share *s, unsigned turn, unsigned rows, unsigned columns) {
  const unsigned down = (rows + 31) / 32, at = turn * (blockDim.x / 32) + threadIdx.x / 32;
  s->row = at % down * 32, s->column = at / down * 16;
  s->frags = rows - s->row < 32 ? 1 : 2;
  return s->column < columns;
}
static void miras__share_clear(float c[2][2][4]) {
  K_ALL for (unsigned e = 0; e < 16; e++) c[e / 8][e / 4 % 2][e % 4] = 0;
}

static void miras__share_minus(float c[2][2][4]) {
  K_ALL for (unsigned e = 0; e < 16; e++)
    c[e / 8][e / 4 % 2][e % 4] = -c[e / 8][e / 4 % 2][e % 4];
}

/* Two neighbours in a row of a tile. */
template <int P>
static void miras__side_put(const miras__side *s, unsigned row, unsigned column, float a,
                            float b) {
  miras__split_to<P>(s->tile + (row * s->ld + column) * 2, s->apart, a, b);
}
template <int P>
static void miras__side_pair(float to[2], const miras__side *s, unsigned row, unsigned column) {
  to[0] = to[1] = 0;
  K_ALL for (int i = P; i-- > 0;) {
    const unsigned both = *(const unsigned *)(const void *)(s->tile + i * s->apart +
                                                            (row * s->ld + column) * 2);
    to[0] = __fadd_rn(to[0], __int_as_float((int)(both << 16)));
    to[1] = __fadd_rn(to[1], __int_as_float((int)(both & 0xffff0000u)));
  }
}

/* m rows of n floats, each times a number of its own where there are such, become a tile of `rows`;
 * what lies behind them is zero. */
template <int P>
static void miras__side_fill(const miras__side *s, unsigned rows, const float *from, unsigned m,
                             unsigned n, const float *scale) {
  const unsigned half = s->columns / 2;
  for (unsigned at = threadIdx.x; at < rows * half; at += blockDim.x) {
    const unsigned r = at / half, w = at % half * 2;
    const float *x = from + r * n + w, by = scale && r < m ? scale[r] : 1;
    miras__side_put<P>(s, r, w, r < m && w < n ? __fmul_rn(by, x[0]) : 0,
                       r < m && w + 1 < n ? __fmul_rn(by, x[1]) : 0);
  }
}

/* What a block has in shared memory, from a start on: tiles, four numbers for each row, and,
 * nearby, the weights, rows of them 4 floats apart so that what a fragment asks for lies in all
 * banks. */
enum {
  MIRAS__X, MIRAS__Q, MIRAS__GX, MIRAS__D2, MIRAS__GD, MIRAS__SCORES, MIRAS__Y, MIRAS__D1,
  MIRAS__P, MIRAS__NX, MIRAS__ND, MIRAS__TILES,
  MIRAS__HQ = MIRAS__NX              /* with gates per channel, (1 - a) (.) q; q is a (.) q then  */
};
typedef struct miras__slabs_size {
  unsigned parts, chunk, momentum, channel, linked;
  unsigned in, mid, mid_out, out;    /* in[0], in[1], out[0], out[1]                              */
  unsigned wide, nearby;
} miras__slabs_size;
typedef struct miras__slabs_room {
  miras__side tile[MIRAS__TILES];
  float *sums, *w[2];
} miras__slabs_room;

/* A tile behind `used` bytes, which it adds to. */
__host__ static void miras__side_tile(miras__side *t, unsigned parts, unsigned rows,
                                      unsigned columns, char *start, size_t *used) {
  t->p = NULL;
  t->rows = rows, t->columns = columns, t->ld = columns + 8, t->apart = rows * t->ld * 2;
  t->tile = start ? start + *used : NULL;
  *used += (size_t)parts * t->apart;
}

/* Lay them out; returns the bytes. start NULL: for that alone. */
__host__ static size_t miras__slabs_lay(miras__slabs_room *to, const miras__slabs_size *s,
                                        char *start) {
  const unsigned rows = (s->chunk + 15) / 16 * 16, in = (s->in + 15) / 16 * 16;
  const unsigned out = (s->out + 15) / 16 * 16;
  const unsigned wide[MIRAS__TILES] = {in, in, in, out, out, rows, s->wide, s->wide, s->wide,
                                       in, out};
  size_t used = 0;
  for (int i = 0; i < (s->momentum ? MIRAS__TILES : MIRAS__NX + (int)s->channel); i++)
    miras__side_tile(&to->tile[i], s->parts, rows, wide[i], start, &used);
  to->sums = start ? (float *)(void *)(start + used) : NULL;
  used += 4 * rows * sizeof(float);
  for (int l = 0; s->nearby && l < 2; l++) {
    const size_t floats = l ? (size_t)s->mid * (s->out + 4) : (size_t)s->in * (s->mid_out + 4);
    to->w[l] = start ? (float *)(void *)(start + used) : NULL;
    used += (floats + 3) / 4 * 4 * sizeof(float);
  }
  return used;
}

/* A head on its way. side: of each layer what a read goes through, W, B and S, p NULL where there
 * is none; and A. reads: of the rows that are read, along A_t or, not live, by W alone. */
typedef struct miras__slabs {
  miras__chunk *c;
  miras__slabs_size size;
  miras__slabs_room at;
  unsigned rows, hidden;             /* C and in[1], rounded up to fragments                      */
  unsigned reads, read_rows;
  int flushes, live;
  float *w[2];
  miras__side side[2][4];
} miras__slabs;

static float miras__slab_act(int kind, float z) {
  float d, dd;
  return miras__v_act(kind, z, &d, &dd);
}
static float miras__slab_slope(int kind, float z) {
  float d, dd;
  miras__v_act(kind, z, &d, &dd);
  return d;
}

/* A layer's side from hidden column `from` on. */
static miras__side miras__side_from(miras__side s, int layer, unsigned from) {
  unsigned *const there = layer ? &s.rows : &s.columns;
  if (s.p) s.p += layer ? from * s.ld : from;
  *there = *there > from ? *there - from : 0;
  return s;
}
static miras__side miras__slab_side(const miras__slabs *f, int layer, int which, unsigned from) {
  return miras__side_from(f->side[layer][which], layer, from);
}

/* y, or p, of two hidden columns from `column` on of a token, from z; slope: act', or NULL. */
static void miras__slab_row(const miras__slabs *f, float y[2], float *slope, const float *z,
                            unsigned row, unsigned column) {
  const miras__plan *p = f->c->p;
  const int kind = (int)p->d.activation;
  K_ALL for (unsigned e = 0; e < 2; e++) {
    const unsigned own = column + e;
    const int in = own < (unsigned)p->out[0];
    y[e] = in ? miras__slab_act(kind, z[e]) : own < (unsigned)p->in[1] && row < f->size.chunk;
    if (slope) slope[e] = in ? miras__slab_slope(kind, z[e]) : 0;
  }
}

/* y and act' of a slab, w hidden columns from `from` on. */
template <int P>
static void miras__slab_up(const miras__slabs *f, unsigned from, unsigned w) {
  const miras__side *tile = f->at.tile, weights = miras__slab_side(f, 0, 0, from);
  miras__share s;
  for (unsigned turn = 0; miras__share_of(&s, turn, f->rows, w); turn++) {
    const unsigned row = s.row, column = s.column;
    float c[2][2][4];
    miras__share_clear(c);
    miras__side_product<P, MIRAS__HALVES, MIRAS__FLOATS>(c, &tile[MIRAS__X], &weights, row, s.frags,
                                                       column, tile[MIRAS__X].columns);
    K_PAIRS {
      float y[2], slope[2];
      if (pair / 4 >= s.frags) continue;
      miras__slab_row(f, y, slope, K_OF(c), K_ROW, from + K_COLUMN);
      miras__side_put<P>(&tile[MIRAS__Y], K_ROW, K_COLUMN, y[0], y[1]);
      miras__side_put<P>(&tile[MIRAS__D1], K_ROW, K_COLUMN, slope[0], slope[1]);
    }
  }
}

/* d_1 in the place of act', which the same threads have stored. */
template <int P>
static void miras__slab_down(const miras__slabs *f, unsigned from, unsigned w) {
  const miras__side *tile = f->at.tile, weights = miras__slab_side(f, 1, 0, from);
  miras__share s;
  for (unsigned turn = 0; miras__share_of(&s, turn, f->rows, w); turn++) {
    const unsigned row = s.row, column = s.column;
    float c[2][2][4];
    miras__share_clear(c);
    miras__side_product<P, MIRAS__HALVES, MIRAS__FLOATS_TURNED>(
      c, &tile[MIRAS__D2], &weights, row, s.frags, column, tile[MIRAS__D2].columns);
    K_PAIRS {
      float d[2];
      if (pair / 4 >= s.frags) continue;
      miras__side_pair<P>(d, &tile[MIRAS__D1], K_ROW, K_COLUMN);
      miras__side_put<P>(&tile[MIRAS__D1], K_ROW, K_COLUMN, __fmul_rn(d[0], K_OF(c)[0]),
                         __fmul_rn(d[1], K_OF(c)[1]));
    }
  }
}

/* Numbers of a product go to `to`, or are added to it, rows of n. */
static void miras__slab_add(float *to, size_t ld, unsigned rows, unsigned n, int add,
                            const float c[2][2][4], const miras__share *s) {
  const unsigned row = s->row, column = s->column;
  K_PAIRS K_ALL for (unsigned e = 0; e < 2; e++)
    if (pair / 4 < s->frags && K_ROW < rows && K_COLUMN + e < n) {
      float *const at = to + K_ROW * ld + K_COLUMN + e;
      *at = add ? __fadd_rn(*at, K_OF(c)[e]) : K_OF(c)[e];
    }
}

/* What a slab adds to z_2 of the pairs. */
template <int P>
static void miras__slab_out(const miras__slabs *f, unsigned from, unsigned w) {
  const miras__side *tile = f->at.tile, weights = miras__slab_side(f, 1, 0, from);
  const unsigned n = f->size.out;
  miras__share s;
  for (unsigned turn = 0; miras__share_of(&s, turn, f->rows, tile[MIRAS__D2].columns); turn++) {
    float c[2][2][4];
    miras__share_clear(c);
    miras__side_product<P, MIRAS__HALVES, MIRAS__FLOATS>(c, &tile[MIRAS__Y], &weights, s.row,
                                                         s.frags, s.column, w);
    miras__slab_add(f->c->net.pairs.z[1], n, f->size.chunk, n, from > 0, c, &s);
  }
}

/* a_t, 1 - a_t or f_t for a column of a layer, the last two times a link's number; of the first
 * one's channels the tiles have them. */
static float miras__slab_left(const miras__slabs *f, int layer, int which, unsigned t,
                              unsigned column) {
  const miras__chunk *c = f->c;
  const unsigned n = f->size.out;
  const float inv = c->inv[layer];
  float a;
  if (!f->live) return 1;
  if (which == 2) return __fmul_rn(inv, c->cf[t]);
  if (f->size.channel && !layer) return which ? inv : 1;
  a = f->size.channel ? c->ca[t * n + (column < n ? column : n - 1)] : c->ca[t];
  return which ? __fmul_rn(inv, __fsub_rn(1, a)) : a;
}

/* c += a_t (x W) [+ (1 - a_t) (x B)] [+ f_t (x S)], or x W */
template <int P>
static void miras__slab_look(float c[2][2][4], const miras__slabs *f, int layer, unsigned from,
                             const miras__side *left, const miras__share *s, unsigned deep) {
  const unsigned row = s->row, column = s->column;
  for (int which = 0; which < (f->live ? 3 : 1); which++) {
    const miras__side right = miras__slab_side(f, layer, which, from);
    float t[2][2][4];
    if (!right.p) continue;
    if (which && f->size.channel && !layer) left = &f->at.tile[MIRAS__HQ];
    miras__share_clear(t);
    miras__side_product<P, MIRAS__HALVES, MIRAS__FLOATS>(t, left, &right, row, s->frags, column,
                                                       deep);
    K_PAIRS {
      const unsigned r = K_ROW < f->size.chunk ? K_ROW : f->size.chunk - 1;
      K_ALL for (unsigned e = 0; e < 2; e++)
        K_OF(c)[e] = __fmaf_rn(miras__slab_left(f, layer, which, r, K_COLUMN + e), K_OF(t)[e],
                               K_OF(c)[e]);
    }
  }
}

/* p of the reads. */
template <int P>
static void miras__slab_read(const miras__slabs *f, unsigned from, unsigned w) {
  const miras__side *tile = f->at.tile;
  miras__share s;
  for (unsigned turn = 0; miras__share_of(&s, turn, f->read_rows, w); turn++) {
    const unsigned row = s.row, column = s.column;
    float c[2][2][4];
    miras__share_clear(c);
    if (f->live)
      miras__side_product<P, MIRAS__HALVES, MIRAS__HALVES_TURNED>(
        c, &tile[MIRAS__SCORES], &tile[MIRAS__D1], row, s.frags, column, row + 16 * s.frags);
    miras__share_minus(c);
    miras__slab_look<P>(c, f, 0, from, &tile[MIRAS__Q], &s, tile[MIRAS__Q].columns);
    K_PAIRS {
      float y[2];
      if (pair / 4 >= s.frags) continue;
      miras__slab_row(f, y, NULL, K_OF(c), K_ROW, from + K_COLUMN);
      miras__side_put<P>(&tile[MIRAS__P], K_ROW, K_COLUMN, y[0], y[1]);
    }
  }
}

/* What a slab adds to p y' and to z_2 of the reads. */
template <int P>
static void miras__slab_answer(const miras__slabs *f, unsigned from, unsigned w) {
  const miras__side *tile = f->at.tile;
  const unsigned n = f->size.out;
  miras__chunk *const k = f->c;
  miras__share s;
  unsigned turn;
  for (turn = 0; f->live && miras__share_of(&s, turn, f->rows, f->rows); turn++) {
    float c[2][2][4];
    if (s.column >= s.row + 32) continue;
    miras__share_clear(c);
    miras__side_product<P, MIRAS__HALVES, MIRAS__HALVES>(c, &tile[MIRAS__P], &tile[MIRAS__Y], s.row,
                                                     s.frags, s.column, w);
    miras__slab_add(k->kq[1], k->p->chunk_pairs, f->size.chunk, f->size.chunk, from > 0, c, &s);
  }
  for (turn = 0; miras__share_of(&s, turn, f->read_rows, tile[MIRAS__D2].columns); turn++) {
    float c[2][2][4];
    miras__share_clear(c);
    miras__slab_look<P>(c, f, 1, from, &tile[MIRAS__P], &s, w);
    miras__slab_add(k->query.z[1], n, f->reads, n, from > 0, c, &s);
  }
}

/* Weights of a layer from row and column 0 of a slab, [rows, columns] of them, to the chunk's end;
 * left, right: what is folded into A, left_s, right_s: into S. */
template <int P>
static void miras__slab_fold(const miras__slabs *f, int layer, unsigned from, unsigned rows,
                             unsigned columns, const miras__side *left, const miras__side *right,
                             const miras__side *left_s, const miras__side *right_s) {
  const miras__side w = miras__slab_side(f, layer, 3, from);
  const miras__side b = miras__slab_side(f, layer, 1, from);
  const miras__side v = miras__slab_side(f, layer, 2, from);
  const unsigned last = f->size.chunk - 1, channel = f->size.channel;
  const float *const left_a = f->c->ca + (channel ? last * f->size.out : last);
  const int momentum = f->side[layer][2].p != NULL;
  const float by = momentum ? f->c->cf[last] : 0, h = momentum ? f->c->ch[last] : 0;
  float *const W = (float *)(uintptr_t)w.p, *const S = (float *)(uintptr_t)v.p;
  miras__share s;
  for (unsigned turn = 0; miras__share_of(&s, turn, rows, columns); turn++) {
    const unsigned row = s.row, column = s.column;
    float c[2][2][4], t[2][2][4];
    miras__share_clear(c);
    miras__share_clear(t);
    miras__side_product<P, MIRAS__HALVES_TURNED, MIRAS__HALVES_TURNED>(c, left, right, row, s.frags,
                                                                   column, f->rows);
    if (momentum)
      miras__side_product<P, MIRAS__HALVES_TURNED, MIRAS__HALVES_TURNED>(t, left_s, right_s, row,
                                                                     s.frags, column, f->rows);
    K_PAIRS K_ALL for (unsigned e = 0; e < 2; e++) {
      const unsigned i = K_ROW, j = K_COLUMN + e;
      float all, a;
      if (pair / 4 >= s.frags || i >= w.rows || j >= w.columns) continue;
      a = left_a[!channel ? 0 : layer ? j : i];
      all = __fmul_rn(a, W[i * w.ld + j]);
      if (b.p) all = __fmaf_rn(__fsub_rn(1, a), b.p[i * b.ld + j], all);
      if (momentum) {
        const float was = S[i * v.ld + j], now = __fsub_rn(__fmul_rn(h, was), K_OF(t)[e]);
        all = __fmaf_rn(by, was, all);
        S[i * v.ld + j] = f->flushes && fabsf(now) < MIRAS__FADED ? 0 : now;
      }
      all = __fsub_rn(all, K_OF(c)[e]);
      W[i * w.ld + j] = f->flushes && fabsf(all) < MIRAS__FADED ? 0 : all;
    }
  }
}

/* ---- what is done of rows ---- */

static float miras__warp_sum(float v) {
  K_ALL for (int k = 16; k; k /= 2) v = __fadd_rn(v, __shfl_xor_sync(0xffffffffu, v, k));
  return v;
}

/* |y|^2 and |d_1|^2 of a slab are added to those of the tokens; a row is a warp's. */
template <int P>
static void miras__slab_squares(const miras__slabs *f, unsigned from, unsigned w) {
  float *const sums = f->at.sums;
  for (unsigned r = threadIdx.x / 32; r < f->size.chunk; r += blockDim.x / 32) {
    float yy = 0, dd = 0;
    for (unsigned at = threadIdx.x % 32; at < w / 2; at += 32) {
      float y[2], d[2];
      miras__side_pair<P>(y, &f->at.tile[MIRAS__Y], r, 2 * at);
      miras__side_pair<P>(d, &f->at.tile[MIRAS__D1], r, 2 * at);
      yy = __fmaf_rn(y[1], y[1], __fmaf_rn(y[0], y[0], yy));
      dd = __fmaf_rn(d[1], d[1], __fmaf_rn(d[0], d[0], dd));
    }
    yy = miras__warp_sum(yy), dd = miras__warp_sum(dd);
    if (threadIdx.x % 32) continue;
    sums[r] = from ? __fadd_rn(sums[r], yy) : yy;
    sums[f->rows + r] = from ? __fadd_rn(sums[f->rows + r], dd) : dd;
  }
}

/* Bounded steps, from those sums: room @51's Q and F, of which every layer has a number for J, its
 * link's or 1. */
static void miras__slabs_bound(const miras__slabs *f) {
  miras__chunk *const c = f->c;
  const miras__plan *p = c->p;
  const size_t in = (size_t)p->in[0], dv = f->size.out;
  c->K->fill(c->bound.along, 1e-20f, c->m);
  c->K->dot_rows(1, c->bound.along, 1, c->net.e, dv, c->net.r, dv, c->m, dv);
  for (unsigned r = threadIdx.x / 32; r < f->size.chunk; r += blockDim.x / 32) {
    const float *const etas = f->size.channel ? c->rows.eta + r * dv : NULL;
    const float eta = etas ? 1 : c->rows.eta[r], yy = f->at.sums[r], dd = f->at.sums[f->rows + r];
    float xx = 0, ee = 0, first;
    for (size_t w = threadIdx.x % 32; w < in; w += 32) {
      const float x = c->net.pairs.x[0][r * in + w];
      xx = __fmaf_rn(etas ? __fmul_rn(etas[w], x) : x, x, xx);
    }
    for (size_t w = threadIdx.x % 32; w < dv; w += 32) {
      const float d = c->net.d[1][r * dv + w];
      ee = __fmaf_rn(etas ? __fmul_rn(etas[w], d) : d, d, ee);
    }
    xx = miras__warp_sum(xx), ee = miras__warp_sum(ee);
    first = __fmul_rn(c->inv[0], __fmul_rn(__fmul_rn(eta, xx), dd));
    if (threadIdx.x % 32) continue;
    c->bound.curve[r] = __fmaf_rn(__fmul_rn(__fmul_rn(c->inv[1], eta), yy), ee, first);
    c->bound.drift[r] = p->d.step_bound == MIRAS_STEP_BOUND_LAYERS
                     ? __fdiv_rn(first, sqrtf(dd) * sqrtf(yy) + 1e-20f)
                     : 0;
  }
  __syncthreads();
  c->K->bound_share(c->bound.share, c->rows.eta, c->bound.along, c->bound.curve, c->bound.drift,
                    p->growth, c->m, c->wide);
}

/* Coefficients: thread j has column j of G and N, one more has a, f and h. Those of the last row go
 * to the sums. */
static void miras__slabs_course(const miras__slabs *f) {
  miras__chunk *const c = f->c;
  const unsigned n = f->size.chunk, j = threadIdx.x;
  const float *alpha = c->rows.alpha, *theta = c->rows.theta;
  if (j < n) {
    const float eta = c->rows.eta[j];
    float g = 0, now = eta;
    for (unsigned t = j; t < n; t++) {
      if (theta && t > j) now = __fmul_rn(theta[t], now);
      g = theta ? t > j ? __fmaf_rn(alpha[t], g, now) : now
          : c->p->d.token_rates ? __fmul_rn(c->rate[t], now)
          : t > j ? __fmul_rn(alpha[t], g) : now;
      c->g[t * c->p->chunk_pairs + j] = g;
    }
    f->at.sums[2 * f->rows + j] = g, f->at.sums[3 * f->rows + j] = now;
  } else if (j == blockDim.x - 1) {
    float a = 1, by = 0, h = 1;
    for (unsigned t = 0; t < n; t++) {
      a = __fmul_rn(a, alpha[t]);
      if (theta) h = __fmul_rn(h, theta[t]), by = __fmaf_rn(alpha[t], by, h);
      c->ca[t] = a, c->cf[t] = by, c->ch[t] = h;
    }
  }
  __syncthreads();
}

/* Lower triangle of x, rows of ld, as a tile of scores: times a number, and g unless that is NULL.
 */
template <int P>
static void miras__slabs_scores(const miras__slabs *f, const miras__side *to, const float *x,
                                const float *g, float by) {
  const size_t ld = f->c->p->chunk_pairs;
  for (unsigned at = threadIdx.x; at < f->rows * f->rows / 2; at += blockDim.x) {
    const unsigned t = at / (f->rows / 2), j = at % (f->rows / 2) * 2;
    const int in = t < f->reads;
    float s[2];
    K_ALL for (unsigned e = 0; e < 2; e++) {
      const size_t own = t * ld + j + e;
      s[e] = !in || j + e > t ? 0
           : __fmul_rn(by, g ? __fmul_rn(g[own], x[own]) : x[own]);
    }
    miras__side_put<P>(to, t, j, s[0], s[1]);
  }
  __syncthreads();
}

/* ---- a chunk ---- */

/* Rows of queries from the chunk's token on. With gates per channel their tile waits for these. */
template <int P> static void miras__slabs_queries(const miras__slabs *f) {
  miras__chunk *const c = f->c;
  miras__rows_queries(c->K, c->p, c->io, c->token, f->reads, c->query.x[0], f->size.in);
  if (f->size.channel && f->live) return;
  miras__side_fill<P>(&f->at.tile[MIRAS__Q], f->read_rows, c->query.x[0], f->reads, f->size.in,
                      NULL);
}

/* Rows of the pairs from token t on, and of their queries. */
template <int P>
static void miras__slabs_rows(miras__slabs *f, size_t t) {
  const miras__side *tile = f->at.tile;
  const unsigned n = f->size.chunk, in = f->size.in;
  miras__chunk *const c = f->c;
  miras__span(c, t, 0, n, 1);
  miras__span_state(c);
  c->rows.x = c->net.pairs.x[0], c->rows.in = in;
  miras__rows_fwd(c->K, c->p, c->io, t, n, &c->rows);
  miras__side_fill<P>(&tile[MIRAS__X], f->rows, c->rows.x, n, in, NULL);
  f->reads = (unsigned)c->reads, f->read_rows = f->rows, f->live = c->retain->reads_live;
  if (f->reads) miras__slabs_queries<P>(f);
  __syncthreads();
}

/* Errors and d_2 of the pairs, from their z_2. */
template <int P>
static void miras__slabs_errors(const miras__slabs *f) {
  const miras__net *n = &f->c->net;
  const miras__pass *s = &n->pairs;
  const size_t m = s->m, dv = f->size.out;
  const miras__errors errors = miras__errors_of(n);
  n->answer->fwd(n, s, n->r, dv);
  if (n->p->d.inner_residual) n->K->add_rows(n->r, dv, s->x[0], f->size.in, m, dv);
  n->K->sub(n->r, n->r, n->v, m * dv);
  n->K->bias_rows(&errors, NULL, NULL, NULL, NULL);
  n->answer->bwd(n, s, n->d[1], n->e, dv);
  miras__side_fill<P>(&f->at.tile[MIRAS__D2], f->rows, n->d[1], f->size.chunk, f->size.out, NULL);
  __syncthreads();
}

/* Scores of queries and keys, and what is folded. */
template <int P>
static void miras__slabs_folded(const miras__slabs *f) {
  const miras__side *tile = f->at.tile;
  const unsigned n = f->size.chunk, in = f->size.in, out = f->size.out, rows = f->rows;
  const float *g = f->at.sums + 2 * rows, *gs = g + rows;
  miras__chunk *const c = f->c;
  miras__share s;
  miras__side_fill<P>(&tile[MIRAS__GX], rows, c->rows.x, n, in, g);
  miras__side_fill<P>(&tile[MIRAS__GD], rows, c->net.d[1], n, out, g);
  if (c->s) {
    miras__side_fill<P>(&tile[MIRAS__NX], rows, c->rows.x, n, in, gs);
    miras__side_fill<P>(&tile[MIRAS__ND], rows, c->net.d[1], n, out, gs);
  }
  for (unsigned turn = 0; f->reads && f->live && miras__share_of(&s, turn, rows, rows); turn++) {
    float k[2][2][4];
    if (s.column >= s.row + 32) continue;
    miras__share_clear(k);
    miras__side_product<P, MIRAS__HALVES, MIRAS__HALVES>(k, &tile[MIRAS__Q], &tile[MIRAS__X], s.row,
                                                     s.frags, s.column, tile[MIRAS__X].columns);
    miras__slab_add(c->kq[0], c->p->chunk_pairs, n, n, 0, k, &s);
  }
  __syncthreads();
  if (f->reads && f->live)
    miras__slabs_scores<P>(f, &tile[MIRAS__SCORES], c->kq[0], c->g, c->inv[0]);
}

/* ---- gates per channel ---- */

/* m rows of n, each number times by, or 1 - by with `rest`, become a tile. */
template <int P>
static void miras__slabs_gated(const miras__side *s, unsigned m, unsigned n, const float *from,
                               const float *by, int rest) {
  const unsigned half = s->columns / 2;
  for (unsigned at = threadIdx.x; at < s->rows * half; at += blockDim.x) {
    const unsigned r = at / half, w = at % half * 2;
    float x[2];
    K_ALL for (unsigned e = 0; e < 2; e++) {
      const size_t own = r * n + w + e;
      x[e] = r >= m || w + e >= n ? 0
           : __fmul_rn(rest ? __fsub_rn(1, by[own]) : by[own], from[own]);
    }
    miras__side_put<P>(s, r, w, x[0], x[1]);
  }
}

/* Scores asked_t . D_tj, D what is left at t of row j of what was written, the first layer's P: a
 * row is a warp's, whose lanes have up to 4 channels each. */
static void miras__slabs_met(const miras__slabs *f, const float *asked, const float *written,
                             float *to) {
  const miras__chunk *c = f->c;
  const unsigned n = f->size.in, lane = threadIdx.x % 32;
  for (unsigned t = threadIdx.x / 32; t < f->reads; t += blockDim.x / 32) {
    float q[4];
    K_ALL for (unsigned i = 0; i < 4; i++)
      q[i] = 32 * i + lane < n ? asked[t * n + 32 * i + lane] : 0;
    for (unsigned j = t + 1; j-- > 0;) {
      float sum = 0;
      K_ALL for (unsigned i = 0; i < 4; i++) {
        const size_t at = j * n + 32 * i + lane;
        if (32 * i + lane >= n) continue;
        sum = __fmaf_rn(q[i], written[at], sum);
        q[i] = __fmul_rn(c->rows.alpha[at], q[i]);
      }
      sum = miras__warp_sum(sum);
      if (!lane) to[t * c->p->chunk_pairs + j] = sum;
    }
  }
}

/* a, and what is folded, from the chunk's end on: a thread has a channel of one of the two. Rows
 * times their steps, eta (.) x and eta (.) d_2, are where the state has the open chunk's; where
 * there are live reads, P. */
static void miras__slabs_decays(const miras__slabs *f, int live) {
  miras__chunk *const c = f->c;
  const unsigned n = f->size.in, m = (unsigned)c->m;
  const float *const alpha = c->rows.alpha;
  c->K->mul(c->live_y, c->rows.eta, c->rows.x, m * (size_t)n);
  c->K->mul(c->live_d, c->rows.eta, c->net.d[1], m * (size_t)n);
  for (unsigned at = threadIdx.x; at < 2 * n; at += blockDim.x) {
    const unsigned w = at % n;
    float left = 1;
    for (unsigned i = 0; at < n && i < m; i++)
      c->ca[i * n + w] = left = __fmul_rn(alpha[i * n + w], left);
    for (unsigned j = m; at >= n && j-- > 0;) {
      c->left[j * n + w] = left;
      left = __fmul_rn(alpha[j * n + w], left);
    }
  }
  if (live) miras__slabs_met(f, c->query.x[0], c->live_y, c->kq[0]);
  __syncthreads();
}

/* Their tiles; queries are tiles, then their scores. */
template <int P>
static void miras__slabs_channels(const miras__slabs *f) {
  const miras__side *tile = f->at.tile;
  const miras__chunk *c = f->c;
  const unsigned n = f->size.in, m = f->size.chunk;
  const float *const q = c->query.x[0];
  const int live = f->reads && f->live;
  miras__slabs_decays(f, live);
  miras__slabs_gated<P>(&tile[MIRAS__GX], m, n, c->live_y, c->left, 0);
  miras__slabs_gated<P>(&tile[MIRAS__GD], m, n, c->live_d, c->left, 0);
  if (live) {
    miras__slabs_gated<P>(&tile[MIRAS__Q], f->reads, n, q, c->ca, 0);
    if (c->init) miras__slabs_gated<P>(&tile[MIRAS__HQ], f->reads, n, q, c->ca, 1);
    miras__slabs_scores<P>(f, &tile[MIRAS__SCORES], c->kq[0], NULL, c->inv[0]);
  } else {
    __syncthreads();
  }
}

/* What the chunk's rows have written of the last layer, from the answers: a thread has a number. */
static void miras__slabs_mixed(const miras__slabs *f) {
  const miras__chunk *c = f->c;
  const unsigned n = f->size.out;
  for (unsigned at = threadIdx.x; at < f->reads * n; at += blockDim.x) {
    const unsigned t = at / n, w = at % n;
    const float *const met = c->kq[1] + t * c->p->chunk_pairs;
    float left = c->inv[1], sum = 0;
    for (unsigned j = t + 1; j-- > 0;) {
      sum = __fmaf_rn(met[j], __fmul_rn(left, c->live_d[j * n + w]), sum);
      left = __fmul_rn(c->rows.alpha[j * n + w], left);
    }
    c->query.z[1][at] = __fsub_rn(c->query.z[1][at], sum);
  }
  __syncthreads();
}

/* Answers, from what slabs have added to z_2 of the reads and to p y'. */
template <int P>
static void miras__slabs_answers(const miras__slabs *f) {
  const miras__side *tile = f->at.tile;
  const size_t dv = f->size.out;
  miras__chunk *const k = f->c;
  miras__pass s = k->query;
  float *const o = k->io->y + k->token * k->ldy;
  miras__share at;
  const int scores = f->live && !f->size.channel;
  if (scores) miras__slabs_scores<P>(f, &tile[MIRAS__SCORES], k->kq[1], k->g, k->inv[1]);
  else if (f->live) miras__slabs_mixed(f);
  for (unsigned turn = 0; scores &&
       miras__share_of(&at, turn, f->rows, tile[MIRAS__D2].columns); turn++) {
    float c[2][2][4];
    miras__share_clear(c);
    miras__side_product<P, MIRAS__HALVES, MIRAS__HALVES_TURNED>(
      c, &tile[MIRAS__SCORES], &tile[MIRAS__D2], at.row, at.frags, at.column,
      at.row + 16 * at.frags);
    miras__share_minus(c);
    miras__slab_add(k->query.z[1], dv, f->reads, f->size.out, 1, c, &at);
  }
  __syncthreads();
  s.m = f->reads;
  k->net.answer->fwd(&k->net, &s, o, k->ldy);
  if (k->p->d.inner_residual)
    k->K->add_rows(o, k->ldy, s.x[0], f->size.in, s.m, (size_t)k->p->d.key_dim);
}

/* Weights come to shared memory where they lie near; and go from there, or from the state, to
 * rows without a gap. */
static void miras__slabs_bring(const miras__slabs *f) {
  const miras__plan *p = f->c->p;
  for (int l = 0; l < 2; l++)
    for (unsigned r = threadIdx.x / 32; r < (unsigned)p->in[l]; r += blockDim.x / 32)
      miras__chunks_copy(f->w[l] + r * f->side[l][0].ld, 0,
                         f->c->w + p->offset[l] + r * (size_t)p->out[l], 0, 1, (unsigned)p->out[l]);
  miras__copies_wait();
  __syncthreads();
}
static void miras__slabs_keep(const miras__slabs *f, float *to) {
  const miras__plan *p = f->c->p;
  const int nearby = f->size.nearby && !f->size.linked;
  for (int l = 0; nearby && l < 2; l++) {
    const unsigned n = (unsigned)p->out[l];
    for (unsigned at = threadIdx.x; at < (unsigned)p->in[l] * n; at += blockDim.x)
      to[p->offset[l] + at] = f->w[l][at / n * f->side[l][0].ld + at % n];
  }
  if (!nearby) f->c->K->copy(to, f->c->a, p->weights);
  else __syncthreads();
}

#define K_SLABS for (from = 0; from < f->hidden; from += wide)
#define K_WIDE (f->hidden - from < wide ? f->hidden - from : wide)

/* W from what A has become, and what the last token reads of it. */
template <int P>
static void miras__slabs_close(miras__slabs *f) {
  const unsigned wide = f->size.wide;
  miras__chunk *const c = f->c;
  unsigned from;
  miras__span_close(c, c->w, c->a, NULL, c->a, c->scalars + 4);
  if (f->size.nearby) miras__slabs_bring(f);
  if (!c->closing) return;
  c->token += c->reads;
  f->reads = 1, f->read_rows = 16, f->live = 0;
  miras__slabs_queries<P>(f);
  __syncthreads();
  K_SLABS {
    miras__slab_read<P>(f, from, K_WIDE);
    __syncthreads();
    miras__slab_answer<P>(f, from, K_WIDE);
    __syncthreads();
  }
  miras__slabs_answers<P>(f);
}

template <int P>
static void miras__slabs_chunk(miras__slabs *f, size_t t) {
  const miras__side *tile = f->at.tile;
  const unsigned wide = f->size.wide;
  const int several = wide < f->hidden, bounded = f->c->p->d.step_bound;
  unsigned from;
  miras__slabs_rows<P>(f, t);
  K_SLABS {
    miras__slab_up<P>(f, from, K_WIDE);
    __syncthreads();
    miras__slab_out<P>(f, from, K_WIDE);
    __syncthreads();
  }
  miras__slabs_errors<P>(f);
  if (bounded) {
    K_SLABS {
      if (several) miras__slab_up<P>(f, from, K_WIDE);
      miras__slab_down<P>(f, from, K_WIDE);
      __syncthreads();
      miras__slab_squares<P>(f, from, K_WIDE);
      if (several) __syncthreads();
    }
    miras__slabs_bound(f);
  }
  if (f->size.channel) {
    miras__slabs_channels<P>(f);
  } else {
    miras__slabs_course(f);
    miras__slabs_folded<P>(f);
  }
  K_SLABS {
    const unsigned w = K_WIDE;
    if (several) miras__slab_up<P>(f, from, w);
    if (several || !bounded) miras__slab_down<P>(f, from, w);
    __syncthreads();
    if (f->reads) {
      miras__slab_read<P>(f, from, w);
      __syncthreads();
      miras__slab_answer<P>(f, from, w);
    }
    miras__slab_fold<P>(f, 0, from, tile[MIRAS__X].columns, w, &tile[MIRAS__GX], &tile[MIRAS__D1],
                        &tile[MIRAS__NX], &tile[MIRAS__D1]);
    __syncthreads();
    miras__slab_fold<P>(f, 1, from, w, tile[MIRAS__D2].columns, &tile[MIRAS__Y], &tile[MIRAS__GD],
                        &tile[MIRAS__Y], &tile[MIRAS__ND]);
    __syncthreads();
  }
  if (f->reads) miras__slabs_answers<P>(f);
  if (f->size.linked) miras__slabs_close<P>(f);
}
#undef K_SLABS
#undef K_WIDE

/* A state as a tape has it. */
static void miras__slabs_tape(const miras__slabs *f, float *to) {
  const miras__chunk *c = f->c;
  miras__slabs_keep(f, to);
  if (c->s) c->K->copy(to + c->p->weights, c->s, c->p->weights);
}

/* Whole chunks of a call, tokens first to end. rest: what lies behind them begins on the tape. */
template <int P>
static void miras__slabs_forward(const miras__call *call, const miras__slabs_size *size,
                                 size_t first, size_t end, int rest) {
  const miras__plan *p = call->p;
  miras__chunk chunk, *c = &chunk;
  miras__slabs slabs, *f = &slabs;
  miras__chunk_open(c, call, 0);
  c->io = call->io, c->ldy = call->io->ldy;
  f->c = c, f->size = *size;
  f->rows = (size->chunk + 15) / 16 * 16, f->hidden = (size->mid + 15) / 16 * 16;
  (void)miras__slabs_lay(&f->at, size, (char *)(void *)(miras__shared + MIRAS__ROOM));
  if (call->position + first == 0) miras__begin(c, call);
  if (p->d.token_rates)
    c->K->rates_fwd(p->d.token_rates, c->rate, c->slope, c->io->rho, 0, size->chunk, 1);
  for (int l = 0; l < 2; l++) {
    const size_t in = (size_t)p->in[l], out = (size_t)p->out[l], at = p->offset[l];
    f->w[l] = size->nearby ? f->at.w[l] : c->w + at;
    f->side[l][0] = miras__side_floats(f->w[l], size->nearby ? out + 4 : out, in, out);
    f->side[l][1] = miras__side_floats(miras__at(c->init, at), out, in, out);
    f->side[l][2] = miras__side_floats(miras__at(c->s, at), out, in, out);
    f->side[l][3] = size->linked ? miras__side_floats(c->a + at, out, in, out) : f->side[l][0];
  }
  if (size->nearby) miras__slabs_bring(f);
  for (size_t t = first; t < end; t += size->chunk) {
    if (call->tape) miras__slabs_tape(f, call->tape + t / size->chunk * p->tape_state);
    f->flushes = miras__sweeps(&p->d, call->position + (uint64_t)t + size->chunk);
    miras__slabs_chunk<P>(f, t);
  }
  if (rest) miras__slabs_tape(f, call->tape + end / size->chunk * p->tape_state);
  else if (size->nearby && !size->linked) miras__slabs_keep(f, c->a);
}
#ifndef MIRAS_NO_TRAINING
/* ---- their adjoint ----
 *
 * b's are cotangents, A and S those that a chunk begins with, whose tokens are made again; b A and
 * b S come in as what the state takes over its end, g and n are the last rows of G and N there, and
 * a_C, f_C, h_C those of the coefficients; u_1, u_2 are z of the reads, P_1 = G (.) q x' and P_2 =
 * G (.) p y' their scores. Terms [in brackets] exist only with an initial memory or with
 * momentum; a_t x stands for rows that are scaled.
 *   fold    bd_2 = -g_j (y bA_2) [- n_j (y bS_2)]         bd_1 = -g_j (x bA_1) [- n_j (x bS_1)]
 *           by   = -g_j (d_2 bA_2') [- n_j (d_2 bS_2')]   bx   = -g_j (d_1 bA_1') [- ..]
 *           bg_j = -d_2 . (y bA_2) - x . (d_1 bA_1')      bn_j likewise with bS
 *           ba_C = <A - B, bA>  [bf_C = <S, bA>  bh_C = <S, bS>]
 *           bA <- a_C bA   [bB += (1 - a_C) bA   bS <- h_C bS + f_C bA]
 *   reads   bp   = a_t (bu_2 A_2') [+ (1 - a_t) (bu_2 B_2') + f_t (bu_2 S_2')] + bK_2 y
 *           bu_1 = bp (.) act'(u_1),  bq the same with bu_1, A_1, x for bu_2, A_2, y
 *           ba_t = (bu_2 A_2' [- bu_2 B_2']) . p + the same of the first layer  [bf_t .. S ..]
 *           bP_l = -bu_l d_l'   bG += bP_l (.) (q x', p y')   bK_l = bP_l (.) G     (j <= t)
 *           bd_l -= P_l' bu_l   by += bK_2' p   bx += bK_1' q
 *           bA_2 += p' (a_t bu_2)   [bB_2 += p' ((1 - a_t) bu_2)   bS_2 += p' (f_t bu_2)]
 *           and bA_1 .. with q and bu_1
 *   steps   from bG, bN, ba, bf, bh what rooms @28 and @51 say of gates, and of bounded steps,
 *           which add to bd and by
 *   anchor  c    = bd_1 (.) act'(z_1)   bd_2 += c W_2   bA_2 += c' d_2   W = A
 *           bz_2 from bd_2, by room @41 through the bias   bA_2 += y' bz_2   by += bz_2 W_2'
 *           bz_1 = bd_1 (.) (d_2 W_2') (.) act''(z_1) + by (.) act'(z_1)
 *           bA_1 += x' bz_1   bx += bz_1 W_1'
 * With gates per channel P_1 is that of the pass, D_tj is what is left at t of row j of eta (.) x
 * or eta (.) d_2, P_2 = p y' is what mixes the latter, and B_j is the cotangent of D_tj, t = C - 1
 * first:
 *   fold    B_j  = -d_1 bA_1' of x, -y bA_2 of d_2
 *           bd_1 = -(G_C (.) x) bA_1     by = -(G_C (.) d_2) bA_2'
 *           ba_C = sums of (A [- B]) (.) bA, over rows of the first layer, columns of the last
 *           bA_1 <- a_C (.) bA_1   [bB_1 += (1 - a_C) (.) bA_1]   by rows, A_2's by columns
 *   reads   bP_2 = -bu_2 . D of d_2                             by += bP_2' p
 *           bp   = (a_t (.) bu_2) A_2' [+ ((1 - a_t) (.) bu_2) B_2'] + bP_2 y
 *           bP_1 = -bu_1 d_1'                                   bd_1 -= P_1' bu_1
 *           bq   = a_t (.) (bu_1 A_1') [+ (1 - a_t) (.) (bu_1 B_1')]
 *           ba_t = q (.) (bu_1 A_1' [- bu_1 B_1']) + bu_2 (.) (p A_2 [- p B_2])
 *           bA_1 += (a_t (.) q)' bu_1 [bB_1 with 1 - a_t]       bA_2 += p' (a_t (.) bu_2) [bB_2]
 *   rows    for t = C - 1 down to 0, with b = bP_1 and r = q of x, b = -P_2 and r = bu_2 of d_2
 *           B_j += b_tj r_t             bq_t += b_tj D_tj, of x                         (j <= t)
 *           balpha_t += B_j D_(t-1)j    B_j <- alpha_t B_j                              (j < t)
 *           beta_t += x_t B_t, d_2t B_t      bx_t, bd_2t += eta_t B_t
 *   decays  balpha_t += ba_t a_(t-1)    ba_(t-1) += alpha_t ba_t
 * A thread has a channel of x or of d_2, with B of 8 rows j at a time: D_(t-1)j is what decays
 * between them and t leave of D behind the 8, and the former waits in memory from 8 rows to the 8
 * before them. So nothing is divided.
 * Of a link, W = link(A), fold and a_C are those of A, and reads and anchor go through W: what they
 * have for bA above goes to bW, which is zero at first and passes the link when all else is done,
 *   link    bA += link'(A)' bW [+ what bi adds]
 * A link's number i of each layer (W = i A; of others 1, and nobody asks for bi) stands beside B,
 * S, P_1 and P_2 of reads and so beside bB, bS, bP_l and their parts of ba_t, bf_t, bp and bq; and
 *   bi_1 = sum_t ((1 - a_t) bu_1 B_1' + f_t bu_1 S_1') . q - <bu_1 d_1', G (.) q x'>
 *   bi_2 likewise with bu_2, B_2, S_2, p, d_2, y   [per channel 1 - a_t and G where they are above]
 * and, where steps are bounded, by J = i, what they say of it. Tokens that do not follow A_t, and
 * the last one of a whole chunk, read by W alone: u_1 = q W_1, u_2 = p W_2, of which
 *   alone   bp = bu_2 W_2'   bu_1 = bp (.) act'(u_1)   bq = bu_1 W_1'   bW_2 += p' bu_2
 *           bW_1 += q' bu_1
 * remain. That last one has W_C = link(A_C), for which A_C is folded once more. It comes first of
 * all: bA comes in as what the state takes over the end, gains link'(A_C)' bW_C, and then meets the
 * fold. A slab goes back through the fold, the reads or both.
 * Hidden columns are taken in slabs as above, five times: to z_2; p of the reads and p y'; fold and
 * reads; and twice in the anchor. What has hidden columns waits for the next time in the engine's
 * scratch, as floats, and comes back as tiles of a slab. bA is in shared memory where it fits, from
 * the last chunk to the first, rows 4 floats apart; with a link, which the engine applies to rows
 * without a gap, it is in the scratch, as are bW, W and A_C. Sums over hidden columns have one
 * order: slab after slab, and those of a row 16 columns after 16. */

/* Tiles: of a chunk, x, q, d_2, bu_2 (then bz_2), P_1, P_2 (then bK_2, bK_1); and of a slab, y,
 * d_1, p, bu_1 (then c, bz_1). With gates per channel q and bu_2 are those times a_t, and times
 * 1 - a_t they have tiles, too; from fold to reads x and d_2 are G_C x and G_C d_2; P_2 is bP_2. */
enum {
  MIRAS__BACK_X, MIRAS__BACK_Q, MIRAS__BACK_D2, MIRAS__BACK_U2, MIRAS__BACK_P1, MIRAS__BACK_P2,
  MIRAS__BACK_Y, MIRAS__BACK_D1, MIRAS__BACK_P, MIRAS__BACK_U1, MIRAS__BACK_HQ, MIRAS__BACK_HU2,
  MIRAS__BACK_TILES
};
/* Numbers of a row: a, 1 - a, f; -g, -n; and, of bounded steps, |x|^2, |y|^2, |d_1|^2, |d_2|^2. */
enum {
  MIRAS__BY_A, MIRAS__BY_INIT, MIRAS__BY_F, MIRAS__BY_G, MIRAS__BY_N, MIRAS__BY_ALL,
  MIRAS__BY_X = MIRAS__BY_ALL, MIRAS__BY_Y, MIRAS__BY_D1, MIRAS__BY_D2, MIRAS__BY_ROWS
};

typedef struct miras__back_room {
  miras__side tile[MIRAS__BACK_TILES];
  float *by;                         /* [BY_ROWS, rows]                                           */
  float *sums;                       /* [2 layers, BY_ALL, columns / 16, rows]; or, of channels,
                                        [2 layers, columns of a slab / 16, channels]              */
  unsigned across;                   /* columns / 16                                              */
  float *whole;                      /* of warps: <A - B, bA>, <S, bA>, <S, bS>, of a link's number
                                        in each layer                                             */
  float *w[2];                       /* nearby & 1: bA                                            */
  miras__side weights[2];            /* nearby & 2: tiles of A, else there is none                */
} miras__back_room;

typedef struct miras__back {
  miras__slabs look;                 /* what the pass has too: chunk, sizes, sides                */
  miras__back_room at;
  miras__side ca[2], cs[2];
  miras__side cw[2];                 /* where reads and anchor add: bW of a link, else bA         */
  float *init[2];                    /* bB, or NULL                                               */
  int folds, asks;                   /* slabs go back through the fold, the reads, or both        */
} miras__back;

/* Lay it out; returns the bytes. start NULL: for that alone. */
__host__ static size_t miras__back_lay(miras__back_room *to, const miras__slabs_size *s,
                                       char *start) {
  const unsigned rows = (s->chunk + 15) / 16 * 16, in = (s->in + 15) / 16 * 16;
  const unsigned out = (s->out + 15) / 16 * 16, most = in > out ? in : out;
  const unsigned across = (most > s->wide ? most : s->wide) / 16;
  const unsigned wide[MIRAS__BACK_TILES] = {in, in, out, out, rows, rows,
                                            s->wide, s->wide, s->wide, s->wide, in, out};
  const unsigned down[2] = {in, (s->mid + 15) / 16 * 16};
  const unsigned over[2] = {down[1], out};
  const size_t plain = (size_t)2 * MIRAS__BY_ALL * across * rows;
  const size_t channels = (size_t)s->wide / 8 * out;
  const size_t floats[3] = {(size_t)MIRAS__BY_ROWS * rows,
                            s->channel && channels > plain ? channels : plain, 40};
  float **const array[3] = {&to->by, &to->sums, &to->whole};
  size_t used = 0;
  to->across = across;
  for (int i = 0; i < (s->channel ? MIRAS__BACK_TILES : MIRAS__BACK_HQ); i++)
    miras__side_tile(&to->tile[i], s->parts, rows, wide[i], start, &used);
  for (int l = 0; l < 2; l++) {
    memset(&to->weights[l], 0, sizeof to->weights[l]);
    if (s->nearby & 2)
      miras__side_tile(&to->weights[l], s->parts, down[l], over[l], start, &used);
  }
  for (int i = 0; i < 3; i++) {
    *array[i] = start ? (float *)(void *)(start + used) : NULL;
    used += floats[i] * sizeof(float);
  }
  for (int l = 0; (s->nearby & 1) && l < 2; l++) {
    const size_t all = l ? (size_t)s->mid * (s->out + 4) : (size_t)s->in * (s->mid_out + 4);
    to->w[l] = start ? (float *)(void *)(start + used) : NULL;
    used += (all + 3) / 4 * 4 * sizeof(float);
  }
  return used;
}

static float miras__slab_bend(int kind, float z) {     /* act'' */
  float d, dd;
  miras__v_act(kind, z, &d, &dd);
  return dd;
}

/* m rows of n floats, ld apart, become a tile; what lies behind them is zero. */
template <int P>
static void miras__back_fill(const miras__side *s, const float *from, size_t ld, unsigned m,
                             unsigned n) {
  const unsigned half = s->columns / 2, all = s->rows * half;
  for (unsigned first = threadIdx.x; first < all; first += 4 * blockDim.x) {
    float v[4][2];                   /* on their way at once                                      */
    K_ALL for (unsigned q = 0; q < 4; q++) {
      const unsigned at = first + q * blockDim.x, r = at / half, w = at % half * 2;
      const float *x = from + r * ld + w;
      v[q][0] = r < m && w < n ? x[0] : 0, v[q][1] = r < m && w + 1 < n ? x[1] : 0;
    }
    K_ALL for (unsigned q = 0; q < 4; q++) {
      const unsigned at = first + q * blockDim.x;
      if (at < all) miras__side_put<P>(s, at / half, at % half * 2, v[q][0], v[q][1]);
    }
  }
}

/* A slab of an array of hidden columns, `wide` of them in all. */
template <int P>
static void miras__back_slab(const miras__back *f, int which, const float *from, unsigned wide,
                             unsigned first) {
  const unsigned left = wide > first ? wide - first : 0, most = f->look.size.wide;
  miras__back_fill<P>(&f->at.tile[which], from + first, wide, (unsigned)f->look.c->m,
                      left < most ? left : most);
}

/* A of layer `layer` for products: from the tile where that is near. */
static miras__side miras__back_weight(const miras__back *f, int layer, unsigned from) {
  const miras__side *nearby = &f->at.weights[layer];
  miras__side s = miras__side_from(f->look.side[layer][0], layer, from);
  if (!nearby->tile) return s;
  s.tile = nearby->tile + (layer ? from * nearby->ld : from) * 2;
  s.ld = nearby->ld, s.apart = nearby->apart;
  return s;
}

/* Up to three products with numbers of each row, and sums of rows: of product i with `with`, whose
 * first column is the product's, to sum[i], or NULL. */
typedef struct miras__terms {
  miras__side right[3];
  const float *by[3];                /* NULL: 1                                                   */
  float scale;                       /* of the second and the third                               */
  const float *with;
  size_t ld;
  unsigned n;                        /* columns of `with`                                         */
  float *sum[3];
  const miras__side *other;          /* left factor of the second one, or NULL: the same          */
  int adds;
} miras__terms;

/* A row's sum of a fragment of 16 columns, in one lane of the four that have some of it. */
static void miras__back_sum(const miras__back *f, const miras__terms *x, int i,
                            const float c[2][2][4], const miras__share *s) {
  const unsigned row = s->row, m = (unsigned)f->look.c->m;
  K_ALL for (unsigned half = 0; half < 4; half++) {
    const unsigned r = row + half / 2 * 16 + half % 2 * 8 + threadIdx.x % 32 / 4;
    float *const to = x->sum[i] + s->column / 16 * f->look.rows + r;
    float sum = 0;
    K_ALL for (unsigned e = 0; e < 4; e++) {
      const unsigned w = s->column + e / 2 * 8 + threadIdx.x % 4 * 2 + e % 2;
      if (r < m && w < x->n)
        sum = __fmaf_rn(c[half / 2][e / 2][half % 2 * 2 + e % 2], x->with[r * x->ld + w], sum);
    }
    sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, 1));
    sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, 2));
    if (threadIdx.x % 4 == 0 && r < f->look.rows) *to = x->adds ? __fadd_rn(*to, sum) : sum;
  }
}

/* c += sum_i by_i (left right_i) */
template <int P, int RIGHT>
static void miras__back_terms(float c[2][2][4], const miras__back *f, const miras__terms *x,
                              const miras__side *left, const miras__share *s, unsigned deep) {
  const unsigned row = s->row;
  for (int i = 0; i < 3; i++) {
    float t[2][2][4];
    if (!x->right[i].p) continue;
    miras__share_clear(t);
    miras__side_product<P, MIRAS__HALVES, RIGHT>(t, i == 1 && x->other ? x->other : left,
                                                 &x->right[i], row, s->frags, s->column, deep);
    if (x->sum[i]) miras__back_sum(f, x, i, t, s);
    K_PAIRS {
      const unsigned r = K_ROW < f->look.rows ? K_ROW : 0;
      const float by = x->by[i] ? __fmul_rn(i ? x->scale : 1, x->by[i][r]) : 1;
      K_OF(c)[0] = __fmaf_rn(by, K_OF(t)[0], K_OF(c)[0]);
      K_OF(c)[1] = __fmaf_rn(by, K_OF(t)[1], K_OF(c)[1]);
    }
  }
}

/* The same added to rows of n. */
template <int P, int RIGHT>
static void miras__back_add(const miras__back *f, const miras__terms *x, const miras__side *left,
                            unsigned deep, float *to, unsigned n) {
  miras__share s;
  for (unsigned turn = 0; miras__share_of(&s, turn, f->look.rows, (n + 15) / 16 * 16); turn++) {
    float c[2][2][4];
    miras__share_clear(c);
    miras__back_terms<P, RIGHT>(c, f, x, left, &s, deep);
    miras__slab_add(to, n, (unsigned)f->look.c->m, n, 1, c, &s);
  }
}

/* Numbers of a row for terms, and where sums of layer `layer` go. */
static float *miras__back_by(const miras__back *f, int which) {
  return f->at.by + (size_t)which * f->look.rows;
}
static float *miras__back_sums(const miras__back *f, int layer, int which) {
  return f->at.sums + (size_t)(layer * MIRAS__BY_ALL + which) * f->at.across * f->look.rows;
}

/* What reads go through, W, B, S, with a_t and a link's number times 1 - a_t, f_t, or, not live, W
 * alone; or what the fold left, bA and bS, with -g and -n. Sums with `with`. Rows of gates per
 * channel have a_t, 1 - a_t and g in their tiles, which leaves 1 and -1; `other` is that of B. */
static miras__terms miras__back_reads(const miras__back *f, int layer, unsigned from,
                                      const float *with, size_t ld, unsigned n) {
  miras__terms x;
  memset(&x, 0, sizeof x);
  x.right[0] = miras__back_weight(f, layer, from);
  if (!f->look.live) return x;
  x.scale = f->look.c->inv[layer];
  for (int i = 0; i < 3; i++) {
    if (i) x.right[i] = miras__side_from(f->look.side[layer][i], layer, from);
    x.by[i] = miras__back_by(f, i);
    x.sum[i] = with ? miras__back_sums(f, layer, i) : NULL;
  }
  x.with = with, x.ld = ld, x.n = n, x.adds = from > 0;
  if (f->look.size.channel) x.other = &f->at.tile[layer ? MIRAS__BACK_HU2 : MIRAS__BACK_HQ];
  return x;
}
static miras__terms miras__back_folds(const miras__back *f, int layer, unsigned from,
                                      const float *with, size_t ld, unsigned n) {
  miras__terms x;
  memset(&x, 0, sizeof x);
  x.scale = 1;
  x.right[0] = miras__side_from(f->ca[layer], layer, from);
  x.right[1] = miras__side_from(f->cs[layer], layer, from);
  for (int i = 0; i < 2; i++) {
    x.by[i] = miras__back_by(f, MIRAS__BY_G + i);
    x.sum[i] = with ? miras__back_sums(f, layer, MIRAS__BY_G + i) : NULL;
  }
  x.with = with, x.ld = ld, x.n = n, x.adds = from > 0;
  return x;
}

/* What the threads have for the cotangent of a link's number. */
static void miras__back_number(const miras__back *f, int layer, float sum) {
  float *const at = f->at.whole + 24 + 8 * layer + threadIdx.x / 32;
  if (!f->look.size.linked) return;
  sum = miras__warp_sum(sum);
  if (threadIdx.x % 32 == 0) *at = __fadd_rn(*at, sum);
}

/* ---- steps: rooms @28 and @51 for one number a row; a column or a row to a thread or warp ---- */

static float miras__back_square(const float *row, const float *by, size_t n) {
  float sum = 0;
  for (size_t w = threadIdx.x % 32; w < n; w += 32)
    sum = __fmaf_rn(by ? __fmul_rn(by[w], row[w]) : row[w], row[w], sum);
  return miras__warp_sum(sum);
}

/* Bounded steps: eta becomes s eta. J is the link's number of each layer, or 1. Of channels |x|^2
 * and |d_2|^2 are with their steps, and eta beside them is 1. */
static void miras__back_bound(const miras__back *f) {
  miras__chunk *const c = f->look.c;
  const miras__net *n = &c->net;
  const size_t in = f->look.size.in, out = f->look.size.out, mid = f->look.size.mid;
  const size_t mid_out = f->look.size.mid_out;
  for (unsigned r = threadIdx.x / 32; r < c->m; r += blockDim.x / 32) {
    float *const etas = f->look.size.channel ? c->rows.eta + r * out : NULL;
    const float xx = miras__back_square(n->pairs.x[0] + r * in, etas, in);
    const float yy = miras__back_square(n->pairs.x[1] + r * mid, NULL, mid);
    const float dd = miras__back_square(n->d[0] + r * mid_out, NULL, mid_out);
    const float ee = miras__back_square(n->d[1] + r * out, etas, out);
    const float eta = etas || threadIdx.x % 32 ? 1 : c->rows.eta[r];
    float er = 0, first, all, drift, curve;
    for (size_t w = threadIdx.x % 32; w < out; w += 32)
      er = __fmaf_rn(n->e[r * out + w], n->r[r * out + w], er);
    er = __fadd_rn(miras__warp_sum(er), 1e-20f);
    first = c->inv[0] * (eta * xx * dd);
    curve = __fmaf_rn(c->inv[1] * eta * yy, ee, first);
    drift =
      c->p->d.step_bound == MIRAS_STEP_BOUND_LAYERS ? first / (sqrtf(dd) * sqrtf(yy) + 1e-20f) : 0;
    all = er * (1 + drift / 4) + c->p->growth * curve;
    for (size_t w = threadIdx.x % 32; etas && w < out; w += 32) etas[w] *= er / all;
    if (threadIdx.x % 32) continue;
    miras__back_by(f, MIRAS__BY_X)[r] = xx, miras__back_by(f, MIRAS__BY_Y)[r] = yy;
    miras__back_by(f, MIRAS__BY_D1)[r] = dd, miras__back_by(f, MIRAS__BY_D2)[r] = ee;
    c->bound.along[r] = er;
    c->bound.curve[r] = curve;
    c->bound.drift[r] = drift;
    c->bound.share[r] = er / all;
    if (!etas) c->rows.eta[r] = eta * c->bound.share[r];
  }
  __syncthreads();
}

/* Its adjoint: b_eta leaves as that of eta, along as that of e.r; bx, by, bd_1, bd_2 += */
static void miras__back_bound_channels(const miras__back *f, unsigned r, const float *by) {
  miras__chunk *const c = f->look.c;
  const miras__net *n = &c->net;
  const size_t wide = f->look.size.out, end = (r + 1) * wide;
  const unsigned rows = f->look.rows;
  for (size_t w = r * wide + threadIdx.x % 32; w < end; w += 32) {
    const float eta = c->rows.eta[w] / c->bound.share[r], x = n->pairs.x[0][w], d = n->d[1][w];
    n->bx[0][w] = __fmaf_rn(by[r], eta * x, n->bx[0][w]);
    n->bd[1][w] = __fmaf_rn(by[3 * rows + r], eta * d, n->bd[1][w]);
    c->brows.eta[w] = c->brows.eta[w] * c->bound.share[r] + by[r] / 2 * x * x +
                      by[3 * rows + r] / 2 * d * d;
    c->rows.eta[w] = eta;
  }
}
static void miras__back_bound_bwd(const miras__back *f) {
  miras__chunk *const c = f->look.c;
  const miras__net *n = &c->net;
  const unsigned rows = f->look.rows, m = (unsigned)c->m;
  const size_t wide[4] = {f->look.size.in, f->look.size.mid, f->look.size.mid_out,
                          f->look.size.out};
  const float *const from[4] = {n->pairs.x[0], n->pairs.x[1], n->d[0], n->d[1]};
  float *const to[4] = {n->bx[0], n->bx[1], n->bd[0], n->bd[1]}, *const by = f->at.sums;
  const unsigned channel = f->look.size.channel;
  float of_J[2] = {0, 0};
  for (unsigned r = threadIdx.x / 32; channel && r < m; r += blockDim.x / 32) {
    float sum = 0;
    for (size_t w = r * wide[3] + threadIdx.x % 32; w < (r + 1) * wide[3]; w += 32)
      sum = __fmaf_rn(c->brows.eta[w], c->rows.eta[w], sum);
    sum = miras__warp_sum(sum);
    if (threadIdx.x % 32 == 0) c->line[r] = sum / c->bound.share[r];
  }
  if (channel) __syncthreads();
  for (unsigned r = threadIdx.x; r < m; r += blockDim.x) {
    const float share = c->bound.share[r], of = c->p->growth;
    const float J = c->inv[0], L = c->inv[1];
    const float eta = channel ? 1 : c->rows.eta[r] / share;
    const float xx = miras__back_by(f, MIRAS__BY_X)[r], yy = miras__back_by(f, MIRAS__BY_Y)[r];
    const float dd = miras__back_by(f, MIRAS__BY_D1)[r], ee = miras__back_by(f, MIRAS__BY_D2)[r];
    const float all = c->bound.along[r] * (1 + c->bound.drift[r] / 4) + of * c->bound.curve[r];
    const float bs = channel ? c->line[r] : c->brows.eta[r] * eta, bq = -bs * of * share / all;
    const float bf = -bs * share * share / 4, said = sqrtf(dd), heard = sqrtf(yy);
    const float both = said * heard + 1e-20f;
    const int strains = c->p->d.step_bound == MIRAS_STEP_BOUND_LAYERS;
    const float first = strains ? bq + bf / both : bq;
    const float q = strains ? -J * eta * xx * dd * bf / both / both : 0;
    of_J[0] = __fmaf_rn(first, eta * xx * dd, of_J[0]);
    of_J[1] = __fmaf_rn(bq, eta * yy * ee, of_J[1]);
    c->bound.along[r] = bs * (of * c->bound.curve[r] / all) / all;
    if (!channel) {
      c->brows.eta[r] = c->brows.eta[r] * share + J * first * dd * xx + L * bq * ee * yy;
      c->rows.eta[r] = eta;
    }
    by[r] = 2 * J * eta * first * dd;
    by[rows + r] = 2 * L * eta * bq * ee + (heard > 0 ? q * said / heard : 0);
    by[2 * rows + r] = 2 * J * eta * first * xx + (said > 0 ? q * heard / said : 0);
    by[3 * rows + r] = 2 * L * eta * bq * yy;
  }
  for (int i = 0; i < 2; i++) miras__back_number(f, i, of_J[i]);
  __syncthreads();
  for (unsigned r = threadIdx.x / 32; channel && r < m; r += blockDim.x / 32)
    miras__back_bound_channels(f, r, by);
  for (int i = channel ? 1 : 0; i < (channel ? 3 : 4); i++)
    for (unsigned r = threadIdx.x / 32; r < m; r += blockDim.x / 32)
      for (size_t w = r * wide[i] + threadIdx.x % 32; w < (r + 1) * wide[i]; w += 32)
        to[i][w] = __fmaf_rn(by[i * rows + r], from[i][w], to[i][w]);
  __syncthreads();
}

/* Coefficients: thread j has column j of G and N, the last one a, f and h. */
static void miras__back_course(const miras__back *f) {
  miras__chunk *const c = f->look.c;
  const unsigned m = (unsigned)c->m, j = threadIdx.x;
  const float *alpha = c->rows.alpha, *theta = c->rows.theta;
  const size_t ld = c->p->chunk_pairs;
  if (j < m) {
    float g = 0, now = c->rows.eta[j];
    for (unsigned t = j; t < m; t++) {
      if (theta && t > j) now = __fmul_rn(theta[t], now);
      g = theta ? t > j ? __fmaf_rn(alpha[t], g, now) : now
          : c->p->d.token_rates ? __fmul_rn(c->rate[t], now)
          : t > j ? __fmul_rn(alpha[t], g) : now;
      c->g[t * ld + j] = g, c->n[t * ld + j] = now;
    }
  } else if (j == blockDim.x - 1) {
    float a = 1, by = 0, h = 1;
    for (unsigned t = 0; t < m; t++) {
      a = __fmul_rn(a, alpha[t]);
      if (theta) h = __fmul_rn(h, theta[t]), by = __fmaf_rn(alpha[t], by, h);
      c->ca[t] = a, c->cf[t] = by, c->ch[t] = h;
    }
  }
  __syncthreads();
}

/* Their adjoint: from the last row, threads make bG and bN whole; then a warp has a row. */
static void miras__back_course_bwd(const miras__back *f) {
  miras__chunk *const c = f->look.c;
  const unsigned m = (unsigned)c->m, j = threadIdx.x, lane = j % 32;
  const float *alpha = c->rows.alpha, *theta = c->rows.theta;
  const int rates = c->p->d.token_rates;
  const size_t ld = c->p->chunk_pairs;
  if (j < m) {
    float g = 0, n = 0;
    for (unsigned i = m; i-- > j;) {
      g = __fadd_rn(c->back.bg[i * ld + j], g);
      n = __fadd_rn(c->back.bn[i * ld + j], n);
      if (theta) n = __fadd_rn(n, g);
      else if (rates) n = __fmaf_rn(c->rate[i], g, n);
      c->back.bg[i * ld + j] = g, c->back.bn[i * ld + j] = n;
      if (i == j) c->brows.eta[j] = theta || rates ? n : g;
      g = rates ? 0 : __fmul_rn(alpha[i], g);
      if (theta) n = __fmul_rn(theta[i], n);
    }
  } else if (j == blockDim.x - 1) {
    float a = 0, by = 0, h = 0;
    for (unsigned i = m; i-- > 0;) {
      c->back.ba[i] = a = __fadd_rn(c->back.ba[i], a);
      c->back.bf[i] = by = __fadd_rn(c->back.bf[i], by);
      c->back.bh[i] = h = __fadd_rn(__fadd_rn(c->back.bh[i], h), by);
      a = __fmul_rn(alpha[i], a), by = __fmul_rn(alpha[i], by);
      if (theta) h = __fmul_rn(theta[i], h);
    }
  }
  __syncthreads();
  for (unsigned i = threadIdx.x / 32; i < m; i += blockDim.x / 32) {
    const size_t before = (i ? i - 1 : 0) * ld, own = i * ld;
    float g = 0, n = 0, rho = 0;
    for (unsigned k = lane; k <= i; k += 32) {
      if (k < i && !rates) g = __fmaf_rn(c->g[before + k], c->back.bg[own + k], g);
      if (k < i && theta) n = __fmaf_rn(c->n[before + k], c->back.bn[own + k], n);
      if (rates) rho = __fmaf_rn(c->n[own + k], c->back.bg[own + k], rho);
    }
    g = miras__warp_sum(g), n = miras__warp_sum(n), rho = miras__warp_sum(rho);
    if (lane) continue;
    g = __fmaf_rn(i ? c->ca[i - 1] : 1, c->back.ba[i], g);
    c->brows.alpha[i] = theta && i ? __fmaf_rn(c->cf[i - 1], c->back.bf[i], g) : g;
    if (theta) c->brows.theta[i] = __fmaf_rn(i ? c->ch[i - 1] : 1, c->back.bh[i], n);
    if (rates && c->call->g->rho && c->slope[i] > 0)
      c->call->g->rho[i] = __fmaf_rn(c->slope[i], rho, c->call->g->rho[i]);
  }
  __syncthreads();
}

/* ---- the chunk again ---- */

#define K_SLABS for (from = 0; from < l->hidden; from += l->size.wide)
#define K_WIDE (l->hidden - from < l->size.wide ? l->hidden - from : l->size.wide)

/* Of a warp's share of a slab's z_1, in a pass: its rows and theirs behind act, and their tile. */
template <int P>
static void miras__back_act(const miras__back *f, const miras__pass *n, int tile,
                            const float c[2][2][4], const miras__share *s, unsigned from) {
  const miras__slabs *const l = &f->look;
  const unsigned m = (unsigned)l->c->m, mid = l->size.mid, mid_out = l->size.mid_out;
  const unsigned row = s->row, column = s->column;
  K_PAIRS {
    float y[2];
    if (pair / 4 >= s->frags) continue;
    miras__slab_row(l, y, NULL, K_OF(c), K_ROW, from + K_COLUMN);
    K_ALL for (unsigned e = 0; e < 2; e++) {
      const unsigned at = from + K_COLUMN + e;
      if (K_ROW >= m) y[e] = 0;
      if (K_ROW < m && at < mid_out) n->z[0][K_ROW * mid_out + at] = K_OF(c)[e];
      if (K_ROW < m && at < mid) n->x[1][K_ROW * mid + at] = y[e];
    }
    miras__side_put<P>(&f->at.tile[tile], K_ROW, K_COLUMN, y[0], y[1]);
  }
}

/* z_1 and y of a slab, and what it adds to z_2. */
template <int P>
static void miras__back_up(const miras__back *f, unsigned from, unsigned w) {
  const miras__slabs *const l = &f->look;
  const miras__side *tile = f->at.tile, first = miras__back_weight(f, 0, from);
  const miras__side second = miras__back_weight(f, 1, from);
  const miras__pass *n = &l->c->net.pairs;
  const unsigned m = (unsigned)l->c->m, out = tile[MIRAS__BACK_D2].columns;
  miras__share s;
  for (unsigned turn = 0; miras__share_of(&s, turn, l->rows, w); turn++) {
    float c[2][2][4];
    miras__share_clear(c);
    miras__side_product<P, MIRAS__HALVES, MIRAS__EITHER>(c, &tile[MIRAS__BACK_X], &first, s.row,
                                                         s.frags, s.column,
                                                         tile[MIRAS__BACK_X].columns);
    miras__back_act<P>(f, n, MIRAS__BACK_Y, c, &s, from);
  }
  __syncthreads();
  for (unsigned turn = 0; miras__share_of(&s, turn, l->rows, out); turn++) {
    float c[2][2][4];
    miras__share_clear(c);
    miras__side_product<P, MIRAS__HALVES, MIRAS__EITHER>(c, &tile[MIRAS__BACK_Y], &second, s.row,
                                                         s.frags, s.column, w);
    miras__slab_add(n->z[1], l->size.out, m, l->size.out, from > 0, c, &s);
  }
  __syncthreads();
}

/* Errors and d_2 of the pairs, from their z_2. */
template <int P>
static void miras__back_errors(const miras__back *f) {
  const miras__net *n = &f->look.c->net;
  const miras__pass *s = &n->pairs;
  const size_t m = s->m, dv = f->look.size.out;
  const miras__errors errors = miras__errors_of(n);
  n->answer->fwd(n, s, n->r, dv);
  if (n->p->d.inner_residual) n->K->add_rows(n->r, dv, s->x[0], f->look.size.in, m, dv);
  n->K->sub(n->r, n->r, n->v, m * dv);
  n->K->bias_rows(&errors, NULL, NULL, NULL, NULL);
  n->answer->bwd(n, s, n->d[1], n->e, dv);
  miras__back_fill<P>(&f->at.tile[MIRAS__BACK_D2], n->d[1], dv, (unsigned)m, (unsigned)dv);
  __syncthreads();
}

/* d_1 and what it was before act'. */
template <int P> static void miras__back_down(const miras__back *f) {
  const miras__slabs *const l = &f->look;
  const miras__side *tile = f->at.tile, weights = miras__back_weight(f, 1, 0);
  const miras__net *n = &l->c->net;
  const unsigned m = (unsigned)l->c->m, mid_out = l->size.mid_out;
  miras__share s;
  for (unsigned turn = 0; miras__share_of(&s, turn, l->rows, (mid_out + 15) / 16 * 16); turn++) {
    const unsigned row = s.row, column = s.column;
    float c[2][2][4];
    miras__share_clear(c);
    miras__side_product<P, MIRAS__HALVES, MIRAS__EITHER_TURNED>(
      c, &tile[MIRAS__BACK_D2], &weights, row, s.frags, column, tile[MIRAS__BACK_D2].columns);
    K_PAIRS K_ALL for (unsigned e = 0; e < 2; e++) {
      const size_t at = K_ROW * mid_out + K_COLUMN + e;
      if (pair / 4 >= s.frags || K_ROW >= m || K_COLUMN + e >= mid_out) continue;
      n->back[0][at] = K_OF(c)[e];
      n->d[0][at] = __fmul_rn(K_OF(c)[e], miras__slab_slope((int)n->p->d.activation,
                                                             n->pairs.z[0][at]));
    }
  }
  __syncthreads();
}

/* Scores left right' of a chunk, j <= t: to `x`, added to it if adds; with G, the tile of the first
 * layer's, too. */
template <int P>
static void miras__back_scores(const miras__back *f, float *x, int adds, int left, int right,
                               const miras__side *with) {
  const miras__slabs *const l = &f->look;
  const miras__side *tile = f->at.tile;
  const unsigned m = (unsigned)l->c->m;
  const size_t ld = l->c->p->chunk_pairs;
  miras__share s;
  for (unsigned turn = 0; miras__share_of(&s, turn, l->rows, l->rows); turn++) {
    const unsigned row = s.row, column = s.column;
    float c[2][2][4];
    miras__share_clear(c);
    if (column < row + 32)
      miras__side_product<P, MIRAS__HALVES, MIRAS__HALVES>(c, &tile[left], &tile[right], row,
                                                           s.frags, column, tile[left].columns);
    K_PAIRS {
      float p[2];
      if (pair / 4 >= s.frags) continue;
      K_ALL for (unsigned e = 0; e < 2; e++) {
        const unsigned t = K_ROW, j = K_COLUMN + e;
        const int in = t < m && j <= t;
        float *const to = x + t * ld + j;
        p[e] = in && with ? __fmul_rn(l->c->g[t * ld + j], K_OF(c)[e]) : 0;
        p[e] = __fmul_rn(l->c->inv[0], p[e]);
        if (in) *to = adds ? __fadd_rn(*to, K_OF(c)[e]) : K_OF(c)[e];
      }
      if (with) miras__side_put<P>(with, K_ROW, K_COLUMN, p[0], p[1]);
    }
  }
}

/* The tile of the last layer's G (.) x; or, back, from x = -bP and what it was of, k: bG += and
 * bK = bP (.) G. */
template <int P>
static void miras__back_tile(const miras__back *f, const float *x, const float *k) {
  const miras__chunk *c = f->look.c;
  const unsigned m = (unsigned)c->m, rows = f->look.rows;
  for (unsigned at = threadIdx.x; at < rows * rows / 2; at += blockDim.x) {
    const unsigned t = at / (rows / 2), j = at % (rows / 2) * 2;
    float p[2];
    K_ALL for (unsigned e = 0; e < 2; e++) {
      const size_t own = t * c->p->chunk_pairs + j + e;
      const int in = t < m && j + e <= t;
      const float value = in ? k ? -x[own] : __fmul_rn(c->inv[1], x[own]) : 0;
      p[e] = in ? __fmul_rn(c->g[own], value) : 0;
      if (in && k) c->back.bg[own] = __fmaf_rn(value, k[own], c->back.bg[own]);
    }
    miras__side_put<P>(&f->at.tile[MIRAS__BACK_P2], t, j, p[0], p[1]);
  }
  __syncthreads();
}

/* rows += by, times left' right: pairs and queries against each other. */
template <int P>
static void miras__back_meet(const miras__back *f, float *to, unsigned n, int turned, int right,
                             float by) {
  const miras__side *tile = f->at.tile;
  miras__share s;
  for (unsigned turn = 0; miras__share_of(&s, turn, f->look.rows, (n + 15) / 16 * 16); turn++) {
    float c[2][2][4];
    miras__share_clear(c);
    if (turned)
      miras__side_product<P, MIRAS__HALVES_TURNED, MIRAS__HALVES_TURNED>(
        c, &tile[MIRAS__BACK_P2], &tile[right], s.row, s.frags, s.column, f->look.rows);
    else
      miras__side_product<P, MIRAS__HALVES, MIRAS__HALVES_TURNED>(
        c, &tile[MIRAS__BACK_P2], &tile[right], s.row, s.frags, s.column, f->look.rows);
    K_ALL for (unsigned e = 0; e < 16; e++)
      c[e / 8][e / 4 % 2][e % 4] = __fmul_rn(by, c[e / 8][e / 4 % 2][e % 4]);
    miras__slab_add(to, n, (unsigned)f->look.c->m, n, 1, c, &s);
  }
}

/* What a slab adds to p W [- p B] of gates per channel, to a link's p B, and, behind an inner norm,
 * to u_2. */
template <int P>
__device__ __noinline__ void miras__back_looks(const miras__back *f, unsigned from, unsigned w) {
  const miras__slabs *const l = &f->look;
  const miras__side *tile = f->at.tile;
  const miras__side a = miras__back_weight(f, 1, from);
  const miras__side b = miras__side_from(l->side[1][1], 1, from);
  const unsigned m = (unsigned)l->c->m, n = l->size.out;
  const int normed = l->c->p->d.inner_norm;
  miras__share s;
  for (unsigned turn = 0; miras__share_of(&s, turn, l->rows, tile[MIRAS__BACK_D2].columns);
       turn++) {
    const unsigned row = s.row, column = s.column;
    float c[2][2][4], h[2][2][4];
    miras__share_clear(c);
    miras__share_clear(h);
    miras__side_product<P, MIRAS__HALVES, MIRAS__EITHER>(c, &tile[MIRAS__BACK_P], &a, row, s.frags,
                                                         column, w);
    if (b.p)
      miras__side_product<P, MIRAS__HALVES, MIRAS__FLOATS>(h, &tile[MIRAS__BACK_P], &b, row,
                                                           s.frags, column, w);
    K_PAIRS K_ALL for (unsigned e = 0; e < 2; e++) {
      const size_t at = K_ROW * n + K_COLUMN + e;
      float left, init, z;
      if (pair / 4 >= s.frags || K_ROW >= m || K_COLUMN + e >= n) continue;
      left = l->c->ca[at], init = __fmul_rn(l->c->inv[1], K_OF(h)[e]);
      z = __fsub_rn(K_OF(c)[e], init);
      l->c->back.mixed[at] = from ? __fadd_rn(l->c->back.mixed[at], z) : z;
      if (l->size.linked)
        l->c->back.live[at] = from ? __fadd_rn(l->c->back.live[at], K_OF(h)[e]) : K_OF(h)[e];
      if (!normed) continue;
      z = __fmaf_rn(left, K_OF(c)[e], __fmul_rn(__fsub_rn(1, left), init));
      l->c->query.z[1][at] = from ? __fadd_rn(l->c->query.z[1][at], z) : z;
    }
  }
}

/* u_1 and p of a slab, and what it adds to p y' and, behind an inner norm, to u_2. */
template <int P>
__device__ __noinline__ void miras__back_read(const miras__back *f, unsigned from, unsigned w) {
  const miras__slabs *const l = &f->look;
  const miras__side *tile = f->at.tile;
  const miras__pass *q = &l->c->query;
  const unsigned mid = l->size.mid, mid_out = l->size.mid_out;
  const miras__terms first = miras__back_reads(f, 0, from, NULL, 0, 0);
  const miras__terms second = miras__back_reads(f, 1, from, NULL, 0, 0);
  miras__share s;
  if (l->live) {
    miras__back_slab<P>(f, MIRAS__BACK_Y, l->c->net.pairs.x[1], mid, from);
    miras__back_slab<P>(f, MIRAS__BACK_D1, l->c->net.d[0], mid_out, from);
    __syncthreads();
  }
  for (unsigned turn = 0; miras__share_of(&s, turn, l->rows, w); turn++) {
    float c[2][2][4];
    miras__share_clear(c);
    if (l->live)
      miras__side_product<P, MIRAS__HALVES, MIRAS__HALVES_TURNED>(
        c, &tile[MIRAS__BACK_P1], &tile[MIRAS__BACK_D1], s.row, s.frags, s.column, l->rows);
    miras__share_minus(c);
    miras__back_terms<P, MIRAS__EITHER>(c, f, &first, &tile[MIRAS__BACK_Q], &s,
                                        tile[MIRAS__BACK_Q].columns);
    miras__back_act<P>(f, q, MIRAS__BACK_P, c, &s, from);
  }
  __syncthreads();
  if (l->live)
    miras__back_scores<P>(f, l->c->kq[1], from > 0, MIRAS__BACK_P, MIRAS__BACK_Y, NULL);
  if (l->size.channel && l->live)
    miras__back_looks<P>(f, from, w);
  else if (l->c->p->d.inner_norm)
    miras__back_add<P, MIRAS__EITHER>(f, &second, &tile[MIRAS__BACK_P], w, q->z[1], l->size.out);
  __syncthreads();
}

/* Gates per channel: tiles of rows with their decays. */
template <int P> __device__ __noinline__ void miras__back_gates(const miras__back *f) {
  const miras__slabs *const l = &f->look;
  const miras__side *tile = f->at.tile;
  const miras__chunk *c = l->c;
  const unsigned m = (unsigned)c->m, n = l->size.in;
  miras__slabs_decays(l, 0);
  miras__slabs_gated<P>(&tile[MIRAS__BACK_X], m, n, c->live_y, c->left, 0);
  miras__slabs_gated<P>(&tile[MIRAS__BACK_D2], m, n, c->live_d, c->left, 0);
  for (unsigned r = threadIdx.x; r < l->rows; r += blockDim.x) {
    miras__back_by(f, MIRAS__BY_A)[r] = miras__back_by(f, MIRAS__BY_INIT)[r] = 1;
    miras__back_by(f, MIRAS__BY_F)[r] = miras__back_by(f, MIRAS__BY_N)[r] = 0;
    miras__back_by(f, MIRAS__BY_G)[r] = -1;
  }
  __syncthreads();
}

/* Rows from token t on, and all that their adjoint wants of the pass but the reads. */
template <int P> static void miras__back_again(miras__back *f, size_t t, unsigned m) {
  miras__slabs *const l = &f->look;
  const miras__side *tile = f->at.tile;
  const unsigned in = l->size.in;
  miras__chunk *const c = l->c;
  unsigned from;
  miras__span(c, t, 0, m, m == c->p->chunk_pairs);
  if (l->size.linked) miras__chunk_weights(c);
  miras__span_state(c);
  l->reads = (unsigned)c->reads, l->live = c->retain->reads_live;
  c->rows.x = c->net.pairs.x[0], c->rows.in = in;
  miras__rows_fwd(c->K, c->p, c->io, t, m, &c->rows);
  miras__back_fill<P>(&tile[MIRAS__BACK_X], c->rows.x, in, m, in);
  for (int i = 0; i < 2 && f->at.weights[i].tile; i++) {
    const miras__side *w = &l->side[i][0];
    miras__back_fill<P>(&f->at.weights[i], w->p, w->ld, w->rows, w->columns);
  }
  __syncthreads();
  K_SLABS miras__back_up<P>(f, from, K_WIDE);
  miras__back_errors<P>(f);
  miras__back_down<P>(f);
  if (c->p->d.step_bound) miras__back_bound(f);
  if (l->size.channel) {
    miras__back_gates<P>(f);
    return;
  }
  miras__back_course(f);
  for (unsigned r = threadIdx.x; r < l->rows; r += blockDim.x) {
    const unsigned last = (unsigned)((m - 1) * c->p->chunk_pairs);
    const int closes = c->ends && r < m;
    miras__back_by(f, MIRAS__BY_A)[r] = r < m ? c->ca[r] : 0;
    miras__back_by(f, MIRAS__BY_INIT)[r] = r < m ? __fsub_rn(1, c->ca[r]) : 0;
    miras__back_by(f, MIRAS__BY_F)[r] = r < m && c->s ? c->cf[r] : 0;
    miras__back_by(f, MIRAS__BY_G)[r] = closes ? -c->g[last + r] : 0;
    miras__back_by(f, MIRAS__BY_N)[r] = closes && c->s ? -c->n[last + r] : 0;
  }
  __syncthreads();
}

/* Reads from a token on, p, and u_2 behind an inner norm: of a chunk, along A_t, with their scores;
 * rows of the chunk behind them are zero. Or, not live, by W alone. */
template <int P> static void miras__back_asks(const miras__back *f, size_t token) {
  const miras__slabs *const l = &f->look;
  const miras__side *tile = f->at.tile;
  const unsigned in = l->size.in, reads = l->reads;
  miras__chunk *const c = l->c;
  float *const q = c->query.x[0];
  unsigned from;
  miras__rows_queries(c->K, c->p, c->io, token, reads, q, in);
  c->K->fill(q + reads * (size_t)in, 0, (c->m - reads) * (size_t)in);
  if (c->p->d.inner_norm) c->K->fill(c->query.z[1], 0, c->m * (size_t)l->size.out);
  if (l->size.channel && l->live) {
    miras__slabs_met(l, q, c->live_y, c->kq[0]);
    miras__slabs_gated<P>(&tile[MIRAS__BACK_Q], reads, in, q, c->ca, 0);
    if (c->init) miras__slabs_gated<P>(&tile[MIRAS__BACK_HQ], reads, in, q, c->ca, 1);
    __syncthreads();
    miras__slabs_scores<P>(l, &tile[MIRAS__BACK_P1], c->kq[0], NULL, c->inv[0]);
  } else {
    miras__back_fill<P>(&tile[MIRAS__BACK_Q], q, in, reads, in);
    __syncthreads();
  }
  if (l->live && !l->size.channel) {
    miras__back_scores<P>(f, c->kq[0], 0, MIRAS__BACK_Q, MIRAS__BACK_X, &tile[MIRAS__BACK_P1]);
    __syncthreads();
  }
  K_SLABS miras__back_read<P>(f, from, K_WIDE);
  if (l->live && !l->size.channel) miras__back_tile<P>(f, c->kq[1], NULL);
}

/* ---- fold and reads, back ---- */

/* Scores x of a layer, of which a link's number is to be a factor, and it becomes one: of that
 * -<x, k>, or -<G (.) x, k>. */
static void miras__back_factor(const miras__back *f, int layer, float *x, const float *k,
                               const float *g) {
  const miras__chunk *c = f->look.c;
  const unsigned m = (unsigned)c->m, reads = f->look.reads;
  float sum = 0;
  if (!f->look.size.linked) return;
  for (unsigned at = threadIdx.x; at < m * m; at += blockDim.x) {
    const size_t t = at / m, j = at % m, own = t * c->p->chunk_pairs + j;
    const float was = j <= t ? x[own] : 0;
    if (j > t) continue;
    if (t < reads) sum = __fmaf_rn(g ? __fmul_rn(g[own], was) : was, -k[own], sum);
    x[own] = __fmul_rn(c->inv[layer], was);
  }
  miras__back_number(f, layer, sum);
  __syncthreads();
}

/* bu_2 of the answers, and what meets d_2 there. */
template <int P> static void miras__back_answers(const miras__back *f, size_t token) {
  const miras__slabs *const l = &f->look;
  miras__chunk *const c = l->c;
  const miras__call *call = c->call;
  const miras__net *n = &c->net;
  const int live = l->live, channel = (int)l->size.channel;
  const size_t dv = l->size.out, m = l->reads;
  const float *bo = call->dy + token * call->lddy;
  miras__pass s = c->query;
  s.m = m;
  if (c->p->d.inner_norm) {
    if (live && channel) {
      miras__slabs_mixed(l);
    } else if (live) {
      miras__back_meet<P>(f, s.z[1], (unsigned)dv, 0, MIRAS__BACK_D2, -1);
      __syncthreads();
    }
    n->answer->fwd(n, &s, c->back.dz, dv);
  }
  if (n->answer->params) n->answer->params(n, &s, bo, call->lddy);
  n->answer->bwd(n, &s, c->back.dz, bo, call->lddy);
  c->K->fill(c->back.dz + m * dv, 0, (c->m - m) * dv);
  if (live && channel) {
    const miras__side *tile = f->at.tile;
    const unsigned rows = (unsigned)m, wide = l->size.out;
    float sum = 0;
    miras__slabs_gated<P>(&tile[MIRAS__BACK_U2], rows, wide, c->back.dz, c->ca, 0);
    if (c->init) miras__slabs_gated<P>(&tile[MIRAS__BACK_HU2], rows, wide, c->back.dz, c->ca, 1);
    for (unsigned at = threadIdx.x; l->size.linked && at < rows * wide; at += blockDim.x)
      sum = __fmaf_rn(__fmul_rn(c->back.dz[at], __fsub_rn(1, c->ca[at])), c->back.live[at], sum);
    miras__back_number(f, 1, sum);
    miras__slabs_met(l, c->back.dz, c->live_d, c->back.bp);
    __syncthreads();
    miras__slabs_scores<P>(l, &tile[MIRAS__BACK_P2], c->back.bp, NULL, -c->inv[1]);
    miras__back_factor(f, 1, c->kq[1], c->back.bp, NULL);
    return;
  }
  miras__back_fill<P>(&f->at.tile[MIRAS__BACK_U2], c->back.dz, dv, (unsigned)m, (unsigned)dv);
  __syncthreads();
  if (!live) return;
  miras__back_meet<P>(f, n->bd[1], (unsigned)dv, 1, MIRAS__BACK_U2, -1);
  __syncthreads();
  miras__back_scores<P>(f, c->back.bp, 0, MIRAS__BACK_U2, MIRAS__BACK_D2, NULL);
  __syncthreads();
  miras__back_factor(f, 1, c->back.bp, c->kq[1], c->g);
  miras__back_tile<P>(f, c->back.bp, c->kq[1]);
}

/* bu_1 of a slab, and by without what the anchor adds. */
template <int P>
static void miras__back_hidden(const miras__back *f, unsigned from, unsigned w) {
  const miras__slabs *const l = &f->look;
  const miras__side *tile = f->at.tile;
  miras__chunk *const c = l->c;
  const unsigned m = (unsigned)c->m, mid = l->size.mid, mid_out = l->size.mid_out;
  const int kind = (int)c->p->d.activation;
  const int live = f->asks && l->live;
  const float *const with = l->size.channel ? NULL : c->query.x[1] + from;
  const miras__terms reads = miras__back_reads(f, 1, from, with, mid, mid - from);
  const miras__terms folds = miras__back_folds(f, 1, from, NULL, 0, 0);
  miras__share s;
  for (unsigned turn = 0; miras__share_of(&s, turn, l->rows, w); turn++) {
    const unsigned row = s.row, column = s.column;
    float b[2][2][4], y[2][2][4];
    miras__share_clear(b);
    miras__share_clear(y);
    if (live) {
      miras__side_product<P, MIRAS__HALVES, MIRAS__HALVES_TURNED>(
        b, &tile[MIRAS__BACK_P2], &tile[MIRAS__BACK_Y], row, s.frags, column, l->rows);
      miras__side_product<P, MIRAS__HALVES_TURNED, MIRAS__HALVES_TURNED>(
        y, &tile[MIRAS__BACK_P2], &tile[MIRAS__BACK_P], row, s.frags, column, l->rows);
    }
    if (f->asks)
      miras__back_terms<P, MIRAS__EITHER_TURNED>(b, f, &reads, &tile[MIRAS__BACK_U2], &s,
                                                 tile[MIRAS__BACK_U2].columns);
    if (f->folds && c->ends)
      miras__back_terms<P, MIRAS__FLOATS_TURNED>(y, f, &folds, &tile[MIRAS__BACK_D2], &s,
                                                 tile[MIRAS__BACK_D2].columns);
    K_PAIRS {
      float u[2];
      if (pair / 4 >= s.frags) continue;
      K_ALL for (unsigned e = 0; e < 2; e++) {
        const unsigned at = from + K_COLUMN + e;
        u[e] = f->asks && K_ROW < m && at < mid_out
                 ? __fmul_rn(K_OF(b)[e],
                             miras__slab_slope(kind, c->query.z[0][K_ROW * mid_out + at])) : 0;
        if (f->folds && K_ROW < m && at < mid) c->net.bx[1][K_ROW * mid + at] = K_OF(y)[e];
      }
      if (f->asks)
        miras__side_put<P>(&tile[MIRAS__BACK_U1], K_ROW, K_COLUMN, u[0], u[1]);
    }
  }
}

/* bd_1 of a slab without what steps add. */
template <int P>
static void miras__back_gradient(const miras__back *f, unsigned from, unsigned w) {
  const miras__slabs *const l = &f->look;
  const miras__side *tile = f->at.tile;
  const unsigned m = (unsigned)l->c->m, mid_out = l->size.mid_out;
  const miras__terms folds = miras__back_folds(f, 0, from, NULL, 0, 0);
  miras__share s;
  for (unsigned turn = 0; miras__share_of(&s, turn, l->rows, w); turn++) {
    float c[2][2][4];
    miras__share_clear(c);
    if (l->live)
      miras__side_product<P, MIRAS__HALVES_TURNED, MIRAS__HALVES_TURNED>(
        c, &tile[MIRAS__BACK_P1], &tile[MIRAS__BACK_U1], s.row, s.frags, s.column, l->rows);
    miras__share_minus(c);
    if (l->c->ends)
      miras__back_terms<P, MIRAS__FLOATS>(c, f, &folds, &tile[MIRAS__BACK_X], &s,
                                          tile[MIRAS__BACK_X].columns);
    miras__slab_add(l->c->net.bd[0] + from, mid_out, m, mid_out - from, 0, c, &s);
  }
}

/* left' diag(by) right over the rows of a chunk, by NULL: 1. */
template <int P>
static void miras__back_outer(float c[2][2][4], const miras__back *f, int left, int right,
                              const miras__share *s, const float *by) {
  const miras__side *a = &f->at.tile[left], *b = &f->at.tile[right];
  for (unsigned k = 0; k < f->look.rows; k += 16) {
    unsigned y[P][4];
    miras__square_of<P>(y, b->tile, b->apart, b->ld, k, s->column, 1);
    K_ALL for (unsigned i = 0; by && i < 4; i++) {
      const unsigned at = k + threadIdx.x % 4 * 2 + i % 2 * 8;
      float low = 0, high = 0;
      unsigned pairs[P];
      K_ALL for (int part = P; part-- > 0;) {
        low = __fadd_rn(low, __int_as_float((int)(y[part][i] << 16)));
        high = __fadd_rn(high, __int_as_float((int)(y[part][i] & 0xffff0000u)));
      }
      miras__split<P>(pairs, __fmul_rn(by[at], low), __fmul_rn(by[at + 1], high));
      K_ALL for (int part = 0; part < P; part++) y[part][i] = pairs[part];
    }
    K_ALL for (unsigned i = 0; i < 2; i++) {
      unsigned x[P][4];
      if (i >= s->frags) continue;
      miras__left_turned<P>(x, a->tile, a->apart, a->ld, k, s->row + 16 * i);
      K_ALL for (int j = 0; j < 2; j++) miras__add_product<P>(c[i][j], x, y, 2 * j, 2 * j + 1);
    }
  }
}

/* What a share of a slab's weights has for ba_C of channels, its rows in the first layer, its
 * columns in the last: of a thread 4 sums over its own of the others. */
static void miras__back_shares(const miras__back *f, int layer, const miras__share *s,
                               const float of[4], int adds) {
  const unsigned n = f->look.size.out, lane = threadIdx.x % 32, wide = f->look.size.wide / 16;
  float *const to =
    f->at.sums + (size_t)(layer ? wide + s->row / 32 : s->column / 16) * n;
  K_ALL for (unsigned i = 0; i < 4; i++) {
    const unsigned w = layer ? s->column + i / 2 * 8 + lane % 4 * 2 + i % 2
                             : s->row + i / 2 * 16 + i % 2 * 8 + lane / 4;
    float sum = of[i];
    K_ALL for (unsigned k = 1; k < 32; k *= 2)
      if (layer ? k >= 4 : k < 4) sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, k));
    if ((layer ? lane / 4 : lane % 4) || w >= n) continue;
    to[w] = adds ? __fadd_rn(to[w], sum) : sum;
  }
}

/* Cotangents of weights over fold and reads, a slab of them [rows, columns]; sums over all weights
 * are added to `whole`, a warp's in one place, or over those of a channel to `sums`. */
template <int P>
static void miras__back_weights(const miras__back *f, int layer, unsigned from, unsigned w) {
  const miras__slabs *const l = &f->look;
  const miras__chunk *c = l->c;
  const miras__side ca = miras__side_from(f->ca[layer], layer, from);
  const miras__side cs = miras__side_from(f->cs[layer], layer, from);
  const miras__side cw = miras__side_from(f->cw[layer], layer, from);
  const miras__side a = miras__slab_side(l, layer, 3, from);
  const miras__side b = miras__slab_side(l, layer, 1, from);
  const miras__side total = miras__slab_side(l, layer, 2, from);
  const int left = layer ? MIRAS__BACK_P : MIRAS__BACK_Q;
  const int right = layer ? MIRAS__BACK_U2 : MIRAS__BACK_U1;
  const size_t last = c->m - 1;
  const unsigned channel = l->size.channel, n = l->size.out;
  const float whole = c->ends && !channel ? c->ca[last] : 1;
  const float by = c->ends && c->s ? c->cf[last] : 0;
  const float stays = c->ends && c->s ? c->ch[last] : 1;
  const float inv = c->inv[layer];
  float *const to = (float *)(uintptr_t)ca.p, *const ts = (float *)(uintptr_t)cs.p;
  float *const tw = (float *)(uintptr_t)cw.p;
  const int alone = f->asks && !l->live;         /* reads by W alone                              */
  float *const init = f->init[layer] ? f->init[layer] + (b.p - l->side[layer][1].p) : NULL;
  const unsigned rows = layer ? w : f->at.tile[MIRAS__BACK_Q].columns;
  const unsigned columns = layer ? f->at.tile[MIRAS__BACK_U2].columns : w;
  float all[3] = {0, 0, 0};
  miras__share s;
  for (unsigned turn = 0; miras__share_of(&s, turn, rows, columns); turn++) {
    const unsigned row = s.row, column = s.column;
    float d[3][2][2][4], of[4] = {0, 0, 0, 0};
    K_ALL for (int i = 0; i < 3; i++) {
      const int more = channel && i == 1;
      miras__share_clear(d[i]);
      if (f->asks && (i == 0 || (!alone && (i == 1 ? init != NULL : ts != NULL))))
        miras__back_outer<P>(d[i], f, more && !layer ? MIRAS__BACK_HQ : left,
                             more && layer ? MIRAS__BACK_HU2 : right, &s,
                             channel || alone ? NULL : miras__back_by(f, i));
    }
    K_PAIRS K_ALL for (unsigned e = 0; e < 2; e++) {
      const unsigned i = K_ROW, j = K_COLUMN + e;
      float old, own, keep = whole;
      if (pair / 4 >= s.frags || i >= ca.rows || j >= ca.columns) continue;
      if (f->asks && tw != to)
        tw[i * cw.ld + j] = __fadd_rn(tw[i * cw.ld + j], K_OF(d[0])[e]);
      if (!f->folds) continue;
      if (channel && c->ends) keep = c->ca[last * n + (layer ? j : i)];
      old = to[i * ca.ld + j];
      own = b.p ? __fsub_rn(a.p[i * a.ld + j], b.p[i * b.ld + j]) : a.p[i * a.ld + j];
      if (!channel)
        all[0] = __fmaf_rn(own, old, all[0]);
      else if (layer)
        of[pair / 2 % 2 * 2 + e] = __fmaf_rn(own, old, of[pair / 2 % 2 * 2 + e]);
      else
        of[pair / 4 * 2 + pair % 2] = __fmaf_rn(own, old, of[pair / 4 * 2 + pair % 2]);
      if (init)
        init[i * b.ld + j] = __fadd_rn(init[i * b.ld + j],
                                       __fmaf_rn(__fsub_rn(1, keep), old,
                                                 __fmul_rn(inv, K_OF(d[1])[e])));
      if (ts) {
        const float was = ts[i * cs.ld + j];
        own = total.p[i * total.ld + j];
        all[1] = __fmaf_rn(own, old, all[1]), all[2] = __fmaf_rn(own, was, all[2]);
        ts[i * cs.ld + j] =
          __fmaf_rn(stays, was, __fmaf_rn(by, old, __fmul_rn(inv, K_OF(d[2])[e])));
      }
      to[i * ca.ld + j] = tw == to ? __fmaf_rn(keep, old, K_OF(d[0])[e]) : __fmul_rn(keep, old);
    }
    if (channel && f->folds) miras__back_shares(f, layer, &s, of, from > 0);
  }
  K_ALL for (unsigned i = 0; i < 3; i++) {
    const float own = miras__warp_sum(all[i]);
    float *const at = f->at.whole + 8 * i + threadIdx.x / 32;
    if (threadIdx.x % 32 == 0) *at = __fadd_rn(*at, own);
  }
}

/* Coefficients, from sums of rows and of all weights. */
static void miras__back_coefficients(const miras__back *f) {
  miras__chunk *const c = f->look.c;
  const unsigned m = (unsigned)c->m, rows = f->look.rows, wide = f->look.size.wide / 16;
  float number[2] = {0, 0};
  for (unsigned r = threadIdx.x; r < m; r += blockDim.x) {
    float all[MIRAS__BY_ALL];
    K_ALL for (int i = 0; i < MIRAS__BY_ALL; i++) {
      all[i] = 0;
      if (i >= MIRAS__BY_G ? !c->ends || (i == MIRAS__BY_N && !c->s)
                           : !f->look.live || !f->look.side[0][i].p) continue;
      for (int layer = 0; layer < 2; layer++) {
        const float *sum = miras__back_sums(f, layer, i);
        /* fold: columns of x and of d_2; reads: columns of q, and hidden ones */
        const unsigned n = layer && i < MIRAS__BY_G ? wide
                         : f->at.tile[layer ? MIRAS__BACK_D2 : MIRAS__BACK_X].columns / 16;
        const int times = i == MIRAS__BY_INIT || i == MIRAS__BY_F;   /* a link's number           */
        const float by = times ? c->inv[layer] : 1, own = miras__back_by(f, i)[r];
        for (unsigned w = 0; w < n; w++) {
          all[i] = __fmaf_rn(by, sum[w * rows + r], all[i]);
          if (times) number[layer] = __fmaf_rn(own, sum[w * rows + r], number[layer]);
        }
      }
    }
    c->back.ba[r] = __fadd_rn(c->back.ba[r], __fsub_rn(all[MIRAS__BY_A], all[MIRAS__BY_INIT]));
    c->back.bf[r] = __fadd_rn(c->back.bf[r], all[MIRAS__BY_F]);
    if (c->ends) {
      const size_t last = (m - 1) * c->p->chunk_pairs + r;
      c->back.bg[last] = __fsub_rn(c->back.bg[last], all[MIRAS__BY_G]);
      if (c->s) c->back.bn[last] = __fsub_rn(c->back.bn[last], all[MIRAS__BY_N]);
    }
    if (r + 1 < m || !c->ends) continue;
    for (unsigned warp = 0; warp < 8; warp++) {
      c->back.ba[r] = __fadd_rn(c->back.ba[r], f->at.whole[warp]);
      c->back.bf[r] = __fadd_rn(c->back.bf[r], f->at.whole[8 + warp]);
      c->back.bh[r] = __fadd_rn(c->back.bh[r], f->at.whole[16 + warp]);
    }
  }
  for (int layer = 0; layer < 2; layer++) miras__back_number(f, layer, number[layer]);
  __syncthreads();
}

/* What a slab adds to bq and ba of gates per channel, by the first layer. */
template <int P>
__device__ __noinline__ void miras__back_asked(const miras__back *f, unsigned from, unsigned w,
                                               float *bq) {
  const miras__slabs *const l = &f->look;
  const miras__side *tile = f->at.tile;
  const miras__side a = miras__back_weight(f, 0, from);
  const miras__side b = miras__side_from(l->side[0][1], 0, from);
  const miras__chunk *k = l->c;
  const unsigned m = (unsigned)k->m, n = l->size.in;
  float number = 0;
  miras__share s;
  for (unsigned turn = 0; miras__share_of(&s, turn, l->rows, tile[MIRAS__BACK_Q].columns); turn++) {
    const unsigned row = s.row, column = s.column;
    float c[2][2][4], h[2][2][4];
    miras__share_clear(c);
    miras__share_clear(h);
    miras__side_product<P, MIRAS__HALVES, MIRAS__EITHER_TURNED>(c, &tile[MIRAS__BACK_U1], &a, row,
                                                                s.frags, column, w);
    if (b.p)
      miras__side_product<P, MIRAS__HALVES, MIRAS__FLOATS_TURNED>(h, &tile[MIRAS__BACK_U1], &b, row,
                                                                  s.frags, column, w);
    K_PAIRS K_ALL for (unsigned e = 0; e < 2; e++) {
      const size_t at = K_ROW * n + K_COLUMN + e;
      float left, init;
      if (pair / 4 >= s.frags || K_ROW >= m || K_COLUMN + e >= n) continue;
      left = k->ca[at], init = __fmul_rn(k->inv[0], K_OF(h)[e]);
      k->back.ba[at] = __fmaf_rn(__fsub_rn(K_OF(c)[e], init), k->query.x[0][at], k->back.ba[at]);
      bq[at] = __fmaf_rn(left, K_OF(c)[e], __fmaf_rn(__fsub_rn(1, left), init, bq[at]));
      number = __fmaf_rn(__fmul_rn(__fsub_rn(1, left), K_OF(h)[e]), k->query.x[0][at], number);
    }
  }
  miras__back_number(f, 0, number);
}

/* Rows x of n channels that were written, times their steps, and the rows that asked for them; b
 * is -met. left: what decays leave until each row, as a block of rows finds it; live: B. */
typedef struct miras__back_rows {
  const float *x, *written, *asked, *met;
  float *left, *live, *bx, *beta, *balpha, *basked;    /* basked: NULL, nobody wants it; met and
                                                          asked: NULL, nobody asked               */
} miras__back_rows;
enum { MIRAS__BACK_EACH = 8 };       /* of them at a time                                         */

/* What a row behind the block has to do with it: its numbers, which are on their way early. */
typedef struct miras__back_row {
  float alpha, asked, left, met[MIRAS__BACK_EACH];
} miras__back_row;
static void miras__back_row_of(miras__back_row *r, const miras__chunk *c, const miras__back_rows *s,
                               unsigned t, unsigned first, size_t at) {
  r->alpha = c->rows.alpha[at], r->asked = s->met ? s->asked[at] : 0, r->left = s->left[at];
  K_ALL for (unsigned j = 0; j < MIRAS__BACK_EACH; j++)
    r->met[j] = s->met ? s->met[t * c->p->chunk_pairs + first + j] : 0;
}

/* Channel w of them. */
static void miras__back_run(const miras__back *f, const miras__back_rows *s, unsigned w) {
  enum { EACH = MIRAS__BACK_EACH };
  const miras__chunk *c = f->look.c;
  const unsigned m = (unsigned)c->m, n = f->look.size.out;
  const size_t ld = c->p->chunk_pairs;
  for (unsigned first = (m + EACH - 1) / EACH * EACH; first > 0;) {
    float alpha[EACH], y[EACH], d[EACH], b[EACH], h[EACH], u[EACH], all = 1, left = 1;
    miras__back_row next;
    first -= EACH;
    if (first + EACH < m)
      miras__back_row_of(&next, c, s, m - 1, first, (size_t)(m - 1) * n + w);
    K_ALL for (unsigned j = EACH; j-- > 0;) {
      const size_t at = (first + j) * n + w;
      const int in = first + j < m;
      alpha[j] = in ? c->rows.alpha[at] : 1;
      y[j] = in ? s->written[at] : 0, b[j] = in ? s->live[at] : 0;
      d[j] = __fmul_rn(all, y[j]);
      all = __fmul_rn(all, alpha[j]);
    }
    for (unsigned t = m; t-- > first + EACH;) {
      const miras__back_row row = next;
      const size_t at = t * n + w;
      float sum = 0, met = 0;
      if (t > first + EACH) miras__back_row_of(&next, c, s, t - 1, first, at - n);
      K_ALL for (unsigned j = 0; j < EACH; j++) {
        b[j] = __fmaf_rn(-row.met[j], row.asked, b[j]);
        sum = __fmaf_rn(b[j], d[j], sum);
        met = __fmaf_rn(-row.met[j], d[j], met);
        b[j] = __fmul_rn(row.alpha, b[j]);
      }
      s->left[at] = __fmul_rn(row.left, all);
      s->balpha[at] = __fmaf_rn(row.left, sum, s->balpha[at]);
      if (s->basked)
        s->basked[at] = __fmaf_rn(__fmul_rn(row.alpha, row.left), met, s->basked[at]);
    }
    K_ALL for (unsigned i = EACH; i-- > 0;) {
      const int in = s->met && first + i < m;
      const float *const met = in ? s->met + (first + i) * ld + first : NULL;
      const float q = in ? s->asked[(first + i) * n + w] : 0, own = in ? -met[i] : 0;
      float since = 1;
      h[i] = u[i] = 0;
      b[i] = __fmaf_rn(own, q, b[i]);
      K_ALL for (unsigned j = i; j-- > 0;) {
        const float before = __fmul_rn(since, y[j]), by = in ? -met[j] : 0;
        b[j] = __fmaf_rn(by, q, b[j]);
        h[i] = __fmaf_rn(b[j], before, h[i]);
        u[i] = __fmaf_rn(by, before, u[i]);
        b[j] = __fmul_rn(alpha[i], b[j]);
        since = __fmul_rn(since, alpha[j]);
      }
      u[i] = __fmaf_rn(alpha[i], u[i], __fmul_rn(own, y[i]));
    }
    K_ALL for (unsigned j = 0; j < EACH; j++) {
      const size_t at = (first + j) * n + w;
      if (first + j >= m) continue;
      s->left[at] = left;
      left = __fmul_rn(left, alpha[j]);
      s->balpha[at] = __fadd_rn(s->balpha[at], h[j]);
      if (s->basked) s->basked[at] = __fadd_rn(s->basked[at], u[j]);
      s->beta[at] = __fmaf_rn(s->x[at], b[j], s->beta[at]);
      s->bx[at] = __fmaf_rn(c->rows.eta[at], b[j], s->bx[at]);
    }
  }
}

/* Channel w of gates, from both kinds of rows; b comes in as what weights have for a_C. */
static void miras__back_gate(const miras__back *f, unsigned w, float b) {
  enum { EACH = MIRAS__BACK_EACH };
  const miras__chunk *c = f->look.c;
  const size_t n = f->look.size.out;
  for (size_t end = c->m; end > 0; end = end > EACH ? end - EACH : 0) {
    float by[EACH], alpha[EACH], before[EACH], to[EACH], eta[EACH];
    K_ALL for (size_t k = 0; k < EACH; k++) {
      const size_t t = end - 1 - k, at = t * n + w;
      if (k >= end) continue;
      by[k] = c->back.ba[at];
      if (f->look.live) by[k] = __fmaf_rn(c->back.dz[at], c->back.mixed[at], by[k]);
      alpha[k] = c->rows.alpha[at], before[k] = t ? c->ca[at - n] : 1;
      to[k] = __fadd_rn(c->brows.alpha[at], c->back.live[at]);
      eta[k] = __fadd_rn(c->brows.eta[at], c->left[at]);
    }
    K_ALL for (size_t k = 0; k < EACH; k++) {
      const size_t at = (end - 1 - k) * n + w;
      if (k >= end) continue;
      b = __fadd_rn(b, by[k]);
      c->brows.alpha[at] = __fmaf_rn(before[k], b, to[k]);
      c->brows.eta[at] = eta[k];
      b = __fmul_rn(alpha[k], b);
    }
  }
}

/* Gates per channel behind all slabs: a thread has a channel of x or d_2, then one of both. Tiles
 * of x and d_2 are what they were. */
template <int P>
__device__ __noinline__ void miras__back_channels(const miras__back *f, float *bq) {
  miras__chunk *const c = f->look.c;
  const miras__net *n = &c->net;
  const unsigned m = (unsigned)c->m, wide = f->look.size.out, across = f->look.size.wide / 16;
  const int live = f->look.live;
  if (live) miras__back_factor(f, 0, c->back.bp, c->kq[0], NULL);
  c->K->fill(c->back.live, 0, m * (size_t)wide);
  c->K->fill(c->left, 0, m * (size_t)wide);
  for (unsigned at = threadIdx.x; at < 2 * wide; at += blockDim.x) {
    const int in = at < wide;
    miras__back_rows s;
    s.x = in ? n->pairs.x[0] : n->d[1], s.written = in ? c->live_y : c->live_d;
    s.asked = in ? c->query.x[0] : c->back.dz, s.met = !live ? NULL : in ? c->back.bp : c->kq[1];
    s.left = in ? n->t1 : n->t2, s.live = in ? c->back.blive_y : c->back.blive_d;
    s.bx = in ? n->bx[0] : n->bd[1], s.beta = in ? c->brows.eta : c->left;
    s.balpha = in ? c->brows.alpha : c->back.live, s.basked = in && live ? bq : NULL;
    miras__back_run(f, &s, at % wide);
  }
  __syncthreads();
  for (unsigned w = threadIdx.x; w < wide; w += blockDim.x) {
    float b = 0;
    for (unsigned i = 0; c->ends && i < across + (across + 1) / 2; i++)
      b = __fadd_rn(b, f->at.sums[i * wide + w]);
    miras__back_gate(f, w, b);
  }
  miras__back_fill<P>(&f->at.tile[MIRAS__BACK_X], n->pairs.x[0], wide, m, wide);
  miras__back_fill<P>(&f->at.tile[MIRAS__BACK_D2], n->d[1], wide, m, wide);
  __syncthreads();
}

/* A slab of fold and reads, or of one of them. */
template <int P>
__device__ __noinline__ void miras__back_slab_of(const miras__back *f, unsigned from, unsigned w,
                                                 float *bq) {
  const miras__slabs *const l = &f->look;
  const miras__side *tile = f->at.tile;
  const unsigned in = l->size.in, out = l->size.out;
  miras__chunk *const c = l->c;
  const int channel = (int)l->size.channel, live = f->asks && l->live;
  const miras__terms first =
    miras__back_folds(f, 0, from, channel ? NULL : c->net.pairs.x[0], in, in);
  const miras__terms second = miras__back_folds(f, 1, from, channel ? NULL : c->net.d[1], out, out);
  const miras__terms reads = miras__back_reads(f, 0, from, c->query.x[0], in, in);
  float *const bx = channel ? c->back.blive_y : c->net.bx[0];
  float *const bd = channel ? c->back.blive_d : c->net.bd[1];
  if (f->folds) {
    miras__back_slab<P>(f, MIRAS__BACK_Y, c->net.pairs.x[1], l->size.mid, from);
    miras__back_slab<P>(f, MIRAS__BACK_D1, c->net.d[0], l->size.mid_out, from);
  }
  if (f->asks) miras__back_slab<P>(f, MIRAS__BACK_P, c->query.x[1], l->size.mid, from);
  __syncthreads();
  if (f->folds && c->ends) {
    miras__back_add<P, MIRAS__FLOATS>(f, &second, &tile[MIRAS__BACK_Y], w, bd, out);
    miras__back_add<P, MIRAS__FLOATS_TURNED>(f, &first, &tile[MIRAS__BACK_D1], w, bx, in);
  }
  miras__back_hidden<P>(f, from, w);
  __syncthreads();
  if (channel && live) miras__back_asked<P>(f, from, w, bq);
  else if (f->asks)
    miras__back_add<P, MIRAS__EITHER_TURNED>(f, &reads, &tile[MIRAS__BACK_U1], w, bq, in);
  if (f->folds) miras__back_gradient<P>(f, from, w);
  if (live) miras__back_scores<P>(f, c->back.bp, from > 0, MIRAS__BACK_U1, MIRAS__BACK_D1, NULL);
  miras__back_weights<P>(f, 1, from, w);
  __syncthreads();
  miras__back_weights<P>(f, 0, from, w);
  __syncthreads();
}

/* bq of reads from a token on goes to where it came from. */
static void miras__back_asking(const miras__back *f, size_t token, float *bq) {
  const miras__chunk *c = f->look.c;
  const miras__call *call = c->call;
  const size_t in = f->look.size.in, reads = f->look.reads;
  if (c->p->d.inner_residual)
    c->K->add_rows(bq, in, call->dy + token * call->lddy, call->lddy, reads, f->look.size.out);
  miras__rows_queries_bwd(c->K, c->p, c->io, call->g, token, reads, bq, c->query.x[0], in);
}

/* ---- a link, back ---- */

/* Reads by W alone, from a token on, there and back: bW +=. */
template <int P>
__device__ __noinline__ void miras__back_alone(miras__back *f, size_t token, unsigned reads) {
  miras__slabs *const l = &f->look;
  miras__chunk *const c = l->c;
  const int live = l->live, folds = f->folds;
  const unsigned rows = l->rows;
  const size_t m = c->m;
  float *const bq = c->net.t3;
  unsigned from;
  c->m = l->reads = reads, l->rows = (reads + 15) / 16 * 16;
  l->live = f->folds = 0, f->asks = 1;
  miras__back_asks<P>(f, token);
  miras__back_answers<P>(f, token);
  c->K->fill(bq, 0, reads * (size_t)l->size.in);
  K_SLABS miras__back_slab_of<P>(f, from, K_WIDE, bq);
  miras__back_asking(f, token, bq);
  c->m = m, l->rows = rows;
  l->live = live, f->folds = folds;
}

/* A_C, a slab of a layer's. Whether there is an S is asked of the record itself: of a pointer that
 * was moved on, nvcc 13.0 for sm_90 compares what was in the register before its NULL arrives. */
template <int P>
static void miras__back_folded(const miras__back *f, int layer, unsigned from, unsigned w) {
  const miras__slabs *const l = &f->look;
  const miras__chunk *c = l->c;
  const miras__side a = miras__slab_side(l, layer, 3, from);
  const miras__side b = miras__slab_side(l, layer, 1, from);
  const miras__side v = miras__slab_side(l, layer, 2, from);
  const unsigned channel = l->size.channel;
  const size_t last = (c->m - 1) * (channel ? l->size.out : 1);
  const int momentum = l->side[layer][2].p != NULL;
  const float by = momentum ? c->cf[c->m - 1] : 0;
  float *const to = c->back.ac + (a.p - c->a);
  const unsigned rows = layer ? w : f->at.tile[MIRAS__BACK_X].columns;
  const unsigned columns = layer ? f->at.tile[MIRAS__BACK_D2].columns : w;
  miras__share s;
  for (unsigned turn = 0; miras__share_of(&s, turn, rows, columns); turn++) {
    const unsigned row = s.row, column = s.column;
    float d[2][2][4];
    miras__share_clear(d);
    miras__back_outer<P>(d, f, layer ? MIRAS__BACK_Y : MIRAS__BACK_X,
                         layer ? MIRAS__BACK_D2 : MIRAS__BACK_D1, &s,
                         miras__back_by(f, MIRAS__BY_G));
    K_PAIRS K_ALL for (unsigned e = 0; e < 2; e++) {
      const unsigned i = K_ROW, j = K_COLUMN + e;
      float all, left;
      if (pair / 4 >= s.frags || i >= a.rows || j >= a.columns) continue;
      left = c->ca[last + (!channel ? 0 : layer ? j : i)];
      all = __fmul_rn(left, a.p[i * a.ld + j]);
      if (b.p) all = __fmaf_rn(__fsub_rn(1, left), b.p[i * b.ld + j], all);
      if (momentum) all = __fmaf_rn(by, v.p[i * v.ld + j], all);
      to[i * a.ld + j] = __fadd_rn(all, K_OF(d)[e]);
    }
  }
}

/* A chunk's last read, which goes through W_C = link(A_C): bA +=. */
template <int P> __device__ __noinline__ void miras__back_closing(miras__back *f) {
  miras__slabs *const l = &f->look;
  miras__chunk *const c = l->c;
  const miras__plan *p = c->p;
  const unsigned reads = (unsigned)c->reads;
  miras__side nearby[2];
  unsigned from;
  if (!c->back.kept) {
    K_SLABS {
      const unsigned w = K_WIDE;
      miras__back_slab<P>(f, MIRAS__BACK_Y, c->net.pairs.x[1], l->size.mid, from);
      miras__back_slab<P>(f, MIRAS__BACK_D1, c->net.d[0], l->size.mid_out, from);
      __syncthreads();
      for (int i = 0; i < 2; i++) miras__back_folded<P>(f, i, from, w);
      __syncthreads();
    }
    miras__span_close(c, c->back.wc, c->back.ac, NULL, c->a, c->line);
  }
  c->K->fill(c->back.bwc, 0, p->weights);
  for (int i = 0; i < 2; i++) {
    nearby[i] = f->at.weights[i];
    f->at.weights[i].tile = NULL;
    l->side[i][0].p = c->back.wc + p->offset[i], f->cw[i].p = c->back.bwc + p->offset[i];
  }
  miras__back_alone<P>(f, c->token + reads, 1);
  for (int i = 0; i < 2; i++) {
    f->at.weights[i] = nearby[i];
    l->side[i][0].p = c->w + p->offset[i], f->cw[i].p = c->back.bw + p->offset[i];
  }
  l->reads = reads;
  miras__span_close_bwd(c, c->back.state, NULL);
}

/* bW_0 goes through the link to bA, with what there is for the link's number. */
static void miras__back_linked(const miras__back *f) {
  miras__chunk *const c = f->look.c;
  const miras__link link = miras__anchor_link(c, c->back.bw, c->back.state);
  for (unsigned i = threadIdx.x; i < 2; i += blockDim.x) {
    float sum = 0;
    for (unsigned warp = 0; warp < 8; warp++)
      sum = __fadd_rn(sum, f->at.whole[24 + 8 * i + warp]);
    c->back.binv[i] = sum;
  }
  __syncthreads();
  miras__links(&link, c->retain->link_bwd);
}

/* ---- the anchor, back ---- */

/* bW += left' right, a slab of a layer's; ones: with the row of biases. */
template <int P>
static void miras__back_anchor(const miras__back *f, int layer, unsigned from, unsigned w, int left,
                               int right) {
  const miras__side cw = miras__side_from(f->cw[layer], layer, from);
  const unsigned rows = layer ? w : f->at.tile[left].columns;
  const unsigned columns = layer ? f->at.tile[right].columns : w;
  miras__share s;
  for (unsigned turn = 0; miras__share_of(&s, turn, rows, columns); turn++) {
    float c[2][2][4];
    miras__share_clear(c);
    miras__back_outer<P>(c, f, left, right, &s, NULL);
    miras__slab_add((float *)(uintptr_t)cw.p, cw.ld, cw.rows, cw.columns, 1, c, &s);
  }
}

/* Rows [w] += left W' or left W of layer `layer`, a slab's. */
template <int P, int RIGHT>
static void miras__back_through(const miras__back *f, int layer, unsigned from, unsigned w,
                                float *to, unsigned n) {
  const miras__side right = miras__back_weight(f, layer, from);
  miras__share s;
  for (unsigned turn = 0; miras__share_of(&s, turn, f->look.rows, (n + 15) / 16 * 16); turn++) {
    float c[2][2][4];
    miras__share_clear(c);
    miras__side_product<P, MIRAS__HALVES, RIGHT>(c, &f->at.tile[MIRAS__BACK_U1], &right, s.row,
                                                 s.frags, s.column, w);
    miras__slab_add(to, n, (unsigned)f->look.c->m, n, 1, c, &s);
  }
}

/* c of a slab. */
template <int P> static void miras__back_bend(const miras__back *f, unsigned from, unsigned w) {
  const miras__side *to = &f->at.tile[MIRAS__BACK_U1];
  const miras__net *n = &f->look.c->net;
  const unsigned m = (unsigned)f->look.c->m, mid_out = f->look.size.mid_out;
  const int kind = (int)n->p->d.activation;
  for (unsigned at = threadIdx.x; at < to->rows * w / 2; at += blockDim.x) {
    const unsigned r = at / (w / 2), column = at % (w / 2) * 2;
    float c[2];
    K_ALL for (unsigned e = 0; e < 2; e++) {
      const unsigned j = from + column + e;
      const size_t own = r * mid_out + j;
      c[e] = 0;
      if (r >= m || j >= mid_out) continue;
      c[e] = __fmul_rn(n->bd[0][own], miras__slab_slope(kind, n->pairs.z[0][own]));
      n->bz[0][own] = __fmul_rn(__fmul_rn(n->bd[0][own], n->back[0][own]),
                                miras__slab_bend(kind, n->pairs.z[0][own]));
    }
    miras__side_put<P>(to, r, column, c[0], c[1]);
  }
  __syncthreads();
}

/* be, br and bv, and from them bz_2. */
template <int P> static void miras__back_bias(const miras__back *f) {
  miras__chunk *const c = f->look.c;
  const miras__net *n = &c->net;
  const miras__kernels *K = c->K;
  const size_t m = c->m, dv = f->look.size.out;
  const miras__errors errors = miras__errors_of(n);
  float *const b = n->t3;
  n->answer->begin2(n, b);
  if (n->balong) K->axpy_rows(b, dv, 1, n->balong, 1, n->r, dv, m, dv);
  K->bias_rows(&errors, b, n->bv, n->bdelta, n->row + m);
  if (n->balong) K->axpy_rows(b, dv, 1, n->balong, 1, n->e, dv, m, dv);
  n->answer->end2(n, b);
  if (n->p->d.inner_residual) K->add_rows(n->bx[0], f->look.size.in, b, dv, m, dv);
  K->sub(n->bv, n->bv, b, m * dv);
  miras__back_fill<P>(&f->at.tile[MIRAS__BACK_U2], n->bz[1], dv, (unsigned)m, (unsigned)dv);
  __syncthreads();
}

/* bz_1 of a slab. */
template <int P> static void miras__back_first(const miras__back *f, unsigned from, unsigned w) {
  const miras__side *tile = f->at.tile, right = miras__back_weight(f, 1, from);
  const miras__net *n = &f->look.c->net;
  const unsigned m = (unsigned)f->look.c->m, mid = f->look.size.mid;
  const unsigned mid_out = f->look.size.mid_out;
  miras__share s;
  for (unsigned turn = 0; miras__share_of(&s, turn, f->look.rows, w); turn++) {
    const unsigned row = s.row, column = s.column;
    float c[2][2][4];
    miras__share_clear(c);
    miras__side_product<P, MIRAS__HALVES, MIRAS__EITHER_TURNED>(
      c, &tile[MIRAS__BACK_U2], &right, row, s.frags, column, tile[MIRAS__BACK_U2].columns);
    K_PAIRS {
      float z[2];
      if (pair / 4 >= s.frags) continue;
      K_ALL for (unsigned e = 0; e < 2; e++) {
        const unsigned at = from + K_COLUMN + e;
        z[e] = 0;
        if (K_ROW >= m || at >= mid_out) continue;
        z[e] = __fmaf_rn(__fadd_rn(n->bx[1][K_ROW * mid + at], K_OF(c)[e]),
                         miras__slab_slope((int)n->p->d.activation,
                                           n->pairs.z[0][K_ROW * mid_out + at]),
                         n->bz[0][K_ROW * mid_out + at]);
      }
      miras__side_put<P>(&tile[MIRAS__BACK_U1], K_ROW, K_COLUMN, z[0], z[1]);
    }
  }
}

/* ---- a chunk ---- */

template <int P>
__device__ __noinline__ void miras__back_chunk(miras__back *f, size_t t, unsigned m) {
  miras__slabs *const l = &f->look;
  const unsigned in = l->size.in, out = l->size.out;
  miras__chunk *const c = l->c;
  const miras__kernels *K = c->K;
  float *const bq = c->net.t3;
  unsigned from;
  miras__back_again<P>(f, t, m);
  K->fill(c->back.bg, 0, c->back.added);
  K->fill(c->net.bx[0], 0, m * (size_t)in);
  K->fill(c->net.bd[1], 0, m * (size_t)out);
  K->fill(f->at.whole, 0, 40);
  if (l->size.linked) K->fill(c->back.bw, 0, c->p->weights);
  if (c->closing) miras__back_closing<P>(f);
  f->folds = 1, f->asks = l->live;
  if (l->live) {
    miras__back_asks<P>(f, t);
    miras__back_answers<P>(f, t);
    K->fill(bq, 0, m * (size_t)in);
  }
  K_SLABS miras__back_slab_of<P>(f, from, K_WIDE, bq);
  if (l->size.channel) {
    miras__back_channels<P>(f, bq);
  } else {
    if (l->live) {
      miras__back_factor(f, 0, c->back.bp, c->kq[0], c->g);
      miras__back_tile<P>(f, c->back.bp, c->kq[0]);
      miras__back_meet<P>(f, bq, in, 0, MIRAS__BACK_X, 1);
      miras__back_meet<P>(f, c->net.bx[0], in, 1, MIRAS__BACK_Q, 1);
    }
    miras__back_coefficients(f);
  }
  if (l->live) miras__back_asking(f, t, bq);
  else miras__back_alone<P>(f, t, l->reads);
  if (!l->size.channel) miras__back_course_bwd(f);
  if (c->p->d.step_bound) miras__back_bound_bwd(f);
  c->net.balong = c->p->d.step_bound ? c->bound.along : NULL;
  K_SLABS {
    miras__back_bend<P>(f, from, K_WIDE);
    miras__back_through<P, MIRAS__EITHER>(f, 1, from, K_WIDE, c->net.bd[1], out);
    miras__back_anchor<P>(f, 1, from, K_WIDE, MIRAS__BACK_U1, MIRAS__BACK_D2);
    __syncthreads();
  }
  miras__back_bias<P>(f);
  K_SLABS {
    miras__back_slab<P>(f, MIRAS__BACK_Y, c->net.pairs.x[1], l->size.mid, from);
    miras__back_first<P>(f, from, K_WIDE);
    __syncthreads();
    miras__back_anchor<P>(f, 1, from, K_WIDE, MIRAS__BACK_Y, MIRAS__BACK_U2);
    miras__back_anchor<P>(f, 0, from, K_WIDE, MIRAS__BACK_X, MIRAS__BACK_U1);
    miras__back_through<P, MIRAS__EITHER_TURNED>(f, 0, from, K_WIDE, c->net.bx[0], in);
    __syncthreads();
  }
  c->brows.x = c->net.bx[0];
  miras__rows_bwd(K, c->p, c->io, c->call->g, t, m, &c->rows, &c->brows, c->net.row);
  if (l->size.linked) miras__back_linked(f);
}

/* bA of all weights, rows without a gap, to or from where chunks have it. */
static void miras__back_move(const miras__back *f, float *all, int back) {
  const miras__plan *p = f->look.c->p;
  for (int l = 0; l < 2; l++) {
    const unsigned n = (unsigned)p->out[l], ld = f->ca[l].ld;
    float *const nearby = (float *)(uintptr_t)f->ca[l].p, *const afar = all + p->offset[l];
    const unsigned count = nearby != afar ? (unsigned)p->in[l] * n : 0;
    for (unsigned at = threadIdx.x; at < count; at += blockDim.x) {
      if (back) afar[at] = nearby[at / n * ld + at % n];
      else nearby[at / n * ld + at % n] = afar[at];
    }
  }
  __syncthreads();
}

/* All of a call, as by room @51. */
template <int P>
static void miras__back_all(const miras__call *call, const miras__slabs_size *size) {
  const miras__plan *p = call->p;
  const size_t all = p->weights, length = (size_t)call->io->length;
  float *ca, *cs;
  miras__chunk chunk, *const c = &chunk;
  miras__back back, *const f = &back;
  miras__frozen_open(c, call, 1);
  ca = c->a, cs = c->s;
  f->look.c = c, f->look.size = *size;
  f->look.rows = (size->chunk + 15) / 16 * 16, f->look.hidden = (size->mid + 15) / 16 * 16;
  (void)miras__back_lay(&f->at, size, (char *)(void *)(miras__shared + MIRAS__ROOM));
  if (p->d.token_rates)
    c->K->rates_fwd(p->d.token_rates, c->rate, c->slope, c->io->rho, 0, size->chunk, 1);
  for (int l = 0; l < 2; l++) {
    const size_t in = (size_t)p->in[l], out = (size_t)p->out[l], at = p->offset[l];
    f->ca[l] = miras__side_floats(size->nearby & 1 ? f->at.w[l] : ca + at,
                                  size->nearby & 1 ? out + 4 : out, in, out);
    f->cs[l] = miras__side_floats(miras__at(cs, at), out, in, out);
    f->cw[l] = size->linked ? miras__side_floats(c->back.bw + at, out, in, out) : f->ca[l];
    f->init[l] = c->init ? call->dinit + at : NULL;
    f->look.side[l][1] = miras__side_floats(miras__at(c->init, at), out, in, out);
  }
  miras__back_move(f, ca, 0);
  for (size_t t = (length + size->chunk - 1) / size->chunk * size->chunk; t > 0;) {
    if (size->linked && t < length) miras__anchor_passes(c);
    t -= size->chunk;
    c->a = call->tape + t / size->chunk * p->tape_state;
    if (!size->linked) c->w = c->a;
    c->net.w = c->w;
    c->s = cs ? c->a + all : NULL;
    for (int l = 0; l < 2; l++) {
      const size_t in = (size_t)p->in[l], out = (size_t)p->out[l], at = p->offset[l];
      f->look.side[l][0] = miras__side_floats(c->w + at, out, in, out);
      f->look.side[l][3] = miras__side_floats(c->a + at, out, in, out);
      f->look.side[l][2] = miras__side_floats(miras__at(c->s, at), out, in, out);
    }
    miras__back_chunk<P>(f, t,
                         (unsigned)(length - t < size->chunk ? length - t : size->chunk));
  }
  miras__back_move(f, ca, 1);
  miras__frozen_first(c, call);
}
#undef K_SLABS
#undef K_WIDE
#endif
#undef K_PAIRS
#undef K_ROW
#undef K_COLUMN
#undef K_OF

#define miras__head_forward miras__near_forward
#ifndef MIRAS_NO_TRAINING
  #define miras__head_backward miras__near_backward
#endif
#define MIRAS__DEVICE MIRAS__DEVICE_HEADS
#include MIRAS_SELF
#undef MIRAS__DEVICE

#ifndef MIRAS_NO_MODEL
static void miras__matmul(const miras__kernels *k, int mode, float *C, size_t ldc, miras__matrix A,
                          miras__matrix B, size_t M, size_t N, size_t K, float *pack) {
  k->gemm(mode, C, ldc, A, B, M, N, K, pack);
}
#undef MIRAS__HOST
#undef MIRAS__THREAD
#undef MIRAS__THREADS
#undef MIRAS__MEET
#define MIRAS__HOST(f) NULL
#define MIRAS__THREAD threadIdx.x
#define MIRAS__THREADS blockDim.x
#define MIRAS__MEET() __syncthreads()
#define MIRAS__DEVICE MIRAS__DEVICE_LAYERS
#include MIRAS_SELF
#undef MIRAS__DEVICE
#endif
#undef miras__kernels
#undef miras__head_forward
#undef miras__head_backward
#undef MIRAS__SET_SUFFIX
#undef MIRAS__SHARED_SUFFIX
#undef static
#undef MIRAS__KERNEL_PASS
#undef miras__features
#undef miras__bias_growth
#undef miras__gate_width
#undef miras__has_threshold
#undef miras__keep_width
#undef miras__since
#undef miras__since_read
#undef miras__stretch
#undef miras__sweeps
#undef miras__divergence_map
#undef miras__gemm_room
#undef miras__panel_room
#undef miras__rows_room
#undef miras__larger

/* ---- grids: a block per head of a sequence ---- */

#define MIRAS__GRID __global__ void __launch_bounds__(MIRAS_CUDA_MOST)

/* What a grid is told. The records lie in constant memory, and what points from one to another is
 * set there. */
typedef struct miras__errand {
  miras_memory m;
  size_t room, nearby, parts;          /* floats of shared memory behind MIRAS__ROOM, of a state, of
                                        parts of rows                                             */
  size_t words;                      /* of memory that a head takes in the adjoint of chunks      */
  int products;                      /* of miras_cuda_products                                    */
  miras__memory_call call;           /* of a read: dy are the queries, y what they answer         */
  miras_memory_input x;
  miras_memory_input_grad dx;
  float *dparams;
} miras__errand;

__device__ static miras__memory_call miras__call_of(const miras__errand *a) {
  miras__memory_call c = a->call;
  miras__tell_room(a->room, a->products, a->nearby, a->parts);
  c.m = (miras_memory *)&a->m;
  c.x = &a->x;
  c.dx = &a->dx;
  return c;
}

MIRAS__GRID miras__run_forward(const __grid_constant__ miras__errand a) {
  miras__memory_call c = miras__call_of(&a);
  miras__forward_task(&c, (int)blockIdx.x, (int)blockIdx.x);
}

/* Which tokens of a call run in chunks on matrix units, from and to: those between the chunk grid
 * behind its first token and the last place of it, or with a tape the last one where that has a
 * state. All others are for the engine. */
__device__ static void miras__chunks_range(const miras__errand *a, size_t b, size_t *from,
                                           size_t *to) {
  const miras__plan *p = &a->m.plan;
  const size_t length = (size_t)a->x.length, chunk = (size_t)p->d.chunk;
  const size_t open = (size_t)(miras__position(a->m.state + b * p->sequence_state) % chunk);
  const size_t grid = a->call.tape ? (size_t)p->tape_tokens : chunk;
  *from = open ? chunk - open : 0;
  if (*from > length) *from = length;
  *to = *from + (length - *from) / grid * grid;
}

/* What is left of a call to the engine: before that, or `behind`. */
__device__ static void miras__rest(const miras__errand *a, int behind) {
  const miras__plan *p = &a->m.plan;
  const size_t heads = (size_t)p->d.heads, i = blockIdx.x, b = i / heads, h = i % heads;
  const size_t length = (size_t)a->x.length;
  size_t from, to;
  miras__head_io io;
  miras__call run;
  miras__chunks_range(a, b, &from, &to);
  if (behind ? to == length : !from) return;
  miras__tell_room(a->room, a->products, a->nearby, a->parts);
  miras__memory_io(&a->m, &a->x, (int)b, (int)h, &io);
  io.y = a->call.y + (b * length * heads + h) * (size_t)p->d.value_dim;
  if (!behind) to = 0;
  miras__inputs_on(&io, to);
  io.y += to * io.ldy;
  io.length = (int)(behind ? length - to : from);
  miras__memory_head(&a->m, b, h, &run);
  run.io = &io;
  run.position += (uint64_t)to;
  run.scratch += i * p->scratch;
  if (a->call.tape)
    run.tape = a->call.tape + 16 + i * a->call.per + to / (size_t)p->tape_tokens * p->tape_chunk;
  miras__head_forward(&run);
}

MIRAS__GRID miras__run_before(const __grid_constant__ miras__errand a) { miras__rest(&a, 0); }
MIRAS__GRID miras__run_behind(const __grid_constant__ miras__errand a) { miras__rest(&a, 1); }

/* ---- one token of a matrix that is linear in its state, at chunk 1 ----
 *
 * Decoding is one read and one write of S. So a thread has a column of it in registers, all of
 * whose rows are on their way at once, and goes over them as miras__linear_strip does for a token
 * alone (room @28): a = S' x, b = S' q, the error, y, and then S diag(alpha) + x u'. Sums have the
 * host's order, so the bits are the host's. A block has up to 128 columns of a head. Memory gives
 * and takes features x value_dim numbers, k, q and v, and where decays lead to the initial memory
 * that, too, unless it is all zeros, as run_asks has found for each head. With half_state the
 * numbers are bfloat16, halfway to even, behind each token; two columns share a word, which the
 * first one's thread stores. */
/* Is a head's initial memory anything but zeros? In the first float of its first scratch. */
MIRAS__GRID miras__run_asks(const __grid_constant__ miras__errand a) {
  miras__call run;
  int some;
  miras__memory_head(&a.m, 0, blockIdx.x, &run);
  some = run.K->any(run.init, a.m.plan.weights);
  if (!threadIdx.x) run.scratch[blockIdx.x * a.m.plan.scratch] = (float)some;
}

/* N: rows of a column in registers, at least the features there are; HALF: of half_state. In one
 * piece, though long: with its loads in a function of their own it spills half as much again. */
template <int N, int HALF>
__global__ void __launch_bounds__(128, N > 64 ? 2 : N > 32 ? 3 : 8)
  miras__run_step(const __grid_constant__ miras__errand a) {
  const miras__plan *p = &a.m.plan;
  const size_t n = p->features, dv = (size_t)p->d.value_dim, heads = (size_t)p->d.heads;
  const size_t across = (dv + blockDim.x - 1) / blockDim.x, i = blockIdx.x / across;
  const size_t b = i / heads, h = i % heads;
  const size_t column = blockIdx.x % across * blockDim.x + threadIdx.x;
  const size_t j = column < dv ? column : 0;
  const int stride = p->decays > 1;
  float *const x = miras__shared + MIRAS__ROOM, *const q = x + N, *const alpha = q + N;
  const unsigned rows = (unsigned)n, ld = (unsigned)dv;
  float s[N], read = 0, answer = 0, xq, eta, u;
  const float *init = NULL, *from;
  float *to;
  miras__head_io io;
  miras__call run;
  int after, sweep;
  miras__memory_io(&a.m, &a.x, (int)b, (int)h, &io);
  miras__memory_head(&a.m, b, h, &run);
  from = run.position ? run.state : run.init;
  if (run.position && HALF) {
    const unsigned *const words = (const unsigned *)(const void *)from + j / 2;
    K_ALL for (unsigned r = 0; r < N; r++)
      if (r < rows) {
        const unsigned both = words[r * (ld / 2)];
        s[r] = __int_as_float((int)(j % 2 ? both & 0xffff0000u : both << 16));
      }
  } else {
    from += j;
    K_ALL for (unsigned r = 0; r < N; r++)
      if (r < rows) s[r] = from[r * ld];
  }
  if (p->to_init && run.scratch[h * p->scratch] != 0) init = run.init + j;
  for (unsigned c = threadIdx.x; c < N; c += blockDim.x) {   /* rows that there are not are zeros */
    x[c] = c < rows ? io.k[c] : 0, q[c] = c < rows ? (io.q ? io.q : io.k)[c] : 0;
    alpha[c] = c < rows ? io.keep[stride ? c : 0] : 1;
  }
  __syncthreads();
  if (p->map) {                      /* to keys of one length, as miras__feature_fwd */
    const float length = p->map / 16 == MIRAS_QK_NORM_RMS ? sqrtf((float)n) : 1;
    const float kx = length / sqrtf(run.K->dot(x, x, n) + MIRAS__LENGTH_EPS);
    const float kq = length / sqrtf(run.K->dot(q, q, n) + MIRAS__LENGTH_EPS);
    for (size_t c = threadIdx.x; c < n; c += blockDim.x)
      x[c] = __fmul_rn(kx, x[c]), q[c] = __fmul_rn(kq, q[c]);
    __syncthreads();
  }
  xq = run.K->dot(x, q, n);
  eta = io.rate[p->rates > 1 ? j : 0];
  if (p->implicit) {
    const float xx = run.K->dot(x, x, n);
    eta = __fdiv_rn(eta, p->epsilon > 0 ? __fadd_rn(p->epsilon, xx)
                                        : __fadd_rn(1.0f, __fmul_rn(eta, xx)));
  }
  after = p->after;
  K_ALL for (unsigned r = 0; r < N; r += 4) {
    const float4 left = *(const float4 *)(const void *)(alpha + r);
    const float4 key = *(const float4 *)(const void *)(x + r);
    const float4 query = *(const float4 *)(const void *)(q + r);
    const float by[4] = {left.x, left.y, left.z, left.w}, ks[4] = {key.x, key.y, key.z, key.w};
    const float qs[4] = {query.x, query.y, query.z, query.w};
    K_ALL for (unsigned i = 0; i < 4; i++)
      if (r + i < rows) {
        const float old = s[r + i];
        float w = __fmul_rn(by[i], old);
        if (init) w = __fmaf_rn(__fsub_rn(1.0f, by[i]), init[(r + i) * ld], w);
        read = __fmaf_rn(ks[i], after ? w : old, read);
        answer = __fmaf_rn(qs[i], w, answer);
        s[r + i] = w;
      }
  }
  u = __fmul_rn(eta, p->delta ? __fsub_rn(io.v[j], read) : io.v[j]);
  if (column < dv && io.q) a.call.y[i * dv + column] = __fmaf_rn(xq, u, answer);
  sweep = (run.position + 1) % MIRAS__SWEEP == 0;
  to = HALF ? run.state + column / 2 : run.state + column;
  if (!HALF && column >= dv) return;
  K_ALL for (unsigned r = 0; r < N; r += 4) {
    const float4 key = *(const float4 *)(const void *)(x + r);
    const float ks[4] = {key.x, key.y, key.z, key.w};
    K_ALL for (unsigned i = 0; i < 4; i++)
      if (r + i < rows) {
        float w = __fmaf_rn(ks[i], u, s[r + i]), next;
        if (sweep && fabsf(w) < MIRAS__FADED) w = 0;
        if (HALF) {
          next = __shfl_xor_sync(0xffffffffu, w, 1);
          if (column < dv && column % 2 == 0)
            ((unsigned *)(void *)to)[(r + i) * (ld / 2)] = miras__halves_of(w, next);
        } else {
          to[(r + i) * ld] = w;
        }
      }
  }
}

#undef K_ALL

MIRAS__GRID miras__run_read(const __grid_constant__ miras__errand a) {
  const size_t heads = (size_t)a.m.plan.d.heads, i = blockIdx.x;
  miras__call run;
  miras__tell_room(a.room, a.products, a.nearby);
  miras__memory_head(&a.m, i / heads, i % heads, &run);
  (void)miras__bring(&run);
  run.scratch += i * a.m.plan.scratch;
  miras__head_read(&run, i % heads, a.call.dy + i * (size_t)a.m.plan.d.key_dim,
                   a.call.y + i * (size_t)a.m.plan.d.value_dim);
}

/* After all heads: the tape's header, and where the sequences have come to. */
__global__ void miras__run_moved(const __grid_constant__ miras__errand a) {
  uint64_t *position = (uint64_t *)(a.m.state + blockIdx.x * a.m.plan.sequence_state);
  if (threadIdx.x) return;
  if (!blockIdx.x && a.call.tape) {
    const uint64_t header[2] = {*position, (uint64_t)a.x.length};
    memcpy(a.call.tape, header, sizeof header);
  }
  *position += (uint64_t)a.x.length;
}

/* The state of a sequence of half_state, from or to the host's form of it: block h has head h. */
struct miras__turn {
  float *state, *host;
  size_t floats;                     /* of a head, on the host                                    */
  int back;
};
MIRAS__GRID miras__run_turn(const __grid_constant__ miras__turn a) {
  float *state = a.state + 16 + blockIdx.x * (a.floats / 2);
  float *host = a.host + 16 + blockIdx.x * a.floats;
  if (a.back) miras__halves_bring(host, state, a.floats);
  else miras__halves_take(state, host, a.floats);
  if (blockIdx.x || threadIdx.x >= 16) return;
  if (a.back) a.host[threadIdx.x] = a.state[threadIdx.x];
  else a.state[threadIdx.x] = a.host[threadIdx.x];
}

#ifndef MIRAS_NO_TRAINING
MIRAS__GRID miras__run_backward(const __grid_constant__ miras__errand a) {
  miras__memory_call c = miras__call_of(&a);
  miras__backward_task(&c, (int)blockIdx.x, (int)blockIdx.x);
}

/* Block h: head h; the last one: what all heads share. */
MIRAS__GRID miras__run_collect(const __grid_constant__ miras__errand a) {
  miras__memory_call c = miras__call_of(&a);
  if (blockIdx.x < (unsigned)a.m.plan.d.heads)
    miras__memory_collect(&c, blockIdx.x, a.dparams);
  else
    miras__memory_collect_rates(&c, a.dparams);
}
#endif

/* ---- grids of segments ----
 *
 * A segment of a sequence is a sequence of its own: arrays [batch, segments * length, ...] are
 * arrays [batch * segments, length, ...], and sequence i = b segments + s is segment s of b. All
 * of them together are the memory a.part, whose states and tape are not the memory's; `turn` has
 * the same keys and gates, values of zeros and no initial memory to lead to. With room @50's rows,
 *   S_end = M S_start + c
 * where, column by column, M is the product of the rows' diag(alpha) - eta x x' diag(alpha) and
 * the like, which know nothing of values: run from the identity with values of zeros it is what
 * the state becomes, and from zeros with the values, c. Without errors fed back M is diagonal, and
 * run from a column of ones; it then is what the normaliser's z goes through as well. Decays that
 * lead to B leave M alone, for F = S - B goes through it, and c has what they add.
 *
 * Forward: c and M of all segments; S_(s+1) = M_s S_s + c_s, one after the other; all segments from
 * these states. c_s is written where S_(s+1) will be: slot i + 1.
 * Backward, with G_s the cotangent of the state behind segment s: all segments with G = 0 leave in
 * dstate D_s, what their own answers say of the state before them; G_(s-1) = M_s' G_s + D_s; all
 * segments from these. Gradients of tokens are those of the second run. D_s lies where G_(s-1)
 * will be: slot i, and G_s in slot i + 1.
 *
 * Positions: a sweep falls on a grid of positions, so segment s stands at position + s length, and
 * one period of the grid further on. So none stands at 0, where an engine begins with the initial
 * memory: S_0 is that here, and afterwards the cotangent of S_0 is the initial memory's. That is
 * all that position 0 does to dparams, also where decays lead to B: of a call, exact_backward adds
 * dS_end - dS_start to dB, but at position 0 dS_end alone. Of all segments together these are
 *   sum_s G_s - dS_start(s) = G_last - dS_start(0)      as dS_start(s) = G_(s-1), to rounding,
 * and with dS_start(0) added at position 0, what one call adds. */

typedef struct miras__segments_errand {
  miras_memory m, part, turn;        /* part and turn: state and scratch of their own             */
  size_t room, nearby[2], parts;     /* as in miras__errand; nearby: of part and of turn          */
  int products;
  size_t now, ahead;                 /* segments of each sequence; period of the sweeps           */
  miras_memory_input x;                    /* of segments                                        */
  const float *zeros;                /* values of turn: a token's                                 */
  float *kept;                       /* M of every segment on the tape, or NULL                   */
  const float *tape;                 /* of part                                                   */
  float *slot_at;                    /* of cotangents                                             */
  float *dparams, *dstate;           /* the caller's                                              */
} miras__segments_errand;

/* Columns of a state that a block passes on from segment to segment. */
enum { MIRAS__SEGMENT_COLS = 64 };

/* The state of head h of sequence i. */
__device__ static float *miras__slot(const miras_memory *m, size_t i, size_t h) {
  return m->state + i * m->plan.sequence_state + 16 + h * m->plan.head_state;
}

/* Where segment s of sequence b stands. */
__device__ static uint64_t miras__segment_position(const miras__segments_errand *a, size_t b,
                                                   size_t s) {
  return miras__position(a->m.state + b * a->m.plan.sequence_state) +
         (uint64_t)(a->ahead + s * (size_t)a->x.length);
}

/* Block i: head i % heads of sequence i / heads by itself: c, and in the second half of the blocks
 * M. Of the last segment only the adjoint wants something: M. */
MIRAS__GRID miras__run_segments(const __grid_constant__ miras__segments_errand a) {
  const size_t heads = (size_t)a.m.plan.d.heads, tasks = gridDim.x / 2;
  const int turning = blockIdx.x >= tasks;
  const size_t at = blockIdx.x - (turning ? tasks : 0), i = at / heads, h = at % heads;
  const miras_memory *m = turning ? &a.turn : &a.part;
  const miras__plan *p = &m->plan;
  miras__head_io io;
  miras__call run;
  miras__tell_room(a.room, a.products, a.nearby[turning], a.parts);
  if (i % a.now + 1 == a.now && !(turning && a.kept)) return;
  miras__memory_io(&a.part, &a.x, (int)i, (int)h, &io);
  io.q = NULL;
  if (turning) io.v = a.zeros, io.ldv = 0;
  miras__memory_head(m, turning ? i : i + 1, h, &run);
  run.io = &io;
  run.position = miras__segment_position(&a, i / a.now, i % a.now);
  run.scratch += at * p->scratch;
  run.K->fill(run.state, 0, p->head_state);
  if (turning)
    run.K->fill_rows(run.state, (size_t)p->d.value_dim + (size_t)p->delta, 1, p->features, 1);
  miras__head_forward(&run);
  if (turning && a.kept) run.K->copy(a.kept + at * p->weights, run.state, p->weights);
}

/* Block: columns c to c + w - 1 of head h of sequence b. */
typedef struct miras__join {
  size_t b, h, c, w;
} miras__join;
__device__ static miras__join miras__join_of(const miras__plan *p) {
  const size_t dv = (size_t)p->d.value_dim, heads = (size_t)p->d.heads;
  const size_t across = (dv + MIRAS__SEGMENT_COLS - 1) / MIRAS__SEGMENT_COLS;
  const size_t i = blockIdx.x / across;
  miras__join j;
  j.b = i / heads, j.h = i % heads;
  j.c = blockIdx.x % across * MIRAS__SEGMENT_COLS;
  j.w = dv - j.c < MIRAS__SEGMENT_COLS ? dv - j.c : (size_t)MIRAS__SEGMENT_COLS;
  return j;
}

/* Its columns of a state, of which the first block has the normaliser's: to = from, or 0. */
__device__ static void miras__join_copy(const miras__plan *p, const miras__join *j, float *to,
                                        const float *from) {
  const miras__cuda_kernels *K = miras__kernels_best();
  const size_t n = p->features, dv = (size_t)p->d.value_dim;
  const int z = p->d.normalize && !j->c;
  if (from) {
    K->copy_rows(to + j->c, dv, from + j->c, dv, n, j->w);
    if (z) K->copy(to + n * dv, from + n * dv, n);
  } else {
    K->fill_rows(to + j->c, dv, 0, n, j->w);
    if (z) K->fill(to + n * dv, 0, n);
  }
}

/* to += M from, or M' from; in float, however the others make products: states are rounded nowhere
 * else. */
__device__ static void miras__join_add(const miras__plan *p, const miras__join *j, float *to,
                                       const float *m, const float *from, int turned) {
  const miras__cuda_kernels *K = miras__kernels_best();
  const size_t n = p->features, dv = (size_t)p->d.value_dim;
  if (p->delta) {
    K->gemm(MIRAS__ADD, to + j->c, dv, turned ? miras__turned(m, n) : miras__mat(m, n),
            miras__mat(from + j->c, dv), n, j->w, n, NULL);
  } else {
    K->axpy_rows(to + j->c, dv, 1, m, 1, from + j->c, dv, n, j->w);
    if (p->d.normalize && !j->c) K->muladd(to + n * dv, m, from + n * dv, n);
  }
}

/* The states that segments begin with, and where they stand. */
MIRAS__GRID miras__run_join(const __grid_constant__ miras__segments_errand a) {
  const miras__plan *p = &a.m.plan;
  const miras__join j = miras__join_of(p);
  const size_t first = j.b * a.now;
  const uint64_t position = miras__segment_position(&a, j.b, 0);
  size_t s;
  miras__tell_room(a.room, MIRAS_CUDA_FLOAT);
  miras__join_copy(p, &j, miras__slot(&a.part, first, j.h),
                   position > a.ahead ? miras__slot(&a.m, j.b, j.h)
                                      : a.m.params + j.h * p->weights);
  for (s = 0; s + 1 < a.now; s++)
    miras__join_add(p, &j, miras__slot(&a.part, first + s + 1, j.h),
                    miras__slot(&a.turn, first + s, j.h), miras__slot(&a.part, first + s, j.h), 0);
  for (s = threadIdx.x; !j.h && !j.c && s < a.now; s += blockDim.x) {
    const uint64_t at = miras__segment_position(&a, j.b, s);
    memcpy(a.part.state + (first + s) * p->sequence_state, &at, sizeof at);
  }
}

/* Block: head h of sequence b. Its state is the last segment's, and the sequence has come further;
 * all of a head's state, so that an open block of chunks is closed as it is there. */
MIRAS__GRID miras__run_arrive(const __grid_constant__ miras__segments_errand a) {
  const size_t heads = (size_t)a.m.plan.d.heads, b = blockIdx.x / heads, h = blockIdx.x % heads;
  float *sequence = a.m.state + b * a.m.plan.sequence_state;
  miras__tell_room(a.room, a.products);
  miras__kernels_best()->copy(miras__slot(&a.m, b, h),
                              miras__slot(&a.part, b * a.now + a.now - 1, h), a.m.plan.head_state);
  if (!h && !threadIdx.x) {
    const uint64_t position = miras__position(sequence) + (uint64_t)(a.now * (size_t)a.x.length);
    memcpy(sequence, &position, sizeof position);
  }
}

#ifndef MIRAS_NO_TRAINING
/* Cotangents of states: that of head h in slot i. */
__device__ static float *miras__cotangent(const miras__segments_errand *a, size_t i, size_t h) {
  return a->slot_at + (i * (size_t)a->m.plan.d.heads + h) * a->m.plan.weights;
}

/* Those behind every segment, from what lies in dstate: zeros, if that is NULL. */
MIRAS__GRID miras__run_join_bwd(const __grid_constant__ miras__segments_errand a) {
  const miras__plan *p = &a.m.plan;
  const miras__join j = miras__join_of(p);
  const size_t heads = (size_t)p->d.heads, first = j.b * a.now;
  size_t s;
  miras__tell_room(a.room, MIRAS_CUDA_FLOAT);
  miras__join_copy(p, &j, miras__cotangent(&a, first + a.now, j.h),
                   miras__at(a.dstate, (j.b * heads + j.h) * p->weights));
  for (s = a.now; --s > 0;)
    miras__join_add(p, &j, miras__cotangent(&a, first + s, j.h),
                    a.kept + ((first + s) * heads + j.h) * a.turn.plan.weights,
                    miras__cotangent(&a, first + s + 1, j.h), 1);
}

/* Block h: head h of all sequences. What the first segments leave is the caller's, or at position 0
 * the initial memory's. */
MIRAS__GRID miras__run_leave(const __grid_constant__ miras__segments_errand a) {
  const miras__cuda_kernels *K = miras__kernels_best();
  const size_t heads = (size_t)a.m.plan.d.heads, h = blockIdx.x, all = a.m.plan.weights;
  const int begins = miras__position(a.tape) == a.ahead;
  size_t b;
  miras__tell_room(a.room, a.products);
  for (b = 0; b < (size_t)a.m.plan.d.batch; b++) {
    const float *ds = miras__cotangent(&a, b * a.now + 1, h);
    float *to = miras__to(a.dstate, (b * heads + h) * all);
    if (begins && a.dparams) K->add(a.dparams + h * all, ds, all);
    if (to && begins) K->fill(to, 0, all);
    else if (to) K->copy(to, ds, all);
  }
}
#endif

#ifndef MIRAS_NO_MODEL
/* A block of the host that was copied here whole: what points into it. */
template <class T> __host__ __device__ static void miras__move(T *&p, ptrdiff_t by) {
  p = (T *)((char *)p + by);
}
struct miras__moved {
  miras_model *m;
  ptrdiff_t by;
};
__global__ void miras__run_settle(const __grid_constant__ miras__moved a) {
  miras_model *m = a.m;
  int i;
  if (threadIdx.x) return;
  miras__move(m->program, a.by);
  miras__move(m->layers, a.by);
  miras__move(m->views, a.by);
  miras__move(m->params, a.by);
  miras__move(m->in, a.by);
  miras__move(m->out, a.by);
  m->pack = 0;
  for (i = 0; i < m->kinds; i++) {
    miras__program *p = &m->program[i];
    p->pack = 0;
    miras__move(p->mixer.gate_scale, a.by);
    miras__move(p->mixer.idle, a.by);
    miras__move(p->mixer.rope.turns, a.by);
    miras__move(p->attending.rope.turns, a.by);
  }
  for (i = 0; i < m->desc.layers; i++) {
    miras__move(m->layers[i].p, a.by);
    miras__move(m->layers[i].w, a.by);
    miras__move(m->layers[i].keep, a.by);
  }
}
#endif

#ifndef MIRAS__NO_TRAINER
/* A number of tasks, and what they are told. */
enum { MIRAS__CALL_BEGIN, MIRAS__CALL_COUNT, MIRAS__TILE_BEGIN, MIRAS__LAYER_TASK, MIRAS__TILE_END,
       MIRAS__CALL_END, MIRAS__TILE_END_BWD, MIRAS__TILE_BEGIN_BWD, MIRAS__EMBED_BWD,
       MIRAS__JOB_TASK, MIRAS__NORM_TASK, MIRAS__ADAM_BEGIN, MIRAS__ADAM_TASK, MIRAS__TEXT_BEGIN,
       MIRAS__COLUMNS, MIRAS__TEXT_END, MIRAS__TEXT_MOVED };

/* Running texts: text `index` is taken up; ... */
__device__ static void miras__text_begin(const miras__phase *ph, size_t b) {
  const miras_trainer *tr = ph->trainer;
  float *run = tr->streams + b * tr->model->run;
  if (threadIdx.x) return;
  tr->runs[b] = run;
  tr->starts[b] = miras__position(run);
}

/* ... of a layer's operations some are shared out by columns, for a text has few rows: blocks that
 * share a tile make for themselves what is a task's own, and each its columns of products. Which
 * operations, one after the other; into how many tasks of how many columns a tile is shared out, 1:
 * it is not. Of logits: those of the last `rows` of a text. */
struct miras__columns {
  int first, count;
  size_t tasks, each, rows;
};

/* Columns c to end - 1 of y = or += x W + b, of each weight of a product. */
__device__ static void miras__times_columns(const miras__visit *a, const miras__op *o, int mode,
                                            miras__sheet x, size_t c, size_t end) {
  const miras__program *p = a->layer->p;
  const miras__sheet y = miras__y_of(a, o);
  const size_t first = miras__param_of(p, o->param)->column;
  int id;
  for (id = o->param; id; id = miras__param_of(p, id)->next) {
    const miras__param *w = miras__param_of(p, id);
    const size_t at = o->what == MIRAS__OP_BRANCH ? 0 : w->column - first;
    const size_t from = c > at ? c - at : 0, to = end < at + w->cols ? end : at + w->cols;
    if (at + from < to) {
      const size_t n = to - at - from;
      miras__matmul(a->k, mode, y.p + at + from, y.ld, miras__mat(x.p, x.ld),
                    miras__mat(a->layer->w + miras__param_at(w) + from, w->cols), a->n, n, w->rows,
                    a->scratch);
      if (w->bias)
        a->k->add_rows(y.p + at + from, y.ld, miras__weight(a->layer, w->bias) + from, 0, a->n, n);
    }
  }
}

/* The same of x + u W, of the residual stream. */
__device__ static void miras__branch_columns(const miras__visit *a, const miras__op *o, size_t c,
                                             size_t end) {
  const miras__program *p = a->layer->p;
  const miras__sheet u = miras__x_of(a, o, 1);
  const size_t ld = p->ld_x;
  const float *x = miras__x_of(a, o, 0).p;
  float *y = miras__y_of(a, o).p;
  if (end > p->width) end = p->width;
  if (c >= end) return;
  if (y != x) a->k->copy_rows(y + c, ld, x + c, ld, a->n, end - c);
  if (miras__param_of(p, o->param)->rows)
    miras__times_columns(a, o, MIRAS__ADD, u, c, end);
  else a->k->add_rows(y + c, ld, u.p + c, u.ld, a->n, end - c);
}

/* Where texts bring a token each, rows of a tile are texts (miras__cuda_columns). */
__device__ static void miras__columns_task(const miras__phase *ph, const miras__columns *by,
                                           size_t index, int worker) {
  const size_t c = index % by->tasks * by->each, end = c + by->each;
  miras__drop drop;
  const miras__visit a = miras__visit_of(ph, index / by->tasks, worker, &drop);
  int i;
  for (i = by->first; i < by->first + by->count; i++) {
    const miras__op *o = &a.layer->p->op[i];
    if (by->tasks > 1 && o->what == MIRAS__OP_TIMES)
      miras__times_columns(&a, o, MIRAS__SET, miras__x_of(&a, o, 0), c, end);
    else if (by->tasks > 1 && o->what == MIRAS__OP_BRANCH) miras__branch_columns(&a, o, c, end);
    else miras__ops[o->what].run(&a, o);
  }
}

/* ... its last rows become logits, the columns of task `index`, of a tile of texts where they bring
 * a token each; ... */
enum { MIRAS__TEXT_COLS = 64 };
__device__ static void miras__text_end(const miras__phase *ph, const miras__columns *by,
                                       size_t index, int worker) {
  const miras_trainer *tr = ph->trainer;
  const miras_model *m = tr->model;
  const size_t at = index / by->tasks, c = index % by->tasks * MIRAS__TEXT_COLS;
  const size_t left = m->outs - c;
  const size_t single = ph->all.length == 1, texts = (size_t)tr->batch - at * MIRAS__TILE;
  const size_t n = !single ? by->rows : texts < MIRAS__TILE ? texts : MIRAS__TILE;
  const size_t row = single ? at * MIRAS__TILE : (at + 1) * ph->all.length - n;
  float *pack = miras__worker_scratch(tr, worker), *last = pack + m->pack;
  const miras__norming of = miras__last_norm(m, ph->out + row * m->ld_x, n);
  ph->all.k->heads_norm_fwd(last, m->ld_x, &of);
  const size_t cols = left < MIRAS__TEXT_COLS ? left : (size_t)MIRAS__TEXT_COLS;
  float *to = tr->logits + (single ? row : at * n) * m->outs + c;
  miras__matmul(ph->all.k, MIRAS__SET, to, m->outs, miras__mat(last, m->ld_x),
                miras__turned(m->params + m->head + c * m->width, m->width), n, cols, m->width,
                pack);
  if (m->offset) ph->all.k->add_rows(to, m->outs, m->params + m->offset + c, 0, n, cols);
}

/* ... and it has come further. */
__device__ static void miras__text_moved(const miras__phase *ph, size_t b) {
  const miras_trainer *tr = ph->trainer;
  const uint64_t position = tr->starts[b] + (uint64_t)ph->all.length;
  if (!threadIdx.x) memcpy(tr->runs[b], &position, sizeof position);
}

union miras__any_task { miras__phase phase; miras__jobs jobs; miras__adam adam; };
struct miras__tasks {
  int task, products, ran;           /* ran: a grid of chunks has run the heads                   */
  unsigned count, *stash;
  size_t room, nearby, parts;
  size_t records;                    /* floats of shared memory before what they are told         */
  size_t words;                      /* of such a grid's stash, for a head                        */
  miras__columns columns;
  struct { miras_trainer trainer; miras__any_task task; } told;
};

/* What tasks are told lies in shared memory, behind what they work in. */
__device__ static void *miras__tasks_told(const miras__tasks *a) {
  float *words = miras__shared + MIRAS__ROOM + a->records;
  const float *from = (const float *)&a->told;
  miras_trainer *trainer = (miras_trainer *)words;
  void *told = words + sizeof *trainer / sizeof *words;
  miras__phase *phase = (miras__phase *)told;
  miras__jobs *jobs = (miras__jobs *)told;
  miras__adam *adam = (miras__adam *)told;
  for (unsigned i = threadIdx.x; i < sizeof a->told / sizeof *from; i += blockDim.x)
    words[i] = from[i];
  miras__tell_room(a->room, a->products, a->nearby, a->parts, a->ran);
  if (!threadIdx.x) {
    if (a->task < MIRAS__JOB_TASK || a->task >= MIRAS__TEXT_BEGIN) {
      phase->trainer = trainer;
      phase->all.k = miras__kernels_best();
    } else if (a->task == MIRAS__JOB_TASK) {
      jobs->k = miras__kernels_best();
    } else {
      adam->trainer = trainer;
      adam->k = miras__kernels_best();
    }
  }
  __syncthreads();
  return told;
}

/* Blocks take tasks in turn, with a worker's scratch each. */
MIRAS__GRID miras__run_tasks(const __grid_constant__ miras__tasks a) {
  void *told = miras__tasks_told(&a);
  miras__phase *phase = (miras__phase *)told;
  unsigned i;
  for (i = blockIdx.x; i < a.count; i += gridDim.x)
    switch (a.task) {
      case MIRAS__CALL_BEGIN: miras__call_begin(told, (int)i, (int)blockIdx.x); break;
      case MIRAS__CALL_COUNT: miras__call_count(told, (int)i, (int)blockIdx.x); break;
      case MIRAS__TILE_BEGIN: miras__tile_begin(told, (int)i, (int)blockIdx.x); break;
      case MIRAS__LAYER_TASK: miras__layer_task(told, (int)i, (int)blockIdx.x); break;
      case MIRAS__TILE_END: miras__tile_end(told, (int)i, (int)blockIdx.x); break;
      case MIRAS__CALL_END: miras__call_end(told, (int)i, (int)blockIdx.x); break;
      case MIRAS__TILE_END_BWD: miras__tile_end_bwd(told, (int)i, (int)blockIdx.x); break;
      case MIRAS__TILE_BEGIN_BWD: miras__tile_begin_bwd(told, (int)i, (int)blockIdx.x); break;
      case MIRAS__EMBED_BWD: miras__embed_bwd(told, (int)i, (int)blockIdx.x); break;
      case MIRAS__JOB_TASK: miras__job_task(told, (int)i, (int)blockIdx.x); break;
      case MIRAS__NORM_TASK: miras__norm_task(told, (int)i, (int)blockIdx.x); break;
      case MIRAS__ADAM_BEGIN: miras__adam_begin(told, (int)i, (int)blockIdx.x); break;
      case MIRAS__ADAM_TASK: miras__adam_task(told, (int)i, (int)blockIdx.x); break;
      case MIRAS__TEXT_BEGIN: miras__text_begin(phase, i); break;
      case MIRAS__COLUMNS: miras__columns_task(phase, &a.columns, i, (int)blockIdx.x); break;
      case MIRAS__TEXT_END: miras__text_end(phase, &a.columns, i, (int)blockIdx.x); break;
      default: miras__text_moved(phase, i);
    }
}
#endif

/* ---- grids of chunks on matrix units ----
 *
 * Heads of a call on a memory; of a layer in all texts of a call on a model; or of segments, what
 * they make of zeros or, `turning`, of the identity. Blocks of a head, each with its columns of
 * values, lie together; one back is a head. */
typedef struct miras__chunks_job {
  miras__errand memory;
  miras__segments_errand segments;
  miras__slabs_size slabs;           /* of perceptrons                                            */
  int of_segments, turning;
#ifndef MIRAS__NO_TRAINER
  miras__tasks tasks;
  int of_layer;
#endif
} miras__chunks_job;

/* The grid of a memory that runs so, and the shared memory that it takes; NULL: it does not. Of the
 * adjoint also the grid of what rows read of B, and words of memory for each head. */
typedef struct miras__chunks_grid {
  void (*grid)(const miras__chunks_job), (*inits)(const miras__chunks_job);
  size_t bytes, inits_bytes, words;
  unsigned threads, each;            /* each: columns of values that a block has                  */
  miras__slabs_size slabs;
} miras__chunks_grid;

/* What a block is told: all but its columns; from: the state to begin with, to: where it goes; run:
 * of the adjoint, what the engine is called with. again: sums of heads have been begun. */
typedef struct miras__chunks_told {
  miras__chunks_back x;
  miras__call run;
  miras__head_io io;
  miras__head_grads d;
  const float *from;
  float *to, *also;
} miras__chunks_told;

__device__ static void miras__chunks_of(miras__chunks_told *to) {
  const miras__plan *p = to->run.p;
  to->x.g.p = p;
  to->x.g.init = p->to_init && to->run.K->any(to->run.init, p->weights) ? to->run.init : NULL;
}

__device__ __noinline__ void miras__chunks_of_memory(miras__chunks_told *to,
                                                     const miras__errand *a, size_t i, int back,
                                                     int again) {
  const miras__plan *p = &a->m.plan;
  const size_t heads = (size_t)p->d.heads, b = i / heads, h = i % heads;
  const size_t length = (size_t)a->x.length, dv = (size_t)p->d.value_dim;
  miras__chunks *g = &to->x.g;
  miras__call *const run = &to->run;
  miras__memory_head(&a->m, b, h, run);
  miras__chunks_of(to);
  miras__memory_io(&a->m, &a->x, (int)b, (int)h, &to->io);
  g->tape = miras__to(a->call.tape, 16 + i * a->call.per);
  if (!back) {
    to->io.y = a->call.y + (b * length * heads + h) * dv;
    miras__chunks_range(a, b, &g->first, &g->end);
    to->from = run->position + g->first ? run->state : run->init;
    to->to = run->state;
    return;
  }
  miras__memory_inputs(&a->m, &a->dx.key, b * length, h, &to->d);
  memcpy(&run->position, a->call.tape, sizeof run->position);
  g->end = length;
  run->dy = a->call.dy + (b * length * heads + h) * dv;
  run->lddy = heads * dv;
  run->dinit = a->call.parts + i * a->call.part;
  run->dstate = miras__to(a->call.dstate, i * p->head_dstate);
  run->dgain = run->dridge = run->dinit + p->weights;
  run->dbias = run->dgain + p->widest;
  if (p->d.token_rates) to->d.rho = run->dbias + p->widest;
  run->scratch = a->call.scratch + i * a->words;
  if (!again) run->K->fill(run->dinit, 0, a->call.part);
}

#ifndef MIRAS__NO_TRAINER
/* Back, sums of heads are cleared here, for the tasks behind this grid add to them. Forward, what
 * has no tape has no tokens behind those of a chunk, for the host sees to that. */
__device__ __noinline__ void miras__chunks_of_layer(miras__chunks_told *to, const miras__tasks *a,
                                                    size_t i, int back, int again) {
  const miras__phase *ph = (const miras__phase *)miras__tasks_told(a);
  const miras__op *o = miras__memory_of(ph->all.layer->p, miras__now_of(ph), back);
  const miras__mixer *s = &ph->all.layer->p->mixer;
  const miras__plan *p = &s->plan;
  const size_t h = i % s->heads, length = ph->all.length;
  miras__chunks *g = &to->x.g;
  miras__drop drop;
  miras__visit v = miras__visit_of(ph, i / s->heads * miras__tasks_now(ph) + h, 0, &drop);
  miras__call *const run = &to->run;
  miras__layer_call(&v, o, h, &to->io, run);
  miras__chunks_of(to);
  if (v.run) run->state = v.run + ph->all.layer->p->state[o->part] + h * p->head_state;
  g->tape = run->tape;
  g->end = back || !g->tape ? length : length / (size_t)p->tape_tokens * (size_t)p->tape_tokens;
  to->from = run->position ? run->state : run->init;
  to->to = g->end < length ? g->tape + g->end / (size_t)p->tape_tokens * p->tape_chunk
                           : run->state;
#ifndef MIRAS_NO_TRAINING
  if (!back) return;
  v.adds = again;
  (void)miras__head_sum(&v, MIRAS__W_SKIP, h, s->heads);
  miras__layer_sums(&v, h, run);
  to->d = miras__head_rows(&v, o, h, 1);
  to->d.rho = miras__head_sum(&v, MIRAS__W_RATES, h, s->heads);
  run->dy = miras__dy_of(&v, o).p + h * s->dv;
  run->lddy = miras__dy_of(&v, o).ld;
  run->scratch = (float *)(void *)(a->stash + i * a->words);
#endif
}
#endif

__device__ __noinline__ void miras__chunks_of_segment(miras__chunks_told *to,
                                                      const miras__segments_errand *a, size_t at,
                                                      int turning) {
  const miras_memory *m = turning ? &a->turn : &a->part;
  const size_t heads = (size_t)m->plan.d.heads, i = at / heads, h = at % heads;
  miras__memory_head(m, turning ? i : i + 1, h, &to->run);
  miras__chunks_of(to);
  if (i % a->now + 1 == a->now && !(turning && a->kept)) return;
  miras__memory_io(&a->part, &a->x, (int)i, (int)h, &to->io);
  to->io.q = to->io.k, to->io.ldq = to->io.ldk;      /* nobody asks for answers */
  if (turning) to->io.v = a->zeros, to->io.ldv = 0;
  to->x.g.end = (size_t)a->x.length;
  to->x.g.ones = turning;
  to->to = to->run.state;
  if (turning && a->kept) to->also = a->kept + at * m->plan.weights;
}

__device__ static void miras__chunks_tell(miras__chunks_told *to, const miras__chunks_job *a,
                                          size_t i, int back, int again) {
  memset(to, 0, sizeof *to);
  if (a->of_segments) miras__chunks_of_segment(to, &a->segments, i, a->turning);
  else
#ifndef MIRAS__NO_TRAINER
  if (a->of_layer) miras__chunks_of_layer(to, &a->tasks, i, back, again);
  else
#endif
  miras__chunks_of_memory(to, &a->memory, i, back, again);
  to->x.g.io = &to->io;
  to->x.d = &to->d;
  if (!back) return;
  to->run.io = &to->io;
  to->run.g = &to->d;
  to->run.tape = to->x.g.tape;
  to->x.dy = to->run.dy, to->x.lddy = to->run.lddy;
  to->x.position = (size_t)to->run.position;
  to->x.dinit = to->run.dinit, to->x.dstate = to->run.dstate;
  to->x.stash = (unsigned *)(void *)to->run.scratch;
}

template <class room>
MIRAS__GRID miras__run_chunks(const __grid_constant__ miras__chunks_job a) {
  const size_t each = blockDim.x / 2;
  size_t across;
  miras__chunks_told told;
  across = ((size_t)a.memory.m.plan.d.value_dim + each - 1) / each;
  miras__chunks_tell(&told, &a, blockIdx.x / across, 0, 0);
  told.x.g.column = blockIdx.x % across * each;
  if (told.x.g.first == told.x.g.end) return;
  miras__chunks_forward<room>(&told.x.g, told.from, told.to, told.also);
}

enum { MIRAS__CHUNKS_MOST = 256 };
#define MIRAS__WIDE_GRID __global__ void __launch_bounds__(MIRAS__CHUNKS_MOST)
/* Perceptrons: a block is a head. Of a layer its scratch, and its state where nothing else keeps
 * that, lie in the stash; 1 is returned if tokens follow. */
#ifndef MIRAS__NO_TRAINER
__device__ __noinline__ int miras__slabs_of_layer(const miras__chunks_job *job, size_t i,
                                                  miras__head_io *io, miras__call *run,
                                                  size_t *end) {
  const miras__phase *ph = (const miras__phase *)miras__tasks_told(&job->tasks);
  const miras__op *o = miras__memory_of(ph->all.layer->p, miras__now_of(ph), 0);
  const miras__mixer *s = &ph->all.layer->p->mixer;
  const miras__plan *p = &s->plan;
  const size_t h = i % s->heads, length = ph->all.length, chunk = (size_t)p->d.chunk;
  float *const own = (float *)(void *)job->tasks.stash + i * job->tasks.words;
  miras__drop drop;
  miras__visit v = miras__visit_of(ph, i / s->heads * miras__tasks_now(ph) + h, 0, &drop);
  miras__layer_call(&v, o, h, io, run);
  run->scratch = own + p->head_state;
  run->state = v.run ? v.run + ph->all.layer->p->state[o->part] + h * p->head_state : own;
  *end = length / chunk * chunk;
  return *end < length;
}
#endif
/* The same of block i's head of a memory, whose tokens off the chunk grid are for the engine. */
__device__ __noinline__ void miras__slabs_of_memory(const miras__errand *a, size_t i,
                                                    miras__head_io *io, miras__call *run,
                                                    size_t *first, size_t *end) {
  const miras__plan *p = &a->m.plan;
  const size_t heads = (size_t)p->d.heads, b = i / heads, h = i % heads;
  miras__chunks_range(a, b, first, end);
  if (*first == *end) return;
  miras__tell_room(0, a->products);
  miras__memory_io(&a->m, &a->x, (int)b, (int)h, io);
  io->y = a->call.y + (b * (size_t)a->x.length * heads + h) * (size_t)p->d.value_dim;
  miras__memory_head(&a->m, b, h, run);
  run->io = io;
  run->scratch += i * p->scratch;
  run->tape = miras__to(a->call.tape, 16 + i * a->call.per);
}
template <int P>
MIRAS__WIDE_GRID miras__run_slabs(const __grid_constant__ miras__chunks_job job) {
  size_t first = 0, end;
  int rest = 0;
  miras__head_io io;
  miras__call run;
#ifndef MIRAS__NO_TRAINER
  if (job.of_layer) rest = miras__slabs_of_layer(&job, blockIdx.x, &io, &run, &end);
  else
#endif
    miras__slabs_of_memory(&job.memory, blockIdx.x, &io, &run, &first, &end);
  if (first < end) miras__slabs_forward<P>(&run, &job.slabs, first, end, rest);
}

#ifndef MIRAS_NO_TRAINING
template <class room>
MIRAS__WIDE_GRID miras__run_chunks_back(const __grid_constant__ miras__chunks_job a) {
  miras__chunks_told told;
  miras__chunks_tell(&told, &a, blockIdx.x, 1, 0);
  miras__chunks_backward<room>(&told.x);
}
template <class room>
MIRAS__WIDE_GRID miras__run_chunks_inits(const __grid_constant__ miras__chunks_job a) {
  miras__chunks_told told;
  miras__chunks_tell(&told, &a, blockIdx.x, 1, 1);
  miras__chunks_inits<room>(&told.x);
}
template <int P>
MIRAS__WIDE_GRID miras__run_slabs_back(const __grid_constant__ miras__chunks_job a) {
  miras__chunks_told told;
  miras__tell_room(0, a.memory.products);
  miras__chunks_tell(&told, &a, blockIdx.x, 1, 0);
  miras__back_all<P>(&told.run, &a.slabs);
}
#endif

} }

#ifdef __GNUC__
  #pragma GCC diagnostic pop
#endif
#ifdef __CUDACC__
  #pragma nv_diagnostic pop
#endif

/* Bytes of shared memory that a block of the device may have; 0: there is no device. */
static size_t miras__cuda_shared(void) {
  int device, most;
  return cudaGetDevice(&device) == cudaSuccess &&
                 cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) ==
                   cudaSuccess
             ? (size_t)most
             : 0;
}

/* Give threads their stack, of which something else may have taken some since. */
static int miras__cuda_stack(void) {
  size_t stack = 0;
  return MIRAS_CUDA_STACK == 0 ||
         (cudaDeviceGetLimit(&stack, cudaLimitStackSize) == cudaSuccess &&
          (stack >= MIRAS_CUDA_STACK ||
           cudaDeviceSetLimit(cudaLimitStackSize, MIRAS_CUDA_STACK) == cudaSuccess));
}

/* A grid may have all the shared memory that there is: the same for everyone, whoever asks at the
 * same time. Its code is on the device behind this. */
template <class A> static int miras__cuda_allow(void (*kernel)(const A)) {
  const size_t most = miras__cuda_shared();
  return !kernel ||
         (most && cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                       (int)most) == cudaSuccess);
}

/* All grids begin here. Blocks have more than 48 KB of shared memory only on a device that was told
 * so, which the one that a call comes for may not have been. What the launch itself says counts,
 * and no error that was there before. */
template <class A>
static int miras__cuda_launch(void (*kernel)(const A), size_t threads, size_t blocks, size_t bytes,
                              cudaStream_t stream, const A &argument) {
  void *arguments[1] = {(void *)&argument};
  return blocks <= INT_MAX && miras__cuda_stack() &&
         (bytes <= 48 << 10 || miras__cuda_allow(kernel)) &&
         cudaLaunchKernel(kernel, dim3((unsigned)blocks), dim3((unsigned)threads), arguments, bytes,
                          stream) == cudaSuccess;
}
#define MIRAS__LAUNCH_OF(threads, kernel, blocks, bytes, stream, argument) \
  miras__cuda_launch(kernel, threads, blocks, bytes, stream, argument)
#define MIRAS__LAUNCH(kernel, blocks, bytes, stream, argument) \
  MIRAS__LAUNCH_OF(MIRAS_CUDA_THREADS, kernel, blocks, bytes, stream, argument)

/* What miras_cuda_memory holds: the record as the host knows it, which is as the device does (with
 * half_state a head's state is half as many floats in it), and how many floats of shared memory
 * there are for a head's state. */
typedef struct miras__held {
  miras_memory m;
  size_t nearby, parts[2];           /* parts of rows: in a pass and in its adjoint               */
  size_t shared;                     /* bytes of it that a block may have                         */
  float *stage;                      /* half_state: a sequence's state in the host's form         */
  miras_cuda_options options;
} miras__held;

static const miras__held *miras__cuda_held(const miras_cuda_memory *g) {
  return (const miras__held *)(const void *)g->held;
}

static const miras_memory *miras__cuda_of(const miras_cuda_memory *g) {
  return &miras__cuda_held(g)->m;
}

static miras_cuda::miras__errand miras__cuda_errand(const miras_cuda_memory *g,
                                                    const miras_memory_input *x) {
  miras_cuda::miras__errand job;
  memset((void *)&job, 0, sizeof job);
  memcpy((void *)&job.m, miras__cuda_of(g), sizeof job.m);
  job.products = miras__cuda_held(g)->options.products;
  if (x) job.x = *x;
  return job;
}

/* A grid over a memory; nearby: floats of shared memory for a state, behind what products take. */
static int miras__cuda_run(void (*kernel)(const miras_cuda::miras__errand), size_t blocks,
                           size_t nearby, cudaStream_t stream, miras_cuda::miras__errand *job) {
  job->room = MIRAS__PRODUCT_ROOM(MIRAS_CUDA_THREADS);
  job->nearby = nearby;
  return MIRAS__LAUNCH(kernel, blocks,
                       (miras_cuda::MIRAS__ROOM + job->room + nearby + job->parts) * sizeof(float),
                       stream, *job);
}

/* How much of so many bytes is there for a state, in floats, beside `others` bytes. */
static size_t miras__cuda_left(size_t bytes, size_t others) {
  const size_t room = miras_cuda::MIRAS__ROOM + MIRAS__PRODUCT_ROOM(MIRAS_CUDA_THREADS);
  others += room * sizeof(float);
  return bytes > others ? (bytes - others) / sizeof(float) : 0;
}

/* Floats of shared memory for the state of a head in a call of `length` tokens, where there are
 * `most`: none if it does not fit, or if it stays as it is but for a row of each token: in
 * attention, and in a chunk that is not finished. */
static size_t miras__cuda_near(const miras__plan *p, size_t length, size_t most) {
  return p->engine != MIRAS__RUN_ATTENTION && length >= (size_t)p->d.chunk && p->head_state <= most
             ? p->head_state
             : 0;
}

/* The same for a memory. With half_state it comes there whatever the call. */
static size_t miras__cuda_memory_near(const miras__held *g, size_t length) {
  const miras__plan *p = &g->m.plan;
  return g->options.half_state ? 2 * p->head_state : miras__cuda_near(p, length, g->nearby);
}

/* Floats of shared memory that parts of rows with a decay per channel take in a pass or, back, its
 * adjoint, up to `most`, with panels of up to 64 rows; 0: none, or too much: row by row. */
static size_t miras__cuda_parts(const miras__plan *p, const miras_cuda_options *o, int back,
                                size_t most) {
  const size_t n = p->channel ? p->rates : p->per_feature ? p->features : 0;
  const size_t dv = p->value_keep ? (size_t)p->d.value_dim : 0, wide = n > dv ? n : dv;
  const size_t part = miras_cuda::MIRAS__PART, least = miras_cuda::MIRAS__PART_END;
  size_t rows = p->chunk_pairs < 64 ? p->chunk_pairs : 64;
  size_t need = miras__pad((least + 1) * wide + least * 48);
  if (!wide || o->products == MIRAS_CUDA_FLOAT || p->chunk_pairs < miras_cuda::MIRAS__PART_LEAST)
    return 0;
  for (rows = (rows + part - 1) / part * part; back; rows -= part) {
    need = miras__pad((least + 2 * rows) * wide);
    if (!rows || need <= most) break;
  }
  return need > most || (back && !rows) ? 0 : need;
}

/* Every head works in scratch of its own, as every worker does on the host. 0: that is too much. */
static size_t miras__cuda_layout(miras__held *g, const miras_memory *m, const miras_cuda_options *o,
                                 void *device, char *why, size_t n) {
  miras_parallel heads = {NULL, NULL, 1};
  miras__arena a = miras__arena_on(device);
  miras__plan *p = &g->m.plan;
  memset(g, 0, sizeof *g);
  heads.workers = m->plan.d.batch * m->plan.d.heads;
  g->m = *m;
  g->m.zeros = 0;                    /* the caller may write to its parameters at any time        */
  if (o) g->options = *o;
  if (g->options.half_state) {
    p->head_state /= 2;
    p->sequence_state = 16 + (size_t)p->d.heads * p->head_state;
  }
  p->d.parallel = &heads;
  miras__memory_arrays(&g->m, &a);
  if (g->options.half_state) g->stage = miras__floats(&a, 1, m->plan.sequence_state);
  p->d.parallel = NULL;
  p->d.custom = NULL;
  return miras__arena_bytes(&a, "memory", why, n);
}

/* Does a memory run in chunks on matrix units? */
template <int N, int P, int CH>
static miras_cuda::miras__chunks_grid miras__cuda_chunks_of(void) {
  typedef miras_cuda::miras__chunks_room<N, P, CH, miras_cuda::MIRAS__CHUNKS_STEP, 0> room;
  miras_cuda::miras__chunks_grid c;
  memset(&c, 0, sizeof c);
  c.grid = miras_cuda::miras__run_chunks<room>;
  c.threads = MIRAS_CUDA_THREADS, c.each = MIRAS_CUDA_THREADS / 2;
  c.bytes = miras_cuda::MIRAS__ROOM * sizeof(float) + room::BYTES;
  return c;
}

/* Do perceptrons? Those of two layers, with one number for each gate of a token or one per channel
 * of up to 128, whose weights are what the recursion says or a link makes of that, a step along
 * which is bounded by a number and e.r (cross entropy has none), in chunks of 8 to 128. A block has
 * a head, with its weights in shared memory if that leaves room for slabs of 64 hidden columns;
 * else slabs are as wide as fits, 32 of them or more. */
static miras_cuda::miras__chunks_grid
miras__cuda_slabs_for(const miras__plan *p, int parts, size_t most) {
  const miras_memory_desc *d = &p->d;
  const unsigned all = ((unsigned)p->in[1] + 15) / 16, least[2] = {32, 64};
  const miras__retention_record *retain = &miras__retentions[p->retain];
  miras_cuda::miras__slabs_room room;
  miras_cuda::miras__chunks_grid c;
  miras_cuda::miras__slabs_size *s = &c.slabs;
  int nearby;
  memset((void *)&c, 0, sizeof c);
  if (p->layers != 2 || p->from[1] != 1 || d->inner_steps > 1 ||
      p->past || d->reset_every || d->chunk < 8 || d->chunk > 128 ||
      (p->channel && p->rates > 128) ||
      (retain->close && !retain->stores_link) || retain->from_dual ||
      (d->step_bound && (retain->metric != MIRAS__J_NUMBER || p->groups)))
    return c;
  s->parts = (unsigned)parts, s->chunk = (unsigned)d->chunk, s->momentum = p->at.s > 0;
  s->channel = p->channel != 0, s->linked = p->stores_link != 0;
  s->in = (unsigned)p->in[0], s->mid = (unsigned)p->in[1], s->mid_out = (unsigned)p->out[0];
  s->out = (unsigned)p->out[1];
  for (nearby = 1; !c.grid && nearby >= 0; nearby--)
    for (unsigned slabs = 1; !c.grid && slabs <= all; slabs++) {
      s->nearby = (unsigned)nearby, s->wide = (all + slabs - 1) / slabs * 16;
      if (slabs > 1 && s->wide < least[nearby]) break;
      c.bytes = miras_cuda::MIRAS__ROOM * sizeof(float) +
                miras_cuda::miras__slabs_lay(&room, s, NULL);
      if (c.bytes > most) continue;
      c.grid = parts > 1 ? miras_cuda::miras__run_slabs<2> : miras_cuda::miras__run_slabs<1>;
    }
  c.threads = miras_cuda::MIRAS__CHUNKS_MOST, c.each = s->out;
  c.words = p->head_state + p->scratch;
  return c;
}

static miras_cuda::miras__chunks_grid
miras__cuda_chunks_for(const miras__plan *p, const miras_cuda_options *o, size_t most) {
  const miras_memory_desc *d = &p->d;
  const int parts = o->products == MIRAS_CUDA_BF16X3 ? 2 : 1;
  miras_cuda::miras__chunks_grid c;
  memset((void *)&c, 0, sizeof c);
  if (o->products != MIRAS_CUDA_FLOAT && !o->half_state && p->engine == MIRAS__RUN_FROZEN)
    return miras__cuda_slabs_for(p, parts, most);
  if (o->products == MIRAS_CUDA_FLOAT || o->half_state || p->engine != MIRAS__RUN_EXACT ||
      p->streams > 1 || d->inner_steps > 1 || d->normalize || p->value_keep || d->diagonal ||
      p->rates > 1 || p->map % 16 || d->reset_every || p->features > 128)
    return c;
#define MIRAS__CHUNKS(P, CH) \
  (p->features > 64 ? miras__cuda_chunks_of<8, P, CH>() : miras__cuda_chunks_of<4, P, CH>())
  if (p->per_feature) c = parts > 1 ? MIRAS__CHUNKS(2, 1) : MIRAS__CHUNKS(1, 1);
  else c = parts > 1 ? MIRAS__CHUNKS(2, 0) : MIRAS__CHUNKS(1, 0);
#undef MIRAS__CHUNKS
  if (c.bytes > most) c.grid = NULL;
  return c;
}

#ifndef MIRAS_NO_TRAINING
/* And its adjoint? A block has all values then, and a stretch of the tape 128 tokens at most. */
template <int N, int P, int CH>
static miras_cuda::miras__chunks_grid miras__cuda_chunks_back_of(const miras__plan *p) {
  enum { ROWS = miras_cuda::MIRAS__CHUNKS_STEP / P / (1 + CH) };
  typedef miras_cuda::miras__chunks_room<N, P, CH, ROWS, 1> room;
  typedef miras_cuda::miras__chunks_room<N, P, 0, miras_cuda::MIRAS__CHUNKS_STEP / P, 0> plain;
  const size_t per = (size_t)p->tape_tokens, all = ROWS % per ? per : (size_t)ROWS;
  const unsigned warps = N > 4 || p->d.value_dim > 64 ? 8 : 4;
  miras_cuda::miras__chunks_grid c;
  memset(&c, 0, sizeof c);
  c.grid = miras_cuda::miras__run_chunks_back<room>;
  c.inits = miras_cuda::miras__run_chunks_inits<plain>;
  c.threads = 32 * warps;
  c.bytes = miras_cuda::MIRAS__ROOM * sizeof(float) +
            miras_cuda::miras__chunks_more<room>::bytes(warps);
  c.inits_bytes = miras_cuda::MIRAS__ROOM * sizeof(float) + plain::BYTES;
  c.words = miras_cuda::miras__chunks_more<room>::words(warps, (all + 15) / 16);
  if (p->tape_tokens > 128 || p->d.value_dim > 128) c.grid = NULL;
  return c;
}

/* Of perceptrons what has a pass of its own. A block has bA in shared memory and
 * tiles of the weights where that leaves room for slabs of 64 hidden columns; or bA alone, which is
 * stored, too, with slabs of 32 or more; or the tiles, with slabs of 64; or slabs of 16 or more
 * alone. bA of a link lies where the engine has it, so the first two are not tried. */
static miras_cuda::miras__chunks_grid
miras__cuda_slabs_back_for(const miras__plan *p, int parts, size_t most) {
  static const unsigned char nears[4] = {3, 1, 2, 0}, least[4] = {0, 32, 64, 64};
  miras_cuda::miras__chunks_grid c = miras__cuda_slabs_for(p, parts, most);
  miras_cuda::miras__slabs_size *s = &c.slabs;
  miras_cuda::miras__back_room room;
  const int can = c.grid != NULL;
  c.grid = NULL;
  for (int i = s->linked ? 2 : 0; can && !c.grid && i < 4; i++)
    for (unsigned all = (s->mid + 15) / 16, slabs = 1; !c.grid && slabs <= all; slabs++) {
      s->nearby = nears[i], s->wide = (all + slabs - 1) / slabs * 16;
      if (slabs > 1 && s->wide < least[s->nearby]) break;
      c.bytes = miras_cuda::MIRAS__ROOM * sizeof(float) +
                miras_cuda::miras__back_lay(&room, s, NULL);
      if (c.bytes > most) continue;
      c.grid = parts > 1 ? miras_cuda::miras__run_slabs_back<2>
                         : miras_cuda::miras__run_slabs_back<1>;
    }
  c.words = p->scratch_backward;
  return c;
}

static miras_cuda::miras__chunks_grid
miras__cuda_chunks_back_for(const miras__plan *p, const miras_cuda_options *o, size_t most) {
  const int parts = o->products == MIRAS_CUDA_BF16X3 ? 2 : 1;
  miras_cuda::miras__chunks_grid c = miras__cuda_chunks_for(p, o, most);
  if (c.grid && p->engine == MIRAS__RUN_FROZEN) return miras__cuda_slabs_back_for(p, parts, most);
  if (!c.grid) return c;
#define MIRAS__CHUNKS(P, CH) (p->features > 64 ? miras__cuda_chunks_back_of<8, P, CH>(p) \
                                               : miras__cuda_chunks_back_of<4, P, CH>(p))
  if (p->per_feature) c = parts > 1 ? MIRAS__CHUNKS(2, 1) : MIRAS__CHUNKS(1, 1);
  else c = parts > 1 ? MIRAS__CHUNKS(2, 0) : MIRAS__CHUNKS(1, 0);
#undef MIRAS__CHUNKS
  if (c.bytes > most) c.grid = NULL;
  return c;
}

/* Floats of memory that the adjoint of a head takes on a tape. */
static size_t miras__cuda_back_floats(const miras__held *g) {
  const miras_cuda::miras__chunks_grid c =
    miras__cuda_chunks_back_for(&g->m.plan, &g->options, g->shared);
  return c.grid && c.words > g->m.plan.scratch_backward ? c.words : g->m.plan.scratch_backward;
}
#endif

/* Is there a device half of such a memory? */
static int miras__cuda_can(const miras__plan *p, char *why, size_t n) {
  if (p->d.bias != MIRAS_BIAS_CUSTOM && p->d.retention != MIRAS_RETENTION_CUSTOM) return 1;
  miras__say(why, n, "%s is custom, which calls a function of the host's; a device has the others",
             p->d.bias == MIRAS_BIAS_CUSTOM ? "bias" : "retention");
  return 0;
}

/* The compute capability that this code was compiled for, times ten, which may be less than the
 * device's: nvcc's default is, and then the driver translates it. 0: there is no device, or none
 * that it runs on. */
static int miras__cuda_code(void) {
  struct cudaFuncAttributes a;
  return cudaFuncGetAttributes(&a, (const void *)miras_cuda::miras__run_moved) == cudaSuccess
             ? a.ptxVersion
             : 0;
}

/* And such options? */
static int miras__cuda_options_ok(const miras_cuda_options *o, char *why, size_t n) {
  const int each = MIRAS_CUDA_THREADS;
  int code;
  if (o && (o->half_state < 0 || o->half_state > 1))
    return miras__say(why, n, "half_state is %d; it must be 0 or 1", o->half_state), 0;
  if (!o || o->products == MIRAS_CUDA_FLOAT) return 1;
  if ((int)o->products < 0 || o->products > MIRAS_CUDA_BF16)
    return miras__say(why, n, "products is %d; it must be 0 to %d", (int)o->products,
                      MIRAS_CUDA_BF16), 0;
  if (each != 128 && each != 256)
    return miras__say(why, n, "products is %d, which takes blocks of 128 or 256 threads; "
                              "MIRAS_CUDA_THREADS is %d", (int)o->products, each), 0;
  code = miras__cuda_code();
  if (!code) return miras__say(why, n, "there is no device that this code was compiled for"), 0;
  if (code < 80)
    return miras__say(why, n, "products is %d, which takes code for compute capability 8.0 or "
                              "later (nvcc -arch=sm_80); this was compiled for %d.%d",
                      (int)o->products, code / 10, code % 10), 0;
  return 1;
}

/* And states of such a memory? */
static int miras__cuda_state_ok(const miras__plan *p, const miras_cuda_options *o, char *why,
                                size_t n) {
  const size_t there = miras__cuda_left(miras__cuda_shared(), 0) * sizeof(float);
  if (!o || !o->half_state) return 1;
  if (p->d.chunk != 1)
    return miras__say(why, n, "half_state is 1, which takes chunk 1; chunk is %d", p->d.chunk), 0;
  if (!there) return miras__say(why, n, "there is no device"), 0;
  if (p->head_state * sizeof(float) <= there) return 1;
  return miras__say(why, n, "half_state is 1, which takes %zu bytes of shared memory for a head's "
                            "state; there are %zu", p->head_state * sizeof(float), there), 0;
}

static size_t miras__alone_size(const miras_memory *m, const miras_cuda_options *o, char *why,
                              size_t why_size) {
  miras__held to;
  if (why && why_size) why[0] = 0;
  if (!m) return miras__say(why, why_size, "the memory is NULL"), 0;
  if (!miras__cuda_can(&m->plan, why, why_size) || !miras__cuda_options_ok(o, why, why_size) ||
      !miras__cuda_state_ok(&m->plan, o, why, why_size))
    return 0;
  return miras__cuda_layout(&to, m, o, NULL, why, why_size);
}

static int miras__cuda_move(void *to, const void *from, size_t bytes, cudaMemcpyKind way,
                            cudaStream_t stream) {
  return cudaMemcpyAsync(to, from, bytes, way, stream) == cudaSuccess;
}

/* The states of all sequences to the device, or back to the host's memory. */
static int miras__cuda_states(const miras__held *g, float *host, int back, cudaStream_t stream) {
  const size_t batch = (size_t)g->m.plan.d.batch, heads = (size_t)g->m.plan.d.heads;
  miras_cuda::miras__turn turn;
  size_t each, b;
  int ok = 1;
  if (!g->options.half_state)
    return back ? miras__cuda_move(host, g->m.state, g->m.state_bytes, cudaMemcpyDeviceToHost,
                                   stream)
                : miras__cuda_move(g->m.state, host, g->m.state_bytes, cudaMemcpyHostToDevice,
                                   stream);
  turn.host = g->stage;
  turn.floats = 2 * g->m.plan.head_state;
  turn.back = back;
  each = 16 + heads * turn.floats;
  for (b = 0; ok && b < batch; b++) {          /* one behind the other in the stream */
    turn.state = g->m.state + b * g->m.plan.sequence_state;
    ok = back || miras__cuda_move(g->stage, host + b * each, each * sizeof(float),
                                  cudaMemcpyHostToDevice, stream);
    ok = ok && MIRAS__LAUNCH(miras_cuda::miras__run_turn, heads, 0, stream, turn);
    ok = ok && (!back || miras__cuda_move(host + b * each, g->stage, each * sizeof(float),
                                          cudaMemcpyDeviceToHost, stream));
  }
  return ok;
}

/* Shared memory is for parts of rows first, where there are such, and then for a state. */
static void miras__cuda_share(miras__held *g, size_t floats) {
  int back;
  for (back = 0; back < 2; back++)
    g->parts[back] = miras__cuda_parts(&g->m.plan, &g->options, back, floats);
  g->nearby = floats - g->parts[0];
}

/* The grid for one token, where the memory and the call have one. */
typedef void (*miras__cuda_step)(const miras_cuda::miras__errand);
static miras__cuda_step miras__cuda_step_for(const miras__plan *p, int half) {
  using miras_cuda::miras__run_step;
  if (!p->fused || p->map % 16 || p->d.reset_every || p->features > 128 ||
      (half && p->d.value_dim % 2))
    return NULL;
  if (half) return p->features > 64 ? miras__run_step<128, 1> : miras__run_step<64, 1>;
  return p->features > 64 ? miras__run_step<128, 0> : miras__run_step<64, 0>;
}

/* All grids that calls of g may begin: loaded before any capture. */
static int miras__cuda_grids(const miras__held *g) {
  const miras__plan *p = &g->m.plan;
  const miras_cuda::miras__chunks_grid c = miras__cuda_chunks_for(p, &g->options, g->shared);
  int ok = miras__cuda_allow(miras_cuda::miras__run_forward) &&
           miras__cuda_allow(miras_cuda::miras__run_read) &&
           miras__cuda_allow(miras_cuda::miras__run_moved) &&
           miras__cuda_allow(miras__cuda_step_for(p, g->options.half_state));
  if (ok && p->to_init) ok = miras__cuda_allow(miras_cuda::miras__run_asks);
  if (ok && c.grid)
    ok = miras__cuda_allow(c.grid) && miras__cuda_allow(miras_cuda::miras__run_before) &&
         miras__cuda_allow(miras_cuda::miras__run_behind);
#ifndef MIRAS_NO_TRAINING
  if (ok && !g->options.half_state) {
    const miras_cuda::miras__chunks_grid b = miras__cuda_chunks_back_for(p, &g->options, g->shared);
    ok = miras__cuda_allow(miras_cuda::miras__run_backward) &&
         miras__cuda_allow(miras_cuda::miras__run_collect) &&
         (!b.grid || (miras__cuda_allow(b.grid) && miras__cuda_allow(b.inits)));
  }
#endif
  return ok;
}

static miras_result miras__alone_init(miras_cuda_memory *g, const miras_memory *m,
                                    const miras_cuda_options *o, void *device, size_t bytes,
                                    cudaStream_t stream) {
  const size_t most = miras__cuda_shared();
  miras__held held;
  size_t need;
  if (!g || !m || !device) return MIRAS_ERR_ARGUMENT;
  if (!miras__alone_size(m, o, NULL, 0)) return MIRAS_ERR_DESC;
  need = miras__cuda_layout(&held, m, o, device, NULL, 0);
  if (bytes < need) return MIRAS_ERR_SIZE;
  miras__cuda_share(&held, miras__cuda_left(most, 0));
  held.shared = most;
  memset(g, 0, sizeof *g);
  memcpy(g->held, &held, sizeof held);
  return miras__cuda_stack() && miras__cuda_grids(&held) &&
                 miras__cuda_move(held.m.params, m->params, m->plan.params * sizeof(float),
                          cudaMemcpyHostToDevice, stream) &&
                 miras__cuda_move(held.m.keep, m->keep, (size_t)m->plan.d.heads * sizeof(float),
                                  cudaMemcpyHostToDevice, stream) &&
                 miras__cuda_states(&held, m->state, 0, stream)
             ? MIRAS_OK
             : MIRAS_ERR_DEVICE;
}

miras_result miras_cuda_memory_copy(miras_memory *m, const miras_cuda_memory *g,
                                    cudaStream_t stream) {
  const miras_memory *from = g ? miras__cuda_of(g) : NULL;
  const miras_memory_desc *a, *b;
  int half;
  if (!g || !m) return MIRAS_ERR_ARGUMENT;
  half = miras__cuda_held(g)->options.half_state;
  a = &m->plan.d, b = &from->plan.d;
  if (m->plan.head_state != from->plan.head_state * (half ? 2 : 1) ||
      m->plan.params != from->plan.params ||
      a->batch != b->batch || a->heads != b->heads || a->key_dim != b->key_dim ||
      a->value_dim != b->value_dim || a->chunk != b->chunk || a->bias != b->bias ||
      a->architecture != b->architecture || a->retention != b->retention ||
      a->algorithm != b->algorithm)
    return MIRAS_ERR_MISMATCH;
  m->zeros = 0;
  m->sound = 0;
  return miras__cuda_move(m->params, from->params, m->plan.params * sizeof(float),
                          cudaMemcpyDeviceToHost, stream) &&
                 miras__cuda_states(miras__cuda_held(g), m->state, 1, stream)
             ? MIRAS_OK
             : MIRAS_ERR_DEVICE;
}

float *miras_cuda_memory_params(const miras_cuda_memory *g, size_t *count) {
  if (count) *count = g ? miras__cuda_of(g)->plan.params : 0;
  return g ? miras__cuda_of(g)->params : NULL;
}

void *miras_cuda_memory_state(const miras_cuda_memory *g, size_t *bytes) {
  if (bytes) *bytes = g ? miras__cuda_of(g)->state_bytes : 0;
  return g ? miras__cuda_of(g)->state : NULL;
}

miras_result miras_cuda_memory_reset(const miras_cuda_memory *g, cudaStream_t stream) {
  const miras_memory *m = g ? miras__cuda_of(g) : NULL;
  if (!g) return MIRAS_ERR_ARGUMENT;
  return cudaMemsetAsync(m->state, 0, m->state_bytes, stream) == cudaSuccess ? MIRAS_OK
                                                                             : MIRAS_ERR_DEVICE;
}

/* A pass in chunks on matrix units, and by the engine what lies off their grid, where there may be
 * such tokens. */
static int miras__cuda_run_chunks(const miras_cuda::miras__chunks_grid *c, size_t nearby,
                                  cudaStream_t stream, miras_cuda::miras__errand *job) {
  const size_t heads = (size_t)job->m.plan.d.batch * (size_t)job->m.plan.d.heads;
  const size_t across = ((size_t)job->m.plan.d.value_dim + c->each - 1) / c->each;
  const int off = job->m.plan.d.chunk > 1;
  const int rest = job->call.tape ? job->x.length % job->m.plan.tape_tokens != 0 : off;
  miras_cuda::miras__chunks_job all;
  memset((void *)&all, 0, sizeof all);
  memcpy((void *)&all.memory, job, sizeof *job);
  all.slabs = c->slabs;
  return (!off || job->call.tape ||
          miras__cuda_run(miras_cuda::miras__run_before, heads, nearby, stream, job)) &&
         MIRAS__LAUNCH_OF(c->threads, c->grid, heads * across, c->bytes, stream, all) &&
         (!rest || miras__cuda_run(miras_cuda::miras__run_behind, heads, nearby, stream, job));
}

static int miras__cuda_run_step(miras__cuda_step step, cudaStream_t stream,
                                const miras_cuda::miras__errand *job) {
  const miras_cuda::miras__plan *p = &job->m.plan;
  const size_t heads = (size_t)p->d.heads, threads = p->d.value_dim > 64 ? 128 : 64;
  const size_t across = ((size_t)p->d.value_dim + threads - 1) / threads;
  const size_t bytes = (miras_cuda::MIRAS__ROOM + 3 * 128) * sizeof(float);
  return (!p->to_init || MIRAS__LAUNCH(miras_cuda::miras__run_asks, heads, bytes, stream, *job)) &&
         MIRAS__LAUNCH_OF((unsigned)threads, step, (size_t)p->d.batch * heads * across, bytes,
                          stream, *job);
}

#ifndef MIRAS_NO_TRAINING
static size_t miras__alone_tape_size(const miras_cuda_memory *g, int length) {
  miras_parallel heads = {NULL, NULL, 1};
  miras__plan plan;
  if (!g || length < 0 || miras__cuda_held(g)->options.half_state) return 0;
  plan = miras__cuda_of(g)->plan;
  heads.workers = plan.d.batch * plan.d.heads;
  plan.d.parallel = &heads;
  plan.scratch_backward = miras__cuda_back_floats(miras__cuda_held(g));
  return miras__tape(&plan, length);
}
#endif

static miras_result miras__alone_forward(const miras_cuda_memory *g, const miras_memory_input *x,
                                       float *y, float *tape, cudaStream_t stream) {
  const miras_memory *m = g ? miras__cuda_of(g) : NULL;
  miras_cuda::miras__errand job;
  miras_cuda::miras__chunks_grid chunks;
  miras__cuda_step step;
  size_t batch, nearby;
  int ok;
  if (!g || !miras__tokens_ok(m, x) || (x->length && !y) || (!MIRAS__TRAINS && tape) ||
      (tape && miras__cuda_held(g)->options.half_state))
    return MIRAS_ERR_ARGUMENT;
#ifndef MIRAS_NO_TRAINING
  if (tape && !miras__alone_tape_size(g, x->length)) return MIRAS_ERR_SIZE;
#endif
  batch = (size_t)m->plan.d.batch;
  job = miras__cuda_errand(g, x);
  job.call.y = y;
  job.call.tape = tape;
  job.call.per = tape ? miras__plan_tape(&m->plan, (size_t)x->length) : 0;
  nearby = miras__cuda_memory_near(miras__cuda_held(g), (size_t)x->length);
  job.parts = miras__cuda_held(g)->parts[0];
  chunks = miras__cuda_chunks_for(&m->plan, &miras__cuda_held(g)->options,
                                  miras__cuda_held(g)->shared);
  step = x->length == 1 && !tape
           ? miras__cuda_step_for(&m->plan, miras__cuda_held(g)->options.half_state) : NULL;
  if (!x->length) ok = 1;
  else if (step) ok = miras__cuda_run_step(step, stream, &job);
  else if (chunks.grid && x->length >= miras_cuda::MIRAS__PART)
    ok = miras__cuda_run_chunks(&chunks, nearby, stream, &job);
  else ok = miras__cuda_run(miras_cuda::miras__run_forward, batch * (size_t)m->plan.d.heads, nearby,
                            stream, &job);
  return ok && miras__cuda_run(miras_cuda::miras__run_moved, batch, 0, stream, &job)
             ? MIRAS_OK
             : MIRAS_ERR_DEVICE;
}

miras_result miras_cuda_memory_read(const miras_cuda_memory *g, const float *query, float *out,
                             cudaStream_t stream) {
  const miras_memory *m = g ? miras__cuda_of(g) : NULL;
  miras_cuda::miras__errand job;
  if (!g || !query || !out) return MIRAS_ERR_ARGUMENT;
  job = miras__cuda_errand(g, NULL);
  job.call.dy = query;
  job.call.y = out;
  return miras__cuda_run(miras_cuda::miras__run_read,
                         (size_t)m->plan.d.batch * (size_t)m->plan.d.heads,
                         miras__cuda_held(g)->options.half_state ? 2 * m->plan.head_state : 0,
                         stream, &job)
             ? MIRAS_OK
             : MIRAS_ERR_DEVICE;
}

#ifndef MIRAS_NO_TRAINING
/* What rows read of B wants dV, or nothing wants that. */
static int miras__cuda_back_can(const miras_cuda::miras__errand *job) {
  return job->m.plan.engine == MIRAS__RUN_FROZEN || !job->m.plan.to_init || !job->m.plan.delta ||
         !job->dparams || job->dx.value;
}

static int miras__cuda_run_chunks_back(const miras_cuda::miras__chunks_grid *c, size_t tasks,
                                       cudaStream_t stream, miras_cuda::miras__errand *job) {
  miras_cuda::miras__chunks_job all;
  job->words = c->words;
  memset((void *)&all, 0, sizeof all);
  memcpy((void *)&all.memory, job, sizeof *job);
  all.slabs = c->slabs;
  return MIRAS__LAUNCH_OF(c->threads, c->grid, tasks, c->bytes, stream, all) &&
         (!c->inits || !job->m.plan.to_init || !job->dparams ||
          MIRAS__LAUNCH_OF(c->threads, c->inits, tasks, c->inits_bytes, stream, all));
}

static miras_result miras__alone_backward(const miras_cuda_memory *g, const miras_memory_input *x,
                                        float *tape, const float *dy,
                                        const miras_memory_input_grad *dx, float *dparams,
                                        float *dstate, cudaStream_t stream) {
  const miras_memory *m = g ? miras__cuda_of(g) : NULL;
  miras_cuda::miras__errand job;
  miras_cuda::miras__chunks_grid chunks;
  size_t tasks;
  int ok;
  if (!g || !tape || !dx || !miras__tokens_ok(m, x) || (x->length && !dy) ||
      miras__cuda_held(g)->options.half_state)
    return MIRAS_ERR_ARGUMENT;
  tasks = (size_t)m->plan.d.batch * (size_t)m->plan.d.heads;
  job = miras__cuda_errand(g, x);
  job.dx = *dx;
  job.dparams = dparams;
  job.call.dy = dy;
  job.call.tape = tape;
  job.call.per = miras__plan_tape(&m->plan, (size_t)x->length);
  job.call.part = miras__part_size(&m->plan);
  job.call.parts = tape + 16 + tasks * job.call.per;
  job.call.scratch = job.call.parts + tasks * job.call.part;
  job.call.dstate = dstate;
  job.parts = miras__cuda_held(g)->parts[1];
  chunks = miras__cuda_chunks_back_for(&m->plan, &miras__cuda_held(g)->options,
                                       miras__cuda_held(g)->shared);
  if (x->length >= miras_cuda::MIRAS__PART && chunks.grid && miras__cuda_back_can(&job))
    ok = miras__cuda_run_chunks_back(&chunks, tasks, stream, &job);
  else ok = miras__cuda_run(miras_cuda::miras__run_backward, tasks, 0, stream, &job);
  job.parts = 0;
  return ok && (!dparams || miras__cuda_run(miras_cuda::miras__run_collect,
                                              (size_t)m->plan.d.heads + 1, 0, stream, &job))
             ? MIRAS_OK
             : MIRAS_ERR_DEVICE;
}
#endif

/* ---- segments ---- */

/* Segments of a memory: as a memory, and what they make of the identity; zeros for values. */
typedef struct miras__segments {
  miras__held part;
  miras_memory turn;
  float *zeros;
  int segments, length;              /* 0: there are none                                         */
  size_t nearby[2], parts;           /* of shared memory, for states of both and parts of rows    */
} miras__segments;

/* What miras_cuda_memory holds. */
typedef struct miras__cuda_all {
  miras__held alone;
  miras__segments segments;
} miras__cuda_all;
typedef char miras__cuda_fits[sizeof(miras__cuda_all) <= sizeof(miras_cuda_memory) - 8 ? 1 : -1];

static const miras__segments *miras__segments_of(const miras_cuda_memory *g) {
  return &((const miras__cuda_all *)(const void *)g->held)->segments;
}

/* Is the state behind a segment linear in the one before, and the same for every column? */
static int miras__segments_can(const miras__plan *p, char *why, size_t n) {
  const miras_memory_desc *d = &p->d;
  if (p->engine != MIRAS__RUN_EXACT)
    return miras__say(why, n, "the memory is not linear in its state; segments need architecture "
                              "matrix, bias dot or l2, retention all or l2, algorithm "
                              "gradient-descent, implicit or normalized"), 0;
  if (d->reset_every)
    return miras__say(why, n, "reset_every is %d; segments need 0", d->reset_every), 0;
  if (d->value_decay_gate)
    return miras__say(why, n, "value_decay_gate is %d (channel); segments need 0 (constant)",
                      (int)d->value_decay_gate), 0;
  if (p->delta && p->rates > 1)
    return miras__say(why, n,
                      "learning_rate_gate is %d (channel) with bias %d (l2); segments need 0 "
                      "(constant) or 1 (head)",
                      (int)d->learning_rate_gate, (int)d->bias),
           0;
  if (p->delta && p->features > 4096)
    return miras__say(why, n, "feature_map is %d with bias %d (l2), which makes %zu features of a "
                              "key; segments take up to 4096", (int)d->feature_map, (int)d->bias,
                      p->features), 0;
  return 1;
}

/* Lay out s, of the memory g, in device memory; returns the bytes, or 0. */
static size_t miras__segments_layout(miras__segments *s, const miras__held *g, void *device,
                                     char *why, size_t n) {
  const int segments = g->options.segments, length = g->options.segment_length;
  miras__arena a = miras__arena_on(device);
  miras_memory *part = &s->part.m, *turn = &s->turn;
  const miras_memory *m = &g->m;
  const size_t tasks = (size_t)m->plan.d.batch * (size_t)m->plan.d.heads;
  miras_memory_desc d = m->plan.d;
  if (g->options.half_state)
    return miras__say(why, n, "half_state is 1; segments need 0"), 0;
  if (!miras__segments_can(&m->plan, why, n) ||
      !miras__whole(why, n, "segments", segments, 2, 65536) ||
      !miras__whole(why, n, "segment_length", length, 1, INT_MAX / segments))
    return 0;
  if (length % d.chunk)
    return miras__say(why, n, "segment_length is %d; it must be a multiple of chunk, %d", length,
                      d.chunk), 0;
  if (tasks > ((size_t)1 << 20) / (size_t)segments)
    return miras__say(why, n, "batch is %d, heads is %d, segments is %d; their product must lie in "
                              "1..%d", d.batch, d.heads, segments, 1 << 20), 0;
  d.value_dim = m->plan.delta ? (int)m->plan.features : 1;
  d.normalize = 0;
  d.decay_target = MIRAS_DECAY_TARGET_ZERO;
  memset(s, 0, sizeof *s);
  if (miras__plan_make(&turn->plan, &d, why, n) != MIRAS_OK) return 0;
  s->part = *g;
  s->segments = segments;
  s->length = length;
  part->plan.d.batch = turn->plan.d.batch = d.batch * segments;
  part->state = miras__floats(&a, (size_t)part->plan.d.batch + 1, part->plan.sequence_state);
  part->scratch = miras__floats(&a, tasks * (size_t)segments, part->plan.scratch);
  turn->params = part->params;
  turn->keep = part->keep;
  turn->state = miras__floats(&a, (size_t)part->plan.d.batch, turn->plan.sequence_state);
  turn->scratch = miras__floats(&a, tasks * (size_t)segments, turn->plan.scratch);
  s->zeros = miras__floats(&a, (size_t)d.inner_steps, (size_t)d.value_dim);
  return miras__arena_bytes(&a, "record of segments", why, n);
}

/* As miras__cuda_grids. Grids of chunks of `turn` are of its features. */
static int miras__segments_grids(const miras__segments *s) {
  const miras__held *part = &s->part;
  return miras__cuda_allow(miras_cuda::miras__run_segments) &&
         miras__cuda_allow(miras_cuda::miras__run_join) &&
         miras__cuda_allow(miras_cuda::miras__run_arrive) &&
#ifndef MIRAS_NO_TRAINING
         miras__cuda_allow(miras_cuda::miras__run_join_bwd) &&
         miras__cuda_allow(miras_cuda::miras__run_leave) &&
#endif
         miras__cuda_allow(
           miras__cuda_chunks_for(&s->turn.plan, &part->options, part->shared).grid);
}

/* Lay the segments of g out in device memory behind what it takes alone. */
static miras_result miras__segments_init(miras__segments *s, const miras__held *g, void *device,
                                         cudaStream_t stream) {
  const size_t most = miras__cuda_left(miras__cuda_shared(), 0);
  if (!miras__segments_layout(s, g, device, NULL, 0)) return MIRAS_ERR_DESC;
  s->parts = miras__cuda_parts(&s->turn.plan, &g->options, 0, most);
  if (g->parts[0] > s->parts) s->parts = g->parts[0];
  s->nearby[0] = miras__cuda_near(&g->m.plan, (size_t)s->length, most - s->parts);
  s->nearby[1] = miras__cuda_near(&s->turn.plan, (size_t)s->length, most - s->parts);
  if (!miras__segments_grids(s)) return MIRAS_ERR_DEVICE;
  return cudaMemsetAsync(s->zeros, 0,
                         (size_t)s->turn.plan.d.inner_steps * (size_t)s->turn.plan.d.value_dim *
                           sizeof(float),
                         stream) == cudaSuccess
             ? MIRAS_OK
             : MIRAS_ERR_DEVICE;
}

/* Segments of a call of so many tokens; 0: it runs without. */
static size_t miras__segments_now(const miras_cuda_memory *g, int length) {
  const miras__segments *s = miras__segments_of(g);
  const int now = s->length && length > 0 && length % s->length == 0 ? length / s->length : 0;
  return now > 1 && now <= s->segments ? (size_t)now : 0;
}

/* The memory of `now` segments of each sequence. */
static miras_cuda_memory miras__segments_part(const miras_cuda_memory *g, size_t now) {
  miras_cuda_memory part;
  miras__cuda_all *all = (miras__cuda_all *)(void *)part.held;
  memset(&part, 0, sizeof part);
  all->alone = miras__segments_of(g)->part;
  all->alone.m.plan.d.batch = miras__cuda_of(g)->plan.d.batch * (int)now;
  return part;
}

/* A tape of segments: that of miras__segments_part, M of each, cotangents of states, one more
 * sequence of them than there are. */
typedef struct miras__segments_tape {
  size_t turns, slot_at, floats;
} miras__segments_tape;

static miras__segments_tape miras__segments_tape_of(const miras__segments *s,
                                                    const miras_cuda_memory *part) {
  const miras__plan *p = &miras__cuda_of(part)->plan;
  const size_t batch = (size_t)p->d.batch, heads = (size_t)p->d.heads;
  miras__segments_tape at = {0, 0, 0};
#ifndef MIRAS_NO_TRAINING
  at.turns = miras__alone_tape_size(part, s->length);
  if (!at.turns) return at;
  at.turns = miras__pad(at.turns);
  at.slot_at = at.turns;
  miras__grow(&at.slot_at, batch * heads, s->turn.plan.weights);
  at.floats = at.slot_at = miras__pad(at.slot_at);
  miras__grow(&at.floats, (batch + 1) * heads, p->weights);
  if (at.floats > (size_t)-1 / sizeof(float)) at.floats = 0;
#endif
  return at;
}

static miras_cuda::miras__segments_errand miras__segments_errand_of(const miras_cuda_memory *g,
                                                                    const miras_memory_input *x,
                                                                    size_t now) {
  const miras__segments *s = miras__segments_of(g);
  const int chunk = s->turn.plan.d.chunk;
  miras_cuda::miras__segments_errand job;
  memset((void *)&job, 0, sizeof job);
  memcpy((void *)&job.m, miras__cuda_of(g), sizeof job.m);
  memcpy((void *)&job.part, &s->part.m, sizeof job.part);
  memcpy((void *)&job.turn, &s->turn, sizeof job.turn);
  job.products = miras__cuda_held(g)->options.products;
  job.room = MIRAS__PRODUCT_ROOM(MIRAS_CUDA_THREADS);
  job.now = now;
  job.ahead = (size_t)(chunk < MIRAS__SWEEP ? MIRAS__SWEEP / chunk * chunk : chunk);
  job.x = *x;
  job.x.length = s->length;
  job.zeros = s->zeros;
  return job;
}

/* As miras__cuda_run; `more` floats of shared memory. */
static int miras__segments_run(void (*kernel)(const miras_cuda::miras__segments_errand),
                               size_t blocks, size_t more, cudaStream_t stream,
                               const miras_cuda::miras__segments_errand *job) {
  return MIRAS__LAUNCH(kernel, blocks, (miras_cuda::MIRAS__ROOM + job->room + more) *
                                           sizeof(float), stream, *job);
}

/* What segments make of zeros and of the identity: in chunks on matrix units, or by the engine. */
static int miras__segments_alone(const miras__segments *s, size_t now, size_t more,
                                 cudaStream_t stream,
                                 const miras_cuda::miras__segments_errand *job) {
  const miras__held *part = &s->part;
  const miras__plan *plan[2] = {&part->m.plan, &s->turn.plan};
  const size_t tasks = (size_t)part->m.plan.d.heads * now * (size_t)part->m.plan.d.batch /
                       (size_t)s->segments;
  miras_cuda::miras__chunks_grid c;
  miras_cuda::miras__chunks_job all;
  int turning, ok = 1;
  for (turning = 0; turning < 2; turning++) {
    c = miras__cuda_chunks_for(plan[turning], &part->options, part->shared);
    if (!c.grid || s->length < miras_cuda::MIRAS__PART)
      return miras__segments_run(miras_cuda::miras__run_segments, 2 * tasks, more, stream, job);
  }
  memset((void *)&all, 0, sizeof all);
  memcpy((void *)&all.segments, job, sizeof *job);
  all.of_segments = 1;
  for (turning = 0; turning < 2; turning++) {
    const size_t dv = (size_t)plan[turning]->d.value_dim, each = MIRAS_CUDA_THREADS / 2;
    all.turning = turning;
    all.memory.m.plan.d.value_dim = (int)dv;
    ok = ok && MIRAS__LAUNCH(c.grid, tasks * ((dv + each - 1) / each), c.bytes, stream, all);
  }
  return ok;
}

/* Blocks that pass states on. */
static size_t miras__segments_joins(const miras__plan *p) {
  const size_t wide = miras_cuda::MIRAS__SEGMENT_COLS;
  return (size_t)p->d.batch * (size_t)p->d.heads * (((size_t)p->d.value_dim + wide - 1) / wide);
}

static miras_result miras__segments_forward(const miras_cuda_memory *g, size_t now,
                                            const miras_memory_input *x, float *y, float *tape,
                                            cudaStream_t stream) {
  const miras__segments *s = miras__segments_of(g);
  const miras__plan *p = &miras__cuda_of(g)->plan;
  const miras_cuda_memory part = miras__segments_part(g, now);
  miras_cuda::miras__segments_errand job;
  miras_result result;
  size_t nearby;
  if (!miras__tokens_ok(miras__cuda_of(g), x) || !y || (!MIRAS__TRAINS && tape))
    return MIRAS_ERR_ARGUMENT;
  job = miras__segments_errand_of(g, x, now);
  if (tape) {
    const miras__segments_tape at = miras__segments_tape_of(s, &part);
    if (!at.floats) return MIRAS_ERR_SIZE;
    job.kept = tape + at.turns;
  }
  memcpy(job.nearby, s->nearby, sizeof job.nearby);
  job.parts = s->parts;
  nearby = s->nearby[s->nearby[1] > s->nearby[0]];
  if (!miras__segments_alone(s, now, nearby + s->parts, stream, &job) ||
      !miras__segments_run(miras_cuda::miras__run_join, miras__segments_joins(p), 0, stream, &job))
    return MIRAS_ERR_DEVICE;
  result = miras__alone_forward(&part, &job.x, y, tape, stream);
  if (result != MIRAS_OK) return result;
  return miras__segments_run(miras_cuda::miras__run_arrive,
                             (size_t)p->d.batch * (size_t)p->d.heads, 0, stream, &job)
             ? MIRAS_OK
             : MIRAS_ERR_DEVICE;
}

#ifndef MIRAS_NO_TRAINING
static miras_result miras__segments_backward(const miras_cuda_memory *g, size_t now,
                                             const miras_memory_input *x, float *tape,
                                             const float *dy, const miras_memory_input_grad *dx,
                                             float *dparams, float *dstate, cudaStream_t stream) {
  const miras__plan *p = &miras__cuda_of(g)->plan;
  const miras_cuda_memory part = miras__segments_part(g, now);
  const size_t heads = (size_t)p->d.heads, each = heads * p->weights;
  miras_cuda::miras__segments_errand job;
  miras__segments_tape at;
  miras_memory_input_grad none;
  miras_result result;
  if (!tape || !dy || !dx || !miras__tokens_ok(miras__cuda_of(g), x)) return MIRAS_ERR_ARGUMENT;
  at = miras__segments_tape_of(miras__segments_of(g), &part);
  job = miras__segments_errand_of(g, x, now);
  job.kept = tape + at.turns;
  job.slot_at = tape + at.slot_at;
  job.tape = tape;
  job.dparams = dparams;
  job.dstate = dstate;
  memset(&none, 0, sizeof none);
  if (cudaMemsetAsync(job.slot_at, 0, ((size_t)p->d.batch * now + 1) * each * sizeof(float),
                      stream) != cudaSuccess)
    return MIRAS_ERR_DEVICE;
  result = miras__alone_backward(&part, &job.x, tape, dy, &none, NULL, job.slot_at, stream);
  if (result != MIRAS_OK) return result;
  if (!miras__segments_run(miras_cuda::miras__run_join_bwd, miras__segments_joins(p), 0, stream,
                           &job))
    return MIRAS_ERR_DEVICE;
  result = miras__alone_backward(&part, &job.x, tape, dy, dx, dparams, job.slot_at + each, stream);
  if (result != MIRAS_OK) return result;
  return miras__segments_run(miras_cuda::miras__run_leave, heads, 0, stream, &job)
             ? MIRAS_OK
             : MIRAS_ERR_DEVICE;
}
#endif

/* ---- the public calls of a memory ---- */

size_t miras_cuda_memory_size(const miras_memory *m, const miras_cuda_options *o, char *why,
                              size_t why_size) {
  size_t bytes = miras__alone_size(m, o, why, why_size), more;
  miras__segments draft;
  miras__held alone;
  if (!bytes || !o || (!o->segments && !o->segment_length)) return bytes;
  miras__cuda_layout(&alone, m, o, NULL, NULL, 0);
  more = miras__segments_layout(&draft, &alone, NULL, why, why_size);
  if (!more) return 0;
  if (miras__size_add(bytes, more, &bytes)) return bytes;
  return miras__say(why, why_size, "the memory and its segments are too large"), 0;
}

miras_result miras_cuda_memory_init(miras_cuda_memory *g, const miras_memory *m,
                                    const miras_cuda_options *o, void *device, size_t bytes,
                                    cudaStream_t stream) {
  miras__cuda_all *all = g ? (miras__cuda_all *)(void *)g->held : NULL;
  miras_result result;
  size_t need;
  if (!g || !m || !device) return MIRAS_ERR_ARGUMENT;
  need = miras_cuda_memory_size(m, o, NULL, 0);
  if (!need) return MIRAS_ERR_DESC;
  if (bytes < need) return MIRAS_ERR_SIZE;
  result = miras__alone_init(g, m, o, device, bytes, stream);
  if (result != MIRAS_OK || !o || !o->segments) return result;
  return miras__segments_init(&all->segments, &all->alone,
                              (char *)device + miras__alone_size(m, o, NULL, 0), stream);
}

miras_result miras_cuda_memory_forward(const miras_cuda_memory *g, const miras_memory_input *x,
                                       float *y, float *tape, cudaStream_t stream) {
  const size_t now = g && x ? miras__segments_now(g, x->length) : 0;
  return now ? miras__segments_forward(g, now, x, y, tape, stream)
             : miras__alone_forward(g, x, y, tape, stream);
}

#ifndef MIRAS_NO_TRAINING
size_t miras_cuda_memory_tape_size(const miras_cuda_memory *g, int length) {
  const size_t now = g ? miras__segments_now(g, length) : 0;
  miras_cuda_memory part;
  if (!now) return miras__alone_tape_size(g, length);
  part = miras__segments_part(g, now);
  return miras__segments_tape_of(miras__segments_of(g), &part).floats;
}

miras_result miras_cuda_memory_backward(const miras_cuda_memory *g, const miras_memory_input *x,
                                        float *tape, const float *dy,
                                        const miras_memory_input_grad *dx, float *dparams,
                                        float *dstate, cudaStream_t stream) {
  const size_t now = g && x ? miras__segments_now(g, x->length) : 0;
  return now ? miras__segments_backward(g, now, x, tape, dy, dx, dparams, dstate, stream)
             : miras__alone_backward(g, x, tape, dy, dx, dparams, dstate, stream);
}
#endif

#ifndef MIRAS_NO_MODEL
/* ---- models and trainers ---- */

/* What miras_cuda_model holds. */
typedef struct miras__there {
  const miras_model *m;            /* the host's                                                  */
  ptrdiff_t by;                    /* from an address of its block to that of the device's        */
  size_t nearby;                   /* floats of shared memory for a head's state in a task        */
  size_t shared;                   /* bytes of it that a block may have                           */
  miras_cuda_options options;
} miras__there;
typedef char miras__there_fits[sizeof(miras__there) <= sizeof(miras_cuda_model) ? 1 : -1];

static miras__there miras__there_of(const miras_cuda_model *g) {
  miras__there there;
  memcpy(&there, g->held, sizeof there);
  return there;
}

static int miras__alike(const miras_model *a, const miras_model *b) {
  return a->param_count == b->param_count && a->run == b->run && a->view_count == b->view_count &&
         a->learned == b->learned && a->desc.layers == b->desc.layers;
}

/* From the model's record to its block's end. */
static size_t miras__model_block(const miras_model *m) {
  return m->own.bytes - MIRAS__SLACK;
}

#ifndef MIRAS__NO_TRAINER
/* Bytes behind what such a grid works in, for what it is told. The perceptrons' adjoint works where
 * that has been, for blocks have read it by then. */
static size_t miras__cuda_told(const miras__program *p, int back) {
  return back && p->mixer.plan.engine == MIRAS__RUN_FROZEN ? 0 : sizeof(miras_cuda::miras__tasks);
}

/* The grids of chunks that heads of a layer have, forward or back; none: tasks run them. */
static miras_cuda::miras__chunks_grid miras__cuda_layer_grid(const miras__there *there,
                                                             const miras__program *p, int back) {
  const size_t told = miras__cuda_told(p, back), most = there->shared;
  miras_cuda::miras__chunks_grid c;
  memset(&c, 0, sizeof c);
  if (p->type != MIRAS_LAYER_MEMORY || most < told) return c;
#ifndef MIRAS_NO_TRAINING
  if (back) return miras__cuda_chunks_back_for(&p->mixer.plan, &there->options, most - told);
#endif
  return back ? c : miras__cuda_chunks_for(&p->mixer.plan, &there->options, most - told);
}

static int miras__cuda_layers_allow(const miras__there *there) {
  int i, back, ok = 1;
  for (i = 0; i < there->m->kinds; i++)
    for (back = 0; ok && back < 2; back++) {
      const miras_cuda::miras__chunks_grid c =
        miras__cuda_layer_grid(there, &there->m->program[i], back);
      ok = !c.grid || (miras__cuda_allow(c.grid) && miras__cuda_allow(c.inits));
    }
  return ok;
}
#endif

size_t miras_cuda_model_size(const miras_model *m, const miras_cuda_options *o, char *why,
                             size_t why_size) {
  int i;
  if (why && why_size) why[0] = 0;
  if (!m) return miras__say(why, why_size, "the model is NULL"), 0;
  for (i = 0; i < m->kinds; i++)
    if (m->program[i].mixer.heads && !miras__cuda_can(&m->program[i].mixer.plan, why, why_size))
      return 0;
  if (m->desc.weights)
    return miras__say(why, why_size, "the model's weights is %d; a device takes 0 (float)",
                      (int)m->desc.weights), 0;
  if (m->desc.adapter.rank)
    return miras__say(why, why_size, "adapter.rank is %d; a device takes 0: there is none there",
                      m->desc.adapter.rank), 0;
  if (m->desc.adapt.learning_rate > 0)
    return miras__say(why, why_size, "adapt.learning_rate is %g; a device takes 0: there no head "
                                     "learns", (double)m->desc.adapt.learning_rate), 0;
  if (!miras__cuda_options_ok(o, why, why_size)) return 0;
  if (o && (o->segments || o->segment_length))
    return miras__say(why, why_size, "segments is %d, segment_length %d; both must be 0: a model "
                                     "has none", o->segments, o->segment_length), 0;
  if (!o || !o->half_state) return miras__model_block(m);
  miras__say(why, why_size, "half_state is 1; it must be 0: a model's states are float32");
  return 0;
}

miras_result miras_cuda_model_init(miras_cuda_model *g, const miras_model *m,
                                   const miras_cuda_options *o, void *device, size_t bytes,
                                   cudaStream_t stream) {
  const size_t need = miras_cuda_model_size(m, o, NULL, 0);
  miras_cuda::miras__moved moved;
  miras__there there;
  if (!g || !m || !device) return MIRAS_ERR_ARGUMENT;
  if (!need) return MIRAS_ERR_DESC;
  if (bytes < need) return MIRAS_ERR_SIZE;
  memset(&there, 0, sizeof there);
  there.m = m;
  there.by = (char *)device - (char *)m;
  if (o) there.options = *o;
#ifndef MIRAS__NO_TRAINER
  if (!miras__cuda_allow(miras_cuda::miras__run_tasks)) return MIRAS_ERR_DEVICE;
  there.shared = miras__cuda_shared();
  there.nearby = miras__cuda_left((there.shared - 1024) / 2, sizeof(miras_cuda::miras__tasks));
  if (!miras__cuda_layers_allow(&there)) return MIRAS_ERR_DEVICE;
#endif
  memset(g, 0, sizeof *g);
  memcpy(g->held, &there, sizeof there);
  moved.m = (miras_cuda::miras_model *)device;
  moved.by = there.by;
  return miras__cuda_stack() && miras__cuda_move(device, m, need, cudaMemcpyHostToDevice, stream) &&
                 MIRAS__LAUNCH(miras_cuda::miras__run_settle, 1, 0, stream, moved)
             ? MIRAS_OK
             : MIRAS_ERR_DEVICE;
}

float *miras_cuda_model_params(const miras_cuda_model *g, size_t *count) {
  miras__there there;
  if (count) *count = 0;
  if (!g) return NULL;
  there = miras__there_of(g);
  if (count) *count = there.m->param_count;
  return (float *)(void *)((char *)there.m->params + there.by);
}

miras_result miras_cuda_model_copy(miras_model *m, const miras_cuda_model *g,
                                   cudaStream_t stream) {
  size_t count;
  const float *params = miras_cuda_model_params(g, &count);
  if (!g || !m) return MIRAS_ERR_ARGUMENT;
  if (!miras__alike(m, miras__there_of(g).m)) return MIRAS_ERR_MISMATCH;
  return miras__cuda_move(m->params, params, count * sizeof(float), cudaMemcpyDeviceToHost, stream)
             ? MIRAS_OK
             : MIRAS_ERR_DEVICE;
}

#ifndef MIRAS_NO_TRAINING
/* What miras_cuda_trainer and miras_cuda_session hold: a trainer's record as the host knows it,
 * with pointers to the device's memory, and the records of the host that it points to; a session
 * has what a forward pass takes of it. The device is its job system. */
typedef struct miras__held_trainer {
  miras_trainer tr;
  miras__there there;
  miras_parallel parallel;
  cudaStream_t stream;
  size_t parts;                    /* floats of shared memory for parts of rows, of any layer     */
  unsigned *stash;                 /* of chunks, for all heads of a layer                         */
  int failed;
  uint64_t records[(MIRAS_MAX_LAYERS + 1) * sizeof(miras__kept) / 8 +
                   MIRAS__KINDS * sizeof(miras__layer_work) / 8 + 32];
} miras__held_trainer;
typedef char miras__trainer_fits[sizeof(miras__held_trainer) <= sizeof(miras_cuda_trainer) &&
                                         sizeof(miras__held_trainer) <= sizeof(miras_cuda_session)
                                     ? 1
                                     : -1];

static miras__held_trainer *miras__held_trainer_of(const miras_cuda_trainer *t) {
  return (miras__held_trainer *)(void *)t->held;
}

/* The parts of the rows of layers, where some have them; back: with their adjoints. Blocks have
 * half of a multiprocessor's shared memory, less what the system takes of each, so that two of them
 * run there. */
static void miras__cuda_parts_in(miras__held_trainer *t, int back) {
  const miras_model *m = t->there.m;
  int i, pass;
  for (i = 0; i < m->kinds; i++)
    for (pass = 0; pass <= back && m->program[i].mixer.heads; pass++) {
      const size_t part = miras__cuda_parts(&m->program[i].mixer.plan, &t->there.options, pass,
                                            t->there.nearby);
      if (part > t->parts) t->parts = part;
    }
}

/* And a head's state in such tasks. */
static size_t miras__cuda_task_near(const miras__held_trainer *t, int task, const void *argument) {
  const miras__phase *ph = (const miras__phase *)argument;
  if (task != miras_cuda::MIRAS__LAYER_TASK || ph->all.back ||
      !miras__memory_of(ph->all.layer->p, miras__now_of(ph), 0))
    return 0;
  return miras__cuda_near(&ph->all.layer->p->mixer.plan, ph->all.length,
                          t->there.nearby - t->parts);
}

/* Heads of a layer in chunks on matrix units, before the tasks that do the rest of them; 0: tasks
 * do all of it. A call of a trainer begins on the chunk grid; one of a session does where that is
 * every token. */
static int miras__cuda_layer_chunks(miras__held_trainer *t, const miras__phase *ph,
                                    const miras_cuda::miras__tasks *tasks) {
  const miras__program *p = ph->all.layer->p;
  const miras__mixer *s = &p->mixer;
  const int back = ph->all.back;
  const size_t length = ph->all.length, per = (size_t)s->plan.tape_tokens;
  const size_t told = miras__cuda_told(p, back), count = (size_t)t->tr.batch * s->heads;
  miras_cuda::miras__chunks_grid c;
  miras_cuda::miras__chunks_job job;
  int ok;
  if (!miras__memory_of(p, miras__now_of(ph), back)) return 0;
  c = miras__cuda_layer_grid(&t->there, p, back);
  if (!c.grid || length < miras_cuda::MIRAS__PART || length < per) return 0;
  if (!back && !ph->all.train && (ph->all.kept.tape[0] ? length % per != 0 : s->plan.d.chunk > 1))
    return 0;
  memset((void *)&job, 0, sizeof job);
  job.memory.m.plan.d.value_dim = (int)s->dv;
  job.of_layer = 1;
  job.slabs = c.slabs;
  job.tasks = *tasks;
  job.tasks.words = c.words;
  job.tasks.stash = t->stash;
  job.tasks.room = job.tasks.nearby = job.tasks.parts = 0; /* it lies elsewhere in such grids */
  job.tasks.records = told ? c.bytes / sizeof(float) - miras_cuda::MIRAS__ROOM : 0;
  ok = MIRAS__LAUNCH_OF(c.threads, c.grid, count * (back ? 1 : (s->dv + c.each - 1) / c.each),
                        c.bytes + told, t->stream, job);
  job.tasks.records = c.inits_bytes / sizeof(float) - miras_cuda::MIRAS__ROOM;
  if (ok && c.inits && s->plan.to_init)
    ok = MIRAS__LAUNCH_OF(c.threads, c.inits, count, c.inits_bytes + told, t->stream, job);
  if (!ok) t->failed = 1;
  return 1;
}

/* A number of tasks, by their number. */
static void miras__cuda_tasks(miras__held_trainer *t, int task, size_t count, const void *argument,
                              const miras_cuda::miras__columns *columns) {
  const ptrdiff_t by = t->there.by;
  const size_t workers = miras__workers(&t->parallel);
  miras_cuda::miras__tasks a;
  int i;
  memset((void *)&a, 0, sizeof a);
  a.task = task;
  a.products = t->there.options.products;
  a.count = (unsigned)count;
  if (columns) a.columns = *columns;
  a.room = MIRAS__PRODUCT_ROOM(MIRAS_CUDA_THREADS);
  a.parts = task == miras_cuda::MIRAS__LAYER_TASK ? t->parts : 0;
  a.nearby = miras__cuda_task_near(t, task, argument);
  memcpy((void *)&a.told.trainer, &t->tr, sizeof a.told.trainer);
  a.told.trainer.model = (miras_cuda::miras_model *)((char *)t->there.m + by);
  if (task < miras_cuda::MIRAS__JOB_TASK || task >= miras_cuda::MIRAS__TEXT_BEGIN) {
    memcpy((void *)&a.told.task.phase, argument, sizeof a.told.task.phase);
    if (a.told.task.phase.all.layer) miras_cuda::miras__move(a.told.task.phase.all.layer, by);
  } else if (task == miras_cuda::MIRAS__JOB_TASK) {
    memcpy((void *)&a.told.task.jobs, argument, sizeof a.told.task.jobs);
    for (i = 0; i < a.told.task.jobs.count; i++)   /* weights to be turned lie in the model */
      if (a.told.task.jobs.job[i].kind == miras_cuda::MIRAS__TRANSPOSE)
        miras_cuda::miras__move(a.told.task.jobs.job[i].a, by);
  } else {
    memcpy((void *)&a.told.task.adam, argument, sizeof a.told.task.adam);
  }
  a.records = a.room + a.nearby + a.parts;
  if (count && task == miras_cuda::MIRAS__LAYER_TASK) {
    a.ran = miras__cuda_layer_chunks(t, (const miras__phase *)argument, &a);
    a.told.task.phase.all.adds = a.ran;
  }
  if (count && !MIRAS__LAUNCH(miras_cuda::miras__run_tasks, count < workers ? count : workers,
                              (miras_cuda::MIRAS__ROOM + a.room + a.nearby + a.parts) *
                                  sizeof(float) +
                                sizeof a.told,
                              t->stream, a))
    t->failed = 1;
}

/* As miras_parallel has it. */
static void miras__cuda_each(void *user, int count,
                             void (*task)(void *argument, int index, int worker), void *argument) {
  static void (*const all[])(void *argument, int index, int worker) = {
    miras__call_begin, miras__call_count, miras__tile_begin, miras__layer_task, miras__tile_end,
    miras__call_end, miras__tile_end_bwd, miras__tile_begin_bwd, miras__embed_bwd, miras__job_task,
    miras__norm_task, miras__adam_begin, miras__adam_task};
  const int known = (int)MIRAS__COUNT(all);
  static_assert(MIRAS__COUNT(all) == miras_cuda::MIRAS__TEXT_BEGIN, "in the order of tasks");
  miras__held_trainer *t = (miras__held_trainer *)user;
  int i = 0;
  while (i < known && all[i] != task) i++;
  MIRAS_ASSERT(i < known);
  if (i < known) miras__cuda_tasks(t, i, (size_t)count, argument, NULL);
  else t->failed = 1;
}

/* The trainer's record on `device`, or its size. */
static size_t miras__cuda_trainer_layout(miras__held_trainer *t, const miras_cuda_model *g,
                                         const miras_trainer_desc *d, void *device, char *why,
                                         size_t n) {
  miras__arena records = miras__arena_on(t->records), a = miras__arena_on(device);
  const miras__there there = miras__there_of(g);
  miras_trainer tr;
  size_t bytes, words = 0;
  int i;
  if (d && d->parallel)
    return miras__say(why, n, "parallel is set; a trainer on a device must have NULL: the device "
                              "is its job system"), 0;
  if (miras__trainer_resolve(&tr, (miras_model *)there.m, d, why, n) != MIRAS_OK) return 0;
  if (tr.some || tr.desc.only)
    return miras__say(why, n, "only is set, or something is frozen; a trainer on a device moves "
                              "all: set it to NULL, and freeze behind it"), 0;
  memset(t, 0, sizeof *t);
  t->tr = tr;
  t->there = there;
  t->parallel.user = t;
  t->parallel.run = miras__cuda_each;
  t->parallel.workers = -MIRAS_CUDA_BLOCKS;
  t->tr.desc.parallel = &t->parallel;
  a.records = &records;
  miras__trainer_layout(&t->tr, &a);
  for (i = 0; i < 2 * there.m->kinds; i++) {
    const miras__program *p = &there.m->program[i / 2];
    const miras_cuda::miras__chunks_grid c = miras__cuda_layer_grid(&there, p, i % 2);
    if (c.grid && c.words * p->mixer.heads > words) words = c.words * p->mixer.heads;
  }
  t->stash = (unsigned *)(void *)miras__floats(&a, (size_t)t->tr.desc.batch, words);
  bytes = miras__arena_bytes(&a, "trainer", why, n);
  if (!bytes || !d->limit || bytes <= d->limit) return bytes;
  miras__say(why, n, "limit is %zu bytes; the trainer takes %zu", (size_t)d->limit, bytes);
  return 0;
}

size_t miras_cuda_trainer_size(const miras_cuda_model *g, const miras_trainer_desc *d, char *why,
                               size_t why_size) {
  miras_cuda_trainer draft;
  if (why && why_size) why[0] = 0;
  if (!g) return miras__say(why, why_size, "the model is NULL"), 0;
  return miras__cuda_trainer_layout(miras__held_trainer_of(&draft), g, d, NULL, why, why_size);
}

miras_result miras_cuda_trainer_init(miras_cuda_trainer *t, const miras_cuda_model *g,
                                     const miras_trainer_desc *d, void *device, size_t bytes,
                                     cudaStream_t stream) {
  miras__held_trainer *held = t ? miras__held_trainer_of(t) : NULL;
  size_t need, params, streams;
  if (!t || !g || !d || !device) return MIRAS_ERR_ARGUMENT;
  need = miras__cuda_trainer_layout(held, g, d, device, NULL, 0);
  if (!need) return MIRAS_ERR_DESC;
  if (bytes < need) return MIRAS_ERR_SIZE;
  miras__cuda_parts_in(held, 1);
  params = 3 * held->there.m->param_count * sizeof(float);
  streams = (size_t)held->tr.desc.carried * held->there.m->run * sizeof(float);
  return cudaMemsetAsync(held->tr.grads, 0, params, stream) == cudaSuccess &&
                 (!streams ||
                  cudaMemsetAsync(held->tr.streams, 0, streams, stream) == cudaSuccess) &&
                 cudaMemsetAsync(held->tr.now, 0, sizeof(miras__now), stream) == cudaSuccess
             ? MIRAS_OK
             : MIRAS_ERR_DEVICE;
}

/* Queue a copy of rows of `each` words, on the device: 1 where there are none, or it is queued. */
static int miras__cuda_bring(void *to, const void *from, size_t rows, int each,
                             cudaStream_t stream) {
  return !each || miras__cuda_move(to, from, rows * (size_t)each * sizeof(float),
                                   cudaMemcpyDeviceToDevice, stream);
}

miras_result miras_cuda_trainer_loss(miras_cuda_trainer *t, const miras_batch *x, int train,
                                     float *loss, cudaStream_t stream) {
  miras__held_trainer *held = t ? miras__held_trainer_of(t) : NULL;
  const cudaMemcpyKind way = cudaMemcpyDeviceToDevice;
  const miras_row *row = t ? &held->there.m->row : NULL;
  miras_trainer *tr = t ? &held->tr : NULL;
  size_t n, b;
  if (t) tr->taped = 0;
  if (!t || !x || (row->tokens && !x->tokens) || (row->vectors && !x->vectors) ||
      (row->classes && !x->classes) || (row->values && !x->values) || x->batch < 1 ||
      x->batch > tr->desc.batch || x->length < 1 || x->length > tr->desc.context ||
      (x->carry &&
       (!train || !tr->desc.carried || !miras__length_ok(held->there.m, x->length))))
    return MIRAS_ERR_ARGUMENT;
  n = (size_t)x->batch * (size_t)x->length;
  b = (size_t)x->batch * sizeof *x->carry;
  held->stream = stream;
  tr->weighs = x->weights != NULL;
  held->failed =
    !miras__cuda_bring(tr->tokens, x->tokens, n, row->tokens, stream) ||
    !miras__cuda_bring(tr->vectors, x->vectors, n, row->vectors, stream) ||
    !miras__cuda_bring(tr->targets, x->classes, n, row->classes, stream) ||
    !miras__cuda_bring(tr->numbers, x->values, n, row->values, stream) ||
    !miras__cuda_bring(tr->weights, x->weights, n, tr->weighs, stream) ||
    !(x->carry ? miras__cuda_move(tr->stream, x->carry, b, way, stream)
               : cudaMemsetAsync(tr->stream, 255, b, stream) == cudaSuccess) ||
    !(x->carry && x->restart
        ? miras__cuda_move(tr->fresh, x->restart, (size_t)x->batch, way, stream)
        : cudaMemsetAsync(tr->fresh, 0, (size_t)x->batch, stream) == cudaSuccess);
  miras__loss_run(tr, x->batch, x->length, train != 0, x->outputs, x->hidden);
  if (loss && !miras__cuda_move(loss, &tr->now->loss, sizeof *loss, way, stream)) held->failed = 1;
  if (x->losses &&
      !miras__cuda_bring(x->losses, tr->now->losses, 1, held->there.m->answers, stream))
    held->failed = 1;
  return held->failed ? MIRAS_ERR_DEVICE : MIRAS_OK;
}

miras_result miras_cuda_trainer_backward(miras_cuda_trainer *t, const miras_batch_grad *g,
                                         cudaStream_t stream) {
  miras__held_trainer *held = t ? miras__held_trainer_of(t) : NULL;
  miras_result result;
  if (!t) return MIRAS_ERR_ARGUMENT;
  held->stream = stream;
  held->failed = 0;
  result = miras_trainer_backward(&held->tr, g);
  return held->failed ? MIRAS_ERR_DEVICE : result;
}

miras_result miras_cuda_trainer_step(miras_cuda_trainer *t, const miras_adamw_options *o,
                                     float learning_rate, float *norm, cudaStream_t stream) {
  miras__held_trainer *held = t ? miras__held_trainer_of(t) : NULL;
  if (!t || !miras__adamw_ok(o, learning_rate)) return MIRAS_ERR_ARGUMENT;
  held->stream = stream;
  held->failed = 0;
  miras__step_run(&held->tr, o, learning_rate);
  if (norm && !miras__cuda_move(norm, &held->tr.now->norm, sizeof *norm, cudaMemcpyDeviceToDevice,
                                stream))
    held->failed = 1;
  return held->failed ? MIRAS_ERR_DEVICE : MIRAS_OK;
}

float *miras_cuda_trainer_grads(const miras_cuda_trainer *t, size_t *count) {
  if (count) *count = t ? miras__held_trainer_of(t)->there.m->param_count : 0;
  return t ? miras__held_trainer_of(t)->tr.grads : NULL;
}

/* Gradients and moments, running texts, and how many steps there were. */
static miras_result miras__cuda_trainer_move(miras_trainer *host, miras__held_trainer *held, int to,
                                             cudaStream_t stream) {
  const miras_model *m = host ? host->model : NULL;
  size_t bytes[3], i;
  void *here[3], *there[3];
  if (!host || !held) return MIRAS_ERR_ARGUMENT;
  if (!miras__alike(m, held->there.m) || host->desc.carried != held->tr.desc.carried || host->at)
    return MIRAS_ERR_MISMATCH;
  here[0] = host->grads, there[0] = held->tr.grads;
  here[1] = host->streams, there[1] = held->tr.streams;
  here[2] = host->now, there[2] = held->tr.now;
  bytes[0] = 3 * m->param_count * sizeof(float);
  bytes[1] = (size_t)host->desc.carried * m->run * sizeof(float);
  bytes[2] = sizeof(miras__now);
  for (i = 0; i < 3; i++)
    if (bytes[i] &&
        !(to ? miras__cuda_move(there[i], here[i], bytes[i], cudaMemcpyHostToDevice, stream)
             : miras__cuda_move(here[i], there[i], bytes[i], cudaMemcpyDeviceToHost, stream)))
      return MIRAS_ERR_DEVICE;
  if (to) held->tr.taped = 0, held->tr.calls = host->calls;
  else host->taped = 0, host->calls = held->tr.calls;
  return MIRAS_OK;
}

miras_result miras_cuda_trainer_copy(miras_trainer *to, const miras_cuda_trainer *t,
                                     cudaStream_t stream) {
  return miras__cuda_trainer_move(to, t ? miras__held_trainer_of(t) : NULL, 0, stream);
}

miras_result miras_cuda_trainer_send(miras_cuda_trainer *t, const miras_trainer *from,
                                     cudaStream_t stream) {
  return miras__cuda_trainer_move((miras_trainer *)from, t ? miras__held_trainer_of(t) : NULL, 1,
                                  stream);
}

/* ---- running texts ---- */

static miras__held_trainer *miras__cuda_session_of(const miras_cuda_session *s) {
  return (miras__held_trainer *)(void *)s->held;
}

/* The session's record on `device`, or its size. */
static size_t miras__cuda_session_layout(miras__held_trainer *t, const miras_cuda_model *g,
                                         int batch, int length, void *device) {
  miras__arena records = miras__arena_on(t->records), a = miras__arena_on(device);
  const miras__there there = miras__there_of(g);
  const miras_model *m = there.m;
  const size_t b = (size_t)batch, n = b * (size_t)length, layers = (size_t)m->desc.layers;
  miras__kept kind[MIRAS__KINDS];
  miras__extent e;
  float *x;
  size_t l;
  if (batch < 1 || batch > 65536 || length < 1 || length > INT_MAX / batch) return 0;
  memset(t, 0, sizeof *t);
  memset(kind, 0, sizeof kind);
  memset(&e, 0, sizeof e);
  t->there = there;
  t->tr.model = (miras_model *)m;
  t->tr.desc.batch = t->tr.desc.carried = t->tr.batch = batch;
  t->tr.desc.context = length;
  t->tr.desc.parallel = &t->parallel;
  t->parallel.user = t;
  t->parallel.run = miras__cuda_each;
  t->parallel.workers = -MIRAS_CUDA_BLOCKS;
  e.batch = b;
  e.length = (size_t)length;
  e.carries = 1;
  a.records = &records;
  t->tr.streams = miras__floats(&a, b, m->run);
  t->tr.runs = (float **)miras__take(&a, b, sizeof(float *));
  t->tr.starts = (uint64_t *)miras__take(&a, b, sizeof(uint64_t));
  t->tr.now = (miras__now *)miras__take(&a, 1, sizeof(miras__now));
  t->tr.tokens = (int32_t *)miras__take(&a, n, (size_t)m->row.tokens * sizeof(int32_t));
  t->tr.vectors = miras__floats(&a, n, m->ld_in);
  t->tr.values = miras__floats(&a, n, m->ld_values);
  x = miras__floats(&a, n, m->ld_x);
  t->tr.kept = (miras__kept *)miras__take(&records, layers + 1, sizeof(miras__kept));
  t->tr.work = (miras__layer_work *)miras__take(&records, (size_t)m->kinds,
                                                sizeof(miras__layer_work));
  miras__works_layout(m, &e, &a, t->tr.work, kind);
  for (l = 0; l <= layers; l++) {
    if (l < layers) t->tr.kept[l] = kind[m->kind[l]];
    t->tr.kept[l].x = x;
  }
  t->tr.scratch_size = miras__pad(m->bare);
  t->tr.scratch = miras__floats(&a, MIRAS_CUDA_BLOCKS, t->tr.scratch_size);
  return miras__arena_bytes(&a, "session", NULL, 0);
}

size_t miras_cuda_session_size(const miras_cuda_model *g, int batch, int length) {
  miras_cuda_session draft;
  if (!g) return 0;
  return miras__cuda_session_layout(miras__cuda_session_of(&draft), g, batch, length, NULL);
}

miras_result miras_cuda_session_init(miras_cuda_session *s, const miras_cuda_model *g, int batch,
                                     int length, void *device, size_t bytes, cudaStream_t stream) {
  size_t need;
  if (!s || !g || !device) return MIRAS_ERR_ARGUMENT;
  need = miras__cuda_session_layout(miras__cuda_session_of(s), g, batch, length, device);
  if (!need) return MIRAS_ERR_ARGUMENT;
  if (bytes < need) return MIRAS_ERR_SIZE;
  miras__cuda_parts_in(miras__cuda_session_of(s), 0);
  return miras_cuda_session_reset(s, -1, stream);
}

/* Operations first..first + count - 1 of a layer, shared out by so many columns, or by tiles alone.
 * Texts that bring a token each are rows of one sequence, unless an operation looks at texts:
 * weights are read once for 64 of them. */
static void miras__cuda_columns(miras__held_trainer *t, const miras__phase *all, int first,
                                int count, size_t columns, int text) {
  const size_t batch = (size_t)t->tr.batch;
  const int single = all->all.length == 1 && !text;
  miras__phase ph = *all;
  miras_cuda::miras__columns by;
  size_t tiles;
  if (!count) return;
  if (single) ph.all.length = batch, ph.per = miras__tiles(batch);
  tiles = single ? ph.per : batch * ph.per;
  by.first = first, by.count = count;
  by.each = columns ? tiles > 64 || ph.all.length > 8 ? 64 : 32 : 1;
  by.tasks = columns ? (columns + by.each - 1) / by.each : 1;
  by.rows = 0;
  miras__cuda_tasks(t, miras_cuda::MIRAS__COLUMNS, tiles * by.tasks, &ph, &by);
}

/* The columns of an operation that is worth sharing out, of products whose weights are many; 0:
 * another. */
static size_t miras__cuda_wide(const miras__program *p, const miras__op *o) {
  const miras__param *w = miras__param_of(p, o->param);
  if (o->what == MIRAS__OP_BRANCH) return w->rows > 64 ? p->width : 0;
  return o->what == MIRAS__OP_TIMES && w->rows > 64 ? miras__columns_of(p, w) : 0;
}

/* A phase of tiles. What comes before a product that is shared out goes with it, if it is a task's
 * own; products of the same rows go together. */
static void miras__cuda_tiles(miras__held_trainer *t, const miras__phase *ph,
                              const miras__phase_of *now) {
  const miras__program *p = ph->all.layer->p;
  const int end = now->first + now->count;
  int from = now->first, i = from, j;
  while (i < end) {
    const miras__op *o = &p->op[i];
    size_t columns = now->text ? 0 : miras__cuda_wide(p, o);
    if (!columns) {
      i++;
      continue;
    }
    for (j = i; j > from && p->array[p->op[j - 1].out].value.life == MIRAS__TASK;) j--;
    miras__cuda_columns(t, ph, from, j - from, 0, 0);
    for (i++; i < end && miras__cuda_wide(p, &p->op[i]) && p->op[i].in[0] == o->in[0] &&
              p->op[i].what == o->what; i++)
      columns = miras__larger(columns, miras__cuda_wide(p, &p->op[i]));
    miras__cuda_columns(t, ph, j, i - j, columns, 0);
    from = i;
  }
  miras__cuda_columns(t, ph, from, end - from, 0, now->text);
}

/* Layer l of all texts. */
static void miras__cuda_layer(miras__held_trainer *t, miras__phase *ph, int l) {
  const miras__program *p = t->there.m->layers[l].p;
  miras__layer_of(ph, l);
  for (ph->act = 0; ph->act < p->phases; ph->act++) {
    const miras__phase_of *now = &p->phase[ph->act];
    if (now->heads || now->segments)
      miras__cuda_tasks(t, miras_cuda::MIRAS__LAYER_TASK,
                        (size_t)t->tr.batch * miras__tasks_now(ph), ph, NULL);
    else miras__cuda_tiles(t, ph, now);
  }
}

miras_result miras_cuda_session_feed(miras_cuda_session *s, const int32_t *tokens,
                                     const float *vectors, int length, float *logits, int rows,
                                     cudaStream_t stream) {
  miras__held_trainer *t = s ? miras__cuda_session_of(s) : NULL;
  const miras_row *row = s ? &t->there.m->row : NULL;
  miras__phase ph;
  miras__jobs jobs;
  miras_cuda::miras__columns by;
  size_t batch;
  int l;
  if (!s || (row->tokens && !tokens) || (row->vectors && !vectors) || length < 1 ||
      length > t->tr.desc.context || rows < 0 || rows > length || rows > MIRAS__TILE ||
      (rows && !logits))
    return MIRAS_ERR_ARGUMENT;
  batch = (size_t)t->tr.batch;
  t->stream = stream;
  t->tr.length = length;
  t->tr.logits = logits;
  t->failed = !miras__cuda_bring(t->tr.tokens, tokens, batch * (size_t)length, row->tokens,
                                 stream) ||
              !miras__cuda_bring(t->tr.vectors, vectors, batch * (size_t)length, row->vectors,
                                 stream);
  miras__phase_begin(&ph, &jobs, &t->tr, 0);
  miras__cuda_tasks(t, miras_cuda::MIRAS__TEXT_BEGIN, batch, &ph, NULL);
  miras__cuda_tasks(t, miras_cuda::MIRAS__TILE_BEGIN, jobs.tiles, &ph, NULL);
  for (l = 0; l < t->there.m->desc.layers; l++) miras__cuda_layer(t, &ph, l);
  memset(&by, 0, sizeof by);
  by.tasks = (t->there.m->outs + miras_cuda::MIRAS__TEXT_COLS - 1) / miras_cuda::MIRAS__TEXT_COLS;
  by.rows = (size_t)rows;
  if (rows)
    miras__cuda_tasks(t, miras_cuda::MIRAS__TEXT_END,
                      (length == 1 ? miras__tiles(batch) : batch) * by.tasks, &ph, &by);
  miras__cuda_tasks(t, miras_cuda::MIRAS__TEXT_MOVED, batch, &ph, NULL);
  return t->failed ? MIRAS_ERR_DEVICE : MIRAS_OK;
}

void *miras_cuda_session_state(const miras_cuda_session *s, int text, size_t *bytes) {
  const miras__held_trainer *t = s ? miras__cuda_session_of(s) : NULL;
  const int there = s && text >= 0 && text < t->tr.batch;
  if (bytes) *bytes = there ? t->there.m->run * sizeof(float) : 0;
  return there ? t->tr.streams + (size_t)text * t->there.m->run : NULL;
}

miras_result miras_cuda_session_reset(miras_cuda_session *s, int text, cudaStream_t stream) {
  size_t bytes;
  void *state = miras_cuda_session_state(s, text < 0 ? 0 : text, &bytes);
  if (!state) return MIRAS_ERR_ARGUMENT;
  if (text < 0) bytes *= (size_t)miras__cuda_session_of(s)->tr.batch;
  return cudaMemsetAsync(state, 0, bytes, stream) == cudaSuccess ? MIRAS_OK : MIRAS_ERR_DEVICE;
}
#endif
#endif   /* MIRAS_NO_MODEL */
#endif   /* MIRAS_CUDA_NO_REFERENCE */

#ifdef MIRAS_CUDA_FAST
/* ======== the fast tier: kernels ========
 *
 * One launch an operation, 16 bytes an access, bfloat16 rows and float sums; every sum has one
 * order, fixed by the sizes of the call, and no float is added to by two threads. Rows are those of
 * all sequences of a call, [N, ld], ld a multiple of 8; heads of a row lie side by side. */
#if !defined(MIRAS_NO_MODEL) && !defined(MIRAS_NO_TRAINING)
#ifdef __GNUC__
  #pragma GCC diagnostic push
  #pragma GCC diagnostic ignored "-Wsubobject-linkage"
#endif
namespace { namespace miras_fast {

typedef uint16_t bf16;

#ifdef __CUDACC__
extern __shared__ __align__(16) unsigned char miras__fast_room[];
#else
  #define miras__fast_room ((unsigned char *)shim_shared)
#endif

#ifdef __CUDACC__
  #define MIRAS__ALL_OF _Pragma("unroll")
#else
  #define MIRAS__ALL_OF
#endif

/* A grid whose blocks have so many threads, and so many of them share a multiprocessor at least. */
#define MIRAS__FAST_GRID(threads, blocks) \
  static __global__ void __launch_bounds__(threads, blocks)

enum {
  MIRAS__FAST_THREADS = 256,         /* of a block of row kernels and of dense products           */
  MIRAS__FAST_STRIP = 64,            /* rows whose sums are one number                            */
  MIRAS__FAST_CHUNK = 64,            /* tokens of a chunk                                         */
  MIRAS__FAST_LD = 72                /* between rows of a square of a chunk                       */
};

/* ---- numbers ---- */

__device__ static inline float miras__of_low(unsigned x) { return __int_as_float((int)(x << 16)); }
__device__ static inline float miras__of_high(unsigned x) {
  return __int_as_float((int)(x & 0xffff0000u));
}
__device__ static inline unsigned miras__halves(float low, float high) {
#ifndef __CUDACC__
  return shim_halves(low, high);
#else
  unsigned both = 0;
  #if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  #endif
  return both;
#endif
}
__device__ static inline float miras__wide(bf16 x) { return miras__of_low(x); }
__device__ static inline bf16 miras__near(float x) { return (bf16)(miras__halves(x, 0) & 0xffffu); }

/* Eight numbers, of a place that is aligned to 16 bytes; and of floats. */
__device__ static inline void miras__get8(float x[8], const bf16 *p) {
  const uint4 u = *(const uint4 *)(const void *)p;
  x[0] = miras__of_low(u.x), x[1] = miras__of_high(u.x);
  x[2] = miras__of_low(u.y), x[3] = miras__of_high(u.y);
  x[4] = miras__of_low(u.z), x[5] = miras__of_high(u.z);
  x[6] = miras__of_low(u.w), x[7] = miras__of_high(u.w);
}
__device__ static inline void miras__put8(bf16 *p, const float x[8]) {
  uint4 u;
  u.x = miras__halves(x[0], x[1]), u.y = miras__halves(x[2], x[3]);
  u.z = miras__halves(x[4], x[5]), u.w = miras__halves(x[6], x[7]);
  *(uint4 *)(void *)p = u;
}
__device__ static inline void miras__get8(float x[8], const float *p) {
  const float4 a = *(const float4 *)(const void *)p, b = *(const float4 *)(const void *)(p + 4);
  x[0] = a.x, x[1] = a.y, x[2] = a.z, x[3] = a.w;
  x[4] = b.x, x[5] = b.y, x[6] = b.z, x[7] = b.w;
}

__device__ static inline float miras__logistic(float x) { return 1 / (1 + expf(-x)); }
__device__ static inline float miras__softened(float x) {   /* log(1 + exp x) */
  return x > 20 ? x : log1pf(expf(x));
}

/* f(x) and its slope, of the functions that layers take by name. */
__device__ static inline float miras__fast_f(int f, float x, float *slope) {
  float s, y;
  switch (f) {
    case MIRAS_FN_SILU:
      s = miras__logistic(x);
      *slope = s * (1 + x * (1 - s));
      return x * s;
    case MIRAS_FN_SIGMOID:
      s = miras__logistic(x);
      *slope = s * (1 - s);
      return s;
    case MIRAS_FN_RELU:
      *slope = x > 0 ? 1.0f : 0.0f;
      return x > 0 ? x : 0;
    case MIRAS_FN_RELU2:
      *slope = x > 0 ? 2 * x : 0;
      return x > 0 ? x * x : 0;
    case MIRAS_FN_ELU:
      y = expf(x > 0 ? 0 : x);
      *slope = x > 0 ? 1 : y;
      return x > 0 ? x + 1 : y;
    case MIRAS_FN_GELU:
      s = tanhf(0.7978845608f * (x + 0.044715f * x * x * x));
      *slope = 0.5f * (1 + s) + 0.5f * x * (1 - s * s) * 0.7978845608f * (1 + 0.134145f * x * x);
      return 0.5f * x * (1 + s);
    case MIRAS__TANH:
      y = tanhf(x);
      *slope = 1 - y * y;
      return y;
    default:
      *slope = 1;
      return x;
  }
}

/* Sums over groups of `lanes` lanes of a warp, a power of 2; all lanes of the warp call. */
__device__ static inline float miras__lanes_sum(float x, unsigned lanes) {
  for (unsigned k = lanes / 2; k; k /= 2) x += __shfl_xor_sync(0xffffffffu, x, k);
  return x;
}
/* Over a block, told to all its threads; room: a float for each warp. */
__device__ static inline float miras__block_sum(float x, float *room) {
  float all = 0;
  x = miras__lanes_sum(x, 32);
  __syncthreads();
  if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = x;
  __syncthreads();
  for (unsigned i = 0; i < blockDim.x / 32; i++) all += room[i];
  return all;
}
__device__ static inline float miras__block_most(float x, float *room) {
  float all;
  for (unsigned k = 16; k; k /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, k));
  __syncthreads();
  if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = x;
  __syncthreads();
  all = room[0];
  for (unsigned i = 1; i < blockDim.x / 32; i++) all = fmaxf(all, room[i]);
  return all;
}

/* ---- copies, and products of a warp ---- */

/* 16 bytes of global memory are on their way to shared memory; group: what was asked for since the
 * last one; wait: for all but the last groups. */
__device__ static inline void miras__bring16(bf16 *to, const bf16 *from) {
#ifndef __CUDACC__
  shim_copy(to, from);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
               : : "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory");
#else
  *(uint4 *)(void *)to = *(const uint4 *)(const void *)from;
#endif
}
__device__ static inline void miras__bring_group(void) {
#ifndef __CUDACC__
  shim_copies_group();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" : : : "memory");
#endif
}
template <int BUT> __device__ static inline void miras__bring_wait(void) {
#ifndef __CUDACC__
  shim_copies_wait(BUT);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" : : "n"(BUT) : "memory");
#endif
}
__device__ static inline void miras__nothing16(bf16 *to) {
  uint4 u;
  u.x = u.y = u.z = u.w = 0;
  *(uint4 *)(void *)to = u;
}

#ifdef __CUDACC__
__device__ static inline void miras__fast_load(unsigned to[4], const bf16 *row, int turned) {
  #if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  const unsigned at = (unsigned)__cvta_generic_to_shared(row);
  if (turned)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(at) : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(at) : "memory");
  #else
  to[0] = to[1] = to[2] = to[3] = 0;
  (void)row, (void)turned;
  #endif
}
__device__ static inline void miras__fast_times(float c[4], const unsigned a[4], unsigned b0,
                                                unsigned b1) {
  #if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  #else
  (void)c, (void)a, (void)b0, (void)b1;
  #endif
}
#else
  #define miras__fast_load(to, row, turned) shim_load_matrices(to, row, turned, SHIM_HERE)
  #define miras__fast_times(c, a, b0, b1) shim_multiply(c, a, b0, b1, SHIM_HERE)
#endif

/* Where a lane's row of the four 8 x 8 matrices lies that are 16 rows from `i` on by 16 of depth
 * from `k` on of a factor in shared memory: rows along memory, or depth (turned). */
__device__ static inline const bf16 *miras__left_at(const bf16 *a, unsigned ld, unsigned i,
                                                    unsigned k, int turned) {
  const unsigned lane = threadIdx.x % 32, r = lane % 8, one = lane & 8, two = lane / 16 * 8;
  return turned ? a + (k + r + two) * ld + i + one : a + (i + r + one) * ld + k + two;
}
/* The same of a right factor, [depth, columns] in memory, or turned [columns, depth]. */
__device__ static inline const bf16 *miras__right_at(const bf16 *b, unsigned ld, unsigned k,
                                                     unsigned j, int turned) {
  const unsigned lane = threadIdx.x % 32, r = lane % 8, one = lane & 8, two = lane / 16 * 8;
  return turned ? b + (j + r + two) * ld + k + one : b + (k + r + one) * ld + j + two;
}

/* c [16, 8 N] += A B of a warp, over the depth k0..k1 - 1; rows of A from i on, columns of B from j
 * on. A thread has of each 16 x 8 rows lane / 4 and 8 below, columns 2 (lane % 4) and the next. */
template <int N, int A_TURNED, int B_TURNED>
__device__ static inline void miras__warp_times(float (*c)[4], const bf16 *a, unsigned lda,
                                                unsigned i, const bf16 *b, unsigned ldb,
                                                unsigned j, unsigned k0, unsigned k1) {
  const bf16 *pa = miras__left_at(a, lda, i, k0, A_TURNED);
  const bf16 *pb = miras__right_at(b, ldb, k0, j, B_TURNED);
  for (unsigned k = k0; k < k1; k += 16) {
    unsigned x[4], y[4];
    miras__fast_load(x, pa, A_TURNED);
    MIRAS__ALL_OF for (int n = 0; n < N; n += 2) {
      miras__fast_load(y, pb + (B_TURNED ? 8u * (unsigned)n * ldb : 8u * (unsigned)n), !B_TURNED);
      miras__fast_times(c[n], x, y[0], y[1]);
      miras__fast_times(c[n + 1], x, y[2], y[3]);
    }
    pa += A_TURNED ? 16 * lda : 16;
    pb += B_TURNED ? 16 : 16 * ldb;
  }
}
template <int N> __device__ static inline void miras__clear(float (*c)[4]) {
  MIRAS__ALL_OF for (int n = 0; n < N; n++) c[n][0] = c[n][1] = c[n][2] = c[n][3] = 0;
}
__device__ static inline void miras__put2(bf16 *p, float low, float high) {
  *(unsigned *)(void *)p = miras__halves(low, high);
}

/* ---- G: dense products ----
 *
 * C [m, n] = or += A B: 128 x 128 of C a block, 32 of the depth a step, three steps on their way;
 * a warp has 64 x 32. A turned lies [depth, m], B turned [n, depth]. Rows and columns behind the
 * ends are zeros; lds and the places are multiples of 8. parts > 1: a block has a part of the depth
 * and leaves it at `sums`, [parts, m, n] floats, which a grid of their own adds up. */
typedef struct miras__fast_product {
  const bf16 *a, *b, *base, *bias;   /* base: C = base + ..., rows ldc apart; bias [n]            */
  bf16 *c;
  float *wide, *sums;                /* in the place of c                                         */
  unsigned lda, ldb, ldc, m, n, k, across, parts;
  int adds;                          /* C += ...                                                  */
} miras__fast_product;

enum { MIRAS__PRODUCT_STAGE = 2 * 128 * 40, MIRAS__PRODUCT_BYTES = 3 * 2 * MIRAS__PRODUCT_STAGE };

/* A tile of 128 rows by 32 of depth is on its way, or turned 32 by 128. */
template <int TURNED>
__device__ static inline void miras__tile_bring(bf16 *to, const bf16 *from, unsigned ld,
                                                unsigned i0, unsigned m, unsigned k0, unsigned k1) {
  for (unsigned e = threadIdx.x; e < 512; e += MIRAS__FAST_THREADS) {
    const unsigned r = TURNED ? e / 16 : e / 4, c = TURNED ? e % 16 * 8 : e % 4 * 8;
    const unsigned row = (TURNED ? k0 : i0) + r, col = (TURNED ? i0 : k0) + c;
    bf16 *at = to + (TURNED ? r * 136 + c : r * 40 + c);
    if (row < (TURNED ? k1 : m) && col < (TURNED ? m : k1))
      miras__bring16(at, from + (size_t)row * ld + col);
    else miras__nothing16(at);
  }
}

/* Numbers behind the depth's end are of other columns: one of the factors has zeros there. */
__device__ static inline void miras__tile_end(bf16 *tile, unsigned k0, unsigned k1) {
  const unsigned end = k1 - k0;
  if (end >= 32 || end % 8 == 0) return;
  for (unsigned r = threadIdx.x; r < 128; r += MIRAS__FAST_THREADS)
    for (unsigned c = end; c % 8; c++) tile[r * 40 + c] = 0;
}

template <int A_TURNED, int B_TURNED>
MIRAS__FAST_GRID(256, 1) miras__run_fast_product(const __grid_constant__ miras__fast_product x) {
  bf16 *const room = (bf16 *)(void *)miras__fast_room;
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const unsigned part = blockIdx.x % x.parts, tile = blockIdx.x / x.parts;
  const unsigned i0 = tile / x.across * 128, j0 = tile % x.across * 128;
  const unsigned each = ((x.k + 31) / 32 + x.parts - 1) / x.parts * 32;
  const unsigned k0 = part * each, k1 = k0 + each < x.k ? k0 + each : x.k;
  const unsigned steps = k1 > k0 ? (k1 - k0 + 31) / 32 : 0;
  const unsigned wi = warp / 4 * 64, wj = warp % 4 * 32;
  float c[4][4][4];
  unsigned s, i, n, h;
  MIRAS__ALL_OF for (i = 0; i < 4; i++) miras__clear<4>(c[i]);
  for (s = 0; s < 2; s++) {
    bf16 *const to = room + s * MIRAS__PRODUCT_STAGE;
    if (s < steps) {
      miras__tile_bring<A_TURNED>(to, x.a, x.lda, i0, x.m, k0 + 32 * s, k1);
      miras__tile_bring<!B_TURNED>(to + 5120, x.b, x.ldb, j0, x.n, k0 + 32 * s, k1);
    }
    miras__bring_group();
  }
  for (s = 0; s < steps; s++) {
    bf16 *const now = room + s % 3 * MIRAS__PRODUCT_STAGE;
    bf16 *const to = room + (s + 2) % 3 * MIRAS__PRODUCT_STAGE;
    miras__bring_wait<1>();
    __syncthreads();
    if ((k1 & 7) && s + 1 == steps) {
      if (!A_TURNED) miras__tile_end(now, k0 + 32 * s, k1);
      if (B_TURNED) miras__tile_end(now + 5120, k0 + 32 * s, k1);
      __syncthreads();
    }
    if (s + 2 < steps) {
      miras__tile_bring<A_TURNED>(to, x.a, x.lda, i0, x.m, k0 + 32 * (s + 2), k1);
      miras__tile_bring<!B_TURNED>(to + 5120, x.b, x.ldb, j0, x.n, k0 + 32 * (s + 2), k1);
    }
    miras__bring_group();
    if (i0 + wi < x.m && j0 + wj < x.n)
      MIRAS__ALL_OF for (i = 0; i < 4; i++)
        if (i0 + wi + 16 * i < x.m)
          miras__warp_times<4, A_TURNED, B_TURNED>(
            c[i], now, A_TURNED ? 136 : 40, wi + 16 * i, now + 5120, B_TURNED ? 40 : 136, wj, 0,
            k1 - k0 - 32 * s > 16 ? 32 : 16);
  }
  miras__bring_wait<0>();
  MIRAS__ALL_OF for (i = 0; i < 4; i++)
    MIRAS__ALL_OF for (h = 0; h < 2; h++)
      MIRAS__ALL_OF for (n = 0; n < 4; n++) {
        const unsigned row = i0 + wi + 16 * i + 8 * h + lane / 4;
        const unsigned col = j0 + wj + 8 * n + 2 * (lane % 4);
        float u = c[i][n][2 * h], v = c[i][n][2 * h + 1];
        const int two = col + 1 < x.n;
        if (row >= x.m || col >= x.n) continue;
        if (x.bias) u += miras__wide(x.bias[col]), v += two ? miras__wide(x.bias[col + 1]) : 0;
        if (x.base) {
          const bf16 *const p = x.base + (size_t)row * x.ldc + col;
          u += miras__wide(p[0]), v += two ? miras__wide(p[1]) : 0;
        }
        if (x.sums) {
          float *const p = x.sums + ((size_t)part * x.m + row) * x.n + col;
          p[0] = u;
          if (two) p[1] = v;
        } else if (x.wide) {
          float *const p = x.wide + (size_t)row * x.ldc + col;
          p[0] = x.adds ? p[0] + u : u;
          if (two) p[1] = x.adds ? p[1] + v : v;
        } else {
          bf16 *const p = x.c + (size_t)row * x.ldc + col;
          if (x.adds) u += miras__wide(p[0]), v += two ? miras__wide(p[1]) : 0;
          if (two) miras__put2(p, u, v);
          else p[0] = miras__near(u);
        }
      }
}

/* to [m, n] floats += the parts of them, in order. */
typedef struct miras__fast_parts {
  float *to;
  const float *sums;
  size_t n;
  unsigned parts;
} miras__fast_parts;
MIRAS__FAST_GRID(256, 4) miras__run_fast_parts(const __grid_constant__ miras__fast_parts x) {
  const size_t i = (size_t)blockIdx.x * MIRAS__FAST_THREADS + threadIdx.x;
  float all = 0;
  if (i >= x.n) return;
  for (unsigned p = 0; p < x.parts; p++) all += x.sums[p * x.n + i];
  x.to[i] += all;
}

/* ---- R: rows ---- */

/* Norms of each of `heads` heads of n columns, as room @29 has them: root mean squares or, with a
 * bias, layer norms, with a gain and, where there is one, a gate. step: between the gains of heads.
 * Back, d is the gradient of y; dx = base + ..., which may be each other's place; stats [rows,
 * heads] receive mean and 1 / deviation. A group of lanes has a row of a head. */
typedef struct miras__fast_norm {
  const bf16 *x, *gate, *d, *base;
  bf16 *y, *dx, *dgate;
  const float *gain, *bias;
  float *stats, epsilon;
  unsigned ldx, ldy, ld_gate, ldd, ld_base, ld_dx, ld_dgate, items, heads, n, step, lanes;
  int function;
} miras__fast_norm;

/* Mean and 1 / deviation of a row; of rows that there are not, of zeros. */
__device__ static inline void miras__fast_stats(const miras__fast_norm *a, const bf16 *x,
                                                unsigned lane, int in, float *mean,
                                                float *inverse) {
  const float n = (float)a->n;
  float v[8], sum = 0;
  unsigned c, e;
  *mean = 0;
  if (a->bias) {
    for (c = 8 * lane; in && c < a->n; c += 8 * a->lanes) {
      miras__get8(v, x + c);
      for (e = 0; e < 8; e++) sum += v[e];
    }
    *mean = miras__lanes_sum(sum, a->lanes) / n;
    sum = 0;
  }
  for (c = 8 * lane; in && c < a->n; c += 8 * a->lanes) {
    miras__get8(v, x + c);
    for (e = 0; e < 8; e++) sum += (v[e] - *mean) * (v[e] - *mean);
  }
  *inverse = 1 / sqrtf(miras__lanes_sum(sum, a->lanes) / n + a->epsilon);
}

MIRAS__FAST_GRID(256, 4) miras__run_fast_norm(const __grid_constant__ miras__fast_norm a) {
  const unsigned lane = threadIdx.x % a.lanes, each = MIRAS__FAST_THREADS / a.lanes;
  const unsigned item = blockIdx.x * each + threadIdx.x / a.lanes, in = item < a.items;
  const unsigned row = in ? item / a.heads : 0, h = in ? item % a.heads : 0;
  const bf16 *const x = a.x + (size_t)row * a.ldx + h * a.n;
  float v[8], g[8], w[8], mean, inverse, slope;
  unsigned c, e;
  miras__fast_stats(&a, x, lane, (int)in, &mean, &inverse);
  for (c = 8 * lane; in && c < a.n; c += 8 * a.lanes) {
    miras__get8(v, x + c);
    if (a.gain) miras__get8(w, a.gain + h * a.step + c);
    for (e = 0; e < 8; e++) v[e] = (v[e] - mean) * inverse * (a.gain ? w[e] : 1);
    if (a.bias) miras__get8(w, a.bias + h * a.step + c);
    for (e = 0; a.bias && e < 8; e++) v[e] += w[e];
    if (a.gate) miras__get8(g, a.gate + (size_t)row * a.ld_gate + h * a.n + c);
    for (e = 0; a.gate && e < 8; e++) v[e] *= miras__fast_f(a.function, g[e], &slope);
    miras__put8(a.y + (size_t)row * a.ldy + h * a.n + c, v);
  }
}

MIRAS__FAST_GRID(256, 4) miras__run_fast_norm_back(const __grid_constant__ miras__fast_norm a) {
  const unsigned lane = threadIdx.x % a.lanes, each = MIRAS__FAST_THREADS / a.lanes;
  const unsigned item = blockIdx.x * each + threadIdx.x / a.lanes, in = item < a.items;
  const unsigned row = in ? item / a.heads : 0, h = in ? item % a.heads : 0;
  const bf16 *const x = a.x + (size_t)row * a.ldx + h * a.n;
  const bf16 *const d = a.d + (size_t)row * a.ldd + h * a.n;
  const bf16 *const gate = a.gate ? a.gate + (size_t)row * a.ld_gate + h * a.n : NULL;
  const float *const gain = a.gain ? a.gain + h * a.step : NULL;
  float v[8], g[8], t[8], mean, inverse, slope, along = 0, means = 0;
  unsigned c, e;
  miras__fast_stats(&a, x, lane, (int)in, &mean, &inverse);
  for (c = 8 * lane; in && c < a.n; c += 8 * a.lanes) {
    miras__get8(v, x + c);
    miras__get8(t, d + c);
    if (gate) miras__get8(g, gate + c);
    for (e = 0; e < 8; e++) {        /* g becomes its gradient                                    */
      const float w = gain ? gain[c + e] : 1, z = v[e] - mean;
      if (gate) {
        const float f = miras__fast_f(a.function, g[e], &slope);
        const float bias = a.bias ? a.bias[h * a.step + c + e] : 0;
        g[e] = t[e] * (z * inverse * w + bias) * slope;
        t[e] *= f;
      }
      means += t[e] * w, along += t[e] * w * z;
    }
    if (gate) miras__put8(a.dgate + (size_t)row * a.ld_dgate + h * a.n + c, g);
  }
  along = miras__lanes_sum(along, a.lanes) / (float)a.n * inverse;
  means = a.bias ? miras__lanes_sum(means, a.lanes) / (float)a.n : 0;
  if (in && !lane) a.stats[2 * item] = mean, a.stats[2 * item + 1] = inverse;
  for (c = 8 * lane; in && c < a.n; c += 8 * a.lanes) {
    miras__get8(v, x + c);
    miras__get8(t, d + c);
    if (gate) miras__get8(g, gate + c);
    for (e = 0; e < 8; e++) {
      if (gate) t[e] *= miras__fast_f(a.function, g[e], &slope);
      v[e] = (v[e] - mean) * inverse * along;
      t[e] = inverse * (t[e] * (gain ? gain[c + e] : 1) - means - v[e]);
    }
    if (a.base) {
      miras__get8(v, a.base + (size_t)row * a.ld_base + h * a.n + c);
      for (e = 0; e < 8; e++) t[e] += v[e];
    }
    miras__put8(a.dx + (size_t)row * a.ld_dx + h * a.n + c, t);
  }
}

/* Sums over strips of rows, [strips, sets, cols], of d [rows, cols]:
 *   PLAIN   d                                      GAIN   d f(gate) z, and d f(gate) (set 1)
 *   TIMES   d x                                    CONV   d x of the row `taps - 1 - set` before in
 *                                                         its text, and d (set taps)
 * A thread has eight columns of every eighth row of the strip. */
enum { MIRAS__SUM_PLAIN, MIRAS__SUM_GAIN, MIRAS__SUM_TIMES, MIRAS__SUM_CONV };
typedef struct miras__fast_sums {
  const bf16 *d, *x, *gate;
  const float *stats;
  float *to;
  unsigned ldd, ldx, ld_gate, rows, cols, n, heads, sets, taps, length, across;
  int what, function;
} miras__fast_sums;
MIRAS__FAST_GRID(256, 4) miras__run_fast_sums(const __grid_constant__ miras__fast_sums a) {
  float *const room = (float *)(void *)miras__fast_room;
  const unsigned strip = blockIdx.x / a.across, c = blockIdx.x % a.across * 256 +
                                                    threadIdx.x % 32 * 8;
  const unsigned first = strip * MIRAS__FAST_STRIP, set_end = a.sets;
  for (unsigned set = 0; set < set_end; set++) {
    float all[8] = {0, 0, 0, 0, 0, 0, 0, 0}, d[8], v[8];
    const unsigned back = a.what == MIRAS__SUM_CONV && set < a.taps ? a.taps - 1 - set : 0;
    for (unsigned r = threadIdx.x / 32; r < MIRAS__FAST_STRIP && c < a.cols; r += 8) {
      const unsigned row = first + r;
      unsigned e;
      if (row >= a.rows) break;
      if (back && row % a.length < back) continue;
      miras__get8(d, a.d + (size_t)row * a.ldd + c);
      if (a.gate) {
        float slope;
        miras__get8(v, a.gate + (size_t)row * a.ld_gate + c);
        for (e = 0; e < 8; e++) d[e] *= miras__fast_f(a.function, v[e], &slope);
      }
      if (a.what == MIRAS__SUM_GAIN && !set) {
        const float *const s = a.stats + 2 * ((size_t)row * a.heads + c / a.n);
        miras__get8(v, a.x + (size_t)row * a.ldx + c);
        for (e = 0; e < 8; e++) d[e] *= (v[e] - s[0]) * s[1];
      } else if (a.what == MIRAS__SUM_TIMES || (a.what == MIRAS__SUM_CONV && set < a.taps)) {
        miras__get8(v, a.x + (size_t)(row - back) * a.ldx + c);
        for (e = 0; e < 8; e++) d[e] *= v[e];
      }
      for (e = 0; e < 8; e++) all[e] += d[e];
    }
    __syncthreads();
    for (unsigned e = 0; e < 8; e++) room[threadIdx.x * 8 + e] = all[e];
    __syncthreads();
    if (blockIdx.x % a.across * 256 + threadIdx.x < a.cols) {
      float sum = 0;
      for (unsigned r = 0; r < 8; r++) sum += room[r * 256 + threadIdx.x];
      a.to[((size_t)strip * a.sets + set) * a.cols + blockIdx.x % a.across * 256 + threadIdx.x] =
        sum;
    }
  }
}

/* to[i] += of all strips, in order, and of `folds` columns each: those first + i step + k apart. */
typedef struct miras__fast_fold {
  float *to;
  const float *from;
  unsigned n, strips, stride, first, step, folds, apart;
} miras__fast_fold;
MIRAS__FAST_GRID(256, 4) miras__run_fast_fold(const __grid_constant__ miras__fast_fold a) {
  const unsigned i = blockIdx.x * MIRAS__FAST_THREADS + threadIdx.x;
  float all = 0;
  if (i >= a.n) return;
  for (unsigned s = 0; s < a.strips; s++)
    for (unsigned k = 0; k < a.folds; k++)
      all += a.from[(size_t)s * a.stride + a.first + i * a.step + k * a.apart];
  a.to[i] += all;
}

/* Maps of eight columns a thread: y, z of x, u, d. */
enum {
  MIRAS__MAP_COPY,                   /* y = s x                                                   */
  MIRAS__MAP_ADD,                    /* y = x + s u                                               */
  MIRAS__MAP_TIMES,                  /* y = x u                                                   */
  MIRAS__MAP_TIMES_BACK,             /* y = d u, z = d x                                          */
  MIRAS__MAP_GATE,                   /* y = x f(u)                                                */
  MIRAS__MAP_GATE_BACK,              /* y = d f(u), z = d x f'(u)                                 */
  MIRAS__MAP_F,                      /* y = f(x)                                                  */
  MIRAS__MAP_F_BACK,                 /* y = d f'(x)                                               */
  MIRAS__MAP_SQUASH_BACK,            /* y = d times the slope where f made x: of tanh, sigmoid    */
  MIRAS__MAP_SKIP                    /* y = x + w u, w of columns or (per > 0) of `per` of them   */
};
typedef struct miras__fast_map {
  const bf16 *x, *u, *d;
  bf16 *y, *z;
  const float *w;
  float scale;
  unsigned ldx, ldu, ldd, ldy, ldz, per, eights;
  size_t items;
  int what, function, adds, adds_z;
} miras__fast_map;
MIRAS__FAST_GRID(256, 4) miras__run_fast_map(const __grid_constant__ miras__fast_map a) {
  const size_t item = (size_t)blockIdx.x * MIRAS__FAST_THREADS + threadIdx.x;
  const size_t row = item / a.eights;
  const unsigned c = (unsigned)(item % a.eights) * 8;
  float x[8], u[8], d[8], z[8], slope;
  unsigned e;
  if (item >= a.items) return;
  if (a.x) miras__get8(x, a.x + row * a.ldx + c);
  if (a.u) miras__get8(u, a.u + row * a.ldu + c);
  if (a.d) miras__get8(d, a.d + row * a.ldd + c);
  for (e = 0; e < 8; e++)
    switch (a.what) {
      case MIRAS__MAP_COPY: x[e] *= a.scale; break;
      case MIRAS__MAP_ADD: x[e] += a.scale * u[e]; break;
      case MIRAS__MAP_TIMES: x[e] *= u[e]; break;
      case MIRAS__MAP_TIMES_BACK: z[e] = d[e] * x[e], x[e] = d[e] * u[e]; break;
      case MIRAS__MAP_GATE: x[e] *= miras__fast_f(a.function, u[e], &slope); break;
      case MIRAS__MAP_GATE_BACK: {
        const float f = miras__fast_f(a.function, u[e], &slope);
        z[e] = d[e] * x[e] * slope, x[e] = d[e] * f;
        break;
      }
      case MIRAS__MAP_F: x[e] = miras__fast_f(a.function, x[e], &slope); break;
      case MIRAS__MAP_F_BACK:
        (void)miras__fast_f(a.function, x[e], &slope);
        x[e] = d[e] * slope;
        break;
      case MIRAS__MAP_SQUASH_BACK:
        x[e] = d[e] * (a.function == MIRAS__TANH ? 1 - x[e] * x[e] : x[e] * (1 - x[e]));
        break;
      case MIRAS__MAP_SKIP: x[e] += a.w[a.per ? (c + e) / a.per : c + e] * u[e]; break;
      default: break;
    }
  if (a.adds) miras__get8(d, a.y + row * a.ldy + c);
  for (e = 0; a.adds && e < 8; e++) x[e] += d[e];
  miras__put8(a.y + row * a.ldy + c, x);
  if (!a.z) return;
  if (a.adds_z) miras__get8(d, a.z + row * a.ldz + c);
  for (e = 0; a.adds_z && e < 8; e++) z[e] += d[e];
  miras__put8(a.z + row * a.ldz + c, z);
}

/* Convolution, function and length of rows of heads (room @29's conv, qk_norm): y = len(f(sum over
 * taps + b)), each head's sum of squares (length > 0) or of sizes (below 0) being that length, or y
 * times `scale` (length 0). taps 0: x itself, which may be y. inverse [rows, heads]: what lengths
 * were multiplied by. A group of lanes has a row of a head.
 * Back: d [rows, heads group n], whose heads are added up in groups, becomes dz of what is in front
 * of f. */
typedef struct miras__fast_conv {
  const bf16 *x, *d;
  bf16 *y;
  const float *w, *bias;
  float *inverse, length, scale;
  unsigned ldx, ldy, ldd, items, heads, group, n, lanes, taps, tokens;
  int function, adds;
} miras__fast_conv;

__device__ static inline void miras__fast_conv_sum(const miras__fast_conv *a, unsigned row,
                                                   unsigned c, float sum[8]) {
  const unsigned cols = a->heads * a->n, t = row % a->tokens;
  float v[8], w[8];
  unsigned j, e;
  if (!a->taps) {
    miras__get8(sum, a->x + (size_t)row * a->ldx + c);
    return;
  }
  for (e = 0; e < 8; e++) sum[e] = 0;
  if (a->bias) miras__get8(sum, a->bias + c);
  for (j = t + 1 < a->taps ? a->taps - 1 - t : 0; j < a->taps; j++) {
    miras__get8(v, a->x + (size_t)(row + j + 1 - a->taps) * a->ldx + c);
    miras__get8(w, a->w + (size_t)j * cols + c);
    for (e = 0; e < 8; e++) sum[e] += w[e] * v[e];
  }
}
MIRAS__FAST_GRID(256, 4) miras__run_fast_conv(const __grid_constant__ miras__fast_conv a) {
  const unsigned lane = threadIdx.x % a.lanes, each = MIRAS__FAST_THREADS / a.lanes;
  const unsigned item = blockIdx.x * each + threadIdx.x / a.lanes;
  const int in = item < a.items && 8 * lane < a.n;
  const unsigned row = in ? item / a.heads : 0, c = (in ? item % a.heads : 0) * a.n + 8 * lane;
  float v[8], slope, all = 0, by = a.scale;
  unsigned e;
  if (in) miras__fast_conv_sum(&a, row, c, v);
  for (e = 0; in && e < 8; e++) {
    v[e] = miras__fast_f(a.function, v[e], &slope);
    all += a.length > 0 ? v[e] * v[e] : fabsf(v[e]);
  }
  if (a.length > 0) {
    by = a.length / sqrtf(miras__lanes_sum(all, a.lanes) + MIRAS__UNIT_EPS);
  } else if (a.length < 0) {
    all = miras__lanes_sum(all, a.lanes);
    by = -a.length / (all > MIRAS__UNIT_EPS ? all : MIRAS__UNIT_EPS);
  }
  if (!in) return;
  for (e = 0; e < 8; e++) v[e] *= by;
  miras__put8(a.y + (size_t)row * a.ldy + c, v);
  if (a.inverse && !lane) a.inverse[item] = by;
}

/* dz in the place of y, or added to it. With a length y of the forward pass is x with taps 0: the
 * two steps of the way back are two calls. */
MIRAS__FAST_GRID(256, 4) miras__run_fast_conv_back(const __grid_constant__ miras__fast_conv a) {
  const unsigned lane = threadIdx.x % a.lanes, each = MIRAS__FAST_THREADS / a.lanes;
  const unsigned item = blockIdx.x * each + threadIdx.x / a.lanes;
  const int in = item < a.items && 8 * lane < a.n;
  const unsigned row = in ? item / a.heads : 0, h = in ? item % a.heads : 0;
  const unsigned c = h * a.n + 8 * lane;
  float d[8], v[8], slope;
  unsigned e, j;
  for (e = 0; e < 8; e++) d[e] = v[e] = 0;
  for (j = 0; in && j < a.group; j++) {
    miras__get8(v, a.d + (size_t)row * a.ldd + (h * a.group + j) * a.n + 8 * lane);
    for (e = 0; e < 8; e++) d[e] += v[e];
  }
  if (a.inverse) {                   /* x is what has the length                                  */
    const float by = in ? a.inverse[item] : 0, most = -a.length / MIRAS__UNIT_EPS;
    float all = 0;
    if (in) miras__get8(v, a.x + (size_t)row * a.ldx + c);
    for (e = 0; e < 8; e++) all += d[e] * v[e];
    all = miras__lanes_sum(all, a.lanes) / (a.length > 0 ? a.length * a.length : -a.length);
    if (a.length < 0 && by >= most) all = 0;
    for (e = 0; e < 8; e++)
      d[e] = by * (d[e] - all * (a.length > 0 ? v[e] : copysignf(1, v[e])));
  } else {
    if (in && a.x) miras__fast_conv_sum(&a, row, c, v);
    for (e = 0; e < 8; e++) {
      if (a.x) (void)miras__fast_f(a.function, v[e], &slope), d[e] *= slope;
      d[e] *= a.scale;
    }
  }
  if (!in) return;
  if (a.adds) miras__get8(v, a.y + (size_t)row * a.ldy + c);
  for (e = 0; a.adds && e < 8; e++) d[e] += v[e];
  miras__put8(a.y + (size_t)row * a.ldy + c, d);
}

/* dx = or += the sum over taps of dz of the rows behind, eight columns a thread. */
MIRAS__FAST_GRID(256, 4) miras__run_fast_conv_turned(const __grid_constant__ miras__fast_conv a) {
  const unsigned cols = a.heads * a.n, eights = cols / 8;
  const size_t item = (size_t)blockIdx.x * MIRAS__FAST_THREADS + threadIdx.x;
  const size_t row = item / eights;
  const unsigned c = (unsigned)(item % eights) * 8, t = (unsigned)(row % a.tokens);
  float all[8] = {0, 0, 0, 0, 0, 0, 0, 0}, v[8], w[8];
  unsigned j, e;
  if (item >= (size_t)a.items * eights) return;
  for (j = 0; j < a.taps && t + j < a.tokens; j++) {
    miras__get8(v, a.d + (row + j) * a.ldd + c);
    miras__get8(w, a.w + (size_t)(a.taps - 1 - j) * cols + c);
    for (e = 0; e < 8; e++) all[e] += w[e] * v[e];
  }
  if (a.adds) miras__get8(v, a.y + row * a.ldy + c);
  for (e = 0; a.adds && e < 8; e++) all[e] += v[e];
  miras__put8(a.y + row * a.ldy + c, all);
}

/* Gates (room @29's forms) of decays and steps: y [rows, outs] of g [rows, ld], floats; `moving`
 * of g's columns come from the token, the others are zeros. */
typedef struct miras__fast_group {
  unsigned first, from, count, offset;
  int form, learns;
  float cap, low, high;
} miras__fast_group;
typedef struct miras__fast_gates {
  miras__fast_group of[2];           /* decays, steps                                             */
  const float *g, *offset, *rate, *scale, *d;
  float *y, *to;
  bf16 *dg;
  unsigned ldg, ldy, ld_dg, rows, outs, gates, moving, rates;
} miras__fast_gates;
__device__ static inline float miras__fast_gate(const miras__fast_group *f, float g, float c,
                                                float *by_g, float *by_c) {
  const float s = miras__logistic(g), soft = miras__softened(g);
  float y, e, z;
  *by_c = 0;
  switch (f->form) {
    case MIRAS__GATE_SOFTPLUS:
      *by_g = f->cap * c * s;
      return f->cap * c * soft;
    case MIRAS__GATE_ROOT:
      y = f->cap * expf(-0.0625f * miras__softened(-g));
      *by_g = y * (1 - s) * 0.0625f;
      return y;
    case MIRAS__GATE_RATE:
      e = expf(c), y = f->cap * expf(-e * soft);
      *by_g = -y * e * s, *by_c = -y * e * soft;
      return y;
    case MIRAS__GATE_BOUNDED:
      y = f->cap * expf(-0.60653066f * s);
      *by_g = -y * 0.60653066f * s * (1 - s);
      return y;
    case MIRAS__GATE_FLOOR:
      e = miras__logistic(c);
      *by_g = f->cap * (1 - e) * s * (1 - s), *by_c = f->cap * e * (1 - e) * (1 - s);
      return f->cap * (e + (1 - e) * s);
    case MIRAS__GATE_STEEP:
      e = expf(c), z = miras__logistic(e * g), y = expf(-f->cap * z);
      *by_g = -y * f->cap * z * (1 - z) * e, *by_c = *by_g * g;
      return y;
    default:
      *by_g = f->cap * c * s * (1 - s);
      return f->cap * c * s;
  }
}
/* The number of column j of a group in a row, behind offset and bounds; held: outside of them. */
__device__ static inline float miras__fast_number(const miras__fast_gates *a,
                                                  const miras__fast_group *f, size_t row,
                                                  unsigned j, int *held) {
  float g = f->from + j < a->moving ? a->g[row * a->ldg + f->from + j] : 0;
  g += a->offset[f->offset + j];
  *held = 0;
  if (f->low < f->high) {
    *held = g <= f->low || g >= f->high;
    g = g < f->high ? g : f->high;
    g = g > f->low ? g : f->low;
  }
  return g;
}
__device__ static inline float miras__fast_factor(const miras__fast_gates *a,
                                                  const miras__fast_group *f, unsigned j) {
  return f->learns ? a->rate[j] : a->scale[f->first + j];
}
MIRAS__FAST_GRID(256, 4) miras__run_fast_gates(const __grid_constant__ miras__fast_gates a) {
  const size_t item = (size_t)blockIdx.x * MIRAS__FAST_THREADS + threadIdx.x;
  const size_t row = item / a.outs;
  const unsigned col = (unsigned)(item % a.outs);
  float by_g, by_c;
  int held;
  if (row >= a.rows) return;
  for (unsigned i = 0; i < 2; i++) {
    const miras__fast_group *const f = &a.of[i];
    const unsigned j = col - f->first;
    if (col < f->first || j >= f->count) continue;
    a.y[row * a.ldy + col] = miras__fast_gate(f, miras__fast_number(&a, f, row, j, &held),
                                              miras__fast_factor(&a, f, j), &by_g, &by_c);
  }
}
/* The gradient of a row's column of g; sum_c += that of a learned factor. */
__device__ static inline float miras__fast_dg(const miras__fast_gates *a, size_t row, unsigned col,
                                              float *sum_c) {
  float dg = 0, by_g, by_c, d, g;
  int held;
  for (unsigned i = 0; i < 2; i++) {
    const miras__fast_group *const f = &a->of[i];
    const unsigned j = col - f->from;
    if (col < f->from || j >= f->count) continue;
    g = miras__fast_number(a, f, row, j, &held);
    (void)miras__fast_gate(f, g, miras__fast_factor(a, f, j), &by_g, &by_c);
    d = a->d[row * a->ldy + f->first + j];
    if (!held) dg += d * by_g;
    if (f->learns) *sum_c += d * by_c;
  }
  return dg;
}
/* dg of a strip's rows, and its sums [strips, gates + rates]: of offsets, then of learned factors.
 * A thread has two columns of g; a tied group's numbers are another's. */
MIRAS__FAST_GRID(64, 8) miras__run_fast_gates_back(const __grid_constant__ miras__fast_gates a) {
  const unsigned across = (a.gates + 127) / 128, strip = blockIdx.x / across;
  const unsigned col = blockIdx.x % across * 128 + 2 * threadIdx.x;
  const size_t first = (size_t)strip * MIRAS__FAST_STRIP;
  float sum[2] = {0, 0}, sum_c[2] = {0, 0};
  if (col >= a.gates) return;
  for (size_t row = first; row < first + MIRAS__FAST_STRIP && row < a.rows; row++) {
    const float u = miras__fast_dg(&a, row, col, &sum_c[0]);
    const float v = col + 1 < a.gates ? miras__fast_dg(&a, row, col + 1, &sum_c[1]) : 0;
    sum[0] += u, sum[1] += v;
    if (a.dg && col < a.moving) miras__put2(a.dg + row * a.ld_dg + col, u, v);
  }
  for (unsigned i = 0; i < 2; i++)
    for (unsigned e = 0; e < 2; e++) {
      const miras__fast_group *const f = &a.of[i];
      const unsigned j = col + e - f->from;
      float *const to = a.to + (size_t)strip * (a.gates + a.rates);
      if (f->first != f->from || col + e < f->from || j >= f->count) continue;
      to[f->offset + j] = sum[e];
      if (f->learns) to[a.gates + j] = sum_c[e];
    }
}

/* Angles of positions: cosines, then sines [tokens, turn]; and rows of heads turned by them where
 * they lie: halves together (way 1) or neighbours (2); below 0 back. Eight columns a thread, or two
 * times eight. */
typedef struct miras__fast_rope {
  float *angles;
  bf16 *x;
  double slower;                     /* logarithm: a pair than the one before, the first by 1     */
  unsigned tokens, turn, period, ldx, heads, n, way;
  size_t items;
  int back;
} miras__fast_rope;
MIRAS__FAST_GRID(256, 1) miras__run_fast_angles(const __grid_constant__ miras__fast_rope a) {
  const size_t item = (size_t)blockIdx.x * MIRAS__FAST_THREADS + threadIdx.x;
  const unsigned half = a.turn / 2;
  const unsigned t = (unsigned)(item / half), i = (unsigned)(item % half);
  double turns;                      /* what is left of whole ones is exact enough for a float    */
  if (item >= a.items) return;
  turns = (double)(a.period ? t % a.period : t) * 0.15915494309189535 *
          exp(a.slower * (double)i);
  turns -= rint(turns);
#ifdef __CUDACC__
  a.angles[(size_t)t * a.turn + i] = cospif((float)(2 * turns));
  a.angles[(size_t)t * a.turn + half + i] = sinpif((float)(2 * turns));
#else
  a.angles[(size_t)t * a.turn + i] = (float)cos(6.283185307179586 * turns);
  a.angles[(size_t)t * a.turn + half + i] = (float)sin(6.283185307179586 * turns);
#endif
}
MIRAS__FAST_GRID(256, 4) miras__run_fast_turn(const __grid_constant__ miras__fast_rope a) {
  const size_t item = (size_t)blockIdx.x * MIRAS__FAST_THREADS + threadIdx.x;
  const unsigned half = a.turn / 2, eights = a.way == 1 ? half / 8 : a.turn / 8;
  const unsigned c = (unsigned)(item % eights) * 8;
  const size_t at = item / eights, row = at / a.heads;
  const float *const angles = a.angles + row % a.tokens * a.turn + (a.way == 1 ? c : c / 2);
  const float sign = a.back ? -1.0f : 1.0f;
  bf16 *const x = a.x + row * a.ldx + at % a.heads * a.n + c;
  float u[8], v[8];
  unsigned e;
  if (item >= a.items) return;
  miras__get8(u, x);
  if (a.way == 1) {
    miras__get8(v, x + half);
    for (e = 0; e < 8; e++) {
      const float cs = angles[e], sn = sign * angles[half + e], p = u[e], q = v[e];
      u[e] = p * cs - q * sn, v[e] = q * cs + p * sn;
    }
    miras__put8(x + half, v);
  } else {
    for (e = 0; e < 8; e += 2) {
      const float cs = angles[e / 2], sn = sign * angles[half + e / 2], p = u[e], q = u[e + 1];
      u[e] = p * cs - q * sn, u[e + 1] = q * cs + p * sn;
    }
  }
  miras__put8(x, u);
}

/* Dropout as the host's masks have it (@29's dropout): y = base + mask x, base NULL: zero. */
typedef struct miras__fast_now {     /* what steps leave                                          */
  uint64_t steps;
  float norm, loss, unit, c[9];
  float rest[2];
} miras__fast_now;
typedef struct miras__fast_drop {
  const bf16 *base, *x;
  bf16 *y;
  const miras__fast_now *now;
  uint64_t seed, call, site;
  uint32_t limit;
  float scale;
  unsigned ld, eights;
  size_t items;
} miras__fast_drop;
__device__ static inline uint64_t miras__fast_hash(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}
MIRAS__FAST_GRID(256, 4) miras__run_fast_drop(const __grid_constant__ miras__fast_drop a) {
  const size_t item = (size_t)blockIdx.x * MIRAS__FAST_THREADS + threadIdx.x;
  const size_t row = item / a.eights;
  const unsigned c = (unsigned)(item % a.eights) * 8;
  uint64_t key;
  float x[8], u[8];
  if (item >= a.items) return;
  key = miras__fast_hash(miras__fast_hash(a.seed + a.now->steps) + a.call);
  key = miras__fast_hash(miras__fast_hash(key + a.site) + row);
  miras__get8(x, a.x + row * a.ld + c);
  if (a.base) miras__get8(u, a.base + row * a.ld + c);
  for (unsigned e = 0; e < 8; e++) {
    uint32_t m = (c + e) * 0x9e3779b1u + (uint32_t)key;
    m = (m ^ (m >> 16)) * 0x7feb352du;
    m = (m ^ (uint32_t)(key >> 32) ^ (m >> 15)) * 0x846ca68bu;
    m ^= m >> 16;
    x[e] = (a.base ? u[e] : 0) + (m >= a.limit ? a.scale * x[e] : 0);
  }
  miras__put8(a.y + row * a.ld + c, x);
}

/* The embedding: rows of floats by tokens; and its gradient, each word's rows in their order. next
 * [rows] is the next row with the same token, or rows, later [rows] whether there is one before. */
typedef struct miras__fast_embed {
  const float *table;
  const int32_t *tokens;
  bf16 *x;
  const bf16 *d;
  float *to;
  unsigned *next, *later;
  unsigned rows, width, ld;
} miras__fast_embed;
MIRAS__FAST_GRID(256, 4) miras__run_fast_embed(const __grid_constant__ miras__fast_embed a) {
  const size_t item = (size_t)blockIdx.x * MIRAS__FAST_THREADS + threadIdx.x;
  const unsigned eights = a.width / 8, c = (unsigned)(item % eights) * 8;
  const size_t row = item / eights;
  float x[8];
  if (row >= a.rows) return;
  miras__get8(x, a.table + (size_t)a.tokens[row] * a.width + c);
  miras__put8(a.x + row * a.ld + c, x);
}
MIRAS__FAST_GRID(256, 4) miras__run_fast_links(const __grid_constant__ miras__fast_embed a) {
  const unsigned row = blockIdx.x * MIRAS__FAST_THREADS + threadIdx.x;
  unsigned at = row + 1, before = row;
  if (row >= a.rows) return;
  while (at < a.rows && a.tokens[at] != a.tokens[row]) at++;
  while (before && a.tokens[before - 1] != a.tokens[row]) before--;
  a.next[row] = at;
  a.later[row] = before > 0;
}
MIRAS__FAST_GRID(256, 4) miras__run_fast_embed_back(const __grid_constant__ miras__fast_embed a) {
  const unsigned first = blockIdx.x;
  if (a.later[first]) return;
  for (unsigned c = threadIdx.x * 8; c < a.width; c += 8 * MIRAS__FAST_THREADS) {
    float *const to = a.to + (size_t)a.tokens[first] * a.width + c;
    float all[8] = {0, 0, 0, 0, 0, 0, 0, 0}, d[8];
    unsigned e;
    for (unsigned row = first; row < a.rows; row = a.next[row]) {
      miras__get8(d, a.d + (size_t)row * a.ld + c);
      for (e = 0; e < 8; e++) all[e] += d[e];
    }
    for (e = 0; e < 8; e++) to[e] += all[e];
  }
}

/* Cross entropy of rows of logits, which become their gradient where `train` asks for it; losses
 * [rows] times the row's weight. Before: how much of a gradient a row has, 1 / the weights' sum;
 * behind: their mean. One block each for the latter two. */
typedef struct miras__fast_loss {
  bf16 *x;
  const int32_t *targets;
  const float *weights;
  float *losses, *told;
  miras__fast_now *now;
  float weight;
  unsigned ld, rows, n;
  int train;
} miras__fast_loss;
MIRAS__FAST_GRID(256, 1) miras__run_fast_count(const __grid_constant__ miras__fast_loss a) {
  float *const room = (float *)(void *)miras__fast_room;
  float all = 0;
  for (unsigned row = threadIdx.x; row < a.rows; row += MIRAS__FAST_THREADS)
    if (a.targets[row] >= 0) all += a.weights ? a.weights[row] : 1;
  all = miras__block_sum(all, room);
  if (!threadIdx.x) a.now->unit = all > 0 ? a.weight / all : 0;
}
MIRAS__FAST_GRID(256, 4) miras__run_fast_loss(const __grid_constant__ miras__fast_loss a) {
  float *const room = (float *)(void *)miras__fast_room;
  const unsigned row = blockIdx.x;
  bf16 *const x = a.x + (size_t)row * a.ld;
  const int target = a.targets[row];
  const float weight = a.weights ? a.weights[row] : 1, scale = a.now->unit * weight;
  const float at = target >= 0 ? miras__wide(x[target]) : 0;
  float v[8], top = -3.0e38f, total = 0;
  unsigned c, e;
  if (target < 0 || !(scale > 0)) {
    for (e = 0; e < 8; e++) v[e] = 0;
    for (c = 8 * threadIdx.x; a.train && c < a.ld; c += 8 * MIRAS__FAST_THREADS)
      miras__put8(x + c, v);
    if (!threadIdx.x) a.losses[row] = 0;
    return;
  }
  for (c = 8 * threadIdx.x; c < a.n; c += 8 * MIRAS__FAST_THREADS) {
    miras__get8(v, x + c);
    for (e = 0; e < 8 && c + e < a.n; e++) top = fmaxf(top, v[e]);
  }
  top = miras__block_most(top, room);
  for (c = 8 * threadIdx.x; c < a.n; c += 8 * MIRAS__FAST_THREADS) {
    miras__get8(v, x + c);
    for (e = 0; e < 8 && c + e < a.n; e++) total += expf(v[e] - top);
  }
  total = miras__block_sum(total, room);
  if (!threadIdx.x) a.losses[row] = (logf(total) + top - at) * weight;
  for (c = 8 * threadIdx.x; a.train && c < a.n; c += 8 * MIRAS__FAST_THREADS) {
    miras__get8(v, x + c);
    for (e = 0; e < 8; e++)
      v[e] = c + e < a.n ? scale * (expf(v[e] - top) / total - (c + e == (unsigned)target)) : 0;
    miras__put8(x + c, v);
  }
}
MIRAS__FAST_GRID(256, 1) miras__run_fast_mean(const __grid_constant__ miras__fast_loss a) {
  float *const room = (float *)(void *)miras__fast_room;
  float all = 0;
  for (unsigned row = threadIdx.x; row < a.rows; row += MIRAS__FAST_THREADS) all += a.losses[row];
  all = miras__block_sum(all, room) * a.now->unit;
  if (threadIdx.x) return;
  a.now->loss = all;
  if (a.told) *a.told = all;
}

/* AdamW over all tensors (room @29's adamw), which also makes the bfloat16 copies that products
 * read. A block has MIRAS__ADAM_PIECE numbers of a tensor. */
enum { MIRAS__ADAM_PIECE = 2048 };
typedef struct miras__fast_tensor {
  size_t at, count, block;           /* first number in the flat block, how many, the first block */
  bf16 *copy;                        /* NULL: there is none; its rows of `cols` lie ld apart      */
  unsigned cols, ld;
  float rate;
  int decays, frozen;
} miras__fast_tensor;
typedef struct miras__fast_adam {
  float *w, *m, *v, *g, *sums, *told;
  miras__fast_now *now;
  const miras__fast_tensor *tensors;
  unsigned count, blocks;
  size_t floats;
  miras_adamw_options o;
  float rate;
  int copies;                        /* 1: nothing but the copies                                 */
} miras__fast_adam;
__device__ static inline const miras__fast_tensor *miras__fast_of(const miras__fast_adam *a) {
  unsigned low = 0, high = a->count;
  while (high - low > 1) {
    const unsigned mid = (low + high) / 2;
    if (a->tensors[mid].block <= blockIdx.x) low = mid;
    else high = mid;
  }
  return &a->tensors[low];
}
MIRAS__FAST_GRID(256, 4) miras__run_fast_squares(const __grid_constant__ miras__fast_adam a) {
  float *const room = (float *)(void *)miras__fast_room;
  const miras__fast_tensor *const t = miras__fast_of(&a);
  const size_t first = (blockIdx.x - t->block) * MIRAS__ADAM_PIECE;
  float all = 0;
  for (size_t i = first + threadIdx.x; i < first + MIRAS__ADAM_PIECE && i < t->count;
       i += MIRAS__FAST_THREADS) {
    const float g = a.g[t->at + i];
    if (t->frozen) a.g[t->at + i] = 0;
    else all += g * g;
  }
  all = miras__block_sum(all, room);
  if (!threadIdx.x) a.sums[blockIdx.x] = all;
}
__device__ static inline double miras__fast_power(double base, uint64_t n) {
  double y = 1;
  for (; n; n >>= 1, base *= base)
    if (n & 1) y *= base;
  return y;
}
MIRAS__FAST_GRID(256, 1) miras__run_fast_begin(const __grid_constant__ miras__fast_adam a) {
  double *const room = (double *)(void *)miras__fast_room;
  miras__fast_now *const now = a.now;
  double all = 0;
  for (unsigned i = threadIdx.x; i < a.blocks; i += MIRAS__FAST_THREADS) all += (double)a.sums[i];
  room[threadIdx.x] = all;
  __syncthreads();
  if (threadIdx.x) return;
  for (unsigned i = 1; i < MIRAS__FAST_THREADS; i++) all += room[i];
  all = sqrt(all);
  now->norm = (float)all;
  if (a.told) *a.told = now->norm;
  if (!(now->norm <= FLT_MAX)) return;
  now->steps++;
  now->c[0] = a.o.beta1, now->c[1] = 1 - a.o.beta1, now->c[2] = a.o.beta2;
  now->c[3] = 1 - a.o.beta2;
  now->c[4] = a.o.clip > 0 && all > (double)a.o.clip ? (float)((double)a.o.clip / all) : 1;
  now->c[5] = (float)((double)a.rate / (1 - miras__fast_power((double)a.o.beta1, now->steps)));
  now->c[6] = (float)(1 / sqrt(1 - miras__fast_power((double)a.o.beta2, now->steps)));
  now->c[7] = a.o.epsilon;
}
MIRAS__FAST_GRID(256, 4) miras__run_fast_adam(const __grid_constant__ miras__fast_adam a) {
  const miras__fast_tensor *const t = miras__fast_of(&a);
  const miras__fast_now *const now = a.now;
  const float rate = now->c[5] * t->rate;
  const float keep = t->decays ? 1 - a.rate * t->rate * a.o.weight_decay : 1;
  const size_t first = (blockIdx.x - t->block) * MIRAS__ADAM_PIECE;
  const int steps = !a.copies && !t->frozen && now->norm <= FLT_MAX;
  for (size_t i = first + 4 * threadIdx.x; i < first + MIRAS__ADAM_PIECE && i < t->count;
       i += 4 * MIRAS__FAST_THREADS) {
    float4 *const pw = (float4 *)(void *)(a.w + t->at + i);
    float w[4], m[4], v[4], g[4];
    float4 u = *pw;
    unsigned e;
    w[0] = u.x, w[1] = u.y, w[2] = u.z, w[3] = u.w;
    if (steps) {
      float4 *const pm = (float4 *)(void *)(a.m + t->at + i);
      float4 *const pv = (float4 *)(void *)(a.v + t->at + i);
      u = *pm, m[0] = u.x, m[1] = u.y, m[2] = u.z, m[3] = u.w;
      u = *pv, v[0] = u.x, v[1] = u.y, v[2] = u.z, v[3] = u.w;
      u = *(float4 *)(void *)(a.g + t->at + i), g[0] = u.x, g[1] = u.y, g[2] = u.z, g[3] = u.w;
      for (e = 0; e < 4; e++) {
        const float d = g[e] * now->c[4];
        m[e] = now->c[0] * m[e] + now->c[1] * d;
        v[e] = now->c[2] * v[e] + now->c[3] * d * d;
        w[e] = keep * w[e] - rate * m[e] / (sqrtf(v[e]) * now->c[6] + now->c[7]);
      }
      u.x = m[0], u.y = m[1], u.z = m[2], u.w = m[3], *pm = u;
      u.x = v[0], u.y = v[1], u.z = v[2], u.w = v[3], *pv = u;
      u.x = w[0], u.y = w[1], u.z = w[2], u.w = w[3], *pw = u;
    }
    if (!a.copies) {
      u.x = u.y = u.z = u.w = 0;
      *(float4 *)(void *)(a.g + t->at + i) = u;
    }
    for (e = 0; t->copy && e < 4 && i + e < t->count; e++)
      t->copy[(i + e) / t->cols * t->ld + (i + e) % t->cols] = miras__near(w[e]);
  }
}

/* ---- C: exact matrix rows in chunks ----
 *
 * Memories of room @50 with a decay and a step per head, one pair a token. In a chunk of 64 tokens,
 * with S the state [dk, dv] at its start, a_i and b_i the decay and step of row i, G_i the sum of
 * log a up to row i (each chunk's own), z_i = G_i at decay first and G_(i-1) at error first,
 *   N_ij = exp(z_i - G_j) k_i . k_j (j < i)      P_ij = exp(G_i - G_j) q_i . k_j (j <= i)
 *   M = (I + diag(b) N)^-1                        W = V - diag(exp z) K S, or V without errors
 *   U = M diag(b) W                               Y = diag(exp G) Q S + P U
 *   S <- exp(G_63) S + (diag(exp(G_63 - G)) K)' U
 * No exponent is above 0, and nothing is divided. Rows behind a text's end are zeros with decay 1.
 * C1 makes G, b, M, P and N of all chunks side by side; C2 goes through a sequence's chunks with
 * columns of S in accumulators; C3 back through them with those of dS; C4 makes the gradients of
 * queries, keys and gates of all chunks side by side. With dU, and Z = M' dU:
 *   dU = P' dY + diag(exp(G_63 - G)) K dS         dV = diag(b) Z
 *   dS <- exp(G_63) dS + Q' diag(exp G) dY - K' diag(exp z) diag(b) Z
 *   dP = dY U'      d(diag(b) N) = -Z U' */
typedef struct miras__fast_chunks {
  const bf16 *q, *k, *v, *d;         /* [N, ld]; d: the gradient of y                             */
  bf16 *y, *dq, *dk, *dv;
  const float *keep, *step;          /* [N, ld_gates] of heads, or of them [heads] (no tokens)    */
  const float *init;                 /* [heads, key, value]                                       */
  float *dkeep, *dstep;              /* [N, ld_gates]; NULL: they are constants                   */
  float *dinit;                      /* [B, heads, key, value]                                    */
  float *log, *rate;                 /* [B heads, 64 chunks]: G and b                             */
  bf16 *m, *p, *n;                   /* [B heads chunks, 64, 64]                                  */
  bf16 *w, *u, *z;                   /* [N, heads value]: W, U, Z                                 */
  bf16 *s, *ds;                      /* [B heads chunks, key, value] states where chunks begin,
                                        gradients of those where they end                         */
  float one_step;                    /* of all heads, where step is NULL                          */
  unsigned ldq, ldk, ldv, ldd, ldy, ld_dq, ld_dk, ld_dv, ld_gates, ldw;
  unsigned batch, heads, group, tokens, chunks, value;
  int after, delta, keep_gate, step_gate;
} miras__fast_chunks;

/* Rows of a chunk, [64, COLS], on their way to shared memory, COLS + 8 apart. */
template <int COLS>
__device__ static inline void miras__rows_bring(bf16 *to, const bf16 *from, unsigned ld,
                                                unsigned rows) {
  for (unsigned e = threadIdx.x; e < 64 * COLS / 8; e += 128) {
    const unsigned r = e / (COLS / 8), c = e % (COLS / 8) * 8;
    if (r < rows) miras__bring16(to + r * (COLS + 8) + c, from + (size_t)r * ld + c);
    else miras__nothing16(to + r * (COLS + 8) + c);
  }
}
/* The same of a whole matrix [ROWS, COLS]. */
template <int ROWS, int COLS>
__device__ static inline void miras__square_bring(bf16 *to, const bf16 *from, unsigned ld) {
  for (unsigned e = threadIdx.x; e < ROWS * COLS / 8; e += 128) {
    const unsigned r = e / (COLS / 8), c = e % (COLS / 8) * 8;
    miras__bring16(to + r * (COLS + 8) + c, from + (size_t)r * ld + c);
  }
}

/* Where a block's chunk lies: its sequence and head i of all, and chunk c of them. */
typedef struct miras__fast_place {
  unsigned b, h, rows;               /* rows of the text in it                                    */
  size_t row, square;                /* its first, and how many chunks are before it              */
} miras__fast_place;
__device__ static inline miras__fast_place miras__fast_at(const miras__fast_chunks *a, unsigned i,
                                                          unsigned c) {
  miras__fast_place at;
  at.b = i / a->heads, at.h = i % a->heads;
  at.rows = a->tokens - c * 64 < 64 ? a->tokens - c * 64 : 64;
  at.row = (size_t)at.b * a->tokens + c * 64;
  at.square = (size_t)i * a->chunks + c;
  return at;
}

/* Inverse X of I + A, both [64, 65] floats, A below the diagonal; what X has above it is used up.
 * Squares of 16 by substitution, then of each two the one below: -X22 A21 X11. */
__device__ static inline void miras__fast_inverse(float *x, const float *a) {
  const unsigned t = threadIdx.x;
  if (t < 64) {
    const unsigned base = t / 16 * 16, c = t;
    for (unsigned i = base; i < base + 16; i++) {
      float sum = i == c ? 1.0f : 0.0f;
      for (unsigned j = c; j < i; j++) sum -= a[i * 65 + j] * x[j * 65 + c];
      x[i * 65 + c] = i < c ? 0 : sum;
    }
  }
  for (unsigned side = 16; side < 64; side *= 2) {
    const unsigned items = 64 / (2 * side) * side * side;
    __syncthreads();
    for (unsigned e = t; e < items; e += 128) {          /* A21 X11, to the right of X11 */
      const unsigned pair = e / (side * side) * 2 * side, i = e / side % side, j = e % side;
      float sum = 0;
      for (unsigned k = j; k < side; k++)
        sum += a[(pair + side + i) * 65 + pair + k] * x[(pair + k) * 65 + pair + j];
      x[(pair + i) * 65 + pair + side + j] = sum;
    }
    __syncthreads();
    for (unsigned e = t; e < items; e += 128) {
      const unsigned pair = e / (side * side) * 2 * side, i = e / side % side, j = e % side;
      float sum = 0;
      for (unsigned k = 0; k <= i; k++)
        sum += x[(pair + side + i) * 65 + pair + side + k] * x[(pair + k) * 65 + pair + side + j];
      x[(pair + side + i) * 65 + pair + j] = -sum;
    }
  }
  __syncthreads();
}

template <int DK> struct miras__fast_c1 {
  enum { LD = DK + 8, A = 2 * 2 * 64 * LD, X = A + 4 * 64 * 65, G = X + 4 * 64 * 65,
         BYTES = G + 4 * 3 * 64 };
};
template <int DK>
MIRAS__FAST_GRID(128, 1) miras__run_fast_c1(const __grid_constant__ miras__fast_chunks a) {
  typedef miras__fast_c1<DK> room;
  bf16 *const k = (bf16 *)(void *)miras__fast_room, *const q = k + 64 * room::LD;
  float *const below = (float *)(void *)(miras__fast_room + room::A);
  float *const x = (float *)(void *)(miras__fast_room + room::X);
  float *const g = (float *)(void *)(miras__fast_room + room::G), *const rate = g + 64,
        *const one = g + 128;
  const unsigned i = blockIdx.x / a.chunks, c = blockIdx.x % a.chunks, t = threadIdx.x;
  const unsigned warp = t / 32, lane = t % 32, from = 16 * warp + lane / 4;
  const miras__fast_place at = miras__fast_at(&a, i, c);
  float sum[8][4];
  miras__rows_bring<DK>(k, a.k + at.row * a.ldk + at.h / a.group * DK, a.ldk, at.rows);
  miras__rows_bring<DK>(q, a.q + at.row * a.ldq + at.h / a.group * DK, a.ldq, at.rows);
  miras__bring_group();
  if (t < 64) {
    const int in = t < at.rows;
    const float y = !in ? 1 : a.keep_gate ? a.keep[(at.row + t) * a.ld_gates + at.h]
                                          : a.keep[at.h];
    one[t] = logf(y > 1e-30f ? y : 1e-30f);
    rate[t] = !in ? 0 : a.step_gate ? a.step[(at.row + t) * a.ld_gates + at.h] : a.one_step;
  }
  __syncthreads();
  if (t < 64) {
    float all = 0;
    for (unsigned j = 0; j <= t; j++) all += one[j];
    g[t] = all;
    a.log[(size_t)i * a.chunks * 64 + c * 64 + t] = all;
    a.rate[(size_t)i * a.chunks * 64 + c * 64 + t] = rate[t];
  }
  miras__bring_wait<0>();
  __syncthreads();
  MIRAS__ALL_OF for (int square = 0; square < 2; square++) {
    if (!square && !a.delta) continue;
    miras__clear<8>(sum);
    miras__warp_times<8, 0, 1>(sum, square ? q : k, room::LD, 16 * warp, k, room::LD, 0, 0, DK);
    MIRAS__ALL_OF for (unsigned n = 0; n < 8; n++)
      MIRAS__ALL_OF for (unsigned h = 0; h < 2; h++) {
        const unsigned r = from + 8 * h, j = 8 * n + 2 * (lane % 4);
        const float z = square || a.after ? g[r] : r ? g[r - 1] : 0;
        float u[2];
        MIRAS__ALL_OF for (unsigned e = 0; e < 2; e++) {
          u[e] = j + e < r + (unsigned)square ? expf(z - g[j + e]) * sum[n][2 * h + e] : 0;
          if (!square) below[r * 65 + j + e] = rate[r] * u[e];
        }
        miras__put2((square ? a.p : a.n) + at.square * 4096 + r * 64 + j, u[0], u[1]);
      }
  }
  if (!a.delta) return;
  __syncthreads();
  miras__fast_inverse(x, below);
  for (unsigned e = t; e < 512; e += 128) {
    const unsigned r = e / 8, j = e % 8 * 8;
    float u[8];
    for (unsigned l = 0; l < 8; l++) u[l] = j + l <= r ? x[r * 65 + j + l] : 0;
    miras__put8(a.m + at.square * 4096 + r * 64 + j, u);
  }
}

/* What C2 and C3 have of the next chunk while they work on one: K, Q, [64, VB] of two arrays, M,
 * P. */
template <int DK, int VB> struct miras__fast_stage {
  enum {
    LDK = DK + 8, LDV = VB + 8, K = 0, Q = 64 * LDK, V = 2 * 64 * LDK, M = V + 64 * LDV,
    P = M + 64 * MIRAS__FAST_LD, HALVES = P + 64 * MIRAS__FAST_LD,
    S = 2 * HALVES, W = S + DK * LDV, U = W + 64 * LDV, F = U + 64 * LDV,
    BYTES = 2 * (F + 64 * LDV),
    TILES = (DK / 16 + 3) / 4        /* of 16 rows of S that a warp has                           */
  };
};
template <int DK, int VB>
__device__ static inline void miras__stage_bring(const miras__fast_chunks *a, bf16 *to, unsigned i,
                                                 unsigned c, const bf16 *v, unsigned ldv,
                                                 unsigned column) {
  typedef miras__fast_stage<DK, VB> room;
  const miras__fast_place at = miras__fast_at(a, i, c);
  const unsigned head = at.h / a->group * DK;
  miras__rows_bring<DK>(to + room::K, a->k + at.row * a->ldk + head, a->ldk, at.rows);
  miras__rows_bring<DK>(to + room::Q, a->q + at.row * a->ldq + head, a->ldq, at.rows);
  miras__rows_bring<VB>(to + room::V, v + at.row * ldv + at.h * a->value + column, ldv, at.rows);
  if (a->delta) miras__square_bring<64, 64>(to + room::M, a->m + at.square * 4096, 64);
  miras__square_bring<64, 64>(to + room::P, a->p + at.square * 4096, 64);
}

/* S in accumulators as bfloat16 in shared memory. */
template <int DK, int VB>
__device__ static inline void miras__state_put(bf16 *to, float (*s)[VB / 8][4]) {
  typedef miras__fast_stage<DK, VB> room;
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  MIRAS__ALL_OF for (unsigned i = 0; i < room::TILES; i++)
    if (warp + 4 * i < DK / 16)
      MIRAS__ALL_OF for (unsigned n = 0; n < VB / 8; n++)
        MIRAS__ALL_OF for (unsigned h = 0; h < 2; h++)
          miras__put2(to + (16 * (warp + 4 * i) + lane / 4 + 8 * h) * room::LDV + 8 * n +
                        2 * (lane % 4), s[i][n][2 * h], s[i][n][2 * h + 1]);
}
/* And from there to global memory, [DK, value]. */
template <int DK, int VB>
__device__ static inline void miras__state_keep(bf16 *to, unsigned value, const bf16 *from) {
  for (unsigned e = threadIdx.x; e < DK * VB / 8; e += 128) {
    const unsigned r = e / (VB / 8), c = e % (VB / 8) * 8;
    *(uint4 *)(void *)(to + (size_t)r * value + c) =
      *(const uint4 *)(const void *)(from + r * (VB + 8) + c);
  }
}

/* S *= by, and S += X' U of a chunk's rows. */
template <int DK, int VB>
__device__ static inline void miras__state_scale(float (*s)[VB / 8][4], float by) {
  MIRAS__ALL_OF for (unsigned t = 0; t < miras__fast_stage<DK, VB>::TILES; t++)
    MIRAS__ALL_OF for (unsigned n = 0; n < VB / 8; n++)
      MIRAS__ALL_OF for (unsigned e = 0; e < 4; e++) s[t][n][e] *= by;
}
template <int DK, int VB>
__device__ static inline void miras__state_times(float (*s)[VB / 8][4], const bf16 *x,
                                                 const bf16 *u) {
  typedef miras__fast_stage<DK, VB> room;
  const unsigned warp = threadIdx.x / 32;
  MIRAS__ALL_OF for (unsigned t = 0; t < room::TILES; t++)
    if (warp + 4 * t < DK / 16)
      miras__warp_times<VB / 8, 1, 0>(s[t], x, room::LDK, 16 * (warp + 4 * t), u, room::LDV, 0, 0,
                                      64);
}
/* Rows of fragments to global memory. */
template <int N>
__device__ static inline void miras__rows_put(bf16 *to, unsigned ld, unsigned rows, unsigned from,
                                              float (*c)[4]) {
  const unsigned lane = threadIdx.x % 32;
  MIRAS__ALL_OF for (unsigned h = 0; h < 2; h++)
    MIRAS__ALL_OF for (unsigned n = 0; n < N; n++)
      if (from + 8 * h < rows)
        miras__put2(to + (size_t)(from + 8 * h) * ld + 8 * n + 2 * (lane % 4), c[n][2 * h],
                    c[n][2 * h + 1]);
}

/* S at a text's start: the initial memory of head h. */
template <int DK, int VB>
__device__ static inline void miras__fast_init(const miras__fast_chunks *a, unsigned h,
                                               unsigned column, float (*s)[VB / 8][4]) {
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  MIRAS__ALL_OF for (unsigned t = 0; t < miras__fast_stage<DK, VB>::TILES; t++)
    MIRAS__ALL_OF for (unsigned n = 0; n < VB / 8; n++)
      MIRAS__ALL_OF for (unsigned e = 0; e < 4; e++) {
        const unsigned r = 16 * (warp + 4 * t) + lane / 4 + e / 2 * 8;
        s[t][n][e] = r < DK ? a->init[((size_t)h * DK + r) * a->value + column + 8 * n +
                                      2 * (lane % 4) + e % 2] : 0;
      }
}

/* U of a chunk at room::U, and with what is left of it at the chunk's end at room::F; with AGAIN
 * also to global memory, and W. g, b: of the chunk. */
template <int DK, int VB, int DELTA, int AGAIN>
__device__ static inline void miras__fast_rows_u(const miras__fast_chunks *a,
                                                 const miras__fast_place *at, bf16 *all,
                                                 const bf16 *now, const float *g, const float *b,
                                                 unsigned column) {
  typedef miras__fast_stage<DK, VB> room;
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32, from = 16 * warp + lane / 4;
  const size_t place = at->row * a->ldw + at->h * a->value + column;
  const float end = g[63];
  float x[VB / 8][4];
  miras__clear<VB / 8>(x);
  if (DELTA)
    miras__warp_times<VB / 8, 0, 0>(x, now + room::K, room::LDK, 16 * warp, all + room::S,
                                    room::LDV, 0, 0, DK);
  MIRAS__ALL_OF for (unsigned h = 0; h < 2; h++) {
    const unsigned r = from + 8 * h;
    const float z = expf(a->after ? g[r] : r ? g[r - 1] : 0), rate = b[r];
    MIRAS__ALL_OF for (unsigned n = 0; n < VB / 8; n++) {
      const unsigned j = 8 * n + 2 * (lane % 4);
      const unsigned v = *(const unsigned *)(const void *)(now + room::V + r * room::LDV + j);
      const float u0 = miras__of_low(v) - z * x[n][2 * h];
      const float u1 = miras__of_high(v) - z * x[n][2 * h + 1];
      if (AGAIN && r < at->rows) miras__put2(a->w + place + (size_t)r * a->ldw + j, u0, u1);
      if (DELTA) miras__put2(all + room::W + r * room::LDV + j, rate * u0, rate * u1);
      x[n][2 * h] = rate * u0, x[n][2 * h + 1] = rate * u1;
    }
  }
  if (DELTA) {
    __syncthreads();
    miras__clear<VB / 8>(x);
    miras__warp_times<VB / 8, 0, 0>(x, now + room::M, MIRAS__FAST_LD, 16 * warp, all + room::W,
                                    room::LDV, 0, 0, 16 * warp + 16);
  }
  MIRAS__ALL_OF for (unsigned h = 0; h < 2; h++) {
    const unsigned r = from + 8 * h;
    const float last = expf(end - g[r]);
    MIRAS__ALL_OF for (unsigned n = 0; n < VB / 8; n++) {
      const unsigned j = 8 * n + 2 * (lane % 4);
      const float u0 = x[n][2 * h], u1 = x[n][2 * h + 1];
      miras__put2(all + room::U + r * room::LDV + j, u0, u1);
      miras__put2(all + room::F + r * room::LDV + j, last * u0, last * u1);
      if (AGAIN && r < at->rows) miras__put2(a->u + place + (size_t)r * a->ldw + j, u0, u1);
    }
  }
}

/* C2. Forward it writes y; again, on the way back, W, U and the states where chunks begin. */
template <int DK, int VB, int DELTA, int AGAIN>
MIRAS__FAST_GRID(128, 1) miras__run_fast_c2(const __grid_constant__ miras__fast_chunks a) {
  typedef miras__fast_stage<DK, VB> room;
  bf16 *const all = (bf16 *)(void *)miras__fast_room;
  const unsigned across = a.value / VB, i = blockIdx.x / across, column = blockIdx.x % across * VB;
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32, from = 16 * warp + lane / 4;
  float s[room::TILES][VB / 8][4], x[VB / 8][4];
  miras__fast_init<DK, VB>(&a, i % a.heads, column, s);
  miras__state_put<DK, VB>(all + room::S, s);
  miras__stage_bring<DK, VB>(&a, all, i, 0, a.v, a.ldv, column);
  miras__bring_group();
  for (unsigned c = 0; c < a.chunks; c++) {
    const bf16 *const now = all + c % 2 * room::HALVES;
    const float *const g = a.log + ((size_t)i * a.chunks + c) * 64, end = g[63];
    const miras__fast_place at = miras__fast_at(&a, i, c);
    miras__bring_wait<0>();
    __syncthreads();
    if (c + 1 < a.chunks) {
      miras__stage_bring<DK, VB>(&a, all + (c + 1) % 2 * room::HALVES, i, c + 1, a.v, a.ldv,
                                 column);
      miras__bring_group();
    }
    if (AGAIN)
      miras__state_keep<DK, VB>(a.s + at.square * DK * a.value + column, a.value, all + room::S);
    miras__fast_rows_u<DK, VB, DELTA, AGAIN>(&a, &at, all, now, g,
                                             a.rate + ((size_t)i * a.chunks + c) * 64, column);
    __syncthreads();
    if (!AGAIN) {
      miras__clear<VB / 8>(x);
      miras__warp_times<VB / 8, 0, 0>(x, now + room::Q, room::LDK, 16 * warp, all + room::S,
                                      room::LDV, 0, 0, DK);
      MIRAS__ALL_OF for (unsigned n = 0; n < VB / 8; n++)
        MIRAS__ALL_OF for (unsigned e = 0; e < 4; e++) x[n][e] *= expf(g[from + e / 2 * 8]);
      miras__warp_times<VB / 8, 0, 0>(x, now + room::P, MIRAS__FAST_LD, 16 * warp, all + room::U,
                                      room::LDV, 0, 0, 16 * warp + 16);
      miras__rows_put<VB / 8>(a.y + at.row * a.ldy + at.h * a.value + column, a.ldy, at.rows, from,
                              x);
    }
    miras__state_scale<DK, VB>(s, expf(end));
    miras__state_times<DK, VB>(s, now + room::K, all + room::F);
    __syncthreads();
    miras__state_put<DK, VB>(all + room::S, s);
  }
  miras__bring_wait<0>();
}

/* C3: back through the chunks. */
template <int DK, int VB, int DELTA>
MIRAS__FAST_GRID(128, 1) miras__run_fast_c3(const __grid_constant__ miras__fast_chunks a) {
  typedef miras__fast_stage<DK, VB> room;
  bf16 *const all = (bf16 *)(void *)miras__fast_room;
  const unsigned across = a.value / VB, i = blockIdx.x / across, column = blockIdx.x % across * VB;
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32, from = 16 * warp + lane / 4;
  float s[room::TILES][VB / 8][4], x[VB / 8][4];
  MIRAS__ALL_OF for (unsigned t = 0; t < room::TILES; t++) miras__clear<VB / 8>(s[t]);
  miras__state_put<DK, VB>(all + room::S, s);
  miras__stage_bring<DK, VB>(&a, all + (a.chunks - 1) % 2 * room::HALVES, i, a.chunks - 1, a.d,
                             a.ldd, column);
  miras__bring_group();
  for (unsigned c = a.chunks; c-- > 0;) {
    const bf16 *const now = all + c % 2 * room::HALVES;
    const float *const g = a.log + ((size_t)i * a.chunks + c) * 64;
    const float *const b = a.rate + ((size_t)i * a.chunks + c) * 64, end = g[63];
    const miras__fast_place at = miras__fast_at(&a, i, c);
    miras__bring_wait<0>();
    __syncthreads();
    if (c) {
      miras__stage_bring<DK, VB>(&a, all + (c - 1) % 2 * room::HALVES, i, c - 1, a.d, a.ldd,
                                 column);
      miras__bring_group();
    }
    miras__state_keep<DK, VB>(a.ds + at.square * DK * a.value + column, a.value, all + room::S);
    miras__clear<VB / 8>(x);
    miras__warp_times<VB / 8, 0, 0>(x, now + room::K, room::LDK, 16 * warp, all + room::S,
                                    room::LDV, 0, 0, DK);
    MIRAS__ALL_OF for (unsigned n = 0; n < VB / 8; n++)
      MIRAS__ALL_OF for (unsigned e = 0; e < 4; e++) x[n][e] *= expf(end - g[from + e / 2 * 8]);
    miras__warp_times<VB / 8, 1, 0>(x, now + room::P, MIRAS__FAST_LD, 16 * warp, now + room::V,
                                    room::LDV, 0, 16 * warp, 64);
    if (DELTA) {
      MIRAS__ALL_OF for (unsigned h = 0; h < 2; h++)
        MIRAS__ALL_OF for (unsigned n = 0; n < VB / 8; n++)
          miras__put2(all + room::W + (from + 8 * h) * room::LDV + 8 * n + 2 * (lane % 4),
                      x[n][2 * h], x[n][2 * h + 1]);
      __syncthreads();
      miras__clear<VB / 8>(x);
      miras__warp_times<VB / 8, 1, 0>(x, now + room::M, MIRAS__FAST_LD, 16 * warp, all + room::W,
                                      room::LDV, 0, 16 * warp, 64);
    }
    MIRAS__ALL_OF for (unsigned h = 0; h < 2; h++) {
      const unsigned r = from + 8 * h;
      const float z = expf(a.after ? g[r] : r ? g[r - 1] : 0), rate = b[r], by = expf(g[r]);
      MIRAS__ALL_OF for (unsigned n = 0; n < VB / 8; n++) {
        const unsigned j = 8 * n + 2 * (lane % 4);
        const unsigned d = *(const unsigned *)(const void *)(now + room::V + r * room::LDV + j);
        const float z0 = x[n][2 * h], z1 = x[n][2 * h + 1];
        miras__put2(all + room::U + r * room::LDV + j, by * miras__of_low(d),
                    by * miras__of_high(d));
        if (DELTA)
          miras__put2(all + room::F + r * room::LDV + j, -z * rate * z0, -z * rate * z1);
        if (r >= at.rows) continue;
        miras__put2(a.z + (at.row + r) * a.ldw + at.h * a.value + column + j, z0, z1);
        miras__put2(a.dv + (at.row + r) * a.ld_dv + at.h * a.value + column + j, rate * z0,
                    rate * z1);
      }
    }
    __syncthreads();
    miras__state_scale<DK, VB>(s, expf(end));
    miras__state_times<DK, VB>(s, now + room::Q, all + room::U);
    if (DELTA) miras__state_times<DK, VB>(s, now + room::K, all + room::F);
    __syncthreads();
    miras__state_put<DK, VB>(all + room::S, s);
  }
  miras__bring_wait<0>();
  MIRAS__ALL_OF for (unsigned t = 0; t < room::TILES; t++)
    MIRAS__ALL_OF for (unsigned n = 0; n < VB / 8; n++)
      MIRAS__ALL_OF for (unsigned e = 0; e < 4; e++) {
        const unsigned r = 16 * (warp + 4 * t) + lane / 4 + e / 2 * 8;
        if (r < DK)
          a.dinit[((size_t)i * DK + r) * a.value + column + 8 * n + 2 * (lane % 4) + e % 2] =
            s[t][n][e];
      }
}

/* C4: shared memory has K and Q; what rows have of 32 columns of values, and states of them; dP
 * and dN as factors; what they make of G, as floats; and numbers of rows. */
template <int DK> struct miras__fast_c4 {
  enum {
    LD = DK + 8, Q = 64 * LD, D = 2 * 64 * LD, U = D + 64 * 40, Z = U + 64 * 40, W = Z + 64 * 40,
    S = W + 64 * 40, DS = S + DK * 40, DP = DS + DK * 40, DN = DP + 64 * MIRAS__FAST_LD,
    HALVES = DN + 64 * MIRAS__FAST_LD, SQUARE = 2 * HALVES, ROWS = SQUARE + 4 * 64 * 65,
    BYTES = ROWS + 4 * (6 * 64 + 8)
  };
};
/* The sum of a row's numbers that the four lanes of its fragments have. */
__device__ static inline float miras__row_sum(float x) { return miras__lanes_sum(x, 4); }

/* sum over its columns of row r's accumulators times rows of x in shared memory. */
template <int N>
__device__ static inline float miras__row_dot(float (*c)[4], unsigned h, const bf16 *x) {
  const unsigned lane = threadIdx.x % 32;
  float all = 0;
  MIRAS__ALL_OF for (unsigned n = 0; n < N; n++) {
    const unsigned v = *(const unsigned *)(const void *)(x + 8 * n + 2 * (lane % 4));
    all += c[n][2 * h] * miras__of_low(v) + c[n][2 * h + 1] * miras__of_high(v);
  }
  return miras__row_sum(all);
}

/* What a block of C4 knows of its chunk. */
typedef struct miras__fast_chunk {
  miras__fast_place at;
  const float *g, *b;                /* G and b of its rows                                       */
  size_t values, states;             /* where its rows of W, U, Z and its states begin            */
} miras__fast_chunk;

/* dP and dN as factors, and what P and N give G, z and b, beside Z . W of rows. */
template <int DK, int DELTA>
__device__ static inline void miras__fast_c4_squares(const miras__fast_chunks *a,
                                                     const miras__fast_chunk *of) {
  typedef miras__fast_c4<DK> room;
  bf16 *const k = (bf16 *)(void *)miras__fast_room;
  float *const dg = (float *)(void *)(miras__fast_room + room::ROWS), *const dz = dg + 64;
  float *const db = dg + 128, *const zw = dg + 192;
  float *const square = (float *)(void *)(miras__fast_room + room::SQUARE);
  const unsigned t = threadIdx.x, warp = t / 32, lane = t % 32, from = 16 * warp + lane / 4;
  const miras__fast_place *const at = &of->at;
  const float *const g = of->g, *const b = of->b;
  float x[8][4], y[8][4], along = 0;
  miras__clear<8>(x);
  miras__clear<8>(y);
  for (unsigned v = 0; v < a->value; v += 32) {
    __syncthreads();
    miras__rows_bring<32>(k + room::D, a->d + at->row * a->ldd + at->h * a->value + v, a->ldd,
                          at->rows);
    miras__rows_bring<32>(k + room::U, a->u + of->values + v, a->ldw, at->rows);
    miras__rows_bring<32>(k + room::Z, a->z + of->values + v, a->ldw, at->rows);
    miras__rows_bring<32>(k + room::W, a->w + of->values + v, a->ldw, at->rows);
    miras__bring_group();
    miras__bring_wait<0>();
    __syncthreads();
    miras__warp_times<8, 0, 1>(x, k + room::D, 40, 16 * warp, k + room::U, 40, 0, 0, 32);
    if (DELTA)
      miras__warp_times<8, 0, 1>(y, k + room::Z, 40, 16 * warp, k + room::U, 40, 0, 0, 32);
    for (unsigned e = 0; e < 16; e++) {              /* half of a row a thread */
      const unsigned j = t / 2 * 40 + t % 2 * 16 + e;
      along += miras__wide(k[room::Z + j]) * miras__wide(k[room::W + j]);
    }
  }
  along += __shfl_xor_sync(0xffffffffu, along, 1);
  if (!(t & 1)) zw[t / 2] = along;
  MIRAS__ALL_OF for (unsigned h = 0; h < 2; h++) {
    const unsigned r = from + 8 * h;
    const float z = a->after ? g[r] : r ? g[r - 1] : 0;
    float by_p = 0, by_n = 0, by_b = 0;
    MIRAS__ALL_OF for (unsigned n = 0; n < 8; n++) {
      const unsigned j = 8 * n + 2 * (lane % 4);
      const size_t place = at->square * 4096 + r * 64 + j;
      const unsigned p = *(const unsigned *)(const void *)(a->p + place);
      const unsigned n2 = DELTA ? *(const unsigned *)(const void *)(a->n + place) : 0;
      float dp[2], dn[2];
      MIRAS__ALL_OF for (unsigned e = 0; e < 2; e++) {
        const float one = e ? miras__of_high(p) : miras__of_low(p);
        const float two = e ? miras__of_high(n2) : miras__of_low(n2);
        const float s = x[n][2 * h + e] * one, u = -y[n][2 * h + e] * two;
        dp[e] = j + e <= r ? x[n][2 * h + e] * expf(g[r] - g[j + e]) : 0;
        dn[e] = DELTA && j + e < r ? -y[n][2 * h + e] * b[r] * expf(z - g[j + e]) : 0;
        by_p += s;
        if (DELTA) by_b += u, by_n += u * b[r];
        square[r * 65 + j + e] = s + (DELTA ? u * b[r] : 0);
      }
      miras__put2(k + room::DP + r * MIRAS__FAST_LD + j, dp[0], dp[1]);
      if (DELTA) miras__put2(k + room::DN + r * MIRAS__FAST_LD + j, dn[0], dn[1]);
    }
    by_p = miras__row_sum(by_p), by_n = miras__row_sum(by_n), by_b = miras__row_sum(by_b);
    if (lane % 4 == 0) dg[r] = by_p, dz[r] = by_n, db[r] = by_b;
  }
  __syncthreads();
  if (t < 64) {
    float all = 0;
    for (unsigned r = 0; r < 64; r++) all += square[r * 65 + t];
    dg[t] -= all;
  }
}

/* dq's columns from j on, and what they give G. */
template <int DK>
__device__ static inline void miras__fast_c4_queries(const miras__fast_chunks *a,
                                                     const miras__fast_chunk *of, unsigned j) {
  typedef miras__fast_c4<DK> room;
  bf16 *const k = (bf16 *)(void *)miras__fast_room, *const q = k + miras__fast_c4<DK>::Q;
  float *const dg = (float *)(void *)(miras__fast_room + room::ROWS);
  enum { N = DK < 64 ? DK / 8 : 8 };
  const unsigned t = threadIdx.x, warp = t / 32, lane = t % 32, from = 16 * warp + lane / 4;
  const miras__fast_place *const at = &of->at;
  const float *const g = of->g;
  float x[8][4];
  miras__clear<8>(x);
  for (unsigned v = 0; v < a->value; v += 32) {
    __syncthreads();
    miras__rows_bring<32>(k + room::D, a->d + at->row * a->ldd + at->h * a->value + v, a->ldd,
                          at->rows);
    miras__square_bring<DK, 32>(k + room::S, a->s + of->states + v, a->value);
    miras__bring_group();
    miras__bring_wait<0>();
    __syncthreads();
    miras__warp_times<N, 0, 1>(x, k + room::D, 40, 16 * warp, k + room::S, 40, j, 0, 32);
  }
  MIRAS__ALL_OF for (unsigned h = 0; h < 2; h++) {
    const unsigned r = from + 8 * h;
    float e;
    MIRAS__ALL_OF for (unsigned n = 0; n < N; n++)
      x[n][2 * h] *= expf(g[r]), x[n][2 * h + 1] *= expf(g[r]);
    e = miras__row_dot<N>(x, h, q + r * room::LD + j);
    if (lane % 4 == 0) dg[r] += e;
  }
  miras__warp_times<N, 0, 0>(x, k + room::DP, MIRAS__FAST_LD, 16 * warp, k, room::LD, j, 0, 64);
  miras__rows_put<N>(a->dq + at->row * a->ld_dq + at->h * DK + j, a->ld_dq, at->rows, from, x);
}

/* dk's, and what they give G and z; tail and more: what G's last row gets beside that. */
template <int DK, int DELTA>
__device__ static inline void miras__fast_c4_keys(const miras__fast_chunks *a,
                                                  const miras__fast_chunk *of, unsigned j,
                                                  float *tail, float *more) {
  typedef miras__fast_c4<DK> room;
  bf16 *const k = (bf16 *)(void *)miras__fast_room, *const q = k + miras__fast_c4<DK>::Q;
  float *const dg = (float *)(void *)(miras__fast_room + room::ROWS), *const dz = dg + 64;
  enum { N = DK < 64 ? DK / 8 : 8, WIDE = DK < 64 ? DK : 64 };
  const unsigned t = threadIdx.x, warp = t / 32, lane = t % 32, from = 16 * warp + lane / 4;
  const miras__fast_place *const at = &of->at;
  const float *const g = of->g, *const b = of->b, end = g[63];
  float x[8][4], y[8][4];
  miras__clear<8>(x);
  miras__clear<8>(y);
  for (unsigned v = 0; v < a->value; v += 32) {
    __syncthreads();
    miras__rows_bring<32>(k + room::U, a->u + of->values + v, a->ldw, at->rows);
    if (DELTA) miras__rows_bring<32>(k + room::Z, a->z + of->values + v, a->ldw, at->rows);
    miras__square_bring<DK, 32>(k + room::S, a->s + of->states + v, a->value);
    miras__square_bring<DK, 32>(k + room::DS, a->ds + of->states + v, a->value);
    miras__bring_group();
    miras__bring_wait<0>();
    __syncthreads();
    miras__warp_times<N, 0, 1>(x, k + room::U, 40, 16 * warp, k + room::DS, 40, j, 0, 32);
    if (DELTA)
      miras__warp_times<N, 0, 1>(y, k + room::Z, 40, 16 * warp, k + room::S, 40, j, 0, 32);
    for (unsigned e = t; e < WIDE * 32; e += 128) {
      const unsigned l = (j + e / 32) * 40 + e % 32;
      *more += miras__wide(k[room::S + l]) * miras__wide(k[room::DS + l]);
    }
  }
  MIRAS__ALL_OF for (unsigned h = 0; h < 2; h++) {
    const unsigned r = from + 8 * h;
    const float by = expf(end - g[r]), less = -b[r] * expf(a->after ? g[r] : r ? g[r - 1] : 0);
    float e, f = 0;
    MIRAS__ALL_OF for (unsigned n = 0; n < N; n++) {
      x[n][2 * h] *= by, x[n][2 * h + 1] *= by;
      if (DELTA) y[n][2 * h] *= less, y[n][2 * h + 1] *= less;
    }
    e = miras__row_dot<N>(x, h, k + r * room::LD + j);
    if (DELTA) f = miras__row_dot<N>(y, h, k + r * room::LD + j);
    if (lane % 4 == 0) dg[r] -= e, dz[r] += f, *tail += e;
    MIRAS__ALL_OF for (unsigned n = 0; n < N; n++)
      x[n][2 * h] += DELTA ? y[n][2 * h] : 0, x[n][2 * h + 1] += DELTA ? y[n][2 * h + 1] : 0;
  }
  miras__warp_times<N, 1, 0>(x, k + room::DP, MIRAS__FAST_LD, 16 * warp, q, room::LD, j,
                             16 * warp, 64);
  if (DELTA) {
    miras__warp_times<N, 0, 0>(x, k + room::DN, MIRAS__FAST_LD, 16 * warp, k, room::LD, j, 0,
                               16 * warp + 16);
    miras__warp_times<N, 1, 0>(x, k + room::DN, MIRAS__FAST_LD, 16 * warp, k, room::LD, j,
                               16 * warp, 64);
  }
  miras__rows_put<N>(a->dk + at->row * a->ld_dk + at->h * DK + j, a->ld_dk, at->rows, from, x);
}

template <int DK, int DELTA>
MIRAS__FAST_GRID(128, 1) miras__run_fast_c4(const __grid_constant__ miras__fast_chunks a) {
  typedef miras__fast_c4<DK> room;
  bf16 *const k = (bf16 *)(void *)miras__fast_room;
  float *const rows = (float *)(void *)(miras__fast_room + room::ROWS);
  float *const dg = rows, *const dz = rows + 64, *const db = rows + 128, *const zw = rows + 192;
  const unsigned i = blockIdx.x / a.chunks, t = threadIdx.x;
  const miras__fast_place at = miras__fast_at(&a, i, blockIdx.x % a.chunks);
  miras__fast_chunk of;
  float more = 0, tail = 0;
  of.at = at, of.g = a.log + at.square * 64, of.b = a.rate + at.square * 64;
  of.values = at.row * a.ldw + at.h * a.value, of.states = at.square * DK * a.value;
  miras__rows_bring<DK>(k, a.k + at.row * a.ldk + at.h / a.group * DK, a.ldk, at.rows);
  miras__rows_bring<DK>(k + room::Q, a.q + at.row * a.ldq + at.h / a.group * DK, a.ldq, at.rows);
  miras__fast_c4_squares<DK, DELTA>(&a, &of);
  for (unsigned j = 0; j < DK; j += 64) {            /* 64 columns of keys at a time              */
    miras__fast_c4_queries<DK>(&a, &of, j);
    miras__fast_c4_keys<DK, DELTA>(&a, &of, j, &tail, &more);
  }
  tail = miras__block_sum(tail + expf(of.g[63]) * more, rows + 384);
  if (t == 0) dg[63] += tail;
  __syncthreads();
  if (t < 64) {                      /* log a_t is part of G from row t on, and of z              */
    float all = 0;
    for (unsigned r = t; r < 64; r++) all += dg[r] + (a.after ? dz[r] : r > t ? dz[r] : 0);
    if (t >= at.rows) return;
    if (a.dkeep) {
      const float y = a.keep[(at.row + t) * a.ld_gates + at.h];
      a.dkeep[(at.row + t) * a.ld_gates + at.h] = all / (y > 1e-30f ? y : 1e-30f);
    }
    if (a.dstep) a.dstep[(at.row + t) * a.ld_gates + at.h] = zw[t] + db[t];
  }
}

/* ---- D: one token ----
 *
 * States [B heads, value, DK] floats, keys along memory: a lane has four of a column's numbers, of
 * EACH columns one behind the other; a block of 128 threads has COLUMNS of a state. */
typedef struct miras__fast_token {
  float *s;
  const bf16 *q, *k, *v;             /* [B, ld]                                                   */
  bf16 *y;                           /* [B, heads value]                                          */
  const float *keep, *step;          /* [B, heads]                                                */
  unsigned ldq, ldk, ldv, ldy, heads, group, value;
  int after, delta;
} miras__fast_token;
template <int DK> struct miras__fast_columns {
  enum { LANES = DK / 4, COLUMNS = DK == 32 ? 32 : 16, EACH = COLUMNS * LANES / 128 };
};
__device__ static inline void miras__get4(float x[4], const bf16 *p) {
  const uint2 u = *(const uint2 *)(const void *)p;
  x[0] = miras__of_low(u.x), x[1] = miras__of_high(u.x);
  x[2] = miras__of_low(u.y), x[3] = miras__of_high(u.y);
}
template <int DK>
MIRAS__FAST_GRID(128, 8) miras__run_fast_token(const __grid_constant__ miras__fast_token a) {
  typedef miras__fast_columns<DK> of;
  const unsigned across = a.value / of::COLUMNS, i = blockIdx.x / across;
  const unsigned b = i / a.heads, h = i % a.heads, lane = threadIdx.x % of::LANES;
  const unsigned first = blockIdx.x % across * of::COLUMNS + threadIdx.x / of::LANES * of::EACH;
  float4 *const s = (float4 *)(void *)(a.s + ((size_t)i * a.value + first) * DK) + lane;
  const bf16 *const v = a.v + (size_t)b * a.ldv + h * a.value + first;
  float4 x[of::EACH];
  float k[4], q[4], y[of::EACH];
  const float keep = a.keep[i], step = a.step[i];
  MIRAS__ALL_OF for (unsigned n = 0; n < of::EACH; n++) x[n] = s[n * of::LANES];
  miras__get4(k, a.k + (size_t)b * a.ldk + h / a.group * DK + 4 * lane);
  miras__get4(q, a.q + (size_t)b * a.ldq + h / a.group * DK + 4 * lane);
  MIRAS__ALL_OF for (unsigned n = 0; n < of::EACH; n++) {
    float e = miras__wide(v[n]), read;
    if (a.delta) {
      read = x[n].x * k[0] + x[n].y * k[1] + x[n].z * k[2] + x[n].w * k[3];
      e -= (a.after ? keep : 1) * miras__lanes_sum(read, of::LANES);
    }
    e *= step;
    x[n].x = keep * x[n].x + e * k[0], x[n].y = keep * x[n].y + e * k[1];
    x[n].z = keep * x[n].z + e * k[2], x[n].w = keep * x[n].w + e * k[3];
    y[n] = miras__lanes_sum(x[n].x * q[0] + x[n].y * q[1] + x[n].z * q[2] + x[n].w * q[3],
                            of::LANES);
    s[n * of::LANES] = x[n];
  }
  MIRAS__ALL_OF for (unsigned n = 0; n < of::EACH; n += 2)
    if (!lane) miras__put2(a.y + (size_t)b * a.ldy + h * a.value + first + n, y[n], y[n + 1]);
}

} }

/* ======== the fast tier: the host's side ========
 *
 * A layer's program (room @75) is the list of launches: operations one after the other forward, the
 * last one first back, and those that add to what a memory's adjoint sets behind that. */

/* The operation LENGTH right behind a convolution's result, which is done with it; or NULL. */
static const miras__op *miras__fast_length_of(const miras__program *p, const miras__op *o) {
  const miras__op *n;
  for (n = o + 1; n < p->op + p->ops; n++) {
    int i, touches = n->out == o->out;
    for (i = 0; i < MIRAS__INS; i++) touches |= n->in[i] == o->out;
    if (touches) return n->what == MIRAS__OP_LENGTH ? n : NULL;
  }
  return NULL;
}
static const miras__op *miras__fast_conv_before(const miras__program *p, const miras__op *o) {
  const miras__op *n;
  for (n = o; n-- > p->op;)
    if (n->what == MIRAS__OP_CONV && n->out == o->out && miras__fast_length_of(p, n) == o) return n;
  return NULL;
}

/* Why an operation is not run here; NULL: it is. First of memories. */
static const char *miras__fast_memory_refuses(const miras__program *p, const miras__op *o) {
  const miras__mixer *m = &p->mixer;
  const miras__plan *q = &m->plan;
  const miras_memory_desc *d = &q->d;
  if (q->engine != MIRAS__RUN_EXACT)
    return "its memory is not a matrix that is linear in its state";
  if (o->function || o->segment) return "it goes segment by segment";
  if (q->per_feature) return "its decays are one number per channel, not one per head";
  if (q->streams != 1) return "it erases apart from what it writes";
  if (q->value_keep || q->rates != 1 || d->inner_steps != 1)
    return "it has more than one step, or steps or decays of values";
  if (q->implicit || q->both)
    return "its algorithm is not gradient-descent, or its retention not l2";
  if (q->to_init) return "its decays lead to the initial memory";
  if (d->normalize || d->inner_norm || d->token_rates)
    return "it has normalize, inner_norm or token_rates";
  if (q->map || q->ones || q->features != m->dk) return "its keys go through a feature map";
  if (m->dk != 32 && m->dk != 64 && m->dk != 128) return "memory.key_dim is not 32, 64 or 128";
  if (m->dv % 32 || m->dv > 4096) return "memory.value_dim is not a multiple of 32 up to 4096";
  return NULL;
}

static const char *miras__fast_refuses(const miras__program *p, const miras__op *o) {
  const miras__array *y = &p->array[o->out];
  int i;
  switch (o->what) {
    case MIRAS__OP_MEMORY: return miras__fast_memory_refuses(p, o);
    case MIRAS__OP_TAIL: return NULL;
    case MIRAS__OP_TIMES:
      if (o->in_at[0] % 8 || o->out_at % 8) return "its columns do not begin at a multiple of 8";
      for (i = o->param; i; i = p->param[i].next)
        if ((p->param[i].column - p->param[o->param].column) % 8)
          return "columns of its weights do not begin at a multiple of 8";
      return NULL;
    case MIRAS__OP_GATES:
      for (i = 0; i < MIRAS__GATE_GROUPS; i++)
        if (i != MIRAS__KEEP && i != MIRAS__STEP && p->mixer.gate[i].count)
          return "it makes other gates than those of decays and learning rates";
      return NULL;
    case MIRAS__OP_CONV: case MIRAS__OP_LENGTH:
      if (y->dim % 8) return "heads are not a multiple of 8 wide";
      if (y->by_head && y->grad_heads != y->heads &&
          (y->dim > 256 || (o->what == MIRAS__OP_LENGTH && p->mixer.length != 0 &&
                            !miras__fast_conv_before(p, o))))
        return "heads that share keys are over 256 wide, or no convolution makes them";
      if (o->what == MIRAS__OP_CONV && p->param[o->param].rows > 8)
        return "it reads more than 8 rows";
      if (o->what == MIRAS__OP_LENGTH && (y->dim != o->cols || o->cols > 256))
        return "lengths are of more than 256 numbers, or of several keys of a token";
      if (o->what == MIRAS__OP_CONV && o->function == MIRAS_FN_SOFTMAX)
        return "its function is softmax";
      return NULL;
    case MIRAS__OP_TURN:
      if (p->mixer.rope.turn % 16) return "what turns is not a multiple of 16 numbers";
      return y->dim % 8 ? "heads are not a multiple of 8 wide" : NULL;
    case MIRAS__OP_ANGLES:
      return o->function ? "it is part of attention" : NULL;
    case MIRAS__OP_NORM: case MIRAS__OP_RMS: case MIRAS__OP_HEAD_NORM: case MIRAS__OP_GATE:
    case MIRAS__OP_RELU2: case MIRAS__OP_COPY: case MIRAS__OP_SCALE: case MIRAS__OP_SQUASH:
    case MIRAS__OP_MULTIPLY: case MIRAS__OP_BRANCH: case MIRAS__OP_READ: case MIRAS__OP_JOIN:
    case MIRAS__OP_SKIP:
      if (o->cols % 8 || o->out_at % 8 || o->in_at[0] % 8 || o->in_at[1] % 8)
        return "its columns are not a multiple of 8, or do not begin at one";
      return o->function == MIRAS_FN_SOFTMAX ? "its function is softmax" : NULL;
    default: break;
  }
  return "it has no kernel here";
}

int miras_cuda_fast_op(const miras_model *m, int layer, int index, char *text, size_t text_size) {
  const miras__program *p;
  const miras__op *o;
  const char *why;
  char word[64] = "";
  if (text && text_size) text[0] = 0;
  if (!m || layer < 0 || layer >= m->desc.layers || index < 0) return -1;
  p = m->layers[layer].p;
  if (index >= p->ops) return -1;
  o = &p->op[index];
  why = miras__fast_refuses(p, o);
  miras__say(word, sizeof word, "%s %s", miras__ops[o->what].word, p->array[o->out].name);
  if (why) miras__say(text, text_size, "%s: %s", word, why);
  else miras__say(text, text_size, "%s", word);
  return !why;
}

static size_t miras__up8(size_t n) { return (n + 7) / 8 * 8; }

/* Where everything lies: what a call has is laid out anew, from the caller's bytes on. */
typedef struct miras__fast {
  const miras_model *m;
  miras_trainer_desc d;
  char *base;
  size_t bytes, rows, ld_v;
  cudaStream_t stream;
  int failed, batch, length, taped;
  uint64_t calls, call;
  float *params, *grads, *moment1, *moment2;
  miras_fast::miras__fast_now *now;
  miras_fast::miras__fast_tensor *tensors;
  unsigned tensor_count, adam_blocks;
  float *norms;
  miras_fast::bf16 *x, *last, *ds, *dlast, *logits, *head, *room;
  void *library, *library_room;      /* cuBLASLt's handle, or NULL                                */
  char *values, *grad;               /* of arrays: of all layers; of the layer at hand            */
  char *weights;                     /* copies of matrices, of all layers                         */
  float *constants;                  /* of all layers: factors of gates, decays                   */
  float *sums, *stats, *losses;
  unsigned *next, *later;
  int32_t *tokens, *targets;
  float *row_weights;
  miras_fast::miras__fast_chunks chunks;   /* their room alone                                    */
  size_t layer_values[MIRAS_MAX_LAYERS], layer_weights[MIRAS_MAX_LAYERS];
  size_t layer_constants[MIRAS_MAX_LAYERS];
} miras__fast;
typedef char miras__fast_fits[sizeof(miras__fast) <= sizeof(((miras_cuda_fast *)0)->held) ? 1 : -1];

static miras__fast *miras__fast_of(const miras_cuda_fast *f) {
  return (miras__fast *)(void *)(uintptr_t)f->held;
}

/* Does an array hold floats: gates and what they are made of, lengths, angles? */
static int miras__fast_is_wide(const miras__program *p, int i) {
  int j;
  if (i == p->mixer.gated && i) return 1;
  for (j = 0; j < p->ops; j++) {
    const miras__op *o = &p->op[j];
    if (o->what == MIRAS__OP_GATES && o->in[0] == i) return 1;
    if (o->what == MIRAS__OP_LENGTH && o->in[0] == i && i) return 1;
    if (o->what == MIRAS__OP_ANGLES && o->out == i) return 1;
  }
  return 0;
}
static size_t miras__fast_ld(const miras__program *p, int i, int grad) {
  const miras__array *r = &p->array[i];
  if (i == MIRAS__X || i == MIRAS__Y) return miras__up8(p->width);
  return miras__up8((size_t)(grad && r->by_head ? r->grad_heads : r->heads) * r->dim);
}
static size_t miras__fast_array_bytes(const miras__program *p, int i, int grad, size_t rows) {
  const size_t all = rows * miras__fast_ld(p, i, grad) * (miras__fast_is_wide(p, i) ? 4 : 2);
  return i == MIRAS__X || i == MIRAS__Y ? 0 : (all + 255) / 256 * 256;
}
/* Bytes of arrays before array i of a layer; i = p->arrays: of all. */
static size_t miras__fast_array_at(const miras__program *p, int i, int grad, size_t rows) {
  size_t at = 0;
  int j;
  for (j = 1; j < i; j++) at += miras__fast_array_bytes(p, j, grad, rows);
  return at;
}

/* The matrix of an operation, a row more for biases: columns of all its parameters. */
static size_t miras__fast_matrix_ld(const miras__program *p, const miras__op *o) {
  return miras__up8(miras__columns_of(p, &p->param[o->param]));
}
static size_t miras__fast_matrix_bytes(const miras__program *p, const miras__op *o) {
  const miras__param *w = &p->param[o->param];
  if ((o->what != MIRAS__OP_TIMES && o->what != MIRAS__OP_BRANCH) || !w->rows) return 0;
  return ((w->rows + 1) * miras__fast_matrix_ld(p, o) * 2 + 255) / 256 * 256;
}
static size_t miras__fast_matrix_at(const miras__program *p, const miras__op *end) {
  size_t at = 0;
  const miras__op *o;
  for (o = p->op; o < end; o++) at += miras__fast_matrix_bytes(p, o);
  return at;
}
static size_t miras__fast_constants(const miras__program *p) {
  return miras__up8(p->mixer.outs) + miras__up8(p->mixer.heads);
}

static void *miras__fast_take(miras__fast *f, size_t bytes) {
  char *at = f->base ? f->base + f->bytes : NULL;
  f->bytes += (bytes + 255) / 256 * 256;
  return at;
}

/* Parts of the depth that a product of weights' gradients goes in: fixed by its shape. */
static unsigned miras__fast_split(size_t m, size_t n, size_t depth) {
  const size_t tiles = (m + 127) / 128 * ((n + 127) / 128);
  size_t parts = (256 + tiles - 1) / tiles, most = depth / 512;
  if (most > 16) most = 16;
  return (unsigned)(parts < most ? parts : most ? most : 1);
}

static void miras__fast_more(size_t *most, size_t n) { if (n > *most) *most = n; }

enum { MIRAS__LIBRARY_ROOM = 32 << 20 };   /* bytes that cuBLASLt may work in                     */

/* The most that an operation of any layer takes of what they all work in. */
typedef struct miras__fast_needs {
  size_t grads, sums, stats, heads, squares, states, inits, rows, columns;
} miras__fast_needs;

static void miras__fast_op_needs(const miras__fast *f, const miras__program *p, const miras__op *o,
                                 miras__fast_needs *most) {
  const size_t n = f->rows, cols = miras__fast_ld(p, o->out, 0);
  const size_t all = (size_t)f->d.batch * p->mixer.heads;
  const size_t chunks = ((size_t)f->d.context + 63) / 64;
  int id;
  miras__fast_more(&most->columns, cols);
  if (o->what == MIRAS__OP_TIMES || o->what == MIRAS__OP_BRANCH)
    for (id = o->param; id; id = p->param[id].next) {
      const miras__param *w = &p->param[id];
      miras__fast_more(&most->sums,
                       (size_t)miras__fast_split(w->rows, w->cols, n) * w->rows * w->cols);
    }
  miras__fast_more(&most->sums,
                   (n + 63) / 64 * (cols + 8) * (o->what == MIRAS__OP_CONV ? 9 : 2));
  if (o->what == MIRAS__OP_HEAD_NORM || o->what == MIRAS__OP_RMS)
    miras__fast_more(&most->stats, n * o->heads);
  if (o->what != MIRAS__OP_MEMORY) return;
  miras__fast_more(&most->heads, all * chunks * 64);
  miras__fast_more(&most->squares, all * chunks * 4096);
  miras__fast_more(&most->states, all * chunks * p->mixer.dk * p->mixer.dv);
  miras__fast_more(&most->inits, all * p->mixer.dk * p->mixer.dv);
  miras__fast_more(&most->rows, n * p->mixer.value);
}

/* Parameters, moments, and what steps work in. */
static void miras__fast_lay_params(miras__fast *f) {
  const miras_model *m = f->m;
  const size_t piece = miras_fast::MIRAS__ADAM_PIECE;
  int i;
  f->params = (float *)miras__fast_take(f, m->param_count * 4);
  f->grads = (float *)miras__fast_take(f, m->param_count * 4);
  f->moment1 = (float *)miras__fast_take(f, m->param_count * 4);
  f->moment2 = (float *)miras__fast_take(f, m->param_count * 4);
  f->now = (miras_fast::miras__fast_now *)miras__fast_take(f, sizeof *f->now);
  f->tensor_count = (unsigned)m->view_count;
  f->tensors = (miras_fast::miras__fast_tensor *)miras__fast_take(
    f, (size_t)m->view_count * sizeof *f->tensors);
  for (i = 0, f->adam_blocks = 0; i < m->view_count; i++)
    f->adam_blocks += (unsigned)((m->views[i].count + piece - 1) / piece);
  f->norms = (float *)miras__fast_take(f, f->adam_blocks * 4);
}

static miras_fast::bf16 *miras__fast_take2(miras__fast *f, size_t n) {
  return (miras_fast::bf16 *)miras__fast_take(f, n * 2);
}
static float *miras__fast_take4(miras__fast *f, size_t n) {
  return (float *)miras__fast_take(f, n * 4);
}

static void miras__fast_layout(miras__fast *f) {
  const miras_model *m = f->m;
  const size_t n = f->rows, width = miras__up8(m->width);
  size_t values = 0, weights = 0, constants = 0, l;
  miras__fast_needs most;
  int i;
  memset(&most, 0, sizeof most);
  most.stats = n, most.columns = m->outs;
  f->bytes = 0;
  f->ld_v = miras__up8(m->outs);
  miras__fast_lay_params(f);
  miras__fast_more(&most.sums, miras__fast_split(m->outs, m->width, n) * m->outs * m->width);
  miras__fast_more(&most.sums, (n + 63) / 64 * (2 * width > f->ld_v ? 2 * width : f->ld_v));
  for (l = 0; l < (size_t)m->desc.layers; l++) {
    const miras__program *p = m->layers[l].p;
    f->layer_values[l] = values, f->layer_weights[l] = weights, f->layer_constants[l] = constants;
    values += miras__fast_array_at(p, p->arrays, 0, n);
    miras__fast_more(&most.grads, miras__fast_array_at(p, p->arrays, 1, n));
    weights += miras__fast_matrix_at(p, p->op + p->ops);
    constants += miras__fast_constants(p);
    for (i = 0; i < p->ops; i++) miras__fast_op_needs(f, p, &p->op[i], &most);
  }
  f->values = (char *)miras__fast_take(f, values);
  f->grad = (char *)miras__fast_take(f, most.grads);
  f->weights = (char *)miras__fast_take(f, weights);
  f->constants = miras__fast_take4(f, constants);
  f->head = miras__fast_take2(f, (m->outs + 1) * width + f->ld_v);
  f->x = miras__fast_take2(f, ((size_t)m->desc.layers + 1) * n * width);
  f->last = miras__fast_take2(f, n * width);
  f->ds = miras__fast_take2(f, n * width);
  f->dlast = miras__fast_take2(f, n * width);
  f->logits = miras__fast_take2(f, n * f->ld_v);
  f->room = miras__fast_take2(f, n * miras__up8(most.columns));
  f->sums = miras__fast_take4(f, most.sums);
  f->stats = miras__fast_take4(f, 2 * most.stats);
  f->losses = miras__fast_take4(f, n);
  f->next = (unsigned *)miras__fast_take(f, n * 4);
  f->later = (unsigned *)miras__fast_take(f, n * 4);
#ifdef MIRAS_CUDA_CUBLASLT
  f->library_room = miras__fast_take(f, MIRAS__LIBRARY_ROOM);
#endif
  f->tokens = (int32_t *)miras__fast_take(f, n * 4);
  f->targets = (int32_t *)miras__fast_take(f, n * 4);
  f->row_weights = miras__fast_take4(f, n);
  memset((void *)&f->chunks, 0, sizeof f->chunks);
  f->chunks.log = miras__fast_take4(f, most.heads);
  f->chunks.rate = miras__fast_take4(f, most.heads);
  f->chunks.m = miras__fast_take2(f, most.squares);
  f->chunks.p = miras__fast_take2(f, most.squares);
  f->chunks.n = miras__fast_take2(f, most.squares);
  f->chunks.s = miras__fast_take2(f, most.states);
  f->chunks.ds = miras__fast_take2(f, most.states);
  f->chunks.dinit = miras__fast_take4(f, most.inits);
  f->chunks.w = miras__fast_take2(f, most.rows);
  f->chunks.u = miras__fast_take2(f, most.rows);
  f->chunks.z = miras__fast_take2(f, most.rows);
}

/* Can it train the model? A sentence if not. */
static int miras__fast_takes(const miras_model *m, const miras_trainer_desc *d, char *why,
                             size_t n) {
  miras_trainer check;
  int l, i;
  if (why && n) why[0] = 0;
  if (miras__trainer_resolve(&check, (miras_model *)(uintptr_t)m, d, why, n) != MIRAS_OK) return 0;
  if (check.desc.carried)
    return miras__say(why, n, "carried is %d; the fast tier trains texts from their start: 0",
                      check.desc.carried), 0;
  if ((double)check.desc.batch * (double)check.desc.context > 16777216.0)
    return miras__say(why, n, "batch times context is over 16777216 rows of a call"), 0;
  if (!miras__reads_tokens(m) || !miras__says_tokens(m) || m->ins != 1)
    return miras__say(why, n, "the fast tier reads tokens and says the next one, nothing else"), 0;
  if (m->desc.weights)
    return miras__say(why, n, "weights are not float; the fast tier makes its own copies"), 0;
  if (m->desc.adapter.rank)
    return miras__say(why, n, "adapter.rank is %d; the fast tier takes 0: it has none",
                      m->desc.adapter.rank), 0;
  if (m->width % 8)
    return miras__say(why, n, "width is %u; for the fast tier it is a multiple of 8",
                      (unsigned)m->width), 0;
  for (l = 0; l < m->desc.layers; l++) {
    const miras__program *p = m->layers[l].p;
    const int reset = p->mixer.heads ? p->mixer.plan.d.reset_every : 0;
    for (i = 0; i < p->ops; i++) {
      char text[160];
      if (miras_cuda_fast_op(m, l, i, text, sizeof text)) continue;
      return miras__say(why, n, "layer %d, operation %s", l, text), 0;
    }
    if (reset && check.desc.context > reset)
      return miras__say(why, n,
                        "context is %d; in the fast tier it is up to memory.reset_every, %d",
                        check.desc.context, reset), 0;
  }
  return 1;
}

static void miras__fast_begin(miras__fast *f, const miras_model *m, const miras_trainer_desc *d) {
  memset((void *)f, 0, sizeof *f);
  f->m = m;
  f->d = *d;
  if (!f->d.batch) f->d.batch = 1;
  f->rows = (size_t)f->d.batch * (size_t)f->d.context;
  miras__fast_layout(f);
}

size_t miras_cuda_fast_size(const miras_model *m, const miras_trainer_desc *d, char *why,
                            size_t why_size) {
  miras__fast f;
  if (!miras__fast_takes(m, d, why, why_size)) return 0;
  miras__fast_begin(&f, m, d);
  return f.bytes;
}

/* ---- launches ---- */

template <class A>
static void miras__fast_launch(miras__fast *f, void (*kernel)(const A), size_t blocks,
                               unsigned threads, size_t bytes, const A &a) {
  void *arguments[1] = {(void *)(uintptr_t)&a};
  static_assert(sizeof(A) <= 4096, "what any device takes");
  if (f->failed || !blocks) return;
  f->failed = blocks > INT_MAX ||
              (bytes > 48 << 10 &&
               cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    (int)bytes) != cudaSuccess) ||
              cudaLaunchKernel(kernel, dim3((unsigned)blocks), dim3(threads), arguments, bytes,
                               f->stream) != cudaSuccess;
}
template <class A>
static void miras__fast_rows(miras__fast *f, void (*kernel)(const A), size_t items, const A &a) {
  miras__fast_launch(f, kernel, (items + 255) / 256, 256, 0, a);
}

typedef miras_fast::bf16 miras__bf16;

/* C = or += A B, of rows in bfloat16; ta, tb: A, or B, lies turned. */
static miras_fast::miras__fast_product miras__fast_product_of(const miras__bf16 *a, size_t lda,
                                                              const miras__bf16 *b, size_t ldb,
                                                              size_t m, size_t n, size_t k) {
  miras_fast::miras__fast_product x;
  memset((void *)&x, 0, sizeof x);
  x.a = a, x.lda = (unsigned)lda, x.b = b, x.ldb = (unsigned)ldb;
  x.m = (unsigned)m, x.n = (unsigned)n, x.k = (unsigned)k;
  x.across = (unsigned)((n + 127) / 128), x.parts = 1;
  return x;
}
#ifdef MIRAS_CUDA_CUBLASLT
/* The same by cuBLASLt, to which rows are columns: C' = B' A'. Returns 0 where it refuses. */
static int miras__fast_library(miras__fast *f, const miras_fast::miras__fast_product *x, int ta,
                               int tb) {
  const cublasLtEpilogue_t biased = CUBLASLT_EPILOGUE_BIAS;
  const cublasOperation_t turned = CUBLAS_OP_T;
  const cudaDataType_t half = CUDA_R_16BF, result = x->wide ? CUDA_R_32F : CUDA_R_16BF;
  const float one = 1, beta = x->base || x->adds ? 1.0f : 0.0f;
  void *const to = x->wide ? (void *)x->wide : (void *)x->c;
  const void *const from = x->base ? (const void *)x->base : to;
  const size_t most = MIRAS__LIBRARY_ROOM;
  cublasLtMatmulDesc_t op = NULL;
  cublasLtMatrixLayout_t a = NULL, b = NULL, c = NULL;
  cublasLtMatmulPreference_t wish = NULL;
  cublasLtMatmulHeuristicResult_t way;
  static const cublasLtMatmulPreferenceAttributes_t aligned[4] = {   /* more is taken for granted */
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES
  };
  const uint32_t least = 16;
  int ways = 0, ok, i;
  if (!f->library || x->sums || (x->wide && (x->bias || x->base))) return 0;
  ok = !cublasLtMatmulDescCreate(&op, CUBLAS_COMPUTE_32F, CUDA_R_32F) &&
       !cublasLtMatrixLayoutCreate(&b, half, tb ? x->k : x->n, tb ? x->n : x->k, x->ldb) &&
       !cublasLtMatrixLayoutCreate(&a, half, ta ? x->m : x->k, ta ? x->k : x->m, x->lda) &&
       !cublasLtMatrixLayoutCreate(&c, result, x->n, x->m, x->ldc) &&
       !cublasLtMatmulPreferenceCreate(&wish) &&
       !cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most,
                                             sizeof most);
  for (i = 0; ok && i < 4; i++)
    ok = !cublasLtMatmulPreferenceSetAttribute(wish, aligned[i], &least, sizeof least);
  if (ok && tb)
    ok = !cublasLtMatmulDescSetAttribute(op, CUBLASLT_MATMUL_DESC_TRANSA, &turned, sizeof turned);
  if (ok && ta)
    ok = !cublasLtMatmulDescSetAttribute(op, CUBLASLT_MATMUL_DESC_TRANSB, &turned, sizeof turned);
  if (ok && x->bias)
    ok = !cublasLtMatmulDescSetAttribute(op, CUBLASLT_MATMUL_DESC_EPILOGUE, &biased,
                                         sizeof biased) &&
         !cublasLtMatmulDescSetAttribute(op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &x->bias,
                                         sizeof x->bias);
  ok = ok &&
       !cublasLtMatmulAlgoGetHeuristic((cublasLtHandle_t)f->library, op, b, a, c, c, wish, 1, &way,
                                       &ways) && ways &&
       !cublasLtMatmul((cublasLtHandle_t)f->library, op, &one, x->b, b, x->a, a, &beta, from, c, to,
                       c, &way.algo, f->library_room, most, f->stream);
  cublasLtMatmulPreferenceDestroy(wish);
  cublasLtMatrixLayoutDestroy(a), cublasLtMatrixLayoutDestroy(b), cublasLtMatrixLayoutDestroy(c);
  cublasLtMatmulDescDestroy(op);
  return ok;
}
#endif

static void miras__fast_multiply(miras__fast *f, const miras_fast::miras__fast_product *x, int ta,
                                 int tb) {
  const size_t blocks = (size_t)(x->m + 127) / 128 * x->across * x->parts;
#ifdef MIRAS_CUDA_CUBLASLT
  if (f->failed || miras__fast_library(f, x, ta, tb)) return;
#endif
  miras__fast_launch(f,
                     ta ? miras_fast::miras__run_fast_product<1, 0>
                        : tb ? miras_fast::miras__run_fast_product<0, 1>
                             : miras_fast::miras__run_fast_product<0, 0>,
                     blocks, 256, miras_fast::MIRAS__PRODUCT_BYTES, *x);
}
/* A gradient of weights: to [m, n] += x' d over all rows. */
static void miras__fast_weights(miras__fast *f, float *to, const miras__bf16 *x, size_t ldx,
                                const miras__bf16 *d, size_t ldd, size_t m, size_t n, size_t rows) {
  miras_fast::miras__fast_product of = miras__fast_product_of(x, ldx, d, ldd, m, n, rows);
  of.parts = miras__fast_split(m, n, rows);
  if (of.parts > 1 && !f->library) {
    miras_fast::miras__fast_parts sum;
    of.sums = f->sums;
    miras__fast_multiply(f, &of, 1, 0);
    sum.to = to, sum.sums = f->sums, sum.n = m * n, sum.parts = of.parts;
    miras__fast_rows(f, miras_fast::miras__run_fast_parts, sum.n, sum);
    return;
  }
  of.wide = to, of.ldc = (unsigned)n, of.adds = 1, of.parts = 1;
  miras__fast_multiply(f, &of, 1, 0);
}

/* Sums of columns over rows, and where they go. */
static void miras__fast_sum(miras__fast *f, miras_fast::miras__fast_sums *s) {
  s->rows = (unsigned)((size_t)f->batch * (size_t)f->length);
  s->length = (unsigned)f->length;
  s->to = f->sums;
  s->across = (s->cols + 255) / 256;
  miras__fast_launch(f, miras_fast::miras__run_fast_sums, (size_t)(s->rows + 63) / 64 * s->across,
                     256, 256 * 8 * 4, *s);
}
static void miras__fast_fold(miras__fast *f, float *to, size_t n, size_t stride, size_t first,
                             size_t step, size_t folds, size_t apart) {
  miras_fast::miras__fast_fold x;
  x.to = to, x.from = f->sums, x.n = (unsigned)n;
  x.strips = (unsigned)(((size_t)f->batch * (size_t)f->length + 63) / 64);
  x.stride = (unsigned)stride, x.first = (unsigned)first, x.step = (unsigned)step;
  x.folds = (unsigned)folds, x.apart = (unsigned)apart;
  miras__fast_rows(f, miras_fast::miras__run_fast_fold, n, x);
}

/* A layer at work. */
typedef struct miras__fast_layer {
  miras__fast *f;
  const miras__layer *layer;
  const miras__program *p;
  int l;
  size_t rows;                       /* of the call                                               */
} miras__fast_layer;

static size_t miras__fast_width(const miras__fast *f) { return miras__up8(f->m->width); }

static char *miras__fast_value(const miras__fast_layer *a, int i) {
  miras__fast *f = a->f;
  if (i == MIRAS__X || i == MIRAS__Y)
    return (char *)(f->x + (size_t)(a->l + (i == MIRAS__Y)) * f->rows * miras__fast_width(f));
  return f->values + f->layer_values[a->l] + miras__fast_array_at(a->p, i, 0, f->rows);
}
static miras__bf16 *miras__fast_x(const miras__fast_layer *a, int i, size_t at) {
  return i ? (miras__bf16 *)(void *)miras__fast_value(a, i) + at : NULL;
}
static float *miras__fast_floats(const miras__fast_layer *a, int i) {
  return (float *)(void *)miras__fast_value(a, i);
}
static char *miras__fast_grad(const miras__fast_layer *a, int i) {
  return a->f->grad + miras__fast_array_at(a->p, i, 1, a->f->rows);
}
static miras__bf16 *miras__fast_d(const miras__fast_layer *a, int i, size_t at) {
  return (miras__bf16 *)(void *)miras__fast_grad(a, i) + at;
}
static unsigned miras__fast_ldx(const miras__fast_layer *a, int i) {
  return (unsigned)miras__fast_ld(a->p, i, 0);
}
static unsigned miras__fast_ldd(const miras__fast_layer *a, int i) {
  return (unsigned)miras__fast_ld(a->p, i, 1);
}
static float *miras__fast_param(const miras__fast_layer *a, int id) {
  return a->f->params + a->layer->first + miras__param_at(&a->p->param[id]);
}
static float *miras__fast_dparam(const miras__fast_layer *a, int id) {
  return a->f->grads + a->layer->first + miras__param_at(&a->p->param[id]);
}
static miras__bf16 *miras__fast_matrix(const miras__fast_layer *a, const miras__op *o) {
  return (miras__bf16 *)(void *)(a->f->weights + a->f->layer_weights[a->l] +
                                 miras__fast_matrix_at(a->p, o));
}
/* Factors of gates, and behind them constant decays. */
static float *miras__fast_factors(const miras__fast_layer *a) {
  return a->f->constants + a->f->layer_constants[a->l];
}

static unsigned miras__fast_lanes(size_t n) {
  unsigned lanes = 2;
  while (lanes < 32 && 8 * lanes < n) lanes *= 2;
  return lanes;
}

/* ---- maps ---- */

static miras_fast::miras__fast_map miras__fast_map_of(const miras__fast_layer *a,
                                                      const miras__op *o, int what, size_t cols) {
  miras_fast::miras__fast_map x;
  memset((void *)&x, 0, sizeof x);
  x.what = what, x.function = o ? o->function : 0, x.scale = 1;
  x.eights = (unsigned)(cols / 8), x.items = a->rows * x.eights;
  return x;
}
static void miras__fast_map(const miras__fast_layer *a, const miras_fast::miras__fast_map *x) {
  miras__fast_rows(a->f, miras_fast::miras__run_fast_map, x->items, *x);
}

/* What a pointwise operation is: forward, back, and how many columns. */
static int miras__fast_map_kind(const miras__op *o, int back) {
  switch (o->what) {
    case MIRAS__OP_GATE: return back ? miras_fast::MIRAS__MAP_GATE_BACK
                                     : miras_fast::MIRAS__MAP_GATE;
    case MIRAS__OP_MULTIPLY: return back ? miras_fast::MIRAS__MAP_TIMES_BACK
                                         : miras_fast::MIRAS__MAP_TIMES;
    case MIRAS__OP_RELU2: return back ? miras_fast::MIRAS__MAP_F_BACK : miras_fast::MIRAS__MAP_F;
    case MIRAS__OP_SQUASH: return back ? miras_fast::MIRAS__MAP_SQUASH_BACK
                                       : miras_fast::MIRAS__MAP_F;
    default: return miras_fast::MIRAS__MAP_COPY;
  }
}
static void miras__fast_pointwise(const miras__fast_layer *a, const miras__op *o, int back) {
  const size_t cols = (size_t)o->cols * (o->what == MIRAS__OP_JOIN || o->what == MIRAS__OP_READ
                                           ? o->heads : 1);
  miras_fast::miras__fast_map x = miras__fast_map_of(a, o, miras__fast_map_kind(o, back), cols);
  const int in = o->what == MIRAS__OP_SQUASH ? o->out : o->in[0];
  const size_t at = o->what == MIRAS__OP_SQUASH ? o->out_at : o->in_at[0];
  if (o->what == MIRAS__OP_SCALE) x.scale = a->p->scales[o->part];
  if (o->what == MIRAS__OP_RELU2) x.function = MIRAS_FN_RELU2;
  if (!back) {
    x.x = miras__fast_x(a, in, at), x.ldx = miras__fast_ldx(a, in);
    if (o->in[1])
      x.u = miras__fast_x(a, o->in[1], o->in_at[1]), x.ldu = miras__fast_ldx(a, o->in[1]);
    x.y = miras__fast_x(a, o->out, o->out_at), x.ldy = miras__fast_ldx(a, o->out);
    miras__fast_map(a, &x);
    return;
  }
  x.y = miras__fast_d(a, in, at), x.ldy = miras__fast_ldd(a, in);
  x.adds = o->what != MIRAS__OP_SQUASH && (o->adds & 1);
  if (x.what == miras_fast::MIRAS__MAP_COPY) {
    x.x = miras__fast_d(a, o->out, o->out_at), x.ldx = miras__fast_ldd(a, o->out);
    miras__fast_map(a, &x);
    return;
  }
  x.d = miras__fast_d(a, o->out, o->out_at), x.ldd = miras__fast_ldd(a, o->out);
  x.x = miras__fast_x(a, in, at), x.ldx = miras__fast_ldx(a, in);
  if (o->in[1]) {
    x.u = miras__fast_x(a, o->in[1], o->in_at[1]), x.ldu = miras__fast_ldx(a, o->in[1]);
    x.z = miras__fast_d(a, o->in[1], o->in_at[1]), x.ldz = miras__fast_ldd(a, o->in[1]);
    x.adds_z = o->adds >> 1 & 1;
  }
  miras__fast_map(a, &x);
}

/* ---- norms ---- */

static void miras__fast_norms(const miras__fast_layer *a, const miras__op *o, int back) {
  const miras__program *p = a->p;
  const int layered = p->norm && (o->param == MIRAS__W_NORM1 || o->param == MIRAS__W_NORM2);
  const int headed = o->what == MIRAS__OP_HEAD_NORM, stream = o->what == MIRAS__OP_NORM;
  const int bias = layered ? o->param + 1
                 : headed && p->param[MIRAS__W_OUT_BIAS].rows ? MIRAS__W_OUT_BIAS : 0;
  const size_t cols = (size_t)o->heads * o->cols;
  miras_fast::miras__fast_norm x;
  miras_fast::miras__fast_sums s;
  if (stream && !o->param) {         /* the stream itself                                         */
    miras_fast::miras__fast_map copy =
      miras__fast_map_of(a, o, back ? miras_fast::MIRAS__MAP_ADD : miras_fast::MIRAS__MAP_COPY,
                         cols);
    copy.x = back ? a->f->ds : miras__fast_x(a, o->in[0], 0);
    copy.ldx = (unsigned)miras__fast_width(a->f);
    if (back) copy.u = miras__fast_d(a, o->out, 0), copy.ldu = miras__fast_ldd(a, o->out);
    copy.y = back ? a->f->ds : miras__fast_x(a, o->out, 0), copy.ldy = copy.ldx;
    miras__fast_map(a, &copy);
    return;
  }
  memset((void *)&x, 0, sizeof x);
  x.x = miras__fast_x(a, o->in[0], o->in_at[0]), x.ldx = miras__fast_ldx(a, o->in[0]);
  x.heads = o->heads, x.n = o->cols, x.items = (unsigned)(a->rows * o->heads);
  x.step = headed ? o->cols : 0;
  x.lanes = miras__fast_lanes(o->cols);
  x.function = o->function;
  x.epsilon = headed ? p->out_epsilon : o->param ? p->epsilon : p->inner_epsilon;
  if (o->param) x.gain = miras__fast_param(a, o->param);
  if (bias) x.bias = miras__fast_param(a, bias);
  if (headed && o->in[1])
    x.gate = miras__fast_x(a, o->in[1], o->in_at[1]), x.ld_gate = miras__fast_ldx(a, o->in[1]);
  if (!back) {
    x.y = miras__fast_x(a, o->out, o->out_at), x.ldy = miras__fast_ldx(a, o->out);
    miras__fast_launch(a->f, miras_fast::miras__run_fast_norm,
                       (x.items + 256 / x.lanes - 1) / (256 / x.lanes), 256, 0, x);
    return;
  }
  x.d = miras__fast_d(a, o->out, o->out_at), x.ldd = miras__fast_ldd(a, o->out);
  x.stats = a->f->stats;
  x.dx = stream ? a->f->ds : miras__fast_d(a, o->in[0], o->in_at[0]);
  x.ld_dx = stream ? (unsigned)miras__fast_width(a->f) : miras__fast_ldd(a, o->in[0]);
  if (stream || o->adds & 1) x.base = x.dx, x.ld_base = x.ld_dx;
  if (x.gate)
    x.dgate = miras__fast_d(a, o->in[1], o->in_at[1]), x.ld_dgate = miras__fast_ldd(a, o->in[1]);
  miras__fast_launch(a->f, miras_fast::miras__run_fast_norm_back,
                     (x.items + 256 / x.lanes - 1) / (256 / x.lanes), 256, 0, x);
  if (!o->param) return;
  memset((void *)&s, 0, sizeof s);
  s.what = miras_fast::MIRAS__SUM_GAIN, s.function = o->function;
  s.d = x.d, s.ldd = x.ldd, s.x = x.x, s.ldx = x.ldx, s.gate = x.gate, s.ld_gate = x.ld_gate;
  s.stats = x.stats, s.heads = x.heads, s.n = x.n, s.cols = (unsigned)cols;
  s.sets = bias ? 2 : 1;
  miras__fast_sum(a->f, &s);
  miras__fast_fold(a->f, miras__fast_dparam(a, o->param), headed ? cols : o->cols,
                   s.sets * cols, 0, 1, headed ? 1 : o->heads, o->cols);
  if (bias)
    miras__fast_fold(a->f, miras__fast_dparam(a, bias), headed ? cols : o->cols, s.sets * cols,
                     cols, 1, headed ? 1 : o->heads, o->cols);
}

/* ---- products ---- */

static int miras__fast_biased(const miras__fast_layer *a, const miras__op *o) {
  int id;
  for (id = o->param; id; id = a->p->param[id].next)
    if (a->p->param[id].bias) return 1;
  return 0;
}

/* The gradients of an operation's weights and biases, of rows x and d. */
static void miras__fast_times_weights(const miras__fast_layer *a, const miras__op *o,
                                      const miras__bf16 *x, size_t ldx, const miras__bf16 *d,
                                      size_t ldd) {
  const miras__program *p = a->p;
  const size_t first = p->param[o->param].column;
  int id;
  for (id = o->param; id; id = p->param[id].next) {
    const miras__param *w = &p->param[id];
    const size_t at = w->column - first;
    miras__fast_weights(a->f, miras__fast_dparam(a, id), x, ldx, d + at, ldd, w->rows, w->cols,
                        a->rows);
    if (w->bias) {
      miras_fast::miras__fast_sums s;
      memset((void *)&s, 0, sizeof s);
      s.d = d + at, s.ldd = (unsigned)ldd, s.sets = 1, s.heads = 1, s.n = 8;
      s.cols = (unsigned)miras__up8(w->cols);
      miras__fast_sum(a->f, &s);
      miras__fast_fold(a->f, miras__fast_dparam(a, w->bias), w->cols, s.cols, 0, 1, 1, 0);
    }
  }
}

static void miras__fast_multiplied(const miras__fast_layer *a, const miras__op *o, int back) {
  const miras__program *p = a->p;
  const miras__param *w = &p->param[o->param];
  const size_t ld = miras__fast_matrix_ld(p, o), cols = miras__columns_of(p, w);
  const miras__bf16 *const matrix = miras__fast_matrix(a, o);
  const miras__bf16 *const x = miras__fast_x(a, o->in[0], o->in_at[0]);
  const unsigned ldx = miras__fast_ldx(a, o->in[0]);
  miras_fast::miras__fast_product of;
  if (!back) {
    of = miras__fast_product_of(x, ldx, matrix, ld, a->rows, cols, w->rows);
    if (miras__fast_biased(a, o)) of.bias = matrix + w->rows * ld;
    of.ldc = miras__fast_ldx(a, o->out);
    if (miras__fast_is_wide(p, o->out)) of.wide = miras__fast_floats(a, o->out) + o->out_at;
    else of.c = miras__fast_x(a, o->out, o->out_at);
    miras__fast_multiply(a->f, &of, 0, 0);
    return;
  }
  of = miras__fast_product_of(miras__fast_d(a, o->out, o->out_at), miras__fast_ldd(a, o->out),
                              matrix, ld, a->rows, w->rows, cols);
  of.c = miras__fast_d(a, o->in[0], o->in_at[0]), of.ldc = miras__fast_ldd(a, o->in[0]);
  of.adds = o->adds & 1;
  miras__fast_multiply(a->f, &of, 0, 1);
  miras__fast_times_weights(a, o, x, ldx, of.a, of.lda);
}

static miras_fast::miras__fast_drop miras__fast_drop_of(const miras__fast *f, size_t site,
                                                        size_t rows) {
  const float rate = f->m->desc.dropout;
  miras_fast::miras__fast_drop x;
  memset((void *)&x, 0, sizeof x);
  x.now = f->now;
  x.seed = miras__hash(f->m->desc.seed + 1);
  x.call = f->call, x.site = site;
  x.limit = (uint32_t)((double)rate * 4294967296.0), x.scale = 1.0f / (1.0f - rate);
  x.ld = (unsigned)miras__fast_width(f);
  x.eights = x.ld / 8, x.items = rows * x.eights;
  return x;
}

/* Is dropout at work: of a call that trains? */
static int miras__fast_drops(const miras__fast *f) { return f->m->desc.dropout > 0 && f->taped; }

/* y = x + u W + b; back du, and the weights' gradients. */
static void miras__fast_branch(const miras__fast_layer *a, const miras__op *o, int back) {
  const miras__program *p = a->p;
  const miras__param *w = &p->param[o->param];
  const size_t width = p->width, ldw = miras__fast_width(a->f);
  const int drop = p->drops && miras__fast_drops(a->f);
  const miras__bf16 *const u = miras__fast_x(a, o->in[1], 0);
  const unsigned ldu = miras__fast_ldx(a, o->in[1]);
  const size_t ld = w->rows ? miras__fast_matrix_ld(p, o) : 0;
  miras_fast::miras__fast_drop mask =
    miras__fast_drop_of(a->f, a->layer->site + o->part, a->rows);
  miras_fast::miras__fast_product of;
  miras_fast::miras__fast_map copy = miras__fast_map_of(a, NULL, miras_fast::MIRAS__MAP_ADD, ldw);
  if (!back) {
    miras__bf16 *const y = miras__fast_x(a, o->out, 0);
    const miras__bf16 *const x = miras__fast_x(a, o->in[0], 0);
    miras__bf16 *const to = drop ? a->f->room : y;
    if (w->rows) {
      of = miras__fast_product_of(u, ldu, miras__fast_matrix(a, o), ld, a->rows, width, w->rows);
      of.c = to, of.ldc = (unsigned)ldw;
      if (!drop) of.base = x;
      if (w->bias) of.bias = miras__fast_matrix(a, o) + w->rows * ld;
      miras__fast_multiply(a->f, &of, 0, 0);
    } else if (!drop) {
      copy.x = x, copy.ldx = copy.ldy = (unsigned)ldw, copy.u = u, copy.ldu = ldu, copy.y = y;
      miras__fast_map(a, &copy);
    }
    if (!drop) return;
    mask.base = x, mask.x = w->rows ? to : u, mask.y = y;
    miras__fast_rows(a->f, miras_fast::miras__run_fast_drop, mask.items, mask);
    return;
  }
  {
    const miras__bf16 *d = a->f->ds;
    miras__bf16 *const du = miras__fast_d(a, o->in[1], 0);
    if (drop) {
      mask.x = d, mask.y = a->f->room;
      miras__fast_rows(a->f, miras_fast::miras__run_fast_drop, mask.items, mask);
      d = a->f->room;
    }
    if (!w->rows) {
      copy.what = miras_fast::MIRAS__MAP_COPY;
      copy.x = d, copy.ldx = (unsigned)ldw, copy.y = du, copy.ldy = miras__fast_ldd(a, o->in[1]);
      miras__fast_map(a, &copy);
      return;
    }
    of = miras__fast_product_of(d, ldw, miras__fast_matrix(a, o), ld, a->rows, w->rows, width);
    of.c = du, of.ldc = miras__fast_ldd(a, o->in[1]);
    miras__fast_multiply(a->f, &of, 0, 1);
    miras__fast_times_weights(a, o, u, ldu, d, ldw);
  }
}

/* ---- what heads read ---- */

static miras_fast::miras__fast_conv miras__fast_conv_of(const miras__fast_layer *a,
                                                        const miras__op *o) {
  const miras__array *r = &a->p->array[o->out];
  miras_fast::miras__fast_conv x;
  memset((void *)&x, 0, sizeof x);
  x.heads = r->heads, x.n = r->dim, x.group = r->grad_heads / r->heads;
  if (!r->by_head) x.group = 1;
  x.tokens = (unsigned)a->f->length, x.scale = 1;
  if (r->dim > 256) x.n = 8, x.heads = r->heads * r->dim / 8;   /* no lengths: any pieces     */
  x.items = (unsigned)(a->rows * x.heads);
  x.lanes = miras__fast_lanes(x.n);
  return x;
}
static void miras__fast_with_length(const miras__fast_layer *a, const miras__op *o,
                                    miras_fast::miras__fast_conv *x) {
  const miras__mixer *m = &a->p->mixer;
  x->length = m->length != 0 ? miras__length_by(m, o) : 0;
  if (m->length != 0) x->inverse = miras__fast_floats(a, o->in[0]);
  else x->scale = m->query_scale;
}
static void miras__fast_run_items(const miras__fast_layer *a,
                                  void (*kernel)(const miras_fast::miras__fast_conv),
                                  const miras_fast::miras__fast_conv *x) {
  const unsigned each = 256 / x->lanes;
  miras__fast_launch(a->f, kernel, (x->items + each - 1) / each, 256, 0, *x);
}

/* LENGTH where no convolution does it, and its adjoint where the gradient lies. */
static void miras__fast_length(const miras__fast_layer *a, const miras__op *o, int back) {
  miras_fast::miras__fast_conv x = miras__fast_conv_of(a, o);
  miras__fast_with_length(a, o, &x);
  x.x = miras__fast_x(a, o->out, 0), x.ldx = miras__fast_ldx(a, o->out);
  if (!back) {
    if (miras__fast_conv_before(a->p, o)) return;
    x.y = miras__fast_x(a, o->out, 0), x.ldy = x.ldx;
    miras__fast_run_items(a, miras_fast::miras__run_fast_conv, &x);
    return;
  }
  if (!x.inverse) x.x = NULL;
  x.heads *= x.group, x.items *= x.group;
  if (x.group > 1 && x.inverse) return;                /* the convolution's adjoint does it       */
  x.group = 1;
  x.d = x.y = miras__fast_d(a, o->out, 0), x.ldd = x.ldy = miras__fast_ldd(a, o->out);
  miras__fast_run_items(a, miras_fast::miras__run_fast_conv_back, &x);
}

static void miras__fast_conv(const miras__fast_layer *a, const miras__op *o, int back) {
  const miras__program *p = a->p;
  const miras__param *w = &p->param[o->param];
  const miras__op *const length = miras__fast_length_of(p, o);
  const size_t cols = (size_t)p->array[o->out].heads * p->array[o->out].dim;
  miras_fast::miras__fast_conv x = miras__fast_conv_of(a, o);
  miras_fast::miras__fast_sums s;
  x.x = miras__fast_x(a, o->in[0], o->in_at[0]), x.ldx = miras__fast_ldx(a, o->in[0]);
  x.function = o->function;
  if (w->rows) x.taps = w->rows, x.w = miras__fast_param(a, o->param);
  if (w->rows && w->bias && p->param[w->bias].rows) x.bias = miras__fast_param(a, w->bias);
  if (!back) {
    if (length) miras__fast_with_length(a, length, &x);
    x.y = miras__fast_x(a, o->out, o->out_at), x.ldy = miras__fast_ldx(a, o->out);
    miras__fast_run_items(a, miras_fast::miras__run_fast_conv, &x);
    return;
  }
  x.d = miras__fast_d(a, o->out, o->out_at), x.ldd = miras__fast_ldd(a, o->out);
  if (x.group > 1 && length && p->mixer.length != 0) {
    /* heads that share a key: their gradients are added up before its length's adjoint */
    miras_fast::miras__fast_conv y = miras__fast_conv_of(a, length);
    miras__fast_with_length(a, length, &y);
    y.x = miras__fast_x(a, o->out, 0), y.ldx = miras__fast_ldx(a, o->out);
    y.d = x.d, y.ldd = x.ldd, y.y = a->f->room, y.ldy = (unsigned)miras__up8(cols);
    miras__fast_run_items(a, miras_fast::miras__run_fast_conv_back, &y);
    x.d = y.y, x.ldd = y.ldy, x.group = 1;
  }
  x.y = x.taps ? a->f->room : miras__fast_d(a, o->in[0], o->in_at[0]);
  x.ldy = x.taps ? (unsigned)miras__up8(cols) : miras__fast_ldd(a, o->in[0]);
  x.adds = !x.taps && (o->adds & 1);
  miras__fast_run_items(a, miras_fast::miras__run_fast_conv_back, &x);
  if (!x.taps) return;
  memset((void *)&s, 0, sizeof s);
  s.what = miras_fast::MIRAS__SUM_CONV, s.taps = x.taps, s.sets = x.taps + (x.bias != NULL);
  s.d = a->f->room, s.ldd = x.ldy, s.x = x.x, s.ldx = x.ldx;
  s.cols = (unsigned)cols, s.heads = 1, s.n = (unsigned)cols;
  miras__fast_sum(a->f, &s);
  miras__fast_fold(a->f, miras__fast_dparam(a, o->param), x.taps * cols, s.sets * cols, 0, 1, 1, 0);
  if (x.bias)
    miras__fast_fold(a->f, miras__fast_dparam(a, w->bias), cols, s.sets * cols, x.taps * cols, 1, 1,
                     0);
  x.d = a->f->room, x.ldd = x.ldy;
  x.y = miras__fast_d(a, o->in[0], o->in_at[0]), x.ldy = miras__fast_ldd(a, o->in[0]);
  x.adds = o->adds & 1;
  x.items = (unsigned)a->rows;
  miras__fast_rows(a->f, miras_fast::miras__run_fast_conv_turned, a->rows * (cols / 8), x);
}

static void miras__fast_read_back(const miras__fast_layer *a, const miras__op *o) {
  miras_fast::miras__fast_conv x = miras__fast_conv_of(a, o);
  x.d = miras__fast_d(a, o->out, o->out_at), x.ldd = miras__fast_ldd(a, o->out);
  x.y = miras__fast_d(a, o->in[0], o->in_at[0]), x.ldy = miras__fast_ldd(a, o->in[0]);
  x.adds = o->adds & 1;
  miras__fast_run_items(a, miras_fast::miras__run_fast_conv_back, &x);
}

static void miras__fast_angles(const miras__fast_layer *a, const miras__op *o) {
  const miras__rope *r = &a->p->mixer.rope;
  miras_fast::miras__fast_rope x;
  double by;                         /* what a position turns the second pair by                  */
  memset((void *)&x, 0, sizeof x);
  x.angles = miras__fast_floats(a, o->out);
  memcpy(&by, r->turns + MIRAS__TILE * r->turn + sizeof by / sizeof(float), sizeof by);
  x.slower = log(by);
  x.turn = (unsigned)r->turn, x.period = (unsigned)r->period;
  x.items = (size_t)a->f->length * r->turn / 2;
  miras__fast_rows(a->f, miras_fast::miras__run_fast_angles, x.items, x);
}
static void miras__fast_turn(const miras__fast_layer *a, const miras__op *o, int back) {
  const miras__rope *r = &a->p->mixer.rope;
  const miras__array *y = &a->p->array[o->out];
  miras_fast::miras__fast_rope x;
  memset((void *)&x, 0, sizeof x);
  x.angles = miras__fast_floats(a, o->in[0]);
  x.x = back ? miras__fast_d(a, o->out, 0) : miras__fast_x(a, o->out, 0);
  x.ldx = back ? miras__fast_ldd(a, o->out) : miras__fast_ldx(a, o->out);
  x.heads = back ? y->grad_heads : y->heads, x.n = y->dim, x.back = back;
  x.turn = (unsigned)r->turn, x.way = (unsigned)r->way, x.tokens = (unsigned)a->f->length;
  x.items = a->rows * x.heads * (r->way == 1 ? r->turn / 16 : r->turn / 8);
  miras__fast_rows(a->f, miras_fast::miras__run_fast_turn, x.items, x);
}

/* ---- gates and memories ---- */

static void miras__fast_gates(const miras__fast_layer *a, const miras__op *o, int back) {
  static const int kinds[2] = {MIRAS__KEEP, MIRAS__STEP};
  const miras__mixer *m = &a->p->mixer;
  miras_fast::miras__fast_gates x;
  size_t strips;
  int i;
  memset((void *)&x, 0, sizeof x);
  for (i = 0; i < 2; i++) {
    const miras__gates *from = &m->gate[kinds[i]];
    const miras__gating how = miras__gating_of(m, from);
    miras_fast::miras__fast_group *to = &x.of[i];
    to->first = from->first, to->from = from->from, to->count = from->count;
    to->offset = from->offset, to->form = how.form, to->cap = how.cap;
    to->low = how.low, to->high = how.high;
    to->learns = miras__gate_learns(how.form);
    if (to->learns) x.rates = from->count;
  }
  if (o->in[0]) x.g = miras__fast_floats(a, o->in[0]), x.ldg = miras__fast_ldx(a, o->in[0]);
  x.offset = miras__fast_param(a, MIRAS__W_GATES_OFFSET);
  x.rate = miras__fast_param(a, MIRAS__W_GATES_RATE);
  x.scale = miras__fast_factors(a);
  x.y = miras__fast_floats(a, o->out), x.ldy = miras__fast_ldx(a, o->out);
  x.rows = (unsigned)a->rows, x.outs = (unsigned)m->outs, x.gates = (unsigned)m->gates;
  x.moving = o->in[0] ? (unsigned)m->moving : 0;
  if (!back) {
    miras__fast_rows(a->f, miras_fast::miras__run_fast_gates, a->rows * m->outs, x);
    return;
  }
  x.d = (float *)(void *)miras__fast_grad(a, o->out);
  if (o->in[0]) x.dg = miras__fast_d(a, o->in[0], 0), x.ld_dg = miras__fast_ldd(a, o->in[0]);
  x.to = a->f->sums;
  strips = (a->rows + 63) / 64;
  miras__fast_launch(a->f, miras_fast::miras__run_fast_gates_back,
                     strips * ((m->gates + 127) / 128), 64, 0, x);
  miras__fast_fold(a->f, miras__fast_dparam(a, MIRAS__W_GATES_OFFSET), m->gates,
                   m->gates + x.rates, 0, 1, 1, 0);
  if (x.rates)
    miras__fast_fold(a->f, miras__fast_dparam(a, MIRAS__W_GATES_RATE), x.rates,
                     m->gates + x.rates, m->gates, 1, 1, 0);
}

/* The chunk kernels of a width of keys: C1; C2 forward and again, C3, by 32 and 64 columns of
 * values; C4; and their bytes of shared memory. */
typedef void miras__fast_grid(const miras_fast::miras__fast_chunks);
typedef struct miras__fast_set {
  miras__fast_grid *c1, *c2[2], *again[2], *c3[2], *c4;
  size_t bytes1, bytes2[2], bytes4;
} miras__fast_set;
template <int DK, int DELTA> static miras__fast_set miras__fast_set_of(void) {
  enum { VB = DK < 64 ? 32 : 64 };
  miras__fast_set s;
  s.c1 = miras_fast::miras__run_fast_c1<DK>;
  s.c2[0] = miras_fast::miras__run_fast_c2<DK, 32, DELTA, 0>;
  s.again[0] = miras_fast::miras__run_fast_c2<DK, 32, DELTA, 1>;
  s.c3[0] = miras_fast::miras__run_fast_c3<DK, 32, DELTA>;
  s.c2[1] = miras_fast::miras__run_fast_c2<DK, VB, DELTA, 0>;
  s.again[1] = miras_fast::miras__run_fast_c2<DK, VB, DELTA, 1>;
  s.c3[1] = miras_fast::miras__run_fast_c3<DK, VB, DELTA>;
  s.c4 = miras_fast::miras__run_fast_c4<DK, DELTA>;
  s.bytes1 = miras_fast::miras__fast_c1<DK>::BYTES;
  s.bytes2[0] = miras_fast::miras__fast_stage<DK, 32>::BYTES;
  s.bytes2[1] = miras_fast::miras__fast_stage<DK, VB>::BYTES;
  s.bytes4 = miras_fast::miras__fast_c4<DK>::BYTES;
  return s;
}
static miras__fast_set miras__fast_chunk_kernels(size_t dk, int delta) {
  if (dk == 32) return delta ? miras__fast_set_of<32, 1>() : miras__fast_set_of<32, 0>();
  if (dk == 64) return delta ? miras__fast_set_of<64, 1>() : miras__fast_set_of<64, 0>();
  return delta ? miras__fast_set_of<128, 1>() : miras__fast_set_of<128, 0>();
}

/* Blocks from which on each has 64 columns of values, where it can. */
#ifndef MIRAS__FAST_WIDE
  #define MIRAS__FAST_WIDE 128
#endif

static void miras__fast_memory(const miras__fast_layer *a, const miras__op *o, int back) {
  const miras__mixer *m = &a->p->mixer;
  const miras__gates *keep = &m->gate[MIRAS__KEEP], *step = &m->gate[MIRAS__STEP];
  const miras__fast_set run = miras__fast_chunk_kernels(m->dk, m->plan.delta);
  /* 64 columns of values a block, where there are blocks enough; columns do not see each other */
  const size_t tasks = (size_t)a->f->batch * m->heads;
  const int wide = m->dk >= 64 && m->dv % 64 == 0 && tasks * (m->dv / 64) >= MIRAS__FAST_WIDE;
  const size_t blocks = tasks * (m->dv / (wide ? 64 : 32));
  miras_fast::miras__fast_chunks x = a->f->chunks;
  float *const gates = m->gated ? miras__fast_floats(a, m->gated) : NULL;
  float *const dgates = m->gated ? (float *)(void *)miras__fast_grad(a, m->gated) : NULL;
  x.q = miras__fast_x(a, o->in[0], 0), x.ldq = miras__fast_ldx(a, o->in[0]);
  x.k = miras__fast_x(a, m->k, 0), x.ldk = miras__fast_ldx(a, m->k);
  x.v = miras__fast_x(a, m->v, 0), x.ldv = miras__fast_ldx(a, m->v);
  x.y = miras__fast_x(a, o->out, 0), x.ldy = miras__fast_ldx(a, o->out);
  x.ldw = (unsigned)m->value;
  x.ld_gates = m->gated ? miras__fast_ldx(a, m->gated) : 0;
  x.keep_gate = keep->count > 0, x.step_gate = step->count > 0;
  x.keep = keep->count ? gates + keep->first : miras__fast_factors(a) + miras__up8(m->outs);
  x.step = step->count ? gates + step->first : NULL;
  x.one_step = m->plan.d.learning_rate;
  x.init = miras__fast_param(a, MIRAS__W_MEMORY);
  x.batch = (unsigned)a->f->batch, x.heads = (unsigned)m->heads, x.group = (unsigned)m->group;
  x.tokens = (unsigned)a->f->length, x.chunks = (x.tokens + 63) / 64, x.value = (unsigned)m->dv;
  x.after = m->plan.after, x.delta = m->plan.delta;
  miras__fast_launch(a->f, run.c1, tasks * x.chunks, 128, run.bytes1, x);
  if (!back) {
    miras__fast_launch(a->f, run.c2[wide], blocks, 128, run.bytes2[wide], x);
    return;
  }
  x.d = miras__fast_d(a, o->out, 0), x.ldd = miras__fast_ldd(a, o->out);
  x.dq = miras__fast_d(a, o->in[0], 0), x.ld_dq = miras__fast_ldd(a, o->in[0]);
  x.dk = miras__fast_d(a, m->k, 0), x.ld_dk = miras__fast_ldd(a, m->k);
  x.dv = miras__fast_d(a, m->v, 0), x.ld_dv = miras__fast_ldd(a, m->v);
  if (keep->count) x.dkeep = dgates + keep->first;
  if (step->count) x.dstep = dgates + step->first;
  miras__fast_launch(a->f, run.again[wide], blocks, 128, run.bytes2[wide], x);
  miras__fast_launch(a->f, run.c3[wide], blocks, 128, run.bytes2[wide], x);
  miras__fast_launch(a->f, run.c4, tasks * x.chunks, 128, run.bytes4, x);
  {                                  /* of the initial memory, over sequences                     */
    miras_fast::miras__fast_parts sum;
    sum.to = miras__fast_dparam(a, MIRAS__W_MEMORY), sum.sums = x.dinit;
    sum.n = m->heads * m->dk * m->dv, sum.parts = x.batch;
    miras__fast_rows(a->f, miras_fast::miras__run_fast_parts, sum.n, sum);
  }
}

static void miras__fast_skip(const miras__fast_layer *a, const miras__op *o, int back) {
  const miras__mixer *m = &a->p->mixer;
  miras_fast::miras__fast_map x = miras__fast_map_of(a, o, miras_fast::MIRAS__MAP_SKIP, m->value);
  miras_fast::miras__fast_sums s;
  x.function = 0;
  x.w = miras__fast_param(a, o->param), x.per = o->function ? 0 : (unsigned)m->dv;
  if (!back) {
    x.x = x.y = miras__fast_x(a, o->out, 0), x.ldx = x.ldy = miras__fast_ldx(a, o->out);
    x.u = miras__fast_x(a, o->in[0], 0), x.ldu = miras__fast_ldx(a, o->in[0]);
    miras__fast_map(a, &x);
    return;
  }
  x.x = x.y = miras__fast_d(a, o->in[0], 0), x.ldx = x.ldy = miras__fast_ldd(a, o->in[0]);
  x.u = miras__fast_d(a, o->out, 0), x.ldu = miras__fast_ldd(a, o->out);
  miras__fast_map(a, &x);
  memset((void *)&s, 0, sizeof s);
  s.what = miras_fast::MIRAS__SUM_TIMES, s.sets = 1, s.heads = 1, s.cols = (unsigned)m->value;
  s.n = s.cols;
  s.d = x.u, s.ldd = x.ldu, s.x = miras__fast_x(a, o->in[0], 0);
  s.ldx = miras__fast_ldx(a, o->in[0]);
  miras__fast_sum(a->f, &s);
  if (o->function)
    miras__fast_fold(a->f, miras__fast_dparam(a, o->param), m->value, m->value, 0, 1, 1, 0);
  else
    miras__fast_fold(a->f, miras__fast_dparam(a, o->param), m->heads, m->value, 0, m->dv, m->dv, 1);
}

/* ---- a layer ---- */

static void miras__fast_run(const miras__fast_layer *a, const miras__op *o, int back) {
  switch (o->what) {
    case MIRAS__OP_NORM: case MIRAS__OP_RMS: case MIRAS__OP_HEAD_NORM:
      miras__fast_norms(a, o, back);
      break;
    case MIRAS__OP_TIMES: miras__fast_multiplied(a, o, back); break;
    case MIRAS__OP_BRANCH: miras__fast_branch(a, o, back); break;
    case MIRAS__OP_CONV: miras__fast_conv(a, o, back); break;
    case MIRAS__OP_LENGTH: miras__fast_length(a, o, back); break;
    case MIRAS__OP_GATES: miras__fast_gates(a, o, back); break;
    case MIRAS__OP_MEMORY: miras__fast_memory(a, o, back); break;
    case MIRAS__OP_SKIP: miras__fast_skip(a, o, back); break;
    case MIRAS__OP_ANGLES: if (!back) miras__fast_angles(a, o); break;
    case MIRAS__OP_TURN: miras__fast_turn(a, o, back); break;
    case MIRAS__OP_READ:
      if (back) miras__fast_read_back(a, o);
      else miras__fast_pointwise(a, o, 0);
      break;
    case MIRAS__OP_TAIL: break;
    default: miras__fast_pointwise(a, o, back); break;
  }
}

static miras__fast_layer miras__fast_layer_of(miras__fast *f, int l) {
  miras__fast_layer a;
  a.f = f, a.layer = &f->m->layers[l], a.p = a.layer->p, a.l = l;
  a.rows = (size_t)f->batch * (size_t)f->length;
  return a;
}
static void miras__fast_layer_run(miras__fast *f, int l, int back) {
  const miras__fast_layer a = miras__fast_layer_of(f, l);
  const miras__op *const op = a.p->op;
  int i, j;
  for (i = 0; !back && i < a.p->ops; i++) miras__fast_run(&a, &op[i], 0);
  for (i = a.p->ops; back && i-- > 0;) {
    if (op[i].what == MIRAS__OP_SKIP) continue;
    miras__fast_run(&a, &op[i], 1);
    for (j = i + 1; op[i].what == MIRAS__OP_MEMORY && j < a.p->ops; j++)
      if (op[j].what == MIRAS__OP_SKIP) miras__fast_run(&a, &op[j], 1);
  }
}

/* ---- public calls ---- */

/* The copy that products read of a parameter that begins at float `at`. */
static void miras__fast_copy_of(const miras__fast *f, size_t at,
                                miras_fast::miras__fast_tensor *t) {
  const miras_model *m = f->m;
  int l, i, id;
  t->copy = NULL;
  if (at == m->head) {
    t->copy = f->head, t->cols = (unsigned)m->width, t->ld = (unsigned)miras__fast_width(f);
    return;
  }
  if (m->offset && at == m->offset) {
    t->copy = f->head + m->outs * miras__fast_width(f), t->cols = t->ld = (unsigned)m->outs;
    return;
  }
  for (l = 0; l < m->desc.layers; l++) {
    miras__fast_layer a = miras__fast_layer_of((miras__fast *)(uintptr_t)f, l);
    for (i = 0; i < a.p->ops; i++) {
      const miras__op *o = &a.p->op[i];
      if (!miras__fast_matrix_bytes(a.p, o)) continue;
      for (id = o->param; id; id = a.p->param[id].next) {
        const miras__param *w = &a.p->param[id], *first = &a.p->param[o->param];
        miras__bf16 *to = miras__fast_matrix(&a, o) + (w->column - first->column);
        t->ld = (unsigned)miras__fast_matrix_ld(a.p, o);
        t->cols = w->cols;
        if (a.layer->first + miras__param_at(w) == at) t->copy = to;
        else if (w->bias && a.layer->first + miras__param_at(&a.p->param[w->bias]) == at)
          t->copy = to + (size_t)first->rows * t->ld;
        if (t->copy) return;
      }
    }
  }
}

static miras_fast::miras__fast_adam miras__fast_adam_of(miras__fast *f) {
  miras_fast::miras__fast_adam a;
  memset((void *)&a, 0, sizeof a);
  a.w = f->params, a.g = f->grads, a.m = f->moment1, a.v = f->moment2;
  a.now = f->now, a.sums = f->norms, a.tensors = f->tensors;
  a.count = f->tensor_count, a.blocks = f->adam_blocks;
  return a;
}

static void miras__fast_send(miras__fast *f, void *to, const void *from, size_t bytes,
                             cudaMemcpyKind way) {
  if (!f->failed && bytes)
    f->failed = cudaMemcpyAsync(to, from, bytes, way, f->stream) != cudaSuccess;
}

miras_result miras_cuda_fast_init(miras_cuda_fast *g, const miras_model *m,
                                  const miras_trainer_desc *d, void *device, size_t bytes,
                                  cudaStream_t stream) {
  miras_fast::miras__fast_adam adam;
  miras__fast *f;
  size_t block = 0;
  int i;
  if (!g || !m || !d || !device) return MIRAS_ERR_ARGUMENT;
  if (!miras__fast_takes(m, d, NULL, 0)) return MIRAS_ERR_DESC;
  f = miras__fast_of(g);
  miras__fast_begin(f, m, d);
  if (bytes < f->bytes) return MIRAS_ERR_SIZE;
  f->base = (char *)device, f->stream = stream;
  miras__fast_layout(f);
  f->failed = cudaMemsetAsync(device, 0, f->bytes, stream) != cudaSuccess;
  miras__fast_send(f, f->params, m->params, m->param_count * 4, cudaMemcpyHostToDevice);
  for (i = 0; i < m->view_count; i++) {
    miras_fast::miras__fast_tensor t;
    memset((void *)&t, 0, sizeof t);
    t.at = m->views[i].offset, t.count = m->views[i].count, t.block = block;
    t.rate = m->views[i].rate, t.decays = m->views[i].weight_decay, t.frozen = m->views[i].frozen;
    miras__fast_copy_of(f, t.at, &t);
    block += (t.count + miras_fast::MIRAS__ADAM_PIECE - 1) / miras_fast::MIRAS__ADAM_PIECE;
    miras__fast_send(f, f->tensors + i, &t, sizeof t, cudaMemcpyHostToDevice);
  }
  for (i = 0; i < m->desc.layers; i++) {
    const miras__fast_layer a = miras__fast_layer_of(f, i);
    const miras__mixer *mix = &a.p->mixer;
    if (mix->outs)
      miras__fast_send(f, miras__fast_factors(&a), mix->gate_scale, mix->outs * 4,
                       cudaMemcpyHostToDevice);
    if (mix->heads && a.layer->keep)
      miras__fast_send(f, miras__fast_factors(&a) + miras__up8(mix->outs), a.layer->keep,
                       mix->heads * 4, cudaMemcpyHostToDevice);
  }
  adam = miras__fast_adam_of(f);
  adam.copies = 1;
  miras__fast_launch(f, miras_fast::miras__run_fast_adam, f->adam_blocks, 256, 0, adam);
  return f->failed ? MIRAS_ERR_DEVICE : MIRAS_OK;
}

#ifdef MIRAS_CUDA_CUBLASLT
miras_result miras_cuda_fast_cublaslt(miras_cuda_fast *g, cublasLtHandle_t handle) {
  if (!g) return MIRAS_ERR_ARGUMENT;
  miras__fast_of(g)->library = (void *)handle;
  return MIRAS_OK;
}
#endif

miras_result miras_cuda_fast_copy(miras_model *m, const miras_cuda_fast *g, cudaStream_t stream) {
  const miras__fast *f = g ? miras__fast_of(g) : NULL;
  if (!m || !f) return MIRAS_ERR_ARGUMENT;
  if (m->param_count != f->m->param_count) return MIRAS_ERR_MISMATCH;
  return cudaMemcpyAsync(m->params, f->params, m->param_count * 4, cudaMemcpyDeviceToHost,
                         stream) == cudaSuccess ? MIRAS_OK : MIRAS_ERR_DEVICE;
}

miras_result miras_cuda_fast_trainer_copy(miras_trainer *to, const miras_cuda_fast *g,
                                          cudaStream_t stream) {
  const miras__fast *f = g ? miras__fast_of(g) : NULL;
  const cudaMemcpyKind way = cudaMemcpyDeviceToHost;
  size_t bytes;
  if (!to || !f) return MIRAS_ERR_ARGUMENT;
  if (to->model->param_count != f->m->param_count) return MIRAS_ERR_MISMATCH;
  bytes = f->m->param_count * sizeof(float);
  to->taped = 0;
  return cudaMemcpyAsync(to->grads, f->grads, bytes, way, stream) == cudaSuccess &&
         cudaMemcpyAsync(to->moment1, f->moment1, bytes, way, stream) == cudaSuccess &&
         cudaMemcpyAsync(to->moment2, f->moment2, bytes, way, stream) == cudaSuccess &&
         cudaMemcpyAsync(&to->now->steps, &f->now->steps, sizeof f->now->steps, way, stream) ==
           cudaSuccess ? MIRAS_OK : MIRAS_ERR_DEVICE;
}

miras_result miras_cuda_fast_trainer_send(miras_cuda_fast *g, const miras_trainer *from,
                                          cudaStream_t stream) {
  miras__fast *f = g ? miras__fast_of(g) : NULL;
  const cudaMemcpyKind way = cudaMemcpyHostToDevice;
  size_t bytes;
  if (!from || !f) return MIRAS_ERR_ARGUMENT;
  if (from->model->param_count != f->m->param_count) return MIRAS_ERR_MISMATCH;
  bytes = f->m->param_count * sizeof(float);
  f->taped = 0;
  return cudaMemcpyAsync(f->grads, from->grads, bytes, way, stream) == cudaSuccess &&
         cudaMemcpyAsync(f->moment1, from->moment1, bytes, way, stream) == cudaSuccess &&
         cudaMemcpyAsync(f->moment2, from->moment2, bytes, way, stream) == cudaSuccess &&
         cudaMemcpyAsync(&f->now->steps, &from->now->steps, sizeof f->now->steps, way, stream) ==
           cudaSuccess ? MIRAS_OK : MIRAS_ERR_DEVICE;
}

float *miras_cuda_fast_params(const miras_cuda_fast *g, size_t *count) {
  const miras__fast *f = g ? miras__fast_of(g) : NULL;
  if (count) *count = f ? f->m->param_count : 0;
  return f ? f->params : NULL;
}
float *miras_cuda_fast_grads(const miras_cuda_fast *g, size_t *count) {
  const miras__fast *f = g ? miras__fast_of(g) : NULL;
  if (count) *count = f ? f->m->param_count : 0;
  return f ? f->grads : NULL;
}

/* The norm before the head or behind the embedding, with gain and bias at these floats. */
static miras_fast::miras__fast_norm miras__fast_end_norm(miras__fast *f, size_t gain, size_t bias) {
  const miras_model *m = f->m;
  miras_fast::miras__fast_norm x;
  memset((void *)&x, 0, sizeof x);
  x.ldx = x.ldy = x.ldd = x.ld_dx = (unsigned)miras__fast_width(f);
  x.items = (unsigned)((size_t)f->batch * (size_t)f->length), x.heads = 1, x.n = (unsigned)m->width;
  x.lanes = miras__fast_lanes(m->width);
  x.gain = f->params + gain;
  if (m->desc.norm) x.bias = f->params + bias;
  x.epsilon = miras__epsilon(m->desc.norm_epsilon, MIRAS__NORM_EPS);
  x.stats = f->stats;
  return x;
}
static void miras__fast_end_norm_back(miras__fast *f, miras_fast::miras__fast_norm *x, size_t gain,
                                      size_t bias) {
  const size_t width = f->m->width;
  miras_fast::miras__fast_sums s;
  const unsigned each = 256 / x->lanes;
  memset((void *)&s, 0, sizeof s);
  miras__fast_launch(f, miras_fast::miras__run_fast_norm_back, (x->items + each - 1) / each, 256, 0,
                     *x);
  s.what = miras_fast::MIRAS__SUM_GAIN, s.sets = x->bias ? 2 : 1;
  s.d = x->d, s.ldd = x->ldd, s.x = x->x, s.ldx = x->ldx, s.stats = x->stats, s.heads = 1;
  s.n = s.cols = (unsigned)width;
  miras__fast_sum(f, &s);
  miras__fast_fold(f, f->grads + gain, width, s.sets * width, 0, 1, 1, 0);
  if (x->bias) miras__fast_fold(f, f->grads + bias, width, s.sets * width, width, 1, 1, 0);
}

miras_result miras_cuda_fast_loss(miras_cuda_fast *g, const miras_batch *x, int train, float *loss,
                                  cudaStream_t stream) {
  miras__fast *f = g ? miras__fast_of(g) : NULL;
  const miras_model *m = f ? f->m : NULL;
  miras_fast::miras__fast_embed embed;
  miras_fast::miras__fast_norm norm;
  miras_fast::miras__fast_product head;
  miras_fast::miras__fast_loss end;
  size_t rows, width;
  int l;
  if (!f || !x || !x->tokens || !x->classes || x->batch < 1 || x->batch > f->d.batch ||
      x->length < 1 || x->length > f->d.context || x->carry || x->restart || x->outputs ||
      x->hidden || x->losses || x->vectors || x->values)
    return MIRAS_ERR_ARGUMENT;
  f->stream = stream, f->failed = 0, f->batch = x->batch, f->length = x->length;
  f->taped = train != 0;
  if (train) f->call = f->calls++;
  rows = (size_t)x->batch * (size_t)x->length, width = miras__fast_width(f);
  miras__fast_send(f, f->tokens, x->tokens, rows * 4, cudaMemcpyDeviceToDevice);
  miras__fast_send(f, f->targets, x->classes, rows * 4, cudaMemcpyDeviceToDevice);
  if (x->weights)
    miras__fast_send(f, f->row_weights, x->weights, rows * 4, cudaMemcpyDeviceToDevice);
  memset((void *)&embed, 0, sizeof embed);
  embed.table = f->params + m->in->weight, embed.tokens = f->tokens;
  embed.x = m->desc.embed_norm ? f->dlast : f->x;
  embed.rows = (unsigned)rows, embed.width = (unsigned)m->width, embed.ld = (unsigned)width;
  miras__fast_rows(f, miras_fast::miras__run_fast_embed, rows * (m->width / 8), embed);
  if (m->desc.embed_norm) {
    norm = miras__fast_end_norm(f, m->embed_norm, m->embed_norm + m->ld_x);
    norm.x = f->dlast, norm.y = f->x;
    miras__fast_launch(f, miras_fast::miras__run_fast_norm,
                       (rows + 256 / norm.lanes - 1) / (256 / norm.lanes), 256, 0, norm);
  }
  if (miras__fast_drops(f)) {
    miras_fast::miras__fast_drop drop = miras__fast_drop_of(f, 0, rows);
    drop.x = drop.y = f->x;
    miras__fast_rows(f, miras_fast::miras__run_fast_drop, drop.items, drop);
  }
  for (l = 0; l < m->desc.layers; l++) miras__fast_layer_run(f, l, 0);
  norm = miras__fast_end_norm(f, m->norm, m->bias);
  norm.x = f->x + (size_t)m->desc.layers * f->rows * width, norm.y = f->last;
  miras__fast_launch(f, miras_fast::miras__run_fast_norm,
                     (rows + 256 / norm.lanes - 1) / (256 / norm.lanes), 256, 0, norm);
  head = miras__fast_product_of(f->last, width, f->head, width, rows, m->outs, m->width);
  head.c = f->logits, head.ldc = (unsigned)f->ld_v;
  if (m->offset) head.bias = f->head + m->outs * width;
  miras__fast_multiply(f, &head, 0, 1);
  memset((void *)&end, 0, sizeof end);
  end.x = f->logits, end.ld = (unsigned)f->ld_v, end.n = (unsigned)m->outs;
  end.rows = (unsigned)rows, end.targets = f->targets;
  end.weights = x->weights ? f->row_weights : NULL;
  end.losses = f->losses, end.told = loss, end.now = f->now, end.weight = m->out->weight;
  end.train = train != 0;
  miras__fast_launch(f, miras_fast::miras__run_fast_count, 1, 256, 64, end);
  miras__fast_launch(f, miras_fast::miras__run_fast_loss, rows, 256, 64, end);
  miras__fast_launch(f, miras_fast::miras__run_fast_mean, 1, 256, 64, end);
  return f->failed ? MIRAS_ERR_DEVICE : MIRAS_OK;
}

miras_result miras_cuda_fast_backward(miras_cuda_fast *g, cudaStream_t stream) {
  miras__fast *f = g ? miras__fast_of(g) : NULL;
  const miras_model *m = f ? f->m : NULL;
  miras_fast::miras__fast_embed embed;
  miras_fast::miras__fast_norm norm;
  miras_fast::miras__fast_product head;
  size_t rows, width;
  int l;
  if (!f || !f->taped) return MIRAS_ERR_ARGUMENT;
  f->stream = stream, f->failed = 0;
  rows = (size_t)f->batch * (size_t)f->length, width = miras__fast_width(f);
  head = miras__fast_product_of(f->logits, f->ld_v, f->head, width, rows, m->width, m->outs);
  head.c = f->dlast, head.ldc = (unsigned)width;
  miras__fast_multiply(f, &head, 0, 0);
  miras__fast_weights(f, f->grads + m->head, f->logits, f->ld_v, f->last, width, m->outs, m->width,
                      rows);
  if (m->offset) {
    miras_fast::miras__fast_sums s;
    memset((void *)&s, 0, sizeof s);
    s.d = f->logits, s.ldd = (unsigned)f->ld_v, s.sets = 1, s.heads = 1, s.n = 8;
    s.cols = (unsigned)f->ld_v;
    miras__fast_sum(f, &s);
    miras__fast_fold(f, f->grads + m->offset, m->outs, s.cols, 0, 1, 1, 0);
  }
  norm = miras__fast_end_norm(f, m->norm, m->bias);
  norm.x = f->x + (size_t)m->desc.layers * f->rows * width, norm.d = f->dlast, norm.dx = f->ds;
  miras__fast_end_norm_back(f, &norm, m->norm, m->bias);
  for (l = m->desc.layers; l-- > 0;) miras__fast_layer_run(f, l, 1);
  if (miras__fast_drops(f)) {
    miras_fast::miras__fast_drop drop = miras__fast_drop_of(f, 0, rows);
    drop.x = drop.y = f->ds;
    miras__fast_rows(f, miras_fast::miras__run_fast_drop, drop.items, drop);
  }
  memset((void *)&embed, 0, sizeof embed);
  embed.table = f->params + m->in->weight, embed.tokens = f->tokens;
  embed.rows = (unsigned)rows, embed.width = (unsigned)m->width, embed.ld = (unsigned)width;
  embed.x = f->dlast;
  if (m->desc.embed_norm) {
    norm = miras__fast_end_norm(f, m->embed_norm, m->embed_norm + m->ld_x);
    miras__fast_rows(f, miras_fast::miras__run_fast_embed, rows * (m->width / 8), embed);
    norm.x = f->dlast, norm.d = f->ds, norm.dx = f->last;
    miras__fast_end_norm_back(f, &norm, m->embed_norm, m->embed_norm + m->ld_x);
  }
  embed.d = m->desc.embed_norm ? f->last : f->ds;
  embed.to = f->grads + m->in->weight, embed.next = f->next, embed.later = f->later;
  miras__fast_rows(f, miras_fast::miras__run_fast_links, rows, embed);
  miras__fast_launch(f, miras_fast::miras__run_fast_embed_back, rows, 256, 0, embed);
  f->taped = 0;
  return f->failed ? MIRAS_ERR_DEVICE : MIRAS_OK;
}

miras_result miras_cuda_fast_step(miras_cuda_fast *g, const miras_adamw_options *o,
                                  float learning_rate, float *norm, cudaStream_t stream) {
  miras__fast *f = g ? miras__fast_of(g) : NULL;
  const miras_adamw_options usual = MIRAS_ADAMW(0, 0);
  miras_fast::miras__fast_adam a;
  if (!f || !miras__adamw_ok(o, learning_rate)) return MIRAS_ERR_ARGUMENT;
  f->stream = stream, f->failed = 0, f->taped = 0, f->calls = 0;
  a = miras__fast_adam_of(f);
  a.o = o ? *o : usual, a.rate = learning_rate, a.told = norm;
  miras__fast_launch(f, miras_fast::miras__run_fast_squares, f->adam_blocks, 256, 64, a);
  miras__fast_launch(f, miras_fast::miras__run_fast_begin, 1, 256, 256 * 8, a);
  miras__fast_launch(f, miras_fast::miras__run_fast_adam, f->adam_blocks, 256, 0, a);
  return f->failed ? MIRAS_ERR_DEVICE : MIRAS_OK;
}

miras_result miras_cuda_fast_token(const miras_cuda_fast_row *x, cudaStream_t stream) {
  miras_fast::miras__fast_token a;
  miras__fast f;
  size_t blocks;
  if (!x || !x->state || !x->query || !x->key || !x->value || !x->answer || !x->keep || !x->step ||
      x->batch < 1 || x->heads < 1 || x->key_heads < 1 || x->heads % x->key_heads ||
      (x->key_dim != 32 && x->key_dim != 64 && x->key_dim != 128) || x->value_dim < 16 ||
      x->value_dim % (x->key_dim == 32 ? 32 : 16) || x->value_dim > 4096)
    return MIRAS_ERR_ARGUMENT;
  memset((void *)&a, 0, sizeof a);
  memset((void *)&f, 0, sizeof f);
  f.stream = stream;
  a.s = x->state, a.q = x->query, a.k = x->key, a.v = x->value, a.y = x->answer;
  a.keep = x->keep, a.step = x->step;
  a.ldq = a.ldk = (unsigned)(x->key_heads * x->key_dim);
  a.ldv = a.ldy = (unsigned)(x->heads * x->value_dim);
  a.heads = (unsigned)x->heads, a.group = (unsigned)(x->heads / x->key_heads);
  a.value = (unsigned)x->value_dim, a.after = x->decay_first, a.delta = x->delta;
  blocks = (size_t)x->batch * a.heads * (a.value / (x->key_dim == 32 ? 32 : 16));
  miras__fast_launch(&f,
                     x->key_dim == 32   ? miras_fast::miras__run_fast_token<32>
                     : x->key_dim == 64 ? miras_fast::miras__run_fast_token<64>
                                        : miras_fast::miras__run_fast_token<128>,
                     blocks, 128, 0, a);
  return f.failed ? MIRAS_ERR_DEVICE : MIRAS_OK;
}
#ifdef __GNUC__
  #pragma GCC diagnostic pop
#endif
#endif   /* MIRAS_NO_MODEL, MIRAS_NO_TRAINING */
#endif   /* MIRAS_CUDA_FAST */

#endif   /* MIRAS_CUDA_IMPLEMENTATION */
