/* Codes of one and two bits: MXNet's bytes, every length, and the fast loops against the plain. */
#include "cpu/cpu.h"

#include <math.h>

#include "test.h"

enum { N = 4200, GUARD = 0x5a };

static const quantise_code codes_of[] = {QUANTISE_1BIT, QUANTISE_2BIT};

static void check_bytes(const uint8_t *got, const char *hex)
{
    char text[3 * N] = "";
    for (size_t i = 0; i < strlen(hex) / 2; i++)
        snprintf(text + 2 * i, 3, "%02x", got[i]);
    CHECK_TEXT(text, hex);
}

TEST(quantise_bytes_of_mxnet)
{
    const float g[] = {0.5f, 0.25f, -0.5f, 1.0f, -1.25f, 0};
    float r[6] = {0};
    uint8_t c[4];
    quantise_encode(c, r, g, QUANTISE_2BIT, 0.5f, 6);
    check_bytes(c, "cb800000");
    memset(r, 0, sizeof r);
    quantise_encode(c, r, g, QUANTISE_1BIT, 0, 6);
    check_bytes(c, "d0000000");
}

TEST(quantise_whole_words)
{
    float g[33], r[33] = {0};
    uint8_t c[8];
    for (int i = 0; i < 33; i++)
        g[i] = i < 17 ? 0.5f : 0;
    quantise_encode(c, r, g, QUANTISE_2BIT, 0.5f, 17);
    check_bytes(c, "ffffffffc0000000");
    memset(r, 0, sizeof r);
    for (int i = 0; i < 33; i++)
        g[i] = 1;
    quantise_encode(c, r, g, QUANTISE_1BIT, 0, 33);
    check_bytes(c, "ffffffff80000000");
    CHECK_INT(quantise_bytes(QUANTISE_2BIT, 0), 0);
    CHECK_INT(quantise_bytes(QUANTISE_2BIT, 16), 4);
    CHECK_INT(quantise_bytes(QUANTISE_1BIT, 33), 8);
    CHECK_INT(quantise_bytes(QUANTISE_2BIT, INT64_MAX), (INT64_MAX / 16 + 1) * 4);
}

/* 01 is no code that is ever written; it stands for 0. */
TEST(quantise_unused_code)
{
    uint8_t c[16];
    float d[64];
    memset(c, 0x55, sizeof c);
    quantise_decode(d, c, QUANTISE_2BIT, 0.5f, 61);
    for (int i = 0; i < 61; i++)
        CHECK(d[i] == 0);
}

/* nan matches no threshold and stays; infinities leave a threshold at a time and stay as well. */
TEST(quantise_not_finite)
{
    float g[40], r[40] = {0}, d[40];
    uint8_t c[12];
    for (int i = 0; i < 40; i++)
        g[i] = i % 3 == 0 ? NAN : i % 3 == 1 ? INFINITY : -INFINITY;
    quantise_encode(c, r, g, QUANTISE_2BIT, 0.5f, 40);
    quantise_decode(d, c, QUANTISE_2BIT, 0.5f, 40);
    for (int i = 0; i < 40; i++) {
        CHECK(d[i] == (i % 3 == 0 ? 0 : i % 3 == 1 ? 0.5f : -0.5f));
        CHECK(i % 3 == 0 ? isnan(r[i]) : r[i] == g[i]);
    }
    memset(r, 0, sizeof r);
    quantise_encode(c, r, g, QUANTISE_1BIT, 0, 40);
    quantise_decode(d, c, QUANTISE_1BIT, 0, 40);
    for (int i = 0; i < 40; i++)
        CHECK(d[i] == (i % 3 == 1 ? 1 : -1));
}

/* Numbers around the threshold, exactly on it among them. */
static float gradient(int64_t i, int step)
{
    static const float some[] = {0.5f, -0.5f, 0.25f, -0.0f, 0, 1, -0.125f, 0.1f};
    int64_t x = (i * 2654435761 + step * 40503) % 8191;
    return x % 5 == 0 ? some[x % 8] : (float)(x - 4095) / 4096;
}

