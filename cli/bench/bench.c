/* Running a plan row by row. */
#include "bench/bench.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "engine/pool.h"
#include "term/progress.h"
#include "bench/bench_check.h"

/* ---- Cases ---- */

/* One row to be measured. */
typedef struct bench_case {
    bench_op op;
    int n;
} bench_case;

#define MAX_CASES (BENCH_MAX_OPS * BENCH_MAX_VALUES)

/* Row-sparse keys have no dense pull, and rows alone are updated by the rules that say so. */
static int check_op(const bench_workload *w, bench_op op, kv_err *e)
{
    char name[64];
    bench_op_name(name, op);
    bool sgd = op.optimizer && strcmp(op.optimizer->name, "sgd") == 0 && !op.pull;
    if (!w->data[0].sparse || (!op.optimizer && !op.joined) || sgd)
        return KV_OK;
    kv_err_set(e, KV_E_UNSUPPORTED, "%s has no operation %s", w->name, name);
    return kv_err_hint(e, "rows are measured with push, pull and sgd");
}

/* The cases of a workload: those of the plan, else its own. Where nobody said how many values,
 * optimizers get one, and push+OPTIMIZER+pull two. */
static int make_cases(const bench_plan *p, const bench_workload *w, bench_case *cases, int *ncases,
                      kv_err *e)
{
    bench_plan own = {0};
    const bench_plan *ops = p->nops > 0 ? p : &own, *values = p->nvalues > 0 ? p : &own;
    int code = bench_plan_words(&own, w->ops, bench_plan_op, e);
    if (code == KV_OK)
        code = bench_plan_words(&own, w->values, bench_plan_values, e);
    *ncases = 0;
    for (int i = 0; i < ops->nops && code == KV_OK; i++) {
        bench_op op = ops->ops[i];
        if ((code = check_op(w, op, e)))
            break;
        bool said = p->nvalues > 0 || !op.optimizer;
        for (int v = 0; v < (said ? values->nvalues : 1); v++)
            cases[(*ncases)++] = (bench_case){op, said ? values->values[v] : op.pull ? 2 : 1};
    }
    return code;
}

/* ---- Streams ---- */

/* How many streams of each kind an operation has: of its push, and of a pull behind it. */
typedef struct counts {
    int values, again, both, write, outs;
    bool pull; /* a pass of its own: one array is read, outs are written */
} counts;

static counts count_streams(const bench_data *data, bench_case c)
{
    counts k = {0};
    const bench_optimizer *o = c.op.optimizer;
    if (c.op.push) {
        k.values = c.n + (o && o->again < 0 ? o->again : 0);
        k.again = o && o->again > 0 ? o->again : 0;
        k.both = (o ? o->both : 0) + (data->compression ? c.n : 0);
        k.write = !o;
    }
    k.outs = c.op.pull ? c.n : 0;
    k.pull = c.op.pull && !c.op.joined;
    return k;
}

/* Each array once for reading and once for writing, with the ids of rows that are not a table's. */
static int64_t model_bytes(const counts *k, const bench_room *r)
{
    int64_t packed = k->values + k->write + k->outs + k->pull;
    return r->all_bytes * (packed + k->again + 2 * k->both) +
           packed * r->nrows * (int64_t)sizeof *r->row_ids;
}

/* The ids that the loops over rows do not read themselves: an array holds its own beside its rows.
 */
static int make_id_mix(bench_room *r, const counts *k, bool table, stream_mix *m)
{
    *m = (stream_mix){.cut = &r->id_cut};
    for (int v = table; v < k->values; v++)
        m->read[m->nread++] = &r->value_ids[v];
    for (int s = 0; s < k->write + k->outs; s++)
        m->write[m->nwrite++] = &r->scratch_ids[s];
    return m->nread + m->nwrite > 0;
}

/* Whether rows are looked up by id: of a table, or where several values are summed, which hold the
 * same rows but need not. The loop then gathers, adds and scatters in a table. */
static bool finds_rows(const bench_data *data, bench_case c)
{
    return data->sparse && (c.op.optimizer || !c.op.push || c.n > 1);
}

