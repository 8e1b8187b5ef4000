/* Selection among terms that pass by. The loops over a chunk exist for float32, whose keys have 32
 * bits, and for float64. */
#include "merge/merge_select.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/mem.h"
#include "engine/pool.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { BIN_BITS = 12, BINS = 1 << BIN_BITS };

/* The terms of one chunk in the range of a sweep, by which PLAN_LEAST finds the chunk where terms
 * that equal the result stop being among the largest. Counts of at most MERGE_CHUNK. */
typedef struct chunk_counts {
    int64_t at;         /* where its kept keys begin */
    uint16_t kept;      /* between the ends of the range */
    uint16_t low, high; /* that equal an end */
} chunk_counts;

struct merge_select {
    plan_fold fold;
    bool wide;
    int64_t n, nchunks, order;
    int64_t room;  /* terms that may be kept */
    int64_t place; /* of the term in sorted order, from the smallest */

    /* The range of a sweep: keys from low to high. Those that equal an end are counted, those
     * between are kept, or all of them counted in bins of 2^shift keys. */
    uint64_t low, high;
    int64_t expected; /* between them; -1: unknown */
    bool in_bins;
    int shift;
    uint64_t *bins; /* BINS of each worker */
    void *kept;     /* keys, room for cap of them */
    int64_t cap;
    chunk_counts *of_chunk; /* of PLAN_LEAST, by chunk */

    /* Terms that the sweep has counted: below the range, equal to its ends, kept, nan. */
    _Atomic(int64_t) nbelow, nlow, nhigh, nkept, nnans;

    /* The result. */
    uint64_t key;
    int64_t cut_chunk; /* of PLAN_LEAST: the chunk with the last term that is among the largest, */
    int64_t cut_equal; /* and how many of its terms equal the result and are among them */
};

static uint64_t most_key(const merge_select *s)
{
    return s->wide ? UINT64_MAX : UINT32_MAX;
}

/* ---- Loops ----------------------------------------------------------------------------------- */

/* A scan of a chunk for keys in a range: the range, then the counts. */
typedef struct range_scan {
    uint64_t low, high;   /* keys below low, equal to low and equal to high are counted */
    uint64_t first, span; /* keys from first to first + span are inside: they are kept */
    bool any;             /* the range has an inside */
    int64_t below, nlow, nhigh, nnans;
} range_scan;

