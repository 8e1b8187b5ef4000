/* Writing safetensors files: the header, which says where everything goes, then the data. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "array/device.h"
#include "base/file.h"
#include "base/kv_assert.h"
#include "base/utf8.h"
#include "checkpoint/checkpoint_build.h"
#include "checkpoint/safetensors.h"
#include "io/json_writer.h"

#define LENGTH_BYTES  8
#define NUMBER_MAX    INT64_C(999999999999999) /* 15 digits: exact as a double, and a petabyte */
#define NUMBER_DIGITS 15
#define COPY_BLOCK    ((int64_t)1 << 20)

/* ---- Names ----------------------------------------------------------------------------------- */

static int check_entries(const char *path, const safetensors_entry *entries, int64_t n,
                         named *names, kv_err *e)
{
    for (int64_t i = 0; i < n; i++) {
        names[i] = (named){entries[i].name, i};
        if (strcmp(entries[i].name, SAFETENSORS_METADATA) == 0)
            return file_bad(e, KV_E_VALUE, path,
                            "no tensor can have the name \"" SAFETENSORS_METADATA "\"");
    }
    return named_check(names, n, path, e);
}

static int check_pairs(const char *path, const checkpoint_text *pairs, int64_t n, named *names,
                       kv_err *e)
{
    for (int64_t i = 0; i < n; i++) {
        names[i] = (named){pairs[i].name, i};
        if (!utf8_valid(pairs[i].name, strlen(pairs[i].name)))
            return file_bad(e, KV_E_VALUE, path, "the name of a metadata text is not UTF-8");
        if (!utf8_valid(pairs[i].text, strlen(pairs[i].text)))
            return file_bad(e, KV_E_VALUE, path, "the metadata text \"%.*s\" is not UTF-8",
                            SHOWN(pairs[i].name));
    }
    const char *twice = named_sort(names, n);
    if (twice)
        return file_bad(e, KV_E_VALUE, path, "two metadata texts have the name \"%.*s\"",
                        SHOWN(twice));
    return KV_OK;
}

static int check_names(const char *path, const safetensors_entry *entries, int64_t n,
                       const checkpoint_text *metadata, int64_t nmetadata, kv_err *e)
{
    named *names = mem_alloc(n > nmetadata ? n : nmetadata, sizeof *names, e);
    if (!names)
        return KV_E_MEMORY;
    int rc = check_entries(path, entries, n, names, e);
    if (!rc)
        rc = check_pairs(path, metadata, nmetadata, names, e);
    mem_free(names);
    return rc;
}

/* ---- The header ------------------------------------------------------------------------------ */

/* The bytes of elements, in the order of their data; all others stand with the last. */
static const int64_t widths[] = {8, 4, 2, 1};
#define NWIDTHS (sizeof widths / sizeof *widths)

static size_t width_of(tensor_type t)
{
    size_t w = 0;
    while (w + 1 < NWIDTHS && widths[w] != tensor_type_run_bytes(t))
        w++;
    return w;
}

/* Computes begin, from the begin of the data, and bytes of every entry. */
static int lay_out(const char *path, safetensors_entry *entries, int64_t n, int64_t *end, kv_err *e)
{
    bool over = false;
    *end = 0;
    for (int64_t i = 0; i < n; i++) {
        safetensors_entry *t = &entries[i];
        int64_t elements = tensor_elements(t->ndim, t->shape);
        t->bytes = tensor_type_bytes(t->type, elements);
        if (t->bytes < 0 && elements >= 0 && elements % tensor_type_run(t->type))
            return file_bad(e, KV_E_VALUE, path,
                            "tensor \"%.*s\" has %lld elements, and those of dtype %s would end "
                            "within a byte",
                            SHOWN(t->name), (long long)elements, tensor_type_name(t->type));
        over |= t->bytes < 0;
        for (int j = 0; j < t->ndim; j++)
            over |= t->shape[j] > NUMBER_MAX;
    }
    for (size_t w = 0; w < NWIDTHS && !over; w++) {
        for (int64_t i = 0; i < n; i++) {
            if (width_of(entries[i].type) != w)
                continue;
            entries[i].begin = *end;
            over |= __builtin_add_overflow(*end, entries[i].bytes, end) || *end > NUMBER_MAX;
        }
    }
    return over ? file_bad(e, KV_E_VALUE, path, "sizes and offsets have at most %d digits",
                           NUMBER_DIGITS)
                : KV_OK;
}

static void put_tensor(json_writer *header, const safetensors_entry *t)
{
    const int64_t offsets[] = {t->begin, t->begin + t->bytes};
    json_begin(header, t->name, '{');
    json_text(header, "dtype", tensor_type_name(t->type));
    json_ints(header, "shape", t->ndim, t->shape);
    json_ints(header, "data_offsets", 2, offsets);
    json_end(header, '}');
}

static int put_header(buf *out, const char *path, safetensors_entry *entries, int64_t n,
                      const checkpoint_text *metadata, int64_t nmetadata, kv_err *e)
{
    json_writer header = {.out = out};
    size_t before = out->len;
    buf_repeat(out, '\0', LENGTH_BYTES);
    json_begin(&header, NULL, '{');
    if (nmetadata)
        json_begin(&header, SAFETENSORS_METADATA, '{');
    for (int64_t i = 0; i < nmetadata; i++)
        json_text(&header, metadata[i].name, metadata[i].text);
    if (nmetadata)
        json_end(&header, '}');
    for (int64_t i = 0; i < n; i++)
        put_tensor(&header, &entries[i]);
    json_end(&header, '}');
    buf_repeat(out, ' ', (int64_t)(-(out->len - before) % 8));
    if (buf_check(out, e))
        return KV_E_MEMORY;
    uint64_t length = out->len - before - LENGTH_BYTES;
    if (length > SAFETENSORS_HEADER_MAX)
        return file_bad(e, KV_E_VALUE, path,
                        "names and metadata need a header of %llu bytes, and at most %d are "
                        "allowed",
                        (unsigned long long)length, SAFETENSORS_HEADER_MAX);
    memcpy(out->data + before, &length, LENGTH_BYTES);
    return KV_OK;
}

