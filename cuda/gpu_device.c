/* Streams, copies and launches of each device. */
#include "cuda/gpu_device.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "cuda/cache.h"

enum {
    PIECE = 4 << 20, /* of a copy, in pinned memory: transfers of 4 MB reach the speed of the bus */
    PINNED = 2,
    TABLES = 4,      /* launches whose tables may be on their way */
    TABLE = 64 << 10, /* bytes that each has from the start: for about 500 arrays */
    LARGE_TABLE = 16 << 20,
    IDLE = 64,       /* launches after which a large table goes back: to pin memory takes long */
    THREADS = 256,   /* of a block */
    BLOCKS_EACH = 8  /* blocks a multiprocessor: 2048 threads, as many as run at a time */
};

/* The table of a launch, in pinned memory and in the device's. */
typedef struct table {
    void *host, *block;
    int64_t bytes;
    driver_event *done; /* behind the launch that uses it */
    bool used;
    int idle; /* launches in a row that needed little of it */
} table;

typedef struct device {
    pthread_mutex_t lock;
    void *visitor; /* the context of the thread that has the lock, before it came */
    int id, multiprocessors;
    bool open, met[GPU_MOST]; /* met: they reach each other's memory, as far as they can */
    driver_stream *work, *copies[PINNED];
    driver_event *before, *copied[PINNED]; /* the work before a copy; a piece has been copied */
    char *pinned[PINNED];
    bool busy[PINNED]; /* copied was recorded */
    table tables[TABLES];
    int next_table;
    cache cache;
} device;

/* A part of the plugin's state, made once when it starts. */
static struct {
    const driver *d;
    device devices[GPU_MOST];
} all;

const driver *device_driver(void)
{
    return all.d;
}

static int fail(const device *d, const char *what, int code, kv_err *e)
{
    return kv_err_set(e, KV_E_IO, "gpu(%d) cannot %s: %s", d->id, what, all.d->text(code));
}

/* A call of the driver; a failure is noted and skips the calls after it. */
#define CALL(call, what)                                                                           \
    do {                                                                                           \
        int code_ = (call);                                                                        \
        if (code_) {                                                                               \
            rc = fail(d, what, code_, e);                                                          \
            goto out;                                                                              \
        }                                                                                          \
    } while (0)

/* Of several devices, each is left before those that were entered earlier. */
static device *enter(int id)
{
    device *d = &all.devices[id];
    pthread_mutex_lock(&d->lock);
    d->visitor = all.d->current();
    return d;
}

static void leave(device *d)
{
    all.d->back(d->visitor);
    pthread_mutex_unlock(&d->lock);
}

/* ---- Blocks ---- */

/* Work that uses blocks must end before they go back: `work` waits for every copy to the device and
 * to others, and for copies to the host the host does. */
static void finish(device *d)
{
    all.d->sync(d->work);
}

/* Everything that is kept goes back. */
static void drop_all(device *d)
{
    void *block;
    finish(d);
    while ((block = cache_drop(&d->cache)))
        all.d->free(block);
}

static int take_block(device *d, int64_t bytes, void **out, kv_err *e)
{
    int64_t size = cache_round(bytes);
    *out = cache_take(&d->cache, size);
    if (*out)
        return KV_OK;
    int code = all.d->alloc(out, size);
    if (code && d->cache.kept > 0) {
        drop_all(d);
        code = all.d->alloc(out, size);
    }
    if (code)
        return kv_err_set(e, KV_E_MEMORY, "gpu(%d) has no %lld bytes of memory: %s", d->id,
                          (long long)bytes, all.d->text(code));
    int rc = cache_note(&d->cache, *out, size, e);
    if (rc)
        all.d->free(*out);
    return rc;
}

static void give_block(device *d, void *block)
{
    if (!block || cache_keep(&d->cache, block))
        return;
    finish(d);
    all.d->free(block);
}

/* A table's memory is replaced by other, once that is there. What used it is over. */
static int renew_table(device *d, table *t, int64_t bytes, kv_err *e)
{
    void *host = NULL, *block = NULL;
    int rc = take_block(d, bytes, &block, e);
    if (rc)
        return rc;
    CALL(all.d->alloc_host(&host, bytes), "pin memory");
    give_block(d, t->block);
    if (t->host)
        all.d->free_host(t->host);
    *t = (table){.host = host, .block = block, .bytes = bytes, .done = t->done};
out:
    if (rc)
        give_block(d, block);
    return rc;
}

