/* Numbers with a bound of their error: running error analysis (Higham, "Accuracy and Stability of
 * Numerical Algorithms", 3.3).
 *
 * v is the value of the formula, in long double; e bounds |computed - v|, where `computed` is any
 * result of the same operations in the type at hand, each rounded to nearest. An operation carries
 * the errors of its operands on, and adds u (|v| + e) for its rounding, and `least`, half of the
 * smallest number, for underflow. Nothing here is chosen: u and least are those of the type.
 *
 * e is infinite where nothing is known: a division by an interval that holds 0, a root of one that
 * holds numbers below 0, a result that may overflow. v is nan, and e 0, where the result is nan. */
#pragma once

#include <math.h>
#include <stdbool.h>

#include "kv_dtype.h"

typedef struct bounded {
    long double v, e;
} bounded;

/* A floating-point type: its unit roundoff, half of its smallest number, its largest number. */
typedef struct rounding {
    long double u, least, most;
} rounding;

rounding rounding_of(kv_dtype dtype);

/* The type in which the functions below compute; long double itself rounds to 64 bits. */
extern rounding bounded_type;
#define BOUNDED_OWN 0x1p-63L

static inline bounded exactly(long double x)
{
    return (bounded){x, 0};
}

/* A nan that is known to be one, as all will be that is computed with it. */
static inline bool is_nan(bounded x)
{
    return isnan(x.v) && x.e == 0;
}

/* v with the error of its operands, rounded; nan with an error is anything. */
static inline bounded bounded_round(long double v, long double e)
{
    if (isnan(v) || isnan(e))
        return (bounded){v, e == 0 ? 0 : INFINITY};
    if (v == 0 && e == 0)
        return exactly(0);
    long double big = fabsl(v) + e;
    if (!(big <= bounded_type.most))
        return (bounded){v, e > 0 || !isinf(v) ? INFINITY : 0};
    return (bounded){v, e + big * (bounded_type.u + BOUNDED_OWN) + bounded_type.least};
}

/* A known 0, which makes a sum or a product exact. */
static inline bool is_zero(bounded x)
{
    return x.v == 0 && x.e == 0;
}

static inline bounded add(bounded x, bounded y)
{
    if (is_nan(x) || is_nan(y))
        return exactly(NAN);
    if (is_zero(x) || is_zero(y))
        return (bounded){x.v + y.v, x.e + y.e};
    return bounded_round(x.v + y.v, x.e + y.e);
}

static inline bounded neg(bounded x)
{
    return (bounded){-x.v, x.e};
}

static inline bounded sub(bounded x, bounded y)
{
    return add(x, neg(y));
}

static inline bounded mul(bounded x, bounded y)
{
    if (is_nan(x) || is_nan(y))
        return exactly(NAN);
    if ((is_zero(x) && isfinite(y.v) && isfinite(y.e)) ||
        (is_zero(y) && isfinite(x.v) && isfinite(x.e)) || (isinf(x.v * y.v) && x.e + y.e == 0))
        return exactly(x.v * y.v);
    if (x.e + y.e == 0)
        return bounded_round(x.v * y.v, 0);
    return bounded_round(x.v * y.v, fabsl(x.v) * y.e + fabsl(y.v) * x.e + x.e * y.e);
}

static inline bounded quo(bounded x, bounded y)
{
    long double low = fabsl(y.v) - y.e, q = x.v / y.v;
    if (is_nan(x) || is_nan(y))
        return exactly(NAN);
    if (x.e + y.e == 0)
        return is_zero(x) || is_zero(y) || isinf(x.v) || isinf(y.v) ? exactly(q)
                                                                    : bounded_round(q, 0);
    if (y.e > 0 && !(low > 0))
        return (bounded){q, INFINITY};
    if (is_zero(x) || is_zero(y))
        return is_zero(x) ? exactly(q) : (bounded){q, INFINITY};
    return bounded_round(q, (x.e + fabsl(q) * y.e) / low);
}

/* Of a number that is not below 0, whatever its bound says: a sum of squares. */
static inline bounded root_of_squares(bounded x)
{
    if (x.v < 0)
        x = (bounded){0, x.v + x.e > 0 ? x.v + x.e : x.e};
    long double low = x.v > x.e ? x.v - x.e : 0, r = sqrtl(x.v);
    long double e = x.e > 0 ? fmaxl(r - sqrtl(low), sqrtl(x.v + x.e) - r) : 0;
    return x.e == 0 && x.v == 0 ? x : bounded_round(r, e);
}

static inline bounded root(bounded x)
{
    if (is_nan(x))
        return x;
    if (x.v - x.e < 0)
        return (bounded){x.e > 0 ? 0 : (long double)NAN, x.e > 0 ? INFINITY : 0};
    return root_of_squares(x);
}

/* The exact functions of an interval: its middle and half its length, or the point. */
static inline bounded between(long double low, long double high)
{
    if (low == high)
        return exactly(low);
    long double v = low / 2 + high / 2;
    return (bounded){v, fmaxl(high - v, v - low) * (1 + BOUNDED_OWN)};
}

static inline bool bounded_is_unknown(bounded x)
{
    return isnan(x.v) || isinf(x.e);
}

static inline bounded larger(bounded x, bounded y)
{
    if (is_nan(x) || is_nan(y))
        return exactly(NAN);
    if (bounded_is_unknown(x) || bounded_is_unknown(y))
        return (bounded){NAN, INFINITY};
    return between(fmaxl(x.v - x.e, y.v - y.e), fmaxl(x.v + x.e, y.v + y.e));
}

static inline bounded smaller(bounded x, bounded y)
{
    return neg(larger(neg(x), neg(y)));
}

static inline bounded magnitude(bounded x)
{
    return x.v < 0 ? neg(x) : x; /* ||computed| - |v|| is not larger than |computed - v| */
}

/* x > c -> c, x < -c -> -c, nan stays. */
static inline bounded clipped(bounded x, bounded c)
{
    return bounded_is_unknown(x) ? x : smaller(larger(x, neg(c)), c);
}

/* -1, 0 or 1; nan gives 0. */
static inline bounded sign_of(bounded x)
{
    if (is_nan(x) || is_zero(x))
        return exactly(0);
    return fabsl(x.v) > x.e ? exactly(x.v > 0 ? 1 : -1) : (bounded){0, 1};
}

/* binary64 pow, which errs by less than one unit in the last place. */
static inline bounded power64(double x, double y)
{
    long double v = powl(x, y);
    return (bounded){v, x == 0 || x == 1 ? 0 : fabsl(v) * 0x1p-52L + 0x1p-1074L};
}

/* x as a type holds it: exact where both ends of the interval round to one number. */
bounded narrowed(bounded x, kv_dtype dtype);

/* A number that was rounded once to a type. */
static inline bounded number(double x, kv_dtype dtype)
{
    return narrowed(exactly(x), dtype);
}
