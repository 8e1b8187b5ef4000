/* Running a plan row by row. */
#include "bench.h"

#include <math.h>
#include <string.h>

#include "base/kv_assert.h"
#include "base/mem.h"
#include "bench_calls.h"
#include "engine/pool.h"
#include "term/terminal.h"

/* ---- Cases ---- */

#define MAX_CASES (BENCH_MAX_OPS * BENCH_MAX_VALUES)

/* The cases of a workload: those of the plan, else its own. Where nobody said how many values,
 * optimizers get one, and push+OPTIMIZER+pull two. */
static int make_cases(const bench_plan *p, const bench_workload *w, bench_case *cases, int *ncases,
                      kv_err *e)
{
    bench_plan own = {0};
    const bench_plan *ops = p->nops > 0 ? p : &own, *values = p->nvalues > 0 ? p : &own;
    if (bench_plan_words(&own, w->ops, bench_plan_op, e) ||
        bench_plan_words(&own, w->values, bench_plan_values, e))
        return e->code;
    *ncases = 0;
    for (int i = 0; i < ops->nops; i++) {
        bench_op op = ops->ops[i];
        bool said = p->nvalues > 0 || !op.optimizer;
        for (int v = 0; v < (said ? values->nvalues : 1); v++)
            cases[(*ncases)++] = (bench_case){op, said ? values->values[v] : op.pull ? 2 : 1};
    }
    return KV_OK;
}

/* Counts of the arrays of a key that an operation reads and writes: in its push, and in a pull
 * behind it. */
typedef struct counts {
    int values, again, both, write, outs;
    bool pull; /* a pass of its own: one array is read, outs are written */
} counts;

static counts count_arrays(const bench_data *data, bench_case c)
{
    counts k = {0};
    const bench_optimizer *o = c.op.optimizer;
    if (c.op.push) {
        k.values = c.n;
        k.again = o ? o->again : 0;
        k.both = (o ? o->both : 0) + (data->compression ? c.n : 0);
        k.write = !o;
    }
    k.outs = c.op.pull ? c.n : 0;
    k.pull = c.op.pull && !c.op.joined;
    return k;
}

/* Each array once for reading and once for writing. */
static int64_t model_bytes(const counts *k, const bench_arrays *r)
{
    return r->all_bytes *
           (k->values + k->again + 2 * k->both + k->write + k->outs + (k->pull ? 1 : 0));
}

/* ---- The limit ---- */

/* The limit of a case: the time of loops for its push and its pull, or on GPUs of copies. */
typedef struct bench_limit {
    bool gpu;
    stream_mix mix[2];
    int nmixes;
    bench_copies copies;
} bench_limit;

/* Blocks that stand for the store's arrays. */
static int need_scratch(const counts *k)
{
    int n = k->again + k->both + k->write;
    return n > 0 ? n : 1;
}

/* The arrays of the caller are those of the store's calls. */
static void make_mixes(bench_limit *l, const bench_arrays *r, bench_case c, const counts *k)
{
    int used = 0;
    if (c.op.push) {
        stream_mix *m = &l->mix[l->nmixes++];
        *m = (stream_mix){.cut = &r->cut};
        for (int v = 0; v < k->values; v++)
            m->read[m->nread++] = r->values[v].data;
        for (int i = 0; i < k->both; i++)
            m->both[m->nboth++] = r->scratch[used++];
        for (int i = 0; i < k->again; i++)
            m->read[m->nread++] = r->scratch[used++];
        for (int i = 0; i < k->write; i++)
            m->write[m->nwrite++] = r->scratch[used++];
        for (int v = 0; v < k->outs && c.op.joined; v++)
            m->write[m->nwrite++] = r->outs[v].data;
    }
    if (k->pull) {
        stream_mix *m = &l->mix[l->nmixes++];
        *m = (stream_mix){.cut = &r->cut, .nread = 1, .read = {r->scratch[0]}};
        for (int v = 0; v < k->outs; v++)
            m->write[m->nwrite++] = r->outs[v].data;
    }
}

