/* Calls as operations of the engine: their memory, their parts, their end. */
#include <string.h>

#include "array/mirror.h"
#include "base/compiler.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "core/call.h"
#include "core/store.h"

enum {
    USES = 5, /* of a pair at most: target, value, source, residual, and the old residual */
    KEPT_BYTES = 256 << 20, /* a larger one is given back: about 600,000 pairs */
    MOST_PENDING = 256,     /* a store schedules no more than these */
    KEY_BYTES = 64,         /* the cost of a key, however short its array, is about that of these */
    SMALL_BYTES = 32 << 10, /* a call that writes no more runs at once, if nothing is in its way */
    SMALL_ARRAY = 512,      /* so does one whose arrays are this small: to run it takes about as
                               long as to make it run later */
    PART_BYTES = 256 << 10, /* of the arrays that are written, in one part */
    FAR_BYTES = 4 << 20,    /* larger than the caches next to a processor */
    PART_STEP = PLAN_CHUNK  /* parts of one array begin at a multiple of these elements */
};

/* ---- Memory ---- */

static void free_call(call *c)
{
    apply_work_release(&c->work);
    mem_free(c->cuts);
    mem_free(c->steps);
    mem_free(c->memory);
    mem_free(c);
}

void call_pool_release(call_pool *p)
{
    engine_wait_group(&p->group, 0);
    for (int i = 0; i < CALL_SPARES; i++)
        if (p->spare[i])
            free_call(p->spare[i]);
}

/* Lays out the lists of a call of n pairs, one behind the other. Each has room for the most that it
 * may hold, since what is not touched costs address space and no memory. */
static int lay_out(call *c, int64_t n, kv_err *e)
{
    int64_t sorting = call_bytes_a_pair();
    int64_t each = sorting + (int64_t)(sizeof *c->groups + 2 * sizeof *c->list + sizeof *c->data +
                                       USES * sizeof *c->uses);
    if (n >= c->bytes / each) { /* a callback takes one use more */
        int64_t room = n < 16 ? 17 : n + 1;
        char *memory = mem_alloc(room, (size_t)each, e);
        if (!memory)
            return KV_E_MEMORY;
        mem_free(c->memory);
        c->memory = memory;
        c->bytes = room * each;
    }
    c->groups = (call_group *)(void *)(c->memory + n * sorting);
    c->uses = (engine_use *)(void *)(c->groups + n);
    c->list = (kv_array **)(void *)(c->uses + USES * n + 1);
    c->stored = c->list + n;
    c->data = (const void **)(void *)(c->stored + n);
    return KV_OK;
}

/* Makes c a call of these pairs. It keeps the memory that it has. */
static void begin(call *c, kv *store, const call_ops *ops, const kv_pairs *pairs)
{
    *c = (call){.ops = ops,
                .store = store,
                .pool = &store->calls,
                .memory = c->memory,
                .bytes = c->bytes,
                .work = c->work,
                .table = &store->slots,
                .old_nslots = store->slots.n,
                .pairs = pairs,
                .values = pairs->arrays,
                .nvalues = pairs->n,
                .together = store->together,
                .cuts = c->cuts,
                .cuts_cap = c->cuts_cap,
                .steps = c->steps,
                .steps_cap = c->steps_cap};
}

void call_next(call *c, const kv_pairs *pairs)
{
    call_part update = c->update;
    begin(c, c->store, c->ops, pairs);
    c->update = update;
    int rc = lay_out(c, pairs->n, NULL); /* there is room */
    kv_assert(rc == KV_OK && c->cuts_cap > 1, "a batch of %lld pairs has no room in a call of %lld",
              (long long)pairs->n, (long long)c->bytes);
    c->op.uses = c->uses;
    c->cuts[0] = (call_cut){0, 0};
}

int call_new(call **out, kv *store, const call_ops *ops, const kv_pairs *pairs, kv_err *e)
{
    call_pool *p = &store->calls;
    engine_wait_group(&p->group, MOST_PENDING - 1);
    call *c = NULL;
    for (int i = 0; i < CALL_SPARES && !c; i++)
        if (__atomic_load_n(&p->spare[i], __ATOMIC_RELAXED))
            c = __atomic_exchange_n(&p->spare[i], NULL, __ATOMIC_ACQUIRE);
    if (!c && !(c = mem_zalloc(1, sizeof *c, e)))
        return KV_E_MEMORY;
    begin(c, store, ops, pairs);
    int rc = lay_out(c, pairs->n, e);
    if (rc == KV_OK && trace_on()) {
        trace_op *t = c->op.trace = mem_alloc(1, sizeof *t, e);
        if (t)
            *t = (trace_op){.number = trace_number(), .name = ops->name, .begun = trace_now()};
        else
            rc = KV_E_MEMORY;
    }
    if (rc) {
        call_end(c);
        return rc;
    }
    c->op.uses = c->uses;
    *out = c;
    return KV_OK;
}

/* ---- Parts ---- */

/* The parts in the making: they are cut where the bytes are enough, and at multiples of PART_STEP
 * within an array. */
