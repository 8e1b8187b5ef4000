/* The header of a safetensors file, read in one pass. What it says of each tensor is checked
 * against its type, and all of them together against the size of the file. */
#include "checkpoint/safetensors.h"

#include <string.h>

#include "base/file.h"
#include "base/utf8.h"
#include "checkpoint/checkpoint_build.h"
#include "checkpoint/json_scan.h"
#include "checkpoint/looks_like.h"

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

static const char *path_of(const reading *r)
{
    return r->c->files[r->file].name;
}

/* A fault of one tensor, which leaves the others readable. */
#define FAULT(r, e, ...)                                                                           \
    checkpoint_fault((r)->c, KV_E_FORMAT, buf_text(&(r)->name), (r)->file, e, __VA_ARGS__)

#define NAME(r) SHOWN(buf_text(&(r)->name))

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
        if ((rc = json_scan_name(&r->scan, &r->word)))
            break;
        while (part < NPARTS && strcmp(buf_text(&r->word), part_names[part]) != 0)
            part++;
        if (part == NPARTS) { /* other tools may say more */
            rc = json_scan_skip(&r->scan);
            continue;
        }
        if (d->seen[part])
            return file_bad(e, KV_E_FORMAT, path_of(r), "tensor \"%.*s\" has two \"%s\"", NAME(r),
                            part_names[part]);
        d->seen[part] = true;
        rc = read_part(r, d, part);
    }
    return rc;
}

/* *whole: nothing is missing or of the wrong kind. */
static int check_parts(const reading *r, const described *d, bool *whole, kv_err *e)
{
    static const char *const kinds[NPARTS] = {"its dtype is not a text",
                                              "its shape is not a list of up to 32 sizes",
                                              "its data_offsets are not a begin and an end"};
    _Static_assert(KV_MAX_NDIM == 32, "the text above says so");
    *whole = false;
    for (int k = 0; k < NPARTS; k++)
        if (!d->seen[k])
            return FAULT(r, e, "tensor \"%.*s\" has no \"%s\"", NAME(r), part_names[k]);
    for (int k = 0; k < NPARTS; k++)
        if (!d->right[k])
            return FAULT(r, e, "tensor \"%.*s\": %s", NAME(r), kinds[k]);
    *whole = true;
    return KV_OK;
}

/* The type's name and its size fit. */
static int check_type(const reading *r, const described *d, tensor_info *t, bool *fits, kv_err *e)
{
    char shape[160];
    *fits = false;
    if (!tensor_type_find(&t->type, buf_text(&r->type), r->type.len) || t->type >= TENSOR_NSAFE) {
        int rc = checkpoint_fault(r->c, KV_E_FORMAT, t->name, r->file, e,
                                  "tensor \"%.*s\" has the dtype \"%.*s\", which is not read",
                                  NAME(r), SHOWN(buf_text(&r->type)));
        if (rc)
            kv_err_hint(e, "the format has BOOL F4 F6_E2M3 F6_E3M2 U8 I8 F8_E5M2 F8_E4M3 F8_E8M0 "
                           "F8_E4M3FNUZ F8_E5M2FNUZ I16 U16 F16 BF16 I32 U32 F32 C64 F64 I64 U64");
        return rc;
    }
    t->elements = tensor_elements(d->ndim, d->shape);
    int64_t need = tensor_type_bytes(t->type, t->elements);
    *fits = need == t->bytes;
    if (*fits)
        return KV_OK;
    kv_shape_text(shape, sizeof shape, d->ndim, d->shape);
    if (need < 0 && t->elements >= 0 && t->elements < INT64_MAX / 8)
        return FAULT(r, e, "tensor \"%.*s\" of shape %s and dtype %s ends within a byte", NAME(r),
                     shape, tensor_type_name(t->type));
    if (need < 0)
        return FAULT(r, e, "tensor \"%.*s\" of shape %s is too large", NAME(r), shape);
    return FAULT(r, e,
                 "tensor \"%.*s\" of shape %s and dtype %s needs %lld bytes, its data_offsets "
                 "give it %lld",
                 NAME(r), shape, tensor_type_name(t->type), (long long)need, (long long)t->bytes);
}

