/* Compares GPUs with the CPU: every work of the device table on every GPU that is there,
 * at odd lengths and alignments, in lists of several jobs, bit by bit. Prints TAP.
 *
 * It finds the GPUs as every program does, so $KVSTORE_PLUGINS decides whether they are those of
 * this machine or the driver over host memory.
 */
#include <math.h>
#include <string.h>

#include "array/device.h"
#include "base/mem.h"
#include "base/philox.h"
#include "tap.h"

enum { JOBS = 3, MOST = 5000, SOURCES = 9, SLACK = 64 };

static const kv_dtype dtypes[] = {KV_FLOAT32, KV_FLOAT64, KV_FLOAT16, KV_BFLOAT16, KV_UINT8,
                                  KV_INT8,    KV_INT32,   KV_INT64,   KV_BOOL};
enum { NDTYPES = sizeof dtypes / sizeof *dtypes };

static const int64_t lengths[] = {0,    1,    2,    3,    7,    8,    15,  16,
                                  31,   33,   255,  1000, 1023, 1024, 1025, 4095,
                                  4096, 4097, 4999, 5000};
enum { NLENGTHS = sizeof lengths / sizeof *lengths };

static const gpu_ops *gpu;
static int device;
static uint64_t drawn;

#define here(ok, text, ...) verdict(ok, "gpu(%d): " text, device, ##__VA_ARGS__)

static uint32_t draw(void)
{
    static philox block;
    if (drawn % 4 == 0)
        block = philox_at(7, PHILOX_FUNCTIONS, 0, drawn / 4);
    return block.word[drawn++ % 4];
}

/* ---- Memory on both sides ---- */

/* A block of host memory and one of the device, whose elements begin `odd` bytes behind. */
typedef struct pair {
    char *host, *block;
    int64_t bytes, odd;
} pair;

static pair pair_new(int64_t bytes, int64_t odd)
{
    kv_err e = {0};
    pair p = {.bytes = bytes + SLACK, .odd = odd};
    void *block;
    must(gpu->alloc(device, p.bytes, &block, &e), &e);
    p.block = block;
    p.host = mem_alloc_data(p.bytes, &e);
    must(e.code, &e);
    memset(p.host, 0x5a, (size_t)p.bytes);
    return p;
}

static void pair_free(pair *p)
{
    gpu->free(device, p->block);
    mem_free(p->host);
}

static void *host_of(const pair *p)
{
    return p->host + p->odd;
}

static void *place_of(const pair *p)
{
    return p->block + p->odd;
}

static void send(const pair *p)
{
    kv_err e = {0};
    must(gpu->copy_in(device, p->block, p->host, p->bytes, &e), &e);
}

static bool is_nan(kv_dtype dtype, const char *at)
{
    double x;
    convert_elements(&x, KV_FLOAT64, at, dtype, 1);
    return kv_dtype_is_float(dtype) && isnan(x);
}

/* Whether the device's block is the host's, what lies around the elements of this dtype included;
 * of a nan only that it is one, since a GPU makes others than a processor. */
static bool same(const pair *p, kv_dtype dtype)
{
    kv_err e = {0};
    int64_t width = kv_dtype_bytes(dtype);
    char *back = mem_alloc(p->bytes, 1, &e);
    must(gpu->copy_out(device, back, p->block, p->bytes, &e), &e);
    bool ok = true;
    for (int64_t at = 0; at < p->bytes && ok; at++) {
        int64_t element = at < p->odd ? 0 : (at - p->odd) / width * width;
        bool whole = at >= p->odd && p->odd + element + width <= p->bytes;
        const char *here = back + p->odd + element, *there = p->host + p->odd + element;
        ok = back[at] == p->host[at] || (whole && is_nan(dtype, here) && is_nan(dtype, there));
    }
    mem_free(back);
    return ok;
}

