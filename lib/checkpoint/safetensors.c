/* The header of a safetensors file, read in one pass. What it says of each tensor is checked
 * against its type, and all of them together against the size of the file. */
#include "checkpoint/safetensors.h"

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
#include "checkpoint/json_scan.h"
#include "checkpoint/looks_like.h"
#include "io/json_writer.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "data go between files and memory as they are, and files are little-endian");

#define LENGTH_BYTES 8
#define DEPTH_MAX    127 /* of brackets, as in the format's own reader */

/* A header as it is read. */
typedef struct reading {
    checkpoint *c;
    int file;
    json_scan scan;
    int64_t data;         /* where the data begin in the file */
    bool metadata;        /* __metadata__ was there */
    buf name, word, type; /* of what is being read */
} reading;

/* ---- One tensor ------------------------------------------------------------------------------ */

enum { PART_DTYPE, PART_SHAPE, PART_OFFSETS, NPARTS };
static const char *const part_names[NPARTS] = {"dtype", "shape", "data_offsets"};

/* The JSON object of a tensor. */
typedef struct described {
    bool seen[NPARTS], right[NPARTS]; /* right: of the kind that it has to be */
    int64_t shape[KV_MAX_NDIM], range[2];
    int ndim;
} described;

/* A list of up to max whole numbers; *n is -1 when it is something else. */
static int read_numbers(reading *r, int64_t *numbers, int max, int *n)
{
    int64_t extra;
    *n = -1;
    if (json_scan_peek(&r->scan) != '[')
        return json_scan_skip(&r->scan);
    int rc = json_scan_open(&r->scan, '['), count = 0;
    bool other = false;
    while (json_scan_item(&r->scan, ']', &rc)) {
        char c = json_scan_peek(&r->scan);
        other |= c == '"' || c == 't' || c == 'f' || c == 'n' || c == '[' || c == '{';
        rc = other ? json_scan_skip(&r->scan)
                   : json_scan_whole(&r->scan, count < max ? &numbers[count] : &extra);
        count++;
    }
    if (!rc && !other && count <= max)
        *n = count;
    return rc;
}

static int read_part(reading *r, described *d, int part)
{
    int n, rc;
    switch (part) {
    case PART_DTYPE:
        d->right[part] = json_scan_peek(&r->scan) == '"';
        return d->right[part] ? json_scan_text(&r->scan, &r->type) : json_scan_skip(&r->scan);
    case PART_SHAPE:
        rc = read_numbers(r, d->shape, KV_MAX_NDIM, &d->ndim);
        d->right[part] = d->ndim >= 0;
        return rc;
    default:
        rc = read_numbers(r, d->range, 2, &n);
        d->right[part] = n == 2 && d->range[0] <= d->range[1];
        return rc;
    }
}

static int read_parts(reading *r, described *d, kv_err *e)
{
    int rc = json_scan_open(&r->scan, '{');
    while (json_scan_item(&r->scan, '}', &rc)) {
        int part = 0;
        TRY(json_scan_name(&r->scan, &r->word));
        while (part < NPARTS && strcmp(buf_text(&r->word), part_names[part]) != 0)
            part++;
        if (part == NPARTS) { /* other tools may say more */
            rc = json_scan_skip(&r->scan);
            continue;
        }
        if (d->seen[part])
            return BAD(r, e, "tensor \"%.*s\" has two \"%s\"", NAME(r), part_names[part]);
        d->seen[part] = true;
        rc = read_part(r, d, part);
    }
    return rc;
}

static int check_parts(const reading *r, const described *d, kv_err *e)
{
    static const char *const kinds[NPARTS] = {"its dtype is not a text",
                                              "its shape is not a list of up to 32 sizes",
                                              "its data_offsets are not a begin and an end"};
    _Static_assert(KV_MAX_NDIM == 32, "the text above says so");
    for (int k = 0; k < NPARTS; k++)
        if (!d->seen[k])
            return FAULT(r, e, "has no \"%s\"", part_names[k]);
    for (int k = 0; k < NPARTS; k++)
        if (!d->right[k])
            return FAULT(r, e, ": %s", kinds[k]);
    return KV_OK;
}

