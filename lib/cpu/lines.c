/* Sums and copies of whole lines of the cache.
 *
 * A loop takes a chunk of a few lines from each source in turn and keeps their sums in registers,
 * however many sources there are: each is read once, the result is written once to each of its
 * places, and nothing goes through a block in the L1 cache. A half type has its running sums in
 * float32. The loops are made of the vectors that the compiler knows, once each for AVX-512, AVX2
 * and any x86-64; only float16 needs instructions by name, and is done
 * elsewhere where the processor lacks them.
 */
#include "cpu/lines.h"

#include <stddef.h>
#include <string.h>

enum { LINE = 64 };

#if defined(__x86_64__)
#include <immintrin.h>

/* Vectors of a chunk: with AVX-512 as many lines. More of them, or a prefetch of lines that follow,
 * measured slower, the more so the more sources and places there are. */
enum { SUMS = 4 };

#define HAS_512 __attribute__((target("avx512bw")))
#define HAS_256 __attribute__((target("avx2,f16c")))
#define HAS_128

/* ---- Vectors of 512, 256 and 128 bits, which may begin anywhere ---- */

#define VECTOR(bits) __attribute__((vector_size((bits) / 8), aligned(1), may_alias))
#define TYPES(bits)                                                                                \
    typedef float f32_##bits VECTOR(bits);                                                         \
    typedef double f64_##bits VECTOR(bits);                                                        \
    typedef uint8_t u8_##bits VECTOR(bits);                                                        \
    typedef uint32_t u32_##bits VECTOR(bits);                                                      \
    typedef uint64_t u64_##bits VECTOR(bits);                                                      \
    typedef struct two_##bits {                                                                    \
        f32_##bits a, b;                                                                           \
    } two_##bits;

TYPES(512)
TYPES(256)
TYPES(128)

#define STREAM_512(at, x) _mm512_stream_si512((void *)(at), (__m512i)(x))
#define STREAM_256(at, x) _mm256_stream_si256((__m256i *)(void *)(at), (__m256i)(x))
#define STREAM_128(at, x) _mm_stream_si128((__m128i *)(void *)(at), (__m128i)(x))

#define AT(vector, p) (*(const vector *)(const void *)(p))

/* ---- Kinds of sums: begin with the vector at p, add that at p, the result ---- */

#define NUMBER_SET(bits, vector, sum, p) ((sum) = AT(vector, p))
#define NUMBER_ADD(bits, vector, sum, p) ((sum) += AT(vector, p))
#define NUMBER_END(bits, sum)            (sum)

#define BOOL_SET                       NUMBER_SET
#define BOOL_ADD(bits, vector, sum, p) ((sum) |= AT(vector, p))
#define BOOL_END(bits, sum)            ((u8_##bits)((sum) != 0) & 1)

/* A word holds two bfloat16, each the upper half of a float32. */
#define LOWER(bits, p)                 ((f32_##bits)(AT(u32_##bits, p) << 16))
#define UPPER(bits, p)                 ((f32_##bits)(AT(u32_##bits, p) & 0xffff0000))
#define BF16_SET(bits, vector, sum, p) ((sum).a = LOWER(bits, p), (sum).b = UPPER(bits, p))
#define BF16_ADD(bits, vector, sum, p) ((sum).a += LOWER(bits, p), (sum).b += UPPER(bits, p))

/* Rounded in the upper half of each word. A sum that is nan is quiet already and is left alone, for
 * the carry could make it infinite. */
