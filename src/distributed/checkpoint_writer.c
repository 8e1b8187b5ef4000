/* One thread for each file: a job writes few, and an idle thread would be one more to end. */
#include "distributed/checkpoint_writer.h"

#include <sys/resource.h>

#include "runtime.h"

void checkpoint_missing(int64_t round, const kv_err *why)
{
    runtime_log("no checkpoint of round %lld: %s; the one before stays", (long long)round,
                why->text);
}

static void write_image(checkpoint_writer *x)
{
    kv_err why = {0};
    if (image_write(&x->image, x->path, &why))
        checkpoint_missing(x->round, &why);
    image_release(&x->image);
    atomic_store(&x->over, true);
}

/* A thread that waits for an array may drive the net meanwhile, and others wait for that. So this
 * one waits for all arrays before it takes a lower priority. */
static void wait_for_arrays(const image *im)
{
    const void *data;
    kv_err unused = {0}; /* image_write meets it again */
    for (int64_t i = 0; i < im->n; i++)
        kv_array_read(im->items[i].array, &data, &unused);
}

/* Lowers the priority of the calling thread, so that rounds go first where they use all processors.
 */
static void lower_priority(void)
{
    enum { STEPS = 10 };
    setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + STEPS);
}

static void *run_thread(void *arg)
{
    checkpoint_writer *x = arg;
    wait_for_arrays(&x->image);
    lower_priority();
    write_image(x);
    return NULL;
}

void checkpoint_write(checkpoint_writer *x, image *im, const char *path, int64_t round)
{
    checkpoint_written(x);
    x->image = *im;
    *im = (image){0};
    x->path = path;
    x->round = round;
    atomic_store(&x->over, false);
    x->started = pthread_create(&x->thread, NULL, run_thread, x) == 0;
    if (!x->started)
        write_image(x);
}

bool checkpoint_writes(checkpoint_writer *x)
{
    return x->started && !atomic_load(&x->over);
}

void checkpoint_written(checkpoint_writer *x)
{
    if (x->started)
        pthread_join(x->thread, NULL);
    x->started = false;
}
