/* The header of a GGUF file, through a buffer. A count or a length is compared with what is left of
 * the file before memory is taken or a loop begins. */
#include "checkpoint/gguf.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/num.h"
#include "base/stop.h"
#include "base/utf8.h"
#include "checkpoint/checkpoint_build.h"
#include "io/json_writer.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are taken as they stand");

#define ALIGNMENT   32
#define AXES_MAX    4
#define KEPT_ITEMS  64        /* of a list that becomes a text */
#define DEPTH_MAX   8         /* of lists in lists */
#define KEPT_BYTES  100000000 /* of all names and texts: as much as a safetensors header has */
#define ITEM_BYTES  32        /* that a text counts beside its own */
#define HUGE_OFFSET (INT64_MAX / 4) /* beyond, sums might not fit */

typedef struct reading {
    checkpoint *c;
    int file;
    byte_reader from;
    int64_t alignment;
    int64_t kept;     /* bytes of names and texts so far */
    const char *kind; /* of what is being read, for messages */
    int64_t number;   /* of it, from 0; -1: there is one */
    bool named;       /* its name is known */
    buf name, text;
    named *names; /* of the metadata */
    int64_t nnames, names_cap;
    arena memory; /* theirs */
} reading;

/* `tensor 3`, or its name. */
static const char *place(const reading *r, char out[128])
{
    if (r->number < 0)
        snprintf(out, 128, "%s", r->kind);
    else if (r->named)
        snprintf(out, 128, "%s \"%.*s\"", r->kind, SHOWN(buf_text(&r->name)));
    else
        snprintf(out, 128, "%s %lld", r->kind, (long long)r->number);
    return out;
}

/* ---- Parts ----------------------------------------------------------------------------------- */

/* The file has n items more, of `each` bytes at least. */
static int need(const reading *r, uint64_t n, int64_t each, kv_err *e)
{
    char where[128];
    int64_t left = byte_reader_left(&r->from);
    if (n <= (uint64_t)(left / each))
        return KV_OK;
    if (each == 1)
        return BAD(r, e, "byte %lld: %s needs %llu bytes more, the file has %lld",
                   (long long)r->from.at, place(r, where), (unsigned long long)n, (long long)left);
    return BAD(r, e, "byte %lld: %s needs %llu times %lld bytes more, the file has %lld",
               (long long)r->from.at, place(r, where), (unsigned long long)n, (long long)each,
               (long long)left);
}

static int take(reading *r, void *to, int64_t n, kv_err *e)
{
    int rc = need(r, (uint64_t)n, 1, e);
    return rc ? rc : byte_reader_take(&r->from, to, n, e);
}

/* Takes a text as bytes. */
static int take_bytes(reading *r, buf *out, kv_err *e)
{
    uint64_t n;
    buf_clear(out);
    TRY(take(r, &n, sizeof n, e));
    TRY(need(r, n, 1, e));
    r->kept += ITEM_BYTES;
    if ((int64_t)n > KEPT_BYTES - r->kept)
        return BAD(r, e, "names and metadata of more than %d bytes, which are not read",
                   KEPT_BYTES);
    r->kept += (int64_t)n;
    char *to = buf_room(out, (size_t)n);
    if (!to)
        return buf_check(out, e);
    TRY(byte_reader_take(&r->from, to, (int64_t)n, e));
    buf_grew(out, (size_t)n);
    return buf_check(out, e);
}

static int skip_bytes(reading *r, kv_err *e)
{
    uint64_t n;
    TRY(take(r, &n, sizeof n, e));
    TRY(need(r, n, 1, e));
    r->from.at += (int64_t)n;
    return KV_OK;
}

/* UTF-8 without a NUL. */
static bool is_text(const buf *b)
{
    const char *text = buf_text(b);
    bool ok = strlen(text) == b->len;
    for (size_t i = 0; i < b->len && ok;)
        i += utf8_length(text + i, b->len - i, &ok);
    return ok;
}

static int take_name(reading *r, kv_err *e)
{
    char where[128];
    int rc = take_bytes(r, &r->name, e);
    if (!rc && !is_text(&r->name))
        return BAD(r, e, "the name of %s is not UTF-8", place(r, where));
    r->named = true;
    return rc;
}

/* ---- Metadata -------------------------------------------------------------------------------- */

enum { U8, I8, U16, I16, U32, I32, F32, BOOL, TEXT, LIST, U64, I64, F64, NVALUES };

/* Bytes of a value, or the least that one can have. */
static const int64_t value_bytes[NVALUES] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};

