/* The only file that knows zlib. */
#include "checkpoint/inflate.h"

#include <errno.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif
#include <stdbool.h>
#include <zlib.h>

#include "base/file.h"
#include "base/mem.h"

/* Compressed bytes read at a time: little first, since opening wants a header only. */
#define FIRST_BYTES ((int64_t)2 << 10)
#define MOST_BYTES  ((int64_t)128 << 10)

struct inflate_stream {
    z_stream z;
    const input *in;
    const char *name;
    int64_t at, left; /* compressed bytes that were not read yet */
    int64_t step;     /* read at a time */
    bool ended;
    unsigned char piece[MOST_BYTES];
};

/* arg: the kv_err of the call. */
static void *z_alloc(void *arg, unsigned n, unsigned size)
{
    return mem_alloc(n, size, arg);
}

static void z_free(void *arg, void *block)
{
    (void)arg;
    mem_free(block);
}

int inflate_new(inflate_stream **out, kv_err *e)
{
    inflate_stream *s = mem_alloc(1, sizeof *s, e);
    if (!s)
        return KV_E_MEMORY;
    s->z = (z_stream){.zalloc = z_alloc, .zfree = z_free, .opaque = e};
    /* Negative: no header of zlib's own before the data. */
    if (inflateInit2(&s->z, -MAX_WBITS) != Z_OK) {
        mem_free(s);
        return KV_E_MEMORY;
    }
    *out = s;
    return KV_OK;
}

void inflate_free(inflate_stream *s)
{
    if (!s)
        return;
    inflateEnd(&s->z);
    mem_free(s);
}

void inflate_begin(inflate_stream *s, const input *in, int64_t at, int64_t n, const char *name)
{
    inflateReset(&s->z);
    s->z.avail_in = 0;
    s->in = in;
    s->name = name;
    s->at = at;
    s->left = n;
    s->step = FIRST_BYTES;
    s->ended = false;
}

static int refill(inflate_stream *s, kv_err *e)
{
    int64_t n = s->left < s->step ? s->left : s->step;
    int rc = input_read(s->in, s->piece, s->at, n, e);
    s->z.next_in = s->piece;
    s->z.avail_in = rc ? 0 : (unsigned)n;
    s->at += n;
    s->left -= n;
    s->step = s->step * 4 < MOST_BYTES ? s->step * 4 : MOST_BYTES;
    return rc;
}

/* Inflates what one call can; the end of the data sets ended. */
static int step(inflate_stream *s, kv_err *e)
{
    int rc = s->z.avail_in || !s->left ? KV_OK : refill(s, e);
    if (rc)
        return rc;
    s->z.opaque = e;
    switch (inflate(&s->z, Z_NO_FLUSH)) {
    case Z_STREAM_END:
        s->ended = true;
        return s->z.avail_in || s->left
                   ? file_bad(e, KV_E_FORMAT, s->name, "%lld bytes behind its compressed data",
                              (long long)(s->left + s->z.avail_in))
                   : KV_OK;
    case Z_OK:
        return KV_OK;
    case Z_BUF_ERROR:
        return s->left ? KV_OK
                       : file_bad(e, KV_E_FORMAT, s->name, "cut within its compressed data");
    case Z_MEM_ERROR:
        return KV_E_MEMORY;
    }
    return file_bad(e, KV_E_FORMAT, s->name, "damaged: its compressed data cannot be inflated");
}

int inflate_read(inflate_stream *s, void *to, int64_t n, int64_t *got, kv_err *e)
{
    int rc = KV_OK;
    int64_t most = (int64_t)1 << 30; /* zlib counts in unsigned */
    *got = 0;
    while (!rc && *got < n && !s->ended) {
        unsigned room = (unsigned)(n - *got < most ? n - *got : most);
        s->z.next_out = (unsigned char *)to + *got;
        s->z.avail_out = room;
        rc = step(s, e);
        *got += room - s->z.avail_out;
    }
    return rc;
}

/* ---- CRC-32 ---------------------------------------------------------------------------------- */

#ifdef __x86_64__
/* Long texts are folded by the carry-less multiplication of x86-64, some times as quick as zlib's
 * tables. A text is a polynomial over the bits, and its CRC-32 the rest of a division by P =
 * 0x104C11DB7. A part that k bits follow can be replaced by its product with x^k mod P, added to
 * what stands there: the rest of the division stays. So four registers of 128 bits go through the
 * text, each replaced by an addition to the next four, until one is left. In CRC-32 the bits of a
 * byte are in the other order, hence the constants: x^(k + 32) and x^(k - 32) mod P for the two
 * halves of a register, with their 33 bits reversed. Source: V. Gopal and others, Fast CRC
 * Computation for Generic Polynomials Using PCLMULQDQ Instruction, Intel 2009. */
