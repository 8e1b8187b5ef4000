/* npz: what is written has the bytes that numpy.savez writes. */
#include "checkpoint/npz.h"

#include <signal.h>
#include <sys/resource.h>

#include "npz_cases.h"
#include "test_checkpoint.h"

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
static int write_all(const char *path, const npz_case *cases, size_t n, int64_t step, kv_err *e)
{
    const checkpoint_out_options quick = {.unsynced = true};
    checkpoint_entry entries[MOST] = {0};
    checkpoint_out *out;
    enter(entries, cases, n);
    TRY(checkpoint_out_open(&out, path, entries, (int64_t)n, NULL, 0, &quick, e));
    for (size_t i = 0; i < n; i++) {
        int64_t bytes;
        OWN(test_free) char *data = npz_data(&cases[i], &bytes);
        for (int64_t at = (bytes - 1) / step * step; bytes && at >= 0; at -= step) {
            int64_t part = bytes - at < step ? bytes - at : step;
            CHECK_INT(checkpoint_out_put(out, (int64_t)i, at, data + at, part, e), KV_OK);
        }
    }
    return checkpoint_out_commit(out, e);
}

static void same_as(const char *name, const npz_case *cases, size_t ncases)
{
    size_t n, got_n;
    own_text *want = npz_file(name, &n);
    own_folder d = folder_new();
    const char *path = folder_file(&d, NAME);
    for (int64_t step = 1; step < 100; step *= 7) {
        CHECK_OK(write_all(path, cases, ncases, step, &e));
        own_text *got = file_text(path, &got_n);
        CHECK_INT(got_n, n);
        CHECK(memcmp(got, want, n) == 0);
    }
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
    out_tensor to[2];
    own_buf text = {0};
    int64_t directory;
    enter(entries, cases, n);
    CHECK_INT(npz_lay_out(&text, &directory, to, entries, (int64_t)n, NAME, &e), code);
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
    own_folder d = folder_new();
    CHECK(chdir(d.path) == 0);
    CHECK(FAILURES(write_all(NAME, npz_shapes, NSHAPED, 100, &e)) < 200);
}

/* The text of an archive is written last. */
TEST(npz_write_full)
{
    own_folder d = folder_new();
    checkpoint_out *out;
    CHECK(chdir(d.path) == 0);
    CHECK_OK(checkpoint_out_open(&out, NAME, NULL, 0, NULL, 0, NULL, &e));
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){.rlim_max = RLIM_INFINITY});
    CHECK_ERR(checkpoint_out_commit(out, &e), KV_E_IO, "cannot write \"" NAME "\": File too large");
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
