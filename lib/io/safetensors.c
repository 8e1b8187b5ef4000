/* The safetensors format.
 *
 * A header comes from a stranger, so it is looked at twice. check_header reads it byte by byte and
 * admits UTF-8 without NUL, three levels of brackets, whole numbers of up to 15 digits, and a
 * bounded number of values: cJSON checks none of these, and says no place. The tree that cJSON then
 * makes has a bounded size and depth, its texts are whole, and its numbers are exact as doubles. It
 * is walked once into flat lists and released.
 *
 * cJSON allocates through its own hooks, which belong to the whole process and are left alone, so
 * the memory of the tree does not come from base/mem.h.
 */
#include "io/safetensors.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "io/scalar.h"
#include "io/json_writer.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "data go between files and memory as they are, and files are little-endian");

#define LENGTH_BYTES  8
#define HEADER_MAX    100000000                /* the limit of the format's own reader */
#define NUMBER_MAX    INT64_C(999999999999999) /* 15 digits: exact as a double, and a petabyte */
#define NUMBER_DIGITS 15
#define DEPTH_MAX     3       /* {"name": {"shape": [ */
#define MARKS_MAX     8000000 /* brackets, colons, commas: 600,000 tensors; 0.6 GB of tree */
#define METADATA      "__metadata__"

/* Names in messages: the first 80 bytes. */
#define SHOWN(name) (int)utf8_cut((name), strlen(name), 80), (name)

static const struct {
    const char *name;
    kv_dtype dtype;
} dtypes[] = {
    {"F64", KV_FLOAT64},   {"F32", KV_FLOAT32}, {"F16", KV_FLOAT16},
    {"BF16", KV_BFLOAT16}, {"I64", KV_INT64},   {"I32", KV_INT32},
    {"I8", KV_INT8},       {"U8", KV_UINT8},    {"BOOL", KV_BOOL},
};

#define NDTYPES (sizeof dtypes / sizeof *dtypes)

/* ---- Names in order -------------------------------------------------------------------------- */

/* Sorting finds names that stand twice in a time that no choice of names can make quadratic. */

typedef struct named {
    const char *name;
    int64_t i;
} named;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const named *)a)->name, ((const named *)b)->name);
}

/* Sorts and returns a name that stands twice, or NULL. */
static const char *sort_names(named *names, int64_t n)
{
    qsort(names, (size_t)n, sizeof *names, by_name);
    for (int64_t i = 1; i < n; i++) {
        if (strcmp(names[i - 1].name, names[i].name) == 0)
            return names[i].name;
    }
    return NULL;
}

static int64_t find_name(const named *names, int64_t n, const char *name)
{
    const named key = {name, 0};
    const named *found = bsearch(&key, names, (size_t)n, sizeof *names, by_name);
    return found ? found->i : -1;
}

/* ---- Writing --------------------------------------------------------------------------------- */

static bool is_utf8(const char *text)
{
    size_t n = strlen(text);
    for (size_t i = 0; i < n;) {
        bool ok;
        i += utf8_length(text + i, n - i, &ok);
        if (!ok)
            return false;
    }
    return true;
}

static int check_items(const char *path, const safetensors_item *items, int64_t n, named *names,
                       kv_err *e)
{
    for (int64_t i = 0; i < n; i++) {
        names[i] = (named){items[i].name, i};
        if (!is_utf8(items[i].name))
            return file_bad(e, KV_E_VALUE, path, "the name of a tensor is not UTF-8");
        if (strcmp(items[i].name, METADATA) == 0)
            return file_bad(e, KV_E_VALUE, path, "no tensor can have the name \"" METADATA "\"");
    }
    const char *twice = sort_names(names, n);
    if (twice)
        return file_bad(e, KV_E_VALUE, path, "two tensors have the name \"%.*s\"", SHOWN(twice));
    return KV_OK;
}

