/* One thread for each file: a job writes few, and an idle thread would be one more to end. */
#include "distributed/job_checkpoint.h"

#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "runtime.h"

void checkpoint_missing(const char *path, int64_t round, const kv_err *why)
{
    runtime_log("no checkpoint of round %lld: %s; %s", (long long)round, why->text,
                access(path, F_OK) ? "there is none" : "the one before stays");
}

static void *write_image(void *arg)
{
    checkpoint_writer *x = arg;
    kv_err why = {0};
    if (image_write(&x->image, x->path, &why))
        checkpoint_missing(x->path, x->round, &why);
    image_release(&x->image);
    atomic_store(&x->over, true);
    return NULL;
}

void checkpoint_write(checkpoint_writer *x, image *im, const char *path, int64_t round)
{
    checkpoint_wait(x);
    x->image = *im;
    x->image.around = true;
    *im = (image){0};
    x->path = path;
    x->round = round;
    atomic_store(&x->over, false);
    x->started = pthread_create(&x->thread, NULL, write_image, x) == 0;
    if (!x->started)
        write_image(x);
}

void checkpoint_wait(checkpoint_writer *x)
{
    if (x->started)
        pthread_join(x->thread, NULL);
    x->started = false;
}

/* ---- Memory ----
 *
 * Checkpoints of a job mostly ask for the same arrays in the same order, so each request looks at
 * one array only: the one that the previous checkpoint got at this point. */

void array_reuse_begin(array_reuse *r)
{
    r->at = 0;
}

int array_reuse_get(array_reuse *r, kv_array **out, kv_dtype dtype, int ndim, const int64_t *shape,
                    kv_err *e)
{
    const kv_ctx cpu = {KV_CPU, 0};
    if (!r)
        return kv_array_new_raw(out, dtype, ndim, shape, cpu, e);
    TRY(mem_grow(&r->items, &r->cap, r->at + 1, sizeof(kv_array *), e));
    kv_array **at = &r->items[r->at];
    if (r->at == r->n)
        r->items[r->n++] = NULL;
    if (!*at || kv_array_refs(*at) != 1 || kv_array_dtype(*at) != dtype ||
        kv_array_ndim(*at) != ndim ||
        memcmp(kv_array_shape(*at), shape, (size_t)ndim * sizeof *shape) != 0) {
        kv_array_unref(*at); /* before the new one takes memory */
        *at = NULL;
        TRY(kv_array_new_raw(at, dtype, ndim, shape, cpu, e));
    }
    r->at++;
    *out = kv_array_ref(*at);
    return KV_OK;
}

void array_reuse_release(array_reuse *r)
{
    for (int64_t i = 0; i < r->n; i++)
        kv_array_unref(r->items[i]);
    mem_free(r->items);
    *r = (array_reuse){0};
}