int safetensors_header(buf *out, int64_t *size, safetensors_entry *entries, int64_t n,
                       const checkpoint_text *metadata, int64_t nmetadata, const char *path,
                       kv_err *e)
{
    size_t before = out->len;
    int rc = check_names(path, entries, n, metadata, nmetadata, e);
    if (!rc)
        rc = lay_out(path, entries, n, size, e);
    if (!rc)
        rc = put_header(out, path, entries, n, metadata, nmetadata, e);
    int64_t data = (int64_t)(out->len - before);
    for (int64_t i = 0; i < n && !rc; i++)
        entries[i].begin += data;
    if (!rc)
        *size += data;
    return rc;
}

/* ---- Whole files of arrays ------------------------------------------------------------------- */

/* f, or a buffer where f is NULL. */
typedef struct sink {
    FILE *f;
    buf *b;
    const char *path;
} sink;

static int put(const sink *to, const void *data, size_t n, kv_err *e)
{
    if (!to->f) {
        buf_put(to->b, data, n);
        return buf_check(to->b, e);
    }
    return file_put(to->f, to->path, data, n, e);
}

/* Passes n zeros over, which a hole in the file then stands for. Returns false if they have to be
 * written: f is not a file that ends where it stands. */
static bool skip(FILE *f, int64_t n)
{
    struct stat about;
    off_t at = f && fflush(f) == 0 ? ftello(f) : -1;
    return at >= 0 && fstat(fileno(f), &about) == 0 && S_ISREG(about.st_mode) &&
           about.st_size <= at && !(fcntl(fileno(f), F_GETFL) & O_APPEND) &&
           ftruncate(fileno(f), at + n) == 0 && fseeko(f, at + n, SEEK_SET) == 0;
}

/* Copies elements that nobody has read, in blocks. A hole of their file becomes one of this. */
static int put_later(const sink *to, const array_source *s, int64_t n, kv_err *e)
{
    int rc = KV_OK;
    char *block = mem_alloc(COPY_BLOCK, 1, e);
    if (!block)
        return KV_E_MEMORY;
    for (int64_t at = 0, some; at < n && !rc; at += some) {
        some = s->hole(s, at, n - at);
        if (some >= COPY_BLOCK && skip(to->f, some))
            continue;
        some = n - at < COPY_BLOCK ? n - at : COPY_BLOCK;
        if (!(rc = s->read(s, block, at, some, e)))
            rc = put(to, block, (size_t)some, e);
    }
    mem_free(block);
    return rc;
}

/* The data of elements of one width. *at: bytes of the file so far. */
static int put_data(const sink *to, const safetensors_item *items, const safetensors_entry *entries,
                    int64_t n, size_t width, int64_t *at, kv_err *e)
{
    for (int64_t i = 0; i < n; i++) {
        const void *data = NULL;
        const array_source *source = array_source_of(items[i].array);
        if (width_of(entries[i].type) != width)
            continue;
        int rc = source ? KV_OK : kv_array_read(items[i].array, &data, e);
        kv_assert(rc || *at == entries[i].begin, "data stand at byte %lld, in the header at %lld",
                  (long long)*at, (long long)entries[i].begin);
        if (!rc)
            rc = source ? put_later(to, source, entries[i].bytes, e)
                        : put(to, data, (size_t)entries[i].bytes, e);
        if (rc)
            return rc;
        *at += entries[i].bytes;
    }
    return KV_OK;
}

static int put_all(const sink *to, const safetensors_item *items, int64_t n,
                   const checkpoint_text *metadata, int64_t nmetadata, kv_err *e)
{
    buf header = {0};
    int64_t at, size;
    safetensors_entry *entries = mem_alloc(n, sizeof *entries, e);
    if (!entries)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < n; i++) {
        const kv_array *a = items[i].array;
        entries[i] = (safetensors_entry){items[i].name, tensor_type_of(kv_array_dtype(a)),
                                         kv_array_ndim(a), kv_array_shape(a), 0, 0};
    }
    int rc = safetensors_header(&header, &size, entries, n, metadata, nmetadata, to->path, e);
    if (!rc)
        rc = put(to, header.data, header.len, e);
    at = (int64_t)header.len;
    buf_release(&header);
    for (size_t w = 0; w < NWIDTHS && !rc; w++)
        rc = put_data(to, items, entries, n, w, &at, e);
    mem_free(entries);
    return rc;
}

int safetensors_write(FILE *f, const char *path, const safetensors_item *items, int64_t n,
                      const checkpoint_text *metadata, int64_t nmetadata, kv_err *e)
{
    return put_all(&(sink){.f = f, .path = path}, items, n, metadata, nmetadata, e);
}

int safetensors_print(buf *out, const char *name, const safetensors_item *items, int64_t n,
                      const checkpoint_text *metadata, int64_t nmetadata, kv_err *e)
{
    return put_all(&(sink){.b = out, .path = name}, items, n, metadata, nmetadata, e);
}
