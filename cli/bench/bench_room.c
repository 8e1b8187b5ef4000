/* Arrays of a workload. */
#include "bench/bench_room.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "array/mirror.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"

double bench_pattern(int64_t i)
{
    return (double)(i % BENCH_PERIOD + 1) / 8;
}

int64_t bench_memory_available(void)
{
    static const char field[] = "MemAvailable:";
    kv_err unused = {0};
    char *text;
    size_t n;
    int64_t kb = 0;
    if (file_read("/proc/meminfo", &text, &n, &unused))
        return 0;
    const char *at = strstr(text, field);
    if (at) {
        at += sizeof field - 1;
        at += strspn(at, " ");
        num_parse_int(at, strspn(at, "0123456789"), &kb, NULL);
    }
    mem_free(text);
    return kb * 1024;
}

/* ---- Making ---- */

static int64_t item_bytes(const bench_room *r)
{
    return kv_dtype_bytes(r->data->dtype);
}

/* Of so many rows one is pushed, at places that look random. */
static int make_ids(bench_room *r, kv_err *e)
{
    int64_t rows = r->shapes.items[0].shape[0], n = rows / BENCH_SPARSE_EVERY;
    void *data;
    if (kv_array_new(&r->ids, KV_INT64, 1, &n, (kv_ctx){0}, e) || kv_array_write(r->ids, &data, e))
        return e->code;
    int64_t *ids = data;
    for (int64_t i = 0; i < n; i++)
        ids[i] = i * BENCH_SPARSE_EVERY + i * 7919 % BENCH_SPARSE_EVERY;
    r->row_ids = ids;
    r->nrows = n;
    return KV_OK;
}

int bench_room_init(bench_room *r, const bench_data *data, const bench_place *place,
                    bench_shapes *shapes, kv_err *e)
{
    *r = (bench_room){.data = data, .place = place, .shapes = *shapes};
    *shapes = (bench_shapes){0};
    r->keys = mem_zalloc(r->shapes.n, sizeof *r->keys, e);
    r->bytes = mem_alloc(r->shapes.n, sizeof *r->bytes, e);
    if (!r->keys || !r->bytes || (data->sparse && make_ids(r, e)))
        return e->code;
    for (int64_t i = 0; i < r->shapes.n; i++) {
        r->keys[i].id = i;
        r->bytes[i] = data->sparse ? r->nrows * BENCH_SPARSE_WIDTH * item_bytes(r)
                                   : r->shapes.items[i].size * item_bytes(r);
        r->all_bytes += r->bytes[i];
        if (r->shapes.items[i].size > r->shapes.items[r->largest].size)
            r->largest = i;
    }
    int64_t id_bytes = r->nrows * (int64_t)sizeof *r->row_ids;
    if (data->sparse && stream_cut_init(&r->id_cut, &id_bytes, 1, e))
        return e->code;
    return stream_cut_init(&r->cut, r->bytes, r->shapes.n, e);
}

int bench_room_period(kv_array **out, const bench_data *data, double scale, kv_err *e)
{
    const int64_t n = BENCH_PERIOD;
    kv_array *exact;
    void *x;
    if (kv_array_new(&exact, KV_FLOAT32, 1, &n, (kv_ctx){0}, e))
        return e->code;
    if (kv_array_write(exact, &x, e) == KV_OK)
        for (int64_t i = 0; i < n; i++)
            ((float *)x)[i] = (float)(bench_pattern(i) * scale);
    int code = e->code ? e->code : kv_array_dup(out, exact, data->dtype, (kv_ctx){0}, e);
    kv_array_unref(exact);
    return code;
}

/* Repeats a period over bytes bytes, beginning in its element `first`. */
static void tile(char *at, int64_t bytes, const char *period, int64_t item, int64_t first)
{
    int64_t length = BENCH_PERIOD * item, done;
    for (done = 0; done < length && done < bytes; done++)
        at[done] = period[(first * item + done) % length];
    while (done < bytes) { /* what is filled is a multiple of the period: twice as much each time */
        int64_t some = done < bytes - done ? done : bytes - done;
        memcpy(at + done, at, (size_t)some);
        done += some;
    }
}

static int new_array(bench_room *r, kv_array **out, void **data, int64_t i, kv_ctx ctx, kv_err *e)
{
    const bench_shape *s = &r->shapes.items[i];
    if (r->data->sparse) {
        kv_array_new_sparse(out, r->data->dtype, s->ndim, s->shape, r->nrows, r->row_ids, ctx, e);
        return e->code ? e->code : kv_array_write_rows(*out, data, e);
    }
    kv_array_new(out, r->data->dtype, s->ndim, s->shape, ctx, e);
    return e->code ? e->code : kv_array_write(*out, data, e);
}

/* One array for each key, all filled with a period. */
static int make_set(bench_room *r, kv_array ***arrays, void ***data, kv_ctx ctx,
                    const kv_array *like, kv_err *e)
{
    const void *period;
    int64_t n = r->shapes.n;
    int code = KV_OK;
    *arrays = mem_zalloc(n, sizeof **arrays, e);
    *data = mem_zalloc(n, sizeof **data, e);
    if (!*arrays || !*data || kv_array_read((kv_array *)like, &period, e))
        return e->code;
    for (int64_t i = 0; i < n && code == KV_OK; i++)
        if ((code = new_array(r, &(*arrays)[i], &(*data)[i], i, ctx, e)) == KV_OK)
            tile((*data)[i], r->bytes[i], period, item_bytes(r), i % BENCH_PERIOD);
    return code;
}

