/* bench: reads what is asked for, and shows rows as they come: as a table, CSV, or for --json whole
 * at the end. What is measured is in cli/bench/bench.h. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "array/device.h"
#include "base/num.h"
#include "cmd/commands.h"
#include "eval/eval.h"
#include "session/unit.h"
#include "term/progress.h"
#include "bench/bench.h"

#define DRIFT_MOST 0.1

/* ---- What is asked for ---- */

static int take_list(session *s, const ast *node, bench_plan *p, bench_take *take, kv_err *e)
{
    value v;
    int code = eval_text(s, node, "a list of words", &v, e);
    if (code)
        return code;
    code = bench_plan_words(p, v.u.text->text, take, e);
    value_release(&v);
    return code ? unit_at(s, node, e) : KV_OK;
}

static int take_option(session *s, const ast *call, const char *name, bench_plan *p,
                       bench_take *take, kv_err *e)
{
    const ast *node = command_option_of(call, name);
    return node ? take_list(s, node, p, take, e) : KV_OK;
}

/* The number of an option, at least `least`; *out stays as it is without the option. */
static int take_number(session *s, const ast *call, const char *name, double least, double *out,
                       kv_err *e)
{
    const ast *node = command_option_of(call, name);
    value v, number;
    int code;
    if (!node)
        return KV_OK;
    if ((code = eval(s, node, &v, e)))
        return code;
    if ((code = value_item(&number, v, e)) == KV_OK) {
        *out = value_number(number);
        value_release(&number);
        if (!(*out >= least && *out <= 9e15))
            code = kv_err_set(e, KV_E_VALUE, "--%s is at least %d", name, (int)least);
    }
    value_release(&v);
    return code ? unit_at(s, node, e) : KV_OK;
}

/* --size is for the workloads that have one. */
static int take_size(session *s, const ast *call, bench_plan *p, kv_err *e)
{
    double size = 0;
    bool used = false;
    int code = take_number(s, call, "size", 1, &size, e);
    if (code || size == 0)
        return code;
    for (int i = 0; i < p->nworkloads; i++)
        if (p->workloads[i]->size > 0) {
            p->sizes[i] = (int64_t)size;
            used = true;
        }
    if (used)
        return KV_OK;
    unit_err(s, command_option_of(call, "size"), e, KV_E_USAGE,
             "none of the workloads has a --size");
    return kv_err_hint(e, "W4 (keys), W5 (elements) and W6 (rows) have one");
}

/* The word of an option that is one of two. Out: whether it is the first; *is stays as it is
 * without the option. */
static int take_word(session *s, const ast *call, const char *name, const char *const words[2],
                     bool *is, kv_err *e)
{
    const ast *node = command_option_of(call, name);
    value v;
    int code;
    if (!node)
        return KV_OK;
    if ((code = eval_text(s, node, "a word", &v, e)))
        return code;
    *is = strcmp(v.u.text->text, words[0]) == 0;
    if (!*is && strcmp(v.u.text->text, words[1]) != 0)
        code = unit_err(s, node, e, KV_E_USAGE, "bench knows the %ss %s and %s, not \"%s\"", name,
                        words[1], words[0], v.u.text->text);
    value_release(&v);
    return code;
}

/* Figures of virtual GPUs say nothing of GPUs, so they are only given to who wants them. */
static int check_device(session *s, const ast *node, kv_ctx ctx, kv_err *e)
{
    kv_err why = {0};
    if (ctx.device != KV_GPU || s->gpus_wanted || gpu_find(&why))
        return session_ctx(s, ctx, e) == KV_OK && dev_find(ctx, e) ? KV_OK : unit_at(s, node, e);
    unit_err(s, node, e, KV_E_UNSUPPORTED, "there is no gpu(%d) to measure: %s", ctx.id, why.text);
    return kv_err_hint(e, "--gpus %d measures virtual ones, which are host memory", ctx.id + 1);
}

