/* Looking at the bits of elements, without making numbers of them: that is as quick as reading.
 *
 * A first loop over a piece, of few operations that vector registers have for every width, tells
 * whether any element is not zero, and whether any is NaN or Inf; most pieces need no more. */
#include "tensors/tensor_stat.h"

#include <string.h>

#include "tensors/walk.h"

/* ---- Types ----------------------------------------------------------------------------------- */

/* The words in which a type is looked at: elements, or bytes of packed ones. */
typedef struct layout {
    int bytes;          /* of a word */
    uint64_t magnitude; /* the bits of a word that tell a number from 0 */
    /* Added to the magnitude this carries into the sign bit where the element is not finite;
     * 0: every one is. */
    uint64_t carry;
    uint64_t inf;       /* the magnitude of Inf; 0: there is none */
    uint64_t nan;       /* (instead of carry) the one word that is NaN; 0: there is none */
} layout;

static layout layout_of(tensor_type t)
{
    switch (t) {
    case TENSOR_F64:
        return (layout){8, INT64_MAX, UINT64_C(1) << 52, UINT64_C(0x7FF) << 52, 0};
    case TENSOR_F32:
    case TENSOR_C64:
        return (layout){4, INT32_MAX, 1u << 23, 0x7F800000, 0};
    case TENSOR_F16:
        return (layout){2, 0x7FFF, 1u << 10, 0x7C00, 0};
    case TENSOR_BF16:
        return (layout){2, 0x7FFF, 1u << 7, 0x7F80, 0};
    case TENSOR_F8_E5M2:
        return (layout){1, 0x7F, 4, 0x7C, 0};
    case TENSOR_F8_E4M3:
        return (layout){1, 0x7F, 1, 0, 0};
    case TENSOR_F8_E4M3FNUZ:
    case TENSOR_F8_E5M2FNUZ:
        return (layout){1, 0xFF, 0, 0, 0x80};
    case TENSOR_F8_E8M0:
        return (layout){1, 0xFF, 0, 0, 0xFF}; /* 0x00 is 2^-127: see is_zero */
    case TENSOR_F4:
        return (layout){1, 0x77, 0, 0, 0};
    default: /* integers, and blocks whose bytes are all that is known; F6 is not a case of this */
        return (layout){1, 0xFF, 0, 0, 0};
    }
}

/* ---- One piece ------------------------------------------------------------------------------- */

/* A first look at a piece, by words. */
typedef struct glance {
    bool nonzero; /* some word is */
    bool special; /* some word is NaN or Inf */
} glance;

/* Tensors of a file need not be aligned. */
#define GLANCE(name, word, number)                                                                 \
    typedef word name##_word __attribute__((aligned(1), may_alias));                               \
    static glance name(const void *data, int64_t n, const layout *l)                               \
    {                                                                                              \
        const name##_word *x = data;                                                               \
        const word magnitude = (word)l->magnitude, carry = (word)l->carry,                         \
                   sign = (word)((word)1 << (sizeof(word) * 8 - 1));                               \
        word any = 0, carried = 0;                                                                 \
        for (int64_t i = 0; i < n; i++) {                                                          \
            word m = x[i] & magnitude;                                                             \
            any |= m;                                                                              \
            carried |= (word)(m + carry);                                                          \
        }                                                                                          \
        return (glance){any != 0, carry && (carried & sign)};                                      \
    }                                                                                              \
    /* Adds the words whose magnitude is `least`, and those whose is more. */                      \
    static void name##_count(const void *data, int64_t n, const layout *l, uint64_t least,         \
                             int64_t *equal, int64_t *more)                                        \
    {                                                                                              \
        const name##_word *x = data;                                                               \
        const word magnitude = (word)l->magnitude;                                                 \
        const number bound = (number)least;                                                        \
        for (int64_t from = 0; from < n; from += 255) {                                            \
            int64_t end = from + 255 < n ? from + 255 : n;                                         \
            word some_equal = 0, some_more = 0;                                                    \
            for (int64_t i = from; i < end; i++) {                                                 \
                number m = (number)(x[i] & magnitude);                                             \
                some_equal = (word)(some_equal + (m == bound));                                    \
                some_more = (word)(some_more + (m > bound));                                       \
            }                                                                                      \
            *equal += (int64_t)some_equal;                                                         \
            *more += (int64_t)some_more;                                                           \
        }                                                                                          \
    }

GLANCE(glance_8, uint8_t, int8_t)
GLANCE(glance_16, uint16_t, int16_t)
GLANCE(glance_32, uint32_t, int32_t)
GLANCE(glance_64, uint64_t, int64_t)

/* The bytes that are one certain value. */
static int64_t count_bytes(const uint8_t *x, int64_t n, uint8_t wanted)
{
    int64_t count = 0;
    for (int64_t from = 0; from < n; from += 255) {
        uint8_t some = 0;
        int64_t end = from + 255 < n ? from + 255 : n;
        for (int64_t i = from; i < end; i++)
            some = (uint8_t)(some + (x[i] == wanted));
        count += some;
    }
    return count;
}