#define LOOPS(suffix, F, U, S, BITS)                                                               \
    /* The key of each term, and whether it is inside. */                                          \
    CPU_CLONES static void scan_##suffix(range_scan *r, U *restrict key, uint8_t *restrict inside, \
                                         const F *restrict x, int64_t n)                           \
    {                                                                                              \
        U low = (U)r->low, high = (U)r->high, first = (U)r->first, span = (U)r->span;              \
        U below = 0, nlow = 0, nhigh = 0, nnans = 0;                                               \
        for (int64_t i = 0; i < n; i++) {                                                          \
            F y = x[i] + 0; /* no -0 */                                                            \
            U u;                                                                                   \
            memcpy(&u, &y, sizeof u);                                                              \
            u ^= (U)((S)u >> (BITS - 1)) | (U)1 << (BITS - 1);                                     \
            u = y != y ? (U)-1 : u;                                                                \
            key[i] = u;                                                                            \
            below += u < low;                                                                      \
            nlow += u == low;                                                                      \
            nhigh += u == high;                                                                    \
            nnans += u == (U)-1;                                                                   \
        }                                                                                          \
        for (int64_t i = 0; i < n; i++)                                                            \
            inside[i] = (U)(key[i] - first) <= span;                                               \
        r->below = (int64_t)below;                                                                 \
        r->nlow = (int64_t)nlow;                                                                   \
        r->nhigh = (int64_t)nhigh;                                                                 \
        r->nnans = (int64_t)nnans;                                                                 \
    }                                                                                              \
                                                                                                   \
    /* Moves the keys inside to the front; few are, so eight are looked at together. */            \
    static int64_t keep_##suffix(U *key, const uint8_t *inside, int64_t n)                         \
    {                                                                                              \
        int64_t kept = 0;                                                                          \
        for (int64_t i = 0; i < n; i += 8) {                                                       \
            uint64_t eight;                                                                        \
            memcpy(&eight, inside + i, sizeof eight);                                              \
            for (; eight; eight &= eight - 1)                                                      \
                key[kept++] = key[i + __builtin_ctzll(eight) / 8];                                 \
        }                                                                                          \
        return kept;                                                                               \
    }                                                                                              \
                                                                                                   \
    static void count_##suffix(uint64_t *bins, const U *key, int64_t n, uint64_t low, int shift)   \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++)                                                            \
            bins[(key[i] - low) >> shift]++;                                                       \
    }                                                                                              \
                                                                                                   \
    static int64_t equal_##suffix(const U *key, int64_t n, uint64_t to)                            \
    {                                                                                              \
        int64_t equal = 0;                                                                         \
        for (int64_t i = 0; i < n; i++)                                                            \
            equal += key[i] == to;                                                                 \
        return equal;                                                                              \
    }                                                                                              \
                                                                                                   \
    /* The key at a place of the sorted ones from least to most, among n. *before: how many of     \
     * them are smaller. Each round looks at the keys of one bin of the last. */                   \
    static uint64_t pick_##suffix(const U *key, int64_t n, int64_t place, uint64_t least,          \
                                  uint64_t most, int64_t *before)                                  \
    {                                                                                              \
        U low = (U)least, high = (U)most;                                                          \
        int64_t under = 0;                                                                         \
        while (low < high) {                                                                       \
            uint32_t bins[BINS] = {0};                                                             \
            int shift = shift_of(high - low), bin = 0;                                             \
            for (int64_t i = 0; i < n; i++)                                                        \
                if ((U)(key[i] - low) <= (U)(high - low))                                          \
                    bins[(U)(key[i] - low) >> shift]++;                                            \
            while (under + bins[bin] <= place)                                                     \
                under += bins[bin++];                                                              \
            low += (U)bin << shift;                                                                \
            U last = low + (((U)1 << shift) - 1);                                                  \
            high = last < high ? last : high;                                                      \
        }                                                                                          \
        *before = under;                                                                           \
        return low;                                                                                \
    }

/* The shift that makes bin numbers of keys which differ by up to span. */
static int shift_of(uint64_t span)
{
    int bits = span ? 64 - __builtin_clzll(span) : 0;
    return bits > BIN_BITS ? bits - BIN_BITS : 0;
}

/* cppcheck-suppress shiftTooManyBitsSigned ; the sign is spread on purpose */
LOOPS(f32, float, uint32_t, int32_t, 32)
/* cppcheck-suppress shiftTooManyBitsSigned ; and here */
LOOPS(f64, double, uint64_t, int64_t, 64)

static uint64_t pick(const merge_select *s, const void *keys, int64_t n, int64_t place,
                     uint64_t least, uint64_t most, int64_t *before)
{
    return s->wide ? pick_f64(keys, n, place, least, most, before)
                   : pick_f32(keys, n, place, least, most, before);
}

static int64_t count_equal(const merge_select *s, const void *keys, int64_t from, int64_t n)
{
    return s->wide ? equal_f64((const uint64_t *)keys + from, n, s->key)
                   : equal_f32((const uint32_t *)keys + from, n, s->key);
}

/* Keys of float32: of -inf, 0 and inf. */
#define KEY_LEAST    0x007fffffu
#define KEY_ZERO     0x80000000u
#define KEY_INFINITY 0xff800000u

static float number_of(uint32_t key)
{
    float x;
    uint32_t u = key ^ (key >> 31 ? KEY_ZERO : UINT32_MAX);
    memcpy(&x, &u, sizeof x);
    return x;
}

typedef int64_t scan_fn(range_scan *r, uint32_t *key, const float *x, int64_t n);

#if defined(__x86_64__)
static uint32_t key_of(float x)
{
    uint32_t u;
    float y = x + 0; /* no -0 */
    memcpy(&u, &y, sizeof u);
    return y != y ? UINT32_MAX : u ^ (u >> 31 ? UINT32_MAX : KEY_ZERO);
}