/* Released with bench_copies_release(&l->copies), also after a failure. */
static int limit_init(bench_limit *l, bench_arrays *r, bench_case c, kv_err *e)
{
    counts k = count_arrays(r->data, c);
    *l = (bench_limit){.gpu = bench_place_is_gpu(r->place)};
    if (l->gpu) {
        bench_traffic t = {.bytes = model_bytes(&k, r),
                           .each = r->all_bytes,
                           .nvalues = c.op.push ? c.n : 0,
                           .nouts = k.outs};
        return bench_copies_init(&l->copies, r->place, &t, e);
    }
    if (bench_arrays_need(r, k.values, k.outs, need_scratch(&k), e))
        return e->code;
    make_mixes(l, r, c, &k);
    return KV_OK;
}

/* Copies are the same either way. */
static int time_limit(double *seconds, bench_limit *l, bool streaming, kv_err *e)
{
    int code = KV_OK;
    double from = stream_now();
    if (l->gpu)
        code = bench_copies_run(&l->copies, e);
    for (int i = 0; i < l->nmixes; i++)
        stream_run(&l->mix[i], streaming);
    *seconds = stream_now() - from;
    return code;
}

/* ---- Memory ---- */

static int no_memory(const bench_workload *w, const char *what, int64_t need, int64_t available,
                     kv_err *e)
{
    kv_err_set(e, KV_E_MEMORY, "%s (%s) needs %lld MB, and %s has %lld MB to give", w->name,
               w->about, (long long)(need >> 20), what, (long long)(available >> 20));
    return kv_err_hint(e, "fewer --values, other --op%s, or --quick",
                       w->size > 0 ? ", a smaller --size" : ""),
           KV_E_MEMORY;
}

/* A key costs at least a kilobyte in lists, arrays and slots. */
enum { KEY_BYTES = 1024 };

/* Checks that there is memory for the list of shapes itself, which is made to count the rest. */
static int check_list(const bench_workload *w, int64_t size, kv_err *e)
{
    int64_t available = bench_memory_available(), most = INT64_MAX / KEY_BYTES;
    if (!w->counts_keys || available == 0 || size <= available / KEY_BYTES)
        return KV_OK;
    return no_memory(w, "this machine", (size < most ? size : most) * KEY_BYTES, available, e);
}

/* Bytes of a case: values, outs, the store with its states, what the loops write in its place, and
 * an array to look at. */
static int64_t need_bytes(const bench_data *data, const bench_shapes *shapes, bench_case c,
                          bool loops)
{
    counts k = count_arrays(data, c);
    int64_t values = k.values > 0 ? k.values : 1;
    int64_t store = k.both + k.write > 0 ? k.both + k.write : 1;
    int64_t arrays = values + k.outs + store + (loops ? need_scratch(&k) : 0) + 1;
    return shapes->elements * kv_dtype_bytes(data->dtype) * arrays +
           shapes->n * KEY_BYTES * (values + k.outs + store) / 2;
}

/* On a GPU everything has a place in both memories, and the copies have blocks of their own. */
static int check_memory(const bench_place *place, const bench_workload *w, const bench_data *data,
                        const bench_shapes *shapes, bench_case c, kv_err *e)
{
    char name[KV_CTX_TEXT];
    int64_t need = need_bytes(data, shapes, c, !bench_place_is_gpu(place));
    int64_t available = bench_memory_available();
    if (available > 0 && need > available)
        return no_memory(w, "this machine", need, available, e);
    bench_traffic all = {.bytes = need};
    need += bench_copies_need(&all);
    available = bench_place_available(place);
    if (available > 0 && need > available)
        return no_memory(w, kv_ctx_text(name, place->ctx[0]), need, available, e);
    return KV_OK;
}

/* ---- One row ---- */

typedef struct row_run {
    const bench_plan *plan;
    const bench_watch *watch;
    bench_calls calls, twin;
    bench_limit limit;
    int64_t checked, done;            /* done: runs of the rows before it */
    double *ours, *plain, *streaming; /* plan->runs each; plain: of the copies on GPUs */
} row_run;

static int time_store(double *seconds, row_run *b, kv_err *e)
{
    bench_arrays *r = b->calls.arrays;
    bench_case c = b->calls.which;
    int code = bench_arrays_renew(r, c.op.push ? c.n : 0, c.op.pull ? c.n : 0, e);
    double from = stream_now();
    if (code == KV_OK && (code = bench_calls_run(&b->calls, e)) == KV_OK)
        code = bench_place_wait(r->place, e);
    *seconds = stream_now() - from;
    return code ? code : bench_calls_run(&b->twin, e);
}

