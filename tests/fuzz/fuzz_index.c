/* The index of a checkpoint of several files, beside two files of two tensors each; and the folder
 * that holds them. */
#include "fuzz.h"

#include <string.h>

static const char *const shards[] = {"model-00001-of-00002.safetensors",
                                     "model-00002-of-00002.safetensors"};
static const char *const headers[] = {
    "{\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
    "\"y\":{\"dtype\":\"I8\",\"shape\":[2,2],\"data_offsets\":[4,8]}}",
    "{\"z\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[0,2]},"
    "\"w\":{\"dtype\":\"U8\",\"shape\":[6],\"data_offsets\":[2,8]}}"};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    for (int i = 0; i < 2; i++) {
        uint64_t length = strlen(headers[i]);
        own_buf b = {0};
        buf_put(&b, (const char *)&length, sizeof length);
        buf_add(&b, headers[i]);
        buf_put(&b, "\0\1\0\1\0\1\0\1", 8);
        fuzz_file(shards[i], b.data, b.len);
    }
    fuzz_checkpoint(fuzz_file("model.safetensors.index.json", data, n));
    fuzz_checkpoint(fuzz_path(""));
    return 0;
}