/* scan_f32 and keep_f32 in one: the keys inside leave the vector as they are made. */
__attribute__((target("avx512f,popcnt"))) static int64_t scan_512(range_scan *r, uint32_t *key,
                                                                  const float *x, int64_t n)
{
    __m512i low = _mm512_set1_epi32((int)r->low), high = _mm512_set1_epi32((int)r->high);
    __m512i first = _mm512_set1_epi32((int)r->first), span = _mm512_set1_epi32((int)r->span);
    __m512i sign = _mm512_set1_epi32(INT32_MIN), all = _mm512_set1_epi32(-1);
    __m512i below = _mm512_setzero_si512(), nlow = below, nhigh = below, nnans = below;
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i += 16) {
        __mmask16 here = n - i < 16 ? (__mmask16)((1u << (n - i)) - 1) : (__mmask16)-1;
        __m512 y = _mm512_add_ps(_mm512_maskz_loadu_ps(here, x + i), _mm512_setzero_ps());
        __m512i u = _mm512_castps_si512(y);
        u ^= _mm512_srai_epi32(u, 31) | sign;
        u = _mm512_mask_mov_epi32(u, _mm512_cmp_ps_mask(y, y, _CMP_UNORD_Q), all);
        below =
            _mm512_mask_sub_epi32(below, _mm512_mask_cmplt_epu32_mask(here, u, low), below, all);
        nlow = _mm512_mask_sub_epi32(nlow, _mm512_mask_cmpeq_epu32_mask(here, u, low), nlow, all);
        nhigh =
            _mm512_mask_sub_epi32(nhigh, _mm512_mask_cmpeq_epu32_mask(here, u, high), nhigh, all);
        nnans =
            _mm512_mask_sub_epi32(nnans, _mm512_mask_cmpeq_epu32_mask(here, u, all), nnans, all);
        __mmask16 in = _mm512_mask_cmple_epu32_mask(here, _mm512_sub_epi32(u, first), span);
        _mm512_storeu_si512(key + kept, _mm512_maskz_compress_epi32(in, u));
        kept += __builtin_popcount(in);
    }
    r->below = _mm512_reduce_add_epi32(below);
    r->nlow = _mm512_reduce_add_epi32(nlow);
    r->nhigh = _mm512_reduce_add_epi32(nhigh);
    r->nnans = _mm512_reduce_add_epi32(nnans);
    return r->any ? kept : 0;
}

__attribute__((target("avx2"))) static int64_t sum_of(__m256i lanes)
{
    int32_t lane[8];
    int64_t sum = 0;
    _mm256_storeu_si256((void *)lane, lanes);
    for (int l = 0; l < 8; l++)
        sum += lane[l];
    return sum;
}

/* Makes keys of the marked ones of n terms. Few are, so 64 are looked at together. */
static int64_t keep_marked(uint32_t *key, const float *x, const uint8_t *marks, int64_t n)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i += 64) {
        uint64_t left;
        memcpy(&left, marks + i / 8, sizeof left);
        for (; left; left &= left - 1)
            key[kept++] = key_of(x[i + __builtin_ctzll(left)]);
    }
    return kept;
}

/* Returns true if numbers compare with that of a key as their keys do: it is not nan, nor -0, which
 * equals 0. */
static bool is_comparable(uint64_t key)
{
    return key >= KEY_LEAST && key <= KEY_INFINITY && key != KEY_ZERO - 1;
}

/* The same for ranges without their ends and n a multiple of 32, comparing terms and not keys, so
 * that keys are only made of what is kept. Returns -1 if a term may be nan. */
