/* Selection among terms in chunks, against sorting them. */
#include "merge/merge_select.h"

#include <math.h>

#include "test.h"

static uint64_t state = 1;

static uint32_t draw(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33);
}

/* Ways to fill an array. */
static double term(int way, int64_t i, int64_t n)
{
    static const double special[] = {0, -0.0, INFINITY, -INFINITY, 1, -1, 1e-45, 2};
    double u = draw() / 2147483648.0;
    switch (way) {
    case 0:
        return u - 0.5;
    case 1:
        return 3; /* all are equal */
    case 2:
        return floor(u * 5) - 2; /* many are */
    case 3:
        return special[draw() % 8];
    case 4:
        return draw() % 100 ? u : (double)NAN;
    case 5:
        return (double)i / (double)n; /* in order */
    case 6:
        return u < 0.97 ? 0 : ldexp(u, -(int)(draw() % 120)); /* tiny, next to many zeros */
    case 7:
        return i < n / 50 ? 1e6 + u : 1e-6 * u; /* a sample of places misses the large ones */
    default:
        return (double)(float)(u * u * u) * (draw() % 2 ? 1 : -1);
    }
}
enum { WAYS = 9 };

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    if (x != x || y != y)
        return (x != x) - (y != y);
    return (x > y) - (x < y);
}

/* What is selected among n terms; the chunks come in some order. sampled: the sample, of that many
 * of the first terms, 0 none, as it may be of the worst kind. */
static merge_select *selected(plan_fold fold, int64_t order, bool wide, const double *x, int64_t n,
                              int64_t sampled, int64_t room)
{
    int64_t nchunks = (n + MERGE_CHUNK - 1) / MERGE_CHUNK;
    double terms[MERGE_CHUNK];
    bool more = true;
    merge_select *s = MADE(merge_select, merge_select_new, fold, order, wide, n, nchunks);
    merge_select_room(s, room);
    if (sampled > 0) {
        OWN(test_free) double *sample = malloc(2 * (size_t)sampled * sizeof *sample);
        for (int64_t i = 0; i < sampled; i++) {
            if (wide)
                sample[i] = x[i];
            else
                ((float *)sample)[i] = (float)x[i];
        }
        merge_select_sample(s, sample, sampled, sample + sampled);
    }
    for (int sweeps = 0; more; sweeps++) {
        CHECK(sweeps < 12);
        CHECK_OK(merge_select_begin(s, &e));
        for (int64_t k = 0; k < nchunks; k++) {
            int64_t c = (k * 7 + 3) % nchunks;
            c = nchunks % 7 ? c : nchunks - 1 - k;
            int64_t m = n - c * MERGE_CHUNK < MERGE_CHUNK ? n - c * MERGE_CHUNK : MERGE_CHUNK;
            for (int64_t i = 0; i < m; i++) {
                if (wide)
                    terms[i] = x[c * MERGE_CHUNK + i];
                else
                    ((float *)terms)[i] = (float)x[c * MERGE_CHUNK + i];
            }
            merge_select_chunk(s, c, 0, terms, m);
        }
        merge_select_end(s, &more);
    }
    return s;
}

/* How many elements of the whole see the number as it is. */
static int64_t cut(const merge_select *s, bool wide, const double *x, int64_t n)
{
    int64_t all = 0;
    for (int64_t c = 0; c * MERGE_CHUNK < n; c++) {
        double terms[MERGE_CHUNK];
        int64_t m = n - c * MERGE_CHUNK < MERGE_CHUNK ? n - c * MERGE_CHUNK : MERGE_CHUNK;
        int64_t in = merge_select_cut(s, c);
        for (int64_t i = 0; i < m; i++) {
            if (wide)
                terms[i] = x[c * MERGE_CHUNK + i];
            else
                ((float *)terms)[i] = (float)x[c * MERGE_CHUNK + i];
        }
        in = in < 0 ? merge_select_cut_in(s, terms, m) : in < m ? in : m;
        all += in;
        if (in < m)
            break;
    }
    return all;
}

static void check_least(const double *x, const double *sorted, bool wide, int64_t n, int64_t k,
                        int64_t sampled, int64_t room)
{
    merge_select *s = selected(PLAN_LEAST, k, wide, x, n, sampled, room);
    double least = merge_select_number(s), next = merge_select_next(s), want = sorted[n - k];
    CHECK(least == want || (least != least && want != want));
    if (want == want && !isinf(want)) {
        int64_t in = 0, until = cut(s, wide, x, n);
        for (int64_t i = 0; i < n; i++)
            in += !(x[i] < (i < until ? least : next));
        CHECK_INT(in, k);
        CHECK(next > least);
    }
    merge_select_free(s);
}

static void check_all(int way, int64_t n, bool wide, int64_t sampled, int64_t room)
{
    OWN(test_free)
    double *x = malloc((size_t)n * sizeof *x), *sorted = malloc((size_t)n * sizeof *x);
    bool nan = false;
    for (int64_t i = 0; i < n; i++) {
        x[i] = wide ? term(way, i, n) : (double)(float)term(way, i, n);
        nan |= x[i] != x[i];
    }
    memcpy(sorted, x, (size_t)n * sizeof *x);
    qsort(sorted, (size_t)n, sizeof *sorted, by_size);
    const int64_t orders[] = {0, n / 5, n / 2, n - 1 - n / 50, n - 1};
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        merge_select *s = selected(PLAN_ORDER, orders[i], wide, x, n, sampled, room);
        double got = merge_select_number(s);
        CHECK(nan ? got != got : got == sorted[orders[i]]);
        merge_select_free(s);
        if (orders[i] > 0)
            check_least(x, sorted, wide, n, orders[i], sampled, room);
    }
}

TEST(merge_select_sizes)
{
    static const int64_t sizes[] = {1, 2, 3, 100, MERGE_CHUNK - 1, MERGE_CHUNK, 5000, 10007, 20480};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int way = 0; way < WAYS; way++)
            for (int wide = 0; wide < 2; wide++)
                check_all(way, sizes[i], wide, 0, 1 << 20);
}

/* A sample of the first terms is wrong wherever their order matters, and the sweeps go on. */
TEST(merge_select_samples)
{
    for (int way = 0; way < WAYS; way++)
        for (int wide = 0; wide < 2; wide++) {
            check_all(way, 35001, wide, 8192, 1 << 20);
            check_all(way, 30000, wide, 30000, 1 << 20);
        }
}

/* Nothing is kept: bins narrow the range to the end. */
TEST(merge_select_bins)
{
    for (int way = 0; way < WAYS; way++)
        for (int wide = 0; wide < 2; wide++) {
            check_all(way, 12000, wide, 0, 0);
            check_all(way, 12000, wide, 1000, 0);
            check_all(way, 12000, wide, 1000, 3000);
        }
}
