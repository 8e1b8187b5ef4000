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
    int64_t at;         /* where its kept terms begin */
    uint16_t kept;      /* between the ends of the range */
    uint16_t low, high; /* that equal an end */
} chunk_counts;

struct merge_select {
    plan_fold fold;
    bool wide;
    int64_t n, nchunks, order;
    int64_t room;  /* terms that may be kept */
    int64_t place; /* of the term in sorted order, from the smallest */

    /* The range of a sweep: keys from low to high. Terms that equal an end are counted, unless few
     * do, the others are kept; or all of them are counted in bins of 2^shift keys. */
    uint64_t low, high;
    bool few_at_ends;
    int64_t expected; /* to be kept; -1: unknown */
    bool in_bins;
    int shift;
    uint64_t *bins; /* BINS of each worker */
    void *kept;     /* terms, room for cap of them, and behind it as much for pick */
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

/* Scans of terms for keys in a range: the range, then the counts, to which each scan adds. */
typedef struct range_scan {
    uint64_t low, high;
    bool ends; /* terms that equal low or high are inside, too, and nlow and nhigh stay 0 */
    int64_t below, nlow, nhigh, nnans;
} range_scan;

#define LOOPS(suffix, F, U, S, BITS)                                                               \
    static inline U key_##suffix(F x)                                                              \
    {                                                                                              \
        F y = x + 0; /* no -0 */                                                                   \
        U u;                                                                                       \
        memcpy(&u, &y, sizeof u);                                                                  \
        u ^= (U)((S)u >> (BITS - 1)) | (U)1 << (BITS - 1);                                         \
        return y != y ? (U)-1 : u;                                                                 \
    }                                                                                              \
                                                                                                   \
    static F number_##suffix(U key)                                                                \
    {                                                                                              \
        F x;                                                                                       \
        U u = key ^ (key >> (BITS - 1) ? (U)1 << (BITS - 1) : (U)-1);                              \
        memcpy(&x, &u, sizeof x);                                                                  \
        return x;                                                                                  \
    }                                                                                              \
                                                                                                   \
    CPU_CLONES static void scan_##suffix(range_scan *r, uint8_t *restrict inside,                  \
                                         const F *restrict x, int64_t n)                           \
    {                                                                                              \
        U low = (U)r->low, high = (U)r->high, key[MERGE_CHUNK];                                    \
        U first = low + !r->ends, span = high - first - !r->ends;                                  \
        U below = 0, nlow = 0, nhigh = 0, nnans = 0;                                               \
        bool any = r->ends || high - low > 1, ends = r->ends;                                      \
        for (int64_t i = 0; i < n; i++) {                                                          \
            U u = key[i] = key_##suffix(x[i]);                                                     \
            below += u < low;                                                                      \
            nlow += u == low;                                                                      \
            nhigh += u == high;                                                                    \
            nnans += u == (U)-1;                                                                   \
        }                                                                                          \
        for (int64_t i = 0; i < n; i++)                                                            \
            inside[i] = any && (U)(key[i] - first) <= span;                                        \
        r->below += (int64_t)below;                                                                \
        r->nlow += ends ? 0 : (int64_t)nlow;                                                       \
        r->nhigh += ends ? 0 : (int64_t)nhigh;                                                     \
        r->nnans += (int64_t)nnans;                                                                \
    }                                                                                              \
                                                                                                   \
    /* Copies the terms inside; few are, so eight are looked at together. */                       \
    static int64_t keep_##suffix(F *to, const F *x, const uint8_t *inside, int64_t n)              \
    {                                                                                              \
        int64_t kept = 0;                                                                          \
        for (int64_t i = 0; i < n; i += 8) {                                                       \
            uint64_t eight;                                                                        \
            memcpy(&eight, inside + i, sizeof eight);                                              \
            for (; eight; eight &= eight - 1)                                                      \
                to[kept++] = x[i + __builtin_ctzll(eight) / 8];                                    \
        }                                                                                          \
        return kept;                                                                               \
    }                                                                                              \
                                                                                                   \
    static void count_##suffix(uint64_t *bins, const F *x, int64_t n, U low, int shift)            \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++)                                                            \
            bins[(U)(key_##suffix(x[i]) - low) >> shift]++;                                        \
    }                                                                                              \
                                                                                                   \
    static int64_t equal_##suffix(const F *x, int64_t n, U key)                                    \
    {                                                                                              \
        int64_t equal = 0;                                                                         \
        for (int64_t i = 0; i < n; i++)                                                            \
            equal += key_##suffix(x[i]) == key;                                                    \
        return equal;                                                                              \
    }

/* cppcheck-suppress shiftTooManyBitsSigned ; the sign is spread on purpose */
LOOPS(f32, float, uint32_t, int32_t, 32)
/* cppcheck-suppress shiftTooManyBitsSigned ; and here */
LOOPS(f64, double, uint64_t, int64_t, 64)

static uint64_t key_at(const merge_select *s, const void *terms, int64_t i)
{
    return s->wide ? key_f64(((const double *)terms)[i]) : key_f32(((const float *)terms)[i]);
}

static int64_t count_equal(const merge_select *s, const void *terms, int64_t from, int64_t n)
{
    return s->wide ? equal_f64((const double *)terms + from, n, s->key)
                   : equal_f32((const float *)terms + from, n, (uint32_t)s->key);
}

typedef int64_t scan_fn(range_scan *r, float *to, const float *x, int64_t n);

#if defined(__x86_64__)
/* Returns true if numbers compare with that of a key as their keys do: it is not nan, nor -0, which
 * equals 0. */
static bool is_comparable(uint64_t key)
{
    return key >= key_f32(-INFINITY) && key <= key_f32(INFINITY) && key != key_f32(0) - 1;
}

/* scan_f32 and keep_f32 in one, for ends that are comparable and n a multiple of 32. Returns -1 if
 * a term may be nan, and has counted nothing then. */
__attribute__((target("avx512f,popcnt"))) static int64_t scan_512(range_scan *r, float *to,
                                                                  const float *x, int64_t n)
{
    __m512 low = _mm512_set1_ps(number_f32((uint32_t)r->low)), sum = _mm512_setzero_ps();
    __m512 high = _mm512_set1_ps(number_f32((uint32_t)r->high));
    __m512i from = _mm512_setzero_si512(), nlow = from, nhigh = from, all = _mm512_set1_epi32(-1);
    float *const begin = to;
    bool ends = r->ends;
    for (int64_t i = 0; i < n; i += 16) {
        __m512 y = _mm512_loadu_ps(x + i);
        __mmask16 in = _mm512_cmp_ps_mask(y, low, _CMP_GE_OQ);
        from = _mm512_mask_sub_epi32(from, in, from, all);
        in = _mm512_mask_cmp_ps_mask(in, y, high, _CMP_LE_OQ);
        if (!ends) {
            __mmask16 first = _mm512_mask_cmp_ps_mask(in, y, low, _CMP_EQ_OQ);
            __mmask16 last = _mm512_mask_cmp_ps_mask(in, y, high, _CMP_EQ_OQ);
            nlow = _mm512_mask_sub_epi32(nlow, first, nlow, all);
            nhigh = _mm512_mask_sub_epi32(nhigh, last, nhigh, all);
            in = _mm512_kandn(_mm512_kor(first, last), in);
        }
        _mm512_storeu_ps(to, _mm512_maskz_compress_ps(in, y));
        to += _mm_popcnt_u32(in);
        sum = _mm512_add_ps(sum, y);
    }
    if (_mm512_cmp_ps_mask(sum, sum, _CMP_UNORD_Q))
        return -1;
    r->below += n - _mm512_reduce_add_epi32(from);
    r->nlow += _mm512_reduce_add_epi32(nlow);
    r->nhigh += _mm512_reduce_add_epi32(nhigh);
    return to - begin;
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

/* Copies the marked ones of n terms. Few are, so 64 are looked at together. */
static int64_t keep_marked(float *to, const float *x, const uint8_t *marks, int64_t n)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i += 64) {
        uint64_t left;
        memcpy(&left, marks + i / 8, sizeof left);
        for (; left; left &= left - 1)
            to[kept++] = x[i + __builtin_ctzll(left)];
    }
    return kept;
}

