/* JSON files of arrays, read in one pass by the scanner of json_scan.h: the numbers of a list
 * become elements as they come, and the length that the first list of each depth has is the shape.
 * Of an object the first pass finds where its parts stand, since the dtype may come behind the
 * data.
 *
 * The scanner says where a text is wrong; the words for it are made here, with line and column.
 */
#include "io/json.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "array/device.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/stop.h"
#include "base/utf8.h"
#include "io/json_scan.h"
#include "io/scalar.h"

typedef struct reader {
    const char *name;
    int line; /* of the text's begin */
    kv_err *e;
    json_scan scan;
    kv_err why; /* of the scanner */
    buf text;   /* a text that was read */
    kv_dtype dtype;
    bool default_dtype;         /* float32, since no dtype was given */
    int ndim;                   /* -1 before the first element or empty list */
    int64_t shape[KV_MAX_NDIM]; /* -1: no list of that depth has ended */
    char *data;                 /* n elements of dtype; room for cap */
    int64_t n, cap;
} reader;

/* ---- Places ----------------------------------------------------------------------------- */

#define PLACE_TEXT 512

static bool has_mark(const char *text, int64_t n)
{
    return n >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0;
}

/* "x.json:3:17" for the byte at `at`. */
static const char *place(char out[PLACE_TEXT], const reader *r, int64_t at)
{
    const char *text = r->scan.text;
    int64_t line = r->line, start = has_mark(text, r->scan.n) ? 3 : 0;
    for (int64_t i = start; i < at; i++) {
        if (text[i] == '\n') {
            line++;
            start = i + 1;
        }
    }
    int64_t col = at > start ? utf8_count(text + start, (size_t)(at - start)) + 1 : 1;
    snprintf(out, PLACE_TEXT, "%s:%lld:%lld", r->name, (long long)line, (long long)col);
    return out;
}

