/* JSON files of arrays. A value is read in one pass over the text, straight into the memory that
 * becomes the array, which grows by doubling. An object is passed over once, which finds the places
 * of its parts: they may stand in any order, and the data need the dtype.
 */
#include "io/json.h"

#include <errno.h>
#include <string.h>

#include "array/device.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/stop.h"
#include "io/json_scan.h"
#include "io/scalar.h"

/* The parts of an array's object. */
typedef enum part { PART_DTYPE, PART_SHAPE, PART_STYPE, PART_ROW_IDS, PART_DATA, NPARTS } part;
static const char *const part_names[NPARTS] = {"dtype", "shape", "stype", "row_ids", "data"};

/* Invariant: data holds n elements. shape[d] is the length that every list of depth d has, -1
 * before one has ended; elements stand only in lists of depth ndim, -1 before the first of them and
 * the first empty list. */
typedef struct reader {
    json_scan s;
    kv_err *e;
    int64_t at[NPARTS]; /* where each part begins; of an object 0: it is missing */
    buf text;           /* the newest text */
    kv_dtype dtype;
    bool default_dtype; /* float32, since no dtype was given */
    int ndim;
    int64_t shape[KV_MAX_NDIM];
    char *data; /* room for cap */
    int64_t n, cap;
} reader;

static void reader_release(reader *r)
{
    mem_free(r->data);
    buf_release(&r->text);
}

/* ---- Values ----------------------------------------------------------------------------- */

/* The value that begins with this character. */
static const char *kind(char c)
{
    return c == '[' ? "a list" : c == '{' ? "an object" : c == 'n' ? "null" : c == '"' ? "a text"
                                                                                       : "a number";
}

/* Says why text (n bytes), which begins at `at`, cannot be an element. */
static int element_error(const reader *r, int64_t at, scalar_fit fit, const char *text, size_t n)
{
    char place[JSON_PLACE];
    const char *name = r->s.path;
    int rc = scalar_error(r->e, json_scan_place(place, &r->s, at), fit, r->dtype, text, n);
    if (fit == SCALAR_ROUNDED)
        kv_err_hint(r->e, "load(\"%s\", %s)", strcmp(name, "stdin") == 0 ? "-" : name,
                    scalar_dtype_option(text, n));
    return rc;
}

/* c: the character with which it begins. */
static int read_element(reader *r, char c)
{
    json_scan *s = &r->s;
    int64_t at = s->at;
    TRY(c == '"' ? json_scan_text(s, &r->text) : json_scan_skip(s));
    const char *text = c == '"' ? buf_text(&r->text) : s->text + at;
    size_t n = c == '"' ? r->text.len : (size_t)(s->at - at);
    if (c == '{' || c == 'n')
        return json_scan_refuse(s, at, "%s is not a number", kind(c));
    if (r->n == r->cap)
        TRY(mem_grow(&r->data, &r->cap, r->n + 1, (size_t)kv_dtype_bytes(r->dtype), r->e));
    scalar_fit fit = scalar_parse(r->dtype, r->data, r->n, text, n);
    if (fit == SCALAR_FITS && r->default_dtype &&
        !scalar_keeps_integer((float *)(void *)r->data + r->n, text, n))
        fit = SCALAR_ROUNDED;
    r->n++;
    return fit == SCALAR_FITS ? KV_OK : element_error(r, at, fit, text, n);
}

/* Reads the value that is next, which stands in `depth` lists: an element, or a list that is as
 * long as those before. */
