/* An npy file: as one that has to be npy, and as any checkpoint. The mutator changes
 * the header and then corrects its length. */
#include "fuzz.h"

#include "checkpoint/checkpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const char *path = fuzz_file("m.npy", data, n);
    checkpoint *c = NULL;
    kv_err e = {0};
    fuzz_result(checkpoint_open(&c, path, &(checkpoint_options){.npy = true}, &e), &e);
    checkpoint_close(c);
    fuzz_checkpoint_file("m.npy", data, n);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed)
{
    buf b = {0};
    buf_put(&b, (const char *)data, n);
    fuzz_change_npy(&b, &seed);
    return fuzz_give(data, max, &b);
}
