/* The store on gpu(0) beside the copy of the same device in the same run: ratios of bytes a second,
 * with the bars that they are to reach. $BENCH_MB is the size of the large arrays (1024). What
 * comes out is compared with known numbers in works.c and the recorded runs, not here.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "array/device.h"
#include "base/mem.h"
#include "kvstore.h"

enum { TIMES = 7, MOST_VALUES = 8 };

static const gpu_ops *gpu;
static int64_t large; /* floats of a large array */

static void must(int rc, const kv_err *e)
{
    if (rc == KV_OK)
        return;
    printf("# %s\n", e->text);
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* ---- What is measured ---- */

/* Keys of one size with values on gpu(0), and what the store does with them. */
typedef struct work {
    const char *name;
    int64_t keys, floats; /* of a key */
    int64_t values;
    const char *optimizer; /* or NULL: the sum is stored */
    const char *code;      /* of compressed gradients, or NULL */
    int64_t bytes_each;    /* that an element moves at least */
    double bar;
} work;

typedef struct setting {
    const work *w;
    kv *store;
    kv_key *keys;
    kv_array **values;
    int64_t n;
    void *from, *to; /* of the limit */
    int64_t bytes;
} setting;

static void begin(setting *s, const work *w)
{
    kv_err e = {0};
    *s = (setting){.w = w, .n = w->keys * w->values};
    must(kv_create("device", NULL, 0, &s->store, &e), &e);
    s->keys = mem_alloc(s->n, sizeof *s->keys, &e);
    s->values = mem_alloc(s->n, sizeof *s->values, &e);
    must(e.code, &e);
    for (int64_t i = 0; i < s->n; i++) {
        s->keys[i] = (kv_key){i / w->values, NULL};
        must(kv_array_new(&s->values[i], KV_FLOAT32, 1, &w->floats, (kv_ctx){KV_GPU, 0}, &e), &e);
        if (i % w->values == 0)
            must(kv_init(s->store, &s->keys[i], 1, &s->values[i], NULL, &e), &e);
    }
    if (w->code) {
        kv_opt opts[] = {{"type", w->code}};
        must(kv_set_gradient_compression(s->store, opts, 1, &e), &e);
    }
    if (w->optimizer)
        must(kv_set_optimizer(s->store, w->optimizer, NULL, 0, &e), &e);
    s->bytes = w->keys * w->floats * w->bytes_each;
    must(gpu->alloc(0, s->bytes / 2 + 1, &s->from, &e), &e);
    must(gpu->alloc(0, s->bytes / 2 + 1, &s->to, &e), &e);
}

static void end(setting *s)
{
    kv_free(s->store);
    for (int64_t i = 0; i < s->n; i++)
        kv_array_unref(s->values[i]);
    gpu->free(0, s->from);
    gpu->free(0, s->to);
    mem_free(s->keys);
    mem_free(s->values);
}

static double time_push(const setting *s)
{
    kv_err e = {0};
    double t = now();
    must(kv_push(s->store, s->keys, s->n, s->values, NULL, &e), &e);
    must(kv_wait(s->store, &e), &e);
    must(gpu->wait(0, &e), &e);
    return now() - t;
}

/* Half of the bytes are read and half are written. */
static double time_copy(const setting *s)
{
    kv_err e = {0};
    double t = now();
    must(gpu->copy(0, s->to, 0, s->from, s->bytes / 2, &e), &e);
    must(gpu->wait(0, &e), &e);
    return now() - t;
}

static void measure(const work *w)
{
    setting s;
    double ratio[TIMES], push[TIMES];
    begin(&s, w);
    time_push(&s); /* compiles, and moves the keys */
    for (int i = 0; i < TIMES; i++) {
        push[i] = time_push(&s);
        ratio[i] = time_copy(&s) / push[i];
    }
    qsort(ratio, TIMES, sizeof *ratio, by_size);
    qsort(push, TIMES, sizeof *push, by_size);
    printf("%-44s %8.2f GB/s   %.2f of a copy (bar %.2f)%s\n", w->name,
           (double)s.bytes / push[TIMES / 2] * 1e-9, ratio[TIMES / 2], w->bar,
           ratio[TIMES / 2] < w->bar ? "  below" : "");
    fflush(stdout);
    end(&s);
}

int main(void)
{
    kv_err e = {0};
    const char *text = getenv("BENCH_MB");
    gpu_facts facts;
    gpu = gpu_find(&e);
    if (!gpu) {
        printf("no figures: %s\n", e.text);
        return 0;
    }
    must(gpu->facts(0, &facts, &e), &e);
    large = (text ? strtoll(text, NULL, 10) : 1024) << 18;
    printf("gpu(0): %s; arrays of %lld MB\n", facts.name, (long long)(large >> 18));
    const work works[] = {
        {"push of 2 values", 1, large, 2, NULL, NULL, 12, 0.90},
        {"push of 4 values", 1, large, 4, NULL, NULL, 20, 0.90},
        {"push of 8 values", 1, large, 8, NULL, NULL, 36, 0.90},
        {"push of 4 values, 160 keys", 160, large / 1600, 4, NULL, NULL, 20, 0.80},
        {"sgd", 1, large, 1, "sgd", NULL, 12, 0.88},
        {"adam", 1, large, 1, "adam", NULL, 28, 0.88},
        {"4 values and adam in one", 1, large, 4, "adam", NULL, 40, 0.88},
        {"2bit, summed", 1, large, 1, NULL, "2bit", 16, 0.85},
        {"100000 keys of 16 floats", large > 1 << 24 ? 100000 : 1000, 16, 1, NULL, NULL, 8,
         0.50},
    };
    for (size_t i = 0; i < sizeof works / sizeof *works; i++)
        measure(&works[i]);
    return 0;
}
