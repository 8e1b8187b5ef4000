/* Sums of whole lines against one addition after another, bit by bit: any bits as elements, so that
 * nan, infinities and subnormal numbers are among them. */
#include "cpu/lines.h"

#include <math.h>
#include <stdbool.h>

#include "cpu/cpu.h"
#include "cpu/half.h"
#include "test.h"

enum { N = 700, SOURCES = 11, ROOM = (N + 8) * 8 };

static _Alignas(64) char source[SOURCES][ROOM], result[ROOM], second[ROOM], third[ROOM],
    wanted[ROOM];
static bool unsettled[N]; /* two nan met in element i, and which of them stays is open */

static const kv_dtype dtypes[] = {
#define NUMBER(constant, number, name, bytes) constant,
    KV_DTYPE_MAP(NUMBER)
#undef NUMBER
};
enum { NDTYPES = sizeof dtypes / sizeof *dtypes };

static float widened(kv_dtype dtype, const char *x)
{
    float f;
    uint16_t h;
    memcpy(&h, x, sizeof h);
    if (dtype == KV_FLOAT16)
        half_widen_f16_soft(&f, &h, 1);
    else if (dtype == KV_BFLOAT16)
        half_widen_bf16(&f, &h, 1);
    else
        memcpy(&f, x, sizeof f);
    return f;
}

static void narrowed(kv_dtype dtype, char *to, float x)
{
    uint16_t h;
    if (dtype == KV_FLOAT16)
        half_narrow_f16_soft(&h, &x, 1);
    else if (dtype == KV_BFLOAT16)
        half_narrow_bf16(&h, &x, 1);
    else {
        memcpy(to, &x, sizeof x);
        return;
    }
    memcpy(to, &h, sizeof h);
}

static bool plain_float(kv_dtype dtype, char *to, const char *const *at, int nsrc)
{
    float sum = widened(dtype, at[0]);
    bool two = false;
    for (int j = 1; j < nsrc; j++) {
        float x = widened(dtype, at[j]);
        two = two || (isnan(sum) && isnan(x));
        sum += x;
    }
    narrowed(dtype, to, sum);
    return two;
}

static bool plain_double(char *to, const char *const *at, int nsrc)
{
    double sum = 0, x;
    bool two = false;
    for (int j = 0; j < nsrc; j++) {
        memcpy(&x, at[j], sizeof x);
        two = two || (j && isnan(sum) && isnan(x));
        sum = j ? sum + x : x;
    }
    memcpy(to, &sum, sizeof sum);
    return two;
}

static void plain_integer(kv_dtype dtype, char *to, const char *const *at, int nsrc)
{
    int64_t sum = 0, x;
    for (int j = 0; j < nsrc; j++) {
        convert_elements(&x, KV_INT64, at[j], dtype, 1);
        sum = (int64_t)((uint64_t)sum + (uint64_t)x);
    }
    convert_elements(to, dtype, &sum, KV_INT64, 1);
}

/* wanted, and unsettled, for sources that begin at their own offsets. */
static void make_wanted(kv_dtype dtype, const void *const *src, int nsrc)
{
    int64_t bytes = kv_dtype_bytes(dtype);
    for (int64_t i = 0; i < N; i++) {
        const char *at[SOURCES];
        char *to = wanted + i * bytes;
        for (int j = 0; j < nsrc; j++)
            at[j] = (const char *)src[j] + i * bytes;
        unsettled[i] = false;
        if (dtype == KV_FLOAT64)
            unsettled[i] = plain_double(to, at, nsrc);
        else if (kv_dtype_is_float(dtype))
            unsettled[i] = plain_float(dtype, to, at, nsrc);
        else
            plain_integer(dtype, to, at, nsrc);
    }
}

static void fill(kv_dtype dtype)
{
    uint64_t seed = 7;
    int64_t bytes = kv_dtype_bytes(dtype);
    for (int j = 0; j < SOURCES; j++) {
        for (int64_t i = 0; i < ROOM / bytes; i++) {
            seed = seed * 6364136223846793005 + 1442695040888963407;
            uint64_t bits = seed >> (64 - 8 * bytes);
            if (kv_dtype_is_float(dtype) && seed % 3 == 0) /* a special exponent */
                bits = seed % 2 ? bits | (UINT64_C(0x7ff) << (8 * bytes - 12))
                                : bits & ~(UINT64_C(0x7ff) << (8 * bytes - 12));
            if (dtype == KV_BOOL)
                bits &= bits >> 1 & bits >> 2 & 3; /* 2 and 3 are true as well */
            memcpy(source[j] + i * bytes, &bits, (size_t)bytes);
        }
    }
}

/* Only float16 may lack a loop, where the processor has no instructions for it. */
static bool has_loop(kv_dtype dtype)
{
#if defined(__x86_64__)
    return dtype != KV_FLOAT16;
#else
    (void)dtype;
    return false;
#endif
}

static void check(int bits, kv_dtype dtype, const void *const *src, int nsrc, int64_t n, bool far)
{
    int64_t bytes = kv_dtype_bytes(dtype);
    void *places[] = {result, second, third};
    int64_t nplaces = 1 + n % 3;
    for (int j = 0; j < 3; j++)
        memset(places[j], 0x55, sizeof result);
    int64_t done = lines_sum_bits(bits, places, nplaces, src, nsrc, dtype, n, far);
    CHECK(done >= 0 && done <= n && (n - done < 512 / bytes || (done == 0 && !has_loop(dtype))));
    for (int64_t i = 0; i < done; i++)
        CHECK(unsettled[i] || memcmp(result + i * bytes, wanted + i * bytes, (size_t)bytes) == 0);
    for (int64_t j = 0; j < nplaces; j++)
        CHECK(memcmp(places[j], result, (size_t)(done * bytes)) == 0);
    for (int j = 0; j < 3; j++)
        CHECK_INT(((char *)places[j])[j < nplaces ? done * bytes : 0], 0x55);
}

TEST(lines_sum_as_one_after_another)
{
    static const int64_t lengths[] = {0, 31, 64, 127, 128, 300, 511, 512, 513, N};
    static const int widths[] = {512, 256, 128};
    for (int t = 0; t < NDTYPES; t++) {
        kv_dtype dtype = dtypes[t];
        int64_t bytes = kv_dtype_bytes(dtype);
        const void *src[SOURCES];
        fill(dtype);
        for (int j = 0; j < SOURCES; j++)
            src[j] = source[j] + j % 4 * bytes;
        for (int nsrc = 2; nsrc <= SOURCES; nsrc++) {
            make_wanted(dtype, src, nsrc);
            for (int w = 0; w < 3; w++)
                for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
                    check(widths[w], dtype, src, nsrc, lengths[l], l % 2);
        }
    }
}

TEST(lines_sum_in_place)
{
    for (int w = 512; w >= 128; w /= 2) {
        fill(KV_BFLOAT16);
        const void *src[] = {result, source[1], source[2]};
        memcpy(result, source[0], sizeof result);
        make_wanted(KV_BFLOAT16, src, 3);
        void *places[] = {result, source[2]};
        int64_t done = lines_sum_bits(w, places, 2, src, 3, KV_BFLOAT16, N, false);
        for (int64_t i = 0; i < done; i++)
            CHECK(unsettled[i] || memcmp(result + i * 2, wanted + i * 2, 2) == 0);
        CHECK(memcmp(result, source[2], (size_t)done * 2) == 0);
    }
}