__attribute__((target("avx2"))) static int64_t compare_256(range_scan *r, uint32_t *key,
                                                           const float *x, int64_t n)
{
    __m256 low = _mm256_set1_ps(number_of((uint32_t)r->low)), sum = _mm256_setzero_ps();
    __m256 high = _mm256_set1_ps(number_of((uint32_t)r->high));
    __m256i from = _mm256_setzero_si256(), over = from, nhigh = from;
    uint8_t inside[MERGE_CHUNK / 8 + 8] = {0};
    for (int64_t i = 0; i < n; i += 32) {
        __m256i in[4];
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
            __m256 y = _mm256_loadu_ps(x + i + 8 * k);
            __m256i above = _mm256_castps_si256(_mm256_cmp_ps(y, low, _CMP_GT_OQ));
            __m256i end = _mm256_castps_si256(_mm256_cmp_ps(y, high, _CMP_GE_OQ));
            __m256i equal = _mm256_castps_si256(_mm256_cmp_ps(y, high, _CMP_EQ_OQ));
            from = _mm256_sub_epi32(from, _mm256_castps_si256(_mm256_cmp_ps(y, low, _CMP_GE_OQ)));
            over = _mm256_sub_epi32(over, above);
            nhigh = _mm256_sub_epi32(nhigh, equal);
            in[k] = _mm256_andnot_si256(end, above);
            sum = _mm256_add_ps(sum, y);
        }
        /* packing takes four lanes of each at a time */
        __m256i words =
            _mm256_packs_epi16(_mm256_packs_epi32(in[0], in[1]), _mm256_packs_epi32(in[2], in[3]));
        words = _mm256_permutevar8x32_epi32(words, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
        int marks = _mm256_movemask_epi8(words);
        memcpy(inside + i / 8, &marks, sizeof marks);
    }
    if (_mm256_movemask_ps(_mm256_cmp_ps(sum, sum, _CMP_UNORD_Q)))
        return -1;
    r->below = n - sum_of(from);
    r->nlow = sum_of(from) - sum_of(over);
    r->nhigh = sum_of(nhigh);
    r->nnans = 0;
    return r->any ? keep_marked(key, x, inside, n) : 0;
}

/* The same for whole vectors. AVX2 compares signed numbers: the first bit of a key is turned. */
__attribute__((target("avx2"))) static int64_t scan_256(range_scan *r, uint32_t *key,
                                                        const float *x, int64_t n)
{
    const __m256i sign = _mm256_set1_epi32(INT32_MIN), most = _mm256_set1_epi32(INT32_MAX);
    __m256i low = sign ^ _mm256_set1_epi32((int)r->low);
    __m256i high = sign ^ _mm256_set1_epi32((int)r->high);
    __m256i first = sign ^ _mm256_set1_epi32((int)r->first);
    __m256i last = sign ^ _mm256_set1_epi32((int)(r->first + r->span));
    __m256i below = _mm256_setzero_si256(), nlow = below, nhigh = below, nnans = below;
    uint8_t inside[MERGE_CHUNK / 8 + 8] = {0};
    bool comparable =
        n % 32 == 0 && r->first > r->low && is_comparable(r->low) && is_comparable(r->high);
    int64_t compared = comparable ? compare_256(r, key, x, n) : -1;
    if (compared >= 0)
        return compared;
    for (int64_t i = 0; i < n; i += 8) {
        __m256 y = _mm256_add_ps(_mm256_loadu_ps(x + i), _mm256_setzero_ps());
        __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(y, y, _CMP_UNORD_Q));
        __m256i u = _mm256_castps_si256(y);
        u ^= _mm256_srai_epi32(u, 31) & most;
        u = _mm256_blendv_epi8(u, most, nan);
        below = _mm256_sub_epi32(below, _mm256_cmpgt_epi32(low, u));
        nlow = _mm256_sub_epi32(nlow, _mm256_cmpeq_epi32(u, low));
        nhigh = _mm256_sub_epi32(nhigh, _mm256_cmpeq_epi32(u, high));
        nnans = _mm256_sub_epi32(nnans, nan);
        __m256i outside = _mm256_cmpgt_epi32(first, u) | _mm256_cmpgt_epi32(u, last);
        inside[i / 8] = (uint8_t)~_mm256_movemask_ps(_mm256_castsi256_ps(outside));
    }
    r->below = sum_of(below);
    r->nlow = sum_of(nlow);
    r->nhigh = sum_of(nhigh);
    r->nnans = sum_of(nnans);
    return r->any ? keep_marked(key, x, inside, n) : 0;
}