static int check_pairs(const char *path, const safetensors_pair *pairs, int64_t n, named *names,
                       kv_err *e)
{
    for (int64_t i = 0; i < n; i++) {
        names[i] = (named){pairs[i].name, i};
        if (!is_utf8(pairs[i].name))
            return file_bad(e, KV_E_VALUE, path, "the name of a metadata text is not UTF-8");
        if (!is_utf8(pairs[i].text))
            return file_bad(e, KV_E_VALUE, path, "the metadata text \"%.*s\" is not UTF-8",
                        SHOWN(pairs[i].name));
    }
    const char *twice = sort_names(names, n);
    if (twice)
        return file_bad(e, KV_E_VALUE, path, "two metadata texts have the name \"%.*s\"",
                        SHOWN(twice));
    return KV_OK;
}

static int check_names(const char *path, const safetensors_item *items, int64_t n,
                       const safetensors_pair *metadata, int64_t nmetadata, kv_err *e)
{
    named *names = mem_alloc(n > nmetadata ? n : nmetadata, sizeof *names, e);
    if (!names)
        return KV_E_MEMORY;
    int rc = check_items(path, items, n, names, e);
    if (!rc)
        rc = check_pairs(path, metadata, nmetadata, names, e);
    mem_free(names);
    return rc;
}

/* The sizes of elements, in the order of their data. */
static const int64_t widths[] = {8, 4, 2, 1};
#define NWIDTHS (sizeof widths / sizeof *widths)

static size_t width_of(const kv_array *a)
{
    size_t w = 0;
    while (w + 1 < NWIDTHS && widths[w] != kv_dtype_bytes(kv_array_dtype(a)))
        w++;
    kv_assert(widths[w] == kv_dtype_bytes(kv_array_dtype(a)),
              "elements of %lld bytes have no place",
              (long long)kv_dtype_bytes(kv_array_dtype(a)));
    return w;
}

/* Computes the begin of the data of each width. */
static int lay_out(const char *path, int64_t begin[NWIDTHS], const safetensors_item *items,
                   int64_t n, kv_err *e)
{
    int64_t bytes[NWIDTHS] = {0}, end = 0;
    bool over = false;
    for (int64_t i = 0; i < n; i++) {
        const kv_array *a = items[i].array;
        int64_t *sum = &bytes[width_of(a)];
        over |= __builtin_add_overflow(*sum, kv_array_bytes(a), sum);
        for (int j = 0; j < kv_array_ndim(a); j++)
            over |= kv_array_shape(a)[j] > NUMBER_MAX;
    }
    for (size_t w = 0; w < NWIDTHS; w++) {
        begin[w] = end;
        over |= __builtin_add_overflow(end, bytes[w], &end) || end > NUMBER_MAX;
    }
    return over ? file_bad(e, KV_E_VALUE, path, "sizes and offsets have at most %d digits",
                       NUMBER_DIGITS)
                : KV_OK;
}

static void add_tensor(json_writer *header, const safetensors_item *item, int64_t begin)
{
    kv_array *a = item->array;
    const int64_t offsets[] = {begin, begin + kv_array_bytes(a)};
    size_t k = 0;
    while (dtypes[k].dtype != kv_array_dtype(a))
        k++;
    json_begin(header, item->name, '{');
    json_text(header, "dtype", dtypes[k].name);
    json_ints(header, "shape", kv_array_ndim(a), kv_array_shape(a));
    json_ints(header, "data_offsets", 2, offsets);
    json_end(header, '}');
}

/* The length and the header; begin advances to where the data of each width end. */
static int make_header(buf *out, const char *path, int64_t begin[NWIDTHS],
                       const safetensors_item *items, int64_t n, const safetensors_pair *metadata,
                       int64_t nmetadata, kv_err *e)
{
    json_writer header = {.out = out};
    buf_repeat(out, '\0', LENGTH_BYTES);
    json_begin(&header, NULL, '{');
    if (nmetadata)
        json_begin(&header, METADATA, '{');
    for (int64_t i = 0; i < nmetadata; i++)
        json_text(&header, metadata[i].name, metadata[i].text);
    if (nmetadata)
        json_end(&header, '}');
    for (int64_t i = 0; i < n; i++) {
        int64_t *at = &begin[width_of(items[i].array)];
        add_tensor(&header, &items[i], *at);
        *at += kv_array_bytes(items[i].array);
    }
    json_end(&header, '}');
    buf_repeat(out, ' ', (int64_t)(-out->len % 8));
    if (buf_check(out, e))
        return KV_E_MEMORY;
    uint64_t length = out->len - LENGTH_BYTES;
    if (length > HEADER_MAX)
        return file_bad(e, KV_E_VALUE, path,
                    "names and metadata need a header of %llu bytes, and at most %d are allowed",
                    (unsigned long long)length, HEADER_MAX);
    memcpy(out->data, &length, LENGTH_BYTES);
    return KV_OK;
}

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