/* ---- Opening ---- */

/* Makes the streams, events and pinned memory. After a failure the finished ones stay for the next
 * attempt. */
static int make_parts(device *d, kv_err *e)
{
    const driver *f = all.d;
    gpu_facts facts;
    int rc = KV_OK;
    CALL(f->facts(d->id, &facts, &d->multiprocessors), "say what it is");
    if (!d->work)
        CALL(f->stream(&d->work), "make a stream");
    if (!d->before)
        CALL(f->event(&d->before), "make an event");
    for (int i = 0; i < PINNED; i++) {
        if (!d->copies[i])
            CALL(f->stream(&d->copies[i]), "make a stream");
        if (!d->copied[i])
            CALL(f->event(&d->copied[i]), "make an event");
        if (!d->pinned[i])
            CALL(f->alloc_host((void **)&d->pinned[i], PIECE), "pin memory");
    }
    for (int i = 0; i < TABLES && !rc; i++) {
        if (!d->tables[i].done)
            CALL(f->event(&d->tables[i].done), "make an event");
        if (!d->tables[i].bytes)
            rc = renew_table(d, &d->tables[i], TABLE, e);
    }
    d->cache.bound = facts.bytes / 4;
    d->open = rc == KV_OK;
out:
    return rc;
}

/* Says of a failure that it is one of opening, whatever the caller wanted. */
static int open_one(device *d, kv_err *e)
{
    kv_err why = {0};
    char name[16];
    int rc = make_parts(d, &why);
    if (!rc)
        return KV_OK;
    int n = snprintf(name, sizeof name, "gpu(%d) ", d->id);
    bool named = strncmp(why.text, name, (size_t)n) == 0;
    return kv_err_set(e, rc, "%scannot be opened: %s%s", name, named ? "it " : "",
                      why.text + (named ? n : 0));
}

/* Makes d the device of this thread, and opens it. */
static int use(device *d, kv_err *e)
{
    int rc = all.d->use(d->id);
    if (rc)
        return fail(d, "be used", rc, e);
    return d->open ? KV_OK : open_one(d, e);
}

/* After a failure: waits until no work of the device is under way. A device that fails in this as
 * well does no more work. */
static void settle(device *d)
{
    if (!d->open || all.d->use(d->id))
        return;
    for (int i = 0; i < PINNED; i++)
        all.d->sync(d->copies[i]);
    all.d->sync(d->work);
}

int device_open(const driver *d, int *count, kv_err *e)
{
    int n = 0;
    all.d = d;
    int rc = d->count(&n);
    if (rc)
        return kv_err_set(e, KV_E_UNSUPPORTED, "the GPUs cannot be counted: %s", d->text(rc));
    n = n < GPU_MOST ? n : GPU_MOST;
    for (int i = 0; i < n; i++) {
        all.devices[i].id = i;
        pthread_mutex_init(&all.devices[i].lock, NULL);
    }
    *count = n;
    return KV_OK;
}

/* ---- Facts about GPUs ---- */

int device_facts(int id, gpu_facts *out, kv_err *e)
{
    device *d = enter(id);
    int rc = KV_OK, unused;
    CALL(all.d->facts(id, out, &unused), "say what it is");
out:
    leave(d);
    return rc;
}

int device_room(int id, int64_t *free_bytes, kv_err *e)
{
    device *d = enter(id);
    int rc = KV_OK;
    CALL(all.d->room(id, free_bytes), "be used");
out:
    leave(d);
    return rc;
}

int device_reaches(int id, int other, bool *out, kv_err *e)
{
    const device *d = &all.devices[id];
    int rc = KV_OK, can = 0;
    CALL(all.d->can_reach(id, other, &can), "say what it reaches");
out:
    *out = can;
    return rc;
}

/* ---- Memory ---- */

int device_alloc(int id, int64_t bytes, void **out, kv_err *e)
{
    device *d = enter(id);
    int rc = use(d, e);
    if (!rc)
        rc = take_block(d, bytes, out, e);
    leave(d);
    return rc;
}