/* The one of both that serves n terms; NULL: neither. */
static scan_fn *scan_vectors(int64_t n)
{
    if (__builtin_cpu_supports("avx512f"))
        return scan_512;
    return n % 8 == 0 && __builtin_cpu_supports("avx2") ? scan_256 : NULL;
}
#else
static scan_fn *scan_vectors(int64_t n)
{
    (void)n;
    return NULL;
}
#endif

/* A chunk's terms become keys. */
typedef union chunk_keys {
    uint32_t u32[MERGE_CHUNK + 16]; /* a vector is stored whole */
    uint64_t u64[MERGE_CHUNK];
} chunk_keys;

/* Makes keys of the terms of a chunk, counts them, and moves the keys inside to the front. Returns
 * their number. */
static int64_t scan_chunk(const merge_select *s, range_scan *r, chunk_keys *keys, const void *terms,
                          int64_t n)
{
    uint8_t inside[MERGE_CHUNK + 8];
    scan_fn *scan = s->wide ? NULL : scan_vectors(n);
    if (scan)
        return scan(r, keys->u32, terms, n);
    if (s->wide)
        scan_f64(r, keys->u64, inside, terms, n);
    else
        scan_f32(r, keys->u32, inside, terms, n);
    if (!r->any)
        return 0;
    memset(inside + n, 0, 8);
    return s->wide ? keep_f64(keys->u64, inside, n) : keep_f32(keys->u32, inside, n);
}

/* ---- Making ---------------------------------------------------------------------------------- */

int merge_select_new(merge_select **out, plan_fold fold, int64_t order, bool wide, int64_t n,
                     int64_t nchunks, kv_err *e)
{
    merge_select *s = mem_zalloc(1, sizeof *s, e);
    if (!s)
        return KV_E_MEMORY;
    *s = (merge_select){.fold = fold,
                        .order = order,
                        .wide = wide,
                        .n = n,
                        .nchunks = nchunks,
                        .room = MERGE_SELECT_KEEPS,
                        .place = fold == PLAN_LEAST ? n - order : order,
                        .expected = n,
                        .cut_chunk = nchunks};
    s->high = most_key(s);
    *out = s;
    return KV_OK;
}

void merge_select_room(merge_select *s, int64_t room)
{
    s->room = room;
}

static void release_sweep(merge_select *s)
{
    mem_free(s->bins);
    mem_free(s->kept);
    mem_free(s->of_chunk);
    s->bins = NULL;
    s->kept = NULL;
    s->of_chunk = NULL;
}

void merge_select_free(merge_select *s)
{
    if (!s)
        return;
    release_sweep(s);
    mem_free(s);
}

/* ---- Samples --------------------------------------------------------------------------------- */

/* Of so few terms all are kept. */
enum { SAMPLE_FROM = 1 << 12, SAMPLE_LEAST = 1 << 8, SAMPLE_MOST = 1 << 16 };

int64_t merge_select_sample_size(const merge_select *s)
{
    int64_t n = SAMPLE_LEAST;
    if (s->n <= SAMPLE_FROM)
        return 0;
    /* A sample of m terms leaves about n / sqrt(m) to be kept. Both are sorted least in all where m
     * is n to the power of 2/3. */
    while (n < SAMPLE_MOST && 8 * n * n * n / s->n <= s->n)
        n *= 2;
    return n;
}

/* Sampled places differ from the true ones by a few deviations of a binomial distribution, more so
 * where neighbours are alike. */
#define DEVIATIONS 5