typedef struct cutter {
    call *call;
    int64_t bytes; /* of the part that is open */
} cutter;

/* A part is closed when it is full, and before and behind an array that gets its own. */
static int reserve_cuts(call *c, int64_t work_bytes, kv_err *e)
{
    int64_t most = 4 + 3 * (work_bytes / PART_BYTES);
    return mem_grow(&c->cuts, &c->cuts_cap, most, sizeof *c->cuts, e);
}

static void cut(cutter *k, int64_t item, int64_t from)
{
    call *c = k->call;
    if (k->bytes > 0 &&
        kv_assert(c->ncuts + 1 < c->cuts_cap, "a call has more parts than reserve_cuts expects"))
        c->cuts[++c->ncuts] = (call_cut){item, from};
    k->bytes = 0;
}

/* Bytes that are written for one element; of a pushpull those to the key alone, for its outs are
 * written in the same pass, and parts of few bytes of each array cost more. */
static int64_t bytes_each(const call *c, const call_group *g)
{
    int64_t each = 0;
    if (!c->pulls)
        return kv_dtype_bytes((kv_dtype)g->target->dtype);
    for (int64_t i = 0; i < g->n; i++)
        each += kv_dtype_bytes((kv_dtype)c->values[g->first + i]->dtype);
    return each;
}

/* Returns how many parts the group takes part in. */
static int32_t cut_group(cutter *k, int64_t item, const call_group *g)
{
    int64_t each = bytes_each(k->call, g), size = g->target->size, bytes = size * each;
    int64_t step = PART_BYTES / each / PART_STEP * PART_STEP;
    int32_t parts = 1;
    step = step > 0 ? step : PART_STEP;
    if (bytes > PART_BYTES)
        cut(k, item, 0);
    if (call_is_split(g) && bytes > PART_BYTES) {
        for (int64_t from = step; from < size; from += step, parts++) {
            k->bytes = PART_BYTES;
            cut(k, item, from);
        }
        bytes = (size - (parts - 1) * step) * each;
    }
    k->bytes += bytes + KEY_BYTES;
    if (k->bytes >= PART_BYTES)
        cut(k, item + 1, 0);
    return parts;
}

int call_cut_work(call *c, kv_err *e)
{
    cutter k = {c, 0};
    c->work_bytes += KEY_BYTES * c->nvalues;
    for (int64_t i = 0; i < c->nouts; i++)
        c->work_bytes += kv_array_bytes(c->outs[i]);
    c->far = c->work_bytes > FAR_BYTES;
    c->ncuts = 0;
    TRY(reserve_cuts(c, c->work_bytes, e));
    c->cuts[0] = (call_cut){0, 0};
    for (int64_t i = 0; i < c->ngroups; i++) {
        call_group *g = &c->groups[i];
        if (i + CALL_AHEAD < c->ngroups)
            prefetch(c->groups[i + CALL_AHEAD].target);
        if (call_has_parts(g))
            g->parts = cut_group(&k, i, g);
    }
    cut(&k, c->ngroups, 0);
    return KV_OK;
}

int call_reserve_pairs(call *c, kv_err *e)
{
    int64_t work_bytes = KEY_BYTES * c->nvalues;
    for (int64_t i = 0; i < c->nvalues; i++)
        work_bytes += kv_array_bytes(c->values[i]);
    return reserve_cuts(c, work_bytes, e);
}

int call_reserve_batch(call *c, kv_err *e)
{
    return reserve_cuts(c, 0, e);
}

/* ---- Running ---- */

/* Takes references for an operation that runs later, when those of the caller and of the store may
 * be gone. */
static void hold(call *c)
{
    kv_assert(!c->held, "a call holds its %lld arrays a second time", (long long)c->nvalues);
    if (c->values != c->list)
        memcpy(c->list, c->values, (size_t)c->nvalues * sizeof *c->list);
    c->values = c->list;
    for (int64_t i = 0; i < c->nvalues; i++) {
        if (i + CALL_AHEAD < c->nvalues)
            prefetch_write(c->list[i + CALL_AHEAD]);
        array_hold(c->list[i]);
    }
    if (c->nouts)
        memcpy(c->stored, c->outs, (size_t)c->nouts * sizeof *c->stored);
    for (int64_t i = 0; i < c->nouts; i++)
        array_hold(c->stored[i]);
    c->outs = c->stored;
    for (int64_t i = 0; i < c->ngroups; i++)
        if (c->groups[i].target)
            array_hold(c->groups[i].target);
    c->held = true;
}

