/* Random numbers: the known answers of Philox4x32-10, and what the distributions promise. */
#include "base/philox.h"

#include <math.h>

#include "test.h"

/* The three known answers that the authors publish (Random123, kat_vectors). */
TEST(philox_known_answers)
{
    static const struct {
        philox counter;
        uint32_t key[2], want[4];
    } cases[] = {
        {{{0, 0, 0, 0}}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (int i = 0; i < 3; i++) {
        philox p = philox_rounds(cases[i].counter, cases[i].key[0], cases[i].key[1]);
        for (int k = 0; k < 4; k++)
            CHECK_INT(p.word[k], cases[i].want[k]);
    }
}

TEST(philox_counter)
{
    philox want = philox_rounds((philox){{5, 1, 7, 0x10002}}, 9, 3);
    philox got = philox_at(UINT64_C(0x300000009), PHILOX_RULES, UINT64_C(0x200000007),
                           UINT64_C(0x100000005));
    CHECK(!memcmp(&got, &want, sizeof got));
}

TEST(philox_uniform_ends)
{
    philox none = {{0}}, all = {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}};
    CHECK(philox_uniform24(none) == 0);
    CHECK(philox_uniform24(all) == 1 - 0x1p-24);
    CHECK((float)philox_uniform24(all) < 1);
    CHECK(philox_uniform53(none) == 0);
    CHECK(philox_uniform53(all) == 1 - 0x1p-53);
    /* log(0) never happens: u is at least 2^-53 */
    CHECK(isfinite(philox_normal(none)));
    CHECK(philox_normal(none) > 8.5 && philox_normal(none) < 8.6);
    CHECK(fabs(philox_normal(all)) == 0);
}

TEST(philox_below_ends)
{
    philox none = {{0}}, all = {{0xffffffff, 0xffffffff, 0, 0}}, some = {{0x80000000, 1, 0, 0}};
    CHECK_INT(philox_below(none, 10), 0);
    CHECK_INT(philox_below(all, 10), 9);
    CHECK_INT(philox_below(all, 1), 0);
    CHECK_INT(philox_below(some, 10), 5);
    CHECK(philox_below(all, 0) == UINT64_MAX);
    CHECK(philox_below(all, UINT64_MAX) == UINT64_MAX - 1);
    CHECK(philox_below(some, UINT64_C(0x8000000000000001)) == UINT64_C(0x4000000000000001));
}

TEST(philox_moments)
{
    double sum = 0, squares = 0, uniform = 0;
    int n = 100000, counts[10] = {0};
    for (int i = 0; i < n; i++) {
        philox p = philox_at(1, PHILOX_FUNCTIONS, 0, (uint64_t)i);
        double z = philox_normal(p);
        sum += z;
        squares += z * z;
        uniform += philox_uniform53(p);
        counts[philox_below(p, 10)]++;
    }
    /* within five deviations of what is expected */
    CHECK(fabs(sum / n) < 5 / sqrt(n));
    CHECK(fabs(squares / n - 1) < 5 * sqrt(2.0 / n));
    CHECK(fabs(uniform / n - 0.5) < 5 / sqrt(12.0 * n));
    for (int i = 0; i < 10; i++)
        CHECK(fabs(counts[i] - n / 10.0) < 5 * sqrt(n * 0.09));
}
