/* One thread for each file: a job writes few, and an idle thread would be one more to end. */
#include "distributed/checkpoint_writer.h"

#include <unistd.h>

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

bool checkpoint_is_writing(checkpoint_writer *x)
{
    return x->started && !atomic_load(&x->over);
}

void checkpoint_wait(checkpoint_writer *x)
{
    if (x->started)
        pthread_join(x->thread, NULL);
    x->started = false;
}