void device_free(int id, void *block)
{
    device *d = enter(id);
    kv_err unused = {0};
    if (use(d, &unused) == KV_OK)
        give_block(d, block);
    leave(d);
}

int device_zero(int id, void *dst, int64_t bytes, kv_err *e)
{
    device *d = enter(id);
    int rc = use(d, e);
    if (rc)
        goto out;
    CALL(all.d->zero(dst, bytes, d->work), "set memory to zero");
out:
    leave(d);
    return rc;
}

int device_wait(int id, kv_err *e)
{
    device *d = enter(id);
    int rc = use(d, e);
    if (rc)
        goto out;
    CALL(all.d->sync(d->work), "do its work");
out:
    leave(d);
    return rc;
}

/* ---- Copies ---- */

/* Both streams for copies begin behind the work so far. */
static int begin_copy(device *d, kv_err *e)
{
    int rc = use(d, e);
    if (rc)
        goto out;
    CALL(all.d->record(d->before, d->work), "copy");
    for (int i = 0; i < PINNED; i++)
        CALL(all.d->wait_event(d->copies[i], d->before), "copy");
out:
    return rc;
}

static int piece_of(int64_t at, int64_t bytes)
{
    return (int)(bytes - at < PIECE ? bytes - at : PIECE);
}

/* Later work waits for the copy, which itself waits for earlier work. */
int device_copy_in(int id, void *dst, const void *host, int64_t bytes, kv_err *e)
{
    device *d = enter(id);
    int p = 0, rc = begin_copy(d, e);
    for (int64_t at = 0; at < bytes && !rc; at += PIECE, p = (p + 1) % PINNED) {
        int n = piece_of(at, bytes);
        if (d->busy[p])
            CALL(all.d->sync_event(d->copied[p]), "copy");
        memcpy(d->pinned[p], (const char *)host + at, (size_t)n);
        CALL(all.d->copy_in((char *)dst + at, d->pinned[p], n, d->copies[p]), "copy");
        CALL(all.d->record(d->copied[p], d->copies[p]), "copy");
        d->busy[p] = true;
        CALL(all.d->wait_event(d->work, d->copied[p]), "copy");
    }
out:
    if (rc)
        settle(d);
    leave(d);
    return rc;
}

/* A piece is fetched while the one before is copied out of pinned memory. */
int device_copy_out(int id, void *host, const void *src, int64_t bytes, kv_err *e)
{
    device *d = enter(id);
    int p = 0, rc = begin_copy(d, e);
    for (int64_t at = -PIECE; at < bytes && !rc; at += PIECE) {
        int64_t ahead = at + PIECE;
        if (ahead < bytes) {
            CALL(all.d->copy_out(d->pinned[p], (const char *)src + ahead, piece_of(ahead, bytes),
                                 d->copies[p]),
                 "copy");
            CALL(all.d->record(d->copied[p], d->copies[p]), "copy");
            d->busy[p] = true;
        }
        p = (p + 1) % PINNED;
        if (at < 0)
            continue;
        CALL(all.d->sync_event(d->copied[p]), "copy");
        memcpy((char *)host + at, d->pinned[p], (size_t)piece_of(at, bytes));
    }
out:
    if (rc)
        settle(d);
    leave(d);
    return rc;
}

/* Pieces of a copy without the host's part of it. */
int device_carry(int id, void *block, int64_t bytes, bool out, kv_err *e)
{
    device *d = enter(id);
    int p = 0, rc = begin_copy(d, e);
    for (int64_t at = 0; at < bytes && !rc; at += PIECE, p = (p + 1) % PINNED) {
        char *there = (char *)block + at;
        int n = piece_of(at, bytes);
        if (out)
            CALL(all.d->copy_out(d->pinned[p], there, n, d->copies[p]), "copy");
        else
            CALL(all.d->copy_in(there, d->pinned[p], n, d->copies[p]), "copy");
    }
    for (int i = 0; i < PINNED && !rc; i++)
        CALL(all.d->sync(d->copies[i]), "copy");
out:
    if (rc)
        settle(d);
    leave(d);
    return rc;
}