static int take_devices(session *s, const ast *node, const value *where, bench_place *p, kv_err *e)
{
    bool list = value_is_sequence(*where);
    int64_t n = list ? where->u.list->n : 1;
    if (n < 1 || n > BENCH_MAX_VALUES)
        return unit_err(s, node, e, KV_E_VALUE, "a benchmark takes 1 to %d devices, not %lld",
                        BENCH_MAX_VALUES, (long long)n);
    for (int64_t i = 0; i < n; i++) {
        kv_ctx ctx = list ? where->u.list->items[i].u.ctx : where->u.ctx;
        if (i > 0 && ctx.device != p->ctx[0].device)
            return unit_err(s, node, e, KV_E_USAGE,
                            "the values of a benchmark lie on cpus or on gpus, not on both");
        if (check_device(s, node, ctx, e))
            return e->code;
        p->ctx[p->n++] = ctx;
    }
    return KV_OK;
}

/* --ctx and --type: without them cpu(0) and local; on GPUs keys follow their values, as in device.
 */
static int take_place(session *s, const ast *call, bench_place *p, kv_err *e)
{
    static const char *const types[2] = {"local", "device"};
    const ast *node = command_option_of(call, "ctx");
    value where;
    int code;
    if (node && (code = eval_devices(s, node, &where, e)) == KV_OK) {
        code = take_devices(s, node, &where, p, e);
        value_release(&where);
    }
    if (node && code)
        return code;
    p->home = p->n == 0 || p->ctx[0].device == KV_CPU;
    return take_word(s, call, "type", types, &p->home, e);
}

static int make_plan(session *s, const ast *call, bench_plan *p, kv_err *e)
{
    const ast *words = call->kid[0], *runs = command_option_of(call, "runs");
    bool scale = command_option_of(call, "scale") != NULL;
    int32_t n = 9;
    int code = KV_OK;
    p->quick = command_option_of(call, "quick") != NULL;
    if (runs && (code = eval_int(s, runs, "a count of runs", &n, e)))
        return code;
    p->runs = n;
    if (n < 1 || n > STREAM_PAIRS)
        return unit_err(s, runs, e, KV_E_VALUE, "the runs lie in 1 .. %d, %d does not",
                        STREAM_PAIRS, n);
    if (words && scale)
        return unit_err(s, words, e, KV_E_USAGE, "--scale has workloads of its own");
    for (uint32_t i = 0; words && i < words->n && code == KV_OK; i++)
        code = take_list(s, words->kid[i], p, bench_plan_workload, e);
    if (code == KV_OK && (code = take_option(s, call, "op", p, bench_plan_op, e)) == KV_OK)
        code = take_option(s, call, "values", p, bench_plan_values, e);
    if (code == KV_OK && scale)
        code = bench_plan_scale(p, e);
    if (code == KV_OK && p->nworkloads == 0)
        code = bench_plan_workload(p, "W1", 2, e);
    if (code || (code = take_place(s, call, &p->place, e)))
        return code;
    return take_size(s, call, p, e);
}

/* The words that are literal. */
static int check_list(const ast *node, bench_take *take, const ast **bad, kv_err *e)
{
    bench_plan scratch = {0};
    *bad = node;
    return node && node->kind == AST_TEXT ? bench_plan_words(&scratch, node->u.text, take, e)
                                          : KV_OK;
}

int cmd_bench_check(const source *src, const ast *call, const map *types, kv_err *e)
{
    const ast *words = call->kid[0], *bad = NULL;
    int code = KV_OK;
    (void)types;
    for (uint32_t i = 0; words && i < words->n && code == KV_OK; i++)
        code = check_list(words->kid[i], bench_plan_workload, &bad, e);
    if (code == KV_OK)
        code = check_list(command_option_of(call, "op"), bench_plan_op, &bad, e);
    if (code == KV_OK)
        code = check_list(command_option_of(call, "values"), bench_plan_values, &bad, e);
    return code ? source_at(src, bad->pos, bad->end, e) : KV_OK;
}

