/* Loops over streams: cutting, and the inner loops for each width of vector. */
#include "bench_stream.h"

#include <stdlib.h>
#include <string.h>

#include "../measure.h"
#include "base/clock.h"
#include "base/mem.h"
#include "engine/pool.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define HAVE_X86 1
#include <immintrin.h>
#endif

#define PIECE_BYTES (256 * 1024)
#define LINE        16 /* words of a cache line */
#define CHUNK       4 /* lines of each stream that a loop takes in turn: their sums are registers */

typedef struct stream_piece {
    int64_t array, from, words; /* from: in words */
} stream_piece;

/* ---- Cutting ---- */

static int64_t count_pieces(const int64_t *bytes, int64_t narrays)
{
    int64_t n = 0;
    for (int64_t i = 0; i < narrays; i++)
        n += (bytes[i] / 4 * 4 + PIECE_BYTES - 1) / PIECE_BYTES;
    return n;
}

int stream_cut_init(stream_cut *c, const int64_t *bytes, int64_t narrays, kv_err *e)
{
    int64_t npieces = count_pieces(bytes, narrays), n = 0, filled = PIECE_BYTES;
    *c = (stream_cut){0};
    c->pieces = mem_alloc(npieces, sizeof *c->pieces, e);
    c->first = mem_alloc(npieces + 1, sizeof *c->first, e);
    if (!c->pieces || !c->first)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < narrays; i++) {
        int64_t words = bytes[i] / 4, most = PIECE_BYTES / 4;
        for (int64_t from = 0; from < words; from += most) {
            int64_t some = words - from < most ? words - from : most;
            if (filled + some * 4 > PIECE_BYTES) { /* a part begins */
                c->first[c->nparts++] = n;
                filled = 0;
            }
            filled += some * 4;
            c->pieces[n++] = (stream_piece){i, from, some};
        }
    }
    c->first[c->nparts] = n;
    return KV_OK;
}

void stream_cut_release(stream_cut *c)
{
    mem_free(c->pieces);
    mem_free(c->first);
    *c = (stream_cut){0};
}

/* ---- The inner loops ---- */

/* The streams of one piece. */
typedef struct lanes {
    int nread, nboth, nwrite;
    const uint32_t *read[STREAM_MAX];
    uint32_t *both[STREAM_MAX], *write[STREAM_MAX];
} lanes;

typedef uint32_t line_of_words __attribute__((vector_size(64), aligned(4), may_alias));

static void mix_words(const lanes *l, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i++) {
        uint32_t sum = 0;
        for (int s = 0; s < l->nread; s++)
            sum += l->read[s][i];
        for (int s = 0; s < l->nboth; s++)
            l->both[s][i] += sum;
        for (int s = 0; s < l->nwrite; s++)
            l->write[s][i] = sum;
    }
}

#define STORE_PLAIN(at, x) (*(line_of_words *)(at) = (x))

/* The loop over whole chunks, for one width of vector and one kind of store. A piece is long beside
 * the few instructions that a stream costs for 256 bytes. */
#define MIX(name, attribute, STORE)                                                                \
    attribute static int64_t name(const lanes *l, int64_t n)                                       \
    {                                                                                              \
        int64_t i = 0;                                                                             \
        for (; i + CHUNK * LINE <= n; i += CHUNK * LINE) {                                         \
            line_of_words sum[CHUNK] = {{0}};                                                      \
            for (int s = 0; s < l->nread; s++)                                                     \
                for (int k = 0; k < CHUNK; k++)                                                    \
                    sum[k] += *(const line_of_words *)(l->read[s] + i + k * LINE);                 \
            for (int s = 0; s < l->nboth; s++)                                                     \
                for (int k = 0; k < CHUNK; k++) {                                                  \
                    uint32_t *at = l->both[s] + i + k * LINE;                                      \
                    STORE(at, sum[k] + *(const line_of_words *)at);                                \
                }                                                                                  \
            for (int s = 0; s < l->nwrite; s++)                                                    \
                for (int k = 0; k < CHUNK; k++)                                                    \
                    STORE(l->write[s] + i + k * LINE, sum[k]);                                     \
        }                                                                                          \
        return i;                                                                                  \
    }

