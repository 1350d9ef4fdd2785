/* simde.h: AVX-512 where the processor has none, emulated by SIMDe (Debian: libsimde-dev). Include
 * it before miras.h and compile with -mavx2 -mfma -mf16c (gcc); its words are then functions of
 * SIMDe's, and the table counts as one that this processor can run. */
#ifndef MIRAS_TEST_SIMDE
#define MIRAS_TEST_SIMDE
#include <immintrin.h>
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <math.h>
#include <string.h>
#define __m512 simde__m512
#define __m512i simde__m512i

static inline simde__m512 test_maskz_loadu(unsigned mask, const float *p) {
  float x[16];
  for (int i = 0; i < 16; i++) x[i] = mask >> i & 1 ? p[i] : 0;
  return simde_mm512_loadu_ps(x);
}

static inline void test_mask_storeu(float *p, unsigned mask, simde__m512 v) {
  float x[16];
  simde_mm512_storeu_ps(x, v);
  for (int i = 0; i < 16; i++)
    if (mask >> i & 1) p[i] = x[i];
}

static inline __m256 test_extractf32x8(simde__m512 v, int high) {
  float x[16];
  simde_mm512_storeu_ps(x, v);
  return _mm256_loadu_ps(x + 8 * high);
}

#define TEST_LANES(name, from, type_from, to, type_to, value) \
  static inline to name(from v, unsigned n) {                 \
    type_from x[16];                                          \
    type_to y[16];                                            \
    to w;                                                     \
    memcpy(x, &v, sizeof x);                                  \
    for (int i = 0; i < 16; i++) y[i] = (type_to)(value);     \
    (void)n;                                                  \
    memcpy(&w, y, sizeof w);                                  \
    return w;                                                 \
  }
TEST_LANES(test_srai, simde__m512i, int32_t, simde__m512i, int32_t, x[i] >> n)
TEST_LANES(test_slli, simde__m512i, uint32_t, simde__m512i, uint32_t, x[i] << n)
TEST_LANES(test_cvtepi8, __m128i, int8_t, simde__m512i, int32_t, x[i])
TEST_LANES(test_cvtepu16, __m256i, uint16_t, simde__m512i, int32_t, x[i])
TEST_LANES(test_cvtepu8, __m128i, uint8_t, simde__m512i, int32_t, x[i])
TEST_LANES(test_narrow16, simde__m512i, int32_t, __m256i, int16_t, x[i])
TEST_LANES(test_cvtepi32, simde__m512i, int32_t, simde__m512, float, x[i])
TEST_LANES(test_cvtps, simde__m512, float, simde__m512i, int32_t, lrintf(x[i]))
TEST_LANES(test_nearest, simde__m512, float, simde__m512, float, rintf(x[i]))
#undef TEST_LANES

static inline simde__m512 test_cvtph(__m256i v) {   /* halves by F16C, which AVX2 machines have */
  float x[16];
  _mm256_storeu_ps(x, _mm256_cvtph_ps(_mm256_castsi256_si128(v)));
  _mm256_storeu_ps(x + 8, _mm256_cvtph_ps(_mm256_extracti128_si256(v, 1)));
  return simde_mm512_loadu_ps(x);
}
#undef _mm512_srai_epi32
#undef _mm512_slli_epi32
#undef _mm512_cvtepi32_ps
#undef _mm512_cvtps_epi32
#undef _mm512_roundscale_ps
#define _mm512_srai_epi32(v, n) test_srai(v, n)
#define _mm512_slli_epi32(v, n) test_slli(v, n)
#undef _mm512_cvtepi8_epi32
#undef _mm512_cvtepu16_epi32
#undef _mm512_cvtepu8_epi32
#undef _mm512_cvtepi32_epi16
#define _mm512_cvtepi32_epi16(v) test_narrow16(v, 0)
#define _mm512_cvtepi8_epi32(v) test_cvtepi8(v, 0)
#define _mm512_cvtepu16_epi32(v) test_cvtepu16(v, 0)
#define _mm512_cvtepu8_epi32(v) test_cvtepu8(v, 0)
#define _mm512_cvtepi32_ps(v) test_cvtepi32(v, 0)
#define _mm512_cvtps_epi32(v) test_cvtps(v, 0)
#define _mm512_roundscale_ps(v, how) test_nearest(v, 0)   /* to nearest is all that is asked for */
#undef _mm512_cvtph_ps
#define _mm512_cvtph_ps(v) test_cvtph(v)
#undef _mm512_extractf32x8_ps
#define _mm512_extractf32x8_ps(v, high) test_extractf32x8(v, high)
#undef _mm512_maskz_loadu_ps
#undef _mm512_mask_storeu_ps
#define _mm512_maskz_loadu_ps(mask, p) test_maskz_loadu(mask, p)
#define _mm512_mask_storeu_ps(p, mask, v) test_mask_storeu(p, mask, v)
#endif
