/* Numbers with a bound of their error: the types, and rounding to one. */
#include "bounded.h"

#include "cpu/cpu.h"

rounding bounded_type;

rounding rounding_of(kv_dtype dtype)
{
    switch ((int)dtype) {
    case KV_FLOAT64:
        return (rounding){0x1p-53L, 0x1p-1075L, 0x1.fffffffffffffp1023L};
    case KV_FLOAT16:
        return (rounding){0x1p-11L, 0x1p-25L, 65504};
    case KV_BFLOAT16:
        return (rounding){0x1p-8L, 0x1p-134L, 0x1.fep127L};
    default:
        return (rounding){0x1p-24L, 0x1p-150L, 0x1.fffffep127L};
    }
}

/* A binary64 number as the dtype holds it. */
static double held(double x, kv_dtype dtype)
{
    double wide;
    char narrow[8];
    if (dtype == KV_FLOAT64)
        return x;
    convert_elements(narrow, dtype, &x, KV_FLOAT64, 1);
    convert_elements(&wide, KV_FLOAT64, narrow, dtype, 1);
    return wide;
}

/* The ends go outwards to binary64 first, so that rounding twice loses nothing. */
bounded narrowed(bounded x, kv_dtype dtype)
{
    if (bounded_is_unknown(x))
        return x;
    long double low = x.v - x.e, high = x.v + x.e;
    double a = (double)low, b = (double)high;
    if (a > low)
        a = nextafter(a, -INFINITY);
    if (b < high)
        b = nextafter(b, INFINITY);
    a = held(a, dtype);
    b = held(b, dtype);
    if (isinf(a) || isinf(b))
        return (bounded){x.v, INFINITY};
    return between(a, b);
}