static int read_value(reader *r, int depth)
{
    json_scan *s = &r->s;
    char c = json_scan_peek(s);
    int64_t at = s->at, n = 0;
    if (c != '[' && r->ndim < 0)
        r->ndim = depth;
    if (r->ndim >= 0 && (c == '[') != (depth < r->ndim)) {
        TRY(json_scan_skip(s));
        return json_scan_refuse(s, at, "%s where the lists before have %s", kind(c),
                                c == '[' ? "a number" : "a list");
    }
    if (c != '[')
        return read_element(r, c);
    int rc = json_scan_open(s, '[');
    for (; json_scan_item(s, ']', &rc); n++)
        TRY(read_value(r, depth + 1));
    TRY(rc);
    if (r->ndim < 0)
        r->ndim = depth + 1;
    if (r->shape[depth] < 0)
        r->shape[depth] = n;
    if (n == r->shape[depth])
        return KV_OK;
    return json_scan_refuse(s, at, "lists of unequal length: %lld here, %lld before", (long long)n,
                            (long long)r->shape[depth]);
}

/* ---- Objects ---------------------------------------------------------------------------- */

static int find_parts(reader *r)
{
    json_scan *s = &r->s;
    int rc = json_scan_open(s, '{');
    while (json_scan_item(s, '}', &rc)) {
        int i = 0;
        TRY(json_scan_name(s, &r->text));
        bool list = json_scan_peek(s) == '[';
        while (i < NPARTS && strcmp(buf_text(&r->text), part_names[i]) != 0)
            i++;
        if (i == NPARTS)
            return json_scan_refuse(s, s->at,
                                    "\"%.40s\" is not a part of an array; those are dtype, shape, "
                                    "stype, row_ids, data",
                                    buf_text(&r->text));
        if (r->at[i])
            return json_scan_refuse(s, s->at, "\"%.40s\" stands here twice", part_names[i]);
        r->at[i] = s->at;
        s->depth -= list; /* as many lists as an array has axes, and the bracket of the object */
        rc = json_scan_skip(s);
        s->depth += list;
    }
    return rc ? rc : json_scan_end(s);
}

/* Goes back to a part that is there. Returns its first character. */
static char begin_part(reader *r, part i)
{
    r->s.at = r->at[i];
    r->s.depth = 0;
    return json_scan_peek(&r->s);
}

static int read_dtype(reader *r, bool has_dtype)
{
    kv_dtype dtype;
    if (!r->at[PART_DTYPE])
        return KV_OK;
    char c = begin_part(r, PART_DTYPE);
    TRY(c == '"' ? json_scan_text(&r->s, &r->text) : KV_OK);
    if (c != '"')
        return json_scan_refuse(&r->s, r->at[PART_DTYPE], "there is no dtype %s", kind(c));
    if (kv_dtype_parse(&dtype, buf_text(&r->text), NULL))
        return json_scan_refuse(&r->s, r->at[PART_DTYPE], "there is no dtype \"%.40s\"",
                                buf_text(&r->text));
    if (!has_dtype)
        r->dtype = dtype;
    r->default_dtype = false;
    return KV_OK;
}

static int read_stype(reader *r, bool *sparse)
{
    *sparse = false;
    if (r->at[PART_STYPE]) {
        bool is_text = begin_part(r, PART_STYPE) == '"';
        TRY(is_text ? json_scan_text(&r->s, &r->text) : KV_OK);
        *sparse = is_text && strcmp(buf_text(&r->text), "row_sparse") == 0;
        if (!*sparse && !(is_text && strcmp(buf_text(&r->text), "default") == 0))
            return json_scan_refuse(&r->s, r->at[PART_STYPE],
                                    "\"stype\" is \"default\" or \"row_sparse\"");
    }
    if (r->at[PART_ROW_IDS] && !*sparse)
        return json_scan_refuse(&r->s, r->at[PART_ROW_IDS],
                                "\"row_ids\" belong to \"stype\":\"row_sparse\"");
    return KV_OK;
}

