/* Calls as events of a profile. */
#include "core/call_trace.h"

#include "array/mirror.h"
#include "base/mem.h"

int call_trace_new(call *c, const char *name, kv_err *e)
{
    trace_op *t = mem_alloc(1, sizeof *t, e);
    if (!t)
        return KV_E_MEMORY;
    *t = (trace_op){.number = trace_number(), .name = name, .begun = trace_now()};
    c->op.trace = t;
    return KV_OK;
}

/* Adds an event with the call's keys. */
static void add_call(const call *c, trace_event ev)
{
    kv_key keys[TRACE_KEYS];
    ev.name = c->op.trace->name;
    ev.op = c->op.trace->number;
    for (int64_t i = 0; i < c->ngroups && i < TRACE_KEYS; i++)
        keys[i] = c->groups[i].key;
    ev.keys = keys;
    ev.nkeys = c->ngroups;
    trace_add(&ev);
}

void call_trace_add_enqueue(const call *c, bool later)
{
    add_call(c, (trace_event){TRACE_ENQUEUE,
                              .begin = c->op.trace->begun,
                              .end = trace_now(),
                              .later = later});
}

void call_trace_add_run(const call *c, int64_t begin)
{
    const trace_op *t = c->op.trace;
    int64_t end = trace_now();
    if (t->scheduled) {
        add_call(c, (trace_event){TRACE_WAIT, .begin = t->scheduled, .end = t->ready});
        add_call(c, (trace_event){TRACE_QUEUE, .begin = t->ready, .end = begin});
    }
    add_call(c, (trace_event){TRACE_RUN, .begin = begin, .end = end});
}

void call_trace_add_part(const call *c, int64_t begin, const char *name, const kv_key *key,
                         const kv_array *a, int64_t from, int64_t n)
{
    trace_add(&(trace_event){TRACE_PART,
                             .name = name,
                             .op = c->op.trace->number,
                             .begin = begin,
                             .end = trace_now(),
                             .keys = key,
                             .nkeys = 1,
                             .from = from,
                             .elements = n,
                             .bytes = n * kv_dtype_bytes(kv_array_dtype(a))});
}

static void add_device(const call *c, int64_t begin, const char *name, const gpu_ops *gpu, int id)
{
    kv_key keys[TRACE_KEYS];
    trace_event ev = {TRACE_DEVICE, .name = name, .op = c->op.trace->number, .begin = begin,
                      .keys = keys, .device = id};
    kv_err unused = {0};
    gpu->wait(id, &unused); /* a failed device reports it at its next use */
    ev.end = trace_now();
    for (int64_t i = 0; i < c->ngroups; i++) {
        const call_group *g = &c->groups[i];
        if (g->work != CALL_ON_GPU || mirror_gpu(g->target) != id)
            continue;
        if (ev.nkeys < TRACE_KEYS)
            keys[ev.nkeys] = g->key;
        ev.nkeys++;
        ev.elements += g->target->size;
        ev.bytes += kv_array_bytes(g->target);
    }
    trace_add(&ev);
}

void call_trace_add_devices(const call *c, int64_t begin, const char *name, const gpu_ops *gpu,
                            uint64_t devices)
{
    for (int id = 0; id < GPU_MOST; id++)
        if (devices >> id & 1)
            add_device(c, begin, name, gpu, id);
}

void call_trace_alone(uint64_t number, int64_t begin, const char *name, const kv_key *keys,
                      int64_t n)
{
    trace_add(&(trace_event){TRACE_RUN,
                             .name = name,
                             .op = number,
                             .begin = begin,
                             .end = trace_now(),
                             .keys = keys,
                             .nkeys = n});
}
