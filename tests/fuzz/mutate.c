/* Mutators that several targets share: they change a part of a file that a length covers, and
 * correct the length. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

void fuzz_change(buf *b, size_t from, size_t n)
{
    enum { MORE = 256 };
    uint8_t *part = malloc(n + MORE);
    buf all = {0};
    HOLDS(part != NULL && from + n <= b->len, "room for a part");
    if (n > 0)
        memcpy(part, b->data + from, n);
    size_t now = LLVMFuzzerMutate(part, n, n + MORE);
    buf_put(&all, buf_text(b), from);
    buf_put(&all, (const char *)part, now);
    buf_put(&all, buf_text(b) + from + n, b->len - from - n);
    buf_release(b);
    *b = all;
    free(part);
}

size_t fuzz_give(uint8_t *data, size_t max, buf *b)
{
    size_t n = b->len < max ? b->len : max;
    memcpy(data, buf_text(b), n);
    buf_release(b);
    return n;
}

/* Bytes of an npy file before the header in versions 1 and 2, and where its length stands. */
enum { BEFORE = 10, BEFORE_2 = 12, LENGTH_AT = 8 };

void fuzz_change_npy(buf *b, unsigned *seed)
{
    size_t before = b->len > 6 && b->data[6] > 1 ? BEFORE_2 : BEFORE, n = b->len;
    const char *end = n > before ? memchr(b->data + before, '\n', n - before) : NULL;
    if (!end || fuzz_next(seed, 4) == 0) {
        fuzz_change(b, 0, n);
        return;
    }
    size_t header = (size_t)(end + 1 - b->data) - before;
    fuzz_change(b, before, header);
    header += b->len - n;
    for (size_t i = LENGTH_AT; i < before; i++)
        b->data[i] = (char)(header >> 8 * (i - LENGTH_AT));
}

size_t fuzz_mutate_header(uint8_t *data, size_t n, size_t max, unsigned seed)
{
    uint64_t header;
    buf b = {0};
    if (n < sizeof header || fuzz_next(&seed, 4) == 0)
        return LLVMFuzzerMutate(data, n, max);
    memcpy(&header, data, sizeof header);
    if (header > n - sizeof header)
        header = n - sizeof header;
    buf_put(&b, (const char *)data, n);
    fuzz_change(&b, sizeof header, header);
    header += b.len - n;
    memcpy(b.data, &header, sizeof header);
    return fuzz_give(data, max, &b);
}
