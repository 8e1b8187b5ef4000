/* Arrays of a workload. */
#include "bench_arrays.h"

#include <stdlib.h>
#include <string.h>

#include "array/mirror.h"
#include "base/file.h"
#include "base/mem.h"

int64_t bench_memory_available(void)
{
    static const char field[] = "MemAvailable:";
    kv_err unused = {0};
    char *text;
    size_t n;
    if (file_read("/proc/meminfo", &text, &n, &unused))
        return 0;
    const char *at = strstr(text, field);
    int64_t kb = at ? strtoll(at + strlen(field), NULL, 10) : 0;
    mem_free(text);
    return kb * 1024;
}

/* ---- Making ---- */

int bench_arrays_init(bench_arrays *r, const bench_data *data, const bench_place *place,
                      bench_shapes *shapes, kv_err *e)
{
    *r = (bench_arrays){.data = data, .place = place, .shapes = *shapes};
    *shapes = (bench_shapes){0};
    r->keys = mem_zalloc(r->shapes.n, sizeof *r->keys, e);
    r->bytes = mem_alloc(r->shapes.n, sizeof *r->bytes, e);
    if (!r->keys || !r->bytes)
        return e->code;
    for (int64_t i = 0; i < r->shapes.n; i++) {
        r->keys[i].id = i;
        r->bytes[i] = r->shapes.items[i].size * kv_dtype_bytes(data->dtype);
        r->all_bytes += r->bytes[i];
        if (r->shapes.items[i].size > r->shapes.items[r->largest].size)
            r->largest = i;
    }
    return stream_cut_init(&r->cut, r->bytes, r->shapes.n, e);
}

/* One array of BENCH_PERIOD elements: the first ones of array 0, times scale. */
static int make_period(kv_array **out, kv_dtype dtype, double scale, kv_err *e)
{
    const int64_t n = BENCH_PERIOD;
    kv_array *exact;
    void *x;
    if (kv_array_new(&exact, KV_FLOAT32, 1, &n, (kv_ctx){0}, e))
        return e->code;
    if (kv_array_write(exact, &x, e) == KV_OK)
        for (int64_t i = 0; i < n; i++)
            ((float *)x)[i] = (float)((double)(i + 1) / 8 * scale);
    int code = e->code ? e->code : kv_array_dup(out, exact, dtype, (kv_ctx){0}, e);
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

/* One array for each key, all filled with a period times scale. */
static int make_set(const bench_arrays *r, bench_set *set, kv_ctx ctx, double scale, kv_err *e)
{
    int64_t n = r->shapes.n, item = kv_dtype_bytes(r->data->dtype);
    kv_array *period = NULL;
    const void *from;
    set->arrays = mem_zalloc(n, sizeof *set->arrays, e);
    set->data = mem_zalloc(n, sizeof *set->data, e);
    if (!set->arrays || !set->data || make_period(&period, r->data->dtype, scale, e))
        return e->code;
    kv_array_read(period, &from, e);
    for (int64_t i = 0; i < n && e->code == KV_OK; i++) {
        const bench_shape *s = &r->shapes.items[i];
        if (kv_array_new(&set->arrays[i], r->data->dtype, s->ndim, s->shape, ctx, e) == KV_OK &&
            kv_array_write(set->arrays[i], &set->data[i], e) == KV_OK)
            tile(set->data[i], r->bytes[i], from, item, i % BENCH_PERIOD);
    }
    kv_array_unref(period);
    return e->code;
}

/* A stream in one block, each array at a line of its own. */
static int add_scratch(bench_arrays *r, kv_err *e)
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
    return KV_OK;
}

int bench_arrays_need(bench_arrays *r, int nvalues, int nouts, int nscratch, kv_err *e)
{
    int code = KV_OK;
    for (int v; r->nvalues < nvalues && code == KV_OK;) {
        v = r->nvalues++;
        code = make_set(r, &r->values[v], bench_place_of(r->place, v), v + 1, e);
    }
    for (int v; r->nouts < nouts && code == KV_OK;) {
        v = r->nouts++;
        code = make_set(r, &r->outs[v], bench_place_of(r->place, v), 0, e);
    }
    while (r->nscratch < nscratch && code == KV_OK)
        code = add_scratch(r, e);
    return code;
}

int bench_arrays_renew(bench_arrays *r, int nvalues, int nouts, kv_err *e)
{
    void *block;
    int code = KV_OK;
    if (!bench_place_is_gpu(r->place))
        return KV_OK;
    for (int v = 0; v < nvalues; v++)
        for (int64_t k = 0; k < r->shapes.n && !code; k++)
            if (mirror_has(r->values[v].arrays[k]))
                code = mirror_device(r->values[v].arrays[k], MIRROR_CHANGE, &block, e);
    for (int v = 0; v < nouts; v++)
        for (int64_t k = 0; k < r->shapes.n && !code; k++)
            if (mirror_has(r->outs[v].arrays[k]))
                code = mirror_zero(r->outs[v].arrays[k], e);
    return code ? code : bench_place_wait(r->place, e);
}

/* ---- Releasing ---- */

static void free_set(const bench_arrays *r, bench_set *set)
{
    for (int64_t i = 0; set->arrays && i < r->shapes.n; i++)
        kv_array_unref(set->arrays[i]);
    mem_free(set->arrays);
    mem_free(set->data);
}

void bench_arrays_release(bench_arrays *r)
{
    for (int v = 0; v < r->nvalues; v++)
        free_set(r, &r->values[v]);
    for (int v = 0; v < r->nouts; v++)
        free_set(r, &r->outs[v]);
    for (int s = 0; s < r->nscratch; s++) {
        mem_free_data(r->blocks[s]);
        mem_free(r->scratch[s]);
    }
    stream_cut_release(&r->cut);
    mem_free(r->keys);
    mem_free(r->bytes);
    mem_free(r->shapes.items);
    *r = (bench_arrays){0};
}
