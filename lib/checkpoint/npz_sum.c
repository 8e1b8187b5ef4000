/* Checksums of members. */
#include "checkpoint/npz_sum.h"

#include "base/mem.h"
#include "checkpoint/inflate.h"

static int64_t pieces_of(const npz_sum *s)
{
    return s->bytes / NPZ_SUM_PIECE + (s->bytes % NPZ_SUM_PIECE != 0);
}

void npz_sum_init(npz_sum *s, uint32_t crc, const void *header, int64_t nheader, int64_t bytes)
{
    *s = (npz_sum){.crc = crc,
                   .header_crc = inflate_crc(0, header, nheader),
                   .header_bytes = nheader,
                   .bytes = bytes};
    atomic_init(&s->left, pieces_of(s));
}

void npz_sum_release(npz_sum *s)
{
    mem_free(atomic_load(&s->many));
}

bool npz_sum_known(npz_sum *s)
{
    return atomic_load(&s->left) == 0;
}

bool npz_sum_right(const npz_sum *s, uint32_t data_crc)
{
    return (inflate_crc_shift(s->header_crc, s->bytes) ^ data_crc) == s->crc;
}

/* The word with the bit of a piece; NULL without memory. */
static atomic_ullong *word_of(npz_sum *s, int64_t piece, kv_err *e)
{
    int64_t n = pieces_of(s);
    atomic_ullong *words = atomic_load(&s->many), *none = NULL;
    if (n <= 64)
        return &s->few;
    if (!words) {
        if (!(words = mem_zalloc(n / 64 + 1, sizeof *words, e)))
            return NULL;
        /* Another thread may have been quicker. */
        if (!atomic_compare_exchange_strong(&s->many, &none, words)) {
            mem_free(words);
            words = none;
        }
    }
    return &words[piece / 64];
}

/* A piece was read whole; `after` bytes of data follow it. */
static int end_piece(npz_sum *s, int64_t piece, uint32_t crc, int64_t after, kv_err *e)
{
    unsigned long long bit = 1ull << (piece % 64);
    atomic_ullong *word = word_of(s, piece, e);
    if (!word)
        return KV_E_MEMORY;
    if (atomic_fetch_or(word, bit) & bit)
        return KV_OK;
    atomic_fetch_xor(&s->added, inflate_crc_shift(crc, after));
    atomic_fetch_sub(&s->left, 1); /* last: from 0 on `added` is complete */
    return KV_OK;
}

int npz_sum_add(npz_sum *s, npz_sum_run *run, int64_t tensor, const void *data, int64_t at,
                int64_t n, bool *right, kv_err *e)
{
    const char *from = data;
    int rc = KV_OK;
    bool known = npz_sum_known(s);
    if (run->tensor != tensor + 1 || run->at != at)
        *run = (npz_sum_run){tensor + 1, at, 0, at % NPZ_SUM_PIECE == 0};
    run->at = at + n;
    while (n > 0 && !known && !rc) {
        int64_t piece = at / NPZ_SUM_PIECE, end = (piece + 1) * NPZ_SUM_PIECE;
        end = end < s->bytes ? end : s->bytes;
        int64_t part = n < end - at ? n : end - at;
        if (run->whole)
            run->crc = inflate_crc(run->crc, from, part);
        at += part;
        from += part;
        n -= part;
        if (at < end)
            break;
        if (run->whole)
            rc = end_piece(s, piece, run->crc, s->bytes - end, e);
        run->crc = 0;
        run->whole = true;
    }
    if (rc)
        run->tensor = 0;
    *right = !npz_sum_known(s) || npz_sum_right(s, atomic_load(&s->added));
    return rc;
}
