/* A safetensors file, as a file and in memory. The mutator changes the header and then
 * corrects its length. */
#include "fuzz.h"

#include "checkpoint/checkpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    kv_err e = {0};
    own_checkpoint *c = NULL;
    fuzz_checkpoint_file("m.safetensors", data, n);
    if (fuzz_result(checkpoint_open_memory(&c, data, n, "m", &e), &e))
        for (int64_t i = 0; i < checkpoint_count(c) && i < 100; i++) {
            kv_array *a = NULL;
            e = (kv_err){0};
            if (fuzz_result(checkpoint_load(&a, c, i, &e), &e))
                kv_array_unref(a);
        }
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed)
{
    return fuzz_mutate_header(data, n, max, seed);
}
