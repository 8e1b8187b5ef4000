/* The order of work on GPUs: long random sequences of copies, sums, blocks that come and go, on all
 * devices and between them, given without waiting, beside the same on host memory, where each is
 * done at once. Elements are compared whenever they are fetched. Prints TAP.
 *
 * Over the driver of host memory, $FAKE_GPU_SEED decides when the work is done, and there are tests
 * of calls that fail half way; on a GPU its scheduler decides.
 */
#include <string.h>

#include "array/device.h"
#include "base/mem.h"
#include "base/philox.h"
#include "kvstore.h"
#include "tap.h"

enum {
    SLOTS = 7,
    LARGE = (5 << 20) / 4, /* elements: more than one piece of a copy */
    STEPS = 600,
    SEQUENCES = 6,
    HUGE_BLOCK = (11 << 20) / 4, /* the driver has it back at once, though work is to use it */
    LIST = 1500            /* jobs whose table is larger than those before */
};

/* A block of a device, and what it should hold. */
typedef struct slot {
    int id;
    int64_t n; /* elements */
    void *block;
    int32_t *held;
    bool filled;
} slot;

static const gpu_ops *gpu;
static uint64_t sequence, drawn;

static uint32_t draw(uint32_t below)
{
    return philox_at(sequence, PHILOX_FUNCTIONS, 0, drawn++).word[0] % below;
}

static int64_t bytes_of(const slot *s)
{
    return s->n * (int64_t)sizeof *s->held;
}

/* ---- Steps ---- */

static void take(slot *s)
{
    kv_err e = {0};
    s->id = (int)draw((uint32_t)gpu->count);
    s->n = draw(4) ? 1 + draw(3000) : LARGE - draw(3);
    s->filled = false;
    must(gpu->alloc(s->id, bytes_of(s), &s->block, &e), &e);
    s->held = mem_alloc_data(bytes_of(s), &e);
    must(e.code, &e);
}

/* Work that was given may still use the block. */
static void give(slot *s)
{
    gpu->free(s->id, s->block);
    mem_free_data(s->held);
}

static void fill(slot *s)
{
    kv_err e = {0};
    for (int64_t i = 0; i < s->n; i++)
        s->held[i] = (int32_t)((uint64_t)i * 2654435761u + drawn);
    s->filled = true;
    drawn++;
    must(gpu->copy_in(s->id, s->block, s->held, bytes_of(s), &e), &e);
}

static void clear(slot *s)
{
    kv_err e = {0};
    memset(s->held, 0, (size_t)bytes_of(s));
    s->filled = true;
    must(gpu->zero(s->id, s->block, bytes_of(s), &e), &e);
}

static bool fetch(const slot *s)
{
    kv_err e = {0};
    int32_t *back = mem_alloc_data(bytes_of(s), &e);
    must(e.code, &e);
    must(gpu->copy_out(s->id, back, s->block, bytes_of(s), &e), &e);
    bool ok = memcmp(back, s->held, (size_t)bytes_of(s)) == 0;
    mem_free_data(back);
    return ok;
}

static int64_t shorter(const slot *a, const slot *b)
{
    return a->n < b->n ? a->n : b->n;
}

/* The beginning of one becomes that of another. */
static void copy(slot *to, const slot *from)
{
    kv_err e = {0};
    int64_t bytes = shorter(to, from) * (int64_t)sizeof *to->held;
    memcpy(to->held, from->held, (size_t)bytes);
    must(gpu->copy(to->id, to->block, from->id, from->block, bytes, &e), &e);
}

/* Adds up as many jobs as are wanted, whose elements follow each other. */
static void add(slot *to, const slot *from, int64_t njobs)
{
    enum { MOST = LIST };
    static gpu_job jobs[MOST];
    static const void *places[MOST][2];
    kv_err e = {0};
    int64_t n = shorter(to, from), each = n / njobs;
    for (int64_t j = 0; j < njobs; j++) {
        int64_t at = j * each, m = j + 1 < njobs ? each : n - at;
        int32_t *dst = (int32_t *)to->block + at;
        places[j][0] = dst;
        places[j][1] = (const int32_t *)from->block + at;
        jobs[j] = (gpu_job){.dst = dst, .n = m, .src = places[j], .nsrc = 2, .to = KV_INT32};
    }
    for (int64_t i = 0; i < n; i++)
        to->held[i] = (int32_t)((uint32_t)to->held[i] + (uint32_t)from->held[i]);
    must(gpu->run(to->id, GPU_SUM, jobs, njobs, &e), &e);
}

/* ---- Sequences ---- */

static void renew(slot *s)
{
    give(s);
    take(s);
}