MIX(plain_any, , STORE_PLAIN)

#ifdef HAVE_X86
#define STORE_512(at, x) _mm512_stream_si512((void *)(at), (__m512i)(x))
#define STORE_256(at, x)                                                                           \
    do {                                                                                           \
        union {                                                                                    \
            line_of_words line;                                                                    \
            __m256i part[2];                                                                       \
        } u = {x};                                                                                 \
        _mm256_stream_si256((__m256i *)(at), u.part[0]);                                           \
        _mm256_stream_si256((__m256i *)(at) + 1, u.part[1]);                                       \
    } while (0)
#define STORE_128(at, x)                                                                           \
    do {                                                                                           \
        union {                                                                                    \
            line_of_words line;                                                                    \
            __m128i part[4];                                                                       \
        } u = {x};                                                                                 \
        for (int part = 0; part < 4; part++)                                                       \
            _mm_stream_si128((__m128i *)(at) + part, u.part[part]);                                \
    } while (0)

MIX(plain_512, __attribute__((target("avx512f"))), STORE_PLAIN)
MIX(plain_256, __attribute__((target("avx2"))), STORE_PLAIN)
MIX(streaming_512, __attribute__((target("avx512f"))), STORE_512)
MIX(streaming_256, __attribute__((target("avx2"))), STORE_256)
MIX(streaming_128, , STORE_128)

/* Streaming stores need whole lines. */
static bool lines_aligned(const lanes *l)
{
    uintptr_t bits = 0;
    for (int s = 0; s < l->nboth; s++)
        bits |= (uintptr_t)l->both[s];
    for (int s = 0; s < l->nwrite; s++)
        bits |= (uintptr_t)l->write[s];
    return bits % 64 == 0;
}
#endif

static void mix(const lanes *l, int64_t n, bool streaming)
{
    int64_t done;
#ifdef HAVE_X86
    bool wide = __builtin_cpu_supports("avx512f"), middle = __builtin_cpu_supports("avx2");
    if (streaming && lines_aligned(l))
        done = wide ? streaming_512(l, n) : middle ? streaming_256(l, n) : streaming_128(l, n);
    else
        done = wide ? plain_512(l, n) : middle ? plain_256(l, n) : plain_any(l, n);
#else
    (void)streaming;
    done = plain_any(l, n);
#endif
    mix_words(l, done, n);
}

/* ---- Running ---- */

typedef struct pass {
    const stream_mix *mix;
    bool streaming;
} pass;

static lanes lanes_of(const stream_mix *m, const stream_piece *p)
{
    lanes l = {.nread = m->nread, .nboth = m->nboth, .nwrite = m->nwrite};
    for (int s = 0; s < m->nread; s++)
        l.read[s] = (const uint32_t *)m->read[s][p->array] + p->from;
    for (int s = 0; s < m->nboth; s++)
        l.both[s] = (uint32_t *)m->both[s][p->array] + p->from;
    for (int s = 0; s < m->nwrite; s++)
        l.write[s] = (uint32_t *)m->write[s][p->array] + p->from;
    return l;
}

static void run_part(void *arg, int64_t part, int worker)
{
    const pass *r = arg;
    const stream_cut *c = r->mix->cut;
    (void)worker;
    for (int64_t i = c->first[part]; i < c->first[part + 1]; i++) {
        lanes l = lanes_of(r->mix, &c->pieces[i]);
        mix(&l, c->pieces[i].words, r->streaming);
    }
#ifdef HAVE_X86
    _mm_sfence();
#endif
}

void stream_run(const stream_mix *m, bool streaming)
{
    pool_run(m->cut->nparts, run_part, &(pass){m, streaming});
}

/* ---- Figures ---- */

double stream_now(void)
{
    return 1e-9 * (double)clock_ns();
}

double stream_median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, by_size);
    return (x[(n - 1) / 2] + x[n / 2]) / 2;
}

double stream_ratio(const double *ours, const double *limit, int n)
{
    double ratio[STREAM_PAIRS];
    for (int i = 0; i < n; i++)
        ratio[i] = limit[i] / ours[i];
    return stream_median(ratio, n);
}