/* The runs in turn. The outs are compared each time, as the loops have written into them between;
 * what is stored, behind the last. */
static int alternate(row_run *b, kv_err *e)
{
    double unused;
    int runs = b->plan->runs;
    if (time_store(&unused, b, e) || time_limit(&unused, &b->limit, false, e) ||
        time_limit(&unused, &b->limit, true, e))
        return e->code;
    for (int i = 0; i < runs; i++) {
        if (b->watch->stop && b->watch->stop(b->watch->arg, e))
            return e->code;
        progress_step(b->done + i);
        if (time_store(&b->ours[i], b, e))
            return e->code;
        if ((b->calls.which.op.pull || i + 1 == runs) &&
            bench_calls_compare(&b->calls, &b->twin, &b->checked, e))
            return e->code;
        if (time_limit(&b->plain[i], &b->limit, false, e) ||
            (!b->limit.gpu && time_limit(&b->streaming[i], &b->limit, true, e)))
            return e->code;
    }
    (void)kv_assert(b->checked > 0, "%s was timed and compared with nothing",
                    b->calls.arrays->data->name);
    return KV_OK;
}

/* Copies n numbers into `sorted`, in ascending order; gives their median. */
static double sort_copy(double *sorted, const double *x, int n)
{
    memcpy(sorted, x, (size_t)n * sizeof *x);
    return stream_median(sorted, n);
}

static int report(const row_run *b, const bench_workload *w, kv_err *e)
{
    const bench_arrays *r = b->calls.arrays;
    counts k = count_arrays(r->data, b->calls.which);
    int n = b->plan->runs;
    double sorted[STREAM_PAIRS];
    char op[64];
    bench_row row = {.workload = w->name,
                     .op = op,
                     .data = r->data->name,
                     .values = b->calls.which.n,
                     .arrays = r->shapes.n,
                     .elements = r->shapes.elements,
                     .bytes = model_bytes(&k, r),
                     .runs = n,
                     .samples = b->ours,
                     .limit_samples = b->plain,
                     .limit_is = !b->limit.gpu      ? "plain"
                                 : r->place->home ? "transfer"
                                                  : "copy",
                     .checked = b->checked};
    bench_op_name(op, b->calls.which.op);
    row.limit = sort_copy(sorted, b->plain, n);
    double streaming = b->limit.gpu ? INFINITY : sort_copy(sorted, b->streaming, n);
    if (streaming < row.limit) {
        row.limit = streaming;
        row.limit_samples = b->streaming;
        row.limit_is = "streaming";
    }
    row.fraction = stream_ratio(b->ours, row.limit_samples, n);
    row.median = sort_copy(sorted, b->ours, n);
    row.least = sorted[0];
    row.p95 = sorted[(95 * n + 99) / 100 - 1];
    row.gb_s = (double)row.bytes / row.median * 1e-9;
    row.limit_gb_s = (double)row.bytes / row.limit * 1e-9;
    return b->watch->row ? b->watch->row(b->watch->arg, &row, e) : KV_OK;
}

/* twin: arrays of one key with BENCH_PERIOD elements. */
static int run_case(row_run *b, const bench_workload *w, bench_arrays *r, bench_arrays *twin,
                    bench_case which, kv_err *e)
{
    int64_t runs = b->plan->runs;
    b->checked = 0;
    b->ours = mem_alloc(3 * runs, sizeof *b->ours, e);
    if (b->ours) {
        b->plain = b->ours + runs;
        b->streaming = b->plain + runs;
        if (bench_calls_init(&b->calls, r, which, e) == KV_OK &&
            bench_calls_init(&b->twin, twin, which, e) == KV_OK &&
            limit_init(&b->limit, r, which, e) == KV_OK && alternate(b, e) == KV_OK)
            report(b, w, e);
    }
    bench_copies_release(&b->limit.copies);
    bench_calls_release(&b->twin);
    bench_calls_release(&b->calls);
    mem_free(b->ours);
    b->done += runs;
    progress_step(b->done);
    return e->code;
}

