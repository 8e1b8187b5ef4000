/* Lines about GPUs, from the rows of kv_describe. */
#include "tools/doctor_gpu.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array/device.h"
#include "kvstore.h"
#include "session/result.h"

typedef struct report {
    buf *out;
    int n;                  /* GPUs */
    uint64_t usable;            /* as bits */
    uint64_t reached[GPU_MOST]; /* by each, as bits; its own is one of them */
} report;

static void topic(buf *out, const char *name)
{
    buf_printf(out, "%-10s ", name);
}

static void add_machine(report *r, const kv_field *fields, int n)
{
    bool usable = field_number(fields, n, "usable");
    topic(r->out, "gpu");
    buf_printf(r->out, "built: %s; usable: %s", field_number(fields, n, "built") ? "yes" : "no",
               usable ? "yes; " : "no, ");
    buf_printf(r->out, "%s\n", field_text(fields, n, usable ? "software" : "reason"));
    if (usable) {
        topic(r->out, "nccl");
        buf_printf(r->out, "%s\n", field_text(fields, n, "nccl"));
    }
}

/* Why a GPU cannot be used, without its name, which begins the line already. */
static const char *reason_of(const char *reason, int64_t id)
{
    char name[32];
    size_t n = (size_t)snprintf(name, sizeof name, "gpu(%" PRId64 ") ", id);
    return strncmp(reason, name, n) == 0 ? reason + n : reason;
}

static void add_one(report *r, const kv_field *fields, int n)
{
    int64_t id = field_number(fields, n, "device"), left = field_number(fields, n, "free");
    const char *reached = field_text(fields, n, "reaches");
    topic(r->out, "gpu");
    buf_printf(r->out, "gpu(%" PRId64 "): %s, %" PRId64 " MB, ", id, field_text(fields, n, "name"),
               field_number(fields, n, "bytes") >> 20);
    if (left >= 0)
        buf_printf(r->out, "%" PRId64 " MB of it unused, ", left >> 20);
    buf_printf(r->out, "ability %" PRId64 ".%" PRId64 "%s%s\n", field_number(fields, n, "major"),
               field_number(fields, n, "minor"), left < 0 ? "; " : "",
               reason_of(field_text(fields, n, "reason"), id));
    if (r->n == GPU_MOST)
        return;
    r->usable |= (uint64_t)(left >= 0) << r->n;
    r->reached[r->n] = (uint64_t)1 << r->n;
    for (char *end = NULL; *reached; reached = end)
        r->reached[r->n] |= (uint64_t)1 << (strtoul(reached, &end, 10) % GPU_MOST);
    r->n++;
}

static int add_row(void *arg, const kv_field *fields, int n, kv_err *e)
{
    (void)e;
    if (*field_text(fields, n, "name"))
        add_one(arg, fields, n);
    else
        add_machine(arg, fields, n);
    return KV_OK;
}

static bool has(uint64_t set, int i)
{
    return i < GPU_MOST && set >> i & 1;
}

/* A set of GPUs as "0..3,6". */
static void add_set(buf *out, uint64_t set)
{
    const char *between = "";
    for (int i = 0, end; i < GPU_MOST; i = end) {
        for (end = i + 1; has(set, i) && has(set, end); end++)
            ;
        if (!has(set, i))
            continue;
        buf_printf(out, "%s%d", between, i);
        if (end - i > 1)
            buf_printf(out, "..%d", end - 1);
        between = ",";
    }
}

/* The GPUs that reach the same GPUs as this one, itself included. */
static uint64_t like(const report *r, int id)
{
    uint64_t set = 0;
    for (int i = 0; i < r->n; i++)
        if (r->reached[i] == r->reached[id])
            set |= (uint64_t)1 << i;
    return set;
}

/* GPUs that cannot be used reach none, and none reaches them. */
static void leave_out_unusable(report *r)
{
    for (int i = 0; i < r->n; i++)
        r->reached[i] &= has(r->usable, i) ? r->usable : 0;
}

/* A line for a set of GPUs that all reach each other and no more, else one for each. */
static void add_peers(report *r)
{
    for (int i = 0; i < r->n; i++) {
        uint64_t reached = r->reached[i], own = (uint64_t)1 << i;
        if (!reached)
            continue;
        bool together = like(r, i) == reached && reached != own;
        if (together && (reached & (own - 1))) /* its line is there */
            continue;
        topic(r->out, "peers");
        buf_add(r->out, "gpu(");
        add_set(r->out, together ? reached : own);
        buf_add(r->out, together ? ") reach each other" : ") reaches ");
        if (reached == own)
            buf_add(r->out, "no other");
        else if (!together)
            add_set(r->out, reached & ~own);
        buf_char(r->out, '\n');
    }
}

void doctor_gpus(buf *out, int *first, kv_err *e)
{
    report r = {.out = out};
    kv_describe(NULL, "gpus", add_row, &r, e);
    leave_out_unusable(&r);
    *first = r.usable ? __builtin_ctzll(r.usable) : -1;
    if (r.n > 1)
        add_peers(&r);
}
