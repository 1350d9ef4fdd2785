/* block.h: the kernels and engines of miras.h as the program of a block of threads, which is what a
 * GPU would run. Their text is compiled a second time here, in a namespace of its own:
 *   a unit     16 threads are a vector of 16 lanes, each holding one float of it. Sums fold as on
 *              the host, so that results have the bits of its sets with fused multiply-add
 *   a kernel   runs on the first unit of the block; a barrier follows, and what it returns is told
 *              to all threads
 *   an engine  runs in every thread alike, calls kernels and stores nothing by itself
 * Include it behind the implementation of miras.h, on the host behind cuda_shim.h. */
namespace { namespace miras_block {

/* ---- the vocabulary of room @21 for 16 threads ---- */

#define MIRAS__KERNEL_PASS
#define MIRAS__SET_SUFFIX _unit
#define MIRAS__LENT_SUFFIX _unit
typedef float miras__vf;
typedef int miras__vm;
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
__device__ static inline float miras__fold(const float *v) {
  float a = *v;
  for (int k = 8; k; k >>= 1) a = __fadd_rn(a, __shfl_xor_sync(miras__unit_mask(), a, k));
  return a;
}
__device__ static inline float miras__fold_max(const float *v) {
  float a = *v;
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
#define V_MOST(v) miras__fold_max(&(v))
#define V_FRONT(v, n) (miras__lane() < (n) ? (v) : 0.0f)
#define V_SYNC() __syncwarp(miras__unit_mask())
#define V_KEEP(to, value) do { \
    const float v_kept = (value); \
    V_SYNC(); \
    (to) = v_kept; \
  } while (0)
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
#define miras__features miras__block_features
#define miras__bias_growth miras__block_bias_growth
#define miras__gate_width miras__block_gate_width
#define miras__keep_width miras__block_keep_width
#define miras__since miras__block_since
#define miras__since_read miras__block_since_read
#define miras__stretch miras__block_stretch
#define miras__sweeps miras__block_sweeps
#define miras__divergence_map miras__block_divergence_map

#define static static __device__
#define miras__kernels miras__unit_kernels
#define MIRAS__DEVICE 1
#include "../miras.h"
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

#define MIRAS__ISA 5
#include "../miras.h"
#undef miras__kernels
#define MIRAS__SET_SUFFIX _unit    /* the kernel rooms end with taking these back */
#define MIRAS__LENT_SUFFIX _unit

/* ---- kernels of a block, engines ---- */

struct miras__block_kernels;
extern __shared__ float miras__told[];
template <class T> struct miras__of_block { typedef T type; };
template <> struct miras__of_block<const miras__unit_kernels *> {
  typedef const miras__block_kernels *type;
};
template <class T> static T miras__to_unit(T x) { return x; }
static const miras__unit_kernels *miras__to_unit(const miras__block_kernels *) { return 0; }

template <class F, F f> struct miras__by_block;
template <class... P, void (*f)(P...)> struct miras__by_block<void (*)(P...), f> {
  __device__ __noinline__ void operator()(typename miras__of_block<P>::type... p) const {
    if (threadIdx.x < 16) f(miras__to_unit(p)...);
    __syncthreads();
  }
};
template <class R, class... P, R (*f)(P...)> struct miras__by_block<R (*)(P...), f> {
  __device__ __noinline__ R operator()(typename miras__of_block<P>::type... p) const {
    R r = 0;
    if (threadIdx.x < 16) r = f(miras__to_unit(p)...);
    if (threadIdx.x == 0) *miras__told = (float)r;
    __syncthreads();
    r = (R)*miras__told;
    __syncthreads();
    return r;
  }
};
struct miras__block_kernels {
#define MIRAS_X(part, result, name, arguments) \
  miras__by_block<decltype(&miras__##name), miras__##name> name;
  MIRAS__KERNELS(MIRAS_X)
#undef MIRAS_X
};

struct miras__net;       /* what is named before it is defined, in this namespace */
struct miras__hidden;
struct miras__answer;
struct miras__retention;
#define miras__kernels miras__block_kernels
#define MIRAS__DEVICE 2
#include "../miras.h"
#undef MIRAS__DEVICE
#undef miras__kernels
#undef MIRAS__SET_SUFFIX
#undef MIRAS__LENT_SUFFIX
#undef static
#undef MIRAS__KERNEL_PASS
#undef miras__features
#undef miras__bias_growth
#undef miras__gate_width
#undef miras__keep_width
#undef miras__since
#undef miras__since_read
#undef miras__stretch
#undef miras__sweeps
#undef miras__divergence_map

} }