/* ---- All rows ---- */

static int run_workload(row_run *b, const bench_workload *w, const bench_data *data,
                        bench_shapes *shapes, const bench_case *cases, int ncases, kv_err *e)
{
    static const bench_place host;
    bench_arrays arrays, twin = {0};
    bench_shapes one = {0};
    int code = bench_arrays_init(&arrays, data, &b->plan->place, shapes, e);
    if (code == KV_OK && (code = bench_one_array(&one, BENCH_PERIOD, e)) == KV_OK)
        code = bench_arrays_init(&twin, data, &host, &one, e);
    for (int i = 0; i < ncases && code == KV_OK; i++)
        code = run_case(b, w, &arrays, &twin, cases[i], e);
    bench_arrays_release(&twin);
    bench_arrays_release(&arrays);
    return code;
}

/* Goes over the workloads of a plan, once for each kind of data. With b they are run; without it
 * they are checked, so that what is wrong shows before anything is measured. Adds to *rows. */
static int walk_plan(const bench_plan *p, row_run *b, int64_t *rows, kv_err *e)
{
    for (int i = 0; i < p->nworkloads; i++) {
        const bench_workload *w = p->workloads[i];
        bench_case cases[MAX_CASES];
        int ncases = 0;
        if (make_cases(p, w, cases, &ncases, e) || check_list(w, p->size, e))
            return e->code;
        for (int d = 0; d < 2 && w->data[d].name; d++) {
            bench_shapes shapes;
            int code = bench_workload_shapes(w, p->size, p->row, p->quick, &shapes, e);
            for (int c = 0; c < ncases && !b && code == KV_OK; c++)
                code = check_memory(&p->place, w, &w->data[d], &shapes, cases[c], e);
            if (code == KV_OK && b)
                code = run_workload(b, w, &w->data[d], &shapes, cases, ncases, e);
            mem_free(shapes.items);
            if (code)
                return code;
            *rows += ncases;
        }
    }
    return KV_OK;
}

/* ---- Drift ---- */

enum { REFERENCE_TIMES = 9 };

/* The limit of a pull that does not depend on the plan, of an array larger than the caches. */
static int time_reference(double *seconds, const bench_plan *p, kv_err *e)
{
    static const bench_data data = {"float32", KV_FLOAT32, NULL};
    bench_shapes one = {0};
    bench_arrays r = {0};
    bench_limit limit = {0};
    bench_case pull = {{.pull = true}, 1};
    double times[REFERENCE_TIMES], unused;
    int code = bench_one_array(&one, (int64_t)(p->quick ? 2 : 12) << 20, e);
    if (code == KV_OK && (code = bench_arrays_init(&r, &data, &p->place, &one, e)) == KV_OK &&
        (code = limit_init(&limit, &r, pull, e)) == KV_OK)
        code = time_limit(&unused, &limit, false, e);
    for (int i = 0; i < REFERENCE_TIMES && code == KV_OK; i++)
        code = time_limit(&times[i], &limit, false, e);
    if (code == KV_OK)
        *seconds = stream_median(times, REFERENCE_TIMES);
    bench_copies_release(&limit.copies);
    bench_arrays_release(&r);
    return code;
}

int bench_threads(void)
{
    return pool_workers();
}

int bench_run(double *drift, const bench_plan *p, const bench_watch *watch, kv_err *e)
{
    row_run b = {.plan = p, .watch = watch};
    double before = 1, after = 1;
    int64_t rows = 0, run = 0;
    if (p->runs < 1 || p->runs > STREAM_PAIRS)
        return kv_err_set(e, KV_E_VALUE, "the runs lie in 1 .. %d, %d does not", STREAM_PAIRS,
                          p->runs);
    if (walk_plan(p, NULL, &rows, e) || time_reference(&before, p, e))
        return e->code;
    progress_begin("bench", rows * p->runs, PROGRESS_TIMES);
    int code = walk_plan(p, &b, &run, e);
    progress_end();
    if (code == KV_OK && (code = time_reference(&after, p, e)) == KV_OK)
        *drift = (before > after ? before / after : after / before) - 1;
    return code;
}
