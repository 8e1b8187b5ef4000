/* Changes of elements: marks, and the code of those that a holder of an older version lacks. */
#include "cpu/changes.h"

#include "test.h"

enum { N = CHANGES_BLOCK, ROOM = 2 + 8 * N };

static uint64_t seed;

static uint64_t draw(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return seed >> 33;
}

/* Two arrays of n elements that differ in about one element of `one_in`; 0: in none. */
static void fill(char *before, char *after, int size, int64_t n, uint64_t one_in)
{
    for (int64_t i = 0; i < n * size; i++)
        before[i] = (char)draw();
    memcpy(after, before, (size_t)(n * size));
    for (int64_t i = 0; i < n && one_in; i++)
        if (draw() % one_in == 0)
            after[i * size + (int64_t)(draw() % (uint64_t)size)] ^= 1;
}

/* Codes what changed, reads it, and looks that `before` becomes `after`. Returns the bytes. */
static int64_t check_round_trip(int size, int64_t n, uint64_t one_in)
{
    static char before[8 * N], after[8 * N], code[ROOM + 1];
    static uint8_t marks[N];
    static changes_block b;
    memset(marks, 0, sizeof marks);
    fill(before, after, size, n, one_in);
    changes_mark(marks, 1, before, after, size, n);
    for (int64_t i = 0; i < n; i++)
        CHECK_INT(marks[i], memcmp(before + i * size, after + i * size, (size_t)size) != 0);
    code[changes_bound(size, n)] = 77;
    int64_t bytes = changes_encode(code, marks, 0, after, size, n);
    CHECK(bytes <= changes_bound(size, n) && code[changes_bound(size, n)] == 77);
    CHECK(changes_decode(&b, code, code + bytes, size, n) == code + bytes);
    if (b.all)
        memcpy(before, b.elements, (size_t)(n * size));
    else
        changes_scatter(before, b.elements, b.at, b.count, size);
    CHECK(memcmp(before, after, (size_t)(n * size)) == 0);
    for (int64_t cut = 0; cut < bytes; cut += cut < 40 ? 1 : 97)
        CHECK(!changes_decode(&b, code, code + cut, size, n));
    return bytes;
}

TEST(changes_of_every_size_density_and_length)
{
    static const int sizes[] = {1, 2, 4, 8};
    static const uint64_t densities[] = {0, 1, 2, 3, 10, 100, 1000, 5000};
    static const int64_t lengths[] = {0, 1, 7, 8, 31, 32, 33, 100, 255, 256, 257, 511, 4095, N};
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 8; j++)
            for (int k = 0; k < 14; k++)
                check_round_trip(sizes[i], lengths[k], densities[j]);
}

/* One place in a hundred takes a byte and its bits; nothing takes a head; all of it no more than
 * the elements and a head. */
TEST(changes_are_short)
{
    CHECK_INT(check_round_trip(2, N, 0), 2);
    CHECK_INT(check_round_trip(2, N, 1), 2 + 2 * N);
    int64_t bytes = check_round_trip(2, N, 100);
    CHECK(bytes > 2 + 3 * 20 && bytes < 2 + 4 * 70);
    CHECK(check_round_trip(2, N, 3) < 2 + N / 8 + 2 * (N / 2));
}

/* A change is one of bits: -0 is not 0, and a nan is no other one. */
TEST(changes_are_of_bits)
{
    const uint16_t before[] = {0x0000, 0x7fc0, 0x7fc0, 0x3f80};
    const uint16_t after[] = {0x8000, 0x7fc1, 0x7fc0, 0x3f80};
    uint8_t marks[4] = {0};
    changes_mark(marks, 9, before, after, 2, 4);
    CHECK(marks[0] == 9 && marks[1] == 9 && marks[2] == 0 && marks[3] == 0);
}

TEST(changes_since_a_version)
{
    uint8_t marks[] = {0, 1, 2, 3, 255, 128, 129};
    const uint8_t elements[] = {10, 11, 12, 13, 14, 15, 16};
    uint8_t code[2 + 7];
    static changes_block b;
    int64_t n = changes_encode(code, marks, 2, elements, 1, 7);
    CHECK(changes_decode(&b, (char *)code, (char *)code + n, 1, 7));
    CHECK(!b.all && b.count == 4);
    CHECK(b.at[0] == 3 && b.at[1] == 4 && b.at[2] == 5 && b.at[3] == 6);
    changes_age(marks, 128, 7);
    CHECK(marks[3] == 0 && marks[4] == 127 && marks[5] == 0 && marks[6] == 1);
    n = changes_encode(code, marks, 127, elements, 1, 7);
    CHECK_INT(n, 2);
}

/* Any bytes are read as something that fits the block, or refused. */
TEST(changes_of_any_bytes)
{
    static changes_block b;
    char code[64];
    int taken = 0;
    for (int i = 0; i < 200000; i++) {
        int64_t n = (int64_t)(draw() % 40), room = (int64_t)(draw() % sizeof code);
        for (int64_t k = 0; k < room; k++)
            code[k] = (char)(draw() % 5 ? draw() % 8 : draw());
        if (!changes_decode(&b, code, code + room, 2, n))
            continue;
        taken++;
        CHECK(b.count <= n && b.elements + 2 * b.count <= code + room);
        for (int64_t k = 0; k < b.count && !b.all; k++)
            CHECK(b.at[k] < n && (k == 0 || b.at[k - 1] < b.at[k]));
    }
    CHECK(taken > 1000);
}