/* Appends a number or a bool. */
static int put_scalar(reading *r, uint32_t type, buf *out, kv_err *e)
{
    const bool is_signed = type == I8 || type == I16 || type == I32 || type == I64;
    const int shift = 64 - 8 * (int)value_bytes[type];
    uint64_t x = 0;
    char digits[NUM_TEXT_MAX];
    float f32;
    double f64;
    TRY(take(r, &x, value_bytes[type], e));
    if (type == BOOL && x > 1)
        return BAD(r, e, "metadata \"%.*s\" is not a bool, its byte is %d", NAME(r), (int)x);
    if (type == BOOL) {
        buf_add(out, x ? "true" : "false");
    } else if (type == F32 || type == F64) {
        memcpy(&f32, &x, sizeof f32);
        memcpy(&f64, &x, sizeof f64);
        num_repr(digits, type == F32 ? (double)f32 : f64,
                 type == F32 ? NUM_BINARY32 : NUM_BINARY64);
        buf_add(out, digits);
    } else if (is_signed) {
        buf_printf(out, "%lld", (long long)((int64_t)(x << shift) >> shift));
    } else {
        buf_printf(out, "%llu", (unsigned long long)x);
    }
    return KV_OK;
}

/* Takes the type of a value. */
static int take_type(reading *r, uint32_t *type, kv_err *e)
{
    int rc = take(r, type, sizeof *type, e);
    if (!rc && *type >= NVALUES)
        return BAD(r, e,
                   "metadata \"%.*s\" has a value of type %u, and there "
                   "are 0 to 12",
                   NAME(r), *type);
    return rc;
}

/* The items of a list that becomes a text. */
static int keep_items(reading *r, uint32_t type, uint64_t n, kv_err *e)
{
    own_buf item = {0};
    json_writer w = {.out = &r->text};
    int rc = KV_OK;
    json_begin(&w, NULL, '[');
    for (uint64_t i = 0; i < n && !rc; i++) {
        if (type != TEXT)
            rc = put_scalar(r, type, json_field(&w, NULL), e);
        else if (!(rc = take_bytes(r, &item, e)))
            json_text(&w, NULL, buf_text(&item));
    }
    json_end(&w, ']');
    return rc;
}

/* A list. *keep: it has become a text. */
static int read_list(reading *r, int depth, bool *keep, kv_err *e)
{
    uint32_t type;
    uint64_t n;
    *keep = false;
    if (depth == DEPTH_MAX)
        return BAD(r, e, "metadata \"%.*s\": lists are nested deeper than %d", NAME(r), DEPTH_MAX);
    TRY(take_type(r, &type, e));
    TRY(take(r, &n, sizeof n, e));
    TRY(need(r, n, value_bytes[type], e));
    if (depth == 0 && n <= KEPT_ITEMS && type != LIST) {
        *keep = true;
        return keep_items(r, type, n, e);
    }
    if (type != TEXT && type != LIST) {
        r->from.at += (int64_t)n * value_bytes[type];
        return KV_OK;
    }
    for (uint64_t i = 0; i < n; i++) {
        bool inner;
        TRY(stop_check_at((int64_t)i, e));
        TRY(type == TEXT ? skip_bytes(r, e) : read_list(r, depth + 1, &inner, e));
    }
    return KV_OK;
}

/* The alignment, whose text has been read. */
static int set_alignment(reading *r, uint32_t type, kv_err *e)
{
    int64_t x = 0;
    bool over;
    if (type == U32)
        num_parse_int(buf_text(&r->text), r->text.len, &x, &over);
    if (x <= 0 || (x & (x - 1)) != 0)
        return BAD(r, e, "metadata \"general.alignment\" is not a power of two of type u32");
    r->alignment = x;
    return KV_OK;
}

/* Remembers the name, to find one that stands twice. */
static int add_name(reading *r, kv_err *e)
{
    TRY(mem_grow(&r->names, &r->names_cap, r->nnames + 1, sizeof *r->names, e));
    const char *name = arena_text(&r->memory, buf_text(&r->name), r->name.len, e);
    if (!name)
        return KV_E_MEMORY;
    r->names[r->nnames] = (named){name, r->nnames};
    r->nnames++;
    return KV_OK;
}

/* Takes what the metadata say of a split model, and are not texts of the model. */
static bool is_split(reading *r, uint32_t type)
{
    gguf_split *s = &r->c->split;
    const char *name = buf_text(&r->name);
    int64_t *to = strcmp(name, "split.no") == 0              ? &s->no
                  : strcmp(name, "split.count") == 0         ? &s->count
                  : strcmp(name, "split.tensors.count") == 0 ? &s->tensors
                                                             : NULL;
    bool whole = type <= I32 || type == U64 || type == I64;
    if (to && whole)
        num_parse_int(buf_text(&r->text), r->text.len, to, NULL);
    return to && whole;
}

