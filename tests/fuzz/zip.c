/* A mutator of zip archives, such as npz and PyTorch's: it takes them apart, changes a member, its
 * name or the list of members, and packs them again with right sizes, places and checksums. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "checkpoint/zip.h"

#if __has_include(<zlib.h>)
#include <zlib.h>

enum { MOST = 8, INFLATED = 1 << 16 };

typedef struct member {
    buf name, bytes; /* inflated */
    bool deflated;
} member;

static uint32_t number(const uint8_t *p, int bytes)
{
    uint32_t x = 0;
    for (int i = 0; i < bytes; i++)
        x |= (uint32_t)p[i] << 8 * i;
    return x;
}

static void put(buf *b, uint32_t x, int bytes)
{
    for (int i = 0; i < bytes; i++)
        buf_char(b, (char)(x >> 8 * i));
}

/* Raw deflate, both ways. */
static void pack(buf *out, const buf *in, bool inflates)
{
    z_stream z = {.next_in = (Bytef *)buf_text(in), .avail_in = (uInt)in->len};
    uint8_t *room = malloc(INFLATED);
    z.next_out = room;
    z.avail_out = INFLATED;
    if (inflates) {
        inflateInit2(&z, -15);
        inflate(&z, Z_FINISH);
        inflateEnd(&z);
    } else {
        deflateInit2(&z, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY);
        deflate(&z, Z_FINISH);
        deflateEnd(&z);
    }
    buf_put(out, (const char *)room, INFLATED - z.avail_out);
    free(room);
}

/* Takes apart the members that the headers before the data describe, one behind the other. */
static int take_apart(member *all, const uint8_t *data, size_t n)
{
    int members = 0;
    size_t at = 0;
    while (members < MOST && at + ZIP_LOCAL_BYTES < n && number(data + at, 4) == ZIP_LOCAL) {
        size_t name = number(data + at + 26, 2), extra = number(data + at + 28, 2);
        size_t stored = number(data + at + 18, 4), begin = at + ZIP_LOCAL_BYTES + name + extra;
        if (begin > n || stored > n - begin)
            break;
        member *m = &all[members++];
        *m = (member){.deflated = number(data + at + 8, 2) == ZIP_DEFLATED};
        buf raw = {0};
        buf_put(&m->name, (const char *)data + at + ZIP_LOCAL_BYTES, name);
        buf_put(&raw, (const char *)data + begin, stored);
        if (m->deflated)
            pack(&m->bytes, &raw, true);
        else
            buf_put(&m->bytes, buf_text(&raw), raw.len);
        buf_release(&raw);
        at = begin + stored;
    }
    return members;
}

/* Appends a member and its entry of the directory. */
static void put_member(buf *out, buf *directory, const member *m)
{
    own_buf packed = {0};
    uint32_t at = (uint32_t)out->len;
    uint32_t crc = (uint32_t)crc32(0, (const Bytef *)buf_text(&m->bytes), (uInt)m->bytes.len);
    if (m->deflated)
        pack(&packed, &m->bytes, false);
    else
        buf_put(&packed, buf_text(&m->bytes), m->bytes.len);
    for (int entry = 0; entry < 2; entry++) {
        buf *to = entry ? directory : out;
        put(to, entry ? ZIP_ENTRY : ZIP_LOCAL, 4);
        put(to, entry ? 20 << 16 | 20 : 20, entry ? 4 : 2);
        put(to, 0, 2);
        put(to, m->deflated ? ZIP_DEFLATED : ZIP_STORED, 2);
        put(to, 0, 4);
        put(to, crc, 4);
        put(to, (uint32_t)packed.len, 4);
        put(to, (uint32_t)m->bytes.len, 4);
        put(to, (uint32_t)m->name.len, 4); /* and no extra field */
        for (int i = 0; entry && i < 10; i++)
            buf_char(to, 0);
        if (entry)
            put(to, at, 4);
        buf_put(to, buf_text(&m->name), m->name.len);
    }
    buf_put(out, buf_text(&packed), packed.len);
}

static void change_member(member *m, unsigned *seed)
{
    if (memmem(buf_text(&m->name), m->name.len, ".npy", 4))
        fuzz_change_npy(&m->bytes, seed);
    else
        fuzz_change(&m->bytes, 0, m->bytes.len);
}

size_t fuzz_mutate_zip(uint8_t *data, size_t n, size_t max, unsigned seed)
{
    member all[MOST];
    buf out = {0}, directory = {0};
    int members = fuzz_next(&seed, 4) ? take_apart(all, data, n) : 0;
    if (members == 0)
        return LLVMFuzzerMutate(data, n, max);
    member *m = &all[fuzz_next(&seed, (unsigned)members)];
    unsigned what = fuzz_next(&seed, 16);
    if (what == 0)
        fuzz_change(&m->name, 0, m->name.len);
    else if (what == 1)
        m->deflated = !m->deflated;
    else if (what > 3)
        change_member(m, &seed);
    for (int i = 0; i < members; i++)
        for (int twice = 0; twice <= (what == 2 && m == &all[i]); twice++)
            if (what != 3 || m != &all[i])
                put_member(&out, &directory, &all[i]);
    uint32_t at = (uint32_t)out.len, count = (uint32_t)(members + (what == 2) - (what == 3));
    buf_put(&out, buf_text(&directory), directory.len);
    put(&out, ZIP_END, 4);
    put(&out, 0, 4);
    put(&out, count << 16 | count, 4);
    put(&out, (uint32_t)directory.len, 4);
    put(&out, at, 4);
    put(&out, 0, 2);
    buf_release(&directory);
    for (int i = 0; i < members; i++) {
        buf_release(&all[i].name);
        buf_release(&all[i].bytes);
    }
    return fuzz_give(data, max, &out);
}
#else
size_t fuzz_mutate_zip(uint8_t *data, size_t n, size_t max, unsigned seed)
{
    (void)seed;
    return LLVMFuzzerMutate(data, n, max);
}
#endif