/* Reads a part that is a list of whole numbers from 0 on: sizes, or ids. */
static int read_counts(reader *r, part i, int64_t **out, int64_t *n)
{
    json_scan *s = &r->s;
    int64_t cap = 0, most = i == PART_SHAPE ? KV_MAX_NDIM : INT64_MAX;
    bool right = begin_part(r, i) == '[';
    int rc = right ? json_scan_open(s, '[') : KV_OK;
    TRY(mem_grow(out, &cap, 1, sizeof **out, r->e));
    for (*n = 0; right && json_scan_item(s, ']', &rc); ++*n) {
        char c = json_scan_peek(s);
        int64_t at = s->at;
        TRY(json_scan_skip(s));
        TRY(mem_grow(out, &cap, *n + 1, sizeof **out, r->e));
        right = *n < most && c >= '0' && c <= '9' &&
                scalar_parse(KV_INT64, *out, *n, s->text + at, (size_t)(s->at - at)) == SCALAR_FITS;
    }
    if (rc || right)
        return rc;
    return i == PART_SHAPE
               ? json_scan_refuse(s, r->at[i], "\"shape\" is a list of up to %d sizes", KV_MAX_NDIM)
               : json_scan_refuse(s, r->at[i], "\"row_ids\" is a list of whole numbers from 0 on");
}

/* Compares the shape that the object says with the one that its data have, and takes it. Lists
 * below an axis of size 0 cannot be written, so the data end there. nrows: of a row_sparse array
 * how many rows the data are; *first is how many the array has. Else -1. */
static int read_shape(reader *r, int64_t nrows, int64_t *first)
{
    own_mem int64_t *shape = NULL;
    int64_t ndim;
    char said[160], found[160];
    if (!r->at[PART_SHAPE])
        return KV_OK;
    TRY(read_counts(r, PART_SHAPE, &shape, &ndim));
    *first = ndim > 0 ? shape[0] : 0;
    if (nrows >= 0 && ndim > 0)
        shape[0] = nrows;
    int64_t same = 0, ends = 0;
    while (ends < ndim && shape[ends] != 0)
        ends++;
    int64_t axes = ends < ndim ? ends + 1 : ndim; /* the axes that the data show */
    while (same < axes && same < r->ndim && shape[same] == r->shape[same])
        same++;
    kv_shape_text(found, sizeof found, r->ndim, r->shape);
    kv_shape_text(said, sizeof said, (int)ndim, shape);
    if (same != axes || r->ndim != axes)
        return json_scan_refuse(&r->s, r->at[PART_DATA],
                                nrows >= 0 ? "data of shape %s are not the rows of \"row_ids\", "
                                             "which have %s"
                                           : "data of shape %s do not fit \"shape\" %s",
                                found, said);
    memcpy(r->shape, shape, (size_t)ndim * sizeof *shape);
    r->ndim = (int)ndim;
    return KV_OK;
}

/* ---- Reading ---------------------------------------------------------------------------- */

static int make_array(kv_array **out, reader *r)
{
    if (r->n == 0)
        return kv_array_new(out, r->dtype, r->ndim, r->shape, (kv_ctx){0}, r->e);
    mem_shrink(&r->data, &r->cap, r->n, (size_t)kv_dtype_bytes(r->dtype));
    TRY(kv_array_wrap(out, r->data, r->dtype, r->ndim, r->shape, (kv_ctx){0}, mem_free, r->data,
                      r->e));
    r->data = NULL;
    return KV_OK;
}

/* The rows that were read become an array; whether their ids are some is found out here. */
static int make_sparse(kv_array **out, reader *r, int64_t rows, const int64_t *ids, int64_t n)
{
    int64_t shape[KV_MAX_NDIM];
    kv_err why = {0};
    void *to;
    own_array *a = NULL;
    memcpy(shape, r->shape, sizeof shape);
    shape[0] = rows;
    int rc = kv_array_new_sparse(&a, r->dtype, r->ndim, shape, n, ids, (kv_ctx){0}, &why);
    if (rc == KV_E_INDEX || rc == KV_E_VALUE || rc == KV_E_SHAPE)
        return json_scan_refuse(&r->s, r->at[PART_ROW_IDS], "%s", why.text);
    TRY(rc ? kv_err_set(r->e, (kv_code)rc, "%s", why.text) : KV_OK);
    TRY(kv_array_write_rows(a, &to, r->e));
    if (r->n > 0)
        memcpy(to, r->data, (size_t)(r->n * kv_dtype_bytes(r->dtype)));
    return array_hand_out(out, &a);
}

