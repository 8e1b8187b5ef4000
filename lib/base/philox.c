/* Philox4x32-10 and the distributions made of its words. */
#include "base/philox.h"

#include <math.h>

#define TWO_PI 0x1.921fb54442d18p+2

philox philox_at(uint64_t seed, philox_stream stream, uint64_t draw, uint64_t element)
{
    return philox_rounds(philox_counter(stream, draw, element), (uint32_t)seed,
                         (uint32_t)(seed >> 32));
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