/* Numbers of every kind. */
static void fill(const pair *p, kv_dtype dtype, int64_t n)
{
    static const double special[] = {0, -0.0, 1, -1, 0.5, 1e-8, -1e-8, 65504, 1e-40, 3e38,
                                     -2147483648.5, 255.5, 1e19, -1e19, 0x1.002p0, 0x1.801p-15,
                                     NAN};
    enum { NSPECIAL = sizeof special / sizeof *special };
    for (int64_t i = 0; i < n; i++) {
        double x = draw() % 4 ? (double)(int32_t)draw() / (double)(1u << draw() % 32)
                              : special[draw() % NSPECIAL];
        int64_t integer = (int64_t)((uint64_t)draw() << 32 | draw());
        char *to = (char *)host_of(p) + i * kv_dtype_bytes(dtype);
        if (kv_dtype_is_float(dtype))
            convert_elements(to, dtype, &x, KV_FLOAT64, 1);
        else
            memcpy(to, &integer, (size_t)kv_dtype_bytes(dtype)); /* of bool any byte */
    }
}

/* Every other job begins where 16 bytes do. */
static int64_t odd_of(int64_t job, kv_dtype dtype)
{
    return job % 2 ? kv_dtype_bytes(dtype) : 0;
}

/* ---- Works ---- */

static bool try_convert(kv_dtype to, kv_dtype from, int64_t n)
{
    kv_err e = {0};
    pair src[JOBS], dst[JOBS];
    const void *places[JOBS];
    gpu_job jobs[JOBS];
    bool ok = true;
    for (int j = 0; j < JOBS; j++) {
        int64_t m = n > j ? n - j : 0;
        src[j] = pair_new(n * 8, odd_of(j, from));
        dst[j] = pair_new(n * 8, odd_of(j, to));
        fill(&src[j], from, m);
        send(&src[j]);
        send(&dst[j]);
        places[j] = place_of(&src[j]);
        jobs[j] = (gpu_job){.dst = place_of(&dst[j]), .n = m, .src = &places[j], .nsrc = 1,
                            .to = to, .from = from};
        convert_elements(host_of(&dst[j]), to, host_of(&src[j]), from, m);
    }
    must(gpu->run(device, GPU_CONVERT, jobs, JOBS, &e), &e);
    for (int j = 0; j < JOBS; j++) {
        ok &= same(&dst[j], to);
        pair_free(&src[j]);
        pair_free(&dst[j]);
    }
    return ok;
}

static bool try_sum(kv_dtype dtype, int64_t n, int64_t nsrc)
{
    kv_err e = {0};
    pair src[JOBS][SOURCES], dst[JOBS];
    const void *places[JOBS][SOURCES], *hosts[SOURCES];
    gpu_job jobs[JOBS];
    bool ok = true;
    for (int j = 0; j < JOBS; j++) {
        dst[j] = pair_new(n * 8, odd_of(j, dtype));
        send(&dst[j]);
        for (int64_t s = 0; s < nsrc; s++) {
            src[j][s] = pair_new(n * 8, odd_of(j, dtype));
            fill(&src[j][s], dtype, n);
            send(&src[j][s]);
            places[j][s] = place_of(&src[j][s]);
            hosts[s] = host_of(&src[j][s]);
        }
        jobs[j] = (gpu_job){.dst = place_of(&dst[j]), .n = n, .src = places[j], .nsrc = nsrc,
                            .to = dtype};
        sum_elements(host_of(&dst[j]), hosts, nsrc, dtype, n);
    }
    must(gpu->run(device, GPU_SUM, jobs, JOBS, &e), &e);
    for (int j = 0; j < JOBS; j++) {
        ok &= same(&dst[j], dtype);
        pair_free(&dst[j]);
        for (int64_t s = 0; s < nsrc; s++)
            pair_free(&src[j][s]);
    }
    return ok;
}

static bool try_gather(kv_dtype dtype, int64_t n, int64_t row)
{
    kv_err e = {0};
    pair src = pair_new(100 * row * 8, 0), dst = pair_new(n * row * 8, kv_dtype_bytes(dtype));
    int64_t at[200];
    const void *place = place_of(&src);
    fill(&src, dtype, 100 * row);
    send(&src);
    send(&dst);
    for (int64_t k = 0; k < n; k++)
        at[k] = (int64_t)(draw() % 101) - 1;
    gpu_job job = {.dst = place_of(&dst), .n = n * row, .src = &place, .nsrc = 1, .to = dtype,
                   .row = row, .index = at, .nindex = n};
    gather_rows(host_of(&dst), dtype, host_of(&src), dtype, at, n, 0, row, false);
    must(gpu->run(device, GPU_GATHER_ROWS, &job, 1, &e), &e);
    bool ok = same(&dst, dtype);
    pair_free(&src);
    pair_free(&dst);
    return ok;
}

