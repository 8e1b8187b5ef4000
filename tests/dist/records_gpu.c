/* Requests of a worker alone whose arrays are on a GPU: a table of GPUs whose memory is the host's.
 * The copies of an array in host memory are spoilt, so that only what the GPU holds is right. The
 * pool runs such requests; the tests wait until they are posted. */
#include "requests.h"

#include "array/mirror.h"
#include "cpu/cpu.h"

/* ---- A GPU ---- */

static int64_t blocks; /* allocated */

static int gpu_alloc(int id, int64_t bytes, void **out, kv_err *e)
{
    (void)id;
    *out = aligned_alloc(256, (size_t)(bytes + 255) / 256 * 256);
    if (!*out)
        return kv_err_set(e, KV_E_MEMORY, "no memory of a GPU");
    __atomic_add_fetch(&blocks, 1, __ATOMIC_RELAXED);
    return KV_OK;
}

static void gpu_free(int id, void *block)
{
    (void)id;
    __atomic_sub_fetch(&blocks, block != NULL, __ATOMIC_RELAXED);
    free(block);
}

static int gpu_zero(int id, void *dst, int64_t bytes, kv_err *e)
{
    (void)id, (void)e;
    memset(dst, 0, (size_t)bytes);
    return KV_OK;
}

static int fails_copies; /* the n-th copy from now on fails; 0: none does */

static int sends_copies; /* before the n-th copy from now on is made, all that can be is sent */

static int gpu_copy(int id, void *dst, const void *src, int64_t bytes, kv_err *e)
{
    (void)id;
    if (sends_copies && --sends_copies == 0)
        alone_send_some();
    if (fails_copies && --fails_copies == 0)
        return kv_err_set(e, KV_E_IO, "the GPU fails");
    memcpy(dst, src, (size_t)bytes);
    return KV_OK;
}

static int gpu_copy_from(int id, void *dst, int from, const void *src, int64_t bytes, kv_err *e)
{
    (void)from;
    return gpu_copy(id, dst, src, bytes, e);
}

static int gpu_run(int id, gpu_work work, const gpu_job *jobs, int64_t n, kv_err *e)
{
    (void)id, (void)e;
    for (int64_t i = 0; i < n; i++) {
        const gpu_job *j = &jobs[i];
        if (work == GPU_CONVERT)
            convert_elements(j->dst, j->to, j->src[0], j->from, j->n);
        else if (work == GPU_QUANTISE)
            quantise_encode(j->dst, j->more[0], j->src[0], j->code, j->threshold, j->n);
        else if (work == GPU_DEQUANTISE)
            quantise_decode(j->dst, j->src[0], j->code, j->threshold, j->n);
        else
            CHECK(!"such work");
    }
    return KV_OK;
}

static int gpu_wait(int id, kv_err *e)
{
    (void)id, (void)e;
    return KV_OK;
}

static kv *open_with_gpu(const char *type, int servers)
{
    static const gpu_ops ops = {.size = sizeof ops, .version = GPU_TABLE_VERSION, .count = 1,
                                .scratch = 1 << 20, .alloc = gpu_alloc, .free = gpu_free,
                                .zero = gpu_zero, .copy_in = gpu_copy, .copy_out = gpu_copy,
                                .copy = gpu_copy_from, .run = gpu_run, .wait = gpu_wait};
    CHECK_OK(gpu_register(&ops, &e));
    return open_worker(type, servers);
}

/* The elements are on the GPU alone: element i is first + i. */
static void move_to_gpu(kv_array *a, int64_t bytes)
{
    void *block;
    CHECK_OK(mirror_device(a, MIRROR_CHANGE, &block, &e));
    memset(a->data, 0xEE, (size_t)bytes);
}

static kv_array *gpu_array(double first)
{
    kv_array *a = NULL, *from = array_from(KV_FLOAT32, first);
    CHECK_OK(kv_array_new(&a, KV_FLOAT32, 1, &elements, (kv_ctx){KV_GPU, 0}, &e));
    memcpy(a->data, from->data, (size_t)elements * 4);
    CHECK_OK(mirror_host(a, MIRROR_WRITE, &e));
    move_to_gpu(a, elements * 4);
    kv_array_unref(from);
    return a;
}