static int add_value(bench_room *r, kv_err *e)
{
    kv_array *period;
    int v = r->nvalues++;
    if (bench_room_period(&period, r->data, v + 1, e))
        return e->code;
    kv_ctx ctx = bench_place_of(r->place, v);
    int code = make_set(r, &r->values[v], &r->value_data[v], ctx, period, e);
    if (code == KV_OK && r->data->sparse)
        r->value_ids[v] = (void *)(uintptr_t)kv_array_row_ids(r->values[v][0]); /* only read */
    kv_array_unref(period);
    return code;
}

static int add_out(bench_room *r, kv_err *e)
{
    kv_array *period;
    int v = r->nouts++;
    if (bench_room_period(&period, r->data, 0, e))
        return e->code;
    kv_ctx ctx = bench_place_of(r->place, v);
    int code = make_set(r, &r->outs[v], &r->out_data[v], ctx, period, e);
    kv_array_unref(period);
    return code;
}

/* A stream in one block, each array at a line of its own. */
static int add_scratch(bench_room *r, kv_err *e)
{
    int s = r->nscratch++;
    int64_t bytes = 0;
    for (int64_t i = 0; i < r->shapes.n; i++)
        bytes += (r->bytes[i] + 63) / 64 * 64;
    r->blocks[s] = mem_alloc_data(bytes, e);
    r->scratch[s] = mem_alloc(r->shapes.n, sizeof *r->scratch[s], e);
    if (!r->blocks[s] || !r->scratch[s])
        return KV_E_MEMORY;
    memset(r->blocks[s], 1, (size_t)bytes);
    bytes = 0;
    for (int64_t i = 0; i < r->shapes.n; i++) {
        r->scratch[s][i] = (char *)r->blocks[s] + bytes;
        bytes += (r->bytes[i] + 63) / 64 * 64;
    }
    if (!r->data->sparse)
        return KV_OK;
    bytes = r->nrows * (int64_t)sizeof *r->row_ids;
    if (!(r->scratch_ids[s] = mem_alloc_data(bytes, e)))
        return KV_E_MEMORY;
    memset(r->scratch_ids[s], 1, (size_t)bytes);
    return KV_OK;
}

int64_t bench_room_table_bytes(const bench_shapes *shapes)
{
    return shapes->elements * 4;
}

int bench_room_need(bench_room *r, int nvalues, int nouts, int nscratch, bool table, kv_err *e)
{
    int code = KV_OK;
    while (r->nvalues < nvalues && code == KV_OK)
        code = add_value(r, e);
    while (r->nouts < nouts && code == KV_OK)
        code = add_out(r, e);
    while (r->nscratch < nscratch && code == KV_OK)
        code = add_scratch(r, e);
    if (code == KV_OK && table && !r->table) {
        int64_t bytes = bench_room_table_bytes(&r->shapes);
        if (!(r->table = mem_alloc_data(bytes, e)))
            return KV_E_MEMORY;
        memset(r->table, 1, (size_t)bytes);
    }
    return code;
}

int bench_room_renew(bench_room *r, int nvalues, int nouts, kv_err *e)
{
    void *block;
    int code = KV_OK;
    if (!bench_place_is_gpu(r->place))
        return KV_OK;
    for (int v = 0; v < nvalues; v++)
        for (int64_t k = 0; k < r->shapes.n && !code; k++)
            if (mirror_has(r->values[v][k]))
                code = mirror_device(r->values[v][k], MIRROR_CHANGE, &block, e);
    for (int v = 0; v < nouts; v++)
        for (int64_t k = 0; k < r->shapes.n && !code; k++)
            if (mirror_has(r->outs[v][k]))
                code = mirror_zero(r->outs[v][k], e);
    return code ? code : bench_place_wait(r->place, e);
}

/* ---- Releasing ---- */

static void free_set(bench_room *r, kv_array **arrays, void **data)
{
    for (int64_t i = 0; arrays && i < r->shapes.n; i++)
        kv_array_unref(arrays[i]);
    mem_free(arrays);
    mem_free(data);
}

void bench_room_release(bench_room *r)
{
    for (int v = 0; v < BENCH_MAX_VALUES; v++) {
        free_set(r, r->values[v], r->value_data[v]);
        free_set(r, r->outs[v], r->out_data[v]);
    }
    for (int s = 0; s < r->nscratch; s++) {
        mem_free_data(r->blocks[s]);
        mem_free(r->scratch[s]);
        mem_free_data(r->scratch_ids[s]);
    }
    mem_free_data(r->table);
    kv_array_unref(r->ids);
    stream_cut_release(&r->cut);
    stream_cut_release(&r->id_cut);
    mem_free(r->keys);
    mem_free(r->bytes);
    mem_free(r->shapes.items);
    *r = (bench_room){0};
}
