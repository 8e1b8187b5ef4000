/* Reading an index. */
#include "checkpoint/shard_index.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/num.h"
#include "base/utf8.h"
#include "checkpoint/json_scan.h"
#include "io/json_writer.h"

#define INDEX_MAX   100000000 /* bytes: as much as the header of a file may have */
#define TENSORS_MAX 4000000   /* short entries would need many times their bytes in memory */
#define DEPTH_MAX   16        /* of what is skipped */

typedef struct reading {
    shard_index *x;
    const checkpoint *c;
    const char *path;
    json_scan scan;
    bool mapped; /* weight_map was there */
    buf name, word;
} reading;

/* ---- The members ----------------------------------------------------------------------------- */

/* Says what is wrong with the name of a file, or returns NULL. */
static const char *refuse_name(const char *name)
{
    if (!*name)
        return "an empty text";
    return strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0
               ? "a name that leaves the folder"
               : NULL;
}

/* A name of a shard in the arena; neighbours mostly have the same. */
static const char *keep_shard(reading *r, kv_err *e)
{
    const shard_index *x = r->x;
    const char *word = buf_text(&r->word);
    if (x->ntensors > 0 && strcmp(x->uses[x->ntensors - 1].name, word) == 0)
        return x->uses[x->ntensors - 1].name;
    return arena_text(&r->x->memory, word, r->word.len, e);
}

static int add(reading *r, kv_err *e)
{
    shard_index *x = r->x;
    int64_t n = x->ntensors;
    if (n == TENSORS_MAX)
        return file_bad(e, KV_E_FORMAT, r->path, "more than %d tensors, which are not read",
                        TENSORS_MAX);
    int rc = mem_grow(&x->tensors, &x->cap, n + 1, sizeof *x->tensors, e);
    if (rc || (rc = mem_grow(&x->uses, &x->uses_cap, n + 1, sizeof *x->uses, e)))
        return rc;
    const char *name = arena_text(&x->memory, buf_text(&r->name), r->name.len, e);
    const char *shard = keep_shard(r, e);
    if (!name || !shard)
        return KV_E_MEMORY;
    x->tensors[n] = (named){name, 0};
    x->uses[n] = (named){shard, n};
    x->ntensors++;
    return KV_OK;
}

static int read_map(reading *r, kv_err *e)
{
    if (r->mapped)
        return file_bad(e, KV_E_FORMAT, r->path, "\"weight_map\" stands there twice");
    if (json_scan_peek(&r->scan) != '{')
        return file_bad(e, KV_E_FORMAT, r->path, "\"weight_map\" is not an object");
    r->mapped = true;
    int rc = json_scan_open(&r->scan, '{');
    while (json_scan_item(&r->scan, '}', &rc)) {
        const char *wrong = "not a text";
        if ((rc = json_scan_name(&r->scan, &r->name)))
            break;
        if (json_scan_peek(&r->scan) != '"')
            rc = json_scan_skip(&r->scan);
        else if (!(rc = json_scan_text(&r->scan, &r->word)))
            wrong = refuse_name(buf_text(&r->word));
        if (!rc && wrong)
            rc = checkpoint_fault_at(r->c, KV_E_FORMAT, buf_text(&r->name), r->path, e,
                                     "the file of tensor \"%.*s\" is %s",
                                     SHOWN(buf_text(&r->name)), wrong);
        else if (!rc)
            rc = add(r, e);
    }
    return rc;
}

static int read_metadata(reading *r)
{
    if (json_scan_peek(&r->scan) != '{')
        return json_scan_skip(&r->scan);
    int rc = json_scan_open(&r->scan, '{');
    while (json_scan_item(&r->scan, '}', &rc)) {
        if ((rc = json_scan_name(&r->scan, &r->name)))
            break;
        char first = json_scan_peek(&r->scan);
        int64_t begin = r->scan.at;
        bool total = strcmp(buf_text(&r->name), "total_size") == 0 && first >= '0' && first <= '9';
        if ((rc = json_scan_skip(&r->scan)) == KV_OK && total) {
            r->x->has_total = true;
            num_parse(r->scan.text + begin, (size_t)(r->scan.at - begin), NUM_BINARY64,
                      &r->x->total, NULL);
        }
    }
    return rc;
}