/* The loops of a case, with the arrays of the store's own calls where these are the caller's. */
static int make_mixes(bench_room *r, bench_case c, const counts *k, stream_mix mix[3])
{
    int n = 0, used = 0;
    bool table = finds_rows(r->data, c);
    for (int i = 0; i < 2; i++)
        mix[i] = (stream_mix){
            .cut = &r->cut, .rows = table ? r->row_ids : NULL, .row_bytes = BENCH_SPARSE_WIDTH * 4};
    if (c.op.push) {
        stream_mix *m = &mix[n++];
        for (int v = 0; v < k->values; v++)
            m->read[m->nread++] = r->value_data[v];
        for (int i = 0; i < k->both; i++)
            m->both[m->nboth++] = table ? &r->table : r->scratch[used++];
        for (int i = 0; i < k->again; i++)
            m->read[m->nread++] = r->scratch[used++];
        for (int i = 0; i < k->write && table; i++)
            m->both[m->nboth++] = &r->table;
        for (int i = 0; i < k->write && !table; i++)
            m->write[m->nwrite++] = r->scratch[used++];
        for (int v = 0; v < k->outs && c.op.joined; v++)
            m->write[m->nwrite++] = r->out_data[v];
    }
    if (k->pull) {
        stream_mix *m = &mix[n++];
        if (table)
            m->gather = r->table;
        else
            m->read[m->nread++] = r->scratch[0];
        for (int v = 0; v < k->outs; v++)
            m->write[m->nwrite++] = table ? r->scratch[v] : r->out_data[v];
    }
    return n + (r->data->sparse && make_id_mix(r, k, table, &mix[n]));
}

static int need_scratch(const bench_data *data, const counts *k)
{
    int n = k->again + k->write + (data->sparse ? 0 : k->both);
    if (k->pull && data->sparse)
        n += k->outs;
    return n > 0 ? n : 1;
}

/* ---- Memory ---- */

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Bytes that a workload needs at most: what the room keeps, and the store that needs most. loops:
 * with what the loops write. */
static int64_t need_bytes(const bench_data *data, const bench_shapes *shapes,
                          const bench_case *cases, int ncases, bool loops)
{
    int64_t values = 0, outs = 0, scratch = 0, store = 0, each = 0;
    int64_t one = shapes->elements * kv_dtype_bytes(data->dtype);
    if (data->sparse)
        one /= BENCH_SPARSE_EVERY;
    for (int i = 0; i < ncases; i++) {
        counts k = count_streams(data, cases[i]);
        const bench_optimizer *o = cases[i].op.optimizer;
        int64_t copies = 1 + (o ? o->states : 0) + (data->compression ? cases[i].n : 0);
        values = larger(values, larger(k.values, 1));
        outs = larger(outs, k.outs);
        scratch = larger(scratch, loops ? need_scratch(data, &k) : 0);
        store = larger(store, copies);
    }
    /* what a key costs beside its elements, and the array that a check pulls into */
    each = shapes->n * 1024 * (values + outs + store) / 2;
    int64_t tables = data->sparse ? 4 * bench_room_table_bytes(shapes) : 0;
    return one * (values + outs + scratch + store + 1) + each + tables;
}

static int no_memory(const bench_workload *w, const char *what, int64_t need, int64_t available,
                     kv_err *e)
{
    kv_err_set(e, KV_E_MEMORY, "%s (%s) needs %lld MB, and %s has %lld MB to give", w->name,
               w->about, (long long)(need >> 20), what, (long long)(available >> 20));
    return kv_err_hint(e, "fewer --values, other --op%s, or --quick",
                       w->size > 0 ? ", a smaller --size" : "");
}

/* A key costs at least a kilobyte in lists, arrays and slots: whether there is room for the list of
 * shapes itself, which is then made. */
static int check_list(const bench_workload *w, int64_t size, kv_err *e)
{
    int64_t available = bench_memory_available();
    if (!w->counts_keys || available == 0 || size <= available / 1024)
        return KV_OK;
    return no_memory(w, "this machine", size > INT64_MAX / 1024 ? INT64_MAX : size * 1024,
                     available, e);
}