void merge_select_sample(merge_select *s, void *terms, int64_t n)
{
    range_scan r = {.span = most_key(s), .any = true};
    chunk_keys keys;
    int64_t bytes = s->wide ? 8 : 4, before = 0;
    for (int64_t i = 0; i < n; i += MERGE_CHUNK) {
        int64_t k = n - i < MERGE_CHUNK ? n - i : MERGE_CHUNK;
        scan_chunk(s, &r, &keys, (char *)terms + i * bytes, k);
        memcpy((char *)terms + i * bytes, &keys, (size_t)(k * bytes));
    }
    double share = ((double)s->place + 0.5) / (double)s->n, at = share * (double)n;
    double width = DEVIATIONS * sqrt(share * (1 - share) * (double)n) + 2;
    int64_t from = (int64_t)floor(at - width), to = (int64_t)ceil(at + width);
    uint64_t most = most_key(s);
    s->low = from < 0 ? 0 : pick(s, terms, n, from, 0, most, &before);
    s->high = to >= n ? most : pick(s, terms, n, to - before, s->low, most, &before);
    from = from < 0 ? 0 : from;
    to = to >= n ? n : to;
    s->expected = (int64_t)((double)(to - from) / (double)n * (double)s->n);
}

/* ---- Sweeps ---------------------------------------------------------------------------------- */

int merge_select_begin(merge_select *s, kv_err *e)
{
    bool most = s->expected == s->n;
    s->cap = s->low == s->high ? 0 : most ? s->n : s->expected + s->expected / 2 + MERGE_CHUNK;
    s->in_bins = s->low < s->high && (s->expected < 0 || s->cap > s->room);
    s->nbelow = s->nlow = s->nhigh = s->nkept = s->nnans = 0;
    release_sweep(s);
    if (s->in_bins) {
        s->shift = shift_of(s->high - s->low);
        s->bins = mem_zalloc(BINS * pool_workers(), sizeof *s->bins, e);
        return s->bins ? KV_OK : KV_E_MEMORY;
    }
    if (!(s->kept = mem_alloc(s->cap, s->wide ? 8 : 4, e)))
        return KV_E_MEMORY;
    if (s->fold == PLAN_LEAST && !(s->of_chunk = mem_alloc(s->nchunks, sizeof *s->of_chunk, e)))
        return KV_E_MEMORY;
    return KV_OK;
}

void merge_select_chunk(merge_select *s, int64_t chunk, int worker, const void *terms, int64_t n)
{
    chunk_keys keys;
    range_scan r = {
        .low = s->low, .high = s->high, .first = s->low, .span = s->high - s->low, .any = true};
    if (!s->in_bins) { /* without the ends */
        r.first = s->low + 1;
        r.any = r.span > 1;
        r.span = r.any ? r.span - 2 : 0;
    }
    int64_t inside = scan_chunk(s, &r, &keys, terms, n);
    atomic_fetch_add(&s->nbelow, r.below);
    atomic_fetch_add(&s->nlow, r.nlow);
    atomic_fetch_add(&s->nhigh, r.nhigh);
    atomic_fetch_add(&s->nnans, r.nnans);
    if (s->in_bins) {
        uint64_t *bins = s->bins + (int64_t)worker * BINS;
        if (s->wide)
            count_f64(bins, keys.u64, inside, s->low, s->shift);
        else
            count_f32(bins, keys.u32, inside, s->low, s->shift);
        return;
    }
    /* keys beyond the room are only counted */
    size_t bytes = s->wide ? 8 : 4;
    int64_t at = inside ? atomic_fetch_add(&s->nkept, inside) : 0;
    if (inside && at + inside <= s->cap)
        memcpy((char *)s->kept + at * (int64_t)bytes, &keys, (size_t)inside * bytes);
    if (s->of_chunk)
        s->of_chunk[chunk] =
            (chunk_counts){at, (uint16_t)inside, (uint16_t)r.nlow, (uint16_t)r.nhigh};
}

/* The bin with the place becomes the range. */
static void narrow(merge_select *s)
{
    int64_t before = s->nbelow;
    int workers = pool_workers();
    for (uint64_t bin = 0; bin < BINS; bin++) {
        int64_t n = 0;
        for (int w = 0; w < workers; w++)
            n += (int64_t)s->bins[(uint64_t)w * BINS + bin];
        if (before + n <= s->place) {
            before += n;
            continue;
        }
        uint64_t low = s->low + (bin << s->shift), last = low + (((uint64_t)1 << s->shift) - 1);
        s->high = last < s->high ? last : s->high;
        s->low = low;
        s->expected = n;
        return;
    }
}