static int read_members(reading *r, kv_err *e)
{
    int rc = json_scan_open(&r->scan, '{');
    while (json_scan_item(&r->scan, '}', &rc)) {
        if ((rc = json_scan_name(&r->scan, &r->name)))
            break;
        const char *name = buf_text(&r->name);
        rc = strcmp(name, "weight_map") == 0 ? read_map(r, e)
               : strcmp(name, "metadata") == 0 ? read_metadata(r)
                                             : json_scan_skip(&r->scan);
    }
    if (!rc && !r->mapped)
        rc = file_bad(e, KV_E_FORMAT, r->path, "it has no \"weight_map\"");
    return rc ? rc : json_scan_end(&r->scan);
}

/* ---- In order -------------------------------------------------------------------------------- */

/* Numbers the shards by their names, and tells each tensor the number of its own. */
static int number_shards(shard_index *x, kv_err *e)
{
    named_sort(x->uses, x->ntensors);
    x->shards = mem_alloc(x->ntensors, sizeof *x->shards, e);
    if (!x->shards)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < x->ntensors; i++) {
        if (i == 0 || strcmp(x->uses[i].name, x->uses[i - 1].name) != 0)
            x->shards[x->nshards++] = x->uses[i].name;
        x->tensors[x->uses[i].i].i = x->nshards - 1;
    }
    return KV_OK;
}

/* Sorts the tensors. Of several with one name one stays. */
static int sort_tensors(const reading *r, kv_err *e)
{
    shard_index *x = r->x;
    int64_t n = 0;
    int rc = KV_OK;
    named_sort(x->tensors, x->ntensors);
    for (int64_t i = 0; i < x->ntensors && !rc; i++) {
        if (n == 0 || strcmp(x->tensors[i].name, x->tensors[n - 1].name) != 0)
            x->tensors[n++] = x->tensors[i];
        else
            rc = checkpoint_fault_at(r->c, KV_E_FORMAT, x->tensors[i].name, r->path, e,
                                     "tensor \"%.*s\" stands there twice",
                                     SHOWN(x->tensors[i].name));
    }
    x->ntensors = n;
    return rc;
}

/* ---- The file -------------------------------------------------------------------------------- */

static int read_text(reading *r, const input *in, kv_err *e)
{
    if (in->size > INDEX_MAX)
        return file_bad(e, KV_E_FORMAT, r->path, "an index of %lld bytes, at most %d are allowed",
                        (long long)in->size, INDEX_MAX);
    char *text = mem_alloc(in->size, 1, e);
    if (!text)
        return KV_E_MEMORY;
    r->scan = (json_scan){.path = r->path,
                          .text = text,
                          .n = in->size,
                          .what = "index",
                          .max_depth = DEPTH_MAX,
                          .e = e};
    int rc = input_read(in, text, 0, in->size, e);
    if (!rc)
        rc = read_members(r, e);
    mem_free(text);
    return rc;
}

int shard_index_read(shard_index *x, const checkpoint *c, const char *path, kv_err *e)
{
    reading r = {.x = x, .c = c, .path = path};
    struct stat about;
    input in;
    /* opening a pipe would wait for its writer */
    if (stat(path, &about) == 0 && !S_ISREG(about.st_mode))
        return file_bad(e, KV_E_IO, path, "an index has to be a regular file");
    int rc = input_open(&in, path, e);
    if (rc)
        return rc;
    rc = read_text(&r, &in, e);
    input_close(&in);
    buf_release(&r.name);
    buf_release(&r.word);
    if (rc || (rc = number_shards(x, e)))
        return rc;
    return sort_tensors(&r, e);
}

void shard_index_release(shard_index *x)
{
    mem_free(x->tensors);
    mem_free(x->uses);
    mem_free(x->shards);
    arena_release(&x->memory);
    *x = (shard_index){0};
}

/* ---- Cutting --------------------------------------------------------------------------------- */

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

void shards_index(buf *out, named *entries, int64_t n, int64_t nshards, int64_t total_bytes)
{
    char file[SHARD_NAME_MAX];
    named_sort(entries, n);
    buf_printf(out, "{\n  \"metadata\": {\n    \"total_size\": %lld\n  },\n  \"weight_map\": {",
               (long long)total_bytes);
    for (int64_t i = 0; i < n; i++) {
        shard_name(file, entries[i].i, nshards);
        buf_add(out, i ? ",\n    " : "\n    ");
        json_quoted(out, entries[i].name, true); /* as Python's json writes it */
        buf_printf(out, ": \"%s\"", file);
    }
    buf_add(out, n ? "\n  }\n}\n" : "}\n}\n");
}
