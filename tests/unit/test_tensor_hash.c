/* Hashes: known answers of xxHash's and OpenSSL's own tools; a tensor's is that of its dtype, shape
 * and bytes alone. */
#include "tensors/tensor_hash.h"

#include <unistd.h>

#include "../memory.h"
#include "checkpoint/file_window.h"
#include "engine/pool.h"
#include "tensors/walk.h"
#include "test_tensor.h"

/* ---- Bytes ----------------------------------------------------------------------------------- */

/* Ends the test where the build has no library for it. */
static digest *made(digest_kind kind)
{
    kv_err e = {0};
    digest *d = NULL;
    if (digest_new(&d, kind, &e) == KV_E_UNSUPPORTED)
        test_skip(e.text);
    CHECK_INT(e.code, KV_OK);
    return d;
}

static const char *hex_of(digest *d, digest_kind kind, const void *data, int64_t n, int64_t step)
{
    static char hex[DIGEST_TEXT];
    unsigned char hash[DIGEST_MAX];
    digest_begin(d);
    for (int64_t i = 0; i < n; i += step)
        digest_add(d, (const char *)data + i, n - i < step ? n - i : step);
    CHECK_OK(digest_end(d, hash, &e));
    digest_text(hex, kind, hash);
    return hex;
}

static void known(digest_kind kind, const char *of_nothing, const char *of_abc, const char *of_many)
{
    static unsigned char many[256000];
    static const int64_t steps[] = {1, 7, 1000, 65536, sizeof many};
    digest *d = made(kind);
    for (size_t i = 0; i < sizeof many; i++)
        many[i] = (unsigned char)i;
    CHECK_TEXT(hex_of(d, kind, "", 0, 1), of_nothing);
    CHECK_TEXT(hex_of(d, kind, "abc", 3, 3), of_abc);
    CHECK_TEXT(hex_of(d, kind, "abc", 3, 1), of_abc);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        CHECK_TEXT(hex_of(d, kind, many, sizeof many, steps[i]), of_many);
    digest_free(d);
    digest_free(NULL);
}

TEST(digest_known)
{
    known(DIGEST_XXH3, "99aa06d3014798d86001c324468d497f", "06b05ab6733a618578af5f94892f3950",
          "548512d98989de2d776474c39d20f9aa");
    known(DIGEST_SHA256, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
          "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
          "b57b64b198d5d59ce5a22a9b9f25e72a7d081476d432051aa923f3dbebb90934");
}

/* ---- Tensors --------------------------------------------------------------------------------- */

static const float three[] = {1, 2, 3};
static const uint8_t yes[] = {1};

static void hashes_of(const buf *file, digest_kind kind, char (*hex)[DIGEST_TEXT], int64_t n)
{
    tensor_hash hashes[16];
    int64_t numbers[16];
    own_checkpoint *c = tensor_open(file, "m");
    CHECK_INT(checkpoint_count(c), n);
    for (int64_t i = 0; i < n; i++)
        numbers[i] = n - 1 - i; /* any order */
    CHECK_OK(tensor_hash_all(hashes, c, numbers, n, kind, NULL, NULL, &e));
    for (int64_t i = 0; i < n; i++)
        digest_text(hex[numbers[i]], kind, hashes[i].bytes);
}

/* Of "F32 [3]\n" and so on, by Python's xxhash and hashlib. */
TEST(tensor_hash_known)
{
    const tensor_given t[] = {{"w", TENSOR_F32, 3, 0, three},
                              {"none", TENSOR_BF16, 0, 3, NULL},
                              {"on", TENSOR_BOOL, -1, 0, yes},
                              {"again", TENSOR_F32, 3, 0, three}};
    own_buf file = tensor_file(t, 4);
    char hex[4][DIGEST_TEXT];
    digest_free(made(DIGEST_XXH3));
    hashes_of(&file, DIGEST_XXH3, hex, 4);
    CHECK_TEXT(hex[0], "26ce32b1ef93bcf14afe727c5f1a77de");
    CHECK_TEXT(hex[1], "367f226cca592ee16b5fc1b7e7a6a8a5");
    CHECK_TEXT(hex[2], "dc725c7a32ef6974a7fa51f9a615ad98");
    CHECK_TEXT(hex[3], hex[0]);
    digest_free(made(DIGEST_SHA256));
    hashes_of(&file, DIGEST_SHA256, hex, 4);
    CHECK_TEXT(hex[0], "9f5aafa70943763163bb167304edccc15ba90c5ca31653f3685247eb4d6d0a28");
    CHECK_TEXT(hex[1], "3d56bfc5eb8801533aa8594bc05707759ce69d1e6edc8d7db58a05b58b2c3c10");
    CHECK_TEXT(hex[2], "ce980c88bdf086a19d72a8d18ed62c00814a834206deb6674e51273311cff5d9");
}

