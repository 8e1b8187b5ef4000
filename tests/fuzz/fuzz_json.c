/* JSON text as an array, of its own dtype or the one that the first byte draws. What is read is
 * written and reads back equal. */
#include "fuzz.h"

#include <string.h>

#include "io/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    fuzz_bytes in = {data, data + n};
    bool has_dtype = fuzz_draw(&in, 2);
    kv_dtype dtype = has_dtype ? fuzz_dtype(&in) : KV_FLOAT32;
    kv_array *a = NULL, *again = NULL;
    kv_err e = {0};
    buf once = {0}, twice = {0};
    int code = json_read(&a, (const char *)in.at, (size_t)(in.end - in.at), "x.json", has_dtype,
                         dtype, &e);
    if (!fuzz_result(code, &e))
        return 0;
    HOLDS(json_write(&once, a, &e) == KV_OK, e.text);
    HOLDS(json_read(&again, buf_text(&once), once.len, "x.json", false, KV_FLOAT32, &e) == KV_OK,
          e.text);
    HOLDS(json_write(&twice, again, &e) == KV_OK, e.text);
    HOLDS(strcmp(buf_text(&once), buf_text(&twice)) == 0, "it reads back equal");
    kv_array_unref(a);
    kv_array_unref(again);
    buf_release(&once);
    buf_release(&twice);
    return 0;
}