/* *at: bytes of data so far. */
static int put_data(const sink *to, const safetensors_item *items, int64_t n, size_t width,
                    int64_t *at, kv_err *e)
{
    for (int64_t i = 0; i < n; i++) {
        kv_array *a = items[i].array;
        const void *data;
        if (width_of(a) != width)
            continue;
        int rc = kv_array_read(a, &data, e);
        if (!rc)
            rc = put(to, data, (size_t)kv_array_bytes(a), e);
        if (rc)
            return rc;
        *at += kv_array_bytes(a);
    }
    return KV_OK;
}

static int put_all(const sink *to, const safetensors_item *items, int64_t n,
                   const safetensors_pair *metadata, int64_t nmetadata, kv_err *e)
{
    buf header = {0};
    int64_t begin[NWIDTHS], at = 0;
    int rc = check_names(to->path, items, n, metadata, nmetadata, e);
    if (!rc)
        rc = lay_out(to->path, begin, items, n, e);
    if (!rc)
        rc = make_header(&header, to->path, begin, items, n, metadata, nmetadata, e);
    if (!rc)
        rc = put(to, header.data, header.len, e);
    buf_release(&header);
    for (size_t w = 0; w < NWIDTHS && !rc; w++) {
        rc = put_data(to, items, n, w, &at, e);
        kv_assert(rc || at == begin[w],
                  "elements of %lld bytes end at byte %lld, in the header at %lld",
                  (long long)widths[w], (long long)at, (long long)begin[w]);
    }
    return rc;
}

int safetensors_write(FILE *f, const char *path, const safetensors_item *items, int64_t n,
                      const safetensors_pair *metadata, int64_t nmetadata, kv_err *e)
{
    return put_all(&(sink){.f = f, .path = path}, items, n, metadata, nmetadata, e);
}

int safetensors_print(buf *out, const char *name, const safetensors_item *items, int64_t n,
                      const safetensors_pair *metadata, int64_t nmetadata, kv_err *e)
{
    return put_all(&(sink){.b = out, .path = name}, items, n, metadata, nmetadata, e);
}

/* ---- An open file ---------------------------------------------------------------------------- */

struct safetensors {
    char *name;         /* of the file, for messages */
    int fd;             /* -1 when the file is in memory */
    const char *memory; /* then all of it */
    char *owned;        /* memory, when it is this structure's */
    int64_t size;       /* bytes of the file */
    int64_t data;       /* where the data begin in it */
    int64_t ntensors, nmetadata;
    safetensors_tensor *tensors;
    safetensors_pair *metadata;
    named *tensor_names; /* sorted */
    named *metadata_names;
    arena texts; /* names, texts and shapes */
};