/* ---- Rows ---- */

/* The straight line through points (log of the size, log of the time): its slope is the power of
 * the size with which the time grows. */
typedef struct growth {
    int n;
    double x, y, xx, xy; /* sums */
} growth;

/* What rows are shown as, and what they add up to. */
typedef struct shown {
    session *s;
    rows *table; /* with --json */
    const bench_place *place;
    char device[128]; /* the name of the first one */
    bool csv, scale;
    int nrows;
    double least;    /* fraction of all rows so far */
    double minimum;  /* --min-fraction, or 0 */
    int below;       /* rows below it */
    char worst[160]; /* what the row with the least was */
    struct {
        growth ours, loop;
    } bytes, keys; /* with --scale */
} shown;

static const rows_column columns[] = {
    {"workload", NULL}, {"op", NULL},         {"values", NULL},
    {"data", NULL},     {"arrays", NULL},     {"elements", NULL},
    {"bytes", NULL},    {"min_us", NULL},     {"median_us", NULL},
    {"p95_us", NULL},   {"gb_s", NULL},       {"limit", NULL},
    {"limit_us", NULL}, {"limit_gb_s", NULL}, {"fraction", NULL},
    {"checked", NULL},  {"samples_us", NULL}, {"limit_samples_us", NULL}};

static bool counts_keys(const bench_row *r)
{
    return strcmp(r->workload, "keys") == 0;
}

/* GB of model bytes a second. */
static double rate(const bench_row *r, double seconds)
{
    return (double)r->bytes / seconds * 1e-9;
}

/* Microseconds with a resolution of a nanosecond. */
static double microseconds(double seconds)
{
    return (double)(int64_t)(seconds * 1e9 + 0.5) / 1000;
}

static int add_samples(rows *t, const double *seconds, int n, kv_err *e)
{
    value v;
    int code = value_list_new(&v, VALUE_TUPLE, n, e);
    for (int i = 0; i < n && code == KV_OK; i++)
        v.u.list->items[i] = value_float(microseconds(seconds[i]));
    return code ? code : rows_add(t, v, e);
}

static int add_row(rows *t, const bench_row *r, kv_err *e)
{
    int64_t counts[] = {r->arrays, r->elements, r->bytes};
    double times[] = {microseconds(r->least), microseconds(r->median), microseconds(r->p95),
                      rate(r, r->median)};
    double limits[] = {microseconds(r->limit), rate(r, r->limit), r->fraction};
    int code = rows_add_text(t, r->workload, e);
    if (code || (code = rows_add_text(t, r->op, e)) ||
        (code = rows_add(t, value_int(r->values), e)) || (code = rows_add_text(t, r->data, e)))
        return code;
    for (int i = 0; i < 3 && code == KV_OK; i++)
        code = rows_add(t, value_int(counts[i]), e);
    for (int i = 0; i < 4 && code == KV_OK; i++)
        code = rows_add(t, value_float(times[i]), e);
    if (code || (code = rows_add_text(t, r->limit_is, e)))
        return code;
    for (int i = 0; i < 3 && code == KV_OK; i++)
        code = rows_add(t, value_float(limits[i]), e);
    if (code || (code = rows_add(t, value_int(r->checked), e)) ||
        (code = add_samples(t, r->samples, r->runs, e)))
        return code;
    return add_samples(t, r->limit_samples, r->runs, e);
}

static void cell(buf *out, double x, int precision, int width)
{
    char number[64];
    int n = num_fixed(number, sizeof number, x, precision, 'f');
    buf_repeat(out, ' ', width - n);
    buf_add(out, number);
}

