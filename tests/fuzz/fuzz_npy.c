/* An npy file: as an array from a stream, and as a checkpoint of one tensor. The mutator changes
 * the header and then corrects its length. */
#include "fuzz.h"

#include <stdio.h>

#include "io/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const char *path = fuzz_file("m.npy", data, n);
    kv_err e = {0};
    kv_array *a = NULL;
    FILE *f = fopen(path, "rb");
    HOLDS(f != NULL, path);
    bool read = fuzz_result(npy_read(&a, f, "m.npy", &e), &e);
    fclose(f);
    if (read)
        kv_array_unref(a);
    fuzz_checkpoint(path);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed)
{
    buf b = {0};
    buf_put(&b, (const char *)data, n);
    fuzz_change_npy(&b, &seed);
    return fuzz_give(data, max, &b);
}