static bool step(slot *slots)
{
    slot *to = &slots[draw(SLOTS)], *from = &slots[draw(SLOTS)];
    kv_err e = {0};
    switch (draw(9)) {
    case 0: renew(to); break;
    case 1: fill(to); break;
    case 2: clear(to); break;
    case 3: must(gpu->wait(to->id, &e), &e); break;
    case 4: return !to->filled || fetch(to);
    case 5:
    case 6:
        if (to != from && to->filled && from->filled)
            copy(to, from);
        break;
    default:
        if (to != from && to->filled && from->filled && to->id == from->id)
            for (uint32_t i = 0, times = draw(9); i < times; i++)
                add(to, from, draw(20) || shorter(to, from) < LIST ? 1 : LIST);
    }
    return true;
}

static bool try_sequence(void)
{
    slot slots[SLOTS];
    bool ok = true;
    for (int i = 0; i < SLOTS; i++)
        take(&slots[i]);
    for (int i = 0; i < STEPS && ok; i++)
        ok = step(slots);
    for (int i = 0; i < SLOTS; i++) {
        ok &= !slots[i].filled || fetch(&slots[i]);
        give(&slots[i]);
    }
    return ok;
}

/* ---- Calls that fail half way ---- */

/* Which call of the driver fails next. */
static void fail_next(const char *which)
{
    setenv("FAKE_GPU_FAIL", which, 1);
}

/* Checks the error of a call that was made to fail. */
static bool says(int rc, const kv_err *e, const char *text)
{
    unsetenv("FAKE_GPU_FAIL");
    if (rc == KV_E_IO && strcmp(e->text, text) == 0)
        return true;
    printf("# %d: %s\n", rc, e->text);
    return false;
}

static slot take_one(int id, int64_t n)
{
    kv_err e = {0};
    slot s = {.id = id, .n = n};
    must(gpu->alloc(id, bytes_of(&s), &s.block, &e), &e);
    s.held = mem_alloc_data(bytes_of(&s), &e);
    must(e.code, &e);
    return s;
}

/* The copy was given, and must not come behind the zeros. */
static bool fail_copy_in(void)
{
    kv_err e = {0};
    slot s = take_one(0, HUGE_BLOCK);
    memset(s.held, 1, (size_t)bytes_of(&s));
    fail_next("record:2");
    int rc = gpu->copy_in(0, s.block, s.held, bytes_of(&s), &e);
    bool ok = says(rc, &e, "gpu(0) cannot copy: unknown error");
    clear(&s);
    must(gpu->wait(0, &e), &e);
    ok &= fetch(&s);
    give(&s);
    return ok;
}

static bool fail_copy_out(void)
{
    kv_err e = {0};
    slot s = take_one(0, HUGE_BLOCK);
    clear(&s);
    fail_next("copy:2");
    int rc = gpu->copy_out(0, s.held, s.block, bytes_of(&s), &e);
    bool ok = says(rc, &e, "gpu(0) cannot copy: unknown error");
    give(&s);
    return ok;
}

static bool fail_copy(void)
{
    kv_err e = {0};
    slot to = take_one(0, HUGE_BLOCK), from = take_one(1, HUGE_BLOCK);
    clear(&from);
    fail_next("record:2");
    int rc = gpu->copy(0, to.block, 1, from.block, bytes_of(&to), &e);
    bool ok = says(rc, &e, "gpu(1) cannot wait for another GPU: unknown error");
    give(&from);
    give(&to);
    return ok;
}

/* The table of the first launch is used again while that may be under way. */
static bool fail_launch(void)
{
    kv_err e = {0};
    slot a = take_one(0, 1000), b = take_one(0, 1000), c = take_one(0, 1);
    const void *places[] = {a.block, a.block};
    gpu_job job = {.dst = c.block, .n = 1, .src = places, .nsrc = 2, .to = KV_INT32};
    fill(&a);
    fill(&b);
    fail_next("record:1");
    int rc = gpu->run(0, GPU_SUM, &job, 1, &e);
    bool ok = says(rc, &e, "gpu(0) cannot run a kernel: unknown error");
    for (int i = 0; i < 8; i++)
        add(&b, &a, 1);
    ok &= fetch(&b);
    give(&a);
    give(&b);
    give(&c);
    return ok;
}

/* The work on the first device uses the other's block, which the driver has back at once. */
static bool fail_group(void)
{
    kv_err e = {0};
    slot a = take_one(0, HUGE_BLOCK), b = take_one(1, HUGE_BLOCK), c = take_one(0, 1000);
    slot d = take_one(1, 1000);
    const int set[] = {0, 1};
    void *const large[] = {a.block, b.block}, *const small[] = {c.block, d.block};
    gpu_group_job job = {.places = large, .dst = b.block, .root = 1, .n = a.n, .dtype = KV_INT32};
    gpu_group_job next = {.places = small, .dst = d.block, .root = 1, .n = d.n, .dtype = KV_INT32};
    fill(&c);
    fill(&d);
    setenv("FAKE_NCCL", "half", 1);
    int rc = gpu->group_sum(set, 2, &job, 1, &e);
    unsetenv("FAKE_NCCL");
    bool ok = says(rc, &e, "NCCL cannot sum on several GPUs: unhandled system error");
    give(&b);
    give(&a);
    e = (kv_err){0};
    must(gpu->group_sum(set, 2, &next, 1, &e), &e);
    for (int64_t i = 0; i < d.n; i++)
        d.held[i] = (int32_t)((uint32_t)d.held[i] + (uint32_t)c.held[i]);
    ok &= fetch(&d);
    give(&c);
    give(&d);
    return ok;
}