/* So many items have been posted by the pool. */
static void await_posted(int n)
{
    while (__atomic_load_n(&alone_posted, __ATOMIC_ACQUIRE) < n)
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    alone_posted = 0;
}

static void end_with_gpu(kv *s)
{
    end_worker(s);
    CHECK_INT(blocks, 0);
}

/* ---- Pushes ---- */

/* Small values come together, large ones while they are sent. */
static void push_from_gpu(int items)
{
    kv *s = open_with_gpu("dist_sync", SERVERS);
    kv_key keys[] = {key_of(0), key_of(1)};
    init_keys(s, 2);
    kv_array *values[] = {gpu_array(1), gpu_array(1000)};
    for (int turn = 1; turn <= 2; turn++) {
        CHECK_OK(kv_push(s, keys, 2, values, NULL, &e));
        await_posted(items);
        alone_send_all();
        uint64_t number = all[nread].r.request;
        for (; nread < nsent; nread++) {
            const sent *x = &all[nread];
            int64_t key = x->r.part / 100, p = x->r.part % 100;
            int64_t from = p * step + x->r.from / 4;
            CHECK_INT(x->r.kind, LINK_PUSH);
            CHECK_INT(x->r.round, turn);
            for (int64_t i = 0; i < x->r.bytes / 4; i++)
                CHECK_INT(number_at(x->data, KV_FLOAT32, i), (key ? 1000 : 1) + from + i);
        }
        give_done(number, 2 * PARTS);
        CHECK_OK(kv_wait(s, &e));
    }
    kv_array_unref(values[0]);
    kv_array_unref(values[1]);
    end_with_gpu(s);
}

TEST(requests_push_small_values_of_a_gpu)
{
    push_from_gpu(SERVERS);
}

TEST(requests_push_large_values_of_a_gpu)
{
    elements = 3 * (1 << 15);
    step = 1 << 15;
    push_from_gpu(SERVERS + 1);
}

/* A value that is brought in two copies: what came with the first one is sent meanwhile. */
TEST(requests_push_a_value_of_a_gpu_as_it_comes)
{
    enum { FIRST = 16 << 20 /* bytes of the first copy: two parts of three */ };
    kv_key key = key_of(0);
    int64_t sent_bytes = 0;
    step = FIRST / 8;
    elements = 3 * step;
    kv *s = open_with_gpu("dist_sync", SERVERS);
    init_keys(s, 1);
    kv_array *v = gpu_array(1);
    sends_copies = 2;
    CHECK_OK(kv_push(s, &key, 1, &v, NULL, &e));
    await_posted(SERVERS + 1);
    for (int i = 0; i < nsent; i++)
        sent_bytes += all[i].r.bytes;
    CHECK_INT(sent_bytes, FIRST);
    alone_send_all();
    uint64_t number = all[0].r.request;
    for (; nread < nsent; nread++) {
        const sent *x = &all[nread];
        int64_t from = (x->r.part % 100) * step + x->r.from / 4;
        for (int64_t i = 0; i < x->r.bytes / 4; i += 1001)
            CHECK_INT(number_at(x->data, KV_FLOAT32, i), 1 + from + i);
    }
    give_done(number, PARTS);
    CHECK_OK(kv_wait(s, &e));
    kv_array_unref(v);
    end_with_gpu(s);
}

/* The copy of a large value fails while it is sent: its round lacks this rank. */
TEST(requests_push_a_value_that_a_gpu_keeps)
{
    kv_key key = key_of(0);
    elements = 3 * (1 << 15);
    step = 1 << 15;
    kv *s = open_with_gpu("dist_sync", SERVERS);
    init_keys(s, 1);
    kv_array *v = gpu_array(1);
    fails_copies = 1;
    CHECK_OK(kv_push(s, &key, 1, &v, NULL, &e));
    await_posted(SERVERS + 1);
    alone_send_all();
    CHECK_ERR(kv_wait(s, &e), KV_E_IO, "the GPU fails");
    no_more();
    kv_array_unref(v);
    end_with_gpu(s);
}

static const kv_opt codes_of_2bit[] = {{"type", "2bit"}, {"threshold", "0.5"}};

