/* What a benchmark measures: words into workloads, operations and counts of values. */
#include <strings.h>

#include <string.h>

#include "base/num.h"
#include "bench/bench.h"

static bool same_word(const char *name, const char *text, size_t n)
{
    return strlen(name) == n && memcmp(name, text, n) == 0;
}

static int add_workload(bench_plan *p, const bench_workload *w, int64_t size, kv_err *e)
{
    if (p->nworkloads == BENCH_MAX_WORKLOADS)
        return kv_err_set(e, KV_E_USAGE, "a benchmark takes at most %d workloads",
                          BENCH_MAX_WORKLOADS);
    p->workloads[p->nworkloads] = w;
    p->sizes[p->nworkloads++] = size;
    return KV_OK;
}

int bench_plan_workload(bench_plan *p, const char *text, size_t n, kv_err *e)
{
    int code = KV_OK;
    bool all = same_word("all", text, n), found = all;
    for (const bench_workload *w = bench_workloads; w->name && code == KV_OK; w++) {
        if (all || (strlen(w->name) == n && strncasecmp(w->name, text, n) == 0)) {
            found = true;
            code = add_workload(p, w, 0, e);
        }
    }
    if (found)
        return code;
    kv_err_set(e, KV_E_USAGE, "there is no workload `%.*s`", (int)(n < 40 ? n : 40), text);
    return kv_err_hint(e, "W1 to W8, or all");
}

static int add_op(bench_plan *p, bench_op op, kv_err *e)
{
    if (p->nops == BENCH_MAX_OPS)
        return kv_err_set(e, KV_E_USAGE, "a benchmark takes at most %d operations", BENCH_MAX_OPS);
    p->ops[p->nops++] = op;
    return KV_OK;
}

int bench_plan_op(bench_plan *p, const char *text, size_t n, kv_err *e)
{
    bench_op op;
    int code = KV_OK;
    if (same_word("optimizers", text, n)) {
        for (const bench_optimizer *o = bench_optimizers; o->name && code == KV_OK; o++)
            code = add_op(p, (bench_op){true, false, false, o}, e);
        return code;
    }
    code = bench_op_parse(&op, text, n, e);
    return code ? code : add_op(p, op, e);
}

int bench_plan_values(bench_plan *p, const char *text, size_t n, kv_err *e)
{
    int64_t x = 0;
    bool over = false;
    if (n == 0 || num_parse_int(text, n, &x, &over) != n || over || x < 1 || x > BENCH_MAX_VALUES)
        return kv_err_set(e, KV_E_VALUE, "a key gets 1 to %d values, not %.*s", BENCH_MAX_VALUES,
                          (int)(n < 40 ? n : 40), text);
    if (p->nvalues == BENCH_MAX_VALUES)
        return kv_err_set(e, KV_E_USAGE, "a benchmark takes at most %d counts of values",
                          BENCH_MAX_VALUES);
    p->values[p->nvalues++] = (int)x;
    return KV_OK;
}

int bench_plan_words(bench_plan *p, const char *list, bench_take *take, kv_err *e)
{
    int code = KV_OK;
    while (*list && code == KV_OK) {
        size_t n = strcspn(list, ",");
        code = take(p, list, n, e);
        list += n + (list[n] == ',');
    }
    return code;
}

/* What a push of two values of `bytes` takes: the values, the store, the loop's own array and one
 * to look at. */
static bool fits(int64_t bytes)
{
    int64_t available = bench_memory_available();
    return available == 0 || 5 * bytes + ((int64_t)256 << 20) < available;
}

int bench_plan_scale(bench_plan *p, kv_err *e)
{
    int64_t most = p->quick ? (int64_t)16 << 20 : (int64_t)4 << 30;
    int64_t keys = p->quick ? 10000 : 1000000;
    int code = KV_OK;
    for (int64_t bytes = 1 << 20; bytes <= most && fits(bytes) && code == KV_OK; bytes *= 4)
        code = add_workload(p, &bench_scale_bytes, bytes / 4, e);
    for (int64_t n = 10; n <= keys && code == KV_OK; n *= 10)
        code = add_workload(p, &bench_scale_keys, n, e);
    return code;
}