/* On a GPU everything has a place in both memories, and the copies have blocks of their own. */
static int check_memory(const bench_place *place, const bench_workload *w, const bench_data *data,
                        const bench_shapes *shapes, const bench_case *cases, int ncases, kv_err *e)
{
    char name[KV_CTX_TEXT];
    bool gpu = bench_place_is_gpu(place);
    int64_t need = need_bytes(data, shapes, cases, ncases, !gpu);
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

/* ---- Stores ---- */

/* The rows that a table begins with: all of them, ones. */
static int init_table(bench_room *r, kv *store, kv_err *e)
{
    const bench_shape *s = &r->shapes.items[0];
    kv_array *all = NULL;
    void *data;
    int64_t *ids = mem_alloc(s->shape[0], sizeof *ids, e);
    if (!ids)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < s->shape[0]; i++)
        ids[i] = i;
    if (kv_array_new_sparse(&all, r->data->dtype, s->ndim, s->shape, s->shape[0], ids, (kv_ctx){0},
                            e) == KV_OK &&
        kv_array_write_rows(all, &data, e) == KV_OK) {
        for (int64_t i = 0; i < s->size; i++)
            ((float *)data)[i] = 1;
        kv_init(store, r->keys, 1, &all, NULL, e);
    }
    mem_free(ids);
    kv_array_unref(all);
    return e->code ? e->code : kv_wait(store, e);
}

/* Keys of the type device get to the GPU of their values with the first push. */
static bool keys_move(const bench_room *r)
{
    return bench_place_is_gpu(r->place) && !r->place->home;
}

static int make_store(bench_room *r, bench_case c, kv **store, kv_err *e)
{
    const bench_optimizer *o = c.op.optimizer;
    const char *compression = c.op.push ? r->data->compression : NULL;
    kv_opt opts[] = {{"type", compression}, {"threshold", "0.5"}};
    bool table = r->data->sparse && (o || !c.op.push), device = r->place->n > 0 && !r->place->home;
    if (kv_create(device || compression ? "device" : "local", NULL, 0, store, e))
        return e->code;
    if (compression && kv_set_gradient_compression(*store, opts, 2, e))
        return e->code;
    if (table ? init_table(r, *store, e)
              : kv_init(*store, r->keys, r->shapes.n, r->values[0], NULL, e))
        return e->code;
    if (o && kv_set_optimizer(*store, o->optimizer, o->params, o->nparams, e))
        return e->code;
    if (!c.op.push && !table && keys_move(r) &&
        kv_push(*store, r->keys, r->shapes.n, r->values[0], NULL, e))
        return e->code;
    return kv_wait(*store, e);
}

/* ---- One row ---- */

/* A key list of a call: the n values of a key stand one behind the other. */
typedef struct pairs {
    kv_key *keys;
    kv_array **arrays, **ids;
    int64_t n;
} pairs;

static int make_pairs(pairs *p, const bench_room *r, kv_array **const *sets, int n, kv_err *e)
{
    *p = (pairs){0};
    p->keys = mem_alloc(r->shapes.n * n, sizeof *p->keys, e);
    p->arrays = mem_alloc(r->shapes.n * n, sizeof *p->arrays, e);
    p->ids = mem_alloc(r->shapes.n * n, sizeof *p->ids, e);
    if (!p->keys || !p->arrays || !p->ids)
        return KV_E_MEMORY;
    for (int64_t k = 0; k < r->shapes.n; k++)
        for (int v = 0; v < n; v++, p->n++) {
            p->keys[p->n] = r->keys[k];
            p->arrays[p->n] = sets[v][k];
            p->ids[p->n] = r->ids;
        }
    return KV_OK;
}

static void release_pairs(pairs *p)
{
    mem_free(p->keys);
    mem_free(p->arrays);
    mem_free(p->ids);
}

typedef struct bench_row_run {
    const bench_plan *plan;
    const bench_watch *watch;
    bench_room *room;
    bench_case which;
    kv *store;
    pairs push, pull;
    stream_mix mix[3];
    int nmixes;
    bool gpu;
    bench_copies copies; /* on GPUs instead of the loops */
    int64_t pushes, checked;
    int64_t done; /* runs of the rows before it */
    double *ours, *plain, *streaming; /* plan->runs each; plain: of the copies on GPUs */
} bench_row_run;