/* Three sources that hold some of the rows 0 to 99. */
static bool try_sum_rows(kv_dtype dtype, int64_t row)
{
    enum { ROWS = 100, N = 3 };
    kv_err e = {0};
    pair src[N], dst = pair_new(ROWS * row * 8, 0);
    int64_t ids[N][ROWS], all[ROWS], where[ROWS * N], room[64 * N], count = 0;
    sparse_rows rows[N];
    const void *places[N];
    send(&dst);
    for (int s = 0; s < N; s++) {
        src[s] = pair_new(ROWS * row * 8, 0);
        rows[s] = (sparse_rows){ids[s], 0, host_of(&src[s])};
        places[s] = place_of(&src[s]);
    }
    for (int64_t id = 0; id < ROWS; id++) {
        bool any = false;
        for (int s = 0; s < N; s++) {
            bool holds = draw() % 2;
            where[count * N + s] = holds ? rows[s].n : -1;
            if (holds)
                ids[s][rows[s].n++] = id;
            any |= holds;
        }
        all[count] = id;
        count += any;
    }
    for (int s = 0; s < N; s++) {
        fill(&src[s], dtype, rows[s].n * row);
        send(&src[s]);
    }
    gpu_job job = {.dst = place_of(&dst), .n = count * row, .src = places, .nsrc = N, .to = dtype,
                   .row = row, .index = where, .nindex = count * N};
    sum_rows(host_of(&dst), all, count, rows, N, dtype, row, room);
    must(gpu->run(device, GPU_SUM_ROWS, &job, 1, &e), &e);
    bool ok = same(&dst, dtype);
    for (int s = 0; s < N; s++)
        pair_free(&src[s]);
    pair_free(&dst);
    return ok;
}

static void fill_gradients(const pair *p, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        ((float *)host_of(p))[i] = (float)(int32_t)draw() * 0x1p-31f;
    if (n > 2)
        ((float *)host_of(p))[1] = 0.5f;
}

/* Codes, what they stand for, and that added to what is there. */
static bool try_codes(quantise_code code, int64_t n)
{
    kv_err e = {0};
    pair src = pair_new(n * 4, 4), residual = pair_new(n * 4, 4), codes = pair_new(n * 4 + 4, 0);
    pair out = pair_new(n * 4, 4);
    const void *from = place_of(&src), *coded = place_of(&codes);
    void *more = place_of(&residual);
    fill_gradients(&src, n);
    fill_gradients(&residual, n);
    fill_gradients(&out, n);
    send(&src), send(&residual), send(&codes), send(&out);
    quantise_encode(host_of(&codes), host_of(&residual), host_of(&src), code, 0.25f, n);
    gpu_job job = {.dst = place_of(&codes), .n = n, .src = &from, .nsrc = 1, .more = &more,
                   .nmore = 1, .threshold = 0.25f, .code = code};
    must(gpu->run(device, GPU_QUANTISE, &job, 1, &e), &e);
    bool ok = same(&codes, KV_UINT8) && same(&residual, KV_FLOAT32);
    gpu_job back = {.dst = place_of(&out), .n = n, .src = &coded, .nsrc = 1, .threshold = 0.25f,
                    .code = code};
    must(gpu->run(device, GPU_DEQUANTISE, &back, 1, &e), &e);
    quantise_decode(host_of(&out), host_of(&codes), code, 0.25f, n);
    ok &= same(&out, KV_FLOAT32);
    pair_free(&src), pair_free(&residual), pair_free(&codes), pair_free(&out);
    return ok;
}