/* Two devices reach each other's memory from now on, where they can. Both are locked and open. */
static int meet(device *d, device *other, kv_err *e)
{
    device *each[] = {d, other};
    int rc = KV_OK;
    for (int i = 0; i < 2 && !d->met[other->id]; i++) {
        device *here = each[i], *there = each[1 - i];
        int can = 0;
        CALL(all.d->use(here->id), "be used");
        CALL(all.d->can_reach(here->id, there->id, &can), "say what it reaches");
        if (can)
            CALL(all.d->reach(here->id, there->id), "reach another GPU");
    }
    d->met[other->id] = other->met[d->id] = true;
out:
    return rc;
}

/* d's work waits for the work so far of another device. */
static int join(device *d, device *other, kv_err *e)
{
    int rc = KV_OK;
    CALL(all.d->use(other->id), "be used");
    CALL(all.d->record(other->before, other->work), "wait for another GPU");
    CALL(all.d->use(d->id), "be used");
    CALL(all.d->wait_event(d->work, other->before), "wait for another GPU");
out:
    return rc;
}

static int copy_between(device *d, void *dst, device *other, const void *src, int64_t bytes,
                        kv_err *e)
{
    int rc = use(other, e);
    if (!rc)
        rc = use(d, e);
    if (!rc && d != other)
        rc = meet(d, other, e);
    if (!rc && d != other)
        rc = join(d, other, e);
    if (rc)
        goto out;
    CALL(all.d->use(d->id), "be used");
    CALL(all.d->copy(dst, d->id, src, other->id, bytes, d->work), "copy");
    if (d != other)
        rc = join(other, d, e);
out:
    if (rc)
        settle(d);
    return rc;
}

int device_copy(int id, void *dst, int from, const void *src, int64_t bytes, kv_err *e)
{
    device *first = enter(id < from ? id : from); /* locks are taken in ascending order */
    device *second = id == from ? NULL : enter(id < from ? from : id);
    int rc = copy_between(&all.devices[id], dst, &all.devices[from], src, bytes, e);
    if (second)
        leave(second);
    leave(first);
    return rc;
}

/* After a failure it waits for the work that was given before. This wait ends, because give has
 * stopped the work that would wait for more (cuda/group.c). */
int device_together(const int *ids, int n,
                    int (*give)(void *arg, driver_stream *const *streams, kv_err *e), void *arg,
                    kv_err *e)
{
    driver_stream *streams[GPU_MOST] = {0};
    int rc = KV_OK;
    for (int i = 0; i < n; i++) /* locks are taken in ascending order */
        enter(ids[i]);
    for (int i = 0; i < n && !rc; i++) {
        rc = use(&all.devices[ids[i]], e);
        streams[i] = all.devices[ids[i]].work;
    }
    if (!rc)
        rc = give(arg, streams, e);
    for (int i = n - 1; i >= 0; i--) {
        if (rc)
            settle(&all.devices[ids[i]]);
        leave(&all.devices[ids[i]]);
    }
    return rc;
}

/* ---- Launches ---- */

/* Returns true if a job has the same list as the one before it in the table, which then shares it.
 * before: NULL for the first. */
static bool same_index(const gpu_job *before, const gpu_job *j)
{
    return before && before->index == j->index;
}

static bool same_numbers(const gpu_job *before, const gpu_job *j)
{
    return before && before->numbers == j->numbers;
}

/* Jobs without elements are not in the table. */
static int64_t table_bytes(const gpu_job *jobs, int64_t n)
{
    const gpu_job *before = NULL;
    int64_t words = 0;
    for (const gpu_job *j = jobs; j < jobs + n; j++) {
        if (j->n == 0)
            continue;
        words += j->nsrc + j->nmore;
        words += same_index(before, j) ? 0 : j->nindex;
        words += same_numbers(before, j) ? 0 : j->nnumbers;
        before = j;
    }
    return n * (int64_t)sizeof(job_item) + words * 8;
}

/* Returns true if a table that was large once has been much too large for a long time. */
static bool is_idle(table *t, int64_t bytes)
{
    t->idle = t->bytes > LARGE_TABLE && t->bytes / 8 > bytes ? t->idle + 1 : 0;
    return t->idle > IDLE;
}

