/* Rows of links: as a table or CSV, or in the record of --json. */
#include "cmd_bench.h"

#include <math.h>

#include "base/mem.h"
#include "bench_link.h"
#include "session/result.h"
#include "session/unit.h"

/* Tenths of nanoseconds, and thousandths for the cost of a byte. */
static value rounded(double x, double steps)
{
    return value_float(round(x * steps) / steps);
}

static int add_row(rows *t, const bench_link *l, kv_err *e)
{
    if (rows_add(t, value_int(l->rank), e) || rows_add_text(t, l->host, e) ||
        rows_add_text(t, l->link, e) || rows_add(t, rounded(l->latency_ns, 10), e) ||
        rows_add(t, rounded(l->overhead_ns, 10), e) || rows_add(t, rounded(l->gap_ns, 1000), e) ||
        rows_add(t, rounded(l->alone_ns, 10), e))
        return e->code;
    if (rows_add(t, rounded(l->one_ns, 10), e) || rows_add(t, rounded(l->push_ns, 10), e) ||
        rows_add(t, rounded(l->threads.switch_ns, 10), e) ||
        rows_add(t, rounded(l->threads.wake_ns, 10), e))
        return e->code;
    return rows_add(t, rounded(l->threads.post_ns, 10), e);
}

static int print(session *s, const rows *t, bool csv, kv_err *e)
{
    own_buf text = {0};
    int code = csv ? rows_csv(&text, t, ',', e) : rows_print(&text, t, e);
    if (code == KV_OK && (code = buf_check(&text, e)) == KV_OK)
        code = session_out(s, buf_text(&text), text.len, e);
    return code;
}

/* --quick, --runs and --format alone have a meaning here. */
static int refuse_others(session *s, const ast *call, kv_err *e)
{
    static const char *const others[] = {"op", "values", "size", "min-fraction", "ctx", "type"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const ast *node = command_option_of(call, others[i]);
        if (node)
            return unit_err(s, node, e, KV_E_USAGE, "--link measures links, without --%s",
                            others[i]);
    }
    if (call->kid[0] && call->kid[0]->n > 0)
        return unit_err(s, call->kid[0], e, KV_E_USAGE, "--link measures links, and no workload");
    return KV_OK;
}

int bench_link_show(session *s, const ast *call, int runs, bool csv, result *out, kv_err *e)
{
    static const rows_column columns[] = {
        {"rank", "rank"},       {"host", "host"},          {"link", "link"},
        {"latency_ns", "L ns"}, {"overhead_ns", "o ns"},   {"gap_ns", "G ns/byte"},
        {"alone_ns", "pull ns"}, {"one_ns", "of many ns"},
        {"push_ns", "push ns"}, {"switch_ns", "switch ns"}, {"wake_ns", "wake ns"},
        {"post_ns", "post ns"}};
    int n = 0, code;
    bool quick = command_option_of(call, "quick") != NULL;
    bench_link *links = NULL;
    if (refuse_others(s, call, e))
        return e->code;
    rows table = {columns, sizeof columns / sizeof *columns, NULL, 0, 0};
    if ((code = bench_link_run(&links, &n, runs, quick, e)))
        code = unit_at(s, call, e);
    for (int i = 0; i < n && code == KV_OK; i++)
        code = add_row(&table, &links[i], e);
    mem_free(links);
    if (code == KV_OK && s->out.recorder.on) {
        out->entries = table;
        out->entries_name = "links";
        return KV_OK;
    }
    if (code == KV_OK && n > 0)
        code = print(s, &table, csv, e);
    rows_release(&table);
    return code;
}