/* Codes are made where the value is. The residual comes to the GPU with the first value of it. */
static void push_codes_of(kv *s, int id, kv_array *v, float *left, const float *x)
{
    kv_key key = key_of(id);
    char codes[64];
    quantise_encode(codes, left, x, QUANTISE_2BIT, 0.5f, ELEMENTS);
    alone_posted = 0;
    CHECK_OK(kv_push(s, &key, 1, &v, NULL, &e));
    await_posted(SERVERS);
    const sent *y = request_of(LINK_PUSH, (int64_t[]){id}, 1);
    for (int i = 0; i < PARTS; i++) {
        int64_t n = place_count(&made[id].place, i);
        CHECK_INT(y[i].r.bytes, (int64_t)sizeof(push_codes) + quantise_bytes(QUANTISE_2BIT, n));
        CHECK(memcmp(y[i].data + sizeof(push_codes), codes + i * STEP / 4, (size_t)n / 4) == 0);
    }
    give_done(y->r.request, PARTS);
    CHECK_OK(kv_wait(s, &e));
}

TEST(requests_push_codes_of_a_gpu)
{
    float left[ELEMENTS] = {0};
    kv *s = open_with_gpu("dist_sync", SERVERS);
    CHECK_OK(kv_set_gradient_compression(s, codes_of_2bit, 2, &e));
    init_keys(s, 1);
    kv_array *here = array_from(KV_FLOAT32, -20), *there = gpu_array(-20);
    float x[ELEMENTS];
    for (int i = 0; i < ELEMENTS; i++)
        x[i] = (float)(i - 20);
    push_codes_of(s, 0, here, left, x);
    push_codes_of(s, 0, there, left, x);
    push_codes_of(s, 0, there, left, x);
    push_codes_of(s, 0, here, left, x);
    kv_array_unref(here);
    kv_array_unref(there);
    end_with_gpu(s);
}

/* Each allocation of the call fails in which the residuals of two keys would move: they stay, also
 * the first when it is the second's that fails, and move with the next call. The value's turn does
 * not come before. */
TEST(requests_push_codes_of_a_gpu_without_memory)
{
    float left[2][ELEMENTS] = {0}, x[ELEMENTS];
    kv_key keys[] = {key_of(0), key_of(1)};
    kv *s = open_with_gpu("dist_sync", SERVERS);
    CHECK_OK(kv_set_gradient_compression(s, codes_of_2bit, 2, &e));
    init_keys(s, 2);
    kv_array *here = array_from(KV_FLOAT32, -20), *there = gpu_array(-20), *both[] = {there, there};
    for (int i = 0; i < ELEMENTS; i++)
        x[i] = (float)(i - 20);
    for (int i = 0; i < 2; i++)
        push_codes_of(s, i, here, left[i], x);
    engine_use held = {.var = array_var(there), .write = true};
    engine_op op = {.uses = &held, .nuses = 1};
    CHECK(engine_try(&op));
    int rc = KV_E_MEMORY;
    for (int64_t n = 1; rc; n++) {
        e = (kv_err){0};
        mem_fail_at(n);
        rc = kv_push(s, keys, 2, both, NULL, &e);
        mem_fail_at(0);
        CHECK(rc == KV_OK || rc == KV_E_MEMORY);
    }
    engine_finish(&op);
    await_posted(SERVERS);
    const sent *y = request_of(LINK_PUSH, (int64_t[]){0, 1}, 2);
    CHECK_INT(y->r.round, 2);
    give_done(y->r.request, 2 * PARTS);
    CHECK_OK(kv_wait(s, &e));
    kv_array_unref(here);
    kv_array_unref(there);
    end_with_gpu(s);
}

