/* A patch: opened, applied to the checkpoint that its seeds were made from, and joined with itself.
 * The mutator takes the file apart: the index is changed without its compression, a chunk gets its
 * sum anew, and all is packed again. */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "patch/patch.h"
#include "patch/patch_format.h"
#include "patch/patch_pack.h"

/* Bytes of the checkpoint: byte k of tensor i is 16 i + k. */
static checkpoint *checkpoint_a(void)
{
    static const int64_t shapes[][2] = {{2, 10}, {3, 1}, {4, 2}};
    static const tensor_info tensors[] = {
        {.name = "w", .type = TENSOR_BF16, .ndim = 2, .shape = shapes[0]},
        {.name = "b", .type = TENSOR_F32, .ndim = 1, .shape = shapes[1]},
        {.name = "g", .type = TENSOR_I8, .ndim = 2, .shape = shapes[2]}};
    static uint8_t bytes[3][40];
    static const void *const data[] = {bytes[0], bytes[1], bytes[2]};
    kv_err e = {0};
    checkpoint *c = NULL;
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 40; k++)
            bytes[i][k] = (uint8_t)(16 * i + k);
    HOLDS(checkpoint_of_memory(&c, tensors, data, 3, NULL, 0, "a", &e) == KV_OK, e.text);
    return c;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const checkpoint_out_options how = {.unsynced = true};
    static const patch_options quick = {.unsynced = true};
    kv_err e = {0}, e2 = {0};
    patch *p = NULL;
    patch_misfits wrong = {0}, unlinked = {0};
    patch_summary made;
    char path[300];
    if (!fuzz_result(patch_open(&p, fuzz_file("p", data, n), &e), &e))
        return 0;
    checkpoint *a = checkpoint_a();
    snprintf(path, sizeof path, "%s", fuzz_path("b.safetensors"));
    if (fuzz_result(patch_apply(path, &p, 1, a, &how, &quick, &wrong, &e), &e))
        fuzz_checkpoint(path);
    fuzz_result(patch_join(fuzz_path("pp"), (patch *[]){p, p}, 2, &quick, &made, &unlinked, &e2),
                &e2);
    patch_misfits_release(&wrong);
    patch_misfits_release(&unlinked);
    checkpoint_close(a);
    patch_close(p);
    return 0;
}

/* ---- The mutator ----------------------------------------------------------------------------- */

enum { MOST = 16, UNPACKED = 1 << 16 };

/* Changes the index under its compression. */
static void change_index(buf *b, unsigned *seed)
{
    static zstd_packer *packer;
    static zstd_unpacker *unpacker;
    kv_err e = {0};
    uint64_t bytes = 0;
    if (!packer)
        HOLDS(zstd_packer_new(&packer, &e) + zstd_unpacker_new(&unpacker, &e) == KV_OK, e.text);
    if (b->len > sizeof bytes)
        memcpy(&bytes, b->data, sizeof bytes);
    char *text = malloc(UNPACKED);
    if (bytes == 0 || bytes > UNPACKED || fuzz_next(seed, 8) == 0 ||
        !zstd_unpack(unpacker, text, (int64_t)bytes, b->data + 8, (int64_t)b->len - 8)) {
        fuzz_change(b, 0, b->len);
    } else {
        own_buf index = {0};
        buf_put(&index, text, bytes);
        fuzz_change(&index, 0, bytes);
        int64_t room = zstd_bound((int64_t)index.len);
        char *packed = malloc((size_t)room);
        int64_t n = zstd_pack(packer, packed, room, index.data, (int64_t)index.len, 3, 1);
        bytes = index.len;
        buf_clear(b);
        buf_put(b, (const char *)&bytes, sizeof bytes);
        buf_put(b, packed, (size_t)n);
        free(packed);
    }
    free(text);
}

/* Changes a chunk of data, and corrects its length and its sum. */
static void change_chunk(buf *b, unsigned *seed)
{
    varint_reader r = {(const unsigned char *)buf_text(b), (const unsigned char *)b->data + b->len};
    buf out = {0};
    bool done = fuzz_next(seed, 8) == 0;
    if (done)
        fuzz_change(b, 0, b->len);
    while (!done) {
        int64_t length;
        const unsigned char *begin = r.at;
        done = !varint_take(&r, &length) || length < PATCH_SUM || length > r.end - r.at;
        if (done && begin == (const unsigned char *)b->data)
            fuzz_change(b, 0, b->len);
        if (done)
            break;
        buf body = {0};
        buf_put(&body, (const char *)r.at, (size_t)length - PATCH_SUM);
        r.at += length;
        if (fuzz_next(seed, 2) == 0)
            fuzz_change(&body, 0, body.len);
        uint32_t sum = patch_sum(buf_text(&body), (int64_t)body.len);
        for (int i = 0; i < PATCH_SUM; i++)
            buf_char(&body, (char)(sum >> 8 * i));
        varint_put(&out, (int64_t)body.len);
        buf_put(&out, buf_text(&body), body.len);
        buf_release(&body);
        if (r.at == r.end) {
            buf_release(b);
            *b = out;
            return;
        }
    }
    buf_release(&out);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed)
{
    kv_err e = {0};
    checkpoint *c = NULL;
    buf parts[MOST] = {0}, header = {0}, out = {0};
    if (fuzz_next(&seed, 8) == 0 ||
        checkpoint_open_memory(&c, data, n, "p", &e))
        return fuzz_mutate_header(data, n, max, seed);
    int64_t count = checkpoint_count(c) < MOST ? checkpoint_count(c) : MOST, at = 0;
    int64_t changed = (int64_t)fuzz_next(&seed, count > 0 ? (unsigned)count : 1);
    buf_printf(&header, "{\"__metadata__\":{\"%s\":\"%s\"}", PATCH_MARK, PATCH_VERSION);
    for (int64_t i = 0; i < count; i++) {
        const tensor_info *t = checkpoint_at(c, i);
        buf_put(&parts[i], (const char *)data + t->offset, (size_t)t->bytes);
        if (i == changed && strcmp(t->name, PATCH_INDEX) == 0)
            change_index(&parts[i], &seed);
        else if (i == changed && strcmp(t->name, PATCH_HASHES) == 0)
            fuzz_change(&parts[i], 0, parts[i].len);
        else if (i == changed)
            change_chunk(&parts[i], &seed);
        buf_printf(&header, ",\"%s\":{\"dtype\":\"U8\",\"shape\":[%zu],",
                   strlen(t->name) < 20 ? t->name : "x", parts[i].len);
        buf_printf(&header, "\"data_offsets\":[%lld,%lld]}", (long long)at,
                   (long long)(at + (int64_t)parts[i].len));
        at += (int64_t)parts[i].len;
    }
    buf_char(&header, '}');
    uint64_t length = header.len;
    buf_put(&out, (const char *)&length, sizeof length);
    buf_put(&out, buf_text(&header), header.len);
    for (int64_t i = 0; i < count; i++) {
        buf_put(&out, buf_text(&parts[i]), parts[i].len);
        buf_release(&parts[i]);
    }
    buf_release(&header);
    checkpoint_close(c);
    return fuzz_give(data, max, &out);
}