/* A table with room, whose last launch is over. */
static int take_table(device *d, int64_t bytes, table **out, kv_err *e)
{
    table *t = &d->tables[d->next_table];
    int rc = KV_OK;
    d->next_table = (d->next_table + 1) % TABLES;
    if (t->used)
        CALL(all.d->sync_event(t->done), "do its work");
    t->used = false;
    if (t->bytes < bytes)
        rc = renew_table(d, t, bytes + bytes / 2, e);
    else if (is_idle(t, bytes))
        renew_table(d, t, bytes < TABLE ? TABLE : bytes + bytes / 2, NULL); /* else it stays */
    *out = rc ? NULL : t;
out:
    return rc;
}

/* The place of the next list: in pinned memory, and at the same distance in the device's. */
typedef struct layout {
    char *host;
    int64_t distance, at;
} layout;

/* Copies a list into the table; its address in the device's memory. Most lists are of one word. */
static const void *put(layout *l, const void *list, int64_t words)
{
    char *to = l->host + l->at;
    if (words == 1)
        memcpy(to, list, 8);
    else if (words > 0)
        memcpy(to, list, (size_t)words * 8);
    l->at += words * 8;
    return (const void *)((intptr_t)to + l->distance);
}

/* Fills in the table, and how many jobs and tiles it has. */
static void fill_table(layout *l, job_list *list, const gpu_job *jobs, int64_t n)
{
    job_item *to = (job_item *)(void *)l->host;
    const gpu_job *before = NULL;
    l->at = n * (int64_t)sizeof *to;
    for (const gpu_job *j = jobs; j < jobs + n; j++) {
        if (j->n == 0)
            continue;
        *to = (job_item){.dst = j->dst,
                         .n = j->n,
                         .nsrc = j->nsrc,
                         .row = j->row,
                         .first = list->ntiles,
                         .threshold = j->threshold,
                         .to = (int)j->to,
                         .from = (int)j->from,
                         .code = (int)j->code};
        to->src = put(l, j->src, j->nsrc);
        if (j->nmore > 0)
            to->more = put(l, j->more, j->nmore);
        if (j->nindex > 0)
            to->index = same_index(before, j) ? to[-1].index : put(l, j->index, j->nindex);
        if (j->nnumbers > 0)
            to->numbers = same_numbers(before, j) ? to[-1].numbers
                                                  : put(l, j->numbers, j->nnumbers);
        list->ntiles += j->n / list->tile + (j->n % list->tile != 0);
        list->nitems++;
        before = j;
        to++;
    }
}

int device_launch(int id, driver_kernel *k, int64_t tile, const gpu_job *jobs, int64_t n,
                  kv_err *e)
{
    device *d = enter(id);
    int64_t bytes = table_bytes(jobs, n), most = 0;
    table *t = NULL;
    int rc = use(d, e);
    if (!rc)
        rc = take_table(d, bytes, &t, e);
    if (rc || !t)
        goto out;
    most = (int64_t)d->multiprocessors * BLOCKS_EACH;
    layout l = {t->host, (intptr_t)t->block - (intptr_t)t->host, 0};
    job_list list = {.items = t->block, .tile = tile};
    fill_table(&l, &list, jobs, n);
    int64_t blocks = (list.ntiles + THREADS / JOB_TEAM - 1) / (THREADS / JOB_TEAM);
    if (list.ntiles == 0)
        goto out;
    CALL(all.d->copy_in(t->block, t->host, bytes, d->work), "copy");
    CALL(all.d->launch(k, (unsigned)(blocks < most ? blocks : most), THREADS, &list, d->work),
         "run a kernel");
    CALL(all.d->record(t->done, d->work), "run a kernel");
    t->used = true;
out:
    if (rc)
        settle(d);
    leave(d);
    return rc;
}

int device_load(int id, driver_kernel **out, const void *image, int64_t bytes, const char *name,
                kv_err *e)
{
    device *d = enter(id);
    int rc = use(d, e);
    if (rc)
        goto out;
    CALL(all.d->load(out, image, bytes, name), "load a kernel");
out:
    leave(d);
    return rc;
}