static const float special[] = {NAN, INFINITY, -INFINITY, 1e-40f, -0.0f};

/* Fewer elements than fill a vector take the plain loops: these do so for any length. */
enum { FEW = 16 };

static void encode_plain(uint8_t *codes, float *residual, const float *src, quantise_code code,
                         float t, int64_t n)
{
    memset(codes, 0, (size_t)quantise_bytes(code, n));
    for (int64_t i = 0; i < n; i += FEW) {
        uint8_t word[4];
        quantise_encode(word, residual + i, src + i, code, t, n - i < FEW ? n - i : FEW);
        memcpy(codes + i * code / 8, word, FEW / 8 * code);
    }
}

static void decode_plain(float *dst, const uint8_t *codes, quantise_code code, float t, int64_t n)
{
    for (int64_t i = 0; i < n; i += FEW)
        quantise_decode(dst + i, codes + i * code / 8, code, t, n - i < FEW ? n - i : FEW);
}

/* From a block that is aligned on, r and d are as well. */
typedef struct room {
    float r[N + 8], d[N + 8], g[N], plain_r[N], plain_d[N];
    uint8_t c[N], plain_c[N];
} room;

static void compare(room *w, quantise_code code, float t, int64_t n, int64_t shift)
{
    float *d = w->d + shift, *r = w->r + shift;
    int64_t bytes = quantise_bytes(code, n);
    memset(w->r, 0, sizeof w->r);
    memset(w->plain_r, 0, sizeof w->plain_r);
    for (int step = 0; step < 3; step++) {
        for (int64_t i = 0; i < n; i++)
            w->g[i] = gradient(i, step);
        memset(w->c, GUARD, sizeof w->c);
        memset(w->plain_c, GUARD, sizeof w->plain_c);
        quantise_encode(w->c, r, w->g, code, t, n);
        encode_plain(w->plain_c, w->plain_r, w->g, code, t, n);
        CHECK(memcmp(w->c, w->plain_c, sizeof w->c) == 0);
        CHECK(w->c[bytes] == GUARD);
        CHECK(memcmp(r, w->plain_r, (size_t)n * 4) == 0);
        quantise_decode(d, w->c, code, t, n);
        decode_plain(w->plain_d, w->c, code, t, n);
        CHECK(memcmp(d, w->plain_d, (size_t)n * 4) == 0);
    }
}

enum { SOURCES = 19 };

/* nsrc gradients and residuals, each one element apart in its own memory, and their sum. */
typedef struct many {
    float g[SOURCES][N + SOURCES], r[SOURCES][N + 16 + SOURCES], plain_r[SOURCES][N];
    float d[N + 16], sum[N + 16], total[N], one[N];
    uint8_t codes[N];
} many;

/* What encoding and decoding give, one gradient after the other. begin: NULL is zeros. */
static void sum_by_codes(many *w, const float *begin, int64_t nsrc, quantise_code code, float t,
                         const float *const *src, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        w->total[i] = begin ? begin[i] : 0;
    for (int64_t j = 0; j < nsrc; j++) {
        encode_plain(w->codes, w->plain_r[j], src[j], code, t, n);
        decode_plain(w->one, w->codes, code, t, n);
        for (int64_t i = 0; i < n; i++)
            w->total[i] += w->one[i];
    }
}

/* Three pushes: into d, onto what sum holds into d, and onto d itself. shift: of d and residuals
 * against whole lines. */