static void csv_row(buf *out, const bench_row *r)
{
    double x[] = {r->least * 1e6, r->median * 1e6, r->p95 * 1e6, rate(r, r->median)};
    buf_printf(out, "%s,%s,%d,%s,%lld,%lld,%lld", r->workload, r->op, r->values, r->data,
               (long long)r->arrays, (long long)r->elements, (long long)r->bytes);
    for (int i = 0; i < 4; i++) {
        buf_char(out, ',');
        cell(out, x[i], 3, 0);
    }
    buf_printf(out, ",%s,", r->limit_is);
    cell(out, r->limit * 1e6, 3, 0);
    buf_char(out, ',');
    cell(out, rate(r, r->limit), 3, 0);
    buf_char(out, ',');
    cell(out, r->fraction, 4, 0);
    buf_char(out, '\n');
}

/* How much of the limit, or with --scale what a byte or a key costs, as a bar. */
static void draw(buf *out, const shown *w, const bench_row *r)
{
    bool keys = counts_keys(r);
    double each = keys ? r->median * 1e9 / (double)r->arrays : r->median * 1e12 / (double)r->bytes;
    double longest = keys ? 1000 : 400;
    if (!w->scale)
        return;
    cell(out, each, 1, 8);
    buf_add(out, keys ? " ns a key  " : " ps a byte ");
    buf_repeat(out, '#', each < longest ? 1 + (int64_t)(each / longest * 30) : 31);
}

/* A column grows with what does not fit. */
static void text_cell(buf *out, const char *text, int width)
{
    buf_add(out, text);
    buf_repeat(out, ' ', width - (int64_t)strlen(text));
    buf_char(out, ' ');
}

static void table_row(buf *out, const shown *w, const bench_row *r)
{
    char name[64] = "";
    buf n = {0};
    if (strcmp(r->workload, "size") == 0)
        buf_printf(&n, "%lld MB", (long long)(r->elements * 4 >> 20));
    else if (strcmp(r->workload, "keys") == 0)
        buf_printf(&n, "%lld keys", (long long)r->arrays);
    else
        buf_add(&n, r->workload);
    strncat(name, buf_text(&n), sizeof name - 1);
    buf_release(&n);
    text_cell(out, name, w->scale ? 12 : 8);
    text_cell(out, r->op, 16);
    buf_printf(out, "%6d ", r->values);
    text_cell(out, r->data, 10);
    cell(out, r->least * 1e3, 3, 10);
    cell(out, r->median * 1e3, 3, 10);
    cell(out, r->p95 * 1e3, 3, 10);
    cell(out, rate(r, r->median), 2, 8);
    cell(out, rate(r, r->limit), 2, 8);
    buf_printf(out, " %c", r->limit_is[0]);
    cell(out, r->fraction, 2, 9);
    draw(out, w, r);
    buf_char(out, '\n');
}

/* With --ctx: what the figures are of. */
static void head_place(buf *out, const shown *w)
{
    char name[KV_CTX_TEXT];
    const bench_place *p = w->place;
    bool gpu = bench_place_is_gpu(p);
    for (int i = 0; i < p->n; i++)
        buf_printf(out, "%s%s", i == 0 ? "values on " : ", ", kv_ctx_text(name, p->ctx[i]));
    if (p->ctx[0].device == KV_GPU)
        buf_printf(out, " (%s)", gpu ? w->device : "virtual: host memory");
    buf_printf(out, ", keys on %s", p->home ? "cpu(0)" : kv_ctx_text(name, p->ctx[0]));
    buf_add(out, !gpu      ? "; limit: loops in host memory\n"
                 : p->home ? "; limit: t transfers, the host's memory pinned\n"
                           : "; limit: c copies of as many bytes\n");
}

static void head(buf *out, const shown *w)
{
    if (w->place->n > 0 && !w->csv)
        head_place(out, w);
    if (w->csv)
        buf_add(out, "workload,op,values,data,arrays,elements,bytes,min_us,median_us,p95_us,gb_s,"
                     "limit,limit_us,limit_gb_s,fraction\n");
    else
        buf_printf(out, "%-*s %-16s %6s %-10s %9s %9s %9s %7s %7s   %8s\n", w->scale ? 12 : 8,
                   "workload", "op", "values", "data", "min ms", "median", "p95", "GB/s", "limit",
                   "fraction");
}

