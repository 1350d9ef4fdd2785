/* miras.h - v0.3.0 - memories that learn while the program runs; public domain or MIT

   One header, C99 (or C++11), the C library only. It gives a program a memory that takes key/value
   pairs, learns each by a step of gradient descent on itself, answers queries, forgets gracefully,
   and costs the same time and bytes for the millionth pair as for the first. Networks built from
   such memories are sequence models: linear attention, DeltaNet, Titans, Moneta, Yaad, Memora and
   others are rows of one table here, and this file trains them and runs them.

   Write this in exactly one source file, and the include alone in the others:

       #define MIRAS_IMPLEMENTATION
       #include "miras.h"

   A whole program (cc example.c -lm; -O2 if you like):

       #include <stdio.h>
       #define MIRAS_IMPLEMENTATION
       #include "miras.h"

       static unsigned char bytes[1 << 18];              // all the memory it will ever use

       int main(void) {
         float key[8] = {0.6f, 0.8f}, value[2] = {0.5f, -0.25f}, out[2];
         char why[256];
         miras_memory *m;
         miras_desc d;
         int i;
         miras_preset(&d, MIRAS_YAAD);                   // a row of the table; change what you like
         d.key_dim = 8;
         d.value_dim = 2;
         if (!miras_memory_size(&d, why, sizeof why)) return puts(why), 1;
         m = miras_memory_init(bytes, sizeof bytes, &d);
         for (i = 0; i < 50; i++)
           printf("surprise %g\n", (double)miras_write(m, key, value));
         miras_read(m, key, out);
         printf("recalled %g %g\n", (double)out[0], (double)out[1]);
         return 0;
       }

   ROOMS. The file reads from the bottom of the building to its roof: nothing is used before it is
   defined, there are no prototypes, and "needs" in a banner names the rooms below that it stands
   on. Search for the @ and two digits to walk from this list to a room.

   @01 Concepts                            what a memory is, shapes, the four choices, models
   @02 Configuration and promises          macros, memory, threads, numerics, errors, files
   @03 Recipes                             adding a model, a bias, a retention, an ISA
   @05 Linkage and results                 version, result codes and their sentences
   @06 Types                               the descriptors: every field and its default
   @07 Functions                           every public call, by level
   @10 Platform                            compiler, allocator, checked sizes, sentences
   @11 Random numbers                      counter-based, the same everywhere
   @12 CPU detection                       which instruction sets this machine runs
   @13 Arena                               one layout for asking and for giving memory
   @14 Fields                              the descriptors' fields: defaults, ranges, refusals
   @15 Plan                                sizes of a memory
   @20 Kernel table                        what is compiled once per instruction set
   @21 Vector vocabulary                   thirty operations; the only intrinsics
   @22 Vector maths                        exp, log, tanh, sigmoid, GELU, SiLU
   @23 Level 1                             dot products, sums, maps over rows
   @24 Matrix product                      one packed kernel for all shapes
   @25 Feature maps                        keys and queries before a matrix memory
   @26 Attentional biases                  choice 2: value, error, adjoint
   @27 Retention links                     choice 3: from the dual state to the weights
   @28 Channel products                    decays of one number per channel
   @29 Layer kernels                       norms, convolutions, gates, loss, optimizer
   @30 Table of this instruction set       the kernel rooms end here
   @31 Dispatch                            the best table for this machine
   @32 Large products                      BLIS, when asked for
   @41 Memory architectures                choice 1: answer, inner gradient, adjoints
   @42 Retentions                          choice 3 as records: links, what closing does
   @45 Normal form                         tokens as rows that engines know
   @50 Exact linear engine                 matrix memories, any chunk
   @51 Frozen-gradient engine              all others, chunk by chunk; choice 4
   @53 Mesa engine                         matrix, L2, solved by conjugate gradients
   @54 Attention engine                    the pairs themselves, read by softmax
   @56 Engine table                        the engines behind one door
   @57 Making plans                        which engine runs a descriptor; sizes
   @58 Heads of a memory                   what an engine is told of each
   @72 Results                             the sentences
   @73 The table of published models       one row each; presets
   @74 One memory                          write, read, forward, backward, state
   @75 Layers: what they share             their record; rows, views, jobs; how a layer ends
   @76 Memory layer                        a memory per head, gates and convolutions before it
   @77 Attention layer                     rotary positions, windows; a memory beside it
   @78 Model                               patterns of layers, sizes, initial values
   @79 Training                            loss, gradients, AdamW, schedule
   @80 Sessions                            one sequence, token by token; sampling
   @82 Thread pool                         POSIX threads, when asked for
   @84 Bytes and text                      checksums, little-endian words, JSON
   @85 Files                               safetensors; states of memories and sessions
   @86 Other people's checkpoints          Hugging Face's folders: names, layouts, configurations
   @99 Licence

   WHERE DO I CHANGE ...?

       a model's constants, or add a model      @73: one row
       a loss on the prediction error           @26: value, error, adjoint
       how a memory forgets                     @42: its record; @27: the kernels of its link
       what a memory is made of                 @41, and @57 for its sizes
       a default, a range, a refusal            @14: miras__fields, miras__rules
       an inner loop                            @23 or @24: one text for all instruction sets
       what a layer of the network does         @76, @77, and @75 for how both end
       the optimizer or the schedule            @79
       what is written to disk                  @85, and raise the version that it writes
       a public name                            @05 to @07, and the room that defines it */

/* @01 CONCEPTS --------------------------------------------------------------------------------- */
/*
   A MEMORY is a small function M(W; x) with weights W. To write a pair (k, v) it asks itself for
   M(W; k), measures how wrong the answer is, and moves W against the gradient of that error. To
   read, it evaluates M(W; q). So learning is not a phase before use: it is what a write does. The
   error before the write is returned as the surprise; a program can steer by it (store only what
   surprises, raise an alarm, spend more steps).

   SHAPES. Letters used everywhere: B batch, T time, H heads, dk key width, dv value width, C chunk,
   P weights of one memory. All arrays are row-major, outermost index first: keys and queries are
   [B, T, H, dk], values and outputs [B, T, H, dv], gates [B, T, H]. Weights are [in, out], so a
   layer is z = x W. Heads and sequences are independent memories that share a descriptor; they
   never mix.

   THE FOUR CHOICES. Behrouz et al. ("It's All Connected", 2025) take a sequence model apart into
   four decisions. Here they are four fields of miras_desc; everything else in it is a size, a
   constant or a gate.

     architecture   what M is. MIRAS_MATRIX is phi(x) S, a linear map of the key or of a feature
                    map of it. MIRAS_MLP is 1 to 4 layers with an activation between, with or
                    without a layer norm and a residual around them; MIRAS_GATED_MLP multiplies
                    two first layers; MIRAS_VECTOR scales its input; MIRAS_KV_CACHE keeps the
                    pairs. A perceptron stores more per byte and bends; a matrix is exact and
                    cheap.
     bias           the loss l(M(k), v) that a write descends. The dot product adds without asking
                    what is stored already; L2 corrects the difference; L_p with p > 2 works on the
                    largest errors first; the Huber family limits what one wild pair can do.
     retention      how old content fades. None; decay; and decay with a link, where the state A
                    lives in one space and the weights W = link(A) in another: an l_q norm
                    (Moneta), a softmax that keeps every slice on a simplex (Memora), a sigmoid, a
                    tanh, a threshold (elastic nets), f-divergences, or a link of your own.
     algorithm      gradient descent, once or several times per token; momentum: surprise that
                    persists over several tokens; the implicit step; or no steps at all: the
                    minimiser over all pairs so far (MIRAS_LEAST_SQUARES).

   A published model is a row that fixes the four and its constants. Mixing rows is the point:
   take a preset, change a field, and ask miras_memory_size whether the result means something. It
   refuses with a sentence rather than ignore a field. (One kind of field may rest: the constant of
   a gate that comes with the tokens. Inside a model it says where that gate begins.)

   THE RECURRENCE. For a token with key k, value v, query q and gates keep (alpha), step (eta),
   momentum (theta), threshold (delta):

       r   = M(W; k) - v
       g   = gradient of l(r; delta) with respect to W
       S_t = theta S_(t-1) - eta g            (without momentum: S_t = -eta g)
       A_t = alpha A_(t-1) + S_t
       W_t = link(A_t)
       y   = M(W_t; q)                        a token reads after it has written

   toward = MIRAS_TOWARD_INITIAL decays what was written and not the initial memory A_0:

       A_t = A_0 + alpha (A_(t-1) - A_0) + S_t

   order = MIRAS_DECAY_FIRST (Gated DeltaNet) takes the error at the decayed A instead of at A.
   bounded_step shortens eta so that no write overshoots its own pair.

   GATES. Each of the four is one constant of the descriptor, or one number per token and head
   (MIRAS_GATE_HEAD). All but momentum can be one per channel (MIRAS_GATE_CHANNEL): of the key for
   the decay of exact matrix memories, of the value for vectors and perceptrons. Inside a model the
   network computes them from the token, or learns one number for each (fixed_gates). Gates are not
   checked per token: keep and momentum belong in 0..1, step and threshold above 0. A memory with an
   inner norm whose decay leads towards 0 wants keep near 1, and the nearer the longer the
   sequences: what is forgotten of the weights is missing from what the norm divides by.

   A LONG LIFE. A network is trained in windows and then runs for as long as its text. Two things
   that no window shows end it there: writes that nothing forgets fill a memory up, and a decay
   towards 0 takes the initial weights away that training chose. Four fields and calls against them:

     toward         MIRAS_TOWARD_INITIAL. What was written fades, what was trained stays, silence
                    returns the memory to A_0. It costs one more product per layer and no state,
                    and must be trained with. The presets of perceptrons inside a model have it.
     horizon        of a model: a learned alpha stays below 1 - 1/horizon, so that a memory never
                    holds more of its past than a horizon. Take the window that is trained with, or
                    less.
     streams        miras_trainer_loss_streams carries states from window to window: training then
                    meets memories as full as they become later. Draw from a pool of texts much
                    larger than the batch (128 for 8), or consecutive steps see too much of the
                    same, and start a text anew now and then (one in four), or nothing trains the
                    start. examples/lm.c: --streams 128 --carry 0.75.
     reset_every    heads begin anew every so many tokens, in turn, so that one of them always
                    remembers. The remedy for rows that keep everything by definition (linear
                    attention, DeltaNet, Longhorn) and for models that were trained without the
                    others. Where a head begins anew depends on chunk: resets fall on its grid.

   ENGINES. A matrix memory with the dot product or L2, MIRAS_RETAIN_ALL or MIRAS_RETAIN_L2 and no
   momentum is linear in its state and is run exactly, chunk by chunk (room @50): the chunk is only
   a schedule, which turns its tokens into matrix products. Everything else runs in the
   frozen-gradient engine (room @51): the C tokens of a chunk take their gradients at the weights of
   the chunk's start, which again turns the chunk into a few matrix products. Decay, momentum and
   step still act token by token, and a link is applied when its chunk closes. Until then a read
   sees the chunk's writes where W is A or A over a norm (that of the chunk's start), or will be A
   less a threshold; of other links (p-norm, softmax in logits, sigmoid, tanh, f-divergences,
   custom) it sees the chunk's start. For chunk 1 this is the recurrence above, to the letter. For
   C > 1 the chunk is PART OF THE MODEL: a network trained with chunk 16 must run with chunk 16, and
   does, because the state remembers the chunk's start and where in the chunk it is. (A matrix whose
   chunk shares one anchor is MIRAS_MLP of depth 1 without norm.) A memory on its own has chunk 1
   and learns from its first write.

   Two choices have engines of their own. MIRAS_LEAST_SQUARES (room @53) keeps the sums of eta k k'
   and of eta k v', decayed, and solves the ridge regression over all pairs anew for every query, by
   conjugate gradients. MIRAS_KV_CACHE (room @54) keeps the last `window` pairs and reads them by
   softmax attention. For both, as for exact matrix memories, the chunk is only a schedule.

   SEQUENCES HAVE NO SEAMS. T tokens in one call, in two calls, or in T calls give the same bits. A
   later token never changes an earlier output.

   GRADIENTS. miras_backward returns the exact derivative of what miras_forward computed, through
   the memory's own learning steps: for keys, values, queries, gates, the initial memory, and the
   state that came in. The adjoint of each formula stands directly below the formula. Where a
   formula has a corner (Huber, L_p with p < 2), the derivative of the branch taken is used.
   MIRAS_LEAST_SQUARES has the derivative of the minimiser itself, which is that of its output as
   far as the iterations have converged: a small ridge under many keys alike needs more of them.

   MODELS. miras_model is an embedding, then layers, then a norm and the head, which shares the
   embedding's matrix unless untied. A layer of memories, with h the RMS norm of its input x:

       q, k, v = silu(causal convolution(h W_q, h W_k, h W_v)); q and k scaled to length 1 per head
       gates   = sigmoid, softplus, ... of a low-rank projection of h
       y       = memory(k, v, q, gates)
       x       = x + (norm per head(y) * silu(h W_gate)) W_o
       x       = x + SwiGLU(norm(x)), unless it has no_mlp

   Some rows of the table make their keys or decays otherwise: miras_key_map, miras_keep_form. The
   memory starts every sequence from learned initial weights. In a new model with inner norms and
   keys of length 1, W_q and its convolution equal those of the keys, so that it finds what it
   wrote. A model may have several kinds of layer. Its pattern says their order, a letter each:
   "mmwm" has a window of attention between layers of memories, as in Samba (Ren et al. 2024), and
   "a*4" is a transformer. An attention layer, with positions by turning entries i and i +
   head_dim/2 of queries and keys as complex numbers (Su et al. 2021), or rotary_dim entries alone:

       q, k, v = h W_q, h W_k, h W_v; q and k turned, and normed before if qk_norm
       y       = softmax attention over the last `window` tokens and `persistent` learned pairs
       x       = x + y W_o, or with output_gate x + (y * sigmoid(h W_gate)) W_o
       x       = x + SwiGLU(norm(x)), as above

   A layer of type mag has both side by side, as Titans' memory as a gate (Behrouz et al. 2024): y
   of attention and z of a memory, any row of the table, both of the same h:

       x       = x + (norm(y) * sigmoid(norm(z))) W_o
       x       = x + SwiGLU(norm(x)), as above

   A layer of type rwkv is RWKV-7's as published (room @76 has its formulas): its memory with token
   shifts, gates of low rank, values of the first such layer mixed in, and a bonus.

   An MLP layer is the last line alone; in "mgwg" such layers (g) stand where the pattern has them,
   and others go without by no_mlp. MLPs may square a ReLU instead, norms be layer norms, and one
   more stand behind the embedding: `mlp`, `norm`, `embed_norm`. A convolution (c) as a layer is x +
   convolution(norm(x)) + bias, channel by channel. Parameters lie in one flat block with a table of
   named views, and a model is hardly more.

   TRAINERS. miras_trainer is what a model needs to be trained: gradients in another block of the
   same layout, the optimizer's moments, what the backward pass wants to know of the forward one,
   and the states of running texts. Clipping, checkpoints, a gradient check, or an all-reduce across
   machines are one loop each over a block. A program that only runs a model has none. How the model
   is trained, its dropout too, is in the model's descriptor, which files hold; the trainer's says
   how large its steps may be and who works on them, and changes no bit.

   SESSIONS. A session is what one running sequence needs: a few kilobytes to megabytes, whatever
   its length. Sessions share a model and do not know each other. Their state is flat: copy it out
   to branch a text, copy it back to undo.

   SERVING. Of many sequences each is its state and no more: a block of miras_model_state_size
   bytes, yours, the same in size from the first token to the millionth. miras_server holds what
   calls work in. A call takes any of the states a step further, or many tokens, and multiplies the
   rows of all by the weights at once; every text has the bits that it would have alone. Zeros are a
   new text. To fork one copy its block: a thousand texts with one beginning cost a thousand blocks.
   To undo tokens copy the block before them, and back. So several drafted tokens are tried for a
   copy: feed them at once, with logits behind each; where not all are taken copy the block back and
   feed those that are, which is one call again.

   ON ITS OWN. miras_preset makes a memory that takes what comes, unlike a layer, whose network
   learns to feed it what suits it: keys and queries are brought to one length, no write overshoots
   its own pair (bounded_step), and decay leads back to the memory that was given. Room @73 says
   where a row leaves its paper for that; every field of it can be set back.

     Keys     of any length but zero: only their direction counts. A key of zeros writes nothing
       but TTT's biases. Two pairs disturb each other as far as their keys point the same way, so
       directions drawn at random are the best. Attention sees keys as they are and is as sharp as
       they are long: 32 pairs with keys uniform in -1..1 come back at 0.71 of |v| wrong, with the
       query times 4 at 0.003. RWKV-7 takes tokens, not writes, and lengths are the caller's.
     Values   of any size for matrices and attention, which are linear in them. For perceptrons,
       entries from about 0.1 up, whatever their mean: a pair is within 0.1 of |v| after 20 writes,
       mostly after five. Smaller ones drown at first in what an untrained memory answers (about
       0.5 in length; TTT's entries are of size 1). Far larger ones take a few writes more, in which
       the memory grows to their size, and none goes beyond them by more than a quarter of |v|
       (Titans, whose momentum carries on, by half): bounded_step 2, without which values in the
       hundreds come back ten times as large at first, and in the thousands sixty times.
     Silence  (zeros, or nothing to learn) leads back to the initial memory where there is a decay:
       half way in 0.69 / forget writes, and for head h in forget_ratio^-h times that.

   What each is good for, measured with keys and values of 64 entries uniform in -1..1 as
   |answer - value| / |value|. 32: bench/soak, 32 pairs that recur. 64: as many pairs, 60 rounds.
   16 on: a pair written three times amid new ones, after 16 more. Half: writes of silence until
   half of it is gone.

     row                       32    64  16 on   half  good for
     deltanet, longhorn      0.00  0.25   0.61  never  few pairs exactly; quickest to write
     deltaproduct            0.00  0.25   0.60  never  the same, two pairs a write
     gated-deltanet, kda     0.05  0.39   0.59    690  the same where pairs grow old
     gated-deltaproduct      0.03  0.33   0.59    690
     mesa                    0.01  0.20   0.84    690  weighs all its pairs alike, new and old
     rwkv7                   0.10                 690  as a layer, rather
     ttt-linear              0.03  0.33   0.63   1390  values with a mean of their own
     ttt-mlp                 0.03  0.07   0.35   1390  the same, and more pairs
     titans                  0.02  0.05   0.48   1390  more pairs than key entries
     moneta                  0.06  0.16   0.50   1390  largest errors first; 80 times slower
     yaad                    0.03  0.08   0.54   1390  more pairs, and a wild one does little
     memora                  0.02  0.07   0.52   1390  more pairs; 180 times slower
     softmax-attention       0.71                      the last 1024 pairs, with longer queries
     sliding-window          0.71                      the last 64 pairs, likewise
     dfw, retnet, gla,
       mamba2, hgrn2         0.74                  22  sums of the last 32 writes, as layers
     lightning               8.5                  177  sums of the last 256 writes
     linear-attention        0.91                never  an average of all values, by likeness

   So a memory holds about as many pairs as a key has entries, a deep perceptron about twice as
   many; and where new pairs never end any of them but Mesa has the last dozen or two, because what
   is new is written over what is old. No decay makes that longer; wider keys do. A wild pair 10,000
   times as large as the others leaves a matrix by 1/key_dim of itself a write; a perceptron of two
   layers takes no more of it than it can unlearn as soon. With one in 1000 (spikes of bench/soak),
   and 500 writes after the last, pairs just written come back at so much of |v| wrong: 0.2
   TTT-Linear, 0.6 to 1 DeltaNet's relatives, 40 Mesa; deep perceptrons as without.

   SURPRISE is the loss of the pair before its write, so its scale is the bias's, and only numbers
   of one row and one size of values compare:
     L2 (matrices, TTT, Titans, Memora, Mesa, attention)  |r|^2 / 2: about |v|^2 / 2 for a pair
       never seen, 0 for one that is known; more than |v|^2 / 2 where memory contradicts it
     L_p (Moneta)        sum |r_i|^p, p = 3: falls faster as a pair is learned
     Huber (Yaad)        |r|^2 / 2 up to the threshold, then threshold sum |r_i|: a wild pair counts
       once, not squared
     dot product         -<M(k), v>: 0 for what is new, the more below it the better it is known,
       and above it for a contradiction

   WHAT IT DOES NOT DO
     - no GPU in this header (memories have one in miras_cuda.cuh), no half precision, no quantised
       weights: 32-bit floats
     - of most published layers only what their memory is: no output norm or gate but the
       ones above
     - no tokenizer: tokens are integers. examples/lm.c shows bytes and characters
     - no automatic differentiation of other networks: the gradients of what is here, nothing more
     - no threads, no allocation, no printing, no files behind your back
     - no protection from hostile data beyond memory safety and the limit of miras_model_desc: a
       file is checked for damage, not for intent, and a memory will learn what it is given */

/* @02 CONFIGURATION AND PROMISES --------------------------------------------------------------- */
/*
   CONFIGURATION. Macros are defined before the include, in the file that holds the implementation;
   MIRAS_STATIC, MIRAS_PTHREADS and those that leave calls out (MIRAS_NO_STDIO, _FILES, _MODEL,
   _TRAINING) change declarations and must be the same wherever the header is included.

   MIRAS_IMPLEMENTATION   Compile the bodies here. In one source file per program. A second include
     in the same file does no harm.

   MIRAS_STATIC   Every function is static to its file, so that two libraries that each carry a
     miras.h do not collide. Costs one copy of the code per file that implements.

   MIRAS_PTHREADS   Adds miras_pool, a small thread pool over POSIX threads. Without it the header
     knows no threads at all; you can still hand it your own job system (below).

   MIRAS_NO_STDIO   Leaves out the calls that take paths, <stdio.h> and <time.h>. Saving to and
     loading from memory remain.

   MIRAS_MALLOC(bytes), MIRAS_FREE(pointer)   Replace malloc and free for the *_open calls without
     an allocator, and for the calls with paths on objects that have none. Both or neither. The
     *_init calls use neither.

   MIRAS_ASSERT(condition)   Checks of the library's own logic; default assert, so NDEBUG removes
     them. Wrong arguments never end here: they get a result.

   MIRAS_NO_SIMD   Only the portable kernels: plain C, one lane. For odd compilers, and to compare.

   MIRAS_NO_AVX512   Leaves that instruction set out: a quicker compile, and the same bits from
     AVX2 at up to half the speed.

   MIRAS_NO_SELF_INCLUDE   The header compiles its kernel rooms once per instruction set by
     including itself. Where tools object to that (or glue files together), this compiles them
     once, portably, in line.

   MIRAS_SELF   The name by which the header includes itself, in quotes; default "miras.h". Define
     it if you rename the file.

   MIRAS_USE_BLIS   Hands large matrix products of layers to BLIS (link with -lblis). Then their
     order of additions is that library's, and the promises on bits below hold only as far as its
     own do. MIRAS_BLIS_MIN is the number of multiplications from which a product is large. BLIS's
     own header needs POSIX: compile without -std, or with a GNU dialect such as -std=gnu99.

   MIRAS_NO_...   You pay for what you use. What such a macro leaves out is not compiled; its calls
     are not declared, and a descriptor that needs it is refused with a sentence that names the
     macro. What is left computes the same bits.

       MIRAS_NO_TRAINING    trainers, miras_backward, tapes: all that is an adjoint
       MIRAS_NO_MODEL       models, layers, sessions, trainers: memories are left
       MIRAS_NO_FILES       saving, loading, fields as text; with MIRAS_NO_STDIO
       MIRAS_NO_EXACT       matrix memories that run exactly                     (engine @50)
       MIRAS_NO_FROZEN      perceptrons, vectors, links, momentum, other biases  (engine @51)
       MIRAS_NO_MESA        MIRAS_LEAST_SQUARES                                  (engine @53)
       MIRAS_NO_ATTENTION   MIRAS_KV_CACHE, and attention as a layer             (engine @54)

     Give the compiler -ffunction-sections and the linker --gc-sections, and what the program does
     not call goes as well. tests/small.c is a gated delta memory on a Cortex-M4, 40 KB with the C
     library.

   MIRAS_DEBUG   GCC only: compiling without optimisation, the kernels are still built at -O2,
     because an unoptimised vector kernel is slower than plain C. This leaves them unoptimised, to
     step through.

   Compile with any optimisation level and no -m flags: the instruction set is chosen when the
   program runs. -ffast-math is refused, because it gives away NaN and the order of additions.

   MEMORY. Ask, then give: *_size returns bytes, *_init builds inside a buffer of that size at any
   alignment, *_open does both with an allocator. After that nothing allocates: not a write, not a
   training step, not a token. (Loading from and saving to a path borrow room while they run; the
   *_from and *_to forms need none.) Objects hold pointers into their buffer and must not be moved,
   but their STATE is a flat block without pointers: memcpy takes a snapshot, memcpy brings it back.
   A state of zeros is the state after a reset. It belongs to a descriptor, and for chunk > 1 to the
   same build on a machine of the same byte order; use *_save to move it elsewhere.

   THREADS. The header starts none. Trainers and memories take a miras_parallel, three fields
   that connect them to your job system; miras_pool is one ready-made. Calls that only read an
   object (sessions reading their model, miras_kind_name, the views) may run at the same time;
   calls that change an object need it to themselves, and so do miras_read and miras_memory_norm,
   which work in its scratch. Different sessions of one model may run on different threads while
   no trainer changes it. The only global is the cached choice of instruction set, an atomic that
   every thread would set to the same value.

   NUMERICS. What can be relied on:

     Accumulation   Every element of a matrix product is ONE chain of fused multiply-adds in the
       order of the inner index, in 32 bits. Blocking and packing are only a schedule. Sums and dot
       products run in 16 virtual lanes (element i in lane i mod 16), folded 16, 8, 4, 2, 1. exp,
       log, tanh and their relatives are this header's own polynomials, the same operations on every
       instruction set; each states its error in units in the last place. Losses and norms over
       whole tensors are summed in double precision.
     Same bits      however a sequence is cut into calls; for any number of threads and any job
       system; whatever neighbours are in the batch; in training and in decoding; on AVX2, AVX-512
       and NEON alike. Contraction is pinned, so the optimisation level and -std do not matter.
     Not the same   The portable kernels round twice where the others fuse, so they agree within a
       tolerance, not to the bit. So does everything with MIRAS_USE_BLIS.
     NaN, infinity  propagate where IEEE 754 and the formula say, and nowhere else: a NaN in a key
       spoils its own memory from that token on, never an earlier output, another head, another
       sequence. A surprise that is not finite tells you in time to roll back. Masked positions are
       skipped, not multiplied by zero. Exponentials are arranged so that they do not overflow.
     Denormals      are computed as such; the header does not touch the floating-point environment,
       and it assumes rounding to nearest. What decays would end among them and stay there, at a
       hundred times the usual cost. So content of a memory below 1e-30 becomes 0 whenever as many
       chunks have passed as fit into 64 tokens, at least one, and coefficients of decay and
       weights of a simplex, a sigmoid or a tanh below 1e-30 at once. The gradient takes no notice.

   ERRORS. Calls return miras_result, or 0, NULL or NaN where that is clearer; miras_result_text
   has the sentence. A descriptor is checked once, when a size is asked for or an object is built,
   and the reason names the field, its value and what is allowed. Calls per token trust checked
   objects and check only what can be seen from their arguments. After an error nothing has changed,
   unless the call says otherwise.

   FILES. A model is a safetensors file: little-endian 32-bit floats under the names of the views,
   the descriptor (its pattern and every kind of layer) and a checksum in __metadata__; other
   programs can read it as it is. Saved by a trainer it has the optimizer's moments and step count
   and running texts as well, and training continues to the bit: from a save between two steps, with
   the same seed and dropout, which miras_model_open_file takes from the file, and
   miras_trainer_load the rest. A memory (outer parameters and state) or a session (state) is a
   block of its own with a checksum. Loading checks every size and sum against the object before it
   writes the first byte, so damage is an error and never half a model. Saving to a path writes a
   new neighbour and renames it, so that readers find the old file or the new one, whole, also while
   several save at once: the last to end stays. Nothing is forced out to the disk.

   CHECKPOINTS OF OTHERS. miras_checkpoint_desc and miras_checkpoint_load read folders of
   config.json and safetensors as others publish them (README has the list). Headers, places,
   shapes, names and every field of the configuration are checked before the first number is
   written; then tensors are read a tile at a time, turned, widened from F16 or BF16 and rounded
   to what the model holds. A field that is not known is refused, for it may change every number;
   take it out of config.json if you know that it does not. The files need to stay as they are
   while they are read. */

/* @03 RECIPES ---------------------------------------------------------------------------------- */
/*
   Every recipe ends with its tests: a row in tests/reference.h written from the formula in double
   precision, without looking at this file, and the case lists of the tests that walk over it (of
   a bias or a retention a pool in tests/memories.h).

   A MODEL (a new combination of existing choices)
     1. @06   a name in miras_kind, before MIRAS_KIND_COUNT
     2. @73   its row, at the same place
     That is all: presets, names, files, training and examples/lm.c find it by themselves.

   A FIELD OF A DESCRIPTOR
     1. @06   the field, with its range and default; 0 must mean what there was before
     2. @14   its row behind all that files hold, with the next version of files, which room @85
              counts (MIRAS__VERSION)
     Files, states, sentences, examples/lm.c and the tests' labels then know it.

   AN ATTENTIONAL BIAS
     1. @06   a name in miras_bias; a field of miras_desc if it has a constant of its own
     2. @14   its word, the row of that field, and a rule if not all choices go with it
     3. @26   a function of a row (the value and e = dl/dM) and, right below, its adjoint (J' times
              a vector, and the derivative by the threshold if there is one); a row of the table
     4. @20   their two names in the rename block
     Nothing else calls a bias. If J is constant in r, say so as the dot product does.

   A RETENTION
     1. @06   a name in miras_retention, and a field for its constant
     2. @14   as above; does it have a keep gate (miras__decays)?
     3. @42   a row of the table: its link and the adjoint, or its closing step and the adjoint;
              whether reads of a chunk that is still open follow A_t; what J of a bounded step is
     4. @27   kernels for what goes over the weights, where rooms @22 and @23 have none
     Decay itself is alpha, and nothing of it is written anew.
     Adjoints stand in tables as MIRAS__BACK(miras__name), for builds without training.

   AN ARCHITECTURE
     1. @06, @14, @57   a name; its word; the layers' widths and where their weights lie
     2. @41   how its hidden rows come about, or its answer, with the adjoint and the adjoint of
              the inner gradient. The frozen-gradient engine needs no more.

   A TYPE OF LAYER
     1. @06   a name in miras_layer_type, and its fields in miras_layer_desc; @14: its word, and if
              it has fields their rows, miras__types_of and miras__when
     2.       a room like @77: sizes; initial values beyond draws; what it keeps of a call; what it
              does behind its projections, with a head and before W_o, and their adjoints. What
              layers share (room @75) has the MLP that ends each, dropout and the table of
              parameters (miras__params), from which views, sums and jobs follow; a type without
              heads has no functions, as the MLP on its own at the end of that room
     3. @78   its record in miras__layer_types; @73: a letter for it in miras_model_preset
              where it is no form of m
     Training and sessions take every record alike.

   AN INSTRUCTION SET
     1. @12   how to detect it, at compile time and at run time
     2. @20   one more include of this file, inside its target region
     3. @21   the vocabulary: about thirty operations on one vector type
     4. @31   a line in the list of tables, best first
     The kernels are written in the vocabulary and come by themselves. The tests compare every entry
     of every table with the portable one.

   A KERNEL
     1.       the function miras__name, in its room (@22 to @29), on a whole tile of rows, and its
              adjoint right below; a line of the block in @20 gives it the ending of each set, or of
              the set that lends it. What has no vectors of its own goes between #if MIRAS__COMMON
              and #endif, without that line, and calls other kernels by a table K. Lanes may be
              threads (@21): V_KEEP for sums in memory, V_SYNC before what another lane has stored
     2. @20   X(part, result, name, (arguments)) in the list of the table, if more than kernels
              call it; part says who does, so that builds without them can leave it out
     3.       a row in the kernel test: lengths from 0 to several vectors, odd strides, buffers that
              end at a guard page
     An engine does no arithmetic on arrays of its own; room @45 says what it may do.

   REVISIONS
     next    training apart from running. Old and new names:
               miras_model_desc.batch, context, streams, parallel     miras_trainer_desc.batch, ...
               miras_model_loss, _loss_streams, _backward, _grads     miras_trainer_loss, ...
               miras_model_steps, miras_adamw             miras_trainer_steps, miras_trainer_step
               miras_model_save, _save_to(m, ..., 0)      without the 0
               with MIRAS_SAVE_TRAINING                   miras_trainer_save, _save_to
               miras_model_load, _load_from to go on      miras_trainer_load, _load_from
             Models of several kinds of layer; attention and MLPs as layers, no_mlp without one:
               miras_model_desc.memory, hidden, conv, ...         the same of .layer[0]
             One name for one thing, in fields as text too, which know the old ones:
               miras_desc.steps                                   descents
               MIRAS_NEWTON, MIRAS_PAIRS                   MIRAS_LEAST_SQUARES, MIRAS_KV_CACHE
               miras_keys, miras_model_desc.keys                  miras_key_map, .layer[0].key_map
               miras_keep, miras_model_desc.keep              miras_keep_form, .layer[0].keep_form
               miras_adamw_options.decay                          weight_decay
             Files of versions 4 to 6 hold these; others stay of 2 or 3. Text of a field may
             have MIRAS_PATTERN characters. Fields that mean nothing to a layer's type are refused.
             Bias log-cosh, retention tanh.
             miras_desc.norm_epsilon: what an inner norm adds to the variance.
             miras_layer_desc.persistent: learned pairs in front of attention.
             Parts of a memory's state by name: miras_memory_part, _get, _set, _move, and the same
             of a session's layers; dstate where a sequence ends inside a chunk. Views say how their
             initial values were drawn.
             miras_desc.parallel shares the heads of one memory out; every field of a descriptor
             has a value as text (miras_model_desc_get). Builds can leave parts out
             (MIRAS_NO_TRAINING and others). All results keep their bits, but for gradients
             of outer parameters over several sequences (and of row rates over several heads),
             which now are sums of what each has left.
     0.3.0   memories that last: decay towards the initial memory, carried states, resets, horizons;
             bounded steps and keys of one length for memories on their own; gates per channel,
             signed simplices, row rates that training can take back; nothing stays denormal; other
             presets (models and memories of 0.2.0 load as they were); files of version 3 where a
             new field is used.
     0.2.0   the whole framework: 23 models, exact matrix memories in chunks, Newton and attention
             engines, all biases, retentions and algorithms of the paper, callbacks; files of
             version 2.
     0.1.0   first slice: matrix and perceptron memories, seven biases, five retentions, momentum,
             ten models, training, sessions, files. */

/* @05 LINKAGE AND RESULTS ---------------------------------------------------------------------- */
#ifndef MIRAS_H
#define MIRAS_H

#include <stddef.h>
#include <stdint.h>

#define MIRAS_VERSION 300          /* 0.3.0: major * 10000 + minor * 100 + patch */
#define MIRAS_VERSION_TEXT "0.3.0"

#if defined(MIRAS_NO_FILES) && !defined(MIRAS_NO_STDIO)
  #define MIRAS_NO_STDIO
#endif
#if defined(MIRAS_NO_MODEL) || defined(MIRAS_NO_TRAINING)
  #define MIRAS__NO_TRAINER
#endif

#ifdef MIRAS_STATIC
  #if defined(__GNUC__)
    #define MIRAS_API static __attribute__((unused))
  #else
    #define MIRAS_API static
  #endif
#else
  #define MIRAS_API extern
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Every result with its sentence; the enum and miras_result_text come from this one list. */
#define MIRAS_RESULTS(X)                                                                  \
  X(MIRAS_OK, "no error")                                                                 \
  X(MIRAS_ERR_ARGUMENT, "an argument is null, negative or out of its documented range")   \
  X(MIRAS_ERR_DESC, "the descriptor is not valid; the text beside it says which field")   \
  X(MIRAS_ERR_ALLOC, "the allocator returned no memory")                                  \
  X(MIRAS_ERR_SIZE, "the size does not fit: into the buffer, the limit or this machine")  \
  X(MIRAS_ERR_IO, "a file could not be opened, read or written")                          \
  X(MIRAS_ERR_FORMAT, "the bytes are not a valid file of this kind, or are damaged")      \
  X(MIRAS_ERR_MISMATCH, "the file belongs to a model or memory of another descriptor")    \
  X(MIRAS_ERR_STATE, "the call is not possible at this point of the sequence")            \
  X(MIRAS_ERR_DEVICE, "the device or its driver refused; cudaGetLastError has told why")

typedef enum miras_result {
#define MIRAS_X(name, text) name,
  MIRAS_RESULTS(MIRAS_X)
#undef MIRAS_X
  MIRAS_RESULT_COUNT
} miras_result;

/* The sentence that belongs to a result; never NULL, static storage. */
MIRAS_API const char *miras_result_text(miras_result result);

/* Name of the instruction set in use: "portable", "avx2", "avx512" or "neon". */
MIRAS_API const char *miras_isa(void);

/* @06 TYPES ------------------------------------------------------------------------------------ */

/* Rows of the table of published models (room @73). */
typedef enum miras_kind {
  MIRAS_LINEAR_ATTENTION,  /* S += k v'                                    Katharopoulos 2020   */
  MIRAS_DFW,               /* decay per key and per value channel          Mao 2022             */
  MIRAS_RETNET,            /* fixed decay per head                         Sun 2023             */
  MIRAS_LIGHTNING,         /* fixed decay per head and layer               Qin 2024             */
  MIRAS_GLA,               /* decay per key channel                        Yang 2023            */
  MIRAS_MAMBA2,            /* decay and step from one gate                 Dao and Gu 2024      */
  MIRAS_HGRN2,             /* the key is what the decay forgets            Qin 2024             */
  MIRAS_DELTANET,          /* one delta-rule step per token                Schlag 2021          */
  MIRAS_LONGHORN,          /* implicit step                                Liu 2024             */
  MIRAS_GATED_DELTANET,    /* decay, then a delta-rule step                Yang 2024            */
  MIRAS_DELTAPRODUCT,      /* two delta-rule steps per token               Siems 2025           */
  MIRAS_GATED_DELTAPRODUCT,/* decay, then two steps                        Siems 2025           */
  MIRAS_KDA,               /* decay per key channel, then a step           Kimi Team 2025       */
  MIRAS_RWKV7,             /* erases and writes with different keys        Peng 2025            */
  MIRAS_MESA,              /* least squares over all pairs, exactly        von Oswald 2025      */
  MIRAS_SOFTMAX_ATTENTION, /* the last 1024 pairs: see `window`            Vaswani 2017         */
  MIRAS_SLIDING_WINDOW,    /* the last 64 pairs                            Beltagy 2020         */
  MIRAS_TTT_LINEAR,        /* matrix behind a layer norm, mini-batch steps Sun 2024             */
  MIRAS_TTT_MLP,           /* two-layer perceptron, mini-batch steps       Sun 2024             */
  MIRAS_TITANS,            /* perceptron, momentum, decay                  Behrouz 2025 (Titans)*/
  MIRAS_MONETA,            /* perceptron, l_p bias, l_q retention          Behrouz 2025, eq. 25 */
  MIRAS_YAAD,              /* perceptron, Huber bias, l2 retention         Behrouz 2025, eq. 26 */
  MIRAS_MEMORA,            /* perceptron, l2 bias, KL retention            Behrouz 2025, eq. 27 */
  MIRAS_KIND_COUNT
} miras_kind;

/* Choice 1: the memory architecture M(W; x). */
typedef enum miras_architecture {
  MIRAS_MATRIX,            /* M = phi(x) S, S [features, value_dim]                              */
  MIRAS_MLP,               /* depth layers with an activation between                           */
  MIRAS_GATED_MLP,         /* (act(x W_1) (.) x W_2) W_3, hidden width expansion * key_dim       */
  MIRAS_VECTOR,            /* M = x (.) w, w [key_dim]; value_dim = key_dim                      */
  MIRAS_KV_CACHE,          /* nonparametric: the last `window` pairs themselves, read by softmax
                              attention, sum_i s_i v_i / sum_i s_i, s = exp(k_i q / sqrt key_dim) */
  MIRAS_ARCHITECTURE_COUNT
} miras_architecture;

/* Choice 2: the attentional bias l(M(k), v), with r = M(k) - v. RECURRENCE LETTERS: e = dl/dM.   */
typedef enum miras_bias {
  MIRAS_DOT,               /* -<M(k), v>                       e = -v                            */
  MIRAS_L2,                /* 1/2 |r|^2                        e = r                             */
  MIRAS_LP,                /* sum |r|^p, p >= 1                e = p sgn(r) |r|^(p-1)            */
  MIRAS_LP_SMOOTH,         /* the same with tanh(nu r) for the sign and sqrt(r^2+1e-6) for |r|;
                              p = 1 is the value-less memory (MIRAS eq. 12): e = tanh(nu r)      */
  MIRAS_HUBER,             /* per coordinate                   e = clamp(r, -delta, delta)       */
  MIRAS_HUBER_NORM,        /* on |r|                           e = r min(1, delta/|r|)           */
  MIRAS_HUBER_MIXTURE,     /* Yaad: e = r while |r| <= delta, else delta tanh(nu r)              */
  MIRAS_PSEUDO_HUBER,      /* delta^2 (s - 1), s = sqrt(1 + |r|^2/delta^2)       e = r / s       */
  MIRAS_SHIFT_ROBUST,      /* worst case over |dv| <= delta of L2 to v + dv (MIRAS eq. 17), with
                              n = sqrt(|r|^2 + 1e-6)                     e = (1 + delta/n) r     */
  MIRAS_LOG_COSH,          /* sum delta^2 log cosh(r/delta)    e = delta tanh(r/delta)           */
  MIRAS_CUSTOM_BIAS,       /* the caller's: miras_custom                                         */
  MIRAS_BIAS_COUNT
} miras_bias;

/* Choice 3: the retention gate: how the dual state A decays and which link W = link(A) reads it. */
typedef enum miras_retention {
  MIRAS_RETAIN_ALL,        /* no decay, W = A                                                    */
  MIRAS_RETAIN_L2,         /* decay alpha, W = A                                                 */
  MIRAS_RETAIN_LQ,         /* decay alpha, W = A / ||A||_q^(q-2)         (Moneta, eq. 24)        */
  MIRAS_RETAIN_LQ_PNORM,   /* decay alpha, W = sgn(A) |A|^(q-1) / ||A||_q^(q-2)                  */
  MIRAS_RETAIN_KL,         /* decay alpha, W = c softmax(A) per channel  (Memora, eq. 27). With
                              keep = 1 it is the f-divergence below of f(t) = t log t, whose zeta
                              needs no search. For chunk > 1 see simplex_logits                  */
  MIRAS_RETAIN_L2_BOTH,    /* local and global L2 as derived together: with beta = `balance` and
                              the step gate eta, alpha = beta/(beta + eta) and the step alpha eta */
  MIRAS_RETAIN_ELASTIC,    /* decay alpha, and when a chunk closes A <- shrink(A; gamma), gamma =
                              sum_t `sparsity` eta_t prod_(s>t) alpha_s; W = A   (MIRAS eq. 22) */
  MIRAS_RETAIN_ELASTIC_FTRL, /* no decay, W = shrink(A; sparsity)                    (eq. 23)   */
  MIRAS_RETAIN_SIGMOID,    /* decay alpha, W = sigmoid(A): Bregman divergence of the logit       */
  MIRAS_RETAIN_CHI2,       /* f-divergence on the scaled simplex, f(t) = (t-1)^2/2: when a chunk
                              closes W <- W (.) ginv(-zeta - sum eta g), ginv = (f')^-1, zeta
                              such that every slice sums to c; no decay   (MIRAS eq. 18)         */
  MIRAS_RETAIN_REVERSE_KL, /* the same with f(t) = -log t                                        */
  MIRAS_RETAIN_HELLINGER,  /* the same with f(t) = (sqrt t - 1)^2                                */
  MIRAS_RETAIN_TANH,       /* decay alpha, W = tanh(A): weights between -1 and 1                 */
  MIRAS_CUSTOM_RETENTION,  /* decay alpha and the caller's link: miras_custom                    */
  MIRAS_RETENTION_COUNT
} miras_retention;

/* Where a decay leads: what is left of a memory that is written no more. */
typedef enum miras_toward {
  MIRAS_TOWARD_NOTHING,    /* A_t = alpha A_(t-1) + ...: a dual state of zeros                   */
  MIRAS_TOWARD_INITIAL,    /* A_t = A_0 + alpha (A_(t-1) - A_0) + ..., A_0 the initial memory,
                              which then is trained by every position of a sequence              */
  MIRAS_TOWARD_COUNT
} miras_toward;

/* Choice 4: the learning algorithm that turns gradients into updates. */
typedef enum miras_algorithm {
  MIRAS_GRADIENT_DESCENT,  /* u_t = eta_t g_t                                                    */
  MIRAS_MOMENTUM,          /* S_t = theta_t S_(t-1) - eta_t g_t, A_t = alpha_t A_(t-1) + S_t     */
  MIRAS_IMPLICIT,          /* exact minimiser of 1/2 |S - S'|^2 + eta l(S): for L2 on a matrix the
                              step eta / (1 + eta k.k) (Longhorn)                                */
  MIRAS_LEAST_SQUARES,     /* exact minimiser over all pairs so far, by conjugate gradients: matrix
                              and L2 (Mesa layer)                                                */
  MIRAS_ALGORITHM_COUNT
} miras_algorithm;

typedef enum miras_activation { MIRAS_GELU, MIRAS_SILU, MIRAS_IDENTITY, MIRAS_ACTIVATION_COUNT }
  miras_activation;

/* Map of keys and queries before a matrix memory sees them; its width is "features". */
typedef enum miras_feature {
  MIRAS_FEATURE_IDENTITY,
  MIRAS_FEATURE_ELU,       /* elu(x) + 1: x + 1 for x > 0, else exp(x)                           */
  MIRAS_FEATURE_RELU,
  MIRAS_FEATURE_RELU2,     /* max(x, 0)^2                                                        */
  MIRAS_FEATURE_SOFTMAX,   /* over the key's entries                                             */
  MIRAS_FEATURE_POLY2,     /* [1, x, x_i x_j (i <= j)] with sqrt(1, 1, 1/2 (i = j) or 1), so that
                              phi(q).phi(k) = 1 + q.k + (q.k)^2/2; width 1 + d + d(d+1)/2        */
  MIRAS_FEATURE_COUNT
} miras_feature;

/* Is the error measured before or after the state has decayed? Matters with decay and L2 only.   */
typedef enum miras_order {
  MIRAS_ERROR_FIRST,       /* at A_(t-1): Titans and the MIRAS models                            */
  MIRAS_DECAY_FIRST,       /* at alpha_t A_(t-1): Gated DeltaNet; memories that run exactly      */
  MIRAS_ORDER_COUNT
} miras_order;

/* Where the value of a gate comes from. */
typedef enum miras_gate {
  MIRAS_GATE_CONSTANT,     /* the descriptor's number                                            */
  MIRAS_GATE_HEAD,         /* one number per token and head: [batch, T, heads]                   */
  MIRAS_GATE_CHANNEL,      /* one per token, head and channel. Matrix memories that run exactly:
                              keep per feature of the key, [batch, T, heads, features], and step
                              per entry of the value, [batch, T, heads, value_dim] (Longhorn).
                              Vector and perceptron memories (up to two layers, or gated), by
                              plain gradient descent: keep and step per channel of the value,
                              [batch, T, heads, value_dim], acting on the outputs of the last
                              layer and, when deeper than one, on the inputs of the first, which
                              needs key_dim = value_dim; the threshold of every coordinate of the
                              error. Momentum has none                                           */
  MIRAS_GATE_COUNT
} miras_gate;

/* The length that keys and queries are brought to before a memory sees them. */
typedef enum miras_length {
  MIRAS_LENGTH_FREE,       /* their own                                                          */
  MIRAS_LENGTH_UNIT,       /* 1: x / sqrt(|x|^2 + 1e-12), so that zeros stay zeros               */
  MIRAS_LENGTH_ROOT,       /* sqrt(key_dim): entries of size 1                                   */
  MIRAS_LENGTH_COUNT
} miras_length;

/* An attentional bias or a retention link of your own. The functions are called from any thread and
 * must not keep anything between calls; dv is value_dim, n the weights of one layer. */
typedef struct miras_custom {
  /* error[dv] = dl/dM for residual r = M(k) - v and value v; returns l. */
  float (*bias)(void *user, float *error, const float *r, const float *value, float threshold,
                int dv);
  /* dr[dv] = J' be, J = d error/dr; dvalue[dv] = (d error/d value)' be with r held (may be left
   * zero when error depends on r alone); returns the derivative by the threshold. */
  float (*bias_adjoint)(void *user, float *dr, float *dvalue, const float *be, const float *r,
                        const float *value, float threshold, int dv);
  /* w[n] = link(a[n]) of a layer [in, out]. */
  void (*link)(void *user, float *w, const float *a, int in, int out);
  /* da[n] += link'(a)' dw[n]; w is link(a). */
  void (*link_adjoint)(void *user, float *da, const float *dw, const float *a, const float *w,
                       int in, int out);
  void *user;
} miras_custom;

/* Constant keep gates of head h of H in layer l of L. */
typedef enum miras_slopes {
  MIRAS_SLOPES_RATIO,      /* 1 - forget * forget_ratio^h (RetNet: 1/32, 1/2)                    */
  MIRAS_SLOPES_LIGHTNING,  /* exp(-(8/H) (1 - l/L) h): Lightning attention as first released     */
  MIRAS_SLOPES_MINIMAX,    /* exp(-2^(-8 (h+1)/H) (1 - l/(L - 1 + 1e-5) + 1e-5)): MiniMax-01     */
  MIRAS_SLOPES_COUNT
} miras_slopes;

/* Your job system. run must call task(argument, index, worker) once for every index in 0..count-1,
 * with worker in 0..workers-1 and no two calls at the same time with the same worker, and return
 * when all are done. Results do not depend on workers, bit for bit. */
typedef struct miras_parallel {
  void (*run)(void *user, int count, void (*task)(void *argument, int index, int worker),
              void *argument);
  void *user;
  int workers;                                         /* 1..256                                 */
} miras_parallel;

/* One learning memory: the four choices, sizes and constants. Fill it with miras_preset, then
 * change what you like; a zero field means the default that its comment names. */
typedef struct miras_desc {
  miras_architecture architecture;
  miras_bias bias;
  miras_retention retention;
  miras_algorithm algorithm;
  miras_order order;
  int batch;               /* sequences side by side, each with its own state, 1..2^20; 0 -> 1   */
  int heads;               /* independent memories per sequence, 1..65536; 0 -> 1                */
  int key_dim;             /* width of keys and queries of one head, 1..4096; no default         */
  int value_dim;           /* width of values and outputs of one head, 1..4096; 0 -> key_dim     */
  int chunk;               /* 1..1024; 0 -> 1. Memories that run exactly (ENGINES in room @01;
                              KV caches and least squares too): only a schedule, how many tokens are
                              worked on together. All others: tokens that share one anchor, and part
                              of the model; 1: every gradient at its own weights                 */
  int depth;               /* MLP: layers, 1..4; 0 -> 2                                          */
  int expansion;           /* MLP of 2 to 4 layers, gated MLP: hidden width = expansion * key_dim,
                              1..16; 0 -> 4                                                      */
  miras_activation activation; /* of those: between the layers                                   */
  int inner_norm;          /* MLP, gated MLP: 1 puts a layer norm (learned gain and bias) on the
                              output                                                             */
  float norm_epsilon;      /* of inner_norm, added to the variance, up to 1; 0 -> 1e-5           */
  int inner_residual;      /* MLP, gated MLP: 1 adds the input; needs value_dim = key_dim        */
  int inner_bias;          /* MLP: 1 adds learned-at-test-time biases to the layers (TTT); needs
                              MIRAS_RETAIN_ALL, or MIRAS_RETAIN_L2 or L2_BOTH and
                              MIRAS_TOWARD_INITIAL                                               */
  miras_length key_length; /* not of KV caches, nor inside a model, whose key_map says it        */
  miras_feature feature;   /* matrix memories: the map of keys and queries                       */
  int normalise;           /* matrix, dot product: 1 divides the answer by phi(q).sum phi(k) +
                              1e-10, decayed and stepped alike; needs a feature map that is not
                              negative (ELU, RELU, RELU2, SOFTMAX)                               */
  int descents;            /* of gradients per token, 1..8; 0 -> 1. A token has `descents`
                              pairs: key [batch, T, heads, descents, key_dim], value likewise, step
                              gate [batch, T, heads, descents]; the other gates act before the first
                              and the read follows the last (DeltaProduct)                       */
  int separate_erase;      /* matrix, L2: 1 takes what is erased and where from tokens.erase (a) and
                              tokens.replace (b) instead of the key: S_t = diag(alpha) S_(t-1) +
                              b (a' S_(t-1)) + eta k v' (RWKV-7: a = -kk, b = kk (.) rate); needs
                              gradient descent, descents 1, no feature map, MIRAS_ERROR_FIRST     */
  int diagonal;            /* matrix, implicit: 1 keeps only the diagonal of the erase, as the code
                              released with Longhorn (there with an eta per channel): S <-
                              diag(1 - D k^2) S + D k v', D = eta/(1 + eta k.k)                  */
  int row_rates;           /* 1 and 2 scale the steps of a chunk as its token t (0-based) sees them
                              by a rate, with rho [chunk] an outer parameter: 1 is TTT's max(1/(t+1)
                              + rho_t, 0); 2 is log(1 + exp(16 rho_t) (exp(16/(t+1)) - 1)) / 16,
                              nearly the same, but training can take it back from 0. They need
                              gradient descent, the frozen engine, one step per token and head, and
                              MIRAS_RETAIN_ALL, or MIRAS_RETAIN_L2 and MIRAS_TOWARD_INITIAL, whose
                              keep gate (not per channel) then acts on what the chunk found      */
  int window;              /* KV cache: how many pairs it holds, 1..2^20; 0 -> 1024. As many as the
                              longest sequence make it full attention                            */
  int iterations;          /* least squares: most steps of conjugate gradients, 1..256; 0 -> 30   */
  float tolerance;         /* of those: stop when |residual|^2 <= tolerance |query|^2, 1e-14..1;
                              0 -> 1e-12                                                         */
  float ridge;             /* least squares: initial value of the outer parameter lambda [heads,
                              features] on the diagonal, 1e-6..1e6; 0 -> 1                       */
  miras_gate keep_gate;    /* alpha, what a step keeps of the state                              */
  miras_gate step_gate;    /* eta, how far a step goes                                           */
  miras_gate momentum_gate;   /* theta, what is kept of the last update                          */
  miras_gate threshold_gate;  /* delta of the Huber family, log-cosh, shift-robust and custom    */
  miras_gate value_gate;   /* matrix, dot product, MIRAS_RETAIN_L2: MIRAS_GATE_CHANNEL decays the
                              value channels too: S <- diag(keep) S diag(value_keep) (DFW)       */
  miras_toward toward;     /* where the decay leads. For retentions with a keep gate, L2 both and
                              FTRL (W = A_0 + shrink(A - A_0)); it also gives f-divergences a keep
                              gate. Not with `diagonal` and least squares                        */
  float forget;            /* constant keep gate: alpha = 1 - forget, 0..1                       */
  float forget_ratio;      /* head h forgets forget * forget_ratio^h, 0..1; 0 -> 1               */
  miras_slopes slopes;     /* other published families of constant keep gates                    */
  int layer, layers;       /* slopes: which layer of how many (1..65536) the memory is, 0-based;
                              layers 0 -> 1. A model sets them                                   */
  int reset_every;         /* 0, or tokens after which a head starts anew from the initial memory;
                              a multiple of chunk and at least 16, or of the first multiple of
                              chunk from 16 on. Heads take turns: head h of H at tokens t with
                              (t + h reset_every / H, rounded down to that grid) mod
                              reset_every = 0, before the write                                  */
  float step;              /* constant step gate, 1e-8..1e4; 0 -> 1                              */
  int bounded_step;        /* 1, 2: no write overshoots its own pair. With r = M(k) - v, e = dl/dM,
                              g = dl/dA, the step is eta e.r / (e.r + c eta g.Jg): the implicit
                              step to first order, on matrices with L2 exactly Longhorn's eta / (1 +
                              eta k.k). J: how far weights move with A, 1 without a link, of
                              others see room @27; c: p - 1 of the L_p biases with p > 2, else 1.
                              2: nor does it where layers move together, which slopes do not see: no
                              layer below the last gains more than about four times what it says
                              (room @51); the same as 1 where there is one layer.
                              Needs a bias with a residual of its own (not the dot product, not a
                              custom one), and not separate_erase, least squares or the implicit
                              step                                                               */
  float momentum;          /* constant momentum gate, 0..1                                       */
  float threshold;         /* constant threshold, 1e-6..1e30; 0 -> 3 sqrt(value_dim), twice what |r|
                              is at first, for a bias on |r| behind an inner norm, else 1        */
  float p;                 /* exponent of the L_p biases, 1..8; 0 -> 3                           */
  float q;                 /* exponent of the L_q retentions, 1..8; 0 -> 4                       */
  float sharpness;         /* nu of tanh(nu r), 0.1..100; 0 -> 10                                */
  float simplex;           /* c: slices of KL and f-divergence memories sum to it, 1e-3..1e6;
                              0 -> 1                                                             */
  int simplex_whole;       /* simplex slices: 0 one per channel (of the key for first layers, of the
                              value for last ones; layers between are one), 1 one per weight
                              matrix; vectors need 1                                             */
  int simplex_signed;      /* KL with chunk 1 or simplex_logits 1: 1 keeps every weight as the
                              difference of two positive ones of the slice, W = c sinh(A) / sum
                              cosh(A), the softmax over A and -A: |W| sums to less than c, and
                              weights can say something negative                                 */
  int simplex_logits;      /* KL, chunk > 1: 0 as in the paper, the first token of a chunk exactly
                              and the others linear in W (eq. 30-32); 1 linear in the logits. At
                              chunk 1 both are the same                                          */
  float balance;           /* beta of MIRAS_RETAIN_L2_BOTH, 1e-6..1e6; 0 -> 1                    */
  float sparsity;          /* of the elastic nets, 1e-8..1e4; 0 -> 1e-3                          */
  int smooth_shrink;       /* elastic nets: 0 soft threshold sgn(a) max(|a| - gamma, 0); 1 smooth,
                              a atan(2 |a| / (pi gamma)) / (pi/2), of the same asymptote         */
  const miras_custom *custom;   /* of the custom choices; must outlive the memory                */
  uint64_t seed;           /* of the initial memory                                              */
  const miras_parallel *parallel; /* workers of miras_forward and miras_backward, which share out
                              sequences and heads; NULL: one thread. Must outlive the memory; NULL
                              inside a model, which has its own                                  */
} miras_desc;

/* T tokens for every sequence and head. Row-major, outermost first:
 *   key, query [batch, T, heads, key_dim]; value [batch, T, heads, value_dim];
 *   gates [batch, T, heads] or [batch, T, heads, channels], NULL when the descriptor says constant.
 *   With descents > 1: key [batch, T, heads, descents, key_dim], value [batch, T, heads, descents,
 *   value_dim], step [batch, T, heads, descents] or [.., descents, channels]; queries and other
 *   gates as without.
 *   value_keep, erase, replace: where the descriptor asks for them, else NULL.
 * keep and momentum lie in 0..1, step and threshold are positive; nothing is checked per token. */
typedef struct miras_tokens {
  int length;                                          /* T >= 0                                 */
  const float *key, *value, *query;
  const float *keep, *step, *momentum, *threshold;
  const float *value_keep;                             /* [batch, T, heads, value_dim]           */
  const float *erase, *replace;                        /* [batch, T, heads, key_dim]             */
} miras_tokens;

/* Gradients in the shapes of miras_tokens; overwritten; a member is NULL where not wanted. */
typedef struct miras_token_grads {
  float *key, *value, *query;
  float *keep, *step, *momentum, *threshold;
  float *value_keep, *erase, *replace;
} miras_token_grads;

/* Where memory comes from. free receives the size that alloc was asked for; NULL frees nothing, as
 * an arena would have it. alloc may return NULL. Memory must be aligned as malloc aligns it; the
 * library aligns further by itself. */
typedef struct miras_allocator {
  void *(*alloc)(size_t bytes, void *user);
  void (*free)(void *pointer, size_t bytes, void *user);
  void *user;
} miras_allocator;

/* What a layer of a model makes of keys and queries after their convolutions. */
typedef enum miras_key_map {
  MIRAS_KEYS_UNIT,         /* both scaled to length 1 per head                                   */
  MIRAS_KEYS_RMS,          /* both scaled to length sqrt(key_dim): attention, Longhorn           */
  MIRAS_KEYS_FREE,         /* both as they are                                                   */
  MIRAS_KEYS_COMPLEMENT,   /* query as it is, key = 1 - keep gate, without a projection of its own;
                              needs keep_gate MIRAS_GATE_CHANNEL               (HGRN2)           */
  MIRAS_KEYS_ERASE,        /* for separate_erase (RWKV-7): with a learned gate rate in 0..1 per
                              channel and kappa = the key times a learned scale, of length 1 per
                              head: erase = -kappa, replace = kappa (.) rate, and the key times
                              1 + (rate - 1) (.) a learned mix; query as it is                   */
  MIRAS_KEYS_COUNT
} miras_key_map;

/* What becomes of each number of queries, keys or values behind its convolution, or where it has
 * none behind its projection. */
typedef enum miras_mixing {
  MIRAS_MIX_SILU,
  MIRAS_MIX_NONE,
  MIRAS_MIX_RELU,
  MIRAS_MIX_ELU,           /* elu(x) + 1, as MIRAS_FEATURE_ELU                                   */
  MIRAS_MIX_COUNT
} miras_mixing;

/* Which of queries, keys and values go through a convolution. */
typedef enum miras_convolved {
  MIRAS_CONVOLVED_ALL,
  MIRAS_CONVOLVED_KEYS,    /* queries and keys                                                   */
  MIRAS_CONVOLVED_NONE,
  MIRAS_CONVOLVED_COUNT
} miras_convolved;

/* The norms of a model's blocks and of what its head reads. */
typedef enum miras_norm {
  MIRAS_NORM_RMS,          /* x / sqrt(mean x^2 + eps) (.) gain                                   */
  MIRAS_NORM_LAYER,        /* (x - mean x) / sqrt(var x + eps) (.) gain + bias                    */
  MIRAS_NORM_COUNT
} miras_norm;

/* What the normed answers of memories are multiplied by, with g = h W_g of the layer's normed input
 * h. */
typedef enum miras_out_gate {
  MIRAS_OUT_SILU,
  MIRAS_OUT_SIGMOID,
  MIRAS_OUT_NONE,          /* nothing; there is no W_g                                           */
  MIRAS_OUT_GELU,
  MIRAS_OUT_COUNT
} miras_out_gate;

/* How a model makes a learned keep gate alpha from the number g of its projection. */
typedef enum miras_keep_form {
  MIRAS_KEEP_SIGMOID,      /* sigmoid(g)                                                         */
  MIRAS_KEEP_ROOT,         /* sigmoid(g)^(1/16)                                (GLA)             */
  MIRAS_KEEP_RATE,         /* exp(-exp(a) softplus(g)), a learned per gate     (Mamba-2, GDN)    */
  MIRAS_KEEP_BOUNDED,      /* exp(-exp(-1/2) sigmoid(g)), in (0.545, 1)        (RWKV-7)          */
  MIRAS_KEEP_COUNT
} miras_keep_form;

/* For miras_layer_desc.fixed_gates. */
#define MIRAS_FIXED_KEEP       1
#define MIRAS_FIXED_STEP       2
#define MIRAS_FIXED_MOMENTUM   4
#define MIRAS_FIXED_THRESHOLD  8
#define MIRAS_FIXED_VALUE_KEEP 16

/* What a layer of a model is: two additions to its input, that of the type's heads and then that of
 * a SwiGLU MLP, unless it has none. */
typedef enum miras_layer_type {
  MIRAS_LAYER_MEMORY,      /* a memory per head, behind convolutions and gates                   */
  MIRAS_LAYER_ATTENTION,   /* softmax attention with rotary positions                            */
  MIRAS_LAYER_MLP,         /* no heads: the SwiGLU MLP alone                                     */
  MIRAS_LAYER_MAG,         /* attention and a memory side by side on the same input, the memory as
                              attention's gate (Titans): W_o (norm(y) (.) sigmoid(norm(z))), y what
                              attention says and z the memory, whose output gate and norm per head
                              it has not got                                                     */
  MIRAS_LAYER_CONV,        /* a causal convolution of each channel of the normed input, with a bias:
                              what TTT's blocks begin with on Mamba's backbone                   */
  MIRAS_LAYER_RWKV,        /* the time mixing of RWKV-7 as published (room @76)                   */
  MIRAS_LAYER_TYPE_COUNT
} miras_layer_type;

/* The MLP that ends a layer, of h = norm(x). */
typedef enum miras_mlp {
  MIRAS_MLP_SWIGLU,        /* W_down (silu(W_gate h) (.) W_up h)                                  */
  MIRAS_MLP_RELU2,         /* W_down max(W_up h, 0)^2                                             */
  MIRAS_MLP_COUNT
} miras_mlp;

/* A kind of layer. The learned gates of a memory are those that are not MIRAS_GATE_CONSTANT. Each
 * is made from a number g of a projection, whose offset lets it begin at the constant of the
 * descriptor:
 *   step        step sigmoid(g): begins at half of step, which it cannot exceed
 *   threshold   threshold softplus(g), begins at threshold
 *   keep        see miras_keep_form, times 1 - 1/horizon where there is one; begins at 1 - f, where
 *               f = forget * forget_ratio^h for head h, kept in 1e-4..0.5; 1/64 if forget is 0
 *   momentum    sigmoid(g), begins at momentum in 0.05..0.95
 *   value keep  sigmoid(g), begins at 63/64 */
typedef struct miras_layer_desc {
  char letter;             /* its name in a pattern, a..z or A..Z; of layer[0] 0 -> m            */
  miras_layer_type type;
  int hidden;              /* of the MLP, 1..2^20; 0 -> 8/3 width, rounded up to a multiple of 8, or
                              with MIRAS_MLP_RELU2 4 width; with no_mlp it must be 0             */
  int no_mlp;              /* 1: the layer has no MLP; not of type MLP                           */
  miras_mlp mlp;           /* which                                                              */
  int shift;               /* of type MLP, 1: it reads h + (h of the token before - h) (.) a learned
                              mix per channel (RWKV's channel mixing)                            */
  int taps;                /* type conv: of its convolution, 1..8; 0 -> 4                        */
  /* of types memory, mag and rwkv, which has no conv, gate_rank and fixed_gates, and no mixings */
  miras_desc memory;       /* heads 0 -> those of the model, key_dim 0 -> width / heads where that
                              is a whole number; batch and seed are set by the model             */
  int conv;                /* taps of the causal convolutions, 1..8; 0 -> 4                      */
  miras_convolved convolved;   /* what goes through them                                         */
  int conv_bias;           /* 1: they have a learned bias                                        */
  int shared_keys;         /* 1: keys have no projection: their convolution is one of the queries'
                              projection (TTT on Mamba's backbone)                               */
  miras_mixing key_mixing;     /* the activation of queries and keys                             */
  miras_mixing value_mixing;   /* of values                                                      */
  int norm_heads;          /* type memory: heads whose answers are normed together, of which the
                              memory's are a multiple; 0 -> 1                                    */
  miras_norm out_norm;     /* type memory: their norm                                            */
  miras_out_gate out_gate; /* type memory: what multiplies it                                    */
  int key_heads;           /* heads of queries and keys, of which the memory's are a multiple: each
                              serves as many memories, one behind the other; 0 -> the memory's   */
  int scaled_queries;      /* 1: queries are divided by sqrt(key_dim) at last                    */
  int gate_rank;           /* rank of the projections behind the gates, 1..4096; 0 -> 32         */
  miras_key_map key_map;   /* what becomes of keys and queries                                   */
  miras_keep_form keep_form;  /* how a learned keep gate is made; 0 when it is a constant        */
  int tied_step;           /* 1: the step gate is step * softplus(g) of the keep gate's own g (dt of
                              Mamba-2); needs MIRAS_KEEP_RATE and both gates per head            */
  int fixed_gates;         /* which learned gates do not depend on the token but are one learned
                              number each: a sum of MIRAS_FIXED_...                              */
  int horizon;             /* 0, or the tokens that learned keep gates may at most look back:
                              alpha is held to 1 - 1/horizon, 2..2^30                            */
  float out_epsilon;       /* types memory, rwkv: norm_epsilon of the norm of what memories say, up
                              to 1; 0 -> the model's, of rwkv times value_dim                    */
  /* of type rwkv: ranks of its projections, 1..4096; 0 -> max(32, 32 round(c sqrt(width)/32)) */
  int decay_rank;          /* behind the keep gate, c = 2.5                                      */
  int rate_rank;           /* behind rate of MIRAS_KEYS_ERASE, c = 2.5                           */
  int out_rank;            /* behind the output gate, c = 5                                      */
  int value_rank;          /* 0: values are the layer's own; else the rank behind a learned gate per
                              channel that mixes in those of the model's first layer of type rwkv,
                              which itself has none                                              */
  /* of types attention and mag; of a mag heads * head_dim must be the memory's heads * value_dim */
  int heads;               /* of queries, 1..65536; 0 -> those of the model                      */
  int kv_heads;            /* of keys and values, of which heads is a multiple; 0 -> heads       */
  int head_dim;            /* even, 2..4096; 0 -> width / heads where that is a whole number     */
  int window;              /* tokens that a query sees, itself included, 1..2^20; 0 -> 1024      */
  float rotary_base;       /* entries i and i + head_dim/2 of queries and keys turn by the angle
                              position * rotary_base^(-2i/head_dim), 1..1e9; 0 -> 10000. Of fewer
                              entries: see rotary_dim                                            */
  int qk_norm;             /* 1: queries and keys go through an RMS norm per head first          */
  int rotary_dim;          /* 0, or how many of a head's entries turn, the first: even, to head_dim.
                              They do as those of a head of rotary_dim entries would             */
  int output_gate;         /* type attention: 1 multiplies what heads say by sigmoid(h W), h what
                              queries are made of, before W_o                                    */
  int persistent;          /* learned keys and values per head of them, up to 1024, that every query
                              sees besides its window, and as it was before it turned            */
} miras_layer_desc;

#define MIRAS_LAYER_KINDS 8  /* kinds of layer that a model may have                             */
#define MIRAS_PATTERN 64     /* characters of a pattern, its end included                        */

/* A whole language model. Fill it with miras_model_preset. */
/* How a model that only runs holds its matrices. A product with one of them gives the bits of
 * MIRAS_WEIGHTS_FLOAT with the same, rounded numbers. All else stays float: gains, gates' offsets,
 * convolutions, initial memories, what sessions hold, every sum. */
typedef enum miras_weights {
  MIRAS_WEIGHTS_FLOAT,     /* 32 bits; the only ones that can be trained                         */
  MIRAS_WEIGHTS_BF16,      /* the upper 16 bits of a float, to nearest, halfway to even          */
  MIRAS_WEIGHTS_F16,       /* IEEE half precision: 11 bits of precision; 65520 and more become
                              infinite                                                           */
  MIRAS_WEIGHTS_Q8,        /* 32 neighbours of a row share a scale of half precision, by which
                              whole numbers -127..127 are multiplied: 8.5 bits each              */
  MIRAS_WEIGHTS_COUNT
} miras_weights;

typedef struct miras_model_desc {
  miras_layer_desc layer[MIRAS_LAYER_KINDS];   /* those that the pattern does not name are unused */
  char pattern[MIRAS_PATTERN];   /* which layers, from the embedding on: letters, or groups of them
                              in parentheses, each with *count behind it or once: "mmwm", "(mw)*3";
                              empty: `layers` times layer[0]                                     */
  int vocab;               /* 2..2^24; no default                                                */
  int width;               /* of the residual stream, 1..65536; no default                       */
  int heads;               /* of layers whose own are 0, 1..65536; 0 -> 1                        */
  int layers;              /* how many, 1..256; no default but with a pattern, which says it     */
  int untied;              /* 1: the head has its own matrix instead of the embedding's          */
  float norm_epsilon;      /* added to the mean of squares in RMS norms, up to 1; 0 -> 1e-5      */
  miras_norm norm;         /* of blocks and before the head                                      */
  int embed_norm;          /* 1: one behind the embedding too                                    */
  float dropout;           /* 0..0.9, on what layers add and the embedding, training only        */
  uint64_t seed;           /* of the initial parameters and of dropout                           */
  uint64_t limit;          /* most bytes that the model, or one session of it, may take: more is
                              refused, also when a file asks for it; 0: no limit                 */
  miras_weights weights;   /* how matrices are held; but for MIRAS_WEIGHTS_FLOAT the model cannot be
                              trained, and its matrices are zeros until a file is loaded         */
} miras_model_desc;

/* What the training of a model needs: room and workers. Nothing here changes a bit of it; what does
 * is the model's, and in its files. */
typedef struct miras_trainer_desc {
  int batch;               /* most sequences of a step, 1..65536; 0 -> 1                         */
  int context;             /* longest sequence of a step, 1..2^24; no default                    */
  int streams;             /* texts whose states miras_trainer_loss_streams carries, 0..2^20     */
  uint64_t limit;          /* most bytes that the trainer may take; 0: no limit                  */
  const miras_parallel *parallel; /* NULL: one thread. Must outlive the trainer                  */
} miras_trainer_desc;

/* One named parameter inside the flat block, or a part of a memory (miras_memory_part). */
typedef struct miras_view {
  char name[56];           /* e.g. "blocks.0.q.weight"                                           */
  size_t offset;           /* in floats                                                          */
  size_t count;            /* in floats: the product of shape                                    */
  int rank;                /* 1..3                                                               */
  int shape[3];            /* row-major, outermost first; unused entries are 1                   */
  int decay;               /* 1 when weight decay applies: matrices, not gains, biases, offsets  */
  int frozen;              /* 1: steps leave it alone (miras_model_train_only)                   */
  float rate;              /* what AdamW multiplies the learning rate by: 1; for memory.init with
                              MIRAS_RETAIN_LQ the first size of its entries over that of weights */
  double mean, deviation;  /* a parameter's initial values, drawn evenly about their mean, before a
                              memory layer sets its gates and memories and shapes keys and values */
  uint64_t seed;           /* of that draw; in parts of a memory these three are 0               */
} miras_view;

/* What a named part of a memory is (miras_memory_part). */
typedef enum miras_part {
  MIRAS_PART_NONE,
  MIRAS_PART_PARAMETER,    /* an outer parameter                                                  */
  MIRAS_PART_STATE,        /* what tokens change                                                  */
  MIRAS_PART_DERIVED       /* what follows from that, to be read only                             */
} miras_part;

typedef struct miras_adamw_options {
  float beta1;             /* 0 -> 0.9                                                           */
  float beta2;             /* 0 -> 0.95                                                          */
  float epsilon;           /* 0 -> 1e-8                                                          */
  float weight_decay;      /* decoupled: w -= learning rate * weight_decay * w; 0 is none        */
  float clip;              /* largest global gradient norm; 0 is no clipping                     */
} miras_adamw_options;

typedef struct miras_sampling {
  float temperature;       /* 0: always the likeliest token                                      */
  int top_k;               /* keep the k likeliest; 0: all                                       */
  float top_p;             /* keep the likeliest whose probabilities sum to p; 0 or 1: all       */
  uint64_t seed;           /* advanced by every draw; the same seed draws the same tokens        */
} miras_sampling;

typedef struct miras_memory miras_memory;
typedef struct miras_model miras_model;
typedef struct miras_trainer miras_trainer;
typedef struct miras_session miras_session;
typedef struct miras_server miras_server;

/* What many running texts are worked on in. Nothing here changes a bit of them. */
typedef struct miras_server_desc {
  int rows;                /* tokens that are worked on together, 1..65536; 0 -> 64               */
  uint64_t limit;          /* most bytes that the server may take; 0: no limit                    */
  const miras_parallel *parallel; /* NULL: one thread. Must outlive the server                    */
} miras_server_desc;

/* A running text's part of a call. */
typedef struct miras_text {
  void *state;             /* a block of miras_model_state_size bytes, aligned for uint64_t; zeros:
                              a new text                                                          */
  const int32_t *tokens;   /* [count] what comes next                                             */
  size_t count;
  size_t logits;           /* logits are wanted behind the last so many of them, 0..count         */
} miras_text;

/* @07 FUNCTIONS -------------------------------------------------------------------------------- */

/* ---- the table ---- */

/* Fill d with a row of the table for use on its own: constant gates, chunk 1, sizes left 0; what it
 * then takes and holds is told in room @01, ON ITS OWN. Two rows have two pairs per token (descents
 * 2: the DeltaProducts), and one takes tokens with erase and replace (RWKV-7): not miras_write. */
MIRAS_API miras_result miras_preset(miras_desc *d, miras_kind kind);
#ifndef MIRAS_NO_MODEL
/* Fill d with a row for use inside a model: learned gates, the chunk of its paper. Sizes left 0. In
 * patterns it is the kind m; w is attention with a window of 64 tokens, a with one of 1024, g an
 * MLP (of the others' own see no_mlp). */
MIRAS_API miras_result miras_model_preset(miras_model_desc *d, miras_kind kind);
/* Fill d with a published whole model of so many layers; any row's name is that of layers of it.
 *   "titans-lmm"   layers of Titans' memory
 *   "titans-mag"   the memory as the gate of window attention: layers of type mag
 *   "titans-mal"   the memory as a layer: memory, then window attention, then the MLP
 *   "rwkv7"        time mixing, then channel mixing: two layers each. The row's memory in a layer
 *                  of type memory is "rwkv7-memory" */
MIRAS_API miras_result miras_model_named(miras_model_desc *d, const char *name, int layers);
#endif
/* "yaad", "gated-deltanet", ...; NULL past the end. */
MIRAS_API const char *miras_kind_name(miras_kind kind);
/* The row of that name, or MIRAS_KIND_COUNT. */
MIRAS_API miras_kind miras_kind_find(const char *name);

/* ---- one memory ---- */

/* Bytes that miras_memory_init needs, or 0 with a sentence in why (may be NULL) that names the
 * field, its value and what is allowed, cut to why_size; 256 bytes hold every sentence. */
MIRAS_API size_t miras_memory_size(const miras_desc *d, char *why, size_t why_size);
/* Build a memory in the caller's buffer (any alignment). NULL if d is wrong or bytes too few. */
MIRAS_API miras_memory *miras_memory_init(void *buffer, size_t bytes, const miras_desc *d);
/* The same with one allocation (allocator NULL: MIRAS_MALLOC). NULL if d is wrong or it fails. */
MIRAS_API miras_memory *miras_memory_open(const miras_desc *d, const miras_allocator *allocator);
/* Of miras_memory_open only; NULL is fine. */
MIRAS_API void miras_memory_close(miras_memory *m);
/* The descriptor in use, every default filled in. */
MIRAS_API const miras_desc *miras_memory_desc(const miras_memory *m);

/* Learn one pair per sequence and head with the constant gates. key [batch, heads, key_dim], value
 * [batch, heads, value_dim]; with descents > 1 a token's pairs, key [batch, heads, descents,
 * key_dim] and value likewise. Returns the surprise: the attentional bias before the write (before
 * the first of the descents), averaged over batch and heads; with normalise of the answer before it
 * is divided, and where the chunk is part of the model at the chunk's start. Needs constant gates,
 * no value_gate and no separate_erase, which take tokens (else NaN, nothing written). */
MIRAS_API float miras_write(miras_memory *m, const float *key, const float *value);
/* out [batch, heads, value_dim] = M(W; query); the memory does not change. */
MIRAS_API void miras_read(miras_memory *m, const float *query, float *out);
/* miras_write and miras_read in one pass (the last bits may differ from the two calls'). Here and
 * in miras_forward what is written must not overlap what is read. */
MIRAS_API float miras_step(miras_memory *m, const float *key, const float *value,
                           const float *query, float *out);
/* Run T tokens: each is written, then read. y [batch, T, heads, value_dim] is overwritten. Key,
 * value, query, y and what the descriptor asks for must be there when T > 0.
 * tape: NULL, or miras_tape_size(m, T) floats that miras_backward will need (states, and room to
 * work in); taping needs a position on the chunk grid (MIRAS_ERR_STATE otherwise). Any split of a
 * sequence into calls gives the same bits. */
MIRAS_API miras_result miras_forward(miras_memory *m, const miras_tokens *x, float *y, float *tape);
#ifndef MIRAS_NO_TRAINING
/* Floats of a tape for T tokens; 0 if they do not fit into memory's addresses. */
MIRAS_API size_t miras_tape_size(const miras_memory *m, int length);
/* Exact gradient of what miras_forward computed. x and tape as in that call; dy like y.
 * dx: overwritten, not NULL itself. dparams: += in the layout of miras_memory_params, or NULL;
 * receives the initial memory's part where a memory begins, at position 0 and at its resets, and
 * with MIRAS_TOWARD_INITIAL at every position.
 * dstate: NULL, or [batch, heads, 1 or 2 (A, then momentum), weights], A being the weights
 * themselves where the state keeps these (f-divergences, Memora's paper form): in, the gradient
 * with respect to the state after the last token, which must lie on the chunk grid or all of it be
 * 0; out, with respect to the state before the first (zero if that was the initial memory, and of
 * heads that started anew in between). Per sequence and head it is for least squares H [features,
 * features], made symmetric, then G [features, value_dim]; for a KV cache the keys [window,
 * key_dim], then the values [window, value_dim], token t in row t % window (rows that hold no token
 * are 0). miras_memory_part has the names of all of it. */
MIRAS_API miras_result miras_backward(miras_memory *m, const miras_tokens *x, float *tape,
                                      const float *dy, const miras_token_grads *dx,
                                      float *dparams, float *dstate);
/* Floats of dstate above. */
MIRAS_API size_t miras_dstate_size(const miras_memory *m);
#endif
/* The outer parameters: initial memory [heads, weights], then (inner_norm) gain [heads, value_dim]
 * and bias [heads, value_dim], then (row_rates) rho [chunk]. The weights are the layers [in, out],
 * one after the other, with inner_bias each followed by its bias [out]; a gated perceptron has W_1,
 * W_2, W_3, a vector memory w [key_dim]. Least squares: the initial G [heads, features, value_dim]
 * (H begins at 0), then raw [heads, features] with lambda = log(1 + exp(raw)), which no optimizer
 * can make negative. KV cache: none, count is 0. With normalise the initial sum of phi(k)
 * [features] follows each head's S, here and in dstate. Where there is a link these are the A that
 * it maps; of f-divergences and of KL they are logits. At first matrices and vectors without a link
 * are 0, and all else is random, perceptrons with variance 1/in. A change of the initial memory
 * holds from the next miras_memory_reset on (as what MIRAS_TOWARD_INITIAL leads to at once), of the
 * others at once. */
MIRAS_API float *miras_memory_params(miras_memory *m, size_t *count);
/* Forget everything: back to the initial memory. */
MIRAS_API void miras_memory_reset(miras_memory *m);
/* Tokens seen since the reset. */
MIRAS_API uint64_t miras_memory_position(const miras_memory *m);
/* Euclidean norm of the weights over all sequences and heads (with normalise, of its sums too). In
 * an open chunk: of the live weights where a memory runs exactly, else of those at its start.
 * Least squares: of G at the chunk's start. KV cache: of all keys and values held. A head that
 * starts anew with the next token counts with what it holds until then. */
MIRAS_API float miras_memory_norm(const miras_memory *m);
/* Part i of a memory, from 0 on, and what kind it is; MIRAS_PART_NONE past the end. Parts of
 * the state, of one sequence and head, with their offset in its part of dstate; where a memory has
 * several layers there are W1, W2, ... :
 *   W1 [in, out], b1 [out]   weights of a layer and its inner bias; of a vector memory W1 [key_dim]
 *   A1                       where there is a link W = link(A): what decays and descends. W1 then
 *                            follows from it and cannot be set; in an open chunk it is that of the
 *                            chunk's start
 *   z [features]             with normalise: the sum of phi(k)
 *   momentum.W1, ...         the last update, of the same shapes
 *   H [features, features], G [features, value_dim]   of least squares, H symmetric
 *   keys [window, key_dim], values [window, value_dim]   of a KV cache: token t in row t % window
 * Outer parameters, with their offset in miras_memory_params, of the first head: init.W1, ...
 * (init.A1, init.G), gain, bias, ridge, rates. */
MIRAS_API miras_part miras_memory_part(const miras_memory *m, int i, miras_view *part);
/* Read or set the part of that name of one sequence and head, in its shape. What is read is what
 * the memory has come to at this position, what is set what the next token sees; a part that is set
 * to what it is changes no bit. Inside a chunk that is part of the model a set moves the anchor of
 * its gradients here; of f-divergences what is read there are the weights that the chunk would
 * close to. A head that starts anew with the next token forgets what was set. At position 0 there
 * are only outer parameters to set: MIRAS_ERR_STATE. Other refusals are MIRAS_ERR_ARGUMENT; why as
 * in miras_memory_size. */
MIRAS_API miras_result miras_memory_get(const miras_memory *m, int sequence, int head,
                                        const char *name, float *to, char *why, size_t why_size);
MIRAS_API miras_result miras_memory_set(miras_memory *m, int sequence, int head, const char *name,
                                        const float *from, char *why, size_t why_size);
/* Go to another position, in chunks, resets and rows of a KV cache, with the memory as it is: a new
 * one that is moved on from 0 can be set. To 0: as miras_memory_reset. */
MIRAS_API void miras_memory_move(miras_memory *m, uint64_t position);
/* The state as one flat block without pointers: copy it out for a snapshot, back in for a
 * rollback. All zeros is the state after a reset. */
MIRAS_API void *miras_memory_state(miras_memory *m, size_t *bytes);

#ifndef MIRAS_NO_MODEL
/* ---- a language model ---- */

/* As the calls of one memory. */
MIRAS_API size_t miras_model_size(const miras_model_desc *d, char *why, size_t why_size);
MIRAS_API miras_model *miras_model_init(void *buffer, size_t bytes, const miras_model_desc *d);
MIRAS_API miras_model *miras_model_open(const miras_model_desc *d,
                                        const miras_allocator *allocator);
MIRAS_API void miras_model_close(miras_model *m);
MIRAS_API const miras_model_desc *miras_model_desc_of(const miras_model *m);
/* All parameters in one block. count is the block's floats: between the views lie zeros that must
 * stay so; what is learned is the sum of the views' counts. NULL and 0 of a model whose weights are
 * not float; places of views mean nothing then. */
MIRAS_API float *miras_model_params(miras_model *m, size_t *count);
MIRAS_API const miras_view *miras_model_views(const miras_model *m, int *count);

#ifndef MIRAS_NO_TRAINING
/* ---- training a model ---- */

/* A trainer holds what only training needs: gradients, what the backward pass wants to know of the
 * forward one, the optimizer's moments, running texts. It changes the parameters of its model,
 * which must outlive it. As the calls of one memory; 0 or NULL also where m is NULL. */
MIRAS_API size_t miras_trainer_size(const miras_model *m, const miras_trainer_desc *d, char *why,
                                    size_t why_size);
MIRAS_API miras_trainer *miras_trainer_init(void *buffer, size_t bytes, miras_model *m,
                                            const miras_trainer_desc *d);
MIRAS_API miras_trainer *miras_trainer_open(miras_model *m, const miras_trainer_desc *d,
                                            const miras_allocator *allocator);
MIRAS_API void miras_trainer_close(miras_trainer *t);
MIRAS_API const miras_trainer_desc *miras_trainer_desc_of(const miras_trainer *t);
/* Mean cross entropy in nats of targets [batch, T] given tokens [batch, T]; a target of -1 is left
 * out, and the mean of none is 0. train 1 applies dropout and keeps what miras_trainer_backward
 * needs. NaN if an argument is out of range. T may be any length up to context; sequences start
 * from the initial memory. */
MIRAS_API float miras_trainer_loss(miras_trainer *t, const int32_t *tokens, const int32_t *targets,
                                   int batch, int length, int train);
/* The same with train 1 on running texts (truncated back-propagation): row b goes on where stream
 * stream[b] stood, memories and convolutions both, and leaves it at the window's end; gradients
 * stop at its start, but reach what every window shares, the initial memory too where decays lead
 * to it. stream[b] is one of desc.streams, no two alike, or -1 for a window of its own; fresh[b]
 * not 0 starts the stream anew. fresh NULL: none is. length must be a multiple of memory.chunk.
 * Streams are part of a saved trainer. */
MIRAS_API float miras_trainer_loss_streams(miras_trainer *t, const int32_t *tokens,
                                           const int32_t *targets, int batch, int length,
                                           const int32_t *stream, const unsigned char *fresh);
/* Add the gradient of the last miras_trainer_loss with train 1 (or miras_trainer_loss_streams) to
 * miras_trainer_grads. Once per such call, and before any other: MIRAS_ERR_STATE otherwise. */
MIRAS_API miras_result miras_trainer_backward(miras_trainer *t);
/* From now on steps of trainers of m change only parameters whose names match one of the patterns:
 * separated by commas, and * stands for any characters, so "*memory.init,*gates.*" tunes what
 * memories begin with and their gates. NULL: all parameters again. Returns how many floats those
 * are; 0, and nothing changes, if a pattern matches no name. Neither norms nor clipping know of the
 * gradients of the others, which a step clears; their moments stay. Files do not keep it. */
MIRAS_API size_t miras_model_train_only(miras_model *m, const char *patterns);

/* The gradients, in the layout of miras_model_params. */
MIRAS_API float *miras_trainer_grads(miras_trainer *t);
/* Clip, one AdamW step (Loshchilov 2019) on all parameters, then set the gradients to zero. o NULL:
 * the defaults, no decay, no clipping. Returns the gradient norm before clipping; if that is not
 * finite only the gradients change, and no step is counted. */
MIRAS_API float miras_trainer_step(miras_trainer *t, const miras_adamw_options *o,
                                   float learning_rate);
/* Steps taken so far; part of a saved trainer. */
MIRAS_API uint64_t miras_trainer_steps(const miras_trainer *t);
/* Learning rate at step (0-based): linear warm-up to peak, then a cosine down to floor * peak. */
MIRAS_API float miras_cosine(uint64_t step, uint64_t warmup, uint64_t steps, float peak,
                             float floor);
#endif

/* ---- sessions: one sequence, token by token ---- */

/* 0 if it does not fit into memory's addresses. */
MIRAS_API size_t miras_session_size(const miras_model *m);
MIRAS_API miras_session *miras_session_init(void *buffer, size_t bytes, const miras_model *m);
MIRAS_API miras_session *miras_session_open(const miras_model *m, const miras_allocator *allocator);
MIRAS_API void miras_session_close(miras_session *s);
/* Feed one token; logits [vocab] for the next, valid until the next call. NULL if out of range. */
MIRAS_API const float *miras_session_step(miras_session *s, int32_t token);
/* Feed count tokens, many at a time; logits after the last; NULL for none. */
MIRAS_API const float *miras_session_prefill(miras_session *s, const int32_t *tokens, size_t count);
/* Feed count tokens and return the summed cross entropy in nats of targets [count], -1 left out;
 * NaN if a token or target is out of range. */
MIRAS_API double miras_session_score(miras_session *s, const int32_t *tokens,
                                     const int32_t *targets, size_t count);
MIRAS_API void miras_session_reset(miras_session *s);
MIRAS_API uint64_t miras_session_position(const miras_session *s);
/* As the calls of a memory, for a layer's: its heads, or of attention its heads of keys and values
 * (keys turned by their positions). A layer of type mag has the memory's first, whose parts are
 * told, then those of attention, with parts `keys` and `values`. Outer parameters are those of the
 * model. An MLP layer has no parts. */
MIRAS_API miras_part miras_session_part(const miras_session *s, int layer, int i,
                                        miras_view *part);
MIRAS_API miras_result miras_session_get(const miras_session *s, int layer, int head,
                                         const char *name, float *to, char *why, size_t why_size);
MIRAS_API miras_result miras_session_set(miras_session *s, int layer, int head, const char *name,
                                         const float *from, char *why, size_t why_size);
/* Flat, without pointers, as miras_memory_state. */
MIRAS_API void *miras_session_state(miras_session *s, size_t *bytes);

/* ---- serving: many sequences at a time ---- */

/* Bytes of a sequence's state, which are all that a running text needs between calls, however long
 * it is. The first eight are its position, a uint64_t. */
MIRAS_API size_t miras_model_state_size(const miras_model *m);
/* A server holds what calls work in and no text: its bytes depend on rows and workers alone. */
MIRAS_API size_t miras_server_size(const miras_model *m, const miras_server_desc *d, char *why,
                                   size_t why_size);
MIRAS_API miras_server *miras_server_init(void *buffer, size_t bytes, const miras_model *m,
                                          const miras_server_desc *d);
MIRAS_API miras_server *miras_server_open(const miras_model *m, const miras_server_desc *d,
                                          const miras_allocator *allocator);
MIRAS_API void miras_server_close(miras_server *s);
MIRAS_API const miras_server_desc *miras_server_desc_of(const miras_server *s);
/* Feed `count` texts, each any number of tokens, and leave their states behind them: one token of
 * each is a step of all, many of one a prefill, or a piece of it. Bits are those of a session that
 * has the text to itself. logits [.., vocab] receives the rows that were asked for, in the order of
 * texts, and tokens within a text; NULL where there are none. MIRAS_ERR_ARGUMENT, and nothing has
 * changed, if a token is out of range, a pointer missing or a state there twice. */
MIRAS_API miras_result miras_server_feed(miras_server *s, const miras_text *texts, size_t count,
                                         float *logits);
/* Draw a token from logits [vocab]; -1 if an argument is out of range. */
MIRAS_API int32_t miras_sample(const float *logits, int vocab, miras_sampling *sampling);
#endif

#ifndef MIRAS_NO_FILES
/* ---- files ----
 * A model is a safetensors file: little-endian f32 tensors named as the views, the descriptor in
 * __metadata__. Matrices of one whose weights are not float are stored as they are held; either is
 * loaded into models of any weights, and rounded where these are shorter. A trainer's is that of
 * its model with AdamW's moments and steps and running texts beside, so that training goes on to
 * the bit. Each can be loaded from the other's: a model takes the parameters alone; a trainer that
 * finds nothing more begins anew, and one with another number of streams begins those anew. A
 * memory's parameters and state, or a session's state (not its model), are a block of their own
 * with a checksum. Loading validates everything before it writes anything, and takes a file only if
 * the descriptors agree, in every constant and in the chunk, or it says MIRAS_ERR_MISMATCH; seed,
 * dropout and memory.reset_every of a model and the seed of a memory may differ. Callbacks are not
 * in files. The *_to and *_from forms work on memory; *_to returns the bytes needed and writes only
 * when capacity suffices (0: more than size_t). */
#ifndef MIRAS_NO_MODEL
MIRAS_API size_t miras_model_save_to(const miras_model *m, void *buffer, size_t capacity);
MIRAS_API miras_result miras_model_load_from(miras_model *m, const void *bytes, size_t size);
/* Read the descriptor of a saved model; limit stays as it is in d, memory.custom becomes NULL. */
MIRAS_API miras_result miras_model_desc_from(miras_model_desc *d, const void *bytes, size_t size);
/* Set one field of d by its name in files, such as "memory.step" or "dropout", to what value says:
 * a number, or of an enum the word in files, such as "l2". A layer's field is that of layer[0] or,
 * with a letter and a dot before it, of the kind with this letter: "w.window". Whether the whole
 * means something is asked later, by miras_model_size. Names of older versions are taken too.
 * MIRAS_ERR_ARGUMENT if there is no such field, word or letter. */
MIRAS_API miras_result miras_model_desc_set(miras_model_desc *d, const char *field,
                                            const char *value);
/* The value of that field as miras_model_desc_set takes it, so that a descriptor can be printed and
 * compared: into text, which is returned; MIRAS_PATTERN characters hold every value, and 32 all but
 * "pattern". NULL if it does not fit or there is no such field. A number that an enum has no word
 * for comes as it is. */
MIRAS_API const char *miras_model_desc_get(const miras_model_desc *d, const char *field,
                                           char *text, size_t size);
/* The names of all fields of files, from 0 on, layers' without a letter; NULL past the end. */
MIRAS_API const char *miras_model_desc_field(int i);
/* Do two models differ in a field of files, one that parameters or states depend on before others?
 * Then 1 and a sentence in why, as miras_memory_size: what miras_model_desc_from says of a file
 * that gave MIRAS_ERR_MISMATCH, beside miras_model_desc_of. */
MIRAS_API int miras_model_desc_differs(const miras_model_desc *a, const miras_model_desc *b,
                                       char *why, size_t why_size);
MIRAS_API size_t miras_session_save_to(const miras_session *s, void *buffer, size_t capacity);
MIRAS_API miras_result miras_session_load_from(miras_session *s, const void *bytes, size_t size);
#endif
#ifndef MIRAS__NO_TRAINER
MIRAS_API size_t miras_trainer_save_to(const miras_trainer *t, void *buffer, size_t capacity);
MIRAS_API miras_result miras_trainer_load_from(miras_trainer *t, const void *bytes, size_t size);
#endif
MIRAS_API size_t miras_memory_save_to(const miras_memory *m, void *buffer, size_t capacity);
MIRAS_API miras_result miras_memory_load_from(miras_memory *m, const void *bytes, size_t size);
#ifndef MIRAS_NO_STDIO
/* Saving writes a new file beside path, path.tmp- and eight letters, and renames it: path is always
 * the old file or the whole new one, however many save to it (on Windows it is missing between two
 * steps). A link at path is replaced, not followed. A killed save leaves its new file behind. Where
 * long has 32 bits, as on Windows, files from 2 GiB on are loaded by the *_from forms only. */
MIRAS_API miras_result miras_memory_save(const miras_memory *m, const char *path);
MIRAS_API miras_result miras_memory_load(miras_memory *m, const char *path);
#ifndef MIRAS_NO_MODEL
MIRAS_API miras_result miras_model_save(const miras_model *m, const char *path);
MIRAS_API miras_result miras_model_load(miras_model *m, const char *path);
/* Open the model that path describes, with limit, weights and memory.custom of given (may be NULL:
 * no limit, floats, no callbacks), and its memory.reset_every where that is not 0: a model that
 * does not last as it was trained can be given resets. A few kilobytes can describe a model whose
 * sessions take gigabytes: set a limit for files from others. What is beyond it is MIRAS_ERR_SIZE
 * before it is allocated; result may be NULL. */
MIRAS_API miras_model *miras_model_open_file(const char *path, const miras_model_desc *given,
                                             const miras_allocator *allocator,
                                             miras_result *result);
MIRAS_API miras_result miras_session_save(const miras_session *s, const char *path);
MIRAS_API miras_result miras_session_load(miras_session *s, const char *path);
/* Other people's models, as they publish them: a folder with config.json and model.safetensors, or
 * shards of it with model.safetensors.index.json; or the path of one file of tensors. Describe it
 * in d, of which limit and weights stay as they are: set them before. What a field or a tensor
 * needs and layers here cannot do is refused by its name in why, as in miras_memory_size. */
MIRAS_API miras_result miras_checkpoint_desc(miras_model_desc *d, const char *path,
                                             const miras_allocator *allocator, char *why,
                                             size_t why_size);
/* Load its tensors into a model of that descriptor; only windows of attention may differ. All is
 * checked first, and then read piece by piece: when a disk fails meanwhile, m is a mixture. */
MIRAS_API miras_result miras_checkpoint_load(miras_model *m, const char *path, char *why,
                                             size_t why_size);
#endif
#ifndef MIRAS__NO_TRAINER
MIRAS_API miras_result miras_trainer_save(const miras_trainer *t, const char *path);
MIRAS_API miras_result miras_trainer_load(miras_trainer *t, const char *path);
#endif
#endif
#endif

#ifdef MIRAS_PTHREADS
/* A small thread pool (POSIX threads). threads 1..256 counts the calling thread. NULL on failure.
 * The pool is the caller's; miras_pool_parallel is valid until the pool is closed. */
typedef struct miras_pool miras_pool;
MIRAS_API miras_pool *miras_pool_open(int threads, const miras_allocator *allocator);
MIRAS_API const miras_parallel *miras_pool_parallel(const miras_pool *pool);
MIRAS_API void miras_pool_close(miras_pool *pool);
#endif

#ifdef __cplusplus
}
#endif
#endif /* MIRAS_H */
#if defined(MIRAS_IMPLEMENTATION) && !defined(MIRAS__ISA) && !defined(MIRAS__IMPLEMENTED)
/* @10 PLATFORM --------------------------------------------------------------------- needs 05 -- */

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#ifndef MIRAS_NO_STDIO
  #include <stdio.h>
  #include <time.h>
#endif
#ifndef MIRAS_ASSERT
  #include <assert.h>
  #define MIRAS_ASSERT(x) assert(x)
#endif

#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || defined(_M_FP_FAST)
  #error "miras.h relies on NaN, infinities and the order of additions: no -ffast-math, please"
#endif
#if FLT_RADIX != 2 || FLT_MANT_DIG != 24 || FLT_MAX_EXP != 128
  #error "miras.h needs float to be the 32-bit IEEE type"
#endif

#if defined(MIRAS_MALLOC) != defined(MIRAS_FREE)
  #error "define both of MIRAS_MALLOC and MIRAS_FREE, or neither"
#endif
#ifndef MIRAS_MALLOC
  #define MIRAS_MALLOC(bytes) malloc(bytes)
  #define MIRAS_FREE(pointer) free(pointer)
#endif

#if defined(__GNUC__)
  #define MIRAS__UNUSED __attribute__((unused))
  #define MIRAS__COLD __attribute__((cold))   /* optimise for size: it runs once, or seldom */
  #define MIRAS__CALLED __attribute__((noinline))   /* not in the midst of what calls it */
  #define MIRAS__ALWAYS static inline __attribute__((always_inline, unused))
  #ifdef __OPTIMIZE_SIZE__
    #define MIRAS__INLINE static MIRAS__UNUSED
  #else
    #define MIRAS__INLINE static inline __attribute__((always_inline, unused))
  #endif
#else
  #define MIRAS__UNUSED
  #define MIRAS__COLD
  #define MIRAS__CALLED
  #define MIRAS__ALWAYS static inline
  #define MIRAS__INLINE static inline
#endif

/* What the host and a device both call. */
#ifdef __CUDACC__
  #define MIRAS__BOTH __host__ __device__
#else
  #define MIRAS__BOTH
#endif

#if defined(__GNUC__) || defined(_MSC_VER)
  #define MIRAS__RESTRICT __restrict
#elif defined(__cplusplus)
  #define MIRAS__RESTRICT
#else
  #define MIRAS__RESTRICT restrict
#endif

/* Unroll the next loop fully: its trip count is a constant and its arrays should be registers. */
#if defined(__clang__)
  #define MIRAS__UNROLL _Pragma("clang loop unroll(full)")
#elif defined(__GNUC__) && __GNUC__ >= 8
  #define MIRAS__UNROLL _Pragma("GCC unroll 16")
#else
  #define MIRAS__UNROLL
#endif

/* Unroll the next loop by 4, where size does not matter: an engine's scratch has 44 arrays, whose
 * addresses were 311 instructions of a write and are 185. */
#if defined(__GNUC__) && __GNUC__ >= 8 && !defined(__clang__) && !defined(__OPTIMIZE_SIZE__)
  #define MIRAS__UNROLL4 _Pragma("GCC unroll 4")
#else
  #define MIRAS__UNROLL4
#endif

/* nvcc's front end warns of pragmas for the host's compiler and of what assembly leaves unused. */
#ifdef __CUDACC__
  #pragma nv_diagnostic push
  #pragma nv_diag_suppress 1675
  #pragma nv_diag_suppress 550
#endif

/* a * b + c rounds twice unless V_FMA says otherwise. Left to itself the compiler may fuse, and
 * then bits depend on its version, its -std and its flags. Pinned from here to room 99. */
#if defined(__clang__)
  #pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
  #pragma GCC push_options
  #pragma GCC optimize("fp-contract=off")
#elif defined(_MSC_VER)
  #pragma fp_contract(off)
#endif

/* Which instruction sets to build. Decided here and nowhere else: inside a target region compilers
 * disagree on whether __AVX2__ and its like are defined. Compilers that are not of the GNU family
 * take the portable set. */
#if !defined(MIRAS_NO_SIMD) && !defined(MIRAS_NO_SELF_INCLUDE) && defined(__GNUC__) && \
    !defined(__TINYC__)
  #if defined(__x86_64__)
    #define MIRAS__X86 1
  #elif defined(__aarch64__) && defined(__LITTLE_ENDIAN__) || \
      defined(__aarch64__) && defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    #define MIRAS__NEON 1
  #endif
#endif
#ifndef MIRAS__X86
  #define MIRAS__X86 0
#endif
#ifndef MIRAS__NEON
  #define MIRAS__NEON 0
#endif
#if MIRAS__X86
  #include <cpuid.h>
  #include <immintrin.h>
#endif
#if MIRAS__NEON
  #include <arm_neon.h>
#endif

/* What a build leaves out (room @02) is NULL in the tables of functions, and as nothing else refers
 * to it, compilers drop it without an #if in the text. Then they need not warn of it. */
#define MIRAS__ANY(f) f
#ifndef MIRAS_NO_TRAINING
  #define MIRAS__BACK(f) f
  #define MIRAS__TRAINS 1
#else
  #define MIRAS__BACK(f) NULL
  #define MIRAS__TRAINS 0
#endif

/* Tasks of layers are compiled for a device as well (room @20), where a block of threads runs each.
 * There functions that only the host has are NULL in tables; a thread works on the numbers THREAD,
 * THREAD + THREADS, ..., then all MEET; and what has one value thread 0 stores. */
#define MIRAS__HOST(f) f
#define MIRAS__THREAD 0
#define MIRAS__THREADS 1
#define MIRAS__MEET() ((void)0)
#ifdef MIRAS_NO_EXACT
  #define MIRAS__EXACT(f) NULL
#else
  #define MIRAS__EXACT(f) f
#endif
#ifdef MIRAS_NO_FROZEN
  #define MIRAS__FROZEN(f) NULL
#else
  #define MIRAS__FROZEN(f) f
#endif
#ifdef MIRAS_NO_MESA
  #define MIRAS__MESA(f) NULL
#else
  #define MIRAS__MESA(f) f
#endif
#ifdef MIRAS_NO_ATTENTION
  #define MIRAS__PAIRS(f) NULL
#else
  #define MIRAS__PAIRS(f) f
#endif
#ifdef MIRAS_NO_MODEL
  #define MIRAS__LAYER(f) NULL
#else
  #define MIRAS__LAYER(f) f
#endif
#if defined(MIRAS_NO_FROZEN) && defined(MIRAS_NO_MESA)
  #define MIRAS__CURVED(f) NULL          /* called by either */
#else
  #define MIRAS__CURVED(f) f
#endif
#define MIRAS__EXACT_BACK(f) MIRAS__EXACT(MIRAS__BACK(f))
#define MIRAS__FROZEN_BACK(f) MIRAS__FROZEN(MIRAS__BACK(f))
#define MIRAS__MESA_BACK(f) MIRAS__MESA(MIRAS__BACK(f))
#define MIRAS__PAIRS_BACK(f) MIRAS__PAIRS(MIRAS__BACK(f))
#define MIRAS__LAYER_BACK(f) MIRAS__LAYER(MIRAS__BACK(f))
#if defined(MIRAS_NO_TRAINING) || defined(MIRAS_NO_EXACT) || defined(MIRAS_NO_FROZEN) || \
    defined(MIRAS_NO_MESA) || defined(MIRAS_NO_ATTENTION) || defined(MIRAS_NO_MODEL) || \
    defined(MIRAS_NO_FILES)
  #define MIRAS__PARTIAL
#endif
#if defined(MIRAS__PARTIAL) && defined(__GNUC__)
  #pragma GCC diagnostic push
  #pragma GCC diagnostic ignored "-Wunused-function"
  #pragma GCC diagnostic ignored "-Wunused-const-variable"
#endif

/* Floats of scratch that a matrix product may need: a packed block of B and one of A. */
#define MIRAS__PACK 16384

/* Product and sum of sizes; 0 when the result does not fit. */
static MIRAS__UNUSED int miras__size_mul(size_t a, size_t b, size_t *out) {
  if (b != 0 && a > (size_t)-1 / b) return 0;
  *out = a * b;
  return 1;
}

static MIRAS__UNUSED int miras__size_add(size_t a, size_t b, size_t *out) {
  if (a > (size_t)-1 - b) return 0;
  *out = a + b;
  return 1;
}

/* strcmp of small machines is made for speed and takes 700 bytes. */
static int miras__same(const char *a, const char *b) {
  while (*a && *a == *b) a++, b++;
  return *a == *b;
}

/* Append n characters; `at` counts on past the end, so that truncation needs no special case. */
static size_t miras__put(char *out, size_t size, size_t at, const char *text, size_t n) {
  size_t i;
  for (i = 0; i < n; i++)
    if (at + i + 1 < size) out[at + i] = text[i];
  return at + n;
}

/* Digits of v, at least `width` of them. */
static MIRAS__COLD size_t miras__put_digits(char *out, size_t size, size_t at, uint64_t v,
                                            int width) {
  char digits[24];
  int n = 0;
  do {
    digits[23 - n++] = (char)('0' + (int)(v % 10));
    v /= 10;
  } while (v != 0 || n < width);
  return miras__put(out, size, at, digits + 24 - n, (size_t)n);
}

/* `count` significant digits, trailing zeros dropped, and an exponent below 10^low and from 10^high
 * on: 6 of them between -4 and 6 is how %g writes numbers. */
static MIRAS__COLD size_t miras__put_real(char *out, size_t size, size_t at, double v, int count,
                                          int low, int high) {
  uint64_t digits, unit = 1;
  int exponent = 0, shift, i;
  if (v != v) return miras__put(out, size, at, "nan", 3);
  if (v < 0) {
    at = miras__put(out, size, at, "-", 1);
    v = -v;
  }
  if (v > DBL_MAX) return miras__put(out, size, at, "inf", 3);
  if (v <= 0) return miras__put(out, size, at, "0", 1);
  for (; v >= 10; exponent++) v /= 10;
  for (; v < 1; exponent--) v *= 10;
  for (i = 1; i < count; i++, unit *= 10) v *= 10;
  digits = (uint64_t)(v + 0.5);
  if (digits >= 10 * unit) {
    digits = unit;
    exponent++;
  }
  shift = exponent >= low && exponent < high ? exponent : 0;
  if (shift < 0) at = miras__put(out, size, at, "0.0000", (size_t)(1 - shift));
  for (i = 0; digits != 0 || i <= shift; i++) {
    if (i > 0 && i == shift + 1) at = miras__put(out, size, at, ".", 1);
    at = miras__put_digits(out, size, at, digits / unit, 1);
    digits %= unit;
    unit = unit > 1 ? unit / 10 : 1;
  }
  if (shift != exponent) {
    at = miras__put(out, size, at, exponent < 0 ? "e-" : "e+", 2);
    at = miras__put_digits(out, size, at, (uint64_t)(exponent < 0 ? -exponent : exponent), 2);
  }
  return at;
}

/* Append to the sentence in why[size]: %s, %d, %zu, %g and %% of printf, without stdio and without
 * the locale. Always terminated; why may be NULL. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4), unused))
#endif
static MIRAS__COLD void miras__say(char *why, size_t size, const char *format, ...) {
  size_t at;
  va_list list;
  if (why == NULL || size == 0) return;
  at = strlen(why);
  va_start(list, format);
  for (; *format != 0; format++) {
    if (*format != '%') {
      at = miras__put(why, size, at, format, 1);
      continue;
    }
    format++;
    if (*format == 's') {
      const char *text = va_arg(list, const char *);
      at = miras__put(why, size, at, text, strlen(text));
    } else if (*format == 'd') {
      int v = va_arg(list, int);
      if (v < 0) at = miras__put(why, size, at, "-", 1);
      at = miras__put_digits(why, size, at, v < 0 ? 0u - (unsigned)v : (unsigned)v, 1);
    } else if (*format == 'z') {
      at = miras__put_digits(why, size, at, va_arg(list, size_t), 1);
      format++;
    } else if (*format == 'g') {
      at = miras__put_real(why, size, at, va_arg(list, double), 6, -4, 6);
    } else {
      at = miras__put(why, size, at, format, 1);
    }
  }
  va_end(list);
  why[at < size ? at : size - 1] = 0;
}

/* @11 RANDOM NUMBERS --------------------------------------------------------------- needs 10 -- */

/* The finaliser of splitmix64 (Steele, Lea and Flood 2014): a bijection that mixes all 64 bits. */
static MIRAS__UNUSED MIRAS__BOTH uint64_t miras__hash(uint64_t x) {
  x += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

/* Number i of stream `seed`, uniform in (-1, 1) on the odd multiples of 2^-24: exact in float and
 * never zero. Counter based, so any thread can draw any element. */
static MIRAS__UNUSED float miras__uniform(uint64_t seed, uint64_t i) {
  int32_t bits = (int32_t)(miras__hash(miras__hash(seed) + i) >> 40);   /* 24 bits */
  return (float)(2 * bits + 1 - (1 << 24)) * (1.0f / (1 << 24));
}

/* @12 CPU DETECTION ---------------------------------------------------------------- needs 10 -- */

/* Bits of miras__cpu. Asking the processor directly keeps the library free of compiler run-time
 * helpers, and xgetbv tells what those helpers have at times forgotten: whether the operating
 * system saves the wide registers. */
enum { MIRAS__HAS_AVX2 = 1, MIRAS__HAS_AVX512 = 2 };

static MIRAS__UNUSED int miras__cpu(void) {
  int has = 0;
#if MIRAS__X86
  unsigned a, b, c, d, low, high;
  const unsigned avx512 = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;   /* f, dq, bw, vl */
  if (__get_cpuid_max(0, NULL) < 7) return 0;
  __cpuid(1, a, b, c, d);
  if (!(c & 1u << 12) || !(c & 1u << 27) || !(c & 1u << 28)) return 0;   /* fma, osxsave, avx */
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if ((low & 0x06u) != 0x06u) return 0;
  __cpuid_count(7, 0, a, b, c, d);
  if (b & 1u << 5) {
    has = MIRAS__HAS_AVX2;
    if ((b & avx512) == avx512 && (low & 0xe6u) == 0xe6u) has |= MIRAS__HAS_AVX512;
  }
#endif
  return has;
}

/* @13 ARENA ------------------------------------------------------------------------ needs 10 -- */

/* One pass of takes lays a block out: with base NULL it only measures, with base set it hands the
 * addresses out. Both passes run the same code, so they cannot disagree. base must be aligned to
 * 64 bytes. ok turns 0 when a size does not fit in size_t. */
typedef struct miras__arena {
  unsigned char *base;
  size_t used;
  int ok;
  struct miras__arena *records;    /* where base is a device's memory: what the host reads        */
} miras__arena;

#define MIRAS__SLACK 63    /* bytes that a buffer of any alignment may lose                       */

/* buffer NULL: to measure; else any alignment will do. */
static miras__arena miras__arena_on(void *buffer) {
  miras__arena a;
  a.base = buffer ? (unsigned char *)buffer + (64 - (uintptr_t)buffer % 64) % 64 : NULL;
  a.used = 0;
  a.ok = 1;
  a.records = NULL;
  return a;
}

/* Bytes of a buffer for all that was measured; 0 and a sentence if this machine has not so many. */
static size_t miras__arena_bytes(const miras__arena *a, const char *what, char *why, size_t n) {
  size_t bytes = 0;
  if (a->ok && miras__size_add(a->used, MIRAS__SLACK, &bytes)) return bytes;
  return miras__say(why, n, "the %s is larger than this machine can address", what), 0;
}

/* count elements, starting on a 64-byte boundary. NULL while measuring. */
static MIRAS__UNUSED void *miras__take(miras__arena *a, size_t count, size_t element) {
  const size_t at = a->used + (64 - a->used % 64) % 64;
  size_t bytes;
  if (at < a->used || !miras__size_mul(count, element, &bytes) ||
      !miras__size_add(at, bytes, &a->used))
    a->ok = 0;
  return a->base != NULL && a->ok ? a->base + at : NULL;
}

/* *total += n0 n1, or all ones where that is too large. */
static MIRAS__UNUSED void miras__grow(size_t *total, size_t n0, size_t n1) {
  size_t n = 0;
  if (!miras__size_mul(n0, n1, &n) || !miras__size_add(*total, n, total)) *total = (size_t)-1;
}

static MIRAS__UNUSED void *miras__take_records(miras__arena *a, size_t count, size_t element) {
  return miras__take(a->records ? a->records : a, count, element);
}

static float *miras__floats(miras__arena *a, size_t rows, size_t ld) {
  size_t n = 0;
  if (!miras__size_mul(rows, ld, &n)) a->ok = 0;
  return (float *)miras__take(a, n, sizeof(float));
}

/* @14 FIELDS ----------------------------------------------------------------------- needs 10 -- */

/* A row of the first table says all that is to be known of one field of miras_desc or
 * miras_model_desc, a row of the second what several need of each other. Defaults, refusals, files
 * and values as text are loops over them.
 *
 * Conditions are written in the words of files: "bias lp lp-smooth" holds if bias is one of these,
 * "slopes not ratio" if it is none of them, a name alone if the number is not 0; of several, with
 * commas between, all must hold. They may name facts, numbers that follow from several fields. */

/* A descriptor between zeros and defaults, and the facts. Of a memory on its own all of d but
 * d.memory is 0. */
typedef struct miras__case {
  miras_layer_desc l;      /* first: places in it are places in a layer's descriptor             */
  miras_model_desc d;      /* what the model says of all its layers                              */
  int inside;              /* the memory is a model's                                            */
  int exact, frozen;       /* the memory's engine: exact; or that of frozen gradients            */
  int decays, fades;       /* it has a keep gate, and `forget` describes it                      */
  int deep;                /* a perceptron with activations                                      */
  int by_channel;          /* gates may be one number per channel                                */
  int by_key;              /* the keep gate's channels are the key's                             */
  int square;              /* value_dim is key_dim                                               */
  int called;              /* custom is not NULL                                                 */
  int has_bias, has_link;  /* and both functions of that choice are there                        */
  int grid, off_grid;      /* miras__reset_grid; reset_every is no multiple of it                */
  int beyond;              /* layer is not below layers                                          */
  int loose;               /* those of fixed_gates that are not learned                          */
  int unshared, unjoined;  /* a memory's heads are no multiple of key_heads, of norm_heads       */
  int uneven, ungrouped;   /* attention: head_dim is odd; heads is no multiple of kv_heads       */
  int unturned;            /* rotary_dim is odd or beyond head_dim                               */
  int unequal;             /* a memory and the attention that it gates differ in width           */
} miras__case;

/* WIDE: 64 bits, of which any are right. TEXT: characters, which other rooms judge. */
enum { MIRAS__WORD, MIRAS__WHOLE, MIRAS__REAL, MIRAS__WIDE, MIRAS__TEXT, MIRAS__FACT };
/* What files must agree in: none of them, those of states, all. */
enum { MIRAS__FREE, MIRAS__STATE, MIRAS__SHAPE };
/* Defaults that follow from other fields. */
enum { MIRAS__LIKE_KEY = -1, MIRAS__LIKE_NORM = -2, MIRAS__LIKE_WIDTH = -3, MIRAS__LIKE_MODEL = -4,
       MIRAS__LIKE_HEADS = -5, MIRAS__LIKE_SHARE = -6, MIRAS__LIKE_ROOT = -7 };

typedef struct miras__field {
  const char *name;        /* as in files                                                        */
  uint16_t at, size;       /* in miras__case                                                     */
  unsigned char kind;
  unsigned char since;     /* version of files that brought it, 0: none has it                   */
  unsigned char decides;
  float low, high;
  float normal;            /* what 0 stands for                                                  */
  const char *words;       /* of the numbers from 0 on; of a fact, what is so                    */
  const char *when;        /* where it has a meaning; elsewhere it must be 0                     */
} miras__field;

#define MIRAS__AT(name, member) \
  name, (uint16_t)offsetof(miras__case, member), (uint16_t)sizeof(((miras__case *)0)->member)
#define MIRAS__W(f, since, count, when, words) \
  {MIRAS__AT(#f, l.f), MIRAS__WORD, since, MIRAS__SHAPE, 0, (count) - 1, 0, words, when}
#define MIRAS__N(f, since, low, high, normal, when) \
  {MIRAS__AT(#f, l.f), MIRAS__WHOLE, since, MIRAS__SHAPE, low, high, normal, NULL, when}
#define MIRAS__M(f, since, low, high, normal, when) \
  {MIRAS__AT(#f, d.f), MIRAS__WHOLE, since, MIRAS__SHAPE, low, high, normal, NULL, when}
#define MIRAS__R(f, decides, low, high, normal, when) \
  {MIRAS__AT(#f, l.f), MIRAS__REAL, 2, decides, (float)(low), (float)(high), \
   (float)(normal), NULL, when}
#define MIRAS__F(f, phrase) \
  {MIRAS__AT(#f, f), MIRAS__FACT, 0, MIRAS__FREE, 0, 0, 0, phrase, ""}
#define MIRAS__SIMPLEX "retention kl chi2 reverse-kl hellinger"
#define MIRAS__BOUNDED \
  "bias huber huber-norm huber-mixture pseudo-huber shift-robust log-cosh custom"
/* In the order of files, which hold those of later versions only if one of them is not 0. */
static const miras__field miras__fields[] = {
  {MIRAS__AT("pattern", d.pattern), MIRAS__TEXT, 4, MIRAS__SHAPE, 0, 0, 0, NULL, ""},
  MIRAS__W(type, 4, MIRAS_LAYER_TYPE_COUNT, "", "memory attention mlp mag conv rwkv"),
  MIRAS__W(memory.architecture, 2, MIRAS_ARCHITECTURE_COUNT, "",
           "matrix mlp gated-mlp vector kv-cache"),
  MIRAS__W(memory.bias, 2, MIRAS_BIAS_COUNT, "", "dot l2 lp lp-smooth huber huber-norm "
           "huber-mixture pseudo-huber shift-robust log-cosh custom"),
  MIRAS__W(memory.retention, 2, MIRAS_RETENTION_COUNT, "", "all l2 lq lq-pnorm kl l2-both elastic "
           "elastic-ftrl sigmoid chi2 reverse-kl hellinger tanh custom"),
  MIRAS__W(memory.algorithm, 2, MIRAS_ALGORITHM_COUNT, "",
           "gradient-descent momentum implicit least-squares"),
  MIRAS__W(memory.order, 2, MIRAS_ORDER_COUNT, "exact", "error-first decay-first"),
  MIRAS__N(memory.heads, 2, 1, 65536, MIRAS__LIKE_MODEL, ""),
  MIRAS__N(memory.key_dim, 2, 1, 4096, MIRAS__LIKE_SHARE, ""),
  MIRAS__N(memory.value_dim, 2, 1, 4096, MIRAS__LIKE_KEY, ""),
  MIRAS__N(memory.chunk, 2, 1, 1024, 1, ""),
  MIRAS__N(memory.depth, 2, 1, 4, 2, "architecture mlp"),
  MIRAS__N(memory.expansion, 2, 1, 16, 4, "deep"),
  MIRAS__W(memory.activation, 2, MIRAS_ACTIVATION_COUNT, "deep", "gelu silu identity"),
  MIRAS__N(memory.inner_norm, 2, 0, 1, 0, "architecture mlp gated-mlp"),
  MIRAS__N(memory.inner_residual, 2, 0, 1, 0, "architecture mlp gated-mlp"),
  MIRAS__N(memory.inner_bias, 2, 0, 1, 0, "architecture mlp"),
  MIRAS__W(memory.feature, 2, MIRAS_FEATURE_COUNT, "architecture matrix",
           "identity elu relu relu2 softmax poly2"),
  MIRAS__N(memory.normalise, 2, 0, 1, 0, "exact"),
  MIRAS__N(memory.descents, 2, 1, 8, 1, ""),
  MIRAS__N(memory.separate_erase, 2, 0, 1, 0, "exact"),
  MIRAS__N(memory.diagonal, 2, 0, 1, 0, "algorithm implicit"),
  MIRAS__N(memory.row_rates, 2, 0, 2, 0, "frozen"),
  MIRAS__N(memory.window, 2, 1, 1 << 20, 1024, "architecture kv-cache"),
  MIRAS__N(memory.iterations, 2, 1, 256, 30, "algorithm least-squares"),
  MIRAS__R(memory.tolerance, MIRAS__SHAPE, 1e-14, 1, 1e-12, "algorithm least-squares"),
  MIRAS__R(memory.ridge, MIRAS__SHAPE, 1e-6, 1e6, 1, "algorithm least-squares"),
  MIRAS__W(memory.keep_gate, 2, MIRAS_GATE_COUNT, "decays", "constant head channel"),
  MIRAS__W(memory.step_gate, 2, MIRAS_GATE_COUNT, "architecture not kv-cache",
           "constant head channel"),
  MIRAS__W(memory.momentum_gate, 2, MIRAS_GATE_HEAD + 1, "algorithm momentum",
           "constant head channel"),
  MIRAS__W(memory.threshold_gate, 2, MIRAS_GATE_COUNT, MIRAS__BOUNDED, "constant head channel"),
  MIRAS__W(memory.value_gate, 2, MIRAS_GATE_COUNT, "exact", "constant head channel"),
  MIRAS__R(memory.forget, MIRAS__SHAPE, 0, 1, 0, "fades"),
  MIRAS__R(memory.forget_ratio, MIRAS__SHAPE, 0, 1, 1, "fades"),
  MIRAS__W(memory.slopes, 2, MIRAS_SLOPES_COUNT, "decays", "ratio lightning minimax"),
  MIRAS__N(memory.layer, 2, 0, 65535, 0, "slopes not ratio"),
  MIRAS__N(memory.layers, 2, 1, 65536, 1, "slopes not ratio"),
  MIRAS__R(memory.step, MIRAS__SHAPE, 1e-8, 1e4, 1, "architecture not kv-cache"),
  MIRAS__R(memory.momentum, MIRAS__SHAPE, 0, 1, 0, "algorithm momentum"),
  MIRAS__R(memory.threshold, MIRAS__SHAPE, 1e-6, 1e30, MIRAS__LIKE_NORM, MIRAS__BOUNDED),
  MIRAS__R(memory.p, MIRAS__SHAPE, 1, 8, 3, "bias lp lp-smooth"),
  MIRAS__R(memory.q, MIRAS__SHAPE, 1, 8, 4, "retention lq lq-pnorm"),
  MIRAS__R(memory.sharpness, MIRAS__SHAPE, 0.1, 100, 10, "bias lp-smooth huber-mixture"),
  MIRAS__R(memory.simplex, MIRAS__SHAPE, 1e-3, 1e6, 1, MIRAS__SIMPLEX),
  MIRAS__N(memory.simplex_whole, 2, 0, 1, 0, MIRAS__SIMPLEX),
  MIRAS__N(memory.simplex_logits, 2, 0, 1, 0, "retention kl"),
  MIRAS__R(memory.balance, MIRAS__SHAPE, 1e-6, 1e6, 1, "retention l2-both"),
  MIRAS__R(memory.sparsity, MIRAS__SHAPE, 1e-8, 1e4, 1e-3, "retention elastic elastic-ftrl"),
  MIRAS__N(memory.smooth_shrink, 2, 0, 1, 0, "retention elastic elastic-ftrl"),
  MIRAS__M(vocab, 2, 2, 1 << 24, 0, ""),
  MIRAS__M(width, 2, 1, 65536, 0, ""),
  MIRAS__M(layers, 2, 1, 256, 0, ""),
  MIRAS__N(hidden, 2, 1, 1 << 20, MIRAS__LIKE_WIDTH, "no_mlp 0"),
  MIRAS__N(conv, 2, 1, 8, 4, "type not rwkv, convolved not none"),
  MIRAS__N(gate_rank, 2, 1, 4096, 32, "type not rwkv"),
  MIRAS__W(key_map, 2, MIRAS_KEYS_COUNT, "", "unit rms free complement erase"),
  MIRAS__W(keep_form, 2, MIRAS_KEEP_COUNT, "keep_gate not constant", "sigmoid root rate bounded"),
  MIRAS__N(tied_step, 2, 0, 1, 0, "keep_form rate"),
  MIRAS__M(untied, 2, 0, 1, 0, ""),
  {MIRAS__AT("dropout", d.dropout), MIRAS__REAL, 2, MIRAS__FREE, 0, 0.9f, 0, NULL, ""},
  {MIRAS__AT("seed", d.seed), MIRAS__WIDE, 2, MIRAS__FREE, 0, 0, 0, NULL, ""},
  MIRAS__W(memory.key_length, 3, MIRAS_LENGTH_COUNT, "architecture not kv-cache", "free unit root"),
  MIRAS__W(memory.toward, 3, MIRAS_TOWARD_COUNT, "retention not all", "nothing initial"),
  {MIRAS__AT("memory.reset_every", l.memory.reset_every), MIRAS__WHOLE, 3, MIRAS__STATE,
   0, (float)(INT_MAX - 127), 0, NULL, ""},
  MIRAS__N(memory.bounded_step, 3, 0, 2, 0, "architecture not kv-cache"),
  MIRAS__N(memory.simplex_signed, 3, 0, 1, 0, "retention kl"),
  MIRAS__N(fixed_gates, 3, 0, 31, 0, "type not rwkv"),
  MIRAS__N(horizon, 3, 0, 1 << 30, 0, "keep_gate not constant"),
  {MIRAS__AT("memory.norm_epsilon", l.memory.norm_epsilon), MIRAS__REAL, 4, MIRAS__SHAPE,
   0, 1, 0, NULL, "inner_norm"},
  MIRAS__N(heads, 4, 1, 65536, MIRAS__LIKE_MODEL, ""),
  MIRAS__N(kv_heads, 4, 1, 65536, MIRAS__LIKE_HEADS, ""),
  MIRAS__N(head_dim, 4, 2, 4096, MIRAS__LIKE_SHARE, ""),
  MIRAS__N(window, 4, 1, 1 << 20, 1024, ""),
  {MIRAS__AT("rotary_base", l.rotary_base), MIRAS__REAL, 4, MIRAS__SHAPE, 1, 1e9, 10000, NULL, ""},
  MIRAS__N(qk_norm, 4, 0, 1, 0, ""),
  MIRAS__N(no_mlp, 5, 0, 1, 0, "type not mlp"),
  {MIRAS__AT("norm_epsilon", d.norm_epsilon), MIRAS__REAL, 6, MIRAS__SHAPE, 0, 1, 0, NULL, ""},
  {MIRAS__AT("out_epsilon", l.out_epsilon), MIRAS__REAL, 6, MIRAS__SHAPE, 0, 1, 0, NULL,
   "type memory rwkv"},
  MIRAS__N(rotary_dim, 6, 0, 4096, 0, ""),
  MIRAS__N(output_gate, 6, 0, 1, 0, "type attention"),
  MIRAS__W(convolved, 6, MIRAS_CONVOLVED_COUNT, "type not rwkv", "all qk none"),
  MIRAS__N(conv_bias, 6, 0, 1, 0, "type not rwkv, convolved not none"),
  MIRAS__W(key_mixing, 6, MIRAS_MIX_COUNT, "type not rwkv", "silu none relu elu"),
  MIRAS__W(value_mixing, 6, MIRAS_MIX_COUNT, "type not rwkv", "silu none relu elu"),
  MIRAS__W(mlp, 6, MIRAS_MLP_COUNT, "no_mlp 0", "swiglu relu2"),
  MIRAS__N(shift, 6, 0, 1, 0, "type mlp"),
  MIRAS__N(decay_rank, 6, 1, 4096, MIRAS__LIKE_ROOT, "type rwkv"),
  MIRAS__N(rate_rank, 6, 1, 4096, MIRAS__LIKE_ROOT, "type rwkv"),
  MIRAS__N(out_rank, 6, 1, 4096, MIRAS__LIKE_ROOT, "type rwkv"),
  MIRAS__N(value_rank, 6, 0, 4096, 0, "type rwkv"),
  {MIRAS__AT("norm", d.norm), MIRAS__WORD, 6, MIRAS__SHAPE, 0, MIRAS_NORM_COUNT - 1, 0,
   "rms layer", ""},
  MIRAS__M(embed_norm, 6, 0, 1, 0, ""),
  MIRAS__N(persistent, 6, 0, 1024, 0, ""),
  MIRAS__N(shared_keys, 6, 0, 1, 0, "type not rwkv, convolved not none"),
  MIRAS__N(taps, 6, 1, 8, 4, "type conv"),
  MIRAS__N(key_heads, 6, 0, 65536, 0, "key_map unit rms free"),
  MIRAS__N(scaled_queries, 6, 0, 1, 0, "type not rwkv"),
  MIRAS__N(norm_heads, 6, 0, 65536, 0, "type memory"),
  MIRAS__W(out_gate, 6, MIRAS_OUT_COUNT, "type memory", "silu sigmoid none gelu"),
  MIRAS__W(out_norm, 6, MIRAS_NORM_COUNT, "type memory", "rms layer"),
  MIRAS__M(heads, 0, 1, 65536, 1, ""),
  {MIRAS__AT("weights", d.weights), MIRAS__WORD, 0, MIRAS__FREE, 0, MIRAS_WEIGHTS_COUNT - 1, 0,
   "float bf16 f16 q8", ""},
  MIRAS__N(memory.batch, 0, 1, 1 << 20, 1, ""),
  {MIRAS__AT("grid", grid), MIRAS__WHOLE, 0, MIRAS__FREE, 0, 0, 0, NULL, ""},
  MIRAS__F(exact, "a memory that runs exactly (architecture matrix, bias dot or l2, retention all "
           "or l2, algorithm gradient-descent or implicit)"),
  MIRAS__F(frozen, "gradients at a chunk's start (no KV cache, nothing that runs exactly)"),
  MIRAS__F(decays, "a retention with a keep gate (l2, lq, lq-pnorm, kl, elastic, sigmoid, tanh, "
           "custom, or an f-divergence with toward initial)"),
  MIRAS__F(fades, "slopes ratio and a retention with a keep gate (see keep_gate)"),
  MIRAS__F(deep, "architecture gated-mlp, or mlp of depth 2 or more"),
  MIRAS__F(by_channel, "a matrix that runs exactly, architecture vector or gated-mlp, or mlp of "
           "depth 1 or 2"),
  MIRAS__F(by_key, "a keep gate per entry of the key"),
  MIRAS__F(square, "value_dim equal to key_dim"),
  MIRAS__F(has_bias, "custom->bias and custom->bias_adjoint, neither of them NULL"),
  MIRAS__F(has_link, "custom->link and custom->link_adjoint, neither of them NULL"),
  MIRAS__F(inside, NULL), MIRAS__F(called, NULL), MIRAS__F(off_grid, NULL),
  MIRAS__F(beyond, NULL), MIRAS__F(loose, NULL), MIRAS__F(unshared, NULL),
  MIRAS__F(unjoined, NULL), MIRAS__F(uneven, NULL), MIRAS__F(ungrouped, NULL),
  MIRAS__F(unturned, NULL),
  MIRAS__F(unequal, NULL)
};
#undef MIRAS__AT
#undef MIRAS__W
#undef MIRAS__N
#undef MIRAS__M
#undef MIRAS__R
#undef MIRAS__F
enum { MIRAS__FIELDS = (int)(sizeof miras__fields / sizeof miras__fields[0]) };

/* Under the first condition the second must hold; without a second, what is there is refused. */
typedef struct miras__rule { const char *when, *needs, *because; } miras__rule;

static const miras__rule miras__rules[] = {
  {"architecture kv-cache", "bias l2, retention all, algorithm gradient-descent, descents 1",
   "nothing is learned step by step"},
  {"architecture vector, value_dim, key_dim", "square", "it scales its input"},
  {"inner_residual, value_dim, key_dim", "square", "it adds the input to the output"},
  {"inner_bias", "retention all l2 l2-both", "learned biases do not fade"},
  {"inner_bias, retention not all", "toward initial", "learned biases do not fade"},
  {"algorithm implicit least-squares", "architecture matrix, bias l2, retention all l2", NULL},
  {"algorithm least-squares", "toward nothing, descents 1", NULL},
  {"algorithm momentum", "retention not elastic chi2 reverse-kl hellinger",
   "these take plain steps"},
  {"order", "retention l2", NULL},
  {"row_rates", "algorithm gradient-descent, retention all l2", NULL},
  {"row_rates, retention l2", "toward initial", NULL},
  {"diagonal", "toward nothing", "what it erases cannot be led back"},
  {"bounded_step", "algorithm gradient-descent momentum, separate_erase 0, bias not dot custom, "
   "retention not lq-pnorm custom", "it asks how far a write moves a residual"},
  {"normalise", "bias dot, feature elu relu relu2 softmax",
   "what it divides by must not be negative"},
  {"separate_erase", "bias l2, algorithm gradient-descent, order error-first, feature identity, "
   "descents 1", NULL},
  {"value_gate", "value_gate channel, bias dot, retention l2, normalise 0", NULL},
  {"keep_gate channel", "by_channel, simplex_whole 0", NULL},
  {"step_gate channel", "by_channel, normalise 0, diagonal 0", NULL},
  {"threshold_gate channel", "by_channel, bias not custom", NULL},
  {"keep_gate channel, frozen",
   "algorithm gradient-descent, row_rates 0, retention not elastic", NULL},
  {"step_gate channel, frozen",
   "algorithm gradient-descent, row_rates 0, retention not elastic", NULL},
  {"keep_gate channel, deep, value_dim, key_dim", "square, inner_bias 0",
   "deeper than one layer a channel is an input and an output"},
  {"step_gate channel, deep, value_dim, key_dim", "square, inner_bias 0",
   "deeper than one layer a channel is an input and an output"},
  {"slopes", "keep_gate constant", NULL},
  {"beyond, layer, layers", "", "layer counts from 0 and must be below layers"},
  {"off_grid, reset_every, chunk, grid", "",
   "it must be 0 or a multiple of the grid, the first of chunk from 16 on"},
  {"retention kl, chunk not 1, simplex_logits 0",
   "algorithm not momentum, descents 1, simplex_signed 0",
   "without simplex_logits steps are plain and weights positive"},
  {"architecture vector, " MIRAS__SIMPLEX, "simplex_whole 1",
   "a channel of it is a single weight"},
  {"bias custom", "has_bias", NULL},
  {"retention custom", "has_link", NULL},
  {"bias not custom, retention not custom, called", "",
   "without a custom choice the pointer custom must be NULL"},
  {"key_map erase", "separate_erase 1", NULL},
  {"separate_erase, inside", "key_map erase", NULL},
  {"key_map complement", "keep_gate channel, by_key, descents 1", NULL},
  {"shared_keys", "descents 1, key_map not complement", "keys are made as queries are"},
  {"key_length, inside", "", "in a model the field key_map says how long they are: set it to 0"},
  {"fixed_gates, loose", "", "not all of these are learned gates, or one is tied to another"},
  {"horizon 1", "", "it must be 0, or from 2 on"},
  {"unshared, key_heads", "", "the memory's heads must be a multiple of it"},
  {"unjoined, norm_heads", "", "the memory's heads must be a multiple of it"},
  {"uneven, head_dim", "", "it must be even"},
  {"ungrouped, kv_heads", "", "heads must be a multiple of it"},
  {"unturned, rotary_dim", "", "it must be even and at most head_dim"},
  {"unequal, head_dim", "", "heads times it must be the memory's heads times value_dim"},
  {"tied_step", "keep_gate head, step_gate head, descents 1", NULL},
  {"type rwkv", "separate_erase 1, keep_gate channel, step_gate constant", NULL}
};

#undef MIRAS__SIMPLEX
#undef MIRAS__BOUNDED

/* ---- numbers and words ---- */

static int miras__little_endian(void) {
  const uint32_t one = 1;
  unsigned char first;
  memcpy(&first, &one, 1);
  return first == 1;
}

static uint64_t miras__real_bits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static float miras__bits_real(uint64_t x) {
  uint32_t bits = (uint32_t)x;
  float real;
  memcpy(&real, &bits, sizeof real);
  return real;
}

/* A member of a struct, of up to 64 bits: compilers for small machines shorten enums. */
static uint64_t miras__bits(const void *base, size_t at, size_t size) {
  uint64_t x = 0;
  memcpy((unsigned char *)&x + (miras__little_endian() ? 0 : sizeof x - size),
         (const unsigned char *)base + at, size);
  return x;
}

static void miras__set_bits(void *base, size_t at, size_t size, uint64_t x) {
  memcpy((unsigned char *)base + at,
         (unsigned char *)&x + (miras__little_endian() ? 0 : sizeof x - size), size);
}

/* A field as a number; not of MIRAS__WIDE. */
static double miras__number(const void *base, const miras__field *f) {
  const uint64_t bits = miras__bits(base, f->at, f->size);
  return f->kind == MIRAS__REAL ? (double)miras__bits_real(bits) : (double)(int32_t)bits;
}

/* The next word of a list or condition into word[32]; 0 at its end. */
static int miras__next_word(char *word, const char **text) {
  const char *from = *text;
  int n = 0;
  while (*from == ' ') from++;
  while (*from && *from != ' ' && *from != ',') word[n++] = *from++;
  word[n] = 0;
  *text = from;
  return n > 0;
}

/* Word i of a field that has words, into word[32]. */
static int miras__word(char *word, const miras__field *f, int i) {
  const char *list = f->words;
  while (miras__next_word(word, &list) && i > 0) i--;
  return word[0] != 0 && i == 0;
}

/* What a word, or a digit, stands for; -1 for a word that is none. */
static int miras__meaning(const miras__field *f, const char *text) {
  const char *list = f->words;
  char word[32];
  int i = 0;
  if (f->kind != MIRAS__WORD) return text[0] - '0';
  for (; miras__next_word(word, &list); i++)
    if (miras__same(word, text)) return i;
  return -1;
}

/* Is it a field of miras_desc? Of a layer? */
static int miras__of_memory(const miras__field *f) {
  return f->at >= offsetof(miras__case, l.memory) &&
         f->at < offsetof(miras__case, l.memory) + sizeof(miras_desc);
}

static int miras__of_layer(const miras__field *f) { return f->at < offsetof(miras__case, d); }

/* Has a layer of this type memories? Attention? */
static int miras__remembers(miras_layer_type type) {
  return type == MIRAS_LAYER_MEMORY || type == MIRAS_LAYER_MAG || type == MIRAS_LAYER_RWKV;
}

static int miras__attends(miras_layer_type type) {
  return type == MIRAS_LAYER_ATTENTION || type == MIRAS_LAYER_MAG;
}

/* The types of layer that a field is of, by its place in miras_layer_desc: 0 all, 1 those with
 * memories, 2 those with attention. */
static int miras__types_of(const miras__field *f) {
  if (!miras__of_layer(f) || f->at < offsetof(miras__case, l.memory)) return 0;
  return f->at < offsetof(miras__case, l.heads) ? 1 : 2;
}

/* Is this type one of them? */
static int miras__of_type(const miras__field *f, miras_layer_type type) {
  const int types = miras__types_of(f);
  return !types || (types == 1 ? miras__remembers(type) : miras__attends(type));
}

/* Where it has a meaning: first of all in layers of its types. */
static const char *miras__when(const miras__case *c, const miras__field *f) {
  if (miras__of_type(f, c->l.type)) return f->when;
  return miras__types_of(f) == 1 ? "type memory mag rwkv" : "type attention mag";
}

/* A field's name, of a memory on its own without "memory." before it. */
static const char *miras__name(const miras__field *f, int inside) {
  return miras__of_memory(f) && !inside ? f->name + sizeof "memory." - 1 : f->name;
}

/* The field or fact that a condition names; a memory's before a model's. */
static const miras__field *miras__named(const char *name) {
  const miras__field *f = miras__fields;
  while (!miras__same(miras__name(f, 0), name)) f++;
  MIRAS_ASSERT(f < miras__fields + MIRAS__FIELDS);   /* the tables are right */
  return f;
}

/* The first part of a condition that does not hold, or NULL. */
static const char *miras__unmet(const miras__case *c, const char *text) {
  while (*text) {
    const char *part = text;
    char word[32];
    const miras__field *f;
    int x, none = 0, met = -1;   /* -1: no list */
    miras__next_word(word, &text);
    f = miras__named(word);
    x = (int)miras__number(c, f);
    while (miras__next_word(word, &text)) {
      if (miras__same(word, "not")) none = 1;
      else met = met > 0 || x == miras__meaning(f, word);
    }
    if (met < 0 ? x == 0 : met == none) return part;
    while (*text == ',' || *text == ' ') text++;
  }
  return NULL;
}

/* ---- sentences ---- */

/* "step_gate is 2 (channel)" */
static void miras__say_value(char *why, size_t n, const miras__case *c, const miras__field *f,
                             const char *is) {
  const double x = miras__number(c, f);
  char word[32];
  miras__say(why, n, "%s%s", miras__name(f, c->inside), is);
  if (f->kind == MIRAS__REAL) miras__say(why, n, "%g", x);
  else miras__say(why, n, "%d", (int)x);
  if (f->kind == MIRAS__WORD && miras__word(word, f, (int)x)) miras__say(why, n, " (%s)", word);
}

/* The first part of a condition: "bias lp or lp-smooth", "slopes other than ratio", or a fact. */
static void miras__say_part(char *why, size_t n, const miras__case *c, const char *text) {
  const miras__field *f;
  char word[32];
  int count = 0;
  miras__next_word(word, &text);
  f = miras__named(word);
  miras__say(why, n, "%s", f->kind == MIRAS__FACT ? f->words : miras__name(f, c->inside));
  while (miras__next_word(word, &text)) {
    if (miras__same(word, "not")) miras__say(why, n, " other than");
    else miras__say(why, n, "%s %s", !count++ ? "" : !*text || *text == ',' ? " or" : ",", word);
  }
}

/* need: the part of r->needs that does not hold, or NULL. */
static void miras__say_rule(char *why, size_t n, const miras__case *c, const miras__rule *r,
                            const char *need) {
  const miras__field *subject = NULL;
  const char *part[5], *text;
  char word[32];
  int count = 0, said = 0, i;
  for (text = r->when; *text; text += strcspn(text, ","), text += strspn(text, ", "))
    part[count++] = text;
  if (need) part[count++] = need;
  for (i = 0; i < count; i++) {
    const miras__field *f;
    miras__next_word(word, &part[i]);
    f = miras__named(word);
    if (f->kind == MIRAS__FACT || f == subject) continue;
    if (!said) subject = f;
    else miras__say(why, n, said > 1 ? ", " : " with ");
    miras__say_value(why, n, c, f, said++ ? " " : " is ");
  }
  if (need) {
    miras__say(why, n, "; it needs ");
    miras__say_part(why, n, c, need);
  }
  if (r->because) miras__say(why, n, "%s%s", need ? ": " : "; ", r->because);
}

/* ---- facts, defaults, refusals ---- */

/* An f-divergence on the simplex; a retention whose state decays by a keep gate. */
static int miras__divergence(miras_retention r) {
  return r == MIRAS_RETAIN_CHI2 || r == MIRAS_RETAIN_REVERSE_KL || r == MIRAS_RETAIN_HELLINGER;
}

static int miras__decays(const miras_desc *d) {
  if (miras__divergence(d->retention)) return d->toward == MIRAS_TOWARD_INITIAL;
  return d->retention != MIRAS_RETAIN_ALL && d->retention != MIRAS_RETAIN_L2_BOTH &&
         d->retention != MIRAS_RETAIN_ELASTIC_FTRL;
}

/* Is the update linear in the state? Then a chunk is only a schedule (room @50). */
static int miras__is_exact(const miras_desc *d) {
  return d->architecture == MIRAS_MATRIX && (d->bias == MIRAS_DOT || d->bias == MIRAS_L2) &&
         (d->retention == MIRAS_RETAIN_ALL || d->retention == MIRAS_RETAIN_L2) &&
         (d->algorithm == MIRAS_GRADIENT_DESCENT || d->algorithm == MIRAS_IMPLICIT);
}

#define MIRAS__BLOCK 16    /* fewest tokens per stored state in the exact engine's tape           */

/* Tokens between two places where a memory can start anew: those between two states of a tape. */
static MIRAS__BOTH int miras__reset_grid(const miras_desc *d) {
  return d->chunk * ((MIRAS__BLOCK + d->chunk - 1) / d->chunk);
}

static MIRAS__COLD void miras__find_facts(miras__case *c) {
  const miras_desc *d = &c->l.memory;
  const miras_custom *own = d->custom;
  const int mlp = d->architecture == MIRAS_MLP, gated = d->architecture == MIRAS_GATED_MLP;
  c->exact = miras__is_exact(d);
  c->frozen = !c->exact && d->architecture != MIRAS_KV_CACHE;
  c->decays = miras__decays(d);
  c->fades = c->decays && !d->slopes;
  c->deep = gated || (mlp && d->depth != 1);
  c->by_channel = c->exact || gated || d->architecture == MIRAS_VECTOR || (mlp && d->depth <= 2);
  c->square = d->value_dim == d->key_dim;
  c->by_key = d->architecture == MIRAS_MATRIX ? d->feature != MIRAS_FEATURE_POLY2 : c->square;
  c->called = own != NULL;
  c->has_bias = own && own->bias && own->bias_adjoint;
  c->has_link = own && own->link && own->link_adjoint;
  c->grid = d->chunk > 0 && d->chunk <= 1024 ? miras__reset_grid(d) : 1;
  c->off_grid = d->reset_every % c->grid != 0;
  c->beyond = d->slopes && d->layer >= d->layers;
  c->unshared = c->l.key_heads > 0 && d->heads % c->l.key_heads;
  c->unjoined = c->l.norm_heads > 0 && d->heads % c->l.norm_heads;
  c->uneven = c->l.head_dim % 2;
  c->unturned = c->l.rotary_dim % 2 || c->l.rotary_dim > c->l.head_dim;
  c->ungrouped = c->l.kv_heads > 0 && c->l.heads % c->l.kv_heads;
  c->unequal = c->l.type == MIRAS_LAYER_MAG &&
               (int64_t)c->l.heads * c->l.head_dim != (int64_t)d->heads * d->value_dim;
  c->loose = c->l.fixed_gates & ~((d->keep_gate ? MIRAS_FIXED_KEEP : 0) |
                                  (d->step_gate && !c->l.tied_step ? MIRAS_FIXED_STEP : 0) |
                                  (d->momentum_gate ? MIRAS_FIXED_MOMENTUM : 0) |
                                  (d->threshold_gate ? MIRAS_FIXED_THRESHOLD : 0) |
                                  (d->value_gate ? MIRAS_FIXED_VALUE_KEEP : 0));
}

/* A default that is not 0. */
static void miras__set_default(miras__case *c, const miras__field *f) {
  const miras_desc *d = &c->l.memory;
  double x = (double)f->normal;
  int heads;
  switch ((int)f->normal) {
    case MIRAS__LIKE_KEY: x = d->key_dim; break;
    case MIRAS__LIKE_MODEL: x = c->d.heads ? c->d.heads : 1; break;
    case MIRAS__LIKE_HEADS: x = c->l.heads; break;
    case MIRAS__LIKE_SHARE:   /* 0 if there is none; then it is refused */
      heads = miras__of_memory(f) ? d->heads : c->l.heads;
      x = c->d.width % heads ? 0 : c->d.width / heads;
      break;
    case MIRAS__LIKE_WIDTH:
      x = c->l.mlp == MIRAS_MLP_RELU2 ? 4 * c->d.width : ((8 * c->d.width + 2) / 3 + 7) / 8 * 8;
      break;
    case MIRAS__LIKE_ROOT:
      x = 32 * floor((f->at == offsetof(miras__case, l.out_rank) ? 5 : 2.5) *
                       sqrt((double)c->d.width) / 32 + 0.5);
      if (x < 32) x = 32;
      break;
    case MIRAS__LIKE_NORM:
      x = d->inner_norm && (d->bias == MIRAS_HUBER_NORM || d->bias == MIRAS_HUBER_MIXTURE)
              ? 3 * sqrt((double)d->value_dim) : 1;
      break;
    default: break;
  }
  miras__set_bits(c, f->at, f->size,
                  f->kind == MIRAS__REAL ? miras__real_bits((float)x) : (uint64_t)x);
}

/* Of one field: its default, its range, or that it is 0 where it has no meaning. */
static int miras__resolve_field(miras__case *c, const miras__field *f, char *why, size_t n) {
  const char *when = miras__when(c, f);
  const int other = f->normal < 0 || f->normal > 0;   /* than 0 */
  const double low = (double)f->low, high = (double)f->high;
  double x = miras__number(c, f);
  int zero = x >= 0 && x <= 0, meant;
  if (zero && low <= 0 && !other) return 1;
  meant = !miras__unmet(c, when);
  if (zero && meant && other) {
    miras__set_default(c, f);
    x = miras__number(c, f);
  }
  if (meant ? x >= low && x <= high : zero) return 1;
  miras__say_value(why, n, c, f, " is ");
  if (!meant) {
    miras__say(why, n, ", but it has a meaning only with ");
    miras__say_part(why, n, c, when);
    miras__say(why, n, "; set it to 0");
  } else if (f->kind == MIRAS__REAL) {
    miras__say(why, n, "; it must lie in %g..%g", low, high);
  } else {
    miras__say(why, n, "; it must lie in %d..%d", (int)low, (int)high);
  }
  return 0;
}

/* Those that lie in [from, to) of the case. */
static MIRAS__COLD int miras__resolve_fields(miras__case *c, size_t from, size_t to, char *why,
                                             size_t n) {
  size_t i;
  for (i = 0; i < MIRAS__FIELDS; i++) {
    const miras__field *f = &miras__fields[i];
    if (f->at >= from && f->at < to && f->kind != MIRAS__WIDE && f->kind != MIRAS__TEXT &&
        !miras__resolve_field(c, f, why, n))
      return 0;
  }
  return 1;
}

/* Replace zeros by defaults and refuse what is not meant, with one sentence: of a layer, or of a
 * memory on its own. 1 on success. */
static int miras__resolve(miras__case *c, char *why, size_t n) {
  const size_t memory = offsetof(miras__case, l.memory);
  size_t i;
  miras__find_facts(c);    /* fields need them for their meaning, rules once defaults are there */
  if (c->inside ? !miras__resolve_fields(c, 0, sizeof(miras_layer_desc), why, n)
                : !miras__resolve_fields(c, memory, memory + sizeof(miras_desc), why, n))
    return 0;
  miras__find_facts(c);
  for (i = 0; i < sizeof miras__rules / sizeof miras__rules[0]; i++) {
    const miras__rule *r = &miras__rules[i];
    const char *need;
    if (miras__unmet(c, r->when)) continue;
    need = miras__unmet(c, r->needs);
    if (r->needs[0] && !need) continue;
    miras__say_rule(why, n, c, r, need);
    return 0;
  }
  return 1;
}

static MIRAS__COLD miras_result miras__desc_resolve(miras_desc *d, char *why, size_t n) {
  miras__case c;
  memset(&c, 0, sizeof c);
  c.l.memory = *d;
  if (!miras__resolve(&c, why, n)) return MIRAS_ERR_DESC;
  *d = c.l.memory;
  return MIRAS_OK;
}

/* ---- kinds of layer ---- */

/* Where a field lies in a model's descriptor: one of a layer, in that of the kind. */
static size_t miras__offset(const miras__field *f, int kind) {
  if (!miras__of_layer(f)) return f->at - offsetof(miras__case, d);
  return offsetof(miras_model_desc, layer) + (size_t)kind * sizeof(miras_layer_desc) + f->at;
}

static int miras__is_letter(char c) { return (c | 32) >= 'a' && (c | 32) <= 'z'; }

static char miras__letter(const miras_model_desc *d, int kind) {
  return (char)(kind || d->layer[0].letter ? d->layer[kind].letter : 'm');
}

/* The kind of layer that a letter names; -1 for none. */
static int miras__kind_of(const miras_model_desc *d, char letter) {
  int kind = 0;
  while (kind < MIRAS_LAYER_KINDS && miras__letter(d, kind) != letter) kind++;
  return letter && kind < MIRAS_LAYER_KINDS ? kind : -1;
}

/* Are there layers of this kind? */
static MIRAS__COLD int miras__used(const miras_model_desc *d, int kind) {
  const void *end = memchr(d->pattern, 0, sizeof d->pattern);
  const size_t n = end ? (size_t)((const char *)end - d->pattern) : sizeof d->pattern;
  const char letter = miras__letter(d, kind);
  return n ? miras__is_letter(letter) && memchr(d->pattern, letter, n) != NULL : kind == 0;
}

#endif   /* region A */

/* Types, kernels and engines are compiled once more for who includes this file again behind the
 * implementation, in a namespace and with words of room @21 of its own: with MIRAS__DEVICE 1 the
 * types, with MIRAS__ISA 5 the kernels of vectors whose lanes are threads, with MIRAS__DEVICE 2 the
 * engines, with MIRAS__DEVICE 3 what gives them the heads of a memory, with MIRAS__DEVICE 4 what
 * layers and trainers do with a tile of rows, a head or a block of parameters. */
#if (defined(MIRAS__DEVICE) && MIRAS__DEVICE == 1) || \
    (defined(MIRAS_IMPLEMENTATION) && !defined(MIRAS__ISA) && !defined(MIRAS__IMPLEMENTED))
/* @15 PLAN ---------------------------------------------------------------- needs 10 11 13 14 -- */

/* A descriptor that has been checked and resolved, with every size that follows from it. It holds
 * no pointers, so it can be compared and copied freely. Letters: C chunk, L layers, P weights.
 *
 * State of one head, in floats (each part starts on a multiple of 16):
 *   exact engine   S [features, value_dim], then with `normalise` z [features] (at once, unpadded);
 *                  for chunk > 1 the open block, miras__open
 *   frozen engine  A [P] dual state (f-divergences and Memora's paper form: the weights
 *                  themselves), W [P] = link(A) unless the link is the identity, S [P]
 *                  momentum, W_B [P] the weights that retention leads to where W is kept and B
 *                  are its logits, then the open chunk (C its pairs, `descents` per token): per
 *                  layer Y [C, in], D [C, out]; the last rows of the two coefficient matrices G
 *                  [C], N [C]; and 16 scalars: coefficients a, f, h of the last row, and from 4 on
 *                  1/c_0 of an LQ link per layer. With gates per channel a is [value_dim], and
 *                  the rows that carry the channels (D of the last layer, Y of the first if there
 *                  are more) are kept times their G.
 *   Mesa engine    H [n, n], G [n, value_dim] at the open chunk's start, n features of a key; its
 *                  keys [C, n] and values [C, value_dim]; the last row of coefficients N [C]; and
 *                  16 scalars, of which the first is B.
 *   attention      keys [window, key_dim], values [window, value_dim]; token t in row t % window */
enum { MIRAS__RUN_EXACT, MIRAS__RUN_FROZEN, MIRAS__RUN_MESA, MIRAS__RUN_ATTENTION };
#define MIRAS__ARRAYS 112  /* of an engine's scratch                                              */

typedef struct miras__plan {
  size_t weights;          /* P                                                                  */
  size_t features;         /* width of phi(k): rows of a matrix                                  */
  size_t span;             /* pairs that share an anchor: chunk * descents, and 1 for chunk 1    */
  size_t decays, rates;    /* numbers of a row's decay and step: 1, or one per channel (for exact
                              matrices of the key's features and of the value)                   */
  size_t streams;          /* exact: pairs that a row writes, 2 with a separate erase            */
  int layers;              /* weight matrices: 1 of a matrix or vector, 3 of a gated perceptron  */
  int in[4], out[4];       /* layer l maps in[l], ones included, to out[l]                       */
  int from[4];             /* the layer whose input layer l reads: l, or 0 where two share it    */
  int per_feature;         /* exact: decays are one number per feature                           */
  int channel;             /* frozen engine: keep or step is one number per channel              */
  int value_decay;         /* exact: entries of the value decay too                              */
  int delta;               /* exact: the write depends on an error                               */
  int stores_link;         /* the state keeps weights W = link(A) beside A                       */
  int engine;              /* which of the above runs a head                                     */
  int square;              /* exact: the bias is 1/2 |e|^2, not linear                           */
  int after;               /* exact: errors are read after the decay                             */
  int implicit;            /* exact: steps are eta / (1 + eta phi(k).phi(k))                     */
  int both;                /* steps and decays are those of L2 both                              */
  size_t bounds;           /* numbers of a token's threshold: 1, or value_dim                    */
  int fused;               /* exact: chunk 1 and nothing that its single pass does not know      */
  int map;                 /* what keys and queries go through (room @25)                        */
  int init_mapped;         /* the first weights are link(initial memory), stored or not          */
  int rule, first;         /* frozen engine: records of the retention (room @42), first: of the
                              first token of a chunk, where it is exact                          */
  float growth;            /* frozen engine: how much faster than an error its slope may grow    */
  int pulls;               /* frozen and exact: (1 - a) B is part of A_t                         */
  int holds;               /* frozen engine: the state keeps the weights W_B of B                */
  int ones;                /* inputs that are the constant 1, at the end of every row: 0 or 1    */
  int widest;              /* largest in or out                                                  */
  size_t offset[4];        /* of layer l's weights [in, out] in A, W, S                          */
  size_t params;           /* outer parameters of all heads                                      */
  size_t at_rho;           /* of row_rates' rho [chunk] among them                               */
  size_t at_w, at_s, at_home, at_open, at_g, at_n, at_a, at_scalars;   /* offsets in the state  */
  size_t at_y[4], at_d[4];
  size_t head_state;       /* floats                                                             */
  size_t head_dstate;      /* floats of a head in miras_dstate_size; in its state ...             */
  size_t split, second;    /* ... the first `split` of them lie first, the others at `second`     */
  size_t sequence_state;   /* floats: header of 16, then the heads                               */
  size_t tape_chunk;       /* floats per head and chunk (exact engine: per block)                */
  size_t tape_state;       /* frozen engine: floats per anchor; chunk 1 has one for each descent */
  int tape_tokens;         /* tokens that one tape_chunk covers                                  */
  size_t tape_once;        /* floats per head and call, before its chunks                        */
  size_t at[MIRAS__ARRAYS];   /* offsets of the arrays of a call's scratch                       */
  size_t scratch;          /* floats per worker for head_forward and head_read                   */
  size_t scratch_backward; /* for head_backward too; never less                                  */
  size_t at_spare;         /* in it: room for weights that are not in the state, or for all of
                              head_dstate where chunks can be open                               */
  miras_desc d;
} miras__plan;

#define MIRAS__SWEEP 64    /* tokens between two sweeps of a state for what has faded             */
#define MIRAS__FADED 1e-30f   /* below this                                                       */

/* Of what may be absent. */
static const float *miras__at(const float *p, size_t n) { return p ? p + n : NULL; }
static float *miras__to(float *p, size_t n) { return p ? p + n : NULL; }

/* What a token brings, in the order of miras_tokens: its name in head_io, that of its stride, its
 * member of miras_tokens, and its numbers per token and head, of a descriptor d; 0: that asks for
 * none. */
#define MIRAS__INPUTS(X)                                                                          \
  X(k, ldk, key, (size_t)d->descents * (size_t)d->key_dim)                                         \
  X(v, ldv, value, (size_t)d->descents * (size_t)d->value_dim)                                     \
  X(q, ldq, query, (size_t)d->key_dim)                                                            \
  X(keep, ld_keep, keep, miras__keep_width(d))                                                    \
  X(step, ld_step, step, (size_t)d->descents * miras__gate_width(d, d->step_gate))                 \
  X(momentum, ld_momentum, momentum, miras__gate_width(d, d->momentum_gate))                       \
  X(threshold, ld_threshold, threshold, miras__gate_width(d, d->threshold_gate))                   \
  X(value_keep, ld_value_keep, value_keep, miras__gate_width(d, d->value_gate))                    \
  X(erase, ld_erase, erase, d->separate_erase ? (size_t)d->key_dim : 0)                           \
  X(replace, ld_replace, replace, d->separate_erase ? (size_t)d->key_dim : 0)
enum { MIRAS__INPUT_COUNT = 10 };

/* What one head of one sequence reads and writes in a call. ld_* are floats between tokens; 0 for a
 * gate means a constant. Keys, values and steps of the descents of a token lie side by side.
 * value_keep, erase, replace are NULL unless the descriptor asks for them; surprise may be NULL. */
typedef struct miras__head_io {
  const float *k, *v, *q, *keep, *step, *momentum, *threshold, *value_keep, *erase, *replace;
  size_t ldk, ldv, ldq, ld_keep, ld_step, ld_momentum, ld_threshold, ld_value_keep, ld_erase,
         ld_replace;
  const float *rho;                                    /* [chunk] of row_rates; NULL: zeros      */
  float *y;
  size_t ldy;
  float *surprise;
  int length;
  size_t head;                                         /* which of the heads it is               */
} miras__head_io;

/* Where the gradients of one head go; all overwritten but rho, which is added to; any pointer may
 * be NULL. */
typedef struct miras__head_grads {
  float *k, *v, *q, *keep, *step, *momentum, *threshold, *value_keep, *erase, *replace;
  size_t ldk, ldv, ldq, ld_keep, ld_step, ld_momentum, ld_threshold, ld_value_keep, ld_erase,
         ld_replace;
  float *rho;
} miras__head_grads;

/* Both begin with the pointers of the inputs and have their strides behind them. Input i of either,
 * or of miras_tokens and miras_token_grads from key on; its stride; both set. */
static float *miras__input(const void *record, size_t i) {
  float *pointer;
  memcpy(&pointer, (const char *)record + i * sizeof pointer, sizeof pointer);
  return pointer;
}
static size_t miras__stride(const void *record, size_t i) {
  const char *strides = (const char *)record + MIRAS__INPUT_COUNT * sizeof(float *);
  size_t ld;
  memcpy(&ld, strides + i * sizeof ld, sizeof ld);
  return ld;
}
static void miras__input_set(void *record, size_t i, float *pointer, size_t ld) {
  memcpy((char *)record + i * sizeof pointer, &pointer, sizeof pointer);
  memcpy((char *)record + MIRAS__INPUT_COUNT * sizeof pointer + i * sizeof ld, &ld, sizeof ld);
}

/* On to token t. */
static void miras__inputs_on(void *record, size_t t) {
  size_t i;
  for (i = 0; i < MIRAS__INPUT_COUNT; i++) {
    const size_t ld = miras__stride(record, i);
    miras__input_set(record, i, miras__to(miras__input(record, i), t * ld), ld);
  }
}

static size_t miras__pad(size_t n) { return (n + 15) & ~(size_t)15; }

/* A factor of a product: element (i, k) is p[i * down + k * right]. In 16 bytes it goes through
 * registers, both strides in one, which gcc does not make of two halves without memory; no stride
 * is as large as 2^32. */
typedef struct miras__matrix {
  const float *p;
  uint64_t strides;        /* down, and right times 2^32                                         */
} miras__matrix;

static miras__matrix miras__strided(const float *p, size_t down, size_t right) {
  miras__matrix m;
  m.p = p, m.strides = (uint64_t)down | (uint64_t)right << 32;
  return m;
}

static size_t miras__down(miras__matrix m) { return (uint32_t)m.strides; }
static size_t miras__right(miras__matrix m) { return (size_t)(m.strides >> 32); }

/* Rows that are ld apart; the same turned by the diagonal. */
static miras__matrix miras__mat(const float *p, size_t ld) { return miras__strided(p, ld, 1); }
static miras__matrix miras__turned(const float *p, size_t ld) { return miras__strided(p, 1, ld); }

/* A factor again, as tiles take it. */
typedef struct miras__operand {
  const float *p;
  size_t down, right;
} miras__operand;

static MIRAS__UNUSED miras__operand miras__operand_of(const float *p, size_t down, size_t right) {
  miras__operand o;
  o.p = p, o.down = down, o.right = right;
  return o;
}

/* A mode of gemm where row i of the left factor ends after seen + i elements, and what lies beyond
 * may be anything, NaN too; seen 0: all count. */
static int miras__causal(int mode, size_t seen) { return mode + 4 * (int)seen; }

/* Rows under decays of one number per channel (room @28, which has the letters). Rows x, eta,
 * alpha, z, a belong to the new tokens r0..r0+m-1 of a block; q, p to every `every`-th of them. */
typedef struct miras__channels {
  size_t n;                /* channels                                                           */
  size_t every;            /* row i is queried when (i + 1) % every == 0; r0 is a multiple       */
  int after;               /* z meets the older rows after (1) or before (0) its row's decay     */
  const float *x, *eta, *alpha, *q, *z;                /* [.., n]; eta, q, z may be NULL         */
  float *p, *a;            /* [.., rows] per query, per z: scores, or mixing weights             */
  size_t ld_p;
  float *live;             /* [rows, n] all rows of the block so far, decayed up to the newest   */
} miras__channels;

/* Cotangents of x, eta, alpha, q, z in the same shapes; added to; all but x and alpha may be NULL.
 * live: cotangent of the rows after the block's last token, or NULL. */
typedef struct miras__channel_grads {
  float *x, *eta, *alpha, *q, *z;
  const float *live;
} miras__channel_grads;

/* Rows of conjugate gradients for (A_i + diag(lambda)) x_i = b_i (room @28): what is solved, and
 * where each row stands. Rows before `from` and from `to` on are done. */
typedef struct miras__conjugate {
  size_t n, rows, from, to;
  float tolerance;
  float *lambda;           /* [n]                                                                */
  float *x, *r, *s, *u;    /* [rows, n] solutions, residuals, directions, A times directions     */
  float *rr, *limit;       /* [rows] |r|^2, negative once a row is done; where it may stop       */
} miras__conjugate;

/* What the rows of a block write where they depend on each other's: room @28's exact_solve. */
typedef struct miras__solve {
  float *h, *u;
  const float *w, *a, *aw, *eta;
  size_t dv, ld, rates;
} miras__solve;

/* Coefficients of new rows row..row+m-1 of a chunk whose pairs have one gate each (room @51, which
 * has the letters): g, n [m, ld], a, f, h [m]. The first new row is descent `descent` of its token.
 * theta: with momentum, else NULL; rate: with row_rates, else NULL. */
typedef struct miras__course {
  size_t ld, row, m, descent, descents;
  const float *alpha, *eta, *theta, *rate;             /* [m]                                    */
  float *g, *n, *a, *f, *h;
} miras__course;

/* Their cotangents, which are consumed, and those of alpha, eta and, where they are, theta; with
 * row_rates the slopes [m] of the rates by rho, and rho's cotangent, added to, or NULL. */
typedef struct miras__course_grads {
  float *g, *n, *a, *f, *h;
  float *alpha, *eta, *theta;
  const float *slope;
  float *rho;
} miras__course_grads;

/* A layer of m pairs whose steps are bounded (room @51): y [m, in], d [m, out], eta [m, wide], each
 * channel of which is an input (by 1) or an output (by 2) of the layer; by 0: one number. J is
 * `number` times J, or times ones. fed [m, hears]: what the layer above hears, where its
 * strain counts, or NULL. spent, strain [m]: Q and F. */
typedef struct miras__bound {
  size_t m, in, out, wide, hears;
  int by;
  float number;
  const float *J, *y, *d, *eta, *fed;
  float *spent, *strain, *pack;
} miras__bound;

/* Where cotangents of its numbers, added to, and of its J go, as mode of gemm says. */
typedef struct miras__bound_grads {
  float *number, *J, *y, *d, *eta, *fed;
  int mode;
} miras__bound_grads;

/* The reads that follow a chunk's pairs: the first of m sees `seen` of them and each of the others
 * `descents` more, the last one `pairs`; rows of coefficients are ld apart. */
typedef struct miras__reads {
  size_t m, seen, descents, pairs, ld;
} miras__reads;

/* The adjoint of the inner gradient through a layer norm (room @28): rows of cotangents bd of the
 * gradients d, errors e, the norm's rows; and between its halves u, bxh [rows, n], bs [rows]. */
typedef struct miras__norm2 {
  size_t rows, n;
  const float *bd, *d, *e, *gain, *xh, *rstd;
  float *u, *bxh, *bs;
} miras__norm2;

/* Rows whose error a bias takes (room @26): residuals r and values v [rows, n], thresholds delta
 * [rows, bounds]; for errors e and values of the bias, loss. */
typedef struct miras__errors {
  const miras_desc *d;
  size_t rows, n, bounds;
  const float *r, *v, *delta;
  float *e, *loss;
} miras__errors;

/* What a norm of room @29 takes: rows x of heads of `dim` channels, a gain for each, the gate of a
 * gated norm, of a form of miras_out_gate, and of a layer norm biases. epsilon is added to the mean
 * of squares or to the variance. That of root mean squares has one head. */
typedef struct miras__norm {
  const float *x, *gain, *gate;
  size_t ldx, ld_gate, rows, heads, dim;
  float epsilon;
  const float *bias;
  int form;
} miras__norm;

/* What the adjoint of a layer norm knows of a row: mean and 1 / deviation of x, and the means of
 * its gradient and of that times the normed row. */
typedef struct miras__norm_row { float mean, inverse, d, along; } miras__norm_row;

/* Gradients of a norm's gain and bias. */
typedef struct miras__norm_grads { float *gain, *bias; } miras__norm_grads;

/* A short convolution of rows of heads * dim channels (room @29): inputs c, the taps - 1 rows ahead
 * of them, NULL for zeros, weights w [taps, heads * dim], NULL for none with one tap, a bias or
 * NULL, and what comes behind it (miras_mixing). Its result has a block [rows, dim] per head, the
 * blocks `per` apart; of gradients each of its heads has `group` blocks, one behind the other. */
typedef struct miras__conv {
  const float *c, *past, *w, *bias;
  size_t ldc, ldpast, per, taps, rows, heads, dim, group;
  int mixing, more;                /* more: the adjoint adds to the gradient of c                 */
} miras__conv;

/* Keys of a memory that erases apart from them (room @29, which has the letters): x and the gate c
 * are rows, a and b [n] are gains. */
typedef struct miras__erasing {
  const float *x, *c, *a, *b;
  size_t ldc, rows, n;
} miras__erasing;

/* Where `count` arrays of an engine's scratch lie, base + at, goes into the members `to` of its
 * record. */
static void miras__addresses(void *record, const uint16_t *to, size_t count, float *base,
                             const size_t *at) {
  size_t i;
  MIRAS__UNROLL4 for (i = 0; i < count; i++)
    *(float **)(void *)((char *)record + to[i]) = base + at[i];
}

static int miras__whole(char *why, size_t size, const char *field, int value, int low, int high) {
  if (value >= low && value <= high) return 1;
  return miras__say(why, size, "%s is %d; it must lie in %d..%d", field, value, low, high), 0;
}

/* Width of phi(k). */
static int miras__features(const miras_desc *d) {
  return d->feature == MIRAS_FEATURE_POLY2 ? 1 + d->key_dim + d->key_dim * (d->key_dim + 1) / 2
                                           : d->key_dim;
}

/* The biases with a threshold: the Huber family, the shift, the caller's. */
static int miras__has_threshold(miras_bias b) {
  return b >= MIRAS_HUBER && b <= MIRAS_CUSTOM_BIAS;
}

/* How much faster than the error its slope grows, at most: p - 1 of the biases |r|^p. */
static float miras__bias_growth(const miras_desc *d) {
  return (d->bias == MIRAS_LP || d->bias == MIRAS_LP_SMOOTH) && d->p > 2 ? d->p - 1 : 1;
}

/* Numbers per token, head and descent of a gate that is not constant, else 0. A channel is an entry
 * of the value, but for the keep gate of a matrix memory: there, of the key as it is seen. */
static size_t miras__gate_width(const miras_desc *d, miras_gate gate) {
  return gate == MIRAS_GATE_CHANNEL ? (size_t)d->value_dim : gate == MIRAS_GATE_HEAD;
}

static size_t miras__keep_width(const miras_desc *d) {
  return d->keep_gate == MIRAS_GATE_CHANNEL && d->architecture == MIRAS_MATRIX
           ? (size_t)miras__features(d) : miras__gate_width(d, d->keep_gate);
}

/* Head h of H starts anew at tokens t > 0 with (t + o) mod R = 0, where R is reset_every and o is
 * h R / H rounded down to the grid above. Tokens since then, when `position` tokens have passed: */
static uint64_t miras__since(const miras_desc *d, size_t head, uint64_t position) {
  const uint64_t every = (uint64_t)d->reset_every, grid = (uint64_t)miras__reset_grid(d);
  uint64_t offset;
  if (!every) return position;
  offset = (uint64_t)head * every / (uint64_t)d->heads / grid * grid;
  return position + offset < every ? position : (position + offset) % every;
}

/* The same for a read between two tokens: a head starts anew with the write that follows, so what
 * is read before it is still the old memory. */
static uint64_t miras__since_read(const miras_desc *d, size_t head, uint64_t position) {
  return position ? miras__since(d, head, position - 1) + 1 : 0;
}

/* How many of the next `length` tokens come before it starts anew. */
static size_t miras__stretch(const miras_desc *d, size_t head, uint64_t position, size_t length) {
  const uint64_t every = (uint64_t)d->reset_every, grid = (uint64_t)miras__reset_grid(d);
  uint64_t left;
  if (!every) return length;
  left = every - (position + (uint64_t)head * every / (uint64_t)d->heads / grid * grid) % every;
  return left < (uint64_t)length ? (size_t)left : length;
}

/* Is the state swept now that a chunk has closed, `position` tokens after the memory's start? On
 * this grid and not at the end of a call, so that calls may be cut anywhere. */
static int miras__sweeps(const miras_desc *d, uint64_t position) {
  const uint64_t chunk = (uint64_t)d->chunk;
  return position % (chunk < MIRAS__SWEEP ? MIRAS__SWEEP / chunk * chunk : chunk) == 0;
}

/* Slices of a layer on the simplex: 0 the whole layer is one, 1 each row, 2 each column (@27). */
static int miras__slice(const miras__plan *p, int layer) {
  if (p->d.simplex_whole) return 0;
  if (layer == p->layers - 1) return 2;
  return p->from[layer] == 0 ? 1 : 0;
}

/* Floats of tape for one head and T tokens between two resets, wherever they begin. */
static size_t miras__stretch_tape(const miras__plan *p, size_t tokens) {
  const size_t per = (size_t)p->tape_tokens;
  return p->tape_once + (tokens / per + (tokens % per != 0)) * p->tape_chunk;
}

/* Floats of tape for one head and T tokens; 0 when there is nothing to keep or it does not fit. A
 * stretch of it ends where the head starts anew: there are no more of them than `parts`, and all
 * but the first and the last are whole. A tape may begin anywhere on the grid of chunks, which is
 * finer than that of the exact engine's blocks, so that both ends may hold a part of one. */
static size_t miras__plan_tape(const miras__plan *p, size_t tokens) {
  size_t per = (size_t)p->tape_tokens, chunks = tokens / per + (tokens % per != 0), total;
  size_t every = (size_t)p->d.reset_every, parts = 1, once;
  if (!tokens) return 0;
  if (every) parts += (tokens - 1) / every + ((tokens - 1) % every != 0);
  if (parts > 1 && p->tape_tokens > p->d.chunk) chunks++;
  if (!miras__size_mul(chunks, p->tape_chunk, &total) ||
      !miras__size_mul(parts, p->tape_once, &once))
    return 0;
  return miras__size_add(total, once, &total) ? total : 0;
}

/* alpha of the constant keep gates of a layer: keep [heads]. */
static void miras__constant_keeps(const miras_desc *d, int layer, float *keep) {
  const double log_2 = 0.69314718055994531;
  double heads = (double)d->heads, layers = (double)(d->layers ? d->layers : 1);
  float f = d->forget;
  int h;
  for (h = 0; h < d->heads; h++, f *= d->forget_ratio) {
    if (!miras__decays(d))
      keep[h] = 1;
    else if (d->slopes == MIRAS_SLOPES_LIGHTNING)
      keep[h] = (float)exp(-8 / heads * (1 - layer / layers) * h);
    else if (d->slopes == MIRAS_SLOPES_MINIMAX)
      keep[h] = (float)exp(-exp(-8 * log_2 * (h + 1) / heads) *
                           (1 - layer / (layers - 1 + 1e-5) + 1e-5));
    else
      keep[h] = 1 - f;
  }
}

/* Deviation of layer l of an initial memory. Matrices, vectors and biases start empty. Layers of a
 * perceptron start with weights of variance 1/in; for a link the dual state is drawn so that the
 * weights come out near that:
 *   A/||A||_q^(q-2): entries s u with unit-variance u have norm s (P m)^(1/q), m = E|u|^q, so the
 *   weights have deviation s^(3-q) / (P m)^((q-2)/q), which is solved for s (q = 3: any s will do);
 *   the p-norm link has degree 1 and flattens or sharpens the entries only: s = 1/sqrt(in);
 *   KL, f-divergences, sigmoid: logits of unit deviation, because a slice of equal weights would
 *   be a fixed point; signed slices of n small logits have weights near c/n times them;
 *   a threshold leaves what is well above it alone: as without a link. */
static MIRAS__COLD double miras__deviation(const miras__plan *p, int l) {
  const miras_desc *d = &p->d;
  int in = p->in[l] - d->inner_bias, slice = miras__slice(p, l);
  double count = (double)in * (double)p->out[l], deviation = 1 / sqrt((double)in);
  if (d->simplex_signed) {
    double n = slice == 2 ? (double)p->in[l] : slice == 1 ? (double)p->out[l] : count;
    double small = n / ((double)d->simplex * sqrt((double)in));
    return small < 1 ? small : 1;
  }
  if (d->retention == MIRAS_RETAIN_KL || d->retention == MIRAS_RETAIN_SIGMOID ||
      miras__divergence(d->retention))
    return 1;
  if (d->retention == MIRAS_RETAIN_LQ && fabs(3 - (double)d->q) > 0.25) {
    double q = (double)d->q, m = pow(sqrt(3.0), q) / (q + 1);
    return pow(deviation * pow(count * m, (q - 2) / q), 1 / (3 - q));
  }
  return deviation;
}

/* Learning rate of initial memories over that of weights. A / ||A||_q^(q-2) has entries of another
 * size than A (q = 2.5, layers of 32 x 128: A is 5 times as large), and AdamW, whose steps do not
 * know it, would move these weights by a fifth of what it moves others. */
static double miras__init_rate(const miras__plan *p) {
  double dual = 0, weights = 0;
  int l;
  if (p->d.retention != MIRAS_RETAIN_LQ) return 1;
  for (l = 0; l < p->layers; l++) {
    double in = (double)(p->in[l] - p->d.inner_bias), count = in * (double)p->out[l];
    double deviation = miras__deviation(p, l);
    dual += count * deviation * deviation;
    weights += count / in;
  }
  return sqrt(dual / weights);
}

/* w[i] = mean + deviation sqrt(3) u, which has that deviation. */
static void miras__draw(float *w, size_t n, uint64_t seed, double mean, double deviation) {
  const double most = deviation * 1.7320508075688772;
  size_t i;
  for (i = 0; i < n; i++) w[i] = (float)(mean + most * (double)miras__uniform(seed, (uint64_t)i));
}

/* Of the frozen-gradient engine: every head's initial memory, and the gains of the inner norm. */
static void miras__frozen_params(const miras__plan *p, float *init, float *gain) {
  const miras_desc *d = &p->d;
  const int empty = (d->architecture == MIRAS_MATRIX || d->architecture == MIRAS_VECTOR) &&
                    (!p->init_mapped || d->retention == MIRAS_RETAIN_ELASTIC_FTRL);
  size_t h, heads = (size_t)d->heads;
  int l;
  for (h = 0; !empty && h < heads; h++)
    for (l = 0; l < p->layers; l++)
      miras__draw(init + h * p->weights + p->offset[l],
                  (size_t)(p->in[l] - d->inner_bias) * (size_t)p->out[l],
                  d->seed + 0x9e3779b97f4a7c15u * (uint64_t)(h * 4 + (size_t)l + 1), 0,
                  miras__deviation(p, l));
  if (d->inner_norm) miras__draw(gain, heads * (size_t)d->value_dim, 0, 1, 0);
}

/* Of Mesa's: the ridges. */
static void miras__mesa_params(const miras__plan *p, float *init, float *gain) {
  const double ridge = (double)p->d.ridge, raw = ridge > 30 ? ridge : log(expm1(ridge));
  (void)init;
  miras__draw(gain, (size_t)p->d.heads * (size_t)p->in[0], 0, raw, 0);
}

/* @20 KERNEL TABLE ----------------------------------------------------------------- needs 10 -- */

/* Modes of gemm: C = AB, C += AB, C -= AB; and what may be added to them where engines multiply
 * whole matrices (rooms @41, @53): A or B lies turned; without the row or column of biases. */
enum { MIRAS__SET, MIRAS__ADD, MIRAS__SUB, MIRAS__TN = 4, MIRAS__NT = 8, MIRAS__BARE = 16 };

/* What map makes of each element, besides a miras_activation. */
enum {
  MIRAS__EXP = MIRAS_ACTIVATION_COUNT, MIRAS__SIGMOID, MIRAS__TANH, MIRAS__LOG, MIRAS__SOFTPLUS
};

/* Forms of learned gates (room @29): those of keep gates, and one of steps and thresholds. */
enum {
  MIRAS__GATE_SIGMOID = MIRAS_KEEP_SIGMOID, MIRAS__GATE_ROOT = MIRAS_KEEP_ROOT,
  MIRAS__GATE_RATE = MIRAS_KEEP_RATE, MIRAS__GATE_BOUNDED = MIRAS_KEEP_BOUNDED,
  MIRAS__GATE_SOFTPLUS = MIRAS_KEEP_COUNT
};

/* Forms of what low ranks are squashed by (room @29). */
enum { MIRAS__SQUASH_TANH, MIRAS__SQUASH_SIGMOID };

/* Forms of biases on a norm (room @26). */
enum { MIRAS__NORM_CLIPPED, MIRAS__NORM_SHIFTED, MIRAS__NORM_PSEUDO };

/* The kernels: the part of the library that calls each (room @10), result, name, arguments. A
 * public call fetches the table once and hands it down; a test may hand down any other. Plain
 * floats cross this line, vectors never do: a vector type outside its target region is an error to
 * clang. What each entry does is said at its definition in rooms 23 to 29. Scalar kernels and those
 * made of other kernels are compiled with the portable set alone and are the same in all tables; K
 * is the table whose kernels they call. Those that are called most often are first, where a call
 * takes three bytes less. */
typedef struct miras__kernels miras__kernels;

#define MIRAS__KERNELS(X)                                                                         \
  X(ANY, void, fill, (float *y, float value, size_t n))                                           \
  X(ANY, void, copy, (float *y, const float *x, size_t n))                                        \
  X(ANY, void, copy_rows, (float *y, size_t ldy, const float *x, size_t ldx, size_t rows,         \
    size_t n))                                                                                    \
  X(ANY, void, dot_rows, (int add, float *s, size_t lds, const float *a, size_t lda,              \
    const float *b, size_t ldb, size_t rows, size_t n))                                           \
  X(ANY, void, gemm, (int mode, float *C, size_t ldc, miras__matrix A, miras__matrix B, size_t M, \
    size_t N, size_t K, float *pack))                                                             \
  X(ANY, void, add, (float *y, const float *x, size_t n))                                         \
  X(ANY, void, scale_rows, (float *y, size_t ldy, float c, const float *s, size_t lds,            \
    const float *x, size_t ldx, size_t rows, size_t n))                                           \
  X(ANY, void, mul, (float *y, const float *a, const float *b, size_t n))                         \
  X(ANY, void, axpy_rows, (float *y, size_t ldy, float c, const float *s, size_t lds,             \
    const float *x, size_t ldx, size_t rows, size_t n))                                           \
  X(ANY, void, scale, (float *y, float a, const float *x, size_t n))                              \
  X(ANY, void, mul_rows, (float *y, size_t ldy, const float *a, size_t lda, const float *b,       \
    size_t ldb, size_t rows, size_t n))                                                           \
  X(ANY, void, add_rows, (float *y, size_t ldy, const float *x, size_t ldx, size_t rows,          \
    size_t n))                                                                                    \
  X(ANY, void, sub, (float *y, const float *a, const float *b, size_t n))                         \
  X(ANY, void, flush, (float *y, const float *x, size_t n))                                       \
  X(ANY, void, transpose, (float *y, size_t ldy, const float *x, size_t ldx, size_t rows,         \
    size_t cols))                                                                                 \
  X(ANY, float, dot, (const float *a, const float *b, size_t n))                                  \
  X(FROZEN, float, sum, (const float *a, size_t n))                                               \
  X(ANY, void, axpy, (float *y, float a, const float *x, size_t n))                               \
  X(ANY, void, muladd, (float *y, const float *a, const float *b, size_t n))                      \
  X(ANY, void, fill_rows, (float *y, size_t ldy, float value, size_t rows, size_t n))             \
  X(ANY, void, spread_rows, (float *y, size_t ldy, const float *s, size_t lds, size_t rows,       \
    size_t n))                                                                                    \
  X(ANY, void, muladd_rows, (float *y, size_t ldy, const float *a, size_t lda, const float *b,    \
    size_t ldb, size_t rows, size_t n))                                                           \
  X(BACK, void, sum_rows, (int add, float *s, size_t lds, const float *a, size_t lda,             \
    size_t rows, size_t n))                                                                       \
  X(ANY, void, mask_rows, (float *y, size_t ldy, float value, size_t rows, size_t n,              \
    ptrdiff_t lo, ptrdiff_t hi, size_t step))                                                     \
  X(ANY, void, feature_rows, (int map, float *f, size_t ldf, const float *x, size_t ldx,          \
    size_t rows, size_t n))                                                                       \
  X(BACK, void, feature_rows_bwd, (int map, float *dx, size_t lddx, const float *df,              \
    const float *f, size_t ldf, const float *x, size_t ldx, size_t rows, size_t n))               \
  X(ANY, void, implicit_rows, (float *eta, size_t rates, const float *x, size_t ldx, size_t rows, \
    size_t n))                                                                                    \
  X(BACK, void, implicit_bwd, (const miras__kernels *K, float *bx, float *b_eta, const float *eta, \
    const float *rate, size_t rates, const float *x, size_t n))                                   \
  X(BACK, void, diagonal_bwd, (const miras__kernels *K, float *bx, float *b_eta, float *ba,        \
    float eta, const float *x, const float *keep, size_t keeps, float *row, size_t n))            \
  X(CURVED, void, map, (int f, float *y, const float *x, size_t n))                               \
  X(FROZEN, void, act_grad, (int kind, float *d, const float *z, const float *g, size_t n))       \
  X(FROZEN_BACK, void, act_grad2, (int kind, float *gbar, float *zbar, const float *z,            \
    const float *g, const float *dbar, size_t n))                                                 \
  X(EXACT, int, any, (const float *x, size_t n))                                                  \
  X(FROZEN, void, bias_rows, (const miras__errors *x, float *b, float *bv, float *bdelta,         \
    float *room))                                                                                 \
  X(FROZEN, void, signed_fwd, (const miras__plan *p, int l, float *w, float *mass,                \
    const float *a))                                                                              \
  X(FROZEN, void, simplex_fwd, (const miras__plan *p, int l, float *w, const float *a))           \
  X(FROZEN_BACK, void, simplex_bwd, (const miras__plan *p, int l, float *ba, const float *bw,     \
    const float *bt, const float *w, const float *mass))                                          \
  X(FROZEN, void, shrink_from, (const miras__plan *p, float *w, const float *a, const float *b,   \
    float gamma, size_t n))                                                                       \
  X(FROZEN_BACK, float, shrink_from_bwd, (const miras__plan *p, float *ba, int add,               \
    const float *bw, const float *a, const float *b, float *bb, float gamma, size_t n))           \
  X(FROZEN, float, lq_fwd, (float *w, const float *a, float q, int pnorm, size_t n))              \
  X(FROZEN_BACK, void, lq_bwd, (float *ba, const float *bw, const float *a, const float *w,       \
    float binv, float q, int pnorm, size_t n))                                                    \
  X(FROZEN_BACK, void, sigmoid_bwd, (float *ba, const float *bw, const float *a, size_t n))       \
  X(FROZEN, void, divergence_step, (const miras__plan *p, float *w, float *bw, const float *w0,   \
    const float *a))                                                                              \
  X(FROZEN, void, log_weights, (float *a, const float *w, size_t n))                              \
  X(FROZEN_BACK, void, log_weights_bwd, (float *b, const float *w, size_t n))                     \
  X(FROZEN, void, channel_decay, (const miras__kernels *K, float *a, const float *before,         \
    const float *alpha, size_t m, size_t n))                                                      \
  X(BACK, void, channel_decay_bwd, (const miras__kernels *K, float *dalpha, float *ba,            \
    const float *a, const float *alpha, size_t m, size_t n))                                      \
  X(EXACT, void, channel_left, (const miras__kernels *K, float *last, float *c,                   \
    const float *alpha, size_t n, size_t r0, size_t m))                                           \
  X(EXACT, void, scalar_left, (const miras__kernels *K, float *last_c, float *last_l, float *c,   \
    float *l, size_t ld, const float *alpha, size_t r0, size_t m))                                \
  X(EXACT_BACK, void, weigh_bwd, (const miras__kernels *K, float *dl, float *dp, const float *l,  \
    const float *z, size_t ld, size_t rows, size_t first, size_t step, size_t n))                 \
  X(EXACT, void, normaliser, (const miras__kernels *K, float *den, const float *p, size_t ld,     \
    const float *eta, size_t rows, size_t first, size_t step))                                    \
  X(EXACT_BACK, void, normaliser_bwd, (const miras__kernels *K, float *deta, const float *dden,   \
    const float *p, size_t ld, size_t rows, size_t first, size_t step))                           \
  X(EXACT, void, invert, (float *y, size_t n))                                                    \
  X(ANY, void, channel_row, (const miras__channels *c, size_t r0, size_t i, int reads))           \
  X(ANY, void, channel_mix, (const miras__channels *c, float *to, const float *p, size_t row,     \
    const float *alpha))                                                                          \
  X(ANY, void, channel_rows, (const miras__kernels *K, const miras__channels *c, float *o,        \
    size_t ldo, size_t r0, size_t m))                                                             \
  X(BACK, void, channel_bwd, (const miras__channels *c, const miras__channel_grads *g, size_t m,  \
    float *history))                                                                              \
  X(ANY, void, diagonal, (float *alpha, float rate, const float *x, int decay_first, size_t n))   \
  X(ANY, void, both_fwd, (float *alpha, float *eta, float balance, size_t n))                     \
  X(BACK, void, both_bwd, (float *b_eta, const float *balpha, const float *alpha, float balance,   \
    size_t n))                                                                                    \
  X(EXACT, void, exact_solve, (int back, const miras__solve *s, size_t r0, size_t m))             \
  X(EXACT, void, fold_few, (size_t pairs, float *s, const float *c, size_t ld_c,                  \
    const float *const *x, const float *const *u, size_t n, size_t dv))                           \
  X(EXACT, void, fold_column, (float *z, const float *c, size_t ld_c, const float *eta,           \
    const float *l, const float *x, size_t rows, size_t n))                                       \
  X(EXACT_BACK, void, left_bwd, (float *ds, float *dc, float *dcv, const float *s0,               \
    const float *c, size_t ld_c, const float *cv, int column, size_t n, size_t dv))               \
  X(EXACT, void, linear_run, (const miras__plan *p, const miras__head_io *io, const float *base,  \
    float *s, float *row, size_t t, size_t end))                                                  \
  X(FROZEN, void, rest, (float *y, const float *a, float scale, size_t n))                        \
  X(MESA, void, decay_rows, (const miras__kernels *K, float *l, size_t ld, float *c,              \
    const float *alpha, const float *own, size_t r0, size_t m))                                   \
  X(BACK, void, decay_rows_bwd, (const miras__kernels *K, float *dl, size_t ld, float *dc,        \
    float *dalpha, float *down, const float *l, const float *c, const float *alpha, size_t m))    \
  X(MESA, void, conjugate_start, (const miras__conjugate *g))                                     \
  X(MESA, void, conjugate_step, (const miras__conjugate *g))                                      \
  X(MESA, int, conjugate_end, (const miras__conjugate *g, int last))                              \
  X(PAIRS, void, online_softmax, (float *s, float *top, float *sum, float *o, size_t dv,          \
    size_t count, size_t m))                                                                      \
  X(PAIRS, void, online_softmax_rows, (float *s, float *top, float *sum, float *o, size_t dv,     \
    size_t count, size_t m))                                                                      \
  X(PAIRS, void, softmax_mean, (const miras__kernels *K, float *o, size_t dv, float *top,         \
    float *sum, size_t m, const float *empty, size_t width))                                      \
  X(PAIRS_BACK, void, attend_bwd, (float *s, float *bs, const float *top, const float *sum,       \
    const float *along, size_t count, size_t m))                                                  \
  X(FROZEN, void, norm_rows, (float *y, size_t ldy, float *xh, float *rstd, const float *z,       \
    const float *gain, const float *bias, float epsilon, size_t rows, size_t n))                  \
  X(FROZEN, void, norm_project, (float *out, const float *y, const float *xh, const float *scale, \
    size_t rows, size_t n))                                                                       \
  X(FROZEN_BACK, void, norm_rows_begin2, (const miras__kernels *K, float *be,                     \
    const miras__norm2 *x))                                                                       \
  X(FROZEN_BACK, void, norm_rows_end2, (const miras__kernels *K, float *bz, const float *br,      \
    float *dgain, float *dbias, const miras__norm2 *x))                                           \
  X(FROZEN, void, row_rates, (int form, float *rate, float *slope, const float *rho, size_t row,  \
    size_t m, size_t descents))                                                                   \
  X(FROZEN, void, coefficients, (const miras__kernels *K, const miras__course *c, const float *g, \
    const float *n, const float *afh))                                                            \
  X(FROZEN_BACK, void, coefficients_bwd, (const miras__kernels *K, const miras__course *c,        \
    const miras__course_grads *b))                                                                \
  X(ANY, void, triangle, (float *p, float inv, const float *g, size_t ldg, const float *x,        \
    size_t ldx, size_t seen, size_t descents, size_t m))                                          \
  X(FROZEN_BACK, void, triangle_bwd, (float *bp, float *p, float *bg, float *binv, float inv,     \
    float sign, const float *g, const float *x, const miras__reads *r))                           \
  X(FROZEN, void, fade, (int by, float *to, const float *a, const float *home, size_t in,         \
    size_t out))                                                                                  \
  X(FROZEN_BACK, void, fade_bwd, (int by, float *b, float *ba, float *bhome, const float *a,      \
    const float *from, const float *home, float *row, size_t in, size_t out))                     \
  X(FROZEN, void, bound_fwd, (const miras__kernels *K, const miras__bound *x, float *u, float *v, \
    float *z))                                                                                    \
  X(FROZEN_BACK, void, bound_bwd, (const miras__kernels *K, const miras__bound *x,                \
    const miras__bound_grads *b, float *u, float *v, float *t1, float *t2))                       \
  X(FROZEN, void, bound_share, (float *share, float *eta, const float *along, const float *spent, \
    const float *strain, float c, size_t m, size_t wide))                                         \
  X(FROZEN_BACK, void, bound_share_bwd, (float *eta, float *b_eta, float *along, float *spent,     \
    float *strain, const float *share, float c, size_t m, size_t wide))                           \
  X(LAYER, void, rms_fwd, (float *y, size_t ldy, const miras__norm *x))                           \
  X(LAYER_BACK, void, rms_bwd, (float *dx, size_t lddx, const float *base, size_t ldbase,         \
    float *dgain, float *y, size_t ldy, const float *dy, size_t lddy, const miras__norm *x))      \
  X(LAYER, void, layer_norm_fwd, (float *y, size_t ldy, const miras__norm *x))                    \
  X(LAYER_BACK, void, layer_norm_bwd, (float *dx, size_t lddx, const float *base, size_t ldbase,  \
    const miras__norm_grads *g, float *y, size_t ldy, const float *dy, size_t lddy,               \
    const miras__norm *x))                                                                        \
  X(LAYER, void, squash_fwd, (int form, float *y, size_t ldy, size_t rows, size_t n))             \
  X(LAYER_BACK, void, squash_bwd, (int form, float *dy, size_t lddy, const float *y, size_t ldy,  \
    size_t rows, size_t n))                                                                       \
  X(LAYER, void, gated_norm_fwd, (float *m, size_t ldm, const miras__norm *x))                    \
  X(LAYER_BACK, void, gated_norm_bwd, (float *dy, size_t lddy, float *dg, size_t lddg,            \
    float *dgain, float *m, size_t ldm, float *dm, size_t lddm, const miras__norm *x))            \
  X(LAYER, void, swiglu_fwd, (float *s, size_t lds, const float *a, const float *b, size_t ld,    \
    size_t rows, size_t n))                                                                       \
  X(LAYER_BACK, void, swiglu_bwd, (float *ds, size_t lds, float *a, float *b, size_t ld,          \
    size_t rows, size_t n))                                                                       \
  X(LAYER, void, gate_rows_fwd, (int f, float *s, size_t lds, const float *a, size_t lda,         \
    const float *b, size_t ldb, size_t rows, size_t n))                                           \
  X(LAYER_BACK, void, gate_rows_bwd, (int f, float *ds, size_t lds, float *a, size_t lda,         \
    float *b, size_t ldb, size_t rows, size_t n))                                                 \
  X(LAYER, void, conv_fwd, (float *z, const miras__conv *x))                                      \
  X(LAYER_BACK, void, conv_bwd, (float *dc, size_t lddc, float *dw, float *dbias,                 \
    const float *dz, size_t after, float *sum, const miras__conv *x))                             \
  X(LAYER, void, unit_fwd, (float *x, float *inverse, float length, size_t rows, size_t n))       \
  X(LAYER_BACK, void, unit_bwd, (float *dx, const float *x, const float *inverse, float length,   \
    size_t rows, size_t n))                                                                       \
  X(LAYER, void, erase_fwd, (float *key, float *erase, float *replace, const miras__erasing *e))  \
  X(LAYER_BACK, void, erase_bwd, (float *dkey, float *derase, const float *dreplace, float *dc,   \
    size_t lddc, float *da, float *db, float *row, const float *erase, const miras__erasing *e))  \
  X(LAYER, void, widen, (int form, float *y, const unsigned char *x, size_t n))                    \
  X(LAYER, void, rotary, (float *y, size_t ldy, const float *x, size_t ldx, const float *angles,  \
    int way, size_t rows, size_t heads, size_t dim, size_t turn))                                 \
  X(LAYER, void, gates_fwd, (int form, float cap, float *y, float *g, size_t ld,                  \
    const float *offset, const float *c, size_t rows, size_t n))                                  \
  X(LAYER, void, complement, (int form, float cap, float *key, const float *gate, const float *g, \
    size_t ld, size_t rows, size_t n))                                                            \
  X(LAYER_BACK, void, gates_bwd, (int form, float cap, float *dy, const float *g, size_t ld,      \
    float *doffset, float *dc, const float *c, size_t rows, size_t n))                            \
  X(LAYER, float, cross_entropy, (float *x, size_t n, size_t target, float scale))                \
  X(LAYER_BACK, void, dropout, (float *y, const float *base, const float *x, uint64_t key,        \
    uint32_t limit, float scale, size_t n))                                                       \
  X(LAYER_BACK, void, adamw, (float *w, float *m, float *v, float *g, size_t n, const float *c))

#ifndef MIRAS__DEVICE
struct miras__kernels {
  const char *name;
#define MIRAS_X(part, result, name, arguments) result (*name) arguments;
  MIRAS__KERNELS(MIRAS_X)
#undef MIRAS_X
};
#endif

#endif   /* region B */

#if defined(MIRAS_IMPLEMENTATION) && !defined(MIRAS__ISA) && !defined(MIRAS__IMPLEMENTED)
/* The kernel rooms are compiled once per instruction set under the names that they have in the
 * text, to which this block adds the set's: miras__dot becomes miras__dot_avx2. A macro does not
 * expand within itself, so the text needs no more than this. What waits for memory or takes little
 * of a program's time is LENT: AVX-512 borrows it from AVX2, which has the same bits, and leaves
 * the text out (MIRAS__BORROWS). */
#define MIRAS__JOIN2(a, b) a##b
#define MIRAS__JOIN(a, b) MIRAS__JOIN2(a, b)
#define MIRAS__IN_SET(name) MIRAS__JOIN(name, MIRAS__SET_SUFFIX)
#define MIRAS__LENT(name) MIRAS__JOIN(name, MIRAS__LENT_SUFFIX)
#define miras__v_expm1_part MIRAS__IN_SET(miras__v_expm1_part)
#define miras__v_exp MIRAS__IN_SET(miras__v_exp)
#define miras__v_tanh MIRAS__IN_SET(miras__v_tanh)
#define miras__v_sigmoid MIRAS__IN_SET(miras__v_sigmoid)
#define miras__v_log_part MIRAS__IN_SET(miras__v_log_part)
#define miras__v_log MIRAS__IN_SET(miras__v_log)
#define miras__v_softplus MIRAS__IN_SET(miras__v_softplus)
#define miras__v_clamp MIRAS__IN_SET(miras__v_clamp)
#define miras__v_silu MIRAS__IN_SET(miras__v_silu)
#define miras__v_silu_d MIRAS__IN_SET(miras__v_silu_d)
#define miras__v_silu_dd MIRAS__IN_SET(miras__v_silu_dd)
#define miras__v_gelu_inner MIRAS__IN_SET(miras__v_gelu_inner)
#define miras__v_gelu MIRAS__IN_SET(miras__v_gelu)
#define miras__v_gelu_d MIRAS__IN_SET(miras__v_gelu_d)
#define miras__v_gelu_dd MIRAS__IN_SET(miras__v_gelu_dd)
#define miras__dot MIRAS__IN_SET(miras__dot)
#define miras__sum MIRAS__IN_SET(miras__sum)
#define miras__axpy MIRAS__IN_SET(miras__axpy)
#define miras__scale MIRAS__IN_SET(miras__scale)
#define miras__add MIRAS__IN_SET(miras__add)
#define miras__mul MIRAS__IN_SET(miras__mul)
#define miras__muladd MIRAS__IN_SET(miras__muladd)
#define miras__fill MIRAS__IN_SET(miras__fill)
#define miras__flush MIRAS__IN_SET(miras__flush)
#define miras__copy MIRAS__IN_SET(miras__copy)
#define miras__copy_rows MIRAS__LENT(miras__copy_rows)
#define miras__copy_each MIRAS__LENT(miras__copy_each)
#define miras__fill_rows MIRAS__IN_SET(miras__fill_rows)
#define miras__spread_rows MIRAS__IN_SET(miras__spread_rows)
#define miras__add_rows MIRAS__IN_SET(miras__add_rows)
#define miras__mul_rows MIRAS__IN_SET(miras__mul_rows)
#define miras__muladd_rows MIRAS__IN_SET(miras__muladd_rows)
#define miras__scale_rows MIRAS__IN_SET(miras__scale_rows)
#define miras__axpy_rows MIRAS__IN_SET(miras__axpy_rows)
#define miras__dot_rows MIRAS__IN_SET(miras__dot_rows)
#define miras__sum_rows MIRAS__IN_SET(miras__sum_rows)
#define miras__mask_rows MIRAS__LENT(miras__mask_rows)
#define miras__feature_fwd MIRAS__IN_SET(miras__feature_fwd)
#define miras__feature_rows MIRAS__IN_SET(miras__feature_rows)
#define miras__feature_rows_bwd MIRAS__LENT(miras__feature_rows_bwd)
#define miras__implicit MIRAS__IN_SET(miras__implicit)
#define miras__implicit_rows MIRAS__IN_SET(miras__implicit_rows)
#define miras__map MIRAS__IN_SET(miras__map)
#define miras__act_grad MIRAS__IN_SET(miras__act_grad)
#define miras__act_grad2 MIRAS__LENT(miras__act_grad2)
#define miras__top MIRAS__IN_SET(miras__top)
#define miras__exp_sum MIRAS__IN_SET(miras__exp_sum)
#define miras__softmax MIRAS__IN_SET(miras__softmax)
#define miras__sub MIRAS__IN_SET(miras__sub)
#define miras__any MIRAS__LENT(miras__any)
#define miras__tile MIRAS__IN_SET(miras__tile)
#define miras__any_tile MIRAS__IN_SET(miras__any_tile)
#define miras__pack MIRAS__IN_SET(miras__pack)
#define miras__gemm_row_part MIRAS__IN_SET(miras__gemm_row_part)
#define miras__gemm_row MIRAS__IN_SET(miras__gemm_row)
#define miras__gemm_tiles MIRAS__IN_SET(miras__gemm_tiles)
#define miras__gemm_outer MIRAS__IN_SET(miras__gemm_outer)
#define miras__gemm MIRAS__IN_SET(miras__gemm)
#define miras__length_factor MIRAS__IN_SET(miras__length_factor)
#define miras__v_power MIRAS__IN_SET(miras__v_power)
#define miras__v_sech2 MIRAS__LENT(miras__v_sech2)
#define miras__hypotenuse MIRAS__LENT(miras__hypotenuse)
#define miras__bias_row MIRAS__LENT(miras__bias_row)
#define miras__v_delta MIRAS__LENT(miras__v_delta)
#define miras__bias_dot MIRAS__LENT(miras__bias_dot)
#define miras__bias_dot_bwd MIRAS__LENT(miras__bias_dot_bwd)
#define miras__bias_l2 MIRAS__LENT(miras__bias_l2)
#define miras__bias_l2_bwd MIRAS__LENT(miras__bias_l2_bwd)
#define miras__bias_lp MIRAS__LENT(miras__bias_lp)
#define miras__bias_lp_bwd MIRAS__LENT(miras__bias_lp_bwd)
#define miras__bias_lp_smooth MIRAS__LENT(miras__bias_lp_smooth)
#define miras__bias_lp_smooth_bwd MIRAS__LENT(miras__bias_lp_smooth_bwd)
#define miras__bias_huber MIRAS__LENT(miras__bias_huber)
#define miras__bias_huber_bwd MIRAS__LENT(miras__bias_huber_bwd)
#define miras__v_hypotenuse MIRAS__LENT(miras__v_hypotenuse)
#define miras__bias_norm_each_bwd MIRAS__LENT(miras__bias_norm_each_bwd)
#define miras__bias_huber_norm MIRAS__LENT(miras__bias_huber_norm)
#define miras__bias_huber_norm_bwd MIRAS__LENT(miras__bias_huber_norm_bwd)
#define miras__bias_huber_mixture MIRAS__LENT(miras__bias_huber_mixture)
#define miras__bias_huber_mixture_bwd MIRAS__LENT(miras__bias_huber_mixture_bwd)
#define miras__bias_pseudo_huber MIRAS__LENT(miras__bias_pseudo_huber)
#define miras__bias_pseudo_huber_bwd MIRAS__LENT(miras__bias_pseudo_huber_bwd)
#define miras__bias_shift MIRAS__LENT(miras__bias_shift)
#define miras__bias_shift_bwd MIRAS__LENT(miras__bias_shift_bwd)
#define miras__bias_log_cosh MIRAS__LENT(miras__bias_log_cosh)
#define miras__bias_log_cosh_bwd MIRAS__LENT(miras__bias_log_cosh_bwd)
#define miras__bias_custom MIRAS__LENT(miras__bias_custom)
#define miras__bias_custom_bwd MIRAS__LENT(miras__bias_custom_bwd)
#define miras__biases MIRAS__LENT(miras__biases)
#define miras__bias_rows MIRAS__LENT(miras__bias_rows)
#define miras__norm_q MIRAS__IN_SET(miras__norm_q)
#define miras__v_hyperbolic MIRAS__IN_SET(miras__v_hyperbolic)
#define miras__signed_fwd MIRAS__IN_SET(miras__signed_fwd)
#define miras__simplex_fwd MIRAS__IN_SET(miras__simplex_fwd)
#define miras__simplex_bwd MIRAS__IN_SET(miras__simplex_bwd)
#define miras__v_atan MIRAS__IN_SET(miras__v_atan)
#define miras__shrink_from MIRAS__IN_SET(miras__shrink_from)
#define miras__shrink_from_bwd MIRAS__IN_SET(miras__shrink_from_bwd)
#define miras__lq_fwd MIRAS__IN_SET(miras__lq_fwd)
#define miras__lq_bwd MIRAS__IN_SET(miras__lq_bwd)
#define miras__sigmoid_bwd MIRAS__IN_SET(miras__sigmoid_bwd)
#define miras__log_weights MIRAS__IN_SET(miras__log_weights)
#define miras__log_weights_bwd MIRAS__IN_SET(miras__log_weights_bwd)
#define miras__channel_part MIRAS__IN_SET(miras__channel_part)
#define miras__channel_step MIRAS__IN_SET(miras__channel_step)
#define miras__channel_row MIRAS__IN_SET(miras__channel_row)
#define miras__channel_mix MIRAS__IN_SET(miras__channel_mix)
#define miras__channel_bwd MIRAS__IN_SET(miras__channel_bwd)
#define miras__diagonal MIRAS__IN_SET(miras__diagonal)
#define miras__both_fwd MIRAS__IN_SET(miras__both_fwd)
#define miras__both_bwd MIRAS__IN_SET(miras__both_bwd)
#define miras__exact_strip MIRAS__IN_SET(miras__exact_strip)
#define miras__exact_solve MIRAS__IN_SET(miras__exact_solve)
#define miras__fold_strip MIRAS__IN_SET(miras__fold_strip)
#define miras__fold_few MIRAS__IN_SET(miras__fold_few)
#define miras__linear_run MIRAS__IN_SET(miras__linear_run)
#define miras__fold_column MIRAS__LENT(miras__fold_column)
#define miras__left_bwd MIRAS__LENT(miras__left_bwd)
#define miras__linear MIRAS__IN_SET(miras__linear)
#define miras__linear_pass MIRAS__IN_SET(miras__linear_pass)
#define miras__rest MIRAS__IN_SET(miras__rest)
#define miras__online_softmax MIRAS__IN_SET(miras__online_softmax)
#define miras__online_softmax_rows MIRAS__IN_SET(miras__online_softmax_rows)
#define miras__attend_bwd MIRAS__IN_SET(miras__attend_bwd)
#define miras__norm_rows MIRAS__LENT(miras__norm_rows)
#define miras__norm_project MIRAS__LENT(miras__norm_project)
#define miras__triangle MIRAS__LENT(miras__triangle)
#define miras__conjugate_start MIRAS__IN_SET(miras__conjugate_start)
#define miras__conjugate_step MIRAS__IN_SET(miras__conjugate_step)
#define miras__fade MIRAS__LENT(miras__fade)
#define miras__fade_bwd MIRAS__LENT(miras__fade_bwd)
#define miras__dot3 MIRAS__LENT(miras__dot3)
#define miras__rms_inverse MIRAS__IN_SET(miras__rms_inverse)
#define miras__rms_fwd MIRAS__LENT(miras__rms_fwd)
#define miras__rms_bwd_row MIRAS__LENT(miras__rms_bwd_row)
#define miras__rms_along MIRAS__LENT(miras__rms_along)
#define miras__rms_bwd MIRAS__LENT(miras__rms_bwd)
#define miras__off MIRAS__LENT(miras__off)
#define miras__square_off MIRAS__LENT(miras__square_off)
#define miras__layer_norm_fwd MIRAS__LENT(miras__layer_norm_fwd)
#define miras__layer_norm_known MIRAS__LENT(miras__layer_norm_known)
#define miras__layer_norm_bwd_row MIRAS__LENT(miras__layer_norm_bwd_row)
#define miras__layer_norm_bwd MIRAS__LENT(miras__layer_norm_bwd)
#define miras__squash_fwd MIRAS__LENT(miras__squash_fwd)
#define miras__squash_bwd MIRAS__LENT(miras__squash_bwd)
#define miras__out_gate MIRAS__IN_SET(miras__out_gate)
#define miras__gated_norm_fwd MIRAS__IN_SET(miras__gated_norm_fwd)
#define miras__gated_norm_bwd MIRAS__LENT(miras__gated_norm_bwd)
#define miras__swiglu_fwd MIRAS__IN_SET(miras__swiglu_fwd)
#define miras__swiglu_bwd MIRAS__IN_SET(miras__swiglu_bwd)
#define miras__gate_rows_fwd MIRAS__IN_SET(miras__gate_rows_fwd)
#define miras__gate_rows_bwd MIRAS__IN_SET(miras__gate_rows_bwd)
#define miras__conv_sum MIRAS__IN_SET(miras__conv_sum)
#define miras__mix MIRAS__IN_SET(miras__mix)
#define miras__mix_slope MIRAS__IN_SET(miras__mix_slope)
#define miras__conv_fwd MIRAS__IN_SET(miras__conv_fwd)
#define miras__conv_bwd MIRAS__IN_SET(miras__conv_bwd)
#define miras__unit_fwd MIRAS__LENT(miras__unit_fwd)
#define miras__unit_bwd MIRAS__LENT(miras__unit_bwd)
#define miras__erase_fwd MIRAS__LENT(miras__erase_fwd)
#define miras__erase_bwd MIRAS__LENT(miras__erase_bwd)
#define miras__half_to_float MIRAS__IN_SET(miras__half_to_float)
#define miras__widen_block MIRAS__IN_SET(miras__widen_block)
#define miras__widen MIRAS__IN_SET(miras__widen)
#define miras__rotary MIRAS__LENT(miras__rotary)
#define miras__gate_form MIRAS__IN_SET(miras__gate_form)
#define miras__gate_form_of MIRAS__IN_SET(miras__gate_form_of)
#define miras__gates_fwd MIRAS__IN_SET(miras__gates_fwd)
#define miras__complement MIRAS__LENT(miras__complement)
#define miras__gates_bwd MIRAS__LENT(miras__gates_bwd)
#define miras__cross_entropy MIRAS__IN_SET(miras__cross_entropy)
#define miras__dropout MIRAS__LENT(miras__dropout)
#define miras__transpose MIRAS__LENT(miras__transpose)
#define miras__adamw MIRAS__LENT(miras__adamw)
#define miras__lane_of MIRAS__IN_SET(miras__lane_of)
#define miras__most MIRAS__IN_SET(miras__most)
#define miras__front MIRAS__IN_SET(miras__front)
#define miras__load_n MIRAS__IN_SET(miras__load_n)
#define miras__store_n MIRAS__IN_SET(miras__store_n)
#define miras__pow2 MIRAS__IN_SET(miras__pow2)
#define miras__logb MIRAS__IN_SET(miras__logb)
#define miras__fraction MIRAS__IN_SET(miras__fraction)
#define miras__transpose4 MIRAS__IN_SET(miras__transpose4)
#define miras__fold MIRAS__IN_SET(miras__fold)
#define miras__fold_max MIRAS__IN_SET(miras__fold_max)
#define miras__first MIRAS__IN_SET(miras__first)
#define miras__quads MIRAS__IN_SET(miras__quads)
#define miras__halves MIRAS__IN_SET(miras__halves)
#define miras__min MIRAS__IN_SET(miras__min)
#define miras__max MIRAS__IN_SET(miras__max)
#define miras__vf MIRAS__IN_SET(miras__vf)
#define miras__vm MIRAS__IN_SET(miras__vm)
#define miras__kernel_table MIRAS__IN_SET(miras__kernel_table)

/* What stands before and behind a pass: MIRAS__TARGET(sets) for sets that the flags may not name.
 * Bare cc means -O0, where vector code is slower than plain C at -O2. The kernels are therefore
 * compiled with -O2 whatever the flags say; define MIRAS_DEBUG to step through them. GCC only. */
#define MIRAS__PRAGMA(x) _Pragma(#x)
#if defined(__GNUC__) && !defined(__clang__) && !defined(__OPTIMIZE__) && !defined(MIRAS_DEBUG)
  #define MIRAS__RAISE    /* by pragmas in lines of their own: gcc loses one behind a target's    */
#endif
#if defined(__clang__)
  #define MIRAS__PASS
  #define MIRAS__PASS_END
  #define MIRAS__TARGET(sets) \
    MIRAS__PRAGMA(clang attribute push(__attribute__((target(sets))), apply_to = function))
  #define MIRAS__TARGET_END _Pragma("clang attribute pop")
#elif defined(__GNUC__)
  #define MIRAS__PASS _Pragma("GCC push_options")
  #define MIRAS__PASS_END _Pragma("GCC pop_options")
  #define MIRAS__TARGET(sets) _Pragma("GCC push_options") MIRAS__PRAGMA(GCC target(sets))
  #define MIRAS__TARGET_END MIRAS__PASS_END
#else
  #define MIRAS__PASS
  #define MIRAS__PASS_END
#endif

/* Compile the kernel rooms once per instruction set, by including this very file with MIRAS__ISA
 * set: 1 portable, 2 AVX2, 3 AVX-512, 4 NEON. */
#ifdef MIRAS_NO_SELF_INCLUDE
  #define MIRAS__ISA 1
#else
  #ifndef MIRAS_SELF
    #define MIRAS_SELF "miras.h"
  #endif
  #define MIRAS__KERNEL_PASS

  MIRAS__PASS
  #ifdef MIRAS__RAISE
    #pragma GCC optimize("O2")
  #endif
  #define MIRAS__ISA 1
  #include MIRAS_SELF   /* not found? the file was renamed: define MIRAS_SELF as "its name" */
  MIRAS__PASS_END

  #if MIRAS__X86
    MIRAS__TARGET("avx2,fma")
    #ifdef MIRAS__RAISE
      #pragma GCC optimize("O2")
    #endif
    #define MIRAS__ISA 2
    #include MIRAS_SELF
    MIRAS__TARGET_END
  #endif

  #if MIRAS__X86 && !defined(MIRAS_NO_AVX512)
    MIRAS__TARGET("avx2,fma,avx512f,avx512vl,avx512dq,avx512bw")
    #ifdef MIRAS__RAISE
      #pragma GCC optimize("O2")
    #endif
    #if defined(__GNUC__) && !defined(__clang__)
      /* GCC's own header trips these; the other sets compile the same kernels with them on. */
      #pragma GCC diagnostic push
      #pragma GCC diagnostic ignored "-Wsign-conversion"
      #pragma GCC diagnostic ignored "-Wuninitialized"
      #pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
    #endif
    #define MIRAS__ISA 3
    #include MIRAS_SELF
    #if defined(__GNUC__) && !defined(__clang__)
      #pragma GCC diagnostic pop
    #endif
    MIRAS__TARGET_END
  #endif

  #if MIRAS__NEON
    MIRAS__PASS
    #ifdef MIRAS__RAISE
      #pragma GCC optimize("O2")
    #endif
    #define MIRAS__ISA 4
    #include MIRAS_SELF
    MIRAS__PASS_END
  #endif

  #undef MIRAS__KERNEL_PASS
#endif
#endif   /* region C */

#ifdef MIRAS__ISA
/* @21 VECTOR VOCABULARY ------------------------------------------------------------ needs 20 -- */

/* The only place with intrinsics. Kernels are written in these words:
 *   vf, vm                  a vector of V_W floats, a mask of V_W lanes
 *   V_R                     vectors in 16 lanes: reductions run over 16 lanes on every set
 *   V_LOAD(p) V_STORE(p, v) any alignment
 *   V_LOAD_N(p, n)          the first n > 0 lanes (all, when n >= V_W); the others read 0 and
 *   V_STORE_N(p, v, n)      memory behind them is not touched
 *   V_FMA(a, b, c)          a * b + c, rounded once (twice in the portable set)
 *   V_FNMA(a, b, c)         c - a * b, likewise
 *   V_MIN(a, b)             a < b ? a : b, so a NaN on either side gives b; V_MAX(a, b) alike
 *   V_LT(a, b) V_LE(a, b)   masks, false for NaN; V_SELECT(m, a, b) is m ? a : b
 *   V_COPYSIGN(m, s)        the size of m with the sign of s
 *   V_ROUND(a)              to the nearest whole number
 *   V_LOGB(x)               the whole part of x's logarithm to base 2: x = fraction * 2^logb with
 *                           fraction in [sqrt(1/2), sqrt(2)), x normal, > 0
 *   miras__pow2(n)          2^n for whole n in -126..127
 *   miras__fraction(x)      the fraction of x
 *   miras__transpose4(d, ldd, s, lds)   d[k * ldd + j] = s[j * lds + k] for k < 4, j < V_W
 *   fold(v[V_R])            the sum of 16 lanes: 16 -> 8 -> 4 -> 2 -> 1 by halves
 *   fold_max(v[V_R])        their maximum
 *   V_MOST(v)               the largest lane of one vector of numbers >= 0
 *   V_LANE(v, r)            lane r of v
 *   V_FRONT(v, n)           the first n lanes of v, and zeros
 *   V_FETCH(p, write)       the cache line of p is wanted soon, to be written or not
 * On a device the lanes of a vector are threads, numbers are what all of them know, and
 *   V_SYNC()                what any lane has stored before, all lanes read behind it; who calls an
 *                           entry of the table does so before and after
 *   V_KEEP(to, value)       to = value of a number in memory that the value is made of
 *   V_UNIT V_UNITS          which vector of threads this is, of those that run a kernel that says
 *   V_MEET()                so; there they wait for each other
 * Tiles of the matrix product are up to K_ROWS4 rows when they are 4 vectors wide,
 * K_ROWS2 when 2, K_ROWS1 when 1: rows * width accumulators, one row of B and one element of A must
 * fit the registers, and at least 8 accumulators hide the latency of the multiply-add.
 */

#if MIRAS__ISA == 1

/* The portable set is the oracle of the others and stays scalar. GCC 12 at -O3 would vectorise the
 * strided loads of the matrix product and read past the end of B. */
#if defined(__GNUC__) && !defined(__clang__)
  #pragma GCC push_options
  #pragma GCC optimize("no-tree-vectorize")
#endif

#define MIRAS__SET_SUFFIX _portable
#define MIRAS__LENT_SUFFIX _portable
#define MIRAS__ISA_NAME "portable"
typedef float miras__vf;
typedef int miras__vm;
#define V_W 1
#define V_MATHS static
#define K_ROWS4 2
#define K_ROWS2 4
#define K_ROWS1 4
#ifdef __OPTIMIZE_SIZE__
  #define V_UNROLL
#else
  #define V_UNROLL MIRAS__UNROLL
#endif

static inline float miras__load_n(const float *p, size_t n) {
  (void)n;
  return *p;
}
static inline void miras__store_n(float *p, float v, size_t n) {
  (void)n;
  *p = v;
}
static inline float miras__pow2(float n) {
  int32_t bits = ((int32_t)n + 127) * (1 << 23);
  float v;
  memcpy(&v, &bits, sizeof v);
  return v;
}
static inline int32_t miras__logb(float x) {
  int32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return (bits - 0x3f3504f3) >> 23;
}
static inline float miras__fraction(float x) {
  int32_t bits;
  memcpy(&bits, &x, sizeof bits);
  bits -= miras__logb(x) * (1 << 23);
  memcpy(&x, &bits, sizeof bits);
  return x;
}
static inline void miras__transpose4(float *d, size_t ldd, const float *s, size_t lds) {
  (void)lds;
  d[0] = s[0];
  d[ldd] = s[1];
  d[2 * ldd] = s[2];
  d[3 * ldd] = s[3];
}
static inline float miras__fold(const float *v) {
  float a[8];
  int i;
  for (i = 0; i < 8; i++) a[i] = v[i] + v[i + 8];
  for (i = 0; i < 4; i++) a[i] += a[i + 4];
  return (a[0] + a[2]) + (a[1] + a[3]);
}
static inline float miras__fold_max(const float *v) {
  float a = v[0];
  int i;
  for (i = 1; i < 16; i++) a = a < v[i] ? v[i] : a;
  return a;
}

#define V_ZERO() 0.0f
#define V_SET1(x) ((float)(x))
#define V_LOAD(p) (*(const float *)(p))
#define V_STORE(p, v) ((void)(*(p) = (v)))
#define V_ADD(a, b) ((a) + (b))
#define V_SUB(a, b) ((a) - (b))
#define V_MUL(a, b) ((a) * (b))
#define V_DIV(a, b) ((a) / (b))
#define V_FMA(a, b, c) ((a) * (b) + (c))
#define V_FNMA(a, b, c) ((c) - (a) * (b))
#define V_MIN(a, b) ((a) < (b) ? (a) : (b))
#define V_MAX(a, b) ((a) > (b) ? (a) : (b))
#define V_ABS(a) fabsf(a)
#define V_NEG(a) (-(a))
#define V_SQRT(a) sqrtf(a)
#define V_LT(a, b) ((a) < (b))
#define V_LE(a, b) ((a) <= (b))
#define V_SELECT(m, a, b) ((m) ? (a) : (b))
#define V_COPYSIGN(m, s) copysignf(m, s)
#if defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD == 0
  #define V_ROUND(a) (((a) + 12582912.0f) - 12582912.0f)   /* |a| < 2^22; no call of the library */
#else
  #define V_ROUND(a) rintf(a)      /* sums that are held with more digits would not round        */
#endif
#define V_LOGB(x) ((float)miras__logb(x))

#elif MIRAS__ISA == 2

#define MIRAS__SET_SUFFIX _avx2
#define MIRAS__LENT_SUFFIX _avx2
#define MIRAS__ISA_NAME "avx2"
typedef __m256 miras__vf;
typedef __m256 miras__vm;
#define V_W 8
#define V_MATHS static inline
#define V_UNROLL MIRAS__UNROLL
#define K_ROWS4 2   /* only for one or two rows: 6 x 2 + 2 + 1 is what 16 registers hold */
#define K_ROWS2 6
#define K_ROWS1 8
#define V_X86(word) _mm256_##word
#define V_INTS __m256i
#define V_BITS(a) _mm256_castps_si256(a)
#define V_FLOATS(a) _mm256_castsi256_ps(a)
#define V_CMP(a, b, how) _mm256_cmp_ps(a, b, how)
#define V_SELECT(m, a, b) _mm256_blendv_ps(b, a, m)
#define V_ROUND(a) _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)

static inline __m256i miras__first(size_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n < 8 ? (int)n : 8),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static inline __m256 miras__load_n(const float *p, size_t n) {
  return n >= 8 ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, miras__first(n));
}
static inline void miras__store_n(float *p, __m256 v, size_t n) {
  if (n >= 8) _mm256_storeu_ps(p, v);
  else if (n == 1) _mm_store_ss(p, _mm256_castps256_ps128(v));
  else _mm256_maskstore_ps(p, miras__first(n), v);
}
static inline __m256 miras__quads(const float *p, size_t lds) {
  __m256 low = _mm256_castps128_ps256(_mm_loadu_ps(p));
  return _mm256_insertf128_ps(low, _mm_loadu_ps(p + 4 * lds), 1);
}
static inline __m256 miras__halves(const __m256 *v, __m256 *high) {
  *high = v[1];
  return v[0];
}

#elif MIRAS__ISA == 3

#define MIRAS__SET_SUFFIX _avx512
#define MIRAS__LENT_SUFFIX _avx2
#define MIRAS__BORROWS 1
#define MIRAS__ISA_NAME "avx512"
typedef __m512 miras__vf;
typedef __mmask16 miras__vm;
#define V_W 16
#define V_MATHS static inline
#define V_UNROLL MIRAS__UNROLL
#define K_ROWS4 6   /* 6 x 4 + 4 + 1 of 32 registers */
#define K_ROWS2 8
#define K_ROWS1 8
#define V_X86(word) _mm512_##word
#define V_INTS __m512i
#define V_BITS(a) _mm512_castps_si512(a)
#define V_FLOATS(a) _mm512_castsi512_ps(a)
#define V_CMP(a, b, how) _mm512_cmp_ps_mask(a, b, how)
#define V_SELECT(m, a, b) _mm512_mask_blend_ps(m, b, a)
#define V_ROUND(a) _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)

static inline __mmask16 miras__first(size_t n) {
  return (__mmask16)(n < 16 ? (1u << n) - 1u : 0xffffu);
}
static inline __m512 miras__load_n(const float *p, size_t n) {
  return _mm512_maskz_loadu_ps(miras__first(n), p);
}
static inline void miras__store_n(float *p, __m512 v, size_t n) {
  _mm512_mask_storeu_ps(p, miras__first(n), v);
}
/* Three masked broadcasts, which unlike shuffles run on either vector port. */
static inline __m512 miras__quads(const float *p, size_t lds) {
  __m512 v = _mm512_castps128_ps512(_mm_loadu_ps(p));
  v = _mm512_mask_broadcast_f32x4(v, 0x00f0, _mm_loadu_ps(p + 4 * lds));
  v = _mm512_mask_broadcast_f32x4(v, 0x0f00, _mm_loadu_ps(p + 8 * lds));
  return _mm512_mask_broadcast_f32x4(v, 0xf000, _mm_loadu_ps(p + 12 * lds));
}
static inline __m256 miras__halves(const __m512 *v, __m256 *high) {
  *high = _mm512_extractf32x8_ps(v[0], 1);
  return _mm512_castps512_ps256(v[0]);
}

#elif MIRAS__ISA == 4

#define MIRAS__SET_SUFFIX _neon
#define MIRAS__LENT_SUFFIX _neon
#define MIRAS__ISA_NAME "neon"
typedef float32x4_t miras__vf;
typedef uint32x4_t miras__vm;
#define V_W 4
#define V_MATHS static inline
#define V_UNROLL MIRAS__UNROLL
#define K_ROWS4 6   /* 6 x 4 + 4 + 1 of 32 registers */
#define K_ROWS2 8
#define K_ROWS1 8

static inline float32x4_t miras__load_n(const float *p, size_t n) {
  float32x4_t v = vdupq_n_f32(0.0f);
  if (n >= 4) return vld1q_f32(p);
  if (n >= 2) v = vcombine_f32(vld1_f32(p), vdup_n_f32(0.0f));
  if (n == 3) v = vld1q_lane_f32(p + 2, v, 2);
  if (n == 1) v = vld1q_lane_f32(p, v, 0);
  return v;
}
static inline void miras__store_n(float *p, float32x4_t v, size_t n) {
  if (n >= 4) {
    vst1q_f32(p, v);
    return;
  }
  if (n >= 2) vst1_f32(p, vget_low_f32(v));
  if (n == 3) vst1q_lane_f32(p + 2, v, 2);
  if (n == 1) vst1q_lane_f32(p, v, 0);
}
static inline float32x4_t miras__pow2(float32x4_t n) {
  return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127)), 23));
}
static inline int32x4_t miras__logb(float32x4_t x) {
  return vshrq_n_s32(vsubq_s32(vreinterpretq_s32_f32(x), vdupq_n_s32(0x3f3504f3)), 23);
}
static inline float32x4_t miras__fraction(float32x4_t x) {
  return vreinterpretq_f32_s32(
      vsubq_s32(vreinterpretq_s32_f32(x), vshlq_n_s32(miras__logb(x), 23)));
}
static inline void miras__transpose4(float *d, size_t ldd, const float *s, size_t lds) {
  float32x4x2_t ab = vtrnq_f32(vld1q_f32(s), vld1q_f32(s + lds));
  float32x4x2_t ce = vtrnq_f32(vld1q_f32(s + 2 * lds), vld1q_f32(s + 3 * lds));
  vst1q_f32(d, vcombine_f32(vget_low_f32(ab.val[0]), vget_low_f32(ce.val[0])));
  vst1q_f32(d + ldd, vcombine_f32(vget_low_f32(ab.val[1]), vget_low_f32(ce.val[1])));
  vst1q_f32(d + 2 * ldd, vcombine_f32(vget_high_f32(ab.val[0]), vget_high_f32(ce.val[0])));
  vst1q_f32(d + 3 * ldd, vcombine_f32(vget_high_f32(ab.val[1]), vget_high_f32(ce.val[1])));
}
static inline float32x4_t miras__min(float32x4_t a, float32x4_t b) {
  return vbslq_f32(vcltq_f32(a, b), a, b);
}
static inline float32x4_t miras__max(float32x4_t a, float32x4_t b) {
  return vbslq_f32(vcgtq_f32(a, b), a, b);
}
static inline float miras__fold(const float32x4_t *v) {
  float32x4_t a = vaddq_f32(vaddq_f32(v[0], v[2]), vaddq_f32(v[1], v[3]));
  float32x2_t b = vadd_f32(vget_low_f32(a), vget_high_f32(a));
  return vget_lane_f32(b, 0) + vget_lane_f32(b, 1);
}
static inline float miras__fold_max(const float32x4_t *v) {
  return vmaxvq_f32(vmaxq_f32(vmaxq_f32(v[0], v[1]), vmaxq_f32(v[2], v[3])));
}

#define V_ZERO() vdupq_n_f32(0.0f)
#define V_SET1(x) vdupq_n_f32(x)
#define V_LOAD(p) vld1q_f32(p)
#define V_STORE(p, v) vst1q_f32(p, v)
#define V_ADD(a, b) vaddq_f32(a, b)
#define V_SUB(a, b) vsubq_f32(a, b)
#define V_MUL(a, b) vmulq_f32(a, b)
#define V_DIV(a, b) vdivq_f32(a, b)
#define V_FMA(a, b, c) vfmaq_f32(c, a, b)
#define V_FNMA(a, b, c) vfmsq_f32(c, a, b)
#define V_MIN(a, b) miras__min(a, b)
#define V_MAX(a, b) miras__max(a, b)
#define V_ABS(a) vabsq_f32(a)
#define V_NEG(a) vnegq_f32(a)
#define V_SQRT(a) vsqrtq_f32(a)
#define V_LT(a, b) vcltq_f32(a, b)
#define V_LE(a, b) vcleq_f32(a, b)
#define V_SELECT(m, a, b) vbslq_f32(m, a, b)
#define V_COPYSIGN(m, s) vbslq_f32(vdupq_n_u32(0x80000000u), s, m)
#define V_ROUND(a) vrndnq_f32(a)
#define V_LOGB(x) vcvtq_f32_s32(miras__logb(x))

#endif

#if MIRAS__ISA == 2 || MIRAS__ISA == 3   /* what differs in the width alone */
static inline miras__vf miras__pow2(miras__vf n) {
  V_INTS e = V_X86(add_epi32)(V_X86(cvtps_epi32)(n), V_X86(set1_epi32)(127));
  return V_FLOATS(V_X86(slli_epi32)(e, 23));
}
static inline V_INTS miras__logb(miras__vf x) {
  return V_X86(srai_epi32)(V_X86(sub_epi32)(V_BITS(x), V_X86(set1_epi32)(0x3f3504f3)), 23);
}
static inline miras__vf miras__fraction(miras__vf x) {
  return V_FLOATS(V_X86(sub_epi32)(V_BITS(x), V_X86(slli_epi32)(miras__logb(x), 23)));
}
/* Rows j, j + 4, .. share a register, so the shuffles stay inside 128-bit lanes. */
static inline void miras__transpose4(float *d, size_t ldd, const float *s, size_t lds) {
  miras__vf a = miras__quads(s, lds), b = miras__quads(s + lds, lds);
  miras__vf c = miras__quads(s + 2 * lds, lds), e = miras__quads(s + 3 * lds, lds);
  miras__vf ab0 = V_X86(unpacklo_ps)(a, b), ab1 = V_X86(unpackhi_ps)(a, b);
  miras__vf ce0 = V_X86(unpacklo_ps)(c, e), ce1 = V_X86(unpackhi_ps)(c, e);
  V_X86(storeu_ps)(d, V_X86(shuffle_ps)(ab0, ce0, 0x44));
  V_X86(storeu_ps)(d + ldd, V_X86(shuffle_ps)(ab0, ce0, 0xee));
  V_X86(storeu_ps)(d + 2 * ldd, V_X86(shuffle_ps)(ab1, ce1, 0x44));
  V_X86(storeu_ps)(d + 3 * ldd, V_X86(shuffle_ps)(ab1, ce1, 0xee));
}
static inline float miras__fold(const miras__vf *v) {
  __m256 high, a = miras__halves(v, &high);
  __m128 b;
  a = _mm256_add_ps(a, high);
  b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  b = _mm_add_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}
static inline float miras__fold_max(const miras__vf *v) {
  __m256 high, a = miras__halves(v, &high);
  __m128 b;
  a = _mm256_max_ps(a, high);
  b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  b = _mm_max_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}

#define V_ZERO() V_X86(setzero_ps)()
#define V_SET1(x) V_X86(set1_ps)(x)
#define V_LOAD(p) V_X86(loadu_ps)(p)
#define V_STORE(p, v) V_X86(storeu_ps)(p, v)
#define V_ADD(a, b) V_X86(add_ps)(a, b)
#define V_SUB(a, b) V_X86(sub_ps)(a, b)
#define V_MUL(a, b) V_X86(mul_ps)(a, b)
#define V_DIV(a, b) V_X86(div_ps)(a, b)
#define V_FMA(a, b, c) V_X86(fmadd_ps)(a, b, c)
#define V_FNMA(a, b, c) V_X86(fnmadd_ps)(a, b, c)
#define V_MIN(a, b) V_X86(min_ps)(a, b)
#define V_MAX(a, b) V_X86(max_ps)(a, b)
#define V_ABS(a) V_X86(andnot_ps)(V_SET1(-0.0f), a)
#define V_NEG(a) V_X86(xor_ps)(V_SET1(-0.0f), a)
#define V_SQRT(a) V_X86(sqrt_ps)(a)
#define V_LT(a, b) V_CMP(a, b, _CMP_LT_OQ)
#define V_LE(a, b) V_CMP(a, b, _CMP_LE_OQ)
#define V_COPYSIGN(m, s) V_X86(or_ps)(V_ABS(m), V_X86(and_ps)(V_SET1(-0.0f), s))
#define V_LOGB(x) V_X86(cvtepi32_ps)(miras__logb(x))
#endif

/* Where size is asked for, tiles come in two shapes, one vector wide and K_ROWS1 rows or one:
 * slower, with the same bits. */
#ifdef __OPTIMIZE_SIZE__
  #undef K_ROWS4
  #undef K_ROWS2
  #define K_ROWS4 0
  #define K_ROWS2 0
#endif

/* V_FOR(n) goes over n elements, vector by vector: V_AT(x) is the vector of x there, and
 * V_PUT(y, value) stores one. V_EACH(y, n, value), for what is quickly computed, is V_FOR(n)
 * V_PUT(y, value) with a loop of its own for whole vectors, except where size is asked for. What
 * is left behind those is written so that compilers see it end inside a vector. */
#define V_AT(x) miras__load_n((x) + v_at, v_left)
#define V_PUT(y, value) miras__store_n((y) + v_at, value, v_left)
#define V_FOR(n) \
  for (size_t v_at = (V_SYNC(), 0), v_left = (n); v_at < (n); v_at += V_W, v_left -= V_W)
#ifdef __OPTIMIZE_SIZE__
  #define V_EACH(y, n, value) V_FOR(n) V_PUT(y, value)
#else
  #define V_EACH(y, n, value) do { \
    size_t v_at = (V_SYNC(), 0), v_left = V_W; \
    for (; v_at + V_W <= (n); v_at += V_W) V_PUT(y, value); \
    v_left = (n) % V_W; \
    if (v_left) V_PUT(y, value); \
    V_SYNC(); \
  } while (0)
#endif

/* V_LANES(n, r, step): the step of a sum, for the vector at V_AT that belongs to lane[r]. */
#ifdef __OPTIMIZE_SIZE__
  #define V_LANES(n, r, step) V_FOR(n) r = v_at / V_W % V_R, step
#else
  #define V_LANES(n, r, step) do { \
    size_t v_from = (V_SYNC(), 0), v_at, v_left = V_W; \
    for (; v_from + 16 <= (n); v_from += 16) \
      V_UNROLL for (r = 0; r < V_R; r++) v_at = v_from + r * V_W, step; \
    V_UNROLL for (r = 0; r < V_R; r++) { \
      v_at = v_from + r * V_W; \
      if (r * V_W < (n) % 16) v_left = (n) % 16 - r * V_W, step; \
    } \
  } while (0)
#endif

#define vf miras__vf
#define vm miras__vm
#if MIRAS__ISA < 5
static MIRAS__UNUSED float miras__lane_of(vf v, size_t r) {
  float lane[V_W];
  V_STORE(lane, v);
  return lane[r];
}
static MIRAS__UNUSED float miras__most(vf v) {
  float lane[V_W], most = 0;
  size_t r;
  V_STORE(lane, v);
  for (r = 0; r < V_W; r++) most = lane[r] > most ? lane[r] : most;
  return most;
}
static MIRAS__UNUSED vf miras__front(vf v, size_t n) {
  float lane[V_W];
  V_STORE(lane, V_ZERO());
  miras__store_n(lane, v, n);
  return V_LOAD(lane);
}
#define V_LANE(v, r) miras__lane_of(v, r)
#define V_MOST(v) miras__most(v)
#define V_FRONT(v, n) miras__front(v, n)
#ifdef __GNUC__
  #define V_FETCH(p, write) __builtin_prefetch(p, write)
#else
  #define V_FETCH(p, write) ((void)0)
#endif
#define V_SYNC() ((void)0)
#define V_KEEP(to, value) ((void)((to) = (value)))
#define V_UNIT 0
#define V_UNITS 1
#define V_MEET() ((void)0)
#endif
/* V_FOR by all units of a block, in turn (there is one, but on a GPU): what kernels say whose
 * vectors do not see each other. */
#define V_SHARE(n) \
  for (size_t v_at = (V_SYNC(), V_UNIT * V_W), v_left = (n) - v_at; v_at < (n); \
       v_at += V_UNITS * V_W, v_left -= V_UNITS * V_W)
#define MIRAS__COMMON (MIRAS__ISA == 1 || MIRAS__ISA == 5)
#define V_R (16 / V_W)
#define V_LOAD_N(p, n) miras__load_n(p, n)
#define V_STORE_N(p, v, n) miras__store_n(p, v, n)

/* @22 VECTOR MATHS ----------------------------------------------------------------- needs 21 -- */

/* V_MATHS stands before what loops should hold rather than call; in the portable set nothing is.
 * Total functions: any float goes in; NaN comes out only where NaN went in or the logarithm of a
 * negative number was asked for; overflow gives the limit. Every set runs the same operations in
 * the same order, so the sets with fused multiply-add agree bit for bit. The polynomials are
 * minimax fits of the stated relative error. Largest error found over a million floats of every
 * size and sign, all sets, in units in the last place of the result:
 *   exp 0.95   log 0.77   tanh 2.3   sigmoid 2.3   softplus 1.6
 * and in units in the last place of the larger of 1 and the result:
 *   gelu 1.7, gelu' 1.7, gelu'' 2.3   silu 1.8, silu' 1.4, silu'' 1.1
 * tests/test_kernels.c holds them to it. */

/* x = n ln 2 + r with |r| <= ln(2)/2; returns e^r - 1, relative error 3e-9 before rounding. */
static inline vf miras__v_expm1_part(vf x, vf *n) {
  vf k = V_ROUND(V_MUL(x, V_SET1(1.44269504f))), r, q;
  r = V_FNMA(k, V_SET1(0.693359375f), x);   /* 355/512: k times it is exact */
  r = V_FNMA(k, V_SET1(-2.12194440e-4f), r);
  q = V_SET1(1.3814537971e-3f);
  q = V_FMA(q, r, V_SET1(8.3687450789e-3f));
  q = V_FMA(q, r, V_SET1(4.1668390811e-2f));
  q = V_FMA(q, r, V_SET1(1.6666520399e-1f));
  q = V_FMA(q, r, V_SET1(4.9999993432e-1f));
  *n = k;
  return V_FMA(V_MUL(r, r), q, r);
}

/* e^x. The scale goes on in two halves, so that results below FLT_MIN are rounded once. */
V_MATHS vf miras__v_exp(vf x) {
  vf n, half, y;
  y = miras__v_expm1_part(V_MIN(V_MAX(x, V_SET1(-105.0f)), V_SET1(89.0f)), &n);
  half = V_ROUND(V_MUL(n, V_SET1(0.5f)));
  y = V_MUL(V_ADD(V_SET1(1.0f), y), miras__pow2(half));
  y = V_MUL(y, miras__pow2(V_SUB(n, half)));
  return V_SELECT(V_LE(x, x), y, x);
}

/* e^a - 1 = 2^n (e^r - 1) + (2^n - 1) keeps its relative accuracy down to 0, and with it
 * tanh |x| = m / (m + 2), m = e^(2|x|) - 1. */
static vf miras__v_tanh(vf x) {
  vf n, m, scale, a = V_MIN(V_ABS(x), V_SET1(10.0f));
  m = miras__v_expm1_part(V_ADD(a, a), &n);
  scale = miras__pow2(n);
  m = V_FMA(m, scale, V_SUB(scale, V_SET1(1.0f)));
  m = V_DIV(m, V_ADD(m, V_SET1(2.0f)));
  return V_SELECT(V_LE(x, x), V_COPYSIGN(m, x), x);
}

/* 1 / (1 + e^-x), from e^-|x|, which neither overflows nor cancels. */
V_MATHS vf miras__v_sigmoid(vf x) {
  vf e = miras__v_exp(V_NEG(V_ABS(x)));
  vf s = V_DIV(V_SET1(1.0f), V_ADD(V_SET1(1.0f), e));
  return V_SELECT(V_LT(x, V_ZERO()), V_MUL(e, s), s);
}

/* n ln 2 + log(1 + f), f in [sqrt(1/2) - 1, sqrt(2) - 1]; relative error 6e-9 before rounding. */
static inline vf miras__v_log_part(vf f, vf n) {
  vf p, square = V_MUL(f, f);
  p = V_SET1(-7.6345019325e-2f);
  p = V_FMA(p, f, V_SET1(1.2761579088e-1f));
  p = V_FMA(p, f, V_SET1(-1.3160181262e-1f));
  p = V_FMA(p, f, V_SET1(1.4201757207e-1f));
  p = V_FMA(p, f, V_SET1(-1.6623357457e-1f));
  p = V_FMA(p, f, V_SET1(2.0001226889e-1f));
  p = V_FMA(p, f, V_SET1(-2.5000821030e-1f));
  p = V_FMA(p, f, V_SET1(3.3333331707e-1f));
  p = V_FMA(V_MUL(p, f), square, V_MUL(n, V_SET1(-2.12194440e-4f)));
  p = V_FNMA(V_SET1(0.5f), square, p);
  return V_FMA(n, V_SET1(0.693359375f), V_ADD(f, p));
}

/* log x; -infinity at 0, NaN below. */
V_MATHS vf miras__v_log(vf x) {
  vf y, n, a = V_MIN(V_MAX(x, V_SET1(1.40129846e-45f)), V_SET1(FLT_MAX));
  vm low = V_LT(a, V_SET1(FLT_MIN));
  a = V_SELECT(low, V_MUL(a, V_SET1(16777216.0f)), a);
  n = V_SUB(V_LOGB(a), V_SELECT(low, V_SET1(24.0f), V_ZERO()));
  y = miras__v_log_part(V_SUB(miras__fraction(a), V_SET1(1.0f)), n);
  y = V_SELECT(V_LE(x, V_SET1(FLT_MAX)), y, x);
  y = V_SELECT(V_LE(x, V_ZERO()), V_SET1(-HUGE_VALF), y);
  return V_SELECT(V_LT(x, V_ZERO()), V_SET1(NAN), y);
}

/* log(1 + e^x) = max(x, 0) + log(1 + t), t = e^-|x|; 1 + t is 2 (1 + f) with f = (t - 1)/2 when it
 * is nearer to 2, and f = t loses nothing when t is small. */
static vf miras__v_softplus(vf x) {
  vf t = miras__v_exp(V_NEG(V_ABS(x))), one = V_SET1(1.0f), f;
  vm upper = V_LT(V_SET1(0.414213562f), t);
  f = V_SELECT(upper, V_MUL(V_SET1(0.5f), V_SUB(t, one)), t);
  f = miras__v_log_part(f, V_SELECT(upper, one, V_ZERO()));
  return V_ADD(V_MAX(x, V_ZERO()), f);
}

/* silu(x) = x s, s = sigmoid(x). Beyond |x| = 110 the value is the limit in float; clamping there
 * keeps infinity times zero out. */
static inline vf miras__v_clamp(vf x, float limit) {
  return V_MIN(V_SET1(limit), V_MAX(V_SET1(-limit), x));   /* NaN stays: it is the second operand */
}

V_MATHS vf miras__v_silu(vf x) {
  return V_MUL(V_MAX(V_SET1(-110.0f), x), miras__v_sigmoid(x));
}

/* s + x s(1 - s); 1 - s is sigmoid(-x), from the same exponential. */
static vf miras__v_silu_d(vf x) {
  vf one = V_SET1(1.0f), a = miras__v_clamp(x, 110.0f);
  vf e = miras__v_exp(V_NEG(V_ABS(a))), h = V_DIV(one, V_ADD(one, e)), l = V_MUL(e, h);
  return V_FMA(V_MUL(a, h), l, V_SELECT(V_LT(a, V_ZERO()), l, h));
}

/* s(1 - s) (2 + x (1 - 2s)); x (1 - 2s) is -|x| (h - l), h the larger and l the smaller of s and
 * 1 - s. */
V_MATHS vf miras__v_silu_dd(vf x) {
  vf one = V_SET1(1.0f), a = V_ABS(miras__v_clamp(x, 110.0f));
  vf e = miras__v_exp(V_NEG(a)), h = V_DIV(one, V_ADD(one, e)), l = V_MUL(e, h);
  return V_MUL(V_MUL(h, l), V_FNMA(a, V_SUB(h, l), V_SET1(2.0f)));
}

/* gelu(x) = x/2 (1 + tanh u) = x sigmoid(w), w = 2u = 2 sqrt(2/pi) (x + 0.044715 x^3). The second
 * form keeps its relative accuracy in the left tail. */
static inline vf miras__v_gelu_inner(vf x) {
  vf x2 = V_MUL(x, x);
  return V_MUL(x, V_FMA(x2, V_SET1(0.0713548163f), V_SET1(1.59576912f)));
}

static vf miras__v_gelu(vf x) {
  vf w = miras__v_gelu_inner(miras__v_clamp(x, 20.0f));
  return V_MUL(V_MAX(V_SET1(-20.0f), x), miras__v_sigmoid(w));
}

/* s + x s(1 - s) w', s = sigmoid(w) */
V_MATHS vf miras__v_gelu_d(vf x) {
  vf one = V_SET1(1.0f), a = miras__v_clamp(x, 20.0f), w = miras__v_gelu_inner(a);
  vf e = miras__v_exp(V_NEG(V_ABS(w))), h = V_DIV(one, V_ADD(one, e)), l = V_MUL(e, h);
  vf w1 = V_FMA(V_MUL(a, a), V_SET1(0.214064449f), V_SET1(1.59576912f));
  return V_FMA(V_MUL(a, w1), V_MUL(h, l), V_SELECT(V_LT(a, V_ZERO()), l, h));
}

/* s(1 - s) (2 w' + x (w'' + (1 - 2s) w'^2)), an even function of x */
V_MATHS vf miras__v_gelu_dd(vf x) {
  vf one = V_SET1(1.0f), a = V_ABS(miras__v_clamp(x, 20.0f)), w = miras__v_gelu_inner(a);
  vf e = miras__v_exp(V_NEG(w)), h = V_DIV(one, V_ADD(one, e)), l = V_MUL(e, h), t;
  vf w1 = V_FMA(V_MUL(a, a), V_SET1(0.214064449f), V_SET1(1.59576912f));
  t = V_FNMA(V_SUB(h, l), V_MUL(w1, w1), V_MUL(a, V_SET1(0.428128898f)));
  return V_MUL(V_MUL(h, l), V_FMA(a, t, V_ADD(w1, w1)));
}

/* @23 LEVEL 1 ------------------------------------------------------------------- needs 06 22 -- */

/* Vectors of n floats, no alignment asked for. Outputs first; an output may be the same vector as
 * an input, but not overlap it in part. Tails go through V_LOAD_N: element i is computed the same
 * way wherever it lies. Where one element is cheap the full vectors have a loop of their own; where
 * it is a polynomial one loop does both. */

/* sum_i a_i b_i: lane i mod 16 adds its products in order, then the lanes fold by halves. */
static float miras__dot(const float *a, const float *b, size_t n) {
  vf lane[V_R];
  size_t r;
  V_UNROLL for (r = 0; r < V_R; r++) lane[r] = V_ZERO();
  V_LANES(n, r, lane[r] = V_FMA(V_AT(a), V_AT(b), lane[r]));
  return miras__fold(lane);
}

/* sum_i a_i in the same order. */
static float miras__sum(const float *a, size_t n) {
  vf lane[V_R];
  size_t r;
  V_UNROLL for (r = 0; r < V_R; r++) lane[r] = V_ZERO();
  V_LANES(n, r, lane[r] = V_ADD(lane[r], V_AT(a)));
  return miras__fold(lane);
}

/* y = x */
static void miras__copy(float *y, const float *x, size_t n) {
#if MIRAS__ISA == 5
  V_EACH(y, n, V_AT(x));
#else
  if (y != x && n > 0) memcpy(y, x, n * sizeof *y);
#endif
}

/* y += a x, fused */
static void miras__axpy(float *y, float a, const float *x, size_t n) {
  const vf s = V_SET1(a);
  V_EACH(y, n, V_FMA(s, V_AT(x), V_AT(y)));
}

/* y = a x */
static void miras__scale(float *y, float a, const float *x, size_t n) {
  const vf s = V_SET1(a);
  V_EACH(y, n, V_MUL(s, V_AT(x)));
}

/* y += x */
static void miras__add(float *y, const float *x, size_t n) {
  V_EACH(y, n, V_ADD(V_AT(y), V_AT(x)));
}

/* y = a - b; y may be either. */
static void miras__sub(float *y, const float *a, const float *b, size_t n) {
  V_EACH(y, n, V_SUB(V_AT(a), V_AT(b)));
}

/* y = a b */
static void miras__mul(float *y, const float *a, const float *b, size_t n) {
  V_EACH(y, n, V_MUL(V_AT(a), V_AT(b)));
}

/* y += a b, fused */
static void miras__muladd(float *y, const float *a, const float *b, size_t n) {
  V_EACH(y, n, V_FMA(V_AT(a), V_AT(b), V_AT(y)));
}

/* y = value */
static void miras__fill(float *y, float value, size_t n) {
  const vf s = V_SET1(value);
  V_EACH(y, n, s);
}

/* y = |x| < 1e-30 ? 0 : x; NaN stays. What decays by alpha > 1/2 per token does not end at 0 but at
 * the denormal that alpha times itself rounds to, and every operation on that costs a hundredfold:
 * matrices of 64 x 64 that fell silent took 120 us per token where 0.4 are usual. 1e-30 leaves a
 * factor of 1e8 for decays between two sweeps. */
static void miras__flush(float *y, const float *x, size_t n) {
  const vf least = V_SET1(MIRAS__FADED), zero = V_ZERO();
  V_EACH(y, n, V_SELECT(V_LT(V_ABS(V_AT(x)), least), zero, V_AT(x)));
}

/* y = f(x), element by element; f: room @20 */
static void miras__map(int f, float *y, const float *x, size_t n) {
  switch (f) {
    case MIRAS_GELU: V_FOR(n) V_PUT(y, miras__v_gelu(V_AT(x))); return;
    case MIRAS_SILU: V_FOR(n) V_PUT(y, miras__v_silu(V_AT(x))); return;
    case MIRAS__EXP: V_FOR(n) V_PUT(y, miras__v_exp(V_AT(x))); return;
    case MIRAS__SIGMOID: V_FOR(n) V_PUT(y, miras__v_sigmoid(V_AT(x))); return;
    case MIRAS__TANH: V_FOR(n) V_PUT(y, miras__v_tanh(V_AT(x))); return;
    case MIRAS__LOG: V_FOR(n) V_PUT(y, miras__v_log(V_AT(x))); return;
    case MIRAS__SOFTPLUS: V_FOR(n) V_PUT(y, miras__v_softplus(V_AT(x))); return;
    default: miras__copy(y, x, n);
  }
}

/* d = g act'(z) */
static void miras__act_grad(int kind, float *d, const float *z, const float *g, size_t n) {
  if (kind == MIRAS_GELU) V_FOR(n) V_PUT(d, V_MUL(V_AT(g), miras__v_gelu_d(V_AT(z))));
  else if (kind == MIRAS_SILU) V_FOR(n) V_PUT(d, V_MUL(V_AT(g), miras__v_silu_d(V_AT(z))));
  else miras__copy(d, g, n);
}

#ifndef MIRAS__BORROWS
/* The adjoint of d = g act'(z): gbar = dbar act'(z), zbar += dbar g act''(z). */
static void miras__act_grad2(int kind, float *gbar, float *zbar, const float *z, const float *g,
                             const float *dbar, size_t n) {
  if (kind == MIRAS_IDENTITY) {
    miras__copy(gbar, dbar, n);
    return;
  }
  V_FOR(n) {
    vf x = V_AT(z), b = V_AT(dbar), bg = V_MUL(b, V_AT(g));
    vf s1 = kind == MIRAS_GELU ? miras__v_gelu_d(x) : miras__v_silu_d(x);
    vf s2 = kind == MIRAS_GELU ? miras__v_gelu_dd(x) : miras__v_silu_dd(x);
    V_PUT(zbar, V_FMA(bg, s2, V_AT(zbar)));
    V_PUT(gbar, V_MUL(b, s1));
  }
}
#endif

/* The largest of x, NaN aside. */
static float miras__top(const float *x, size_t n) {
  vf lane[V_R];
  size_t i = 0, r;
  float top;
  V_UNROLL for (r = 0; r < V_R; r++) lane[r] = V_SET1(-HUGE_VALF);
  for (; i + 16 <= n; i += 16)
    V_UNROLL for (r = 0; r < V_R; r++) lane[r] = V_MAX(V_LOAD(x + i + r * V_W), lane[r]);
  for (top = miras__fold_max(lane); i < n; i++) top = x[i] > top ? x[i] : top;
  return top;
}

/* Returns sum e^(x - top), in the order of sum; y, when wanted, receives the exponentials. */
static float miras__exp_sum(float *y, const float *x, float top, size_t n) {
  vf lane[V_R];
  size_t r;
  for (r = 0; r < V_R; r++) lane[r] = V_ZERO();
  V_FOR(n) {
    vf e = miras__v_exp(V_SUB(V_AT(x), V_SET1(top)));
    if (y) V_PUT(y, e);
    if (v_left < V_W) e = V_FRONT(e, v_left);
    r = v_at / V_W % V_R;
    lane[r] = V_ADD(lane[r], e);
  }
  return miras__fold(lane);
}

/* y = c softmax(x), the maximum subtracted first; c must be finite. NaN anywhere gives NaN
 * everywhere, as does +infinity or a vector of nothing but -infinity. */
static void miras__softmax(float *y, const float *x, size_t n, float c) {
  const float sum = miras__exp_sum(y, x, miras__top(x, n), n);
  miras__scale(y, c / sum, y, n);
}

/* ---- tiles ----
 *
 * Tiles are rows of n floats; ld_ is the distance between rows, and 0 repeats one row: as an input
 * it is the same for all, as an output that is added to it collects them, in order. A number per
 * row, s, has a distance lds of its own. Where rows lie one behind the other they are taken as one
 * long row, which changes no bit of what works element by element. */

/* y = value */
static void miras__fill_rows(float *y, size_t ldy, float value, size_t rows, size_t n) {
  size_t r;
  if (n == 1) for (r = 0; r < rows; r++) y[r * ldy] = value;
  else for (r = 0; r < rows; r++) miras__fill(y + r * ldy, value, n);
}

/* y_i = s_i in every column */
static void miras__spread_rows(float *y, size_t ldy, const float *s, size_t lds, size_t rows,
                               size_t n) {
  size_t r;
  for (r = 0; r < rows; r++) miras__fill(y + r * ldy, s[r * lds], n);
}

/* y += x */
static void miras__add_rows(float *y, size_t ldy, const float *x, size_t ldx, size_t rows,
                            size_t n) {
  size_t r;
  if (rows == 1 || (ldy == n && ldx == n)) miras__add(y, x, n * rows);
  else for (r = 0; r < rows; r++) miras__add(y + r * ldy, x + r * ldx, n);
}

/* y = a b */
static void miras__mul_rows(float *y, size_t ldy, const float *a, size_t lda, const float *b,
                            size_t ldb, size_t rows, size_t n) {
  size_t r;
  if (rows == 1 || (ldy == n && lda == n && ldb == n)) miras__mul(y, a, b, n * rows);
  else for (r = 0; r < rows; r++) miras__mul(y + r * ldy, a + r * lda, b + r * ldb, n);
}

/* y += a b, fused */
static void miras__muladd_rows(float *y, size_t ldy, const float *a, size_t lda, const float *b,
                               size_t ldb, size_t rows, size_t n) {
  size_t r;
  if (ldy == n && lda == n && ldb == n) n *= rows, rows = 1;
  for (r = 0; r < rows; r++) miras__muladd(y + r * ldy, a + r * lda, b + r * ldb, n);
}

/* y_i = (c s_i) x_i; s NULL: c x_i */
static void miras__scale_rows(float *y, size_t ldy, float c, const float *s, size_t lds,
                              const float *x, size_t ldx, size_t rows, size_t n) {
  size_t r;
  if (rows == 1) miras__scale(y, s ? c * *s : c, x, n);
  else for (r = 0; r < rows; r++) miras__scale(y + r * ldy, s ? c * s[r * lds] : c, x + r * ldx, n);
}

/* y_i += (c s_i) x_i, fused; s NULL: c x_i */
static void miras__axpy_rows(float *y, size_t ldy, float c, const float *s, size_t lds,
                             const float *x, size_t ldx, size_t rows, size_t n) {
  size_t r;
  if (rows == 1) miras__axpy(y, s ? c * *s : c, x, n);
  else for (r = 0; r < rows; r++) miras__axpy(y + r * ldy, s ? c * s[r * lds] : c, x + r * ldx, n);
}

/* s_i = a_i . b_i, or with add s_i += a_i . b_i */
static void miras__dot_rows(int add, float *s, size_t lds, const float *a, size_t lda,
                            const float *b, size_t ldb, size_t rows, size_t n) {
  size_t r;
  for (r = 0; r < rows; r++) {
    const float x = miras__dot(a + r * lda, b + r * ldb, n);
    V_KEEP(s[r * lds], add ? s[r * lds] + x : x);
  }
}

/* s_i = sum a_i, or with add s_i += sum a_i */
static void miras__sum_rows(int add, float *s, size_t lds, const float *a, size_t lda, size_t rows,
                            size_t n) {
  size_t r;
  for (r = 0; r < rows; r++) {
    const float x = n == 1 ? a[r * lda] : miras__sum(a + r * lda, n);
    V_KEEP(s[r * lds], add ? s[r * lds] + x : x);
  }
}

#ifndef MIRAS__BORROWS
/* y = x. The loop is apart, so that a single row or number, as of most gates, saves no registers
 * for it: 13 instructions instead of 31. */
static MIRAS__CALLED void miras__copy_each(float *y, size_t ldy, const float *x, size_t ldx,
                                           size_t rows, size_t n) {
  size_t r;
  for (r = 0; r < rows; r++) miras__copy(y + r * ldy, x + r * ldx, n);
}

static void miras__copy_rows(float *y, size_t ldy, const float *x, size_t ldx, size_t rows,
                             size_t n) {
  size_t r;
  if (rows > 1 && ldy == n && ldx == n) miras__copy(y, x, n * rows);
  else if (n == 1) for (r = 0; r < rows; r++) y[r * ldy] = x[r * ldx];
  else if (rows == 1) miras__copy(y, x, n);
  else miras__copy_each(y, ldy, x, ldx, rows, n);
}

/* y_ij = value where j - i step lies outside lo..hi-1 */
static void miras__mask_rows(float *y, size_t ldy, float value, size_t rows, size_t n,
                             ptrdiff_t lo, ptrdiff_t hi, size_t step) {
  const ptrdiff_t wide = (ptrdiff_t)n, by = (ptrdiff_t)step;
  size_t i;
  for (i = 0; i < rows; i++, y += ldy, lo += by, hi += by) {
    const ptrdiff_t from = lo < wide ? lo : wide, to = hi > 0 ? hi : 0;
    if (from > 0) miras__fill(y, value, (size_t)from);
    if (to < wide) miras__fill(y + to, value, (size_t)(wide - to));
  }
}

/* 1 if there is anything but zeros in x. A memory asks at every write. */
static int miras__any(const float *x, size_t n) {
  vf lane[V_R];
  size_t i, r;
  for (i = 0; i < n; i += 512) {
    V_UNROLL for (r = 0; r < V_R; r++) lane[r] = V_ZERO();
    V_LANES(n - i < 512 ? n - i : 512, r, lane[r] = V_ADD(lane[r], V_ABS(V_AT(x + i))));
    if (!(miras__fold(lane) <= 0)) return 1;
  }
  return 0;
}
#endif

/* @24 MATRIX PRODUCT --------------------------------------------------------- needs 14 21 23 -- */

/* C[i,j] = sum_k A[i,k] B[k,j], every element one chain of fused multiply-adds in the order of k.
 * Tiles, panels and blocks of k are a schedule: a chain that is interrupted continues from C, where
 * it lies in full precision. The bits of an element therefore depend on its row of A and its column
 * of B and on nothing else. (The other way round, several partial sums per element, is what other
 * libraries do to fill long dot products; here rows and columns fill the pipeline.)
 *
 * One tile is m rows by nv vectors of C in registers. Per step of k it loads nv vectors of B and m
 * scalars of A for m * nv multiply-adds; 6 x 4 with 32 registers and 6 x 2 with 16 are bound by
 * arithmetic, not by loads. Matrices are read in place where that is possible and their rows do not
 * lie so far apart that the caches suffer; otherwise blocks of them are packed first. */

/* C = / += / -= a B' for a column a [M] and a row B [N]. */
static MIRAS__UNUSED void miras__gemm_outer(int mode, float *C, size_t ldc, const float *a,
                                            size_t ars, const float *B, size_t M, size_t N) {
#define K_ROWS(value) for (; M--; C += ldc, a += ars) { vf s = V_SET1(*a); V_EACH(C, N, value); }
  if (mode == MIRAS__ADD) K_ROWS(V_FMA(s, V_AT(B), V_AT(C)))
  else if (mode == MIRAS__SET) K_ROWS(V_FMA(s, V_AT(B), V_ZERO()))
  else K_ROWS(V_SUB(V_ZERO(), V_FMA(s, V_AT(B), V_NEG(V_AT(C)))))
#undef K_ROWS
}

#if defined(__OPTIMIZE_SIZE__) && MIRAS__ISA == 1
/* Where size is asked for, without vectors: the same chains, row by row. */
static void miras__gemm(int mode, float *C, size_t ldc, miras__matrix A, miras__matrix B, size_t M,
                        size_t N, size_t K, float *pack) {
  size_t i, j, k, most = (size_t)mode >> 2;
  (void)pack;
  mode &= 3;
  for (i = 0; i < M; i++, A.p += miras__down(A), C += ldc) {
    const size_t seen = most && i + most < K ? i + most : K;
    for (j = 0; j < N; j++) C[j] = mode == MIRAS__SET ? 0 : mode == MIRAS__SUB ? -C[j] : C[j];
    for (k = 0; k < seen; k++)
      for (j = 0; j < N; j++)
        C[j] = V_FMA(A.p[k * miras__right(A)], B.p[k * miras__down(B) + j * miras__right(B)], C[j]);
    for (j = 0; j < N && mode == MIRAS__SUB; j++) C[j] = 0 - C[j];
  }
}
#else
/* m and nv are constants at every call: the loops unroll and the arrays become registers. Row r
 * takes part in the first `first + r` of `steps` steps of k; B is its rows; where nv is 1, only the
 * first n columns of C count. C -= AB runs on the negated sum, which rounds alike; 0 - x rather
 * than -x at the end keeps a difference of equals at +0. */
#define K_EACH(step) V_UNROLL for (r = 0; r < m; r++) V_UNROLL for (j = 0; j < nv; j++) step
MIRAS__ALWAYS void miras__tile(size_t m, size_t nv, int mode, float *C, size_t ldc,
                               miras__operand a_of, miras__operand b_of, ptrdiff_t first,
                               ptrdiff_t steps, size_t n) {
  const float *A = a_of.p, *B = b_of.p;
  const size_t ars = a_of.down, acs = a_of.right, brs = b_of.down;
  vf acc[8][4];
  size_t r, j;
  ptrdiff_t k;
  K_EACH(acc[r][j] = V_ZERO());
  if (mode != MIRAS__SET)
    K_EACH(acc[r][j] = nv > 1 ? V_LOAD(C + r * ldc + j * V_W) : V_LOAD_N(C + r * ldc, n));
  if (mode == MIRAS__SUB) K_EACH(acc[r][j] = V_NEG(acc[r][j]));
  for (k = 0; k < first; k++) {
    vf b[4];
    V_UNROLL for (j = 0; j < nv; j++) b[j] = V_LOAD(B + j * V_W);
    V_UNROLL for (r = 0; r < m; r++) {
      vf a = V_SET1(A[r * ars]);
      V_UNROLL for (j = 0; j < nv; j++) acc[r][j] = V_FMA(a, b[j], acc[r][j]);
    }
    A += acs;
    B += brs;
  }
  for (; k < steps; k++) {
    V_UNROLL for (r = 0; r < m; r++)
      if (k < first + (ptrdiff_t)r) {
        vf a = V_SET1(A[r * ars]);
        V_UNROLL for (j = 0; j < nv; j++) acc[r][j] = V_FMA(a, V_LOAD(B + j * V_W), acc[r][j]);
      }
    A += acs;
    B += brs;
  }
  if (mode == MIRAS__SUB) K_EACH(acc[r][j] = V_SUB(V_ZERO(), acc[r][j]));
  K_EACH(if (nv > 1) V_STORE(C + r * ldc + j * V_W, acc[r][j]);
         else V_STORE_N(C + r * ldc, acc[r][j], n));
}
#undef K_EACH

/* Of a tile with m rows left to do: as many as there are registers for, or up to 4. */
static void miras__any_tile(size_t m, size_t nv, int mode, float *C, size_t ldc, miras__operand A,
                            miras__operand B, ptrdiff_t first, ptrdiff_t steps, size_t n) {
#define K_TILE(m, nv) \
  case (nv) * 16 + (m): miras__tile(m, nv, mode, C, ldc, A, B, first, steps, n); break;
  switch (nv * 16 + m) {
    K_TILE(1, 1) K_TILE(K_ROWS1, 1)
#if K_ROWS2 > 0
    K_TILE(2, 1) K_TILE(3, 1) K_TILE(1, 2) K_TILE(2, 2) K_TILE(3, 2) K_TILE(4, 2)
    K_TILE(1, 4) K_TILE(2, 4)
#endif
#if K_ROWS2 > 4
    K_TILE(4, 1) K_TILE(K_ROWS2, 2)
#endif
#if K_ROWS4 > 4
    K_TILE(3, 4) K_TILE(4, 4) K_TILE(K_ROWS4, 4)
#endif
    default: break;
  }
#undef K_TILE
}

/* to[k * width + j] = B[k, j] for j < n, 0 for the rest of the row. */
static void miras__pack(float *to, size_t width, const float *B, size_t brs, size_t bcs, size_t n,
                        size_t K) {
  size_t j, k, r;
  V_SYNC();
  if (bcs == 1) {
    for (k = 0; k < K; k++)
      for (j = 0; j < width; j += V_W)
        V_STORE(to + k * width + j, j < n ? V_LOAD_N(B + k * brs + j, n - j) : V_ZERO());
    V_SYNC();
    return;
  }
  for (j = 0; j < width; j += V_W) {
    k = 0;
    if (brs == 1 && j + V_W <= n)
      for (; k + 4 <= K; k += 4) miras__transpose4(to + k * width + j, width, B + j * bcs + k, bcs);
    for (; k < K; k++)
      for (r = j; r < j + V_W; r++)
        to[k * width + r] = r < n ? B[k * brs + r * bcs] : 0.0f;
  }
  V_SYNC();
}

/* y[j] += sum_k a[k*acs] B[k*brs+j] over four rows of B, whole vectors of y only. */
static void miras__gemm_row_part(float *y, const float *a, size_t acs, const float *B, size_t brs,
                                 size_t N) {
  const vf a0 = V_SET1(a[0]), a1 = V_SET1(a[acs]), a2 = V_SET1(a[2 * acs]), a3 = V_SET1(a[3 * acs]);
  size_t j;
  for (j = 0; j + V_W <= N; j += V_W) {
    vf c = V_FMA(a0, V_LOAD(B + j), V_LOAD(y + j));
    c = V_FMA(a1, V_LOAD(B + brs + j), c);
    c = V_FMA(a2, V_LOAD(B + 2 * brs + j), c);
    V_STORE(y + j, V_FMA(a3, V_LOAD(B + 3 * brs + j), c));
  }
}

/* One row of C. Four rows of B pass through at a time from end to end: a large B streams from
 * memory in long runs while y stays in cache. AVX2, 4096 x 1024: 25 GB/s, which is all that one
 * core can read here, where panels of columns reach 13. A short y stays in registers instead: a
 * chain through memory waits for every store. */
static void miras__gemm_row(int mode, float *y, const float *a, size_t acs, const float *B,
                            size_t brs, size_t N, size_t K) {
  size_t whole = N - N % V_W, j, k = 0, n;
  for (; whole && whole <= 4 * V_W; whole -= n, N -= n, y += n, B += n) {
    n = K_ROWS2 && whole > V_W ? 2 * V_W : V_W;
    miras__any_tile(1, n / V_W, mode, y, 0, miras__operand_of(a, 0, acs),
                    miras__operand_of(B, brs, 1), (ptrdiff_t)K, (ptrdiff_t)K, n);
  }
  if (!N) return;
  if (mode == MIRAS__SET) V_EACH(y, N, V_ZERO());
  else if (mode == MIRAS__SUB) V_EACH(y, N, V_NEG(V_AT(y)));
  for (; whole && k + 4 <= K; k += 4)
    miras__gemm_row_part(y, a + k * acs, acs, B + k * brs, brs, N);
  for (; whole && k < K; k++)
    for (j = 0; j < whole; j += V_W)
      V_STORE(y + j, V_FMA(V_SET1(a[k * acs]), V_LOAD(B + k * brs + j), V_LOAD(y + j)));
  if (whole < N) {
    vf c = V_LOAD_N(y + whole, N - whole);
    for (k = 0; k < K; k++) {
      const float *b = B + k * brs + whole;
      c = V_FMA(V_SET1(a[k * acs]), N == 1 ? V_SET1(*b) : V_LOAD_N(b, N - whole), c);
    }
    V_STORE_N(y + whole, c, N - whole);
  }
  if (mode == MIRAS__SUB) V_EACH(y, N, V_SUB(V_ZERO(), V_AT(y)));
}

/* Loops, outermost first: blocks of rows; groups of columns; blocks of k; panels of up to 4 vectors
 * of columns; tiles of rows. */
static void miras__gemm_tiles(int mode, ptrdiff_t causal, float *C, size_t ldc, miras__matrix A,
                              miras__matrix B, size_t M, size_t N, size_t K, float *pack) {
  const size_t part = 64, part_k = 128;   /* a packed block: rows of A or columns of B, of k */
  const size_t ars = miras__down(A), acs = miras__right(A);
  const size_t brs = miras__down(B), bcs = miras__right(B);
  float *const pack_a = pack + part * part_k;
  /* Columns of A far apart (the gradient of a weight, X'Y) fall on few sets of the first-level
   * cache: packing takes 2048 x 512 x 512 from 80 to 150 GFLOP/s. Rows of B far apart exhaust the
   * address translation: 1024^3 goes from 58 to 135. Nearer than that, packing costs 5%. */
  const int wrap_a = acs != 1 && M >= 16 && N >= part && K >= part && K * acs > 16384;
  const int wrap_b = !wrap_a && M >= 32 && K * brs > 262144;
  /* Rows of A that stay in the second-level cache while the panels of B pass by: 1 MiB of them. */
  const size_t most = wrap_a ? part : K < 262144 / part ? 262144 / (K + 1) : part;
  const size_t deep = wrap_a || wrap_b || bcs != 1 || N % V_W != 0 ? part_k : K;
  const size_t group = wrap_a ? N : part;
  size_t i0, i, j0, j, k, m, n, rows, depth;
  for (i0 = 0; i0 < M; i0 += rows) {
    /* Narrower than 4 vectors where the registers do not hold enough rows of them. */
    const size_t widest = K_ROWS4 > 4 || (K_ROWS4 && M <= K_ROWS4) ? 4 : 2;
    rows = M - i0 < most ? M - i0 : most;
    for (j0 = 0; j0 < N; j0 += group) {
      const size_t end = N - j0 < group ? N : j0 + group;
      k = 0;
      do {
        const int stage = mode == MIRAS__SET && k > 0 ? MIRAS__ADD : mode;
        miras__operand a = miras__operand_of(A.p + i0 * ars + k * acs, ars, acs);
        depth = K - k < deep ? K - k : deep;
        if (wrap_a) {
          miras__pack(pack_a, part, a.p, acs, ars, rows, depth);
          a = miras__operand_of(pack_a, 1, part);
        }
        for (j = j0; j < end; j += n) {
          size_t nv = widest == 4 && end - j > 3 * V_W ? 4 : K_ROWS2 && end - j > V_W ? 2 : 1;
          size_t width, side;
          miras__operand b = miras__operand_of(B.p + k * brs + j * bcs, brs, 1);
          if (nv > 1 && end - j < nv * V_W) nv >>= 1;               /* whole vectors first */
          width = nv * V_W;
          n = end - j < width ? end - j : width;
          if (wrap_b || bcs != 1 || n < width) {
            miras__pack(pack, width, b.p, brs, bcs, n, depth);
            b = miras__operand_of(pack, width, 1);
          }
          side = nv == 4 ? K_ROWS4 : nv == 2 ? K_ROWS2 : K_ROWS1;
          for (i = 0; i < rows; i += m, a.p += m * a.down) {
            const size_t left = rows - i;
            ptrdiff_t steps = (ptrdiff_t)depth, first = steps;
            m = left >= side ? side : !K_ROWS2 ? 1 : left < 4 ? left : 4;
            if (causal >= 0) {
              first = (ptrdiff_t)(i0 + i) + 1 + causal - (ptrdiff_t)k;
              if (first > steps) first = steps;
              if (first + (ptrdiff_t)m - 1 < steps) steps = first + (ptrdiff_t)m - 1;
            }
            miras__any_tile(m, nv, stage, C + (i0 + i) * ldc + j, ldc, a, b, first, steps, n);
          }
          a.p -= rows * a.down;
        }
        k += depth;
      } while (k < K);
    }
  }
}

/* C [M, N] = / += / -= A [M, K] B [K, N] by mode, of A as much as miras__causal says; rows of C ldc
 * apart. C overlaps neither A nor B. pack: MIRAS__PACK floats. */
static void miras__gemm(int mode, float *C, size_t ldc, miras__matrix A, miras__matrix B, size_t M,
                        size_t N, size_t K, float *pack) {
  const ptrdiff_t causal = (mode >> 2) - 1;        /* row i stops at k = i + causal */
  mode &= 3;
  if (K == 1 && miras__right(B) == 1) {   /* 16 x 16: 330 instructions, 780 as tiles */
    miras__gemm_outer(mode, C, ldc, A.p, miras__down(A), B.p, M, N);
  } else if (M == 1 && (miras__right(B) == 1 || N == 1)) {
    if (causal >= 0 && (size_t)causal < K) K = (size_t)causal + 1;
    miras__gemm_row(mode, C, A.p, miras__right(A), B.p, miras__down(B), N, K);
  } else {
    miras__gemm_tiles(mode, causal, C, ldc, A, B, M, N, K, pack);
  }
}
#endif

/* @25 FEATURE MAPS ----------------------------------------------------------- needs 06 22 23 -- */

/* What a memory makes of keys and queries: map = feature + 16 * length, from miras__plan.map. First
 * the length, u = r x with r = length / sqrt(|x|^2 + 1e-12), or u = x; then f = phi(u), x [n],
 * f [miras__features]. f does not overlap x, except for the identity.
 *   ELU      u + 1 for u > 0, else e^u
 *   RELU     max(u, 0)
 *   RELU2    max(u, 0)^2
 *   SOFTMAX  e^u / sum e^u
 *   POLY2    1; u; then for i, for j >= i: u_i u_j, times sqrt(1/2) where j = i */
#define MIRAS__LENGTH_EPS 1e-12f

static float miras__length_factor(int map, const float *x, size_t n) {
  float length = map / 16 == MIRAS_LENGTH_ROOT ? sqrtf((float)n) : 1;
  return map < 16 ? 1 : length / sqrtf(miras__dot(x, x, n) + MIRAS__LENGTH_EPS);
}

static void miras__feature_fwd(int map, float *f, const float *x, size_t n) {
  int kind = map % 16;
  size_t i;
  if (map >= 16) {
    float *u = kind == MIRAS_FEATURE_POLY2 ? f + 1 : f;
    miras__scale(u, miras__length_factor(map, x, n), x, n);
    x = u;
  }
  switch (kind) {
    case MIRAS_FEATURE_ELU:
      V_FOR(n) V_PUT(f, V_SELECT(V_LT(V_ZERO(), V_AT(x)), V_ADD(V_AT(x), V_SET1(1.0f)),
                                 miras__v_exp(V_AT(x))));
      return;
    case MIRAS_FEATURE_RELU:
    case MIRAS_FEATURE_RELU2:
      V_EACH(f, n, V_MAX(V_ZERO(), V_AT(x)));   /* NaN stays: it is the second operand */
      if (kind == MIRAS_FEATURE_RELU2) miras__mul(f, f, f, n);
      return;
    case MIRAS_FEATURE_SOFTMAX: miras__softmax(f, x, n, 1.0f); return;
    case MIRAS_FEATURE_POLY2:
      *f++ = 1;
      miras__copy(f, x, n);
      x = f;
      f += n;
      for (i = 0; i < n; f += n - i, i++) {
        miras__scale(f, x[i], x + i, n - i);
        V_KEEP(f[0], f[0] * 0.707106781f);
      }
      return;
    default:
      miras__copy(f, x, n);
      return;
  }
}

/* Rows of both: x [rows, n] ldx apart, f ldf apart. */
static void miras__feature_rows(int map, float *f, size_t ldf, const float *x, size_t ldx,
                                size_t rows, size_t n) {
  size_t r;
  if (rows == 1) miras__feature_fwd(map, f, x, n);
  else for (r = 0; r < rows; r++) miras__feature_fwd(map, f + r * ldf, x + r * ldx, n);
}

#ifndef MIRAS__BORROWS
/* dx = (d phi/dx)' df; f = phi as computed. dx may be df, except for POLY2, where the pairs give
 *   du_i += sum_(j>i) df_ij u_j + sqrt(2) df_ii u_i,   du_j += df_ij u_i  (j > i)
 * and the length  dx = r (du - x (x . du) / (|x|^2 + eps)). */
static void miras__feature_rows_bwd(int map, float *dx, size_t lddx, const float *df,
                                    const float *f, size_t ldf, const float *x, size_t ldx,
                                    size_t rows, size_t n) {
  const int kind = map % 16;
  size_t i;
  for (; rows--; dx += lddx, df += ldf, f += ldf, x += ldx) {
    const float r = miras__length_factor(map, x, n), *pairs = df + 1 + n;
    const vf factor = V_SET1(r);
    float along;
    switch (kind) {
      case MIRAS_FEATURE_ELU:
      case MIRAS_FEATURE_RELU:
      case MIRAS_FEATURE_RELU2:
        V_FOR(n) {
          vf v = V_AT(x), d = V_AT(df), low = V_ZERO();
          vm upper = V_LT(V_ZERO(), v);
          v = V_MUL(factor, v);
          if (kind == MIRAS_FEATURE_ELU) low = V_MUL(d, V_AT(f));
          if (kind == MIRAS_FEATURE_RELU2) d = V_MUL(d, V_ADD(v, v));
          V_PUT(dx, V_SELECT(upper, d, low));
        }
        break;
      case MIRAS_FEATURE_SOFTMAX:
        along = miras__dot(f, df, n);
        V_EACH(dx, n, V_MUL(V_AT(f), V_SUB(V_AT(df), V_SET1(along))));
        break;
      case MIRAS_FEATURE_POLY2:
        miras__copy(dx, df + 1, n);
        for (i = 0; i < n; pairs += n - i, i++) {
          const float *u = f + 1 + i;
          along = 1.41421356f * pairs[0] * u[0] + miras__dot(pairs + 1, u + 1, n - i - 1);
          V_KEEP(dx[i], dx[i] + along);
          miras__axpy(dx + i + 1, u[0], pairs + 1, n - i - 1);
        }
        break;
      default: miras__copy(dx, df, n);
    }
    if (map < 16) continue;
    along = miras__dot(x, dx, n) / (miras__dot(x, x, n) + MIRAS__LENGTH_EPS);
    miras__axpy(dx, -along, x, n);
    miras__scale(dx, r, dx, n);
  }
}
#endif

/* @26 ATTENTIONAL BIASES -------------------------------------------------- needs 14 21 22 23 -- */

/* x^a for x >= 0 and one exponent for all lanes: small whole exponents by multiplication, so that
 * the common p = 2, 3, 4 are exact; others through exp and log with x kept off zero. */
static vf miras__v_power(vf x, float a) {
  int whole = (int)a;
  if (!((float)whole < a) && !((float)whole > a) && whole >= 0) {
    vf y = V_SET1(1.0f);
    for (; whole > 0; whole--) y = V_MUL(y, x);
    return y;
  }
  return miras__v_exp(V_MUL(V_SET1(a), miras__v_log(V_MAX(x, V_SET1(1e-30f)))));
}

#ifndef MIRAS__BORROWS
/* 1 - tanh^2 x = 4 e^-2|x| / (1 + e^-2|x|)^2, which keeps its digits where tanh has run into 1. */
static vf miras__v_sech2(vf x) {
  vf e = miras__v_exp(V_MUL(V_SET1(-2.0f), V_ABS(x))), one = V_ADD(V_SET1(1.0f), e);
  return V_DIV(V_MUL(V_SET1(4.0f), e), V_MUL(one, one));
}

/* sqrt(a^2 + b^2) for a, b >= 0 without leaving the range of float; NaN in b stays NaN. */
static float miras__hypotenuse(float a, float b) {
  float most = b > a ? b : a, least = b > a ? a : b;
  if (!(most > 0)) return least;
  least /= most;
  return most * sqrtf(1 + least * least);
}

/* One row of what is learned, r = M(k) - v, and of its adjoint. A threshold is one number, or one
 * per coordinate (each). A bias writes e = dl/dM and returns its value l; where thresholds of
 * biases on |r| are n numbers, l is that of the first. Its adjoint writes br = J' be, J = de/dr
 * (br may be be), and returns the cotangent of a threshold that is one number; those of n go to
 * bdelta, which is room otherwise. bv comes in as zeros and leaves as (de/dv)' be with r held. */
typedef struct miras__bias_row {
  const miras_desc *d;
  size_t n;
  int each;
  const float *r, *v, *delta;
  float *e;
  const float *be;
  float *br, *bv, *bdelta;
} miras__bias_row;

/* Thresholds of the coordinates from j on. */
static inline vf miras__v_delta(const miras__bias_row *x, size_t j) {
  return x->each ? V_LOAD_N(x->delta + j, x->n - j) : V_SET1(*x->delta);
}

/* dot: e = -v,  l = -<M, v> */
static float miras__bias_dot(const miras__bias_row *x) {
  miras__scale(x->e, -1.0f, x->v, x->n);
  return -miras__dot(x->r, x->v, x->n) - miras__dot(x->v, x->v, x->n);
}

static float miras__bias_dot_bwd(const miras__bias_row *x) {
  miras__scale(x->bv, -1.0f, x->be, x->n);
  miras__fill(x->br, 0, x->n);
  return 0;
}

/* L2: e = r,  l = 1/2 |r|^2 */
static float miras__bias_l2(const miras__bias_row *x) {
  miras__copy(x->e, x->r, x->n);
  return 0.5f * miras__dot(x->r, x->r, x->n);
}

static float miras__bias_l2_bwd(const miras__bias_row *x) {
  miras__copy(x->br, x->be, x->n);
  return 0;
}

/* L_p: e = p sgn(r) |r|^(p-1),  l = sum |r|^p */
static float miras__bias_lp(const miras__bias_row *x) {
  const float p = x->d->p;
  V_FOR(x->n) {
    vf r = V_AT(x->r), a = V_ABS(r);
    vf m = V_MUL(V_SET1(p), miras__v_power(a, p - 1));
    V_PUT(x->e, V_SELECT(V_LT(V_ZERO(), a), V_COPYSIGN(m, r), r));
  }
  return miras__dot(x->e, x->r, x->n) / p;
}

/* J = p (p-1) |r|^(p-2); for p < 2 it is unbounded at 0, where |r| is kept off zero */
static float miras__bias_lp_bwd(const miras__bias_row *x) {
  const float p = x->d->p;
  V_FOR(x->n) {
    vf a = V_ABS(V_AT(x->r)), b = V_AT(x->be), m;
    if (p < 2) a = V_MAX(a, V_SET1(1e-6f));
    m = p > 1 ? miras__v_power(a, p - 2) : V_ZERO();
    V_PUT(x->br, V_MUL(b, V_MUL(V_SET1(p * (p - 1)), m)));
  }
  return 0;
}

/* smooth: e = p tanh(nu r) s^(p-1),  l = sum s^p,  s = sqrt(r^2 + 1e-6) */
static float miras__bias_lp_smooth(const miras__bias_row *x) {
  const vf nu = V_SET1(x->d->sharpness);
  const float p = x->d->p;
  float value = 0;
  int pass;
  for (pass = 0; pass < 2; pass++) {               /* p s^p for the sum, then e */
    V_FOR(x->n) {
      vf r = V_AT(x->r), s = V_SQRT(V_FMA(r, r, V_SET1(1e-6f)));
      vf m = V_MUL(V_SET1(p), miras__v_power(s, p - 1));
      V_PUT(x->e, V_MUL(m, pass ? miras__v_tanh(V_MUL(nu, r)) : s));
    }
    if (!pass) value = miras__sum(x->e, x->n) / p;
  }
  return value;
}

/* J = p [ nu (1 - t^2) s^(p-1) + t (p-1) r s^(p-3) ],  t = tanh(nu r) */
static float miras__bias_lp_smooth_bwd(const miras__bias_row *x) {
  const vf nu = V_SET1(x->d->sharpness);
  const float p = x->d->p;
  V_FOR(x->n) {
    vf r = V_AT(x->r), b = V_AT(x->be);
    vf s = V_SQRT(V_FMA(r, r, V_SET1(1e-6f))), t = miras__v_tanh(V_MUL(nu, r));
    vf m = V_MUL(V_SET1(p), miras__v_power(s, p - 1));
    vf u = V_MUL(nu, miras__v_sech2(V_MUL(nu, r)));
    u = V_FMA(V_MUL(V_SET1(p - 1), t), V_DIV(r, V_MUL(s, s)), u);
    V_PUT(x->br, V_MUL(b, V_MUL(m, u)));
  }
  return 0;
}

/* Huber: e = c = clamp(r, -delta, delta),  l = sum c (r - c/2) */
static float miras__bias_huber(const miras__bias_row *x) {
  float inner;
  V_FOR(x->n) {
    vf r = V_AT(x->r), at = miras__v_delta(x, v_at);
    /* a select, not min and max: NaN must stay NaN */
    V_PUT(x->e, V_SELECT(V_LT(at, V_ABS(r)), V_COPYSIGN(at, r), r));
  }
  inner = miras__dot(x->e, x->e, x->n);
  return miras__dot(x->e, x->r, x->n) - 0.5f * inner;
}

static float miras__bias_huber_bwd(const miras__bias_row *x) {
  V_FOR(x->n) {
    vf r = V_AT(x->r), b = V_AT(x->be);
    vm outside = V_LT(miras__v_delta(x, v_at), V_ABS(r));
    vf down = V_SELECT(outside, V_MUL(b, V_COPYSIGN(V_SET1(1.0f), r)), V_ZERO());
    V_PUT(x->bdelta, down);
    V_PUT(x->br, V_SELECT(outside, V_ZERO(), b));
  }
  return x->each ? 0 : miras__sum(x->bdelta, x->n);
}

/* sqrt(a^2 + b^2) of vectors without leaving the range of float. */
static inline vf miras__v_hypotenuse(vf a, vf b, vm below) {
  vf most = V_SELECT(below, b, a), ratio = V_DIV(V_SELECT(below, a, b), most);
  return V_MUL(most, V_SQRT(V_FMA(ratio, ratio, V_SET1(1.0f))));
}

/* The adjoints of biases on a norm n with a threshold per coordinate, where e_i = r_i a_i:
 *   clipped  a_i = delta_i/n where delta_i < n, else 1;   shifted  a_i = 1 + delta_i/n
 *     br_i = be_i a_i - r_i s,  s = sum be_i r_i delta_i/n^3,   bdelta_i = be_i r_i/n
 *   pseudo   a_i = delta_i/h_i,  h_i = sqrt(delta_i^2 + n^2)
 *     br_i = be_i a_i - r_i s,  s = sum be_i r_i delta_i/h_i^3,  bdelta_i = be_i r_i n^2/h_i^3
 * and of what is clipped only the coordinates outside count in s and bdelta. */
static float miras__bias_norm_each_bwd(const miras__bias_row *x, int form, float length) {
  const vf one = V_SET1(1.0f), norm = V_SET1(length);
  vf along;
  V_FOR(x->n) {                                    /* bdelta = what s sums, first */
    vf r = V_AT(x->r), b = V_AT(x->be), at = miras__v_delta(x, v_at), h = norm;
    vm outside = V_LT(at, norm);
    if (form == MIRAS__NORM_PSEUDO) h = miras__v_hypotenuse(at, norm, outside);
    b = V_MUL(V_DIV(V_MUL(b, r), h), V_MUL(V_DIV(at, h), V_DIV(one, h)));
    if (form == MIRAS__NORM_CLIPPED) b = V_SELECT(outside, b, V_ZERO());
    V_PUT(x->bdelta, b);
  }
  along = V_SET1(miras__sum(x->bdelta, x->n));
  V_FOR(x->n) {
    vf r = V_AT(x->r), b = V_AT(x->be), at = miras__v_delta(x, v_at), h = norm, slope, down;
    vm outside = V_LT(at, norm);
    if (form == MIRAS__NORM_PSEUDO) h = miras__v_hypotenuse(at, norm, outside);
    slope = V_DIV(at, h);
    down = V_DIV(r, h);
    if (form == MIRAS__NORM_PSEUDO) down = V_MUL(down, V_MUL(V_DIV(norm, h), V_DIV(norm, h)));
    if (form == MIRAS__NORM_SHIFTED) slope = V_ADD(one, slope);
    if (form == MIRAS__NORM_CLIPPED) {
      slope = V_SELECT(outside, slope, one);
      down = V_SELECT(outside, down, V_ZERO());
    }
    V_PUT(x->bdelta, V_MUL(b, down));
    V_PUT(x->br, V_FNMA(along, r, V_MUL(b, slope)));
  }
  return 0;
}

/* on the norm: e_i = r_i min(1, delta_i/n),  l = H(n),  n = sqrt(|r|^2 + 1e-12) */
static float miras__bias_huber_norm(const miras__bias_row *x) {
  const float n = sqrtf(miras__dot(x->r, x->r, x->n) + 1e-12f), delta = *x->delta;
  const vf one = V_SET1(1.0f), norm = V_SET1(n);
  V_FOR(x->n) {
    vf at = miras__v_delta(x, v_at), a = V_SELECT(V_LT(at, norm), V_DIV(at, norm), one);
    V_PUT(x->e, V_MUL(V_AT(x->r), a));
  }
  return n > delta ? delta * (n - 0.5f * delta) : 0.5f * n * n;
}

/* J = (delta/n)(I - r r'/n^2) outside, de/ddelta = r/n */
static float miras__bias_huber_norm_bwd(const miras__bias_row *x) {
  const float n = sqrtf(miras__dot(x->r, x->r, x->n) + 1e-12f), delta = *x->delta;
  float along;
  if (x->each) return miras__bias_norm_each_bwd(x, MIRAS__NORM_CLIPPED, n);
  if (!(n > delta)) return miras__bias_l2_bwd(x);
  along = miras__dot(x->r, x->be, x->n);
  V_FOR(x->n) {
    vf r = V_AT(x->r), b = V_AT(x->be);
    V_PUT(x->br, V_MUL(V_SET1(delta / n), V_FNMA(V_SET1(along / (n * n)), r, b)));
  }
  return along / n;
}

/* mixture: e_i = r_i, or delta_i tanh(nu r_i) where |r| > delta_i,  l = 1/2 |r|^2 or delta sum |r|
 */
static float miras__bias_huber_mixture(const miras__bias_row *x) {
  const float square = miras__dot(x->r, x->r, x->n), n = sqrtf(square), delta = *x->delta;
  const vf nu = V_SET1(x->d->sharpness), norm = V_SET1(n);
  float value = 0.5f * square;
  if (!x->each && !(n > delta)) return miras__bias_l2(x);
  if (n > delta) {
    V_FOR(x->n) V_PUT(x->e, V_ABS(V_AT(x->r)));
    value = delta * miras__sum(x->e, x->n);
  }
  V_FOR(x->n) {
    vf r = V_AT(x->r), at = miras__v_delta(x, v_at);
    r = V_SELECT(V_LT(at, norm), V_MUL(at, miras__v_tanh(V_MUL(nu, r))), r);
    V_PUT(x->e, r);
  }
  return value;
}

/* J = delta_i nu (1 - tanh^2 nu r_i) outside, de_i/ddelta_i = tanh nu r_i */
static float miras__bias_huber_mixture_bwd(const miras__bias_row *x) {
  const vf nu = V_SET1(x->d->sharpness), one = V_SET1(1.0f);
  const float n = sqrtf(miras__dot(x->r, x->r, x->n));
  if (!x->each && !(n > *x->delta)) return miras__bias_l2_bwd(x);
  V_FOR(x->n) {
    vf r = V_AT(x->r), b = V_AT(x->be);
    vf at = miras__v_delta(x, v_at), slope = V_MUL(at, V_MUL(nu, miras__v_sech2(V_MUL(nu, r))));
    vm outside = V_LT(at, V_SET1(n));
    vf down = V_SELECT(outside, miras__v_tanh(V_MUL(nu, r)), V_ZERO());
    V_PUT(x->bdelta, V_MUL(b, down));
    V_PUT(x->br, V_MUL(b, V_SELECT(outside, slope, one)));
  }
  return x->each ? 0 : miras__sum(x->bdelta, x->n);
}

/* pseudo: e_i = r_i delta_i/h_i,  l = delta |r|^2/(h + delta),  h_i = sqrt(delta_i^2 + |r|^2): with
 * h = delta s there is no 1/delta */
static float miras__bias_pseudo_huber(const miras__bias_row *x) {
  const float n = sqrtf(miras__dot(x->r, x->r, x->n)), delta = *x->delta;
  const float h = miras__hypotenuse(delta, n);
  const vf norm = V_SET1(n);
  if (!x->each) miras__scale(x->e, h > 0 ? delta / h : h, x->r, x->n);
  else V_FOR(x->n) {
    vf at = miras__v_delta(x, v_at), all = miras__v_hypotenuse(at, norm, V_LT(at, norm));
    V_PUT(x->e, V_MUL(V_AT(x->r), V_DIV(at, all)));
  }
  return h > 0 ? delta * (n / (h + delta)) * n : h;
}

/* J = (delta/h)(I - r r'/h^2), de/ddelta = r |r|^2/h^3 */
static float miras__bias_pseudo_huber_bwd(const miras__bias_row *x) {
  const float n = sqrtf(miras__dot(x->r, x->r, x->n)), delta = *x->delta;
  const float h = miras__hypotenuse(delta, n);
  float along;
  if (x->each) return miras__bias_norm_each_bwd(x, MIRAS__NORM_PSEUDO, n);
  along = h > 0 ? miras__dot(x->r, x->be, x->n) / h : h;
  miras__scale(x->br, h > 0 ? delta / h : h, x->be, x->n);
  if (!(h > 0)) return along;
  miras__axpy(x->br, -(delta / h) * (along / h), x->r, x->n);
  return along * (n / h) * (n / h);
}

/* shift: e_i = (1 + delta_i/n) r_i,  l = (n + delta)^2/2,  n = sqrt(|r|^2 + 1e-6) */
static float miras__bias_shift(const miras__bias_row *x) {
  const float n = sqrtf(miras__dot(x->r, x->r, x->n) + 1e-6f);
  const vf one = V_SET1(1.0f), norm = V_SET1(n);
  V_FOR(x->n) {
    vf a = V_ADD(one, V_DIV(miras__v_delta(x, v_at), norm));
    V_PUT(x->e, V_MUL(V_AT(x->r), a));
  }
  return 0.5f * (n + *x->delta) * (n + *x->delta);
}

/* J = (1 + delta/n) I - (delta/n^3) r r', de/ddelta = r/n */
static float miras__bias_shift_bwd(const miras__bias_row *x) {
  const float n = sqrtf(miras__dot(x->r, x->r, x->n) + 1e-6f), delta = *x->delta;
  float along;
  if (x->each) return miras__bias_norm_each_bwd(x, MIRAS__NORM_SHIFTED, n);
  along = miras__dot(x->r, x->be, x->n) / n;
  miras__scale(x->br, 1 + delta / n, x->be, x->n);
  miras__axpy(x->br, -(delta / n) * (along / n), x->r, x->n);
  return along;
}

/* log-cosh: e = delta tanh x,  l = sum delta^2 log cosh x,  x = r/delta, as |x| - log 2 +
 * log(1 + e^-2|x|) or, near 0, where that loses its digits, by its series */
static float miras__bias_log_cosh(const miras__bias_row *x) {
  const vf least = V_SET1(1e-30f), delta = V_MAX(least, V_SET1(*x->delta));
  float value;
  V_FOR(x->n) {
    vf a = V_ABS(V_DIV(V_AT(x->r), delta)), w = V_MUL(a, a), s, y;
    s = V_FMA(w, V_FMA(w, V_SET1(-17.0f / 2520), V_SET1(1.0f / 45)), V_SET1(-1.0f / 12));
    y = miras__v_log(V_ADD(V_SET1(1.0f), miras__v_exp(V_MUL(V_SET1(-2.0f), a))));
    y = V_ADD(V_SUB(a, V_SET1(0.693147181f)), y);
    s = V_SELECT(V_LT(y, V_SET1(0.03f)), V_MUL(w, V_FMA(w, s, V_SET1(0.5f))), y);
    V_PUT(x->e, s);
  }
  value = *x->delta * miras__sum(x->e, x->n) * *x->delta;
  V_FOR(x->n) {
    vf at = miras__v_delta(x, v_at);
    V_PUT(x->e, V_MUL(at, miras__v_tanh(V_DIV(V_AT(x->r), V_MAX(least, at)))));
  }
  return value;
}

/* J = 1 - tanh^2 x, de/ddelta = tanh x - x (1 - tanh^2 x) */
static float miras__bias_log_cosh_bwd(const miras__bias_row *x) {
  V_FOR(x->n) {
    vf r = V_AT(x->r), b = V_AT(x->be), slope;
    r = V_DIV(r, V_MAX(V_SET1(1e-30f), miras__v_delta(x, v_at)));
    r = V_COPYSIGN(V_MIN(V_SET1(60.0f), V_ABS(r)), r), slope = miras__v_sech2(r);
    V_PUT(x->bdelta, V_MUL(b, V_FNMA(r, slope, miras__v_tanh(r))));
    V_PUT(x->br, V_MUL(b, slope));
  }
  return x->each ? 0 : miras__sum(x->bdelta, x->n);
}

/* The caller's. */
static float miras__bias_custom(const miras__bias_row *x) {
  const miras_custom *f = x->d->custom;
  return f->bias(f->user, x->e, x->r, x->v, *x->delta, (int)x->n);
}

static float miras__bias_custom_bwd(const miras__bias_row *x) {
  const miras_custom *f = x->d->custom;
  float along;
  miras__fill(x->bdelta, 0, x->n);
  along = f->bias_adjoint(f->user, x->bdelta, x->bv, x->be, x->r, x->v, *x->delta, (int)x->n);
  miras__copy(x->br, x->bdelta, x->n);
  return along;
}

/* The table of biases, in the order of miras_bias: value and error, and the adjoint. */
static const struct {
  float (*fwd)(const miras__bias_row *x);
  float (*bwd)(const miras__bias_row *x);
} miras__biases[MIRAS_BIAS_COUNT] = {
  {miras__bias_dot, MIRAS__BACK(miras__bias_dot_bwd)},
  {miras__bias_l2, MIRAS__BACK(miras__bias_l2_bwd)},
  {miras__bias_lp, MIRAS__BACK(miras__bias_lp_bwd)},
  {miras__bias_lp_smooth, MIRAS__BACK(miras__bias_lp_smooth_bwd)},
  {miras__bias_huber, MIRAS__BACK(miras__bias_huber_bwd)},
  {miras__bias_huber_norm, MIRAS__BACK(miras__bias_huber_norm_bwd)},
  {miras__bias_huber_mixture, MIRAS__BACK(miras__bias_huber_mixture_bwd)},
  {miras__bias_pseudo_huber, MIRAS__BACK(miras__bias_pseudo_huber_bwd)},
  {miras__bias_shift, MIRAS__BACK(miras__bias_shift_bwd)},
  {miras__bias_log_cosh, MIRAS__BACK(miras__bias_log_cosh_bwd)},
  {miras__bias_custom, MIRAS__BACK(miras__bias_custom_bwd)}
};

/* Errors and values of rows. With b [rows, n], the cotangent of e, the adjoint: b leaves as the
 * cotangent of r; bv [rows, n] is that of v with r held, bdelta that of delta. room [n]. */
static void miras__bias_rows(const miras__errors *x, float *b, float *bv, float *bdelta,
                             float *room) {
  const size_t n = x->n;
  size_t i;
  if (b) miras__fill(bv, 0, x->rows * n);
  for (i = 0; i < x->rows; i++) {
    miras__bias_row s;
    memset(&s, 0, sizeof s);
    s.d = x->d;
    s.n = n;
    s.each = x->d->threshold_gate == MIRAS_GATE_CHANNEL;
    s.r = x->r + i * n;
    s.v = x->v + i * n;
    s.delta = x->delta + i * x->bounds;
    if (MIRAS__TRAINS && b) {
      float one;
      s.be = s.br = b + i * n;
      s.bv = bv + i * n;
      s.bdelta = s.each ? bdelta + i * x->bounds : room;
      one = miras__biases[x->d->bias].bwd(&s);
      if (!s.each) bdelta[i] = one;
    } else {
      s.e = x->e + i * n;
      x->loss[i] = miras__biases[x->d->bias].fwd(&s);
    }
  }
}

#endif

/* @27 RETENTION LINKS -------------------------------------------------- needs 14 21 22 23 26 -- */

/* W = link(A) for each layer [in, out]; J, how far a weight moves with its A, is what a bounded
 * step asks for (room @51):
 *   LQ        W = A inv,  inv = N^(2-q),  N = max(||A||_q, 1e-6) over the layer;  J = inv
 *   p-norm    W = P inv,  P = sgn(A) |A|^(q-1)
 *   KL        W = c softmax(A) per slice, J = W; signed W = c sinh(A) / sum cosh(A), the difference
 *             of the two halves of a softmax over A and -A, J = c cosh(A) / sum cosh(A). A slice
 *             belongs to one of the d channels: the first layer's rows (inputs) when the memory is
 *             deeper than one, the last layer's columns (outputs); layers between have no such
 *             channel and are one slice, as is every layer on request. f-divergences and Memora's
 *             paper form map the initial memory so and keep W from there on
 *   FTRL      W = shrink(A; gamma), gamma = sparsity; towards the initial memory B, W = B +
 *             shrink(A - B; gamma)
 *   sigmoid   W = 1 / (1 + exp -A),  J = W (1 - W)
 *   tanh      W = tanh A,  J = 1 - W^2
 *   custom    the caller's
 * Further down: what a closing chunk does beyond a link, the f-divergence step and the logarithm
 * of Memora's exact token. */

/* ||A||_q with the largest entry taken out first, so that no power overflows or underflows. */
static float miras__norm_q(const float *a, float q, size_t n) {
  float row[256], most;
  double total = 0;
  size_t i;
  vf top = V_ZERO();
  V_FOR(n) top = V_MAX(top, V_ABS(V_AT(a)));
  most = V_MOST(top);
  if (!(most > 1e-20f)) return 0;      /* far below the clamp, and 1 / most must stay finite */
  for (i = 0; i < n; i += 256) {
    const size_t m = n - i < 256 ? n - i : 256;
    V_FOR(m) V_PUT(row, miras__v_power(V_MUL(V_ABS(V_AT(a + i)), V_SET1(1 / most)), q));
    total += (double)miras__sum(row, m);
  }
  return most * (float)pow(total, 1.0 / (double)q);
}

#if MIRAS__COMMON   /* the same for all sets */

/* Slices of a layer: slice i has n entries, the first at i * hop, then every stride. */
typedef struct miras__slices {
  size_t count, n, stride, hop;
} miras__slices;

static miras__slices miras__slices_of(const miras__plan *p, int l) {
  miras__slices s;
  int kind = miras__slice(p, l);
  size_t rows = (size_t)p->in[l], cols = (size_t)p->out[l];
  s.count = kind == 2 ? cols : kind == 1 ? rows : 1;
  s.n = rows * cols / s.count;
  s.stride = kind == 2 ? cols : 1;
  s.hop = kind == 2 ? 1 : s.n;
  return s;
}

#endif

/* 2 e^-top sinh a and 2 e^-top cosh a for |a| <= top; low is 2 e^-top. Small sines come from their
 * series, because a difference of exponentials loses their digits. */
static inline vf miras__v_hyperbolic(vf a, vf top, vf low, vf *cosine) {
  vf up = miras__v_exp(V_SUB(a, top)), down = miras__v_exp(V_SUB(V_NEG(a), top));
  vf square = V_MUL(a, a), sine = V_SET1(1.9841270e-4f);
  sine = V_FMA(sine, square, V_SET1(8.3333333e-3f));
  sine = V_FMA(sine, square, V_SET1(0.16666667f));
  sine = V_FMA(V_MUL(sine, square), a, a);
  *cosine = V_ADD(up, down);
  return V_SELECT(V_LT(V_ABS(a), V_SET1(0.5f)), V_MUL(low, sine), V_SUB(up, down));
}

/* Signed slices of layer l: w = c sinh(a) / sum cosh(a) and mass = c cosh(a) / sum cosh(a). Either
 * may be NULL, and w may be a. */
static void miras__signed_fwd(const miras__plan *p, int l, float *w, float *mass, const float *a) {
  const miras__slices s = miras__slices_of(p, l);
  const int columns = s.stride > 1;                /* a vector of slices, row by row; else one   */
  const size_t each = columns ? V_W : 1, hop = columns ? s.stride : V_W;
  const size_t turns = columns ? s.n : (s.n + V_W - 1) / V_W;
  const vf one = V_SET1(1.0f);
  size_t i, j, r;
  for (j = V_UNIT * each; j < s.count; j += V_UNITS * each) {
    vf top = V_ZERO(), low, sum = V_ZERO(), sine, cosine;
    for (r = 0; r < turns; r++) {
      size_t at = j * s.hop + r * hop, n = columns ? s.count - j : s.n - r * V_W;
      top = V_MAX(top, V_ABS(V_LOAD_N(a + at, n)));
    }
    if (!columns) top = V_SET1(V_MOST(top));
    low = V_MUL(V_ADD(one, one), miras__v_exp(V_NEG(top)));
    if (columns) {
      for (r = 0; r < turns; r++) {
        (void)miras__v_hyperbolic(V_LOAD_N(a + j + r * hop, s.count - j), top, low, &cosine);
        sum = V_ADD(sum, cosine);
      }
      sum = V_DIV(V_SET1(p->d.simplex), sum);
    } else {
      float row[256], total = 0;
      for (r = 0; r < s.n; r += 256) {
        const size_t m = s.n - r < 256 ? s.n - r : 256;
        for (i = 0; i < m; i += V_W) {
          vf x = V_LOAD_N(a + j * s.hop + r + i, m - i);
          (void)miras__v_hyperbolic(x, top, low, &cosine);
          V_STORE_N(row + i, cosine, m - i);
        }
        total += miras__sum(row, m);
      }
      sum = V_SET1(p->d.simplex / total);
    }
    for (r = 0; r < turns; r++) {
      size_t at = j * s.hop + r * hop, n = columns ? s.count - j : s.n - r * V_W;
      sine = miras__v_hyperbolic(V_LOAD_N(a + at, n), top, low, &cosine);
      if (w) V_STORE_N(w + at, V_MUL(sine, sum), n);
      if (mass) V_STORE_N(mass + at, V_MUL(cosine, sum), n);
    }
  }
}

/* w = c softmax(a) on every slice of layer l; may be in place. */
static void miras__simplex_fwd(const miras__plan *p, int l, float *w, const float *a) {
  const miras__slices s = miras__slices_of(p, l);
  const size_t hop = s.stride, all = s.count * s.n;
  size_t i;
  if (hop > 1) V_SHARE(s.count) {                  /* each column a slice */
    vf top = V_AT(a), sum = V_ZERO();
    for (i = hop; i < all; i += hop) top = V_MAX(top, V_AT(a + i));
    for (i = 0; i < all; i += hop) {
      const vf x = miras__v_exp(V_SUB(V_AT(a + i), top));
      sum = V_ADD(sum, x);
      V_PUT(w + i, x);
    }
    sum = V_DIV(V_SET1(p->d.simplex), sum);
    for (i = 0; i < all; i += hop) V_PUT(w + i, V_MUL(V_AT(w + i), sum));
  } else for (i = V_UNIT * s.n; i < all; i += V_UNITS * s.n) {
    miras__softmax(w + i, a + i, s.n, p->d.simplex);
  }
  V_MEET();
  for (i = V_UNIT * s.n; i < all; i += V_UNITS * s.n) miras__flush(w + i, w + i, s.n);
}

/* ba += the adjoint of simplex_fwd (mass NULL) or of signed_fwd, with t the mass and bt its
 * cotangent (NULL: none):
 *                                              ba += w (.) (bw - <bw, w>/c)
 *   dw_i/da_j = t_i [i = j] - w_i w_j / c      ba += t (.) bw - w <bw, w>/c
 *   dt_i/da_j = w_i [i = j] - t_i w_j / c      ba += w (.) bt - w <bt, t>/c */
static void miras__simplex_bwd(const miras__plan *p, int l, float *ba, const float *bw,
                               const float *bt, const float *w, const float *mass) {
  const miras__slices s = miras__slices_of(p, l);
  const int columns = s.stride > 1;
  const size_t each = columns ? V_W : 1, hop = columns ? s.stride : V_W;
  const size_t turns = columns ? s.n : (s.n + V_W - 1) / V_W;
  size_t j, r;
  for (j = V_UNIT * each; j < s.count; j += V_UNITS * each) {
    const size_t first = j * s.hop;
    vf inner = V_ZERO();
    if (columns) {
      for (r = 0; r < turns; r++) {
        const size_t at = first + r * hop, n = s.count - j;
        inner = V_FMA(V_LOAD_N(bw + at, n), V_LOAD_N(w + at, n), inner);
        if (bt) inner = V_FMA(V_LOAD_N(bt + at, n), V_LOAD_N(mass + at, n), inner);
      }
    } else {
      float total = miras__dot(bw + first, w + first, s.n);
      if (bt) total += miras__dot(bt + first, mass + first, s.n);
      inner = V_SET1(total);
    }
    inner = V_DIV(inner, V_SET1(p->d.simplex));
    for (r = 0; r < turns; r++) {
      const size_t at = first + r * hop, n = columns ? s.count - j : s.n - r * V_W;
      const vf from = V_LOAD_N(bw + at, n), at_w = V_LOAD_N(w + at, n);
      vf b = V_NEG(inner), old = V_LOAD_N(ba + at, n);
      if (bt) b = V_ADD(b, V_LOAD_N(bt + at, n));
      if (!mass && columns) b = V_ADD(b, from);
      else old = V_FMA(mass ? V_LOAD_N(mass + at, n) : at_w, from, old);
      V_STORE_N(ba + at, V_FMA(at_w, b, old), n);
    }
  }
}

/* The arctangent of u = size / (gamma pi/2), with v the smaller of u and 1/u. Half of them come
 * from atan u = pi/2 - atan(1/u), so that neither tiny nor zero gamma divides. atan v, relative
 * error 2e-8 before rounding, is pi/4 + atan((v - 1)/(v + 1)) above tan(pi/8). */
static inline vf miras__v_atan(vf size, float gamma, vf *v, vm *far_out) {
  const vf half_pi = V_SET1(1.57079633f), edge = V_MUL(half_pi, V_SET1(gamma)), one = V_SET1(1.0f);
  vf t, s, y;
  vm upper;
  *far_out = V_LT(edge, size);
  *v = V_DIV(V_SELECT(*far_out, edge, size),
             V_MAX(V_SET1(FLT_MIN), V_SELECT(*far_out, size, edge)));
  upper = V_LT(V_SET1(0.414213562f), *v);
  t = V_SELECT(upper, V_DIV(V_SUB(*v, one), V_ADD(*v, one)), *v);
  s = V_MUL(t, t);
  y = V_SET1(8.0537227104e-2f);
  y = V_FMA(y, s, V_SET1(-1.3877678740e-1f));
  y = V_FMA(y, s, V_SET1(1.9977710026e-1f));
  y = V_FMA(y, s, V_SET1(-3.3332949139e-1f));
  y = V_FMA(V_MUL(y, s), t, t);
  y = V_SELECT(upper, V_ADD(V_SET1(0.785398163f), y), y);
  return V_SELECT(*far_out, V_SUB(half_pi, y), y);
}

/* w = shrink(a; gamma), or b + shrink(a - b; gamma); w may be a.
 *   soft    sgn(a) max(|a| - gamma, 0)
 *   smooth  a atan(u) / (pi/2), u = 2 |a| / (pi gamma): also |a| - gamma + O(gamma^2/|a|) far out
 * At gamma = 0 both are the identity. */
static void miras__shrink_from(const miras__plan *p, float *w, const float *a, const float *b,
                               float gamma, size_t n) {
  V_FOR(n) {
    vf x = b ? V_SUB(V_AT(a), V_AT(b)) : V_AT(a), size = V_ABS(x), v;
    vm far_out;
    if (gamma > 0 && p->d.smooth_shrink) {
      x = V_MUL(x, V_MUL(miras__v_atan(size, gamma, &v, &far_out), V_SET1(0.636619772f)));
    } else if (gamma > 0) {
      v = V_SUB(size, V_SET1(gamma));
      x = V_SELECT(V_LE(v, V_ZERO()), V_ZERO(), V_COPYSIGN(v, x));   /* NaN stays */
    }
    V_PUT(w, b ? V_ADD(x, V_AT(b)) : x);
  }
}

/* Its adjoint: ba = [ba +] m (.) bw with m = shrink', bb += bw - m (.) bw (b NULL: none); ba may be
 * bw where nothing is added. Returns the cotangent of gamma. With v the smaller of u and 1/u:
 *   soft    dw/da = 1[|a| > gamma],                      dw/dgamma = -sgn(a) 1[|a| > gamma]
 *   smooth  dw/da = (atan u + v/(1 + v^2)) / (pi/2),     dw/dgamma = -sgn(a) min(u, 1) v/(v + v^3)
 * that is 1/(1 + v^2) beyond u = 1 and v^2/(1 + v^2) before. */
static float miras__shrink_from_bwd(const miras__plan *p, float *ba, int add, const float *bw,
                                    const float *a, const float *b, float *bb, float gamma,
                                    size_t n) {
  const vf one = V_SET1(1.0f), zero = V_ZERO();
  float row[256];
  double total = 0;
  size_t i, m;
  for (i = 0; i < n; i += m) {
    m = n - i < 256 ? n - i : 256;
    V_FOR(m) {
      const vf from = V_AT(bw + i), x = b ? V_SUB(V_AT(a + i), V_AT(b + i)) : V_AT(a + i);
      vf slope = one, down, size = V_ABS(x), to;
      if (gamma <= 0) {
        down = V_SELECT(V_LE(size, zero), zero, one);
      } else if (p->d.smooth_shrink) {
        vf v, r;
        vm far_out;
        to = miras__v_atan(size, gamma, &v, &far_out);
        r = V_DIV(one, V_FMA(v, v, one));
        slope = V_MUL(V_FMA(v, r, to), V_SET1(0.636619772f));
        down = V_SELECT(far_out, r, V_MUL(V_MUL(v, v), r));
      } else {
        down = slope = V_SELECT(V_LE(V_SUB(size, V_SET1(gamma)), zero), zero, one);
      }
      V_PUT(row, V_NEG(V_MUL(from, V_COPYSIGN(down, x))));
      to = V_MUL(from, slope);
      if (b) V_PUT(bb + i, V_SUB(V_ADD(V_AT(bb + i), from), to));
      V_PUT(ba + i, add ? V_ADD(to, V_AT(ba + i)) : to);
    }
    total += (double)miras__sum(row, m);
  }
  return (float)total;
}

/* w = a N^(2-q), or with pnorm sgn(a) |a|^(q-1) N^(2-q); returns N^(2-q), N = max(||a||_q, 1e-6) */
static float miras__lq_fwd(float *w, const float *a, float q, int pnorm, size_t n) {
  const float norm = miras__norm_q(a, q, n);
  const float inv = (float)pow((double)(norm < 1e-6f ? 1e-6f : norm), 2.0 - (double)q);
  const vf by = V_SET1(inv);
  V_MEET();
  if (!pnorm) V_SHARE(n) V_PUT(w, V_MUL(by, V_AT(a)));
  else
    V_SHARE(n)
      V_PUT(w, V_MUL(V_COPYSIGN(miras__v_power(V_ABS(V_AT(a)), q - 1), V_AT(a)), by));
  return inv;
}

/* Its adjoint, added to ba; binv is the cotangent that the open chunk's reads left on N^(2-q). With
 * Pw = sgn(A) |A|^(q-1), dN/dA = Pw N^(1-q):
 *   LQ        ba = bw N^(2-q) + (2-q) (<bw, A> + binv) N^(2-2q) Pw
 *   p-norm    ba = (q-1) |A|^(q-2) bw N^(2-q) + (2-q) <bw, Pw> N^(2-2q) Pw
 * Powers of A/N, never of N alone: N^(2-2q) leaves the range of float long before A does. */
static void miras__lq_bwd(float *ba, const float *bw, const float *a, const float *w, float binv,
                          float q, int pnorm, size_t n) {
  float norm = miras__norm_q(a, q, n), inner, inv;
  const int clamped = norm < 1e-6f;
  if (clamped) norm = 1e-6f;
  inv = (float)pow((double)norm, 2.0 - (double)q);
  /* <bw, Pw> N^(2-2q) Pw = <bw, w>/N (A/N)^(q-1), because w = Pw N^(2-q), and
   * (<bw, A> + binv) N^(2-2q) Pw = (<bw, A> + binv) N^(1-q) (A/N)^(q-1) */
  if (pnorm) inner = miras__dot(bw, w, n) / norm;
  else inner = (miras__dot(bw, a, n) + binv) * inv / norm;
  inner = clamped ? 0 : inner * (2 - q);
  V_MEET();
  V_SHARE(n) {
    const vf x = V_AT(a), s = miras__v_power(V_MUL(V_ABS(x), V_SET1(1 / norm)), q - 1);
    vf u = V_SET1(inv);
    if (pnorm) {
      const vf small = q < 2 ? V_MAX(V_ABS(x), V_SET1(1e-6f)) : V_ABS(x);
      u = V_MUL(u, V_MUL(V_SET1(q - 1), q > 1 ? miras__v_power(small, q - 2) : V_ZERO()));
    }
    u = V_FMA(V_AT(bw), u, V_AT(ba));
    V_PUT(ba, V_FMA(V_SET1(inner), V_COPYSIGN(s, x), u));
  }
}

/* ba += bw w (1 - w), the smaller of w and 1 - w from e^-|A| */
static void miras__sigmoid_bwd(float *ba, const float *bw, const float *a, size_t n) {
  V_FOR(n) {
    const vf e = miras__v_exp(V_NEG(V_ABS(V_AT(a)))), one = V_SET1(1.0f);
    const vf high = V_DIV(one, V_ADD(one, e));
    V_PUT(ba, V_FMA(V_AT(bw), V_MUL(high, V_MUL(e, high)), V_AT(ba)));
  }
}

#if MIRAS__COMMON   /* the same for all sets */

/* The step of an f-divergence, sum W' f(W/W') on a slice of the simplex, from W' over the summed
 * steps U = -a (MIRAS eq. 18): W = W' (.) ginv(y), y = a - zeta, ginv = (f')^-1, sum W = c. With x
 * the distance of y from the edge of ginv's domain:
 *   chi^2        ginv = 1 + y, 0 from -1 down    x = 1 + y    ginv = x
 *   reverse KL   ginv = -1/y                     x = -y       ginv = 1/x
 *   Hellinger    ginv = (1 - y)^-2               x = 1 - y    ginv = 1/x^2
 * sum W falls with zeta and is convex. No entry can exceed c, which gives each a zeta left of the
 * root; the largest of these lies inside the domain. Where y <= f'(1) everywhere nothing has grown,
 * which gives a zeta on the right. From the left Newton never crosses the root, for the poles on
 * (sum W)^-1 and (sum W)^-1/2, which are straight for a single entry; bisection stands by for
 * roundings. zeta is kept as a distance from the entry that gave the left end, x = (that entry's a
 * - a) + root (chi^2: the opposite), so that tiny weights cost no digits. All in double and
 * uncontracted, the same everywhere; 16 columns go side by side, because one alone would wait for
 * memory. */

/* ginv and its slope dginv/dy at x; 0 outside the domain, where only entries of 0 can lie. */
static double miras__divergence_map(miras_retention f, double x, double *slope) {
  double r = 1 / x;
  *slope = 0;
  if (x <= 0) return 0;
  *slope = f == MIRAS_RETAIN_CHI2 ? 1 : f == MIRAS_RETAIN_REVERSE_KL ? r * r : 2 * r * r * r;
  return f == MIRAS_RETAIN_CHI2 ? x : f == MIRAS_RETAIN_REVERSE_KL ? r : r * r;
}

/* The roots of slices side by side. */
typedef struct miras__roots {
  double root[16], base[16], sign;
} miras__roots;

/* ginv of entry a of slice j */
static double miras__divergence_at(miras_retention f, const miras__roots *z, size_t j, float a,
                                   double *slope) {
  return miras__divergence_map(f, z->sign * (z->base[j] - (double)a + z->root[j]), slope);
}

static void miras__divergence_root(miras_retention f, miras__roots *z, const float *w,
                                   const float *a, miras__slices s, size_t abreast, double c) {
  double low[16], high[16], sum[16], fall[16], slope;
  int open[16], pass, left = 1;
  size_t i, j;
  z->sign = f == MIRAS_RETAIN_CHI2 ? -1 : 1;
  for (j = 0; j < abreast; j++) {
    low[j] = high[j] = -HUGE_VAL;
    z->base[j] = z->root[j] = 0;
    open[j] = 1;
  }
  for (i = 0; i < s.n; i++)
    for (j = 0; j < abreast; j++) {
      double x = (double)w[i * s.stride + j * s.hop], y = (double)a[i * s.stride + j * s.hop], at;
      if (!(x > 0)) continue;
      if (y > high[j]) high[j] = y;
      at = f == MIRAS_RETAIN_CHI2 ? -c / x : f == MIRAS_RETAIN_REVERSE_KL ? x / c : sqrt(x / c);
      if (!(y + at > low[j])) continue;
      low[j] = y + at;
      z->base[j] = y;
      z->root[j] = at;
    }
  for (j = 0; j < abreast; j++) {
    low[j] = z->root[j];
    high[j] += z->sign - z->base[j] + 1e-3;   /* the sum of W' is c only up to its roundings */
  }
  for (pass = 0; pass < 128 && left; pass++) {
    for (j = 0; j < abreast; j++) sum[j] = fall[j] = 0;
    for (i = 0; i < s.n; i++)
      for (j = 0; j < abreast; j++) {
        const size_t e = i * s.stride + j * s.hop;
        const double x = (double)w[e];
        if (x <= 0) continue;
        sum[j] += x * miras__divergence_at(f, z, j, a[e], &slope);
        fall[j] += x * slope;
      }
    left = 0;
    for (j = 0; j < abreast; j++) {
      double over = sum[j] / c, step, next;
      if (!open[j]) continue;
      if (!(fabs(over - 1) > 1e-13)) {         /* found, or not a number */
        if (!(over >= 0)) z->root[j] = (double)NAN;
        open[j] = 0;
        continue;
      }
      if (over > 1) low[j] = z->root[j];
      else high[j] = z->root[j];
      if (f == MIRAS_RETAIN_CHI2) step = sum[j] - c;
      else if (f == MIRAS_RETAIN_REVERSE_KL) step = sum[j] * (over - 1);
      else step = 2 * sum[j] * (sqrt(over) - 1);
      next = z->root[j] + step / fall[j];
      if (!(next > low[j] && next < high[j])) next = 0.5 * (low[j] + high[j]);
      if (next >= z->root[j] && next <= z->root[j]) {
        open[j] = 0;
        continue;
      }
      z->root[j] = next;
      left = 1;
    }
  }
}

/* w = W from w0 = W' and a = -U, layer by layer; w may be w0. Weights below 1e-30 become 0 with
 * chi^2, which knows zeros, and stay at 1e-30 with the others, which would lose them for good.
 * Given bw, the adjoint: bw comes in as the cotangent of W and leaves as that of W'; w = that of a.
 *   y = a - zeta,  x1 = W' (.) ginv'(y),  mean = <bw, x1> / sum x1
 *   w = x1 (.) (bw - mean),  bW' = ginv(y) (.) (bw - mean) */
static void miras__divergence_step(const miras__plan *p, float *w, float *bw, const float *w0,
                                   const float *a) {
  const double least = (double)MIRAS__FADED;
  const miras_retention f = p->d.retention;
  miras__roots z;
  double total[16], along[16], slope;
  size_t i, j, t;
  int l;
  for (l = 0; l < p->layers; l++) {
    const miras__slices s = miras__slices_of(p, l);
    const size_t most = s.hop == 1 ? 16 : 1;
    for (t = V_UNIT * most; t < s.count; t += V_UNITS * most) {
      const size_t abreast = s.count - t < most ? s.count - t : most, at = p->offset[l] + t * s.hop;
      miras__divergence_root(f, &z, w0 + at, a + at, s, abreast, (double)p->d.simplex);
      for (j = 0; j < abreast; j++) total[j] = along[j] = 0;
      for (i = 0; i < s.n; i++)                  /* W, or the sums that its adjoint needs */
        for (j = 0; j < abreast; j++) {
          const size_t e = at + i * s.stride + j * s.hop;
          const double g = miras__divergence_at(f, &z, j, a[e], &slope), x = (double)w0[e];
          if (MIRAS__TRAINS && bw) {
            total[j] += slope * x;
            along[j] += slope * x * (double)bw[e];
          } else {
            V_SYNC();
            w[e] = x <= 0 || (f == MIRAS_RETAIN_CHI2 && g * x < least) ? 0
                   : g * x < least ? MIRAS__FADED : (float)(g * x);
          }
        }
      for (i = 0; MIRAS__TRAINS && bw && i < s.n; i++)
        for (j = 0; j < abreast; j++) {
          const size_t e = at + i * s.stride + j * s.hop;
          const double g = miras__divergence_at(f, &z, j, a[e], &slope);
          const double b = (double)bw[e] - along[j] / total[j];
          V_SYNC();
          w[e] = (float)((double)w0[e] * slope * b);
          bw[e] = (float)(g * b);
        }
    }
  }
}
#endif

/* Memora's exact token starts from log max(W, 1e-8): what was linear in W may have left the
 * simplex. In place or not; no gradient passes the clamp. */
static void miras__log_weights(float *a, const float *w, size_t n) {
  const vf low = V_SET1(1e-8f);
  V_FOR(n) V_PUT(a, miras__v_log(V_SELECT(V_LE(V_AT(w), low), low, V_AT(w))));
}

/* b <- b / w where w > 1e-8, else 0 */
static void miras__log_weights_bwd(float *b, const float *w, size_t n) {
  const vf low = V_SET1(1e-8f), zero = V_ZERO();
  V_EACH(b, n, V_SELECT(V_LE(V_AT(w), low), zero, V_DIV(V_AT(b), V_AT(w))));
}

/* @28 CHANNEL PRODUCTS ---------------------------------------------------- needs 14 21 23 25 -- */

/* Where a decay is one number per channel, the weight of row j in what row i sees is a vector, and
 * the products of a block are no matrix products. Row j of a block enters as x_j, scaled by a step
 * of its own if it has one, and every later row's decay multiplies it:
 *   D_jj = eta_j (.) x_j      D_ij = alpha_i (.) D_(i-1)j
 *   scores  P_ij = q_i . D_ij  (j <= i)      A_ij = z_i . D_ij or z_i . D_(i-1)j  (j < i)
 *   mixes   o_i += sum_(j<=i) P_ij (.) D_ij
 * What is carried from row to row is D itself (`live`), a running product: decays of exactly 0 and
 * 1 need no care, nothing is divided and no logarithm is taken. When a block closes, live holds
 * D_(last)j, which is all that the state needs. Every MIRAS__SWEEP rows what has faded becomes
 * 0 there, of which the adjoint takes no notice. Scores over channels of the input and mixes over
 * channels of the output are adjoint to each other: with cotangents bo of o,
 *   bP_ij = bo_i . D_ij is a score of bo,      bq_i = sum_j bP_ij D_ij is a mix,
 * and both have the same cotangents of x, eta and alpha, so one adjoint serves the two. */

#if MIRAS__COMMON   /* the same for all sets */

/* a_i = alpha_i (.) a_(i-1): what is left of the state at the block's start. a_(-1) = before, or
 * ones for NULL. */
static void miras__channel_decay(const miras__kernels *K, float *a, const float *before,
                                 const float *alpha, size_t m, size_t n) {
  for (; m--; before = a, a += n, alpha += n) {
    if (before) K->mul(a, alpha, before, n);
    else K->copy(a, alpha, n);
  }
}

/* Its adjoint from the block's first row on, before = NULL; ba is consumed:
 * dalpha_i += ba_i (.) a_(i-1),  ba_(i-1) += alpha_i (.) ba_i. */
static void miras__channel_decay_bwd(const miras__kernels *K, float *dalpha, float *ba,
                                     const float *a, const float *alpha, size_t m, size_t n) {
  for (m *= n; m > n;) {
    m -= n;
    K->muladd(dalpha + m, ba + m, a + m - n, n);
    K->muladd(ba + m - n, alpha + m, ba + m, n);
  }
  K->add(dalpha, ba, n);
}

/* The same for a block that stays open over calls, of which rows r0..r0+m-1 enter. Row i + 1 of c
 * belongs to row r0 + i, row 0 to what came before: `last`, or ones where r0 is 0; last becomes row
 * m. Swept on a grid of rows. */
static void miras__channel_left(const miras__kernels *K, float *last, float *c, const float *alpha,
                                size_t n, size_t r0, size_t m) {
  size_t part;
  if (r0) K->copy(c, last, n);
  else K->fill(c, 1, n);
  for (; m; m -= part, r0 += part, alpha += part * n, c += part * n) {
    part = MIRAS__SWEEP - r0 % MIRAS__SWEEP;
    if (part > m) part = m;
    miras__channel_decay(K, c + n, c, alpha, part, n);
    if ((r0 + part) % MIRAS__SWEEP == 0) K->flush(c + part * n, c + part * n, n);
  }
  K->copy(last, c, n);
}

/* flush of a number */
static float miras__flushed(float x) { return fabsf(x) < MIRAS__FADED ? 0 : x; }

/* What is left, in rows r0..r0+m-1 of a chunk, of its rows and of what was before it, under decays
 * of one number per row:
 *   l_ij = alpha_i l_(i-1)j  (j < i)     l_ii = own_i or 1     c_i = alpha_i c_(i-1)
 * Row 0 of l [m + 1, ld] and c [m + 1] is row r0 - 1 of the chunk, row i - r0 + 1 is row i. */
static void miras__decay_rows(const miras__kernels *K, float *l, size_t ld, float *c,
                              const float *alpha, const float *own, size_t r0, size_t m) {
  size_t i;
  for (i = 0; i < m; i++, l += ld) {
    float left = alpha[i] * c[i];
    K->scale(l + ld, alpha[i], l, r0 + i);
    if (!(left >= MIRAS__FADED)) {                 /* what came later has faded no further */
      K->flush(l + ld, l + ld, r0 + i);
      left = miras__flushed(left);
    }
    l[ld + r0 + i] = own ? own[i] : 1;
    c[i + 1] = left;
  }
}

/* Its adjoint from the chunk's first row on; dl [m, ld] and dc [m], which have no row 0, are used
 * up:  dalpha_i = c_(i-1) dc_i + l_(i-1) . dl_i   down_i = dl_ii
 *      dl_(i-1) += alpha_i dl_i                   dc_(i-1) += alpha_i dc_i */
static void miras__decay_rows_bwd(const miras__kernels *K, float *dl, size_t ld, float *dc,
                                  float *dalpha, float *down, const float *l, const float *c,
                                  const float *alpha, size_t m) {
  size_t i;
  for (i = m; i-- > 0;) {
    float *row = dl + i * ld;
    dalpha[i] = c[i] * dc[i];
    if (down) down[i] = row[i];
    if (!i) return;
    V_KEEP(dalpha[i], dalpha[i] + K->dot(l + i * ld, row, i));
    K->axpy(row - ld, alpha[i], row, i);
    V_KEEP(dc[i - 1], dc[i - 1] + alpha[i] * dc[i]);
  }
}

/* The same for a block that stays open over calls: row 0 is last_c, last_l, or the beginning where
 * r0 is 0, and row m goes there. */
static void miras__scalar_left(const miras__kernels *K, float *last_c, float *last_l, float *c,
                               float *l, size_t ld, const float *alpha, size_t r0, size_t m) {
  *c = r0 ? *last_c : 1;
  K->copy(l, last_l, r0);
  miras__decay_rows(K, l, ld, c, alpha, NULL, r0, m);
  *last_c = c[m];
  K->copy(last_l, l + m * ld, r0 + m);
}

/* The adjoint of triangle with inv 1 for rows that see the first `first + i step` rows of a block:
 * dl_(i step) += dp_i (.) z_i unless dl is NULL; dp_i becomes dz_i. */
static void miras__weigh_bwd(const miras__kernels *K, float *dl, float *dp, const float *l,
                             const float *z, size_t ld, size_t rows, size_t first, size_t step,
                             size_t n) {
  size_t i;
  for (i = 0; i < rows; i++) {
    const size_t at = i * step * ld, seen = first + i * step;
    if (dl) K->muladd(dl + at, dp + i * ld, z + i * ld, seen);
    K->mul(dp + i * ld, dp + i * ld, l + at, seen);
  }
  K->mask_rows(dp, ld, 0, rows, n, -(ptrdiff_t)n, (ptrdiff_t)first, step);
}

/* Normalisers: den_i += p_i . eta over what row i sees, kept off zero. */
static void miras__normaliser(const miras__kernels *K, float *den, const float *p, size_t ld,
                              const float *eta, size_t rows, size_t first, size_t step) {
  size_t i;
  for (i = 0; i < rows; i++, p += ld, first += step)
    V_KEEP(den[i], den[i] + K->dot(p, eta, first) + 1e-10f);
}

/* Its adjoint for eta: deta += dden_i p_i. */
static void miras__normaliser_bwd(const miras__kernels *K, float *deta, const float *dden,
                                  const float *p, size_t ld, size_t rows, size_t first,
                                  size_t step) {
  size_t i;
  for (i = 0; i < rows; i++, p += ld, first += step) K->axpy(deta, dden[i], p, first);
}

/* y = 1 / y */
static void miras__invert(float *y, size_t n) {
  size_t i;
  for (i = 0; i < n; i++) V_KEEP(y[i], 1 / y[i]);
}

#endif

/* One row of D goes one token further: d = alpha (.) d, p = q . d, a = z . d before or after. Which
 * of the two are asked for is a constant at every call, and `after` where there is a q. The sums
 * run in 16 lanes as in dot. */
MIRAS__INLINE vf miras__channel_part(int with_q, int with_z, int after, float *d, vf alpha,
                                     const float *q, vf *sum_q, const float *z, vf sum_z,
                                     size_t left) {
  vf x = V_LOAD_N(d, left), old = x;
  x = V_MUL(alpha, x);
  V_STORE_N(d, x, left);
  if (with_q) *sum_q = V_FMA(V_LOAD_N(q, left), x, *sum_q);
  return with_z ? V_FMA(V_LOAD_N(z, left), after ? x : old, sum_z) : sum_z;
}

MIRAS__INLINE void miras__channel_step(int with_q, int with_z, int after, float *d,
                                       const float *alpha, const float *q, float *p, const float *z,
                                       float *a, size_t n) {
  vf lane_q[V_R], lane[V_R];
  size_t r;
  V_UNROLL for (r = 0; r < V_R; r++) lane_q[r] = lane[r] = V_ZERO();
#define K_PART lane[r] = miras__channel_part(with_q, with_z, after, d + v_at, V_AT(alpha), \
    with_q ? q + v_at : NULL, &lane_q[r], with_z ? z + v_at : NULL, lane[r], v_left)
#if V_W == 1                             /* unrolled by 16, as V_LANES is, 20 KB and no faster   */
  V_FOR(n) r = v_at % 16, K_PART;
#else
  V_LANES(n, r, K_PART);
#endif
#undef K_PART
  if (with_q) *p = miras__fold(lane_q);
  if (with_z) *a = miras__fold(lane);
}

/* The rows before row r0 + i of the block advance to it, with their scores where `reads` says that
 * it is queried and where there is a z. */
static void miras__channel_row(const miras__channels *c, size_t r0, size_t i, int reads) {
  const size_t n = c->n, row = r0 + i, read = i / c->every;
  const float *alpha = c->alpha + i * n, *z = c->z ? c->z + i * n : NULL;
  const float *q = reads ? c->q + read * n : NULL;
  float *p = reads ? c->p + read * c->ld_p : c->live, *a = z ? c->a + i * c->ld_p : c->live;
  float *d = c->live;
  size_t j;
  for (j = 0; j < row; j++, d += n) {
#ifdef __OPTIMIZE_SIZE__
    miras__channel_step(reads, z != NULL, c->after, d, alpha, q, p + j, z, a + j, n);
#else
    if (z && !reads) miras__channel_step(0, 1, c->after, d, alpha, q, p, z, a + j, n);
    else if (z && c->after) miras__channel_step(1, 1, 1, d, alpha, q, p + j, z, a + j, n);
    else if (z) miras__channel_step(1, 1, 0, d, alpha, q, p + j, z, a + j, n);
    else if (reads) miras__channel_step(1, 0, 0, d, alpha, q, p + j, z, a, n);
    else miras__mul(d, alpha, d, n);
#endif
  }
}

/* The same with to += sum_(j<=row) p_j D_j, where the row itself has entered. The sum of an element
 * is one chain in the order of j. */
static void miras__channel_mix(const miras__channels *c, float *to, const float *p, size_t row,
                               const float *alpha) {
  const size_t n = c->n;
  size_t j, x;
  for (x = 0; x < n; x += V_W) {
    const size_t rest = n - x;
    const vf al = V_LOAD_N(alpha + x, rest);
    vf sum = V_LOAD_N(to + x, rest);
    float *d = c->live + x;
    for (j = 0; j < row; j++, d += n) {
      vf v = V_MUL(al, V_LOAD_N(d, rest));
      V_STORE_N(d, v, rest);
      sum = V_FMA(V_SET1(p[j]), v, sum);
    }
    sum = V_FMA(V_SET1(p[row]), V_LOAD_N(d, rest), sum);
    V_STORE_N(to + x, sum, rest);
  }
}

#if MIRAS__COMMON   /* the same for all sets */

/* Rows r0..r0+m-1 enter one by one, live_r = eta (.) x, and live advances to row r0+m-1; now and
 * then it loses what has faded. Where a row is queried,
 *   o NULL, q not   scores: row i of p and a is written up to its own j
 *   o               o [queried rows, n] += sum_(j<=i) p_ij D_ij */
static void miras__channel_rows(const miras__kernels *K, const miras__channels *c, float *o,
                                size_t ldo, size_t r0, size_t m) {
  const size_t n = c->n;
  size_t i;
  for (i = 0; i < m; i++) {
    const size_t row = r0 + i, read = i / c->every;
    const float *x = c->x + i * n;
    const int reads = (c->q || o) && (i + 1) % c->every == 0;
    float *d = c->live + row * n, *p = reads ? c->p + read * c->ld_p : NULL;
    if (row % MIRAS__SWEEP == 0) K->flush(c->live, c->live, row * n);
    if (c->eta) K->mul(d, c->eta + i * n, x, n);
    else K->copy(d, x, n);
    if (reads && o) K->channel_mix(c, o + read * ldo, p, row, c->alpha + i * n);
    else K->channel_row(c, r0, i, reads);
    if (reads && !o) p[row] = K->dot(c->q + read * n, d, n);
  }
}
#endif

/* The adjoint of both over a whole block of m rows (r0 = 0). For scores c->p, c->a hold their
 * cotangents bP, bA; for mixes c->p holds P, c->q the cotangents of o, and g->q is NULL. With B the
 * cotangent of D_ij, from B = g->live_j at the last row, for each j and i = m-1 down to j:
 *   B += bP_ij q_i,  bq_i += bP_ij D_ij       if i is queried
 *   B += bA_ij z_i,  bz_i += bA_ij D_ij       here if after, else one row lower, with D_(i-1)j
 *   balpha_i += B (.) D_(i-1)j,  B <- alpha_i (.) B             (i > j)
 *   and at i = j:  bx_j += eta_j (.) B,  b_eta_j += x_j (.) B
 * One vector of channels at a time: the history of its D_ij over i is all that has to be kept.
 * history: 16 m floats. */
static void miras__channel_bwd(const miras__channels *c, const miras__channel_grads *g, size_t m,
                               float *history) {
  const size_t n = c->n, every = c->every;
  size_t i, j;
  V_SHARE(n) {
    for (j = 0; j < m; j++) {
      const float *xj = c->x + j * n, *eta = c->eta ? c->eta + j * n : NULL;
      float *bx = g->x + j * n, *b_eta = g->eta ? g->eta + j * n : NULL;
      vf v = eta ? V_MUL(V_AT(eta), V_AT(xj)) : V_AT(xj), b;
      V_STORE(history, v);
      for (i = j + 1; i < m; i++) {
        v = V_MUL(V_AT(c->alpha + i * n), v);
        V_STORE(history + (i - j) * V_W, v);
      }
      b = g->live ? V_AT(g->live + j * n) : V_ZERO();
      for (i = m; i-- > j;) {
        const size_t row = i / every;
        v = V_LOAD(history + (i - j) * V_W);
        if (c->q && (i + 1) % every == 0) {
          const vf bp = V_SET1(c->p[row * c->ld_p + j]);
          float *bq = g->q ? g->q + row * n : NULL;
          b = V_FMA(bp, V_AT(c->q + row * n), b);
          if (bq) V_PUT(bq, V_FMA(bp, v, V_AT(bq)));
        }
        if (i > j) {
          const vf older = V_LOAD(history + (i - 1 - j) * V_W);
          float *balpha = g->alpha + i * n;
          vf ba = V_ZERO();
          if (c->z) {
            float *bz = g->z + i * n;
            ba = V_SET1(c->a[i * c->ld_p + j]);
            V_PUT(bz, V_FMA(ba, c->after ? v : older, V_AT(bz)));
            ba = V_MUL(ba, V_AT(c->z + i * n));
            if (c->after) b = V_ADD(b, ba);
          }
          V_PUT(balpha, V_FMA(b, older, V_AT(balpha)));
          b = V_MUL(V_AT(c->alpha + i * n), b);
          if (c->z && !c->after) b = V_ADD(b, ba);
        }
      }
      V_PUT(bx, V_ADD(V_AT(bx), eta ? V_MUL(V_AT(eta), b) : b));
      if (eta && b_eta) V_PUT(b_eta, V_FMA(V_AT(xj), b, V_AT(b_eta)));
    }
  }
}

/* Steps of the implicit rule: eta = rate / (1 + rate xx). */
static void miras__implicit(float *eta, const float *rate, float xx, size_t n) {
  const vf one = V_SET1(1.0f), square = V_SET1(xx);
  V_EACH(eta, n, V_DIV(V_AT(rate), V_ADD(one, V_MUL(V_AT(rate), square))));
}

/* The same in place over rows x [rows, n] with `rates` steps each. */
static void miras__implicit_rows(float *eta, size_t rates, const float *x, size_t ldx, size_t rows,
                                 size_t n) {
  size_t i;
  for (i = 0; i < rows; i++)
    miras__implicit(eta + i * rates, eta + i * rates, miras__dot(x + i * ldx, x + i * ldx, n),
                    rates);
}

/* The diagonal of an erase: alpha -= eta x^2, or alpha eta x^2 at decay first. */
static void miras__diagonal(float *alpha, float eta, const float *x, int decay_first, size_t n) {
  const vf by = V_SET1(eta);
  V_FOR(n) {
    const vf to = V_AT(alpha), less = V_MUL(by, V_MUL(V_AT(x), V_AT(x)));
    V_PUT(alpha, V_SUB(to, decay_first ? V_MUL(to, less) : less));
  }
}

#if MIRAS__COMMON   /* the same for all sets */

/* The adjoint of implicit: with D = eta the steps in use and rate what they came from, per row,
 *   bx -= 2 (sum D^2 bD) x,  b_eta = bD / (1 + rate x.x)^2, in place of bD */
static void miras__implicit_bwd(const miras__kernels *K, float *bx, float *b_eta, const float *eta,
                                const float *rate, size_t rates, const float *x, size_t n) {
  const float xx = K->dot(x, x, n);
  float sum = 0;
  size_t j;
  for (j = 0; j < rates; j++) {
    const float part = 1 / (1 + rate[j] * xx);
    sum += eta[j] * eta[j] * b_eta[j];
    V_KEEP(b_eta[j], b_eta[j] * (part * part));
  }
  K->axpy(bx, -2 * sum, x, n);
}

/* The adjoint of diagonal, where keeps is 0 unless decay comes first, with w = keep (ones for NULL)
 * at decay first and ones otherwise; row [n] is room:
 *   bx -= 2 eta w ba (.) x,  b_eta -= sum w ba x^2,  and at decay first bkeep = ba (1 - eta x^2) */
static void miras__diagonal_bwd(const miras__kernels *K, float *bx, float *b_eta, float *ba,
                                float eta, const float *x, const float *keep, size_t keeps,
                                float *row, size_t n) {
  K->mul(row, ba, x, n);
  if (keep && keeps > 1) K->mul(row, row, keep, n);
  if (keep && keeps == 1) K->scale(row, *keep, row, n);
  V_KEEP(*b_eta, *b_eta - K->dot(row, x, n));
  K->axpy(bx, -2 * eta, row, n);
  if (!keeps) return;
  K->mul(row, ba, x, n);
  K->mul(row, row, x, n);
  K->axpy(ba, -eta, row, n);
}

#endif

/* L2 both: alpha = balance / (balance + eta), and then eta becomes alpha eta. */
static void miras__both_fwd(float *alpha, float *eta, float balance, size_t n) {
  const vf own = V_SET1(balance);
  V_EACH(alpha, n, V_DIV(own, V_ADD(own, V_AT(eta))));
  miras__mul(eta, eta, alpha, n);
}

/* Its adjoint: b_eta <- alpha^2 (b_eta - balpha / balance). */
static void miras__both_bwd(float *b_eta, const float *balpha, const float *alpha, float balance,
                            size_t n) {
  const vf by = V_SET1(balance);
  V_EACH(b_eta, n, V_MUL(V_MUL(V_AT(alpha), V_AT(alpha)),
                         V_SUB(V_AT(b_eta), V_DIV(V_AT(balpha), by))));
}

/* Substitution over rows r0..r0+m-1, each column of dv by itself: nv vectors of columns from x on,
 * `left` of each. h, eta and the rows of a, aw, which are ld apart, belong to the new rows, u, w to
 * all rows of the block.
 *   w NULL:  h_i -= sum_(j<i) A_ij u_j,  u_i = eta_i (.) h_i
 *   else     u_i = h_i + sum_(j<i) Aw_ij w_j + sum_(j<i) A_ij u_j
 * back is the transpose over a whole block, from its last row, w NULL: h_j += sum_(i>j) A_ij u_i
 * and u_j = -eta_j (.) h_j, or h_j for eta NULL: the cotangent of R_j' z_j. */
MIRAS__INLINE void miras__exact_strip(int back, size_t nv, size_t left, const miras__solve *s,
                                      size_t x, size_t r0, size_t m) {
  const size_t dv = s->dv, ld = s->ld, rates = s->rates, from = back ? m - 1 : 0;
  const float *const w = s->w ? s->w + x : NULL;
  const float *aw = s->aw, *a = s->a + (back ? m * ld + from : 0);
  const float *eta = s->eta ? s->eta + from * rates + (rates > 1 ? x : 0) : NULL;
  float *const u = s->u + x, *h = s->h + from * dv + x, *to = u + (r0 + from) * dv;
  size_t i, j, r;
  for (i = 0; i < m; i++) {
    const size_t count = back ? i : r0 + i;
    const float *uj = back ? to + dv : u, *wj = w, *aij = a;
    vf acc[4];
    V_UNROLL for (r = 0; r < 4; r++) acc[r] = r < nv ? V_LOAD_N(h + r * V_W, left) : V_ZERO();
    for (j = 0; !back && w && j < count; j++, wj += dv) {
      const vf by = V_SET1(aw[j]);
      V_UNROLL for (r = 0; r < nv; r++) acc[r] = V_FMA(by, V_LOAD_N(wj + r * V_W, left), acc[r]);
    }
    for (j = 0; j < count; j++, uj += dv, aij += back ? ld : 1) {
      const vf by = V_SET1(back || w ? *aij : -*aij);
      V_UNROLL for (r = 0; r < nv; r++) acc[r] = V_FMA(by, V_LOAD_N(uj + r * V_W, left), acc[r]);
    }
    V_UNROLL for (r = 0; r < nv; r++) {
      vf v = acc[r];
      if (back || !w) V_STORE_N(h + r * V_W, v, left);
      if (eta && (back || !w)) {
        const vf by = rates == 1 ? V_SET1(*eta) : V_LOAD_N(eta + r * V_W, left);
        v = V_MUL(back ? V_NEG(by) : by, v);
      }
      V_STORE_N(to + r * V_W, v, left);
    }
    if (i + 1 == m) return;
    h = back ? h - dv : h + dv;
    to = back ? to - dv : to + dv;
    a = back ? a - ld - 1 : a + ld;
    if (w) aw += ld;
    if (eta) eta = back ? eta - rates : eta + rates;
  }
}

static void miras__exact_solve(int back, const miras__solve *s, size_t r0, size_t m) {
  const size_t dv = s->dv, wide = 4 * V_W;
  size_t x = 0;
  for (; x < dv; x += dv - x < wide ? V_W : wide) {
    if (back && dv - x >= wide) miras__exact_strip(1, 4, V_W, s, x, r0, m);
    else if (back) miras__exact_strip(1, 1, dv - x, s, x, r0, m);
    else if (dv - x >= wide) miras__exact_strip(0, 4, V_W, s, x, r0, m);
    else miras__exact_strip(0, 1, dv - x, s, x, r0, m);
  }
}

/* s <- diag(c) s + sum_r x_r u_r' for a few pairs in one pass over the state, in the place of
 * scale_rows and gemm; c has stride ld_c. */
MIRAS__INLINE void miras__fold_strip(size_t pairs, float *s, const float *c, size_t ld_c,
                                     const float *const *x, const float *const *u, size_t n,
                                     size_t dv) {
  size_t i, j, r;
  for (j = 0; j < dv; j += V_W) {
    const size_t rest = dv - j;
    float *row = s + j;
    vf w[4];
    V_UNROLL for (r = 0; r < pairs; r++) w[r] = V_LOAD_N(u[r] + j, rest);
    for (i = 0; i < n; i++, row += dv) {
      vf v = V_MUL(V_SET1(c[i * ld_c]), V_LOAD_N(row, rest));
      V_UNROLL for (r = 0; r < pairs; r++) v = V_FMA(V_SET1(x[r][i]), w[r], v);
      V_STORE_N(row, v, rest);
    }
  }
}

static void miras__fold_few(size_t pairs, float *s, const float *c, size_t ld_c,
                            const float *const *x, const float *const *u, size_t n, size_t dv) {
  if (pairs == 1) miras__fold_strip(1, s, c, ld_c, x, u, n, dv);
  else if (pairs == 2) miras__fold_strip(2, s, c, ld_c, x, u, n, dv);
  else miras__fold_strip(4, s, c, ld_c, x, u, n, dv);
}

#ifndef MIRAS__BORROWS
/* The normaliser's column: z <- c (.) z + sum_j eta_j l_j x_j over x [rows, n]; c is one number, or
 * n with ld_c 1, l NULL is ones. */
static void miras__fold_column(float *z, const float *c, size_t ld_c, const float *eta,
                               const float *l, const float *x, size_t rows, size_t n) {
  size_t j;
  V_SHARE(n) {
    vf sum = V_MUL(ld_c ? V_AT(c) : V_SET1(*c), V_AT(z));
    for (j = 0; j < rows; j++)
      sum = V_ADD(sum, V_MUL(V_SET1(l ? eta[j] * l[j] : eta[j]), V_AT(x + j * n)));
    V_PUT(z, sum);
  }
}

/* The adjoint of s = diag(c) s0 diag(cv), c of stride ld_c, cv NULL: ones, with a column more where
 * column is 1: dc_i += ds_i . (s0_i (.) cv),  dcv += c_i s0_i (.) ds_i, and ds becomes ds0. dc may
 * be NULL. */
static void miras__left_bwd(float *ds, float *dc, float *dcv, const float *s0, const float *c,
                            size_t ld_c, const float *cv, int column, size_t n, size_t dv) {
  size_t i;
  if (!ld_c && !cv) {
    const size_t all = n * dv + (column ? n : 0);
    if (dc) V_KEEP(*dc, *dc + miras__dot(s0, ds, all));
    miras__scale(ds, *c, ds, all);
    return;
  }
  for (i = 0; i < n; i++) {
    const float a = c[i * ld_c], *from = s0 + i * dv;
    const vf left = V_SET1(a);
    float *to = ds + i * dv, along;
    if (cv) {
      V_EACH(dcv, dv, V_FMA(V_MUL(left, V_AT(from)), V_AT(to), V_AT(dcv)));
      miras__mul(to, cv, to, dv);
    }
    along = miras__dot(from, to, dv);
    if (column) {
      along += s0[n * dv + i] * ds[n * dv + i];
      V_KEEP(ds[n * dv + i], ds[n * dv + i] * a);
    }
    if (dc) V_KEEP(dc[i * ld_c], dc[i * ld_c] + along);
    miras__scale(to, a, to, dv);
  }
}

#endif

/* One token of an exact memory whose chunk is 1, in one pass over its state, the least traffic: the
 * write of the token before is carried out while this one reads,
 *   S <- diag(alpha) (S + xp u') [+ (1 - alpha) B],  a = S' x,  b = S' q
 * so each row of S is loaded and stored once. xp NULL: nothing is pending; base: B or NULL; stride
 * 0: alpha is one number. Then, still by columns, the error e = v - a, or v without delta, u = eta
 * (.) e with one eta or dv of them, and y, unless NULL, = b + xq u; error, unless NULL, receives e,
 * or a without delta. */
typedef struct miras__linear {
  float *s, *u, *error, *y;
  const float *base, *xp, *alpha, *x, *q, *v, *eta;
  float xq;
  size_t stride, rates, n, dv;
} miras__linear;

/* home, base != NULL, is a constant at every call, and without it after, decay first, is. */
MIRAS__INLINE void miras__linear_pass(int home, int after, int delta, const miras__linear *f) {
  const float *const xp = f->xp, *const alpha = f->alpha, *const x = f->x, *const q = f->q;
  const float *const base = f->base, *const v = f->v, *const eta = f->eta;
  float *const s = f->s, *const u = f->u, *const y = f->y, *const error = f->error;
  const size_t n = f->n, dv = f->dv, stride = f->stride, rates = f->rates;
  const vf xq = V_SET1(f->xq);
  size_t i, j;
  V_SYNC();
  for (j = V_UNIT * V_W; j < dv; j += V_UNITS * V_W) {
    const size_t rest = dv - j;
    vf last = xp ? V_LOAD_N(u + j, rest) : V_ZERO(), va = V_ZERO(), vb = V_ZERO(), e;
    float *row = s + j;
    for (i = 0; i < n; i++, row += dv) {
      vf w = V_LOAD_N(row, rest);
      if (xp) w = V_FMA(V_SET1(xp[i]), last, w);
      if (!after) va = V_FMA(V_SET1(x[i]), w, va);
      w = V_MUL(V_SET1(alpha[i * stride]), w);
      if (home) w = V_FMA(V_SET1(1 - alpha[i * stride]), V_LOAD_N(base + i * dv + j, rest), w);
      if (after) va = V_FMA(V_SET1(x[i]), w, va);
      vb = V_FMA(V_SET1(q[i]), w, vb);
      V_STORE_N(row, w, rest);
    }
    e = V_LOAD_N(v + j, rest);
    if (delta) va = e = V_SUB(e, va);
    if (error) V_STORE_N(error + j, va, rest);
    e = V_MUL(rates == 1 ? V_SET1(*eta) : V_LOAD_N(eta + j, rest), e);
    V_STORE_N(u + j, e, rest);
    if (y) V_STORE_N(y + j, V_FMA(xq, e, vb), rest);
  }
}

/* Tokens t..end-1 of a head in chunks of 1, for plans that say `fused`; row: 3 values and 3 rows
 * of features. In the place of the rows of room @45 and of what room @50 does with a block of one
 * row: what it reads, the solution for u, the answer, the fold. Without it a write takes 2.5 times
 * as long at 16 x 16. Tokens are fetched two ahead: their rows lie in strides that no cache
 * foresees, and without it long sequences take up to 1.4 times as long. All units of a block run
 * it; its columns do not see each other. */
static void miras__linear_run(const miras__plan *p, const miras__head_io *io, const float *base,
                              float *s, float *row, size_t t, size_t end) {
  const size_t n = p->features, dk = (size_t)p->d.key_dim, dv = (size_t)p->d.value_dim;
  const size_t ahead = dk < dv ? dk : dv;
  float *steps = row + 2 * miras__pad(dv), *rows = row + 3 * miras__pad(dv);
  miras__linear f;
  size_t i;
  f.s = s, f.u = row, f.error = io->surprise ? row + miras__pad(dv) : NULL;
  f.base = base, f.xp = NULL;
  f.stride = p->decays > 1 ? 1 : 0, f.rates = p->rates, f.n = n, f.dv = dv;
  for (; t < end; t++) {
    f.v = io->v + t * io->ldv;
    f.eta = io->step + t * io->ld_step;
    f.y = io->q ? io->y + t * io->ldy : NULL;
    f.x = io->k + t * io->ldk;
    f.q = io->q ? io->q + t * io->ldq : f.x;
    f.alpha = io->keep + t * io->ld_keep;
    for (i = 0; end - t > 2 && i < ahead; i += 16) {
      V_FETCH(f.x + 2 * io->ldk + i, 0);
      V_FETCH(f.v + 2 * io->ldv + i, 0);
      if (!io->q) continue;
      V_FETCH(f.q + 2 * io->ldq + i, 0);
      V_FETCH(f.y + 2 * io->ldy + i, 1);
    }
    if (p->map) {
      float *x = rows + t % 2 * miras__pad(n), *q = rows + 2 * miras__pad(n);
      if (V_UNIT == 0) {
        miras__feature_rows(p->map, x, 0, f.x, 0, 1, dk);
        miras__feature_rows(p->map, q, 0, f.q, 0, 1, dk);
      }
      V_MEET();
      f.x = x;
      f.q = q;
    }
    f.xq = miras__dot(f.x, f.q, n);
    if (p->implicit) {
      if (V_UNIT == 0) miras__implicit(steps, f.eta, miras__dot(f.x, f.x, n), p->rates);
      V_MEET();
      f.eta = steps;
    }
    if (base) miras__linear_pass(1, p->after, p->delta, &f);
    else if (p->after) miras__linear_pass(0, 1, p->delta, &f);
    else miras__linear_pass(0, 0, p->delta, &f);
    if (p->map || p->implicit || f.error) V_MEET();
    if (f.error && V_UNIT == 0)
      io->surprise[t] = p->delta ? 0.5f * miras__dot(f.error, f.error, dv)
                                 : -miras__dot(f.error, f.v, dv);
    if (f.error) V_MEET();
    f.xp = f.x;
  }
  V_MEET();
  for (i = V_UNIT; f.xp && i < n; i += V_UNITS) {
    const vf a = V_SET1(f.xp[i]);
    V_EACH(s + i * dv, dv, V_FMA(a, V_AT(f.u), V_AT(s + i * dv)));
  }
}

/* y = (1 - a) scale */
static void miras__rest(float *y, const float *a, float scale, size_t n) {
  const vf one = V_SET1(1.0f), by = V_SET1(scale);
  V_EACH(y, n, V_MUL(V_SUB(one, V_AT(a)), by));
}

/* Conjugate gradients, each row for itself: begin with x = 0, s = r = b, and after every product
 * u = A s take a step,
 *   u += lambda (.) s     a = |r|^2 / (s . u)     x += a s     r -= a u     s = r + |r'|^2/|r|^2 s
 * A row stops when |r|^2 <= tolerance |b|^2. No guard is added to the quotients: r = 0 stops first,
 * and the usual 1e-5 would stall the solve long before that. */
static void miras__conjugate_start(const miras__conjugate *g) {
  size_t i;
  for (i = 0; i < g->rows; i++) {
    const float *r = g->r + i * g->n;
    const float size = miras__dot(r, r, g->n);
    g->limit[i] = g->tolerance * size;
    g->rr[i] = size <= 0 ? -1 : size;              /* NaN goes on, once, to spoil its own row */
  }
  miras__copy(g->s, g->r, g->rows * g->n);
  miras__fill(g->x, 0, g->rows * g->n);
}

static void miras__conjugate_step(const miras__conjugate *g) {
  const size_t n = g->n;
  size_t i;
  for (i = g->from + V_UNIT; i < g->to; i += V_UNITS) {
    float *s = g->s + i * n, *u = g->u + i * n, *r = g->r + i * n, along, length, next;
    vf ratio;
    if (g->rr[i] < 0) continue;
    miras__muladd(u, g->lambda, s, n);
    along = miras__dot(s, u, n);
    if (along <= 0) {                              /* only when the squares have vanished */
      g->rr[i] = -1;
      continue;
    }
    length = g->rr[i] / along;
    miras__axpy(g->x + i * n, length, s, n);
    miras__axpy(r, -length, u, n);
    next = miras__dot(r, r, n);
    if (next > g->limit[i]) {
      ratio = V_SET1(next / g->rr[i]);
      V_EACH(s, n, V_ADD(V_MUL(ratio, V_AT(s)), V_AT(r)));
      g->rr[i] = next;
    } else {
      g->rr[i] = -1;
    }
  }
}

#if MIRAS__COMMON   /* the same for all sets */
/* The first of rows from..to-1 that goes on, or with last 1 the end of those that do. */
static int miras__conjugate_end(const miras__conjugate *g, int last) {
  size_t from = g->from, to = g->to;
  while (from < to && g->rr[from] < 0) from++;
  while (from < to && g->rr[to - 1] < 0) to--;
  return (int)(last ? to : from);
}
#endif

/* Take in a block of scores s [count, m], a column per query: the new maximum, the weights in place
 * of the scores, the new sums of weights, and in o [m, dv] what is left of the old answers. A query
 * whose scores were all -infinity so far keeps sums of 0. */
static void miras__online_softmax(float *s, float *top, float *sum, float *o, size_t dv,
                                  size_t count, size_t m) {
  const vf low = V_SET1(-FLT_MAX);
  float *const end = s + count * m, *sj;
  size_t r;
  V_SHARE(m) {
    vf most = V_AT(top), base, left, total;
    for (sj = s; sj < end; sj += m) most = V_MAX(V_AT(sj), most);
    base = V_SELECT(V_LT(most, low), V_ZERO(), most);
    left = miras__v_exp(V_SUB(V_AT(top), base));
    total = V_MUL(V_AT(sum), left);
    for (sj = s; sj < end; sj += m) {
      const vf e = miras__v_exp(V_SUB(V_AT(sj), base));
      total = V_ADD(total, e);
      V_PUT(sj, e);
    }
    V_PUT(top, most);
    V_PUT(sum, total);
    for (r = 0; r < V_W && r < v_left; r++) {
      const float rescale = V_LANE(left, r);
      float *row = o + (v_at + r) * dv;
      if (!(rescale >= 1)) miras__scale(row, rescale, row, dv);
    }
  }
}

/* The same for scores s [m, count], a row per query, the same operations with vectors of pairs: a
 * single query takes 0.4 us per 1024 scores instead of 25. */
static void miras__online_softmax_rows(float *s, float *top, float *sum, float *o, size_t dv,
                                       size_t count, size_t m) {
  size_t i, j;
  for (i = 0; i < m; i++, s += count, o += dv) {
    float most = top[i], total = sum[i], base, rescale;
    for (j = 0; j < count; j++) most = s[j] > most ? s[j] : most;
    base = most < -FLT_MAX ? 0 : most;
    rescale = V_LANE(miras__v_exp(V_SET1(top[i] - base)), 0);
    total *= rescale;
    V_FOR(count) V_PUT(s, miras__v_exp(V_SUB(V_AT(s), V_SET1(base))));
    V_SYNC();
    for (j = 0; j < count; j++) total += s[j];
    if (!(rescale >= 1)) miras__scale(o, rescale, o, dv);
    top[i] = most;
    sum[i] = total;
  }
}

/* For the adjoint: s [count, m] becomes the weights p = exp(s - top) sum, bs their cotangents
 * p (bs - along), where sum is 1 / the sum of weights. */
static void miras__attend_bwd(float *s, float *bs, const float *top, const float *sum,
                              const float *along, size_t count, size_t m) {
  size_t x;
  V_FOR(m) {
    const vf base = V_AT(top), all = V_AT(sum), mean = V_AT(along);
    for (x = 0; x < count * m; x += m) {
      const vf e = V_MUL(miras__v_exp(V_SUB(V_AT(s + x), base)), all);
      V_PUT(bs + x, V_MUL(e, V_SUB(V_AT(bs + x), mean)));
      V_PUT(s + x, e);
    }
  }
}

/* ---- the inner layer norm over rows ---- */

#ifndef MIRAS__BORROWS
/* y = gain xh + bias of rows z, and their xh [rows, n] and 1/s [rows]. */
static void miras__norm_rows(float *y, size_t ldy, float *xh, float *rstd, const float *z,
                             const float *gain, const float *bias, float epsilon, size_t rows,
                             size_t n) {
  size_t i;
  for (i = 0; i < rows; i++, y += ldy, xh += n, z += n) {
    const vf mean = V_SET1(miras__sum(z, n) / (float)n);
    V_EACH(xh, n, V_SUB(V_AT(z), mean));
    rstd[i] = 1.0f / sqrtf(miras__dot(xh, xh, n) / (float)n + epsilon);
    miras__scale(xh, rstd[i], xh, n);
    V_EACH(y, n, V_FMA(V_AT(gain), V_AT(xh), V_AT(bias)));
  }
}

/* out = scale * P y, row by row with a scale each; may be in place. */
static void miras__norm_project(float *out, const float *y, const float *xh, const float *scale,
                                size_t rows, size_t n) {
  for (; rows--; out += n, y += n, xh += n, scale++) {
    const vf mean = V_SET1(miras__sum(y, n) / (float)n), by = V_SET1(*scale);
    const vf along = V_SET1(miras__dot(y, xh, n) / (float)n);
    V_EACH(out, n, V_MUL(V_FNMA(along, V_AT(xh), V_SUB(V_AT(y), mean)), by));
  }
}

/* P_ij = inv (G_ij X_ij) over the pairs that m reads see, `seen` the first of them and `descents`
 * more each of the others; rows of X and P are ldx apart, those of G ldg; g NULL: inv X_ij. */
static void miras__triangle(float *p, float inv, const float *g, size_t ldg, const float *x,
                            size_t ldx, size_t seen, size_t descents, size_t m) {
  const vf s = V_SET1(inv);
  size_t i;
  for (i = 0; i < m; i++, seen += descents, x += ldx, p += ldx) {
    const float *gi = g ? g + i * ldg : NULL;
    if (gi) V_EACH(p, seen, V_MUL(s, V_MUL(V_AT(gi), V_AT(x))));
    else miras__scale(p, inv, x, seen);
  }
}

/* to = a (.) to [+ (1 - a) (.) home] for a layer [in, out]; by: a is one number (0), one per input
 * (1) or one per output (2). */
static void miras__fade(int by, float *to, const float *a, const float *home, size_t in,
                        size_t out) {
  const vf one = V_SET1(1.0f);
  size_t i;
  if (!by) out *= in, in = 1;
  for (i = 0; i < in; i++, to += out, home = home ? home + out : NULL) {
    const vf left = V_SET1(by == 2 ? 0 : a[i]), rest = V_SUB(one, left);
    if (by == 2 && home)
      V_EACH(to, out, V_FMA(V_SUB(one, V_AT(a)), V_AT(home), V_MUL(V_AT(a), V_AT(to))));
    else if (by == 2) miras__mul(to, a, to, out);
    else if (home) V_EACH(to, out, V_FMA(rest, V_AT(home), V_MUL(left, V_AT(to))));
    else miras__scale(to, a[i], to, out);
  }
}

/* Its adjoint, from = what `to` was: b, the cotangent of the result, becomes that of `from`.
 *   ba += <from - home, b>,  bhome += (1 - a) (.) b,  b <- a (.) b
 * each over the channel that a number of a belongs to. row [out]: room. */
static void miras__fade_bwd(int by, float *b, float *ba, float *bhome, const float *a,
                            const float *from, const float *home, float *row, size_t in,
                            size_t out) {
  size_t i;
  if (!by && !home) out *= in, in = 1;
  for (i = 0; i < in; i++, b += out, from += out) {
    const float *x = from;
    const size_t at = by == 1 ? i : 0;
    if (home) {                                  /* a small difference of large numbers: first */
      miras__sub(row, from, home + i * out, out);
      x = row;
    }
    if (by == 2) {
      miras__muladd(ba, x, b, out);
      if (home) {
        miras__rest(row, a, 1, out);
        miras__muladd(bhome + i * out, row, b, out);
      }
      miras__mul(b, a, b, out);
    } else {
      V_KEEP(ba[at], ba[at] + miras__dot(x, b, out));
      if (home) miras__axpy(bhome + i * out, 1 - a[at], b, out);
      miras__scale(b, a[at], b, out);
    }
  }
}
#endif

#if MIRAS__COMMON   /* the same for all sets */

/* After the last block, o_i / sum_i; leaves 1 / sum_i in sum, and a finite base in top. If `empty`,
 * a query [width], is not NULL, the first row is its, and it had nothing to read: 0, but NaN for a
 * query that any pair would have answered so. */
static void miras__softmax_mean(const miras__kernels *K, float *o, size_t dv, float *top,
                                float *sum, size_t m, const float *empty, size_t width) {
  size_t i = 0;
  if (empty) {
    float none = 0;
    for (i = 0; i < width; i++) none += 0 * empty[i];
    K->fill(o, none, dv);
    i = 1;
  }
  for (; i < m; i++) {
    V_KEEP(sum[i], 1 / sum[i]);
    V_KEEP(top[i], top[i] < -FLT_MAX ? 0 : top[i]);
    K->scale(o + i * dv, sum[i], o + i * dv, dv);
  }
}

/* The adjoint of the inner gradient d = P (gain e)/s, first half, with D its cotangent and a = gain
 * e:  u = P D/s, be = gain u, and of what else z decides
 *   bxh = -(mean(a xh) D + a mean(D xh))/s,  bs = -(D . d)/s */
static void miras__norm_rows_begin2(const miras__kernels *K, float *be, const miras__norm2 *x) {
  const size_t n = x->n;
  size_t i;
  for (i = 0; i < x->rows; i++, be += n) {
    const float *D = x->bd + i * n, *xh = x->xh + i * n, rstd = x->rstd[i];
    float *b = x->bxh + i * n, along = K->dot(D, xh, n) / (float)n, mean;
    x->bs[i] = -K->dot(D, x->d + i * n, n) * rstd;
    K->mul(be, x->gain, x->e + i * n, n);
    mean = K->dot(be, xh, n) / (float)n;
    K->norm_project(x->u + i * n, D, xh, x->rstd + i, 1, n);
    K->scale(b, -mean * rstd, D, n);
    K->axpy(b, -along * rstd, be, n);
    K->mul(be, x->gain, x->u + i * n, n);
  }
}

/* Its second half, when the bias has made br of be:
 *   bgain += e u + xh br,  bbias += br,  bz = P (bxh + gain br)/s + bs xh/n */
static void miras__norm_rows_end2(const miras__kernels *K, float *bz, const float *br, float *dgain,
                                  float *dbias, const miras__norm2 *x) {
  const size_t n = x->n;
  size_t i;
  for (i = 0; i < x->rows; i++, bz += n, br += n) {
    const float *xh = x->xh + i * n;
    float *b = x->bxh + i * n;
    K->muladd(dgain, x->e + i * n, x->u + i * n, n);
    K->muladd(b, x->gain, br, n);
    K->muladd(dgain, xh, br, n);
    K->add(dbias, br, n);
    K->norm_project(bz, b, xh, x->rstd + i, 1, n);
    K->axpy(bz, x->bs[i] / (float)n, xh, n);
  }
}

/* ---- the coefficients of a chunk (room @51) ---- */

/* rate of row_rates for pair `row` of a chunk, and its slope by rho:
 *   1   max(1/(t+1) + rho, 0)
 *   2   log(1 + u) / 16, u = exp(16 rho) (exp(16/(t+1)) - 1)      slope u / (1 + u) */
static void miras__row_rates(int form, float *rate, float *slope, const float *rho, size_t row,
                             size_t m, size_t descents) {
  size_t i;
  for (i = 0; i < m; i++) {
    const size_t t = (row + i) / descents;
    const float r = rho ? rho[t] : 0, x = 1.0f / (float)(t + 1) + r;
    if (form == 2) {
      const double y = 16 * (double)r + log(expm1(16.0 / (double)(t + 1))), u = exp(-fabs(y));
      slope[i] = (float)(y > 0 ? 1 / (1 + u) : u / (1 + u));
      rate[i] = (float)((log1p(u) + (y > 0 ? y : 0)) / 16);
    } else {
      slope[i] = x < 0 ? 0.0f : 1.0f;
      rate[i] = x < 0 ? 0 : x;
    }
  }
}

/* g, n: the row before the first, afh its a, f, h; all left alone. Every MIRAS__SWEEP rows what has
 * faded becomes 0. */
static void miras__coefficients(const miras__kernels *K, const miras__course *c, const float *g,
                                const float *n, const float *afh) {
  float a = c->row ? afh[0] : 1, f = c->row ? afh[1] : 0, h = c->row ? afh[2] : 1;
  size_t i;
  for (i = 0; i < c->m; i++) {
    const size_t row = c->row + i;
    const float alpha = c->alpha[i], eta = c->eta[i];
    float *gi = c->g + i * c->ld, *ni = c->n + i * c->ld;
    if (c->theta && (c->descent + i) % c->descents) {
      K->copy(ni, n, row);
      K->scale(gi, alpha, g, row);
      gi[row] = ni[row] = eta;
      f *= alpha;
    } else if (c->theta) {
      K->scale(ni, c->theta[i], n, row);
      ni[row] = eta;
      K->copy(gi, ni, row);
      K->axpy(gi, alpha, g, row);
      gi[row] = eta;
      h *= c->theta[i];
      f = alpha * f + h;
    } else if (c->rate) {
      K->copy(ni, n, row);
      ni[row] = eta;
      K->scale(gi, c->rate[i], ni, row + 1);
    } else {
      K->scale(gi, alpha, g, row);
      gi[row] = eta;
    }
    a *= alpha;
    if ((row + 1) % MIRAS__SWEEP == 0) {
      K->flush(gi, gi, row + 1);
      K->flush(ni, ni, c->theta ? row + 1 : 0);
      a = miras__flushed(a), f = miras__flushed(f), h = miras__flushed(h);
    }
    c->a[i] = a;
    c->f[i] = f;
    c->h[i] = h;
    g = gi;
    n = ni;
  }
}

/* Its adjoint over a whole chunk (row = 0):
 *   bh_t += bf_t,  bN_tj += bG_tj
 *   balpha_t = a_(t-1) ba_t + f_(t-1) bf_t + sum_(j<t) G_(t-1)j bG_tj
 *   btheta_t = h_(t-1) bh_t + sum_(j<t) N_(t-1)j bN_tj          b_eta_t = bN_tt
 *   and alpha_t times the cotangents of G, a, f, theta_t times those of N, h, go to row t-1.
 *   row_rates: balpha_t = a_(t-1) ba_t,  brho_t = slope_t sum_(j<=t) N_tj bG_tj,
 *   bN_tj += rate_t bG_tj,  bN_(t-1)j += bN_tj */
static void miras__coefficients_bwd(const miras__kernels *K, const miras__course *c,
                                    const miras__course_grads *b) {
  const size_t ld = c->ld;
  size_t i;
  for (i = c->m; i-- > 0;) {
    const int descends = c->theta && (c->descent + i) % c->descents;
    const float alpha = c->alpha[i];
    const float *g = i ? c->g + (i - 1) * ld : NULL, *n = i ? c->n + (i - 1) * ld : NULL;
    float *bg = b->g + i * ld, *bn = b->n + i * ld, dalpha;
    dalpha = (i ? c->a[i - 1] : 1) * b->a[i] + (i ? c->f[i - 1] : 0) * b->f[i];
    if (i && !c->rate) dalpha += K->dot(g, bg, i);
    if (descends) {
      V_KEEP(bn[i], bn[i] + bg[i]);
    } else if (c->theta) {
      V_KEEP(b->h[i], b->h[i] + b->f[i]);
      K->add(bn, bg, i + 1);
      b->theta[i] = (i ? c->h[i - 1] : 1) * b->h[i];
      if (i) V_KEEP(b->theta[i], b->theta[i] + K->dot(n, bn, i));
    } else if (c->rate) {
      if (b->rho && b->slope[i] > 0)
        V_KEEP(b->rho[i / c->descents],
               b->rho[i / c->descents] + b->slope[i] * K->dot(c->n + i * ld, bg, i + 1));
      K->axpy(bn, c->rate[i], bg, i + 1);
    }
    b->alpha[i] = dalpha;
    b->eta[i] = c->theta || c->rate ? bn[i] : bg[i];
    if (!i) continue;
    V_KEEP(b->a[i - 1], b->a[i - 1] + alpha * b->a[i]);
    if (c->rate) {
      K->add(bn - ld, bn, i);
      continue;
    }
    K->axpy(bg - ld, alpha, bg, i);
    V_KEEP(b->f[i - 1], b->f[i - 1] + alpha * b->f[i]);
    if (c->theta) {
      const float theta = descends ? 1 : c->theta[i];
      K->axpy(bn - ld, theta, bn, i);
      V_KEEP(b->h[i - 1], b->h[i - 1] + theta * b->h[i]);
    }
  }
}

/* The adjoint of triangle together with what follows P: bp holds -bP and becomes that of X, p
 * becomes P (times sign), both with zeros up to the last read's pairs; bg += that of G, *binv +=
 * that of inv. */
static void miras__triangle_bwd(float *bp, float *p, float *bg, float *binv, float inv, float sign,
                                const float *g, const float *x, const miras__reads *r) {
  const vf by = V_SET1(inv), out = V_SET1(sign * inv);
  size_t i, j, seen = r->seen;
  float sum = *binv;
  for (i = 0; i < r->m && V_UNIT == 0; i++, seen += r->descents) {
    const float *bpi = bp + i * r->ld, *xi = x + i * r->ld;
    const float *gi = g ? g + i * r->descents * r->ld : NULL;
    for (j = 0; j < seen; j++) sum -= bpi[j] * (gi ? gi[j] * xi[j] : xi[j]);
  }
  V_MEET();
  if (V_UNIT == 0) *binv = sum;
  for (i = V_UNIT; i < r->m; i += V_UNITS) {
    float *bpi = bp + i * r->ld, *pi = p + i * r->ld;
    const float *xi = x + i * r->ld, *gi = g ? g + i * r->descents * r->ld : NULL;
    float *bgi = g ? bg + i * r->descents * r->ld : NULL;
    seen = r->seen + i * r->descents;
    V_FOR(seen) {
      const vf b = V_MUL(by, V_NEG(V_AT(bpi))), at = V_AT(xi), left = gi ? V_AT(gi) : at;
      if (gi) V_PUT(bgi, V_ADD(V_AT(bgi), V_MUL(b, at)));
      V_PUT(bpi, gi ? V_MUL(b, left) : b);
      V_PUT(pi, V_MUL(out, gi ? V_MUL(left, at) : at));
    }
    V_FOR(r->pairs - seen) {
      V_PUT(bpi + seen, V_ZERO());
      V_PUT(pi + seen, V_ZERO());
    }
  }
}

/* ---- bounded steps (room @51) ---- */

/* u = y^2, v = d^2, eta beside the one that carries the channels, or u. */
static void miras__bound_squares(const miras__kernels *K, const miras__bound *x, float *u,
                                 float *v) {
  const size_t m = x->m, in = x->in, out = x->out;
  K->mul(u, x->y, x->y, m * in);
  K->mul(v, x->d, x->d, m * out);
  if (x->by == 0) K->scale_rows(u, in, 1, x->eta, 1, u, in, m, in);
  if (x->by == 1) K->mul_rows(u, in, x->eta, x->wide, u, in, m, in);
  if (x->by == 2) K->mul_rows(v, out, x->eta, x->wide, v, out, m, out);
}

/* Q += number (u J) . v and F += Q_l/(|d| |fed|); z is room as v. */
static void miras__bound_fwd(const miras__kernels *K, const miras__bound *x, float *u, float *v,
                             float *z) {
  const size_t out = x->out;
  size_t i;
  miras__bound_squares(K, x, u, v);
  if (x->J)
    K->gemm(MIRAS__SET, z, out, miras__mat(u, x->in), miras__mat(x->J, out), x->m, out, x->in,
                x->pack);
  if (x->J) K->mul(z, z, x->d, x->m * out);
  else K->copy(z, x->d, x->m * out);
  if (x->by == 2) K->mul_rows(z, out, x->eta, x->wide, z, out, x->m, out);
  for (i = 0; i < x->m; i++) {
    const float *d = x->d + i * out;
    float q = x->number;
    if (!x->J) q *= K->sum(u + i * x->in, x->in);
    q *= K->dot(z + i * out, d, out);
    V_KEEP(x->spent[i], x->spent[i] + q);
    if (x->fed) {
      const float *y = x->fed + i * x->hears;
      const float said = sqrtf(K->dot(d, d, out)), heard = sqrtf(K->dot(y, y, x->hears));
      V_KEEP(x->strain[i], x->strain[i] + (q / (said * heard + 1e-20f)));
    }
  }
}

/* Its adjoint; spent, strain of x are their cotangents here. With n = |d| |fed|:
 *   bd += -bF Q_l/n^2 |fed| d/|d|,   bfed += -bF Q_l/n^2 |d| fed/|fed|,   bQ += bF/n
 *   b(y^2) = bQ v J', b(d^2) = bQ u J, bJ = u' (bQ v),  by += 2 y b(y^2),  bd += 2 d b(d^2)
 *   J = lambda:  b(y^2) = bQ lambda sum v,  b(d^2) = bQ lambda sum u,  blambda = bQ sum u sum v
 * t1, t2: room as u, v. */
static void miras__bound_bwd(const miras__kernels *K, const miras__bound *x,
                             const miras__bound_grads *b, float *u, float *v, float *t1,
                             float *t2) {
  const size_t in = x->in, out = x->out, m = x->m, wide = x->wide, n = x->by == 2 ? out : in;
  const float *from = x->by == 2 ? x->d : x->y;   /* what eta stands beside */
  float *to = x->by == 2 ? t2 : t1, *squares = x->by == 2 ? v : u;
  size_t i;
  miras__bound_squares(K, x, u, v);
  if (x->J) K->gemm(MIRAS__SET, t2, out, miras__mat(u, in), miras__mat(x->J, out), m, out, in,
                        x->pack);
  for (i = 0; i < m; i++) {
    const float *d = x->d + i * out;
    float *ui = u + i * in, *vi = v + i * out, bq = x->spent[i];
    const float su = x->J ? 0 : K->sum(ui, in), sv = x->J ? 0 : K->sum(vi, out);
    if (x->fed) {
      const float *y = x->fed + i * x->hears;
      const float said = sqrtf(K->dot(d, d, out)), heard = sqrtf(K->dot(y, y, x->hears));
      const float both = said * heard + 1e-20f;
      float q = x->J ? K->dot(t2 + i * out, vi, out) : su * sv;
      q *= -x->number * x->strain[i] / both / both;
      if (said > 0) K->axpy(b->d + i * out, q * heard / said, d, out);
      if (heard > 0) K->axpy(b->fed + i * x->hears, q * said / heard, y, x->hears);
      bq += x->strain[i] / both;
    }
    if (x->J) {                                  /* t1 = b(y^2), t2 = b(d^2), but for their eta */
      K->scale(vi, x->number * bq, vi, out);
      K->scale(t2 + i * out, x->number * bq, t2 + i * out, out);
    } else {
      V_KEEP(*b->number, *b->number + bq * su * sv);
      K->fill(t1 + i * in, bq * x->number * sv, in);
      K->fill(t2 + i * out, bq * x->number * su, out);
    }
  }
  if (x->J) {
    K->gemm(MIRAS__SET, t1, in, miras__mat(v, out), miras__turned(x->J, out), m, in, out,
                x->pack);
    K->gemm(b->mode, b->J, out, miras__turned(u, in), miras__mat(v, out), in, out, m, x->pack);
  }
  /* t1, t2 belong to u and v: what stands beside eta there is its slope */
  K->mul(squares, from, from, m * n);
  if (x->by) {
    K->muladd_rows(b->eta, wide, squares, n, to, n, m, n);
    K->mul_rows(to, n, x->eta, wide, to, n, m, n);
  } else {
    K->dot_rows(1, b->eta, wide, squares, n, to, n, m, n);
    K->scale_rows(to, n, 1, x->eta, wide, to, n, m, n);
  }
  K->mul(t1, t1, x->y, m * in);
  K->axpy(b->y, 2, t1, m * in);
  K->mul(t2, t2, x->d, m * out);
  K->axpy(b->d, 2, t2, m * out);
}

/* s of m pairs into share, and eta [m, wide] times s; along = e.r. */
static void miras__bound_share(float *share, float *eta, const float *along, const float *spent,
                               const float *strain, float c, size_t m, size_t wide) {
  size_t i, j;
  for (i = 0; i < m; i++) {
    share[i] = along[i] / (along[i] * (1 + strain[i] / 4) + c * spent[i]);
    for (j = 0; j < wide; j++) V_KEEP(eta[i * wide + j], eta[i * wide + j] * share[i]);
  }
}

/* Its adjoint: eta as it was before it was bounded, b_eta that of eta where s is held, and along,
 * spent, strain become their cotangents. With D = e.r (1 + F/4) + c Q:
 *   bs = sum over channels of b_eta' eta,   b(e.r) = bs c Q/D^2,   bQ = -bs c (e.r)/D^2
 *   bF = -bs s^2/4 */
static void miras__bound_share_bwd(float *eta, float *b_eta, float *along, float *spent,
                                   float *strain, const float *share, float c, size_t m,
                                   size_t wide) {
  size_t i, j;
  for (i = 0; i < m; i++) {
    const float s = share[i], all = along[i] * (1 + strain[i] / 4) + c * spent[i];
    float bs = 0;
    for (j = i * wide; j < (i + 1) * wide; j++) {
      V_KEEP(eta[j], eta[j] / s);
      bs += b_eta[j] * eta[j];
      V_KEEP(b_eta[j], b_eta[j] * s);
    }
    V_KEEP(along[i], bs * (c * spent[i] / all) / all);
    spent[i] = -bs * c * s / all;
    strain[i] = -bs * s * s / 4;
  }
}
#endif

/* @29 LAYER KERNELS ------------------------------------------------- needs 14 20 21 22 23 28 -- */

/* What a layer does between its matrix products, over rows of tokens. A row's result depends on
 * that row alone and on n, never on how many rows a call has: one token and sixty-four give the
 * same bits. Arguments: outputs, inputs (each with its floats between rows), sizes. */

#define MIRAS__UNIT_EPS 1e-6f      /* of the unit keys and queries                                */

/* Weights of a form (room @32). Loops have no branch and a number of turns that compilers know, so
 * that they turn them into vectors. */
static inline float miras__half_to_float(unsigned h) {
  const uint32_t low = h & 0x7fff, up = low >= 0x7c00 ? 224u << 23 : 112u << 23;
  const float tiny = (float)(int)low * 5.9604645e-8f;      /* below 2^-14: 2^-24 each             */
  const uint32_t few = low < 0x400 ? 0xffffffffu : 0;
  uint32_t bits;
  float x;
  memcpy(&bits, &tiny, sizeof bits);
  bits = (few & bits) | (~few & ((low << 13) + up)) | (uint32_t)(h & 0x8000) << 16;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* 32 of them. */
static inline void miras__widen_block(int form, float *y, const unsigned char *x) {
  enum { BLOCK = 32 };
  uint16_t h[BLOCK];
  uint32_t bits[BLOCK];
  signed char q[BLOCK];
  float out[BLOCK], scale;
  int j;
  if (form == MIRAS_WEIGHTS_Q8) {
    memcpy(h, x, sizeof *h);
    memcpy(q, x + sizeof *h, sizeof q);
    scale = miras__half_to_float(h[0]);
    for (j = 0; j < BLOCK; j++) out[j] = scale * (float)q[j];
    memcpy(y, out, sizeof out);
  } else if (form == MIRAS_WEIGHTS_BF16) {
    memcpy(h, x, sizeof h);
    for (j = 0; j < BLOCK; j++) bits[j] = (uint32_t)h[j] << 16;
    memcpy(y, bits, sizeof bits);
  } else {
    memcpy(h, x, sizeof h);
    for (j = 0; j < BLOCK; j++) out[j] = miras__half_to_float(h[j]);
    memcpy(y, out, sizeof out);
  }
}

/* n of them, from the first of a block on. */
static void miras__widen(int form, float *y, const unsigned char *x, size_t n) {
  const size_t each = form == MIRAS_WEIGHTS_Q8 ? 34 : 64;
  unsigned char rest[64] = {0};
  float last[32];
  for (; n >= 32; n -= 32, y += 32, x += each) miras__widen_block(form, y, x);
  if (!n) return;
  memcpy(rest, x, form == MIRAS_WEIGHTS_Q8 ? each : 2 * n);
  miras__widen_block(form, last, rest);
  memcpy(y, last, n * sizeof *y);
}

/* s = silu(a) b. */
static void miras__swiglu_fwd(float *s, size_t lds, const float *a, const float *b, size_t ld,
                              size_t rows, size_t n) {
  size_t t;
  for (t = 0; t < rows; t++, s += lds, a += ld, b += ld)
    V_FOR(n) V_PUT(s, V_MUL(V_MUL(V_AT(a), miras__v_sigmoid(V_AT(a))), V_AT(b)));
}

/* In place: ds becomes s again, a becomes da, b becomes db. */
static void miras__swiglu_bwd(float *ds, size_t lds, float *a, float *b, size_t ld, size_t rows,
                              size_t n) {
  size_t t;
  vf one = V_SET1(1.0f);
  for (t = 0; t < rows; t++, ds += lds, a += ld, b += ld) {
    V_FOR(n) {
      vf va = V_AT(a), vb = V_AT(b), d = V_AT(ds);
      vf sig = miras__v_sigmoid(va), silu = V_MUL(va, sig);
      vf slope = V_MUL(sig, V_FMA(va, V_SUB(one, sig), one));
      V_PUT(ds, V_MUL(silu, vb));
      V_PUT(a, V_MUL(V_MUL(d, vb), slope));
      V_PUT(b, V_MUL(d, silu));
    }
  }
}

/* s = a f(b), f a form of map: GELU, SiLU or the sigmoid; s may be a. */
static void miras__gate_rows_fwd(int f, float *s, size_t lds, const float *a, size_t lda,
                                 const float *b, size_t ldb, size_t rows, size_t n) {
  size_t t;
  for (t = 0; t < rows; t++, s += lds, a += lda, b += ldb) {
    if (f == MIRAS_GELU) V_FOR(n) V_PUT(s, V_MUL(V_AT(a), miras__v_gelu(V_AT(b))));
    else if (f == MIRAS_SILU) V_FOR(n) V_PUT(s, V_MUL(V_AT(a), miras__v_silu(V_AT(b))));
    else V_FOR(n) V_PUT(s, V_MUL(V_AT(a), miras__v_sigmoid(V_AT(b))));
  }
}

/* In place, as swiglu_bwd. */
static void miras__gate_rows_bwd(int f, float *ds, size_t lds, float *a, size_t lda, float *b,
                                 size_t ldb, size_t rows, size_t n) {
  size_t t;
  vf one = V_SET1(1.0f);
  for (t = 0; t < rows; t++, ds += lds, a += lda, b += ldb) {
    V_FOR(n) {
      const vf x = V_AT(b), d = V_AT(ds), va = V_AT(a);
      const vf g = f == MIRAS_GELU ? miras__v_gelu(x)
                 : f == MIRAS_SILU ? miras__v_silu(x) : miras__v_sigmoid(x);
      const vf slope = f == MIRAS_GELU ? miras__v_gelu_d(x)
                     : f == MIRAS_SILU ? miras__v_silu_d(x) : V_MUL(g, V_SUB(one, g));
      V_PUT(ds, V_MUL(va, g));
      V_PUT(a, V_MUL(d, g));
      V_PUT(b, V_MUL(V_MUL(d, va), slope));
    }
  }
}

/* Row t before the activation, the channels from `at` on: sum_j w[j] c[t - taps + 1 + j]. */
static inline vf miras__conv_sum(const miras__conv *x, size_t t, size_t at, size_t left) {
  const size_t n = x->heads * x->dim, back = x->taps - 1;
  /* tap j reads `from` row t + j - back: of past while that is negative */
  const size_t ahead = t < back ? back - t : 0;
  vf acc = x->bias ? V_LOAD_N(x->bias + at, left) : V_ZERO();
  size_t j;
  if (!x->w) return V_LOAD_N(x->c + t * x->ldc + at, left);
  for (j = x->past ? 0 : ahead; j < ahead; j++)
    acc = V_FMA(V_LOAD_N(x->w + j * n + at, left),
                V_LOAD_N(x->past + (t + j) * x->ldpast + at, left), acc);
  for (j = ahead; j < x->taps; j++)
    acc = V_FMA(V_LOAD_N(x->w + j * n + at, left),
                V_LOAD_N(x->c + (t + j - back) * x->ldc + at, left), acc);
  return acc;
}

/* What comes behind it, and the slope of that: the activation of room @06. */
static inline vf miras__mix(int mixing, vf x) {
  const vf zero = V_ZERO();
  switch (mixing) {
    case MIRAS_MIX_NONE: return x;
    case MIRAS_MIX_RELU: return V_MAX(x, zero);
    case MIRAS_MIX_ELU:
      return V_SELECT(V_LT(zero, x), V_ADD(x, V_SET1(1.0f)), miras__v_exp(V_MIN(x, zero)));
    default: return V_MUL(x, miras__v_sigmoid(x));
  }
}

static inline vf miras__mix_slope(int mixing, vf x) {
  const vf zero = V_ZERO(), one = V_SET1(1.0f);
  vf sig;
  switch (mixing) {
    case MIRAS_MIX_NONE: return one;
    case MIRAS_MIX_RELU: return V_SELECT(V_LT(zero, x), one, zero);
    case MIRAS_MIX_ELU: return miras__v_exp(V_MIN(x, zero));
    default:
      sig = miras__v_sigmoid(x);
      return V_MUL(sig, V_FMA(x, V_SUB(one, sig), one));
  }
}

/* z = these behind the activation. Rows outside: c is larger than the second-level cache and
 * streams through once. */
static void miras__conv_fwd(float *z, const miras__conv *x) {
  const size_t dim = x->dim;
  size_t t, h;
  for (t = 0; t < x->rows; t++)
    for (h = 0; h < x->heads; h++)
      V_FOR(dim) {
        const vf acc = miras__conv_sum(x, t, h * dim + v_at, v_left);
        V_PUT(z + h * x->per + t * dim, miras__mix(x->mixing, acc));
      }
}

/* The gradient for the rows of a sequence; dz has `after` (at most taps - 1) rows behind its last.
 * dc = (or +=, see more), dw +=, dbias +=; each of the two NULL where there is none. sum: (rows +
 * after) heads dim floats of scratch, the gradient before the activation. */
static void miras__conv_bwd(float *dc, size_t lddc, float *dw, float *dbias, const float *dz,
                            size_t after, float *sum, const miras__conv *x) {
  const size_t dim = x->dim, n = x->heads * dim, rows = x->rows, back = x->taps - 1;
  size_t t, h, j;
  for (t = 0; t < rows + after; t++)
    for (h = V_UNIT; h < x->heads; h += V_UNITS) {
      const float *block = dz + h * x->group * x->per + t * dim;
      V_FOR(dim) {
        const vf acc = miras__conv_sum(x, t, h * dim + v_at, v_left);
        vf d = V_AT(block);
        for (j = 1; j < x->group; j++) d = V_ADD(d, V_AT(block + j * x->per));
        V_PUT(sum + t * n + h * dim, V_MUL(d, miras__mix_slope(x->mixing, acc)));
      }
    }
  V_MEET();
  for (t = 0; t < rows; t++) {
    const size_t most = rows + after - 1 - t < back ? rows + after - 1 - t : back;
    V_SHARE(n) {
      vf acc = x->more ? V_AT(dc + t * lddc) : V_ZERO();
      for (j = 0; x->w && j <= most; j++)
        acc = V_FMA(V_AT(x->w + (back - j) * n), V_AT(sum + (t + j) * n), acc);
      V_PUT(dc + t * lddc, x->w ? acc : V_AT(sum + t * n));
    }
  }
  /* the tile's rows of c are close by now, so the gradients of the weights may go by columns */
  V_SHARE(n) {
    for (j = 0; x->w && j < x->taps; j++) {
      const size_t far = back - j;
      vf acc = V_AT(dw + j * n);
      for (t = x->past ? 0 : far; t < rows; t++) {
        const float *c = t < far ? x->past + (t + j) * x->ldpast : x->c + (t - far) * x->ldc;
        acc = V_FMA(V_AT(sum + t * n), V_AT(c), acc);
      }
      V_PUT(dw + j * n, acc);
    }
    if (dbias) {
      vf acc = V_AT(dbias);
      for (t = 0; t < rows; t++) acc = V_ADD(acc, V_AT(sum + t * n));
      V_PUT(dbias, acc);
    }
  }
}

static float miras__rms_inverse(const float *x, size_t n, float epsilon) {
  return 1.0f / sqrtf(miras__dot(x, x, n) / (float)n + epsilon);
}

/* What a norm is multiplied by where the gate lies at g; *slope of it, where wanted. */
static inline vf miras__out_gate(int form, const float *g, size_t left, vf *slope) {
  const vf one = V_SET1(1.0f);
  vf x, sig;
  if (slope) *slope = V_ZERO();
  if (form == MIRAS_OUT_NONE) return one;
  x = V_LOAD_N(g, left);
  sig = miras__v_sigmoid(x);
  if (form == MIRAS_OUT_SIGMOID) {
    if (slope) *slope = V_MUL(sig, V_SUB(one, sig));
    return sig;
  }
  if (slope) *slope = V_MUL(sig, V_FMA(x, V_SUB(one, sig), one));
  return V_MUL(x, sig);
}

/* m = (x r) gain f(gate), with one r per head. */
static void miras__gated_norm_fwd(float *m, size_t ldm, const miras__norm *of) {
  const size_t dim = of->dim;
  size_t t, h;
  for (t = 0; t < of->rows; t++, m += ldm) {
    for (h = 0; h < of->heads * dim; h += dim) {
      const float *x = of->x + t * of->ldx + h, *gate = of->gate + t * of->ld_gate + h;
      const float *gain = of->gain + h;
      const vf r = V_SET1(miras__rms_inverse(x, dim, of->epsilon));
      V_FOR(dim) V_PUT(m + h, V_MUL(V_MUL(V_MUL(V_AT(x), r), V_AT(gain)),
                                    miras__out_gate(of->form, gate + v_at, v_left, NULL)));
    }
  }
}

#ifndef MIRAS__BORROWS
/* Gradients of the above: dx and, of a gate, dg; dgain +=, m again. dm is used up. */
static void miras__gated_norm_bwd(float *dx, size_t lddx, float *dg, size_t lddg, float *dgain,
                                  float *m, size_t ldm, float *dm, size_t lddm,
                                  const miras__norm *of) {
  const size_t dim = of->dim;
  size_t t, h;
  for (t = 0; t < of->rows; t++, dx += lddx, dg += lddg, m += ldm, dm += lddm) {
    for (h = 0; h < of->heads * dim; h += dim) {
      const float *x = of->x + t * of->ldx + h, *gate = of->gate + t * of->ld_gate + h;
      const float r1 = miras__rms_inverse(x, dim, of->epsilon);
      const vf r = V_SET1(r1);
      vf s;
      V_FOR(dim) {
        vf slope, g = miras__out_gate(of->form, gate + v_at, v_left, &slope);
        vf w = V_AT(of->gain + h), d = V_AT(dm + h), xr = V_MUL(V_AT(x), r), y = V_MUL(xr, w);
        vf ds = V_MUL(d, g);
        V_PUT(m + h, V_MUL(y, g));
        if (of->form != MIRAS_OUT_NONE) V_PUT(dg + h, V_MUL(V_MUL(d, y), slope));
        V_PUT(dgain + h, V_FMA(ds, xr, V_AT(dgain + h)));
        V_PUT(dm + h, V_MUL(ds, w));
      }
      s = V_SET1(miras__dot(dm + h, x, dim) / (float)dim * r1 * r1 * r1);
      V_EACH(dx + h, dim, V_FNMA(V_AT(x), s, V_MUL(V_AT(dm + h), r)));
    }
  }
}

/* sum a b c, over 16 lanes as dot. */
static float miras__dot3(const float *a, const float *b, const float *c, size_t n) {
  vf lane[V_R];
  size_t r;
  V_UNROLL for (r = 0; r < V_R; r++) lane[r] = V_ZERO();
  V_LANES(n, r, lane[r] = V_FMA(V_MUL(V_AT(a), V_AT(b)), V_AT(c), lane[r]));
  return miras__fold(lane);
}

/* y = x r gain, r = 1 / sqrt(mean x^2 + epsilon). */
static void miras__rms_fwd(float *y, size_t ldy, const miras__norm *of) {
  const float *x = of->x, *gain = of->gain;
  size_t t;
  for (t = 0; t < of->rows; t++, y += ldy, x += of->ldx) {
    const vf r = V_SET1(miras__rms_inverse(x, of->dim, of->epsilon));
    V_EACH(y, of->dim, V_MUL(V_MUL(V_AT(x), r), V_AT(gain)));
  }
}

/* Of a row whose r and whose factor of x are known: n of its channels. */
MIRAS__INLINE void miras__rms_bwd_row(float *dx, const float *base, float *dgain, float *y,
                                      const float *dy, const float *x, const float *gain, float r1,
                                      float s1, size_t n) {
  const vf r = V_SET1(r1), s = V_SET1(s1);
  V_FOR(n) {
    vf vx = V_AT(x), vg = V_AT(gain), vd = V_AT(dy);
    vf xr = V_MUL(vx, r), d = base ? V_AT(base) : V_ZERO();
    V_PUT(dgain, V_FMA(vd, xr, V_AT(dgain)));
    if (y) V_PUT(y, V_MUL(xr, vg));
    d = V_FMA(V_MUL(vd, vg), r, d);
    V_PUT(dx, V_FNMA(vx, s, d));
  }
}

/* sum(dy gain x) r^3 / n */
static float miras__rms_along(const float *dy, const float *gain, const float *x, float r,
                              size_t n) {
  return miras__dot3(dy, gain, x, n) / (float)n * r * r * r;
}

/* dx = base + r (dy gain) - x r^3 sum(dy gain x) / n; dgain += dy x r. base NULL is zero and may be
 * dx. y, when wanted, receives the forward output again. */
static void miras__rms_bwd(float *dx, size_t lddx, const float *base, size_t ldbase, float *dgain,
                           float *y, size_t ldy, const float *dy, size_t lddy,
                           const miras__norm *of) {
  const float *x = of->x;
  size_t t;
  for (t = 0; t < of->rows; t++, dx += lddx, x += of->ldx, dy += lddy) {
    const float r = miras__rms_inverse(x, of->dim, of->epsilon);
    const float along = miras__rms_along(dy, of->gain, x, r, of->dim);
    miras__rms_bwd_row(dx, base, dgain, y, dy, x, of->gain, r, along, of->dim);
    if (base) base += ldbase;
    if (y) y += ldy;
  }
}

/* x - mean, and zeros behind the row's end. */
static inline vf miras__off(const float *x, vf mean, size_t left) {
  const vf d = V_SUB(V_LOAD_N(x, left), mean);
  return left < V_W ? V_FRONT(d, left) : d;
}

/* sum (x - mean)^2, over 16 lanes as dot. */
static float miras__square_off(const float *x, float mean, size_t n) {
  const vf m = V_SET1(mean);
  vf lane[V_R];
  size_t r;
  V_UNROLL for (r = 0; r < V_R; r++) lane[r] = V_ZERO();
  V_LANES(n, r, lane[r] = V_FMA(miras__off(x + v_at, m, v_left), miras__off(x + v_at, m, v_left),
                                lane[r]));
  return miras__fold(lane);
}

/* y = (x - mean) / sqrt(var + epsilon) gain + bias, each head of a row by itself; y may be x. */
static void miras__layer_norm_fwd(float *y, size_t ldy, const miras__norm *of) {
  const size_t dim = of->dim;
  size_t t, h;
  for (t = 0; t < of->rows; t++)
    for (h = 0; h < of->heads * dim; h += dim) {
      const float *x = of->x + t * of->ldx + h;
      const float mean = miras__sum(x, dim) / (float)dim;
      const float off = miras__square_off(x, mean, dim) / (float)dim;
      const vf m = V_SET1(mean), r = V_SET1(1.0f / sqrtf(off + of->epsilon));
      V_FOR(dim)
        V_PUT(y + t * ldy + h, V_FMA(V_MUL(V_SUB(V_AT(x), m), r), V_AT(of->gain + h),
                                     V_AT(of->bias + h)));
    }
}

/* What a head's row dy, of a norm of x, is known by. */
static miras__norm_row miras__layer_norm_known(const float *dy, const float *x, const float *gain,
                                               float epsilon, size_t n) {
  miras__norm_row k;
  k.mean = miras__sum(x, n) / (float)n;
  k.inverse = 1.0f / sqrtf(miras__square_off(x, k.mean, n) / (float)n + epsilon);
  k.d = miras__dot(dy, gain, n) / (float)n;
  k.along = (miras__dot3(dy, gain, x, n) / (float)n - k.mean * k.d) * k.inverse;
  return k;
}

/* Channels at..at + n - 1 of such a row, where dx, base, y, dy and x begin. */
MIRAS__INLINE void miras__layer_norm_bwd_row(float *dx, const float *base,
                                             const miras__norm_grads *g, float *y, const float *dy,
                                             const float *x, const miras__norm *of, size_t at,
                                             const miras__norm_row *k, size_t n) {
  const vf m = V_SET1(k->mean), r = V_SET1(k->inverse), d = V_SET1(k->d), along = V_SET1(k->along);
  const float *gain = of->gain + at, *bias = of->bias + at;
  float *dgain = g->gain + at, *dbias = g->bias + at;
  V_FOR(n) {
    const vf xh = V_MUL(V_SUB(V_AT(x), m), r), vd = V_AT(dy), vg = V_AT(gain);
    const vf e = V_FNMA(xh, along, V_SUB(V_MUL(vd, vg), d));
    V_PUT(dgain, V_FMA(vd, xh, V_AT(dgain)));
    V_PUT(dbias, V_ADD(vd, V_AT(dbias)));
    if (y) V_PUT(y, V_FMA(xh, vg, V_AT(bias)));
    V_PUT(dx, V_FMA(e, r, base ? V_AT(base) : V_ZERO()));
  }
}

/* With z = (x - mean) r the normed row, r = 1 / sqrt(var + epsilon), and e = dy gain:
 *   dx = base + r (e - mean e - z mean(e z));  dgain += dy z, dbias += dy
 * base NULL is zero and may be dx, and so may dy. y, when wanted, receives the forward output
 * again. */
static void miras__layer_norm_bwd(float *dx, size_t lddx, const float *base, size_t ldbase,
                                  const miras__norm_grads *g, float *y, size_t ldy, const float *dy,
                                  size_t lddy, const miras__norm *of) {
  const size_t dim = of->dim;
  size_t t, h;
  for (t = 0; t < of->rows; t++)
    for (h = 0; h < of->heads * dim; h += dim) {
      const float *x = of->x + t * of->ldx + h, *d = dy + t * lddy + h;
      const miras__norm_row k = miras__layer_norm_known(d, x, of->gain + h, of->epsilon, dim);
      miras__layer_norm_bwd_row(dx + t * lddx + h, base ? base + t * ldbase + h : NULL, g,
                                y ? y + t * ldy + h : NULL, d, x, of, h, &k, dim);
    }
}

/* In place: y = tanh(y), or sigmoid(y). */
static void miras__squash_fwd(int form, float *y, size_t ldy, size_t rows, size_t n) {
  size_t t;
  for (t = 0; t < rows; t++, y += ldy) {
    if (form == MIRAS__SQUASH_TANH) V_EACH(y, n, miras__v_tanh(V_AT(y)));
    else V_EACH(y, n, miras__v_sigmoid(V_AT(y)));
  }
}

/* dy becomes the gradient in front of it, y what it made: dy (1 - y^2), or dy y (1 - y). */
static void miras__squash_bwd(int form, float *dy, size_t lddy, const float *y, size_t ldy,
                              size_t rows, size_t n) {
  const vf one = V_SET1(1.0f);
  size_t t;
  for (t = 0; t < rows; t++, dy += lddy, y += ldy) {
    if (form == MIRAS__SQUASH_TANH) V_EACH(dy, n, V_MUL(V_AT(dy), V_FNMA(V_AT(y), V_AT(y), one)));
    else V_EACH(dy, n, V_MUL(V_MUL(V_AT(dy), V_AT(y)), V_SUB(one, V_AT(y))));
  }
}

/* Rows of n floats one behind the other: x becomes x r, r = length / sqrt(sum x^2 + eps), kept
 * in inverse [rows] unless that is NULL. */
static void miras__unit_fwd(float *x, float *inverse, float length, size_t rows, size_t n) {
  size_t t;
  for (t = 0; t < rows; t++, x += n) {
    float r = length / sqrtf(miras__dot(x, x, n) + MIRAS__UNIT_EPS);
    miras__scale(x, r, x, n);
    if (inverse) inverse[t] = r;
  }
}

/* dx = r (dx - x (x . dx) / length^2), where x is unit_fwd's output and r what it left. */
static void miras__unit_bwd(float *dx, const float *x, const float *inverse, float length,
                            size_t rows, size_t n) {
  size_t t;
  for (t = 0; t < rows; t++, dx += n, x += n) {
    const vf s = V_SET1(miras__dot(dx, x, n) / (length * length)), r = V_SET1(inverse[t]);
    V_EACH(dx, n, V_MUL(r, V_FNMA(V_AT(x), s, V_AT(dx))));
  }
}

/* Keys of a memory that erases apart from them (RWKV-7), row by row:
 *   u = x (.) a,  kappa = u / sqrt(|u|^2 + eps),  erase = -kappa,  replace = kappa (.) c
 *   key = x (.) (1 + (c - 1) (.) b) */
static void miras__erase_fwd(float *key, float *erase, float *replace, const miras__erasing *of) {
  const vf one = V_SET1(1.0f);
  const float *x = of->x, *gate = of->c;
  const size_t n = of->n;
  size_t t;
  for (t = 0; t < of->rows; t++, key += n, erase += n, replace += n, x += n, gate += of->ldc) {
    vf r;
    miras__mul(erase, x, of->a, n);
    r = V_SET1(-1.0f / sqrtf(miras__dot(erase, erase, n) + MIRAS__UNIT_EPS));
    V_FOR(n) {
      vf c = V_AT(gate), e = V_MUL(r, V_AT(erase));
      vf m = V_FMA(V_SUB(c, one), V_AT(of->b), one);
      V_PUT(erase, e);
      V_PUT(replace, V_NEG(V_MUL(e, c)));
      V_PUT(key, V_MUL(V_AT(x), m));
    }
  }
}

/* Its adjoint: dkey becomes dx; dc, of rows lddc apart, is overwritten, da and db are added to.
 * derase is used up.
 *   dkappa = dreplace (.) c - derase,  du = (dkappa - kappa (kappa . dkappa)) / |u|
 *   dx = dkey (.) (1 + (c - 1) (.) b) + du (.) a,  da += du (.) x,  db += dkey (.) x (.) (c - 1)
 *   dc = dkey (.) x (.) b + dreplace (.) kappa */
static void miras__erase_bwd(float *dkey, float *derase, const float *dreplace, float *dc,
                             size_t lddc, float *da, float *db, float *row, const float *erase,
                             const miras__erasing *of) {
  const vf one = V_SET1(1.0f);
  const float *x = of->x, *gate = of->c;
  const size_t n = of->n;
  size_t t;
  for (t = 0; t < of->rows; t++, dkey += n, derase += n, dreplace += n, dc += lddc) {
    vf along, r;
    miras__mul(row, x, of->a, n);
    r = V_SET1(1.0f / sqrtf(miras__dot(row, row, n) + MIRAS__UNIT_EPS));
    miras__mul(row, dreplace, gate, n);
    miras__sub(derase, row, derase, n);                    /* dkappa */
    along = V_SET1(miras__dot(derase, erase, n));
    V_FOR(n) {
      vf vx = V_AT(x), c = V_SUB(V_AT(gate), one), va = V_AT(of->a), vb = V_AT(of->b);
      vf dk = V_AT(dkey), kx = V_MUL(dk, vx), e = V_AT(erase);
      vf du = V_MUL(r, V_FNMA(e, along, V_AT(derase)));
      V_PUT(da, V_FMA(du, vx, V_AT(da)));
      V_PUT(db, V_FMA(kx, c, V_AT(db)));
      V_PUT(dc, V_FNMA(V_AT(dreplace), e, V_MUL(kx, vb)));
      V_PUT(dkey, V_FMA(du, va, V_MUL(dk, V_FMA(c, vb, one))));
    }
    x += n;
    erase += n;
    gate += of->ldc;
  }
}

/* y [cols, rows] = x' */
static void miras__transpose(float *y, size_t ldy, const float *x, size_t ldx, size_t rows,
                             size_t cols) {
  const size_t block = cols < 4 ? rows : V_W;
  size_t i, j, k;
  if (ldy == 1) {                                  /* a single row: its floats stay as they lie */
    miras__copy(y, x, cols);
    return;
  }
  for (i = 0; i < rows; i += block) {
    const size_t m = rows - i < block ? rows - i : block;
    for (j = 0; j + 4 <= cols && m == V_W; j += 4)
      miras__transpose4(y + j * ldy + i, ldy, x + i * ldx + j, ldx);
    if (cols - j > m)                              /* the rest in few long runs */
      for (k = 0; k < m; k++)
        miras__copy_rows(y + j * ldy + i + k, ldy, x + (i + k) * ldx + j, 1, cols - j, 1);
    else
      for (; j < cols; j++) miras__copy_rows(y + j * ldy + i, 1, x + i * ldx + j, ldx, m, 1);
  }
}

/* Rotary positions: of each head of dim channels the pairs (i, i + turn/2) of the first `turn`, as
 * complex numbers, times c + way z i, way 1 or -1 (the adjoint). angles [rows, turn]: the c of a
 * row's pairs, then its z. The other channels stay. y may be x. */
static void miras__rotary(float *y, size_t ldy, const float *x, size_t ldx, const float *angles,
                          int way, size_t rows, size_t heads, size_t dim, size_t turn) {
  const size_t half = turn / 2;
  const vf sign = V_SET1((float)way);
  size_t t, h;
  for (t = 0; t < rows; t++, y += ldy, x += ldx, angles += turn) {
    for (h = turn; y != x && turn < dim && h < heads * dim; h += dim)
      miras__copy(y + h, x + h, dim - turn);
    V_FOR(half) {
      const vf c = V_AT(angles), z = V_MUL(sign, V_AT(angles + half));
      for (h = 0; h < heads * dim; h += dim) {
        const vf a = V_AT(x + h), b = V_AT(x + half + h);
        V_PUT(y + h, V_FNMA(b, z, V_MUL(a, c)));
        V_PUT(y + half + h, V_FMA(a, z, V_MUL(b, c)));
      }
    }
  }
}
#endif

/* One group of gates, n columns: g += offset (NULL: nothing), then, with a number c per column, y =
 * cap times
 *   SIGMOID    y = c sigmoid(g)                dy/dg = c s (1 - s)              s = sigmoid(g)
 *   SOFTPLUS   y = c softplus(g)               dy/dg = c s
 *   ROOT       y = exp(-softplus(-g)/16)       dy/dg = y (1 - s)/16             c is not used
 *   RATE       y = exp(-exp(c) softplus(g))    dy/dg = -y exp(c) s,  dy/dc = -y exp(c) softplus(g)
 *   BOUNDED    y = exp(-exp(-1/2) s)           dy/dg = -y exp(-1/2) s (1 - s)   c is not used */
typedef struct miras__gate_form {
  int soft, outer;                     /* softplus rather than sigmoid; exp of it                 */
  vf sign, by;                         /* of g; the factor of what is in front of exp             */
} miras__gate_form;

static inline miras__gate_form miras__gate_form_of(int form, vf c) {
  miras__gate_form f;
  f.outer = form != MIRAS__GATE_SIGMOID && form != MIRAS__GATE_SOFTPLUS;
  f.soft = form != MIRAS__GATE_SIGMOID && form != MIRAS__GATE_BOUNDED;
  f.sign = V_SET1(form == MIRAS__GATE_ROOT ? -1.0f : 1.0f);
  f.by = form == MIRAS__GATE_ROOT ? V_SET1(-0.0625f) : c;
  if (form == MIRAS__GATE_BOUNDED) f.by = V_SET1(-0.60653066f);   /* exp(-1/2) */
  if (form == MIRAS__GATE_RATE) f.by = V_MUL(V_SET1(-1.0f), miras__v_exp(c));
  return f;
}

static void miras__gates_fwd(int form, float cap, float *y, float *g, size_t ld,
                             const float *offset, const float *c, size_t rows, size_t n) {
  size_t at;
  V_FOR(n) {
    const miras__gate_form f = miras__gate_form_of(form, V_AT(c));
    for (at = 0; at < rows * ld; at += ld) {
      vf x = V_AT(g + at);
      if (offset) x = V_ADD(x, V_AT(offset)), V_PUT(g + at, x);
      x = V_MUL(f.sign, x);
      x = V_MUL(f.by, f.soft ? miras__v_softplus(x) : miras__v_sigmoid(x));
      V_PUT(y + at, V_MUL(V_SET1(cap), f.outer ? miras__v_exp(x) : x));
    }
  }
}

#ifndef MIRAS__BORROWS
/* dy becomes dg; doffset +=, dc += (RATE only). */
static void miras__gates_bwd(int form, float cap, float *dy, const float *g, size_t ld,
                             float *doffset, float *dc, const float *c, size_t rows, size_t n) {
  const int root = form == MIRAS__GATE_ROOT, rate = form == MIRAS__GATE_RATE;
  size_t at;
  V_FOR(n) {
    const miras__gate_form f = miras__gate_form_of(form, V_AT(c));
    vf sum = V_AT(doffset), sum_c = rate ? V_AT(dc) : V_ZERO();
    for (at = 0; at < rows * ld; at += ld) {
      const vf x = V_AT(g + at), s = miras__v_sigmoid(x), less = V_SUB(V_SET1(1.0f), s);
      vf d = V_MUL(V_SET1(cap), V_AT(dy + at)), grow = root ? V_NEG(f.by) : f.by;
      if (f.outer) {
        const vf v = V_MUL(f.by, f.soft ? miras__v_softplus(V_MUL(f.sign, x)) : s);
        const vf e = miras__v_exp(v);
        if (rate) d = V_MUL(d, e), sum_c = V_FMA(d, v, sum_c);
        else grow = V_MUL(grow, e);
      }
      d = V_MUL(d, V_MUL(grow, root ? less : f.soft ? s : V_MUL(s, less)));
      V_PUT(dy + at, d);
      sum = V_ADD(sum, d);
    }
    V_PUT(doffset, sum);
    if (rate) V_PUT(dc, sum_c);
  }
}

/* Keys that are what gates forget (HGRN2): 1 - gate. Of a sigmoid that is (1 - cap) + cap
 * sigmoid(-g), which keeps the digits that 1 - sigmoid(g) loses when g is large. */
static void miras__complement(int form, float cap, float *key, const float *gate, const float *g,
                              size_t ld, size_t rows, size_t n) {
  const vf top = V_SET1(cap), low = V_SET1(1 - cap), minus = V_SET1(-1.0f);
  size_t t;
  for (t = 0; t < rows; t++, key += n, gate += ld, g += ld)
    if (form == MIRAS__GATE_SIGMOID)
      V_FOR(n) V_PUT(key, V_FMA(top, miras__v_sigmoid(V_MUL(minus, V_AT(g))), low));
    else miras__rest(key, gate, 1, n);
}

/* y = base + x mask / (1 - rate) per element (base NULL: zero, and may be y). Element i is kept
 * when a 32-bit mix of key and i reaches limit = rate 2^32. */
static void miras__dropout(float *y, const float *base, const float *x, uint64_t key,
                           uint32_t limit, float scale, size_t n) {
  const uint32_t low = (uint32_t)key, high = (uint32_t)(key >> 32);
  float mask[16];
  size_t i, j;
  for (i = 0; i < n; i += 16) {
    const uint32_t first = (uint32_t)i;
    for (j = 0; j < 16; j++) {
      uint32_t u = (first + (uint32_t)j) * 0x9e3779b1u + low;
      u = (u ^ (u >> 16)) * 0x7feb352du;
      u = (u ^ high ^ (u >> 15)) * 0x846ca68bu;
      u ^= u >> 16;
      mask[j] = u >= limit ? scale : 0.0f;
    }
    for (j = 0; j < 16 && i + j < n; j += V_W) {
      size_t at = i + j, left = n - at;
      vf v = V_MUL(V_LOAD_N(x + at, left), V_LOAD(mask + j));
      if (base) v = V_ADD(V_LOAD_N(base + at, left), v);
      V_STORE_N(y + at, v, left);
    }
  }
}

/* One step of Adam with decoupled decay (Loshchilov 2019). c: beta1, 1 - beta1, beta2, 1 - beta2,
 * clip, lr / (1 - beta1^t), 1 / sqrt(1 - beta2^t), epsilon, 1 - lr decay. g is cleared. */
static void miras__adamw(float *w, float *m, float *v, float *g, size_t n, const float *c) {
  const vf b1 = V_SET1(c[0]), a1 = V_SET1(c[1]), b2 = V_SET1(c[2]), a2 = V_SET1(c[3]);
  const vf clip = V_SET1(c[4]), rate = V_SET1(c[5]), root = V_SET1(c[6]), eps = V_SET1(c[7]);
  const vf keep = V_SET1(c[8]);
  V_FOR(n) {
    vf d = V_MUL(V_AT(g), clip);
    vf vm1 = V_FMA(b1, V_AT(m), V_MUL(a1, d));
    vf vv1 = V_FMA(b2, V_AT(v), V_MUL(a2, V_MUL(d, d)));
    vf step = V_DIV(V_MUL(rate, vm1), V_FMA(V_SQRT(vv1), root, eps));
    V_PUT(m, vm1);
    V_PUT(v, vv1);
    V_PUT(w, V_SUB(V_MUL(keep, V_AT(w)), step));
    V_PUT(g, V_ZERO());
  }
}
#endif

/* One row of logits x [n]. Returns log(sum exp x) - x[target]; with scale other than 0 the row
 * becomes its gradient, scale (softmax(x) - one at target). */
static float miras__cross_entropy(float *x, size_t n, size_t target, float scale) {
  const float top = miras__top(x, n), at = x[target];
  float total;
  V_SYNC();
  total = miras__exp_sum(scale > 0 ? x : NULL, x, top, n);
  if (scale > 0) {
    miras__scale(x, scale / total, x, n);
    V_SYNC();
    V_KEEP(x[target], x[target] - scale);
  }
  return logf(total) + top - at;
}

/* @30 TABLE OF THIS INSTRUCTION SET --------------------------------------------- needs 20 29 -- */

#if MIRAS__ISA < 5   /* a device has a record of its own */
static const miras__kernels miras__kernel_table = {
  MIRAS__ISA_NAME,
#define MIRAS_X(part, result, name, arguments) MIRAS__##part(miras__##name),
  MIRAS__KERNELS(MIRAS_X)
#undef MIRAS_X
};
#endif

#if MIRAS__ISA == 1 && defined(__GNUC__) && !defined(__clang__)
  #pragma GCC pop_options
#endif

#undef MIRAS__SET_SUFFIX
#undef MIRAS__LENT_SUFFIX
#undef MIRAS__BORROWS
#undef MIRAS__ISA_NAME
#undef V_W
#undef V_MATHS
#undef V_R
#undef V_UNROLL
#undef K_ROWS4
#undef K_ROWS2
#undef K_ROWS1
#undef vf
#undef vm
#undef V_X86
#undef V_INTS
#undef V_BITS
#undef V_FLOATS
#undef V_CMP
#undef V_ZERO
#undef V_SET1
#undef V_LOAD
#undef V_STORE
#undef V_LOAD_N
#undef V_AT
#undef V_PUT
#undef V_FOR
#undef V_SHARE
#undef V_EACH
#undef V_LANES
#undef V_STORE_N
#undef V_ADD
#undef V_SUB
#undef V_MUL
#undef V_DIV
#undef V_FMA
#undef V_FNMA
#undef V_MIN
#undef V_MAX
#undef V_ABS
#undef V_NEG
#undef V_SQRT
#undef V_LT
#undef V_LE
#undef V_SELECT
#undef V_COPYSIGN
#undef V_ROUND
#undef V_LOGB
#undef V_SYNC
#undef V_KEEP
#undef V_UNIT
#undef V_UNITS
#undef V_MEET
#undef V_FETCH
#undef V_LANE
#undef V_MOST
#undef V_FRONT
#undef MIRAS__COMMON
#undef MIRAS__ISA
#endif   /* region D */

#if defined(MIRAS_IMPLEMENTATION) && !defined(MIRAS__KERNEL_PASS) && !defined(MIRAS__IMPLEMENTED)
#define MIRAS__IMPLEMENTED
#define MIRAS__IMPLEMENTING
/* @31 DISPATCH --------------------------------------------------------------- needs 12 20 30 -- */

/* The tables of this build, best first. The first MIRAS__KERNEL_COUNT entries exist; whether the
 * processor can run them is miras__kernels_usable's to say. */
static const miras__kernels *const miras__kernel_list[] = {
#if MIRAS__X86
  #ifndef MIRAS_NO_AVX512
  &miras__kernel_table_avx512,
  #endif
  &miras__kernel_table_avx2,
#endif
#if MIRAS__NEON
  &miras__kernel_table_neon,
#endif
  &miras__kernel_table_portable
};

enum { MIRAS__KERNEL_COUNT = sizeof miras__kernel_list / sizeof miras__kernel_list[0] };

static int miras__kernels_usable(const miras__kernels *kern) {
#if MIRAS__X86
  #ifndef MIRAS_NO_AVX512
  if (kern == &miras__kernel_table_avx512) return (miras__cpu() & MIRAS__HAS_AVX512) != 0;
  #endif
  if (kern == &miras__kernel_table_avx2) return (miras__cpu() & MIRAS__HAS_AVX2) != 0;
#endif
  return kern != NULL;
}

/* The best table this processor can run. The choice is remembered: asking the processor can cost
 * microseconds under a hypervisor. Threads that race here all store the same number. */
static const miras__kernels *miras__kernels_best(void) {
  static int cached;   /* 1 + index into the list; 0: not asked yet */
  int at;
#if defined(__GNUC__)
  at = __atomic_load_n(&cached, __ATOMIC_RELAXED);
#else
  at = cached;
#endif
  if (at == 0) {
    while (!miras__kernels_usable(miras__kernel_list[at])) at++;
    at++;
#if defined(__GNUC__)
    __atomic_store_n(&cached, at, __ATOMIC_RELAXED);
#else
    cached = at;
#endif
  }
  return miras__kernel_list[at - 1];
}

MIRAS_API const char *miras_isa(void) { return miras__kernels_best()->name; }

/* @32 LARGE PRODUCTS --------------------------------------------------------------- needs 31 -- */

#ifdef MIRAS_USE_BLIS
  #if defined(__has_include)
    #if __has_include(<blis/blis.h>)
      #include <blis/blis.h>
    #else
      #include <blis.h>
    #endif
  #else
    #include <blis.h>
  #endif
  #ifndef MIRAS_BLIS_MIN
    #define MIRAS_BLIS_MIN (64.0 * 64.0 * 64.0)   /* below it, the call costs more than it saves */
  #endif
#endif

/* gemm of the table where all of A counts, or BLIS when the build asks for it and the product is
 * large enough. BLIS sums in an order of its own, so its bits differ from the kernels'. */
static MIRAS__UNUSED void miras__matmul(const miras__kernels *kern, int mode, float *C, size_t ldc,
                                        miras__matrix A, miras__matrix B, size_t M, size_t N,
                                        size_t K, float *pack) {
#ifdef MIRAS_USE_BLIS
  if ((double)M * (double)N * (double)K >= (double)(MIRAS_BLIS_MIN)) {
    float alpha = mode == MIRAS__SUB ? -1.0f : 1.0f, beta = mode == MIRAS__SET ? 0.0f : 1.0f;
    bli_sgemm(BLIS_NO_TRANSPOSE, BLIS_NO_TRANSPOSE, (dim_t)M, (dim_t)N, (dim_t)K, &alpha,
              (float *)(uintptr_t)A.p, (inc_t)miras__down(A), (inc_t)miras__right(A),
              (float *)(uintptr_t)B.p, (inc_t)miras__down(B), (inc_t)miras__right(B), &beta, C,
              (inc_t)ldc, 1);
    return;
  }
#endif
  kern->gemm(mode, C, ldc, A, B, M, N, K, pack);
}

#ifndef MIRAS__DEVICE
/* ---- matrices in fewer bytes ----
 *
 * Rows of weights of a form, each of miras__row_bytes. A product takes them as floats, a tile at a
 * time, of up to MIRAS__WIDEN; its chains of sums go on from tile to tile, so that bits are those
 * of the whole. For few rows of A a tile stays in the first cache and has long rows, which memory
 * is ahead of. */
enum { MIRAS__WIDEN = 64 * 256 };

/* Bytes of n weights; too many become too many. */
static MIRAS__UNUSED size_t miras__row_bytes(int form, size_t n) {
  if (form == MIRAS_WEIGHTS_Q8)
    return n / 32 > (size_t)-1 / 34 - 1 ? (size_t)-1 : (n + 31) / 32 * 34;
  n = n > (size_t)-1 / 4 ? (size_t)-1 / 4 : n;
  return form ? 2 * n : 4 * n;
}

typedef struct miras__packed {
  const unsigned char *p;
  int form, turned;                  /* turned: a product's B is its transpose                    */
  size_t cols;                       /* of a row                                                  */
  float *wide;                       /* [MIRAS__WIDEN] of a product                               */
} miras__packed;

/* to [rows, n] = rows `row` on, columns `col` on, which a tile's width divides. */
static MIRAS__UNUSED void miras__packed_widen(const miras__kernels *k, float *to, size_t ld,
                                              const miras__packed *x, size_t row, size_t col,
                                              size_t rows, size_t n) {
  const size_t each = miras__row_bytes(x->form, x->cols);
  const unsigned char *from = x->p + row * each + miras__row_bytes(x->form, col);
  for (; rows; rows--, to += ld, from += each) k->widen(x->form, to, from, n);
}

/* C [M, N] of A [M, K] and B, which is [K, N] or, turned, lies as [N, K]. */
static MIRAS__UNUSED void miras__packed_times(const miras__kernels *kern, int mode, float *C,
                                              size_t ldc, miras__matrix A, const miras__packed *B,
                                              size_t M, size_t N, size_t K, float *pack) {
  const size_t down = M > 8 ? 64 : B->turned ? 16 : 4, across = M > 8 || B->turned ? 256 : 1024;
  const size_t ns = B->turned ? down : across, ks = B->turned ? across : down;
  size_t j, k;
  for (j = 0; j < N; j += ns)
    for (k = 0; k < K; k += ks) {
      const size_t n = N - j < ns ? N - j : ns, depth = K - k < ks ? K - k : ks;
      const size_t ld = miras__pad(B->turned ? depth : n);
      miras__matrix a = A;
      a.p += k * miras__right(A);
      if (B->turned) miras__packed_widen(kern, B->wide, ld, B, j, k, n, depth);
      else miras__packed_widen(kern, B->wide, ld, B, k, j, depth, n);
      miras__matmul(kern, k ? MIRAS__ADD : mode, C + j, ldc, a,
                    B->turned ? miras__turned(B->wide, ld) : miras__mat(B->wide, ld), M, n, depth,
                    pack);
    }
}
#endif

#endif   /* region E */

#if (defined(MIRAS__DEVICE) && MIRAS__DEVICE == 2) || defined(MIRAS__IMPLEMENTING)
/* @41 MEMORY ARCHITECTURES ------------------------------------------ needs 14 23 24 26 28 31 -- */

/* M(W; x) with weights [in, out] and tokens as rows (x at its length, @25):
 *   x_1 = x,  z_l = x_l W_l,  x_(l+1) = act(z_l),  M = [gain LN(z_L) + bias | z_L] [+ x]
 *   gated:  z_1 = x W_1,  z_2 = x W_2,  x_3 = act(z_1) (.) z_2,  z_3 = x_3 W_3
 *   vector: x_1 = 1, so z_1 = w,  M = x (.) z_1
 *   LN: mu = mean z, s = sqrt(mean (z - mu)^2 + norm_epsilon), xh = (z - mu)/s
 * Rows of every x_l end in the constant 1 where the layers have biases (p->ones). P y = y - mean y
 * - xh mean(y xh) is the projection in every derivative of the layer norm. An architecture is how
 * its hidden rows come about and how its answer does, each with its adjoints. */

#define MIRAS__COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Rows on their way through the layers: their inputs and products, and what the answer needs. */
typedef struct miras__pass {
  size_t m;
  float *x[4], *z[4];      /* [m, in], [m, out]                                                  */
  float *xh, *rstd;        /* [m, dv], [m] layer norm; or xh, the keys that scale the answer     */
} miras__pass;

/* A chunk's pairs on their way and the gradients that they leave, at the weights w; b's are
 * cotangents. */
typedef struct miras__net {
  const miras__kernels *K;
  const miras__plan *p;
  const struct miras__hidden *hidden;
  const struct miras__answer *answer;
  const float *gain, *bias, *w;
  float *dgain, *dbias, *bw, *pack;
  const float *balong;     /* [C] cotangent of e.r, or NULL                                      */
  miras__pass pairs;
  float *d[4], *back[4];   /* [C, out] dl/dz; d_(l+1) W_(l+1)', the gradient before act'         */
  float *bx[4], *bd[4], *bz[4];
  float *r, *e, *loss;                 /* residuals, errors, values of the bias                  */
  float *v, *delta;                    /* values, thresholds                                     */
  float *bv, *bdelta, *bkey;           /* bkey: of keys that scale the answer                    */
  float *t1, *t2, *t3, *row;           /* room: [C, widest], row [2 max(widest, C)]              */
} miras__net;

/* m rows of x_l from z_(l-1), gated from z_1 and z_2; the cotangents d of those z from b of x_l,
 * rows of ldb; and the adjoint of that: bb = of b, bz += of z, given bd of d. */
typedef struct miras__hidden {
  void (*fwd)(const miras__net *n, int l, float *x, float *const *z, size_t m);
  void (*bwd)(const miras__net *n, int l, float *const *d, float *const *z, const float *b,
              size_t ldb, size_t m);
  void (*bwd2)(const miras__net *n, int l, float *bb, const float *b, size_t m);
} miras__hidden;

/* Answers o from z_L, without the residual; bz = (do/dz)' bo, which makes the inner gradient of an
 * error too; parameters += those of bo, where there are any. Then the adjoint of the inner gradient
 * in two halves with the bias between them: b <- that of e from bd[L]; from b, then that of r,
 * bz[L], bkey, parameters += */
typedef struct miras__answer {
  int keyed;               /* the answer is scaled by the key; the layers' input is 1            */
  void (*fwd)(const miras__net *n, const miras__pass *s, float *o, size_t ldo);
  void (*bwd)(const miras__net *n, const miras__pass *s, float *bz, const float *bo, size_t ldo);
  void (*params)(const miras__net *n, const miras__pass *s, const float *bo, size_t ldo);
  void (*begin2)(const miras__net *n, float *b);
  void (*end2)(const miras__net *n, const float *b);
} miras__answer;

/* Does the input of layer l come from the layers below? (Else it is the memory's own input.) */
#define MIRAS__HIDDEN(p, l) ((l) > 0 && (p)->from[l] == (l))

/* C [m, n] = A B, C += ... of whole matrices with k terms; how: a plain mode of gemm, and which of
 * them lies turned. A call is half as long as one of gemm with its matrices. */
static void miras__product(const miras__kernels *K, float *pack, int how, float *C, const float *A,
                           const float *B, size_t m, size_t n, size_t k) {
  K->gemm(how % 4, C, n, how & MIRAS__TN ? miras__turned(A, m) : miras__mat(A, k),
          how & MIRAS__NT ? miras__turned(B, k) : miras__mat(B, n), m, n, k, pack);
}

/* The products of layer l over m rows: z = x W, x = z W' (NT), W = x' z (TN), W in an array of all
 * weights; BARE: of x without the 1 of biases. */
static void miras__through(const miras__net *n, int how, int l, float *C, const float *A,
                         const float *B, size_t m) {
  const miras__plan *p = n->p;
  const size_t in = (size_t)(p->in[l] - (how & MIRAS__BARE ? p->ones : 0)), out = (size_t)p->out[l];
  if (how & MIRAS__TN) {
    miras__product(n->K, n->pack, how, C + p->offset[l], A, B, in, out, m);
    return;
  }
  miras__product(n->K, n->pack, how, C, A, B + p->offset[l], m, how & MIRAS__NT ? in : out,
                 how & MIRAS__NT ? out : in);
}

/* ---- hidden rows ---- */

/* x_l = act(z_(l-1)) */
static void miras__mlp_fwd(const miras__net *n, int l, float *x, float *const *z, size_t m) {
  const size_t in = (size_t)n->p->in[l], out = in - (size_t)n->p->ones;
  float *to = in > out ? n->t1 : x;
  n->K->map((int)n->p->d.activation, to, z[l - 1], m * out);
  if (to == x) return;
  n->K->copy_rows(x, in, to, out, m, out);
  n->K->fill_rows(x + out, in, 1, m, 1);
}

/* d_(l-1) = b act'(z_(l-1)) */
static void miras__mlp_bwd(const miras__net *n, int l, float *const *d, float *const *z,
                           const float *b, size_t ldb, size_t m) {
  const size_t out = (size_t)(n->p->in[l] - n->p->ones);
  if (ldb != out) n->K->copy_rows(d[l - 1], out, b, ldb, m, out), b = d[l - 1];
  n->K->act_grad((int)n->p->d.activation, d[l - 1], z[l - 1], b, m * out);
}

/* bb = bd act'(z),  bz = bd b act''(z) */
static void miras__mlp_bwd2(const miras__net *n, int l, float *bb, const float *b, size_t m) {
  n->K->act_grad2((int)n->p->d.activation, bb, n->bz[l - 1], n->pairs.z[l - 1], b, n->bd[l - 1],
                  m * (size_t)(n->p->in[l] - n->p->ones));
}

/* x_3 = act(z_1) (.) z_2 */
static void miras__gated_fwd(const miras__net *n, int l, float *x, float *const *z, size_t m) {
  const size_t size = m * (size_t)n->p->in[l];
  n->K->map((int)n->p->d.activation, x, z[0], size);
  n->K->mul(x, x, z[1], size);
}

/* d_1 = b z_2 act'(z_1),  d_2 = b act(z_1) */
static void miras__gated_bwd(const miras__net *n, int l, float *const *d, float *const *z,
                             const float *b, size_t ldb, size_t m) {
  const int kind = (int)n->p->d.activation;
  const size_t size = m * ldb;
  (void)l;
  n->K->map(kind, d[1], z[0], size);
  n->K->mul(d[1], d[1], b, size);
  n->K->mul(d[0], b, z[1], size);
  n->K->act_grad(kind, d[0], z[0], d[0], size);
}

/* bb = bd_1 z_2 act'(z_1) + bd_2 act(z_1),  bz_2 = bd_1 b act'(z_1)
 * bz_1 = bd_1 b z_2 act''(z_1) + bd_2 b act'(z_1) */
static void miras__gated_bwd2(const miras__net *n, int l, float *bb, const float *b, size_t m) {
  const miras__kernels *K = n->K;
  float *const *z = n->pairs.z, *const *bd = n->bd, *t = n->t2;
  const size_t size = m * (size_t)n->p->in[l];
  const int kind = (int)n->p->d.activation;
  K->mul(t, b, z[1], size);
  K->act_grad2(kind, bb, n->bz[0], z[0], t, bd[0], size);
  K->muladd(n->bz[1], bb, b, size);
  K->mul(bb, bb, z[1], size);
  K->map(kind, t, z[0], size);
  K->muladd(bb, bd[1], t, size);
  K->mul(t, bd[1], b, size);
  K->act_grad(kind, n->t3, z[0], t, size);
  K->add(n->bz[0], n->t3, size);
}

static const miras__hidden miras__hiddens[] = {
  {miras__mlp_fwd, miras__mlp_bwd, MIRAS__BACK(miras__mlp_bwd2)},
  {miras__gated_fwd, miras__gated_bwd, MIRAS__BACK(miras__gated_bwd2)}
};

/* ---- answers ---- */

#define MIRAS__DV(n) ((size_t)(n)->p->d.value_dim)
#define MIRAS__LAST(n) ((n)->p->layers - 1)

/* z_L itself: d_L = e. Of a vector memory k (.) z_1: d = k e;  be = k D,  bz_1 = k br,  bk = e D +
 * z_1 br. y = x or k (.) x: */
static void miras__keyed(const miras__net *n, const miras__pass *s, float *y, size_t ldy,
                         const float *x, size_t ldx) {
  const size_t dv = MIRAS__DV(n);
  if (n->answer->keyed) n->K->mul_rows(y, ldy, s->xh, dv, x, ldx, s->m, dv);
  else n->K->copy_rows(y, ldy, x, ldx, s->m, dv);
}

static void miras__plain_fwd(const miras__net *n, const miras__pass *s, float *o, size_t ldo) {
  miras__keyed(n, s, o, ldo, s->z[MIRAS__LAST(n)], MIRAS__DV(n));
}

static void miras__plain_bwd(const miras__net *n, const miras__pass *s, float *bz, const float *bo,
                             size_t ldo) {
  miras__keyed(n, s, bz, MIRAS__DV(n), bo, ldo);
}

static void miras__plain_begin2(const miras__net *n, float *b) {
  miras__keyed(n, &n->pairs, b, MIRAS__DV(n), n->bd[MIRAS__LAST(n)], MIRAS__DV(n));
}

static void miras__plain_end2(const miras__net *n, const float *b) {
  const size_t size = n->pairs.m * MIRAS__DV(n);
  miras__keyed(n, &n->pairs, n->bz[MIRAS__LAST(n)], MIRAS__DV(n), b, MIRAS__DV(n));
  if (!n->answer->keyed) return;
  n->K->mul(n->bkey, n->e, n->bd[0], size);
  n->K->muladd(n->bkey, n->pairs.z[0], b, size);
}

/* gain LN(z_L) + bias: d_L = P(gain e)/s;  bgain += xh bo,  bbias += bo */
static void miras__norm_fwd(const miras__net *n, const miras__pass *s, float *o, size_t ldo) {
  const float epsilon = n->p->d.norm_epsilon;
  n->K->norm_rows(o, ldo, s->xh, s->rstd, s->z[MIRAS__LAST(n)], n->gain, n->bias,
                  epsilon > 0 ? epsilon : 1e-5f, s->m, MIRAS__DV(n));
}

static void miras__norm_bwd(const miras__net *n, const miras__pass *s, float *bz, const float *bo,
                            size_t ldo) {
  n->K->mul_rows(bz, MIRAS__DV(n), n->gain, 0, bo, ldo, s->m, MIRAS__DV(n));
  n->K->norm_project(bz, bz, s->xh, s->rstd, s->m, MIRAS__DV(n));
}

static void miras__norm_params(const miras__net *n, const miras__pass *s, const float *bo,
                               size_t ldo) {
  n->K->muladd_rows(n->dgain, 0, s->xh, MIRAS__DV(n), bo, ldo, s->m, MIRAS__DV(n));
  n->K->add_rows(n->dbias, 0, bo, ldo, s->m, MIRAS__DV(n));
}

static miras__norm2 miras__norm2_of(const miras__net *n) {
  const int last = MIRAS__LAST(n);
  const miras__norm2 x = {n->pairs.m, MIRAS__DV(n), n->bd[last], n->d[last], n->e, n->gain,
                          n->pairs.xh, n->pairs.rstd, n->t1, n->t2, n->row};
  return x;
}

static void miras__norm_begin2(const miras__net *n, float *b) {
  const miras__norm2 x = miras__norm2_of(n);
  n->K->norm_rows_begin2(n->K, b, &x);
}

static void miras__norm_end2(const miras__net *n, const float *b) {
  const miras__norm2 x = miras__norm2_of(n);
  n->K->norm_rows_end2(n->K, n->bz[MIRAS__LAST(n)], b, n->dgain, n->dbias, &x);
}

static const miras__answer miras__answers[] = {
  {0, miras__plain_fwd, miras__plain_bwd, NULL,
   MIRAS__BACK(miras__plain_begin2), MIRAS__BACK(miras__plain_end2)},
  {1, miras__plain_fwd, miras__plain_bwd, NULL,
   MIRAS__BACK(miras__plain_begin2), MIRAS__BACK(miras__plain_end2)},
  {0, miras__norm_fwd, miras__norm_bwd, MIRAS__BACK(miras__norm_params),
   MIRAS__BACK(miras__norm_begin2), MIRAS__BACK(miras__norm_end2)}
};

static void miras__architecture(miras__net *n) {
  const miras_desc *d = &n->p->d;
  n->hidden = &miras__hiddens[d->architecture == MIRAS_GATED_MLP];
  n->answer = &miras__answers[d->inner_norm ? 2 : d->architecture == MIRAS_VECTOR];
}

/* ---- the inner gradient ---- */

static miras__errors miras__errors_of(const miras__net *n) {
  const miras__errors x = {&n->p->d, n->pairs.m, MIRAS__DV(n), n->p->bounds, n->r, n->v, n->delta,
                           n->e, n->loss};
  return x;
}

/* The anchor pass over new pairs: d_l = dl/dz_l at the weights w, residuals, errors, values of the
 * bias. pairs.x[0] or, where the answer is keyed, pairs.xh hold the keys.
 *   d_L as above,  b_l = d_(l+1) W_(l+1)',  d_l = b_l act'(z_l) */
static void miras__anchor_fwd(const miras__net *n) {
  const miras__kernels *K = n->K;
  const miras__plan *p = n->p;
  const miras__pass *s = &n->pairs;
  const size_t m = s->m, dv = MIRAS__DV(n);
  const miras__errors errors = miras__errors_of(n);
  int l;
  for (l = 0; l < p->layers; l++) {
    if (MIRAS__HIDDEN(p, l)) n->hidden->fwd(n, l, s->x[l], s->z, m);
    miras__through(n, MIRAS__SET, l, s->z[l], s->x[l], n->w, m);
  }
  n->answer->fwd(n, s, n->r, dv);
  if (p->d.inner_residual) K->add_rows(n->r, dv, s->x[0], (size_t)p->in[0], m, dv);
  K->sub(n->r, n->r, n->v, m * dv);
  K->bias_rows(&errors, NULL, NULL, NULL, NULL);
  n->answer->bwd(n, s, n->d[p->layers - 1], n->e, dv);
  for (l = p->layers - 1; l > 0; l--) {
    if (!MIRAS__HIDDEN(p, l)) continue;
    miras__through(n, MIRAS__SET | MIRAS__NT | MIRAS__BARE, l, n->back[l - 1], n->d[l], n->w, m);
    n->hidden->bwd(n, l, n->d, s->z, n->back[l - 1], (size_t)(p->in[l] - p->ones), m);
  }
}

/* Its adjoint. In: cotangents bx, bd of the pairs, balong. Out: bx[0], bv, bdelta, bkey; bw += for
 * the weights. The chain of d is undone first (it was computed last), then the forward chain:
 *   bb_l = bd_l act'(z_l),  bz_l = bd_l b_l act''(z_l)
 *   bd_(l+1) += bb_l W_(l+1),  bW_(l+1) += bb_l' d_(l+1)
 *   be from bd_L [+ b(e.r) r],  br = J' be [+ b(e.r) e],  bz_L from br,  bv = -br + (de/dv)' be
 *   bW_l += y_l' bz_l,  by_l += bz_l W_l',  bz_(l-1) += by_l act'(z_(l-1)) */
static void miras__anchor_bwd(const miras__net *n) {
  const miras__kernels *K = n->K;
  const miras__plan *p = n->p;
  const miras__pass *s = &n->pairs;
  const size_t m = s->m, dv = MIRAS__DV(n);
  const miras__errors errors = miras__errors_of(n);
  float *b = n->t3;
  int l;
  for (l = 1; l < p->layers; l++) {
    const size_t mid = (size_t)(p->in[l] - p->ones);
    if (!MIRAS__HIDDEN(p, l)) continue;
    K->fill(n->bz[l - 1], 0, m * mid);
    if (p->from[l - 1] != l - 1) K->fill(n->bz[l - 2], 0, m * mid);
    n->hidden->bwd2(n, l, n->t1, n->back[l - 1], m);
    miras__through(n, MIRAS__ADD | MIRAS__BARE, l, n->bd[l], n->t1, n->w, m);
    miras__through(n, MIRAS__ADD | MIRAS__TN | MIRAS__BARE, l, n->bw, n->t1, n->d[l], m);
  }
  n->answer->begin2(n, b);
  if (n->balong) K->axpy_rows(b, dv, 1, n->balong, 1, n->r, dv, m, dv);
  K->bias_rows(&errors, b, n->bv, n->bdelta, n->row + m);
  if (n->balong) K->axpy_rows(b, dv, 1, n->balong, 1, n->e, dv, m, dv);
  n->answer->end2(n, b);
  if (p->d.inner_residual) K->add_rows(n->bx[0], (size_t)p->in[0], b, dv, m, dv);
  K->sub(n->bv, n->bv, b, m * dv);
  for (l = p->layers - 1; l >= 0; l--) {
    const size_t in = (size_t)p->in[l], mid = in - (size_t)p->ones;
    miras__through(n, MIRAS__ADD | MIRAS__TN, l, n->bw, s->x[l], n->bz[l], m);
    miras__through(n, MIRAS__ADD | MIRAS__NT, l, n->bx[l], n->bz[l], n->w, m);
    if (MIRAS__HIDDEN(p, l)) {
      float *d[4] = {n->t2, n->t2, n->t2, n->t2};      /* of a gated layer's first half */
      d[l - 1] = n->t1;
      n->hidden->bwd(n, l, d, s->z, n->bx[l], in, m);
      K->add(n->bz[l - 1], n->t1, m * mid);
      if (p->from[l - 1] != l - 1) K->add(n->bz[l - 2], n->t2, m * mid);
    }
  }
}

/* @42 RETENTIONS ------------------------------------------------------------- needs 14 27 31 -- */

/* Choice 3 as records: how the weights follow from the dual state A, what closing a chunk does
 * beyond the recursion of A, what the reads of an open chunk follow. A decay itself is alpha, and
 * nothing of it is written anew. */

/* Weights w from the dual state a, and back; arrays of all layers, or of one for the functions that
 * have a layer. b: B, the initial dual state, where decays lead to it, else NULL.
 *   link   w = link(a); inv [layers] receives N^(2-q) of LQ (else it stays 1): in an open chunk its
 *          reads use A_t inv. Adjoint: ba += link'(a)' bw, bb += of B; binv: what those reads left,
 *          or NULL. slope: J where it is a matrix of its own, bslope its cotangent, or NULL
 *   close  w = W_C from a, what the recursion came to, and from = W_0, or where decays have led it;
 *          g [span] the last row of coefficients. Adjoint: bw comes in as what the closing read
 *          leaves on W_C, ba as the cotangent of what the state carries over the close, and becomes
 *          that of A_C (of a sum apart: that of `from`, and bw that of the sum); bg, bb += */
typedef struct miras__link {
  const miras__kernels *K;
  const miras__plan *p;
  const struct miras__retention *rule;
  int layer;
  size_t n;
  const float *a, *b, *from, *g;
  float *w, *inv, *slope;
  const float *binv;
  float *bw, *ba, *bb, *bg, *bslope;
} miras__link;

/* J as the bounded step reads it (room @51): a number, the weights, or a matrix of its own. */
enum { MIRAS__J_NUMBER, MIRAS__J_WEIGHTS, MIRAS__J_OWN };
/* What (1 - a) adds to A_t where decays lead to the initial memory: nothing (the link, or the
 * closing chunk, has it), B, or its weights W_B. */
enum { MIRAS__HOME_NONE, MIRAS__HOME_B, MIRAS__HOME_WEIGHTS };
/* What the recursion of a chunk starts from: A_0; log A_0 (Memora's exact token); or nothing: A
 * holds W, the chunk's steps are summed apart, and decays act on W. */
enum { MIRAS__SUM_A, MIRAS__SUM_LOG, MIRAS__SUM_APART };

typedef struct miras__retention {
  int stores_link;         /* the state keeps W = link(A) beside A                               */
  int reads_live;          /* reads of an open chunk follow A_t; else they use the anchor        */
  int from_dual;           /* and start from A_0, not W_0: a threshold would cut the anchor off  */
  int sum, home, metric;
  float slope;             /* times inv: the number of J                                         */
  void (*close)(const miras__link *x);                 /* NULL: W_C = A_C                        */
  void (*close_bwd)(const miras__link *x);
  void (*link)(const miras__link *x);                  /* NULL: the identity                     */
  void (*link_bwd)(const miras__link *x);
  void (*metric_fwd)(const miras__link *x);            /* slope, of MIRAS__J_OWN                 */
  void (*metric_bwd)(const miras__link *x);            /* bw += what bslope says of W, or NULL   */
} miras__retention;

static miras__link miras__link_of(const miras__kernels *K, const miras__plan *p,
                                  const struct miras__retention *rule) {
  const miras__link x = {K, p, rule, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                         NULL, NULL, NULL, NULL};
  return x;
}

/* A function of one layer for all of them. */
static void miras__links(const miras__link *x, void (*f)(const miras__link *)) {
  miras__link one = *x;
  for (one.layer = 0; one.layer < x->p->layers; one.layer++) {
    const size_t at = x->p->offset[one.layer];
    one.n = (size_t)x->p->in[one.layer] * (size_t)x->p->out[one.layer];
    one.a = miras__at(x->a, at);
    one.b = miras__at(x->b, at);
    one.w = miras__to(x->w, at);
    one.inv = miras__to(x->inv, (size_t)one.layer);
    one.slope = miras__to(x->slope, at);
    one.binv = miras__at(x->binv, (size_t)one.layer);
    one.bw = miras__to(x->bw, at);
    one.ba = miras__to(x->ba, at);
    one.bb = miras__to(x->bb, at);
    one.bslope = miras__to(x->bslope, at);
    f(&one);
  }
}

/* ---- links of a layer ---- */

/* Of the p-norm form no read uses inv. */
static void miras__link_lq(const miras__link *x) {
  const int pnorm = !x->rule->reads_live;
  const float inv = x->K->lq_fwd(x->w, x->a, x->p->d.q, pnorm, x->n);
  if (!pnorm) x->K->fill(x->inv, inv, 1);
}

static void miras__link_lq_bwd(const miras__link *x) {
  const int pnorm = !x->rule->reads_live;
  x->K->lq_bwd(x->ba, x->bw, x->a, x->w, x->binv && !pnorm ? *x->binv : 0, x->p->d.q, pnorm, x->n);
}

static void miras__link_simplex(const miras__link *x) {
  x->K->simplex_fwd(x->p, x->layer, x->w, x->a);
}

static void miras__link_simplex_bwd(const miras__link *x) {
  x->K->simplex_bwd(x->p, x->layer, x->ba, x->bw, NULL, x->w, NULL);
}

static void miras__link_signed(const miras__link *x) {
  x->K->signed_fwd(x->p, x->layer, x->w, NULL, x->a);
  x->K->flush(x->w, x->w, x->n);
}

static void miras__signed_metric(const miras__link *x) {
  x->K->signed_fwd(x->p, x->layer, NULL, x->slope, x->a);
}

static void miras__link_signed_bwd(const miras__link *x) {
  miras__signed_metric(x);
  x->K->simplex_bwd(x->p, x->layer, x->ba, x->bw, x->bslope, x->w, x->slope);
}

static void miras__link_threshold(const miras__link *x) {
  x->K->shrink_from(x->p, x->w, x->a, x->b, x->p->d.sparsity, x->n);
}

/* bb += what the shrinking takes from bw */
static void miras__link_threshold_bwd(const miras__link *x) {
  (void)x->K->shrink_from_bwd(x->p, x->ba, 1, x->bw, x->a, x->b, x->bb, x->p->d.sparsity, x->n);
}

/* tanh or sigmoid */
static void miras__link_map(const miras__link *x) {
  const int tanh_of = x->p->d.retention == MIRAS_RETAIN_TANH;
  x->K->map(tanh_of ? MIRAS__TANH : MIRAS__SIGMOID, x->w, x->a, x->n);
  x->K->flush(x->w, x->w, x->n);
}

static void miras__link_tanh_bwd(const miras__link *x) {
  x->K->add(x->ba, x->bw, x->n);
  x->K->mul(x->bw, x->bw, x->w, x->n);
  x->K->mul(x->bw, x->bw, x->w, x->n);
  x->K->sub(x->ba, x->ba, x->bw, x->n);
}

/* J = 1 - W^2, and its adjoint: bW -= 2 W bJ */
static void miras__tanh_metric(const miras__link *x) {
  x->K->mul(x->slope, x->w, x->w, x->n);
  x->K->rest(x->slope, x->slope, 1, x->n);
}

static void miras__tanh_metric_bwd(const miras__link *x) {
  x->K->mul(x->bslope, x->bslope, x->w, x->n);
  x->K->axpy(x->bw, -2, x->bslope, x->n);
}

static void miras__link_sigmoid_bwd(const miras__link *x) {
  x->K->sigmoid_bwd(x->ba, x->bw, x->a, x->n);
}

/* J = W (1 - W), and its adjoint: bW += (1 - 2 W) bJ */
static void miras__sigmoid_metric(const miras__link *x) {
  x->K->rest(x->slope, x->w, 1, x->n);
  x->K->mul(x->slope, x->slope, x->w, x->n);
}

static void miras__sigmoid_metric_bwd(const miras__link *x) {
  x->K->add(x->bw, x->bslope, x->n);
  miras__tanh_metric_bwd(x);
}

static void miras__link_custom(const miras__link *x) {
  const miras_custom *f = x->p->d.custom;
  f->link(f->user, x->w, x->a, x->p->in[x->layer], x->p->out[x->layer]);
}

static void miras__link_custom_bwd(const miras__link *x) {
  const miras_custom *f = x->p->d.custom;
  f->link_adjoint(f->user, x->ba, x->bw, x->a, x->w, x->p->in[x->layer], x->p->out[x->layer]);
}

/* ---- what closes, all layers ---- */

static void miras__close_link(const miras__link *x) {
  x->K->fill(x->inv, 1, (size_t)x->p->layers);
  miras__links(x, x->rule->link);
}

static void miras__close_link_bwd(const miras__link *x) { miras__links(x, x->rule->link_bwd); }

/* Memora's exact token: W_1 = c softmax(sum), and no more of A. */
static void miras__close_exact_bwd(const miras__link *x) {
  x->K->add(x->bw, x->ba, x->p->weights);
  x->K->fill(x->ba, 0, x->p->weights);
  miras__links(x, x->rule->link_bwd);
}

/* The elastic net: A_C <- shrink(A_C; gamma), gamma = sparsity sum_j G_Cj; with B, A_C - B is
 * shrunk. Its adjoint: bG_Cj += sparsity bgamma. */
static void miras__close_elastic(const miras__link *x) {
  const float gamma = x->p->d.sparsity * x->K->sum(x->g, x->p->span);
  x->K->shrink_from(x->p, x->w, x->a, x->b, gamma, x->p->weights);
}

static void miras__close_elastic_bwd(const miras__link *x) {
  float gamma = x->p->d.sparsity * x->K->sum(x->g, x->p->span);
  x->K->add(x->bw, x->ba, x->p->weights);
  gamma = x->K->shrink_from_bwd(x->p, x->ba, 0, x->bw, x->a, x->b, x->bb, gamma, x->p->weights);
  gamma *= x->p->d.sparsity;
  x->K->add_rows(x->bg, 1, &gamma, 0, x->p->span, 1);
}

/* An f-divergence: the step of the chunk's sum U from W_0, or its mix with W_B. */
static void miras__close_divergence(const miras__link *x) {
  x->K->divergence_step(x->p, x->w, NULL, x->from, x->a);
}

static void miras__close_divergence_bwd(const miras__link *x) {
  x->K->add(x->bw, x->ba, x->p->weights);
  x->K->copy(x->ba, x->bw, x->p->weights);
  x->K->divergence_step(x->p, x->bw, x->ba, x->from, x->a);
}

/* ---- the table, in the order of miras_retention, then the forms that other fields ask for ---- */

enum {
  MIRAS__RETAIN_SIGNED = MIRAS_RETENTION_COUNT,        /* KL on signed slices                    */
  MIRAS__RETAIN_FIRST,     /* Memora's paper form: the exact first token of a chunk ...          */
  MIRAS__RETAIN_OTHERS,    /* ... and the others, linear in W with their gradients at W_1        */
  MIRAS__RETAIN_FORMS
};

#define MIRAS__PLAIN MIRAS__J_NUMBER, 1, NULL, NULL, NULL, NULL, NULL, NULL
#define MIRAS__LINKED miras__close_link, MIRAS__BACK(miras__close_link_bwd)
#define MIRAS__TO_SIMPLEX miras__link_simplex, MIRAS__BACK(miras__link_simplex_bwd), NULL, NULL
#define MIRAS__DIVERGENCE                                                                         \
  miras__close_divergence, MIRAS__BACK(miras__close_divergence_bwd), MIRAS__TO_SIMPLEX

static const miras__retention miras__retentions[MIRAS__RETAIN_FORMS] = {
  {0, 1, 0, MIRAS__SUM_A, MIRAS__HOME_B, MIRAS__PLAIN},
  {0, 1, 0, MIRAS__SUM_A, MIRAS__HOME_B, MIRAS__PLAIN},
  {1, 1, 0, MIRAS__SUM_A, MIRAS__HOME_B, MIRAS__J_NUMBER, 1, MIRAS__LINKED,
   miras__link_lq, MIRAS__BACK(miras__link_lq_bwd), NULL, NULL},
  {1, 0, 0, MIRAS__SUM_A, MIRAS__HOME_B, MIRAS__J_NUMBER, 1, MIRAS__LINKED,
   miras__link_lq, MIRAS__BACK(miras__link_lq_bwd), NULL, NULL},
  {1, 0, 0, MIRAS__SUM_A, MIRAS__HOME_B, MIRAS__J_WEIGHTS, 1, MIRAS__LINKED, MIRAS__TO_SIMPLEX},
  {0, 1, 0, MIRAS__SUM_A, MIRAS__HOME_B, MIRAS__PLAIN},                              /* L2 both */
  {0, 1, 0, MIRAS__SUM_A, MIRAS__HOME_B, MIRAS__J_NUMBER, 1,
   miras__close_elastic, MIRAS__BACK(miras__close_elastic_bwd), NULL, NULL, NULL, NULL},
  {1, 1, 1, MIRAS__SUM_A, MIRAS__HOME_NONE, MIRAS__J_NUMBER, 1, MIRAS__LINKED,          /* FTRL */
   miras__link_threshold, MIRAS__BACK(miras__link_threshold_bwd), NULL, NULL},
  {1, 0, 0, MIRAS__SUM_A, MIRAS__HOME_B, MIRAS__J_OWN, 1, MIRAS__LINKED,
   miras__link_map, MIRAS__BACK(miras__link_sigmoid_bwd), miras__sigmoid_metric,
   MIRAS__BACK(miras__sigmoid_metric_bwd)},
  {0, 0, 0, MIRAS__SUM_APART, MIRAS__HOME_NONE, MIRAS__J_WEIGHTS, 1, MIRAS__DIVERGENCE},
  {0, 0, 0, MIRAS__SUM_APART, MIRAS__HOME_NONE, MIRAS__J_WEIGHTS, 1, MIRAS__DIVERGENCE},
  {0, 0, 0, MIRAS__SUM_APART, MIRAS__HOME_NONE, MIRAS__J_WEIGHTS, 2, MIRAS__DIVERGENCE},
  {1, 0, 0, MIRAS__SUM_A, MIRAS__HOME_B, MIRAS__J_OWN, 1, MIRAS__LINKED,
   miras__link_map, MIRAS__BACK(miras__link_tanh_bwd), miras__tanh_metric,
   MIRAS__BACK(miras__tanh_metric_bwd)},
  {1, 0, 0, MIRAS__SUM_A, MIRAS__HOME_B, MIRAS__J_NUMBER, 1, MIRAS__LINKED,
   miras__link_custom, MIRAS__BACK(miras__link_custom_bwd), NULL, NULL},
  {1, 0, 0, MIRAS__SUM_A, MIRAS__HOME_B, MIRAS__J_OWN, 1, MIRAS__LINKED,
   miras__link_signed, MIRAS__BACK(miras__link_signed_bwd), miras__signed_metric, NULL},
  {0, 0, 0, MIRAS__SUM_LOG, MIRAS__HOME_B, MIRAS__J_WEIGHTS, 1,
   miras__close_link, MIRAS__BACK(miras__close_exact_bwd), MIRAS__TO_SIMPLEX},
  {0, 1, 0, MIRAS__SUM_A, MIRAS__HOME_WEIGHTS, MIRAS__J_NUMBER, 1, NULL, NULL, MIRAS__TO_SIMPLEX}
};

/* The plan's part: which records run a chunk and, where it has one of its own, its first token. */
static void miras__retention_plan(miras__plan *p) {
  const miras_desc *d = &p->d;
  const miras__retention *rule;
  p->rule = p->first = (int)d->retention;
  if (d->retention == MIRAS_RETAIN_KL && d->chunk > 1 && !d->simplex_logits) {
    p->rule = MIRAS__RETAIN_OTHERS;
    p->first = MIRAS__RETAIN_FIRST;
  } else if (d->simplex_signed) {
    p->rule = p->first = MIRAS__RETAIN_SIGNED;
  }
  rule = &miras__retentions[p->rule];
  p->stores_link = rule->stores_link;
  p->init_mapped = rule->link != NULL;
  p->holds = d->toward && (rule->sum == MIRAS__SUM_APART || rule->home == MIRAS__HOME_WEIGHTS);
}

/* The weights w of a dual state a, where p->init_mapped; b: the initial one; inv [layers] as in
 * links. */
static void miras__weights_of(const miras__kernels *K, const miras__plan *p, float *w,
                              const float *a, const float *b, float *inv) {
  miras__link x = miras__link_of(K, p, &miras__retentions[p->rule]);
  x.a = a;
  x.b = p->d.toward ? b : NULL;
  x.w = w;
  x.inv = inv;
  miras__close_link(&x);
}

/* ba += its adjoint, of those that are simplexes: what they hold are weights w. */
static void miras__weights_of_bwd(const miras__kernels *K, const miras__plan *p, float *ba,
                                  float *bw, float *w) {
  miras__link x = miras__link_of(K, p, &miras__retentions[p->rule]);
  x.w = w;
  x.bw = bw;
  x.ba = ba;
  miras__close_link_bwd(&x);
}

/* @45 NORMAL FORM --------------------------------------------------------------- needs 14 20 -- */

/* An engine is a program over kernels: it loops over chunks and layers and counts, and the floats
 * of arrays are touched by kernels alone, each of which acts on a whole tile. So a GPU can run the
 * same text, a block of threads per memory and a barrier after every kernel (tests/test_device.sh
 * compiles it so). For that the tables that it reads are static and const, plans and calls hold
 * indices into them, not pointers, and what a kernel has to say it returns, or leaves in a record
 * of the caller's own. */

/* One head of one sequence in a call: all that an engine is told. Outer parameters and, for the
 * adjoint, their gradients, which are added to; the state, at `position` tokens since the head
 * began; tape NULL or miras__plan_tape floats; scratch of plan.scratch or scratch_backward. */
typedef struct miras__call {
  const miras__kernels *K;
  const miras__plan *p;
  const float *init, *gain, *bias, *ridge;             /* [weights], [dv], [dv], [features]      */
  float *state, *tape, *scratch;
  uint64_t position;
  const miras__head_io *io;
  /* the adjoint */
  const float *dy;                                     /* of io->y, lddy floats between tokens   */
  size_t lddy;
  const miras__head_grads *g;
  float *dinit, *dgain, *dbias, *dridge;
  float *dstate;                                       /* as in miras_backward, or NULL          */
} miras__call;

/* What an engine knows of tokens. The pairs of a call are counted through: pair i is descent
 * i % descents of token i / descents. Here keys become features, the gates of a token become
 * numbers of each of its pairs; and the implicit step, its diagonal and L2 both have rewritten them
 * already. Decay and momentum belong to a token's first pair: the decays of the others are 1.
 * Engines see
 *   x [m, in] what the key becomes (with the 1 of biases at its end), v [m, value_dim],
 *   alpha [m, p->decays], eta [m, p->rates], theta [m], delta [m, p->bounds],
 *   beta [m, value_dim], erase and replace [m, in], and of queries q [reads, in].
 * Members that are NULL are not wanted. The cotangents have the same shapes. */
typedef struct miras__rows {
  size_t in;                                           /* between rows of x, erase, replace, q   */
  float *x, *v, *alpha, *eta, *theta, *delta, *beta, *erase, *replace, *q;
} miras__rows;

/* Rows that want no more than every engine does. */
static miras__rows miras__rows_of(size_t in, float *x, float *v, float *alpha, float *eta) {
  miras__rows r;
  r.in = in;
  r.x = x;
  r.v = v;
  r.alpha = alpha;
  r.eta = eta;
  r.theta = r.delta = r.beta = r.erase = r.replace = r.q = NULL;
  return r;
}

/* A gate of one number per row, or (wide) one per entry: y = c (.) x over m rows of n, c ldc apart;
 * and bc += its cotangent from that of y, b. */
static void miras__gate(const miras__kernels *K, int wide, float *y, const float *c, size_t ldc,
                        const float *x, size_t m, size_t n) {
  if (wide) K->mul_rows(y, n, c, ldc, x, n, m, n);
  else K->scale_rows(y, n, 1, c, ldc, x, n, m, n);
}

static void miras__gate_bwd(const miras__kernels *K, int wide, float *bc, size_t ldc,
                            const float *b, const float *x, size_t m, size_t n) {
  if (wide) K->muladd_rows(bc, ldc, b, n, x, n, m, n);
  else K->dot_rows(1, bc, ldc, b, n, x, n, m, n);
}

/* Floats of arrays become where they lie, one behind the other from `used` on; returns the end. */
static size_t miras__lie(size_t *at, const size_t *end, size_t used) {
  for (; at < end; at++) {
    const size_t floats = *at;
    *at = used;
    used += miras__pad(floats);
  }
  return used;
}

/* How many pairs lie evenly: all `left` with one pair per token, else the rest of a token. */
static size_t miras__rows_run(const miras__plan *p, size_t pair, size_t left, size_t *token,
                              size_t *descent) {
  const size_t descents = (size_t)p->d.descents;
  *token = pair / descents;
  *descent = pair % descents;
  if (descents == 1) return left;
  return descents - *descent < left ? descents - *descent : left;
}

/* Rows of a gate: one number or `wide` of them, from gates of one number or `given` of them. */
MIRAS__INLINE void miras__rows_gate(const miras__kernels *K, float *to, size_t wide,
                                    const float *from, size_t ld, size_t given, size_t rows) {
  if (given == wide || wide == 1) K->copy_rows(to, wide, from, ld, rows, wide);
  else K->spread_rows(to, wide, from, ld, rows, wide);
}

/* Queries of `reads` tokens from `token` on. */
static void miras__rows_queries(const miras__kernels *K, const miras__plan *p,
                                const miras__head_io *io, size_t token, size_t reads, float *q,
                                size_t in) {
  const size_t dk = (size_t)p->d.key_dim;
  K->feature_rows(p->map, q, in, io->q + token * io->ldq, io->ldq, reads, dk);
  if (in > p->features) K->fill_rows(q + in - 1, in, 1, reads, 1);
}

/* m pairs of the call from pair i0 on. */
static void miras__rows_fwd(const miras__kernels *K, const miras__plan *p, const miras__head_io *io,
                            size_t i0, size_t m, const miras__rows *r) {
  const miras_desc *d = &p->d;
  const size_t dk = (size_t)d->key_dim, dv = (size_t)d->value_dim, descents = (size_t)d->descents;
  const size_t in = r->in, keeps = miras__keep_width(d), rates = miras__gate_width(d, d->step_gate);
  size_t i, n, token, s;
  for (i = 0; i < m; i += n) {
    const float *key, *keep, *step;
    size_t ldk, ldv, ld_step;
    n = miras__rows_run(p, i0 + i, m - i, &token, &s);
    ldk = descents == 1 ? io->ldk : dk;
    ldv = descents == 1 ? io->ldv : dv;
    ld_step = descents == 1 || !io->ld_step ? io->ld_step : rates;
    key = io->k + token * io->ldk + s * dk;
    step = io->step + token * io->ld_step + s * ld_step * (descents > 1);
    keep = io->keep + token * io->ld_keep;
    K->feature_rows(p->map, r->x + i * in, in, key, ldk, n, dk);
    if (in > p->features) K->fill_rows(r->x + i * in + in - 1, in, 1, n, 1);
    if (r->v) K->copy_rows(r->v + i * dv, dv, io->v + token * io->ldv + s * dv, ldv, n, dv);
    miras__rows_gate(K, r->eta + i * p->rates, p->rates, step, ld_step, rates, n);
    if (descents > 1) K->fill(r->alpha + i * p->decays, 1, n * p->decays);
    if (s == 0)
      miras__rows_gate(K, r->alpha + i * p->decays, p->decays, keep, io->ld_keep, keeps,
                       descents == 1 ? n : 1);
    if (r->theta)
      K->copy_rows(r->theta + i, 1, io->momentum + token * io->ld_momentum,
                   descents == 1 ? io->ld_momentum : 0, n, 1);
    if (r->delta && io->threshold)
      K->copy_rows(r->delta + i * p->bounds, p->bounds, io->threshold + token * io->ld_threshold,
                   descents == 1 ? io->ld_threshold : 0, n, p->bounds);
    if (r->beta && descents > 1) K->fill(r->beta + i * dv, 1, n * dv);
    if (r->beta && s == 0)
      K->copy_rows(r->beta + i * dv, dv, io->value_keep + token * io->ld_value_keep,
                   io->ld_value_keep, descents == 1 ? n : 1, dv);
    if (r->erase) {
      K->copy_rows(r->erase + i * in, in, io->erase + token * io->ld_erase, io->ld_erase, n, dk);
      K->copy_rows(r->replace + i * in, in, io->replace + token * io->ld_replace, io->ld_replace, n,
                   dk);
    }
  }
  if (p->implicit) K->implicit_rows(r->eta, p->rates, r->x, in, m, in);
  for (i = 0; d->diagonal && i < m; i++)
    K->diagonal(r->alpha + i * p->decays, r->eta[i], r->x + i * in, p->after, in);
  if (p->both) K->both_fwd(r->alpha, r->eta, d->balance, m * p->rates);
}

/* For the bias of a token before its first pair is written: the key x, xr that reads what the decay
 * leaves of the memory (decay first) or all of it, and v. */
static void miras__rows_surprise(const miras__kernels *K, const miras__plan *p,
                                 const miras__head_io *io, size_t token, float *x, float *xr,
                                 float *v) {
  const float *keep = io->keep + token * io->ld_keep;
  K->feature_rows(p->map, x, 0, io->k + token * io->ldk, 0, 1, (size_t)p->d.key_dim);
  K->copy(v, io->v + token * io->ldv, (size_t)p->d.value_dim);
  if (!p->after) K->copy(xr, x, p->features);
  else if (miras__keep_width(&p->d) > 1) K->mul(xr, x, keep, p->features);
  else K->scale(xr, *keep, x, p->features);
}

/* The cotangent of a gate of one number, or of `wide`, from those of its rows: set, or added to. */
static void miras__rows_gate_bwd(const miras__kernels *K, int add, float *to, size_t ld,
                                 size_t given, const float *from, size_t wide, size_t rows) {
  if (given <= 1 && wide > 1) K->sum_rows(add, to, ld, from, wide, rows, wide);
  else if (add) K->add_rows(to, ld, from, wide, rows, wide);
  else K->copy_rows(to, ld, from, wide, rows, wide);
}

/* Its adjoint: from the cotangents b of those rows, which are used up, to those of the tokens. row
 * [in]: room. Thresholds are added to, because the descents of a token share theirs. */
static void miras__rows_bwd(const miras__kernels *K, const miras__plan *p, const miras__head_io *io,
                            const miras__head_grads *g, size_t i0, size_t m, const miras__rows *r,
                            const miras__rows *b, float *row) {
  const miras_desc *d = &p->d;
  const size_t dk = (size_t)d->key_dim, dv = (size_t)d->value_dim, descents = (size_t)d->descents;
  const size_t in = r->in, keeps = miras__keep_width(d), rates = miras__gate_width(d, d->step_gate);
  size_t i, n, token, s, ldk = g->ldk, ldx = io->ldk, ldv = g->ldv, ld_step = g->ld_step;
  size_t ld_threshold = g->ld_threshold;
  if (descents > 1) {                            /* between those of a token */
    ldk = ldx = dk;
    ldv = dv;
    ld_step = rates;
    ld_threshold = 0;
  }
  if (p->both) K->both_bwd(b->eta, b->alpha, r->alpha, d->balance, m * p->rates);
  for (i = 0; p->implicit && i < m; i++) {
    const float *step, *keep;
    (void)miras__rows_run(p, i0 + i, 1, &token, &s);
    step = io->step + token * io->ld_step + (io->ld_step ? s * rates : 0);
    keep = s ? NULL : io->keep + token * io->ld_keep;
    if (d->diagonal)
      K->diagonal_bwd(K, b->x + i * in, b->eta + i, b->alpha + i * in, r->eta[i], r->x + i * in,
                      keep, !p->after ? 0 : keeps > 1 ? keeps : 1, row, in);
    K->implicit_bwd(K, b->x + i * in, b->eta + i * p->rates, r->eta + i * p->rates, step, p->rates,
                    r->x + i * in, in);
  }
  for (i = 0; i < m; i += n) {
    size_t first;
    n = miras__rows_run(p, i0 + i, m - i, &token, &s);
    first = s ? 0 : descents == 1 ? n : 1;             /* pairs that are the first of their token */
    if (g->k)
      K->feature_rows_bwd(p->map, g->k + token * g->ldk + s * dk, ldk, b->x + i * in, r->x + i * in,
                          in, io->k + token * io->ldk + s * dk, ldx, n, dk);
    if (g->v) K->copy_rows(g->v + token * g->ldv + s * dv, ldv, b->v + i * dv, dv, n, dv);
    if (g->step)
      miras__rows_gate_bwd(K, 0, g->step + token * g->ld_step + s * rates, ld_step, rates,
                           b->eta + i * p->rates, p->rates, n);
    if (g->keep && first)
      miras__rows_gate_bwd(K, 0, g->keep + token * g->ld_keep, g->ld_keep, keeps,
                           b->alpha + i * p->decays, p->decays, first);
    if (g->momentum && first)
      K->copy_rows(g->momentum + token * g->ld_momentum, g->ld_momentum, b->theta + i, 1, first, 1);
    if (g->threshold)
      miras__rows_gate_bwd(K, 1, g->threshold + token * g->ld_threshold, ld_threshold, p->bounds,
                           b->delta + i * p->bounds, p->bounds, n);
    if (g->value_keep && first)
      K->copy_rows(g->value_keep + token * g->ld_value_keep, g->ld_value_keep, b->beta + i * dv, dv,
                   first, dv);
    if (g->erase)
      K->copy_rows(g->erase + token * g->ld_erase, g->ld_erase, b->erase + i * in, in, n, dk);
    if (g->replace)
      K->copy_rows(g->replace + token * g->ld_replace, g->ld_replace, b->replace + i * in, in, n,
                   dk);
  }
}

/* dq of `reads` tokens from `token` on, from the cotangents bq of the rows q. */
static void miras__rows_queries_bwd(const miras__kernels *K, const miras__plan *p,
                                    const miras__head_io *io, const miras__head_grads *g,
                                    size_t token, size_t reads, const float *bq, const float *q,
                                    size_t in) {
  if (g->q)
    K->feature_rows_bwd(p->map, g->q + token * g->ldq, g->ldq, bq, q, in, io->q + token * io->ldq,
                        io->ldq, reads, (size_t)p->d.key_dim);
}

/* @50 EXACT LINEAR ENGINE ---------------------------------------------------- needs 14 20 45 -- */

/* Matrix memories whose update is linear in the state S [features, dv]. Rows are those of room @45:
 * a token is one row of a block, or `descents` rows. Row i does
 *   R_i = S_(i-1) (error first) or diag(alpha_i) S_(i-1) (decay first: plan.after)
 *   S_i = diag(alpha_i) S_(i-1) diag(beta_i) + x_i u_i' [+ b_i t_i']        y_i = S_i' q_i
 *   dot product      u_i = eta_i v_i
 *   L2               u_i = eta_i e_i,  e_i = v_i - R_i' x_i       (plan.delta)
 *   separate erase   u_i = eta_i v_i,  t_i = R_i' a_i             (plan.delta, plan.streams 2)
 *   normalise        z_i = alpha_i z_(i-1) + eta_i x_i is one more column; y_i /= z_i . q_i
 * beta is 1 except with a value gate. eta may be one number per entry of the value. (x, u) and
 * (b, t) are streams of pairs that all functions here treat alike; row i reads at z_i, x_i or a_i,
 * and solves for the last stream's u or t. How many rows are worked on together is only a schedule:
 * with S_0 the state at the block's start, c_i = prod_(s<=i) alpha_s, L_ij = prod_(j<s<=i) alpha_s,
 *   S_i = diag(c_i) S_0 + sum_(j<=i) (L_ij x_j) u_j' [+ (L_ij b_j) t_j']
 * so with E_ij, ce_i = L_ij, c_i at decay first and L_(i-1)j, c_(i-1) at error first,
 *   A_ij = E_ij z_i . x_j  (j < i)           P_ij = L_ij q_i . x_j  (j <= i)
 *   R_i' z_i = ce_i z_i S_0 + sum_(j<i) A_ij u_j [+ Ab_ij t_j]     by substitution, row after row
 *   y_i      = c_i q_i S_0 + sum_(j<=i) P_ij u_j [+ Pb_ij t_j]
 * With a scalar alpha, c and L are numbers by recursion; with one per feature, room @28 carries the
 * rows D_ij = L_ij (.) x_j. A value gate decays the rows u_j in the same way.
 *
 * plan.pulls: decays lead to the initial memory B (and z to B's z),
 *   R_i = S_(i-1) or B + diag(alpha_i) (S_(i-1) - B)
 *   S_i = B + diag(alpha_i) (S_(i-1) - B) diag(beta_i) + x_i u_i' [+ b_i t_i']
 * so F_i = S_i - B obeys the recurrence above. A block works on F_0 = S_0 - B in the place of S_0,
 * every row that reads adds its own product with B,
 *   R_i' z_i = z_i B + (as above)     y_i = q_i B + (as above)     S_m = B + F_m
 * and the state keeps S itself. Where B is all zeros F is S, and nothing more is done.
 *
 * A block that is still open keeps its rows in the state, and each row's results are chains that do
 * not depend on how many rows are computed in one go: any split into calls gives the same bits. In
 * blocks of one token nothing stays open. What has faded below 1e-30 becomes 0: coefficients at
 * once, S every MIRAS__SWEEP tokens. For the adjoint that has not happened. */

/* What the engine keeps of a block that is open. */
typedef struct miras__open {
  float *x[2], *u[2];      /* the streams' pairs: [features, ld], a column per row; [rows, dv]. Per
                              feature x is [rows, features], decayed up to the newest row, and so is
                              u of a value gate                                                  */
  float *eta;              /* normalise: [rows]                                                  */
  float *l;                /* [rows] what is left of each row; none per feature                  */
  float *c;                /* what is left of S_0: one number, or [features]                     */
  float *cv;               /* value gate: [dv]                                                   */
} miras__open;

/* A block at work: scratch and what is known of its newest rows. R is the rows of a block, ld
 * padded R, where scores lie; the stack is the rows that read the state: errors (R of them, where
 * there are errors), then queries. Of decays, per is 1 or one per feature, value R with a value
 * gate; second 0 without a second stream. Scratch:
 *   x                 [R, features] of the streams; the rows that read errors are the keys (z), or
 *                     the rows erase
 *   z, zc, read       [stack, features] rows that read; times what is left of S_0; what they read,
 *                     [stack, dv], with e_i of L2 in the error's place
 *   product, score    [stack, R] z . x of the streams; the same times what is left of the row
 *   u, raw            value gate: rows u, answers of S_0 before cv
 *   den, l, c, cv     normalisers, and in the end 1 / that; coefficients of rows, of S_0, of values
 *   row, f            room; F, where decays lead to the initial memory
 * and of the adjoint cotangents, named after what they belong to. Those before dlast are added to
 * and begin at zero. dlast: of rows x as decayed at the block's end; ds: of the state. */
#define MIRAS__OPEN_ARRAYS(X)                                                                     \
  X(open.x[0], many * n) X(open.u[0], rows * dv) X(open.x[1], second * many * n)                  \
  X(open.u[1], second * rows * dv) X(open.eta, p->d.normalise ? rows : 0)                         \
  X(open.l, scalar * rows) X(open.c, per) X(open.cv, p->value_decay ? dv : 0)
#define MIRAS__BLOCK_ARRAYS(X)                                                                    \
  X(pack, room_to_pack) X(r.beta, value * dv)                                                     \
  X(x[0], alone * rows * n) X(x[1], second * rows * n) X(r.v, rows * dv) X(r.alpha, rows * per)   \
  X(r.eta, rows * p->rates) X(score[0], stack * ld) X(score[1], second * stack * ld)              \
  X(product[0], scalar * stack * ld) X(product[1], scalar * second * stack * ld)   \
  X(z, room * n) X(zc, (room > p->streams * rows ? room : p->streams * rows) * n)                 \
  X(read, room * dv) X(u, value * dv) X(raw, value * dv) X(den, rows) X(row, wide)                \
  X(l, scalar * (rows + 1) * ld) X(c, (rows + 1) * per) X(cv, value ? (value + 1) * dv : 0)       \
  X(f, p->pulls ? p->weights : 0)
#define MIRAS__BLOCK_ARRAYS_BWD(X)                                                                \
  X(dx[0], rows * n) X(dx[1], second * rows * n) X(du[0], rows * dv)                              \
  X(du[1], (second ? rows : value) * dv) X(d.alpha, rows * per) X(d.eta, rows * p->rates)         \
  X(d.beta, value * dv) X(dl, scalar * (rows + 1) * ld) X(dc, (rows + 1) * per)                   \
  X(dcv, value ? (value + 1) * dv : 0) X(dlast[0], rows * n) X(dlast[1], second * rows * n)       \
  X(dscore[0], stack * ld) X(dscore[1], second * stack * ld) X(dz, room * n) X(dread, stack * dv) \
  X(dden, rows) X(ds, p->weights) X(history, p->per_feature || value ? 16 * rows : 0)

/* Some of the rows that read the state: of `count` rows from `row` of the stack on, row i meets the
 * state with what row left + i step of the coefficients leaves, and sees seen + i step rows. */
typedef struct miras__readers {
  size_t row, count, left, step, seen;
} miras__readers;

typedef struct miras__block {
  const miras__kernels *K;
  const miras__plan *p;
  const float *base;       /* B, where decays lead to it and it is anything but zeros; else NULL */
  const float *s0;         /* S_0, or F_0 where there is a B                                     */
  size_t ld;
  size_t r0, m, reads, stack;      /* the newest rows r0..r0+m-1, their queries, all that read   */
  miras__readers by[2];            /* errors, queries                                            */
  miras__open open;        /* in the state; in scratch where that holds no open block            */
  miras__rows r, d;        /* the newest rows and their cotangents                               */
  int backward, live;      /* live: does anything follow the block?                              */
  float *pack, *x[2], *product[2], *score[2], *z, *zc, *read, *u, *raw, *den, *row, *l, *c, *cv, *f;
  float *dx[2], *du[2], *dl, *dc, *dcv, *dlast[2], *dscore[2], *dz, *dread, *dden, *ds, *history;
} miras__block;

#define MIRAS_X(name, floats) (uint16_t)offsetof(miras__block, name),
static const uint16_t miras__open_arrays[] = {MIRAS__OPEN_ARRAYS(MIRAS_X)};
static const uint16_t miras__block_arrays[] = {MIRAS__BLOCK_ARRAYS(MIRAS_X)};
static const uint16_t miras__block_arrays_bwd[] = {MIRAS__BLOCK_ARRAYS_BWD(MIRAS_X)};
#undef MIRAS_X

/* Offsets of its scratch, how many floats that is (what only the adjoint needs is last), and the
 * floats of an open block, which come first where they do not lie in the state. */
static size_t miras__block_offsets(const miras__plan *p, size_t rows, int backward, size_t *at,
                                   size_t *open) {
  const size_t n = p->features, dv = (size_t)p->d.value_dim, wide = n > dv ? n : dv;
  const size_t errors = p->delta ? rows : 0, stack = errors + rows / (size_t)p->d.descents;
  const size_t room = stack > rows ? stack : rows, ld = miras__pad(rows);
  const size_t scalar = p->per_feature ? 0 : 1, per = p->per_feature ? n : 1;
  const size_t value = p->value_decay ? rows : 0, second = p->streams - 1;
  const size_t alone = p->delta && !second ? 0 : 1, many = p->per_feature ? rows : ld;
  const size_t deep = wide > rows ? wide : rows;
  /* with blocks this short gemm packs no more than one panel of 64 columns, 128 deep (room @24) */
  const size_t room_to_pack = rows >= 32 ? MIRAS__PACK : 64 * (deep > 128 ? 128 : deep);
  size_t *first = at;
#define MIRAS_X(name, floats) *at++ = floats;
  MIRAS__OPEN_ARRAYS(MIRAS_X)
  *open = miras__lie(first, at, 0);
  first = at;
  MIRAS__BLOCK_ARRAYS(MIRAS_X)
  if (MIRAS__TRAINS && backward) {
    MIRAS__BLOCK_ARRAYS_BWD(MIRAS_X)
  }
#undef MIRAS_X
  return miras__lie(first, at, !backward && p->d.chunk > 1 ? 0 : *open);
}

/* Its part of the plan: where the state of a head has what, sizes of tape and scratch. Returns the
 * floats of a state. */
static MIRAS__COLD size_t miras__exact_plan(miras__plan *p) {
  const miras_desc *d = &p->d;
  const size_t chunk = (size_t)d->chunk, descents = (size_t)d->descents;
  size_t state = miras__pad(p->weights), open, least;
  p->tape_chunk = p->weights;
  p->tape_tokens = miras__reset_grid(d);
  p->fused = chunk == 1 && descents == 1 && p->streams == 1 && !d->diagonal && !d->normalise &&
             !p->value_decay;
  p->split = p->weights;
  p->at_open = state;
  least = miras__block_offsets(p, (size_t)p->tape_tokens * descents, 1, p->at, &open);
  p->scratch = 3 * miras__pad((size_t)d->value_dim) + 3 * miras__pad(p->features);
  if (!p->fused) p->scratch = miras__block_offsets(p, chunk * descents, 0, p->at, &open);
  if (chunk > 1) state += open;
  p->scratch_backward = MIRAS__TRAINS && least > p->scratch ? least : p->scratch;
  return state;
}

/* ---- coefficients and rows ---- */

/* Room @28's view of the new rows x, of width n, that decay by alpha. */
static miras__channels miras__exact_channels(const miras__block *k, size_t n, const float *x,
                                             const float *alpha, float *live) {
  const miras__channels c = {n, (size_t)k->p->d.descents, k->p->after, x, NULL, alpha, NULL, NULL,
                             NULL, NULL, k->ld, live};
  return c;
}

/* Coefficients of the new rows. */
static void miras__exact_left(miras__block *k) {
  const miras__plan *p = k->p;
  const size_t n = p->features, dv = (size_t)p->d.value_dim;
  if (p->per_feature) k->K->channel_left(k->K, k->open.c, k->c, k->r.alpha, n, k->r0, k->m);
  else k->K->scalar_left(k->K, k->open.c, k->open.l, k->c, k->l, k->ld, k->r.alpha, k->r0, k->m);
  if (p->value_decay) k->K->channel_left(k->K, k->open.cv, k->cv, k->r.beta, dv, k->r0, k->m);
}

static void miras__exact_left_bwd(miras__block *k) {
  const size_t n = k->p->features;
  if (k->p->per_feature)
    k->K->channel_decay_bwd(k->K, k->d.alpha, k->dc + n, k->c + n, k->r.alpha, k->m, n);
  else if (k->dl)
    k->K->decay_rows_bwd(k->K, k->dl + k->ld, k->ld, k->dc + 1, k->d.alpha, NULL, k->l, k->c,
                         k->r.alpha, k->m);
}

/* The new rows of stream s enter: score of the stack. Products are with whole vectors of columns,
 * because gemm packs what ends inside one; what stands behind the last row is not looked at. A row
 * that is all of its block needs no column. */
static void miras__exact_scores(miras__block *k, size_t s) {
  const miras__kernels *K = k->K;
  const size_t n = k->p->features, N = k->ld, whole = miras__pad(k->r0 + k->m);
  const miras__readers *g, *e = &k->by[0], *q = &k->by[1];
  float *live = k->open.x[s];
  if (!k->p->per_feature) {
    const int alone = k->p->d.chunk == 1 && !(MIRAS__TRAINS && k->backward);
    if (!alone && (k->stack || k->p->d.chunk > 1))
      K->transpose(live + k->r0, N, k->x[s], n, k->m, n);
    if (!alone && k->stack)
      K->gemm(MIRAS__SET, k->product[s], N, miras__mat(k->z, n), miras__mat(live, N), k->stack,
              whole, n, k->pack);
    for (g = k->by; g < k->by + 2; g++) {
      const float *l = k->l + g->left * N;
      const size_t to = g->row * N;
      size_t i, j;
      for (i = 0; alone && i < g->count; i++)
        for (j = 0; j < g->seen + i * g->step; j++)
          miras__product(K, k->pack, MIRAS__NT, k->product[s] + to + i * N + j,
                         k->z + (g->row + i) * n, k->x[s] + j * n, 1, 1, n);
      K->triangle(k->score[s] + to, 1, l, g->step * N, k->product[s] + to, N, g->seen, g->step,
                  g->count);
    }
  } else if (!k->m) {                        /* a look at the block as it is */
    K->dot_rows(0, k->score[s], 1, k->z, 0, live, n, k->r0, n);
  } else {
    miras__channels c = miras__exact_channels(k, n, k->x[s], k->r.alpha, live);
    c.q = q->count ? k->z + q->row * n : NULL;
    c.z = e->count ? k->z : NULL;
    c.p = k->score[s] + q->row * N;
    c.a = k->score[s];
    K->channel_rows(K, &c, NULL, 0, k->r0, k->m);
  }
}

/*   dL_ij += dM_ij z_i . x_j,   dz_i += sum_j dM_ij L_ij x_j,   dx_j += sum_i dM_ij L_ij z_i
 * with dM = dscore. Per feature room @28 takes dlast along. */
static void miras__exact_scores_bwd(miras__block *k, size_t s) {
  const miras__kernels *K = k->K;
  const size_t n = k->p->features, N = k->ld, m = k->m;
  const miras__readers *g, *e = &k->by[0], *q = &k->by[1];
  if (k->p->per_feature) {
    miras__channels c = miras__exact_channels(k, n, k->x[s], k->r.alpha, NULL);
    const miras__channel_grads b = {k->dx[s], NULL, k->d.alpha, k->dz + q->row * n, k->dz,
                                    k->live ? k->dlast[s] : NULL};
    c.q = k->z + q->row * n;
    c.z = e->count ? k->z : NULL;
    c.p = k->dscore[s] + q->row * N;
    c.a = k->dscore[s];
    K->channel_bwd(&c, &b, m, k->history);
    return;
  }
  for (g = k->by; g < k->by + 2; g++)
    K->weigh_bwd(K, miras__to(k->dl, g->left * N), k->dscore[s] + g->row * N, k->l + g->left * N,
                 k->product[s] + g->row * N, N, g->count, g->seen, g->step, m);
  K->gemm(MIRAS__ADD, k->dz, n, miras__mat(k->dscore[s], N), miras__mat(k->x[s], n), k->stack, n, m,
          k->pack);
  K->gemm(MIRAS__ADD, k->dx[s], n, miras__turned(k->dscore[s], N), miras__mat(k->z, n), m, n,
          k->stack, k->pack);
}

/* The stream's rows as decayed at the end, [rows, features], some in `to`; z: fold_column too. */
static const float *miras__exact_carry(miras__block *k, size_t s, size_t rows, float *to,
                                       float *z) {
  const miras__kernels *K = k->K;
  const size_t n = k->p->features;
  const miras__open *o = &k->open;
  const float *x = k->x[s];
  if (k->p->per_feature) {
    if (z) K->fold_column(z, o->c, 1, o->eta, NULL, o->x[s], rows, n);
    return o->x[s];
  }
  if (k->m != rows) K->transpose(to, n, o->x[s], k->ld, n, rows), x = to;
  if (z) K->fold_column(z, o->c, 0, o->eta, o->l, x, rows, n);
  K->scale_rows(to, n, 1, o->l, 1, x, n, rows, n);
  return to;
}

/* ---- a block of rows ---- */

/* A block of `rows` rows in the call's scratch, its open part in the state or there too. */
static void miras__exact_open(const miras__call *a, size_t rows, int backward, miras__block *k) {
  const miras__plan *p = a->p;
  float *open = backward || p->d.chunk == 1 ? a->scratch : a->state + p->at_open;
  size_t own[MIRAS__ARRAYS], floats;
  const size_t *at = p->at;
  if (MIRAS__TRAINS && backward) (void)miras__block_offsets(p, rows, 1, own, &floats), at = own;
  miras__addresses(k, miras__open_arrays, MIRAS__COUNT(miras__open_arrays), open, at);
  at += MIRAS__COUNT(miras__open_arrays);
  miras__addresses(k, miras__block_arrays, MIRAS__COUNT(miras__block_arrays), a->scratch, at);
  at += MIRAS__COUNT(miras__block_arrays);
  if (p->delta && p->streams == 1) k->x[0] = k->z;
  if (!p->value_decay) k->r.beta = NULL;
  k->r.in = k->d.in = p->features;
  k->r.x = k->x[0];
  k->r.replace = k->x[1];
  k->r.erase = p->streams > 1 ? k->z : NULL;
  k->r.theta = k->r.delta = NULL;
  k->ld = miras__pad(rows);
  k->backward = backward;
  k->K = a->K;
  k->p = p;
  k->base = p->pulls && a->K->any(a->init, p->weights) ? a->init : NULL;
  if (!MIRAS__TRAINS || !backward) return;
  miras__addresses(k, miras__block_arrays_bwd, MIRAS__COUNT(miras__block_arrays_bwd), a->scratch,
                   at);
  k->d.x = k->dx[0];
  k->d.v = k->du[0];
  k->d.replace = k->dx[1];
  k->d.erase = k->dz;
}

/* It starts from the state s. */
static void miras__exact_start(miras__block *k, const float *s) {
  k->s0 = s;
  if (!k->base) return;
  k->K->sub(k->f, s, k->base, k->p->weights);
  k->s0 = k->f;
}

/* The new rows are r0..r0+m-1, of which `reads` tokens are queried; m = 0: one row looks at the
 * block as it is. */
static void miras__exact_stack(miras__block *k, size_t r0, size_t m, size_t reads) {
  miras__readers *e = &k->by[0], *q = &k->by[1];
  k->r0 = r0;
  k->m = m;
  e->row = 0;
  e->count = k->p->delta ? m : 0;
  e->left = (size_t)k->p->after;
  e->step = 1;
  e->seen = r0;
  q->row = e->count;
  q->count = reads;
  q->left = q->step = m ? (size_t)k->p->d.descents : 0;
  q->seen = r0 + q->step;
  k->r.q = k->z + q->row * k->p->features;
  k->stack = e->count + reads;
}

/* The new rows' u, and t or e_i in the place of what was read for an error. */
static void miras__exact_pairs(miras__block *k) {
  const miras__kernels *K = k->K;
  const miras__plan *p = k->p;
  const size_t dv = (size_t)p->d.value_dim, last = p->streams - 1;
  float *u = p->value_decay ? k->u : k->open.u[0] + k->r0 * dv;
  if (!p->delta || last)
    miras__gate(K, p->rates > 1, u, k->r.eta, p->rates, k->r.v, k->m, dv);
  else K->sub(k->read, k->r.v, k->read, k->m * dv);
  if (p->delta) {
    const miras__solve s = {k->read, k->open.u[last], last ? k->open.u[0] : NULL, k->score[last],
                            k->score[0], k->r.eta, dv, k->ld, p->rates};
    K->exact_solve(0, &s, k->r0, k->m);
  }
}

/*   solve      L2: du_j += sum_(i>j) A_ij r_i, r_i = -eta_i du_i;   separate erase: the same over t
 *              with r_i = dt_i, then du += A' r
 *   pair       L2: deta = du . e, else du . v (per channel: not summed);  dv = eta (.) du
 * r are the errors' rows of dread. */
static void miras__exact_pairs_bwd(miras__block *k) {
  const miras__kernels *K = k->K;
  const miras__plan *p = k->p;
  const size_t dv = (size_t)p->d.value_dim, m = k->m, N = k->ld, last = p->streams - 1;
  const float *along = p->delta && !last ? k->read : k->r.v;
  if (p->delta) {
    const miras__solve s = {k->du[last], k->dread, NULL, k->score[last], NULL,
                            last ? NULL : k->r.eta, dv, N, p->rates};
    K->exact_solve(1, &s, 0, m);
  }
  if (last) {
    K->mask_rows(k->score[0], N, 0, m, m, -(ptrdiff_t)m, 0, 1);
    K->gemm(MIRAS__ADD, k->du[0], dv, miras__turned(k->score[0], N), miras__mat(k->dread, dv), m,
            dv, m, k->pack);
  }
  if (p->rates > 1) K->mul_rows(k->d.eta, dv, k->du[0], dv, along, dv, m, dv);
  else K->dot_rows(1, k->d.eta, 1, k->du[0], dv, along, dv, m, dv);
  miras__gate(K, p->rates > 1, k->du[0], k->r.eta, p->rates, k->du[0], m, dv);
}

/* What the queries see of the block's rows is added to read. */
static void miras__exact_mix(miras__block *k) {
  const miras__kernels *K = k->K;
  const size_t dv = (size_t)k->p->d.value_dim, N = k->ld;
  const miras__readers *q = &k->by[1];
  float *read = k->read + q->row * dv;
  size_t i, s;
  if (k->p->value_decay && k->m) {
    miras__channels c = miras__exact_channels(k, dv, k->u, k->r.beta, k->open.u[0]);
    c.p = k->score[0] + q->row * N;
    K->channel_rows(K, &c, q->count ? read : NULL, dv, k->r0, k->m);
    return;
  }
  for (s = 0; s < k->p->streams && q->count; s++) {
    const float *score = k->score[s] + q->row * N, *u = k->open.u[s];
    if (q->step <= 1)
      K->gemm(miras__causal(MIRAS__ADD, q->seen), read, dv, miras__mat(score, N),
              miras__mat(u, dv), q->count, dv, k->r0 + k->m, k->pack);
    else
      for (i = 0; i < q->count; i++)
        K->gemm(MIRAS__ADD, read + i * dv, dv, miras__mat(score + i * N, N), miras__mat(u, dv), 1,
                dv, q->seen + i * q->step, k->pack);
  }
}

/* du += P' dread [dt += Pb' dread]. With a value gate dscore too, and dread becomes that of raw. */
static void miras__exact_mix_bwd(miras__block *k) {
  const miras__kernels *K = k->K;
  const size_t dv = (size_t)k->p->d.value_dim, N = k->ld, m = k->m;
  const miras__readers *q = &k->by[1];
  float *dread = k->dread + q->row * dv;
  size_t s;
  for (s = 0; s < k->p->streams; s++) {
    float *score = k->score[s] + q->row * N;
    K->mask_rows(score, N, 0, q->count, m, -(ptrdiff_t)m, (ptrdiff_t)q->seen, q->step);
    if (!k->p->value_decay)
      K->gemm(MIRAS__ADD, k->du[s], dv, miras__turned(score, N), miras__mat(dread, dv), m, dv,
              q->count, k->pack);
  }
  if (k->p->value_decay) {
    const size_t at = q->left * dv, by = q->step * dv;
    miras__channels c = miras__exact_channels(k, dv, k->u, k->r.beta, k->open.u[0]);
    const miras__channel_grads g = {k->du[1], NULL, k->d.beta, NULL, NULL, k->du[0]};
    c.q = dread;
    c.p = k->dscore[0] + q->row * N;
    K->channel_rows(K, &c, NULL, 0, 0, m);
    c.p = k->score[0] + q->row * N;
    K->channel_bwd(&c, &g, m, k->history);
    K->copy(k->du[0], k->du[1], m * dv);
    K->muladd_rows(k->dcv + at, by, dread, dv, k->raw, dv, q->count, dv);
    K->mul_rows(dread, dv, dread, dv, k->cv + at, by, q->count, dv);
    K->channel_decay_bwd(K, k->d.beta, k->dcv + dv, k->cv + dv, k->r.beta, m, dv);
  }
}

/* What the stack reads of S_0, with what is left of it, and its scores against the rows of the
 * block. One number of every row scales what was read, one per feature what reads (zc). */
static void miras__exact_reach(miras__block *k) {
  const miras__kernels *K = k->K;
  const int per = k->p->per_feature;
  const size_t n = k->p->features, dv = (size_t)k->p->d.value_dim;
  const miras__readers *g, *q = &k->by[1];
  const float *z = per ? k->zc : k->z;
  float *read = k->read + q->row * dv;
  size_t s;
  for (s = 0; s < k->p->streams; s++) miras__exact_scores(k, s);
  if (!k->stack) return;
  for (g = k->by; per && g < k->by + 2; g++)
    miras__gate(K, 1, k->zc + g->row * n, k->c + g->left * n, g->step * n, k->z + g->row * n,
                g->count, n);
  K->gemm(MIRAS__SET, k->read, dv, miras__mat(z, n), miras__mat(k->s0, dv), k->stack, dv, n,
          k->pack);
  for (g = k->by; !per && g < k->by + 2; g++)
    miras__gate(K, 0, k->read + g->row * dv, k->c + g->left, g->step, k->read + g->row * dv,
                g->count, dv);
  if (k->p->d.normalise) {
    K->dot_rows(0, k->den, 1, z + q->row * n, n, k->s0 + n * dv, 0, q->count, n);
    if (!per) miras__gate(K, 1, k->den, k->c + q->left, q->step, k->den, q->count, 1);
  }
  if (!k->p->value_decay) return;
  if (MIRAS__TRAINS && k->backward) K->copy_rows(k->raw, dv, read, dv, q->count, dv);
  miras__gate(K, 1, read, k->cv + q->left * dv, q->step * dv, read, q->count, dv);
}

/* What the stack reads of B is added to read, and to den. */
static void miras__exact_home(miras__block *k) {
  const size_t n = k->p->features, dv = (size_t)k->p->d.value_dim;
  const miras__readers *q = &k->by[1];
  if (!k->base || !k->stack) return;
  miras__product(k->K, k->pack, MIRAS__ADD, k->read, k->z, k->base, k->stack, dv, n);
  if (k->p->d.normalise)
    k->K->dot_rows(1, k->den, 1, k->z + q->row * n, n, k->base + n * dv, 0, q->count, n);
}

/* The adjoint of both: with dM = dread u' (lower) the cotangents of scores,
 *   S_0        dz = c (.) dread S_0',  dc = z (.) (dread S_0'),  dS += (c (.) z)' dread
 *   B          dB += z' dread,  dz += dread B', with dread as it was before a value gate: dy
 * and the normaliser's column likewise, with dden in the place of dread. */
static void miras__exact_reach_bwd(miras__block *k, float *dbase, const float *dy, size_t lddy) {
  const miras__kernels *K = k->K;
  const miras__plan *p = k->p;
  const size_t n = p->features, dv = (size_t)p->d.value_dim, N = k->ld, m = k->m, all = k->stack;
  const size_t per = p->per_feature ? n : 1;
  const miras__readers *g, *q = &k->by[1];
  float *dq = k->dz + q->row * n;
  size_t s;
  for (s = 0; s < p->streams && !p->value_decay; s++)
    K->gemm(MIRAS__SET, k->dscore[s], N, miras__mat(k->dread, dv), miras__turned(k->open.u[s], dv),
            all, m, dv, k->pack);
  miras__product(K, k->pack, MIRAS__SET | MIRAS__NT, k->dz, k->dread, k->s0, all, n, dv);
  if (p->d.normalise) {
    K->axpy_rows(k->dscore[0] + q->row * N, N, 1, k->dden, 1, k->r.eta, 0, q->count, m);
    K->axpy_rows(dq, n, 1, k->dden, 1, k->s0 + n * dv, 0, q->count, n);
  }
  for (g = k->by; g < k->by + 2; g++) {
    const float *c = k->c + g->left * per, *z = k->z + g->row * n;
    const size_t ld = g->step * per;
    float *dz = k->dz + g->row * n;
    if (k->dc) miras__gate_bwd(K, p->per_feature, k->dc + g->left * per, ld, dz, z, g->count, n);
    if (!p->per_feature) miras__gate(K, 0, k->zc + g->row * n, c, ld, z, g->count, n);
    miras__gate(K, p->per_feature, dz, c, ld, dz, g->count, n);
  }
  miras__product(K, k->pack, MIRAS__ADD | MIRAS__TN, k->ds, k->zc, k->dread, n, dv, all);
  if (p->d.normalise)
    K->axpy_rows(k->ds + n * dv, 0, 1, k->dden, 1, k->zc + q->row * n, n, q->count, n);
  if (p->pulls) {
    const float *dread = p->value_decay ? dy : k->dread;
    const size_t ld = p->value_decay ? lddy : dv;
    K->gemm(MIRAS__ADD, dbase, dv, miras__turned(k->z, n), miras__mat(dread, ld), n, dv, all,
            k->pack);
    if (k->base)
      K->gemm(MIRAS__ADD, k->dz, n, miras__mat(dread, ld), miras__turned(k->base, dv), all, n, dv,
              k->pack);
    if (p->d.normalise) {
      K->axpy_rows(dbase + n * dv, 0, 1, k->dden, 1, k->z + q->row * n, n, q->count, n);
      if (k->base) K->axpy_rows(dq, n, 1, k->dden, 1, k->base + n * dv, 0, q->count, n);
    }
  }
  for (s = 0; s < p->streams; s++) miras__exact_scores_bwd(k, s);
}

/* Everything of m rows from row r0 of a block on; t is the call's token of the first. Leaves in
 * k->open the rows and coefficients up to r0+m, in k->read the errors and what queries read. */
static void miras__exact_rows(miras__block *k, const miras__head_io *io, size_t t, size_t r0,
                              size_t m) {
  const miras__kernels *K = k->K;
  const miras__plan *p = k->p;
  const size_t descents = (size_t)p->d.descents, n = p->features;
  const miras__readers *q = &k->by[1];
  miras__exact_stack(k, r0, m, io->q ? m / descents : 0);
  miras__rows_fwd(K, p, io, t * descents, m, &k->r);
  if (q->count) miras__rows_queries(K, p, io, t, q->count, k->r.q, n);
  miras__exact_left(k);
  if (p->d.normalise) K->copy(k->open.eta + r0, k->r.eta, m);
  miras__exact_reach(k);
  miras__exact_home(k);
  miras__exact_pairs(k);
  miras__exact_mix(k);
  if (!p->d.normalise || !q->count) return;
  K->normaliser(K, k->den, k->score[0] + q->row * k->ld, k->ld, k->open.eta, q->count, q->seen,
                q->step);
  K->invert(k->den, q->count);
}

/* s [weights]: from S_0 to the state after the block's `rows` rows, in place. */
static void miras__exact_fold(miras__block *k, float *s, size_t rows) {
  const miras__kernels *K = k->K;
  const miras__plan *p = k->p;
  const size_t n = p->features, dv = (size_t)p->d.value_dim, ld_c = (size_t)p->per_feature;
  const miras__open *o = &k->open;
  const float *x[4], *u[4], *rows_of[2];
  size_t i, j, r;
  for (j = 0; j < p->streams; j++)
    rows_of[j] = miras__exact_carry(k, j, rows, k->zc + j * rows * n,
                                    p->d.normalise ? s + n * dv : NULL);
  if (rows <= 2 && !p->value_decay) {              /* one pass over the state for a few pairs */
    for (j = i = 0; j < p->streams; j++) {
      for (r = 0; r < rows; r++, i++) x[i] = rows_of[j] + r * n, u[i] = o->u[j] + r * dv;
    }
    K->fold_few(i, s, o->c, ld_c, x, u, n, dv);
    return;
  }
  K->scale_rows(s, dv, 1, o->c, ld_c, s, dv, n, dv);
  if (p->value_decay) K->mul_rows(s, dv, s, dv, o->cv, 0, n, dv);
  for (j = 0; j < p->streams; j++)
    miras__product(K, k->pack, MIRAS__ADD | MIRAS__TN, s, rows_of[j], o->u[j], n, dv, rows);
}

/* From the cotangent of the state after the block to those of its rows, of its coefficients and, in
 * place, of S_0:
 *   du_j = (L_mj x_j) dS,  dlast_j = dS u_j = cotangent of L_mj x_j,  dc_m = rows of <S_0, dS> */
static void miras__exact_fold_bwd(miras__block *k) {
  const miras__kernels *K = k->K;
  const miras__plan *p = k->p;
  const size_t n = p->features, dv = (size_t)p->d.value_dim, m = k->m;
  const size_t per = p->per_feature ? n : 1;
  const float *column = k->ds + n * dv;
  size_t s;
  for (s = 0; s < p->streams; s++) {
    const float *x = miras__exact_carry(k, s, m, k->zc, NULL);
    miras__product(K, k->pack, MIRAS__SET, k->du[s], x, k->ds, m, dv, n);
    miras__product(K, k->pack, MIRAS__SET | MIRAS__NT, k->dlast[s], k->open.u[s], k->ds, m, n, dv);
    if (p->d.normalise) {
      K->dot_rows(1, k->d.eta, 1, x, n, column, 0, m, n);
      K->axpy_rows(k->dlast[s], n, 1, k->r.eta, 1, column, 0, m, n);
    }
    if (p->per_feature) continue;                /* room @28 takes dlast along with the scores */
    if (k->dl) K->dot_rows(1, k->dl + m * k->ld, 1, k->x[s], n, k->dlast[s], n, m, n);
    K->axpy_rows(k->dx[s], n, 1, k->open.l, 1, k->dlast[s], n, m, n);
  }
  K->left_bwd(k->ds, k->dc ? k->dc + m * per : NULL, p->value_decay ? k->dcv + m * dv : NULL,
              k->s0, k->c + m * per, (size_t)p->per_feature,
              p->value_decay ? k->cv + m * dv : NULL, p->d.normalise, n, dv);
}

/* The block closes: s [weights] becomes the state after its rows, from F where there is a B. */
static void miras__exact_close(miras__block *k, float *s, size_t rows) {
  const size_t all = k->p->weights;
  miras__exact_fold(k, k->base ? k->f : s, rows);
  if (!k->base) return;
  k->K->copy(s, k->f, all);
  k->K->add(s, k->base, all);
}

/* out [dv] = x S and den = x . z of a state without an open block. One row packs nothing. */
static void miras__exact_read(const miras__kernels *K, const miras__plan *p, const float *s,
                              const float *x, float *out, float *den) {
  const size_t n = p->features, dv = (size_t)p->d.value_dim;
  K->gemm(MIRAS__SET, out, dv, miras__mat(x, n), miras__mat(s, dv), 1, dv, n, out);
  if (!p->d.normalise) return;
  K->dot_rows(0, den, 1, x, n, s + n * dv, n, 1, n);
  K->normaliser(K, den, x, n, x, 1, 0, 0);
}

/* What a single row in k->z reads of the state after `rows` rows of an open block, in k->read and
 * k->den; of F, where there is a B. */
static void miras__exact_look(const miras__block *k, size_t rows) {
  miras__block look;
  if (!rows) {
    miras__exact_read(k->K, k->p, k->s0, k->z, k->read, k->den);
    return;
  }
  look = *k;
  look.c = k->open.c;
  look.l = k->open.l;
  look.cv = k->open.cv;
  miras__exact_stack(&look, rows, 0, 1);
  miras__exact_reach(&look);
  miras__exact_mix(&look);
  if (k->p->d.normalise)
    k->K->normaliser(k->K, k->den, k->score[0], k->ld, k->open.eta, 1, rows, 0);
}

/* The bias of token t at R before it is written, -(R'x).v or 1/2 |R'x - v|^2, where rows do not
 * read that themselves. The square has no B here: nothing asks a separate erase for it. */
static void miras__exact_surprise(miras__block *k, const miras__head_io *io, size_t t,
                                  size_t rows) {
  const miras__kernels *K = k->K;
  const size_t n = k->p->features, dv = (size_t)k->p->d.value_dim;
  const float *v = k->r.v;
  float *to = io->surprise + t;
  miras__rows_surprise(K, k->p, io, t, k->zc, k->z, k->r.v);
  if (k->base)                                   /* what decay first leaves alone */
    miras__product(K, k->pack, MIRAS__SET, k->row, k->zc, k->base, 1, dv, n);
  miras__exact_look(k, rows);
  if (k->p->square) K->sub(k->read, k->read, v, dv), v = k->read;
  K->dot_rows(0, to, 1, k->read, dv, v, dv, 1, dv);
  if (k->base) K->dot_rows(1, to, 1, k->row, dv, v, dv, 1, dv);
  K->scale(to, k->p->square ? 0.5f : -1, to, 1);
}

/* One token at a time. The kernel's runs end where a state is kept on the tape or swept. */
static void miras__linear_forward(const miras__call *a) {
  const miras__kernels *K = a->K;
  const miras__plan *p = a->p;
  const size_t length = (size_t)a->io->length, per = (size_t)p->tape_tokens;
  const float *base = p->pulls && K->any(a->init, p->weights) ? a->init : NULL;
  size_t t, end;
  for (t = 0; t < length; t = end) {
    end = t + MIRAS__SWEEP - (size_t)((a->position + (uint64_t)t) % MIRAS__SWEEP);
    if (MIRAS__TRAINS && a->tape && end > t + per - t % per) end = t + per - t % per;
    if (end > length) end = length;
    if (MIRAS__TRAINS && a->tape && t % per == 0)
      K->copy(a->tape + t / per * p->tape_chunk, a->state, p->weights);
    K->linear_run(p, a->io, base, a->state, a->scratch, t, end);
    if ((a->position + (uint64_t)end) % MIRAS__SWEEP) continue;
    K->flush(a->state, a->state, p->weights);
  }
}

static void miras__exact_forward(const miras__call *a) {
  const miras__kernels *K = a->K;
  const miras__plan *p = a->p;
  const miras__head_io *io = a->io;
  const size_t chunk = (size_t)p->d.chunk, descents = (size_t)p->d.descents;
  const size_t length = (size_t)io->length;
  const size_t dv = (size_t)p->d.value_dim, per = (size_t)p->tape_tokens;
  const int alone = io->surprise && (!p->delta || p->streams > 1);
  miras__block work, *k = &work;
  size_t t, m;
  if (a->position == 0 && length) K->copy(a->state, a->init, p->weights);
  if (p->fused) {
    miras__linear_forward(a);
    return;
  }
  miras__exact_open(a, chunk * descents, 0, k);
  for (t = 0; t < length; t += m) {
    const size_t r0 = (size_t)((a->position + t) % chunk);
    const float *answers;
    m = chunk - r0 < length - t ? chunk - r0 : length - t;
    if (alone) m = 1;
    if (MIRAS__TRAINS && a->tape && t % per == 0)
      K->copy(a->tape + t / per * p->tape_chunk, a->state, p->weights);
    if (!t || !r0) miras__exact_start(k, a->state);
    if (alone) miras__exact_surprise(k, io, t, r0 * descents);
    miras__exact_rows(k, io, t, r0 * descents, m * descents);
    if (io->surprise && !alone) {                /* of a token's first pair */
      K->dot_rows(0, io->surprise + t, 1, k->read, descents * dv, k->read, descents * dv, m, dv);
      K->scale(io->surprise + t, 0.5f, io->surprise + t, m);
    }
    answers = k->read + k->by[1].row * dv;
    if (io->q && p->d.normalise)
      K->scale_rows(io->y + t * io->ldy, io->ldy, 1, k->den, 1, answers, dv, m, dv);
    else if (io->q)
      K->copy_rows(io->y + t * io->ldy, io->ldy, answers, dv, m, dv);
    if (r0 + m < chunk) continue;
    miras__exact_close(k, a->state, chunk * descents);
    if (miras__sweeps(&p->d, a->position + (uint64_t)(t + m)))
      K->flush(a->state, a->state, p->weights);
  }
}

/* dread from dy; of normalised answers y = read / den also dden = -dy . read / den^2. */
static void miras__exact_answers_bwd(miras__block *k, const float *dy, size_t lddy) {
  const miras__kernels *K = k->K;
  const size_t dv = (size_t)k->p->d.value_dim;
  const miras__readers *q = &k->by[1];
  float *dread = k->dread + q->row * dv;
  if (!k->p->d.normalise) {
    K->copy_rows(dread, dv, dy, lddy, q->count, dv);
    return;
  }
  K->scale_rows(dread, dv, 1, k->den, 1, dy, lddy, q->count, dv);
  K->dot_rows(0, k->dden, 1, dy, lddy, k->read + q->row * dv, dv, q->count, dv);
  K->mul(k->den, k->den, k->den, q->count);
  K->mul(k->dden, k->dden, k->den, q->count);
  K->scale(k->dden, -1, k->dden, q->count);
  K->normaliser_bwd(K, k->d.eta, k->dden, k->score[0] + q->row * k->ld, k->ld, q->count, q->seen,
                    q->step);
}

/* Adjoint of exact_forward, from the last block of the tape to the first; ds is the cotangent of
 * the state after the block. A block is computed again, then undone, what came last first. Towards
 * B all is done with F_0 for S_0: dS passes S_m = B + F_m and F_0 = S_0 - B unchanged, and with
 * dS_m, dS_0 for it at the block's end and start, dB += dS_m - dS_0 besides what rows read of it.
 * The differences of a call's blocks add up to the last dS less the first, and the first comes back
 * at position 0, where S_0 = B. */
static void miras__exact_backward(const miras__call *a) {
  const miras__kernels *K = a->K;
  const miras__plan *p = a->p;
  const miras__head_io *io = a->io;
  const size_t n = p->features, descents = (size_t)p->d.descents, per = (size_t)p->tape_tokens;
  const size_t length = (size_t)io->length;
  size_t block = (length + per - 1) / per;
  miras__block work, *k = &work;
  const miras__readers *q = &k->by[1];
  miras__exact_open(a, per * descents, 1, k);
  if (!p->per_feature && !a->g->keep) k->dl = k->dc = NULL;
  if (a->dstate) K->copy(k->ds, a->dstate, p->weights);
  else K->fill(k->ds, 0, p->weights);
  if (p->pulls && a->dstate) K->add(a->dinit, k->ds, p->weights);
  for (k->live = a->dstate != NULL; block-- > 0; k->live = 1) {
    const size_t t = block * per, reads = length - t < per ? length - t : per, m = reads * descents;
    const float *dy = a->dy + t * a->lddy;
    miras__exact_start(k, a->tape + block * p->tape_chunk);
    miras__exact_rows(k, io, t, 0, m);
    K->fill(k->dx[0], 0, (size_t)(k->dlast[0] - k->dx[0]));
    miras__exact_answers_bwd(k, dy, a->lddy);
    if (k->live) miras__exact_fold_bwd(k);
    miras__exact_mix_bwd(k);
    miras__exact_pairs_bwd(k);
    miras__exact_reach_bwd(k, a->dinit, dy, a->lddy);
    miras__exact_left_bwd(k);
    if (p->delta && p->streams == 1) K->add_rows(k->dx[0], n, k->dz, n, m, n);
    miras__rows_bwd(K, p, io, a->g, t * descents, m, &k->r, &k->d, k->row);
    miras__rows_queries_bwd(K, p, io, a->g, t, reads, k->dz + q->row * n, k->r.q, n);
  }
  if (a->position && p->pulls) K->axpy(a->dinit, -1, k->ds, p->weights);
  if (a->position == 0) {
    if (!p->pulls) K->add(a->dinit, k->ds, p->weights);
    K->fill(k->ds, 0, p->weights);
  }
  if (a->dstate) K->copy(a->dstate, k->ds, p->weights);
}

/* One read between tokens. */
static void miras__exact_read_at(const miras__call *a, const float *q, float *o) {
  const miras__kernels *K = a->K;
  const miras__plan *p = a->p;
  const size_t chunk = (size_t)p->d.chunk, descents = (size_t)p->d.descents;
  const size_t dk = (size_t)p->d.key_dim;
  const size_t dv = (size_t)p->d.value_dim, rows = (size_t)(a->position % chunk) * descents;
  const float *s = a->position ? a->state : a->init;
  float *x = a->scratch, *den = x + miras__pad(p->features);
  miras__block work, *k = &work;
  if (rows) {
    miras__exact_open(a, chunk * descents, 0, k);
    miras__exact_start(k, s);
    x = k->z;
    den = k->den;
    k->read = o;
    K->feature_rows(p->map, x, 0, q, 0, 1, dk);
    miras__exact_look(k, rows);
    miras__exact_stack(k, rows, 0, 1);
    miras__exact_home(k);
  } else {                                       /* S says it all */
    K->feature_rows(p->map, x, 0, q, 0, 1, dk);
    miras__exact_read(K, p, s, x, o, den);
  }
  if (!p->d.normalise) return;
  K->invert(den, 1);
  K->scale_rows(o, dv, 1, den, 1, o, dv, 1, dv);
}

/* w [weights]: the state after the open block's rows. */
static void miras__exact_live(const miras__call *a, float *w) {
  const size_t chunk = (size_t)a->p->d.chunk, descents = (size_t)a->p->d.descents;
  const size_t rows = (size_t)(a->position % chunk) * descents;
  miras__block work;
  a->K->copy(w, a->state, a->p->weights);
  miras__exact_open(a, chunk * descents, 0, &work);
  miras__exact_start(&work, a->state);
  miras__exact_stack(&work, rows, 0, 0);
  miras__exact_close(&work, w, rows);
}

/* Nothing is left of the open block's rows: S is all there is. */
static void miras__exact_clear(const miras__call *a) {
  const miras__plan *p = a->p;
  const size_t chunk = (size_t)p->d.chunk;
  miras__block work;
  if (chunk == 1) return;
  miras__exact_open(a, chunk * (size_t)p->d.descents, 0, &work);
  a->K->fill(a->state + p->at_open, 0, p->head_state - p->at_open);
  a->K->fill(work.open.c, 1, p->per_feature ? p->features : 1);
  if (p->value_decay) a->K->fill(work.open.cv, 1, (size_t)p->d.value_dim);
}

/* @51 FROZEN-GRADIENT ENGINE ---------------------------------- needs 14 23 24 27 28 41 42 45 -- */

/* Inside a chunk of C tokens every gradient is taken at the weights W_0 of the chunk's start. The
 * gradient of token j is rank one in every layer, y_j d_j', so with the per-token gates
 *   S_t = theta_t S_(t-1) - eta_t g_t,   A_t = alpha_t A_(t-1) + S_t
 * the dual state is, with t counted inside the chunk from 1,
 *   A_t = a_t A_0 + f_t S_0 - sum_(j<=t) G_tj y_j d_j'     S_t = h_t S_0 - sum_(j<=t) N_tj y_j d_j'
 *   towards the initial dual state B, A_t = B + alpha_t (A_(t-1) - B) + S_t: A_t gains (1 - a_t) B
 *   N_tt = eta_t, N_tj = theta_t N_(t-1)j     G_tt = N_tt, G_tj = alpha_t G_(t-1)j + N_tj
 *   a_t = alpha_t a_(t-1)     h_t = theta_t h_(t-1)     f_t = alpha_t f_(t-1) + h_t
 * computed by recursion, so that gates of exactly 0 and 1 need no care. Reads never form A_t:
 *   x A_t = a_t x A_0 [+ (1 - a_t) x B] + f_t x S_0 - sum_(j<=t) G_tj (x . y_j) d_j
 * With row_rates G_tj = rate_t N_tj and theta = 1 in N; a decay then acts on what the chunk found.
 * With several descents per token, t counts pairs: a chunk has C * descents of them. S_t and A_t
 * are those of a token whose step is the sum over its descents: alpha and theta act before the
 * first, and the others add to both, N_tj = N_(t-1)j, G_tj = G_(t-1)j, h_t = h_(t-1), f_t =
 * f_(t-1). delta is the token's at each, and a token reads after its last. Chunk 1 stays the
 * recurrence: the anchor moves after every descent. Under L2 both each descent has the alpha of its
 * own step.
 *
 * With gates per channel (no momentum) the channels are the outputs of the last layer and, where
 * there are more, the inputs of the first: a, alpha, eta and G_tj are vectors there, in
 *   last:   x A_t = a_t (.) (x A_0) - sum_j (x . y_j) (G_tj (.) d_j)   [+ (1 - a_t) (.) (x B)]
 *   first:  x A_t = (a_t (.) x) A_0 - sum_j (x . (G_tj (.) y_j)) d_j   [+ ((1 - a_t) (.) x) B]
 * Room @28 has the sums. The rows G_tj (.) d_j and G_tj (.) y_j of the newest t are the state; new
 * rows enter them when their reads are done.
 * The link is applied when the chunk closes, before its closing token reads; the other tokens of a
 * chunk read along A_t (no link, elastic nets before their threshold), along A_t inv (LQ), or at
 * the anchor (other links).
 *
 * What else closing does, from A_C to W_C:
 *   elastic net    A_C <- shrink(A_C; gamma), gamma = sparsity sum_j G_Cj; towards B, A_C - B is
 *                  shrunk
 *   f-divergence   A holds W. The chunk's steps sum to U = sum_j G_Cj y_j d_j', and W_C is their
 *                  step (room @27) from W_0; towards B, with W_B = c softmax(B), from
 *                  a_C W_0 + (1 - a_C) W_B, and only then there is a decay
 *   Memora         (KL, chunk > 1, eq. 30-32) A holds W. The first token of a chunk is a chunk of
 *                  its own: W_1 = c softmax(alpha_1 log max(W_0, 1e-8) [+ (1 - alpha_1) B] -
 *                  eta_1 g(W_0)). The others are linear in W with their gradients at W_1, and with
 *                  W_B for B; nothing happens when they close.
 *
 * A bounded step is eta' = s eta, one s for each pair:
 *   s = e.r / (e.r + c Q),  Q = sum over all weights of J eta g^2,  c = max(p - 1, 1) of L_p or 1
 * Its own write moves the answer by -eta' Q/(eta |e|) along e, to first order, so it never goes
 * beyond what is nearest to the value on its line; c is how much faster than the error its slope
 * grows. J is how far weights move with A (room @27). With y_j d_j' in each layer
 *   Q_j = sum_l Q_lj,  Q_lj = (y_lj^2) (J_l (.) eta) (d_lj^2)'; for a number J = lambda it is
 *   eta lambda |y_lj|^2 |d_lj|^2
 * and 1e-20 is added to both e.r, so that a perfect answer divides nothing by nothing.
 * Layers move together, and what one adds the next multiplies: an error a hundred times as large as
 * the answer would overshoot by its square. bounded_step = 2 therefore also holds what the layers
 * below the last one say, Q_lj/|d_lj| for a step of 1, near what the layer above now hears, y:
 *   s = e.r / (e.r (1 + F/4) + c Q),  F_j = sum_(l below the last) Q_lj / (|d_lj| |y_(fed by l)j|)
 * (with the 1 of an inner bias), so that s F < 4: no write adds to them more than about four times
 * what they were, and a memory grows to values of any size in a few writes per digit.
 *
 * Every row's result is a chain of operations that does not depend on how many rows are computed in
 * one go, so any split of a sequence into calls gives the same bits. */

/* A piece of a sequence whose pairs share an anchor, and its scratch. Both directions fill it by
 * miras__piece and run it by miras__piece_run. b's are cotangents. */
typedef struct miras__chunk {
  /* the call */
  const miras__call *call;
  const miras__kernels *K;
  const miras__plan *p;
  size_t wide;             /* numbers of a gate of a pair: 1, or one per channel                 */
  const float *b;          /* the initial dual state, where decays lead there, ...               */
  float *wb;               /* ... and its weights, where the state holds them                    */
  /* the piece */
  const miras__retention *rule;
  size_t t, r0, m;         /* its first pair in the call, that one's row in the chunk, how many  */
  size_t first, token, reads;   /* pairs before the first that a read follows, its token, reads  */
  int ends, closing;       /* it closes; a last read comes after that                            */
  float *a, *w, *s;        /* A_0, W_0, S_0 (or NULL)                                            */
  const float *home;       /* where the recursion leads, or NULL for nothing                     */
  float *bhome;
  float *y[4], *d[4];      /* the chunk's pairs; what carries channels times its G               */
  float *live_y, *live_d;  /* gates per channel: those of them that carry channels, or NULL      */
  float *last_g, *last_n, *last_a, *scalars;   /* coefficients of the row before r0              */
  /* scratch */
  float *kq[4], *pq;       /* [C, C] x y', G (.) x y'                                            */
  float *g, *n, *ca, *cf, *ch, *rate, *slope;  /* coefficients; of row_rates                     */
  float *left, *line;      /* rows of 1 - a; room [C]                                            */
  float *inv;              /* N^(2-q) of a link                                                  */
  float *u, *mix;          /* a sum apart; what decays have made of W_0                          */
  float *along, *spent, *strain, *share, *metric;   /* bounded steps: e.r, Q, F, eta'/eta, J     */
  float *new_y, *new_d;    /* new rows where what carries channels is kept times its G           */
  /* backward only */
  float *state;            /* like a head's, but with cotangents where that has A and S          */
  float *wc, *ac;          /* W_C, A_C                                                           */
  float *bw, *bwc, *bwb;   /* of W_0, W_C, W_B                                                   */
  float *dz, *dx2, *dz2;   /* of z, and of x and z of the second half of a gated layer           */
  float *bg, *bn, *bp, *ba, *bf, *bh, *binv, *bmetric;
  float *live, *blive_y, *blive_d, *mixed, *history;   /* gates per channel                      */
  /* parts */
  miras__head_io io;       /* y: unused; ldy: between answers                                    */
  miras__net net;
  miras__rows rows, brows; /* the new pairs as tokens in normal form                             */
  miras__pass query;
} miras__chunk;

/* Its arrays and their floats: n = C pairs of a chunk, wide = n numbers or one per channel, all =
 * P, tile [C, widest]; and where there are any: mine = P of a sum apart, own = P of a J of its own,
 * held = P where W_B is kept, two = tile of a gated layer, bounded = n, channels = n with gates per
 * channel. From bg to the last bd a piece starts at zero. */
#define MIRAS__CHUNK_ARRAYS(X)                                                                    \
  X(net.pack, room_to_pack) X(net.r, n * dv) X(net.e, n * dv) X(net.loss, n) X(net.v, n * dv)     \
  X(net.delta, n * p->bounds) X(net.t1, tile) X(net.pairs.xh, n * dv) X(net.pairs.rstd, n)        \
  X(query.xh, n * dv) X(query.rstd, n) X(rows.alpha, wide) X(rows.eta, wide) X(rows.theta, n)     \
  X(rate, n) X(slope, n) X(g, n * n) X(n, n * n) X(ca, wide) X(cf, n) X(ch, n) X(pq, n * n)       \
  X(left, wide) X(line, n) X(inv, 4) X(u, mine) X(mix, mine ? held : 0) X(along, bounded)         \
  X(spent, bounded) X(strain, bounded) X(share, bounded) X(metric, own)                           \
  X(new_y, channels * (size_t)p->in[0]) X(new_d, channels * dv)
#define MIRAS__CHUNK_LAYER(X)                                                                     \
  X(net.pairs.z, out) X(net.back, out) X(query.z, out) X(query.x, in) X(kq, in ? n * n : 0)
#define MIRAS__CHUNK_ARRAYS_BWD(X)                                                                \
  X(state, state) X(net.bv, n * dv) X(net.bdelta, n * p->bounds) X(net.bkey, n * dv)              \
  X(net.t2, tile) X(net.t3, tile) X(net.row, 2 * most) X(brows.theta, n) X(wc, all) X(ac, all)    \
  X(dz, tile) X(dx2, two) X(dz2, two) X(bp, n * n) X(bw, all) X(bwc, all) X(bwb, held)            \
  X(bmetric, bounded && p->init_mapped ? all : 0) X(live, channels * dv) X(mixed, channels * dv)  \
  X(history, 16 * channels) X(bg, n * n) X(bn, n * n) X(ba, wide) X(bf, n) X(bh, n) X(binv, 4)    \
  X(blive_y, channels * (size_t)p->in[0]) X(blive_d, channels * dv) X(brows.alpha, wide)          \
  X(brows.eta, wide)
#define MIRAS__CHUNK_LAYER_BWD(X) X(net.bz, out) X(net.bx, in) X(net.bd, out)

#define MIRAS_X(name, floats) + 1
enum {
  MIRAS__ONCE = 0 MIRAS__CHUNK_ARRAYS(MIRAS_X), MIRAS__EACH = 0 MIRAS__CHUNK_LAYER(MIRAS_X),
  MIRAS__ONCE_BWD = 0 MIRAS__CHUNK_ARRAYS_BWD(MIRAS_X),
  MIRAS__EACH_BWD = 0 MIRAS__CHUNK_LAYER_BWD(MIRAS_X)
};
#undef MIRAS_X
typedef char miras__chunk_fits[                        /* into plan.at                           */
  MIRAS__ONCE + MIRAS__ONCE_BWD + 4 * (MIRAS__EACH + MIRAS__EACH_BWD) <= MIRAS__ARRAYS ? 1 : -1];

#define MIRAS_X(name, floats) (uint16_t)offsetof(miras__chunk, name),
static const uint16_t miras__chunk_arrays[] = {
  MIRAS__CHUNK_ARRAYS(MIRAS_X) MIRAS__CHUNK_LAYER(MIRAS_X)
  MIRAS__CHUNK_ARRAYS_BWD(MIRAS_X) MIRAS__CHUNK_LAYER_BWD(MIRAS_X)
};
#undef MIRAS_X

/* Offsets of scratch, and how many floats; what only the adjoint needs is last. Layers that share
 * their input share what belongs to it. state: floats of a head's. */
static void miras__chunk_offsets(miras__plan *p, size_t state) {
  const miras__retention *rule = &miras__retentions[p->rule];
  const size_t n = p->span, dv = (size_t)p->d.value_dim, wide = n * p->rates, all = p->weights;
  const size_t most = (size_t)p->widest > n ? (size_t)p->widest : n, tile = n * (size_t)p->widest;
  const size_t two = p->layers > 1 && p->from[1] == 0 ? tile : 0, channels = p->channel ? n : 0;
  const size_t bounded = p->d.bounded_step ? n : 0, held = p->holds ? all : 0;
  const size_t mine = rule->sum == MIRAS__SUM_APART ? all : 0;
  const size_t own = rule->metric == MIRAS__J_OWN ? all : 0;
  /* with chunks this short gemm packs no more than one panel of 64 columns, 128 deep (room @24) */
  const size_t room_to_pack = n >= 16 ? MIRAS__PACK : 64 * (most < 128 ? most : 128);
  size_t *at = p->at, *back;
  int l;
#define MIRAS_X(name, floats) *at++ = floats;
  MIRAS__CHUNK_ARRAYS(MIRAS_X)
  for (l = 0; l < p->layers; l++) {
    const size_t in = p->from[l] == l ? n * (size_t)p->in[l] : 0, out = n * (size_t)p->out[l];
    MIRAS__CHUNK_LAYER(MIRAS_X)
  }
  p->scratch = p->scratch_backward = miras__lie(p->at, at, 0);
  if (!MIRAS__TRAINS) return;
  back = at;
  MIRAS__CHUNK_ARRAYS_BWD(MIRAS_X)
  for (l = 0; l < p->layers; l++) {
    const size_t in = p->from[l] == l ? n * (size_t)p->in[l] : 0, out = n * (size_t)p->out[l];
    MIRAS__CHUNK_LAYER_BWD(MIRAS_X)
  }
  p->scratch_backward = miras__lie(back, at, p->scratch);
#undef MIRAS_X
}

/* Arrays of a call, then those of each layer. */
static const size_t *miras__chunk_place(miras__chunk *c, const uint16_t *to, size_t once,
                                        size_t each, const size_t *at) {
  float *base = c->call->scratch;
  int l;
  miras__addresses(c, to, once, base, at);
  at += once;
  for (l = 0; l < c->p->layers; l++, at += each)
    miras__addresses((float **)c + l, to + once, each, base, at);
  return at;
}

/* Its part of the plan: where the state of a head has what (at_s: with momentum only), the sizes of
 * tape and scratch. Returns the floats of a state. */
static MIRAS__COLD size_t miras__frozen_plan(miras__plan *p) {
  const miras_desc *d = &p->d;
  size_t c = p->span, pad = miras__pad(p->weights), state = pad;
  int l;
  miras__retention_plan(p);
  p->growth = miras__bias_growth(d);
  if (p->stores_link) p->at_w = state, state += pad;
  if (p->head_dstate > p->weights) p->at_s = state, state += pad;   /* of S too */
  p->split = p->weights;
  p->second = p->at_s;
  if (p->holds) p->at_home = state, state += pad;
  p->at_open = state;
  for (l = 0; l < p->layers; l++) {
    p->at_y[l] = p->at_y[p->from[l]];
    if (p->from[l] == l) p->at_y[l] = state, state += miras__pad(c * (size_t)p->in[l]);
    p->at_d[l] = state, state += miras__pad(c * (size_t)p->out[l]);
  }
  p->at_g = state, state += miras__pad(c);
  p->at_n = state, state += miras__pad(c);
  p->at_a = state;
  if (p->channel) state += miras__pad((size_t)d->value_dim);
  p->at_scalars = state, state += 16;
  p->tape_state = p->head_dstate;
  p->tape_chunk = p->tape_state * ((size_t)d->chunk * (size_t)d->descents / c);
  p->tape_tokens = d->chunk;
  miras__chunk_offsets(p, state);
  return state;
}

/* What the channels of a gate are in layer l: 0 there are none, 1 its inputs, 2 its outputs. */
#define MIRAS__BY(p, l) (!(p)->channel ? 0 : (l) < (p)->layers - 1 ? 1 : 2)

/* to = a (.) to [+ (1 - a) (.) home] over a layer, a of row `row`; arrays of all layers. */
static void miras__layer_fade(const miras__chunk *c, int l, float *to, const float *home,
                              size_t row) {
  const miras__plan *p = c->p;
  const size_t at = p->offset[l];
  c->K->fade(MIRAS__BY(p, l), to + at, c->ca + row * c->wide, miras__at(home, at),
             (size_t)p->in[l], (size_t)p->out[l]);
}

/* Its adjoint, from = what `to` was: b becomes its cotangent, bhome += */
static void miras__layer_fade_bwd(const miras__chunk *c, int l, float *b, const float *from,
                                  const float *home, float *bhome, size_t row) {
  const miras__plan *p = c->p;
  const size_t at = p->offset[l], a = row * c->wide;
  c->K->fade_bwd(MIRAS__BY(p, l), b + at, c->ba + a, home ? bhome + at : NULL, c->ca + a, from + at,
                 miras__at(home, at), c->net.row, (size_t)p->in[l], (size_t)p->out[l]);
}

/* The link between A_0 and the anchor, and of its adjoint where cotangents lie. */
static miras__link miras__anchor_link(const miras__chunk *c, float *bw, float *ba) {
  miras__link x = miras__link_of(c->K, c->p, c->rule);
  x.a = c->a;
  x.b = c->b;
  x.w = c->w;
  x.slope = c->metric;
  if (!bw) return x;
  x.binv = c->binv;
  x.bslope = c->p->d.bounded_step ? c->bmetric : NULL;
  x.bw = bw;
  x.ba = ba;
  x.bb = c->call->dinit;
  return x;
}

/* ---- bounded steps ---- */

/* Layer l of a bounded step, and the layer that hears what it says, where that counts in F. */
static miras__bound miras__bound_layer(const miras__chunk *c, int l, int *fed) {
  const miras__plan *p = c->p;
  const float *J = c->rule->metric == MIRAS__J_OWN ? c->metric : c->w;
  miras__bound x = {c->m, (size_t)p->in[l], (size_t)p->out[l], c->wide, 0, MIRAS__BY(p, l),
                    c->inv[l] * c->rule->slope, J + p->offset[l], c->net.pairs.x[l], c->net.d[l],
                    c->rows.eta, NULL, c->spent, c->strain, c->net.pack};
  if (c->rule->metric == MIRAS__J_NUMBER) x.J = NULL;
  for (*fed = l + 1; *fed < p->layers - 1 && !MIRAS__HIDDEN(p, *fed);) ++*fed;
  if (p->d.bounded_step == 2 && l < p->layers - 1)
    x.fed = c->net.pairs.x[*fed], x.hears = (size_t)p->in[*fed];
  return x;
}

/* Q, F, e.r and s of the new pairs; then eta times s. */
static void miras__piece_bound(miras__chunk *c) {
  const miras__kernels *K = c->K;
  const miras__plan *p = c->p;
  const size_t m = c->m, dv = (size_t)p->d.value_dim;
  int l, fed;
  if (c->rule->metric_fwd) {
    const miras__link x = miras__anchor_link(c, NULL, NULL);
    miras__links(&x, c->rule->metric_fwd);
  }
  K->fill(c->along, 1e-20f, m);
  K->dot_rows(1, c->along, 1, c->net.e, dv, c->net.r, dv, m, dv);
  K->fill(c->spent, 0, m);
  K->fill(c->strain, 0, m);
  for (l = 0; l < p->layers; l++) {
    const miras__bound x = miras__bound_layer(c, l, &fed);
    K->bound_fwd(K, &x, c->query.x[l], c->net.t1, c->query.z[l]);
  }
  K->bound_share(c->share, c->rows.eta, c->along, c->spent, c->strain, p->growth, m, c->wide);
}

/* Its adjoint over a chunk: brows.eta comes in as the cotangent of eta' and leaves as that of eta;
 * adds to those of the pairs, bw and binv; leaves that of e.r in along. */
static void miras__piece_bound_bwd(miras__chunk *c, float *bw) {
  const miras__kernels *K = c->K;
  const miras__plan *p = c->p;
  const miras__net *n = &c->net;
  const int own = c->rule->metric == MIRAS__J_OWN;
  int l, fed;
  K->bound_share_bwd(c->rows.eta, c->brows.eta, c->along, c->spent, c->strain, c->share, p->growth,
                     c->m, c->wide);
  for (l = 0; l < p->layers; l++) {
    const miras__bound x = miras__bound_layer(c, l, &fed);
    const miras__bound_grads b = {c->binv + l, (own ? c->bmetric : bw) + p->offset[l], n->bx[l],
                                  n->bd[l], c->brows.eta, x.fed ? n->bx[fed] : NULL,
                                  own ? MIRAS__SET : MIRAS__ADD};
    K->bound_bwd(K, &x, &b, c->query.x[l], c->query.z[l], n->t1, n->t2);
  }
  if (c->rule->metric_bwd) {
    const miras__link x = miras__anchor_link(c, bw, NULL);
    miras__links(&x, c->rule->metric_bwd);
  }
}

/* ---- coefficients of the new rows ---- */

static miras__course miras__course_of(const miras__chunk *c) {
  const miras__plan *p = c->p;
  const size_t descents = (size_t)p->d.descents;
  const miras__course x = {p->span, c->r0, c->m, c->t % descents, descents, c->rows.alpha,
                           c->rows.eta, c->rows.theta, p->d.row_rates ? c->rate : NULL, c->g, c->n,
                           c->ca, c->cf, c->ch};
  return x;
}

static void miras__piece_course(miras__chunk *c) {
  const miras__course x = miras__course_of(c);
  if (c->p->channel) {
    c->K->channel_decay(c->K, c->ca, c->r0 ? c->last_a : NULL, c->rows.alpha, c->m, c->wide);
    return;
  }
  if (x.rate)
    c->K->row_rates(c->p->d.row_rates, c->rate, c->slope, c->io.rho, c->r0, c->m, x.descents);
  c->K->coefficients(c->K, &x, c->last_g, c->last_n, c->last_a);
}

static void miras__piece_course_bwd(miras__chunk *c) {
  const miras__course x = miras__course_of(c);
  const miras__course_grads b = {c->bg, c->bn, c->ba, c->bf, c->bh, c->brows.alpha, c->brows.eta,
                                 c->brows.theta, c->slope, c->call->g->rho};
  if (c->p->channel)
    c->K->channel_decay_bwd(c->K, c->brows.alpha, c->ba, c->ca, c->rows.alpha, c->m, c->wide);
  else c->K->coefficients_bwd(c->K, &x, &b);
}

/* ---- rows with gates per channel ---- */

/* Room @28's view of the chunk's rows of one side from new row `from` on: Y_1 or D_L. */
static miras__channels miras__channel_view(const miras__chunk *c, int by_input, size_t from) {
  const size_t n = c->wide;
  const miras__channels v = {n, c->p->span == 1 ? 1 : (size_t)c->p->d.descents, 0,
                             (by_input ? c->new_y : c->new_d) + from * n, c->rows.eta + from * n,
                             c->rows.alpha + from * n, NULL, NULL, NULL, NULL,
                             c->p->span, by_input ? c->live_y : c->live_d};
  return v;
}

/* Rows from new row `from` on that no read saw enter the live ones. */
static void miras__channel_rest(miras__chunk *c, size_t from) {
  int side;
  for (side = c->p->layers > 1; side >= 0; side--) {
    const miras__channels v = miras__channel_view(c, side, from);
    c->K->channel_rows(c->K, &v, NULL, 0, c->r0 + from, c->m - from);
  }
}

/* The adjoint of one side's rows of the chunk. reads > 0: b and q [reads] are what room @28 calls p
 * and q, dq += the cotangents of the queries (by output: NULL). The last token of a chunk may have
 * read elsewhere; its b and q are zero. */
static void miras__channel_rows_bwd(miras__chunk *c, int by_input, float *b, float *q, float *dq,
                                    const float *live) {
  miras__channels v = miras__channel_view(c, by_input, 0);
  const miras__channel_grads g = {by_input ? c->net.bx[0] : c->net.bd[c->p->layers - 1],
                                  c->brows.eta, c->brows.alpha, dq, NULL, live};
  const size_t reads = q ? c->reads : 0;
  if (reads && reads < c->m / v.every) {
    c->K->fill(b + reads * v.ld_p, 0, v.ld_p);
    c->K->fill(q + reads * v.n, 0, v.n);
    if (dq) c->K->fill(dq + reads * v.n, 0, v.n);
  }
  v.q = q;
  v.p = b;
  c->K->channel_bwd(&v, &g, c->m, c->history);
}

/* ---- reads along A_t ---- */

/* Rows of queries on their way, and the coefficients of the last pair of the first read's token;
 * those of the others lie `descents` rows apart. */
typedef struct miras__look {
  miras__pass pass;
  miras__reads r;
  const float *w, *s;      /* what they start from, S_0 or NULL                                  */
  const float *g, *a, *f;  /* g: NULL with gates per channel; a: NULL to read by w alone         */
} miras__look;

/* z = (mode of gemm) x (a (.) W) in layer l, the coefficients a times `scale` where they are added
 * and one number: their channels are the inputs, (a (.) x) W, or the outputs, a (.) (x W). */
static void miras__look_term(const miras__chunk *c, int mode, int l, const miras__look *x,
                             const float *a, float scale, const float *w) {
  const miras__kernels *K = c->K;
  const int by = MIRAS__BY(c->p, l), set = mode == MIRAS__SET;
  const size_t in = (size_t)c->p->in[l], out = (size_t)c->p->out[l], m = x->r.m;
  const size_t apart = x->r.descents * c->wide;
  float *q = x->pass.x[l], *z = x->pass.z[l], *t = c->net.t1;
  if (by == 1) {
    K->mul_rows(t, in, a, apart, q, in, m, in);
    miras__through(&c->net, mode, l, z, t, w, m);
    return;
  }
  miras__through(&c->net, MIRAS__SET, l, set ? z : t, q, w, m);
  if (set) miras__gate(K, by, z, a, apart, z, m, out);
  else if (by) K->muladd_rows(z, out, a, apart, t, out, m, out);
  else K->axpy_rows(z, out, scale, a, apart, t, out, m, out);
}

/* z_l of reads, from pass.x[l]:
 *   z = x (a (.) W) [+ inv x ((1 - a) (.) B)] [+ inv f x S] - P d,  P = inv G (.) (x y')
 * and per channel P (G (.) d), P = inv x y', by output, or P_tj = inv x_t . (G_tj (.) y_j) by
 * input. There the pairs up to the last read's enter the live rows (unless there are none: they
 * have). Of P d a row must not meet a later token's pair, not even times zero: the first descents
 * of all tokens, then the second ones, and so on, each a product that stops at the diagonal. */
static void miras__look_layer(miras__chunk *c, int l, const miras__look *x) {
  const miras__kernels *K = c->K;
  const miras__plan *p = c->p;
  const size_t in = (size_t)p->in[l], out = (size_t)p->out[l], ld = x->r.ld, m = x->r.m;
  const size_t descents = x->r.descents;
  const int by = MIRAS__BY(p, l), fresh = by && c->live_d;
  float *q = x->pass.x[l], inv = c->inv[l];
  const size_t every = p->span == 1 ? 1 : descents, from = x->r.seen - every;
  size_t phase;
  if (!x->a) {
    miras__through(&c->net, MIRAS__SET, l, x->pass.z[l], q, x->w, m);
    return;
  }
  miras__look_term(c, MIRAS__SET, l, x, x->a, 1, x->w);
  if (c->home) {
    K->rest(c->left, x->a, inv, ((m - 1) * descents + 1) * c->wide);
    miras__look_term(c, MIRAS__ADD, l, x, c->left, 1, c->home);
  }
  if (x->s) miras__look_term(c, MIRAS__ADD, l, x, x->f, inv, x->s);
  if (p->from[l] == l && fresh && by == 1) {
    miras__channels v = miras__channel_view(c, 1, 0);
    v.q = q;
    v.p = c->kq[l];
    K->channel_rows(K, &v, NULL, 0, from, m * every);
  } else if (p->from[l] == l) {
    K->gemm(MIRAS__SET, c->kq[l], ld, miras__mat(q, in), miras__turned(c->y[l], in), m, x->r.pairs,
            in, c->net.pack);
  }
  K->triangle(c->pq, fresh && by == 2 ? -inv : inv, x->g, descents * ld, c->kq[l], ld, x->r.seen,
              descents, m);
  if (fresh && by == 2) {
    miras__channels v = miras__channel_view(c, 0, 0);
    v.p = c->pq;
    K->channel_rows(K, &v, x->pass.z[l], out, from, m * every);
    return;
  }
  for (phase = 0; phase < descents && phase < x->r.pairs; phase++)
    K->gemm(miras__causal(MIRAS__SUB, (x->r.seen - 1) / descents + 1), x->pass.z[l], out,
            miras__strided(c->pq + phase, ld, descents),
            miras__mat(c->d[l] + phase * out, descents * out), m, out,
            (x->r.pairs - phase + descents - 1) / descents, c->net.pack);
}

/* What home adds per channel, with h = (1 - a) inv:
 *   by output, h (.) (x B):  bt = h (.) bz, bB += x' bt, left in t1; u = x B: ba -= inv bz (.) u,
 *                            binv += sum bz (.) (1 - a) (.) u
 *   by input, (h (.) x) B:   bu = bz B', bx += h (.) bu, bB += (h (.) x)' bz; ba -= inv bu (.) x,
 *                            binv += sum bu (.) (1 - a) (.) x */
static void miras__channel_home_bwd(miras__chunk *c, int l, const miras__look *x,
                                    const float *bz) {
  const miras__kernels *K = c->K;
  const miras__plan *p = c->p;
  const int by_input = MIRAS__BY(p, l) == 1;
  const size_t in = (size_t)p->in[l], out = (size_t)p->out[l], n = by_input ? in : out;
  const size_t m = x->r.m, apart = x->r.descents * n, at = c->first * n;
  const float *q = x->pass.x[l], inv = c->inv[l];
  const float *one = by_input ? c->net.t2 : bz, *other = by_input ? q : c->net.bz[l];
  float *t = c->net.t1;
  if (by_input) miras__through(&c->net, MIRAS__SET | MIRAS__NT, l, c->net.t2, bz, c->home, m);
  else miras__through(&c->net, MIRAS__SET, l, c->net.bz[l], q, c->home, m);   /* not in use yet */
  K->mul(c->mixed, one, other, m * n);
  K->axpy_rows(c->ba + at, apart, -inv, NULL, 0, c->mixed, n, m, n);
  K->rest(c->left, c->ca + at, 1, (m - 1) * apart + n);
  K->dot_rows(1, c->binv + l, 0, c->left, apart, c->mixed, n, m, n);
  K->scale(c->left, inv, c->left, (m - 1) * apart + n);
  if (by_input) K->muladd_rows(c->net.t3, in, c->left, apart, one, in, m, in);
  miras__gate(K, 1, t, c->left, apart, by_input ? other : one, m, n);
  miras__through(&c->net, MIRAS__ADD | MIRAS__TN, l, c->bhome, by_input ? t : q,
                 by_input ? bz : t, m);
}

/* Adjoint of look_layer, bx in t3 from bz; += bw, bs, bhome, binv, what pairs and coefficients
 * receive.
 *   T1 = bz W' (by output T1 = bz, x = x W):  ba_t += T1_t . x_t, per channel (.);  bx = a (.) T1
 *   bW += x' (a (.) bz), by input (a (.) x)' bz
 *   home: T3 = bz B', h = (1 - a_t) inv:  ba_t -= inv T3_t . x_t,  bx += h T3,  bB += x' (h bz)
 *   T2 = bz S',  bf_t += inv T2_t . x_t,  bx += f_t inv T2,  bS += x' (f_t inv bz)
 *   bP = -bz d' inv (lower),  bG += bP (x y'),  b(x y') = bP G,  bd -= inv P' bz
 *   bx += b(x y') y,  by += b(x y')' x
 *   binv = sum_t (f_t T2_t + (1 - a_t) T3_t) . x_t + sum_tj (bP/inv) (x y') G
 * and of the side that carries channels room @28 does what belongs to it and to G. */
static void miras__look_layer_bwd(miras__chunk *c, int l, const miras__look *x, float *bz,
                                  float *bw, float *bs) {
  const miras__kernels *K = c->K;
  const miras__plan *p = c->p;
  const int by = MIRAS__BY(p, l), scalar_home = !by && c->home;
  const miras__net *n = &c->net;
  const size_t in = (size_t)p->in[l], out = (size_t)p->out[l], ld = x->r.ld;
  const size_t m = x->r.m, descents = x->r.descents, pairs = x->r.pairs, first = c->first;
  const size_t apart = descents * c->wide;
  const float *a = c->ca + first * c->wide, *f = c->cf + first, inv = c->inv[l];
  float *q = x->pass.x[l], *bx = c->net.t3, *t = c->net.t1, *u = c->net.t2, *pack = c->net.pack;
  float *ba = c->ba + first * c->wide, *binv = c->binv + l;
  if (by == 2 && x->a) miras__through(n, MIRAS__SET, l, t, q, x->w, m);
  else miras__through(n, MIRAS__SET | MIRAS__NT, l, bx, bz, x->w, m);
  if (!x->a) {
    miras__through(n, MIRAS__ADD | MIRAS__TN, l, bw, q, bz, m);
    return;
  }
  if (scalar_home) {                             /* T1 - inv T3, and a_t of that on top of inv T3 */
    miras__through(n, MIRAS__SET | MIRAS__NT, l, t, bz, c->home, m);
    K->rest(c->left, a, 1, (m - 1) * descents + 1);
    K->dot_rows(0, c->line, 1, t, in, q, in, m, in);
    K->dot_rows(1, binv, 0, c->left, descents, c->line, 1, m, 1);
    K->axpy_rows(bx, in, -inv, NULL, 0, t, in, m, in);
  }
  if (by == 2) miras__gate_bwd(K, by, ba, apart, bz, t, m, out);
  else miras__gate_bwd(K, by, ba, apart, bx, q, m, in);
  if (by != 2) miras__gate(K, by, bx, a, apart, bx, m, in);
  if (scalar_home) {
    K->axpy_rows(bx, in, inv, NULL, 0, t, in, m, in);
    K->scale_rows(u, out, inv, c->left, descents, bz, out, m, out);
    miras__through(n, MIRAS__ADD | MIRAS__TN, l, c->bhome, q, u, m);
  }
  if (by == 1) miras__gate(K, by, t, a, apart, q, m, in);
  else miras__gate(K, by, u, a, apart, bz, m, out);
  miras__through(n, MIRAS__ADD | MIRAS__TN, l, bw, by == 1 ? t : q, by == 1 ? bz : u, m);
  if (by == 2) miras__through(n, MIRAS__SET | MIRAS__NT, l, bx, u, x->w, m);
  if (bs) {
    miras__through(n, MIRAS__SET | MIRAS__NT, l, t, bz, x->s, m);
    K->dot_rows(0, c->line, 1, t, in, q, in, m, in);
    K->dot_rows(1, binv, 0, f, descents, c->line, 1, m, 1);
    K->scale(c->line, inv, c->line, m);
    K->add_rows(c->bf + first, descents, c->line, 1, m, 1);
    K->axpy_rows(bx, in, inv, f, descents, t, in, m, in);
    K->scale_rows(u, out, inv, f, descents, bz, out, m, out);
    miras__through(n, MIRAS__ADD | MIRAS__TN, l, bs, q, u, m);
  }
  if (by == 2) {
    miras__channels v = miras__channel_view(c, 0, 0);
    v.q = bz;
    v.p = c->bp;
    v.live = c->live;
    K->channel_rows(K, &v, NULL, 0, 0, m * v.every);
  } else {
    K->gemm(MIRAS__SET, c->bp, ld, miras__mat(bz, out), miras__turned(c->net.d[l], out), m, pairs,
            out, pack);
  }
  K->triangle_bwd(c->bp, c->pq, c->bg + first * ld, binv, inv, by == 2 ? -1 : 1, x->g, c->kq[l],
                  &x->r);
  if (by && c->home) miras__channel_home_bwd(c, l, x, bz);
  if (by == 2 && c->home) miras__through(n, MIRAS__ADD | MIRAS__NT, l, bx, t, c->home, m);
  if (by != 2)
    K->gemm(MIRAS__SUB, c->net.bd[l], out, miras__turned(c->pq, ld), miras__mat(bz, out), pairs,
            out, m, pack);
  if (by != 1) {
    K->gemm(MIRAS__ADD, bx, in, miras__mat(c->bp, ld), miras__mat(c->y[l], in), m, in, pairs, pack);
    K->gemm(MIRAS__ADD, c->net.bx[l], in, miras__turned(c->bp, ld), miras__mat(q, in), pairs, in, m,
            pack);
  }
  if (by == 1)
    miras__channel_rows_bwd(c, 1, c->bp, q, bx, p->from[l] == l ? c->blive_y : NULL);
  else if (by == 2)
    miras__channel_rows_bwd(c, 0, c->pq, bz, NULL, c->blive_d);
}

/* ---- the fold of a chunk's pairs ---- */

/* A_C and S_C in layer l from A_0 and S_0, in place, with `pairs` pairs, the last one row `row`.
 * Per channel the rows bring their G along. */
static void miras__fold_layer(miras__chunk *c, int l, float *a, float *s, size_t row,
                              size_t pairs) {
  const miras__kernels *K = c->K;
  const size_t in = (size_t)c->p->in[l], out = (size_t)c->p->out[l], size = in * out;
  const size_t at = row * c->p->span, offset = c->p->offset[l];
  float *t = c->net.t1;
  miras__layer_fade(c, l, a, c->home, row);
  if (!c->p->channel) K->scale_rows(t, in, 1, c->g + at, 1, c->y[l], in, pairs, in);
  if (s) K->axpy(a + offset, c->cf[row], s + offset, size);
  miras__through(&c->net, MIRAS__SUB | MIRAS__TN, l, a, c->p->channel ? c->y[l] : t, c->d[l],
                 pairs);
  if (!s) return;
  K->scale_rows(t, in, 1, c->n + at, 1, c->y[l], in, pairs, in);
  K->scale(s + offset, c->ch[row], s + offset, size);
  miras__through(&c->net, MIRAS__SUB | MIRAS__TN, l, s, t, c->d[l], pairs);
}

/* Its adjoint makes their cotangents ca, cs those of A_0 = a and S_0:
 *   bG_Cj -= d_j . (ca' y_j),  bd_j -= G_Cj ca' y_j,  by_j -= G_Cj ca d_j,  the same with N and cs
 *   bf_C += <S_0, ca>,  bh_C += <S_0, cs>,  S_0 receives f_C ca + h_C cs
 *   and, as in fade_bwd, ba_C += <A_0 - B, ca>,  bB += (1 - a_C) ca,  A_0 receives a_C ca
 * By output the cotangent of G (.) d is -y ca, by input that of G (.) y is -d ca'. */
static void miras__fold_layer_bwd(miras__chunk *c, int l, const float *a, float *ca, float *cs) {
  const miras__kernels *K = c->K;
  const size_t in = (size_t)c->p->in[l], out = (size_t)c->p->out[l], size = in * out;
  const size_t m = c->m, last = m - 1, at = last * c->p->span;
  const int by = MIRAS__BY(c->p, l);
  float *t = c->net.t1, *u = c->net.t2;
  int pass;
  for (pass = 0; by == 0 && pass < (cs ? 2 : 1); pass++) {
    const float *b = pass ? cs : ca, *row = (pass ? c->n : c->g) + at;
    float *brow = (pass ? c->bn : c->bg) + at;
    miras__through(&c->net, MIRAS__SET, l, t, c->y[l], b, m);
    miras__through(&c->net, MIRAS__SET | MIRAS__NT, l, u, c->d[l], b, m);
    K->dot_rows(0, c->line, 1, c->d[l], out, t, out, m, out);
    K->sub(brow, brow, c->line, m);
    K->axpy_rows(c->net.bd[l], out, -1, row, 1, t, out, m, out);
    K->axpy_rows(c->net.bx[l], in, -1, row, 1, u, in, m, in);
  }
  if (by) {
    miras__through(&c->net, MIRAS__SUB | MIRAS__NT, l, by == 1 ? c->blive_y : c->net.bx[l],
                   c->d[l], ca, m);
    miras__through(&c->net, MIRAS__SUB, l, by == 2 ? c->blive_d : c->net.bd[l], c->y[l], ca, m);
  }
  if (cs) {
    const size_t offset = c->p->offset[l];
    const float *s = c->s + offset, *b = ca + offset;
    float *bs = cs + offset;
    K->dot_rows(1, c->bf + last, 1, s, size, b, size, 1, size);
    K->dot_rows(1, c->bh + last, 1, s, size, bs, size, 1, size);
    K->scale(bs, c->ch[last], bs, size);
    K->axpy(bs, c->cf[last], b, size);
  }
  miras__layer_fade_bwd(c, l, ca, a, c->home, c->bhome, last);
}

/* ---- pieces ---- */

/* Where the state of a head, or what stands for it in the adjoint, has what of a chunk. */
static void miras__chunk_state(miras__chunk *c, float *state) {
  const miras__plan *p = c->p;
  int l;
  c->a = state;
  c->w = p->stores_link ? state + p->at_w : state;
  c->s = p->at_s ? state + p->at_s : NULL;
  c->wb = p->holds ? state + p->at_home : NULL;
  c->last_g = state + p->at_g;
  c->last_n = state + p->at_n;
  c->last_a = p->channel ? state + p->at_a : state + p->at_scalars;
  c->scalars = state + p->at_scalars;
  for (l = 0; l < p->layers; l++) {
    c->y[l] = state + p->at_y[l];
    c->d[l] = state + p->at_d[l];
  }
}

/* What a call gives to all of its pieces. */
static void miras__chunk_open(const miras__call *call, int backward, miras__chunk *c) {
  const miras__plan *p = call->p;
  const uint16_t *to = miras__chunk_arrays;
  const size_t *at;
  int l;
  c->call = call;
  c->K = c->net.K = call->K;
  c->p = c->net.p = p;
  c->rows.beta = c->rows.erase = c->rows.replace = NULL;
  at = miras__chunk_place(c, to, MIRAS__ONCE, MIRAS__EACH, p->at);
  to += MIRAS__ONCE + MIRAS__EACH;
  if (backward) miras__chunk_place(c, to, MIRAS__ONCE_BWD, MIRAS__EACH_BWD, at);
  miras__chunk_state(c, backward ? c->state : call->state);
  for (l = 0; l < p->layers; l++) {              /* what layers share */
    c->query.x[l] = c->query.x[p->from[l]];
    c->kq[l] = c->kq[p->from[l]];
    if (MIRAS__TRAINS && backward) c->net.bx[l] = c->net.bx[p->from[l]];
  }
  c->net.gain = call->gain;
  c->net.bias = call->bias;
  miras__architecture(&c->net);
  c->wide = p->rates;
  c->b = p->d.toward ? call->init : NULL;
  c->live_y = c->live_d = NULL;
  c->rows.v = c->net.v;
  c->rows.delta = c->net.delta;
  if (!p->at_s) c->rows.theta = NULL;            /* no momentum */
  c->K->fill(c->inv, 1, 4);
  if (!MIRAS__TRAINS || !backward) return;
  c->net.dgain = call->dgain;
  c->net.dbias = call->dbias;
  c->brows.v = c->net.bv;
  c->brows.delta = c->net.bdelta;
}

/* The retention of a piece and where it leads. */
static void miras__piece_rule(miras__chunk *c, int rule) {
  c->rule = &miras__retentions[rule];
  c->home = !c->b || c->rule->home == MIRAS__HOME_NONE ? NULL
            : c->rule->home == MIRAS__HOME_B ? c->b : c->wb;
}

/* m pairs of the call from pair t on, which are row r0 of their chunk; do they close it? */
static void miras__piece(miras__chunk *c, int rule, size_t t, size_t r0, size_t m, int ends) {
  const size_t descents = (size_t)c->p->d.descents;
  miras__piece_rule(c, rule);
  c->t = t;
  c->r0 = r0;
  c->m = c->net.pairs.m = m;
  c->ends = ends;
  c->first = descents - 1 - t % descents;
  c->token = (t + c->first) / descents;
  c->reads = c->io.q && m > c->first ? (m - c->first - 1) / descents + 1 : 0;
  c->closing = ends && c->rule->close && c->reads;
  if (c->closing) c->reads--;
}

/* Where rows of what the memory is asked go, and how far apart they lie: the first layer's input,
 * or what scales the answer. */
static float *miras__asked(const miras__chunk *c, const miras__pass *s, size_t *in) {
  *in = c->net.answer->keyed ? c->p->features : (size_t)c->p->in[0];
  return c->net.answer->keyed ? s->xh : s->x[0];
}

/* m reads x, rows of the query pass from row `at` on, by the weights w alone. */
static void miras__look_by(const miras__chunk *c, const float *w, size_t at, size_t m,
                           miras__look *x) {
  const miras__plan *p = c->p;
  miras__pass *s = &x->pass;
  int l;
  *s = c->query;
  s->m = x->r.m = m;
  for (l = 0; l < p->layers; l++) {
    s->x[l] += at * (size_t)p->in[l];
    s->z[l] += at * (size_t)p->out[l];
  }
  s->xh += at * (size_t)p->d.value_dim;
  s->rstd += at;
  x->w = w;
  x->a = NULL;
}

/* The reads x of an open chunk, from coefficient row `row` of g, a, f on: along A_t, the first of
 * which sees `seen` pairs, or by the anchor. */
static void miras__look_at(const miras__chunk *c, size_t row, size_t seen, size_t m,
                           miras__look *x) {
  miras__look_by(c, c->rule->from_dual ? c->a : c->w, 0, m, x);
  if (!c->rule->reads_live) return;
  x->r.seen = seen;
  x->r.descents = (size_t)c->p->d.descents;
  x->r.pairs = m ? seen + (m - 1) * x->r.descents : 0;
  x->r.ld = c->p->span;
  x->s = c->s;
  x->g = c->p->channel ? NULL : c->g + row * x->r.ld;
  x->a = c->ca + row * c->wide;
  x->f = c->cf + row;
}

/* Answers o to the queries from token `token` on. */
static void miras__read(miras__chunk *c, const miras__look *x, size_t token, float *o) {
  const miras__plan *p = c->p;
  const miras__pass *s = &x->pass;
  size_t n;
  float *q = miras__asked(c, s, &n);
  int l;
  miras__rows_queries(c->K, p, &c->io, token, s->m, q, n);
  if (q != s->x[0]) c->K->fill(s->x[0], 1, s->m * (size_t)p->in[0]);
  for (l = 0; l < p->layers; l++) {
    if (MIRAS__HIDDEN(p, l)) c->net.hidden->fwd(&c->net, l, s->x[l], s->z, s->m);
    miras__look_layer(c, l, x);
  }
  c->net.answer->fwd(&c->net, s, o, c->io.ldy);
  if (p->d.inner_residual)
    c->K->add_rows(o, c->io.ldy, s->x[0], (size_t)p->in[0], s->m, (size_t)p->d.key_dim);
}

/* Its adjoint; bw, bs (NULL without momentum): of the weights that were read and of S_0. */
static void miras__read_bwd(miras__chunk *c, const miras__look *x, size_t token, float *bw,
                            float *bs) {
  const miras__kernels *K = c->K;
  const miras__pass *s = &x->pass;
  const miras__plan *p = c->p;
  const miras__call *call = c->call;
  const size_t m = s->m, dv = (size_t)p->d.value_dim, ldo = call->lddy;
  const float *bo = call->dy + token * ldo;
  const int last = p->layers - 1;
  float *bx = c->net.t3, *bzs[4];
  size_t n;
  float *q = miras__asked(c, s, &n);
  int l;
  if (!m) return;
  for (l = 0; l <= last; l++)  /* a gated layer's second half comes first and waits for the first */
    bzs[l] = l < last && p->from[l + 1] == l ? c->dz2 : c->dz;
  if (c->net.answer->params) c->net.answer->params(&c->net, s, bo, ldo);
  c->net.answer->bwd(&c->net, s, c->dz, bo, ldo);
  for (l = last; l >= 0; l--) {
    const size_t in = (size_t)p->in[l];
    miras__look_layer_bwd(c, l, x, bzs[l], bw, bs);
    if (MIRAS__HIDDEN(p, l)) c->net.hidden->bwd(&c->net, l, bzs, s->z, bx, in, m);
    else if (l > 0) K->copy(c->dx2, bx, m * in);
    else if (last > 0 && p->from[1] == 0) K->add(bx, c->dx2, m * in);
  }
  if (q != s->x[0]) {                            /* of what scales the answer: z bo */
    bx = c->net.t1;
    K->mul_rows(bx, dv, s->z[0], dv, bo, ldo, m, dv);
  } else if (p->d.inner_residual) {
    K->add_rows(bx, n, bo, ldo, m, dv);
  }
  miras__rows_queries_bwd(K, p, &c->io, call->g, token, m, bx, q, n);
}

/* The new pairs of a piece: rows, inner gradients, gates and coefficients. */
static void miras__piece_pairs(miras__chunk *c) {
  const miras__plan *p = c->p;
  const miras__pass *s = &c->net.pairs;
  c->rows.x = miras__asked(c, s, &c->rows.in);
  c->net.w = c->w;
  miras__rows_fwd(c->K, p, &c->io, c->t, c->m, &c->rows);
  if (c->rows.x != s->x[0]) c->K->fill(s->x[0], 1, c->m * (size_t)p->in[0]);
  miras__anchor_fwd(&c->net);
  if (p->d.bounded_step) miras__piece_bound(c);
  miras__piece_course(c);
}

/* All of a piece but its close. o: where the first answer goes. */
static void miras__piece_run(miras__chunk *c, float *o) {
  const int follows = c->reads && c->rule->reads_live;
  miras__piece_pairs(c);
  if (c->reads) {
    miras__look x;
    miras__look_at(c, c->first, c->r0 + c->first + 1, c->reads, &x);
    miras__read(c, &x, c->token, o);
  }
  if (c->p->channel)
    miras__channel_rest(c, follows ? c->first + 1 + (c->reads - 1) * (size_t)c->p->d.descents : 0);
}

static int miras__apart(const miras__chunk *c) { return c->rule->sum == MIRAS__SUM_APART; }

/* What the recursion starts from, A_0 = a (may be the same block). */
static void miras__sum_begin(const miras__chunk *c, float *sum, const float *a) {
  if (miras__apart(c)) c->K->fill(sum, 0, c->p->weights);
  else if (c->rule->sum == MIRAS__SUM_LOG) c->K->log_weights(sum, a, c->p->weights);
  else c->K->copy(sum, a, c->p->weights);
}

/* The recursion up to the closing pair into sum, from A_0 = a (may be the same block); s in place.
 */
static void miras__piece_sum(miras__chunk *c, float *sum, const float *a, float *s) {
  const miras__plan *p = c->p;
  int l;
  miras__sum_begin(c, sum, a);
  for (l = 0; l < p->layers; l++) miras__fold_layer(c, l, sum, s, c->m - 1, c->r0 + c->m);
}

/* What closing takes, W_C = w from the sum and W_0 = w0. */
static miras__link miras__closing_of(const miras__chunk *c, float *w, const float *sum,
                                     const float *w0) {
  miras__link x = miras__link_of(c->K, c->p, c->rule);
  x.w = w;
  x.a = sum;
  x.b = c->b;
  x.from = miras__apart(c) && c->wb ? c->mix : w0;
  x.g = c->g + (c->m - 1) * c->p->span;
  return x;
}

/* W_C; w may be sum, or w0. inv: of its link. */
static void miras__piece_close(miras__chunk *c, float *w, const float *sum, const float *w0,
                               float *inv) {
  const miras__plan *p = c->p;
  miras__link x;
  int l;
  if (!c->rule->close) return;
  x = miras__closing_of(c, w, sum, w0);
  x.inv = inv;
  if (x.from != w0) c->K->copy(c->mix, w0, p->weights);
  for (l = 0; x.from != w0 && l < p->layers; l++)
    miras__layer_fade(c, l, c->mix, c->wb, c->m - 1);
  c->rule->close(&x);
}

/* Its adjoint: bwc comes in as what the closing read adds to W_C, ca as the cotangent of what the
 * state carries over the close. */
static void miras__piece_close_bwd(miras__chunk *c, float *ca) {
  const miras__plan *p = c->p;
  miras__link x = miras__closing_of(c, c->wc, c->ac, c->w);
  int l;
  x.bw = c->bwc;
  x.ba = ca;
  x.bg = c->bg + (c->m - 1) * p->span;
  x.bb = c->call->dinit;
  x.slope = p->d.bounded_step ? c->bmetric : c->metric;
  c->rule->close_bwd(&x);
  for (l = 0; x.from != c->w && l < p->layers; l++)
    miras__layer_fade_bwd(c, l, ca, c->w, c->wb, c->bwb, c->m - 1);
}

/* ---- forward ---- */

/* Bring a state to position 0: A_0 is the initial memory, no momentum. The normaliser of an LQ link
 * is kept in scalars[4 + layer] for the reads of the open chunk. Where A holds weights, the initial
 * memory is their logits. */
static void miras__begin(miras__chunk *c) {
  const miras__kernels *K = c->K;
  const miras__plan *p = c->p;
  const float *init = c->call->init;
  if (!p->init_mapped || p->stores_link) K->copy(c->a, init, p->weights);
  if (c->s) K->fill(c->s, 0, p->weights);
  if (p->init_mapped)
    miras__weights_of(K, p, c->w, init, init, p->stores_link ? c->scalars + 4 : c->inv);
  if (c->wb) K->copy(c->wb, c->a, p->weights);
}

/* New rows of a piece go behind those of the open chunk, or into scratch if they are to be
 * multiplied there by their coefficients. */
static void miras__piece_state(miras__chunk *c) {
  const miras__plan *p = c->p;
  int l;
  for (l = 0; l < p->layers; l++) {
    const int by = MIRAS__BY(p, l);
    c->net.pairs.x[l] = by == 1 && p->from[l] == 0 ? c->new_y : c->y[l] + c->r0 * (size_t)p->in[l];
    c->net.d[l] = by == 2 ? c->new_d : c->d[l] + c->r0 * (size_t)p->out[l];
  }
  if (p->channel) c->live_y = c->y[0], c->live_d = c->d[p->layers - 1];
  if (p->stores_link) c->K->copy(c->inv, c->scalars + 4, (size_t)p->layers);
}

/* A piece has closed: nothing of it stays, for how calls were cut must not show in the state. Where
 * the chunk goes on, the first token is in W_1 and its coefficient is 0. */
static void miras__state_clear(const miras__chunk *c, int goes_on) {
  const miras__kernels *K = c->K;
  K->fill(c->last_g, 0, (size_t)(c->scalars + 4 - c->last_g));   /* N and a lie between them */
  if (!goes_on) return;
  K->fill_rows(c->scalars, 2, 1, 2, 1);          /* a and h */
  if (!c->live_y) return;
  K->fill(c->last_a, 1, c->wide);
  K->fill(c->live_y, 0, (size_t)c->p->in[0]);
  K->fill(c->live_d, 0, c->wide);
}

/* The coefficients of its last row wait for the next piece of the chunk. */
static void miras__state_keep(const miras__chunk *c) {
  const miras__kernels *K = c->K;
  const size_t last = c->m - 1, rows = c->r0 + c->m, apart = (size_t)(c->cf - c->ca);
  if (c->live_y) {
    K->copy(c->last_a, c->ca + last * c->wide, c->wide);
    return;
  }
  K->copy_rows(c->scalars, 1, c->ca + last, apart, 3, 1);      /* and f, h, as far apart */
  K->copy(c->last_g, c->g + last * c->p->span, rows);
  if (c->s || c->p->d.row_rates) K->copy(c->last_n, c->n + last * c->p->span, rows);
}

static void miras__frozen_forward(const miras__call *call) {
  const miras__kernels *K = call->K;
  const miras__plan *p = call->p;
  const miras__head_io *io = call->io;
  const size_t span = p->span, descents = (size_t)p->d.descents;
  const size_t length = (size_t)io->length * descents;
  const size_t open = (size_t)(call->position % (uint64_t)p->d.chunk) * descents;
  miras__chunk chunk, *c = &chunk;
  size_t t = 0;
  miras__chunk_open(call, 0, c);
  c->io = *io;
  if (call->position == 0 && length) miras__begin(c);
  else if (MIRAS__TRAINS && c->wb && call->tape && length)   /* training may have moved it */
    miras__weights_of(K, p, c->wb, call->init, NULL, c->inv);
  while (t < length) {
    const size_t r0 = (open + t) % span, left = length - t;
    const int exact = p->first != p->rule && r0 == 0;
    const size_t rest = exact ? 1 : span - r0, m = rest < left ? rest : left;
    const int closes = r0 + m == span, ends = closes || exact;
    miras__piece(c, exact ? p->first : p->rule, t, r0, m, ends);
    miras__piece_state(c);
    if (MIRAS__TRAINS && call->tape && r0 == 0) {
      float *to = call->tape + t / span * p->tape_state;
      K->copy(to, c->a, p->weights);
      if (c->s) K->copy(to + p->weights, c->s, p->weights);
    }
    miras__piece_run(c, miras__to(io->y, c->token * io->ldy));
    if (io->surprise) {                          /* of a token: before its first descent */
      const size_t begun = (descents - t % descents) % descents;
      if (begun < m)
        K->copy_rows(io->surprise + (t + begun) / descents, 1, c->net.loss + begun, descents,
                     (m - begun - 1) / descents + 1, 1);
    }
    t += m;
    if (!ends) {
      miras__state_keep(c);
      continue;
    }
    {
      float *sum = miras__apart(c) ? c->u : c->a;
      miras__piece_sum(c, sum, c->a, c->s);
      if (closes && t % descents == 0 && sum == c->a &&
          miras__sweeps(&p->d, call->position + (uint64_t)(t / descents))) {
        K->flush(sum, sum, p->weights);
        if (c->s) K->flush(c->s, c->s, p->weights);
      }
      miras__piece_close(c, c->w, sum, c->a, p->stores_link ? c->scalars + 4 : c->line);
      if (r0 || exact) miras__state_clear(c, !closes);   /* of others nothing was kept */
    }
    if (c->closing) {
      const size_t token = c->token + c->reads;
      miras__look x;
      miras__look_by(c, c->w, 0, 1, &x);
      miras__read(c, &x, token, io->y + token * io->ldy);
    }
  }
}

/* ---- backward ---- */

/* Forward again, up to the close: the anchor at a, s. */
static void miras__piece_again(miras__chunk *c, float *a, float *s) {
  const miras__plan *p = c->p;
  c->a = a;
  c->s = s;
  if (p->stores_link) miras__weights_of(c->K, p, c->w, a, c->b, c->scalars + 4);
  else c->w = a;
  miras__piece_state(c);
  miras__piece_run(c, c->net.bz[p->layers - 1]);   /* answers are not needed */
}

/* The close of a piece, again, and its adjoint: from the cotangents ca, cs of what the state takes
 * over it to those of A_0 and S_0. The fold comes before the reads: it turns ca, cs into what A_0
 * and S_0 receive, and reads add to that. */
static void miras__piece_end_bwd(miras__chunk *c, float *ca, float *cs) {
  const miras__kernels *K = c->K;
  const miras__plan *p = c->p;
  const miras__retention *rule = c->rule;
  const float *from;
  float *bsum = miras__apart(c) ? c->bwc : ca;
  int l;
  if (c->closing || (c->ends && rule->close && !rule->stores_link)) {
    if (c->s) K->copy(c->bw, c->s, p->weights);
    miras__piece_sum(c, c->ac, c->a, c->s ? c->bw : NULL);
    miras__piece_close(c, c->wc, c->ac, c->a, c->line);
    K->fill(c->bwc, 0, p->weights);
    if (c->closing) {                            /* the closing read goes through W_C */
      const size_t token = c->token + c->reads;
      miras__look x;
      miras__look_by(c, c->wc, c->m - 1, 1, &x);
      miras__read(c, &x, token, c->net.bz[p->layers - 1]);
      miras__read_bwd(c, &x, token, c->bwc, NULL);
    }
    miras__piece_close_bwd(c, ca);
  }
  if (!c->ends) return;
  from = c->a;
  if (rule->sum != MIRAS__SUM_A) {
    miras__sum_begin(c, c->ac, c->a);
    from = c->ac;
  }
  for (l = 0; l < p->layers; l++) miras__fold_layer_bwd(c, l, from, bsum, cs);
  if (rule->sum == MIRAS__SUM_LOG) K->log_weights_bwd(ca, c->a, p->weights);
}

/* The adjoint of a piece, ca and cs as above. */
static void miras__piece_bwd(miras__chunk *c, float *ca, float *cs) {
  const miras__kernels *K = c->K;
  const miras__plan *p = c->p;
  const int follows = c->reads && c->rule->reads_live;
  /* Through a link the weights of reads and anchor collect in bw and pass the link's adjoint. */
  float *bw = p->stores_link ? c->bw : ca;
  const int last = p->layers - 1;
  miras__look x;
  K->fill(c->bg, 0, (size_t)(c->net.bd[last] - c->bg) + c->m * (size_t)p->out[last]);
  miras__piece_end_bwd(c, ca, cs);
  if (p->stores_link) K->fill(bw, 0, p->weights);
  miras__look_at(c, c->first, c->first + 1, c->reads, &x);
  miras__read_bwd(c, &x, c->token, c->rule->from_dual ? ca : bw, cs);
  if (!follows && p->channel) {                  /* only the fold has used the rows */
    miras__channel_rows_bwd(c, 0, NULL, NULL, NULL, c->blive_d);
    if (p->layers > 1) miras__channel_rows_bwd(c, 1, NULL, NULL, NULL, c->blive_y);
  }
  miras__piece_course_bwd(c);
  if (p->d.bounded_step) miras__piece_bound_bwd(c, bw);
  c->net.bw = bw;
  c->net.balong = p->d.bounded_step ? c->along : NULL;
  miras__anchor_bwd(&c->net);
  c->brows.x = c->net.answer->keyed ? c->net.bkey : c->net.bx[0];
  miras__rows_bwd(K, p, &c->io, c->call->g, c->t, c->m, &c->rows, &c->brows, c->net.row);
  if (p->stores_link) {
    const miras__link link = miras__anchor_link(c, bw, ca);
    miras__links(&link, c->rule->link_bwd);
  }
}

/* Piece `piece` of a call: chunks in their order, each of two pieces where its first token is
 * exact, that and the others from its W_1. Returns 0 if there is none. */
static int miras__piece_of(miras__chunk *c, size_t piece) {
  const miras__call *call = c->call;
  const miras__plan *p = c->p;
  const size_t two = p->first != p->rule, span = p->span, t = piece / (1 + two) * span;
  const size_t left = (size_t)call->io->length * (size_t)p->d.descents - t;
  const size_t m = left < span ? left : span;
  float *a = call->tape + t / span * p->tape_state;
  if (!two) {
    miras__piece(c, p->rule, t, 0, m, m == span);
  } else {
    const int exact = piece % 2 == 0;
    if (!exact && m == 1) return 0;
    miras__piece(c, p->first, t, 0, 1, 1);
    if (!exact) {
      c->reads = 0;
      miras__piece_again(c, a, NULL);
      miras__piece_sum(c, c->wc, a, NULL);
      miras__piece_close(c, c->wc, c->wc, a, c->line);
      a = c->wc;
      miras__piece(c, p->rule, t + 1, 0, m - 1, m == span);
    }
  }
  miras__piece_again(c, a, p->at_s ? a + p->weights : NULL);
  return 1;
}

static void miras__frozen_backward(const miras__call *call) {
  const miras__kernels *K = call->K;
  const miras__plan *p = call->p;
  const miras__head_grads *g = call->g;
  const size_t size = p->weights, length = (size_t)call->io->length * (size_t)p->d.descents;
  const size_t chunks = length / p->span + (length % p->span != 0);
  float *dstate = call->dstate;
  miras__chunk chunk, *c = &chunk;
  size_t piece;
  float *ca, *cs;
  miras__chunk_open(call, 1, c);
  c->io = *call->io;
  c->io.ldy = (size_t)p->d.value_dim;
  ca = c->a;
  cs = c->s;
  if (p->holds) {
    miras__weights_of(K, p, c->wb, call->init, NULL, c->inv);
    K->fill(c->bwb, 0, size);
  }
  if (dstate) K->copy(ca, dstate, size);
  else K->fill(ca, 0, size);
  if (cs && dstate) K->copy(cs, dstate + size, size);
  else if (cs) K->fill(cs, 0, size);
  if (g->threshold)                              /* its descents add to a token's */
    K->fill_rows(g->threshold, g->ld_threshold, 0, (size_t)call->io->length, p->bounds);
  for (piece = p->first != p->rule ? 2 * chunks : chunks; piece-- > 0;) {
    if (!miras__piece_of(c, piece)) continue;
    c->bhome = c->home == c->wb ? c->bwb : call->dinit;
    miras__piece_bwd(c, ca, cs);
  }
  if (p->holds)                                  /* W_B is a map of its logits */
    miras__weights_of_bwd(K, p, call->dinit, c->bwb, c->wb);
  if (call->position == 0) {
    if (p->init_mapped && !p->stores_link && chunks)
      miras__weights_of_bwd(K, p, call->dinit, ca, call->tape);
    else
      K->add(call->dinit, ca, size);
    if (dstate) K->fill(dstate, 0, p->head_dstate);
  } else if (dstate) {
    K->copy(dstate, ca, size);
    if (cs) K->copy(dstate + size, cs, size);
  }
}

/* One read between tokens. */
static void miras__frozen_read(const miras__call *call, const float *q, float *o) {
  const miras__plan *p = call->p;
  const size_t seen = (size_t)(call->position % (uint64_t)p->d.chunk) * (size_t)p->d.descents;
  const float *w;
  miras__chunk chunk, *c = &chunk;
  miras__look x;
  miras__chunk_open(call, 0, c);
  c->io.q = q;
  c->io.ldq = c->io.ldy = c->r0 = 0;
  w = c->w;
  if (call->position == 0) w = call->init;
  if (call->position == 0 && p->init_mapped) {
    miras__weights_of(c->K, p, call->scratch + p->at_spare, w, w, c->inv);
    w = call->scratch + p->at_spare;
  }
  c->m = 1;
  miras__piece_rule(c, p->rule);
  miras__piece_state(c);
  c->live_y = c->live_d = NULL;                  /* all rows of the chunk are in the state */
  if (seen) {
    c->g = c->last_g;
    c->ca = c->last_a;
    c->cf = c->scalars + 1;
    miras__look_at(c, 0, seen, 1, &x);
  } else {
    miras__look_by(c, w, 0, 1, &x);
  }
  miras__read(c, &x, 0, o);
}

/* A [weights] and momentum of an open chunk, by the recursion; of f-divergences the weights that it
 * would close to. */
static void miras__frozen_live(const miras__call *call, float *values) {
  const miras__plan *p = call->p;
  miras__chunk chunk, *c = &chunk;
  float *s = p->at_s ? values + p->weights : NULL, *sum;
  miras__chunk_open(call, 0, c);
  miras__piece_rule(c, p->rule);
  c->m = 1;                                      /* the last row before the next */
  c->r0 = (size_t)(call->position % (uint64_t)p->d.chunk) * (size_t)p->d.descents - 1;
  c->g = c->last_g;
  c->n = c->last_n;
  c->ca = c->last_a;
  c->cf = c->scalars + 1;
  c->ch = c->scalars + 2;
  if (s) c->K->copy(s, c->s, p->weights);
  sum = miras__apart(c) ? c->u : values;
  miras__piece_sum(c, sum, c->a, s);
  if (sum != values) miras__piece_close(c, values, sum, c->a, c->line);
}

/* Nothing is left of an open chunk's pairs: A and S are all there is, and what follows from them.
 * The chunk's anchor is here. */
static void miras__frozen_clear(const miras__call *call) {
  const miras__kernels *K = call->K;
  const miras__plan *p = call->p;
  miras__chunk chunk, *c = &chunk;
  miras__chunk_open(call, 0, c);
  if (p->stores_link) miras__weights_of(K, p, c->w, c->a, call->init, c->scalars + 4);
  if (c->wb) miras__weights_of(K, p, c->wb, call->init, NULL, c->inv);
  K->fill(call->state + p->at_open, 0, p->at_g - p->at_open);
  if (p->channel) c->live_y = c->y[0], c->live_d = c->d[p->layers - 1];
  miras__state_clear(c, call->position % (uint64_t)p->d.chunk != 0);
}

/* @53 MESA ENGINE ------------------------------------------------------------ needs 14 20 45 -- */

/* Matrix memories whose weights are the exact minimiser over all pairs so far (von Oswald 2023,
 * MesaNet 2025). k and q stand for phi(k) and phi(q), n features wide; Lambda = diag(lambda):
 *   H_t = alpha_t H_(t-1) + eta_t k_t k_t'     G_t = alpha_t G_(t-1) + eta_t k_t v_t'
 *   x_t = (H_t + Lambda)^-1 q_t                y_t = G_t' x_t
 * H starts at 0 and G at the initial memory. Inside a chunk, t counted from 1,
 *   H_t = B_t H_0 + sum_(j<=t) N_tj k_j k_j'   N_tt = eta_t, N_tj = alpha_t N_(t-1)j
 *   G_t = B_t G_0 + sum_(j<=t) N_tj k_j v_j'   B_t = alpha_t B_(t-1)
 * by recursion, so that gates of exactly 0 and 1 need no care, and a product with H_t never forms
 * it: H_t s = B_t H_0 s + sum_j N_tj k_j (k_j . s). Any chunk length gives the same memory.
 *
 * The solutions of all tokens of a chunk are found together by conjugate gradients (room @28), each
 * row by its own chain of operations: how many rows run side by side, and when the others stop,
 * changes no bit. */

/* A chunk at work: rows r0..r0+m-1, what they see, and scratch; ld: between rows of kt. */
typedef struct miras__mesa {
  const miras__kernels *K;
  const miras__plan *p;
  size_t c, features, dv;  /* C, n, value_dim                                                    */
  size_t r0, m, ld;
  const float *h, *g;      /* H_0, or NULL for zeros; G_0                                        */
  float *keys, *values;    /* [r0 + m, n], [r0 + m, dv]                                          */
  float *open, *scale;     /* of the state: the row of coefficients before r0                    */
  miras__conjugate solve;  /* for C rows                                                         */
  float *pack;
  float *alpha, *eta;      /* [C]                                                                */
  float *n, *b;            /* [C + 1, C], [C + 1] coefficients; row 0 is the one before          */
  float *kt;               /* [n, r0 + m] keys, transposed                                       */
  float *x;                /* [C, n] solutions                                                   */
  float *w;                /* [C, C] products with keys                                          */
  float *o;                /* [C, dv] errors; B_t do_t                                           */
  /* backward only */
  float *k, *v;            /* [C, n], [C, dv]                                                    */
  float *z;                /* [C, n] second solutions                                            */
  float *xk, *zk, *vo;     /* up to [C, C], rows m apart: x k', z k', do v'                      */
  float *dn, *db;          /* [C, C], [C] cotangents of N, B                                     */
  float *dk, *dvalue, *dy; /* [C, n], [C, dv] of k, v; of the answers                            */
  float *dalpha, *deta;    /* [C]                                                                */
  float *dh, *dg;          /* [n, n], [n, dv] of H, G                                            */
  float *dlambda;          /* [n]                                                                */
  float *square, *turned;  /* [n, n]                                                             */
} miras__mesa;

#define MIRAS__MESA_ARRAYS(X)                                                                     \
  X(pack, MIRAS__PACK) X(solve.lambda, n) X(alpha, c) X(eta, c) X(n, (c + 1) * c) X(b, c + 1)     \
  X(kt, n * c) X(x, c * n) X(solve.r, c * n) X(solve.s, c * n) X(solve.u, c * n) X(w, c * c)      \
  X(solve.rr, c) X(solve.limit, c) X(o, c * dv)
#define MIRAS__MESA_ARRAYS_BWD(X)                                                                 \
  X(k, c * n) X(v, c * dv) X(z, c * n) X(xk, c * c) X(zk, c * c) X(vo, c * c) X(dn, c * c)        \
  X(db, c) X(dk, c * n) X(dvalue, c * dv) X(dy, c * dv) X(dalpha, c) X(deta, c) X(dh, n * n)      \
  X(dg, n * dv) X(dlambda, n) X(square, n * n) X(turned, n * n)

#define MIRAS_X(name, floats) + 1
enum { MIRAS__MESA_ONCE = 0 MIRAS__MESA_ARRAYS(MIRAS_X) };
#undef MIRAS_X
#define MIRAS_X(name, floats) (uint16_t)offsetof(miras__mesa, name),
static const uint16_t miras__mesa_arrays[] = {
  MIRAS__MESA_ARRAYS(MIRAS_X) MIRAS__MESA_ARRAYS_BWD(MIRAS_X)
};
#undef MIRAS_X

/* Its part of the plan: where the state of a head has what, sizes of tape and scratch. Returns the
 * floats of a state. */
static MIRAS__COLD size_t miras__mesa_plan(miras__plan *p) {
  const size_t c = (size_t)p->d.chunk, n = p->features, dv = (size_t)p->d.value_dim;
  size_t *at = p->at, state;
  p->params += (size_t)p->d.heads * n;
  p->at_w = miras__pad(n * n);
  p->at_open = state = p->at_w + miras__pad(p->weights);
  p->at_y[0] = state, state += miras__pad(c * n);
  p->at_d[0] = state, state += miras__pad(c * dv);
  p->at_n = state, state += miras__pad(c);
  p->at_scalars = state, state += 16;
  p->head_dstate = n * n + p->weights;
  p->split = n * n;
  p->second = p->at_w;
  p->tape_chunk = p->head_dstate + c * n;      /* and the solutions of the chunk's reads         */
  p->tape_tokens = p->d.chunk;
#define MIRAS_X(name, floats) *at++ = floats;
  MIRAS__MESA_ARRAYS(MIRAS_X)
  p->scratch = p->scratch_backward = miras__lie(p->at, at, 0);
  if (!MIRAS__TRAINS) return state;
  MIRAS__MESA_ARRAYS_BWD(MIRAS_X)
#undef MIRAS_X
  p->scratch_backward = miras__lie(p->at + MIRAS__MESA_ONCE, at, p->scratch);
  return state;
}

/* What a call brings, at its position. */
static void miras__mesa_begin(const miras__call *a, int backward, miras__mesa *k) {
  const miras__plan *p = k->p = a->p;
  k->K = a->K;
  miras__addresses(k, miras__mesa_arrays,
                   backward ? MIRAS__COUNT(miras__mesa_arrays) : (size_t)MIRAS__MESA_ONCE,
                   a->scratch, p->at);
  k->c = (size_t)p->d.chunk;
  k->features = p->features;
  k->dv = (size_t)p->d.value_dim;
  k->r0 = backward ? 0 : (size_t)(a->position % (uint64_t)k->c);
  k->m = 0;
  k->keys = backward ? k->k : a->state + p->at_y[0];
  k->values = backward ? k->v : a->state + p->at_d[0];
  k->open = miras__to(a->state, p->at_n);
  k->scale = miras__to(a->state, p->at_scalars);
  k->h = a->state;
  k->g = miras__to(a->state, p->at_w);
  k->K->map(MIRAS__SOFTPLUS, k->solve.lambda, a->ridge, k->features);
}

/* C [m, n] = A B, and so on, as in room @41. */
static void miras__mesa_gemm(const miras__mesa *k, int how, float *C, const float *A,
                             const float *B, size_t m, size_t n, size_t depth) {
  miras__product(k->K, k->pack, how, C, A, B, m, n, depth);
}

/* The coefficients of the chunk, and its keys transposed. */
static void miras__mesa_rows(miras__mesa *k) {
  const miras__kernels *K = k->K;
  if (k->r0) K->copy(k->n, k->open, k->r0);
  if (k->r0) K->copy(k->b, k->scale, 1);
  else K->fill(k->b, 1, 1);
  K->decay_rows(K, k->n, k->c, k->b, k->alpha, k->eta, k->r0, k->m);
  k->ld = k->r0 + k->m;
  K->transpose(k->kt, k->ld, k->keys, k->features, k->ld, k->features);
}

/* y_i = H x_i, or with `answer` G' x_i, of rows from..to-1: H and G as they are before that token,
 * or with `after` after it. */
static void miras__mesa_product(const miras__mesa *k, int after, int answer, const float *x,
                                float *y, size_t ldy, size_t from, size_t to) {
  const miras__kernels *K = k->K;
  const size_t c = k->c, n = k->features, wide = answer ? k->dv : n;
  const float *state = answer ? k->g : k->h, *rows = answer ? k->values : k->keys;
  size_t row = from + (after ? 1 : 0), seen = k->r0 + row, all;
  x += from * n;
  y += from * ldy;
  if (state)
    K->gemm(MIRAS__SET, y, ldy, miras__mat(x, n), miras__mat(state, wide), to - from, wide, n,
            k->pack);
  else
    K->fill_rows(y, ldy, 0, to - from, wide);
  if (!seen) {                                     /* a row that sees no key yet: B is 1 */
    if (++from == to) return;
    row++, seen++, x += n, y += ldy;
  }
  K->scale_rows(y, ldy, 1, k->b + row, 1, y, ldy, to - from, wide);
  all = seen + to - from - 1;                      /* keys that the last row sees */
  K->gemm(MIRAS__SET, k->w, c, miras__mat(x, n), miras__mat(k->kt, k->ld), to - from, all, n,
          k->pack);
  K->mul_rows(k->w, c, k->n + row * c, c, k->w, c, to - from, all);
  K->gemm(miras__causal(MIRAS__ADD, seen), y, ldy, miras__mat(k->w, c), miras__mat(rows, wide),
          to - from, wide, all, k->pack);
}

/* x [m, n] = (H_i + Lambda)^-1 r_i for the rows solve.r, which are used up; H before or after. */
static void miras__mesa_solve(miras__mesa *k, int after, float *x) {
  miras__conjugate *s = &k->solve;
  int step;
  s->n = k->features;
  s->rows = k->m;
  s->tolerance = k->p->d.tolerance;
  s->x = x;
  s->from = 0;
  s->to = k->m;
  k->K->conjugate_start(s);
  for (step = 0;; step++) {
    s->from = (size_t)k->K->conjugate_end(s, 0);
    if (step == k->p->d.iterations || s->from == s->to) return;
    if (s->to - s->from > 1) s->to = (size_t)k->K->conjugate_end(s, 1);
    miras__mesa_product(k, after, 0, s->s, s->u, s->n, s->from, s->to);
    k->K->conjugate_step(s);
  }
}

/* The state after the rows of a chunk: h, g, which are H_0 and G_0, become H_t and G_t; N_j the
 * last row's coefficients. */
static void miras__mesa_close(const miras__mesa *k, float *h, float *g) {
  const miras__kernels *K = k->K;
  const size_t rows = k->r0 + k->m, n = k->features;
  const float *last = k->n + k->m * k->c, b = k->b[k->m];
  float *u = k->solve.u;
  K->scale_rows(u, n, 1, last, 1, k->keys, n, rows, n);
  K->scale(h, b, h, n * n);
  K->scale(g, b, g, n * k->dv);
  miras__mesa_gemm(k, MIRAS__ADD | MIRAS__TN, h, u, k->keys, n, n, rows);
  miras__mesa_gemm(k, MIRAS__ADD | MIRAS__TN, g, u, k->values, n, k->dv, rows);
}

/* Its adjoint: from the cotangents dH, dG of the state that is left,
 *   dk_j = N_j (2 dH k_j + dG v_j)   dv_j = N_j dG' k_j   dN_j = k_j.(dH k_j) + k_j.(dG v_j)
 *   dB += <dH, H_0> + <dG, G_0>      dH_0 = B dH          dG_0 = B dG
 * N, B the last row's. */
static void miras__mesa_close_bwd(const miras__mesa *k) {
  const miras__kernels *K = k->K;
  const size_t c = k->c, n = k->features, dv = k->dv;
  const float *last = k->n + c * c, b = k->b[c];
  float *db = k->db + c - 1, *s = k->solve.s, *u = k->solve.u;
  miras__mesa_gemm(k, MIRAS__SET, u, k->k, k->dh, c, n, n);
  miras__mesa_gemm(k, MIRAS__SET | MIRAS__NT, s, k->v, k->dg, c, n, dv);
  miras__mesa_gemm(k, MIRAS__SET, k->dvalue, k->k, k->dg, c, dv, n);
  K->add(s, u, c * n);
  K->dot_rows(0, k->dn + (c - 1) * c, 1, k->k, n, s, n, c, n);
  K->add(s, u, c * n);
  K->scale_rows(k->dk, n, 1, last, 1, s, n, c, n);
  K->scale_rows(k->dvalue, dv, 1, last, 1, k->dvalue, dv, c, dv);
  K->dot_rows(0, db, 0, k->dh, 0, k->h, 0, 1, n * n);
  K->dot_rows(1, db, 0, k->dg, 0, k->g, 0, 1, n * dv);
  K->scale(k->dh, b, k->dh, n * n);
  K->scale(k->dg, b, k->dg, n * dv);
}

static void miras__mesa_forward(const miras__call *a) {
  const miras__kernels *K = a->K;
  const miras__plan *p = a->p;
  const miras__head_io *io = a->io;
  miras__mesa mesa, *k = &mesa;
  const size_t length = (size_t)io->length;
  float *h = a->state, *g = a->state + p->at_w;
  size_t t, c, n, dv, m;
  miras__mesa_begin(a, 0, k);
  c = k->c, n = k->features, dv = k->dv;
  if (a->position == 0 && length) {
    K->fill(h, 0, n * n);
    K->copy(g, a->init, p->weights);
  }
  for (t = 0; t < length; t += m, k->r0 = (k->r0 + m) % c) {
    float *keys = k->keys + k->r0 * n, *values = k->values + k->r0 * dv;
    float *kept = MIRAS__TRAINS ? miras__to(a->tape, t / c * p->tape_chunk) : NULL;
    const miras__rows rows = miras__rows_of(n, keys, values, k->alpha, k->eta);
    k->m = m = length - t < c - k->r0 ? length - t : c - k->r0;
    if (kept) {
      K->copy(kept, h, n * n);
      K->copy(kept + n * n, g, p->weights);
    }
    miras__rows_fwd(K, p, io, t, m, &rows);
    miras__mesa_rows(k);
    if (io->surprise) {                            /* 1/2 |v - M(k)|^2 before each write */
      K->copy(k->solve.r, keys, m * n);
      miras__mesa_solve(k, 0, k->x);
      miras__mesa_product(k, 0, 1, k->x, k->o, dv, 0, m);
      K->sub(k->o, k->o, values, m * dv);
      K->dot_rows(0, io->surprise + t, 1, k->o, dv, k->o, dv, m, dv);
      K->scale(io->surprise + t, 0.5f, io->surprise + t, m);
    }
    if (io->q) {
      float *x = kept ? kept + p->head_dstate : k->x;
      miras__rows_queries(K, p, io, t, m, k->solve.r, n);
      miras__mesa_solve(k, 1, x);
      miras__mesa_product(k, 1, 1, x, io->y + t * io->ldy, io->ldy, 0, m);
    }
    if (k->ld < c) {
      K->copy(k->open, k->n + m * c, k->ld);
      K->copy(k->scale, k->b + m, 1);
      continue;
    }
    miras__mesa_close(k, h, g);
    if (miras__sweeps(&p->d, a->position + (uint64_t)(t + m))) {
      K->flush(h, h, n * n);
      K->flush(g, g, p->weights);
    }
    if (c == 1) continue;        /* of which nothing was kept */
    /* how calls were cut must not show in the state */
    K->fill(k->open, 0, (size_t)(k->scale + 1 - k->open));
  }
}

/* One read: before the next token. */
static void miras__mesa_read(const miras__call *a, const float *q, float *o) {
  miras__mesa mesa, *k = &mesa;
  miras__mesa_begin(a, 0, k);
  miras__mesa_rows(k);
  if (!a->position) k->h = NULL, k->g = a->init;
  k->m = 1;
  a->K->feature_rows(a->p->map, k->solve.r, 0, q, 0, 1, (size_t)a->p->d.key_dim);
  miras__mesa_solve(k, 0, k->x);
  miras__mesa_product(k, 0, 1, k->x, o, k->dv, 0, 1);
}

/* H, then G, after the open chunk's pairs. */
static void miras__mesa_live(const miras__call *a, float *values) {
  const miras__plan *p = a->p;
  miras__mesa k;
  miras__mesa_begin(a, 0, &k);
  miras__mesa_rows(&k);
  a->K->copy(values, k.h, p->split);
  a->K->copy(values + p->split, k.g, p->weights);
  miras__mesa_close(&k, values, values + p->split);
}

/* Nothing is left of an open chunk's pairs: H and G are all there is. */
static void miras__mesa_clear(const miras__call *a) {
  const miras__plan *p = a->p;
  a->K->fill(a->state + p->at_open, 0, p->at_scalars + 16 - p->at_open);
  if (a->position % (uint64_t)p->d.chunk) a->K->fill(a->state + p->at_scalars, 1, 1);
}

/* Adjoint, chunk by chunk from the last; a leading d the cotangents:
 *   dx_t = G_t dy_t                z_t = (H_t + Lambda)^-1 dx_t, solved like x     dq_t = z_t
 *   dlambda = -sum_t z_t (.) x_t   dG_t = x_t dy_t'     dH_t = -(z_t x_t' + x_t z_t')/2
 * This is the derivative of the exact solution; that of the truncated one differs by the residual,
 * which is why both solves stop at the same tolerance. H is symmetric, and its adjoint is kept so.
 * Through the sums of the chunk, all j <= t:
 *   dN_tj = (k_j.x_t) (v_j.dy_t - k_j.z_t)     dB_t = x_t.(G_0 dy_t) - x_t.(H_0 z_t)
 *   dk_j = sum_t N_tj ((v_j.dy_t - k_j.z_t) x_t - (k_j.x_t) z_t)
 *   dv_j = sum_t N_tj (k_j.x_t) dy_t
 *   dG_0 = sum_t B_t x_t dy_t'                 dH_0 = -sum_t B_t (z_t x_t' + x_t z_t')/2
 *
 * Here for the tokens of one chunk, x [m, n] their solutions, k->dy what their answers receive. */
static void miras__mesa_chunk_bwd(miras__mesa *k, const float *x) {
  const miras__kernels *K = k->K;
  const size_t c = k->c, n = k->features, dv = k->dv, m = k->m;
  const float *coefficients = k->n + c, *b = k->b + 1;
  float *dx = k->solve.r, *u = k->solve.u;
  /* dx, z */
  miras__mesa_gemm(k, MIRAS__SET | MIRAS__NT, k->vo, k->dy, k->v, m, m, dv);
  miras__mesa_gemm(k, MIRAS__SET | MIRAS__NT, dx, k->dy, k->g, m, n, dv);
  K->dot_rows(1, k->db, 1, x, n, dx, n, m, n);
  K->scale_rows(dx, n, 1, b, 1, dx, n, m, n);
  K->mul_rows(k->w, m, coefficients, c, k->vo, m, m, m);
  K->gemm(miras__causal(MIRAS__ADD, 1), dx, n, miras__mat(k->w, m), miras__mat(k->k, n), m, n, m,
          k->pack);
  miras__mesa_solve(k, 1, k->z);
  /* N, B, lambda */
  miras__mesa_gemm(k, MIRAS__SET, k->xk, x, k->kt, m, m, n);
  miras__mesa_gemm(k, MIRAS__SET, k->zk, k->z, k->kt, m, m, n);
  K->fill(u, 0, m * n);
  miras__mesa_gemm(k, MIRAS__SUB, u, k->z, k->h, m, n, n);
  K->dot_rows(1, k->db, 1, x, n, u, n, m, n);
  K->sub(k->vo, k->vo, k->zk, m * m);
  K->mul(k->zk, k->xk, k->vo, m * m);
  K->add_rows(k->dn, c, k->zk, m, m, m);
  K->mul(u, k->z, x, m * n);
  K->axpy_rows(k->dlambda, 0, -1, NULL, 0, u, n, m, n);
  /* k, v; what t < j leave there is nothing */
  K->mul_rows(k->vo, m, coefficients, c, k->vo, m, m, m);
  K->mul_rows(k->xk, m, coefficients, c, k->xk, m, m, m);
  K->mask_rows(k->vo, m, 0, m, m, -(ptrdiff_t)m, 1, 1);
  K->mask_rows(k->xk, m, 0, m, m, -(ptrdiff_t)m, 1, 1);
  miras__mesa_gemm(k, MIRAS__ADD | MIRAS__TN, k->dk, k->vo, x, m, n, m);
  miras__mesa_gemm(k, MIRAS__SUB | MIRAS__TN, k->dk, k->xk, k->z, m, n, m);
  miras__mesa_gemm(k, MIRAS__ADD | MIRAS__TN, k->dvalue, k->xk, k->dy, m, dv, m);
  /* G_0, H_0 */
  K->scale_rows(u, n, 1, b, 1, x, n, m, n);
  K->scale_rows(k->o, dv, 1, b, 1, k->dy, dv, m, dv);
  miras__mesa_gemm(k, MIRAS__ADD | MIRAS__TN, k->dg, x, k->o, n, dv, m);
  miras__mesa_gemm(k, MIRAS__SET | MIRAS__TN, k->square, k->z, u, n, n, m);
  K->transpose(k->turned, n, k->square, n, n, n);
  K->add(k->turned, k->square, n * n);
  K->axpy(k->dh, -0.5f, k->turned, n * n);
}

static void miras__mesa_backward(const miras__call *a) {
  const miras__kernels *K = a->K;
  const miras__plan *p = a->p;
  const miras__head_io *io = a->io;
  miras__mesa mesa, *k = &mesa;
  miras__rows rows, drows;
  const size_t length = (size_t)io->length;
  size_t c, n, dv, chunk;
  miras__mesa_begin(a, 1, k);
  c = k->c, n = k->features, dv = k->dv;
  rows = miras__rows_of(n, k->k, k->v, k->alpha, k->eta);
  drows = miras__rows_of(n, k->dk, k->dvalue, k->dalpha, k->deta);
  K->fill(k->dh, 0, (size_t)(k->dlambda - k->dh) + n);
  if (a->dstate) {
    K->transpose(k->dh, n, a->dstate, n, n, n);
    K->add(k->dh, a->dstate, n * n);
    K->scale(k->dh, 0.5f, k->dh, n * n);
    K->copy(k->dg, a->dstate + n * n, p->weights);
  }
  for (chunk = length / c + (length % c != 0); chunk-- > 0;) {
    const size_t t = chunk * c, m = length - t < c ? length - t : c;
    k->m = m;
    k->h = a->tape + chunk * p->tape_chunk;
    k->g = k->h + n * n;
    miras__rows_fwd(K, p, io, t, m, &rows);
    miras__mesa_rows(k);
    K->fill(k->dn, 0, (size_t)(k->dvalue - k->dn) + m * dv);
    if (m == c) miras__mesa_close_bwd(k);
    K->copy_rows(k->dy, dv, a->dy + t * a->lddy, a->lddy, m, dv);
    miras__mesa_chunk_bwd(k, k->g + p->weights);
    K->decay_rows_bwd(K, k->dn, c, k->db, k->dalpha, k->deta, k->n, k->b, k->alpha, m);
    if (a->g->q) miras__rows_queries(K, p, io, t, m, k->solve.u, n);
    miras__rows_queries_bwd(K, p, io, a->g, t, m, k->z, k->solve.u, n);
    miras__rows_bwd(K, p, io, a->g, t, m, &rows, &drows, NULL);
  }
  K->map(MIRAS__SIGMOID, k->solve.u, a->ridge, n);
  K->muladd(a->dridge, k->dlambda, k->solve.u, n);
  if (a->position == 0) {
    K->add(a->dinit, k->dg, p->weights);
    if (a->dstate) K->fill(a->dstate, 0, p->head_dstate);
  } else if (a->dstate) {
    K->copy(a->dstate, k->dh, n * n);
    K->copy(a->dstate + n * n, k->dg, p->weights);
  }
}

/* @54 ATTENTION ENGINE ------------------------------------------------------- needs 14 20 45 -- */

/* The nonparametric memory: the last `window` pairs themselves (w of them), and an answer that
 * minimises sum_i s_i 1/2 |v_i - y|^2 over y, which is softmax attention (Nadaraya and Watson):
 *   y_t = sum_i s_i v_i / sum_i s_i     s_i = exp(scale k_i . q_t)     t - w < i <= t
 * Pairs are taken in by blocks that lie on a grid counted from the start of the sequence, with the
 * running maximum of the scores and the running sum of weights (Milakov 2018, Dao 2022). So what a
 * token reads is one chain of operations over its own pairs, whether it came alone or among others.
 *
 * Scores are held transposed, S' = K Q' [pairs, queries]: then neither product repacks K or V, the
 * softmax runs across queries without a horizontal step, and a single query costs no more than its
 * reads of memory. Pairs outside a query's window are left out of its sums, not multiplied by 0.
 *
 * Several query heads may share one head of keys and values. A block of m tokens then has group * m
 * rows of queries, head after head, each with the window of its token. */

#define MIRAS__ATTENTION_BLOCK 64  /* pairs that are taken in between two looks at the maximum    */

/* One head of keys and values in a call, and the `group` query heads that read it, whose queries
 * and answers lie side by side in a token. Pairs before the call are in the ring, that of token t
 * in row t % window. */
typedef struct miras__attention {
  const miras__kernels *K;
  size_t key_dim, value_dim, window, group;
  size_t block;            /* tokens whose queries go together, up to MIRAS__ATTENTION_BLOCK     */
  float scale;
  uint64_t position;       /* of the first token                                                 */
  const miras__head_io *io;    /* k, v, q, y, surprise alone; no q: nothing is read              */
  float *ring_k, *ring_v;  /* [window, key_dim], [window, value_dim]; NULL if position is 0 and
                              nothing comes after                                                */
  float *tape;             /* [length, group, value_dim + 2] for the adjoint, or NULL: an answer,
                              the base of its scores, 1 / its sum of weights                     */
  float *tape_k, *tape_v;  /* like the ring, which they keep; not used if position is 0          */
  float *scratch;          /* of miras__attention_layout                                         */
  /* the adjoint */
  const float *dy;         /* like io->y, lddy floats between tokens                             */
  size_t lddy;
  const miras__head_grads *g;  /* k, v, q alone                                                  */
  float *dring_k, *dring_v;    /* of the ring after the call, then of that before it; or NULL    */
  /* pairs that every query sees, before its window */
  size_t persistent, ldp;      /* how many, and the floats between them; 0: what follows is not
                                  read                                                           */
  const float *pk, *pv;        /* the pairs                                                      */
  const float *still;          /* the queries that read them, and their gradients: like io->q    */
  float *dstill;
  float *dpk, *dpv;            /* like the pairs; added to                                       */
} miras__attention;

/* Scratch, R = group * block rows of queries. */
typedef struct miras__attention_work {
  float *pack;
  float *qt;               /* [key_dim, R] queries times scale, transposed                       */
  float *s;                /* [BLOCK, R] scores, then weights                                    */
  float *o;                /* [R, value_dim]                                                     */
  float *top, *sum;        /* [R] maximum; sum of weights                                        */
  float *k, *v;            /* [BLOCK, ..] pairs that do not lie together                         */
  /* backward only */
  float *q, *dq;           /* [R, key_dim] queries times scale; their cotangents                 */
  float *d, *dot;          /* [R, value_dim] cotangents of the answers; [value_dim, R] transposed */
  float *ds;               /* [BLOCK, R] cotangents of weights, then of scores                   */
  float *along;            /* [R] do . o                                                         */
} miras__attention_work;

#define MIRAS__WORK_ARRAYS(X)                                                                     \
  X(pack, MIRAS__PACK) X(qt, dk * rows) X(s, MIRAS__ATTENTION_BLOCK * rows) X(o, rows * dv)       \
  X(top, rows) X(sum, rows) X(k, MIRAS__ATTENTION_BLOCK * dk) X(v, MIRAS__ATTENTION_BLOCK * dv)
#define MIRAS__WORK_ARRAYS_BWD(X)                                                                 \
  X(q, rows * dk) X(dq, rows * dk) X(d, rows * dv) X(dot, dv * rows)                              \
  X(ds, MIRAS__ATTENTION_BLOCK * rows) X(along, rows)

#define MIRAS_X(name, floats) (uint16_t)offsetof(miras__attention_work, name),
static const uint16_t miras__attention_arrays[] = {
  MIRAS__WORK_ARRAYS(MIRAS_X) MIRAS__WORK_ARRAYS_BWD(MIRAS_X)
};
#undef MIRAS_X

/* The floats of a's scratch; and, where base is not NULL, its arrays. */
static size_t miras__attention_layout(const miras__attention *a, float *base, int backward,
                                      miras__attention_work *w) {
  const size_t dk = a->key_dim, dv = a->value_dim, rows = a->group * a->block;
  size_t arrays[MIRAS__COUNT(miras__attention_arrays)], *at = arrays, used;
#define MIRAS_X(name, floats) *at++ = floats;
  MIRAS__WORK_ARRAYS(MIRAS_X)
  if (backward) {
    MIRAS__WORK_ARRAYS_BWD(MIRAS_X)
  }
#undef MIRAS_X
  used = miras__lie(arrays, at, 0);
  if (base) miras__addresses(w, miras__attention_arrays, (size_t)(at - arrays), base, arrays);
  return used;
}

/* ---- pairs: token j >= 0 of the call, or j < 0 before it ---- */

/* Pairs that lie together. */
typedef struct miras__kv_run {
  const float *k, *v;
  size_t ldk, ldv, count;
} miras__kv_run;

/* The first pair of the sequence or of a window that starts at j, whichever is later. */
static ptrdiff_t miras__kv_oldest(const miras__attention *a, ptrdiff_t j) {
  return j < 0 && (uint64_t)-j > a->position ? -(ptrdiff_t)a->position : j;
}

/* One past the last pair of j's block on the grid. */
static ptrdiff_t miras__kv_block_end(const miras__attention *a, ptrdiff_t j) {
  const uint64_t at = j < 0 ? a->position - (uint64_t)-j : a->position + (uint64_t)j;
  return j + MIRAS__ATTENTION_BLOCK - (ptrdiff_t)(at % MIRAS__ATTENTION_BLOCK);
}

/* Row of the ring that pair j < 0 lies in. */
static size_t miras__kv_slot(const miras__attention *a, ptrdiff_t j) {
  return (size_t)((a->position - (uint64_t)-j) % a->window);
}

/* As many of the `count` pairs from j on as lie together. */
static miras__kv_run miras__kv_together(const miras__attention *a, ptrdiff_t j, size_t count) {
  miras__kv_run run;
  run.count = count;
  if (j >= 0) {
    run.k = a->io->k + (size_t)j * a->io->ldk;
    run.v = a->io->v + (size_t)j * a->io->ldv;
    run.ldk = a->io->ldk;
    run.ldv = a->io->ldv;
  } else {
    const size_t row = miras__kv_slot(a, j);
    run.k = a->ring_k + row * a->key_dim;
    run.v = a->ring_v + row * a->value_dim;
    run.ldk = a->key_dim;
    run.ldv = a->value_dim;
    if (run.count > a->window - row) run.count = a->window - row;
    if (run.count > (size_t)-j) run.count = (size_t)-j;
  }
  return run;
}

/* All of them, copied together where they are not. */
static miras__kv_run miras__kv_view(const miras__attention *a, const miras__attention_work *w,
                                    ptrdiff_t j, size_t count) {
  const size_t dk = a->key_dim, dv = a->value_dim;
  miras__kv_run run = miras__kv_together(a, j, count);
  size_t at = 0;
  if (run.count == count) return run;
  for (;;) {
    a->K->copy_rows(w->k + at * dk, dk, run.k, run.ldk, run.count, dk);
    a->K->copy_rows(w->v + at * dv, dv, run.v, run.ldv, run.count, dv);
    at += run.count;
    if (at == count) break;
    run = miras__kv_together(a, j + (ptrdiff_t)at, count - at);
  }
  run.k = w->k;
  run.v = w->v;
  run.ldk = dk;
  run.ldv = dv;
  run.count = count;
  return run;
}

/* The last `window` tokens of the call go into the ring. */
static void miras__kv_keep(const miras__attention *a) {
  const miras__head_io *io = a->io;
  const size_t dk = a->key_dim, dv = a->value_dim, window = a->window, length = (size_t)io->length;
  size_t t = length > window ? length - window : 0, n;
  for (; a->ring_k && t < length; t += n) {
    const size_t row = (size_t)((a->position + t) % window);
    n = length - t < window - row ? length - t : window - row;
    a->K->copy_rows(a->ring_k + row * dk, dk, io->k + t * io->ldk, io->ldk, n, dk);
    a->K->copy_rows(a->ring_v + row * dv, dv, io->v + t * io->ldv, io->ldv, n, dv);
  }
}

/* Its adjoint: dk, dv = what the ring says or 0. What it says of rows that held nothing before the
 * call goes nowhere. */
static void miras__kv_keep_bwd(const miras__attention *a) {
  const miras__kernels *K = a->K;
  const miras__head_grads *g = a->g;
  const size_t dk = a->key_dim, dv = a->value_dim, window = a->window;
  const size_t length = (size_t)a->io->length;
  size_t t = length > window ? length - window : 0, n;
  if (g->k) K->fill_rows(g->k, g->ldk, 0, length, dk);
  if (g->v) K->fill_rows(g->v, g->ldv, 0, length, dv);
  if (!a->dring_k) return;
  for (; t < length; t += n) {
    const size_t row = (size_t)((a->position + t) % window);
    n = length - t < window - row ? length - t : window - row;
    if (g->k) K->copy_rows(g->k + t * g->ldk, g->ldk, a->dring_k + row * dk, dk, n, dk);
    if (g->v) K->copy_rows(g->v + t * g->ldv, g->ldv, a->dring_v + row * dv, dv, n, dv);
    K->fill(a->dring_k + row * dk, 0, n * dk);
    K->fill(a->dring_v + row * dv, 0, n * dv);
  }
  if (a->position < window) {
    const size_t held = (size_t)a->position;
    K->fill(a->dring_k + held * dk, 0, (window - held) * dk);
    K->fill(a->dring_v + held * dv, 0, (window - held) * dv);
  }
}

/* ---- products over a band ---- */

/* Scores of `group` heads with m queries each against `count` pairs, `query` floats between
 * queries, heads behind each other, and `pair` between pairs: query i meets pairs i + lo <= k < i +
 * hi alone. */
typedef struct miras__band {
  size_t group, m, count, query, pair;
  ptrdiff_t lo, hi;
} miras__band;

/* C [rows, n] += A B over those k in 0..depth-1 with lo <= k - i < hi. */
typedef struct miras__strip {
  const miras__kernels *K;
  float *pack, *c;
  const float *a, *b;
  size_t rows, n, depth, ldc, ars, acs, ldb;
  ptrdiff_t lo, hi;
} miras__strip;

/* Rows i.., columns k.. of A; causal as in gemm. */
static void miras__strip_part(const miras__strip *x, ptrdiff_t i, size_t rows, ptrdiff_t k,
                              size_t depth, ptrdiff_t causal) {
  const float *from = x->a + (size_t)i * x->ars + (size_t)k * x->acs;
  x->K->gemm(miras__causal(MIRAS__ADD, (size_t)(causal + 1)), x->c + (size_t)i * x->ldc, x->ldc,
             miras__strided(from, x->ars, x->acs),
             miras__mat(x->b + (size_t)k * x->ldb, x->ldb), rows, x->n, depth, x->pack);
}

/* Each element adds in the order of k, strips of rows are only a schedule. */
static void miras__strip_product(const miras__strip *x) {
  const ptrdiff_t rows = (ptrdiff_t)x->rows, depth = (ptrdiff_t)x->depth, lo = x->lo, hi = x->hi;
  ptrdiff_t i, m, r;
  if (lo + rows - 1 <= 0) {
    i = hi < 1 ? 1 - hi : 0;                       /* rows before have nothing */
    if (i < rows)
      miras__strip_part(x, i, x->rows - (size_t)i, 0, x->depth, hi >= depth ? -1 : hi - 1 + i);
    return;
  }
  for (i = 0; i < rows; i += m) {
    ptrdiff_t from, to;
    m = rows - i < 8 ? rows - i : 8;
    from = i + m - 1 + lo > 0 ? i + m - 1 + lo : 0;     /* from..to is common to the strip */
    to = i + hi < depth ? i + hi : depth;
    if (from > to) from = to = depth;                   /* nothing is: all of it is before */
    for (r = i; r < i + m; r++) {
      const ptrdiff_t k = r + lo > 0 ? r + lo : 0, all = r + hi < depth ? r + hi : depth;
      const ptrdiff_t end = all < from ? all : from;
      if (k < end) miras__strip_part(x, r, 1, k, (size_t)(end - k), -1);
    }
    if (from < to) miras__strip_part(x, i, (size_t)m, from, (size_t)(to - from), -1);
    for (r = i; r < i + m; r++) {
      const ptrdiff_t k = r + lo > to ? r + lo : to, end = r + hi < depth ? r + hi : depth;
      if (k < end) miras__strip_part(x, r, 1, k, (size_t)(end - k), -1);
    }
  }
}

static int miras__band_whole(const miras__band *b) {
  return b->lo + (ptrdiff_t)b->m - 1 <= 0 && b->hi >= (ptrdiff_t)b->count;
}

/* C [group * m, n] += A B, A on the band and B [count, n]; or turned C [count, n] += A' B with B
 * [group * m, n]. */
static void miras__band_product(const miras__kernels *K, const miras__band *b, int turned, float *C,
                                size_t ldc, const float *A, const float *B, size_t ldb, size_t n,
                                float *pack) {
  const size_t m = b->m;
  miras__strip x = {K, pack, C, A, B, m, n, b->count, ldc, b->query, b->pair, ldb, b->lo, b->hi};
  size_t g;
  if (turned) {
    x.rows = b->count, x.depth = m;
    x.ars = b->pair, x.acs = b->query;
    x.lo = 1 - b->hi, x.hi = 1 - b->lo;
  } else if (miras__band_whole(b)) {
    miras__strip_part(&x, 0, b->group * m, 0, b->count, -1);
    return;
  }
  for (g = 0; g < b->group; g++) {
    miras__strip_product(&x);
    x.a += m * b->query;
    if (turned) x.b += m * ldb;
    else x.c += m * ldc;
  }
}

/* The band of queries from pair `newest` on against `count` pairs from j on, scores transposed. */
static miras__band miras__band_of(const miras__attention *a, size_t m, ptrdiff_t newest,
                                  ptrdiff_t j, size_t count) {
  const ptrdiff_t hi = newest - j + 1;
  const miras__band b = {a->group, m, count, 1, a->group * m, hi - (ptrdiff_t)a->window, hi};
  return b;
}

/* ---- answers ---- */

/* w->qt of tokens t..t+m-1 of q, which is io->q or like it. */
static void miras__attention_queries(const miras__attention *a, const miras__attention_work *w,
                                     const float *q, size_t t, size_t m) {
  const size_t rows = a->group * m, ldq = a->io->ldq;
  size_t g;
  for (g = 0; g < a->group; g++)
    a->K->transpose(w->qt + g * m, rows, q + t * ldq + g * a->key_dim, ldq, m, a->key_dim);
  a->K->scale(w->qt, a->scale, w->qt, a->key_dim * rows);
}

/* Pairs kv are taken in by the queries of a band. */
static void miras__attention_take(const miras__attention *a, const miras__attention_work *w,
                                  const miras__kv_run *kv, miras__band *b) {
  const miras__kernels *K = a->K;
  const size_t dk = a->key_dim, dv = a->value_dim, m = b->m, rows = a->group * m;
  size_t g;
  if (m == 1) {              /* a row of S per query is as good; 6 us per 1024 pairs, not 20 */
    K->gemm(MIRAS__SET, w->s, kv->count, miras__turned(w->qt, rows),
            miras__turned(kv->k, kv->ldk), rows, kv->count, dk, w->pack);
    K->online_softmax_rows(w->s, w->top, w->sum, w->o, dv, kv->count, rows);
    b->query = kv->count;
    b->pair = 1;
  } else {
    K->gemm(MIRAS__SET, w->s, rows, miras__mat(kv->k, kv->ldk), miras__mat(w->qt, rows), kv->count,
            rows, dk, w->pack);
    for (g = 0; g < a->group && !miras__band_whole(b); g++)
      K->mask_rows(w->s + g * m, rows, -HUGE_VALF, kv->count, m, 1 - b->hi, 1 - b->lo, 1);
    K->online_softmax(w->s, w->top, w->sum, w->o, dv, kv->count, rows);
  }
  miras__band_product(K, b, 0, w->o, dv, w->s, kv->v, kv->ldv, dv, w->pack);
}

/* The persistent pairs from `from` on, up to a block of them, and the band of m queries that see
 * all of them. */
static miras__kv_run miras__attention_persists(const miras__attention *a, size_t from, size_t m,
                                               miras__band *b) {
  const size_t left = a->persistent - from, at = from * a->ldp;
  miras__kv_run kv;
  kv.k = a->pk + at;
  kv.v = a->pv + at;
  kv.ldk = kv.ldv = a->ldp;
  kv.count = left < MIRAS__ATTENTION_BLOCK ? left : MIRAS__ATTENTION_BLOCK;
  b->group = a->group, b->m = m, b->count = kv.count;
  b->query = 1, b->pair = a->group * m;
  b->lo = -(ptrdiff_t)m, b->hi = (ptrdiff_t)kv.count;
  return kv;
}

/* Answers w->o [group, m, value_dim] to the queries of tokens t..t+m-1, delayed by 0 or 1: query i
 * reads pairs t + i - delay - window < j <= t + i - delay. Leaves the base of the scores in w->top
 * and 1 / sum in w->sum. */
static void miras__attention_answer(const miras__attention *a, const miras__attention_work *w,
                                    size_t t, size_t m, size_t delay) {
  const miras__kernels *K = a->K;
  const size_t dk = a->key_dim, dv = a->value_dim, rows = a->group * m;
  const ptrdiff_t newest = (ptrdiff_t)t - (ptrdiff_t)delay, last = newest + (ptrdiff_t)m;
  ptrdiff_t j, end;
  miras__kv_run kv;
  miras__band b;
  size_t g, p;
  K->fill(w->top, -HUGE_VALF, rows);
  K->fill(w->sum, 0, rows);
  K->fill(w->o, 0, rows * dv);
  if (a->persistent) miras__attention_queries(a, w, a->still, t, m);
  for (p = 0; p < a->persistent; p += kv.count) {
    kv = miras__attention_persists(a, p, m, &b);
    miras__attention_take(a, w, &kv, &b);
  }
  miras__attention_queries(a, w, a->io->q, t, m);
  for (j = miras__kv_oldest(a, newest - (ptrdiff_t)a->window + 1); j < last; j = end) {
    end = miras__kv_block_end(a, j);
    if (end > last) end = last;
    kv = miras__kv_view(a, w, j, (size_t)(end - j));
    b = miras__band_of(a, m, newest, j, kv.count);
    miras__attention_take(a, w, &kv, &b);
  }
  for (g = 0; g < a->group; g++)                   /* the first token has nothing to read */
    K->softmax_mean(K, w->o + g * m * dv, dv, w->top + g * m, w->sum + g * m, m,
                    a->position + t < delay ? a->io->q + t * a->io->ldq + g * dk : NULL, dk);
}

/* One read between tokens, as the last token would have read: o [group, value_dim] of io->q. */
static void miras__attention_look(const miras__attention *a, float *o) {
  miras__attention_work work;
  miras__attention_layout(a, a->scratch, 0, &work);
  miras__attention_answer(a, &work, 0, 1, 1);
  a->K->copy(o, work.o, a->group * a->value_dim);
}

/* All tokens of a call: answers, surprises, tape, ring. */
static void miras__attention_run(const miras__attention *a) {
  const miras__kernels *K = a->K;
  const miras__head_io *io = a->io;
  const size_t dv = a->value_dim, kept = dv + 2, ld = a->group * kept, length = (size_t)io->length;
  miras__attention own = *a;                       /* keys that read as queries, for surprises */
  miras__head_io own_io = *io;
  miras__attention_work work, *w = &work;
  size_t t, m, g;
  miras__attention_layout(a, a->scratch, 0, w);
  own.io = &own_io;
  own.group = 1;
  own_io.q = io->k;
  own_io.ldq = io->ldk;
  if (MIRAS__TRAINS && a->tape && a->position) {
    K->copy(a->tape_k, a->ring_k, a->window * a->key_dim);
    K->copy(a->tape_v, a->ring_v, a->window * dv);
  }
  for (t = 0; t < length; t += m) {
    m = length - t < a->block ? length - t : a->block;
    if (io->surprise) {                            /* 1/2 |v - M(k)|^2 before each write */
      miras__attention_answer(&own, w, t, m, 1);
      K->axpy_rows(w->o, dv, -1, NULL, 0, io->v + t * io->ldv, io->ldv, m, dv);
      K->dot_rows(0, io->surprise + t, 1, w->o, dv, w->o, dv, m, dv);
      K->scale(io->surprise + t, 0.5f, io->surprise + t, m);
    }
    if (!io->q) continue;
    miras__attention_answer(a, w, t, m, 0);
    for (g = 0; g < a->group; g++) {
      const float *o = w->o + g * m * dv;
      float *tape = MIRAS__TRAINS ? miras__to(a->tape, t * ld + g * kept) : NULL;
      K->copy_rows(io->y + t * io->ldy + g * dv, io->ldy, o, dv, m, dv);
      if (!tape) continue;
      K->copy_rows(tape, ld, o, dv, m, dv);
      K->copy_rows(tape + dv, ld, w->top + g * m, 1, m, 1);
      K->copy_rows(tape + dv + 1, ld, w->sum + g * m, 1, m, 1);
    }
  }
  miras__kv_keep(a);                               /* after all reads of the old rows */
}

/* Its adjoint for the queries of tokens t..t+m-1, with the weights p_ti = s_i / sum again from the
 * scores, their base and 1 / sum:
 *   dp_ti = do_t . v_i     ds_ti = p_ti (dp_ti - do_t . o_t)
 *   dq_t = scale sum_i ds_ti k_i     dk_i += scale sum_t ds_ti q_t     dv_i += sum_t p_ti do_t
 * dk or dv NULL: not wanted. */
static void miras__attention_take_bwd(const miras__attention *a, const miras__attention_work *w,
                                      const miras__kv_run *kv, const miras__band *b, float *to_k,
                                      size_t ldk, float *to_v, size_t ldv) {
  const miras__kernels *K = a->K;
  const size_t dk = a->key_dim, dv = a->value_dim, rows = a->group * b->m;
  K->gemm(MIRAS__SET, w->s, rows, miras__mat(kv->k, kv->ldk), miras__mat(w->qt, rows), kv->count,
          rows, dk, w->pack);
  K->gemm(MIRAS__SET, w->ds, rows, miras__mat(kv->v, kv->ldv), miras__mat(w->dot, rows), kv->count,
          rows, dv, w->pack);
  K->attend_bwd(w->s, w->ds, w->top, w->sum, w->along, kv->count, rows);
  miras__band_product(K, b, 0, w->dq, dk, w->ds, kv->k, kv->ldk, dk, w->pack);
  if (to_k) miras__band_product(K, b, 1, to_k, ldk, w->ds, w->q, dk, dk, w->pack);
  if (to_v) miras__band_product(K, b, 1, to_v, ldv, w->s, w->d, dv, dv, w->pack);
}

/* What queries q need, and what they receive: their cotangents, like q. */
static void miras__attention_queries_bwd(const miras__attention *a, const miras__attention_work *w,
                                         const float *q, size_t t, size_t m) {
  const size_t dk = a->key_dim, ldq = a->io->ldq;
  size_t g;
  miras__attention_queries(a, w, q, t, m);
  a->K->fill(w->dq, 0, a->group * m * dk);
  for (g = 0; g < a->group; g++)
    a->K->scale_rows(w->q + g * m * dk, dk, a->scale, NULL, 0, q + t * ldq + g * dk, ldq, m, dk);
}

static void miras__attention_receive(const miras__attention *a, const miras__attention_work *w,
                                     float *dq, size_t t, size_t m) {
  const size_t dk = a->key_dim, ldq = a->g->ldq;
  size_t g;
  for (g = 0; g < a->group && dq; g++)
    a->K->scale_rows(dq + t * ldq + g * dk, ldq, a->scale, NULL, 0, w->dq + g * m * dk, dk, m, dk);
}

/* All pairs. */
static void miras__attention_block_bwd(const miras__attention *a, const miras__attention_work *w,
                                       size_t t, size_t m) {
  const miras__kernels *K = a->K;
  const size_t dk = a->key_dim, dv = a->value_dim, rows = a->group * m, ld = a->group * (dv + 2);
  const ptrdiff_t last = (ptrdiff_t)(t + m);
  const miras__head_grads *to = a->g;
  ptrdiff_t j, end;
  miras__kv_run kv;
  miras__band b;
  size_t g, p;
  for (g = 0; g < a->group; g++) {
    const float *tape = a->tape + t * ld + g * (dv + 2);
    float *d = w->d + g * m * dv;
    K->copy_rows(d, dv, a->dy + t * a->lddy + g * dv, a->lddy, m, dv);
    K->transpose(w->dot + g * m, rows, d, dv, m, dv);
    K->dot_rows(0, w->along + g * m, 1, d, dv, tape, ld, m, dv);
    K->copy_rows(w->top + g * m, 1, tape + dv, ld, m, 1);
    K->copy_rows(w->sum + g * m, 1, tape + dv + 1, ld, m, 1);
  }
  if (a->persistent) miras__attention_queries_bwd(a, w, a->still, t, m);
  for (p = 0; p < a->persistent; p += kv.count) {
    kv = miras__attention_persists(a, p, m, &b);
    miras__attention_take_bwd(a, w, &kv, &b, a->dpk + p * a->ldp, a->ldp, a->dpv + p * a->ldp,
                              a->ldp);
  }
  if (a->persistent) miras__attention_receive(a, w, a->dstill, t, m);
  miras__attention_queries_bwd(a, w, a->io->q, t, m);
  for (j = miras__kv_oldest(a, (ptrdiff_t)t - (ptrdiff_t)a->window + 1); j < last; j = end) {
    size_t ldk = to->ldk, ldv = to->ldv;
    float *pk, *pv;                                /* cotangents of the pairs */
    end = miras__kv_block_end(a, j);
    if (end > last) end = last;
    kv = miras__kv_together(a, j, (size_t)(end - j));
    end = j + (ptrdiff_t)kv.count;
    if (j < 0) {
      const size_t slot = miras__kv_slot(a, j);
      pk = miras__to(a->dring_k, slot * (ldk = dk));
      pv = miras__to(a->dring_v, slot * (ldv = dv));
    } else {
      pk = miras__to(to->k, (size_t)j * ldk);
      pv = miras__to(to->v, (size_t)j * ldv);
    }
    b = miras__band_of(a, m, (ptrdiff_t)t, j, kv.count);
    miras__attention_take_bwd(a, w, &kv, &b, pk, ldk, pv, ldv);
  }
  miras__attention_receive(a, w, to->q, t, m);
}

/* All tokens; pairs before the call are those of tape_k, tape_v. What came in for rows of the ring
 * goes to the call's tokens, what remains belongs to pairs that were there before. */
static void miras__attention_run_bwd(const miras__attention *a) {
  miras__attention before = *a;
  miras__attention_work work;
  const size_t length = (size_t)a->io->length;
  size_t t, m;
  miras__attention_layout(a, a->scratch, 1, &work);
  before.ring_k = a->tape_k;
  before.ring_v = a->tape_v;
  miras__kv_keep_bwd(a);
  for (t = 0; t < length; t += m) {
    m = length - t < a->block ? length - t : a->block;
    miras__attention_block_bwd(&before, &work, t, m);
  }
}

/* ---- the memory: a group of one ---- */

static void miras__attention_sizes(const miras__plan *p, miras__attention *a) {
  const miras_desc *d = &p->d;
  a->key_dim = (size_t)d->key_dim;
  a->value_dim = (size_t)d->value_dim;
  a->window = (size_t)d->window;
  a->group = 1;
  a->block = d->chunk < MIRAS__ATTENTION_BLOCK ? (size_t)d->chunk : MIRAS__ATTENTION_BLOCK;
  a->scale = 1 / sqrtf((float)d->key_dim);
  a->persistent = 0;
}

/* Its part of the plan: where the state of a head has what, sizes of tape and scratch. Returns the
 * floats of a state. */
static MIRAS__COLD size_t miras__attention_plan(miras__plan *p) {
  miras__attention a;
  miras__attention_sizes(p, &a);
  p->at_d[0] = miras__pad(a.window * a.key_dim);
  p->split = a.window * a.key_dim;
  p->second = p->at_d[0];
  p->head_dstate = a.window * (a.key_dim + a.value_dim);
  p->tape_once = p->head_dstate;
  p->tape_chunk = a.value_dim + 2;
  p->tape_tokens = 1;
  p->scratch = miras__attention_layout(&a, NULL, 0, NULL);
  p->scratch_backward = MIRAS__TRAINS ? miras__attention_layout(&a, NULL, 1, NULL) : p->scratch;
  return p->at_d[0] + miras__pad(a.window * a.value_dim);
}

static void miras__attention_of(const miras__call *c, miras__attention *a) {
  miras__attention_sizes(c->p, a);
  a->K = c->K;
  a->position = c->position;
  a->io = c->io;
  a->ring_k = c->state;
  a->ring_v = miras__to(c->state, c->p->at_d[0]);
  a->scratch = c->scratch;
  if (!MIRAS__TRAINS) return;
  a->tape = miras__to(c->tape, c->p->tape_once);
  a->tape_k = c->tape;
  a->tape_v = miras__to(c->tape, a->window * a->key_dim);
}

static void miras__attention_forward(const miras__call *c) {
  miras__attention a;
  miras__attention_of(c, &a);
  miras__attention_run(&a);
}

static void miras__attention_backward(const miras__call *c) {
  miras__attention a;
  miras__attention_of(c, &a);
  a.dy = c->dy;
  a.lddy = c->lddy;
  a.g = c->g;
  a.dring_k = c->dstate;
  a.dring_v = miras__to(c->dstate, a.window * a.key_dim);
  miras__attention_run_bwd(&a);
}

static void miras__attention_read(const miras__call *c, const float *q, float *o) {
  miras__attention a;
  miras__head_io io;
  miras__attention_of(c, &a);
  a.io = &io;
  io.q = q;
  io.ldq = 0;
  miras__attention_look(&a, o);
}

/* @56 ENGINE TABLE -------------------------------------------------------- needs 50 51 53 54 -- */

/* An engine: the macro that leaves it out, its part of a plan, a run over tokens, its adjoint, and
 * a read between tokens. */
typedef struct miras__engine {
  const char *macro;
  size_t (*plan)(miras__plan *p);
  void (*forward)(const miras__call *a);
  void (*backward)(const miras__call *a);
  void (*read)(const miras__call *a, const float *q, float *o);
} miras__engine;

static const miras__engine miras__engines[] = {   /* in the order of MIRAS__RUN_... */
  {"MIRAS_NO_EXACT", MIRAS__EXACT(miras__exact_plan), MIRAS__EXACT(miras__exact_forward),
   MIRAS__EXACT_BACK(miras__exact_backward), MIRAS__EXACT(miras__exact_read_at)},
  {"MIRAS_NO_FROZEN", MIRAS__FROZEN(miras__frozen_plan), MIRAS__FROZEN(miras__frozen_forward),
   MIRAS__FROZEN_BACK(miras__frozen_backward), MIRAS__FROZEN(miras__frozen_read)},
  {"MIRAS_NO_MESA", MIRAS__MESA(miras__mesa_plan), MIRAS__MESA(miras__mesa_forward),
   MIRAS__MESA_BACK(miras__mesa_backward), MIRAS__MESA(miras__mesa_read)},
  {"MIRAS_NO_ATTENTION", MIRAS__PAIRS(miras__attention_plan),
   MIRAS__PAIRS(miras__attention_forward), MIRAS__PAIRS_BACK(miras__attention_backward),
   MIRAS__PAIRS(miras__attention_read)}
};

/* And what states are, to those who look into them between tokens. live: what dstate is the
 * gradient of, in an open chunk; clear: nothing is open any more, what was put into the state as if
 * the chunk were closed is what the next token sees; weights_of: with links, the weights of a dual
 * state. */
typedef struct miras__between_tokens {
  void (*live)(const miras__call *a, float *values);
  void (*clear)(const miras__call *a);
  void (*weights_of)(const miras__kernels *K, const miras__plan *p, float *w, const float *a,
                     const float *b, float *inv);
} miras__between_tokens;

static const miras__between_tokens miras__states_of[] = {
  {MIRAS__EXACT(miras__exact_live), MIRAS__EXACT(miras__exact_clear), NULL},
  {MIRAS__FROZEN(miras__frozen_live), MIRAS__FROZEN(miras__frozen_clear),
   MIRAS__FROZEN(miras__weights_of)},
  {MIRAS__MESA(miras__mesa_live), MIRAS__MESA(miras__mesa_clear), NULL},
  {NULL, NULL, NULL}
};

/* ---- one head ----
 *
 * The engines know nothing of resets: they begin at position 0, and that is what a head does when
 * it starts anew. Here a call is cut into stretches, each at its position since the last reset. */

/* A call, or its adjoint with the stretches in reverse. */
static void miras__head_run(const miras__call *a, int backward) {
  const miras__engine *engine = &miras__engines[a->p->engine];
  void (*const stretch)(const miras__call *a) = backward ? engine->backward : engine->forward;
  const miras_desc *d = &a->p->d;
  const size_t length = (size_t)a->io->length, head = a->io->head, every = (size_t)d->reset_every;
  const size_t first = miras__stretch(d, head, a->position, length);
  const size_t others = first < length ? (length - first - 1) / every + 1 : 0;
  miras__call run = *a;
  size_t i;
  if (!every) {
    stretch(a);
    return;
  }
  for (i = 0; i <= others; i++) {
    const size_t n = backward ? others - i : i, t = n ? first + (n - 1) * every : 0;
    const size_t end = n < others ? first + n * every : length;
    miras__head_io io = *a->io;
    miras__head_grads grads;
    miras__inputs_on(&io, t);
    io.length = (int)(end - t);
    io.y = miras__to(io.y, t * io.ldy);
    io.surprise = miras__to(io.surprise, t);
    run.io = &io;
    run.position = miras__since(d, head, a->position + (uint64_t)t);
    if (MIRAS__TRAINS && n && a->tape)
      run.tape = a->tape + miras__stretch_tape(a->p, first) +
                 (n - 1) * miras__stretch_tape(a->p, every);
    else run.tape = a->tape;
    if (MIRAS__TRAINS && backward) {
      grads = *a->g;
      miras__inputs_on(&grads, t);
      run.g = &grads;
      run.dy = miras__at(a->dy, t * a->lddy);
    }
    stretch(&run);
  }
}

/* Run one head of one sequence over its tokens; a->position is that of the first in the sequence.
 * io->q NULL: no reads. With a tape, position must lie on the chunk grid. */
static void miras__head_forward(const miras__call *a) { miras__head_run(a, 0); }

/* The gradient of head_forward; init and position as in that call. Gradients of tokens are
 * overwritten, those of outer parameters are added to. dinit receives what the initial memory did
 * at position 0, and where decays lead towards it what it did since. A stretch that begins at a
 * reset leaves dstate at zeros, because its part went to dinit, and with these the stretch before
 * it begins. */
static void miras__head_backward(const miras__call *a) { miras__head_run(a, 1); }

/* One read between tokens: what a query at this point of the sequence would see of head `head`. */
static void miras__head_read(const miras__call *a, size_t head, const float *q, float *o) {
  miras__call run = *a;
  run.position = miras__since_read(&a->p->d, head, a->position);
  miras__engines[a->p->engine].read(&run, q, o);
}

#endif   /* region F */

#ifdef MIRAS__IMPLEMENTING
/* @57 MAKING PLANS -------------------------------------------------------------- needs 14 56 -- */

/* What the host alone does: which engine runs a descriptor, what its choices say of rows and
 * layers, and every size. */

/* What the exact engine knows of the choices. */
static void miras__plan_exact(miras__plan *p) {
  const miras_desc *d = &p->d;
  p->square = d->bias == MIRAS_L2;
  p->delta = p->square && !d->diagonal;
  p->after = d->order == MIRAS_DECAY_FIRST;
  p->implicit = d->algorithm == MIRAS_IMPLICIT || d->bounded_step;
  p->per_feature = d->keep_gate == MIRAS_GATE_CHANNEL || d->diagonal;
  p->value_decay = d->value_gate != MIRAS_GATE_CONSTANT;
  p->pulls = d->toward != MIRAS_TOWARD_NOTHING;
  p->streams = d->separate_erase ? 2 : 1;
  if (p->per_feature) p->decays = p->features;
  if (d->step_gate == MIRAS_GATE_CHANNEL) p->rates = (size_t)d->value_dim;
}

/* Why a build without an engine has not got this memory. */
static miras_result miras__say_missing(char *why, size_t n, const miras_desc *d,
                                       const char *macro) {
  static const char *const choices[] = {"architecture", "bias", "retention", "algorithm"};
  miras__case c;
  int i;
  memset(&c, 0, sizeof c);
  c.l.memory = *d;
  for (i = 0; i < 4; i++) {
    miras__say(why, n, i > 1 ? ", " : i ? " with " : "");
    miras__say_value(why, n, &c, miras__named(choices[i]), i ? " " : " is ");
  }
  miras__say(why, n, "; this build leaves out the engine that runs it (%s)", macro);
  return MIRAS_ERR_DESC;
}

/* Every product below is checked once, here; inner loops rely on it. */
static MIRAS__COLD miras_result miras__plan_make(miras__plan *p, const miras_desc *d, char *why,
                                                 size_t n) {
  miras_result result;
  size_t c, state = 0, limit = (size_t)-1 / 64, total;
  double floats = 0;
  int l, exact;
  if (why && n) why[0] = 0;
  if (!d)
    return miras__say(why, n, "the descriptor is NULL"), MIRAS_ERR_ARGUMENT;
  memset(p, 0, sizeof *p);
  p->d = *d;
  result = miras__desc_resolve(&p->d, why, n);
  if (result != MIRAS_OK) return result;
  d = &p->d;
  p->engine = d->architecture == MIRAS_KV_CACHE ? MIRAS__RUN_ATTENTION :
              d->algorithm == MIRAS_LEAST_SQUARES ? MIRAS__RUN_MESA :
              miras__is_exact(d) ? MIRAS__RUN_EXACT : MIRAS__RUN_FROZEN;
  if (!miras__engines[p->engine].plan)
    return miras__say_missing(why, n, d, miras__engines[p->engine].macro);
  exact = p->engine == MIRAS__RUN_EXACT;
  p->decays = p->rates = 1;
  p->both = d->retention == MIRAS_RETAIN_L2_BOTH;
  p->bounds = d->threshold_gate == MIRAS_GATE_CHANNEL ? (size_t)d->value_dim : 1;
  p->features = (size_t)miras__features(d);
  p->map = (int)d->feature + 16 * (int)d->key_length;
  if (exact) miras__plan_exact(p);
  p->channel = p->engine == MIRAS__RUN_FROZEN && (d->keep_gate == MIRAS_GATE_CHANNEL ||
                                                  d->step_gate == MIRAS_GATE_CHANNEL);
  if (p->channel) p->decays = p->rates = (size_t)d->value_dim;
  /* A bias is a weight of an input that is always 1. A vector memory x (.) w is nothing else: one
   * layer without other inputs, whose answer w the key then scales. */
  p->ones = d->inner_bias || d->architecture == MIRAS_VECTOR;
  p->layers = d->architecture == MIRAS_MLP ? d->depth : d->architecture == MIRAS_GATED_MLP ? 3 :
              d->architecture == MIRAS_KV_CACHE ? 0 : 1;
  p->widest = d->key_dim > d->value_dim ? d->key_dim : d->value_dim;
  p->span = c = d->chunk == 1 ? 1 : (size_t)d->chunk * (size_t)d->descents;
  for (l = 0; l < p->layers; l++) {
    int hidden = d->key_dim * (p->layers > 1 ? d->expansion : 1);
    p->from[l] = d->architecture == MIRAS_GATED_MLP && l == 1 ? 0 : l;
    p->in[l] = p->from[l] == 0 ? miras__features(d) : hidden;
    if (d->architecture == MIRAS_VECTOR) p->in[l] = 0;
    p->in[l] += p->ones;
    p->out[l] = l == p->layers - 1 ? d->value_dim : hidden;
    if (p->in[l] > p->widest) p->widest = p->in[l];
    if (p->out[l] > p->widest) p->widest = p->out[l];
    p->offset[l] = p->weights;
    p->weights += (size_t)p->in[l] * (size_t)p->out[l];
    floats += (double)p->in[l] * (double)p->out[l];
  }
  if (d->normalise) p->weights += p->features;
  if (p->engine == MIRAS__RUN_MESA) floats += (double)p->in[0] * (double)p->in[0];
  if (p->engine == MIRAS__RUN_ATTENTION)
    floats = (double)d->window * ((double)d->key_dim + (double)d->value_dim);
  /* A generous bound in floating point first: everything below is a small multiple of it. */
  if (exact)
    c = (size_t)(d->chunk < MIRAS__BLOCK ? 2 * MIRAS__BLOCK : d->chunk) * (size_t)d->descents;
  floats = 16 * floats + 64 * (double)c * ((double)c + (double)p->widest) + 1e6;
  floats *= (double)d->heads;
  if (floats * 4 >= (double)limit || floats * (double)d->batch * 4 >= (double)limit)
    return miras__say(why, n,
                      "the memory needs about %g floats, more than this machine can address",
                      floats * (double)d->batch), MIRAS_ERR_DESC;
  p->params = (size_t)d->heads * p->weights;
  if (d->inner_norm) p->params += 2 * (size_t)d->heads * (size_t)d->value_dim;
  p->at_rho = p->params;
  if (d->row_rates) p->params += (size_t)d->chunk;
  p->head_dstate = d->algorithm == MIRAS_MOMENTUM ? 2 * p->weights : p->weights;
  state = miras__engines[p->engine].plan(p);
  p->at_spare = p->scratch;
  if (d->chunk > 1 && p->engine != MIRAS__RUN_ATTENTION) p->scratch += miras__pad(p->head_dstate);
  else if (p->init_mapped) p->scratch += miras__pad(p->weights);
  if (p->scratch_backward < p->scratch) p->scratch_backward = p->scratch;
  p->head_state = miras__pad(state);
  if (!miras__size_mul(p->head_state, (size_t)d->heads, &total) ||
      !miras__size_add(total, 16, &total))
    return miras__say(why, n, "the state is larger than this machine can address"), MIRAS_ERR_DESC;
  p->sequence_state = total;
  return MIRAS_OK;
}

/* The outer parameters of all heads, among zeros. */
static MIRAS__COLD void miras__plan_init_params(const miras__plan *p, float *init, float *gain) {
  static void (*const of_engines[])(const miras__plan *p, float *init, float *gain) = {
    NULL, MIRAS__FROZEN(miras__frozen_params), MIRAS__MESA(miras__mesa_params), NULL
  };
  if (of_engines[p->engine]) of_engines[p->engine](p, init, gain);
}

#endif   /* region G */

#if (defined(MIRAS__DEVICE) && MIRAS__DEVICE == 3) || defined(MIRAS__IMPLEMENTING)
/* @58 HEADS OF A MEMORY --------------------------------------------------- needs 14 15 20 56 -- */

/* Where an object lies: its first member. */
typedef struct miras__storage {
  miras_allocator allocator;         /* alloc NULL: the buffer is the caller's                   */
  void *buffer;
  size_t bytes;
  uint64_t limit;                    /* of a file that is loaded into it, or 0 (room @85)        */
} miras__storage;

struct miras_memory {
  miras__storage own;
  miras__plan plan;
  float *params, *state, *scratch;
  size_t state_bytes;
  float *keep;                       /* [heads] constant keep gates                              */
  float *losses;                     /* [batch, heads] surprise of a write                       */
  uint32_t width[MIRAS__INPUT_COUNT];   /* numbers per token and head of every input (room @15)  */
  size_t inputs;                     /* one past the last there is: 3 if no token brings gates   */
};

/* Tokens so far: what a sequence's state begins with. */
static uint64_t miras__position(const void *state) {
  uint64_t position;
  memcpy(&position, state, sizeof position);
  return position;
}

/* Head h, of tokens from `first` on, has in `to`, which is zeros, what all have from `key` on. */
MIRAS__INLINE void miras__memory_inputs(const miras_memory *m, const void *key, size_t first,
                                        size_t h, void *to) {
  const size_t heads = (size_t)m->plan.d.heads;
  size_t i;
  for (i = 0; i < m->inputs; i++) {
    const size_t width = m->width[i], ld = heads * width;
    if (!width) continue;
    miras__input_set(to, i, miras__to(miras__input(key, i), first * ld + h * width), ld);
  }
}

/* The gates that tokens do not bring; those that the algorithm or bias do not have are NULL. */
static void miras__constant_gates(const miras_desc *d, const float *keep, miras__head_io *io) {
  if (!d->keep_gate) io->keep = keep;
  if (!d->step_gate) io->step = &d->step;
  if (!d->momentum_gate && d->algorithm == MIRAS_MOMENTUM) io->momentum = &d->momentum;
  if (!d->threshold_gate && miras__has_threshold(d->bias)) io->threshold = &d->threshold;
}

/* The io of head h of sequence b; without tokens every pointer may be NULL. */
static void miras__memory_io(const miras_memory *m, const miras_tokens *x, int b, int h,
                             miras__head_io *io) {
  const miras_desc *d = &m->plan.d;
  const size_t H = (size_t)h;
  memset(io, 0, sizeof *io);
  io->length = x->length;
  io->head = H;
  io->ldy = (size_t)d->heads * (size_t)d->value_dim;
  miras__memory_inputs(m, &x->key, (size_t)b * (size_t)x->length, H, io);
  io->rho = d->row_rates ? m->params + m->plan.at_rho : NULL;
  miras__constant_gates(d, m->keep + H, io);
}

/* Head h of sequence b: its outer parameters and its state. */
static void miras__memory_head(const miras_memory *m, size_t b, size_t h, miras__call *a) {
  const miras__plan *p = &m->plan;
  const size_t heads = (size_t)p->d.heads, dv = (size_t)p->d.value_dim;
  const float *gain = m->params + heads * p->weights + h * dv;
  float *state = m->state + b * p->sequence_state;
  a->gain = a->bias = a->ridge = a->dy = NULL;   /* memset takes 13 ns of a write of 160 */
  a->tape = a->dinit = a->dgain = a->dbias = a->dridge = a->dstate = NULL;
  a->io = NULL;
  a->g = NULL;
  a->lddy = 0;
  a->K = miras__kernels_best();
  a->p = p;
  a->init = m->params + h * p->weights;
  if (p->d.inner_norm) a->gain = gain, a->bias = gain + heads * dv;
  if (p->engine == MIRAS__RUN_MESA)
    a->ridge = m->params + heads * p->weights + h * (size_t)p->in[0];
  a->state = state + 16 + h * p->head_state;
  a->scratch = m->scratch;
  memcpy(&a->position, state, sizeof a->position);
}

/* A call on all heads of all sequences: task i is head i % heads of sequence i / heads. */
typedef struct miras__memory_call {
  miras_memory *m;
  const miras_tokens *x;
  float *y, *tape, *losses;            /* y, losses may be NULL                                  */
  size_t per;                          /* floats of tape that a head keeps                       */
  /* the adjoint */
  const miras_token_grads *dx;
  const float *dy;
  float *dstate, *scratch, *parts;     /* per worker; per head, `part` floats                    */
  size_t part;
} miras__memory_call;

static void miras__memory_forward(void *argument, int index, int worker) {
  const miras__memory_call *c = (const miras__memory_call *)argument;
  const miras__plan *p = &c->m->plan;
  const size_t heads = (size_t)p->d.heads, b = (size_t)index / heads, h = (size_t)index % heads;
  miras__head_io io;
  miras__call run;
  miras__memory_io(c->m, c->x, (int)b, (int)h, &io);
  if (c->y)
    io.y = c->y + (b * (size_t)c->x->length * heads + h) * (size_t)p->d.value_dim;
  if (c->losses) io.surprise = c->losses + index;
  miras__memory_head(c->m, b, h, &run);
  run.io = &io;
  run.scratch += (size_t)worker * p->scratch;
  run.tape = miras__to(c->tape, 16 + (size_t)index * c->per);
  miras__head_forward(&run);
}

#ifndef MIRAS_NO_TRAINING
static void miras__memory_backward(void *argument, int index, int worker) {
  const miras__memory_call *c = (const miras__memory_call *)argument;
  const miras__plan *p = &c->m->plan;
  const miras_desc *d = &p->d;
  const size_t heads = (size_t)d->heads, b = (size_t)index / heads, h = (size_t)index % heads;
  const size_t first = b * (size_t)c->x->length, dv = (size_t)d->value_dim;
  miras__head_io io;
  miras__head_grads g;
  miras__call run;
  miras__memory_io(c->m, c->x, (int)b, (int)h, &io);
  memset(&g, 0, sizeof g);
  miras__memory_inputs(c->m, &c->dx->key, first, h, &g);
  miras__memory_head(c->m, b, h, &run);
  run.io = &io;
  run.g = &g;
  run.tape = c->tape + 16 + (size_t)index * c->per;
  run.scratch = c->scratch + (size_t)worker * p->scratch_backward;
  memcpy(&run.position, c->tape, sizeof run.position);
  run.dy = miras__at(c->dy, (first * heads + h) * dv);
  run.lddy = heads * dv;
  run.dinit = c->parts + (size_t)index * c->part;
  run.dgain = run.dridge = run.dinit + p->weights;
  run.dbias = run.dgain + p->widest;
  if (d->row_rates) g.rho = run.dbias + p->widest;
  run.K->fill(run.dinit, 0, c->part);
  run.dstate = miras__to(c->dstate, (size_t)index * p->head_dstate);
  miras__head_backward(&run);
}

/* dparams += what the heads h have left in their sequences, in one order, whoever made it. */
static void miras__memory_collect(const miras__memory_call *c, size_t h, float *dparams) {
  const miras_memory *m = c->m;
  const miras__plan *p = &m->plan;
  const size_t heads = (size_t)p->d.heads, batch = (size_t)p->d.batch;
  size_t b;
  for (b = 0; b < batch; b++) {
    const float *part = c->parts + (b * heads + h) * c->part, *gain = part + p->weights;
    miras__call run;
    miras__memory_head(m, b, h, &run);
    run.K->add(dparams + (run.init - m->params), part, p->weights);
    if (run.gain) run.K->add(dparams + (run.gain - m->params), gain, (size_t)p->d.value_dim);
    if (run.bias)
      run.K->add(dparams + (run.bias - m->params), gain + p->widest, (size_t)p->d.value_dim);
    if (run.ridge) run.K->add(dparams + (run.ridge - m->params), gain, (size_t)p->in[0]);
  }
}

/* And the rates of rows, which all heads share. */
static void miras__memory_collect_rates(const miras__memory_call *c, float *dparams) {
  const miras__plan *p = &c->m->plan;
  const size_t tasks = p->d.row_rates ? (size_t)p->d.heads * (size_t)p->d.batch : 0;
  size_t i;
  for (i = 0; i < tasks; i++)
    miras__kernels_best()->add(dparams + p->at_rho,
                               c->parts + i * c->part + p->weights + 2 * p->widest,
                               (size_t)p->d.chunk);
}
#endif

#endif   /* region H */

#ifdef MIRAS__IMPLEMENTING
/* @72 RESULTS ---------------------------------------------------------------------- needs 05 -- */

MIRAS_API const char *miras_result_text(miras_result result) {
  static const char *const texts[] = {
#define MIRAS_X(name, text) text,
    MIRAS_RESULTS(MIRAS_X)
#undef MIRAS_X
  };
  return (unsigned)result >= MIRAS_RESULT_COUNT ? "unknown result" : texts[result];
}

/* @73 THE TABLE OF PUBLISHED MODELS ------------------------------------------------ needs 10 -- */

/* One row per model: its four choices; then the fields that follow from it always, those of a layer
 * inside a model, and those of a memory on its own. Inside a model gates are learned, and
 * perceptrons take chunks of 16; alone gates are constants and the chunk is 1. No engine knows a
 * name.
 *
 * Where a row inside a model is not its paper's to the letter: Titans gets the MIRAS models' layer
 * norm and residual; TTT's keys have length 1, so its steps are larger, and it has a keep gate,
 * without which it fills up; a softened Huber corner (sharpness 2), which begins at
 * 3 sqrt(value_dim), above what |r| is, because beyond it the mixture writes sqrt(value_dim) times
 * as much; q = 2.5 instead of 4 for Moneta: W = A / ||A||_q^(q-2) has degree 3 - q in A, so with
 * 4 what writing adds to A shrinks W, with 3 its size cannot change, and below 3 it can follow
 * (16 pairs, keys of length sqrt(key_dim): recalled 0.99 after 800 steps, with q = 4 0.43 after
 * 6,000, q = 3 0.04 after 1,400); signed weights for Memora and logits in its chunks (0.9 of 8
 * pairs recalled after 400 steps, with positive ones after 1,500), on a simplex so large that what
 * windows write leaves room (16 pairs: 0.99 after 1,400 steps, with 64 instead of 256 0.14); HGRN2
 * without lower bounds that grow with the layer; linear attention with the identity as feature map
 * and no normaliser. All but HGRN2's are fields to change.
 *
 * Perceptrons inside a model begin with steps at which they remember and with horizons from 128
 * tokens on, and decay leads to the initial memory, which is trained: so what they hold stays as
 * full as windows have shown it, however long the text.
 *
 * Alone no network has learned to feed a memory what suits it. There the rows leave their papers'
 * layers where that is what it takes to store any ordinary pair and to survive the others (room
 * @01 has what they hold):
 *   keys         have length 1, because the largest step that does not overshoot goes with 1/|k|^2.
 *                TTT's have entries of size 1, beside its biases' input of 1: at length 1 half of
 *                every write would go to the biases, which all keys share. Not of attention, whose
 *                scores would flatten, nor of RWKV-7, where the length of key, erase and replace is
 *                what says how much
 *   steps        are bounded, and mostly so large that the bound rules: a write nearly stores its
 *                pair. Yaad's is small, because beyond its threshold the step is what a single wild
 *                pair can do. So is Titans', whose momentum makes 1/(1 - momentum) of every write,
 *                and is 1/4 instead of 1/2: with a half it would swing for ten writes
 *                (bounded_step 2 where two layers move freely; Yaad's threshold does as much, and
 *                with 1 what it has just written amid new pairs is at 0.76 of |v| instead of 0.85)
 *   inner norm   none, which would fix the size of what the memory can say
 *   decay        leads to the initial memory. TTT has none in its paper; here it has that of the
 *                other perceptrons, because a deep memory that forgets nothing fills up
 *   Moneta       the gradient of |r|^3 vanishes as r^2, which the step of 1000 makes up for; the
 *                bound of p = 3 halves a write
 *   Memora       signed weights: positive ones that sum to a constant cannot say anything negative
 *                without a norm behind them, and the simplex must be far larger than what is stored
 *                or the slices saturate
 *   Mesa         ridge 0.1: one write of a pair recalls 1 of 1.1 of it. With less, rounding is in
 *                the answers of keys that are nearly alike
 *   linear attention   squares of positive entries as features and a normaliser: an average of
 *                values instead of a sum that grows with every write
 *   Lightning    the decay of MiniMax-01: a single head of the first has none */
typedef struct miras__setting {
  uint16_t at;                      /* of a field of miras_layer_desc; 0 ends a list              */
  unsigned char size, real;         /* a float, else an int or an enum                            */
  float value;
} miras__setting;

typedef struct miras__row {
  const char *name;
  miras_architecture architecture;
  miras_bias bias;
  miras_retention retention;
  miras_algorithm algorithm;
  miras__setting always[4];
#ifndef MIRAS_NO_MODEL
  #define MIRAS__INSIDE(...) {__VA_ARGS__},
  miras__setting inside[10];
#else
  #define MIRAS__INSIDE(...)
#endif
  miras__setting alone[6];
} miras__row;

#define MIRAS__FIELD(field, real, value) \
  {(uint16_t)offsetof(miras_layer_desc, field), \
   (unsigned char)sizeof(((miras_layer_desc *)0)->field), real, (float)(value)}
#define MIRAS__W(field, value) MIRAS__FIELD(memory.field, 0, value)   /* whole number or enum */
#define MIRAS__R(field, value) MIRAS__FIELD(memory.field, 1, value)   /* real */
#define MIRAS__L(field, value) MIRAS__FIELD(field, 0, value)          /* of the layer */
#define MIRAS__END {0, 0, 0, 0}
/* What runs exactly is free to choose its schedule. One token at a time is the quickest up to keys
 * of about 128 where room @50 has a single pass for it, and keeps the least; the others take 16. */
#define MIRAS__BLOCKS MIRAS__W(chunk, 16)
#define MIRAS__KEEP_HEAD MIRAS__W(keep_gate, MIRAS_GATE_HEAD)
#define MIRAS__KEEP_CHANNEL MIRAS__W(keep_gate, MIRAS_GATE_CHANNEL)
#define MIRAS__STEP_HEAD MIRAS__W(step_gate, MIRAS_GATE_HEAD)
#define MIRAS__FORGET(f, ratio) MIRAS__R(forget, f), MIRAS__R(forget_ratio, ratio)
/* of every perceptron inside a model */
#define MIRAS__PERCEPTRON \
  MIRAS__W(chunk, 16), MIRAS__W(inner_norm, 1), MIRAS__W(inner_residual, 1), \
  MIRAS__FORGET(0.0078125f, 0.5f)
#define MIRAS__HOME MIRAS__W(toward, MIRAS_TOWARD_INITIAL)
#define MIRAS__UNIT MIRAS__W(key_length, MIRAS_LENGTH_UNIT)
#define MIRAS__ROOT MIRAS__W(key_length, MIRAS_LENGTH_ROOT)
#define MIRAS__BOUND(how, most) MIRAS__W(bounded_step, how), MIRAS__R(step, most)
#define MIRAS__CHANNELS MIRAS__KEEP_CHANNEL, MIRAS__W(step_gate, MIRAS_GATE_CHANNEL)
static const miras__row miras__table[MIRAS_KIND_COUNT] = {
  {"linear-attention", MIRAS_MATRIX, MIRAS_DOT, MIRAS_RETAIN_ALL, MIRAS_GRADIENT_DESCENT,
   {MIRAS__END},
   MIRAS__INSIDE(MIRAS__END)
   {MIRAS__UNIT, MIRAS__W(feature, MIRAS_FEATURE_RELU2), MIRAS__W(normalise, 1)}},
  {"dfw", MIRAS_MATRIX, MIRAS_DOT, MIRAS_RETAIN_L2, MIRAS_GRADIENT_DESCENT,
   {MIRAS__END},
   MIRAS__INSIDE(MIRAS__BLOCKS, MIRAS__KEEP_CHANNEL, MIRAS__W(value_gate, MIRAS_GATE_CHANNEL),
    MIRAS__FORGET(0.0625f, 0.5f))
   {MIRAS__UNIT, MIRAS__HOME, MIRAS__R(forget, 0.03125f)}},
  {"retnet", MIRAS_MATRIX, MIRAS_DOT, MIRAS_RETAIN_L2, MIRAS_GRADIENT_DESCENT,
   {MIRAS__FORGET(0.03125f, 0.5f)},
   MIRAS__INSIDE(MIRAS__END)
   {MIRAS__UNIT, MIRAS__HOME}},
  {"lightning", MIRAS_MATRIX, MIRAS_DOT, MIRAS_RETAIN_L2, MIRAS_GRADIENT_DESCENT,
   {MIRAS__W(slopes, MIRAS_SLOPES_LIGHTNING)},
   MIRAS__INSIDE(MIRAS__END)
   {MIRAS__UNIT, MIRAS__HOME, MIRAS__W(slopes, MIRAS_SLOPES_MINIMAX)}},
  {"gla", MIRAS_MATRIX, MIRAS_DOT, MIRAS_RETAIN_L2, MIRAS_GRADIENT_DESCENT,
   {MIRAS__END},
   MIRAS__INSIDE(MIRAS__KEEP_CHANNEL, MIRAS__FORGET(0.125f, 0.25f),
    MIRAS__L(keep_form, MIRAS_KEEP_ROOT), MIRAS__L(key_map, MIRAS_KEYS_FREE))
   {MIRAS__UNIT, MIRAS__HOME, MIRAS__R(forget, 0.03125f)}},
  {"mamba2", MIRAS_MATRIX, MIRAS_DOT, MIRAS_RETAIN_L2, MIRAS_GRADIENT_DESCENT,
   {MIRAS__END},
   MIRAS__INSIDE(MIRAS__KEEP_HEAD, MIRAS__STEP_HEAD, MIRAS__FORGET(0.125f, 0.25f),
    MIRAS__L(keep_form, MIRAS_KEEP_RATE), MIRAS__L(tied_step, 1),
    MIRAS__L(key_map, MIRAS_KEYS_FREE))
   {MIRAS__UNIT, MIRAS__HOME, MIRAS__R(forget, 0.03125f)}},
  {"hgrn2", MIRAS_MATRIX, MIRAS_DOT, MIRAS_RETAIN_L2, MIRAS_GRADIENT_DESCENT,
   {MIRAS__END},
   MIRAS__INSIDE(MIRAS__KEEP_CHANNEL, MIRAS__FORGET(0.125f, 0.25f),
    MIRAS__L(key_map, MIRAS_KEYS_COMPLEMENT))
   {MIRAS__UNIT, MIRAS__HOME, MIRAS__R(forget, 0.03125f)}},
  {"deltanet", MIRAS_MATRIX, MIRAS_L2, MIRAS_RETAIN_ALL, MIRAS_GRADIENT_DESCENT,
   {MIRAS__END},
   MIRAS__INSIDE(MIRAS__STEP_HEAD)
   {MIRAS__UNIT, MIRAS__BOUND(1, 16)}},
  {"longhorn", MIRAS_MATRIX, MIRAS_L2, MIRAS_RETAIN_ALL, MIRAS_IMPLICIT,
   {MIRAS__END},
   MIRAS__INSIDE(MIRAS__W(step_gate, MIRAS_GATE_CHANNEL), MIRAS__L(key_map, MIRAS_KEYS_RMS))
   {MIRAS__UNIT, MIRAS__R(step, 16)}},
  {"gated-deltanet", MIRAS_MATRIX, MIRAS_L2, MIRAS_RETAIN_L2, MIRAS_GRADIENT_DESCENT,
   {MIRAS__W(order, MIRAS_DECAY_FIRST)},
   MIRAS__INSIDE(MIRAS__KEEP_HEAD, MIRAS__STEP_HEAD, MIRAS__FORGET(0.125f, 0.25f),
    MIRAS__L(keep_form, MIRAS_KEEP_RATE))
   {MIRAS__UNIT, MIRAS__BOUND(1, 16), MIRAS__HOME, MIRAS__R(forget, 0.001f)}},
  {"deltaproduct", MIRAS_MATRIX, MIRAS_L2, MIRAS_RETAIN_ALL, MIRAS_GRADIENT_DESCENT,
   {MIRAS__W(descents, 2)},
   MIRAS__INSIDE(MIRAS__BLOCKS, MIRAS__STEP_HEAD, MIRAS__R(step, 2))
   {MIRAS__UNIT, MIRAS__BOUND(1, 16)}},
  {"gated-deltaproduct", MIRAS_MATRIX, MIRAS_L2, MIRAS_RETAIN_L2, MIRAS_GRADIENT_DESCENT,
   {MIRAS__W(descents, 2), MIRAS__W(order, MIRAS_DECAY_FIRST)},
   MIRAS__INSIDE(MIRAS__BLOCKS, MIRAS__KEEP_HEAD, MIRAS__STEP_HEAD, MIRAS__R(step, 2),
    MIRAS__FORGET(0.125f, 0.25f), MIRAS__L(keep_form, MIRAS_KEEP_RATE))
   {MIRAS__UNIT, MIRAS__BOUND(1, 16), MIRAS__HOME, MIRAS__R(forget, 0.001f)}},
  {"kda", MIRAS_MATRIX, MIRAS_L2, MIRAS_RETAIN_L2, MIRAS_GRADIENT_DESCENT,
   {MIRAS__W(order, MIRAS_DECAY_FIRST)},
   MIRAS__INSIDE(MIRAS__KEEP_CHANNEL, MIRAS__STEP_HEAD, MIRAS__FORGET(0.125f, 0.25f),
    MIRAS__L(keep_form, MIRAS_KEEP_RATE))
   {MIRAS__UNIT, MIRAS__BOUND(1, 16), MIRAS__HOME, MIRAS__R(forget, 0.001f)}},
  {"rwkv7", MIRAS_MATRIX, MIRAS_L2, MIRAS_RETAIN_L2, MIRAS_GRADIENT_DESCENT,
   {MIRAS__W(separate_erase, 1)},
   MIRAS__INSIDE(MIRAS__BLOCKS, MIRAS__KEEP_CHANNEL, MIRAS__FORGET(0.125f, 0.25f),
    MIRAS__L(keep_form, MIRAS_KEEP_BOUNDED), MIRAS__L(key_map, MIRAS_KEYS_ERASE))
   {MIRAS__HOME, MIRAS__R(forget, 0.001f)}},
  {"mesa", MIRAS_MATRIX, MIRAS_L2, MIRAS_RETAIN_L2, MIRAS_LEAST_SQUARES,
   {MIRAS__END},
   MIRAS__INSIDE(MIRAS__BLOCKS, MIRAS__KEEP_HEAD, MIRAS__STEP_HEAD, MIRAS__FORGET(0.125f, 0.25f))
   {MIRAS__UNIT, MIRAS__R(forget, 0.001f), MIRAS__R(ridge, 0.1f)}},
  {"softmax-attention", MIRAS_KV_CACHE, MIRAS_L2, MIRAS_RETAIN_ALL, MIRAS_GRADIENT_DESCENT,
   {MIRAS__W(window, 1024)},
   MIRAS__INSIDE(MIRAS__BLOCKS, MIRAS__L(key_map, MIRAS_KEYS_RMS))
   {MIRAS__END}},
  {"sliding-window", MIRAS_KV_CACHE, MIRAS_L2, MIRAS_RETAIN_ALL, MIRAS_GRADIENT_DESCENT,
   {MIRAS__W(window, 64)},
   MIRAS__INSIDE(MIRAS__BLOCKS, MIRAS__L(key_map, MIRAS_KEYS_RMS))
   {MIRAS__END}},
  {"ttt-linear", MIRAS_MLP, MIRAS_L2, MIRAS_RETAIN_L2, MIRAS_GRADIENT_DESCENT,
   {MIRAS__W(depth, 1), MIRAS__W(inner_bias, 1), MIRAS__HOME},
   MIRAS__INSIDE(MIRAS__PERCEPTRON, MIRAS__KEEP_HEAD, MIRAS__STEP_HEAD, MIRAS__W(row_rates, 2),
    MIRAS__R(step, 0.2f))
   {MIRAS__ROOT, MIRAS__BOUND(1, 1), MIRAS__FORGET(0.0005f, 0.5f)}},
  {"ttt-mlp", MIRAS_MLP, MIRAS_L2, MIRAS_RETAIN_L2, MIRAS_GRADIENT_DESCENT,
   {MIRAS__W(depth, 2), MIRAS__W(inner_bias, 1), MIRAS__HOME},
   MIRAS__INSIDE(MIRAS__PERCEPTRON, MIRAS__KEEP_HEAD, MIRAS__STEP_HEAD, MIRAS__W(row_rates, 2),
    MIRAS__R(step, 0.05f))
   {MIRAS__ROOT, MIRAS__BOUND(2, 1), MIRAS__FORGET(0.0005f, 0.5f)}},
  {"titans", MIRAS_MLP, MIRAS_L2, MIRAS_RETAIN_L2, MIRAS_MOMENTUM,
   {MIRAS__W(depth, 2), MIRAS__R(momentum, 0.5f), MIRAS__HOME},
   MIRAS__INSIDE(MIRAS__PERCEPTRON, MIRAS__KEEP_HEAD, MIRAS__STEP_HEAD,
    MIRAS__W(momentum_gate, MIRAS_GATE_HEAD), MIRAS__R(step, 0.02f))
   {MIRAS__UNIT, MIRAS__BOUND(2, 1), MIRAS__FORGET(0.0005f, 0.5f), MIRAS__R(momentum, 0.25f)}},
  {"moneta", MIRAS_MLP, MIRAS_LP, MIRAS_RETAIN_LQ, MIRAS_GRADIENT_DESCENT,
   {MIRAS__W(depth, 2), MIRAS__R(p, 3), MIRAS__R(q, 2.5f), MIRAS__HOME},
   MIRAS__INSIDE(MIRAS__PERCEPTRON, MIRAS__CHANNELS, MIRAS__R(step, 0.01f))
   {MIRAS__UNIT, MIRAS__BOUND(2, 1000), MIRAS__FORGET(0.0005f, 0.5f)}},
  {"yaad", MIRAS_MLP, MIRAS_HUBER_MIXTURE, MIRAS_RETAIN_L2, MIRAS_GRADIENT_DESCENT,
   {MIRAS__W(depth, 2), MIRAS__HOME},
   MIRAS__INSIDE(MIRAS__PERCEPTRON, MIRAS__CHANNELS, MIRAS__W(threshold_gate, MIRAS_GATE_CHANNEL),
    MIRAS__R(sharpness, 2), MIRAS__R(step, 0.04f))
   {MIRAS__UNIT, MIRAS__BOUND(1, 0.5f), MIRAS__FORGET(0.0005f, 0.5f)}},
  {"memora", MIRAS_MLP, MIRAS_L2, MIRAS_RETAIN_KL, MIRAS_GRADIENT_DESCENT,
   {MIRAS__W(depth, 2), MIRAS__W(simplex_signed, 1), MIRAS__W(simplex_logits, 1), MIRAS__HOME},
   MIRAS__INSIDE(MIRAS__PERCEPTRON, MIRAS__CHANNELS, MIRAS__R(simplex, 256), MIRAS__R(step, 0.01f))
   {MIRAS__UNIT, MIRAS__BOUND(2, 16), MIRAS__FORGET(0.0005f, 0.5f), MIRAS__R(simplex, 65536)}},
};
#undef MIRAS__FIELD
#undef MIRAS__W
#undef MIRAS__R
#undef MIRAS__L
#undef MIRAS__END
#undef MIRAS__BLOCKS
#undef MIRAS__KEEP_HEAD
#undef MIRAS__KEEP_CHANNEL
#undef MIRAS__STEP_HEAD
#undef MIRAS__FORGET
#undef MIRAS__PERCEPTRON
#undef MIRAS__HOME
#undef MIRAS__UNIT
#undef MIRAS__ROOT
#undef MIRAS__BOUND
#undef MIRAS__CHANNELS

static void miras__apply(miras_layer_desc *d, const miras__setting *list, int most) {
  int i;
  for (i = 0; i < most && list[i].at; i++) {
    const float x = list[i].value;
    miras__set_bits(d, list[i].at, list[i].size,
                    list[i].real ? miras__real_bits(x) : (uint64_t)(int)x);
  }
}

static MIRAS__COLD miras_result miras__preset(miras_layer_desc *d, miras_kind kind, int inside) {
  const miras__row *row;
  if (!d || (unsigned)kind >= MIRAS_KIND_COUNT) return MIRAS_ERR_ARGUMENT;
  row = &miras__table[kind];
  memset(d, 0, sizeof *d);
  d->memory.architecture = row->architecture;
  d->memory.bias = row->bias;
  d->memory.retention = row->retention;
  d->memory.algorithm = row->algorithm;
  d->memory.chunk = 1;
  miras__apply(d, row->always, (int)(sizeof row->always / sizeof row->always[0]));
#ifndef MIRAS_NO_MODEL
  if (inside) miras__apply(d, row->inside, (int)(sizeof row->inside / sizeof row->inside[0]));
#endif
  if (!inside) miras__apply(d, row->alone, (int)(sizeof row->alone / sizeof row->alone[0]));
  return MIRAS_OK;
}

MIRAS_API miras_result miras_preset(miras_desc *d, miras_kind kind) {
  miras_layer_desc whole;
  miras_result result = d ? miras__preset(&whole, kind, 0) : MIRAS_ERR_ARGUMENT;
  if (result == MIRAS_OK) *d = whole.memory;
  return result;
}

#ifndef MIRAS_NO_MODEL
MIRAS_API miras_result miras_model_preset(miras_model_desc *d, miras_kind kind) {
  miras_layer_desc row;
  const miras_result result = d ? miras__preset(&row, kind, 1) : MIRAS_ERR_ARGUMENT;
  if (result != MIRAS_OK) return result;
  memset(d, 0, sizeof *d);
  d->layer[0] = row;
  d->layer[0].letter = 'm';
  d->layer[1].letter = 'w';
  d->layer[1].type = MIRAS_LAYER_ATTENTION;
  d->layer[1].window = 64;
  d->layer[2] = d->layer[1];
  d->layer[2].letter = 'a';
  d->layer[2].window = 1024;
  d->layer[3].letter = 'g';
  d->layer[3].type = MIRAS_LAYER_MLP;
  d->layer[4].letter = 'c';
  d->layer[4].type = MIRAS_LAYER_CONV;
  d->layer[4].no_mlp = 1;
  return MIRAS_OK;
}
#endif

MIRAS_API const char *miras_kind_name(miras_kind kind) {
  return (unsigned)kind >= MIRAS_KIND_COUNT ? NULL : miras__table[kind].name;
}

MIRAS_API miras_kind miras_kind_find(const char *name) {
  int i;
  for (i = 0; name && i < MIRAS_KIND_COUNT; i++)
    if (miras__same(name, miras__table[i].name)) return (miras_kind)i;
  return MIRAS_KIND_COUNT;
}

#ifndef MIRAS_NO_MODEL
#define MIRAS__PERSISTENT 4        /* pairs of Titans' attention                                  */
/* Whole models: a row, the type of its layers, and the block that is repeated if it has several
 * layers; the first goes without an MLP then. */
static const struct {
  char name[16], block[8];
  unsigned char kind, type;
} miras__models[] = {
  {"titans-lmm", "", MIRAS_TITANS, MIRAS_LAYER_MEMORY},
  {"titans-mag", "", MIRAS_TITANS, MIRAS_LAYER_MAG},
  {"titans-mal", "mw", MIRAS_TITANS, MIRAS_LAYER_MEMORY},
  {"rwkv7", "mg", MIRAS_RWKV7, MIRAS_LAYER_RWKV},
  {"rwkv7-memory", "", MIRAS_RWKV7, MIRAS_LAYER_MEMORY}
};

MIRAS_API miras_result miras_model_named(miras_model_desc *d, const char *name, int layers) {
  const size_t count = sizeof miras__models / sizeof miras__models[0];
  miras_result result;
  size_t i = 0;
  while (i < count && !(name && miras__same(name, miras__models[i].name))) i++;
  result = miras_model_preset(d, i < count ? (miras_kind)miras__models[i].kind
                                           : miras_kind_find(name));
  if (result != MIRAS_OK) return result;
  d->layers = layers;
  if (i == count) return MIRAS_OK;
  d->layer[0].type = (miras_layer_type)miras__models[i].type;
  if (miras__models[i].kind == MIRAS_TITANS) d->layer[1].persistent = MIRAS__PERSISTENT;
  if (d->layer[0].type == MIRAS_LAYER_MAG) {
    d->layer[0].window = d->layer[1].window;
    d->layer[0].persistent = MIRAS__PERSISTENT;
  }
  if (d->layer[0].type == MIRAS_LAYER_RWKV) {
    d->norm = MIRAS_NORM_LAYER;
    d->embed_norm = d->untied = 1;
    d->layer[0].value_rank = 32;
    d->layer[3].mlp = MIRAS_MLP_RELU2;
    d->layer[3].shift = 1;
  }
  if (!miras__models[i].block[0]) return MIRAS_OK;
  miras__say(d->pattern, sizeof d->pattern, "(%s)*%d", miras__models[i].block, layers);
  d->layer[0].no_mlp = 1;
  d->layers = 0;
  return MIRAS_OK;
}
#endif

/* @74 ONE MEMORY ------------------------------------------------------- needs 13 14 31 56 57 -- */

static void *miras__default_alloc(size_t bytes, void *user) {
  (void)user;
  return MIRAS_MALLOC(bytes);
}

static void miras__default_free(void *pointer, size_t bytes, void *user) {
  (void)bytes;
  (void)user;
  MIRAS_FREE(pointer);
}

static miras_allocator miras__allocator(const miras_allocator *allocator) {
  const miras_allocator standard = {miras__default_alloc, miras__default_free, NULL};
  return allocator && allocator->alloc ? *allocator : standard;
}

static void miras__release(const miras_allocator *from, void *pointer, size_t bytes) {
  if (from->free) from->free(pointer, bytes, from->user);
}

/* Lays an object out over an arena; both passes run it. */
typedef void miras__layout(void *object, miras__arena *a);

/* Bytes of an object of `size` and what lies behind it, for a buffer of any alignment; 0 and a
 * sentence if that is too much. */
static MIRAS__COLD size_t miras__measure(void *draft, size_t size, miras__layout *layout,
                                         const char *what, char *why, size_t n) {
  miras__arena a = miras__arena_on(NULL);
  (void)miras__take(&a, 1, size);
  layout(draft, &a);
  return miras__arena_bytes(&a, what, why, n);
}

/* It itself, in the caller's buffer if that has room for so many bytes or, without one, in some of
 * the allocator's. bytes 0 says that there is no object. */
static MIRAS__COLD void *miras__build(void *draft, size_t size, miras__layout *layout, size_t bytes,
                                      void *buffer, size_t room,
                                      const miras_allocator *allocator) {
  miras__storage *own = (miras__storage *)draft;
  miras__arena a;
  void *object;
  if (!bytes || (buffer && room < bytes)) return NULL;
  memset(&own->allocator, 0, sizeof own->allocator);
  if (!buffer) {
    own->allocator = miras__allocator(allocator);
    buffer = own->allocator.alloc(bytes, own->allocator.user);
    if (!buffer) return NULL;
  }
  own->buffer = buffer;
  own->bytes = bytes;
  a = miras__arena_on(buffer);
  object = miras__take(&a, 1, size);
  memcpy(object, draft, size);
  layout(object, &a);
  return object;
}

/* The object goes with it. */
static void miras__close(void *object) {
  miras__storage own;
  if (!object) return;
  memcpy(&own, object, sizeof own);
  miras__release(&own.allocator, own.buffer, own.bytes);
}

/* All of a number of tasks, on whatever workers there are. A device, which the host cannot do a
 * single task for, has more than a caller's may be. */
enum { MIRAS__WORKERS = 256 };
static void miras__each(const miras_parallel *p, size_t count,
                        void (*task)(void *argument, int index, int worker), void *argument) {
  int i;
  if (p && p->workers > 1 && (count > 1 || p->workers > MIRAS__WORKERS)) {
    p->run(p->user, (int)count, task, argument);
    return;
  }
  for (i = 0; i < (int)count; i++) task(argument, i, 0);
}

static size_t miras__workers(const miras_parallel *p) { return p ? (size_t)p->workers : 1; }

/* Can this be a job system? NULL can. */
static MIRAS__COLD int miras__parallel_ok(const miras_parallel *p, char *why, size_t n) {
  if (!p) return 1;
  if (!miras__whole(why, n, "parallel->workers", p->workers, 1, MIRAS__WORKERS)) return 0;
  if (p->run) return 1;
  miras__say(why, n, "parallel->run is NULL; it must be a function, or parallel itself NULL");
  return 0;
}

static MIRAS__COLD void miras__memory_layout(void *object, miras__arena *a) {
  miras_memory *m = (miras_memory *)object;
  const miras__plan *p = &m->plan;
  const size_t batch = (size_t)p->d.batch, heads = (size_t)p->d.heads;
  m->params = miras__floats(a, p->params, 1);
  m->state = miras__floats(a, batch, p->sequence_state);
  m->scratch = miras__floats(a, miras__workers(p->d.parallel), p->scratch);
  m->keep = miras__floats(a, heads, 1);
  m->losses = miras__floats(a, batch, heads);
  m->state_bytes = batch * p->sequence_state * sizeof(float);
}

static void miras__memory_widths(miras_memory *m) {
  const miras_desc *d = &m->plan.d;
  uint32_t *width = m->width;
#define MIRAS_X(name, ld, member, count) *width++ = (uint32_t)(count);
  MIRAS__INPUTS(MIRAS_X)
#undef MIRAS_X
  for (m->inputs = MIRAS__INPUT_COUNT; !m->width[m->inputs - 1];) m->inputs--;
}

/* Is everything there that the descriptor asks for? */
static int miras__tokens_ok(const miras_memory *m, const miras_tokens *x) {
  size_t i;
  if (!m || !x || x->length < 0) return 0;
  for (i = 0; x->length && i < m->inputs; i++)
    if (m->width[i] && !miras__input(&x->key, i)) return 0;
  return 1;
}

/* All sequences stand there. */
static void miras__memory_at(miras_memory *m, uint64_t position) {
  size_t b;
  for (b = 0; b < (size_t)m->plan.d.batch; b++)
    memcpy(m->state + b * m->plan.sequence_state, &position, sizeof position);
}

static void miras__memory_run(miras_memory *m, const miras_tokens *x, float *y, float *tape,
                              float *losses) {
  const miras__plan *p = &m->plan;
  const size_t tasks = (size_t)p->d.batch * (size_t)p->d.heads;
  miras__memory_call c;
  memset(&c, 0, sizeof c);
  c.m = m;
  c.x = x;
  c.y = y;
  c.tape = tape;
  c.losses = losses;
  c.per = MIRAS__TRAINS && tape ? miras__plan_tape(p, (size_t)x->length) : 0;
  miras__each(p->d.parallel, tasks, miras__memory_forward, &c);
  miras__memory_at(m, miras__position(m->state) + (uint64_t)x->length);
}

/* Bytes of a memory, whose plan m receives; 0 if there is none. */
static MIRAS__COLD size_t miras__memory_bytes(miras_memory *m, const miras_desc *d, char *why,
                                              size_t n) {
  memset(m, 0, sizeof *m);
  if (miras__plan_make(&m->plan, d, why, n) != MIRAS_OK || !miras__parallel_ok(d->parallel, why, n))
    return 0;
  return miras__measure(m, sizeof *m, miras__memory_layout, "memory", why, n);
}

MIRAS_API size_t miras_memory_size(const miras_desc *d, char *why, size_t why_size) {
  miras_memory m;
  return miras__memory_bytes(&m, d, why, why_size);
}

static MIRAS__COLD miras_memory *miras__memory_make(const miras_desc *d, void *buffer, size_t room,
                                                    const miras_allocator *allocator) {
  miras_memory draft, *m;
  const size_t bytes = miras__memory_bytes(&draft, d, NULL, 0);
  const miras__plan *p = &draft.plan;
  m = (miras_memory *)miras__build(&draft, sizeof draft, miras__memory_layout, bytes, buffer, room,
                                   allocator);
  if (!m) return NULL;
  miras__memory_widths(m);
  miras__constant_keeps(&p->d, p->d.layer, m->keep);
  memset(m->params, 0, p->params * sizeof(float));
  miras__plan_init_params(p, m->params, m->params + (size_t)p->d.heads * p->weights);
  memset(m->state, 0, m->state_bytes);
  return m;
}

MIRAS_API miras_memory *miras_memory_init(void *buffer, size_t bytes, const miras_desc *d) {
  return buffer ? miras__memory_make(d, buffer, bytes, NULL) : NULL;
}

MIRAS_API miras_memory *miras_memory_open(const miras_desc *d, const miras_allocator *allocator) {
  return miras__memory_make(d, NULL, 0, allocator);
}

MIRAS_API void miras_memory_close(miras_memory *m) {
  miras__close(m);
}

MIRAS_API const miras_desc *miras_memory_desc(const miras_memory *m) {
  return m ? &m->plan.d : NULL;
}

MIRAS_API float miras_step(miras_memory *m, const float *key, const float *value,
                           const float *query, float *out) {
  miras_tokens x;
  size_t i, heads;
  double surprise = 0;
  memset(&x, 0, sizeof x);
  x.length = 1;
  x.key = key;
  x.value = value;
  x.query = query;
  if (!m || !key || !value || (query && !out) || m->inputs > 3) return (float)NAN;
  miras__memory_run(m, &x, out, NULL, m->losses);
  heads = (size_t)m->plan.d.batch * (size_t)m->plan.d.heads;
  for (i = 0; i < heads; i++) surprise += (double)m->losses[i];
  return (float)(surprise / ((double)m->plan.d.heads * (double)m->plan.d.batch));
}

MIRAS_API float miras_write(miras_memory *m, const float *key, const float *value) {
  return miras_step(m, key, value, NULL, NULL);
}

MIRAS_API void miras_read(miras_memory *m, const float *query, float *out) {
  size_t b, h;
  if (!m || !query || !out) return;
  for (b = 0; b < (size_t)m->plan.d.batch; b++) {
    for (h = 0; h < (size_t)m->plan.d.heads; h++) {
      miras__call run;
      miras__memory_head(m, b, h, &run);
      miras__head_read(&run, h, query, out);
      query += m->plan.d.key_dim;
      out += m->plan.d.value_dim;
    }
  }
}

/* Gradients of outer parameters that one head of one sequence leaves: init, gain or ridge, bias,
 * rho. They are added up afterwards in one order, whoever made them. */
static size_t miras__part_size(const miras__plan *p) {
  return p->weights + 2 * (size_t)p->widest + (p->d.row_rates ? (size_t)p->d.chunk : 0);
}

/* A tape: 16 floats that hold the position and the length of its call; what each head keeps; the
 * gradients of outer parameters of each; and room for each worker of the backward pass. */
static MIRAS__COLD size_t miras__tape(const miras__plan *p, int length) {
  size_t each = miras__plan_tape(p, (size_t)length), total = 16;
  if (!each && length) return 0;
  miras__grow(&each, miras__part_size(p), 1);
  miras__grow(&total, each, (size_t)p->d.heads * (size_t)p->d.batch);
  miras__grow(&total, miras__workers(p->d.parallel), p->scratch_backward);
  return total > (size_t)-1 / sizeof(float) ? 0 : total;
}

MIRAS_API miras_result miras_forward(miras_memory *m, const miras_tokens *x, float *y,
                                     float *tape) {
  uint64_t position;
  if (!miras__tokens_ok(m, x) || (x->length && !y) || (!MIRAS__TRAINS && tape))
    return MIRAS_ERR_ARGUMENT;
  position = miras__position(m->state);
  if (MIRAS__TRAINS && tape) {
    uint64_t header[2];
    if (position % (uint64_t)m->plan.d.chunk) return MIRAS_ERR_STATE;
    if (!miras__tape(&m->plan, x->length)) return MIRAS_ERR_SIZE;
    header[0] = position;
    header[1] = (uint64_t)x->length;
    memcpy(tape, header, sizeof header);
  }
  if (x->length) miras__memory_run(m, x, y, tape, NULL);
  return MIRAS_OK;
}

#ifndef MIRAS_NO_TRAINING
MIRAS_API size_t miras_tape_size(const miras_memory *m, int length) {
  return !m || length < 0 ? 0 : miras__tape(&m->plan, length);
}

MIRAS_API size_t miras_dstate_size(const miras_memory *m) {
  if (!m) return 0;
  return (size_t)m->plan.d.batch * (size_t)m->plan.d.heads * m->plan.head_dstate;
}

MIRAS_API miras_result miras_backward(miras_memory *m, const miras_tokens *x, float *tape,
                                      const float *dy, const miras_token_grads *dx,
                                      float *dparams, float *dstate) {
  miras__memory_call c;
  size_t heads, h;
  uint64_t header[2];
  if (!tape || !dx || !miras__tokens_ok(m, x) || (x->length && !dy)) return MIRAS_ERR_ARGUMENT;
  memcpy(header, tape, sizeof header);
  if (header[1] != (uint64_t)x->length) return MIRAS_ERR_ARGUMENT;
  if (dstate && (header[0] + header[1]) % (uint64_t)m->plan.d.chunk &&
      miras__kernels_best()->any(dstate, miras_dstate_size(m)))
    return MIRAS_ERR_STATE;
  heads = (size_t)m->plan.d.batch * (size_t)m->plan.d.heads;
  memset(&c, 0, sizeof c);
  c.m = m;
  c.x = x;
  c.dx = dx;
  c.dy = dy;
  c.tape = tape;
  c.per = miras__plan_tape(&m->plan, (size_t)x->length);
  c.part = miras__part_size(&m->plan);
  c.parts = tape + 16 + heads * c.per;
  c.scratch = c.parts + heads * c.part;
  c.dstate = dstate;
  miras__each(m->plan.d.parallel, heads, miras__memory_backward, &c);
  if (!dparams) return MIRAS_OK;
  for (h = 0; h < (size_t)m->plan.d.heads; h++) miras__memory_collect(&c, h, dparams);
  miras__memory_collect_rates(&c, dparams);
  return MIRAS_OK;
}
#endif

MIRAS_API float *miras_memory_params(miras_memory *m, size_t *count) {
  if (count) *count = m ? m->plan.params : 0;
  return m ? m->params : NULL;
}

MIRAS_API void miras_memory_reset(miras_memory *m) {
  if (m) memset(m->state, 0, m->state_bytes);
}

MIRAS_API uint64_t miras_memory_position(const miras_memory *m) {
  return m ? miras__position(m->state) : 0;
}

/* ---- named parts of a state and of the outer parameters ---- */

/* One head of one sequence between two tokens: position counts since the head began. */
static void miras__between(miras__call *a, size_t head) {
  a->position = miras__since_read(&a->p->d, head, a->position);
}

static int miras__is_open(const miras__call *a) {
  return a->position % (uint64_t)a->p->d.chunk != 0 && miras__states_of[a->p->engine].live != NULL;
}

/* Where entry `at` of what dstate is the gradient of lies in the state of a head. */
static float *miras__entry(const miras__call *a, size_t at) {
  const miras__plan *p = a->p;
  return a->state + (at < p->split ? at : p->second + at - p->split);
}

/* All of that, put into the state. */
static void miras__put_state(const miras__call *a, const float *values) {
  const miras__plan *p = a->p;
  memcpy(a->state, values, p->split * sizeof *values);
  memcpy(a->state + p->second, values + p->split, (p->head_dstate - p->split) * sizeof *values);
}

/* The weights [weights] at the chunk's start; before the first token the initial memory's. */
static const float *miras__anchor_weights(const miras__call *a) {
  float inv[4], *w = a->scratch + a->p->at_spare;
  if (a->position) return a->state + a->p->at_w;
  if (!a->p->init_mapped) return a->init;
  miras__states_of[a->p->engine].weights_of(a->K, a->p, w, a->init, a->init, inv);
  return w;
}

/* to = `count` entries, all of one part, from `at` on. */
static void miras__entries(const miras__call *a, size_t at, size_t count, float *to) {
  const miras__plan *p = a->p;
  const int mesa = p->engine == MIRAS__RUN_MESA, pairs = p->engine == MIRAS__RUN_ATTENTION;
  const float *from = a->scratch + p->at_spare + at;
  if (!a->position && !pairs) {                  /* the initial memory; H and momentum are 0 */
    from = (at < p->split) == mesa ? NULL : p->stores_link ? a->init : miras__anchor_weights(a);
    if (from) from += mesa ? at - p->split : at;
  } else if (miras__is_open(a)) {
    miras__states_of[p->engine].live(a, a->scratch + p->at_spare);
  } else {
    from = miras__entry(a, at);
  }
  if (from) memcpy(to, from, count * sizeof *to);
  else memset(to, 0, count * sizeof *to);
  if (pairs && a->position < (uint64_t)p->d.window) {          /* rows that hold none */
    const size_t held = count / (size_t)p->d.window * (size_t)a->position;
    memset(to + held, 0, (count - held) * sizeof *to);
  }
}

/* What is set to what it is stays as it is to the bit, in an open chunk too. */
static void miras__set_entries(const miras__call *a, size_t at, size_t count, const float *from) {
  const miras__between_tokens *engine = &miras__states_of[a->p->engine];
  const int open = miras__is_open(a);
  float *live = a->scratch + a->p->at_spare, *to = open ? live + at : miras__entry(a, at);
  if (open) engine->live(a, live);
  if (!memcmp(to, from, count * sizeof *from)) return;
  memcpy(to, from, count * sizeof *from);
  if (open) miras__put_state(a, live);
  if (engine->clear) engine->clear(a);
}

/* A walk over all parts, up to the one of that index or, where there is one, of that name. */
typedef struct miras__parts {
  const char *name;
  int index;
  miras_view *view;        /* the last one walked over: in the end that part                      */
  miras_part found;        /* its kind; 0: not yet                                                */
  miras_part kind;         /* of those that come next, and what their names begin with            */
  const char *before;
} miras__parts;

/* cols 0: a vector. */
static void miras__view_set(miras_view *v, size_t offset, size_t rows, size_t cols) {
  memset(v, 0, sizeof *v);
  v->offset = offset;
  v->count = rows * (cols ? cols : 1);
  v->rank = cols ? 2 : 1;
  v->shape[0] = (int)rows;
  v->shape[1] = cols ? (int)cols : 1;
  v->shape[2] = 1;
  v->rate = 1;
}

/* rows 0: there is none. number 0: none in its name. */
static MIRAS__COLD void miras__part_add(miras__parts *x, const char *name, int number,
                                        size_t offset, size_t rows, size_t cols) {
  miras_view *v = x->view;
  if (x->found || !rows) return;
  miras__view_set(v, offset, rows, cols);
  miras__say(v->name, sizeof v->name, "%s%s", x->before, name);
  if (number) miras__say(v->name, sizeof v->name, "%d", number);
  if (x->name ? miras__same(x->name, v->name) : x->index-- == 0) x->found = x->kind;
}

/* What lies in [weights] from offset on: matrices, their biases, the normaliser. */
static MIRAS__COLD void miras__part_weights(miras__parts *x, const miras__plan *p, miras_part kind,
                                            const char *before, const char *name, size_t offset) {
  int l;
  x->kind = kind;
  x->before = before;
  for (l = 0; l < p->layers; l++) {
    const size_t in = (size_t)(p->in[l] - p->d.inner_bias), out = (size_t)p->out[l];
    const int vector = p->d.architecture == MIRAS_VECTOR;
    const size_t at = offset + p->offset[l];
    miras__part_add(x, name, p->engine == MIRAS__RUN_MESA ? 0 : l + 1, at, vector ? out : in,
                    vector ? 0 : out);
    if (p->d.inner_bias) miras__part_add(x, "b", l + 1, at + in * out, out, 0);
  }
  if (p->d.normalise)
    miras__part_add(x, "z", 0, offset + p->features * (size_t)p->d.value_dim, p->features, 0);
}

static MIRAS__COLD miras_part miras__part_find(miras__parts *x, const miras__plan *p) {
  const size_t n = p->features, dk = (size_t)p->d.key_dim, dv = (size_t)p->d.value_dim;
  const size_t window = (size_t)p->d.window, heads = (size_t)p->d.heads, more = heads * p->weights;
  const int mesa = p->engine == MIRAS__RUN_MESA;
  const char *name = mesa ? "G" : p->stores_link ? "A" : "W";
  x->found = MIRAS_PART_NONE;
  x->kind = MIRAS_PART_STATE;
  x->before = "";
  if (p->engine == MIRAS__RUN_ATTENTION) {
    miras__part_add(x, "keys", 0, 0, window, dk);
    miras__part_add(x, "values", 0, p->split, window, dv);
    return x->found;
  }
  if (mesa) miras__part_add(x, "H", 0, 0, n, n);
  miras__part_weights(x, p, MIRAS_PART_STATE, "", name, mesa ? p->split : 0);
  if (p->stores_link) miras__part_weights(x, p, MIRAS_PART_DERIVED, "", "W", 0);
  if (p->at_s) miras__part_weights(x, p, MIRAS_PART_STATE, "momentum.", name, p->split);
  miras__part_weights(x, p, MIRAS_PART_PARAMETER, "init.", name, 0);
  x->before = "";
  if (p->d.inner_norm) {
    miras__part_add(x, "gain", 0, more, dv, 0);
    miras__part_add(x, "bias", 0, more + heads * dv, dv, 0);
  }
  if (mesa) miras__part_add(x, "ridge", 0, more, n, 0);
  if (p->d.row_rates) miras__part_add(x, "rates", 0, p->at_rho, (size_t)p->d.chunk, 0);
  return x->found;
}

/* Where head h has a parameter: each its own, but for the rates. */
static float *miras__part_of(const miras__plan *p, float *params, const miras_view *v, size_t h) {
  const size_t inits = (size_t)p->d.heads * p->weights;
  if (p->d.row_rates && v->offset == p->at_rho) h = 0;
  return params + v->offset + h * (v->offset < inits ? p->weights : v->count);
}

/* The part called name of the head that a stands at, which params are to be given for: to, or from,
 * its values; NULL: the other. */
static MIRAS__COLD miras_result miras__part_move(miras__call *a, size_t head, const char *name,
                                                 float *params, float *to, const float *from,
                                                 char *why, size_t n) {
  miras_view view;
  miras__parts x;
  size_t bytes;
  memset(&x, 0, sizeof x);
  x.view = &view;
  x.name = name ? name : "";
  miras__part_find(&x, a->p);
  if (!to && !from)
    return miras__say(why, n, "the values are NULL"), MIRAS_ERR_ARGUMENT;
  if (!x.found || (x.found == MIRAS_PART_PARAMETER && !params))
    return miras__say(why, n, "name is \"%s\"; it must be that of a part which %s has", x.name,
                      params ? "the memory" : "the layer's state"), MIRAS_ERR_ARGUMENT;
  bytes = view.count * sizeof(float);
  miras__between(a, head);
  if (x.found == MIRAS_PART_PARAMETER) {
    params = miras__part_of(a->p, params, &view, head);
    if (to) memcpy(to, params, bytes);
    else memcpy(params, from, bytes);
  } else if (to) {
    if (x.found == MIRAS_PART_STATE) miras__entries(a, view.offset, view.count, to);
    else memcpy(to, miras__anchor_weights(a) + view.offset, bytes);
  } else if (x.found == MIRAS_PART_DERIVED) {
    return miras__say(why, n, "name is \"%s\", which follows from A%d; set that", x.name,
                      x.name[1] - '0'), MIRAS_ERR_ARGUMENT;
  } else if (!a->position) {
    miras__say(why, n, "position is 0, where a memory is its initial memory; it must be more for "
                       "\"%s\" to be set", x.name);
    return MIRAS_ERR_STATE;
  } else {
    miras__set_entries(a, view.offset, view.count, from);
  }
  return MIRAS_OK;
}

MIRAS_API miras_part miras_memory_part(const miras_memory *m, int i, miras_view *part) {
  miras__parts x;
  memset(&x, 0, sizeof x);
  x.index = i;
  x.view = part;
  return m && part && i >= 0 ? miras__part_find(&x, &m->plan) : MIRAS_PART_NONE;
}

static MIRAS__COLD miras_result miras__memory_part(const miras_memory *m, int sequence, int head,
                                                   const char *name, float *to, const float *from,
                                                   char *why, size_t n) {
  miras__call a;
  if (why && n) why[0] = 0;
  if (!m)
    return miras__say(why, n, "the memory is NULL"), MIRAS_ERR_ARGUMENT;
  if (!miras__whole(why, n, "sequence", sequence, 0, m->plan.d.batch - 1) ||
      !miras__whole(why, n, "head", head, 0, m->plan.d.heads - 1))
    return MIRAS_ERR_ARGUMENT;
  miras__memory_head(m, (size_t)sequence, (size_t)head, &a);
  return miras__part_move(&a, (size_t)head, name, m->params, to, from, why, n);
}

MIRAS_API miras_result miras_memory_get(const miras_memory *m, int sequence, int head,
                                        const char *name, float *to, char *why, size_t why_size) {
  return miras__memory_part(m, sequence, head, name, to, NULL, why, why_size);
}

MIRAS_API miras_result miras_memory_set(miras_memory *m, int sequence, int head, const char *name,
                                        const float *from, char *why, size_t why_size) {
  return miras__memory_part(m, sequence, head, name, NULL, from, why, why_size);
}

/* Head i % heads of sequence i / heads between two tokens. */
static void miras__memory_between(const miras_memory *m, size_t i, miras__call *a) {
  const size_t heads = (size_t)m->plan.d.heads;
  miras__memory_head(m, i / heads, i % heads, a);
  miras__between(a, i % heads);
}

MIRAS_API void miras_memory_move(miras_memory *m, uint64_t position) {
  size_t i;
  if (!m || position == miras__position(m->state)) return;
  if (!position) {
    miras_memory_reset(m);
    return;
  }
  for (i = 0; i < (size_t)m->plan.d.batch * (size_t)m->plan.d.heads; i++) {
    const miras__plan *p = &m->plan;
    const miras__between_tokens *engine = &miras__states_of[p->engine];
    miras__call a;
    miras__memory_between(m, i, &a);
    if (!a.position) {
      miras__entries(&a, 0, p->split, a.state);
      miras__entries(&a, p->split, p->head_dstate - p->split, a.state + p->second);
    } else if (miras__is_open(&a)) {
      engine->live(&a, a.scratch + p->at_spare);
      miras__put_state(&a, a.scratch + p->at_spare);
    }
    a.position = position;
    miras__between(&a, i % (size_t)p->d.heads);
    if (engine->clear) engine->clear(&a);
  }
  miras__memory_at(m, position);
}

MIRAS_API float miras_memory_norm(const miras_memory *m) {
  const miras__kernels *K = miras__kernels_best();
  double total = 0;
  size_t i;
  for (i = 0; m && i < (size_t)m->plan.d.batch * (size_t)m->plan.d.heads; i++) {
    const miras__plan *p = &m->plan;
    size_t held = (size_t)p->d.window;
    const float *w;
    miras__call a;
    miras__memory_between(m, i, &a);
    if (a.position < (uint64_t)held) held = (size_t)a.position;
    if (p->engine == MIRAS__RUN_ATTENTION) {           /* the rows that hold pairs */
      w = a.state + p->second;
      total += (double)K->dot(a.state, a.state, held * (size_t)p->d.key_dim);
      total += (double)K->dot(w, w, held * (size_t)p->d.value_dim);
      continue;
    }
    w = miras__anchor_weights(&a);
    if (p->engine == MIRAS__RUN_EXACT && miras__is_open(&a)) {
      miras__states_of[p->engine].live(&a, a.scratch + p->at_spare);
      w = a.scratch + p->at_spare;
    }
    total += (double)K->dot(w, w, p->weights);
  }
  return (float)sqrt(total);
}

MIRAS_API void *miras_memory_state(miras_memory *m, size_t *bytes) {
  if (bytes) *bytes = m ? m->state_bytes : 0;
  return m ? m->state : NULL;
}

#endif   /* region I */

#if ((defined(MIRAS__DEVICE) && MIRAS__DEVICE == 4) || defined(MIRAS__IMPLEMENTING)) && \
    !defined(MIRAS_NO_MODEL)
/* @75 LAYERS: WHAT THEY SHARE --------------------------------------- needs 13 14 20 29 32 74 -- */

/* Letters of the rooms 75 to 80: W width, H heads, F hidden width of the SwiGLU, V vocabulary, R
 * rank behind the gates, B sequences of a call, T their tokens, N all of its tokens.
 *
 * A model is a pattern of layers, and a layer's type is a record of functions (miras__layer_type).
 * Training and sessions take rows of tokens through them and do not know what a layer is:
 *   enter   a tile of rows: all that works row by row, up to what heads read
 *   head    one head of one sequence, over all rows of the call
 *   leave   a tile of rows: from what heads said to the layer's output
 * and back by the adjoints of the three. These functions are all that training, prefill and
 * decoding run, so the three agree to the bit. No two tasks of a phase write the same float, and
 * every sum has one order, fixed by batch and length alone: the number of workers cannot change a
 * bit. */

#define MIRAS__NORM_EPS 1e-5f      /* of root mean squares                                        */
#define MIRAS__TILE 64             /* rows of tokens that one task takes through a layer          */

/* A group of learned gates: columns first..first + count - 1, each head's together. Its numbers g
 * are made from columns `from`, its own unless the group is tied. */
typedef struct miras__gates {
  size_t first, from, count;
  size_t offset;                   /* among gates.offset, which has the groups in their order     */
  int form;
  float cap;                       /* of keep gates: 1 - 1/horizon; else 1                        */
} miras__gates;

enum { MIRAS__KEEP, MIRAS__STEP, MIRAS__MOMENTUM, MIRAS__THRESHOLD, MIRAS__VALUE_KEEP, MIRAS__ERASE,
       MIRAS__MIX, MIRAS__GATE_GROUPS };

/* What a memory reads of a token: query, keys and values of its descents and, with separate_erase,
 * the key before it was split, erase and replace. */
enum { MIRAS__READ_Q, MIRAS__READ_K, MIRAS__READ_V, MIRAS__READ_OWN, MIRAS__READ_ERASE,
       MIRAS__READ_REPLACE, MIRAS__READS };

/* The parameters of layers, in their order. How the gradient of one arises:
 *   PROJECTS     h' d, with h the rows of norm1 and d of its columns of the projections
 *   MULTIPLIES   x' d, with the rows that it was multiplied by
 *   BY_...       sums, each over one tile, sequence, or head of a sequence: a row of
 *                work->part[BY_...] has all of its kind */
enum { MIRAS__PROJECTS, MIRAS__MULTIPLIES, MIRAS__BY_TILE, MIRAS__BY_SEQUENCE, MIRAS__BY_HEAD,
       MIRAS__ORIGINS };

enum { MIRAS__W_NORM1, MIRAS__W_NORM1_BIAS, MIRAS__W_SHIFT, MIRAS__W_Q, MIRAS__W_K, MIRAS__W_V,
       MIRAS__W_NORM_Q, MIRAS__W_NORM_K, MIRAS__W_CONV_Q, MIRAS__W_CONV_K, MIRAS__W_CONV_V,
       MIRAS__W_CONV_BIAS_Q, MIRAS__W_CONV_BIAS_K, MIRAS__W_CONV_BIAS_V, MIRAS__W_GATES_DOWN,
       MIRAS__W_GATES_UP, MIRAS__W_DECAY_DOWN, MIRAS__W_DECAY_UP, MIRAS__W_RATE_DOWN,
       MIRAS__W_RATE_UP, MIRAS__W_MIX_DOWN, MIRAS__W_MIX_UP, MIRAS__W_OUT_DOWN, MIRAS__W_OUT_UP,
       MIRAS__W_GATES_OFFSET, MIRAS__W_GATES_RATE, MIRAS__W_ERASE_SCALE, MIRAS__W_ERASE_MIX,
       MIRAS__W_MEMORY, MIRAS__W_GAIN, MIRAS__W_RIDGE, MIRAS__W_BIAS, MIRAS__W_RATES,
       MIRAS__W_BONUS, MIRAS__W_OUT_NORM, MIRAS__W_OUT_BIAS, MIRAS__W_OUT_GATE,
       MIRAS__W_BESIDE_Q, MIRAS__W_BESIDE_K, MIRAS__W_BESIDE_V, MIRAS__W_BESIDE_NORM_Q,
       MIRAS__W_BESIDE_NORM_K, MIRAS__W_PERSISTENT_K, MIRAS__W_PERSISTENT_V, MIRAS__W_NORM_Y,
       MIRAS__W_NORM_Z, MIRAS__W_O, MIRAS__W_NORM2, MIRAS__W_NORM2_BIAS, MIRAS__W_MLP_GATE,
       MIRAS__W_MLP_UP, MIRAS__W_MLP_DOWN, MIRAS__PARAMS };

typedef struct miras__param {
  size_t rows, cols;               /* rows 0: the layer has none; cols 0: a vector                */
  size_t at;                       /* its first float, counted from the layer's; of a matrix that
                                      is not float its first byte                                 */
  size_t place;                    /* PROJECTS: the first column that it makes; MULTIPLIES: in
                                      work->turned; else in a row of sums                         */
} miras__param;

/* What layers of one kind share. Sizes are in floats, and rows are padded to whole cache lines
 * (ld_*). The projections of a token lie in one row: q, k, v [before the convolutions], the output
 * gate, the gates' low rank, q, k, v of attention beside a memory; a layer may project none of its
 * keys. In a running text a layer has
 * `run` floats: the first `at_out` projections of the last taps - 1 tokens (one row each), then the
 * states of the heads (each part starts on a multiple of 16). */
typedef struct miras__shape {
  miras_layer_type type;
  float epsilon, out_epsilon;      /* of its norms, of what memories say                          */
  size_t tasks;                    /* heads of a sequence that can be worked on apart             */
  size_t beside;                   /* of them, those of attention beside a memory, which come last
                                      and whose shape is the next one (room @77)                  */
  size_t chunk;                    /* windows of running texts are multiples of it                */
  size_t tail, run;                /* of a running text: inputs of convolutions; all of it        */
  size_t scratch, scratch_train;   /* of a worker                                                 */
  int form;                        /* of matrices (miras_weights)                                 */
  int norm;                        /* miras_norm                                                  */
  size_t mixes, ld_h;              /* token shifts (room @76); floats of the rows that project    */
  size_t wide;                     /* but float: where a tile of them lies in a worker's scratch  */
  size_t packed;                   /* and the bytes of all of them                                */
  size_t width, heads, dk, dv, value, hidden, taps;
  size_t at_k, at_v, at_out, at_low, proj;  /* columns of a row of projections, and their count   */
  size_t plain;                    /* of them, where nothing is projected: the normed input       */
  size_t ld_x, ld_p, ld_g, ld_y, ld_f;
  size_t runs, per_token;          /* of a sequence, arrays of what heads read; floats of a token */
  size_t runs_beside;              /* the first of these arrays that attention beside reads       */
  size_t lengths;                  /* of a token's query and keys that the adjoint wants          */
  size_t norm1, norm2, cols_q, cols_k, cols_v, cols_out, cols_low, qk_norm, conv, rate, gain, ridge,
         row_rates, out_norm, beside_q, beside_k, beside_norm, persistent, cols_persistent, both,
         said, conv_v, mix_q, mix_k, bias_q, bias_k, bias_v, bias1, bias2, gated, rank[4], bonus,
         out_bias;                 /* lengths of parameters, 0 of those that it has not got       */
  miras__param param[MIRAS__PARAMS];
  size_t floats;                   /* of all of them                                              */
  size_t sums[MIRAS__ORIGINS];     /* of a row of sums; of transposed weights                     */
  miras__plan plan;                /* batch 1; of attention what names the parts of its state     */
  size_t group;                    /* of attention: heads of queries for one of the keys and values,
                                      a task; of memories: those that read the same keys          */
  /* of memories */
  size_t key_heads, norm_heads;    /* heads of queries and keys; those that share a norm          */
  float query_scale;
  int out_gate;
  miras_key_map key_map;
  miras_mixing mixing[3];          /* of queries, keys and values                                 */
  int tied;                        /* the step gate's numbers are the keep gate's                 */
  int shared;                      /* keys' convolution is one of queries                         */
  float *gate_scale;               /* [outs]                                                      */
  size_t descents;
  size_t read_at[MIRAS__READS];    /* parts of per_token: where they begin                        */
  size_t read_dim[MIRAS__READS];   /* their numbers; 0: there is none                             */
  size_t gates, outs;              /* columns of learned gates: of g, of the gates themselves     */
  size_t moving;                   /* the first of g's, which depend on the token                 */
  miras__gates gate[MIRAS__GATE_GROUPS];
  /* of attention */
  size_t at_still;                 /* queries before they turn in a row of what heads read        */
  size_t window;
  double base;
  size_t turn;                     /* channels of a head that turn                                */
  float *turns;                    /* [tile, turn] cosines and sines of a tile's positions; then
                                      turn / 2 doubles: by what a position turns each pair        */
  size_t turning;                  /* floats of it                                                */
} miras__shape;

/* Initial values: `start` everywhere or, where there is a stream of random numbers, a deviation of
 * start / sqrt(fan rows). Start 0 is that of what writes to the residual stream: smaller, so that
 * the stream does not grow with depth. rows, cols: where a shape says how many; a layer has what
 * has some of both. */
static const struct {
  char name[24];
  unsigned char origin, stream, start, fan;      /* start is in tenths                            */
  uint16_t rows, cols;                           /* cols 0: a vector                              */
} miras__params[MIRAS__PARAMS] = {
#define MIRAS__L(member) (uint16_t)offsetof(miras__shape, member)
  {"norm1.gain", MIRAS__BY_TILE, 0, 10, 1, MIRAS__L(norm1), 0},
  {"norm1.bias", MIRAS__BY_TILE, 0, 0, 1, MIRAS__L(bias1), 0},
  {"shift.mix", MIRAS__BY_TILE, 0, 5, 1, MIRAS__L(mixes), MIRAS__L(width)},
  {"q.weight", MIRAS__PROJECTS, 1, 10, 1, MIRAS__L(width), MIRAS__L(cols_q)},
  {"k.weight", MIRAS__PROJECTS, 2, 10, 1, MIRAS__L(width), MIRAS__L(cols_k)},
  {"v.weight", MIRAS__PROJECTS, 3, 10, 1, MIRAS__L(width), MIRAS__L(cols_v)},
  {"q_norm.gain", MIRAS__BY_TILE, 0, 10, 1, MIRAS__L(qk_norm), 0},
  {"k_norm.gain", MIRAS__BY_TILE, 0, 10, 1, MIRAS__L(qk_norm), 0},
  {"conv_q.weight", MIRAS__BY_TILE, 4, 10, 3, MIRAS__L(conv), MIRAS__L(mix_q)},
  {"conv_k.weight", MIRAS__BY_TILE, 5, 10, 3, MIRAS__L(conv), MIRAS__L(mix_k)},
  {"conv_v.weight", MIRAS__BY_TILE, 6, 10, 3, MIRAS__L(conv_v), MIRAS__L(cols_v)},
  {"conv_q.bias", MIRAS__BY_TILE, 0, 0, 1, MIRAS__L(bias_q), 0},
  {"conv_k.bias", MIRAS__BY_TILE, 0, 0, 1, MIRAS__L(bias_k), 0},
  {"conv_v.bias", MIRAS__BY_TILE, 0, 0, 1, MIRAS__L(bias_v), 0},
  {"gates.down", MIRAS__PROJECTS, 7, 10, 1, MIRAS__L(width), MIRAS__L(cols_low)},
  {"gates.up", MIRAS__MULTIPLIES, 8, 1, 1, MIRAS__L(cols_low), MIRAS__L(moving)},
  {"decay.down", MIRAS__PROJECTS, 18, 10, 1, MIRAS__L(width), MIRAS__L(rank[0])},
  {"decay.up", MIRAS__MULTIPLIES, 19, 1, 1, MIRAS__L(rank[0]), MIRAS__L(cols_q)},
  {"rate.down", MIRAS__PROJECTS, 20, 10, 1, MIRAS__L(width), MIRAS__L(rank[1])},
  {"rate.up", MIRAS__MULTIPLIES, 21, 1, 1, MIRAS__L(rank[1]), MIRAS__L(cols_q)},
  {"value.down", MIRAS__PROJECTS, 22, 10, 1, MIRAS__L(width), MIRAS__L(rank[2])},
  {"value.up", MIRAS__MULTIPLIES, 23, 1, 1, MIRAS__L(rank[2]), MIRAS__L(value)},
  {"out_gate.down", MIRAS__PROJECTS, 24, 10, 1, MIRAS__L(width), MIRAS__L(rank[3])},
  {"out_gate.up", MIRAS__MULTIPLIES, 25, 10, 1, MIRAS__L(rank[3]), MIRAS__L(value)},
  {"gates.offset", MIRAS__BY_TILE, 0, 0, 1, MIRAS__L(gates), 0},
  {"gates.rate", MIRAS__BY_TILE, 0, 0, 1, MIRAS__L(rate), 0},
  {"erase.scale", MIRAS__BY_SEQUENCE, 0, 10, 1, MIRAS__L(gate[MIRAS__ERASE].count), 0},
  {"erase.mix", MIRAS__BY_SEQUENCE, 0, 10, 1, MIRAS__L(gate[MIRAS__ERASE].count), 0},
  {"memory.init", MIRAS__BY_SEQUENCE, 0, 0, 1, MIRAS__L(heads), MIRAS__L(plan.weights)},
  {"memory.gain", MIRAS__BY_SEQUENCE, 0, 10, 1, MIRAS__L(heads), MIRAS__L(gain)},
  {"memory.ridge", MIRAS__BY_SEQUENCE, 0, 0, 1, MIRAS__L(heads), MIRAS__L(ridge)},
  {"memory.bias", MIRAS__BY_SEQUENCE, 0, 0, 1, MIRAS__L(heads), MIRAS__L(gain)},
  {"memory.rates", MIRAS__BY_HEAD, 0, 0, 1, MIRAS__L(row_rates), 0},
  {"bonus.gain", MIRAS__BY_SEQUENCE, 0, 0, 1, MIRAS__L(bonus), 0},
  {"out_norm.gain", MIRAS__BY_TILE, 0, 10, 1, MIRAS__L(out_norm), 0},
  {"out_norm.bias", MIRAS__BY_TILE, 0, 0, 1, MIRAS__L(out_bias), 0},
  {"out_gate.weight", MIRAS__PROJECTS, 10, 10, 1, MIRAS__L(width), MIRAS__L(cols_out)},
  {"attention.q.weight", MIRAS__PROJECTS, 15, 10, 1, MIRAS__L(width), MIRAS__L(beside_q)},
  {"attention.k.weight", MIRAS__PROJECTS, 16, 10, 1, MIRAS__L(width), MIRAS__L(beside_k)},
  {"attention.v.weight", MIRAS__PROJECTS, 17, 10, 1, MIRAS__L(width), MIRAS__L(beside_k)},
  {"attention.q_norm.gain", MIRAS__BY_TILE, 0, 10, 1, MIRAS__L(beside_norm), 0},
  {"attention.k_norm.gain", MIRAS__BY_TILE, 0, 10, 1, MIRAS__L(beside_norm), 0},
  {"persistent.k", MIRAS__BY_SEQUENCE, 18, 10, 1, MIRAS__L(persistent), MIRAS__L(cols_persistent)},
  {"persistent.v", MIRAS__BY_SEQUENCE, 0, 0, 1, MIRAS__L(persistent), MIRAS__L(cols_persistent)},
  {"attention_norm.gain", MIRAS__BY_TILE, 0, 10, 1, MIRAS__L(both), 0},
  {"memory_norm.gain", MIRAS__BY_TILE, 0, 10, 1, MIRAS__L(both), 0},
  {"o.weight", MIRAS__MULTIPLIES, 11, 0, 1, MIRAS__L(said), MIRAS__L(width)},
  {"norm2.gain", MIRAS__BY_TILE, 0, 10, 1, MIRAS__L(norm2), 0},
  {"norm2.bias", MIRAS__BY_TILE, 0, 0, 1, MIRAS__L(bias2), 0},
  {"mlp.gate", MIRAS__MULTIPLIES, 12, 10, 1, MIRAS__L(width), MIRAS__L(gated)},
  {"mlp.up", MIRAS__MULTIPLIES, 13, 10, 1, MIRAS__L(width), MIRAS__L(hidden)},
  {"mlp.down", MIRAS__MULTIPLIES, 14, 0, 1, MIRAS__L(hidden), MIRAS__L(width)}
#undef MIRAS__L
};

/* One layer. */
typedef struct miras__layer {
  const miras__shape *s;
  int index;
  size_t first, run;               /* its first float among parameters, and in a running text     */
  size_t site;                     /* the first of its masks: one for each of its branches        */
  int gives;                       /* its values are those that others mix in                     */
  float *w;                        /* its parameters                                              */
  unsigned char *packed;           /* and matrices that are not float                             */
  float *keep;                     /* [H] constant keep gates                                     */
} miras__layer;

/* Parameters on their way into the flat block, in order. */
typedef struct miras__views {
  miras_view *view;                /* NULL: they are counted                                      */
  int count, layer;                /* so far; the layer they are of, or -1                        */
  size_t floats, learned;          /* every view starts on a cache line                           */
  int form;                        /* of matrices, and their bytes if it is not float             */
  size_t packed;
  uint64_t seed;                   /* of the layer                                                */
} miras__views;

/* How many tokens a call may have. */
typedef struct miras__extent {
  size_t batch, length;
  int train, carries;              /* with an adjoint; with running texts                         */
} miras__extent;

/* What one layer keeps of a call for what comes later. */
typedef struct miras__kept {
  float *x;                        /* [N, W] its input                                            */
  float *mid;                      /* [N, W] between its heads and the MLP, where it has both     */
  float *proj;                     /* [N, proj]                                                   */
  float *g;                        /* [N, gates] before their nonlinearity                        */
  float *y;                        /* [N, value] what the heads said                              */
  float *ab;                       /* [N, 2 F] before the SwiGLU                                  */
  float *tape;                     /* [B, tasks, per_tape]                                        */
  float *tails;                    /* [B, tail] where rows that go on began                       */
  float *shift;                    /* [N, 2 W] see miras__shift                                   */
  size_t per_tape;
} miras__kept;

/* What layers of one kind work in, one after the other. */
typedef struct miras__layer_work {
  size_t per_qkv, context;
  float *gates, *qkv;              /* [N, gates]; [B, runs, per_qkv]                              */
  /* the adjoint */
  float *dqkv, *inverse;           /* as qkv; [B, H, lengths, context] inverse lengths            */
  float *dproj, *dgates, *dy;      /* as proj, gates, y                                           */
  float *h, *h2, *out, *act;       /* forward values again: norm1 (with shifts the mixed rows),
                                      norm2 (mixed), gated memory, SwiGLU                         */
  float *dshift;                   /* [N, 2 W] of a shifted row: the token's own part, and that of
                                      the token before                                            */
  float *part[MIRAS__ORIGINS];     /* [tiles | B | B H, sums] gradients                           */
  float *turned;                   /* transposed weights of one layer: the projections', [proj, W],
                                      then the others'                                            */
} miras__layer_work;

/* Masks of one call: the key of a row follows from seed, step, call, site and row (dropout,
 * @29). */
typedef struct miras__drop {
  uint64_t key;
  uint32_t limit;
  float scale;
} miras__drop;

/* A task: rows first..first + n - 1 of a sequence, rows `row` on of the call. Pointers are at its
 * first row, its tile or its sequence. */
typedef struct miras__visit {
  const miras__kernels *k;
  const miras__layer *layer;
  miras__kept kept;
  miras__layer_work work;
  size_t first, n, row;
  size_t length;                   /* rows of a sequence in the call                              */
  uint64_t position;               /* of its first                                                */
  float *run;                      /* what the layer has in its running text; NULL: a new one     */
  int train;                       /* the adjoint will follow                                     */
  int projected;                   /* proj has all rows of the call; else the visited ones        */
  const miras__drop *drop;         /* NULL: none                                                  */
  float *out;                      /* [N, W]                                                      */
  float *values, *dvalues;         /* [N, value] of the first layer of type rwkv; their gradient  */
  /* the adjoint */
  float *after, *mid, *before;     /* [N, W] gradients of output, middle and input ...            */
  float *after_in, *mid_in;        /* ... as the two branches saw them, behind dropout            */
  float *scratch;
} miras__visit;

static void miras__drop_rows(const miras__kernels *k, const miras__drop *drop, size_t site,
                             size_t row, float *y, const float *base, const float *x, size_t ld,
                             size_t rows, size_t n) {
  uint64_t key = miras__hash(drop->key + (uint64_t)site);
  size_t t;
  for (t = 0; t < rows; t++)
    k->dropout(y + t * ld, base ? base + t * ld : NULL, x + t * ld, miras__hash(key + row + t),
               drop->limit, drop->scale, n);
}

/* Rows of a norm that has one head. */
static miras__norm miras__norm_of(const float *x, size_t ldx, const float *gain, size_t rows,
                                  size_t n, float epsilon) {
  miras__norm of;
  memset(&of, 0, sizeof of);
  of.x = x, of.ldx = ldx, of.gain = gain;
  of.rows = rows, of.heads = 1, of.dim = n;
  of.epsilon = epsilon;
  return of;
}

/* A norm of blocks or before the head: y, or dx as in rms_bwd. RMS has no bias. */
static void miras__block_norm(const miras__kernels *k, float *y, size_t ldy,
                              const miras__norm *of) {
  if (of->bias) k->layer_norm_fwd(y, ldy, of);
  else k->rms_fwd(y, ldy, of);
}

static void miras__block_norm_bwd(const miras__kernels *k, float *dx, const float *base,
                                  float *dgain, float *dbias, float *y, const float *dy, size_t ld,
                                  const miras__norm *of) {
  miras__norm_grads g;
  g.gain = dgain, g.bias = dbias;
  if (of->bias) k->layer_norm_bwd(dx, ld, base, ld, &g, y, ld, dy, ld, of);
  else k->rms_bwd(dx, ld, base, ld, dgain, y, ld, dy, ld, of);
}

/* Whole cache lines; what is too large stays it. */
static size_t miras__padded(size_t n) { return n > (size_t)-1 - 15 ? n : miras__pad(n); }

static size_t miras__tiles(size_t tokens) { return (tokens + MIRAS__TILE - 1) / MIRAS__TILE; }

/* Of the inputs of the convolutions in tail and n more of proj the last taps - 1 stay in tail. */
static void miras__tail_move(const miras__kernels *k, const miras__shape *s, float *tail,
                             const float *proj, size_t n) {
  size_t back = s->taps - 1, wide = s->at_out, t;
  for (t = 0; t < back; t++)
    k->copy(tail + t * wide,
            t + n < back ? tail + (t + n) * wide : proj + (t + n - back) * s->ld_p, wide);
}

/* A type of layer: what differs. All but resolve may be NULL, and without heads so is the rest. */
typedef struct miras__layer_type {
  /* Replace zeros of d by defaults and find the sizes, or refuse it. */
  miras_result (*resolve)(miras__shape *s, const miras_layer_desc *d, char *why, size_t n);
  /* What initial values are beyond the draws of miras__params, and constants; seed is the
   * layer's. */
  void (*draw)(const miras__layer *layer, uint64_t seed);
  /* Floats that a task keeps for its adjoint; 0 or the largest number: too many. */
  size_t (*tape)(const miras__shape *s, const miras__extent *e);
  /* Behind the projections: what works row by row, then what looks at a text's rows before. */
  void (*rows)(const miras__visit *a);
  void (*enter)(const miras__visit *a);
  void (*head)(const miras__visit *a, size_t h);
  const float *(*leave)(const miras__visit *a);        /* what W_o receives if not kept->y        */
  /* Their adjoints, in the order of a backward pass; from: of what W_o received. What the weights'
   * gradients need is left in work and, for the layer's own rows, in kept. */
  void (*leave_bwd)(const miras__visit *a, float *from);
  void (*head_bwd)(const miras__visit *a, size_t h);
  void (*enter_bwd)(const miras__visit *a);
} miras__layer_type;

static size_t miras__count(const miras__param *p) { return p->rows * (p->cols ? p->cols : 1); }

static const float *miras__weight(const miras__layer *layer, int i) {
  return layer->w + layer->s->param[i].at;
}

/* What norms add to the mean of squares where a descriptor says 0. */
static float miras__epsilon(float said, float otherwise) { return said > 0 ? said : otherwise; }

/* A norm of a layer, whose gain is parameter i. */
static miras__norm miras__layer_norm(const miras__layer *layer, int i, const float *x, size_t ldx,
                                     size_t rows, size_t n) {
  return miras__norm_of(x, ldx, miras__weight(layer, i), rows, n, layer->s->epsilon);
}

/* The transpose [cols, rows] of a weight, rows padded. */
static float *miras__turned_weight(const miras__shape *s, const miras__layer_work *work, int i) {
  const size_t place = s->param[i].place;
  return work->turned + (miras__params[i].origin == MIRAS__PROJECTS
                           ? place * s->ld_x : s->sums[MIRAS__PROJECTS] + place);
}

/* Norm 1 or 2, i, of n rows. */
static miras__norm miras__rows_norm(const miras__visit *a, int i, const float *x, size_t n) {
  const miras__shape *s = a->layer->s;
  miras__norm of = miras__layer_norm(a->layer, i, x, s->ld_x, n, s->width);
  if (s->norm) of.bias = miras__weight(a->layer, i + 1);
  return of;
}

static void miras__norm_rows_of(const miras__visit *a, int i, float *y, const float *x, size_t n) {
  const miras__norm of = miras__rows_norm(a, i, x, n);
  miras__block_norm(a->k, y, a->layer->s->ld_x, &of);
}

/* c [n, cols], set or added to, = x W of parameter i. */
static void miras__times(const miras__visit *a, int i, int mode, float *c, size_t ldc,
                         const float *x, size_t ldx, size_t n) {
  const miras__shape *s = a->layer->s;
  const miras__param *p = &s->param[i];
#ifndef MIRAS__DEVICE
  if (s->form) {
    miras__packed w;
    w.p = a->layer->packed + p->at, w.form = s->form, w.turned = 0, w.cols = p->cols;
    w.wide = a->scratch + s->wide;
    miras__packed_times(a->k, mode, c, ldc, miras__mat(x, ldx), &w, n, p->cols, p->rows,
                        a->scratch);
    return;
  }
#endif
  miras__matmul(a->k, mode, c, ldc, miras__mat(x, ldx),
                miras__mat(miras__weight(a->layer, i), p->cols), n, p->cols, p->rows, a->scratch);
}

/* dx [n, rows], set or added to, = d W' of the tile. */
static void miras__times_bwd(const miras__visit *a, int i, int mode, float *dx, size_t ldx,
                             const float *d, size_t ldd) {
  const miras__param *p = &a->layer->s->param[i];
  miras__matmul(a->k, mode, dx, ldx, miras__mat(d, ldd),
                miras__mat(miras__turned_weight(a->layer->s, &a->work, i), miras__pad(p->rows)),
                a->n, p->rows, p->cols, a->scratch);
}

/* The tile's sums of a gradient. */
static float *miras__tile_sum(const miras__visit *a, int i) {
  return a->work.part[MIRAS__BY_TILE] + a->layer->s->param[i].place;
}

/* Those of head h, of its own parameters or of its part of what all have; cleared. NULL: the layer
 * has none. */
static float *miras__head_sum(const miras__visit *a, int i, size_t h) {
  const miras__shape *s = a->layer->s;
  const int origin = miras__params[i].origin, own = origin == MIRAS__BY_HEAD;
  const size_t n = miras__count(&s->param[i]) / (own ? 1 : s->heads);
  float *sum = a->work.part[origin] + s->param[i].place + h * (own ? s->sums[origin] : n);
  if (!n) return NULL;
  a->k->fill(sum, 0, n);
  return sum;
}

/* Is what W_o receives other than what the heads said? */
static int miras__layer_rewrites(const miras__shape *s) {
  return s->out_norm || s->cols_out || s->beside;
}

/* dx = base + the adjoint of norm i of the tile's rows x, for dy; y as in rms_bwd. */
static void miras__norm_rows_bwd(const miras__visit *a, int i, float *dx, const float *base,
                                 float *y, const float *dy, const float *x) {
  const miras__norm of = miras__rows_norm(a, i, x, a->n);
  miras__block_norm_bwd(a->k, dx, base, miras__tile_sum(a, i), miras__tile_sum(a, i + 1), y, dy,
                        a->layer->s->ld_x, &of);
}

/* How often the layer adds to its input. */
static size_t miras__branches(const miras__shape *s) { return s->value && s->hidden ? 2 : 1; }

/* In the order of their columns. */
static const unsigned char miras__projections[] = {
  MIRAS__W_Q, MIRAS__W_K, MIRAS__W_V, MIRAS__W_OUT_GATE, MIRAS__W_GATES_DOWN, MIRAS__W_BESIDE_Q,
  MIRAS__W_BESIDE_K, MIRAS__W_BESIDE_V, MIRAS__W_MIX_DOWN, MIRAS__W_DECAY_DOWN, MIRAS__W_RATE_DOWN,
  MIRAS__W_OUT_DOWN
};
#define MIRAS__PROJECTIONS MIRAS__COUNT(miras__projections)

/* ---- how a layer begins: rows of norm(x) W for all its projections ---- */

/* h = norm(x), proj = h W of n rows: of the first `count` projections, all or the 3 that may go
 * through convolutions; or h itself. */
static void miras__project(const miras__visit *a, size_t count, size_t n, const float *x,
                           float *proj) {
  const miras__shape *s = a->layer->s;
  const miras__norm in = miras__rows_norm(a, MIRAS__W_NORM1, x, n);
  float *h = s->plain ? proj : a->scratch + MIRAS__PACK;
  size_t i;
  miras__block_norm(a->k, h, s->plain ? s->ld_p : s->ld_x, &in);
  for (i = 0; i < count; i++) {
    const int which = miras__projections[i];
    const miras__param *p = &s->param[which];
    if (p->rows) miras__times(a, which, MIRAS__SET, proj + p->place, s->ld_p, h, s->ld_x, n);
  }
}

/* ---- how a layer ends: out = mid + W_down SwiGLU(norm(mid)), mid = x + W_o from; without an MLP
 * (hidden 0) out = mid, without heads (value 0) mid = x ---- */

static float *miras__from_scratch(const miras__visit *a) {       /* [n, value] */
  return a->scratch + MIRAS__PACK + 2 * MIRAS__TILE * a->layer->s->ld_x;
}

/* out = x + from W behind dropout, over the tile, W parameter i, or x + from where the layer has no
 * such parameter: from with rows of ld. out may be x. */
static void miras__add_branch(const miras__visit *a, size_t site, float *out, const float *x, int i,
                              const float *from, size_t ld) {
  const miras__shape *s = a->layer->s;
  const int drop = MIRAS__TRAINS && a->drop;
  float *t = drop ? a->scratch + MIRAS__PACK + MIRAS__TILE * s->ld_x : out;
  if (!drop && out != x) a->k->copy(out, x, a->n * s->ld_x);
  if (s->param[i].rows)
    miras__times(a, i, drop ? MIRAS__SET : MIRAS__ADD, t, s->ld_x, from, ld, a->n);
  else if (drop) a->k->copy_rows(t, s->ld_x, from, ld, a->n, s->width);
  else a->k->add_rows(t, s->ld_x, from, ld, a->n, s->width);
  if (drop) miras__drop_rows(a->k, a->drop, site, a->row, out, x, t, s->ld_x, a->n, s->width);
}

/* dfrom = d W' of d [n, W] behind dropout, which `in` receives. */
static void miras__add_branch_bwd(const miras__visit *a, size_t site, float *in, const float *d,
                                  int i, float *dfrom, size_t ld) {
  const miras__shape *s = a->layer->s;
  if (MIRAS__TRAINS && a->drop)
    miras__drop_rows(a->k, a->drop, site, a->row, in, NULL, d, s->ld_x, a->n, s->width);
  if (s->param[i].rows) miras__times_bwd(a, i, MIRAS__SET, dfrom, ld, in, s->ld_x);
  else a->k->copy_rows(dfrom, ld, in, s->ld_x, a->n, s->width);
}

/* The tile's rows of what the MLP adds to. */
static float *miras__mid(const miras__visit *a) {
  const miras__shape *s = a->layer->s;
  return !s->hidden ? a->out : s->value ? a->kept.mid : a->kept.x;
}

/* Its mask. */
static size_t miras__mlp_site(const miras__visit *a) {
  return a->layer->site + miras__branches(a->layer->s) - 1;
}

/* Has the MLP a shift? Otherwise, if any, the heads have it. */
static int miras__shifts_mlp(const miras__shape *s) { return s->mixes && !s->value; }

/* The shifted norm's rows, of heads or of an MLP, and those of the tokens before less these, side
 * by side; before a text there are zeros. */
static void miras__shift(const miras__visit *a) {
  const miras__shape *s = a->layer->s;
  const int i = s->value ? MIRAS__W_NORM1 : MIRAS__W_NORM2;
  const size_t ld = 2 * s->ld_x;
  const float *x = a->kept.x;
  float *h = a->kept.shift, *d = h + s->ld_x;
  miras__norm of = miras__rows_norm(a, i, x, a->n);
  miras__block_norm(a->k, h, ld, &of);
  if (a->first) {
    of = miras__rows_norm(a, i, x - s->ld_x, 1);
    miras__block_norm(a->k, d, ld, &of);
  } else if (a->run) {
    a->k->copy(d, a->run, s->width);
  } else {
    a->k->fill(d, 0, s->width);
  }
  a->k->copy_rows(d + ld, ld, h, ld, a->n - 1, s->width);
  a->k->axpy_rows(d, ld, -1, NULL, 0, h, ld, a->n, s->width);
}

/* The last of n of these rows is what the text goes on with. */
static void miras__shift_keep(const miras__visit *a, size_t n) {
  const miras__shape *s = a->layer->s;
  a->k->copy(a->run, a->kept.shift + (n - 1) * 2 * s->ld_x, s->width);
}

/* z = h + d (.) mix j */
static void miras__shift_mix(const miras__visit *a, size_t j, float *z, size_t ldz) {
  const miras__shape *s = a->layer->s;
  const float *h = a->kept.shift;
  a->k->copy_rows(z, ldz, h, 2 * s->ld_x, a->n, s->width);
  a->k->muladd_rows(z, ldz, h + s->ld_x, 2 * s->ld_x,
                    miras__weight(a->layer, MIRAS__W_SHIFT) + j * s->width, 0, a->n, s->width);
}

/* The adjoint: dz into what is collected of all mixes, dshift, and into the tile's sums; t: room
 * like dz. */
static void miras__shift_mix_bwd(const miras__visit *a, size_t j, const float *dz, float *t) {
  const miras__shape *s = a->layer->s;
  const size_t ld = s->ld_x, w = s->width;
  float *own = a->work.dshift, *back = own + ld;
  a->k->muladd_rows(miras__tile_sum(a, MIRAS__W_SHIFT) + j * w, 0, dz, ld, a->kept.shift + ld,
                    2 * ld, a->n, w);
  a->k->mul_rows(t, ld, dz, ld, miras__weight(a->layer, MIRAS__W_SHIFT) + j * w, 0, a->n, w);
  if (!j) {
    a->k->copy_rows(own, 2 * ld, dz, ld, a->n, w);
    a->k->copy_rows(back, 2 * ld, t, ld, a->n, w);
  } else {
    a->k->add_rows(own, 2 * ld, dz, ld, a->n, w);
    a->k->add_rows(back, 2 * ld, t, ld, a->n, w);
  }
  a->k->axpy_rows(own, 2 * ld, -1, NULL, 0, t, ld, a->n, w);
}

/* dshift -> dx, through norm i of rows x: a row has what its own token and the next one say. */
static void miras__shift_bwd(const miras__visit *a, int i, float *dx, const float *base,
                             const float *x) {
  const miras__shape *s = a->layer->s;
  const size_t ld = s->ld_x, next = a->n - (a->first + a->n == a->length);
  float *t = a->scratch + MIRAS__PACK;
  a->k->copy_rows(t, ld, a->work.dshift, 2 * ld, a->n, s->width);
  a->k->add_rows(t, ld, a->work.dshift + 3 * ld, 2 * ld, next, s->width);
  miras__norm_rows_bwd(a, i, dx, base, NULL, t, x);
}

/* The tile's ab -> act. */
static void miras__mlp_acts(const miras__visit *a, float *act) {
  const miras__shape *s = a->layer->s;
  const float *ab = a->kept.ab, *up = ab + s->ld_f;
  if (s->gated) a->k->swiglu_fwd(act, s->ld_f, ab, up, 2 * s->ld_f, a->n, s->hidden);
  else a->k->feature_rows(MIRAS_FEATURE_RELU2, act, s->ld_f, up, 2 * s->ld_f, a->n, s->hidden);
}

static void miras__layer_mlp(const miras__visit *a) {
  const miras__shape *s = a->layer->s;
  float *h = a->scratch + MIRAS__PACK, *act = miras__from_scratch(a) + MIRAS__TILE * s->ld_y;
  float *ab = a->kept.ab, *up = ab + s->ld_f;
  if (miras__shifts_mlp(s)) miras__shift_mix(a, 0, h, s->ld_x);
  else miras__norm_rows_of(a, MIRAS__W_NORM2, h, miras__mid(a), a->n);
  if (s->gated) miras__times(a, MIRAS__W_MLP_GATE, MIRAS__SET, ab, 2 * s->ld_f, h, s->ld_x, a->n);
  miras__times(a, MIRAS__W_MLP_UP, MIRAS__SET, up, 2 * s->ld_f, h, s->ld_x, a->n);
  miras__mlp_acts(a, act);
  miras__add_branch(a, miras__mlp_site(a), a->out, miras__mid(a), MIRAS__W_MLP_DOWN, act, s->ld_f);
}

/* after -> mid, or with a shift dshift. */
static void miras__layer_mlp_bwd(const miras__visit *a) {
  const miras__shape *s = a->layer->s;
  const size_t ld = s->ld_x, ld2 = 2 * s->ld_f;
  float *ab = a->kept.ab, *up = ab + s->ld_f, *ds = a->work.act;
  float *t = a->scratch + MIRAS__PACK;
  miras__add_branch_bwd(a, miras__mlp_site(a), a->after_in, a->after, MIRAS__W_MLP_DOWN, ds,
                        s->ld_f);
  if (s->gated) {
    a->k->swiglu_bwd(ds, s->ld_f, ab, up, ld2, a->n, s->hidden);
    miras__times_bwd(a, MIRAS__W_MLP_GATE, MIRAS__SET, t, ld, ab, ld2);
    miras__times_bwd(a, MIRAS__W_MLP_UP, MIRAS__ADD, t, ld, up, ld2);
  } else {                         /* the gate's place has what takes that of up */
    a->k->feature_rows_bwd(MIRAS_FEATURE_RELU2, ab, ld2, ds, ds, s->ld_f, up, ld2, a->n, s->hidden);
    a->k->feature_rows(MIRAS_FEATURE_RELU2, ds, s->ld_f, up, ld2, a->n, s->hidden);
    a->k->copy_rows(up, ld2, ab, ld2, a->n, s->hidden);
    miras__times_bwd(a, MIRAS__W_MLP_UP, MIRAS__SET, t, ld, up, ld2);
  }
  if (!miras__shifts_mlp(s)) {
    miras__norm_rows_bwd(a, MIRAS__W_NORM2, a->mid, a->after, a->work.h2, t, miras__mid(a));
    return;
  }
  miras__shift_mix(a, 0, a->work.h2, ld);
  miras__shift_mix_bwd(a, 0, t, t + MIRAS__TILE * ld);
}

/* Which of the shifts a projection reads: r, w, k, v, a, g, as published. */
static size_t miras__mix_of(int i) {
  switch (i) {
    case MIRAS__W_DECAY_DOWN: return 1;
    case MIRAS__W_K: return 2;
    case MIRAS__W_V: case MIRAS__W_MIX_DOWN: return 3;
    case MIRAS__W_RATE_DOWN: return 4;
    case MIRAS__W_OUT_DOWN: return 5;
    default: return 0;
  }
}

/* The column of g that low rank i (decay, rate, values, output gate) makes. */
static size_t miras__up_column(const miras__shape *s, int i) {
  static const unsigned char group[3] = {MIRAS__KEEP, MIRAS__ERASE, MIRAS__MIX};
  return i < 3 ? s->gate[group[i]].from : s->gates;
}

/* Blocks of work on whole matrices; one list makes one phase. */
typedef enum miras__job_kind { MIRAS__PRODUCT, MIRAS__TRANSPOSE, MIRAS__REDUCE } miras__job_kind;

typedef struct miras__job {
  miras__job_kind kind;    /* PRODUCT c [rows, cols] += a' b over depth; TRANSPOSE c = a';
                              REDUCE c [cols] += the rows of a, in order                         */
  const float *a, *b;
  float *c;
  size_t lda, ldb, ldc, rows, cols, depth;
  size_t across;           /* blocks side by side                                                */
  size_t first;            /* its first task                                                     */
} miras__job;

#define MIRAS__JOBS 48
typedef struct miras__jobs {
  const miras__kernels *k;
  const miras_parallel *parallel;
  float *scratch;          /* [workers, scratch_size]                                            */
  size_t scratch_size;
  size_t batch, tokens, tiles;   /* of the call                                                  */
  size_t tasks;
  int count;
  miras__job job[MIRAS__JOBS];
} miras__jobs;

/* A block of a product: its slice of a (256 tokens x 64) and of b (256 x 128) and its part of c
 * stay in the second-level cache together. */
#define MIRAS__JOB_ROWS 64
#define MIRAS__JOB_COLS 128
#define MIRAS__JOB_DEPTH 256

static void miras__job_task(void *argument, int index, int worker) {
  const miras__jobs *list = (const miras__jobs *)argument;
  const miras__kernels *k = list->k;
  const miras__job *j = list->job + list->count - 1;
  float *pack = list->scratch + (size_t)worker * list->scratch_size;
  size_t at = (size_t)index, i, c, rows, cols, t;
  while (j->first > at) j--;
  at -= j->first;
  i = at / j->across * MIRAS__JOB_ROWS;
  c = at % j->across * MIRAS__JOB_COLS;
  rows = j->rows - i < MIRAS__JOB_ROWS ? j->rows - i : MIRAS__JOB_ROWS;
  cols = j->cols - c < MIRAS__JOB_COLS ? j->cols - c : MIRAS__JOB_COLS;
  if (j->kind == MIRAS__PRODUCT) {
    for (t = 0; t < j->depth; t += MIRAS__JOB_DEPTH)
      miras__matmul(k, MIRAS__ADD, j->c + i * j->ldc + c, j->ldc,
                    miras__turned(j->a + t * j->lda + i, j->lda),
                    miras__mat(j->b + t * j->ldb + c, j->ldb), rows, cols,
                    j->depth - t < MIRAS__JOB_DEPTH ? j->depth - t : MIRAS__JOB_DEPTH, pack);
  } else if (j->kind == MIRAS__TRANSPOSE) {
    k->transpose(j->c + c * j->ldc + i, j->ldc, j->a + i * j->lda + c, j->lda, rows, cols);
  } else {
    for (t = 0; t < j->rows; t++) k->add(j->c + c, j->a + t * j->lda + c, cols);
  }
}

#ifndef MIRAS__DEVICE
/* The next one, for its arrays; it does not count if it is empty. */
static miras__job *miras__job_add(miras__jobs *list, miras__job_kind kind, size_t rows,
                                  size_t cols) {
  const size_t down = kind == MIRAS__REDUCE ? 1 : rows;
  miras__job *j = &list->job[list->count];
  MIRAS_ASSERT(list->count < MIRAS__JOBS);
  j->kind = kind;
  j->rows = rows;
  j->cols = cols;
  j->across = (cols + MIRAS__JOB_COLS - 1) / MIRAS__JOB_COLS;
  j->first = list->tasks;
  if (!rows || !cols) return j;
  list->tasks += (down + MIRAS__JOB_ROWS - 1) / MIRAS__JOB_ROWS * j->across;
  list->count++;
  return j;
}

static void miras__jobs_run(miras__jobs *list) {
  miras__each(list->parallel, list->tasks, miras__job_task, list);
  list->tasks = 0;
  list->count = 0;
}

/* c [cols, rows] = a', a [rows, cols] */
static void miras__job_transpose(miras__jobs *list, float *c, size_t ldc, const float *a,
                                 size_t rows, size_t cols) {
  miras__job *j = miras__job_add(list, MIRAS__TRANSPOSE, rows, cols);
  j->c = c, j->ldc = ldc;
  j->a = a, j->lda = cols;
}

/* dw [rows, cols] += a' b over the tokens of the step. */
static void miras__job_product(miras__jobs *list, float *dw, size_t rows, size_t cols,
                               const float *a, size_t lda, const float *b, size_t ldb) {
  miras__job *j = miras__job_add(list, MIRAS__PRODUCT, rows, cols);
  j->c = dw, j->ldc = cols;
  j->a = a, j->lda = lda;
  j->b = b, j->ldb = ldb;
  j->depth = list->tokens;
}

/* dw [cols] += rows of a, ld apart. */
static void miras__job_reduce(miras__jobs *list, float *dw, size_t cols, const float *a, size_t ld,
                              size_t rows) {
  miras__job *j = miras__job_add(list, MIRAS__REDUCE, rows, cols);
  j->c = dw;
  j->a = a, j->lda = ld;
}

/* And dw += x' d over all tokens, as a job. */
static void miras__times_weight(const miras__visit *a, int i, float *g, const float *x, size_t ldx,
                                const float *d, size_t ldd, miras__jobs *list) {
  const miras__param *p = &a->layer->s->param[i];
  miras__job_product(list, g + p->at, p->rows, p->cols, x, ldx, d, ldd);
}

/* Jobs: transposed weights of a layer, for the products on its way back ... */
static void miras__layer_transposes(const miras__layer *layer, const miras__layer_work *work,
                                    miras__jobs *list) {
  const miras__shape *s = layer->s;
  int i;
  for (i = 0; i < MIRAS__PARAMS; i++)
    if (miras__params[i].origin <= MIRAS__MULTIPLIES)
      miras__job_transpose(list, miras__turned_weight(s, work, i), miras__pad(s->param[i].rows),
                           miras__weight(layer, i), s->param[i].rows, s->param[i].cols);
}

/* ... and all that its weights receive; g: the gradients of the layer's. */
static void miras__layer_weights(const miras__visit *a, float *g, miras__jobs *list) {
  const miras__shape *s = a->layer->s;
  const miras__layer_work *work = &a->work;
  const miras__kept *kept = &a->kept;
  const size_t b = list->batch, rows[MIRAS__ORIGINS] = {0, 0, list->tiles, b, b * s->tasks};
  const float *from = miras__layer_rewrites(s) ? work->out : kept->y;
  int i;
  for (i = 0; i < MIRAS__PARAMS; i++) {
    const miras__param *p = &s->param[i];
    const int origin = miras__params[i].origin;
    if (origin == MIRAS__PROJECTS)
      miras__times_weight(a, i, g, work->h + (s->mixes ? miras__mix_of(i) * s->ld_x : 0), s->ld_h,
                          work->dproj + p->place, s->ld_p, list);
    else if (origin != MIRAS__MULTIPLIES)
      miras__job_reduce(list, g + p->at, miras__count(p), work->part[origin] + p->place,
                        s->sums[origin], rows[origin]);
  }
  miras__times_weight(a, MIRAS__W_GATES_UP, g, kept->proj + s->at_low, s->ld_p, work->dgates,
                      s->ld_g, list);
  for (i = 0; i < 4; i++) {
    const int up = MIRAS__W_DECAY_UP + 2 * i;
    miras__times_weight(a, up, g, kept->proj + s->param[up - 1].place, s->ld_p,
                        work->dgates + miras__up_column(s, i), s->ld_g, list);
  }
  miras__times_weight(a, MIRAS__W_O, g, from, s->ld_y, a->mid_in, s->ld_x, list);
  miras__times_weight(a, MIRAS__W_MLP_GATE, g, work->h2, s->ld_x, kept->ab, 2 * s->ld_f, list);
  miras__times_weight(a, MIRAS__W_MLP_UP, g, work->h2, s->ld_x, kept->ab + s->ld_f, 2 * s->ld_f,
                      list);
  miras__times_weight(a, MIRAS__W_MLP_DOWN, g, work->act, s->ld_f, a->after_in, s->ld_x, list);
}

/* ---- parameters ---- */

/* Append one, unless it has no rows; cols 0: a vector. Its initial values are drawn from stream
 * `stream` of the layer. */
static void miras__view_add(miras__views *v, const char *name, size_t rows, size_t cols, int decay,
                            int stream, double mean, double deviation) {
  const int form = decay ? v->form : MIRAS_WEIGHTS_FLOAT;
  size_t count = 0, offset = form ? v->packed : v->floats;
  miras__grow(&count, rows, cols ? cols : 1);
  if (form) miras__grow(&v->packed, rows, miras__row_bytes(form, cols));
  else miras__grow(&v->floats, count, 1);
  v->packed = miras__padded(v->packed);
  v->floats = miras__padded(v->floats);
  miras__grow(&v->learned, count, 1);
  if (!count) return;
  if (v->view) {
    miras_view *view = &v->view[v->count];
    miras__view_set(view, offset, rows, cols);
    if (v->layer >= 0) miras__say(view->name, sizeof view->name, "blocks.%d.", v->layer);
    miras__say(view->name, sizeof view->name, "%s", name);
    view->decay = decay;
    view->seed = v->seed + (uint64_t)stream;
    view->mean = mean;
    view->deviation = deviation;
  }
  v->count++;
}

/* All of a layer. deep: 1 / sqrt(branches of the model), which makes what they add one in size. */
static void miras__layer_views(const miras__shape *s, miras__views *v, double deep) {
  int i;
  for (i = 0; i < MIRAS__PARAMS; i++) {
    const miras__param *p = &s->param[i];
    const int stream = miras__params[i].stream;
    const double start = miras__params[i].start / 10.0, fan = miras__params[i].fan;
    const double most = stream && !miras__params[i].start ? deep : start;
    if (!p->rows) continue;
    miras__view_add(v, miras__params[i].name, p->rows, p->cols,
                    miras__params[i].origin <= MIRAS__MULTIPLIES, stream, stream ? 0 : most,
                    stream ? most / sqrt(fan * (double)p->rows) : 0);
    if (v->view && i == MIRAS__W_MEMORY)
      v->view[v->count - 1].rate = (float)miras__init_rate(&s->plan);
  }
}

/* Which parameters there are, by their lengths; the columns of the projections. */
static MIRAS__COLD void miras__params_find(miras__shape *s) {
  size_t i;
  s->norm1 = s->value ? s->width : 0;
  s->norm2 = s->hidden ? s->width : 0;
  s->said = s->plain ? 0 : s->value;
  s->bias1 = s->norm ? s->norm1 : 0;
  s->bias2 = s->norm ? s->norm2 : 0;
  for (i = 0; i < MIRAS__PARAMS; i++) {
    miras__param *p = &s->param[i];
    const size_t cols = miras__params[i].cols, rows = miras__params[i].rows;
    if (cols) memcpy(&p->cols, (const char *)s + cols, sizeof p->cols);
    p->rows = 0;
    if (p->cols || !cols) memcpy(&p->rows, (const char *)s + rows, sizeof p->rows);
  }
  for (i = s->proj = 0; i < sizeof miras__projections; i++) {
    miras__param *p = &s->param[miras__projections[i]];
    p->place = s->proj;
    s->proj += p->cols;
  }
  s->at_k = s->param[MIRAS__W_K].place;
  s->at_v = s->param[MIRAS__W_V].place;
  s->at_out = s->param[MIRAS__W_OUT_GATE].place + s->plain;
  s->at_low = s->param[MIRAS__W_GATES_DOWN].place;
  s->proj += s->plain;
}

/* ---- sizes ---- */

/* The shape of attention beside a memory, s[1]: its arrays are parts of the layer's, and so are its
 * parameters. */
static void miras__shape_beside(miras__shape *s) {
  static const unsigned char own[] = {MIRAS__W_NORM_Q, MIRAS__W_NORM_K};
  static const unsigned char persistent[] = {MIRAS__W_PERSISTENT_K, MIRAS__W_PERSISTENT_V};
  miras__shape *w = s + 1;
  int i;
  w->ld_x = s->ld_x, w->ld_p = s->ld_p, w->ld_y = s->ld_y, w->ld_f = s->ld_f;
  for (i = 0; i < 2; i++) {
    w->param[own[i]] = s->param[MIRAS__W_BESIDE_NORM_Q + i];
    w->param[persistent[i]] = s->param[persistent[i]];
  }
}

/* What follows from all that a type has found. 0: the state of a running text is too large. */
static int miras__shape_end(miras__shape *s) {
  size_t rows;
  int i;
  miras__params_find(s);
  for (i = 0; i < MIRAS__PARAMS; i++) {
    miras__param *p = &s->param[i];
    const int origin = miras__params[i].origin, turns = origin <= MIRAS__MULTIPLIES;
    const size_t count = miras__pad(miras__count(p));
    p->at = turns && s->form ? s->packed : s->floats;
    if (turns && s->form) {
      miras__grow(&s->packed, p->rows, miras__row_bytes(s->form, p->cols));
      s->packed = miras__padded(s->packed);
    } else {
      miras__grow(&s->floats, count, 1);
    }
    if (origin != MIRAS__PROJECTS) p->place = s->sums[origin];
    miras__grow(&s->sums[origin], turns ? p->cols : 1, turns ? miras__pad(p->rows) : count);
  }
  s->ld_p = miras__pad(s->proj);
  s->ld_g = miras__pad(s->outs);
  s->ld_y = miras__pad(s->value + (s->beside ? s[1].value : 0));
  rows = MIRAS__PACK + MIRAS__TILE * (2 * s->ld_x + s->ld_y + s->ld_f) +
         (MIRAS__TILE + 8) * s->ld_p;            /* see miras__from_scratch                       */
  if (s->scratch < rows) s->scratch = rows;
  if (s->scratch_train < rows) s->scratch_train = rows;
  s->ld_h = (s->mixes > 1 ? s->mixes : 1) * s->ld_x;
  s->tail = s->mixes ? s->ld_x : miras__pad((s->taps - 1) * s->at_out);
  s->run = s->tail;
  miras__grow(&s->run, s->plan.head_state, s->tasks - s->beside);
  if (s->beside) {
    miras__grow(&s->run, s[1].plan.head_state, s->beside);
    miras__shape_beside(s);
  }
  return s->run + 1 != 0;
}

static void miras__works(const miras__shape *s, const miras__extent *e, miras__arena *a,
                         miras__layer_work *work) {
  const size_t b = e->batch, t = e->length, n = b * t, runs = b * s->runs;
  miras__grow(&work->per_qkv, t, s->per_token);
  work->per_qkv = miras__padded(work->per_qkv);
  work->context = t;
  work->gates = miras__floats(a, n, s->ld_g);
  work->qkv = miras__floats(a, runs, work->per_qkv);
  if (!MIRAS__TRAINS || !e->train) return;
  work->dy = miras__floats(a, n, s->ld_y);
  work->h = miras__floats(a, n, s->ld_h);
  work->dshift = miras__floats(a, s->mixes ? n : 0, 2 * s->ld_x);
  work->h2 = miras__floats(a, n, s->ld_x);
  work->act = miras__floats(a, n, s->ld_f);
  work->dproj = miras__floats(a, n, s->ld_p);
  work->dqkv = miras__floats(a, runs, work->per_qkv);
  work->inverse = miras__floats(a, runs * s->lengths, t);
  work->dgates = miras__floats(a, n, s->ld_g);
  work->out = miras__floats(a, miras__layer_rewrites(s) ? n : 0, s->ld_y);
  work->part[MIRAS__BY_TILE] = miras__floats(a, b * miras__tiles(t), s->sums[MIRAS__BY_TILE]);
  work->part[MIRAS__BY_SEQUENCE] = miras__floats(a, b, s->sums[MIRAS__BY_SEQUENCE]);
  work->part[MIRAS__BY_HEAD] = miras__floats(a, b * s->tasks, s->sums[MIRAS__BY_HEAD]);
}

#endif

/* The MLP as a layer of its own is one without heads. */
static const miras__layer_type miras__mlp_layer = {
  NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
};

/* @76 MEMORY LAYER -------------------------------------------------------- needs 29 31 57 75 -- */

/* A memory per head, fed by convolutions and gates (MODELS in room @01). */

/* Length that the layer gives keys and queries; 0: their own. */
static float miras__key_length(const miras__shape *s) {
  if (s->key_map == MIRAS_KEYS_UNIT) return 1;
  return s->key_map == MIRAS_KEYS_RMS ? (float)sqrt((double)s->dk) : 0;
}

#ifndef MIRAS__DEVICE
/* The shape around s->plan. */
static void miras__memory_layer_shape(miras__shape *s, const miras_layer_desc *d) {
  const miras_desc *m = &s->plan.d;
  miras__gates *group = s->gate;
  int i;
  s->tasks = s->heads = s->runs = (size_t)m->heads;
  s->chunk = (size_t)m->chunk;
  s->tied = d->tied_step;
  s->dk = (size_t)m->key_dim;
  s->dv = (size_t)m->value_dim;
  s->key_heads = d->key_heads ? (size_t)d->key_heads : s->heads;
  s->group = s->heads / s->key_heads;
  s->query_scale = d->scaled_queries ? 1 / sqrtf((float)s->dk) : 1;
  s->norm_heads = d->norm_heads ? (size_t)d->norm_heads : 1;
  s->out_gate = (int)d->out_gate;
  s->taps = d->conv ? (size_t)d->conv : 1;
  s->key_map = d->key_map;
  s->mixing[0] = s->mixing[1] = d->key_mixing;
  s->mixing[2] = d->value_mixing;
  s->value = s->heads * s->dv;
  s->descents = (size_t)m->descents;
  if (miras__key_length(s) > 0) s->lengths = 1 + s->descents;
  for (i = 0; i < MIRAS__READS; i++) {
    const size_t each = i == MIRAS__READ_V ? s->dv : s->dk;
    s->read_at[i] = s->per_token;
    s->read_dim[i] = i == MIRAS__READ_Q ? each : i <= MIRAS__READ_V ? s->descents * each
                   : m->separate_erase ? each : 0;
    s->per_token += s->read_dim[i];
  }
  group[MIRAS__KEEP].count = miras__keep_width(m);
  group[MIRAS__KEEP].form = (int)d->keep_form;
  group[MIRAS__STEP].count = miras__gate_width(m, m->step_gate) * s->descents;
  group[MIRAS__STEP].form = d->tied_step ? MIRAS__GATE_SOFTPLUS : MIRAS__GATE_SIGMOID;
  group[MIRAS__MOMENTUM].count = miras__gate_width(m, m->momentum_gate);
  group[MIRAS__THRESHOLD].count = miras__gate_width(m, m->threshold_gate);
  group[MIRAS__THRESHOLD].form = MIRAS__GATE_SOFTPLUS;
  group[MIRAS__VALUE_KEEP].count = m->value_gate ? s->dv : 0;
  group[MIRAS__ERASE].count = d->key_map == MIRAS_KEYS_ERASE ? s->dk : 0;
  group[MIRAS__MIX].count = d->value_rank ? s->dv : 0;
  for (i = 0; i < MIRAS__GATE_GROUPS; i++) {
    group[i].count *= s->heads;
    group[i].cap = i == MIRAS__KEEP && d->horizon ? 1 - 1 / (float)d->horizon : 1;
    group[i].offset = s->outs;
    if (i != MIRAS__STEP || !d->tied_step) s->outs += group[i].count;
  }
  for (i = 0; i < 2 * MIRAS__GATE_GROUPS; i++) {     /* fixed ones last */
    int at = i % MIRAS__GATE_GROUPS, fixed = d->fixed_gates >> at & 1;
    if (i == MIRAS__GATE_GROUPS) s->moving = s->gates;
    if (fixed != (i >= MIRAS__GATE_GROUPS)) continue;
    group[at].first = group[at].from = s->gates;
    if (at != MIRAS__STEP || !d->tied_step) s->gates += group[at].count;
  }
  s->outs = s->gates;
  if (d->tied_step) {
    group[MIRAS__STEP].first = s->outs;
    group[MIRAS__STEP].from = group[MIRAS__KEEP].first;
    group[MIRAS__STEP].offset = group[MIRAS__KEEP].offset;
    s->outs += group[MIRAS__STEP].count;
  }
  s->cols_q = s->key_heads * s->dk;
  s->mix_q = s->cols_q;
  s->mix_k = d->key_map == MIRAS_KEYS_COMPLEMENT ? 0 : s->descents * s->cols_q;
  s->shared = d->shared_keys;
  s->cols_k = s->shared ? 0 : s->mix_k;
  s->cols_v = s->descents * s->value;
  s->out_norm = s->value;
  s->out_bias = d->out_norm == MIRAS_NORM_LAYER ? s->value : 0;
  s->cols_out = d->out_gate == MIRAS_OUT_NONE ? 0 : s->value;
  s->cols_low = s->moving ? (size_t)d->gate_rank : 0;
  s->conv = (size_t)d->conv;
  s->conv_v = d->convolved == MIRAS_CONVOLVED_KEYS ? 0 : s->conv;
  if (d->conv_bias) s->bias_q = s->mix_q, s->bias_k = s->mix_k;
  if (d->conv_bias && s->conv_v) s->bias_v = s->cols_v;
  s->rate = group->form == MIRAS__GATE_RATE ? group->count : 0;   /* of keep gates                */
  s->gain = m->inner_norm ? s->dv : 0;
  s->ridge = m->algorithm == MIRAS_LEAST_SQUARES ? (size_t)miras__features(m) : 0;
  s->row_rates = m->row_rates ? (size_t)m->chunk : 0;
  miras__params_find(s);
}

static MIRAS__COLD miras_result miras__memory_layer_resolve(miras__shape *s,
                                                            const miras_layer_desc *d, char *why,
                                                            size_t n) {
  const miras_result result = miras__plan_make(&s->plan, &d->memory, why, n);
  if (result != MIRAS_OK) return result;
  if (s->plan.weights > (size_t)INT_MAX)
    return miras__say(why, n, "a memory has %zu weights; a model allows up to %d per head",
                      s->plan.weights, INT_MAX), MIRAS_ERR_DESC;
  miras__memory_layer_shape(s, d);
  s->scratch = s->plan.scratch;
  s->scratch_train = s->plan.head_state + s->plan.scratch_backward;
  if (s->proj > (size_t)INT_MAX || s->outs > (size_t)INT_MAX)
    return miras__say(why, n,
                      "heads, key_dim, value_dim, descents and gates make %zu numbers per token; "
                      "a model allows up to %d", s->proj + s->outs, INT_MAX), MIRAS_ERR_DESC;
  return MIRAS_OK;
}

static double miras__logit(double p) { return log(p / (1 - p)); }

/* The g that makes a keep gate 1 - f, by the formulas of room @29; rate receives c of RATE. */
static double miras__keep_start(const miras__shape *s, double f, double *rate) {
  double loss, g;
  f = 1 - (1 - f) / (double)s->gate[MIRAS__KEEP].cap;
  if (f < 1e-4) f = 1e-4;
  if (f > 0.5) f = 0.5;
  loss = -log(1 - f);
  *rate = 0;
  switch (s->gate[MIRAS__KEEP].form) {
    case MIRAS__GATE_ROOT: return miras__logit(exp(-16 * loss));
    case MIRAS__GATE_RATE:
      /* a tied step starts at softplus(g) = 0.1; otherwise the loss is softplus(g) itself */
      g = s->tied ? 0.1 : loss;
      *rate = log(loss / g);
      return log(expm1(g));
    case MIRAS__GATE_BOUNDED:
      g = loss / 0.60653066;
      return miras__logit(g < 0.95 ? g : 0.95);
    default: return miras__logit(1 - f);
  }
}
/* Where the gates start: forgetting as the descriptor's constants would, steps at half. rate: of
 * the keep gates, or NULL. */
static void miras__draw_gates(const miras__shape *s, float *offset, float *rate) {
  const miras_desc *d = &s->plan.d;
  const miras__gates *g = s->gate;
  const double momentum = (double)d->momentum;
  double forget = d->forget > 0 ? (double)d->forget : 1.0 / 64, start[MIRAS__GATE_GROUPS] = {0}, c;
  const size_t each = g[MIRAS__KEEP].count / s->heads;
  size_t h;
  int i;
  start[MIRAS__MOMENTUM] =
    miras__logit(momentum < 0.05 ? 0.05 : momentum > 0.95 ? 0.95 : momentum);
  start[MIRAS__THRESHOLD] = (double)0.5413f;     /* softplus of it is 1                           */
  start[MIRAS__VALUE_KEEP] = miras__logit(63.0 / 64);
  for (i = MIRAS__MOMENTUM; i <= MIRAS__VALUE_KEEP; i++)
    miras__draw(offset + g[i].offset, g[i].count, 0, start[i], 0);
  for (h = 0; h < s->heads; h++) {
    miras__draw(offset + g[MIRAS__KEEP].offset + h * each, each, 0,
                miras__keep_start(s, forget, &c), 0);
    if (rate) miras__draw(rate + h * each, each, 0, c, 0);
    forget *= d->forget_ratio > 0 ? (double)d->forget_ratio : 1;
  }
}
/* q[rows, key_heads, key_dim]: of k[rows, key_heads, descents, key_dim] the keys of the first of a
 * token's descents. */
static void miras__query_as_key(const miras__shape *s, size_t rows, float *q, const float *k) {
  size_t i;
  for (i = 0; i < rows * s->key_heads; i++)
    memcpy(q + i * s->dk, k + i * s->descents * s->dk, s->dk * sizeof *q);
}
/* Initial values beyond draws: of gates and memories. With an inner norm and keys of length 1
 *   queries start as the keys, projection and convolution: a new network then finds what it wrote
 *           (Trockman et al. 2024), and need not learn first that both must agree
 *   values  of the first half of the heads have three times the deviation: convolution and SiLU
 *           shrink them, and answers, whose size the norm fixes, would hide them in the residual.
 *           The other heads begin as functions of the token that the memory scarcely changes, which
 *           short texts have more use for. Under L_p all values are large: there an answer larger
 *           than its value has a gradient of its seed, which L2 has not behind the norm
 * Matrices, which are linear in the value, learn to look up sooner without either, and so do
 * perceptrons with longer keys, which reach the bends of their activations. */
static MIRAS__COLD void miras__memory_layer_draw(const miras__layer *layer, uint64_t seed) {
  const miras__shape *s = layer->s;
  const miras__param *at = s->param;
  const miras__gates *step = &s->gate[MIRAS__STEP], *bound = &s->gate[MIRAS__THRESHOLD];
  const int found = s->plan.d.inner_norm && s->key_map == MIRAS_KEYS_UNIT && !s->form;
  const size_t large =
    (s->plan.d.bias == MIRAS_LP ? s->heads : (s->heads + 1) / 2) * s->descents * s->dv;
  float *w = layer->w;
  miras__plan plan = s->plan;
  size_t i, column;
  miras__constant_keeps(&plan.d, layer->index, layer->keep);
  miras__draw(s->gate_scale, s->outs, 0, 1, 0);
  miras__draw(s->gate_scale + step->first, step->count, 0, (double)plan.d.step, 0);
  miras__draw(s->gate_scale + bound->first, bound->count, 0, (double)plan.d.threshold, 0);
  if (found) {
    if (!s->shared)
      miras__query_as_key(s, s->width, w + at[MIRAS__W_Q].at, w + at[MIRAS__W_K].at);
    miras__query_as_key(s, s->conv, w + at[MIRAS__W_CONV_Q].at, w + at[MIRAS__W_CONV_K].at);
    for (i = 0; i < s->width; i++)
      for (column = 0; column < large; column++)
        w[at[MIRAS__W_V].at + i * at[MIRAS__W_V].cols + column] *= 3;
  }
  if (s->gates)
    miras__draw_gates(s, w + at[MIRAS__W_GATES_OFFSET].at,
                      at[MIRAS__W_GATES_RATE].rows ? w + at[MIRAS__W_GATES_RATE].at : NULL);
  plan.d.seed = miras__hash(seed + 9);           /* gains or ridges, which begin at one place     */
  miras__plan_init_params(&plan, w + at[MIRAS__W_MEMORY].at, w + at[MIRAS__W_GAIN].at);
}

static size_t miras__memory_layer_tape(const miras__shape *s, const miras__extent *e) {
  return miras__plan_tape(&s->plan, e->length);
}
#endif

/* Row a->first of a part of what head h reads, in an array like work.qkv: per head the parts one
 * behind the other, each [length, read_dim]. Queries and keys lie with the first key_heads heads;
 * of their gradients each head has its own. */
static float *miras__read_rows(const miras__visit *a, float *all, int part, size_t h) {
  const miras__shape *s = a->layer->s;
  return all + h * a->work.per_qkv + s->read_at[part] * a->length + a->first * s->read_dim[part];
}

/* The convolution of queries, keys or values (which 0, 1, 2); dim 0: none. past as in conv_fwd. */
static miras__conv miras__conv_of(const miras__visit *a, int which, const float *past,
                                  size_t ldpast) {
  const miras__shape *s = a->layer->s;
  const miras__param *p = &s->param[MIRAS__W_Q + (which == 1 && s->shared ? 0 : which)];
  const int taps = s->param[MIRAS__W_CONV_Q + which].rows > 0;
  const size_t heads = which < 2 ? s->key_heads : s->heads;
  const int biased = s->param[MIRAS__W_CONV_BIAS_Q + which].rows > 0;
  miras__conv of;
  of.c = a->kept.proj + p->place, of.ldc = s->ld_p;
  of.past = miras__at(past, p->place), of.ldpast = ldpast;
  of.w = taps ? miras__weight(a->layer, MIRAS__W_CONV_Q + which) : NULL;
  of.bias = biased ? miras__weight(a->layer, MIRAS__W_CONV_BIAS_Q + which) : NULL;
  of.taps = taps ? s->taps : 1;
  of.mixing = (int)s->mixing[which];
  of.per = a->work.per_qkv;
  of.rows = a->n, of.heads = heads, of.group = s->heads / heads;
  of.dim = (p->cols + (which ? 0 : s->plain)) / heads;
  of.more = which == 1 && s->shared;
  return of;
}

/* Convolve, activate, and bring keys and queries to their length: proj -> qkv. inverse NULL or, per
 * head, lengths of q, k. */
static void miras__convolve(const miras__visit *a, const float *past, size_t ldpast,
                            float *inverse) {
  const miras__shape *s = a->layer->s;
  const int key = s->read_dim[MIRAS__READ_OWN] ? MIRAS__READ_OWN : MIRAS__READ_K;
  const float length = miras__key_length(s), scale = s->query_scale;
  float *qkv = a->work.qkv;
  size_t h;
  int i;
  for (i = 0; i < 3; i++) {
    const miras__conv of = miras__conv_of(a, i, past, ldpast);
    if (of.dim) a->k->conv_fwd(miras__read_rows(a, qkv, i == MIRAS__READ_K ? key : i, 0), &of);
  }
  for (h = 0; !(length > 0) && scale < 1 && h < s->key_heads; h++) {
    float *q = miras__read_rows(a, qkv, MIRAS__READ_Q, h);
    a->k->scale(q, scale, q, a->n * s->dk);
  }
  for (h = 0; length > 0 && h < s->key_heads; h++) {
    float *r = miras__to(inverse, h * s->lengths * a->work.context);
    a->k->unit_fwd(miras__read_rows(a, qkv, MIRAS__READ_Q, h), miras__to(r, a->first),
                   length * scale, a->n, s->dk);
    a->k->unit_fwd(miras__read_rows(a, qkv, key, h),
                   miras__to(r, a->work.context + a->first * s->descents), length,
                   a->n * s->descents, s->dk);
  }
}

/* What the numbers of a group are multiplied by. */
static const float *miras__gate_scale(const miras__layer *layer, const miras__gates *group) {
  return group->form == MIRAS__GATE_RATE ? miras__weight(layer, MIRAS__W_GATES_RATE)
                                         : layer->s->gate_scale + group->first;
}

/* g [n, gates] -> gates [n, outs]. offset NULL: g holds it already. */
static void miras__make_gates(const miras__visit *a, const float *offset) {
  const miras__shape *s = a->layer->s;
  int i;
  for (i = 0; i < MIRAS__GATE_GROUPS; i++) {
    const miras__gates *group = &s->gate[i];
    const int tied = group->from != group->first;
    if (group->count)
      a->k->gates_fwd(group->form, group->cap, a->work.gates + group->first,
                      a->kept.g + group->from, s->ld_g,
                      offset && !tied ? offset + group->offset : NULL,
                      miras__gate_scale(a->layer, group), a->n, group->count);
  }
}

/* What head h's keys are made of where it erases apart from them. */
static miras__erasing miras__erasing_of(const miras__visit *a, size_t h) {
  const miras__shape *s = a->layer->s;
  miras__erasing e;
  e.x = miras__read_rows(a, a->work.qkv, MIRAS__READ_OWN, h);
  e.c = a->work.gates + s->gate[MIRAS__ERASE].first + h * s->dk;
  e.a = miras__weight(a->layer, MIRAS__W_ERASE_SCALE) + h * s->dk;
  e.b = miras__weight(a->layer, MIRAS__W_ERASE_MIX) + h * s->dk;
  e.ldc = s->ld_g;
  e.rows = a->n;
  e.n = s->dk;
  return e;
}

/* Keys that the layer makes with the help of gates. */
static void miras__make_keys(const miras__visit *a) {
  const miras__shape *s = a->layer->s;
  const miras__gates *keep = &s->gate[MIRAS__KEEP];
  float *qkv = a->work.qkv;
  size_t h;
  for (h = 0; h < s->heads; h++) {
    if (s->key_map == MIRAS_KEYS_COMPLEMENT)
      a->k->complement(keep->form, keep->cap, miras__read_rows(a, qkv, MIRAS__READ_K, h),
                       a->work.gates + keep->first + h * s->dk, a->kept.g + keep->from + h * s->dk,
                       s->ld_g, a->n, s->dk);
    if (s->key_map == MIRAS_KEYS_ERASE) {
      const miras__erasing e = miras__erasing_of(a, h);
      a->k->erase_fwd(miras__read_rows(a, qkv, MIRAS__READ_K, h),
                      miras__read_rows(a, qkv, MIRAS__READ_ERASE, h),
                      miras__read_rows(a, qkv, MIRAS__READ_REPLACE, h), &e);
    }
  }
}

/* What lay ahead of the pass's rows in the convolutions, and how far its rows are apart: nothing
 * (NULL) at the start of a text; its last rows, where it goes on; else the rows ahead in proj. */
static const float *miras__past(const miras__visit *a, size_t *ld) {
  const miras__shape *s = a->layer->s;
  *ld = a->first ? s->ld_p : s->at_out;
  if (a->first) return a->kept.proj - (s->taps - 1) * s->ld_p;
  return a->run ? a->kept.tails : NULL;
}

/* proj -> g, gates */
static void miras__memory_layer_rows(const miras__visit *a) {
  const miras__shape *s = a->layer->s;
  float *g = a->kept.g;
  if (s->moving)
    miras__times(a, MIRAS__W_GATES_UP, MIRAS__SET, g, s->ld_g, a->kept.proj + s->at_low, s->ld_p,
                 a->n);
  if (s->gates > s->moving)
    a->k->fill_rows(g + s->moving, s->ld_g, 0, a->n, s->gates - s->moving);
  if (s->gates) miras__make_gates(a, miras__weight(a->layer, MIRAS__W_GATES_OFFSET));
}

/* proj -> qkv. A tile that is not the first of its sequence projects the rows ahead of it, which
 * its convolutions need, once more. */
static void miras__mix_rows(const miras__visit *a) {
  const miras__shape *s = a->layer->s;
  const size_t back = s->taps - 1;
  size_t ldpast;
  const float *past = miras__past(a, &ldpast);
  float *again = a->scratch + MIRAS__PACK + MIRAS__TILE * s->ld_x;
  if (a->first && !a->projected) {
    past = back ? again : NULL;
    if (back) miras__project(a, 3, back, a->kept.x - back * s->ld_x, again);
  }
  miras__convolve(a, past, ldpast, NULL);
}

/* proj, gates -> qkv */
static void miras__memory_layer_enter(const miras__visit *a) {
  miras__mix_rows(a);
  miras__make_keys(a);
}

/* Head h's columns of a group of gates in a row of them, or NULL where there is none. */
static float *miras__gate_of(const miras__shape *s, int which, size_t h, float *gates) {
  const miras__gates *group = &s->gate[which];
  return group->count ? gates + group->first + h * (group->count / s->heads) : NULL;
}

/* Where head h's rows of all that it reads lie in arrays like work.qkv and work.gates, and how far
 * apart; NULL: the layer has none. Queries and keys are those of head `keys`. */
static miras__head_grads miras__head_rows(const miras__visit *a, size_t h, size_t keys, float *all,
                                          float *gates) {
  static const unsigned char reads[] = {MIRAS__READ_K, MIRAS__READ_V, MIRAS__READ_Q,
                                        MIRAS__READ_ERASE, MIRAS__READ_REPLACE};
  const miras__shape *s = a->layer->s;
  miras__head_grads g;
  size_t i;
  memset(&g, 0, sizeof g);
  for (i = 0; i < MIRAS__INPUT_COUNT; i++) {           /* three reads, five gates, two reads      */
    const int gate = i >= 3 && i < 8, part = gate ? 0 : reads[i < 3 ? i : i - 5];
    float *rows = gate ? miras__gate_of(s, (int)i - 3, h, gates)
                : s->read_dim[part]
                    ? miras__read_rows(a, all, part, part == MIRAS__READ_V ? h : keys) : NULL;
    miras__input_set(&g, i, rows, !rows ? 0 : gate ? s->ld_g : s->read_dim[part]);
  }
  return g;
}

/* Head h of a layer: its outer parameters. */
static void miras__layer_head(const miras__layer *layer, const miras__kernels *k, size_t h,
                              miras__call *run) {
  const miras__shape *s = layer->s;
  const miras__param *ridge = &s->param[MIRAS__W_RIDGE];
  memset(run, 0, sizeof *run);
  run->K = k;
  run->p = &s->plan;
  run->init = miras__weight(layer, MIRAS__W_MEMORY) + h * s->plan.weights;
  if (ridge->rows) run->ridge = miras__weight(layer, MIRAS__W_RIDGE) + h * ridge->cols;
  if (!s->param[MIRAS__W_GAIN].rows) return;
  run->gain = miras__weight(layer, MIRAS__W_GAIN) + h * s->dv;
  run->bias = miras__weight(layer, MIRAS__W_BIAS) + h * s->dv;
}

/* What it reads and writes of its sequence. */
static void miras__layer_call(const miras__visit *a, size_t h, miras__head_io *io,
                              miras__call *run) {
  const miras__layer *layer = a->layer;
  const miras__shape *s = layer->s;
  const miras_desc *d = &s->plan.d;
  const miras__head_grads rows =
    miras__head_rows(a, h, h / s->group, a->work.qkv, a->work.gates);
  memset(io, 0, sizeof *io);
  memcpy(io, &rows, offsetof(miras__head_io, rho));
  io->length = (int)a->n;
  io->head = h;
  miras__constant_gates(d, layer->keep + h, io);
  if (d->row_rates) io->rho = miras__weight(layer, MIRAS__W_RATES);
  io->y = a->kept.y + h * s->dv;
  io->ldy = s->ld_y;
  miras__layer_head(layer, a->k, h, run);
  run->io = io;
  run->position = a->position;
  run->scratch = a->scratch;
  if (MIRAS__TRAINS && a->train)
    run->tape = a->kept.tape + h * a->kept.per_tape;
}

static void miras__memory_layer_head(const miras__visit *a, size_t h) {
  const miras__shape *s = a->layer->s;
  const size_t state = s->plan.head_state;
  miras__head_io io;
  miras__call run;
  miras__layer_call(a, h, &io, &run);
  run.state = a->run ? a->run + s->tail + h * state : a->scratch;
  if (!a->run) {
    run.scratch += state;
    a->k->fill(run.state, 0, state);
  }
  miras__head_forward(&run);
}

/* What the memories answered, to be normed and gated. */
static miras__norm miras__answers_of(const miras__visit *a) {
  const miras__shape *s = a->layer->s;
  miras__norm of =
    miras__layer_norm(a->layer, MIRAS__W_OUT_NORM, a->kept.y, s->ld_y, a->n,
                      s->norm_heads * s->dv);
  of.heads = s->heads / s->norm_heads;
  of.epsilon = s->out_epsilon;
  of.form = s->out_gate;
  if (s->out_bias) of.bias = miras__weight(a->layer, MIRAS__W_OUT_BIAS);
  of.gate = a->kept.proj + s->at_out;
  of.ld_gate = s->ld_p;
  return of;
}

/* A layer norm, and GELU as a gate, are kernels of their own. */
static int miras__gates_apart(const miras__shape *s) {
  return s->out_bias || s->out_gate == MIRAS_OUT_GELU;
}

static int miras__gate_map(const miras__shape *s) {
  return s->out_gate == MIRAS_OUT_GELU ? (int)MIRAS_GELU
       : s->out_gate == MIRAS_OUT_SILU ? (int)MIRAS_SILU : (int)MIRAS__SIGMOID;
}

/* y = what W_o receives, but for a gate apart. */
static void miras__answers_norm(const miras__visit *a, float *y, miras__norm *of) {
  *of = miras__answers_of(a);
  if (miras__gates_apart(a->layer->s)) of->form = MIRAS_OUT_NONE;
  if (of->bias) a->k->layer_norm_fwd(y, a->layer->s->ld_y, of);
  else a->k->gated_norm_fwd(y, a->layer->s->ld_y, of);
}

static const float *miras__memory_layer_leave(const miras__visit *a) {
  const miras__shape *s = a->layer->s;
  float *out = miras__from_scratch(a);
  miras__norm of;
  miras__answers_norm(a, out, &of);
  if (miras__gates_apart(s) && s->cols_out)
    a->k->gate_rows_fwd(miras__gate_map(s), out, s->ld_y, out, s->ld_y, a->kept.proj + s->at_out,
                        s->ld_p, a->n, s->value);
  return out;
}

/* What the memories read once more: gates, qkv. */
static void miras__memory_layer_again(const miras__visit *a) {
  size_t ldpast;
  const float *past = miras__past(a, &ldpast);
  miras__convolve(a, past, ldpast, a->work.inverse);
  if (a->layer->s->gates) miras__make_gates(a, NULL);
  miras__make_keys(a);
}

/* from -> dy and the output gate's part of dproj. */
static void miras__memory_layer_leave_bwd(const miras__visit *a, float *from) {
  const miras__shape *s = a->layer->s;
  float *dgate = a->work.dproj + s->at_out, *t = from + MIRAS__TILE * (s->ld_y + s->ld_f);
  miras__norm of = miras__answers_of(a);
  miras__norm_grads g;
  g.gain = miras__tile_sum(a, MIRAS__W_OUT_NORM);
  g.bias = miras__tile_sum(a, MIRAS__W_OUT_BIAS);
  if (!miras__gates_apart(s)) {
    t = from;
  } else if (s->cols_out) {              /* the gate's adjoint, t: of what it multiplies          */
    miras__answers_norm(a, t, &of);
    a->k->copy_rows(dgate, s->ld_p, of.gate, s->ld_p, a->n, s->value);
    a->k->gate_rows_bwd(miras__gate_map(s), from, s->ld_y, t, s->ld_y, dgate, s->ld_p, a->n,
                        s->value);
    a->k->copy_rows(a->work.out, s->ld_y, from, s->ld_y, a->n, s->value);
  } else {
    miras__answers_norm(a, a->work.out, &of);
    t = from;
  }
  if (of.bias)
    a->k->layer_norm_bwd(a->work.dy, s->ld_y, NULL, 0, &g, NULL, 0, t, s->ld_y, &of);
  else
    a->k->gated_norm_bwd(a->work.dy, s->ld_y, dgate, s->ld_p, g.gain,
                         t == from ? a->work.out : from, s->ld_y, t, s->ld_y, &of);
  miras__memory_layer_again(a);
}

/* The bonus of RWKV-7, adjoint of miras__bonus, of a head's rows: with d the gradient of what it
 * was added to, which leave_bwd has put in the values' columns of dproj, and b = d . v per row
 *   dv += a d,  dr += b k (.) u,  dk += b r (.) u,  du += sum b r (.) k */
static void miras__bonus_bwd(const miras__visit *p, size_t h, const miras__head_io *io,
                             const miras__head_grads *g) {
  const miras__shape *s = p->layer->s;
  const miras__kernels *k = p->k;
  const size_t n = s->dk, dv = s->dv, ld = s->ld_p;
  const float *u = miras__weight(p->layer, MIRAS__W_BONUS) + h * n;
  const float *d = p->work.dproj + s->at_v + h * dv;
  float *du = miras__head_sum(p, MIRAS__W_BONUS, h);
  float *t = p->scratch, *a = t + MIRAS__TILE * n, *b = a + MIRAS__TILE;
  size_t i, m;
  for (i = 0; i < p->n; i += m) {
    const float *q = io->q + i * n, *key = io->k + i * n;
    m = p->n - i < MIRAS__TILE ? p->n - i : MIRAS__TILE;
    k->dot_rows(0, b, 1, d + i * ld, ld, io->v + i * dv, dv, m, dv);
    k->mul_rows(t, n, q, n, key, n, m, n);
    k->dot_rows(0, a, 1, t, n, u, 0, m, n);
    k->axpy_rows(g->v + i * dv, dv, 1, a, 1, d + i * ld, ld, m, dv);
    k->axpy_rows(du, 0, 1, b, 1, t, n, m, n);
    k->mul_rows(t, n, key, n, u, 0, m, n);
    k->axpy_rows(g->q + i * n, n, 1, b, 1, t, n, m, n);
    k->mul_rows(t, n, q, n, u, 0, m, n);
    k->axpy_rows(g->k + i * n, n, 1, b, 1, t, n, m, n);
  }
}

/* dy -> dqkv, dgates, and the head's sums. */
static void miras__memory_layer_head_bwd(const miras__visit *a, size_t h) {
  const miras__kernels *k = a->k;
  const miras__shape *s = a->layer->s;
  const miras__layer_work *work = &a->work;
  const size_t n = a->n;
  const float *inverse = work->inverse + h / s->group * s->lengths * work->context;
  const float length = miras__key_length(s);
  miras__head_grads g = miras__head_rows(a, h, h, work->dqkv, work->dgates);
  miras__head_io io;
  miras__call run;
  miras__layer_call(a, h, &io, &run);
  g.rho = miras__head_sum(a, MIRAS__W_RATES, h);
  run.g = &g;
  run.dy = a->work.dy + h * s->dv;
  run.lddy = s->ld_y;
  run.dinit = miras__head_sum(a, MIRAS__W_MEMORY, h);
  run.dgain = miras__head_sum(a, MIRAS__W_GAIN, h);
  run.dbias = miras__head_sum(a, MIRAS__W_BIAS, h);
  run.dridge = miras__head_sum(a, MIRAS__W_RIDGE, h);
  miras__head_backward(&run);
  if (s->bonus) miras__bonus_bwd(a, h, &io, &g);
  if (length > 0) {
    k->unit_bwd(g.q, io.q, inverse, length * s->query_scale, n, s->dk);
    k->unit_bwd(g.k, io.k, inverse + work->context, length, n * s->descents, s->dk);
  }
  if (!(length > 0) && s->query_scale < 1) k->scale(g.q, s->query_scale, g.q, n * s->dk);
  if (s->key_map == MIRAS_KEYS_COMPLEMENT)
    k->axpy_rows(g.keep, s->ld_g, -1, NULL, 0, g.k, s->dk, n, s->dk);
  if (s->key_map == MIRAS_KEYS_ERASE) {
    const miras__erasing e = miras__erasing_of(a, h);
    k->erase_bwd(g.k, g.erase, g.replace, miras__gate_of(s, MIRAS__ERASE, h, work->dgates), s->ld_g,
                 miras__head_sum(a, MIRAS__W_ERASE_SCALE, h),
                 miras__head_sum(a, MIRAS__W_ERASE_MIX, h), a->scratch, io.erase, &e);
  }
}

/* Adjoint of the convolutions: dqkv -> q, k, v of dproj, and the tile's share of the weights'. */
static void miras__convolve_bwd(const miras__visit *a) {
  const miras__shape *s = a->layer->s;
  const size_t rest = a->length - a->first - a->n;
  size_t ldpast;
  const float *past = miras__past(a, &ldpast);
  int i;
  for (i = 0; i < 3; i++) {
    const miras__conv x = miras__conv_of(a, i, past, ldpast);
    const size_t back = x.taps - 1;
    if (x.dim)
      a->k->conv_bwd(a->work.dproj + (x.c - a->kept.proj), s->ld_p,
                     miras__tile_sum(a, MIRAS__W_CONV_Q + i),
                     x.bias ? miras__tile_sum(a, MIRAS__W_CONV_BIAS_Q + i) : NULL,
                     miras__read_rows(a, a->work.dqkv, i, 0), rest < back ? rest : back,
                     a->scratch + MIRAS__PACK, &x);
  }
}

/* Gradients of gates become those of g, where they lie. */
static void miras__gates_back(const miras__visit *a) {
  float *dg = a->work.dgates;
  int i;
  for (i = 0; i < MIRAS__GATE_GROUPS; i++) {
    const miras__gates *group = &a->layer->s->gate[i];
    if (!group->count) continue;
    a->k->gates_bwd(group->form, group->cap, dg + group->first, a->kept.g + group->from,
                    a->layer->s->ld_g, miras__tile_sum(a, MIRAS__W_GATES_OFFSET) + group->offset,
                    miras__tile_sum(a, MIRAS__W_GATES_RATE), miras__gate_scale(a->layer, group),
                    a->n, group->count);
    if (group->from != group->first)             /* tied: its source has been there before */
      a->k->add_rows(dg + group->from, a->layer->s->ld_g, dg + group->first, a->layer->s->ld_g,
                     a->n, group->count);
  }
}

static void miras__memory_layer_enter_bwd(const miras__visit *a) {
  const miras__shape *s = a->layer->s;
  miras__convolve_bwd(a);
  miras__gates_back(a);
  if (s->moving)
    miras__times_bwd(a, MIRAS__W_GATES_UP, MIRAS__SET, a->work.dproj + s->at_low, s->ld_p,
                     a->work.dgates, s->ld_g);
}

static const miras__layer_type miras__memory_layer = {
  MIRAS__HOST(miras__memory_layer_resolve), MIRAS__HOST(miras__memory_layer_draw),
  MIRAS__HOST(MIRAS__BACK(miras__memory_layer_tape)), miras__memory_layer_rows,
  miras__memory_layer_enter, miras__memory_layer_head, miras__memory_layer_leave,
  MIRAS__BACK(miras__memory_layer_leave_bwd), MIRAS__BACK(miras__memory_layer_head_bwd),
  MIRAS__BACK(miras__memory_layer_enter_bwd)
};

/* ---- a convolution as a layer ---- */

/* out = x + convolution(norm(x)): the memory layer's convolution of queries, of rows that are not
 * projected, and no more. */

#ifndef MIRAS__DEVICE
static MIRAS__COLD miras_result miras__conv_layer_resolve(miras__shape *s,
                                                          const miras_layer_desc *d, char *why,
                                                          size_t n) {
  (void)why;
  (void)n;
  s->heads = s->key_heads = s->runs = 1;
  s->query_scale = 1;
  s->key_map = MIRAS_KEYS_FREE;
  s->mixing[0] = MIRAS_MIX_NONE;
  s->taps = s->conv = (size_t)d->taps;
  s->value = s->plain = s->mix_q = s->bias_q = s->width;
  s->per_token = s->read_dim[MIRAS__READ_Q] = s->width;
  miras__params_find(s);
  return MIRAS_OK;
}
#endif

/* The tile's rows of the branch: [n, width]. */
static float *miras__conv_layer_rows(const miras__visit *a, float *all) {
  return miras__read_rows(a, all, MIRAS__READ_Q, 0);
}

static void miras__conv_layer_enter(const miras__visit *a) {
  const miras__shape *s = a->layer->s;
  miras__mix_rows(a);
  a->k->copy_rows(a->kept.y, s->ld_y, miras__conv_layer_rows(a, a->work.qkv), s->width, a->n,
                  s->width);
}

static void miras__conv_layer_leave_bwd(const miras__visit *a, float *from) {
  const miras__shape *s = a->layer->s;
  a->k->copy_rows(miras__conv_layer_rows(a, a->work.dqkv), s->width, from, s->ld_y, a->n,
                  s->width);
}

static const miras__layer_type miras__conv_layer = {
  MIRAS__HOST(miras__conv_layer_resolve), NULL, NULL, NULL, miras__conv_layer_enter, NULL, NULL,
  MIRAS__BACK(miras__conv_layer_leave_bwd), NULL, MIRAS__BACK(miras__convolve_bwd)
};

/* ---- RWKV-7's time mixing ---- */

/* RWKV-7's layer as published (Peng et al. 2025), around the memory of its row. Of h, the norm of
 * the layer's input, and h' that of the token before (0 at the start of a text), with a learned mix
 * m per channel and its own W each time:
 *   x_j     = h + (h' - h) (.) m_j                                      j = r, w, k, v, a, g
 *   q, k, v = x_r W, x_k W, x_v W
 *   keep    = exp(-exp(-1/2) sigmoid(tanh(x_w W) W + offset))           (keep_form bounded)
 *   rate    = sigmoid(x_a W W + offset),  gate = sigmoid(x_g W) W
 *   v       = v + (v_1 - v) (.) sigmoid(x_v W W + offset)               with value_rank; v_1 the
 *             values of the first layer of this type, before any such mixing
 *   erase, replace, k    by MIRAS_KEYS_ERASE
 *   y       = memory(k, v, q, erase, replace, keep)
 *   a       = sum over a head of q (.) k (.) u,   u learned: the bonus
 *   out     = (layer norm per head(y) + a v) (.) gate
 * Of a running text the layer holds the last h and the heads' states. Columns of g behind those of
 * gates are the output gate's, and then v_1 - v. */

#ifndef MIRAS__DEVICE
static MIRAS__COLD miras_result miras__rwkv_layer_resolve(miras__shape *s,
                                                          const miras_layer_desc *d, char *why,
                                                          size_t n) {
  miras_result result;
  s->rank[0] = (size_t)d->decay_rank;
  s->rank[1] = (size_t)d->rate_rank;
  s->rank[2] = (size_t)d->value_rank;
  s->rank[3] = (size_t)d->out_rank;
  s->mixes = 6;
  result = miras__memory_layer_resolve(s, d, why, n);
  s->taps = 1;
  s->outs += 2 * s->value;         /* behind the gates: the output gate, then what is mixed in    */
  s->cols_out = 0;
  s->bonus = s->cols_q;
  s->out_bias = s->value;
  return result;
}

/* Mixes from 0 to 1: some channels see the token, others the one before. */
static MIRAS__COLD void miras__rwkv_layer_draw(const miras__layer *layer, uint64_t seed) {
  const miras__shape *s = layer->s;
  float *mix = layer->w + s->param[MIRAS__W_SHIFT].at;
  size_t j, i;
  miras__memory_layer_draw(layer, seed);
  for (j = 0; j < s->mixes; j++)
    for (i = 0; i < s->width; i++) *mix++ = (float)(i + 1) / (float)(s->width + 1);
}
#endif

/* x -> proj, g, gates. Low ranks are squashed, and values mixed, where they lie. */
static void miras__rwkv_layer_rows(const miras__visit *a) {
  const miras__kernels *k = a->k;
  const miras__shape *s = a->layer->s;
  const miras__param *decay = &s->param[MIRAS__W_DECAY_DOWN], *out = &s->param[MIRAS__W_OUT_DOWN];
  const size_t ld = s->ld_p, n = s->value;
  float *proj = a->kept.proj, *g = a->kept.g, *z = a->scratch + MIRAS__PACK, *v = proj + s->at_v;
  float *off = g + s->gates + n;
  size_t i;
  for (i = 0; i < MIRAS__PROJECTIONS; i++) {
    const int which = miras__projections[i];
    const miras__param *p = &s->param[which];
    if (!p->rows) continue;
    miras__shift_mix(a, miras__mix_of(which), z, s->ld_x);
    miras__times(a, which, MIRAS__SET, proj + p->place, ld, z, s->ld_x, a->n);
  }
  k->squash_fwd(MIRAS__SQUASH_TANH, proj + decay->place, ld, a->n, decay->cols);
  k->squash_fwd(MIRAS__SQUASH_SIGMOID, proj + out->place, ld, a->n, out->cols);
  for (i = 0; i < 4; i++) {
    const int up = MIRAS__W_DECAY_UP + 2 * (int)i;
    if (s->rank[i])
      miras__times(a, up, MIRAS__SET, g + miras__up_column(s, (int)i), s->ld_g,
                   proj + s->param[up - 1].place, ld, a->n);
  }
  miras__make_gates(a, miras__weight(a->layer, MIRAS__W_GATES_OFFSET));
  if (a->layer->gives) k->copy_rows(a->values, s->ld_y, v, ld, a->n, n);
  if (!s->rank[2]) return;
  k->copy_rows(off, s->ld_g, a->values, s->ld_y, a->n, n);
  k->axpy_rows(off, s->ld_g, -1, NULL, 0, v, ld, a->n, n);
  k->muladd_rows(v, ld, off, s->ld_g, a->work.gates + s->gate[MIRAS__MIX].first, s->ld_g, a->n, n);
}

/* proj, gates -> qkv */
static void miras__rwkv_layer_enter(const miras__visit *a) {
  static const unsigned char reads[3] = {MIRAS__READ_Q, MIRAS__READ_OWN, MIRAS__READ_V};
  const miras__shape *s = a->layer->s;
  size_t h, i;
  for (h = 0; h < s->heads; h++)
    for (i = 0; i < 3; i++) {
      const size_t n = s->read_dim[reads[i]];
      a->k->copy_rows(miras__read_rows(a, a->work.qkv, reads[i], h), n,
                      a->kept.proj + s->param[MIRAS__W_Q + i].place + h * n, s->ld_p, a->n, n);
    }
  miras__make_keys(a);
}

/* What W_o receives before the gate: [n, value]. */
static float *miras__bonus(const miras__visit *p) {
  const miras__shape *s = p->layer->s;
  const miras__kernels *k = p->k;
  const size_t n = s->cols_q, dk = s->dk, dv = s->dv, ld = s->ld_p, rows = p->n;
  const float *proj = p->kept.proj, *key = proj + s->at_k;
  miras__norm of = miras__answers_of(p);
  float *y = miras__from_scratch(p), *t = y + MIRAS__TILE * s->ld_y, *a = t + MIRAS__TILE * n;
  size_t h;
  k->layer_norm_fwd(y, s->ld_y, &of);
  k->mul_rows(t, n, key, ld, p->work.gates + s->gate[MIRAS__ERASE].first, s->ld_g, rows, n);
  k->axpy_rows(t, n, -1, NULL, 0, key, ld, rows, n);
  k->mul_rows(t, n, t, n, miras__weight(p->layer, MIRAS__W_ERASE_MIX), 0, rows, n);
  k->add_rows(t, n, key, ld, rows, n);             /* the changed keys, as in erase_fwd           */
  k->mul_rows(t, n, t, n, proj, ld, rows, n);
  for (h = 0; h < s->heads; h++) {
    k->dot_rows(0, a, 1, t + h * dk, n, miras__weight(p->layer, MIRAS__W_BONUS) + h * dk, 0, rows,
                dk);
    k->axpy_rows(y + h * dv, s->ld_y, 1, a, 1, proj + s->at_v + h * dv, ld, rows, dv);
  }
  return y;
}

static const float *miras__rwkv_layer_leave(const miras__visit *a) {
  const miras__shape *s = a->layer->s;
  float *y = miras__bonus(a);
  a->k->mul_rows(y, s->ld_y, y, s->ld_y, a->kept.g + s->gates, s->ld_g, a->n, s->value);
  return y;
}

/* from -> dy, the output gate's part of dgates, and what came before it in dproj's values. */
static void miras__rwkv_layer_leave_bwd(const miras__visit *a, float *from) {
  const miras__kernels *k = a->k;
  const miras__shape *s = a->layer->s;
  const float *gate = a->kept.g + s->gates;
  float *d = a->work.dproj + s->at_v, *out = a->work.out, *y;
  miras__norm of = miras__answers_of(a);
  miras__norm_grads g;
  g.gain = miras__tile_sum(a, MIRAS__W_OUT_NORM), g.bias = miras__tile_sum(a, MIRAS__W_OUT_BIAS);
  k->copy_rows(out, s->ld_y, from, s->ld_y, a->n, s->value);     /* where miras__bonus writes */
  k->mul_rows(d, s->ld_p, out, s->ld_y, gate, s->ld_g, a->n, s->value);
  miras__make_gates(a, NULL);
  miras__rwkv_layer_enter(a);
  y = miras__bonus(a);
  k->mul_rows(a->work.dgates + s->gates, s->ld_g, out, s->ld_y, y, s->ld_y, a->n, s->value);
  k->mul_rows(out, s->ld_y, y, s->ld_y, gate, s->ld_g, a->n, s->value);
  k->layer_norm_bwd(a->work.dy, s->ld_y, NULL, 0, &g, NULL, 0, d, s->ld_p, &of);
}

/* dqkv -> the columns of dproj that queries, keys and values are made of. What is mixed into
 * values, v + o m, o = v_1 - v:  dm = d o,  dv_1 += d m,  dv = d - d m */
static void miras__rwkv_reads_bwd(const miras__visit *a) {
  static const unsigned char reads[3] = {MIRAS__READ_Q, MIRAS__READ_K, MIRAS__READ_V};
  const miras__kernels *k = a->k;
  const miras__shape *s = a->layer->s;
  const size_t ld = s->ld_p, n = s->value, column = s->gate[MIRAS__MIX].first;
  float *dv = a->work.dproj + s->at_v, *t = a->scratch;
  size_t h, i;
  for (h = 0; h < s->heads; h++)
    for (i = 0; i < 3; i++) {
      const size_t dim = s->read_dim[reads[i]];
      k->copy_rows(a->work.dproj + s->param[MIRAS__W_Q + i].place + h * dim, ld,
                   miras__read_rows(a, a->work.dqkv, reads[i], h), dim, a->n, dim);
    }
  if (s->rank[2]) {
    k->mul_rows(a->work.dgates + column, s->ld_g, dv, ld, a->kept.g + s->gates + n, s->ld_g, a->n,
                n);
    k->mul_rows(t, n, dv, ld, a->work.gates + column, s->ld_g, a->n, n);
    k->add_rows(a->dvalues, s->ld_y, t, n, a->n, n);
    k->axpy_rows(dv, ld, -1, NULL, 0, t, n, a->n, n);
  }
  if (a->layer->gives) k->add_rows(dv, ld, a->dvalues, s->ld_y, a->n, n);
}

/* dqkv and dgates -> dproj, dshift. */
static void miras__rwkv_layer_enter_bwd(const miras__visit *a) {
  const miras__shape *s = a->layer->s;
  const miras__param *decay = &s->param[MIRAS__W_DECAY_DOWN], *out = &s->param[MIRAS__W_OUT_DOWN];
  float *dg = a->work.dgates, *dproj = a->work.dproj, *proj = a->kept.proj;
  float *z = a->scratch + MIRAS__PACK;
  size_t j, i;
  miras__rwkv_reads_bwd(a);
  miras__gates_back(a);
  for (i = 0; i < 4; i++) {
    const int up = MIRAS__W_DECAY_UP + 2 * (int)i;
    if (s->rank[i])
      miras__times_bwd(a, up, MIRAS__SET, dproj + s->param[up - 1].place, s->ld_p,
                       dg + miras__up_column(s, (int)i), s->ld_g);
  }
  a->k->squash_bwd(MIRAS__SQUASH_TANH, dproj + decay->place, s->ld_p, proj + decay->place, s->ld_p,
                   a->n, decay->cols);
  a->k->squash_bwd(MIRAS__SQUASH_SIGMOID, dproj + out->place, s->ld_p, proj + out->place, s->ld_p,
                   a->n, out->cols);
  for (j = 0; j < s->mixes; j++) {
    int mode = MIRAS__SET;
    miras__shift_mix(a, j, a->work.h + j * s->ld_x, s->ld_h);
    for (i = 0; i < MIRAS__PROJECTIONS; i++) {
      const int which = miras__projections[i];
      const miras__param *p = &s->param[which];
      if (!p->rows || miras__mix_of(which) != j) continue;
      miras__times_bwd(a, which, mode, z, s->ld_x, dproj + p->place, s->ld_p);
      mode = MIRAS__ADD;
    }
    miras__shift_mix_bwd(a, j, z, z + MIRAS__TILE * s->ld_x);
  }
}

static const miras__layer_type miras__rwkv_layer = {
  MIRAS__HOST(miras__rwkv_layer_resolve), MIRAS__HOST(miras__rwkv_layer_draw),
  MIRAS__HOST(MIRAS__BACK(miras__memory_layer_tape)), miras__rwkv_layer_rows,
  miras__rwkv_layer_enter, miras__memory_layer_head, miras__rwkv_layer_leave,
  MIRAS__BACK(miras__rwkv_layer_leave_bwd), MIRAS__BACK(miras__memory_layer_head_bwd),
  MIRAS__BACK(miras__rwkv_layer_enter_bwd)
};

/* @77 ATTENTION LAYER ----------------------------------------------------- needs 29 31 54 75 -- */

/* Softmax attention over the last `window` tokens, with rotary positions: with h the RMS norm of
 * the layer's input x, per head
 *   q, k, v = h W_q, h W_k, h W_v             qk_norm: q and k through an RMS norm
 *   y       = attention(turn(q), turn(k), v)  turn by the token's position (rotary in room @29)
 *   out     = y (.) sigmoid(h W_g)            with an output gate; else y
 * Each of kv_heads heads of keys and values serves heads / kv_heads heads of queries. Of a running
 * text the layer holds the turned keys and the values of its window. Persistent pairs, learned keys
 * and values that every query sees (Sukhbaatar et al. 2019), have no position: what reads them are
 * queries that have not turned, so that what they mean is the same however long the text. */

static void miras__attention_layer_sizes(const miras__shape *s, miras__attention *a) {
  memset(a, 0, sizeof *a);
  a->key_dim = a->value_dim = s->dk;
  a->window = s->window;
  a->group = s->group;
  a->block = MIRAS__ATTENTION_BLOCK;
  a->scale = 1 / sqrtf((float)s->dk);
}

/* Angle of the pair i of a head at a position: position * base^(-2i / turn). */
static double miras__angle(const miras__shape *s, size_t i, uint64_t position) {
  double by;
  memcpy(&by, s->turns + MIRAS__TILE * s->turn + i * sizeof by / sizeof(float), sizeof by);
  return (double)position * by;
}

#ifndef MIRAS__DEVICE
static MIRAS__COLD miras_result miras__attention_layer_resolve(miras__shape *s,
                                                               const miras_layer_desc *d, char *why,
                                                               size_t n) {
  miras__attention a;
  miras__attention_work work;
  s->heads = (size_t)d->heads;
  s->tasks = (size_t)d->kv_heads;
  s->group = s->heads / s->tasks;
  s->chunk = s->taps = 1;
  s->dk = s->dv = (size_t)d->head_dim;
  s->window = (size_t)d->window;
  s->base = (double)d->rotary_base;
  s->qk_norm = d->qk_norm ? s->dk : 0;
  s->turn = d->rotary_dim ? (size_t)d->rotary_dim : s->dk;
  s->turning = (MIRAS__TILE + 1) * s->turn;
  s->plan.engine = MIRAS__RUN_ATTENTION;         /* names the parts of its state                  */
  s->plan.d.heads = d->kv_heads;
  s->plan.d.chunk = 1;
  s->plan.d.key_dim = s->plan.d.value_dim = d->head_dim;
  s->plan.d.window = d->window;
  s->plan.split = s->window * s->dk;
  s->plan.second = miras__pad(s->plan.split);
  s->plan.head_dstate = 2 * s->plan.split;
  s->plan.head_state = 2 * s->plan.second;
  s->value = s->heads * s->dk;
  s->persistent = (size_t)d->persistent;
  s->cols_persistent = s->tasks * s->dk;
  s->at_still = s->value + s->cols_persistent;   /* behind turned queries and keys                */
  s->per_token = miras__pad(s->at_still + (s->persistent ? s->value : 0));
  s->runs = 1;
  s->cols_q = s->value;
  s->cols_k = s->cols_v = s->tasks * s->dk;
  s->cols_out = d->output_gate ? s->value : 0;
  miras__params_find(s);
  miras__attention_layer_sizes(s, &a);
  s->scratch = miras__attention_layout(&a, NULL, 0, &work);
  s->scratch_train = miras__attention_layout(&a, NULL, 1, &work);
  if (s->window <= (size_t)-1 / 8 / s->dk && s->proj <= (size_t)INT_MAX) return MIRAS_OK;
  miras__say(why, n, "heads, head_dim and window make more than this machine can address");
  return MIRAS_ERR_DESC;
}

static MIRAS__COLD void miras__attention_layer_draw(const miras__layer *layer, uint64_t seed) {
  const miras__shape *s = layer->s;
  const size_t half = s->turn / 2;
  float *turn = s->turns, *to = turn + MIRAS__TILE * s->turn;
  size_t t, i;
  (void)seed;
  for (i = 0; i < half; i++) {
    const double by = pow(s->base, -2 * (double)i / (double)s->turn);
    memcpy(to + i * sizeof by / sizeof *to, &by, sizeof by);
  }
  for (t = 0; t < MIRAS__TILE; t++, turn += s->turn) {
    for (i = 0; i < half; i++) {
      turn[i] = (float)cos(miras__angle(s, i, (uint64_t)t));
      turn[half + i] = (float)sin(miras__angle(s, i, (uint64_t)t));
    }
  }
}

static size_t miras__attention_layer_tape(const miras__shape *s, const miras__extent *e) {
  size_t rows = 0;
  miras__grow(&rows, e->length, s->group * (s->dv + 2));
  rows = miras__padded(rows);
  miras__grow(&rows, e->carries ? s->plan.head_state : 0, 1);
  return rows;
}
#endif

/* Where a row's positions lie among its angles: cosines, then sines of each of the n rows. A
 * position's is that of its tile on the grid and that of its place there, added. */
static const float *miras__angles(const miras__visit *a) {
  const miras__shape *s = a->layer->s;
  const size_t half = s->turn / 2;
  const uint64_t position = a->position + (uint64_t)a->first;
  float *out = miras__from_scratch(a) + MIRAS__TILE * (s->ld_y + s->ld_f);
  size_t t, i;
  for (i = MIRAS__THREAD; i < half; i += MIRAS__THREADS) {
    float c = 1, z = 0, *to = out + i;
    for (t = 0; t < a->n; t++, to += s->turn) {
      const uint64_t at = position + (uint64_t)t, near = at % MIRAS__TILE;
      const float *turn = s->turns + (size_t)near * s->turn + i;
      if (!t || !near) {
        c = (float)cos(miras__angle(s, i, at - near));
        z = (float)sin(miras__angle(s, i, at - near));
      }
      to[0] = turn[0] * c - turn[half] * z;
      to[half] = turn[half] * c + turn[0] * z;
    }
  }
  MIRAS__MEET();
  return out;
}

/* proj -> qkv */
static void miras__attention_turn(const miras__visit *a) {
  const miras__shape *s = a->layer->s;
  const size_t ld = s->per_token;
  const float *proj = a->kept.proj;
  float *to = a->work.qkv + a->first * ld, *still = s->persistent ? to + s->at_still : to;
  const size_t heads = s->heads + s->tasks, from = s->qk_norm ? ld : s->ld_p;
  const float *angles = miras__angles(a);
  size_t h;
  for (h = 0; s->qk_norm && h < heads; h++) {
    const miras__norm of =
      miras__layer_norm(a->layer, h < s->heads ? MIRAS__W_NORM_Q : MIRAS__W_NORM_K,
                        proj + h * s->dk, s->ld_p, a->n, s->dk);
    a->k->rms_fwd((h < s->heads ? still : to) + h * s->dk, ld, &of);
  }
  if (s->persistent && !s->qk_norm)
    a->k->copy_rows(still, ld, proj, s->ld_p, a->n, s->value);
  a->k->rotary(to, ld, s->qk_norm ? still : proj, from, angles, 1, a->n, s->heads, s->dk, s->turn);
  a->k->rotary(to + s->at_k, ld, (s->qk_norm ? to : proj) + s->at_k, from, angles, 1, a->n,
               s->tasks, s->dk, s->turn);
}

/* Head h of keys and values with its queries. */
static miras__attention miras__attention_layer_of(const miras__visit *p, size_t h,
                                                  miras__head_io *io) {
  const miras__shape *s = p->layer->s;
  const size_t q = h * s->group * s->dk, k = s->at_k + h * s->dk;
  const size_t ring = s->plan.second;
  const float *rows = p->work.qkv;
  miras__attention a;
  miras__attention_layer_sizes(s, &a);
  a.K = p->k;
  a.position = p->position;
  memset(io, 0, sizeof *io);
  io->length = (int)p->n;
  io->q = rows + q;
  io->k = rows + k;
  io->v = p->kept.proj + s->at_v + h * s->dk;
  io->ldq = io->ldk = s->per_token;
  io->ldv = s->ld_p;
  io->y = p->kept.y + q;
  io->ldy = s->ld_y;
  a.io = io;
  a.scratch = p->scratch;
  a.persistent = s->persistent;
  a.ldp = s->cols_persistent;
  if (a.persistent) {
    a.pk = miras__weight(p->layer, MIRAS__W_PERSISTENT_K) + h * s->dk;
    a.pv = miras__weight(p->layer, MIRAS__W_PERSISTENT_V) + h * s->dk;
    a.still = rows + s->at_still + q;
  }
  if (p->run) {
    a.ring_k = p->run + 2 * h * ring;
    a.ring_v = a.ring_k + ring;
  }
  if (MIRAS__TRAINS && p->train) a.tape = p->kept.tape + h * p->kept.per_tape;
  if (MIRAS__TRAINS && p->train && p->run) {
    a.tape_k = a.tape + p->kept.per_tape - 2 * ring;
    a.tape_v = a.tape_k + ring;
  }
  return a;
}

static void miras__attention_layer_head(const miras__visit *p, size_t h) {
  miras__head_io io;
  const miras__attention a = miras__attention_layer_of(p, h, &io);
  miras__attention_run(&a);
}

static const float *miras__attention_layer_leave(const miras__visit *a) {
  const miras__shape *s = a->layer->s;
  float *out = miras__from_scratch(a);
  a->k->gate_rows_fwd(MIRAS__SIGMOID, out, s->ld_y, a->kept.y, s->ld_y, a->kept.proj + s->at_out,
                      s->ld_p, a->n, s->value);
  return out;
}

static void miras__attention_layer_leave_bwd(const miras__visit *a, float *from) {
  const miras__shape *s = a->layer->s;
  float *dy = a->work.dy, *dgate = a->work.dproj + s->at_out;
  if (s->cols_out) {
    a->k->copy_rows(dy, s->ld_y, a->kept.y, s->ld_y, a->n, s->value);
    a->k->copy_rows(dgate, s->ld_p, a->kept.proj + s->at_out, s->ld_p, a->n, s->value);
    a->k->gate_rows_bwd(MIRAS__SIGMOID, from, s->ld_y, dy, s->ld_y, dgate, s->ld_p, a->n,
                        s->value);
    a->k->copy_rows(a->work.out, s->ld_y, from, s->ld_y, a->n, s->value);
  }
  miras__attention_turn(a);
}

/* Head h's columns of the sums of its persistent pairs, cleared. */
static float *miras__persistent_sum(const miras__visit *p, int i, size_t h) {
  const miras__shape *s = p->layer->s;
  float *sum = p->work.part[MIRAS__BY_SEQUENCE] + s->param[i].place + h * s->dk;
  p->k->fill_rows(sum, s->cols_persistent, 0, s->persistent, s->dk);
  return sum;
}

static void miras__attention_layer_head_bwd(const miras__visit *p, size_t h) {
  const miras__shape *s = p->layer->s;
  const miras__layer_work *work = &p->work;
  const size_t q = h * s->group * s->dk, ld = s->per_token;
  miras__head_io io;
  miras__head_grads g;
  miras__attention a = miras__attention_layer_of(p, h, &io);
  memset(&g, 0, sizeof g);
  g.q = work->dqkv + q;
  g.k = work->dqkv + s->at_k + h * s->dk;
  g.v = p->work.dproj + s->at_v + h * s->dk;
  g.ldq = g.ldk = ld;
  g.ldv = s->ld_p;
  a.dy = p->work.dy + q;
  a.lddy = s->ld_y;
  a.g = &g;
  if (s->persistent) {
    a.dstill = work->dqkv + s->at_still + q;
    a.dpk = miras__persistent_sum(p, MIRAS__W_PERSISTENT_K, h);
    a.dpv = miras__persistent_sum(p, MIRAS__W_PERSISTENT_V, h);
  }
  miras__attention_run_bwd(&a);
}

static void miras__attention_layer_enter_bwd(const miras__visit *a) {
  const miras__shape *s = a->layer->s;
  const float *proj = a->kept.proj;
  const size_t heads = s->heads + s->tasks, ld = s->per_token;
  float *dqk = a->work.dqkv + a->first * ld, *dproj = a->work.dproj;
  float *to = s->qk_norm ? dqk : dproj;
  size_t h;
  a->k->rotary(to, s->qk_norm ? ld : s->ld_p, dqk, ld, miras__angles(a), -1, a->n, heads, s->dk,
               s->turn);
  if (s->persistent)
    a->k->add_rows(to, s->qk_norm ? ld : s->ld_p, dqk + s->at_still, ld, a->n, s->value);
  for (h = 0; s->qk_norm && h < heads; h++) {
    const int which = h < s->heads ? MIRAS__W_NORM_Q : MIRAS__W_NORM_K;
    const miras__norm of =
      miras__layer_norm(a->layer, which, proj + h * s->dk, s->ld_p, a->n, s->dk);
    a->k->rms_bwd(dproj + h * s->dk, s->ld_p, NULL, 0, miras__tile_sum(a, which), NULL, 0,
                  dqk + h * s->dk, ld, &of);
  }
}

static const miras__layer_type miras__attention_layer = {
  MIRAS__HOST(miras__attention_layer_resolve), MIRAS__HOST(miras__attention_layer_draw),
  MIRAS__HOST(MIRAS__BACK(miras__attention_layer_tape)), NULL, miras__attention_turn,
  miras__attention_layer_head,
  miras__attention_layer_leave, MIRAS__BACK(miras__attention_layer_leave_bwd),
  MIRAS__BACK(miras__attention_layer_head_bwd), MIRAS__BACK(miras__attention_layer_enter_bwd)
};

/* ---- attention beside a memory: a layer of type mag ---- */

/* Titans' memory as a gate (Behrouz et al. 2024). Of the same rows h = norm(x) the memory of room
 * @76 makes z, and attention makes y:
 *   out = (y r_y g_y) (.) sigmoid(z r_z g_z)     r: 1 / RMS of the row, g: learned gains
 * The layer's own shape is the memory's; attention has the next one, whose columns of projections
 * and answers, whose rows of what heads read and whose heads and states lie behind the memory's.
 * The paper's persistent tokens are persistent pairs of the attention. For the memory, tokens ahead
 * of every text would only move what a text begins with, its learned initial memory: it has
 * none. */

/* The first of arrays like work.qkv that are the attention's: the memory has one per head. */
static float *miras__beside_rows(const miras__visit *a, float *all) {
  return miras__to(all, a->layer->s->runs_beside * a->work.per_qkv);
}

/* The visit as attention sees it; `layer` receives its layer. */
static miras__visit miras__beside_of(const miras__visit *a, miras__layer *layer) {
  const miras__shape *s = a->layer->s;
  const size_t column = s->param[MIRAS__W_BESIDE_Q].place, heads = s->tasks - s->beside;
  miras__visit b = *a;
  *layer = *a->layer;
  layer->s = s + 1;
  b.layer = layer;
  b.kept.proj += column;
  b.kept.y += s->value;
  b.kept.tape = miras__to(b.kept.tape, heads * b.kept.per_tape);
  b.work.qkv = miras__beside_rows(a, b.work.qkv);
  b.work.dqkv = miras__beside_rows(a, b.work.dqkv);
  b.work.dproj = miras__to(b.work.dproj, column);
  b.work.dy = miras__to(b.work.dy, s->value);
  b.run = miras__to(b.run, s->tail + heads * s->plan.head_state);
  return b;
}

#ifndef MIRAS__DEVICE
static MIRAS__COLD miras_result miras__mag_layer_resolve(miras__shape *s, const miras_layer_desc *d,
                                                         char *why, size_t n) {
  miras__shape *w = s + 1;
  miras_result result = miras__memory_layer_resolve(s, d, why, n);
  memset(w, 0, sizeof *w);
  w->type = MIRAS_LAYER_ATTENTION;
  w->epsilon = s->epsilon;
  w->width = s->width;
  if (result == MIRAS_OK) result = miras__attention_layer_resolve(w, d, why, n);
  if (result != MIRAS_OK) return result;
  s->cols_out = s->out_norm = 0;
  s->beside = w->tasks;
  s->tasks += w->tasks;
  s->runs_beside = s->runs;
  s->runs += (w->per_token + s->per_token - 1) / s->per_token;
  s->beside_q = w->cols_q;
  s->beside_k = w->cols_k;
  s->beside_norm = w->qk_norm;
  s->persistent = w->persistent;
  s->cols_persistent = w->cols_persistent;
  s->both = s->value;
  if (s->scratch < w->scratch) s->scratch = w->scratch;
  if (s->scratch_train < w->scratch_train) s->scratch_train = w->scratch_train;
  if (s->proj <= (size_t)INT_MAX - w->proj) return MIRAS_OK;
  miras__say(why, n, "heads and their sizes make %zu numbers per token; a model allows up to %d",
             s->proj + w->proj, INT_MAX);
  return MIRAS_ERR_DESC;
}

static MIRAS__COLD void miras__mag_layer_draw(const miras__layer *layer, uint64_t seed) {
  miras__layer beside = *layer;
  beside.s = layer->s + 1;
  miras__memory_layer_draw(layer, seed);
  miras__attention_layer_draw(&beside, seed);
}

/* A task's room is that of whichever needs more. */
static size_t miras__mag_layer_tape(const miras__shape *s, const miras__extent *e) {
  const size_t memory = miras__memory_layer_tape(s, e);
  const size_t beside = miras__attention_layer_tape(s + 1, e);
  return !memory || memory > beside ? memory : beside;
}
#endif

static void miras__mag_layer_enter(const miras__visit *a) {
  miras__layer layer;
  const miras__visit beside = miras__beside_of(a, &layer);
  miras__memory_layer_enter(a);
  miras__attention_turn(&beside);
}

static void miras__mag_layer_head(const miras__visit *a, size_t h) {
  const size_t heads = a->layer->s->tasks - a->layer->s->beside;
  miras__layer layer;
  const miras__visit beside = miras__beside_of(a, &layer);
  if (h < heads) miras__memory_layer_head(a, h);
  else miras__attention_layer_head(&beside, h - heads);
}

/* The norm of a branch: of y, whose answers lie behind the memory's, or of z. */
static miras__norm miras__mag_norm(const miras__visit *a, int i) {
  const miras__shape *s = a->layer->s;
  return miras__layer_norm(a->layer, i, a->kept.y + (i == MIRAS__W_NORM_Y ? s->value : 0), s->ld_y,
                           a->n, s->value);
}

/* Both branches normed, to t: y in its columns 0 to value - 1, z in the next. */
static void miras__mag_norms(const miras__visit *a, float *t) {
  const miras__shape *s = a->layer->s;
  const miras__norm y = miras__mag_norm(a, MIRAS__W_NORM_Y);
  const miras__norm z = miras__mag_norm(a, MIRAS__W_NORM_Z);
  a->k->rms_fwd(t, s->ld_y, &y);
  a->k->rms_fwd(t + s->value, s->ld_y, &z);
}

static const float *miras__mag_layer_leave(const miras__visit *a) {
  const miras__shape *s = a->layer->s;
  float *t = miras__from_scratch(a);
  miras__mag_norms(a, t);
  a->k->gate_rows_fwd(MIRAS__SIGMOID, t, s->ld_y, t, s->ld_y, t + s->value, s->ld_y, a->n,
                      s->value);
  return t;
}

static void miras__mag_layer_leave_bwd(const miras__visit *a, float *from) {
  const miras__shape *s = a->layer->s;
  const miras__norm y = miras__mag_norm(a, MIRAS__W_NORM_Y);
  const miras__norm z = miras__mag_norm(a, MIRAS__W_NORM_Z);
  float *t = from + MIRAS__TILE * (s->ld_y + s->ld_f), *dy = a->work.dy;
  miras__layer layer;
  const miras__visit beside = miras__beside_of(a, &layer);
  miras__mag_norms(a, t);
  a->k->gate_rows_bwd(MIRAS__SIGMOID, from, s->ld_y, t, s->ld_y, t + s->value, s->ld_y, a->n,
                      s->value);
  a->k->copy_rows(a->work.out, s->ld_y, from, s->ld_y, a->n, s->value);
  a->k->rms_bwd(dy + s->value, s->ld_y, NULL, 0, miras__tile_sum(a, MIRAS__W_NORM_Y), NULL, 0, t,
                s->ld_y, &y);
  a->k->rms_bwd(dy, s->ld_y, NULL, 0, miras__tile_sum(a, MIRAS__W_NORM_Z), NULL, 0, t + s->value,
                s->ld_y, &z);
  miras__memory_layer_again(a);
  miras__attention_turn(&beside);
}

/* Attention has none of the sums of heads, which all tasks have room for. */
static void miras__mag_layer_head_bwd(const miras__visit *a, size_t h) {
  const miras__shape *s = a->layer->s;
  const size_t heads = s->tasks - s->beside, sums = s->sums[MIRAS__BY_HEAD];
  miras__layer layer;
  const miras__visit beside = miras__beside_of(a, &layer);
  if (h < heads) {
    miras__memory_layer_head_bwd(a, h);
    return;
  }
  a->k->fill(miras__to(a->work.part[MIRAS__BY_HEAD], h * sums), 0, sums);
  miras__attention_layer_head_bwd(&beside, h - heads);
}

static void miras__mag_layer_enter_bwd(const miras__visit *a) {
  miras__layer layer;
  const miras__visit beside = miras__beside_of(a, &layer);
  miras__memory_layer_enter_bwd(a);
  miras__attention_layer_enter_bwd(&beside);
}

static const miras__layer_type miras__mag_layer = {
  MIRAS__HOST(miras__mag_layer_resolve), MIRAS__HOST(miras__mag_layer_draw),
  MIRAS__HOST(MIRAS__BACK(miras__mag_layer_tape)), miras__memory_layer_rows,
  miras__mag_layer_enter, miras__mag_layer_head,
  miras__mag_layer_leave, MIRAS__BACK(miras__mag_layer_leave_bwd),
  MIRAS__BACK(miras__mag_layer_head_bwd), MIRAS__BACK(miras__mag_layer_enter_bwd)
};

/* @78 MODEL ------------------------------------------------------------------ needs 31 74 76 -- */

/* In the order of miras_layer_type. */
static const miras__layer_type *const miras__layer_types[] = {
  &miras__memory_layer, MIRAS__PAIRS(&miras__attention_layer), &miras__mlp_layer,
  MIRAS__PAIRS(&miras__mag_layer), &miras__conv_layer, &miras__rwkv_layer
};

static const miras__layer_type *miras__layer_acts(const miras__shape *s) {
  return miras__layer_types[s->type];
}

/* What rows become by themselves, whatever text each is of, ... */
static void miras__enter_rows(const miras__visit *a) {
  const miras__shape *s = a->layer->s;
  if (!a->projected && !s->mixes)
    miras__project(a, MIRAS__PROJECTIONS, a->n, a->kept.x, a->kept.proj);
  if (miras__layer_acts(s)->rows) miras__layer_acts(s)->rows(a);
}

/* ... and then in their text. Where it goes on, what its convolutions begin with is kept, for the
 * adjoint too, ... Shifted rows come before both. */
static void miras__enter(const miras__visit *a) {
  const miras__shape *s = a->layer->s;
  if (a->run && !a->first && a->kept.tails != a->run && !s->mixes)
    a->k->copy(a->kept.tails, a->run, s->tail);
  if (s->mixes) miras__shift(a);
  if (!s->value) return;
  miras__enter_rows(a);
  miras__layer_acts(s)->enter(a);
}

/* dproj and mid -> before, through norm1; h for the weights. With shifts dshift, and then ... */
static void miras__enter_bwd(const miras__visit *a) {
  const miras__shape *s = a->layer->s;
  float *pack = a->scratch, *t = pack + MIRAS__PACK;
  if (!s->value) return;
  miras__layer_acts(s)->enter_bwd(a);
  if (s->mixes) return;
  if (s->plain) a->k->copy_rows(t, s->ld_x, a->work.dproj, s->ld_p, a->n, s->width);
  else
    miras__matmul(a->k, MIRAS__SET, t, s->ld_x, miras__mat(a->work.dproj, s->ld_p),
                  miras__mat(a->work.turned, s->ld_x), a->n, s->width, s->proj, pack);
  miras__norm_rows_bwd(a, MIRAS__W_NORM1, a->before, a->mid, a->work.h, t, a->kept.x);
}

/* ... it goes through the norm, in a phase of its own: a row needs the next one's. */
static void miras__shifted_bwd(const miras__visit *a) {
  if (a->layer->s->value) miras__shift_bwd(a, MIRAS__W_NORM1, a->before, a->mid, a->kept.x);
  else miras__shift_bwd(a, MIRAS__W_NORM2, a->mid, a->after, a->kept.x);
}

/* ... and its last rows are what the next call begins with. */
static void miras__leave(const miras__visit *a) {
  const miras__shape *s = a->layer->s;
  if (a->run && a->first + a->n == a->length) {
    if (s->mixes) miras__shift_keep(a, a->n);
    else miras__tail_move(a->k, s, a->run, a->kept.proj - a->first * s->ld_p, a->length);
  }
  if (s->value)
    miras__add_branch(a, a->layer->site, miras__mid(a), a->kept.x, MIRAS__W_O,
                      miras__layer_rewrites(s) ? miras__layer_acts(s)->leave(a) : a->kept.y,
                      s->ld_y);
  if (s->hidden) miras__layer_mlp(a);
}

/* after -> mid and what comes before W_o. Clears the tile's sums. */
static void miras__leave_bwd(const miras__visit *a) {
  const miras__shape *s = a->layer->s;
  float *from = miras__layer_rewrites(s) ? miras__from_scratch(a) : a->work.dy;
  a->k->fill(a->work.part[MIRAS__BY_TILE], 0, s->sums[MIRAS__BY_TILE]);
  if (s->hidden) miras__layer_mlp_bwd(a);
  if (!s->value) return;
  miras__add_branch_bwd(a, a->layer->site, a->mid_in, a->mid, MIRAS__W_O, from, s->ld_y);
  miras__layer_acts(s)->leave_bwd(a, from);
}

#define MIRAS__LAYERS 256          /* of a model at most                                          */

struct miras_model {
  miras__storage own;
  miras_model_desc desc;
  unsigned char kind[MIRAS__LAYERS];            /* of its layers: the first of their shapes       */
  int kinds;                                    /* shapes in use                                  */
  miras__shape *shape;                          /* [kinds]                                        */
  miras__layer *layers;
  size_t width, vocab, ld_x, ld_v;
  size_t scratch, scratch_train;   /* of a worker, for any of its layers                          */
  size_t run;                      /* floats of a running text: a header of 16, whose first eight
                                      bytes are the position, then what its layers have           */
  size_t norm, head;               /* final gain; [V, W] of the head (the embedding's when tied)  */
  size_t bias, embed_norm;         /* final bias; gain and bias behind the embedding: ld_x apart  */
  size_t ld_values;                /* of rows of values that other layers mix in; 0: none do      */
  int gives;                       /* the layer that has them                                     */
  miras_view *views;
  int view_count;
  size_t param_count;              /* every view starts on a cache line; what lies between is 0   */
  size_t learned;                  /* floats of all views                                         */
  size_t packed_bytes;             /* of matrices that are not float                              */
  size_t wide;                     /* and where a tile of them lies in scratch                    */
  float *params;
  unsigned char *packed;
};

#ifndef MIRAS__DEVICE
/* The rows of the embedding, at 0, or of the head, which a product takes turned. */
static miras__packed miras__packed_at(const miras_model *m, size_t at, float *scratch) {
  miras__packed w;
  w.p = m->packed + at, w.form = (int)m->desc.weights, w.turned = 1, w.cols = m->width;
  w.wide = scratch ? scratch + m->wide : NULL;
  return w;
}
#endif

/* The norm before the head, ... */
static miras__norm miras__last_norm(const miras_model *m, const float *x, size_t rows) {
  miras__norm of = miras__norm_of(x, m->ld_x, m->params + m->norm, rows, m->width,
                                  miras__epsilon(m->desc.norm_epsilon, MIRAS__NORM_EPS));
  if (m->desc.norm) of.bias = m->params + m->bias;
  return of;
}

/* ... and that behind the embedding. */
static miras__norm miras__first_norm(const miras_model *m, const float *x, size_t rows) {
  miras__norm of = miras__last_norm(m, x, rows);
  of.gain = m->params + m->embed_norm;
  if (of.bias) of.bias = of.gain + m->ld_x;
  return of;
}

/* The embedding's rows of n tokens. */
static void miras__embed_rows(const miras__kernels *k, const miras_model *m, const int32_t *tokens,
                              size_t n, float *x) {
  size_t t;
#ifndef MIRAS__DEVICE
  const miras__packed rows = miras__packed_at(m, 0, NULL);
  for (t = 0; rows.form && t < n; t++)
    miras__packed_widen(k, x + t * m->ld_x, 0, &rows, (size_t)tokens[t], 0, 1, m->width);
  if (rows.form) return;
#endif
  for (t = 0; t < n; t++)
    k->copy(x + t * m->ld_x, m->params + (size_t)tokens[t] * m->width, m->width);
}

/* What the first layer reads. */
static void miras__embed(const miras__kernels *k, const miras_model *m, const int32_t *tokens,
                         size_t n, float *x) {
  const miras__norm of = miras__first_norm(m, x, n);
  miras__embed_rows(k, m, tokens, n, x);
  if (m->desc.embed_norm) miras__block_norm(k, x, m->ld_x, &of);
}

#ifndef MIRAS__DEVICE
#define MIRAS__SHAPES (2 * MIRAS_LAYER_KINDS)

/* A model that is being resolved: room for the shapes of every kind. */
typedef struct miras__draft {
  miras_model model;
  miras__shape shape[MIRAS__SHAPES];
} miras__draft;

/* ---- patterns ---- */

/* Items up to the end or a closing parenthesis: each a letter or items in parentheses, and *count
 * behind it repeats it. Their kinds go to kind[count] on; returns the new count, or -1. */
static MIRAS__COLD int miras__pattern_read(const miras_model_desc *d, const char **at,
                                           unsigned char *kind, int count) {
  while (count >= 0 && **at && **at != ')') {
    const int from = count;
    int times = 0, each, i;
    const char c = *(*at)++;
    if (c == '(') {
      count = miras__pattern_read(d, at, kind, count);
      if (count < 0 || *(*at)++ != ')') return -1;
    } else {
      i = miras__kind_of(d, c);
      if (i < 0 || count == MIRAS__LAYERS || !miras__is_letter(c)) return -1;
      kind[count++] = (unsigned char)i;
    }
    if (**at != '*') continue;
    for (++*at; **at >= '0' && **at <= '9' && times <= MIRAS__LAYERS; ++*at)
      times = 10 * times + (**at - '0');
    each = count - from;
    if (times < 1 || (each && times > (MIRAS__LAYERS - from) / each)) return -1;
    for (i = each; i < each * times; i++, count++) kind[count] = kind[count - each];
  }
  return count;
}

/* Which layers there are: kind, of all that the descriptor has, and desc.layers. */
static miras_result miras__pattern_resolve(miras_model *m, char *why, size_t n) {
  miras_model_desc *d = &m->desc;
  const char *at = d->pattern;
  int i, j, count;
  if (!d->layer[0].letter) d->layer[0].letter = 'm';
  if (!memchr(d->pattern, 0, sizeof d->pattern))
    return miras__say(why, n, "pattern has no end; it must have less than %d characters",
                      (int)sizeof d->pattern), MIRAS_ERR_DESC;
  if (!d->pattern[0]) {
    if (!miras__is_letter(d->layer[0].letter))
      return miras__say(why, n, "letter is %d; it must be 0 or lie in a..z or A..Z",
                        (int)d->layer[0].letter), MIRAS_ERR_DESC;
    return MIRAS_OK;
  }
  count = miras__pattern_read(d, &at, m->kind, 0);
  if (count < 1 || *at)
    return miras__say(why, n,
                      "pattern is \"%s\"; it must be letters of kinds of layer, or groups of them "
                      "in parentheses, each with *count behind it or once, and up to %d layers",
                      d->pattern, MIRAS__LAYERS), MIRAS_ERR_DESC;
  if (d->layers && d->layers != count)
    return miras__say(why, n, "layers is %d, but pattern \"%s\" has %d; set layers to 0", d->layers,
                      d->pattern, count), MIRAS_ERR_DESC;
  d->layers = count;
  for (i = 0; i < MIRAS_LAYER_KINDS; i++) {
    for (j = 0; miras__used(d, i) && j < MIRAS_LAYER_KINDS; j++) {
      if (j == i || d->layer[j].letter != d->layer[i].letter) continue;
      miras__say(why, n, "layer[%d].letter and layer[%d].letter are the same; a letter must mean "
                         "one kind of layer", i, j);
      return MIRAS_ERR_DESC;
    }
  }
  return MIRAS_OK;
}

/* ---- sizes ---- */

static miras_result miras__layer_resolve(miras_model *m, miras_layer_desc *d, miras__shape *s,
                                         char *why, size_t n) {
  miras_result result;
  miras__case c;
  if (d->memory.parallel)
    return miras__say(why, n,
                      "memory.parallel is set; a model's workers are those of its trainer: set it "
                      "to NULL"), MIRAS_ERR_DESC;
  if (miras__remembers(d->type)) d->memory.batch = 1;
  if (d->memory.slopes) {
    d->memory.layer = 0;
    d->memory.layers = m->desc.layers;
  }
  memset(&c, 0, sizeof c);
  c.l = *d;
  c.d = m->desc;
  c.inside = 1;
  if (!miras__resolve(&c, why, n)) return MIRAS_ERR_DESC;
  *d = c.l;
  s->type = d->type;
  if (!miras__layer_acts(s))
    return miras__say(why, n,
                      "type is %d (%s); this build leaves attention out (MIRAS_NO_ATTENTION)",
                      (int)d->type, d->type == MIRAS_LAYER_MAG ? "mag" : "attention"),
           MIRAS_ERR_DESC;
  s->epsilon = miras__epsilon(m->desc.norm_epsilon, MIRAS__NORM_EPS);
  s->out_epsilon = s->epsilon * (d->type == MIRAS_LAYER_RWKV ? (float)d->memory.value_dim : 1);
  s->out_epsilon = miras__epsilon(d->out_epsilon, s->out_epsilon);
  s->width = m->width;
  s->form = (int)m->desc.weights;
  s->norm = (int)m->desc.norm;
  s->hidden = (size_t)d->hidden;
  s->gated = d->mlp == MIRAS_MLP_RELU2 ? 0 : s->hidden;
  s->mixes = d->shift ? 1 : 0;
  s->ld_x = miras__pad(s->width);
  s->ld_f = miras__pad(s->hidden);
  s->chunk = s->taps = 1;
  result = miras__layer_acts(s)->resolve ? miras__layer_acts(s)->resolve(s, d, why, n) : MIRAS_OK;
  if (result != MIRAS_OK || miras__shape_end(s)) return result;
  miras__say(why, n, "the state of a running text is larger than this machine can address");
  return MIRAS_ERR_DESC;
}

/* The fields of the model itself. */
static miras_result miras__own_resolve(miras_model_desc *d, char *why, size_t n) {
  const size_t at = offsetof(miras__case, d);
  miras__case c;
  memset(&c, 0, sizeof c);
  c.d = *d;
  c.inside = 1;
  if (!miras__resolve_fields(&c, at, at + sizeof *d, why, n)) return MIRAS_ERR_DESC;
  *d = c.d;
  return MIRAS_OK;
}

/* The model's first layer of type rwkv, whose values others mix in; the number of layers: none. */
static int miras__gives(const miras_model *m) {
  int l = 0;
  while (l < m->desc.layers && m->desc.layer[m->kind[l]].type != MIRAS_LAYER_RWKV) l++;
  return l;
}

/* Do they fit those that mix them in? */
static MIRAS__COLD miras_result miras__values_resolve(miras_model *m, char *why, size_t n) {
  int l;
  for (l = m->gives + 1; l < m->desc.layers; l++) {
    const miras__shape *s = &m->shape[m->kind[l]];
    if (!s->rank[2]) continue;
    m->ld_values = s->ld_y;
    if (s->value == m->shape[m->kind[m->gives]].value) continue;
    miras__say(why, n,
               "value_rank is %d; heads times value_dim must be those of the first layer of type "
               "rwkv, whose values are mixed in", (int)s->rank[2]);
    return MIRAS_ERR_DESC;
  }
  return MIRAS_OK;
}

/* Replace zeros by defaults, refuse what is not meant, find all sizes. */
static MIRAS__COLD miras_result miras__model_resolve(miras__draft *draft,
                                                     const miras_model_desc *from, char *why,
                                                     size_t n) {
  miras_model *m = &draft->model;
  miras_model_desc *d = &m->desc;
  const miras__shape *s;
  unsigned char shape[MIRAS_LAYER_KINDS], gives = 0;
  miras_result result;
  int i, l;
  if (why && n) why[0] = 0;
  if (!from)
    return miras__say(why, n, "the descriptor is NULL"), MIRAS_ERR_ARGUMENT;
  memset(draft, 0, sizeof *draft);
  *d = *from;
  m->shape = draft->shape;
  result = miras__pattern_resolve(m, why, n);
  if (result == MIRAS_OK) result = miras__own_resolve(d, why, n);
  if (result != MIRAS_OK) return result;
  m->width = (size_t)d->width;
  m->vocab = (size_t)d->vocab;
  m->ld_x = miras__pad(m->width);
  m->ld_v = miras__pad(m->vocab);
  m->run = 16;
  m->gives = miras__gives(m);
  for (i = 0; i < MIRAS_LAYER_KINDS; i++) {
    char said[256];
    said[0] = 0;
    if (!miras__used(d, i)) continue;
    result = miras__layer_resolve(m, &d->layer[i], &m->shape[m->kinds], said, sizeof said);
    if (result != MIRAS_OK) {
      if (i) miras__say(why, n, "layer[%d]: ", i);
      return miras__say(why, n, "%s", said), result;
    }
    shape[i] = (unsigned char)m->kinds;
    s = &m->shape[m->kinds++];
    m->kinds += s->beside > 0;
    if (m->gives < d->layers && i == m->kind[m->gives]) {
      miras_layer_desc first = d->layer[i];      /* has been resolved, and is without mixing */
      first.value_rank = 0;
      gives = (unsigned char)m->kinds;
      (void)miras__layer_resolve(m, &first, &m->shape[m->kinds++], said, sizeof said);
    }
    if (m->scratch < s->scratch) m->scratch = s->scratch;
    if (m->scratch_train < s->scratch_train) m->scratch_train = s->scratch_train;
  }
  m->wide = m->scratch;
  for (i = 0; i < m->kinds; i++) m->shape[i].wide = m->wide;
  if (d->weights) miras__grow(&m->scratch, MIRAS__WIDEN, 1);
  for (l = 0; l < d->layers; l++) {
    m->kind[l] = l == m->gives ? gives : shape[m->kind[l]];
    miras__grow(&m->run, m->shape[m->kind[l]].run, 1);
  }
  result = miras__values_resolve(m, why, n);
  if (result != MIRAS_OK) return result;
  if (m->run <= (size_t)-1 / sizeof(float)) return MIRAS_OK;
  miras__say(why, n, "the state of a running text is larger than this machine can address");
  return MIRAS_ERR_DESC;
}

/* All parameters in order. Without m->views it counts; both passes fill the offsets. */
static void miras__model_views(miras_model *m) {
  const uint64_t seed = miras__hash(m->desc.seed);
  size_t branches = 0;
  miras__views v;
  int l;
  for (l = 0; l < m->desc.layers; l++) branches += miras__branches(&m->shape[m->kind[l]]);
  memset(&v, 0, sizeof v);
  v.view = m->views;
  v.form = (int)m->desc.weights;
  v.layer = -1;
  v.seed = seed;
  miras__view_add(&v, "embed.weight", m->vocab, m->width, 1, 0, 0, 0.02);
  m->embed_norm = v.floats;
  if (m->desc.embed_norm) {
    miras__view_add(&v, "embed_norm.gain", m->width, 0, 0, 0, 1, 0);
    if (m->desc.norm) miras__view_add(&v, "embed_norm.bias", m->width, 0, 0, 0, 0, 0);
  }
  for (l = 0; l < m->desc.layers; l++) {
    v.layer = l;
    v.seed = miras__hash(seed + (uint64_t)l + 1);
    if (m->views) m->layers[l].first = v.floats, m->layers[l].packed = m->packed + v.packed;
    miras__layer_views(&m->shape[m->kind[l]], &v, 1 / sqrt((double)branches));
  }
  v.layer = -1;
  v.seed = seed;
  m->norm = v.floats;
  miras__view_add(&v, "norm.gain", m->width, 0, 0, 0, 1, 0);
  m->bias = v.floats;
  if (m->desc.norm) miras__view_add(&v, "norm.bias", m->width, 0, 0, 0, 0, 0);
  m->head = !m->desc.untied ? 0 : v.form ? v.packed : v.floats;
  if (m->desc.untied)
    miras__view_add(&v, "head.weight", m->vocab, m->width, 1, 1, 0, 1 / sqrt((double)m->width));
  m->view_count = v.count;
  m->param_count = v.floats;
  m->learned = v.learned;
  m->packed_bytes = v.packed;
}

static MIRAS__COLD void miras__model_layout(void *object, miras__arena *a) {
  miras_model *m = (miras_model *)object;
  const size_t layers = (size_t)m->desc.layers, kinds = (size_t)m->kinds;
  miras__shape *shape = (miras__shape *)miras__take(a, kinds, sizeof *shape);
  size_t run = 16, site = 1, l;
  int i;
  if (shape) {
    memcpy(shape, m->shape, kinds * sizeof *shape);
    m->shape = shape;
  }
  m->views = NULL;
  miras__model_views(m);
  m->layers = (miras__layer *)miras__take(a, layers, sizeof(miras__layer));
  m->views = (miras_view *)miras__take(a, (size_t)m->view_count, sizeof(miras_view));
  m->params = miras__floats(a, m->param_count, 1);
  m->packed = (unsigned char *)miras__take(a, m->packed_bytes, 1);
  if (m->views) miras__model_views(m);
  for (i = 0; i < m->kinds; i++) {
    m->shape[i].gate_scale = miras__floats(a, m->shape[i].outs, 1);
    m->shape[i].turns = miras__floats(a, m->shape[i].turning, 1);
  }
  for (l = 0; l < layers; l++) {
    const miras__shape *s = &m->shape[m->kind[l]];
    float *keep = miras__floats(a, s->heads, 1);
    if (!m->layers) continue;
    m->layers[l].s = s;
    m->layers[l].index = (int)l;
    m->layers[l].w = m->params + m->layers[l].first;
    m->layers[l].run = run;
    m->layers[l].site = site;
    m->layers[l].gives = m->ld_values && (int)l == m->gives;
    m->layers[l].keep = keep;
    run += s->run;
    site += miras__branches(s);
  }
}

/* What a layer keeps of a call; all but x, which is the caller's. */
static void miras__keeps(const miras__shape *s, const miras__extent *e, miras__arena *a,
                         miras__kept *kept) {
  const size_t n = e->batch * e->length;
  if (miras__branches(s) > 1) kept->mid = miras__floats(a, n, s->ld_x);
  kept->y = miras__floats(a, n, s->ld_y);
  kept->proj = miras__floats(a, n, s->ld_p);
  kept->ab = miras__floats(a, n, 2 * s->ld_f);
  kept->g = miras__floats(a, n, s->ld_g);
  kept->tails = miras__floats(a, e->carries ? e->batch : 0, s->tail);
  kept->shift = miras__floats(a, s->mixes ? n : 0, 2 * s->ld_x);
  if (!MIRAS__TRAINS || !e->train || !s->tasks) return;
  kept->per_tape = miras__padded(miras__layer_acts(s)->tape(s, e));
  if (!kept->per_tape) a->ok = 0;
  kept->tape = miras__floats(a, e->batch * s->tasks, kept->per_tape);
}

/* What layers work in, over one another, for no two kinds work at a time; without training also
 * what they keep. work [kinds], kept: NULL while measuring. */
static MIRAS__COLD void miras__works_layout(const miras_model *m, const miras__extent *e,
                                            miras__arena *a, miras__layer_work *work,
                                            miras__kept *kept) {
  const size_t start = a->used;
  size_t end = start, turns = 0;
  float *turned;
  int i;
  for (i = 0; i < m->kinds; i++) {
    const miras__shape *s = &m->shape[i];
    miras__layer_work w;
    miras__kept k;
    size_t floats = s->sums[MIRAS__PROJECTS];
    miras__grow(&floats, s->sums[MIRAS__MULTIPLIES], 1);
    if (turns < floats) turns = floats;
    memset(&w, 0, sizeof w);
    memset(&k, 0, sizeof k);
    a->used = start;
    miras__works(s, e, a, &w);
    if (!e->train) miras__keeps(s, e, a, &k);
    if (a->used > end) end = a->used;
    if (work) work[i] = w;
    if (kept) kept[i] = k;
  }
  a->used = end;
  if (!MIRAS__TRAINS || !e->train) return;
  turned = miras__floats(a, turns, 1);        /* made while the layer above still works        */
  for (i = 0; work && i < m->kinds; i++) work[i].turned = turned;
}

/* Are all of them words, or from `least` on? */
static int miras__words_ok(const miras_model *m, const int32_t *tokens, size_t n, int32_t least) {
  size_t i;
  for (i = 0; i < n; i++)
    if (tokens[i] < least || tokens[i] >= m->desc.vocab) return 0;
  return 1;
}

/* Up to a tile of a text's rows in a round. */
typedef struct miras__strand {
  float *run;                      /* the text's state                                            */
  uint64_t position;               /* where it stood before the round                             */
  size_t row, length;              /* the first of its rows in the round, and how many            */
  size_t first, n;                 /* of them, those of the strand                                */
} miras__strand;

/* What running texts are worked on in. A call goes in rounds of up to `most` rows, and a round
 * layer by layer through the phases of room @75: rows of several texts make a tile. */
struct miras_server {
  miras__storage own;
  const miras_model *model;
  miras_server_desc desc;
  size_t most;
  float *x, *last;                 /* [most, W]; after the final norm                             */
  float *values;                   /* [most, ld_values]                                           */
  miras__layer_work *work;         /* [kinds]                                                     */
  miras__kept *kept;               /* [kinds]                                                     */
  miras__strand *strand;           /* [most] in the order of their rows                           */
  size_t *asked;                   /* [most] rows that logits are asked of                        */
  float *scratch;                  /* [workers, scratch_size]                                     */
  size_t scratch_size;
  /* a round */
  const miras__kernels *k;
  const miras__layer *layer;
  size_t rows, tiles, strands, split;  /* split: tasks that the heads of a strand are             */
  size_t asks;                     /* rows that were asked of                                     */
  size_t wanted, each;             /* rows of logits that are made, columns of a task             */
  float *logits;
};

static MIRAS__COLD void miras__server_layout(void *object, miras__arena *a) {
  miras_server *s = (miras_server *)object;
  const miras_model *m = s->model;
  const size_t kinds = (size_t)m->kinds;
  miras__extent e;
  memset(&e, 0, sizeof e);
  e.batch = s->most = (size_t)s->desc.rows;
  e.length = 1;
  s->x = miras__floats(a, s->most, m->ld_x);
  s->last = miras__floats(a, s->most, m->ld_x);
  s->values = miras__floats(a, s->most, m->ld_values);
  s->work = (miras__layer_work *)miras__take(a, kinds, sizeof(miras__layer_work));
  s->kept = (miras__kept *)miras__take(a, kinds, sizeof(miras__kept));
  miras__works_layout(m, &e, a, s->work, s->kept);
  s->strand = (miras__strand *)miras__take(a, s->most, sizeof(miras__strand));
  s->asked = (size_t *)miras__take(a, s->most, sizeof(size_t));
  s->scratch_size = miras__pad(m->scratch);
  s->scratch = miras__floats(a, miras__workers(s->desc.parallel), s->scratch_size);
}

/* A text by itself: its state, and what it is worked on in. */
struct miras_session {
  miras__storage own;
  miras_server in;
  void *state;
  size_t state_bytes;
  size_t held;                     /* rows of logits                                              */
  float *logits;                   /* [held, V]                                                   */
};

static MIRAS__COLD void miras__session_layout(void *object, miras__arena *a) {
  miras_session *s = (miras_session *)object;
  const miras_model *m = s->in.model;
  s->state_bytes = m->run * sizeof(float);
  s->state = miras__take(a, m->run, sizeof(float));
  s->held = ((size_t)1 << 18) / m->ld_v;
  if (s->held < 1) s->held = 1;
  if (s->held > MIRAS__TILE) s->held = MIRAS__TILE;
  miras__server_layout(&s->in, a);
  s->logits = miras__floats(a, s->held, m->vocab);
}

/* Bytes of a session of m, which s receives. */
static size_t miras__session_bytes(miras_session *s, const miras_model *m) {
  memset(s, 0, sizeof *s);
  s->in.model = m;
  s->in.desc.rows = MIRAS__TILE;
  return miras__measure(s, sizeof *s, miras__session_layout, "session", NULL, 0);
}

/* Bytes of a resolved model; 0 if that, or what a session of it would need, is too much. */
static MIRAS__COLD size_t miras__model_bytes_of(miras_model *m, char *why, size_t why_size) {
  const uint64_t limit = m->desc.limit;
  miras_session s;
  size_t session = miras__session_bytes(&s, m), bytes;
  bytes = miras__measure(m, sizeof *m, miras__model_layout, "model", why, why_size);
  if (!session) session = (size_t)-1;   /* more than that */
  if (!bytes || !limit || (bytes <= limit && session <= limit)) return bytes;
  miras__say(why, why_size, "limit is %zu bytes; the model takes %zu and a session of it %zu",
             (size_t)limit, bytes, session);
  return 0;
}

/* ---- building ---- */

static void miras__model_draw(miras_model *m) {
  const uint64_t seed = miras__hash(m->desc.seed);
  size_t i;
  for (i = 0; i < (size_t)m->view_count; i++) {
    const miras_view *v = &m->views[i];
    if (v->decay && m->desc.weights) continue;
    miras__draw(m->params + v->offset, v->count, v->seed, v->mean, v->deviation);
  }
  for (i = 0; i < (size_t)m->desc.layers; i++)
    if (miras__layer_acts(m->layers[i].s)->draw)
      miras__layer_acts(m->layers[i].s)->draw(&m->layers[i], miras__hash(seed + i + 1));
}

MIRAS_API size_t miras_model_size(const miras_model_desc *d, char *why, size_t why_size) {
  miras__draft draft;
  if (miras__model_resolve(&draft, d, why, why_size) != MIRAS_OK) return 0;
  return miras__model_bytes_of(&draft.model, why, why_size);
}

/* Every offset is checked by miras__model_bytes_of. */
static MIRAS__COLD miras_model *miras__model_make(const miras_model_desc *d, void *buffer,
                                                  size_t room, const miras_allocator *allocator) {
  miras__draft draft;
  miras_model *m = &draft.model;
  if (miras__model_resolve(&draft, d, NULL, 0) != MIRAS_OK) return NULL;
  m->own.limit = d->limit;
  m = (miras_model *)miras__build(m, sizeof *m, miras__model_layout,
                                  miras__model_bytes_of(m, NULL, 0), buffer, room, allocator);
  if (!m) return NULL;
  /* padding must be zero and stay so: sums over the whole block may then ignore it */
  memset(m->params, 0, m->param_count * sizeof(float));
  if (m->packed_bytes) memset(m->packed, 0, m->packed_bytes);
  miras__model_draw(m);
  return m;
}

MIRAS_API miras_model *miras_model_init(void *buffer, size_t bytes, const miras_model_desc *d) {
  return buffer ? miras__model_make(d, buffer, bytes, NULL) : NULL;
}

MIRAS_API miras_model *miras_model_open(const miras_model_desc *d,
                                        const miras_allocator *allocator) {
  return miras__model_make(d, NULL, 0, allocator);
}

MIRAS_API void miras_model_close(miras_model *m) {
  miras__close(m);
}

MIRAS_API const miras_model_desc *miras_model_desc_of(const miras_model *m) {
  return m ? &m->desc : NULL;
}

MIRAS_API float *miras_model_params(miras_model *m, size_t *count) {
  const int whole = m && !m->desc.weights;
  if (count) *count = whole ? m->param_count : 0;
  return whole ? m->params : NULL;
}

MIRAS_API const miras_view *miras_model_views(const miras_model *m, int *count) {
  if (count) *count = m ? m->view_count : 0;
  return m ? m->views : NULL;
}
#endif

/* @79 TRAINING --------------------------------------------------------------- needs 29 31 78 -- */

/* A step is a sequence of phases; a phase is a number of tasks that run in any order, on any
 * worker:
 *   tiles   up to MIRAS__TILE tokens of one sequence, through everything that works row by row
 *   heads   one head of one sequence: convolutions, activations and the memory
 *   jobs    blocks of weight gradients, of sums over tiles and of transposed weights
 * Which phases there are follows from the descriptors and the number of tokens; what follows from
 * the tokens themselves is known to tasks alone (miras__now). */

typedef struct miras__now {
  uint64_t steps;                  /* that have changed parameters                                */
  uint64_t counted;                /* targets of the last loss that count                         */
  float unit;                      /* 1 / counted; 0: none does                                   */
  float loss, norm;
  float c[9];                      /* of the kernel adamw; c[5] and c[8] depend on the view       */
} miras__now;

struct miras_trainer {
  miras__storage own;
  miras_model *model;
  miras_trainer_desc desc;
  float *grads, *moment1, *moment2;
  miras__now *now;
  miras__layer_work *work;         /* [kinds]                                                     */
  miras__kept *kept;               /* [layers + 1]; the last has only x, what the layers made     */
  size_t group;                    /* tiles whose logits are held at a time                       */
  size_t scratch_size;
  float *last, *logits;            /* [N, W] after the final norm; [group, V]                     */
  float *head_t;                   /* [W, V]                                                      */
  float *d[3];                     /* [N, W] gradient of the residual stream: after, mid, before  */
  float *masked[2];                /* [N, W] the same behind dropout                              */
  float *part;                     /* [tiles, 2 W] gradients of the final gain and bias, then of
                                      the embedding's                                             */
  float *values, *dvalues;         /* [N, ld_values]                                              */
  double *norms;                   /* per block of parameters                                     */
  double *losses;                  /* [tiles] sums                                                */
  int32_t *tokens, *targets;       /* [N] of the last loss                                        */
  int32_t *stream;                 /* [B] of the last loss; -1: a text of its own                 */
  int32_t *fresh;                  /* [B] its stream begins anew                                  */
  int32_t *counted;                /* [B] targets that count                                      */
  float *scratch;                  /* [workers, scratch_size]                                     */
  float *streams;                  /* [streams, run] running texts                                */
  float **runs;                    /* [B] the stream of a row of the last loss, or NULL           */
  uint64_t *starts;                /* [B] its position then                                       */
  int taped, batch, length;        /* the last loss with train 1 can still be differentiated      */
  uint64_t calls, call;            /* losses with train 1 since the last step; number of this one */
};

#ifndef MIRAS_NO_TRAINING
/* Phases that work on tokens. */
typedef struct miras__phase {
  miras_trainer *trainer;
  size_t per;              /* tiles of a sequence                                                */
  size_t first;            /* tile of task 0                                                     */
  size_t row0;             /* token whose logits come first in trainer->logits                   */
  size_t shares;           /* tasks that gradients of the embedding are divided among            */
  float *in, *out;         /* [N, W] what the first layer reads and the last one makes           */
  int act;                 /* what a layer does with a tile or a head                            */
  int drops;
  miras__drop drop;        /* its key is the model's                                             */
  miras__visit all;        /* what the tasks share: a layer, or none, and the call's rows        */
} miras__phase;

enum { MIRAS__ENTER, MIRAS__HEAD, MIRAS__LEAVE, MIRAS__LEAVE_BWD, MIRAS__HEAD_BWD,
       MIRAS__ENTER_BWD, MIRAS__SHIFT_BWD };

static int miras__of_heads(int act) { return act == MIRAS__HEAD || act == MIRAS__HEAD_BWD; }

static void miras__act(const miras__visit *a, int act, size_t h) {
  const miras__layer_type *type = miras__layer_acts(a->layer->s);
  switch (act) {
    case MIRAS__ENTER: miras__enter(a); break;
    case MIRAS__HEAD: type->head(a, h); break;
    case MIRAS__LEAVE: miras__leave(a); break;
    case MIRAS__LEAVE_BWD: miras__leave_bwd(a); break;
    case MIRAS__HEAD_BWD: type->head_bwd(a, h); break;
    case MIRAS__ENTER_BWD: miras__enter_bwd(a); break;
    default: miras__shifted_bwd(a);
  }
}

static float *miras__worker_scratch(const miras_trainer *tr, int worker) {
  return tr->scratch + (size_t)worker * tr->scratch_size;
}

/* Rows of tile `index`: tiles of a sequence are as equal as can be. */
static size_t miras__tile_rows(const miras__phase *ph, size_t index, size_t *row) {
  size_t b = index / ph->per, i = index % ph->per;
  size_t from = i * ph->all.length / ph->per, to = (i + 1) * ph->all.length / ph->per;
  *row = b * ph->all.length + from;
  return to - from;
}

/* The masks of this step and call, or NULL. */
static const miras__drop *miras__drop_of(const miras__phase *ph, miras__drop *drop) {
  const miras_trainer *tr = ph->trainer;
  if (!ph->drops) return NULL;
  *drop = ph->drop;
  drop->key = miras__hash(miras__hash(drop->key + tr->now->steps) + tr->call);
  return drop;
}

/* Sequence `index` of the call: which stream it goes on with, and what it has to learn. */
static void miras__call_begin(void *argument, int index, int worker) {
  const miras__phase *ph = (const miras__phase *)argument;
  const miras_trainer *tr = ph->trainer;
  const size_t b = (size_t)index, n = ph->all.length, size = tr->model->run;
  float *run = tr->stream[b] < 0 ? NULL : tr->streams + (size_t)tr->stream[b] * size;
  uint64_t start = 0;
  int32_t counted = 0;
  size_t t;
  (void)worker;
  for (t = 0; t < n; t++) counted += tr->targets[b * n + t] >= 0;
  if (run && tr->fresh[b]) ph->all.k->fill(run, 0, size);
  else if (run) start = miras__position(run);
  if (MIRAS__THREAD) return;
  tr->runs[b] = run;
  tr->starts[b] = start;
  tr->counted[b] = counted;
}

static void miras__call_count(void *argument, int index, int worker) {
  const miras__phase *ph = (const miras__phase *)argument;
  const miras_trainer *tr = ph->trainer;
  size_t counted = 0, b;
  (void)index, (void)worker;
  if (MIRAS__THREAD) return;
  for (b = 0; b < (size_t)tr->batch; b++) counted += (size_t)tr->counted[b];
  tr->now->unit = counted ? 1.0f / (float)counted : 0;
  tr->now->counted = (uint64_t)counted;
}

/* Tokens become rows. */
static void miras__tile_begin(void *argument, int index, int worker) {
  const miras__phase *ph = (const miras__phase *)argument;
  const miras_trainer *tr = ph->trainer;
  const miras_model *m = tr->model;
  size_t row, n = miras__tile_rows(ph, (size_t)index, &row);
  float *x = ph->in + row * m->ld_x;
  miras__drop drop;
  (void)worker;
  miras__embed(ph->all.k, m, tr->tokens + row, n, x);
  if (miras__drop_of(ph, &drop))
    miras__drop_rows(ph->all.k, &drop, 0, row, x, NULL, x, m->ld_x, n, m->width);
}

/* Tile `at` of a layer or, where it acts by heads, sequence by sequence its heads. */
static miras__visit miras__visit_of(const miras__phase *ph, size_t at, int worker,
                                    miras__drop *drop) {
  const miras_trainer *tr = ph->trainer;
  miras__visit a = ph->all;
  const miras__shape *s = a.layer->s;
  const int heads = miras__of_heads(ph->act);
  const size_t b = at / (heads ? s->tasks : ph->per);
  size_t row = b * a.length, x, p, g, y, f, read = b * s->runs * a.work.per_qkv;
  a.n = heads ? a.length : miras__tile_rows(ph, at, &row);
  a.first = row - b * a.length;
  a.row = row;
  a.drop = miras__drop_of(ph, drop);
  x = row * s->ld_x, p = row * s->ld_p, g = row * s->ld_g, y = row * s->ld_y, f = row * s->ld_f;
  a.position = tr->starts[b];
  if (tr->runs[b]) a.run = tr->runs[b] + a.layer->run;
  a.scratch = miras__worker_scratch(tr, worker);
  a.kept.x += x;
  a.kept.mid = miras__to(a.kept.mid, x);
  a.kept.proj += p;
  a.kept.g += g;
  a.kept.y += y;
  a.kept.ab += 2 * f;
  a.kept.tape = miras__to(a.kept.tape, b * s->tasks * a.kept.per_tape);
  a.kept.tails += b * s->tail;
  a.kept.shift = miras__to(a.kept.shift, s->mixes ? 2 * x : 0);
  a.work.gates += g;
  a.work.qkv += read;
  a.work.dqkv += read;
  a.work.inverse += b * s->runs * s->lengths * a.work.context;
  a.work.dproj += p;
  a.work.dgates += g;
  a.work.dy += y;
  a.work.h += row * s->ld_h;
  a.work.dshift = miras__to(a.work.dshift, s->mixes ? 2 * x : 0);
  a.work.h2 += x;
  a.work.out += y;
  a.work.act += f;
  if (!heads) a.work.part[MIRAS__BY_TILE] += at * s->sums[MIRAS__BY_TILE];
  a.work.part[MIRAS__BY_SEQUENCE] += b * s->sums[MIRAS__BY_SEQUENCE];
  a.work.part[MIRAS__BY_HEAD] += b * s->tasks * s->sums[MIRAS__BY_HEAD];
  a.out += x;
  a.values = miras__to(a.values, s->mixes ? y : 0);
  a.dvalues = miras__to(a.dvalues, s->mixes ? y : 0);
  a.after = miras__to(a.after, x);
  a.mid = miras__to(a.mid, x);
  a.before = miras__to(a.before, x);
  a.after_in = miras__to(a.after_in, x);
  a.mid_in = miras__to(a.mid_in, x);
  return a;
}

static void miras__layer_task(void *argument, int index, int worker) {
  const miras__phase *ph = (const miras__phase *)argument;
  miras__drop drop;
  const miras__visit a = miras__visit_of(ph, (size_t)index, worker, &drop);
  miras__act(&a, ph->act,
             (size_t)index % (miras__of_heads(ph->act) ? a.layer->s->tasks : ph->per));
}

/* Final norm, logits, cross entropy; when training the logits become their gradient. */
static void miras__tile_end(void *argument, int index, int worker) {
  const miras__phase *ph = (const miras__phase *)argument;
  const miras_trainer *tr = ph->trainer;
  const miras_model *m = tr->model;
  const miras__kernels *k = ph->all.k;
  const size_t tile = ph->first + (size_t)index;
  size_t row, n = miras__tile_rows(ph, tile, &row), t;
  float *last = tr->last + row * m->ld_x, *logits = tr->logits + (row - ph->row0) * m->ld_v;
  const miras__norm of = miras__last_norm(m, ph->out + row * m->ld_x, n);
  double total = 0;
  miras__block_norm(k, last, m->ld_x, &of);
  miras__matmul(k, MIRAS__SET, logits, m->ld_v, miras__mat(last, m->ld_x),
                miras__mat(tr->head_t, m->ld_v), n, m->vocab, m->width,
                miras__worker_scratch(tr, worker));
  for (t = 0; t < n; t++, logits += m->ld_v) {
    const int32_t target = tr->targets[row + t];
    if (target >= 0)
      total += (double)k->cross_entropy(logits, m->vocab, (size_t)target,
                                        ph->all.train ? tr->now->unit : 0);
    else if (ph->all.train) k->fill(logits, 0, m->vocab);
  }
  if (!MIRAS__THREAD) tr->losses[tile] = total;
}

/* Backward of miras__tile_end from the logits' gradient to that of the layers' output. */
static void miras__tile_end_bwd(void *argument, int index, int worker) {
  const miras__phase *ph = (const miras__phase *)argument;
  const miras_trainer *tr = ph->trainer;
  const miras_model *m = tr->model;
  float *pack = miras__worker_scratch(tr, worker), *t = pack + MIRAS__PACK;
  size_t tile = ph->first + (size_t)index, row, n = miras__tile_rows(ph, tile, &row);
  float *dgain = tr->part + tile * 2 * m->ld_x;
  const miras__norm last = miras__last_norm(m, ph->out + row * m->ld_x, n);
  miras__matmul(ph->all.k, MIRAS__SET, t, m->ld_x,
                miras__mat(tr->logits + (row - ph->row0) * m->ld_v, m->ld_v),
                miras__mat(m->params + m->head, m->width), n, m->width, m->vocab, pack);
  ph->all.k->fill(dgain, 0, 2 * m->ld_x);
  miras__block_norm_bwd(ph->all.k, ph->all.before + row * m->ld_x, NULL, dgain, dgain + m->ld_x,
                        NULL, t, m->ld_x, &last);
  ph->all.k->fill(miras__to(tr->dvalues, row * m->ld_values), 0, n * m->ld_values);
}

/* Through the norm behind the embedding, in place. */
static void miras__tile_begin_bwd(void *argument, int index, int worker) {
  const miras__phase *ph = (const miras__phase *)argument;
  const miras_trainer *tr = ph->trainer;
  const miras_model *m = tr->model;
  size_t row, n = miras__tile_rows(ph, (size_t)index, &row);
  float *x = miras__worker_scratch(tr, worker) + MIRAS__PACK, *d = ph->all.before + row * m->ld_x;
  float *dgain = tr->part + (size_t)index * 2 * m->ld_x;
  const miras__norm first = miras__first_norm(m, x, n);
  miras__drop drop;
  miras__embed_rows(ph->all.k, m, tr->tokens + row, n, x);
  if (miras__drop_of(ph, &drop))
    miras__drop_rows(ph->all.k, &drop, 0, row, d, NULL, d, m->ld_x, n, m->width);
  ph->all.k->fill(dgain, 0, 2 * m->ld_x);
  miras__block_norm_bwd(ph->all.k, d, NULL, dgain, dgain + m->ld_x, NULL, d, m->ld_x, &first);
}

/* The mean loss; and the streams have come further. */
static void miras__call_end(void *argument, int index, int worker) {
  const miras__phase *ph = (const miras__phase *)argument;
  const miras_trainer *tr = ph->trainer;
  const size_t batch = (size_t)tr->batch, tiles = batch * ph->per;
  const double counted = (double)tr->now->counted;
  double total = 0;
  size_t i;
  (void)index, (void)worker;
  if (MIRAS__THREAD) return;
  for (i = 0; i < tiles; i++) total += tr->losses[i];
  tr->now->loss = counted > 0 ? (float)(total / counted) : 0;
  for (i = 0; i < batch; i++) {
    const uint64_t position = tr->starts[i] + (uint64_t)ph->all.length;
    if (tr->runs[i]) memcpy(tr->runs[i], &position, sizeof position);
  }
}

/* The embedding's rows: tasks share the vocabulary out, each walks the tokens in order. */
static void miras__embed_bwd(void *argument, int index, int worker) {
  const miras__phase *ph = (const miras__phase *)argument;
  const miras_trainer *tr = ph->trainer;
  size_t width = tr->model->width, ld = tr->model->ld_x;
  float *t = miras__worker_scratch(tr, worker) + MIRAS__PACK;
  const size_t rows = (size_t)tr->batch * ph->all.length;
  size_t row;
  miras__drop drop;
  const int drops = miras__drop_of(ph, &drop) && !tr->model->desc.embed_norm;
  for (row = 0; row < rows; row++) {
    const float *d = ph->all.before + row * ld;
    const uint32_t token = (uint32_t)tr->tokens[row];
    if (token % (uint32_t)ph->shares != (uint32_t)index) continue;
    if (drops) {
      miras__drop_rows(ph->all.k, &drop, 0, row, t, NULL, d, ld, 1, width);
      d = t;
    }
    ph->all.k->add(tr->grads + (size_t)token * width, d, width);
  }
}

#define MIRAS__NORM_BLOCK 4096     /* gradients whose squares are summed in one piece             */
#define MIRAS__ADAM_BLOCK 16384    /* parameters that one task updates                            */

typedef struct miras__adam {
  miras_trainer *trainer;
  const miras__kernels *k;
  miras_adamw_options o;
  float rate;
} miras__adam;

static size_t miras__norm_blocks(const miras_model *m) {
  return (m->param_count + MIRAS__NORM_BLOCK - 1) / MIRAS__NORM_BLOCK;
}

static void miras__norm_task(void *argument, int index, int worker) {
  const miras__adam *o = (const miras__adam *)argument;
  const miras_trainer *tr = o->trainer;
  const size_t count = tr->model->param_count;
  const miras_view *view = tr->model->views, *last = view + tr->model->view_count;
  size_t i = (size_t)index * MIRAS__NORM_BLOCK, end = i + MIRAS__NORM_BLOCK, n;
  double total = 0;
  (void)worker;
  if (end > count) end = count;
  for (; view < last && view->offset < end; view++) {
    const size_t at = view->offset > i ? view->offset : i, stop = view->offset + view->count;
    if (view->frozen && stop > i) o->k->fill(tr->grads + at, 0, (stop < end ? stop : end) - at);
  }
  for (; i < end; i += n) {
    n = end - i < 256 ? end - i : 256;
    total += (double)o->k->dot(tr->grads + i, tr->grads + i, n);
  }
  if (!MIRAS__THREAD) tr->norms[index] = total;
}

static double miras__power(double base, uint64_t n) {
  double y = 1;
  for (; n; n >>= 1, base *= base)
    if (n & 1) y *= base;
  return y;
}

/* What a step does: steps counts on if the gradient's norm is finite. */
static void miras__adam_begin(void *argument, int index, int worker) {
  const miras__adam *a = (const miras__adam *)argument;
  const miras_trainer *tr = a->trainer;
  const miras_adamw_options *o = &a->o;
  const size_t blocks = miras__norm_blocks(tr->model);
  miras__now *now = tr->now;
  double total = 0, norm;
  size_t i;
  (void)index, (void)worker;
  if (MIRAS__THREAD) return;
  for (i = 0; i < blocks; i++) total += tr->norms[i];
  norm = sqrt(total);
  now->norm = (float)norm;
  if (!(now->norm <= FLT_MAX)) return;
  now->steps++;
  now->c[0] = o->beta1;
  now->c[1] = 1 - o->beta1;
  now->c[2] = o->beta2;
  now->c[3] = 1 - o->beta2;
  now->c[4] = o->clip > 0 && norm > (double)o->clip ? (float)((double)o->clip / norm) : 1;
  now->c[5] = (float)((double)a->rate / (1 - miras__power((double)o->beta1, now->steps)));
  now->c[6] = (float)(1 / sqrt(1 - miras__power((double)o->beta2, now->steps)));
  now->c[7] = o->epsilon;
}

/* A block of the flat array: what it has of each view. A gradient that is not finite would poison
 * the moments for good: then it is only cleared. */
static void miras__adam_task(void *argument, int index, int worker) {
  const miras__adam *o = (const miras__adam *)argument;
  const miras_trainer *tr = o->trainer;
  const miras_model *m = tr->model;
  const miras_view *view = m->views, *last = view + m->view_count;
  const size_t from = (size_t)index * MIRAS__ADAM_BLOCK;
  const size_t left = m->param_count - from;
  const size_t end = from + (left < MIRAS__ADAM_BLOCK ? left : MIRAS__ADAM_BLOCK);
  (void)worker;
  if (!(tr->now->norm <= FLT_MAX)) {
    o->k->fill(tr->grads + from, 0, end - from);
    return;
  }
  while (view < last && view->offset + view->count <= from) view++;
  for (; view < last && view->offset < end; view++) {
    const size_t at = view->offset > from ? view->offset : from;
    const size_t stop = view->offset + view->count < end ? view->offset + view->count : end;
    float c[9];
    if (view->frozen) continue;
    memcpy(c, tr->now->c, sizeof c);
    c[5] *= view->rate;
    c[8] = view->decay ? 1 - o->rate * view->rate * o->o.weight_decay : 1;
    o->k->adamw(m->params + at, tr->moment1 + at, tr->moment2 + at, tr->grads + at, stop - at, c);
  }
}
#endif   /* MIRAS_NO_TRAINING */

#endif   /* region J */

#ifdef MIRAS__IMPLEMENTING
#ifndef MIRAS_NO_MODEL
static MIRAS__UNUSED void miras__trainer_clear(miras_trainer *tr) {
  memset(tr->now, 0, sizeof *tr->now);
  memset(tr->grads, 0, 3 * tr->model->param_count * sizeof(float));   /* and both moments         */
  memset(tr->streams, 0, (size_t)tr->desc.streams * tr->model->run * sizeof(float));
}

#ifndef MIRAS_NO_TRAINING
/* Replace zeros by defaults, refuse what is not meant. */
static MIRAS__COLD miras_result miras__trainer_resolve(miras_trainer *tr, miras_model *m,
                                                       const miras_trainer_desc *from, char *why,
                                                       size_t n) {
  miras_trainer_desc *d = &tr->desc;
  int heads = 1, i;
  if (why && n) why[0] = 0;
  if (!m || !from)
    return miras__say(why, n, "the %s is NULL", m ? "descriptor" : "model"), MIRAS_ERR_ARGUMENT;
  if (m->desc.weights)
    return miras__say(why, n, "the model's weights is %d; training needs 0 (float)",
                      (int)m->desc.weights), MIRAS_ERR_DESC;
  memset(tr, 0, sizeof *tr);
  tr->model = m;
  *d = *from;
  if (!d->batch) d->batch = 1;
  if (!miras__whole(why, n, "batch", d->batch, 1, 65536) ||
      !miras__whole(why, n, "context", d->context, 1, 1 << 24) ||
      !miras__whole(why, n, "streams", d->streams, 0, 1 << 20))
    return MIRAS_ERR_DESC;
  if (!miras__parallel_ok(d->parallel, why, n)) return MIRAS_ERR_DESC;
  for (i = 0; i < m->kinds; i++)
    if ((int)m->shape[i].tasks > heads) heads = (int)m->shape[i].tasks;
  if (d->batch > INT_MAX / d->context || d->batch > INT_MAX / heads)
    return miras__say(why, n,
                      "batch is %d; with context %d and heads %d a step would be larger than 2^31 "
                      "tokens or heads", d->batch, d->context, heads), MIRAS_ERR_DESC;
  if (d->streams && m->run > (size_t)INT_MAX)
    return miras__say(why, n, "streams is %d; each has %zu numbers, and up to %d are allowed",
                      d->streams, m->run, INT_MAX), MIRAS_ERR_DESC;
  return MIRAS_OK;
}

static MIRAS__COLD void miras__trainer_layout(void *object, miras__arena *a) {
  miras_trainer *tr = (miras_trainer *)object;
  const miras_model *m = tr->model;
  size_t b = (size_t)tr->desc.batch, t = (size_t)tr->desc.context, n = b * t, hold;
  size_t layers = (size_t)m->desc.layers, l;
  const size_t workers = miras__workers(tr->desc.parallel);
  miras__extent e;
  int i;
  e.batch = b;
  e.length = t;
  e.train = 1;
  e.carries = tr->desc.streams > 0;
  tr->grads = miras__floats(a, m->param_count, 3);
  tr->moment1 = miras__to(tr->grads, m->param_count);
  tr->moment2 = miras__to(tr->grads, 2 * m->param_count);
  tr->streams = miras__floats(a, (size_t)tr->desc.streams, m->run);
  tr->runs = (float **)miras__take(a, b, sizeof(float *));
  tr->starts = (uint64_t *)miras__take(a, b, sizeof(uint64_t));
  tr->kept = (miras__kept *)miras__take_records(a, layers + 1, sizeof(miras__kept));
  for (l = 0; l <= layers; l++) {
    const miras__shape *s = &m->shape[l < layers ? m->kind[l] : 0];
    miras__kept kept;
    memset(&kept, 0, sizeof kept);
    kept.x = miras__floats(a, n, m->ld_x);
    if (l < layers) miras__keeps(s, &e, a, &kept);
    if (tr->kept) tr->kept[l] = kept;
  }
  tr->last = miras__floats(a, n, m->ld_x);
  /* logits of many tokens and words at once would dwarf the model: past 2^25 floats they are made
   * in groups of tiles, and once more for the backward pass; a device works on many at a time */
  hold = ((size_t)1 << 25) / m->ld_v / MIRAS__TILE;
  tr->group = hold ? hold : 1;
  if (workers > MIRAS__WORKERS && tr->group < workers) tr->group = workers;
  hold = tr->group * MIRAS__TILE;
  tr->logits = miras__floats(a, hold < n ? hold : n, m->ld_v);
  tr->head_t = miras__floats(a, m->width, m->ld_v);
  for (i = 0; i < 3; i++) tr->d[i] = miras__floats(a, n, m->ld_x);
  for (i = 0; i < 2 && m->desc.dropout > 0; i++) tr->masked[i] = miras__floats(a, n, m->ld_x);
  tr->part = miras__floats(a, b * miras__tiles(t), 2 * m->ld_x);
  tr->values = miras__floats(a, n, m->ld_values);
  tr->dvalues = miras__floats(a, n, m->ld_values);
  tr->work =
    (miras__layer_work *)miras__take_records(a, (size_t)m->kinds, sizeof(miras__layer_work));
  miras__works_layout(m, &e, a, tr->work, NULL);
  tr->norms = (double *)miras__take(a, m->param_count / MIRAS__NORM_BLOCK + 1, sizeof(double));
  tr->losses = (double *)miras__take(a, b * miras__tiles(t), sizeof(double));
  tr->tokens = (int32_t *)miras__take(a, n, sizeof(int32_t));
  tr->targets = (int32_t *)miras__take(a, n, sizeof(int32_t));
  tr->stream = (int32_t *)miras__take(a, b, sizeof(int32_t));
  tr->fresh = (int32_t *)miras__take(a, b, sizeof(int32_t));
  tr->counted = (int32_t *)miras__take(a, b, sizeof(int32_t));
  tr->now = (miras__now *)miras__take(a, 1, sizeof(miras__now));
  tr->scratch_size = miras__pad(m->scratch_train);
  tr->scratch = miras__floats(a, workers, tr->scratch_size);
}

/* Bytes of a resolved trainer; 0 if that is too much. */
static size_t miras__trainer_bytes(miras_trainer *tr, char *why, size_t why_size) {
  const uint64_t limit = tr->desc.limit;
  const size_t bytes =
    miras__measure(tr, sizeof *tr, miras__trainer_layout, "trainer", why, why_size);
  if (!bytes || !limit || bytes <= limit) return bytes;
  miras__say(why, why_size, "limit is %zu bytes; the trainer takes %zu", (size_t)limit, bytes);
  return 0;
}

MIRAS_API size_t miras_trainer_size(const miras_model *m, const miras_trainer_desc *d, char *why,
                                    size_t why_size) {
  miras_trainer tr;
  if (miras__trainer_resolve(&tr, (miras_model *)m, d, why, why_size) != MIRAS_OK) return 0;
  return miras__trainer_bytes(&tr, why, why_size);
}

/* Every offset is checked by miras__trainer_bytes. */
static MIRAS__COLD miras_trainer *miras__trainer_make(miras_model *m, const miras_trainer_desc *d,
                                                      void *buffer, size_t room,
                                                      const miras_allocator *allocator) {
  miras_trainer draft, *tr = &draft;
  if (miras__trainer_resolve(tr, m, d, NULL, 0) != MIRAS_OK) return NULL;
  tr->own.limit = d->limit;
  tr = (miras_trainer *)miras__build(tr, sizeof *tr, miras__trainer_layout,
                                     miras__trainer_bytes(tr, NULL, 0), buffer, room, allocator);
  if (!tr) return NULL;
  miras__trainer_clear(tr);
  return tr;
}

MIRAS_API miras_trainer *miras_trainer_init(void *buffer, size_t bytes, miras_model *m,
                                            const miras_trainer_desc *d) {
  return buffer ? miras__trainer_make(m, d, buffer, bytes, NULL) : NULL;
}

MIRAS_API miras_trainer *miras_trainer_open(miras_model *m, const miras_trainer_desc *d,
                                            const miras_allocator *allocator) {
  return miras__trainer_make(m, d, NULL, 0, allocator);
}

MIRAS_API void miras_trainer_close(miras_trainer *tr) {
  miras__close(tr);
}

MIRAS_API const miras_trainer_desc *miras_trainer_desc_of(const miras_trainer *tr) {
  return tr ? &tr->desc : NULL;
}

/* Does a name match the pattern of `length` characters? */
static int miras__matches(const char *name, const char *pattern, size_t length) {
  const char *const end = pattern + length, *star = NULL, *since = name;
  while (*name) {
    if (pattern < end && *pattern == '*') star = pattern++, since = name;
    else if (pattern < end && *pattern == *name) pattern++, name++;
    else if (star) pattern = star + 1, name = ++since;
    else return 0;
  }
  while (pattern < end && *pattern == '*') pattern++;
  return pattern == end;
}

MIRAS_API size_t miras_model_train_only(miras_model *m, const char *patterns) {
  const char *const all = patterns ? patterns : "*", *p;
  size_t floats = 0, found, length;
  int i, set;
  for (set = 0; m && set < 2; set++) {         /* nothing is set before all have been looked at */
    for (i = 0; set && i < m->view_count; i++) m->views[i].frozen = 1;
    for (p = all;; p += length + 1) {
      for (length = found = 0; p[length] && p[length] != ',';) length++;
      for (i = 0; i < m->view_count; i++) {
        miras_view *v = &m->views[i];
        if (!miras__matches(v->name, p, length)) continue;
        found++;
        if (set) floats += v->frozen ? v->count : 0, v->frozen = 0;
      }
      if (!found) return 0;
      if (!p[length]) break;
    }
  }
  return floats;
}

MIRAS_API float *miras_trainer_grads(miras_trainer *tr) { return tr ? tr->grads : NULL; }

MIRAS_API uint64_t miras_trainer_steps(const miras_trainer *tr) {
  return tr ? tr->now->steps : 0;
}

static void miras__layer_of(miras__phase *ph, int l) {
  const miras_trainer *tr = ph->trainer;
  const miras_model *m = tr->model;
  ph->all.layer = &m->layers[l];
  ph->all.kept = tr->kept[l];
  ph->all.out = tr->kept[l + 1].x;
  ph->all.work = tr->work[m->kind[l]];
}

/* Layer l, there or back: its tiles, its heads, and its tiles again. */
static void miras__layer_run(miras__phase *ph, int l, int act) {
  const miras_trainer *tr = ph->trainer;
  const miras_model *m = tr->model;
  const int last = act + 3 + (act == MIRAS__LEAVE_BWD && m->layers[l].s->mixes > 0);
  miras__layer_of(ph, l);
  for (ph->act = act; ph->act < last; ph->act++)
    miras__each(tr->desc.parallel,
                (size_t)tr->batch * (miras__of_heads(ph->act) ? m->layers[l].s->tasks : ph->per),
                miras__layer_task, ph);
}

/* What all calls on the last loss's tokens start from. */
static void miras__phase_begin(miras__phase *ph, miras__jobs *list, miras_trainer *tr, int train) {
  const miras_model_desc *d = &tr->model->desc;
  memset(ph, 0, sizeof *ph);
  ph->trainer = tr;
  ph->per = miras__tiles((size_t)tr->length);
  ph->shares = 4 * miras__workers(tr->desc.parallel);
  ph->in = tr->kept->x;
  ph->out = tr->kept[d->layers].x;
  ph->all.k = list->k = miras__kernels_best();
  ph->all.length = (size_t)tr->length;
  ph->all.train = train;
  ph->all.values = tr->values;
  ph->all.dvalues = tr->dvalues;
  list->parallel = tr->desc.parallel;
  list->scratch = tr->scratch;
  list->scratch_size = tr->scratch_size;
  list->batch = (size_t)tr->batch;
  list->tokens = list->batch * ph->all.length;
  list->tiles = list->batch * ph->per;
  list->tasks = 0;
  list->count = 0;
  if (train && d->dropout > 0) {
    ph->drops = 1;
    ph->drop.key = miras__hash(d->seed + 1);
    ph->drop.limit = (uint32_t)((double)d->dropout * 4294967296.0);
    ph->drop.scale = 1.0f / (1.0f - d->dropout);
  }
}

/* The group of tiles from ph->first on whose logits are held together; runs miras__tile_end. */
static size_t miras__group_run(miras__phase *ph, size_t first) {
  const miras_trainer *tr = ph->trainer;
  size_t tiles = (size_t)tr->batch * ph->per, count = tiles - first;
  if (count > tr->group) count = tr->group;
  ph->first = first;
  (void)miras__tile_rows(ph, first, &ph->row0);
  miras__each(tr->desc.parallel, count, miras__tile_end, ph);
  return count;
}

/* The loss of the tokens, targets and streams that the trainer holds. */
static void miras__loss_run(miras_trainer *tr, int batch, int length, int train) {
  const miras_model *m = tr->model;
  miras__phase ph;
  miras__jobs jobs;
  size_t i;
  int l;
  tr->batch = batch;
  tr->length = length;
  tr->taped = train;
  if (train) tr->call = tr->calls++;
  miras__phase_begin(&ph, &jobs, tr, train);
  miras__each(tr->desc.parallel, (size_t)batch, miras__call_begin, &ph);
  miras__each(tr->desc.parallel, 1, miras__call_count, &ph);
  miras__job_transpose(&jobs, tr->head_t, m->ld_v, m->params + m->head, m->vocab, m->width);
  miras__jobs_run(&jobs);
  miras__each(tr->desc.parallel, jobs.tiles, miras__tile_begin, &ph);
  for (l = 0; l < m->desc.layers; l++) miras__layer_run(&ph, l, MIRAS__ENTER);
  for (i = 0; i < jobs.tiles;) i += miras__group_run(&ph, i);
  miras__each(tr->desc.parallel, 1, miras__call_end, &ph);
}

/* Can rows of this length go on? */
static int miras__length_ok(const miras_model *m, int length) {
  int l;
  for (l = 0; l < m->desc.layers; l++)
    if ((size_t)length % m->layers[l].s->chunk) return 0;
  return 1;
}

/* And with these streams, no two with one? */
static int miras__streams_ok(const miras_trainer *tr, int batch, int length,
                             const int32_t *stream) {
  int b, other;
  if (!miras__length_ok(tr->model, length)) return 0;
  for (b = 0; b < batch; b++) {
    if (stream[b] < -1 || stream[b] >= tr->desc.streams) return 0;
    for (other = 0; stream[b] >= 0 && other < b; other++)
      if (stream[other] == stream[b]) return 0;
  }
  return 1;
}

static float miras__loss(miras_trainer *tr, const int32_t *tokens, const int32_t *targets,
                         int batch, int length, int train, const int32_t *stream,
                         const unsigned char *fresh) {
  size_t n;
  int b;
  if (!tr || !tokens || !targets || batch < 1 || batch > tr->desc.batch || length < 1 ||
      length > tr->desc.context)
    return (float)NAN;
  n = (size_t)batch * (size_t)length;
  if (!miras__words_ok(tr->model, tokens, n, 0) || !miras__words_ok(tr->model, targets, n, -1))
    return (float)NAN;
  tr->taped = 0;
  if (stream && !miras__streams_ok(tr, batch, length, stream)) return (float)NAN;
  memcpy(tr->tokens, tokens, n * sizeof *tokens);
  memcpy(tr->targets, targets, n * sizeof *targets);
  for (b = 0; b < batch; b++) {
    tr->stream[b] = stream ? stream[b] : -1;
    tr->fresh[b] = stream && fresh && fresh[b];
  }
  miras__loss_run(tr, batch, length, train != 0);
  return tr->now->loss;
}

MIRAS_API float miras_trainer_loss(miras_trainer *tr, const int32_t *tokens,
                                   const int32_t *targets, int batch, int length, int train) {
  return miras__loss(tr, tokens, targets, batch, length, train, NULL, NULL);
}

MIRAS_API float miras_trainer_loss_streams(miras_trainer *tr, const int32_t *tokens,
                                           const int32_t *targets, int batch, int length,
                                           const int32_t *stream, const unsigned char *fresh) {
  return stream ? miras__loss(tr, tokens, targets, batch, length, 1, stream, fresh) : (float)NAN;
}

/* Transposed weights of layer l, for its tiles on the way back. */
static void miras__transposes(const miras_trainer *tr, int l, miras__jobs *jobs) {
  const miras__layer *layer = &tr->model->layers[l];
  miras__layer_transposes(layer, &tr->work[tr->model->kind[l]], jobs);
}

/* What tiles have found of a norm's gain and bias, whose first floats these are. */
static void miras__norm_reduce(const miras_trainer *tr, miras__jobs *jobs, size_t gain, size_t bias,
                               size_t tiles) {
  const size_t n = tr->model->width, ld = tr->model->ld_x;
  miras__job_reduce(jobs, tr->grads + gain, n, tr->part, 2 * ld, tiles);
  if (tr->model->desc.norm)
    miras__job_reduce(jobs, tr->grads + bias, n, tr->part + ld, 2 * ld, tiles);
}

MIRAS_API miras_result miras_trainer_backward(miras_trainer *tr) {
  const miras_model *m;
  const miras__shape *s;
  miras__phase ph;
  miras__jobs jobs;
  size_t tiles, tokens, i, turn = 0;
  int l;
  if (!tr) return MIRAS_ERR_ARGUMENT;
  if (!tr->taped) return MIRAS_ERR_STATE;
  tr->taped = 0;
  m = tr->model;
  miras__phase_begin(&ph, &jobs, tr, 1);
  tiles = jobs.tiles;
  tokens = jobs.tokens;
  ph.all.before = tr->d[0];
  /* the head, group by group; a single group still has its logits' gradient from the loss */
  for (i = 0; i < tiles;) {
    size_t count = tiles, row0 = 0, row1 = tokens;
    if (tiles > tr->group) {
      count = miras__group_run(&ph, i);
      row0 = ph.row0;
      if (i + count < tiles) (void)miras__tile_rows(&ph, i + count, &row1);
    }
    ph.first = i;
    ph.row0 = row0;
    miras__each(tr->desc.parallel, count, miras__tile_end_bwd, &ph);
    jobs.tokens = row1 - row0;
    miras__job_product(&jobs, tr->grads + m->head, m->vocab, m->width, tr->logits, m->ld_v,
                       tr->last + row0 * m->ld_x, m->ld_x);
    i += count;
    if (i == tiles) {
      miras__norm_reduce(tr, &jobs, m->norm, m->bias, tiles);
      miras__transposes(tr, m->desc.layers - 1, &jobs);
    }
    miras__jobs_run(&jobs);
  }
  jobs.tokens = tokens;
  for (l = m->desc.layers - 1; l >= 0; l--, turn = (turn + 2) % 3) {
    s = m->layers[l].s;
    ph.all.after = tr->d[turn];
    ph.all.before = tr->d[(turn + 2) % 3];
    ph.all.mid = !s->hidden ? ph.all.after : s->value ? tr->d[(turn + 1) % 3] : ph.all.before;
    ph.all.after_in = ph.drops ? tr->masked[0] : ph.all.after;
    ph.all.mid_in = ph.drops ? tr->masked[1] : ph.all.mid;
    miras__layer_run(&ph, l, MIRAS__LEAVE_BWD);
    miras__layer_weights(&ph.all, tr->grads + m->layers[l].first, &jobs);
    if (l > 0) miras__transposes(tr, l - 1, &jobs);
    miras__jobs_run(&jobs);
  }
  if (m->desc.embed_norm) {
    miras__each(tr->desc.parallel, tiles, miras__tile_begin_bwd, &ph);
    miras__norm_reduce(tr, &jobs, m->embed_norm, m->embed_norm + m->ld_x, tiles);
    miras__jobs_run(&jobs);
  }
  miras__each(tr->desc.parallel, ph.shares, miras__embed_bwd, &ph);
  return MIRAS_OK;
}

static void miras__step_run(miras_trainer *tr, const miras_adamw_options *options,
                            float learning_rate) {
  const miras_parallel *parallel = tr->desc.parallel;
  const size_t count = tr->model->param_count;
  miras__adam a;
  memset(&a, 0, sizeof a);
  if (options) a.o = *options;
  if (!(a.o.beta1 > 0)) a.o.beta1 = 0.9f;
  if (!(a.o.beta2 > 0)) a.o.beta2 = 0.95f;
  if (!(a.o.epsilon > 0)) a.o.epsilon = 1e-8f;
  a.trainer = tr;
  a.k = miras__kernels_best();
  a.rate = learning_rate;
  tr->taped = 0;
  tr->calls = 0;
  miras__each(parallel, miras__norm_blocks(tr->model), miras__norm_task, &a);
  miras__each(parallel, 1, miras__adam_begin, &a);
  miras__each(parallel, (count + MIRAS__ADAM_BLOCK - 1) / MIRAS__ADAM_BLOCK, miras__adam_task, &a);
}

MIRAS_API float miras_trainer_step(miras_trainer *tr, const miras_adamw_options *options,
                                   float learning_rate) {
  if (!tr) return (float)NAN;
  miras__step_run(tr, options, learning_rate);
  return tr->now->norm;
}

MIRAS_API float miras_cosine(uint64_t step, uint64_t warmup, uint64_t steps, float peak,
                             float lowest) {
  double t, low = (double)lowest;
  if (step < warmup) return (float)((double)peak * (double)(step + 1) / (double)warmup);
  if (step >= steps) return peak * lowest;
  t = (double)(step - warmup) / (double)(steps - warmup);
  return (float)((double)peak * (low + (1 - low) * 0.5 * (1 + cos(3.14159265358979323846 * t))));
}

#endif   /* MIRAS_NO_TRAINING */

/* @80 SESSIONS --------------------------------------------------------------- needs 31 74 78 -- */

/* ---- rounds ---- */

/* Which tokens of a call come next: those of text[0] from `done` on, then those of others. */
typedef struct miras__queue {
  const miras_text *text;
  size_t left, done;
} miras__queue;

static miras__queue miras__queue_of(const miras_text *text, size_t count) {
  miras__queue queue;
  queue.text = text, queue.left = count, queue.done = 0;
  return queue;
}

/* The next rows of the text as strands of the round; they become those of their tokens. */
static void miras__round_add(miras_server *s, const miras_text *text, size_t done, size_t n) {
  const size_t silent = text->count - text->logits;
  size_t first, t;
  miras__embed(s->k, s->model, text->tokens + done, n, s->x + s->rows * s->model->ld_x);
  for (first = 0; first < n; first += MIRAS__TILE) {
    miras__strand *p = &s->strand[s->strands++];
    p->run = (float *)text->state;
    p->position = miras__position(text->state);
    p->row = s->rows, p->length = n;
    p->first = first;
    p->n = n - first < MIRAS__TILE ? n - first : MIRAS__TILE;
  }
  for (t = done < silent ? silent - done : 0; t < n; t++) s->asked[s->asks++] = s->rows + t;
  s->rows += n;
}

/* Texts in their order until the round is full. One that does not fit is cut on the grid of tiles,
 * counted from its start, where it can be: most chunks divide a tile. 0: none are left. */
static size_t miras__round_begin(miras_server *s, miras__queue *queue) {
  s->k = miras__kernels_best();
  s->rows = s->strands = s->asks = 0;
  while (queue->left && s->rows < s->most) {
    const miras_text *text = queue->text;
    const uint64_t position = miras__position(text->state);
    size_t n = text->count - queue->done;
    if (n > s->most - s->rows) {
      const size_t over = (size_t)((position + s->most - s->rows) % MIRAS__TILE);
      n = s->most - s->rows;
      if (over < n) n -= over;
    }
    if (n) miras__round_add(s, text, queue->done, n);
    queue->done += n;
    if (queue->done < text->count) break;
    queue->text++, queue->left--;
    queue->done = 0;
  }
  return s->rows;
}

/* Rows of tile `index`; tiles are as equal as can be. */
static size_t miras__round_tile(const miras_server *s, size_t index, size_t *row) {
  *row = index * s->rows / s->tiles;
  return (index + 1) * s->rows / s->tiles - *row;
}

/* n rows of the round from `row` on in a layer, as rows of no text. */
static miras__visit miras__round_rows(const miras_server *s, size_t row, size_t n, int worker) {
  const miras__layer *layer = s->layer;
  const miras__shape *z = layer->s;
  const size_t kind = s->model->kind[layer->index];
  miras__visit a;
  memset(&a, 0, sizeof a);
  a.k = s->k;
  a.layer = layer;
  a.kept = s->kept[kind];
  a.work = s->work[kind];
  a.row = row;
  a.n = a.length = n;
  a.scratch = s->scratch + (size_t)worker * s->scratch_size;
  a.out = a.kept.x = s->x + row * z->ld_x;
  a.kept.mid = miras__to(a.kept.mid, row * z->ld_x);
  a.kept.proj += row * z->ld_p;
  a.kept.g += row * z->ld_g;
  a.kept.y += row * z->ld_y;
  a.kept.ab += row * 2 * z->ld_f;
  a.work.gates += row * z->ld_g;
  a.kept.shift = miras__to(a.kept.shift, z->mixes ? row * 2 * z->ld_x : 0);
  a.values = miras__to(s->values, z->mixes ? row * z->ld_y : 0);
  return a;
}

/* A strand of a text, or all of the text's rows. */
static miras__visit miras__round_text(const miras_server *s, const miras__strand *p, int all,
                                      int worker) {
  const size_t first = all ? 0 : p->first;
  miras__visit a = miras__round_rows(s, p->row + first, all ? p->length : p->n, worker);
  a.first = first;
  a.length = a.work.context = p->length;
  a.position = p->position;
  a.projected = 1;
  a.run = p->run + a.layer->run;
  a.kept.tails = a.run;
  a.work.qkv += p->row * a.layer->s->runs * a.work.per_qkv;
  a.work.per_qkv *= p->length;
  return a;
}

static void miras__round_shift(void *argument, int index, int worker) {
  const miras_server *s = (const miras_server *)argument;
  const miras__visit a = miras__round_text(s, &s->strand[index], 0, worker);
  miras__shift(&a);
}

static void miras__round_enter(void *argument, int index, int worker) {
  const miras_server *s = (const miras_server *)argument;
  size_t row, n = miras__round_tile(s, (size_t)index, &row);
  const miras__visit a = miras__round_rows(s, row, n, worker);
  miras__enter_rows(&a);
}

static void miras__round_enter_text(void *argument, int index, int worker) {
  const miras_server *s = (const miras_server *)argument;
  const miras__visit a = miras__round_text(s, &s->strand[index], 0, worker);
  miras__layer_acts(a.layer->s)->enter(&a);
}

/* Heads of a text; the first task also keeps the last rows for the next call. */
static void miras__round_heads(void *argument, int index, int worker) {
  const miras_server *s = (const miras_server *)argument;
  const miras__strand *p = &s->strand[(size_t)index / s->split];
  size_t h = (size_t)index % s->split;
  if (!p->first) {
    const miras__visit a = miras__round_text(s, p, 1, worker);
    const miras__shape *z = a.layer->s;
    if (!h && z->mixes) miras__shift_keep(&a, a.n);
    else if (!h) miras__tail_move(s->k, z, a.run, a.kept.proj, a.n);
    for (; h < z->tasks; h += s->split) miras__layer_acts(z)->head(&a, h);
  }
}

static void miras__round_leave(void *argument, int index, int worker) {
  const miras_server *s = (const miras_server *)argument;
  size_t row, n = miras__round_tile(s, (size_t)index, &row);
  const miras__visit a = miras__round_rows(s, row, n, worker);
  miras__leave(&a);
}

/* The next round of the call through all layers; 0: none is left. With many workers tiles are
 * smaller, so that all have some, but not so small that reading the weights is most of the work. */
static int miras__round(miras_server *s, miras__queue *queue) {
  const miras_parallel *on = s->desc.parallel;
  const size_t workers = miras__workers(on);
  size_t i, few;
  int l;
  if (!miras__round_begin(s, queue)) return 0;
  few = (s->rows + 7) / 8;
  if (few > workers) few = workers;
  s->tiles = miras__tiles(s->rows);
  if (s->tiles < few) s->tiles = few;
  for (l = 0; l < s->model->desc.layers; l++) {
    const miras__shape *z = s->model->layers[l].s;
    s->layer = &s->model->layers[l];
    s->split = workers > 1 && z->tasks ? z->tasks : 1;
    if (z->mixes) miras__each(on, s->strands, miras__round_shift, s);
    if (z->value) {
      miras__each(on, s->tiles, miras__round_enter, s);
      miras__each(on, s->strands, miras__round_enter_text, s);
    }
    if (z->value || z->mixes) miras__each(on, s->strands * s->split, miras__round_heads, s);
    miras__each(on, s->tiles, miras__round_leave, s);
  }
  for (i = 0; i < s->strands; i++) {
    const miras__strand *p = &s->strand[i];
    const uint64_t position = p->position + p->length;
    memcpy(p->run, &position, sizeof position);
  }
  return 1;
}

/* A tile of the wanted rows, and columns of their logits. */
static void miras__round_logit(void *argument, int index, int worker) {
  const miras_server *s = (const miras_server *)argument;
  const miras_model *m = s->model;
  const size_t across = (m->vocab + s->each - 1) / s->each;
  const size_t row = (size_t)index / across * MIRAS__TILE, c = (size_t)index % across * s->each;
  const size_t rows = s->wanted - row < MIRAS__TILE ? s->wanted - row : MIRAS__TILE;
  const size_t n = m->vocab - c < s->each ? m->vocab - c : s->each;
  const miras__matrix last = miras__mat(s->last + row * m->ld_x, m->ld_x);
  float *scratch = s->scratch + (size_t)worker * s->scratch_size;
  float *to = s->logits + row * m->vocab + c;
  if (m->desc.weights) {
    const miras__packed head =
      miras__packed_at(m, m->head + c * miras__row_bytes((int)m->desc.weights, m->width), scratch);
    miras__packed_times(s->k, MIRAS__SET, to, m->vocab, last, &head, rows, n, m->width, scratch);
    return;
  }
  miras__matmul(s->k, MIRAS__SET, to, m->vocab, last,
                miras__turned(m->params + m->head + c * m->width, m->width), rows, n, m->width,
                scratch);
}

/* Logits [n, vocab] of n of the rows that were asked of, from `from` on. */
static void miras__round_logits(miras_server *s, size_t from, size_t n, float *logits) {
  const miras_model *m = s->model;
  const size_t workers = miras__workers(s->desc.parallel), tiles = miras__tiles(n);
  size_t i;
  for (i = 0; i < n; i++) {
    const miras__norm of = miras__last_norm(m, s->x + s->asked[from + i] * m->ld_x, 1);
    miras__block_norm(s->k, s->last + i * m->ld_x, m->ld_x, &of);
  }
  s->logits = logits;
  s->wanted = n;
  s->each = m->vocab;
  if (workers > 1) s->each = (m->vocab * tiles / (4 * workers) + 64) / 64 * 64;
  miras__each(s->desc.parallel, tiles * ((m->vocab + s->each - 1) / s->each), miras__round_logit,
              s);
}

/* All of a call. */
static void miras__serve(miras_server *s, const miras_text *texts, size_t count, float *logits) {
  miras__queue queue = miras__queue_of(texts, count);
  while (miras__round(s, &queue)) {
    if (s->asks) miras__round_logits(s, 0, s->asks, logits);
    logits = miras__to(logits, s->asks * s->model->vocab);
  }
}

/* ---- serving ---- */

MIRAS_API size_t miras_model_state_size(const miras_model *m) {
  return m ? m->run * sizeof(float) : 0;
}

/* Replace zeros by defaults, refuse what is not meant. */
static MIRAS__COLD miras_result miras__server_resolve(miras_server *s, const miras_model *m,
                                                      const miras_server_desc *from, char *why,
                                                      size_t n) {
  miras_server_desc *d = &s->desc;
  size_t heads = 1;
  int i;
  if (why && n) why[0] = 0;
  if (!m || !from)
    return miras__say(why, n, "the %s is NULL", m ? "descriptor" : "model"), MIRAS_ERR_ARGUMENT;
  memset(s, 0, sizeof *s);
  s->model = m;
  *d = *from;
  if (!d->rows) d->rows = MIRAS__TILE;
  if (!miras__whole(why, n, "rows", d->rows, 1, 65536) || !miras__parallel_ok(d->parallel, why, n))
    return MIRAS_ERR_DESC;
  for (i = 0; i < m->kinds; i++)
    if (m->shape[i].tasks > heads) heads = m->shape[i].tasks;
  if ((size_t)d->rows > (size_t)INT_MAX / heads || (size_t)d->rows > (size_t)INT_MAX / m->vocab)
    return miras__say(why, n, "rows is %d; with %zu heads and vocab %zu a call would be larger "
                      "than 2^31", d->rows, heads, m->vocab), MIRAS_ERR_DESC;
  return MIRAS_OK;
}

/* Bytes of a resolved server; 0 if that is too much. */
static size_t miras__server_bytes(miras_server *s, char *why, size_t why_size) {
  const uint64_t limit = s->desc.limit;
  const size_t bytes =
    miras__measure(s, sizeof *s, miras__server_layout, "server", why, why_size);
  if (!bytes || !limit || bytes <= limit) return bytes;
  miras__say(why, why_size, "limit is %zu bytes; the server takes %zu", (size_t)limit, bytes);
  return 0;
}

MIRAS_API size_t miras_server_size(const miras_model *m, const miras_server_desc *d, char *why,
                                   size_t why_size) {
  miras_server s;
  if (miras__server_resolve(&s, m, d, why, why_size) != MIRAS_OK) return 0;
  return miras__server_bytes(&s, why, why_size);
}

/* Every offset is checked by miras__server_bytes. */
static MIRAS__COLD miras_server *miras__server_make(const miras_model *m,
                                                    const miras_server_desc *d, void *buffer,
                                                    size_t room, const miras_allocator *allocator) {
  miras_server draft, *s = &draft;
  if (miras__server_resolve(s, m, d, NULL, 0) != MIRAS_OK) return NULL;
  return (miras_server *)miras__build(s, sizeof *s, miras__server_layout,
                                      miras__server_bytes(s, NULL, 0), buffer, room, allocator);
}

MIRAS_API miras_server *miras_server_init(void *buffer, size_t bytes, const miras_model *m,
                                          const miras_server_desc *d) {
  return buffer ? miras__server_make(m, d, buffer, bytes, NULL) : NULL;
}

MIRAS_API miras_server *miras_server_open(const miras_model *m, const miras_server_desc *d,
                                          const miras_allocator *allocator) {
  return miras__server_make(m, d, NULL, 0, allocator);
}

MIRAS_API void miras_server_close(miras_server *s) {
  miras__close(s);
}

MIRAS_API const miras_server_desc *miras_server_desc_of(const miras_server *s) {
  return s ? &s->desc : NULL;
}

/* Can these be a call? */
static int miras__texts_ok(const miras_model *m, const miras_text *texts, size_t count,
                           const float *logits) {
  size_t i;
  for (i = 0; i < count; i++) {
    const miras_text *t = &texts[i];
    if (!t->state || (t->count && !t->tokens) || t->logits > t->count ||
        (t->logits && !logits) || !miras__words_ok(m, t->tokens, t->count, 0))
      return 0;
  }
  return 1;
}

/* The first `count` texts as they are, marked or no longer; returns how many could be: positions
 * are less than 2^63, and one that is not is a mark, of a text that is there twice. */
static size_t miras__texts_mark(const miras_text *texts, size_t count, uint64_t mark) {
  size_t i;
  for (i = 0; i < count; i++) {
    uint64_t position = miras__position(texts[i].state);
    if (mark && position >> 63) break;
    position = mark | (position << 1 >> 1);
    memcpy(texts[i].state, &position, sizeof position);
  }
  return i;
}

MIRAS_API miras_result miras_server_feed(miras_server *s, const miras_text *texts, size_t count,
                                         float *logits) {
  size_t alone;
  if (!s || (count && !texts) || !miras__texts_ok(s->model, texts, count, logits))
    return MIRAS_ERR_ARGUMENT;
  alone = miras__texts_mark(texts, count, (uint64_t)1 << 63);
  miras__texts_mark(texts, alone, 0);
  if (alone < count) return MIRAS_ERR_ARGUMENT;
  miras__serve(s, texts, count, logits);
  return MIRAS_OK;
}

/* ---- a text by itself ---- */

MIRAS_API size_t miras_session_size(const miras_model *m) {
  miras_session s;
  return m ? miras__session_bytes(&s, m) : 0;
}

static MIRAS__COLD miras_session *miras__session_make(const miras_model *m, void *buffer,
                                                      size_t room,
                                                      const miras_allocator *allocator) {
  miras_session draft, *s = &draft;
  if (!m) return NULL;
  s = (miras_session *)miras__build(s, sizeof *s, miras__session_layout,
                                    miras__session_bytes(s, m), buffer, room, allocator);
  if (!s) return NULL;
  memset(s->state, 0, s->state_bytes);
  return s;
}

MIRAS_API miras_session *miras_session_init(void *buffer, size_t bytes, const miras_model *m) {
  return buffer ? miras__session_make(m, buffer, bytes, NULL) : NULL;
}

MIRAS_API miras_session *miras_session_open(const miras_model *m,
                                            const miras_allocator *allocator) {
  return miras__session_make(m, NULL, 0, allocator);
}

MIRAS_API void miras_session_close(miras_session *s) {
  miras__close(s);
}

static const float *miras__session_feed(miras_session *s, const int32_t *tokens, size_t count) {
  miras_text text;
  if (!s || !tokens || !count || !miras__words_ok(s->in.model, tokens, count, 0)) return NULL;
  text.state = s->state;
  text.tokens = tokens;
  text.count = count;
  text.logits = 1;
  miras__serve(&s->in, &text, 1, s->logits);
  return s->logits;
}

MIRAS_API const float *miras_session_step(miras_session *s, int32_t token) {
  return miras__session_feed(s, &token, 1);
}

MIRAS_API const float *miras_session_prefill(miras_session *s, const int32_t *tokens,
                                             size_t count) {
  return miras__session_feed(s, tokens, count);
}

MIRAS_API double miras_session_score(miras_session *s, const int32_t *tokens,
                                     const int32_t *targets, size_t count) {
  const miras_model *m = s ? s->in.model : NULL;
  miras__queue queue;
  miras_text text;
  double total = 0;
  size_t i, t, n;
  if (!s || (count && (!tokens || !targets)) || !miras__words_ok(m, tokens, count, 0) ||
      !miras__words_ok(m, targets, count, -1))
    return (double)NAN;
  text.state = s->state;
  text.tokens = tokens;
  text.count = text.logits = count;
  queue = miras__queue_of(&text, 1);
  while (miras__round(&s->in, &queue)) {
    for (i = 0; i < s->in.rows; i += n, targets += n) {
      n = s->in.rows - i < s->held ? s->in.rows - i : s->held;
      miras__round_logits(&s->in, i, n, s->logits);
      for (t = 0; t < n; t++)
        if (targets[t] >= 0)
          total += (double)s->in.k->cross_entropy(s->logits + t * m->vocab, m->vocab,
                                                  (size_t)targets[t], 0);
    }
  }
  return total;
}

MIRAS_API void miras_session_reset(miras_session *s) {
  if (s) memset(s->state, 0, s->state_bytes);
}

MIRAS_API uint64_t miras_session_position(const miras_session *s) {
  return s ? miras__position(s->state) : 0;
}

MIRAS_API void *miras_session_state(miras_session *s, size_t *bytes) {
  if (bytes) *bytes = s ? s->state_bytes : 0;
  return s ? s->state : NULL;
}

/* The state of a head of a layer, as a memory's. */
static miras_result miras__session_call(const miras_session *s, int layer, int head,
                                        miras__call *a, char *why, size_t n) {
  const miras__layer *of;
  const miras__shape *z;
  miras__layer beside;
  size_t h = (size_t)head, first;
  float *at;
  if (why && n) why[0] = 0;
  if (!s)
    return miras__say(why, n, "the session is NULL"), MIRAS_ERR_ARGUMENT;
  if (!miras__whole(why, n, "layer", layer, 0, s->in.model->desc.layers - 1))
    return MIRAS_ERR_ARGUMENT;
  of = &s->in.model->layers[layer];
  z = of->s;
  if (!z->tasks)
    return miras__say(why, n, "layer is %d; it must be one with heads, for others have no state",
                      layer), MIRAS_ERR_ARGUMENT;
  if (!miras__whole(why, n, "head", head, 0, (int)z->tasks - 1)) return MIRAS_ERR_ARGUMENT;
  at = (float *)s->state + of->run + z->tail;
  first = z->tasks - z->beside;
  if (h >= first) {                /* of attention beside a memory */
    beside = *of;
    beside.s = z + 1;
    of = &beside;
    at += first * z->plan.head_state;
    h -= first;
  }
  miras__layer_head(of, miras__kernels_best(), h, a);
  a->state = at + h * of->s->plan.head_state;
  a->scratch = s->in.scratch;
  a->position = miras__position(s->state);
  return MIRAS_OK;
}

MIRAS_API miras_part miras_session_part(const miras_session *s, int layer, int i,
                                        miras_view *part) {
  miras__parts x;
  miras_part kind;
  miras__call a;
  memset(&x, 0, sizeof x);
  x.index = i;
  x.view = part;
  if (!part || i < 0 || miras__session_call(s, layer, 0, &a, NULL, 0) != MIRAS_OK)
    return MIRAS_PART_NONE;
  kind = miras__part_find(&x, a.p);
  return kind == MIRAS_PART_PARAMETER ? MIRAS_PART_NONE : kind;
}

static miras_result miras__session_move(const miras_session *s, int layer, int head,
                                        const char *name, float *to, const float *from, char *why,
                                        size_t n) {
  miras__call a;
  const miras_result result = miras__session_call(s, layer, head, &a, why, n);
  if (result != MIRAS_OK) return result;
  return miras__part_move(&a, (size_t)head, name, NULL, to, from, why, n);
}

MIRAS_API miras_result miras_session_get(const miras_session *s, int layer, int head,
                                         const char *name, float *to, char *why, size_t why_size) {
  return miras__session_move(s, layer, head, name, to, NULL, why, why_size);
}

MIRAS_API miras_result miras_session_set(miras_session *s, int layer, int head, const char *name,
                                         const float *from, char *why, size_t why_size) {
  return miras__session_move(s, layer, head, name, NULL, from, why, why_size);
}

/* ---- sampling ---- */

/* Tokens are ordered by logit, ties by the lower index first. What top_k and top_p keep is a prefix
 * of that order: all logits above `key` and the first `ties` of those equal to it. The end of the
 * prefix is found by radix: logits map to integers of the same order, and four passes settle eight
 * bits each, so that no list of the vocabulary is ever sorted or stored. */
typedef struct miras__prefix {
  uint32_t key;
  size_t ties;
} miras__prefix;

/* Larger logit, larger integer; 0 for NaN and -inf, which are never drawn. -0 and 0 are one. */
static uint32_t miras__order(float x) {
  uint32_t u;
  if (!(x >= -FLT_MAX)) return 0;
  x += 0.0f;
  memcpy(&u, &x, sizeof u);
  return u & 0x80000000u ? ~u : u | 0x80000000u;
}

static double miras__chance(float x, float most, double inverse) {
  return exp(((double)x - (double)most) * inverse);
}

/* Is token i, whose key is u, in the prefix? seen counts the ties so far. */
static int miras__prefix_has(const miras__prefix *p, uint32_t u, size_t *seen) {
  if (u != p->key) return u > p->key;
  return (*seen)++ < p->ties;
}

/* The shortest prefix whose weights reach `goal`: weights are 1 with inverse < 0, else chances.
 * Only tokens of `within` count. */
static miras__prefix miras__prefix_find(const float *logits, size_t n, float most, double inverse,
                                        double goal, const miras__prefix *within) {
  double bin[256], above = 0, each;
  uint32_t fixed = 0, mask = 0;
  miras__prefix p;
  size_t i, seen, ties = 0;
  int shift, b, at;
  for (shift = 24; shift >= 0; shift -= 8) {
    memset(bin, 0, sizeof bin);
    for (i = 0, seen = 0; i < n; i++) {
      uint32_t u = miras__order(logits[i]);
      if (u && miras__prefix_has(within, u, &seen) && (u & mask) == fixed)
        bin[u >> shift & 255] += inverse < 0 ? 1 : miras__chance(logits[i], most, inverse);
    }
    /* walk down until the goal is reached; where rounding leaves it short, the last bin in use */
    for (b = 255, at = -1; b >= 0; b--) {
      if (!(bin[b] > 0)) continue;
      if (at >= 0) above += bin[at];
      at = b;
      if (above + bin[b] >= goal) break;
    }
    if (at < 0) return *within;
    fixed |= (uint32_t)at << shift;
    mask |= (uint32_t)255 << shift;
  }
  /* all keys of the last bin are equal */
  for (i = 0, seen = 0; i < n; i++) {
    uint32_t u = miras__order(logits[i]);
    if (u == fixed && miras__prefix_has(within, u, &seen)) ties++;
  }
  each = bin[fixed & 255] / (double)ties;
  p.key = fixed;
  for (p.ties = 1; p.ties < ties && above + each * (double)p.ties < goal;) p.ties++;
  return p;
}

/* Summed chances of a prefix; up to the first token where they pass `goal`, which *at receives. */
static double miras__prefix_sum(const float *logits, size_t n, float most, double inverse,
                                const miras__prefix *keep, double goal, size_t *at) {
  double total = 0;
  size_t i, seen = 0;
  for (i = 0; i < n && total <= goal; i++) {
    uint32_t u = miras__order(logits[i]);
    if (!u || !miras__prefix_has(keep, u, &seen)) continue;
    total += miras__chance(logits[i], most, inverse);
    if (at && total > goal) *at = i;
  }
  return total;
}

MIRAS_API int32_t miras_sample(const float *logits, int vocab, miras_sampling *sampling) {
  miras__prefix keep;
  size_t n = vocab > 0 ? (size_t)vocab : 0, i, best = 0;
  double inverse, total, goal;
  uint64_t bits;
  uint32_t top = 0;
  if (!logits || !n || !sampling) return -1;
  sampling->seed = miras__hash(sampling->seed);
  bits = miras__hash(sampling->seed ^ UINT64_C(0x5851f42d4c957f2d));
  for (i = 0; i < n; i++) {
    uint32_t u = miras__order(logits[i]);
    if (u > top) {
      top = u;
      best = i;
    }
  }
  /* nothing to weigh: no temperature, an infinite maximum, or no number at all */
  if (!(sampling->temperature > 0) || !top || !(fabsf(logits[best]) <= FLT_MAX))
    return (int32_t)best;
  inverse = 1 / (double)sampling->temperature;
  keep.key = 1;            /* everything that is a number */
  keep.ties = n;
  if (sampling->top_k > 0 && (size_t)sampling->top_k < n)
    keep = miras__prefix_find(logits, n, logits[best], -1, (double)sampling->top_k, &keep);
  total = miras__prefix_sum(logits, n, logits[best], inverse, &keep, DBL_MAX, NULL);
  if (sampling->top_p > 0 && sampling->top_p < 1) {
    goal = (double)sampling->top_p * total;
    keep = miras__prefix_find(logits, n, logits[best], inverse, goal, &keep);
    total = miras__prefix_sum(logits, n, logits[best], inverse, &keep, DBL_MAX, NULL);
  }
  goal = (double)(bits >> 11) * (1.0 / 9007199254740992.0) * total;
  i = best;                /* goal < total, the very same sum, unless rounding makes them equal   */
  (void)miras__prefix_sum(logits, n, logits[best], inverse, &keep, goal, &i);
  return (int32_t)i;
}
#endif   /* MIRAS_NO_MODEL */

/* @82 THREAD POOL --------------------------------------------------------------- needs 10 74 -- */

#ifdef MIRAS_PTHREADS
#ifndef __GNUC__
  #error "MIRAS_PTHREADS needs the atomics of GCC or Clang"
#endif
#include <pthread.h>
#include <sched.h>

/* Phases of a training step last from tens of microseconds up, so workers wait for the next one by
 * spinning for a while before they sleep.
 *
 * All of a job's indices pass through one word: job number << 32 | indices left. Taking an index is
 * a compare-and-swap that lowers it, so a worker that arrives late finds nothing left, or another
 * job's word, and can never take an index of a job it has not read: job and count change only while
 * nothing is left and nothing is running. `done` counts finished indices; the last one may wake the
 * caller. */
typedef struct miras__worker {
  struct miras_pool *pool;
  pthread_t thread;
  int number;              /* 1..threads; the caller is 0                                         */
} miras__worker;

struct miras_pool {
  miras_parallel parallel;
  pthread_mutex_t busy;    /* held by the thread whose job runs                                   */
  pthread_mutex_t lock;    /* of the two conditions                                               */
  pthread_cond_t wake, finished;
  uint64_t word;
  void (*task)(void *argument, int index, int worker);
  void *argument;
  int count, done;
  int asleep, waiting, stop;
  int threads;             /* without the caller                                                  */
  miras_allocator allocator;
  miras__worker worker[255];
};

#define MIRAS__SPIN 2000   /* about 100 microseconds of pauses */

static void miras__relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/* Run one index; 0 when none is left. */
static int miras__pool_take(miras_pool *p, int worker) {
  uint64_t word = __atomic_load_n(&p->word, __ATOMIC_ACQUIRE);
  int index, count;
  do {
    if (!(uint32_t)word) return 0;
  } while (!__atomic_compare_exchange_n(&p->word, &word, word - 1, 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE));
  count = p->count;
  index = count - (int)(uint32_t)word;
  p->task(p->argument, index, worker);
  if (__atomic_add_fetch(&p->done, 1, __ATOMIC_SEQ_CST) == count &&
      __atomic_load_n(&p->waiting, __ATOMIC_SEQ_CST)) {
    pthread_mutex_lock(&p->lock);
    pthread_cond_signal(&p->finished);
    pthread_mutex_unlock(&p->lock);
  }
  return 1;
}

static void *miras__pool_main(void *argument) {
  miras__worker *me = (miras__worker *)argument;
  miras_pool *p = me->pool;
  int spin = 0;
  for (;;) {
    if (miras__pool_take(p, me->number)) {
      spin = 0;
    } else if (__atomic_load_n(&p->stop, __ATOMIC_RELAXED)) {
      return NULL;
    } else if (++spin < MIRAS__SPIN) {
      miras__relax();
    } else {
      /* asleep is raised before the word is looked at again, and the caller writes the word before
       * it looks at asleep: one of the two sees the other */
      pthread_mutex_lock(&p->lock);
      __atomic_add_fetch(&p->asleep, 1, __ATOMIC_SEQ_CST);
      while (!(uint32_t)__atomic_load_n(&p->word, __ATOMIC_SEQ_CST) &&
             !__atomic_load_n(&p->stop, __ATOMIC_RELAXED))
        pthread_cond_wait(&p->wake, &p->lock);
      __atomic_sub_fetch(&p->asleep, 1, __ATOMIC_SEQ_CST);
      pthread_mutex_unlock(&p->lock);
      spin = 0;
    }
  }
}

static void miras__pool_run(void *user, int count,
                            void (*task)(void *argument, int index, int worker), void *argument) {
  miras_pool *p = (miras_pool *)user;
  uint64_t word;
  int i;
  if (count <= 0) return;
  /* a job inside a job, or of a second thread, runs on its own thread */
  if (pthread_mutex_trylock(&p->busy)) {
    for (i = 0; i < count; i++) task(argument, i, 0);
    return;
  }
  p->task = task;
  p->argument = argument;
  p->count = count;
  __atomic_store_n(&p->done, 0, __ATOMIC_RELAXED);
  word = __atomic_load_n(&p->word, __ATOMIC_RELAXED);
  __atomic_store_n(&p->word, ((word >> 32) + 1) << 32 | (uint32_t)count, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&p->asleep, __ATOMIC_SEQ_CST)) {
    pthread_mutex_lock(&p->lock);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
  }
  while (miras__pool_take(p, 0)) {
  }
  for (i = 0; i < MIRAS__SPIN && __atomic_load_n(&p->done, __ATOMIC_ACQUIRE) != count; i++)
    miras__relax();
  if (i == MIRAS__SPIN) {
    pthread_mutex_lock(&p->lock);
    __atomic_store_n(&p->waiting, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&p->done, __ATOMIC_SEQ_CST) != count)
      pthread_cond_wait(&p->finished, &p->lock);
    __atomic_store_n(&p->waiting, 0, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&p->lock);
  }
  pthread_mutex_unlock(&p->busy);
}

MIRAS_API void miras_pool_close(miras_pool *pool) {
  miras_allocator from;
  int i;
  if (!pool) return;
  pthread_mutex_lock(&pool->lock);
  __atomic_store_n(&pool->stop, 1, __ATOMIC_RELAXED);
  pthread_cond_broadcast(&pool->wake);
  pthread_mutex_unlock(&pool->lock);
  for (i = 0; i < pool->threads; i++) pthread_join(pool->worker[i].thread, NULL);
  pthread_cond_destroy(&pool->finished);
  pthread_cond_destroy(&pool->wake);
  pthread_mutex_destroy(&pool->lock);
  pthread_mutex_destroy(&pool->busy);
  from = pool->allocator;
  miras__release(&from, pool, sizeof *pool);
}

MIRAS_API miras_pool *miras_pool_open(int threads, const miras_allocator *allocator) {
  miras_allocator from = miras__allocator(allocator);
  miras_pool *p;
  if (threads < 1 || threads > 256) return NULL;
  p = (miras_pool *)from.alloc(sizeof *p, from.user);
  if (!p) return NULL;
  memset(p, 0, sizeof *p);
  p->allocator = from;
  if (pthread_mutex_init(&p->busy, NULL)) goto none;
  if (pthread_mutex_init(&p->lock, NULL)) goto busy;
  if (pthread_cond_init(&p->wake, NULL)) goto lock;
  if (pthread_cond_init(&p->finished, NULL)) goto wake;
  for (; p->threads < threads - 1; p->threads++) {
    miras__worker *w = &p->worker[p->threads];
    w->pool = p;
    w->number = p->threads + 1;
    if (pthread_create(&w->thread, NULL, miras__pool_main, w)) {
      miras_pool_close(p);
      return NULL;
    }
  }
  p->parallel.run = miras__pool_run;
  p->parallel.user = p;
  p->parallel.workers = threads;
  return p;
wake:
  pthread_cond_destroy(&p->wake);
lock:
  pthread_mutex_destroy(&p->lock);
busy:
  pthread_mutex_destroy(&p->busy);
none:
  miras__release(&from, p, sizeof *p);
  return NULL;
}

MIRAS_API const miras_parallel *miras_pool_parallel(const miras_pool *pool) {
  return pool ? &pool->parallel : NULL;
}
#endif
#ifndef MIRAS_NO_FILES
/* @84 BYTES AND TEXT --------------------------------------------------------------- needs 10 -- */

/* ---- bytes, little-endian whatever the machine ---- */

static uint32_t miras__get32(const unsigned char *p) {
  return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint64_t miras__get64(const unsigned char *p) {
  return (uint64_t)miras__get32(p) | (uint64_t)miras__get32(p + 4) << 32;
}

static void miras__set32(unsigned char *p, uint32_t x) {
  int i;
  for (i = 0; i < 4; i++) p[i] = (unsigned char)(x >> 8 * i & 255);
}

static void miras__set64(unsigned char *p, uint64_t x) {
  miras__set32(p, (uint32_t)(x & 0xffffffffu));
  miras__set32(p + 4, (uint32_t)(x >> 32));
}

/* CRC-32C (Castagnoli): start with 0; pass the last result on to continue. Four bits at a time by
 * a table of the checksums of four bits. Where that pays, and the stack has room, eight bytes at a
 * time: t[256 k + b] is the checksum of the byte b with k zeros behind it. */
static uint32_t miras__crc32c(uint32_t crc, const void *bytes, size_t n) {
  static const uint32_t half[16] = {
    0x00000000u, 0x105ec76fu, 0x20bd8edeu, 0x30e349b1u, 0x417b1dbcu, 0x5125dad3u, 0x61c69362u,
    0x7198540du, 0x82f63b78u, 0x92a8fc17u, 0xa24bb5a6u, 0xb21572c9u, 0xc38d26c4u, 0xd3d3e1abu,
    0xe330a81au, 0xf36e6f75u};
  const unsigned char *p = (const unsigned char *)bytes;
  crc = ~crc;
#if !defined(__OPTIMIZE_SIZE__) && SIZE_MAX > 0xffffffffu
  if (n >= 512) {
    uint32_t t[8 * 256], i;
    for (i = 0; i < 256; i++) {
      const uint32_t one = i >> 4 ^ half[i & 15];
      t[i] = one >> 4 ^ half[one & 15];
    }
    for (; i < 8 * 256; i++) t[i] = t[i - 256] >> 8 ^ t[t[i - 256] & 255];
    for (; n >= 8; n -= 8, p += 8) {
      const uint32_t a = crc ^ miras__get32(p), b = miras__get32(p + 4);
      crc = t[1792 + (a & 255)] ^ t[1536 + (a >> 8 & 255)] ^ t[1280 + (a >> 16 & 255)] ^
            t[1024 + (a >> 24)] ^ t[768 + (b & 255)] ^ t[512 + (b >> 8 & 255)] ^
            t[256 + (b >> 16 & 255)] ^ t[b >> 24];
    }
  }
#endif
  for (; n; n--, p++) {
    crc ^= *p;
    crc = crc >> 4 ^ half[crc & 15];
    crc = crc >> 4 ^ half[crc & 15];
  }
  return ~crc;
}

/* ---- where saved bytes go: they are counted, and summed, kept or written if asked for ---- */

typedef struct miras__sink {
  size_t size;             /* bytes put so far; the largest number if there are more             */
  int sums;
  uint32_t crc;            /* of them                                                            */
  unsigned char *to;       /* NULL or as many bytes as will be put                               */
#ifndef MIRAS_NO_STDIO
  FILE *file;              /* NULL or where to, which knows whether that failed                  */
#endif
} miras__sink;

static void miras__out(miras__sink *s, const void *bytes, size_t n) {
  if (s->sums) s->crc = miras__crc32c(s->crc, bytes, n);
  if (s->to) memcpy(s->to + s->size, bytes, n);
#ifndef MIRAS_NO_STDIO
  if (s->file) fwrite(bytes, 1, n, s->file);
#endif
  if (!miras__size_add(s->size, n, &s->size)) s->size = (size_t)-1;
}

static void miras__out_text(miras__sink *s, const char *text) { miras__out(s, text, strlen(text)); }

/* Arrays of 32-bit words, float or integer. In sequences of `each` words (0: there are none) the
 * first two are one number of 64 bits. Of `left` words turn the first number's bytes around, for
 * machines that are not little-endian; returns its words. */
static size_t miras__turn(unsigned char *to, const unsigned char *from, size_t left, size_t each) {
  const size_t words = each && left % each == 0 ? 2 : 1;
  size_t i;
  for (i = 0; i < 4 * words; i++) to[i] = from[4 * words - 1 - i];
  return words;
}

static void miras__get_words(void *to, const unsigned char *from, size_t count, size_t each) {
  unsigned char *out = (unsigned char *)to;
  size_t words;
  if (miras__little_endian()) {
    memcpy(out, from, 4 * count);
    return;
  }
  for (; count; count -= words, out += 4 * words, from += 4 * words)
    words = miras__turn(out, from, count, each);
}

static void miras__out_words(miras__sink *s, const void *from, size_t count, size_t each) {
  const unsigned char *in = (const unsigned char *)from;
  size_t words;
  if (miras__little_endian()) {
    miras__out(s, in, 4 * count);
    return;
  }
  for (; count; count -= words, in += 4 * words) {
    unsigned char bytes[8];
    words = miras__turn(bytes, in, count, each);
    miras__out(s, bytes, 4 * words);
  }
}

/* ---- numbers as text; the C library's own would follow the locale ---- */

static int miras__is_digit(int c) { return c >= '0' && c <= '9'; }

/* An unsigned number, digits without a leading zero: the place behind it, or NULL for none. */
static const char *miras__scan_whole(const char *at, const char *end, uint64_t *x) {
  const char *start = at;
  uint64_t n = 0;
  for (; at < end && miras__is_digit(*at); at++) {
    const unsigned digit = (unsigned)*at - '0';
    if (n > (UINT64_MAX - digit) / 10) return NULL;
    n = 10 * n + digit;
  }
  *x = n;
  return at > start && (*start != '0' || at == start + 1) ? at : NULL;
}

/* The whole text as such a number: 1 on success. */
static int miras__read_whole(const char *text, uint64_t *x) {
  const char *end = text + strlen(text);
  return miras__scan_whole(text, end, x) == end;
}

/* The whole text as a finite float, JSON's grammar. Computed in double with an error far below half
 * a float's last place, so that any float written with 9 digits or more comes back exactly. */
static int miras__read_real(const char *text, float *x) {
  uint64_t digits = 0;
  double value, power = 1;
  const int minus = *text == '-';
  const char *start = text + minus;
  int exponent = 0, shift = 0, places = 0;
  for (text = start; miras__is_digit(*text) || (*text == '.' && !places && text > start); text++) {
    if (*text == '.') {
      places = 1;
    } else if (digits < UINT64_MAX / 10 - 1) {
      digits = 10 * digits + (uint64_t)(*text - '0');
      exponent -= places;
    } else {
      exponent += !places;
    }
  }
  if (text == start || text[-1] == '.' || (*start == '0' && miras__is_digit(start[1]))) return 0;
  if (*text == 'e' || *text == 'E') {
    const int down = text[1] == '-';
    text += 1 + (down || text[1] == '+');
    if (!miras__is_digit(*text)) return 0;
    for (; miras__is_digit(*text); text++)
      if (shift < 1000) shift = 10 * shift + (*text - '0');
    exponent += down ? -shift : shift;
  }
  if (*text) return 0;
  value = (double)digits;
  for (shift = exponent < 0 ? -exponent : exponent; digits && shift && power <= DBL_MAX; shift--)
    power *= 10;
  value = exponent < 0 ? value / power : value * power;
  /* halfway from FLT_MAX to 2^128: from here on the nearest float would be infinite */
  if (!(value < 3.4028235677973366e38)) return 0;
  *x = (float)(minus ? -value : value);
  return 1;
}

/* The shortest text that reads back to the same bits: 1 to 9 digits. text holds 32 characters. */
static void miras__write_real(char *text, float x) {
  const int minus = miras__real_bits(x) >> 31 != 0;   /* also of -0 */
  float back = 0;
  int count;
  text[0] = '-';
  for (count = 1; count <= 9; count++) {
    const double size = minus ? -(double)x : (double)x;
    text[miras__put_real(text, 32, (size_t)minus, size, count, -5, 9)] = 0;
    if (miras__read_real(text, &back) && memcmp(&back, &x, sizeof x) == 0) return;
  }
}

/* ---- reading JSON: as much of it as safetensors uses ---- */

/* A cursor. After a violation, bad is 1 and at is end, so every loop runs out. */
typedef struct miras__text {
  const char *at, *end;
  const char *wrong;     /* of a tensor, if that is what is bad                                  */
  int bad;
} miras__text;

#define MIRAS__NAME_SIZE 128   /* longer names and values than 127 are none that we know */

static int miras__refuse(miras__text *t) {
  t->bad = 1;
  t->at = t->end;
  return 0;
}

/* The same, and why; the first reason counts. */
static int miras__refuse_for(miras__text *t, const char *why) {
  if (!t->wrong) t->wrong = why;
  return miras__refuse(t);
}

static void miras__skip_space(miras__text *t) {
  while (t->at < t->end && (*t->at == ' ' || *t->at == '\n' || *t->at == '\t' || *t->at == '\r'))
    t->at++;
}

/* After white space: skip c and return 1, or return 0 and leave it there. */
static int miras__take_char(miras__text *t, int c) {
  miras__skip_space(t);
  if (t->at == t->end || *t->at != c) return 0;
  t->at++;
  return 1;
}

static int miras__need_char(miras__text *t, int c) {
  return miras__take_char(t, c) || miras__refuse(t);
}

/* The place in a list of the next character, which must be in it. */
static int miras__need_one_of(miras__text *t, const char *list) {
  const char *at = t->at < t->end && *t->at ? strchr(list, *t->at) : NULL;
  if (!at) return miras__refuse(t);
  t->at++;
  return (int)(at - list);
}

/* A string, decoded. What cannot be a name or value of ours (too long, not ASCII, a NUL inside)
 * becomes "?", which is none either. Returns where the string began in the text. */
static const char *miras__need_string(miras__text *t, char *out) {
  const char *start;
  size_t n = 0;
  int known = miras__need_char(t, '"'), i;
  for (start = t->at; t->at < t->end && *t->at != '"';) {
    unsigned c = (unsigned char)*t->at++;
    if (c < 0x20) miras__refuse(t);
    if (c == '\\') {
      const int escape = miras__need_one_of(t, "\"\\/bfnrtu");
      c = (unsigned char)"\"\\/\b\f\n\r\t"[escape];
      for (i = 0; escape == 8 && i < 4; i++)
        c = c << 4 | (unsigned)(miras__need_one_of(t, "0123456789abcdef0123456789ABCDEF") & 15);
    }
    if (c < 1 || c > 126 || n == MIRAS__NAME_SIZE - 1) known = 0;
    else out[n++] = (char)c;
  }
  miras__need_char(t, '"');
  out[n] = 0;
  if (!known) memcpy(out, "?", 2);
  return start;
}

/* Up to `most` whole numbers in brackets; how many. */
static int miras__need_list(miras__text *t, uint64_t *out, int most) {
  int n = 0;
  do {
    miras__need_char(t, n ? ',' : '[');
    miras__skip_space(t);
    t->at = n < most ? miras__scan_whole(t->at, t->end, &out[n++]) : NULL;
    if (!t->at) return miras__refuse(t);
  } while (!miras__take_char(t, ']'));
  return n;
}

/* @85 FILES --------------------------------------------------- needs 10 11 14 74 78 79 80 84 -- */

/* A saved model is a safetensors file: 8 bytes of header length, a JSON header of up to 4 MiB,
 * tensors without gaps, everything little-endian. They are f32, or its matrices as a model holds
 * them that only runs: BF16, F16, and for Q8 U8 of [rows, bytes of a row]. The header's
 * __metadata__ holds the descriptor, field by field, and a CRC-32C of the whole file in which the
 * eight digits of the checksum itself count as zeros; so no single changed byte goes unnoticed, be
 * it in the header or in the numbers.
 * From version 4 on fields of layers have the letter of a kind before them: "w.window".
 *
 * A saved memory or session is, in this order, all little-endian:
 *    0  "mirastat"   8  u32 version 1       12  u32 what: 1 memory, 2 session
 *   16  u64 fingerprint of the descriptor   24  u64 floats of outer parameters (session: 0)
 *   32  u64 bytes of state                  40  u64 position
 *   48  u64 sequences   56  u32 CRC-32C of the payload   60  u32 CRC-32C of the 60 bytes before
 *   64  the payload: the outer parameters as f32; then for each sequence its position as u64, the
 *       same for all, and the rest of its state as 32-bit words.
 *
 * Loading checks everything first and writes second: after any error the destination is as it was.
 * It needs no memory of its own. Two things are not checked. Values: a NaN or an infinity may be
 * in a state legitimately, and it comes back bit for bit. Intent: a checksum is no signature; the
 * file of a stranger can be valid and hold a hostile model, which can do no more than a bad one. */

#define MIRAS__VERSION 6   /* of models' files; those from 2 on are read                         */

/* ---- fields as text ---- */

/* What files of versions 2 and 3 call otherwise. Both are read; such files say the old. */
static const char *const miras__renamed[][2] = {
  {"memory.descents", "memory.steps"}, {"key_map", "keys"}, {"keep_form", "keep"},
  {"kv-cache", "pairs"}, {"least-squares", "newton"}
};

static MIRAS__COLD const char *miras__rename(const char *name, int from) {
  size_t i;
  for (i = 0; i < sizeof miras__renamed / sizeof miras__renamed[0]; i++)
    if (miras__same(name, miras__renamed[i][from])) return miras__renamed[i][!from];
  return name;
}

/* The field that a name in files says; NULL for none. One of a layer may have the letter of a kind
 * and a dot before it; else *letter is 0. */
static MIRAS__COLD const miras__field *miras__find_field(const char *name, char *letter) {
  const miras__field *f = miras__fields;
  *letter = (char)(miras__is_letter(name[0]) && name[1] == '.' ? name[0] : 0);
  name = miras__rename(name + (*letter ? 2 : 0), 1);
  while (f < miras__fields + MIRAS__FIELDS && (!f->since || !miras__same(name, f->name))) f++;
  return f < miras__fields + MIRAS__FIELDS && (!*letter || miras__of_layer(f)) ? f : NULL;
}

/* A field of a kind into text[MIRAS_PATTERN]; of a word that does not exist its number. */
static MIRAS__COLD void miras__write_field(char *text, const miras__field *f,
                                           const miras_model_desc *d, int kind) {
  const size_t at = miras__offset(f, kind);
  const uint64_t bits = f->kind == MIRAS__TEXT ? 0 : miras__bits(d, at, f->size);
  if (f->kind == MIRAS__WORD && miras__word(text, f, (int)bits)) return;
  memset(text, 0, MIRAS_PATTERN);
  if (f->kind == MIRAS__TEXT) memcpy(text, (const char *)d + at, f->size - 1u);
  else if (f->kind == MIRAS__WIDE) miras__put_digits(text, 32, 0, bits, 1);
  else if (f->kind == MIRAS__REAL) miras__write_real(text, miras__bits_real(bits));
  else miras__say(text, 32, "%d", (int)bits);
}

/* And back. 1 on success. */
static MIRAS__COLD int miras__read_field(const miras__field *f, const char *text,
                                         miras_model_desc *d, int kind) {
  const size_t at = miras__offset(f, kind);
  uint64_t bits = 0;
  float real = 0;
  if (f->kind == MIRAS__TEXT) {
    if (strlen(text) >= f->size) return 0;
    memset((char *)d + at, 0, f->size);
    memcpy((char *)d + at, text, strlen(text));
    return 1;
  }
  if (f->kind == MIRAS__WORD) {
    const int x = miras__meaning(f, miras__rename(text, 1));
    if (x < 0) return 0;
    bits = (uint64_t)x;
  } else if (f->kind == MIRAS__REAL) {
    if (!miras__read_real(text, &real)) return 0;
    bits = miras__real_bits(real);
  } else if (!miras__read_whole(text, &bits) || (f->kind != MIRAS__WIDE && bits > INT_MAX)) {
    return 0;
  }
  miras__set_bits(d, at, f->size, bits);
  return 1;
}

/* Of a model: 0 of a field that is 0, or of a text that is empty. */
static uint64_t miras__field_bits(const miras_model_desc *d, const miras__field *f, int kind) {
  const char *at = (const char *)d + miras__offset(f, kind);
  if (f->kind != MIRAS__TEXT) return miras__bits(at, 0, f->size);
  return *at ? (uint64_t)1 << 32 | miras__crc32c(0, at, strlen(at)) : 0;
}

/* The places that fields may have in a file: that of each without a letter, then with the letter of
 * each kind of layer. */
enum { MIRAS__PLACES = (MIRAS_LAYER_KINDS + 1) * MIRAS__FIELDS };

/* The field that a file of this version holds at a place, and of which kind; NULL for none. Until
 * version 3 there are no letters, for all layers are of one kind. Then a layer's field has that of
 * each kind that there is and whose type it means something to. */
static const miras__field *miras__in_file(const miras_model_desc *d, int version, int place,
                                          int *kind) {
  const miras__field *f = &miras__fields[place % MIRAS__FIELDS];
  const int lettered = place >= MIRAS__FIELDS;
  *kind = lettered ? place / MIRAS__FIELDS - 1 : 0;
  if (!f->since || f->since > version || lettered != (version >= 4 && miras__of_layer(f)))
    return NULL;
  if (!lettered) return f;
  return miras__used(d, *kind) && miras__of_type(f, d->layer[*kind].type) ? f : NULL;
}

/* The version of files that a model is saved in: the oldest that has all its fields, so that older
 * readers know what they can. */
static int miras__version(const miras_model_desc *d) {
  int version = 2, place, kind;
  for (place = 0; place < MIRAS__PLACES; place++) {
    const miras__field *f = miras__in_file(d, MIRAS__VERSION, place, &kind);
    if (f && f->since > version && miras__field_bits(d, f, kind)) version = f->since;
  }
  return version;
}

/* Of the fields of d in [from, to) of a case: those of version 2 in their order, and by name later
 * ones that are not 0. So states of version 0.2 keep theirs, and all do when fields come. */
static uint64_t miras__fingerprint(const miras_model_desc *d, int kind, size_t from, size_t to,
                                   uint64_t start) {
  const miras__field *f = miras__fields;
  for (; f < miras__fields + MIRAS__FIELDS; f++) {
    uint64_t bits;
    if (!f->since || f->decides == MIRAS__FREE || f->at < from || f->at >= to) continue;
    bits = miras__field_bits(d, f, kind);
    /* log-cosh and tanh came before custom, whose old number is in old states */
    if (f->at == offsetof(miras__case, l.memory.bias) && bits >= MIRAS_LOG_COSH)
      bits ^= MIRAS_LOG_COSH ^ MIRAS_CUSTOM_BIAS;
    if (f->at == offsetof(miras__case, l.memory.retention) && bits >= MIRAS_RETAIN_TANH)
      bits ^= MIRAS_RETAIN_TANH ^ MIRAS_CUSTOM_RETENTION;
    if (f->since > 2 && !bits) continue;
    if (f->since > 2) start = miras__hash(start ^ miras__crc32c(0, f->name, strlen(f->name)));
    start = miras__hash(start ^ bits);
  }
  return start;
}

/* A field that decides as much as `decides` in which two models differ: 1, and a sentence. */
static MIRAS__COLD int miras__differs(const miras_model_desc *a, const miras_model_desc *b,
                                      int decides, char *why, size_t n) {
  int place, k;
  for (place = 0; place < MIRAS__PLACES; place++) {
    const miras__field *f = miras__in_file(a, MIRAS__VERSION, place, &k);
    const int lettered = place >= MIRAS__FIELDS && a->pattern[0];
    const char letter[3] = {miras__letter(a, k), '.', 0};
    const int there = lettered ? miras__kind_of(b, letter[0]) : 0;
    char one[MIRAS_PATTERN], other[MIRAS_PATTERN] = "absent";
    if (!f || f->decides != decides) continue;
    miras__write_field(one, f, a, k);
    if (there >= 0) miras__write_field(other, f, b, there);
    if (miras__same(one, other)) continue;
    miras__say(why, n, f->kind == MIRAS__TEXT ? "%s%s is \"%s\" and not \"%s\""
                                              : "%s%s is %s and not %s",
               lettered ? letter : "", f->name, one, other);
    return 1;
  }
  return 0;
}

#define MIRAS__MAX_HEADER (1u << 22)   /* of ours at most a quarter; the rest for others' notes */

#ifndef MIRAS_NO_MODEL
/* ---- writing a model ---- */

/* Here a trainer that may be NULL is what a file holds beside its model. */

typedef struct miras__tensor {
  char name[MIRAS__NAME_SIZE];
  int rank;
  uint64_t shape[5];                 /* more than three are others' only                         */
  uint64_t range[2];                 /* bytes within the payload: from, to                       */
  int form;                          /* miras_weights                                            */
} miras__tensor;

/* By miras_weights. */
static const char *const miras__dtypes[MIRAS_WEIGHTS_COUNT] = {"F32", "BF16", "F16", "U8"};

/* Weights of a form, n from the first of a block on, as in files, to what this machine has, or
 * back. */
static MIRAS__COLD void miras__weights_turn(int form, unsigned char *to, const unsigned char *from,
                                            size_t n) {
  const size_t bytes = miras__row_bytes(form, n);
  size_t i;
  memcpy(to, from, bytes);
  if (miras__little_endian()) return;
  if (form == MIRAS_WEIGHTS_FLOAT)
    for (i = 0; i < bytes; i++) to[i] = from[i ^ 3];
  else
    for (i = 0; i + 1 < bytes; i += form == MIRAS_WEIGHTS_Q8 ? 34 : 2)
      to[i] = from[i + 1], to[i + 1] = from[i];
}

/* x in half precision, to nearest, halfway to even; NaN stays one. */
static unsigned miras__to_half(float x) {
  const uint32_t bits = (uint32_t)miras__real_bits(x);
  const unsigned sign = bits >> 16 & 0x8000;
  const uint32_t size = bits & 0x7fffffff;
  if (size > 0x7f800000) return sign | 0x7e00;
  if (size >= 0x477ff000) return sign | 0x7c00;                  /* 65520 */
  if (size < 0x38800000)                                         /* 2^-14: steps of 2^-24 */
    return sign | (unsigned)lrintf(fabsf(x) * 16777216.0f);
  return sign | (unsigned)((size + 0xfff + (size >> 13 & 1) - (112u << 23)) >> 13);
}

/* n floats to weights of a form, from the first of a block on. */
static MIRAS__COLD void miras__narrow(int form, unsigned char *to, const float *x, size_t n) {
  size_t i, j;
  if (form == MIRAS_WEIGHTS_FLOAT) memcpy(to, x, n * sizeof *x);
  for (i = 0; form == MIRAS_WEIGHTS_Q8 && i < n; i += 32, to += 34) {
    const size_t now = n - i < 32 ? n - i : 32;
    float most = 0, scale;
    uint16_t half;
    for (j = 0; j < now; j++)
      if (!(fabsf(x[i + j]) <= most)) most = fabsf(x[i + j]);    /* a NaN wins                    */
    half = (uint16_t)miras__to_half(most / 127);
    miras__kernels_best()->widen(MIRAS_WEIGHTS_F16, &scale, (const unsigned char *)&half, 1);
    memcpy(to, &half, sizeof half);
    memset(to + sizeof half, 0, 32);
    for (j = 0; j < now && scale > 0 && scale <= FLT_MAX; j++) {
      const float q = rintf(x[i + j] / scale);
      to[sizeof half + j] = (unsigned char)(signed char)(q > 127 ? 127 : q < -127 ? -127 : q);
    }
  }
  for (i = 0; (form == MIRAS_WEIGHTS_BF16 || form == MIRAS_WEIGHTS_F16) && i < n; i++, to += 2) {
    const uint32_t bits = (uint32_t)miras__real_bits(x[i]);
    const uint16_t half = (uint16_t)(form == MIRAS_WEIGHTS_F16 ? miras__to_half(x[i])
                                     : x[i] != x[i] ? 0x7fc0
                                     : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    memcpy(to, &half, sizeof half);
  }
}

/* n weights of a file to those of a view, both from the first of a block on. */
static MIRAS__COLD void miras__weights_read(int form, unsigned char *to, int from_form,
                                            const unsigned char *from, size_t n) {
  enum { PIECE = 256 };
  unsigned char bytes[PIECE * sizeof(float)];
  float x[PIECE];
  size_t now;
  for (; n; n -= now) {
    now = n < PIECE ? n : PIECE;
    miras__weights_turn(from_form, bytes, from, now);
    if (from_form == MIRAS_WEIGHTS_FLOAT) memcpy(x, bytes, now * sizeof *x);
    else miras__kernels_best()->widen(from_form, x, bytes, now);
    if (form == from_form) memcpy(to, bytes, miras__row_bytes(form, now));
    else miras__narrow(form, to, x, now);
    to += miras__row_bytes(form, now);
    from += miras__row_bytes(from_form, now);
  }
}

/* How a model holds a view. */
static int miras__view_form(const miras_model *m, const miras_view *v) {
  return v->decay ? (int)m->desc.weights : MIRAS_WEIGHTS_FLOAT;
}

static unsigned char *miras__view_at(const miras_model *m, const miras_view *v) {
  return miras__view_form(m, v) ? m->packed + v->offset
                                : (unsigned char *)(void *)(m->params + v->offset);
}

/* A tensor that is not running texts: all its rows. */
static MIRAS__COLD void miras__view_read(const miras_model *m, const miras_view *v, int from_form,
                                         const unsigned char *from) {
  const int form = miras__view_form(m, v);
  const size_t rows = v->rank == 2 ? (size_t)v->shape[0] : 1, n = v->count / rows;
  unsigned char *to = miras__view_at(m, v);
  size_t i;
  for (i = 0; i < rows; i++)
    miras__weights_read(form, to + i * miras__row_bytes(form, n), from_form,
                        from + i * miras__row_bytes(from_form, n), n);
}

static MIRAS__COLD void miras__view_write(miras__sink *s, const miras_model *m,
                                          const miras_view *v) {
  const int form = miras__view_form(m, v);
  const size_t rows = (size_t)v->shape[0], n = v->count / rows;
  const unsigned char *from = miras__view_at(m, v);
  unsigned char bytes[1024];
  size_t i, j, now;
  for (i = 0; i < rows; i++, from += miras__row_bytes(form, n))
    for (j = 0; j < n; j += now) {
      now = n - j < 256 ? n - j : 256;
      miras__weights_turn(form, bytes, from + miras__row_bytes(form, j), now);
      miras__out(s, bytes, miras__row_bytes(form, now));
    }
}

/* Tensor i of a file, as if it were the only one: the views, both moments, running texts. Returns
 * its floats, and how many belong to one sequence: 0 but of running texts. */
static float *miras__tensor_of(const miras_model *m, const miras_trainer *tr, int i,
                               miras__tensor *x, size_t *each) {
  static const char names[][16] = {"adamw.moment1", "adamw.moment2", "streams"};
  float *at = m->params;
  int k;
  memset(x, 0, sizeof *x);
  *each = 0;
  if (i < m->view_count) {
    const miras_view *v = &m->views[i];
    memcpy(x->name, v->name, sizeof v->name);
    x->rank = v->rank;
    for (k = 0; k < v->rank; k++) x->shape[k] = (uint64_t)v->shape[k];
    x->form = miras__view_form(m, v);
    at = x->form ? NULL : at + v->offset;
  } else {
    i -= m->view_count;
    memcpy(x->name, names[i], sizeof names[i]);
    if (i == 2) *each = m->run;
    x->rank = *each ? 2 : 1;
    x->shape[0] = !*each ? m->param_count : tr ? (uint64_t)tr->desc.streams : 0;
    x->shape[1] = *each;
    at = !tr ? NULL : i == 0 ? tr->moment1 : i == 1 ? tr->moment2 : tr->streams;
  }
  for (x->range[1] = 4, k = 0; k < x->rank; k++) x->range[1] *= x->shape[k];
  if (x->form) x->range[1] = x->shape[0] * miras__row_bytes(x->form, (size_t)x->shape[1]);
  return at;
}

/* The second number of its shape in a file. */
static uint64_t miras__shape_in_file(uint64_t n, int form) {
  return form == MIRAS_WEIGHTS_Q8 ? miras__row_bytes(form, (size_t)n) : n;
}

/* ,"key":"value" */
static void miras__out_note(miras__sink *s, const char *key, const char *value) {
  char line[MIRAS__NAME_SIZE + MIRAS_PATTERN + 8];
  line[0] = 0;
  miras__say(line, sizeof line, ",\"%s\":\"%s\"", key, value);
  miras__out_text(s, line);
}

static void miras__crc_text(char *text, uint32_t crc) {
  int i;
  for (i = 0; i < 8; i++) text[i] = "0123456789abcdef"[crc >> (28 - 4 * i) & 15];
  text[8] = 0;
}

static void miras__out_header(miras__sink *s, const miras_model *m, const miras_trainer *tr,
                              int tensors, uint32_t checksum) {
  const int version = miras__version(&m->desc);
  char text[MIRAS_PATTERN], line[256];
  size_t offset = 0, end, each;
  int i, k;
  miras__out_text(s, "{\"__metadata__\":{\"format\":\"miras\",\"writer\":\"miras.h\"");
  miras__crc_text(text, checksum);
  miras__out_note(s, "checksum", text);
  text[0] = (char)('0' + version);
  text[1] = 0;
  miras__out_note(s, "version", text);
  for (i = 0; i < MIRAS__PLACES; i++) {
    const miras__field *f = miras__in_file(&m->desc, version, i, &k);
    const char letter[3] = {m->desc.layer[k].letter, '.', 0};
    if (!f) continue;
    miras__write_field(text, f, &m->desc, k);
    line[0] = 0;
    miras__say(line, MIRAS__NAME_SIZE, "%s%s", i < MIRAS__FIELDS ? "" : letter,
               version < 4 ? miras__rename(f->name, 0) : f->name);
    miras__out_note(s, line, version < 4 ? miras__rename(text, 0) : text);
  }
  if (tr) {
    text[miras__put_digits(text, sizeof text, 0, tr->now->steps, 1)] = 0;
    miras__out_note(s, "steps", text);
  }
  miras__out_text(s, "}");
  for (i = 0; i < tensors; i++, offset = end) {
    miras__tensor x;
    miras__tensor_of(m, tr, i, &x, &each);
    line[0] = 0;
    miras__say(line, sizeof line, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", x.name,
               miras__dtypes[x.form]);
    for (k = 0; k < x.rank; k++)
      miras__say(line, sizeof line, k ? ",%zu" : "%zu",
                 (size_t)(k ? miras__shape_in_file(x.shape[k], x.form) : x.shape[k]));
    end = offset + (size_t)x.range[1];
    miras__say(line, sizeof line, "],\"data_offsets\":[%zu,%zu]}", offset, end);
    miras__out_text(s, line);
  }
  miras__out_text(s, "}");
  while (s->size % 8) miras__out_text(s, " ");
}

static void miras__out_model(miras__sink *s, const miras_model *m, const miras_trainer *tr,
                             uint32_t checksum) {
  const int tensors = m->view_count + (!tr ? 0 : tr->desc.streams ? 3 : 2);
  unsigned char length[8];
  miras__sink header;
  size_t each;
  int i;
  memset(&header, 0, sizeof header);
  miras__out_header(&header, m, tr, tensors, 0);
  miras__set64(length, header.size);
  miras__out(s, length, 8);
  miras__out_header(s, m, tr, tensors, checksum);
  for (i = 0; i < tensors; i++) {
    miras__tensor x;
    const float *from = miras__tensor_of(m, tr, i, &x, &each);
    if (x.form) miras__view_write(s, m, &m->views[i]);
    else miras__out_words(s, from, (size_t)(x.range[1] / 4), each);
  }
}

/* ---- reading a model ---- */

#define MIRAS__MAX_TENSORS 8192        /* above 256 blocks of 25 views                          */

/* What __metadata__ may hold beside the fields and other people's notes. */
enum { MIRAS__NOTE_FORMAT, MIRAS__NOTE_VERSION, MIRAS__NOTE_WRITER, MIRAS__NOTE_CHECKSUM,
       MIRAS__NOTE_STEPS, MIRAS__NOTES };

/* A model's file, and a cursor in its header. */
typedef struct miras__file {
  const unsigned char *base, *payload;
  size_t payload_size;
  miras__text t;
  int members, metadata;             /* that the cursor has passed                               */
  const char *past;                  /* the end of __metadata__ once it was read: what follows   */
  miras_model_desc d;                /* 0 where the file does not say                            */
  int version;
  int narrow;                        /* some tensors are not F32                                 */
  uint64_t steps;
  const char *checksum;              /* its eight digits                                         */
  unsigned char seen[MIRAS__PLACES], noted[MIRAS__NOTES];
} miras__file;

/* The kind of layer that a letter names in a file, a new one if need be; -1 if there is no room. */
static int miras__file_kind(miras_model_desc *d, char letter) {
  int kind = miras__kind_of(d, letter);
  if (kind < 0)
    for (kind = 0; kind < MIRAS_LAYER_KINDS && d->layer[kind].letter;) kind++;
  if (kind == MIRAS_LAYER_KINDS) return -1;
  d->layer[kind].letter = letter;
  return kind;
}

/* Is it a note of ours, and is it right? -1 for other people's. The text of a value begins at
 * start. */
static int miras__read_note(miras__file *f, int *note, const char *name, const char *value,
                            const char *start) {
  static const char names[MIRAS__NOTES][12] = {"format", "version", "writer", "checksum", "steps"};
  for (*note = 0; *note < MIRAS__NOTES && !miras__same(name, names[*note]);) ++*note;
  switch (*note) {
    case MIRAS__NOTE_FORMAT: return miras__same(value, "miras");
    case MIRAS__NOTE_WRITER: return miras__same(value, "miras.h");
    case MIRAS__NOTE_VERSION: f->version = value[0] - '0';
      return f->version >= 2 && f->version <= MIRAS__VERSION && !value[1];
    case MIRAS__NOTE_STEPS: return miras__read_whole(value, &f->steps);
    case MIRAS__NOTE_CHECKSUM: f->checksum = start;
      return f->t.at - start == 9;   /* eight plain digits and the quote */
    default: return -1;
  }
}

static void miras__need_metadata(miras__file *f) {
  char name[MIRAS__NAME_SIZE], value[MIRAS__NAME_SIZE], letter;
  miras__text *t = &f->t;
  if (!miras__need_char(t, '{') || miras__take_char(t, '}')) return;
  do {
    const miras__field *field;
    const char *start;
    unsigned char *seen;
    int at, right;
    miras__need_string(t, name);
    miras__need_char(t, ':');
    start = miras__need_string(t, value);
    field = miras__find_field(name, &letter);
    if (field) {
      at = letter ? miras__file_kind(&f->d, letter) : 0;
      right = at >= 0 && miras__read_field(field, value, &f->d, at);
      if (letter) at++;
      seen = &f->seen[at * MIRAS__FIELDS + (int)(field - miras__fields)];
    } else {
      right = miras__read_note(f, &at, name, value, start);
      if (right < 0) continue;
      seen = &f->noted[at];
    }
    if (*seen || !right) miras__refuse(t);
    *seen = 1;
  } while (miras__take_char(t, ','));
  miras__need_char(t, '}');
}

static void miras__need_tensor(miras__text *t, miras__tensor *x, size_t payload) {
  static const unsigned char wide[MIRAS_WEIGHTS_COUNT] = {4, 2, 2, 1};
  char text[MIRAS__NAME_SIZE];
  uint64_t bytes;
  int seen = 0, i;
  miras__need_char(t, '{');
  do {
    int key;
    miras__need_string(t, text);
    miras__need_char(t, ':');
    key = miras__same(text, "dtype") ? 1 : miras__same(text, "shape") ? 2
        : miras__same(text, "data_offsets") ? 4 : 0;
    if (!key || (seen & key)) miras__refuse(t);
    seen |= key;
    if (key == 1) {
      miras__need_string(t, text);
      for (x->form = 0; x->form < MIRAS_WEIGHTS_COUNT; x->form++)
        if (miras__same(text, miras__dtypes[x->form])) break;
      if (x->form == MIRAS_WEIGHTS_COUNT)
        x->form = 0, miras__refuse_for(t, "its type is none of F32, F16, BF16");
    } else if (key == 2) {
      x->rank = miras__need_list(t, x->shape, 5);
    } else if (miras__need_list(t, x->range, 2) != 2) {
      miras__refuse(t);
    }
  } while (miras__take_char(t, ','));
  miras__need_char(t, '}');
  if (t->bad || seen != 7) {
    miras__refuse(t);
    return;
  }
  if (x->range[1] <= x->range[0] || x->range[1] > payload)
    miras__refuse_for(t, "its place is not within the file");
  /* the range is not empty, so a zero in the shape can never match */
  for (bytes = wide[x->form], i = 0; i < x->rank; bytes *= x->shape[i++])
    if (x->shape[i] && bytes > UINT64_MAX / x->shape[i]) miras__refuse(t);
  if (bytes != x->range[1] - x->range[0])
    miras__refuse_for(t, "its place is not of the size of its shape");
}

/* Iterate over the tensors: rewind, then next until it returns 0; then the text is bad, or all of
 * it was read. __metadata__ may stand anywhere, once, and is read the first time only. */
static void miras__rewind(miras__file *f) {
  f->t.at = (const char *)f->base + 9;   /* the opening brace was checked                        */
  f->t.end = (const char *)f->payload;
  f->t.bad = f->members = f->metadata = 0;
}

static int miras__next(miras__file *f, miras__tensor *x) {
  miras__text *t = &f->t;
  while (!t->bad) {
    if (miras__take_char(t, '}')) {
      miras__skip_space(t);          /* the padding                                              */
      return t->at == t->end ? 0 : miras__refuse(t);
    }
    if (f->members++) miras__need_char(t, ',');
    miras__need_string(t, x->name);
    miras__need_char(t, ':');
    if (!miras__same(x->name, "__metadata__")) {
      miras__need_tensor(t, x, f->payload_size);
      return !t->bad;
    }
    if (f->metadata++) return miras__refuse(t);
    if (!f->past) {
      miras__need_metadata(f);
      f->past = t->at;
    }
    t->at = f->past;
  }
  return 0;
}

/* Does the file say its version, and every field that such a file holds, and no other? */
static int miras__complete(const miras__file *f) {
  int place, kind;
  for (place = 0; place < MIRAS__PLACES; place++)
    if (f->seen[place] != (miras__in_file(&f->d, f->version, place, &kind) != NULL)) return 0;
  /* Our files name their writer and carry a checksum. One without the other is damage. */
  return f->noted[MIRAS__NOTE_FORMAT] && f->noted[MIRAS__NOTE_VERSION] &&
         f->noted[MIRAS__NOTE_WRITER] == f->noted[MIRAS__NOTE_CHECKSUM];
}

/* All that can be said without a model: syntax, types, ranges, metadata, checksum, tiling. */
static MIRAS__COLD int miras__check_file(miras__file *f, const void *bytes, size_t size) {
  const unsigned char *base = (const unsigned char *)bytes;
  miras__tensor x;
  uint64_t length, borders = 0;
  int count = 0;
  memset(f, 0, sizeof *f);
  if (size < 10) return 0;
  length = miras__get64(base);
  if (length < 2 || length > MIRAS__MAX_HEADER || length > size - 8 || base[8] != '{') return 0;
  f->base = base;
  f->payload = base + 8 + (size_t)length;
  f->payload_size = size - 8 - (size_t)length;
  for (miras__rewind(f); miras__next(f, &x);) {
    if (count++ == MIRAS__MAX_TENSORS) return 0;
    borders += miras__hash(x.range[0]) - miras__hash(x.range[1]);
    if (x.form) f->narrow = 1;
  }
  if (f->t.bad || !miras__complete(f)) return 0;
  if (f->checksum) {
    const size_t before = (size_t)(f->checksum - (const char *)base);
    uint32_t crc = miras__crc32c(0, base, before);
    char said[9];
    crc = miras__crc32c(crc, "00000000", 8);
    crc = miras__crc32c(crc, base + before + 8, size - before - 8);
    miras__crc_text(said, crc);
    if (memcmp(said, f->checksum, 8) != 0) return 0;
  }
  /* Without a hole or an overlap, in whatever order, tensors begin where others end, but for the
   * borders of the payload. Sums of hashes say so in one pass; a file that is made to deceive them
   * has tensors that share bytes, and each is within the payload all the same. */
  return borders == miras__hash(0) - miras__hash(f->payload_size);
}

/* Which tensor of a file of m this is, of running texts however many; -1 for none. hint is where
 * to look first. */
static int miras__find_tensor(const miras_model *m, const miras__tensor *x, int hint) {
  const int n = m->view_count + 3;
  miras__tensor own;
  size_t each;
  int i, k;
  for (i = 0; i < n; i++) {
    const int at = (hint + i) % n;
    miras__tensor_of(m, NULL, at, &own, &each);
    if (!miras__same(own.name, x->name)) continue;
    if (x->rank != own.rank || (x->form && (at >= m->view_count || own.rank != 2))) return -1;
    for (k = each != 0; k < own.rank; k++)
      if (x->shape[k] != (k ? miras__shape_in_file(own.shape[k], x->form) : own.shape[k]))
        return -1;
    return at;
  }
  return -1;
}

/* Are these running texts that kernels can rely on: counts that do not wrap, whole chunks? */
static int miras__right_streams(const miras_model *m, const unsigned char *from, uint64_t count) {
  for (; count; count--, from += 4 * m->run) {
    const uint64_t position = miras__get64(from);
    int i;
    if (position >> 62) return 0;
    for (i = 0; i < m->desc.layers; i++)
      if (position % (uint64_t)m->layers[i].s->chunk) return 0;
  }
  return 1;
}

/* From a file that was checked. */
static miras_result miras__load_model(miras_model *m, miras_trainer *tr, miras__file *f) {
  const int views = m->view_count;
  uint64_t sum = 0;
  int count = 0, at = -1, i;
  miras__tensor x;
  if (miras__differs(&m->desc, &f->d, MIRAS__SHAPE, NULL, 0)) return MIRAS_ERR_MISMATCH;
  for (miras__rewind(f); miras__next(f, &x); count++) {
    at = miras__find_tensor(m, &x, at + 1);
    if (at < 0) return MIRAS_ERR_FORMAT;
    if (at == views + 2 && !miras__right_streams(m, f->payload + (size_t)x.range[0], x.shape[0]))
      return MIRAS_ERR_FORMAT;
    sum += miras__hash((uint64_t)at);
  }
  /* Those there are are the first ones, each once: of that their sum of hashes is proof enough. */
  for (i = 0; i < count; i++) sum -= miras__hash((uint64_t)i);
  if (sum || count < views || count == views + 1 ||
      (count > views && (!f->noted[MIRAS__NOTE_STEPS] || f->steps >> 62)))
    return MIRAS_ERR_FORMAT;
  /* From here on nothing can fail. */
  if (tr) {
    miras__trainer_clear(tr);   /* as after a step: no gradient is pending */
    tr->now->steps = count > views ? f->steps : 0;
    tr->calls = 0;
    tr->taped = 0;
  }
  for (miras__rewind(f); miras__next(f, &x);) {
    miras__tensor own;
    size_t each;
    float *to;
    at = miras__find_tensor(m, &x, at + 1);
    to = miras__tensor_of(m, tr, at, &own, &each);
    if (own.form || x.form)
      miras__view_read(m, &m->views[at], x.form, f->payload + (size_t)x.range[0]);
    else if (to && x.shape[0] == own.shape[0])   /* as many running texts */
      miras__get_words(to, f->payload + (size_t)x.range[0], (size_t)(own.range[1] / 4), each);
  }
  return MIRAS_OK;
}

#ifndef MIRAS_NO_STDIO
/* A model that is to be made of a file. */
typedef struct miras__opening {
  miras__storage own;
  const miras_model_desc *given;
  miras_model *model;
} miras__opening;

/* Is this a model within its limit, and can the payload be its parameters, by its size? Asked
 * before anything is allocated, so that a small file cannot ask for a large model. narrow: they may
 * take down to 8.5 bits each. */
static miras_result miras__payload_fits(const miras_model_desc *d, size_t payload, int narrow) {
  miras__draft draft;
  miras_model *m = &draft.model;
  uint64_t bytes, moments;
  if (miras__model_resolve(&draft, d, NULL, 0) != MIRAS_OK) return MIRAS_ERR_DESC;
  if (!miras__model_bytes_of(m, NULL, 0)) return MIRAS_ERR_SIZE;
  bytes = 4 * (uint64_t)m->learned;
  moments = bytes + 8 * (uint64_t)m->param_count;
  if (narrow)
    return payload / 17 >= bytes / 64 ? MIRAS_OK : MIRAS_ERR_FORMAT;
  return payload == bytes || (payload >= moments && (payload - moments) % (4 * m->run) == 0)
             ? MIRAS_OK : MIRAS_ERR_FORMAT;
}

static miras_result miras__open_model(miras__opening *o, miras__file *f) {
  miras_model_desc *d = &f->d;
  miras_result result;
  int k;
  d->limit = o->own.limit;
  for (k = 0; o->given && k < MIRAS_LAYER_KINDS; k++) {
    miras_desc *memory = &d->layer[k].memory;
    const miras_desc *from = &o->given->layer[0].memory;
    if (!miras__used(d, k) || !miras__remembers(d->layer[k].type)) continue;
    if (from->reset_every) memory->reset_every = from->reset_every;
    if (memory->bias == MIRAS_CUSTOM_BIAS || memory->retention == MIRAS_CUSTOM_RETENTION)
      memory->custom = from->custom;
  }
  if (o->given) d->weights = o->given->weights;
  result = miras__payload_fits(d, f->payload_size, f->narrow);
  if (result != MIRAS_OK) return result;
  o->model = miras__model_make(d, NULL, 0, &o->own.allocator);
  if (!o->model) return MIRAS_ERR_ALLOC;
  if (miras__load_model(o->model, NULL, f) == MIRAS_OK) return MIRAS_OK;
  miras__close(o->model);
  o->model = NULL;
  /* also of a 0 where the descriptor, with its defaults, has another number: no file of ours */
  return MIRAS_ERR_FORMAT;
}
#endif
#endif   /* MIRAS_NO_MODEL */

/* ---- states ---- */

/* What can be saved and loaded; the first two are numbers in files. */
enum { MIRAS__A_MEMORY = 1, MIRAS__A_SESSION, MIRAS__A_MODEL, MIRAS__A_TRAINER, MIRAS__AN_OPENING };

/* What lies in a state's file: the head, without checksums, then these. */
typedef struct miras__state {
  unsigned char head[64];
  float *params;
  void *at;
  size_t count, sequences, words;    /* floats of params; the state, and words of each           */
} miras__state;

static void miras__find_state(miras__state *s, int what, const void *object) {
  uint64_t says[5] = {0, 0, 0, 0, 1};   /* fingerprint, parameters, bytes, position, sequences */
  int i;
  memset(s, 0, sizeof *s);
  if (what == MIRAS__A_MEMORY) {
    const miras_memory *m = (const miras_memory *)object;
    const size_t at = offsetof(miras__case, l.memory);
    miras_model_desc d;
    memset(&d, 0, sizeof d);
    d.layer[0].memory = m->plan.d;
    says[4] = (uint64_t)m->plan.d.batch;
    says[0] = miras__fingerprint(&d, 0, at, at + sizeof(miras_desc), says[4]);
    says[1] = m->plan.params;
    says[2] = m->state_bytes;
    s->params = m->params;
    s->at = m->state;
  }
#ifndef MIRAS_NO_MODEL
  if (what == MIRAS__A_SESSION) {
    const miras_session *session = (const miras_session *)object;
    const miras_model_desc *d = &session->in.model->desc;
    const size_t own = offsetof(miras__case, d);
    const char *at = d->pattern;
    says[0] = miras__fingerprint(d, 0, *at ? own : 0, own + sizeof *d, 0);
    for (; *at; at++)
      if (miras__is_letter(*at))
        says[0] = miras__fingerprint(d, miras__kind_of(d, *at), 0, own, says[0]);
    says[2] = session->state_bytes;
    s->at = session->state;
  }
#endif
  memcpy(&says[3], s->at, 8);
  memcpy(s->head, "mirastat", 8);
  miras__set32(s->head + 8, 1);
  miras__set32(s->head + 12, (uint32_t)what);
  for (i = 0; i < 5; i++) miras__set64(s->head + 16 + 8 * i, says[i]);
  s->count = (size_t)says[1];
  s->sequences = (size_t)says[4];
  s->words = (size_t)says[2] / 4 / s->sequences;
}

static void miras__out_state(miras__sink *to, const miras__state *s) {
  if (s->count) miras__out_words(to, s->params, s->count, 0);
  miras__out_words(to, s->at, s->sequences * s->words, s->words);
}

static miras_result miras__load_state(int what, void *object, const void *bytes, size_t size) {
  const unsigned char *head = (const unsigned char *)bytes, *from = head + 64;
  uint64_t count, state_bytes;
  miras__state s;
  size_t i;
  miras__find_state(&s, what, object);
  if (size < 64 || size % 4 || memcmp(head, s.head, 12) != 0 ||
      miras__crc32c(0, head, 60) != miras__get32(head + 60) ||
      miras__crc32c(0, from, size - 64) != miras__get32(head + 56))
    return MIRAS_ERR_FORMAT;
  count = miras__get64(head + 24);
  state_bytes = miras__get64(head + 32);
  /* In this order nothing wraps, and a file of the wrong length is never called a mismatch. */
  if (state_bytes > size - 64 || count != (size - 64 - state_bytes) / 4) return MIRAS_ERR_FORMAT;
  /* all but the position */
  if (memcmp(head + 12, s.head + 12, 28) != 0 || memcmp(head + 48, s.head + 48, 8) != 0)
    return MIRAS_ERR_MISMATCH;
  /* Kernels rely on sequences that stand at the same place, and on counts that do not wrap. */
  if (miras__get64(head + 40) >> 62) return MIRAS_ERR_FORMAT;
  from += 4 * s.count;
  for (i = 0; i < s.sequences; i++)
    if (memcmp(from + 4 * i * s.words, head + 40, 8) != 0) return MIRAS_ERR_FORMAT;
  /* From here on nothing can fail. */
  if (s.count) miras__get_words(s.params, head + 64, s.count, 0);
  miras__get_words(s.at, from, s.sequences * s.words, s.words);
  return MIRAS_OK;
}

/* ---- whatever can be saved and loaded ---- */

/* The whole file into s, or nowhere if that is NULL. Its length; 0 if that is too large. */
static MIRAS__COLD size_t miras__emit(int what, const void *object, miras__sink *s) {
  miras__state state;
  miras__sink sum;
  memset(&sum, 0, sizeof sum);
  sum.sums = s != NULL;
#ifndef MIRAS_NO_MODEL
  if (what >= MIRAS__A_MODEL) {
    const miras_trainer *tr = MIRAS__TRAINS && what == MIRAS__A_TRAINER
                                  ? (const miras_trainer *)object : NULL;
    const miras_model *m = tr ? tr->model : (const miras_model *)object;
    miras__out_model(&sum, m, tr, 0);
    if (s) miras__out_model(s, m, tr, sum.crc);
    return sum.size == (size_t)-1 ? 0 : sum.size;
  }
#endif
  miras__find_state(&state, what, object);
  miras__out_state(&sum, &state);
  miras__set32(state.head + 56, sum.crc);
  miras__set32(state.head + 60, miras__crc32c(0, state.head, 60));
  if (s) {
    miras__out(s, state.head, 64);
    miras__out_state(s, &state);
  }
  return miras__size_add(sum.size, 64, &sum.size) ? sum.size : 0;
}

static MIRAS__COLD miras_result miras__accept(int what, void *object, const void *bytes,
                                              size_t size) {
  if (!object || !bytes) return MIRAS_ERR_ARGUMENT;
#ifndef MIRAS_NO_MODEL
  if (what >= MIRAS__A_MODEL) {
    miras_trainer *tr = MIRAS__TRAINS && what == MIRAS__A_TRAINER ? (miras_trainer *)object : NULL;
    miras__file f;
    if (!miras__check_file(&f, bytes, size)) return MIRAS_ERR_FORMAT;
#ifndef MIRAS_NO_STDIO
    if (what == MIRAS__AN_OPENING) return miras__open_model((miras__opening *)object, &f);
#endif
    return miras__load_model(tr ? tr->model : (miras_model *)object, tr, &f);
  }
#endif
  return miras__load_state(what, object, bytes, size);
}

/* ---- the public forms on memory ---- */

static size_t miras__save_to(int what, const void *object, void *buffer, size_t capacity) {
  const size_t bytes = object ? miras__emit(what, object, NULL) : 0;
  if (buffer && bytes && bytes <= capacity) {
    miras__sink s;
    memset(&s, 0, sizeof s);
    s.to = (unsigned char *)buffer;
    miras__emit(what, object, &s);
    MIRAS_ASSERT(s.size == bytes);
  }
  return bytes;
}

MIRAS_API size_t miras_memory_save_to(const miras_memory *m, void *buffer, size_t capacity) {
  return miras__save_to(MIRAS__A_MEMORY, m, buffer, capacity);
}

MIRAS_API miras_result miras_memory_load_from(miras_memory *m, const void *bytes, size_t size) {
  return miras__accept(MIRAS__A_MEMORY, m, bytes, size);
}

#ifndef MIRAS_NO_MODEL
MIRAS_API size_t miras_model_save_to(const miras_model *m, void *buffer, size_t capacity) {
  return miras__save_to(MIRAS__A_MODEL, m, buffer, capacity);
}

MIRAS_API size_t miras_session_save_to(const miras_session *s, void *buffer, size_t capacity) {
  return miras__save_to(MIRAS__A_SESSION, s, buffer, capacity);
}

MIRAS_API miras_result miras_model_load_from(miras_model *m, const void *bytes, size_t size) {
  return miras__accept(MIRAS__A_MODEL, m, bytes, size);
}

MIRAS_API miras_result miras_session_load_from(miras_session *s, const void *bytes, size_t size) {
  return miras__accept(MIRAS__A_SESSION, s, bytes, size);
}

MIRAS_API miras_result miras_model_desc_from(miras_model_desc *d, const void *bytes, size_t size) {
  miras__file f;
  if (!d || !bytes) return MIRAS_ERR_ARGUMENT;
  if (!miras__check_file(&f, bytes, size)) return MIRAS_ERR_FORMAT;
  f.d.limit = d->limit;
  *d = f.d;
  return MIRAS_OK;
}

/* The field of d that a name says, and of which kind it is; NULL if there is none. */
static const miras__field *miras__field_of(const miras_model_desc *d, const char *name, int *kind) {
  char letter = 0;
  const miras__field *f = d && name ? miras__find_field(name, &letter) : NULL;
  *kind = letter && d ? miras__kind_of(d, letter) : 0;
  return *kind < 0 ? NULL : f;
}

MIRAS_API miras_result miras_model_desc_set(miras_model_desc *d, const char *field,
                                            const char *value) {
  int kind;
  const miras__field *f = miras__field_of(d, field, &kind);
  return f && value && miras__read_field(f, value, d, kind) ? MIRAS_OK : MIRAS_ERR_ARGUMENT;
}

MIRAS_API const char *miras_model_desc_get(const miras_model_desc *d, const char *field,
                                           char *text, size_t size) {
  int kind;
  const miras__field *f = miras__field_of(d, field, &kind);
  char value[MIRAS_PATTERN];
  if (!f || !text) return NULL;
  miras__write_field(value, f, d, kind);
  if (strlen(value) >= size) return NULL;
  memcpy(text, value, strlen(value) + 1);
  return text;
}

MIRAS_API int miras_model_desc_differs(const miras_model_desc *a, const miras_model_desc *b,
                                       char *why, size_t why_size) {
  int decides;
  if (why && why_size) why[0] = 0;
  for (decides = MIRAS__SHAPE; a && b && decides >= MIRAS__FREE; decides--)
    if (miras__differs(a, b, decides, why, why_size)) return 1;
  return 0;
}

MIRAS_API const char *miras_model_desc_field(int i) {
  return i >= 0 && i < MIRAS__FIELDS && miras__fields[i].since ? miras__fields[i].name : NULL;
}

#ifndef MIRAS_NO_TRAINING
MIRAS_API size_t miras_trainer_save_to(const miras_trainer *tr, void *buffer, size_t capacity) {
  return miras__save_to(MIRAS__A_TRAINER, tr, buffer, capacity);
}

MIRAS_API miras_result miras_trainer_load_from(miras_trainer *tr, const void *bytes, size_t size) {
  return miras__accept(MIRAS__A_TRAINER, tr, bytes, size);
}
#endif
#endif   /* MIRAS_NO_MODEL */

/* ---- the public forms on paths ---- */

#ifndef MIRAS_NO_STDIO

/* "x" asks fopen for a file that is not there yet, not even as a link. C11 has it; the run-time
 * decides and not -std: glibc, musl, bionic and the BSDs with macOS know it. Of Windows only new
 * versions do, and older ones end the program over it: there an unlikely name must do. */
#ifdef _WIN32
  #define MIRAS__NEW_FILE "wb"
#else
  #define MIRAS__NEW_FILE "wbx"
#endif

/* Create the file that part[length] continues to, with a name that no other call should choose:
 * part has room for 14 more characters. What differs between calls: a place on the stack between
 * threads and processes, the time, and the attempt where all else is equal. */
static FILE *miras__new_file(char *part, size_t length) {
  uint64_t name = (uint64_t)(uintptr_t)&name ^ miras__hash((uint64_t)time(NULL));
  FILE *file = NULL;
  int tries, i;
  memcpy(part + length, ".tmp-", 5);
  part[length + 13] = 0;
  for (tries = 0; !file && tries < 100; tries++) {
    name = miras__hash(name ^ (uint64_t)clock());
    for (i = 0; i < 8; i++) part[length + 5 + (size_t)i] = (char)('a' + (int)(name >> 4 * i & 15));
    file = fopen(part, MIRAS__NEW_FILE);
  }
  return file;
}

static MIRAS__COLD miras_result miras__save_path(int what, const void *object, const char *path) {
  miras_allocator from;
  miras__sink s;
  size_t length, room;
  char *part;
  int ok, gone = 0;
  if (!object || !path) return MIRAS_ERR_ARGUMENT;
  from = miras__allocator(&((const miras__storage *)object)->allocator);
  length = strlen(path);
  if (!miras__emit(what, object, NULL) || !miras__size_add(length, 14, &room))
    return MIRAS_ERR_SIZE;
  part = (char *)from.alloc(room, from.user);
  if (!part) return MIRAS_ERR_ALLOC;
  memcpy(part, path, length);
  memset(&s, 0, sizeof s);
  s.file = miras__new_file(part, length);
  ok = s.file != NULL;
  if (ok) {
    miras__emit(what, object, &s);
    ok = fflush(s.file) == 0 && !ferror(s.file);
    if (fclose(s.file) != 0) ok = 0;
#ifdef _WIN32
    /* There, rename does not replace a file, and another writer may come between the two calls. */
    if (ok && rename(part, path) != 0) {
      int tries = 0;
      do gone |= remove(path) == 0;
      while (!(ok = rename(part, path) == 0) && ++tries < 100);
    }
#else
    ok = ok && rename(part, path) == 0;
#endif
    if (!ok && !gone) remove(part);   /* never the only one that is left */
  }
  miras__release(&from, part, room);
  return ok ? MIRAS_OK : MIRAS_ERR_IO;
}

/* A whole file in one allocation of its length and a byte. Where a model has a limit, the file's
 * payload, with both moments, is at most three times that; a file whose running texts make it
 * longer is refused as well. */
static MIRAS__COLD miras_result miras__load_path(int what, void *object, const char *path) {
  const long most_header = 8 + (long)MIRAS__MAX_HEADER;
  miras_result result = MIRAS_ERR_IO;
  FILE *file = path && object ? fopen(path, "rb") : NULL;
  miras_allocator from;
  unsigned char *bytes = NULL;
  uint64_t limit;
  size_t size = 0;
  long end = -1;
  if (!file) return path && object ? MIRAS_ERR_IO : MIRAS_ERR_ARGUMENT;
  from = miras__allocator(&((const miras__storage *)object)->allocator);
  limit = ((const miras__storage *)object)->limit;
  /* Reading a byte first finds out folders, which open and have an absurd length. */
  if ((fgetc(file) != EOF || !ferror(file)) && fseek(file, 0, SEEK_END) == 0) end = ftell(file);
  if (limit && end > most_header && (uint64_t)(end - most_header - 1) / 3 >= limit) {
    result = MIRAS_ERR_SIZE;
  } else if (end >= 0 && (unsigned long)end < (size_t)-1 && fseek(file, 0, SEEK_SET) == 0) {
    size = (size_t)end;
    bytes = (unsigned char *)from.alloc(size + 1, from.user);
    if (!bytes) result = MIRAS_ERR_ALLOC;
    else if (fread(bytes, 1, size, file) == size && fgetc(file) == EOF && !ferror(file))
      result = MIRAS_OK;
  }
  fclose(file);
  if (result == MIRAS_OK) result = miras__accept(what, object, bytes, size);
  if (bytes) miras__release(&from, bytes, size + 1);
  return result;
}

MIRAS_API miras_result miras_memory_save(const miras_memory *m, const char *path) {
  return miras__save_path(MIRAS__A_MEMORY, m, path);
}

MIRAS_API miras_result miras_memory_load(miras_memory *m, const char *path) {
  return miras__load_path(MIRAS__A_MEMORY, m, path);
}

#ifndef MIRAS_NO_MODEL
MIRAS_API miras_result miras_model_save(const miras_model *m, const char *path) {
  return miras__save_path(MIRAS__A_MODEL, m, path);
}

MIRAS_API miras_result miras_session_save(const miras_session *s, const char *path) {
  return miras__save_path(MIRAS__A_SESSION, s, path);
}

MIRAS_API miras_result miras_model_load(miras_model *m, const char *path) {
  return miras__load_path(MIRAS__A_MODEL, m, path);
}

MIRAS_API miras_result miras_session_load(miras_session *s, const char *path) {
  return miras__load_path(MIRAS__A_SESSION, s, path);
}

MIRAS_API miras_model *miras_model_open_file(const char *path, const miras_model_desc *given,
                                             const miras_allocator *allocator,
                                             miras_result *result) {
  miras__opening o;
  miras_result said;
  memset(&o, 0, sizeof o);
  o.own.allocator = miras__allocator(allocator);
  o.own.limit = given ? given->limit : 0;
  o.given = given;
  said = miras__load_path(MIRAS__AN_OPENING, &o, path);
  if (result) *result = said;
  return o.model;
}

#ifndef MIRAS_NO_TRAINING
MIRAS_API miras_result miras_trainer_save(const miras_trainer *tr, const char *path) {
  return miras__save_path(MIRAS__A_TRAINER, tr, path);
}

MIRAS_API miras_result miras_trainer_load(miras_trainer *tr, const char *path) {
  return miras__load_path(MIRAS__A_TRAINER, tr, path);
}
#endif
#endif   /* MIRAS_NO_MODEL */

#endif   /* MIRAS_NO_STDIO */
#endif   /* MIRAS_NO_FILES */

/* @86 OTHER PEOPLE'S CHECKPOINTS ---------------------------------- needs 10 14 73 78 84 85 -- */

/* A folder of others: config.json, and safetensors, one or several with an index. Three steps:
 *
 *   open      config.json into numbers (miras__configs); the headers of all files into a table of
 *             tensors
 *   describe  what a family calls its layers, as a descriptor: a function per family
 *   match     rows of the family's table (miras__named_as) say which tensor belongs into which view
 *             and how it lies there. A first pass finds all pieces of all views and refuses what
 *             does not fit; a second one reads and writes
 *
 * A row whose view the model has not got is passed over, and so is one whose tensor the files have
 * not got: so one table serves all dialects of a family. In the end every view must be full and
 * every tensor used up, or one of them is named.
 *
 * Matrices of others are [out, in] and ours [in, out]; and [channels, 1, taps] of a convolution is
 * [taps, channels] here. They are turned unless the row says otherwise. Several tensors may fill a
 * view, from its first column on, and several views may share the rows of a tensor, in the order of
 * the table. Views are written by tiles of 32 columns or of one row: whole blocks of Q8. */

#if !defined(MIRAS_NO_FILES) && !defined(MIRAS_NO_MODEL) && !defined(MIRAS_NO_STDIO)

enum { MIRAS__MAX_TEXT = 1 << 25,    /* bytes of a header, an index or a configuration            */
       MIRAS__MAX_SHARDS = 1024,
       MIRAS__MAX_PIECES = 64,       /* of a layer                                                */
       MIRAS__TILE_COLS = 32, MIRAS__TILE_ROW = 4096 };

/* A tensor in their files. */
typedef struct miras__theirs {
  char name[MIRAS__NAME_SIZE];
  uint64_t shape[5], count, at;      /* its numbers; its first byte in its file                   */
  uint64_t taken;                    /* numbers that views have got so far                        */
  int rank, form, file;
} miras__theirs;

/* What a configuration may say, by whatever name. */
enum { MIRAS__C_WIDTH, MIRAS__C_LAYERS, MIRAS__C_VOCAB, MIRAS__C_HEADS, MIRAS__C_VALUE_HEADS,
       MIRAS__C_HEAD_DIM, MIRAS__C_EXPAND_K, MIRAS__C_EXPAND_V, MIRAS__C_CONV, MIRAS__C_SHORT_CONV,
       MIRAS__C_INNER, MIRAS__C_RATIO, MIRAS__C_EPSILON, MIRAS__C_TIED, MIRAS__C_GATE,
       MIRAS__C_GATE_FORM, MIRAS__C_NEGATIVE, MIRAS__C_BETA, MIRAS__C_ACTIVATION,
       MIRAS__C_KV_HEADS, MIRAS__C_KEY_HEADS, MIRAS__C_KEY_DIM, MIRAS__C_VALUE_DIM, MIRAS__C_THETA,
       MIRAS__C_PARTIAL, MIRAS__C_INTERVAL, MIRAS__C_POSITIONS, MIRAS__C_EXPERTS,
       MIRAS__C_SPARSE_STEP, MIRAS__C_EXPERT, MIRAS__C_SHARED_EXPERT, MIRAS__C_CHOSEN,
       MIRAS__C_CHOSEN_NORM, MIRAS__C_STATE, MIRAS__C_GROUPS, MIRAS__C_EXPAND, MIRAS__C_LOW,
       MIRAS__C_HIGH, MIRAS__CONFIGS };

/* words: what it may be, its value being the word's number; NULL: a number, or a truth. slot -1: it
 * must be so, and needs no more. */
static const struct { const char *name; int slot; const char *words; } miras__configs[] = {
  {"hidden_size", MIRAS__C_WIDTH, NULL}, {"d_model", MIRAS__C_WIDTH, NULL},
  {"num_hidden_layers", MIRAS__C_LAYERS, NULL}, {"n_layer", MIRAS__C_LAYERS, NULL},
  {"vocab_size", MIRAS__C_VOCAB, NULL},
  {"num_heads", MIRAS__C_HEADS, NULL}, {"num_attention_heads", MIRAS__C_HEADS, NULL},
  {"num_v_heads", MIRAS__C_VALUE_HEADS, NULL}, {"head_dim", MIRAS__C_HEAD_DIM, NULL},
  {"expand_k", MIRAS__C_EXPAND_K, NULL}, {"expand_v", MIRAS__C_EXPAND_V, NULL},
  {"num_key_value_heads", MIRAS__C_KV_HEADS, NULL},
  {"linear_num_key_heads", MIRAS__C_KEY_HEADS, NULL},
  {"linear_num_value_heads", MIRAS__C_VALUE_HEADS, NULL},
  {"linear_key_head_dim", MIRAS__C_KEY_DIM, NULL},
  {"linear_value_head_dim", MIRAS__C_VALUE_DIM, NULL},
  {"linear_conv_kernel_dim", MIRAS__C_CONV, NULL},
  {"full_attention_interval", MIRAS__C_INTERVAL, NULL}, {"rope_theta", MIRAS__C_THETA, NULL},
  {"partial_rotary_factor", MIRAS__C_PARTIAL, NULL},
  {"max_position_embeddings", MIRAS__C_POSITIONS, NULL}, {"num_experts", MIRAS__C_EXPERTS, NULL},
  {"moe_intermediate_size", MIRAS__C_EXPERT, NULL},
  {"shared_expert_intermediate_size", MIRAS__C_SHARED_EXPERT, NULL},
  {"num_experts_per_tok", MIRAS__C_CHOSEN, NULL}, {"norm_topk_prob", MIRAS__C_CHOSEN_NORM, NULL},
  {"decoder_sparse_step", MIRAS__C_SPARSE_STEP, NULL}, {"attn_output_gate", -1, "true"},
  {"conv_size", MIRAS__C_CONV, NULL}, {"use_short_conv", MIRAS__C_SHORT_CONV, NULL},
  {"intermediate_size", MIRAS__C_INNER, NULL}, {"hidden_ratio", MIRAS__C_RATIO, NULL},
  {"norm_eps", MIRAS__C_EPSILON, NULL}, {"rms_norm_eps", MIRAS__C_EPSILON, NULL},
  {"layer_norm_epsilon", MIRAS__C_EPSILON, NULL},
  {"tie_word_embeddings", MIRAS__C_TIED, NULL}, {"tie_embeddings", MIRAS__C_TIED, NULL},
  {"use_gate", MIRAS__C_GATE, NULL}, {"use_output_gate", MIRAS__C_GATE, NULL},
  {"output_gate_activation", MIRAS__C_GATE_FORM, "silu sigmoid swish"},
  {"allow_neg_eigval", MIRAS__C_NEGATIVE, NULL}, {"use_beta", MIRAS__C_BETA, NULL},
  {"hidden_act", MIRAS__C_ACTIVATION, "silu sqrelu swish"},
  {"state_size", MIRAS__C_STATE, NULL}, {"d_state", MIRAS__C_STATE, NULL},
  {"headdim", MIRAS__C_HEAD_DIM, NULL}, {"expand", MIRAS__C_EXPAND, NULL},
  {"n_groups", MIRAS__C_GROUPS, NULL}, {"ngroups", MIRAS__C_GROUPS, NULL},
  {"conv_kernel", MIRAS__C_CONV, NULL}, {"d_conv", MIRAS__C_CONV, NULL},
  {"time_step_limit", MIRAS__C_LOW, NULL}, {"time_step_limit", MIRAS__C_HIGH, NULL},
  {"layer", -1, "Mamba2"}, {"d_intermediate", -1, "0"}, {"use_conv_bias", -1, "true"},
  {"rms_norm", -1, "true"}, {"rmsnorm", -1, "true"},
  {"use_gk", -1, "true"}, {"gate_logit_normalizer", -1, "16"}, {"qk_norm", -1, "l2"},
  {"qk_activation", -1, "silu"}, {"use_output_norm", -1, "true"},
  {"elementwise_affine", -1, "true"}, {"norm_first", -1, "true"}, {"norm_bias", -1, "true"},
  {"rope_type", -1, "default"}
};

/* Fields that change no logit, and those whose members count as fields. */
static const char miras__harmless[] =
  "architectures auto_map _name_or_path name_or_path transformers_version torch_dtype dtype "
  "bos_token_id eos_token_id pad_token_id unk_token_id initializer_range use_cache attn_mode "
  "fuse_norm fuse_swiglu fuse_cross_entropy fuse_linear_cross_entropy fused_add_norm use_l2warp "
  "attention_dropout residual_in_fp32 rescale_prenorm_residual vision_config image_token_id "
  "video_token_id vision_start_token_id vision_end_token_id mtp_num_hidden_layers mamba_ssm_dtype "
  "chunk_size time_step_rank time_step_min time_step_max time_step_floor dt_min dt_max "
  "dt_init_floor A_init_range pad_vocab_size_multiple "
  "mrope_section mrope_interleaved output_router_logits router_aux_loss_coef "
  "decay_low_rank_dim a_low_rank_dim v_low_rank_dim gate_low_rank_dim value_dim";
static const char miras__opened[] = "text_config rope_parameters ssm_cfg";
/* Lists that mean something. */
static const char miras__lists[] = "layer_types mlp_only_layers time_step_limit dt_limit";

typedef struct miras__published {
  miras_allocator from;
  struct { void *at; size_t bytes; } lent[12];   /* all that was allocated                        */
  int lents;
  char *why;
  size_t why_size;
  miras_result result;
  char *path;                        /* the folder, and room for a file of it                     */
  size_t folder;                     /* characters of the folder                                  */
  char (*names)[MIRAS__NAME_SIZE];   /* of the files of tensors                                   */
  int files;
  miras__theirs *tensors;
  size_t tensor_count;
  size_t *index, index_size;         /* by hash: 1 + a tensor's number, or 0; a power of two      */
  int family;                        /* -1: not known yet                                         */
  char root[32];                     /* what its names begin with                                 */
  double config[MIRAS__CONFIGS];
  unsigned char said[MIRAS__CONFIGS];
  unsigned char full[MIRAS__LAYERS], dense[MIRAS__LAYERS];   /* attention; no experts             */
  int types;                         /* layers of which a list says what they are                 */
  int groups[2];                     /* of rows: those of key heads, of heads of queries          */
  FILE *file;                        /* the one that is open, its number, and where it stands     */
  int open;
  uint64_t stands;
  float *tile;
} miras__published;

/* ---- JSON as others write it ---- */

/* A number, a literal or a string, decoded: was it in quotes? Other literals than JSON's are the
 * numbers that others write: Infinity and NaN. */
static int miras__need_scalar(miras__text *t, char *out) {
  static const char *const literals[] = {"true", "false", "null", "Infinity", "NaN"};
  float real;
  size_t n = 0, i = 0;
  miras__skip_space(t);
  if (t->at < t->end && *t->at == '"') {
    miras__need_string(t, out);
    return 1;
  }
  while (t->at < t->end && n < MIRAS__NAME_SIZE - 1 &&
         (miras__is_digit(*t->at) || ((*t->at | 32) >= 'a' && (*t->at | 32) <= 'z') ||
          *t->at == '-' || *t->at == '+' || *t->at == '.'))
    out[n++] = *t->at++;
  out[n] = 0;
  while (i < sizeof literals / sizeof literals[0] && !miras__same(out, literals[i])) i++;
  if (i == sizeof literals / sizeof literals[0] && !miras__read_real(out, &real)) miras__refuse(t);
  return 0;
}

/* Any value. */
static void miras__skip_value(miras__text *t, int depth) {
  char text[MIRAS__NAME_SIZE];
  miras__skip_space(t);
  if (depth > 32) {
    miras__refuse(t);
  } else if (t->at < t->end && (*t->at == '{' || *t->at == '[')) {
    const int close = *t->at++ == '{' ? '}' : ']';
    if (miras__take_char(t, close)) return;
    do {
      if (close == '}') {
        miras__need_string(t, text);
        miras__need_char(t, ':');
      }
      miras__skip_value(t, depth + 1);
    } while (miras__take_char(t, ','));
    miras__need_char(t, close);
  } else {
    miras__need_scalar(t, text);
  }
}

/* ---- refusals and room ---- */

/* Refuse: "NAME: ", and the caller goes on. Always 0. */
static int miras__reject(miras__published *c, miras_result result, const char *name) {
  if (c->why && c->why_size) c->why[0] = 0;
  c->result = result;
  miras__say(c->why, c->why_size, "%s: ", name);
  return 0;
}

/* The same, with the rest of the sentence. */
static int miras__reject_as(miras__published *c, miras_result result, const char *name,
                            const char *text) {
  miras__reject(c, result, name);
  miras__say(c->why, c->why_size, "%s", text);
  return 0;
}

static MIRAS__COLD void *miras__lend(miras__published *c, size_t count, size_t each) {
  size_t bytes = 0;
  void *at = miras__size_mul(count, each, &bytes) ? c->from.alloc(bytes, c->from.user) : NULL;
  if (!at) {
    miras__reject_as(c, MIRAS_ERR_ALLOC, "room", "the allocator returned no memory");
    return NULL;
  }
  MIRAS_ASSERT(c->lents < (int)MIRAS__COUNT(c->lent));
  c->lent[c->lents].at = at;
  c->lent[c->lents++].bytes = bytes;
  return at;
}

static MIRAS__COLD void miras__published_end(miras__published *c) {
  if (c->file) fclose(c->file);
  while (c->lents--) miras__release(&c->from, c->lent[c->lents].at, c->lent[c->lents].bytes);
}

/* Open a file of the folder and find its length. One that is not needed may be missing. */
static MIRAS__COLD FILE *miras__theirs_open(miras__published *c, const char *name, int needed,
                                            uint64_t *size) {
  FILE *file;
  long end = -1;
  memcpy(c->path + c->folder, name, strlen(name) + 1);
  file = fopen(c->path, "rb");
  /* reading a byte first finds out folders, as in room @85 */
  if (file && (fgetc(file) != EOF || !ferror(file)) && fseek(file, 0, SEEK_END) == 0)
    end = ftell(file);
  if (end >= 0 && fseek(file, 0, SEEK_SET) == 0) {
    *size = (uint64_t)end;
    return file;
  }
  if (file) fclose(file);
  if (file || needed) miras__reject_as(c, MIRAS_ERR_IO, name, "it cannot be opened");
  return NULL;
}

/* The first `size` bytes from where a file stands, as a text to read. */
static MIRAS__COLD int miras__text_read(miras__published *c, const char *name, FILE *file,
                                        uint64_t size, char *at, miras__text *t) {
  memset(t, 0, sizeof *t);
  if (fread(at, 1, (size_t)size, file) != (size_t)size)
    return miras__reject_as(c, MIRAS_ERR_IO, name, "it cannot be read");
  t->at = at;
  t->end = at + (size_t)size;
  return 1;
}

/* A whole text of the folder; 0 if it is refused, or is not there and not needed. */
static MIRAS__COLD int miras__text_of(miras__published *c, const char *name, int needed,
                                      miras__text *t) {
  uint64_t size = 0;
  FILE *file = miras__theirs_open(c, name, needed, &size);
  char *at = NULL;
  int ok = 0;
  if (!file) return 0;
  if (size > MIRAS__MAX_TEXT) miras__reject_as(c, MIRAS_ERR_FORMAT, name, "it is too long");
  else at = (char *)miras__lend(c, (size_t)size + 1, 1);
  if (at) ok = miras__text_read(c, name, file, size, at, t);
  fclose(file);
  return ok;
}

/* Is name one of a list's words? */
static int miras__listed(const char *list, const char *name) {
  char word[32];
  while (miras__next_word(word, &list))
    if (miras__same(word, name)) return 1;
  return 0;
}

/* Does a name begin with one of a list's words? */
static int miras__begins(const char *list, const char *name) {
  char word[32];
  while (miras__next_word(word, &list))
    if (strncmp(name, word, strlen(word)) == 0) return 1;
  return 0;
}

/* ---- tensors ---- */

static size_t miras__theirs_place(const miras__published *c, const char *name) {
  size_t at = (size_t)miras__hash(miras__crc32c(0, name, strlen(name)));
  for (;; at++) {
    at &= c->index_size - 1;
    if (!c->index[at] || miras__same(c->tensors[c->index[at] - 1].name, name)) return at;
  }
}

/* The tensor of this name; NULL if there is none. */
static miras__theirs *miras__theirs_named(const miras__published *c, const char *name) {
  const size_t i = c->index[miras__theirs_place(c, name)];
  return i ? &c->tensors[i - 1] : NULL;
}

/* Those of a file's header into the table, which has room for them. */
static MIRAS__COLD int miras__theirs_add(miras__published *c, int file, miras__text *t,
                                         uint64_t header, uint64_t payload) {
  const char *name = c->names[file];
  uint64_t borders = 0;
  miras__tensor x;
  memset(&x, 0, sizeof x);
  miras__need_char(t, '{');
  do {
    miras__need_string(t, x.name);
    miras__need_char(t, ':');
    if (miras__same(x.name, "__metadata__")) {
      miras__skip_value(t, 0);
      continue;
    }
    miras__need_tensor(t, &x, payload);
    if (!t->bad) {
      miras__theirs *to = &c->tensors[c->tensor_count];
      size_t *place = &c->index[miras__theirs_place(c, x.name)];
      if (x.form == MIRAS_WEIGHTS_Q8) {
        miras__reject(c, MIRAS_ERR_FORMAT, name);
        miras__say(c->why, c->why_size, "%s is of type U8; F32, F16 and BF16 can be read", x.name);
        return 0;
      }
      if (*place || miras__same(x.name, "?")) {
        miras__reject(c, MIRAS_ERR_FORMAT, name);
        miras__say(c->why, c->why_size, *place ? "%s is there twice"
                   : "a tensor's name is too long or not ASCII", x.name);
        return 0;
      }
      borders += miras__hash(x.range[0]) - miras__hash(x.range[1]);
      memcpy(to->name, x.name, sizeof to->name);
      memcpy(to->shape, x.shape, sizeof to->shape);
      to->rank = x.rank;
      to->form = x.form;
      to->file = file;
      to->at = 8 + header + x.range[0];
      to->count = (x.range[1] - x.range[0]) / (x.form ? 2 : 4);
      *place = ++c->tensor_count;
    }
  } while (miras__take_char(t, ','));
  miras__need_char(t, '}');
  miras__skip_space(t);
  if (t->bad || t->at != t->end) {
    miras__reject(c, MIRAS_ERR_FORMAT, name);
    miras__say(c->why, c->why_size, "its header is not valid, at or behind %s: %s", x.name,
               t->wrong ? t->wrong : "that is no JSON of safetensors");
    return 0;
  }
  if (borders != miras__hash(0) - miras__hash(payload))
    return miras__reject_as(c, MIRAS_ERR_FORMAT, name, "its tensors overlap or leave holes");
  return 1;
}

/* The length of a file's header, checked against its own. */
static MIRAS__COLD FILE *miras__header_open(miras__published *c, int i, uint64_t *header,
                                            uint64_t *size) {
  unsigned char bytes[8];
  FILE *file = miras__theirs_open(c, c->names[i], 1, size);
  if (!file) return NULL;
  if (*size >= 10 && fread(bytes, 1, 8, file) == 8) {
    *header = miras__get64(bytes);
    if (*header >= 2 && *header <= MIRAS__MAX_TEXT && *header <= *size - 8) return file;
  }
  miras__reject_as(c, MIRAS_ERR_FORMAT, c->names[i], "it is no safetensors file");
  fclose(file);
  return NULL;
}

/* All tensors of all files. An entry of a header has at least 40 characters. */
static MIRAS__COLD int miras__theirs_find(miras__published *c) {
  uint64_t header = 0, size = 0, most = 0;
  size_t room = 1;
  char *text;
  int pass, i, ok = 1;
  for (pass = 0, text = NULL; ok && pass < 2; pass++) {
    for (i = 0; ok && i < c->files; i++) {
      FILE *file = miras__header_open(c, i, &header, &size);
      miras__text t;
      ok = file != NULL;
      if (ok && !pass) {
        if (most < header) most = header;
        room += (size_t)header / 40 + 1;
      } else if (ok) {
        /* between the passes it may have grown */
        ok = header <= most && c->tensor_count + header / 40 < room &&
             miras__text_read(c, c->names[i], file, header, text, &t) &&
             miras__theirs_add(c, i, &t, header, size - 8 - header);
      }
      if (file) fclose(file);
    }
    if (!ok || pass) break;
    for (c->index_size = 16; c->index_size / 2 < room;) c->index_size *= 2;
    c->tensors = (miras__theirs *)miras__lend(c, room, sizeof(miras__theirs));
    c->index = (size_t *)miras__lend(c, c->index_size, sizeof(size_t));
    text = (char *)miras__lend(c, (size_t)most, 1);
    ok = c->tensors && c->index && text;
    if (ok) memset(c->tensors, 0, room * sizeof(miras__theirs));
    if (ok) memset(c->index, 0, c->index_size * sizeof(size_t));
  }
  if (!ok && c->result == MIRAS_OK)
    miras__reject_as(c, MIRAS_ERR_IO, "folder", "its files change while they are read");
  return ok;
}

/* The files that an index names: pass 0 finds them, pass 1 checks that each has what it should. */
static MIRAS__COLD int miras__index_read(miras__published *c, miras__text t, const char *index,
                                         int pass) {
  char name[MIRAS__NAME_SIZE], file[MIRAS__NAME_SIZE];
  size_t count = 0;
  int i = 0;
  miras__need_char(&t, '{');
  do {
    miras__need_string(&t, name);
    miras__need_char(&t, ':');
    if (!miras__same(name, "weight_map")) {
      miras__skip_value(&t, 0);
      continue;
    }
    miras__need_char(&t, '{');
    do {
      const miras__theirs *x;
      miras__need_string(&t, name);
      miras__need_char(&t, ':');
      miras__need_string(&t, file);
      if (t.bad) break;
      if (i >= c->files || !miras__same(c->names[i], file))
        for (i = 0; i < c->files && !miras__same(c->names[i], file);) i++;
      if (i == c->files) {
        /* the name of a file in this folder, and no path */
        if (pass || i == MIRAS__MAX_SHARDS || file[0] == '.' || strpbrk(file, "/\\:?"))
          return miras__reject_as(c, MIRAS_ERR_FORMAT, index, "its names of files are not valid");
        memcpy(c->names[c->files++], file, sizeof file);
      }
      x = pass ? miras__theirs_named(c, name) : NULL;
      if (pass && (!x || x->file != i)) {
        miras__reject(c, MIRAS_ERR_FORMAT, index);
        miras__say(c->why, c->why_size, "%s is not in %s", name, file);
        return 0;
      }
      count++;
    } while (miras__take_char(&t, ','));
    miras__need_char(&t, '}');
  } while (miras__take_char(&t, ','));
  miras__need_char(&t, '}');
  if (t.bad || !count || (pass && count != c->tensor_count))
    return miras__reject_as(c, MIRAS_ERR_FORMAT, index,
                            t.bad ? "it is not valid" : "it does not list the tensors there are");
  return 1;
}

/* ---- families ---- */

/* What the configuration says, or what it means by saying nothing. */
static double miras__config_of(const miras__published *c, int slot, double otherwise) {
  return c->said[slot] ? c->config[slot] : otherwise;
}

/* A whole number from least to 2^24 that must be said, or follow from others: x. 0: refused. */
static int miras__config_whole(miras__published *c, int slot, double x, int least) {
  size_t i = 0;
  x = miras__config_of(c, slot, x);
  if (x >= least && x <= 1 << 24 && x <= (double)(int)x && x >= (double)(int)x) return (int)x;
  while (miras__configs[i].slot != slot) i++;
  if (c->result != MIRAS_OK) return 0;
  miras__reject(c, MIRAS_ERR_DESC, "config.json");
  miras__say(c->why, c->why_size,
             c->said[slot] || x > 0 ? "%s is %g; it must be a whole number from %d to 16777216"
                                    : "%s is missing", miras__configs[i].name, x, least);
  return 0;
}

/* A product that must be a whole number: a width of c->config. */
static int miras__config_share(miras__published *c, int slot, double x) {
  const int saved = c->said[slot];
  int whole;
  c->said[slot] = 0;
  whole = miras__config_whole(c, slot, x, 1);
  c->said[slot] = (unsigned char)saved;
  return whole;
}

/* The sizes that all have; of a model with a SwiGLU. */
static int miras__describe_frame(miras__published *c, miras_model_desc *d, miras_kind kind) {
  const double ratio = miras__config_of(c, MIRAS__C_RATIO, 4);
  miras_layer_desc *l = &d->layer[0];
  miras_model_preset(d, kind);
  d->width = miras__config_whole(c, MIRAS__C_WIDTH, 0, 1);
  d->layers = miras__config_whole(c, MIRAS__C_LAYERS, 0, 1);
  d->vocab = miras__config_whole(c, MIRAS__C_VOCAB, 0, 2);
  d->heads = miras__config_whole(c, MIRAS__C_HEADS, 0, 1);
  d->untied = miras__config_of(c, MIRAS__C_TIED, 0) < 1;
  d->norm_epsilon = (float)miras__config_of(c, MIRAS__C_EPSILON, 1e-6);
  if (ratio > 0 && ratio <= 64)
    l->hidden = miras__config_whole(c, MIRAS__C_INNER, 256 * ceil(
      floor((double)d->width * ratio * 2 / 3) / 256), 1);
  l->memory.forget = l->memory.forget_ratio = 0;
  if (c->result == MIRAS_OK && miras__config_of(c, MIRAS__C_ACTIVATION, 0) == 1)
    miras__reject_as(c, MIRAS_ERR_DESC, "config.json", "hidden_act is sqrelu; known here: silu");
  return c->result == MIRAS_OK;
}

/* A length of a tensor, from the outside; 0 if there is no such tensor. */
static int miras__theirs_length(const miras__published *c, const char *name, int i) {
  const miras__theirs *x = miras__theirs_named(c, name);
  return x && i < x->rank && x->shape[i] <= 1 << 24 ? (int)x->shape[i] : 0;
}

/* What no layer here can compute. */
static int miras__config_lacks(miras__published *c, int slot) {
  size_t i = 0;
  while (miras__configs[i].slot != slot) i++;
  miras__reject(c, MIRAS_ERR_DESC, "config.json");
  miras__say(c->why, c->why_size, "%s is %g, which layers here cannot be", miras__configs[i].name,
             c->config[slot]);
  return 0;
}

/* Queries that are divided by sqrt(key_dim), with a norm behind the memory: that changes nothing
 * but the norm's epsilon. */
static void miras__describe_scale(miras_model_desc *d) {
  miras_layer_desc *l = &d->layer[0];
  l->out_epsilon = d->norm_epsilon * (float)l->memory.key_dim;
}

/* What multiplies the norm of what memories say. */
static void miras__describe_gate(miras__published *c, miras_model_desc *d, int normally) {
  d->layer[0].out_gate = miras__config_of(c, MIRAS__C_GATE, normally) < 1 ? MIRAS_OUT_NONE
                       : miras__config_of(c, MIRAS__C_GATE_FORM, 0) == 1 ? MIRAS_OUT_SIGMOID
                                                                         : MIRAS_OUT_SILU;
}

static int miras__describe_gated_deltanet(miras__published *c, miras_model_desc *d) {
  miras_layer_desc *l = &d->layer[0];
  double key;
  if (!miras__describe_frame(c, d, MIRAS_GATED_DELTANET)) return 0;
  key = l->memory.key_dim = miras__config_whole(c, MIRAS__C_HEAD_DIM, 256, 1);
  l->memory.value_dim = miras__config_share(c, MIRAS__C_EXPAND_V,
                                            key * miras__config_of(c, MIRAS__C_EXPAND_V, 2));
  l->memory.heads = miras__config_whole(c, MIRAS__C_VALUE_HEADS, d->heads, 1);
  l->memory.step = miras__config_of(c, MIRAS__C_NEGATIVE, 0) > 0 ? 2.0f : 1.0f;
  l->conv = miras__config_whole(c, MIRAS__C_CONV, 4, 1);
  l->gate_rank = 2 * l->memory.heads;
  l->key_heads = d->heads;
  miras__describe_scale(d);
  miras__describe_gate(c, d, 1);
  if (miras__config_of(c, MIRAS__C_SHORT_CONV, 1) < 1)
    return miras__config_lacks(c, MIRAS__C_SHORT_CONV);
  return c->result == MIRAS_OK;
}

/* Heads whose widths are shares of the model's. */
static int miras__describe_heads(miras__published *c, miras_model_desc *d, double k, double v) {
  miras_desc *m = &d->layer[0].memory;
  m->heads = d->heads;
  m->key_dim = miras__config_share(
    c, MIRAS__C_EXPAND_K, d->width * miras__config_of(c, MIRAS__C_EXPAND_K, k) / d->heads);
  m->value_dim = miras__config_share(
    c, MIRAS__C_EXPAND_V, d->width * miras__config_of(c, MIRAS__C_EXPAND_V, v) / d->heads);
  miras__describe_scale(d);
  return c->result == MIRAS_OK;
}

static int miras__describe_gla(miras__published *c, miras_model_desc *d) {
  miras_layer_desc *l = &d->layer[0];
  if (!miras__describe_frame(c, d, MIRAS_GLA) || !miras__describe_heads(c, d, 0.5, 1)) return 0;
  l->gate_rank = miras__theirs_length(c, "model.layers.0.attn.gk_proj.0.weight", 0);
  l->convolved = MIRAS_CONVOLVED_NONE;
  l->key_mixing = l->value_mixing = MIRAS_MIX_NONE;
  if (miras__config_of(c, MIRAS__C_SHORT_CONV, 0) > 0)
    return miras__config_lacks(c, MIRAS__C_SHORT_CONV);
  miras__describe_gate(c, d, 1);
  return 1;
}

static int miras__describe_delta_net(miras__published *c, miras_model_desc *d) {
  miras_layer_desc *l = &d->layer[0];
  if (!miras__describe_frame(c, d, MIRAS_DELTANET) || !miras__describe_heads(c, d, 1, 1)) return 0;
  l->memory.step = miras__config_of(c, MIRAS__C_NEGATIVE, 0) > 0 ? 2.0f : 1.0f;
  l->conv = miras__config_whole(c, MIRAS__C_CONV, 4, 1);
  l->gate_rank = d->heads;
  if (miras__config_of(c, MIRAS__C_BETA, 1) < 1) return miras__config_lacks(c, MIRAS__C_BETA);
  miras__describe_gate(c, d, 0);
  if (miras__config_of(c, MIRAS__C_SHORT_CONV, 1) < 1)
    return miras__config_lacks(c, MIRAS__C_SHORT_CONV);
  return c->result == MIRAS_OK;
}

/* RWKV-7: a layer for each half of a block. Ranks are those of the tensors. */
static int miras__describe_rwkv(miras__published *c, miras_model_desc *d, const char *const rank[4],
                                int turned) {
  const int width = d->width, blocks = d->layers, vocab = d->vocab, hidden = d->layer[0].hidden;
  const int heads = d->heads;
  miras_layer_desc *l = &d->layer[0];
  if (miras_model_named(d, "rwkv7", blocks) != MIRAS_OK) return 0;
  d->width = width, d->vocab = vocab, d->heads = heads;
  l->decay_rank = miras__theirs_length(c, rank[0], turned);
  l->rate_rank = miras__theirs_length(c, rank[1], turned);
  l->out_rank = miras__theirs_length(c, rank[2], turned);
  l->value_rank = miras__theirs_length(c, rank[3], turned);
  d->layer[3].hidden = hidden;
  return c->result == MIRAS_OK;
}

static int miras__describe_rwkv7(miras__published *c, miras_model_desc *d) {
  static const char *const ranks[] = {
    "model.layers.0.attn.w_lora.lora.0.weight", "model.layers.0.attn.a_lora.lora.0.weight",
    "model.layers.0.attn.g_lora.lora.0.weight", "model.layers.1.attn.v_lora.lora.0.weight"};
  const int size = miras__config_whole(c, MIRAS__C_HEAD_DIM, 64, 1);
  d->width = miras__config_whole(c, MIRAS__C_WIDTH, 0, 1);
  d->vocab = miras__config_whole(c, MIRAS__C_VOCAB, 0, 2);
  d->layers = miras__config_whole(c, MIRAS__C_LAYERS, 0, 1);
  if (size) d->heads = miras__config_whole(c, MIRAS__C_HEADS, d->width / size, 1);
  d->layer[0].hidden = miras__config_whole(c, MIRAS__C_INNER, 32 * floor(
    d->width * miras__config_of(c, MIRAS__C_RATIO, 4) / 32), 1);
  if (c->result != MIRAS_OK || !miras__describe_rwkv(c, d, ranks, 0)) return 0;
  d->norm_epsilon = (float)miras__config_of(c, MIRAS__C_EPSILON, 1e-5);
  d->layer[0].memory.key_dim = size;
  d->untied = miras__config_of(c, MIRAS__C_TIED, 0) < 1;
  return 1;
}

/* The author's files: all is in the shapes. */
static int miras__describe_author(miras__published *c, miras_model_desc *d) {
  static const char *const ranks[] = {"blocks.0.att.w1", "blocks.0.att.a1", "blocks.0.att.g1",
                                      "blocks.1.att.v1"};
  char name[64] = "";
  do {
    name[0] = 0;
    miras__say(name, sizeof name, "blocks.%d.att.r_k", d->layers++);
  } while (miras__theirs_named(c, name) && d->layers <= MIRAS__LAYERS);
  d->layers--;
  d->vocab = miras__theirs_length(c, "emb.weight", 0);
  d->width = miras__theirs_length(c, "emb.weight", 1);
  d->heads = miras__theirs_length(c, "blocks.0.att.r_k", 0);
  d->layer[0].hidden = miras__theirs_length(c, "blocks.0.ffn.key.weight", 0);
  if (!miras__describe_rwkv(c, d, ranks, 1)) return 0;
  d->norm_epsilon = 1e-5f;
  d->layer[0].out_epsilon = 64e-5f;
  return 1;
}

/* Which layers are what, as a pattern: the shortest part that all of it repeats. */
static int miras__describe_pattern(miras__published *c, miras_model_desc *d, const char *letter) {
  const int n = d->layers;
  int part = 1, i;
  for (; part < n; part++) {
    for (i = part; i < n && letter[i] == letter[i - part];) i++;
    if (i == n && n % part == 0) break;
  }
  if (part > MIRAS_PATTERN - 8)
    return miras__reject_as(c, MIRAS_ERR_DESC, "config.json", "its layers repeat too seldom");
  d->pattern[0] = '(';
  memcpy(d->pattern + 1, letter, (size_t)part);
  d->pattern[part + 1] = 0;
  miras__say(d->pattern, sizeof d->pattern, ")*%d", n / part);
  d->layers = 0;
  return 1;
}

/* Gated DeltaNet with grouped keys, and attention, gated and turned in part. */
static int miras__describe_qwen(miras__published *c, miras_model_desc *d) {
  const double interval = miras__config_of(c, MIRAS__C_INTERVAL, 4);
  const double share = miras__config_of(c, MIRAS__C_PARTIAL, 0.25);
  const double positions = miras__config_of(c, MIRAS__C_POSITIONS, 32768);
  miras_layer_desc *l = &d->layer[0], *a = &d->layer[2];
  char letter[MIRAS__LAYERS];
  int i;
  if (!miras__describe_frame(c, d, MIRAS_GATED_DELTANET)) return 0;
  l->memory.heads = miras__config_whole(c, MIRAS__C_VALUE_HEADS, 0, 1);
  l->memory.key_dim = miras__config_whole(c, MIRAS__C_KEY_DIM, 0, 1);
  l->memory.value_dim = miras__config_whole(c, MIRAS__C_VALUE_DIM, 0, 1);
  l->key_heads = c->groups[0] = miras__config_whole(c, MIRAS__C_KEY_HEADS, 0, 1);
  l->conv = miras__config_whole(c, MIRAS__C_CONV, 4, 1);
  l->gate_rank = 2 * l->memory.heads;
  miras__describe_scale(d);
  a->hidden = l->hidden;
  a->heads = c->groups[1] = d->heads;
  a->kv_heads = miras__config_whole(c, MIRAS__C_KV_HEADS, d->heads, 1);
  a->head_dim = miras__config_whole(c, MIRAS__C_HEAD_DIM, 256, 2);
  a->rotary_base = (float)miras__config_of(c, MIRAS__C_THETA, 10000);
  a->rotary_dim = share > 0 && share <= 1 ? (int)(a->head_dim * share) : 0;
  a->window = positions < 1 << 20 ? (int)positions : 1 << 20;
  a->qk_norm = a->output_gate = 1;
  if (c->result != MIRAS_OK) return 0;
  if (!(share > 0 && share <= 1)) return miras__config_lacks(c, MIRAS__C_PARTIAL);
  if (!(interval >= 1 && interval <= MIRAS__LAYERS))
    return miras__config_lacks(c, MIRAS__C_INTERVAL);
  if (d->layers > MIRAS__LAYERS) return miras__config_lacks(c, MIRAS__C_LAYERS);
  if (c->types && c->types != d->layers)
    return miras__reject_as(c, MIRAS_ERR_DESC, "config.json", "layer_types is not of all layers");
  for (i = 0; i < d->layers; i++) {
    const int full = c->types ? c->full[i] : (i + 1) % (int)interval == 0;
    if (miras__config_of(c, MIRAS__C_EXPERTS, 0) > 0 && !c->dense[i])
      return miras__config_lacks(c, MIRAS__C_EXPERTS);
    letter[i] = full ? 'a' : 'm';
  }
  return miras__describe_pattern(c, d, letter);
}

/* ---- names ---- */

/* A view, of a layer if it begins with a dot, and the tensor for it, NULL: zeros. A tensor's name
 * is what all names of its family or layer begin with, and theirs; after a slash theirs is all. */
typedef struct miras__named_as {
  const char *theirs, *ours;
  int how;
} miras__named_as;

enum {
  MIRAS__KEPT = 1,      /* not turned                                                             */
  MIRAS__MORE = 2,      /* one is added                                                           */
  MIRAS__AGAIN = 4,     /* over and over, up to the view's end                                    */
  MIRAS__CORNER = 8,    /* below the rows of those before it, too; of no tensor: ones there on the
                           diagonal                                                               */
  MIRAS__BELOW = 16,    /* below those before it, from the first column on; kept                  */
  MIRAS__BY_KEYS = 32,  /* rows are those of key heads, one after the other, and so shared out    */
  MIRAS__BY_QUERIES = 64,  /* of heads of queries                                                 */
  MIRAS__HALF = 128,    /* half of the rows of each: the first                                    */
  MIRAS__OTHER = 256,   /* with it: the other                                                     */
  MIRAS__ONLY = 512     /* times 1 + a miras_layer_type: for layers of this type only             */
};
#define MIRAS__ONLY_OF(type) ((1 + (int)(type)) * MIRAS__ONLY)

static const miras__named_as miras__fla_names[] = {
  {"embeddings.weight", "embed.weight", MIRAS__KEPT},
  {"norm.weight", "norm.gain", 0},
  {"/lm_head.weight", "head.weight", MIRAS__KEPT},
  {".attn_norm.weight", ".norm1.gain", 0},
  {".attn.q_proj.weight", ".q.weight", 0},
  {".attn.k_proj.weight", ".k.weight", 0},
  {".attn.v_proj.weight", ".v.weight", 0},
  {".attn.q_conv1d.weight", ".conv_q.weight", 0},
  {".attn.k_conv1d.weight", ".conv_k.weight", 0},
  {".attn.v_conv1d.weight", ".conv_v.weight", 0},
  {".attn.a_proj.weight", ".gates.down", 0},
  {".attn.gk_proj.0.weight", ".gates.down", 0},
  {".attn.b_proj.weight", ".gates.down", 0},
  {".attn.gk_proj.1.weight", ".gates.up", MIRAS__CORNER},
  {NULL, ".gates.up", MIRAS__CORNER},
  {".attn.dt_bias", ".gates.offset", 0},
  {".attn.gk_proj.1.bias", ".gates.offset", 0},
  {NULL, ".gates.offset", 0},
  {".attn.A_log", ".gates.rate", 0},
  {NULL, ".memory.init", 0},
  {".attn.g_proj.weight", ".out_gate.weight", 0},
  {".attn.o_norm.weight", ".out_norm.gain", MIRAS__AGAIN},
  {".attn.g_norm_swish_gate.weight", ".out_norm.gain", MIRAS__AGAIN},
  {".attn.o_proj.weight", ".o.weight", 0},
  {".mlp_norm.weight", ".norm2.gain", 0},
  {".mlp.gate_proj.weight", ".mlp.gate", 0},
  {".mlp.up_proj.weight", ".mlp.up", 0},
  {".mlp.down_proj.weight", ".mlp.down", 0}
};

static const miras__named_as miras__rwkv7_names[] = {
  {"embeddings.weight", "embed.weight", MIRAS__KEPT},
  {"layers.0.pre_norm.weight", "embed_norm.gain", 0},
  {"layers.0.pre_norm.bias", "embed_norm.bias", 0},
  {"norm.weight", "norm.gain", 0},
  {"norm.bias", "norm.bias", 0},
  {"/lm_head.weight", "head.weight", MIRAS__KEPT},
  {".attn_norm.weight", ".norm1.gain", 0},
  {".attn_norm.bias", ".norm1.bias", 0},
  {".attn.x_x", ".shift.mix", MIRAS__BELOW | MIRAS__ONLY_OF(MIRAS_LAYER_RWKV)},
  {".attn.x_r", ".shift.mix", MIRAS__BELOW | MIRAS__ONLY_OF(MIRAS_LAYER_RWKV)},
  {".attn.x_w", ".shift.mix", MIRAS__BELOW | MIRAS__ONLY_OF(MIRAS_LAYER_RWKV)},
  {".attn.x_k", ".shift.mix", MIRAS__BELOW | MIRAS__ONLY_OF(MIRAS_LAYER_RWKV)},
  {".attn.x_v", ".shift.mix", MIRAS__BELOW | MIRAS__ONLY_OF(MIRAS_LAYER_RWKV)},
  {".attn.x_a", ".shift.mix", MIRAS__BELOW | MIRAS__ONLY_OF(MIRAS_LAYER_RWKV)},
  {".attn.x_g", ".shift.mix", MIRAS__BELOW | MIRAS__ONLY_OF(MIRAS_LAYER_RWKV)},
  {".attn.r_proj.weight", ".q.weight", 0},
  {".attn.k_proj.weight", ".k.weight", 0},
  {".attn.v_proj.weight", ".v.weight", 0},
  {".attn.o_proj.weight", ".o.weight", 0},
  {".attn.w_lora.lora.0.weight", ".decay.down", 0},
  {".attn.w_lora.lora.2.weight", ".decay.up", 0},
  {".attn.a_lora.lora.0.weight", ".rate.down", 0},
  {".attn.a_lora.lora.2.weight", ".rate.up", 0},
  {".attn.v_lora.lora.0.weight", ".value.down", 0},
  {".attn.v_lora.lora.2.weight", ".value.up", 0},
  {".attn.g_lora.lora.0.weight", ".out_gate.down", 0},
  {".attn.g_lora.lora.2.weight", ".out_gate.up", 0},
  {".attn.w_lora.lora.2.bias", ".gates.offset", 0},
  {".attn.a_lora.lora.2.bias", ".gates.offset", 0},
  {".attn.v_lora.lora.2.bias", ".gates.offset", 0},
  {".attn.k_k", ".erase.scale", 0},
  {".attn.k_a", ".erase.mix", 0},
  {".attn.r_k", ".bonus.gain", 0},
  {NULL, ".memory.init", 0},
  {".attn.g_norm.weight", ".out_norm.gain", 0},
  {".attn.g_norm.bias", ".out_norm.bias", 0},
  {".ffn_norm.weight", ".norm2.gain", 0},
  {".ffn_norm.bias", ".norm2.bias", 0},
  {".ffn.x_k", ".shift.mix", MIRAS__BELOW | MIRAS__ONLY_OF(MIRAS_LAYER_MLP)},
  {".ffn.key.weight", ".mlp.up", 0},
  {".ffn.value.weight", ".mlp.down", 0}
};

static const miras__named_as miras__author_names[] = {
  {"emb.weight", "embed.weight", MIRAS__KEPT},
  {"blocks.0.ln0.weight", "embed_norm.gain", 0},
  {"blocks.0.ln0.bias", "embed_norm.bias", 0},
  {"ln_out.weight", "norm.gain", 0},
  {"ln_out.bias", "norm.bias", 0},
  {"head.weight", "head.weight", MIRAS__KEPT},
  {".ln1.weight", ".norm1.gain", 0},
  {".ln1.bias", ".norm1.bias", 0},
  {".att.x_r", ".shift.mix", MIRAS__BELOW | MIRAS__ONLY_OF(MIRAS_LAYER_RWKV)},
  {".att.x_w", ".shift.mix", MIRAS__BELOW | MIRAS__ONLY_OF(MIRAS_LAYER_RWKV)},
  {".att.x_k", ".shift.mix", MIRAS__BELOW | MIRAS__ONLY_OF(MIRAS_LAYER_RWKV)},
  {".att.x_v", ".shift.mix", MIRAS__BELOW | MIRAS__ONLY_OF(MIRAS_LAYER_RWKV)},
  {".att.x_a", ".shift.mix", MIRAS__BELOW | MIRAS__ONLY_OF(MIRAS_LAYER_RWKV)},
  {".att.x_g", ".shift.mix", MIRAS__BELOW | MIRAS__ONLY_OF(MIRAS_LAYER_RWKV)},
  {".att.receptance.weight", ".q.weight", 0},
  {".att.key.weight", ".k.weight", 0},
  {".att.value.weight", ".v.weight", 0},
  {".att.output.weight", ".o.weight", 0},
  {".att.w1", ".decay.down", MIRAS__KEPT},
  {".att.w2", ".decay.up", MIRAS__KEPT},
  {".att.a1", ".rate.down", MIRAS__KEPT},
  {".att.a2", ".rate.up", MIRAS__KEPT},
  {".att.v1", ".value.down", MIRAS__KEPT},
  {".att.v2", ".value.up", MIRAS__KEPT},
  {".att.g1", ".out_gate.down", MIRAS__KEPT},
  {".att.g2", ".out_gate.up", MIRAS__KEPT},
  {".att.w0", ".gates.offset", 0},
  {".att.a0", ".gates.offset", 0},
  {".att.v0", ".gates.offset", 0},
  {".att.k_k", ".erase.scale", 0},
  {".att.k_a", ".erase.mix", 0},
  {".att.r_k", ".bonus.gain", 0},
  {NULL, ".memory.init", 0},
  {".att.ln_x.weight", ".out_norm.gain", 0},
  {".att.ln_x.bias", ".out_norm.bias", 0},
  {".ln2.weight", ".norm2.gain", 0},
  {".ln2.bias", ".norm2.bias", 0},
  {".ffn.x_k", ".shift.mix", MIRAS__BELOW | MIRAS__ONLY_OF(MIRAS_LAYER_MLP)},
  {".ffn.key.weight", ".mlp.up", 0},
  {".ffn.value.weight", ".mlp.down", 0}
};

static const miras__named_as miras__qwen_names[] = {
  {"embed_tokens.weight", "embed.weight", MIRAS__KEPT},
  {"norm.weight", "norm.gain", MIRAS__MORE},
  {"/lm_head.weight", "head.weight", MIRAS__KEPT},
  {".input_layernorm.weight", ".norm1.gain", MIRAS__MORE},
  {".linear_attn.in_proj_qkvz.weight", ".q.weight", MIRAS__BY_KEYS},
  {".linear_attn.in_proj_qkvz.weight", ".k.weight", MIRAS__BY_KEYS},
  {".linear_attn.in_proj_qkvz.weight", ".v.weight", MIRAS__BY_KEYS},
  {".linear_attn.in_proj_qkvz.weight", ".out_gate.weight", MIRAS__BY_KEYS},
  {".linear_attn.in_proj_qkv.weight", ".q.weight", 0},
  {".linear_attn.in_proj_qkv.weight", ".k.weight", 0},
  {".linear_attn.in_proj_qkv.weight", ".v.weight", 0},
  {".linear_attn.in_proj_z.weight", ".out_gate.weight", 0},
  {".linear_attn.conv1d.weight", ".conv_q.weight", 0},
  {".linear_attn.conv1d.weight", ".conv_k.weight", 0},
  {".linear_attn.conv1d.weight", ".conv_v.weight", 0},
  {".linear_attn.in_proj_ba.weight", ".gates.down", MIRAS__BY_KEYS | MIRAS__HALF | MIRAS__OTHER},
  {".linear_attn.in_proj_ba.weight", ".gates.down", MIRAS__BY_KEYS | MIRAS__HALF},
  {".linear_attn.in_proj_a.weight", ".gates.down", 0},
  {".linear_attn.in_proj_b.weight", ".gates.down", 0},
  {NULL, ".gates.up", MIRAS__CORNER},
  {".linear_attn.dt_bias", ".gates.offset", 0},
  {NULL, ".gates.offset", 0},
  {".linear_attn.A_log", ".gates.rate", 0},
  {NULL, ".memory.init", 0},
  {".linear_attn.norm.weight", ".out_norm.gain", MIRAS__AGAIN},
  {".linear_attn.out_proj.weight", ".o.weight", 0},
  {".self_attn.q_proj.weight", ".q.weight", MIRAS__BY_QUERIES | MIRAS__HALF},
  {".self_attn.q_proj.weight", ".out_gate.weight",
   MIRAS__BY_QUERIES | MIRAS__HALF | MIRAS__OTHER},
  {".self_attn.k_proj.weight", ".k.weight", 0},
  {".self_attn.v_proj.weight", ".v.weight", 0},
  {".self_attn.q_norm.weight", ".q_norm.gain", MIRAS__MORE},
  {".self_attn.k_norm.weight", ".k_norm.gain", MIRAS__MORE},
  {".self_attn.o_proj.weight", ".o.weight", 0},
  {".post_attention_layernorm.weight", ".norm2.gain", MIRAS__MORE},
  {".mlp.gate_proj.weight", ".mlp.gate", 0},
  {".mlp.up_proj.weight", ".mlp.up", 0},
  {".mlp.down_proj.weight", ".mlp.down", 0}
};

#define MIRAS__NAMES(table) table, (int)MIRAS__COUNT(table)
static const struct {
  const char *models;   /* model_type in config.json; empty: there is none                        */
  const char *roots;    /* what names may begin with                                              */
  const char *stack;    /* and those of layers then, up to their number                           */
  int per;              /* layers here that are one of theirs                                     */
  const char *dropped;  /* beginnings of names that are not needed                                */
  int (*describe)(miras__published *c, miras_model_desc *d);
  const miras__named_as *rows;
  int count;
} miras__families[] = {
  {"gated_deltanet", "model.", "layers.", 1, "", miras__describe_gated_deltanet,
   MIRAS__NAMES(miras__fla_names)},
  {"delta_net", "model.", "layers.", 1, "", miras__describe_delta_net,
   MIRAS__NAMES(miras__fla_names)},
  {"gla", "model.", "layers.", 1, "", miras__describe_gla, MIRAS__NAMES(miras__fla_names)},
  {"rwkv7", "model.", "layers.", 2, "", miras__describe_rwkv7, MIRAS__NAMES(miras__rwkv7_names)},
  {"qwen3_next", "model.", "layers.", 1, "mtp.", miras__describe_qwen,
   MIRAS__NAMES(miras__qwen_names)},
  {"qwen3_5 qwen3_5_text", "model.language_model. model.", "layers.", 1, "model.visual. mtp.",
   miras__describe_qwen, MIRAS__NAMES(miras__qwen_names)},
  {"", "", "blocks.", 2, "blocks.0.att.v0 blocks.0.att.v1 blocks.0.att.v2",
   miras__describe_author, MIRAS__NAMES(miras__author_names)}
};
enum { MIRAS__F_AUTHOR = (int)MIRAS__COUNT(miras__families) - 1 };

/* ---- the configuration ---- */

/* The family that has this word in its list. */
static void miras__find_family(miras__published *c, const char *type) {
  size_t i;
  for (i = 0; i < MIRAS__COUNT(miras__families); i++)
    if (miras__listed(miras__families[i].models, type)) c->family = (int)i;
  if (c->family >= 0) return;
  miras__reject(c, MIRAS_ERR_DESC, "config.json");
  miras__say(c->why, c->why_size, "model_type is %s; known here:", type);
  for (i = 0; i < MIRAS__COUNT(miras__families); i++)
    if (miras__families[i].models[0])
      miras__say(c->why, c->why_size, " %s", miras__families[i].models);
}

/* What we cannot judge. */
static void miras__config_unknown(miras__published *c, const char *name, const char *text) {
  miras__reject(c, MIRAS_ERR_DESC, "config.json");
  miras__say(c->why, c->why_size, "%s is %s, and no such field is known here; if it changes "
                                  "nothing, take it out", name, text);
}

/* A number, or a truth as 0 or 1. */
static void miras__config_number(miras__published *c, const char *name, const char *text,
                                 double *x) {
  const int infinite = miras__same(text, "Infinity"), truth = miras__same(text, "true");
  float real = 0;
  if (!truth && !infinite && !miras__same(text, "false") && !miras__read_real(text, &real)) {
    miras__reject(c, MIRAS_ERR_DESC, "config.json");
    miras__say(c->why, c->why_size, "%s is %s; it must be a number", name, text);
  }
  *x = truth ? 1 : infinite ? (double)FLT_MAX : (double)real;
}

static void miras__config_scalar(miras__published *c, const char *name, const char *text,
                                 int quoted) {
  const int count = (int)MIRAS__COUNT(miras__configs), none = !quoted && miras__same(text, "null");
  const char *list;
  char word[32] = "";
  double x = 0;
  int i = 0, slot;
  while (i < count && !miras__same(name, miras__configs[i].name)) i++;
  if (i == count) {
    if (!none && !miras__listed(miras__harmless, name) && (quoted || !miras__same(text, "false")))
      miras__config_unknown(c, name, text);
    return;
  }
  if (none) return;
  slot = miras__configs[i].slot;
  list = miras__configs[i].words;
  if (list) {
    while (miras__next_word(word, &list) && !miras__same(word, text)) x++;
    if (!word[0]) {
      miras__reject(c, MIRAS_ERR_DESC, "config.json");
      miras__say(c->why, c->why_size, "%s is %s; known here: %s", name, text,
                 miras__configs[i].words);
    }
  } else {
    miras__config_number(c, name, quoted ? "a text" : text, &x);
  }
  if (slot < 0 || c->result != MIRAS_OK) return;
  if (c->said[slot] && (c->config[slot] < x || c->config[slot] > x)) {
    miras__reject(c, MIRAS_ERR_DESC, "config.json");
    miras__say(c->why, c->why_size, "%s is %s and %g", name, text, c->config[slot]);
  }
  c->said[slot] = 1;
  c->config[slot] = x;
}

/* Item n of a list that means something. */
static void miras__config_item(miras__published *c, const char *name, int n, const char *text) {
  uint64_t layer = (uint64_t)n;
  if (name[0] == 't' || name[0] == 'd') {        /* limits of a step */
    if (n < 2) c->said[MIRAS__C_LOW + n] = 1;
    miras__config_number(c, name, text, &c->config[n ? MIRAS__C_HIGH : MIRAS__C_LOW]);
    return;
  }
  const int types = miras__same(name, "layer_types"), full = miras__same(text, "full_attention");
  if ((!types || full || miras__same(text, "linear_attention")) &&
      (types || miras__read_whole(text, &layer)) && layer < MIRAS__LAYERS) {
    if (types) c->full[n] = (unsigned char)full, c->types = n + 1;
    else c->dense[layer] = 1;
    return;
  }
  miras__reject(c, MIRAS_ERR_DESC, "config.json");
  miras__say(c->why, c->why_size, "%s has %s at place %d, which is not known here", name, text, n);
}

static void miras__config_list(miras__published *c, miras__text *t, const char *name) {
  char text[MIRAS__NAME_SIZE];
  int n = 0;
  if (!miras__need_char(t, '[') || miras__take_char(t, ']')) return;
  do {
    if (miras__take_char(t, '{')) {                /* {"__float__": "Infinity"} */
      miras__need_string(t, text);
      miras__need_char(t, ':');
      miras__need_scalar(t, text);
      miras__need_char(t, '}');
    } else {
      miras__need_scalar(t, text);
    }
    if (!t->bad && c->result == MIRAS_OK) miras__config_item(c, name, n++, text);
  } while (miras__take_char(t, ','));
  miras__need_char(t, ']');
}

/* The members of an object, from its brace on: for the family alone, or all else. */
static void miras__config_object(miras__published *c, miras__text *t, int family, int depth) {
  char name[MIRAS__NAME_SIZE], text[MIRAS__NAME_SIZE];
  if (!miras__need_char(t, '{') || miras__take_char(t, '}')) return;
  do {
    int open;
    miras__need_string(t, name);
    miras__need_char(t, ':');
    miras__skip_space(t);
    open = t->at < t->end && (*t->at == '{' || *t->at == '[') ? *t->at : 0;
    if (open == '{' && depth < 3 && miras__listed(miras__opened, name)) {
      miras__config_object(c, t, family, depth + 1);
    } else if (open == '[' && miras__listed(miras__lists, name)) {
      miras__config_list(c, t, name);
    } else if (open) {
      const char *from = t->at;
      miras__skip_value(t, 0);
      if (!family && !miras__listed(miras__harmless, name) && t->at - from > 2)
        miras__config_unknown(c, name, open == '[' ? "a list" : "an object");
    } else {
      const int quoted = miras__need_scalar(t, text);
      if (t->bad) break;
      if (miras__same(name, "model_type")) {
        if (family && !depth) miras__find_family(c, text);
      } else if (family && depth && miras__same(name, "layer")) {
        if (miras__same(text, "Mamba2")) miras__find_family(c, "mamba2");
      } else if (!family) {
        miras__config_scalar(c, name, text, quoted);
      }
    }
    if (c->result != MIRAS_OK) return;
  } while (miras__take_char(t, ','));
  miras__need_char(t, '}');
}

static MIRAS__COLD int miras__config_read(miras__published *c) {
  miras__text all, t;
  int family;
  /* that of RWKV's author goes without */
  if (miras__theirs_named(c, "blocks.0.att.r_k")) c->family = MIRAS__F_AUTHOR;
  if (!miras__text_of(c, "config.json", c->family < 0, &all)) return c->result == MIRAS_OK;
  for (family = 1; family >= 0; family--) {
    t = all;
    miras__config_object(c, &t, family, 0);
    miras__skip_space(&t);
    if (c->result != MIRAS_OK) return 0;
    if (t.bad || t.at != t.end)
      return miras__reject_as(c, MIRAS_ERR_FORMAT, "config.json", "it is not valid JSON");
    if (c->family < 0)
      return miras__reject_as(c, MIRAS_ERR_DESC, "config.json", "model_type is missing");
  }
  return 1;
}

/* ---- from a path to tables ---- */

/* What the names of its tensors begin with: the first of the family's roots that one has. */
static int miras__root_find(miras__published *c) {
  const char *list = miras__families[c->family].roots;
  size_t i;
  while (miras__next_word(c->root, &list))
    for (i = 0; i < c->tensor_count; i++)
      if (strncmp(c->tensors[i].name, c->root, strlen(c->root)) == 0) return 1;
  return 1;
}

/* A folder, or a file of tensors with config.json beside it. */
static MIRAS__COLD int miras__published_open(miras__published *c, const char *path,
                                             const miras_allocator *allocator, char *why,
                                             size_t why_size) {
  static const char index[] = "model.safetensors.index.json", end[] = ".safetensors";
  const size_t n = strlen(path);
  const char *single = "model.safetensors";
  miras__text t;
  int indexed = 0;
  memset(c, 0, sizeof *c);
  c->from = miras__allocator(allocator);
  c->why = why, c->why_size = why_size;
  c->family = c->open = -1;
  if (why && why_size) why[0] = 0;
  c->path = (char *)miras__lend(c, n + MIRAS__NAME_SIZE + 2, 1);
  if (!c->path) return 0;
  memcpy(c->path, path, n + 1);
  c->folder = n;
  if (n >= sizeof end && miras__same(path + n - (sizeof end - 1), end)) {
    while (c->folder && !strchr("/\\", path[c->folder - 1])) c->folder--;
    single = path + c->folder;
    if (strlen(single) >= MIRAS__NAME_SIZE)
      return miras__reject_as(c, MIRAS_ERR_ARGUMENT, "path", "the file's name is too long");
  } else if (n && !strchr("/\\", path[n - 1])) {
    c->path[c->folder++] = '/';
  }
  if (single != path + c->folder) indexed = miras__text_of(c, index, 0, &t);
  if (c->result != MIRAS_OK) return 0;
  c->names = (char (*)[MIRAS__NAME_SIZE])miras__lend(c, indexed ? MIRAS__MAX_SHARDS : 1,
                                                     MIRAS__NAME_SIZE);
  if (!c->names) return 0;
  if (!indexed) {
    memcpy(c->names[0], single, strlen(single) + 1);
    c->files = 1;
  }
  return (!indexed || miras__index_read(c, t, index, 0)) && miras__theirs_find(c) &&
         (!indexed || miras__index_read(c, t, index, 1)) && miras__config_read(c) &&
         miras__root_find(c);
}

/* ---- from names to pieces ---- */

/* What a tensor fills of a view. Number (i, j) of it is, of the tensor as rows of `each` numbers:
 * turned, number i of row first + j / group * stride + j % group; kept, number j of row i, j
 * counted anew after `each`. */
typedef struct miras__filling {
  const miras__theirs *from;         /* NULL: zeros, or ones on the diagonal                      */
  int view, how;
  size_t row, rows, col, cols;       /* place in the view, whose rows are one if it is a vector   */
  size_t each, first, group, stride;
} miras__filling;

static size_t miras__view_rows(const miras_view *v) {
  return v->rank > 1 ? (size_t)v->shape[0] : 1;
}

static void miras__say_shape(miras__published *c, int rank, const uint64_t *theirs,
                             const int *ours) {
  int i;
  for (i = 0; i < rank; i++)
    miras__say(c->why, c->why_size, i ? ", %zu" : "[%zu",
               theirs ? (size_t)theirs[i] : (size_t)ours[i]);
  miras__say(c->why, c->why_size, "]");
}

static int miras__reject_shape(miras__published *c, const miras__theirs *x, const miras_view *v) {
  miras__reject(c, MIRAS_ERR_FORMAT, x->name);
  miras__say(c->why, c->why_size, "its shape ");
  miras__say_shape(c, x->rank, x->shape, NULL);
  miras__say(c->why, c->why_size, " does not fit into %s of this model, ", v->name);
  miras__say_shape(c, v->rank, NULL, v->shape);
  return 0;
}

/* Find the place of a tensor, or of what needs none, behind the count pieces there are. */
static int miras__filling_fit(miras__published *c, const miras_view *v, miras__theirs *x,
                            miras__filling *all, int count) {
  miras__filling *p = &all[count];
  const int turned = !(p->how & (v->rank > 1 ? MIRAS__KEPT | MIRAS__BELOW : MIRAS__AGAIN));
  const size_t rows = miras__view_rows(v);
  size_t last = v->count / rows, below = rows, length;
  int i;
  p->row = p->col = 0;
  for (i = 0; i < count; i++) {
    if (all[i].view != p->view) continue;
    if (!(p->how & MIRAS__BELOW)) p->col = all[i].col + all[i].cols;
    if (p->how & (MIRAS__CORNER | MIRAS__BELOW)) p->row = all[i].row + all[i].rows;
  }
  last -= p->col;
  below -= p->row;
  p->from = x;
  p->rows = below;
  p->cols = last;
  if (!x) return 1;
  p->each = p->how & MIRAS__BELOW ? last : v->rank > 1 ? (size_t)(x->count / x->shape[0])
          : turned ? 1 : (size_t)x->count;
  length = (size_t)(x->count / p->each);                  /* its rows, of which the next are ours */
  if (turned) {
    const size_t groups = (size_t)(p->how & MIRAS__BY_KEYS ? c->groups[0]
                                   : p->how & MIRAS__BY_QUERIES ? c->groups[1] : 1);
    p->rows = p->each;
    p->stride = length / groups;
    p->first = (size_t)(x->taken / p->each) / groups;
    p->group = p->stride - p->first < last / groups ? p->stride - p->first : last / groups;
    if (p->how & MIRAS__HALF) p->group = p->stride / 2;
    if (p->how & MIRAS__HALF) p->first = p->how & MIRAS__OTHER ? p->group : 0;
    p->cols = p->group * groups;
    x->taken += (uint64_t)p->cols * p->each;
  } else {
    p->rows = v->rank > 1 ? length : 1;
    p->cols = p->how & MIRAS__AGAIN ? last : p->each;
    x->taken = x->count;
  }
  if (p->cols && p->cols <= last && p->rows && p->rows <= below && x->count % p->each == 0 &&
      (p->rows == below || (p->how & (MIRAS__CORNER | MIRAS__BELOW))) &&
      (!(p->how & MIRAS__AGAIN) || p->cols % p->each == 0))
    return 1;
  return miras__reject_shape(c, x, v);
}

/* The name that a row means, of a layer or of the model. */
static void miras__theirs_name(const miras__published *c, const char *theirs, int layer,
                               char *name) {
  name[0] = 0;
  if (*theirs == '/') miras__say(name, MIRAS__NAME_SIZE, "%s", theirs + 1);
  else if (layer < 0) miras__say(name, MIRAS__NAME_SIZE, "%s%s", c->root, theirs);
  else miras__say(name, MIRAS__NAME_SIZE, "%s%s%d%s", c->root, miras__families[c->family].stack,
                  layer / miras__families[c->family].per, theirs);
}

/* Which view of [from, to) a row means; -1: none. skip: the characters before its own name. */
static int miras__view_named(const miras_model *m, int from, int to, size_t skip,
                             const char *ours) {
  for (; from < to; from++)
    if (miras__same(m->views[from].name + skip, ours)) return from;
  return -1;
}

/* Why is this view not full? A row may lack its tensor, or none is meant for it. */
static int miras__reject_gap(miras__published *c, const miras_view *v, const char *ours,
                             int layer) {
  char name[MIRAS__NAME_SIZE];
  int i;
  for (i = 0; i < miras__families[c->family].count; i++) {
    const miras__named_as *row = &miras__families[c->family].rows[i];
    if (!row->theirs || (layer >= 0) != (row->ours[0] == '.') ||
        !miras__same(row->ours + (layer >= 0), ours)) continue;
    miras__theirs_name(c, row->theirs, layer, name);
    if (miras__theirs_named(c, name)) continue;
    miras__reject(c, MIRAS_ERR_FORMAT, name);
    miras__say(c->why, c->why_size, "there is no such tensor, which %s of this model needs",
               v->name);
    return 0;
  }
  miras__reject(c, MIRAS_ERR_FORMAT, v->name);
  miras__say(c->why, c->why_size, "the tensors for it do not fill it");
  return 0;
}

/* All pieces of a layer, or of what is no layer's (-1), whose views are [from, to): how many; -1 if
 * something does not fit. */
static MIRAS__COLD int miras__match(miras__published *c, const miras_model *m, int layer, int from,
                                    int to, size_t skip, miras__filling *piece) {
  int count = 0, i, k;
  for (i = 0; i < miras__families[c->family].count; i++) {
    const miras__named_as *row = &miras__families[c->family].rows[i];
    char name[MIRAS__NAME_SIZE];
    miras__theirs *x = NULL;
    int v;
    if ((layer >= 0) != (row->ours[0] == '.') ||
        (row->how >= MIRAS__ONLY &&
         row->how / MIRAS__ONLY != 1 + (int)m->layers[layer].s->type)) continue;
    v = miras__view_named(m, from, to, skip, row->ours + (layer >= 0));
    if (v < 0) continue;
    if (row->theirs) {
      miras__theirs_name(c, row->theirs, layer, name);
      x = miras__theirs_named(c, name);
      if (!x || miras__begins(miras__families[c->family].dropped, name)) continue;
    }
    memset(&piece[count], 0, sizeof piece[count]);
    piece[count].view = v;
    piece[count].how = row->how;
    if (!miras__filling_fit(c, &m->views[v], x, piece, count)) return -1;
    count++;
  }
  for (i = from; i < to; i++) {
    const miras_view *v = &m->views[i];
    const size_t rows = miras__view_rows(v);
    size_t full = 0, whole = v->count / rows;
    if (layer < 0 && strncmp(v->name, "blocks.", 7) == 0) continue;
    for (k = 0; k < count; k++) {
      if (piece[k].view != i) continue;
      if (piece[k].how & MIRAS__BELOW) whole = rows;
      full += piece[k].how & MIRAS__BELOW ? piece[k].rows : piece[k].cols;
    }
    if (full != whole)
      return miras__reject_gap(c, v, v->name + skip, layer) - 1;
  }
  return count;
}

/* ---- from pieces to weights ---- */

/* n numbers of a tensor, at most 1024, from one on. */
static int miras__theirs_get(miras__published *c, const miras__theirs *x, size_t from, size_t n,
                             float *to) {
  const size_t wide = x->form ? 2 : 4;
  const uint64_t at = x->at + (uint64_t)from * wide;
  unsigned char bytes[4096];
  uint64_t size;
  if (c->open != x->file) {
    if (c->file) fclose(c->file);
    c->open = x->file;
    c->file = miras__theirs_open(c, c->names[x->file], 1, &size);
    c->stands = 0;
    if (!c->file) return 0;
  }
  if (c->stands != at && fseek(c->file, (long)at, SEEK_SET) != 0) c->stands = 0;
  if (fread(bytes, wide, n, c->file) != n)
    return miras__reject_as(c, MIRAS_ERR_IO, c->names[x->file],
                            "it cannot be read any more; the model is a mixture now");
  c->stands = at + (uint64_t)(n * wide);
  miras__weights_read(MIRAS_WEIGHTS_FLOAT, (unsigned char *)(void *)to, x->form, bytes, n);
  return 1;
}

/* What a piece has of the tile of rows [row, row + rows) and columns [col, col + cols). */
static MIRAS__COLD int miras__filling_get(miras__published *c, const miras__filling *p, size_t row,
                                        size_t rows, size_t col, size_t cols) {
  const size_t top = row > p->row ? row : p->row, left = col > p->col ? col : p->col;
  const size_t below = row + rows < p->row + p->rows ? row + rows : p->row + p->rows;
  const size_t right = col + cols < p->col + p->cols ? col + cols : p->col + p->cols;
  const float more = p->how & MIRAS__MORE ? 1.0f : 0.0f;
  float x[1024];
  size_t i, j, k, n;
  for (i = top; !p->from && i < below; i++) {
    const size_t at = p->col + i - p->row;
    if ((p->how & MIRAS__CORNER) && at >= left && at < right)
      c->tile[(i - row) * cols + at - col] = 1;
  }
  if (!p->from) return 1;
  if (p->group) {
    for (j = left; j < right; j++) {
      const size_t at = j - p->col, from = p->first + at / p->group * p->stride + at % p->group;
      for (i = top; i < below; i += n) {
        n = below - i < 1024 ? below - i : 1024;
        if (!miras__theirs_get(c, p->from, from * p->each + i - p->row, n, x)) return 0;
        for (k = 0; k < n; k++) c->tile[(i + k - row) * cols + j - col] = x[k] + more;
      }
    }
    return 1;
  }
  for (i = top; i < below; i++) {
    for (j = left; j < right; j += n) {
      const size_t at = (j - p->col) % p->each;
      n = right - j < p->each - at ? right - j : p->each - at;
      if (n > 1024) n = 1024;
      if (!miras__theirs_get(c, p->from, (i - p->row) * p->each + at, n, x)) return 0;
      for (k = 0; k < n; k++) c->tile[(i - row) * cols + j + k - col] = x[k] + more;
    }
  }
  return 1;
}

/* Write view i, of which the pieces are some. */
static MIRAS__COLD int miras__view_fill(miras__published *c, const miras_model *m, int i,
                                        const miras__filling *piece, int count) {
  const miras_view *v = &m->views[i];
  const int form = miras__view_form(m, v);
  const size_t rows = miras__view_rows(v), all = v->count / rows;
  const size_t line = miras__row_bytes(form, all);
  unsigned char *to = miras__view_at(m, v);
  size_t row, col, high = 1, wide = MIRAS__TILE_ROW, n, k;
  int p;
  for (p = 0; p < count; p++)
    if (piece[p].view == i && piece[p].group && v->rank > 1) high = rows, wide = MIRAS__TILE_COLS;
  for (row = 0; row < rows; row += high) {
    for (col = 0; col < all; col += wide) {
      n = all - col < wide ? all - col : wide;
      memset(c->tile, 0, high * n * sizeof(float));
      for (p = 0; p < count; p++)
        if (piece[p].view == i && !miras__filling_get(c, &piece[p], row, high, col, n)) return 0;
      for (k = 0; k < high; k++)
        miras__narrow(form, to + (row + k) * line + miras__row_bytes(form, col), c->tile + k * n,
                      n);
    }
  }
  return 1;
}

/* Every view from the tensors; without `write` only: does all fit, and is every tensor used up? */
static MIRAS__COLD int miras__published_fill(miras__published *c, const miras_model *m, int write) {
  miras__filling piece[MIRAS__MAX_PIECES];
  int layer, from = 0, to = m->view_count, count, v;
  size_t i;
  for (i = 0; i < c->tensor_count; i++) c->tensors[i].taken = 0;
  for (layer = -1; layer < m->desc.layers; layer++) {
    char prefix[32] = "";
    if (layer >= 0) {                /* in their order, behind the embedding and before the head */
      miras__say(prefix, sizeof prefix, "blocks.%d.", layer);
      for (from = layer ? to : 0; !miras__begins(prefix, m->views[from].name);) from++;
      for (to = from; miras__begins(prefix, m->views[to].name);) to++;
    }
    count = miras__match(c, m, layer, from, to, strlen(prefix), piece);
    if (count < 0) return 0;
    for (v = from; write && v < to; v++)
      if (!miras__view_fill(c, m, v, piece, count)) return 0;
  }
  for (i = 0; i < c->tensor_count; i++) {
    const miras__theirs *x = &c->tensors[i];
    if (x->taken == x->count) continue;
    if (!x->taken && (miras__begins(miras__families[c->family].dropped, x->name) ||
                      (!m->desc.untied && miras__same(x->name, "lm_head.weight")))) continue;
    return miras__reject_as(c, MIRAS_ERR_FORMAT, x->name,
                            x->taken ? "it has more rows than the model that config.json describes"
                                     : "the model that config.json describes has no such tensor");
  }
  return 1;
}

/* ---- the public calls ---- */

/* Resolve what the configuration says: 1, or a refusal. */
static MIRAS__COLD int miras__published_resolve(miras__published *c, miras__draft *draft,
                                                const miras_model_desc *d) {
  char said[256];
  const miras_result result = miras__model_resolve(draft, d, said, sizeof said);
  if (result == MIRAS_OK) return 1;
  miras__reject(c, result, "config.json");
  miras__say(c->why, c->why_size, "it describes no model that can be: %s", said);
  return 0;
}

MIRAS_API miras_result miras_checkpoint_desc(miras_model_desc *d, const char *path,
                                             const miras_allocator *allocator, char *why,
                                             size_t why_size) {
  miras__published c;
  miras__draft draft;
  miras_model_desc is;
  uint64_t numbers = 0;
  size_t i;
  if (!d || !path) return MIRAS_ERR_ARGUMENT;
  memset(&is, 0, sizeof is);
  if (miras__published_open(&c, path, allocator, why, why_size) &&
      miras__families[c.family].describe(&c, &is)) {
    is.limit = d->limit;
    is.weights = d->weights;
    for (i = 0; i < c.tensor_count; i++) numbers += c.tensors[i].count;
    if (miras__published_resolve(&c, &draft, &is)) {
      if (!miras__model_bytes_of(&draft.model, why, why_size)) c.result = MIRAS_ERR_SIZE;
      /* so that small files cannot ask for a large model */
      if (draft.model.learned / 16 > numbers)
        miras__reject_as(&c, MIRAS_ERR_FORMAT, "config.json",
                         "it describes a model far larger than its tensors");
      if (c.result == MIRAS_OK) *d = is;
    }
  }
  miras__published_end(&c);
  return c.result;
}

MIRAS_API miras_result miras_checkpoint_load(miras_model *m, const char *path, char *why,
                                             size_t why_size) {
  miras__published c;
  miras__draft draft;
  miras_model_desc is;
  size_t floats = MIRAS__TILE_ROW;
  char said[256];
  int i;
  if (!m || !path) return MIRAS_ERR_ARGUMENT;
  memset(&is, 0, sizeof is);
  if (miras__published_open(&c, path, &m->own.allocator, why, why_size) &&
      miras__families[c.family].describe(&c, &is)) {
    for (i = 0; i < MIRAS_LAYER_KINDS; i++)
      if (miras__attends(is.layer[i].type)) is.layer[i].window = m->desc.layer[i].window;
    if (!miras__published_resolve(&c, &draft, &is)) {
      /* said */
    } else if (said[0] = 0, miras__differs(&draft.model.desc, &m->desc, MIRAS__SHAPE, said,
                                           sizeof said)) {
      miras__reject_as(&c, MIRAS_ERR_MISMATCH, "config.json", said);
    } else if (miras__published_fill(&c, m, 0)) {
      for (i = 0; i < m->view_count; i++) {
        const size_t rows = miras__view_rows(&m->views[i]) * MIRAS__TILE_COLS;
        if (floats < rows) floats = rows;
      }
      c.tile = (float *)miras__lend(&c, floats, sizeof(float));
      if (c.tile) miras__published_fill(&c, m, 1);
    }
  }
  miras__published_end(&c);
  return c.result;
}
#endif

/* @99 LICENCE ---------------------------------------------------------------------------------- */

/* Choose whichever of the two suits you.
 *
 * ALTERNATIVE A: public domain
 *
 * The authors give this work to the public. Anyone may copy, change, publish, use, compile, sell
 * or distribute it, as source or as binary, for any purpose, commercial or not, by any means, and
 * without naming anyone. Where the law knows a public domain, the authors place all of their
 * copyright in this work there, for good, for everybody's benefit and to the detriment of their
 * heirs. The work comes as it is, without warranty of any kind, express or implied, including
 * those of merchantability, fitness for a purpose and non-infringement; the authors are not liable
 * for any claim or damage that arises from it or its use.
 *
 * ALTERNATIVE B: MIT
 *
 * Copyright (c) the authors of miras.h
 *
 * Permission is hereby granted, free of charge, to any person obtaining a copy of this software
 * and associated documentation files (the "Software"), to deal in the Software without
 * restriction, including without limitation the rights to use, copy, modify, merge, publish,
 * distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the
 * Software is furnished to do so, subject to the following conditions:
 *
 * The above copyright notice and this permission notice shall be included in all copies or
 * substantial portions of the Software.
 *
 * THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING
 * BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND
 * NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM,
 * DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
 * OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE. */

/* Hand the compiler's settings back to the program that included this file. */
#if defined(MIRAS__PARTIAL) && defined(__GNUC__)
  #pragma GCC diagnostic pop
#endif
#if defined(__clang__)
  #pragma STDC FP_CONTRACT DEFAULT
#elif defined(__GNUC__)
  #pragma GCC pop_options
#endif
#ifdef __CUDACC__
  #pragma nv_diagnostic pop
#endif
#undef MIRAS__IMPLEMENTING
#endif   /* region K */