static void compare_sums(many *w, int64_t nsrc, quantise_code code, float t, int64_t n,
                         int64_t shift, bool far)
{
    const float *src[SOURCES];
    float *residual[SOURCES], *d = w->d + shift, before[N];
    memset(w->plain_r, 0, sizeof w->plain_r);
    for (int j = 0; j < SOURCES; j++) {
        src[j] = w->g[j] + j;
        residual[j] = w->r[j] + (shift > 1 ? j : shift);
        memset(w->r[j], 0, sizeof w->r[j]);
    }
    for (int step = 0; step < 3; step++) {
        const float *sum = step == 0 ? NULL : step == 1 ? w->sum : d;
        for (int64_t j = 0; j < nsrc; j++)
            for (int64_t i = 0; i < n; i++)
                w->g[j][j + i] = i % 97 == 96 ? special[i / 97 % 5] : gradient(i + j * 31, step);
        for (int64_t i = 0; i < n; i++)
            w->sum[i] = gradient(i, 9);
        memcpy(before, d, sizeof before);
        sum_by_codes(w, step < 2 ? sum : before, nsrc, code, t, src, n);
        d[n] = 77;
        quantise_sum(d, sum, residual, src, nsrc, code, t, n, far);
        CHECK(memcmp(d, w->total, (size_t)n * 4) == 0);
        CHECK(d[n] == 77);
        for (int64_t j = 0; j < nsrc; j++)
            CHECK(memcmp(residual[j], w->plain_r[j], (size_t)n * 4) == 0);
    }
}

/* All gradients in one pass give the bits of one after the other. */
TEST(quantise_sum_every_length)
{
    static const int64_t counts[] = {1, 2, 3, 4, 8, SOURCES};
    many *w = mem_alloc_data(sizeof *w, &e); /* aligned */
    CHECK(w != NULL);
    memset(w, 0, sizeof *w);
    for (int k = 0; k < 4; k++) {
        for (int64_t n = 0; n < 200; n++)
            compare_sums(w, counts[n % 6], codes_of[k % 2], 0.5f, n, n % 3, k / 2);
        for (int64_t shift = 0; shift < 3; shift++)
            for (int c = 0; c < 6; c += 2)
                compare_sums(w, counts[c], codes_of[k % 2], 0.1f, N - 1, shift, k / 2);
    }
    compare_sums(w, 2, QUANTISE_1BIT, -0.5f, 777, 0, false);
    mem_free_data(w);
}

TEST(quantise_every_length)
{
    own_mem room *w = mem_zalloc(1, sizeof *w, &e);
    CHECK(w != NULL);
    for (int k = 0; k < 2; k++) {
        for (int64_t n = 0; n < 200; n++)
            compare(w, codes_of[k], 0.5f, n, n % 2);
        compare(w, codes_of[k], 0.1f, N - 1, 0);
        compare(w, codes_of[k], 0.1f, N - 1, 1);
    }
    compare(w, QUANTISE_1BIT, -0.5f, 777, 0);
}

/* So many elements are written around the caches. */
TEST(quantise_many)
{
    enum { MANY = (1 << 18) + 13 };
    float *g = mem_alloc_data(MANY * 4, &e), *r = mem_alloc_data(MANY * 4, &e),
          *d = mem_alloc_data(MANY * 4, &e), *plain = mem_alloc_data(MANY * 4, &e);
    uint8_t *c = mem_alloc_data(MANY, &e);
    CHECK(g && r && d && plain && c);
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < MANY; i++)
            g[i] = gradient(i, k), r[i] = 0, plain[i] = 0;
        encode_plain(c, plain, g, codes_of[k], 0.5f, MANY);
        quantise_encode(c, r, g, codes_of[k], 0.5f, MANY);
        CHECK(memcmp(r, plain, MANY * 4) == 0);
        quantise_decode(d, c, codes_of[k], 0.5f, MANY);
        decode_plain(plain, c, codes_of[k], 0.5f, MANY);
        CHECK(memcmp(d, plain, MANY * 4) == 0);
        quantise_decode(d + 1, c, codes_of[k], 0.5f, MANY - 1);
        CHECK(memcmp(d + 1, plain, (MANY - 1) * 4) == 0);
    }
    mem_free_data(g);
    mem_free_data(r);
    mem_free_data(d);
    mem_free_data(plain);
    mem_free_data(c);
}