#define ROUNDED(bits, x) ((u32_##bits)(x) + 0x7fff + ((u32_##bits)(x) >> 16 & 1))
#define ROUND(bits, x)                                                                             \
    (ROUNDED(bits, x) ^ ((ROUNDED(bits, x) ^ (u32_##bits)(x)) & (u32_##bits)((x) != (x))))
#define BF16_END(bits, sum) (ROUND(bits, (sum).a) >> 16 | (ROUND(bits, (sum).b) & 0xffff0000))

/* float16: the first half of a vector and the second one. */
#define PART(type, p, i) ((const type *)(const void *)(p) + (i))
#define FROM_512(p, i)   _mm512_cvtph_ps(_mm256_loadu_si256(PART(__m256i, p, i)))
#define FROM_256(p, i)   _mm256_cvtph_ps(_mm_loadu_si128(PART(__m128i, p, i)))
#define HALF_512(x)      _mm512_cvtps_ph((__m512)(x), _MM_FROUND_TO_NEAREST_INT)
#define HALF_256(x)      _mm256_cvtps_ph((__m256)(x), _MM_FROUND_TO_NEAREST_INT)
#define JOIN_512(x, y)   _mm512_inserti64x4(_mm512_castsi256_si512(x), y, 1)
#define JOIN_256(x, y)   _mm256_inserti128_si256(_mm256_castsi128_si256(x), y, 1)

#define F16_SET(bits, vector, sum, p) ((sum).a = FROM_##bits(p, 0), (sum).b = FROM_##bits(p, 1))
#define F16_ADD(bits, vector, sum, p) ((sum).a += FROM_##bits(p, 0), (sum).b += FROM_##bits(p, 1))
#define F16_END(bits, sum)            JOIN_##bits(HALF_##bits((sum).a), HALF_##bits((sum).b))

/* ---- The loops ---- */

/* acc: what a sum is kept in; it is made of vectors and becomes one. */
#define LOOP(name, bits, acc, vector, kind)                                                        \
    HAS_##bits static int64_t name##_sum_##bits(char *const *dst, int64_t ndst,                    \
                                                const void *const *src, int64_t nsrc,              \
                                                int64_t bytes, bool far)                           \
    {                                                                                              \
        const int64_t step = (bits) / 8, chunk = SUMS * step;                                      \
        int64_t i = 0;                                                                             \
        for (; i + chunk <= bytes; i += chunk) {                                                   \
            acc sum[SUMS];                                                                         \
            vector x[SUMS];                                                                        \
            const char *p = (const char *)src[0] + i;                                              \
            for (int k = 0; k < SUMS; k++)                                                         \
                kind##_SET(bits, vector, sum[k], p + k * step);                                    \
            for (int64_t j = 1; j < nsrc; j++) {                                                   \
                p = (const char *)src[j] + i;                                                      \
                for (int k = 0; k < SUMS; k++)                                                     \
                    kind##_ADD(bits, vector, sum[k], p + k * step);                                \
            }                                                                                      \
            for (int k = 0; k < SUMS; k++)                                                         \
                x[k] = (vector)kind##_END(bits, sum[k]);                                           \
            for (int64_t j = 0; j < ndst; j++)                                                     \
                for (int k = 0; k < SUMS; k++) {                                                   \
                    char *to = dst[j] + i + k * step;                                              \
                    if (far)                                                                       \
                        STREAM_##bits(to, x[k]);                                                   \
                    else                                                                           \
                        *(vector *)(void *)to = x[k];                                              \
                }                                                                                  \
        }                                                                                          \
        return i;                                                                                  \
    }

#define LOOPS(bits)                                                                                \
    LOOP(f32, bits, f32_##bits, f32_##bits, NUMBER)                                                \
    LOOP(f64, bits, f64_##bits, f64_##bits, NUMBER)                                                \
    LOOP(u8, bits, u8_##bits, u8_##bits, NUMBER)                                                   \
    LOOP(u32, bits, u32_##bits, u32_##bits, NUMBER)                                                \
    LOOP(u64, bits, u64_##bits, u64_##bits, NUMBER)                                                \
    LOOP(bool, bits, u8_##bits, u8_##bits, BOOL)                                                   \
    LOOP(bf16, bits, two_##bits, u32_##bits, BF16)

LOOPS(512)
LOOPS(256)
LOOPS(128)
LOOP(f16, 512, two_512, u32_512, F16)
LOOP(f16, 256, two_256, u32_256, F16)

typedef int64_t loop_fn(char *const *dst, int64_t ndst, const void *const *src, int64_t nsrc,
                        int64_t bytes, bool far);

#define TABLE(bits, f16)                                                                           \
    {                                                                                              \
        [KV_FLOAT32] = f32_sum_##bits, [KV_FLOAT64] = f64_sum_##bits, [KV_UINT8] = u8_sum_##bits,  \
        [KV_INT8] = u8_sum_##bits, [KV_INT32] = u32_sum_##bits, [KV_INT64] = u64_sum_##bits,       \
        [KV_BOOL] = bool_sum_##bits, [KV_BFLOAT16] = bf16_sum_##bits, [KV_FLOAT16] = (f16),        \
    }

static loop_fn *const loops_512[KV_DTYPE_END] = TABLE(512, f16_sum_512);
static loop_fn *const loops_256[KV_DTYPE_END] = TABLE(256, f16_sum_256);
static loop_fn *const loops_128[KV_DTYPE_END] = TABLE(128, NULL);

/* Every processor with AVX2 has F16C, which some compilers cannot ask for. */
static loop_fn *find_loop(int bits, kv_dtype dtype)
{
    if (bits >= 512 && __builtin_cpu_supports("avx512bw"))
        return loops_512[dtype];
    if (bits >= 256 && __builtin_cpu_supports("avx2"))
        return loops_256[dtype];
    return loops_128[dtype];
}

int64_t lines_sum_bits(int bits, void *const *dst, int64_t ndst, const void *const *src,
                       int64_t nsrc, kv_dtype dtype, int64_t n, bool far)
{
    int64_t size = kv_dtype_bytes(dtype);
    loop_fn *loop = find_loop(bits, dtype);
    return loop ? loop((char *const *)dst, ndst, src, nsrc, n * size, far) / size : 0;
}

/* A line whose 64 bytes are written at once goes to memory without a read before it. */
#define COPY(bits)                                                                                 \
    HAS_##bits static void copy_##bits(char *dst, const char *src, int64_t bytes)                  \
    {                                                                                              \
        for (int64_t i = 0; i < bytes; i += LINE)                                                  \
            for (int64_t k = i; k < i + LINE; k += (bits) / 8)                                     \
                STREAM_##bits(dst + k, AT(u8_##bits, src + k));                                    \
    }

COPY(512)
COPY(128)

void lines_copy(char *dst, const char *src, int64_t bytes)
{
    if (__builtin_cpu_supports("avx512bw"))
        copy_512(dst, src, bytes);
    else
        copy_128(dst, src, bytes);
}

void lines_fence(void)
{
    _mm_sfence();
}

#else

int64_t lines_sum_bits(int bits, void *const *dst, int64_t ndst, const void *const *src,
                       int64_t nsrc, kv_dtype dtype, int64_t n, bool far)
{
    (void)bits, (void)dst, (void)ndst, (void)src, (void)nsrc, (void)dtype, (void)n, (void)far;
    return 0;
}

void lines_copy(char *dst, const char *src, int64_t bytes)
{
    memcpy(dst, src, (size_t)bytes);
}

void lines_fence(void)
{
}

#endif

int64_t lines_sum(void *const *dst, int64_t ndst, const void *const *src, int64_t nsrc,
                  kv_dtype dtype, int64_t n, bool far)
{
    return lines_sum_bits(512, dst, ndst, src, nsrc, dtype, n, far);
}