static int call_store(bench_row_run *b, kv_err *e)
{
    pairs *in = &b->push, *out = &b->pull;
    bool sparse = b->room->data->sparse;
    b->pushes += b->which.op.push;
    if (b->which.op.joined) {
        kv_pushpull(b->store, in->keys, in->n, in->arrays, out->keys, out->n, out->arrays, NULL, e);
        return e->code ? e->code : kv_wait(b->store, e);
    }
    if (b->which.op.push && kv_push(b->store, in->keys, in->n, in->arrays, NULL, e))
        return e->code;
    if (b->which.op.pull &&
        (sparse ? kv_row_sparse_pull(b->store, out->keys, out->n, out->ids, out->arrays, NULL, e)
                : kv_pull(b->store, out->keys, out->n, out->arrays, NULL, e)))
        return e->code;
    return kv_wait(b->store, e);
}

static int time_store(bench_row_run *b, double *seconds, kv_err *e)
{
    int nvalues = b->which.op.push ? b->which.n : 0, nouts = b->which.op.pull ? b->which.n : 0;
    int code = bench_room_renew(b->room, nvalues, nouts, e);
    double from = stream_now();
    if (code == KV_OK && (code = call_store(b, e)) == KV_OK)
        code = bench_place_wait(b->room->place, e);
    *seconds = stream_now() - from;
    return code;
}

static double time_loop(const bench_row_run *b, bool streaming)
{
    double from = stream_now();
    for (int i = 0; i < b->nmixes; i++)
        stream_run(&b->mix[i], streaming);
    return stream_now() - from;
}

static int time_limit(bench_row_run *b, double *plain, double *streaming, kv_err *e)
{
    if (b->gpu) {
        double from = stream_now();
        int code = bench_copies_run(&b->copies, e);
        *plain = stream_now() - from;
        return code;
    }
    *plain = time_loop(b, false);
    *streaming = time_loop(b, true);
    return KV_OK;
}

/* Compares what came out of the last call. */
static int check(bench_row_run *b, bool store_too, kv_err *e)
{
    const bench_room *r = b->room;
    kv_array *expected = NULL;
    int code = bench_expect(&expected, r->data, b->which.op, b->which.n, b->pushes, e);
    for (int v = 0; b->which.op.pull && v < b->which.n && code == KV_OK; v++)
        code = bench_compare(r, r->outs[v], b->which.op, expected, &b->checked, e);
    if (code == KV_OK && store_too && !b->which.op.pull)
        code = bench_compare_store(r, b->store, b->which.op, expected, &b->checked, e);
    kv_array_unref(expected);
    return code;
}

/* The runs in turn. The outs are looked at each time: the loops have written into them between. */
static int alternate(bench_row_run *b, kv_err *e)
{
    double unused;
    int runs = b->plan->runs, code = time_store(b, &unused, e);
    if (code == KV_OK)
        code = time_limit(b, &unused, &unused, e);
    for (int i = 0; i < runs && code == KV_OK; i++) {
        if (b->watch->stop && (code = b->watch->stop(b->watch->arg, e)))
            break;
        progress_step(b->done + i);
        if ((code = time_store(b, &b->ours[i], e)) || (code = check(b, i + 1 == runs, e)))
            break;
        code = time_limit(b, &b->plain[i], &b->streaming[i], e);
    }
    return code;
}

/* A copy of n numbers in ascending order, in room for twice as many. */
static double *sorted(double *room, const double *x, int n)
{
    memcpy(room, x, (size_t)n * sizeof *x);
    stream_median(room, n);
    return room;
}

static int report(bench_row_run *b, const bench_workload *w, const counts *k, kv_err *e)
{
    int n = b->plan->runs;
    double room[STREAM_PAIRS];
    bench_row row = {.workload = w->name,
                     .about = w->about,
                     .data = b->room->data->name,
                     .values = b->which.n,
                     .arrays = b->room->shapes.n,
                     .elements = b->room->shapes.elements,
                     .bytes = model_bytes(k, b->room),
                     .runs = n,
                     .samples = b->ours,
                     .checked = b->checked};
    bench_op_name(row.op, b->which.op);
    row.limit = stream_median(sorted(room, b->plain, n), n);
    row.limit_samples = b->plain;
    row.limit_is = !b->gpu ? "plain" : b->plan->place.home ? "transfer" : "copy";
    double streaming = b->gpu ? INFINITY : stream_median(sorted(room, b->streaming, n), n);
    if (streaming < row.limit) {
        row.limit = streaming;
        row.limit_samples = b->streaming;
        row.limit_is = "streaming";
    }
    row.fraction = stream_ratio(b->ours, row.limit_samples, n);
    row.median = stream_median(sorted(room, b->ours, n), n);
    row.least = room[0];
    row.p95 = room[(95 * n + 99) / 100 - 1];
    return b->watch->row ? b->watch->row(b->watch->arg, &row, e) : KV_OK;
}