/* Pieces on several threads give what one call over all bytes gives. */
TEST(tensor_hash_pieces)
{
    enum { N = 12 };
    tensor_given t[N];
    char hex[N][DIGEST_TEXT], names[N][8];
    uint16_t *data[N];
    digest *d = made(DIGEST_XXH3);
    for (int i = 0; i < N; i++) {
        int64_t n = i * WALK_PIECE / 2 + i % 3;
        snprintf(names[i], sizeof names[i], "t%d", i);
        data[i] = malloc((size_t)n * 2 + 1);
        for (int64_t k = 0; k < n; k++)
            data[i][k] = (uint16_t)(k * 7919 + i);
        t[i] = (tensor_given){names[i], TENSOR_BF16, n, 0, data[i]};
    }
    own_buf file = tensor_file(t, N), all = {0};
    hashes_of(&file, DIGEST_XXH3, hex, N);
    for (int i = 0; i < N; i++) {
        buf_clear(&all);
        buf_printf(&all, "BF16 [%lld]\n", (long long)t[i].rows);
        buf_put(&all, (const char *)data[i], (size_t)t[i].rows * 2);
        CHECK_TEXT(hex[i],
                   hex_of(d, DIGEST_XXH3, buf_text(&all), (int64_t)all.len, (int64_t)all.len));
        free(data[i]);
    }
    digest_free(d);
}

/* Files are mapped or read, by how they stand in the page cache; the bytes are the same. */
TEST(tensor_hash_files)
{
    enum { N = 24 << 20 };
    char path[64];
    OWN(test_free) uint8_t *data = malloc(N);
    char memory[3][DIGEST_TEXT];
    digest_free(made(DIGEST_XXH3));
    for (int64_t i = 0; i < N; i++)
        data[i] = (uint8_t)(i * i >> 7);
    const tensor_given t[] = {{"a", TENSOR_U8, N, 0, data},
                              {"b", TENSOR_U8, 3, 0, data},
                              {"c", TENSOR_F32, N / 8, 2, data}};
    own_buf file = tensor_file(t, 3);
    hashes_of(&file, DIGEST_XXH3, memory, 3);
    for (int round = 0; round < 3; round++) {
        int fd = mkstemp(memory_path(path, sizeof path, "tensor-hash"));
        size_t piece = round == 1 ? 8192 : file.len; /* of small pages, and of large ones */
        for (size_t at = 0; at < file.len; at += piece) {
            size_t n = file.len - at < piece ? file.len - at : piece;
            CHECK_INT(write(fd, file.data + at, n), n);
        }
        close(fd);
        tensor_hash hashes[3];
        char hex[DIGEST_TEXT];
        checkpoint *c = MADE(checkpoint, checkpoint_open, path, NULL);
        CHECK_OK(tensor_hash_all(hashes, c, (int64_t[]){0, 1, 2}, 3, DIGEST_XXH3, NULL, NULL, &e));
        for (int i = 0; i < 3; i++) {
            digest_text(hex, DIGEST_XXH3, hashes[i].bytes);
            CHECK_TEXT(hex, memory[i]);
        }
        checkpoint_close(c);
        unlink(path);
        file_window_handled(); /* from here on they are mapped */
    }
}

/* Without memory it fails, and leaves nothing. */
TEST(tensor_hash_memory)
{
    const tensor_given t[] = {{"w", TENSOR_F32, 3, 0, three}, {"on", TENSOR_BOOL, -1, 0, yes}};
    own_buf file = tensor_file(t, 2);
    own_checkpoint *c = tensor_open(&file, "m");
    int64_t numbers[] = {0, 1};
    tensor_hash hashes[2];
    digest_free(made(DIGEST_XXH3));
    pool_workers();
    CHECK(FAILURES(tensor_hash_all(hashes, c, numbers, 2, DIGEST_XXH3, NULL, NULL, &e)) > 3);
}