/* Refuses the text for its byte `at`. Returns format. */
__attribute__((format(printf, 3, 4))) static int refuse(const reader *r, int64_t at,
                                                        const char *fmt, ...)
{
    char where[PLACE_TEXT];
    kv_err why = {0};
    va_list ap;
    va_start(ap, fmt);
    kv_err_vset(&why, KV_E_FORMAT, fmt, ap);
    va_end(ap);
    return kv_err_set(r->e, KV_E_FORMAT, "%s: %s", place(where, r, at), why.text);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Whether the text that begins with the quote at `at` has no end. */
static bool is_open(const json_scan *s, int64_t at)
{
    for (int64_t i = at + 1; i < s->n; i += 1 + (s->text[i] == '\\'))
        if (s->text[i] == '"')
            return false;
    return true;
}

/* Says why the scanner could not go on, from what stands where it stopped. */
static int scan_error(const reader *r)
{
    const json_scan *s = &r->scan;
    int64_t at = s->at, left = s->n - at, end = at;
    if (r->why.code != KV_E_FORMAT)
        return kv_err_set(r->e, r->why.code, "%s", r->why.text);
    if (left <= 0)
        return refuse(r, s->n, "the text ends too early");
    const char *text = s->text + at;
    unsigned char c = (unsigned char)*text;
    if (c == '\0')
        return refuse(r, at, "a NUL byte");
    if (c < ' ')
        return refuse(r, at, "the byte \\x%02x cannot stand here", c);
    if ((c == '[' || c == '{') && s->depth == s->max_depth)
        return refuse(r, at, "lists are nested deeper than %d", KV_MAX_NDIM);
    if (c == '"' && is_open(s, at))
        return refuse(r, at, "a quote is not closed");
    if (left >= 6 && memcmp(text, "\\u0000", 6) == 0)
        return refuse(r, at, "a text with a NUL");
    while (end < s->n && end < at + 40 && !is_blank(s->text[end]) && !strchr(",]}", s->text[end]))
        end++;
    if ((c == '-' || (c >= '0' && c <= '9')) && json_number_length(text, (size_t)left) == 0)
        return refuse(r, at, "%.*s is not a number of JSON", (int)(end - at), text);
    bool ok;
    int size = (int)utf8_length(text, (size_t)left, &ok);
    return ok ? refuse(r, at, "\"%.*s\" cannot stand here", size, text)
              : refuse(r, at, "the byte \\x%02x is not UTF-8", c);
}

/* ---- The elements ----------------------------------------------------------------------- */

/* A value by its first byte. */
static const char *kind(char c)
{
    return c == '['   ? "a list"
           : c == '{' ? "an object"
           : c == 'n' ? "null"
           : c == '"' ? "a text"
                      : "a number";
}

/* Says why the value at `at`, which is text (n bytes), cannot be an element. */
static int value_error(const reader *r, int64_t at, scalar_fit fit, const char *text, size_t n)
{
    char where[PLACE_TEXT], c = r->scan.text[at];
    place(where, r, at);
    if (c != '"' && fit == SCALAR_NO_NUMBER)
        return kv_err_set(r->e, KV_E_FORMAT, "%s: %s is not a number", where, kind(c));
    int rc = scalar_error(r->e, where, fit, r->dtype, text, n);
    if (fit == SCALAR_ROUNDED)
        kv_err_hint(r->e, "load(\"%s\", %s)", strcmp(r->name, "stdin") == 0 ? "-" : r->name,
                    scalar_dtype_option(text, n));
    return rc;
}

/* Takes the value that stands here in lists of this depth, which begins with c and is not one. */
static int read_element(reader *r, int depth, char c)
{
    json_scan *s = &r->scan;
    int64_t at = s->at;
    if (c == '"' ? json_scan_text(s, &r->text) : json_scan_skip(s))
        return scan_error(r);
    const char *text = c == '"' ? buf_text(&r->text) : s->text + at;
    size_t n = c == '"' ? r->text.len : (size_t)(s->at - at);
    if (r->ndim < 0)
        r->ndim = depth;
    if (depth != r->ndim)
        return refuse(r, at, "%s where the lists before have a list", kind(c));
    if (r->n == r->cap &&
        mem_grow(&r->data, &r->cap, r->n + 1, (size_t)kv_dtype_bytes(r->dtype), r->e))
        return KV_E_MEMORY;
    scalar_fit fit = scalar_parse(r->dtype, r->data, r->n, text, n);
    if (fit == SCALAR_FITS && r->default_dtype &&
        !scalar_keeps_integer((float *)r->data + r->n, text, n))
        fit = SCALAR_ROUNDED;
    r->n++;
    return fit == SCALAR_FITS ? KV_OK : value_error(r, at, fit, text, n);
}

/* Takes the value that stands here: an element, or a list, which has as many items as the first one
 * of its depth. */
static int read_value(reader *r, int depth)
{
    json_scan *s = &r->scan;
    char c = json_scan_peek(s);
    int64_t at = s->at, n = 0;
    if (c != '[')
        return read_element(r, depth, c);
    if (depth == r->ndim)
        return refuse(r, at, "a list where the lists before have a number");
    int failed, rc = json_scan_open(s, '[');
    while (json_scan_item(s, ']', &rc)) {
        n++;
        if ((failed = read_value(r, depth + 1)))
            return failed;
    }
    if (rc)
        return scan_error(r);
    if (r->ndim < 0)
        r->ndim = depth + 1;
    if (r->shape[depth] < 0)
        r->shape[depth] = n;
    return n == r->shape[depth] ? KV_OK
                                : refuse(r, at, "lists of unequal length: %lld here, %lld before",
                                         (long long)n, (long long)r->shape[depth]);
}

/* ---- Objects ---------------------------------------------------------------------------- */

/* The parts of an array's object: where their values begin, 0: it is missing; and the object. */
enum { DTYPE, SHAPE, STYPE, ROW_IDS, DATA, OBJECT, PLACES };
static const char *const part_names[] = {"dtype", "shape", "stype", "row_ids", "data"};

/* Takes an object, which is the rest of the text. */
static int find_parts(reader *r, int64_t parts[PLACES])
{
    json_scan *s = &r->scan;
    int rc = json_scan_open(s, '{');
    while (json_scan_item(s, '}', &rc)) {
        int i = 0;
        if ((rc = json_scan_name(s, &r->text)))
            break;
        json_scan_peek(s);
        while (i < OBJECT && strcmp(buf_text(&r->text), part_names[i]) != 0)
            i++;
        if (i == OBJECT)
            return refuse(r, s->at,
                          "\"%.40s\" is not a part of an array; those are dtype, shape, "
                          "stype, row_ids, data",
                          buf_text(&r->text));
        if (parts[i])
            return refuse(r, s->at, "\"%.40s\" stands here twice", part_names[i]);
        parts[i] = s->at;
        rc = json_scan_skip(s);
    }
    if (rc || json_scan_end(s))
        return scan_error(r);
    return parts[DATA] ? KV_OK : refuse(r, parts[OBJECT], "the object has no \"data\"");
}

/* The part at `at` as a text; NULL: it is something else. */
static const char *part_text(reader *r, int64_t at)
{
    r->scan.at = at;
    return r->scan.text[at] == '"' && json_scan_text(&r->scan, &r->text) == KV_OK
               ? buf_text(&r->text)
               : NULL;
}

static int read_dtype(reader *r, int64_t at, bool has_dtype)
{
    kv_dtype dtype;
    if (!at)
        return KV_OK;
    const char *name = part_text(r, at);
    if (!name)
        return refuse(r, at, "there is no dtype %s", kind(r->scan.text[at]));
    if (kv_dtype_parse(&dtype, name, NULL))
        return refuse(r, at, "there is no dtype \"%.40s\"", name);
    if (!has_dtype)
        r->dtype = dtype;
    r->default_dtype = false;
    return KV_OK;
}

static int read_stype(reader *r, const int64_t parts[PLACES], bool *sparse)
{
    const char *name = parts[STYPE] ? part_text(r, parts[STYPE]) : "default";
    *sparse = name && strcmp(name, "row_sparse") == 0;
    if (!*sparse && (!name || strcmp(name, "default") != 0))
        return refuse(r, parts[STYPE], "\"stype\" is \"default\" or \"row_sparse\"");
    if (parts[ROW_IDS] && !*sparse)
        return refuse(r, parts[ROW_IDS], "\"row_ids\" belong to \"stype\":\"row_sparse\"");
    if (*sparse && (!parts[ROW_IDS] || !parts[SHAPE]))
        return refuse(r, parts[OBJECT], "a row_sparse array has \"shape\" and \"row_ids\"");
    return KV_OK;
}

/* Reads the list of whole numbers from 0 on at `at`, which are up to 2^53; *ok: it is one. */
static int read_wholes(reader *r, int64_t at, int64_t **out, int64_t *n, bool *ok)
{
    json_scan *s = &r->scan;
    int64_t cap = 0;
    int rc = KV_OK;
    s->at = at;
    *ok = s->text[at] == '[' && json_scan_open(s, '[') == KV_OK;
    while (*ok && json_scan_item(s, ']', &rc)) {
        char c = json_scan_peek(s);
        int64_t begin = s->at;
        if ((rc = mem_grow(out, &cap, *n + 1, sizeof **out, r->e)))
            return rc;
        json_scan_skip(s);
        *ok = c >= '0' && c <= '9' &&
              scalar_parse(KV_INT64, *out, *n, s->text + begin, (size_t)(s->at - begin)) ==
                  SCALAR_FITS &&
              (*out)[(*n)++] <= INT64_C(1) << 53;
    }
    return rc ? scan_error(r) : KV_OK;
}

/* Compares the shape that the object says with the one that its data have, and takes it. Lists
 * below an axis of size 0 cannot be written, so the data end there. nrows: of a row_sparse array
 * how many rows the data are; *first is how many the array has. Else -1. */
static int read_shape(reader *r, const int64_t parts[PLACES], int64_t nrows, int64_t *first)
{
    char said[160], found[160];
    int64_t n = 0, *shape = NULL;
    bool ok = true;
    int rc = parts[SHAPE] ? read_wholes(r, parts[SHAPE], &shape, &n, &ok) : KV_OK;
    if (!rc && (!ok || n > KV_MAX_NDIM))
        rc = refuse(r, parts[SHAPE], "\"shape\" is a list of up to %d sizes", KV_MAX_NDIM);
    if (rc || !parts[SHAPE]) {
        mem_free(shape);
        return rc;
    }
    int ndim = (int)n, same = 0, ends = 0;
    *first = ndim > 0 ? shape[0] : 0;
    if (nrows >= 0 && ndim > 0)
        shape[0] = nrows;
    while (ends < ndim && shape[ends] != 0)
        ends++;
    int axes = ends < ndim ? ends + 1 : ndim; /* the axes that the data show */
    while (same < axes && same < r->ndim && shape[same] == r->shape[same])
        same++;
    if (same != axes || r->ndim != axes)
        rc = refuse(r, parts[DATA],
                    nrows >= 0 ? "data of shape %s are not the rows of \"row_ids\", which have %s"
                               : "data of shape %s do not fit \"shape\" %s",
                    kv_shape_text(found, sizeof found, r->ndim, r->shape),
                    kv_shape_text(said, sizeof said, ndim, shape));
    else if (ndim > 0)
        memcpy(r->shape, shape, sizeof *shape * (size_t)ndim);
    r->ndim = ndim;
    mem_free(shape);
    return rc;
}

/* ---- Reading ---------------------------------------------------------------------------- */

/* Makes the array of the elements that were read. */
static int make_dense(kv_array **out, reader *r)
{
    if (r->n == 0)
        return kv_array_new_raw(out, r->dtype, r->ndim, r->shape, (kv_ctx){0}, r->e);
    mem_shrink(&r->data, &r->cap, r->n, (size_t)kv_dtype_bytes(r->dtype));
    int rc = kv_array_wrap(out, r->data, r->dtype, r->ndim, r->shape, (kv_ctx){0}, mem_free,
                           r->data, r->e);
    if (!rc)
        r->data = NULL;
    return rc;
}

static int make_sparse(kv_array **out, reader *r, int64_t ids_at, int64_t rows, const int64_t *ids,
                       int64_t n)
{
    kv_err why = {0};
    kv_array *a = NULL;
    void *data;
    r->shape[0] = rows;
    int rc = kv_array_new_sparse(&a, r->dtype, r->ndim, r->shape, n, ids, (kv_ctx){0}, &why);
    if (rc == KV_E_INDEX || rc == KV_E_VALUE || rc == KV_E_SHAPE)
        return refuse(r, ids_at, "%s", why.text);
    if (rc)
        return kv_err_set(r->e, (kv_code)rc, "%s", why.text);
    if (!(rc = kv_array_write_rows(a, &data, r->e)) && r->n > 0)
        memcpy(data, r->data, (size_t)(r->n * kv_dtype_bytes(r->dtype)));
    return array_give(rc, out, a);
}

static int read_object(kv_array **out, reader *r, bool has_dtype)
{
    int64_t parts[PLACES] = {[OBJECT] = r->scan.at}, first = 0, n = 0, *ids = NULL;
    bool sparse = false, ok = true;
    r->scan.max_depth++; /* the object's own */
    int rc = find_parts(r, parts);
    r->scan.max_depth--;
    if (!rc)
        rc = read_stype(r, parts, &sparse);
    if (!rc && sparse)
        rc = read_wholes(r, parts[ROW_IDS], &ids, &n, &ok);
    if (!rc && !ok)
        rc = refuse(r, parts[ROW_IDS], "\"row_ids\" is a list of whole numbers from 0 on");
    if (!rc)
        rc = read_dtype(r, parts[DTYPE], has_dtype);
    r->scan.at = parts[DATA];
    r->scan.depth = 0;
    if (!rc)
        rc = read_value(r, 0);
    if (!rc)
        rc = read_shape(r, parts, sparse ? n : -1, &first);
    if (!rc)
        rc = sparse ? make_sparse(out, r, parts[ROW_IDS], first, ids, n) : make_dense(out, r);
    mem_free(ids);
    return rc;
}

static int read_list(kv_array **out, reader *r)
{
    int rc = read_value(r, 0);
    if (!rc && json_scan_end(&r->scan))
        rc = scan_error(r);
    return rc ? rc : make_dense(out, r);
}

/* Reads text that begins at a line of its file. */
static int read_line(kv_array **out, const char *text, size_t n, const char *name, int line,
                     bool has_dtype, kv_dtype dtype, kv_err *e)
{
    reader r = {.name = name,
                .line = line,
                .e = e,
                .scan = {.path = name, .text = text, .n = (int64_t)n, .max_depth = KV_MAX_NDIM},
                .dtype = has_dtype ? dtype : KV_FLOAT32,
                .default_dtype = !has_dtype,
                .ndim = -1};
    if (n == 0)
        return kv_err_set(e, KV_E_FORMAT, "%s: the file is empty", name);
    r.scan.e = &r.why;
    r.scan.at = has_mark(text, r.scan.n) ? 3 : 0;
    for (int i = 0; i < KV_MAX_NDIM; i++)
        r.shape[i] = -1;
    int rc = json_scan_peek(&r.scan) == '{' ? read_object(out, &r, has_dtype) : read_list(out, &r);
    buf_release(&r.text);
    mem_free(r.data);
    return rc;
}

int json_read(kv_array **out, const char *text, size_t n, const char *name, bool has_dtype,
              kv_dtype dtype, kv_err *e)
{
    return read_line(out, text, n, name, 1, has_dtype, dtype, e);
}

int json_read_lines(const char *text, size_t n, const char *name, bool has_dtype, kv_dtype dtype,
                    int (*visit)(void *arg, kv_array *a, kv_err *e), void *arg, kv_err *e)
{
    int rc = KV_OK;
    size_t at = has_mark(text, (int64_t)n) ? 3 : 0;
    for (int line = 1; at < n && !rc; line++) {
        const char *end = memchr(text + at, '\n', n - at);
        size_t size = end ? (size_t)(end - text) - at : n - at, i = 0;
        kv_array *a;
        while (i < size && is_blank(text[at + i]))
            i++;
        if (i < size && !(rc = read_line(&a, text + at, size, name, line, has_dtype, dtype, e)))
            rc = visit(arg, a, e);
        at += size + 1;
    }
    return rc;
}

/* ---- Writing ---------------------------------------------------------------------------- */

static int element_json(char *out, kv_dtype dtype, const void *data, int64_t i)
{
    if (kv_dtype_is_float(dtype))
        return json_float_text(out, scalar_float(dtype, data, i), scalar_width(dtype));
    if (dtype == KV_BOOL) {
        const char *word = scalar_int(dtype, data, i) ? "true" : "false";
        memcpy(out, word, strlen(word) + 1);
        return (int)strlen(word);
    }
    return json_int_text(out, scalar_int(dtype, data, i));
}

/* An array being written: its text gathers in out, which goes to f when it is large. */
typedef struct writer {
    kv_array *a;
    const void *data;
    int64_t at; /* the element that comes next */
    buf *out;
    FILE *f; /* NULL: it stays in out */
    bool failed;
} writer;

/* Text that is written at a time. */
#define WRITTEN 262144

static void pour(writer *w)
{
    w->failed |= w->out->failed;
    if (!w->f || w->failed)
        return;
    w->failed = fwrite(buf_text(w->out), 1, w->out->len, w->f) != w->out->len;
    buf_clear(w->out);
}

/* Appends the lists from `axis` on, beginning with element w->at. */
static void write_lists(writer *w, int axis)
{
    if (axis == kv_array_ndim(w->a)) {
        char *p = buf_room(w->out, NUM_TEXT_MAX);
        if (p)
            buf_grew(w->out, (size_t)element_json(p, kv_array_dtype(w->a), w->data, w->at++));
        return;
    }
    if (w->out->len >= WRITTEN || w->out->failed)
        pour(w);
    buf_char(w->out, '[');
    bool rows = axis == 0 && kv_array_storage(w->a) == KV_ROW_SPARSE;
    int64_t n = rows ? kv_array_nrows(w->a) : kv_array_shape(w->a)[axis];
    for (int64_t i = 0; i < n && !w->failed; i++) {
        if (i > 0)
            buf_char(w->out, ',');
        write_lists(w, axis + 1);
        if (i % 4096 == 0 && !w->f && stop_asked())
            w->failed = true;
        if (w->out->len >= WRITTEN || w->out->failed)
            pour(w);
    }
    buf_char(w->out, ']');
}

/* The elements that are written: of a row_sparse array those of the rows that it holds. */
static int read_elements(writer *w, kv_err *e)
{
    return kv_array_storage(w->a) == KV_ROW_SPARSE ? kv_array_read_rows(w->a, &w->data, e)
                                                   : kv_array_read(w->a, &w->data, e);
}

void json_write_storage(json_writer *to, kv_array *a)
{
    json_text(to, "stype", kv_storage_name(kv_array_storage(a)));
    if (kv_array_storage(a) == KV_ROW_SPARSE)
        json_ints(to, "row_ids", kv_array_nrows(a), kv_array_row_ids(a));
}

/* The whole of a file. */
static void write_whole(writer *w)
{
    bool sparse = kv_array_storage(w->a) == KV_ROW_SPARSE;
    bool plain = !sparse && kv_array_dtype(w->a) == KV_FLOAT32 && kv_array_size(w->a) > 0 &&
                 kv_array_ndim(w->a) > 0;
    json_writer to = {.out = w->out};
    if (!plain) {
        json_begin(&to, NULL, '{');
        json_text(&to, "dtype", kv_dtype_name(kv_array_dtype(w->a)));
        json_ints(&to, "shape", kv_array_ndim(w->a), kv_array_shape(w->a));
        if (sparse)
            json_write_storage(&to, w->a);
        json_field(&to, "data");
    }
    write_lists(w, 0);
    if (!plain)
        json_end(&to, '}');
}

/* whole: as a file has it, else only the elements. */
static int write_to_buf(buf *out, kv_array *a, bool whole, kv_err *e)
{
    writer w = {.a = a, .out = out};
    int rc = read_elements(&w, e);
    if (rc)
        return rc;
    if (whole)
        write_whole(&w);
    else
        write_lists(&w, 0);
    rc = buf_check(out, e);
    return !rc && w.failed ? stop_error(e) : rc;
}

int json_write(buf *out, kv_array *a, kv_err *e)
{
    return write_to_buf(out, a, true, e);
}

int json_write_data(buf *out, kv_array *a, kv_err *e)
{
    return write_to_buf(out, a, false, e);
}

int json_write_stream(FILE *f, kv_array *a, const char *name, kv_err *e)
{
    buf text = {0};
    writer w = {.a = a, .out = &text, .f = f};
    int rc = read_elements(&w, e);
    if (rc)
        return rc;
    errno = 0;
    write_whole(&w);
    buf_char(&text, '\n');
    pour(&w);
    if (w.failed && (rc = buf_check(&text, e)) == KV_OK)
        rc = file_error(e, "write", name, errno ? errno : EIO);
    buf_release(&text);
    return rc;
}