/* The type's name and its size fit. */
static int check_type(const reading *r, const described *d, tensor_info *t, kv_err *e)
{
    char shape[160];
    if (!tensor_type_find(&t->type, buf_text(&r->type), r->type.len) || t->type >= TENSOR_NSAFE) {
        int rc =
            FAULT(r, e, "has the dtype \"%.*s\", which is not read", SHOWN(buf_text(&r->type)));
        kv_err_hint(e, "the format has BOOL F4 F6_E2M3 F6_E3M2 U8 I8 F8_E5M2 F8_E4M3 F8_E8M0 "
                       "F8_E4M3FNUZ F8_E5M2FNUZ I16 U16 F16 BF16 I32 U32 F32 C64 F64 I64 U64");
        return rc;
    }
    t->elements = tensor_elements(d->ndim, d->shape);
    int64_t need = tensor_type_bytes(t->type, t->elements);
    if (need == t->bytes)
        return KV_OK;
    kv_shape_text(shape, sizeof shape, d->ndim, d->shape);
    if (need < 0 && t->elements >= 0 && t->elements < INT64_MAX / 8)
        return FAULT(r, e, "of shape %s and dtype %s ends within a byte", shape,
                     tensor_type_name(t->type));
    if (need < 0)
        return FAULT(r, e, "of shape %s is too large", shape);
    return FAULT(r, e, "of shape %s and dtype %s needs %lld bytes, its data_offsets give it %lld",
                 shape, tensor_type_name(t->type), (long long)need, (long long)t->bytes);
}

static int read_tensor(reading *r, kv_err *e)
{
    described d = {0};
    if (json_scan_peek(&r->scan) != '{') {
        TRY(json_scan_skip(&r->scan));
        return FAULT(r, e, "is not described by an object");
    }
    TRY(read_parts(r, &d, e));
    TRY(check_parts(r, &d, e));
    tensor_info t = {.name = buf_text(&r->name),
                     .ndim = d.ndim,
                     .shape = d.shape,
                     .bytes = d.range[1] - d.range[0],
                     .file = r->file,
                     .offset = r->data + d.range[0]};
    t.stored_bytes = t.bytes;
    TRY(check_type(r, &d, &t, e));
    return checkpoint_add(r->c, &t, e);
}

/* ---- All of the header ----------------------------------------------------------------------- */

static int read_metadata(reading *r, kv_err *e)
{
    int64_t first = r->c->ntexts;
    if (r->metadata)
        return BAD(r, e, "\"" SAFETENSORS_METADATA "\" stands there twice");
    r->metadata = true;
    if (json_scan_peek(&r->scan) == 'n') /* null */
        return json_scan_skip(&r->scan);
    if (json_scan_peek(&r->scan) != '{')
        return BAD(r, e, "\"" SAFETENSORS_METADATA "\" is not an object");
    int rc = json_scan_open(&r->scan, '{');
    while (json_scan_item(&r->scan, '}', &rc)) {
        TRY(json_scan_name(&r->scan, &r->name));
        if (json_scan_peek(&r->scan) != '"') {
            TRY(json_scan_skip(&r->scan));
            TRY(checkpoint_fault(r->c, NULL, r->file, e, "metadata \"%.*s\" is not a text",
                                 NAME(r)));
        } else {
            TRY(json_scan_text(&r->scan, &r->word));
            TRY(checkpoint_add_text(r->c, buf_text(&r->name), buf_text(&r->word), e));
        }
    }
    /* Of texts of one name in a file the last counts, as for the format's own reader. */
    return rc ? rc : checkpoint_drop_texts(r->c, first, true, e);
}