static bool try_quantise_sum(quantise_code code, int64_t n)
{
    enum { N = 3 };
    kv_err e = {0};
    pair src[N], residual[N], dst = pair_new(n * 4, 4);
    const void *from[N];
    const float *host_src[N];
    float *host_residual[N];
    void *more[N];
    send(&dst);
    for (int s = 0; s < N; s++) {
        src[s] = pair_new(n * 4, 4 * s);
        residual[s] = pair_new(n * 4, 4);
        fill_gradients(&src[s], n);
        fill_gradients(&residual[s], n);
        send(&src[s]), send(&residual[s]);
        from[s] = place_of(&src[s]);
        more[s] = place_of(&residual[s]);
        host_src[s] = host_of(&src[s]);
        host_residual[s] = host_of(&residual[s]);
    }
    quantise_sum(host_of(&dst), NULL, host_residual, host_src, N, code, 0.5f, n, false);
    gpu_job job = {.dst = place_of(&dst), .n = n, .src = from, .nsrc = N, .more = more, .nmore = N,
                   .threshold = 0.5f, .code = code};
    must(gpu->run(device, GPU_QUANTISE_SUM, &job, 1, &e), &e);
    bool ok = same(&dst, KV_FLOAT32);
    for (int s = 0; s < N; s++) {
        ok &= same(&residual[s], KV_FLOAT32);
        pair_free(&src[s]), pair_free(&residual[s]);
    }
    pair_free(&dst);
    return ok;
}

/* The elements from i to `end` of p, one behind the other, as element `to` of out. */
static void sum_of(const pair *out, int64_t to, const pair *p, kv_dtype dtype, int64_t i,
                   int64_t end)
{
    float single = 0;
    double wide = 0;
    for (; i < end; i++) {
        if (dtype == KV_FLOAT32)
            single += ((const float *)host_of(p))[i];
        else
            wide += ((const double *)host_of(p))[i];
    }
    if (dtype == KV_FLOAT32)
        ((float *)host_of(out))[to] = single;
    else
        ((double *)host_of(out))[to] = wide;
}

/* Of each of several arrays the sums of its chunks, and that of all elements. */
static bool try_chunks(kv_dtype dtype, int64_t n)
{
    enum { CHUNK = 4096 };
    kv_err e = {0};
    pair src[JOBS], chunks[JOBS], all[JOBS];
    const void *from[JOBS];
    gpu_job parts[JOBS], wholes[JOBS];
    bool ok = true;
    for (int j = 0; j < JOBS; j++) {
        int64_t m = n > j * 100 ? n - j * 100 : 0, nchunks = m / CHUNK + (m % CHUNK != 0);
        src[j] = pair_new(m * 8, odd_of(j, dtype));
        chunks[j] = pair_new(nchunks * 8, odd_of(j, dtype));
        all[j] = pair_new(8, odd_of(j, dtype));
        for (int64_t i = 0; i < m; i++) {
            double x = (double)(int32_t)draw() * 0x1p-31 / 3;
            convert_elements((char *)host_of(&src[j]) + i * kv_dtype_bytes(dtype), dtype, &x,
                             KV_FLOAT64, 1);
        }
        send(&src[j]), send(&chunks[j]), send(&all[j]);
        for (int64_t c = 0; c < nchunks; c++)
            sum_of(&chunks[j], c, &src[j], dtype, c * CHUNK,
                   (c + 1) * CHUNK < m ? (c + 1) * CHUNK : m);
        sum_of(&all[j], 0, &src[j], dtype, 0, m);
        from[j] = place_of(&src[j]);
        parts[j] = (gpu_job){.dst = place_of(&chunks[j]), .n = nchunks, .row = m, .src = &from[j],
                             .nsrc = 1, .to = dtype};
        wholes[j] = parts[j];
        wholes[j].dst = place_of(&all[j]);
        wholes[j].n = 1;
    }
    must(gpu->run(device, GPU_SUM_CHUNKS, parts, JOBS, &e), &e);
    must(gpu->run(device, GPU_SUM_ALL, wholes, JOBS, &e), &e);
    for (int j = 0; j < JOBS; j++) {
        ok &= same(&chunks[j], dtype) && same(&all[j], dtype);
        pair_free(&src[j]), pair_free(&chunks[j]), pair_free(&all[j]);
    }
    return ok;
}

/* ---- Lists of them ---- */