__attribute__((target("avx2"))) static int64_t scan_256(range_scan *r, float *to, const float *x,
                                                        int64_t n)
{
    __m256 low = _mm256_set1_ps(number_f32((uint32_t)r->low)), sum = _mm256_setzero_ps();
    __m256 high = _mm256_set1_ps(number_f32((uint32_t)r->high));
    __m256i from = _mm256_setzero_si256(), over = from, until = from, beyond = from;
    uint8_t inside[MERGE_CHUNK / 8 + 8] = {0};
    bool ends = r->ends;
    for (int64_t i = 0; i < n; i += 32) {
        __m256i in[4];
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
            __m256 y = _mm256_loadu_ps(x + i + 8 * k);
            __m256i least = _mm256_castps_si256(_mm256_cmp_ps(y, low, _CMP_GE_OQ));
            __m256i above = _mm256_castps_si256(_mm256_cmp_ps(y, low, _CMP_GT_OQ));
            __m256i most = _mm256_castps_si256(_mm256_cmp_ps(y, high, _CMP_GE_OQ));
            __m256i past = _mm256_castps_si256(_mm256_cmp_ps(y, high, _CMP_GT_OQ));
            from = _mm256_sub_epi32(from, least);
            over = _mm256_sub_epi32(over, above);
            until = _mm256_sub_epi32(until, most);
            beyond = _mm256_sub_epi32(beyond, past);
            in[k] = ends ? _mm256_andnot_si256(past, least) : _mm256_andnot_si256(most, above);
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
    r->below += n - sum_of(from);
    r->nlow += ends ? 0 : sum_of(from) - sum_of(over);
    r->nhigh += ends ? 0 : sum_of(until) - sum_of(beyond);
    return keep_marked(to, x, inside, n);
}

/* The one that serves a range; NULL: neither does. */
static scan_fn *scan_vectors(const range_scan *r)
{
    if (!is_comparable(r->low) || !is_comparable(r->high))
        return NULL;
    return __builtin_cpu_supports("avx512f") ? scan_512
           : __builtin_cpu_supports("avx2")  ? scan_256
                                             : NULL;
}
#else
static scan_fn *scan_vectors(const range_scan *r)
{
    (void)r;
    return NULL;
}
#endif

/* The terms of a chunk that are inside of a range. */
typedef union chunk_terms {
    float f32[MERGE_CHUNK + 16]; /* a vector is stored whole */
    double f64[MERGE_CHUNK];
} chunk_terms;

/* Counts the terms of a chunk, and copies those that are inside. Returns their number. */
static int64_t scan_chunk(const merge_select *s, range_scan *r, chunk_terms *to, const void *terms,
                          int64_t n)
{
    uint8_t inside[MERGE_CHUNK + 8];
    scan_fn *scan = s->wide ? NULL : scan_vectors(r);
    int64_t done = n - n % 32, kept = scan ? scan(r, to->f32, terms, done) : -1;
    if (kept < 0)
        done = kept = 0;
    memset(inside + n, 0, 8);
    if (s->wide) {
        scan_f64(r, inside, terms, n);
        return keep_f64(to->f64, terms, inside, n);
    }
    scan_f32(r, inside + done, (const float *)terms + done, n - done);
    return kept + keep_f32(to->f32 + kept, (const float *)terms + done, inside + done, n - done);
}

/* ---- Terms in memory ------------------------------------------------------------------------- */

/* A key, and how many of the terms that it was picked from are smaller, and equal to it. */
typedef struct picked {
    uint64_t key;
    int64_t before, equal;
} picked;

/* Scans n terms, and moves those inside to `to`, which may be the terms, or NULL: they are only
 * counted. Returns their number. */
static int64_t scan_all(const merge_select *s, range_scan *r, void *to, const void *terms,
                        int64_t n)
{
    size_t width = s->wide ? 8 : 4;
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i += MERGE_CHUNK) {
        chunk_terms inside;
        int64_t here = scan_chunk(s, r, &inside, (const char *)terms + (size_t)i * width,
                                  at_most(n - i, MERGE_CHUNK));
        if (to)
            memcpy((char *)to + (size_t)kept * width, &inside, (size_t)here * width);
        kept += here;
    }
    r->nhigh = r->low < r->high ? r->nhigh : 0;
    return kept;
}