static int read_members(reading *r, kv_err *e)
{
    int rc = json_scan_open(&r->scan, '{');
    while (json_scan_item(&r->scan, '}', &rc)) {
        TRY(json_scan_name(&r->scan, &r->name));
        rc = strcmp(buf_text(&r->name), SAFETENSORS_METADATA) == 0 ? read_metadata(r, e)
                                                                   : read_tensor(r, e);
        rc = rc == LEFT_OUT ? KV_OK : rc;
    }
    return rc ? rc : json_scan_end(&r->scan);
}

/* ---- The file -------------------------------------------------------------------------------- */

/* The file is not a safetensors file: says what it looks like. KV_OK: like nothing known. */
static int not_ours(const reading *r, kv_err *e)
{
    r->c->foreign = true;
    return looks_like(&r->c->files[r->file], e);
}

/* The header begins with {, behind white space. */
static int check_begin(const reading *r, bool *begins, kv_err *e)
{
    char begin[SAFETENSORS_BLANKS] = {0};
    const input *in = &r->c->files[r->file];
    int64_t n = r->data < in->size ? r->data - LENGTH_BYTES : in->size - LENGTH_BYTES;
    n = n < (int64_t)sizeof begin ? n : (int64_t)sizeof begin;
    int rc = input_read(in, begin, LENGTH_BYTES, n, e);
    int64_t i = 0;
    while (i < n && begin[i] && strchr(" \t\r\n", begin[i]))
        i++;
    *begins = n > 0 && (i < n ? begin[i] == '{' : n == SAFETENSORS_BLANKS);
    return rc || *begins ? rc : not_ours(r, e);
}

static int read_length(reading *r, kv_err *e)
{
    const input *in = &r->c->files[r->file];
    uint64_t n;
    bool begins;
    TRY(in->size < LENGTH_BYTES ? not_ours(r, e) : KV_OK);
    if (in->size == 0)
        return file_bad(e, KV_E_FORMAT, in->name, "the file is empty");
    if (in->size < LENGTH_BYTES)
        return file_bad(e, KV_E_FORMAT, in->name,
                        "cut within the length of its header: %lld of 8 bytes are missing",
                        (long long)(LENGTH_BYTES - in->size));
    TRY(input_read(in, &n, 0, LENGTH_BYTES, e));
    if (n > SAFETENSORS_HEADER_MAX) {
        TRY(not_ours(r, e));
        return file_bad(e, KV_E_FORMAT, in->name,
                        "no safetensors file: it begins with a header of %llu bytes, and at "
                        "most %d are allowed",
                        (unsigned long long)n, SAFETENSORS_HEADER_MAX);
    }
    r->scan.n = (int64_t)n;
    r->data = LENGTH_BYTES + (int64_t)n;
    TRY(check_begin(r, &begins, e));
    int64_t there = in->size - LENGTH_BYTES;
    if ((int64_t)n > there)
        return file_bad(e, KV_E_FORMAT, in->name,
                        "cut within its header: %lld of %lld bytes are missing",
                        (long long)((int64_t)n - there), (long long)n);
    return begins ? KV_OK
                  : file_bad(e, KV_E_FORMAT, in->name, "a header begins with {, this one does not");
}

static int read_header(reading *r, kv_err *e)
{
    const input *in = &r->c->files[r->file];
    own_mem char *text = mem_alloc(r->scan.n, 1, e);
    if (!text)
        return KV_E_MEMORY;
    TRY(input_read(in, text, LENGTH_BYTES, r->scan.n, e));
    r->scan.text = text;
    return read_members(r, e);
}

int safetensors_read(checkpoint *c, int file, kv_err *e)
{
    reading r = {.c = c, .file = file};
    int64_t first = c->ntensors;
    c->safetensors = true;
    r.scan = (json_scan){
        .path = c->files[file].name, .begin = LENGTH_BYTES, .max_depth = DEPTH_MAX, .e = e};
    int rc = read_length(&r, e);
    if (!rc)
        rc = read_header(&r, e);
    buf_release(&r.name);
    buf_release(&r.word);
    buf_release(&r.type);
    return rc ? rc : data_layout_check(c, file, first, r.data, 1, e);
}

/* ---- Writing --------------------------------------------------------------------------------- */

