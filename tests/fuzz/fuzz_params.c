/* MXNet's .params. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    fuzz_checkpoint_file("m.params", data, n);
    return 0;
}