static void note_worst(shown *w, const bench_row *r)
{
    if (w->nrows == 0 || r->fraction < w->least) {
        buf what = {0};
        buf_printf(&what, "%s %s of %d (%s)", r->workload, r->op, r->values, r->data);
        w->least = r->fraction;
        w->worst[0] = '\0';
        strncat(w->worst, buf_text(&what), sizeof w->worst - 1);
        buf_release(&what);
    }
    w->below += r->fraction < w->minimum;
    w->nrows++;
}

/* ---- Growth ---- */

static void add_point(growth *g, double size, double seconds)
{
    double x = log(size), y = log(seconds);
    g->n++;
    g->x += x;
    g->y += y;
    g->xx += x * x;
    g->xy += x * y;
}

/* Of at least two sizes. */
static double slope(const growth *g)
{
    return (g->n * g->xy - g->x * g->y) / (g->n * g->xx - g->x * g->x);
}

static void note_growth(shown *w, const bench_row *r)
{
    double size = (double)(counts_keys(r) ? r->arrays : r->bytes);
    if (!w->scale)
        return;
    add_point(counts_keys(r) ? &w->keys.ours : &w->bytes.ours, size, r->median);
    add_point(counts_keys(r) ? &w->keys.loop : &w->bytes.loop, size, r->limit);
}

/* What leaves the caches costs a loop more a byte too, so growth is linear where it is about the
 * loop's; from 10 keys to a million n log n would be 0.16 more, n * n 1. */
#define LINEAR_WITHIN 0.1

static void add_growth(buf *out, const char *of, const growth *ours, const growth *loop)
{
    if (ours->n < 2)
        return;
    bool linear = slope(ours) <= fmax(1, slope(loop)) + LINEAR_WITHIN;
    buf_printf(out, "time grows with %s to the power of ", of);
    cell(out, slope(ours), 2, 0);
    buf_add(out, ", that of the loop with ");
    cell(out, slope(loop), 2, 0);
    buf_add(out, linear ? ": linear\n" : ": faster than linear\n");
}

static int show_growth(shown *w, kv_err *e)
{
    buf text = {0};
    int code;
    if (w->csv || w->s->recorder.on)
        return KV_OK;
    add_growth(&text, "bytes", &w->bytes.ours, &w->bytes.loop);
    add_growth(&text, "keys", &w->keys.ours, &w->keys.loop);
    if ((code = buf_check(&text, e)) == KV_OK && text.len > 0)
        code = session_out(w->s, buf_text(&text), text.len, e);
    buf_release(&text);
    return code;
}

static int show_row(void *arg, const bench_row *r, kv_err *e)
{
    shown *w = arg;
    buf text = {0};
    int code;
    if (w->nrows == 0)
        head(&text, w);
    note_worst(w, r);
    note_growth(w, r);
    if (w->s->recorder.on)
        return add_row(w->table, r, e);
    if (w->csv)
        csv_row(&text, r);
    else
        table_row(&text, w, r);
    progress_hide(STDOUT_FILENO);
    if ((code = buf_check(&text, e)) == KV_OK &&
        (code = session_out(w->s, buf_text(&text), text.len, e)) == KV_OK && !w->s->captured)
        code = session_flush(w->s, e);
    buf_release(&text);
    return code;
}

static int stop(void *arg, kv_err *e)
{
    return session_interrupted(((shown *)arg)->s, e);
}

/* ---- The command ---- */

/* The growth of one kind, where it was measured. */
static int add_growth_about(rows *summary, const char *ours, const growth *g, const char *loop,
                            const growth *l, kv_err *e)
{
    int code;
    if (g->n < 2)
        return KV_OK;
    if ((code = rows_add_text(summary, ours, e)) ||
        (code = rows_add(summary, value_float(slope(g)), e)) ||
        (code = rows_add_text(summary, loop, e)))
        return code;
    return rows_add(summary, value_float(slope(l)), e);
}