static void release(call *c)
{
    if (c->held) {
        for (int64_t i = 0; i < c->nvalues; i++) {
            if (i + CALL_AHEAD < c->nvalues)
                prefetch_write(c->list[i + CALL_AHEAD]);
            array_drop(c->list[i]);
        }
        for (int64_t i = 0; i < c->nouts; i++)
            array_drop(c->outs[i]);
        for (int64_t i = 0; i < c->ngroups; i++)
            if (c->groups[i].target)
                array_drop(c->groups[i].target);
    }
    for (int64_t i = 0; c->owns && i < c->ngroups; i++) {
        kv_array_unref(c->groups[i].source);
        kv_array_unref(c->groups[i].fresh);
        kv_array_unref(c->groups[i].sum);
        kv_array_unref(c->groups[i].dense);
        kv_array_unref(c->groups[i].input);
        kv_array_unref(c->groups[i].result);
    }
    if (c->update.release)
        c->update.release(c);
    if (c->compress.release)
        c->compress.release(c);
    if (c->places.release)
        c->places.release(c);
    if (c->rows.release)
        c->rows.release(c);
}

void call_end(call *c)
{
    release(c);
    if (c->op.trace)
        mem_free(c->op.trace);
    /* A later call takes its memory. The exchange is atomic, since a call ends on any thread. */
    for (int i = 0; i < CALL_SPARES && c->bytes <= KEPT_BYTES; i++) {
        call *none = NULL;
        if (__atomic_compare_exchange_n(&c->pool->spare[i], &none, c, false, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED))
            return;
    }
    free_call(c);
}

void call_commit(call *c)
{
    for (int64_t i = 0; c->owns && i < c->ngroups; i++) {
        call_group *g = &c->groups[i];
        if (!g->fresh)
            continue;
        kv_array **stored = &call_slot(c, g)->stored, *old = *stored;
        *stored = g->fresh;
        g->fresh = old;
    }
}

void call_abort(call *c)
{
    kv_assert(!c->held && c->table->n >= c->old_nslots,
              "a call that found %lld slots leaves %lld, or runs already",
              (long long)c->old_nslots, (long long)c->table->n);
    slot_truncate(c->table, c->old_nslots);
    call_end(c);
}

int call_prepare(call *c, kv_err *e)
{
    int rc = c->ops->prepare(c, e);
    if (rc)
        call_abort(c);
    return rc;
}

static int run_op(engine_op *op, kv_err *e)
{
    call *c = (call *)(void *)op;
    int64_t begin = call_trace_begin(c);
    int rc = c->ops->run(c, e);
    call_trace_run(c, begin);
    return rc;
}

static void end_op(engine_op *op)
{
    call_end((call *)(void *)op);
}

/* Returns true if running the call takes less time than scheduling it. */
static bool is_small(const call *c)
{
    return c->work_bytes <= SMALL_BYTES ||
           (c->work_bytes <= (KEY_BYTES + SMALL_ARRAY) * c->nvalues && !c->op.foreign);
}

int call_run(call *c, const kv_call *how, kv_err *e)
{
    bool now = c->ops->commit && c->ops->commit(c);
    int rc = KV_OK;
    c->op.run = run_op;
    c->op.done = end_op;
    c->op.group = &c->pool->group;
    c->op.priority = how ? how->priority : 0;
    kv_assert((void *)(c->op.uses + c->op.nuses) <= (void *)c->list,
              "a call of %lld values has %lld uses, more than lay_out has room for",
              (long long)c->nvalues, (long long)c->op.nuses);
    if (c->nvalues == 0) { /* a pull whose arrays are all row_sparse */
    } else if (now) {
        call_trace_enqueue(c, false);
        rc = engine_run_now(&c->op, e);
    } else if (is_small(c) && engine_try(&c->op)) {
        call_trace_enqueue(c, false);
        rc = run_op(&c->op, e);
        engine_finish(&c->op);
    } else {
        hold(c);
        call_trace_enqueue(c, true);
        engine_submit(&c->op);
        return KV_OK;
    }
    call_end(c);
    return rc;
}

void call_end_uses(call *c, int64_t first, int64_t n)
{
    if (!c->held || n == 0) /* it ends within microseconds */
        return;
    kv_assert(first >= 0 && first + n <= c->ngroups,
              "the uses of groups %lld to %lld end in a call of %lld", (long long)first,
              (long long)(first + n), (long long)c->ngroups);
    const call_group *a = &c->groups[first], *b = &c->groups[first + n - 1];
    engine_end(&c->uses[a->use], b->use + b->nuses - a->use);
    if (c->nouts)
        engine_end(&c->uses[a->first_out], b->first_out + b->nouts - a->first_out);
}

void call_end_groups(call *c, int64_t from, int64_t to)
{
    int64_t first = from;
    if (!c->held)
        return;
    for (int64_t i = from; i < to; i++) {
        call_group *g = &c->groups[i];
        bool ended = g->work == CALL_NOTHING || g->work == CALL_ON_GPU;
        if (call_has_parts(g)) {
            int32_t left = __atomic_sub_fetch(&g->parts, 1, __ATOMIC_ACQ_REL);
            kv_assert(left >= 0, "a part of group %lld ends, which had none left", (long long)i);
            ended = left == 0;
        }
        if (ended)
            continue;
        call_end_uses(c, first, i - first);
        first = i + 1;
    }
    call_end_uses(c, first, to - first);
}

/* ---- Events of a profile ---- */

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
