/* The checksum: known sums, and that every bit counts. */
#include "base/xxh64.h"

#include "test.h"

TEST(xxh64_known_sums)
{
    CHECK(xxh64(NULL, 0) == UINT64_C(0xEF46DB3751D8E999));
    CHECK(xxh64("", 0) == UINT64_C(0xEF46DB3751D8E999));
    CHECK(xxh64("a", 1) == UINT64_C(0xD24EC4F1A98C6E5B));
    CHECK(xxh64("abc", 3) == UINT64_C(0x44BC2CF5AD770999));
}

enum { SIZE = 4101 };

static void fill(unsigned char *data)
{
    for (int i = 0; i < SIZE; i++)
        data[i] = (unsigned char)(i * 7 + i / 256);
}

/* The sums of the reference implementation, at lengths that take every path. */
TEST(xxh64_all_lengths)
{
    static const struct {
        size_t n;
        uint64_t sum;
    } known[] = {
        {1, UINT64_C(0xE934A84ADB052768)},
        {3, UINT64_C(0x9FF70A635A6209AB)},
        {4, UINT64_C(0xAE5ACDC00A55AC41)},
        {7, UINT64_C(0xD734A6B26F3DA63E)},
        {8, UINT64_C(0x87116B3365B924EB)},
        {12, UINT64_C(0x14B8433B9A14E611)},
        {31, UINT64_C(0x0F187C62B1E722B7)},
        {32, UINT64_C(0x91B0CB0931A8C629)},
        {33, UINT64_C(0x931B043CF8D65B94)},
        {63, UINT64_C(0x219110BF13E2FA26)},
        {64, UINT64_C(0xBF3052E3445775D0)},
        {100, UINT64_C(0x8E2272C08247D5DB)},
        {1000, UINT64_C(0x698399D62F9C1695)},
        {4101, UINT64_C(0x074C78F951F242BC)},
    };
    unsigned char data[SIZE];
    fill(data);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        CHECK(xxh64(data, known[i].n) == known[i].sum);
}

TEST(xxh64_every_bit_counts)
{
    unsigned char data[SIZE];
    fill(data);
    for (int n = 1; n < 130; n++) {
        uint64_t sum = xxh64(data, (size_t)n);
        for (int bit = 0; bit < 8 * n; bit++) {
            data[bit / 8] ^= (unsigned char)(1 << bit % 8);
            CHECK(xxh64(data, (size_t)n) != sum);
            data[bit / 8] ^= (unsigned char)(1 << bit % 8);
        }
    }
}

/* Two signs that change in the same place of a word, the weak point of sums by multiplication. */
TEST(xxh64_two_signs_count)
{
    unsigned char data[SIZE];
    fill(data);
    uint64_t sum = xxh64(data, SIZE);
    for (int i = 7; i + 32 < SIZE; i += 32) {
        data[i] ^= 0x80;
        data[i + 32] ^= 0x80;
        CHECK(xxh64(data, SIZE) != sum);
        data[i] ^= 0x80;
        data[i + 32] ^= 0x80;
    }
}

/* Data in parts have the sum of the whole, wherever they are parted. */
TEST(xxh64_parts)
{
    unsigned char data[SIZE];
    xxh64_parts p;
    fill(data);
    for (size_t n = 0; n < SIZE; n += n < 200 ? 1 : 371)
        for (size_t first = 0; first <= n; first += 96)
            for (size_t second = first; second <= n; second += 1024) {
                xxh64_begin(&p);
                xxh64_add(&p, data, first);
                xxh64_add(&p, data + first, second - first);
                CHECK(xxh64_end(&p, data + second, n - second) == xxh64(data, n));
            }
}