/* Of the terms that equal the key, `in` are among the largest: finds the chunk of the last. */
static void find_cut(merge_select *s, int64_t in)
{
    for (int64_t c = 0; c < s->nchunks; c++) {
        const chunk_counts *f = &s->of_chunk[c];
        int64_t equal = s->key == s->low    ? f->low
                        : s->key == s->high ? f->high
                                            : count_equal(s, s->kept, f->at, f->kept);
        if (in <= equal) {
            s->cut_chunk = c;
            s->cut_equal = in;
            return;
        }
        in -= equal;
    }
}

/* Ends the selection: finds the key at the place among the ends of the range and the kept keys. */
static void take(merge_select *s)
{
    int64_t place = s->place - s->nbelow, before = s->nbelow, equal = s->nlow, smaller;
    if (place < s->nlow) {
        s->key = s->low;
    } else if (place < s->nlow + s->nkept) {
        s->key = pick(s, s->kept, s->nkept, place - s->nlow, s->low, s->high, &smaller);
        before += s->nlow + smaller;
        equal = count_equal(s, s->kept, 0, s->nkept);
    } else {
        s->key = s->high;
        before += s->nlow + s->nkept;
        equal = s->nhigh;
    }
    int64_t in = s->order - (s->n - before - equal);
    if (s->fold == PLAN_LEAST && in < equal)
        find_cut(s, in);
}

void merge_select_end(merge_select *s, bool *more)
{
    *more = true;
    if (s->low == s->high)
        s->nhigh = 0;
    if (s->fold == PLAN_ORDER && s->nnans > 0) {
        s->key = most_key(s);
        *more = false;
    } else if (s->place < s->nbelow) {
        s->high = s->low - 1;
        s->low = 0;
        s->expected = s->nbelow;
    } else if (s->in_bins) {
        uint64_t high = s->high;
        int64_t in = s->nbelow;
        for (int64_t i = 0; i < (int64_t)BINS * pool_workers(); i++)
            in += (int64_t)s->bins[i];
        if (s->place < in) {
            narrow(s);
        } else {
            s->low = high + 1;
            s->high = most_key(s);
            s->expected = s->n - in;
        }
    } else if (s->place >= s->nbelow + s->nlow + s->nkept + s->nhigh) {
        s->low = s->high + 1;
        s->expected = s->n - s->nbelow - s->nlow - s->nkept - s->nhigh;
        s->high = most_key(s);
    } else if (s->nkept > s->cap) {
        s->expected = -1; /* too many: bins */
    } else {
        take(s);
        *more = false;
    }
    if (!*more)
        release_sweep(s);
}

/* ---- Results --------------------------------------------------------------------------------- */

double merge_select_number(const merge_select *s)
{
    if (s->key == most_key(s))
        return NAN;
    if (s->wide) {
        double x;
        uint64_t u = s->key ^ (s->key >> 63 ? (uint64_t)1 << 63 : UINT64_MAX);
        memcpy(&x, &u, sizeof x);
        return x;
    }
    return number_of((uint32_t)s->key);
}

double merge_select_next(const merge_select *s)
{
    double x = merge_select_number(s);
    if (isinf(x) && x > 0)
        return NAN;
    return s->wide ? nextafter(x, INFINITY) : nextafterf((float)x, INFINITY);
}

int64_t merge_select_cut(const merge_select *s, int64_t chunk)
{
    return chunk < s->cut_chunk ? MERGE_CHUNK : chunk > s->cut_chunk ? 0 : -1;
}

int64_t merge_select_cut_in(const merge_select *s, const void *terms, int64_t n)
{
    double x = merge_select_number(s);
    int64_t equal = 0;
    for (int64_t i = 0; i < n; i++) {
        double y = s->wide ? ((const double *)terms)[i] : ((const float *)terms)[i];
        equal += y == x || (x != x && y != y);
        if (equal == s->cut_equal)
            return i + 1;
    }
    return n;
}
