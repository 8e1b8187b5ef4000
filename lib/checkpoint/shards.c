/* See shards.h. */
#include "checkpoint/shards.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

int64_t shards_split(int64_t *shard, const int64_t *bytes, int64_t n, int64_t limit)
{
    /* the file that is being filled gets its number when it is full, so behind larger tensors */
    int64_t nshards = 0, filled = 0, first = 0;
    for (int64_t i = 0; i < n; i++)
        shard[i] = -1;
    for (int64_t i = 0; i < n; i++) {
        if (bytes[i] > limit) {
            shard[i] = nshards++;
            continue;
        }
        if (bytes[i] > limit - filled) {
            for (int64_t j = first; j < i; j++)
                shard[j] = shard[j] < 0 ? nshards : shard[j];
            nshards++;
            first = i;
            filled = 0;
        }
        filled += bytes[i];
    }
    bool rest = false;
    for (int64_t j = first; j < n; j++) {
        if (shard[j] < 0) {
            shard[j] = nshards;
            rest = true;
        }
    }
    nshards += rest;
    return nshards ? nshards : 1;
}

void shard_name(char out[SHARD_NAME_MAX], int64_t i, int64_t nshards)
{
    if (nshards == 1)
        strcpy(out, "model.safetensors");
    else
        snprintf(out, SHARD_NAME_MAX, "model-%05lld-of-%05lld.safetensors", (long long)i + 1,
                 (long long)nshards);
}

/* ---- The index ------------------------------------------------------------------------------- */

/* Appends a text as Python's json writes it: ASCII alone, characters beyond 16 bits as two
 * surrogates. */
static void put_quoted(buf *out, const char *text)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    size_t n = strlen(text);
    buf_char(out, '"');
    for (size_t i = 0; i < n;) {
        bool ok;
        size_t size = utf8_length(text + i, n - i, &ok);
        uint32_t c = ok ? utf8_number(text + i, size) : 0xfffd;
        const char *escape = strchr(from, text[i]);
        if (escape)
            buf_printf(out, "\\%c", to[escape - from]);
        else if (c >= ' ' && c <= '~')
            buf_char(out, text[i]);
        else if (c < 0x10000)
            buf_printf(out, "\\u%04x", (unsigned)c);
        else
            buf_printf(out, "\\u%04x\\u%04x", (unsigned)(0xd800 + ((c - 0x10000) >> 10)),
                       (unsigned)(0xdc00 + ((c - 0x10000) & 0x3ff)));
        i += size;
    }
    buf_char(out, '"');
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const shard_entry *)a)->name, ((const shard_entry *)b)->name);
}

void shards_index(buf *out, shard_entry *entries, int64_t n, int64_t nshards, int64_t total_bytes)
{
    char file[SHARD_NAME_MAX];
    if (n) /* else entries may be NULL */
        qsort(entries, (size_t)n, sizeof *entries, by_name);
    buf_printf(out, "{\n  \"metadata\": {\n    \"total_size\": %lld\n  },\n  \"weight_map\": {",
               (long long)total_bytes);
    for (int64_t i = 0; i < n; i++) {
        shard_name(file, entries[i].shard, nshards);
        buf_add(out, i ? ",\n    " : "\n    ");
        put_quoted(out, entries[i].name);
        buf_printf(out, ": \"%s\"", file);
    }
    buf_add(out, n ? "\n  }\n}\n" : "}\n}\n");
}
