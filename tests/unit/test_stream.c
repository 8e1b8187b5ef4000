/* Functions that store past the caches give the results of the ordinary ones, wherever arrays begin
 * and end. */
#include "cpu/cpu.h"

#include "test.h"

enum { MOST = 3000, SHIFT = 3, SOURCES = 7 };

static const kv_dtype dtypes[] = {
#define NUMBER(constant, number, name, bytes) constant,
    KV_DTYPE_MAP(NUMBER)
#undef NUMBER
};
enum { NDTYPES = sizeof dtypes / sizeof *dtypes };

static const int64_t lengths[] = {0, 1, 15, 16, 17, 63, 1023, 1024, 1025, MOST};
enum { NLENGTHS = sizeof lengths / sizeof *lengths };

/* Small whole numbers in every dtype, other ones in each source. */
static void fill(char *to, kv_dtype dtype, int seed, int64_t n)
{
    static float x[MOST + SHIFT];
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)((i * 7 + seed * 13) % 23 - (dtype == KV_UINT8 ? 0 : 11)) / 2;
    convert_elements(to, dtype, x, KV_FLOAT32, n);
}

/* Equal elements, and nothing written behind them. */
static void check(const char *got, const char *want, int64_t bytes, int64_t room)
{
    CHECK(memcmp(got, want, (size_t)bytes) == 0);
    for (int64_t i = bytes; i < room; i++)
        CHECK_INT((unsigned char)got[i], 0xAB);
}

TEST(stream_converts_as_convert_does)
{
    static char src[(MOST + SHIFT) * 8], got[(MOST + SHIFT) * 8], want[MOST * 8];
    for (int a = 0; a < NDTYPES; a++) {
        fill(src, dtypes[a], 1, MOST + SHIFT);
        for (int b = 0; b < NDTYPES; b++) {
            for (int l = 0; l < NLENGTHS; l++) {
                int64_t n = lengths[l], wide = kv_dtype_bytes(dtypes[b]);
                int64_t shift = l % (SHIFT + 1);
                const char *from = src + (SHIFT - shift) * kv_dtype_bytes(dtypes[a]);
                memset(got, 0xAB, sizeof got);
                convert_elements(want, dtypes[b], from, dtypes[a], n);
                stream_convert(got + shift * wide, dtypes[b], from, dtypes[a], n);
                check(got + shift * wide, want, n * wide, (int64_t)sizeof got - shift * wide);
            }
        }
    }
}

TEST(stream_sums_as_sum_does)
{
    static char src[SOURCES][(MOST + SHIFT) * 8], got[(MOST + SHIFT) * 8], want[MOST * 8];
    for (int a = 0; a < NDTYPES; a++) {
        int64_t wide = kv_dtype_bytes(dtypes[a]);
        const void *from[SOURCES];
        for (int j = 0; j < SOURCES; j++) {
            fill(src[j], dtypes[a], j, MOST + SHIFT);
            from[j] = src[j] + j % SHIFT * wide;
        }
        for (int64_t nsrc = 1; nsrc <= SOURCES; nsrc++) {
            for (int l = 0; l < NLENGTHS; l++) {
                int64_t n = lengths[l], shift = l % (SHIFT + 1) * wide;
                memset(got, 0xAB, sizeof got);
                sum_elements(want, from, nsrc, dtypes[a], n);
                stream_sum(got + shift, from, nsrc, dtypes[a], n);
                check(got + shift, want, n * wide, (int64_t)sizeof got - shift);
            }
        }
    }
}

/* Places of equal and of different alignment, many and few. */
TEST(stream_spreads_to_every_place)
{
    enum { BYTES = 9000, PLACES = 20 };
    static char src[BYTES + 1], got[PLACES][BYTES + 128];
    static const int64_t sizes[] = {0, 1, 63, 64, 65, 255, 256, 300, 4097, BYTES};
    for (int i = 0; i <= BYTES; i++)
        src[i] = (char)(i * 7 + i / 256);
    for (int apart = 0; apart < 2; apart++) {
        for (int64_t n = 1; n <= PLACES; n += n < 4 ? 1 : 8) {
            for (size_t l = 0; l < sizeof sizes / sizeof *sizes; l++) {
                void *to[PLACES];
                memset(got, 0xAB, sizeof got);
                for (int64_t j = 0; j < n; j++)
                    to[j] = got[j] + 8 - (uintptr_t)got[j] % 8 + l + (size_t)(apart * j * 3);
                for (int64_t j = 0; j < n && !apart; j++)
                    to[j] = got[j] + 64 - (uintptr_t)got[j] % 64 + l;
                stream_copies(to, n, src + 1, sizes[l]);
                for (int64_t j = 0; j < n; j++) {
                    char *at = to[j];
                    CHECK_INT((unsigned char)at[-1], 0xAB);
                    check(at, src + 1, sizes[l], sizes[l] + 1);
                }
            }
        }
    }
}

/* One pass gives each place the sum, be it a source; places that begin at different bytes of a line
 * are refused. */
TEST(stream_sums_to_every_place)
{
    enum { ROOM = (MOST + 128) * 8 };
    static _Alignas(64) char src[3][ROOM], got[STREAM_PLACES][ROOM], want[ROOM];
    for (int a = 0; a < NDTYPES; a++) {
        int64_t wide = kv_dtype_bytes(dtypes[a]);
        for (int l = 0; l < NLENGTHS; l++) {
            int64_t n = lengths[l], shift = l % 3 * wide;
            int nplaces = l % 4 < 3 ? 1 + l % 4 : STREAM_PLACES;
            const void *from[3];
            void *to[STREAM_PLACES];
            memset(got, 0xAB, sizeof got);
            for (int j = 0; j < 3; j++) {
                memset(src[j], 0xAB, ROOM);
                fill(src[j] + shift, dtypes[a], j, n);
                from[j] = src[j] + shift;
            }
            for (int j = 0; j < nplaces; j++)
                to[j] = got[j] + shift;
            if (nplaces > 1)
                to[1] = src[2] + shift;
            sum_elements(want, from, 3, dtypes[a], n);
            CHECK(stream_sums(to, nplaces, from, 3, dtypes[a], n));
            for (int j = 0; j < nplaces; j++)
                check(to[j], want, n * wide, n * wide + 64);
        }
    }
    void *apart[] = {got[0], got[1] + 4};
    const void *from[] = {src[0], src[1]};
    CHECK(!stream_sums(apart, 2, from, 2, KV_FLOAT32, 100));
    CHECK(!stream_sums(apart, 1, from, 1, KV_FLOAT32, 100));
}