static int read_value(reading *r, uint32_t type, kv_err *e)
{
    bool keep = true;
    buf_clear(&r->text);
    TRY(type == TEXT   ? take_bytes(r, &r->text, e)
        : type == LIST ? read_list(r, 0, &keep, e)
                       : put_scalar(r, type, &r->text, e));
    TRY(buf_check(&r->text, e));
    if (!keep || is_split(r, type))
        return KV_OK;
    if (strcmp(buf_text(&r->name), "general.alignment") == 0)
        TRY(set_alignment(r, type, e));
    if (!is_text(&r->text))
        return checkpoint_fault(r->c, NULL, r->file, e, "metadata \"%.*s\" is not UTF-8", NAME(r));
    return checkpoint_add_text(r->c, buf_text(&r->name), buf_text(&r->text), e);
}

static int read_metadata(reading *r, uint64_t n, kv_err *e)
{
    r->kind = "metadata";
    for (uint64_t i = 0; i < n; i++) {
        uint32_t type;
        r->number = (int64_t)i;
        r->named = false;
        TRY(stop_check_at((int64_t)i, e));
        TRY(take_name(r, e));
        TRY(add_name(r, e));
        TRY(take_type(r, &type, e));
        TRY(read_value(r, type, e));
    }
    const char *twice = named_sort(r->names, r->nnames);
    return twice ? checkpoint_fault(r->c, NULL, r->file, e, "metadata \"%.*s\" stands there twice",
                                    SHOWN(twice))
                 : KV_OK;
}

/* ---- Tensors --------------------------------------------------------------------------------- */

/* Types by their numbers. Numbers that GGUF gave up, and unknown ones, are 0. */
static const tensor_type types[] = {
    [0] = TENSOR_F32,      [1] = TENSOR_F16,     [2] = TENSOR_Q4_0,     [3] = TENSOR_Q4_1,
    [6] = TENSOR_Q5_0,     [7] = TENSOR_Q5_1,    [8] = TENSOR_Q8_0,     [9] = TENSOR_Q8_1,
    [10] = TENSOR_Q2_K,    [11] = TENSOR_Q3_K,   [12] = TENSOR_Q4_K,    [13] = TENSOR_Q5_K,
    [14] = TENSOR_Q6_K,    [15] = TENSOR_Q8_K,   [16] = TENSOR_IQ2_XXS, [17] = TENSOR_IQ2_XS,
    [18] = TENSOR_IQ3_XXS, [19] = TENSOR_IQ1_S,  [20] = TENSOR_IQ4_NL,  [21] = TENSOR_IQ3_S,
    [22] = TENSOR_IQ2_S,   [23] = TENSOR_IQ4_XS, [24] = TENSOR_I8,      [25] = TENSOR_I16,
    [26] = TENSOR_I32,     [27] = TENSOR_I64,    [28] = TENSOR_F64,     [29] = TENSOR_IQ1_M,
    [30] = TENSOR_BF16,    [34] = TENSOR_TQ1_0,  [35] = TENSOR_TQ2_0,   [39] = TENSOR_MXFP4,
    [40] = TENSOR_NVFP4,   [41] = TENSOR_Q1_0};
_Static_assert(TENSOR_BOOL == 0, "which GGUF has not");
#define NTYPES (sizeof types / sizeof *types)

/* The bytes of the tensor, whose elements may not end within a block of its first axis. */
static int check_size(const reading *r, uint64_t offset, tensor_info *t, kv_err *e)
{
    char shape[160];
    int64_t first = t->ndim ? t->shape[t->ndim - 1] : 1, run = tensor_type_run(t->type);
    kv_shape_text(shape, sizeof shape, t->ndim, t->shape);
    if (first % run)
        return FAULT(r, e,
                     "of shape %s: the last size is not a whole number of blocks of %s, which have "
                     "%lld elements",
                     shape, tensor_type_name(t->type), (long long)run);
    t->elements = tensor_elements(t->ndim, t->shape);
    t->bytes = tensor_type_bytes(t->type, t->elements);
    if (t->bytes < 0 || t->bytes > HUGE_OFFSET)
        return FAULT(r, e, "of shape %s is too large", shape);
    if (offset % (uint64_t)r->alignment)
        return FAULT(r, e, "begins at byte %llu of the data, which is not a multiple of %lld",
                     (unsigned long long)offset, (long long)r->alignment);
    if (offset > (uint64_t)HUGE_OFFSET)
        return FAULT(r, e, "begins at byte %llu of the data, which is too far",
                     (unsigned long long)offset);
    return KV_OK;
}

