/* bench: reads what is asked for, and shows rows as they come: as a table, CSV, or for --json whole
 * at the end. What is measured is in bench.h. */
#include "cmd_bench.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "array/device.h"
#include "array/mirror.h"
#include "base/num.h"
#include "bench.h"
#include "eval/eval.h"
#include "session/unit.h"
#include "term/terminal.h"

#define DRIFT_MOST 0.1

/* ---- Options ---- */

/* Work is done on a GPU for its speed: virtual GPUs will do only where they were asked for with
 * --gpus. Errors, at node: unsupported, value. */
static int check_device(session *s, const ast *node, kv_ctx ctx, kv_err *e)
{
    bool real = ctx.device == KV_GPU && !s->gpus_wanted;
    kv_err why = {0};
    if (!real || gpu_find(&why)) {
        if (session_ctx(s, ctx, e) || ctx_check(ctx, e))
            return unit_at(s, node, e);
        if (!real || mirror_needed(ctx))
            return KV_OK;
        kv_err_set(&why, KV_E_UNSUPPORTED, "it cannot be used (doctor says why)");
    }
    unit_err(s, node, e, KV_E_UNSUPPORTED, "there is no gpu(%d): %s", ctx.id, why.text);
    return kv_err_hint(e, "--gpus %d makes virtual ones, which are host memory", ctx.id + 1),
           KV_E_UNSUPPORTED;
}

/* node: a list of words, or NULL. */
static int take_list(session *s, const ast *node, bench_plan *p, bench_take *take, kv_err *e)
{
    value v;
    if (!node)
        return KV_OK;
    if (eval_text(s, node, "a list of words", &v, e))
        return e->code;
    bench_plan_words(p, v.u.text, take, e);
    value_release(&v);
    return e->code ? unit_at(s, node, e) : KV_OK;
}

/* The number of an option, at least `least`; *out stays as it is without the option. */
static int take_number(session *s, const ast *call, const char *name, double least, double *out,
                       kv_err *e)
{
    const ast *node = command_option_of(call, name);
    value v, number;
    if (!node)
        return KV_OK;
    if (eval(s, node, &v, e))
        return e->code;
    if (value_item(&number, v, e) == KV_OK) {
        *out = value_number(number);
        value_release(&number);
        if (!(*out >= least && *out <= 9e15))
            kv_err_set(e, KV_E_VALUE, "--%s is at least %d", name, (int)least);
    }
    value_release(&v);
    return e->code ? unit_at(s, node, e) : KV_OK;
}

/* --size and --row are for the workloads that have one. */
static int take_size(session *s, const ast *call, const char *name, bench_plan *p, int64_t *out,
                     kv_err *e)
{
    double size = 0;
    bool used = false, row = out == &p->row;
    if (take_number(s, call, name, 1, &size, e) || size == 0)
        return e->code;
    *out = (int64_t)size;
    for (int i = 0; i < p->nworkloads; i++)
        used |= row ? p->workloads[i]->shapes == bench_one_array : p->workloads[i]->size > 0;
    if (used)
        return KV_OK;
    unit_err(s, command_option_of(call, name), e, KV_E_USAGE, "none of the workloads has a --%s",
             name);
    return kv_err_hint(e, row ? "W5 has one" : "W4 (keys) and W5 (elements) have one"), KV_E_USAGE;
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
    *is = strcmp(v.u.text, words[0]) == 0;
    if (!*is && strcmp(v.u.text, words[1]) != 0)
        code = unit_err(s, node, e, KV_E_USAGE, "bench knows the %ss %s and %s, not \"%s\"", name,
                        words[1], words[0], v.u.text);
    value_release(&v);
    return code;
}

