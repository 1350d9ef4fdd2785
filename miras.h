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
   @14 Plan                                defaults, ranges, refusals; sizes of a memory
   @20 Kernel table                        what is compiled once per instruction set
   @21 Vector vocabulary                   thirty operations; the only intrinsics
   @22 Vector maths                        exp, log, tanh, sigmoid, GELU, SiLU
   @23 Level 1                             dot products, sums, maps over rows
   @25 Matrix product                      one packed kernel for all shapes
   @26 Feature maps                        keys and queries before a matrix memory
   @40 Attentional biases                  choice 2: value, error, adjoint
   @41 Memory architectures                choice 1: answer, inner gradient, adjoints
   @42 Retention links                     choice 3: from the dual state to the weights
   @44 Channel products                    decays of one number per channel
   @50 Exact linear engine                 matrix memories, any chunk
   @51 Frozen-gradient engine              all others, chunk by chunk; choice 4
   @53 Mesa engine                         matrix, L2, solved by conjugate gradients
   @54 Attention engine                    the pairs themselves, read by softmax
   @56 One head                            the engines behind one door
   @65 Layer kernels                       norms, convolutions, gates, loss, optimizer
   @69 Table of this instruction set       the kernel rooms end here
   @70 Dispatch                            the best table for this machine
   @71 Large products                      BLIS, when asked for
   @72 Results                             the sentences
   @73 The table of published models       one row each; presets
   @74 One memory                          write, read, forward, backward, state
   @75 Model: shapes and parameters        views, layouts (of sessions too), initial values
   @76 Layer: forward over rows of tokens  what training and sessions share
   @77 Training                            loss, gradients, AdamW, schedule
   @78 Sessions                            one sequence, token by token; sampling
   @79 Thread pool                         POSIX threads, when asked for
   @84 Bytes and text                      checksums, little-endian words, JSON
   @85 Files                               safetensors; states of memories and sessions
   @99 Licence

   WHERE DO I CHANGE ...?

       a model's constants, or add a model      @73: one row
       a loss on the prediction error           @40: value, error, adjoint
       how a memory forgets                     @42: the link and its adjoint
       what a memory is made of                 @41, and @14 for its sizes
       a default, a range, a refusal            @14: miras__desc_resolve
       an inner loop                            @23 or @25: one text for all instruction sets
       what a block of the network does         @76 forward, @77 backward, @65 their loops
       the optimizer or the schedule            @77
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
                    two first layers; MIRAS_VECTOR scales its input; MIRAS_PAIRS keeps the pairs. A
                    perceptron stores more per byte and bends; a matrix is exact and cheap.
     bias           the loss l(M(k), v) that a write descends. The dot product adds without asking
                    what is stored already; L2 corrects the difference; L_p with p > 2 works on the
                    largest errors first; the Huber family limits what one wild pair can do.
     retention      how old content fades. None; decay; and decay with a link, where the state A
                    lives in one space and the weights W = link(A) in another: an l_q norm
                    (Moneta), a softmax that keeps every slice on a simplex (Memora), a sigmoid, a
                    threshold (elastic nets), f-divergences, or a link of your own.
     algorithm      gradient descent, once or several times per token; momentum: surprise that
                    persists over several tokens; the implicit step; or no steps at all: the
                    minimiser over all pairs so far (MIRAS_NEWTON).

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
     streams        miras_model_loss_streams carries states from window to window: training then
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
   less a threshold; of other links (p-norm, softmax in logits, sigmoid, f-divergences, custom) it
   sees the chunk's start. For chunk 1 this is the recurrence above, to the letter. For C > 1 the
   chunk is PART OF THE MODEL: a network trained with chunk 16 must run with chunk 16, and does,
   because the state remembers the chunk's start and where in the chunk it is. (A matrix whose chunk
   shares one anchor is MIRAS_MLP of depth 1 without norm.) A memory on its own has chunk 1 and
   learns from its first write.

   Two choices have engines of their own. MIRAS_NEWTON (room @53) keeps the sums of eta k k' and of
   eta k v', decayed, and solves the ridge regression over all pairs anew for every query, by
   conjugate gradients. MIRAS_PAIRS (room @54) keeps the last `window` pairs and reads them by
   softmax attention. For both, as for exact matrix memories, the chunk is only a schedule.

   SEQUENCES HAVE NO SEAMS. T tokens in one call, in two calls, or in T calls give the same bits. A
   later token never changes an earlier output.

   GRADIENTS. miras_backward returns the exact derivative of what miras_forward computed, through
   the memory's own learning steps: for keys, values, queries, gates, the initial memory, and the
   state that came in. The adjoint of each formula stands directly below the formula. Where a
   formula has a corner (Huber, L_p with p < 2), the derivative of the branch taken is used.
   MIRAS_NEWTON has the derivative of the minimiser itself, which is that of its output as far as
   the iterations have converged: a small ridge under many keys alike needs more of them.

   MODELS. miras_model is an embedding, then blocks, then a norm and the head, which shares the
   embedding's matrix unless untied. One block, with h the RMS norm of its input x:

       q, k, v = silu(causal convolution(h W_q, h W_k, h W_v)); q and k scaled to length 1 per head
       gates   = sigmoid, softplus, ... of a low-rank projection of h
       y       = memory(k, v, q, gates)
       x       = x + (norm per head(y) * silu(h W_gate)) W_o
       x       = x + SwiGLU(norm(x))

   Some rows of the table make their keys or decays otherwise: miras_keys, miras_keep. The memory
   starts every sequence from learned initial weights. In a new model with inner norms and keys of
   length 1, W_q and its convolution equal those of the keys, so that it finds what it wrote.
   Parameters lie in one flat block, gradients and the optimizer's moments in others of the same
   layout, with a table of named views: clipping, checkpoints, a gradient check, or an all-reduce
   across machines are one loop each.

   SESSIONS. A session is what one running sequence needs: a few kilobytes to megabytes, whatever
   its length. Sessions share a model and do not know each other. Their state is flat: copy it out
   to branch a text, copy it back to undo.

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
     - no GPU in this header, no half precision, no quantised weights: 32-bit floats on the CPU
     - no mixture of layer types within a model, and of a published layer only what its memory is:
       no rotary positions, no token shift, no grouped heads, no persistent tokens, no output norm
       or gate but the ones above
     - no tokenizer: tokens are integers. examples/lm.c shows bytes and characters
     - no automatic differentiation of other networks: the gradients of what is here, nothing more
     - no threads, no allocation, no printing, no files behind your back
     - no protection from hostile data beyond memory safety and the limit of miras_model_desc: a
       file is checked for damage, not for intent, and a memory will learn what it is given */

/* @02 CONFIGURATION AND PROMISES --------------------------------------------------------------- */
/*
   CONFIGURATION. Macros are defined before the include, in the file that holds the implementation;
   MIRAS_STATIC, MIRAS_PTHREADS and MIRAS_NO_STDIO change declarations and must be the same wherever
   the header is included.

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

   THREADS. The header starts none. A model takes a miras_parallel, three fields that connect it to
   your job system; miras_pool is one ready-made. Calls that only read an object (sessions reading
   their model, miras_kind_name, the views) may run at the same time; calls that change an object
   need it to themselves, and so do miras_read and miras_memory_norm, which work in its scratch.
   Different sessions of one model may run on different threads while nobody trains it. The only
   global is the cached choice of instruction set, an atomic that every thread would set to the same
   value.

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
       weights of a simplex or a sigmoid below 1e-30 do so at once. The gradient takes no notice.

   ERRORS. Calls return miras_result, or 0, NULL or NaN where that is clearer; miras_result_text
   has the sentence. A descriptor is checked once, when a size is asked for or an object is built,
   and the reason names the field, its value and what is allowed. Calls per token trust checked
   objects and check only what can be seen from their arguments. After an error nothing has changed,
   unless the call says otherwise.

   FILES. A model is a safetensors file: little-endian 32-bit floats under the names of the views,
   the descriptor and a checksum in __metadata__; other programs can read it as it is. With
   MIRAS_SAVE_TRAINING the optimizer's moments and step count are in it, and training continues to
   the bit: from a save between two steps, with the same seed and dropout, which
   miras_model_open_file takes from the file. A memory (outer parameters and state) or a session
   (state) is a block of its own with a checksum. Loading checks every size and sum against the
   object before it writes the first byte, so damage is an error and never half a model. Saving to
   a path writes a new neighbour and renames it, so that readers find the old file or the new one,
   whole, also while several save at once: the last to end stays. Nothing is forced out to the
   disk. */

/* @03 RECIPES ---------------------------------------------------------------------------------- */
/*
   Every recipe ends with its tests: a row in tests/reference.h written from the formula in double
   precision, without looking at this file, and the case lists of the tests that walk over it.

   A MODEL (a new combination of existing choices)
     1. @06   a name in miras_kind, before MIRAS_KIND_COUNT
     2. @73   its row, at the same place
     That is all: presets, names, files, training and examples/lm.c find it by themselves.

   AN ATTENTIONAL BIAS
     1. @06   a name in miras_bias; a field of miras_desc if it has a constant of its own
     2. @14   miras__desc_resolve: the default and range of that field, and its refusal elsewhere
     3. @40   a case in bias_fwd (the value and e = dl/dM) and, right below, in bias_bwd (J' times
              a vector, and the derivative by the threshold if there is one)
     The engines only call these two. If J is constant in r, say so as the dot product does.

   A RETENTION
     1. @06   a name in miras_retention, and a field for its constant
     2. @14   as above; does it have a keep gate (miras__decays)? Set linked if W is not A, so that
              the state keeps room for both, or settles if a closing chunk changes A itself; say
              in follows what a chunk that is still open reads
     3. @42   a case in the link and in its adjoint, or in the closing step and its adjoint
     Decay itself is alpha, and nothing of it is written anew.

   AN ARCHITECTURE
     1. @06, @14   a name; the layers' widths and where their weights lie
     2. @41   the pass over the tokens of a chunk, its inner gradient as pairs (input row, error
              row) per layer, and the adjoints of both. The frozen-gradient engine needs no more.

   AN INSTRUCTION SET
     1. @12   how to detect it, at compile time and at run time
     2. @20   one more include of this file, inside its target region
     3. @21   the vocabulary: about thirty operations on one vector type
     4. @70   a line in the list of tables, best first
     The kernels are written in the vocabulary and come by themselves. The tests compare every entry
     of every table with the portable one.

   A KERNEL
     1. @20   a pointer in the table
     2.       the function, in its room below
     3. @69   its name in the initialiser
     4.       a row in the kernel test: lengths from 0 to several vectors, odd strides, buffers that
              end at a guard page

   REVISIONS
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
  X(MIRAS_ERR_STATE, "the call is not possible at this point of the sequence")

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
  MIRAS_PAIRS,             /* nonparametric: the last `window` pairs themselves, read by softmax
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
  MIRAS_NEWTON,            /* exact minimiser over all pairs so far, by conjugate gradients: matrix
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
  int chunk;               /* 1..1024; 0 -> 1. Memories that run exactly (ENGINES in room @01; pairs
                              and Newton too): only a schedule, how many tokens are worked on
                              together. All others: tokens that share one anchor,
                              and part of the model; 1: every gradient at its own weights        */
  int depth;               /* MLP: layers, 1..4; 0 -> 2                                          */
  int expansion;           /* MLP of 2 to 4 layers, gated MLP: hidden width = expansion * key_dim,
                              1..16; 0 -> 4                                                      */
  miras_activation activation; /* of those: between the layers                                   */
  int inner_norm;          /* MLP, gated MLP: 1 puts a layer norm (learned gain and bias) on the
                              output                                                             */
  int inner_residual;      /* MLP, gated MLP: 1 adds the input; needs value_dim = key_dim        */
  int inner_bias;          /* MLP: 1 adds learned-at-test-time biases to the layers (TTT); needs
                              MIRAS_RETAIN_ALL, or MIRAS_RETAIN_L2 or L2_BOTH and
                              MIRAS_TOWARD_INITIAL                                               */
  miras_length key_length; /* not of pairs, and not inside a model, whose `keys` say it          */
  miras_feature feature;   /* matrix memories: the map of keys and queries                       */
  int normalise;           /* matrix, dot product: 1 divides the answer by phi(q).sum phi(k) +
                              1e-10, decayed and stepped alike; needs a feature map that is not
                              negative (ELU, RELU, RELU2, SOFTMAX)                               */
  int steps;               /* descents per token, 1..8; 0 -> 1. Every token has `steps` pairs:
                              key [batch, T, heads, steps, key_dim], value likewise, step gate
                              [batch, T, heads, steps]; the other gates act before the first and
                              the read follows the last (DeltaProduct)                           */
  int separate_erase;      /* matrix, L2: 1 takes what is erased and where from tokens.erase (a) and
                              tokens.replace (b) instead of the key: S_t = diag(alpha) S_(t-1) +
                              b (a' S_(t-1)) + eta k v' (RWKV-7: a = -kk, b = kk (.) rate); needs
                              gradient descent, steps 1, no feature map, MIRAS_ERROR_FIRST       */
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
  int window;              /* pairs: how many the memory holds, 1..2^20; 0 -> 1024. As many as the
                              longest sequence make it full attention                            */
  int iterations;          /* Newton: most steps of conjugate gradients, 1..256; 0 -> 30         */
  float tolerance;         /* Newton: stop when |residual|^2 <= tolerance |query|^2, 1e-14..1;
                              0 -> 1e-12                                                         */
  float ridge;             /* Newton: initial value of the outer parameter lambda [heads, features]
                              on the diagonal, 1e-6..1e6; 0 -> 1                                 */
  miras_gate keep_gate;    /* alpha, what a step keeps of the state                              */
  miras_gate step_gate;    /* eta, how far a step goes                                           */
  miras_gate momentum_gate;   /* theta, what is kept of the last update                          */
  miras_gate threshold_gate;  /* delta of the Huber family, shift-robust and custom biases       */
  miras_gate value_gate;   /* matrix, dot product, MIRAS_RETAIN_L2: MIRAS_GATE_CHANNEL decays the
                              value channels too: S <- diag(keep) S diag(value_keep) (DFW)       */
  miras_toward toward;     /* where the decay leads. For retentions with a keep gate, L2 both and
                              FTRL (W = A_0 + shrink(A - A_0)); it also gives f-divergences a keep
                              gate. Not with `diagonal` and Newton                               */
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
                              others see room @42; c: p - 1 of the L_p biases with p > 2, else 1.
                              2: nor does it where layers move together, which slopes do not see: no
                              layer below the last gains more than about four times what it says
                              (room @51); the same as 1 where there is one layer.
                              Needs a bias with a residual of its own (not the dot product, not a
                              custom one), and not separate_erase, Newton or the implicit step   */
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
} miras_desc;

/* T tokens for every sequence and head. Row-major, outermost first:
 *   key, query [batch, T, heads, key_dim]; value [batch, T, heads, value_dim];
 *   gates [batch, T, heads] or [batch, T, heads, channels], NULL when the descriptor says constant.
 *   With steps > 1: key [batch, T, heads, steps, key_dim], value [batch, T, heads, steps,
 *   value_dim], step [batch, T, heads, steps] or [.., steps, channels]; queries and other gates as
 *   without.
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

/* Your job system. run must call task(argument, index, worker) once for every index in 0..count-1,
 * with worker in 0..workers-1 and no two calls at the same time with the same worker, and return
 * when all are done. Results do not depend on workers, bit for bit. */
typedef struct miras_parallel {
  void (*run)(void *user, int count, void (*task)(void *argument, int index, int worker),
              void *argument);
  void *user;
  int workers;                                         /* 1..256                                 */
} miras_parallel;

/* What a layer of a model makes of keys and queries after their convolutions. */
typedef enum miras_keys {
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
} miras_keys;

/* How a model makes a learned keep gate alpha from the number g of its projection. */
typedef enum miras_keep {
  MIRAS_KEEP_SIGMOID,      /* sigmoid(g)                                                         */
  MIRAS_KEEP_ROOT,         /* sigmoid(g)^(1/16)                                (GLA)             */
  MIRAS_KEEP_RATE,         /* exp(-exp(a) softplus(g)), a learned per gate     (Mamba-2, GDN)    */
  MIRAS_KEEP_BOUNDED,      /* exp(-exp(-1/2) sigmoid(g)), in (0.545, 1)        (RWKV-7)          */
  MIRAS_KEEP_COUNT
} miras_keep;

/* For miras_model_desc.fixed_gates. */
#define MIRAS_FIXED_KEEP       1
#define MIRAS_FIXED_STEP       2
#define MIRAS_FIXED_MOMENTUM   4
#define MIRAS_FIXED_THRESHOLD  8
#define MIRAS_FIXED_VALUE_KEEP 16

/* A whole language model. Fill it with miras_model_preset. The learned gates are those of memory
 * that are not MIRAS_GATE_CONSTANT. Each is made from a number g of a projection, whose offset lets
 * it begin at the constant of the descriptor:
 *   step        step sigmoid(g): begins at half of step, which it cannot exceed
 *   threshold   threshold softplus(g), begins at threshold
 *   keep        see miras_keep, times 1 - 1/horizon where there is one; begins at 1 - f, where f =
 *               forget * forget_ratio^h for head h, kept in 1e-4..0.5; 1/64 if forget is 0
 *   momentum    sigmoid(g), begins at momentum in 0.05..0.95
 *   value keep  sigmoid(g), begins at 63/64 */
typedef struct miras_model_desc {
  miras_desc memory;       /* of every block; batch and seed are set by the model                */
  int vocab;               /* 2..2^24; no default                                                */
  int width;               /* of the residual stream, 1..65536; no default                       */
  int layers;              /* blocks, 1..256; no default                                         */
  int hidden;              /* of the SwiGLU MLP, 1..2^20; 0 -> 8/3 width, rounded up to a
                              multiple of 8                                                      */
  int conv;                /* taps of the causal convolutions, 1..8; 0 -> 4                      */
  int gate_rank;           /* rank of the projections behind the gates, 1..4096; 0 -> 32         */
  miras_keys keys;         /* what keys and queries are                                          */
  miras_keep keep;         /* how a learned keep gate is made; 0 when it is a constant           */
  int tied_step;           /* 1: the step gate is step * softplus(g) of the keep gate's own g (dt of
                              Mamba-2); needs MIRAS_KEEP_RATE and both gates per head            */
  int fixed_gates;         /* which learned gates do not depend on the token but are one learned
                              number each: a sum of MIRAS_FIXED_...                              */
  int horizon;             /* 0, or the tokens that learned keep gates may at most look back:
                              alpha is held to 1 - 1/horizon, 2..2^30                            */
  int untied;              /* 1: the head has its own matrix instead of the embedding's          */
  float dropout;           /* 0..0.9, on both residual branches and the embedding, training only */
  int batch;               /* largest batch of a training step, 0..65536; 0: inference only      */
  int streams;             /* texts whose states miras_model_loss_streams carries, 0..2^20       */
  int context;             /* longest sequence of a training step, 1..2^24 with a batch          */
  uint64_t seed;           /* of the initial parameters and of dropout                           */
  uint64_t limit;          /* most bytes that the model, or one session of it, may take: more is
                              refused, also when a file asks for it; 0: no limit                 */
  const miras_parallel *parallel; /* NULL: one thread. Must outlive the model                    */
} miras_model_desc;

/* One named parameter inside the flat block. */
typedef struct miras_view {
  char name[56];           /* e.g. "blocks.0.q.weight"                                           */
  size_t offset;           /* in floats                                                          */
  size_t count;            /* in floats: the product of shape                                    */
  int rank;                /* 1..3                                                               */
  int shape[3];            /* row-major, outermost first; unused entries are 1                   */
  int decay;               /* 1 when weight decay applies: matrices, not gains, biases, offsets  */
  float rate;              /* what AdamW multiplies the learning rate by: 1; for memory.init with
                              MIRAS_RETAIN_LQ the first size of its entries over that of weights */
} miras_view;

typedef struct miras_adamw_options {
  float beta1;             /* 0 -> 0.9                                                           */
  float beta2;             /* 0 -> 0.95                                                          */
  float epsilon;           /* 0 -> 1e-8                                                          */
  float decay;             /* decoupled weight decay: w -= lr * decay * w; 0 is none             */
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
typedef struct miras_session miras_session;

/* @07 FUNCTIONS -------------------------------------------------------------------------------- */

/* ---- the table ---- */

/* Fill d with a row of the table for use on its own: constant gates, chunk 1, sizes left 0; what it
 * then takes and holds is told in room @01, ON ITS OWN. Two rows have two pairs per token (steps 2:
 * the DeltaProducts), and one takes tokens with erase and replace (RWKV-7), so not miras_write. */
MIRAS_API miras_result miras_preset(miras_desc *d, miras_kind kind);
/* Fill d with a row for use inside a model: learned gates, the chunk of its paper. Sizes left 0. */
MIRAS_API miras_result miras_model_preset(miras_model_desc *d, miras_kind kind);
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
 * [batch, heads, value_dim]; with steps > 1 a token's pairs, key [batch, heads, steps, key_dim] and
 * value likewise. Returns the surprise: the attentional bias before the write (before the first of
 * the steps), averaged over batch and heads; with normalise of the answer before it is divided, and
 * where the chunk is part of the model at the chunk's start. Needs constant gates, no value_gate
 * and no separate_erase, which take tokens (else NaN, nothing written). */
MIRAS_API float miras_write(miras_memory *m, const float *key, const float *value);
/* out [batch, heads, value_dim] = M(W; query); the memory does not change. */
MIRAS_API void miras_read(miras_memory *m, const float *query, float *out);
/* miras_write and miras_read in one pass (the last bits may differ from the two calls'). */
MIRAS_API float miras_step(miras_memory *m, const float *key, const float *value,
                           const float *query, float *out);
/* Run T tokens: each is written, then read. y [batch, T, heads, value_dim] is overwritten. Key,
 * value, query, y and what the descriptor asks for must be there when T > 0.
 * tape: NULL, or miras_tape_size(m, T) floats that miras_backward will need (states, and room to
 * work in); taping needs a position on the chunk grid (MIRAS_ERR_STATE otherwise). Any split of a
 * sequence into calls gives the same bits. */
MIRAS_API miras_result miras_forward(miras_memory *m, const miras_tokens *x, float *y, float *tape);
/* Floats of a tape for T tokens; 0 if they do not fit into memory's addresses. */
MIRAS_API size_t miras_tape_size(const miras_memory *m, int length);
/* Exact gradient of what miras_forward computed. x and tape as in that call; dy like y.
 * dx: overwritten, not NULL itself. dparams: += in the layout of miras_memory_params, or NULL;
 * receives the initial memory's part where a memory begins, at position 0 and at its resets, and
 * with MIRAS_TOWARD_INITIAL at every position.
 * dstate: NULL, or [batch, heads, 1 or 2 (A, then momentum), weights], A being the weights
 * themselves where the state keeps these (f-divergences, Memora's paper form): in, the gradient
 * with respect to the state after the last token (which must lie on the chunk grid); out, with
 * respect to the state before the first (zero if that was the initial memory, and of heads that
 * started anew in between). Per sequence and
 * head it is for Newton H [features, features], made symmetric, then G [features, value_dim]; for
 * pairs the keys [window, key_dim], then the values [window, value_dim], token t in row t % window
 * (rows that hold no token are 0). */
MIRAS_API miras_result miras_backward(miras_memory *m, const miras_tokens *x, float *tape,
                                      const float *dy, const miras_token_grads *dx,
                                      float *dparams, float *dstate);
/* Floats of dstate above. */
MIRAS_API size_t miras_dstate_size(const miras_memory *m);
/* The outer parameters: initial memory [heads, weights], then (inner_norm) gain [heads, value_dim]
 * and bias [heads, value_dim], then (row_rates) rho [chunk]. The weights are the layers [in, out],
 * one after the other, with inner_bias each followed by its bias [out]; a gated perceptron has W_1,
 * W_2, W_3, a vector memory w [key_dim]. Newton: the initial G [heads, features, value_dim] (H
 * begins at 0), then raw [heads, features] with lambda = log(1 + exp(raw)), which no optimizer can
 * make negative. Pairs: none, count is 0. With normalise the initial sum of phi(k) [features]
 * follows each head's S, here and in dstate. Where there is a link these are the A that it maps; of
 * f-divergences and of KL they are logits. At first matrices and vectors without a link are 0, and
 * all else is random, perceptrons with variance 1/in. A change of the initial memory holds from the
 * next miras_memory_reset on (as what MIRAS_TOWARD_INITIAL leads to at once), of the others at
 * once. */
MIRAS_API float *miras_memory_params(miras_memory *m, size_t *count);
/* Forget everything: back to the initial memory. */
MIRAS_API void miras_memory_reset(miras_memory *m);
/* Tokens seen since the reset. */
MIRAS_API uint64_t miras_memory_position(const miras_memory *m);
/* Euclidean norm of the weights over all sequences and heads (with normalise, of its sums too). In
 * an open chunk: of the live weights where a memory runs exactly, else of those at its start.
 * Newton: of G at the chunk's start. Pairs: of all keys and values held. A head that starts anew
 * with the next token counts as the initial memory. */
MIRAS_API float miras_memory_norm(const miras_memory *m);
/* The state as one flat block without pointers: copy it out for a snapshot, back in for a
 * rollback. All zeros is the state after a reset. */
MIRAS_API void *miras_memory_state(miras_memory *m, size_t *bytes);

/* ---- a language model ---- */

/* As the calls of one memory. */
MIRAS_API size_t miras_model_size(const miras_model_desc *d, char *why, size_t why_size);
MIRAS_API miras_model *miras_model_init(void *buffer, size_t bytes, const miras_model_desc *d);
MIRAS_API miras_model *miras_model_open(const miras_model_desc *d,
                                        const miras_allocator *allocator);
MIRAS_API void miras_model_close(miras_model *m);
MIRAS_API const miras_model_desc *miras_model_desc_of(const miras_model *m);
/* All parameters in one block, gradients in another of the same layout (NULL when batch is 0).
 * count is the block's floats: between the views lie zeros that must stay so; what is learned is
 * the sum of the views' counts. */
MIRAS_API float *miras_model_params(miras_model *m, size_t *count);
MIRAS_API float *miras_model_grads(miras_model *m);
MIRAS_API const miras_view *miras_model_views(const miras_model *m, int *count);
/* Mean cross entropy in nats of targets [batch, T] given tokens [batch, T]; a target of -1 is left
 * out, and the mean of none is 0. train 1 applies dropout and keeps what miras_model_backward
 * needs. NaN if an argument is out of range. T may be any length up to context; sequences start
 * from the initial memory. */
MIRAS_API float miras_model_loss(miras_model *m, const int32_t *tokens, const int32_t *targets,
                                 int batch, int length, int train);
/* The same with train 1 on running texts (truncated back-propagation): row b goes on where stream
 * stream[b] stood, memories and convolutions both, and leaves it at the window's end; gradients
 * stop at its start, but reach what every window shares, the initial memory too where decays lead
 * to it. stream[b] is one of desc.streams, no two alike, or -1 for a window of its own; fresh[b]
 * not 0 starts the stream anew. fresh NULL: none is. length must be a multiple of memory.chunk.
 * Streams are part of a saved training state. */
MIRAS_API float miras_model_loss_streams(miras_model *m, const int32_t *tokens,
                                         const int32_t *targets, int batch, int length,
                                         const int32_t *stream, const unsigned char *fresh);
/* Add the gradient of the last miras_model_loss with train 1 (or miras_model_loss_streams) to
 * miras_model_grads. Once per such call, and before any other: MIRAS_ERR_STATE otherwise. */
MIRAS_API miras_result miras_model_backward(miras_model *m);
/* Clip, one AdamW step (Loshchilov 2019) on all parameters, then set the gradients to zero. o NULL:
 * the defaults, no decay, no clipping. Returns the gradient norm before clipping; if that is not
 * finite only the gradients change, and no step is counted. NaN for a model without a batch. */
MIRAS_API float miras_adamw(miras_model *m, const miras_adamw_options *o, float learning_rate);
/* AdamW steps taken so far; part of a saved training state. */
MIRAS_API uint64_t miras_model_steps(const miras_model *m);
/* Learning rate at step (0-based): linear warm-up to peak, then a cosine down to floor * peak. */
MIRAS_API float miras_cosine(uint64_t step, uint64_t warmup, uint64_t steps, float peak,
                             float floor);

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
/* Flat, without pointers, as miras_memory_state. */
MIRAS_API void *miras_session_state(miras_session *s, size_t *bytes);
/* Draw a token from logits [vocab]; -1 if an argument is out of range. */
MIRAS_API int32_t miras_sample(const float *logits, int vocab, miras_sampling *sampling);

/* ---- files ----
 * A model is a safetensors file: little-endian f32 tensors named as the views, the descriptor in
 * __metadata__. A memory's parameters and state, or a session's state (not its model), are a block
 * of their own with a checksum. Loading validates everything before it writes anything, and takes
 * a file only if the descriptors agree, in every constant and in the chunk, or it says
 * MIRAS_ERR_MISMATCH; batch, context, seed, dropout and memory.reset_every of a model and the seed
 * of a memory may differ. Callbacks are not in files. The *_to and *_from forms work on memory;
 * *_to returns the bytes needed and writes only when capacity suffices (0: more than size_t). */
#define MIRAS_SAVE_TRAINING 1      /* AdamW's moments and steps and running texts too, to go on to
                                      the bit. A model with another number of streams takes the
                                      rest and begins its own anew                               */
MIRAS_API size_t miras_model_save_to(const miras_model *m, int flags, void *buffer,
                                     size_t capacity);
MIRAS_API miras_result miras_model_load_from(miras_model *m, const void *bytes, size_t size);
/* Read the descriptor of a saved model; batch, streams, context, limit and parallel stay as they
 * are in d, and memory.custom becomes NULL. */
MIRAS_API miras_result miras_model_desc_from(miras_model_desc *d, const void *bytes, size_t size);
/* Set one field of d by its name in files, such as "memory.step" or "dropout", to what value says:
 * a number, or of an enum the word in files, such as "l2". Whether the whole means something is
 * asked later, by miras_model_size. MIRAS_ERR_ARGUMENT if there is no such field or word. */
MIRAS_API miras_result miras_model_desc_set(miras_model_desc *d, const char *field,
                                            const char *value);
MIRAS_API size_t miras_memory_save_to(const miras_memory *m, void *buffer, size_t capacity);
MIRAS_API miras_result miras_memory_load_from(miras_memory *m, const void *bytes, size_t size);
MIRAS_API size_t miras_session_save_to(const miras_session *s, void *buffer, size_t capacity);
MIRAS_API miras_result miras_session_load_from(miras_session *s, const void *bytes, size_t size);
#ifndef MIRAS_NO_STDIO
/* Saving writes a new file beside path, path.tmp- and eight letters, and renames it: path is always
 * the old file or the whole new one, however many save to it (on Windows it is missing between two
 * steps). A link at path is replaced, not followed. A killed save leaves its new file behind. Where
 * long has 32 bits, as on Windows, files from 2 GiB on are loaded by the *_from forms only. */
MIRAS_API miras_result miras_model_save(const miras_model *m, const char *path, int flags);
MIRAS_API miras_result miras_model_load(miras_model *m, const char *path);
/* Open the model that path describes, with the batch, streams, context, limit, parallel and
 * memory.custom of training (may be NULL: inference, no limit, no callbacks), and its
 * memory.reset_every where that is not 0: a model that does not last as it was trained can be given
 * resets. A few kilobytes can describe a model whose sessions take gigabytes: set a limit for files
 * from others. What is beyond it is MIRAS_ERR_SIZE before it is allocated; result may be NULL. */
MIRAS_API miras_model *miras_model_open_file(const char *path, const miras_model_desc *training,
                                             const miras_allocator *allocator,
                                             miras_result *result);
MIRAS_API miras_result miras_memory_save(const miras_memory *m, const char *path);
MIRAS_API miras_result miras_memory_load(miras_memory *m, const char *path);
MIRAS_API miras_result miras_session_save(const miras_session *s, const char *path);
MIRAS_API miras_result miras_session_load(miras_session *s, const char *path);
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

#ifdef __FAST_MATH__
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
  #define MIRAS__INLINE static inline __attribute__((always_inline, unused))
#else
  #define MIRAS__UNUSED
  #define MIRAS__INLINE static inline
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

/* Floats of scratch that a matrix product may need: a packed block of B and one of A. */
#define MIRAS__PACK 16384

/* Product and sum of sizes; 0 when the result does not fit. */
static MIRAS__UNUSED int miras__mul(size_t a, size_t b, size_t *out) {
  if (b != 0 && a > (size_t)-1 / b) return 0;
  *out = a * b;
  return 1;
}

static MIRAS__UNUSED int miras__add(size_t a, size_t b, size_t *out) {
  if (a > (size_t)-1 - b) return 0;
  *out = a + b;
  return 1;
}

/* Append n characters; `at` counts on past the end, so that truncation needs no special case. */
static size_t miras__put(char *out, size_t size, size_t at, const char *text, size_t n) {
  size_t i;
  for (i = 0; i < n; i++)
    if (at + i + 1 < size) out[at + i] = text[i];
  return at + n;
}

/* Digits of v, at least `width` of them. */
static size_t miras__put_digits(char *out, size_t size, size_t at, uint64_t v, int width) {
  char digits[24];
  int n = 0;
  do {
    digits[23 - n++] = (char)('0' + (int)(v % 10));
    v /= 10;
  } while (v != 0 || n < width);
  return miras__put(out, size, at, digits + 24 - n, (size_t)n);
}

/* Six significant digits, trailing zeros dropped, as %g writes numbers. */
static size_t miras__put_real(char *out, size_t size, size_t at, double v) {
  uint64_t digits, unit = 100000;
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
  digits = (uint64_t)(v * 1e5 + 0.5);
  if (digits >= 1000000) {
    digits = 100000;
    exponent++;
  }
  shift = exponent >= -4 && exponent < 6 ? exponent : 0;
  if (shift < 0) at = miras__put(out, size, at, "0.000", (size_t)(1 - shift));
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

/* Write a sentence for a person into why[size]: %s, %d, %zu, %g and %% of printf, without stdio and
 * without the locale. Always terminated; why may be NULL. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4), unused))
#endif
static void miras__say(char *why, size_t size, const char *format, ...) {
  size_t at = 0;
  va_list list;
  if (why == NULL || size == 0) return;
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
      at = miras__put_real(why, size, at, va_arg(list, double));
    } else {
      at = miras__put(why, size, at, format, 1);
    }
  }
  va_end(list);
  why[at < size ? at : size - 1] = 0;
}

/* @11 RANDOM NUMBERS --------------------------------------------------------------- needs 10 -- */

/* The finaliser of splitmix64 (Steele, Lea and Flood 2014): a bijection that mixes all 64 bits. */
static MIRAS__UNUSED uint64_t miras__hash(uint64_t x) {
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
} miras__arena;

/* count elements, starting on a 64-byte boundary. NULL while measuring. */
static MIRAS__UNUSED void *miras__take(miras__arena *a, size_t count, size_t element) {
  size_t bytes, at, end;
  if (!miras__add(a->used, 63, &at) || !miras__mul(count, element, &bytes)) {
    a->ok = 0;
    return NULL;
  }
  at &= ~(size_t)63;
  if (!miras__add(at, bytes, &end)) {
    a->ok = 0;
    return NULL;
  }
  a->used = end;
  return a->base != NULL && a->ok ? a->base + at : NULL;
}

/* @14 PLAN ------------------------------------------------------------------- needs 10 11 13 -- */

/* A descriptor that has been checked and resolved, with every size that follows from it. It holds
 * no pointers, so it can be compared and copied freely. Letters: C chunk, L layers, P weights.
 *
 * State of one head, in floats (each part starts on a multiple of 16):
 *   exact engine   S [features, value_dim], then with `normalise` z [features] (at once, unpadded);
 *                  for chunk > 1 the open block, miras__open
 *   frozen engine  A [P] dual state (f-divergences and Memora's paper form: the weights
 *                  themselves), W [P] = link(A) unless the link is the identity, S [P]
 *                  momentum, W_B [P] the weights that retention leads to where W is kept and B
 *                  are its logits, then the open chunk (C its pairs, steps per token): per layer
 *                  Y [C, in], D [C, out]; the last rows of the two coefficient matrices G [C],
 *                  N [C]; and 16 scalars: coefficients a, f, h of the last row, and from 4 on
 *                  1/c_0 of an LQ link per layer. With gates per channel a is [value_dim], and
 *                  the rows that carry the channels (D of the last layer, Y of the first if there
 *                  are more) are kept times their G.
 *   Mesa engine    H [n, n], G [n, value_dim] at the open chunk's start, n features of a key; its
 *                  keys [C, n] and values [C, value_dim]; the last row of coefficients N [C]; and
 *                  16 scalars, of which the first is B.
 *   attention      keys [window, key_dim], values [window, value_dim]; token t in row t % window */
enum { MIRAS__RUN_EXACT, MIRAS__RUN_FROZEN, MIRAS__RUN_NEWTON, MIRAS__RUN_PAIRS };

typedef struct miras__plan {
  miras_desc d;
  int engine;              /* which of the above runs a head                                     */
  int delta;               /* exact: the write depends on an error                               */
  int channels;            /* exact: decays are one number per feature                           */
  int implicit;            /* exact: steps are eta / (1 + eta phi(k).phi(k))                     */
  size_t rates;            /* exact: steps of a row, 1 or value_dim                              */
  int fused;               /* exact: chunk 1 and nothing that its single pass does not know      */
  size_t features;         /* width of phi(k): rows of a matrix                                  */
  int map;                 /* what keys and queries go through (room @26)                        */
  int linked;              /* the state keeps weights W = link(A) beside A                       */
  int mapped;              /* the first weights are link(initial memory), linked or not          */
  int settles;             /* closing a chunk does more to W than the recursion of A             */
  int lag;                 /* Memora's paper form: a chunk's first token is exact                */
  int follows;             /* reads of an open chunk follow A_t; else they use the anchor        */
  int channel;             /* frozen engine: keep or step is one number per channel              */
  int pulls;               /* frozen engine: (1 - a) B is part of A_t                            */
  int holds;               /* frozen engine: the state keeps the weights W_B of B                */
  int layers;              /* weight matrices: 1 of a matrix or vector, 3 of a gated perceptron  */
  int ones;                /* inputs that are the constant 1, at the end of every row: 0 or 1    */
  int in[4], out[4];       /* layer l maps in[l], ones included, to out[l]                       */
  int from[4];             /* the layer whose input layer l reads: l, or 0 where two share it    */
  int widest;              /* largest in or out                                                  */
  size_t span;             /* pairs that share an anchor: chunk * steps, and 1 for chunk 1       */
  size_t offset[4];        /* of layer l's weights [in, out] in A, W, S                          */
  size_t weights;          /* P                                                                  */
  size_t params;           /* outer parameters of all heads                                      */
  size_t at_rho;           /* of row_rates' rho [chunk] among them                               */
  size_t at_w, at_s, at_home, at_open, at_g, at_n, at_a, at_scalars;   /* offsets in the state  */
  size_t at_y[4], at_d[4];
  size_t head_state;       /* floats                                                             */
  size_t head_dstate;      /* floats of a head in miras_dstate_size                              */
  size_t sequence_state;   /* floats: header of 16, then the heads                               */
  size_t tape_chunk;       /* floats per head and chunk (exact engine: per block)                */
  size_t tape_state;       /* frozen engine: floats per anchor; chunk 1 has one for each descent */
  int tape_tokens;         /* tokens that one tape_chunk covers                                  */
  size_t tape_once;        /* floats per head and call, before its chunks                        */
  size_t scratch;          /* floats per worker for head_forward and head_read                   */
  size_t scratch_backward; /* for head_backward too; never less                                  */
} miras__plan;

#define MIRAS__BLOCK 16    /* fewest tokens per stored state in the exact engine's tape           */
#define MIRAS__SWEEP 64    /* tokens between two sweeps of a state for what has faded             */
#define MIRAS__FADED 1e-30f   /* below this                                                       */

/* What one head of one sequence reads and writes in a call. ld_* are floats between tokens; 0 for a
 * gate means a constant. Keys, values and steps of the descents of a token lie side by side.
 * surprise may be NULL. */
typedef struct miras__head_io {
  int length;
  size_t head;                                         /* which of the heads it is               */
  const float *k, *v, *q;
  size_t ldk, ldv, ldq;
  const float *keep, *step, *momentum, *threshold;
  size_t ld_keep, ld_step, ld_momentum, ld_threshold;
  const float *value_keep, *erase, *replace;           /* NULL unless the descriptor asks        */
  size_t ld_value_keep, ld_erase, ld_replace;
  const float *rho;                                    /* [chunk] of row_rates; NULL: zeros      */
  float *y;
  size_t ldy;
  float *surprise;
} miras__head_io;

/* Where the gradients of one head go; all overwritten but rho, which is added to; any pointer may
 * be NULL. */
typedef struct miras__head_grads {
  float *k, *v, *q;
  size_t ldk, ldv, ldq;
  float *keep, *step, *momentum, *threshold;
  size_t ld_keep, ld_step, ld_momentum, ld_threshold;
  float *value_keep, *erase, *replace;
  size_t ld_value_keep, ld_erase, ld_replace;
  float *rho;
} miras__head_grads;

/* Of what may be absent. */
static const float *miras__at(const float *p, size_t n) { return p ? p + n : NULL; }
static float *miras__to(float *p, size_t n) { return p ? p + n : NULL; }

/* `length` tokens from token t on. */
static miras__head_io miras__io_part(const miras__head_io *io, size_t t, size_t length) {
  miras__head_io part = *io;
  part.length = (int)length;
  part.k = miras__at(io->k, t * io->ldk);
  part.v = miras__at(io->v, t * io->ldv);
  part.q = miras__at(io->q, t * io->ldq);
  part.keep = miras__at(io->keep, t * io->ld_keep);
  part.step = miras__at(io->step, t * io->ld_step);
  part.momentum = miras__at(io->momentum, t * io->ld_momentum);
  part.threshold = miras__at(io->threshold, t * io->ld_threshold);
  part.value_keep = miras__at(io->value_keep, t * io->ld_value_keep);
  part.erase = miras__at(io->erase, t * io->ld_erase);
  part.replace = miras__at(io->replace, t * io->ld_replace);
  part.y = miras__to(io->y, t * io->ldy);
  part.surprise = miras__to(io->surprise, t);
  return part;
}

static miras__head_grads miras__grads_part(const miras__head_grads *g, size_t t) {
  miras__head_grads part = *g;
  part.k = miras__to(g->k, t * g->ldk);
  part.v = miras__to(g->v, t * g->ldv);
  part.q = miras__to(g->q, t * g->ldq);
  part.keep = miras__to(g->keep, t * g->ld_keep);
  part.step = miras__to(g->step, t * g->ld_step);
  part.momentum = miras__to(g->momentum, t * g->ld_momentum);
  part.threshold = miras__to(g->threshold, t * g->ld_threshold);
  part.value_keep = miras__to(g->value_keep, t * g->ld_value_keep);
  part.erase = miras__to(g->erase, t * g->ld_erase);
  part.replace = miras__to(g->replace, t * g->ld_replace);
  return part;
}

static size_t miras__pad(size_t n) { return (n + 15) & ~(size_t)15; }

/* The frozen engine counts pairs: pair i of a call is descent i % steps of token i / steps. Its key
 * and value are its own, its step too; the other gates are its token's. */
static const float *miras__key_at(const miras__plan *p, const miras__head_io *io, size_t i) {
  size_t steps = (size_t)p->d.steps;
  return io->k + i / steps * io->ldk + i % steps * (size_t)p->d.key_dim;
}

static const float *miras__value_at(const miras__plan *p, const miras__head_io *io, size_t i) {
  size_t steps = (size_t)p->d.steps;
  return io->v + i / steps * io->ldv + i % steps * (size_t)p->d.value_dim;
}

static const float *miras__threshold_at(const miras__plan *p, const miras__head_io *io, size_t i) {
  return io->threshold + i / (size_t)p->d.steps * io->ld_threshold;
}

/* Rows under decays of one number per channel (room @44, which has the letters). Rows x, eta,
 * alpha, z, a belong to the new tokens r0..r0+m-1 of a block; q, p to every `every`-th of them. */
typedef struct miras__channels {
  size_t n;                /* channels                                                           */
  size_t every;            /* row i is queried when (i + 1) % every == 0; r0 is a multiple       */
  int after;               /* z meets the older rows after (1) or before (0) its row's decay     */
  const float *x, *eta, *alpha, *q, *z;                /* eta, q, z may be NULL                  */
  size_t ld_x, ld_eta, ld_alpha, ld_q, ld_z;
  float *p, *a;            /* [.., rows] per query, per z: scores, or mixing weights             */
  size_t ld_p;
  float *live;             /* [rows, n] all rows of the block so far, decayed up to the newest   */
} miras__channels;

/* Cotangents of x, eta, alpha, q, z in the same shapes; added to; all but x and alpha may be NULL.
 * live: cotangent of the rows after the block's last token, or NULL. */
typedef struct miras__channel_grads {
  float *x, *eta, *alpha, *q, *z;
  size_t ld_x, ld_eta, ld_alpha, ld_q, ld_z;
  const float *live;
} miras__channel_grads;

/* Retentions by kind: an f-divergence on the simplex; one whose state decays by a keep gate. */
static int miras__divergence(miras_retention r) {
  return r == MIRAS_RETAIN_CHI2 || r == MIRAS_RETAIN_REVERSE_KL || r == MIRAS_RETAIN_HELLINGER;
}

static int miras__decays(const miras_desc *d) {
  if (miras__divergence(d->retention)) return d->toward == MIRAS_TOWARD_INITIAL;
  return d->retention != MIRAS_RETAIN_ALL && d->retention != MIRAS_RETAIN_L2_BOTH &&
         d->retention != MIRAS_RETAIN_ELASTIC_FTRL;
}

/* Shared scratch of the frozen engine; laid out by one function for sizing and for use. */
typedef struct miras__work {
  float *z[4];             /* [C, out] anchor pre-activations                                    */
  float *x[4];             /* [C, in]  query inputs                                              */
  float *zq[4];            /* [C, out] query pre-activations                                     */
  float *kq[4];            /* [C, C]   x y'                                                      */
  float *xh, *rstd;        /* [C, dv], [C] layer norm of the anchor pass; or a vector's keys     */
  float *xhq, *rstdq;      /* the same of the reads                                              */
  float *r, *e;            /* [C, dv] residual and error                                         */
  float *loss;             /* [C]                                                                */
  float *g, *n;            /* [C, C] coefficients                                                */
  float *ca, *cf, *ch;     /* [C] coefficients A, F, H; A [C, dv] with gates per channel         */
  float *pq;               /* [C, C]                                                             */
  float *t1, *t2, *t3, *t4;   /* [C, widest]; t3, t4 [widest]                                    */
  float *inv;              /* [4] 1/c_0 of a scalar link per layer                               */
  float *u, *mix;          /* [P] of an f-divergence: minus the chunk's summed steps; what they
                              start from when decays lead to W_B                                 */
  float *pack;
  float *alpha, *eta;      /* [C] of the new pairs, [C, dv] with gates per channel               */
  const float *b, *wb;     /* the initial dual state; its weights (p->holds)                     */
  const float *home;       /* where the recursion leads: b, wb, or NULL for nothing              */
  float *along, *spent;    /* bounded steps: [C] e.r and Q                                       */
  float *strain;           /* bounded steps: [C] F                                               */
  float *share;            /* bounded steps: [C] eta' / eta                                      */
  float *metric;           /* bounded steps: [P] J where it is neither a number nor W            */
  /* gates per channel only (room @44): new rows of Y_1 and D_L, and those of the chunk times G */
  float *new_y, *new_d, *live_y, *live_d;
  size_t rows;             /* backward: rows of the chunk                                        */
  /* backward only */
  float *y[4], *dd[4];     /* recomputed pairs: Y [C, in], D [C, out]                            */
  float *w, *wc, *ac;      /* [P] anchor weights; closing weights and dual state                 */
  float *back[4];          /* [C, out] (d_(l+1) W_(l+1)'), the anchor's gradient before act'     */
  float *by[4], *bd[4];    /* cotangents of Y, D                                                 */
  float *bz[4];            /* cotangents of z                                                    */
  float *dx, *dz;          /* [C, widest]                                                        */
  float *dx2, *dz2;        /* the same of the second half of a gated layer                       */
  float *bg, *bn, *bp;     /* [C, C]                                                             */
  float *ba, *bf, *bh;     /* [C], as ca, cf, ch                                                 */
  float *bw, *ba0, *bs0;   /* [P] cotangents of W_0, A_0, S_0                                    */
  float *bwc;              /* [P] cotangent of the closing weights                               */
  float *row;              /* [8 * max(widest, C)] rows for temporaries                          */
  float *balpha, *beta;    /* as alpha, eta                                                      */
  float *bhome, *bwb;      /* of home (b's are dw0); [P] of wb                                   */
  float *again;            /* [P] wb                                                             */
  float *balong;           /* bounded steps: [C] of e.r                                          */
  float *bspent, *bstrain; /* bounded steps: [C] of Q and F                                      */
  float *bmetric;          /* bounded steps: [P] of J                                            */
  float *live, *blive_y, *blive_d, *history;           /* gates per channel only                 */
} miras__work;

static float *miras__lay(float *base, size_t *used, size_t n) {
  float *at = base ? base + *used : base;
  *used += miras__pad(n);
  return at;
}

/* What the exact engine keeps of a block of rows: a token's pair is one row, or `steps` rows. */
typedef struct miras__open {
  float *x, *u;            /* the pairs: [features, ld], a column per row; [rows, dv]. Where decays
                              are per channel, x [rows, features] and u of a value gate are as
                              they are now, decayed up to the newest row                         */
  float *xb, *t;           /* separate erase: the same of replace and what was read at erase     */
  float *eta;              /* normalise: [rows]                                                  */
  float *l;                /* [rows] what is left of each row; none with channels                */
  float *c;                /* what is left of S_0: one number, or [features]                     */
  float *cv;               /* value gate: [dv]                                                   */
} miras__open;

static size_t miras__open_layout(const miras__plan *p, float *base, size_t rows, miras__open *o) {
  size_t used = 0, n = p->features, dv = (size_t)p->d.value_dim;
  size_t pairs = p->d.separate_erase ? rows : 0;
  o->x = miras__lay(base, &used, (p->channels ? rows : miras__pad(rows)) * n);
  o->u = miras__lay(base, &used, rows * dv);
  o->xb = miras__lay(base, &used, (p->channels ? pairs : miras__pad(pairs)) * n);
  o->t = miras__lay(base, &used, pairs * dv);
  o->eta = miras__lay(base, &used, p->d.normalise ? rows : 0);
  o->l = miras__lay(base, &used, p->channels ? 0 : rows);
  o->c = miras__lay(base, &used, p->channels ? n : 1);
  o->cv = miras__lay(base, &used, p->d.value_gate ? dv : 0);
  return used;
}

/* Shared scratch of the exact engine. R is the rows of a block, padded where scores lie; a stack is
 * the rows that read the state for an error (R of them, where there are errors) and then those of
 * the queries. */
typedef struct miras__block {
  size_t ld;               /* padded R: the distance between rows of scores                      */
  miras__open open;        /* where the state holds no open block                                */
  float *pack;
  float *x, *xb;           /* [R, features] phi(k), replace                                      */
  float *alpha;            /* [R] or [R, features]                                               */
  float *beta, *u, *raw;   /* value gate: [R, dv] gates, rows u, answers of S_0 before cv        */
  float *eta, *den;        /* [R, rates] steps in use; [R] normalisers                           */
  float *zq, *zc;          /* [stack, features] rows that read; times what is left of S_0        */
  float *ss;               /* [stack, dv] what they read                                         */
  float *kx, *kb;          /* [stack, R] products with x, xb                                     */
  float *p, *pb;           /* [stack, R] the same times what is left of the row                  */
  float *l;                /* [R + 1, R] coefficients of rows                                    */
  float *c, *cv;           /* [R + 1] or [R + 1, features]; [R + 1, dv]                          */
  float *row;              /* [max(features, dv)]                                                */
  float *f;                /* toward the initial memory: [weights] S_0 less that                 */
  /* backward only: cotangents, named after what they belong to */
  float *r;                /* [stack, dv] of what was read                                       */
  float *bu, *bt;          /* [R, dv]                                                            */
  float *bx, *bxb;         /* [R, features]                                                      */
  float *xe, *xeb;         /* [R, features] of the decayed rows at the block's end               */
  float *bz;               /* [stack, features]                                                  */
  float *bm, *bmb;         /* [stack, R] of p, pb                                                */
  float *bl, *bc, *bcv;    /* as l, c, cv                                                        */
  float *ba, *bb;          /* [R, features], [R, dv] of alpha and beta per channel               */
  float *bstep, *bden;     /* as eta, den                                                        */
  float *history;          /* [16 R]                                                             */
  float *bs;               /* [weights] of the state                                             */
} miras__block;

static size_t miras__block_layout(const miras__plan *p, float *base, size_t rows, int backward,
                                  miras__block *k) {
  size_t used = 0, n = p->features, dv = (size_t)p->d.value_dim, wide = n > dv ? n : dv;
  size_t stack = (p->delta ? rows : 0) + rows / (size_t)p->d.steps;
  size_t room = stack > rows ? stack : rows, deep = wide > rows ? wide : rows;
  size_t erase = p->d.separate_erase ? 1 : 0, value = p->d.value_gate ? 1 : 0;
  size_t scalar = p->channels ? 0 : 1, per = p->channels ? n : 1, ld = miras__pad(rows);
  if (deep > 128) deep = 128;
  /* with blocks this short gemm packs no more than one panel of 64 columns, 128 deep (room @25) */
  k->pack = miras__lay(base, &used, rows < 32 ? 64 * deep : MIRAS__PACK);
  k->ld = ld;
  used += miras__open_layout(p, base ? base + used : base,
                             backward || p->d.chunk == 1 ? rows : 0, &k->open);
  k->x = miras__lay(base, &used, rows * n);
  k->xb = miras__lay(base, &used, erase * rows * n);
  k->alpha = miras__lay(base, &used, rows * per);
  k->beta = miras__lay(base, &used, value * rows * dv);
  k->u = miras__lay(base, &used, value * rows * dv);
  k->raw = miras__lay(base, &used, value * rows * dv);
  k->eta = miras__lay(base, &used, rows * p->rates);
  k->den = miras__lay(base, &used, rows);
  k->zq = miras__lay(base, &used, room * n);
  k->zc = miras__lay(base, &used, (room > ld ? room : ld) * n);
  k->ss = miras__lay(base, &used, room * dv);
  k->kx = miras__lay(base, &used, scalar * stack * ld);
  k->kb = miras__lay(base, &used, scalar * erase * stack * ld);
  k->p = miras__lay(base, &used, stack * ld);
  k->pb = miras__lay(base, &used, erase * stack * ld);
  k->l = miras__lay(base, &used, scalar * (rows + 1) * ld);
  k->c = miras__lay(base, &used, (rows + 1) * per);
  k->cv = miras__lay(base, &used, value * (rows + 1) * dv);
  k->row = miras__lay(base, &used, wide);
  k->f = miras__lay(base, &used, p->d.toward ? p->weights : 0);
  if (!backward) return used;
  k->r = miras__lay(base, &used, stack * dv);
  k->bu = miras__lay(base, &used, rows * dv);
  k->bt = miras__lay(base, &used, (erase + value) * rows * dv);
  k->bx = miras__lay(base, &used, rows * n);
  k->bxb = miras__lay(base, &used, erase * rows * n);
  k->xe = miras__lay(base, &used, rows * n);
  k->xeb = miras__lay(base, &used, erase * rows * n);
  k->bz = miras__lay(base, &used, room * n);
  k->bm = miras__lay(base, &used, stack * ld);
  k->bmb = miras__lay(base, &used, erase * stack * ld);
  k->bl = miras__lay(base, &used, scalar * (rows + 1) * ld);
  k->bc = miras__lay(base, &used, (rows + 1) * per);
  k->bcv = miras__lay(base, &used, value * (rows + 1) * dv);
  k->ba = miras__lay(base, &used, p->channels ? rows * n : 0);
  k->bb = miras__lay(base, &used, value * rows * dv);
  k->bstep = miras__lay(base, &used, rows * p->rates);
  k->bden = miras__lay(base, &used, rows);
  k->history = miras__lay(base, &used, p->channels || value ? 16 * rows : 0);
  k->bs = miras__lay(base, &used, p->weights);
  return used;
}

/* Floats of scratch, and the pointers when base is given; what only the adjoint needs is last. */
static size_t miras__work_layout(const miras__plan *p, float *base, int backward, miras__work *w) {
  size_t used = 0, c = p->span, dv = (size_t)p->d.value_dim;
  size_t wide = (size_t)p->widest, most = wide > c ? wide : c;
  size_t deep = most < 128 ? most : 128;
  int l;
  /* with chunks this short gemm packs no more than one panel of 64 columns, 128 deep (room @25) */
  w->pack = miras__lay(base, &used, c < 16 ? 64 * deep : MIRAS__PACK);
  for (l = 0; l < p->layers; l++) {
    size_t in = (size_t)p->in[l], out = (size_t)p->out[l];
    int own = p->from[l] == l;
    w->z[l] = miras__lay(base, &used, c * out);
    w->back[l] = miras__lay(base, &used, c * out);
    w->x[l] = own ? miras__lay(base, &used, c * in) : w->x[p->from[l]];
    w->zq[l] = miras__lay(base, &used, c * out);
    w->kq[l] = own ? miras__lay(base, &used, c * c) : w->kq[p->from[l]];
  }
  w->xh = miras__lay(base, &used, c * dv);
  w->rstd = miras__lay(base, &used, c);
  w->xhq = miras__lay(base, &used, c * dv);
  w->rstdq = miras__lay(base, &used, c);
  w->r = miras__lay(base, &used, c * dv);
  w->e = miras__lay(base, &used, c * dv);
  w->loss = miras__lay(base, &used, c);
  w->g = miras__lay(base, &used, c * c);
  w->n = miras__lay(base, &used, c * c);
  w->ca = miras__lay(base, &used, p->channel ? c * dv : c);
  w->cf = miras__lay(base, &used, c);
  w->ch = miras__lay(base, &used, c);
  w->pq = miras__lay(base, &used, c * c);
  w->t1 = miras__lay(base, &used, c * wide);
  w->t3 = miras__lay(base, &used, wide);
  w->t4 = miras__lay(base, &used, wide);
  w->inv = miras__lay(base, &used, 4);
  w->u = miras__lay(base, &used, miras__divergence(p->d.retention) ? p->weights : 0);
  w->mix = miras__lay(base, &used, miras__divergence(p->d.retention) && p->holds ? p->weights : 0);
  w->alpha = miras__lay(base, &used, p->channel ? c * dv : c);
  w->eta = miras__lay(base, &used, p->channel ? c * dv : c);
  w->b = w->wb = w->home = NULL;
  w->along = miras__lay(base, &used, p->d.bounded_step ? c : 0);
  w->spent = miras__lay(base, &used, p->d.bounded_step ? c : 0);
  w->strain = miras__lay(base, &used, p->d.bounded_step ? c : 0);
  w->share = miras__lay(base, &used, p->d.bounded_step ? c : 0);
  w->metric = miras__lay(base, &used, p->d.simplex_signed ||
                         (p->d.bounded_step && p->mapped) ? p->weights : 0);
  w->new_y = miras__lay(base, &used, p->channel ? c * (size_t)p->in[0] : 0);
  w->new_d = miras__lay(base, &used, p->channel ? c * dv : 0);
  w->live_y = w->live_d = NULL;
  w->rows = 0;
  if (!backward) return used;
  for (l = 0; l < p->layers; l++) {
    size_t in = (size_t)p->in[l], out = (size_t)p->out[l];
    int own = p->from[l] == l;
    w->y[l] = own ? miras__lay(base, &used, c * in) : w->y[p->from[l]];
    w->dd[l] = miras__lay(base, &used, c * out);
    w->by[l] = own ? miras__lay(base, &used, c * in) : w->by[p->from[l]];
    w->bd[l] = miras__lay(base, &used, c * out);
    w->bz[l] = miras__lay(base, &used, c * out);
  }
  w->w = miras__lay(base, &used, p->weights);
  w->wc = miras__lay(base, &used, p->weights);
  w->ac = miras__lay(base, &used, p->weights);
  w->t2 = miras__lay(base, &used, c * wide);
  w->dx = miras__lay(base, &used, c * wide);
  w->dz = miras__lay(base, &used, c * wide);
  w->dx2 = miras__lay(base, &used, p->d.architecture == MIRAS_GATED_MLP ? c * wide : 0);
  w->dz2 = miras__lay(base, &used, p->d.architecture == MIRAS_GATED_MLP ? c * wide : 0);
  w->bg = miras__lay(base, &used, c * c);
  w->bn = miras__lay(base, &used, c * c);
  w->bp = miras__lay(base, &used, c * c);
  w->ba = miras__lay(base, &used, p->channel ? c * dv : c);
  w->bf = miras__lay(base, &used, c);
  w->bh = miras__lay(base, &used, c);
  w->bw = miras__lay(base, &used, p->weights);
  w->ba0 = miras__lay(base, &used, p->weights);
  w->bs0 = miras__lay(base, &used, p->weights);
  w->bwc = miras__lay(base, &used, p->weights);
  w->row = miras__lay(base, &used, 8 * most);
  w->balpha = miras__lay(base, &used, p->channel ? c * dv : c);
  w->beta = miras__lay(base, &used, p->channel ? c * dv : c);
  w->bhome = NULL;
  w->bwb = miras__lay(base, &used, p->holds ? p->weights : 0);
  w->again = miras__lay(base, &used, p->holds ? p->weights : 0);
  w->balong = miras__lay(base, &used, p->d.bounded_step ? c : 0);
  w->bspent = miras__lay(base, &used, p->d.bounded_step ? c : 0);
  w->bstrain = miras__lay(base, &used, p->d.bounded_step ? c : 0);
  w->bmetric = miras__lay(base, &used, p->d.bounded_step && p->mapped ? p->weights : 0);
  if (!p->channel) return used;
  w->live_y = miras__lay(base, &used, c * (size_t)p->in[0]);
  w->live_d = miras__lay(base, &used, c * dv);
  w->live = miras__lay(base, &used, c * dv);
  w->blive_y = miras__lay(base, &used, c * (size_t)p->in[0]);
  w->blive_d = miras__lay(base, &used, c * dv);
  w->history = miras__lay(base, &used, 16 * c);
  return used;
}

/* Scratch of the Mesa engine (room @53), laid out like that of the frozen engine. */
typedef struct miras__newton_work {
  float *pack;
  float *lambda;           /* [n]                                                                */
  float *n, *b;            /* [C + 1, C], [C + 1] coefficients; row 0 is the one before          */
  float *kt;               /* [n, C] keys, transposed                                            */
  float *x;                /* [C, n] solutions                                                   */
  float *r, *s, *u;        /* [C, n] residuals, directions, A times directions                   */
  float *w;                /* [C, C] products with keys                                          */
  float *rr, *limit;       /* [C] |r|^2, negative once a row is done; where it may stop          */
  float *row;              /* [dv]                                                               */
  /* backward only */
  float *k, *v;            /* [C, n], [C, dv]                                                    */
  float *z, *t;            /* [C, n] second solutions; do G_0', then z H_0                       */
  float *xk, *zk, *vo;     /* [C, C] x k', z k', do v'                                           */
  float *bn, *bb;          /* [C, C], [C] cotangents of N, B                                     */
  float *bk, *bv, *o;      /* [C, n], [C, dv] cotangents of k, v; [C, dv]                        */
  float *bh, *bg;          /* [n, n], [n, dv] cotangents of H, G                                 */
  float *square;           /* [n, n]                                                             */
  float *blambda;          /* [n]                                                                */
} miras__newton_work;

static size_t miras__newton_layout(const miras__plan *p, float *base, int backward,
                                   miras__newton_work *w) {
  size_t used = 0, c = (size_t)p->d.chunk, n = (size_t)p->in[0], dv = (size_t)p->d.value_dim;
  w->pack = miras__lay(base, &used, MIRAS__PACK);
  w->lambda = miras__lay(base, &used, n);
  w->n = miras__lay(base, &used, (c + 1) * c);
  w->b = miras__lay(base, &used, c + 1);
  w->kt = miras__lay(base, &used, n * c);
  w->x = miras__lay(base, &used, c * n);
  w->r = miras__lay(base, &used, c * n);
  w->s = miras__lay(base, &used, c * n);
  w->u = miras__lay(base, &used, c * n);
  w->w = miras__lay(base, &used, c * c);
  w->rr = miras__lay(base, &used, c);
  w->limit = miras__lay(base, &used, c);
  w->row = miras__lay(base, &used, dv);
  if (!backward) return used;
  w->k = miras__lay(base, &used, c * n);
  w->v = miras__lay(base, &used, c * dv);
  w->z = miras__lay(base, &used, c * n);
  w->t = miras__lay(base, &used, c * n);
  w->xk = miras__lay(base, &used, c * c);
  w->zk = miras__lay(base, &used, c * c);
  w->vo = miras__lay(base, &used, c * c);
  w->bn = miras__lay(base, &used, c * c);
  w->bb = miras__lay(base, &used, c);
  w->bk = miras__lay(base, &used, c * n);
  w->bv = miras__lay(base, &used, c * dv);
  w->o = miras__lay(base, &used, c * dv);
  w->bh = miras__lay(base, &used, n * n);
  w->bg = miras__lay(base, &used, n * dv);
  w->square = miras__lay(base, &used, n * n);
  w->blambda = miras__lay(base, &used, n);
  return used;
}

#define MIRAS__KEYS 64     /* pairs that attention takes in between two looks at the maximum     */

/* Scratch of the attention engine (room @54) for blocks of C queries, C = chunk up to 64. */
typedef struct miras__pairs_work {
  float *pack;
  float *qt;               /* [dk, C] queries / sqrt(dk), transposed                             */
  float *s;                /* [KEYS, C] scores, then weights                                     */
  float *o;                /* [C, dv]                                                            */
  float *top, *sum, *fade; /* [C] maximum; sum of weights; what the last block left of them      */
  float *k, *v;            /* [KEYS, dk], [KEYS, dv] pairs that do not lie together              */
  /* backward only */
  float *q, *bq;           /* [C, dk] queries / sqrt(dk); their cotangents                       */
  float *bot;              /* [dv, C] cotangents of the outputs, transposed                      */
  float *bs;               /* [KEYS, C] cotangents of weights, then of scores                    */
  float *along;            /* [C] bo . o                                                         */
} miras__pairs_work;

static size_t miras__pairs_layout(const miras__plan *p, float *base, int backward,
                                  miras__pairs_work *w) {
  size_t used = 0, c = p->d.chunk < MIRAS__KEYS ? (size_t)p->d.chunk : MIRAS__KEYS;
  size_t dk = (size_t)p->d.key_dim, dv = (size_t)p->d.value_dim;
  w->pack = miras__lay(base, &used, MIRAS__PACK);
  w->qt = miras__lay(base, &used, dk * c);
  w->s = miras__lay(base, &used, MIRAS__KEYS * c);
  w->o = miras__lay(base, &used, c * dv);
  w->top = miras__lay(base, &used, c);
  w->sum = miras__lay(base, &used, c);
  w->fade = miras__lay(base, &used, c);
  w->k = miras__lay(base, &used, MIRAS__KEYS * dk);
  w->v = miras__lay(base, &used, MIRAS__KEYS * dv);
  if (!backward) return used;
  w->q = miras__lay(base, &used, c * dk);
  w->bq = miras__lay(base, &used, c * dk);
  w->bot = miras__lay(base, &used, dv * c);
  w->bs = miras__lay(base, &used, MIRAS__KEYS * c);
  w->along = miras__lay(base, &used, c);
  return used;
}

static int miras__whole(char *why, size_t size, const char *field, int value, int low, int high) {
  if (value >= low && value <= high) return 1;
  miras__say(why, size, "%s is %d; it must lie in %d..%d", field, value, low, high);
  return 0;
}

static int miras__real(char *why, size_t size, const char *field, float value, double low,
                       double high) {
  if (value >= (float)low && value <= (float)high) return 1;   /* 1e-8f lies below 1e-8 */
  miras__say(why, size, "%s is %g; it must lie in %g..%g", field, (double)value, low, high);
  return 0;
}

/* A field that the other choices leave without a meaning must be zero: nothing is ignored. */
static int miras__unused(char *why, size_t size, const char *field, double value,
                         const char *needs) {
  if (value >= 0 && value <= 0) return 1;
  miras__say(why, size, "%s is %g, but it has a meaning only with %s; set it to 0", field, value,
             needs);
  return 0;
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

/* Numbers per token, head and descent of a gate that is not constant, else 0. A channel is an entry
 * of the value, but for the keep gate of a matrix memory: there, of the key as it is seen. */
static size_t miras__lanes(const miras_desc *d, miras_gate gate) {
  return gate == MIRAS_GATE_CHANNEL ? (size_t)d->value_dim : gate == MIRAS_GATE_HEAD;
}

static size_t miras__keep_lanes(const miras_desc *d) {
  return d->keep_gate == MIRAS_GATE_CHANNEL && d->architecture == MIRAS_MATRIX
           ? (size_t)miras__features(d) : miras__lanes(d, d->keep_gate);
}

/* Gates of one number per channel: where they mean something. */
static int miras__channel_gates(const miras_desc *d, int exact, char *why, size_t n) {
  int keep = d->keep_gate == MIRAS_GATE_CHANNEL, step = d->step_gate == MIRAS_GATE_CHANNEL;
  int threshold = d->threshold_gate == MIRAS_GATE_CHANNEL, deep;
  const char *field = keep && !exact ? "keep_gate" : step ? "step_gate" : "threshold_gate";
  if (exact && step && (d->normalise || d->diagonal)) {
    miras__say(why, n, "step_gate is MIRAS_GATE_CHANNEL (%d) with normalise %d and diagonal %d; "
                       "both need one step per token", (int)MIRAS_GATE_CHANNEL, d->normalise,
               d->diagonal);
    return 0;
  }
  if (exact && !threshold) return 1;
  if (!keep && !step && !threshold) return 1;
  deep = d->architecture == MIRAS_GATED_MLP || (d->architecture == MIRAS_MLP && d->depth > 1);
  if (d->architecture == MIRAS_MATRIX || (d->architecture == MIRAS_MLP && d->depth > 2)) {
    miras__say(why, n, "%s is MIRAS_GATE_CHANNEL (%d), which needs architecture MIRAS_VECTOR, "
                       "MIRAS_GATED_MLP or MIRAS_MLP of depth 1 or 2%s", field,
               (int)MIRAS_GATE_CHANNEL,
               keep || step ? "; or a matrix memory that runs exactly" : "");
  } else if (threshold && d->bias == MIRAS_CUSTOM_BIAS) {
    miras__say(why, n, "threshold_gate is MIRAS_GATE_CHANNEL (%d) with bias MIRAS_CUSTOM_BIAS "
                       "(%d), whose functions take one threshold", (int)MIRAS_GATE_CHANNEL,
               (int)d->bias);
  } else if ((keep || step) && d->algorithm != MIRAS_GRADIENT_DESCENT) {
    miras__say(why, n, "%s is MIRAS_GATE_CHANNEL (%d) with algorithm %d; it needs "
                       "MIRAS_GRADIENT_DESCENT", field, (int)MIRAS_GATE_CHANNEL,
               (int)d->algorithm);
  } else if ((keep || step) && deep && d->key_dim != d->value_dim) {
    miras__say(why, n, "%s is MIRAS_GATE_CHANNEL (%d) with key_dim %d and value_dim %d; deeper "
                       "than one layer a channel is an input and an output, so the two must be "
                       "equal",
               field, (int)MIRAS_GATE_CHANNEL, d->key_dim, d->value_dim);
  } else if ((keep || step) && d->row_rates) {
    miras__say(why, n, "%s is MIRAS_GATE_CHANNEL (%d) with row_rates %d; rates of rows need one "
                       "gate per token", field, (int)MIRAS_GATE_CHANNEL, d->row_rates);
  } else if ((keep || step) && deep && d->inner_bias) {
    miras__say(why, n, "%s is MIRAS_GATE_CHANNEL (%d) with inner_bias 1 and depth %d; the bias of "
                       "the first layer belongs to no channel", field, (int)MIRAS_GATE_CHANNEL,
               d->depth);
  } else if ((keep || step) && d->retention == MIRAS_RETAIN_ELASTIC) {
    miras__say(why, n, "%s is MIRAS_GATE_CHANNEL (%d) with retention MIRAS_RETAIN_ELASTIC (%d); "
                       "the threshold of its closing chunk is one number, so gates must be too",
               field, (int)MIRAS_GATE_CHANNEL, (int)d->retention);
  } else if (keep && d->simplex_whole) {
    miras__say(why, n, "keep_gate is MIRAS_GATE_CHANNEL (%d) with simplex_whole %d; a slice has "
                       "one decay, so slices must be channels: set it to 0",
               (int)MIRAS_GATE_CHANNEL, d->simplex_whole);
  } else {
    return 1;
  }
  return 0;
}

/* Tokens between two places where a memory can start anew: those between two states of a tape. */
static int miras__reset_grid(const miras_desc *d) {
  return d->chunk * ((MIRAS__BLOCK + d->chunk - 1) / d->chunk);
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

/* Is the update linear in the state? Then a chunk is only a schedule (room @50). */
static int miras__is_exact(const miras_desc *d) {
  return d->architecture == MIRAS_MATRIX && (d->bias == MIRAS_DOT || d->bias == MIRAS_L2) &&
         (d->retention == MIRAS_RETAIN_ALL || d->retention == MIRAS_RETAIN_L2) &&
         (d->algorithm == MIRAS_GRADIENT_DESCENT || d->algorithm == MIRAS_IMPLICIT);
}

/* One of the four choices must have this value beside another choice. */
static int miras__needs(char *why, size_t size, const char *choice, const char *field, int value,
                        int needed, const char *name) {
  if (value == needed) return 1;
  miras__say(why, size, "%s needs %s %s; %s is %d", choice, field, name, field, value);
  return 0;
}

/* MIRAS_NEWTON: what it goes with, and its own fields. */
static int miras__resolve_newton(miras_desc *d, char *why, size_t n) {
  static const char newton[] = "algorithm MIRAS_NEWTON";
  if (d->algorithm != MIRAS_NEWTON)
    return miras__unused(why, n, "iterations", d->iterations, newton) &&
           miras__unused(why, n, "tolerance", (double)d->tolerance, newton) &&
           miras__unused(why, n, "ridge", (double)d->ridge, newton);
  if (!miras__needs(why, n, newton, "architecture", (int)d->architecture, MIRAS_MATRIX,
                    "MIRAS_MATRIX") ||
      !miras__needs(why, n, newton, "bias", (int)d->bias, MIRAS_L2, "MIRAS_L2") ||
      !miras__needs(why, n, newton, "order", (int)d->order, MIRAS_ERROR_FIRST,
                    "MIRAS_ERROR_FIRST") ||
      !miras__whole(why, n, "feature", (int)d->feature, 0, MIRAS_FEATURE_COUNT - 1) ||
      !miras__needs(why, n, newton, "normalise", d->normalise, 0, "0") ||
      !miras__needs(why, n, newton, "separate_erase", d->separate_erase, 0, "0") ||
      !miras__needs(why, n, newton, "diagonal", d->diagonal, 0, "0") ||
      !miras__needs(why, n, newton, "row_rates", d->row_rates, 0, "0") ||
      !miras__needs(why, n, newton, "toward", (int)d->toward, 0, "MIRAS_TOWARD_NOTHING") ||
      !miras__needs(why, n, newton, "bounded_step", d->bounded_step, 0, "0") ||
      !miras__needs(why, n, newton, "value_gate", (int)d->value_gate, 0, "MIRAS_GATE_CONSTANT"))
    return 0;
  if (d->retention != MIRAS_RETAIN_ALL && d->retention != MIRAS_RETAIN_L2) {
    miras__say(why, n, "retention is %d; algorithm MIRAS_NEWTON needs MIRAS_RETAIN_ALL or "
                       "MIRAS_RETAIN_L2", (int)d->retention);
    return 0;
  }
  if (d->keep_gate == MIRAS_GATE_CHANNEL || d->step_gate == MIRAS_GATE_CHANNEL) {
    miras__say(why, n, "%s is MIRAS_GATE_CHANNEL (%d); algorithm MIRAS_NEWTON needs "
                       "MIRAS_GATE_CONSTANT or MIRAS_GATE_HEAD",
               d->keep_gate == MIRAS_GATE_CHANNEL ? "keep_gate" : "step_gate",
               (int)MIRAS_GATE_CHANNEL);
    return 0;
  }
  if (!miras__whole(why, n, "steps", d->steps, 0, 1)) return 0;
  if (!d->iterations) d->iterations = 30;
  if (d->tolerance >= 0 && d->tolerance <= 0) d->tolerance = 1e-12f;
  if (d->ridge >= 0 && d->ridge <= 0) d->ridge = 1;
  return miras__whole(why, n, "iterations", d->iterations, 1, 256) &&
         miras__real(why, n, "tolerance", d->tolerance, 1e-14, 1) &&
         miras__real(why, n, "ridge", d->ridge, 1e-6, 1e6);
}

/* MIRAS_PAIRS: what it goes with, and its own field. Nothing is learned step by step, so there are
 * no gates. */
static int miras__resolve_pairs(miras_desc *d, char *why, size_t n) {
  static const char pairs[] = "architecture MIRAS_PAIRS", other[] = "another architecture";
  if (d->architecture != MIRAS_PAIRS) return miras__unused(why, n, "window", d->window, pairs);
  if (!miras__needs(why, n, pairs, "bias", (int)d->bias, MIRAS_L2, "MIRAS_L2") ||
      !miras__needs(why, n, pairs, "retention", (int)d->retention, MIRAS_RETAIN_ALL,
                    "MIRAS_RETAIN_ALL") ||
      !miras__needs(why, n, pairs, "algorithm", (int)d->algorithm, MIRAS_GRADIENT_DESCENT,
                    "MIRAS_GRADIENT_DESCENT") ||
      !miras__needs(why, n, pairs, "order", (int)d->order, MIRAS_ERROR_FIRST,
                    "MIRAS_ERROR_FIRST") ||
      !miras__needs(why, n, pairs, "feature", (int)d->feature, MIRAS_FEATURE_IDENTITY,
                    "MIRAS_FEATURE_IDENTITY") ||
      !miras__unused(why, n, "step_gate", (double)d->step_gate, other) ||
      !miras__unused(why, n, "value_gate", (double)d->value_gate, other) ||
      !miras__unused(why, n, "step", (double)d->step, other) ||
      !miras__unused(why, n, "normalise", d->normalise, other) ||
      !miras__unused(why, n, "separate_erase", d->separate_erase, other) ||
      !miras__unused(why, n, "diagonal", d->diagonal, other) ||
      !miras__unused(why, n, "row_rates", d->row_rates, other) ||
      !miras__unused(why, n, "bounded_step", d->bounded_step, other) ||
      !miras__unused(why, n, "key_length", (double)d->key_length, other) ||
      !miras__whole(why, n, "steps", d->steps, 0, 1))
    return 0;
  if (!d->window) d->window = 1024;
  return miras__whole(why, n, "window", d->window, 1, 1 << 20);
}

/* Replace zeros by defaults and refuse what is not meant. One sentence per refusal. */
static miras_result miras__desc_resolve(miras_desc *d, char *why, size_t n) {
  const char *keeps = "a retention that has a keep gate (MIRAS_RETAIN_L2, LQ, LQ_PNORM, KL, "
                      "ELASTIC, SIGMOID, CUSTOM, or an f-divergence with toward)";
  int mlp = d->architecture == MIRAS_MLP, gated = d->architecture == MIRAS_GATED_MLP;
  int decays = miras__decays(d), bounded = miras__has_threshold(d->bias), grid;
  int lp = d->bias == MIRAS_LP || d->bias == MIRAS_LP_SMOOTH;
  int smooth = d->bias == MIRAS_LP_SMOOTH || d->bias == MIRAS_HUBER_MIXTURE;
  int lq = d->retention == MIRAS_RETAIN_LQ || d->retention == MIRAS_RETAIN_LQ_PNORM;
  int kl = d->retention == MIRAS_RETAIN_KL, momentum = d->algorithm == MIRAS_MOMENTUM;
  int exact = miras__is_exact(d), matrix = d->architecture == MIRAS_MATRIX;
  int simplex = kl || miras__divergence(d->retention), elastic = d->retention ==
      MIRAS_RETAIN_ELASTIC || d->retention == MIRAS_RETAIN_ELASTIC_FTRL;
  int both = d->retention == MIRAS_RETAIN_L2_BOTH;
  int pairs = d->architecture == MIRAS_PAIRS;
  if (!miras__whole(why, n, "architecture", (int)d->architecture, 0,
                    MIRAS_ARCHITECTURE_COUNT - 1) ||
      !miras__whole(why, n, "bias", (int)d->bias, 0, MIRAS_BIAS_COUNT - 1) ||
      !miras__whole(why, n, "retention", (int)d->retention, 0, MIRAS_RETENTION_COUNT - 1) ||
      !miras__whole(why, n, "algorithm", (int)d->algorithm, 0, MIRAS_ALGORITHM_COUNT - 1) ||
      !miras__whole(why, n, "order", (int)d->order, 0, MIRAS_ORDER_COUNT - 1) ||
      !miras__whole(why, n, "activation", (int)d->activation, 0, MIRAS_ACTIVATION_COUNT - 1) ||
      !miras__whole(why, n, "keep_gate", (int)d->keep_gate, 0, MIRAS_GATE_COUNT - 1) ||
      !miras__whole(why, n, "step_gate", (int)d->step_gate, 0, MIRAS_GATE_COUNT - 1) ||
      !miras__whole(why, n, "momentum_gate", (int)d->momentum_gate, 0, MIRAS_GATE_HEAD) ||
      !miras__whole(why, n, "threshold_gate", (int)d->threshold_gate, 0, MIRAS_GATE_COUNT - 1) ||
      !miras__whole(why, n, "slopes", (int)d->slopes, 0, MIRAS_SLOPES_COUNT - 1) ||
      !miras__whole(why, n, "toward", (int)d->toward, 0, MIRAS_TOWARD_COUNT - 1) ||
      !miras__whole(why, n, "key_length", (int)d->key_length, 0, MIRAS_LENGTH_COUNT - 1) ||
      !miras__whole(why, n, "bounded_step", d->bounded_step, 0, 2) ||
      !miras__whole(why, n, "feature", (int)d->feature, 0, MIRAS_FEATURE_COUNT - 1) ||
      !miras__whole(why, n, "normalise", d->normalise, 0, 1) ||
      !miras__whole(why, n, "separate_erase", d->separate_erase, 0, 1) ||
      !miras__whole(why, n, "diagonal", d->diagonal, 0, 1))
    return MIRAS_ERR_DESC;
  if (!miras__resolve_newton(d, why, n) || !miras__resolve_pairs(d, why, n)) return MIRAS_ERR_DESC;
  if (!d->batch) d->batch = 1;
  if (!d->heads) d->heads = 1;
  if (!d->value_dim) d->value_dim = d->key_dim;
  if (!d->chunk) d->chunk = 1;
  if (!d->steps) d->steps = 1;
  if (!miras__whole(why, n, "batch", d->batch, 1, 1 << 20) ||
      !miras__whole(why, n, "heads", d->heads, 1, 65536) ||
      !miras__whole(why, n, "key_dim", d->key_dim, 1, 4096) ||
      !miras__whole(why, n, "value_dim", d->value_dim, 1, 4096) ||
      !miras__whole(why, n, "chunk", d->chunk, 1, 1024) ||
      !miras__whole(why, n, "steps", d->steps, 1, 8) ||
      !miras__whole(why, n, "row_rates", d->row_rates, 0, 2))
    return MIRAS_ERR_DESC;
  grid = miras__reset_grid(d);
  if (d->reset_every < 0 || d->reset_every % grid) {
    miras__say(why, n, "reset_every is %d; with chunk %d it must be 0 or a positive multiple of %d",
               d->reset_every, d->chunk, grid);
    return MIRAS_ERR_DESC;
  }
  if (d->toward && !decays && !both && d->retention != MIRAS_RETAIN_ELASTIC_FTRL) {
    miras__say(why, n, "toward is MIRAS_TOWARD_INITIAL (%d) with retention %d; it has a meaning "
                       "only with a retention that decays, L2 both or FTRL: set it to 0",
               (int)d->toward, (int)d->retention);
    return MIRAS_ERR_DESC;
  }
  if (d->toward && d->diagonal) {
    miras__say(why, n, "toward is MIRAS_TOWARD_INITIAL (%d) with diagonal 1; what the diagonal "
                       "erases it cannot lead back: set one of them to 0", (int)d->toward);
    return MIRAS_ERR_DESC;
  }
  if (d->bounded_step && (d->retention == MIRAS_RETAIN_LQ_PNORM ||
                          d->retention == MIRAS_CUSTOM_RETENTION)) {
    miras__say(why, n, "bounded_step is %d with retention %d; how far weights move is not known "
                       "of the p-norm and custom links: set it to 0", d->bounded_step,
               (int)d->retention);
    return MIRAS_ERR_DESC;
  }
  if (d->bounded_step && (d->bias == MIRAS_DOT || d->bias == MIRAS_CUSTOM_BIAS ||
                          d->separate_erase || d->algorithm == MIRAS_IMPLICIT)) {
    miras__say(why, n, "bounded_step is %d with bias %d, separate_erase %d and algorithm %d; it "
                       "needs a bias with a residual of its own, and no other rule for the step: "
                       "set it to 0", d->bounded_step, (int)d->bias, d->separate_erase,
               (int)d->algorithm);
    return MIRAS_ERR_DESC;
  }
  if (mlp && !d->depth) d->depth = 2;
  if (mlp ? !miras__whole(why, n, "depth", d->depth, 1, 4)
          : !miras__unused(why, n, "depth", d->depth, "architecture MIRAS_MLP"))
    return MIRAS_ERR_DESC;
  if (gated || (mlp && d->depth > 1)) {
    if (!d->expansion) d->expansion = 4;
    if (!miras__whole(why, n, "expansion", d->expansion, 1, 16)) return MIRAS_ERR_DESC;
  } else if (!miras__unused(why, n, "expansion", d->expansion,
                            "architecture MIRAS_GATED_MLP, or MIRAS_MLP of depth 2 or more") ||
             !miras__unused(why, n, "activation", d->activation,
                            "architecture MIRAS_GATED_MLP, or MIRAS_MLP of depth 2 or more")) {
    return MIRAS_ERR_DESC;
  }
  if (mlp || gated) {
    if (!miras__whole(why, n, "inner_norm", d->inner_norm, 0, 1) ||
        !miras__whole(why, n, "inner_residual", d->inner_residual, 0, 1))
      return MIRAS_ERR_DESC;
    if (d->inner_residual && d->value_dim != d->key_dim) {
      miras__say(why, n, "inner_residual is 1 with key_dim %d and value_dim %d; it adds the input "
                         "to the output, so the two must be equal", d->key_dim, d->value_dim);
      return MIRAS_ERR_DESC;
    }
  } else if (!miras__unused(why, n, "inner_norm", d->inner_norm,
                            "architecture MIRAS_MLP or MIRAS_GATED_MLP") ||
             !miras__unused(why, n, "inner_residual", d->inner_residual,
                            "architecture MIRAS_MLP or MIRAS_GATED_MLP")) {
    return MIRAS_ERR_DESC;
  }
  if (mlp ? !miras__whole(why, n, "inner_bias", d->inner_bias, 0, 1)
          : !miras__unused(why, n, "inner_bias", d->inner_bias, "architecture MIRAS_MLP"))
    return MIRAS_ERR_DESC;
  if (d->inner_bias && d->retention != MIRAS_RETAIN_ALL &&
      !(d->toward && (d->retention == MIRAS_RETAIN_L2 || both))) {
    miras__say(why, n, "inner_bias is 1 with retention %d and toward %d; learned biases do not "
                       "fade, so it needs MIRAS_RETAIN_ALL (0), or MIRAS_RETAIN_L2 or L2_BOTH "
                       "with toward MIRAS_TOWARD_INITIAL", (int)d->retention, (int)d->toward);
    return MIRAS_ERR_DESC;
  }
  if (d->architecture == MIRAS_VECTOR && d->value_dim != d->key_dim) {
    miras__say(why, n, "value_dim is %d with key_dim %d; architecture MIRAS_VECTOR scales its "
                       "input, so the two must be equal", d->value_dim, d->key_dim);
    return MIRAS_ERR_DESC;
  }
  if (d->algorithm == MIRAS_IMPLICIT && !(exact && d->bias == MIRAS_L2)) {
    miras__say(why, n, "algorithm is MIRAS_IMPLICIT (%d), which needs architecture MIRAS_MATRIX, "
                       "bias MIRAS_L2 and retention MIRAS_RETAIN_ALL or MIRAS_RETAIN_L2",
               (int)d->algorithm);
    return MIRAS_ERR_DESC;
  }
  if (d->row_rates && (exact || pairs || d->algorithm != MIRAS_GRADIENT_DESCENT ||
                       (d->retention != MIRAS_RETAIN_ALL &&
                        !(d->toward && d->retention == MIRAS_RETAIN_L2)))) {
    miras__say(why, n, "row_rates is %d, which needs MIRAS_RETAIN_ALL, or MIRAS_RETAIN_L2 and "
                       "toward MIRAS_TOWARD_INITIAL, gradient descent and a memory that does not "
                       "run exactly (TTT-Linear is MIRAS_MLP of depth 1)", d->row_rates);
    return MIRAS_ERR_DESC;
  }
  if (d->order == MIRAS_DECAY_FIRST && !(exact && decays)) {
    miras__say(why, n, "order is MIRAS_DECAY_FIRST (%d), which needs architecture MIRAS_MATRIX, "
                       "bias MIRAS_DOT or MIRAS_L2, retention MIRAS_RETAIN_L2 and gradient descent "
                       "or the implicit step", (int)d->order);
    return MIRAS_ERR_DESC;
  }
  if (!miras__channel_gates(d, exact, why, n)) return MIRAS_ERR_DESC;
  if (!matrix && !miras__unused(why, n, "feature", (double)d->feature,
                                "architecture MIRAS_MATRIX"))
    return MIRAS_ERR_DESC;
  if (d->steps > 1 && d->separate_erase) {
    miras__say(why, n, "steps is %d with separate_erase 1; tokens.erase and tokens.replace are one "
                       "per token, so steps must be 1", d->steps);
    return MIRAS_ERR_DESC;
  }
  if (d->normalise &&
      !(exact && d->bias == MIRAS_DOT && d->feature >= MIRAS_FEATURE_ELU &&
        d->feature <= MIRAS_FEATURE_SOFTMAX)) {
    miras__say(why, n, "normalise is 1, which needs architecture MIRAS_MATRIX, bias MIRAS_DOT, "
                       "retention MIRAS_RETAIN_ALL or MIRAS_RETAIN_L2, gradient descent and a "
                       "feature map that is not negative: ELU, RELU, RELU2 or SOFTMAX");
    return MIRAS_ERR_DESC;
  }
  if (d->separate_erase &&
      !(exact && d->bias == MIRAS_L2 && d->algorithm == MIRAS_GRADIENT_DESCENT &&
        d->order == MIRAS_ERROR_FIRST && d->feature == MIRAS_FEATURE_IDENTITY)) {
    miras__say(why, n, "separate_erase is 1, which needs architecture MIRAS_MATRIX, bias MIRAS_L2, "
                       "retention MIRAS_RETAIN_ALL or MIRAS_RETAIN_L2, gradient descent, order "
                       "MIRAS_ERROR_FIRST and no feature map");
    return MIRAS_ERR_DESC;
  }
  if (d->algorithm != MIRAS_IMPLICIT &&
      !miras__unused(why, n, "diagonal", d->diagonal, "algorithm MIRAS_IMPLICIT"))
    return MIRAS_ERR_DESC;
  if (d->value_gate != MIRAS_GATE_CONSTANT &&
      !(d->value_gate == MIRAS_GATE_CHANNEL && exact && decays && d->bias == MIRAS_DOT &&
        !d->normalise)) {
    miras__say(why, n, "value_gate is %d; it must be MIRAS_GATE_CONSTANT (0), or "
                       "MIRAS_GATE_CHANNEL (2) with architecture MIRAS_MATRIX, bias MIRAS_DOT, "
                       "retention MIRAS_RETAIN_L2, gradient descent and normalise 0",
               (int)d->value_gate);
    return MIRAS_ERR_DESC;
  }
  if (!decays && (!miras__unused(why, n, "keep_gate", (double)d->keep_gate, keeps) ||
                  !miras__unused(why, n, "forget", (double)d->forget, keeps) ||
                  !miras__unused(why, n, "forget_ratio", (double)d->forget_ratio, keeps)))
    return MIRAS_ERR_DESC;
  if (!momentum && (!miras__unused(why, n, "momentum_gate", (double)d->momentum_gate,
                                   "algorithm MIRAS_MOMENTUM") ||
                    !miras__unused(why, n, "momentum", (double)d->momentum,
                                   "algorithm MIRAS_MOMENTUM")))
    return MIRAS_ERR_DESC;
  if (!bounded && (!miras__unused(why, n, "threshold_gate", (double)d->threshold_gate,
                                  "a bias that has a threshold") ||
                   !miras__unused(why, n, "threshold", (double)d->threshold,
                                  "a bias that has a threshold")))
    return MIRAS_ERR_DESC;
  if (d->bias == MIRAS_CUSTOM_BIAS &&
      (!d->custom || !d->custom->bias || !d->custom->bias_adjoint)) {
    miras__say(why, n, "bias is MIRAS_CUSTOM_BIAS (%d), but %s is NULL; it needs both functions",
               (int)d->bias, !d->custom ? "custom" : d->custom->bias ? "custom->bias_adjoint"
                                                                     : "custom->bias");
    return MIRAS_ERR_DESC;
  }
  if (d->custom && d->bias != MIRAS_CUSTOM_BIAS && d->retention != MIRAS_CUSTOM_RETENTION) {
    miras__say(why, n, "custom is set, but it has a meaning only with bias MIRAS_CUSTOM_BIAS or "
                       "retention MIRAS_CUSTOM_RETENTION; set it to NULL");
    return MIRAS_ERR_DESC;
  }
  if ((!lp && !miras__unused(why, n, "p", (double)d->p, "an L_p bias")) ||
      (!lq && !miras__unused(why, n, "q", (double)d->q, "an L_q retention")) ||
      (!smooth && !miras__unused(why, n, "sharpness", (double)d->sharpness,
                                 "bias MIRAS_LP_SMOOTH or MIRAS_HUBER_MIXTURE")) ||
      (!simplex && (!miras__unused(why, n, "simplex", (double)d->simplex,
                                   "retention MIRAS_RETAIN_KL or an f-divergence") ||
                    !miras__unused(why, n, "simplex_whole", d->simplex_whole,
                                   "retention MIRAS_RETAIN_KL or an f-divergence"))) ||
      (!kl && (!miras__unused(why, n, "simplex_logits", d->simplex_logits,
                              "retention MIRAS_RETAIN_KL") ||
               !miras__unused(why, n, "simplex_signed", d->simplex_signed,
                              "retention MIRAS_RETAIN_KL"))) ||
      (!both && !miras__unused(why, n, "balance", (double)d->balance,
                               "retention MIRAS_RETAIN_L2_BOTH")) ||
      (!elastic && (!miras__unused(why, n, "sparsity", (double)d->sparsity,
                                   "retention MIRAS_RETAIN_ELASTIC or MIRAS_RETAIN_ELASTIC_FTRL") ||
                    !miras__unused(why, n, "smooth_shrink", d->smooth_shrink,
                                   "retention MIRAS_RETAIN_ELASTIC or "
                                   "MIRAS_RETAIN_ELASTIC_FTRL"))))
    return MIRAS_ERR_DESC;
  if (momentum && (d->retention == MIRAS_RETAIN_ELASTIC || miras__divergence(d->retention))) {
    miras__say(why, n, "algorithm is MIRAS_MOMENTUM (%d) with retention %d; the learning-retaining "
                       "elastic net and the f-divergences take plain steps, so it must be 0",
               (int)d->algorithm, (int)d->retention);
    return MIRAS_ERR_DESC;
  }
  if (kl && d->chunk > 1 && !d->simplex_logits && (momentum || d->steps > 1)) {
    miras__say(why, n, "simplex_logits is 0 with chunk %d and %s; the paper's form takes one plain "
                       "step for a chunk's first token: set simplex_logits to 1", d->chunk,
               momentum ? "algorithm MIRAS_MOMENTUM" : "several steps per token");
    return MIRAS_ERR_DESC;
  }
  if (kl && d->chunk > 1 && !d->simplex_logits && d->simplex_signed) {
    miras__say(why, n, "simplex_signed is %d with simplex_logits 0 and chunk %d; the paper's form "
                       "takes the logarithm of weights, which must be positive: set simplex_logits "
                       "to 1", d->simplex_signed, d->chunk);
    return MIRAS_ERR_DESC;
  }
  if (d->architecture == MIRAS_VECTOR && simplex && d->simplex_whole != 1) {
    miras__say(why, n, "simplex_whole is %d with architecture MIRAS_VECTOR; a channel of it is a "
                       "single weight, so a slice must be the whole: set it to 1",
               d->simplex_whole);
    return MIRAS_ERR_DESC;
  }
  if (d->retention == MIRAS_CUSTOM_RETENTION &&
      (!d->custom || !d->custom->link || !d->custom->link_adjoint)) {
    miras__say(why, n, "custom is %s, but retention MIRAS_CUSTOM_RETENTION needs link and "
                       "link_adjoint of it", d->custom ? "incomplete" : "NULL");
    return MIRAS_ERR_DESC;
  }
  if (d->slopes) {
    static const char *const needs = "slopes MIRAS_SLOPES_RATIO";
    if (!decays || d->keep_gate) {
      miras__say(why, n, "slopes is %d, which needs a retention that decays and keep_gate "
                         "MIRAS_GATE_CONSTANT (0)", (int)d->slopes);
      return MIRAS_ERR_DESC;
    }
    if (!d->layers) d->layers = 1;
    if (!miras__unused(why, n, "forget", (double)d->forget, needs) ||
        !miras__unused(why, n, "forget_ratio", (double)d->forget_ratio, needs) ||
        !miras__whole(why, n, "layers", d->layers, 1, 65536) ||
        !miras__whole(why, n, "layer", d->layer, 0, d->layers - 1))
      return MIRAS_ERR_DESC;
  } else {
    if (!miras__unused(why, n, "layer", d->layer, "slopes other than MIRAS_SLOPES_RATIO") ||
        !miras__unused(why, n, "layers", d->layers, "slopes other than MIRAS_SLOPES_RATIO"))
      return MIRAS_ERR_DESC;
    if (decays && d->forget_ratio >= 0 && d->forget_ratio <= 0) d->forget_ratio = 1;
  }
  if (d->step >= 0 && d->step <= 0 && !pairs) d->step = 1;
  if (bounded && d->threshold >= 0 && d->threshold <= 0) {
    const int norms = d->bias == MIRAS_HUBER_MIXTURE || d->bias == MIRAS_HUBER_NORM;
    d->threshold = norms && d->inner_norm ? (float)(3 * sqrt((double)d->value_dim)) : 1.0f;
  }
  if (lp && d->p >= 0 && d->p <= 0) d->p = 3;
  if (lq && d->q >= 0 && d->q <= 0) d->q = 4;
  if (smooth && d->sharpness >= 0 && d->sharpness <= 0) d->sharpness = 10;
  if (simplex && d->simplex >= 0 && d->simplex <= 0) d->simplex = 1;
  if (both && d->balance >= 0 && d->balance <= 0) d->balance = 1;
  if (elastic && d->sparsity >= 0 && d->sparsity <= 0) d->sparsity = 1e-3f;
  if (!miras__real(why, n, "forget", d->forget, 0, 1) ||
      (decays && !d->slopes && !miras__real(why, n, "forget_ratio", d->forget_ratio, 0, 1)) ||
      (!pairs && !miras__real(why, n, "step", d->step, 1e-8, 1e4)) ||
      !miras__real(why, n, "momentum", d->momentum, 0, 1) ||
      (bounded && !miras__real(why, n, "threshold", d->threshold, 1e-6, 1e30)) ||
      (lp && !miras__real(why, n, "p", d->p, 1, 8)) ||
      (lq && !miras__real(why, n, "q", d->q, 1, 8)) ||
      (smooth && !miras__real(why, n, "sharpness", d->sharpness, 0.1, 100)) ||
      (simplex && (!miras__real(why, n, "simplex", d->simplex, 1e-3, 1e6) ||
                   !miras__whole(why, n, "simplex_whole", d->simplex_whole, 0, 1))) ||
      (kl && (!miras__whole(why, n, "simplex_logits", d->simplex_logits, 0, 1) ||
              !miras__whole(why, n, "simplex_signed", d->simplex_signed, 0, 1))) ||
      (both && !miras__real(why, n, "balance", d->balance, 1e-6, 1e6)) ||
      (elastic && (!miras__real(why, n, "sparsity", d->sparsity, 1e-8, 1e4) ||
                   !miras__whole(why, n, "smooth_shrink", d->smooth_shrink, 0, 1))))
    return MIRAS_ERR_DESC;
  return MIRAS_OK;
}

/* Every product below is checked once, here; inner loops rely on it. */
static miras_result miras__plan_make(miras__plan *p, const miras_desc *d, char *why, size_t n) {
  miras_result result;
  miras__work work;
  miras__block part;
  miras__open open;
  miras__newton_work newton;
  miras__pairs_work pairs;
  size_t c, state = 0, limit = (size_t)-1 / 64, total;
  double floats = 0;
  int l, exact;
  if (why && n) why[0] = 0;
  if (!d) {
    miras__say(why, n, "the descriptor is NULL");
    return MIRAS_ERR_ARGUMENT;
  }
  memset(p, 0, sizeof *p);
  p->d = *d;
  result = miras__desc_resolve(&p->d, why, n);
  if (result != MIRAS_OK) return result;
  d = &p->d;
  p->engine = d->architecture == MIRAS_PAIRS ? MIRAS__RUN_PAIRS :
              d->algorithm == MIRAS_NEWTON ? MIRAS__RUN_NEWTON :
              miras__is_exact(d) ? MIRAS__RUN_EXACT : MIRAS__RUN_FROZEN;
  exact = p->engine == MIRAS__RUN_EXACT;
  p->delta = exact && d->bias == MIRAS_L2 && !d->diagonal;
  p->channels = exact && (d->keep_gate == MIRAS_GATE_CHANNEL || d->diagonal);
  p->implicit = exact && (d->algorithm == MIRAS_IMPLICIT || d->bounded_step);
  p->rates = exact && d->step_gate == MIRAS_GATE_CHANNEL ? (size_t)d->value_dim : 1;
  p->fused = exact && d->chunk == 1 && d->steps == 1 && !d->separate_erase && !d->diagonal &&
             !d->normalise && d->value_gate == MIRAS_GATE_CONSTANT;
  p->features = (size_t)miras__features(d);
  p->map = (int)d->feature + 16 * (int)d->key_length;
  p->lag = d->retention == MIRAS_RETAIN_KL && d->chunk > 1 && !d->simplex_logits;
  p->linked = d->retention == MIRAS_RETAIN_LQ || d->retention == MIRAS_RETAIN_LQ_PNORM ||
              (d->retention == MIRAS_RETAIN_KL && !p->lag) ||
              d->retention == MIRAS_RETAIN_ELASTIC_FTRL || d->retention == MIRAS_RETAIN_SIGMOID ||
              d->retention == MIRAS_CUSTOM_RETENTION;
  p->mapped = p->linked || p->lag || miras__divergence(d->retention);
  p->settles = p->linked || d->retention == MIRAS_RETAIN_ELASTIC ||
               miras__divergence(d->retention);
  p->follows = p->linked ? d->retention == MIRAS_RETAIN_LQ ||
                           d->retention == MIRAS_RETAIN_ELASTIC_FTRL
                         : !miras__divergence(d->retention);
  p->channel = p->engine == MIRAS__RUN_FROZEN && (d->keep_gate == MIRAS_GATE_CHANNEL ||
                                                  d->step_gate == MIRAS_GATE_CHANNEL);
  p->pulls = d->toward && p->engine == MIRAS__RUN_FROZEN &&
             d->retention != MIRAS_RETAIN_ELASTIC_FTRL && !miras__divergence(d->retention);
  p->holds = d->toward && (p->lag || miras__divergence(d->retention));
  /* A bias is a weight of an input that is always 1. A vector memory x (.) w is nothing else: one
   * layer without other inputs, whose answer w the key then scales. */
  p->ones = d->inner_bias || d->architecture == MIRAS_VECTOR;
  p->layers = d->architecture == MIRAS_MLP ? d->depth : d->architecture == MIRAS_GATED_MLP ? 3 :
              d->architecture == MIRAS_PAIRS ? 0 : 1;
  p->widest = d->key_dim > d->value_dim ? d->key_dim : d->value_dim;
  p->span = c = d->chunk == 1 ? 1 : (size_t)d->chunk * (size_t)d->steps;
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
  if (p->engine == MIRAS__RUN_NEWTON) floats += (double)p->in[0] * (double)p->in[0];
  if (p->engine == MIRAS__RUN_PAIRS)
    floats = (double)d->window * ((double)d->key_dim + (double)d->value_dim);
  /* A generous bound in floating point first: everything below is a small multiple of it. */
  if (exact)
    c = (size_t)(d->chunk < MIRAS__BLOCK ? 2 * MIRAS__BLOCK : d->chunk) * (size_t)d->steps;
  floats = 16 * floats + 64 * (double)c * ((double)c + (double)p->widest) + 1e6;
  floats *= (double)d->heads;
  if (floats * 4 >= (double)limit || floats * (double)d->batch * 4 >= (double)limit) {
    miras__say(why, n, "the memory needs about %g floats, more than this machine can address",
               floats * (double)d->batch);
    return MIRAS_ERR_DESC;
  }
  p->params = (size_t)d->heads * p->weights;
  if (d->inner_norm) p->params += 2 * (size_t)d->heads * (size_t)d->value_dim;
  p->at_rho = p->params;
  if (d->row_rates) p->params += (size_t)d->chunk;
  p->head_dstate = d->algorithm == MIRAS_MOMENTUM ? 2 * p->weights : p->weights;
  if (p->engine == MIRAS__RUN_NEWTON) {
    size_t wide = (size_t)p->in[0], square = wide * wide;
    p->params += (size_t)d->heads * wide;
    p->at_w = miras__pad(square);
    p->at_open = state = p->at_w + miras__pad(p->weights);
    p->at_y[0] = state, state += miras__pad(c * wide);
    p->at_d[0] = state, state += miras__pad(c * (size_t)d->value_dim);
    p->at_n = state, state += miras__pad(c);
    p->at_scalars = state, state += 16;
    p->head_dstate = square + p->weights;
    p->tape_chunk = p->head_dstate + c * wide;   /* and the solutions of the chunk's reads */
    p->tape_tokens = d->chunk;
    p->scratch = miras__newton_layout(p, NULL, 0, &newton);
    p->scratch_backward = miras__newton_layout(p, NULL, 1, &newton);
  } else if (p->engine == MIRAS__RUN_PAIRS) {
    size_t window = (size_t)d->window, dk = (size_t)d->key_dim, dv = (size_t)d->value_dim;
    p->at_d[0] = miras__pad(window * dk);
    state = p->at_d[0] + miras__pad(window * dv);
    p->head_dstate = window * (dk + dv);
    p->tape_once = p->head_dstate;
    p->tape_chunk = dv + 2;                /* answer, base of its scores, 1 / sum of weights   */
    p->tape_tokens = 1;
    p->scratch = miras__pairs_layout(p, NULL, 0, &pairs);
    p->scratch_backward = miras__pairs_layout(p, NULL, 1, &pairs);
  } else if (exact) {
    size_t steps = (size_t)d->steps, least;
    c = (size_t)d->chunk;
    state = miras__pad(p->weights);
    p->at_open = state;
    if (c > 1) state += miras__open_layout(p, NULL, c * steps, &open);
    p->tape_chunk = p->weights;
    p->tape_tokens = miras__reset_grid(d);
    p->scratch = 3 * (miras__pad((size_t)d->value_dim) + miras__pad(p->features));
    if (!p->fused) p->scratch = miras__block_layout(p, NULL, c * steps, 0, &part);
    least = miras__block_layout(p, NULL, (size_t)p->tape_tokens * steps, 1, &part);
    p->scratch_backward = least > p->scratch ? least : p->scratch;
  } else {
    size_t pad = miras__pad(p->weights);
    state = pad;
    if (p->linked) p->at_w = state, state += pad;
    if (d->algorithm == MIRAS_MOMENTUM) p->at_s = state, state += pad;
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
    p->tape_state = d->algorithm == MIRAS_MOMENTUM ? 2 * p->weights : p->weights;
    p->tape_chunk = p->tape_state * ((size_t)d->chunk * (size_t)d->steps / c);
    p->tape_tokens = d->chunk;
    p->scratch = miras__work_layout(p, NULL, 0, &work);
    p->scratch_backward = miras__work_layout(p, NULL, 1, &work);
  }
  p->head_state = miras__pad(state);
  if (!miras__mul(p->head_state, (size_t)d->heads, &total) || !miras__add(total, 16, &total)) {
    miras__say(why, n, "the state is larger than this machine can address");
    return MIRAS_ERR_DESC;
  }
  p->sequence_state = total;
  return MIRAS_OK;
}

/* Slices of a layer on the simplex: 0 the whole layer is one, 1 each row, 2 each column (@42). */
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
  if (!miras__mul(chunks, p->tape_chunk, &total) || !miras__mul(parts, p->tape_once, &once))
    return 0;
  return miras__add(total, once, &total) ? total : 0;
}

/* alpha of the constant keep gates of a layer: keep [heads]. */
static void miras__constant_keeps(const miras_desc *d, int layer, float *keep) {
  double heads = (double)d->heads, layers = (double)(d->layers ? d->layers : 1);
  float f = d->forget;
  int h;
  for (h = 0; h < d->heads; h++, f *= d->forget_ratio) {
    if (!miras__decays(d))
      keep[h] = 1;
    else if (d->slopes == MIRAS_SLOPES_LIGHTNING)
      keep[h] = (float)exp(-8 / heads * (1 - layer / layers) * h);
    else if (d->slopes == MIRAS_SLOPES_MINIMAX)
      keep[h] = (float)exp(-pow(2, -8 * (h + 1) / heads) *
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
static double miras__deviation(const miras__plan *p, int l) {
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

/* Every head's initial memory, then the gains of the inner norm or Mesa's ridge. */
static void miras__plan_init_params(const miras__plan *p, float *params) {
  const miras_desc *d = &p->d;
  size_t h, i, heads = (size_t)d->heads, norm = heads * (size_t)d->value_dim;
  int l;
  memset(params, 0, p->params * sizeof *params);
  for (h = 0; h < heads; h++) {
    for (l = 0; l < p->layers; l++) {
      int in = p->in[l] - d->inner_bias;
      size_t count = (size_t)in * (size_t)p->out[l];
      float *w = params + h * p->weights + p->offset[l];
      double deviation = miras__deviation(p, l);
      uint64_t seed;
      if ((d->architecture == MIRAS_MATRIX || d->architecture == MIRAS_VECTOR) &&
          (!p->mapped || d->retention == MIRAS_RETAIN_ELASTIC_FTRL))
        continue;
      seed = d->seed + 0x9e3779b97f4a7c15u * (uint64_t)(h * 4 + (size_t)l + 1);
      for (i = 0; i < count; i++)
        w[i] = (float)(deviation * sqrt(3.0) * (double)miras__uniform(seed, (uint64_t)i));
    }
  }
  if (d->inner_norm)
    for (i = 0; i < norm; i++) params[heads * p->weights + i] = 1;
  if (p->engine == MIRAS__RUN_NEWTON) {
    double ridge = (double)d->ridge, raw = ridge > 30 ? ridge : log(expm1(ridge));
    for (i = 0; i < heads * (size_t)p->in[0]; i++) params[heads * p->weights + i] = (float)raw;
  }
}
/* @20 KERNEL TABLE ----------------------------------------------------------------- needs 10 -- */

enum { MIRAS__SET, MIRAS__ADD, MIRAS__SUB };   /* modes of gemm: C = AB, C += AB, C -= AB */

/* Forms of learned gates (room @65): those of keep gates, and one of steps and thresholds. */
enum {
  MIRAS__GATE_SIGMOID = MIRAS_KEEP_SIGMOID, MIRAS__GATE_ROOT = MIRAS_KEEP_ROOT,
  MIRAS__GATE_RATE = MIRAS_KEEP_RATE, MIRAS__GATE_BOUNDED = MIRAS_KEEP_BOUNDED,
  MIRAS__GATE_SOFTPLUS = MIRAS_KEEP_COUNT
};

/* Everything that is compiled once per instruction set. A public call fetches the table once and
 * hands it down; a test may hand down any other. Plain floats cross this line, vectors never do:
 * a vector type outside its target region is an error to clang. What each entry does is said at
 * its definition in rooms 23 to 65. */
typedef struct miras__kernels {
  const char *name;
  void (*gemm)(int mode, float *C, size_t ldc, const float *A, size_t ars, size_t acs,
               const float *B, size_t brs, size_t bcs, size_t M, size_t N, size_t K,
               ptrdiff_t causal, float *pack);
  float (*dot)(const float *a, const float *b, size_t n);
  float (*sum)(const float *a, size_t n);
  void (*axpy)(float *y, float a, const float *x, size_t n);
  void (*scale)(float *y, float a, const float *x, size_t n);
  void (*add)(float *y, const float *x, size_t n);
  void (*mul)(float *y, const float *a, const float *b, size_t n);
  void (*muladd)(float *y, const float *a, const float *b, size_t n);
  void (*fill)(float *y, float value, size_t n);
  void (*flush)(float *y, const float *x, size_t n);
  void (*map_exp)(float *y, const float *x, size_t n);
  void (*map_sigmoid)(float *y, const float *x, size_t n);
  void (*map_tanh)(float *y, const float *x, size_t n);
  void (*map_log)(float *y, const float *x, size_t n);
  void (*map_softplus)(float *y, const float *x, size_t n);
  void (*act)(int kind, float *y, const float *z, size_t n);
  void (*act_grad)(int kind, float *d, const float *z, const float *g, size_t n);
  void (*act_grad2)(int kind, float *gbar, float *zbar, const float *z, const float *g,
                    const float *dbar, size_t n);
  void (*softmax)(float *y, const float *x, size_t n, float c);
  void (*link)(const miras__plan *p, float *w, const float *a, const float *b, float *inv);
  void (*head_forward)(const miras__plan *p, const float *w0, const float *gain, const float *bias,
                       float *state, uint64_t position, const miras__head_io *io, float *tape,
                       float *scratch);
  void (*head_backward)(const miras__plan *p, const float *w0, const float *gain,
                        const float *bias, const float *tape, uint64_t position,
                        const miras__head_io *io, const float *dy, size_t lddy,
                        const miras__head_grads *g, float *dw0, float *dgain, float *dbias,
                        float *dstate, float *scratch);
  void (*head_read)(const miras__plan *p, const float *w0, const float *gain, const float *bias,
                    float *state, uint64_t position, size_t head, const float *q, float *o,
                    float *scratch);
  void (*head_weights)(const miras__plan *p, const float *w0, float *w, float *state,
                       uint64_t position, size_t head, float *scratch);
  void (*rms_fwd)(float *y, size_t ldy, const float *x, size_t ldx, const float *gain, size_t rows,
                  size_t n);
  void (*rms_bwd)(float *dx, size_t lddx, const float *base, size_t ldbase, float *dgain, float *y,
                  size_t ldy, const float *x, size_t ldx, const float *gain, const float *dy,
                  size_t lddy, size_t rows, size_t n);
  void (*gated_norm_fwd)(float *m, size_t ldm, const float *y, size_t ldy, const float *gain,
                         const float *g, size_t ldg, size_t rows, size_t heads, size_t dim);
  void (*gated_norm_bwd)(float *dy, size_t lddy, float *dg, size_t lddg, float *dgain, float *m,
                         size_t ldm, const float *y, size_t ldy, const float *gain, const float *g,
                         size_t ldg, float *dm, size_t lddm, size_t rows, size_t heads, size_t dim);
  void (*swiglu_fwd)(float *s, size_t lds, const float *a, const float *b, size_t ld, size_t rows,
                     size_t n);
  void (*swiglu_bwd)(float *ds, size_t lds, float *a, float *b, size_t ld, size_t rows, size_t n);
  void (*conv_fwd)(float *z, size_t per, const float *c, size_t ldc, const float *past,
                   size_t ldpast, const float *w, size_t taps, size_t rows, size_t heads,
                   size_t dim);
  void (*conv_bwd)(float *dc, size_t lddc, float *dw, const float *dz, size_t per, const float *c,
                   size_t ldc, const float *past, size_t ldpast, const float *w, size_t taps,
                   size_t rows, size_t after, size_t heads, size_t dim, float *sum);
  void (*unit_fwd)(float *x, float *inverse, float length, size_t rows, size_t n);
  void (*unit_bwd)(float *dx, const float *x, const float *inverse, float length, size_t rows,
                   size_t n);
  void (*erase_fwd)(float *key, float *erase, float *replace, const float *x, const float *rate,
                    size_t ldr, const float *a, const float *b, size_t rows, size_t n);
  void (*erase_bwd)(float *dkey, float *derase, const float *dreplace, float *drate, size_t ldd,
                    const float *x, const float *erase, const float *rate, size_t ldr,
                    const float *a, const float *b, float *da, float *db, float *row, size_t rows,
                    size_t n);
  void (*gates_fwd)(int form, float cap, float *y, float *g, size_t ld, const float *offset,
                    const float *c, size_t rows, size_t n);
  void (*gates_bwd)(int form, float cap, float *dy, const float *g, size_t ld, float *doffset,
                    float *dc, const float *c, size_t rows, size_t n);
  void (*complement)(int form, float cap, float *key, const float *gate, const float *g, size_t ld,
                     size_t rows, size_t n);
  float (*cross_entropy)(float *x, size_t n, size_t target, float scale);
  void (*dropout)(float *y, const float *base, const float *x, uint64_t key, uint32_t limit,
                  float scale, size_t n);
  void (*transpose)(float *y, size_t ldy, const float *x, size_t ldx, size_t rows, size_t cols);
  void (*adamw)(float *w, float *m, float *v, float *g, size_t n, const float *c);
} miras__kernels;

/* Bare cc means -O0, where vector code is slower than plain C at -O2. The kernels are therefore
 * compiled with -O2 whatever the flags say; define MIRAS_DEBUG to step through them. GCC only. */
#if defined(__GNUC__) && !defined(__clang__) && !defined(__OPTIMIZE__) && !defined(MIRAS_DEBUG)
  #define MIRAS__RAISE 1
#else
  #define MIRAS__RAISE 0
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

  #if defined(__GNUC__) && !defined(__clang__)
    #pragma GCC push_options
    #if MIRAS__RAISE
      #pragma GCC optimize("O2")
    #endif
  #endif
  #define MIRAS__ISA 1
  #include MIRAS_SELF   /* not found? the file was renamed: define MIRAS_SELF as "its name" */
  #if defined(__GNUC__) && !defined(__clang__)
    #pragma GCC pop_options
  #endif

  #if MIRAS__X86
    #if defined(__clang__)
      #pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
    #else
      #pragma GCC push_options
      #pragma GCC target("avx2,fma")
      #if MIRAS__RAISE
        #pragma GCC optimize("O2")
      #endif
    #endif
    #define MIRAS__ISA 2
    #include MIRAS_SELF
    #if defined(__clang__)
      #pragma clang attribute pop
    #else
      #pragma GCC pop_options
    #endif
  #endif

  #if MIRAS__X86 && !defined(MIRAS_NO_AVX512)
    #if defined(__clang__)
      #pragma clang attribute push(__attribute__((target(                                  \
          "avx2,fma,avx512f,avx512vl,avx512dq,avx512bw"))), apply_to = function)
    #else
      #pragma GCC push_options
      #pragma GCC target("avx2,fma,avx512f,avx512vl,avx512dq,avx512bw")
      /* GCC's own header trips these; the other sets compile the same kernels with them on. */
      #pragma GCC diagnostic push
      #pragma GCC diagnostic ignored "-Wsign-conversion"
      #pragma GCC diagnostic ignored "-Wuninitialized"
      #pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
      #if MIRAS__RAISE
        #pragma GCC optimize("O2")
      #endif
    #endif
    #define MIRAS__ISA 3
    #include MIRAS_SELF
    #if defined(__clang__)
      #pragma clang attribute pop
    #else
      #pragma GCC diagnostic pop
      #pragma GCC pop_options
    #endif
  #endif

  #if MIRAS__NEON
    #if !defined(__clang__)
      #pragma GCC push_options
      #if MIRAS__RAISE
        #pragma GCC optimize("O2")
      #endif
    #endif
    #define MIRAS__ISA 4
    #include MIRAS_SELF
    #if !defined(__clang__)
      #pragma GCC pop_options
    #endif
  #endif

  #undef MIRAS__KERNEL_PASS
#endif
#endif   /* region A */

#ifdef MIRAS__ISA
/* @21 VECTOR VOCABULARY ------------------------------------------------------------ needs 20 -- */

/* The only place with intrinsics. Kernels are written in these words:
 *   vf, vm                  a vector of V_W floats, a mask of V_W lanes
 *   V_R                     vectors in 16 lanes: reductions run over 16 lanes on every set
 *   V_LOAD(p) V_STORE(p, v) any alignment
 *   V_LOAD_N(p, n)          the first n lanes (all, when n >= V_W); the others read 0 and memory
 *   V_STORE_N(p, v, n)      behind them is not touched
 *   V_FMA(a, b, c)          a * b + c, rounded once (twice in the portable set)
 *   V_FNMA(a, b, c)         c - a * b, likewise
 *   V_MIN(a, b)             a < b ? a : b, so a NaN on either side gives b; V_MAX(a, b) alike
 *   V_LT(a, b) V_LE(a, b)   masks, false for NaN; V_SELECT(m, a, b) is m ? a : b
 *   V_COPYSIGN(m, s)        the size of m with the sign of s
 *   V_ROUND(a)              to the nearest whole number
 *   V_POW2(n)               2^n for whole n in -126..127
 *   V_LOGB(x) V_FRACTION(x) x = fraction * 2^logb, fraction in [sqrt(1/2), sqrt(2)), x normal, > 0
 *   V_TRANSPOSE4(d, ldd, s, lds)   d[k * ldd + j] = s[j * lds + k] for k < 4, j < V_W
 *   fold(v[V_R])            the sum of 16 lanes: 16 -> 8 -> 4 -> 2 -> 1 by halves
 *   fold_max(v[V_R])        their maximum
 * Tiles of the matrix product are up to K_ROWS4 rows when they are 4 vectors wide,
 * K_ROWS2 when 2, K_ROWS1 when 1: rows * width accumulators, one row of B and one element of A must
 * fit the registers, and at least 8 accumulators hide the latency of the multiply-add.
 * MIRAS__FN(f) is the name of f in this instruction set. */

#if MIRAS__ISA == 1

/* The portable set is the oracle of the others and stays scalar. GCC 12 at -O3 would vectorise the
 * strided loads of the matrix product and read past the end of B. */
#if defined(__GNUC__) && !defined(__clang__)
  #pragma GCC push_options
  #pragma GCC optimize("no-tree-vectorize")
#endif

#define MIRAS__FN(name) miras__##name##_portable
#define MIRAS__ISA_NAME "portable"
typedef float MIRAS__FN(vf);
typedef int MIRAS__FN(vm);
#define V_W 1
#define K_ROWS4 2
#define K_ROWS2 4
#define K_ROWS1 4

static inline float MIRAS__FN(load_n)(const float *p, size_t n) { return n > 0 ? *p : 0.0f; }
static inline void MIRAS__FN(store_n)(float *p, float v, size_t n) {
  if (n > 0) *p = v;
}
static inline float MIRAS__FN(pow2)(float n) {
  int32_t bits = ((int32_t)n + 127) * (1 << 23);
  float v;
  memcpy(&v, &bits, sizeof v);
  return v;
}
static inline int32_t MIRAS__FN(logb)(float x) {
  int32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return (bits - 0x3f3504f3) >> 23;
}
static inline float MIRAS__FN(fraction)(float x) {
  int32_t bits;
  memcpy(&bits, &x, sizeof bits);
  bits -= MIRAS__FN(logb)(x) * (1 << 23);
  memcpy(&x, &bits, sizeof bits);
  return x;
}
static inline void MIRAS__FN(transpose4)(float *d, size_t ldd, const float *s, size_t lds) {
  (void)lds;
  d[0] = s[0];
  d[ldd] = s[1];
  d[2 * ldd] = s[2];
  d[3 * ldd] = s[3];
}
static inline float MIRAS__FN(fold)(const float *v) {
  float a[8];
  int i;
  for (i = 0; i < 8; i++) a[i] = v[i] + v[i + 8];
  for (i = 0; i < 4; i++) a[i] += a[i + 4];
  return (a[0] + a[2]) + (a[1] + a[3]);
}
static inline float MIRAS__FN(fold_max)(const float *v) {
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
#define V_ROUND(a) rintf(a)
#define V_LOGB(x) ((float)MIRAS__FN(logb)(x))

#elif MIRAS__ISA == 2

#define MIRAS__FN(name) miras__##name##_avx2
#define MIRAS__ISA_NAME "avx2"
typedef __m256 MIRAS__FN(vf);
typedef __m256 MIRAS__FN(vm);
#define V_W 8
#define K_ROWS4 2   /* only for one or two rows: 6 x 2 + 2 + 1 is what 16 registers hold */
#define K_ROWS2 6
#define K_ROWS1 8

static inline __m256i MIRAS__FN(first)(size_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n < 8 ? (int)n : 8),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static inline __m256 MIRAS__FN(load_n)(const float *p, size_t n) {
  return n >= 8 ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, MIRAS__FN(first)(n));
}
static inline void MIRAS__FN(store_n)(float *p, __m256 v, size_t n) {
  if (n >= 8) _mm256_storeu_ps(p, v);
  else _mm256_maskstore_ps(p, MIRAS__FN(first)(n), v);
}
static inline __m256 MIRAS__FN(pow2)(__m256 n) {
  __m256i e = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
  return _mm256_castsi256_ps(_mm256_slli_epi32(e, 23));
}
static inline __m256i MIRAS__FN(logb)(__m256 x) {
  return _mm256_srai_epi32(
      _mm256_sub_epi32(_mm256_castps_si256(x), _mm256_set1_epi32(0x3f3504f3)), 23);
}
static inline __m256 MIRAS__FN(fraction)(__m256 x) {
  return _mm256_castsi256_ps(
      _mm256_sub_epi32(_mm256_castps_si256(x), _mm256_slli_epi32(MIRAS__FN(logb)(x), 23)));
}
static inline __m256 MIRAS__FN(pair)(const float *low, const float *high) {
  return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(low)), _mm_loadu_ps(high), 1);
}
/* Rows j and j + 4 share a register, so the shuffles stay inside 128-bit lanes. */
static inline void MIRAS__FN(transpose4)(float *d, size_t ldd, const float *s, size_t lds) {
  __m256 a = MIRAS__FN(pair)(s, s + 4 * lds), b = MIRAS__FN(pair)(s + lds, s + 5 * lds);
  __m256 c = MIRAS__FN(pair)(s + 2 * lds, s + 6 * lds);
  __m256 e = MIRAS__FN(pair)(s + 3 * lds, s + 7 * lds);
  __m256 ab0 = _mm256_unpacklo_ps(a, b), ab1 = _mm256_unpackhi_ps(a, b);
  __m256 ce0 = _mm256_unpacklo_ps(c, e), ce1 = _mm256_unpackhi_ps(c, e);
  _mm256_storeu_ps(d, _mm256_shuffle_ps(ab0, ce0, 0x44));
  _mm256_storeu_ps(d + ldd, _mm256_shuffle_ps(ab0, ce0, 0xee));
  _mm256_storeu_ps(d + 2 * ldd, _mm256_shuffle_ps(ab1, ce1, 0x44));
  _mm256_storeu_ps(d + 3 * ldd, _mm256_shuffle_ps(ab1, ce1, 0xee));
}
static inline float MIRAS__FN(fold)(const __m256 *v) {
  __m256 a = _mm256_add_ps(v[0], v[1]);
  __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  b = _mm_add_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}
static inline float MIRAS__FN(fold_max)(const __m256 *v) {
  __m256 a = _mm256_max_ps(v[0], v[1]);
  __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  b = _mm_max_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}

#define V_ZERO() _mm256_setzero_ps()
#define V_SET1(x) _mm256_set1_ps(x)
#define V_LOAD(p) _mm256_loadu_ps(p)
#define V_STORE(p, v) _mm256_storeu_ps(p, v)
#define V_ADD(a, b) _mm256_add_ps(a, b)
#define V_SUB(a, b) _mm256_sub_ps(a, b)
#define V_MUL(a, b) _mm256_mul_ps(a, b)
#define V_DIV(a, b) _mm256_div_ps(a, b)
#define V_FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define V_FNMA(a, b, c) _mm256_fnmadd_ps(a, b, c)
#define V_MIN(a, b) _mm256_min_ps(a, b)
#define V_MAX(a, b) _mm256_max_ps(a, b)
#define V_ABS(a) _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a)
#define V_NEG(a) _mm256_xor_ps(_mm256_set1_ps(-0.0f), a)
#define V_SQRT(a) _mm256_sqrt_ps(a)
#define V_LT(a, b) _mm256_cmp_ps(a, b, _CMP_LT_OQ)
#define V_LE(a, b) _mm256_cmp_ps(a, b, _CMP_LE_OQ)
#define V_SELECT(m, a, b) _mm256_blendv_ps(b, a, m)
#define V_COPYSIGN(m, s) _mm256_or_ps(V_ABS(m), _mm256_and_ps(_mm256_set1_ps(-0.0f), s))
#define V_ROUND(a) _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define V_LOGB(x) _mm256_cvtepi32_ps(MIRAS__FN(logb)(x))

#elif MIRAS__ISA == 3

#define MIRAS__FN(name) miras__##name##_avx512
#define MIRAS__ISA_NAME "avx512"
typedef __m512 MIRAS__FN(vf);
typedef __mmask16 MIRAS__FN(vm);
#define V_W 16
#define K_ROWS4 6   /* 6 x 4 + 4 + 1 of 32 registers */
#define K_ROWS2 8
#define K_ROWS1 8

static inline __mmask16 MIRAS__FN(first)(size_t n) {
  return (__mmask16)(n < 16 ? (1u << n) - 1u : 0xffffu);
}
static inline __m512 MIRAS__FN(load_n)(const float *p, size_t n) {
  return _mm512_maskz_loadu_ps(MIRAS__FN(first)(n), p);
}
static inline void MIRAS__FN(store_n)(float *p, __m512 v, size_t n) {
  _mm512_mask_storeu_ps(p, MIRAS__FN(first)(n), v);
}
static inline __m512 MIRAS__FN(pow2)(__m512 n) {
  __m512i e = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
  return _mm512_castsi512_ps(_mm512_slli_epi32(e, 23));
}
static inline __m512i MIRAS__FN(logb)(__m512 x) {
  return _mm512_srai_epi32(
      _mm512_sub_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(0x3f3504f3)), 23);
}
static inline __m512 MIRAS__FN(fraction)(__m512 x) {
  return _mm512_castsi512_ps(
      _mm512_sub_epi32(_mm512_castps_si512(x), _mm512_slli_epi32(MIRAS__FN(logb)(x), 23)));
}
/* Rows j, j + 4, j + 8 and j + 12 share a register: three masked broadcasts, which unlike shuffles
 * run on either vector port, and then the shuffles stay inside 128-bit lanes. */
static inline __m512 MIRAS__FN(quad)(const float *p, size_t lds) {
  __m512 v = _mm512_castps128_ps512(_mm_loadu_ps(p));
  v = _mm512_mask_broadcast_f32x4(v, 0x00f0, _mm_loadu_ps(p + 4 * lds));
  v = _mm512_mask_broadcast_f32x4(v, 0x0f00, _mm_loadu_ps(p + 8 * lds));
  return _mm512_mask_broadcast_f32x4(v, 0xf000, _mm_loadu_ps(p + 12 * lds));
}
static inline void MIRAS__FN(transpose4)(float *d, size_t ldd, const float *s, size_t lds) {
  __m512 a = MIRAS__FN(quad)(s, lds), b = MIRAS__FN(quad)(s + lds, lds);
  __m512 c = MIRAS__FN(quad)(s + 2 * lds, lds), e = MIRAS__FN(quad)(s + 3 * lds, lds);
  __m512 ab0 = _mm512_unpacklo_ps(a, b), ab1 = _mm512_unpackhi_ps(a, b);
  __m512 ce0 = _mm512_unpacklo_ps(c, e), ce1 = _mm512_unpackhi_ps(c, e);
  _mm512_storeu_ps(d, _mm512_shuffle_ps(ab0, ce0, 0x44));
  _mm512_storeu_ps(d + ldd, _mm512_shuffle_ps(ab0, ce0, 0xee));
  _mm512_storeu_ps(d + 2 * ldd, _mm512_shuffle_ps(ab1, ce1, 0x44));
  _mm512_storeu_ps(d + 3 * ldd, _mm512_shuffle_ps(ab1, ce1, 0xee));
}
static inline float MIRAS__FN(fold)(const __m512 *v) {
  __m256 a = _mm256_add_ps(_mm512_castps512_ps256(v[0]), _mm512_extractf32x8_ps(v[0], 1));
  __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  b = _mm_add_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}
static inline float MIRAS__FN(fold_max)(const __m512 *v) {
  __m256 a = _mm256_max_ps(_mm512_castps512_ps256(v[0]), _mm512_extractf32x8_ps(v[0], 1));
  __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  b = _mm_max_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}

#define V_ZERO() _mm512_setzero_ps()
#define V_SET1(x) _mm512_set1_ps(x)
#define V_LOAD(p) _mm512_loadu_ps(p)
#define V_STORE(p, v) _mm512_storeu_ps(p, v)
#define V_ADD(a, b) _mm512_add_ps(a, b)
#define V_SUB(a, b) _mm512_sub_ps(a, b)
#define V_MUL(a, b) _mm512_mul_ps(a, b)
#define V_DIV(a, b) _mm512_div_ps(a, b)
#define V_FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define V_FNMA(a, b, c) _mm512_fnmadd_ps(a, b, c)
#define V_MIN(a, b) _mm512_min_ps(a, b)
#define V_MAX(a, b) _mm512_max_ps(a, b)
#define V_ABS(a) _mm512_andnot_ps(_mm512_set1_ps(-0.0f), a)
#define V_NEG(a) _mm512_xor_ps(_mm512_set1_ps(-0.0f), a)
#define V_SQRT(a) _mm512_sqrt_ps(a)
#define V_LT(a, b) _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ)
#define V_LE(a, b) _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ)
#define V_SELECT(m, a, b) _mm512_mask_blend_ps(m, b, a)
#define V_COPYSIGN(m, s) _mm512_or_ps(V_ABS(m), _mm512_and_ps(_mm512_set1_ps(-0.0f), s))
#define V_ROUND(a) _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define V_LOGB(x) _mm512_cvtepi32_ps(MIRAS__FN(logb)(x))

#elif MIRAS__ISA == 4

#define MIRAS__FN(name) miras__##name##_neon
#define MIRAS__ISA_NAME "neon"
typedef float32x4_t MIRAS__FN(vf);
typedef uint32x4_t MIRAS__FN(vm);
#define V_W 4
#define K_ROWS4 6   /* 6 x 4 + 4 + 1 of 32 registers */
#define K_ROWS2 8
#define K_ROWS1 8

static inline float32x4_t MIRAS__FN(load_n)(const float *p, size_t n) {
  float32x4_t v = vdupq_n_f32(0.0f);
  if (n >= 4) return vld1q_f32(p);
  if (n >= 2) v = vcombine_f32(vld1_f32(p), vdup_n_f32(0.0f));
  if (n == 3) v = vld1q_lane_f32(p + 2, v, 2);
  if (n == 1) v = vld1q_lane_f32(p, v, 0);
  return v;
}
static inline void MIRAS__FN(store_n)(float *p, float32x4_t v, size_t n) {
  if (n >= 4) {
    vst1q_f32(p, v);
    return;
  }
  if (n >= 2) vst1_f32(p, vget_low_f32(v));
  if (n == 3) vst1q_lane_f32(p + 2, v, 2);
  if (n == 1) vst1q_lane_f32(p, v, 0);
}
static inline float32x4_t MIRAS__FN(pow2)(float32x4_t n) {
  return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127)), 23));
}
static inline int32x4_t MIRAS__FN(logb)(float32x4_t x) {
  return vshrq_n_s32(vsubq_s32(vreinterpretq_s32_f32(x), vdupq_n_s32(0x3f3504f3)), 23);
}
static inline float32x4_t MIRAS__FN(fraction)(float32x4_t x) {
  return vreinterpretq_f32_s32(
      vsubq_s32(vreinterpretq_s32_f32(x), vshlq_n_s32(MIRAS__FN(logb)(x), 23)));
}
static inline void MIRAS__FN(transpose4)(float *d, size_t ldd, const float *s, size_t lds) {
  float32x4x2_t ab = vtrnq_f32(vld1q_f32(s), vld1q_f32(s + lds));
  float32x4x2_t ce = vtrnq_f32(vld1q_f32(s + 2 * lds), vld1q_f32(s + 3 * lds));
  vst1q_f32(d, vcombine_f32(vget_low_f32(ab.val[0]), vget_low_f32(ce.val[0])));
  vst1q_f32(d + ldd, vcombine_f32(vget_low_f32(ab.val[1]), vget_low_f32(ce.val[1])));
  vst1q_f32(d + 2 * ldd, vcombine_f32(vget_high_f32(ab.val[0]), vget_high_f32(ce.val[0])));
  vst1q_f32(d + 3 * ldd, vcombine_f32(vget_high_f32(ab.val[1]), vget_high_f32(ce.val[1])));
}
static inline float32x4_t MIRAS__FN(min)(float32x4_t a, float32x4_t b) {
  return vbslq_f32(vcltq_f32(a, b), a, b);
}
static inline float32x4_t MIRAS__FN(max)(float32x4_t a, float32x4_t b) {
  return vbslq_f32(vcgtq_f32(a, b), a, b);
}
static inline float MIRAS__FN(fold)(const float32x4_t *v) {
  float32x4_t a = vaddq_f32(vaddq_f32(v[0], v[2]), vaddq_f32(v[1], v[3]));
  float32x2_t b = vadd_f32(vget_low_f32(a), vget_high_f32(a));
  return vget_lane_f32(b, 0) + vget_lane_f32(b, 1);
}
static inline float MIRAS__FN(fold_max)(const float32x4_t *v) {
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
#define V_MIN(a, b) MIRAS__FN(min)(a, b)
#define V_MAX(a, b) MIRAS__FN(max)(a, b)
#define V_ABS(a) vabsq_f32(a)
#define V_NEG(a) vnegq_f32(a)
#define V_SQRT(a) vsqrtq_f32(a)
#define V_LT(a, b) vcltq_f32(a, b)
#define V_LE(a, b) vcleq_f32(a, b)
#define V_SELECT(m, a, b) vbslq_f32(m, a, b)
#define V_COPYSIGN(m, s) vbslq_f32(vdupq_n_u32(0x80000000u), s, m)
#define V_ROUND(a) vrndnq_f32(a)
#define V_LOGB(x) vcvtq_f32_s32(MIRAS__FN(logb)(x))

#endif

#define vf MIRAS__FN(vf)
#define vm MIRAS__FN(vm)
#define V_R (16 / V_W)
#define V_LOAD_N(p, n) MIRAS__FN(load_n)(p, n)
#define V_STORE_N(p, v, n) MIRAS__FN(store_n)(p, v, n)
#define V_POW2(n) MIRAS__FN(pow2)(n)
#define V_FRACTION(x) MIRAS__FN(fraction)(x)
#define V_TRANSPOSE4(d, ldd, s, lds) MIRAS__FN(transpose4)(d, ldd, s, lds)

/* @22 VECTOR MATHS ----------------------------------------------------------------- needs 21 -- */

/* Total functions: any float goes in; NaN comes out only where NaN went in or the logarithm of a
 * negative number was asked for; overflow gives the limit. Every set runs the same operations in
 * the same order, so the sets with fused multiply-add agree bit for bit. The polynomials are
 * minimax fits of the stated relative error. Largest error found over a million floats of every
 * size and sign, all sets, in units in the last place of the result:
 *   exp 0.95   log 0.77   tanh 2.3   sigmoid 2.3   softplus 1.6
 * and in units in the last place of the larger of 1 and the result:
 *   gelu 1.7, gelu' 1.7, gelu'' 2.3   silu 1.8, silu' 1.4, silu'' 1.1
 * tests/test_kernels.c holds them to it. */

/* x = n ln 2 + r with |r| <= ln(2)/2; returns e^r - 1, relative error 3e-9 before rounding. */
static inline vf MIRAS__FN(v_expm1_part)(vf x, vf *n) {
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
static inline vf MIRAS__FN(v_exp)(vf x) {
  vf n, half, y;
  y = MIRAS__FN(v_expm1_part)(V_MIN(V_MAX(x, V_SET1(-105.0f)), V_SET1(89.0f)), &n);
  half = V_ROUND(V_MUL(n, V_SET1(0.5f)));
  y = V_MUL(V_ADD(V_SET1(1.0f), y), V_POW2(half));
  y = V_MUL(y, V_POW2(V_SUB(n, half)));
  return V_SELECT(V_LE(x, x), y, x);
}

/* e^a - 1 = 2^n (e^r - 1) + (2^n - 1) keeps its relative accuracy down to 0, and with it
 * tanh |x| = m / (m + 2), m = e^(2|x|) - 1. */
static inline vf MIRAS__FN(v_tanh)(vf x) {
  vf n, m, scale, a = V_MIN(V_ABS(x), V_SET1(10.0f));
  m = MIRAS__FN(v_expm1_part)(V_ADD(a, a), &n);
  scale = V_POW2(n);
  m = V_FMA(m, scale, V_SUB(scale, V_SET1(1.0f)));
  m = V_DIV(m, V_ADD(m, V_SET1(2.0f)));
  return V_SELECT(V_LE(x, x), V_COPYSIGN(m, x), x);
}

/* 1 / (1 + e^-x), from e^-|x|, which neither overflows nor cancels. */
static inline vf MIRAS__FN(v_sigmoid)(vf x) {
  vf e = MIRAS__FN(v_exp)(V_NEG(V_ABS(x)));
  vf s = V_DIV(V_SET1(1.0f), V_ADD(V_SET1(1.0f), e));
  return V_SELECT(V_LT(x, V_ZERO()), V_MUL(e, s), s);
}

/* n ln 2 + log(1 + f), f in [sqrt(1/2) - 1, sqrt(2) - 1]; relative error 6e-9 before rounding. */
static inline vf MIRAS__FN(v_log_part)(vf f, vf n) {
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
static inline vf MIRAS__FN(v_log)(vf x) {
  vf y, n, a = V_MIN(V_MAX(x, V_SET1(1.40129846e-45f)), V_SET1(FLT_MAX));
  vm low = V_LT(a, V_SET1(FLT_MIN));
  a = V_SELECT(low, V_MUL(a, V_SET1(16777216.0f)), a);
  n = V_SUB(V_LOGB(a), V_SELECT(low, V_SET1(24.0f), V_ZERO()));
  y = MIRAS__FN(v_log_part)(V_SUB(V_FRACTION(a), V_SET1(1.0f)), n);
  y = V_SELECT(V_LE(x, V_SET1(FLT_MAX)), y, x);
  y = V_SELECT(V_LE(x, V_ZERO()), V_SET1(-HUGE_VALF), y);
  return V_SELECT(V_LT(x, V_ZERO()), V_SET1(NAN), y);
}

/* log(1 + e^x) = max(x, 0) + log(1 + t), t = e^-|x|; 1 + t is 2 (1 + f) with f = (t - 1)/2 when it
 * is nearer to 2, and f = t loses nothing when t is small. */
static inline vf MIRAS__FN(v_softplus)(vf x) {
  vf t = MIRAS__FN(v_exp)(V_NEG(V_ABS(x))), one = V_SET1(1.0f), f;
  vm upper = V_LT(V_SET1(0.414213562f), t);
  f = V_SELECT(upper, V_MUL(V_SET1(0.5f), V_SUB(t, one)), t);
  f = MIRAS__FN(v_log_part)(f, V_SELECT(upper, one, V_ZERO()));
  return V_ADD(V_MAX(x, V_ZERO()), f);
}

/* silu(x) = x s, s = sigmoid(x). Beyond |x| = 110 the value is the limit in float; clamping there
 * keeps infinity times zero out. */
static inline vf MIRAS__FN(v_clamp)(vf x, float limit) {
  return V_MIN(V_SET1(limit), V_MAX(V_SET1(-limit), x));   /* NaN stays: it is the second operand */
}

static inline vf MIRAS__FN(v_silu)(vf x) {
  return V_MUL(V_MAX(V_SET1(-110.0f), x), MIRAS__FN(v_sigmoid)(x));
}

/* s + x s(1 - s); 1 - s is sigmoid(-x), from the same exponential. */
static inline vf MIRAS__FN(v_silu_d)(vf x) {
  vf one = V_SET1(1.0f), a = MIRAS__FN(v_clamp)(x, 110.0f);
  vf e = MIRAS__FN(v_exp)(V_NEG(V_ABS(a))), h = V_DIV(one, V_ADD(one, e)), l = V_MUL(e, h);
  return V_FMA(V_MUL(a, h), l, V_SELECT(V_LT(a, V_ZERO()), l, h));
}

/* s(1 - s) (2 + x (1 - 2s)); x (1 - 2s) is -|x| (h - l), h the larger and l the smaller of s and
 * 1 - s. */
static inline vf MIRAS__FN(v_silu_dd)(vf x) {
  vf one = V_SET1(1.0f), a = V_ABS(MIRAS__FN(v_clamp)(x, 110.0f));
  vf e = MIRAS__FN(v_exp)(V_NEG(a)), h = V_DIV(one, V_ADD(one, e)), l = V_MUL(e, h);
  return V_MUL(V_MUL(h, l), V_FNMA(a, V_SUB(h, l), V_SET1(2.0f)));
}

/* gelu(x) = x/2 (1 + tanh u) = x sigmoid(w), w = 2u = 2 sqrt(2/pi) (x + 0.044715 x^3). The second
 * form keeps its relative accuracy in the left tail. */
static inline vf MIRAS__FN(v_gelu_inner)(vf x) {
  vf x2 = V_MUL(x, x);
  return V_MUL(x, V_FMA(x2, V_SET1(0.0713548163f), V_SET1(1.59576912f)));
}

static inline vf MIRAS__FN(v_gelu)(vf x) {
  vf w = MIRAS__FN(v_gelu_inner)(MIRAS__FN(v_clamp)(x, 20.0f));
  return V_MUL(V_MAX(V_SET1(-20.0f), x), MIRAS__FN(v_sigmoid)(w));
}

/* s + x s(1 - s) w', s = sigmoid(w) */
static inline vf MIRAS__FN(v_gelu_d)(vf x) {
  vf one = V_SET1(1.0f), a = MIRAS__FN(v_clamp)(x, 20.0f), w = MIRAS__FN(v_gelu_inner)(a);
  vf e = MIRAS__FN(v_exp)(V_NEG(V_ABS(w))), h = V_DIV(one, V_ADD(one, e)), l = V_MUL(e, h);
  vf w1 = V_FMA(V_MUL(a, a), V_SET1(0.214064449f), V_SET1(1.59576912f));
  return V_FMA(V_MUL(a, w1), V_MUL(h, l), V_SELECT(V_LT(a, V_ZERO()), l, h));
}

/* s(1 - s) (2 w' + x (w'' + (1 - 2s) w'^2)), an even function of x */
static inline vf MIRAS__FN(v_gelu_dd)(vf x) {
  vf one = V_SET1(1.0f), a = V_ABS(MIRAS__FN(v_clamp)(x, 20.0f)), w = MIRAS__FN(v_gelu_inner)(a);
  vf e = MIRAS__FN(v_exp)(V_NEG(w)), h = V_DIV(one, V_ADD(one, e)), l = V_MUL(e, h), t;
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
static float MIRAS__FN(dot)(const float *a, const float *b, size_t n) {
  vf lane[V_R];
  size_t i = 0, r;
  MIRAS__UNROLL
  for (r = 0; r < V_R; r++) lane[r] = V_ZERO();
  for (; i + 16 <= n; i += 16) {
    MIRAS__UNROLL
    for (r = 0; r < V_R; r++)
      lane[r] = V_FMA(V_LOAD(a + i + r * V_W), V_LOAD(b + i + r * V_W), lane[r]);
  }
  MIRAS__UNROLL
  for (r = 0; r < V_R; r++)
    if (i + r * V_W < n)
      lane[r] = V_FMA(V_LOAD_N(a + i + r * V_W, n - i - r * V_W),
                      V_LOAD_N(b + i + r * V_W, n - i - r * V_W), lane[r]);
  return MIRAS__FN(fold)(lane);
}

/* sum_i a_i in the same order. */
static float MIRAS__FN(sum)(const float *a, size_t n) {
  vf lane[V_R];
  size_t i = 0, r;
  MIRAS__UNROLL
  for (r = 0; r < V_R; r++) lane[r] = V_ZERO();
  for (; i + 16 <= n; i += 16) {
    MIRAS__UNROLL
    for (r = 0; r < V_R; r++) lane[r] = V_ADD(lane[r], V_LOAD(a + i + r * V_W));
  }
  MIRAS__UNROLL
  for (r = 0; r < V_R; r++)
    if (i + r * V_W < n)
      lane[r] = V_ADD(lane[r], V_LOAD_N(a + i + r * V_W, n - i - r * V_W));
  return MIRAS__FN(fold)(lane);
}

/* y += a x, fused */
static void MIRAS__FN(axpy)(float *y, float a, const float *x, size_t n) {
  vf s = V_SET1(a);
  size_t i = 0;
  for (; i + V_W <= n; i += V_W) V_STORE(y + i, V_FMA(s, V_LOAD(x + i), V_LOAD(y + i)));
  if (i < n) V_STORE_N(y + i, V_FMA(s, V_LOAD_N(x + i, n - i), V_LOAD_N(y + i, n - i)), n - i);
}

/* y = a x */
static void MIRAS__FN(scale)(float *y, float a, const float *x, size_t n) {
  vf s = V_SET1(a);
  size_t i = 0;
  for (; i + V_W <= n; i += V_W) V_STORE(y + i, V_MUL(s, V_LOAD(x + i)));
  if (i < n) V_STORE_N(y + i, V_MUL(s, V_LOAD_N(x + i, n - i)), n - i);
}

/* y += x */
static void MIRAS__FN(add)(float *y, const float *x, size_t n) {
  size_t i = 0;
  for (; i + V_W <= n; i += V_W) V_STORE(y + i, V_ADD(V_LOAD(y + i), V_LOAD(x + i)));
  if (i < n) V_STORE_N(y + i, V_ADD(V_LOAD_N(y + i, n - i), V_LOAD_N(x + i, n - i)), n - i);
}

/* y = a b */
static void MIRAS__FN(mul)(float *y, const float *a, const float *b, size_t n) {
  size_t i = 0;
  for (; i + V_W <= n; i += V_W) V_STORE(y + i, V_MUL(V_LOAD(a + i), V_LOAD(b + i)));
  if (i < n) V_STORE_N(y + i, V_MUL(V_LOAD_N(a + i, n - i), V_LOAD_N(b + i, n - i)), n - i);
}

/* y += a b, fused */
static void MIRAS__FN(muladd)(float *y, const float *a, const float *b, size_t n) {
  size_t i = 0;
  for (; i + V_W <= n; i += V_W)
    V_STORE(y + i, V_FMA(V_LOAD(a + i), V_LOAD(b + i), V_LOAD(y + i)));
  if (i < n)
    V_STORE_N(y + i, V_FMA(V_LOAD_N(a + i, n - i), V_LOAD_N(b + i, n - i), V_LOAD_N(y + i, n - i)),
              n - i);
}

/* y = value */
static void MIRAS__FN(fill)(float *y, float value, size_t n) {
  vf s = V_SET1(value);
  size_t i = 0;
  for (; i + V_W <= n; i += V_W) V_STORE(y + i, s);
  if (i < n) V_STORE_N(y + i, s, n - i);
}

/* y = |x| < 1e-30 ? 0 : x; NaN stays. What decays by alpha > 1/2 per token does not end at 0 but at
 * the denormal that alpha times itself rounds to, and every operation on that costs a hundredfold:
 * matrices of 64 x 64 that fell silent took 120 us per token where 0.4 are usual. 1e-30 leaves a
 * factor of 1e8 for decays between two sweeps. */
static void MIRAS__FN(flush)(float *y, const float *x, size_t n) {
  const vf least = V_SET1(MIRAS__FADED), zero = V_ZERO();
  size_t i = 0;
  for (; i + V_W <= n; i += V_W) {
    vf v = V_LOAD(x + i);
    V_STORE(y + i, V_SELECT(V_LT(V_ABS(v), least), zero, v));
  }
  if (i < n) {
    vf v = V_LOAD_N(x + i, n - i);
    V_STORE_N(y + i, V_SELECT(V_LT(V_ABS(v), least), zero, v), n - i);
  }
}

/* y = f(x), element by element */
static void MIRAS__FN(map_exp)(float *y, const float *x, size_t n) {
  size_t i;
  for (i = 0; i < n; i += V_W) V_STORE_N(y + i, MIRAS__FN(v_exp)(V_LOAD_N(x + i, n - i)), n - i);
}

static void MIRAS__FN(map_sigmoid)(float *y, const float *x, size_t n) {
  size_t i;
  for (i = 0; i < n; i += V_W)
    V_STORE_N(y + i, MIRAS__FN(v_sigmoid)(V_LOAD_N(x + i, n - i)), n - i);
}

static void MIRAS__FN(map_tanh)(float *y, const float *x, size_t n) {
  size_t i;
  for (i = 0; i < n; i += V_W) V_STORE_N(y + i, MIRAS__FN(v_tanh)(V_LOAD_N(x + i, n - i)), n - i);
}

static void MIRAS__FN(map_log)(float *y, const float *x, size_t n) {
  size_t i;
  for (i = 0; i < n; i += V_W) V_STORE_N(y + i, MIRAS__FN(v_log)(V_LOAD_N(x + i, n - i)), n - i);
}

static void MIRAS__FN(map_softplus)(float *y, const float *x, size_t n) {
  size_t i;
  for (i = 0; i < n; i += V_W)
    V_STORE_N(y + i, MIRAS__FN(v_softplus)(V_LOAD_N(x + i, n - i)), n - i);
}

/* y = act(z); kind is a miras_activation */
static void MIRAS__FN(act)(int kind, float *y, const float *z, size_t n) {
  size_t i;
  if (kind == MIRAS_GELU) {
    for (i = 0; i < n; i += V_W)
      V_STORE_N(y + i, MIRAS__FN(v_gelu)(V_LOAD_N(z + i, n - i)), n - i);
  } else if (kind == MIRAS_SILU) {
    for (i = 0; i < n; i += V_W)
      V_STORE_N(y + i, MIRAS__FN(v_silu)(V_LOAD_N(z + i, n - i)), n - i);
  } else if (y != z && n > 0) {
    memcpy(y, z, n * sizeof *y);
  }
}

/* d = g act'(z) */
static void MIRAS__FN(act_grad)(int kind, float *d, const float *z, const float *g, size_t n) {
  size_t i;
  if (kind == MIRAS_IDENTITY) {
    if (d != g && n > 0) memcpy(d, g, n * sizeof *d);
    return;
  }
  for (i = 0; i < n; i += V_W) {
    vf x = V_LOAD_N(z + i, n - i);
    vf s = kind == MIRAS_GELU ? MIRAS__FN(v_gelu_d)(x) : MIRAS__FN(v_silu_d)(x);
    V_STORE_N(d + i, V_MUL(V_LOAD_N(g + i, n - i), s), n - i);
  }
}

/* The adjoint of d = g act'(z): gbar = dbar act'(z), zbar += dbar g act''(z). */
static void MIRAS__FN(act_grad2)(int kind, float *gbar, float *zbar, const float *z,
                                 const float *g, const float *dbar, size_t n) {
  size_t i;
  if (kind == MIRAS_IDENTITY) {
    if (gbar != dbar && n > 0) memcpy(gbar, dbar, n * sizeof *gbar);
    return;
  }
  for (i = 0; i < n; i += V_W) {
    vf x = V_LOAD_N(z + i, n - i), b = V_LOAD_N(dbar + i, n - i);
    vf s1 = kind == MIRAS_GELU ? MIRAS__FN(v_gelu_d)(x) : MIRAS__FN(v_silu_d)(x);
    vf s2 = kind == MIRAS_GELU ? MIRAS__FN(v_gelu_dd)(x) : MIRAS__FN(v_silu_dd)(x);
    vf bg = V_MUL(b, V_LOAD_N(g + i, n - i));
    V_STORE_N(zbar + i, V_FMA(bg, s2, V_LOAD_N(zbar + i, n - i)), n - i);
    V_STORE_N(gbar + i, V_MUL(b, s1), n - i);
  }
}

/* y = c softmax(x), the maximum subtracted first; c must be finite. NaN anywhere gives NaN
 * everywhere, as does +infinity or a vector of nothing but -infinity. */
static void MIRAS__FN(softmax)(float *y, const float *x, size_t n, float c) {
  vf lane[V_R], low = V_SET1(-HUGE_VALF), top;
  size_t i = 0, r;
  MIRAS__UNROLL
  for (r = 0; r < V_R; r++) lane[r] = low;
  for (; i + 16 <= n; i += 16) {
    MIRAS__UNROLL
    for (r = 0; r < V_R; r++) lane[r] = V_MAX(V_LOAD(x + i + r * V_W), lane[r]);
  }
  top = V_SET1(MIRAS__FN(fold_max)(lane));
  for (; i < n; i++) top = V_MAX(V_SET1(x[i]), top);
  for (i = 0; i < n; i += V_W)
    V_STORE_N(y + i, MIRAS__FN(v_exp)(V_SUB(V_LOAD_N(x + i, n - i), top)), n - i);
  if (n > 0) MIRAS__FN(scale)(y, c / MIRAS__FN(sum)(y, n), y, n);
}

/* @25 MATRIX PRODUCT --------------------------------------------------------------- needs 21 -- */

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

/* m and nv are constants at every call: the loops unroll and the arrays become registers. Row r
 * takes part in the first `first + r` of `steps` steps of k. C -= AB runs on the negated sum, which
 * rounds alike; 0 - x rather than -x at the end keeps a difference of equals at +0. */
MIRAS__INLINE void MIRAS__FN(tile)(size_t m, size_t nv, int mode, float *C, size_t ldc,
                                   const float *A, size_t ars, size_t acs, const float *B,
                                   size_t brs, ptrdiff_t first, ptrdiff_t steps, size_t n) {
  vf acc[8][4];
  size_t r, j, last = n - (nv - 1) * V_W;   /* columns in the last vector */
  ptrdiff_t k;
  MIRAS__UNROLL
  for (r = 0; r < m; r++) {
    MIRAS__UNROLL
    for (j = 0; j < nv; j++) {
      vf c = V_ZERO();
      if (mode != MIRAS__SET)
        c = j + 1 < nv ? V_LOAD(C + r * ldc + j * V_W) : V_LOAD_N(C + r * ldc + j * V_W, last);
      acc[r][j] = mode == MIRAS__SUB ? V_NEG(c) : c;
    }
  }
  for (k = 0; k < first; k++) {
    vf b[4];
    MIRAS__UNROLL
    for (j = 0; j < nv; j++) b[j] = V_LOAD(B + j * V_W);
    MIRAS__UNROLL
    for (r = 0; r < m; r++) {
      vf a = V_SET1(A[r * ars]);
      MIRAS__UNROLL
      for (j = 0; j < nv; j++) acc[r][j] = V_FMA(a, b[j], acc[r][j]);
    }
    A += acs;
    B += brs;
  }
  for (; k < steps; k++) {
    MIRAS__UNROLL
    for (r = 0; r < m; r++)
      if (k < first + (ptrdiff_t)r) {
        vf a = V_SET1(A[r * ars]);
        MIRAS__UNROLL
        for (j = 0; j < nv; j++) acc[r][j] = V_FMA(a, V_LOAD(B + j * V_W), acc[r][j]);
      }
    A += acs;
    B += brs;
  }
  MIRAS__UNROLL
  for (r = 0; r < m; r++) {
    MIRAS__UNROLL
    for (j = 0; j < nv; j++) {
      vf c = mode == MIRAS__SUB ? V_SUB(V_ZERO(), acc[r][j]) : acc[r][j];
      if (j + 1 < nv) V_STORE(C + r * ldc + j * V_W, c);
      else V_STORE_N(C + r * ldc + j * V_W, c, last);
    }
  }
}

static void MIRAS__FN(any_tile)(size_t m, size_t nv, int mode, float *C, size_t ldc,
                                const float *A, size_t ars, size_t acs, const float *B,
                                size_t brs, ptrdiff_t first, ptrdiff_t steps, size_t n) {
#define K_TILE(m, nv)                                                                \
  case (nv) * 16 + (m):                                                                   \
    MIRAS__FN(tile)(m, nv, mode, C, ldc, A, ars, acs, B, brs, first, steps, n);           \
    break;
  switch (nv * 16 + m) {
    K_TILE(1, 1) K_TILE(2, 1) K_TILE(3, 1) K_TILE(4, 1)
    K_TILE(1, 2) K_TILE(2, 2) K_TILE(3, 2) K_TILE(4, 2)
#if K_ROWS1 > 4
    K_TILE(5, 1) K_TILE(6, 1) K_TILE(7, 1) K_TILE(8, 1)
#endif
#if K_ROWS2 > 4
    K_TILE(5, 2) K_TILE(6, 2)
#endif
#if K_ROWS2 > 6
    K_TILE(7, 2) K_TILE(8, 2)
#endif
#if K_ROWS4 > 0
    K_TILE(1, 4) K_TILE(2, 4)
#endif
#if K_ROWS4 > 2
    K_TILE(3, 4) K_TILE(4, 4) K_TILE(5, 4) K_TILE(6, 4)
#endif
    default: break;
  }
#undef K_TILE
}

/* to[k * width + j] = B[k, j] for j < n, 0 for the rest of the row. */
static void MIRAS__FN(pack)(float *to, size_t width, const float *B, size_t brs, size_t bcs,
                            size_t n, size_t K) {
  size_t j, k, r;
  if (bcs == 1) {
    for (k = 0; k < K; k++)
      for (j = 0; j < width; j += V_W)
        V_STORE(to + k * width + j, j < n ? V_LOAD_N(B + k * brs + j, n - j) : V_ZERO());
    return;
  }
  for (j = 0; j < width; j += V_W) {
    k = 0;
    if (brs == 1 && j + V_W <= n)
      for (; k + 4 <= K; k += 4) V_TRANSPOSE4(to + k * width + j, width, B + j * bcs + k, bcs);
    for (; k < K; k++)
      for (r = j; r < j + V_W; r++)
        to[k * width + r] = r < n ? B[k * brs + r * bcs] : 0.0f;
  }
}

/* y[j] += sum_k a[k*acs] B[k*brs+j] over four rows of B, whole vectors of y only. */
static void MIRAS__FN(row_part)(float *y, const float *a, size_t acs, const float *B, size_t brs,
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
 * core can read here, where panels of columns reach 13. */
static void MIRAS__FN(row)(int mode, float *y, const float *a, size_t acs, const float *B,
                           size_t brs, size_t N, size_t K) {
  const size_t whole = N - N % V_W;
  size_t j, k = 0;
  if (mode == MIRAS__SET) {
    for (j = 0; j < N; j += V_W) V_STORE_N(y + j, V_ZERO(), N - j);
  } else if (mode == MIRAS__SUB) {
    for (j = 0; j < N; j += V_W) V_STORE_N(y + j, V_NEG(V_LOAD_N(y + j, N - j)), N - j);
  }
  for (; k + 4 <= K; k += 4) MIRAS__FN(row_part)(y, a + k * acs, acs, B + k * brs, brs, N);
  for (; k < K; k++)
    for (j = 0; j < whole; j += V_W)
      V_STORE(y + j, V_FMA(V_SET1(a[k * acs]), V_LOAD(B + k * brs + j), V_LOAD(y + j)));
  if (whole < N) {
    vf c = V_LOAD_N(y + whole, N - whole);
    for (k = 0; k < K; k++)
      c = V_FMA(V_SET1(a[k * acs]), V_LOAD_N(B + k * brs + whole, N - whole), c);
    V_STORE_N(y + whole, c, N - whole);
  }
  if (mode == MIRAS__SUB)
    for (j = 0; j < N; j += V_W)
      V_STORE_N(y + j, V_SUB(V_ZERO(), V_LOAD_N(y + j, N - j)), N - j);
}

/* C = / += / -= A B by mode, with C[i*ldc+j], A[i*ars+k*acs], B[k*brs+j*bcs], i < M, j < N, k < K.
 * causal < 0: all of k. Otherwise row i stops at k = i + causal: what lies beyond in A may be
 * anything, NaN too. C overlaps neither A nor B. pack: MIRAS__PACK floats.
 *
 * Loops, outermost first: blocks of rows; groups of columns; blocks of k; panels of up to 4 vectors
 * of columns; tiles of rows. */
static void MIRAS__FN(gemm)(int mode, float *C, size_t ldc, const float *A, size_t ars, size_t acs,
                            const float *B, size_t brs, size_t bcs, size_t M, size_t N, size_t K,
                            ptrdiff_t causal, float *pack) {
  const size_t part = 64, part_k = 128;   /* a packed block: rows of A or columns of B, of k */
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
  if (M == 1 && bcs == 1) {
    if (causal >= 0 && (size_t)causal < K) K = (size_t)causal + 1;
    MIRAS__FN(row)(mode, C, A, acs, B, brs, N, K);
    return;
  }
  for (i0 = 0; i0 < M; i0 += rows) {
    /* Narrower than 4 vectors where the registers do not hold enough rows of them. */
    const size_t widest = K_ROWS4 > 4 || M <= K_ROWS4 ? 4 : 2;
    rows = M - i0 < most ? M - i0 : most;
    for (j0 = 0; j0 < N; j0 += group) {
      const size_t end = N - j0 < group ? N : j0 + group;
      k = 0;
      do {
        const int stage = mode == MIRAS__SET && k > 0 ? MIRAS__ADD : mode;
        const float *a = A + i0 * ars + k * acs;
        depth = K - k < deep ? K - k : deep;
        if (wrap_a) MIRAS__FN(pack)(pack_a, part, a, acs, ars, rows, depth);
        for (j = j0; j < end; j += n) {
          size_t nv = widest == 4 && end - j > 3 * V_W ? 4 : end - j > V_W ? 2 : 1;
          size_t width, tiles, tile, side, bstep = brs;
          const float *b = B + k * brs + j * bcs;
          if (nv > 1 && end - j < nv * V_W && bcs == 1) nv >>= 1;   /* whole vectors first */
          width = nv * V_W;
          n = end - j < width ? end - j : width;
          if (wrap_b || bcs != 1 || n < width) {
            MIRAS__FN(pack)(pack, width, b, brs, bcs, n, depth);
            b = pack;
            bstep = width;
          }
          side = nv == 4 ? K_ROWS4 : nv == 2 ? K_ROWS2 : K_ROWS1;
          tiles = (rows + side - 1) / side;
          for (tile = 0, i = 0; tile < tiles; tile++, i += m) {
            ptrdiff_t steps = (ptrdiff_t)depth, first = steps;
            m = rows / tiles + (tile < rows % tiles);   /* tiles of nearly equal height */
            if (causal >= 0) {
              first = (ptrdiff_t)(i0 + i) + 1 + causal - (ptrdiff_t)k;
              if (first > steps) first = steps;
              if (first + (ptrdiff_t)m - 1 < steps) steps = first + (ptrdiff_t)m - 1;
            }
            if (wrap_a)
              MIRAS__FN(any_tile)(m, nv, stage, C + (i0 + i) * ldc + j, ldc, pack_a + i, 1, part,
                                  b, bstep, first, steps, n);
            else
              MIRAS__FN(any_tile)(m, nv, stage, C + (i0 + i) * ldc + j, ldc, a + i * ars, ars, acs,
                                  b, bstep, first, steps, n);
          }
        }
        k += depth;
      } while (k < K);
    }
  }
}

/* @26 FEATURE MAPS ----------------------------------------------------------- needs 06 22 23 -- */

/* What a memory makes of keys and queries: map = feature + 16 * length, from miras__plan.map. First
 * the length, u = r x with r = length / sqrt(|x|^2 + 1e-12), or u = x; then f = phi(u), x [n],
 * f [miras__features]. f does not overlap x, except for the identity.
 *   ELU      u + 1 for u > 0, else e^u
 *   RELU     max(u, 0)
 *   RELU2    max(u, 0)^2
 *   SOFTMAX  e^u / sum e^u
 *   POLY2    1; u; then for i, for j >= i: u_i u_j, times sqrt(1/2) where j = i */
#define MIRAS__LENGTH_EPS 1e-12f

static float MIRAS__FN(length_factor)(int map, const float *x, size_t n) {
  float length = map / 16 == MIRAS_LENGTH_ROOT ? sqrtf((float)n) : 1;
  return map < 16 ? 1 : length / sqrtf(MIRAS__FN(dot)(x, x, n) + MIRAS__LENGTH_EPS);
}

static void MIRAS__FN(feature_fwd)(int map, float *f, const float *x, size_t n) {
  int kind = map % 16;
  size_t i;
  if (map >= 16) {
    float *u = kind == MIRAS_FEATURE_POLY2 ? f + 1 : f;
    MIRAS__FN(scale)(u, MIRAS__FN(length_factor)(map, x, n), x, n);
    x = u;
  }
  switch (kind) {
    case MIRAS_FEATURE_ELU:
      for (i = 0; i < n; i += V_W) {
        vf v = V_LOAD_N(x + i, n - i);
        v = V_SELECT(V_LT(V_ZERO(), v), V_ADD(v, V_SET1(1.0f)), MIRAS__FN(v_exp)(v));
        V_STORE_N(f + i, v, n - i);
      }
      return;
    case MIRAS_FEATURE_RELU:
    case MIRAS_FEATURE_RELU2:
      for (i = 0; i < n; i += V_W) {
        vf v = V_MAX(V_ZERO(), V_LOAD_N(x + i, n - i));   /* NaN stays: it is the second operand */
        V_STORE_N(f + i, kind == MIRAS_FEATURE_RELU ? v : V_MUL(v, v), n - i);
      }
      return;
    case MIRAS_FEATURE_SOFTMAX: MIRAS__FN(softmax)(f, x, n, 1.0f); return;
    case MIRAS_FEATURE_POLY2:
      *f++ = 1;
      if (f != x) memcpy(f, x, n * sizeof *f);
      x = f;
      f += n;
      for (i = 0; i < n; f += n - i, i++) {
        MIRAS__FN(scale)(f, x[i], x + i, n - i);
        f[0] *= 0.707106781f;
      }
      return;
    default:
      if (f != x) memcpy(f, x, n * sizeof *f);
      return;
  }
}

/* dx = (d phi/dx)' df; f = phi as computed. dx may be df, except for POLY2, where the pairs give
 *   du_i += sum_(j>i) df_ij u_j + sqrt(2) df_ii u_i,   du_j += df_ij u_i  (j > i)
 * and the length  dx = r (du - x (x . du) / (|x|^2 + eps)). */
static void MIRAS__FN(feature_bwd)(int map, float *dx, const float *df, const float *x,
                                   const float *f, size_t n) {
  const int kind = map % 16;
  const float r = MIRAS__FN(length_factor)(map, x, n);
  const vf factor = V_SET1(r);
  float along;
  size_t i;
  switch (kind) {
    case MIRAS_FEATURE_ELU:
    case MIRAS_FEATURE_RELU:
    case MIRAS_FEATURE_RELU2:
      for (i = 0; i < n; i += V_W) {
        vf v = V_LOAD_N(x + i, n - i), d = V_LOAD_N(df + i, n - i), low = V_ZERO();
        vm upper = V_LT(V_ZERO(), v);
        v = V_MUL(factor, v);
        if (kind == MIRAS_FEATURE_ELU) low = V_MUL(d, V_LOAD_N(f + i, n - i));
        if (kind == MIRAS_FEATURE_RELU2) d = V_MUL(d, V_ADD(v, v));
        V_STORE_N(dx + i, V_SELECT(upper, d, low), n - i);
      }
      break;
    case MIRAS_FEATURE_SOFTMAX:
      along = MIRAS__FN(dot)(f, df, n);
      for (i = 0; i < n; i += V_W) {
        vf v = V_SUB(V_LOAD_N(df + i, n - i), V_SET1(along));
        V_STORE_N(dx + i, V_MUL(V_LOAD_N(f + i, n - i), v), n - i);
      }
      break;
    case MIRAS_FEATURE_POLY2:
      memcpy(dx, df + 1, n * sizeof *dx);
      df += 1 + n;
      for (i = 0; i < n; df += n - i, i++) {
        const float *u = f + 1 + i;
        dx[i] += 1.41421356f * df[0] * u[0] + MIRAS__FN(dot)(df + 1, u + 1, n - i - 1);
        MIRAS__FN(axpy)(dx + i + 1, u[0], df + 1, n - i - 1);
      }
      break;
    default:
      if (dx != df) memcpy(dx, df, n * sizeof *dx);
      break;
  }
  if (map < 16) return;
  along = MIRAS__FN(dot)(x, dx, n) / (MIRAS__FN(dot)(x, x, n) + MIRAS__LENGTH_EPS);
  MIRAS__FN(axpy)(dx, -along, x, n);
  MIRAS__FN(scale)(dx, r, dx, n);
}

/* @40 ATTENTIONAL BIASES -------------------------------------------------- needs 14 21 22 23 -- */

/* x^a for x >= 0 and one exponent for all lanes: small whole exponents by multiplication, so that
 * the common p = 2, 3, 4 are exact; others through exp and log with x kept off zero. */
static vf MIRAS__FN(v_power)(vf x, float a) {
  int whole = (int)a;
  if (!((float)whole < a) && !((float)whole > a) && whole >= 0) {
    vf y = V_SET1(1.0f);
    for (; whole > 0; whole--) y = V_MUL(y, x);
    return y;
  }
  return MIRAS__FN(v_exp)(V_MUL(V_SET1(a), MIRAS__FN(v_log)(V_MAX(x, V_SET1(1e-30f)))));
}

/* 1 - tanh^2 x = 4 e^-2|x| / (1 + e^-2|x|)^2, which keeps its digits where tanh has run into 1. */
static vf MIRAS__FN(v_sech2)(vf x) {
  vf e = MIRAS__FN(v_exp)(V_MUL(V_SET1(-2.0f), V_ABS(x))), one = V_ADD(V_SET1(1.0f), e);
  return V_DIV(V_MUL(V_SET1(4.0f), e), V_MUL(one, one));
}

/* sqrt(a^2 + b^2) for a, b >= 0 without leaving the range of float; NaN in b stays NaN. */
static float MIRAS__FN(hypotenuse)(float a, float b) {
  float most = b > a ? b : a, least = b > a ? a : b;
  if (!(most > 0)) return least;
  least /= most;
  return most * sqrtf(1 + least * least);
}

/* The biases on |r| with a threshold of its own for every coordinate (MIRAS_GATE_CHANNEL): each
 * e_i is that of its delta_i. n = |r|, of the shift and on the norm with their epsilon.
 *   on the norm e_i = r_i min(1, delta_i/n)
 *   mixture     e_i = r_i, or delta_i tanh(nu r_i) when n > delta_i
 *   pseudo      e_i = r_i delta_i/h_i,  h_i = sqrt(delta_i^2 + n^2)
 *   shift       e_i = (1 + delta_i/n) r_i */
static void MIRAS__FN(bias_each)(const miras_desc *d, float *e, const float *r,
                                 const float *deltas, size_t n) {
  const float square = MIRAS__FN(dot)(r, r, n);
  const vf one = V_SET1(1.0f), nu = V_SET1(d->sharpness);
  vf norm = V_SET1(sqrtf(square));
  size_t j;
  if (d->bias == MIRAS_HUBER_NORM) norm = V_SET1(sqrtf(square + 1e-12f));
  if (d->bias == MIRAS_SHIFT_ROBUST) norm = V_SET1(sqrtf(square + 1e-6f));
  for (j = 0; j < n; j += V_W) {
    vf x = V_LOAD_N(r + j, n - j), at = V_LOAD_N(deltas + j, n - j);
    vm outside = V_LT(at, norm);
    if (d->bias == MIRAS_HUBER_NORM) {
      x = V_MUL(x, V_SELECT(outside, V_DIV(at, norm), one));
    } else if (d->bias == MIRAS_HUBER_MIXTURE) {
      x = V_SELECT(outside, V_MUL(at, MIRAS__FN(v_tanh)(V_MUL(nu, x))), x);
    } else if (d->bias == MIRAS_PSEUDO_HUBER) {
      vf most = V_SELECT(outside, norm, at), ratio = V_DIV(V_SELECT(outside, at, norm), most);
      vf h = V_MUL(most, V_SQRT(V_FMA(ratio, ratio, one)));
      x = V_MUL(x, V_DIV(at, h));
    } else {
      x = V_MUL(x, V_ADD(one, V_DIV(at, norm)));
    }
    V_STORE_N(e + j, x, n - j);
  }
}

/* Its adjoint: br = J' be, row = the cotangents of deltas; br may be be.
 *   on the norm, outside   br_i = be_i delta_i/n - r_i s,      s = sum_outside be_i r_i delta_i/n^3
 *                          row_i = be_i r_i/n
 *   mixture, outside       br_i = be_i delta_i nu (1 - tanh^2 nu r_i),    row_i = be_i tanh nu r_i
 *   pseudo                 br_i = be_i delta_i/h_i - r_i s,    s = sum be_i r_i delta_i/h_i^3
 *                          row_i = be_i r_i n^2/h_i^3
 *   shift                  br_i = be_i (1 + delta_i/n) - r_i s,    s = sum be_i r_i delta_i/n^3
 *                          row_i = be_i r_i/n */
static void MIRAS__FN(bias_each_bwd)(const miras_desc *d, float *br, const float *be,
                                     const float *r, const float *deltas, float *row, size_t n) {
  const float square = MIRAS__FN(dot)(r, r, n);
  const vf one = V_SET1(1.0f), nu = V_SET1(d->sharpness);
  vf norm = V_SET1(sqrtf(square)), along = V_ZERO();
  float s;
  size_t j;
  if (d->bias == MIRAS_HUBER_NORM) norm = V_SET1(sqrtf(square + 1e-12f));
  if (d->bias == MIRAS_SHIFT_ROBUST) norm = V_SET1(sqrtf(square + 1e-6f));
  for (j = 0; j < n; j += V_W) {   /* row = what s sums, first */
    vf x = V_LOAD_N(r + j, n - j), at = V_LOAD_N(deltas + j, n - j), b = V_LOAD_N(be + j, n - j);
    vm outside = V_LT(at, norm);
    if (d->bias == MIRAS_PSEUDO_HUBER) {
      vf most = V_SELECT(outside, norm, at), ratio = V_DIV(V_SELECT(outside, at, norm), most);
      vf h = V_MUL(most, V_SQRT(V_FMA(ratio, ratio, one)));
      b = V_MUL(V_DIV(V_MUL(b, x), h), V_MUL(V_DIV(at, h), V_DIV(one, h)));
    } else {
      b = V_MUL(V_DIV(V_MUL(b, x), norm), V_MUL(V_DIV(at, norm), V_DIV(one, norm)));
      if (d->bias != MIRAS_SHIFT_ROBUST) b = V_SELECT(outside, b, V_ZERO());
    }
    V_STORE_N(row + j, b, n - j);
  }
  s = d->bias == MIRAS_HUBER_MIXTURE ? 0 : MIRAS__FN(sum)(row, n);
  along = V_SET1(s);
  for (j = 0; j < n; j += V_W) {
    vf x = V_LOAD_N(r + j, n - j), at = V_LOAD_N(deltas + j, n - j), b = V_LOAD_N(be + j, n - j);
    vf slope, down;
    vm outside = V_LT(at, norm);
    if (d->bias == MIRAS_HUBER_MIXTURE) {
      slope = V_MUL(at, V_MUL(nu, MIRAS__FN(v_sech2)(V_MUL(nu, x))));
      slope = V_SELECT(outside, slope, one);
      down = V_SELECT(outside, MIRAS__FN(v_tanh)(V_MUL(nu, x)), V_ZERO());
    } else if (d->bias == MIRAS_PSEUDO_HUBER) {
      vf most = V_SELECT(outside, norm, at), ratio = V_DIV(V_SELECT(outside, at, norm), most);
      vf h = V_MUL(most, V_SQRT(V_FMA(ratio, ratio, one)));
      slope = V_DIV(at, h);
      down = V_MUL(V_DIV(x, h), V_MUL(V_DIV(norm, h), V_DIV(norm, h)));
    } else {
      slope = V_DIV(at, norm);
      down = V_DIV(x, norm);
      if (d->bias == MIRAS_SHIFT_ROBUST) {
        slope = V_ADD(one, slope);
      } else {
        slope = V_SELECT(outside, slope, one);
        down = V_SELECT(outside, down, V_ZERO());
      }
    }
    V_STORE_N(row + j, V_MUL(b, down), n - j);
    V_STORE_N(br + j, V_FNMA(along, x, V_MUL(b, slope)), n - j);
  }
}

/* One row: e = dl/dM for the residual r = M(k) - v; returns the value l of the bias.
 *   dot         e = -v                            l = -<M, v>
 *   L2          e = r                             l = 1/2 |r|^2
 *   L_p         e = p sgn(r) |r|^(p-1)            l = sum |r|^p
 *   smooth      e = p tanh(nu r) s^(p-1)          l = sum s^p,  s = sqrt(r^2 + 1e-6)
 *   Huber       e = clamp(r, -delta, delta)       l = sum H(r)
 *   on the norm e = r min(1, delta/|r|)           l = H(|r|)
 *   mixture     e = r, or delta tanh(nu r) when |r| > delta;  l = 1/2 |r|^2 or delta sum |r|
 *   pseudo      e = r delta/h                     l = delta |r|^2/(h + delta)
 *   shift       e = (1 + delta/n) r               l = (n + delta)^2/2,  n = sqrt(|r|^2 + 1e-6)
 * The pseudo-Huber bias has h = delta s = sqrt(delta^2 + |r|^2), which needs no 1/delta. deltas is
 * one threshold, or n of them (MIRAS_GATE_CHANNEL); of biases on |r| the value then is that of the
 * first. */
static float MIRAS__FN(bias_value)(const miras_desc *d, float *e, const float *r, const float *v,
                                   const float *deltas, size_t n) {
  const vf vdelta = V_SET1(deltas[0]), nu = V_SET1(d->sharpness);
  const int each = d->threshold_gate == MIRAS_GATE_CHANNEL;
  const float delta = deltas[0];
  float square, length;
  size_t j;
  switch (d->bias) {
    case MIRAS_DOT:
      MIRAS__FN(scale)(e, -1.0f, v, n);
      return -MIRAS__FN(dot)(r, v, n) - MIRAS__FN(dot)(v, v, n);
    case MIRAS_LP:
      for (j = 0; j < n; j += V_W) {
        vf x = V_LOAD_N(r + j, n - j), a = V_ABS(x);
        vf m = V_MUL(V_SET1(d->p), MIRAS__FN(v_power)(a, d->p - 1));
        V_STORE_N(e + j, V_SELECT(V_LT(V_ZERO(), a), V_COPYSIGN(m, x), x), n - j);
      }
      return MIRAS__FN(dot)(e, r, n) / d->p;
    case MIRAS_LP_SMOOTH: {
      float sum = 0;
      for (j = 0; j < n; j += V_W) {
        vf x = V_LOAD_N(r + j, n - j), s = V_SQRT(V_FMA(x, x, V_SET1(1e-6f)));
        vf m = V_MUL(V_SET1(d->p), MIRAS__FN(v_power)(s, d->p - 1));
        V_STORE_N(e + j, V_MUL(m, s), n - j);
      }
      sum = MIRAS__FN(sum)(e, n) / d->p;
      for (j = 0; j < n; j += V_W) {
        vf x = V_LOAD_N(r + j, n - j), s = V_SQRT(V_FMA(x, x, V_SET1(1e-6f)));
        vf m = V_MUL(V_SET1(d->p), MIRAS__FN(v_power)(s, d->p - 1));
        V_STORE_N(e + j, V_MUL(m, MIRAS__FN(v_tanh)(V_MUL(nu, x))), n - j);
      }
      return sum;
    }
    case MIRAS_HUBER: {
      /* l = sum c (r - c/2) with c the clamped residual */
      float inner;
      for (j = 0; j < n; j += V_W) {
        vf x = V_LOAD_N(r + j, n - j), at = each ? V_LOAD_N(deltas + j, n - j) : vdelta;
        /* a select, not min and max: NaN must stay NaN */
        x = V_SELECT(V_LT(at, V_ABS(x)), V_COPYSIGN(at, x), x);
        V_STORE_N(e + j, x, n - j);
      }
      inner = MIRAS__FN(dot)(e, e, n);
      return MIRAS__FN(dot)(e, r, n) - 0.5f * inner;
    }
    case MIRAS_HUBER_NORM:
      length = sqrtf(MIRAS__FN(dot)(r, r, n) + 1e-12f);
      MIRAS__FN(scale)(e, length > delta ? delta / length : 1.0f, r, n);
      return length > delta ? delta * (length - 0.5f * delta) : 0.5f * length * length;
    case MIRAS_HUBER_MIXTURE:
      square = MIRAS__FN(dot)(r, r, n);
      if (!(sqrtf(square) > delta)) break;
      for (j = 0; j < n; j += V_W) {
        vf x = V_LOAD_N(r + j, n - j);
        V_STORE_N(e + j, V_ABS(x), n - j);
      }
      length = delta * MIRAS__FN(sum)(e, n);
      for (j = 0; j < n; j += V_W) {
        vf x = V_LOAD_N(r + j, n - j);
        V_STORE_N(e + j, V_MUL(vdelta, MIRAS__FN(v_tanh)(V_MUL(nu, x))), n - j);
      }
      return length;
    case MIRAS_PSEUDO_HUBER: {
      float h;
      length = sqrtf(MIRAS__FN(dot)(r, r, n));
      h = MIRAS__FN(hypotenuse)(delta, length);
      MIRAS__FN(scale)(e, h > 0 ? delta / h : h, r, n);
      return h > 0 ? delta * (length / (h + delta)) * length : h;
    }
    case MIRAS_SHIFT_ROBUST:
      length = sqrtf(MIRAS__FN(dot)(r, r, n) + 1e-6f);
      MIRAS__FN(scale)(e, 1 + delta / length, r, n);
      return 0.5f * (length + delta) * (length + delta);
    case MIRAS_CUSTOM_BIAS:
      return d->custom->bias(d->custom->user, e, r, v, delta, (int)n);
    default: break;
  }
  square = MIRAS__FN(dot)(r, r, n);
  memcpy(e, r, n * sizeof *e);
  return 0.5f * square;
}

static float MIRAS__FN(bias_fwd)(const miras_desc *d, float *e, const float *r, const float *v,
                                 const float *deltas, size_t n) {
  float value = MIRAS__FN(bias_value)(d, e, r, v, deltas, n);
  if (d->threshold_gate == MIRAS_GATE_CHANNEL && d->bias != MIRAS_HUBER)
    MIRAS__FN(bias_each)(d, e, r, deltas, n);
  return value;
}

/* One row of the adjoint: br = J' be with J = de/dr; bv = (de/dv)' be with r held, which is -be for
 * the dot product and 0 for all others of this file; returns the cotangent of delta. br may be be.
 * row [n]: temporaries, and the cotangents of deltas where there are n of them. */
static float MIRAS__FN(bias_bwd)(const miras_desc *d, float *br, float *bv, const float *be,
                                 const float *r, const float *v, const float *deltas, float *row,
                                 size_t n) {
  const vf one = V_SET1(1.0f), nu = V_SET1(d->sharpness), vdelta = V_SET1(deltas[0]);
  const int each = d->threshold_gate == MIRAS_GATE_CHANNEL;
  const float p = d->p, delta = deltas[0];
  float length, along;
  size_t j;
  memset(bv, 0, n * sizeof *bv);
  if (each && d->bias != MIRAS_HUBER) {
    MIRAS__FN(bias_each_bwd)(d, br, be, r, deltas, row, n);
    return 0;
  }
  switch (d->bias) {
    case MIRAS_DOT:
      MIRAS__FN(scale)(bv, -1.0f, be, n);
      memset(br, 0, n * sizeof *br);
      return 0;
    case MIRAS_LP:
      /* J = p (p-1) |r|^(p-2); for p < 2 it is unbounded at 0, where |r| is kept off zero */
      for (j = 0; j < n; j += V_W) {
        vf a = V_ABS(V_LOAD_N(r + j, n - j)), b = V_LOAD_N(be + j, n - j), m;
        if (p < 2) a = V_MAX(a, V_SET1(1e-6f));
        m = p > 1 ? MIRAS__FN(v_power)(a, p - 2) : V_ZERO();
        V_STORE_N(br + j, V_MUL(b, V_MUL(V_SET1(p * (p - 1)), m)), n - j);
      }
      return 0;
    case MIRAS_LP_SMOOTH:
      /* J = p [ nu (1 - t^2) s^(p-1) + t (p-1) r s^(p-3) ],  t = tanh(nu r) */
      for (j = 0; j < n; j += V_W) {
        vf x = V_LOAD_N(r + j, n - j), b = V_LOAD_N(be + j, n - j);
        vf s = V_SQRT(V_FMA(x, x, V_SET1(1e-6f))), t = MIRAS__FN(v_tanh)(V_MUL(nu, x));
        vf m = V_MUL(V_SET1(p), MIRAS__FN(v_power)(s, p - 1));
        vf u = V_MUL(nu, MIRAS__FN(v_sech2)(V_MUL(nu, x)));
        u = V_FMA(V_MUL(V_SET1(p - 1), t), V_DIV(x, V_MUL(s, s)), u);
        V_STORE_N(br + j, V_MUL(b, V_MUL(m, u)), n - j);
      }
      return 0;
    case MIRAS_HUBER:
      for (j = 0; j < n; j += V_W) {
        vf x = V_LOAD_N(r + j, n - j), b = V_LOAD_N(be + j, n - j);
        vm outside = V_LT(each ? V_LOAD_N(deltas + j, n - j) : vdelta, V_ABS(x));
        V_STORE_N(row + j, V_SELECT(outside, V_MUL(b, V_COPYSIGN(one, x)), V_ZERO()), n - j);
        V_STORE_N(br + j, V_SELECT(outside, V_ZERO(), b), n - j);
      }
      return MIRAS__FN(sum)(row, n);
    case MIRAS_HUBER_NORM:
      length = sqrtf(MIRAS__FN(dot)(r, r, n) + 1e-12f);
      if (!(length > delta)) break;
      /* J = (delta/|r|)(I - r r'/|r|^2), de/ddelta = r/|r| */
      along = MIRAS__FN(dot)(r, be, n);
      for (j = 0; j < n; j += V_W) {
        vf x = V_LOAD_N(r + j, n - j), b = V_LOAD_N(be + j, n - j);
        b = V_FNMA(V_SET1(along / (length * length)), x, b);
        V_STORE_N(br + j, V_MUL(V_SET1(delta / length), b), n - j);
      }
      return along / length;
    case MIRAS_HUBER_MIXTURE:
      if (!(sqrtf(MIRAS__FN(dot)(r, r, n)) > delta)) break;
      for (j = 0; j < n; j += V_W) {
        vf x = V_LOAD_N(r + j, n - j), b = V_LOAD_N(be + j, n - j);
        vf slope = V_MUL(nu, MIRAS__FN(v_sech2)(V_MUL(nu, x)));
        V_STORE_N(row + j, V_MUL(b, MIRAS__FN(v_tanh)(V_MUL(nu, x))), n - j);
        V_STORE_N(br + j, V_MUL(b, V_MUL(vdelta, slope)), n - j);
      }
      return MIRAS__FN(sum)(row, n);
    case MIRAS_PSEUDO_HUBER: {
      /* J = (delta/h)(I - r r'/h^2), de/ddelta = r |r|^2/h^3 */
      float h;
      length = sqrtf(MIRAS__FN(dot)(r, r, n));
      h = MIRAS__FN(hypotenuse)(delta, length);
      along = h > 0 ? MIRAS__FN(dot)(r, be, n) / h : h;
      MIRAS__FN(scale)(br, h > 0 ? delta / h : h, be, n);
      if (!(h > 0)) return along;
      MIRAS__FN(axpy)(br, -(delta / h) * (along / h), r, n);
      return along * (length / h) * (length / h);
    }
    case MIRAS_SHIFT_ROBUST: {
      /* J = (1 + delta/n) I - (delta/n^3) r r', de/ddelta = r/n */
      length = sqrtf(MIRAS__FN(dot)(r, r, n) + 1e-6f);
      along = MIRAS__FN(dot)(r, be, n) / length;
      MIRAS__FN(scale)(br, 1 + delta / length, be, n);
      MIRAS__FN(axpy)(br, -(delta / length) * (along / length), r, n);
      return along;
    }
    case MIRAS_CUSTOM_BIAS:
      memset(row, 0, n * sizeof *row);
      along = d->custom->bias_adjoint(d->custom->user, row, bv, be, r, v, delta, (int)n);
      memcpy(br, row, n * sizeof *br);
      return along;
    default: break;
  }
  if (br != be) memcpy(br, be, n * sizeof *br);
  return 0;
}
/* @41 MEMORY ARCHITECTURES ------------------------------------------ needs 14 21 23 25 26 40 -- */

/* M(W; x) with weights [in, out] and tokens as rows (x at its length, @26):
 *   x_1 = x,  z_l = x_l W_l,  x_(l+1) = act(z_l),  M = [gain LN(z_L) + bias | z_L] [+ x]
 *   gated:  z_1 = x W_1,  z_2 = x W_2,  x_3 = act(z_1) (.) z_2,  z_3 = x_3 W_3
 *   vector: x_1 = 1, so z_1 = w,  M = x (.) z_1
 *   LN: mu = mean z, s = sqrt(mean (z - mu)^2 + 1e-5), xh = (z - mu)/s
 * Rows of every x_l end in the constant 1 where the layers have biases (p->ones). Below,
 * P y = y - mean y - xh mean(y xh): the projection in every derivative of the layer norm. */

/* x_1 of one token: x, phi(x), or with a 1 behind. */
static void MIRAS__FN(input_row)(const miras__plan *p, float *x, const float *from) {
  size_t own = (size_t)(p->in[0] - p->ones);
  if (p->map && own) MIRAS__FN(feature_fwd)(p->map, x, from, (size_t)p->d.key_dim);
  else memcpy(x, from, own * sizeof *x);
  if (p->ones) x[own] = 1;
}

/* df = phi'(from)' bx where the row is not a vector's; x = x_1 as computed. */
static void MIRAS__FN(input_row_bwd)(const miras__plan *p, float *df, const float *bx,
                                     const float *from, const float *x) {
  size_t dk = (size_t)p->d.key_dim;
  if (p->map) MIRAS__FN(feature_bwd)(p->map, df, bx, from, x, dk);
  else memcpy(df, bx, dk * sizeof *df);
}

/* Does the input of layer l come from the layers below? (Else it is the memory's own input.) */
#define MIRAS__HIDDEN(p, l) ((l) > 0 && (p)->from[l] == (l))

/* m rows of x_l from z_(l-1); gated from z_1 and z_2. */
static void MIRAS__FN(hidden_fwd)(const miras__plan *p, int l, float *x, float *const *z,
                                  size_t m) {
  size_t in = (size_t)p->in[l], out = in - (size_t)p->ones, i;
  if (p->d.architecture == MIRAS_GATED_MLP) {
    MIRAS__FN(act)((int)p->d.activation, x, z[0], m * out);
    MIRAS__FN(mul)(x, x, z[1], m * out);
  } else if (p->ones) {
    for (i = 0; i < m; i++) {
      MIRAS__FN(act)((int)p->d.activation, x + i * in, z[l - 1] + i * out, out);
      x[i * in + out] = 1;
    }
  } else {
    MIRAS__FN(act)((int)p->d.activation, x, z[l - 1], m * out);
  }
}

/* The cotangents d of those z from b of x_l, rows of ldb:
 *   d_(l-1) = b act'(z_(l-1));   gated  d_1 = b z_2 act'(z_1),  d_2 = b act(z_1) */
static void MIRAS__FN(hidden_bwd)(const miras__plan *p, int l, float *const *d, float *const *z,
                                  const float *b, size_t ldb, size_t m) {
  size_t out = (size_t)(p->in[l] - p->ones), i;
  int kind = (int)p->d.activation;
  if (p->d.architecture == MIRAS_GATED_MLP) {
    MIRAS__FN(act)(kind, d[1], z[0], m * out);
    MIRAS__FN(mul)(d[1], d[1], b, m * out);
    MIRAS__FN(mul)(d[0], b, z[1], m * out);
    MIRAS__FN(act_grad)(kind, d[0], z[0], d[0], m * out);
  } else if (ldb != out) {
    for (i = 0; i < m; i++)
      MIRAS__FN(act_grad)(kind, d[l - 1] + i * out, z[l - 1] + i * out, b + i * ldb, out);
  } else {
    MIRAS__FN(act_grad)(kind, d[l - 1], z[l - 1], b, m * out);
  }
}

/* The adjoint of hidden_bwd: bb = of b, bz += of z, given bd of d. Rows of b, bb lie out apart.
 *   bb = bd act'(z),  bz = bd b act''(z)
 *   gated  bb = bd_1 z_2 act'(z_1) + bd_2 act(z_1),  bz_2 = bd_1 b act'(z_1)
 *          bz_1 = bd_1 b z_2 act''(z_1) + bd_2 b act'(z_1)
 * t1, t2: m rows for temporaries. */
static void MIRAS__FN(hidden_bwd2)(const miras__plan *p, int l, float *bb, float *const *bz,
                                   float *const *z, const float *b, float *const *bd, float *t1,
                                   float *t2, size_t m) {
  size_t n = m * (size_t)(p->in[l] - p->ones);
  int kind = (int)p->d.activation;
  if (p->d.architecture == MIRAS_GATED_MLP) {
    MIRAS__FN(mul)(t1, b, z[1], n);
    MIRAS__FN(act_grad2)(kind, bb, bz[0], z[0], t1, bd[0], n);
    MIRAS__FN(muladd)(bz[1], bb, b, n);
    MIRAS__FN(mul)(bb, bb, z[1], n);
    MIRAS__FN(act)(kind, t1, z[0], n);
    MIRAS__FN(muladd)(bb, bd[1], t1, n);
    MIRAS__FN(mul)(t1, bd[1], b, n);
    MIRAS__FN(act_grad)(kind, t2, z[0], t1, n);
    MIRAS__FN(add)(bz[0], t2, n);
  } else {
    MIRAS__FN(act_grad2)(kind, bb, bz[l - 1], z[l - 1], b, bd[l - 1], n);
  }
}

/* xh [n] and 1/s of one row; y = gain xh + bias. */
static float MIRAS__FN(norm_fwd)(float *y, float *xh, const float *z, const float *gain,
                                 const float *bias, size_t n) {
  float mean = MIRAS__FN(sum)(z, n) / (float)n, r;
  size_t j;
  for (j = 0; j < n; j += V_W)
    V_STORE_N(xh + j, V_SUB(V_LOAD_N(z + j, n - j), V_SET1(mean)), n - j);
  r = 1.0f / sqrtf(MIRAS__FN(dot)(xh, xh, n) / (float)n + 1e-5f);
  for (j = 0; j < n; j += V_W) {
    vf x = V_MUL(V_LOAD_N(xh + j, n - j), V_SET1(r));
    V_STORE_N(xh + j, x, n - j);
    V_STORE_N(y + j, V_FMA(V_LOAD_N(gain + j, n - j), x, V_LOAD_N(bias + j, n - j)), n - j);
  }
  return r;
}

/* out = scale * P y; may be in place. */
static void MIRAS__FN(norm_project)(float *out, const float *y, const float *xh, float scale,
                                    size_t n) {
  float mean = MIRAS__FN(sum)(y, n) / (float)n, along = MIRAS__FN(dot)(y, xh, n) / (float)n;
  size_t j;
  for (j = 0; j < n; j += V_W) {
    vf x = V_SUB(V_LOAD_N(y + j, n - j), V_SET1(mean));
    x = V_FNMA(V_SET1(along), V_LOAD_N(xh + j, n - j), x);
    V_STORE_N(out + j, V_MUL(x, V_SET1(scale)), n - j);
  }
}

/* The anchor pass over m new pairs: y_l (rows of y[l]), d_l = dl/dz_l (rows of d[l]) at the
 * weights w, residuals in k->r, errors in k->e, values of the bias in k->loss. Rows of y and d
 * start at the first new pair; rows of k's arrays at 0. t is the first pair of the call.
 *   d_L = P(gain e)/s (or e; vector: k e),  b_l = d_(l+1) W_(l+1)',  d_l = b_l act'(z_l) */
static void MIRAS__FN(anchor_fwd)(const miras__plan *p, miras__work *k, const float *w,
                                  const float *gain, const float *bias, const miras__head_io *io,
                                  size_t t, size_t m, float *const *y, float *const *d) {
  size_t i, dv = (size_t)p->d.value_dim;
  int l, last = p->layers - 1, vector = p->d.architecture == MIRAS_VECTOR;
  for (i = 0; i < m; i++)
    MIRAS__FN(input_row)(p, y[0] + i * (size_t)p->in[0], miras__key_at(p, io, t + i));
  for (l = 0; l <= last; l++) {
    size_t in = (size_t)p->in[l], out = (size_t)p->out[l];
    if (MIRAS__HIDDEN(p, l)) MIRAS__FN(hidden_fwd)(p, l, y[l], k->z, m);
    MIRAS__FN(gemm)(MIRAS__SET, k->z[l], out, y[l], in, 1, w + p->offset[l], out, 1, m, out, in, -1,
                    k->pack);
  }
  for (i = 0; i < m; i++) {
    float *r = k->r + i * dv, *e = k->e + i * dv, *dl = d[last] + i * dv, *xh = k->xh + i * dv;
    const float *v = miras__value_at(p, io, t + i), *z = k->z[last] + i * dv;
    const float none = 0, *delta = io->threshold ? miras__threshold_at(p, io, t + i) : &none;
    if (vector) MIRAS__FN(feature_fwd)(p->map, xh, miras__key_at(p, io, t + i), dv);
    if (p->d.inner_norm) k->rstd[i] = MIRAS__FN(norm_fwd)(r, xh, z, gain, bias, dv);
    else if (vector) MIRAS__FN(mul)(r, xh, z, dv);
    else memcpy(r, z, dv * sizeof *r);
    if (p->d.inner_residual) MIRAS__FN(add)(r, y[0] + i * (size_t)p->in[0], dv);
    MIRAS__FN(axpy)(r, -1.0f, v, dv);
    k->loss[i] = MIRAS__FN(bias_fwd)(&p->d, e, r, v, delta, dv);
    if (p->d.inner_norm) {
      MIRAS__FN(mul)(dl, gain, e, dv);
      MIRAS__FN(norm_project)(dl, dl, xh, k->rstd[i], dv);
    } else if (vector) {
      MIRAS__FN(mul)(dl, xh, e, dv);
    } else {
      memcpy(dl, e, dv * sizeof *dl);
    }
  }
  for (l = last; l > 0; l--) {
    size_t mid = (size_t)(p->in[l] - p->ones), out = (size_t)p->out[l];
    if (!MIRAS__HIDDEN(p, l)) continue;
    MIRAS__FN(gemm)(MIRAS__SET, k->back[l - 1], mid, d[l], out, 1, w + p->offset[l], 1, out, m, mid,
                    out, -1, k->pack);
    MIRAS__FN(hidden_bwd)(p, l, d, k->z, k->back[l - 1], mid, m);
  }
}

/* b comes in as the cotangent of e and leaves as that of r; the rest as in bias_bwd. */
static float MIRAS__FN(error_bwd)(const miras__plan *p, float *b, float *bv, float balong,
                                  const float *e, const float *r, const float *v,
                                  const float *deltas, float *row, size_t n) {
  float bdelta;
  if (p->d.bounded_step) MIRAS__FN(axpy)(b, balong, r, n);
  bdelta = MIRAS__FN(bias_bwd)(&p->d, b, bv, b, r, v, deltas, row, n);
  if (p->d.bounded_step) MIRAS__FN(axpy)(b, balong, e, n);
  return bdelta;
}

/* Adjoint of the anchor pass over the m pairs of a chunk (all of k's rows are theirs).
 * In: cotangents k->by[l], k->bd[l] of the pairs, and k->balong of e.r where steps are bounded.
 * Out: dk, dv of the pairs, dthreshold += of their tokens, bw += for the weights, dgain, dbias +=.
 * The chain of d is undone first (it was computed last), then the forward chain:
 *   bb_l = bd_l act'(z_l),  bz_l = bd_l b_l act''(z_l)
 *   bd_(l+1) += bb_l W_(l+1),  bW_(l+1) += bb_l' d_(l+1)
 *   layer norm of the error, D = bd_L, a = gain e:
 *     ba = P D / s,  bxh = -(mean(a xh) D + a mean(D xh)) / s,  bs = -(D . d_L) / s
 *     be = gain ba [+ b(e.r) r],  bgain += e ba;   br = J' be [+ b(e.r) e];
 *     bxh += gain br,  bgain += xh br,  bbias += br
 *     bz_L = P bxh / s + bs xh / n
 *   vector: be = k D,  bk += e D;   bz_1 = k br,  bk += z_1 br
 *   bW_l += y_l' bz_l,  by_l += bz_l W_l',  bz_(l-1) += by_l act'(z_(l-1))
 *   dk = phi'(by_1) [+ br],  dv = -br + (de/dv)' be */
static void MIRAS__FN(anchor_bwd)(const miras__plan *p, miras__work *k, const float *w,
                                  const float *gain, const miras__head_io *io, size_t t, size_t m,
                                  const miras__head_grads *g, float *bw, float *dgain,
                                  float *dbias) {
  size_t i, dk = (size_t)p->d.key_dim, dv = (size_t)p->d.value_dim, steps = (size_t)p->d.steps;
  int l, last = p->layers - 1, vector = p->d.architecture == MIRAS_VECTOR;
  float *a = k->row, *ba = k->row + dv, *bxh = k->row + 2 * dv, *tmp = k->row + 3 * dv;
  float *bv = k->row + 4 * dv;
  for (l = 1; l <= last; l++) {
    size_t mid = (size_t)(p->in[l] - p->ones), out = (size_t)p->out[l];
    const float *wl = w + p->offset[l];
    if (!MIRAS__HIDDEN(p, l)) continue;
    memset(k->bz[l - 1], 0, m * mid * sizeof(float));
    if (p->from[l - 1] != l - 1) memset(k->bz[l - 2], 0, m * mid * sizeof(float));
    MIRAS__FN(hidden_bwd2)(p, l, k->t1, k->bz, k->z, k->back[l - 1], k->bd, k->t2, k->dx, m);
    MIRAS__FN(gemm)(MIRAS__ADD, k->bd[l], out, k->t1, mid, 1, wl, out, 1, m, out, mid, -1, k->pack);
    MIRAS__FN(gemm)(MIRAS__ADD, bw + p->offset[l], out, k->t1, 1, mid, k->dd[l], out, 1, mid, out,
                    m, -1, k->pack);
  }
  for (i = 0; i < m; i++) {
    float *bz = k->bz[last] + i * dv, *D = k->bd[last] + i * dv, bdelta;
    const float none = 0, *delta = io->threshold ? miras__threshold_at(p, io, t + i) : &none;
    const float *xh = k->xh + i * dv, *e = k->e + i * dv, *r = k->r + i * dv;
    const float *v = miras__value_at(p, io, t + i);
    const float balong = p->d.bounded_step ? k->balong[i] : 0;
    float *out_k = g->k ? g->k + (t + i) / steps * g->ldk + (t + i) % steps * dk : NULL;
    float rstd = k->rstd[i];
    if (p->d.inner_norm) {
      float m2, along = MIRAS__FN(dot)(D, xh, dv) / (float)dv;
      float bs = -MIRAS__FN(dot)(D, k->dd[last] + i * dv, dv) * rstd;
      MIRAS__FN(mul)(a, gain, e, dv);
      m2 = MIRAS__FN(dot)(a, xh, dv) / (float)dv;
      MIRAS__FN(norm_project)(ba, D, xh, rstd, dv);
      MIRAS__FN(scale)(bxh, -m2 * rstd, D, dv);
      MIRAS__FN(axpy)(bxh, -along * rstd, a, dv);
      MIRAS__FN(muladd)(dgain, e, ba, dv);
      MIRAS__FN(mul)(ba, gain, ba, dv);                         /* be */
      bdelta = MIRAS__FN(error_bwd)(p, ba, bv, balong, e, r, v, delta, tmp, dv);
      MIRAS__FN(muladd)(bxh, gain, ba, dv);
      MIRAS__FN(muladd)(dgain, xh, ba, dv);
      MIRAS__FN(add)(dbias, ba, dv);
      MIRAS__FN(norm_project)(bz, bxh, xh, rstd, dv);
      MIRAS__FN(axpy)(bz, bs / (float)dv, xh, dv);
    } else if (vector) {
      MIRAS__FN(mul)(ba, xh, D, dv);
      bdelta = MIRAS__FN(error_bwd)(p, ba, bv, balong, e, r, v, delta, tmp, dv);
      MIRAS__FN(mul)(bz, xh, ba, dv);
      if (out_k) {
        MIRAS__FN(mul)(out_k, e, D, dv);
        MIRAS__FN(muladd)(out_k, k->z[last] + i * dv, ba, dv);
        MIRAS__FN(feature_bwd)(p->map, out_k, out_k, miras__key_at(p, io, t + i), xh, dv);
      }
    } else {
      memcpy(ba, D, dv * sizeof *ba);
      bdelta = MIRAS__FN(error_bwd)(p, ba, bv, balong, e, r, v, delta, tmp, dv);
      memcpy(bz, ba, dv * sizeof *bz);
    }
    if (g->threshold) {
      float *out = g->threshold + (t + i) / steps * g->ld_threshold;
      if (p->d.threshold_gate == MIRAS_GATE_CHANNEL) MIRAS__FN(add)(out, tmp, dv);
      else *out += bdelta;
    }
    if (p->d.inner_residual) MIRAS__FN(add)(k->by[0] + i * (size_t)p->in[0], ba, dv);
    if (g->v) {
      float *out = g->v + (t + i) / steps * g->ldv + (t + i) % steps * dv;
      memcpy(out, bv, dv * sizeof *out);
      MIRAS__FN(axpy)(out, -1.0f, ba, dv);
    }
  }
  for (l = last; l >= 0; l--) {
    size_t in = (size_t)p->in[l], out = (size_t)p->out[l], mid = in - (size_t)p->ones;
    MIRAS__FN(gemm)(MIRAS__ADD, bw + p->offset[l], out, k->y[l], 1, in, k->bz[l], out, 1, in, out,
                    m, -1, k->pack);
    MIRAS__FN(gemm)(MIRAS__ADD, k->by[l], in, k->bz[l], out, 1, w + p->offset[l], 1, out, m, in,
                    out, -1, k->pack);
    if (MIRAS__HIDDEN(p, l)) {
      float *d[4] = {k->t1, k->t1, k->t1, k->t1};
      int gated = p->from[l - 1] != l - 1;
      if (gated) d[l - 2] = k->t2;
      MIRAS__FN(hidden_bwd)(p, l, d, k->z, k->by[l], in, m);
      MIRAS__FN(add)(k->bz[l - 1], k->t1, m * mid);
      if (gated) MIRAS__FN(add)(k->bz[l - 2], k->t2, m * mid);
    }
  }
  if (g->k && !vector)
    for (i = 0; i < m; i++)
      MIRAS__FN(input_row_bwd)(p, g->k + (t + i) / steps * g->ldk + (t + i) % steps * dk,
                               k->by[0] + i * (size_t)p->in[0], miras__key_at(p, io, t + i),
                               k->y[0] + i * (size_t)p->in[0]);
}
/* @42 RETENTION LINKS -------------------------------------------------- needs 14 21 22 23 40 -- */

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
 *   custom    the caller's
 * Further down: what a closing chunk does beyond a link, the f-divergence step and the logarithm
 * of Memora's exact token. */

/* ||A||_q with the largest entry taken out first, so that no power overflows or underflows. */
static float MIRAS__FN(norm_q)(const float *a, float q, size_t n) {
  float row[256], most = 0;
  double total = 0;
  size_t i, j;
  vf top = V_ZERO();
  for (i = 0; i < n; i += V_W) top = V_MAX(top, V_ABS(V_LOAD_N(a + i, n - i)));
  V_STORE(row, top);
  for (i = 0; i < V_W; i++) most = row[i] > most ? row[i] : most;
  if (!(most > 1e-20f)) return 0;      /* far below the clamp, and 1 / most must stay finite */
  for (i = 0; i < n; i += 256) {
    size_t m = n - i < 256 ? n - i : 256;
    for (j = 0; j < m; j += V_W) {
      vf x = V_MUL(V_ABS(V_LOAD_N(a + i + j, m - j)), V_SET1(1 / most));
      V_STORE_N(row + j, MIRAS__FN(v_power)(x, q), m - j);
    }
    total += (double)MIRAS__FN(sum)(row, m);
  }
  return most * (float)pow(total, 1.0 / (double)q);
}

/* c softmax over the columns of a [rows, cols], each column a slice. */
static void MIRAS__FN(softmax_columns)(float *w, const float *a, size_t rows, size_t cols,
                                       float c) {
  size_t i, j;
  for (j = 0; j < cols; j += V_W) {
    size_t n = cols - j;
    vf top = V_LOAD_N(a + j, n), sum = V_ZERO();
    for (i = 1; i < rows; i++) top = V_MAX(top, V_LOAD_N(a + i * cols + j, n));
    for (i = 0; i < rows; i++) {
      vf x = MIRAS__FN(v_exp)(V_SUB(V_LOAD_N(a + i * cols + j, n), top));
      sum = V_ADD(sum, x);
      V_STORE_N(w + i * cols + j, x, n);
    }
    sum = V_DIV(V_SET1(c), sum);
    for (i = 0; i < rows; i++)
      V_STORE_N(w + i * cols + j, V_MUL(V_LOAD_N(w + i * cols + j, n), sum), n);
  }
}

/* Slices of a layer: slice i has n entries, the first at i * hop, then every stride. */
typedef struct MIRAS__FN(slices) {
  size_t count, n, stride, hop;
} MIRAS__FN(slices);

static MIRAS__FN(slices) MIRAS__FN(slices_of)(const miras__plan *p, int l) {
  MIRAS__FN(slices) s;
  int kind = miras__slice(p, l);
  size_t rows = (size_t)p->in[l], cols = (size_t)p->out[l];
  s.count = kind == 2 ? cols : kind == 1 ? rows : 1;
  s.n = rows * cols / s.count;
  s.stride = kind == 2 ? cols : 1;
  s.hop = kind == 2 ? 1 : s.n;
  return s;
}

/* 2 e^-top sinh a and 2 e^-top cosh a for |a| <= top; low is 2 e^-top. Small sines come from their
 * series, because a difference of exponentials loses their digits. */
static inline vf MIRAS__FN(v_hyperbolic)(vf a, vf top, vf low, vf *cosine) {
  vf up = MIRAS__FN(v_exp)(V_SUB(a, top)), down = MIRAS__FN(v_exp)(V_SUB(V_NEG(a), top));
  vf square = V_MUL(a, a), sine = V_SET1(1.9841270e-4f);
  sine = V_FMA(sine, square, V_SET1(8.3333333e-3f));
  sine = V_FMA(sine, square, V_SET1(0.16666667f));
  sine = V_FMA(V_MUL(sine, square), a, a);
  *cosine = V_ADD(up, down);
  return V_SELECT(V_LT(V_ABS(a), V_SET1(0.5f)), V_MUL(low, sine), V_SUB(up, down));
}

/* Signed slices of layer l: w = c sinh(a) / sum cosh(a) and mass = c cosh(a) / sum cosh(a). Either
 * may be NULL, and w may be a. */
static void MIRAS__FN(signed_fwd)(const miras__plan *p, int l, float *w, float *mass,
                                  const float *a) {
  const MIRAS__FN(slices) s = MIRAS__FN(slices_of)(p, l);
  const int columns = s.stride > 1;                /* a vector of slices, row by row; else one   */
  const size_t each = columns ? V_W : 1, hop = columns ? s.stride : V_W;
  const size_t turns = columns ? s.n : (s.n + V_W - 1) / V_W;
  const vf one = V_SET1(1.0f);
  size_t i, j, r;
  for (j = 0; j < s.count; j += each) {
    vf top = V_ZERO(), low, sum = V_ZERO(), sine, cosine;
    float lane[16];
    for (r = 0; r < turns; r++) {
      size_t at = j * s.hop + r * hop, n = columns ? s.count - j : s.n - r * V_W;
      top = V_MAX(top, V_ABS(V_LOAD_N(a + at, n)));
    }
    if (!columns) {
      V_STORE(lane, top);
      for (i = 1; i < V_W; i++) lane[0] = lane[i] > lane[0] ? lane[i] : lane[0];
      top = V_SET1(lane[0]);
    }
    low = V_MUL(V_ADD(one, one), MIRAS__FN(v_exp)(V_NEG(top)));
    if (columns) {
      for (r = 0; r < turns; r++) {
        (void)MIRAS__FN(v_hyperbolic)(V_LOAD_N(a + j + r * hop, s.count - j), top, low, &cosine);
        sum = V_ADD(sum, cosine);
      }
      sum = V_DIV(V_SET1(p->d.simplex), sum);
    } else {
      float row[256], total = 0;
      for (r = 0; r < s.n; r += 256) {
        const size_t m = s.n - r < 256 ? s.n - r : 256;
        for (i = 0; i < m; i += V_W) {
          vf x = V_LOAD_N(a + j * s.hop + r + i, m - i);
          (void)MIRAS__FN(v_hyperbolic)(x, top, low, &cosine);
          V_STORE_N(row + i, cosine, m - i);
        }
        total += MIRAS__FN(sum)(row, m);
      }
      sum = V_SET1(p->d.simplex / total);
    }
    for (r = 0; r < turns; r++) {
      size_t at = j * s.hop + r * hop, n = columns ? s.count - j : s.n - r * V_W;
      sine = MIRAS__FN(v_hyperbolic)(V_LOAD_N(a + at, n), top, low, &cosine);
      if (w) V_STORE_N(w + at, V_MUL(sine, sum), n);
      if (mass) V_STORE_N(mass + at, V_MUL(cosine, sum), n);
    }
  }
}

/* ba += the adjoint of signed_fwd, with t the mass and bt its cotangent (NULL: none):
 *   dw_i/da_j = t_i [i = j] - w_i w_j / c      ba += t (.) bw - w <bw, w>/c
 *   dt_i/da_j = w_i [i = j] - t_i w_j / c      ba += w (.) bt - w <bt, t>/c */
static void MIRAS__FN(signed_bwd)(const miras__plan *p, int l, float *ba, const float *bw,
                                  const float *bt, const float *w, const float *mass) {
  const MIRAS__FN(slices) s = MIRAS__FN(slices_of)(p, l);
  const int columns = s.stride > 1;
  const size_t each = columns ? V_W : 1, hop = columns ? s.stride : V_W;
  const size_t turns = columns ? s.n : (s.n + V_W - 1) / V_W;
  const vf c = V_SET1(p->d.simplex);
  size_t j, r;
  for (j = 0; j < s.count; j += each) {
    const size_t first = j * s.hop;
    vf inner = V_ZERO();
    if (columns) {
      for (r = 0; r < turns; r++) {
        const size_t at = first + r * hop, n = s.count - j;
        inner = V_FMA(V_LOAD_N(bw + at, n), V_LOAD_N(w + at, n), inner);
        if (bt) inner = V_FMA(V_LOAD_N(bt + at, n), V_LOAD_N(mass + at, n), inner);
      }
    } else {
      float total = MIRAS__FN(dot)(bw + first, w + first, s.n);
      if (bt) total += MIRAS__FN(dot)(bt + first, mass + first, s.n);
      inner = V_SET1(total);
    }
    inner = V_DIV(inner, c);
    for (r = 0; r < turns; r++) {
      const size_t at = first + r * hop, n = columns ? s.count - j : s.n - r * V_W;
      vf b = V_NEG(inner), old = V_LOAD_N(ba + at, n);
      if (bt) b = V_ADD(b, V_LOAD_N(bt + at, n));
      old = V_FMA(V_LOAD_N(mass + at, n), V_LOAD_N(bw + at, n), old);
      V_STORE_N(ba + at, V_FMA(V_LOAD_N(w + at, n), b, old), n);
    }
  }
}

/* w = c softmax(a) on every slice of layer l, or the signed slices; may be in place. */
static void MIRAS__FN(simplex_fwd)(const miras__plan *p, int l, float *w, const float *a) {
  MIRAS__FN(slices) s = MIRAS__FN(slices_of)(p, l);
  size_t i;
  if (p->d.simplex_signed) {
    MIRAS__FN(signed_fwd)(p, l, w, NULL, a);
  } else if (s.stride > 1) {
    MIRAS__FN(softmax_columns)(w, a, s.n, s.count, p->d.simplex);
  } else {
    for (i = 0; i < s.count; i++)
      MIRAS__FN(softmax)(w + i * s.hop, a + i * s.hop, s.n, p->d.simplex);
  }
  MIRAS__FN(flush)(w, w, s.count * s.n);
}

/* ba += w (bw - <bw, w>/c) per slice */
static void MIRAS__FN(simplex_bwd)(const miras__plan *p, int l, float *ba, const float *bw,
                                   const float *w) {
  MIRAS__FN(slices) s = MIRAS__FN(slices_of)(p, l);
  const float c = p->d.simplex;
  size_t i, j, cols = s.count;
  if (s.stride > 1) {
    for (j = 0; j < cols; j += V_W) {
      vf inner = V_ZERO();
      for (i = 0; i < s.n; i++)
        inner = V_FMA(V_LOAD_N(bw + i * cols + j, cols - j), V_LOAD_N(w + i * cols + j, cols - j),
                      inner);
      inner = V_DIV(inner, V_SET1(c));
      for (i = 0; i < s.n; i++) {
        vf b = V_SUB(V_LOAD_N(bw + i * cols + j, cols - j), inner);
        vf old = V_LOAD_N(ba + i * cols + j, cols - j);
        V_STORE_N(ba + i * cols + j, V_FMA(V_LOAD_N(w + i * cols + j, cols - j), b, old),
                  cols - j);
      }
    }
  } else {
    for (i = 0; i < s.count; i++) {
      const float *b = bw + i * s.hop, *x = w + i * s.hop;
      float inner = MIRAS__FN(dot)(b, x, s.n) / c;
      MIRAS__FN(muladd)(ba + i * s.hop, x, b, s.n);
      MIRAS__FN(axpy)(ba + i * s.hop, -inner, x, s.n);
    }
  }
}

/* atan x for 0 <= x <= 1, relative error 2e-8 before rounding: above tan(pi/8) it is
 * pi/4 + atan((x - 1)/(x + 1)). */
static inline vf MIRAS__FN(v_atan_part)(vf x) {
  vf one = V_SET1(1.0f), t, s, y;
  vm upper = V_LT(V_SET1(0.414213562f), x);
  t = V_SELECT(upper, V_DIV(V_SUB(x, one), V_ADD(x, one)), x);
  s = V_MUL(t, t);
  y = V_SET1(8.0537227104e-2f);
  y = V_FMA(y, s, V_SET1(-1.3877678740e-1f));
  y = V_FMA(y, s, V_SET1(1.9977710026e-1f));
  y = V_FMA(y, s, V_SET1(-3.3332949139e-1f));
  y = V_FMA(V_MUL(y, s), t, t);
  return V_SELECT(upper, V_ADD(V_SET1(0.785398163f), y), y);
}

/* w = shrink(a; gamma); may be in place.
 *   soft    sgn(a) max(|a| - gamma, 0)
 *   smooth  a atan(u) / (pi/2), u = 2 |a| / (pi gamma): also |a| - gamma + O(gamma^2/|a|) far out
 * Half of the arctangents come from atan u = pi/2 - atan(1/u), so that neither tiny nor zero gamma
 * divides. At gamma = 0 both are the identity. */
static void MIRAS__FN(shrink)(const miras_desc *d, float *w, const float *a, float gamma,
                              size_t n) {
  const vf half_pi = V_SET1(1.57079633f), tiny = V_SET1(FLT_MIN), edge = V_SET1(gamma);
  size_t i;
  if (gamma <= 0) {
    if (w != a) memcpy(w, a, n * sizeof *w);
    return;
  }
  for (i = 0; i < n; i += V_W) {
    vf x = V_LOAD_N(a + i, n - i), size = V_ABS(x), y;
    if (d->smooth_shrink) {
      vf g = V_MUL(half_pi, edge), at;
      vm far_out = V_LT(g, size);
      vf ratio = V_DIV(V_SELECT(far_out, g, size), V_MAX(tiny, V_SELECT(far_out, size, g)));
      at = MIRAS__FN(v_atan_part)(ratio);
      at = V_SELECT(far_out, V_SUB(half_pi, at), at);
      y = V_MUL(x, V_MUL(at, V_SET1(0.636619772f)));
    } else {
      y = V_SUB(size, edge);
      y = V_SELECT(V_LE(y, V_ZERO()), V_ZERO(), V_COPYSIGN(y, x));   /* NaN stays */
    }
    V_STORE_N(w + i, y, n - i);
  }
}

/* ba = [ba +] dshrink/da bw (add: keep what was there; ba may be bw otherwise); returns the
 * cotangent of gamma. With v the smaller of u and 1/u:
 *   soft    dw/da = 1[|a| > gamma],                      dw/dgamma = -sgn(a) 1[|a| > gamma]
 *   smooth  dw/da = (atan u + v/(1 + v^2)) / (pi/2),     dw/dgamma = -sgn(a) min(u, 1) v/(v + v^3)
 * that is 1/(1 + v^2) beyond u = 1 and v^2/(1 + v^2) before. */
static float MIRAS__FN(shrink_bwd)(const miras_desc *d, float *ba, int add, const float *bw,
                                   const float *a, float gamma, size_t n) {
  const vf half_pi = V_SET1(1.57079633f), tiny = V_SET1(FLT_MIN), edge = V_SET1(gamma);
  const vf one = V_SET1(1.0f);
  float row[256];
  double total = 0;
  size_t i, j;
  for (i = 0; i < n; i += 256) {
    size_t m = n - i < 256 ? n - i : 256;
    for (j = 0; j < m; j += V_W) {
      vf x = V_LOAD_N(a + i + j, m - j), b = V_LOAD_N(bw + i + j, m - j), size = V_ABS(x);
      vf slope = one, down = one;
      if (gamma <= 0) {
        down = V_SELECT(V_LE(size, V_ZERO()), V_ZERO(), one);
      } else if (d->smooth_shrink) {
        vf g = V_MUL(half_pi, edge), at, v, r;
        vm far_out = V_LT(g, size);
        v = V_DIV(V_SELECT(far_out, g, size), V_MAX(tiny, V_SELECT(far_out, size, g)));
        at = MIRAS__FN(v_atan_part)(v);
        at = V_SELECT(far_out, V_SUB(half_pi, at), at);
        r = V_DIV(one, V_FMA(v, v, one));
        slope = V_MUL(V_FMA(v, r, at), V_SET1(0.636619772f));
        down = V_SELECT(far_out, r, V_MUL(V_MUL(v, v), r));
      } else {
        slope = V_SELECT(V_LE(V_SUB(size, edge), V_ZERO()), V_ZERO(), one);
        down = slope;
      }
      V_STORE_N(row + j, V_NEG(V_MUL(b, V_COPYSIGN(down, x))), m - j);
      b = V_MUL(b, slope);
      if (add) b = V_ADD(b, V_LOAD_N(ba + i + j, m - j));
      V_STORE_N(ba + i + j, b, m - j);
    }
    total += (double)MIRAS__FN(sum)(row, m);
  }
  return (float)total;
}

/* w = b + shrink(a - b; gamma), or shrink(a; gamma) for b NULL; w may be a. */
static void MIRAS__FN(shrink_from)(const miras__plan *p, float *w, const float *a, const float *b,
                                   float gamma, size_t n) {
  if (!b) {
    MIRAS__FN(shrink)(&p->d, w, a, gamma, n);
    return;
  }
  if (w != a) memcpy(w, a, n * sizeof *w);
  MIRAS__FN(axpy)(w, -1, b, n);
  MIRAS__FN(shrink)(&p->d, w, w, gamma, n);
  MIRAS__FN(add)(w, b, n);
}

/* Its adjoint: ba = [ba +] m (.) bw with m = shrink', bb += bw - m (.) bw (b NULL: none); bw may be
 * ba if it is not to be kept and nothing is added. Returns the cotangent of gamma. */
static float MIRAS__FN(shrink_from_bwd)(const miras__plan *p, float *ba, int add, const float *bw,
                                        const float *a, const float *b, float *bb, float gamma,
                                        size_t n) {
  float row[256], part[256];
  double total = 0;
  size_t i, m;
  if (!b) return MIRAS__FN(shrink_bwd)(&p->d, ba, add, bw, a, gamma, n);
  for (i = 0; i < n; i += m) {
    m = n - i < 256 ? n - i : 256;
    memcpy(row, a + i, m * sizeof *row);
    MIRAS__FN(axpy)(row, -1, b + i, m);
    MIRAS__FN(add)(bb + i, bw + i, m);
    total += (double)MIRAS__FN(shrink_bwd)(&p->d, part, 0, bw + i, row, gamma, m);
    MIRAS__FN(axpy)(bb + i, -1, part, m);
    if (add) MIRAS__FN(add)(ba + i, part, m);
    else memcpy(ba + i, part, m * sizeof *part);
  }
  return (float)total;
}

/* b: the initial dual state, where decays lead to it (FTRL), or NULL. inv [layers] receives N^(2-q)
 * of LQ (1 otherwise): in an open chunk its reads use A_t inv. */
static void MIRAS__FN(link_fwd)(const miras__plan *p, float *w, const float *a, const float *b,
                                float *inv) {
  const float q = p->d.q;
  int l;
  for (l = 0; l < p->layers; l++) {
    size_t n = (size_t)p->in[l] * (size_t)p->out[l], i;
    const float *from = a + p->offset[l];
    float *to = w + p->offset[l], norm;
    inv[l] = 1;
    switch (p->d.retention) {
      case MIRAS_RETAIN_LQ:
      case MIRAS_RETAIN_LQ_PNORM:
        norm = MIRAS__FN(norm_q)(from, q, n);
        inv[l] = (float)pow((double)(norm < 1e-6f ? 1e-6f : norm), 2.0 - (double)q);
        if (p->d.retention == MIRAS_RETAIN_LQ) {
          MIRAS__FN(scale)(to, inv[l], from, n);
        } else {
          for (i = 0; i < n; i += V_W) {
            vf x = V_LOAD_N(from + i, n - i), y = MIRAS__FN(v_power)(V_ABS(x), q - 1);
            V_STORE_N(to + i, V_MUL(V_COPYSIGN(y, x), V_SET1(inv[l])), n - i);
          }
          inv[l] = 1;
        }
        break;
      case MIRAS_RETAIN_KL:
      case MIRAS_RETAIN_CHI2:
      case MIRAS_RETAIN_REVERSE_KL:
      case MIRAS_RETAIN_HELLINGER:
        MIRAS__FN(simplex_fwd)(p, l, to, from);
        break;
      case MIRAS_RETAIN_ELASTIC_FTRL:
        MIRAS__FN(shrink_from)(p, to, from, b ? b + p->offset[l] : NULL, p->d.sparsity, n);
        break;
      case MIRAS_RETAIN_SIGMOID:
        MIRAS__FN(map_sigmoid)(to, from, n);
        MIRAS__FN(flush)(to, to, n);
        break;
      case MIRAS_CUSTOM_RETENTION:
        p->d.custom->link(p->d.custom->user, to, from, p->in[l], p->out[l]);
        break;
      default:
        if (to != from) memcpy(to, from, n * sizeof *to);
        break;
    }
  }
}

/* ba += link'(A)' bw.  w = link(a) as computed; binv [layers] (NULL: none) is the cotangent that
 * the open chunk's reads left on inv. b as in link_fwd, bb += its cotangent. Signed slices: mass
 * [P] is room for their masses, bmass the cotangent of these or NULL. With Pw = sgn(A) |A|^(q-1),
 * dN/dA = Pw N^(1-q):
 *   LQ        ba = bw N^(2-q) + (2-q) (<bw, A> + binv) N^(2-2q) Pw
 *   p-norm    ba = (q-1) |A|^(q-2) bw N^(2-q) + (2-q) <bw, Pw> N^(2-2q) Pw
 *   KL        ba = w (bw - <bw, w>/c) per slice; signed slices as in signed_bwd
 *   FTRL      bb += what the shrinking takes from bw
 *   sigmoid   ba = bw w (1 - w), the smaller of w and 1 - w from e^-|A|
 * Powers of A/N, never of N alone: N^(2-2q) leaves the range of float long before A does. */
static void MIRAS__FN(link_bwd)(const miras__plan *p, float *ba, const float *bw, const float *a,
                                const float *w, const float *binv, const float *b, float *bb,
                                float *mass, const float *bmass) {
  const float q = p->d.q;
  int l;
  for (l = 0; l < p->layers; l++) {
    size_t n = (size_t)p->in[l] * (size_t)p->out[l], i;
    const float *bfrom = bw + p->offset[l], *wl = w + p->offset[l];
    const float *from = a ? a + p->offset[l] : NULL;   /* simplexes do without */
    float *to = ba + p->offset[l], norm;
    switch (p->d.retention) {
      case MIRAS_RETAIN_LQ:
      case MIRAS_RETAIN_LQ_PNORM: {
        int pnorm = p->d.retention == MIRAS_RETAIN_LQ_PNORM, clamped;
        float inner, inv;
        norm = MIRAS__FN(norm_q)(from, q, n);
        clamped = norm < 1e-6f;
        if (clamped) norm = 1e-6f;
        inv = (float)pow((double)norm, 2.0 - (double)q);
        if (pnorm) {
          /* <bw, Pw> N^(2-2q) Pw = <bw, w>/N (A/N)^(q-1), because w = Pw N^(2-q) */
          inner = MIRAS__FN(dot)(bfrom, wl, n) / norm;
        } else {
          /* (<bw, A> + binv) N^(2-2q) Pw = (<bw, A> + binv) N^(1-q) (A/N)^(q-1) */
          inner = (MIRAS__FN(dot)(bfrom, from, n) + (binv ? binv[l] : 0)) * inv / norm;
        }
        inner = clamped ? 0 : inner * (2 - q);
        for (i = 0; i < n; i += V_W) {
          vf x = V_LOAD_N(from + i, n - i), by = V_LOAD_N(bfrom + i, n - i), u;
          vf s = MIRAS__FN(v_power)(V_MUL(V_ABS(x), V_SET1(1 / norm)), q - 1);
          vf old = V_LOAD_N(to + i, n - i);
          u = V_SET1(inv);
          if (pnorm) {
            vf small = q < 2 ? V_MAX(V_ABS(x), V_SET1(1e-6f)) : V_ABS(x);
            u = V_MUL(u, V_MUL(V_SET1(q - 1), q > 1 ? MIRAS__FN(v_power)(small, q - 2) : V_ZERO()));
          }
          old = V_FMA(by, u, old);
          V_STORE_N(to + i, V_FMA(V_SET1(inner), V_COPYSIGN(s, x), old), n - i);
        }
        break;
      }
      case MIRAS_RETAIN_KL:
      case MIRAS_RETAIN_CHI2:
      case MIRAS_RETAIN_REVERSE_KL:
      case MIRAS_RETAIN_HELLINGER:
        if (p->d.simplex_signed) {
          MIRAS__FN(signed_fwd)(p, l, NULL, mass + p->offset[l], from);
          MIRAS__FN(signed_bwd)(p, l, to, bfrom, bmass ? bmass + p->offset[l] : NULL, wl,
                                mass + p->offset[l]);
        } else {
          MIRAS__FN(simplex_bwd)(p, l, to, bfrom, wl);
        }
        break;
      case MIRAS_RETAIN_ELASTIC_FTRL:
        (void)MIRAS__FN(shrink_from_bwd)(p, to, 1, bfrom, from, b ? b + p->offset[l] : NULL,
                                         b ? bb + p->offset[l] : NULL, p->d.sparsity, n);
        break;
      case MIRAS_RETAIN_SIGMOID:
        for (i = 0; i < n; i += V_W) {
          vf e = MIRAS__FN(v_exp)(V_NEG(V_ABS(V_LOAD_N(from + i, n - i)))), one = V_SET1(1.0f);
          vf high = V_DIV(one, V_ADD(one, e)), by = V_LOAD_N(bfrom + i, n - i);
          V_STORE_N(to + i, V_FMA(by, V_MUL(high, V_MUL(e, high)), V_LOAD_N(to + i, n - i)), n - i);
        }
        break;
      case MIRAS_CUSTOM_RETENTION:
        p->d.custom->link_adjoint(p->d.custom->user, to, bfrom, from, wl, p->in[l], p->out[l]);
        break;
      default:
        MIRAS__FN(add)(to, bfrom, n);
        break;
    }
  }
}

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
static double MIRAS__FN(divergence_map)(miras_retention f, double x, double *slope) {
  double r = 1 / x;
  *slope = 0;
  if (x <= 0) return 0;
  *slope = f == MIRAS_RETAIN_CHI2 ? 1 : f == MIRAS_RETAIN_REVERSE_KL ? r * r : 2 * r * r * r;
  return f == MIRAS_RETAIN_CHI2 ? x : f == MIRAS_RETAIN_REVERSE_KL ? r : r * r;
}

/* The roots of slices side by side. */
typedef struct MIRAS__FN(roots) {
  double root[16], base[16], sign;
} MIRAS__FN(roots);

static void MIRAS__FN(divergence_root)(miras_retention f, MIRAS__FN(roots) *z, const float *w,
                                       const float *a, MIRAS__FN(slices) s, size_t lanes,
                                       double c) {
  double low[16], high[16], sum[16], fall[16], slope;
  int open[16], pass, left = 1;
  size_t i, j;
  z->sign = f == MIRAS_RETAIN_CHI2 ? -1 : 1;
  for (j = 0; j < lanes; j++) {
    low[j] = high[j] = -HUGE_VAL;
    z->base[j] = z->root[j] = 0;
    open[j] = 1;
  }
  for (i = 0; i < s.n; i++)
    for (j = 0; j < lanes; j++) {
      double x = (double)w[i * s.stride + j * s.hop], y = (double)a[i * s.stride + j * s.hop], at;
      if (!(x > 0)) continue;
      if (y > high[j]) high[j] = y;
      at = f == MIRAS_RETAIN_CHI2 ? -c / x : f == MIRAS_RETAIN_REVERSE_KL ? x / c : sqrt(x / c);
      if (!(y + at > low[j])) continue;
      low[j] = y + at;
      z->base[j] = y;
      z->root[j] = at;
    }
  for (j = 0; j < lanes; j++) {
    low[j] = z->root[j];
    high[j] += z->sign - z->base[j] + 1e-3;   /* the sum of W' is c only up to its roundings */
  }
  for (pass = 0; pass < 128 && left; pass++) {
    for (j = 0; j < lanes; j++) sum[j] = fall[j] = 0;
    for (i = 0; i < s.n; i++)
      for (j = 0; j < lanes; j++) {
        double x = (double)w[i * s.stride + j * s.hop], y = (double)a[i * s.stride + j * s.hop];
        if (x <= 0) continue;
        sum[j] += x * MIRAS__FN(divergence_map)(f, z->sign * (z->base[j] - y + z->root[j]), &slope);
        fall[j] += x * slope;
      }
    left = 0;
    for (j = 0; j < lanes; j++) {
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

/* ginv of entry a of slice j */
static double MIRAS__FN(divergence_at)(miras_retention f, const MIRAS__FN(roots) *z, size_t j,
                                       float a, double *slope) {
  return MIRAS__FN(divergence_map)(f, z->sign * (z->base[j] - (double)a + z->root[j]), slope);
}

/* w = W from w0 = W' and a = -U, layer by layer; w may be w0. Weights below 1e-30 become 0 with
 * chi^2, which knows zeros, and stay at 1e-30 with the others, which would lose them for good. */
static void MIRAS__FN(divergence_fwd)(const miras__plan *p, float *w, const float *w0,
                                      const float *a) {
  const double least = (double)MIRAS__FADED;
  miras_retention f = p->d.retention;
  MIRAS__FN(roots) z;
  double slope;
  size_t i, j, t;
  int l;
  for (l = 0; l < p->layers; l++) {
    MIRAS__FN(slices) s = MIRAS__FN(slices_of)(p, l);
    size_t most = s.hop == 1 ? 16 : 1;
    for (t = 0; t < s.count; t += most) {
      size_t lanes = s.count - t < most ? s.count - t : most, at = p->offset[l] + t * s.hop;
      MIRAS__FN(divergence_root)(f, &z, w0 + at, a + at, s, lanes, (double)p->d.simplex);
      for (i = 0; i < s.n; i++)
        for (j = 0; j < lanes; j++) {
          size_t e = at + i * s.stride + j * s.hop;
          double g = MIRAS__FN(divergence_at)(f, &z, j, a[e], &slope) * (double)w0[e];
          w[e] = w0[e] <= 0 || (f == MIRAS_RETAIN_CHI2 && g < least) ? 0
                 : g < least ? MIRAS__FADED : (float)g;
        }
    }
  }
}

/* Adjoint: bw comes in as the cotangent of W and leaves as that of W'; ba = that of a.
 *   y = a - zeta,  x1 = W' (.) ginv'(y),  mean = <bw, x1> / sum x1
 *   ba = x1 (.) (bw - mean),  bW' = ginv(y) (.) (bw - mean) */
static void MIRAS__FN(divergence_bwd)(const miras__plan *p, float *bw, float *ba, const float *w0,
                                      const float *a) {
  miras_retention f = p->d.retention;
  MIRAS__FN(roots) z;
  double total[16], along[16], slope;
  size_t i, j, t;
  int l;
  for (l = 0; l < p->layers; l++) {
    MIRAS__FN(slices) s = MIRAS__FN(slices_of)(p, l);
    size_t most = s.hop == 1 ? 16 : 1;
    for (t = 0; t < s.count; t += most) {
      size_t lanes = s.count - t < most ? s.count - t : most, at = p->offset[l] + t * s.hop;
      MIRAS__FN(divergence_root)(f, &z, w0 + at, a + at, s, lanes, (double)p->d.simplex);
      for (j = 0; j < lanes; j++) total[j] = along[j] = 0;
      for (i = 0; i < s.n; i++)
        for (j = 0; j < lanes; j++) {
          size_t e = at + i * s.stride + j * s.hop;
          (void)MIRAS__FN(divergence_at)(f, &z, j, a[e], &slope);
          slope *= (double)w0[e];
          total[j] += slope;
          along[j] += slope * (double)bw[e];
        }
      for (i = 0; i < s.n; i++)
        for (j = 0; j < lanes; j++) {
          size_t e = at + i * s.stride + j * s.hop;
          double g = MIRAS__FN(divergence_at)(f, &z, j, a[e], &slope);
          double b = (double)bw[e] - along[j] / total[j];
          ba[e] = (float)((double)w0[e] * slope * b);
          bw[e] = (float)(g * b);
        }
    }
  }
}

/* Memora's exact token starts from log max(W, 1e-8): what was linear in W may have left the
 * simplex. In place or not; no gradient passes the clamp. */
static void MIRAS__FN(log_weights)(float *a, const float *w, size_t n) {
  size_t i;
  for (i = 0; i < n; i += V_W) {
    vf x = V_LOAD_N(w + i, n - i);
    x = V_SELECT(V_LE(x, V_SET1(1e-8f)), V_SET1(1e-8f), x);
    V_STORE_N(a + i, MIRAS__FN(v_log)(x), n - i);
  }
}

/* b <- b / w where w > 1e-8, else 0 */
static void MIRAS__FN(log_weights_bwd)(float *b, const float *w, size_t n) {
  size_t i;
  for (i = 0; i < n; i += V_W) {
    vf x = V_LOAD_N(w + i, n - i), low = V_SET1(1e-8f);
    vf y = V_DIV(V_LOAD_N(b + i, n - i), V_SELECT(V_LE(x, low), low, x));
    V_STORE_N(b + i, V_SELECT(V_LE(x, low), V_ZERO(), y), n - i);
  }
}
/* @44 CHANNEL PRODUCTS ------------------------------------------------------- needs 14 21 23 -- */

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

/* a_i = alpha_i (.) a_(i-1): what is left of the state at the block's start. a_(-1) = before, or
 * ones for NULL. */
static void MIRAS__FN(channel_decay)(float *a, const float *before, const float *alpha,
                                     size_t ld_alpha, size_t m, size_t n) {
  size_t i;
  for (i = 0; i < m; i++) {
    if (before) MIRAS__FN(mul)(a, alpha, before, n);
    else memcpy(a, alpha, n * sizeof *a);
    before = a;
    a += n;
    alpha += ld_alpha;
  }
}

/* Its adjoint from the block's first row on, before = NULL; ba is consumed:
 * dalpha_i += ba_i (.) a_(i-1),  ba_(i-1) += alpha_i (.) ba_i. */
static void MIRAS__FN(channel_decay_bwd)(float *dalpha, size_t ld_dalpha, float *ba, const float *a,
                                         const float *alpha, size_t ld_alpha, size_t m, size_t n) {
  size_t i;
  for (i = m; i-- > 0;) {
    if (i == 0) {
      MIRAS__FN(add)(dalpha, ba, n);
      return;
    }
    MIRAS__FN(muladd)(dalpha + i * ld_dalpha, ba + i * n, a + (i - 1) * n, n);
    MIRAS__FN(muladd)(ba + (i - 1) * n, alpha + i * ld_alpha, ba + i * n, n);
  }
}

/* One row of D goes one token further: d = alpha (.) d, p = q . d, a = z . d before or after. Which
 * of the two are asked for is a constant at every call. The sums run in 16 lanes as in dot. */
MIRAS__INLINE void MIRAS__FN(channel_step)(int with_q, int with_z, int after, float *d,
                                           const float *alpha, const float *q, float *p,
                                           const float *z, float *a, size_t n) {
  vf lane_q[V_R], lane_z[V_R];
  size_t i = 0, r;
  MIRAS__UNROLL
  for (r = 0; r < V_R; r++) lane_q[r] = lane_z[r] = V_ZERO();
  for (; i + 16 <= n; i += 16) {
    MIRAS__UNROLL
    for (r = 0; r < V_R; r++) {
      const size_t at = i + r * V_W;
      vf x = V_LOAD(d + at);
      if (with_z && !after) lane_z[r] = V_FMA(V_LOAD(z + at), x, lane_z[r]);
      x = V_MUL(V_LOAD(alpha + at), x);
      V_STORE(d + at, x);
      if (with_z && after) lane_z[r] = V_FMA(V_LOAD(z + at), x, lane_z[r]);
      if (with_q) lane_q[r] = V_FMA(V_LOAD(q + at), x, lane_q[r]);
    }
  }
  MIRAS__UNROLL
  for (r = 0; r < V_R; r++) {
    const size_t at = i + r * V_W;
    if (at < n) {
      const size_t rest = n - at;
      vf x = V_LOAD_N(d + at, rest);
      if (with_z && !after) lane_z[r] = V_FMA(V_LOAD_N(z + at, rest), x, lane_z[r]);
      x = V_MUL(V_LOAD_N(alpha + at, rest), x);
      V_STORE_N(d + at, x, rest);
      if (with_z && after) lane_z[r] = V_FMA(V_LOAD_N(z + at, rest), x, lane_z[r]);
      if (with_q) lane_q[r] = V_FMA(V_LOAD_N(q + at, rest), x, lane_q[r]);
    }
  }
  if (with_q) *p = MIRAS__FN(fold)(lane_q);
  if (with_z) *a = MIRAS__FN(fold)(lane_z);
}

/* live_r = eta (.) x of a row that enters. */
static void MIRAS__FN(channel_enter)(const miras__channels *c, size_t r0, size_t i) {
  float *d = c->live + (r0 + i) * c->n;
  const float *x = c->x + i * c->ld_x;
  if (c->eta) MIRAS__FN(mul)(d, c->eta + i * c->ld_eta, x, c->n);
  else memcpy(d, x, c->n * sizeof *d);
}

/* Scores of rows r0..r0+m-1 against all rows of the block up to their own; live advances to row
 * r0+m-1. Row i of p and a is written up to its own j. */
static void MIRAS__FN(channel_scores)(const miras__channels *c, size_t r0, size_t m) {
  const size_t n = c->n;
  size_t i, j;
  for (i = 0; i < m; i++) {
    const size_t row = r0 + i;
    const int reads = c->q && (i + 1) % c->every == 0;
    const float *alpha = c->alpha + i * c->ld_alpha, *z = c->z ? c->z + i * c->ld_z : NULL;
    const float *q = reads ? c->q + i / c->every * c->ld_q : NULL;
    float *p = reads ? c->p + i / c->every * c->ld_p : NULL, *a = z ? c->a + i * c->ld_p : NULL;
    float *d = c->live;
    if (row % MIRAS__SWEEP == 0) MIRAS__FN(flush)(d, d, row * n);
    switch ((reads ? 1 : 0) + (z ? 2 : 0) + (z && c->after ? 4 : 0)) {
      case 0:
        for (j = 0; j < row; j++) MIRAS__FN(mul)(d + j * n, alpha, d + j * n, n);
        break;
      case 1:
        for (j = 0; j < row; j++, d += n)
          MIRAS__FN(channel_step)(1, 0, 0, d, alpha, q, p + j, NULL, NULL, n);
        break;
      case 2:
        for (j = 0; j < row; j++, d += n)
          MIRAS__FN(channel_step)(0, 1, 0, d, alpha, NULL, NULL, z, a + j, n);
        break;
      case 3:
        for (j = 0; j < row; j++, d += n)
          MIRAS__FN(channel_step)(1, 1, 0, d, alpha, q, p + j, z, a + j, n);
        break;
      case 6:
        for (j = 0; j < row; j++, d += n)
          MIRAS__FN(channel_step)(0, 1, 1, d, alpha, NULL, NULL, z, a + j, n);
        break;
      default:
        for (j = 0; j < row; j++, d += n)
          MIRAS__FN(channel_step)(1, 1, 1, d, alpha, q, p + j, z, a + j, n);
        break;
    }
    MIRAS__FN(channel_enter)(c, r0, i);
    if (reads) p[row] = MIRAS__FN(dot)(q, c->live + row * n, n);
  }
}

/* o [queried rows, n] += sum_(j<=i) p_ij D_ij over rows r0..r0+m-1; live advances. o NULL: it only
 * advances. The sum of an element is one chain in the order of j. */
static void MIRAS__FN(channel_mixes)(const miras__channels *c, float *o, size_t ldo, size_t r0,
                                     size_t m) {
  const size_t n = c->n;
  size_t i, j, x;
  for (i = 0; i < m; i++) {
    const size_t row = r0 + i;
    const float *alpha = c->alpha + i * c->ld_alpha, *p;
    float *to;
    if (row % MIRAS__SWEEP == 0) MIRAS__FN(flush)(c->live, c->live, row * n);
    if (!o || (i + 1) % c->every) {
      for (j = 0; j < row; j++) MIRAS__FN(mul)(c->live + j * n, alpha, c->live + j * n, n);
      MIRAS__FN(channel_enter)(c, r0, i);
      continue;
    }
    MIRAS__FN(channel_enter)(c, r0, i);
    p = c->p + i / c->every * c->ld_p;
    to = o + i / c->every * ldo;
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
}

/* The adjoint of both over a whole block of m rows (r0 = 0). For scores c->p, c->a hold their
 * cotangents bP, bA; for mixes c->p holds P, c->q the cotangents of o, and g->q is NULL. With B the
 * cotangent of D_ij, from B = g->live_j at the last row, for each j and i = m-1 down to j:
 *   B += bP_ij q_i,  bq_i += bP_ij D_ij       if i is queried
 *   B += bA_ij z_i,  bz_i += bA_ij D_ij       here if after, else one row lower, with D_(i-1)j
 *   balpha_i += B (.) D_(i-1)j,  B <- alpha_i (.) B             (i > j)
 *   and at i = j:  bx_j += eta_j (.) B,  beta_j += x_j (.) B
 * One vector of channels at a time: the history of its D_ij over i is all that has to be kept.
 * history: 16 m floats. */
static void MIRAS__FN(channel_bwd)(const miras__channels *c, const miras__channel_grads *g,
                                   size_t m, float *history) {
  const size_t n = c->n, every = c->every;
  size_t i, j, x;
  for (x = 0; x < n; x += V_W) {
    const size_t rest = n - x;
    for (j = 0; j < m; j++) {
      vf first = V_LOAD_N(c->x + j * c->ld_x + x, rest), b, v;
      if (c->eta) first = V_MUL(V_LOAD_N(c->eta + j * c->ld_eta + x, rest), first);
      v = first;
      V_STORE(history, v);
      for (i = j + 1; i < m; i++) {
        v = V_MUL(V_LOAD_N(c->alpha + i * c->ld_alpha + x, rest), v);
        V_STORE(history + (i - j) * V_W, v);
      }
      b = g->live ? V_LOAD_N(g->live + j * n + x, rest) : V_ZERO();
      for (i = m; i-- > j;) {
        const size_t row = i / every;
        v = V_LOAD(history + (i - j) * V_W);
        if (c->q && (i + 1) % every == 0) {
          vf bp = V_SET1(c->p[row * c->ld_p + j]);
          b = V_FMA(bp, V_LOAD_N(c->q + row * c->ld_q + x, rest), b);
          if (g->q) {
            float *to = g->q + row * g->ld_q + x;
            V_STORE_N(to, V_FMA(bp, v, V_LOAD_N(to, rest)), rest);
          }
        }
        if (i > j) {
          vf older = V_LOAD(history + (i - 1 - j) * V_W), ba = V_ZERO();
          float *to = g->alpha + i * g->ld_alpha + x;
          if (c->z) {
            float *bz = g->z + i * g->ld_z + x;
            ba = V_SET1(c->a[i * c->ld_p + j]);
            V_STORE_N(bz, V_FMA(ba, c->after ? v : older, V_LOAD_N(bz, rest)), rest);
            ba = V_MUL(ba, V_LOAD_N(c->z + i * c->ld_z + x, rest));
            if (c->after) b = V_ADD(b, ba);
          }
          V_STORE_N(to, V_FMA(b, older, V_LOAD_N(to, rest)), rest);
          b = V_MUL(V_LOAD_N(c->alpha + i * c->ld_alpha + x, rest), b);
          if (c->z && !c->after) b = V_ADD(b, ba);
        }
      }
      {
        float *to = g->x + j * g->ld_x + x;
        vf raw = b;
        if (c->eta) b = V_MUL(V_LOAD_N(c->eta + j * c->ld_eta + x, rest), b);
        V_STORE_N(to, V_ADD(V_LOAD_N(to, rest), b), rest);
        if (c->eta && g->eta) {
          to = g->eta + j * g->ld_eta + x;
          V_STORE_N(to, V_FMA(V_LOAD_N(c->x + j * c->ld_x + x, rest), raw, V_LOAD_N(to, rest)),
                    rest);
        }
      }
    }
  }
}

/* @50 EXACT LINEAR ENGINE ---------------------------------------- needs 14 21 22 23 25 26 44 -- */

/* Matrix memories whose update is linear in the state S [features, dv]. A token is one row of a
 * block, or `steps` rows; the keep gates act on a token's first row and are 1 on the others. Row i
 * with x_i = phi(k_i) does
 *   R_i = S_(i-1) (error first) or diag(alpha_i) S_(i-1) (decay first)
 *   S_i = diag(alpha_i) S_(i-1) diag(bstepi) + x_i u_i' [+ b_i t_i']        y_i = S_i' phi(q_i)
 *   dot product      u_i = eta_i v_i
 *   L2               u_i = eta_i e_i,  e_i = v_i - R_i' x_i
 *   implicit         the same with D_i = eta_i/(1 + eta_i x_i.x_i) for eta_i; so is a bounded step
 *   separate erase   u_i = eta_i v_i,  t_i = R_i' a_i
 *   diagonal         u_i = D_i v_i,  alpha_i -= D_i x_i^2 [decay first: alpha_i D_i x_i^2]
 *   normalise        z_i = alpha_i z_(i-1) + eta_i x_i is one more column; y_i /= z_i . phi(q_i)
 * beta is 1 except with a value gate. eta may be one number per entry of the value: eta_i (.) v_i,
 * and D_i of each by itself. How many rows are worked on together is only a schedule: with
 * S_0 the state at the block's start, c_i = prod_(s<=i) alpha_s and L_ij = prod_(j<s<=i) alpha_s,
 *   S_i = diag(c_i) S_0 + sum_(j<=i) (L_ij x_j) u_j' [+ (L_ij b_j) t_j']
 * so with z_i the row that reads the error (x_i or a_i), E_ij, ce_i = L_ij, c_i at decay first and
 * L_(i-1)j, c_(i-1) at error first,
 *   A_ij = E_ij z_i . x_j  (j < i)           P_ij = L_ij phi(q_i) . x_j  (j <= i)
 *   R_i' z_i = ce_i z_i S_0 + sum_(j<i) A_ij u_j [+ Ab_ij t_j]     by substitution, row after row
 *   y_i      = c_i phi(q_i) S_0 + sum_(j<=i) P_ij u_j [+ Pb_ij t_j]
 * With a scalar alpha, c and L are numbers by recursion; with one per channel, room @44 carries the
 * rows D_ij = L_ij (.) x_j. A value gate decays the rows u_j in the same way.
 *
 * toward = MIRAS_TOWARD_INITIAL: decays lead to the initial memory B (and z to B's z),
 *   R_i = S_(i-1) or B + diag(alpha_i) (S_(i-1) - B)
 *   S_i = B + diag(alpha_i) (S_(i-1) - B) diag(beta_i) + x_i u_i' [+ b_i t_i']
 * so F_i = S_i - B obeys the recurrence above. A block works on F_0 = S_0 - B in the place of S_0,
 * every row that reads adds its own product with B,
 *   R_i' z_i = z_i B + (as above)     y_i = phi(q_i) B + (as above)     S_m = B + F_m
 * and the state keeps S itself. Where B is all zeros F is S, and nothing more is done.
 *
 * A block that is still open keeps its rows in the state, and each row's results are chains that do
 * not depend on how many rows are computed in one go: any split into calls gives the same bits. In
 * blocks of one token nothing stays open. What has faded below 1e-30 becomes 0: coefficients at
 * once, S every MIRAS__SWEEP tokens. For the adjoint that has not happened. */

/* Decays of one row: keep is the token's gate, NULL for 1. */
static void MIRAS__FN(exact_decay)(const miras__plan *p, float *alpha, const float *keep,
                                   const float *x, float rate) {
  size_t n = p->features, i;
  if (!p->channels) {
    *alpha = keep ? *keep : 1;
    return;
  }
  if (keep && p->d.keep_gate == MIRAS_GATE_CHANNEL) memcpy(alpha, keep, n * sizeof *alpha);
  else MIRAS__FN(fill)(alpha, keep ? *keep : 1, n);
  if (!p->d.diagonal) return;
  for (i = 0; i < n; i += V_W) {
    vf v = V_LOAD_N(x + i, n - i), a = V_LOAD_N(alpha + i, n - i);
    v = V_MUL(V_SET1(rate), V_MUL(v, v));
    if (p->d.order == MIRAS_DECAY_FIRST) v = V_MUL(a, v);
    V_STORE_N(alpha + i, V_SUB(a, v), n - i);
  }
}

/* Steps in use of one row, from the gate's and x.x. */
static void MIRAS__FN(exact_step)(const miras__plan *p, float *eta, const float *rate, float xx) {
  size_t i;
  if (p->rates == 1) {
    *eta = p->implicit ? *rate / (1 + *rate * xx) : *rate;
    return;
  }
  for (i = 0; i < p->rates; i += V_W) {
    vf r = V_LOAD_N(rate + i, p->rates - i);
    if (p->implicit) r = V_DIV(r, V_ADD(V_SET1(1.0f), V_MUL(r, V_SET1(xx))));
    V_STORE_N(eta + i, r, p->rates - i);
  }
}

/* to = eta (.) v */
static void MIRAS__FN(exact_times)(const miras__plan *p, float *to, const float *eta,
                                   const float *v) {
  const size_t dv = (size_t)p->d.value_dim;
  if (p->rates > 1) MIRAS__FN(mul)(to, eta, v, dv);
  else MIRAS__FN(scale)(to, *eta, v, dv);
}

/* B, where decays lead to it and it is anything but zeros; else NULL. */
static const float *MIRAS__FN(exact_base)(const miras__plan *p, const float *w0) {
  const size_t n = p->weights;
  float lane[V_W];
  size_t i = 0, r;
  if (!p->d.toward) return NULL;
  while (i < n) {
    const size_t end = n - i < 512 ? n : i + 512;
    vf any = V_ZERO();
    for (; i < end; i += V_W) any = V_ADD(any, V_ABS(V_LOAD_N(w0 + i, end - i)));
    V_STORE(lane, any);
    for (r = 0; r < V_W; r++)
      if (!(lane[r] <= 0)) return w0;
  }
  return NULL;
}

/* F = S - B in k->f; S itself where there is no B. */
static const float *MIRAS__FN(exact_beyond)(const miras__plan *p, miras__block *k, const float *s,
                                            const float *base) {
  const size_t n = p->weights;
  size_t i;
  if (!base) return s;
  for (i = 0; i < n; i += V_W)
    V_STORE_N(k->f + i, V_SUB(V_LOAD_N(s + i, n - i), V_LOAD_N(base + i, n - i)), n - i);
  return k->f;
}

/* Substitution over rows r0..r0+m-1, nv vectors of columns at once, tail > 0: one vector of that
 * many. h, eta: rows relative to r0, eta of one number or of rates; u, w: all rows of the block.
 *   w NULL:  h_i -= sum_(j<i) A_ij u_j,  u_i = eta_i (.) h_i
 *   else     u_i = h_i + sum_(j<i) W_ij w_j + sum_(j<i) A_ij u_j */
MIRAS__INLINE void MIRAS__FN(exact_strip)(size_t nv, size_t tail, float *h, float *u,
                                          const float *w, size_t dv, const float *a,
                                          const float *aw, size_t lda, const float *eta,
                                          size_t rates, size_t r0, size_t m) {
  size_t i, j, r;
  for (i = 0; i < m; i++, h += dv, a += lda, eta += rates) {
    const float *uj = u, *wj = w;
    float *to = u + (r0 + i) * dv;
    vf acc[4];
    MIRAS__UNROLL
    for (r = 0; r < nv; r++) acc[r] = tail ? V_LOAD_N(h, tail) : V_LOAD(h + r * V_W);
    if (w) {
      for (j = 0; j < r0 + i; j++, wj += dv) {
        const vf s = V_SET1(aw[j]);
        MIRAS__UNROLL
        for (r = 0; r < nv; r++)
          acc[r] = V_FMA(s, tail ? V_LOAD_N(wj, tail) : V_LOAD(wj + r * V_W), acc[r]);
      }
      aw += lda;
    }
    for (j = 0; j < r0 + i; j++, uj += dv) {
      const vf s = V_SET1(a[j]);
      MIRAS__UNROLL
      for (r = 0; r < nv; r++) {
        const vf x = tail ? V_LOAD_N(uj, tail) : V_LOAD(uj + r * V_W);
        acc[r] = w ? V_FMA(s, x, acc[r]) : V_FNMA(s, x, acc[r]);
      }
    }
    MIRAS__UNROLL
    for (r = 0; r < nv; r++) {
      vf x = acc[r];
      if (!w) {
        if (tail) V_STORE_N(h, x, tail);
        else V_STORE(h + r * V_W, x);
        if (rates == 1) x = V_MUL(V_SET1(*eta), x);
        else x = V_MUL(tail ? V_LOAD_N(eta, tail) : V_LOAD(eta + r * V_W), x);
      }
      if (tail) V_STORE_N(to, x, tail);
      else V_STORE(to + r * V_W, x);
    }
  }
}

static void MIRAS__FN(exact_solve)(float *h, float *u, const float *w, size_t dv, const float *a,
                                   const float *aw, size_t lda, const float *eta, size_t rates,
                                   size_t r0, size_t m) {
  const size_t across = rates > 1 ? 1 : 0;   /* eta moves along with the columns */
  size_t x = 0;
  for (; x + 4 * V_W <= dv; x += 4 * V_W)
    MIRAS__FN(exact_strip)(4, 0, h + x, u + x, w ? w + x : NULL, dv, a, aw, lda, eta + across * x,
                           rates, r0, m);
  for (; x + V_W <= dv; x += V_W)
    MIRAS__FN(exact_strip)(1, 0, h + x, u + x, w ? w + x : NULL, dv, a, aw, lda, eta + across * x,
                           rates, r0, m);
  if (x < dv)
    MIRAS__FN(exact_strip)(1, dv - x, h + x, u + x, w ? w + x : NULL, dv, a, aw, lda,
                           eta + across * x, rates, r0, m);
}

/* Its transpose over a whole block of m rows, from the last: bu_j += sum_(i>j) A_ij r_i and
 * r_j = -eta_j (.) bu_j, or bu_j for eta NULL: the cotangent of R_j' z_j. */
MIRAS__INLINE void MIRAS__FN(exact_strip_bwd)(size_t nv, size_t tail, float *bu, float *r,
                                              size_t dv, const float *a, size_t lda,
                                              const float *eta, size_t rates, size_t m) {
  size_t i, j, v;
  for (j = m; j-- > 0;) {
    float *at = bu + j * dv, *to = r + j * dv;
    const float *ri = to + dv, *aij = a + (j + 1) * lda + j;
    vf acc[4];
    MIRAS__UNROLL
    for (v = 0; v < nv; v++) acc[v] = tail ? V_LOAD_N(at, tail) : V_LOAD(at + v * V_W);
    for (i = j + 1; i < m; i++, ri += dv, aij += lda) {
      const vf s = V_SET1(*aij);
      MIRAS__UNROLL
      for (v = 0; v < nv; v++)
        acc[v] = V_FMA(s, tail ? V_LOAD_N(ri, tail) : V_LOAD(ri + v * V_W), acc[v]);
    }
    MIRAS__UNROLL
    for (v = 0; v < nv; v++) {
      vf x = acc[v];
      if (eta && rates == 1) {
        x = V_MUL(V_SET1(-eta[j]), x);
      } else if (eta) {
        const float *step = eta + j * rates;
        x = V_MUL(V_NEG(tail ? V_LOAD_N(step, tail) : V_LOAD(step + v * V_W)), x);
      }
      if (tail) {
        V_STORE_N(at, acc[v], tail);
        V_STORE_N(to, x, tail);
      } else {
        V_STORE(at + v * V_W, acc[v]);
        V_STORE(to + v * V_W, x);
      }
    }
  }
}

static void MIRAS__FN(exact_solve_bwd)(float *bu, float *r, size_t dv, const float *a, size_t lda,
                                       const float *eta, size_t rates, size_t m) {
  const size_t across = rates > 1 ? 1 : 0;
  size_t x = 0;
  for (; x < dv; x += dv - x >= 4 * V_W ? 4 * V_W : V_W) {
    const float *step = eta ? eta + across * x : NULL;
    if (dv - x >= 4 * V_W)
      MIRAS__FN(exact_strip_bwd)(4, 0, bu + x, r + x, dv, a, lda, step, rates, m);
    else if (dv - x >= V_W)
      MIRAS__FN(exact_strip_bwd)(1, 0, bu + x, r + x, dv, a, lda, step, rates, m);
    else
      MIRAS__FN(exact_strip_bwd)(1, dv - x, bu + x, r + x, dv, a, lda, step, rates, m);
  }
}

/* Rows 1..m of c: what is left of S_0 after rows r0..r0+m-1 of a block, row 0 being what was left
 * before. Swept on a grid of rows. */
static void MIRAS__FN(exact_left)(float *c, const float *alpha, size_t n, size_t r0, size_t m) {
  size_t part;
  for (; m; m -= part, r0 += part, alpha += part * n, c += part * n) {
    part = MIRAS__SWEEP - r0 % MIRAS__SWEEP;
    if (part > m) part = m;
    MIRAS__FN(channel_decay)(c + n, c, alpha, n, part, n);
    if ((r0 + part) % MIRAS__SWEEP == 0) MIRAS__FN(flush)(c + part * n, c + part * n, n);
  }
}

/* to [n, ld] <- the m rows of x [m, n] as columns */
static void MIRAS__FN(exact_columns)(float *to, size_t ld, const float *x, size_t n, size_t m) {
  size_t i, j;
  for (j = 0; j + V_W <= m; j += V_W) {
    for (i = 0; i + 4 <= n; i += 4) V_TRANSPOSE4(to + i * ld + j, ld, x + j * n + i, n);
    for (; i < n; i++) {
      size_t r;
      for (r = j; r < j + V_W; r++) to[i * ld + r] = x[r * n + i];
    }
  }
  for (; j < m; j++)
    for (i = 0; i < n; i++) to[i * ld + j] = x[j * n + i];
}

/* Everything of m rows from row r0 of a block on; t is the call's token of the first. s0 is S_0, or
 * F_0 and then base is B. Leaves: in o the rows and coefficients up to r0+m; k->x, eta, alpha;
 * k->zq the rows that read (errors first, then queries), k->ss what they read, with e_i of L2 in
 * the error's place; k->raw what queries read of s0 before a value gate; k->den of queries. */
static void MIRAS__FN(exact_rows)(const miras__plan *p, miras__block *k, const miras__open *o,
                                  const float *s0, const float *base, const miras__head_io *io,
                                  size_t t, size_t r0, size_t m) {
  const miras_desc *d = &p->d;
  const size_t n = p->features, dv = (size_t)d->value_dim, dk = (size_t)d->key_dim, N = k->ld;
  const size_t steps = (size_t)d->steps, reads = io->q ? m / steps : 0, nz = p->delta ? m : 0;
  const size_t after = d->order == MIRAS_DECAY_FIRST, rows = nz + reads, so_far = r0 + m;
  const size_t rates = p->rates;
  const int erase = d->separate_erase, value = d->value_gate != MIRAS_GATE_CONSTANT;
  float *q = k->zq + nz * n, *sq = k->ss + nz * dv, *pq = k->p + nz * N, *pqb = k->pb + nz * N;
  size_t i, j;
  for (i = 0; i < m; i++) {
    const size_t token = t + i / steps, s = i % steps;
    const float *rate = io->step + token * io->ld_step + (io->ld_step ? s * rates : 0);
    float *x = k->x + i * n, *eta = k->eta + i * rates;
    MIRAS__FN(feature_fwd)(p->map, x, io->k + token * io->ldk + s * dk, dk);
    MIRAS__FN(exact_step)(p, eta, rate, p->implicit ? MIRAS__FN(dot)(x, x, n) : 0);
    MIRAS__FN(exact_decay)(p, k->alpha + i * (p->channels ? n : 1),
                           s ? NULL : io->keep + token * io->ld_keep, x, *eta);
    if (nz) memcpy(k->zq + i * n, erase ? io->erase + token * io->ld_erase : x, n * sizeof *x);
    if (erase)
      memcpy(k->xb + i * n, io->replace + token * io->ld_replace, n * sizeof *x);
    if (value && s) MIRAS__FN(fill)(k->beta + i * dv, 1, dv);
    if (value && !s)
      memcpy(k->beta + i * dv, io->value_keep + token * io->ld_value_keep, dv * sizeof *x);
    if (d->normalise) o->eta[r0 + i] = *eta;
  }
  for (i = 0; i < reads; i++)
    MIRAS__FN(feature_fwd)(p->map, q + i * n, io->q + (t + i) * io->ldq, dk);

  /* coefficients; row i + 1 of c, l, cv belongs to row i, row 0 to what came before */
  if (p->channels) {
    if (r0) memcpy(k->c, o->c, n * sizeof *k->c);
    else MIRAS__FN(fill)(k->c, 1, n);
    MIRAS__FN(exact_left)(k->c, k->alpha, n, r0, m);
    memcpy(o->c, k->c + m * n, n * sizeof *k->c);
  } else {
    k->c[0] = r0 ? o->c[0] : 1;
    memcpy(k->l, o->l, r0 * sizeof *k->l);
    for (i = 0; i < m; i++) {
      float *l = k->l + (i + 1) * N, left = k->alpha[i] * k->c[i];
      MIRAS__FN(scale)(l, k->alpha[i], l - N, r0 + i);
      if (!(left >= MIRAS__FADED)) {               /* no L_ij is less than c_i */
        MIRAS__FN(flush)(l, l, r0 + i);
        MIRAS__FN(flush)(&left, &left, 1);
      }
      k->c[i + 1] = left;
      l[r0 + i] = 1;
    }
    o->c[0] = k->c[m];
    memcpy(o->l, k->l + m * N, so_far * sizeof *k->l);
  }
  if (value) {
    if (r0) memcpy(k->cv, o->cv, dv * sizeof *k->cv);
    else MIRAS__FN(fill)(k->cv, 1, dv);
    MIRAS__FN(exact_left)(k->cv, k->beta, dv, r0, m);
    memcpy(o->cv, k->cv + m * dv, dv * sizeof *k->cv);
  }

  /* what the rows read of S_0, and the scores against the rows of the block */
  if (p->channels) {
    miras__channels c;
    memset(&c, 0, sizeof c);
    c.n = c.ld_x = c.ld_alpha = c.ld_q = c.ld_z = n;
    c.every = steps;
    c.after = (int)after;
    c.alpha = k->alpha;
    c.q = reads ? q : NULL;
    c.z = nz ? k->zq : NULL;
    c.ld_p = N;
    c.x = k->x;
    c.live = o->x;
    c.p = pq;
    c.a = k->p;
    MIRAS__FN(channel_scores)(&c, r0, m);
    if (erase) {
      c.x = k->xb;
      c.live = o->xb;
      c.p = pqb;
      c.a = k->pb;
      MIRAS__FN(channel_scores)(&c, r0, m);
    }
    for (i = 0; i < rows; i++) {
      const size_t at = i < nz ? i + after : (i - nz + 1) * steps;
      MIRAS__FN(mul)(k->zc + i * n, k->zq + i * n, k->c + at * n, n);
    }
    MIRAS__FN(gemm)(MIRAS__SET, k->ss, dv, k->zc, n, 1, s0, dv, 1, rows, dv, n, -1, k->pack);
  } else {
    /* Products with whole vectors of columns, because gemm packs what ends inside one. What stands
     * behind the last row is not looked at. */
    const size_t whole = miras__pad(so_far);
    MIRAS__FN(exact_columns)(o->x + r0, N, k->x, n, m);
    if (erase) MIRAS__FN(exact_columns)(o->xb + r0, N, k->xb, n, m);
    MIRAS__FN(gemm)(MIRAS__SET, k->ss, dv, k->zq, n, 1, s0, dv, 1, rows, dv, n, -1, k->pack);
    MIRAS__FN(gemm)(MIRAS__SET, k->kx, N, k->zq, n, 1, o->x, N, 1, rows, whole, n, -1, k->pack);
    if (erase)
      MIRAS__FN(gemm)(MIRAS__SET, k->kb, N, k->zq, n, 1, o->xb, N, 1, rows, whole, n, -1, k->pack);
    for (i = 0; i < rows; i++) {
      const size_t at = i < nz ? i + after : (i - nz + 1) * steps;
      const size_t seen = r0 + (i < nz ? i : at);
      MIRAS__FN(scale)(k->ss + i * dv, k->c[at], k->ss + i * dv, dv);
      MIRAS__FN(mul)(k->p + i * N, k->l + at * N, k->kx + i * N, seen);
      if (erase) MIRAS__FN(mul)(k->pb + i * N, k->l + at * N, k->kb + i * N, seen);
    }
  }
  if (value) {
    memcpy(k->raw, sq, reads * dv * sizeof *sq);
    for (i = 0; i < reads; i++)
      MIRAS__FN(mul)(sq + i * dv, k->cv + (i + 1) * steps * dv, sq + i * dv, dv);
  }
  if (base && rows)
    MIRAS__FN(gemm)(MIRAS__ADD, k->ss, dv, k->zq, n, 1, base, dv, 1, rows, dv, n, -1, k->pack);

  /* the rows' own u, t */
  for (i = 0; i < m; i++) {
    const float *v = io->v + (t + i / steps) * io->ldv + i % steps * dv;
    float *u = value ? k->u + i * dv : o->u + (r0 + i) * dv;
    if (erase || !p->delta) {
      MIRAS__FN(exact_times)(p, u, k->eta + i * rates, v);
    } else {
      float *e = k->ss + i * dv;
      for (j = 0; j < dv; j += V_W)
        V_STORE_N(e + j, V_SUB(V_LOAD_N(v + j, dv - j), V_LOAD_N(e + j, dv - j)), dv - j);
    }
  }
  if (erase)
    MIRAS__FN(exact_solve)(k->ss, o->t, o->u, dv, k->pb, k->p, N, k->eta, rates, r0, m);
  else if (p->delta)
    MIRAS__FN(exact_solve)(k->ss, o->u, NULL, dv, k->p, NULL, N, k->eta, rates, r0, m);

  /* answers */
  if (value) {
    miras__channels c;
    memset(&c, 0, sizeof c);
    c.n = c.ld_x = c.ld_alpha = dv;
    c.every = steps;
    c.x = k->u;
    c.alpha = k->beta;
    c.p = pq;
    c.ld_p = N;
    c.live = o->u;
    MIRAS__FN(channel_mixes)(&c, reads ? sq : NULL, dv, r0, m);
  } else if (steps == 1 && reads) {
    MIRAS__FN(gemm)(MIRAS__ADD, sq, dv, pq, N, 1, o->u, dv, 1, reads, dv, so_far, (ptrdiff_t)r0,
                    k->pack);
    if (erase)
      MIRAS__FN(gemm)(MIRAS__ADD, sq, dv, pqb, N, 1, o->t, dv, 1, reads, dv, so_far,
                      (ptrdiff_t)r0, k->pack);
  } else {
    for (i = 0; i < reads; i++)
      MIRAS__FN(gemm)(MIRAS__ADD, sq + i * dv, dv, pq + i * N, N, 1, o->u, dv, 1, 1, dv,
                      r0 + (i + 1) * steps, -1, k->pack);
  }
  if (d->normalise)
    for (i = 0; i < reads; i++) {
      const float *z0 = s0 + n * dv;
      float state = p->channels ? MIRAS__FN(dot)(k->zc + (nz + i) * n, z0, n)
                                : k->c[(i + 1) * steps] * MIRAS__FN(dot)(q + i * n, z0, n);
      if (base) state += MIRAS__FN(dot)(q + i * n, base + n * dv, n);
      k->den[i] = state + MIRAS__FN(dot)(pq + i * N, o->eta, r0 + (i + 1) * steps) + 1e-10f;
    }
}

/* What a row x sees of the rows of an open block: p_j = x . D_j. */
static void MIRAS__FN(exact_weights)(const miras__plan *p, miras__block *k, const miras__open *o,
                                     float *to, const float *x, const float *d, size_t rows) {
  size_t j, n = p->features;
  if (p->channels) {
    for (j = 0; j < rows; j++) to[j] = MIRAS__FN(dot)(x, d + j * n, n);
    return;
  }
  MIRAS__FN(gemm)(MIRAS__SET, to, rows, x, n, 1, d, k->ld, 1, 1, rows, n, -1, k->pack);
  MIRAS__FN(mul)(to, o->l, to, rows);
}

/* out [dv] = x S of the state after `rows` rows of an open block; x is a row of features. Given F_0
 * for s0 it is x F, and what x reads of B is the caller's to add. */
static void MIRAS__FN(exact_read)(const miras__plan *p, miras__block *k, const miras__open *o,
                                  const float *s0, size_t rows, const float *x, float *out) {
  const size_t n = p->features, dv = (size_t)p->d.value_dim;
  const float *from = x, *z0 = s0 + n * dv;
  if (rows && p->channels) {
    MIRAS__FN(mul)(k->row, x, o->c, n);
    from = k->row;
  }
  MIRAS__FN(gemm)(MIRAS__SET, out, dv, from, n, 1, s0, dv, 1, 1, dv, n, -1, k->pack);
  if (p->d.normalise) k->den[0] = MIRAS__FN(dot)(from, z0, n);
  if (rows) {
    if (!p->channels) MIRAS__FN(scale)(out, o->c[0], out, dv);
    if (p->d.value_gate) MIRAS__FN(mul)(out, o->cv, out, dv);
    MIRAS__FN(exact_weights)(p, k, o, k->p, x, o->x, rows);
    MIRAS__FN(gemm)(MIRAS__ADD, out, dv, k->p, rows, 1, o->u, dv, 1, 1, dv, rows, -1, k->pack);
    if (p->d.normalise) {
      if (!p->channels) k->den[0] *= o->c[0];
      k->den[0] += MIRAS__FN(dot)(k->p, o->eta, rows);
    }
    if (p->d.separate_erase) {
      MIRAS__FN(exact_weights)(p, k, o, k->pb, x, o->xb, rows);
      MIRAS__FN(gemm)(MIRAS__ADD, out, dv, k->pb, rows, 1, o->t, dv, 1, 1, dv, rows, -1, k->pack);
    }
  }
  if (p->d.normalise) k->den[0] += 1e-10f;
}

/* s <- diag(c) s + sum_r x_r u_r' for a few pairs in one pass over the state; c has stride ld_c. */
MIRAS__INLINE void MIRAS__FN(exact_fold_few)(size_t pairs, float *s, const float *c, size_t ld_c,
                                             const float *const *x, const float *const *u,
                                             size_t n, size_t dv) {
  size_t i, j, r;
  for (j = 0; j < dv; j += V_W) {
    const size_t rest = dv - j;
    float *row = s + j;
    vf w[4];
    MIRAS__UNROLL
    for (r = 0; r < pairs; r++) w[r] = V_LOAD_N(u[r] + j, rest);
    for (i = 0; i < n; i++, row += dv) {
      vf v = V_MUL(V_SET1(c[i * ld_c]), V_LOAD_N(row, rest));
      MIRAS__UNROLL
      for (r = 0; r < pairs; r++) v = V_FMA(V_SET1(x[r][i]), w[r], v);
      V_STORE_N(row, v, rest);
    }
  }
}

/* s [weights]: from S_0 to the state after the block's `rows` rows, in place. */
static void MIRAS__FN(exact_fold)(const miras__plan *p, miras__block *k, const miras__open *o,
                                  float *s, size_t rows) {
  const size_t n = p->features, dv = (size_t)p->d.value_dim, ld = k->ld;
  const size_t of = p->channels ? 1 : ld, by = p->channels ? n : 1;   /* x_j[i] is x[i of + j by] */
  const int erase = p->d.separate_erase, value = p->d.value_gate != MIRAS_GATE_CONSTANT;
  float *z = s + n * dv;
  size_t i, j;
  if (p->d.normalise) {
    /* eta_j l_j, then z_i = c_i z_i + sum_j eta_j l_j x_j[i] */
    memcpy(k->p, o->eta, rows * sizeof *z);
    if (!p->channels) MIRAS__FN(mul)(k->p, o->l, k->p, rows);
    if (p->channels) MIRAS__FN(mul)(z, o->c, z, n);
    else MIRAS__FN(scale)(z, o->c[0], z, n);
    for (i = 0; i < n; i++)
      for (j = 0; j < rows; j++) z[i] += k->p[j] * o->x[i * of + j * by];
  }
  if (rows <= 2 && !value) {
    const float *x[4], *u[4];
    const size_t ld_c = p->channels ? 1 : 0, pairs = erase ? 2 * rows : rows;
    for (j = 0; j < pairs; j++) {
      const size_t r = j % rows;
      x[j] = (j < rows ? o->x : o->xb) + r * by;
      u[j] = (j < rows ? o->u : o->t) + r * dv;
      if (!p->channels) {
        for (i = 0; i < n; i++) k->zc[j * n + i] = o->l[r] * x[j][i * of];
        x[j] = k->zc + j * n;
      }
    }
    if (pairs == 1) MIRAS__FN(exact_fold_few)(1, s, o->c, ld_c, x, u, n, dv);
    else if (pairs == 2) MIRAS__FN(exact_fold_few)(2, s, o->c, ld_c, x, u, n, dv);
    else MIRAS__FN(exact_fold_few)(4, s, o->c, ld_c, x, u, n, dv);
    return;
  }
  for (i = 0; i < n; i++) {
    MIRAS__FN(scale)(s + i * dv, o->c[p->channels ? i : 0], s + i * dv, dv);
    if (value) MIRAS__FN(mul)(s + i * dv, o->cv, s + i * dv, dv);
  }
  for (j = 0; j < (erase ? 2u : 1u); j++) {
    const float *x = j ? o->xb : o->x, *u = j ? o->t : o->u;
    if (!p->channels) {
      for (i = 0; i < n; i++) MIRAS__FN(mul)(k->zc + i * ld, o->l, x + i * ld, rows);
      x = k->zc;
    }
    MIRAS__FN(gemm)(MIRAS__ADD, s, dv, x, of, by, u, dv, 1, n, dv, rows, -1, k->pack);
  }
}

/* The same from F_0 in k->f where there is a B. */
static void MIRAS__FN(exact_close)(const miras__plan *p, miras__block *k, const miras__open *o,
                                   float *s, const float *base, size_t rows) {
  const size_t n = p->weights;
  size_t i;
  MIRAS__FN(exact_fold)(p, k, o, base ? k->f : s, rows);
  if (!base) return;
  for (i = 0; i < n; i += V_W)
    V_STORE_N(s + i, V_ADD(V_LOAD_N(base + i, n - i), V_LOAD_N(k->f + i, n - i)), n - i);
}

/* ---- one token at a time ----
 *
 * With blocks of one token and nothing unusual, one pass over the state per token is the least
 * traffic: the write of token t-1 is carried out while token t reads,
 *   S <- diag(alpha_t) (S + x_(t-1) u_(t-1)'),   a = R' x_t,   b = (diag(alpha_t) S_(t-1))' q_t,
 *   y_t = b + (x_t . q_t) u_t,
 * so each row of S is loaded and stored once. The pending pair is written when a call ends. Where
 * decays lead to a B, (1 - alpha_t) B is added to what they leave; S is not taken apart. */

/* The fused pass. xp, up: pending write (up NULL: none). alpha: features numbers or one (stride
 * 0). base: B or NULL; home, base != NULL, and decay_first are constants at every call. */
MIRAS__INLINE void MIRAS__FN(linear_row)(int home, int decay_first, float *s, const float *base,
                                         float *a, float *b, const float *xp, const float *up,
                                         const float *alpha, size_t alpha_stride, const float *x,
                                         const float *q, size_t n, size_t dv) {
  size_t i, j;
  for (j = 0; j < dv; j += V_W) {
    size_t rest = dv - j;
    vf u = up ? V_LOAD_N(up + j, rest) : V_ZERO(), va = V_ZERO(), vb = V_ZERO();
    float *row = s + j;
    for (i = 0; i < n; i++, row += dv) {
      vf v = V_LOAD_N(row, rest);
      if (up) v = V_FMA(V_SET1(xp[i]), u, v);
      if (!decay_first) va = V_FMA(V_SET1(x[i]), v, va);
      v = V_MUL(V_SET1(alpha[i * alpha_stride]), v);
      if (home)
        v = V_FMA(V_SET1(1 - alpha[i * alpha_stride]), V_LOAD_N(base + i * dv + j, rest), v);
      if (decay_first) va = V_FMA(V_SET1(x[i]), v, va);
      vb = V_FMA(V_SET1(q[i]), v, vb);
      V_STORE_N(row, v, rest);
    }
    V_STORE_N(a + j, va, rest);
    V_STORE_N(b + j, vb, rest);
  }
}

static void MIRAS__FN(linear_pass)(float *s, const float *base, float *a, float *b, const float *xp,
                                   const float *up, const float *alpha, size_t alpha_stride,
                                   int decay_first, const float *x, const float *q, size_t n,
                                   size_t dv) {
  switch ((base ? 2 : 0) + (decay_first ? 1 : 0)) {
    case 0:
      MIRAS__FN(linear_row)(0, 0, s, NULL, a, b, xp, up, alpha, alpha_stride, x, q, n, dv);
      break;
    case 1:
      MIRAS__FN(linear_row)(0, 1, s, NULL, a, b, xp, up, alpha, alpha_stride, x, q, n, dv);
      break;
    case 2:
      MIRAS__FN(linear_row)(1, 0, s, base, a, b, xp, up, alpha, alpha_stride, x, q, n, dv);
      break;
    default:
      MIRAS__FN(linear_row)(1, 1, s, base, a, b, xp, up, alpha, alpha_stride, x, q, n, dv);
      break;
  }
}

/* s += x u' */
static void MIRAS__FN(rank_one)(float *s, const float *x, const float *u, size_t n, size_t dv) {
  size_t i;
  for (i = 0; i < n; i++) MIRAS__FN(axpy)(s + i * dv, x[i], u, dv);
}

static void MIRAS__FN(linear_forward)(const miras__plan *p, const float *base, float *state,
                                      uint64_t position, const miras__head_io *io, float *tape,
                                      float *scratch) {
  size_t n = p->features, dk = (size_t)p->d.key_dim, dv = (size_t)p->d.value_dim, j, t;
  int decay_first = p->d.order == MIRAS_DECAY_FIRST, dot = p->d.bias == MIRAS_DOT;
  int mapped = p->map != 0;
  size_t alpha_stride = p->d.keep_gate == MIRAS_GATE_CHANNEL ? 1 : 0;
  float *a = scratch, *b = a + miras__pad(dv), *u = b + miras__pad(dv), *rows = u + miras__pad(dv);
  const float *xp = NULL;
  for (t = 0; t < (size_t)io->length; t++) {
    const float *x = io->k + t * io->ldk, *v = io->v + t * io->ldv;
    const float *q = io->q ? io->q + t * io->ldq : x;
    const float *rate = io->step + t * io->ld_step;
    float eta = *rate, xx = 0, xq;
    float *y = io->q ? io->y + t * io->ldy : NULL;
    if (mapped) {
      float *fx = rows + t % 2 * miras__pad(n), *fq = rows + 2 * miras__pad(n);
      MIRAS__FN(feature_fwd)(p->map, fx, x, dk);
      MIRAS__FN(feature_fwd)(p->map, fq, q, dk);
      x = fx;
      q = fq;
    }
    xq = MIRAS__FN(dot)(x, q, n);
    if (p->implicit) {
      xx = MIRAS__FN(dot)(x, x, n);
      eta = eta / (1 + eta * xx);
    }
    if (tape && t % (size_t)p->tape_tokens == 0) {
      if (xp) MIRAS__FN(rank_one)(state, xp, u, n, dv), xp = NULL;
      memcpy(tape + t / (size_t)p->tape_tokens * p->tape_chunk, state, p->weights * sizeof *state);
    }
    MIRAS__FN(linear_pass)(state, base, a, b, xp, xp ? u : NULL, io->keep + t * io->ld_keep,
                           alpha_stride, decay_first, x, q, n, dv);
    if (io->surprise) io->surprise[t] = dot ? -MIRAS__FN(dot)(a, v, dv) : 0;
    for (j = 0; j < dv; j += V_W) {
      vf e = V_LOAD_N(v + j, dv - j), w;
      if (!dot) e = V_SUB(e, V_LOAD_N(a + j, dv - j));
      V_STORE_N(a + j, e, dv - j);
      if (p->rates == 1) {
        w = V_MUL(V_SET1(eta), e);
      } else {
        vf step = V_LOAD_N(rate + j, dv - j);
        if (p->implicit) step = V_DIV(step, V_ADD(V_SET1(1.0f), V_MUL(step, V_SET1(xx))));
        w = V_MUL(step, e);
      }
      V_STORE_N(u + j, w, dv - j);
      if (y) V_STORE_N(y + j, V_FMA(V_SET1(xq), w, V_LOAD_N(b + j, dv - j)), dv - j);
    }
    if (io->surprise && !dot) io->surprise[t] = 0.5f * MIRAS__FN(dot)(a, a, dv);
    xp = x;
    if ((position + (uint64_t)t + 1) % MIRAS__SWEEP == 0) {
      MIRAS__FN(rank_one)(state, xp, u, n, dv);
      MIRAS__FN(flush)(state, state, p->weights);
      xp = NULL;
    }
  }
  if (xp) MIRAS__FN(rank_one)(state, xp, u, n, dv);
}

/* ---- block by block ---- */

/* The bias of token t at R, before it is written, where the rows do not compute that themselves.
 * Separate erase: 1/2 |v - S'k|^2. s0, base as for exact_rows. k->zq, k->ss: a row each. */
static float MIRAS__FN(exact_surprise)(const miras__plan *p, miras__block *k, const miras__open *o,
                                       const float *s0, const float *base,
                                       const miras__head_io *io, size_t t, size_t rows) {
  const size_t n = p->features, dv = (size_t)p->d.value_dim;
  const float *keep = io->keep + t * io->ld_keep, *v = io->v + t * io->ldv;
  float *x = k->zq, *m = k->ss, home = 0;
  MIRAS__FN(feature_fwd)(p->map, x, io->k + t * io->ldk, (size_t)p->d.key_dim);
  if (base && p->d.bias == MIRAS_DOT) {            /* what decay first leaves alone */
    MIRAS__FN(gemm)(MIRAS__SET, m, dv, x, n, 1, base, dv, 1, 1, dv, n, -1, k->pack);
    home = MIRAS__FN(dot)(m, v, dv);
  }
  if (p->d.order == MIRAS_DECAY_FIRST) {
    if (p->d.keep_gate == MIRAS_GATE_CHANNEL) MIRAS__FN(mul)(x, keep, x, n);
    else MIRAS__FN(scale)(x, *keep, x, n);
    if (p->d.value_gate) {
      MIRAS__FN(mul)(k->raw, io->value_keep + t * io->ld_value_keep, v, dv);
      v = k->raw;
    }
  }
  MIRAS__FN(exact_read)(p, k, o, s0, rows, x, m);
  if (p->d.bias == MIRAS_DOT) return -MIRAS__FN(dot)(m, v, dv) - home;
  if (base) MIRAS__FN(gemm)(MIRAS__ADD, m, dv, x, n, 1, base, dv, 1, 1, dv, n, -1, k->pack);
  MIRAS__FN(axpy)(m, -1, v, dv);
  return 0.5f * MIRAS__FN(dot)(m, m, dv);
}

static void MIRAS__FN(exact_forward)(const miras__plan *p, const float *w0, float *state,
                                     uint64_t position, const miras__head_io *io, float *tape,
                                     float *scratch) {
  const size_t chunk = (size_t)p->d.chunk, steps = (size_t)p->d.steps, length = (size_t)io->length;
  const size_t dv = (size_t)p->d.value_dim, nz = p->delta ? 1 : 0;
  const int alone = io->surprise && (!p->delta || p->d.separate_erase);
  const float *base = MIRAS__FN(exact_base)(p, w0), *s0 = NULL;
  miras__block work, *k = &work;
  miras__open o;
  size_t t = 0, i, m;
  if (position == 0 && length) memcpy(state, w0, p->weights * sizeof *state);
  if (p->fused) {
    MIRAS__FN(linear_forward)(p, base, state, position, io, tape, scratch);
    return;
  }
  miras__block_layout(p, scratch, chunk * steps, 0, k);
  o = k->open;
  if (chunk > 1) miras__open_layout(p, state + p->at_open, chunk * steps, &o);
  for (; t < length; t += m) {
    const size_t r0 = (size_t)((position + t) % chunk);
    m = chunk - r0 < length - t ? chunk - r0 : length - t;
    if (tape && t % (size_t)p->tape_tokens == 0)
      memcpy(tape + t / (size_t)p->tape_tokens * p->tape_chunk, state, p->weights * sizeof *state);
    if (!s0 || !r0) s0 = MIRAS__FN(exact_beyond)(p, k, state, base);
    if (alone) {
      m = 1;
      io->surprise[t] = MIRAS__FN(exact_surprise)(p, k, &o, s0, base, io, t, r0 * steps);
    }
    MIRAS__FN(exact_rows)(p, k, &o, s0, base, io, t, r0 * steps, m * steps);
    for (i = 0; i < m; i++) {
      if (io->surprise && !alone) {
        const float *e = k->ss + i * steps * dv;
        io->surprise[t + i] = 0.5f * MIRAS__FN(dot)(e, e, dv);
      }
      if (io->q) {
        float *y = io->y + (t + i) * io->ldy;
        const float *from = k->ss + (nz * m * steps + i) * dv;
        if (p->d.normalise) MIRAS__FN(scale)(y, 1 / k->den[i], from, dv);
        else memcpy(y, from, dv * sizeof *y);
      }
    }
    if (r0 + m == chunk) {
      MIRAS__FN(exact_close)(p, k, &o, state, base, chunk * steps);
      if (miras__sweeps(&p->d, position + (uint64_t)(t + m)))
        MIRAS__FN(flush)(state, state, p->weights);
    }
  }
}

/* The adjoint of L_ij (.) (z_i . x_j) for scalar decays: bM [rows, m] cotangents of A and P.
 *   bL_ij += bM_ij z_i . x_j,   bz_i += sum_j bM_ij L_ij x_j,   bx_j += sum_i bM_ij L_ij z_i
 * bl NULL: the decays' cotangents are not wanted. bm is consumed. */
static void MIRAS__FN(exact_scores_bwd)(const miras__plan *p, miras__block *k, float *bm,
                                        const float *kx, const float *x, float *bx, float *bl,
                                        size_t nz, size_t rows, size_t m) {
  const size_t n = p->features, N = k->ld, steps = (size_t)p->d.steps;
  const size_t after = p->d.order == MIRAS_DECAY_FIRST;
  size_t i;
  for (i = 0; i < rows; i++) {
    const size_t at = i < nz ? i + after : (i - nz + 1) * steps, seen = i < nz ? i : at;
    float *b = bm + i * N;
    if (bl) MIRAS__FN(muladd)(bl + at * N, b, kx + i * N, seen);
    MIRAS__FN(mul)(b, b, k->l + at * N, seen);
    memset(b + seen, 0, (m - seen) * sizeof *b);
  }
  MIRAS__FN(gemm)(MIRAS__ADD, k->bz, n, bm, N, 1, x, n, 1, rows, n, m, -1, k->pack);
  MIRAS__FN(gemm)(MIRAS__ADD, bx, n, bm, 1, N, k->zq, n, 1, m, n, rows, -1, k->pack);
}

/* From the cotangent Z of the state after a block of m rows to those of its rows (k->bu, bt, and
 * bx, bxb or, with channels, xe, xeb), of its coefficients, and, in place, of S_0:
 *   bu_j = (L_mj x_j) Z,  xe_j = Z u_j = cotangent of L_mj x_j,  bc_m = rows of <S_0, Z> */
static void MIRAS__FN(exact_fold_bwd)(const miras__plan *p, miras__block *k, const float *s0,
                                      float *Z, float *bl, size_t m) {
  const size_t n = p->features, dv = (size_t)p->d.value_dim, N = k->ld;
  const miras__open *o = &k->open;
  const float *l = k->l + m * N, *c = k->c + m * (p->channels ? n : 1), *cv = k->cv + m * dv;
  float *zc = Z + n * dv;
  size_t i;
  int pass;
  for (pass = 0; pass < (p->d.separate_erase ? 2 : 1); pass++) {
    const float *x = pass ? k->xb : k->x, *decayed = pass ? o->xb : o->x;
    const float *u = pass ? o->t : o->u;
    float *xe = pass ? k->xeb : k->xe, *bx = pass ? k->bxb : k->bx;
    if (!p->channels) {
      for (i = 0; i < m; i++) MIRAS__FN(scale)(k->bz + i * n, l[i], x + i * n, n);
      decayed = k->bz;
    }
    MIRAS__FN(gemm)(MIRAS__SET, pass ? k->bt : k->bu, dv, decayed, n, 1, Z, dv, 1, m, dv, n, -1,
                    k->pack);
    MIRAS__FN(gemm)(MIRAS__SET, xe, n, u, dv, 1, Z, 1, dv, m, n, dv, -1, k->pack);
    if (p->d.normalise)
      for (i = 0; i < m; i++) {
        k->bstep[i] += MIRAS__FN(dot)(decayed + i * n, zc, n);
        MIRAS__FN(axpy)(xe + i * n, k->eta[i], zc, n);
      }
    if (p->channels) continue;
    for (i = 0; i < m; i++) {
      if (bl) bl[m * N + i] += MIRAS__FN(dot)(x + i * n, xe + i * n, n);
      MIRAS__FN(axpy)(bx + i * n, l[i], xe + i * n, n);
    }
  }
  if (!p->channels && !p->d.value_gate) {
    if (bl) k->bc[m] += MIRAS__FN(dot)(s0, Z, p->weights);
    MIRAS__FN(scale)(Z, c[0], Z, p->weights);
    return;
  }
  for (i = 0; i < n; i++) {
    float *z = Z + i * dv, a = c[p->channels ? i : 0], bc;
    if (p->d.value_gate) {
      MIRAS__FN(scale)(k->row, a, s0 + i * dv, dv);
      MIRAS__FN(muladd)(k->bcv + m * dv, k->row, z, dv);
      MIRAS__FN(mul)(z, cv, z, dv);
    }
    bc = MIRAS__FN(dot)(s0 + i * dv, z, dv);
    if (p->d.normalise) {
      bc += s0[n * dv + i] * zc[i];
      zc[i] *= a;
    }
    k->bc[p->channels ? m * n + i : m] += bc;
    MIRAS__FN(scale)(z, a, z, dv);
  }
}

/* Gradients of row i's pair and gates, from the cotangents of x (k->bx), of the step in use
 * (k->bstep) and, with channels, of its decays (k->ba); diagonal, with w = keep at decay first and
 * 1 otherwise:
 *   bx -= 2 eta w ba (.) x,  beta -= sum w ba x^2,  bkeep = ba, at decay first ba (1 - eta x^2)
 * and then implicit, with D = eta/(1 + eta x.x) in use for eta (sum over a row's steps):
 *   bx -= 2 (sum D^2 bD) x,  beta = bD (D/eta)^2 = bD/(1 + eta x.x)^2 */
static void MIRAS__FN(exact_outputs)(const miras__plan *p, miras__block *k,
                                     const miras__head_io *io, const miras__head_grads *g,
                                     size_t t, size_t i) {
  const miras_desc *d = &p->d;
  const size_t n = p->features, dk = (size_t)d->key_dim, steps = (size_t)d->steps;
  const size_t token = t + i / steps, s = i % steps;
  const int after = d->order == MIRAS_DECAY_FIRST, vector = d->keep_gate == MIRAS_GATE_CHANNEL;
  const float *x = k->x + i * n, *keep = s ? NULL : io->keep + token * io->ld_keep;
  const float *eta = k->eta + i * p->rates;
  float *bx = k->bx + i * n, *ba = k->ba + i * n, *bstep = k->bstep + i * p->rates, *w = k->row;
  size_t j;
  if (d->diagonal) {
    MIRAS__FN(mul)(w, ba, x, n);
    if (after && keep && vector) MIRAS__FN(mul)(w, w, keep, n);
    if (after && keep && !vector) MIRAS__FN(scale)(w, *keep, w, n);
    *bstep -= MIRAS__FN(dot)(w, x, n);
    MIRAS__FN(axpy)(bx, -2 * *eta, w, n);
    if (after) {
      MIRAS__FN(mul)(w, ba, x, n);
      MIRAS__FN(mul)(w, w, x, n);
      MIRAS__FN(axpy)(ba, -*eta, w, n);
    }
  }
  if (p->implicit) {
    const float *rate = io->step + token * io->ld_step + (io->ld_step ? s * p->rates : 0);
    float xx = MIRAS__FN(dot)(x, x, n), sum = 0;
    for (j = 0; j < p->rates; j++) {
      float part = 1 / (1 + rate[j] * xx);
      sum += eta[j] * eta[j] * bstep[j];
      bstep[j] *= part * part;
    }
    MIRAS__FN(axpy)(bx, -2 * sum, x, n);
  }
  if (g->step)
    memcpy(g->step + token * g->ld_step + s * p->rates, bstep, p->rates * sizeof *bstep);
  if (g->k)
    MIRAS__FN(feature_bwd)(p->map, g->k + token * g->ldk + s * dk, bx,
                           io->k + token * io->ldk + s * dk, x, dk);
  if (g->keep && p->channels && !s) {
    if (vector) memcpy(g->keep + token * g->ld_keep, ba, n * sizeof *ba);
    else g->keep[token * g->ld_keep] = MIRAS__FN(sum)(ba, n);
  }
}

/* Adjoint of exact_forward, from the last block of the tape to the first; Z is the cotangent of the
 * state after the block. A block is computed again, then undone. With dy the cotangents of the
 * answers, r_i of R_i' z_i, and [r; dy] one stack of rows against [z; phi(q)]:
 *   fold       as in exact_fold_bwd
 *   answers    bu += P' dy [bt += Pb' dy];  normalise: dy <- dy/den, bden = -y . dy
 *   solve      L2: bu_j += sum_(i>j) A_ij r_i, r_i = -eta_i bu_i;   separate erase: the same over t
 *              with r_i = bt_i, then bu += A' r
 *   pair       L2: beta = bu . e, else bu . v (per channel: not summed);  bv = eta (.) bu
 *   scores     bM = [r; dy] [u]' (lower)
 *   S_0        b[z; q] = c (.) [r; dy] S_0',  bc = [z; q] (.) ([r; dy] S_0'),
 *              Z += (c (.) [z; q])' [r; dy]
 *   decays     balpha_i = c_(i-1) bc_i + sum_(j<i) L_(i-1)j bL_ij, and alpha_i bc_i, alpha_i bL_ij
 *              go to row i-1; with channels in room @44
 *   toward B   all of this with F_0 for S_0. Z passes S_m = B + F_m and F_0 = S_0 - B unchanged;
 *              with Z_m, Z_0 for it at the block's end and start, and dy as before a value gate,
 *              bB += Z_m - Z_0 + [z; q]' [r; dy],  b[z; q] += [r; dy] B'
 * The differences of a call's blocks add up to the last Z less the first, and the first comes back
 * at position 0, where S_0 = B. */
static void MIRAS__FN(exact_backward)(const miras__plan *p, const float *w0, const float *tape,
                                      uint64_t position, const miras__head_io *io, const float *dy,
                                      size_t lddy, const miras__head_grads *g, float *dw0,
                                      float *dstate, float *scratch) {
  const miras_desc *d = &p->d;
  const size_t n = p->features, dk = (size_t)d->key_dim, dv = (size_t)d->value_dim;
  const size_t steps = (size_t)d->steps, per = (size_t)p->tape_tokens;
  const size_t after = d->order == MIRAS_DECAY_FIRST, length = (size_t)io->length;
  const int erase = d->separate_erase, value = d->value_gate != MIRAS_GATE_CONSTANT;
  const int norm = d->normalise;
  const size_t rates = p->rates;
  const float *base = MIRAS__FN(exact_base)(p, w0);
  size_t block, blocks = (length + per - 1) / per, N, i, j;
  miras__block work, *k = &work;
  const miras__open *o = &k->open;
  float *Z;
  int live = dstate != NULL;
  miras__block_layout(p, scratch, per * steps, 1, k);
  N = k->ld;
  Z = k->bs;
  if (dstate) memcpy(Z, dstate, p->weights * sizeof *Z);
  else memset(Z, 0, p->weights * sizeof *Z);
  if (d->toward && dstate) MIRAS__FN(add)(dw0, Z, p->weights);
  for (block = blocks; block-- > 0; live = 1) {
    const size_t t = block * per, m = (length - t < per ? length - t : per) * steps;
    const size_t reads = m / steps, nz = p->delta ? m : 0, rows = nz + reads;
    const float *s0 = MIRAS__FN(exact_beyond)(p, k, tape + block * p->tape_chunk, base);
    const float *q = k->zq + nz * n, *z0 = s0 + n * dv;
    float *r = k->r, *Y = r + nz * dv, *pq = k->p + nz * N, *pqb = k->pb + nz * N;
    float *bq = k->bz + nz * n, *bmq = k->bm + nz * N, *zc = Z + n * dv;
    float *bl = !p->channels && g->keep ? k->bl : NULL;
    MIRAS__FN(exact_rows)(p, k, o, s0, base, io, t, 0, m);
    memset(k->bx, 0, m * n * sizeof *Z);
    if (erase) memset(k->bxb, 0, m * n * sizeof *Z);
    memset(k->bstep, 0, m * rates * sizeof *Z);
    memset(k->bc, 0, (m + 1) * (p->channels ? n : 1) * sizeof *Z);
    if (p->channels) memset(k->ba, 0, m * n * sizeof *Z);
    if (bl) memset(bl, 0, (m + 1) * N * sizeof *Z);
    if (value) {
      memset(k->bcv, 0, (m + 1) * dv * sizeof *Z);
      memset(k->bb, 0, m * dv * sizeof *Z);
    }
    for (i = 0; i < reads; i++) {
      const float *from = dy + (t + i) * lddy, *answer = k->ss + (nz + i) * dv;
      const size_t seen = (i + 1) * steps;
      if (norm) {
        const float inverse = 1 / k->den[i];
        MIRAS__FN(scale)(Y + i * dv, inverse, from, dv);
        k->bden[i] = -inverse * inverse * MIRAS__FN(dot)(from, answer, dv);
        MIRAS__FN(axpy)(k->bstep, k->bden[i], pq + i * N, seen);
      } else {
        memcpy(Y + i * dv, from, dv * sizeof *Y);
      }
      memset(pq + i * N + seen, 0, (m - seen) * sizeof *pq);
      if (erase) memset(pqb + i * N + seen, 0, (m - seen) * sizeof *pq);
    }

    if (live) {
      MIRAS__FN(exact_fold_bwd)(p, k, s0, Z, bl, m);
    } else {
      memset(k->bu, 0, m * dv * sizeof *Z);
      if (erase) memset(k->bt, 0, m * dv * sizeof *Z);
    }

    if (value) {
      miras__channels c;
      miras__channel_grads cg;
      memset(&c, 0, sizeof c);
      memset(&cg, 0, sizeof cg);
      c.n = c.ld_x = c.ld_alpha = c.ld_q = dv;
      c.every = steps;
      c.x = k->u;
      c.alpha = k->beta;
      c.q = Y;
      c.p = bmq;
      c.ld_p = N;
      c.live = o->u;
      MIRAS__FN(channel_scores)(&c, 0, m);
      c.p = pq;
      cg.x = k->bt;
      cg.alpha = k->bb;
      cg.ld_x = cg.ld_alpha = dv;
      cg.live = k->bu;
      memset(k->bt, 0, m * dv * sizeof *Z);
      MIRAS__FN(channel_bwd)(&c, &cg, m, k->history);
      memcpy(k->bu, k->bt, m * dv * sizeof *Z);
      for (i = 0; i < reads; i++) {
        const size_t at = (i + 1) * steps * dv;
        MIRAS__FN(muladd)(k->bcv + at, Y + i * dv, k->raw + i * dv, dv);
        MIRAS__FN(mul)(Y + i * dv, k->cv + at, Y + i * dv, dv);
      }
      MIRAS__FN(channel_decay_bwd)(k->bb, dv, k->bcv + dv, k->cv + dv, k->beta, dv, m, dv);
    } else {
      MIRAS__FN(gemm)(MIRAS__ADD, k->bu, dv, pq, 1, N, Y, dv, 1, m, dv, reads, -1, k->pack);
      if (erase)
        MIRAS__FN(gemm)(MIRAS__ADD, k->bt, dv, pqb, 1, N, Y, dv, 1, m, dv, reads, -1, k->pack);
    }

    if (erase) {
      MIRAS__FN(exact_solve_bwd)(k->bt, r, dv, k->pb, N, NULL, 1, m);
      for (i = 0; i < m; i++) memset(k->p + i * N + i, 0, (m - i) * sizeof *pq);
      MIRAS__FN(gemm)(MIRAS__ADD, k->bu, dv, k->p, 1, N, r, dv, 1, m, dv, m, -1, k->pack);
    } else if (p->delta) {
      MIRAS__FN(exact_solve_bwd)(k->bu, r, dv, k->p, N, k->eta, rates, m);
    }
    for (i = 0; i < m; i++) {
      const size_t token = t + i / steps, at = i % steps * dv;
      const float *along = nz && !erase ? k->ss + i * dv : io->v + token * io->ldv + at;
      if (rates > 1) MIRAS__FN(mul)(k->bstep + i * dv, k->bu + i * dv, along, dv);
      else k->bstep[i] += MIRAS__FN(dot)(k->bu + i * dv, along, dv);
      if (g->v)
        MIRAS__FN(exact_times)(p, g->v + token * g->ldv + at, k->eta + i * rates, k->bu + i * dv);
    }

    if (!value)
      MIRAS__FN(gemm)(MIRAS__SET, k->bm, N, r, dv, 1, o->u, 1, dv, rows, m, dv, -1, k->pack);
    if (erase)
      MIRAS__FN(gemm)(MIRAS__SET, k->bmb, N, r, dv, 1, o->t, 1, dv, rows, m, dv, -1, k->pack);
    MIRAS__FN(gemm)(MIRAS__SET, k->bz, n, r, dv, 1, s0, 1, dv, rows, n, dv, -1, k->pack);
    if (norm)
      for (i = 0; i < reads; i++) {
        MIRAS__FN(axpy)(bmq + i * N, k->bden[i], k->eta, (i + 1) * steps);
        MIRAS__FN(axpy)(bq + i * n, k->bden[i], z0, n);
      }
    for (i = 0; i < rows; i++) {
      const size_t at = i < nz ? i + after : (i - nz + 1) * steps;
      float *b = k->bz + i * n, *x = k->zq + i * n;
      if (p->channels) {
        MIRAS__FN(muladd)(k->bc + at * n, b, x, n);
        MIRAS__FN(mul)(b, b, k->c + at * n, n);
      } else {
        if (bl) k->bc[at] += MIRAS__FN(dot)(b, x, n);
        MIRAS__FN(scale)(k->zc + i * n, k->c[at], x, n);
        MIRAS__FN(scale)(b, k->c[at], b, n);
      }
    }
    MIRAS__FN(gemm)(MIRAS__ADD, Z, dv, k->zc, 1, n, r, dv, 1, n, dv, rows, -1, k->pack);
    if (norm)
      for (i = 0; i < reads; i++) MIRAS__FN(axpy)(zc, k->bden[i], k->zc + (nz + i) * n, n);
    if (d->toward) {
      const float *br = value ? dy + t * lddy : r;
      const size_t ldr = value ? lddy : dv;
      MIRAS__FN(gemm)(MIRAS__ADD, dw0, dv, k->zq, 1, n, br, ldr, 1, n, dv, rows, -1, k->pack);
      if (base)
        MIRAS__FN(gemm)(MIRAS__ADD, k->bz, n, br, ldr, 1, base, 1, dv, rows, n, dv, -1, k->pack);
      for (i = 0; norm && i < reads; i++) {
        MIRAS__FN(axpy)(dw0 + n * dv, k->bden[i], q + i * n, n);
        if (base) MIRAS__FN(axpy)(bq + i * n, k->bden[i], base + n * dv, n);
      }
    }

    if (p->channels) {
      miras__channels c;
      miras__channel_grads cg;
      memset(&c, 0, sizeof c);
      memset(&cg, 0, sizeof cg);
      c.n = c.ld_x = c.ld_alpha = c.ld_q = c.ld_z = n;
      cg.ld_x = cg.ld_alpha = cg.ld_q = cg.ld_z = n;
      c.every = steps;
      c.after = (int)after;
      c.alpha = k->alpha;
      c.q = q;
      c.z = nz ? k->zq : NULL;
      c.ld_p = N;
      cg.alpha = k->ba;
      cg.q = bq;
      cg.z = k->bz;
      c.x = k->x;
      c.p = bmq;
      c.a = k->bm;
      cg.x = k->bx;
      cg.live = live ? k->xe : NULL;
      MIRAS__FN(channel_bwd)(&c, &cg, m, k->history);
      if (erase) {
        c.x = k->xb;
        c.p = k->bmb + nz * N;
        c.a = k->bmb;
        cg.x = k->bxb;
        cg.live = live ? k->xeb : NULL;
        MIRAS__FN(channel_bwd)(&c, &cg, m, k->history);
      }
      MIRAS__FN(channel_decay_bwd)(k->ba, n, k->bc + n, k->c + n, k->alpha, n, m, n);
    } else {
      MIRAS__FN(exact_scores_bwd)(p, k, k->bm, k->kx, k->x, k->bx, bl, nz, rows, m);
      if (erase) MIRAS__FN(exact_scores_bwd)(p, k, k->bmb, k->kb, k->xb, k->bxb, bl, nz, rows, m);
    }
    if (bl)
      for (i = m; i-- > 0;) {
        float *b = bl + (i + 1) * N, *before = bl + i * N;
        float dalpha = k->c[i] * k->bc[i + 1] + MIRAS__FN(dot)(k->l + i * N, b, i);
        if (i % steps == 0) g->keep[(t + i / steps) * g->ld_keep] = dalpha;
        MIRAS__FN(axpy)(before, k->alpha[i], b, i);
        k->bc[i] += k->alpha[i] * k->bc[i + 1];
      }

    for (i = 0; i < m; i++) {
      const size_t token = t + i / steps;
      if (nz && !erase) MIRAS__FN(add)(k->bx + i * n, k->bz + i * n, n);
      if (erase && g->erase)
        memcpy(g->erase + token * g->ld_erase, k->bz + i * n, n * sizeof *Z);
      if (erase && g->replace)
        memcpy(g->replace + token * g->ld_replace, k->bxb + i * n, n * sizeof *Z);
      MIRAS__FN(exact_outputs)(p, k, io, g, t, i);
      if (value && g->value_keep && i % steps == 0)
        memcpy(g->value_keep + token * g->ld_value_keep, k->bb + i * dv, dv * sizeof *Z);
    }
    if (g->q)
      for (j = 0; j < reads; j++)
        MIRAS__FN(feature_bwd)(p->map, g->q + (t + j) * g->ldq, bq + j * n,
                               io->q + (t + j) * io->ldq, q + j * n, dk);
  }
  if (position && d->toward) MIRAS__FN(axpy)(dw0, -1, Z, p->weights);
  if (position == 0) {
    if (!d->toward) MIRAS__FN(add)(dw0, Z, p->weights);
    memset(Z, 0, p->weights * sizeof *Z);
  }
  if (dstate) memcpy(dstate, Z, p->weights * sizeof *Z);
}

/* One read between tokens. */
static void MIRAS__FN(exact_read_at)(const miras__plan *p, const float *w0, float *state,
                                     uint64_t position, const float *q, float *o, float *scratch) {
  size_t dk = (size_t)p->d.key_dim, dv = (size_t)p->d.value_dim, n = p->features;
  size_t chunk = (size_t)p->d.chunk, steps = (size_t)p->d.steps, rows, i;
  const float *base, *s0;
  miras__block work, *k = &work;
  miras__open open;
  if (p->fused) {
    MIRAS__FN(feature_fwd)(p->map, scratch, q, dk);
    memset(o, 0, dv * sizeof *o);   /* the chains of gemm, which would want room to pack */
    for (i = 0; i < n; i++)
      MIRAS__FN(axpy)(o, scratch[i], (position ? state : w0) + i * dv, dv);
    return;
  }
  miras__block_layout(p, scratch, chunk * steps, 0, k);
  miras__open_layout(p, state + p->at_open, chunk > 1 ? chunk * steps : 0, &open);
  rows = (size_t)(position % (uint64_t)chunk) * steps;
  base = rows ? MIRAS__FN(exact_base)(p, w0) : NULL;  /* without open rows S says it all */
  MIRAS__FN(feature_fwd)(p->map, k->zq, q, dk);
  s0 = MIRAS__FN(exact_beyond)(p, k, position ? state : w0, base);
  MIRAS__FN(exact_read)(p, k, &open, s0, rows, k->zq, o);
  if (base) {
    MIRAS__FN(gemm)(MIRAS__ADD, o, dv, k->zq, n, 1, base, dv, 1, 1, dv, n, -1, k->pack);
    if (p->d.normalise) k->den[0] += MIRAS__FN(dot)(k->zq, base + n * dv, n);
  }
  if (p->d.normalise) MIRAS__FN(scale)(o, 1 / k->den[0], o, dv);
}

/* @51 FROZEN-GRADIENT ENGINE ------------------------------- needs 14 21 22 23 25 40 41 42 44 -- */

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
 * With several descents per token, t counts pairs: a chunk has C * steps of them. S_t and A_t are
 * those of a token whose step is the sum over its descents: alpha and theta act before the first,
 * and the others add to both, N_tj = N_(t-1)j, G_tj = G_(t-1)j, h_t = h_(t-1), f_t = f_(t-1). delta
 * is the token's at each, and a token reads after its last. Chunk 1 stays the recurrence: the
 * anchor moves after every descent. Under L2 both each descent has the alpha of its own step.
 *
 * With gates per channel (no momentum) the channels are the outputs of the last layer and, where
 * there are more, the inputs of the first: a, alpha, eta and G_tj are vectors there, in
 *   last:   x A_t = a_t (.) (x A_0) - sum_j (x . y_j) (G_tj (.) d_j)   [+ (1 - a_t) (.) (x B)]
 *   first:  x A_t = (a_t (.) x) A_0 - sum_j (x . (G_tj (.) y_j)) d_j   [+ ((1 - a_t) (.) x) B]
 * Room @44 has the sums. The rows G_tj (.) d_j and G_tj (.) y_j of the newest t are the state; new
 * rows enter them when their reads are done.
 * The link is applied when the chunk closes, before its closing token reads; the other tokens of a
 * chunk read along A_t (no link, elastic nets before their threshold), along A_t inv (LQ), or at
 * the anchor (other links).
 *
 * What else closing does, from A_C to W_C:
 *   elastic net    A_C <- shrink(A_C; gamma), gamma = sparsity sum_j G_Cj; towards B, A_C - B is
 *                  shrunk
 *   f-divergence   A holds W. The chunk's steps sum to U = sum_j G_Cj y_j d_j', and W_C is their
 *                  step (room @42) from W_0; towards B, with W_B = c softmax(B), from
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
 * grows. J is how far weights move with A (room @42). With y_j d_j' in each layer
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

/* rate of row_rates for pair `row` of a chunk, and its slope by rho:
 *   1   max(1/(t+1) + rho, 0)
 *   2   log(1 + u) / 16, u = exp(16 rho) (exp(16/(t+1)) - 1)      slope u / (1 + u) */
static float MIRAS__FN(row_rate)(const miras__plan *p, const miras__head_io *io, size_t row,
                                 float *slope) {
  size_t t = row / (size_t)p->d.steps;
  float rho = io->rho ? io->rho[t] : 0, rate = 1.0f / (float)(t + 1) + rho;
  if (p->d.row_rates == 2) {
    double x = 16 * (double)rho + log(expm1(16.0 / (double)(t + 1))), u = exp(-fabs(x));
    *slope = (float)(x > 0 ? 1 / (1 + u) : u / (1 + u));
    return (float)((log1p(u) + (x > 0 ? x : 0)) / 16);
  }
  *slope = rate < 0 ? 0.0f : 1.0f;
  return rate < 0 ? 0 : rate;
}

/* Floats of a gate in k->alpha and k->eta: one, or one per channel. */
#define MIRAS__WIDE(p) ((p)->channel ? (size_t)(p)->d.value_dim : 1)

/* Does the layer carry the channels on its inputs? (Else on its outputs.) */
#define MIRAS__BY_INPUT(p, l) ((p)->channel && (l) < (p)->layers - 1)

/* Does layer l of a bounded step count in F? */
#define MIRAS__STRAINS(p, l) ((p)->d.bounded_step == 2 && (l) < (p)->layers - 1)

/* The layer that layer l feeds, of pair i what it hears, y, and *said = |d|, *heard = |y| of F. */
static int MIRAS__FN(bound_fed)(const miras__plan *p, int l, float *const *y, const float *di,
                                size_t i, const float **yi, float *said, float *heard) {
  const int fed = p->d.architecture == MIRAS_GATED_MLP ? p->layers - 1 : l + 1;
  const size_t n = (size_t)p->in[fed];
  *yi = y[fed] + i * n;
  *said = sqrtf(MIRAS__FN(dot)(di, di, (size_t)p->out[l]));
  *heard = sqrtf(MIRAS__FN(dot)(*yi, *yi, n));
  return fed;
}

/* Where a bounded step reads J of layer l: *number times a matrix, or times ones where it is NULL.
 * lag: of a chunk in the paper's form of KL, its first token. */
static const float *MIRAS__FN(bound_metric)(const miras__plan *p, const miras__work *k, int lag,
                                            const float *w, int l, float *number) {
  *number = k->inv[l];
  if (p->d.retention == MIRAS_RETAIN_HELLINGER) *number = 2;
  if (p->d.simplex_signed || p->d.retention == MIRAS_RETAIN_SIGMOID)
    return k->metric + p->offset[l];
  if (miras__divergence(p->d.retention) || (p->d.retention == MIRAS_RETAIN_KL && (lag || !p->lag)))
    return w + p->offset[l];
  return NULL;
}

/* Q, F, e.r and s of m new pairs, k->eta as it is; then k->eta times s. y, d: their rows. a, w: the
 * anchor, before and after the link. Uses k->x and k->zq. */
static void MIRAS__FN(bound_fwd)(const miras__plan *p, miras__work *k, int lag, const float *a,
                                 const float *w, float *const *y, float *const *d, size_t m) {
  const size_t dv = (size_t)p->d.value_dim, wide = MIRAS__WIDE(p);
  const int lp = p->d.bias == MIRAS_LP || p->d.bias == MIRAS_LP_SMOOTH;
  const float c = lp && p->d.p > 2 ? p->d.p - 1 : 1;
  size_t i, j;
  int l;
  for (l = 0; l < p->layers; l++) {
    size_t at = p->offset[l], n = (size_t)p->in[l] * (size_t)p->out[l];
    if (p->d.simplex_signed) MIRAS__FN(signed_fwd)(p, l, NULL, k->metric + at, a + at);
    for (i = 0; p->d.retention == MIRAS_RETAIN_SIGMOID && i < n; i += V_W) {
      vf x = V_LOAD_N(w + at + i, n - i);
      V_STORE_N(k->metric + at + i, V_MUL(x, V_SUB(V_SET1(1.0f), x)), n - i);
    }
  }
  for (i = 0; i < m; i++) {
    k->along[i] = MIRAS__FN(dot)(k->e + i * dv, k->r + i * dv, dv) + 1e-20f;
    k->spent[i] = k->strain[i] = 0;
  }
  for (l = 0; l < p->layers; l++) {
    size_t in = (size_t)p->in[l], out = (size_t)p->out[l];
    float number, *x = k->x[l], *z = k->zq[l];
    const float *metric = MIRAS__FN(bound_metric)(p, k, lag, w, l, &number);
    const int by_input = MIRAS__BY_INPUT(p, l);
    for (i = 0; i < m; i++) {
      const float *yi = y[l] + i * in, *eta = k->eta + i * wide;
      MIRAS__FN(mul)(x + i * in, yi, yi, in);
      if (by_input) MIRAS__FN(mul)(x + i * in, eta, x + i * in, in);
      if (!p->channel) MIRAS__FN(scale)(x + i * in, *eta, x + i * in, in);
    }
    if (metric)
      MIRAS__FN(gemm)(MIRAS__SET, z, out, x, in, 1, metric, out, 1, m, out, in, -1, k->pack);
    for (i = 0; i < m; i++) {
      const float *di = d[l] + i * out, *eta = k->eta + i * wide;
      float *zi = z + i * out, q;
      if (metric) {
        MIRAS__FN(mul)(zi, zi, di, out);
        if (p->channel && !by_input) MIRAS__FN(mul)(zi, eta, zi, out);
        q = number * MIRAS__FN(dot)(zi, di, out);
      } else {
        if (p->channel && !by_input) MIRAS__FN(mul)(zi, eta, di, out);
        else memcpy(zi, di, out * sizeof *zi);
        q = number * MIRAS__FN(sum)(x + i * in, in) * MIRAS__FN(dot)(zi, di, out);
      }
      k->spent[i] += q;
      if (MIRAS__STRAINS(p, l)) {
        const float *yf;
        float said, heard;
        MIRAS__FN(bound_fed)(p, l, y, di, i, &yf, &said, &heard);
        k->strain[i] += q / (said * heard + 1e-20f);
      }
    }
  }
  for (i = 0; i < m; i++) {
    k->share[i] = k->along[i] / (k->along[i] * (1 + k->strain[i] / 4) + c * k->spent[i]);
    for (j = 0; j < wide; j++) k->eta[i * wide + j] *= k->share[i];
  }
}

/* k->alpha and k->eta [m, wide] of m new pairs as the recursion uses them. A descent after a
 * token's first has no decay. L2 both (RECURRENCES 8.0): the step decides the decay, alpha =
 * beta/(beta + eta), and is then alpha eta. Bounded steps: s eta; the rest as in bound_fwd. */
static void MIRAS__FN(pair_gates)(const miras__plan *p, miras__work *k, const miras__head_io *io,
                                  size_t t, int lag, const float *a, const float *w,
                                  float *const *y, float *const *d, size_t m) {
  size_t n = MIRAS__WIDE(p), steps = (size_t)p->d.steps, i, j;
  for (i = 0; i < m; i++) {
    size_t token = (t + i) / steps, descent = (t + i) % steps;
    const float *keep = io->keep + token * io->ld_keep, *step = io->step + token * io->ld_step;
    float *alpha = k->alpha + i * n, *eta = k->eta + i * n;
    if (descent) MIRAS__FN(fill)(alpha, 1, n);
    else if (p->d.keep_gate == MIRAS_GATE_CHANNEL) memcpy(alpha, keep, n * sizeof *eta);
    else MIRAS__FN(fill)(alpha, *keep, n);
    if (p->d.step_gate == MIRAS_GATE_CHANNEL) memcpy(eta, step + descent * n, n * sizeof *eta);
    else MIRAS__FN(fill)(eta, step[io->ld_step ? descent : 0], n);
    for (j = 0; p->d.retention == MIRAS_RETAIN_L2_BOTH && j < n; j += V_W) {
      vf beta = V_SET1(p->d.balance), x = V_LOAD_N(eta + j, n - j), part;
      part = V_DIV(beta, V_ADD(beta, x));
      V_STORE_N(alpha + j, part, n - j);
      V_STORE_N(eta + j, V_MUL(x, part), n - j);
    }
  }
  if (p->d.bounded_step) MIRAS__FN(bound_fwd)(p, k, lag, a, w, y, d, m);
}

/* Coefficients of rows r0..r0+m-1 of the chunk into k->g, k->n [m, C], k->ca, cf, ch. before_g and
 * before_n are row r0-1, scalars = { a, f, h } of that row; both are left alone. */
static void MIRAS__FN(coefficients)(const miras__plan *p, miras__work *k, const miras__head_io *io,
                                    size_t t, size_t r0, size_t m, const float *before_g,
                                    const float *before_n, const float *scalars) {
  size_t c = p->span, steps = (size_t)p->d.steps, i;
  int momentum = p->d.algorithm == MIRAS_MOMENTUM;
  float a = r0 ? scalars[0] : 1, f = r0 ? scalars[1] : 0, h = r0 ? scalars[2] : 1, slope;
  for (i = 0; i < m; i++) {
    size_t row = r0 + i, token = (t + i) / steps, descent = (t + i) % steps;
    float alpha = k->alpha[i], eta = k->eta[i];
    float *g = k->g + i * c, *n = k->n + i * c;
    if (momentum && descent) {
      if (row) memcpy(n, before_n, row * sizeof *n);
      MIRAS__FN(scale)(g, alpha, before_g, row);
      g[row] = n[row] = eta;
      f *= alpha;
    } else if (momentum) {
      float theta = io->momentum[token * io->ld_momentum];
      MIRAS__FN(scale)(n, theta, before_n, row);
      n[row] = eta;
      memcpy(g, n, row * sizeof *g);
      MIRAS__FN(axpy)(g, alpha, before_g, row);
      g[row] = eta;
      h *= theta;
      f = alpha * f + h;
    } else if (p->d.row_rates) {
      if (row) memcpy(n, before_n, row * sizeof *n);
      n[row] = eta;
      MIRAS__FN(scale)(g, MIRAS__FN(row_rate)(p, io, row, &slope), n, row + 1);
    } else {
      MIRAS__FN(scale)(g, alpha, before_g, row);
      g[row] = eta;
    }
    a *= alpha;
    k->ca[i] = a;
    k->cf[i] = f;
    k->ch[i] = h;
    if ((row + 1) % MIRAS__SWEEP == 0) {         /* what has faded (room @23) */
      MIRAS__FN(flush)(g, g, row + 1);
      MIRAS__FN(flush)(n, n, momentum ? row + 1 : 0);
      MIRAS__FN(flush)(k->ca + i, k->ca + i, 1);
      MIRAS__FN(flush)(k->cf + i, k->cf + i, 1);
      MIRAS__FN(flush)(k->ch + i, k->ch + i, 1);
      a = k->ca[i];
      f = k->cf[i];
      h = k->ch[i];
    }
    before_g = g;
    before_n = n;
  }
}

/* Adjoint of the above for a whole chunk of m rows: k->bg, bn, ba, bf, bh are consumed; k->balpha
 * and k->beta receive the cotangents of k->alpha and k->eta.
 *   bh_t += bf_t,  bN_tj += bG_tj
 *   balpha_t = a_(t-1) ba_t + f_(t-1) bf_t + sum_(j<t) G_(t-1)j bG_tj
 *   btheta_t = h_(t-1) bh_t + sum_(j<t) N_(t-1)j bN_tj          beta_t = bN_tt
 *   and alpha_t times the cotangents of G, a, f, theta_t times those of N, h, go to row t-1.
 *   row_rates: balpha_t = a_(t-1) ba_t,  brho_t = slope_t sum_(j<=t) N_tj bG_tj,
 *   bN_tj += rate_t bG_tj,  bN_(t-1)j += bN_tj */
static void MIRAS__FN(coefficients_bwd)(const miras__plan *p, miras__work *k,
                                        const miras__head_io *io, size_t t, size_t m,
                                        const miras__head_grads *out) {
  size_t c = p->span, steps = (size_t)p->d.steps, i;
  int momentum = p->d.algorithm == MIRAS_MOMENTUM, rates = p->d.row_rates != 0;
  for (i = m; i-- > 0;) {
    size_t token = (t + i) / steps, descent = (t + i) % steps;
    float alpha = k->alpha[i], theta = 0, dalpha, dtheta = 0, slope;
    const float *g = i ? k->g + (i - 1) * c : NULL, *n = i ? k->n + (i - 1) * c : NULL;
    float *bg = k->bg + i * c, *bn = k->bn + i * c;
    dalpha = (i ? k->ca[i - 1] : 1) * k->ba[i] + (i ? k->cf[i - 1] : 0) * k->bf[i];
    if (i && !rates) dalpha += MIRAS__FN(dot)(g, bg, i);
    if (momentum && descent) {
      theta = 1;
      bn[i] += bg[i];
    } else if (momentum) {
      theta = io->momentum[token * io->ld_momentum];
      k->bh[i] += k->bf[i];
      MIRAS__FN(add)(bn, bg, i + 1);
      dtheta = (i ? k->ch[i - 1] : 1) * k->bh[i];
      if (i) dtheta += MIRAS__FN(dot)(n, bn, i);
    } else if (rates) {
      float rate = MIRAS__FN(row_rate)(p, io, i, &slope);
      if (out->rho && slope > 0)
        out->rho[i / steps] += slope * MIRAS__FN(dot)(k->n + i * c, bg, i + 1);
      MIRAS__FN(axpy)(bn, rate, bg, i + 1);
    }
    if (out->momentum && !descent) out->momentum[token * out->ld_momentum] = dtheta;
    k->balpha[i] = dalpha;
    k->beta[i] = momentum || rates ? bn[i] : bg[i];
    if (!i) continue;
    k->ba[i - 1] += alpha * k->ba[i];
    if (rates) {
      MIRAS__FN(add)(bn - c, bn, i);
      continue;
    }
    MIRAS__FN(axpy)(bg - c, alpha, bg, i);
    k->bf[i - 1] += alpha * k->bf[i];
    if (momentum) {
      MIRAS__FN(axpy)(bn - c, theta, bn, i);
      k->bh[i - 1] += theta * k->bh[i];
    }
  }
}

/* Adjoint of bound_fwd over a chunk of m pairs: k->beta comes in as the cotangent of eta' and
 * leaves as that of eta; adds to k->by, k->bd, bw and, by layer, binv; leaves k->balong, and
 * k->bmetric of signed slices. Uses k->x, k->zq, k->t1, k->t2. With D = e.r (1 + F/4) + c Q:
 *   bs = sum over channels of beta' eta,   b(e.r) = bs c Q/D^2,   bQ = -bs c (e.r)/D^2
 *   bF = -bs s^2/4,   with n = |d| |y|, y what layer l feeds, b(Q_l) = bQ + bF/n, called bQ below,
 *   bd += -bF Q_l/n^2 |y| d/|d|,   by += -bF Q_l/n^2 |d| y/|y|
 *   beta = s beta' + sum over layers of bQ dQ/deta
 *   u = (eta (.)) y^2, v = (eta (.)) d^2, where the layer carries no channel it is eta u v, in all
 *   b(y^2) = bQ v J', b(d^2) = bQ u J, bJ = u' (bQ v),  by += 2 y b(y^2),  bd += 2 d b(d^2)
 *   J = lambda:  b(y^2) = bQ lambda sum v,  b(d^2) = bQ lambda sum u,  blambda = bQ sum u sum v */
static void MIRAS__FN(bound_bwd)(const miras__plan *p, miras__work *k, int lag, const float *w,
                                 size_t m, float *bw, float *binv) {
  const size_t wide = MIRAS__WIDE(p);
  const int lp = p->d.bias == MIRAS_LP || p->d.bias == MIRAS_LP_SMOOTH;
  const float c = lp && p->d.p > 2 ? p->d.p - 1 : 1;
  float *bq = k->row;
  size_t i, j;
  int l;
  for (i = 0; i < m; i++) {
    float s = k->share[i], bs = 0;
    float all = k->along[i] * (1 + k->strain[i] / 4) + c * k->spent[i];
    float *eta = k->eta + i * wide, *beta = k->beta + i * wide;
    for (j = 0; j < wide; j++) {                 /* eta again, as it was before it was bounded */
      eta[j] /= s;
      bs += beta[j] * eta[j];
      beta[j] *= s;
    }
    k->balong[i] = bs * (c * k->spent[i] / all) / all;
    k->bspent[i] = -bs * c * s / all;
    k->bstrain[i] = -bs * s * s / 4;
  }
  if (p->d.simplex_signed) memset(k->bmetric, 0, p->weights * sizeof *k->bmetric);
  for (l = 0; l < p->layers; l++) {
    size_t in = (size_t)p->in[l], out = (size_t)p->out[l];
    float number, *u = k->x[l], *v = k->zq[l], *bj;
    const float *metric = MIRAS__FN(bound_metric)(p, k, lag, w, l, &number);
    const int by_input = MIRAS__BY_INPUT(p, l);
    for (i = 0; i < m; i++) {                    /* eta goes with u, or with v */
      const float *yi = k->y[l] + i * in, *di = k->dd[l] + i * out, *eta = k->eta + i * wide;
      MIRAS__FN(mul)(u + i * in, yi, yi, in);
      MIRAS__FN(mul)(v + i * out, di, di, out);
      if (by_input) MIRAS__FN(mul)(u + i * in, eta, u + i * in, in);
      else if (p->channel) MIRAS__FN(mul)(v + i * out, eta, v + i * out, out);
      else MIRAS__FN(scale)(u + i * in, *eta, u + i * in, in);
    }
    if (metric)
      MIRAS__FN(gemm)(MIRAS__SET, k->t2, out, u, in, 1, metric, out, 1, m, out, in, -1, k->pack);
    for (i = 0; i < m; i++) {
      bq[i] = k->bspent[i];
      if (MIRAS__STRAINS(p, l)) {
        const float *di = k->dd[l] + i * out, *vi = v + i * out, *yf;
        float said, heard, n, q = metric ? MIRAS__FN(dot)(k->t2 + i * out, vi, out)
                                         : MIRAS__FN(sum)(u + i * in, in) * MIRAS__FN(sum)(vi, out);
        const int fed = MIRAS__FN(bound_fed)(p, l, k->y, di, i, &yf, &said, &heard);
        const size_t hears = (size_t)p->in[fed];
        n = said * heard + 1e-20f;
        q *= -number * k->bstrain[i] / n / n;
        if (said > 0) MIRAS__FN(axpy)(k->bd[l] + i * out, q * heard / said, di, out);
        if (heard > 0) MIRAS__FN(axpy)(k->by[fed] + i * hears, q * said / heard, yf, hears);
        bq[i] += k->bstrain[i] / n;
      }
    }
    if (metric) {                                /* t1 = b(y^2), t2 = b(d^2), but for their eta */
      for (i = 0; i < m; i++) {
        MIRAS__FN(scale)(v + i * out, number * bq[i], v + i * out, out);
        MIRAS__FN(scale)(k->t2 + i * out, number * bq[i], k->t2 + i * out, out);
      }
      MIRAS__FN(gemm)(MIRAS__SET, k->t1, in, v, out, 1, metric, 1, out, m, in, out, -1, k->pack);
      bj = p->d.simplex_signed ? k->bmetric + p->offset[l] : bw + p->offset[l];
      if (p->d.retention == MIRAS_RETAIN_SIGMOID) {
        float *row = k->dx;                      /* J = W (1 - W): bW = (1 - 2 W) bJ, row by row */
        const float *wl = w + p->offset[l];
        for (j = 0; j < in; j++) {
          MIRAS__FN(gemm)(MIRAS__SET, row, out, u + j, 1, in, v, out, 1, 1, out, m, -1, k->pack);
          MIRAS__FN(add)(bj + j * out, row, out);
          MIRAS__FN(mul)(row, row, wl + j * out, out);
          MIRAS__FN(axpy)(bj + j * out, -2, row, out);
        }
      } else {
        MIRAS__FN(gemm)(MIRAS__ADD, bj, out, u, 1, in, v, out, 1, in, out, m, -1, k->pack);
      }
    } else {
      for (i = 0; i < m; i++) {
        float su = MIRAS__FN(sum)(u + i * in, in), sv = MIRAS__FN(sum)(v + i * out, out);
        binv[l] += bq[i] * su * sv;
        MIRAS__FN(fill)(k->t1 + i * in, bq[i] * number * sv, in);
        MIRAS__FN(fill)(k->t2 + i * out, bq[i] * number * su, out);
      }
    }
    for (i = 0; i < m; i++) {
      const float *yi = k->y[l] + i * in, *di = k->dd[l] + i * out, *eta = k->eta + i * wide;
      float *beta = k->beta + i * wide, *b1 = k->t1 + i * in, *b2 = k->t2 + i * out;
      float *row = k->dz;
      /* b1, b2 belong to u and v: what stands beside eta there is its slope */
      if (by_input) {
        MIRAS__FN(mul)(row, yi, yi, in);
        MIRAS__FN(muladd)(beta, row, b1, in);
        MIRAS__FN(mul)(b1, eta, b1, in);
      } else if (p->channel) {
        MIRAS__FN(mul)(row, di, di, out);
        MIRAS__FN(muladd)(beta, row, b2, out);
        MIRAS__FN(mul)(b2, eta, b2, out);
      } else {
        MIRAS__FN(mul)(row, yi, yi, in);
        *beta += MIRAS__FN(dot)(row, b1, in);
        MIRAS__FN(scale)(b1, *eta, b1, in);
      }
      MIRAS__FN(mul)(b1, b1, yi, in);
      MIRAS__FN(axpy)(k->by[l] + i * in, 2, b1, in);
      MIRAS__FN(mul)(b2, b2, di, out);
      MIRAS__FN(axpy)(k->bd[l] + i * out, 2, b2, out);
    }
  }
}

/* Adjoint of pair_gates: from k->balpha and k->beta to the tokens' gates.
 *   L2 both, alpha = beta/(beta + eta), step alpha eta:  beta = alpha^2 (bstep - balpha/beta) */
static void MIRAS__FN(pair_gates_bwd)(const miras__plan *p, miras__work *k, size_t t, int lag,
                                      const float *w, size_t m, const miras__head_grads *out,
                                      float *bw, float *binv) {
  size_t n = MIRAS__WIDE(p), steps = (size_t)p->d.steps, i, j;
  if (p->d.bounded_step) MIRAS__FN(bound_bwd)(p, k, lag, w, m, bw, binv);
  for (i = 0; i < m; i++) {
    size_t token = (t + i) / steps, descent = (t + i) % steps;
    const float *balpha = k->balpha + i * n, *alpha = k->alpha + i * n;
    float *beta = k->beta + i * n;
    for (j = 0; p->d.retention == MIRAS_RETAIN_L2_BOTH && j < n; j += V_W) {
      vf a = V_LOAD_N(alpha + j, n - j), b = V_LOAD_N(balpha + j, n - j);
      b = V_SUB(V_LOAD_N(beta + j, n - j), V_DIV(b, V_SET1(p->d.balance)));
      V_STORE_N(beta + j, V_MUL(V_MUL(a, a), b), n - j);
    }
    if (out->keep && !descent) {
      float *to = out->keep + token * out->ld_keep;
      if (p->d.keep_gate == MIRAS_GATE_CHANNEL) memcpy(to, balpha, n * sizeof *to);
      else *to = MIRAS__FN(sum)(balpha, n);
    }
    if (out->step) {
      float *to = out->step + token * out->ld_step;
      if (p->d.step_gate == MIRAS_GATE_CHANNEL) memcpy(to + descent * n, beta, n * sizeof *to);
      else to[descent] = MIRAS__FN(sum)(beta, n);
    }
  }
}

/* Room @44's view of the chunk's rows of one side from new row `from` on: Y_1 or D_L. */
static void MIRAS__FN(channel_view)(const miras__plan *p, const miras__work *k, int by_input,
                                    size_t from, miras__channels *c) {
  size_t n = (size_t)p->d.value_dim;
  memset(c, 0, sizeof *c);
  c->n = c->ld_x = c->ld_eta = c->ld_alpha = n;
  c->every = p->span == 1 ? 1 : (size_t)p->d.steps;
  c->x = (by_input ? k->new_y : k->new_d) + from * n;
  c->eta = k->eta + from * n;
  c->alpha = k->alpha + from * n;
  c->ld_p = p->span;
  c->live = by_input ? k->live_y : k->live_d;
}

/* The rows after the last that was read, from new row `from` to m, enter the live ones. */
static void MIRAS__FN(channel_advance)(const miras__plan *p, const miras__work *k, size_t r0,
                                       size_t from, size_t m) {
  miras__channels c;
  int side;
  for (side = p->layers > 1; side >= 0; side--) {
    MIRAS__FN(channel_view)(p, k, side, from, &c);
    MIRAS__FN(channel_scores)(&c, r0 + from, m - from);
  }
}

/* The adjoint of one side's rows of the chunk. reads > 0: b and q [reads] are what room @44 calls p
 * and q, dq += the cotangents of the queries (by output: NULL). live: of the closed chunk's rows.
 * to += those of Y_1 or D_L. The last token of a chunk may have read elsewhere; its b and q are
 * zero. */
static void MIRAS__FN(channel_rows_bwd)(const miras__plan *p, miras__work *k, int by_input,
                                        size_t reads, float *b, float *q, float *dq,
                                        const float *live, float *to) {
  miras__channels c;
  miras__channel_grads g;
  memset(&g, 0, sizeof g);
  MIRAS__FN(channel_view)(p, k, by_input, 0, &c);
  if (reads && reads < k->rows / c.every) {
    memset(b + reads * c.ld_p, 0, c.ld_p * sizeof *b);
    memset(q + reads * c.n, 0, c.n * sizeof *q);
    if (dq) memset(dq + reads * c.n, 0, c.n * sizeof *dq);
  }
  c.q = reads ? q : NULL;
  c.p = b;
  c.ld_q = g.ld_x = g.ld_eta = g.ld_alpha = g.ld_q = c.n;
  g.q = dq;
  g.x = to;
  g.eta = k->beta;
  g.alpha = k->balpha;
  g.live = live;
  MIRAS__FN(channel_bwd)(&c, &g, k->rows, k->history);
}

/* y = (1 - a) scale */
static void MIRAS__FN(rest)(float *y, const float *a, float scale, size_t n) {
  size_t i;
  for (i = 0; i < n; i += V_W)
    V_STORE_N(y + i, V_MUL(V_SUB(V_SET1(1.0f), V_LOAD_N(a + i, n - i)), V_SET1(scale)), n - i);
}

/* The weights from which the reads of an open chunk start. A threshold would cut the anchor off
 * A_0, whose course they follow. */
#define MIRAS__READS(p, a, w) ((p)->d.retention == MIRAS_RETAIN_ELASTIC_FTRL ? (a) : (w))

/* Read m rows of queries. follow: along A_t with the coefficient rows g, ca, cf of the last pair of
 * each token (steps rows apart); the first query sees the chunk's first `seen` pairs y, d, each of
 * the others steps more. Otherwise: plain M(w; q). s: momentum S_0 or NULL. at: row of k's query
 * arrays where results go (backward keeps them). With gates per channel ca is [.., dv], y and d
 * hold the live rows, and the pairs up to the last query's enter them here (unless k->live_d is
 * NULL: they have). */
static void MIRAS__FN(read_rows)(const miras__plan *p, miras__work *k, const float *w,
                                 const float *s, const float *gain, const float *bias,
                                 const float *const *y, const float *const *d, int follow,
                                 const float *g, const float *ca, const float *cf, size_t seen,
                                 size_t m, const float *q, size_t ldq, float *o, size_t ldo,
                                 size_t at) {
  size_t i, phase, c = p->span, dv = (size_t)p->d.value_dim, steps = (size_t)p->d.steps;
  size_t pairs = seen + (m - 1) * steps, wide = p->channel ? dv : 1;
  float *z[4];
  miras__channels rows;
  int l, last = p->layers - 1, vector = p->d.architecture == MIRAS_VECTOR;
  int fresh = p->channel && k->live_d;
  for (l = 0; l <= last; l++) z[l] = k->zq[l] + at * (size_t)p->out[l];
  for (i = 0; i < m; i++)
    MIRAS__FN(input_row)(p, k->x[0] + (at + i) * (size_t)p->in[0], q + i * ldq);
  for (l = 0; l <= last; l++) {
    size_t in = (size_t)p->in[l], out = (size_t)p->out[l];
    float *x = k->x[l] + at * in, *zl = z[l], *kq = k->kq[l] + at * c;
    const float *scaled = x, *home = follow && k->home ? k->home + p->offset[l] : NULL;
    if (MIRAS__HIDDEN(p, l)) MIRAS__FN(hidden_fwd)(p, l, x, z, m);
    if (follow && MIRAS__BY_INPUT(p, l)) {
      for (i = 0; i < m; i++)
        MIRAS__FN(mul)(k->t1 + i * in, ca + i * steps * wide, x + i * in, in);
      scaled = k->t1;
    }
    MIRAS__FN(gemm)(MIRAS__SET, zl, out, scaled, in, 1, w + p->offset[l], out, 1, m, out, in, -1,
                    k->pack);
    if (!follow) continue;
    if (home && scaled != x) {                   /* ((1 - a) (.) x) B */
      for (i = 0; i < m; i++) {
        MIRAS__FN(rest)(k->t1 + i * in, ca + i * steps * wide, k->inv[l], in);
        MIRAS__FN(mul)(k->t1 + i * in, k->t1 + i * in, x + i * in, in);
      }
      MIRAS__FN(gemm)(MIRAS__ADD, zl, out, k->t1, in, 1, home, out, 1, m, out, in, -1, k->pack);
    }
    for (i = 0; i < m && scaled == x; i++) {
      if (p->channel) MIRAS__FN(mul)(zl + i * out, ca + i * steps * wide, zl + i * out, out);
      else MIRAS__FN(scale)(zl + i * out, ca[i * steps], zl + i * out, out);
    }
    if (home && scaled == x) {                   /* (1 - a) (.) (x B) */
      MIRAS__FN(gemm)(MIRAS__SET, k->t1, out, x, in, 1, home, out, 1, m, out, in, -1, k->pack);
      for (i = 0; i < m; i++) {
        const float *a = ca + i * steps * wide;
        float *row = k->t3;
        if (!p->channel) {
          MIRAS__FN(axpy)(zl + i * out, (1 - *a) * k->inv[l], k->t1 + i * out, out);
        } else {
          MIRAS__FN(rest)(row, a, k->inv[l], out);
          MIRAS__FN(muladd)(zl + i * out, row, k->t1 + i * out, out);
        }
      }
    }
    if (s) {
      MIRAS__FN(gemm)(MIRAS__SET, k->t1, out, x, in, 1, s + p->offset[l], out, 1, m, out, in, -1,
                      k->pack);
      for (i = 0; i < m; i++)
        MIRAS__FN(axpy)(zl + i * out, cf[i * steps] * k->inv[l], k->t1 + i * out, out);
    }
    if (fresh) MIRAS__FN(channel_view)(p, k, scaled != x, 0, &rows);
    if (p->from[l] == l && fresh && scaled != x) {
      rows.q = x;
      rows.ld_q = in;
      rows.p = kq;
      MIRAS__FN(channel_scores)(&rows, seen - rows.every, m * rows.every);
    } else if (p->from[l] == l) {
      MIRAS__FN(gemm)(MIRAS__SET, kq, c, x, in, 1, y[l], 1, in, m, pairs, in, -1, k->pack);
    }
    for (i = 0; i < m; i++) {
      float *pq = k->pq + i * c;
      const float *gi = p->channel ? NULL : g + i * steps * c;
      float inv = fresh && scaled == x ? -k->inv[l] : k->inv[l];
      if (gi) MIRAS__FN(mul)(pq, gi, kq + i * c, seen + i * steps);
      if (p->linked || !gi) MIRAS__FN(scale)(pq, inv, gi ? pq : kq + i * c, seen + i * steps);
    }
    if (fresh && scaled == x) {
      rows.p = k->pq;
      MIRAS__FN(channel_mixes)(&rows, zl, out, seen - rows.every, m * rows.every);
      continue;
    }
    /* A row must not meet a later token's pair, not even times zero: the first descents of all
     * tokens, then the second ones, and so on, each a product that stops at the diagonal. */
    for (phase = 0; phase < steps && phase < pairs; phase++)
      MIRAS__FN(gemm)(MIRAS__SUB, zl, out, k->pq + phase, c, steps, d[l] + phase * out, steps * out,
                      1, m, out, (pairs - phase + steps - 1) / steps,
                      (ptrdiff_t)((seen - 1) / steps), k->pack);
  }
  for (i = 0; i < m; i++) {
    const float *zl = z[last] + i * dv;
    float *to = o + i * ldo, *xh = k->xhq + (at + i) * dv;
    if (p->d.inner_norm) {
      k->rstdq[at + i] = MIRAS__FN(norm_fwd)(to, xh, zl, gain, bias, dv);
    } else if (vector) {
      MIRAS__FN(feature_fwd)(p->map, xh, q + i * ldq, dv);
      MIRAS__FN(mul)(to, xh, zl, dv);
    } else {
      memcpy(to, zl, dv * sizeof *to);
    }
    if (p->d.inner_residual) MIRAS__FN(add)(to, k->x[0] + (at + i) * (size_t)p->in[0], dv);
  }
}

/* to = a (.) to [+ (1 - a) (.) home] for layer l, a of row `last`. home: of the whole memory. */
static void MIRAS__FN(fade)(const miras__plan *p, const miras__work *k, int l, float *to,
                            const float *home, size_t last) {
  const size_t in = (size_t)p->in[l], out = (size_t)p->out[l];
  const float *a = k->ca + last * MIRAS__WIDE(p), *h = home ? home + p->offset[l] : NULL;
  size_t i;
  if (!p->channel) {
    MIRAS__FN(scale)(to, *a, to, in * out);
    if (h) MIRAS__FN(axpy)(to, 1 - *a, h, in * out);
    return;
  }
  if (!MIRAS__BY_INPUT(p, l) && h) MIRAS__FN(rest)(k->t3, a, 1, out);
  for (i = 0; i < in; i++) {
    if (MIRAS__BY_INPUT(p, l)) {
      MIRAS__FN(scale)(to + i * out, a[i], to + i * out, out);
      if (h) MIRAS__FN(axpy)(to + i * out, 1 - a[i], h + i * out, out);
    } else {
      MIRAS__FN(mul)(to + i * out, a, to + i * out, out);
      if (h) MIRAS__FN(muladd)(to + i * out, k->t3, h + i * out, out);
    }
  }
}

/* Its adjoint, from = what `to` was: b, the cotangent of the result, becomes that of `from`.
 *   ba += <from - home, b>,  bhome += (1 - a) (.) b,  b <- a (.) b
 * each over the channel that a number of a belongs to. */
static void MIRAS__FN(fade_bwd)(const miras__plan *p, miras__work *k, int l, float *b,
                                const float *from, const float *home, float *bhome, size_t last) {
  const size_t in = (size_t)p->in[l], out = (size_t)p->out[l], size = in * out;
  const float *a = k->ca + last * MIRAS__WIDE(p), *h = home ? home + p->offset[l] : NULL;
  float *ba = k->ba + last * MIRAS__WIDE(p), *bh = home ? bhome + p->offset[l] : NULL;
  const int by_input = MIRAS__BY_INPUT(p, l);
  size_t i;
  if (!p->channel && !h) {
    *ba += MIRAS__FN(dot)(from, b, size);
    MIRAS__FN(scale)(b, *a, b, size);
    return;
  }
  if (p->channel && !by_input && h) MIRAS__FN(rest)(k->t3, a, 1, out);
  for (i = 0; i < in; i++) {
    const float *row = from + i * out;
    float *bi = b + i * out;
    if (h) {                                     /* a small difference of large numbers: first */
      memcpy(k->t4, row, out * sizeof *row);
      MIRAS__FN(axpy)(k->t4, -1, h + i * out, out);
      row = k->t4;
    }
    if (p->channel && !by_input) {
      MIRAS__FN(muladd)(ba, row, bi, out);
      if (h) MIRAS__FN(muladd)(bh + i * out, k->t3, bi, out);
      MIRAS__FN(mul)(bi, a, bi, out);
    } else {
      const size_t at = by_input ? i : 0;
      ba[at] += MIRAS__FN(dot)(row, bi, out);
      if (h) MIRAS__FN(axpy)(bh + i * out, 1 - a[at], bi, out);
      MIRAS__FN(scale)(bi, a[at], bi, out);
    }
  }
}

/* A_C, S_C from A_0, S_0 (in place) and c pairs, live ones with gates per channel; coefficients of
 * the last pair, which lie in row `last` of k's. */
static void MIRAS__FN(close_chunk)(const miras__plan *p, miras__work *k, float *a, float *s,
                                   const float *const *y, const float *const *d, size_t last,
                                   size_t c) {
  const float *g = k->g + last * p->span, *n = k->n + last * p->span;
  float cf = k->cf[last], ch = k->ch[last];
  size_t i;
  int l;
  for (l = 0; l < p->layers; l++) {
    size_t in = (size_t)p->in[l], out = (size_t)p->out[l], size = in * out;
    float *al = a + p->offset[l], *sl = s ? s + p->offset[l] : NULL;
    MIRAS__FN(fade)(p, k, l, al, k->home, last);
    if (p->channel) {
      MIRAS__FN(gemm)(MIRAS__SUB, al, out, y[l], 1, in, d[l], out, 1, in, out, c, -1, k->pack);
      continue;
    }
    for (i = 0; i < c; i++) MIRAS__FN(scale)(k->t1 + i * in, g[i], y[l] + i * in, in);
    if (sl) MIRAS__FN(axpy)(al, cf, sl, size);
    MIRAS__FN(gemm)(MIRAS__SUB, al, out, k->t1, 1, in, d[l], out, 1, in, out, c, -1, k->pack);
    if (sl) {
      for (i = 0; i < c; i++) MIRAS__FN(scale)(k->t1 + i * in, n[i], y[l] + i * in, in);
      MIRAS__FN(scale)(sl, ch, sl, size);
      MIRAS__FN(gemm)(MIRAS__SUB, sl, out, k->t1, 1, in, d[l], out, 1, in, out, c, -1, k->pack);
    }
  }
}

/* The recursion up to the closing pair, row `last` of coefficients, into `to`, from A_0 = a (may
 * be the same block); s is moved in place. lag: the exact first token of a Memora chunk, from the
 * logarithm of W_0. For an f-divergence `to` receives -U. */
static void MIRAS__FN(settle_sum)(const miras__plan *p, miras__work *k, int lag, float *to,
                                  const float *a, float *s, const float *const *y,
                                  const float *const *d, size_t last) {
  if (lag) MIRAS__FN(log_weights)(to, a, p->weights);
  else if (miras__divergence(p->d.retention)) memset(to, 0, p->weights * sizeof *to);
  else if (to != a) memcpy(to, a, p->weights * sizeof *to);
  MIRAS__FN(close_chunk)(p, k, to, s, y, d, last, lag ? 1 : p->span);
}

/* gamma of a closing elastic net; g is the last row of G. */
static float MIRAS__FN(settle_gamma)(const miras__plan *p, const float *g) {
  return p->d.sparsity * MIRAS__FN(sum)(g, p->span);
}

/* W_C from what settle_sum left in `sum`; w0 is W_0, g as before, row `last` of coefficients. w may
 * be sum, or w0. */
static void MIRAS__FN(settle_map)(const miras__plan *p, miras__work *k, int lag, float *w,
                                  const float *sum, const float *w0, const float *g, size_t last,
                                  float *inv) {
  int l;
  if (lag) {
    for (l = 0; l < p->layers; l++)
      MIRAS__FN(simplex_fwd)(p, l, w + p->offset[l], sum + p->offset[l]);
  } else if (p->linked) {
    MIRAS__FN(link_fwd)(p, w, sum, k->b, inv);
  } else if (p->d.retention == MIRAS_RETAIN_ELASTIC) {
    MIRAS__FN(shrink_from)(p, w, sum, k->b, MIRAS__FN(settle_gamma)(p, g), p->weights);
  } else if (miras__divergence(p->d.retention)) {
    if (k->wb) {
      memcpy(k->mix, w0, p->weights * sizeof *k->mix);
      for (l = 0; l < p->layers; l++)
        MIRAS__FN(fade)(p, k, l, k->mix + p->offset[l], k->wb, last);
      w0 = k->mix;
    }
    MIRAS__FN(divergence_fwd)(p, w, w0, sum);
  }
}

/* Views into one head's state. */
typedef struct MIRAS__FN(parts) {
  float *a, *w, *s, *home, *g, *n, *ca, *scalars, *y[4], *d[4];
} MIRAS__FN(parts);

static void MIRAS__FN(open_state)(const miras__plan *p, float *state, MIRAS__FN(parts) *v) {
  int l;
  v->a = state;
  v->w = p->linked ? state + p->at_w : state;
  v->s = p->d.algorithm == MIRAS_MOMENTUM ? state + p->at_s : NULL;
  v->home = p->holds ? state + p->at_home : NULL;
  v->g = state + p->at_g;
  v->n = state + p->at_n;
  v->ca = p->channel ? state + p->at_a : state + p->at_scalars;
  v->scalars = state + p->at_scalars;
  for (l = 0; l < p->layers; l++) {
    v->y[l] = state + p->at_y[l];
    v->d[l] = state + p->at_d[l];
  }
}

/* Bring a state to position 0: A_0 is the initial memory, no momentum. The normaliser of an LQ link
 * is kept in scalars[4 + layer] for the reads of the open chunk. Where A holds weights, the initial
 * memory is their logits. */
static void MIRAS__FN(begin)(const miras__plan *p, MIRAS__FN(parts) *v, const float *w0) {
  memcpy(v->a, w0, p->weights * sizeof *v->a);
  if (v->s) memset(v->s, 0, p->weights * sizeof *v->s);
  if (p->linked) {
    MIRAS__FN(link_fwd)(p, v->w, v->a, p->d.toward ? w0 : NULL, v->scalars + 4);
  } else if (p->mapped) {
    float inv[4];
    MIRAS__FN(link_fwd)(p, v->a, v->a, NULL, inv);
    if (v->home) memcpy(v->home, v->a, p->weights * sizeof *v->home);
  }
}

/* Where decays lead: k->b from w0 and k->wb where weights are kept, for the next chunk k->home. */
static void MIRAS__FN(lead)(const miras__plan *p, miras__work *k, const float *w0,
                            const float *wb) {
  k->b = p->d.toward ? w0 : NULL;
  k->wb = wb;
  k->home = p->pulls ? (p->lag ? wb : w0) : NULL;
}

static void MIRAS__FN(load_inv)(const miras__plan *p, miras__work *k, const float *inv) {
  int l;
  for (l = 0; l < p->layers; l++) k->inv[l] = p->linked ? inv[l] : 1;
}

static void MIRAS__FN(frozen_forward)(const miras__plan *p, const float *w0, const float *gain,
                                      const float *bias, float *state, uint64_t position,
                                      const miras__head_io *io, float *tape, float *scratch) {
  miras__work work, *k = &work;
  MIRAS__FN(parts) v;
  uint64_t start;
  size_t c = p->span, steps = (size_t)p->d.steps, t = 0, length = (size_t)io->length * steps, i;
  size_t wide = MIRAS__WIDE(p);
  miras__work_layout(p, scratch, 0, k);
  MIRAS__FN(open_state)(p, state, &v);
  if (position == 0 && length) {
    MIRAS__FN(begin)(p, &v, w0);
  } else if (v.home && tape && length) {           /* training may have moved the initial memory */
    float inv[4];
    MIRAS__FN(link_fwd)(p, v.home, w0, NULL, inv);
  }
  start = position;
  position = position % (uint64_t)p->d.chunk * (uint64_t)steps;      /* pairs in the open chunk */
  while (t < length) {
    size_t r0 = (size_t)((position + t) % c), m = c - r0;
    /* the first pair from t on that a read follows, the token of it, how many there are */
    size_t first = steps - 1 - t % steps, token = (t + first) / steps, reads;
    float *y[4], *d[4];
    const float *all_y[4], *all_d[4];
    int closes, closing, l, lag = p->lag && r0 == 0, settles;
    if (lag) m = 1;
    if (m > length - t) m = length - t;
    closes = r0 + m == c;
    settles = lag || (closes && p->settles);
    if (tape && r0 == 0) {
      float *to = tape + t / c * p->tape_state;
      memcpy(to, v.a, p->weights * sizeof *to);
      if (v.s) memcpy(to + p->weights, v.s, p->weights * sizeof *to);
    }
    for (l = 0; l < p->layers; l++) {
      y[l] = v.y[l] + r0 * (size_t)p->in[l];
      d[l] = v.d[l] + r0 * (size_t)p->out[l];
      all_y[l] = v.y[l];
      all_d[l] = v.d[l];
    }
    if (p->channel) {
      k->live_y = v.y[0];
      k->live_d = v.d[p->layers - 1];
      d[p->layers - 1] = k->new_d;
      for (l = 0; l < p->layers - 1; l++)
        if (p->from[l] == 0) y[l] = k->new_y;
    }
    MIRAS__FN(load_inv)(p, k, v.scalars + 4);
    MIRAS__FN(lead)(p, k, w0, v.home);
    if (lag && p->pulls) k->home = w0;
    MIRAS__FN(anchor_fwd)(p, k, v.w, gain, bias, io, t, m, y, d);
    if (io->surprise)                            /* of a token: before its first descent */
      for (i = (steps - t % steps) % steps; i < m; i += steps)
        io->surprise[(t + i) / steps] = k->loss[i];
    MIRAS__FN(pair_gates)(p, k, io, t, lag, v.a, v.w, y, d, m);
    if (p->channel) MIRAS__FN(channel_decay)(k->ca, r0 ? v.ca : NULL, k->alpha, wide, m, wide);
    else MIRAS__FN(coefficients)(p, k, io, t, r0, m, v.g, v.n, v.scalars);
    reads = io->q && m > first ? (m - first - 1) / steps + 1 : 0;
    closing = settles && reads;
    if (closing) reads--;
    if (reads)
      MIRAS__FN(read_rows)(p, k, MIRAS__READS(p, v.a, v.w), v.s, gain, bias, all_y, all_d,
                           p->follows, k->g + first * c, k->ca + first * wide,
                           k->cf + first, r0 + first + 1, reads, io->q + token * io->ldq, io->ldq,
                           io->y + token * io->ldy, io->ldy, 0);
    if (p->channel) {
      int follows = reads && p->follows;
      MIRAS__FN(channel_advance)(p, k, r0, follows ? first + 1 + (reads - 1) * steps : 0, m);
    }
    i = m - 1;
    if (closes || lag) {
      float *sum = miras__divergence(p->d.retention) ? k->u : v.a;
      MIRAS__FN(settle_sum)(p, k, lag, sum, v.a, v.s, all_y, all_d, i);
      if (closes && (t + m) % steps == 0 && !miras__divergence(p->d.retention) &&
          miras__sweeps(&p->d, start + (uint64_t)((t + m) / steps))) {
        MIRAS__FN(flush)(sum, sum, p->weights);
        if (v.s) MIRAS__FN(flush)(v.s, v.s, p->weights);
      }
      MIRAS__FN(settle_map)(p, k, lag, v.w, sum, v.a, k->g + i * c, i, v.scalars + 4);
      /* nothing of a closed chunk stays behind: how calls were cut must not show in the state */
      memset(v.g, 0, c * sizeof *v.g);
      memset(v.n, 0, c * sizeof *v.n);
      memset(v.scalars, 0, 4 * sizeof *v.scalars);
      if (p->channel) memset(v.ca, 0, wide * sizeof *v.ca);
      if (lag) v.scalars[0] = v.scalars[2] = 1;   /* token 1 is in W_1: its coefficient is 0 */
      if (lag && p->channel) {
        MIRAS__FN(fill)(v.ca, 1, wide);
        memset(k->live_y, 0, (size_t)p->in[0] * sizeof *k->live_y);
        memset(k->live_d, 0, wide * sizeof *k->live_d);
      }
      token += reads;
      if (closing)
        MIRAS__FN(read_rows)(p, k, v.w, NULL, gain, bias, all_y, all_d, 0, NULL, NULL, NULL, 1, 1,
                             io->q + token * io->ldq, io->ldq, io->y + token * io->ldy, io->ldy, 0);
    } else if (p->channel) {
      memcpy(v.ca, k->ca + i * wide, wide * sizeof *v.ca);
    } else {
      memcpy(v.g, k->g + i * c, (r0 + m) * sizeof *v.g);
      if (v.s || p->d.row_rates) memcpy(v.n, k->n + i * c, (r0 + m) * sizeof *v.n);
      v.scalars[0] = k->ca[i];
      v.scalars[1] = k->cf[i];
      v.scalars[2] = k->ch[i];
    }
    t += m;
  }
}

/* One layer of read_rows_bwd with gates per channel: k->dx from bz, and all that is said there.
 *   by output, z = a (.) (x W) - inv P (G (.) d), P = x y':
 *     ba_t += bz_t (.) (x_t W),  bx = (a (.) bz) W',  bW += x' (a (.) bz)
 *     bP_tj = -inv bz_t . (G_tj (.) d_j),  bx += bP y,  by += bP' x,  bd and G in room @44
 *   by input, z = (a (.) x) W - inv P d, P_tj = x_t . (G_tj (.) y_j):
 *     bu = bz W',  ba_t += bu_t (.) x_t,  bx = a (.) bu,  bW += (a (.) x)' bz
 *     bP = -inv bz d',  bd -= inv P' bz,  bx, by and G in room @44
 *   binv = sum bP P / inv
 * and of what home adds, with h = (1 - a) inv:
 *   by output, h (.) (x B):  bt = h (.) bz, bx += bt B', bB += x' bt; u = x B: ba -= inv bz (.) u,
 *                            binv += sum bz (.) (1 - a) (.) u
 *   by input, (h (.) x) B:   bu = bz B', bx += h (.) bu, bB += (h (.) x)' bz; ba -= inv bu (.) x,
 *                            binv += sum bu (.) (1 - a) (.) x */
static void MIRAS__FN(read_channel_bwd)(const miras__plan *p, miras__work *k, const float *w, int l,
                                        size_t first, size_t m, float *bz, float *bw,
                                        float *binv) {
  const float *home = k->home ? k->home + p->offset[l] : NULL;
  float *bhome = home ? k->bhome + p->offset[l] : NULL;
  size_t in = (size_t)p->in[l], out = (size_t)p->out[l], c = p->span, i, j;
  size_t dv = (size_t)p->d.value_dim, steps = (size_t)p->d.steps;
  size_t pairs = first + (m - 1) * steps + 1;
  float *x = k->x[l], *kq = k->kq[l], *bx = k->dx, *bp = k->bp, *pq = k->pq, inv = k->inv[l];
  int by_input = MIRAS__BY_INPUT(p, l);
  miras__channels rows;
  MIRAS__FN(channel_view)(p, k, by_input, 0, &rows);
  if (by_input) {
    MIRAS__FN(gemm)(MIRAS__SET, bx, in, bz, out, 1, w, 1, out, m, in, out, -1, k->pack);
    MIRAS__FN(gemm)(MIRAS__SET, bp, c, bz, out, 1, k->dd[l], 1, out, m, pairs, out, -1, k->pack);
  } else {
    MIRAS__FN(gemm)(MIRAS__SET, k->t1, out, x, in, 1, w, out, 1, m, out, in, -1, k->pack);
    rows.q = bz;
    rows.ld_q = out;
    rows.p = bp;
    rows.live = k->live;
    MIRAS__FN(channel_scores)(&rows, 0, m * rows.every);
  }
  for (i = 0; i < m; i++) {
    size_t row = first + i * steps;
    const float *a = k->ca + row * dv;
    float *bpi = bp + i * c, *pqi = pq + i * c, *kqi = kq + i * c;
    if (by_input) {
      MIRAS__FN(muladd)(k->ba + row * dv, bx + i * in, x + i * in, in);
      MIRAS__FN(mul)(bx + i * in, a, bx + i * in, in);
      MIRAS__FN(mul)(k->t1 + i * in, a, x + i * in, in);
    } else {
      MIRAS__FN(muladd)(k->ba + row * dv, bz + i * out, k->t1 + i * out, out);
      MIRAS__FN(mul)(k->t2 + i * out, a, bz + i * out, out);
    }
    for (j = 0; j <= row; j++) {
      binv[l] -= bpi[j] * kqi[j];
      bpi[j] *= -inv;
      pqi[j] = by_input ? inv * kqi[j] : -inv * kqi[j];
    }
    for (; j < pairs; j++) bpi[j] = pqi[j] = 0;
  }
  if (home) {
    size_t n = by_input ? in : out;
    float *row = k->t3, *u = k->bz[l], *h = k->t4;   /* bz: not in use yet */
    if (by_input) {
      MIRAS__FN(gemm)(MIRAS__ADD, bw, out, k->t1, 1, in, bz, out, 1, in, out, m, -1, k->pack);
      MIRAS__FN(gemm)(MIRAS__SET, k->t2, in, bz, out, 1, home, 1, out, m, in, out, -1, k->pack);
    } else {
      MIRAS__FN(gemm)(MIRAS__SET, u, out, x, in, 1, home, out, 1, m, out, in, -1, k->pack);
    }
    for (i = 0; i < m; i++) {
      float *ba = k->ba + (first + i * steps) * dv, *to = k->t1 + i * n;
      const float *a = k->ca + (first + i * steps) * dv;
      const float *one = by_input ? k->t2 + i * in : bz + i * out;
      const float *other = by_input ? x + i * in : u + i * out;
      MIRAS__FN(mul)(row, one, other, n);
      MIRAS__FN(axpy)(ba, -inv, row, n);
      MIRAS__FN(rest)(h, a, 1, n);
      binv[l] += MIRAS__FN(dot)(h, row, n);
      MIRAS__FN(scale)(h, inv, h, n);
      if (by_input) MIRAS__FN(muladd)(bx + i * in, h, one, in);
      MIRAS__FN(mul)(to, h, by_input ? other : one, n);
    }
    if (by_input)
      MIRAS__FN(gemm)(MIRAS__ADD, bhome, out, k->t1, 1, in, bz, out, 1, in, out, m, -1, k->pack);
    else
      MIRAS__FN(gemm)(MIRAS__ADD, bhome, out, x, 1, in, k->t1, out, 1, in, out, m, -1, k->pack);
  }
  if (by_input) {
    if (!home)
      MIRAS__FN(gemm)(MIRAS__ADD, bw, out, k->t1, 1, in, bz, out, 1, in, out, m, -1, k->pack);
    MIRAS__FN(gemm)(MIRAS__SUB, k->bd[l], out, pq, 1, c, bz, out, 1, pairs, out, m, -1, k->pack);
    MIRAS__FN(channel_rows_bwd)(p, k, 1, m, bp, x, bx, p->from[l] == l ? k->blive_y : NULL,
                                k->by[l]);
  } else {
    MIRAS__FN(gemm)(MIRAS__SET, bx, in, k->t2, out, 1, w, 1, out, m, in, out, -1, k->pack);
    if (home)
      MIRAS__FN(gemm)(MIRAS__ADD, bx, in, k->t1, out, 1, home, 1, out, m, in, out, -1, k->pack);
    MIRAS__FN(gemm)(MIRAS__ADD, bw, out, x, 1, in, k->t2, out, 1, in, out, m, -1, k->pack);
    MIRAS__FN(gemm)(MIRAS__ADD, bx, in, bp, c, 1, k->y[l], in, 1, m, in, pairs, -1, k->pack);
    MIRAS__FN(gemm)(MIRAS__ADD, k->by[l], in, bp, 1, c, x, in, 1, pairs, in, m, -1, k->pack);
    MIRAS__FN(channel_rows_bwd)(p, k, 0, m, pq, bz, NULL, k->blive_d, k->bd[l]);
  }
}

/* Adjoint of read_rows. q: the queries; bo: cotangents of the outputs, rows of ldo. Adds to bw, bs
 * (S_0; NULL without momentum), dgain, dbias; dq is overwritten (or NULL). With follow, also to
 * k->by, bd, bg, ba, bf and binv [layers]; query i reads after pair first + i * steps of the chunk.
 * Uses k->x, zq, kq, xhq, rstdq at row `at`. With P = G (.) (x y'):
 *   bP = -bz d' inv (lower),  bG += bP (x y'),  b(x y') = bP G,  bd -= inv P' bz
 *   T1 = bz W',  ba_t += T1_t . x_t,  bx = a_t T1
 *   home: T3 = bz B', h = (1 - a_t) inv:  ba_t -= inv T3_t . x_t,  bx += h T3,  bB += x' (h bz)
 *   T2 = bz S',  bf_t += inv T2_t . x_t,  bx += f_t inv T2
 *   bx += b(x y') y,  by += b(x y')' x,  bW += x' (a_t bz),  bS += x' (f_t inv bz)
 *   binv = sum_t (f_t T2_t + (1 - a_t) T3_t) . x_t + sum_tj (bP/inv) (x y') G
 *   vector, o = q (.) z:  bz = q bo,  bq = z bo */
static void MIRAS__FN(read_rows_bwd)(const miras__plan *p, miras__work *k, const float *w,
                                     const float *s, const float *gain, int follow, size_t first,
                                     size_t m, const float *q, size_t ldq, const float *bo,
                                     size_t ldo, float *dq, size_t lddq, float *bw, float *bs,
                                     float *dgain, float *dbias, float *binv, size_t at) {
  size_t i, j, c = p->span, dk = (size_t)p->d.key_dim, dv = (size_t)p->d.value_dim;
  size_t steps = (size_t)p->d.steps, pairs = m ? first + (m - 1) * steps + 1 : 0;
  int l, last = p->layers - 1, vector = p->d.architecture == MIRAS_VECTOR;
  float *bx = k->dx, *bzs[4], *z[4];
  if (!m) return;
  for (l = 0; l <= last; l++) {
    /* the second half of a gated layer comes first and waits for the first half's cotangent */
    bzs[l] = l < last && p->from[l + 1] == l ? k->dz2 : k->dz;
    z[l] = k->zq[l] + at * (size_t)p->out[l];
  }
  for (i = 0; i < m; i++) {
    const float *b = bo + i * ldo, *xh = k->xhq + (at + i) * dv;
    float *to = k->dz + i * dv;
    if (p->d.inner_norm) {
      MIRAS__FN(muladd)(dgain, xh, b, dv);
      MIRAS__FN(add)(dbias, b, dv);
      MIRAS__FN(mul)(to, gain, b, dv);
      MIRAS__FN(norm_project)(to, to, xh, k->rstdq[at + i], dv);
    } else if (vector) {
      MIRAS__FN(mul)(to, xh, b, dv);
    } else {
      memcpy(to, b, dv * sizeof *to);
    }
  }
  for (l = last; l >= 0; l--) {
    size_t in = (size_t)p->in[l], out = (size_t)p->out[l];
    const float *x = k->x[l] + at * in, *kq = k->kq[l] + at * c, inv = k->inv[l];
    float *bz = bzs[l];
    if (follow && p->channel) {
      MIRAS__FN(read_channel_bwd)(p, k, w + p->offset[l], l, first, m, bz, bw + p->offset[l], binv);
    } else {
      MIRAS__FN(gemm)(MIRAS__SET, bx, in, bz, out, 1, w + p->offset[l], 1, out, m, in, out, -1,
                      k->pack);
    }
    if (follow && !p->channel) {
      float *bp = k->bp, *pq = k->pq;
      for (i = 0; i < m; i++) {
        size_t row = first + i * steps;
        if (k->home) continue;
        k->ba[row] += MIRAS__FN(dot)(bx + i * in, x + i * in, in);
        MIRAS__FN(scale)(bx + i * in, k->ca[row], bx + i * in, in);
      }
      if (k->home) {
        MIRAS__FN(gemm)(MIRAS__SET, k->t1, in, bz, out, 1, k->home + p->offset[l], 1, out, m, in,
                        out, -1, k->pack);
        for (i = 0; i < m; i++) {
          size_t row = first + i * steps;
          float *b = bx + i * in, *t = k->t1 + i * in, left = 1 - k->ca[row];
          binv[l] += left * MIRAS__FN(dot)(t, x + i * in, in);
          MIRAS__FN(axpy)(b, -inv, t, in);       /* T1 - inv T3, and a_t of that on top of inv T3 */
          k->ba[row] += MIRAS__FN(dot)(b, x + i * in, in);
          MIRAS__FN(scale)(b, k->ca[row], b, in);
          MIRAS__FN(axpy)(b, inv, t, in);
          MIRAS__FN(scale)(k->t2 + i * out, left * inv, bz + i * out, out);
        }
        MIRAS__FN(gemm)(MIRAS__ADD, k->bhome + p->offset[l], out, x, 1, in, k->t2, out, 1, in, out,
                        m, -1, k->pack);
      }
      if (s) {
        MIRAS__FN(gemm)(MIRAS__SET, k->t1, in, bz, out, 1, s + p->offset[l], 1, out, m, in, out, -1,
                        k->pack);
        for (i = 0; i < m; i++) {
          size_t row = first + i * steps;
          float along = MIRAS__FN(dot)(k->t1 + i * in, x + i * in, in);
          k->bf[row] += inv * along;
          binv[l] += k->cf[row] * along;
          MIRAS__FN(axpy)(bx + i * in, k->cf[row] * inv, k->t1 + i * in, in);
        }
      }
      MIRAS__FN(gemm)(MIRAS__SET, bp, c, bz, out, 1, k->dd[l], 1, out, m, pairs, out, -1, k->pack);
      for (i = 0; i < m; i++) {                   /* lower triangle; zeros above it */
        size_t row = first + i * steps;
        float *bpi = bp + i * c, *pqi = pq + i * c, *bgi = k->bg + row * c;
        const float *gi = k->g + row * c, *kqi = kq + i * c;
        for (j = 0; j <= row; j++) {
          float b = -bpi[j], cross = gi[j] * kqi[j];
          binv[l] += b * cross;
          bgi[j] += inv * b * kqi[j];
          bpi[j] = inv * b * gi[j];
          pqi[j] = inv * cross;
        }
        for (; j < pairs; j++) bpi[j] = pqi[j] = 0;
      }
      MIRAS__FN(gemm)(MIRAS__SUB, k->bd[l], out, pq, 1, c, bz, out, 1, pairs, out, m, -1, k->pack);
      MIRAS__FN(gemm)(MIRAS__ADD, bx, in, bp, c, 1, k->y[l], in, 1, m, in, pairs, -1, k->pack);
      MIRAS__FN(gemm)(MIRAS__ADD, k->by[l], in, bp, 1, c, x, in, 1, pairs, in, m, -1, k->pack);
      if (s) {
        for (i = 0; i < m; i++)
          MIRAS__FN(scale)(k->t2 + i * out, k->cf[first + i * steps] * inv, bz + i * out, out);
        MIRAS__FN(gemm)(MIRAS__ADD, bs + p->offset[l], out, x, 1, in, k->t2, out, 1, in, out, m, -1,
                        k->pack);
      }
      for (i = 0; i < m; i++)
        MIRAS__FN(scale)(bz + i * out, k->ca[first + i * steps], bz + i * out, out);
    }
    if (!(follow && p->channel))
      MIRAS__FN(gemm)(MIRAS__ADD, bw + p->offset[l], out, x, 1, in, bz, out, 1, in, out, m, -1,
                      k->pack);
    if (MIRAS__HIDDEN(p, l)) MIRAS__FN(hidden_bwd)(p, l, bzs, z, bx, in, m);
    else if (l > 0) memcpy(k->dx2, bx, m * in * sizeof *bx);
    else if (p->layers > 1 && p->from[1] == 0) MIRAS__FN(add)(bx, k->dx2, m * in);
  }
  if (dq)
    for (i = 0; i < m; i++) {
      size_t in = (size_t)p->in[0];
      float *to = dq + i * lddq;
      if (vector) {
        MIRAS__FN(mul)(to, z[0] + i * dv, bo + i * ldo, dv);
        MIRAS__FN(feature_bwd)(p->map, to, to, q + i * ldq, k->xhq + (at + i) * dv, dv);
      } else {
        if (p->d.inner_residual) MIRAS__FN(add)(bx + i * in, bo + i * ldo, dk);
        MIRAS__FN(input_row_bwd)(p, to, bx + i * in, q + i * ldq, k->x[0] + (at + i) * in);
      }
    }
}

/* One layer of close_chunk_bwd with gates per channel, over the chunk's pairs:
 *   by output, A_C = A_0 diag(a_C) - y' (G (.) d):
 *     the cotangent of G (.) d is -y ca,   by -= (G (.) d) ca'
 *   by input,  A_C = diag(a_C) A_0 - (G (.) y)' d:
 *     the cotangent of G (.) y is -d ca',  bd -= (G (.) y) ca */
static void MIRAS__FN(close_channel_bwd)(const miras__plan *p, miras__work *k, float *ca, int l,
                                         size_t pairs) {
  size_t in = (size_t)p->in[l], out = (size_t)p->out[l];
  if (MIRAS__BY_INPUT(p, l)) {
    MIRAS__FN(gemm)(MIRAS__SUB, k->blive_y, in, k->dd[l], out, 1, ca, 1, out, pairs, in, out, -1,
                    k->pack);
    MIRAS__FN(gemm)(MIRAS__SUB, k->bd[l], out, k->live_y, in, 1, ca, out, 1, pairs, out, in, -1,
                    k->pack);
  } else {
    MIRAS__FN(gemm)(MIRAS__SUB, k->blive_d, out, k->y[l], in, 1, ca, out, 1, pairs, out, in, -1,
                    k->pack);
    MIRAS__FN(gemm)(MIRAS__SUB, k->by[l], in, k->live_d, out, 1, ca, 1, out, pairs, in, out, -1,
                    k->pack);
  }
}

/* Adjoint of close_chunk, given the cotangents ca of A_C and cs of S_C (in place they become those
 * of A_0 and S_0):
 *   bG_Cj -= d_j . (ca' y_j),  bd_j -= G_Cj ca' y_j,  by_j -= G_Cj ca d_j,  the same with N and cs
 *   bf_C += <S_0, ca>,  bh_C += <S_0, cs>,  S_0 receives f_C ca + h_C cs
 *   and, as in fade_bwd, ba_C += <A_0 - B, ca>,  bB += (1 - a_C) ca,  A_0 receives a_C ca */
static void MIRAS__FN(close_chunk_bwd)(const miras__plan *p, miras__work *k, const float *a,
                                       const float *s, float *ca, float *cs, size_t pairs) {
  size_t c = p->span, last = pairs - 1, i;
  int l, pass;
  for (l = 0; l < p->layers; l++) {
    size_t in = (size_t)p->in[l], out = (size_t)p->out[l], size = in * out;
    float *cal = ca + p->offset[l];
    if (p->channel) {
      MIRAS__FN(close_channel_bwd)(p, k, cal, l, pairs);
      MIRAS__FN(fade_bwd)(p, k, l, cal, a + p->offset[l], k->home, k->bhome, last);
      continue;
    }
    for (pass = 0; pass < (s ? 2 : 1); pass++) {
      const float *cot = (pass ? cs : ca) + p->offset[l];
      const float *row = (pass ? k->n : k->g) + last * c;
      float *brow = (pass ? k->bn : k->bg) + last * c;
      MIRAS__FN(gemm)(MIRAS__SET, k->t1, out, k->y[l], in, 1, cot, out, 1, pairs, out, in, -1,
                      k->pack);
      MIRAS__FN(gemm)(MIRAS__SET, k->t2, in, k->dd[l], out, 1, cot, 1, out, pairs, in, out, -1,
                      k->pack);
      for (i = 0; i < pairs; i++) {
        brow[i] -= MIRAS__FN(dot)(k->dd[l] + i * out, k->t1 + i * out, out);
        MIRAS__FN(axpy)(k->bd[l] + i * out, -row[i], k->t1 + i * out, out);
        MIRAS__FN(axpy)(k->by[l] + i * in, -row[i], k->t2 + i * in, in);
      }
    }
    if (s) {
      float *csl = cs + p->offset[l];
      k->bf[last] += MIRAS__FN(dot)(s + p->offset[l], cal, size);
      k->bh[last] += MIRAS__FN(dot)(s + p->offset[l], csl, size);
      MIRAS__FN(scale)(csl, k->ch[last], csl, size);
      MIRAS__FN(axpy)(csl, k->cf[last], cal, size);
    }
    MIRAS__FN(fade_bwd)(p, k, l, cal, a + p->offset[l], k->home, k->bhome, last);
  }
}

/* Adjoint of settle_map. ca comes in as the cotangent of what the state carries over the close, bw
 * as what the closing read adds to W_C; sum and w = W_C as computed, w0 = W_0, row `last`.
 * Out: ca, the cotangent of A_C (f-divergence: of W_0, and bw that of the sum), what gamma leaves
 * in the last row of bG, bG_Cj += sparsity bgamma, and += dw0 and k->bwb for where decays lead. */
static void MIRAS__FN(settle_map_bwd)(const miras__plan *p, miras__work *k, int lag, float *ca,
                                      float *bw, const float *sum, const float *w,
                                      const float *w0, size_t last, float *dw0) {
  size_t c = p->span, i;
  int l;
  if (!lag && p->linked) {
    MIRAS__FN(link_bwd)(p, ca, bw, sum, w, NULL, k->b, dw0,
                        p->d.bounded_step ? k->bmetric : k->metric, NULL);
    return;
  }
  MIRAS__FN(add)(bw, ca, p->weights);
  if (lag) {
    memset(ca, 0, p->weights * sizeof *ca);
    for (l = 0; l < p->layers; l++)
      MIRAS__FN(simplex_bwd)(p, l, ca + p->offset[l], bw + p->offset[l], w + p->offset[l]);
  } else if (p->d.retention == MIRAS_RETAIN_ELASTIC) {
    float *brow = k->bg + (c - 1) * c;
    float gamma = MIRAS__FN(settle_gamma)(p, k->g + (c - 1) * c);
    gamma = MIRAS__FN(shrink_from_bwd)(p, ca, 0, bw, sum, k->b, dw0, gamma, p->weights);
    for (i = 0; i < c; i++) brow[i] += p->d.sparsity * gamma;
  } else {
    const float *from = k->wb ? k->mix : w0;       /* as settle_map left it */
    memcpy(ca, bw, p->weights * sizeof *ca);
    MIRAS__FN(divergence_bwd)(p, ca, bw, from, sum);
    for (l = 0; k->wb && l < p->layers; l++)
      MIRAS__FN(fade_bwd)(p, k, l, ca + p->offset[l], w0 + p->offset[l], k->wb, k->bwb, last);
  }
}

/* Gates and coefficients of a whole chunk, or of its lag token, again for the adjoint. */
static void MIRAS__FN(chunk_gates)(const miras__plan *p, miras__work *k, const miras__head_io *io,
                                   size_t t, int lag, const float *a, const float *w, size_t m) {
  const size_t wide = MIRAS__WIDE(p);
  MIRAS__FN(pair_gates)(p, k, io, t, lag, a, w, k->y, k->dd, m);
  if (p->channel) MIRAS__FN(channel_decay)(k->ca, NULL, k->alpha, wide, m, wide);
  else MIRAS__FN(coefficients)(p, k, io, t, 0, m, NULL, NULL, NULL);
}

static void MIRAS__FN(frozen_backward)(const miras__plan *p, const float *w0, const float *gain,
                                       const float *bias, const float *tape, uint64_t position,
                                       const miras__head_io *io, const float *dy, size_t lddy,
                                       const miras__head_grads *g, float *dw0, float *dgain,
                                       float *dbias, float *dstate, float *scratch) {
  miras__work work, *k = &work;
  size_t c = p->span, steps = (size_t)p->d.steps, length = (size_t)io->length * steps;
  size_t size = p->weights, chunks = length / c + (length % c != 0), i;
  size_t wide = MIRAS__WIDE(p), piece, pieces = p->lag ? 2 : 1;
  int momentum = p->d.algorithm == MIRAS_MOMENTUM, l;
  float *ca, *cs, inv_c[4];
  miras__work_layout(p, scratch, 1, k);
  if (p->holds) {
    MIRAS__FN(link_fwd)(p, k->again, w0, NULL, inv_c);
    memset(k->bwb, 0, size * sizeof *k->bwb);
  }
  ca = k->ba0;
  cs = momentum ? k->bs0 : NULL;
  memset(ca, 0, size * sizeof *ca);
  if (momentum) memset(cs, 0, size * sizeof *cs);
  if (dstate) {
    memcpy(ca, dstate, size * sizeof *ca);
    if (momentum) memcpy(cs, dstate + size, size * sizeof *cs);
  }
  for (i = 0; g->threshold && i < (size_t)io->length; i++) {   /* its descents add to a token's */
    size_t many = p->d.threshold_gate == MIRAS_GATE_CHANNEL ? (size_t)p->d.value_dim : 1;
    memset(g->threshold + i * g->ld_threshold, 0, many * sizeof(float));
  }
  /* Memora's chunks are two pieces: their first token, and the others from its W_1. */
  for (piece = chunks * pieces; piece-- > 0;) {
    size_t t = piece / pieces * c, m = length - t < c ? length - t : c, first, token, reads, end;
    const float *a = tape + piece / pieces * p->tape_state, *s = momentum ? a + size : NULL, *w;
    const float *y[4], *d[4];
    float *o = k->r, *bw, binv[4] = {0, 0, 0, 0}, inv[4] = {1, 1, 1, 1};
    int lag = p->lag && piece % 2 == 0, closes = !lag && m == c, settles, closing, follows;
    settles = lag || (closes && p->settles);
    for (l = 0; l < p->layers; l++) {
      y[l] = k->y[l];
      d[l] = k->dd[l];
    }
    MIRAS__FN(load_inv)(p, k, inv);
    MIRAS__FN(lead)(p, k, w0, p->holds ? k->again : NULL);
    if (p->channel) {                            /* rows times their coefficients stand for rows */
      d[p->layers - 1] = k->live_d;
      for (l = 0; l < p->layers - 1; l++)
        if (p->from[l] == 0) y[l] = k->live_y;
      k->new_y = k->y[0];
      k->new_d = k->dd[p->layers - 1];
    }
    if (lag) {
      m = 1;
    } else if (p->lag) {
      if (m == 1) continue;
      if (p->pulls) k->home = w0;
      MIRAS__FN(anchor_fwd)(p, k, a, gain, bias, io, t, 1, k->y, k->dd);
      MIRAS__FN(chunk_gates)(p, k, io, t, 1, a, a, 1);
      if (p->channel) MIRAS__FN(channel_advance)(p, k, 0, 0, 1);
      MIRAS__FN(settle_sum)(p, k, 1, k->w, a, NULL, y, d, 0);
      MIRAS__FN(settle_map)(p, k, 1, k->w, k->w, a, k->g, 0, inv_c);
      a = k->w;
      t++;
      m--;
    }
    k->home = p->pulls ? (p->lag && !lag ? k->wb : w0) : NULL;
    k->bhome = p->lag && !lag ? k->bwb : dw0;
    first = steps - 1 - t % steps;               /* as in the forward */
    token = (t + first) / steps;
    reads = m > first ? (m - first - 1) / steps + 1 : 0;
    end = token + reads - 1;
    closing = settles && reads;
    w = a;
    /* forward again: anchor, coefficients, reads, and the closing weights of a link */
    if (p->linked) {
      MIRAS__FN(link_fwd)(p, k->w, a, k->b, inv);
      w = k->w;
    }
    MIRAS__FN(load_inv)(p, k, inv);
    MIRAS__FN(anchor_fwd)(p, k, w, gain, bias, io, t, m, k->y, k->dd);
    MIRAS__FN(chunk_gates)(p, k, io, t, lag, a, w, m);
    k->rows = m;
    if (closing) reads--;
    o = k->bz[p->layers - 1];                    /* outputs are not needed: any free [C, dv] */
    if (reads)
      MIRAS__FN(read_rows)(p, k, MIRAS__READS(p, a, w), s, gain, bias, y, d, p->follows,
                           k->g + first * c, k->ca + first * wide, k->cf + first, first + 1, reads,
                           io->q + token * io->ldq, io->ldq, o, (size_t)p->d.value_dim, 0);
    follows = reads && p->follows;
    if (p->channel) {
      MIRAS__FN(channel_advance)(p, k, 0, follows ? first + 1 + (reads - 1) * steps : 0, m);
      memset(k->balpha, 0, m * wide * sizeof(float));
      memset(k->beta, 0, m * wide * sizeof(float));
      memset(k->blive_y, 0, m * (size_t)p->in[0] * sizeof(float));
      memset(k->blive_d, 0, m * wide * sizeof(float));
    }
    /* cotangents of everything inside the chunk start at zero */
    for (l = 0; l < p->layers; l++) {
      memset(k->by[l], 0, m * (size_t)p->in[l] * sizeof(float));
      memset(k->bd[l], 0, m * (size_t)p->out[l] * sizeof(float));
    }
    memset(k->bg, 0, m * c * sizeof(float));
    memset(k->bn, 0, m * c * sizeof(float));
    memset(k->ba, 0, m * wide * sizeof(float));
    memset(k->bf, 0, m * sizeof(float));
    memset(k->bh, 0, m * sizeof(float));
    if (closing || (settles && !p->linked)) {    /* the closing read goes through W_C */
      if (momentum) memcpy(k->bw, s, size * sizeof(float));
      MIRAS__FN(settle_sum)(p, k, lag, k->ac, a, momentum ? k->bw : NULL, y, d, m - 1);
      MIRAS__FN(settle_map)(p, k, lag, k->wc, k->ac, a, k->g + (m - 1) * c, m - 1, inv_c);
      memset(k->bwc, 0, size * sizeof(float));
      if (closing) {
        const float *q = io->q + end * io->ldq;
        MIRAS__FN(read_rows)(p, k, k->wc, NULL, gain, bias, y, d, 0, NULL, NULL, NULL, 1, 1, q,
                             io->ldq, o, (size_t)p->d.value_dim, m - 1);
        MIRAS__FN(read_rows_bwd)(p, k, k->wc, NULL, gain, 0, 0, 1, q, io->ldq, dy + end * lddy,
                                 lddy, g->q ? g->q + end * g->ldq : NULL, g->ldq, k->bwc, NULL,
                                 dgain, dbias, binv, m - 1);
      }
      MIRAS__FN(settle_map_bwd)(p, k, lag, ca, k->bwc, k->ac, k->wc, a, m - 1, dw0);
    }
    /* The fold comes first: it turns ca, cs into what A_0 and S_0 receive, and reads add to that.
     * Through a link the weights of reads and anchor collect in bw and pass the link's adjoint. */
    if (lag) {
      MIRAS__FN(log_weights)(k->ac, a, size);
      MIRAS__FN(close_chunk_bwd)(p, k, k->ac, NULL, ca, NULL, 1);
      MIRAS__FN(log_weights_bwd)(ca, a, size);
    } else if (closes && miras__divergence(p->d.retention)) {
      memset(k->ac, 0, size * sizeof(float));    /* the sum starts from nothing */
      MIRAS__FN(close_chunk_bwd)(p, k, k->ac, NULL, k->bwc, NULL, m);
    } else if (closes) {
      MIRAS__FN(close_chunk_bwd)(p, k, a, s, ca, cs, m);
    }
    bw = ca;
    if (p->linked) {
      bw = k->bw;
      memset(bw, 0, size * sizeof(float));
    }
    MIRAS__FN(read_rows_bwd)(p, k, MIRAS__READS(p, a, w), s, gain, p->follows, first, reads,
                             io->q + token * io->ldq, io->ldq, dy + token * lddy, lddy,
                             g->q ? g->q + token * g->ldq : NULL, g->ldq, MIRAS__READS(p, ca, bw),
                             cs, dgain, dbias, binv, 0);
    if (p->channel) {
      if (!follows) {                            /* only the fold has used the rows */
        MIRAS__FN(channel_rows_bwd)(p, k, 0, 0, NULL, NULL, NULL, k->blive_d,
                                    k->bd[p->layers - 1]);
        if (p->layers > 1)
          MIRAS__FN(channel_rows_bwd)(p, k, 1, 0, NULL, NULL, NULL, k->blive_y, k->by[0]);
      }
      MIRAS__FN(channel_decay_bwd)(k->balpha, wide, k->ba, k->ca, k->alpha, wide, m, wide);
    } else {
      MIRAS__FN(coefficients_bwd)(p, k, io, t, m, g);
    }
    MIRAS__FN(pair_gates_bwd)(p, k, t, lag, w, m, g, bw, binv);
    MIRAS__FN(anchor_bwd)(p, k, w, gain, io, t, m, g, bw, dgain, dbias);
    if (p->linked)
      MIRAS__FN(link_bwd)(p, ca, bw, a, w, binv, k->b, dw0, k->metric,
                          p->d.bounded_step ? k->bmetric : NULL);
  }
  if (p->holds)                                  /* W_B is a map of its logits */
    for (l = 0; l < p->layers; l++)
      MIRAS__FN(simplex_bwd)(p, l, dw0 + p->offset[l], k->bwb + p->offset[l],
                             k->again + p->offset[l]);
  if (position == 0) {
    if (p->mapped && !p->linked && chunks)
      MIRAS__FN(link_bwd)(p, dw0, ca, NULL, tape, NULL, NULL, NULL, NULL, NULL);
    else MIRAS__FN(add)(dw0, ca, size);
    if (dstate) memset(dstate, 0, (momentum ? 2 : 1) * size * sizeof *dstate);
  } else if (dstate) {
    memcpy(dstate, ca, size * sizeof *dstate);
    if (momentum) memcpy(dstate + size, cs, size * sizeof *dstate);
  }
}

/* One read between tokens. */
static void MIRAS__FN(frozen_read)(const miras__plan *p, const float *w0, const float *gain,
                                   const float *bias, float *state, uint64_t position,
                                   const float *q, float *o, float *scratch) {
  miras__work work, *k = &work;
  MIRAS__FN(parts) v;
  const float *y[4], *d[4];
  size_t r = (size_t)(position % (uint64_t)p->d.chunk) * (size_t)p->d.steps;
  int l;
  miras__work_layout(p, scratch, 0, k);
  MIRAS__FN(open_state)(p, state, &v);
  if (position == 0) MIRAS__FN(begin)(p, &v, w0);
  MIRAS__FN(load_inv)(p, k, v.scalars + 4);
  MIRAS__FN(lead)(p, k, w0, v.home);
  for (l = 0; l < p->layers; l++) {
    y[l] = v.y[l];
    d[l] = v.d[l];
  }
  MIRAS__FN(read_rows)(p, k, r ? MIRAS__READS(p, v.a, v.w) : v.w, v.s, gain, bias, y, d,
                       r && p->follows, v.g, v.ca, v.scalars + 1, r, 1, q,
                       (size_t)p->d.key_dim, o, (size_t)p->d.value_dim, 0);
}

/* @53 MESA ENGINE ----------------------------------------------------- needs 14 22 23 25 26 -- */

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
 * The solutions of all tokens of a chunk are found together by conjugate gradients, each row by its
 * own chain of operations: how many rows run side by side, and when the others stop, changes no
 * bit. A row stops when |r|^2 <= tolerance |q|^2. No guard is added to the quotients: r = 0 stops
 * first, and the usual 1e-5 would stall the solve long before that. */

/* Rows of coefficients for tokens t..t+m-1, r0.. of the chunk, into rows 1.. of k->n, k->b; row 0
 * is the one before: its r0 coefficients `before` and B `scale`. */
static void MIRAS__FN(newton_rows)(const miras__plan *p, miras__newton_work *k,
                                   const miras__head_io *io, size_t t, size_t r0, size_t m,
                                   const float *before, float scale) {
  size_t c = (size_t)p->d.chunk, i;
  if (r0) memcpy(k->n, before, r0 * sizeof *k->n);
  k->b[0] = r0 ? scale : 1;
  for (i = 0; i < m; i++) {
    float alpha = io->keep[(t + i) * io->ld_keep], *n = k->n + (i + 1) * c, b = alpha * k->b[i];
    MIRAS__FN(scale)(n, alpha, n - c, r0 + i);
    if (!(b >= MIRAS__FADED)) {                    /* as in room @50 */
      MIRAS__FN(flush)(n, n, r0 + i);
      MIRAS__FN(flush)(&b, &b, 1);
    }
    n[r0 + i] = io->step[(t + i) * io->ld_step];
    k->b[i + 1] = b;
  }
}

/* k->kt = the transpose of `rows` keys [rows, n]. */
static void MIRAS__FN(newton_transpose)(const miras__plan *p, miras__newton_work *k,
                                        const float *keys, size_t rows) {
  size_t c = (size_t)p->d.chunk, n = (size_t)p->in[0], i, j;
  for (j = 0; j < rows; j++)
    for (i = 0; i < n; i++) k->kt[i * c + j] = keys[j * n + i];
}

/* x [m, n] = (H_i + Lambda)^-1 phi(q_i), where H_i has coefficients b[i] and row i of cn [m, C] and
 * sees the first n0 + i keys. h NULL: zeros. phi: a miras_feature of q's width. */
static void MIRAS__FN(newton_solve)(const miras__plan *p, miras__newton_work *k, const float *h,
                                    const float *keys, const float *cn, const float *b, size_t n0,
                                    size_t m, int phi, const float *q, size_t ldq, float *x) {
  size_t c = (size_t)p->d.chunk, n = (size_t)p->in[0], from = 0, to = m, i, count;
  size_t wide = phi == MIRAS_FEATURE_IDENTITY ? n : (size_t)p->d.key_dim;
  int step;
  for (i = 0; i < m; i++) {
    float *r = k->r + i * n, size;
    MIRAS__FN(feature_fwd)(phi, r, q + i * ldq, wide);
    memcpy(k->s + i * n, r, n * sizeof *r);
    memset(x + i * n, 0, n * sizeof *x);
    size = MIRAS__FN(dot)(r, r, n);
    k->limit[i] = p->d.tolerance * size;
    k->rr[i] = size <= 0 ? -1 : size;              /* NaN goes on, once, to spoil its own row */
  }
  for (step = 0; step < p->d.iterations; step++) {
    float *s, *u, *w;
    while (from < to && k->rr[from] < 0) from++;
    while (from < to && k->rr[to - 1] < 0) to--;
    if (from == to) break;
    s = k->s + from * n;
    u = k->u + from * n;
    w = k->w + from * c;
    count = n0 + to - 1;
    if (h) MIRAS__FN(gemm)(MIRAS__SET, u, n, s, n, 1, h, n, 1, to - from, n, n, -1, k->pack);
    else memset(u, 0, (to - from) * n * sizeof *u);
    for (i = from; i < to; i++) MIRAS__FN(scale)(k->u + i * n, b[i], k->u + i * n, n);
    if (count) {
      MIRAS__FN(gemm)(MIRAS__SET, w, c, s, n, 1, k->kt, c, 1, to - from, count, n, -1, k->pack);
      for (i = from; i < to; i++)
        MIRAS__FN(mul)(k->w + i * c, cn + i * c, k->w + i * c, n0 + i);
      MIRAS__FN(gemm)(MIRAS__ADD, u, n, w, c, 1, keys, n, 1, to - from, n, count,
                      (ptrdiff_t)(n0 + from) - 1, k->pack);
    }
    for (i = from; i < to; i++) {
      float *si = k->s + i * n, *ui = k->u + i * n, *ri = k->r + i * n, along, length, next;
      if (k->rr[i] < 0) continue;
      MIRAS__FN(muladd)(ui, k->lambda, si, n);
      along = MIRAS__FN(dot)(si, ui, n);
      if (along <= 0) {                            /* only when the squares have vanished */
        k->rr[i] = -1;
        continue;
      }
      length = k->rr[i] / along;
      MIRAS__FN(axpy)(x + i * n, length, si, n);
      MIRAS__FN(axpy)(ri, -length, ui, n);
      next = MIRAS__FN(dot)(ri, ri, n);
      if (next > k->limit[i]) {
        MIRAS__FN(scale)(si, next / k->rr[i], si, n);
        MIRAS__FN(add)(si, ri, n);
        k->rr[i] = next;
      } else {
        k->rr[i] = -1;
      }
    }
  }
}

/* y [m, dv] = G_i' x_i with the letters of newton_solve. */
static void MIRAS__FN(newton_answer)(const miras__plan *p, miras__newton_work *k, const float *g,
                                     const float *values, const float *cn, const float *b,
                                     size_t n0, size_t m, const float *x, float *y, size_t ldy) {
  size_t c = (size_t)p->d.chunk, n = (size_t)p->in[0], dv = (size_t)p->d.value_dim, i;
  size_t count = n0 + m - 1;
  MIRAS__FN(gemm)(MIRAS__SET, y, ldy, x, n, 1, g, dv, 1, m, dv, n, -1, k->pack);
  for (i = 0; i < m; i++) MIRAS__FN(scale)(y + i * ldy, b[i], y + i * ldy, dv);
  if (!count) return;
  MIRAS__FN(gemm)(MIRAS__SET, k->w, c, x, n, 1, k->kt, c, 1, m, count, n, -1, k->pack);
  for (i = 0; i < m; i++) MIRAS__FN(mul)(k->w + i * c, cn + i * c, k->w + i * c, n0 + i);
  MIRAS__FN(gemm)(MIRAS__ADD, y, ldy, k->w, c, 1, values, dv, 1, m, dv, count, (ptrdiff_t)n0 - 1,
                  k->pack);
}

static void MIRAS__FN(newton_forward)(const miras__plan *p, const float *w0, const float *raw,
                                      float *state, uint64_t position, const miras__head_io *io,
                                      float *tape, float *scratch) {
  miras__newton_work work, *k = &work;
  size_t c = (size_t)p->d.chunk, n = (size_t)p->in[0], dv = (size_t)p->d.value_dim;
  size_t dk = (size_t)p->d.key_dim, t = 0, length = (size_t)io->length, i;
  int phi = p->map;
  float *h = state, *g = state + p->at_w, *keys = state + p->at_y[0], *values = state + p->at_d[0];
  float *open = state + p->at_n, *scale = state + p->at_scalars;
  miras__newton_layout(p, scratch, 0, k);
  MIRAS__FN(map_softplus)(k->lambda, raw, n);
  if (position == 0 && length) {
    memset(h, 0, n * n * sizeof *h);
    memcpy(g, w0, p->weights * sizeof *g);
  }
  while (t < length) {
    size_t r0 = (size_t)((position + t) % c), m = c - r0;
    float *kept = NULL, *x = k->x;
    if (m > length - t) m = length - t;
    if (tape) {
      kept = tape + t / c * p->tape_chunk;
      memcpy(kept, h, n * n * sizeof *kept);
      memcpy(kept + n * n, g, p->weights * sizeof *kept);
      x = kept + n * n + p->weights;
    }
    for (i = 0; i < m; i++) {
      MIRAS__FN(feature_fwd)(phi, keys + (r0 + i) * n, io->k + (t + i) * io->ldk, dk);
      memcpy(values + (r0 + i) * dv, io->v + (t + i) * io->ldv, dv * sizeof *values);
    }
    MIRAS__FN(newton_rows)(p, k, io, t, r0, m, open, scale[0]);
    MIRAS__FN(newton_transpose)(p, k, keys, r0 + m);
    if (io->surprise)                              /* 1/2 |v - M(k)|^2 before each write */
      for (i = 0; i < m; i++) {
        const float *cn = k->n + i * c, *b = k->b + i;
        MIRAS__FN(newton_solve)(p, k, h, keys, cn, b, r0 + i, 1, MIRAS_FEATURE_IDENTITY,
                                keys + (r0 + i) * n, n, k->x);
        MIRAS__FN(newton_answer)(p, k, g, values, cn, b, r0 + i, 1, k->x, k->row, dv);
        MIRAS__FN(axpy)(k->row, -1, values + (r0 + i) * dv, dv);
        io->surprise[t + i] = 0.5f * MIRAS__FN(dot)(k->row, k->row, dv);
      }
    if (io->q) {
      MIRAS__FN(newton_solve)(p, k, h, keys, k->n + c, k->b + 1, r0 + 1, m, phi,
                              io->q + t * io->ldq, io->ldq, x);
      MIRAS__FN(newton_answer)(p, k, g, values, k->n + c, k->b + 1, r0 + 1, m, x,
                               io->y + t * io->ldy, io->ldy);
    }
    if (r0 + m == c) {
      for (i = 0; i < c; i++)
        MIRAS__FN(scale)(k->u + i * n, k->n[m * c + i], keys + i * n, n);
      MIRAS__FN(scale)(h, k->b[m], h, n * n);
      MIRAS__FN(scale)(g, k->b[m], g, p->weights);
      MIRAS__FN(gemm)(MIRAS__ADD, h, n, k->u, 1, n, keys, n, 1, n, n, c, -1, k->pack);
      MIRAS__FN(gemm)(MIRAS__ADD, g, dv, k->u, 1, n, values, dv, 1, n, dv, c, -1, k->pack);
      if (miras__sweeps(&p->d, position + (uint64_t)(t + m))) {
        MIRAS__FN(flush)(h, h, n * n);
        MIRAS__FN(flush)(g, g, p->weights);
      }
      /* nothing of a closed chunk stays behind: how calls were cut must not show in the state */
      memset(open, 0, c * sizeof *open);
      scale[0] = 0;
    } else {
      memcpy(open, k->n + m * c, (r0 + m) * sizeof *open);
      scale[0] = k->b[m];
    }
    t += m;
  }
}

/* One read between tokens. */
static void MIRAS__FN(newton_read)(const miras__plan *p, const float *w0, const float *raw,
                                   float *state, uint64_t position, const float *q, float *o,
                                   float *scratch) {
  miras__newton_work work, *k = &work;
  size_t n = (size_t)p->in[0], r = (size_t)(position % (uint64_t)p->d.chunk);
  const float *g = position ? state + p->at_w : w0, *keys = state + p->at_y[0];
  const float *open = state + p->at_n;
  float b = r ? state[p->at_scalars] : 1;
  miras__newton_layout(p, scratch, 0, k);
  MIRAS__FN(map_softplus)(k->lambda, raw, n);
  MIRAS__FN(newton_transpose)(p, k, keys, r);
  MIRAS__FN(newton_solve)(p, k, position ? state : NULL, keys, open, &b, r, 1, p->map, q, n, k->x);
  MIRAS__FN(newton_answer)(p, k, g, state + p->at_d[0], open, &b, r, 1, k->x, o,
                           (size_t)p->d.value_dim);
}

/* Adjoint, chunk by chunk from the last; bo the cotangents of y, a leading b those of the rest.
 *   bx_t = G_t bo_t                z_t = (H_t + Lambda)^-1 bx_t, solved like x     bq_t = z_t
 *   blambda = -sum_t z_t (.) x_t   bG_t = x_t bo_t'     bH_t = -(z_t x_t' + x_t z_t')/2
 * This is the derivative of the exact solution; that of the truncated one differs by the residual,
 * which is why both solves stop at the same tolerance. H is symmetric, and its adjoint is kept so.
 * Through the sums of the chunk, all j <= t:
 *   bN_tj = (k_j.x_t) (v_j.bo_t - k_j.z_t)     bB_t = x_t.(G_0 bo_t) - x_t.(H_0 z_t)
 *   bk_j = sum_t N_tj ((v_j.bo_t - k_j.z_t) x_t - (k_j.x_t) z_t)
 *   bv_j = sum_t N_tj (k_j.x_t) bo_t
 *   bG_0 = sum_t B_t x_t bo_t'                 bH_0 = -sum_t B_t (z_t x_t' + x_t z_t')/2
 * and from the cotangents bH, bG of the state that a full chunk leaves, N, B being its last row's,
 *   bk_j += N_j (2 bH k_j + bG v_j)   bv_j += N_j bG' k_j   bN_j += k_j.(bH k_j) + k_j.(bG v_j)
 *   bB += <bH, H_0> + <bG, G_0>       bH_0 += B bH           bG_0 += B bG
 * Coefficients, from the last token to the first:
 *   balpha_t = B_(t-1) bB_t + sum_(j<t) N_(t-1)j bN_tj       beta_t = bN_tt
 *   and alpha_t times the cotangents of row t go to row t-1. */
static void MIRAS__FN(newton_backward)(const miras__plan *p, const float *raw, const float *tape,
                                       uint64_t position, const miras__head_io *io,
                                       const float *dy, size_t lddy, const miras__head_grads *out,
                                       float *dw0, float *draw, float *dstate, float *scratch) {
  miras__newton_work work, *k = &work;
  size_t c = (size_t)p->d.chunk, n = (size_t)p->in[0], dv = (size_t)p->d.value_dim;
  size_t length = (size_t)io->length, square = n * n, chunk = length / c + (length % c != 0), i, j;
  size_t dk = (size_t)p->d.key_dim;
  int phi = p->map;
  const float *cn, *cb;
  miras__newton_layout(p, scratch, 1, k);
  MIRAS__FN(map_softplus)(k->lambda, raw, n);
  memset(k->blambda, 0, n * sizeof(float));
  memset(k->bh, 0, square * sizeof(float));
  memset(k->bg, 0, p->weights * sizeof(float));
  if (dstate) {
    for (i = 0; i < n; i++)
      for (j = 0; j < n; j++) k->bh[i * n + j] = 0.5f * (dstate[i * n + j] + dstate[j * n + i]);
    memcpy(k->bg, dstate + square, p->weights * sizeof(float));
  }
  cn = k->n + c;                                   /* the rows of the chunk's own tokens */
  cb = k->b + 1;
  while (chunk-- > 0) {
    size_t t = chunk * c, m = length - t < c ? length - t : c;
    const float *h = tape + chunk * p->tape_chunk, *g = h + square, *x = g + p->weights;
    const float *bo = dy + t * lddy;
    for (i = 0; i < m; i++) {
      MIRAS__FN(feature_fwd)(phi, k->k + i * n, io->k + (t + i) * io->ldk, dk);
      memcpy(k->v + i * dv, io->v + (t + i) * io->ldv, dv * sizeof(float));
    }
    MIRAS__FN(newton_rows)(p, k, io, t, 0, m, NULL, 1);
    MIRAS__FN(newton_transpose)(p, k, k->k, m);
    memset(k->bn, 0, m * c * sizeof(float));
    memset(k->bb, 0, m * sizeof(float));
    memset(k->bk, 0, m * n * sizeof(float));
    memset(k->bv, 0, m * dv * sizeof(float));
    if (m == c) {                                  /* the state that the chunk leaves */
      const float *last = cn + (m - 1) * c;
      float *bn = k->bn + (m - 1) * c;
      MIRAS__FN(gemm)(MIRAS__SET, k->u, n, k->k, n, 1, k->bh, n, 1, m, n, n, -1, k->pack);
      MIRAS__FN(gemm)(MIRAS__SET, k->s, n, k->v, dv, 1, k->bg, 1, dv, m, n, dv, -1, k->pack);
      MIRAS__FN(gemm)(MIRAS__SET, k->bv, dv, k->k, n, 1, k->bg, dv, 1, m, dv, n, -1, k->pack);
      for (i = 0; i < m; i++) {
        float *u = k->u + i * n, *s = k->s + i * n;
        MIRAS__FN(add)(s, u, n);
        bn[i] = MIRAS__FN(dot)(k->k + i * n, s, n);
        MIRAS__FN(add)(s, u, n);
        MIRAS__FN(scale)(k->bk + i * n, last[i], s, n);
        MIRAS__FN(scale)(k->bv + i * dv, last[i], k->bv + i * dv, dv);
      }
      k->bb[m - 1] = MIRAS__FN(dot)(k->bh, h, square) + MIRAS__FN(dot)(k->bg, g, p->weights);
      MIRAS__FN(scale)(k->bh, cb[m - 1], k->bh, square);
      MIRAS__FN(scale)(k->bg, cb[m - 1], k->bg, p->weights);
    }
    /* bx, z */
    MIRAS__FN(gemm)(MIRAS__SET, k->vo, c, bo, lddy, 1, k->v, 1, dv, m, m, dv, -1, k->pack);
    MIRAS__FN(gemm)(MIRAS__SET, k->t, n, bo, lddy, 1, g, 1, dv, m, n, dv, -1, k->pack);
    for (i = 0; i < m; i++) {
      k->bb[i] += MIRAS__FN(dot)(x + i * n, k->t + i * n, n);
      MIRAS__FN(scale)(k->t + i * n, cb[i], k->t + i * n, n);
      MIRAS__FN(mul)(k->w + i * c, cn + i * c, k->vo + i * c, i + 1);
    }
    MIRAS__FN(gemm)(MIRAS__ADD, k->t, n, k->w, c, 1, k->k, n, 1, m, n, m, 0, k->pack);
    MIRAS__FN(newton_solve)(p, k, h, k->k, cn, cb, 1, m, MIRAS_FEATURE_IDENTITY, k->t, n, k->z);
    /* everything else */
    MIRAS__FN(gemm)(MIRAS__SET, k->xk, c, x, n, 1, k->kt, c, 1, m, m, n, -1, k->pack);
    MIRAS__FN(gemm)(MIRAS__SET, k->zk, c, k->z, n, 1, k->kt, c, 1, m, m, n, -1, k->pack);
    MIRAS__FN(gemm)(MIRAS__SET, k->t, n, k->z, n, 1, h, n, 1, m, n, n, -1, k->pack);
    for (i = 0; i < m; i++) {
      const float *row = cn + i * c;
      float *xk = k->xk + i * c, *zk = k->zk + i * c, *vo = k->vo + i * c, *bn = k->bn + i * c;
      k->bb[i] -= MIRAS__FN(dot)(x + i * n, k->t + i * n, n);
      for (j = 0; j <= i; j++) {
        float b = vo[j] - zk[j];
        bn[j] += xk[j] * b;
        vo[j] = row[j] * b;                        /* of x_t in bk_j */
        xk[j] *= row[j];
      }
      for (; j < m; j++) vo[j] = xk[j] = 0;
      for (j = 0; j < n; j++) k->blambda[j] -= k->z[i * n + j] * x[i * n + j];
      if (out->q) {
        const float *q = io->q + (t + i) * io->ldq;
        MIRAS__FN(feature_fwd)(phi, k->u, q, dk);
        MIRAS__FN(feature_bwd)(phi, out->q + (t + i) * out->ldq, k->z + i * n, q, k->u, dk);
      }
    }
    MIRAS__FN(gemm)(MIRAS__ADD, k->bk, n, k->vo, 1, c, x, n, 1, m, n, m, -1, k->pack);
    MIRAS__FN(gemm)(MIRAS__SUB, k->bk, n, k->xk, 1, c, k->z, n, 1, m, n, m, -1, k->pack);
    MIRAS__FN(gemm)(MIRAS__ADD, k->bv, dv, k->xk, 1, c, bo, lddy, 1, m, dv, m, -1, k->pack);
    for (i = 0; i < m; i++) {
      if (out->k)
        MIRAS__FN(feature_bwd)(phi, out->k + (t + i) * out->ldk, k->bk + i * n,
                               io->k + (t + i) * io->ldk, k->k + i * n, dk);
      if (out->v) memcpy(out->v + (t + i) * out->ldv, k->bv + i * dv, dv * sizeof(float));
      MIRAS__FN(scale)(k->u + i * n, cb[i], x + i * n, n);
      MIRAS__FN(scale)(k->o + i * dv, cb[i], bo + i * lddy, dv);
    }
    MIRAS__FN(gemm)(MIRAS__ADD, k->bg, dv, x, 1, n, k->o, dv, 1, n, dv, m, -1, k->pack);
    MIRAS__FN(gemm)(MIRAS__SET, k->square, n, k->z, 1, n, k->u, n, 1, n, n, m, -1, k->pack);
    for (i = 0; i < n; i++)
      for (j = 0; j < n; j++)
        k->bh[i * n + j] -= 0.5f * (k->square[i * n + j] + k->square[j * n + i]);
    /* gates */
    for (i = m; i-- > 0;) {
      float *bn = k->bn + i * c, alpha = io->keep[(t + i) * io->ld_keep], dalpha;
      dalpha = k->b[i] * k->bb[i];
      if (i) dalpha += MIRAS__FN(dot)(k->n + i * c, bn, i);
      if (out->keep) out->keep[(t + i) * out->ld_keep] = dalpha;
      if (out->step) out->step[(t + i) * out->ld_step] = bn[i];
      if (!i) continue;
      MIRAS__FN(axpy)(bn - c, alpha, bn, i);
      k->bb[i - 1] += alpha * k->bb[i];
    }
  }
  MIRAS__FN(map_sigmoid)(k->u, raw, n);
  MIRAS__FN(muladd)(draw, k->blambda, k->u, n);
  if (position == 0) {
    MIRAS__FN(add)(dw0, k->bg, p->weights);
    if (dstate) memset(dstate, 0, p->head_dstate * sizeof *dstate);
  } else if (dstate) {
    memcpy(dstate, k->bh, square * sizeof *dstate);
    memcpy(dstate + square, k->bg, p->weights * sizeof *dstate);
  }
}

/* @54 ATTENTION ENGINE --------------------------------------------------- needs 14 22 23 25 -- */

/* The nonparametric memory: the last `window` pairs themselves (w of them), and an answer that
 * minimises sum_i s_i 1/2 |v_i - y|^2 over y, which is softmax attention (Nadaraya and Watson):
 *   y_t = sum_i s_i v_i / sum_i s_i     s_i = exp(k_i . q_t / sqrt(dk))     t - w < i <= t
 * Pairs are taken in by blocks that lie on a grid counted from the start of the sequence, with the
 * running maximum of the scores and the running sum of weights (Milakov 2018, Dao 2022). So what a
 * token reads is one chain of operations over its own pairs, whether it came alone or among others.
 *
 * Scores are held transposed, S' = K Q' [pairs, queries]: then neither product repacks K or V, the
 * softmax runs across queries without a horizontal step, and a single query costs no more than its
 * reads of memory. Pairs outside a query's window are left out of its sums, not multiplied by 0. */

/* C [M, N] += A B over those k in 0..K-1 with lo <= k - i < hi: a band of A [M, K]. Each element
 * adds in the order of k, strips of rows are only a schedule. */
static void MIRAS__FN(band)(float *C, size_t ldc, const float *A, size_t ars, size_t acs,
                            const float *B, size_t brs, size_t M, size_t N, size_t K, ptrdiff_t lo,
                            ptrdiff_t hi, float *pack) {
  ptrdiff_t rows = (ptrdiff_t)M, depth = (ptrdiff_t)K, i, m, r;
  if (lo + rows - 1 <= 0) {
    i = hi < 1 ? 1 - hi : 0;                       /* rows before have nothing */
    if (i < rows)
      MIRAS__FN(gemm)(MIRAS__ADD, C + (size_t)i * ldc, ldc, A + (size_t)i * ars, ars, acs, B, brs,
                      1, M - (size_t)i, N, K, hi >= depth ? -1 : hi - 1 + i, pack);
    return;
  }
  for (i = 0; i < rows; i += m) {
    ptrdiff_t from, to, part;
    m = rows - i < 8 ? rows - i : 8;
    from = i + m - 1 + lo > 0 ? i + m - 1 + lo : 0;     /* from..to is common to the strip */
    to = i + hi < depth ? i + hi : depth;
    if (from > to) from = to = depth;                   /* nothing is: all of it is before */
    for (part = 0; part < 3; part++) {
      if (part == 1) {
        if (from < to)
          MIRAS__FN(gemm)(MIRAS__ADD, C + (size_t)i * ldc, ldc,
                          A + (size_t)i * ars + (size_t)from * acs, ars, acs,
                          B + (size_t)from * brs, brs, 1, (size_t)m, N, (size_t)(to - from), -1,
                          pack);
        continue;
      }
      for (r = i; r < i + m; r++) {
        ptrdiff_t a = r + lo > 0 ? r + lo : 0, b = r + hi < depth ? r + hi : depth;
        if (part == 0 && b > from) b = from;
        if (part == 2 && a < to) a = to;
        if (a < b)
          MIRAS__FN(gemm)(MIRAS__ADD, C + (size_t)r * ldc, ldc,
                          A + (size_t)r * ars + (size_t)a * acs, ars, acs, B + (size_t)a * brs,
                          brs, 1, 1, N, (size_t)(b - a), -1, pack);
      }
    }
  }
}

/* The pairs of one head: of the call's tokens from 0 on, and before them those of the ring. */
typedef struct MIRAS__FN(held) {
  const float *ring_k, *ring_v, *k, *v;
  size_t ldk, ldv, dk, dv, window;
  uint64_t position;
} MIRAS__FN(held);

static void MIRAS__FN(hold)(const miras__plan *p, MIRAS__FN(held) *h, const float *ring_k,
                            const float *ring_v, uint64_t position, const miras__head_io *io) {
  h->ring_k = ring_k;
  h->ring_v = ring_v;
  h->k = io ? io->k : NULL;
  h->v = io ? io->v : NULL;
  h->ldk = io ? io->ldk : 0;
  h->ldv = io ? io->ldv : 0;
  h->dk = (size_t)p->d.key_dim;
  h->dv = (size_t)p->d.value_dim;
  h->window = (size_t)p->d.window;
  h->position = position;
}

/* Row of the ring that token j < 0 lies in. */
static size_t MIRAS__FN(slot)(const MIRAS__FN(held) *h, ptrdiff_t j) {
  return (size_t)((h->position - (uint64_t)-j) % h->window);
}

/* How many of the pairs j.. (at most count) lie together; where, and how far apart. */
static size_t MIRAS__FN(together)(const MIRAS__FN(held) *h, ptrdiff_t j, size_t count,
                                  const float **k, size_t *ldk, const float **v, size_t *ldv) {
  size_t row, most;
  if (j >= 0) {
    *k = h->k + (size_t)j * h->ldk;
    *v = h->v + (size_t)j * h->ldv;
    *ldk = h->ldk;
    *ldv = h->ldv;
    return count;
  }
  row = MIRAS__FN(slot)(h, j);
  *k = h->ring_k + row * h->dk;
  *v = h->ring_v + row * h->dv;
  *ldk = h->dk;
  *ldv = h->dv;
  most = h->window - row < (size_t)-j ? h->window - row : (size_t)-j;
  return count < most ? count : most;
}

/* Pairs j..j+count-1, copied to spare_k, spare_v [KEYS, ...] where they do not lie together. */
static void MIRAS__FN(fetch)(const MIRAS__FN(held) *h, ptrdiff_t j, size_t count, float *spare_k,
                             float *spare_v, const float **k, size_t *ldk, const float **v,
                             size_t *ldv) {
  size_t done = MIRAS__FN(together)(h, j, count, k, ldk, v, ldv), at = 0, i;
  if (done == count) return;
  for (;;) {
    for (i = 0; i < done; i++) {
      memcpy(spare_k + (at + i) * h->dk, *k + i * *ldk, h->dk * sizeof(float));
      memcpy(spare_v + (at + i) * h->dv, *v + i * *ldv, h->dv * sizeof(float));
    }
    at += done;
    if (at == count) break;
    done = MIRAS__FN(together)(h, j + (ptrdiff_t)at, count - at, k, ldk, v, ldv);
  }
  *k = spare_k;
  *v = spare_v;
  *ldk = h->dk;
  *ldv = h->dv;
}

/* The first pair of the sequence or of a window that starts at j, whichever is later. */
static ptrdiff_t MIRAS__FN(oldest)(const MIRAS__FN(held) *h, ptrdiff_t j) {
  return j < 0 && (uint64_t)-j > h->position ? -(ptrdiff_t)h->position : j;
}

/* One past the last pair of j's block on the grid. */
static ptrdiff_t MIRAS__FN(block_end)(const MIRAS__FN(held) *h, ptrdiff_t j) {
  uint64_t at = j < 0 ? h->position - (uint64_t)-j : h->position + (uint64_t)j;
  return j + MIRAS__KEYS - (ptrdiff_t)(at % MIRAS__KEYS);
}

/* y [n, ld] = the transpose of x [rows, ldx], scaled, rows of y `rows` apart. */
static void MIRAS__FN(flip)(float *y, const float *x, size_t ldx, size_t rows, size_t n,
                            float factor) {
  size_t i, j;
  for (i = 0; i < rows; i++)
    for (j = 0; j < n; j++) y[j * rows + i] = factor * x[i * ldx + j];
}

/* Take in a block of scores s [count, m], a column per query: the new maximum, what is left of the
 * old sums (fade), the weights in place of the scores, the new sums of weights. A query whose
 * scores were all -infinity so far keeps sums of 0. */
static void MIRAS__FN(take_in)(float *s, float *top, float *sum, float *fade, size_t count,
                               size_t m) {
  const vf low = V_SET1(-FLT_MAX);
  size_t i, j;
  for (i = 0; i < m; i += V_W) {
    vf old = V_LOAD_N(top + i, m - i), most = old, base, left, total;
    for (j = 0; j < count; j++) most = V_MAX(V_LOAD_N(s + j * m + i, m - i), most);
    base = V_SELECT(V_LT(most, low), V_ZERO(), most);
    left = MIRAS__FN(v_exp)(V_SUB(old, base));
    total = V_MUL(V_LOAD_N(sum + i, m - i), left);
    for (j = 0; j < count; j++) {
      vf e = MIRAS__FN(v_exp)(V_SUB(V_LOAD_N(s + j * m + i, m - i), base));
      total = V_ADD(total, e);
      V_STORE_N(s + j * m + i, e, m - i);
    }
    V_STORE_N(top + i, most, m - i);
    V_STORE_N(fade + i, left, m - i);
    V_STORE_N(sum + i, total, m - i);
  }
}

/* The same for a single query, the same operations with vectors of pairs: 0.4 us per 1024 scores
 * instead of 25. */
static void MIRAS__FN(take_in_one)(float *s, float *top, float *sum, float *fade, size_t count) {
  float most = *top, total = *sum, base;
  size_t j;
  for (j = 0; j < count; j++) most = s[j] > most ? s[j] : most;
  base = most < -FLT_MAX ? 0 : most;
  V_STORE_N(fade, MIRAS__FN(v_exp)(V_SET1(*top - base)), 1);
  total *= *fade;
  for (j = 0; j < count; j += V_W) {
    vf e = MIRAS__FN(v_exp)(V_SUB(V_LOAD_N(s + j, count - j), V_SET1(base)));
    V_STORE_N(s + j, e, count - j);
  }
  for (j = 0; j < count; j++) total += s[j];
  *top = most;
  *sum = total;
}

/* Answers k->o [m, dv] to queries q, those of tokens t.. delayed by `delay`: query i reads pairs
 * t + i - delay - w < j <= t + i - delay. Leaves the base of the scores in k->top and 1 / sum in
 * k->sum. */
static void MIRAS__FN(pairs_attend)(const MIRAS__FN(held) *h, miras__pairs_work *k,
                                    const float *q, size_t ldq, ptrdiff_t t, size_t m,
                                    ptrdiff_t delay) {
  size_t dk = h->dk, dv = h->dv, i, x;
  ptrdiff_t w = (ptrdiff_t)h->window, rows = (ptrdiff_t)m, last = t + rows - delay, j, end;
  MIRAS__FN(flip)(k->qt, q, ldq, m, dk, 1 / sqrtf((float)dk));
  MIRAS__FN(fill)(k->top, -HUGE_VALF, m);
  memset(k->sum, 0, m * sizeof *k->sum);
  memset(k->o, 0, m * dv * sizeof *k->o);
  for (j = MIRAS__FN(oldest)(h, t - delay - w + 1); j < last; j = end) {
    ptrdiff_t hi = t - delay - j + 1, lo = hi - w, at;   /* query i reads i + lo <= at < i + hi */
    size_t count, ldk, ldv;
    const float *keys, *values;
    end = MIRAS__FN(block_end)(h, j);
    if (end > last) end = last;
    count = (size_t)(end - j);
    MIRAS__FN(fetch)(h, j, count, k->k, k->v, &keys, &ldk, &values, &ldv);
    if (m == 1)                                    /* S is a row as well; 6 us per 1024, not 20 */
      MIRAS__FN(gemm)(MIRAS__SET, k->s, count, k->qt, dk, 1, keys, 1, ldk, 1, count, dk, -1,
                      k->pack);
    else
      MIRAS__FN(gemm)(MIRAS__SET, k->s, m, keys, ldk, 1, k->qt, m, 1, count, m, dk, -1, k->pack);
    for (at = 0; at < end - j; at++) {
      ptrdiff_t before = at - hi + 1, after = at - lo + 1;
      float *row = k->s + (size_t)at * m;
      if (before > 0)
        MIRAS__FN(fill)(row, -HUGE_VALF, before < rows ? (size_t)before : m);
      if (after < rows)
        MIRAS__FN(fill)(row + (after > 0 ? after : 0), -HUGE_VALF,
                        (size_t)(after > 0 ? rows - after : rows));
    }
    if (m == 1) MIRAS__FN(take_in_one)(k->s, k->top, k->sum, k->fade, count);
    else MIRAS__FN(take_in)(k->s, k->top, k->sum, k->fade, count, m);
    for (i = 0; i < m; i++)
      if (!(k->fade[i] >= 1)) MIRAS__FN(scale)(k->o + i * dv, k->fade[i], k->o + i * dv, dv);
    MIRAS__FN(band)(k->o, dv, k->s, 1, m, values, ldv, m, dv, count, lo, hi, k->pack);
  }
  for (i = 0; i < m; i++) {
    if (MIRAS__FN(oldest)(h, t - delay - w + 1) > t + (ptrdiff_t)i - delay) {
      /* No pairs to read: 0, but NaN for a query that any pair would have answered so. A NaN key is
       * to show in the surprise of the first write too. */
      float none = 0;
      for (x = 0; x < dk; x++) none += 0 * q[i * ldq + x];
      MIRAS__FN(fill)(k->o + i * dv, none, dv);
      continue;
    }
    k->sum[i] = 1 / k->sum[i];
    if (k->top[i] < -FLT_MAX) k->top[i] = 0;
    MIRAS__FN(scale)(k->o + i * dv, k->sum[i], k->o + i * dv, dv);
  }
}

static void MIRAS__FN(pairs_forward)(const miras__plan *p, float *state, uint64_t position,
                                     const miras__head_io *io, float *tape, float *scratch) {
  miras__pairs_work work, *k = &work;
  MIRAS__FN(held) h;
  size_t dk = (size_t)p->d.key_dim, dv = (size_t)p->d.value_dim, w = (size_t)p->d.window;
  size_t block = p->d.chunk < MIRAS__KEYS ? (size_t)p->d.chunk : MIRAS__KEYS;
  size_t length = (size_t)io->length, t, m, i, j;
  float *ring_k = state, *ring_v = state + p->at_d[0];
  miras__pairs_layout(p, scratch, 0, k);
  MIRAS__FN(hold)(p, &h, ring_k, ring_v, position, io);
  if (tape && position) {
    memcpy(tape, ring_k, w * dk * sizeof *tape);
    memcpy(tape + w * dk, ring_v, w * dv * sizeof *tape);
  }
  for (t = 0; t < length; t += m) {
    m = length - t < block ? length - t : block;
    if (io->surprise) {                            /* 1/2 |v - M(k)|^2 before each write */
      MIRAS__FN(pairs_attend)(&h, k, io->k + t * io->ldk, io->ldk, (ptrdiff_t)t, m, 1);
      for (i = 0; i < m; i++) {
        const float *key = io->k + (t + i) * io->ldk;
        ptrdiff_t token = (ptrdiff_t)(t + i);
        float none = 0;
        MIRAS__FN(axpy)(k->o + i * dv, -1, io->v + (t + i) * io->ldv, dv);
        /* an empty memory answers 0 whatever the key; one that is no number must still show */
        if (MIRAS__FN(oldest)(&h, token - (ptrdiff_t)w) >= token)
          for (j = 0; j < dk; j++) none += 0 * key[j];
        io->surprise[t + i] = none + 0.5f * MIRAS__FN(dot)(k->o + i * dv, k->o + i * dv, dv);
      }
    }
    if (!io->q) continue;
    MIRAS__FN(pairs_attend)(&h, k, io->q + t * io->ldq, io->ldq, (ptrdiff_t)t, m, 0);
    for (i = 0; i < m; i++) {
      memcpy(io->y + (t + i) * io->ldy, k->o + i * dv, dv * sizeof *io->y);
      if (tape) {
        float *kept = tape + p->tape_once + (t + i) * p->tape_chunk;
        memcpy(kept, k->o + i * dv, dv * sizeof *kept);
        kept[dv] = k->top[i];
        kept[dv + 1] = k->sum[i];
      }
    }
  }
  for (t = length > w ? length - w : 0; t < length; t++) {   /* after all reads of the old rows */
    size_t row = (size_t)((position + t) % w);
    memcpy(ring_k + row * dk, io->k + t * io->ldk, dk * sizeof *ring_k);
    memcpy(ring_v + row * dv, io->v + t * io->ldv, dv * sizeof *ring_v);
  }
}

/* One read between tokens: as the last token would have read. */
static void MIRAS__FN(pairs_read)(const miras__plan *p, float *state, uint64_t position,
                                  const float *q, float *o, float *scratch) {
  miras__pairs_work work, *k = &work;
  MIRAS__FN(held) h;
  miras__pairs_layout(p, scratch, 0, k);
  MIRAS__FN(hold)(p, &h, state, state + p->at_d[0], position, NULL);
  MIRAS__FN(pairs_attend)(&h, k, q, (size_t)p->d.key_dim, 0, 1, 1);
  memcpy(o, k->o, (size_t)p->d.value_dim * sizeof *o);
}

/* Adjoint, with the weights p_ti = s_i / sum again from the scores, their base and 1 / sum:
 *   bp_ti = bo_t . v_i     bs_ti = p_ti (bp_ti - bo_t . o_t)
 *   bq_t = sum_i bs_ti k_i / sqrt(dk)    bk_i = sum_t bs_ti q_t / sqrt(dk)
 *   bv_i = sum_t p_ti bo_t
 * The tape holds the ring before the call, and o, base and 1 / sum of each token. dstate, rows of
 * the ring: what came in for pairs of this call goes to their tokens, what remains belongs to pairs
 * that were there before. */
static void MIRAS__FN(pairs_backward)(const miras__plan *p, const float *tape, uint64_t position,
                                      const miras__head_io *io, const float *dy, size_t lddy,
                                      const miras__head_grads *g, float *dstate, float *scratch) {
  miras__pairs_work work, *k = &work;
  MIRAS__FN(held) h;
  size_t dk = (size_t)p->d.key_dim, dv = (size_t)p->d.value_dim, window = (size_t)p->d.window;
  size_t block = p->d.chunk < MIRAS__KEYS ? (size_t)p->d.chunk : MIRAS__KEYS;
  size_t length = (size_t)io->length, t, m, i, x;
  ptrdiff_t w = (ptrdiff_t)window;
  const float root = 1 / sqrtf((float)dk);
  float *ring_bk = dstate, *ring_bv = dstate ? dstate + window * dk : NULL;
  miras__pairs_layout(p, scratch, 1, k);
  MIRAS__FN(hold)(p, &h, tape, tape + window * dk, position, io);
  for (t = 0; t < length; t++) {
    if (g->k) memset(g->k + t * g->ldk, 0, dk * sizeof *g->k);
    if (g->v) memset(g->v + t * g->ldv, 0, dv * sizeof *g->v);
  }
  if (dstate) {
    for (t = length > window ? length - window : 0; t < length; t++) {
      size_t row = (size_t)((position + t) % window);
      if (g->k) memcpy(g->k + t * g->ldk, ring_bk + row * dk, dk * sizeof *g->k);
      if (g->v) memcpy(g->v + t * g->ldv, ring_bv + row * dv, dv * sizeof *g->v);
      memset(ring_bk + row * dk, 0, dk * sizeof *ring_bk);
      memset(ring_bv + row * dv, 0, dv * sizeof *ring_bv);
    }
    if (position < window) {                       /* rows that held nothing before the call */
      i = (size_t)position;
      memset(ring_bk + i * dk, 0, (window - i) * dk * sizeof *ring_bk);
      memset(ring_bv + i * dv, 0, (window - i) * dv * sizeof *ring_bv);
    }
  }
  for (t = 0; t < length; t += m) {
    const float *bo = dy + t * lddy, *kept = tape + p->tape_once + t * p->tape_chunk;
    ptrdiff_t last, j, end;
    m = length - t < block ? length - t : block;
    MIRAS__FN(flip)(k->qt, io->q + t * io->ldq, io->ldq, m, dk, root);
    MIRAS__FN(flip)(k->bot, bo, lddy, m, dv, 1);
    memset(k->bq, 0, m * dk * sizeof *k->bq);
    for (i = 0; i < m; i++) {
      const float *o = kept + i * p->tape_chunk;
      MIRAS__FN(scale)(k->q + i * dk, root, io->q + (t + i) * io->ldq, dk);
      k->along[i] = MIRAS__FN(dot)(bo + i * lddy, o, dv);
      k->top[i] = o[dv];
      k->sum[i] = o[dv + 1];
    }
    last = (ptrdiff_t)(t + m);
    for (j = MIRAS__FN(oldest)(&h, (ptrdiff_t)t - w + 1); j < last; j = end) {
      ptrdiff_t hi = (ptrdiff_t)t - j + 1, lo = hi - w;
      size_t count, ldk, ldv, ldbk, ldbv;
      const float *keys, *values;
      float *bk, *bv;
      end = MIRAS__FN(block_end)(&h, j);
      if (end > last) end = last;
      count = MIRAS__FN(together)(&h, j, (size_t)(end - j), &keys, &ldk, &values, &ldv);
      end = j + (ptrdiff_t)count;
      if (j >= 0) {
        bk = g->k ? g->k + (size_t)j * g->ldk : NULL;
        bv = g->v ? g->v + (size_t)j * g->ldv : NULL;
        ldbk = g->ldk;
        ldbv = g->ldv;
      } else {
        bk = dstate ? ring_bk + MIRAS__FN(slot)(&h, j) * dk : NULL;
        bv = dstate ? ring_bv + MIRAS__FN(slot)(&h, j) * dv : NULL;
        ldbk = dk;
        ldbv = dv;
      }
      MIRAS__FN(gemm)(MIRAS__SET, k->s, m, keys, ldk, 1, k->qt, m, 1, count, m, dk, -1, k->pack);
      MIRAS__FN(gemm)(MIRAS__SET, k->bs, m, values, ldv, 1, k->bot, m, 1, count, m, dv, -1,
                      k->pack);
      for (i = 0; i < m; i += V_W) {
        vf top = V_LOAD_N(k->top + i, m - i), sum = V_LOAD_N(k->sum + i, m - i);
        vf along = V_LOAD_N(k->along + i, m - i);
        for (x = 0; x < count; x++) {
          float *s = k->s + x * m + i, *bs = k->bs + x * m + i;
          vf e = V_MUL(MIRAS__FN(v_exp)(V_SUB(V_LOAD_N(s, m - i), top)), sum);
          V_STORE_N(bs, V_MUL(e, V_SUB(V_LOAD_N(bs, m - i), along)), m - i);
          V_STORE_N(s, e, m - i);
        }
      }
      if (g->q)
        MIRAS__FN(band)(k->bq, dk, k->bs, 1, m, keys, ldk, m, dk, count, lo, hi, k->pack);
      if (bk)
        MIRAS__FN(band)(bk, ldbk, k->bs, m, 1, k->q, dk, count, dk, m, 1 - hi, 1 - lo, k->pack);
      if (bv)
        MIRAS__FN(band)(bv, ldbv, k->s, m, 1, bo, lddy, count, dv, m, 1 - hi, 1 - lo, k->pack);
    }
    for (i = 0; i < m && g->q; i++)
      MIRAS__FN(scale)(g->q + (t + i) * g->ldq, root, k->bq + i * dk, dk);
  }
}

/* @56 ONE HEAD ----------------------------------------------------------- needs 50 51 53 54 -- */

/* The engines know nothing of resets: they begin at position 0, and that is what a head does when
 * it starts anew. Here a call is cut into stretches, each at its position since the last reset. */

MIRAS__INLINE void MIRAS__FN(stretch_forward)(const miras__plan *p, const float *w0,
                                              const float *gain, const float *bias, float *state,
                                              uint64_t position, const miras__head_io *io,
                                              float *tape, float *scratch) {
  switch (p->engine) {
    case MIRAS__RUN_EXACT:
      MIRAS__FN(exact_forward)(p, w0, state, position, io, tape, scratch);
      break;
    case MIRAS__RUN_NEWTON:
      MIRAS__FN(newton_forward)(p, w0, gain, state, position, io, tape, scratch);
      break;
    case MIRAS__RUN_PAIRS:
      MIRAS__FN(pairs_forward)(p, state, position, io, tape, scratch);
      break;
    default:
      MIRAS__FN(frozen_forward)(p, w0, gain, bias, state, position, io, tape, scratch);
      break;
  }
}

/* Run one head of one sequence over io->length tokens. w0 [weights] initial memory, gain and bias
 * [value_dim] of the inner norm (Newton: gain is the raw ridge [features]), state of this head,
 * position of the first token in the sequence. q NULL: no reads. tape: NULL or miras__plan_tape
 * floats, then position must lie on the chunk grid. */
static void MIRAS__FN(head_forward)(const miras__plan *p, const float *w0, const float *gain,
                                    const float *bias, float *state, uint64_t position,
                                    const miras__head_io *io, float *tape, float *scratch) {
  const size_t length = (size_t)io->length;
  size_t t, count;
  if (!p->d.reset_every) {
    MIRAS__FN(stretch_forward)(p, w0, gain, bias, state, position, io, tape, scratch);
    return;
  }
  for (t = 0; t < length; t += count) {
    const uint64_t here = position + (uint64_t)t;
    miras__head_io part;
    count = miras__stretch(&p->d, io->head, here, length - t);
    part = miras__io_part(io, t, count);
    MIRAS__FN(stretch_forward)(p, w0, gain, bias, state, miras__since(&p->d, io->head, here), &part,
                               tape, scratch);
    if (tape) tape += miras__stretch_tape(p, count);
  }
}

static void MIRAS__FN(stretch_backward)(const miras__plan *p, const float *w0, const float *gain,
                                        const float *bias, const float *tape, uint64_t position,
                                        const miras__head_io *io, const float *dy, size_t lddy,
                                        const miras__head_grads *g, float *dw0, float *dgain,
                                        float *dbias, float *dstate, float *scratch) {
  switch (p->engine) {
    case MIRAS__RUN_EXACT:
      MIRAS__FN(exact_backward)(p, w0, tape, position, io, dy, lddy, g, dw0, dstate, scratch);
      break;
    case MIRAS__RUN_NEWTON:
      MIRAS__FN(newton_backward)(p, gain, tape, position, io, dy, lddy, g, dw0, dgain, dstate,
                                 scratch);
      break;
    case MIRAS__RUN_PAIRS:
      MIRAS__FN(pairs_backward)(p, tape, position, io, dy, lddy, g, dstate, scratch);
      break;
    default:
      MIRAS__FN(frozen_backward)(p, w0, gain, bias, tape, position, io, dy, lddy, g, dw0, dgain,
                                 dbias, dstate, scratch);
      break;
  }
}

/* The gradient of head_forward; w0 and position as in that call. Gradients of tokens are
 * overwritten, dw0, dgain, dbias are added to; dstate as in miras_backward. dw0 receives what the
 * initial memory did at position 0, and where decays lead towards it what it did since. Stretches
 * come in reverse. One that begins at a reset leaves dstate at zeros, because its part went to dw0,
 * and with these the stretch before it begins. */
static void MIRAS__FN(head_backward)(const miras__plan *p, const float *w0, const float *gain,
                                     const float *bias, const float *tape, uint64_t position,
                                     const miras__head_io *io, const float *dy, size_t lddy,
                                     const miras__head_grads *g, float *dw0, float *dgain,
                                     float *dbias, float *dstate, float *scratch) {
  const size_t length = (size_t)io->length, every = (size_t)p->d.reset_every;
  const size_t first = miras__stretch(&p->d, io->head, position, length);
  size_t t = first < length ? first + (length - first - 1) / every * every : 0, end = length;
  if (!every) {
    MIRAS__FN(stretch_backward)(p, w0, gain, bias, tape, position, io, dy, lddy, g, dw0, dgain,
                                dbias, dstate, scratch);
    return;
  }
  for (;;) {
    const uint64_t since = miras__since(&p->d, io->head, position + (uint64_t)t);
    const miras__head_io part = miras__io_part(io, t, end - t);
    const miras__head_grads grads = miras__grads_part(g, t);
    const float *kept = tape;
    if (t) kept += miras__stretch_tape(p, first);
    if (t > first) kept += (t - first) / every * miras__stretch_tape(p, every);
    MIRAS__FN(stretch_backward)(p, w0, gain, bias, kept, since, &part, miras__at(dy, t * lddy),
                                lddy, &grads, dw0, dgain, dbias, dstate, scratch);
    if (!t) break;
    end = t;
    t = t > first ? t - every : 0;
  }
}

/* One read between tokens: what a query at this point of the sequence would see. */
static void MIRAS__FN(head_read)(const miras__plan *p, const float *w0, const float *gain,
                                 const float *bias, float *state, uint64_t position, size_t head,
                                 const float *q, float *o, float *scratch) {
  position = miras__since_read(&p->d, head, position);
  switch (p->engine) {
    case MIRAS__RUN_EXACT:
      MIRAS__FN(exact_read_at)(p, w0, state, position, q, o, scratch);
      break;
    case MIRAS__RUN_NEWTON:
      MIRAS__FN(newton_read)(p, w0, gain, state, position, q, o, scratch);
      break;
    case MIRAS__RUN_PAIRS:
      MIRAS__FN(pairs_read)(p, state, position, q, o, scratch);
      break;
    default:
      MIRAS__FN(frozen_read)(p, w0, gain, bias, state, position, q, o, scratch);
      break;
  }
}

/* w [weights] of the exact engine: what head_read would see, unless the head has just begun. */
static void MIRAS__FN(head_weights)(const miras__plan *p, const float *w0, float *w, float *state,
                                    uint64_t position, size_t head, float *scratch) {
  size_t chunk = (size_t)p->d.chunk, steps = (size_t)p->d.steps;
  size_t rows = (size_t)(miras__since_read(&p->d, head, position) % (uint64_t)chunk) * steps;
  const float *base;
  miras__block work;
  miras__open open;
  memcpy(w, state, p->weights * sizeof *w);
  if (!rows) return;
  miras__block_layout(p, scratch, chunk * steps, 0, &work);
  miras__open_layout(p, state + p->at_open, chunk * steps, &open);
  base = MIRAS__FN(exact_base)(p, w0);
  (void)MIRAS__FN(exact_beyond)(p, &work, state, base);
  MIRAS__FN(exact_close)(p, &work, &open, w, base, rows);
}

/* @65 LAYER KERNELS ------------------------------------------------------- needs 20 21 22 23 -- */

/* What a layer does between its matrix products, over rows of tokens. A row's result depends on
 * that row alone and on n, never on how many rows a call has: one token and sixty-four give the
 * same bits. Arguments: outputs, inputs (each with its floats between rows), sizes. */

#define MIRAS__NORM_EPS 1e-5f      /* of the root mean squares                                    */
#define MIRAS__UNIT_EPS 1e-6f      /* of the unit keys and queries                                */

/* sum a b c, over 16 lanes as dot. */
static float MIRAS__FN(dot3)(const float *a, const float *b, const float *c, size_t n) {
  vf acc[V_R];
  size_t i, r;
  MIRAS__UNROLL
  for (r = 0; r < V_R; r++) acc[r] = V_ZERO();
  for (i = 0; i + 16 <= n; i += 16) {
    MIRAS__UNROLL
    for (r = 0; r < V_R; r++) {
      size_t at = i + r * V_W;
      acc[r] = V_FMA(V_MUL(V_LOAD(a + at), V_LOAD(b + at)), V_LOAD(c + at), acc[r]);
    }
  }
  MIRAS__UNROLL
  for (r = 0; r < V_R; r++) {
    size_t at = i + r * V_W;
    if (at < n)
      acc[r] = V_FMA(V_MUL(V_LOAD_N(a + at, n - at), V_LOAD_N(b + at, n - at)),
                     V_LOAD_N(c + at, n - at), acc[r]);
  }
  return MIRAS__FN(fold)(acc);
}

static float MIRAS__FN(rms_inverse)(const float *x, size_t n) {
  return 1.0f / sqrtf(MIRAS__FN(dot)(x, x, n) / (float)n + MIRAS__NORM_EPS);
}

/* y = x r gain, r = 1 / sqrt(mean x^2 + eps). */
static void MIRAS__FN(rms_fwd)(float *y, size_t ldy, const float *x, size_t ldx, const float *gain,
                               size_t rows, size_t n) {
  size_t t, i;
  for (t = 0; t < rows; t++, y += ldy, x += ldx) {
    vf r = V_SET1(MIRAS__FN(rms_inverse)(x, n));
    for (i = 0; i < n; i += V_W)
      V_STORE_N(y + i, V_MUL(V_MUL(V_LOAD_N(x + i, n - i), r), V_LOAD_N(gain + i, n - i)), n - i);
  }
}

/* dx = base + r (dy gain) - x r^3 sum(dy gain x) / n; dgain += dy x r. base NULL is zero and may be
 * dx. y, when wanted, receives the forward output again. */
static void MIRAS__FN(rms_bwd)(float *dx, size_t lddx, const float *base, size_t ldbase,
                               float *dgain, float *y, size_t ldy, const float *x, size_t ldx,
                               const float *gain, const float *dy, size_t lddy, size_t rows,
                               size_t n) {
  size_t t, i;
  for (t = 0; t < rows; t++, dx += lddx, x += ldx, dy += lddy) {
    float r1 = MIRAS__FN(rms_inverse)(x, n);
    float s1 = MIRAS__FN(dot3)(dy, gain, x, n) / (float)n * r1 * r1 * r1;
    vf r = V_SET1(r1), s = V_SET1(s1);
    for (i = 0; i < n; i += V_W) {
      size_t left = n - i;
      vf vx = V_LOAD_N(x + i, left), vg = V_LOAD_N(gain + i, left), vd = V_LOAD_N(dy + i, left);
      vf xr = V_MUL(vx, r), d = base ? V_LOAD_N(base + i, left) : V_ZERO();
      V_STORE_N(dgain + i, V_FMA(vd, xr, V_LOAD_N(dgain + i, left)), left);
      if (y) V_STORE_N(y + i, V_MUL(xr, vg), left);
      d = V_FMA(V_MUL(vd, vg), r, d);
      V_STORE_N(dx + i, V_FNMA(vx, s, d), left);
    }
    if (base) base += ldbase;
    if (y) y += ldy;
  }
}

/* m = (y r) gain silu(g), with one r per head of dim channels. */
static void MIRAS__FN(gated_norm_fwd)(float *m, size_t ldm, const float *y, size_t ldy,
                                      const float *gain, const float *g, size_t ldg, size_t rows,
                                      size_t heads, size_t dim) {
  size_t t, h, i;
  for (t = 0; t < rows; t++, m += ldm, y += ldy, g += ldg) {
    for (h = 0; h < heads; h++) {
      const float *yh = y + h * dim, *gh = g + h * dim, *gain_h = gain + h * dim;
      vf r = V_SET1(MIRAS__FN(rms_inverse)(yh, dim));
      for (i = 0; i < dim; i += V_W) {
        size_t left = dim - i;
        vf vg = V_LOAD_N(gh + i, left), silu = V_MUL(vg, MIRAS__FN(v_sigmoid)(vg));
        vf x = V_MUL(V_MUL(V_LOAD_N(yh + i, left), r), V_LOAD_N(gain_h + i, left));
        V_STORE_N(m + h * dim + i, V_MUL(x, silu), left);
      }
    }
  }
}

/* Gradients of the above; dgain +=, m again. dm is used up. */
static void MIRAS__FN(gated_norm_bwd)(float *dy, size_t lddy, float *dg, size_t lddg, float *dgain,
                                      float *m, size_t ldm, const float *y, size_t ldy,
                                      const float *gain, const float *g, size_t ldg, float *dm,
                                      size_t lddm, size_t rows, size_t heads, size_t dim) {
  size_t t, h, i;
  for (t = 0; t < rows; t++, dy += lddy, dg += lddg, m += ldm, y += ldy, g += ldg, dm += lddm) {
    for (h = 0; h < heads; h++) {
      size_t at = h * dim;
      float r1 = MIRAS__FN(rms_inverse)(y + at, dim), s1;
      vf r = V_SET1(r1), s, one = V_SET1(1.0f);
      for (i = at; i < at + dim; i += V_W) {
        size_t left = at + dim - i;
        vf vg = V_LOAD_N(g + i, left), sig = MIRAS__FN(v_sigmoid)(vg), silu = V_MUL(vg, sig);
        vf w = V_LOAD_N(gain + i, left), d = V_LOAD_N(dm + i, left);
        vf xr = V_MUL(V_LOAD_N(y + i, left), r), x = V_MUL(xr, w), ds = V_MUL(d, silu);
        vf slope = V_MUL(sig, V_FMA(vg, V_SUB(one, sig), one));
        V_STORE_N(m + i, V_MUL(x, silu), left);
        V_STORE_N(dg + i, V_MUL(V_MUL(d, x), slope), left);
        V_STORE_N(dgain + i, V_FMA(ds, xr, V_LOAD_N(dgain + i, left)), left);
        V_STORE_N(dm + i, V_MUL(ds, w), left);
      }
      s1 = MIRAS__FN(dot)(dm + at, y + at, dim) / (float)dim * r1 * r1 * r1;
      s = V_SET1(s1);
      for (i = at; i < at + dim; i += V_W) {
        size_t left = at + dim - i;
        V_STORE_N(dy + i, V_FNMA(V_LOAD_N(y + i, left), s, V_MUL(V_LOAD_N(dm + i, left), r)), left);
      }
    }
  }
}

/* s = silu(a) b. */
static void MIRAS__FN(swiglu_fwd)(float *s, size_t lds, const float *a, const float *b, size_t ld,
                                  size_t rows, size_t n) {
  size_t t, i;
  for (t = 0; t < rows; t++, s += lds, a += ld, b += ld) {
    for (i = 0; i < n; i += V_W) {
      vf va = V_LOAD_N(a + i, n - i), silu = V_MUL(va, MIRAS__FN(v_sigmoid)(va));
      V_STORE_N(s + i, V_MUL(silu, V_LOAD_N(b + i, n - i)), n - i);
    }
  }
}

/* In place: ds becomes s again, a becomes da, b becomes db. */
static void MIRAS__FN(swiglu_bwd)(float *ds, size_t lds, float *a, float *b, size_t ld, size_t rows,
                                  size_t n) {
  size_t t, i;
  vf one = V_SET1(1.0f);
  for (t = 0; t < rows; t++, ds += lds, a += ld, b += ld) {
    for (i = 0; i < n; i += V_W) {
      size_t left = n - i;
      vf va = V_LOAD_N(a + i, left), vb = V_LOAD_N(b + i, left), d = V_LOAD_N(ds + i, left);
      vf sig = MIRAS__FN(v_sigmoid)(va), silu = V_MUL(va, sig);
      vf slope = V_MUL(sig, V_FMA(va, V_SUB(one, sig), one));
      V_STORE_N(ds + i, V_MUL(silu, vb), left);
      V_STORE_N(a + i, V_MUL(V_MUL(d, vb), slope), left);
      V_STORE_N(b + i, V_MUL(d, silu), left);
    }
  }
}

/* z[t] = silu(sum_j w[j] c[t - taps + 1 + j]) per channel. past: the taps - 1 rows ahead of c, NULL
 * for zeros. c has heads * dim channels; z has a block [rows, dim] per head, the blocks `per`
 * apart. Rows outside: c is larger than the second-level cache and streams through once. */
static void MIRAS__FN(conv_fwd)(float *z, size_t per, const float *c, size_t ldc, const float *past,
                                size_t ldpast, const float *w, size_t taps, size_t rows,
                                size_t heads, size_t dim) {
  size_t t, h, i, j, back = taps - 1, ldw = heads * dim;
  for (t = 0; t < rows; t++) {
    /* tap j reads `from` row t + j - back: of past while that is negative */
    size_t ahead = t < back ? back - t : 0, first = past ? 0 : ahead;
    for (h = 0; h < heads; h++) {
      const float *wh = w + h * dim, *ch = c + h * dim;
      float *zh = z + h * per + t * dim;
      for (i = 0; i < dim; i += V_W) {
        size_t left = dim - i;
        vf acc = V_ZERO();
        for (j = first; j < ahead; j++)
          acc = V_FMA(V_LOAD_N(wh + j * ldw + i, left),
                      V_LOAD_N(past + (t + j) * ldpast + h * dim + i, left), acc);
        for (j = ahead; j < taps; j++)
          acc = V_FMA(V_LOAD_N(wh + j * ldw + i, left),
                      V_LOAD_N(ch + (t + j - back) * ldc + i, left), acc);
        V_STORE_N(zh + i, V_MUL(acc, MIRAS__FN(v_sigmoid)(acc)), left);
      }
    }
  }
}

/* The gradient for rows tokens of a sequence; past as in conv_fwd; dz has `after` (at most taps -
 * 1) rows behind its last. dc =, dw +=. sum: (rows + after) heads dim floats of scratch, the
 * gradient before the activation. */
static void MIRAS__FN(conv_bwd)(float *dc, size_t lddc, float *dw, const float *dz, size_t per,
                                const float *c, size_t ldc, const float *past, size_t ldpast,
                                const float *w, size_t taps, size_t rows, size_t after,
                                size_t heads, size_t dim, float *sum) {
  size_t t, h, i, j, back = taps - 1, n = heads * dim;
  vf one = V_SET1(1.0f);
  for (t = 0; t < rows + after; t++) {
    size_t ahead = t < back ? back - t : 0, first = past ? 0 : ahead;
    for (h = 0; h < heads; h++) {
      const float *dzh = dz + h * per + t * dim;
      for (i = 0; i < dim; i += V_W) {
        size_t left = dim - i, at = h * dim + i;
        vf acc = V_ZERO(), sig;
        for (j = first; j < ahead; j++)
          acc = V_FMA(V_LOAD_N(w + j * n + at, left), V_LOAD_N(past + (t + j) * ldpast + at, left),
                      acc);
        for (j = ahead; j < taps; j++)
          acc = V_FMA(V_LOAD_N(w + j * n + at, left),
                      V_LOAD_N(c + (t + j - back) * ldc + at, left), acc);
        sig = MIRAS__FN(v_sigmoid)(acc);
        acc = V_MUL(sig, V_FMA(acc, V_SUB(one, sig), one));
        V_STORE_N(sum + t * n + at, V_MUL(V_LOAD_N(dzh + i, left), acc), left);
      }
    }
  }
  for (t = 0; t < rows; t++) {
    size_t most = rows + after - 1 - t < back ? rows + after - 1 - t : back;
    for (i = 0; i < n; i += V_W) {
      vf acc = V_ZERO();
      for (j = 0; j <= most; j++)
        acc = V_FMA(V_LOAD_N(w + (back - j) * n + i, n - i),
                    V_LOAD_N(sum + (t + j) * n + i, n - i), acc);
      V_STORE_N(dc + t * lddc + i, acc, n - i);
    }
  }
  /* the tile's rows of c are close by now, so the gradients of the weights may go by columns */
  for (i = 0; i < n; i += V_W) {
    for (j = 0; j < taps; j++) {
      size_t far = back - j;
      vf acc = V_LOAD_N(dw + j * n + i, n - i);
      for (t = 0; past && t < far && t < rows; t++)
        acc = V_FMA(V_LOAD_N(sum + t * n + i, n - i), V_LOAD_N(past + (t + j) * ldpast + i, n - i),
                    acc);
      for (t = far; t < rows; t++)
        acc = V_FMA(V_LOAD_N(sum + t * n + i, n - i), V_LOAD_N(c + (t - far) * ldc + i, n - i),
                    acc);
      V_STORE_N(dw + j * n + i, acc, n - i);
    }
  }
}

/* Rows of n floats one behind the other: x becomes x r, r = length / sqrt(sum x^2 + eps), kept
 * in inverse [rows] unless that is NULL. */
static void MIRAS__FN(unit_fwd)(float *x, float *inverse, float length, size_t rows, size_t n) {
  size_t t;
  for (t = 0; t < rows; t++, x += n) {
    float r = length / sqrtf(MIRAS__FN(dot)(x, x, n) + MIRAS__UNIT_EPS);
    MIRAS__FN(scale)(x, r, x, n);
    if (inverse) inverse[t] = r;
  }
}

/* dx = r (dx - x (x . dx) / length^2), where x is unit_fwd's output and r what it left. */
static void MIRAS__FN(unit_bwd)(float *dx, const float *x, const float *inverse, float length,
                                size_t rows, size_t n) {
  size_t t, i;
  for (t = 0; t < rows; t++, dx += n, x += n) {
    vf s = V_SET1(MIRAS__FN(dot)(dx, x, n) / (length * length)), r = V_SET1(inverse[t]);
    for (i = 0; i < n; i += V_W) {
      vf d = V_FNMA(V_LOAD_N(x + i, n - i), s, V_LOAD_N(dx + i, n - i));
      V_STORE_N(dx + i, V_MUL(r, d), n - i);
    }
  }
}

/* Keys of a memory that erases apart from them (RWKV-7), row by row, with gains a (scale) and b
 * (mix) [n] and the gate c (rate):
 *   u = x (.) a,  kappa = u / sqrt(|u|^2 + eps),  erase = -kappa,  replace = kappa (.) c
 *   key = x (.) (1 + (c - 1) (.) b) */
static void MIRAS__FN(erase_fwd)(float *key, float *erase, float *replace, const float *x,
                                 const float *rate, size_t ldr, const float *a, const float *b,
                                 size_t rows, size_t n) {
  const vf one = V_SET1(1.0f);
  size_t t, i;
  for (t = 0; t < rows; t++, key += n, erase += n, replace += n, x += n, rate += ldr) {
    vf r;
    MIRAS__FN(mul)(erase, x, a, n);
    r = V_SET1(-1.0f / sqrtf(MIRAS__FN(dot)(erase, erase, n) + MIRAS__UNIT_EPS));
    for (i = 0; i < n; i += V_W) {
      size_t left = n - i;
      vf c = V_LOAD_N(rate + i, left), e = V_MUL(r, V_LOAD_N(erase + i, left));
      vf m = V_FMA(V_SUB(c, one), V_LOAD_N(b + i, left), one);
      V_STORE_N(erase + i, e, left);
      V_STORE_N(replace + i, V_NEG(V_MUL(e, c)), left);
      V_STORE_N(key + i, V_MUL(V_LOAD_N(x + i, left), m), left);
    }
  }
}

/* Its adjoint: dkey becomes dx; drate is overwritten, da and db are added to. derase and dreplace
 * are consumed.
 *   dkappa = dreplace (.) c - derase,  du = (dkappa - kappa (kappa . dkappa)) / |u|
 *   dx = dkey (.) (1 + (c - 1) (.) b) + du (.) a,  da += du (.) x,  db += dkey (.) x (.) (c - 1)
 *   dc = dkey (.) x (.) b + dreplace (.) kappa */
static void MIRAS__FN(erase_bwd)(float *dkey, float *derase, const float *dreplace, float *drate,
                                 size_t ldd, const float *x, const float *erase, const float *rate,
                                 size_t ldr, const float *a, const float *b, float *da, float *db,
                                 float *row, size_t rows, size_t n) {
  const vf one = V_SET1(1.0f);
  size_t t, i;
  for (t = 0; t < rows; t++, dkey += n, derase += n, dreplace += n, drate += ldd, x += n,
      erase += n, rate += ldr) {
    vf along, r;
    MIRAS__FN(mul)(row, x, a, n);
    r = V_SET1(1.0f / sqrtf(MIRAS__FN(dot)(row, row, n) + MIRAS__UNIT_EPS));
    for (i = 0; i < n; i += V_W) {
      size_t left = n - i;
      vf d = V_MUL(V_LOAD_N(dreplace + i, left), V_LOAD_N(rate + i, left));
      V_STORE_N(derase + i, V_SUB(d, V_LOAD_N(derase + i, left)), left);   /* dkappa */
    }
    along = V_SET1(MIRAS__FN(dot)(derase, erase, n));
    for (i = 0; i < n; i += V_W) {
      size_t left = n - i;
      vf vx = V_LOAD_N(x + i, left), c = V_SUB(V_LOAD_N(rate + i, left), one);
      vf va = V_LOAD_N(a + i, left), vb = V_LOAD_N(b + i, left), dk = V_LOAD_N(dkey + i, left);
      vf e = V_LOAD_N(erase + i, left), du = V_FNMA(e, along, V_LOAD_N(derase + i, left));
      vf kx = V_MUL(dk, vx);
      du = V_MUL(r, du);
      V_STORE_N(da + i, V_FMA(du, vx, V_LOAD_N(da + i, left)), left);
      V_STORE_N(db + i, V_FMA(kx, c, V_LOAD_N(db + i, left)), left);
      V_STORE_N(drate + i, V_FNMA(V_LOAD_N(dreplace + i, left), e, V_MUL(kx, vb)), left);
      V_STORE_N(dkey + i, V_FMA(du, va, V_MUL(dk, V_FMA(c, vb, one))), left);
    }
  }
}

/* One group of gates, n columns: g += offset (NULL: nothing), then, with a number c per column, y =
 * cap times
 *   SIGMOID    y = c sigmoid(g)                dy/dg = c s (1 - s)              s = sigmoid(g)
 *   SOFTPLUS   y = c softplus(g)               dy/dg = c s
 *   ROOT       y = exp(-softplus(-g)/16)       dy/dg = y (1 - s)/16             c is not used
 *   RATE       y = exp(-exp(c) softplus(g))    dy/dg = -y exp(c) s,  dy/dc = -y exp(c) softplus(g)
 *   BOUNDED    y = exp(-exp(-1/2) s)           dy/dg = -y exp(-1/2) s (1 - s)   c is not used */
#define MIRAS__HALF_ROOT 0.60653066f   /* exp(-1/2) */

static void MIRAS__FN(gates_fwd)(int form, float cap, float *y, float *g, size_t ld,
                                 const float *offset, const float *c, size_t rows, size_t n) {
  const vf minus = V_SET1(-1.0f);
  size_t t, i;
  for (i = 0; i < n; i += V_W) {
    size_t left = n - i, at = i;
    vf scale = V_LOAD_N(c + i, left);
    if (form == MIRAS__GATE_RATE) scale = V_MUL(minus, MIRAS__FN(v_exp)(scale));
    for (t = 0; t < rows; t++, at += ld) {
      vf x = V_LOAD_N(g + at, left), v;
      if (offset) x = V_ADD(x, V_LOAD_N(offset + i, left)), V_STORE_N(g + at, x, left);
      switch (form) {
        case MIRAS__GATE_SIGMOID: v = V_MUL(scale, MIRAS__FN(v_sigmoid)(x)); break;
        case MIRAS__GATE_SOFTPLUS: v = V_MUL(scale, MIRAS__FN(v_softplus)(x)); break;
        case MIRAS__GATE_ROOT:
          v = MIRAS__FN(v_softplus)(V_MUL(minus, x));
          v = MIRAS__FN(v_exp)(V_MUL(V_SET1(-0.0625f), v));
          break;
        case MIRAS__GATE_RATE:
          v = MIRAS__FN(v_exp)(V_MUL(scale, MIRAS__FN(v_softplus)(x)));
          break;
        default:
          v = V_MUL(V_SET1(-MIRAS__HALF_ROOT), MIRAS__FN(v_sigmoid)(x));
          v = MIRAS__FN(v_exp)(v);
          break;
      }
      V_STORE_N(y + at, V_MUL(V_SET1(cap), v), left);
    }
  }
}

/* Keys that are what gates forget (HGRN2): 1 - gate. Of a sigmoid that is (1 - cap) + cap
 * sigmoid(-g), which keeps the digits that 1 - sigmoid(g) loses when g is large. */
static void MIRAS__FN(complement)(int form, float cap, float *key, const float *gate,
                                  const float *g, size_t ld, size_t rows, size_t n) {
  size_t t, i;
  for (t = 0; t < rows; t++, key += n, gate += ld, g += ld) {
    for (i = 0; i < n; i += V_W) {
      size_t left = n - i;
      vf v = form == MIRAS__GATE_SIGMOID
               ? V_FMA(V_SET1(cap),
                       MIRAS__FN(v_sigmoid)(V_MUL(V_SET1(-1.0f), V_LOAD_N(g + i, left))),
                       V_SET1(1 - cap))
               : V_SUB(V_SET1(1.0f), V_LOAD_N(gate + i, left));
      V_STORE_N(key + i, v, left);
    }
  }
}

/* dy becomes dg; doffset +=, dc += (RATE only). */
static void MIRAS__FN(gates_bwd)(int form, float cap, float *dy, const float *g, size_t ld,
                                 float *doffset, float *dc, const float *c, size_t rows,
                                 size_t n) {
  const vf one = V_SET1(1.0f), minus = V_SET1(-1.0f);
  size_t t, i;
  for (i = 0; i < n; i += V_W) {
    size_t left = n - i, at = i;
    vf scale = V_LOAD_N(c + i, left), sum = V_LOAD_N(doffset + i, left), sum_c = V_SET1(0.0f);
    if (form == MIRAS__GATE_RATE) {
      scale = V_MUL(minus, MIRAS__FN(v_exp)(scale));
      sum_c = V_LOAD_N(dc + i, left);
    }
    for (t = 0; t < rows; t++, at += ld) {
      vf x = V_LOAD_N(g + at, left), d = V_MUL(V_SET1(cap), V_LOAD_N(dy + at, left)), v;
      vf s = MIRAS__FN(v_sigmoid)(x);
      switch (form) {
        case MIRAS__GATE_SIGMOID:
          d = V_MUL(d, V_MUL(scale, V_MUL(s, V_SUB(one, s))));
          break;
        case MIRAS__GATE_SOFTPLUS:
          d = V_MUL(d, V_MUL(scale, s));
          break;
        case MIRAS__GATE_ROOT:
          v = MIRAS__FN(v_softplus)(V_MUL(minus, x));
          v = MIRAS__FN(v_exp)(V_MUL(V_SET1(-0.0625f), v));
          d = V_MUL(d, V_MUL(V_MUL(V_SET1(0.0625f), v), V_SUB(one, s)));
          break;
        case MIRAS__GATE_RATE:
          v = V_MUL(scale, MIRAS__FN(v_softplus)(x));
          d = V_MUL(d, MIRAS__FN(v_exp)(v));
          sum_c = V_FMA(d, v, sum_c);
          d = V_MUL(d, V_MUL(scale, s));
          break;
        default:
          v = MIRAS__FN(v_exp)(V_MUL(V_SET1(-MIRAS__HALF_ROOT), s));
          d = V_MUL(d, V_MUL(V_MUL(V_SET1(-MIRAS__HALF_ROOT), v), V_MUL(s, V_SUB(one, s))));
          break;
      }
      V_STORE_N(dy + at, d, left);
      sum = V_ADD(sum, d);
    }
    V_STORE_N(doffset + i, sum, left);
    if (form == MIRAS__GATE_RATE) V_STORE_N(dc + i, sum_c, left);
  }
}
#undef MIRAS__HALF_ROOT

/* One row of logits x [n]. Returns log(sum exp x) - x[target]; with scale other than 0 the row
 * becomes its gradient, scale (softmax(x) - one at target). */
static float MIRAS__FN(cross_entropy)(float *x, size_t n, size_t target, float scale) {
  vf top[V_R], acc[V_R], m;
  size_t i, r;
  float most, total, at = x[target];
  MIRAS__UNROLL
  for (r = 0; r < V_R; r++) {
    top[r] = V_SET1(x[0]);
    acc[r] = V_ZERO();
  }
  for (i = 0; i + 16 <= n; i += 16) {
    MIRAS__UNROLL
    for (r = 0; r < V_R; r++) top[r] = V_MAX(V_LOAD(x + i + r * V_W), top[r]);
  }
  most = MIRAS__FN(fold_max)(top);
  for (; i < n; i++) most = x[i] > most ? x[i] : most;
  m = V_SET1(most);
  for (i = 0; i + 16 <= n; i += 16) {
    MIRAS__UNROLL
    for (r = 0; r < V_R; r++) {
      vf e = MIRAS__FN(v_exp)(V_SUB(V_LOAD(x + i + r * V_W), m));
      acc[r] = V_ADD(acc[r], e);
      if (scale > 0) V_STORE(x + i + r * V_W, e);
    }
  }
  MIRAS__UNROLL
  for (r = 0; r < V_R; r++) {
    size_t k = i + r * V_W;
    if (k < n) {
      /* lanes behind the row read as the maximum's negative infinity: e = 0 */
      float tail[V_W];
      vf e;
      size_t l;
      for (l = 0; l < V_W; l++) tail[l] = k + l < n ? x[k + l] - most : -INFINITY;
      e = MIRAS__FN(v_exp)(V_LOAD(tail));
      acc[r] = V_ADD(acc[r], e);
      if (scale > 0) V_STORE_N(x + k, e, n - k);
    }
  }
  total = MIRAS__FN(fold)(acc);
  if (scale > 0) {
    MIRAS__FN(scale)(x, scale / total, x, n);
    x[target] -= scale;
  }
  return logf(total) + most - at;
}

/* y = base + x mask / (1 - rate) per element (base NULL: zero, and may be y). Element i is kept
 * when a 32-bit mix of key and i reaches limit = rate 2^32. */
static void MIRAS__FN(dropout)(float *y, const float *base, const float *x, uint64_t key,
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

/* y [cols, rows] = x' */
static void MIRAS__FN(transpose)(float *y, size_t ldy, const float *x, size_t ldx, size_t rows,
                                 size_t cols) {
  size_t i, j, k;
  for (i = 0; i < rows; i += V_W) {
    size_t m = rows - i < V_W ? rows - i : V_W;
    for (j = 0; j + 4 <= cols && m == V_W; j += 4)
      V_TRANSPOSE4(y + j * ldy + i, ldy, x + i * ldx + j, ldx);
    for (; j < cols; j++)
      for (k = 0; k < m; k++) y[j * ldy + i + k] = x[(i + k) * ldx + j];
  }
}

/* One step of Adam with decoupled decay (Loshchilov 2019). c: beta1, 1 - beta1, beta2, 1 - beta2,
 * clip, lr / (1 - beta1^t), 1 / sqrt(1 - beta2^t), epsilon, 1 - lr decay. g is cleared. */
static void MIRAS__FN(adamw)(float *w, float *m, float *v, float *g, size_t n, const float *c) {
  const vf b1 = V_SET1(c[0]), a1 = V_SET1(c[1]), b2 = V_SET1(c[2]), a2 = V_SET1(c[3]);
  const vf clip = V_SET1(c[4]), rate = V_SET1(c[5]), root = V_SET1(c[6]), eps = V_SET1(c[7]);
  const vf keep = V_SET1(c[8]);
  size_t i;
  for (i = 0; i < n; i += V_W) {
    size_t left = n - i;
    vf d = V_MUL(V_LOAD_N(g + i, left), clip);
    vf vm1 = V_FMA(b1, V_LOAD_N(m + i, left), V_MUL(a1, d));
    vf vv1 = V_FMA(b2, V_LOAD_N(v + i, left), V_MUL(a2, V_MUL(d, d)));
    vf step = V_DIV(V_MUL(rate, vm1), V_FMA(V_SQRT(vv1), root, eps));
    V_STORE_N(m + i, vm1, left);
    V_STORE_N(v + i, vv1, left);
    V_STORE_N(w + i, V_SUB(V_MUL(keep, V_LOAD_N(w + i, left)), step), left);
    V_STORE_N(g + i, V_ZERO(), left);
  }
}
/* @69 TABLE OF THIS INSTRUCTION SET ------------------------------------------ needs 20 56 65 -- */

static const miras__kernels MIRAS__FN(kernels) = {
  MIRAS__ISA_NAME,
  MIRAS__FN(gemm),
  MIRAS__FN(dot),
  MIRAS__FN(sum),
  MIRAS__FN(axpy),
  MIRAS__FN(scale),
  MIRAS__FN(add),
  MIRAS__FN(mul),
  MIRAS__FN(muladd),
  MIRAS__FN(fill),
  MIRAS__FN(flush),
  MIRAS__FN(map_exp),
  MIRAS__FN(map_sigmoid),
  MIRAS__FN(map_tanh),
  MIRAS__FN(map_log),
  MIRAS__FN(map_softplus),
  MIRAS__FN(act),
  MIRAS__FN(act_grad),
  MIRAS__FN(act_grad2),
  MIRAS__FN(softmax),
  MIRAS__FN(link_fwd),
  MIRAS__FN(head_forward),
  MIRAS__FN(head_backward),
  MIRAS__FN(head_read),
  MIRAS__FN(head_weights),
  MIRAS__FN(rms_fwd),
  MIRAS__FN(rms_bwd),
  MIRAS__FN(gated_norm_fwd),
  MIRAS__FN(gated_norm_bwd),
  MIRAS__FN(swiglu_fwd),
  MIRAS__FN(swiglu_bwd),
  MIRAS__FN(conv_fwd),
  MIRAS__FN(conv_bwd),
  MIRAS__FN(unit_fwd),
  MIRAS__FN(unit_bwd),
  MIRAS__FN(erase_fwd),
  MIRAS__FN(erase_bwd),
  MIRAS__FN(gates_fwd),
  MIRAS__FN(gates_bwd),
  MIRAS__FN(complement),
  MIRAS__FN(cross_entropy),
  MIRAS__FN(dropout),
  MIRAS__FN(transpose),
  MIRAS__FN(adamw)
};

#if MIRAS__ISA == 1 && defined(__GNUC__) && !defined(__clang__)
  #pragma GCC pop_options
#endif

#undef MIRAS__FN
#undef MIRAS__ISA_NAME
#undef V_W
#undef V_R
#undef K_ROWS4
#undef K_ROWS2
#undef K_ROWS1
#undef vf
#undef vm
#undef V_ZERO
#undef V_SET1
#undef V_LOAD
#undef V_STORE
#undef V_LOAD_N
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
#undef V_POW2
#undef V_LOGB
#undef V_FRACTION
#undef V_TRANSPOSE4
#undef MIRAS__READS
#undef MIRAS__ISA
#endif   /* region B */

#if defined(MIRAS_IMPLEMENTATION) && !defined(MIRAS__KERNEL_PASS) && !defined(MIRAS__IMPLEMENTED)
#define MIRAS__IMPLEMENTED
/* @70 DISPATCH --------------------------------------------------------------- needs 12 20 69 -- */

/* The tables of this build, best first. The first MIRAS__KERNEL_COUNT entries exist; whether the
 * processor can run them is miras__kernels_usable's to say. */
static const miras__kernels *const miras__kernel_list[] = {
#if MIRAS__X86
  #ifndef MIRAS_NO_AVX512
  &miras__kernels_avx512,
  #endif
  &miras__kernels_avx2,
#endif
#if MIRAS__NEON
  &miras__kernels_neon,
#endif
  &miras__kernels_portable
};

enum { MIRAS__KERNEL_COUNT = sizeof miras__kernel_list / sizeof miras__kernel_list[0] };

static int miras__kernels_usable(const miras__kernels *kern) {
#if MIRAS__X86
  #ifndef MIRAS_NO_AVX512
  if (kern == &miras__kernels_avx512) return (miras__cpu() & MIRAS__HAS_AVX512) != 0;
  #endif
  if (kern == &miras__kernels_avx2) return (miras__cpu() & MIRAS__HAS_AVX2) != 0;
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

/* @71 LARGE PRODUCTS --------------------------------------------------------------- needs 70 -- */

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

/* gemm of the table without a causal limit, or BLIS when the build asks for it and the product is
 * large enough. BLIS sums in an order of its own, so its bits differ from the kernels'. */
static MIRAS__UNUSED void miras__matmul(const miras__kernels *kern, int mode, float *C, size_t ldc,
                                        const float *A, size_t ars, size_t acs, const float *B,
                                        size_t brs, size_t bcs, size_t M, size_t N, size_t K,
                                        float *pack) {
#ifdef MIRAS_USE_BLIS
  if ((double)M * (double)N * (double)K >= (double)(MIRAS_BLIS_MIN)) {
    float alpha = mode == MIRAS__SUB ? -1.0f : 1.0f, beta = mode == MIRAS__SET ? 0.0f : 1.0f;
    bli_sgemm(BLIS_NO_TRANSPOSE, BLIS_NO_TRANSPOSE, (dim_t)M, (dim_t)N, (dim_t)K, &alpha,
              (float *)(uintptr_t)A, (inc_t)ars, (inc_t)acs, (float *)(uintptr_t)B, (inc_t)brs,
              (inc_t)bcs, &beta, C, (inc_t)ldc, 1);
    return;
  }
#endif
  kern->gemm(mode, C, ldc, A, ars, acs, B, brs, bcs, M, N, K, -1, pack);
}

/* @72 RESULTS ---------------------------------------------------------------------- needs 05 -- */

MIRAS_API const char *miras_result_text(miras_result result) {
  static const char *const texts[] = {
#define MIRAS_X(name, text) text,
    MIRAS_RESULTS(MIRAS_X)
#undef MIRAS_X
  };
  return (int)result < 0 || result >= MIRAS_RESULT_COUNT ? "unknown result" : texts[result];
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
  size_t at, size;                  /* of a field of miras_model_desc; at 0 ends a list           */
  int real;                         /* a float, else an int or an enum                            */
  float value;
} miras__setting;

typedef struct miras__row {
  const char *name;
  miras_architecture architecture;
  miras_bias bias;
  miras_retention retention;
  miras_algorithm algorithm;
  miras__setting always[6], inside[16], alone[8];
} miras__row;

#define MIRAS__FIELD(field, real, value) \
  {offsetof(miras_model_desc, field), sizeof(((miras_model_desc *)0)->field), real, (float)(value)}
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
   {MIRAS__END},
   {MIRAS__UNIT, MIRAS__W(feature, MIRAS_FEATURE_RELU2), MIRAS__W(normalise, 1)}},
  {"dfw", MIRAS_MATRIX, MIRAS_DOT, MIRAS_RETAIN_L2, MIRAS_GRADIENT_DESCENT,
   {MIRAS__END},
   {MIRAS__BLOCKS, MIRAS__KEEP_CHANNEL, MIRAS__W(value_gate, MIRAS_GATE_CHANNEL),
    MIRAS__FORGET(0.0625f, 0.5f)},
   {MIRAS__UNIT, MIRAS__HOME, MIRAS__R(forget, 0.03125f)}},
  {"retnet", MIRAS_MATRIX, MIRAS_DOT, MIRAS_RETAIN_L2, MIRAS_GRADIENT_DESCENT,
   {MIRAS__FORGET(0.03125f, 0.5f)},
   {MIRAS__END},
   {MIRAS__UNIT, MIRAS__HOME}},
  {"lightning", MIRAS_MATRIX, MIRAS_DOT, MIRAS_RETAIN_L2, MIRAS_GRADIENT_DESCENT,
   {MIRAS__W(slopes, MIRAS_SLOPES_LIGHTNING)},
   {MIRAS__END},
   {MIRAS__UNIT, MIRAS__HOME, MIRAS__W(slopes, MIRAS_SLOPES_MINIMAX)}},
  {"gla", MIRAS_MATRIX, MIRAS_DOT, MIRAS_RETAIN_L2, MIRAS_GRADIENT_DESCENT,
   {MIRAS__END},
   {MIRAS__KEEP_CHANNEL, MIRAS__FORGET(0.125f, 0.25f),
    MIRAS__L(keep, MIRAS_KEEP_ROOT), MIRAS__L(keys, MIRAS_KEYS_FREE)},
   {MIRAS__UNIT, MIRAS__HOME, MIRAS__R(forget, 0.03125f)}},
  {"mamba2", MIRAS_MATRIX, MIRAS_DOT, MIRAS_RETAIN_L2, MIRAS_GRADIENT_DESCENT,
   {MIRAS__END},
   {MIRAS__KEEP_HEAD, MIRAS__STEP_HEAD, MIRAS__FORGET(0.125f, 0.25f),
    MIRAS__L(keep, MIRAS_KEEP_RATE), MIRAS__L(tied_step, 1), MIRAS__L(keys, MIRAS_KEYS_FREE)},
   {MIRAS__UNIT, MIRAS__HOME, MIRAS__R(forget, 0.03125f)}},
  {"hgrn2", MIRAS_MATRIX, MIRAS_DOT, MIRAS_RETAIN_L2, MIRAS_GRADIENT_DESCENT,
   {MIRAS__END},
   {MIRAS__KEEP_CHANNEL, MIRAS__FORGET(0.125f, 0.25f),
    MIRAS__L(keys, MIRAS_KEYS_COMPLEMENT)},
   {MIRAS__UNIT, MIRAS__HOME, MIRAS__R(forget, 0.03125f)}},
  {"deltanet", MIRAS_MATRIX, MIRAS_L2, MIRAS_RETAIN_ALL, MIRAS_GRADIENT_DESCENT,
   {MIRAS__END},
   {MIRAS__STEP_HEAD},
   {MIRAS__UNIT, MIRAS__BOUND(1, 16)}},
  {"longhorn", MIRAS_MATRIX, MIRAS_L2, MIRAS_RETAIN_ALL, MIRAS_IMPLICIT,
   {MIRAS__END},
   {MIRAS__W(step_gate, MIRAS_GATE_CHANNEL), MIRAS__L(keys, MIRAS_KEYS_RMS)},
   {MIRAS__UNIT, MIRAS__R(step, 16)}},
  {"gated-deltanet", MIRAS_MATRIX, MIRAS_L2, MIRAS_RETAIN_L2, MIRAS_GRADIENT_DESCENT,
   {MIRAS__W(order, MIRAS_DECAY_FIRST)},
   {MIRAS__KEEP_HEAD, MIRAS__STEP_HEAD, MIRAS__FORGET(0.125f, 0.25f),
    MIRAS__L(keep, MIRAS_KEEP_RATE)},
   {MIRAS__UNIT, MIRAS__BOUND(1, 16), MIRAS__HOME, MIRAS__R(forget, 0.001f)}},
  {"deltaproduct", MIRAS_MATRIX, MIRAS_L2, MIRAS_RETAIN_ALL, MIRAS_GRADIENT_DESCENT,
   {MIRAS__W(steps, 2)},
   {MIRAS__BLOCKS, MIRAS__STEP_HEAD, MIRAS__R(step, 2)},
   {MIRAS__UNIT, MIRAS__BOUND(1, 16)}},
  {"gated-deltaproduct", MIRAS_MATRIX, MIRAS_L2, MIRAS_RETAIN_L2, MIRAS_GRADIENT_DESCENT,
   {MIRAS__W(steps, 2), MIRAS__W(order, MIRAS_DECAY_FIRST)},
   {MIRAS__BLOCKS, MIRAS__KEEP_HEAD, MIRAS__STEP_HEAD, MIRAS__R(step, 2),
    MIRAS__FORGET(0.125f, 0.25f), MIRAS__L(keep, MIRAS_KEEP_RATE)},
   {MIRAS__UNIT, MIRAS__BOUND(1, 16), MIRAS__HOME, MIRAS__R(forget, 0.001f)}},
  {"kda", MIRAS_MATRIX, MIRAS_L2, MIRAS_RETAIN_L2, MIRAS_GRADIENT_DESCENT,
   {MIRAS__W(order, MIRAS_DECAY_FIRST)},
   {MIRAS__KEEP_CHANNEL, MIRAS__STEP_HEAD, MIRAS__FORGET(0.125f, 0.25f),
    MIRAS__L(keep, MIRAS_KEEP_RATE)},
   {MIRAS__UNIT, MIRAS__BOUND(1, 16), MIRAS__HOME, MIRAS__R(forget, 0.001f)}},
  {"rwkv7", MIRAS_MATRIX, MIRAS_L2, MIRAS_RETAIN_L2, MIRAS_GRADIENT_DESCENT,
   {MIRAS__W(separate_erase, 1)},
   {MIRAS__BLOCKS, MIRAS__KEEP_CHANNEL, MIRAS__FORGET(0.125f, 0.25f),
    MIRAS__L(keep, MIRAS_KEEP_BOUNDED), MIRAS__L(keys, MIRAS_KEYS_ERASE)},
   {MIRAS__HOME, MIRAS__R(forget, 0.001f)}},
  {"mesa", MIRAS_MATRIX, MIRAS_L2, MIRAS_RETAIN_L2, MIRAS_NEWTON,
   {MIRAS__END},
   {MIRAS__BLOCKS, MIRAS__KEEP_HEAD, MIRAS__STEP_HEAD, MIRAS__FORGET(0.125f, 0.25f)},
   {MIRAS__UNIT, MIRAS__R(forget, 0.001f), MIRAS__R(ridge, 0.1f)}},
  {"softmax-attention", MIRAS_PAIRS, MIRAS_L2, MIRAS_RETAIN_ALL, MIRAS_GRADIENT_DESCENT,
   {MIRAS__W(window, 1024)},
   {MIRAS__BLOCKS, MIRAS__L(keys, MIRAS_KEYS_RMS)},
   {MIRAS__END}},
  {"sliding-window", MIRAS_PAIRS, MIRAS_L2, MIRAS_RETAIN_ALL, MIRAS_GRADIENT_DESCENT,
   {MIRAS__W(window, 64)},
   {MIRAS__BLOCKS, MIRAS__L(keys, MIRAS_KEYS_RMS)},
   {MIRAS__END}},
  {"ttt-linear", MIRAS_MLP, MIRAS_L2, MIRAS_RETAIN_L2, MIRAS_GRADIENT_DESCENT,
   {MIRAS__W(depth, 1), MIRAS__W(inner_bias, 1), MIRAS__HOME},
   {MIRAS__PERCEPTRON, MIRAS__KEEP_HEAD, MIRAS__STEP_HEAD, MIRAS__W(row_rates, 2),
    MIRAS__R(step, 0.2f)},
   {MIRAS__ROOT, MIRAS__BOUND(1, 1), MIRAS__FORGET(0.0005f, 0.5f)}},
  {"ttt-mlp", MIRAS_MLP, MIRAS_L2, MIRAS_RETAIN_L2, MIRAS_GRADIENT_DESCENT,
   {MIRAS__W(depth, 2), MIRAS__W(inner_bias, 1), MIRAS__HOME},
   {MIRAS__PERCEPTRON, MIRAS__KEEP_HEAD, MIRAS__STEP_HEAD, MIRAS__W(row_rates, 2),
    MIRAS__R(step, 0.05f)},
   {MIRAS__ROOT, MIRAS__BOUND(2, 1), MIRAS__FORGET(0.0005f, 0.5f)}},
  {"titans", MIRAS_MLP, MIRAS_L2, MIRAS_RETAIN_L2, MIRAS_MOMENTUM,
   {MIRAS__W(depth, 2), MIRAS__R(momentum, 0.5f), MIRAS__HOME},
   {MIRAS__PERCEPTRON, MIRAS__KEEP_HEAD, MIRAS__STEP_HEAD,
    MIRAS__W(momentum_gate, MIRAS_GATE_HEAD), MIRAS__R(step, 0.02f)},
   {MIRAS__UNIT, MIRAS__BOUND(2, 1), MIRAS__FORGET(0.0005f, 0.5f), MIRAS__R(momentum, 0.25f)}},
  {"moneta", MIRAS_MLP, MIRAS_LP, MIRAS_RETAIN_LQ, MIRAS_GRADIENT_DESCENT,
   {MIRAS__W(depth, 2), MIRAS__R(p, 3), MIRAS__R(q, 2.5f), MIRAS__HOME},
   {MIRAS__PERCEPTRON, MIRAS__CHANNELS, MIRAS__R(step, 0.01f)},
   {MIRAS__UNIT, MIRAS__BOUND(2, 1000), MIRAS__FORGET(0.0005f, 0.5f)}},
  {"yaad", MIRAS_MLP, MIRAS_HUBER_MIXTURE, MIRAS_RETAIN_L2, MIRAS_GRADIENT_DESCENT,
   {MIRAS__W(depth, 2), MIRAS__HOME},
   {MIRAS__PERCEPTRON, MIRAS__CHANNELS,
    MIRAS__W(threshold_gate, MIRAS_GATE_CHANNEL), MIRAS__R(sharpness, 2),
    MIRAS__R(step, 0.04f)},
   {MIRAS__UNIT, MIRAS__BOUND(1, 0.5f), MIRAS__FORGET(0.0005f, 0.5f)}},
  {"memora", MIRAS_MLP, MIRAS_L2, MIRAS_RETAIN_KL, MIRAS_GRADIENT_DESCENT,
   {MIRAS__W(depth, 2), MIRAS__W(simplex_signed, 1), MIRAS__W(simplex_logits, 1), MIRAS__HOME},
   {MIRAS__PERCEPTRON, MIRAS__CHANNELS, MIRAS__R(simplex, 256),
    MIRAS__R(step, 0.01f)},
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

static void miras__apply(miras_model_desc *d, const miras__setting *list, int most) {
  int i;
  for (i = 0; i < most && list[i].at; i++) {
    unsigned char *to = (unsigned char *)d + list[i].at;
    int whole = (int)list[i].value;
    uint16_t two = (uint16_t)whole;     /* compilers for small machines shorten enums */
    if (list[i].real) memcpy(to, &list[i].value, sizeof list[i].value);
    else if (list[i].size == sizeof whole) memcpy(to, &whole, sizeof whole);
    else if (list[i].size == sizeof two) memcpy(to, &two, sizeof two);
    else *to = (unsigned char)whole;
  }
}

static miras_result miras__preset(miras_model_desc *d, miras_kind kind, int inside) {
  const miras__row *row;
  if (!d || (int)kind < 0 || kind >= MIRAS_KIND_COUNT) return MIRAS_ERR_ARGUMENT;
  row = &miras__table[kind];
  memset(d, 0, sizeof *d);
  d->memory.architecture = row->architecture;
  d->memory.bias = row->bias;
  d->memory.retention = row->retention;
  d->memory.algorithm = row->algorithm;
  d->memory.chunk = 1;
  miras__apply(d, row->always, (int)(sizeof row->always / sizeof row->always[0]));
  if (inside) miras__apply(d, row->inside, (int)(sizeof row->inside / sizeof row->inside[0]));
  else miras__apply(d, row->alone, (int)(sizeof row->alone / sizeof row->alone[0]));
  return MIRAS_OK;
}

MIRAS_API miras_result miras_preset(miras_desc *d, miras_kind kind) {
  miras_model_desc whole;
  miras_result result = d ? miras__preset(&whole, kind, 0) : MIRAS_ERR_ARGUMENT;
  if (result == MIRAS_OK) *d = whole.memory;
  return result;
}

MIRAS_API miras_result miras_model_preset(miras_model_desc *d, miras_kind kind) {
  return miras__preset(d, kind, 1);
}

MIRAS_API const char *miras_kind_name(miras_kind kind) {
  return (int)kind < 0 || kind >= MIRAS_KIND_COUNT ? NULL : miras__table[kind].name;
}

MIRAS_API miras_kind miras_kind_find(const char *name) {
  int i;
  for (i = 0; name && i < MIRAS_KIND_COUNT; i++)
    if (!strcmp(name, miras__table[i].name)) return (miras_kind)i;
  return MIRAS_KIND_COUNT;
}
/* @74 ONE MEMORY ---------------------------------------------------------- needs 13 14 56 70 -- */

static void *miras__default_alloc(size_t bytes, void *user) {
  (void)user;
  return MIRAS_MALLOC(bytes);
}

static void miras__default_free(void *pointer, size_t bytes, void *user) {
  (void)bytes;
  (void)user;
  MIRAS_FREE(pointer);
}

static void miras__keep_all(void *pointer, size_t bytes, void *user) {
  (void)pointer;
  (void)bytes;
  (void)user;
}

static miras_allocator miras__allocator(const miras_allocator *allocator) {
  miras_allocator standard;
  if (allocator && allocator->alloc) {
    standard = *allocator;
    if (!standard.free) standard.free = miras__keep_all;
    return standard;
  }
  standard.alloc = miras__default_alloc;
  standard.free = miras__default_free;
  standard.user = NULL;
  return standard;
}

struct miras_memory {
  miras__plan plan;
  miras_allocator allocator;         /* alloc NULL: not ours to free                             */
  void *block;
  size_t bytes;
  float *params, *state, *scratch;
  size_t state_bytes;
  float *keep;                       /* [heads] constant keep gates                              */
  float *spare;                      /* [weights] where miras_memory_norm builds them            */
};

/* Lay out a memory over a; with a->base NULL only the size is found. */
static void miras__memory_layout(miras_memory *m, miras__arena *a, const miras__plan *p) {
  size_t states = 0;
  int spare;
  if (!miras__mul(p->sequence_state, (size_t)p->d.batch, &states)) a->ok = 0;
  m->params = (float *)miras__take(a, p->params, sizeof(float));
  m->state = (float *)miras__take(a, states, sizeof(float));
  m->scratch = (float *)miras__take(a, p->scratch, sizeof(float));
  m->keep = (float *)miras__take(a, (size_t)p->d.heads, sizeof(float));
  spare = p->mapped || (p->engine == MIRAS__RUN_EXACT && p->d.chunk > 1);
  m->spare = (float *)miras__take(a, spare ? p->weights : 0, sizeof(float));
  m->state_bytes = states * sizeof(float);
}

static size_t miras__memory_bytes(const miras__plan *p, char *why, size_t why_size) {
  miras__arena a;
  miras_memory m;
  memset(&a, 0, sizeof a);
  a.ok = 1;
  (void)miras__take(&a, 1, sizeof m);
  miras__memory_layout(&m, &a, p);
  /* 63 more, so that a buffer of any alignment can be rounded up */
  if (!a.ok || !miras__add(a.used, 63, &a.used)) {
    miras__say(why, why_size, "the memory is larger than this machine can address");
    return 0;
  }
  return a.used;
}

static unsigned char *miras__align(void *pointer) {
  return (unsigned char *)pointer + (64 - (uintptr_t)pointer % 64) % 64;
}

static miras_memory *miras__memory_build(void *buffer, const miras__plan *p) {
  miras__arena a;
  miras_memory *m;
  memset(&a, 0, sizeof a);
  a.ok = 1;
  a.base = miras__align(buffer);
  m = (miras_memory *)miras__take(&a, 1, sizeof *m);
  memset(m, 0, sizeof *m);
  m->plan = *p;
  m->block = buffer;
  miras__memory_layout(m, &a, p);
  miras__constant_keeps(&p->d, p->d.layer, m->keep);
  miras__plan_init_params(p, m->params);
  memset(m->state, 0, m->state_bytes);
  return m;
}

static int miras__constant_gates(const miras_desc *d) {
  return !d->separate_erase && d->value_gate == MIRAS_GATE_CONSTANT &&
         d->keep_gate == MIRAS_GATE_CONSTANT && d->step_gate == MIRAS_GATE_CONSTANT &&
         d->momentum_gate == MIRAS_GATE_CONSTANT && d->threshold_gate == MIRAS_GATE_CONSTANT;
}

/* The io of head h of sequence b. Gates that the algorithm or bias do not have are NULL; without
 * tokens every pointer may be. */
static void miras__memory_io(const miras_memory *m, const miras_tokens *x, int b, int h,
                             miras__head_io *io) {
  const miras_desc *d = &m->plan.d;
  size_t heads = (size_t)d->heads, H = (size_t)h, T = (size_t)x->length, first = (size_t)b * T;
  size_t dk = (size_t)d->key_dim, dv = (size_t)d->value_dim, at = first * heads + H;
  size_t keeps = miras__keep_lanes(d), steps = (size_t)d->steps;
  size_t rates = steps * miras__lanes(d, d->step_gate);
  size_t bounds = miras__lanes(d, d->threshold_gate);
  memset(io, 0, sizeof *io);
  io->length = x->length;
  io->head = H;
  io->ldq = heads * dk;
  io->ldy = heads * dv;
  io->ldk = heads * steps * dk;
  io->ldv = heads * steps * dv;
  io->k = miras__at(x->key, at * steps * dk);
  io->v = miras__at(x->value, at * steps * dv);
  io->q = miras__at(x->query, at * dk);
  io->rho = d->row_rates ? m->params + m->plan.at_rho : NULL;
  io->keep = d->keep_gate ? miras__at(x->keep, at * keeps) : m->keep + H;
  io->ld_keep = d->keep_gate ? heads * keeps : 0;
  io->step = d->step_gate ? miras__at(x->step, at * rates) : &d->step;
  io->ld_step = d->step_gate ? heads * rates : 0;
  if (d->value_gate) {
    io->value_keep = miras__at(x->value_keep, at * dv);
    io->ld_value_keep = heads * dv;
  }
  if (d->separate_erase) {
    io->erase = miras__at(x->erase, at * dk);
    io->replace = miras__at(x->replace, at * dk);
    io->ld_erase = io->ld_replace = heads * dk;
  }
  if (d->algorithm == MIRAS_MOMENTUM) {
    io->momentum = d->momentum_gate ? miras__at(x->momentum, at) : &d->momentum;
    io->ld_momentum = d->momentum_gate ? heads : 0;
  }
  if (miras__has_threshold(d->bias)) {
    io->threshold = d->threshold_gate ? miras__at(x->threshold, at * bounds) : &d->threshold;
    io->ld_threshold = d->threshold_gate ? heads * bounds : 0;
  }
}

/* Head h's gain of the inner norm; its bias lies heads * value_dim further. NULL without a norm.
 * Newton: the raw ridge. */
static float *miras__gain(const miras__plan *p, float *params, size_t h) {
  if (p->engine == MIRAS__RUN_NEWTON && params)
    return params + (size_t)p->d.heads * p->weights + h * (size_t)p->in[0];
  if (!p->d.inner_norm || !params) return NULL;
  return params + (size_t)p->d.heads * p->weights + h * (size_t)p->d.value_dim;
}

static float *miras__bias_of(const miras__plan *p, float *gain) {
  return gain && p->d.inner_norm ? gain + (size_t)p->d.heads * (size_t)p->d.value_dim : NULL;
}

static int miras__tokens_ok(const miras_desc *d, const miras_tokens *x) {
  if (!x || x->length < 0) return 0;
  if (x->length == 0) return 1;
  return x->key && x->value && (!d->keep_gate || x->keep) && (!d->step_gate || x->step) &&
         (!d->momentum_gate || x->momentum) && (!d->threshold_gate || x->threshold) &&
         (!d->value_gate || x->value_keep) && (!d->separate_erase || (x->erase && x->replace));
}

static uint64_t miras__position(const void *state) {
  uint64_t position;
  memcpy(&position, state, sizeof position);
  return position;
}

/* All heads of all sequences; surprise NULL or the summed bias of a single token. */
static void miras__memory_run(miras_memory *m, const miras_tokens *x, float *y, float *tape,
                              double *surprise) {
  const miras__plan *p = &m->plan;
  const miras__kernels *kernels = miras__kernels_best();
  size_t per = miras__plan_tape(p, (size_t)x->length), heads = (size_t)p->d.heads;
  int b, h;
  for (b = 0; b < p->d.batch; b++) {
    float *state = m->state + (size_t)b * p->sequence_state;
    uint64_t position = miras__position(state);
    for (h = 0; h < p->d.heads; h++) {
      size_t index = (size_t)b * heads + (size_t)h;
      float *gain = miras__gain(p, m->params, (size_t)h);
      miras__head_io io;
      float loss = 0;
      miras__memory_io(m, x, b, h, &io);
      if (y)
        io.y = y + ((size_t)b * (size_t)x->length * heads + (size_t)h) * (size_t)p->d.value_dim;
      if (surprise) io.surprise = &loss;
      kernels->head_forward(p, m->params + (size_t)h * p->weights, gain,
                            miras__bias_of(p, gain),
                            state + 16 + (size_t)h * p->head_state, position, &io,
                            tape ? tape + 16 + index * per : NULL, m->scratch);
      if (surprise) *surprise += (double)loss;
    }
    position += (uint64_t)x->length;
    memcpy(state, &position, sizeof position);
  }
}

MIRAS_API size_t miras_memory_size(const miras_desc *d, char *why, size_t why_size) {
  miras__plan p;
  if (miras__plan_make(&p, d, why, why_size) != MIRAS_OK) return 0;
  return miras__memory_bytes(&p, why, why_size);
}

MIRAS_API miras_memory *miras_memory_init(void *buffer, size_t bytes, const miras_desc *d) {
  miras__plan p;
  miras_memory *m;
  size_t need;
  if (!buffer || miras__plan_make(&p, d, NULL, 0) != MIRAS_OK) return NULL;
  need = miras__memory_bytes(&p, NULL, 0);
  if (!need || bytes < need) return NULL;
  m = miras__memory_build(buffer, &p);
  m->bytes = need;
  return m;
}

MIRAS_API miras_memory *miras_memory_open(const miras_desc *d, const miras_allocator *allocator) {
  miras_allocator from = miras__allocator(allocator);
  miras__plan p;
  miras_memory *m;
  size_t need;
  void *buffer;
  if (miras__plan_make(&p, d, NULL, 0) != MIRAS_OK) return NULL;
  need = miras__memory_bytes(&p, NULL, 0);
  buffer = need ? from.alloc(need, from.user) : NULL;
  if (!buffer) return NULL;
  m = miras__memory_build(buffer, &p);
  m->bytes = need;
  m->allocator = from;
  return m;
}

MIRAS_API void miras_memory_close(miras_memory *m) {
  miras_allocator from;
  if (!m || !m->allocator.alloc) return;
  from = m->allocator;
  from.free(m->block, m->bytes, from.user);
}

MIRAS_API const miras_desc *miras_memory_desc(const miras_memory *m) {
  return m ? &m->plan.d : NULL;
}

static float miras__step(miras_memory *m, const float *key, const float *value,
                         const float *query, float *out) {
  miras_tokens x;
  double surprise = 0;
  memset(&x, 0, sizeof x);
  x.length = 1;
  x.key = key;
  x.value = value;
  x.query = query;
  if (!m || !key || !value || (query && !out) || !miras__constant_gates(&m->plan.d))
    return (float)NAN;
  miras__memory_run(m, &x, out, NULL, &surprise);
  return (float)(surprise / ((double)m->plan.d.heads * (double)m->plan.d.batch));
}

MIRAS_API float miras_write(miras_memory *m, const float *key, const float *value) {
  return miras__step(m, key, value, NULL, NULL);
}

MIRAS_API float miras_step(miras_memory *m, const float *key, const float *value,
                           const float *query, float *out) {
  return miras__step(m, key, value, query, out);
}

MIRAS_API void miras_read(miras_memory *m, const float *query, float *out) {
  const miras__kernels *kernels = miras__kernels_best();
  size_t heads, dk, dv, b, h;
  if (!m || !query || !out) return;
  heads = (size_t)m->plan.d.heads;
  dk = (size_t)m->plan.d.key_dim;
  dv = (size_t)m->plan.d.value_dim;
  for (b = 0; b < (size_t)m->plan.d.batch; b++) {
    float *state = m->state + b * m->plan.sequence_state;
    for (h = 0; h < heads; h++) {
      float *gain = miras__gain(&m->plan, m->params, h);
      kernels->head_read(&m->plan, m->params + h * m->plan.weights, gain,
                         miras__bias_of(&m->plan, gain),
                         state + 16 + h * m->plan.head_state, miras__position(state), h,
                         query + (b * heads + h) * dk, out + (b * heads + h) * dv, m->scratch);
    }
  }
}

/* A tape: 16 floats that hold the position and the length of its call; what each head keeps; room
 * for the backward pass to work in; and for parameter gradients that nobody asked for. */
static size_t miras__tape(const miras__plan *p, int length) {
  size_t total = miras__plan_tape(p, (size_t)length), heads;
  if (!total && length) return 0;
  if (!miras__mul((size_t)p->d.heads, (size_t)p->d.batch, &heads) ||
      !miras__mul(total, heads, &total) ||
      !miras__add(total, 16 + p->scratch_backward, &total) ||
      !miras__add(total, p->weights + 2 * (size_t)p->widest, &total) ||
      total > (size_t)-1 / sizeof(float))
    return 0;
  return total;
}

MIRAS_API size_t miras_tape_size(const miras_memory *m, int length) {
  return !m || length < 0 ? 0 : miras__tape(&m->plan, length);
}

MIRAS_API miras_result miras_forward(miras_memory *m, const miras_tokens *x, float *y,
                                     float *tape) {
  uint64_t position;
  if (!m || !miras__tokens_ok(&m->plan.d, x)) return MIRAS_ERR_ARGUMENT;
  if (x->length && (!x->query || !y)) return MIRAS_ERR_ARGUMENT;
  position = miras__position(m->state);
  if (tape) {
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

MIRAS_API size_t miras_dstate_size(const miras_memory *m) {
  if (!m) return 0;
  return (size_t)m->plan.d.batch * (size_t)m->plan.d.heads * m->plan.head_dstate;
}

MIRAS_API miras_result miras_backward(miras_memory *m, const miras_tokens *x, float *tape,
                                      const float *dy, const miras_token_grads *dx,
                                      float *dparams, float *dstate) {
  const miras__kernels *kernels = miras__kernels_best();
  const miras__plan *p;
  const miras_desc *d;
  size_t heads, dk, dv, per, b, h;
  float *scratch, *spare;
  uint64_t header[2];
  if (!m || !tape || !dx || !miras__tokens_ok(&m->plan.d, x)) return MIRAS_ERR_ARGUMENT;
  if (x->length && (!x->query || !dy)) return MIRAS_ERR_ARGUMENT;
  p = &m->plan;
  d = &p->d;
  memcpy(header, tape, sizeof header);
  if (header[1] != (uint64_t)x->length) return MIRAS_ERR_ARGUMENT;
  if (dstate && (header[0] + header[1]) % (uint64_t)d->chunk) return MIRAS_ERR_STATE;
  heads = (size_t)d->heads;
  dk = (size_t)d->key_dim;
  dv = (size_t)d->value_dim;
  per = miras__plan_tape(p, (size_t)x->length);
  scratch = tape + 16 + (size_t)d->batch * heads * per;
  spare = scratch + p->scratch_backward;
  memset(spare, 0, (p->weights + 2 * (size_t)p->widest) * sizeof *spare);
  for (b = 0; b < (size_t)d->batch; b++) {
    for (h = 0; h < heads; h++) {
      size_t at = b * (size_t)x->length * heads + h, index = b * heads + h;
      size_t keeps = miras__keep_lanes(d), steps = (size_t)d->steps;
      size_t rates = steps * miras__lanes(d, d->step_gate);
      size_t bounds = miras__lanes(d, d->threshold_gate);
      float *gain = miras__gain(p, m->params, h), *dgain = miras__gain(p, dparams, h);
      float *dbias = dgain ? miras__bias_of(p, dgain) : spare + p->weights + (size_t)p->widest;
      miras__head_io io;
      miras__head_grads g;
      memset(&g, 0, sizeof g);
      miras__memory_io(m, x, (int)b, (int)h, &io);
      g.ldq = heads * dk;
      g.ldk = heads * steps * dk;
      g.ldv = heads * steps * dv;
      g.ld_keep = heads * keeps;
      g.ld_step = heads * rates;
      g.ld_momentum = heads;
      g.ld_threshold = heads * bounds;
      g.ld_value_keep = heads * dv;
      g.ld_erase = g.ld_replace = heads * dk;
      if (dx->key) g.k = dx->key + at * steps * dk;
      if (dx->query) g.q = dx->query + at * dk;
      if (dx->value) g.v = dx->value + at * steps * dv;
      if (dx->value_keep && d->value_gate) g.value_keep = dx->value_keep + at * dv;
      if (dx->erase && d->separate_erase) g.erase = dx->erase + at * dk;
      if (dx->replace && d->separate_erase) g.replace = dx->replace + at * dk;
      if (dparams && d->row_rates) g.rho = dparams + p->at_rho;
      if (dx->keep && d->keep_gate) g.keep = dx->keep + at * keeps;
      if (dx->step && d->step_gate) g.step = dx->step + at * rates;
      if (dx->momentum && d->momentum_gate) g.momentum = dx->momentum + at;
      if (dx->threshold && d->threshold_gate) g.threshold = dx->threshold + at * bounds;
      if (!dgain) dgain = spare + p->weights;
      kernels->head_backward(p, m->params + h * p->weights, gain, miras__bias_of(p, gain),
                             tape + 16 + index * per, header[0], &io, miras__at(dy, at * dv),
                             heads * dv, &g, dparams ? dparams + h * p->weights : spare, dgain,
                             dbias, dstate ? dstate + index * p->head_dstate : NULL, scratch);
    }
  }
  return MIRAS_OK;
}

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

MIRAS_API float miras_memory_norm(const miras_memory *m) {
  const miras__kernels *kernels = miras__kernels_best();
  double total = 0;
  float inv[4];
  size_t b, h, count;
  if (!m) return 0;
  count = m->plan.weights;
  for (b = 0; b < (size_t)m->plan.d.batch; b++) {
    float *state = m->state + b * m->plan.sequence_state;
    for (h = 0; h < (size_t)m->plan.d.heads; h++) {
      float *head = state + 16 + h * m->plan.head_state;
      const float *w = head + m->plan.at_w;
      const uint64_t since = miras__since_read(&m->plan.d, h, miras__position(state));
      if (m->plan.engine == MIRAS__RUN_PAIRS) {        /* the rows that hold pairs */
        size_t held = (size_t)m->plan.d.window;
        if (since < (uint64_t)held) held = (size_t)since;
        total += (double)kernels->dot(w, w, held * (size_t)m->plan.d.key_dim);
        w = head + m->plan.at_d[0];
        total += (double)kernels->dot(w, w, held * (size_t)m->plan.d.value_dim);
        continue;
      }
      /* a fresh memory has not built its weights yet */
      if (since == 0) {
        w = m->params + h * m->plan.weights;
        if (m->plan.mapped) {
          kernels->link(&m->plan, m->spare, w, m->plan.d.toward ? w : NULL, inv);
          w = m->spare;
        }
      } else if (m->plan.engine == MIRAS__RUN_EXACT && m->plan.d.chunk > 1) {
        kernels->head_weights(&m->plan, m->params + h * m->plan.weights, m->spare, head,
                              miras__position(state), h, m->scratch);
        w = m->spare;
      }
      total += (double)kernels->dot(w, w, count);
    }
  }
  return (float)sqrt(total);
}

MIRAS_API void *miras_memory_state(miras_memory *m, size_t *bytes) {
  if (bytes) *bytes = m ? m->state_bytes : 0;
  return m ? m->state : NULL;
}
/* @75 MODEL: SHAPES AND PARAMETERS ---------------------------------------- needs 13 14 70 74 -- */

/* Letters of the rooms 75 to 78: W width, H heads, F hidden width of the SwiGLU, V vocabulary, R
 * rank behind the gates, N tokens of a step (all sequences), T tokens of one sequence. */

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
       MIRAS__GATE_GROUPS };

/* Sizes of a block, all in floats. Rows are padded to whole cache lines (ld_*). The projections
 * of a token lie in one row: q, k, v [before the convolutions], the output gate, the gates' low
 * rank. Of one head and token the memory reads dk numbers as query, kc as keys (dk per descent), vc
 * as values; the layer may project none of its keys (kp = 0, else kc). */
typedef struct miras__shape {
  size_t width, heads, dk, dv, key, value, hidden, taps, rank, vocab, layers, steps;
  size_t kc, vc, kp;
  size_t gain;                     /* of one memory: inner norm's gains, Newton's ridges, or 0    */
  size_t erase, replace, own;      /* columns of a head's rows: offsets after q, k, v, 0: none    */
  size_t per_token;                /* floats of q, k, v and what follows, of one head and token   */
  size_t gates, outs;              /* columns of learned gates: of g, of the gates themselves     */
  size_t moving;                   /* the first of g's, which depend on the token                 */
  miras__gates group[MIRAS__GATE_GROUPS];
  size_t at_k, at_v, at_out, at_low, proj;  /* columns of a row of projections, and their count   */
  size_t ld_x, ld_p, ld_g, ld_y, ld_f, ld_v;
} miras__shape;

/* Where the parameters of a block begin, counted from the block's first float. */
typedef struct miras__slots {
  size_t norm1, q, k, v, conv_q, conv_k, conv_v, gates_down, gates_up, gates_offset, gates_rate;
  size_t erase_scale, erase_mix, memory, gain, bias, rates, out_norm, out_gate, o;
  size_t norm2, mlp_gate, mlp_up, mlp_down;
} miras__slots;

struct miras_model {
  miras_model_desc desc;
  miras__plan plan;                /* of the memory: batch 1                                      */
  miras__shape s;
  miras__slots at;
  size_t first_block, block;       /* parameters of block l start at first_block + l block        */
  size_t tail, run_block, run;     /* floats of a running text: inputs of the convolutions of the
                                      last taps - 1 tokens; with the states of heads; in all      */
  size_t norm, head;               /* final gain; [V, W] of the head (the embedding's when tied)  */
  miras_view *views;
  int view_count;
  size_t param_count;              /* every view starts on a cache line; what lies between is 0   */
  size_t learned;                  /* floats of all views                                         */
  float *params, *grads, *moment1, *moment2;
  uint64_t steps;
  float *gate_scale;               /* [outs]                                                      */
  float *keep;                     /* [layers, H] constant keep gates                             */
  miras_allocator allocator;       /* alloc NULL: not ours to free                                */
  void *memory;
  size_t bytes;

  /* training only; "per layer" buffers are kept for the backward pass */
  size_t rows;                     /* N at most                                                   */
  size_t per_tape, per_qkv;        /* floats per sequence and head                                */
  size_t group;                    /* tiles whose logits are held at a time                       */
  size_t ld_part, scratch_size;
  float *x;                        /* per layer and one more [N, W]: input of each block          */
  float *mid;                      /* per layer [N, W]: between memory and MLP                    */
  float *proj;                     /* per layer [N, proj]                                         */
  float *g;                        /* per layer [N, gates] before their nonlinearity              */
  float *y;                        /* per layer [N, value] what the memory said                   */
  float *ab;                       /* per layer [N, 2 F] before the SwiGLU                        */
  float *tape;                     /* per layer [B, H, per_tape]                                  */
  float *gates, *qkv;              /* [N, gates]; [B, H, per_qkv]                                 */
  float *last, *logits;            /* [N, W] after the final norm; [group, V]                     */
  float *head_t;                   /* [W, V]                                                      */
  float *dqkv, *inverse;           /* as qkv; [B, H, (1 + steps) context] lengths of unit rows    */
  float *dproj, *dgates, *dy;      /* as proj, gates, y                                           */
  float *h, *h2, *out, *s_;        /* forward values again: norm1, norm2, gated memory, SwiGLU    */
  float *d[3];                     /* [N, W] gradient of the residual stream: after, mid, before  */
  float *masked[2];                /* [N, W] the same behind dropout                              */
  float *proj_t;                   /* [proj, W] transposed weights of one block ...               */
  float *up_t, *o_t, *mlp_t;       /* [gates, R], [W, value], [2 F, W]                            */
  float *down_t;                   /* [W, F]                                                      */
  float *part;                     /* [tiles, ld_part] gradients of gains and offsets             */
  float *part_conv;                /* [tiles, taps, columns of q, k, v]                           */
  float *part_erase;               /* [B, 2, key] of scale and mix                                */
  float *part_memory;              /* [B, H weights]                                              */
  float *part_gain, *part_bias;    /* [B, H gain], [B, value]                                     */
  float *part_rates;               /* [B, H, chunk]                                               */
  double *norms;                   /* per block of parameters                                     */
  size_t *first_task;              /* [views + 1]                                                 */
  float *losses;                   /* [N]                                                         */
  int32_t *tokens, *targets;       /* [N] of the last loss                                        */
  float *scratch;                  /* [workers, scratch_size]                                     */
  float *streams;                  /* [streams, run] running texts                                */
  float *tails;                    /* per layer [B, tail]: where the rows of the last loss began  */
  float **runs;                    /* [B] the stream of a row of the last loss, or NULL           */
  uint64_t *starts;                /* [B] its position then                                       */
  int taped, batch, length;        /* the last loss with train 1 can still be differentiated      */
  float unit;                      /* 1 / targets that count                                      */
  uint64_t calls, call;            /* losses with train 1 since the last step; number of this one */
};

static void miras__model_shape(miras__shape *s, const miras_model_desc *d) {
  const miras_desc *m = &d->memory;
  miras__gates *group = s->group;
  int i;
  memset(s, 0, sizeof *s);
  s->width = (size_t)d->width;
  s->heads = (size_t)m->heads;
  s->dk = (size_t)m->key_dim;
  s->dv = (size_t)m->value_dim;
  s->hidden = (size_t)d->hidden;
  s->taps = (size_t)d->conv;
  s->vocab = (size_t)d->vocab;
  s->layers = (size_t)d->layers;
  s->key = s->heads * s->dk;
  s->value = s->heads * s->dv;
  s->steps = (size_t)m->steps;
  s->kc = s->steps * s->dk;
  s->vc = s->steps * s->dv;
  s->kp = d->keys == MIRAS_KEYS_COMPLEMENT ? 0 : s->kc;
  if (m->inner_norm) s->gain = s->dv;
  if (m->algorithm == MIRAS_NEWTON) s->gain = (size_t)miras__features(m);
  s->per_token = s->dk + s->kc + s->vc;
  if (m->separate_erase) {
    s->own = s->per_token;         /* the key before it was split                                 */
    s->erase = s->own + s->dk;
    s->replace = s->erase + s->dk;
    s->per_token = s->replace + s->dk;
  }
  group[MIRAS__KEEP].count = miras__keep_lanes(m);
  group[MIRAS__KEEP].form = (int)d->keep;
  group[MIRAS__STEP].count = miras__lanes(m, m->step_gate) * s->steps;
  group[MIRAS__STEP].form = d->tied_step ? MIRAS__GATE_SOFTPLUS : MIRAS__GATE_SIGMOID;
  group[MIRAS__MOMENTUM].count = miras__lanes(m, m->momentum_gate);
  group[MIRAS__THRESHOLD].count = miras__lanes(m, m->threshold_gate);
  group[MIRAS__THRESHOLD].form = MIRAS__GATE_SOFTPLUS;
  group[MIRAS__VALUE_KEEP].count = m->value_gate ? s->dv : 0;
  group[MIRAS__ERASE].count = d->keys == MIRAS_KEYS_ERASE ? s->dk : 0;
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
  s->rank = s->moving ? (size_t)d->gate_rank : 0;
  s->at_k = s->key;
  s->at_v = s->at_k + s->heads * s->kp;
  s->at_out = s->at_v + s->heads * s->vc;
  s->at_low = s->at_out + s->value;
  s->proj = s->at_low + s->rank;
  s->ld_x = miras__pad(s->width);
  s->ld_p = miras__pad(s->proj);
  s->ld_g = miras__pad(s->outs);
  s->ld_y = miras__pad(s->value);
  s->ld_f = miras__pad(s->hidden);
  s->ld_v = miras__pad(s->vocab);
}

/* Append one parameter to the flat block. layer < 0: of the whole model. Returns its offset. */
static size_t miras__model_view(miras_model *m, miras__arena *a, int layer, const char *name,
                                int rank, size_t s0, size_t s1, int decay) {
  size_t count = 0, offset = m->param_count;
  if (!miras__mul(s0, s1, &count) || count > (size_t)-1 - 15 ||
      !miras__add(offset, miras__pad(count), &m->param_count) ||
      !miras__add(m->learned, count, &m->learned))
    a->ok = 0;
  if (m->views) {
    miras_view *v = &m->views[m->view_count];
    memset(v, 0, sizeof *v);
    if (layer < 0) miras__say(v->name, sizeof v->name, "%s", name);
    else miras__say(v->name, sizeof v->name, "blocks.%d.%s", layer, name);
    v->offset = offset;
    v->count = count;
    v->rank = rank;
    v->shape[0] = (int)s0;
    v->shape[1] = (int)s1;
    v->shape[2] = 1;
    v->decay = decay;
    v->rate = 1;
  }
  m->view_count++;
  return offset;
}

/* All parameters in order. Without m->views it counts; both passes fill the offsets. */
static void miras__model_views(miras_model *m, miras__arena *a) {
  const miras__shape *s = &m->s;
  miras__slots *at = &m->at;
  const miras__gates *keep = &s->group[MIRAS__KEEP];
  size_t w = s->width, kcols = s->heads * s->kp, vcols = s->heads * s->vc;
  size_t chunk = (size_t)m->plan.d.chunk;
  int l, norm = m->plan.d.inner_norm;
  m->param_count = m->learned = 0;
  m->view_count = 0;
  m->head = miras__model_view(m, a, -1, "embed.weight", 2, s->vocab, w, 1);
  m->first_block = m->param_count;
  for (l = 0; l < m->desc.layers; l++) {
    size_t base = m->param_count;
    at->norm1 = miras__model_view(m, a, l, "norm1.gain", 1, w, 1, 0) - base;
    at->q = miras__model_view(m, a, l, "q.weight", 2, w, s->key, 1) - base;
    if (kcols) at->k = miras__model_view(m, a, l, "k.weight", 2, w, kcols, 1) - base;
    at->v = miras__model_view(m, a, l, "v.weight", 2, w, vcols, 1) - base;
    at->conv_q = miras__model_view(m, a, l, "conv_q.weight", 2, s->taps, s->key, 0) - base;
    if (kcols)
      at->conv_k = miras__model_view(m, a, l, "conv_k.weight", 2, s->taps, kcols, 0) - base;
    at->conv_v = miras__model_view(m, a, l, "conv_v.weight", 2, s->taps, vcols, 0) - base;
    if (s->moving) {
      at->gates_down = miras__model_view(m, a, l, "gates.down", 2, w, s->rank, 1) - base;
      at->gates_up = miras__model_view(m, a, l, "gates.up", 2, s->rank, s->moving, 1) - base;
    }
    if (s->gates)
      at->gates_offset = miras__model_view(m, a, l, "gates.offset", 1, s->gates, 1, 0) - base;
    if (keep->count && keep->form == MIRAS__GATE_RATE)
      at->gates_rate = miras__model_view(m, a, l, "gates.rate", 1, keep->count, 1, 0) - base;
    if (s->group[MIRAS__ERASE].count) {
      at->erase_scale = miras__model_view(m, a, l, "erase.scale", 1, s->key, 1, 0) - base;
      at->erase_mix = miras__model_view(m, a, l, "erase.mix", 1, s->key, 1, 0) - base;
    }
    if (m->plan.weights) {
      at->memory =
          miras__model_view(m, a, l, "memory.init", 2, s->heads, m->plan.weights, 0) - base;
      if (m->views) m->views[m->view_count - 1].rate = (float)miras__init_rate(&m->plan);
    }
    if (s->gain)
      at->gain = miras__model_view(m, a, l, norm ? "memory.gain" : "memory.ridge", 2, s->heads,
                                   s->gain, 0) - base;
    if (norm) at->bias = miras__model_view(m, a, l, "memory.bias", 2, s->heads, s->dv, 0) - base;
    if (m->plan.d.row_rates)
      at->rates = miras__model_view(m, a, l, "memory.rates", 1, chunk, 1, 0) - base;
    at->out_norm = miras__model_view(m, a, l, "out_norm.gain", 1, s->value, 1, 0) - base;
    at->out_gate = miras__model_view(m, a, l, "out_gate.weight", 2, w, s->value, 1) - base;
    at->o = miras__model_view(m, a, l, "o.weight", 2, s->value, w, 1) - base;
    at->norm2 = miras__model_view(m, a, l, "norm2.gain", 1, w, 1, 0) - base;
    at->mlp_gate = miras__model_view(m, a, l, "mlp.gate", 2, w, s->hidden, 1) - base;
    at->mlp_up = miras__model_view(m, a, l, "mlp.up", 2, w, s->hidden, 1) - base;
    at->mlp_down = miras__model_view(m, a, l, "mlp.down", 2, s->hidden, w, 1) - base;
    m->block = m->param_count - base;
  }
  m->norm = miras__model_view(m, a, -1, "norm.gain", 1, w, 1, 0);
  if (m->desc.untied) m->head = miras__model_view(m, a, -1, "head.weight", 2, s->vocab, w, 1);
}

/* Refuse what a layer around the resolved memory cannot mean. */
static miras_result miras__layer_resolve(const miras_model_desc *d, char *why, size_t n) {
  const miras_desc *m = &d->memory;
  if ((d->keys == MIRAS_KEYS_ERASE) != (m->separate_erase != 0)) {
    miras__say(why, n, "keys is %d with memory.separate_erase %d; MIRAS_KEYS_ERASE (%d) and "
                       "separate_erase 1 need each other", (int)d->keys, m->separate_erase,
               (int)MIRAS_KEYS_ERASE);
    return MIRAS_ERR_DESC;
  }
  if (d->keys == MIRAS_KEYS_COMPLEMENT &&
      (m->keep_gate != MIRAS_GATE_CHANNEL || m->steps != 1 ||
       miras__keep_lanes(m) != (size_t)m->key_dim)) {
    miras__say(why, n, "keys is MIRAS_KEYS_COMPLEMENT (%d), which needs memory.keep_gate "
                       "MIRAS_GATE_CHANNEL with a gate per entry of the key, and memory.steps 1",
               (int)d->keys);
    return MIRAS_ERR_DESC;
  }
  if (d->keep && !m->keep_gate) {
    miras__say(why, n, "keep is %d, but it has a meaning only with a learned memory.keep_gate; set "
                       "it to 0", (int)d->keep);
    return MIRAS_ERR_DESC;
  }
  if (m->key_length) {
    miras__say(why, n, "memory.key_length is %d; inside a model the field keys says how long "
                       "keys are: set it to 0", (int)m->key_length);
    return MIRAS_ERR_DESC;
  }
  if ((d->fixed_gates & MIRAS_FIXED_KEEP && !m->keep_gate) ||
      (d->fixed_gates & MIRAS_FIXED_STEP && (!m->step_gate || d->tied_step)) ||
      (d->fixed_gates & MIRAS_FIXED_MOMENTUM && !m->momentum_gate) ||
      (d->fixed_gates & MIRAS_FIXED_THRESHOLD && !m->threshold_gate) ||
      (d->fixed_gates & MIRAS_FIXED_VALUE_KEEP && !m->value_gate)) {
    miras__say(why, n, "fixed_gates is %d, but not all of these gates are learned here, or one "
                       "is tied to another; leave such gates out", d->fixed_gates);
    return MIRAS_ERR_DESC;
  }
  if (d->horizon && (!m->keep_gate || d->horizon < 2)) {
    miras__say(why, n, "horizon is %d; it must be 0, or from 2 on with a learned memory.keep_gate",
               d->horizon);
    return MIRAS_ERR_DESC;
  }
  if (d->tied_step && (d->keep != MIRAS_KEEP_RATE || m->keep_gate != MIRAS_GATE_HEAD ||
                       m->step_gate != MIRAS_GATE_HEAD || m->steps != 1)) {
    miras__say(why, n, "tied_step is 1, which needs keep MIRAS_KEEP_RATE (%d), memory.keep_gate "
                       "and memory.step_gate MIRAS_GATE_HEAD and memory.steps 1",
               (int)MIRAS_KEEP_RATE);
    return MIRAS_ERR_DESC;
  }
  return MIRAS_OK;
}

/* Sizes of the state of one running text, in floats (each part starts on a multiple of 16): a
 * header of 16 whose first eight bytes are the position, then per block the inputs of the
 * convolutions of the last taps - 1 tokens (q k v, one row each) and the states of the heads. 0:
 * too large. */
static int miras__run_size(miras_model *m) {
  const miras__shape *s = &m->s;
  size_t states = 0;
  m->tail = miras__pad((s->taps - 1) * s->at_out);
  return miras__mul(m->plan.head_state, s->heads, &states) &&
         miras__add(states, m->tail, &m->run_block) &&
         miras__mul(m->run_block, s->layers, &m->run) && miras__add(m->run, 16, &m->run) &&
         m->run <= (size_t)-1 / sizeof(float);
}

/* Replace zeros by defaults, refuse what is not meant, plan the memory. */
static miras_result miras__model_resolve(miras_model *m, const miras_model_desc *from, char *why,
                                         size_t n) {
  miras_model_desc *d = &m->desc;
  miras_result result;
  if (why && n) why[0] = 0;
  if (!from) {
    miras__say(why, n, "the descriptor is NULL");
    return MIRAS_ERR_ARGUMENT;
  }
  memset(m, 0, sizeof *m);
  *d = *from;
  if (!miras__whole(why, n, "vocab", d->vocab, 2, 1 << 24) ||
      !miras__whole(why, n, "width", d->width, 1, 65536) ||
      !miras__whole(why, n, "layers", d->layers, 1, 256))
    return MIRAS_ERR_DESC;
  if (!d->hidden) d->hidden = ((8 * d->width + 2) / 3 + 7) / 8 * 8;
  if (!d->conv) d->conv = 4;
  if (!d->gate_rank) d->gate_rank = 32;
  if (!miras__whole(why, n, "hidden", d->hidden, 1, 1 << 20) ||
      !miras__whole(why, n, "conv", d->conv, 1, 8) ||
      !miras__whole(why, n, "gate_rank", d->gate_rank, 1, 4096) ||
      !miras__whole(why, n, "keys", (int)d->keys, 0, MIRAS_KEYS_COUNT - 1) ||
      !miras__whole(why, n, "keep", (int)d->keep, 0, MIRAS_KEEP_COUNT - 1) ||
      !miras__whole(why, n, "tied_step", d->tied_step, 0, 1) ||
      !miras__whole(why, n, "fixed_gates", d->fixed_gates, 0, 31) ||
      !miras__whole(why, n, "horizon", d->horizon, 0, 1 << 30) ||
      !miras__whole(why, n, "untied", d->untied, 0, 1) ||
      !miras__whole(why, n, "streams", d->streams, 0, d->batch ? 1 << 20 : 0) ||
      !miras__real(why, n, "dropout", d->dropout, 0, 0.9) ||
      !miras__whole(why, n, "batch", d->batch, 0, 65536) ||
      !miras__whole(why, n, "context", d->context, d->batch ? 1 : 0, 1 << 24))
    return MIRAS_ERR_DESC;
  if (d->parallel) {
    if (!miras__whole(why, n, "parallel->workers", d->parallel->workers, 1, 256))
      return MIRAS_ERR_DESC;
    if (!d->parallel->run) {
      miras__say(why, n, "parallel->run is NULL; it must be a function, or parallel itself NULL");
      return MIRAS_ERR_DESC;
    }
  }
  d->memory.batch = 1;
  if (d->memory.slopes) {
    d->memory.layer = 0;
    d->memory.layers = d->layers;
  }
  result = miras__plan_make(&m->plan, &d->memory, why, n);
  if (result != MIRAS_OK) return result;
  d->memory = m->plan.d;
  result = miras__layer_resolve(d, why, n);
  if (result != MIRAS_OK) return result;
  if (m->plan.weights > (size_t)INT_MAX) {
    miras__say(why, n, "a memory has %zu weights; a model allows up to %d per head",
               m->plan.weights, INT_MAX);
    return MIRAS_ERR_DESC;
  }
  if (d->batch && (d->batch > INT_MAX / d->context || d->batch > INT_MAX / d->memory.heads)) {
    miras__say(why, n, "batch is %d; with context %d and heads %d a step would be larger than 2^31 "
                       "tokens or heads", d->batch, d->context, d->memory.heads);
    return MIRAS_ERR_DESC;
  }
  miras__model_shape(&m->s, d);
  if (!miras__run_size(m)) {
    miras__say(why, n, "the state of a running text is larger than this machine can address");
    return MIRAS_ERR_DESC;
  }
  if (d->streams && m->run > (size_t)INT_MAX) {
    miras__say(why, n, "streams is %d; each has %zu numbers, and up to %d are allowed", d->streams,
               m->run, INT_MAX);
    return MIRAS_ERR_DESC;
  }
  if (m->s.proj > (size_t)INT_MAX || m->s.outs > (size_t)INT_MAX) {
    miras__say(why, n, "heads, key_dim, value_dim, steps and gates make %zu numbers per token; a "
                       "model allows up to %d", m->s.proj + m->s.outs, INT_MAX);
    return MIRAS_ERR_DESC;
  }
  return MIRAS_OK;
}

/* Floats of scratch that rooms 76 and 77 need to take rows through a layer. */
static size_t miras__row_scratch(const miras__shape *s) {
  return MIRAS__PACK + MIRAS__TILE * (2 * s->ld_x + s->ld_y + s->ld_f) +
         (MIRAS__TILE + 8) * s->ld_p;
}

static float *miras__floats(miras__arena *a, size_t n0, size_t n1, size_t n2) {
  size_t n = 0;
  if (!miras__mul(n0, n1, &n) || !miras__mul(n, n2, &n)) a->ok = 0;
  return (float *)miras__take(a, n, sizeof(float));
}

static size_t miras__tiles(size_t tokens) { return (tokens + MIRAS__TILE - 1) / MIRAS__TILE; }

#define MIRAS__NORM_BLOCK 4096     /* gradients whose squares are summed in one piece             */
#define MIRAS__ADAM_BLOCK 16384    /* parameters that one task updates                            */

/* Lay everything out over a; with a->base NULL only the size is found. */
static void miras__model_layout(miras_model *m, miras__arena *a) {
  const miras__shape *s = &m->s;
  size_t b = (size_t)m->desc.batch, t = (size_t)m->desc.context, n = b * t, per = s->layers;
  size_t heads = b * s->heads, workers, hold, i;
  m->views = NULL;
  miras__model_views(m, a);
  m->views = (miras_view *)miras__take(a, (size_t)m->view_count, sizeof(miras_view));
  m->params = miras__floats(a, m->param_count, 1, 1);
  m->gate_scale = miras__floats(a, s->outs, 1, 1);
  m->keep = miras__floats(a, s->layers, s->heads, 1);
  if (!b) return;
  m->grads = miras__floats(a, m->param_count, 1, 1);
  m->moment1 = miras__floats(a, m->param_count, 1, 1);
  m->moment2 = miras__floats(a, m->param_count, 1, 1);
  m->streams = miras__floats(a, 1, (size_t)m->desc.streams, m->run);
  m->tails = miras__floats(a, m->desc.streams ? per : 0, b, m->tail);
  m->runs = (float **)miras__take(a, b, sizeof(float *));
  m->starts = (uint64_t *)miras__take(a, b, sizeof(uint64_t));
  m->rows = n;
  m->per_tape = miras__plan_tape(&m->plan, t);
  if (!m->per_tape || !miras__mul(t, s->per_token, &m->per_qkv)) a->ok = 0;
  m->x = miras__floats(a, per + 1, n, s->ld_x);
  m->mid = miras__floats(a, per, n, s->ld_x);
  m->proj = miras__floats(a, per, n, s->ld_p);
  m->g = miras__floats(a, per, n, s->ld_g);
  m->y = miras__floats(a, per, n, s->ld_y);
  m->ab = miras__floats(a, per, n, 2 * s->ld_f);
  m->per_tape = m->per_tape > (size_t)-1 - 15 ? m->per_tape : miras__pad(m->per_tape);
  m->per_qkv = m->per_qkv > (size_t)-1 - 15 ? m->per_qkv : miras__pad(m->per_qkv);
  m->tape = miras__floats(a, per, heads, m->per_tape);
  m->gates = miras__floats(a, 1, n, s->ld_g);
  m->qkv = miras__floats(a, 1, heads, m->per_qkv);
  m->last = miras__floats(a, 1, n, s->ld_x);
  /* logits of many tokens and words at once would dwarf the model: past 2^25 floats they are made
   * in groups of tiles, and once more for the backward pass */
  hold = ((size_t)1 << 25) / s->ld_v / MIRAS__TILE;
  m->group = hold ? hold : 1;
  hold = m->group * MIRAS__TILE;
  m->logits = miras__floats(a, 1, hold < n ? hold : n, s->ld_v);
  m->head_t = miras__floats(a, 1, s->width, s->ld_v);
  m->dqkv = miras__floats(a, 1, heads, m->per_qkv);
  m->inverse = miras__floats(a, heads, 1 + s->steps, t);
  m->dproj = miras__floats(a, 1, n, s->ld_p);
  m->dgates = miras__floats(a, 1, n, s->ld_g);
  m->dy = miras__floats(a, 1, n, s->ld_y);
  m->h = miras__floats(a, 1, n, s->ld_x);
  m->h2 = miras__floats(a, 1, n, s->ld_x);
  m->out = miras__floats(a, 1, n, s->ld_y);
  m->s_ = miras__floats(a, 1, n, s->ld_f);
  for (i = 0; i < 3; i++) m->d[i] = miras__floats(a, 1, n, s->ld_x);
  for (i = 0; i < 2 && m->desc.dropout > 0; i++) m->masked[i] = miras__floats(a, 1, n, s->ld_x);
  m->proj_t = miras__floats(a, 1, s->proj, s->ld_x);
  m->up_t = miras__floats(a, 1, s->moving, miras__pad(s->rank));
  m->o_t = miras__floats(a, 1, s->width, s->ld_y);
  m->mlp_t = miras__floats(a, 2, s->hidden, s->ld_x);
  m->down_t = miras__floats(a, 1, s->width, s->ld_f);
  m->ld_part = 3 * s->ld_x + s->ld_y + 2 * s->ld_g;
  m->part = miras__floats(a, b, miras__tiles(t), m->ld_part);
  m->part_conv = miras__floats(a, b * miras__tiles(t), s->taps, s->at_out);
  m->part_erase = miras__floats(a, b, s->group[MIRAS__ERASE].count ? 2 : 0, s->key);
  m->part_memory = miras__floats(a, b, s->heads, m->plan.weights);
  m->part_gain = miras__floats(a, b, s->heads, s->gain > s->dv ? s->gain : s->dv);
  m->part_bias = miras__floats(a, 1, b, s->value);
  m->part_rates = miras__floats(a, b, s->heads, m->plan.d.row_rates ? (size_t)m->plan.d.chunk : 0);
  m->norms = (double *)miras__take(a, m->param_count / MIRAS__NORM_BLOCK + 1, sizeof(double));
  m->first_task = (size_t *)miras__take(a, (size_t)m->view_count + 1, sizeof(size_t));
  m->losses = miras__floats(a, 1, 1, n);
  m->tokens = (int32_t *)miras__take(a, n, sizeof(int32_t));
  m->targets = (int32_t *)miras__take(a, n, sizeof(int32_t));
  workers = m->desc.parallel ? (size_t)m->desc.parallel->workers : 1;
  m->scratch_size = m->plan.head_state + m->plan.scratch_backward;
  if (m->scratch_size < miras__row_scratch(s)) m->scratch_size = miras__row_scratch(s);
  m->scratch_size = miras__pad(m->scratch_size);
  m->scratch = miras__floats(a, 1, workers, m->scratch_size);
}

/* A session's state is that of a running text. */
struct miras_session {
  const miras_model *model;
  void *state;
  size_t state_bytes;
  size_t held;                     /* rows of logits                                              */
  float *x, *mid, *last;           /* [tile, W]                                                   */
  float *proj;                     /* [tile, proj]                                                */
  float *g, *gates, *y, *ab;       /* [tile, ...] as in training                                  */
  float *qkv;                      /* [H, tile, per token]                                        */
  float *logits;                   /* [held, V]                                                   */
  float *scratch;
  miras_allocator allocator;       /* alloc NULL: not ours to free                                */
  void *memory;
  size_t bytes;
};

static void miras__session_layout(miras_session *s, miras__arena *a, const miras_model *m) {
  const miras__shape *z = &m->s;
  size_t scratch = miras__row_scratch(z);
  s->model = m;
  s->state_bytes = m->run * sizeof(float);
  s->state = miras__take(a, m->run, sizeof(float));
  s->held = ((size_t)1 << 18) / z->ld_v;
  if (s->held < 1) s->held = 1;
  if (s->held > MIRAS__TILE) s->held = MIRAS__TILE;
  s->x = miras__floats(a, 1, MIRAS__TILE, z->ld_x);
  s->mid = miras__floats(a, 1, MIRAS__TILE, z->ld_x);
  s->last = miras__floats(a, 1, MIRAS__TILE, z->ld_x);
  s->proj = miras__floats(a, 1, MIRAS__TILE, z->ld_p);
  s->g = miras__floats(a, 1, MIRAS__TILE, z->ld_g);
  s->gates = miras__floats(a, 1, MIRAS__TILE, z->ld_g);
  s->y = miras__floats(a, 1, MIRAS__TILE, z->ld_y);
  s->ab = miras__floats(a, 2, MIRAS__TILE, z->ld_f);
  s->qkv = miras__floats(a, z->heads, MIRAS__TILE, z->per_token);
  s->logits = miras__floats(a, 1, s->held, z->ld_v);
  s->scratch = miras__floats(a, 1, 1, m->plan.scratch > scratch ? m->plan.scratch : scratch);
}

static size_t miras__session_bytes(const miras_model *m) {
  miras__arena a;
  miras_session s;
  memset(&a, 0, sizeof a);
  memset(&s, 0, sizeof s);
  a.ok = 1;
  (void)miras__take(&a, 1, sizeof s);
  miras__session_layout(&s, &a, m);
  return a.ok && miras__add(a.used, 63, &a.used) ? a.used : 0;
}

/* Bytes of a resolved model, for a buffer of any alignment; 0 if that, or what a session of it
 * would need, is too much. */
static size_t miras__model_bytes_of(miras_model *m, char *why, size_t why_size) {
  const uint64_t limit = m->desc.limit;
  size_t session = miras__session_bytes(m);
  miras__arena a;
  memset(&a, 0, sizeof a);
  a.ok = 1;
  (void)miras__take(&a, 1, sizeof *m);
  miras__model_layout(m, &a);
  if (!a.ok || !miras__add(a.used, 63, &a.used)) {
    miras__say(why, why_size, "the model is larger than this machine can address");
    return 0;
  }
  if (!session) session = (size_t)-1;   /* more than that */
  if (limit && (a.used > limit || session > limit)) {
    miras__say(why, why_size, "limit is %zu bytes; the model takes %zu and a session of it %zu",
               (size_t)limit, a.used, session);
    return 0;
  }
  return a.used;
}

/* w[i] = deviation sqrt(3) u, which has that deviation. */
static void miras__draw(float *w, size_t n, uint64_t seed, double deviation) {
  size_t i;
  for (i = 0; i < n; i++)
    w[i] = (float)(deviation * 1.7320508075688772 * (double)miras__uniform(seed, (uint64_t)i));
}

static double miras__logit(double p) { return log(p / (1 - p)); }

/* The g that makes a keep gate 1 - f, by the formulas of room @65; rate receives c of RATE. */
static double miras__keep_start(const miras_model *m, double f, double *rate) {
  double loss, g;
  f = 1 - (1 - f) / (double)m->s.group[MIRAS__KEEP].cap;
  if (f < 1e-4) f = 1e-4;
  if (f > 0.5) f = 0.5;
  loss = -log(1 - f);
  *rate = 0;
  switch (m->desc.keep) {
    case MIRAS_KEEP_ROOT: return miras__logit(exp(-16 * loss));
    case MIRAS_KEEP_RATE:
      /* a tied step starts at softplus(g) = 0.1; otherwise the loss is softplus(g) itself */
      g = m->desc.tied_step ? 0.1 : loss;
      *rate = log(loss / g);
      return log(expm1(g));
    case MIRAS_KEEP_BOUNDED:
      g = loss / 0.60653066;
      return miras__logit(g < 0.95 ? g : 0.95);
    default: return miras__logit(1 - f);
  }
}

/* Where the gates start: forgetting as the descriptor's constants would, steps at half. rate: of
 * the keep gates, or NULL. */
static void miras__draw_gates(const miras_model *m, float *offset, float *rate) {
  const miras_desc *d = &m->plan.d;
  const miras__shape *s = &m->s;
  const miras__gates *g = s->group;
  double forget = d->forget > 0 ? (double)d->forget : 1.0 / 64, momentum = (double)d->momentum;
  size_t h, i, each = g[MIRAS__KEEP].count / s->heads;
  for (i = 0; i < s->gates; i++) offset[i] = 0;
  for (h = 0; h < s->heads; h++) {
    double c, start = miras__keep_start(m, forget, &c);
    for (i = 0; i < each; i++) {
      offset[g[MIRAS__KEEP].offset + h * each + i] = (float)start;
      if (rate) rate[h * each + i] = (float)c;
    }
    forget *= d->forget_ratio > 0 ? (double)d->forget_ratio : 1;
  }
  for (i = 0; i < g[MIRAS__MOMENTUM].count; i++)
    offset[g[MIRAS__MOMENTUM].offset + i] =
        (float)miras__logit(momentum < 0.05 ? 0.05 : momentum > 0.95 ? 0.95 : momentum);
  for (i = 0; i < g[MIRAS__THRESHOLD].count; i++)
    offset[g[MIRAS__THRESHOLD].offset + i] = 0.5413f;   /* softplus of it is 1 */
  for (i = 0; i < g[MIRAS__VALUE_KEEP].count; i++)
    offset[g[MIRAS__VALUE_KEEP].offset + i] = (float)miras__logit(63.0 / 64);
}

/* q[rows, heads, key_dim]: of k[rows, heads, steps, key_dim] the keys of the first of a token's
 * descents. */
static void miras__query_as_key(const miras__shape *s, size_t rows, float *q, const float *k) {
  size_t i;
  for (i = 0; i < rows * s->heads; i++) memcpy(q + i * s->dk, k + i * s->kp, s->dk * sizeof *q);
}

/* Initial values. Deviation 1/sqrt(fan in); what writes to the residual stream is smaller, so that
 * the stream does not grow with depth. With an inner norm and keys of length 1
 *   queries start as the keys, projection and convolution: a new network then finds what it wrote
 *           (Trockman et al. 2024), and need not learn first that both must agree
 *   values  of the first half of the heads have three times the deviation: convolution and SiLU
 *           shrink them, and answers, whose size the norm fixes, would hide them in the residual.
 *           The other heads begin as functions of the token that the memory scarcely changes, which
 *           short texts have more use for. Under L_p all values are large: there an answer larger
 *           than its value has a gradient of its own, which L2 has not behind the norm
 * Matrices, which are linear in the value, learn to look up sooner without either, and so do
 * perceptrons with longer keys, which reach the bends of their activations. */
static void miras__model_draw(miras_model *m) {
  const miras__shape *s = &m->s;
  const miras__slots *at = &m->at;
  uint64_t seed = miras__hash(m->desc.seed);
  double in = 1 / sqrt((double)s->width), deep = 1 / sqrt(2.0 * (double)s->layers);
  double tap = 1 / sqrt(3.0 * (double)s->taps);
  const miras__gates *keep = &s->group[MIRAS__KEEP];
  const int found = m->plan.d.inner_norm && m->desc.keys == MIRAS_KEYS_UNIT;
  size_t l, i, column, kcols = s->heads * s->kp, vcols = s->heads * s->vc;
  size_t large = (m->plan.d.bias == MIRAS_LP ? s->heads : (s->heads + 1) / 2) * s->vc;
  miras__draw(m->params, s->vocab * s->width, seed, 0.02);
  for (l = 0; l < s->layers; l++) {
    float *w = m->params + m->first_block + l * m->block, *memory = w + at->memory;
    uint64_t own = miras__hash(seed + l + 1);
    miras__plan plan = m->plan;
    size_t to[3], many[3], end;
    for (i = 0; i < s->width; i++) w[at->norm1 + i] = w[at->norm2 + i] = 1;
    miras__draw(w + at->k, s->width * kcols, own + 2, in);
    miras__draw(w + at->v, s->width * vcols, own + 3, in);
    miras__draw(w + at->conv_k, s->taps * kcols, own + 5, tap);
    if (found) {
      miras__query_as_key(s, s->width, w + at->q, w + at->k);
      miras__query_as_key(s, s->taps, w + at->conv_q, w + at->conv_k);
      for (i = 0; i < s->width; i++)
        for (column = 0; column < large; column++) w[at->v + i * vcols + column] *= 3;
    } else {
      miras__draw(w + at->q, s->width * s->key, own + 1, in);
      miras__draw(w + at->conv_q, s->taps * s->key, own + 4, tap);
    }
    miras__draw(w + at->conv_v, s->taps * vcols, own + 6, tap);
    if (s->moving) {
      miras__draw(w + at->gates_down, s->width * s->rank, own + 7, in);
      miras__draw(w + at->gates_up, s->rank * s->moving, own + 8, 0.1 / sqrt((double)s->rank));
    }
    if (s->gates)
      miras__draw_gates(m, w + at->gates_offset,
                        keep->count && keep->form == MIRAS__GATE_RATE ? w + at->gates_rate : NULL);
    for (i = 0; i < s->group[MIRAS__ERASE].count; i++)
      w[at->erase_scale + i] = w[at->erase_mix + i] = 1;
    /* The memory's parameters come in one piece, which starts at memory.init; the others then move
     * to their cache lines, the last first, and what is left between them is cleared. */
    plan.d.seed = miras__hash(own + 9);
    if (plan.params) miras__plan_init_params(&plan, memory);
    to[0] = at->gain, many[0] = s->heads * s->gain;
    to[1] = at->bias, many[1] = plan.d.inner_norm ? s->value : 0;
    to[2] = at->rates, many[2] = plan.d.row_rates ? (size_t)plan.d.chunk : 0;
    for (i = 0, end = s->heads * plan.weights; i < 3; i++) end += many[i];
    for (i = 3; i-- > 0;) {
      end -= many[i];
      if (many[i]) memmove(w + to[i], memory + end, many[i] * sizeof(float));
    }
    for (i = 0, end = at->memory + s->heads * plan.weights; i < 3; i++) {
      if (!many[i]) continue;
      while (end < to[i]) w[end++] = 0;
      end = to[i] + many[i];
    }
    for (i = 0; i < s->value; i++) w[at->out_norm + i] = 1;
    miras__draw(w + at->out_gate, s->width * s->value, own + 10, in);
    miras__draw(w + at->o, s->value * s->width, own + 11, deep / sqrt((double)s->value));
    miras__draw(w + at->mlp_gate, s->width * s->hidden, own + 12, in);
    miras__draw(w + at->mlp_up, s->width * s->hidden, own + 13, in);
    miras__draw(w + at->mlp_down, s->hidden * s->width, own + 14, deep / sqrt((double)s->hidden));
  }
  for (i = 0; i < s->width; i++) m->params[m->norm + i] = 1;
  if (m->desc.untied) miras__draw(m->params + m->head, s->vocab * s->width, seed + 1, in);
}

/* Build a resolved model at buffer; every offset was checked by miras__model_bytes_of. */
static miras_model *miras__model_build(void *buffer, size_t bytes, const miras_model *resolved) {
  miras__arena a;
  miras_model *m;
  const miras__gates *group;
  size_t h, tasks = 0;
  int i;
  memset(&a, 0, sizeof a);
  a.ok = 1;
  a.base = miras__align(buffer);
  m = (miras_model *)miras__take(&a, 1, sizeof *m);
  *m = *resolved;
  m->memory = buffer;
  m->bytes = bytes;
  group = m->s.group;
  miras__model_layout(m, &a);
  miras__model_views(m, &a);
  /* padding must be zero and stay so: sums over the whole block may then ignore it */
  memset(m->params, 0, m->param_count * sizeof(float));
  for (i = 0; i < m->desc.layers; i++)
    miras__constant_keeps(&m->plan.d, i, m->keep + (size_t)i * m->s.heads);
  for (h = 0; h < m->s.outs; h++) m->gate_scale[h] = 1;
  for (h = 0; h < group[MIRAS__STEP].count; h++)
    m->gate_scale[group[MIRAS__STEP].first + h] = m->plan.d.step;
  for (h = 0; h < group[MIRAS__THRESHOLD].count; h++)
    m->gate_scale[group[MIRAS__THRESHOLD].first + h] = m->plan.d.threshold;
  miras__model_draw(m);
  if (m->desc.batch) {
    memset(m->grads, 0, m->param_count * sizeof(float));
    memset(m->moment1, 0, m->param_count * sizeof(float));
    memset(m->moment2, 0, m->param_count * sizeof(float));
    memset(m->streams, 0, (size_t)m->desc.streams * m->run * sizeof(float));
    for (i = 0; i < m->view_count; i++) {
      m->first_task[i] = tasks;
      tasks += (m->views[i].count + MIRAS__ADAM_BLOCK - 1) / MIRAS__ADAM_BLOCK;
    }
    m->first_task[i] = tasks;
  }
  return m;
}

MIRAS_API size_t miras_model_size(const miras_model_desc *d, char *why, size_t why_size) {
  miras_model m;
  if (miras__model_resolve(&m, d, why, why_size) != MIRAS_OK) return 0;
  return miras__model_bytes_of(&m, why, why_size);
}

MIRAS_API miras_model *miras_model_init(void *buffer, size_t bytes, const miras_model_desc *d) {
  miras_model m;
  size_t need;
  if (!buffer || miras__model_resolve(&m, d, NULL, 0) != MIRAS_OK) return NULL;
  need = miras__model_bytes_of(&m, NULL, 0);
  return !need || bytes < need ? NULL : miras__model_build(buffer, need, &m);
}

MIRAS_API miras_model *miras_model_open(const miras_model_desc *d,
                                        const miras_allocator *allocator) {
  miras_allocator from = miras__allocator(allocator);
  miras_model m, *built;
  size_t need;
  void *buffer;
  if (miras__model_resolve(&m, d, NULL, 0) != MIRAS_OK) return NULL;
  need = miras__model_bytes_of(&m, NULL, 0);
  buffer = need ? from.alloc(need, from.user) : NULL;
  if (!buffer) return NULL;
  built = miras__model_build(buffer, need, &m);
  built->allocator = from;
  return built;
}

MIRAS_API void miras_model_close(miras_model *m) {
  miras_allocator from;
  if (!m || !m->allocator.alloc) return;
  from = m->allocator;
  from.free(m->memory, m->bytes, from.user);
}

MIRAS_API const miras_model_desc *miras_model_desc_of(const miras_model *m) {
  return m ? &m->desc : NULL;
}

MIRAS_API float *miras_model_params(miras_model *m, size_t *count) {
  if (count) *count = m ? m->param_count : 0;
  return m ? m->params : NULL;
}

MIRAS_API float *miras_model_grads(miras_model *m) { return m ? m->grads : NULL; }

MIRAS_API const miras_view *miras_model_views(const miras_model *m, int *count) {
  if (count) *count = m ? m->view_count : 0;
  return m ? m->views : NULL;
}

MIRAS_API uint64_t miras_model_steps(const miras_model *m) { return m ? m->steps : 0; }

/* @76 LAYER: FORWARD OVER ROWS OF TOKENS ---------------------------------------- needs 65 75 -- */

/* These functions are all that training, prefill and decoding run, so the three agree to the bit.
 * w: the block's parameters; n <= MIRAS__TILE rows; scratch: miras__row_scratch floats. */

/* Masks of one call: the key of a row follows from seed, step, call, site and row (dropout,
 * @65). */
typedef struct miras__drop {
  uint64_t key;
  uint32_t limit;
  float scale;
} miras__drop;

static void miras__drop_rows(const miras__kernels *k, const miras__drop *drop, size_t site,
                             size_t row, float *y, const float *base, const float *x, size_t ld,
                             size_t rows, size_t n) {
  uint64_t key = miras__hash(drop->key + (uint64_t)site);
  size_t t;
  for (t = 0; t < rows; t++)
    k->dropout(y + t * ld, base ? base + t * ld : NULL, x + t * ld, miras__hash(key + row + t),
               drop->limit, drop->scale, n);
}

/* Keys, queries and values of a sequence as its memories read them: per head, `per` floats apart,
 * q [length, dk], k [length, kc], v [length, vc] and, with separate_erase, the key before it was
 * split, erase and replace, [length, dk] each. */
typedef struct miras__qkv {
  float *base;
  size_t per, length;
} miras__qkv;

/* Row `row` of the part that starts `at` floats into a token's and is n wide. */
static float *miras__part(const miras__qkv *of, size_t at, size_t n, size_t row) {
  return of->base + at * of->length + row * n;
}

/* h [n, W] -> q, k, v before the convolutions */
static void miras__project_qkv(const miras_model *m, const miras__kernels *k, const float *w,
                               size_t n, const float *h, float *proj, float *pack) {
  const miras__shape *s = &m->s;
  const miras__slots *at = &m->at;
  size_t width = s->width;
  miras__matmul(k, MIRAS__SET, proj, s->ld_p, h, s->ld_x, 1, w + at->q, s->key, 1, n, s->key, width,
                pack);
  if (s->kp)
    miras__matmul(k, MIRAS__SET, proj + s->at_k, s->ld_p, h, s->ld_x, 1, w + at->k,
                  s->heads * s->kp, 1, n, s->heads * s->kp, width, pack);
  miras__matmul(k, MIRAS__SET, proj + s->at_v, s->ld_p, h, s->ld_x, 1, w + at->v,
                s->heads * s->vc, 1, n, s->heads * s->vc, width, pack);
}

/* Length that the layer gives keys and queries; 0: their own. */
static float miras__key_length(const miras_model *m) {
  if (m->desc.keys == MIRAS_KEYS_UNIT) return 1;
  return m->desc.keys == MIRAS_KEYS_RMS ? (float)sqrt((double)m->s.dk) : 0;
}

/* Convolve, activate, and bring keys and queries to their length: rows `first` on of to. past as
 * in conv_fwd; inverse NULL or, per head, (1 + steps) stride floats for lengths of q, k. */
static void miras__convolve(const miras_model *m, const miras__kernels *k, const float *w, size_t n,
                            const float *proj, const float *past, size_t ldpast,
                            const miras__qkv *to, size_t first, float *inverse, size_t stride) {
  const miras__shape *s = &m->s;
  const miras__slots *at = &m->at;
  float *q = miras__part(to, 0, s->dk, first), *v = miras__part(to, s->dk + s->kc, s->vc, first);
  float *kk = s->own ? miras__part(to, s->own, s->dk, first)
                     : miras__part(to, s->dk, s->kc, first);
  float length = miras__key_length(m);
  size_t h;
  k->conv_fwd(q, to->per, proj, s->ld_p, past, ldpast, w + at->conv_q, s->taps, n, s->heads, s->dk);
  if (s->kp)
    k->conv_fwd(kk, to->per, proj + s->at_k, s->ld_p, past ? past + s->at_k : NULL, ldpast,
                w + at->conv_k, s->taps, n, s->heads, s->kp);
  k->conv_fwd(v, to->per, proj + s->at_v, s->ld_p, past ? past + s->at_v : NULL, ldpast,
              w + at->conv_v, s->taps, n, s->heads, s->vc);
  for (h = 0; length > 0 && h < s->heads; h++) {
    float *r = inverse ? inverse + h * (1 + s->steps) * stride : NULL;
    k->unit_fwd(q + h * to->per, r ? r + first : NULL, length, n, s->dk);
    k->unit_fwd(kk + h * to->per, r ? r + stride + first * s->steps : NULL, length, n * s->steps,
                s->dk);
  }
}

/* g [n, gates] -> gates [n, outs]. offset NULL: g holds it already. */
static void miras__make_gates(const miras_model *m, const miras__kernels *k, const float *w,
                              size_t n, float *g, float *gates, const float *offset) {
  const miras__shape *s = &m->s;
  int i;
  for (i = 0; i < MIRAS__GATE_GROUPS; i++) {
    const miras__gates *group = &s->group[i];
    int tied = group->from != group->first;
    if (group->count)
      k->gates_fwd(group->form, group->cap, gates + group->first, g + group->from, s->ld_g,
                   offset && !tied ? offset + group->offset : NULL,
                   group->form == MIRAS__GATE_RATE ? w + m->at.gates_rate
                                                   : m->gate_scale + group->first,
                   n, group->count);
  }
}

/* Keys that the layer makes with the help of gates: rows `first` on of to. */
static void miras__make_keys(const miras_model *m, const miras__kernels *k, const float *w,
                             size_t n, const float *g, const float *gates, const miras__qkv *to,
                             size_t first) {
  const miras__shape *s = &m->s;
  size_t h;
  if (m->desc.keys == MIRAS_KEYS_COMPLEMENT) {
    const miras__gates *keep = &s->group[MIRAS__KEEP];
    for (h = 0; h < s->heads; h++)
      k->complement(keep->form, keep->cap, miras__part(to, s->dk, s->dk, first) + h * to->per,
                    gates + keep->first + h * s->dk, g + keep->from + h * s->dk, s->ld_g, n, s->dk);
  } else if (m->desc.keys == MIRAS_KEYS_ERASE) {
    gates += s->group[MIRAS__ERASE].first;
    for (h = 0; h < s->heads; h++) {
      size_t c = h * s->dk, p = h * to->per;
      k->erase_fwd(miras__part(to, s->dk, s->dk, first) + p,
                   miras__part(to, s->erase, s->dk, first) + p,
                   miras__part(to, s->replace, s->dk, first) + p,
                   miras__part(to, s->own, s->dk, first) + p, gates + c, s->ld_g,
                   w + m->at.erase_scale + c, w + m->at.erase_mix + c, n, s->dk);
    }
  }
}

/* x [n, W] -> proj [n, proj], g and gates [n, gates], rows `first` on of to. past: the projections
 * of the taps - 1 tokens ahead, or NULL; with no past but first > 0 they are projected again from
 * the rows ahead of x. */
static void miras__block_in(const miras_model *m, const miras__kernels *k, const float *w, size_t n,
                            const float *x, float *proj, float *g, float *gates, const float *past,
                            size_t ldpast, const miras__qkv *to, size_t first, float *scratch) {
  const miras__shape *s = &m->s;
  const miras__slots *at = &m->at;
  float *pack = scratch, *h = scratch + MIRAS__PACK, *again = h + MIRAS__TILE * s->ld_x;
  size_t width = s->width, back = s->taps - 1, t;
  if (!past && first > 0 && back > 0) {
    k->rms_fwd(h, s->ld_x, x - back * s->ld_x, s->ld_x, w + at->norm1, back, width);
    miras__project_qkv(m, k, w, back, h, again, pack);
    past = again;
    ldpast = s->ld_p;
  }
  k->rms_fwd(h, s->ld_x, x, s->ld_x, w + at->norm1, n, width);
  miras__project_qkv(m, k, w, n, h, proj, pack);
  miras__convolve(m, k, w, n, proj, past, ldpast, to, first, NULL, 0);
  miras__matmul(k, MIRAS__SET, proj + s->at_out, s->ld_p, h, s->ld_x, 1, w + at->out_gate, s->value,
                1, n, s->value, width, pack);
  if (s->moving) {
    miras__matmul(k, MIRAS__SET, proj + s->at_low, s->ld_p, h, s->ld_x, 1, w + at->gates_down,
                  s->rank, 1, n, s->rank, width, pack);
    miras__matmul(k, MIRAS__SET, g, s->ld_g, proj + s->at_low, s->ld_p, 1, w + at->gates_up,
                  s->moving, 1, n, s->moving, s->rank, pack);
  }
  for (t = 0; s->gates > s->moving && t < n; t++)
    memset(g + t * s->ld_g + s->moving, 0, (s->gates - s->moving) * sizeof *g);
  if (s->gates) miras__make_gates(m, k, w, n, g, gates, w + at->gates_offset);
  miras__make_keys(m, k, w, n, g, gates, to, first);
}

/* Head h's columns of a group of gates in a row of them, or NULL where there is none. */
static float *miras__gate_of(const miras__shape *s, int which, size_t h, float *gates) {
  const miras__gates *group = &s->group[which];
  return group->count ? gates + group->first + h * (group->count / s->heads) : NULL;
}

/* What head h of block l reads and writes over the first n rows of from, gates and y. */
static void miras__head_io_of(const miras_model *m, size_t l, size_t h, size_t n,
                              const miras__qkv *from, float *gates, float *y,
                              miras__head_io *io) {
  const miras__shape *s = &m->s;
  const miras_desc *d = &m->plan.d;
  memset(io, 0, sizeof *io);
  io->length = (int)n;
  io->head = h;
  io->q = from->base + h * from->per;
  io->k = miras__part(from, s->dk, s->kc, 0) + h * from->per;
  io->v = miras__part(from, s->dk + s->kc, s->vc, 0) + h * from->per;
  io->ldq = s->dk;
  io->ldk = s->kc;
  io->ldv = s->vc;
  if (s->erase) {
    io->erase = miras__part(from, s->erase, s->dk, 0) + h * from->per;
    io->replace = miras__part(from, s->replace, s->dk, 0) + h * from->per;
    io->ld_erase = io->ld_replace = s->dk;
  }
  io->keep = miras__gate_of(s, MIRAS__KEEP, h, gates);
  if (io->keep) io->ld_keep = s->ld_g;
  else io->keep = m->keep + l * s->heads + h;
  io->step = miras__gate_of(s, MIRAS__STEP, h, gates);
  if (io->step) io->ld_step = s->ld_g;
  else io->step = &d->step;
  io->momentum = miras__gate_of(s, MIRAS__MOMENTUM, h, gates);
  if (io->momentum) io->ld_momentum = s->ld_g;
  else if (d->algorithm == MIRAS_MOMENTUM) io->momentum = &d->momentum;
  io->threshold = miras__gate_of(s, MIRAS__THRESHOLD, h, gates);
  if (io->threshold) io->ld_threshold = s->ld_g;
  else if (miras__has_threshold(d->bias)) io->threshold = &d->threshold;
  io->value_keep = miras__gate_of(s, MIRAS__VALUE_KEEP, h, gates);
  if (io->value_keep) io->ld_value_keep = s->ld_g;
  if (d->row_rates) io->rho = m->params + m->first_block + l * m->block + m->at.rates;
  io->y = y ? y + h * s->dv : NULL;
  io->ldy = s->ld_y;
}

/* The memory of head h over n rows. */
static void miras__head_run(const miras_model *m, const miras__kernels *k, const float *w, size_t h,
                            const miras__head_io *io, float *state, uint64_t position, float *tape,
                            float *scratch) {
  const miras__slots *at = &m->at;
  k->head_forward(&m->plan, w + at->memory + h * m->plan.weights,
                  m->s.gain ? w + at->gain + h * m->s.gain : NULL,
                  m->plan.d.inner_norm ? w + at->bias + h * m->s.dv : NULL, state, position, io,
                  tape, scratch);
}

/* x, y and proj -> mid, ab, out. out may be x. drop NULL: none; else sites site and site + 1, and
 * row is the index of the first row. */
static void miras__block_out(const miras_model *m, const miras__kernels *k, const float *w,
                             size_t n, const float *x, const float *y, const float *proj,
                             float *mid, float *ab, float *out, const miras__drop *drop,
                             size_t site, size_t row, float *scratch) {
  const miras__shape *s = &m->s;
  const miras__slots *at = &m->at;
  float *pack = scratch, *h = scratch + MIRAS__PACK, *t = h + MIRAS__TILE * s->ld_x;
  float *gated = t + MIRAS__TILE * s->ld_x, *act = gated + MIRAS__TILE * s->ld_y;
  size_t width = s->width, f = s->hidden;
  k->gated_norm_fwd(gated, s->ld_y, y, s->ld_y, w + at->out_norm, proj + s->at_out, s->ld_p, n,
                    s->heads, s->dv);
  if (drop) {
    miras__matmul(k, MIRAS__SET, t, s->ld_x, gated, s->ld_y, 1, w + at->o, width, 1, n, width,
                  s->value, pack);
    miras__drop_rows(k, drop, site, row, mid, x, t, s->ld_x, n, width);
  } else {
    memcpy(mid, x, n * s->ld_x * sizeof(float));
    miras__matmul(k, MIRAS__ADD, mid, s->ld_x, gated, s->ld_y, 1, w + at->o, width, 1, n, width,
                  s->value, pack);
  }
  k->rms_fwd(h, s->ld_x, mid, s->ld_x, w + at->norm2, n, width);
  miras__matmul(k, MIRAS__SET, ab, 2 * s->ld_f, h, s->ld_x, 1, w + at->mlp_gate, f, 1, n, f, width,
                pack);
  miras__matmul(k, MIRAS__SET, ab + s->ld_f, 2 * s->ld_f, h, s->ld_x, 1, w + at->mlp_up, f, 1, n, f,
                width, pack);
  k->swiglu_fwd(act, s->ld_f, ab, ab + s->ld_f, 2 * s->ld_f, n, f);
  if (drop) {
    miras__matmul(k, MIRAS__SET, t, s->ld_x, act, s->ld_f, 1, w + at->mlp_down, width, 1, n, width,
                  f, pack);
    miras__drop_rows(k, drop, site + 1, row, out, mid, t, s->ld_x, n, width);
  } else {
    memcpy(out, mid, n * s->ld_x * sizeof(float));
    miras__matmul(k, MIRAS__ADD, out, s->ld_x, act, s->ld_f, 1, w + at->mlp_down, width, 1, n,
                  width, f, pack);
  }
}
/* @77 TRAINING ------------------------------------------------------------ needs 65 70 75 76 -- */

/* A step is a sequence of phases; a phase is a number of tasks that run in any order, on any
 * worker:
 *   tiles   up to MIRAS__TILE tokens of one sequence, through everything that works row by row
 *   heads   one head of one sequence: convolutions, activations and the memory
 *   jobs    blocks of weight gradients, of sums over tiles and of transposed weights
 * No two tasks of a phase write the same float, and every sum has one order, fixed by batch and
 * length alone: the number of workers cannot change a bit. */

/* Phases that work on tokens. */
typedef struct miras__phase {
  miras_model *m;
  const miras__kernels *k;
  size_t length, per;      /* tokens and tiles of a sequence                                     */
  size_t first;            /* tile of task 0                                                     */
  size_t row0;             /* token whose logits come first in m->logits                         */
  int embed, in, out, end; /* forward: what a tile does; blocks to enter and leave or -1         */
  int train;
  const miras__drop *drop; /* NULL: none                                                         */
  float *after, *mid, *before;   /* backward: gradients of a block's output, middle and input    */
  const float *after_in, *mid_in;   /* the same as the two branches saw them, behind dropout     */
} miras__phase;

static void miras__run(const miras_model *m, size_t count,
                       void (*task)(void *argument, int index, int worker), void *argument) {
  const miras_parallel *p = m->desc.parallel;
  int i;
  if (p && p->workers > 1 && count > 1) {
    p->run(p->user, (int)count, task, argument);
    return;
  }
  for (i = 0; i < (int)count; i++) task(argument, i, 0);
}

static const float *miras__weights(const miras_model *m, size_t layer) {
  return m->params + m->first_block + layer * m->block;
}

/* Rows of tile `index`: tiles of a sequence are as equal as can be. */
static size_t miras__tile_rows(const miras__phase *ph, size_t index, size_t *row) {
  size_t b = index / ph->per, i = index % ph->per;
  size_t from = i * ph->length / ph->per, to = (i + 1) * ph->length / ph->per;
  *row = b * ph->length + from;
  return to - from;
}

/* Final norm, logits, cross entropy; when training the logits become their gradient. */
static void miras__tile_end(const miras__phase *ph, size_t row, size_t n, float *scratch) {
  const miras_model *m = ph->m;
  const miras__kernels *k = ph->k;
  const miras__shape *s = &m->s;
  const float *x = m->x + ((ph->train ? s->layers : 0) * m->rows + row) * s->ld_x;
  float *last = m->last + row * s->ld_x, *logits = m->logits + (row - ph->row0) * s->ld_v;
  size_t t;
  k->rms_fwd(last, s->ld_x, x, s->ld_x, m->params + m->norm, n, s->width);
  miras__matmul(k, MIRAS__SET, logits, s->ld_v, last, s->ld_x, 1, m->head_t, s->ld_v, 1, n,
                s->vocab, s->width, scratch);
  for (t = 0; t < n; t++, logits += s->ld_v) {
    int32_t target = m->targets[row + t];
    if (target < 0) {
      m->losses[row + t] = 0;
      if (ph->train) memset(logits, 0, s->vocab * sizeof(float));
    } else {
      m->losses[row + t] =
          k->cross_entropy(logits, s->vocab, (size_t)target, ph->train ? m->unit : 0);
    }
  }
}

static miras__qkv miras__sequence_qkv(const miras__phase *ph, float *all, size_t b) {
  miras__qkv of;
  of.per = ph->m->per_qkv;
  of.length = ph->length;
  of.base = all + b * ph->m->s.heads * of.per;
  return of;
}

/* What lay ahead of row `first` of sequence b in the convolutions of block l, and how far its rows
 * are apart: nothing (NULL) at the start of a text; its last rows, where it goes on; rows of
 * m->proj. */
static const float *miras__past(const miras_model *m, size_t l, size_t b, size_t first,
                                const float *proj, size_t *ld) {
  *ld = first ? m->s.ld_p : m->s.at_out;
  if (first) return proj - (m->s.taps - 1) * m->s.ld_p;
  return m->runs[b] ? m->tails + (l * (size_t)m->desc.batch + b) * m->tail : NULL;
}

/* Forward over one tile: embed, leave block ph->out, enter block ph->in, end. */
static void miras__tile_fwd(void *argument, int index, int worker) {
  const miras__phase *ph = (const miras__phase *)argument;
  miras_model *m = ph->m;
  const miras__kernels *k = ph->k;
  const miras__shape *s = &m->s;
  float *scratch = m->scratch + (size_t)worker * m->scratch_size;
  size_t row, n = miras__tile_rows(ph, ph->first + (size_t)index, &row), t, here;
  float *x;
  if (ph->out >= 0) {
    here = (ph->train ? (size_t)ph->out : 0) * m->rows + row;
    x = m->x + here * s->ld_x;
    miras__block_out(m, k, miras__weights(m, (size_t)ph->out), n, x, m->y + here * s->ld_y,
                     m->proj + here * s->ld_p, m->mid + here * s->ld_x,
                     m->ab + here * 2 * s->ld_f, ph->train ? x + m->rows * s->ld_x : x, ph->drop,
                     1 + 2 * (size_t)ph->out, row, scratch);
  }
  if (ph->embed) {
    x = m->x + row * s->ld_x;
    for (t = 0; t < n; t++)
      memcpy(x + t * s->ld_x, m->params + (size_t)m->tokens[row + t] * s->width,
             s->width * sizeof(float));
    if (ph->drop) miras__drop_rows(k, ph->drop, 0, row, x, NULL, x, s->ld_x, n, s->width);
  }
  if (ph->in >= 0) {
    size_t b = row / ph->length, first = row % ph->length, ldpast = 0;
    miras__qkv to = miras__sequence_qkv(ph, m->qkv, b);
    const float *past = NULL;
    here = (ph->train ? (size_t)ph->in : 0) * m->rows + row;
    if (!first) past = miras__past(m, (size_t)ph->in, b, 0, NULL, &ldpast);
    miras__block_in(m, k, miras__weights(m, (size_t)ph->in), n, m->x + here * s->ld_x,
                    m->proj + here * s->ld_p, m->g + here * s->ld_g, m->gates + row * s->ld_g,
                    past, ldpast, &to, first, scratch);
  }
  if (ph->end) miras__tile_end(ph, row, n, scratch);
}

/* Forward of one head of one sequence in block ph->in. */
static void miras__head_fwd(void *argument, int index, int worker) {
  const miras__phase *ph = (const miras__phase *)argument;
  miras_model *m = ph->m;
  const miras__shape *s = &m->s;
  size_t at = (size_t)index, b = at / s->heads, h = at % s->heads, n = ph->length, row = b * n;
  size_t l = ph->train ? (size_t)ph->in : 0, heads = (size_t)m->desc.batch * s->heads;
  const float *w = miras__weights(m, (size_t)ph->in);
  float *state = m->scratch + (size_t)worker * m->scratch_size, *work = state + m->plan.head_state;
  miras__qkv from = miras__sequence_qkv(ph, m->qkv, b);
  miras__head_io io;
  miras__head_io_of(m, (size_t)ph->in, h, n, &from, m->gates + row * s->ld_g,
                    m->y + (l * m->rows + row) * s->ld_y, &io);
  if (m->runs[b])
    state = m->runs[b] + 16 + (size_t)ph->in * m->run_block + m->tail + h * m->plan.head_state;
  else memset(state, 0, m->plan.head_state * sizeof(float));
  miras__head_run(m, ph->k, w, h, &io, state, m->starts[b],
                  ph->train ? m->tape + (l * heads + at) * m->per_tape : NULL, work);
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
  const miras_model *m;
  const miras__kernels *k;
  size_t tasks;
  int count;
  miras__job job[MIRAS__JOBS];
} miras__jobs;

/* A block of a product: its slice of a (256 tokens x 64) and of b (256 x 128) and its part of c
 * stay in the second-level cache together. */
#define MIRAS__JOB_ROWS 64
#define MIRAS__JOB_COLS 128
#define MIRAS__JOB_DEPTH 256

static void miras__job_add(miras__jobs *list, miras__job_kind kind, float *c, size_t ldc,
                           const float *a, size_t lda, const float *b, size_t ldb, size_t rows,
                           size_t cols, size_t depth) {
  miras__job *j = &list->job[list->count++];
  size_t down = kind == MIRAS__REDUCE ? 1 : (rows + MIRAS__JOB_ROWS - 1) / MIRAS__JOB_ROWS;
  MIRAS_ASSERT(list->count <= MIRAS__JOBS);
  j->kind = kind;
  j->a = a;
  j->b = b;
  j->c = c;
  j->lda = lda;
  j->ldb = ldb;
  j->ldc = ldc;
  j->rows = rows;
  j->cols = cols;
  j->depth = depth;
  j->across = (cols + MIRAS__JOB_COLS - 1) / MIRAS__JOB_COLS;
  j->first = list->tasks;
  list->tasks += down * j->across;
}

static void miras__job_task(void *argument, int index, int worker) {
  const miras__jobs *list = (const miras__jobs *)argument;
  const miras__kernels *k = list->k;
  const miras__job *j = list->job + list->count - 1;
  float *pack = list->m->scratch + (size_t)worker * list->m->scratch_size;
  size_t at = (size_t)index, i, c, rows, cols, t;
  while (j->first > at) j--;
  at -= j->first;
  i = at / j->across * MIRAS__JOB_ROWS;
  c = at % j->across * MIRAS__JOB_COLS;
  rows = j->rows - i < MIRAS__JOB_ROWS ? j->rows - i : MIRAS__JOB_ROWS;
  cols = j->cols - c < MIRAS__JOB_COLS ? j->cols - c : MIRAS__JOB_COLS;
  if (j->kind == MIRAS__PRODUCT) {
    for (t = 0; t < j->depth; t += MIRAS__JOB_DEPTH)
      miras__matmul(k, MIRAS__ADD, j->c + i * j->ldc + c, j->ldc, j->a + t * j->lda + i, 1, j->lda,
                    j->b + t * j->ldb + c, j->ldb, 1, rows, cols,
                    j->depth - t < MIRAS__JOB_DEPTH ? j->depth - t : MIRAS__JOB_DEPTH, pack);
  } else if (j->kind == MIRAS__TRANSPOSE) {
    k->transpose(j->c + c * j->ldc + i, j->ldc, j->a + i * j->lda + c, j->lda, rows, cols);
  } else {
    for (t = 0; t < j->rows; t++) k->add(j->c + c, j->a + t * j->lda + c, cols);
  }
}

static void miras__jobs_begin(miras__jobs *list, const miras_model *m, const miras__kernels *k) {
  list->m = m;
  list->k = k;
  list->tasks = 0;
  list->count = 0;
}

static void miras__jobs_run(miras__jobs *list) {
  miras__run(list->m, list->tasks, miras__job_task, list);
}

/* The phase that all calls on the last loss's tokens start from. */
static void miras__phase_begin(miras__phase *ph, miras_model *m, const miras__kernels *k, int train,
                               miras__drop *drop) {
  memset(ph, 0, sizeof *ph);
  ph->m = m;
  ph->k = k;
  ph->length = (size_t)m->length;
  ph->per = miras__tiles(ph->length);
  ph->train = train;
  ph->in = ph->out = -1;
  if (train && m->desc.dropout > 0) {
    drop->key = miras__hash(miras__hash(miras__hash(m->desc.seed + 1) + m->steps) + m->call);
    drop->limit = (uint32_t)((double)m->desc.dropout * 4294967296.0);
    drop->scale = 1.0f / (1.0f - m->desc.dropout);
    ph->drop = drop;
  }
}

/* The group of tiles from ph->first on whose logits are held together; runs miras__tile_fwd. */
static size_t miras__group_run(miras__phase *ph, size_t first) {
  size_t tiles = (size_t)ph->m->batch * ph->per, count = tiles - first;
  if (count > ph->m->group) count = ph->m->group;
  ph->first = first;
  (void)miras__tile_rows(ph, first, &ph->row0);
  miras__run(ph->m, count, miras__tile_fwd, ph);
  return count;
}

/* Rows that go on: streams are taken up before the forward pass ... */
static int miras__streams_take(miras_model *m, int batch, int length, const int32_t *stream,
                               const unsigned char *fresh) {
  size_t b, l;
  for (b = 0; b < (size_t)batch; b++) {
    size_t other;
    m->runs[b] = NULL;
    m->starts[b] = 0;
    if (!stream) continue;
    if (stream[b] < -1 || stream[b] >= m->desc.streams || length % m->plan.d.chunk) return 0;
    for (other = 0; stream[b] >= 0 && other < b; other++)
      if (stream[other] == stream[b]) return 0;
  }
  for (b = 0; stream && b < (size_t)batch; b++) {
    float *run = stream[b] < 0 ? NULL : m->streams + (size_t)stream[b] * m->run;
    if (!run) continue;
    if (fresh && fresh[b]) memset(run, 0, m->run * sizeof *run);
    m->runs[b] = run;
    memcpy(&m->starts[b], run, sizeof m->starts[b]);
    for (l = 0; l < m->s.layers; l++)
      memcpy(m->tails + (l * (size_t)m->desc.batch + b) * m->tail, run + 16 + l * m->run_block,
             m->tail * sizeof *run);
  }
  return 1;
}

/* ... and left at the window's end after it: the heads have done so. */
static void miras__streams_leave(miras_model *m) {
  const miras__shape *s = &m->s;
  size_t b, l, t, n = (size_t)m->length, back = s->taps - 1, wide = s->at_out;
  for (b = 0; b < (size_t)m->batch; b++) {
    uint64_t position = m->starts[b] + n;
    if (!m->runs[b]) continue;
    memcpy(m->runs[b], &position, sizeof position);
    for (l = 0; l < s->layers; l++) {
      float *tail = m->runs[b] + 16 + l * m->run_block;
      const float *proj = m->proj + (l * m->rows + b * n) * s->ld_p;
      for (t = 0; t < back; t++)      /* the last taps - 1 of what was there and what came */
        memcpy(tail + t * wide,
               t + n < back ? tail + (t + n) * wide : proj + (t + n - back) * s->ld_p,
               wide * sizeof(float));
    }
  }
}

static float miras__loss(miras_model *m, const int32_t *tokens, const int32_t *targets, int batch,
                         int length, int train, const int32_t *stream,
                         const unsigned char *fresh) {
  const miras__kernels *k = miras__kernels_best();
  miras__phase ph;
  miras__jobs jobs;
  miras__drop drop;
  size_t n, i, tiles, counted = 0;
  double total = 0;
  int l;
  if (!m || !m->desc.batch || !tokens || !targets || batch < 1 || batch > m->desc.batch ||
      length < 1 || length > m->desc.context)
    return (float)NAN;
  n = (size_t)batch * (size_t)length;
  for (i = 0; i < n; i++) {
    if (tokens[i] < 0 || tokens[i] >= m->desc.vocab || targets[i] < -1 ||
        targets[i] >= m->desc.vocab)
      return (float)NAN;
    counted += targets[i] >= 0;
  }
  m->taped = 0;
  if (!miras__streams_take(m, batch, length, stream, fresh)) return (float)NAN;
  memcpy(m->tokens, tokens, n * sizeof *tokens);
  memcpy(m->targets, targets, n * sizeof *targets);
  m->batch = batch;
  m->length = length;
  m->unit = counted ? 1.0f / (float)counted : 0;
  m->taped = train != 0;
  if (train) m->call = m->calls++;
  miras__phase_begin(&ph, m, k, train != 0, &drop);
  tiles = (size_t)batch * ph.per;
  miras__jobs_begin(&jobs, m, k);
  miras__job_add(&jobs, MIRAS__TRANSPOSE, m->head_t, m->s.ld_v, m->params + m->head, m->s.width,
                 NULL, 0, m->s.vocab, m->s.width, 0);
  miras__jobs_run(&jobs);
  ph.embed = 1;
  for (l = 0; l < m->desc.layers; l++) {
    /* a tile may enter a block as soon as it has left the last one, unless it needs rows of the
     * tile before it for the convolutions */
    if (ph.per > 1) {
      ph.in = -1;
      miras__run(m, tiles, miras__tile_fwd, &ph);
      ph.embed = 0;
      ph.out = -1;
    }
    ph.in = l;
    miras__run(m, tiles, miras__tile_fwd, &ph);
    miras__run(m, (size_t)batch * m->s.heads, miras__head_fwd, &ph);
    ph.embed = 0;
    ph.out = l;
  }
  ph.in = -1;
  ph.end = 1;
  for (i = 0; i < tiles;) i += miras__group_run(&ph, i);
  for (i = 0; i < n; i++) total += (double)m->losses[i];
  miras__streams_leave(m);
  return counted ? (float)(total / (double)counted) : 0;
}

MIRAS_API float miras_model_loss(miras_model *m, const int32_t *tokens, const int32_t *targets,
                                 int batch, int length, int train) {
  return miras__loss(m, tokens, targets, batch, length, train, NULL, NULL);
}

MIRAS_API float miras_model_loss_streams(miras_model *m, const int32_t *tokens,
                                         const int32_t *targets, int batch, int length,
                                         const int32_t *stream, const unsigned char *fresh) {
  return stream ? miras__loss(m, tokens, targets, batch, length, 1, stream, fresh) : (float)NAN;
}

/* Backward of miras__tile_end from the logits' gradient: ph->before [N, W]. */
static void miras__tile_end_bwd(void *argument, int index, int worker) {
  const miras__phase *ph = (const miras__phase *)argument;
  miras_model *m = ph->m;
  const miras__shape *s = &m->s;
  float *pack = m->scratch + (size_t)worker * m->scratch_size, *t = pack + MIRAS__PACK;
  size_t tile = ph->first + (size_t)index, row, n = miras__tile_rows(ph, tile, &row);
  float *dgain = m->part + tile * m->ld_part + 2 * s->ld_x;
  miras__matmul(ph->k, MIRAS__SET, t, s->ld_x, m->logits + (row - ph->row0) * s->ld_v, s->ld_v, 1,
                m->params + m->head, s->width, 1, n, s->width, s->vocab, pack);
  memset(dgain, 0, s->width * sizeof(float));
  ph->k->rms_bwd(ph->before + row * s->ld_x, s->ld_x, NULL, 0, dgain, NULL, 0,
                 m->x + (s->layers * m->rows + row) * s->ld_x, s->ld_x, m->params + m->norm, t,
                 s->ld_x, n, s->width);
}

/* Backward of miras__block_out: ph->after -> ph->mid, m->dy and the output gate's part of m->dproj.
 * Leaves what the weight gradients need in m->s_, m->ab, m->h2, m->out; and makes what the memories
 * read once more: m->gates, m->qkv. */
static void miras__tile_out_bwd(void *argument, int index, int worker) {
  const miras__phase *ph = (const miras__phase *)argument;
  miras_model *m = ph->m;
  const miras__kernels *k = ph->k;
  const miras__shape *s = &m->s;
  const miras__slots *at = &m->at;
  size_t tile = (size_t)index, row, n = miras__tile_rows(ph, tile, &row), l = (size_t)ph->in;
  size_t here = l * m->rows + row, x = row * s->ld_x;
  const float *w = miras__weights(m, l);
  float *part = m->part + tile * m->ld_part, *ab = m->ab + here * 2 * s->ld_f;
  float *pack = m->scratch + (size_t)worker * m->scratch_size, *t = pack + MIRAS__PACK;
  float *ds = m->s_ + row * s->ld_f;
  miras__qkv to = miras__sequence_qkv(ph, m->qkv, row / ph->length);
  size_t stride = (size_t)m->desc.context, first = row % ph->length, ldpast;
  const float *past = miras__past(m, l, row / ph->length, first, m->proj + here * s->ld_p, &ldpast);
  memset(part, 0, m->ld_part * sizeof(float));
  if (ph->drop)
    miras__drop_rows(k, ph->drop, 2 + 2 * l, row, m->masked[0] + x, NULL, ph->after + x, s->ld_x, n,
                     s->width);
  miras__matmul(k, MIRAS__SET, ds, s->ld_f, ph->after_in + x, s->ld_x, 1, m->down_t, s->ld_f, 1, n,
                s->hidden, s->width, pack);
  k->swiglu_bwd(ds, s->ld_f, ab, ab + s->ld_f, 2 * s->ld_f, n, s->hidden);
  miras__matmul(k, MIRAS__SET, t, s->ld_x, ab, 2 * s->ld_f, 1, m->mlp_t, s->ld_x, 1, n, s->width,
                s->hidden, pack);
  miras__matmul(k, MIRAS__ADD, t, s->ld_x, ab + s->ld_f, 2 * s->ld_f, 1,
                m->mlp_t + s->hidden * s->ld_x, s->ld_x, 1, n, s->width, s->hidden, pack);
  k->rms_bwd(ph->mid + x, s->ld_x, ph->after + x, s->ld_x, part + s->ld_x, m->h2 + x, s->ld_x,
             m->mid + here * s->ld_x, s->ld_x, w + at->norm2, t, s->ld_x, n, s->width);
  if (ph->drop)
    miras__drop_rows(k, ph->drop, 1 + 2 * l, row, m->masked[1] + x, NULL, ph->mid + x, s->ld_x, n,
                     s->width);
  miras__matmul(k, MIRAS__SET, t, s->ld_y, ph->mid_in + x, s->ld_x, 1, m->o_t, s->ld_y, 1, n,
                s->value, s->width, pack);
  k->gated_norm_bwd(m->dy + row * s->ld_y, s->ld_y, m->dproj + row * s->ld_p + s->at_out, s->ld_p,
                    part + 3 * s->ld_x, m->out + row * s->ld_y, s->ld_y, m->y + here * s->ld_y,
                    s->ld_y, w + at->out_norm, m->proj + here * s->ld_p + s->at_out, s->ld_p, t,
                    s->ld_y, n, s->heads, s->dv);
  miras__convolve(m, k, w, n, m->proj + here * s->ld_p, past, ldpast, &to, first,
                  m->inverse + row / ph->length * s->heads * (1 + s->steps) * stride, stride);
  if (s->gates)
    miras__make_gates(m, k, w, n, m->g + here * s->ld_g, m->gates + row * s->ld_g, NULL);
  miras__make_keys(m, k, w, n, m->g + here * s->ld_g, m->gates + row * s->ld_g, &to, first);
}

/* Backward of one head of one sequence: m->dy -> m->dqkv, m->dgates, and its partial gradients. */
static void miras__head_bwd(void *argument, int index, int worker) {
  const miras__phase *ph = (const miras__phase *)argument;
  miras_model *m = ph->m;
  const miras__kernels *k = ph->k;
  const miras__shape *s = &m->s;
  const miras__slots *at = &m->at;
  const miras_desc *d = &m->plan.d;
  size_t i = (size_t)index, b = i / s->heads, h = i % s->heads, n = ph->length, row = b * n;
  size_t l = (size_t)ph->in, heads = (size_t)m->desc.batch * s->heads, c = h * s->dv, t, j;
  const float *w = miras__weights(m, l);
  const float *inverse = m->inverse + i * (1 + s->steps) * (size_t)m->desc.context;
  float *dgates = m->dgates + row * s->ld_g, *dw0 = m->part_memory + i * m->plan.weights;
  size_t wide = s->gain ? s->gain : s->dv;
  float *dgain = m->part_gain + i * wide, *dbias = m->part_bias + b * s->value + c;
  float *scratch = m->scratch + (size_t)worker * m->scratch_size, length = miras__key_length(m);
  miras__qkv from = miras__sequence_qkv(ph, m->qkv, b), to;
  miras__head_io io;
  miras__head_grads g;
  miras__head_io_of(m, l, h, n, &from, m->gates + row * s->ld_g, NULL, &io);
  memset(&g, 0, sizeof g);
  to.base = m->dqkv + i * m->per_qkv;
  to.per = 0;
  to.length = n;
  g.q = to.base;
  g.k = miras__part(&to, s->dk, s->kc, 0);
  g.v = miras__part(&to, s->dk + s->kc, s->vc, 0);
  if (s->erase) {
    g.erase = miras__part(&to, s->erase, s->dk, 0);
    g.replace = miras__part(&to, s->replace, s->dk, 0);
  }
  g.ldq = io.ldq;
  g.ldk = io.ldk;
  g.ldv = io.ldv;
  g.ld_erase = g.ld_replace = s->dk;
  g.ld_keep = g.ld_step = g.ld_momentum = g.ld_threshold = g.ld_value_keep = s->ld_g;
  g.keep = miras__gate_of(s, MIRAS__KEEP, h, dgates);
  g.step = miras__gate_of(s, MIRAS__STEP, h, dgates);
  g.momentum = miras__gate_of(s, MIRAS__MOMENTUM, h, dgates);
  g.threshold = miras__gate_of(s, MIRAS__THRESHOLD, h, dgates);
  g.value_keep = miras__gate_of(s, MIRAS__VALUE_KEEP, h, dgates);
  memset(dw0, 0, m->plan.weights * sizeof(float));
  memset(dgain, 0, wide * sizeof(float));
  memset(dbias, 0, s->dv * sizeof(float));
  if (d->row_rates) {
    g.rho = m->part_rates + i * (size_t)d->chunk;
    memset(g.rho, 0, (size_t)d->chunk * sizeof *g.rho);
  }
  k->head_backward(&m->plan, w + at->memory + h * m->plan.weights,
                   s->gain ? w + at->gain + h * s->gain : NULL,
                   d->inner_norm ? w + at->bias + c : NULL, m->tape + (l * heads + i) * m->per_tape,
                   m->starts[b], &io, m->dy + row * s->ld_y + c, s->ld_y, &g, dw0, dgain, dbias,
                   NULL, scratch);
  if (length > 0) {
    k->unit_bwd(g.q, io.q, inverse, length, n, s->dk);
    k->unit_bwd(g.k, io.k, inverse + m->desc.context, length, n * s->steps, s->dk);
  }
  if (m->desc.keys == MIRAS_KEYS_COMPLEMENT)
    for (t = 0; t < n; t++)
      for (j = 0; j < s->dk; j++) g.keep[t * s->ld_g + j] -= g.k[t * s->dk + j];
  if (m->desc.keys == MIRAS_KEYS_ERASE) {
    size_t x = h * s->dk;
    float *da = m->part_erase + b * 2 * s->key + x, *db = da + s->key;
    memset(da, 0, s->dk * sizeof *da);
    memset(db, 0, s->dk * sizeof *db);
    k->erase_bwd(g.k, g.erase, g.replace, miras__gate_of(s, MIRAS__ERASE, h, dgates), s->ld_g,
                 miras__part(&from, s->own, s->dk, 0) + h * from.per, io.erase,
                 miras__gate_of(s, MIRAS__ERASE, h, m->gates + row * s->ld_g), s->ld_g,
                 w + at->erase_scale + x, w + at->erase_mix + x, da, db, scratch, n, s->dk);
  }
}

/* Backward of miras__convolve for rows first.. of sequence b, n of them: m->dqkv -> their q, k, v
 * in m->dproj; part [taps (2 key + value)] = their share of the gradients of the weights. */
static void miras__convolve_bwd(const miras__phase *ph, const float *w, size_t b, size_t first,
                                size_t n, float *part, float *sum) {
  const miras_model *m = ph->m;
  const miras__kernels *k = ph->k;
  const miras__shape *s = &m->s;
  const miras__slots *at = &m->at;
  miras__qkv of = miras__sequence_qkv(ph, m->dqkv, b);
  size_t row = b * ph->length + first, back = s->taps - 1, rest = ph->length - first - n, ldpast;
  size_t after = rest < back ? rest : back;
  const float *proj = m->proj + ((size_t)ph->in * m->rows + row) * s->ld_p;
  const float *past = miras__past(m, (size_t)ph->in, b, first, proj, &ldpast);
  float *dproj = m->dproj + row * s->ld_p, *dw = part, *dw_k = dw + s->taps * s->key;
  float *dw_v = dw_k + s->taps * s->heads * s->kp;
  const float *dq = miras__part(&of, 0, s->dk, first), *dk = miras__part(&of, s->dk, s->kc, first);
  const float *dv = miras__part(&of, s->dk + s->kc, s->vc, first);
  memset(part, 0, s->taps * s->at_out * sizeof(float));
  k->conv_bwd(dproj, s->ld_p, dw, dq, of.per, proj, s->ld_p, past, ldpast, w + at->conv_q, s->taps,
              n, after, s->heads, s->dk, sum);
  if (s->kp)
    k->conv_bwd(dproj + s->at_k, s->ld_p, dw_k, dk, of.per, proj + s->at_k, s->ld_p,
                past ? past + s->at_k : NULL, ldpast, w + at->conv_k, s->taps, n, after, s->heads,
                s->kp, sum);
  k->conv_bwd(dproj + s->at_v, s->ld_p, dw_v, dv, of.per, proj + s->at_v, s->ld_p,
              past ? past + s->at_v : NULL, ldpast, w + at->conv_v, s->taps, n, after, s->heads,
              s->vc, sum);
}

/* Backward of miras__block_in: m->dqkv, m->dgates and ph->mid -> ph->before; m->h and m->dproj are
 * left for the weights. */
static void miras__tile_in_bwd(void *argument, int index, int worker) {
  const miras__phase *ph = (const miras__phase *)argument;
  miras_model *m = ph->m;
  const miras__kernels *k = ph->k;
  const miras__shape *s = &m->s;
  const miras__slots *at = &m->at;
  size_t tile = (size_t)index, row, n = miras__tile_rows(ph, tile, &row), l = (size_t)ph->in;
  size_t here = l * m->rows + row, x = row * s->ld_x;
  const float *w = miras__weights(m, l);
  size_t j;
  int i;
  float *part = m->part + tile * m->ld_part, *dproj = m->dproj + row * s->ld_p;
  float *pack = m->scratch + (size_t)worker * m->scratch_size, *t = pack + MIRAS__PACK;
  miras__convolve_bwd(ph, w, row / ph->length, row % ph->length, n,
                      m->part_conv + tile * s->taps * s->at_out, t);
  if (s->gates) {
    float *dg = m->dgates + row * s->ld_g, *doffset = part + 3 * s->ld_x + s->ld_y;
    for (i = 0; i < MIRAS__GATE_GROUPS; i++) {
      const miras__gates *group = &s->group[i];
      if (!group->count) continue;
      k->gates_bwd(group->form, group->cap, dg + group->first,
                   m->g + here * s->ld_g + group->from, s->ld_g, doffset + group->offset,
                   doffset + s->ld_g,
                   group->form == MIRAS__GATE_RATE ? w + at->gates_rate
                                                   : m->gate_scale + group->first,
                   n, group->count);
      if (group->from != group->first)           /* tied: its source has been there before */
        for (j = 0; j < n; j++)
          k->add(dg + j * s->ld_g + group->from, dg + j * s->ld_g + group->first, group->count);
    }
    if (s->moving)
      miras__matmul(k, MIRAS__SET, dproj + s->at_low, s->ld_p, dg, s->ld_g, 1, m->up_t,
                    miras__pad(s->rank), 1, n, s->rank, s->moving, pack);
  }
  miras__matmul(k, MIRAS__SET, t, s->ld_x, dproj, s->ld_p, 1, m->proj_t, s->ld_x, 1, n, s->width,
                s->proj, pack);
  k->rms_bwd(ph->before + x, s->ld_x, ph->mid + x, s->ld_x, part, m->h + x, s->ld_x,
             m->x + here * s->ld_x, s->ld_x, w + at->norm1, t, s->ld_x, n, s->width);
}

/* c [cols, rows] = a', a [rows, cols] */
static void miras__job_transpose(miras__jobs *list, float *c, size_t ldc, const float *a,
                                 size_t rows, size_t cols) {
  miras__job_add(list, MIRAS__TRANSPOSE, c, ldc, a, cols, NULL, 0, rows, cols, 0);
}

/* Transposed weights of a block, for the products of its backward tiles. */
static void miras__jobs_transpose(miras__jobs *list, size_t layer) {
  const miras_model *m = list->m;
  const miras__shape *s = &m->s;
  const miras__slots *at = &m->at;
  const float *w = miras__weights(m, layer);
  size_t width = s->width, x = s->ld_x;
  float *to = m->proj_t;
  miras__job_transpose(list, to, x, w + at->q, width, s->key);
  if (s->kp) miras__job_transpose(list, to + s->at_k * x, x, w + at->k, width, s->heads * s->kp);
  miras__job_transpose(list, to + s->at_v * x, x, w + at->v, width, s->heads * s->vc);
  miras__job_transpose(list, to + s->at_out * x, x, w + at->out_gate, width, s->value);
  if (s->moving) {
    miras__job_transpose(list, to + s->at_low * x, x, w + at->gates_down, width, s->rank);
    miras__job_transpose(list, m->up_t, miras__pad(s->rank), w + at->gates_up, s->rank, s->moving);
  }
  miras__job_transpose(list, m->o_t, s->ld_y, w + at->o, s->value, width);
  miras__job_transpose(list, m->mlp_t, x, w + at->mlp_gate, width, s->hidden);
  miras__job_transpose(list, m->mlp_t + s->hidden * x, x, w + at->mlp_up, width, s->hidden);
  miras__job_transpose(list, m->down_t, s->ld_f, w + at->mlp_down, s->hidden, width);
}

/* dw [rows, cols] += a' b over the tokens of the step. */
static void miras__job_product(miras__jobs *list, float *dw, size_t rows, size_t cols,
                               const float *a, size_t lda, const float *b, size_t ldb) {
  miras__job_add(list, MIRAS__PRODUCT, dw, cols, a, lda, b, ldb, rows, cols,
                 (size_t)list->m->batch * (size_t)list->m->length);
}

/* dw [cols] += rows of a, ld apart. */
static void miras__job_reduce(miras__jobs *list, float *dw, size_t cols, const float *a, size_t ld,
                              size_t rows) {
  miras__job_add(list, MIRAS__REDUCE, dw, 0, a, ld, NULL, 0, rows, cols, 0);
}

/* Everything a block's weights receive. */
static void miras__jobs_weights(miras__jobs *list, const miras__phase *ph) {
  const miras_model *m = list->m;
  const miras__shape *s = &m->s;
  const miras__slots *at = &m->at;
  size_t l = (size_t)ph->in, batch = (size_t)m->batch, tiles = batch * ph->per;
  size_t width = s->width, f = s->hidden, conv = s->taps * s->at_out;
  size_t kcols = s->heads * s->kp, vcols = s->heads * s->vc, memory = s->heads * m->plan.weights;
  const float *dconv = m->part_conv;
  const miras__gates *keep = &s->group[MIRAS__KEEP];
  float *g = m->grads + m->first_block + l * m->block;
  const float *ab = m->ab + l * m->rows * 2 * s->ld_f;
  miras__job_product(list, g + at->mlp_gate, width, f, m->h2, s->ld_x, ab, 2 * s->ld_f);
  miras__job_product(list, g + at->mlp_up, width, f, m->h2, s->ld_x, ab + s->ld_f, 2 * s->ld_f);
  miras__job_product(list, g + at->mlp_down, f, width, m->s_, s->ld_f, ph->after_in, s->ld_x);
  miras__job_product(list, g + at->q, width, s->key, m->h, s->ld_x, m->dproj, s->ld_p);
  if (kcols)
    miras__job_product(list, g + at->k, width, kcols, m->h, s->ld_x, m->dproj + s->at_k, s->ld_p);
  miras__job_product(list, g + at->v, width, vcols, m->h, s->ld_x, m->dproj + s->at_v, s->ld_p);
  miras__job_product(list, g + at->out_gate, width, s->value, m->h, s->ld_x, m->dproj + s->at_out,
                     s->ld_p);
  miras__job_product(list, g + at->o, s->value, width, m->out, s->ld_y, ph->mid_in, s->ld_x);
  if (s->moving) {
    miras__job_product(list, g + at->gates_down, width, s->rank, m->h, s->ld_x,
                       m->dproj + s->at_low, s->ld_p);
    miras__job_product(list, g + at->gates_up, s->rank, s->moving,
                       m->proj + l * m->rows * s->ld_p + s->at_low, s->ld_p, m->dgates, s->ld_g);
  }
  if (s->gates)
    miras__job_reduce(list, g + at->gates_offset, s->gates, m->part + 3 * s->ld_x + s->ld_y,
                      m->ld_part, tiles);
  miras__job_reduce(list, g + at->norm1, width, m->part, m->ld_part, tiles);
  miras__job_reduce(list, g + at->norm2, width, m->part + s->ld_x, m->ld_part, tiles);
  miras__job_reduce(list, g + at->out_norm, s->value, m->part + 3 * s->ld_x, m->ld_part, tiles);
  miras__job_reduce(list, g + at->conv_q, s->taps * s->key, dconv, conv, tiles);
  dconv += s->taps * s->key;
  if (kcols) miras__job_reduce(list, g + at->conv_k, s->taps * kcols, dconv, conv, tiles);
  dconv += s->taps * kcols;
  miras__job_reduce(list, g + at->conv_v, s->taps * vcols, dconv, conv, tiles);
  if (keep->count && keep->form == MIRAS__GATE_RATE)
    miras__job_reduce(list, g + at->gates_rate, keep->count,
                      m->part + 3 * s->ld_x + s->ld_y + s->ld_g, m->ld_part, tiles);
  if (s->group[MIRAS__ERASE].count) {
    miras__job_reduce(list, g + at->erase_scale, s->key, m->part_erase, 2 * s->key, batch);
    miras__job_reduce(list, g + at->erase_mix, s->key, m->part_erase + s->key, 2 * s->key, batch);
  }
  if (memory) miras__job_reduce(list, g + at->memory, memory, m->part_memory, memory, batch);
  if (s->gain) {
    size_t n = s->heads * s->gain;
    miras__job_reduce(list, g + at->gain, n, m->part_gain, n, batch);
  }
  if (m->plan.d.inner_norm)
    miras__job_reduce(list, g + at->bias, s->value, m->part_bias, s->value, batch);
  if (m->plan.d.row_rates) {
    size_t n = (size_t)m->plan.d.chunk;
    miras__job_reduce(list, g + at->rates, n, m->part_rates, n, batch * s->heads);
  }
}

/* The embedding's rows: tasks share the vocabulary out, each walks the tokens in order. */
#define MIRAS__EMBED_TASKS 8
static void miras__embed_bwd(void *argument, int index, int worker) {
  const miras__phase *ph = (const miras__phase *)argument;
  miras_model *m = ph->m;
  const miras__shape *s = &m->s;
  float *t = m->scratch + (size_t)worker * m->scratch_size + MIRAS__PACK;
  size_t rows = (size_t)m->batch * ph->length, row;
  for (row = 0; row < rows; row++) {
    const float *d = ph->before + row * s->ld_x;
    if (m->tokens[row] % MIRAS__EMBED_TASKS != index) continue;
    if (ph->drop) {
      miras__drop_rows(ph->k, ph->drop, 0, row, t, NULL, d, s->ld_x, 1, s->width);
      d = t;
    }
    ph->k->add(m->grads + (size_t)m->tokens[row] * s->width, d, s->width);
  }
}

MIRAS_API miras_result miras_model_backward(miras_model *m) {
  const miras__kernels *k = miras__kernels_best();
  const miras__shape *s;
  miras__phase ph;
  miras__jobs jobs;
  miras__drop drop;
  size_t tiles, i, turn = 0;
  int l;
  if (!m || !m->desc.batch) return MIRAS_ERR_ARGUMENT;
  if (!m->taped) return MIRAS_ERR_STATE;
  m->taped = 0;
  s = &m->s;
  miras__phase_begin(&ph, m, k, 1, &drop);
  tiles = (size_t)m->batch * ph.per;
  ph.before = m->d[0];
  /* the head, group by group; a single group still has its logits' gradient from the loss */
  for (i = 0; i < tiles;) {
    size_t count = tiles, row0 = 0, row1 = (size_t)m->batch * ph.length;
    if (tiles > m->group) {
      ph.end = 1;
      count = miras__group_run(&ph, i);
      row0 = ph.row0;
      if (i + count < tiles) (void)miras__tile_rows(&ph, i + count, &row1);
    }
    ph.first = i;
    ph.row0 = row0;
    miras__run(m, count, miras__tile_end_bwd, &ph);
    miras__jobs_begin(&jobs, m, k);
    miras__job_add(&jobs, MIRAS__PRODUCT, m->grads + m->head, s->width, m->logits, s->ld_v,
                   m->last + row0 * s->ld_x, s->ld_x, s->vocab, s->width, row1 - row0);
    i += count;
    if (i == tiles) {
      miras__job_reduce(&jobs, m->grads + m->norm, s->width, m->part + 2 * s->ld_x, m->ld_part,
                        tiles);
      miras__jobs_transpose(&jobs, s->layers - 1);
    }
    miras__jobs_run(&jobs);
  }
  for (l = m->desc.layers - 1; l >= 0; l--, turn = (turn + 2) % 3) {
    ph.first = 0;
    ph.in = l;
    ph.after = m->d[turn];
    ph.mid = m->d[(turn + 1) % 3];
    ph.before = m->d[(turn + 2) % 3];
    ph.after_in = ph.drop ? m->masked[0] : ph.after;
    ph.mid_in = ph.drop ? m->masked[1] : ph.mid;
    miras__run(m, tiles, miras__tile_out_bwd, &ph);
    miras__run(m, (size_t)m->batch * s->heads, miras__head_bwd, &ph);
    miras__run(m, tiles, miras__tile_in_bwd, &ph);
    miras__jobs_begin(&jobs, m, k);
    miras__jobs_weights(&jobs, &ph);
    if (l > 0) miras__jobs_transpose(&jobs, (size_t)l - 1);
    miras__jobs_run(&jobs);
  }
  miras__run(m, MIRAS__EMBED_TASKS, miras__embed_bwd, &ph);
  return MIRAS_OK;
}

typedef struct miras__adam {
  miras_model *m;
  const miras__kernels *k;
  float c[9], rate, decay; /* constants of the kernel; c[5] and c[8] depend on the view           */
} miras__adam;

static void miras__norm_task(void *argument, int index, int worker) {
  const miras__adam *o = (const miras__adam *)argument;
  const miras_model *m = o->m;
  size_t i = (size_t)index * MIRAS__NORM_BLOCK, end = i + MIRAS__NORM_BLOCK, n;
  double total = 0;
  (void)worker;
  if (end > m->param_count) end = m->param_count;
  for (; i < end; i += n) {
    n = end - i < 256 ? end - i : 256;
    total += (double)o->k->dot(m->grads + i, m->grads + i, n);
  }
  m->norms[index] = total;
}

static void miras__adam_task(void *argument, int index, int worker) {
  const miras__adam *o = (const miras__adam *)argument;
  const miras_model *m = o->m;
  const miras_view *view;
  size_t task = (size_t)index, low = 0, high = (size_t)m->view_count, at, n;
  float c[9];
  (void)worker;
  while (high - low > 1) {   /* the view that owns this task */
    size_t middle = low + (high - low) / 2;
    if (m->first_task[middle] <= task) low = middle;
    else high = middle;
  }
  at = (task - m->first_task[low]) * MIRAS__ADAM_BLOCK;
  view = &m->views[low];
  n = view->count - at;
  if (n > MIRAS__ADAM_BLOCK) n = MIRAS__ADAM_BLOCK;
  at += view->offset;
  memcpy(c, o->c, sizeof c);
  c[5] *= view->rate;
  c[8] = view->decay ? 1 - o->rate * view->rate * o->decay : 1;
  o->k->adamw(m->params + at, m->moment1 + at, m->moment2 + at, m->grads + at, n, c);
}

/* A gradient that is not finite would poison the moments for good: such a step changes no parameter
 * and is not counted; the gradients are cleared and the caller sees the norm. */
MIRAS_API float miras_adamw(miras_model *m, const miras_adamw_options *options,
                            float learning_rate) {
  miras_adamw_options o;
  miras__adam a;
  size_t i, blocks;
  double total = 0, norm, t;
  if (!m || !m->desc.batch) return (float)NAN;
  memset(&o, 0, sizeof o);
  if (options) o = *options;
  if (!(o.beta1 > 0)) o.beta1 = 0.9f;
  if (!(o.beta2 > 0)) o.beta2 = 0.95f;
  if (!(o.epsilon > 0)) o.epsilon = 1e-8f;
  a.m = m;
  a.k = miras__kernels_best();
  blocks = (m->param_count + MIRAS__NORM_BLOCK - 1) / MIRAS__NORM_BLOCK;
  miras__run(m, blocks, miras__norm_task, &a);
  for (i = 0; i < blocks; i++) total += m->norms[i];
  norm = sqrt(total);
  m->taped = 0;
  if (!(norm <= (double)FLT_MAX)) {
    memset(m->grads, 0, m->param_count * sizeof(float));
    m->calls = 0;
    return (float)norm;
  }
  m->steps++;
  m->calls = 0;
  t = (double)m->steps;
  a.c[0] = o.beta1;
  a.c[1] = 1 - o.beta1;
  a.c[2] = o.beta2;
  a.c[3] = 1 - o.beta2;
  a.c[4] = o.clip > 0 && norm > (double)o.clip ? (float)((double)o.clip / norm) : 1;
  a.c[5] = (float)((double)learning_rate / (1 - pow((double)o.beta1, t)));
  a.c[6] = (float)(1 / sqrt(1 - pow((double)o.beta2, t)));
  a.c[7] = o.epsilon;
  a.c[8] = 1;
  a.rate = learning_rate;
  a.decay = o.decay;
  miras__run(m, m->first_task[m->view_count], miras__adam_task, &a);
  return (float)norm;
}

MIRAS_API float miras_cosine(uint64_t step, uint64_t warmup, uint64_t steps, float peak,
                             float lowest) {
  double t, low = (double)lowest;
  if (step < warmup) return (float)((double)peak * (double)(step + 1) / (double)warmup);
  if (step >= steps) return peak * lowest;
  t = (double)(step - warmup) / (double)(steps - warmup);
  return (float)((double)peak * (low + (1 - low) * 0.5 * (1 + cos(3.14159265358979323846 * t))));
}
/* @78 SESSIONS ------------------------------------------------------------ needs 70 74 75 76 -- */

static miras_session *miras__session_build(void *buffer, size_t bytes, const miras_model *m) {
  miras__arena a;
  miras_session *s;
  memset(&a, 0, sizeof a);
  a.ok = 1;
  a.base = miras__align(buffer);
  s = (miras_session *)miras__take(&a, 1, sizeof *s);
  memset(s, 0, sizeof *s);
  miras__session_layout(s, &a, m);
  s->memory = buffer;
  s->bytes = bytes;
  memset(s->state, 0, s->state_bytes);
  return s;
}

/* Run n <= MIRAS__TILE tokens through all blocks: s->x and the state. */
static void miras__session_rows(miras_session *s, const miras__kernels *k, const int32_t *tokens,
                                size_t n) {
  const miras_model *m = s->model;
  const miras__shape *z = &m->s;
  float *state = (float *)s->state;
  uint64_t position = miras__position(s->state);
  size_t l, h, t, back = z->taps - 1, wide = z->at_out;
  miras__qkv qkv;
  qkv.base = s->qkv;
  qkv.per = MIRAS__TILE * z->per_token;
  qkv.length = n;
  for (t = 0; t < n; t++)
    memcpy(s->x + t * z->ld_x, m->params + (size_t)tokens[t] * z->width, z->width * sizeof(float));
  for (l = 0; l < z->layers; l++) {
    const float *w = m->params + m->first_block + l * m->block;
    float *tail = state + 16 + l * m->run_block;
    miras__block_in(m, k, w, n, s->x, s->proj, s->g, s->gates, tail, wide, &qkv, 0, s->scratch);
    for (h = 0; h < z->heads; h++) {
      miras__head_io io;
      miras__head_io_of(m, l, h, n, &qkv, s->gates, s->y, &io);
      miras__head_run(m, k, w, h, &io, tail + m->tail + h * m->plan.head_state, position, NULL,
                      s->scratch);
    }
    for (t = 0; t < back; t++)      /* the last taps - 1 of what was there and what came */
      memcpy(tail + t * wide,
             t + n < back ? tail + (t + n) * wide : s->proj + (t + n - back) * z->ld_p,
             wide * sizeof(float));
    miras__block_out(m, k, w, n, s->x, s->y, s->proj, s->mid, s->ab, s->x, NULL, 0, 0, s->scratch);
  }
  position += n;
  memcpy(s->state, &position, sizeof position);
}

/* Logits of rows from..from + n - 1 of the tile, n <= s->held. */
static void miras__session_logits(miras_session *s, const miras__kernels *k, size_t from,
                                  size_t n) {
  const miras_model *m = s->model;
  const miras__shape *z = &m->s;
  k->rms_fwd(s->last, z->ld_x, s->x + from * z->ld_x, z->ld_x, m->params + m->norm, n, z->width);
  miras__matmul(k, MIRAS__SET, s->logits, z->ld_v, s->last, z->ld_x, 1, m->params + m->head, 1,
                z->width, n, z->vocab, z->width, s->scratch);
}

/* Tokens of the next tile: up to the next multiple of MIRAS__TILE, so that long inputs are cut on
 * the chunk grid wherever they start. */
static size_t miras__session_next(const miras_session *s, size_t left) {
  size_t room = MIRAS__TILE - (size_t)(miras__position(s->state) % MIRAS__TILE);
  return left < room ? left : room;
}

static int miras__session_tokens_ok(const miras_session *s, const int32_t *tokens, size_t count,
                                    int32_t least) {
  size_t i;
  for (i = 0; i < count; i++)
    if (tokens[i] < least || tokens[i] >= s->model->desc.vocab) return 0;
  return 1;
}

MIRAS_API size_t miras_session_size(const miras_model *m) {
  return m ? miras__session_bytes(m) : 0;
}

MIRAS_API miras_session *miras_session_init(void *buffer, size_t bytes, const miras_model *m) {
  size_t need = m ? miras__session_bytes(m) : 0;
  return !buffer || !need || bytes < need ? NULL : miras__session_build(buffer, need, m);
}

MIRAS_API miras_session *miras_session_open(const miras_model *m,
                                            const miras_allocator *allocator) {
  miras_allocator from = miras__allocator(allocator);
  size_t need = m ? miras__session_bytes(m) : 0;
  void *buffer = need ? from.alloc(need, from.user) : NULL;
  miras_session *s;
  if (!buffer) return NULL;
  s = miras__session_build(buffer, need, m);
  s->allocator = from;
  return s;
}

MIRAS_API void miras_session_close(miras_session *s) {
  miras_allocator from;
  if (!s || !s->allocator.alloc) return;
  from = s->allocator;
  from.free(s->memory, s->bytes, from.user);
}

static const float *miras__session_feed(miras_session *s, const int32_t *tokens, size_t count) {
  const miras__kernels *k = miras__kernels_best();
  size_t n = 0;
  if (!s || !tokens || !count || !miras__session_tokens_ok(s, tokens, count, 0)) return NULL;
  for (; count; tokens += n, count -= n) {
    n = miras__session_next(s, count);
    miras__session_rows(s, k, tokens, n);
  }
  miras__session_logits(s, k, n - 1, 1);
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
  const miras__kernels *k = miras__kernels_best();
  double total = 0;
  size_t n, i, t, rows;
  if (!s || (count && (!tokens || !targets)) || !miras__session_tokens_ok(s, tokens, count, 0) ||
      !miras__session_tokens_ok(s, targets, count, -1))
    return (double)NAN;
  for (; count; tokens += n, targets += n, count -= n) {
    n = miras__session_next(s, count);
    miras__session_rows(s, k, tokens, n);
    for (i = 0; i < n; i += rows) {
      rows = n - i < s->held ? n - i : s->held;
      miras__session_logits(s, k, i, rows);
      for (t = 0; t < rows; t++)
        if (targets[i + t] >= 0)
          total += (double)k->cross_entropy(s->logits + t * s->model->s.ld_v, s->model->s.vocab,
                                            (size_t)targets[i + t], 0);
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
/* @79 THREAD POOL --------------------------------------------------------------- needs 10 74 -- */

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
  from.free(pool, sizeof *pool, from.user);
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
  from.free(p, sizeof *p, from.user);
  return NULL;
}

MIRAS_API const miras_parallel *miras_pool_parallel(const miras_pool *pool) {
  return pool ? &pool->parallel : NULL;
}
#endif
/* @84 BYTES AND TEXT ------------------------------------------------------------- needs 10 -- */

/* ---- bytes, little-endian whatever the machine ---- */

static int miras__little_endian(void) {
  const uint32_t one = 1;
  unsigned char first;
  memcpy(&first, &one, 1);
  return first == 1;
}

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

/* 32-bit words (float or integer, any type of object) from little-endian bytes. */
static void miras__get_words(void *to, const unsigned char *from, size_t count) {
  unsigned char *out = (unsigned char *)to;
  size_t i;
  if (miras__little_endian()) {
    memcpy(out, from, count * 4);
    return;
  }
  for (i = 0; i < count; i++) {
    uint32_t word = miras__get32(from + 4 * i);
    memcpy(out + 4 * i, &word, 4);
  }
}

/* CRC-32C (Castagnoli), eight bytes at a time. The checksum of a byte is linear in its bits, so
 * each row of eight constants (the checksums of the single bits, then of those followed by 1 to 7
 * zero bytes) makes a table of 256 at compile time. */
#define MIRAS__CRC_1(b, c0, c1, c2, c3, c4, c5, c6, c7)                                       \
  (((b) & 1 ? c0 : 0u) ^ ((b) & 2 ? c1 : 0u) ^ ((b) & 4 ? c2 : 0u) ^ ((b) & 8 ? c3 : 0u) ^    \
   ((b) & 16 ? c4 : 0u) ^ ((b) & 32 ? c5 : 0u) ^ ((b) & 64 ? c6 : 0u) ^ ((b) & 128 ? c7 : 0u))
#define MIRAS__CRC_4(b, c0, c1, c2, c3, c4, c5, c6, c7)                                       \
  MIRAS__CRC_1(b, c0, c1, c2, c3, c4, c5, c6, c7),                                            \
  MIRAS__CRC_1((b) + 1, c0, c1, c2, c3, c4, c5, c6, c7),                                      \
  MIRAS__CRC_1((b) + 2, c0, c1, c2, c3, c4, c5, c6, c7),                                      \
  MIRAS__CRC_1((b) + 3, c0, c1, c2, c3, c4, c5, c6, c7)
#define MIRAS__CRC_16(b, c0, c1, c2, c3, c4, c5, c6, c7)                                      \
  MIRAS__CRC_4(b, c0, c1, c2, c3, c4, c5, c6, c7),                                            \
  MIRAS__CRC_4((b) + 4, c0, c1, c2, c3, c4, c5, c6, c7),                                      \
  MIRAS__CRC_4((b) + 8, c0, c1, c2, c3, c4, c5, c6, c7),                                      \
  MIRAS__CRC_4((b) + 12, c0, c1, c2, c3, c4, c5, c6, c7)
#define MIRAS__CRC_64(b, c0, c1, c2, c3, c4, c5, c6, c7)                                      \
  MIRAS__CRC_16(b, c0, c1, c2, c3, c4, c5, c6, c7),                                           \
  MIRAS__CRC_16((b) + 16, c0, c1, c2, c3, c4, c5, c6, c7),                                    \
  MIRAS__CRC_16((b) + 32, c0, c1, c2, c3, c4, c5, c6, c7),                                    \
  MIRAS__CRC_16((b) + 48, c0, c1, c2, c3, c4, c5, c6, c7)
#define MIRAS__CRC_256(c0, c1, c2, c3, c4, c5, c6, c7)                                        \
  { MIRAS__CRC_64(0, c0, c1, c2, c3, c4, c5, c6, c7),                                         \
    MIRAS__CRC_64(64, c0, c1, c2, c3, c4, c5, c6, c7),                                        \
    MIRAS__CRC_64(128, c0, c1, c2, c3, c4, c5, c6, c7),                                       \
    MIRAS__CRC_64(192, c0, c1, c2, c3, c4, c5, c6, c7) }
static const uint32_t miras__crc_table[8][256] = {
  MIRAS__CRC_256(0xf26b8303u, 0xe13b70f7u, 0xc79a971fu, 0x8ad958cfu,
                 0x105ec76fu, 0x20bd8edeu, 0x417b1dbcu, 0x82f63b78u),
  MIRAS__CRC_256(0x13a29877u, 0x274530eeu, 0x4e8a61dcu, 0x9d14c3b8u,
                 0x3fc5f181u, 0x7f8be302u, 0xff17c604u, 0xfbc3faf9u),
  MIRAS__CRC_256(0xa541927eu, 0x4f6f520du, 0x9edea41au, 0x38513ec5u,
                 0x70a27d8au, 0xe144fb14u, 0xc76580d9u, 0x8b277743u),
  MIRAS__CRC_256(0xdd45aab8u, 0xbf672381u, 0x7b2231f3u, 0xf64463e6u,
                 0xe964b13du, 0xd725148bu, 0xaba65fe7u, 0x52a0c93fu),
  MIRAS__CRC_256(0x38116facu, 0x7022df58u, 0xe045beb0u, 0xc5670b91u,
                 0x8f2261d3u, 0x1ba8b557u, 0x37516aaeu, 0x6ea2d55cu),
  MIRAS__CRC_256(0xef306b19u, 0xdb8ca0c3u, 0xb2f53777u, 0x6006181fu,
                 0xc00c303eu, 0x85f4168du, 0x0e045bebu, 0x1c08b7d6u),
  MIRAS__CRC_256(0x68032cc8u, 0xd0065990u, 0xa5e0c5d1u, 0x4e2dfd53u,
                 0x9c5bfaa6u, 0x3d5b83bdu, 0x7ab7077au, 0xf56e0ef4u),
  MIRAS__CRC_256(0x493c7d27u, 0x9278fa4eu, 0x211d826du, 0x423b04dau,
                 0x847609b4u, 0x0d006599u, 0x1a00cb32u, 0x34019664u)
};
#undef MIRAS__CRC_1
#undef MIRAS__CRC_4
#undef MIRAS__CRC_16
#undef MIRAS__CRC_64
#undef MIRAS__CRC_256

/* Start with 0; pass the last result on to continue. */
static uint32_t miras__crc32c(uint32_t crc, const void *bytes, size_t n) {
  const unsigned char *p = (const unsigned char *)bytes;
  const uint32_t (*t)[256] = miras__crc_table;
  crc = ~crc;
  for (; n >= 8; n -= 8, p += 8) {
    uint32_t a = crc ^ miras__get32(p), b = miras__get32(p + 4);
    crc = t[7][a & 255] ^ t[6][a >> 8 & 255] ^ t[5][a >> 16 & 255] ^ t[4][a >> 24] ^
          t[3][b & 255] ^ t[2][b >> 8 & 255] ^ t[1][b >> 16 & 255] ^ t[0][b >> 24];
  }
  for (; n; n--, p++) crc = crc >> 8 ^ t[0][(crc ^ *p) & 255];
  return ~crc;
}

/* ---- where saved bytes go: counted and summed, then to memory, to a writer or nowhere ---- */

typedef struct miras__sink {
  size_t size;             /* bytes put so far                                                   */
  uint32_t crc;            /* of them                                                            */
  unsigned char *to;       /* NULL or as many bytes as will be put                               */
  int (*write)(void *user, const void *bytes, size_t n);   /* NULL, or 1 on success              */
  void *user;
  int failed;
} miras__sink;

static void miras__out(miras__sink *s, const void *bytes, size_t n) {
  s->crc = miras__crc32c(s->crc, bytes, n);
  if (s->to) memcpy(s->to + s->size, bytes, n);
  if (s->write && !s->failed && !s->write(s->user, bytes, n)) s->failed = 1;
  s->size += n;
}

static void miras__out64(miras__sink *s, uint64_t x) {
  unsigned char bytes[8];
  miras__set64(bytes, x);
  miras__out(s, bytes, 8);
}

static void miras__out_words(miras__sink *s, const void *from, size_t count) {
  const unsigned char *in = (const unsigned char *)from;
  if (miras__little_endian()) {
    miras__out(s, in, count * 4);
    return;
  }
  for (; count; count--, in += 4) {
    unsigned char bytes[4];
    uint32_t word;
    memcpy(&word, in, 4);
    miras__set32(bytes, word);
    miras__out(s, bytes, 4);
  }
}

static void miras__out_text(miras__sink *s, const char *text) { miras__out(s, text, strlen(text)); }

static uint64_t miras__real_bits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static float miras__bits_real(uint64_t x) {
  uint32_t bits = (uint32_t)x;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* ---- numbers as text; the C library's own would follow the locale ---- */

static void miras__out_whole(miras__sink *s, uint64_t x) {
  char text[20];
  int i = 20;
  do {
    text[--i] = (char)('0' + (int)(x % 10));
    x /= 10;
  } while (x);
  miras__out(s, text + i, (size_t)(20 - i));
}

/* The whole text as an unsigned number: digits only, no leading zero. 1 on success. */
static int miras__read_whole(const char *text, uint64_t *x) {
  uint64_t n = 0;
  if (text[0] < '0' || text[0] > '9' || (text[0] == '0' && text[1])) return 0;
  for (; *text; text++) {
    unsigned digit = (unsigned)*text - '0';
    if (digit > 9 || n > (UINT64_MAX - digit) / 10) return 0;
    n = 10 * n + digit;
  }
  *x = n;
  return 1;
}

/* The whole text as a finite float, JSON's grammar. Computed in double with an error far below half
 * a float's last place, so that any float written with 9 digits or more comes back exactly. */
static int miras__read_real(const char *text, float *x) {
  uint64_t digits = 0;
  double value, power = 1;
  int minus = text[0] == '-', exponent = 0, places = 0, seen = 0;
  if (minus) text++;
  if (text[0] == '0' && text[1] >= '0' && text[1] <= '9') return 0;
  for (; (*text >= '0' && *text <= '9') || (*text == '.' && !places && seen); text++) {
    if (*text == '.') {
      places = 1;
      seen = 0;
      continue;
    }
    seen = 1;
    if (digits < UINT64_MAX / 10 - 1) {
      digits = 10 * digits + (uint64_t)(*text - '0');
      exponent -= places;
    } else {
      exponent += !places;
    }
  }
  if (!seen) return 0;
  if (*text == 'e' || *text == 'E') {
    int down = text[1] == '-', shift = 0;
    text += 1 + (text[1] == '-' || text[1] == '+');
    if (*text < '0' || *text > '9') return 0;
    for (; *text >= '0' && *text <= '9'; text++)
      if (shift < 1000) shift = 10 * shift + (*text - '0');
    exponent += down ? -shift : shift;
  }
  if (*text) return 0;
  value = (double)digits;
  if (digits) {
    int n = exponent < 0 ? -exponent : exponent;
    for (n = n < 400 ? n : 400; n; n--) power *= 10;
    value = exponent < 0 ? value / power : value * power;
  }
  /* halfway from FLT_MAX to 2^128: from here on the nearest float would be infinite */
  if (!(value < 3.4028235677973366e38)) return 0;
  *x = (float)(minus ? -value : value);
  return 1;
}

/* The shortest text that reads back to the same bits: 1 to 9 digits. text holds 32 characters. x is
 * finite, as every number of a checked descriptor. */
static void miras__write_real(char *text, float x) {
  double size = x < 0 ? -(double)x : (double)x;
  int exponent = 0, count, i;
  float back = 0;
  MIRAS_ASSERT(size < 3.5e38);
  while (size >= 10) size /= 10, exponent++;
  while (size > 0 && size < 1) size *= 10, exponent--;
  for (count = 1; count <= 9; count++) {
    char digit[12], *at = text;
    int point = exponent;   /* digits before the decimal point, less one */
    double scaled = size;
    uint32_t n;
    for (i = 1; i < count; i++) scaled *= 10;
    n = (uint32_t)(scaled + 0.5);
    for (i = count; i >= 0; i--, n /= 10) digit[i] = (char)('0' + (int)(n % 10));
    /* digit[0] is 1 if rounding carried into a new place, else 0 */
    if (digit[0] == '1') point++;
    else memmove(digit, digit + 1, (size_t)count);
    if (miras__real_bits(x) >> 31) *at++ = '-';
    if (point < 0 && point >= -5) {
      *at++ = '0';
      *at++ = '.';
      for (i = -1; i > point; i--) *at++ = '0';
      for (i = 0; i < count; i++) *at++ = digit[i];
    } else {
      int whole = point >= 0 && point < 9 ? point : 0;
      for (i = 0; i < count || i <= whole; i++) {
        if (i == whole + 1) *at++ = '.';
        *at++ = i < count ? digit[i] : '0';
      }
      if (point != whole) {
        int size10 = point < 0 ? -point : point;
        *at++ = 'e';
        *at++ = point < 0 ? '-' : '+';
        *at++ = (char)('0' + size10 / 10);
        *at++ = (char)('0' + size10 % 10);
      }
    }
    *at = 0;
    if (miras__read_real(text, &back) && memcmp(&back, &x, sizeof x) == 0) return;
  }
}

/* ---- reading JSON: as much of it as safetensors uses ---- */

/* A cursor. After a violation, bad is 1 and at is end, so every loop runs out. */
typedef struct miras__text {
  const unsigned char *at, *end;
  int bad;
} miras__text;

#define MIRAS__NAME_SIZE 64   /* longer names and values than 63 are none that we know */

static int miras__refuse(miras__text *t) {
  t->bad = 1;
  t->at = t->end;
  return 0;
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

/* A string, decoded. What cannot be a name or value of ours (too long, not ASCII, a NUL inside)
 * becomes "?", which is none either. Returns where the string began in the text. */
static const unsigned char *miras__need_string(miras__text *t, char *out) {
  const unsigned char *start;
  size_t n = 0;
  int known = 1;
  out[0] = 0;
  if (!miras__need_char(t, '"')) return t->end;
  start = t->at;
  for (;;) {
    unsigned c;
    if (t->at == t->end || *t->at < 0x20) {
      miras__refuse(t);
      return start;
    }
    c = *t->at++;
    if (c == '"') break;
    if (c == '\\') {
      static const char from[] = "\"\\/bfnrtu", to[] = "\"\\/\b\f\n\r\t";
      const char *escape = t->at < t->end && *t->at ? strchr(from, *t->at) : NULL;
      if (!escape) {
        miras__refuse(t);
        return start;
      }
      t->at++;
      c = (unsigned char)to[escape - from];
      if (*escape == 'u') {
        int i;
        for (c = 0, i = 0; i < 4; i++) {
          static const char hex[] = "0123456789abcdef0123456789ABCDEF";
          const char *digit = t->at < t->end && *t->at ? strchr(hex, *t->at) : NULL;
          if (!digit) {
            miras__refuse(t);
            return start;
          }
          t->at++;
          c = c << 4 | (unsigned)((digit - hex) & 15);
        }
      }
    }
    if (c < 1 || c > 126 || n == MIRAS__NAME_SIZE - 1) known = 0;
    else out[n++] = (char)c;
  }
  out[n] = 0;
  if (!known) memcpy(out, "?", 2);
  return start;
}

static uint64_t miras__need_whole(miras__text *t) {
  char digits[24];
  uint64_t x = 0;
  size_t n = 0;
  miras__skip_space(t);
  while (t->at < t->end && n < 21 && *t->at >= '0' && *t->at <= '9') digits[n++] = (char)*t->at++;
  digits[n] = 0;
  if (!miras__read_whole(digits, &x)) miras__refuse(t);
  return x;
}

/* @85 FILES ------------------------------------------------------ needs 10 11 14 74 75 78 84 -- */

/* A saved model is a safetensors file: 8 bytes of header length, a JSON header of up to 4 MiB, f32
 * tensors without gaps, everything little-endian. The header's __metadata__ holds the descriptor,
 * field by field, and a CRC-32C of the whole file in which the eight digits of the checksum itself
 * count as zeros; so no single changed byte goes unnoticed, be it in the header or in the numbers.
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

/* ---- the descriptor as a list of named 64-bit values ---- */

/* kind of field, C type, field, names of an enum's values in order. batch and the memory's seed are
 * not in it: the model sets them. */
#define MIRAS__MEMORY_FIELDS(X)                                                               \
  X(NAME, miras_architecture, architecture, "matrix mlp gated-mlp vector pairs")              \
  X(NAME, miras_bias, bias, "dot l2 lp lp-smooth huber huber-norm huber-mixture "             \
    "pseudo-huber shift-robust custom")                                                       \
  X(NAME, miras_retention, retention, "all l2 lq lq-pnorm kl l2-both elastic elastic-ftrl "    \
    "sigmoid chi2 reverse-kl hellinger custom")                                               \
  X(NAME, miras_algorithm, algorithm, "gradient-descent momentum implicit newton")            \
  X(NAME, miras_order, order, "error-first decay-first")                                      \
  X(WHOLE, int, heads, "")                                                                    \
  X(WHOLE, int, key_dim, "")                                                                  \
  X(WHOLE, int, value_dim, "")                                                                \
  X(WHOLE, int, chunk, "")                                                                    \
  X(WHOLE, int, depth, "")                                                                    \
  X(WHOLE, int, expansion, "")                                                                \
  X(NAME, miras_activation, activation, "gelu silu identity")                                 \
  X(WHOLE, int, inner_norm, "")                                                               \
  X(WHOLE, int, inner_residual, "")                                                           \
  X(WHOLE, int, inner_bias, "")                                                               \
  X(NAME, miras_feature, feature, "identity elu relu relu2 softmax poly2")                    \
  X(WHOLE, int, normalise, "")                                                                \
  X(WHOLE, int, steps, "")                                                                    \
  X(WHOLE, int, separate_erase, "")                                                           \
  X(WHOLE, int, diagonal, "")                                                                 \
  X(WHOLE, int, row_rates, "")                                                                \
  X(WHOLE, int, window, "")                                                                   \
  X(WHOLE, int, iterations, "")                                                               \
  X(REAL, float, tolerance, "")                                                               \
  X(REAL, float, ridge, "")                                                                   \
  X(NAME, miras_gate, keep_gate, "constant head channel")                                     \
  X(NAME, miras_gate, step_gate, "constant head channel")                                     \
  X(NAME, miras_gate, momentum_gate, "constant head channel")                                 \
  X(NAME, miras_gate, threshold_gate, "constant head channel")                                \
  X(NAME, miras_gate, value_gate, "constant head channel")                                    \
  X(REAL, float, forget, "")                                                                  \
  X(REAL, float, forget_ratio, "")                                                            \
  X(NAME, miras_slopes, slopes, "ratio lightning minimax")                                    \
  X(WHOLE, int, layer, "")                                                                    \
  X(WHOLE, int, layers, "")                                                                   \
  X(REAL, float, step, "")                                                                    \
  X(REAL, float, momentum, "")                                                                \
  X(REAL, float, threshold, "")                                                               \
  X(REAL, float, p, "")                                                                       \
  X(REAL, float, q, "")                                                                       \
  X(REAL, float, sharpness, "")                                                               \
  X(REAL, float, simplex, "")                                                                 \
  X(WHOLE, int, simplex_whole, "")                                                            \
  X(WHOLE, int, simplex_logits, "")                                                           \
  X(REAL, float, balance, "")                                                                 \
  X(REAL, float, sparsity, "")                                                                \
  X(WHOLE, int, smooth_shrink, "")
/* dropout and seed come last: models that differ only there take each other's parameters. */
#define MIRAS__MODEL_FIELDS(X)                                                                \
  X(WHOLE, int, vocab, "")                                                                    \
  X(WHOLE, int, width, "")                                                                    \
  X(WHOLE, int, layers, "")                                                                   \
  X(WHOLE, int, hidden, "")                                                                   \
  X(WHOLE, int, conv, "")                                                                     \
  X(WHOLE, int, gate_rank, "")                                                                \
  X(NAME, miras_keys, keys, "unit rms free complement erase")                                 \
  X(NAME, miras_keep, keep, "sigmoid root rate bounded")                                      \
  X(WHOLE, int, tied_step, "")                                                                \
  X(WHOLE, int, untied, "")                                                                   \
  X(REAL, float, dropout, "")                                                                 \
  X(WIDE, uint64_t, seed, "")

/* Fields of version 3. A file in which all of them are 0 says that it is of version 2, and is. */
#define MIRAS__MEMORY_LATER(X)                                                                \
  X(NAME, miras_length, key_length, "free unit root")                                         \
  X(NAME, miras_toward, toward, "nothing initial")                                            \
  X(WHOLE, int, reset_every, "")                                                              \
  X(WHOLE, int, bounded_step, "")                                                             \
  X(WHOLE, int, simplex_signed, "")
#define MIRAS__MODEL_LATER(X)                                                                 \
  X(WHOLE, int, fixed_gates, "")                                                              \
  X(WHOLE, int, horizon, "")

enum {
#define MIRAS_X(kind, type, field, words) MIRAS__AT_MEMORY_##field,
  MIRAS__MEMORY_FIELDS(MIRAS_X)
#undef MIRAS_X
  MIRAS__MEMORY_COUNT,
  MIRAS__BEFORE_MODEL = MIRAS__MEMORY_COUNT - 1,
#define MIRAS_X(kind, type, field, words) MIRAS__AT_MODEL_##field,
  MIRAS__MODEL_FIELDS(MIRAS_X)
#undef MIRAS_X
  MIRAS__FIRST_COUNT,                             /* fields of every version                      */
  MIRAS__SHAPE_COUNT = MIRAS__AT_MODEL_dropout,   /* fields that decide what parameters mean; later
                                                     ones do, but for reset_every                 */
  MIRAS__BEFORE_LATER = MIRAS__FIRST_COUNT - 1,
#define MIRAS_X(kind, type, field, words) MIRAS__AT_MEMORY_##field,
  MIRAS__MEMORY_LATER(MIRAS_X)
#undef MIRAS_X
  MIRAS__MEMORY_END,
  MIRAS__BEFORE_MODEL_LATER = MIRAS__MEMORY_END - 1,
#define MIRAS_X(kind, type, field, words) MIRAS__AT_MODEL_##field,
  MIRAS__MODEL_LATER(MIRAS_X)
#undef MIRAS_X
  MIRAS__FIELD_COUNT,
  /* what else __metadata__ holds */
  MIRAS__AT_FORMAT = MIRAS__FIELD_COUNT, MIRAS__AT_VERSION, MIRAS__AT_WRITER, MIRAS__AT_CHECKSUM,
  MIRAS__AT_STEPS, MIRAS__KEY_COUNT
};

enum { MIRAS__KEY_NAME, MIRAS__KEY_WHOLE, MIRAS__KEY_REAL, MIRAS__KEY_WIDE, MIRAS__KEY_TEXT };

typedef struct miras__key {
  const char *name;
  int kind;
  const char *words;       /* NAME: the values; TEXT: the only one, or "" for any                */
} miras__key;

static const miras__key miras__keys[MIRAS__KEY_COUNT] = {
#define MIRAS_X(kind, type, field, words) { "memory." #field, MIRAS__KEY_##kind, words },
  MIRAS__MEMORY_FIELDS(MIRAS_X)
#undef MIRAS_X
#define MIRAS_X(kind, type, field, words) { #field, MIRAS__KEY_##kind, words },
  MIRAS__MODEL_FIELDS(MIRAS_X)
#undef MIRAS_X
#define MIRAS_X(kind, type, field, words) { "memory." #field, MIRAS__KEY_##kind, words },
  MIRAS__MEMORY_LATER(MIRAS_X)
#undef MIRAS_X
#define MIRAS_X(kind, type, field, words) { #field, MIRAS__KEY_##kind, words },
  MIRAS__MODEL_LATER(MIRAS_X)
#undef MIRAS_X
  { "format", MIRAS__KEY_TEXT, "miras" },
  { "version", MIRAS__KEY_NAME, "2 3" },
  { "writer", MIRAS__KEY_TEXT, "miras.h" },
  { "checksum", MIRAS__KEY_TEXT, "" },
  { "steps", MIRAS__KEY_WIDE, "" }
};

#define MIRAS__RAW_NAME(x) (uint64_t)(x)
#define MIRAS__RAW_WHOLE(x) (uint64_t)(int64_t)(x)
#define MIRAS__RAW_REAL(x) miras__real_bits(x)
#define MIRAS__RAW_WIDE(x) (x)
#define MIRAS__COOK_NAME(type, x) (type)(int)(x)
#define MIRAS__COOK_WHOLE(type, x) (type)(int64_t)(x)
#define MIRAS__COOK_REAL(type, x) miras__bits_real(x)
#define MIRAS__COOK_WIDE(type, x) (x)

static void miras__memory_raw(const miras_desc *d, uint64_t *raw) {
#define MIRAS_X(kind, type, field, words) \
  raw[MIRAS__AT_MEMORY_##field] = MIRAS__RAW_##kind(d->field);
  MIRAS__MEMORY_FIELDS(MIRAS_X)
  MIRAS__MEMORY_LATER(MIRAS_X)
#undef MIRAS_X
}

static void miras__model_raw(const miras_model_desc *d, uint64_t *raw) {
  miras__memory_raw(&d->memory, raw);
#define MIRAS_X(kind, type, field, words) \
  raw[MIRAS__AT_MODEL_##field] = MIRAS__RAW_##kind(d->field);
  MIRAS__MODEL_FIELDS(MIRAS_X)
  MIRAS__MODEL_LATER(MIRAS_X)
#undef MIRAS_X
}

static void miras__model_cook(miras_model_desc *d, const uint64_t *raw) {
  miras_desc *memory = &d->memory;
  memset(memory, 0, sizeof *memory);
#define MIRAS_X(kind, type, field, words)                                                     \
  memory->field = MIRAS__COOK_##kind(type, raw[MIRAS__AT_MEMORY_##field]);
  MIRAS__MEMORY_FIELDS(MIRAS_X)
  MIRAS__MEMORY_LATER(MIRAS_X)
#undef MIRAS_X
#define MIRAS_X(kind, type, field, words)                                                     \
  d->field = MIRAS__COOK_##kind(type, raw[MIRAS__AT_MODEL_##field]);
  MIRAS__MODEL_FIELDS(MIRAS_X)
  MIRAS__MODEL_LATER(MIRAS_X)
#undef MIRAS_X
}

#undef MIRAS__RAW_NAME
#undef MIRAS__RAW_WHOLE
#undef MIRAS__RAW_REAL
#undef MIRAS__RAW_WIDE
#undef MIRAS__COOK_NAME
#undef MIRAS__COOK_WHOLE
#undef MIRAS__COOK_REAL
#undef MIRAS__COOK_WIDE

/* Of the first `count` fields, and by name of the later ones before `end` that are not 0: states of
 * version 0.2 keep theirs, and all do when fields are added. */
static uint64_t miras__fingerprint(const uint64_t *raw, int count, int end, uint64_t start) {
  int i;
  for (i = 0; i < count; i++) start = miras__hash(start ^ raw[i]);
  for (i = MIRAS__FIRST_COUNT; i < end; i++) {
    const char *name = miras__keys[i].name;
    if (raw[i])
      start = miras__hash(miras__hash(start ^ miras__crc32c(0, name, strlen(name))) ^ raw[i]);
  }
  return start;
}

/* "key":"value" of a field. */
static void miras__out_field(miras__sink *s, int at, uint64_t raw) {
  const miras__key *key = &miras__keys[at];
  char text[32];
  miras__out_text(s, ",\"");
  miras__out_text(s, key->name);
  miras__out_text(s, "\":\"");
  if (key->kind == MIRAS__KEY_NAME) {   /* the word of that number */
    const char *word = key->words;
    size_t n = 0;
    for (; raw && *word; word++) raw -= *word == ' ';
    while (word[n] && word[n] != ' ') n++;
    miras__out(s, word, n);
  } else if (key->kind == MIRAS__KEY_REAL) {
    miras__write_real(text, miras__bits_real(raw));
    miras__out_text(s, text);
  } else {
    miras__out_whole(s, raw);   /* no field of a valid descriptor is negative */
  }
  miras__out_text(s, "\"");
}

/* The value of a field from its text. 1 on success. */
static int miras__read_field(int at, const char *text, uint64_t *raw) {
  const miras__key *key = &miras__keys[at];
  if (key->kind == MIRAS__KEY_NAME) {
    const char *word = key->words;
    size_t n = strlen(text);
    uint64_t index = 0;
    for (;; index++) {
      size_t length = 0;
      while (word[length] && word[length] != ' ') length++;
      if (n == length && memcmp(word, text, n) == 0) break;
      if (!word[length]) return 0;
      word += length + 1;
    }
    *raw = index;
    return 1;
  }
  if (key->kind == MIRAS__KEY_REAL) {
    float x;
    if (!miras__read_real(text, &x)) return 0;
    *raw = miras__real_bits(x);
    return 1;
  }
  if (key->kind == MIRAS__KEY_TEXT) return !key->words[0] || strcmp(text, key->words) == 0;
  return miras__read_whole(text, raw) && (key->kind == MIRAS__KEY_WIDE || *raw <= INT_MAX);
}

/* ---- writing a model ---- */

static int miras__has_moments(const miras_model *m, int flags) {
  return (flags & MIRAS_SAVE_TRAINING) && m->moment1 && m->moment2;
}

/* Running texts are part of training. */
static int miras__has_streams(const miras_model *m, int flags) {
  return m->desc.streams && miras__has_moments(m, flags);
}

static void miras__out_tensor(miras__sink *s, const char *name, const int *shape, int rank,
                              size_t count, uint64_t *offset) {
  int i;
  miras__out_text(s, ",\"");
  miras__out_text(s, name);
  miras__out_text(s, "\":{\"dtype\":\"F32\",\"shape\":[");
  for (i = 0; i < rank; i++) {
    if (i) miras__out_text(s, ",");
    miras__out_whole(s, shape ? (uint64_t)shape[i] : (uint64_t)count);
  }
  miras__out_text(s, "],\"data_offsets\":[");
  miras__out_whole(s, *offset);
  *offset += 4 * (uint64_t)count;
  miras__out_text(s, ",");
  miras__out_whole(s, *offset);
  miras__out_text(s, "]}");
}

static void miras__out_header(miras__sink *s, const miras_model *m, int flags, uint32_t checksum) {
  uint64_t raw[MIRAS__FIELD_COUNT], offset = 0, later = 0;
  char digits[9];
  int i, fields = MIRAS__FIRST_COUNT;
  for (i = 0; i < 8; i++) digits[i] = "0123456789abcdef"[checksum >> (28 - 4 * i) & 15];
  digits[8] = 0;
  miras__model_raw(&m->desc, raw);
  for (i = fields; i < MIRAS__FIELD_COUNT; i++) later |= raw[i];
  if (later) fields = MIRAS__FIELD_COUNT;
  miras__out_text(s, "{\"__metadata__\":{\"format\":\"miras\",\"writer\":\"miras.h\","
                     "\"checksum\":\"");
  miras__out_text(s, digits);
  miras__out_text(s, "\"");
  miras__out_field(s, MIRAS__AT_VERSION, later != 0);
  for (i = 0; i < fields; i++) miras__out_field(s, i, raw[i]);
  if (miras__has_moments(m, flags)) miras__out_field(s, MIRAS__AT_STEPS, m->steps);
  miras__out_text(s, "}");
  for (i = 0; i < m->view_count; i++) {
    const miras_view *v = &m->views[i];
    miras__out_tensor(s, v->name, v->shape, v->rank, v->count, &offset);
  }
  if (miras__has_moments(m, flags)) {
    miras__out_tensor(s, "adamw.moment1", NULL, 1, m->param_count, &offset);
    miras__out_tensor(s, "adamw.moment2", NULL, 1, m->param_count, &offset);
  }
  if (miras__has_streams(m, flags)) {
    int shape[2];
    shape[0] = m->desc.streams;
    shape[1] = (int)m->run;
    miras__out_tensor(s, "streams", shape, 2, (size_t)shape[0] * m->run, &offset);
  }
  miras__out_text(s, "}");
  while (s->size % 8) miras__out_text(s, " ");
}

static void miras__out_model(miras__sink *s, const miras_model *m, int flags, size_t header,
                             uint32_t checksum) {
  int i;
  miras__out64(s, (uint64_t)header);
  miras__out_header(s, m, flags, checksum);
  for (i = 0; i < m->view_count; i++)
    miras__out_words(s, m->params + m->views[i].offset, m->views[i].count);
  if (miras__has_moments(m, flags)) {
    miras__out_words(s, m->moment1, m->param_count);
    miras__out_words(s, m->moment2, m->param_count);
  }
  for (i = 0; miras__has_streams(m, flags) && i < m->desc.streams; i++) {
    const float *run = m->streams + (size_t)i * m->run;
    uint64_t position;
    memcpy(&position, run, sizeof position);
    miras__out64(s, position);
    miras__out_words(s, run + 2, m->run - 2);
  }
}

/* Lengths of the header and of the whole file; the latter 0 if it does not fit. */
static size_t miras__model_bytes(const miras_model *m, int flags, size_t *header) {
  miras__sink count;
  size_t floats = 0, bytes;
  int i, fits = 1;
  memset(&count, 0, sizeof count);
  miras__out_header(&count, m, flags, 0);
  *header = count.size;
  for (i = 0; i < m->view_count; i++) fits = fits && miras__add(floats, m->views[i].count, &floats);
  if (miras__has_moments(m, flags))
    fits = fits && miras__add(floats, m->param_count, &floats) &&
           miras__add(floats, m->param_count, &floats);
  if (miras__has_streams(m, flags))
    fits = fits && miras__add(floats, (size_t)m->desc.streams * m->run, &floats);
  fits = fits && miras__mul(floats, 4, &bytes) && miras__add(bytes, 8 + count.size, &bytes);
  return fits ? bytes : 0;
}

/* Everything that can be saved goes through one of these: emit the whole file into s and return its
 * length, or only return the length when s is NULL. */
typedef size_t (*miras__emit)(const void *object, int flags, miras__sink *s);

static size_t miras__emit_model(const void *object, int flags, miras__sink *s) {
  const miras_model *m = (const miras_model *)object;
  size_t header, bytes = miras__model_bytes(m, flags, &header);
  if (s && bytes) {
    miras__sink sum;
    memset(&sum, 0, sizeof sum);
    miras__out_model(&sum, m, flags, header, 0);
    miras__out_model(s, m, flags, header, sum.crc);
  }
  return bytes;
}

/* ---- reading a model ---- */

#define MIRAS__MAX_HEADER (1u << 22)   /* of ours at most a quarter; the rest for others' notes */
#define MIRAS__MAX_TENSORS 8192        /* above 256 blocks of 25 views                          */

typedef struct miras__metadata {
  uint64_t raw[MIRAS__KEY_COUNT];    /* 0 where the file does not say                            */
  unsigned char seen[MIRAS__KEY_COUNT];
  const unsigned char *checksum;     /* its eight digits                                         */
} miras__metadata;

typedef struct miras__tensor {
  char name[MIRAS__NAME_SIZE];
  int rank;
  uint64_t shape[3];
  uint64_t begin, end;               /* bytes within the payload                                 */
} miras__tensor;

typedef struct miras__file {
  const unsigned char *header, *payload;
  size_t header_size, payload_size;
  const unsigned char *past;         /* the end of __metadata__ once it was read                 */
} miras__file;

static void miras__need_metadata(miras__text *t, miras__metadata *meta) {
  char name[MIRAS__NAME_SIZE], value[MIRAS__NAME_SIZE];
  int i;
  if (!miras__need_char(t, '{') || miras__take_char(t, '}')) return;
  do {
    const unsigned char *start;
    miras__need_string(t, name);
    miras__need_char(t, ':');
    start = miras__need_string(t, value);
    for (i = 0; i < MIRAS__KEY_COUNT && strcmp(name, miras__keys[i].name) != 0; i++) {}
    if (t->bad || i == MIRAS__KEY_COUNT) continue;   /* other keys are other people's notes */
    if (meta->seen[i] || !miras__read_field(i, value, &meta->raw[i])) miras__refuse(t);
    meta->seen[i] = 1;
    if (i == MIRAS__AT_CHECKSUM) {
      meta->checksum = start;
      if (t->bad || t->at - start != 9) miras__refuse(t);   /* eight plain digits and the quote */
    }
  } while (miras__take_char(t, ','));
  miras__need_char(t, '}');
}

static void miras__need_tensor(miras__text *t, miras__tensor *x, size_t payload) {
  char text[MIRAS__NAME_SIZE];
  uint64_t bytes = 4;
  int seen = 0, i;
  x->rank = 0;
  x->begin = x->end = 0;
  miras__need_char(t, '{');
  do {
    int key;
    miras__need_string(t, text);
    miras__need_char(t, ':');
    key = strcmp(text, "dtype") == 0 ? 1 : strcmp(text, "shape") == 0 ? 2
        : strcmp(text, "data_offsets") == 0 ? 4 : 0;
    if (!key || (seen & key)) {
      miras__refuse(t);
      return;
    }
    seen |= key;
    if (key == 1) {
      miras__need_string(t, text);
      if (strcmp(text, "F32") != 0) miras__refuse(t);
    } else if (key == 2) {
      miras__need_char(t, '[');
      do {
        if (x->rank == 3) miras__refuse(t);
        else x->shape[x->rank++] = miras__need_whole(t);
      } while (miras__take_char(t, ','));
      miras__need_char(t, ']');
    } else {
      miras__need_char(t, '[');
      x->begin = miras__need_whole(t);
      miras__need_char(t, ',');
      x->end = miras__need_whole(t);
      miras__need_char(t, ']');
    }
  } while (miras__take_char(t, ','));
  miras__need_char(t, '}');
  if (t->bad || seen != 7 || x->end <= x->begin || x->end > payload) {
    miras__refuse(t);
    return;
  }
  /* begin < end, so a zero in the shape can never match */
  for (i = 0; i < x->rank; i++) {
    if (x->shape[i] && bytes > UINT64_MAX / x->shape[i]) {
      miras__refuse(t);
      return;
    }
    bytes *= x->shape[i];
  }
  if (bytes != x->end - x->begin) miras__refuse(t);
}

/* Iterate over the tensors: rewind, then next until it returns 0; then the text is bad, or all of
 * it was read. __metadata__ may stand anywhere, once, and is read the first time only. */
typedef struct miras__reader {
  miras__text t;
  size_t payload_size;
  const unsigned char *past;
  int members, metadata;             /* read so far                                              */
} miras__reader;

static void miras__rewind(miras__reader *r, const miras__file *f) {
  r->past = f->past;
  r->t.at = f->header + 1;           /* the opening brace was checked                            */
  r->t.end = f->header + f->header_size;
  r->t.bad = 0;
  r->payload_size = f->payload_size;
  r->members = r->metadata = 0;
}

static int miras__next(miras__reader *r, miras__tensor *x, miras__metadata *meta) {
  miras__text *t = &r->t;
  while (!t->bad) {
    if (miras__take_char(t, '}')) {
      miras__skip_space(t);          /* the padding                                              */
      return t->at == t->end ? 0 : miras__refuse(t);
    }
    if (r->members) miras__need_char(t, ',');
    r->members = 1;
    miras__need_string(t, x->name);
    miras__need_char(t, ':');
    if (strcmp(x->name, "__metadata__") != 0) {
      miras__need_tensor(t, x, r->payload_size);
      return !t->bad;
    }
    if (r->metadata) return miras__refuse(t);
    r->metadata = 1;
    if (!r->past) {
      miras__need_metadata(t, meta);
      r->past = t->at;
    }
    t->at = r->past;
  }
  return 0;
}

/* Do the tensors, in whatever order the header lists them, cover the payload without a hole or an
 * overlap? Exact and without memory: each round picks the 256 next ones by offset. */
static int miras__covers(const miras__file *f, size_t count) {
  struct { uint64_t begin, end; } next[256];
  uint64_t at = 0;
  size_t found = 0;
  while (found < count) {
    miras__tensor x;
    miras__reader r;
    int n = 0, i;
    for (miras__rewind(&r, f); miras__next(&r, &x, NULL);) {
      if (x.begin < at || (n == 256 && x.begin >= next[255].begin)) continue;
      if (n < 256) n++;
      for (i = n - 1; i > 0 && next[i - 1].begin > x.begin; i--) next[i] = next[i - 1];
      next[i].begin = x.begin;
      next[i].end = x.end;
    }
    for (i = 0; i < n; i++) {
      if (next[i].begin != at) return 0;
      at = next[i].end;
    }
    if (!n) return 0;
    found += (size_t)n;
  }
  return at == f->payload_size && found == count;
}

/* All that can be said without a model: syntax, types, ranges, metadata, checksum, tiling. */
static miras_result miras__check_file(miras__file *f, miras__metadata *meta, const void *bytes,
                                      size_t size) {
  const unsigned char *base = (const unsigned char *)bytes;
  miras__tensor x;
  miras__reader r;
  uint64_t length, at = 0;
  size_t count = 0;
  int in_order = 1, i;
  if (size < 10) return MIRAS_ERR_FORMAT;
  length = miras__get64(base);
  if (length < 2 || length > MIRAS__MAX_HEADER || length > size - 8 || base[8] != '{')
    return MIRAS_ERR_FORMAT;
  f->header = base + 8;
  f->header_size = (size_t)length;
  f->payload = base + 8 + f->header_size;
  f->payload_size = size - 8 - f->header_size;
  f->past = NULL;
  memset(meta, 0, sizeof *meta);
  for (miras__rewind(&r, f); miras__next(&r, &x, meta); count++) {
    if (count == MIRAS__MAX_TENSORS) return MIRAS_ERR_FORMAT;
    if (x.begin != at) in_order = 0;
    at = x.end;
  }
  f->past = r.past;
  if (r.t.bad || !meta->seen[MIRAS__AT_FORMAT] || !meta->seen[MIRAS__AT_VERSION])
    return MIRAS_ERR_FORMAT;
  /* every field of its version, and none of a later one */
  for (i = 0; i < MIRAS__FIELD_COUNT; i++)
    if (meta->seen[i] != (i < MIRAS__FIRST_COUNT || meta->raw[MIRAS__AT_VERSION]))
      return MIRAS_ERR_FORMAT;
  /* Our files name their writer and carry a checksum. One without the other is damage. */
  if (meta->seen[MIRAS__AT_WRITER] != meta->seen[MIRAS__AT_CHECKSUM]) return MIRAS_ERR_FORMAT;
  if (meta->checksum) {
    size_t before = (size_t)(meta->checksum - base);
    uint32_t crc = miras__crc32c(0, base, before), said = 0;
    crc = miras__crc32c(crc, "00000000", 8);
    crc = miras__crc32c(crc, base + before + 8, size - before - 8);
    for (i = 0; i < 8; i++) {
      static const char hex[] = "0123456789abcdef";
      const char *digit = (const char *)memchr(hex, meta->checksum[i], 16);
      if (!digit) return MIRAS_ERR_FORMAT;
      said = said << 4 | (uint32_t)(digit - hex);
    }
    if (crc != said) return MIRAS_ERR_FORMAT;
  }
  if (in_order ? at != f->payload_size : !miras__covers(f, count)) return MIRAS_ERR_FORMAT;
  return MIRAS_OK;
}

/* Which tensor of m this is: a view, view_count or view_count + 1 for the moments, view_count + 2
 * for running texts, however many; -1 for none. hint is where to look first. */
static int miras__find_tensor(const miras_model *m, const miras__tensor *x, int hint) {
  const miras_view *v;
  int i, n = m->view_count, k;
  if (strcmp(x->name, "adamw.moment1") == 0 || strcmp(x->name, "adamw.moment2") == 0) {
    if (x->rank != 1 || x->shape[0] != (uint64_t)m->param_count) return -1;
    return n + (x->name[12] == '2');
  }
  if (strcmp(x->name, "streams") == 0)
    return x->rank == 2 && x->shape[1] == (uint64_t)m->run ? n + 2 : -1;
  for (i = 0; i < n; i++) {
    v = &m->views[(hint + i) % n];
    if (strcmp(v->name, x->name) != 0) continue;
    if (x->rank != v->rank) return -1;
    for (k = 0; k < v->rank; k++)
      if (x->shape[k] != (uint64_t)v->shape[k]) return -1;
    return (hint + i) % n;
  }
  return -1;
}

static miras_result miras__load_model(miras_model *m, const void *bytes, size_t size) {
  unsigned char seen[MIRAS__MAX_TENSORS / 8];
  uint64_t raw[MIRAS__FIELD_COUNT], steps, k;
  miras__metadata meta;
  miras__tensor x;
  miras__reader r;
  miras__file f;
  miras_result result = miras__check_file(&f, &meta, bytes, size);
  int count = 0, moments = 0, streams = 0, at = -1, i;
  if (result != MIRAS_OK) return result;
  miras__model_raw(&m->desc, raw);
  for (i = 0; i < MIRAS__FIELD_COUNT; i++)
    if ((i < MIRAS__SHAPE_COUNT || i >= MIRAS__FIRST_COUNT) && i != MIRAS__AT_MEMORY_reset_every &&
        raw[i] != meta.raw[i])
      return MIRAS_ERR_MISMATCH;
  MIRAS_ASSERT(m->view_count <= MIRAS__MAX_TENSORS - 3);
  memset(seen, 0, sizeof seen);
  for (miras__rewind(&r, &f); miras__next(&r, &x, NULL); count++) {
    at = miras__find_tensor(m, &x, at + 1);
    if (at < 0 || (seen[at / 8] >> at % 8 & 1)) return MIRAS_ERR_FORMAT;
    seen[at / 8] = (unsigned char)(seen[at / 8] | 1 << at % 8);
    if (at < m->view_count) continue;
    if (at < m->view_count + 2) {
      moments++;
      continue;
    }
    for (streams = 1, k = 0; k < x.shape[0]; k++) {   /* kernels rely on counts and whole chunks */
      uint64_t position = miras__get64(f.payload + (size_t)x.begin + (size_t)k * 4 * m->run);
      if (position >> 62 || position % (uint64_t)m->plan.d.chunk) return MIRAS_ERR_FORMAT;
    }
  }
  /* All are known and distinct, so the right number of them means that none is missing. */
  if (count - moments - streams != m->view_count || moments == 1 || (streams && !moments))
    return MIRAS_ERR_FORMAT;
  steps = moments ? meta.raw[MIRAS__AT_STEPS] : 0;
  if ((moments && !meta.seen[MIRAS__AT_STEPS]) || steps >> 62) return MIRAS_ERR_FORMAT;
  /* From here on nothing can fail. */
  if (m->streams) memset(m->streams, 0, (size_t)m->desc.streams * m->run * sizeof(float));
  for (miras__rewind(&r, &f); miras__next(&r, &x, NULL);) {
    const unsigned char *from = f.payload + (size_t)x.begin;
    size_t n = (size_t)(x.end - x.begin) / 4;
    at = miras__find_tensor(m, &x, at + 1);
    if (at < m->view_count) miras__get_words(m->params + m->views[at].offset, from, n);
    else if (at == m->view_count && m->moment1) miras__get_words(m->moment1, from, n);
    else if (at == m->view_count + 1 && m->moment2) miras__get_words(m->moment2, from, n);
    if (at < m->view_count + 2 || x.shape[0] != (uint64_t)m->desc.streams) continue;
    for (k = 0; k < x.shape[0]; k++, from += 4 * m->run) {
      float *run = m->streams + (size_t)k * m->run;
      uint64_t position = miras__get64(from);
      memcpy(run, &position, sizeof position);
      miras__get_words(run + 2, from + 8, m->run - 2);
    }
  }
  if (!moments && m->moment1) memset(m->moment1, 0, m->param_count * sizeof(float));
  if (!moments && m->moment2) memset(m->moment2, 0, m->param_count * sizeof(float));
  if (m->grads) memset(m->grads, 0, m->param_count * sizeof(float));
  m->steps = steps;
  m->calls = 0;   /* as after a step: no gradient is pending */
  m->taped = 0;
  return MIRAS_OK;
}

/* ---- states ---- */

/* What a state file says before its payload. */
typedef struct miras__state_header {
  uint32_t what;           /* 1 memory, 2 session                                                */
  uint64_t fingerprint, params, bytes, sequences;
} miras__state_header;

static miras__state_header miras__memory_header(const miras_memory *m) {
  uint64_t raw[MIRAS__FIELD_COUNT];
  miras__state_header h;
  miras__memory_raw(&m->plan.d, raw);
  h.what = 1;
  h.fingerprint = miras__fingerprint(raw, MIRAS__MEMORY_COUNT, MIRAS__MEMORY_END,
                                     (uint64_t)m->plan.d.batch);
  h.params = m->plan.params;
  h.bytes = m->state_bytes;
  h.sequences = (uint64_t)m->plan.d.batch;
  return h;
}

static miras__state_header miras__session_header(const miras_session *s) {
  uint64_t raw[MIRAS__FIELD_COUNT];
  miras__state_header h;
  miras__model_raw(&s->model->desc, raw);
  h.what = 2;
  h.fingerprint = miras__fingerprint(raw, MIRAS__SHAPE_COUNT, MIRAS__FIELD_COUNT, 0);
  h.params = 0;
  h.bytes = s->state_bytes;
  h.sequences = 1;
  return h;
}

static void miras__out_state(miras__sink *s, const miras__state_header *h, const float *params,
                             const void *state) {
  const unsigned char *at = (const unsigned char *)state;
  size_t each = (size_t)(h->bytes / h->sequences);
  uint64_t i, position;
  if (h->params) miras__out_words(s, params, (size_t)h->params);
  for (i = 0; i < h->sequences; i++, at += each) {
    memcpy(&position, at, 8);
    miras__out64(s, position);
    miras__out_words(s, at + 8, each / 4 - 2);
  }
}

static size_t miras__emit_state(const miras__state_header *h, const float *params,
                                const void *state, miras__sink *s) {
  size_t bytes;
  if (!miras__mul((size_t)h->params, 4, &bytes) || !miras__add(bytes, 64, &bytes) ||
      !miras__add(bytes, (size_t)h->bytes, &bytes))
    return 0;
  if (s) {
    unsigned char head[64];
    uint64_t position;
    miras__sink sum;
    memcpy(&position, state, 8);
    memset(&sum, 0, sizeof sum);
    miras__out_state(&sum, h, params, state);
    memset(head, 0, sizeof head);
    memcpy(head, "mirastat", 8);
    miras__set32(head + 8, 1);
    miras__set32(head + 12, h->what);
    miras__set64(head + 16, h->fingerprint);
    miras__set64(head + 24, h->params);
    miras__set64(head + 32, h->bytes);
    miras__set64(head + 40, position);
    miras__set64(head + 48, h->sequences);
    miras__set32(head + 56, sum.crc);
    miras__set32(head + 60, miras__crc32c(0, head, 60));
    miras__out(s, head, 64);
    miras__out_state(s, h, params, state);
  }
  return bytes;
}

static size_t miras__emit_memory(const void *object, int flags, miras__sink *s) {
  const miras_memory *m = (const miras_memory *)object;
  miras__state_header h = miras__memory_header(m);
  (void)flags;
  return miras__emit_state(&h, m->params, m->state, s);
}

static size_t miras__emit_session(const void *object, int flags, miras__sink *s) {
  const miras_session *session = (const miras_session *)object;
  miras__state_header h = miras__session_header(session);
  (void)flags;
  return miras__emit_state(&h, NULL, session->state, s);
}

static miras_result miras__load_state(const miras__state_header *want, float *params, void *state,
                                      const void *bytes, size_t size) {
  const unsigned char *head = (const unsigned char *)bytes, *from = head + 64;
  uint64_t count, state_bytes, position, i;
  unsigned char *to = (unsigned char *)state;
  size_t each;
  if (size < 64 || size % 4 || memcmp(head, "mirastat", 8) != 0 || miras__get32(head + 8) != 1 ||
      miras__crc32c(0, head, 60) != miras__get32(head + 60) ||
      miras__crc32c(0, from, size - 64) != miras__get32(head + 56))
    return MIRAS_ERR_FORMAT;
  count = miras__get64(head + 24);
  state_bytes = miras__get64(head + 32);
  position = miras__get64(head + 40);
  /* In this order nothing wraps, and a file of the wrong length is never called a mismatch. */
  if (state_bytes > size - 64 || count != (size - 64 - state_bytes) / 4) return MIRAS_ERR_FORMAT;
  if (miras__get32(head + 12) != want->what || miras__get64(head + 16) != want->fingerprint ||
      count != want->params || state_bytes != want->bytes ||
      miras__get64(head + 48) != want->sequences)
    return MIRAS_ERR_MISMATCH;
  /* Kernels rely on sequences that stand at the same place, and on counts that do not wrap. */
  if (position >> 62) return MIRAS_ERR_FORMAT;
  each = (size_t)(state_bytes / want->sequences);
  from += 4 * (size_t)count;
  for (i = 0; i < want->sequences; i++)
    if (miras__get64(from + (size_t)i * each) != position) return MIRAS_ERR_FORMAT;
  /* From here on nothing can fail. */
  if (count) miras__get_words(params, head + 64, (size_t)count);
  for (i = 0; i < want->sequences; i++, from += each, to += each) {
    memcpy(to, &position, 8);
    miras__get_words(to + 8, from + 8, each / 4 - 2);
  }
  return MIRAS_OK;
}

/* ---- the public forms on memory ---- */

static size_t miras__save_to(miras__emit emit, const void *object, int flags, void *buffer,
                             size_t capacity) {
  size_t bytes = emit(object, flags, NULL);
  if (buffer && bytes && bytes <= capacity) {
    miras__sink s;
    memset(&s, 0, sizeof s);
    s.to = (unsigned char *)buffer;
    emit(object, flags, &s);
    MIRAS_ASSERT(s.size == bytes);
  }
  return bytes;
}

MIRAS_API size_t miras_model_save_to(const miras_model *m, int flags, void *buffer,
                                     size_t capacity) {
  if (!m || (flags & ~MIRAS_SAVE_TRAINING)) return 0;
  return miras__save_to(miras__emit_model, m, flags, buffer, capacity);
}

MIRAS_API miras_result miras_model_load_from(miras_model *m, const void *bytes, size_t size) {
  return m && bytes ? miras__load_model(m, bytes, size) : MIRAS_ERR_ARGUMENT;
}

MIRAS_API miras_result miras_model_desc_from(miras_model_desc *d, const void *bytes, size_t size) {
  miras__metadata meta;
  miras__file f;
  miras_result result;
  if (!d || !bytes) return MIRAS_ERR_ARGUMENT;
  result = miras__check_file(&f, &meta, bytes, size);
  if (result == MIRAS_OK) miras__model_cook(d, meta.raw);
  return result;
}

MIRAS_API miras_result miras_model_desc_set(miras_model_desc *d, const char *field,
                                            const char *value) {
  uint64_t raw[MIRAS__FIELD_COUNT];
  const miras_custom *custom;
  int i;
  if (!d || !field || !value) return MIRAS_ERR_ARGUMENT;
  for (i = 0; i < MIRAS__FIELD_COUNT && strcmp(field, miras__keys[i].name) != 0; i++) {}
  if (i == MIRAS__FIELD_COUNT) return MIRAS_ERR_ARGUMENT;
  miras__model_raw(d, raw);
  if (!miras__read_field(i, value, &raw[i])) return MIRAS_ERR_ARGUMENT;
  custom = d->memory.custom;
  miras__model_cook(d, raw);
  d->memory.custom = custom;
  return MIRAS_OK;
}

MIRAS_API size_t miras_memory_save_to(const miras_memory *m, void *buffer, size_t capacity) {
  return m ? miras__save_to(miras__emit_memory, m, 0, buffer, capacity) : 0;
}

MIRAS_API miras_result miras_memory_load_from(miras_memory *m, const void *bytes, size_t size) {
  miras__state_header h;
  if (!m || !bytes) return MIRAS_ERR_ARGUMENT;
  h = miras__memory_header(m);
  return miras__load_state(&h, m->params, m->state, bytes, size);
}

MIRAS_API size_t miras_session_save_to(const miras_session *s, void *buffer, size_t capacity) {
  return s ? miras__save_to(miras__emit_session, s, 0, buffer, capacity) : 0;
}

MIRAS_API miras_result miras_session_load_from(miras_session *s, const void *bytes, size_t size) {
  miras__state_header h;
  if (!s || !bytes) return MIRAS_ERR_ARGUMENT;
  h = miras__session_header(s);
  return miras__load_state(&h, NULL, s->state, bytes, size);
}

/* ---- the public forms on paths ---- */

#ifndef MIRAS_NO_STDIO

static int miras__write_file(void *user, const void *bytes, size_t n) {
  return fwrite(bytes, 1, n, (FILE *)user) == n;
}

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

static miras_result miras__save_path(miras__emit emit, const void *object, int flags,
                                     const char *path, const miras_allocator *allocator) {
  miras_allocator from = miras__allocator(allocator);
  size_t length = strlen(path), room;
  char *part;
  FILE *file;
  int ok, gone = 0;
  if (!emit(object, flags, NULL) || !miras__add(length, 14, &room)) return MIRAS_ERR_SIZE;
  part = (char *)from.alloc(room, from.user);
  if (!part) return MIRAS_ERR_ALLOC;
  memcpy(part, path, length);
  file = miras__new_file(part, length);
  ok = file != NULL;
  if (file) {
    miras__sink s;
    memset(&s, 0, sizeof s);
    s.write = miras__write_file;
    s.user = file;
    emit(object, flags, &s);
    ok = !s.failed && fflush(file) == 0;
    if (fclose(file) != 0) ok = 0;
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
  from.free(part, room, from.user);
  return ok ? MIRAS_OK : MIRAS_ERR_IO;
}

/* A whole file in one allocation of its length and a byte. */
typedef struct miras__content {
  miras_allocator from;
  unsigned char *bytes;
  size_t size;
} miras__content;

static void miras__content_free(miras__content *c) {
  if (c->bytes) c->from.free(c->bytes, c->size + 1, c->from.user);
  c->bytes = NULL;
}

/* limit: of the model that the file holds, or 0. Its payload, with both moments, is at most three
 * times that; a file whose running texts make it longer is refused as well. */
static miras_result miras__read_path(miras__content *c, const char *path, uint64_t limit,
                                     const miras_allocator *allocator) {
  const long most_header = 8 + (long)MIRAS__MAX_HEADER;
  miras_result result = MIRAS_ERR_IO;
  FILE *file = fopen(path, "rb");
  long end = -1;
  c->from = miras__allocator(allocator);
  c->bytes = NULL;
  c->size = 0;
  if (!file) return MIRAS_ERR_IO;
  /* Reading a byte first finds out folders, which open and have an absurd length. */
  if ((fgetc(file) != EOF || !ferror(file)) && fseek(file, 0, SEEK_END) == 0) end = ftell(file);
  if (limit && end > most_header && (uint64_t)(end - most_header - 1) / 3 >= limit) {
    result = MIRAS_ERR_SIZE;
  } else if (end >= 0 && (unsigned long)end < (size_t)-1 && fseek(file, 0, SEEK_SET) == 0) {
    c->size = (size_t)end;
    c->bytes = (unsigned char *)c->from.alloc(c->size + 1, c->from.user);
    if (!c->bytes) {
      result = MIRAS_ERR_ALLOC;
    } else if (fread(c->bytes, 1, c->size, file) == c->size && fgetc(file) == EOF &&
               !ferror(file)) {
      result = MIRAS_OK;
    }
  }
  fclose(file);
  if (result != MIRAS_OK) miras__content_free(c);
  return result;
}

MIRAS_API miras_result miras_model_save(const miras_model *m, const char *path, int flags) {
  if (!m || !path || (flags & ~MIRAS_SAVE_TRAINING)) return MIRAS_ERR_ARGUMENT;
  return miras__save_path(miras__emit_model, m, flags, path, &m->allocator);
}

MIRAS_API miras_result miras_model_load(miras_model *m, const char *path) {
  miras__content c;
  miras_result result;
  if (!m || !path) return MIRAS_ERR_ARGUMENT;
  result = miras__read_path(&c, path, m->desc.limit, &m->allocator);
  if (result != MIRAS_OK) return result;
  result = miras__load_model(m, c.bytes, c.size);
  miras__content_free(&c);
  return result;
}

/* Is this a model within its limit, and can the payload be its parameters, by its size? Asked
 * before anything is allocated, so that a small file cannot ask for a large model. */
static miras_result miras__payload_fits(const miras_model_desc *d, const miras__file *f) {
  miras_model m;
  uint64_t bytes, moments;
  if (miras__model_resolve(&m, d, NULL, 0) != MIRAS_OK) return MIRAS_ERR_DESC;
  if (!miras__model_bytes_of(&m, NULL, 0)) return MIRAS_ERR_SIZE;
  bytes = 4 * (uint64_t)m.learned;
  moments = 8 * (uint64_t)m.param_count;
  if (f->payload_size == bytes) return MIRAS_OK;
  if (f->payload_size < bytes || f->payload_size - bytes < moments) return MIRAS_ERR_FORMAT;
  return (f->payload_size - bytes - moments) % (4 * (uint64_t)m.run) ? MIRAS_ERR_FORMAT
                                                                     : MIRAS_OK;
}

MIRAS_API miras_model *miras_model_open_file(const char *path, const miras_model_desc *training,
                                             const miras_allocator *allocator,
                                             miras_result *result) {
  miras_result said = MIRAS_ERR_ARGUMENT;
  miras_model *m = NULL;
  miras_model_desc d;
  miras__content c;
  miras__metadata meta;
  miras__file f;
  memset(&d, 0, sizeof d);
  memset(&c, 0, sizeof c);
  if (training) {
    d.batch = training->batch;
    d.streams = training->streams;
    d.context = training->context;
    d.limit = training->limit;
    d.parallel = training->parallel;
  }
  if (path) said = miras__read_path(&c, path, d.limit, allocator);
  if (said == MIRAS_OK) said = miras__check_file(&f, &meta, c.bytes, c.size);
  if (said == MIRAS_OK) {
    miras__model_cook(&d, meta.raw);
    if (training && training->memory.reset_every)
      d.memory.reset_every = training->memory.reset_every;
    if (training && (d.memory.bias == MIRAS_CUSTOM_BIAS ||
                     d.memory.retention == MIRAS_CUSTOM_RETENTION))
      d.memory.custom = training->memory.custom;
    said = miras__payload_fits(&d, &f);
  }
  if (said == MIRAS_OK) {
    m = miras_model_open(&d, allocator);
    said = m ? miras__load_model(m, c.bytes, c.size) : MIRAS_ERR_ALLOC;
    /* a 0 where the descriptor, with its defaults, has another number: no file of ours */
    if (said == MIRAS_ERR_MISMATCH) said = MIRAS_ERR_FORMAT;
    if (m && said != MIRAS_OK) {
      miras_model_close(m);
      m = NULL;
    }
  }
  miras__content_free(&c);
  if (result) *result = said;
  return m;
}

MIRAS_API miras_result miras_memory_save(const miras_memory *m, const char *path) {
  if (!m || !path) return MIRAS_ERR_ARGUMENT;
  return miras__save_path(miras__emit_memory, m, 0, path, &m->allocator);
}

MIRAS_API miras_result miras_memory_load(miras_memory *m, const char *path) {
  miras__content c;
  miras_result result;
  if (!m || !path) return MIRAS_ERR_ARGUMENT;
  result = miras__read_path(&c, path, 0, &m->allocator);
  if (result != MIRAS_OK) return result;
  result = miras_memory_load_from(m, c.bytes, c.size);
  miras__content_free(&c);
  return result;
}

MIRAS_API miras_result miras_session_save(const miras_session *s, const char *path) {
  if (!s || !path) return MIRAS_ERR_ARGUMENT;
  return miras__save_path(miras__emit_session, s, 0, path, &s->allocator);
}

MIRAS_API miras_result miras_session_load(miras_session *s, const char *path) {
  miras__content c;
  miras_result result;
  if (!s || !path) return MIRAS_ERR_ARGUMENT;
  result = miras__read_path(&c, path, 0, &s->allocator);
  if (result != MIRAS_OK) return result;
  result = miras_session_load_from(s, c.bytes, c.size);
  miras__content_free(&c);
  return result;
}

#endif /* MIRAS_NO_STDIO */
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
#if defined(__clang__)
  #pragma STDC FP_CONTRACT DEFAULT
#elif defined(__GNUC__)
  #pragma GCC pop_options
#endif
#endif   /* region C */