#define FOLD_LEAST 64 /* bytes */
#define WITH_PCLMUL __attribute__((target("pclmul,sse2")))

static inline __m128i load(const char *data)
{
    return _mm_loadu_si128((const __m128i *)data);
}

/* Replaces x, by the two constants of a distance, in a text that has `next` there. */
WITH_PCLMUL static inline __m128i fold(__m128i x, __m128i constants, __m128i next)
{
    __m128i low = _mm_clmulepi64_si128(x, constants, 0x00);
    __m128i high = _mm_clmulepi64_si128(x, constants, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

/* Makes 16 bytes of n, a multiple of 16 and FOLD_LEAST at least, that follow bytes whose CRC-32 is
 * crc: their CRC-32 behind bytes whose CRC-32 is 0xFFFFFFFF is that of all. */
WITH_PCLMUL static void crc_fold(unsigned char out[16], uint32_t crc, const void *data, int64_t n)
{
    const __m128i by_512 = _mm_set_epi64x(0x1C6E41596, 0x154442BD4);
    const __m128i by_128 = _mm_set_epi64x(0x0CCAA009E, 0x1751997D0);
    const char *at = data, *end = at + n;
    __m128i x[4];
    for (int i = 0; i < 4; i++)
        x[i] = load(at + 16 * i);
    /* The CRC so far is added to the first bits. */
    x[0] = _mm_xor_si128(x[0], _mm_cvtsi32_si128((int)~crc));
    for (at += 64; end - at >= 64; at += 64) {
        for (int i = 0; i < 4; i++)
            x[i] = fold(x[i], by_512, load(at + 16 * i));
    }
    for (int i = 1; i < 4; i++)
        x[i] = fold(x[i - 1], by_128, x[i]);
    for (; at < end; at += 16)
        x[3] = fold(x[3], by_128, load(at));
    _mm_storeu_si128((__m128i *)out, x[3]);
}
#endif

uint32_t inflate_crc(uint32_t crc, const void *data, int64_t n)
{
    const unsigned char *from = data;
#ifdef __x86_64__
    if (n >= FOLD_LEAST && __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse2")) {
        unsigned char folded[16];
        int64_t most = n - n % 16;
        crc_fold(folded, crc, from, most);
        crc = (uint32_t)crc32_z(UINT32_MAX, folded, sizeof folded);
        from += most;
        n -= most;
    }
#endif
    return n ? (uint32_t)crc32_z(crc, from, (size_t)n) : crc;
}

uint32_t inflate_crc_shift(uint32_t crc, int64_t after)
{
    return (uint32_t)crc32_combine(crc, 0, after);
}

/* ---- Files compressed by gzip ---------------------------------------------------------------- */

struct gunzip {
    z_stream z;
    bool begun, damaged; /* a member has begun, and not ended */
    unsigned char piece[MOST_BYTES];
};

int gunzip_new(gunzip **out, kv_err *e)
{
    gunzip *g = mem_zalloc(1, sizeof *g, e);
    if (!g)
        return KV_E_MEMORY;
    g->z = (z_stream){.zalloc = z_alloc, .zfree = z_free};
    *out = g;
    if (inflateInit2(&g->z, 16 + MAX_WBITS) == Z_OK) /* 16: with the header of gzip */
        return KV_OK;
    mem_free(g);
    *out = NULL;
    return kv_err_set(e, KV_E_MEMORY, "out of memory");
}

void gunzip_free(gunzip *g)
{
    if (g)
        inflateEnd(&g->z);
    mem_free(g);
}

/* A file may be several members, one behind the other. */
ssize_t gunzip_read(gunzip *g, char *to, size_t n, ssize_t (*read)(void *arg, char *to, size_t n),
                    void *arg)
{
    n = n < MOST_BYTES ? n : MOST_BYTES;
    g->z.next_out = (unsigned char *)to;
    g->z.avail_out = (unsigned)n;
    while (g->z.avail_out == n && n > 0 && !g->damaged) {
        if (g->z.avail_in == 0) {
            ssize_t got = read(arg, (char *)g->piece, sizeof g->piece);
            if (got < 0 || (got == 0 && !g->begun))
                return got;
            g->damaged = got == 0;
            g->z.next_in = g->piece;
            g->z.avail_in = (unsigned)got;
        }
        int result = inflate(&g->z, Z_NO_FLUSH);
        g->begun = result != Z_STREAM_END;
        if (result == Z_STREAM_END)
            result = inflateReset(&g->z);
        g->damaged |= result != Z_OK && result != Z_BUF_ERROR;
    }
    size_t made = n - g->z.avail_out;
    if (made == 0 && g->damaged)
        errno = EBADMSG;
    return made == 0 && g->damaged ? -1 : (ssize_t)made;
}

bool gunzip_damaged(const gunzip *g)
{
    return g->damaged;
}