static int take_devices(session *s, const ast *node, const value *where, bench_place *p, kv_err *e)
{
    int64_t n;
    const value *items = value_items(where, &n);
    if (n < 1 || n > BENCH_MAX_VALUES)
        return unit_err(s, node, e, KV_E_VALUE, "a benchmark takes 1 to %d devices, not %lld",
                        BENCH_MAX_VALUES, (long long)n);
    for (int64_t i = 0; i < n; i++) {
        kv_ctx ctx = items[i].u.ctx;
        if (i > 0 && ctx.device != p->ctx[0].device)
            return unit_err(s, node, e, KV_E_USAGE,
                            "the values of a benchmark lie on cpus or on gpus, not on both");
        if (check_device(s, node, ctx, e)) /* figures of virtual GPUs say nothing of GPUs */
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
    if (node && (code = eval_contexts(s, node, &where, e)) == KV_OK) {
        code = take_devices(s, node, &where, p, e);
        value_release(&where);
    }
    if (node && code)
        return code;
    p->home = p->n == 0 || p->ctx[0].device == KV_CPU;
    return take_word(s, call, "type", types, &p->home, e);
}

static int take_runs(session *s, const ast *call, int *out, kv_err *e)
{
    const ast *runs = command_option_of(call, "runs");
    int32_t n = 9;
    if (runs && eval_int32(s, runs, "a count of runs", &n, e))
        return e->code;
    *out = n;
    if (n < 1 || n > STREAM_PAIRS)
        return unit_err(s, runs, e, KV_E_VALUE, "the runs lie in 1 .. %d, %d does not",
                        STREAM_PAIRS, n);
    return KV_OK;
}

static int make_plan(session *s, const ast *call, bench_plan *p, kv_err *e)
{
    const ast *words = call->kid[0];
    p->quick = command_option_of(call, "quick") != NULL;
    if (take_runs(s, call, &p->runs, e))
        return e->code;
    for (uint32_t i = 0; words && i < words->n; i++)
        if (take_list(s, words->kid[i], p, bench_plan_workload, e))
            return e->code;
    if (p->nworkloads == 0)
        p->workloads[p->nworkloads++] = &bench_workloads[0];
    if (take_list(s, command_option_of(call, "op"), p, bench_plan_op, e) ||
        take_list(s, command_option_of(call, "values"), p, bench_plan_values, e) ||
        take_place(s, call, &p->place, e))
        return e->code;
    if (take_size(s, call, "size", p, &p->size, e))
        return e->code;
    return take_size(s, call, "row", p, &p->row, e);
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
    if (code)
        source_at(src, bad->pos, bad->end, e);
    return code;
}

/* ---- Rows ---- */

/* The form in which rows are shown, and a summary of them. */
typedef struct display {
    session *s;
    rows *table; /* with --json */
    const bench_place *place;
    char device[128]; /* the name of the first one */
    bool csv;
    int nrows;
    double least;    /* fraction of all rows so far */
    double minimum;  /* --min-fraction, or 0 */
    int below;       /* rows below it */
    char worst[160]; /* the row with the least */
} display;

/* The columns of CSV: how each is written, its name, and its member of a bench_row. */
#define FIELDS(X)                                                                                  \
    X(TEXT, "workload", workload)                                                                  \
    X(TEXT, "op", op)                                                                              \
    X(COUNT, "values", values)                                                                     \
    X(TEXT, "data", data)                                                                          \
    X(COUNT, "arrays", arrays)                                                                     \
    X(COUNT, "elements", elements)                                                                 \
    X(COUNT, "bytes", bytes)                                                                       \
    X(TIME, "min_us", least)                                                                       \
    X(TIME, "median_us", median)                                                                   \
    X(TIME, "p95_us", p95)                                                                         \
    X(RATE, "gb_s", gb_s)                                                                          \
    X(TEXT, "limit", limit_is)                                                                     \
    X(TIME, "limit_us", limit)                                                                     \
    X(RATE, "limit_gb_s", limit_gb_s)                                                              \
    X(PART, "fraction", fraction)

typedef enum field_kind { TEXT, COUNT, TIME, RATE, PART } field_kind;

static const struct field {
    field_kind kind;
    size_t at; /* in a bench_row */
} fields[] = {
#define FIELD(kind, name, member) {kind, offsetof(bench_row, member)},
    FIELDS(FIELD)
#undef FIELD
};

#define NFIELDS ((int)(sizeof fields / sizeof *fields))

/* --json has some columns more. */
static const rows_column columns[NFIELDS + 3] = {
#define COLUMN(kind, name, member) {name, NULL},
    FIELDS(COLUMN)
#undef COLUMN
    {"checked", NULL}, {"samples_us", NULL}, {"limit_samples_us", NULL}};

static const char *text_field(const bench_row *r, int i)
{
    return *(const char *const *)((const char *)r + fields[i].at);
}

static int64_t count_field(const bench_row *r, int i)
{
    return *(const int64_t *)((const char *)r + fields[i].at);
}

static double number_field(const bench_row *r, int i)
{
    return *(const double *)((const char *)r + fields[i].at);
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
    int code = KV_OK;
    for (int i = 0; i < NFIELDS && code == KV_OK; i++)
        switch (fields[i].kind) {
        case TEXT: code = rows_add_text(t, text_field(r, i), e); break;
        case COUNT: code = rows_add(t, value_int(count_field(r, i)), e); break;
        case TIME:
            code = rows_add(t, value_float(microseconds(number_field(r, i))), e);
            break;
        case RATE:
        case PART: code = rows_add(t, value_float(number_field(r, i)), e); break;
        }
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
    for (int i = 0; i < NFIELDS; i++) {
        switch (fields[i].kind) {
        case TEXT: buf_add(out, text_field(r, i)); break;
        case COUNT: buf_printf(out, "%lld", (long long)count_field(r, i)); break;
        case TIME: cell(out, number_field(r, i) * 1e6, 3, 0); break;
        case RATE: cell(out, number_field(r, i), 3, 0); break;
        case PART: cell(out, number_field(r, i), 4, 0); break;
        }
        buf_char(out, i + 1 < NFIELDS ? ',' : '\n');
    }
}

static void csv_head(buf *out)
{
    for (int i = 0; i < NFIELDS; i++)
        buf_printf(out, "%s%c", columns[i].name, i + 1 < NFIELDS ? ',' : '\n');
}

/* A column grows with what does not fit. */
static void text_cell(buf *out, const char *text, int width)
{
    buf_add(out, text);
    buf_repeat(out, ' ', width - (int64_t)strlen(text));
    buf_char(out, ' ');
}

static void table_row(buf *out, const bench_row *r)
{
    text_cell(out, r->workload, 8);
    text_cell(out, r->op, 16);
    buf_printf(out, "%6lld ", (long long)r->values);
    text_cell(out, r->data, 10);
    cell(out, r->least * 1e3, 3, 10);
    cell(out, r->median * 1e3, 3, 10);
    cell(out, r->p95 * 1e3, 3, 10);
    cell(out, r->gb_s, 2, 8);
    cell(out, r->limit_gb_s, 2, 8);
    buf_printf(out, " %c", r->limit_is[0]);
    cell(out, r->fraction, 2, 9);
    buf_char(out, '\n');
}

/* With --ctx: what the figures are of. */
static void head_place(buf *out, const display *w)
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

static void head(buf *out, const display *w)
{
    if (w->csv) {
        csv_head(out);
        return;
    }
    if (w->place->n > 0)
        head_place(out, w);
    buf_printf(out, "%-8s %-16s %6s %-10s %9s %9s %9s %7s %7s   %8s\n", "workload", "op", "values",
               "data", "min ms", "median", "p95", "GB/s", "limit", "fraction");
}

static void note_worst(display *w, const bench_row *r)
{
    if (w->nrows == 0 || r->fraction < w->least) {
        w->least = r->fraction;
        snprintf(w->worst, sizeof w->worst, "%s %s of %d (%s)", r->workload, r->op, (int)r->values,
                 r->data);
    }
    w->below += r->fraction < w->minimum;
    w->nrows++;
}

static int show_row(void *arg, const bench_row *r, kv_err *e)
{
    display *w = arg;
    buf text = {0};
    int code;
    if (w->nrows == 0)
        head(&text, w);
    note_worst(w, r);
    if (w->s->out.recorder.on)
        return add_row(w->table, r, e);
    if (w->csv)
        csv_row(&text, r);
    else
        table_row(&text, r);
    progress_hide(STDOUT_FILENO);
    if ((code = buf_check(&text, e)) == KV_OK &&
        (code = session_out(w->s, buf_text(&text), text.len, e)) == KV_OK && !sink_takes(w->s))
        code = session_flush(w->s, e);
    buf_release(&text);
    return code;
}

static int stop(void *arg, kv_err *e)
{
    return session_interrupted(((display *)arg)->s, e);
}

/* ---- The command ---- */

static int add_about(rows *t, const char *name, value v, kv_err *e)
{
    if (rows_add_text(t, name, e) == KV_OK)
        return rows_add(t, v, e);
    value_release(&v);
    return e->code;
}

/* With --ctx: the devices of the values, the name of the first, and the type of the store. */
static int add_place(rows *t, const display *w, kv_err *e)
{
    const bench_place *p = w->place;
    value list;
    if (p->n == 0)
        return KV_OK;
    if (value_list_new(&list, VALUE_TUPLE, p->n, e))
        return e->code;
    for (int i = 0; i < p->n; i++)
        list.u.list->items[i] = value_ctx(p->ctx[i]);
    if (add_about(t, "ctx", list, e) || rows_add_text(t, "device", e) ||
        rows_add_text(t, w->device, e) || rows_add_text(t, "type", e))
        return e->code;
    return rows_add_text(t, p->home ? "local" : "device", e);
}

static int add_summary(rows *t, double drift, int runs, const display *w, kv_err *e)
{
    if (add_place(t, w, e) || add_about(t, "runs", value_int(runs), e) ||
        add_about(t, "threads", value_int(bench_threads()), e))
        return e->code;
    return add_about(t, "limit_drift", value_float(drift), e);
}

static int verdict(session *s, const ast *call, const display *w, kv_err *e)
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
    display w = {.s = s,
               .table = &out->entries,
               .place = &plan.place,
               .csv = s->out.format == SHOW_CSV};
    bench_watch watch = {show_row, stop, &w};
    double drift = 0;
    int code = take_word(s, call, "format", formats, &w.csv, e);
    if (code == KV_OK && command_option_of(call, "link"))
        return take_runs(s, call, &plan.runs, e)
                   ? e->code
                   : bench_link_show(s, call, plan.runs, w.csv, out, e);
    if (code || (code = make_plan(s, call, &plan, e)) ||
        (code = take_number(s, call, "min-fraction", 0, &w.minimum, e)) ||
        (code = bench_place_name(w.device, &plan.place, e)))
        return code;
    out->entries = (rows){columns, sizeof columns / sizeof *columns, NULL, 0, 0};
    out->summary = (rows){pair, 2, NULL, 0, 0};
    out->entries_name = "rows";
    if ((code = bench_run(&drift, &plan, &watch, e)))
        return unit_at(s, call, e);
    if (s->out.recorder.on && add_summary(&out->summary, drift, plan.runs, &w, e))
        return e->code;
    if (drift > DRIFT_MOST && !plan.quick)
        session_note(s,
                     "the limit of the memory changed by %d %% while this ran: something else used "
                     "the machine, so measure again",
                     (int)(drift * 100 + 0.5));
    return verdict(s, call, &w, e);
}
