/* miras_cuda.cuh - v0.4.0 - the memories of miras.h on a GPU; public domain or MIT (see miras.h)

   Two tiers, each with its own calls. A program that says nothing else has the fast one.
     FAST       for work: it trains and runs models, and runs matrix memories, in bfloat16 on matrix
                units, where it has kernels for all that a model does. MIRAS_CUDA_NO_FAST leaves it
                out, and so do MIRAS_NO_MODEL and MIRAS_NO_TRAINING
     REFERENCE  for tests, and for what the fast tier has not: every row of the table, every choice
                and every gradient, with the host's bits. It is not made for speed, and takes most
                of nvcc's time. MIRAS_CUDA_REFERENCE adds it
   Write this in exactly one source file for nvcc, and the includes alone in the others, which any
   compiler of C or C++ takes; macros that choose tiers stand in front of all of them:

       #define MIRAS_IMPLEMENTATION
       #include "miras.h"
       #define MIRAS_CUDA_IMPLEMENTATION
       #include "miras_cuda.cuh"

   A model or a memory begins on the host, where it is made, read from a file, or set. Its device
   half lies in memory that the caller gives; all calls are queued in the caller's stream and
   allocate nothing. Those between _init and _copy wait for nothing and may be captured in a graph;
   these two wait where the host's memory is not pinned. An error that was pending before a call of
   this header stays the caller's.

       miras_trainer_desc d = {8, 1024};                   // texts of a call, tokens of each
       size_t bytes = miras_cuda_fast_size(m, &d, why, sizeof why);        // 0: why says why not
       cudaMalloc(&room, bytes);
       miras_cuda_fast_init(&f, m, &d, room, bytes, stream);
       miras_cuda_fast_loss(&f, &x, 1, loss, stream);      // pointers in x, and loss: device
       miras_cuda_fast_backward(&f, stream);
       miras_cuda_fast_step(&f, NULL, 1e-3f, NULL, stream);
       miras_cuda_fast_copy(m, &f, stream);                // and back, the parameters

   THE BUILD
       nvcc -O3 -arch=sm_90 program.cu -o program                           the fast tier
       nvcc -O3 -rdc=true -fmad=false -arch=sm_90 program.cu -o program     the reference, or both
   -arch        of the card: sm_80 and later, of the reference sm_70 and later. nvcc's default is
                older code, which the fast tier refuses (miras_cuda_fast_runs); of the reference it
                is right, but translated anew by the driver when the program starts
   -rdc=true    translates every device function once; in one piece ptxas takes many minutes
   -fmad=false  for the host's bits; without it products and sums fuse, which is a little faster
   Needs CUDA 12.1 (grids are told more than 4 KB). */
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

#if defined(MIRAS_NO_MODEL) || defined(MIRAS_NO_TRAINING)
  #undef MIRAS_CUDA_NO_FAST
  #define MIRAS_CUDA_NO_FAST
#endif
#if defined(MIRAS_CUDA_NO_FAST) && !defined(MIRAS_CUDA_REFERENCE)
  #error "no tier is left: without models, training or the fast tier define MIRAS_CUDA_REFERENCE"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* A record whose content is this file's own: bytes, which `first` aligns. */
#define MIRAS__CUDA_RECORD(name, bytes) \
  typedef struct name { uint64_t first; unsigned char held[bytes]; } name

#ifndef MIRAS_CUDA_NO_FAST
/* ---- the fast tier ----
 *
 * It trains models whose layers' operations it has kernels for, on matrix units: activations and
 * the copies of matrices that products read are bfloat16, parameters, moments, gradients of
 * parameters, states at work and all sums are float. Results have the same bits from run to run,
 * and differ from the host's by rounding. The list of a layer's operations is the list of launches:
 * one each, two of a matrix memory, four in segments, eight of experts; back two to eleven where
 * sums follow. A block's shared memory is, with matrices of key_dim 32, 64 or 128, up to 80, 97 or
 * 136 KB, with errors and decays per channel 89, 115 or 168 KB, more where a device has it;
 * perceptrons more than that.
 *
 * It has: norms, products, branches with dropout, convolutions, lengths, rotary positions, gates of
 * decays, learning rates and momentum, skips, pointwise operations, token shifts with learned
 * mixes, RWKV-7's bonus and the mixing in of its first layer's values, mixtures of experts (a
 * router reads rounded rows, so that one between two experts may go to the other), attention over
 * a window (head_dim 32, 64 or 128, heads that share keys, no persistent pairs), exact matrix
 * memories with a decay per head or per channel of keys, a step per head, key_dim 32, 64 or 128 and
 * value_dim a multiple of 32 (linear attention, RetNet, Mamba-2, DeltaNet, Gated DeltaNet, GLA,
 * HGRN2, KDA and their likes), which may begin anew (reset_every) or, with a decay per channel,
 * erase with other keys than they write (RWKV-7, which trains at twice the rows); and in training
 * memories that are perceptrons of two layers (Titans' memory, TTT-MLP) with L2, a decay, step and
 * momentum per head or token_rates, inner_norm and inner_residual, key_dim a multiple of 16, and
 * chunks of any length, which go in pieces of up to 64 tokens, as shared memory has room for: a
 * head of a text is a cluster of up to 8 blocks, as many as it takes for 64 hidden numbers each
 * (Titans with key_dim 64 or 128, chunks of 16: 63 or 108 KB, 99 or 180 where the device has it),
 * or one block where the device, or the program's code for it, is before 9.0 (180 KB with 64; 128
 * does not fit, and _init returns MIRAS_ERR_DEVICE). It reads tokens and says the next one.
 * miras_cuda_fast_op tells what it has not. */
MIRAS__CUDA_RECORD(miras_cuda_fast, 7168);

/* Does the device at hand run this tier? 0, and a sentence in why (why_size bytes, or NULL): there
 * is none, or the program's code for it is of a compute capability before 8.0. Then _init, and what
 * runs without one, return MIRAS_ERR_DEVICE. */
int miras_cuda_fast_runs(char *why, size_t why_size);

/* Operation `index` of a layer: 1, and its words in text (text_size bytes, or NULL), if it is run
 * here; 0, and why not behind them; -1: there is no such layer or operation. */
int miras_cuda_fast_op(const miras_model *m, int layer, int index, char *text, size_t text_size);

/* Bytes of device memory for training m; 0 and a sentence in why (why_size bytes, or NULL) if an
 * operation or the model is not run here. d: batch and context; carried and recompute are 0. */
size_t miras_cuda_fast_size(const miras_model *m, const miras_trainer_desc *d, char *why,
                            size_t why_size);
/* Lay a trainer out in `bytes` of device memory, aligned to 256, and send it m's parameters. m
 * stays where it is. MIRAS_ERR_ARGUMENT: something is NULL; MIRAS_ERR_DESC: as
 * miras_cuda_fast_size says in a sentence; MIRAS_ERR_SIZE: too few bytes; MIRAS_ERR_DEVICE: as
 * miras_cuda_fast_runs says, perceptrons take more shared memory than the device has, or a call of
 * CUDA failed, and cudaGetLastError says how. */
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
/* miras_trainer_step; norm: one float on the device, or NULL. In a graph the learning rate is that
 * of the capture. */
miras_result miras_cuda_fast_step(miras_cuda_fast *f, const miras_adamw_options *o,
                                  float learning_rate, float *norm, cudaStream_t stream);
/* Bring the parameters to m, a model of the same descriptor. */
miras_result miras_cuda_fast_copy(miras_model *m, const miras_cuda_fast *f, cudaStream_t stream);
/* Gradients, moments and steps to a trainer of the host, and from one (MIRAS_ERR_MISMATCH for
 * another model). */
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

/* A matrix memory on its own, through all tokens of `batch` texts, by the kernels that layers have.
 * Rows of bfloat16: query and key [batch, length, key_heads, key_dim], value and answer [batch,
 * length, heads, value_dim]; head h reads and is read by key head h / (heads / key_heads). Floats:
 * decay [batch, length, heads], with channels 1 [.., heads, key_dim], logarithms up to 0, of which
 * what is below -69 counts as -69, NULL: nothing decays; step [batch, length, heads], NULL: 1;
 * state, where texts begin, and last, where they end, [batch, heads, value_dim, key_dim] as
 * miras_cuda_fast_row has them, NULL: zeros, and it is not wanted. They may be one place, but for
 * an adjoint. All on the device, and aligned to 16 bytes. key_dim 32, 64 or 128, value_dim a
 * multiple of 32 up to 4096. Here as in layers, where heads x value_dim / 64 are up to 32, texts go
 * in segments of 1,024 tokens, side by side: more work, for more of the card at a time. */
typedef struct miras_cuda_fast_memory {
  const uint16_t *query, *key, *value;
  const float *decay, *step, *state;
  uint16_t *answer;
  float *last;
  int batch, length, heads, key_heads, key_dim, value_dim;
  int channels, delta, decay_first;  /* delta, decay_first: as of miras_cuda_fast_row             */
} miras_cuda_fast_memory;
/* From gradients of answer and of last (NULL: zeros) those of what it reads, which are written, in
 * the same shapes; decay, step and state may be NULL. */
typedef struct miras_cuda_fast_memory_grads {
  const uint16_t *answer;
  const float *last;
  uint16_t *query, *key, *value;
  float *decay, *step, *state;
} miras_cuda_fast_memory_grads;
/* Bytes of device memory, aligned to 256, that a call works in, of the adjoint with back 1; nothing
 * stays in them. 0: a size is out of range. What x points to does not matter. */
size_t miras_cuda_fast_memory_size(const miras_cuda_fast_memory *x, int back);
/* MIRAS_ERR_ARGUMENT, MIRAS_ERR_SIZE (too few bytes) or MIRAS_ERR_DEVICE. _backward computes what
 * it needs of the way forward once more; of x it does not touch answer and last. */
miras_result miras_cuda_fast_memory_forward(const miras_cuda_fast_memory *x, void *room,
                                            size_t bytes, cudaStream_t stream);
miras_result miras_cuda_fast_memory_backward(const miras_cuda_fast_memory *x,
                                             const miras_cuda_fast_memory_grads *g, void *room,
                                             size_t bytes, cudaStream_t stream);

/* `batch` texts of a model side by side, decoding. Products read matrices once for up to eight
 * texts: of models whose weights are float (6 bytes a parameter of the device) or bf16 (2) in
 * bfloat16, of q8 (1.13) the host's whole numbers, which become bfloat16 in registers, and float
 * scales of 32 along the sum. A text's state: its position, memories in float, what convolutions
 * and windows of attention hold in bfloat16. A text has the same bits in any batch, whatever calls
 * bring it. The session stays where it is. */
MIRAS__CUDA_RECORD(miras_cuda_fast_session, 7168);
/* Bytes of device memory for 1..65536 texts; 0 and a sentence in why (why_size bytes, or NULL) if
 * the model is not run here. */
size_t miras_cuda_fast_session_size(const miras_model *m, int batch, char *why, size_t why_size);
/* As miras_cuda_fast_init; all texts are at their start. */
miras_result miras_cuda_fast_session_init(miras_cuda_fast_session *s, const miras_model *m,
                                          int batch, void *device, size_t bytes,
                                          cudaStream_t stream);
/* Feed every text `length` tokens, one after the other: tokens [batch, length], which must be words
 * of the model; logits [batch, rows, vocab] floats behind the last `rows` of them, 0..length: on
 * the device, which nothing here checks. Nothing is waited for; it may be captured in a graph. */
miras_result miras_cuda_fast_session_feed(miras_cuda_fast_session *s, const int32_t *tokens,
                                          int length, float *logits, int rows,
                                          cudaStream_t stream);
/* As if no token had come: text `text`, or -1 for all. */
miras_result miras_cuda_fast_session_reset(miras_cuda_fast_session *s, int text,
                                           cudaStream_t stream);
/* The state of a text on the device, aligned to 256, which another text of the model may be given;
 * NULL, and 0 in bytes, if there is no such text. */
void *miras_cuda_fast_session_state(const miras_cuda_fast_session *s, int text, size_t *bytes);
#endif   /* MIRAS_CUDA_NO_FAST */

#ifdef MIRAS_CUDA_REFERENCE
/* ---- the reference tier ----
 *
 * The engines of miras.h are programs over kernels. Here their text is compiled once more as device
 * code: a block of threads owns a memory, one head of one sequence, and runs the engine in every
 * thread alike; each kernel takes its rows or elements, shared out over the block, and ends in a
 * barrier. So every row of the table, every choice and every gradient is here too, but the choices
 * that call functions of the caller's (bias and retention custom), and states, tapes and parameters
 * are laid out as on the host. Compiled with -fmad=false, without --use_fast_math, they have the
 * bits of its sets with fused multiply-add, but for what takes the logarithm, sine or cosine of the
 * C library: the value of a loss and the angles of attention, whose last bit may differ.
 *   unit     16 threads, half a warp, are a vector of 16 lanes, each holding one float of it. Sums
 *            fold as on the host
 *   kernel   by elements or rows, by units, or on the first unit alone; then a barrier. What it
 *            returns is told to all threads. An element of a product is a thread's
 *   engine   runs in every thread, calls kernels and stores nothing by itself
 *   task     of a layer or a trainer (@75 to @79 in miras.h): a tile of rows, a head, a block of
 *            parameters. A block takes tasks in turn; a phase of them is a grid
 * A grid that takes more stack than any before has it set aside by CUDA when it begins, for every
 * thread that the card can hold, beside what the _size calls say: up to 2048 x 6.6 KB for each
 * multiprocessor, 1.8 GB of an H100's memory (tests/cuda_table.txt). */

/* Threads of a block: a multiple of 32; where that is no constant, MIRAS_CUDA_MOST is the most. */
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

/* The device half of a memory: a record of the host that says where everything lies. It may be
 * copied, which makes no second memory. */
MIRAS__CUDA_RECORD(miras_cuda_memory, 2040);

/* Bytes of device memory that the device half of m takes; 0 and a sentence in why (why_size bytes,
 * or NULL) if m is NULL, has a choice that calls a function of the caller's, or is too large. */
size_t miras_cuda_memory_size(const miras_memory *m, char *why, size_t why_size);
/* Lay the device half of m out in `bytes` of device memory, aligned to 64, and send it m's
 * parameters and state. m may go afterwards; until `stream` has come past this call it must stay as
 * it is. MIRAS_ERR_ARGUMENT: something is NULL; MIRAS_ERR_SIZE: too few bytes;
 * MIRAS_ERR_DESC: as miras_cuda_memory_size says in a sentence; MIRAS_ERR_DEVICE: a call of CUDA
 * failed, and cudaGetLastError says how. */
miras_result miras_cuda_memory_init(miras_cuda_memory *g, const miras_memory *m, void *device,
                                    size_t bytes, cudaStream_t stream);
/* Bring parameters and state to m, a memory of the same descriptor (MIRAS_ERR_MISMATCH where a size
 * or one of the four choices differs). They are there when `stream` has come past this call. */
miras_result miras_cuda_memory_copy(miras_memory *m, const miras_cuda_memory *g,
                                    cudaStream_t stream);
/* The parameters and the state on the device, as miras_memory_params and miras_memory_state have
 * them on the host. */
float *miras_cuda_memory_params(const miras_cuda_memory *g, size_t *count);
void *miras_cuda_memory_state(const miras_cuda_memory *g, size_t *bytes);
/* As if no token had come. */
miras_result miras_cuda_memory_reset(const miras_cuda_memory *g, cudaStream_t stream);
/* miras_memory_forward and miras_memory_backward with device pointers in x, dx and everywhere: the
 * same shapes, what is overwritten and what is added to. tape: miras_cuda_memory_tape_size floats,
 * or NULL. Not checked here is where in a sequence a call comes, which the device alone knows: a
 * tape begins on the chunk grid, and dstate is NULL or zeros where the call ends off it. */
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
MIRAS__CUDA_RECORD(miras_cuda_model, 56);

/* As miras_cuda_memory_size and _init. */
size_t miras_cuda_model_size(const miras_model *m, char *why, size_t why_size);
miras_result miras_cuda_model_init(miras_cuda_model *g, const miras_model *m, void *device,
                                   size_t bytes, cudaStream_t stream);
/* Bring the parameters to m, the host's model or one of the same descriptor (MIRAS_ERR_MISMATCH
 * where a size differs). */
miras_result miras_cuda_model_copy(miras_model *m, const miras_cuda_model *g, cudaStream_t stream);
/* As miras_model_params: on the device. */
float *miras_cuda_model_params(const miras_cuda_model *g, size_t *count);

#ifndef MIRAS_NO_TRAINING
/* ---- training ---- */

/* A trainer of a model on the device, which both stay where they are. Calls return before what they
 * ask for is done, in the order of one stream. */
MIRAS__CUDA_RECORD(miras_cuda_trainer, 31800);

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
/* As miras_cuda_fast_step. */
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

/* ---- running texts, many at a time ---- */

/* `batch` texts side by side, each as miras_session has one. It stays where it is. */
MIRAS__CUDA_RECORD(miras_cuda_session, 31800);

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
#endif   /* MIRAS_CUDA_REFERENCE */

#ifdef __cplusplus
}
#endif
#endif   /* MIRAS_CUDA_H */

#ifdef MIRAS_CUDA_IMPLEMENTATION
#ifndef MIRAS_SELF
  #define MIRAS_SELF "miras.h"
#endif
#ifdef __GNUC__                    /* records of kernels are this file's own                      */
  #pragma GCC diagnostic push
  #pragma GCC diagnostic ignored "-Wsubobject-linkage"
#endif

#ifdef MIRAS_CUDA_REFERENCE
#ifdef __CUDACC__
  #pragma nv_diagnostic push
  #pragma nv_diag_suppress 1675    /* pragmas of the host's compiler                              */
#endif
namespace { namespace miras_cuda {

/* ---- the vocabulary of room @21 for 16 threads ---- */

#define MIRAS__KERNEL_PASS
#define MIRAS__SET_SUFFIX _unit
#define MIRAS__SHARED_SUFFIX _unit
#define V_W 16
#define V_MATHS static inline
#define V_UNROLL MIRAS__UNROLL
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
#define V_SYNC() __syncwarp(miras__unit_mask())
#define V_KEEP(to, value) do { \
    const float v_kept = (value); \
    V_SYNC(); \
    (to) = v_kept; \
  } while (0)
#define V_UNIT (threadIdx.x / 16)
#define V_UNITS (blockDim.x / 16)
#define V_MEET() __syncthreads()
#define V_LOAD(p) ((p)[miras__lane()])
#define V_STORE(p, v) ((void)((p)[miras__lane()] = (v)))
#define V_ADD(a, b) __fadd_rn(a, b)
#define V_SUB(a, b) __fsub_rn(a, b)
#define V_MUL(a, b) __fmul_rn(a, b)
#define V_DIV(a, b) __fdiv_rn(a, b)
#define V_FMA(a, b, c) __fmaf_rn(a, b, c)
#define V_FNMA(a, b, c) __fmaf_rn(-(a), b, c)
#define V_SQRT(a) __fsqrt_rn(a)
#define V_ROUND(a) rintf(a)

#undef MIRAS__INLINE
#undef MIRAS__ALWAYS
#define MIRAS__INLINE static inline
#define MIRAS__ALWAYS static inline

/* By its number a row is called directly, so that the stack of a grid is known. */
#undef MIRAS__FIXED
#undef MIRAS__LISTED
#undef MIRAS__CALL_ROW
#undef MIRAS__HOST
#define MIRAS__FIXED constexpr
#define MIRAS__LISTED __noinline__
#define MIRAS__HOST(f) NULL
#define MIRAS__CASE(k, to, table, call) \
  case k: if ((k) < MIRAS__COUNT(table)) to table[(k) < MIRAS__COUNT(table) ? (k) : 0].call; break;
#define MIRAS__CASES(k, to, table, call) \
  MIRAS__CASE(k, to, table, call) MIRAS__CASE(k + 1, to, table, call) \
  MIRAS__CASE(k + 2, to, table, call) MIRAS__CASE(k + 3, to, table, call) \
  MIRAS__CASE(k + 4, to, table, call) MIRAS__CASE(k + 5, to, table, call) \
  MIRAS__CASE(k + 6, to, table, call) MIRAS__CASE(k + 7, to, table, call)
#define MIRAS__CALL_ROW(to, table, row, call) do { \
    static_assert(MIRAS__COUNT(table) <= 40, "a row without a case"); \
    switch ((row) - (table)) { \
      MIRAS__CASES(0, to, table, call) MIRAS__CASES(8, to, table, call) \
      MIRAS__CASES(16, to, table, call) MIRAS__CASES(24, to, table, call) \
      MIRAS__CASES(32, to, table, call) \
    } \
  } while (0)

/* ---- types, kernels of a unit ---- */

#define static static __device__
#define miras__kernels miras__unit_kernels
#define MIRAS__DEVICE MIRAS__DEVICE_TYPES
#include MIRAS_SELF

#define MIRAS_X(part, result, name, arguments) static result miras__##name arguments;
MIRAS__KERNELS(MIRAS_X)
#undef MIRAS_X

/* Kernels call each other through a record of objects that can be called, and so do blocks: there
 * is one piece of code of each. */
template <class F, F f> struct miras__of_unit;
template <class R, class... P, R (*f)(P...)> struct miras__of_unit<R (*)(P...), f> {
  struct after { __device__ ~after() { V_SYNC(); } };
  __device__ __noinline__ R operator()(P... p) const {
    after last;
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

/* Shared memory of a block: what a kernel returns, then what a grid of tasks is told. */
#ifdef __CUDACC__
extern __shared__ __align__(16) float miras__shared[];
#else
  #define miras__shared ((float *)shim_shared)
#endif
enum { MIRAS__ROOM = 4 };           /* floats before that */
static const miras__unit_kernels miras__of_units = {};

/* The units of a block share n rows (by 1), or n elements in vectors (by 16), as much to each, but
 * for the last ones: these say where a unit's share begins, and where it ends. */
static size_t miras__share(size_t n, size_t by, unsigned unit) {
  const size_t units = blockDim.x / 16, each = ((n + by - 1) / by + units - 1) / units * by;
  return each * unit < n ? each * unit : n;
}
static size_t miras__from(size_t n, size_t by) { return miras__share(n, by, threadIdx.x / 16); }
static size_t miras__till(size_t n, size_t by) { return miras__share(n, by, threadIdx.x / 16 + 1); }

/* An argument of a kernel of elements, as it is for those from `at` to `end`: arrays begin there,
 * and the number of elements, the one size among the arguments, is theirs. */
template <class T> static T miras__of_range(T x, size_t, size_t) { return x; }
static float *miras__of_range(float *p, size_t at, size_t) { return p ? p + at : p; }
static const float *miras__of_range(const float *p, size_t at, size_t) { return p ? p + at : p; }
static size_t miras__of_range(size_t, size_t at, size_t end) { return end - at; }

/* The last argument. */
static size_t miras__last(size_t n) { return n; }
template <class T, class... P> static size_t miras__last(T, P... p) { return miras__last(p...); }

/* How a kernel is spread over the block: on one unit, as those are that few memories have, unless
 * said otherwise below: by elements, where its last argument is their number, or by all units,
 * where it shares what it does by itself (V_UNIT in its text) or reads and stores nothing. */
enum { MIRAS__ONE_UNIT, MIRAS__BY_ELEMENTS, MIRAS__ALL_UNITS };
template <class F, F f> struct miras__spread { enum { how = MIRAS__ONE_UNIT }; };
#define MIRAS__SPREAD(name, way) \
  template <> \
  struct miras__spread<decltype(&miras__##name), miras__##name> { enum { how = way }; };
#define MIRAS_X(name) MIRAS__SPREAD(name, MIRAS__BY_ELEMENTS)
MIRAS_X(axpy) MIRAS_X(scale) MIRAS_X(add) MIRAS_X(mul) MIRAS_X(muladd) MIRAS_X(fill) MIRAS_X(flush)
MIRAS_X(copy) MIRAS_X(map) MIRAS_X(act_grad2) MIRAS_X(sub) MIRAS_X(sigmoid_bwd) MIRAS_X(rest)
MIRAS_X(momentum_fwd) MIRAS_X(shrink_from) MIRAS_X(diagonal) MIRAS_X(both_fwd) MIRAS_X(both_bwd)
MIRAS_X(invert) MIRAS_X(recede)
#undef MIRAS_X
#define MIRAS_X(name) MIRAS__SPREAD(name, MIRAS__ALL_UNITS)
MIRAS_X(signed_fwd) MIRAS_X(simplex_fwd) MIRAS_X(simplex_bwd) MIRAS_X(divergence_step)
MIRAS_X(lq_fwd) MIRAS_X(lq_bwd) MIRAS_X(fold_column) MIRAS_X(online_softmax) MIRAS_X(conjugate_step)
MIRAS_X(conjugate_end) MIRAS_X(absorb) MIRAS_X(scan_fwd) MIRAS_X(scan_bwd) MIRAS_X(count_meet)
MIRAS_X(count_take) MIRAS_X(count_bwd) MIRAS_X(wkv_fwd) MIRAS_X(wkv_bwd) MIRAS_X(outer_even)
MIRAS_X(triangle_bwd) MIRAS_X(conv_bwd) MIRAS_X(linear_run) MIRAS_X(adamw) MIRAS_X(exact_solve)
MIRAS_X(heads_norm_fwd) MIRAS_X(conv_fwd) MIRAS_X(act_rows) MIRAS_X(online_softmax_rows)
#undef MIRAS_X

template <class F, F f, int how> struct miras__by_block;
template <class... P, void (*f)(P...)>
struct miras__by_block<void (*)(P...), f, MIRAS__ONE_UNIT> {
  __device__ __noinline__ void operator()(P... p) const {
    if (threadIdx.x < 16) miras__of_unit<void (*)(P...), f>()(p...);
    __syncthreads();
  }
};
template <class R, class... P, R (*f)(P...)>
struct miras__by_block<R (*)(P...), f, MIRAS__ONE_UNIT> {
  __device__ __noinline__ R operator()(P... p) const {
    R r = 0;
    if (threadIdx.x < 16) r = miras__of_unit<R (*)(P...), f>()(p...);
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
    const size_t n = miras__last(p...), at = miras__from(n, 16), end = miras__till(n, 16);
    if (at < end) miras__of_unit<void (*)(P...), f>()(miras__of_range(p, at, end)...);
    __syncthreads();
  }
};

template <class R, class... P, R (*f)(P...)>
struct miras__by_block<R (*)(P...), f, MIRAS__ALL_UNITS> {
  struct after { __device__ ~after() { __syncthreads(); } };
  __device__ __noinline__ R operator()(P... p) const {
    after last;
    return miras__of_unit<R (*)(P...), f>()(p...);
  }
};

/* What a kernel is instead of a call by one unit. */
#define MIRAS__OF_BLOCK(name, arguments)                                                          \
  struct miras__block_##name { __device__ __noinline__ void operator() arguments const; };        \
  template <>                                                                                     \
  struct miras__by_block<decltype(&miras__##name), miras__##name, MIRAS__ONE_UNIT>                \
      : miras__block_##name {};                                                                   \
  __device__ __noinline__ void miras__block_##name::operator() arguments const

/* Kernels of rows: what of the arguments begins with row r, and m of them. Where rows are few, or
 * those of the result, `afar` apart, are one row that all are added to, w columns of all rows from
 * `at` on; columns that see each other count as one, which one unit has. */
#define MIRAS__BY_ROWS(name, afar, columns, arguments, part)                                      \
  MIRAS__OF_BLOCK(name, arguments) {                                                              \
    const int down = afar && (columns <= 16 || rows >= blockDim.x / 16);                          \
    const size_t r = down ? miras__from(rows, 1) : 0;                                             \
    const size_t m = down ? miras__till(rows, 1) - r : rows;                                      \
    const size_t at = down ? 0 : miras__from(columns, 16);                                        \
    const size_t w = down ? columns : miras__till(columns, 16) - at;                              \
    if (m && w) miras__of_units.name part;                                                        \
    __syncthreads();                                                                              \
  }
MIRAS__BY_ROWS(fill_rows, ldy, n, (float *y, size_t ldy, float value, size_t rows, size_t n),
               (y + r * ldy + at, ldy, value, m, w))
#define MIRAS_X(name)                                                                             \
  MIRAS__BY_ROWS(name, ldy, n,                                                                    \
                 (float *y, size_t ldy, const float *x, size_t ldx, size_t rows, size_t n),       \
                 (y + r * ldy + at, ldy, x + r * ldx + at, ldx, m, w))
MIRAS_X(copy_rows) MIRAS_X(add_rows)
#undef MIRAS_X
#define MIRAS_X(name)                                                                             \
  MIRAS__BY_ROWS(name, ldy, n,                                                                    \
                 (float *y, size_t ldy, const float *a, size_t lda, const float *b, size_t ldb,   \
                  size_t rows, size_t n),                                                         \
                 (y + r * ldy + at, ldy, a + r * lda + at, lda, b + r * ldb + at, ldb, m, w))
MIRAS_X(mul_rows) MIRAS_X(muladd_rows)
#undef MIRAS_X
#define MIRAS_X(name)                                                                             \
  MIRAS__BY_ROWS(name, ldy, n,                                                                    \
                 (float *y, size_t ldy, float c, const float *s, size_t lds, const float *x,      \
                  size_t ldx, size_t rows, size_t n),                                             \
                 (y + r * ldy + at, ldy, c, s ? s + r * lds : s, lds, x + r * ldx + at, ldx, m, w))
MIRAS_X(scale_rows) MIRAS_X(axpy_rows)
#undef MIRAS_X
MIRAS__BY_ROWS(dot_rows, lds, 1,
               (int add, float *s, size_t lds, const float *a, size_t lda, const float *b,
                size_t ldb, size_t rows, size_t n),
               (add, s + r * lds, lds, a + r * lda, lda, b + r * ldb, ldb, m, n))

/* Every element of a product is one chain of fused multiply-adds in the order of k (room @24), and
 * a thread has elements of its own: neighbours have neighbours of a row. */
MIRAS__OF_BLOCK(gemm, (int mode, float *C, size_t ldc, miras__matrix A, miras__matrix B, size_t M,
                       size_t N, size_t K, float *)) {
  const size_t right = miras__right(A), down = miras__down(B), most = (size_t)mode >> 2;
  mode &= 3;
  for (size_t e = threadIdx.x; e < M * N; e += blockDim.x) {
    const size_t i = e / N, j = e % N, seen = most && i + most < K ? i + most : K;
    const float *a = A.p + i * miras__down(A), *b = B.p + j * miras__right(B);
    float c = mode == MIRAS__SET ? 0 : mode == MIRAS__SUB ? -C[i * ldc + j] : C[i * ldc + j];
    for (size_t k = 0; k < seen; k++) c = __fmaf_rn(a[k * right], b[k * down], c);
    C[i * ldc + j] = mode == MIRAS__SUB ? __fsub_rn(0, c) : c;
  }
  __syncthreads();
}

/* Kernels that take the record of these see that of a unit's in it. */
struct miras__cuda_kernels : miras__unit_kernels {
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
#define MIRAS__DEVICE MIRAS__DEVICE_ENGINES
#include MIRAS_SELF

#define MIRAS__DEVICE MIRAS__DEVICE_HEADS
#include MIRAS_SELF

#ifndef MIRAS_NO_MODEL
static void miras__matmul(const miras__kernels *k, int mode, float *C, size_t ldc, miras__matrix A,
                          miras__matrix B, size_t M, size_t N, size_t K, float *pack) {
  k->gemm(mode, C, ldc, A, B, M, N, K, pack);
}
#undef MIRAS__THREAD
#undef MIRAS__THREADS
#undef MIRAS__MEET
#define MIRAS__THREAD threadIdx.x
#define MIRAS__THREADS blockDim.x
#define MIRAS__MEET() __syncthreads()
#define MIRAS__DEVICE MIRAS__DEVICE_LAYERS
#include MIRAS_SELF
#endif
#undef miras__kernels
#undef MIRAS__SET_SUFFIX
#undef MIRAS__SHARED_SUFFIX
#undef static
#undef MIRAS__KERNEL_PASS

/* ---- grids: a block per head of a sequence ---- */

#define MIRAS__GRID __global__ void __launch_bounds__(MIRAS_CUDA_MOST)

/* What a grid is told. The records lie in constant memory, and what points from one to another is
 * set there. */
typedef struct miras__errand {
  miras_memory m;
  miras__memory_call call;           /* of a read: dy are the queries, y what they answer         */
  miras_memory_input x;
  miras_memory_input_grad dx;
  float *dparams;
} miras__errand;

__device__ static miras__memory_call miras__call_of(const miras__errand *a) {
  miras__memory_call c = a->call;
  c.m = (miras_memory *)&a->m;
  c.x = &a->x;
  c.dx = &a->dx;
  return c;
}

MIRAS__GRID miras__run_forward(const __grid_constant__ miras__errand a) {
  miras__memory_call c = miras__call_of(&a);
  miras__forward_task(&c, (int)blockIdx.x, (int)blockIdx.x);
}

MIRAS__GRID miras__run_read(const __grid_constant__ miras__errand a) {
  const size_t heads = (size_t)a.m.plan.d.heads, i = blockIdx.x;
  miras__call run;
  miras__memory_head(&a.m, i / heads, i % heads, &run);
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

#ifndef MIRAS_NO_MODEL
/* A block of the host that was copied here whole: what points into it. */
template <class... T> __host__ __device__ static void miras__move(ptrdiff_t by, T *&...p) {
  const int each[] = {(p = (T *)((char *)p + by), 0)...};
  (void)each;
}
struct miras__there {
  const ::miras_model *m;            /* the host's                                                */
  ptrdiff_t by;                      /* from an address of its block to that of the device's      */
};
__global__ void miras__run_settle(const __grid_constant__ miras__there a) {
  miras_model *m = (miras_model *)((char *)a.m + a.by);
  int i;
  if (threadIdx.x) return;
  miras__move(a.by, m->program, m->layers, m->views, m->params, m->in, m->out);
  m->pack = 0;
  for (i = 0; i < m->kinds; i++) {
    miras__program *p = &m->program[i];
    p->pack = 0;
    miras__move(a.by, p->mixer.gate_scale, p->mixer.idle, p->mixer.rope.turns,
                p->attending.rope.turns);
    if (p->mixer.key_slots) miras__move(a.by, p->mixer.look.plan);
  }
  for (i = 0; i < m->desc.layers; i++)
    miras__move(a.by, m->layers[i].p, m->layers[i].w, m->layers[i].keep);
}
#endif

#ifndef MIRAS__NO_TRAINER
/* A number of tasks, and what they are told. */
#define MIRAS__TASKS(X) \
  X(call_begin) X(call_count) X(tile_begin) X(layer_task) X(tile_end) X(call_end) \
  X(tile_end_bwd) X(tile_begin_bwd) X(embed_bwd) X(job_task) X(norm_task) X(adam_begin) \
  X(adam_task)
#define MIRAS_X(name) MIRAS__DO_##name,
enum { MIRAS__TEXT_BEGIN, MIRAS__TEXT_END, MIRAS__TASKS(MIRAS_X) };   /* phases before job_task   */
#undef MIRAS_X

/* Running texts: text `index` is taken up; ... */
__device__ static void miras__text_begin(const miras__phase *ph, size_t b) {
  const miras_trainer *tr = ph->trainer;
  float *run = tr->streams + b * tr->model->run;
  if (threadIdx.x) return;
  tr->runs[b] = run;
  tr->starts[b] = miras__position(run);
}

/* ... it has come further, and its last rows become logits. */
__device__ static void miras__text_end(const miras__phase *ph, size_t rows, size_t b, int worker) {
  const miras_trainer *tr = ph->trainer;
  const miras_model *m = tr->model;
  const uint64_t position = tr->starts[b] + (uint64_t)ph->all.length;
  const size_t row = (b + 1) * ph->all.length - rows;
  float *pack = miras__worker_scratch(tr, worker), *last = pack + m->pack;
  float *to = tr->logits + b * rows * m->outs;
  const miras__norming of = miras__last_norm(m, ph->out + row * m->ld_x, rows);
  if (!threadIdx.x) memcpy(tr->runs[b], &position, sizeof position);
  if (!rows) return;
  ph->all.k->heads_norm_fwd(last, m->ld_x, &of);
  miras__matmul(ph->all.k, MIRAS__SET, to, m->outs, miras__mat(last, m->ld_x),
                miras__turned(m->params + m->head, m->width), rows, m->outs, m->width, pack);
  if (m->offset) ph->all.k->add_rows(to, m->outs, m->params + m->offset, 0, rows, m->outs);
}

struct miras__tasks {
  int task;
  unsigned count;
  size_t rows;                       /* of a text, that become logits                             */
  miras_trainer trainer;
  union { miras__phase phase; miras__jobs jobs; miras__adam adam; } of;
};

/* What tasks are told lies in shared memory. */
__device__ static miras__tasks *miras__tasks_told(const miras__tasks *a) {
  float *words = miras__shared + MIRAS__ROOM;
  const float *from = (const float *)a;
  miras__tasks *told = (miras__tasks *)words;
  for (unsigned i = threadIdx.x; i < sizeof *told / sizeof *from; i += blockDim.x)
    words[i] = from[i];
  __syncthreads();
  if (!threadIdx.x) {
    if (a->task == MIRAS__DO_job_task) {
      told->of.jobs.k = miras__kernels_best();
    } else if (a->task < MIRAS__DO_job_task) {
      told->of.phase.trainer = &told->trainer;
      told->of.phase.all.k = miras__kernels_best();
    } else {
      told->of.adam.trainer = &told->trainer;
      told->of.adam.k = miras__kernels_best();
    }
  }
  __syncthreads();
  return told;
}

/* Blocks take tasks in turn, with a worker's scratch each. */
MIRAS__GRID miras__run_tasks(const __grid_constant__ miras__tasks a) {
  miras__tasks *told = miras__tasks_told(&a);
  unsigned i;
  for (i = blockIdx.x; i < a.count; i += gridDim.x)
    switch (a.task) {
#define MIRAS_X(name) \
      case MIRAS__DO_##name: miras__##name(&told->of, (int)i, (int)blockIdx.x); break;
      MIRAS__TASKS(MIRAS_X)
#undef MIRAS_X
      case MIRAS__TEXT_BEGIN: miras__text_begin(&told->of.phase, i); break;
      default: miras__text_end(&told->of.phase, a.rows, i, (int)blockIdx.x);
    }
}
#endif

} }

#ifdef __CUDACC__
  #pragma nv_diagnostic pop
#endif

/* The grid's code is on the device behind this. */
template <class A> static int miras__cuda_load(void (*kernel)(const A)) {
  struct cudaFuncAttributes a;
  return cudaFuncGetAttributes(&a, (const void *)kernel) == cudaSuccess;
}

/* All grids begin here. What the launch itself says counts, and no error that was there before. */
template <class A>
static int miras__cuda_launch(void (*kernel)(const A), size_t blocks, size_t bytes,
                              cudaStream_t stream, const A &argument) {
  void *arguments[1] = {(void *)&argument};
  bytes += miras_cuda::MIRAS__ROOM * sizeof(float);
  return blocks <= INT_MAX &&
         cudaLaunchKernel(kernel, dim3((unsigned)blocks), dim3((unsigned)MIRAS_CUDA_THREADS),
                          arguments, bytes, stream) == cudaSuccess;
}

/* The R that a record holds; NULL of none. */
template <class R, class T> static R *miras__cuda_held(const T *g) {
  static_assert(sizeof(R) <= sizeof g->held, "where it is held");
  return g ? (R *)(void *)(uintptr_t)g->held : NULL;
}

/* ---- memories ---- */

static miras_cuda::miras__errand miras__cuda_errand(const miras_memory *m,
                                                    const miras_memory_input *x) {
  miras_cuda::miras__errand job = {};
  memcpy((void *)&job.m, m, sizeof job.m);
  if (x) job.x = *x;
  return job;
}

/* Every head works in scratch of its own, as every worker does on the host. 0: that is too much. */
static size_t miras__cuda_layout(miras_memory *g, const miras_memory *m, void *device, char *why,
                                 size_t n) {
  miras_parallel heads = {NULL, NULL, m->plan.d.batch * m->plan.d.heads};
  miras__arena a = miras__arena_on(device);
  *g = *m;
  g->zeros = 0;                      /* the caller may write to its parameters at any time        */
  g->plan.d.parallel = &heads;
  miras__memory_arrays(g, &a);
  g->plan.d.parallel = NULL;
  g->plan.d.custom = NULL;
  return miras__arena_bytes(&a, "memory", why, n);
}

/* Is there a device half of such a memory? */
static int miras__cuda_can(const miras__plan *p, char *why, size_t n) {
  if (p->d.bias != MIRAS_BIAS_CUSTOM && p->d.retention != MIRAS_RETENTION_CUSTOM) return 1;
  miras__say(why, n, "%s is custom, which calls a function of the host's; a device has the others",
             p->d.bias == MIRAS_BIAS_CUSTOM ? "bias" : "retention");
  return 0;
}

size_t miras_cuda_memory_size(const miras_memory *m, char *why, size_t why_size) {
  miras_memory to;
  if (why && why_size) why[0] = 0;
  if (!m) return miras__say(why, why_size, "the memory is NULL"), 0;
  if (!miras__cuda_can(&m->plan, why, why_size)) return 0;
  return miras__cuda_layout(&to, m, NULL, why, why_size);
}

static int miras__cuda_move(void *to, const void *from, size_t bytes, cudaMemcpyKind way,
                            cudaStream_t stream) {
  return cudaMemcpyAsync(to, from, bytes, way, stream) == cudaSuccess;
}
static int miras__cuda_clear(void *to, size_t bytes, cudaStream_t stream) {
  return !bytes || cudaMemsetAsync(to, 0, bytes, stream) == cudaSuccess;
}
static miras_result miras__cuda_done(int ok) { return ok ? MIRAS_OK : MIRAS_ERR_DEVICE; }

miras_result miras_cuda_memory_init(miras_cuda_memory *g, const miras_memory *m, void *device,
                                    size_t bytes, cudaStream_t stream) {
  const cudaMemcpyKind way = cudaMemcpyHostToDevice;
  miras_memory held;
  if (!g || !m || !device) return MIRAS_ERR_ARGUMENT;
  if (!miras_cuda_memory_size(m, NULL, 0)) return MIRAS_ERR_DESC;
  if (bytes < miras__cuda_layout(&held, m, device, NULL, 0)) return MIRAS_ERR_SIZE;
  memset(g, 0, sizeof *g);
  memcpy(g->held, &held, sizeof held);
  return miras__cuda_done(
    miras__cuda_load(miras_cuda::miras__run_forward) &&
    miras__cuda_load(miras_cuda::miras__run_read) &&
    miras__cuda_load(miras_cuda::miras__run_moved) &&
#ifndef MIRAS_NO_TRAINING
    miras__cuda_load(miras_cuda::miras__run_backward) &&
    miras__cuda_load(miras_cuda::miras__run_collect) &&
#endif
    miras__cuda_move(held.params, m->params, m->plan.params * sizeof(float), way, stream) &&
    miras__cuda_move(held.keep, m->keep, (size_t)m->plan.d.heads * sizeof(float), way, stream) &&
    miras__cuda_move(held.state, m->state, m->state_bytes, way, stream));
}

miras_result miras_cuda_memory_copy(miras_memory *m, const miras_cuda_memory *g,
                                    cudaStream_t stream) {
  const miras_memory *from = miras__cuda_held<miras_memory>(g);
  const cudaMemcpyKind way = cudaMemcpyDeviceToHost;
  const miras_memory_desc *a, *b;
  if (!g || !m) return MIRAS_ERR_ARGUMENT;
  a = &m->plan.d, b = &from->plan.d;
  if (m->plan.head_state != from->plan.head_state || m->plan.params != from->plan.params ||
      a->batch != b->batch || a->heads != b->heads || a->key_dim != b->key_dim ||
      a->value_dim != b->value_dim || a->chunk != b->chunk || a->bias != b->bias ||
      a->architecture != b->architecture || a->retention != b->retention ||
      a->algorithm != b->algorithm)
    return MIRAS_ERR_MISMATCH;
  m->zeros = 0;
  m->sound = 0;
  return miras__cuda_done(
    miras__cuda_move(m->params, from->params, m->plan.params * sizeof(float), way, stream) &&
    miras__cuda_move(m->state, from->state, m->state_bytes, way, stream));
}

float *miras_cuda_memory_params(const miras_cuda_memory *g, size_t *count) {
  const miras_memory *m = miras__cuda_held<miras_memory>(g);
  if (count) *count = m ? m->plan.params : 0;
  return m ? m->params : NULL;
}

void *miras_cuda_memory_state(const miras_cuda_memory *g, size_t *bytes) {
  const miras_memory *m = miras__cuda_held<miras_memory>(g);
  if (bytes) *bytes = m ? m->state_bytes : 0;
  return m ? m->state : NULL;
}

miras_result miras_cuda_memory_reset(const miras_cuda_memory *g, cudaStream_t stream) {
  const miras_memory *m = miras__cuda_held<miras_memory>(g);
  if (!g) return MIRAS_ERR_ARGUMENT;
  return miras__cuda_done(miras__cuda_clear(m->state, m->state_bytes, stream));
}

#ifndef MIRAS_NO_TRAINING
size_t miras_cuda_memory_tape_size(const miras_cuda_memory *g, int length) {
  miras_parallel heads = {NULL, NULL, 1};
  miras__plan plan;
  if (!g || length < 0) return 0;
  plan = miras__cuda_held<miras_memory>(g)->plan;
  heads.workers = plan.d.batch * plan.d.heads;
  plan.d.parallel = &heads;
  return miras__tape(&plan, length);
}
#endif

miras_result miras_cuda_memory_forward(const miras_cuda_memory *g, const miras_memory_input *x,
                                       float *y, float *tape, cudaStream_t stream) {
  const miras_memory *m = miras__cuda_held<miras_memory>(g);
  miras_cuda::miras__errand job;
  size_t batch;
  if (!g || !miras__tokens_ok(m, x) || (x->length && !y) || (!MIRAS__TRAINS && tape))
    return MIRAS_ERR_ARGUMENT;
#ifndef MIRAS_NO_TRAINING
  if (tape && !miras_cuda_memory_tape_size(g, x->length)) return MIRAS_ERR_SIZE;
#endif
  batch = (size_t)m->plan.d.batch;
  job = miras__cuda_errand(m, x);
  job.call.y = y;
  job.call.tape = tape;
  job.call.per = tape ? miras__plan_tape(&m->plan, (size_t)x->length) : 0;
  return miras__cuda_done(
    (!x->length || miras__cuda_launch(miras_cuda::miras__run_forward,
                                      batch * (size_t)m->plan.d.heads, 0, stream, job)) &&
    miras__cuda_launch(miras_cuda::miras__run_moved, batch, 0, stream, job));
}

miras_result miras_cuda_memory_read(const miras_cuda_memory *g, const float *query, float *out,
                                    cudaStream_t stream) {
  const miras_memory *m = miras__cuda_held<miras_memory>(g);
  miras_cuda::miras__errand job;
  if (!g || !query || !out) return MIRAS_ERR_ARGUMENT;
  job = miras__cuda_errand(m, NULL);
  job.call.dy = query;
  job.call.y = out;
  return miras__cuda_done(
    miras__cuda_launch(miras_cuda::miras__run_read,
                       (size_t)m->plan.d.batch * (size_t)m->plan.d.heads, 0, stream, job));
}

#ifndef MIRAS_NO_TRAINING
miras_result miras_cuda_memory_backward(const miras_cuda_memory *g, const miras_memory_input *x,
                                        float *tape, const float *dy,
                                        const miras_memory_input_grad *dx, float *dparams,
                                        float *dstate, cudaStream_t stream) {
  const miras_memory *m = miras__cuda_held<miras_memory>(g);
  miras_cuda::miras__errand job;
  size_t tasks;
  if (!g || !tape || !dx || !miras__tokens_ok(m, x) || (x->length && !dy))
    return MIRAS_ERR_ARGUMENT;
  tasks = (size_t)m->plan.d.batch * (size_t)m->plan.d.heads;
  job = miras__cuda_errand(m, x);
  job.dx = *dx;
  job.dparams = dparams;
  job.call.dy = dy;
  job.call.tape = tape;
  job.call.per = miras__plan_tape(&m->plan, (size_t)x->length);
  job.call.part = miras__part_size(&m->plan);
  job.call.parts = tape + 16 + tasks * job.call.per;
  job.call.scratch = job.call.parts + tasks * job.call.part;
  job.call.dstate = dstate;
  return miras__cuda_done(
    miras__cuda_launch(miras_cuda::miras__run_backward, tasks, 0, stream, job) &&
    (!dparams || miras__cuda_launch(miras_cuda::miras__run_collect, (size_t)m->plan.d.heads + 1, 0,
                                    stream, job)));
}
#endif

#ifndef MIRAS_NO_MODEL
/* ---- models and trainers ---- */

using miras_cuda::miras__there;      /* what miras_cuda_model holds                               */

static int miras__alike(const miras_model *a, const miras_model *b) {
  return a->param_count == b->param_count && a->run == b->run && a->view_count == b->view_count &&
         a->learned == b->learned && a->desc.layers == b->desc.layers;
}

size_t miras_cuda_model_size(const miras_model *m, char *why, size_t why_size) {
  int i;
  if (why && why_size) why[0] = 0;
  if (!m) return miras__say(why, why_size, "the model is NULL"), 0;
  const struct { double has; const char *text; } refused[] = {
    {(double)m->desc.weights, "the model's weights is %g; a device takes 0 (float)"},
    {(double)m->desc.adapter.rank, "adapter.rank is %g; a device takes 0: there is none there"},
    {(double)m->desc.logit_cap, "logit_cap is %g; a device takes 0: outputs have none there"},
    {(double)m->desc.adapt.learning_rate,
     "adapt.learning_rate is %g; a device takes 0: there no head learns"}
  };
  for (i = 0; i < m->kinds; i++)
    if (m->program[i].mixer.heads && !miras__cuda_can(&m->program[i].mixer.plan, why, why_size))
      return 0;
  for (i = 0; i < (int)MIRAS__COUNT(refused); i++)
    if (refused[i].has > 0) return miras__say(why, why_size, refused[i].text, refused[i].has), 0;
  return m->own.bytes - MIRAS__SLACK;   /* from the record to its block's end */
}

miras_result miras_cuda_model_init(miras_cuda_model *g, const miras_model *m, void *device,
                                   size_t bytes, cudaStream_t stream) {
  const size_t need = miras_cuda_model_size(m, NULL, 0);
  miras__there there;
  if (!g || !m || !device) return MIRAS_ERR_ARGUMENT;
  if (!need) return MIRAS_ERR_DESC;
  if (bytes < need) return MIRAS_ERR_SIZE;
  there.m = m;
  there.by = (char *)device - (char *)m;
#ifndef MIRAS__NO_TRAINER
  if (!miras__cuda_load(miras_cuda::miras__run_tasks)) return MIRAS_ERR_DEVICE;
#endif
  memset(g, 0, sizeof *g);
  memcpy(g->held, &there, sizeof there);
  return miras__cuda_done(miras__cuda_move(device, m, need, cudaMemcpyHostToDevice, stream) &&
                          miras__cuda_launch(miras_cuda::miras__run_settle, 1, 0, stream, there));
}

float *miras_cuda_model_params(const miras_cuda_model *g, size_t *count) {
  const miras__there *there = miras__cuda_held<miras__there>(g);
  if (count) *count = g ? there->m->param_count : 0;
  return g ? (float *)(void *)((char *)there->m->params + there->by) : NULL;
}

miras_result miras_cuda_model_copy(miras_model *m, const miras_cuda_model *g, cudaStream_t stream) {
  size_t count;
  const float *params = miras_cuda_model_params(g, &count);
  if (!g || !m) return MIRAS_ERR_ARGUMENT;
  if (!miras__alike(m, miras__cuda_held<miras__there>(g)->m)) return MIRAS_ERR_MISMATCH;
  return miras__cuda_done(miras__cuda_move(m->params, params, count * sizeof(float),
                                           cudaMemcpyDeviceToHost, stream));
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
  int failed;
  uint64_t records[(MIRAS_MAX_LAYERS + 1) * sizeof(miras__kept) / 8 +
                   MIRAS__KINDS * sizeof(miras__layer_work) / 8 + 32];
} miras__held_trainer;

template <class T> static miras__held_trainer *miras__held_of(const T *t) {
  return miras__cuda_held<miras__held_trainer>(t);
}

/* A number of tasks, by their number. */
static void miras__cuda_tasks(miras__held_trainer *t, int task, size_t count, const void *argument,
                              size_t rows) {
  const ptrdiff_t by = t->there.by;
  const size_t workers = miras__workers(&t->parallel);
  const int before = task < miras_cuda::MIRAS__DO_job_task;
  const int jobs = task == miras_cuda::MIRAS__DO_job_task;
  miras_cuda::miras__tasks a;
  int i;
  memset((void *)&a, 0, sizeof a);
  a.task = task;
  a.count = (unsigned)count;
  a.rows = rows;
  memcpy((void *)&a.trainer, &t->tr, sizeof a.trainer);
  a.trainer.model = (miras_cuda::miras_model *)((char *)t->there.m + by);
  memcpy((void *)&a.of, argument,
         before ? sizeof(miras__phase) : jobs ? sizeof(miras__jobs) : sizeof(miras__adam));
  if (before && a.of.phase.all.layer) miras_cuda::miras__move(by, a.of.phase.all.layer);
  for (i = 0; jobs && i < a.of.jobs.count; i++)   /* weights to be turned: the model's */
    if (a.of.jobs.job[i].kind == miras_cuda::MIRAS__TRANSPOSE)
      miras_cuda::miras__move(by, a.of.jobs.job[i].a);
  if (count && !miras__cuda_launch(miras_cuda::miras__run_tasks, count < workers ? count : workers,
                                   sizeof a, t->stream, a))
    t->failed = 1;
}

#define MIRAS_X(name) miras__##name,
/* As miras_parallel has it. */
static void miras__cuda_each(void *user, int count,
                             void (*task)(void *argument, int index, int worker), void *argument) {
  static void (*const all[])(void *argument, int index, int worker) = {MIRAS__TASKS(MIRAS_X)};
  const int known = (int)MIRAS__COUNT(all);
  miras__held_trainer *t = (miras__held_trainer *)user;
  int i = 0;
  while (i < known && all[i] != task) i++;
  MIRAS_ASSERT(i < known);
  if (i < known)
    miras__cuda_tasks(t, miras_cuda::MIRAS__DO_call_begin + i, (size_t)count, argument, 0);
  else t->failed = 1;
}
#undef MIRAS_X

/* The trainer's record on `device`, or its size. */
static size_t miras__cuda_trainer_layout(miras__held_trainer *t, const miras_cuda_model *g,
                                         const miras_trainer_desc *d, void *device, char *why,
                                         size_t n) {
  miras__arena records = miras__arena_on(t->records), a = miras__arena_on(device);
  const miras__there *there = miras__cuda_held<miras__there>(g);
  const miras_parallel blocks = {miras__cuda_each, t, -MIRAS_CUDA_BLOCKS};
  miras_trainer tr;
  if (d && d->parallel)
    return miras__say(why, n, "parallel is set; a trainer on a device must have NULL: the device "
                              "is its job system"), 0;
  if (miras__trainer_resolve(&tr, (miras_model *)there->m, d, why, n) != MIRAS_OK) return 0;
  if (tr.some || tr.desc.only)
    return miras__say(why, n, "only is set, or something is frozen; a trainer on a device moves "
                              "all: set it to NULL, and freeze behind it"), 0;
  memset(t, 0, sizeof *t);
  t->tr = tr;
  t->there = *there;
  t->parallel = blocks;
  t->tr.desc.parallel = &t->parallel;
  a.records = &records;
  miras__trainer_layout(&t->tr, &a);
  return miras__within_limit(miras__arena_bytes(&a, "trainer", why, n), d->limit, "trainer", why,
                             n);
}

size_t miras_cuda_trainer_size(const miras_cuda_model *g, const miras_trainer_desc *d, char *why,
                               size_t why_size) {
  miras_cuda_trainer draft;
  if (why && why_size) why[0] = 0;
  if (!g) return miras__say(why, why_size, "the model is NULL"), 0;
  return miras__cuda_trainer_layout(miras__held_of(&draft), g, d, NULL, why, why_size);
}

miras_result miras_cuda_trainer_init(miras_cuda_trainer *t, const miras_cuda_model *g,
                                     const miras_trainer_desc *d, void *device, size_t bytes,
                                     cudaStream_t stream) {
  miras__held_trainer *held = miras__held_of(t);
  size_t need, params, streams;
  if (!t || !g || !d || !device) return MIRAS_ERR_ARGUMENT;
  need = miras__cuda_trainer_layout(held, g, d, device, NULL, 0);
  if (!need) return MIRAS_ERR_DESC;
  if (bytes < need) return MIRAS_ERR_SIZE;
  params = 3 * held->there.m->param_count * sizeof(float);
  streams = (size_t)held->tr.desc.carried * held->there.m->run * sizeof(float);
  return miras__cuda_done(miras__cuda_clear(held->tr.grads, params, stream) &&
                          miras__cuda_clear(held->tr.streams, streams, stream) &&
                          miras__cuda_clear(held->tr.now, sizeof(miras__now), stream));
}

/* Queue a copy of rows of `each` words, on the device: 1 where there are none, or it is queued. */
static int miras__cuda_bring(void *to, const void *from, size_t rows, int each,
                             cudaStream_t stream) {
  return !each || miras__cuda_move(to, from, rows * (size_t)each * sizeof(float),
                                   cudaMemcpyDeviceToDevice, stream);
}

miras_result miras_cuda_trainer_loss(miras_cuda_trainer *t, const miras_batch *x, int train,
                                     float *loss, cudaStream_t stream) {
  miras__held_trainer *held = miras__held_of(t);
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
        : miras__cuda_clear(tr->fresh, (size_t)x->batch, stream));
  miras__loss_run(tr, x->batch, x->length, train != 0, x->outputs, x->hidden);
  return miras__cuda_done(
    (!loss || miras__cuda_bring(loss, &tr->now->loss, 1, 1, stream)) &&
    (!x->losses ||
     miras__cuda_bring(x->losses, tr->now->losses, 1, held->there.m->answers, stream)) &&
    !held->failed);
}

miras_result miras_cuda_trainer_backward(miras_cuda_trainer *t, const miras_batch_grad *g,
                                         cudaStream_t stream) {
  miras__held_trainer *held = miras__held_of(t);
  miras_result result;
  if (!t) return MIRAS_ERR_ARGUMENT;
  held->stream = stream;
  held->failed = 0;
  result = miras_trainer_backward(&held->tr, g);
  return held->failed ? MIRAS_ERR_DEVICE : result;
}

miras_result miras_cuda_trainer_step(miras_cuda_trainer *t, const miras_adamw_options *o,
                                     float learning_rate, float *norm, cudaStream_t stream) {
  miras__held_trainer *held = miras__held_of(t);
  if (!t || !miras__adamw_ok(o, learning_rate)) return MIRAS_ERR_ARGUMENT;
  held->stream = stream;
  held->failed = 0;
  miras__step_run(&held->tr, o, learning_rate);
  return miras__cuda_done((!norm || miras__cuda_bring(norm, &held->tr.now->norm, 1, 1, stream)) &&
                          !held->failed);
}

float *miras_cuda_trainer_grads(const miras_cuda_trainer *t, size_t *count) {
  if (count) *count = t ? miras__held_of(t)->there.m->param_count : 0;
  return t ? miras__held_of(t)->tr.grads : NULL;
}

/* Gradients and moments, running texts, and how many steps there were. */
static miras_result miras__cuda_trainer_move(miras_trainer *host, miras__held_trainer *held, int to,
                                             cudaStream_t stream) {
  const miras_model *m = host ? host->model : NULL;
  size_t i;
  if (!host || !held) return MIRAS_ERR_ARGUMENT;
  if (!miras__alike(m, held->there.m) || host->desc.carried != held->tr.desc.carried || host->at)
    return MIRAS_ERR_MISMATCH;
  void *const here[3] = {host->grads, host->streams, host->now};
  void *const there[3] = {held->tr.grads, held->tr.streams, held->tr.now};
  const size_t bytes[3] = {3 * m->param_count * sizeof(float),
                           (size_t)host->desc.carried * m->run * sizeof(float),
                           sizeof(miras__now)};
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
  return miras__cuda_trainer_move(to, miras__held_of(t), 0, stream);
}

miras_result miras_cuda_trainer_send(miras_cuda_trainer *t, const miras_trainer *from,
                                     cudaStream_t stream) {
  return miras__cuda_trainer_move((miras_trainer *)from, miras__held_of(t), 1, stream);
}

/* ---- running texts ---- */

/* The session's record on `device`, or its size. */
static size_t miras__cuda_session_layout(miras__held_trainer *t, const miras_cuda_model *g,
                                         int batch, int length, void *device) {
  miras__arena records = miras__arena_on(t->records), a = miras__arena_on(device);
  const miras__there *there = miras__cuda_held<miras__there>(g);
  const miras_parallel blocks = {miras__cuda_each, t, -MIRAS_CUDA_BLOCKS};
  const miras_model *m = there->m;
  const size_t b = (size_t)batch, n = b * (size_t)length, layers = (size_t)m->desc.layers;
  miras__kept kind[MIRAS__KINDS];
  miras__extent e = {};
  float *x;
  size_t l;
  if (batch < 1 || batch > 65536 || length < 1 || length > INT_MAX / batch) return 0;
  memset(t, 0, sizeof *t);
  memset(kind, 0, sizeof kind);
  t->there = *there;
  t->tr.model = (miras_model *)m;
  t->tr.desc.batch = t->tr.desc.carried = t->tr.batch = batch;
  t->tr.desc.context = length;
  t->tr.desc.parallel = &t->parallel;
  t->parallel = blocks;
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
  return miras__cuda_session_layout(miras__held_of(&draft), g, batch, length, NULL);
}

miras_result miras_cuda_session_init(miras_cuda_session *s, const miras_cuda_model *g, int batch,
                                     int length, void *device, size_t bytes, cudaStream_t stream) {
  size_t need;
  if (!s || !g || !device) return MIRAS_ERR_ARGUMENT;
  need = miras__cuda_session_layout(miras__held_of(s), g, batch, length, device);
  if (!need) return MIRAS_ERR_ARGUMENT;
  if (bytes < need) return MIRAS_ERR_SIZE;
  return miras_cuda_session_reset(s, -1, stream);
}

miras_result miras_cuda_session_feed(miras_cuda_session *s, const int32_t *tokens,
                                     const float *vectors, int length, float *logits, int rows,
                                     cudaStream_t stream) {
  miras__held_trainer *t = miras__held_of(s);
  const miras_row *row = s ? &t->there.m->row : NULL;
  miras__phase ph;
  miras__jobs jobs;
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
  t->failed =
    !miras__cuda_bring(t->tr.tokens, tokens, batch * (size_t)length, row->tokens, stream) ||
    !miras__cuda_bring(t->tr.vectors, vectors, batch * (size_t)length, row->vectors, stream);
  miras__phase_begin(&ph, &jobs, &t->tr, 0);
  miras__cuda_tasks(t, miras_cuda::MIRAS__TEXT_BEGIN, batch, &ph, 0);
  miras__each(&t->parallel, jobs.tiles, miras__tile_begin, &ph);
  for (l = 0; l < t->there.m->desc.layers; l++) miras__layer_run(&ph, l);
  miras__cuda_tasks(t, miras_cuda::MIRAS__TEXT_END, batch, &ph, (size_t)rows);
  return t->failed ? MIRAS_ERR_DEVICE : MIRAS_OK;
}

void *miras_cuda_session_state(const miras_cuda_session *s, int text, size_t *bytes) {
  const miras__held_trainer *t = miras__held_of(s);
  const int there = s && text >= 0 && text < t->tr.batch;
  if (bytes) *bytes = there ? t->there.m->run * sizeof(float) : 0;
  return there ? t->tr.streams + (size_t)text * t->there.m->run : NULL;
}

miras_result miras_cuda_session_reset(miras_cuda_session *s, int text, cudaStream_t stream) {
  size_t bytes;
  void *state = miras_cuda_session_state(s, text < 0 ? 0 : text, &bytes);
  if (!state) return MIRAS_ERR_ARGUMENT;
  if (text < 0) bytes *= (size_t)miras__held_of(s)->tr.batch;
  return miras__cuda_done(miras__cuda_clear(state, bytes, stream));
}
#endif
#endif   /* MIRAS_NO_MODEL */
#endif   /* MIRAS_CUDA_REFERENCE */

#ifndef MIRAS_CUDA_NO_FAST
/* ======== the fast tier: kernels ========
 *
 * One launch an operation, 16 bytes an access, bfloat16 rows and float sums; every sum has one
 * order, fixed by the sizes of the call, and no float is added to by two threads. Rows are those of
 * all sequences of a call, [N, ld], ld a multiple of 8; heads of a row lie side by side. */
namespace { inline namespace miras_fast {     /* the host's side needs no name of it              */

#define bf16 miras__bf16             /* in this part of the file                                  */
typedef uint16_t bf16;

/* Instructions of compute capability 8.0, or what stands for them without nvcc; and a grid whose
 * blocks have so many threads, and so many of them share a multiprocessor at least. Older code has
 * no such instructions and would compute nothing: by its bounds no launch of it succeeds. */
#define MIRAS__FAST_GRID(threads, blocks) static __global__ void __launch_bounds__(threads, blocks)
#ifndef __CUDACC__
  #define miras__fast_room ((unsigned char *)shim_shared)
  #define MIRAS__ALL_OF
  #define MIRAS__EACH_OF
  #define MIRAS__FROM_80(shim, ...) shim
#else
extern __shared__ __align__(16) unsigned char miras__fast_room[];
  #define MIRAS__ALL_OF _Pragma("unroll")
  #define MIRAS__EACH_OF _Pragma("unroll 1")
  #if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    #define MIRAS__FROM_80(shim, ...) __VA_ARGS__
  #else
    #define MIRAS__FROM_80(shim, ...)
    #undef MIRAS__FAST_GRID
    #define MIRAS__FAST_GRID(threads, blocks) static __global__ void __launch_bounds__(1)
  #endif
#endif

enum {
  MIRAS__FAST_THREADS = 256,         /* of a block of row kernels and of dense products           */
  MIRAS__FAST_STRIP = 64,            /* rows whose sums are one number                            */
  MIRAS__FAST_LD = 72                /* between rows of a square of a chunk                       */
};

/* ---- numbers ---- */

__device__ static inline float miras__of_low(unsigned x) { return __int_as_float((int)(x << 16)); }
__device__ static inline float miras__of_high(unsigned x) {
  return __int_as_float((int)(x & 0xffff0000u));
}
__device__ static inline unsigned miras__halves(float low, float high) {
  unsigned both = 0;
  MIRAS__FROM_80(both = shim_halves(low, high);,
                 asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));)
  return both;
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
  const uint4 u = {miras__halves(x[0], x[1]), miras__halves(x[2], x[3]),
                   miras__halves(x[4], x[5]), miras__halves(x[6], x[7])};
  *(uint4 *)(void *)p = u;
}
__device__ static inline void miras__get4(float x[4], const float *p) {
  const float4 u = *(const float4 *)(const void *)p;
  x[0] = u.x, x[1] = u.y, x[2] = u.z, x[3] = u.w;
}
__device__ static inline void miras__get4(float x[4], const bf16 *p) {
  const uint2 u = *(const uint2 *)(const void *)p;
  x[0] = miras__of_low(u.x), x[1] = miras__of_high(u.x);
  x[2] = miras__of_low(u.y), x[3] = miras__of_high(u.y);
}
__device__ static inline void miras__put4(float *p, float x, float y, float z, float w) {
  const float4 u = {x, y, z, w};
  *(float4 *)(void *)p = u;
}
__device__ static inline void miras__get8(float x[8], const float *p) {
  miras__get4(x, p), miras__get4(x + 4, p + 4);
}

#define MIRAS__EIGHT MIRAS__ALL_OF for (unsigned e = 0; e < 8; e++)
#define MIRAS__ONES {1, 1, 1, 1, 1, 1, 1, 1}
/* Where a thread is that has eight columns: row, and the first of them, c. */
#define MIRAS__EIGHT_OF(eights)                                                                    \
  const size_t item = (size_t)blockIdx.x * MIRAS__FAST_THREADS + threadIdx.x;                      \
  const size_t row = item / (eights);                                                              \
  const unsigned c = (unsigned)(item % (eights)) * 8
__device__ static inline void miras__put_or_add8(bf16 *p, float x[8], int adds) {
  float v[8];
  if (adds) miras__get8(v, p);
  if (adds) MIRAS__EIGHT x[e] += v[e];
  miras__put8(p, x);
}

/* 1 / (1 + exp(-x)), whose last bits bfloat16 does not see. */
__device__ static inline float miras__logistic(float x) {
  return __fdividef(1, 1 + __expf(-x));
}
__device__ static inline float miras__left(float x) { return __expf(x); }  /* exp x of x up to 0  */
__device__ static inline float miras__softened(float x) {   /* log(1 + exp x) */
  return x > 20 ? x : log1pf(expf(x));
}

/* N numbers x become f(x), and slope its slopes there, of the functions that layers take by
 * name. */
#define MIRAS__EACH MIRAS__ALL_OF for (unsigned e = 0; e < N; e++)
template <int N>
__device__ static inline void miras__fast_f(int f, float *x, float *slope) {
  switch (f) {
    case MIRAS_FN_SILU:
      MIRAS__EACH {
        const float s = miras__logistic(x[e]);
        slope[e] = s * (1 + x[e] * (1 - s)), x[e] *= s;
      }
      break;
    case MIRAS_FN_SIGMOID: MIRAS__EACH x[e] = miras__logistic(x[e]), slope[e] = x[e] * (1 - x[e]);
      break;
    case MIRAS_FN_RELU: MIRAS__EACH slope[e] = x[e] > 0 ? 1.0f : 0.0f, x[e] = x[e] > 0 ? x[e] : 0;
      break;
    case MIRAS_FN_RELU2: MIRAS__EACH slope[e] = x[e] > 0 ? 2 * x[e] : 0, x[e] *= slope[e] / 2;
      break;
    case MIRAS_FN_ELU:
      MIRAS__EACH {
        const float y = expf(x[e] > 0 ? 0 : x[e]);
        slope[e] = y, x[e] = x[e] > 0 ? x[e] + 1 : y;
      }
      break;
    case MIRAS_FN_GELU:              /* with (1 + tanh z) / 2 = logistic(2 z)                     */
      MIRAS__EACH {
        const float v = x[e], s = miras__logistic(1.5957691216f * (v + 0.044715f * v * v * v));
        slope[e] = s + v * s * (1 - s) * 1.5957691216f * (1 + 0.134145f * v * v), x[e] = v * s;
      }
      break;
    case MIRAS__TANH: MIRAS__EACH x[e] = tanhf(x[e]), slope[e] = 1 - x[e] * x[e];
      break;
    default: MIRAS__EACH slope[e] = 1;
  }
}
#undef MIRAS__EACH

/* Sums over groups of `lanes` lanes of a warp, a power of 2; all lanes of the warp call. */
__device__ static inline float miras__lanes_sum(float x, unsigned lanes) {
  for (unsigned k = lanes / 2; k; k /= 2) x += __shfl_xor_sync(0xffffffffu, x, k);
  return x;
}
/* Sums over a block, or the most, told to all its threads; room: a float for each warp. */
template <int MOST> __device__ static inline float miras__block_all(float x, float *room) {
  for (unsigned k = 16; k; k /= 2) {
    const float y = __shfl_xor_sync(0xffffffffu, x, k);
    x = MOST ? fmaxf(x, y) : x + y;
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = x;
  __syncthreads();
  x = room[0];
  for (unsigned i = 1; i < blockDim.x / 32; i++) x = MOST ? fmaxf(x, room[i]) : x + room[i];
  return x;
}

/* ---- copies, and products of a warp ---- */

/* 16 bytes of global memory are on their way to shared memory, or zeros; group: what was asked for
 * since the last one; wait: for all but the last groups. Four matrices of 8 x 8 for matrix units,
 * perhaps turned; and a product of theirs. */
__device__ static inline void miras__nothing16(bf16 *to) {
  const uint4 none = {0, 0, 0, 0};
  *(uint4 *)(void *)to = none;
}
#define MIRAS__AT_SHARED(p) ((unsigned)__cvta_generic_to_shared(p))
__device__ static inline void miras__bring16(bf16 *to, const bf16 *from) {
  MIRAS__FROM_80(shim_copy(to, from);,
                 asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                              : : "r"(MIRAS__AT_SHARED(to)), "l"(from) : "memory");)
}
__device__ static inline void miras__bring16_of(bf16 *to, const bf16 *from, int in) {
  MIRAS__FROM_80(if (in) shim_copy(to, from); else miras__nothing16(to);,
                 asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                              : : "r"(MIRAS__AT_SHARED(to)), "l"(from), "r"(in ? 16 : 0)
                              : "memory");)
}
__device__ static inline void miras__bring_group(void) {
  MIRAS__FROM_80(shim_copies_group();, asm volatile("cp.async.commit_group;" : : : "memory");)
}
template <int BUT> __device__ static inline void miras__bring_wait(void) {
  MIRAS__FROM_80(shim_copies_wait(BUT);,
                 asm volatile("cp.async.wait_group %0;" : : "n"(BUT) : "memory");)
}
#ifndef __CUDACC__
  #define miras__fast_load(to, row, turned) shim_load_matrices(to, row, turned, SHIM_HERE)
  #define miras__fast_times(c, a, b0, b1) shim_multiply(c, a, b0, b1, SHIM_HERE)
#else
  #define MIRAS__LOAD(way) \
    MIRAS__FROM_80(, asm volatile("ldmatrix.sync.aligned.m8n8.x4" way ".shared.b16 " \
                                  "{%0, %1, %2, %3}, [%4];" \
                                  : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) \
                                  : "r"(MIRAS__AT_SHARED(row)) : "memory"))
__device__ static inline void miras__fast_load(unsigned to[4], const bf16 *row, int turned) {
  if (turned) MIRAS__LOAD(".trans");
  else MIRAS__LOAD("");
}
__device__ static inline void miras__fast_times(float c[4], const unsigned a[4], unsigned b0,
                                                unsigned b1) {
  MIRAS__FROM_80(, asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                                "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                                : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                                : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));)
}
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
 * and leaves it at `wide`, [parts, m, ldc] floats, which a grid of their own adds up. With A turned
 * C is always floats.
 * Where products are of experts (X), a block has a tile of pairs and their expert's B or, with A
 * turned, the sums over an expert's pairs that are its part of C; experts' matrices lie `apart`
 * numbers apart. */
typedef struct miras__fast_product {
  const bf16 *a, *b, *base, *bias;   /* base: C = base + ..., rows ldc apart; bias [n]            */
  bf16 *c;
  float *wide;                       /* in the place of c                                         */
  const float *scales;               /* NULL, or B is of whole numbers (product_q8)               */
  unsigned lda, ldb, ldc, m, n, k, across, parts;
  int adds;                          /* C += ...                                                  */
  const unsigned *list_a, *list_b;   /* of experts: the rows in memory that are A's, or B's; NULL */
  const unsigned *starts;
  const uint4 *tiles;
  size_t apart;
} miras__fast_product;

enum { MIRAS__PRODUCT_STAGE = 2 * 128 * 40, MIRAS__PRODUCT_BYTES = 3 * 2 * MIRAS__PRODUCT_STAGE };

/* A tile of 128 rows by 32 of depth is on its way, or turned 32 by 128. */
template <int TURNED, int LISTED>
__device__ static inline void miras__tile_bring(bf16 *to, const bf16 *from, unsigned ld,
                                                unsigned i0, unsigned m, unsigned k0, unsigned k1,
                                                const unsigned *list) {
  for (unsigned e = threadIdx.x; e < 512; e += MIRAS__FAST_THREADS) {
    const unsigned r = TURNED ? e / 16 : e / 4, c = TURNED ? e % 16 * 8 : e % 4 * 8;
    const unsigned row = (TURNED ? k0 : i0) + r, col = (TURNED ? i0 : k0) + c;
    bf16 *at = to + (TURNED ? r * 136 + c : r * 40 + c);
    if (row < (TURNED ? k1 : m) && col < (TURNED ? m : k1))
      miras__bring16(at, from + (size_t)(LISTED && list ? list[row] : row) * ld + col);
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

/* Two numbers of C; others than plain products have neither bias nor base. */
template <int WIDE, int PLAIN>
__device__ static inline void miras__product_put(const miras__fast_product *x, size_t place,
                                                 unsigned row, unsigned col, float u, float v) {
  const size_t at = (size_t)row * x->ldc + col;
  const int two = col + 1 < x->n;
  if (PLAIN && x->bias)
    u += miras__wide(x->bias[col]), v += two ? miras__wide(x->bias[col + 1]) : 0;
  if (PLAIN && x->base)
    u += miras__wide(x->base[at]), v += two ? miras__wide(x->base[at + 1]) : 0;
  if (WIDE || (PLAIN && x->wide)) {
    float *const p = x->wide + place + at;
    p[0] = x->adds ? p[0] + u : u;
    if (two) p[1] = x->adds ? p[1] + v : v;
  } else {
    bf16 *const p = x->c + at;
    if (x->adds) u += miras__wide(p[0]), v += two ? miras__wide(p[1]) : 0;
    if (two) miras__put2(p, u, v);
    else p[0] = miras__near(u);
  }
}

template <int A_TURNED, int B_TURNED, int EXPERTS>
MIRAS__FAST_GRID(256, 1) miras__run_fast_product(const __grid_constant__ miras__fast_product x) {
  enum { PLAIN = !A_TURNED && !EXPERTS };
  bf16 *const room = (bf16 *)(void *)miras__fast_room;
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const unsigned part = blockIdx.x % x.parts, tile = blockIdx.x / x.parts;
  const unsigned j0 = tile % x.across * 128, each = ((x.k + 31) / 32 + x.parts - 1) / x.parts * 32;
  const unsigned wi = warp / 4 * 64, wj = warp % 4 * 32;
  const bf16 *b = x.b;
  unsigned i0 = tile / x.across, m = x.m, k0 = part * each;
  unsigned k1 = k0 + each < x.k ? k0 + each : x.k;
  size_t place = (size_t)part * x.m * x.ldc;           /* of C, in `wide`                         */
  if (EXPERTS && A_TURNED) {
    const unsigned down = (m + 127) / 128, e = i0 / down;
    k0 = x.starts[e], k1 = x.starts[e + 1], i0 = i0 % down * 128, place = e * x.apart;
  } else if (EXPERTS) {
    const uint4 pairs = x.tiles[i0];
    b += pairs.x * x.apart, i0 = pairs.y, m = pairs.z;
    if (i0 >= m) return;
  } else i0 *= 128;
  const unsigned steps = k1 > k0 ? (k1 - k0 + 31) / 32 : 0;
  float c[4][4][4];
  unsigned s, i, n, h;
  MIRAS__ALL_OF for (i = 0; i < 4; i++) miras__clear<4>(c[i]);
  for (s = 0; s < 2; s++) {
    bf16 *const to = room + s * MIRAS__PRODUCT_STAGE;
    if (s < steps) {
      miras__tile_bring<A_TURNED, EXPERTS>(to, x.a, x.lda, i0, m, k0 + 32 * s, k1, x.list_a);
      miras__tile_bring<!B_TURNED, EXPERTS>(to + 5120, b, x.ldb, j0, x.n, k0 + 32 * s, k1,
                                            x.list_b);
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
      miras__tile_bring<A_TURNED, EXPERTS>(to, x.a, x.lda, i0, m, k0 + 32 * (s + 2), k1, x.list_a);
      miras__tile_bring<!B_TURNED, EXPERTS>(to + 5120, b, x.ldb, j0, x.n, k0 + 32 * (s + 2), k1,
                                            x.list_b);
    }
    miras__bring_group();
    if (i0 + wi < m && j0 + wj < x.n)
      MIRAS__ALL_OF for (i = 0; i < 4; i++)
        if (i0 + wi + 16 * i < m)
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
        if (row < m && col < x.n)
          miras__product_put<A_TURNED, PLAIN>(&x, place, row, col, c[i][n][2 * h],
                                              c[i][n][2 * h + 1]);
      }
}

/* ---- R: rows ---- */

/* Where a group of lanes is: its item, row and head; in: there is such an item. */
typedef struct miras__fast_item {
  unsigned lane, item, row, h, in;
} miras__fast_item;
template <class A> __device__ static inline miras__fast_item miras__fast_item_of(const A &a) {
  const unsigned item = (blockIdx.x * MIRAS__FAST_THREADS + threadIdx.x) >> __popc(a.lanes - 1);
  const unsigned in = item < a.items, row = in ? item / a.heads : 0, h = in ? item % a.heads : 0;
  const miras__fast_item at = {threadIdx.x & (a.lanes - 1), item, row, h, in};
  return at;
}

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

/* The mean of a row, or of squares of what is over `mean`; of rows that there are not, of zeros. */
template <int SQUARES>
__device__ static inline float miras__fast_mean(const miras__fast_norm *a, const bf16 *x,
                                                unsigned lane, unsigned in, float mean) {
  float v[8], sum = 0;
  for (unsigned c = 8 * lane; in && c < a->n; c += 8 * a->lanes) {
    miras__get8(v, x + c);
    MIRAS__EIGHT sum += SQUARES ? (v[e] - mean) * (v[e] - mean) : v[e];
  }
  return miras__lanes_sum(sum, a->lanes) / (float)a->n;
}
/* Mean and 1 / deviation. */
__device__ static inline void miras__fast_stats(const miras__fast_norm *a, const bf16 *x,
                                                unsigned lane, unsigned in, float *mean,
                                                float *inverse) {
  *mean = a->bias ? miras__fast_mean<0>(a, x, lane, in, 0) : 0;
  *inverse = 1 / sqrtf(miras__fast_mean<1>(a, x, lane, in, *mean) + a->epsilon);
}

template <int GATED>
MIRAS__FAST_GRID(256, 4) miras__run_fast_norm(const __grid_constant__ miras__fast_norm a) {
  const miras__fast_item at = miras__fast_item_of(a);
  const size_t from = at.h * a.step;
  const bf16 *const x = a.x + (size_t)at.row * a.ldx + at.h * a.n;
  const bf16 *const gate = GATED ? a.gate + (size_t)at.row * a.ld_gate + at.h * a.n : NULL;
  bf16 *const y = a.y + (size_t)at.row * a.ldy + at.h * a.n;
  float v[8], g[8], slope[8], mean, inverse, w[8] = MIRAS__ONES;
  miras__fast_stats(&a, x, at.lane, at.in, &mean, &inverse);
  mean *= -inverse;
  for (unsigned c = 8 * at.lane; at.in && c < a.n; c += 8 * a.lanes) {
    miras__get8(v, x + c);
    if (a.gain) miras__get8(w, a.gain + from + c);
    MIRAS__EIGHT v[e] = (v[e] * inverse + mean) * w[e];
    if (a.bias) miras__get8(g, a.bias + from + c);
    if (a.bias) MIRAS__EIGHT v[e] += g[e];
    if (GATED) miras__get8(g, gate + c), miras__fast_f<8>(a.function, g, slope);
    if (GATED) MIRAS__EIGHT v[e] *= g[e];
    miras__put8(y + c, v);
  }
}

template <int GATED>
MIRAS__FAST_GRID(256, 4) miras__run_fast_norm_back(const __grid_constant__ miras__fast_norm a) {
  const miras__fast_item at = miras__fast_item_of(a);
  const size_t from = at.h * a.step;
  const bf16 *const x = a.x + (size_t)at.row * a.ldx + at.h * a.n;
  const bf16 *const d = a.d + (size_t)at.row * a.ldd + at.h * a.n;
  const bf16 *const gate = GATED ? a.gate + (size_t)at.row * a.ld_gate + at.h * a.n : NULL;
  float v[8], g[8], t[8], slope[8], mean, inverse, along = 0, means = 0;
  miras__fast_stats(&a, x, at.lane, at.in, &mean, &inverse);
  for (unsigned c = 8 * at.lane; at.in && c < a.n; c += 8 * a.lanes) {
    float w[8] = MIRAS__ONES;
    miras__get8(v, x + c), miras__get8(t, d + c);
    if (GATED) miras__get8(g, gate + c), miras__fast_f<8>(a.function, g, slope);
    else if (a.gain) miras__get8(w, a.gain + from + c);
    MIRAS__EIGHT {
      if (GATED && a.gain) w[e] = a.gain[from + c + e];
      v[e] = (v[e] - mean) * inverse;
      if (GATED) {                   /* g becomes its gradient                                    */
        slope[e] *= t[e] * (v[e] * w[e] + (a.bias ? a.bias[from + c + e] : 0));
        t[e] *= g[e], g[e] = slope[e];
      }
      t[e] *= w[e], means += t[e], along += t[e] * v[e];
    }
    if (GATED) miras__put8(a.dgate + (size_t)at.row * a.ld_dgate + at.h * a.n + c, g);
  }
  along = miras__lanes_sum(along, a.lanes) / (float)a.n;
  means = a.bias ? miras__lanes_sum(means, a.lanes) / (float)a.n : 0;
  if (at.in && !at.lane) a.stats[2 * at.item] = mean, a.stats[2 * at.item + 1] = inverse;
  for (unsigned c = 8 * at.lane; at.in && c < a.n; c += 8 * a.lanes) {
    float w[8] = MIRAS__ONES;
    miras__get8(v, x + c), miras__get8(t, d + c);
    if (GATED) miras__get8(g, gate + c), miras__fast_f<8>(a.function, g, slope);
    else if (a.gain) miras__get8(w, a.gain + from + c);
    if (GATED) MIRAS__EIGHT t[e] *= g[e] * (a.gain ? a.gain[from + c + e] : 1);
    MIRAS__EIGHT t[e] = inverse * (t[e] * w[e] - means - (v[e] - mean) * inverse * along);
    if (a.base) miras__get8(v, a.base + (size_t)at.row * a.ld_base + at.h * a.n + c);
    if (a.base) MIRAS__EIGHT t[e] += v[e];
    miras__put8(a.dx + (size_t)at.row * a.ld_dx + at.h * a.n + c, t);
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
  const unsigned strip = blockIdx.x / a.across, first = strip * MIRAS__FAST_STRIP;
  const unsigned col = blockIdx.x % a.across * 256 + threadIdx.x;
  const unsigned c = col - threadIdx.x + threadIdx.x % 32 * 8;
  for (unsigned set = 0; set < a.sets; set++) {
    float all[8] = {0, 0, 0, 0, 0, 0, 0, 0}, d[8], v[8];
    const unsigned back = a.what == MIRAS__SUM_CONV && set < a.taps ? a.taps - 1 - set : 0;
    for (unsigned r = threadIdx.x / 32; r < MIRAS__FAST_STRIP && c < a.cols; r += 8) {
      const unsigned row = first + r;
      if (row >= a.rows) break;
      if (back && row % a.length < back) continue;
      miras__get8(d, a.d + (size_t)row * a.ldd + c);
      if (a.gate) {
        float slope[8];
        miras__get8(v, a.gate + (size_t)row * a.ld_gate + c);
        miras__fast_f<8>(a.function, v, slope);
        MIRAS__EIGHT d[e] *= v[e];
      }
      if (a.what == MIRAS__SUM_GAIN && !set) {
        const float *const s = a.stats + 2 * ((size_t)row * a.heads + c / a.n);
        miras__get8(v, a.x + (size_t)row * a.ldx + c);
        MIRAS__EIGHT d[e] *= (v[e] - s[0]) * s[1];
      } else if (a.what == MIRAS__SUM_TIMES || (a.what == MIRAS__SUM_CONV && set < a.taps)) {
        miras__get8(v, a.x + (size_t)(row - back) * a.ldx + c);
        MIRAS__EIGHT d[e] *= v[e];
      }
      MIRAS__EIGHT all[e] += d[e];
    }
    __syncthreads();
    for (unsigned e = 0; e < 8; e++) room[threadIdx.x * 8 + e] = all[e];
    __syncthreads();
    if (col < a.cols) {
      float sum = 0;
      for (unsigned r = 0; r < 8; r++) sum += room[r * 256 + threadIdx.x];
      a.to[((size_t)strip * a.sets + set) * a.cols + col] = sum;
    }
  }
}

/* to[i] += of all strips, in order, and of `folds` columns each: those first + i step + k apart. */
typedef struct miras__fast_strips {
  float *to;
  const float *from;
  unsigned n, strips, stride, first, step, folds, apart;
} miras__fast_strips;
MIRAS__FAST_GRID(256, 4) miras__run_fast_fold(const __grid_constant__ miras__fast_strips a) {
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
  MIRAS__MAP_SKIP,                   /* y = x + w u, w of columns or (per > 0) of `per` of them   */
  MIRAS__MAP_SHIFT,                  /* y = the row before in its text of `per` tokens, less x    */
  MIRAS__MAP_SHIFT_BACK,             /* y = x - u + u of the row behind                           */
  MIRAS__MAP_MIX_BACK                /* y = x, z = x w                                            */
};
typedef struct miras__fast_map {
  const bf16 *x, *u, *d;
  bf16 *y, *z;
  const float *w;
  float scale;
  unsigned ldx, ldu, ldd, ldy, ldz, per, eights;
  size_t items, apart;
  const unsigned char *tails;        /* of sessions: rows before, `apart` bytes apart             */
  int what, function, adds, adds_z;
} miras__fast_map;
MIRAS__FAST_GRID(256, 4) miras__run_fast_map(const __grid_constant__ miras__fast_map a) {
  MIRAS__EIGHT_OF(a.eights);
  float x[8], u[8], d[8], z[8];
  if (item >= a.items) return;
  if (a.x) miras__get8(x, a.x + row * a.ldx + c);
  if (a.u) miras__get8(u, a.u + row * a.ldu + c);
  if (a.d) miras__get8(d, a.d + row * a.ldd + c);
  switch (a.what) {
    case MIRAS__MAP_COPY: MIRAS__EIGHT x[e] *= a.scale; break;
    case MIRAS__MAP_ADD: MIRAS__EIGHT x[e] += a.scale * u[e]; break;
    case MIRAS__MAP_TIMES: MIRAS__EIGHT x[e] *= u[e]; break;
    case MIRAS__MAP_TIMES_BACK: MIRAS__EIGHT z[e] = d[e] * x[e], x[e] = d[e] * u[e]; break;
    case MIRAS__MAP_GATE: case MIRAS__MAP_GATE_BACK:
      miras__fast_f<8>(a.function, u, z);
      MIRAS__EIGHT {
        if (a.d) z[e] *= d[e] * x[e], x[e] = d[e] * u[e];
        else x[e] *= u[e];
      }
      break;
    case MIRAS__MAP_F: case MIRAS__MAP_F_BACK:
      miras__fast_f<8>(a.function, x, z);
      MIRAS__EIGHT if (a.d) x[e] = d[e] * z[e];
      break;
    case MIRAS__MAP_SQUASH_BACK:
      MIRAS__EIGHT x[e] = d[e] * (a.function == MIRAS__TANH ? 1 - x[e] * x[e] : x[e] * (1 - x[e]));
      break;
    case MIRAS__MAP_SKIP: MIRAS__EIGHT x[e] += a.w[a.per ? (c + e) / a.per : c + e] * u[e]; break;
    case MIRAS__MAP_SHIFT:
      MIRAS__EIGHT u[e] = 0;
      if (a.tails) miras__get8(u, (const bf16 *)(const void *)(a.tails + row * a.apart) + c);
      else if (row % a.per) miras__get8(u, a.x + (row - 1) * a.ldx + c);
      MIRAS__EIGHT x[e] = u[e] - x[e];
      break;
    case MIRAS__MAP_SHIFT_BACK:
      MIRAS__EIGHT x[e] -= u[e], z[e] = 0;
      if ((row + 1) % a.per) miras__get8(z, a.u + (row + 1) * a.ldu + c);
      MIRAS__EIGHT x[e] += z[e];
      break;
    case MIRAS__MAP_MIX_BACK: MIRAS__EIGHT z[e] = x[e] * a.w[c + e]; break;
    default: break;
  }
  miras__put_or_add8(a.y + row * a.ldy + c, x, a.adds);
  if (a.z) miras__put_or_add8(a.z + row * a.ldz + c, z, a.adds_z);
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
  const unsigned char *tails;        /* NULL, or [B] taps - 1 rows before the one of each text    */
  float *inverse, length, scale;
  unsigned ldx, ldy, ldd, items, heads, group, n, lanes, taps, tokens, ld_tail;
  size_t apart;                      /* bytes between tails                                       */
  int function, adds;
} miras__fast_conv;

__device__ static inline void miras__fast_conv_sum(const miras__fast_conv *a, unsigned row,
                                                   unsigned c, float sum[8]) {
  const unsigned cols = a->heads * a->n, t = row % a->tokens;
  const unsigned first = a->tails || t + 1 >= a->taps ? 0 : a->taps - 1 - t;
  const bf16 *const x = a->x + (size_t)row * a->ldx + c;
  const bf16 *p = a->tails ? (const bf16 *)(const void *)(a->tails + row * a->apart) + c
                           : x - (size_t)(a->taps - 1 - first) * a->ldx;
  const float *by = a->w + (size_t)first * cols + c;
  float v[8], w[8];
  if (!a->taps) {
    miras__get8(sum, x);
    return;
  }
  MIRAS__EIGHT sum[e] = 0;
  if (a->bias) miras__get8(sum, a->bias + c);
  MIRAS__EACH_OF for (unsigned j = first; j < a->taps; j++, by += cols) {
    miras__get8(v, j + 1 < a->taps ? p : x), miras__get8(w, by);
    p += a->tails ? a->ld_tail : a->ldx;
    MIRAS__EIGHT sum[e] += w[e] * v[e];
  }
}
MIRAS__FAST_GRID(256, 4) miras__run_fast_conv(const __grid_constant__ miras__fast_conv a) {
  const miras__fast_item at = miras__fast_item_of(a);
  const unsigned row = at.row, lane = at.lane, c = at.h * a.n + 8 * lane;
  const int in = at.in && 8 * lane < a.n;
  float v[8], slope[8], all = 0, by = a.scale;
  if (in) miras__fast_conv_sum(&a, row, c, v), miras__fast_f<8>(a.function, v, slope);
  if (in) MIRAS__EIGHT all += a.length > 0 ? v[e] * v[e] : fabsf(v[e]);
  if (a.length != 0) all = miras__lanes_sum(all, a.lanes);
  if (a.length > 0) by = a.length / sqrtf(all + MIRAS__UNIT_EPS);
  if (a.length < 0) by = -a.length / (all > MIRAS__UNIT_EPS ? all : MIRAS__UNIT_EPS);
  if (!in) return;
  MIRAS__EIGHT v[e] *= by;
  miras__put8(a.y + (size_t)row * a.ldy + c, v);
  if (a.inverse && !lane) a.inverse[at.item] = by;
}

/* dz in the place of y, or added to it. With a length y of the forward pass is x with taps 0: the
 * two steps of the way back are two calls. */
MIRAS__FAST_GRID(256, 4) miras__run_fast_conv_back(const __grid_constant__ miras__fast_conv a) {
  const miras__fast_item at = miras__fast_item_of(a);
  const unsigned row = at.row, h = at.h, lane = at.lane, c = h * a.n + 8 * lane;
  const int in = at.in && 8 * lane < a.n;
  float d[8], v[8], slope[8];
  MIRAS__EIGHT d[e] = v[e] = 0;
  MIRAS__EACH_OF for (unsigned j = 0; in && j < a.group; j++) {
    miras__get8(v, a.d + (size_t)row * a.ldd + (h * a.group + j) * a.n + 8 * lane);
    MIRAS__EIGHT d[e] += v[e];
  }
  if (a.inverse) {                   /* x is what has the length                                  */
    const float by = in ? a.inverse[at.item] : 0, most = -a.length / MIRAS__UNIT_EPS;
    float all = 0;
    if (in) miras__get8(v, a.x + (size_t)row * a.ldx + c);
    MIRAS__EIGHT all += d[e] * v[e];
    all = miras__lanes_sum(all, a.lanes) / (a.length > 0 ? a.length * a.length : -a.length);
    if (a.length < 0 && by >= most) all = 0;
    MIRAS__EIGHT d[e] = by * (d[e] - all * (a.length > 0 ? v[e] : copysignf(1, v[e])));
  } else {
    MIRAS__EIGHT slope[e] = 1;
    if (in && a.x) miras__fast_conv_sum(&a, row, c, v), miras__fast_f<8>(a.function, v, slope);
    MIRAS__EIGHT d[e] *= slope[e] * a.scale;
  }
  if (!in) return;
  miras__put_or_add8(a.y + (size_t)row * a.ldy + c, d, a.adds);
}

/* dx = or += the sum over taps of dz of the rows behind, eight columns a thread. */
MIRAS__FAST_GRID(256, 4) miras__run_fast_conv_turned(const __grid_constant__ miras__fast_conv a) {
  const unsigned cols = a.heads * a.n, eights = cols / 8;
  MIRAS__EIGHT_OF(eights);
  const unsigned t = (unsigned)(row % a.tokens);
  float all[8] = {0, 0, 0, 0, 0, 0, 0, 0}, v[8], w[8];
  if (item >= (size_t)a.items * eights) return;
  for (unsigned j = 0; j < a.taps && t + j < a.tokens; j++) {
    miras__get8(v, a.d + (row + j) * a.ldd + c);
    miras__get8(w, a.w + (size_t)(a.taps - 1 - j) * cols + c);
    MIRAS__EIGHT all[e] += w[e] * v[e];
  }
  miras__put_or_add8(a.y + row * a.ldy + c, all, a.adds);
}

/* Gates (room @29's forms) of decays and steps: y [rows, outs] of g [rows, ld], floats; `moving`
 * of g's columns come from the token, the others are zeros. */
typedef struct miras__fast_group {
  unsigned first, from, count, offset;
  int form, learns;
  float cap, low, high;
} miras__fast_group;
typedef struct miras__fast_gates {
  miras__fast_group of[MIRAS__MIX + 1];
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
    case MIRAS__GATE_ROOT: case MIRAS__GATE_ROOT8:
      e = f->form == MIRAS__GATE_ROOT ? 0.0625f : 0.125f;
      y = f->cap * expf(-e * miras__softened(-g));
      *by_g = y * (1 - s) * e;
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
    case MIRAS__GATE_EXP:
      e = expf(g < 80 ? g : 80), y = f->cap * expf(-e), *by_g = -y * e;
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
__device__ static inline float miras__fast_gate_at(const miras__fast_gates *a, unsigned group,
                                                   size_t row, unsigned j) {
  const miras__fast_group *const f = &a->of[group];
  float by_g, by_c;
  int held;
  return miras__fast_gate(f, miras__fast_number(a, f, row, j, &held), miras__fast_factor(a, f, j),
                          &by_g, &by_c);
}
MIRAS__FAST_GRID(256, 4) miras__run_fast_gates(const __grid_constant__ miras__fast_gates a) {
  const size_t item = (size_t)blockIdx.x * MIRAS__FAST_THREADS + threadIdx.x;
  const size_t row = item / a.outs;
  const unsigned col = (unsigned)(item % a.outs);
  if (row >= a.rows) return;
  for (unsigned i = 0; i <= MIRAS__MIX; i++) {
    const unsigned j = col - a.of[i].first;
    if (col >= a.of[i].first && j < a.of[i].count)
      a.y[row * a.ldy + col] = miras__fast_gate_at(&a, i, row, j);
  }
}
/* The gradient of a row's column of g; sum_c += that of a learned factor. */
__device__ static inline float miras__fast_dg(const miras__fast_gates *a, size_t row, unsigned col,
                                              float *sum_c) {
  float dg = 0, by_g, by_c, d, g;
  int held;
  for (unsigned i = 0; i <= MIRAS__MIX; i++) {
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
  for (unsigned i = 0; i <= MIRAS__MIX; i++)
    for (unsigned e = 0; e < 2; e++) {
      const miras__fast_group *const f = &a.of[i];
      const unsigned j = col + e - f->from;
      float *const to = a.to + (size_t)strip * (a.gates + a.rates);
      if (f->first != f->from || col + e < f->from || j >= f->count) continue;
      to[f->offset + j] = sum[e];
      if (f->learns) to[a.gates + j] = sum_c[e];
    }
}

/* A group of lanes has a row of a head of n columns, rows ld apart, those of gates c ldc, of values
 * x ldx. TAKEN: y = 1 - c, and back dc -= d. Of RWKV-7 (room @29's erase_fwd, room @77):
 *   KEYS    f = x a / |x a|: y = x (1 + (c - 1) b), z = -f, o = f c;  back, d, r, u of y, z, o:
 *           y = dx, dc, and z, o = what rows give a and b
 *   BONUS   y += v sum x u a;  back, of d: z += d sum x u a, y += t u a, o += t x a, with t = sum
 *           d v, and r = t x u, what rows give a
 *   VALUES  gives: first = x;  z: z = first - x, x += z c;  back, of x and of first, with them */
enum { MIRAS__OF_TAKEN, MIRAS__OF_KEYS, MIRAS__OF_BONUS, MIRAS__OF_VALUES };
typedef struct miras__fast_head {
  bf16 *x, *u, *v, *d, *r, *y, *z, *o;
  const float *a, *b, *c;
  float *dc, *first;
  unsigned ld, ldx, ldc, items, heads, n, lanes;
  int what, back, gives;
} miras__fast_head;
MIRAS__FAST_GRID(256, 4) miras__run_fast_head(const __grid_constant__ miras__fast_head a) {
  const miras__fast_item of = miras__fast_item_of(a);
  const int in = of.in && 8 * of.lane < a.n, keys = a.what == MIRAS__OF_KEYS;
  const unsigned c = of.h * a.n + 8 * of.lane;
  const size_t row = of.row, at = row * a.ld + c, gate = row * a.ldc + c;
  float all = 0, along = 0;
  unsigned e;
  for (e = 0; in && a.what == MIRAS__OF_VALUES && e < 8; e++) {
    bf16 *const to = a.x + row * a.ldx + c + e, *const z = a.z ? a.z + at + e : NULL;
    float *const first = a.first + at + e;
    const float x = miras__wide(*to), by = a.z ? a.c[gate + e] : 0;
    if (!a.back) {
      if (a.gives) *first = x;
      if (z) *z = miras__near(*first - x), *to = miras__near(x + (*first - x) * by);
    } else {
      if (z) a.dc[gate + e] = x * miras__wide(*z);
      *to = miras__near(a.gives ? x + *first : x - x * by);
      *first = a.gives ? 0 : *first + x * by;
    }
  }
  for (e = 0; in && a.what == MIRAS__OF_TAKEN && e < 8; e++)
    if (a.back) a.dc[gate + e] -= miras__wide(a.d[at + e]);
    else a.y[at + e] = miras__near(1 - a.c[gate + e]);
  if (a.what == MIRAS__OF_VALUES || a.what == MIRAS__OF_TAKEN) return;
  for (e = 0; in && e < 8; e++) {
    const float x = miras__wide(a.x[at + e]) * a.a[c + e];
    all += x * (keys ? x : miras__wide(a.u[at + e]));
    if (a.back && keys)
      along += x * (miras__wide(a.u[at + e]) * a.c[gate + e] - miras__wide(a.r[at + e]));
    else if (a.back) along += miras__wide(a.d[at + e]) * miras__wide(a.v[at + e]);
  }
  all = miras__lanes_sum(all, a.lanes), along = miras__lanes_sum(along, a.lanes);
  if (keys) all = 1 / sqrtf(all + MIRAS__UNIT_EPS), along *= all;
  for (e = 0; in && e < 8; e++) {
    const size_t l = at + e;
    const float x = miras__wide(a.x[l]), by = a.a[c + e];
    const float u = a.u ? miras__wide(a.u[l]) : 0, d = a.d ? miras__wide(a.d[l]) : 0;
    if (keys) {
      const float f = x * by * all, g = a.c[gate + e], b = a.b[c + e], key = 1 + (g - 1) * b;
      const float df = a.back ? all * (u * g - miras__wide(a.r[l]) - along * f) : 0;
      if (a.back) a.dc[gate + e] = d * x * b + u * f;
      a.y[l] = miras__near(a.back ? d * key + df * by : x * key);
      a.z[l] = miras__near(a.back ? df * x : -f);
      a.o[l] = miras__near(a.back ? d * x * (g - 1) : f * g);
    } else if (!a.back) {
      a.y[l] = miras__near(miras__wide(a.y[l]) + all * miras__wide(a.v[l]));
    } else {
      a.z[l] = miras__near(miras__wide(a.z[l]) + all * d);
      a.y[l] = miras__near(miras__wide(a.y[l]) + along * u * by);
      a.o[l] = miras__near(miras__wide(a.o[l]) + along * x * by);
      a.r[l] = miras__near(along * x * u);
    }
  }
}

/* Angles of positions: cosines, then sines [tokens, turn]; and y = or += x, rows of heads turned by
 * them: halves together (way 1) or neighbours (2), or back. x may be y. Eight columns a thread, or
 * two times eight. */
enum { MIRAS__FAST_PAIRS = 64 };
typedef struct miras__fast_rope {
  float *angles, factor;             /* of cosines and sines                                      */
  const bf16 *x;
  bf16 *y;
  const unsigned char *texts;        /* NULL, or states of texts, a row each                      */
  double by[MIRAS__FAST_PAIRS];      /* what a position turns each pair by                        */
  unsigned tokens, turn, period, ldx, ldy, heads, n, way;
  size_t items, apart;
  int back, adds;
} miras__fast_rope;
MIRAS__FAST_GRID(256, 1) miras__run_fast_angles(const __grid_constant__ miras__fast_rope a) {
  const size_t item = (size_t)blockIdx.x * MIRAS__FAST_THREADS + threadIdx.x;
  const unsigned half = a.turn / 2;
  const unsigned t = (unsigned)(item / half), i = (unsigned)(item % half);
  double turns;                      /* what is left of whole ones is exact enough for a float    */
  uint64_t at = t;
  if (item >= a.items) return;
  if (a.texts) at = *(const uint64_t *)(const void *)(a.texts + t * a.apart);
  turns = (double)(a.period ? at % a.period : at) * 0.15915494309189535 * a.by[i];
  turns -= rint(turns);
  a.angles[(size_t)t * a.turn + i] = a.factor * cospif((float)(2 * turns));
  a.angles[(size_t)t * a.turn + half + i] = a.factor * sinpif((float)(2 * turns));
}
MIRAS__FAST_GRID(256, 4) miras__run_fast_turn(const __grid_constant__ miras__fast_rope a) {
  const size_t item = (size_t)blockIdx.x * MIRAS__FAST_THREADS + threadIdx.x;
  const unsigned half = a.turn / 2, eights = a.n / 8, c = (unsigned)(item % eights) * 8;
  const size_t at = item / eights, row = at / a.heads;
  const float *const angles = a.angles + row % a.tokens * a.turn + (a.way == 1 ? c : c / 2);
  const float sign = a.back ? -1.0f : 1.0f;
  const bf16 *const x = a.x + row * a.ldx + at % a.heads * a.n + c;
  bf16 *const y = a.y + row * a.ldy + at % a.heads * a.n + c;
  float u[8], v[8];
  if (item >= a.items || (c < a.turn ? a.way == 1 && c >= half : x == y)) return;
  miras__get8(u, x);
  if (c < a.turn && a.way == 1) {
    miras__get8(v, x + half);
    MIRAS__EIGHT {
      const float cs = angles[e], sn = sign * angles[half + e], p = u[e], q = v[e];
      u[e] = p * cs - q * sn, v[e] = q * cs + p * sn;
    }
    miras__put_or_add8(y + half, v, a.adds);
  }
  for (unsigned e = 0; c < a.turn && a.way == 2 && e < 8; e += 2) {
    const float cs = angles[e / 2], sn = sign * angles[half + e / 2], p = u[e], q = u[e + 1];
    u[e] = p * cs - q * sn, u[e + 1] = q * cs + p * sn;
  }
  miras__put_or_add8(y, u, a.adds);
}

/* Dropout as the host's masks have it (@29's dropout): y = base + mask x, base NULL: zero. */
typedef struct miras__fast_now {     /* what steps leave                                          */
  uint64_t steps;
  float norm, loss, unit, c[8];
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
MIRAS__FAST_GRID(256, 4) miras__run_fast_drop(const __grid_constant__ miras__fast_drop a) {
  MIRAS__EIGHT_OF(a.eights);
  uint64_t key;
  float x[8], u[8];
  if (item >= a.items) return;
  key = miras__hash(miras__hash(a.seed + a.now->steps) + a.call);
  key = miras__hash(miras__hash(key + a.site) + row);
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

/* Factors B of whole numbers: tiles of 16 columns by 32 of the depth, which share a scale in each
 * column, as lanes of a warp hold them for two products of matrix units: lane 4 r + g has 16 bytes,
 * four each of columns r, r + 8, r, r + 8, of depths 8 g + 0, 2, 1, 3 and 8 g + 4, 6, 5, 7. Tiles
 * of the depth follow each other; behind all tiles are scales, of columns r and r + 8 side by
 * side. */
enum { MIRAS__TILE_BYTES = 512, MIRAS__TILE_SCALES = 64 };

/* Bytes 0 and 2 as bfloat16. With the sign's bit apart, a number is (128 + its lower seven bits) -
 * (128 or, where it is negative, 256), which is exact. */
__device__ static inline unsigned miras__widened(unsigned from) {
  unsigned both = from;
  MIRAS__FROM_80(const unsigned low = (from & 0x007f007fu) | 0x43004300u;
                 const unsigned less = (from & 0x00800080u) | 0xc300c300u;
                 both = miras__halves(miras__of_low(low) + miras__of_low(less),
                                      miras__of_high(low) + miras__of_high(less));,
                 asm("{.reg .b32 low, less;\n lop3.b32 low, %1, %2, %3, 0xea;\n"
                     " lop3.b32 less, %1, %4, %5, 0xea;\n fma.rn.bf16x2 %0, low, %6, less;}"
                     : "=r"(both) : "r"(from), "r"(0x007f007fu), "r"(0x43004300u),
                     "r"(0x00800080u), "r"(0xc300c300u), "r"(0x3f803f80u));)
  return both;
}
/* 16 columns by 16 of the depth, of two words. */
__device__ static inline void miras__widened4(unsigned to[4], unsigned one, unsigned two) {
  to[0] = miras__widened(one), to[1] = miras__widened(two);
  to[2] = miras__widened(one >> 8), to[3] = miras__widened(two >> 8);
}

/* The embedding: rows of floats by tokens; and its gradient, each word's rows in their order. next
 * [rows] is the next row with the same token, or rows, later [rows] whether there is one before. */
typedef struct miras__fast_embed {
  const float *table;                /* or rows of bfloat16, ld apart, or tiles with their scales */
  const bf16 *halves;
  const float *scales;
  const int32_t *tokens;
  bf16 *x;
  const bf16 *d;
  float *to;
  unsigned *next, *later;
  unsigned rows, width, ld, apart;   /* apart: of tokens                                          */
} miras__fast_embed;
MIRAS__FAST_GRID(256, 4) miras__run_fast_embed(const __grid_constant__ miras__fast_embed a) {
  MIRAS__EIGHT_OF(a.width / 8);
  float x[8];
  unsigned word;
  if (row >= a.rows) return;
  word = (unsigned)a.tokens[row * a.apart];
  if (a.scales) {
    const size_t tile = (size_t)(word / 16) * ((a.width + 31) / 32) + c / 32;
    const unsigned *const p = (const unsigned *)(const void *)a.halves + tile * 128 +
                              (word % 8 * 4 + c % 32 / 8) * 4 + word % 16 / 8;
    const float by = a.scales[tile * 16 + word % 8 * 2 + word % 16 / 8];
    for (unsigned e = 0; e < 4; e++) {
      const unsigned two = miras__widened(e & 1 ? p[e & 2] >> 8 : p[e & 2]);
      x[2 * e] = by * miras__of_low(two), x[2 * e + 1] = by * miras__of_high(two);
    }
  } else if (a.halves) miras__get8(x, a.halves + (size_t)word * a.ld + c);
  else miras__get8(x, a.table + (size_t)word * a.width + c);
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
    for (unsigned row = first; row < a.rows; row = a.next[row]) {
      miras__get8(d, a.d + (size_t)row * a.ld + c);
      MIRAS__EIGHT all[e] += d[e];
    }
    MIRAS__EIGHT to[e] += all[e];
  }
}

/* Cross entropy of rows of logits, which become their gradient where `train` asks for it; losses
 * [rows] times the row's weight. Before: how much of a gradient a row has, 1 / the weights' sum;
 * behind (mean): their mean. One block each for the latter two. */
typedef struct miras__fast_loss {
  bf16 *x;
  const int32_t *targets;
  const float *weights;
  float *losses, *told;
  miras__fast_now *now;
  float weight;
  unsigned ld, rows, n;
  int train, mean;
} miras__fast_loss;
MIRAS__FAST_GRID(256, 1) miras__run_fast_total(const __grid_constant__ miras__fast_loss a) {
  float *const room = (float *)(void *)miras__fast_room;
  float all = 0;
  for (unsigned row = threadIdx.x; row < a.rows; row += MIRAS__FAST_THREADS)
    if (a.mean) all += a.losses[row];
    else if (a.targets[row] >= 0) all += a.weights ? a.weights[row] : 1;
  all = miras__block_all<0>(all, room);
  if (threadIdx.x) return;
  if (!a.mean) a.now->unit = all > 0 ? a.weight / all : 0;
  else a.now->loss = all * a.now->unit;
  if (a.mean && a.told) *a.told = a.now->loss;
}
MIRAS__FAST_GRID(256, 4) miras__run_fast_loss(const __grid_constant__ miras__fast_loss a) {
  float *const room = (float *)(void *)miras__fast_room;
  const unsigned row = blockIdx.x;
  bf16 *const x = a.x + (size_t)row * a.ld;
  const int target = a.targets[row];
  const float weight = a.weights ? a.weights[row] : 1, scale = a.now->unit * weight;
  const float at = target >= 0 ? miras__wide(x[target]) : 0;
  float v[8], top = -3.0e38f, total = 0;
  if (target < 0 || !(scale > 0)) {
    MIRAS__EIGHT v[e] = 0;
    for (unsigned c = 8 * threadIdx.x; a.train && c < a.ld; c += 8 * MIRAS__FAST_THREADS)
      miras__put8(x + c, v);
    if (!threadIdx.x) a.losses[row] = 0;
    return;
  }
  for (unsigned c = 8 * threadIdx.x; c < a.n; c += 8 * MIRAS__FAST_THREADS) {
    miras__get8(v, x + c);
    for (unsigned e = 0; e < 8 && c + e < a.n; e++) top = fmaxf(top, v[e]);
  }
  top = miras__block_all<1>(top, room);
  for (unsigned c = 8 * threadIdx.x; c < a.n; c += 8 * MIRAS__FAST_THREADS) {
    miras__get8(v, x + c);
    for (unsigned e = 0; e < 8 && c + e < a.n; e++) total += miras__left(v[e] - top);
  }
  total = miras__block_all<0>(total, room);
  if (!threadIdx.x) a.losses[row] = (logf(total) + top - at) * weight;
  total = scale / total;
  for (unsigned c = 8 * threadIdx.x; a.train && c < a.n; c += 8 * MIRAS__FAST_THREADS) {
    miras__get8(v, x + c);
    MIRAS__EIGHT
      v[e] = (c + e < a.n ? miras__left(v[e] - top) * total : 0) -
             (c + e == (unsigned)target ? scale : 0);
    miras__put8(x + c, v);
  }
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
  all = miras__block_all<0>(all, room);
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
    const size_t at = t->at + i;
    float w[4], m[4], v[4], g[4];
    miras__get4(w, a.w + at);
    if (steps) {
      miras__get4(m, a.m + at), miras__get4(v, a.v + at), miras__get4(g, a.g + at);
      MIRAS__ALL_OF for (unsigned e = 0; e < 4; e++) {
        const float d = g[e] * now->c[4];
        m[e] = now->c[0] * m[e] + now->c[1] * d;
        v[e] = now->c[2] * v[e] + now->c[3] * d * d;
        w[e] = keep * w[e] - rate * m[e] / (sqrtf(v[e]) * now->c[6] + now->c[7]);
      }
      miras__put4(a.m + at, m[0], m[1], m[2], m[3]), miras__put4(a.v + at, v[0], v[1], v[2], v[3]);
      miras__put4(a.w + at, w[0], w[1], w[2], w[3]);
    }
    if (!a.copies) miras__put4(a.g + at, 0, 0, 0, 0);
    for (unsigned e = 0; t->copy && e < 4 && i + e < t->count; e++)
      t->copy[t->ld == t->cols ? i + e : (i + e) / t->cols * t->ld + (i + e) % t->cols] =
        miras__near(w[e]);
  }
}

/* ---- X: a mixture of experts ----
 *
 * As room @76 of miras.h has it, of all rows at once. A row and one of its `paths` experts are a
 * pair; pairs lie by expert, and an expert's by row. ids and at [rows, paths]: a pair's expert, the
 * shared ones at last, and its place; list [pairs]: its row; starts [experts + 1]: where pairs of
 * an expert begin; tiles: {expert, first, its end}, 128 of them each, an expert's from starts / 128
 * + expert on, the last of which may have none. */
typedef struct miras__fast_pairs {
  unsigned *ids, *at, *list, *starts;
  uint4 *tiles;
  float *route;                      /* [rows, ld_route]: what the router says, then weights      */
  const bf16 *from;                  /* of pairs, [pairs, ld]; back, what acts give, [pairs, ldf] */
  bf16 *to, *act, *ab, *dab, *droute;
  unsigned rows, pairs, paths, experts, routed, routes, hidden, ld, ldf, ld_route, eights;
  int sums_to_one, weighs;
} miras__fast_pairs;

/* A warp chooses for a row: among equals, and what is no number, the first. */
MIRAS__FAST_GRID(256, 4) miras__run_fast_choose(const __grid_constant__ miras__fast_pairs a) {
  const unsigned row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
  const unsigned chosen = a.paths - (a.experts - a.routed);
  float *const p = a.route + (size_t)row * a.ld_route;
  unsigned *const ids = a.ids + (size_t)row * a.paths, taken = 0;
  float top = -3.0e38f, sum = 0, all = 0;
  if (row >= a.rows) return;
  for (unsigned e = lane; e < a.routed; e += 32) top = fmaxf(top, p[e]);
  for (unsigned k = 16; k; k /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, k));
  for (unsigned e = lane; e < a.routed; e += 32) p[e] = expf(p[e] - top), sum += p[e];
  sum = miras__lanes_sum(sum, 32);
  for (unsigned e = lane; e < a.routed; e += 32) p[e] /= sum;
  for (unsigned i = 0; i < chosen; i++) {
    float best = -1;
    unsigned at = a.routed;
    for (unsigned e = lane; e < a.routed; e += 32)
      if (!(taken >> e / 32 & 1) && (at == a.routed || p[e] > best)) best = p[e], at = e;
    for (unsigned k = 16; k; k /= 2) {
      const float other = __shfl_xor_sync(0xffffffffu, best, k);
      const unsigned from = __shfl_xor_sync(0xffffffffu, at, k);
      if (other > best || (!(best > other) && from < at)) best = other, at = from;
    }
    if (at % 32 == lane) taken |= 1u << at / 32;
    if (!lane) ids[i] = at;
    all += best;
  }
  for (unsigned e = lane; a.sums_to_one && e < a.routed; e += 32)
    p[e] = taken >> e / 32 & 1 ? p[e] / all : 0;
  if (lane < a.paths - chosen) ids[chosen + lane] = a.routed + lane;
  if (!lane && a.routes > a.routed) p[a.routed] = miras__logistic(p[a.routed]);
}

/* A block finds the pairs of an expert; a thread goes through a piece of them all. */
MIRAS__FAST_GRID(256, 4) miras__run_fast_sort(const __grid_constant__ miras__fast_pairs a) {
  unsigned *const room = (unsigned *)(void *)miras__fast_room;
  const unsigned e = blockIdx.x, t = threadIdx.x, each = (a.pairs + 255) / 256;
  const unsigned end = (t + 1) * each < a.pairs ? (t + 1) * each : a.pairs;
  unsigned before = 0, own = 0, start = 0, place = 0, last;
  for (unsigned i = t * each; i < end; i++) before += a.ids[i] < e, own += a.ids[i] == e;
  room[t] = own, room[256 + t] = before;
  __syncthreads();
  for (unsigned i = own = 0; i < 256; i++)
    start += room[256 + i], place += i < t ? room[i] : 0, own += room[i];
  place += start, last = start + own;
  for (unsigned i = t * each; i < end; i++)
    if (a.ids[i] == e) a.list[place] = i / a.paths, a.at[i] = place++;
  for (unsigned i = t; i <= last / 128 - start / 128; i += 256) {
    const uint4 tile = {e, start + 128 * i, last, 0};
    a.tiles[start / 128 + e + i] = tile;
  }
  if (!t) a.starts[e] = start;
  if (!t && e + 1 == a.experts) a.starts[a.experts] = last;
}

__device__ static inline float miras__fast_weight(const miras__fast_pairs *a, size_t row,
                                                  unsigned e) {
  return a->route[row * a->ld_route + (e < a->routed ? e : a->routed)];
}
/* Rows are the sums over their pairs, perhaps times weights. */
MIRAS__FAST_GRID(256, 4) miras__run_fast_gather(const __grid_constant__ miras__fast_pairs a) {
  MIRAS__EIGHT_OF(a.eights);
  float all[8] = {0, 0, 0, 0, 0, 0, 0, 0}, v[8];
  if (row >= a.rows) return;
  for (size_t i = row * a.paths; i < (row + 1) * a.paths; i++) {
    const float w = a.weighs ? miras__fast_weight(&a, row, a.ids[i]) : 1;
    miras__get8(v, a.from + (size_t)a.at[i] * a.ld + c);
    MIRAS__EIGHT all[e] += w * v[e];
  }
  miras__put8(a.to + row * a.ld + c, all);
}

/* From W_down' do of pairs, those of gate and up, and of a row of the router; acts become what they
 * were times their weights. A warp has a row. */
MIRAS__FAST_GRID(256, 4) miras__run_fast_pairs_back(const __grid_constant__ miras__fast_pairs a) {
  const size_t row = blockIdx.x * 8 + threadIdx.x / 32, first = row * a.paths;
  const unsigned lane = threadIdx.x % 32;
  float low = 0, high = 0, along = 0, shared = 0;      /* of the lane'th path, and of 32 on       */
  if (row >= a.rows) return;
  for (unsigned i = 0; i < a.paths; i++) {
    const size_t place = a.at[first + i];
    const unsigned id = a.ids[first + i];
    const float w = miras__fast_weight(&a, row, id);
    bf16 *const act = a.act + place * a.ldf, *const dab = a.dab + 2 * place * a.ldf;
    const bf16 *const ab = a.ab + 2 * place * a.ldf;
    float dw = 0, g[8], u[8], v[8], d[8], slope[8];
    for (unsigned c = 8 * lane; c < a.hidden; c += 256) {
      miras__get8(g, ab + c), miras__get8(u, ab + a.ldf + c);
      miras__get8(v, act + c), miras__get8(d, a.from + place * a.ldf + c);
      miras__fast_f<8>(MIRAS_FN_SILU, g, slope);
      MIRAS__EIGHT dw += d[e] * v[e], d[e] *= w, v[e] *= w;
      MIRAS__EIGHT slope[e] *= d[e] * u[e], g[e] *= d[e];
      miras__put8(act + c, v), miras__put8(dab + c, slope), miras__put8(dab + a.ldf + c, g);
    }
    dw = miras__lanes_sum(dw, 32);
    if (id < a.routed) along += w * dw;
    else shared += dw;
    if (i == lane) low = dw;
    if (i == lane + 32) high = dw;
  }
  for (unsigned e = 2 * lane; e - 2 * lane < a.routes; e += 64) {
    float z[2] = {-along, -along};
    for (unsigned i = 0; i < a.paths; i++) {
      const float dw = __shfl_sync(0xffffffffu, i < 32 ? low : high, i % 32, 32);
      const unsigned id = a.ids[first + i];
      if (id == e) z[0] += dw;
      if (id == e + 1) z[1] += dw;
    }
    MIRAS__ALL_OF for (unsigned j = 0; j < 2; j++) {
      const float w = e + j < a.routes ? a.route[row * a.ld_route + e + j] : 0;
      z[j] = e + j < a.routed ? w * z[j] : w * (1 - w) * shared;
    }
    if (e < a.routes) miras__put2(a.droute + row * a.ld_route + e, z[0], z[1]);
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
 * Where a head begins anew a chunk ends, and S is the initial one again.
 * With a decay of each channel of keys G_i and z_i are vectors [dk], and exponents are inside of
 * products: C1 leaves Q (.) exp G, K (.) exp z and K (.) exp(G_63 - G), with which C2 and C3 do the
 * same. Of squares, 16 rows i and 16 earlier ones j with last row e are products of matrix units,
 *   P_ij = (exp(G_i - G_e) (.) q_i) . (exp(G_e - G_j) (.) k_j)
 * and rows of the same 16 meet one by one, under products of their decays.
 * Where a memory erases apart from what it writes (RWKV-7: S <- diag(w) S + r (e . S) + k v, e
 * reads in front of the decay), a token has two rows: one without query and value that reads errors
 * at -e and is written at r, and behind it one with decay 1 that reads none, is written at k, and
 * is asked by q. So C1 and C4 have rows z that errors are read at beside those of K,
 *   N_ij = exp(z_i - G_j) z_i . k_j     W = V - diag(exp z) Z S     dk of N to k_j, of z to z_i
 * and C2 and C3, which have what is left of both anyway, are the same.
 * C1 makes G, b, M, P and N of all chunks side by side; C2 goes through a sequence's chunks with
 * columns of S in accumulators; C3 back through them with those of dS; C4 makes the gradients of
 * queries, keys and gates of all chunks side by side. With dU, and Z = M' dU:
 *   dU = P' dY + diag(exp(G_63 - G)) K dS         dV = diag(b) Z
 *   dS <- exp(G_63) dS + Q' diag(exp G) dY - K' diag(exp z) diag(b) Z
 *   dP = dY U'      d(diag(b) N) = -Z U'
 * Where heads are few and chunks many, segments of chunks go side by side. Each is linear in the
 * state S that it begins with: it ends with T S + E, and back it begins with T' dS + R. A first
 * grid finds E, by beginning with nothing, and the columns of T, by beginning with I where nothing
 * is written; without errors T is the decay. A second one walks from segment to segment, then C2
 * goes through all of them; C3 does the same from the text's end. Where segments begin does not
 * depend on what is behind them, nor on other texts. */
typedef struct miras__fast_chunks {
  const bf16 *q, *k, *v, *d;         /* [N, ld]; d: the gradient of y                             */
  const bf16 *apart;                 /* NULL, or where errors are read, ldk apart, of two rows a
                                        token: the decay is the first's, the step the second's    */
  bf16 *y, *dq, *dk, *dv, *dapart;
  const float *keep, *step;          /* [N, ld_keep] or [heads] (keep_gate 0) of decays, of their
                                        logarithms (logs), or NULL; [N, ld_step]                  */
  const float *init, *dlast;         /* [heads, key, value], or as dinit (texts); or NULL         */
  float *dkeep, *dstep;              /* as keep and step; NULL: they are constants                */
  float *last, *dinit;               /* [B, heads, key, value] or, turned, [.., value, key]; or
                                        NULL: states where texts end; gradients where they begin  */
  float *log, *rate;                 /* [B heads, 64 chunks]: G (of channels: [.., key]) and b    */
  bf16 *q_left, *k_left, *k_end;     /* of channels: [N, heads key], what is left of rows         */
  bf16 *m, *p, *n;                   /* [B heads chunks, 64, 64]                                  */
  bf16 *w, *u, *z;                   /* [N, heads value]: W, U, Z                                 */
  bf16 *s, *ds;                      /* [B heads chunks, key, value] states where chunks begin,
                                        gradients of those where they end                         */
  float one_step;                    /* of all heads, where step is NULL                          */
  unsigned ldq, ldk, ldv, ldd, ldy, ld_dq, ld_dk, ld_dv, ld_keep, ld_step, ldw;
  float *ends, *begins;              /* [B heads segments, key, value key] E and T; [.., value] R */
  unsigned batch, heads, group, tokens, chunks, value;
  unsigned segment, segments;        /* chunks of a segment; of all, 1: there are none            */
  int finds, back;                   /* 1: E and T, or R, are found; the walk is one back         */
  unsigned every, grid;              /* 0, or reset_every; heads take turns on the grid           */
  int after, delta, channels, keep_gate, logs, texts, turned;
} miras__fast_chunks;

/* [ROWS, WIDTH] of memory on their way to shared memory, WIDTH + 8 apart: ALL, or the first `rows`
 * of a chunk, and zeros behind them. */
template <int WIDTH, int ROWS = 64, int ALL = 0>
__device__ static inline void miras__rows_bring(bf16 *to, const bf16 *from, unsigned ld,
                                                unsigned rows = ROWS) {
  enum { ACROSS = WIDTH / 8, STEP = 128 / ACROSS };
  unsigned r = threadIdx.x / ACROSS;
  to += r * (WIDTH + 8) + threadIdx.x % ACROSS * 8;
  from += (size_t)r * ld + threadIdx.x % ACROSS * 8;
  MIRAS__ALL_OF for (int n = 0; n < ROWS / STEP; n++) {
    if (ALL) miras__bring16(to, from);
    else miras__bring16_of(to, from, r < rows);
    r += STEP, to += STEP * (WIDTH + 8), from += (size_t)STEP * ld;
  }
}

/* Where a block's chunk lies: its sequence and head i of all, and chunk c of them. */
typedef struct miras__fast_place {
  unsigned b, h, rows;               /* rows of the text in it, 0 where others have more chunks   */
  size_t row, square;                /* its first, and how many chunks are before it              */
  int anew;                          /* its head begins anew here                                 */
} miras__fast_place;
/* Tokens before a head begins anew for the first time. */
static MIRAS__BOTH unsigned miras__fast_first(unsigned h, unsigned heads, unsigned every,
                                              unsigned grid) {
  return every - (unsigned)((uint64_t)h * every / heads) / grid * grid;
}
__device__ static inline miras__fast_place miras__fast_at(const miras__fast_chunks *a, unsigned i,
                                                          unsigned c) {
  miras__fast_place at;
  unsigned start = c * 64, end = a->tokens;
  at.b = i / a->heads, at.h = i % a->heads, at.anew = 0;
  if (a->every) {
    const unsigned first = miras__fast_first(at.h, a->heads, a->every, a->grid);
    const unsigned before = (first + 63) / 64, each = (a->every + 63) / 64;
    unsigned to = first;
    if (c >= before) {
      start = first + (c - before) / each * a->every + (c - before) % each * 64;
      to = first + ((c - before) / each + 1) * a->every;
      at.anew = (c - before) % each == 0 && start < end;
    }
    if (to < end) end = to;
    if (start > end) start = end;
  }
  at.rows = end - start < 64 ? end - start : 64;
  at.row = (size_t)at.b * a->tokens + start;
  at.square = (size_t)i * a->chunks + c;
  return at;
}

/* M of a chunk is the inverse X of I + A, both [64, 65] floats, A below the diagonal; what X has
 * above it is used up. Squares of 16 by substitution, then of each two the one below:
 * -X22 A21 X11. */
__device__ static inline void miras__fast_inverse(bf16 *m, float *x, const float *a) {
  const unsigned t = threadIdx.x;
  __syncthreads();
  if (t < 64) {
    const unsigned base = t / 16 * 16, c = t;
    for (unsigned i = base; i < base + 16; i++) {
      float sum = i == c ? 1.0f : 0.0f;
      for (unsigned j = c; j < i; j++) sum -= a[i * 65 + j] * x[j * 65 + c];
      x[i * 65 + c] = i < c ? 0 : sum;
    }
  }
  for (unsigned side = 16; side < 64; side *= 2)
    MIRAS__EACH_OF for (unsigned part = 0; part < 2; part++) { /* first A21 X11, right of X11     */
      __syncthreads();
      for (unsigned e = t; e < 32 * side; e += 128) {
        const unsigned pair = e / (side * side) * 2 * side, i = e / side % side, j = e % side;
        const float *const u = (part ? x + side : a) + (pair + side + i) * 65 + pair;
        const float *const v = x + pair * 65 + pair + j + part * side;
        float sum = 0;
        for (unsigned k = part ? 0 : j; k < (part ? i + 1 : side); k++) sum += u[k] * v[k * 65];
        x[(pair + i + part * side) * 65 + pair + j + !part * side] = part ? -sum : sum;
      }
    }
  __syncthreads();
  for (unsigned i = t; i < 512; i += 128) {
    const unsigned r = i / 8, j = i % 8 * 8;
    float u[8];
    MIRAS__EIGHT u[e] = j + e <= r ? x[r * 65 + j + e] : 0;
    miras__put8(m + r * 64 + j, u);
  }
}
/* The logarithm of a decay of a row, number h of it. */
__device__ static inline float miras__fast_log(const miras__fast_chunks *a, size_t row,
                                               unsigned h) {
  if (a->apart && (row & 1)) return 0;
  if (a->apart) row /= 2;
  const float y = !a->keep ? (a->logs ? 0.0f : 1.0f)
                           : a->keep[a->keep_gate ? row * a->ld_keep + h : h];
  return a->logs ? fmaxf(y, -69.0f) : logf(y > 1e-30f ? y : 1e-30f);
}
__device__ static inline float miras__fast_step(const miras__fast_chunks *a, size_t row,
                                                unsigned h) {
  if (a->apart && !(row & 1)) return 1;
  return a->step ? a->step[row * a->ld_step + h] : a->one_step;
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
    one[t] = t < at.rows ? miras__fast_log(&a, at.row + t, at.h) : 0;
    rate[t] = t < at.rows ? miras__fast_step(&a, at.row + t, at.h) : 0;
  }
  __syncthreads();
  if (t < 64) {
    float all = 0;
    for (unsigned j = 0; j <= t; j++) all += one[j];
    g[t] = all;
    a.log[at.square * 64 + t] = all;
    a.rate[at.square * 64 + t] = rate[t];
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
          u[e] = j + e < r + (unsigned)square ? miras__left(z - g[j + e]) * sum[n][2 * h + e] : 0;
          if (!square) below[r * 65 + j + e] = rate[r] * u[e];
        }
        miras__put2((square ? a.p : a.n) + at.square * 4096 + r * 64 + j, u[0], u[1]);
      }
  }
  if (a.delta) miras__fast_inverse(a.m + at.square * 4096, x, below);
}

/* C1 of channels. B is K (.) exp(G_e - G), e the last of a row's 16. */
template <int DK> struct miras__fast_c1_channels {
  enum { LD = DK + 8, Q = 64 * LD, B = 2 * 64 * LD, G = 3 * 2 * 64 * LD, ONE = G + 4 * 64 * LD,
         BELOW = ONE + 4 * 64 * LD, RATE = BELOW + 4 * 64 * 65, BYTES = RATE + 4 * 64,
         APART = BYTES / 2 };
};
/* Eight channels of row r, from x on: what is left of it goes to B and to memory. */
template <int DK, int APART>
__device__ static inline void miras__fast_rows_left(const miras__fast_chunks *a,
                                                    const miras__fast_place *at, unsigned r,
                                                    unsigned x) {
  typedef miras__fast_c1_channels<DK> room;
  bf16 *const k = (bf16 *)(void *)miras__fast_room + r * room::LD + x;
  const float *const all = (const float *)(const void *)(miras__fast_room + room::G) + x;
  const float *const g = all + r * room::LD, *const z = a->after || !r ? g : g - room::LD;
  const float *const last = all + (r | 15) * room::LD, *const end = all + 63 * room::LD;
  const size_t to = ((at->row + r) * a->heads + at->h) * DK + x;
  float u[8], v[8];
  miras__get8(u, k);
  MIRAS__EIGHT v[e] = u[e] * miras__left(last[e] - g[e]);
  miras__put8(k + room::B, v);
  if (r >= at->rows) return;
  MIRAS__EIGHT v[e] = u[e] * miras__left(end[e] - g[e]);
  miras__put8(a->k_end + to, v);
  if (APART) miras__get8(u, k + room::APART);
  MIRAS__EIGHT v[e] = a->after || r ? u[e] * miras__left(z[e]) : u[e];
  if (a->delta) miras__put8(a->k_left + to, v);
  miras__get8(u, k + room::Q);
  MIRAS__EIGHT u[e] *= miras__left(g[e]);
  miras__put8(a->q_left + to, u);
}
/* c [16, 16] = products of rows of x from i on, as they are left from row j + 15 on, with those of
 * B from j on; g: G of the first row's, or of the one before. */
template <int DK>
__device__ static inline void miras__fast_meet(float (*c)[4], const bf16 *x, unsigned i,
                                               const float *g, const bf16 *b, unsigned j,
                                               const float *e) {
  typedef miras__fast_c1_channels<DK> room;
  const bf16 *pa = miras__left_at(x, room::LD, i, 0, 0);
  const bf16 *pb = miras__right_at(b, room::LD, 0, j, 1);
  const unsigned lane = threadIdx.x % 32;
  miras__clear<2>(c);
  for (unsigned k = 2 * (lane % 4); k < DK; k += 16, pa += 16, pb += 16) {
    unsigned u[4], v[4];
    miras__fast_load(u, pa, 0);
    miras__fast_load(v, pb, 0);
    MIRAS__ALL_OF for (unsigned f = 0; f < 4; f++) {
      const unsigned at = k + f / 2 * 8;
      const float *const left = g + (lane / 4 + f % 2 * 8) * room::LD + at;
      u[f] = miras__halves(miras__of_low(u[f]) * miras__left(left[0] - e[at]),
                           miras__of_high(u[f]) * miras__left(left[1] - e[at + 1]));
    }
    miras__fast_times(c[0], u, v[0], v[1]);
    miras__fast_times(c[1], u, v[2], v[3]);
  }
}
template <int DK, int APART>
MIRAS__FAST_GRID(128, 1) miras__run_fast_c1_channels(const __grid_constant__ miras__fast_chunks a) {
  typedef miras__fast_c1_channels<DK> room;
  bf16 *const k = (bf16 *)(void *)miras__fast_room, *const q = k + room::Q, *const b = k + room::B;
  bf16 *const reads = APART ? k + room::APART : k;
  float *const g = (float *)(void *)(miras__fast_room + room::G);
  float *const one = (float *)(void *)(miras__fast_room + room::ONE);
  float *const below = (float *)(void *)(miras__fast_room + room::BELOW);
  float *const rate = (float *)(void *)(miras__fast_room + room::RATE);
  const unsigned i = blockIdx.x / a.chunks, c = blockIdx.x % a.chunks, t = threadIdx.x;
  const unsigned warp = t / 32, lane = t % 32, first = 16 * warp, own = first + lane % 16;
  const miras__fast_place at = miras__fast_at(&a, i, c);
  float p[16], n[16];
  if (APART) miras__rows_bring<DK>(reads, a.apart + at.row * a.ldk + at.h * DK, a.ldk, at.rows);
  miras__rows_bring<DK>(k, a.k + at.row * a.ldk + at.h / a.group * DK, a.ldk, at.rows);
  miras__rows_bring<DK>(q, a.q + at.row * a.ldq + at.h / a.group * DK, a.ldq, at.rows);
  miras__bring_group();
  if (t < 64) {
    rate[t] = t < at.rows ? miras__fast_step(&a, at.row + t, at.h) : 0;
    a.rate[at.square * 64 + t] = rate[t];
  }
  for (unsigned x = t; x < DK; x += 128) {
    float all = 0;
    for (unsigned r = 0; r < 64; r++) {
      const float log = r < at.rows ? miras__fast_log(&a, at.row + r, at.h * DK + x) : 0;
      all += log;
      g[r * room::LD + x] = all, one[r * room::LD + x] = miras__left(log);
      a.log[(at.square * 64 + r) * DK + x] = all;
    }
  }
  miras__bring_wait<0>();
  __syncthreads();
  for (unsigned e = t; e < 8 * DK; e += 128)
    miras__fast_rows_left<DK, APART>(&a, &at, e / (DK / 8), e % (DK / 8) * 8);
  __syncthreads();
  for (unsigned j = 0; j < 64; j += 16)              /* a warp's rows, and 16 others             */
    for (int square = a.delta ? 0 : 1; square < 2 && j != first; square++) {
      const unsigned z = square || a.after ? first : first - 1;
      float sum[2][4];
      miras__clear<2>(sum);
      if (j < first)
        miras__fast_meet<DK>(sum, square ? q : reads, first, g + z * room::LD, b, j,
                             g + (j + 15) * room::LD);
      MIRAS__ALL_OF for (unsigned e = 0; e < 4; e++) {
        const unsigned r = first + lane / 4 + e / 2 * 8, l = j + e % 2 * 8 + 2 * (lane % 4);
        const float u0 = sum[e % 2][e / 2 * 2], u1 = sum[e % 2][e / 2 * 2 + 1];
        miras__put2((square ? a.p : a.n) + at.square * 4096 + r * 64 + l, u0, u1);
        if (!square) below[r * 65 + l] = rate[r] * u0, below[r * 65 + l + 1] = rate[r] * u1;
      }
    }
  MIRAS__ALL_OF for (unsigned r = 0; r < 16; r++) p[r] = n[r] = 0;
  for (unsigned x = lane / 16 * 2; x < DK; x += 4) { /* those of the 16: a lane has row `own`,    */
    float d0 = 0, d1 = 0;                            /* of half of the channels                   */
    MIRAS__ALL_OF for (unsigned r = 0; r < 16; r++) {
      const unsigned l = (first + r) * room::LD + x;
      const unsigned u = *(const unsigned *)(const void *)(q + l);
      const unsigned v = *(const unsigned *)(const void *)(k + l);
      const unsigned z = APART ? *(const unsigned *)(const void *)(reads + l) : v;
      const float e0 = d0, e1 = d1;
      d0 *= one[l], d1 *= one[l + 1];
      n[r] += miras__of_low(z) * (a.after ? d0 : e0) + miras__of_high(z) * (a.after ? d1 : e1);
      if (first + r == own) d0 = miras__of_low(v), d1 = miras__of_high(v);
      p[r] += miras__of_low(u) * d0 + miras__of_high(u) * d1;
    }
  }
  MIRAS__ALL_OF for (unsigned r = 0; r < 16; r++) {
    const size_t to = at.square * 4096 + (first + r) * 64 + own;
    float mine, next;
    p[r] += __shfl_xor_sync(0xffffffffu, p[r], 16), n[r] += __shfl_xor_sync(0xffffffffu, n[r], 16);
    mine = lane < 16 ? p[r] : n[r], next = __shfl_xor_sync(0xffffffffu, mine, 1);
    if (!(lane % 2)) miras__put2((lane < 16 ? a.p : a.n) + to, mine, next);
    if (lane >= 16) below[(first + r) * 65 + own] = rate[first + r] * n[r];
  }
  if (a.delta) miras__fast_inverse(a.m + at.square * 4096, g, below);
}

/* Row h of the two that a thread has of c [16, 8 N], times a number; and as bfloat16 to a row. */
template <int N>
__device__ static inline void miras__row_times(float (*c)[4], unsigned h, float by) {
  MIRAS__ALL_OF for (int n = 0; n < N; n++) c[n][2 * h] *= by, c[n][2 * h + 1] *= by;
}
template <int N>
__device__ static inline void miras__row_put(bf16 *to, const float (*c)[4], unsigned h) {
  to += 2 * (threadIdx.x % 4);
  MIRAS__ALL_OF for (int n = 0; n < N; n++) miras__put2(to + 8 * n, c[n][2 * h], c[n][2 * h + 1]);
}
/* Rows of fragments to global memory. */
template <int N>
__device__ static inline void miras__rows_put(bf16 *to, unsigned ld, unsigned rows, unsigned from,
                                              const float (*c)[4]) {
  MIRAS__ALL_OF for (unsigned h = 0; h < 2; h++)
    if (from + 8 * h < rows) miras__row_put<N>(to + (size_t)(from + 8 * h) * ld, c, h);
}

/* Where floats of a state lie: rows of keys `down` apart, columns of values `across`. */
typedef struct miras__state_place {
  float *at;
  size_t down, across;
} miras__state_place;

/* A block of C2, C3 and the walk goes through chunks first..end - 1 of head i, VB columns of values
 * from `column` on. While C2 and C3 work on a chunk they have of the next one K, Q, [64, VB] of V
 * or dY, M, P; of channels (CH) with errors also what is left of K where the chunk ends. */
template <int DK, int VB, int DELTA, int CH> struct miras__fast_stage {
  enum {
    LDK = DK + 8, LDV = VB + 8, K = 0, Q = 64 * LDK, V = 2 * 64 * LDK, M = V + 64 * LDV,
    P = M + 64 * MIRAS__FAST_LD, MORE = P + 64 * MIRAS__FAST_LD, THREE = DELTA && CH,
    END = THREE ? MORE : K, HALVES = MORE + THREE * 64 * LDK,
    S = 2 * HALVES, W = S + DK * LDV, U = W + 64 * LDV, BYTES = 2 * (U + 64 * LDV),
    N = VB / 8, TILES = (DK / 16 + 3) / 4      /* of 16 rows of S that a warp has                 */
  };
  const miras__fast_chunks &a;
  const unsigned warp, lane, from;
  unsigned i, first, end, column;
  bf16 *const all, *now;             /* in shared memory: all, and what is of the chunk           */
  miras__fast_place at;
  const float *g, *b;                /* G and b of the chunk                                      */

  /* more: columns of T behind those of values. */
  __device__ miras__fast_stage(const miras__fast_chunks &of, unsigned more, unsigned segments)
    : a(of), warp(threadIdx.x / 32), lane(threadIdx.x % 32), from(16 * warp + lane / 4),
      all((bf16 *)(void *)miras__fast_room) {
    const unsigned across = (a.value + more) / VB, block = blockIdx.x / across;
    i = block / segments, column = blockIdx.x % across * VB;
    first = block % segments * a.segment, end = first + a.segment;
    if (end > a.chunks) end = a.chunks;
  }
  /* Chunk c is on its way, with V or dY; or it is at hand. */
  __device__ void bring(unsigned c, const bf16 *v, unsigned ldv, int reads) const {
    bf16 *const to = all + c % 2 * HALVES;
    const miras__fast_place on = miras__fast_at(&a, i, c);
    const unsigned head = on.h / a.group * DK;
    miras__rows_bring<DK>(to + K, a.k + on.row * a.ldk + head, a.ldk, on.rows);
    if (reads) miras__rows_bring<DK>(to + Q, a.q + on.row * a.ldq + head, a.ldq, on.rows);
    if (THREE) miras__rows_bring<DK>(to + END, a.k_end + on.row * a.ldk + head, a.ldk, on.rows);
    miras__rows_bring<VB>(to + V, v + on.row * ldv + on.h * a.value + column, ldv,
                          column < a.value ? on.rows : 0);
    if (DELTA) miras__rows_bring<64, 64, 1>(to + M, a.m + on.square * 4096, 64);
    if (reads) miras__rows_bring<64, 64, 1>(to + P, a.p + on.square * 4096, 64);
    miras__bring_group();
  }
  __device__ void turn(unsigned c) {
    now = all + c % 2 * HALVES, at = miras__fast_at(&a, i, c);
    g = a.log + at.square * (CH ? 64 * DK : 64), b = a.rate + at.square * 64;
  }

  /* S as bfloat16 in shared memory; and from there to global memory, [DK, value]. */
  __device__ void put(unsigned to, float (*s)[N][4]) const {
    MIRAS__ALL_OF for (unsigned t = 0; t < TILES; t++)
      if (warp + 4 * t < DK / 16)
        MIRAS__ALL_OF for (unsigned h = 0; h < 2; h++)
          miras__row_put<N>(all + to + (from + 64 * t + 8 * h) * LDV, s[t], h);
  }
  __device__ void keep(bf16 *to) const {
    enum { STEP = 1024 / VB };
    const unsigned r = threadIdx.x / N, c = threadIdx.x % N * 8;
    const bf16 *p = all + S + r * LDV + c;
    to += at.square * DK * a.value + column + (size_t)r * a.value + c;
    MIRAS__ALL_OF for (int n = 0; n < DK / STEP; n++) {
      *(uint4 *)(void *)to = *(const uint4 *)(const void *)p;
      to += (size_t)STEP * a.value, p += STEP * LDV;
    }
  }
  /* S *= exp G_63; S += X' U of the chunk's rows; and x = X S. */
  __device__ void scale(float (*s)[N][4]) const {
    const float all_rows = CH ? 0 : miras__left(g[63]);
    MIRAS__ALL_OF for (unsigned t = 0; t < TILES; t++)
      MIRAS__ALL_OF for (unsigned h = 0; h < 2; h++) {
        const unsigned r = from + 64 * t + 8 * h;
        miras__row_times<N>(s[t], h,
                            !CH ? all_rows : r < DK ? miras__left(g[63 * DK + r]) : 0);
      }
  }
  __device__ void add(float (*s)[N][4], const bf16 *rows, const bf16 *u) const {
    MIRAS__ALL_OF for (unsigned t = 0; t < TILES; t++)
      if (warp + 4 * t < DK / 16)
        miras__warp_times<N, 1, 0>(s[t], rows, LDK, 16 * (warp + 4 * t), u, LDV, 0, 0, 64);
  }
  __device__ void read(float (*x)[4], const bf16 *rows) const {
    miras__clear<N>(x);
    miras__warp_times<N, 0, 0>(x, rows, LDK, 16 * warp, all + S, LDV, 0, 0, DK);
  }

  /* Where matrix n lies of those that texts or heads begin or end with, or none. */
  __device__ miras__state_place given(const float *p, unsigned n) const {
    return {p ? (float *)(uintptr_t)p + (size_t)n * DK * a.value : NULL,
            a.turned ? 1 : a.value, a.turned ? DK : 1u};
  }
  /* E and T, or back R, of the segment that has chunk c. */
  __device__ miras__state_place found(int back, unsigned c) const {
    const size_t down = back ? a.value : a.value + DK;
    float *const start = back ? a.begins : a.ends;
    return {start + ((size_t)i * a.segments + c / a.segment) * DK * down, down, 1};
  }
  /* S from floats, from nowhere 0, and (ones) behind the values I; or (to) to floats; or added to
   * these. */
  __device__ void floats(float (*s)[N][4], miras__state_place y, int to, int adds,
                         int ones = 0) const {
    const unsigned one = column + 2 * (lane % 4);
    float *const start = y.at + from * y.down + one * y.across;
    MIRAS__ALL_OF for (unsigned t = 0; t < TILES; t++)
      MIRAS__ALL_OF for (unsigned e = 0; e < VB / 2; e++) {
        const unsigned r = 64 * t + e % 4 / 2 * 8, c = e / 4 * 8 + e % 2;
        float *const p = start + r * y.down + c * y.across, *const z = &s[t][e / 4][e % 4];
        if (DK < 64 && from + r >= DK) continue;
        if (to) *p = (adds ? *p : 0) + *z;
        else if (y.at) *z = (adds ? *z : 0) + *p;
        else *z = ones && one + c == a.value + from + r ? 1 : 0;
      }
  }

  /* U of the chunk at U, and as it is left at the chunk's end in the place of V; with `again` also
   * to global memory, and W. With decays per channel the keys have what is left. */
  __device__ void rows_u(int again) const {
    float x[N][4];
    const size_t place = at.row * a.ldw + at.h * a.value + column + 2 * (lane % 4);
    const int keeps = again && !a.finds;
    if (DELTA) read(x, now + K);
    else miras__clear<N>(x);
    MIRAS__ALL_OF for (unsigned h = 0; h < 2; h++) {
      const unsigned r = from + 8 * h;
      bf16 *const w = keeps && r < at.rows ? a.w + place + (size_t)r * a.ldw : NULL;
      const float z = CH ? 1 : miras__left(a.after ? g[r] : r ? g[r - 1] : 0), rate = b[r];
      MIRAS__ALL_OF for (unsigned n = 0; n < N; n++) {
        const unsigned j = r * LDV + 8 * n + 2 * (lane % 4);
        const unsigned v = *(const unsigned *)(const void *)(now + V + j);
        const float u0 = miras__of_low(v) - z * x[n][2 * h];
        const float u1 = miras__of_high(v) - z * x[n][2 * h + 1];
        if (w) miras__put2(w + 8 * n, u0, u1);
        if (DELTA) miras__put2(all + W + j, rate * u0, rate * u1);
        x[n][2 * h] = rate * u0, x[n][2 * h + 1] = rate * u1;
      }
    }
    if (DELTA) {
      __syncthreads();
      miras__clear<N>(x);
      miras__warp_times<N, 0, 0>(x, now + M, MIRAS__FAST_LD, 16 * warp, all + W, LDV, 0, 0,
                                 16 * warp + 16);
    }
    MIRAS__ALL_OF for (unsigned h = 0; h < 2; h++) {
      const unsigned r = from + 8 * h;
      bf16 *const u = keeps && r < at.rows ? a.u + place + (size_t)r * a.ldw : NULL;
      const float last = CH ? 1 : miras__left(g[63] - g[r]);
      MIRAS__ALL_OF for (unsigned n = 0; n < N; n++) {
        const unsigned j = r * LDV + 8 * n + 2 * (lane % 4);
        const float u0 = x[n][2 * h], u1 = x[n][2 * h + 1];
        miras__put2(all + U + j, u0, u1);
        if (!CH) miras__put2(now + V + j, last * u0, last * u1);
        if (u) miras__put2(u + 8 * n, u0, u1);
      }
    }
  }

  /* C2 writes y; again, on the way back, W, U and the states where chunks begin. */
  __device__ void forward(int again) {
    float s[TILES][N][4], x[N][4];
    bring(first, a.v, a.ldv, !again);
    for (unsigned c = first; c < end; c++) {
      turn(c);
      if (c == first || at.anew) {
        const float *const init = first || column >= a.value ? NULL : a.init;
        floats(s, first && !a.finds ? found(0, first - 1) : given(init, a.texts ? i : i % a.heads),
               0, 0, again);
        put(S, s);
      }
      miras__bring_wait<0>();
      __syncthreads();
      if (c + 1 < end) bring(c + 1, a.v, a.ldv, !again);
      if (again && !a.finds) keep(a.s);
      rows_u(again);
      __syncthreads();
      if (!again) {
        read(x, now + Q);
        MIRAS__ALL_OF for (unsigned h = 0; h < 2 && !CH; h++)
          miras__row_times<N>(x, h, miras__left(g[from + 8 * h]));
        miras__warp_times<N, 0, 0>(x, now + P, MIRAS__FAST_LD, 16 * warp, all + U, LDV, 0, 0,
                                   16 * warp + 16);
        miras__rows_put<N>(a.y + at.row * a.ldy + at.h * a.value + column, a.ldy, at.rows, from, x);
      }
      scale(s), add(s, now + END, CH ? all + U : now + V);
      __syncthreads();
      put(S, s);
    }
    miras__bring_wait<0>();
    if (again ? a.finds : a.last && end == a.chunks)
      floats(s, again ? found(0, first) : given(a.last, i), 1, 0);
  }

  /* Back, Z and gradients of values of the chunk's rows from x = Z; what of them dS is to have
   * takes the places of U and of dY. */
  __device__ void rows_z(float (*x)[4]) const {
    MIRAS__ALL_OF for (unsigned h = 0; h < 2; h++) {
      const unsigned r = from + 8 * h, keeps = r < at.rows && !a.finds;
      const float z = CH ? 1 : miras__left(a.after ? g[r] : r ? g[r - 1] : 0), rate = b[r];
      const float by = CH ? 1 : miras__left(g[r]);
      const size_t place = at.h * a.value + column + 2 * (lane % 4);
      bf16 *const zs = a.z + (at.row + r) * a.ldw + place;
      bf16 *const dv = a.dv + (at.row + r) * a.ld_dv + place;
      MIRAS__ALL_OF for (unsigned n = 0; n < N; n++) {
        const unsigned j = r * LDV + 8 * n + 2 * (lane % 4);
        const unsigned d = *(const unsigned *)(const void *)(now + V + j);
        const float z0 = x[n][2 * h], z1 = x[n][2 * h + 1];
        if (!CH) miras__put2(now + V + j, by * miras__of_low(d), by * miras__of_high(d));
        if (DELTA) miras__put2(all + U + j, -z * rate * z0, -z * rate * z1);
        if (keeps) miras__put2(zs + 8 * n, z0, z1), miras__put2(dv + 8 * n, rate * z0, rate * z1);
      }
    }
  }
  /* C3: back through the chunks. */
  __device__ void backward() {
    float s[TILES][N][4], x[N][4];
    const float *const last = end < a.chunks ? NULL : a.dlast;
    int begun = 0;
    floats(s, end < a.chunks && !a.finds ? found(1, end) : given(last, i), 0, 0);
    put(S, s);
    bring(end - 1, a.d, a.ldd, 1);
    for (unsigned c = end; c-- > first;) {
      turn(c);
      miras__bring_wait<0>();
      __syncthreads();
      if (c > first) bring(c - 1, a.d, a.ldd, 1);
      if (!a.finds) keep(a.ds);
      read(x, now + END);
      MIRAS__ALL_OF for (unsigned h = 0; h < 2 && !CH; h++)
        miras__row_times<N>(x, h, miras__left(g[63] - g[from + 8 * h]));
      miras__warp_times<N, 1, 0>(x, now + P, MIRAS__FAST_LD, 16 * warp, now + V, LDV, 0, 16 * warp,
                                 64);
      MIRAS__ALL_OF for (unsigned h = 0; h < 2 && DELTA; h++)
        miras__row_put<N>(all + W + (from + 8 * h) * LDV, x, h);
      if (DELTA || !CH) __syncthreads();       /* all have read dY, which decays where it lies    */
      if (DELTA) {
        miras__clear<N>(x);
        miras__warp_times<N, 1, 0>(x, now + M, MIRAS__FAST_LD, 16 * warp, all + W, LDV, 0,
                                   16 * warp, 64);
      }
      rows_z(x);
      __syncthreads();
      scale(s), add(s, now + Q, now + V);
      if (DELTA) add(s, now + K, all + U);
      if (a.finds ? c == first : (!c || at.anew) && a.dinit) {
        floats(s, a.finds ? found(1, c) : given(a.dinit, i), 1, begun);
        MIRAS__ALL_OF for (unsigned t = 0; t < TILES; t++) miras__clear<N>(s[t]);
        begun = 1;
      }
      __syncthreads();
      put(S, s);
    }
    miras__bring_wait<0>();
  }
};
template <int DK, int VB, int DELTA, int CH, int AGAIN>
MIRAS__FAST_GRID(128, 1) miras__run_fast_c2(const __grid_constant__ miras__fast_chunks a) {
  miras__fast_stage<DK, VB, DELTA, CH>(a, a.finds && DELTA ? DK : 0, a.segments).forward(AGAIN);
}
template <int DK, int VB, int DELTA, int CH>
MIRAS__FAST_GRID(128, 1) miras__run_fast_c3(const __grid_constant__ miras__fast_chunks a) {
  miras__fast_stage<DK, VB, DELTA, CH>(a, 0, a.segments).backward();
}

/* From segment to segment: E of each becomes the state that it ends with, or R the gradient of that
 * which it begins with. T and S are each a sum of two in bfloat16, whose products but the least are
 * added, since what one of them loses would add up over segments. */
template <int DK> struct miras__fast_walked {
  enum { LDT = DK + 8, REST = DK * LDT, S = 2 * REST, S_REST = S + DK * 40,
         BYTES = 2 * (S_REST + DK * 40) };
};
template <int DK>
MIRAS__FAST_GRID(128, 1) miras__run_fast_walk(const __grid_constant__ miras__fast_chunks a) {
  typedef miras__fast_walked<DK> room;
  typedef miras__fast_stage<DK, 32, 0, 0> stage;
  const stage w(a, 0, 1);
  float s[stage::TILES][4][4];
  const size_t per = a.channels ? 64 * DK : 64;      /* logarithms of a chunk                     */
  for (unsigned n = 0; n < a.segments; n++) {
    const unsigned of = a.back ? a.segments - 1 - n : n, first = of * a.segment;
    const miras__state_place ends = w.found(0, first), x = a.back ? w.found(1, first) : ends;
    MIRAS__ALL_OF for (unsigned t = 0; n && !a.delta && t < stage::TILES; t++)
      MIRAS__ALL_OF for (unsigned h = 0; h < 2; h++) {
        const unsigned r = a.channels ? w.from + 64 * t + 8 * h : 0;
        const float *log = a.log + ((size_t)w.i * a.chunks + first) * per + (per - per / 64) + r;
        float sum = 0;
        for (unsigned c = first; c < a.chunks && c < first + a.segment; c++, log += per)
          sum += r < DK ? *log : 0;
        miras__row_times<4>(s[t], h, miras__left(sum));
      }
    if (n && a.delta) {
      for (unsigned e = 8 * threadIdx.x; e < DK * DK; e += 1024) {
        bf16 *const t = w.all + e / DK * room::LDT + e % DK;
        float u[8];
        miras__get8(u, ends.at + e / DK * ends.down + a.value + e % DK);
        miras__put8(t, u);
        for (unsigned l = 0; l < 8; l++) u[l] -= miras__wide(miras__near(u[l]));
        miras__put8(t + room::REST, u);
      }
      w.put(room::S, s);
      MIRAS__ALL_OF for (unsigned t = 0; t < stage::TILES; t++)
        MIRAS__ALL_OF for (unsigned l = 0; l < 16; l++)
          s[t][l / 4][l % 4] -= miras__wide(miras__near(s[t][l / 4][l % 4]));
      w.put(room::S_REST, s);
      __syncthreads();
      MIRAS__ALL_OF for (unsigned t = 0; t < stage::TILES; t++) {
        const unsigned r = 16 * (w.warp + 4 * t);
        miras__clear<4>(s[t]);
        for (unsigned l = 0; l < 3 && r < DK; l++) {
          const bf16 *const u = w.all + (l == 1 ? room::REST : 0);
          const bf16 *const v = w.all + (l == 2 ? room::S_REST : room::S);
          if (a.back) miras__warp_times<4, 1, 0>(s[t], u, room::LDT, r, v, 40, 0, 0, DK);
          else miras__warp_times<4, 0, 0>(s[t], u, room::LDT, r, v, 40, 0, 0, DK);
        }
      }
      __syncthreads();
    }
    w.floats(s, x, 0, n > 0), w.floats(s, x, 1, 0);
  }
}

/* sum over its columns of row r's accumulators times rows of x in shared memory. */
template <int N>
__device__ static inline float miras__row_dot(float (*c)[4], unsigned h, const bf16 *x) {
  float all = 0;
  MIRAS__ALL_OF for (unsigned n = 0; n < N; n++) {
    const unsigned v = *(const unsigned *)(const void *)(x + 8 * n + 2 * (threadIdx.x % 4));
    all += c[n][2 * h] * miras__of_low(v) + c[n][2 * h + 1] * miras__of_high(v);
  }
  return miras__lanes_sum(all, 4);
}

/* c [16, 32] by columns times exp(to - from), from NULL: exp(to). */
__device__ static inline void miras__columns_left(float (*c)[4], const float *to,
                                                  const float *from) {
  MIRAS__ALL_OF for (unsigned n = 0; n < 4; n++)
    MIRAS__ALL_OF for (unsigned e = 0; e < 2; e++) {
      const unsigned j = 8 * n + 2 * (threadIdx.x % 4) + e;
      const float by = miras__left(to[j] - (from ? from[j] : 0));
      c[n][e] *= by, c[n][2 + e] *= by;
    }
}
/* to [16, 33] = c, by rows times exp(g - from), or with sign -1 its inverse; g has rows ld apart,
 * with `before` each gets the one before it. from NULL: zeros, and before the first row, too. */
__device__ static inline void miras__rows_left(float *to, float (*c)[4], const float *g,
                                               unsigned ld, int before, const float *from,
                                               float sign) {
  const unsigned lane = threadIdx.x % 32;
  MIRAS__ALL_OF for (unsigned n = 0; n < 4; n++)
    MIRAS__ALL_OF for (unsigned e = 0; e < 4; e++) {
      const unsigned r = lane / 4 + e / 2 * 8, j = 8 * n + 2 * (lane % 4) + e % 2;
      const float here = before && !r && !from ? 0 : (g - before * (int)ld)[r * ld + j];
      to[r * 33 + j] = c[n][e] * miras__left(sign * (here - (from ? from[j] : 0)));
    }
}

/* C4: shared memory has K and Q; what rows have of 32 columns of values, and states of them and of
 * WIDE columns of keys; dP and dN as factors; what they make of G, as floats; and numbers of rows.
 * Of channels, in the place of values, what is left of WIDE columns of K where a row's 16 end, of Q
 * and K where they begin; and of each row floats of WIDE channels, three times. */
template <int DK, int CH, int DELTA = 0> struct miras__fast_c4 {
  enum {
    WIDE = CH || DK < 64 ? 32 : 64, LD = DK + 8, Q = 64 * LD, D = 2 * 64 * LD, U = D + 64 * 40,
    Z = U + 64 * 40, W = Z + 64 * 40, S = W + 64 * 40, DS = S + WIDE * 40, DP = DS + WIDE * 40,
    DN = DP + 64 * MIRAS__FAST_LD, HALVES = DN + 64 * MIRAS__FAST_LD, SQUARE = 2 * HALVES,
    ROWS = SQUARE + 4 * (CH ? 3 * 64 * 33 : 64 * 65), BYTES = ROWS + 4 * (416 + 128 * CH),
    READS = DELTA > 1 ? BYTES / 2 : 0,         /* where errors are read: K, or behind all         */
    N = WIDE / 8, LANES = 128 / WIDE, EACH = 32 / LANES
  };
  const miras__fast_chunks &a;
  const unsigned t, lane, i, from;   /* a warp's rows are those from i on                         */
  const int before;                  /* errors come before decays                                 */
  const miras__fast_place at;
  const size_t values, states;       /* where the chunk's rows of W, U, Z and its states begin    */
  bf16 *const all;
  float *const square, *const dg, *const dz, *const db, *const zw;
  unsigned j;                        /* the first column of keys at hand, and with that ...       */
  const bf16 *k, *q, *reads;         /* ... rows of K, Q, and those that errors are read at, ...  */
  const float *g, *b;                /* ... and G of channels; G, b of rows                       */

  __device__ explicit miras__fast_c4(const miras__fast_chunks &of)
    : a(of), t(threadIdx.x), lane(t % 32), i(t / 32 * 16), from(i + lane / 4), before(!a.after),
      at(miras__fast_at(&a, blockIdx.x / a.chunks, blockIdx.x % a.chunks)),
      values(at.row * a.ldw + at.h * a.value), states(at.square * DK * a.value),
      all((bf16 *)(void *)miras__fast_room), square((float *)(void *)(miras__fast_room + SQUARE)),
      dg((float *)(void *)(miras__fast_room + ROWS)), dz(dg + 64), db(dg + 128), zw(dg + 192) {
    b = a.rate + at.square * 64;
    turn(0);
  }
  __device__ void turn(unsigned column) {
    j = column, k = all + j, q = k + Q, reads = k + READS;
    g = a.log + at.square * (CH ? 64 * DK : 64) + (CH ? j : 0);
  }
  /* Rows of dY, U and Z, 32 columns of values from v on, are on their way. */
  __device__ void bring(unsigned v, int errors) const {
    __syncthreads();
    miras__rows_bring<32>(all + D, a.d + at.row * a.ldd + at.h * a.value + v, a.ldd, at.rows);
    miras__rows_bring<32>(all + U, a.u + values + v, a.ldw, at.rows);
    if (errors) miras__rows_bring<32>(all + Z, a.z + values + v, a.ldw, at.rows);
  }
  /* What log a of a place gets; `sum` is that of its G. */
  __device__ void keep_back(size_t to, float sum) const {
    const float kept = a.logs ? 1 : a.keep[to];
    a.dkeep[to] = sum / (kept > 1e-30f ? kept : 1e-30f);
  }

  /* dP and dN as factors, and what P and N give G, z and b, beside Z . W of rows. Of channels
   * decays come in later. */
  __device__ void squares() const {
    float x[8][4], y[8][4], along = 0;
    miras__clear<8>(x), miras__clear<8>(y);
    for (unsigned v = 0; v < a.value; v += 32) {
      bring(v, 1);
      miras__rows_bring<32>(all + W, a.w + values + v, a.ldw, at.rows);
      miras__bring_group();
      miras__bring_wait<0>();
      __syncthreads();
      miras__warp_times<8, 0, 1>(x, all + D, 40, i, all + U, 40, 0, 0, 32);
      if (DELTA) miras__warp_times<8, 0, 1>(y, all + Z, 40, i, all + U, 40, 0, 0, 32);
      for (unsigned e = 0; e < 16; e++) {            /* half of a row a thread                    */
        const unsigned l = t / 2 * 40 + t % 2 * 16 + e;
        along += miras__wide(all[Z + l]) * miras__wide(all[W + l]);
      }
    }
    along += __shfl_xor_sync(0xffffffffu, along, 1);
    if (!(t & 1)) zw[t / 2] = along;
    MIRAS__ALL_OF for (unsigned h = 0; h < 2; h++) {
      const unsigned r = from + 8 * h;
      const float read = CH ? 0 : a.after ? g[r] : r ? g[r - 1] : 0;
      float by_p = 0, by_n = 0, by_b = 0;
      MIRAS__ALL_OF for (unsigned n = 0; n < 8; n++) {
        const unsigned c = 8 * n + 2 * (lane % 4);
        const size_t place = at.square * 4096 + r * 64 + c;
        const unsigned p = CH ? 0 : *(const unsigned *)(const void *)(a.p + place);
        const unsigned n2 = DELTA ? *(const unsigned *)(const void *)(a.n + place) : 0;
        float dp[2], dn[2];
        MIRAS__ALL_OF for (unsigned e = 0; e < 2; e++) {
          const float one = e ? miras__of_high(p) : miras__of_low(p);
          const float two = e ? miras__of_high(n2) : miras__of_low(n2);
          const float s = x[n][2 * h + e] * one, u = -y[n][2 * h + e] * two;
          dp[e] = c + e > r ? 0 : CH ? x[n][2 * h + e]
                                     : x[n][2 * h + e] * miras__left(g[r] - g[c + e]);
          dn[e] = !DELTA || c + e >= r ? 0 : -y[n][2 * h + e] * b[r] *
                                               (CH ? 1 : miras__left(read - g[c + e]));
          if (DELTA) by_b += u;
          if (CH) continue;
          by_p += s, by_n += DELTA ? u * b[r] : 0;
          square[r * 65 + c + e] = s + (DELTA ? u * b[r] : 0);
        }
        miras__put2(all + DP + r * MIRAS__FAST_LD + c, dp[0], dp[1]);
        if (DELTA) miras__put2(all + DN + r * MIRAS__FAST_LD + c, dn[0], dn[1]);
      }
      by_b = miras__lanes_sum(by_b, 4);
      if (!CH) by_p = miras__lanes_sum(by_p, 4), by_n = miras__lanes_sum(by_n, 4);
      if (lane % 4 == 0) dg[r] = by_p, dz[r] = by_n, db[r] = by_b;
    }
    __syncthreads();
    if (t < 64 && !CH) {
      float sum = 0;
      for (unsigned r = 0; r < 64; r++) sum += square[r * 65 + t];
      dg[t] -= sum;
    }
  }

  /* x = dY S', y = U dS' and z = Z S' of the chunk's rows, and sums of S dS, of a part of one row
   * of them. */
  __device__ float products(float (*x)[4], float (*y)[4], float (*z)[4]) const {
    float along = 0;
    miras__clear<N>(x), miras__clear<N>(y), miras__clear<N>(z);
    for (unsigned v = 0; v < a.value; v += 32) {
      const size_t place = states + (size_t)j * a.value + v;
      bring(v, DELTA);
      miras__rows_bring<32, WIDE, 1>(all + S, a.s + place, a.value);
      miras__rows_bring<32, WIDE, 1>(all + DS, a.ds + place, a.value);
      miras__bring_group();
      miras__bring_wait<0>();
      __syncthreads();
      miras__warp_times<N, 0, 1>(x, all + D, 40, i, all + S, 40, 0, 0, 32);
      miras__warp_times<N, 0, 1>(y, all + U, 40, i, all + DS, 40, 0, 0, 32);
      if (DELTA) miras__warp_times<N, 0, 1>(z, all + Z, 40, i, all + S, 40, 0, 0, 32);
      for (unsigned e = 0; e < EACH; e++) {
        const unsigned l = t / LANES * 40 + t % LANES * EACH + e;
        along += miras__wide(all[S + l]) * miras__wide(all[DS + l]);
      }
    }
    return along;
  }

  /* dq's and dk's columns, and what they give G and z; returns what G's last row gets beside
   * that. */
  __device__ float rows(float (*x)[4], float (*y)[4], float (*z)[4]) const {
    float tail = 0;
    MIRAS__ALL_OF for (unsigned h = 0; h < 2; h++) {
      const unsigned r = from + 8 * h;
      const float less = -b[r] * miras__left(a.after ? g[r] : r ? g[r - 1] : 0);
      float d, e, f = 0;
      miras__row_times<N>(x, h, miras__left(g[r]));
      miras__row_times<N>(y, h, miras__left(g[63] - g[r]));
      if (DELTA) miras__row_times<N>(z, h, less);
      d = miras__row_dot<N>(x, h, q + r * LD);
      e = miras__row_dot<N>(y, h, k + r * LD);
      if (DELTA) f = miras__row_dot<N>(z, h, k + r * LD);
      if (lane % 4 == 0) dg[r] += d - e, dz[r] += f, tail += e;
      MIRAS__ALL_OF for (unsigned n = 0; n < N && DELTA; n++)
        y[n][2 * h] += z[n][2 * h], y[n][2 * h + 1] += z[n][2 * h + 1];
    }
    miras__warp_times<N, 0, 0>(x, all + DP, MIRAS__FAST_LD, i, k, LD, 0, 0, i + 16);
    miras__rows_put<N>(a.dq + at.row * a.ld_dq + at.h * DK + j, a.ld_dq, at.rows, from, x);
    miras__warp_times<N, 1, 0>(y, all + DP, MIRAS__FAST_LD, i, q, LD, 0, i, 64);
    if (DELTA) {
      miras__warp_times<N, 0, 0>(y, all + DN, MIRAS__FAST_LD, i, k, LD, 0, 0, i + 16);
      miras__warp_times<N, 1, 0>(y, all + DN, MIRAS__FAST_LD, i, k, LD, 0, i, 64);
    }
    miras__rows_put<N>(a.dk + at.row * a.ld_dk + at.h * DK + j, a.ld_dk, at.rows, from, y);
    return tail;
  }

  /* K, Q and K of 32 channels as rows are left where their 16 end, and from where they begin on:
   * at D, U and Z, 40 apart. */
  __device__ void left() const {
    MIRAS__EACH_OF for (unsigned l = t; l < 64 * 4; l += 128) {
      const unsigned row = l / 4, c = l % 4 * 8, first = row / 16 * 16, o = row * LD + c;
      const float *const here = g + row * DK + c, *const end = g + (row | 15) * DK + c;
      const float *const one = here - before * DK, *const start = g + first * DK + c - DK;
      bf16 *const to = all + row * 40 + c;
      float u[8], v[8];
      miras__get8(u, k + o);
      MIRAS__EIGHT v[e] = u[e] * miras__left(end[e] - here[e]);
      miras__put8(to + D, v);
      if (!first) continue;
      if (DELTA > 1) miras__get8(u, reads + o);
      MIRAS__EIGHT u[e] *= miras__left(one[e] - start[e]);
      miras__put8(to + Z, u);
      miras__get8(u, q + o);
      MIRAS__EIGHT u[e] *= miras__left(here[e] - start[e]);
      miras__put8(to + U, u);
    }
  }

  /* A warp's 16 rows among each other, a lane a channel: what floats x, y and z have so far becomes
   * rows of dq and dk, and x what log a_t gets of these rows; returns what earlier ones get. */
  __device__ float sixteen(float *fx) const {
    const bf16 *const rest = all + DP;
    float *const fy = fx + 64 * 33, *const fz = fy + 64 * 33;
    bf16 *to_q = a.dq + (at.row + i) * a.ld_dq + at.h * DK + j + lane;
    bf16 *to_k = a.dk + (at.row + i + 15) * a.ld_dk + at.h * DK + j + lane;
    bf16 *to_z = DELTA > 1 ? a.dapart + (to_k - a.dk) : NULL;
    float d[16], own[16], more[16], sum = 0;
    MIRAS__ALL_OF for (unsigned l = 0; l < 16; l++) {
      own[l] = miras__wide(k[(i + l) * LD + lane]);
      d[l] = more[l] = 0;
    }
    MIRAS__ALL_OF for (unsigned part = 0; part < 16; part += 4)
      MIRAS__EACH_OF for (unsigned r = part; r < part + 4; r++) {   /* p, n: zeros behind r       */
        const unsigned row = i + r;
        const bf16 *const p = rest + row * MIRAS__FAST_LD + i, *const n = p + DN - DP;
        const float one = r ? miras__left(g[row * DK + lane] - g[(row - 1) * DK + lane]) : 0;
        const float met = before ? 1 : one, query = miras__wide(q[row * LD + lane]);
        float key = miras__wide(k[row * LD + lane]);
        float by_q = fx[r * 33 + lane], by_z = DELTA ? fz[r * 33 + lane] : 0;
        MIRAS__ALL_OF for (unsigned l = 0; l < part + 4; l++) {
          const float now = one * d[l], u = miras__wide(p[l]) * now;
          by_q += u * own[l], more[l] += u * query;
          if (DELTA) {
            const float v = miras__wide(n[l]) * (met * d[l]);
            by_z += v * own[l];
            more[l] += v * (DELTA > 1 ? miras__wide(reads[row * LD + lane]) : key);
          }
          d[l] = l == r ? 1 : now;
        }
        fx[r * 33 + lane] = query * by_q, fz[r * 33 + lane] = by_z;
        by_q += miras__wide(p[r]) * key;
        key = __shfl_xor_sync(0xffffffffu, by_q, 1);           /* the next channel's              */
        if (row < at.rows && !(lane % 2)) miras__put2(to_q, by_q, key);
        to_q += a.ld_dq;
      }
    MIRAS__ALL_OF for (unsigned o = 0; o < 16; o++) {          /* log a_t is part of G from row t */
      const unsigned r = 15 - o, row = i + r;                  /* on                              */
      const float by_k = fy[r * 33 + lane] + more[r], by_z = fz[r * 33 + lane];
      const float itself = miras__wide(rest[row * MIRAS__FAST_LD + row]);
      const float u = by_z * (DELTA > 1 ? miras__wide(reads[row * LD + lane]) : own[r]);
      sum += fx[r * 33 + lane] - own[r] * by_k + (before ? 0 : u);
      fx[r * 33 + lane] = sum;
      if (before) sum += u;
      const float mine = by_k + (DELTA > 1 ? 0 : by_z) + itself * miras__wide(q[row * LD + lane]);
      const float next = __shfl_xor_sync(0xffffffffu, mine, 1);
      if (row < at.rows && !(lane % 2)) miras__put2(to_k, mine, next);
      to_k -= a.ld_dk;
      if (DELTA < 2) continue;
      const float other = __shfl_xor_sync(0xffffffffu, by_z, 1);
      if (row < at.rows && !(lane % 2)) miras__put2(to_z, by_z, other);
      to_z -= a.ld_dk;
    }
    return sum;
  }

  /* What rows() does, of 32 channels, with what they give decays, by way of floats [64, 33] of x, y
   * and z in turn; a warp has 16 rows, a lane in the end a channel of them. */
  __device__ void channels(float (*x)[4], float (*y)[4], float (*z)[4], float along) const {
    float *const ends = dg + 256, *const firsts = dg + 384, *const earlier = dg + 416;
    float *const fx = square + 33 * i, *const fy = fx + 64 * 33, *const fz = fy + 64 * 33;
    const float *e = NULL, *const last = g + 63 * DK, *const here = g + i * DK;
    float sum = 0;
    MIRAS__ALL_OF for (unsigned h = 0; h < 2 && DELTA; h++)
      miras__row_times<4>(z, h, -b[from + 8 * h]);
    miras__rows_left(fy, y, last, 0, 0, last, 1);    /* as they are, for what the end gets        */
    __syncwarp(0xffffffffu);
    MIRAS__EACH_OF for (unsigned r = 0; r < 16; r++)
      sum += miras__wide(k[(i + r) * LD + lane]) * fy[r * 33 + lane] *
             miras__left(last[lane] - here[r * DK + lane]);
    ends[t] = sum;
    along = miras__lanes_sum(along, 4);
    __syncthreads();
    if (t % 4 == 0) firsts[t / 4] = along * miras__left(last[t / 4]);
    left();
    __syncthreads();
    MIRAS__EACH_OF for (unsigned l = 0; l < i; l += 16) {      /* earlier rows, by 16             */
      const float *const next = g + (l + 15) * DK;
      miras__columns_left(x, next, e);
      miras__warp_times<4, 0, 0>(x, all + DP, MIRAS__FAST_LD, i, all + D, 40, 0, l, l + 16);
      if (DELTA) miras__columns_left(z, next, e);
      if (DELTA)
        miras__warp_times<4, 0, 0>(z, all + DN, MIRAS__FAST_LD, i, all + D, 40, 0, l, l + 16);
      e = next;
    }
    miras__rows_left(fx, x, here, DK, 0, e, 1);
    if (DELTA) miras__rows_left(fz, z, here, DK, before, e, 1);
    MIRAS__EACH_OF for (unsigned l = 48; l > i; l -= 16) {     /* and later ones                  */
      miras__columns_left(y, g + (l + 15) * DK, g + (l - 1) * DK);
      miras__warp_times<4, 1, 0>(y, all + DP, MIRAS__FAST_LD, i, all + U, 40, 0, l, l + 16);
      if (DELTA)
        miras__warp_times<4, 1, 0>(y, all + DN, MIRAS__FAST_LD, i, all + Z, 40, 0, l, l + 16);
    }
    miras__rows_left(fy, y, here, DK, 0, here + 15 * DK, -1);
    __syncwarp(0xffffffffu);
    earlier[t] = sum = sixteen(fx);
    __syncthreads();
    if (!a.dkeep) return;
    sum = firsts[lane];
    for (unsigned l = lane; l < 128; l += 32) sum += ends[l] + (l / 32 > i / 16 ? earlier[l] : 0);
    for (unsigned r = 0; r < 16 && i + r < at.rows; r++) {
      const size_t row = at.row + i + r;
      if (DELTA < 2 || row % 2 == 0)
        keep_back(row / (DELTA > 1 ? 2 : 1) * a.ld_keep + at.h * DK + j + lane,
                  fx[r * 33 + lane] + sum);
    }
  }

  __device__ void run() {
    float more = 0, tail = 0, x[N][4], y[N][4], z[N][4];
    miras__rows_bring<DK>(all, a.k + at.row * a.ldk + at.h / a.group * DK, a.ldk, at.rows);
    miras__rows_bring<DK>(all + Q, a.q + at.row * a.ldq + at.h / a.group * DK, a.ldq, at.rows);
    if (DELTA > 1)
      miras__rows_bring<DK>(all + READS, a.apart + at.row * a.ldk + at.h * DK, a.ldk, at.rows);
    squares();
    MIRAS__EACH_OF for (unsigned column = 0; column < DK; column += WIDE) {
      turn(column);
      const float along = products(x, y, z);
      if (CH) channels(x, y, z, along);
      else more += along, tail += rows(x, y, z);
    }
    if (!CH) tail = miras__block_all<0>(tail + miras__left(g[63]) * more, dg + 384);
    if (!CH && t == 0) dg[63] += tail;
    __syncthreads();
    if (t >= at.rows) return;
    if (a.dstep) a.dstep[(at.row + t) * a.ld_step + at.h] = zw[t] + db[t];
    if (a.dkeep && !CH) {            /* log a_t is part of G from row t on, and of z              */
      float sum = 0;
      for (unsigned r = t; r < 64; r++) sum += dg[r] + (a.after ? dz[r] : r > t ? dz[r] : 0);
      keep_back((at.row + t) * a.ld_keep + at.h, sum);
    }
  }
};
template <int DK, int DELTA, int CH>
MIRAS__FAST_GRID(128, 1) miras__run_fast_c4(const __grid_constant__ miras__fast_chunks a) {
  miras__fast_c4<DK, CH, DELTA>(a).run();
}

/* ---- D: one token ----
 *
 * States [B heads, value, DK] floats, keys along memory. LANES of a warp have a column, four of
 * them at a time, of each 4 KEYS numbers. Both reads are of the old state, y = (keep (.) q) S +
 * (step k . q) e: a lane comes to have the sum of one column. Where a memory erases apart, z S is
 * written at r: y = (keep (.) q) S + (r . q) (z S) + (step k . q) v. Where gated, gates of rows are
 * made here. A column of 128 keys takes a warp 18 instructions (to load and store it 2, to read it
 * twice 8, keep S + k e 8), those of sums 4, and of what is around them 5. */
typedef struct miras__fast_token {
  miras__fast_chunks of;             /* rows, gates, and what heads of sessions begin with        */
  float *s;
  const bf16 *replace;               /* r, ldk apart; of.apart is z                               */
  const unsigned char *texts;        /* of sessions: positions first                              */
  size_t apart;                      /* floats between texts                                      */
  miras__fast_gates gates;
  unsigned across, span, gated;      /* blocks of a state, columns of a warp                      */
} miras__fast_token;
/* Sums over groups of N lanes of x [8]: a lane comes to have that of x[8 lane / N]. */
template <int N> __device__ static inline float miras__fast_sums_of(float x[8]) {
  MIRAS__ALL_OF for (unsigned half = 4; half; half /= 2)
    MIRAS__ALL_OF for (unsigned n = 0; n < half; n++) {
      const unsigned up = threadIdx.x & N / 8 * half;
      const float more = __shfl_xor_sync(0xffffffffu, up ? x[n] : x[n + half], N / 8 * half);
      x[n] = (up ? x[n + half] : x[n]) + more;
    }
  return miras__lanes_sum(x[0], N / 8);
}
template <int DK, int ERASES>
MIRAS__FAST_GRID(128, DK == 128 && ERASES ? 7 : 8)
miras__run_fast_token(const __grid_constant__ miras__fast_token a) {
  enum { LANES = DK == 32 ? 8 : 16, EACH = 128 / LANES, KEYS = DK / LANES / 4, APART = DK / KEYS };
  enum { ALONG = 5 * DK, K = ALONG + 128, MORE = K - 3 * DK };
  const miras__fast_chunks &r = a.of;
  const unsigned i = blockIdx.x / a.across, b = i / r.heads, h = i % r.heads, t = threadIdx.x;
  const unsigned lane = t % LANES, mine = lane / (LANES / 8) % 4;
  const unsigned first = (blockIdx.x % a.across * 4 + t / 32) * a.span;
  const unsigned end = first + a.span < r.value ? first + a.span : r.value;
  const unsigned count = first < end ? end - first : 0;
  const unsigned at = h * r.value + first + t % 32 / LANES * 4;
  float *s = a.s + b * a.apart + (size_t)at * DK + 4 * lane;
  const bf16 *v = r.v + (size_t)b * r.ldv + at + mine;
  bf16 *y = r.y + (size_t)b * r.ldy + at + mine;
  const float step = !r.step  ? r.one_step
                     : a.gated ? miras__fast_gate_at(&a.gates, MIRAS__STEP, b, h)
                               : r.step[(size_t)b * r.ld_step + h];
  /* of keys: step k or r, keep, what errors and answers are read with, (step k or r) q; step k */
  float *const rows = (float *)(void *)miras__fast_room, *const key = rows + 4 * lane;
  if (a.texts) {
    const uint64_t now = *(const uint64_t *)(const void *)(a.texts + 4 * b * a.apart);
    const unsigned turn = r.every ? miras__fast_first(h, r.heads, r.every, r.grid) : 0;
    const float *const init = r.init + (size_t)h * DK * r.value + at - h * r.value;
    if (!now || (r.every && now >= turn && (now - turn) % r.every == 0))
      for (unsigned n = 0; n < KEYS * count / EACH * 16; n++) {
        const unsigned c = n % 4 + n / 16 / KEYS * EACH, l = n / 4 % 4 + n / 16 % KEYS * APART;
        s[(size_t)c * DK + l] = init[(4 * lane + l) * (size_t)r.value + c];
      }
  }
  if (t < DK) {
    const unsigned gate = r.channels ? h * DK + t : h;
    const float keep = a.gated && r.keep_gate
                         ? miras__fast_gate_at(&a.gates, MIRAS__KEEP, b, gate)
                         : r.keep[(r.keep_gate ? (size_t)b * r.ld_keep : 0) + gate];
    const size_t from = (size_t)b * r.ldk + h / r.group * DK + t;
    const float k = miras__wide(r.k[from]), z = ERASES ? miras__wide(r.apart[from]) : k;
    const float q = miras__wide(r.q[(size_t)b * r.ldq + h / r.group * DK + t]);
    const float by = ERASES ? miras__wide(a.replace[from]) : step * k;
    rows[t] = by, rows[DK + t] = keep, rows[3 * DK + t] = keep * q;
    rows[2 * DK + t] = !r.delta ? 0 : r.after ? keep * z : z, rows[4 * DK + t] = by * q;
    if (ERASES) rows[K + t] = step * k, rows[4 * DK + MORE + t] = step * k * q;
  }
  __syncthreads();
  for (unsigned i = 0; i <= ERASES * MORE; i += MORE) {
    float sum = 0;
    MIRAS__ALL_OF for (unsigned l = lane; l < DK; l += LANES) sum += rows[4 * DK + i + l];
    rows[ALONG + i + t] = miras__lanes_sum(sum, LANES);
  }
  MIRAS__EACH_OF for (unsigned left = count; left; left -= EACH) {
    float x[KEYS][4][4], p[4], keep[4], e[4], sum[8] = {0, 0, 0, 0, 0, 0, 0, 0}, error, answer;
    float value = miras__wide(*v);
    MIRAS__ALL_OF for (unsigned l = 0; l < KEYS; l++)
      MIRAS__ALL_OF for (unsigned n = 0; n < 4; n++) miras__get4(x[l][n], s + n * DK + l * APART);
    __syncwarp(0xffffffffu);         /* what is of keys is read anew, and takes no registers      */
    MIRAS__ALL_OF for (unsigned l = 0; l < KEYS; l++) {
      miras__get4(p, key + 2 * DK + l * APART);
      MIRAS__ALL_OF for (unsigned n = 0; n < 16; n++) sum[n / 4] += x[l][n / 4][n % 4] * p[n % 4];
      miras__get4(p, key + 3 * DK + l * APART);
      MIRAS__ALL_OF for (unsigned n = 0; n < 16; n++)
        sum[4 + n / 4] += x[l][n / 4][n % 4] * p[n % 4];
    }
    answer = miras__fast_sums_of<LANES>(sum);
    error = ERASES ? answer : value - answer;
    answer += __shfl_xor_sync(0xffffffffu, error, LANES / 2) * rows[ALONG + t];
    if (ERASES) answer += value * rows[ALONG + MORE + t];
    value = __shfl_xor_sync(0xffffffffu, answer, LANES / 8);   /* of the next column             */
    if (lane & LANES / 2 && lane % (LANES / 4) == 0) miras__put2(y, answer, value);
    MIRAS__ALL_OF for (unsigned n = 0; n < 4; n++)
      e[n] = __shfl_sync(0xffffffffu, error, n * (LANES / 8), LANES);
    MIRAS__ALL_OF for (unsigned l = 0; l < KEYS; l++) {
      miras__get4(p, key + l * APART), miras__get4(keep, key + DK + l * APART);
      MIRAS__ALL_OF for (unsigned n = 0; n < 16; n++)
        x[l][n / 4][n % 4] = keep[n % 4] * x[l][n / 4][n % 4] + e[n / 4] * p[n % 4];
    }
    if (ERASES) miras__get4(e, v - mine);            /* what is written at the key               */
    MIRAS__ALL_OF for (unsigned l = 0; l < KEYS; l++) {
      if (ERASES) miras__get4(p, key + K + l * APART);
      MIRAS__ALL_OF for (unsigned n = 0; ERASES && n < 16; n++)
        x[l][n / 4][n % 4] += e[n / 4] * p[n % 4];
      MIRAS__ALL_OF for (unsigned n = 0; n < 4; n++)
        miras__put4(s + n * DK + l * APART, x[l][n][0], x[l][n][1], x[l][n][2], x[l][n][3]);
    }
    s += EACH * DK, v += EACH, y += EACH;
  }
}

/* ---- P: perceptrons ----
 *
 * Memories of room @51 that are perceptrons of two layers behind a layer norm, M(x) = x + gain
 * LN(f(x W1) W2) + bias, by gradient descent under L2, with momentum or token_rates, decay, step
 * and momentum per head. Rows end in a 1 where layers have biases, and in zeros up to 16 columns
 * more. The memory is B + D: B the initial one where decays lead to it, else nothing; D and S are
 * the state. A cluster of blocks has a head of a sequence and goes through its chunks in pieces of
 * C tokens, the first of which has W = D, the others that one's. Products are of bfloat16 rows and
 * of copies of B, W, D and S in shared memory, of one layer at a time or, where they fit, of both;
 * D and S themselves are floats. Of several pieces token_rates r have an S, too, with h = 1 and
 * f_t = r_t - a_t r_0, r_0 the token's before the piece, but h = f = 0 in the first one. With room
 * @51's a, f, h, G, N of row t, which begin with the piece, and W1, W2 those of B + W:
 *   Z1 = K W1, X2 = f(Z1), Z2 = X2 W2, e = M(K) - V, d2 = LN' gain e, b1 = d2 W2', d1 = b1 f'(Z1)
 *   reads, in each layer: z = x B + a x D + f x S - P d, P = G (.) x y' (y: K or X2)
 *   the end: D <- a_C D + f_C S - (G_C y)' d, S <- h_C S - (N_C y)' d
 * P1 goes forward, and again to keep copies of D and S where pieces begin. P2 goes back, with the
 * piece made again; b's are cotangents, cD, cS those of where the piece ends:
 *   reads, W2 first: T = bz D', bx = bz B' + a T + f bz S' + bQ y, bQ = -(bz d') (.) G, ba = T.x,
 *     bf = bz S'.x, bG = -(bz d') (.) (x y'), by = bQ' x, bd = -P' bz, bz1 = bx2 f'(z1)
 *   the end: bG_C -= d.(y cD), bd -= G_C y cD, by -= G_C d cD', likewise N and cS;
 *     ba_C += <D, cD>, bf_C += <S, cD>, bh_C += <S, cS>
 *   pairs: u1 = bd1 f'(Z1), bd2 += u1 W2, e2 and br of the norm from bd2 (room @23's), bV = -br,
 *     bX2 += e2 W2', e1 = bX2 f'(Z1) + bd1 b1 f''(Z1), bK += br + e1 W1'
 *   E = y' e (+ u1' d2 of W2):  cS <- f_C cD + h_C cS + x' f bz,  cD <- a_C cD + x' a bz + E,
 *     bB += x' bz + E; of several pieces, the first one's cD has the E of all of them (cW)
 * Hidden numbers are shared out: a block has its columns of W1 and rows of W2, the first one the
 * row of biases too (others a 0 for that 1), and what is [C, hidden]; what is of keys is made by
 * all alike. A sum over hidden numbers is there in parts, one a block: z2 and Z2; X2 x2' and so P
 * and bd2 of W2; bQ of W1 and so bK and bq; bG, bN, ba, bf, bh and so gradients of gates, all
 * linear in each other. They are added in the order of blocks, where each has stored its part and
 * all have met: Z2, z2, bd2 with u1 W2, and bK, bq and gates when a piece is done. */
typedef struct miras__fast_perceptron {
  miras__fast_chunks of;             /* rows, gates and their gradients; sizes of the call        */
  const float *momentum, *gain, *bias, *rho;
  float *dmomentum, *dgain, *dbias, *drho;           /* the latter of each block                  */
  float *memory;                     /* of each block, `each` floats                              */
  size_t each;
  float one_momentum, epsilon;
  unsigned n, hidden, in1, in2;      /* of keys, a block's; with 16 more where there are biases   */
  unsigned whole, ranks;             /* hidden numbers of all `ranks` blocks of a cluster         */
  unsigned chunk, rows;              /* tokens of a chunk; C of a piece, in whole 16s             */
  unsigned pieces, all_pieces;       /* of a chunk; of a sequence                                 */
  unsigned weights, all;             /* of a memory; with rows of in1 and in2                     */
  unsigned slot, copies;             /* of a layer; which D, S, B and W (of several pieces) take  */
  unsigned stay;                     /* 1: there is shared memory for copies of both layers       */
  int target, speed, rates, function, momentum_gate, again;
} miras__fast_perceptron;

/* f''(x) of what hidden rows go through. */
__device__ static inline float miras__fast_bend(int f, float x) {
  const float s = miras__logistic(x), t = tanhf(0.7978845608f * (x + 0.044715f * x * x * x));
  const float y = 0.7978845608f * (1 + 0.134145f * x * x), z = 0.7978845608f * 0.26829f * x;
  if (f == MIRAS_FN_SILU) return s * (1 - s) * (2 + x * (1 - 2 * s));
  return f == MIRAS_FN_GELU ? (1 - t * t) * (y + 0.5f * x * (z - 2 * t * y * y)) : 0;
}

/* All threads of a cluster come to here, then each sees what they had stored. */
#ifdef MIRAS_CUDA_SHIM
  #define miras__cluster_meets() shim_wait(0, SHIM_CLUSTER, SHIM_HERE)
#else
__device__ static inline void miras__cluster_meets(void) {
  #if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;\n"
               "barrier.cluster.wait.acquire.aligned;" : : : "memory");
  #endif
}
#endif

/* A block at work. Layer l is 0 or 1. */
struct miras__fast_p {
  /* of bfloat16 in shared memory: rows of in1, of in2, squares, a layer's matrices; G is bz */
  enum { K, Q, D2, R0, R1, G2, GA, GF, E2, X2, Q2, D1, G1, U1, E1, P, BQ, D, S, B, W };
  /* floats: f'(Z1), f''(Z1), b1, f'(z1), bd1, bX2 [C, in2]; xh, e, z2, d xh, dy, bd2, bK [C, in1];
   * squares and parts of sums [C, 64]; and [C] in shared memory */
  enum { SLOPE, BEND, B1, SLOPEQ, BD1, BX, XH, E, Z2, WG, WB, BD2, BK, G, N, BG, BN, PART0, PART1,
         KEEP, STEP, SPEED, MIX, MIXES, A, F, H, DA, DF, DKEEP, DSPEED, INVERSE, SUM };
  enum { DQ = 2, DK, DGATES };       /* parts of sums [C, n]; before them two places take turns   */
  const miras__fast_perceptron &a;
  const unsigned C, n, hidden, in1, in2, t, lane, warp, rank, task, head;
  unsigned ldw, count, from;         /* of matrices at hand; a piece's tokens; before it in chunk */
  unsigned turn;                     /* the place of the next parts                               */
  int layer, ends_on, held;          /* at hand, or cD and cS; what stays: 1: B, 2: D and S too   */
  size_t row;                        /* its first                                                 */
  float *state, *back, *wide;        /* D, S; cD, cS, bB, cW; what no product reads               */
  bf16 *base, *ends, *tapes;         /* B; cD, cS; D, S of pieces                                 */
  const bf16 *tape, *anchor;         /* D, S where this piece and where its chunk begin           */

  __device__ explicit miras__fast_p(const miras__fast_perceptron &x)
    : a(x), C(x.rows), n(x.n), hidden(x.hidden), in1(x.in1), in2(x.in2), t(threadIdx.x),
      lane(threadIdx.x % 32), warp(threadIdx.x / 32), rank(blockIdx.x % x.ranks),
      task(blockIdx.x / x.ranks), head(task % x.of.heads), ldw(0), count(0), from(0), turn(0),
      layer(0), ends_on(0), held(0), row(0), tape(NULL), anchor(NULL) {
    state = a.memory + blockIdx.x * a.each, back = state + 2 * a.all;
    wide = part(rank, DGATES) + 4 * C;
    base = (bf16 *)(void *)(of(PART1) + 64 * C), ends = base + a.all, tapes = ends + 2 * a.all;
  }
  __device__ unsigned ld(int i) const {
    return i < X2 ? in1 + 8 : i < P ? in2 + 8 : i < D ? C + 8 : ldw;
  }
  __device__ bf16 *at(int i) const {
    const int one = i < X2 ? i : (int)X2, two = i < P ? i - one : P - one;
    const int squares = i < D ? i - one - two : 2, stays = (int)a.stay;
    const int slot = i < B ? i - D : 1 + a.speed + (i - B) * a.target;
    return (bf16 *)(void *)miras__fast_room +
           C * (unsigned)(one * (int)(in1 + 8) + two * (int)(in2 + 8) + squares * (int)(C + 8)) +
           (i < D ? 0 : stays && ends_on && i == D ? 2 * a.copies
            : (unsigned)(slot + stays * (slot + layer))) * a.slot;
  }
  __device__ float *of(int i) const {
    const int two = i < XH ? i : (int)XH, one = i < G ? i - two : G - two;
    if (i < KEEP) return wide + C * ((size_t)two * in2 + (size_t)one * in1 +
                                     (i < G ? 0 : 64 * (size_t)(i - G)));
    return (float *)(void *)(at(P) + 2 * C * (C + 8) +
                             (a.copies + a.stay * (a.copies + 1)) * a.slot) +
           (unsigned)(i - KEEP) * C;
  }
  /* What block r of the cluster has of sums; and they themselves, once all have met. */
  __device__ float *part(unsigned r, unsigned place) const {
    return a.memory + (blockIdx.x - rank + r) * a.each + 6 * (size_t)a.all + place * C * n;
  }
  __device__ float sum(unsigned place, unsigned e) const {
    float all = 0;
    for (unsigned r = 0; r < a.ranks; r++) all += part(r, place)[e];
    return all;
  }
  __device__ void meet() {
    turn ^= 1;                       /* the other place has been read before the next meeting     */
    if (a.ranks > 1) miras__cluster_meets();
    else __syncthreads();
  }
  __device__ unsigned in(int l) const { return l ? in2 : in1; }
  __device__ unsigned out(int l) const { return l ? n : hidden; }
  __device__ size_t first(int l) const { return l ? (size_t)in1 * hidden : 0; }

  /* A 16 x 16 of a result from (i, j) on, a warp's: up to four sums, of which a thread has numbers
   * m, e each. */
  struct tile {
    unsigned i, j;
    float c[2][4], u[2][4], v[2][4], z[2][4];
  };
  template <class T> __device__ void tiles(unsigned rows, unsigned cols, T f) const {
    for (unsigned e = warp; e < rows / 16 * (cols / 16); e += 8) {
      tile x = {e / (cols / 16) * 16, e % (cols / 16) * 16, {}, {}, {}, {}};
      f(x);
    }
  }
  template <class T> __device__ void each(const tile &x, T f) const {   /* (row, column, m, e)    */
    MIRAS__ALL_OF for (unsigned m = 0; m < 2; m++)
      MIRAS__ALL_OF for (unsigned e = 0; e < 4; e++)
        f(x.i + lane / 4 + e / 2 * 8, x.j + 8 * m + 2 * (lane % 4) + e % 2, m, e);
  }
  /* c += A B of k terms, each of which may lie turned; of W, the layer's at hand, in place of B. */
  template <int A_TURNED, int B_TURNED>
  __device__ void times(const tile &x, float (*c)[4], int l, int r, unsigned k) const {
    miras__warp_times<2, A_TURNED, B_TURNED>(c, at(l), ld(l), x.i, at(r), ld(r), x.j, 0, k);
  }
  template <int TURNED> __device__ void through(tile &x, int l, unsigned k) const {
    times<0, TURNED>(x, x.c, l, a.pieces > 1 ? W : D, k);
    if (a.target) times<0, TURNED>(x, x.c, l, B, k);
  }
  /* u = l D, v = l S, c += l B + a u + f v, of matrices that may lie turned. */
  template <int TURNED> __device__ void read(tile &x, int l, unsigned k) const {
    times<0, TURNED>(x, x.u, l, D, k);
    if (a.speed) times<0, TURNED>(x, x.v, l, S, k);
    if (a.target) times<0, TURNED>(x, x.c, l, B, k);
    each(x, [&](unsigned r, unsigned, unsigned m, unsigned e) {
      x.c[m][e] += of(A)[r] * x.u[m][e] + of(F)[r] * x.v[m][e];
    });
  }
  /* c in bfloat16 to rows; by c to floats [C, ld], with adds 1 added to them, with 2 they to it. */
  __device__ void put(bf16 *to, unsigned ld, const tile &x, const float (*c)[4],
                      unsigned rows) const {
    miras__rows_put<2>(to + x.j, ld, rows, x.i + lane / 4, c);
  }
  __device__ void put(int to, const tile &x, const float (*c)[4]) const {
    put(at(to), ld(to), x, c, C);
  }
  __device__ void keep(float *to, unsigned ld, tile &x, float by = 1, int adds = 0) const {
    each(x, [&](unsigned r, unsigned s, unsigned m, unsigned e) {
      x.c[m][e] = by * x.c[m][e] + (adds ? to[r * ld + s] : 0);
      if (adds < 2) to[r * ld + s] = x.c[m][e];
    });
  }
  __device__ void mask(int to, tile &x, const float *by) const {   /* [C, hidden]                 */
    each(x, [&](unsigned r, unsigned s, unsigned m, unsigned e) {
      x.c[m][e] *= by[r * hidden + s];
    });
    put(to, x, x.c);
  }
  /* -P of reads and pairs of k columns. */
  __device__ void squares(int reads, int pairs, unsigned k) const {
    tiles(C, C, [&](tile &x) {
      times<0, 1>(x, x.c, reads, pairs, k);
      each(x, [&](unsigned r, unsigned s, unsigned m, unsigned e) {
        x.c[m][e] = s <= r ? -of(G)[r * C + s] * x.c[m][e] : 0;
      });
      put(P, x, x.c);
    });
  }
  /* R0, R1: rows x [C, cols] times u and times v; beyond `rows` zeros. */
  __device__ void scaled(int x, unsigned cols, unsigned rows, const float *u,
                         const float *v) const {
    __syncthreads();
    for (unsigned e = 2 * t; e < C * cols; e += 512) {
      const unsigned r = e / cols, to = r * ld(x) + e % cols;
      const float p = miras__wide(at(x)[to]), q = miras__wide(at(x)[to + 1]);
      const float by0 = r < rows ? u[r] : 0, by1 = r < rows ? v[r] : 0;
      miras__put2(at(R0) + to, p * by0, q * by0), miras__put2(at(R1) + to, p * by1, q * by1);
    }
    __syncthreads();
  }
  /* A row of n, a warp's, each lane its own pairs: f(j) of each; to = f(j) in bfloat16. */
  template <class T> __device__ void own(T f) const {
    for (unsigned j = 2 * lane; j < n; j += 64) f(j), f(j + 1);
  }
  template <class T> __device__ void line(bf16 *to, T f) const {
    for (unsigned j = 2 * lane; j < n; j += 64) miras__put2(to + j, f(j), f(j + 1));
  }
  /* Its means of x(j) and of x(j) xh. */
  template <class T>
  __device__ void means(const float *xh, T x, float *mean, float *along) const {
    float p = 0, q = 0;
    own([&](unsigned j) { p += x(j), q += x(j) * xh[j]; });
    *mean = miras__lanes_sum(p, 32) / (float)n, *along = miras__lanes_sum(q, 32) / (float)n;
  }
  /* x <- (x - mean) / deviation of row r of a sum, of which it returns 1 / that. */
  __device__ float norm(float *x, unsigned r) const {
    float mean, all, by;
    own([&](unsigned j) { x[j] = sum(turn ^ 1, r * n + j); });
    means(x, [&](unsigned j) { return x[j]; }, &mean, &all);
    own([&](unsigned j) { x[j] -= mean; });
    means(x, [&](unsigned j) { return x[j]; }, &mean, &all);
    by = 1 / sqrtf(all + a.epsilon);
    own([&](unsigned j) { x[j] *= by; });
    return by;
  }

  /* Where D and S of piece p are kept; without a way back of chunks' first pieces and of others. */
  __device__ bf16 *tape_of(unsigned p) const {
    return tapes + 2 * (size_t)a.all * (a.again ? p : p % a.pieces > 0);
  }
  /* A rate of token_rates, of a place in the chunk, and its slope. */
  __device__ float rate(unsigned place, float *slope) const {
    const float rho = place < a.chunk ? a.rho[place] : 0, by = 1 / (float)(place + 1);
    const float y = 16 * rho + logf(expm1f(16 * by));
    const int soft = a.rates == MIRAS_TOKEN_RATES_SOFTPLUS;
    *slope = soft ? miras__logistic(y) : by + rho < 0 ? 0 : 1;
    return soft ? miras__softened(y) / 16 : fmaxf(by + rho, 0);
  }

  /* Rows of piece p, gates, and what they make of a, f, h, G and N. */
  __device__ void rows(unsigned p) {
    const miras__fast_chunks &x = a.of;
    const unsigned key = head / x.group * n, begin = p / a.pieces * a.chunk, to = ld(K);
    const unsigned left = x.tokens - begin, end = left < a.chunk ? left : a.chunk;
    from = p % a.pieces * C, count = end - from < C ? end - from : C;
    tape = tape_of(p), anchor = tape_of(p - p % a.pieces);
    row = (size_t)(task / x.heads) * x.tokens + begin + from;
    __syncthreads();
    for (unsigned e = t; e < C * n / 8; e += 256) {
      const unsigned r = e / (n / 8), j = e % (n / 8) * 8;
      miras__bring16_of(at(K) + r * to + j, x.k + (row + r) * x.ldk + key + j, r < count);
      miras__bring16_of(at(Q) + r * to + j, x.q + (row + r) * x.ldq + key + j, r < count);
    }
    miras__bring_group();
    for (unsigned e = 2 * t; in1 > n && e < C * 16; e += 512) {
      const unsigned r = e / 16, one = r * to + n + e % 16, two = r * ld(X2) + hidden + e % 16;
      const float is = r < count && !(e % 16) ? 1.0f : 0, has = rank ? 0 : is;
      miras__put2(at(K) + one, is, 0), miras__put2(at(Q) + one, is, 0);
      miras__put2(at(X2) + two, has, 0), miras__put2(at(Q2) + two, has, 0);
      miras__put2(at(U1) + two, 0, 0);
    }
    if (t < C) {
      const int has = t < count;
      const size_t place = (row + t) * x.ld_keep + head;
      of(KEEP)[t] = !has ? 1 : x.keep_gate ? x.keep[place] : x.keep[head];
      of(STEP)[t] = !has ? 0 : x.step ? x.step[place] : x.one_step;
      of(SPEED)[t] = a.rates || !has ? 1 : !a.speed ? 0
                     : a.momentum_gate ? a.momentum[place] : a.one_momentum;
      of(MIX)[t] = a.rates ? rate(from + t, of(MIXES) + t) : 1;
    }
    __syncthreads();
    if (t < C) {
      float g = 0, s = 0;
      for (unsigned r = t; r < C; r++) {
        s = r == t ? of(STEP)[r] : of(SPEED)[r] * s;
        g = (a.rates ? 0 : of(KEEP)[r] * g) + of(MIX)[r] * s;
        of(G)[r * C + t] = g, of(N)[r * C + t] = s;
      }
    } else if (t == 255) {
      float keeps = 1, f = 0, s = a.rates ? from > 0 : (float)a.speed, slope;
      const float was = a.rates && from ? rate(from - 1, &slope) : 0;
      for (unsigned r = 0; r < C; r++) {
        keeps *= of(KEEP)[r], s *= of(SPEED)[r];
        f = a.rates ? s * (of(MIX)[r] - keeps * was) : of(KEEP)[r] * f + s;
        of(A)[r] = keeps, of(F)[r] = f, of(H)[r] = s;
      }
    }
  }

  /* Copies of layer l's matrices: D and S with B and W, or cD and cS in place of D and S. Where
   * those of both layers stay, cD takes a place of its own and cS that of S, which no product of
   * the piece reads any more. */
  __device__ void bring(int l, int with = 1) {
    const unsigned cols = out(l);
    const int has = a.stay && with ? held : 0;
    const bf16 *const source = with ? tape : ends;
    ldw = cols + 8, layer = l, ends_on = !with;
    __syncthreads();
    for (unsigned e = t; has < 2 && e < in(l) * cols / 8; e += 256) {
      const unsigned to = e / (cols / 8) * ldw + e % (cols / 8) * 8;
      const size_t place = first(l) + 8 * e;
      miras__bring16(at(D) + to, source + place);
      if (a.speed) miras__bring16(at(S) + to, source + a.all + place);
      if (with && a.target && !has) miras__bring16(at(B) + to, base + place);
      if (with && a.pieces > 1) miras__bring16(at(W) + to, anchor + place);
    }
    miras__bring_group();
    miras__bring_wait<0>();
    __syncthreads();
  }

  /* The pairs of a piece, and (way 0) its answers, or (2) bz of them. */
  __device__ void forward(int way) {
    const miras__fast_chunks &rows = a.of;
    const float *const gain = a.gain + head * n, *const bias = a.bias + head * n;
    bring(0);
    tiles(C, hidden, [&](tile &x) {
      through<0>(x, K, in1);
      each(x, [&](unsigned r, unsigned s, unsigned m, unsigned e) {
        of(BEND)[r * hidden + s] = miras__fast_bend(a.function, x.c[m][e]);
        miras__fast_f<1>(a.function, &x.c[m][e], of(SLOPE) + r * hidden + s);
      });
      put(X2, x, x.c);
      if (way == 1) return;
      miras__clear<2>(x.c);
      read<0>(x, Q, in1), keep(of(SLOPEQ), hidden, x);
    });
    if (way != 1) squares(Q, K, in1);
    bring(1);
    tiles(C, n, [&](tile &x) { through<0>(x, X2, in2), keep(part(rank, turn), n, x); });
    meet();
    for (unsigned r = warp; r < C; r += 8) {         /* errors, and d2 of them                    */
      float *const xh = of(XH) + r * n, *const e = of(E) + r * n, mean, along;
      const float by = norm(xh, r);
      const bf16 *const v = rows.v + (row + r) * rows.ldv + head * n, *const k = at(K) + r * ld(K);
      if (!lane) of(INVERSE)[r] = by;
      own([&](unsigned j) {
        e[j] = r < count ? gain[j] * xh[j] + bias[j] + miras__wide(k[j]) - miras__wide(v[j]) : 0;
      });
      means(xh, [&](unsigned j) { return gain[j] * e[j]; }, &mean, &along);
      line(at(D2) + r * ld(D2),
           [&](unsigned j) { return by * (gain[j] * e[j] - mean - xh[j] * along); });
    }
    __syncthreads();
    tiles(C, hidden, [&](tile &x) {
      through<1>(x, D2, n), keep(of(B1), hidden, x), mask(D1, x, of(SLOPE));
    });
    __syncthreads();
    if (way == 1) return;
    tiles(C, hidden, [&](tile &x) {
      times<0, 0>(x, x.c, P, D1, C);
      each(x, [&](unsigned r, unsigned s, unsigned m, unsigned e) {
        float *const z = of(SLOPEQ) + r * hidden + s;
        x.c[m][e] += *z;
        miras__fast_f<1>(a.function, &x.c[m][e], z);
      });
      put(Q2, x, x.c);
    });
    __syncthreads();
    squares(Q2, X2, in2);
    __syncthreads();
    tiles(C, n, [&](tile &x) {
      times<0, 0>(x, x.c, P, D2, C), read<0>(x, Q2, in2), keep(part(rank, turn), n, x);
    });
    meet();
    for (unsigned r = warp; r < C; r += 8) {         /* answers, or bz of them                    */
      float *const xh = of(Z2) + r * n, *const d = of(WB) + r * n, mean, along;
      const float by = norm(xh, r);
      const bf16 *const q = at(Q) + r * ld(Q);
      const auto z = [&](unsigned j) { return by * (gain[j] * d[j] - mean - xh[j] * along); };
      if (way != 2) {
        if (r < count && r % a.ranks == rank)
          line(rows.y + (row + r) * rows.ldy + head * n, [&](unsigned j) {
            return gain[j] * xh[j] + bias[j] + miras__wide(q[j]);
          });
        continue;
      }
      own([&](unsigned j) {
        d[j] = r < count ? miras__wide(rows.d[(row + r) * rows.ldd + head * n + j]) : 0;
        of(WG)[r * n + j] = d[j] * xh[j];
      });
      means(xh, [&](unsigned j) { return gain[j] * d[j]; }, &mean, &along);
      line(at(G2) + r * ld(G2), z);
      line(at(GA) + r * ld(G2), [&](unsigned j) { return of(A)[r] * z(j); });
      line(at(GF) + r * ld(G2), [&](unsigned j) { return of(F)[r] * z(j); });
    }
  }

  /* The end of piece p, and copies of D and S where the next one begins, of D as its chunk's. */
  __device__ void end(unsigned p) {
    const unsigned last = count - 1;
    const int ends_chunk = a.pieces > 1 && (p + 1) % a.pieces == 0;
    bf16 *const next = tape_of(p + 1);
    for (int l = 0; l < 2; l++) {
      ldw = out(l) + 8, layer = l;
      scaled(l ? D2 : K, l ? n : in1, count, of(G) + last * C, of(N) + last * C);
      tiles(in(l), out(l), [&](tile &x) {
        times<1, 0>(x, x.c, l ? X2 : R0, l ? R0 : D1, C);
        if (a.speed) times<1, 0>(x, x.u, l ? X2 : R1, l ? R1 : D1, C);
        each(x, [&](unsigned r, unsigned s, unsigned m, unsigned e) {
          float *const dual = state + first(l) + (size_t)r * out(l) + s, *const fast = dual + a.all;
          *dual = x.c[m][e] = of(A)[last] * *dual + of(F)[last] * *fast - x.c[m][e];
          *fast = x.u[m][e] = of(H)[last] * *fast - x.u[m][e];
        });
        if (a.stay) put(at(D), ldw, x, x.c, in(l));
        if (a.stay && a.speed) put(at(S), ldw, x, x.u, in(l));
        if (a.stay && ends_chunk) put(at(W), ldw, x, x.c, in(l));
        if (a.stay && !a.again) return;
        put(next + first(l), out(l), x, x.c, in(l));
        put(next + a.all + first(l), out(l), x, x.u, in(l));
      });
    }
  }

  /* Rows' products of u and of v with l, of 16 columns; and their sums over `cols`. */
  __device__ void dots(tile &x, float (*u)[4], float (*v)[4], int l) const {
    MIRAS__ALL_OF for (unsigned h = 0; h < 2; h++) {
      const unsigned r = x.i + lane / 4 + 8 * h, to = r * 64 + x.j / 16;
      const float p = miras__row_dot<2>(u, h, at(l) + r * ld(l) + x.j);
      const float q = miras__row_dot<2>(v, h, at(l) + r * ld(l) + x.j);
      if (lane % 4 == 0) of(PART0)[to] = p, of(PART1)[to] = q;
    }
  }
  __device__ float parts(int part, unsigned cols) const {
    float all = 0;
    for (unsigned j = 0; j < cols / 16; j++) all += of(part)[t * 64 + j];
    return all;
  }

  /* The adjoint of reads in layer l, whose matrices are at hand. */
  __device__ void read_back(int l) const {
    const int q = l ? Q2 : Q, y = l ? X2 : K, d = l ? D2 : D1, z = l ? G2 : G1;
    __syncthreads();
    tiles(C, C, [&](tile &x) {
      times<0, 1>(x, x.c, z, d, out(l)), times<0, 1>(x, x.u, q, y, in(l));
      each(x, [&](unsigned r, unsigned s, unsigned m, unsigned e) {
        const float b = x.c[m][e], is = x.u[m][e], g = s <= r ? of(G)[r * C + s] : 0;
        x.c[m][e] = -g * b, x.u[m][e] = g * is;
        if (s <= r) of(BG)[r * C + s] = (l ? 0 : of(BG)[r * C + s]) - b * is;
        if (l) of(BN)[r * C + s] = 0;
      });
      put(P, x, x.u), put(BQ, x, x.c);
    });
    __syncthreads();
    tiles(C, in(l), [&](tile &x) {
      times<0, 0>(x, x.c, BQ, y, C), read<1>(x, z, out(l)), dots(x, x.u, x.v, q);
      if (l && x.j < hidden) mask(G1, x, of(SLOPEQ));
      if (!l && x.j < n) {                           /* and the residual's                        */
        if (!rank) keep(of(WB), n, x, 1, 2);
        keep(part(rank, DQ), n, x);
      }
      miras__clear<2>(x.c);
      times<1, 0>(x, x.c, BQ, q, C), keep(of(l ? BX : BK), in(l), x);
    });
    tiles(C, out(l), [&](tile &x) {
      times<1, 0>(x, x.c, P, z, C), keep(of(l ? BD2 : BD1), out(l), x, -1);
    });
    __syncthreads();
    if (t >= C) return;
    of(DA)[t] = (l ? 0 : of(DA)[t]) + parts(PART0, in(l));
    of(DF)[t] = (l ? 0 : of(DF)[t]) + parts(PART1, in(l));
  }

  /* b [C, ld] -= what c and u, made of cD and cS, are of a piece's end; c becomes that. */
  __device__ void less(float *b, unsigned ld, tile &x) const {
    const float *const g = of(G) + (count - 1) * C, *const s1 = of(N) + (count - 1) * C;
    each(x, [&](unsigned r, unsigned s, unsigned m, unsigned e) {
      if (r < count) b[r * ld + s] -= g[r] * x.c[m][e] + s1[r] * x.u[m][e];
      x.c[m][e] = b[r * ld + s];
    });
  }
  /* The adjoint of a piece's end in layer l, of cD and cS, which are at hand; bd1 then becomes u1
   * and what e1 has of f''. */
  __device__ void end_back(int l) const {
    const unsigned last = (count - 1) * C;
    const int y = l ? X2 : K, d = l ? D2 : D1;
    tiles(C, out(l), [&](tile &x) {
      times<0, 0>(x, x.c, y, D, in(l));
      if (a.speed) times<0, 0>(x, x.u, y, S, in(l));
      dots(x, x.c, x.u, d), less(of(l ? BD2 : BD1), out(l), x);
      if (l) return;
      each(x, [&](unsigned r, unsigned s, unsigned, unsigned) {
        of(BD1)[r * hidden + s] *= of(B1)[r * hidden + s] * of(BEND)[r * hidden + s];
      });
      mask(U1, x, of(SLOPE));
    });
    tiles(C, in(l), [&](tile &x) {
      times<0, 1>(x, x.c, d, D, out(l));
      if (a.speed) times<0, 1>(x, x.u, d, S, out(l));
      less(of(l ? BX : BK), in(l), x);
    });
    __syncthreads();
    if (t >= count) return;
    of(BG)[last + t] -= parts(PART0, out(l)), of(BN)[last + t] -= parts(PART1, out(l));
  }

  /* The adjoint of pairs, from bd2, u1, and what bX2, bK and e1 have. */
  __device__ void pairs_back() {
    const miras__fast_chunks &rows = a.of;
    const float *const gain = a.gain + head * n;
    bring(1);
    tiles(C, n, [&](tile &x) {
      through<0>(x, U1, hidden), keep(of(BD2), n, x, 1, 2), keep(part(rank, turn), n, x);
    });
    meet();
    for (unsigned r = warp; r < C; r += 8) {
      float *const b = of(BD2) + r * n, *const xh = of(XH) + r * n, *const e = of(E) + r * n;
      const bf16 *const d = at(D2) + r * ld(D2);
      const float by = of(INVERSE)[r];
      float mean, along, all, weight, turns;
      own([&](unsigned j) { b[j] = sum(turn ^ 1, r * n + j); });
      means(xh, [&](unsigned j) { return b[j] * miras__wide(d[j]); }, &turns, &all);
      means(xh, [&](unsigned j) { return b[j]; }, &mean, &along);
      means(xh, [&](unsigned j) { return gain[j] * e[j]; }, &all, &weight);
      if (r < count && r % a.ranks == rank)          /* -br                                       */
        line(rows.dv + (row + r) * rows.ld_dv + head * n, [&](unsigned j) {
          return -gain[j] * (by * (b[j] - mean - xh[j] * along));
        });
      own([&](unsigned j) {
        const float u = by * (b[j] - mean - xh[j] * along), br = gain[j] * u;
        of(WG)[r * n + j] += e[j] * u + xh[j] * br, of(WB)[r * n + j] += br;
        of(BK)[r * in1 + j] += rank ? 0 : br;
        b[j] = gain[j] * br - by * (weight * b[j] + along * gain[j] * e[j]);
      });
      means(xh, [&](unsigned j) { return b[j]; }, &mean, &along);
      line(at(E2) + r * ld(E2),
           [&](unsigned j) { return by * (b[j] - mean - xh[j] * (along + turns)); });
    }
    __syncthreads();
    tiles(C, hidden, [&](tile &x) {
      through<1>(x, E2, n);
      each(x, [&](unsigned r, unsigned s, unsigned m, unsigned e) {
        const unsigned i = r * hidden + s;
        x.c[m][e] = of(BD1)[i] + of(SLOPE)[i] * (of(BX)[r * in2 + s] + x.c[m][e]);
      });
      put(E1, x, x.c);
    });
    bring(0);
    tiles(C, n, [&](tile &x) {
      through<1>(x, E1, hidden), keep(of(BK), in1, x, 1, 2), keep(part(rank, DK), n, x);
    });
  }

  /* cD, cS, cW and bB where the piece begins, of layer l; sums += of <D, cD>, <S, cD>, <S, cS>. */
  __device__ void weights_back(int l, float sums[3]) const {
    const unsigned last = count - 1;
    tiles(in(l), out(l), [&](tile &x) {
      times<1, 0>(x, x.c, l ? X2 : K, l ? E2 : E1, C);
      if (l) times<1, 0>(x, x.c, U1, D2, C);
      times<1, 0>(x, x.u, l ? Q2 : R0, l ? GA : G1, C);
      if (a.speed) times<1, 0>(x, x.v, l ? Q2 : R1, l ? GF : G1, C);
      if (a.target) times<1, 0>(x, x.z, l ? Q2 : Q, l ? G2 : G1, C);
      each(x, [&](unsigned r, unsigned s, unsigned m, unsigned e) {
        const size_t place = first(l) + (size_t)r * out(l) + s;
        float *const cd = back + place, *const cs = cd + a.all, *const bb = cs + a.all, was = *cd;
        const float fast = miras__wide(tape[a.all + place]);
        sums[0] += miras__wide(tape[place]) * was, sums[1] += fast * was, sums[2] += fast * *cs;
        *bb += x.z[m][e] + x.c[m][e];
        if (a.pieces > 1) {          /* cD has what is of W where the chunk begins                */
          const float all = bb[a.all] + x.c[m][e];
          bb[a.all] = from ? all : 0, x.c[m][e] = from ? 0 : all;
        }
        *cd = x.c[m][e] += of(A)[last] * was + x.u[m][e];
        *cs = x.v[m][e] += of(F)[last] * was + of(H)[last] * *cs;
      });
      put(ends + first(l), out(l), x, x.c, in(l));
      put(ends + a.all + first(l), out(l), x, x.v, in(l));
    });
  }

  /* Gradients of gates from those of a, f, h, G and N, and of rows. */
  __device__ void gates_back(const float sums[3]) {
    const miras__fast_chunks &x = a.of;
    float all[3];
    MIRAS__ALL_OF for (unsigned i = 0; i < 3; i++) all[i] = miras__block_all<0>(sums[i], of(SUM));
    if (t < C) {
      float g = 0, s = 0;
      for (unsigned r = C; r-- > t;) {
        g += of(BG)[r * C + t], s += of(BN)[r * C + t] + of(MIX)[r] * g;
        of(BG)[r * C + t] = g, of(BN)[r * C + t] = s;
        g *= a.rates ? 0 : of(KEEP)[r], s *= of(SPEED)[r];
      }
    } else if (t == 255) {
      float b = 0, f = 0, h = 0, slope = 0, before = 0;
      const float was = a.rates && from ? rate(from - 1, &slope) : 0;
      for (unsigned r = C; r-- > 0;) {
        const int ends_here = r + 1 == count;
        b += of(DA)[r] + (ends_here ? all[0] : 0), f += of(DF)[r] + (ends_here ? all[1] : 0);
        if (a.rates) {               /* f is of r's rate and of the one before the piece          */
          f = from ? f : 0, of(DF)[r] = f, b -= was * f, before -= of(A)[r] * f, f = 0;
        }
        h += f + (ends_here ? all[2] : 0);
        of(DKEEP)[r] = (r ? of(A)[r - 1] : 1) * b + (r ? of(F)[r - 1] : 0) * f;
        of(DSPEED)[r] = (r ? of(H)[r - 1] : 1) * h;
        b *= of(KEEP)[r], f *= of(KEEP)[r], h *= of(SPEED)[r];
      }
      if (a.rates) of(DSPEED)[0] = slope * before;
    }
    __syncthreads();
    if (t < count) {
      const float *const bg = of(BG) + t * C, *const bs = of(BN) + t * C;
      float *const to = part(rank, DGATES) + t;
      float keeps = of(DKEEP)[t], speeds = of(DSPEED)[t];
      float mix = of(N)[t * C + t] * bg[t] + of(DF)[t];
      for (unsigned j = 0; j < t; j++) {
        keeps += a.rates ? 0 : of(G)[(t - 1) * C + j] * bg[j];
        speeds += of(N)[(t - 1) * C + j] * bs[j], mix += of(N)[t * C + j] * bg[j];
      }
      to[0] = keeps, to[C] = bs[t], to[2 * C] = speeds, to[3 * C] = of(MIXES)[t] * mix;
    }
    meet();
    for (unsigned e = 2 * (256 * rank + t); e < count * n; e += 512 * a.ranks) {
      const size_t r = row + e / n, j = head * n + e % n;
      miras__put2(x.dq + r * x.ld_dq + j, sum(DQ, e), sum(DQ, e + 1));
      miras__put2(x.dk + r * x.ld_dk + j, sum(DK, e), sum(DK, e + 1));
    }
    if (t < count && !rank) {
      const size_t place = (row + t) * x.ld_keep + head;
      if (x.dkeep) x.dkeep[place] = sum(DGATES, t);
      if (x.dstep) x.dstep[place] = sum(DGATES, C + t);
      if (a.dmomentum) a.dmomentum[place] = sum(DGATES, 2 * C + t);
      if (a.rates) {
        float *const drho = a.drho + task * a.chunk + from + t;
        *drho += sum(DGATES, 3 * C + t);
        if (from && !t) drho[-1] += sum(DGATES, 2 * C);
      }
    }
  }

  /* Where number e of a block's memory, whose rows are in1 and in2, is in the whole; (size_t)-1:
   * nowhere. */
  __device__ size_t place(unsigned e) const {
    const unsigned ones = in1 > n, one = in1 * hidden, all = (n + ones) * a.whole, r = e / hidden;
    if (e < one) return r < n + ones ? r * a.whole + rank * hidden + e % hidden : (size_t)-1;
    if ((e -= one) < hidden * n) return all + rank * hidden * n + e;
    return !rank && e < (hidden + ones) * n ? all + (a.whole - hidden) * n + e : (size_t)-1;
  }
};

MIRAS__FAST_GRID(256, 1) miras__run_fast_p1(const __grid_constant__ miras__fast_perceptron a) {
  miras__fast_p w(a);
  bf16 *const tape = w.tapes;
  for (unsigned e = 2 * w.t; e < a.all; e += 512) {      /* pairs are of a row                    */
    const size_t at = w.place(e);
    const float *const init = a.of.init + (size_t)w.head * a.weights;
    const float x = at == (size_t)-1 ? 0 : init[at], y = at == (size_t)-1 ? 0 : init[at + 1];
    w.state[e] = a.target ? 0 : x, w.state[e + 1] = a.target ? 0 : y;
    w.state[a.all + e] = w.state[a.all + e + 1] = 0;
    miras__put2(w.base + e, x, y), miras__put2(tape + e, w.state[e], w.state[e + 1]);
    miras__put2(tape + a.all + e, 0, 0);
  }
  for (unsigned p = 0; p < a.all_pieces; p++) {
    w.rows(p);
    w.forward(a.again), w.held = 2;
    if (p + 1 < a.all_pieces) w.end(p);
  }
}
MIRAS__FAST_GRID(256, 1) miras__run_fast_p2(const __grid_constant__ miras__fast_perceptron a) {
  miras__fast_p w(a);
  const unsigned t = w.t, n = a.n;
  float dgain = 0, dbias = 0;
  for (unsigned e = t; e < 4 * a.all; e += 256) w.back[e] = 0;
  for (unsigned e = t; !w.rank && e < a.chunk; e += 256) a.drho[w.task * a.chunk + e] = 0;
  for (unsigned e = 2 * t; e < 2 * a.all; e += 512) miras__put2(w.ends + e, 0, 0);
  for (unsigned p = a.all_pieces; p-- > 0;) {
    float sums[3] = {0, 0, 0};
    w.rows(p);
    w.held = p + 1 < a.all_pieces;
    w.forward(2), w.held = 2;
    w.read_back(1);
    w.bring(1, 0);
    w.end_back(1);
    w.bring(0);
    w.read_back(0);
    w.bring(0, 0);
    w.end_back(0);
    w.pairs_back();
    w.scaled(w.Q, a.in1, a.rows, w.of(w.A), w.of(w.F));
    w.weights_back(1, sums);
    w.weights_back(0, sums);
    w.gates_back(sums);
    for (unsigned r = 0; t < n && r < w.count; r++)
      dgain += w.of(w.WG)[r * n + t], dbias += w.of(w.WB)[r * n + t];
  }
  if (t < n && !w.rank) a.dgain[w.task * n + t] = dgain, a.dbias[w.task * n + t] = dbias;
  __syncthreads();
  for (unsigned e = t; e < a.all; e += 256) {
    const size_t at = w.place(e);
    if (at == (size_t)-1) continue;
    a.of.dinit[(size_t)w.task * a.weights + at] = w.back[a.target ? 2 * a.all + e : e];
  }
}

/* ---- A: attention ----
 *
 * Heads of queries over the last `window` tokens of their text, `group` of them to a head of keys
 * and values. With s_ij = q_i . k_j / sqrt(DK), i - window < j <= i, in powers of 2:
 *   L_i = log sum_j exp s_ij         P_ij = exp(s_ij - L_i)        y_i = sum_j P_ij v_j
 * Back, with d the gradient of y and D_i = d_i . y_i:
 *   E_ij = P_ij (d_i . v_j - D_i)    dv_j = sum_i P_ij d_i
 *   dq_i = sum_j E_ij k_j / sqrt(DK)                  dk_j = sum_i E_ij q_i / sqrt(DK)
 * A1 keeps L; A2 makes dq, and D for A3, which makes dk and dv. A block has 64 queries of a head
 * (A1, A2), or 64 keys and all queries of the group that see them, head after head (A3). */
typedef struct miras__fast_attention {
  const bf16 *q, *k, *v, *d;         /* [N, ld]; d: the gradient of y                             */
  bf16 *y, *dq, *dk, *dv;
  float *log, *along;                /* [B heads, tokens] L and D                                 */
  unsigned char *texts;              /* of sessions: states, `apart` bytes apart, positions first */
  size_t apart, ring;
  float scale;                       /* 1 / sqrt(DK)                                              */
  unsigned ldq, ldk, ldv, ldd, ldy, ld_dq, ld_dk, ld_dv;
  unsigned heads, group, tokens, blocks, window;
} miras__fast_attention;

/* c [16, 8 N] += A B, A [16, 16 K] being what accumulators of a product before hold, B [16 K, 8 N]
 * in shared memory. */
template <int K, int N>
__device__ static inline void miras__warp_chain(float (*c)[4], float (*a)[4], const bf16 *b,
                                                unsigned ldb) {
  MIRAS__ALL_OF for (unsigned k = 0; k < K; k++) {
    const bf16 *const pb = miras__right_at(b, ldb, 16 * k, 0, 0);
    unsigned x[4], y[4];
    MIRAS__ALL_OF for (unsigned e = 0; e < 4; e++)
      x[e] = miras__halves(a[2 * k + e / 2][e % 2 * 2], a[2 * k + e / 2][e % 2 * 2 + 1]);
    MIRAS__ALL_OF for (unsigned n = 0; n < N; n += 2) {
      miras__fast_load(y, pb + 8 * n, 1);
      miras__fast_times(c[n], x, y[0], y[1]);
      miras__fast_times(c[n + 1], x, y[2], y[3]);
    }
  }
}

/* A block: queries, or in A3 keys, t.. of head h of text b. */
template <int DK> struct miras__fast_a {
  enum {
    LD = DK + 8, TILE = 64 * LD, N = DK / 8, QUERIES = DK > 64 ? 32 : 64,      /* of a step of A3 */
    SOME = QUERIES / 8, HALF = QUERIES * LD, BYTES1 = 2 * 5 * TILE, BYTES2 = 2 * 6 * TILE + 4 * 64,
    BYTES3 = 2 * (2 * TILE + 4 * HALF)
  };
  const miras__fast_attention &a;
  const unsigned warp, lane, from;
  const float scale;                 /* of powers of 2                                            */
  unsigned b, h, t, first;           /* of A1 and A2: the first key                               */
  bf16 *const all;

  __device__ miras__fast_a(const miras__fast_attention &of, unsigned heads, int last)
    : a(of), warp(threadIdx.x / 32), lane(threadIdx.x % 32), from(16 * warp + lane / 4),
      scale(a.scale * 1.44269504f), all((bf16 *)(void *)miras__fast_room) {
    const unsigned i = blockIdx.x / a.blocks, block = blockIdx.x % a.blocks;
    b = i / heads, h = i % heads * (a.heads / heads);
    t = (last ? a.blocks - 1 - block : block) * 64;  /* of queries, what has most keys goes first */
    first = t + 1 > a.window ? (t + 1 - a.window) / 64 * 64 : 0;
  }
  /* Rows of a head from token `start` on are on their way; and 64 keys and values of this one. */
  template <int ROWS>
  __device__ void bring(bf16 *to, const bf16 *of, unsigned ld, unsigned head,
                        unsigned start) const {
    miras__rows_bring<DK, ROWS>(to, of + ((size_t)b * a.tokens + start) * ld + head * DK, ld,
                                a.tokens - start < ROWS ? a.tokens - start : ROWS);
  }
  __device__ void pairs(bf16 *to, unsigned start) const {
    bring<64>(to, a.k, a.ldk, h / a.group, start);
    bring<64>(to + TILE, a.v, a.ldv, h / a.group, start);
    miras__bring_group();
  }
  /* Keys and values from `start` on, which are there now; the next ones are on their way. */
  __device__ const bf16 *next(bf16 *to, unsigned start) const {
    const unsigned step = (start - first) / 64;
    miras__bring_wait<0>();
    __syncthreads();
    if (start < t) pairs(to + (step + 1) % 2 * 2 * TILE, start + 64);
    return to + step % 2 * 2 * TILE;
  }
  /* The block's rows of a head, c times `by`. */
  __device__ void put(bf16 *to, unsigned ld, unsigned head, float (*c)[4], float by) const {
    MIRAS__ALL_OF for (unsigned l = 0; l < 2; l++) miras__row_times<N>(c, l, by);
    miras__rows_put<N>(to + ((size_t)b * a.tokens + t) * ld + head * DK, ld, a.tokens - t, from, c);
  }

  /* A1. */
  __device__ void forward() const {
    bf16 *const q = all, *const kv = q + TILE;
    float o[N][4], s[8][4], top[2] = {-3.0e38f, -3.0e38f}, sum[2] = {0, 0};
    miras__clear<N>(o);
    bring<64>(q, a.q, a.ldq, h, t);
    pairs(kv, first);
    for (unsigned u = first; u <= t; u += 64) {
      const bf16 *const now = next(kv, u);
      miras__clear<8>(s);
      miras__warp_times<8, 0, 1>(s, q, LD, 16 * warp, now, LD, 0, 0, DK);
      MIRAS__ALL_OF for (unsigned l = 0; l < 2; l++) {
        const unsigned back = t + from + 8 * l - u - 2 * (lane % 4);      /* of the first key     */
        float most = top[l], by;
        MIRAS__ALL_OF for (unsigned n = 0; n < 8; n++)
          MIRAS__ALL_OF for (unsigned e = 0; e < 2; e++)
            if (back - 8 * n - e < a.window) most = fmaxf(most, scale * s[n][2 * l + e]);
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
        by = exp2f(top[l] - most), top[l] = most, sum[l] *= by;
        miras__row_times<N>(o, l, by);
        MIRAS__ALL_OF for (unsigned n = 0; n < 8; n++)
          MIRAS__ALL_OF for (unsigned e = 0; e < 2; e++) {
            float *const x = &s[n][2 * l + e];
            *x = back - 8 * n - e < a.window ? exp2f(scale * *x - most) : 0;
            sum[l] += *x;
          }
      }
      miras__warp_chain<4, N>(o, s, now + TILE, LD);
    }
    MIRAS__ALL_OF for (unsigned l = 0; l < 2; l++) {
      const float sums = miras__lanes_sum(sum[l], 4);
      const unsigned r = t + from + 8 * l;
      MIRAS__ALL_OF for (unsigned n = 0; n < N; n++) o[n][2 * l] /= sums, o[n][2 * l + 1] /= sums;
      if (r < a.tokens && lane % 4 == 0)
        a.log[((size_t)b * a.heads + h) * a.tokens + r] = top[l] + log2f(sums);
    }
    put(a.y, a.ldy, h, o, 1);
  }

  /* A2. */
  __device__ void queries() const {
    bf16 *const q = all, *const d = q + TILE, *const kv = d + TILE;
    float *const along = (float *)(void *)(kv + 4 * TILE);
    const size_t row = (size_t)b * a.tokens, rows = ((size_t)b * a.heads + h) * a.tokens;
    const unsigned r = threadIdx.x / 2, own = t + r, c = h * DK + threadIdx.x % 2 * (DK / 2);
    float o[N][4], s[8][4], e[8][4], log[2], sum = 0;
    bring<64>(q, a.q, a.ldq, h, t);
    bring<64>(d, a.d, a.ldd, h, t);
    pairs(kv, first);
    for (unsigned j = 0; own < a.tokens && j < DK / 2; j += 8) {    /* D: half of a row a thread  */
      float x[8], y[8];
      miras__get8(x, a.d + (row + own) * a.ldd + c + j);
      miras__get8(y, a.y + (row + own) * a.ldy + c + j);
      for (unsigned l = 0; l < 8; l++) sum += x[l] * y[l];
    }
    sum = miras__lanes_sum(sum, 2);
    if (threadIdx.x % 2 == 0) along[r] = sum;
    if (threadIdx.x % 2 == 0 && own < a.tokens) a.along[rows + own] = sum;
    MIRAS__ALL_OF for (unsigned l = 0; l < 2; l++) {
      const unsigned at = t + from + 8 * l;
      log[l] = at < a.tokens ? a.log[rows + at] : 0;
    }
    miras__clear<N>(o);
    for (unsigned u = first; u <= t; u += 64) {
      const bf16 *const now = next(kv, u);
      miras__clear<8>(s), miras__clear<8>(e);
      miras__warp_times<8, 0, 1>(s, q, LD, 16 * warp, now, LD, 0, 0, DK);
      miras__warp_times<8, 0, 1>(e, d, LD, 16 * warp, now + TILE, LD, 0, 0, DK);
      MIRAS__ALL_OF for (unsigned n = 0; n < 8; n++)
        MIRAS__ALL_OF for (unsigned l = 0; l < 4; l++) {
          const unsigned at = from + l / 2 * 8, back = t + at - u - 8 * n - 2 * (lane % 4) - l % 2;
          const float p = back < a.window ? exp2f(scale * s[n][l] - log[l / 2]) : 0;
          s[n][l] = p * (e[n][l] - along[at]);
        }
      miras__warp_chain<4, N>(o, s, now, LD);
    }
    put(a.dq, a.ld_dq, h, o, a.scale);
  }

  /* A3. */
  __device__ void keys() const {
    bf16 *const k = all, *const v = k + TILE, *const qd = v + TILE;
    const unsigned end = t + 63 + a.window < a.tokens ? t + 63 + a.window : a.tokens;
    const unsigned each = (end - t + QUERIES - 1) / QUERIES, steps = each * a.group;
    float dk[N][4], dv[N][4], s[SOME][4], e[SOME][4];
    miras__clear<N>(dk), miras__clear<N>(dv);
    pairs(k, t);
    for (unsigned step = 0; step <= steps; step++) {
      const unsigned before = step ? step - 1 : 0;
      const bf16 *const now = qd + before % 2 * 2 * HALF;
      miras__bring_wait<0>();
      __syncthreads();
      if (step < steps) {
        bf16 *const to = qd + step % 2 * 2 * HALF;
        bring<QUERIES>(to, a.q, a.ldq, h + step / each, t + step % each * QUERIES);
        bring<QUERIES>(to + HALF, a.d, a.ldd, h + step / each, t + step % each * QUERIES);
        miras__bring_group();
      }
      if (!step) continue;           /* with the queries of the step before                       */
      const unsigned u = t + before % each * QUERIES;
      const size_t rows = ((size_t)b * a.heads + h + before / each) * a.tokens;
      miras__clear<SOME>(s), miras__clear<SOME>(e);
      miras__warp_times<SOME, 0, 1>(s, k, LD, 16 * warp, now, LD, 0, 0, DK);
      miras__warp_times<SOME, 0, 1>(e, v, LD, 16 * warp, now + HALF, LD, 0, 0, DK);
      MIRAS__ALL_OF for (unsigned n = 0; n < SOME; n++)
        MIRAS__ALL_OF for (unsigned x = 0; x < 2; x++) {
          const unsigned r = u + 8 * n + 2 * (lane % 4) + x, in = r < a.tokens;
          const float log = in ? a.log[rows + r] : 0, along = in ? a.along[rows + r] : 0;
          MIRAS__ALL_OF for (unsigned l = x; l < 4; l += 2) {
            const unsigned back = r - t - from - l / 2 * 8;
            s[n][l] = in && back < a.window ? exp2f(scale * s[n][l] - log) : 0;
            e[n][l] = s[n][l] * (e[n][l] - along);
          }
        }
      miras__warp_chain<SOME / 2, N>(dv, s, now + HALF, LD);
      miras__warp_chain<SOME / 2, N>(dk, e, now, LD);
    }
    put(a.dk, a.ld_dk, h / a.group, dk, a.scale);
    put(a.dv, a.ld_dv, h / a.group, dv, 1);
  }
};
template <int DK>
MIRAS__FAST_GRID(128, 1) miras__run_fast_a1(const __grid_constant__ miras__fast_attention a) {
  miras__fast_a<DK>(a, a.heads, 1).forward();
}
template <int DK>
MIRAS__FAST_GRID(128, 1) miras__run_fast_a2(const __grid_constant__ miras__fast_attention a) {
  miras__fast_a<DK>(a, a.heads, 1).queries();
}
template <int DK>
MIRAS__FAST_GRID(128, 1) miras__run_fast_a3(const __grid_constant__ miras__fast_attention a) {
  miras__fast_a<DK>(a, a.heads / a.group, 0).keys();
}

/* ---- S: sessions, one token of each text ---- */

/* A number of each lane, whose places follow each other, by two; in: is there one? All lanes of the
 * warp call. */
__device__ static inline void miras__lanes_put(bf16 *p, float x, int in) {
  const float next = __shfl_xor_sync(0xffffffffu, x, 1);
  const int both = __shfl_xor_sync(0xffffffffu, in, 1);
  if (in && both && threadIdx.x % 2 == 0) miras__put2(p, x, next);
  else if (in && !both) *p = miras__near(x);
}

/* A number of C, of few rows, behind bias and base; all lanes of the warp call. */
__device__ static inline void miras__few_put(const miras__fast_product *x, unsigned row,
                                             unsigned col, float sum) {
  const size_t to = (size_t)row * x->ldc + col;
  const int in = row < x->m && col < x->n;
  if (x->bias && in) sum += miras__wide(x->bias[col]);
  if (x->base && in) sum += miras__wide(x->base[to]);
  if (!x->wide) miras__lanes_put(x->c + to, sum, in);
  else if (in) x->wide[to] = sum;
}

/* Of 2 N sums, of this lane and the one `d` away, each goes on with N. */
template <int N> __device__ static inline void miras__lanes_share(float *c, unsigned d) {
  const unsigned upper = threadIdx.x & d;
  MIRAS__ALL_OF for (unsigned i = 0; i < N; i++) {
    const float other = upper ? c[i] : c[i + N];
    c[i] = (upper ? c[i + N] : c[i]) + __shfl_xor_sync(0xffffffffu, other, d);
  }
}

/* C [m, n] = A B as in G, of few rows: a block has R of them and 32 columns. A thread goes through
 * its part of the depth, 16 bytes of B at a time; B turned: a warp has four of B's rows. The order
 * of a sum, and what is rounded in it, does not depend on R or m. */
template <int R, int B_TURNED>
MIRAS__FAST_GRID(256, 1)
miras__run_fast_product_rows(const __grid_constant__ miras__fast_product x) {
  float *const room = (float *)(void *)miras__fast_room;
  const unsigned t = threadIdx.x, warp = t / 32, lane = t % 32;
  const unsigned i0 = blockIdx.x / x.across * R, j0 = blockIdx.x % x.across * 32;
  const unsigned col = j0 + t % 32, row = i0 + t / 32;
  float c[8 * R], w[8], sum = 0;
  MIRAS__ALL_OF for (unsigned r = 0; r < 8 * R; r++) c[r] = 0;
  if (B_TURNED) {
    for (unsigned k = 8 * lane; k < x.k; k += 256) {
      float b[4][8];
      MIRAS__ALL_OF for (unsigned o = 0; o < 4; o++) {
        const unsigned j = j0 + 4 * warp + o < x.n ? j0 + 4 * warp + o : x.n - 1;
        miras__get8(b[o], x.b + (size_t)j * x.ldb + k);
      }
      MIRAS__ALL_OF for (unsigned r = 0; r < R; r++) {
        miras__get8(w, x.a + (size_t)(i0 + r < x.m ? i0 + r : x.m - 1) * x.lda + k);
        MIRAS__ALL_OF for (unsigned e = 0; e < 32; e++)
          c[8 * r + e / 8] = fmaf(w[e % 8], b[e / 8][e % 8], c[8 * r + e / 8]);
      }
    }
    MIRAS__ALL_OF for (unsigned r = 0; r < R; r++)
      MIRAS__ALL_OF for (unsigned o = 0; o < 4; o++) {
        c[8 * r + o] = miras__lanes_sum(c[8 * r + o], 32);
        if (!lane) room[r * 32 + 4 * warp + o] = c[8 * r + o];
      }
  } else {
    const unsigned j = j0 + t % 4 * 8;
    for (unsigned k = t / 4 * 4; k < x.k && j < x.n; k += 256) {
      uint2 a[R];
      MIRAS__ALL_OF for (unsigned r = 0; r < R; r++)
        a[r] = *(const uint2 *)(const void *)(x.a + (size_t)(i0 + r < x.m ? i0 + r : x.m - 1) *
                                                      x.lda + k);
      MIRAS__ALL_OF for (unsigned e = 0; e < 4; e++) {
        miras__get8(w, x.b + (size_t)(k + e < x.k ? k + e : k) * x.ldb + j);
        MIRAS__ALL_OF for (unsigned r = 0; r < R; r++) {
          const unsigned two = e < 2 ? a[r].x : a[r].y;
          const float v = k + e >= x.k ? 0 : e & 1 ? miras__of_high(two) : miras__of_low(two);
          MIRAS__ALL_OF for (unsigned l = 0; l < 8; l++)
            c[8 * r + l] = fmaf(v, w[l], c[8 * r + l]);
        }
      }
    }
    miras__lanes_share<4 * R>(c, 4);
    miras__lanes_share<2 * R>(c, 8);
    miras__lanes_share<R>(c, 16);
    MIRAS__ALL_OF for (unsigned i = 0; i < R; i++) {
      const unsigned at = R * (lane / 4 % 2 * 4 + lane / 8 % 2 * 2 + lane / 16) + i;
      room[(warp * R + at / 8) * 32 + lane % 4 * 8 + at % 8] = c[i];
    }
  }
  __syncthreads();
  if (t >= 32 * R || row >= x.m) return;             /* whole warps                               */
  for (unsigned p = 0; p < (B_TURNED ? 1 : 8); p++) sum += room[p * R * 32 + t];
  miras__few_put(&x, row, col, sum);
}

/* C [m, n] = A B with such a B: a block has 8 rows and 16 columns, a warp every eighth tile of the
 * depth, four of them on their way. The tile is the left factor of matrix units. The order of a
 * sum, and what is rounded in it, does not depend on m. Where products are of experts (X), a block
 * has 8 pairs of one, of which there are up to 8 parts; a column of B has ldb tiles, an expert
 * `apart` of them. */
MIRAS__FAST_GRID(256, 2) miras__run_fast_product_q8(const __grid_constant__ miras__fast_product x) {
  float *const room = (float *)(void *)miras__fast_room;
  const unsigned t = threadIdx.x, warp = t / 32, lane = t % 32, r = lane / 4, g = lane % 4;
  const unsigned tile = blockIdx.x % x.across, of = blockIdx.x / x.across;
  unsigned i0 = of * 8, m = x.m;
  size_t first = (size_t)tile * ((x.k + 31) / 32) + warp;      /* of its tiles, the warp's        */
  if (x.tiles) {
    const uint4 *const pairs = x.tiles + of / x.parts;
    i0 = pairs->y + of % x.parts * 8, m = pairs->z;
    first = (size_t)tile * x.ldb + pairs->x * x.apart + warp;
    if (i0 >= m) return;
  }
  const unsigned row = i0 + r < m ? i0 + r : m - 1;
  const uint4 *b = (const uint4 *)(const void *)x.b + first * 32 + lane;
  const float2 *scale = (const float2 *)(const void *)x.scales + first * 8 + r;
  const bf16 *a = x.a + (size_t)(x.list_a ? x.list_a[row] : row) * x.lda + 32 * warp + 8 * g;
  float c[4] = {0, 0, 0, 0}, sum = 0;
  for (unsigned k = 32 * warp; k < x.k; k += 1024, b += 1024, scale += 256, a += 1024) {
    uint4 w[4], y[4];
    float2 by[4];
    MIRAS__ALL_OF for (unsigned i = 0; i < 4; i++)
      if (k + 256 * i < x.k) w[i] = b[256 * i], by[i] = scale[64 * i];
    MIRAS__ALL_OF for (unsigned i = 0; i < 4; i++) {
      y[i].x = y[i].y = y[i].z = y[i].w = 0;
      if (k + 256 * i + 8 * g < x.k) y[i] = *(const uint4 *)(const void *)(a + 256 * i);
    }
    if (x.k & 7)                     /* what is behind the end is another's                       */
      MIRAS__ALL_OF for (unsigned i = 0; i < 4; i++) {
        const unsigned n = x.k - (k + 256 * i + 8 * g);        /* nothing, or at most x.k         */
        y[i].x &= n > 1 ? ~0u : 0xffffu, y[i].y &= n > 3 ? ~0u : n > 2 ? 0xffffu : 0;
        y[i].z &= n > 5 ? ~0u : n > 4 ? 0xffffu : 0;
        y[i].w &= n > 7 ? ~0u : n > 6 ? 0xffffu : 0;
      }
    MIRAS__ALL_OF for (unsigned i = 0; i < 4; i++) {
      unsigned f[4];
      float part[4] = {0, 0, 0, 0};
      if (k + 256 * i >= x.k) break;
      miras__widened4(f, w[i].x, w[i].y);
      miras__fast_times(part, f, y[i].x, y[i].y);
      miras__widened4(f, w[i].z, w[i].w);
      miras__fast_times(part, f, y[i].z, y[i].w);
      c[0] += by[i].x * part[0], c[1] += by[i].x * part[1];
      c[2] += by[i].y * part[2], c[3] += by[i].y * part[3];
    }
  }
  MIRAS__ALL_OF for (unsigned e = 0; e < 4; e++)
    room[(warp * 8 + 2 * g + e % 2) * 16 + r + e / 2 * 8] = c[e];
  __syncthreads();
  if (t >= 128) return;
  for (unsigned p = 0; p < 8; p++) sum += room[p * 128 + t];
  miras__few_put(&x, i0 + t / 16 < m ? i0 + t / 16 : x.m, 16 * tile + t % 16, sum);
}

/* Attention of one token of each text, with the keys and values of its window, [groups, 2, window,
 * DK] from `ring` on, that of token t in row t % window: which the new one's become. A block has a
 * head of queries, DK / 8 lanes a pair. */
template <int DK>
MIRAS__FAST_GRID(128, 4) miras__run_fast_recall(const __grid_constant__ miras__fast_attention a) {
  enum { LANES = DK / 8, PAIRS = 128 / LANES, LD = DK + 2 };
  float *const room = (float *)(void *)miras__fast_room;
  const unsigned b = blockIdx.x / a.heads, h = blockIdx.x % a.heads, t = threadIdx.x;
  const unsigned lane = t % LANES, of = t / LANES;
  unsigned char *const text = a.texts + b * a.apart;
  const uint64_t position = *(const uint64_t *)(const void *)text;
  const unsigned slot = (unsigned)(position % a.window);
  const unsigned n = position < a.window ? (unsigned)position : a.window;
  bf16 *const ring = (bf16 *)(void *)(text + a.ring) + (size_t)(h / a.group) * 2 * a.window * DK;
  const bf16 *const k = a.k + (size_t)b * a.ldk + h / a.group * DK + 8 * lane;
  const bf16 *const v = a.v + (size_t)b * a.ldv + h / a.group * DK + 8 * lane;
  float q[8], x[8], o[8], top = -3.0e38f, sum = 0;
  miras__get8(q, a.q + (size_t)b * a.ldq + h * DK + 8 * lane);
  for (unsigned e = 0; e < 8; e++) q[e] *= a.scale, o[e] = 0;
  for (unsigned first = 0; first <= n; first += PAIRS) {        /* the new pair is the last one   */
    const unsigned j = first + of, in = j <= n && (j == n || j != slot);
    const bf16 *const from = ring + (size_t)j * DK + 8 * lane;
    float s = 0, most, by;
    if (in) miras__get8(x, j == n ? k : from);
    for (unsigned e = 0; in && e < 8; e++) s += q[e] * x[e];
    s = miras__lanes_sum(s, LANES);
    if (!in) continue;
    miras__get8(x, j == n ? v : from + (size_t)a.window * DK);
    most = fmaxf(top, s), by = expf(top - most), s = expf(s - most);
    top = most, sum = sum * by + s;
    for (unsigned e = 0; e < 8; e++) o[e] = o[e] * by + s * x[e];
  }
  for (unsigned e = 0; e < 8; e++) room[of * LD + 8 * lane + e] = o[e];
  if (!lane) room[of * LD + DK] = top, room[of * LD + DK + 1] = sum;
  if (h % a.group == 0 && t < LANES) {               /* nobody reads that row */
    bf16 *const to = ring + (size_t)slot * DK + 8 * lane;
    *(uint4 *)(void *)to = *(const uint4 *)(const void *)k;
    *(uint4 *)(void *)(to + (size_t)a.window * DK) = *(const uint4 *)(const void *)v;
  }
  __syncthreads();
  if (t >= DK) return;
  for (unsigned i = sum = 0; i < PAIRS; i++) top = i ? fmaxf(top, room[i * LD + DK]) : room[DK];
  o[0] = 0;
  for (unsigned i = 0; i < PAIRS; i++) {
    const float by = expf(room[i * LD + DK] - top);
    sum += by * room[i * LD + DK + 1], o[0] += by * room[i * LD + t];
  }
  miras__lanes_put(a.y + (size_t)b * a.ldy + h * DK + t, o[0] / sum, 1);
}

/* What a step leaves in states: rows [back, cols] of tails move on by the row of x; or, without it,
 * positions are one more. */
typedef struct miras__fast_moved {
  unsigned char *texts;
  size_t apart, items;               /* items: of a text                                          */
  const bf16 *x;
  unsigned ldx, back, batch;
} miras__fast_moved;
MIRAS__FAST_GRID(256, 4) miras__run_fast_moved(const __grid_constant__ miras__fast_moved a) {
  const size_t item = (size_t)blockIdx.x * MIRAS__FAST_THREADS + threadIdx.x;
  const size_t text = item / a.items, i = item % a.items;
  unsigned char *const to = a.texts + text * a.apart;
  uint4 *const tail = (uint4 *)(void *)to + i;
  if (text >= a.batch) return;
  if (!a.x) ++*(uint64_t *)(void *)to;
  else {
    for (unsigned r = 0; r + 1 < a.back; r++) tail[r * a.items] = tail[(r + 1) * a.items];
    tail[(a.back - 1) * a.items] = *(const uint4 *)(const void *)(a.x + text * a.ldx + 8 * i);
  }
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

/* Blocks of a perceptron's cluster; 0: as many as leave each up to 64 hidden numbers. */
#ifndef MIRAS__FAST_CLUSTER
  #define MIRAS__FAST_CLUSTER 0
#endif

/* Bytes that perceptrons work in, from `at` on (NULL: nowhere); *room: shared ones of a block, in
 * clusters or, without them, alone. A chunk has the fewest pieces of up to 64 tokens with which
 * those are up to `most`, or pieces of 16. */
static size_t miras__fast_perceptron_at(const miras__plan *q, size_t batch, size_t tokens,
                                        int clusters, size_t most, float *at, size_t *room,
                                        miras__fast_perceptron *x) {
  typedef miras__fast_p of;
  const size_t n = (size_t)q->d.key_dim, ones = q->ones ? 16 : 0, in1 = n + ones;
  const size_t whole = (size_t)q->out[0], ranks = MIRAS__FAST_CLUSTER, chunk = q->chunk_pairs;
  const size_t tasks = batch * (size_t)q->d.heads;
  size_t hidden = whole, rows = 80, pieces, in2, all, one, two, slot;
  while (clusters && hidden % 32 == 0 && whole / hidden < 8 &&
         (ranks ? whole / hidden < ranks : hidden > 64))
    hidden /= 2;
  in2 = hidden + ones, all = in1 * hidden + in2 * n;
  one = in1 * (hidden + 8), two = in2 * (n + 8), slot = one > two ? one : two;
  memset((void *)x, 0, sizeof *x);
  x->n = (unsigned)n, x->hidden = (unsigned)hidden, x->in1 = (unsigned)in1;
  x->whole = (unsigned)whole, x->ranks = (unsigned)(whole / hidden);
  x->in2 = (unsigned)in2, x->chunk = (unsigned)chunk, x->weights = (unsigned)q->weights;
  x->all = (unsigned)all, x->slot = (unsigned)slot;
  x->target = q->d.decay_target != MIRAS_DECAY_TARGET_ZERO;
  do {
    rows -= 16, pieces = (chunk + rows - 1) / rows;
    x->speed = q->at.s || (q->d.token_rates && pieces > 1);
    x->copies = (unsigned)(1 + x->speed + x->target + (pieces > 1));
    *room = 2 * (rows * (of::X2 * (in1 + 8) + (of::P - of::X2) * (in2 + 8) + 2 * (rows + 8)) +
                 x->copies * slot) + 4 * ((of::SUM - of::KEEP) * rows + 8);
  } while (rows > 16 && (rows >= chunk + 16 || *room > most));
  x->rows = (unsigned)rows, x->pieces = (unsigned)pieces;
  x->all_pieces = (unsigned)(tokens / chunk * pieces + (tokens % chunk + rows - 1) / rows);
  x->each = 6 * all + rows * (of::DGATES * n + 4 + of::XH * in2 + (of::G - of::XH) * in1 +
                              64 * (of::KEEP - of::G)) + (2 * x->all_pieces + 3) * (all / 2);
  if (at) {
    x->memory = at, x->of.dinit = at + tasks * x->ranks * x->each;
    x->dgain = x->of.dinit + tasks * q->weights, x->dbias = x->dgain + tasks * n;
    x->drho = x->dbias + tasks * n;
  }
  return 4 * tasks * (x->ranks * x->each + q->weights + 2 * n + chunk);
}

/* Bytes of shared memory that a block may have. */
static size_t miras__fast_most_shared(void) {
  int device = 0, most = 0;
  return cudaGetDevice(&device) == cudaSuccess &&
         cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) ==
           cudaSuccess ? (size_t)most : 0;
}

/* Are there clusters? Of hopper and later, and in the program's code for them. */
static int miras__fast_clusters(void) {
  struct cudaFuncAttributes a;
  int device = 0, has = 0;
  return cudaGetDevice(&device) == cudaSuccess &&
         cudaDeviceGetAttribute(&has, cudaDevAttrClusterLaunch, device) == cudaSuccess && has &&
         cudaFuncGetAttributes(&a, (const void *)miras__run_fast_p2) == cudaSuccess &&
         a.ptxVersion >= 90;
}

/* Why an operation is not run here; NULL: it is. First of memories. */
static const char *miras__fast_perceptron_refuses(const miras__plan *q) {
  const miras_memory_desc *d = &q->d;
  miras__fast_perceptron x;
  size_t room;
  if (d->architecture != MIRAS_ARCH_MLP || q->layers != 2)
    return "its memory is not a matrix, nor a perceptron of two layers";
  if (q->channel) return "its decays or steps are one number per channel, not one per head";
  if (d->bias != MIRAS_BIAS_L2 || d->ball > 0 || d->algorithm > MIRAS_ALGORITHM_MOMENTUM ||
      (d->retention != MIRAS_RETENTION_ALL && d->retention != MIRAS_RETENTION_L2))
    return "its bias is not l2, its retention not all or l2 without a ball, or its algorithm not "
           "gradient-descent or momentum";
  if (d->inner_steps != 1 || q->past || d->step_bound || !d->inner_norm || !d->inner_residual)
    return "it has inner_steps, omega or step_bound, or no inner_norm or inner_residual";
  (void)miras__fast_perceptron_at(q, 1, 1, 1, 0, NULL, &room, &x);
  if (q->map || d->key_dim % 16 || d->key_dim > 256 || q->out[0] % 16 || q->widest > 1024)
    return "its keys go through a feature map, or key_dim or its hidden numbers are not a multiple "
           "of 16, up to 256 and 1024";
  if (room > 227 << 10)
    return "16 tokens of a chunk and the weights take over 227 KB of shared memory";
  return NULL;
}

static const char *miras__fast_memory_refuses(const miras__program *p, const miras__op *o) {
  const miras__mixer *m = &p->mixer;
  const miras__plan *q = &m->plan;
  const miras_memory_desc *d = &q->d;
  if (o->function || o->segment) return "it goes segment by segment";
  if (q->engine == MIRAS__RUN_FROZEN) return miras__fast_perceptron_refuses(q);
  if (q->engine != MIRAS__RUN_EXACT)
    return "its memory is not a matrix that is linear in its state";
  if (d->order == MIRAS_ORDER_READ_FIRST) return "its tokens read before they write";
  if (d->diagonal) return "it erases channel by channel";
  if (q->streams > 1 && (!q->per_feature || m->gate[MIRAS__STEP].count || m->group > 1))
    return "it erases apart from what it writes, with a decay or step per head or shared keys";
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
    case MIRAS__OP_KEYS:
      return p->mixer.qk_map == MIRAS_QK_MAP_ERASE || (!p->mixer.erase && !p->mixer.key_slots)
               ? NULL : "its keys are made of gates, with what is erased apart";
    case MIRAS__OP_MIX: return o->in[1] ? "tokens say how they are mixed" : NULL;
    case MIRAS__OP_BONUS: case MIRAS__OP_VALUES: case MIRAS__OP_SHIFT:
      if (o->what == MIRAS__OP_BONUS && p->mixer.dk != p->mixer.dv)
        return "memory.value_dim is not key_dim";
      return o->out_at % 8 ? "its columns do not begin at a multiple of 8" : NULL;
    case MIRAS__OP_EXPERTS: return p->mlp.hidden % 8 ? "mlp.hidden is not a multiple of 8" : NULL;
    case MIRAS__OP_TRAPEZOID: return "pairs by the trapezoidal rule are not made here";
    case MIRAS__OP_PRECONDITION: return "preconditioned keys are not made here";
    case MIRAS__OP_TIMES:
      if (o->in_at[0] % 8 || o->out_at % 8) return "its columns do not begin at a multiple of 8";
      for (i = o->param; i; i = p->param[i].next)
        if ((p->param[i].column - p->param[o->param].column) % 8)
          return "columns of its weights do not begin at a multiple of 8";
      return NULL;
    case MIRAS__OP_GATES:
      for (i = 0; i < MIRAS__GATE_GROUPS; i++)
        if (p->mixer.gate[i].count &&
            (i == MIRAS__THRESHOLD || i == MIRAS__VALUE_KEEP || i > MIRAS__MIX))
          return "it makes other gates than decays, steps, momentum, erasing and mixing";
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
      return y->dim % 8 ? "heads are not a multiple of 8 wide" : NULL;
    case MIRAS__OP_ROTATE:
      return o->cols % 8 || o->in_at[0] % 8 ? "heads are not a multiple of 8 wide" : NULL;
    case MIRAS__OP_ANGLES:
      return y->dim % 16 || y->dim > 2 * MIRAS__FAST_PAIRS
               ? "what turns is not a multiple of 16 numbers up to 128" : NULL;
    case MIRAS__OP_ATTEND:
      if (o->segment) return "it goes segment by segment";
      if (o->in[3]) return "attention.persistent is not 0";
      if (o->cols != 32 && o->cols != 64 && o->cols != 128)
        return "attention.head_dim is not 32, 64 or 128";
      return o->in_at[2] % 8 ? "its columns do not begin at a multiple of 8" : NULL;
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
  if (text && text_size) text[0] = 0;
  if (!m || layer < 0 || layer >= m->desc.layers || index < 0) return -1;
  p = m->layers[layer].p;
  if (index >= p->ops) return -1;
  o = &p->op[index];
  why = miras__fast_refuses(p, o);
  miras__say(text, text_size, "%s %s%s%s", miras__ops[o->what].word, p->array[o->out].name,
             why ? ": " : "", why ? why : "");
  return !why;
}

static size_t miras__up8(size_t n) { return (n + 7) / 8 * 8; }
static size_t miras__up256(size_t n) { return (n + 255) / 256 * 256; }

/* Where everything lies: what a call has is laid out anew, from the caller's bytes on. */
typedef struct miras__fast {
  const miras_model *m;
  miras_trainer_desc d;
  char *base;
  size_t bytes, rows, ld_v, shared;  /* shared: bytes of it that a perceptron's block takes       */
  size_t most_shared;                /* and that a block may take                                 */
  cudaStream_t stream;
  int failed, batch, length, taped, sits, clusters;    /* sits: a session; are there clusters?    */
  uint64_t calls, call;
  unsigned char *texts;              /* of a session: states, `apart` bytes apart, and where ...  */
  size_t apart, now_at;              /* ... in them those of the layer at hand begin              */
  float *params, *grads, *moment1, *moment2;
  miras__fast_now *now;
  miras__fast_tensor *tensors;
  unsigned tensor_count, adam_blocks;
  bf16 *x, *last, *ds, *dlast, *logits, *head, *room;
  bf16 *table;                       /* the embedding, where it is not float                      */
  void *library, *library_room;      /* cuBLASLt's handle, or NULL                                */
  char *values, *grad;               /* of arrays: of all layers; of the layer at hand            */
  char *weights;                     /* copies of matrices, of all layers                         */
  float *constants;                  /* of all layers: factors of gates, decays                   */
  float *sums, *stats, *losses, *norms, *row_weights;
  unsigned *next, *later;
  int32_t *tokens, *targets;
  miras__fast_chunks chunks;         /* their room alone                                          */
  float *perceptrons;                /* and theirs                                                */
  bf16 *pairs;                       /* rows of memories that erase apart: q, k, z, v, y          */
  float *first[2];                   /* values that layers mix in, and their gradients            */
  size_t layer_values[MIRAS_MAX_LAYERS], layer_weights[MIRAS_MAX_LAYERS];
  size_t layer_constants[MIRAS_MAX_LAYERS];
} miras__fast;
typedef char miras__fast_fits[sizeof(miras__fast) <= sizeof(((miras_cuda_fast *)0)->held) ? 1 : -1];

/* The record that a trainer or a session holds; NULL of none. */
template <class T> static miras__fast *miras__fast_of(const T *f) {
  return f ? (miras__fast *)(void *)(uintptr_t)f->held : NULL;
}

/* Does an array hold floats: gates and what they are made of, lengths, angles? */
static int miras__fast_is_wide(const miras__program *p, int i) {
  int j, wide = i == p->mixer.gated;
  for (j = 0; j < p->ops; j++) {
    const miras__op *o = &p->op[j];
    if (o->what == MIRAS__OP_GATES || o->what == MIRAS__OP_LENGTH) wide |= o->in[0] == i;
    if (o->what == MIRAS__OP_ANGLES) wide |= o->out == i;
    if (o->what == MIRAS__OP_EXPERTS) wide |= o->in[2] == i;
  }
  return i && wide;
}
static size_t miras__fast_ld(const miras__program *p, int i, int grad) {
  const miras__array *r = &p->array[i];
  if (i == MIRAS__X || i == MIRAS__Y) return miras__up8(p->width);
  return miras__up8((size_t)(grad && r->by_head ? r->grad_heads : r->heads) * r->dim);
}
/* Bytes of what is known of a mixture's pairs, in its array "place" (at NULL: nowhere). */
static size_t miras__fast_pairs_at(const miras__mlp *s, size_t rows, char *at,
                                   miras__fast_pairs *x) {
  const size_t pairs = rows * s->paths, tiles = pairs / 128 + s->experts;
  if (at) {
    x->tiles = (uint4 *)(void *)at;
    x->ids = (unsigned *)(void *)(x->tiles + tiles), x->at = x->ids + pairs;
    x->list = x->at + pairs, x->starts = x->list + pairs;
  }
  return 16 * tiles + 4 * (3 * pairs + s->experts + 1);
}
static size_t miras__fast_array_bytes(const miras__program *p, int i, int grad, size_t rows) {
  const size_t all = rows * miras__fast_ld(p, i, grad) * (miras__fast_is_wide(p, i) ? 4 : 2);
  if (p->array[i].across)            /* they have no gradients                                    */
    return grad ? 0 : miras__up256(miras__fast_pairs_at(&p->mlp, rows, NULL, NULL));
  return i == MIRAS__X || i == MIRAS__Y ? 0 : miras__up256(all);
}
/* Bytes of arrays before array i of a layer; i = p->arrays: of all. */
static size_t miras__fast_array_at(const miras__program *p, int i, int grad, size_t rows) {
  size_t at = 0;
  int j;
  for (j = 1; j < i; j++) at += miras__fast_array_bytes(p, j, grad, rows);
  return at;
}

/* Bytes of whole numbers with their scales (product_q8). */
static size_t miras__fast_whole_bytes(size_t rows, size_t cols, size_t each) {
  return (rows + 31) / 32 * ((cols + 15) / 16) * each;
}
/* An operation's matrices, each named by the first of the parameters that lie in it side by side;
 * and its lines, one more for biases. */
static int miras__fast_matrices(const miras__program *p, const miras__op *o, int first[4]) {
  int i;
  for (i = 0; i < 4; i++) first[i] = MIRAS__W_ROUTER + i;
  if (o->what == MIRAS__OP_EXPERTS) return 4;
  first[0] = o->param;
  return (o->what == MIRAS__OP_TIMES || o->what == MIRAS__OP_BRANCH) && p->param[o->param].rows;
}
static size_t miras__fast_matrix_ld(const miras__program *p, int first) {
  return miras__up8(miras__columns_of(p, &p->param[first]));
}
/* Bytes of an operation's matrices in front of that which `end` begins; 0: of all. */
static size_t miras__fast_matrices_bytes(const miras__program *p, const miras__op *o, int end) {
  int first[4], count = miras__fast_matrices(p, o, first), i;
  size_t all = 0;
  for (i = 0; i < count && first[i] != end; i++) {
    const miras__param *w = &p->param[first[i]];
    const size_t line = miras__fast_matrix_ld(p, first[i]) * 2;
    all += miras__up256(p->form != MIRAS_WEIGHTS_Q8
                          ? (w->rows + 1) * line
                          : miras__fast_whole_bytes(w->rows, miras__columns_of(p, w), 576) + line);
  }
  return all;
}
static size_t miras__fast_matrix_bytes(const miras__program *p, const miras__op *o) {
  return miras__fast_matrices_bytes(p, o, 0);
}
/* Bytes of a program's operations before `end`. */
static size_t miras__fast_before(const miras__program *p, const miras__op *end,
                                 size_t (*bytes)(const miras__program *, const miras__op *)) {
  size_t at = 0;
  const miras__op *o;
  for (o = p->op; o < end; o++) at += bytes(p, o);
  return at;
}
static size_t miras__fast_matrix_at(const miras__program *p, const miras__op *end) {
  return miras__fast_before(p, end, miras__fast_matrix_bytes);
}

static void *miras__fast_take(miras__fast *f, size_t bytes) {
  char *at = f->base ? f->base + f->bytes : NULL;
  f->bytes += miras__up256(bytes);
  return at;
}

/* Each of these begins n of what it points to. */
template <class T> static void miras__fast_lay(miras__fast *f, size_t n, T **to) {
  *to = (T *)miras__fast_take(f, n * sizeof(T));
}
template <class T, class... P>
static void miras__fast_lay(miras__fast *f, size_t n, T **to, P... more) {
  miras__fast_lay(f, n, to);
  miras__fast_lay(f, n, more...);
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

/* Chunks of the head that has most of them in a text of so many tokens. */
static size_t miras__fast_chunk_count(const miras__mixer *m, size_t tokens) {
  const size_t pairs = m->plan.streams, every = (size_t)m->plan.d.reset_every * pairs;
  const size_t length = tokens * pairs, heads = every ? m->heads : 0;
  size_t most = (length + 63) / 64, h;
  for (h = 0; h < heads; h++) {
    const size_t grid = miras__reset_grid(&m->plan.d) * pairs;
    const size_t first =
      miras__fast_first((unsigned)h, (unsigned)heads, (unsigned)every, (unsigned)grid);
    if (length > first)
      miras__fast_more(&most, (first + 63) / 64 + (length - first) / every * ((every + 63) / 64) +
                                ((length - first) % every + 63) / 64);
  }
  return most;
}

/* What memories take: numbers of all [heads, 64 chunks], of logarithms, of chunks' squares and
 * states, of initial states, and of rows of values, and of keys with a decay per channel; of rows
 * that erase apart; and of what segments end and begin with. */
typedef struct miras__chunk_needs {
  size_t heads, logs, squares, states, inits, rows, left, pairs, ends, begins;
} miras__chunk_needs;
/* Chunks of a segment, where few blocks have a text's heads, by 64 columns of values; else all. */
#ifndef MIRAS__FAST_FEW
  #define MIRAS__FAST_FEW 32
  #define MIRAS__FAST_SEGMENT 16
#endif
static size_t miras__fast_segment(size_t chunks, size_t heads, size_t dv, size_t every) {
  return every || heads * ((dv + 63) / 64) > MIRAS__FAST_FEW ? chunks : MIRAS__FAST_SEGMENT;
}
static void miras__fast_chunk_needs(miras__chunk_needs *most, size_t texts, size_t length,
                                    size_t chunks, size_t heads, size_t dk, size_t dv,
                                    int channels, size_t every) {
  const size_t all = texts * heads, segment = miras__fast_segment(chunks, heads, dv, every);
  const size_t segments = chunks > segment ? (chunks + segment - 1) / segment : 0;
  miras__fast_more(&most->heads, all * chunks * 64);
  miras__fast_more(&most->logs, all * chunks * 64 * (channels ? dk : 1));
  miras__fast_more(&most->squares, all * chunks * 4096);
  miras__fast_more(&most->states, all * chunks * dk * dv);
  miras__fast_more(&most->inits, all * dk * dv);
  miras__fast_more(&most->rows, texts * length * heads * dv);
  miras__fast_more(&most->ends, all * segments * dk * (dv + dk));
  miras__fast_more(&most->begins, all * segments * dk * dv);
  if (channels) miras__fast_more(&most->left, texts * length * heads * dk);
}
static void miras__fast_lay_chunks(miras__fast *f, const miras__chunk_needs *most) {
  miras__fast_chunks *const x = &f->chunks;
  memset((void *)x, 0, sizeof *x);
  miras__fast_lay(f, most->logs, &x->log);
  miras__fast_lay(f, most->heads, &x->rate);
  miras__fast_lay(f, most->squares, &x->m, &x->p, &x->n);
  miras__fast_lay(f, most->states, &x->s, &x->ds);
  miras__fast_lay(f, most->inits, &x->dinit);
  miras__fast_lay(f, most->rows, &x->w, &x->u, &x->z);
  miras__fast_lay(f, most->left, &x->q_left, &x->k_left, &x->k_end);
  miras__fast_lay(f, most->ends, &x->ends);
  miras__fast_lay(f, most->begins, &x->begins);
  miras__fast_lay(f, most->pairs, &f->pairs);
}

/* The most that an operation of any layer takes of what they all work in. */
typedef struct miras__fast_needs {
  size_t grads, sums, stats, columns, perceptrons;
  miras__chunk_needs chunks;
} miras__fast_needs;

static void miras__fast_op_needs(miras__fast *f, const miras__program *p, const miras__op *o,
                                 miras__fast_needs *most) {
  const size_t n = f->rows, cols = miras__fast_ld(p, o->out, 0);
  const miras__mixer *m = &p->mixer;
  int id;
  const int experts = o->what == MIRAS__OP_EXPERTS;
  miras__fast_more(&most->columns, experts ? p->mlp.paths * cols
                                   : o->what == MIRAS__OP_KEYS ? 2 * cols : cols);
  if (f->sits) return;
  if (o->what == MIRAS__OP_TIMES || o->what == MIRAS__OP_BRANCH || experts)
    for (id = experts ? (int)MIRAS__W_ROUTER : o->param; id; id = p->param[id].next) {
      const miras__param *w = &p->param[id];
      miras__fast_more(&most->sums,
                       (size_t)miras__fast_split(w->rows, w->cols, n) * w->rows * w->cols);
    }
  miras__fast_more(&most->sums,
                   (n + 63) / 64 * (cols + 8) * (o->what == MIRAS__OP_CONV ? 9 : 2));
  if (o->what == MIRAS__OP_HEAD_NORM || o->what == MIRAS__OP_RMS)
    miras__fast_more(&most->stats, n * o->heads);
  if (o->what == MIRAS__OP_ATTEND) miras__fast_more(&most->stats, n * p->attending.heads);
  if (o->what != MIRAS__OP_MEMORY) return;
  if (m->plan.engine == MIRAS__RUN_FROZEN) {
    miras__fast_perceptron x;
    size_t room;
    for (id = !f->most_shared; id >= 0; id--)        /* unknown: the largest pieces, and smallest */
      miras__fast_more(&most->perceptrons,
                       miras__fast_perceptron_at(&m->plan, (size_t)f->d.batch,
                                                 (size_t)f->d.context, f->clusters,
                                                 id ? (size_t)-1 : f->most_shared, NULL, &room,
                                                 &x));
    miras__fast_more(&f->shared, room);
    return;
  }
  if (m->plan.streams > 1)
    miras__fast_more(&most->chunks.pairs, 2 * n * m->heads * (3 * m->dk + 2 * m->dv));
  miras__fast_chunk_needs(&most->chunks, (size_t)f->d.batch,
                          (size_t)f->d.context * m->plan.streams,
                          miras__fast_chunk_count(m, (size_t)f->d.context), m->heads, m->dk, m->dv,
                          m->plan.per_feature, (size_t)m->plan.d.reset_every);
}

/* What an operation has in a text's state, and operations before `end`; the position is first. */
enum { MIRAS__TEXT_AT = 16 };
static size_t miras__fast_state_bytes(const miras__program *p, const miras__op *o) {
  const miras__attending *s = &p->attending;
  if (o->what == MIRAS__OP_MEMORY) return p->mixer.heads * p->mixer.dk * p->mixer.dv * 4;
  if (o->what == MIRAS__OP_ATTEND) return s->groups * s->window * s->dk * 4;
  return o->what == MIRAS__OP_TAIL
           ? ((size_t)p->tail[o->part].back * p->tail[o->part].cols * 2 + 15) / 16 * 16 : 0;
}
static size_t miras__fast_state_at(const miras__program *p, const miras__op *end) {
  return miras__fast_before(p, end, miras__fast_state_bytes);
}

static void miras__fast_layout(miras__fast *f) {
  const miras_model *m = f->m;
  const size_t n = f->rows, width = miras__up8(m->width), piece = MIRAS__ADAM_PIECE;
  size_t values = 0, weights = 0, constants = 0, first = 0, l, size;
  miras__fast_needs most = {};
  int i;
  most.stats = n, most.columns = m->outs;
  f->bytes = f->shared = 0, f->apart = MIRAS__TEXT_AT;
  f->ld_v = miras__up8(m->outs);
  miras__fast_lay(f, m->param_count, &f->params);
  miras__fast_lay(f, f->sits ? 0 : m->param_count, &f->grads, &f->moment1, &f->moment2);
  miras__fast_lay(f, 1, &f->now);
  f->tensor_count = (unsigned)m->view_count;
  miras__fast_lay(f, f->tensor_count, &f->tensors);
  for (i = 0, f->adam_blocks = 0; i < m->view_count; i++)
    if (!miras__view_form(m, &m->views[i]))
      f->adam_blocks += (unsigned)((m->views[i].count + piece - 1) / piece);
  miras__fast_lay(f, f->adam_blocks, &f->norms);
  if (!f->sits)
    miras__fast_more(&most.sums, miras__fast_split(m->outs, m->width, n) * m->outs * m->width);
  miras__fast_more(&most.sums, (n + 63) / 64 * (2 * width > f->ld_v ? 2 * width : f->ld_v));
  for (l = 0; l < (size_t)m->desc.layers; l++) {
    const miras__program *p = m->layers[l].p;
    f->layer_values[l] = f->sits ? 0 : values;
    f->layer_weights[l] = weights, f->layer_constants[l] = constants;
    size = miras__fast_array_at(p, p->arrays, 0, n) +
           miras__up256(n * p->attending.heads * 4);   /* what attention keeps: a float of a row  */
    if (f->sits) miras__fast_more(&values, size);
    else values += size, miras__fast_more(&most.grads, miras__fast_array_at(p, p->arrays, 1, n));
    if (f->sits) f->apart += miras__fast_state_at(p, p->op + p->ops);
    if (p->values) miras__fast_more(&first, n * miras__up8(p->mixer.value));
    weights += miras__fast_matrix_at(p, p->op + p->ops);
    constants += miras__up8(p->mixer.outs) + miras__up8(p->mixer.heads);
    for (i = 0; i < p->ops; i++) miras__fast_op_needs(f, p, &p->op[i], &most);
  }
  miras__fast_lay(f, values, &f->values);
  miras__fast_lay(f, most.grads, &f->grad);
  miras__fast_lay(f, weights, &f->weights);
  miras__fast_lay(f, constants, &f->constants);
  size = (m->outs + 1) * width + f->ld_v;
  if (m->desc.weights == MIRAS_WEIGHTS_Q8)
    size = miras__fast_whole_bytes(m->width, m->outs, 288) + f->ld_v;
  miras__fast_lay(f, size, &f->head);
  f->table = f->head;
  if (m->desc.untied && m->desc.weights) miras__fast_lay(f, size, &f->table);
  miras__fast_lay(f, ((size_t)m->desc.layers + 1) * n * width, &f->x);
  miras__fast_lay(f, n * width, &f->last, &f->ds, &f->dlast);
  miras__fast_lay(f, n * f->ld_v, &f->logits);
  miras__fast_lay(f, n * miras__up8(most.columns), &f->room);
  miras__fast_lay(f, most.sums, &f->sums);
  miras__fast_lay(f, 2 * most.stats, &f->stats);
  miras__fast_lay(f, n, &f->losses);
  miras__fast_lay(f, first, &f->first[0], &f->first[1]);
  miras__fast_lay(f, n, &f->next, &f->later);
#ifdef MIRAS_CUDA_CUBLASLT
  f->library_room = miras__fast_take(f, MIRAS__LIBRARY_ROOM);
#endif
  miras__fast_lay(f, n, &f->tokens, &f->targets, &f->row_weights);
  miras__fast_lay_chunks(f, &most.chunks);
  f->perceptrons = (float *)miras__fast_take(f, most.perceptrons);   /* bytes                     */
  f->apart = miras__up256(f->apart);
  miras__fast_lay(f, f->sits ? n * f->apart : 0, &f->texts);
}

/* Can it train the model? A sentence if not. */
static int miras__fast_takes(const miras_model *m, const miras_trainer_desc *d, int sits, char *why,
                             size_t n) {
  miras_trainer check;
  int l, i;
  if (why && n) why[0] = 0;
  if (miras__trainer_resolve(&check, (miras_model *)(uintptr_t)m, d, why, n) != MIRAS_OK) return 0;
  if (check.desc.carried)
    return miras__say(why, n, "carried is %d; the fast tier trains texts from their start: 0",
                      check.desc.carried), 0;
  if (check.desc.recompute)
    return miras__say(why, n, "recompute is %d; the fast tier keeps what it needs: 0",
                      check.desc.recompute), 0;
  if ((double)check.desc.batch * (double)check.desc.context > 16777216.0)
    return miras__say(why, n, "batch times context is over 16777216 rows of a call"), 0;
  if (!miras__reads_tokens(m) || !miras__says_tokens(m) || m->ins != 1)
    return miras__say(why, n, "the fast tier reads tokens and says the next one, nothing else"), 0;
  if (m->desc.weights && !sits)
    return miras__say(why, n, "weights are not float; the fast tier trains with copies of its own"),
           0;
  if (m->desc.weights == MIRAS_WEIGHTS_F16 || m->desc.weights > MIRAS_WEIGHTS_Q8)
    return miras__say(why, n, "weights are %s; a session of the fast tier takes float, bf16 or q8",
                      m->desc.weights == MIRAS_WEIGHTS_F16 ? "f16" : "q4"), 0;
  if (m->desc.adapter.rank)
    return miras__say(why, n, "adapter.rank is %d; the fast tier takes 0: it has none",
                      m->desc.adapter.rank), 0;
  if (m->desc.logit_cap > 0)
    return miras__say(why, n, "logit_cap is %g; the fast tier takes 0: it has none",
                      (double)m->desc.logit_cap), 0;
  if (m->width % 8)
    return miras__say(why, n, "width is %zu; for the fast tier it is a multiple of 8", m->width), 0;
  for (l = 0; l < m->desc.layers; l++) {
    const miras__program *p = m->layers[l].p;
    const miras_memory_desc *of = &p->mixer.plan.d;
    if (p->mlp.experts && m->desc.weights == MIRAS_WEIGHTS_Q8 &&
        (m->width % 32 || p->mlp.hidden % 32))
      return miras__say(why, n, "weights are q8, width %zu, mlp.hidden %zu; experts of q8 take "
                                "multiples of 32 in a session of the fast tier",
                        m->width, p->mlp.hidden), 0;
    const size_t most =              /* tokens before the last head, the first to, begins anew    */
      p->mixer.heads ? miras__stretch(of, (size_t)of->heads - 1, 0, (size_t)-1) : (size_t)-1;
    for (i = 0; i < p->ops; i++) {
      char text[160];
      if (miras_cuda_fast_op(m, l, i, text, sizeof text)) continue;
      return miras__say(why, n, "layer %d, operation %s", l, text), 0;
    }
    if (p->mixer.plan.engine == MIRAS__RUN_FROZEN && (size_t)check.desc.context > most)
      return miras__say(why, n, "context is %d; with perceptrons in the fast tier it is up to %d, "
                                "where a head begins anew (memory.reset_every)",
                        check.desc.context, (int)most), 0;
  }
  return 1;
}

static void miras__fast_begin(miras__fast *f, const miras_model *m, const miras_trainer_desc *d,
                              int sits) {
  memset((void *)f, 0, sizeof *f);
  f->m = m, f->sits = sits;
  f->clusters = 1;                   /* _init asks for the most, with them or without             */
  f->d = *d;
  if (!f->d.batch) f->d.batch = 1;
  f->rows = (size_t)f->d.batch * (size_t)f->d.context;
  miras__fast_layout(f);
}

size_t miras_cuda_fast_size(const miras_model *m, const miras_trainer_desc *d, char *why,
                            size_t why_size) {
  miras__fast f;
  if (!miras__fast_takes(m, d, 0, why, why_size)) return 0;
  miras__fast_begin(&f, m, d, 0);
  return f.bytes;
}

/* ---- launches ---- */

template <class A>
static void miras__fast_launch(miras__fast *f, void (*kernel)(const A), size_t blocks,
                               unsigned threads, size_t bytes, const A &a, unsigned cluster = 1) {
  cudaLaunchAttribute of = {};
  const cudaLaunchConfig_t x = {dim3((unsigned)blocks), dim3(threads), bytes, f->stream, &of,
                                cluster > 1};
  static_assert(sizeof(A) <= 4096, "what any device takes");
  if (f->failed || !blocks) return;
  of.id = cudaLaunchAttributeClusterDimension;
  of.val.clusterDim.x = cluster, of.val.clusterDim.y = of.val.clusterDim.z = 1;
  f->failed = blocks > INT_MAX ||
              (bytes > 48 << 10 &&
               cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    (int)bytes) != cudaSuccess) ||
              cudaLaunchKernelEx(&x, kernel, a) != cudaSuccess;
}
template <class A>
static void miras__fast_rows(miras__fast *f, void (*kernel)(const A), size_t items, const A &a) {
  miras__fast_launch(f, kernel, (items + 255) / 256, 256, 0, a);
}

/* Items of a.lanes lanes each. */
template <class A>
static void miras__fast_groups(miras__fast *f, void (*kernel)(const A), const A &a) {
  const unsigned each = 256 / a.lanes;
  miras__fast_launch(f, kernel, ((size_t)a.items + each - 1) / each, 256, 0, a);
}

/* C = or += A B, of rows in bfloat16; ta, tb: A, or B, lies turned. */
static miras__fast_product miras__fast_product_of(const bf16 *a, size_t lda, const bf16 *b,
                                                  size_t ldb, size_t m, size_t n, size_t k) {
  miras__fast_product x = {};
  x.a = a, x.lda = (unsigned)lda, x.b = b, x.ldb = (unsigned)ldb;
  x.m = (unsigned)m, x.n = (unsigned)n, x.k = (unsigned)k, x.parts = 1;
  return x;
}
#ifdef MIRAS_CUDA_CUBLASLT
/* The same by cuBLASLt, to which rows are columns: C' = B' A'. Returns 0 where it refuses. */
static int miras__fast_library(miras__fast *f, const miras__fast_product *x, int ta, int tb) {
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
  if (!f->library || (x->wide && (x->bias || x->base))) return 0;
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

static void miras__fast_multiply(miras__fast *f, const miras__fast_product *x, int ta, int tb) {
  typedef void grid(const miras__fast_product);
  static grid *const many[] = {
    miras__run_fast_product<0, 0, 0>, miras__run_fast_product<0, 1, 0>,
    miras__run_fast_product<1, 0, 0>
  }, *const few[] = {
    miras__run_fast_product_rows<1, 0>, miras__run_fast_product_rows<1, 1>,
    miras__run_fast_product_rows<8, 0>, miras__run_fast_product_rows<8, 1>
  };
  const size_t rows = !f->sits ? 128 : x->scales || x->m > 1 ? 8 : 1;        /* of a block        */
  const size_t cols = !f->sits ? 128 : x->scales ? 16 : 32;
  const size_t bytes = x->scales ? 4096 : f->sits ? rows * 1024 : (size_t)MIRAS__PRODUCT_BYTES;
  miras__fast_product of = *x;
#ifdef MIRAS_CUDA_CUBLASLT
  if (f->failed || miras__fast_library(f, x, ta, tb)) return;
#endif
  of.across = (unsigned)((x->n + cols - 1) / cols);
  miras__fast_launch(f, !f->sits    ? many[2 * ta + tb]
                        : x->scales ? miras__run_fast_product_q8 : few[(rows > 1) * 2 + tb],
                     (x->m + rows - 1) / rows * of.across * of.parts, 256, bytes, of);
}
/* to [n] += sums over strips of rows, or over `parts` of `from`. */
static void miras__fast_fold(miras__fast *f, float *to, size_t n, size_t stride, size_t first = 0,
                             size_t step = 1, size_t folds = 1, size_t apart = 1,
                             const float *from = NULL, size_t parts = 0) {
  miras__fast_strips x;
  x.to = to, x.from = from ? from : f->sums, x.n = (unsigned)n;
  x.strips = (unsigned)(from ? parts : ((size_t)f->batch * (size_t)f->length + 63) / 64);
  x.stride = (unsigned)stride, x.first = (unsigned)first, x.step = (unsigned)step;
  x.folds = (unsigned)folds, x.apart = (unsigned)apart;
  miras__fast_rows(f, miras__run_fast_fold, n, x);
}
/* A gradient of weights: to [m, n] += x' d over all rows. */
static void miras__fast_weights(miras__fast *f, float *to, const bf16 *x, size_t ldx, const bf16 *d,
                                size_t ldd, size_t m, size_t n, size_t rows) {
  miras__fast_product of = miras__fast_product_of(x, ldx, d, ldd, m, n, rows);
  const unsigned parts = f->library ? 1 : miras__fast_split(m, n, rows);
  of.wide = parts > 1 ? f->sums : to, of.ldc = (unsigned)n;
  of.parts = parts, of.adds = parts == 1;
  miras__fast_multiply(f, &of, 1, 0);
  if (parts > 1) miras__fast_fold(f, to, m * n, m * n, 0, 1, 1, 0, f->sums, parts);
}

/* Sums of columns over rows. */
static void miras__fast_sum(miras__fast *f, miras__fast_sums *s) {
  s->rows = (unsigned)((size_t)f->batch * (size_t)f->length);
  s->length = (unsigned)f->length;
  s->to = f->sums;
  s->across = (s->cols + 255) / 256;
  miras__fast_launch(f, miras__run_fast_sums, (size_t)(s->rows + 63) / 64 * s->across,
                     256, 256 * 8 * 4, *s);
}
/* A gradient of biases: to [n / each] += the sums of `each` columns of d, or of d (.) x. */
static void miras__fast_biases(miras__fast *f, float *to, const bf16 *d, size_t ldd, size_t n,
                               const bf16 *x = NULL, size_t ldx = 0, size_t each = 1) {
  miras__fast_sums s = {};
  if (x) s.what = MIRAS__SUM_TIMES;
  s.d = d, s.ldd = (unsigned)ldd, s.x = x, s.ldx = (unsigned)ldx;
  s.sets = 1, s.cols = (unsigned)miras__up8(n);
  miras__fast_sum(f, &s);
  miras__fast_fold(f, to, n / each, s.cols, 0, each, each);
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
static bf16 *miras__fast_x(const miras__fast_layer *a, int i, size_t at) {
  return i ? (bf16 *)(void *)miras__fast_value(a, i) + at : NULL;
}
static float *miras__fast_floats(const miras__fast_layer *a, int i) {
  return (float *)(void *)miras__fast_value(a, i);
}
static char *miras__fast_grad(const miras__fast_layer *a, int i) {
  return a->f->grad + miras__fast_array_at(a->p, i, 1, a->f->rows);
}
static bf16 *miras__fast_d(const miras__fast_layer *a, int i, size_t at) {
  return (bf16 *)(void *)miras__fast_grad(a, i) + at;
}
static unsigned miras__fast_ldx(const miras__fast_layer *a, int i) {
  return (unsigned)miras__fast_ld(a->p, i, 0);
}
static unsigned miras__fast_ldd(const miras__fast_layer *a, int i) {
  return (unsigned)miras__fast_ld(a->p, i, 1);
}
/* Rows of array i, or (grad) of its gradient, from column `at` on; *ld: how far apart they lie. */
static bf16 *miras__fast_lines(const miras__fast_layer *a, int i, size_t at, int grad,
                               unsigned *ld) {
  *ld = (unsigned)miras__fast_ld(a->p, i, grad);
  return grad ? miras__fast_d(a, i, at) : miras__fast_x(a, i, at);
}
static float *miras__fast_param(const miras__fast_layer *a, int id) {
  return a->f->params + a->layer->first + miras__param_at(&a->p->param[id]);
}
static float *miras__fast_dparam(const miras__fast_layer *a, int id) {
  return a->f->grads + a->layer->first + miras__param_at(&a->p->param[id]);
}
static bf16 *miras__fast_matrix(const miras__fast_layer *a, const miras__op *o, int first) {
  return (bf16 *)(void *)(a->f->weights + a->f->layer_weights[a->l] +
                          miras__fast_matrix_at(a->p, o) +
                          miras__fast_matrices_bytes(a->p, o, first));
}
/* Where the biases of a matrix [rows, cols] lie, which has so many lines, ld apart. */
static bf16 *miras__fast_bias_at(const miras__fast *f, const bf16 *matrix, size_t rows, size_t cols,
                                 size_t lines, size_t ld) {
  const size_t whole = miras__fast_whole_bytes(rows, cols, 288);
  return (bf16 *)(uintptr_t)matrix + (f->m->desc.weights == MIRAS_WEIGHTS_Q8 ? whole : lines * ld);
}
static const float *miras__fast_scales(const miras__fast *f, const bf16 *matrix, size_t rows,
                                       size_t cols) {
  return f->m->desc.weights != MIRAS_WEIGHTS_Q8
           ? NULL
           : (const float *)(const void *)(matrix + miras__fast_whole_bytes(rows, cols, 256));
}
/* The product of an operation with its matrix [rows, cols], and the biases that it has. */
static miras__fast_product miras__fast_by(const miras__fast_layer *a, const miras__op *o, int first,
                                          const bf16 *x, unsigned ldx) {
  const miras__param *w = &a->p->param[first];
  const size_t ld = miras__fast_matrix_ld(a->p, first), cols = miras__columns_of(a->p, w);
  miras__fast_product of =
    miras__fast_product_of(x, ldx, miras__fast_matrix(a, o, first), ld, a->rows, cols, w->rows);
  int id;
  of.scales = miras__fast_scales(a->f, of.b, w->rows, cols);
  for (id = first; id; id = a->p->param[id].next)
    if (a->p->param[id].bias)
      of.bias = miras__fast_bias_at(a->f, of.b, w->rows, cols, w->rows, ld);
  return of;
}
/* Where an operation of the layer at hand has its part of the texts' states. */
static unsigned char *miras__fast_state(const miras__fast_layer *a, const miras__op *o) {
  return a->f->texts + a->f->now_at + miras__fast_state_at(a->p, o);
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

static miras__fast_map miras__fast_map_of(const miras__fast_layer *a, int what, size_t cols) {
  miras__fast_map x = {};
  x.what = what, x.scale = 1;
  x.eights = (unsigned)(cols / 8), x.items = a->rows * x.eights;
  return x;
}
static void miras__fast_run_map(const miras__fast_layer *a, const miras__fast_map *x) {
  miras__fast_rows(a->f, miras__run_fast_map, x->items, *x);
}

/* What a pointwise operation is: forward, back, and how many columns. */
static int miras__fast_map_kind(const miras__op *o, int back) {
  switch (o->what) {                 /* the next is its way back; of SQUASH that behind it        */
    case MIRAS__OP_GATE: return MIRAS__MAP_GATE + back;
    case MIRAS__OP_MULTIPLY: return MIRAS__MAP_TIMES + back;
    case MIRAS__OP_RELU2: return MIRAS__MAP_F + back;
    case MIRAS__OP_SQUASH: return MIRAS__MAP_F + 2 * back;
    default: return MIRAS__MAP_COPY;
  }
}
static void miras__fast_pointwise(const miras__fast_layer *a, const miras__op *o, int back) {
  const int squash = o->what == MIRAS__OP_SQUASH, in = squash ? o->out : o->in[0];
  const int heads = o->what == MIRAS__OP_JOIN || o->what == MIRAS__OP_READ ? o->heads : 1;
  const size_t at = squash ? o->out_at : o->in_at[0];
  miras__fast_map x =
    miras__fast_map_of(a, miras__fast_map_kind(o, back), (size_t)o->cols * (size_t)heads);
  const int copies = back && x.what == MIRAS__MAP_COPY;    /* of d alone                          */
  if (o->what == MIRAS__OP_SCALE) x.scale = a->p->scales[o->part];
  x.function = o->what == MIRAS__OP_RELU2 ? (int)MIRAS_FN_RELU2 : o->function;
  x.x = miras__fast_lines(a, copies ? o->out : in, copies ? o->out_at : at, copies, &x.ldx);
  x.y = miras__fast_lines(a, back ? in : o->out, back ? at : o->out_at, back, &x.ldy);
  x.adds = back && !squash && (o->adds & 1);
  if (o->in[1] && !copies) x.u = miras__fast_lines(a, o->in[1], o->in_at[1], 0, &x.ldu);
  if (back && !copies) x.d = miras__fast_lines(a, o->out, o->out_at, 1, &x.ldd);
  if (x.d && x.u) {
    x.z = miras__fast_lines(a, o->in[1], o->in_at[1], 1, &x.ldz);
    x.adds_z = o->adds >> 1 & 1;
  }
  miras__fast_run_map(a, &x);
}

/* ---- norms ---- */

static void miras__fast_run_norm(miras__fast *f, const miras__fast_norm &x) {
  miras__fast_groups(f, x.gate ? miras__run_fast_norm<1> : miras__run_fast_norm<0>, x);
}
/* Back through a norm, and the gradients of its gain and bias, which lie as these do. */
static void miras__fast_norm_back(miras__fast *f, const miras__fast_norm &x) {
  const size_t cols = (size_t)x.heads * x.n;
  const size_t n = x.step ? cols : x.n, folds = x.step ? 1 : x.heads;
  miras__fast_sums s = {};
  miras__fast_groups(f, x.gate ? miras__run_fast_norm_back<1> : miras__run_fast_norm_back<0>, x);
  if (!x.gain) return;
  s.what = MIRAS__SUM_GAIN, s.function = x.function;
  s.d = x.d, s.ldd = x.ldd, s.x = x.x, s.ldx = x.ldx, s.gate = x.gate, s.ld_gate = x.ld_gate;
  s.stats = x.stats, s.heads = x.heads, s.n = x.n, s.cols = (unsigned)cols;
  s.sets = x.bias ? 2 : 1;
  miras__fast_sum(f, &s);
  miras__fast_fold(f, f->grads + (x.gain - f->params), n, s.sets * cols, 0, 1, folds, x.n);
  if (x.bias)
    miras__fast_fold(f, f->grads + (x.bias - f->params), n, s.sets * cols, cols, 1, folds, x.n);
}

static void miras__fast_norms(const miras__fast_layer *a, const miras__op *o, int back) {
  const miras__program *p = a->p;
  const int layered = p->norm && (o->param == MIRAS__W_NORM1 || o->param == MIRAS__W_NORM2);
  const int headed = o->what == MIRAS__OP_HEAD_NORM;
  const int stream = o->what == MIRAS__OP_NORM || o->what == MIRAS__OP_SHIFT;
  const int bias = layered ? o->param + 1
                 : headed && p->param[MIRAS__W_OUT_BIAS].rows ? MIRAS__W_OUT_BIAS : 0;
  miras__fast_norm x = {};
  if (stream && !o->param) {         /* the stream itself                                         */
    miras__fast_map copy = miras__fast_map_of(a, MIRAS__MAP_COPY, (size_t)o->heads * o->cols);
    copy.x = miras__fast_lines(a, back ? o->out : o->in[0], 0, back, &copy.ldx);
    copy.y = back ? a->f->ds : miras__fast_x(a, o->out, 0), copy.adds = back;
    copy.ldy = (unsigned)miras__fast_width(a->f);
    miras__fast_run_map(a, &copy);
    return;
  }
  x.x = miras__fast_lines(a, o->in[0], o->in_at[0], 0, &x.ldx);
  x.heads = o->heads, x.n = o->cols, x.items = (unsigned)(a->rows * o->heads);
  x.step = headed ? o->cols : 0;
  x.lanes = miras__fast_lanes(o->cols);
  x.function = o->function;
  x.epsilon = headed ? p->out_epsilon : o->param ? p->epsilon : p->inner_epsilon;
  if (o->param) x.gain = miras__fast_param(a, o->param);
  if (bias) x.bias = miras__fast_param(a, bias);
  if (headed && o->in[1]) x.gate = miras__fast_lines(a, o->in[1], o->in_at[1], 0, &x.ld_gate);
  if (!back) {
    x.y = miras__fast_lines(a, o->out, o->out_at, 0, &x.ldy);
    miras__fast_run_norm(a->f, x);
    return;
  }
  x.d = miras__fast_lines(a, o->out, o->out_at, 1, &x.ldd);
  x.stats = a->f->stats;
  x.dx = miras__fast_lines(a, o->in[0], o->in_at[0], 1, &x.ld_dx);
  if (stream) x.dx = a->f->ds;       /* of the same width                                         */
  if (stream || o->adds & 1) x.base = x.dx, x.ld_base = x.ld_dx;
  if (x.gate) x.dgate = miras__fast_lines(a, o->in[1], o->in_at[1], 1, &x.ld_dgate);
  miras__fast_norm_back(a->f, x);
}

/* The norm, and what it was of the row before less that; and rows of both, mixed. */
static void miras__fast_shift(const miras__fast_layer *a, const miras__op *o, int back) {
  miras__fast_map x = miras__fast_map_of(
    a, back ? MIRAS__MAP_SHIFT_BACK : MIRAS__MAP_SHIFT, a->p->width);
  bf16 *const at = miras__fast_lines(a, o->out, 0, back, &x.ldx);
  const miras__op *tail = o;
  if (!back) miras__fast_norms(a, o, 0);
  x.per = (unsigned)a->f->length;
  while (a->f->sits && (tail->what != MIRAS__OP_TAIL || a->p->tail[tail->part].array != o->out))
    tail++;
  if (a->f->sits) x.tails = miras__fast_state(a, tail);
  x.apart = a->f->apart;
  x.x = at, x.y = back ? at : at + a->p->ld_x, x.ldu = x.ldy = x.ldx;
  if (back) x.u = at + a->p->ld_x;
  miras__fast_run_map(a, &x);
  if (back) miras__fast_norms(a, o, 1);
}
static void miras__fast_mix(const miras__fast_layer *a, const miras__op *o, int back) {
  const size_t w = a->p->width, at = o->part * w, ld = a->p->ld_x;
  miras__fast_map x = miras__fast_map_of(a, back ? MIRAS__MAP_MIX_BACK : MIRAS__MAP_SKIP, w);
  x.w = miras__fast_param(a, MIRAS__W_SHIFT) + at;
  x.x = miras__fast_lines(a, back ? o->out : o->in[0], 0, back, &x.ldx);
  x.y = miras__fast_lines(a, back ? o->in[0] : o->out, 0, back, &x.ldy);
  if (back) x.z = x.y + ld, x.ldz = x.ldy, x.adds = x.adds_z = o->adds & 1;
  else x.u = x.x + ld, x.ldu = x.ldx;
  miras__fast_run_map(a, &x);
  if (!back) return;
  miras__fast_biases(a->f, miras__fast_dparam(a, MIRAS__W_SHIFT) + at, x.x, x.ldx, w,
                     miras__fast_x(a, o->in[0], ld), x.ldy);
}

/* ---- products ---- */

/* From the gradient d of what an operation's matrix makes that of what it reads, which is added to
 * or not, and those of its weights and biases. */
static void miras__fast_matrix_back(const miras__fast_layer *a, const miras__op *o, int first,
                                    int slot, int adds, const bf16 *d, unsigned ldd) {
  const miras__program *p = a->p;
  const miras__param *w = &p->param[first];
  miras__fast_product of = miras__fast_product_of(d, ldd, miras__fast_matrix(a, o, first),
                                                  miras__fast_matrix_ld(p, first), a->rows, w->rows,
                                                  miras__columns_of(p, w));
  unsigned ldx;
  const bf16 *const x = miras__fast_lines(a, o->in[slot], o->in_at[slot], 0, &ldx);
  int id;
  of.c = miras__fast_lines(a, o->in[slot], o->in_at[slot], 1, &of.ldc);
  of.adds = adds;
  miras__fast_multiply(a->f, &of, 0, 1);
  for (id = first; id; id = w->next) {
    w = &p->param[id], d = of.a + (w->column - p->param[first].column);
    miras__fast_weights(a->f, miras__fast_dparam(a, id), x, ldx, d, ldd, w->rows, w->cols, a->rows);
    if (w->bias) miras__fast_biases(a->f, miras__fast_dparam(a, w->bias), d, ldd, w->cols);
  }
}

static void miras__fast_multiplied(const miras__fast_layer *a, const miras__op *o, int back) {
  unsigned ld;
  const bf16 *const x = miras__fast_lines(a, back ? o->out : o->in[0],
                                          back ? o->out_at : o->in_at[0], back, &ld);
  miras__fast_product of;
  if (back) {
    miras__fast_matrix_back(a, o, o->param, 0, o->adds & 1, x, ld);
    return;
  }
  of = miras__fast_by(a, o, o->param, x, ld);
  of.c = miras__fast_lines(a, o->out, o->out_at, 0, &of.ldc);
  if (miras__fast_is_wide(a->p, o->out)) of.wide = miras__fast_floats(a, o->out) + o->out_at;
  miras__fast_multiply(a->f, &of, 0, 0);
}

/* Is dropout at work: of a call that trains? */
static int miras__fast_drops(const miras__fast *f) { return f->m->desc.dropout > 0 && f->taped; }
/* y = base + mask x, base NULL: zero. */
static void miras__fast_run_drop(miras__fast *f, size_t site, const bf16 *base, const bf16 *x,
                                 bf16 *y) {
  const float rate = f->m->desc.dropout;
  miras__fast_drop a = {};
  a.base = base, a.x = x, a.y = y, a.now = f->now;
  a.seed = miras__hash(f->m->desc.seed + 1);
  a.call = f->call, a.site = site;
  a.limit = (uint32_t)((double)rate * 4294967296.0), a.scale = 1.0f / (1.0f - rate);
  a.ld = (unsigned)miras__fast_width(f);
  a.eights = a.ld / 8, a.items = (size_t)f->batch * (size_t)f->length * a.eights;
  miras__fast_rows(f, miras__run_fast_drop, a.items, a);
}

/* y = x + u W + b; back du, and the weights' gradients. */
static void miras__fast_branch(const miras__fast_layer *a, const miras__op *o, int back) {
  const miras__param *w = &a->p->param[o->param];
  const int drop = a->p->drops && miras__fast_drops(a->f);
  const size_t site = a->layer->site + o->part;
  const unsigned ld = (unsigned)miras__fast_width(a->f);
  miras__fast_product of;
  miras__fast_map copy = miras__fast_map_of(a, back ? MIRAS__MAP_COPY : MIRAS__MAP_ADD, ld);
  const bf16 *const u = miras__fast_lines(a, o->in[1], o->in_at[1], 0, &copy.ldu), *d = a->f->ds;
  copy.ldx = copy.ldy = ld;
  if (!back) {
    bf16 *const y = miras__fast_x(a, o->out, 0), *const to = drop ? a->f->room : y;
    const bf16 *const x = miras__fast_x(a, o->in[0], 0);
    if (w->rows) {
      of = miras__fast_by(a, o, o->param, u, copy.ldu);
      of.c = to, of.ldc = ld;
      if (!drop) of.base = x;
      miras__fast_multiply(a->f, &of, 0, 0);
    } else if (!drop) {
      copy.x = x, copy.u = u, copy.y = y;
      miras__fast_run_map(a, &copy);
    }
    if (drop) miras__fast_run_drop(a->f, site, x, w->rows ? to : u, y);
    return;
  }
  if (drop) miras__fast_run_drop(a->f, site, NULL, d, a->f->room), d = a->f->room;
  copy.x = d, copy.y = miras__fast_lines(a, o->in[1], o->in_at[1], 1, &copy.ldy);
  if (w->rows) miras__fast_matrix_back(a, o, o->param, 1, 0, d, ld);
  else miras__fast_run_map(a, &copy);
}

/* ---- experts ---- */

/* C = or += A B of pairs by their experts' rows of matrix `id`, or (tb) of these turned; or (ta)
 * their gradients, A' B, sums over pairs. */
static void miras__fast_grouped(const miras__fast_layer *a, const miras__op *o,
                                const miras__fast_pairs *x, int id, int ta, int tb,
                                miras__fast_product of) {
  typedef void grid(const miras__fast_product);
  static grid *const all[] = {
    miras__run_fast_product<0, 0, 1>, miras__run_fast_product<0, 1, 1>,
    miras__run_fast_product<1, 0, 1>
  };
  const miras__param *w = &a->p->param[id];
  const unsigned each = (unsigned)miras__each_rows(a->p, w), cols = w->cols;
  of.m = ta ? each : x->pairs, of.n = tb ? each : cols, of.k = tb ? cols : each, of.parts = 1;
  if (ta) of.wide = miras__fast_dparam(a, id), of.ldc = cols, of.adds = 1;
  else of.b = miras__fast_matrix(a, o, id), of.ldb = (unsigned)miras__fast_matrix_ld(a->p, id);
  of.apart = (size_t)each * (ta ? cols : of.ldb);
  of.across = (of.n + 127) / 128, of.starts = x->starts, of.tiles = x->tiles;
  if (a->f->m->desc.weights == MIRAS_WEIGHTS_Q8) {
    of.scales = miras__fast_scales(a->f, of.b, w->rows, cols);
    of.across = (cols + 15) / 16, of.parts = (unsigned)miras__least(16, (a->rows + 7) / 8);
    of.ldb = w->rows / 32, of.apart = each / 32;
    miras__fast_launch(a->f, miras__run_fast_product_q8,
                       (size_t)(x->pairs / 128 + x->experts) * of.parts * of.across, 256, 4096, of);
    return;
  }
  miras__fast_launch(a->f, all[2 * ta + tb],
                     (size_t)of.across * (ta ? (size_t)x->experts * ((each + 127) / 128)
                                             : x->pairs / 128 + x->experts),
                     256, (size_t)MIRAS__PRODUCT_BYTES, of);
}
/* A product whose rows of A, or of B, are listed. */
static miras__fast_product miras__fast_listed(const bf16 *a, unsigned lda, const unsigned *list_a,
                                              const bf16 *b, unsigned ldb,
                                              const unsigned *list_b) {
  miras__fast_product x = miras__fast_product_of(a, lda, b, ldb, 0, 0, 0);
  x.list_a = list_a, x.list_b = list_b;
  return x;
}
/* And one to `to`, or added to that. */
static miras__fast_product miras__fast_listed_to(bf16 *to, unsigned ldc, int adds, const bf16 *a,
                                                 unsigned lda, const unsigned *list) {
  miras__fast_product x = miras__fast_listed(a, lda, list, NULL, 0, NULL);
  x.c = to, x.ldc = ldc, x.adds = adds;
  return x;
}

static void miras__fast_experts(const miras__fast_layer *a, const miras__op *o, int back) {
  const miras__mlp *s = &a->p->mlp;
  const unsigned ldf = (unsigned)s->ld, ld2 = 2 * ldf;
  bf16 *const room = a->f->room, *h, *d;
  unsigned ld, ldr;
  miras__fast_pairs x = {};
  miras__fast_product of;
  miras__fast_map gate = miras__fast_map_of(a, MIRAS__MAP_GATE, s->hidden);
  int i;
  (void)miras__fast_pairs_at(s, a->rows, miras__fast_value(a, o->in[3]), &x);
  h = miras__fast_lines(a, o->in[0], 0, 0, &ld);
  x.act = miras__fast_x(a, o->in[4], 0), x.ab = miras__fast_x(a, o->in[1], 0);
  x.route = miras__fast_floats(a, o->in[2]), x.ld_route = ldr = miras__fast_ldx(a, o->in[2]);
  x.rows = (unsigned)a->rows, x.paths = s->paths, x.pairs = x.rows * s->paths;
  x.experts = s->experts, x.routed = s->routed, x.routes = s->routes;
  x.hidden = (unsigned)s->hidden, x.ld = ld, x.ldf = ldf, x.eights = ld / 8;
  x.sums_to_one = s->sums_to_one, x.from = room;
  if (!back) {
    of = miras__fast_by(a, o, MIRAS__W_ROUTER, h, ld);
    of.wide = x.route, of.ldc = ldr;
    miras__fast_multiply(a->f, &of, 0, 0);
    miras__fast_rows(a->f, miras__run_fast_choose, a->rows * 32, x);
    miras__fast_launch(a->f, miras__run_fast_sort, x.experts, 256, 512 * 4, x);
    for (i = 0; i < 2; i++)
      miras__fast_grouped(a, o, &x, MIRAS__W_MLP_GATE + i, 0, 0,
                          miras__fast_listed_to(x.ab + (i ? ldf : 0), ld2, 0, h, ld, x.list));
    gate.x = x.ab + ldf, gate.u = x.ab, gate.y = x.act, gate.ldx = gate.ldu = ld2, gate.ldy = ldf;
    gate.items *= s->paths, gate.function = MIRAS_FN_SILU;
    miras__fast_run_map(a, &gate);
    miras__fast_grouped(a, o, &x, MIRAS__W_MLP_DOWN, 0, 0,
                        miras__fast_listed_to(room, ld, 0, x.act, ldf, NULL));
    x.to = miras__fast_x(a, o->out, 0), x.weighs = 1;
    miras__fast_rows(a->f, miras__run_fast_gather, a->rows * x.eights, x);
    return;
  }
  d = miras__fast_d(a, o->out, 0);
  x.dab = miras__fast_d(a, o->in[1], 0), x.droute = miras__fast_d(a, o->in[2], 0);
  x.to = miras__fast_d(a, o->in[4], 0), x.from = x.to;
  miras__fast_grouped(a, o, &x, MIRAS__W_MLP_DOWN, 0, 1,
                      miras__fast_listed_to(x.to, ldf, 0, d, ld, x.list));
  miras__fast_rows(a->f, miras__run_fast_pairs_back, a->rows * 32, x);
  miras__fast_grouped(a, o, &x, MIRAS__W_MLP_DOWN, 1, 0,
                      miras__fast_listed(x.act, ldf, NULL, d, ld, x.list));
  for (i = 0; i < 2; i++) {          /* gate and up                                               */
    const bf16 *const by = x.dab + (i ? ldf : 0);
    miras__fast_grouped(a, o, &x, MIRAS__W_MLP_GATE + i, 1, 0,
                        miras__fast_listed(h, ld, x.list, by, ld2, NULL));
    miras__fast_grouped(a, o, &x, MIRAS__W_MLP_GATE + i, 0, 1,
                        miras__fast_listed_to(room, ld, i, by, ld2, NULL));
  }
  x.from = room, x.to = miras__fast_d(a, o->in[0], 0);
  miras__fast_rows(a->f, miras__run_fast_gather, a->rows * x.eights, x);
  miras__fast_matrix_back(a, o, MIRAS__W_ROUTER, 0, 1, x.droute, ldr);
}

/* ---- what heads read ---- */

static miras__fast_conv miras__fast_conv_of(const miras__fast_layer *a, const miras__op *o) {
  const miras__array *r = &a->p->array[o->out];
  miras__fast_conv x = {};
  x.heads = r->heads, x.n = r->dim, x.group = r->by_head ? r->grad_heads / r->heads : 1;
  x.tokens = (unsigned)a->f->length, x.scale = 1;
  if (r->dim > 256) x.n = 8, x.heads = r->heads * r->dim / 8;   /* no lengths: any pieces         */
  x.items = (unsigned)(a->rows * x.heads);
  x.lanes = miras__fast_lanes(x.n);
  return x;
}
static void miras__fast_with_length(const miras__fast_layer *a, const miras__op *o,
                                    miras__fast_conv *x) {
  const miras__mixer *m = &a->p->mixer;
  x->length = m->length != 0 ? miras__length_by(m, o) : 0;
  if (m->length != 0) x->inverse = miras__fast_floats(a, o->in[0]);
  else x->scale = m->query_scale;
}

/* LENGTH where no convolution does it, and its adjoint where the gradient lies. */
static void miras__fast_length(const miras__fast_layer *a, const miras__op *o, int back) {
  miras__fast_conv x = miras__fast_conv_of(a, o);
  miras__fast_with_length(a, o, &x);
  x.x = miras__fast_lines(a, o->out, 0, 0, &x.ldx);
  if (!back) {
    if (miras__fast_conv_before(a->p, o)) return;
    x.y = miras__fast_lines(a, o->out, 0, 0, &x.ldy);
    miras__fast_groups(a->f, miras__run_fast_conv, x);
    return;
  }
  if (!x.inverse) x.x = NULL;
  x.heads *= x.group, x.items *= x.group;
  if (x.group > 1 && x.inverse) return;                /* the convolution's adjoint does it       */
  x.group = 1;
  x.d = x.y = miras__fast_lines(a, o->out, 0, 1, &x.ldd), x.ldy = x.ldd;
  miras__fast_groups(a->f, miras__run_fast_conv_back, x);
}

static void miras__fast_convolve(const miras__fast_layer *a, const miras__op *o, int back) {
  const miras__program *p = a->p;
  const miras__param *w = &p->param[o->param];
  const miras__op *const length = miras__fast_length_of(p, o);
  const size_t cols = (size_t)p->array[o->out].heads * p->array[o->out].dim;
  miras__fast_conv x = miras__fast_conv_of(a, o);
  miras__fast_sums s = {};
  x.x = miras__fast_lines(a, o->in[0], o->in_at[0], 0, &x.ldx);
  x.function = o->function;
  if (w->rows) x.taps = w->rows, x.w = miras__fast_param(a, o->param);
  if (w->rows && w->bias && p->param[w->bias].rows) x.bias = miras__fast_param(a, w->bias);
  if (a->f->sits && x.taps > 1) {
    const miras__tail *tail = &p->tail[o->part];
    const miras__op *keeps = p->op;
    while (keeps->what != MIRAS__OP_TAIL || keeps->part != o->part) keeps++;
    x.tails = miras__fast_state(a, keeps) + (o->in_at[0] - tail->at) * 2;
    x.apart = a->f->apart, x.ld_tail = tail->cols;
  }
  if (!back) {
    if (length) miras__fast_with_length(a, length, &x);
    x.y = miras__fast_lines(a, o->out, o->out_at, 0, &x.ldy);
    miras__fast_groups(a->f, miras__run_fast_conv, x);
    return;
  }
  x.d = miras__fast_lines(a, o->out, o->out_at, 1, &x.ldd);
  if (x.group > 1 && length && p->mixer.length != 0) {
    /* heads that share a key: their gradients are added up before its length's adjoint */
    miras__fast_conv y = miras__fast_conv_of(a, length);
    miras__fast_with_length(a, length, &y);
    y.x = miras__fast_lines(a, o->out, 0, 0, &y.ldx);
    y.d = x.d, y.ldd = x.ldd, y.y = a->f->room, y.ldy = (unsigned)miras__up8(cols);
    miras__fast_groups(a->f, miras__run_fast_conv_back, y);
    x.d = y.y, x.ldd = y.ldy, x.group = 1;
  }
  x.y = miras__fast_lines(a, o->in[0], o->in_at[0], 1, &x.ldy);
  x.adds = o->adds & 1;
  if (!x.taps) {
    miras__fast_groups(a->f, miras__run_fast_conv_back, x);
    return;
  }
  miras__fast_conv dz = x;           /* what is in front of the function                          */
  dz.y = a->f->room, dz.ldy = (unsigned)miras__up8(cols), dz.adds = 0;
  miras__fast_groups(a->f, miras__run_fast_conv_back, dz);
  s.what = MIRAS__SUM_CONV, s.taps = x.taps, s.sets = x.taps + (x.bias != NULL);
  s.d = dz.y, s.ldd = dz.ldy, s.x = x.x, s.ldx = x.ldx, s.cols = (unsigned)cols;
  miras__fast_sum(a->f, &s);
  miras__fast_fold(a->f, miras__fast_dparam(a, o->param), x.taps * cols, s.sets * cols);
  if (x.bias)
    miras__fast_fold(a->f, miras__fast_dparam(a, w->bias), cols, s.sets * cols, x.taps * cols);
  x.d = dz.y, x.ldd = dz.ldy, x.items = (unsigned)a->rows;
  miras__fast_rows(a->f, miras__run_fast_conv_turned, a->rows * (cols / 8), x);
}

static void miras__fast_read(const miras__fast_layer *a, const miras__op *o, int back) {
  miras__fast_conv x = miras__fast_conv_of(a, o);
  x.d = miras__fast_lines(a, o->out, o->out_at, 1, &x.ldd);
  x.y = miras__fast_lines(a, o->in[0], o->in_at[0], 1, &x.ldy);
  x.adds = o->adds & 1;
  if (back) miras__fast_groups(a->f, miras__run_fast_conv_back, x);
  else miras__fast_pointwise(a, o, 0);
}

static void miras__fast_angles(const miras__fast_layer *a, const miras__op *o, int back) {
  const miras__rope *r = o->function ? &a->p->attending.rope : &a->p->mixer.rope;
  miras__fast_rope x = {};
  x.angles = miras__fast_floats(a, o->out), x.factor = r->turns[0];
  memcpy(x.by, r->turns + MIRAS__TILE * r->turn, r->turn / 2 * sizeof(double));
  x.turn = (unsigned)r->turn, x.period = (unsigned)r->period;
  x.items = (size_t)a->f->length * r->turn / 2;
  x.texts = a->f->sits ? a->f->texts : NULL, x.apart = a->f->apart;
  if (!back) miras__fast_rows(a->f, miras__run_fast_angles, x.items, x);
}
/* TURN, where the rows lie, and ROTATE. */
static void miras__fast_turn(const miras__fast_layer *a, const miras__op *o, int back) {
  const int rotates = o->what == MIRAS__OP_ROTATE, angles = rotates ? o->in[1] : o->in[0];
  const int from = rotates ? o->in[0] : o->out, to = o->out;
  const size_t at = rotates ? o->in_at[0] : 0;
  const miras__rope *r = rotates ? &a->p->attending.rope : &a->p->mixer.rope;
  const miras__array *y = &a->p->array[to];
  miras__fast_rope x = {};
  if (angles) x.angles = miras__fast_floats(a, angles), x.turn = (unsigned)r->turn;
  x.x = miras__fast_lines(a, back ? to : from, back ? 0 : at, back, &x.ldx);
  x.y = miras__fast_lines(a, back ? from : to, back ? at : 0, back, &x.ldy);
  x.heads = rotates ? o->heads : back ? y->grad_heads : y->heads;
  x.n = rotates ? o->cols : y->dim;
  x.way = (unsigned)r->way, x.tokens = (unsigned)a->f->length;
  x.back = back, x.adds = back && from != to && (o->adds & 1);
  x.items = a->rows * x.heads * (x.n / 8);
  miras__fast_rows(a->f, miras__run_fast_turn, x.items, x);
}

/* ---- attention ---- */

template <int DK>
static void miras__fast_attend_by(miras__fast *f, const miras__fast_attention &x, size_t texts,
                                  int back) {
  typedef miras__fast_a<DK> room;
  const size_t tasks = texts * x.heads * x.blocks;
  if (f->sits) {
    miras__fast_launch(f, miras__run_fast_recall<DK>, f->rows * x.heads, 128,
                       (size_t)(1024 / DK) * (DK + 2) * 4, x);
  } else if (!back) {
    miras__fast_launch(f, miras__run_fast_a1<DK>, tasks, 128, room::BYTES1, x);
  } else {
    miras__fast_launch(f, miras__run_fast_a2<DK>, tasks, 128, room::BYTES2, x);
    miras__fast_launch(f, miras__run_fast_a3<DK>, tasks / x.group, 128, room::BYTES3, x);
  }
}
static void miras__fast_attend(const miras__fast_layer *a, const miras__op *o, int back) {
  const miras__attending *s = &a->p->attending;
  const size_t texts = (size_t)a->f->batch;
  miras__fast_attention x = {};
  x.q = miras__fast_x(a, o->in[0], o->in_at[0]), x.ldq = miras__fast_ldx(a, o->in[0]);
  x.k = miras__fast_x(a, o->in[1], o->in_at[1]), x.ldk = miras__fast_ldx(a, o->in[1]);
  x.v = miras__fast_x(a, o->in[2], o->in_at[2]), x.ldv = miras__fast_ldx(a, o->in[2]);
  x.y = miras__fast_x(a, o->out, 0), x.ldy = miras__fast_ldx(a, o->out);
  x.log = miras__fast_floats(a, a->p->arrays);
  x.along = a->f->stats;
  x.scale = 1 / sqrtf((float)s->dk);
  x.heads = (unsigned)s->heads, x.group = (unsigned)s->group, x.window = (unsigned)s->window;
  x.tokens = (unsigned)a->f->length, x.blocks = (x.tokens + 63) / 64;
  x.texts = a->f->texts, x.apart = a->f->apart;
  x.ring = a->f->now_at + miras__fast_state_at(a->p, o);
  if (back) {
    x.d = miras__fast_d(a, o->out, 0), x.ldd = miras__fast_ldd(a, o->out);
    x.dq = miras__fast_d(a, o->in[0], o->in_at[0]), x.ld_dq = miras__fast_ldd(a, o->in[0]);
    x.dk = miras__fast_d(a, o->in[1], o->in_at[1]), x.ld_dk = miras__fast_ldd(a, o->in[1]);
    x.dv = miras__fast_d(a, o->in[2], o->in_at[2]), x.ld_dv = miras__fast_ldd(a, o->in[2]);
  }
  if (s->dk == 32) miras__fast_attend_by<32>(a->f, x, texts, back);
  else if (s->dk == 64) miras__fast_attend_by<64>(a->f, x, texts, back);
  else miras__fast_attend_by<128>(a->f, x, texts, back);
}

/* ---- gates and memories ---- */

/* Are gates of a session made by its memories alone, which read them alone? */
static int miras__fast_fuses(const miras__fast_layer *a) {
  const miras__op *o;
  int reads = 0, i;
  for (o = a->p->op; o < a->p->op + a->p->ops; o++)
    for (i = 0; i < MIRAS__INS; i++)
      if (o->in[i] == a->p->mixer.gated) reads |= o->what == MIRAS__OP_MEMORY ? 1 : 2;
  return a->f->sits && a->p->mixer.gated && reads == 1;
}
static miras__fast_gates miras__fast_gates_of(const miras__fast_layer *a, const miras__op *o) {
  const miras__mixer *m = &a->p->mixer;
  miras__fast_gates x = {};
  int i;
  for (i = MIRAS__KEEP; i <= MIRAS__MIX; i++) {
    const miras__gates *from = &m->gate[i];
    const miras__gating how = miras__gating_of(m, from);
    miras__fast_group *to = &x.of[i];
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
  return x;
}
static void miras__fast_gating(const miras__fast_layer *a, const miras__op *o, int back) {
  const miras__mixer *m = &a->p->mixer;
  miras__fast_gates x = miras__fast_gates_of(a, o);
  const size_t strips = (a->rows + 63) / 64, all = m->gates + x.rates;
  if (!back) {
    if (!miras__fast_fuses(a)) miras__fast_rows(a->f, miras__run_fast_gates, a->rows * m->outs, x);
    return;
  }
  x.d = (float *)(void *)miras__fast_grad(a, o->out);
  if (o->in[0]) x.dg = miras__fast_d(a, o->in[0], 0), x.ld_dg = miras__fast_ldd(a, o->in[0]);
  x.to = a->f->sums;
  miras__fast_launch(a->f, miras__run_fast_gates_back, strips * ((m->gates + 127) / 128), 64, 0, x);
  miras__fast_fold(a->f, miras__fast_dparam(a, MIRAS__W_GATES_OFFSET), m->gates, all);
  if (x.rates)
    miras__fast_fold(a->f, miras__fast_dparam(a, MIRAS__W_GATES_RATE), x.rates, all, m->gates);
}

/* The chunk kernels of a width of keys: C1; C2 forward and again, C3, by 32 and 64 columns of
 * values; C4; the walk over segments; and their bytes of shared memory. */
typedef void miras__fast_grid(const miras__fast_chunks);
typedef struct miras__fast_set {
  miras__fast_grid *c1, *c2[2], *again[2], *c3[2], *c4, *walk;
  size_t bytes1, bytes2[2], bytes4, walked;
} miras__fast_set;
template <int DK, int DELTA, int CH> static miras__fast_set miras__fast_set_of(void) {
  enum { VB = DK < 64 ? 32 : 64, ERRORS = DELTA > 0, APART = DELTA > 1 };
  const size_t more = APART * 128 * (DK + 8);
  const miras__fast_set s = {
    CH ? miras__run_fast_c1_channels<DK, APART> : miras__run_fast_c1<DK>,
    {miras__run_fast_c2<DK, 32, ERRORS, CH, 0>, miras__run_fast_c2<DK, VB, ERRORS, CH, 0>},
    {miras__run_fast_c2<DK, 32, ERRORS, CH, 1>, miras__run_fast_c2<DK, VB, ERRORS, CH, 1>},
    {miras__run_fast_c3<DK, 32, ERRORS, CH>, miras__run_fast_c3<DK, VB, ERRORS, CH>},
    miras__run_fast_c4<DK, DELTA, CH>, miras__run_fast_walk<DK>,
    CH ? miras__fast_c1_channels<DK>::BYTES + more : (size_t)miras__fast_c1<DK>::BYTES,
    {miras__fast_stage<DK, 32, ERRORS, CH>::BYTES, miras__fast_stage<DK, VB, ERRORS, CH>::BYTES},
    miras__fast_c4<DK, CH>::BYTES + more, miras__fast_walked<DK>::BYTES
  };
  return s;
}
template <int DELTA, int CH> static miras__fast_set miras__fast_chunk_kernels(size_t dk) {
  return dk == 32   ? miras__fast_set_of<32, DELTA, CH>()
         : dk == 64 ? miras__fast_set_of<64, DELTA, CH>()
                    : miras__fast_set_of<128, DELTA, CH>();
}

/* Blocks from which on each has 64 columns of values, where it can; of one token eight times. */
#ifndef MIRAS__FAST_WIDE
  #define MIRAS__FAST_WIDE 128
#endif

/* Sums of `parts` of n numbers to those of a parameter. */
static void miras__fast_add_parts(const miras__fast_layer *a, int param, const float *sums,
                                  size_t n, size_t parts) {
  miras__fast_fold(a->f, miras__fast_dparam(a, param), n, n, 0, 1, 1, 0, sums, parts);
}

/* P: forward one launch, back two, and sums over sequences. */
static void miras__fast_perceptrons(const miras__fast_layer *a, const miras__fast_chunks *rows,
                                    int back) {
  const miras__mixer *m = &a->p->mixer;
  const miras__plan *q = &m->plan;
  const miras__gates *momentum = &m->gate[MIRAS__MOMENTUM];
  const size_t tasks = (size_t)rows->batch * m->heads;
  miras__fast_perceptron x;
  size_t room, more;
  float *dinit;
  (void)miras__fast_perceptron_at(q, rows->batch, rows->tokens, a->f->clusters,
                                  a->f->most_shared, a->f->perceptrons, &room, &x);
  dinit = x.of.dinit, x.of = *rows, x.of.dinit = dinit;
  x.momentum_gate = momentum->count > 0, x.one_momentum = q->d.momentum;
  if (momentum->count) x.momentum = miras__fast_floats(a, m->gated) + momentum->first;
  more = (x.copies + 1) * x.slot * sizeof(bf16);
  x.stay = room + more <= a->f->most_shared, room += x.stay ? more : 0;
  x.gain = miras__fast_param(a, MIRAS__W_GAIN), x.bias = miras__fast_param(a, MIRAS__W_BIAS);
  x.epsilon = q->d.norm_epsilon > 0 ? q->d.norm_epsilon : 1e-5f;
  x.rates = (int)q->d.token_rates, x.function = (int)q->d.activation, x.again = back;
  if (x.rates) x.rho = miras__fast_param(a, MIRAS__W_RATES);
  miras__fast_launch(a->f, miras__run_fast_p1, tasks * x.ranks, 256, room, x, x.ranks);
  if (!back) return;
  if (momentum->count)
    x.dmomentum = (float *)(void *)miras__fast_grad(a, m->gated) + momentum->first;
  miras__fast_launch(a->f, miras__run_fast_p2, tasks * x.ranks, 256, room, x, x.ranks);
  miras__fast_add_parts(a, MIRAS__W_MEMORY, dinit, m->heads * q->weights, rows->batch);
  miras__fast_add_parts(a, MIRAS__W_GAIN, x.dgain, m->value, rows->batch);
  miras__fast_add_parts(a, MIRAS__W_BIAS, x.dbias, m->value, rows->batch);
  if (x.rates) miras__fast_add_parts(a, MIRAS__W_RATES, x.drho, x.chunk, tasks);
}

/* The launches of a memory of dk by x.value: forward, or back, with C1 and C2 once more. Of
 * segments C2, and C3, run first to find what the walk goes through. */
static void miras__fast_chunks_run(miras__fast *f, const miras__fast_chunks &x,
                                   size_t dk, int back) {
  const miras__fast_set run =
    x.apart ? miras__fast_chunk_kernels<2, 1>(dk)
    : x.channels ? x.delta ? miras__fast_chunk_kernels<1, 1>(dk)
                           : miras__fast_chunk_kernels<0, 1>(dk)
    : x.delta  ? miras__fast_chunk_kernels<1, 0>(dk)
               : miras__fast_chunk_kernels<0, 0>(dk);
  /* 64 columns of values a block, where there are blocks enough and a block has the memory; columns
   * do not see each other */
  const size_t segment = miras__fast_segment(x.chunks, x.heads, x.value, x.every);
  const size_t segments = (x.chunks + segment - 1) / segment;
  const size_t tasks = (size_t)x.batch * x.heads * segments, chunks = tasks / segments * x.chunks;
  const int wide = dk >= 64 && x.value % 64 == 0 && tasks * (x.value / 64) >= MIRAS__FAST_WIDE &&
                   run.bytes2[1] <= f->most_shared;
  const size_t across = wide ? 64 : 32, blocks = tasks * (x.value / across);
  const size_t more = x.delta ? tasks * (dk / across) : 0, bytes = run.bytes2[wide];
  miras__fast_chunks left = x;           /* what C2 and C3 read                       */
  int way;
  left.segment = (unsigned)segment, left.segments = (unsigned)segments;
  if (x.channels) {
    left.q = x.q_left, left.k = x.delta ? x.k_left : x.k_end, left.group = 1;
    left.ldq = left.ldk = x.heads * (unsigned)dk;
  }
  if (segments > 1 && x.last && x.last == x.init) {  /* the last segment may be the first to end  */
    f->failed |= cudaMemcpyAsync(x.begins, x.init, tasks / segments * dk * x.value * 4,
                                 cudaMemcpyDeviceToDevice, f->stream) != cudaSuccess;
    left.init = x.begins;
  }
  miras__fast_launch(f, run.c1, chunks, 128, run.bytes1, x);
  for (way = 0; way <= back; way++) {
    left.back = way, left.finds = segments > 1;
    if (left.finds) {
      miras__fast_launch(f, way ? run.c3[wide] : run.again[wide], way ? blocks : blocks + more, 128,
                         bytes, left);
      miras__fast_launch(f, run.walk, tasks / segments * (x.value / 32), 128, run.walked, left);
      left.finds = 0;
    }
    miras__fast_launch(f, way ? run.c3[wide] : back ? run.again[wide] : run.c2[wide], blocks, 128,
                       bytes, left);
  }
  if (!back) return;
  miras__fast_launch(f, run.c4, chunks, 128, run.bytes4, x);
}

static void miras__fast_token_run(miras__fast *f, miras__fast_token *x, size_t texts, size_t dk) {
  static void (*const run[2][3])(const miras__fast_token) = {
    {miras__run_fast_token<32, 0>, miras__run_fast_token<64, 0>, miras__run_fast_token<128, 0>},
    {miras__run_fast_token<32, 1>, miras__run_fast_token<64, 1>, miras__run_fast_token<128, 1>}
  };
  const size_t all = texts * x->of.heads, columns = all * x->of.value / (64 * MIRAS__FAST_WIDE + 1);
  for (x->span = dk == 32 ? 16 : 8; x->span * 4 < x->of.value && x->span <= columns;) x->span *= 2;
  x->across = (x->of.value + x->span * 4 - 1) / (x->span * 4);
  miras__fast_launch(f, run[x->of.apart != NULL][dk / 64], all * x->across, 128,
                     x->of.apart ? dk * 28 + 1024 : dk * 20 + 512, *x);
}

/* A memory that erases apart, of two rows a token: arrays, or their gradients, become every other
 * row of others, or come from there. */
static void miras__fast_apart(const miras__fast_layer *a, const miras__op *o,
                              miras__fast_chunks x, int back) {
  const miras__mixer *m = &a->p->mixer;
  const size_t keys = m->heads * m->dk, n = 2 * a->rows, value = m->value;
  bf16 *const q = a->f->pairs, *const k = q + n * keys, *const z = k + n * keys;
  bf16 *const v = z + n * keys, *const y = v + n * value;
  const struct { int of; bf16 *x, *d; size_t cols; float by; } all[6] = {
    {o->in[0], q + keys, x.q_left + keys, keys, 1}, {m->k, k + keys, x.k_end + keys, keys, 1},
    {m->replace, k, x.k_end, keys, 1}, {m->erase, z, x.k_left, keys, -1},
    {m->v, v + value, v + value, value, 1}, {o->out, y + value, y + value, value, 1}
  };
  int i;
  x.tokens *= 2, x.every *= 2, x.grid *= 2;
  x.q = q, x.k = k, x.apart = z, x.v = v, x.y = y, x.d = y;
  x.dq = x.q_left, x.dk = x.k_end, x.dapart = x.k_left, x.dv = v;
  x.ldq = x.ldk = x.ld_dq = x.ld_dk = (unsigned)keys;
  x.ldv = x.ldy = x.ldd = x.ld_dv = (unsigned)value;
  if (!a->f->failed)
    a->f->failed =
      cudaMemsetAsync(q, 0, n * (3 * keys + 2 * value) * 2, a->f->stream) != cudaSuccess;
  for (i = 0; i < 12; i++) {         /* five arrays and dy go, y or five gradients come           */
    const int of = all[i % 6].of, comes = i > 5, grad = comes ? back : i == 5;
    const size_t cols = all[i % 6].cols;
    miras__fast_map copy = miras__fast_map_of(a, MIRAS__MAP_COPY, cols);
    bf16 *const one = grad ? miras__fast_d(a, of, 0) : miras__fast_x(a, of, 0);
    const unsigned ld = grad ? miras__fast_ldd(a, of) : miras__fast_ldx(a, of);
    if (i == 6) miras__fast_chunks_run(a->f, x, m->dk, back);
    if (comes ? back == (i == 11) : grad && !back) continue;
    copy.scale = all[i % 6].by;
    copy.x = comes ? all[i % 6].d : one, copy.ldx = comes ? 2 * (unsigned)cols : ld;
    copy.y = comes ? one : all[i % 6].x, copy.ldy = comes ? ld : 2 * (unsigned)cols;
    miras__fast_run_map(a, &copy);
  }
}

static void miras__fast_memory(const miras__fast_layer *a, const miras__op *o, int back) {
  const miras__mixer *m = &a->p->mixer;
  const miras__gates *keep = &m->gate[MIRAS__KEEP], *step = &m->gate[MIRAS__STEP];
  const int frozen = m->plan.engine == MIRAS__RUN_FROZEN;
  miras__fast_chunks x = a->f->chunks;
  float *const gates = m->gated ? miras__fast_floats(a, m->gated) : NULL;
  float *const dgates = m->gated ? (float *)(void *)miras__fast_grad(a, m->gated) : NULL;
  x.q = miras__fast_x(a, o->in[0], 0), x.ldq = miras__fast_ldx(a, o->in[0]);
  x.k = miras__fast_x(a, m->k, 0), x.ldk = miras__fast_ldx(a, m->k);
  x.v = miras__fast_x(a, m->v, 0), x.ldv = miras__fast_ldx(a, m->v);
  x.y = miras__fast_x(a, o->out, 0), x.ldy = miras__fast_ldx(a, o->out);
  x.ldw = (unsigned)m->value;
  x.ld_keep = x.ld_step = m->gated ? miras__fast_ldx(a, m->gated) : 0;
  x.keep_gate = keep->count > 0, x.channels = m->plan.per_feature;
  x.keep = keep->count ? gates + keep->first : miras__fast_factors(a) + miras__up8(m->outs);
  x.step = step->count ? gates + step->first : NULL;
  x.one_step = m->plan.d.learning_rate;
  x.init = miras__fast_param(a, MIRAS__W_MEMORY);
  x.batch = (unsigned)a->f->batch, x.heads = (unsigned)m->heads, x.group = (unsigned)m->group;
  x.tokens = (unsigned)a->f->length, x.value = (unsigned)m->dv;
  x.chunks = (unsigned)miras__fast_chunk_count(m, (size_t)a->f->length);
  x.after = m->plan.after, x.delta = m->plan.delta, x.every = (unsigned)m->plan.d.reset_every;
  if (x.every) x.grid = (unsigned)miras__reset_grid(&m->plan.d);
  if (a->f->sits) {
    miras__fast_token token;
    token.of = x, token.texts = a->f->texts, token.apart = a->f->apart / 4;
    token.of.apart = miras__fast_x(a, m->erase, 0), token.replace = miras__fast_x(a, m->replace, 0);
    token.s = (float *)(void *)miras__fast_state(a, o);
    token.gated = (unsigned)miras__fast_fuses(a);
    if (token.gated) {
      const miras__op *gates = a->p->op;
      while (gates->what != MIRAS__OP_GATES) gates++;
      token.gates = miras__fast_gates_of(a, gates);
    }
    miras__fast_token_run(a->f, &token, a->f->rows, m->dk);
    return;
  }
  x.d = miras__fast_d(a, o->out, 0), x.ldd = miras__fast_ldd(a, o->out);
  x.dq = miras__fast_d(a, o->in[0], 0), x.ld_dq = miras__fast_ldd(a, o->in[0]);
  x.dk = miras__fast_d(a, m->k, 0), x.ld_dk = miras__fast_ldd(a, m->k);
  x.dv = miras__fast_d(a, m->v, 0), x.ld_dv = miras__fast_ldd(a, m->v);
  if (keep->count) x.dkeep = dgates + keep->first;
  if (step->count) x.dstep = dgates + step->first;
  if (frozen) miras__fast_perceptrons(a, &x, back);
  else if (m->plan.streams > 1) miras__fast_apart(a, o, x, back);
  else miras__fast_chunks_run(a->f, x, m->dk, back);
  if (back && !frozen)
    miras__fast_add_parts(a, MIRAS__W_MEMORY, x.dinit, m->heads * m->dk * m->dv, x.batch);
}

/* Keys of gates, perhaps with what is erased apart, the bonus, and values that are mixed in. */
static void miras__fast_heads(const miras__fast_layer *a, const miras__op *o, int back) {
  const miras__mixer *m = &a->p->mixer;
  const int taken = o->what == MIRAS__OP_KEYS && !m->erase;
  const int keys = o->what == MIRAS__OP_KEYS && !taken, values = o->what == MIRAS__OP_VALUES;
  const uint32_t first = m->gate[taken ? MIRAS__KEEP : keys ? MIRAS__ERASE : MIRAS__MIX].first;
  const size_t n = values ? m->dv : m->dk, cols = m->heads * n;
  bf16 *const room = a->f->room;
  miras__fast_head x = {};
  x.ld = (unsigned)miras__up8(cols), x.ldc = miras__fast_ldx(a, m->gated);
  x.c = miras__fast_floats(a, m->gated) + first;
  x.dc = (float *)(void *)miras__fast_grad(a, m->gated) + first;
  x.heads = (unsigned)m->heads, x.items = (unsigned)(a->rows * m->heads), x.n = (unsigned)n;
  x.lanes = miras__fast_lanes(n), x.back = back;
  if (taken) {
    x.y = miras__fast_x(a, m->k, 0), x.d = miras__fast_d(a, m->k, 0);
  } else if (values) {
    x.what = MIRAS__OF_VALUES, x.gives = a->layer->gives, x.first = a->f->first[back];
    x.x = back ? miras__fast_d(a, o->out, o->out_at) : miras__fast_x(a, o->out, o->out_at);
    x.ldx = miras__fast_ldx(a, o->out), x.z = miras__fast_x(a, o->in[1], 0);
  } else if (keys) {
    x.what = MIRAS__OF_KEYS, x.x = miras__fast_x(a, m->own, 0);
    x.a = miras__fast_param(a, MIRAS__W_ERASE_SCALE);
    x.b = miras__fast_param(a, MIRAS__W_ERASE_MIX);
    x.y = back ? miras__fast_d(a, m->own, 0) : miras__fast_x(a, m->k, 0);
    x.z = back ? room : miras__fast_x(a, m->erase, 0);
    x.o = back ? room + a->rows * x.ld : miras__fast_x(a, m->replace, 0);
    if (back) x.d = miras__fast_d(a, m->k, 0), x.r = miras__fast_d(a, m->erase, 0);
    if (back) x.u = miras__fast_d(a, m->replace, 0);
  } else {
    x.what = MIRAS__OF_BONUS, x.a = miras__fast_param(a, o->param), x.r = room;
    x.x = miras__fast_x(a, m->q, 0), x.u = miras__fast_x(a, m->k, 0);
    x.v = miras__fast_x(a, m->v, 0);
    x.y = back ? miras__fast_d(a, m->q, 0) : miras__fast_x(a, o->out, o->out_at);
    if (back) x.d = miras__fast_d(a, o->out, o->out_at), x.z = miras__fast_d(a, m->v, 0);
    if (back) x.o = miras__fast_d(a, m->k, 0);
  }
  miras__fast_groups(a->f, miras__run_fast_head, x);
  if (!back || values || taken) return;
  miras__fast_biases(a->f, miras__fast_dparam(a, keys ? MIRAS__W_ERASE_SCALE : (int)o->param), room,
                     x.ld, cols);
  if (keys) miras__fast_biases(a->f, miras__fast_dparam(a, MIRAS__W_ERASE_MIX), x.o, x.ld, cols);
}

static void miras__fast_skip(const miras__fast_layer *a, const miras__op *o, int back) {
  const miras__mixer *m = &a->p->mixer;
  const size_t each = o->function ? 1 : m->dv;         /* columns that share a number             */
  miras__fast_map x = miras__fast_map_of(a, MIRAS__MAP_SKIP, m->value);
  x.w = miras__fast_param(a, o->param), x.per = o->function ? 0 : (unsigned)each;
  x.y = miras__fast_lines(a, back ? o->in[0] : o->out, 0, back, &x.ldy), x.x = x.y, x.ldx = x.ldy;
  x.u = miras__fast_lines(a, back ? o->out : o->in[0], 0, back, &x.ldu);
  miras__fast_run_map(a, &x);
  if (!back) return;
  miras__fast_biases(a->f, miras__fast_dparam(a, o->param), x.u, x.ldu, m->value,
                     miras__fast_x(a, o->in[0], 0), miras__fast_ldx(a, o->in[0]), each);
}

/* ---- of a session ---- */

/* A tail's, of one token of each text. */
static void miras__fast_sitting(const miras__fast_layer *a, const miras__op *o, int back) {
  const miras__tail *t = &a->p->tail[o->part];
  miras__fast_moved x = {};
  if (!a->f->sits || back || !t->back) return;
  x.texts = miras__fast_state(a, o), x.apart = a->f->apart;
  x.batch = (unsigned)a->f->rows;
  x.x = miras__fast_x(a, t->array, t->at), x.ldx = miras__fast_ldx(a, t->array);
  x.back = t->back, x.items = t->cols / 8;
  miras__fast_rows(a->f, miras__run_fast_moved, a->f->rows * x.items, x);
}

/* ---- a layer ---- */

/* What is not here is pointwise. */
static void miras__fast_run(const miras__fast_layer *a, const miras__op *o, int back) {
  static const struct {
    int what;
    void (*run)(const miras__fast_layer *a, const miras__op *o, int back);
  } all[] = {
    {MIRAS__OP_NORM, miras__fast_norms}, {MIRAS__OP_RMS, miras__fast_norms},
    {MIRAS__OP_HEAD_NORM, miras__fast_norms}, {MIRAS__OP_TIMES, miras__fast_multiplied},
    {MIRAS__OP_BRANCH, miras__fast_branch}, {MIRAS__OP_CONV, miras__fast_convolve},
    {MIRAS__OP_LENGTH, miras__fast_length}, {MIRAS__OP_GATES, miras__fast_gating},
    {MIRAS__OP_MEMORY, miras__fast_memory}, {MIRAS__OP_KEYS, miras__fast_heads},
    {MIRAS__OP_BONUS, miras__fast_heads}, {MIRAS__OP_VALUES, miras__fast_heads},
    {MIRAS__OP_SHIFT, miras__fast_shift}, {MIRAS__OP_MIX, miras__fast_mix},
    {MIRAS__OP_SKIP, miras__fast_skip}, {MIRAS__OP_ANGLES, miras__fast_angles},
    {MIRAS__OP_TURN, miras__fast_turn}, {MIRAS__OP_ROTATE, miras__fast_turn},
    {MIRAS__OP_ATTEND, miras__fast_attend}, {MIRAS__OP_READ, miras__fast_read},
    {MIRAS__OP_TAIL, miras__fast_sitting}, {MIRAS__OP_EXPERTS, miras__fast_experts}
  };
  size_t i = 0;
  while (i < MIRAS__COUNT(all) && all[i].what != o->what) i++;
  (i < MIRAS__COUNT(all) ? all[i].run : miras__fast_pointwise)(a, o, back);
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
    if (op[i].what == MIRAS__OP_SKIP || op[i].what == MIRAS__OP_BONUS) continue;
    miras__fast_run(&a, &op[i], 1);
    for (j = i + 1; op[i].what == MIRAS__OP_MEMORY && j < a.p->ops; j++)
      if (op[j].what == MIRAS__OP_SKIP || op[j].what == MIRAS__OP_BONUS)
        miras__fast_run(&a, &op[j], 1);
  }
}

/* ---- public calls ---- */

/* The copy that products read of a parameter that begins at float `at`. */
static void miras__fast_copy_of(const miras__fast *f, size_t at, miras__fast_tensor *t) {
  const miras_model *m = f->m;
  int l, i, id, first[4], k;
  if (at == m->head && !m->desc.weights)
    t->copy = f->head, t->cols = (unsigned)m->width, t->ld = (unsigned)miras__fast_width(f);
  if (m->offset && at == m->offset) {
    t->copy = miras__fast_bias_at(f, f->head, m->width, m->outs, m->outs, miras__fast_width(f));
    t->cols = t->ld = (unsigned)m->outs;
  }
  for (l = 0; l < m->desc.layers && !t->copy; l++) {
    const miras__fast_layer a = miras__fast_layer_of((miras__fast *)(uintptr_t)f, l);
    for (i = 0; i < a.p->ops; i++) {
      const miras__op *o = &a.p->op[i];
      for (k = miras__fast_matrices(a.p, o, first); k-- > 0;)
        for (id = first[k]; id && !t->copy; id = a.p->param[id].next) {
          const miras__param *w = &a.p->param[id], *line = &a.p->param[first[k]];
          bf16 *matrix = miras__fast_matrix(&a, o, first[k]);
          const size_t column = w->column - line->column;
          t->ld = (unsigned)miras__fast_matrix_ld(a.p, first[k]);
          t->cols = w->cols;
          if (a.layer->first + miras__param_at(w) == at && !m->desc.weights)
            t->copy = matrix + column;
          else if (w->bias && a.layer->first + miras__param_at(&a.p->param[w->bias]) == at)
            t->copy = column + miras__fast_bias_at(f, matrix, w->rows,
                                                   miras__columns_of(a.p, line), w->rows, t->ld);
        }
    }
  }
}

static miras__fast_adam miras__fast_adam_of(miras__fast *f) {
  miras__fast_adam a = {};
  a.w = f->params, a.g = f->grads, a.m = f->moment1, a.v = f->moment2;
  a.now = f->now, a.sums = f->norms, a.tensors = f->tensors;
  a.count = f->tensor_count, a.blocks = f->adam_blocks;
  return a;
}

static void miras__fast_send(miras__fast *f, void *to, const void *from, size_t bytes,
                             cudaMemcpyKind way = cudaMemcpyHostToDevice) {
  if (!f->failed && bytes)
    f->failed = cudaMemcpyAsync(to, from, bytes, way, f->stream) != cudaSuccess;
}

/* A matrix that the model does not hold in floats, of parameters from `first` on, or with 0 the
 * embedding or the head from byte `at` on: number (row, col) of it in the host's form, and its
 * scale. */
static unsigned miras__fast_held(const miras__fast_layer *a, int first, size_t at,
                                 size_t row, size_t col, float *scale) {
  const miras_model *m = a->f->m;
  miras__packed x = miras__packed_at(m, at, m->width, m->outs, NULL);
  const unsigned char *p;
  int id;
  for (id = first; id; id = a->p->param[id].next) {
    const miras__param *w = &a->p->param[id];
    const size_t column = w->column - a->p->param[first].column;
    x = miras__packed_of(a->layer->packed + miras__param_at(w), x.form, w->rows, w->cols);
    if (col - column >= w->cols) continue;
    col -= column;
    break;
  }
  p = miras__brick_of(&x, row, col), col %= x.across;
  if (scale && row % MIRAS__BRICK == 0)
    *scale = miras__from_half(p[2 * col] | (unsigned)p[2 * col + 1] << 8);
  p += miras__brick_head(x.form, x.across);
  p += row % MIRAS__BRICK * miras__brick_row(x.form, x.across);
  return x.form == MIRAS_WEIGHTS_Q8 ? p[col] : p[2 * col] | (unsigned)p[2 * col + 1] << 8;
}
/* It goes to the device, as products read it: lines of bfloat16, or tiles. */
static void miras__fast_send_matrix(const miras__fast_layer *a, int first, size_t at, bf16 *to) {
  enum { MANY = 16 };
  const miras_model *m = a->f->m;
  const size_t rows = first ? a->p->param[first].rows : m->width, deep = (rows + 31) / 32;
  const size_t cols = first ? miras__columns_of(a->p, &a->p->param[first]) : m->outs;
  const size_t lines = first ? rows : cols, n = first ? cols : rows, ld = miras__up8(n);
  const size_t tiles = miras__fast_whole_bytes(rows, cols, 1);
  unsigned char numbers[MANY * MIRAS__TILE_BYTES];
  float scales[MANY * 16];
  uint16_t line[MANY * 256];
  size_t i, j, e, count;
  for (i = 0; m->desc.weights == MIRAS_WEIGHTS_BF16 && i < lines; i++)
    for (j = 0; j < n; j += count) {
      count = miras__least(n - j, sizeof line / 2);
      for (e = 0; e < count; e++)
        line[e] =
          (uint16_t)miras__fast_held(a, first, at, first ? i : j + e, first ? j + e : i, NULL);
      miras__fast_send(a->f, to + i * ld + j, line, count * 2);
    }
  for (i = 0; m->desc.weights == MIRAS_WEIGHTS_Q8 && i < tiles; i += count) {
    count = miras__least(tiles - i, MANY);
    memset(numbers, 0, sizeof numbers), memset(scales, 0, sizeof scales);
    for (j = 0; j < count * 512; j++) {
      const size_t tile = i + j / 512, r = j / 32 % 16, k = j % 32;
      const size_t row = tile % deep * 32 + k, col = tile / deep * 16 + r;
      float *const scale = &scales[j / 512 * 16 + r % 8 * 2 + r / 8];
      if (row >= rows || col >= cols) continue;
      e = j / 512 * 512 + (r % 8 * 4 + k / 8) * 16 + (r / 8 + k % 8 / 4 * 2) * 4;
      numbers[e + k % 2 * 2 + k / 2 % 2] =
        (unsigned char)miras__fast_held(a, first, at, row, col, scale);
    }
    miras__fast_send(a->f, to + i * 256, numbers, count * 512);
    miras__fast_send(a->f, to + tiles * 256 + i * 32, scales, count * 64);
  }
}

int miras_cuda_fast_runs(char *why, size_t why_size) {
  struct cudaFuncAttributes a;
  if (why && why_size) why[0] = 0;
  if (cudaFuncGetAttributes(&a, (const void *)miras__run_fast_adam) != cudaSuccess)
    return miras__say(why, why_size, "there is no device, or no code for it in the program"), 0;
  if (a.ptxVersion < 80)
    return miras__say(why, why_size, "the program's code for this device is of compute capability "
                                     "%d.%d; the fast tier's is of 8.0 and later (nvcc -arch)",
                      a.ptxVersion / 10, a.ptxVersion % 10), 0;
  return 1;
}

/* Lay it out at `device`, and send it the model. */
static miras_result miras__fast_fill(miras__fast *f, void *device, size_t bytes,
                                     cudaStream_t stream) {
  const miras_model *m = f->m;
  miras__fast_adam adam;
  size_t block = 0;
  int i, j, k, first[4];
  if (bytes < f->bytes) return MIRAS_ERR_SIZE;
  if (!miras_cuda_fast_runs(NULL, 0)) return MIRAS_ERR_DEVICE;
  f->base = (char *)device, f->stream = stream;
  f->most_shared = miras__fast_most_shared(), f->clusters = miras__fast_clusters();
  miras__fast_layout(f);
  if (f->shared > f->most_shared) return MIRAS_ERR_DEVICE;
  f->failed = cudaMemsetAsync(device, 0, f->bytes, stream) != cudaSuccess;
  miras__fast_send(f, f->params, m->params, m->param_count * 4);
  for (i = 0; i < m->view_count; i++) {
    miras__fast_tensor t = {};
    t.at = m->views[i].offset, t.count = m->views[i].count, t.block = block;
    t.rate = m->views[i].rate, t.decays = m->views[i].weight_decay, t.frozen = m->views[i].frozen;
    if (miras__view_form(m, &m->views[i])) t.at = t.count = 0;   /* see below                     */
    else miras__fast_copy_of(f, t.at, &t);
    block += (t.count + MIRAS__ADAM_PIECE - 1) / MIRAS__ADAM_PIECE;
    miras__fast_send(f, f->tensors + i, &t, sizeof t);
  }
  for (i = 0; i < m->desc.layers; i++) {
    const miras__fast_layer a = miras__fast_layer_of(f, i);
    const miras__mixer *mix = &a.p->mixer;
    for (j = 0; m->desc.weights && j < a.p->ops; j++)
      for (k = miras__fast_matrices(a.p, &a.p->op[j], first); k-- > 0;)
        miras__fast_send_matrix(&a, first[k], 0, miras__fast_matrix(&a, &a.p->op[j], first[k]));
    if (i == 0 && m->desc.weights) miras__fast_send_matrix(&a, 0, m->head, f->head);
    if (i == 0 && m->desc.weights && m->desc.untied)
      miras__fast_send_matrix(&a, 0, m->in->weight, f->table);
    miras__fast_send(f, miras__fast_factors(&a), mix->gate_scale, mix->outs * 4);
    if (mix->heads && a.layer->keep)
      miras__fast_send(f, miras__fast_factors(&a) + miras__up8(mix->outs), a.layer->keep,
                       mix->heads * 4);
  }
  adam = miras__fast_adam_of(f);
  adam.copies = 1;
  miras__fast_launch(f, miras__run_fast_adam, f->adam_blocks, 256, 0, adam);
  return f->failed ? MIRAS_ERR_DEVICE : MIRAS_OK;
}

miras_result miras_cuda_fast_init(miras_cuda_fast *g, const miras_model *m,
                                  const miras_trainer_desc *d, void *device, size_t bytes,
                                  cudaStream_t stream) {
  if (!g || !m || !d || !device) return MIRAS_ERR_ARGUMENT;
  if (!miras__fast_takes(m, d, 0, NULL, 0)) return MIRAS_ERR_DESC;
  miras__fast_begin(miras__fast_of(g), m, d, 0);
  return miras__fast_fill(miras__fast_of(g), device, bytes, stream);
}

#ifdef MIRAS_CUDA_CUBLASLT
miras_result miras_cuda_fast_cublaslt(miras_cuda_fast *g, cublasLtHandle_t handle) {
  if (!g) return MIRAS_ERR_ARGUMENT;
  miras__fast_of(g)->library = (void *)handle;
  return MIRAS_OK;
}
#endif

miras_result miras_cuda_fast_copy(miras_model *m, const miras_cuda_fast *g, cudaStream_t stream) {
  const miras__fast *f = miras__fast_of(g);
  if (!m || !f) return MIRAS_ERR_ARGUMENT;
  if (m->param_count != f->m->param_count) return MIRAS_ERR_MISMATCH;
  return cudaMemcpyAsync(m->params, f->params, m->param_count * 4, cudaMemcpyDeviceToHost,
                         stream) == cudaSuccess ? MIRAS_OK : MIRAS_ERR_DEVICE;
}

/* Gradients, moments and how many steps there were, to the device or from there. */
static miras_result miras__fast_trainer_move(miras_trainer *host, miras__fast *f, int to,
                                             cudaStream_t stream) {
  int i;
  if (!host || !f) return MIRAS_ERR_ARGUMENT;
  if (host->model->param_count != f->m->param_count) return MIRAS_ERR_MISMATCH;
  void *const here[4] = {host->grads, host->moment1, host->moment2, &host->now->steps};
  void *const there[4] = {f->grads, f->moment1, f->moment2, &f->now->steps};
  *(to ? &f->taped : &host->taped) = 0;
  f->stream = stream, f->failed = 0;
  for (i = 0; i < 4; i++)
    miras__fast_send(f, to ? there[i] : here[i], to ? here[i] : there[i],
                     i < 3 ? f->m->param_count * sizeof(float) : sizeof f->now->steps,
                     to ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost);
  return f->failed ? MIRAS_ERR_DEVICE : MIRAS_OK;
}
miras_result miras_cuda_fast_trainer_copy(miras_trainer *to, const miras_cuda_fast *g,
                                          cudaStream_t stream) {
  return miras__fast_trainer_move(to, miras__fast_of(g), 0, stream);
}
miras_result miras_cuda_fast_trainer_send(miras_cuda_fast *g, const miras_trainer *from,
                                          cudaStream_t stream) {
  return miras__fast_trainer_move((miras_trainer *)(uintptr_t)from, miras__fast_of(g), 1, stream);
}

float *miras_cuda_fast_params(const miras_cuda_fast *g, size_t *count) {
  const miras__fast *f = miras__fast_of(g);
  if (count) *count = f ? f->m->param_count : 0;
  return f ? f->params : NULL;
}
float *miras_cuda_fast_grads(const miras_cuda_fast *g, size_t *count) {
  return miras_cuda_fast_params(g, count) ? miras__fast_of(g)->grads : NULL;
}

/* The norm before the head or behind the embedding, with gain and bias at these floats. */
static miras__fast_norm miras__fast_end_norm(miras__fast *f, size_t gain, size_t bias) {
  const miras_model *m = f->m;
  miras__fast_norm x = {};
  x.ldx = x.ldy = x.ldd = x.ld_dx = (unsigned)miras__fast_width(f);
  x.items = (unsigned)((size_t)f->batch * (size_t)f->length), x.heads = 1, x.n = (unsigned)m->width;
  x.lanes = miras__fast_lanes(m->width);
  x.gain = f->params + gain;
  if (m->desc.norm) x.bias = f->params + bias;
  x.epsilon = miras__epsilon(m->desc.norm_epsilon, MIRAS__NORM_EPS);
  x.stats = f->stats;
  return x;
}

/* From tokens, `apart` from row to row, to what the head reads; and the head's product. */
static miras__fast_product miras__fast_forward(miras__fast *f, const int32_t *tokens,
                                               unsigned apart) {
  const miras_model *m = f->m;
  const size_t rows = (size_t)f->batch * (size_t)f->length, width = miras__fast_width(f);
  miras__fast_embed embed = {};
  miras__fast_norm norm;
  miras__fast_product head;
  int l;
  embed.table = f->params + m->in->weight, embed.tokens = tokens;
  if (m->desc.weights) embed.halves = f->table;
  embed.scales = miras__fast_scales(f, f->table, m->width, m->outs);
  embed.x = m->desc.embed_norm ? f->dlast : f->x;
  embed.apart = apart, embed.rows = (unsigned)rows;
  embed.width = (unsigned)m->width, embed.ld = (unsigned)width;
  miras__fast_rows(f, miras__run_fast_embed, rows * (m->width / 8), embed);
  if (m->desc.embed_norm) {
    norm = miras__fast_end_norm(f, m->embed_norm, m->embed_norm + m->ld_x);
    norm.x = f->dlast, norm.y = f->x;
    miras__fast_run_norm(f, norm);
  }
  if (miras__fast_drops(f)) miras__fast_run_drop(f, 0, NULL, f->x, f->x);
  for (l = 0, f->now_at = MIRAS__TEXT_AT; l < m->desc.layers; l++) {
    const miras__program *p = m->layers[l].p;
    miras__fast_layer_run(f, l, 0);
    f->now_at += miras__fast_state_at(p, p->op + p->ops);
  }
  norm = miras__fast_end_norm(f, m->norm, m->bias);
  norm.x = f->x + (size_t)m->desc.layers * f->rows * width, norm.y = f->last;
  miras__fast_run_norm(f, norm);
  head = miras__fast_product_of(f->last, width, f->head, width, rows, m->outs, m->width);
  head.scales = miras__fast_scales(f, f->head, m->width, m->outs);
  if (m->offset) head.bias = miras__fast_bias_at(f, f->head, m->width, m->outs, m->outs, width);
  return head;
}

miras_result miras_cuda_fast_loss(miras_cuda_fast *g, const miras_batch *x, int train, float *loss,
                                  cudaStream_t stream) {
  miras__fast *f = miras__fast_of(g);
  const miras_model *m = f ? f->m : NULL;
  miras__fast_product head;
  miras__fast_loss end = {};
  size_t rows;
  if (!f || !x || !x->tokens || !x->classes || x->batch < 1 || x->batch > f->d.batch ||
      x->length < 1 || x->length > f->d.context || x->carry || x->restart || x->outputs ||
      x->hidden || x->losses || x->vectors || x->values)
    return MIRAS_ERR_ARGUMENT;
  f->stream = stream, f->failed = 0, f->batch = x->batch, f->length = x->length;
  f->taped = train != 0;
  if (train) f->call = f->calls++;
  rows = (size_t)x->batch * (size_t)x->length;
  miras__fast_send(f, f->tokens, x->tokens, rows * 4, cudaMemcpyDeviceToDevice);
  miras__fast_send(f, f->targets, x->classes, rows * 4, cudaMemcpyDeviceToDevice);
  if (x->weights)
    miras__fast_send(f, f->row_weights, x->weights, rows * 4, cudaMemcpyDeviceToDevice);
  head = miras__fast_forward(f, f->tokens, 1);
  head.c = f->logits, head.ldc = (unsigned)f->ld_v;
  miras__fast_multiply(f, &head, 0, 1);
  end.x = f->logits, end.ld = (unsigned)f->ld_v, end.n = (unsigned)m->outs;
  end.rows = (unsigned)rows, end.targets = f->targets;
  end.weights = x->weights ? f->row_weights : NULL;
  end.losses = f->losses, end.told = loss, end.now = f->now, end.weight = m->out->weight;
  end.train = train != 0;
  miras__fast_launch(f, miras__run_fast_total, 1, 256, 64, end);
  miras__fast_launch(f, miras__run_fast_loss, rows, 256, 64, end);
  end.mean = 1;
  miras__fast_launch(f, miras__run_fast_total, 1, 256, 64, end);
  return f->failed ? MIRAS_ERR_DEVICE : MIRAS_OK;
}

miras_result miras_cuda_fast_backward(miras_cuda_fast *g, cudaStream_t stream) {
  miras__fast *f = miras__fast_of(g);
  const miras_model *m = f ? f->m : NULL;
  miras__fast_embed embed = {};
  miras__fast_norm norm;
  miras__fast_product head;
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
  if (m->offset) miras__fast_biases(f, f->grads + m->offset, f->logits, f->ld_v, m->outs);
  norm = miras__fast_end_norm(f, m->norm, m->bias);
  norm.x = f->x + (size_t)m->desc.layers * f->rows * width, norm.d = f->dlast, norm.dx = f->ds;
  miras__fast_norm_back(f, norm);
  for (l = m->desc.layers; l-- > 0;) miras__fast_layer_run(f, l, 1);
  if (miras__fast_drops(f)) miras__fast_run_drop(f, 0, NULL, f->ds, f->ds);
  embed.table = f->params + m->in->weight, embed.tokens = f->tokens;
  embed.rows = (unsigned)rows, embed.width = (unsigned)m->width, embed.ld = (unsigned)width;
  embed.x = f->dlast;
  if (m->desc.embed_norm) {
    norm = miras__fast_end_norm(f, m->embed_norm, m->embed_norm + m->ld_x);
    embed.apart = 1;
    miras__fast_rows(f, miras__run_fast_embed, rows * (m->width / 8), embed);
    norm.x = f->dlast, norm.d = f->ds, norm.dx = f->last;
    miras__fast_norm_back(f, norm);
  }
  embed.d = m->desc.embed_norm ? f->last : f->ds;
  embed.to = f->grads + m->in->weight, embed.next = f->next, embed.later = f->later;
  miras__fast_rows(f, miras__run_fast_links, rows, embed);
  miras__fast_launch(f, miras__run_fast_embed_back, rows, 256, 0, embed);
  f->taped = 0;
  return f->failed ? MIRAS_ERR_DEVICE : MIRAS_OK;
}

miras_result miras_cuda_fast_step(miras_cuda_fast *g, const miras_adamw_options *o,
                                  float learning_rate, float *norm, cudaStream_t stream) {
  miras__fast *f = miras__fast_of(g);
  const miras_adamw_options usual = MIRAS_ADAMW(0, 0);
  miras__fast_adam a;
  if (!f || !miras__adamw_ok(o, learning_rate)) return MIRAS_ERR_ARGUMENT;
  f->stream = stream, f->failed = 0, f->taped = 0, f->calls = 0;
  a = miras__fast_adam_of(f);
  a.o = o ? *o : usual, a.rate = learning_rate, a.told = norm;
  miras__fast_launch(f, miras__run_fast_squares, f->adam_blocks, 256, 64, a);
  miras__fast_launch(f, miras__run_fast_begin, 1, 256, 256 * 8, a);
  miras__fast_launch(f, miras__run_fast_adam, f->adam_blocks, 256, 0, a);
  return f->failed ? MIRAS_ERR_DEVICE : MIRAS_OK;
}

/* ---- sessions ---- */

static int miras__fast_session_begin(miras__fast *f, const miras_model *m, int batch, char *why,
                                     size_t n) {
  miras_trainer_desc d = {};
  int l;
  d.batch = batch, d.context = 1;
  if (why && n) why[0] = 0;
  if (batch < 1 || batch > 65536)
    return miras__say(why, n, "batch is %d; a session has 1..65536 texts", batch), 0;
  if (!miras__fast_takes(m, &d, 1, why, n)) return 0;
  for (l = 0; l < m->desc.layers; l++) {
    const miras__mixer *x = &m->layers[l].p->mixer;
    if (x->heads && x->plan.engine != MIRAS__RUN_EXACT)
      return miras__say(why, n, "layer %d: a session of the fast tier has matrix memories", l), 0;
  }
  miras__fast_begin(f, m, &d, 1);
  f->batch = 1, f->length = batch;   /* rows are of texts                                         */
  return 1;
}

size_t miras_cuda_fast_session_size(const miras_model *m, int batch, char *why, size_t why_size) {
  miras__fast f;
  if (!m) return miras__say(why, why_size, "the model is NULL"), 0;
  return miras__fast_session_begin(&f, m, batch, why, why_size) ? f.bytes : 0;
}

miras_result miras_cuda_fast_session_init(miras_cuda_fast_session *s, const miras_model *m,
                                          int batch, void *device, size_t bytes,
                                          cudaStream_t stream) {
  miras_result result;
  if (!s || !m || !device) return MIRAS_ERR_ARGUMENT;
  if (!miras__fast_session_begin(miras__fast_of(s), m, batch, NULL, 0)) return MIRAS_ERR_DESC;
  result = miras__fast_fill(miras__fast_of(s), device, bytes, stream);
  return result == MIRAS_OK ? miras_cuda_fast_session_reset(s, -1, stream) : result;
}

miras_result miras_cuda_fast_session_feed(miras_cuda_fast_session *s, const int32_t *tokens,
                                          int length, float *logits, int rows,
                                          cudaStream_t stream) {
  miras__fast *f = miras__fast_of(s);
  miras__fast_moved moved = {};
  int t;
  if (!s || !tokens || length < 1 || rows < 0 || rows > length || (rows && !logits))
    return MIRAS_ERR_ARGUMENT;
  f->stream = stream, f->failed = 0;
  moved.texts = f->texts, moved.apart = f->apart, moved.batch = (unsigned)f->rows, moved.items = 1;
  for (t = 0; t < length; t++) {
    miras__fast_product head = miras__fast_forward(f, tokens + t, (unsigned)length);
    if (t >= length - rows) {
      head.wide = logits + (size_t)(t - (length - rows)) * f->m->outs;
      head.ldc = (unsigned)((size_t)rows * f->m->outs);
      miras__fast_multiply(f, &head, 0, 1);
    }
    miras__fast_rows(f, miras__run_fast_moved, f->rows, moved);
  }
  return f->failed ? MIRAS_ERR_DEVICE : MIRAS_OK;
}

void *miras_cuda_fast_session_state(const miras_cuda_fast_session *s, int text, size_t *bytes) {
  const miras__fast *f = miras__fast_of(s);
  const int there = f && text >= 0 && (size_t)text < f->rows;
  if (bytes) *bytes = there ? f->apart : 0;
  return there ? f->texts + (size_t)text * f->apart : NULL;
}

miras_result miras_cuda_fast_session_reset(miras_cuda_fast_session *s, int text,
                                           cudaStream_t stream) {
  miras__fast *f = miras__fast_of(s);
  unsigned char *const to =
    (unsigned char *)miras_cuda_fast_session_state(s, text < 0 ? 0 : text, NULL);
  size_t bytes;
  if (!to) return MIRAS_ERR_ARGUMENT;
  bytes = (text < 0 ? f->rows : 1) * f->apart;
  return cudaMemsetAsync(to, 0, bytes, stream) == cudaSuccess ? MIRAS_OK : MIRAS_ERR_DEVICE;
}

miras_result miras_cuda_fast_token(const miras_cuda_fast_row *x, cudaStream_t stream) {
  miras__fast_token a = {};
  miras__fast_chunks *const r = &a.of;
  miras__fast f = {};
  if (!x || !x->state || !x->query || !x->key || !x->value || !x->answer || !x->keep || !x->step ||
      x->batch < 1 || x->heads < 1 || x->key_heads < 1 || x->heads % x->key_heads ||
      (x->key_dim != 32 && x->key_dim != 64 && x->key_dim != 128) || x->value_dim < 16 ||
      x->value_dim % (x->key_dim == 32 ? 32 : 16) || x->value_dim > 4096)
    return MIRAS_ERR_ARGUMENT;
  f.stream = stream;
  a.s = x->state, r->q = x->query, r->k = x->key, r->v = x->value, r->y = x->answer;
  r->keep = x->keep, r->step = x->step, r->keep_gate = 1;
  r->ldq = r->ldk = (unsigned)(x->key_heads * x->key_dim);
  r->ldv = r->ldy = (unsigned)(x->heads * x->value_dim);
  r->ld_keep = r->ld_step = r->heads = (unsigned)x->heads;
  a.apart = (size_t)r->ldv * (size_t)x->key_dim;
  r->group = (unsigned)(x->heads / x->key_heads);
  r->value = (unsigned)x->value_dim, r->after = x->decay_first, r->delta = x->delta;
  miras__fast_token_run(&f, &a, (size_t)x->batch, (size_t)x->key_dim);
  return f.failed ? MIRAS_ERR_DEVICE : MIRAS_OK;
}

/* A memory on its own, back with g; *bytes: those that are there, and come to be those that it
 * takes. room NULL: these alone. */
static miras_result miras__fast_alone(const miras_cuda_fast_memory *x,
                                      const miras_cuda_fast_memory_grads *g, int back, void *room,
                                      size_t *bytes, cudaStream_t stream) {
  const size_t there = *bytes;
  miras__chunk_needs needs = {};
  miras__fast f = {};
  miras__fast_chunks *const c = &f.chunks;
  miras__fast_conv sum = {};         /* of heads that share keys                                  */
  bf16 *own[2] = {NULL, NULL};
  size_t dk, dv, rows;
  int i;
  *bytes = 0;
  if (!x || x->batch < 1 || x->length < 1 || (double)x->batch * (double)x->length > 16777216.0 ||
      x->heads < 1 || x->heads > 4096 || x->key_heads < 1 || x->heads % x->key_heads ||
      (x->key_dim != 32 && x->key_dim != 64 && x->key_dim != 128) || x->value_dim < 32 ||
      x->value_dim % 32 || x->value_dim > 4096)
    return MIRAS_ERR_ARGUMENT;
  dk = (size_t)x->key_dim, dv = (size_t)x->value_dim, rows = (size_t)x->batch * (size_t)x->length;
  miras__fast_chunk_needs(&needs, (size_t)x->batch, (size_t)x->length,
                          ((size_t)x->length + 63) / 64, (size_t)x->heads, dk, dv, x->channels, 0);
  needs.inits = 0;
  if (!back) needs.states = needs.rows = 0;
  f.base = (char *)room, f.stream = stream, f.most_shared = room ? miras__fast_most_shared() : 0;
  miras__fast_lay_chunks(&f, &needs);
  for (i = 0; i < 2 && back && x->heads > x->key_heads; i++)
    miras__fast_lay(&f, rows * (size_t)x->heads * dk, &own[i]);
  *bytes = f.bytes;
  if (!room) return MIRAS_ERR_ARGUMENT;
  if (there < f.bytes) return MIRAS_ERR_SIZE;
  if (!x->query || !x->key || !x->value ||
      (back ? !g || !g->answer || !g->query || !g->key || !g->value : !x->answer))
    return MIRAS_ERR_ARGUMENT;
  c->q = x->query, c->k = x->key, c->v = x->value, c->y = x->answer;
  c->keep = x->decay, c->step = x->step, c->init = x->state, c->last = x->last;
  c->one_step = 1, c->logs = c->texts = c->turned = c->keep_gate = 1;
  c->batch = (unsigned)x->batch, c->heads = (unsigned)x->heads;
  c->group = (unsigned)(x->heads / x->key_heads), c->value = (unsigned)dv;
  c->tokens = (unsigned)x->length, c->chunks = (c->tokens + 63) / 64;
  c->channels = x->channels != 0, c->delta = x->delta, c->after = x->decay_first;
  c->ldq = c->ldk = (unsigned)x->key_heads * (unsigned)dk;
  c->ld_step = c->heads, c->ld_keep = c->heads * (x->channels ? (unsigned)dk : 1);
  c->ldv = c->ldy = c->ldw = c->ldd = c->ld_dv = c->heads * c->value;
  c->ld_dq = c->ld_dk = c->heads * (unsigned)dk;
  c->dinit = NULL;
  if (back) {
    c->d = g->answer, c->dlast = g->last, c->dinit = g->state, c->dv = g->value;
    c->dq = own[0] ? own[0] : g->query, c->dk = own[1] ? own[1] : g->key;
    c->dkeep = x->decay ? g->decay : NULL, c->dstep = x->step ? g->step : NULL;
  }
  miras__fast_chunks_run(&f, *c, dk, back);
  sum.items = (unsigned)(rows * (size_t)x->key_heads), sum.heads = (unsigned)x->key_heads;
  sum.group = c->group, sum.n = (unsigned)dk, sum.lanes = sum.n / 8, sum.scale = 1;
  sum.ldd = c->ld_dq, sum.ldy = c->ldq;
  for (i = 0; i < 2 && own[i]; i++) {
    sum.d = own[i], sum.y = i ? g->key : g->query;
    miras__fast_groups(&f, miras__run_fast_conv_back, sum);
  }
  return f.failed ? MIRAS_ERR_DEVICE : MIRAS_OK;
}
size_t miras_cuda_fast_memory_size(const miras_cuda_fast_memory *x, int back) {
  size_t bytes = 0;
  (void)miras__fast_alone(x, NULL, back, NULL, &bytes, 0);
  return bytes;
}
miras_result miras_cuda_fast_memory_forward(const miras_cuda_fast_memory *x, void *room,
                                            size_t bytes, cudaStream_t stream) {
  return miras__fast_alone(x, NULL, 0, room, &bytes, stream);
}
miras_result miras_cuda_fast_memory_backward(const miras_cuda_fast_memory *x,
                                             const miras_cuda_fast_memory_grads *g, void *room,
                                             size_t bytes, cudaStream_t stream) {
  return miras__fast_alone(x, g, 1, room, &bytes, stream);
}
#undef bf16
#endif   /* MIRAS_CUDA_NO_FAST */

#ifdef __GNUC__
  #pragma GCC diagnostic pop
#endif

#endif   /* MIRAS_CUDA_IMPLEMENTATION */
