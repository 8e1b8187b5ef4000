/* Sums of one to twenty arrays against the plain definition. */
#include "cpu/cpu.h"

#include "test.h"

enum { N = 2500, SOURCES = 20 };

static char source[SOURCES][N * 8];
static char result[N * 8 + 8], wanted[N * 8];

/* Left to right in the dtype's own arithmetic, one element at a time. */
static void plain_sum(const void *const *src, int nsrc, kv_dtype dtype, int64_t i)
{
    int64_t bytes = kv_dtype_bytes(dtype);
    float f = 0;
    double d = 0;
    uint64_t u = 0;
    for (int j = 0; j < nsrc; j++) {
        const char *x = (const char *)src[j] + i * bytes;
        float xf;
        double xd;
        int64_t xi;
        convert_elements(&xf, KV_FLOAT32, x, dtype, 1);
        convert_elements(&xd, KV_FLOAT64, x, dtype, 1);
        convert_elements(&xi, KV_INT64, x, dtype, 1);
        f = j ? f + xf : xf;
        d = j ? d + xd : xd;
        u += (uint64_t)xi;
    }
    if (dtype == KV_FLOAT64)
        memcpy(wanted + i * bytes, &d, sizeof d);
    else if (kv_dtype_is_float(dtype))
        convert_elements(wanted + i * bytes, dtype, &f, KV_FLOAT32, 1);
    else
        convert_elements(wanted + i * bytes, dtype, &u, KV_INT64, 1);
}

static void check_sum(kv_dtype dtype, int nsrc, int64_t n, int in_place)
{
    const void **src = malloc((size_t)nsrc * sizeof *src); /* no more than there are */
    int64_t bytes = kv_dtype_bytes(dtype);
    for (int j = 0; j < nsrc; j++)
        src[j] = source[j];
    for (int64_t i = 0; i < n; i++)
        plain_sum(src, nsrc, dtype, i);
    memset(result, 0x55, sizeof result);
    if (in_place) {
        memcpy(result, src[0], (size_t)(n * bytes));
        src[0] = result;
    }
    sum_elements(result, src, nsrc, dtype, n);
    CHECK(memcmp(result, wanted, (size_t)(n * bytes)) == 0);
    CHECK_INT(result[n * bytes], 0x55);
    free(src);
}

static void check_dtype(kv_dtype dtype)
{
    static const int64_t lengths[] = {0, 1, 5, 16, 33, 1023, 1024, 1025, N};
    uint32_t seed = 1;
    for (int j = 0; j < SOURCES; j++) {
        for (int i = 0; i < N; i++) {
            seed = seed * 1664525 + 1013904223;
            double x = (double)(int32_t)seed / (dtype == KV_BOOL && seed >> 28 ? 1e300 : 65536);
            if (dtype == KV_BOOL && seed >> 28)
                x = 0;
            convert_elements(source[j] + i * kv_dtype_bytes(dtype), dtype, &x, KV_FLOAT64, 1);
        }
    }
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        for (int nsrc = 1; nsrc <= SOURCES; nsrc++) {
            check_sum(dtype, nsrc, lengths[k], 0);
            check_sum(dtype, nsrc, lengths[k], 1);
        }
    }
}

TEST(sum_of_every_dtype)
{
    check_dtype(KV_FLOAT32);
    check_dtype(KV_FLOAT64);
    check_dtype(KV_FLOAT16);
    check_dtype(KV_BFLOAT16);
    check_dtype(KV_INT8);
    check_dtype(KV_UINT8);
    check_dtype(KV_INT32);
    check_dtype(KV_INT64);
    check_dtype(KV_BOOL);
}

TEST(sum_of_halves_rounds_once)
{
    /* 2048 + 1 + 1 is 2050 in float32; rounding each step to float16 would give 2048. */
    uint16_t big = 0x6800, one = 0x3c00, out;
    const void *src[] = {&big, &one, &one};
    sum_elements(&out, src, 3, KV_FLOAT16, 1);
    CHECK_INT(out, 0x6801);
}