/* Rows are brought to the host, and sent from there. */
TEST(requests_push_rows_of_a_gpu)
{
    enum { ROW = 4 };
    kv_key key = key_of(0);
    void *data;
    row = ROW;
    storage = KV_ROW_SPARSE;
    kv *s = open_with_gpu("dist_sync", SERVERS);
    init_keys(s, 1);
    kv_array *a = MADE(kv_array, kv_array_new_sparse, KV_FLOAT32, 2,
                       (int64_t[]){ELEMENTS / ROW, ROW}, 2, (int64_t[]){1, 5}, (kv_ctx){KV_GPU, 0});
    CHECK_OK(kv_array_write_rows(a, &data, &e));
    for (int i = 0; i < 2 * ROW; i++)
        ((float *)data)[i] = (float)(i + 3);
    move_to_gpu(a, 2 * ROW * 4);
    CHECK_OK(kv_push(s, &key, 1, &a, NULL, &e));
    await_posted(SERVERS);
    const sent *x = request_of(LINK_PUSH, (int64_t[]){0}, 1);
    for (int p = 0; p < 2; p++)
        for (int i = 0; i < ROW; i++)
            CHECK_INT(number_at(x[p].data + 16, KV_FLOAT32, i), p * ROW + i + 3);
    give_done(x->r.request, PARTS);
    CHECK_OK(kv_wait(s, &e));
    kv_array_unref(a);
    end_with_gpu(s);
}

/* ---- Pulls ---- */

/* Into outs of a GPU, of which the second has another dtype, and into one of the host. */
TEST(requests_pull_to_a_gpu)
{
    kv *s = open_with_gpu("dist_sync", SERVERS);
    kv_key keys[] = {key_of(0), key_of(0), key_of(0), key_of(0)};
    init_keys(s, 1);
    kv_array *outs[] = {gpu_array(0), NULL, array_from(KV_FLOAT32, 0), gpu_array(0)};
    CHECK_OK(kv_array_new(&outs[1], KV_FLOAT64, 1, &elements, (kv_ctx){KV_GPU, 0}, &e));
    for (int turn = 1; turn <= 2; turn++) {
        CHECK_OK(kv_pull(s, keys, 4, outs, NULL, &e));
        await_posted(SERVERS);
        const sent *x = request_of(LINK_PULL, (int64_t[]){0}, 1);
        for (int p = 0; p < PARTS; p++)
            give_part(&x[p].r, 7 * turn);
        for (int i = 0; i < 4; i++)
            holds(outs[i], 7 * turn);
        CHECK_OK(kv_wait(s, &e));
    }
    CHECK_OK(kv_pull(s, keys, 1, outs, NULL, &e)); /* codes are read on the GPU */
    await_posted(SERVERS);
    const sent *x = request_of(LINK_PULL, (int64_t[]){0}, 1);
    for (int p = 0; p < PARTS; p++) {
        char record[sizeof(push_codes) + 4] = {0};
        push_codes head = {.code = QUANTISE_2BIT, .threshold = 0.5f};
        memcpy(record, &head, sizeof head);
        memset(record + sizeof head, 0xFF, 4); /* all of them plus the threshold */
        link_rec r = {.kind = LINK_VALUE, .flags = LINK_LAST | LINK_CODES,
                      .request = x[p].r.request};
        r.chunk = x[p].r.chunk;
        r.n = place_count(&made[0].place, p);
        give(server_of(p), r, record, sizeof record);
    }
    const void *data = array_elements(outs[0]);
    for (int i = 0; i < ELEMENTS; i++)
        CHECK_INT(number_at(data, KV_FLOAT32, i) * 8, 4);
    for (int i = 0; i < 4; i++)
        kv_array_unref(outs[i]);
    end_with_gpu(s);
}

/* The GPU does not take what came. */
TEST(requests_pull_to_a_gpu_that_fails)
{
    kv *s = open_with_gpu("dist_sync", SERVERS);
    kv_key key = key_of(0);
    init_keys(s, 1);
    kv_array *out = gpu_array(0);
    CHECK_OK(kv_pull(s, &key, 1, &out, NULL, &e));
    await_posted(SERVERS);
    const sent *x = request_of(LINK_PULL, (int64_t[]){0}, 1);
    fails_copies = 2;
    for (int p = 0; p < PARTS; p++)
        give_part(&x[p].r, 7);
    CHECK_INT(kv_wait(s, &e), KV_E_IO);
    CHECK_TEXT(e.text, "the GPU fails");
    CHECK(e.has_key && out->unfilled);
    kv_array_unref(out);
    end_with_gpu(s);
}
