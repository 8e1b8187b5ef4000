/* Reads the words of a benchmark: workloads, operations and counts of values. */
#include <strings.h>

#include <string.h>

#include "base/num.h"
#include "bench.h"

static bool same_word(const char *name, const char *text, size_t n)
{
    return strlen(name) == n && memcmp(name, text, n) == 0;
}

int bench_plan_workload(bench_plan *p, const char *text, size_t n, kv_err *e)
{
    bool all = same_word("all", text, n), found = all;
    for (const bench_workload *w = bench_workloads; w->name; w++) {
        if (all || (strlen(w->name) == n && strncasecmp(w->name, text, n) == 0)) {
            found = true;
            if (p->nworkloads == BENCH_MAX_WORKLOADS)
                return kv_err_set(e, KV_E_USAGE, "a benchmark takes at most %d workloads",
                                  BENCH_MAX_WORKLOADS);
            p->workloads[p->nworkloads++] = w;
        }
    }
    if (found)
        return KV_OK;
    kv_err_set(e, KV_E_USAGE, "there is no workload `%.*s`", (int)(n < 40 ? n : 40), text);
    return kv_err_hint(e, "W1 to W5, W7, W8, or all"), KV_E_USAGE;
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