/* So few terms are sorted. Of so many terms, drawn at random, the one at a place stands mostly less
 * than 8 places, two deviations of a binomial distribution, from that of the same share in all. */
enum { FEW = 64, ASIDE = 8 };

static void sort_keys(uint64_t *key, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        uint64_t x = key[i];
        int64_t at = i;
        for (; at > 0 && key[at - 1] > x; at--)
            key[at] = key[at - 1];
        key[at] = x;
    }
}

/* Picks the key at a place of n terms in sorted order. room: for n terms. Each round takes a range
 * from a few of them, and goes on with those inside. */
static picked pick(const merge_select *s, const void *terms, int64_t n, int64_t place, void *room)
{
    uint64_t key[FEW];
    picked p = {0};
    for (int64_t in; n > FEW; n = in) {
        for (uint64_t k = 0; k < FEW; k++) {
            uint64_t drawn = k * 0x9E3779B97F4A7C15u >> 32;
            key[k] = key_at(s, terms, (int64_t)(drawn * (uint64_t)n >> 32));
        }
        sort_keys(key, FEW);
        int64_t at = place * FEW / n;
        range_scan r = {.low = key[at < ASIDE ? 0 : at - ASIDE],
                        .high = key[at_most(at + ASIDE, FEW - 1)]};
        range_scan tried = r;
        in = scan_all(s, &tried, NULL, terms, n);
        if (place < tried.below)
            r = (range_scan){.high = r.low - 1, .ends = true};
        else if (place >= tried.below + tried.nlow + in + tried.nhigh)
            r = (range_scan){.low = r.high + 1, .high = most_key(s), .ends = true};
        in = scan_all(s, &r, room, terms, n);
        place -= r.below;
        p.before += r.below;
        if (place < r.nlow)
            return (picked){r.low, p.before, r.nlow};
        if (place >= r.nlow + in)
            return (picked){r.high, p.before + r.nlow + in, r.nhigh};
        place -= r.nlow;
        p.before += r.nlow;
        terms = room;
    }
    for (int64_t i = 0; i < n; i++)
        key[i] = key_at(s, terms, i);
    sort_keys(key, n);
    p.key = key[place];
    for (int64_t i = 0; i < n; i++) {
        p.before += key[i] < p.key;
        p.equal += key[i] == p.key;
    }
    return p;
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

void merge_select_sample(merge_select *s, const void *terms, int64_t n, void *room)
{
    double share = ((double)s->place + 0.5) / (double)s->n, at = share * (double)n;
    double width = DEVIATIONS * sqrt(share * (1 - share) * (double)n) + 2;
    int64_t from = (int64_t)floor(at - width), to = (int64_t)ceil(at + width);
    picked low = {0}, high = {.key = most_key(s)};
    if (from >= 0)
        low = pick(s, terms, n, from, room);
    if (to < n)
        high = pick(s, terms, n, to, room);
    int64_t inside = at_most(to, n) - (from < 0 ? 0 : from), equal = low.equal + high.equal;
    s->low = low.key;
    s->high = high.key;
    s->few_at_ends = low.key < high.key && equal <= inside / 4;
    inside += s->few_at_ends ? equal : 0;
    s->expected = (int64_t)((double)inside / (double)n * (double)s->n);
}

/* ---- Sweeps ---------------------------------------------------------------------------------- */

/* The shift that makes bin numbers of keys which differ by up to span. */
static int shift_of(uint64_t span)
{
    int bits = span ? 64 - __builtin_clzll(span) : 0;
    return bits > BIN_BITS ? bits - BIN_BITS : 0;
}

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
    if (!(s->kept = mem_alloc(2 * s->cap, s->wide ? 8 : 4, e)))
        return KV_E_MEMORY;
    if (s->fold == PLAN_LEAST && !(s->of_chunk = mem_alloc(s->nchunks, sizeof *s->of_chunk, e)))
        return KV_E_MEMORY;
    return KV_OK;
}

