/* The store on gpu(0) beside what the same device allows in the same run, with the bars that it is
 * to reach: rows of a table that tests/device/bars begins and ends. Results are compared with known
 * numbers as `kvbench bench` does it, which this is, but for single kernels and very many keys.
 *
 * $BENCH_MB is the size of the large arrays (1024); below 64 the others are small too, which shows
 * that everything runs and no more.
 */
#include "array/device.h"
#include "base/mem.h"
#include "cuda/job.h"
#include "tap.h"
#include "tests/bench/kvbench/bench.h"

enum { TIMES = 15, SMALL_MB = 64 };

static const gpu_ops *gpu;
static const bench_place on_gpu = {.ctx = {{KV_GPU, 0}}, .n = 1};
static int64_t megabytes;
static bool small;

/* ---- Rows ---- */

/* reached: of the limit, at least the bar; or times the limit's time, at most the bar. bar 0: there
 * is none. */
static void show(const char *what, double seconds, int64_t bytes, double reached, double bar,
                 bool most)
{
    bool met = most ? reached <= bar : reached >= bar;
    printf("| %s | %.3f | %.0f | %.2f | ", what, seconds * 1e3, (double)bytes / seconds * 1e-9,
           reached);
    if (bar > 0)
        printf("%s%.2f | %s |\n", most ? "at most " : "", bar, met ? "met" : "missed");
    else
        printf(" | |\n");
    fflush(stdout);
}

/* ---- The store ---- */

static const struct part {
    const char *workload, *ops, *values;
    double bar; /* of the limit */
    bool home;  /* keys on the CPU, values on the GPU */
    const char *about;
} parts[] = {
    {"W5", "push", "2,4,8", 0.90, false, "one array"},
    {"W1", "push", "2,4,8", 0.80, false, "W1"},
    {"W5", "sgd,momentum,adam", "1", 0.88, false, "one array"},
    {"W1", "sgd,momentum,adam", "1", 0, false, "W1"},
    {"W5", "adam", "4", 0, false, "one array"},
    {"W8", "push", "1", 0.85, false, "W1"},
    {"W5", "pushpull", "1", 0.90, true, "one array, local"},
    {"W5", "push,pull", "1", 0, true, "one array, local"},
};

static int show_part(void *arg, const bench_row *r, kv_err *e)
{
    const struct part *p = arg;
    char what[160];
    (void)e;
    snprintf(what, sizeof what, "%s of %lld, %s, %s", r->op, (long long)r->values, p->about,
             r->data);
    show(what, r->median, r->bytes, r->fraction, p->bar, false);
    return KV_OK;
}

static void measure(const struct part *p)
{
    kv_err e = {0};
    double drift;
    bench_plan plan = {.place = on_gpu, .runs = TIMES, .quick = small};
    bench_watch watch = {.row = show_part, .arg = (void *)(uintptr_t)p};
    plan.place.home = p->home;
    must(bench_plan_words(&plan, p->workload, bench_plan_workload, &e), &e);
    must(bench_plan_words(&plan, p->ops, bench_plan_op, &e), &e);
    must(bench_plan_words(&plan, p->values, bench_plan_values, &e), &e);
    if (plan.workloads[0]->size > 0)
        plan.size = megabytes << 18; /* floats */
    must(bench_run(&drift, &plan, &watch, &e), &e);
}

/* ---- Pairs of our own ---- */

typedef int timed(void *arg, kv_err *e);

/* Runs both in turn, with the device at rest before and behind each; shows their ratio: the limit's
 * time by ours, or with most ours by the limit's. */
static void compare(const char *what, int64_t bytes, double bar, bool most, timed *ours,
                    timed *limit, void *arg)
{
    kv_err e = {0};
    double a[TIMES], b[TIMES];
    must(ours(arg, &e), &e);
    must(limit(arg, &e), &e);
    for (int i = 0; i < TIMES; i++) {
        must(gpu->wait(0, &e), &e);
        double from = stream_now();
        must(ours(arg, &e), &e);
        must(gpu->wait(0, &e), &e);
        double between = stream_now();
        must(limit(arg, &e), &e);
        must(gpu->wait(0, &e), &e);
        a[i] = between - from;
        b[i] = stream_now() - between;
    }
    double ratio = most ? stream_ratio(b, a, TIMES) : stream_ratio(a, b, TIMES);
    show(what, stream_median(a, TIMES), bytes, ratio, bar, most);
}

/* ---- Kernels of codes ---- */

/* One job, and the copies that move as much. */
typedef struct kernel {
    gpu_work work;
    gpu_job job;
    bench_copies copies;
} kernel;

static int run_kernel(void *arg, kv_err *e)
{
    kernel *k = arg;
    return gpu->run(0, k->work, &k->job, 1, e);
}

static int run_copies(void *arg, kv_err *e)
{
    return bench_copies_run(&((kernel *)arg)->copies, e);
}

static void *block(int64_t bytes)
{
    kv_err e = {0};
    void *p;
    must(gpu->alloc(0, bytes, &p, &e), &e);
    must(gpu->zero(0, p, bytes, &e), &e);
    return p;
}