static int read_tensor(reading *r, kv_err *e)
{
    described d = {0};
    bool whole, fits;
    if (json_scan_peek(&r->scan) != '{') {
        int rc = json_scan_skip(&r->scan);
        return rc ? rc : FAULT(r, e, "tensor \"%.*s\" is not described by an object", NAME(r));
    }
    int rc = read_parts(r, &d, e);
    if (rc || (rc = check_parts(r, &d, &whole, e)) || !whole)
        return rc;
    tensor_info t = {.name = buf_text(&r->name),
                     .ndim = d.ndim,
                     .shape = d.shape,
                     .bytes = d.range[1] - d.range[0],
                     .file = r->file,
                     .offset = r->data + d.range[0]};
    t.stored_bytes = t.bytes;
    rc = check_type(r, &d, &t, &fits, e);
    return rc || !fits ? rc : checkpoint_add(r->c, &t, e);
}

/* ---- All of the header ----------------------------------------------------------------------- */

static int read_metadata(reading *r, kv_err *e)
{
    int64_t first = r->c->ntexts;
    if (r->metadata)
        return file_bad(e, KV_E_FORMAT, path_of(r),
                        "\"" SAFETENSORS_METADATA "\" stands there twice");
    r->metadata = true;
    if (json_scan_peek(&r->scan) == 'n') /* null */
        return json_scan_skip(&r->scan);
    if (json_scan_peek(&r->scan) != '{')
        return file_bad(e, KV_E_FORMAT, path_of(r),
                        "\"" SAFETENSORS_METADATA "\" is not an object");
    int rc = json_scan_open(&r->scan, '{');
    while (json_scan_item(&r->scan, '}', &rc)) {
        if ((rc = json_scan_name(&r->scan, &r->name)))
            break;
        if (json_scan_peek(&r->scan) != '"')
            rc = (rc = json_scan_skip(&r->scan))
                       ? rc
                       : checkpoint_fault(r->c, KV_E_FORMAT, NULL, r->file, e,
                                          "metadata \"%.*s\" is not a text", NAME(r));
        else if (!(rc = json_scan_text(&r->scan, &r->word)))
            rc = checkpoint_add_text(r->c, buf_text(&r->name), buf_text(&r->word), e);
    }
    /* Of texts of one name in a file the last counts, as for the format's own reader. */
    return rc ? rc : checkpoint_drop_texts(r->c, first, true, e);
}

static int read_members(reading *r, kv_err *e)
{
    int rc = json_scan_open(&r->scan, '{');
    while (json_scan_item(&r->scan, '}', &rc)) {
        if ((rc = json_scan_name(&r->scan, &r->name)))
            break;
        rc = strcmp(buf_text(&r->name), SAFETENSORS_METADATA) == 0 ? read_metadata(r, e)
                                                                   : read_tensor(r, e);
    }
    return rc ? rc : json_scan_end(&r->scan);
}

/* ---- The file -------------------------------------------------------------------------------- */

/* The file is no safetensors file: tells what it looks like. KV_OK: like nothing that is known. */
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
    *begins = safetensors_begins(begin, n);
    return rc || *begins ? rc : not_ours(r, e);
}

bool safetensors_begins(const char *header, int64_t n)
{
    int64_t i = 0;
    while (i < n && header[i] && strchr(" \t\r\n", header[i]))
        i++;
    return n > 0 && (i < n ? header[i] == '{' : n == SAFETENSORS_BLANKS);
}

static int read_length(reading *r, kv_err *e)
{
    const input *in = &r->c->files[r->file];
    uint64_t n;
    bool begins;
    int rc;
    if (in->size < LENGTH_BYTES && (rc = not_ours(r, e)))
        return rc;
    if (in->size == 0)
        return file_bad(e, KV_E_FORMAT, in->name, "the file is empty");
    if (in->size < LENGTH_BYTES)
        return file_bad(e, KV_E_FORMAT, in->name,
                        "cut within the length of its header: %lld of 8 bytes are missing",
                        (long long)(LENGTH_BYTES - in->size));
    if ((rc = input_read(in, &n, 0, LENGTH_BYTES, e)))
        return rc;
    if (n > SAFETENSORS_HEADER_MAX) {
        rc = not_ours(r, e);
        return rc ? rc
                  : file_bad(e, KV_E_FORMAT, in->name,
                               "no safetensors file: it begins with a header of %llu bytes, and at "
                               "most %d are allowed",
                               (unsigned long long)n, SAFETENSORS_HEADER_MAX);
    }
    r->scan.n = (int64_t)n;
    r->data = LENGTH_BYTES + (int64_t)n;
    if ((rc = check_begin(r, &begins, e)))
        return rc;
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
    char *text = mem_alloc(r->scan.n, 1, e);
    if (!text)
        return KV_E_MEMORY;
    int rc = input_read(in, text, LENGTH_BYTES, r->scan.n, e);
    r->scan.text = text;
    if (!rc)
        rc = read_members(r, e);
    mem_free(text);
    return rc;
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