/* The loops, or on GPUs the copies, that this case is measured against. */
static int make_limit(bench_row_run *b, const counts *k, kv_err *e)
{
    bool push = b->which.op.push, pull = b->which.op.pull;
    bench_traffic t = {.bytes = model_bytes(k, b->room),
                       .each = b->room->all_bytes,
                       .nvalues = push ? b->which.n : 0,
                       .nouts = pull ? b->which.n : 0};
    if (b->gpu)
        return bench_copies_init(&b->copies, b->room->place, &t, e);
    b->nmixes = make_mixes(b->room, b->which, k, b->mix);
    return KV_OK;
}

/* done: runs before it */
static int run_case(const bench_plan *p, const bench_watch *watch, const bench_workload *w,
                    bench_room *r, bench_case which, int64_t done, kv_err *e)
{
    bench_row_run b = {.plan = p, .watch = watch, .room = r, .which = which, .done = done};
    counts k = count_streams(r->data, which);
    b.gpu = bench_place_is_gpu(r->place);
    int nvalues = which.op.push ? which.n : 1, nscratch = b.gpu ? 0 : need_scratch(r->data, &k);
    bool table = !b.gpu && finds_rows(r->data, which);
    int code = bench_room_need(r, nvalues, k.outs, nscratch, table, e);
    if (code == KV_OK)
        code = make_store(r, which, &b.store, e);
    if (code == KV_OK && which.op.push)
        code = make_pairs(&b.push, r, r->values, which.n, e);
    if (code == KV_OK && which.op.pull)
        code = make_pairs(&b.pull, r, r->outs, which.n, e);
    b.ours = mem_alloc(3 * (int64_t)p->runs, sizeof *b.ours, e);
    if (code == KV_OK && b.ours) {
        b.plain = b.ours + p->runs;
        b.streaming = b.plain + p->runs;
        if ((code = make_limit(&b, &k, e)) == KV_OK && (code = alternate(&b, e)) == KV_OK)
            code = report(&b, w, &k, e);
    }
    bench_copies_release(&b.copies);
    kv_free(b.store);
    release_pairs(&b.push);
    release_pairs(&b.pull);
    mem_free(b.ours);
    return code ? code : e->code;
}

/* ---- All rows ---- */

/* A visitor of the workloads of a plan, once for each kind of data. */
typedef struct walk {
    const bench_plan *plan;
    const bench_watch *watch;
    int64_t rows; /* to be measured */
    int64_t done; /* runs so far */
} walk;

typedef int visit_workload(walk *k, const bench_workload *w, const bench_data *data,
                           bench_shapes *shapes, const bench_case *cases, int ncases, kv_err *e);

static int visit(walk *k, int i, const bench_data *data, visit_workload *what, kv_err *e)
{
    const bench_plan *p = k->plan;
    const bench_workload *w = p->workloads[i];
    bench_case cases[MAX_CASES];
    bench_shapes shapes = {0};
    int ncases, code = make_cases(p, w, cases, &ncases, e);
    if (code == KV_OK)
        code = check_list(w, p->sizes[i], e);
    if (code == KV_OK)
        code = bench_workload_shapes(w, p->sizes[i], p->quick, &shapes, e);
    if (code == KV_OK)
        code = what(k, w, data, &shapes, cases, ncases, e);
    mem_free(shapes.items);
    return code;
}

static int walk_plan(walk *k, visit_workload *what, kv_err *e)
{
    int code = KV_OK;
    for (int i = 0; i < k->plan->nworkloads && code == KV_OK; i++)
        for (int d = 0; d < 2 && k->plan->workloads[i]->data[d].name && code == KV_OK; d++)
            code = visit(k, i, &k->plan->workloads[i]->data[d], what, e);
    return code;
}