/* With --ctx: where values lie, and what that is. */
static int add_place(rows *summary, const shown *w, kv_err *e)
{
    const bench_place *p = w->place;
    value list;
    int code;
    if (p->n == 0)
        return KV_OK;
    if ((code = rows_add_text(summary, "ctx", e)) ||
        (code = value_list_new(&list, VALUE_TUPLE, p->n, e)))
        return code;
    for (int i = 0; i < p->n; i++)
        list.u.list->items[i] = value_ctx(p->ctx[i]);
    if ((code = rows_add(summary, list, e)) || (code = rows_add_text(summary, "device", e)) ||
        (code = rows_add_text(summary, w->device, e)) || (code = rows_add_text(summary, "type", e)))
        return code;
    return rows_add_text(summary, p->home ? "local" : "device", e);
}

static int add_about(rows *summary, double drift, const bench_plan *p, const shown *w, kv_err *e)
{
    int code = add_place(summary, w, e);
    if (code || (code = rows_add_text(summary, "runs", e)) ||
        (code = rows_add(summary, value_int(p->runs), e)) ||
        (code = rows_add_text(summary, "threads", e)) ||
        (code = rows_add(summary, value_int(bench_threads()), e)) ||
        (code = rows_add_text(summary, "limit_drift", e)) ||
        (code = rows_add(summary, value_float(drift), e)) ||
        (code = add_growth_about(summary, "bytes_power", &w->bytes.ours, "loop_bytes_power",
                                 &w->bytes.loop, e)))
        return code;
    return add_growth_about(summary, "keys_power", &w->keys.ours, "loop_keys_power", &w->keys.loop,
                            e);
}

static int verdict(session *s, const ast *call, const shown *w, kv_err *e)
{
    char least[64], minimum[64];
    if (w->below == 0)
        return KV_OK;
    num_fixed(least, sizeof least, w->least, 3, 'f');
    num_plain(minimum, w->minimum, NUM_BINARY64);
    return unit_err(s, command_option_of(call, "min-fraction"), e, KV_E_ASSERT,
                    "%d of %d rows are below %s of the limit; the least is %s, %s", w->below,
                    w->nrows, minimum, least, w->worst);
}

int cmd_bench(session *s, const ast *call, result *out, kv_err *e)
{
    static const rows_column pair[] = {{"name", NULL}, {"value", NULL}};
    static const char *const formats[2] = {"csv", "table"};
    bench_plan plan = {0};
    shown w = {.s = s,
               .table = &out->entries,
               .place = &plan.place,
               .csv = s->format == SHOW_CSV,
               .scale = command_option_of(call, "scale") != NULL};
    bench_watch watch = {show_row, stop, &w};
    double drift = 0;
    int code = make_plan(s, call, &plan, e);
    if (code || (code = take_number(s, call, "min-fraction", 0, &w.minimum, e)) ||
        (code = take_word(s, call, "format", formats, &w.csv, e)) ||
        (code = bench_place_name(w.device, &plan.place, e)))
        return code;
    out->entries = (rows){columns, sizeof columns / sizeof *columns, NULL, 0, 0};
    out->summary = (rows){pair, 2, NULL, 0, 0};
    out->entries_name = "rows";
    if ((code = bench_run(&drift, &plan, &watch, e)))
        return unit_at(s, call, e);
    if ((code = show_growth(&w, e)))
        return code;
    if (s->recorder.on && (code = add_about(&out->summary, drift, &plan, &w, e)))
        return code;
    if (drift > DRIFT_MOST && !plan.quick)
        session_note(s,
                     "the limit of the memory changed by %d %% while this ran: something else used "
                     "the machine, so measure again",
                     (int)(drift * 100 + 0.5));
    return verdict(s, call, &w, e);
}