/* A count that most chunks do not change stays in the caches of all threads. */
static void add(_Atomic(int64_t) *to, int64_t n)
{
    if (n > 0)
        atomic_fetch_add(to, n);
}

void merge_select_chunk(merge_select *s, int64_t chunk, int worker, const void *terms, int64_t n)
{
    chunk_terms keep;
    range_scan r = {.low = s->low, .high = s->high, .ends = s->in_bins || s->few_at_ends};
    int64_t inside = scan_chunk(s, &r, &keep, terms, n);
    add(&s->nbelow, r.below);
    add(&s->nlow, r.nlow);
    add(&s->nhigh, r.nhigh);
    add(&s->nnans, r.nnans);
    if (s->in_bins) {
        uint64_t *bins = s->bins + (int64_t)worker * BINS;
        if (s->wide)
            count_f64(bins, keep.f64, inside, s->low, s->shift);
        else
            count_f32(bins, keep.f32, inside, (uint32_t)s->low, s->shift);
        return;
    }
    /* terms beyond the room are only counted */
    size_t width = s->wide ? 8 : 4;
    int64_t at = inside ? atomic_fetch_add(&s->nkept, inside) : 0;
    if (inside && at + inside <= s->cap)
        memcpy((char *)s->kept + (size_t)at * width, &keep, (size_t)inside * width);
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
        int64_t equal = f->kept ? count_equal(s, s->kept, f->at, f->kept) : 0;
        equal += s->key == s->low ? f->low : s->key == s->high ? f->high : 0;
        if (in <= equal) {
            s->cut_chunk = c;
            s->cut_equal = in;
            return;
        }
        in -= equal;
    }
}

/* Ends the selection: finds the key at the place among the ends of the range and the kept terms. */
static void take(merge_select *s)
{
    int64_t place = s->place - s->nbelow;
    picked p = {s->low, 0, s->nlow};
    if (place >= s->nlow + s->nkept) {
        p = (picked){s->high, s->nlow + s->nkept, s->nhigh};
    } else if (place >= s->nlow) {
        char *room = (char *)s->kept + (size_t)s->cap * (s->wide ? 8 : 4);
        p = pick(s, s->kept, s->nkept, place - s->nlow, room);
        p.before += s->nlow;
    }
    s->key = p.key;
    int64_t in = s->order - (s->n - s->nbelow - p.before - p.equal);
    if (s->fold == PLAN_LEAST && in < p.equal)
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
    s->few_at_ends = false;
    if (!*more)
        release_sweep(s);
}

/* ---- Results --------------------------------------------------------------------------------- */

double merge_select_number(const merge_select *s)
{
    if (s->key == most_key(s))
        return NAN;
    return s->wide ? number_f64(s->key) : (double)number_f32((uint32_t)s->key);
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
