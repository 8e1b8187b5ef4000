/* A file of PyTorch: an archive with a pickle and its storages. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    fuzz_checkpoint_file("m.pt", data, n);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed)
{
    return fuzz_mutate_zip(data, n, max, seed);
}
