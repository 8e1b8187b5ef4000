/* Lists of numbers in one pass.
 *
 * Nothing is explained here. What is not a list of numbers is read again by json.c, which knows all
 * of JSON and says what is wrong; so this pass stops at the first byte that it does not expect.
 *
 * Invariant: `depth` lists are open; number d (from 0) has count[d] items so far. shape[d]
 * is the length that every list of depth d has, -1 before one has ended; numbers stand only in
 * lists of depth ndim, -1 before the first.
 */
#include "io/json.h"

#include <string.h>

#include "base/mem.h"
#include "io/scalar.h"

typedef struct lists {
    const char *p, *end;
    int depth, ndim;
    int64_t count[KV_MAX_NDIM], shape[KV_MAX_NDIM];
    kv_dtype dtype;
    bool keep;  /* whole numbers */
    char *data; /* n elements of dtype; room for cap */
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

/* Moves *p past digits; false when there is none. */
static bool skip_digits(const char **p, const char *end)
{
    bool any = is_digit(*p, end);
    while (is_digit(*p, end))
        ++*p;
    return any;
}

size_t json_number_length(const char *text, size_t n)
{
    const char *p = text, *end = text + n;
    p += p < end && *p == '-';
    bool zero = p < end && *p == '0';
    if (!skip_digits(&p, end) || (zero && is_digit(text + (*text == '-') + 1, end)))
        return 0;
    if (p < end && *p == '.' && (p++, !skip_digits(&p, end)))
        return 0;
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        p += p < end && (*p == '-' || *p == '+');
        if (!skip_digits(&p, end))
            return 0;
    }
    return p < end && strchr("+-.eE", *p) ? 0 : (size_t)(p - text);
}

/* The number that is next becomes an element. */
static bool number(lists *l)
{
    const char *text = l->p;
    size_t n = json_number_length(text, (size_t)(l->end - text));
    if (n == 0 || (l->n == l->cap &&
                   mem_grow(&l->data, &l->cap, l->n + 1, (size_t)kv_dtype_bytes(l->dtype), NULL)))
        return false;
    l->p += n;
    int64_t at = l->n++;
    return scalar_parse(l->dtype, l->data, at, text, n) == SCALAR_FITS &&
           (!l->keep || scalar_keeps_integer((float *)l->data + at, text, n));
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

bool json_numbers(kv_array **out, const char *text, size_t n, kv_dtype dtype, bool keep)
{
    bool bom = n >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0;
    lists l = {
        .p = text + (bom ? 3 : 0), .end = text + n, .ndim = -1, .dtype = dtype, .keep = keep};
    for (int i = 0; i < KV_MAX_NDIM; i++)
        l.shape[i] = -1;
    if (read_lists(&l)) {
        mem_shrink(&l.data, &l.cap, l.n, (size_t)kv_dtype_bytes(dtype));
        if (kv_array_wrap(out, l.data, dtype, l.ndim, l.shape, (kv_ctx){0}, mem_free, l.data,
                          NULL) == KV_OK)
            return true;
    }
    mem_free(l.data);
    return false;
}