static void test_works(void)
{
    for (int d = 0; d < NDTYPES; d++) {
        bool ok = true;
        for (int f = 0; f < NDTYPES; f++)
            for (int n = 0; n < NLENGTHS; n++)
                ok &= try_convert(dtypes[d], dtypes[f], lengths[n]);
        here(ok, "every dtype to %s", kv_dtype_name(dtypes[d]));
    }
    for (int d = 0; d < NDTYPES; d++) {
        bool ok = true;
        for (int n = 0; n < NLENGTHS; n++)
            for (int64_t s = 1; s <= SOURCES; s += s < 5 ? 1 : 4)
                ok &= try_sum(dtypes[d], lengths[n], s);
        here(ok, "sums of %s", kv_dtype_name(dtypes[d]));
        ok = true;
        for (int64_t row = 1; row < 40; row += 6)
            ok &= try_gather(dtypes[d], 150, row) && try_sum_rows(dtypes[d], row);
        here(ok, "rows of %s", kv_dtype_name(dtypes[d]));
    }
    for (int code = QUANTISE_1BIT; code <= QUANTISE_2BIT; code++) {
        bool ok = true;
        for (int n = 0; n < NLENGTHS; n++)
            ok &= try_codes((quantise_code)code, lengths[n]) &&
                  try_quantise_sum((quantise_code)code, lengths[n]);
        here(ok, "codes of %d bits", code);
    }
    bool ok = true;
    for (int64_t n = 1; n < 300000; n = n * 3 + 1)
        ok &= try_chunks(KV_FLOAT32, n) && try_chunks(KV_FLOAT64, n);
    here(ok, "sums of chunks, and of all elements");
}

/* Longer than the pieces in pinned memory, and from one device to another. */
static void test_copies(void)
{
    kv_err e = {0};
    pair p = pair_new((9 << 20) + 5, 0);
    for (int64_t i = 0; i < p.bytes; i++)
        p.host[i] = (char)(i * 31 >> 3);
    send(&p);
    bool ok = same(&p, KV_UINT8);
    int other = (device + 1) % gpu->count;
    void *there;
    must(gpu->alloc(other, p.bytes, &there, &e), &e);
    must(gpu->copy(other, there, device, p.block, p.bytes, &e), &e);
    must(gpu->zero(device, p.block, p.bytes, &e), &e);
    must(gpu->copy(device, p.block, other, there, p.bytes, &e), &e);
    ok &= same(&p, KV_UINT8);
    gpu->free(other, there);
    pair_free(&p);
    here(ok, "copies of more than a piece, and by way of gpu(%d)", other);
}

/* carry reads pinned memory, which the copies before have used. */
static void test_carrying(void)
{
    kv_err e = {0};
    int64_t n = (9 << 20) + 5, zeros = 0;
    pair p = pair_new(n, 0);
    send(&p);
    must(gpu->carry(device, p.block, p.bytes, true, &e), &e);
    bool ok = same(&p, KV_UINT8);
    memset(p.host, 0, (size_t)p.bytes);
    send(&p);
    memset(p.host, 1, 4 << 20);
    must(gpu->copy_in(device, p.block, p.host, 4 << 20, &e), &e);
    must(gpu->copy_in(device, p.block, p.host, 4 << 20, &e), &e);
    must(gpu->zero(device, p.block, p.bytes, &e), &e);
    must(gpu->carry(device, p.block, n, false, &e), &e);
    must(gpu->copy_out(device, p.host, p.block, p.bytes, &e), &e);
    for (int64_t i = 0; i < n; i++)
        zeros += p.host[i] == 0;
    ok &= zeros < n;
    for (int64_t i = n; i < p.bytes; i++)
        ok &= p.host[i] == 0;
    pair_free(&p);
    here(ok, "what is carried arrives, and nothing beside it");
}

int main(void)
{
    kv_err e = {0};
    gpu = gpu_find(&e);
    if (!gpu) {
        printf("1..0 # SKIP %s\n", e.text);
        return 0;
    }
    for (device = 0; device < gpu->count; device++) {
        test_works();
        test_copies();
        test_carrying();
    }
    return end_verdicts();
}