static int visit_check(walk *k, const bench_workload *w, const bench_data *data,
                       bench_shapes *shapes, const bench_case *cases, int ncases, kv_err *e)
{
    k->rows += ncases;
    return check_memory(&k->plan->place, w, data, shapes, cases, ncases, e);
}

static int visit_run(walk *k, const bench_workload *w, const bench_data *data, bench_shapes *shapes,
                     const bench_case *cases, int ncases, kv_err *e)
{
    bench_room room;
    int code = bench_room_init(&room, data, &k->plan->place, shapes, e);
    for (int i = 0; i < ncases && code == KV_OK; i++) {
        code = run_case(k->plan, k->watch, w, &room, cases[i], k->done, e);
        k->done += k->plan->runs;
        progress_step(k->done);
    }
    bench_room_release(&room);
    return code;
}

/* ---- Drift ---- */

enum { REFERENCE_TIMES = 9 };

/* The same of copies on GPUs, of one out. */
static int time_reference_copy(double *seconds, const bench_place *place, int64_t bytes, kv_err *e)
{
    bench_copies c;
    bench_traffic t = {.bytes = 2 * bytes, .each = bytes, .nouts = 1};
    double times[REFERENCE_TIMES];
    int code = bench_copies_init(&c, place, &t, e);
    if (code == KV_OK)
        code = bench_copies_run(&c, e);
    for (int i = 0; i < REFERENCE_TIMES && code == KV_OK; i++) {
        double from = stream_now();
        code = bench_copies_run(&c, e);
        times[i] = stream_now() - from;
    }
    if (code == KV_OK)
        *seconds = stream_median(times, REFERENCE_TIMES);
    bench_copies_release(&c);
    return code;
}

/* A loop that does not depend on the plan, larger than the caches. */
static int time_reference(double *seconds, const bench_place *place, bool quick, kv_err *e)
{
    int64_t bytes = (int64_t)(quick ? 8 : 48) << 20;
    stream_cut cut;
    double times[REFERENCE_TIMES];
    if (bench_place_is_gpu(place))
        return time_reference_copy(seconds, place, bytes, e);
    void *block[2] = {mem_alloc_data(bytes, e), mem_alloc_data(bytes, e)};
    int code = stream_cut_init(&cut, &bytes, 1, e);
    if (code == KV_OK && block[0] && block[1]) {
        stream_mix m = {
            .cut = &cut, .nread = 1, .nwrite = 1, .read = {block}, .write = {block + 1}};
        memset(block[0], 1, (size_t)bytes);
        stream_run(&m, false);
        for (int i = 0; i < REFERENCE_TIMES; i++) {
            double from = stream_now();
            stream_run(&m, false);
            times[i] = stream_now() - from;
        }
        *seconds = stream_median(times, REFERENCE_TIMES);
    }
    stream_cut_release(&cut);
    mem_free_data(block[0]);
    mem_free_data(block[1]);
    return e->code;
}

/* What is wrong with a plan shows before anything is measured. Counts the rows, too. */
static int check_plan(const bench_plan *p, walk *k, kv_err *e)
{
    if (p->runs < 1 || p->runs > STREAM_PAIRS)
        return kv_err_set(e, KV_E_VALUE, "the runs lie in 1 .. %d, %d does not", STREAM_PAIRS,
                          p->runs);
    return walk_plan(k, visit_check, e);
}

int bench_threads(void)
{
    return pool_workers();
}

int bench_run(double *drift, const bench_plan *p, const bench_watch *watch, kv_err *e)
{
    walk k = {.plan = p, .watch = watch};
    double before = 1, after = 1;
    int code = check_plan(p, &k, e);
    if (code || (code = time_reference(&before, &p->place, p->quick, e)))
        return code;
    progress_begin("bench", k.rows * p->runs, PROGRESS_TIMES);
    code = walk_plan(&k, visit_run, e);
    progress_end();
    if (code == KV_OK && (code = time_reference(&after, &p->place, p->quick, e)) == KV_OK)
        *drift = (before > after ? before / after : after / before) - 1;
    return code;
}