/* The first of the n words that is NaN, or Inf; there is one. */
static int64_t find_special(const void *data, int64_t n, const layout *l, bool nan)
{
    for (int64_t i = 0; i < n; i++) {
        uint64_t word = 0;
        memcpy(&word, (const char *)data + i * l->bytes, (size_t)l->bytes);
        word &= l->magnitude;
        if (!nan ? word == l->inf : l->nan ? word == l->nan : word > (l->inf ? l->inf : 0x7E))
            return i;
    }
    return 0;
}

/* F6: four elements of 6 bits in three bytes, without their signs. */
static bool is_zero_f6(const uint8_t *x, int64_t bytes)
{
    uint8_t any = 0;
    for (int64_t i = 0; i < bytes; i += 3)
        any |= (x[i] & 0xDF) | (x[i + 1] & 0xF7) | (x[i + 2] & 0x7D);
    return any == 0;
}

/* A byte of BOOL data above 1 has a bit that 1 has not. */
static int64_t count_odd(const uint8_t *x, int64_t n)
{
    uint8_t any = 0;
    int64_t odd = 0;
    for (int64_t i = 0; i < n; i++)
        any |= x[i];
    for (int64_t i = 0; any > 1 && i < n; i++)
        odd += x[i] > 1;
    return odd;
}

static tensor_values look(tensor_type t, const void *data, int64_t bytes)
{
    tensor_values v = {0};
    layout l = layout_of(t);
    int64_t n = bytes / l.bytes;
    if (t == TENSOR_F6_E2M3 || t == TENSOR_F6_E3M2) {
        v.zero = is_zero_f6(data, bytes);
        return v;
    }
    glance g = l.bytes == 1   ? glance_8(data, n, &l)
               : l.bytes == 2 ? glance_16(data, n, &l)
               : l.bytes == 4 ? glance_32(data, n, &l)
                              : glance_64(data, n, &l);
    v.zero = !g.nonzero && t != TENSOR_F8_E8M0; /* whose 0x00 is 2^-127 */
    if (g.special) {
        /* NaN and Inf of a piece that has some. */
        uint64_t least = l.inf ? l.inf : l.magnitude; /* of a nan */
        int64_t equal = 0, more = 0;
        if (l.bytes == 1)
            glance_8_count(data, n, &l, least, &equal, &more);
        else if (l.bytes == 2)
            glance_16_count(data, n, &l, least, &equal, &more);
        else if (l.bytes == 4)
            glance_32_count(data, n, &l, least, &equal, &more);
        else
            glance_64_count(data, n, &l, least, &equal, &more);
        v.infs = l.inf ? equal : 0;
        v.nans = l.inf ? more : equal;
    }
    if (l.nan)
        v.nans = count_bytes(data, n, (uint8_t)l.nan);
    if (t == TENSOR_BOOL)
        v.odd_bools = count_odd(data, n);
    int parts = t == TENSOR_C64 ? 2 : 1;
    v.first_nan = v.nans ? find_special(data, n, &l, true) / parts : 0;
    v.first_inf = v.infs ? find_special(data, n, &l, false) / parts : 0;
    return v;
}

/* ---- All of them ----------------------------------------------------------------------------- */

typedef struct checking {
    const checkpoint *c;
    const int64_t *numbers;
    tensor_values *values;
} checking;

static int check_piece(void *arg, const walk_piece *p, int worker, kv_err *e)
{
    const checking *job = arg;
    tensor_type t = checkpoint_at(job->c, job->numbers[p->tensor])->type;
    tensor_values v = look(t, p->data[0], tensor_type_bytes(t, p->n));
    (void)worker, (void)e;
    v.first_nan += p->first;
    v.first_inf += p->first;
    *(tensor_values *)p->result = v;
    return KV_OK;
}

static void end_tensor(void *arg, int64_t tensor, const void *results, int64_t n)
{
    const checking *job = arg;
    const tensor_values *p = results;
    tensor_values all = {.zero = true};
    for (int64_t i = 0; i < n; i++) {
        all.first_nan = all.nans ? all.first_nan : p[i].first_nan;
        all.first_inf = all.infs ? all.first_inf : p[i].first_inf;
        all.nans += p[i].nans;
        all.infs += p[i].infs;
        all.odd_bools += p[i].odd_bools;
        all.zero &= p[i].zero;
    }
    job->values[tensor] = all;
}

int tensor_check_all(tensor_values *values, checkpoint *c, const int64_t *numbers, int64_t n,
                     void (*progress)(void *arg, int64_t done, int64_t all), void *progress_arg,
                     kv_err *e)
{
    checking job = {c, numbers, values};
    for (int64_t i = 0; i < n; i++)
        values[i] = (tensor_values){0};
    return walk_run(&(walk){.inputs = &c,
                            .ninputs = 1,
                            .at = numbers,
                            .ntensors = n,
                            .piece = check_piece,
                            .arg = &job,
                            .result_bytes = sizeof(tensor_values),
                            .end = end_tensor,
                            .progress = progress,
                            .progress_arg = progress_arg},
                    e);
}