static void test_faults(void)
{
    verdict(fail_copy_in(), "a copy to a GPU that fails half way is over");
    verdict(fail_copy_out(), "a copy from a GPU that fails half way is over");
    verdict(fail_copy(), "a copy between GPUs that fails half way is over");
    verdict(fail_launch(), "a launch that fails half way is over");
    verdict(fail_group(), "a group that fails half way is over, and the next one is not");
}

/* An out that stands in several pairs holds the last of them, wherever their keys are. */
static void test_repeats(void)
{
    kv_err e = {0};
    kv *store;
    int64_t n = 3;
    const kv_key keys[] = {{1, NULL}, {2, NULL}}, both[] = {{2, NULL}, {1, NULL}};
    kv_array *values[2], *out[2];
    const void *data;
    must(kv_create("device", NULL, 0, &store, &e), &e);
    for (int i = 0; i < 2; i++) {
        void *to;
        must(kv_array_new(&values[i], KV_FLOAT32, 1, &n, (kv_ctx){i ? KV_CPU : KV_GPU, 0}, &e), &e);
        must(kv_array_write(values[i], &to, &e), &e);
        for (int k = 0; k < 3; k++)
            ((float *)to)[k] = (float)(i + 1);
    }
    must(kv_array_new(&out[0], KV_FLOAT32, 1, &n, (kv_ctx){KV_CPU, 0}, &e), &e);
    out[1] = out[0];
    must(kv_init(store, keys, 2, values, NULL, &e), &e);
    must(kv_push(store, keys, 2, values, NULL, &e), &e); /* key 1 moves to gpu(0) */
    must(kv_pull(store, both, 2, out, NULL, &e), &e);
    must(kv_array_read(out[0], &data, &e), &e);
    verdict(((const float *)data)[2] == 1, "an out in two pairs holds the last: one on a GPU");
    must(kv_pull(store, keys, 2, out, NULL, &e), &e);
    must(kv_array_read(out[0], &data, &e), &e);
    verdict(((const float *)data)[2] == 2, "an out in two pairs holds the last: one on the CPU");
    kv_array_unref(out[0]);
    kv_array_unref(values[0]);
    kv_array_unref(values[1]);
    kv_free(store);
}

/* ---- Tables of launches ---- */

static int64_t room(void)
{
    kv_err e = {0};
    int64_t bytes = 0;
    must(gpu->room(0, &bytes, &e), &e);
    return bytes;
}

/* A list of 18 MB, whose table is larger still, and then small ones. */
static bool give_table_back(void)
{
    enum { ROWS = (18 << 20) / 8, TAKEN = 16 << 20 };
    kv_err e = {0};
    slot a = take_one(0, 1000), b = take_one(0, 1000), rows = take_one(0, ROWS / 4);
    const void *place = a.block;
    int64_t *at = mem_zalloc(ROWS, sizeof *at, &e);
    must(e.code, &e);
    gpu_job job = {.dst = rows.block,
                   .n = ROWS,
                   .src = &place,
                   .nsrc = 1,
                   .to = KV_UINT8,
                   .row = 1,
                   .index = at,
                   .nindex = ROWS};
    fill(&a);
    fill(&b);
    int64_t before = room();
    must(gpu->run(0, GPU_GATHER_ROWS, &job, 1, &e), &e);
    bool ok = before - room() > TAKEN;
    for (int i = 0; i < 20; i++)
        add(&b, &a, 1);
    ok &= before - room() > TAKEN;
    for (int i = 0; i < 300; i++)
        add(&b, &a, 1);
    ok &= before - room() < TAKEN / 8 && fetch(&b);
    mem_free(at);
    give(&rows);
    give(&a);
    give(&b);
    return ok;
}

int main(void)
{
    kv_err e = {0};
    gpu = gpu_find(&e);
    if (!gpu) {
        printf("1..0 # SKIP %s\n", e.text);
        return 0;
    }
    for (sequence = 1; sequence <= SEQUENCES; sequence++) {
        drawn = 0;
        verdict(try_sequence(), "sequence %d of %d steps on %d GPUs", (int)sequence, STEPS,
                gpu->count);
    }
    test_repeats();
    if (getenv("FAKE_GPUS")) {
        test_faults();
        verdict(give_table_back(), "a large table goes back when launches have long been small");
    }
    return end_verdicts();
}
