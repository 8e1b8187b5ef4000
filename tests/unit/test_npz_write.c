/* npz: what is written has the bytes that numpy.savez writes. */
#include "checkpoint/npz.h"

#include <fcntl.h>
#include <unistd.h>

#include "npz_cases.h"

#define NAME "w.npz"

#define MOST 16

static void enter(checkpoint_entry *entries, const npz_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        entries[i].name = cases[i].name;
        entries[i].type = cases[i].type;
        entries[i].ndim = cases[i].ndim;
        entries[i].shape = cases[i].shape;
    }
}

/* Writes an archive, each tensor in pieces of `step` bytes, the last one first. */
static int write_all(int fd, const npz_case *cases, size_t n, int64_t step, int64_t *size,
                     kv_err *e)
{
    checkpoint_entry entries[MOST] = {0};
    npz_out out;
    enter(entries, cases, n);
    int code = npz_lay_out(&out, entries, (int64_t)n, size, NAME, e);
    for (size_t i = 0; i < n && !code; i++) {
        int64_t bytes;
        OWN(test_free) char *data = npz_data(&cases[i], &bytes);
        CHECK_INT(out.entries[i].bytes, bytes);
        for (int64_t at = (bytes - 1) / step * step; bytes && at >= 0; at -= step) {
            int64_t part = bytes - at < step ? bytes - at : step;
            CHECK_INT(pwrite(fd, data + at, (size_t)part, out.entries[i].begin + at), part);
            npz_add(&out.entries[i], data + at, at, part);
        }
    }
    code = code ? code : npz_finish(&out, fd, NAME, e);
    npz_release(&out);
    return code;
}

static void same_as(const char *name, const npz_case *cases, size_t ncases)
{
    size_t n;
    char *want = npz_file(name, &n), *got = malloc(n + 1);
    for (int64_t step = 1; step < 100; step *= 7) {
        FILE *f = tmpfile();
        int64_t size;
        CHECK_OK(write_all(fileno(f), cases, ncases, step, &size, &e));
        CHECK_INT(size, n);
        CHECK_INT(pread(fileno(f), got, n + 1, 0), n);
        CHECK(memcmp(got, want, n) == 0);
        fclose(f);
    }
    mem_free(want);
    free(got);
}

TEST(npz_write_bytes)
{
    same_as("types.npz", npz_types, NTYPES);
    same_as("shapes.npz", npz_shapes, NSHAPED);
    same_as("nothing.npz", NULL, 0);
}

static void refused(const npz_case *cases, size_t n, kv_code code, const char *want,
                    const char *hint)
{
    kv_err e = {0};
    checkpoint_entry entries[2] = {0};
    npz_out out;
    int64_t size;
    enter(entries, cases, n);
    CHECK_INT(npz_lay_out(&out, entries, (int64_t)n, &size, NAME, &e), code);
    npz_release(&out);
    CHECK_TEXT(e.text, want);
    CHECK_TEXT(e.hint, hint);
}

TEST(npz_write_refuses)
{
    static char large[65600];
    memset(large, 'x', 65532);
    const npz_case half = {"w", TENSOR_BF16, 1, {2}}, q = {"q", TENSOR_Q4_0, 1, {32}},
                   far = {"f", TENSOR_F64, 2, {1 << 30, 1 << 30}},
                   named = {large, TENSOR_U8, 0, {0}};
    char want[256];
    refused(&half, 1, KV_E_DTYPE, NAME ": tensor \"w\" is BF16, which npz has not",
            "--dtype F32 converts it, and F16 where its range is enough");
    refused(&q, 1, KV_E_DTYPE, NAME ": tensor \"q\" is Q4_0, which npz has not", "");
    refused(&far, 1, KV_E_VALUE, NAME ": tensor \"f\" is too large", "");
    snprintf(want, sizeof want,
             NAME ": the name \"%.80s\" has 65536 bytes, and a member's has at most 65535", large);
    refused(&named, 1, KV_E_VALUE, want, "");
}

TEST(npz_write_types)
{
    for (int t = 0; t < TENSOR_TYPE_END; t++) {
        bool has = false;
        char kind;
        int width;
        for (size_t i = 0; i < NTYPES; i++)
            has |= npz_types[i].type == (tensor_type)t;
        CHECK_INT(npz_type_descr((tensor_type)t, &kind, &width), has);
    }
}

TEST(npz_write_no_memory)
{
    int64_t size;
    FILE *f = tmpfile();
    CHECK(FAILURES(write_all(fileno(f), npz_shapes, NSHAPED, 100, &size, &e)) < 200);
    fclose(f);
}

TEST(npz_write_full)
{
    int64_t size;
    int fd = open("/dev/full", O_WRONLY);
    if (fd < 0)
        test_skip("no /dev/full");
    CHECK_ERR(write_all(fd, npz_types, 0, 1, &size, &e), KV_E_IO,
              "cannot write \"" NAME "\": No space left on device");
    close(fd);
}

/* The definition: a bit at a time. */
static uint32_t plain_crc(uint32_t crc, const unsigned char *data, int64_t n)
{
    crc = ~crc;
    for (int64_t i = 0; i < n; i++) {
        crc ^= data[i];
        for (int k = 0; k < 8; k++)
            crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320 : 0);
    }
    return ~crc;
}

TEST(npz_write_crc)
{
    unsigned char data[1500];
    uint64_t state = 5;
    CHECK_INT(inflate_crc(0, "123456789", 9), 0xCBF43926);
    CHECK_INT(inflate_crc(7, NULL, 0), 7);
    for (size_t i = 0; i < sizeof data; i++) {
        state = state * UINT64_C(6364136223846793005) + 1;
        data[i] = (unsigned char)(state >> 56);
    }
    for (int64_t n = 0; n < 1400; n++) {
        int64_t at = n % 37;
        uint32_t before = (uint32_t)n * 2654435761u;
        uint32_t want = plain_crc(before, data + at, n);
        CHECK_INT(inflate_crc(before, data + at, n), want);
        /* Of two pieces, added. */
        int64_t first = n / 3;
        uint32_t added = inflate_crc_shift(inflate_crc(0, data, first), n - first) ^
                         inflate_crc(0, data + first, n - first);
        CHECK_INT(added, plain_crc(0, data, n));
    }
}