/* n bytes of the file from `at` on, all of which are within its size. */
static int read_at(const safetensors *s, void *dst, int64_t at, int64_t n, kv_err *e)
{
    if (s->fd < 0) {
        if (n)
            memcpy(dst, s->memory + at, (size_t)n);
        return KV_OK;
    }
    while (n > 0) {
        ssize_t got = pread(s->fd, dst, (size_t)n, at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return file_error(e, "read", s->name, errno);
        if (got == 0)
            return file_bad(e, KV_E_IO, s->name, "the file became shorter while it was read");
        dst = (char *)dst + got;
        at += got;
        n -= got;
    }
    return KV_OK;
}

/* ---- The header's bytes ---------------------------------------------------------------------- */

/* A place in a header. Messages count bytes from the begin of the file. */
typedef struct cursor {
    const char *path, *text;
    int64_t n, at;
    kv_err *e;
} cursor;

static int refuse(const cursor *c, const char *why)
{
    return file_bad(c->e, KV_E_FORMAT, c->path, "byte %lld: %s", (long long)(LENGTH_BYTES + c->at),
                why);
}

static int refuse_byte(const cursor *c)
{
    unsigned char byte = (unsigned char)c->text[c->at];
    char why[64];
    if (strchr("+-.eE", byte) && byte)
        return refuse(c, "the numbers of a header are whole and not negative");
    if (byte > ' ' && byte < 0x7F)
        snprintf(why, sizeof why, "\"%c\" cannot stand here", byte);
    else
        snprintf(why, sizeof why, "a byte 0x%02X cannot stand here", byte);
    return refuse(c, why);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Steps over a text. Escapes are cJSON's to judge, but for a NUL, which would end
 * the text early. */
static int skip_text(cursor *c)
{
    for (c->at++; c->at < c->n && c->text[c->at] != '"';) {
        const char *p = c->text + c->at;
        size_t rest = (size_t)(c->n - c->at);
        bool ok;
        if ((unsigned char)*p < ' ')
            return refuse(c, "a text with a control character that is not escaped");
        if (rest >= 6 && memcmp(p, "\\u0000", 6) == 0)
            return refuse(c, "a text with a NUL");
        size_t length = *p == '\\' && rest >= 2 ? 1 : 0;
        length += utf8_length(p + length, rest - length, &ok);
        if (!ok)
            return refuse(c, "a text that is not UTF-8");
        c->at += (int64_t)length;
    }
    if (c->at >= c->n)
        return file_bad(c->e, KV_E_FORMAT, c->path, "the header ends within a text");
    c->at++;
    return KV_OK;
}

static int skip_number(cursor *c)
{
    int64_t n = 0;
    while (c->at + n < c->n && is_digit(c->text[c->at + n]))
        n++;
    if (n > NUMBER_DIGITS)
        return refuse(c, "a number of more than 15 digits");
    if (n > 1 && c->text[c->at] == '0')
        return refuse(c, "a number that begins with 0");
    c->at += n;
    return KV_OK;
}

/* Steps over a sign of the syntax. */
static int skip_mark(cursor *c, int *depth)
{
    switch (c->text[c->at]) {
    case '{':
    case '[':
        if (++*depth > DEPTH_MAX)
            return refuse(c, "brackets are nested deeper than 3");
        break;
    case '}':
    case ']':
        --*depth;
        break;
    case ',':
    case ':':
        break;
    default:
        return refuse_byte(c);
    }
    c->at++;
    return KV_OK;
}

/* Admits the bytes that the head of this file describes. Whether brackets,
 * colons and commas stand where they belong is left to cJSON. */
static int check_header(cursor *c)
{
    int rc = KV_OK, depth = 0, marks = 0;
    if (c->n == 0 || c->text[0] != '{')
        return file_bad(c->e, KV_E_FORMAT, c->path, "a header begins with {, this one does not");
    while (c->at < c->n && !rc) {
        char byte = c->text[c->at];
        if (is_blank(byte))
            c->at++;
        else if (depth == 0 && c->at > 0)
            rc = refuse(c, "only blanks may follow the header's last bracket");
        else if (byte == '"')
            rc = skip_text(c);
        else if (is_digit(byte))
            rc = skip_number(c);
        else if (++marks > MARKS_MAX)
            rc = refuse(c, "a header of this many values is not read");
        else
            rc = skip_mark(c, &depth);
    }
    if (!rc && depth > 0)
        rc = file_bad(c->e, KV_E_FORMAT, c->path, "the header ends before its last bracket");
    return rc;
}

/* ---- The header's tree ----------------------------------------------------------------------- */

static int64_t count_children(const cJSON *v)
{
    int64_t n = 0;
    for (const cJSON *child = v->child; child; child = child->next)
        n++;
    return n;
}

/* Whole numbers of a list; -1 when there are more than max or something else is among them. */
static int read_numbers(int64_t *numbers, int max, const cJSON *list)
{
    int n = 0;
    if (!cJSON_IsArray(list))
        return -1;
    for (const cJSON *v = list->child; v; v = v->next) {
        if (n == max || !cJSON_IsNumber(v))
            return -1;
        numbers[n++] = (int64_t)v->valuedouble;
    }
    return n;
}

/* The parts of a tensor's object. */
enum { PART_DTYPE, PART_SHAPE, PART_OFFSETS, NPARTS };
static const char *const part_names[NPARTS] = {"dtype", "shape", "data_offsets"};

static int find_parts(const safetensors *s, const cJSON *parts[NPARTS], const cJSON *member,
                      kv_err *e)
{
    const char *name = member->string;
    if (!cJSON_IsObject(member))
        return file_bad(e, KV_E_FORMAT, s->name, "tensor \"%.*s\" is not described by an object",
                    SHOWN(name));
    for (const cJSON *v = member->child; v; v = v->next) {
        int k = 0;
        while (k < NPARTS && strcmp(v->string, part_names[k]) != 0)
            k++;
        if (k == NPARTS)
            return file_bad(e, KV_E_FORMAT, s->name,
                        "tensor \"%.*s\" has \"%.*s\", which is no part of a tensor", SHOWN(name),
                        SHOWN(v->string));
        if (parts[k])
            return file_bad(e, KV_E_FORMAT, s->name, "tensor \"%.*s\" has two \"%s\"", SHOWN(name),
                        part_names[k]);
        parts[k] = v;
    }
    for (int k = 0; k < NPARTS; k++) {
        if (!parts[k])
            return file_bad(e, KV_E_FORMAT, s->name, "tensor \"%.*s\" has no \"%s\"", SHOWN(name),
                        part_names[k]);
    }
    return KV_OK;
}

static int read_dtype(const safetensors *s, kv_dtype *dtype, const char *name, const cJSON *part,
                      kv_err *e)
{
    if (!cJSON_IsString(part))
        return file_bad(e, KV_E_FORMAT, s->name, "tensor \"%.*s\": its dtype is not a text",
                    SHOWN(name));
    for (size_t k = 0; k < NDTYPES; k++) {
        if (strcmp(part->valuestring, dtypes[k].name) == 0) {
            *dtype = dtypes[k].dtype;
            return KV_OK;
        }
    }
    file_bad(e, KV_E_UNSUPPORTED, s->name,
             "tensor \"%.*s\" has the dtype \"%.*s\", which is not read", SHOWN(name),
             SHOWN(part->valuestring));
    kv_err_hint(e, "F64 F32 F16 BF16 I64 I32 I8 U8 BOOL");
    return KV_E_UNSUPPORTED;
}

static int check_bytes(const safetensors *s, const safetensors_tensor *t, kv_err *e)
{
    char shape[160];
    int64_t need = scalar_bytes(t->dtype, t->ndim, t->shape);
    kv_shape_text(shape, sizeof shape, t->ndim, t->shape);
    if (need < 0)
        return file_bad(e, KV_E_FORMAT, s->name, "tensor \"%.*s\" of shape %s is too large",
                    SHOWN(t->name), shape);
    if (need != t->bytes)
        return file_bad(e, KV_E_FORMAT, s->name,
                    "tensor \"%.*s\" of shape %s and dtype %s needs %lld bytes, its data_offsets "
                    "give it %lld",
                    SHOWN(t->name), shape, kv_dtype_name(t->dtype), (long long)need,
                    (long long)t->bytes);
    return KV_OK;
}

static int read_tensor(safetensors *s, safetensors_tensor *t, const cJSON *member, kv_err *e)
{
    const cJSON *parts[NPARTS] = {NULL};
    int64_t shape[KV_MAX_NDIM], range[2];
    const char *name = member->string;
    int rc = find_parts(s, parts, member, e);
    if (!rc)
        rc = read_dtype(s, &t->dtype, name, parts[PART_DTYPE], e);
    if (rc)
        return rc;
    t->ndim = read_numbers(shape, KV_MAX_NDIM, parts[PART_SHAPE]);
    if (t->ndim < 0)
        return file_bad(e, KV_E_FORMAT, s->name,
                    "tensor \"%.*s\": its shape is not a list of up to %d sizes", SHOWN(name),
                    KV_MAX_NDIM);
    if (read_numbers(range, 2, parts[PART_OFFSETS]) != 2 || range[0] > range[1])
        return file_bad(e, KV_E_FORMAT, s->name,
                    "tensor \"%.*s\": its data_offsets are not a begin and an end", SHOWN(name));
    size_t n = (size_t)t->ndim * sizeof *shape;
    int64_t *kept = arena_alloc(&s->texts, n, e);
    t->name = arena_text(&s->texts, name, strlen(name), e);
    if (!kept || !t->name)
        return KV_E_MEMORY;
    memcpy(kept, shape, n);
    t->shape = kept;
    t->bytes = range[1] - range[0];
    t->offset = s->data + range[0];
    return check_bytes(s, t, e);
}

static int read_metadata(safetensors *s, const cJSON *member, kv_err *e)
{
    if (s->metadata)
        return file_bad(e, KV_E_FORMAT, s->name, "\"" METADATA "\" stands there twice");
    if (!cJSON_IsObject(member))
        return file_bad(e, KV_E_FORMAT, s->name, "\"" METADATA "\" is not an object");
    int64_t n = count_children(member);
    s->metadata = mem_zalloc(n, sizeof *s->metadata, e);
    s->metadata_names = mem_alloc(n, sizeof *s->metadata_names, e);
    if (!s->metadata || !s->metadata_names)
        return KV_E_MEMORY;
    for (const cJSON *v = member->child; v; v = v->next) {
        safetensors_pair *p = &s->metadata[s->nmetadata];
        if (!cJSON_IsString(v))
            return file_bad(e, KV_E_FORMAT, s->name, "metadata \"%.*s\" is not a text",
                        SHOWN(v->string));
        p->name = arena_text(&s->texts, v->string, strlen(v->string), e);
        p->text = arena_text(&s->texts, v->valuestring, strlen(v->valuestring), e);
        if (!p->name || !p->text)
            return KV_E_MEMORY;
        s->metadata_names[s->nmetadata] = (named){p->name, s->nmetadata};
        s->nmetadata++;
    }
    const char *twice = sort_names(s->metadata_names, s->nmetadata);
    if (twice)
        return file_bad(e, KV_E_FORMAT, s->name, "metadata \"%.*s\" stands there twice",
                        SHOWN(twice));
    return KV_OK;
}

/* Fills the lists from the whole header. */
static int read_members(safetensors *s, const cJSON *header, kv_err *e)
{
    int64_t n = count_children(header);
    s->tensors = mem_zalloc(n, sizeof *s->tensors, e);
    s->tensor_names = mem_alloc(n, sizeof *s->tensor_names, e);
    if (!s->tensors || !s->tensor_names)
        return KV_E_MEMORY;
    for (const cJSON *v = header->child; v; v = v->next) {
        bool is_metadata = strcmp(v->string, METADATA) == 0;
        safetensors_tensor *t = &s->tensors[s->ntensors];
        int rc = is_metadata ? read_metadata(s, v, e) : read_tensor(s, t, v, e);
        if (rc)
            return rc;
        if (!is_metadata) {
            s->tensor_names[s->ntensors] = (named){t->name, s->ntensors};
            s->ntensors++;
        }
    }
    const char *twice = sort_names(s->tensor_names, s->ntensors);
    if (twice)
        return file_bad(e, KV_E_FORMAT, s->name, "two tensors have the name \"%.*s\"",
                        SHOWN(twice));
    return KV_OK;
}

/* ---- Data without holes ---------------------------------------------------------------------- */

/* By begin, then by end, so that a tensor without elements stands before one that begins there. */
static int by_offset(const void *a, const void *b)
{
    const safetensors_tensor *x = *(safetensors_tensor *const *)a;
    const safetensors_tensor *y = *(safetensors_tensor *const *)b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Every byte of the data belongs to exactly one tensor, and the file ends with the last one. */
static int check_data(const safetensors *s, safetensors_tensor **order, kv_err *e)
{
    int64_t end = s->data;
    qsort(order, (size_t)s->ntensors, sizeof *order, by_offset);
    for (int64_t i = 0; i < s->ntensors; i++) {
        const safetensors_tensor *t = order[i];
        if (t->offset < end)
            return file_bad(e, KV_E_FORMAT, s->name, "tensors \"%.*s\" and \"%.*s\" overlap",
                        SHOWN(order[i - 1]->name), SHOWN(t->name));
        if (t->offset > end)
            return file_bad(e, KV_E_FORMAT, s->name,
                        "%lld bytes of data before tensor \"%.*s\" belong to no tensor",
                        (long long)(t->offset - end), SHOWN(t->name));
        end += t->bytes;
    }
    if (end > s->size)
        return file_bad(e, KV_E_FORMAT, s->name,
                        "cut within its data: %lld of %lld bytes are missing",
                        (long long)(end - s->size), (long long)(end - s->data));
    if (end < s->size)
        return file_bad(e, KV_E_FORMAT, s->name, "%lld bytes behind the data belong to no tensor",
                    (long long)(s->size - end));
    return KV_OK;
}

static int check_offsets(safetensors *s, kv_err *e)
{
    safetensors_tensor **order = mem_alloc(s->ntensors, sizeof *order, e);
    if (!order)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < s->ntensors; i++)
        order[i] = &s->tensors[i];
    int rc = check_data(s, order, e);
    mem_free(order);
    return rc;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static int read_length(safetensors *s, int64_t *length, kv_err *e)
{
    uint64_t n;
    if (s->size == 0)
        return file_bad(e, KV_E_FORMAT, s->name, "the file is empty");
    if (s->size < LENGTH_BYTES)
        return file_bad(e, KV_E_FORMAT, s->name,
                    "cut within the length of its header: %lld of 8 bytes are missing",
                    (long long)(LENGTH_BYTES - s->size));
    int rc = read_at(s, &n, 0, LENGTH_BYTES, e);
    if (rc)
        return rc;
    if (n > HEADER_MAX)
        return file_bad(
            e, KV_E_FORMAT, s->name,
            "no safetensors file: it begins with a header of %llu bytes, and at most %d are "
            "allowed",
            (unsigned long long)n, HEADER_MAX);
    int64_t there = s->size - LENGTH_BYTES;
    *length = (int64_t)n;
    if (*length > there)
        return file_bad(e, KV_E_FORMAT, s->name,
                    "cut within its header: %lld of %lld bytes are missing",
                    (long long)(*length - there), (long long)*length);
    s->data = LENGTH_BYTES + *length;
    return KV_OK;
}

/* Some versions of cJSON look a few bytes beyond the length that they are told. */
#define SLACK 16

static int parse_header(safetensors *s, char *text, int64_t length, kv_err *e)
{
    cursor c = {.path = s->name, .text = text, .n = length, .e = e};
    int rc = check_header(&c);
    if (rc)
        return rc;
    /* cJSON does not say whether it ran out of memory; malloc does. */
    errno = 0;
    cJSON *header = cJSON_ParseWithLength(text, (size_t)length + 1);
    if (!header && errno == ENOMEM)
        return file_bad(e, KV_E_MEMORY, s->name, "out of memory");
    rc = header ? read_members(s, header, e)
                : file_bad(e, KV_E_FORMAT, s->name, "the header is no JSON");
    cJSON_Delete(header);
    return rc;
}

/* Fills s, whose file is known. */
static int read_header(safetensors *s, kv_err *e)
{
    int64_t length = 0;
    int rc = read_length(s, &length, e);
    if (rc)
        return rc;
    char *text = mem_alloc(length + SLACK, 1, e);
    if (!text)
        return KV_E_MEMORY;
    memset(text + length, 0, SLACK);
    rc = read_at(s, text, LENGTH_BYTES, length, e);
    if (!rc)
        rc = parse_header(s, text, length, e);
    mem_free(text);
    return rc ? rc : check_offsets(s, e);
}

static safetensors *new_file(const char *name, kv_err *e)
{
    safetensors *s = mem_zalloc(1, sizeof *s, e);
    if (!s)
        return NULL;
    s->fd = -1;
    s->name = mem_text(name, strlen(name), e);
    if (!s->name) {
        mem_free(s);
        return NULL;
    }
    return s;
}

/* Hands s over once it is read, or closes it. */
static int finish(safetensors **out, safetensors *s, int rc, kv_err *e)
{
    if (!rc)
        rc = read_header(s, e);
    if (rc)
        safetensors_close(s);
    else
        *out = s;
    return rc;
}

static int open_path(safetensors *s, const char *path, kv_err *e)
{
    struct stat about;
    if (strcmp(path, "-") == 0 || stat(path, &about) != 0 || !S_ISREG(about.st_mode)) {
        size_t n;
        int rc = file_read(path, &s->owned, &n, e);
        s->memory = s->owned;
        s->size = (int64_t)n;
        return rc;
    }
    s->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (s->fd < 0 || fstat(s->fd, &about) != 0)
        return file_error(e, "read", path, errno);
    s->size = about.st_size;
    return KV_OK;
}

int safetensors_open(safetensors **out, const char *path, kv_err *e)
{
    safetensors *s = new_file(strcmp(path, "-") == 0 ? "stdin" : path, e);
    return s ? finish(out, s, open_path(s, path, e), e) : KV_E_MEMORY;
}

int safetensors_open_memory(safetensors **out, const void *text, size_t n, const char *name,
                            kv_err *e)
{
    safetensors *s = new_file(name, e);
    if (!s)
        return KV_E_MEMORY;
    s->memory = text;
    s->size = (int64_t)n;
    return finish(out, s, KV_OK, e);
}

void safetensors_close(safetensors *s)
{
    if (!s)
        return;
    if (s->fd >= 0)
        close(s->fd);
    mem_free(s->owned);
    mem_free(s->tensors);
    mem_free(s->metadata);
    mem_free(s->tensor_names);
    mem_free(s->metadata_names);
    mem_free(s->name);
    arena_release(&s->texts);
    mem_free(s);
}

/* ---- Contents -------------------------------------------------------------------------------- */

int64_t safetensors_count(const safetensors *s)
{
    return s->ntensors;
}

const safetensors_tensor *safetensors_at(const safetensors *s, int64_t i)
{
    return &s->tensors[i];
}

int64_t safetensors_find(const safetensors *s, const char *name)
{
    return find_name(s->tensor_names, s->ntensors, name);
}

int64_t safetensors_metadata_count(const safetensors *s)
{
    return s->nmetadata;
}

const safetensors_pair *safetensors_metadata_at(const safetensors *s, int64_t i)
{
    return &s->metadata[i];
}

const char *safetensors_metadata(const safetensors *s, const char *name)
{
    int64_t i = s->nmetadata ? find_name(s->metadata_names, s->nmetadata, name) : -1;
    return i < 0 ? NULL : s->metadata[i].text;
}

/* ---- Loading --------------------------------------------------------------------------------- */

static int check_bools(const safetensors *s, const safetensors_tensor *t, const unsigned char *data,
                       kv_err *e)
{
    int64_t i = scalar_not_bool(data, t->bytes);
    return i < 0 ? KV_OK
                 : file_bad(e, KV_E_FORMAT, s->name,
                            "tensor \"%.*s\": element %lld is no bool, its byte is %d",
                            SHOWN(t->name), (long long)i, data[i]);
}

int safetensors_load(kv_array **out, const safetensors *s, int64_t i, kv_err *e)
{
    const safetensors_tensor *t = &s->tensors[i];
    kv_array *a;
    void *data;
    int rc = kv_array_new_raw(&a, t->dtype, t->ndim, t->shape, (kv_ctx){0}, e);
    if (rc)
        return rc;
    rc = kv_array_write(a, &data, e);
    if (!rc)
        rc = read_at(s, data, t->offset, t->bytes, e);
    if (!rc && t->dtype == KV_BOOL)
        rc = check_bools(s, t, data, e);
    if (rc)
        kv_array_unref(a);
    else
        *out = a;
    return rc;
}

int safetensors_load_name(kv_array **out, const safetensors *s, const char *name, kv_err *e)
{
    int64_t i = safetensors_find(s, name);
    if (i < 0)
        return file_bad(e, KV_E_NAME, s->name, "there is no tensor \"%.*s\"", SHOWN(name));
    return safetensors_load(out, s, i, e);
}

int safetensors_load_all(kv_array **arrays, const safetensors *s, kv_err *e)
{
    for (int64_t i = 0; i < s->ntensors; i++) {
        int rc = safetensors_load(&arrays[i], s, i, e);
        if (rc) {
            while (i-- > 0)
                kv_array_unref(arrays[i]);
            return rc;
        }
    }
    return KV_OK;
}
