/* A writer for the tests of crashes.
 *
 *     change make BYTES EVERY A B     two safetensors files of one BF16 tensor of BYTES bytes, of
 * which about one element in EVERY differs change FILE A B                 changes FILE, which is
 * as A, to B in place
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/xxh64.h"
#include "checkpoint/in_place.h"

#define HEADER 128

static int fail(const kv_err *e)
{
    fprintf(stderr, "change: %s\n%s%s", e->text, e->hint, e->hint[0] ? "\n" : "");
    return 1;
}

static uint64_t noise(uint64_t i)
{
    i = (i + 1) * UINT64_C(0x9E3779B97F4A7C15);
    i = (i ^ i >> 29) * UINT64_C(0xBF58476D1CE4E5B9);
    return i ^ i >> 32;
}

static void header(char *to, int64_t bytes)
{
    uint64_t length = HEADER - 8;
    memset(to, ' ', HEADER);
    memcpy(to, &length, 8);
    int n = snprintf(to + 8, HEADER - 8,
                     "{\"w\":{\"dtype\":\"BF16\",\"shape\":[%lld],\"data_offsets\":[0,%lld]}}",
                     (long long)bytes / 2, (long long)bytes);
    to[8 + n] = ' ';
}

static int write_file(const char *path, const char *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    return f && fwrite(data, 1, n, f) == n && fclose(f) == 0 ? 0 : 1;
}

static int make(int64_t bytes, uint64_t every, const char *a, const char *b)
{
    size_t n = HEADER + (size_t)bytes;
    char *data = mem_alloc((int64_t)n, 1, NULL);
    if (!data)
        return 1;
    header(data, bytes);
    for (int64_t i = 0; i < bytes; i++)
        data[HEADER + i] = (char)noise((uint64_t)i);
    if (write_file(a, data, n))
        return 1;
    for (int64_t i = 0; i + 1 < bytes; i += 2)
        if (noise((uint64_t)i + 7777777) % every == 0)
            data[HEADER + i] ^= (char)(1 + i % 15);
    return write_file(b, data, n);
}

/* Elements of two bytes, or more that are beside each other. */
static int put_differences(in_place *j, const char *a, const char *b, int64_t n, kv_err *e)
{
    int code = KV_OK;
    for (int64_t i = HEADER, end; i < n && !code; i = end) {
        for (end = i; end < n && memcmp(a + end, b + end, 2) != 0; end += 2)
            ;
        if (end > i)
            code = in_place_put(j, i, b + i, end - i, e);
        else
            end += 2;
    }
    return code ? code
                : in_place_expect(j, "w", HEADER, n - HEADER,
                                  xxh64(b + HEADER, (size_t)(n - HEADER)), e);
}

static int change(const char *path, const char *from, const char *to)
{
    kv_err e = {0};
    char *a, *b;
    size_t na, nb;
    in_place *j;
    if (file_read(from, &a, &na, &e) || file_read(to, &b, &nb, &e) || in_place_open(&j, path, &e) ||
        put_differences(j, a, b, (int64_t)na, &e) || in_place_commit(j, &e))
        return fail(&e);
    mem_free(a);
    mem_free(b);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 6 && strcmp(argv[1], "make") == 0)
        return make(atoll(argv[2]), (uint64_t)atoll(argv[3]), argv[4], argv[5]);
    return argc == 4 ? change(argv[1], argv[2], argv[3]) : 2;
}