static int read_tensor(reading *r, kv_err *e)
{
    uint32_t ndim, type;
    uint64_t sizes[AXES_MAX], offset; /* sizes: the fastest first */
    int64_t shape[AXES_MAX];
    TRY(take(r, &ndim, sizeof ndim, e));
    if (ndim > AXES_MAX)
        return BAD(r, e, "tensor \"%.*s\" has %u axes, and at most %d are allowed", NAME(r), ndim,
                   AXES_MAX);
    TRY(take(r, sizes, (int64_t)(ndim * sizeof *sizes), e));
    TRY(take(r, &type, sizeof type, e));
    TRY(take(r, &offset, sizeof offset, e));
    if (type >= NTYPES || !types[type])
        return FAULT(r, e, "has the type %u, which is not read", type);
    for (uint32_t i = 0; i < ndim; i++) {
        if (sizes[i] > INT64_MAX)
            return FAULT(r, e, "has a size of %llu", (unsigned long long)sizes[i]);
        shape[ndim - 1 - i] = (int64_t)sizes[i];
    }
    tensor_info t = {.name = buf_text(&r->name),
                     .type = types[type],
                     .ndim = (int)ndim,
                     .shape = shape,
                     .file = r->file};
    TRY(check_size(r, offset, &t, e));
    t.stored_bytes = t.bytes;
    t.offset = (int64_t)offset; /* in the data, until it is known where they begin */
    return checkpoint_add(r->c, &t, e);
}

static int read_tensors(reading *r, uint64_t n, kv_err *e)
{
    checkpoint *c = r->c;
    int64_t first = c->ntensors;
    int rc = KV_OK;
    r->kind = "tensor";
    for (uint64_t i = 0; i < n && !rc; i++) {
        r->number = (int64_t)i;
        r->named = false;
        if ((rc = stop_check_at((int64_t)i, e)) == KV_OK && (rc = take_name(r, e)) == KV_OK)
            rc = read_tensor(r, e);
        rc = rc == LEFT_OUT ? KV_OK : rc;
    }
    if (rc) {
        c->ntensors = first; /* where their data begin is not known */
        return rc;
    }
    int64_t over = r->from.at % r->alignment, data = r->from.at + (over ? r->alignment - over : 0);
    if (n == 0 && c->files[r->file].size < data)
        data = r->from.at; /* without tensors there need be no data */
    for (int64_t i = first; i < c->ntensors; i++)
        c->tensors[i].offset += data;
    return data_layout_check(c, r->file, first, data, r->alignment, e);
}

/* ---- The file -------------------------------------------------------------------------------- */

static int check_version(reading *r, uint32_t version, kv_err *e)
{
    if (version == 2 || version == 3)
        return KV_OK;
    r->c->foreign = true;
    if (version && (version & 0xFFFF) == 0) {
        BAD(r, e, "a big-endian GGUF file, which is not read");
        kv_err_hint(e, "gguf-convert-endian of the Python package gguf turns it");
        return KV_E_FORMAT;
    }
    return BAD(r, e, "GGUF version %u, and 2 and 3 are read", version);
}

static int read_all(reading *r, kv_err *e)
{
    struct {
        char magic[4];
        uint32_t version;
        uint64_t tensors, metadata;
    } head;
    r->kind = "the begin of the header";
    TRY(take(r, &head, 8, e));
    TRY(check_version(r, head.version, e));
    TRY(take(r, &head.tensors, 16, e));
    r->kind = "the list of metadata";
    TRY(need(r, head.metadata, 13, e));
    r->kind = "the list of tensors";
    TRY(need(r, head.tensors, 24, e));
    TRY(read_metadata(r, head.metadata, e));
    return read_tensors(r, head.tensors, e);
}

int gguf_read(checkpoint *c, int file, kv_err *e)
{
    reading r = {
        .c = c, .file = file, .from.in = &c->files[file], .alignment = ALIGNMENT, .number = -1};
    c->split = (gguf_split){.tensors = -1};
    int rc = read_all(&r, e);
    byte_reader_release(&r.from);
    buf_release(&r.name);
    buf_release(&r.text);
    mem_free(r.names);
    arena_release(&r.memory);
    return rc;
}

/* ---- The parts of a split model -------------------------------------------------------------- */

/* The file that was named has been read as the only one of the checkpoint; the others follow, then
 * the one that was named moves to its place. */

#define SUFFIX "-00001-of-00003.gguf" /* so long are all */