#define NUMBER_MAX    INT64_C(999999999999999) /* 15 digits: exact as a double, and a petabyte */
#define NUMBER_DIGITS 15
#define COPY_BLOCK    ((int64_t)1 << 20)

static int check_names(const char *path, const safetensors_entry *entries, int64_t n,
                       const checkpoint_text *metadata, int64_t nmetadata, kv_err *e)
{
    own_mem named *names = mem_alloc(n > nmetadata ? n : nmetadata, sizeof *names, e);
    if (!names)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < n; i++) {
        names[i] = (named){entries[i].name, i};
        if (strcmp(entries[i].name, SAFETENSORS_METADATA) == 0)
            return file_bad(e, KV_E_VALUE, path,
                            "no tensor can have the name \"" SAFETENSORS_METADATA "\"");
    }
    TRY(named_check(names, n, "tensor", path, e));
    for (int64_t i = 0; i < nmetadata; i++) {
        names[i] = (named){metadata[i].name, i};
        if (!utf8_valid(metadata[i].text, strlen(metadata[i].text)))
            return file_bad(e, KV_E_VALUE, path, "the metadata text \"%.*s\" is not UTF-8",
                            SHOWN(metadata[i].name));
    }
    return named_check(names, nmetadata, "metadata text", path, e);
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
    for (int64_t i = 0; i < n; i++) {
        const int64_t offsets[] = {entries[i].begin, entries[i].begin + entries[i].bytes};
        json_begin(&header, entries[i].name, '{');
        json_text(&header, "dtype", tensor_type_name(entries[i].type));
        json_ints(&header, "shape", entries[i].ndim, entries[i].shape);
        json_ints(&header, "data_offsets", 2, offsets);
        json_end(&header, '}');
    }
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
    TRY(check_names(path, entries, n, metadata, nmetadata, e));
    TRY(lay_out(path, entries, n, size, e));
    TRY(put_header(out, path, entries, n, metadata, nmetadata, e));
    int64_t data = (int64_t)(out->len - before);
    for (int64_t i = 0; i < n; i++)
        entries[i].begin += data;
    *size += data;
    return KV_OK;
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
    own_mem char *block = mem_alloc(COPY_BLOCK, 1, e);
    if (!block)
        return KV_E_MEMORY;
    for (int64_t at = 0, some; at < n; at += some) {
        some = s->hole(s, at, n - at);
        if (some >= COPY_BLOCK && skip(to->f, some))
            continue;
        some = at_most(n - at, COPY_BLOCK);
        TRY(s->read(s, block, at, some, e));
        TRY(put(to, block, (size_t)some, e));
    }
    return KV_OK;
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
        TRY(source ? KV_OK : kv_array_read(items[i].array, &data, e));
        kv_assert(*at == entries[i].begin, "data stand at byte %lld, in the header at %lld",
                  (long long)*at, (long long)entries[i].begin);
        TRY(source ? put_later(to, source, entries[i].bytes, e)
                   : put(to, data, (size_t)entries[i].bytes, e));
        *at += entries[i].bytes;
    }
    return KV_OK;
}

static int put_all(const sink *to, const safetensors_item *items, int64_t n,
                   const checkpoint_text *metadata, int64_t nmetadata, kv_err *e)
{
    own_buf header = {0};
    int64_t at, size;
    own_mem safetensors_entry *entries = mem_alloc(n, sizeof *entries, e);
    if (!entries)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < n; i++) {
        const kv_array *a = items[i].array;
        entries[i] = (safetensors_entry){items[i].name,
                                         tensor_type_of(kv_array_dtype(a)),
                                         kv_array_ndim(a),
                                         kv_array_shape(a),
                                         0,
                                         0};
    }
    TRY(safetensors_header(&header, &size, entries, n, metadata, nmetadata, to->path, e));
    TRY(put(to, header.data, header.len, e));
    at = (int64_t)header.len;
    for (size_t w = 0; w < NWIDTHS; w++)
        TRY(put_data(to, items, entries, n, w, &at, e));
    return KV_OK;
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
