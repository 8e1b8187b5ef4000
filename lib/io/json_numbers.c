/* Lists of numbers in one pass.
 *
 * Nothing is explained here. What is no list of numbers is read again by json.c, which knows all of
 * JSON and says what is wrong; so this pass stops at the first byte that it does not expect, and
 * takes no more for a number than cJSON does.
 *
 * Invariant: `depth` lists are open, of which number d (from 0) has count[d] items so far. shape[d]
 * is the length that every list of depth d has, -1 before one has ended; numbers stand only in
 * lists of depth ndim, -1 before the first.
 */
#include "io/json_numbers.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"

typedef struct lists {
    const char *p, *end;
    int depth, ndim;
    int64_t count[KV_MAX_NDIM], shape[KV_MAX_NDIM];
    float *data; /* n elements; room for cap */
    int64_t n, cap;
} lists;

static void skip_blanks(lists *l)
{
    while (l->p < l->end && (*l->p == ' ' || *l->p == '\t' || *l->p == '\n' || *l->p == '\r'))
        l->p++;
}

/* Moves past c if it is next. */
static bool accept(lists *l, char c)
{
    bool is_next = l->p < l->end && *l->p == c;
    l->p += is_next;
    return is_next;
}

static bool is_digit(const char *p, const char *end)
{
    return p < end && *p >= '0' && *p <= '9';
}

/* The number that is next becomes an element: as a double, then as a float, as through cJSON. */
static bool number(lists *l)
{
    double x;
    if (!is_digit(l->p + (l->p < l->end && *l->p == '-'), l->end))
        return false;
    if (l->n == l->cap && mem_grow(&l->data, &l->cap, l->n + 1, sizeof *l->data, NULL))
        return false;
    l->p += num_parse(l->p, (size_t)(l->end - l->p), NUM_BINARY64, &x, NULL);
    l->data[l->n] = (float)x;
    return isfinite(l->data[l->n++]);
}

/* The item that is next, a number or the begin of a list. */
static bool item(lists *l)
{
    bool is_list = accept(l, '[');
    if (l->depth > 0)
        l->count[l->depth - 1]++;
    if (is_list) {
        if (l->depth == KV_MAX_NDIM || l->depth == l->ndim)
            return false;
        l->count[l->depth++] = 0;
        return true;
    }
    if (l->ndim < 0)
        l->ndim = l->depth;
    return l->depth == l->ndim && l->depth > 0 && number(l);
}

/* A list has ended. */
static bool end_list(lists *l)
{
    int64_t *shape = &l->shape[--l->depth], count = l->count[l->depth];
    if (*shape < 0)
        *shape = count;
    return *shape == count;
}

/* All of the text. Between items stands a comma, behind the last one of a list its end. */
static bool read_lists(lists *l)
{
    do {
        skip_blanks(l);
        int depth = l->depth;
        if (!item(l))
            return false;
        if (l->depth > depth)
            continue; /* the first item of a list needs no comma */
        skip_blanks(l);
        while (accept(l, ']')) {
            if (!end_list(l))
                return false;
            skip_blanks(l);
            if (l->depth == 0)
                return l->p == l->end;
        }
        if (!accept(l, ','))
            return false;
    } while (l->p < l->end);
    return false;
}

bool json_numbers(kv_array **out, const char *text, size_t n)
{
    bool bom = n >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0;
    lists l = {.p = text + (bom ? 3 : 0), .end = text + n, .ndim = -1};
    for (int i = 0; i < KV_MAX_NDIM; i++)
        l.shape[i] = -1;
    if (read_lists(&l)) {
        mem_shrink(&l.data, &l.cap, l.n, sizeof *l.data);
        if (kv_array_wrap(out, l.data, KV_FLOAT32, l.ndim, l.shape, (kv_ctx){0}, mem_free, l.data,
                          NULL) == KV_OK)
            return true;
    }
    mem_free(l.data);
    return false;
}