bool gguf_part_find(gguf_part *out, const char *name)
{
    size_t n = strlen(name), suffix = strlen(SUFFIX);
    char again[64];
    if (n < suffix)
        return false;
    out->prefix = n - suffix;
    const char *at = name + out->prefix;
    if (sscanf(at, "-%5d-of-%5d.gguf", &out->no, &out->count) != 2)
        return false;
    snprintf(again, sizeof again, "-%05d-of-%05d.gguf", out->no, out->count);
    return strcmp(again, at) == 0 && out->no >= 1 && out->no <= out->count;
}

typedef struct parts {
    checkpoint *c;
    gguf_part named; /* the file that was named */
    size_t folder;   /* the bytes of its path up to the end of the model's name */
    buf path;
    int64_t tensors; /* of all parts, as the metadata say; -1: they do not */
    bool whole;      /* every part could be read */
} parts;

/* The file that was read last has to be part `no`, from 1. */
static int check_part(parts *p, int no, kv_err *e)
{
    const gguf_split *s = &p->c->split;
    if (p->tensors < 0)
        p->tensors = s->tensors;
    if (s->no == no - 1 && s->count == p->named.count)
        return KV_OK;
    p->whole = false;
    return checkpoint_fault(p->c, NULL, (int)p->c->nfiles - 1, e,
                            "its metadata say part %lld of %lld, its name says %d of %d",
                            (long long)s->no + 1, (long long)s->count, no, p->named.count);
}

static int read_part(parts *p, int no, kv_err *e)
{
    checkpoint *c = p->c;
    bool whole;
    int64_t texts = c->ntexts;
    buf_clear(&p->path);
    buf_put(&p->path, c->files[0].name, p->folder);
    buf_printf(&p->path, "-%05d-of-%05d.gguf", no, p->named.count);
    const char *path = buf_text(&p->path);
    TRY(buf_check(&p->path, e));
    if (!checkpoint_is_there(path)) {
        p->whole = false;
        return checkpoint_fault_at(
            c, NULL, path, e, "part %d of %d of the split model is not there", no, p->named.count);
    }
    TRY(checkpoint_read_file(c, path, "a part", gguf_read, &whole, e));
    p->whole &= whole;
    int rc = whole ? check_part(p, no, e) : KV_OK;
    if (no > 1)
        c->ntexts = texts;
    return rc;
}

/* Moves the file that was named, and its tensors, behind the `before` files that were read next. */
static int move_named(checkpoint *c, int before, kv_err *e)
{
    const input first = c->files[0];
    tensor_info *all = c->tensors;
    int64_t own = 0, end = 0;
    for (; end < c->ntensors && all[end].file <= before; end++) {
        own += all[end].file == 0;
        all[end].file = all[end].file ? all[end].file - 1 : before;
    }
    own_mem tensor_info *kept = mem_alloc(own, sizeof *kept, e);
    if (!kept)
        return KV_E_MEMORY;
    memmove(c->files, c->files + 1, (size_t)before * sizeof first);
    c->files[before] = first;
    if (end > 0) { /* a file without tensors lacks the list */
        memcpy(kept, all, (size_t)own * sizeof *all);
        memmove(all, all + own, (size_t)(end - own) * sizeof *all);
        memcpy(all + end - own, kept, (size_t)own * sizeof *all);
    }
    return KV_OK;
}

static int read_parts(parts *p, kv_err *e)
{
    checkpoint *c = p->c;
    int before = 0;
    TRY(check_part(p, p->named.no, e));
    if (p->named.no > 1)
        c->ntexts = 0;
    for (int no = 1; no <= p->named.count; no++) {
        TRY(stop_check(e));
        if (no == p->named.no)
            before = (int)c->nfiles - 1;
        else
            TRY(read_part(p, no, e));
    }
    if (p->whole && p->tensors >= 0 && p->tensors != c->ntensors)
        TRY(checkpoint_fault_at(c, NULL, NULL, e,
                                "its parts hold %lld tensors, split.tensors.count says %lld",
                                (long long)c->ntensors, (long long)p->tensors));
    return move_named(c, before, e);
}

int gguf_split_read(checkpoint *c, bool whole, kv_err *e)
{
    parts p = {.c = c, .tensors = -1, .whole = whole};
    const char *path = c->files[0].name, *name = checkpoint_base(path);
    if (!gguf_part_find(&p.named, name))
        return checkpoint_fault(c, NULL, 0, e,
                                "part %lld of %lld of a split model; its name does not lead to the "
                                "others",
                                (long long)c->split.no + 1, (long long)c->split.count);
    c->sharded = true;
    p.folder = (size_t)(name - path) + p.named.prefix;
    int rc = read_parts(&p, e);
    buf_release(&p.path);
    return rc;
}
