/* Philox4x32-10 and the distributions made of its words. */
#include "base/philox.h"

#include <math.h>

/* Multipliers and the steps of the key, from section 4 of the paper: the golden ratio and
 * sqrt(3) - 1, scaled to 32 bits. */
#define MULTIPLY_0 UINT64_C(0xD2511F53)
#define MULTIPLY_1 UINT64_C(0xCD9E8D57)
#define STEP_0     0x9E3779B9u
#define STEP_1     0xBB67AE85u
#define ROUNDS     10

#define TWO_PI 0x1.921fb54442d18p+2

philox philox_block(const uint32_t counter[4], const uint32_t key[2])
{
    uint32_t a = counter[0], b = counter[1], c = counter[2], d = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t p = MULTIPLY_0 * a, q = MULTIPLY_1 * c;
        a = (uint32_t)(q >> 32) ^ b ^ k0;
        b = (uint32_t)q;
        c = (uint32_t)(p >> 32) ^ d ^ k1;
        d = (uint32_t)p;
        k0 += STEP_0;
        k1 += STEP_1;
    }
    return (philox){{a, b, c, d}};
}

philox philox_at(uint64_t seed, philox_stream stream, uint64_t draw, uint64_t element)
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)element, (uint32_t)(element >> 32), (uint32_t)draw,
                                 (uint32_t)(draw >> 32 & 0xffff) | (uint32_t)stream << 16};
    return philox_block(counter, key);
}

static uint64_t join(uint32_t high, uint32_t low)
{
    return (uint64_t)high << 32 | low;
}

double philox_uniform24(philox p)
{
    return (p.word[0] >> 8) * 0x1p-24;
}

double philox_uniform53(philox p)
{
    return (double)(join(p.word[0], p.word[1]) >> 11) * 0x1p-53;
}

double philox_normal(philox p)
{
    double u = (double)((join(p.word[0], p.word[1]) >> 11) + 1) * 0x1p-53;
    double v = (double)(join(p.word[2], p.word[3]) >> 11) * 0x1p-53;
    return sqrt(-2 * log(u)) * cos(TWO_PI * v);
}

uint64_t philox_below(philox p, uint64_t n)
{
    uint64_t x = join(p.word[0], p.word[1]);
    if (n == 0)
        return x;
    /* The high half of a product of 128 bits, in parts of 32: x * n / 2^64. */
    uint64_t xl = (uint32_t)x, xh = x >> 32, nl = (uint32_t)n, nh = n >> 32;
    uint64_t middle = xh * nl + (xl * nl >> 32), other = xl * nh + (uint32_t)middle;
    return xh * nh + (middle >> 32) + (other >> 32);
}
