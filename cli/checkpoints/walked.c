/* The progress of walks, by their bytes. */
#include "checkpoints/walked.h"

#include "term/progress.h"

void walked_begin(const char *what, const checkpoint *c, const int64_t *keys, int64_t n)
{
    int64_t bytes = 0;
    for (int64_t i = 0; i < n; i++)
        bytes += checkpoint_at(c, keys[i])->bytes;
    progress_begin(what, bytes, PROGRESS_BYTES);
}

void walked_step(void *arg, int64_t done, int64_t all)
{
    (void)arg, (void)all;
    progress_step(done);
}
