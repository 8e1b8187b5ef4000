/* The pickle of a file of PyTorch, packed with two storages into an archive with right checksums:
 * fuzz_npz takes archives apart. */
#include "fuzz.h"

#include <string.h>

#include "checkpoint/zip.h"

static void put(buf *b, uint32_t x, int bytes)
{
    for (int i = 0; i < bytes; i++)
        buf_char(b, (char)(x >> 8 * i));
}

/* Appends a member and its entry of the directory. */
static void put_member(buf *out, buf *directory, const char *name, const void *data, size_t n)
{
    uint32_t at = (uint32_t)out->len, crc = inflate_crc(0, data, (int64_t)n);
    for (int entry = 0; entry < 2; entry++) {
        buf *to = entry ? directory : out;
        put(to, entry ? ZIP_ENTRY : ZIP_LOCAL, 4);
        put(to, entry ? 20 << 16 | 20 : 20, entry ? 4 : 2);
        put(to, 0, 2);
        put(to, ZIP_STORED, 2);
        put(to, 0, 4);
        put(to, crc, 4);
        put(to, (uint32_t)n, 4);
        put(to, (uint32_t)n, 4);
        put(to, (uint32_t)strlen(name), 4); /* and no extra field */
        for (int i = 0; entry && i < 10; i++)
            buf_char(to, 0);
        if (entry)
            put(to, at, 4);
        buf_add(to, name);
    }
    buf_put(out, data, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char storage[140] = {1, 2, 3};
    own_buf out = {0}, directory = {0};
    put_member(&out, &directory, "m/data.pkl", data, n);
    put_member(&out, &directory, "m/data/0", storage, sizeof storage);
    put_member(&out, &directory, "m/data/1", storage, 16);
    uint32_t at = (uint32_t)out.len;
    buf_put(&out, buf_text(&directory), directory.len);
    put(&out, ZIP_END, 4);
    put(&out, 0, 4);
    put(&out, 3 << 16 | 3, 4);
    put(&out, (uint32_t)directory.len, 4);
    put(&out, at, 4);
    put(&out, 0, 2);
    fuzz_checkpoint(fuzz_file("m.pt", buf_text(&out), out.len));
    return 0;
}