/* Reads the value that is next and becomes data. */
static int read_data(reader *r)
{
    for (int i = 0; i < KV_MAX_NDIM; i++)
        r->shape[i] = -1;
    r->ndim = -1;
    return read_value(r, 0);
}

static int read_object(kv_array **out, reader *r, bool has_dtype)
{
    own_mem int64_t *ids = NULL;
    int64_t begin = r->s.at, nrows = -1, rows = 0;
    bool sparse;
    TRY(find_parts(r));
    if (!r->at[PART_DATA])
        return json_scan_refuse(&r->s, begin, "the object has no \"data\"");
    TRY(read_stype(r, &sparse));
    if (sparse && (!r->at[PART_ROW_IDS] || !r->at[PART_SHAPE]))
        return json_scan_refuse(&r->s, begin,
                                "a row_sparse array has \"shape\" and \"row_ids\"");
    TRY(sparse ? read_counts(r, PART_ROW_IDS, &ids, &nrows) : KV_OK);
    TRY(read_dtype(r, has_dtype));
    begin_part(r, PART_DATA);
    TRY(read_data(r));
    TRY(read_shape(r, nrows, &rows));
    return sparse ? make_sparse(out, r, rows, ids, nrows) : make_array(out, r);
}

/* Reads a text that begins at a line of its file. */
static int read_text(kv_array **out, const char *text, size_t n, const char *name, int line,
                     bool has_dtype, kv_dtype dtype, kv_err *e)
{
    OWN(reader_release) reader r = {
        .s = {.path = name, .text = text, .n = (int64_t)n, .line = line, .max_depth = KV_MAX_NDIM,
              .e = e},
        .e = e,
        .dtype = has_dtype ? dtype : KV_FLOAT32,
        .default_dtype = !has_dtype};
    const char *nul = n ? memchr(text, '\0', n) : NULL;
    if (nul)
        return json_scan_refuse(&r.s, nul - text, "a NUL byte");
    if (n == 0)
        return kv_err_set(e, KV_E_FORMAT, "%s: the file is empty", name);
    if (json_scan_peek(&r.s) == '{')
        return read_object(out, &r, has_dtype);
    TRY(read_data(&r));
    TRY(json_scan_end(&r.s));
    return make_array(out, &r);
}

static size_t bom_bytes(const char *text, size_t n)
{
    return n >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
}

int json_read(kv_array **out, const char *text, size_t n, const char *name, bool has_dtype,
              kv_dtype dtype, kv_err *e)
{
    size_t bom = bom_bytes(text, n);
    return read_text(out, text + bom, n - bom, name, 1, has_dtype, dtype, e);
}

int json_read_lines(const char *text, size_t n, const char *name, bool has_dtype, kv_dtype dtype,
                    int (*visit)(void *arg, kv_array *a, kv_err *e), void *arg, kv_err *e)
{
    size_t at = bom_bytes(text, n);
    for (int line = 1; at < n; line++) {
        const char *end = memchr(text + at, '\n', n - at);
        size_t size = end ? (size_t)(end - text) - at : n - at;
        size_t blanks = 0;
        kv_array *a;
        while (blanks < size && memchr(" \t\r", text[at + blanks], 3))
            blanks++;
        if (blanks < size) {
            TRY(read_text(&a, text + at, size, name, line, has_dtype, dtype, e));
            TRY(visit(arg, a, e));
        }
        at += size + 1;
    }
    return KV_OK;
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
    TRY(read_elements(&w, e));
    if (whole)
        write_whole(&w);
    else
        write_lists(&w, 0);
    int rc = buf_check(out, e);
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
    TRY(read_elements(&w, e));
    errno = 0;
    write_whole(&w);
    buf_char(&text, '\n');
    pour(&w);
    int rc = KV_OK;
    if (w.failed && (rc = buf_check(&text, e)) == KV_OK)
        rc = file_error(e, "write", name, errno ? errno : EIO);
    buf_release(&text);
    return rc;
}