/* floats: arrays of floats that are read or written, beside the codes. */
static void measure_codes(const char *name, gpu_work work, quantise_code code, int floats,
                          bool codes)
{
    int64_t n = megabytes << 18, each = n * 4, packed = quantise_bytes(code, n);
    kv_err e = {0};
    char what[80];
    void *src = block(each), *more = block(each), *dst = block(each);
    kernel k = {.work = work};
    k.job = (gpu_job){.dst = dst,
                      .n = n,
                      .src = (const void *const *)&src,
                      .nsrc = 1,
                      .more = &more,
                      .nmore = work == GPU_QUANTISE || work == GPU_QUANTISE_SUM,
                      .code = code,
                      .threshold = 0.5f};
    bench_traffic t = {.bytes = floats * each + (codes ? packed : 0)};
    must(bench_copies_init(&k.copies, &on_gpu, &t, &e), &e);
    snprintf(what, sizeof what, "kernel: %s, %dbit", name, (int)code);
    compare(what, t.bytes, 0.85, false, run_kernel, run_copies, &k);
    bench_copies_release(&k.copies);
    gpu->free(0, src);
    gpu->free(0, more);
    gpu->free(0, dst);
}

/* ---- Very many keys ---- */

/* A push of `n` keys of 16 floats; and one job over as many elements, with the way of a table as
 * large as that of n jobs. */
enum { KEY_FLOATS = 16, KEY_VALUES = 2 };

typedef struct keys {
    kv *store;
    kv_key *keys;
    kv_array **values;
    int64_t n, table_bytes;
    void *table;
    kernel whole;
} keys;

static int push_keys(void *arg, kv_err *e)
{
    keys *k = arg;
    if (kv_push(k->store, k->keys, k->n * KEY_VALUES, k->values, NULL, e))
        return e->code;
    return kv_wait(k->store, e);
}

static int run_whole(void *arg, kv_err *e)
{
    keys *k = arg;
    int code = gpu->carry(0, k->table, k->table_bytes, false, e);
    return code ? code : run_kernel(&k->whole, e);
}

static void begin_keys(keys *k, kv_err *e)
{
    const int64_t shape[] = {KEY_FLOATS};
    k->keys = mem_alloc(k->n * KEY_VALUES, sizeof *k->keys, e);
    k->values = mem_alloc(k->n * KEY_VALUES, sizeof *k->values, e);
    must(e->code, e);
    must(kv_create("device", NULL, 0, &k->store, e), e);
    for (int64_t i = 0; i < k->n * KEY_VALUES; i++) {
        k->keys[i] = (kv_key){i / KEY_VALUES, NULL};
        must(kv_array_new(&k->values[i], KV_FLOAT32, 1, shape, (kv_ctx){KV_GPU, 0}, e), e);
        if (i % KEY_VALUES == 0)
            must(kv_init(k->store, &k->keys[i], 1, &k->values[i], NULL, e), e);
    }
}

static void end_keys(keys *k)
{
    kv_free(k->store);
    for (int64_t i = 0; i < k->n * KEY_VALUES; i++)
        kv_array_unref(k->values[i]);
    mem_free(k->keys);
    mem_free(k->values);
}

static void measure_keys(void)
{
    kv_err e = {0};
    char what[80];
    keys k = {.n = small ? 1000 : 100000};
    int64_t bytes = k.n * KEY_FLOATS * 4;
    void *src[KEY_VALUES], *dst = block(bytes);
    for (int v = 0; v < KEY_VALUES; v++)
        src[v] = block(bytes);
    k.whole = (kernel){.work = GPU_SUM,
                       .job = {.dst = dst,
                               .n = bytes / 4,
                               .src = (const void *const *)src,
                               .nsrc = KEY_VALUES,
                               .to = KV_FLOAT32,
                               .from = KV_FLOAT32}};
    k.table_bytes = k.n * (int64_t)(sizeof(job_item) + KEY_VALUES * sizeof(void *));
    k.table = block(k.table_bytes);
    begin_keys(&k, &e);
    snprintf(what, sizeof what, "%lld keys of %d floats, %d values each; one kernel and the table",
             (long long)k.n, KEY_FLOATS, KEY_VALUES);
    compare(what, bytes * (KEY_VALUES + 1), 2, true, push_keys, run_whole, &k);
    end_keys(&k);
    gpu->free(0, k.table);
    gpu->free(0, dst);
    for (int v = 0; v < KEY_VALUES; v++)
        gpu->free(0, src[v]);
}

int main(void)
{
    kv_err e = {0};
    const char *text = getenv("BENCH_MB");
    megabytes = text ? strtoll(text, NULL, 10) : 1024;
    small = megabytes < SMALL_MB;
    gpu = gpu_find(&e);
    must(gpu ? KV_OK : e.code, &e);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        measure(&parts[i]);
    for (int code = QUANTISE_2BIT; code >= QUANTISE_1BIT; code--) {
        measure_codes("quantise", GPU_QUANTISE, (quantise_code)code, 3, true);
        measure_codes("dequantise", GPU_DEQUANTISE, (quantise_code)code, 1, true);
        measure_codes("quantise and sum", GPU_QUANTISE_SUM, (quantise_code)code, 4, false);
    }
    measure_keys();
    return 0;
}
