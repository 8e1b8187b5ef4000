/* JSON files of arrays. All but plain lists of numbers goes through cJSON, which
 * reads the text into a tree; a walk over the tree finds the shape, a second one fills the array.
 * The tree has no places, so an error counts the values before the one that is wrong and finds it
 * again in the text.
 *
 * cJSON allocates through its own hooks, which belong to the whole process and are left alone, so
 * the memory of the tree does not come from base/mem.h.
 */
#include "io/json.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "array/device.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/stop.h"
#include "base/utf8.h"
#include "io/scalar.h"

/* ---- Lists of numbers ------------------------------------------------------------------------ */

/* One pass. Nothing is explained here: what is not a list of numbers is read again below, where all
 * of JSON is known and errors are explained; so this pass stops at the first byte that it does not
 * expect.
 *
 * Invariant: `depth` lists are open; number d (from 0) has count[d] items so far. shape[d]
 * is the length that every list of depth d has, -1 before one has ended; numbers stand only in
 * lists of depth ndim, -1 before the first.
 */

typedef struct lists {
    const char *p, *end;
    int depth, ndim;
    int64_t count[KV_MAX_NDIM], shape[KV_MAX_NDIM];
    kv_dtype dtype;
    bool keep;  /* whole numbers */
    char *data; /* n elements of dtype; room for cap */
    int64_t n, cap;
} lists;

static void skip_blanks(lists *l)
{
    while (l->p < l->end && (*l->p == ' ' || *l->p == '\t' || *l->p == '\n' || *l->p == '\r'))
        l->p++;
}

/* Moves past c if it is next. */
static bool accept(lists *l, char c)
{
    bool is_next = l->p < l->end && *l->p == c;
    l->p += is_next;
    return is_next;
}

static bool is_digit(const char *p, const char *end)
{
    return p < end && *p >= '0' && *p <= '9';
}

/* Moves *p past digits; false when there is none. */
static bool skip_digits(const char **p, const char *end)
{
    bool any = is_digit(*p, end);
    while (is_digit(*p, end))
        ++*p;
    return any;
}

size_t json_number_length(const char *text, size_t n)
{
    const char *p = text, *end = text + n;
    p += p < end && *p == '-';
    bool zero = p < end && *p == '0';
    if (!skip_digits(&p, end) || (zero && is_digit(text + (*text == '-') + 1, end)))
        return 0;
    if (p < end && *p == '.' && (p++, !skip_digits(&p, end)))
        return 0;
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        p += p < end && (*p == '-' || *p == '+');
        if (!skip_digits(&p, end))
            return 0;
    }
    return p < end && strchr("+-.eE", *p) ? 0 : (size_t)(p - text);
}

/* The number that is next becomes an element. */
static bool number(lists *l)
{
    const char *text = l->p;
    size_t n = json_number_length(text, (size_t)(l->end - text));
    if (n == 0 || (l->n == l->cap &&
                   mem_grow(&l->data, &l->cap, l->n + 1, (size_t)kv_dtype_bytes(l->dtype), NULL)))
        return false;
    l->p += n;
    int64_t at = l->n++;
    return scalar_parse(l->dtype, l->data, at, text, n) == SCALAR_FITS &&
           (!l->keep || scalar_keeps_integer((float *)l->data + at, text, n));
}

/* The item that is next, a number or the begin of a list. */
static bool item(lists *l)
{
    bool is_list = accept(l, '[');
    if (l->depth > 0)
        l->count[l->depth - 1]++;
    if (is_list) {
        if (l->depth == KV_MAX_NDIM || l->depth == l->ndim)
            return false;
        l->count[l->depth++] = 0;
        return true;
    }
    if (l->ndim < 0)
        l->ndim = l->depth;
    return l->depth == l->ndim && l->depth > 0 && number(l);
}

/* All of the text. Between items stands a comma, behind the last one of a list its end. */
static bool read_lists(lists *l)
{
    do {
        skip_blanks(l);
        int depth = l->depth;
        if (!item(l))
            return false;
        if (l->depth > depth)
            continue; /* the first item of a list needs no comma */
        skip_blanks(l);
        while (accept(l, ']')) {
            int64_t *shape = &l->shape[--l->depth], count = l->count[l->depth];
            if (*shape < 0)
                *shape = count;
            if (*shape != count)
                return false;
            skip_blanks(l);
            if (l->depth == 0)
                return l->p == l->end;
        }
        if (!accept(l, ','))
            return false;
    } while (l->p < l->end);
    return false;
}

/* Reads text (n bytes) as an array if it is nested lists of equal length, at least one element, and
 * every number fits; keep: also keeps whole numbers, as scalar_keeps_integer says (dtype is float32
 * then). Out: true and *out, or false: it is something else, a mistake is in it, or there is no
 * memory. The array is the one that the tree of cJSON gives. Large
 * files are such lists, and are read in one pass into the memory of the array. */
static bool json_numbers(kv_array **out, const char *text, size_t n, kv_dtype dtype, bool keep)
{
    bool bom = n >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0;
    lists l = {
        .p = text + (bom ? 3 : 0), .end = text + n, .ndim = -1, .dtype = dtype, .keep = keep};
    for (int i = 0; i < KV_MAX_NDIM; i++)
        l.shape[i] = -1;
    if (read_lists(&l)) {
        mem_shrink(&l.data, &l.cap, l.n, (size_t)kv_dtype_bytes(dtype));
        if (kv_array_wrap(out, l.data, dtype, l.ndim, l.shape, (kv_ctx){0}, mem_free, l.data,
                          NULL) == KV_OK)
            return true;
    }
    mem_free(l.data);
    return false;
}

/* ---- Places ----------------------------------------------------------------------------- */

typedef struct source {
    const char *name, *text;
    size_t n;
    int line; /* of the text's begin */
    kv_err *e;
} source;

#define PLACE_TEXT 512

/* "x.json:3:17" for the byte at `at`. */
static const char *place(char out[PLACE_TEXT], const source *s, size_t at)
{
    int64_t line = s->line;
    size_t start = s->n >= 3 && memcmp(s->text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    for (size_t i = start; i < at; i++) {
        if (s->text[i] == '\n') {
            line++;
            start = i + 1;
        }
    }
    int64_t col = at > start ? utf8_count(s->text + start, at - start) + 1 : 1;
    snprintf(out, PLACE_TEXT, "%s:%lld:%lld", s->name, (long long)line, (long long)col);
    return out;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* The end of a number or a word that begins at `at`. */
static size_t token_end(const source *s, size_t at)
{
    while (at < s->n && !is_blank(s->text[at]) && s->text[at] != ',' && s->text[at] != ']' &&
           s->text[at] != '}')
        at++;
    return at;
}

/* Moves *at from the quote that begins a string to the one that ends it; false without one. */
static bool skip_string(const source *s, size_t *at)
{
    for (size_t i = *at + 1; i < s->n; i++) {
        if (s->text[i] == '"') {
            *at = i;
            return true;
        }
        i += s->text[i] == '\\';
    }
    return false;
}

/* The begin of value number `count`, from place `at` on, in a text that cJSON has read: every list,
 * object, number, text and word counts, in the order of the text, from 0. */
static size_t find_value_from(const source *s, size_t at, int64_t count)
{
    while (at < s->n) {
        char c = s->text[at];
        size_t begin = at;
        bool is_value = true;
        if (c == '"') {
            skip_string(s, &at);
            size_t next = ++at;
            while (next < s->n && is_blank(s->text[next]))
                next++;
            is_value = !(next < s->n && s->text[next] == ':');
        } else if (c == '[' || c == '{') {
            at++;
        } else if (c == '-' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z')) {
            at = token_end(s, at);
        } else {
            is_value = false;
            at++;
        }
        if (is_value && count-- == 0)
            return begin;
    }
    return s->n;
}

static size_t find_value(const source *s, int64_t count)
{
    return find_value_from(s, 0, count);
}

/* Refuses the text for its byte `at`. Returns format. */
__attribute__((format(printf, 3, 4))) static int refuse(const source *s, size_t at, const char *fmt,
                                                        ...)
{
    char where[PLACE_TEXT];
    kv_err why = {0};
    va_list ap;
    va_start(ap, fmt);
    kv_err_vset(&why, KV_E_FORMAT, fmt, ap);
    va_end(ap);
    return kv_err_set(s->e, KV_E_FORMAT, "%s: %s", place(where, s, at), why.text);
}

/* ---- The shape -------------------------------------------------------------------------- */

/* A walk over the tree. `seen` is the number of the newest value visited, for find_value. */
typedef struct walk {
    const source *s;
    int64_t seen;
    kv_dtype dtype;
    bool default_dtype; /* float32, since no dtype was given */
    int ndim;
    int64_t shape[KV_MAX_NDIM];
    char *data;
    int64_t n;     /* elements so far */
    int64_t found; /* a value that was looked for, and its place: the next one lies behind it */
    size_t found_at;
} walk;

static const char *kind(const cJSON *v)
{
    return cJSON_IsArray(v)    ? "a list"
           : cJSON_IsObject(v) ? "an object"
           : cJSON_IsNull(v)   ? "null"
           : cJSON_IsString(v) ? "a text"
                               : "a number";
}

static int64_t list_size(const cJSON *list)
{
    int64_t n = 0;
    for (const cJSON *v = list->child; v; v = v->next)
        n++;
    return n;
}

/* The shape that the first item of each list gives. `before`: values in front of data. */
static int find_shape(walk *w, const cJSON *data, int64_t before)
{
    w->ndim = 0;
    for (; cJSON_IsArray(data); data = data->child, before++) {
        if (w->ndim == KV_MAX_NDIM)
            return refuse(w->s, find_value(w->s, before), "lists are nested deeper than %d",
                          KV_MAX_NDIM);
        w->shape[w->ndim++] = list_size(data);
        if (!data->child)
            break;
    }
    return KV_OK;
}

/* ---- The elements ----------------------------------------------------------------------- */

/* The text of the newest value, a number or a word. */
static const char *value_text(walk *w, size_t *n)
{
    const source *s = w->s;
    w->found_at = find_value_from(s, w->found_at, w->seen - w->found);
    w->found = w->seen;
    *n = token_end(s, w->found_at) - w->found_at;
    return s->text + w->found_at;
}

/* The same of the newest value v, which may be a text. */
static const char *element_text(walk *w, const cJSON *v, size_t *n)
{
    if (!cJSON_IsString(v))
        return value_text(w, n);
    *n = strlen(v->valuestring);
    return v->valuestring;
}

/* Says why the newest value cannot be an element. */
static int value_error(walk *w, const cJSON *v, scalar_fit fit)
{
    char text[PLACE_TEXT];
    size_t at = find_value(w->s, w->seen);
    place(text, w->s, at);
    if (!cJSON_IsString(v) && fit == SCALAR_NO_NUMBER)
        return kv_err_set(w->s->e, KV_E_FORMAT, "%s: %s is not a number", text, kind(v));
    size_t n;
    const char *value = element_text(w, v, &n);
    int rc = scalar_error(w->s->e, text, fit, w->dtype, value, n);
    if (fit == SCALAR_ROUNDED)
        kv_err_hint(w->s->e, "load(\"%s\", %s)",
                    strcmp(w->s->name, "stdin") == 0 ? "-" : w->s->name,
                    scalar_dtype_option(value, n));
    return rc;
}

static scalar_fit fill_element(walk *w, const cJSON *v)
{
    if (cJSON_IsBool(v))
        return scalar_set(w->dtype, w->data, w->n, cJSON_IsTrue(v));
    if (!cJSON_IsNumber(v) && !cJSON_IsString(v))
        return SCALAR_NO_NUMBER;
    size_t n; /* from the text: cJSON has rounded it to a double */
    const char *text = element_text(w, v, &n);
    scalar_fit fit = scalar_parse(w->dtype, w->data, w->n, text, n);
    bool kept = fit != SCALAR_FITS || !w->default_dtype ||
                scalar_keeps_integer((float *)w->data + w->n, text, n);
    return kept ? fit : SCALAR_ROUNDED;
}

static int unequal(walk *w, const cJSON *list, int64_t at, int axis)
{
    return refuse(w->s, find_value(w->s, at), "lists of unequal length: %lld here, %lld before",
                  (long long)list_size(list), (long long)w->shape[axis]);
}

/* Fills the elements of data, which must be lists of shape[axis], shape[axis + 1], …. */
static int fill(walk *w, const cJSON *data, int axis)
{
    int64_t here = ++w->seen, n = 0;
    bool is_list = cJSON_IsArray(data);
    if (is_list != (axis < w->ndim))
        return refuse(w->s, find_value(w->s, here), "%s here, %s before", kind(data),
                      is_list ? "a number" : "a list");
    if (!is_list) {
        scalar_fit fit = fill_element(w, data);
        w->n++;
        return fit == SCALAR_FITS ? KV_OK : value_error(w, data, fit);
    }
    for (const cJSON *v = data->child; v; v = v->next) {
        if (n++ == w->shape[axis])
            return unequal(w, data, here, axis);
        TRY(fill(w, v, axis + 1));
    }
    return n == w->shape[axis] ? KV_OK : unequal(w, data, here, axis);
}

/* ---- Objects ---------------------------------------------------------------------------- */

/* The parts of an array's object, and how many values stand before each. */
typedef struct parts {
    const cJSON *dtype, *shape, *stype, *row_ids, *data;
    int64_t dtype_at, shape_at, stype_at, row_ids_at, data_at;
} parts;

static int64_t count_values(const cJSON *v)
{
    int64_t n = 1;
    for (const cJSON *child = v->child; child; child = child->next)
        n += count_values(child);
    return n;
}

enum { NPARTS = 5 };

static int find_parts(parts *p, const source *s, const cJSON *object)
{
    const struct {
        const char *name;
        const cJSON **value;
        int64_t *at;
    } members[] = {{"dtype", &p->dtype, &p->dtype_at},
                   {"shape", &p->shape, &p->shape_at},
                   {"stype", &p->stype, &p->stype_at},
                   {"row_ids", &p->row_ids, &p->row_ids_at},
                   {"data", &p->data, &p->data_at}};
    int64_t at = 1;
    *p = (parts){0};
    for (const cJSON *v = object->child; v; v = v->next) {
        size_t i = 0;
        while (i < NPARTS && strcmp(v->string, members[i].name) != 0)
            i++;
        if (i < NPARTS && *members[i].value)
            return refuse(s, find_value(s, at), "\"%.40s\" stands here twice", v->string);
        if (i == NPARTS)
            return refuse(s, find_value(s, at),
                          "\"%.40s\" is not a part of an array; those are dtype, shape, "
                          "stype, row_ids, data",
                          v->string);
        *members[i].value = v;
        *members[i].at = at;
        at += count_values(v);
    }
    if (!p->data)
        return refuse(s, find_value(s, 0), "the object has no \"data\"");
    return KV_OK;
}

static int read_dtype(walk *w, const parts *p, bool has_dtype)
{
    kv_dtype dtype;
    if (!p->dtype)
        return KV_OK;
    if (!cJSON_IsString(p->dtype) || kv_dtype_parse(&dtype, p->dtype->valuestring, NULL))
        return refuse(w->s, find_value(w->s, p->dtype_at), "there is no dtype %s%.40s%s",
                      cJSON_IsString(p->dtype) ? "\"" : "",
                      cJSON_IsString(p->dtype) ? p->dtype->valuestring : kind(p->dtype),
                      cJSON_IsString(p->dtype) ? "\"" : "");
    if (!has_dtype)
        w->dtype = dtype;
    w->default_dtype = false;
    return KV_OK;
}

/* Compares the shape that the object says with the one that its data have, and takes it. Lists
 * below an axis of size 0 cannot be written, so the data end there. nrows: of a row_sparse array
 * how many rows the data are; *first is how many the array has. Else -1. */
static int read_shape(walk *w, const parts *p, int64_t nrows, int64_t *first)
{
    int64_t shape[KV_MAX_NDIM] = {0};
    int ndim = 0;
    char said[160], found[160];
    for (const cJSON *v = p->shape ? p->shape->child : NULL; v; v = v->next) {
        double x = cJSON_IsNumber(v) ? v->valuedouble : -1;
        if (!cJSON_IsArray(p->shape) || ndim == KV_MAX_NDIM || x != floor(x) || x < 0 ||
            x > 0x1p53) {
            ndim = -1;
            break;
        }
        shape[ndim++] = (int64_t)x;
    }
    if (!p->shape)
        return KV_OK;
    if (!cJSON_IsArray(p->shape) || ndim < 0)
        return refuse(w->s, find_value(w->s, p->shape_at), "\"shape\" is a list of up to %d sizes",
                      KV_MAX_NDIM);
    *first = shape[0];
    if (nrows >= 0 && ndim > 0)
        shape[0] = nrows;
    int same = 0, ends = 0;
    while (ends < ndim && shape[ends] != 0)
        ends++;
    int axes = ends < ndim ? ends + 1 : ndim; /* the axes that the data show */
    while (same < axes && same < w->ndim && shape[same] == w->shape[same])
        same++;
    bool fits = same == axes && w->ndim == axes;
    if (!fits && nrows >= 0)
        return refuse(w->s, find_value(w->s, p->data_at),
                      "data of shape %s are not the rows of \"row_ids\", which have %s",
                      kv_shape_text(found, sizeof found, w->ndim, w->shape),
                      kv_shape_text(said, sizeof said, ndim, shape));
    if (!fits)
        return refuse(w->s, find_value(w->s, p->data_at),
                      "data of shape %s do not fit \"shape\" %s",
                      kv_shape_text(found, sizeof found, w->ndim, w->shape),
                      kv_shape_text(said, sizeof said, ndim, shape));
    memcpy(w->shape, shape, sizeof *shape * (size_t)ndim);
    w->ndim = ndim;
    return KV_OK;
}

/* ---- Reading ---------------------------------------------------------------------------- */

/* Looks at the brackets in front of `at`: where the first one too many opens, or s->n. *open: how
 * many are open at the end of the text. A text that is not closed begins at *quote, else s->n. */
static size_t too_deep(const source *s, size_t at, int64_t *open, size_t *quote)
{
    size_t deep = s->n;
    *open = 0;
    *quote = s->n;
    for (size_t i = 0; i < s->n; i++) {
        char c = s->text[i];
        *open += (c == '[' || c == '{') - (c == ']' || c == '}');
        if (*open > KV_MAX_NDIM && i <= at && deep == s->n)
            deep = i;
        if (c == '"' && !skip_string(s, &i)) {
            *quote = i;
            break;
        }
    }
    return deep;
}

static int refuse_control(const source *s, size_t at)
{
    return refuse(s, at, "the byte \\x%02x cannot stand here", (unsigned char)s->text[at]);
}

/* Says where and why cJSON could not read the text; it stopped at `at`, or at the last byte when it
 * missed something behind it. */
static int parse_error(const source *s, size_t at)
{
    int64_t open;
    size_t quote, deep = too_deep(s, at, &open, &quote);
    if (deep < s->n)
        return refuse(s, deep, "lists are nested deeper than %d", KV_MAX_NDIM);
    if (quote <= at)
        return refuse(s, quote, "a quote is not closed");
    while (at < s->n && is_blank(s->text[at]))
        at++;
    if (at >= s->n || (at == s->n - 1 && open > 0))
        return refuse(s, s->n, "the text ends too early");
    if ((unsigned char)s->text[at] < ' ')
        return refuse_control(s, at);
    bool ok;
    int size = (int)utf8_length(s->text + at, s->n - at, &ok);
    if (!ok)
        return refuse(s, at, "the byte \\x%02x is not UTF-8", (unsigned)(unsigned char)s->text[at]);
    return refuse(s, at, "\"%.*s\" cannot stand here", size, s->text + at);
}

/* Refuses what cJSON reads and RFC 8259 does not know: numbers such as 012, 1. and -.5, and control
 * characters for blanks. */
static int check_grammar(const source *s)
{
    for (size_t i = 0; i < s->n; i++) {
        unsigned char c = (unsigned char)s->text[i];
        if (c < ' ' && !is_blank((char)c))
            return refuse_control(s, i);
        if (c == '"')
            skip_string(s, &i);
        if (c != '-' && (c < '0' || c > '9'))
            continue;
        size_t n = json_number_length(s->text + i, s->n - i), end = token_end(s, i);
        if (n == 0)
            return refuse(s, i, "%.*s is not a number of JSON", end - i < 40 ? (int)(end - i) : 40,
                          s->text + i);
        i += n - 1;
    }
    return KV_OK;
}

static int read_stype(const source *s, const parts *p, bool *sparse)
{
    const char *name = cJSON_IsString(p->stype) ? p->stype->valuestring : "";
    *sparse = p->stype && strcmp(name, "row_sparse") == 0;
    if (p->stype && !*sparse && strcmp(name, "default") != 0)
        return refuse(s, find_value(s, p->stype_at), "\"stype\" is \"default\" or \"row_sparse\"");
    if (p->row_ids && !*sparse)
        return refuse(s, find_value(s, p->row_ids_at),
                      "\"row_ids\" belong to \"stype\":\"row_sparse\"");
    if (*sparse && (!p->row_ids || !p->shape))
        return refuse(s, find_value(s, 0), "a row_sparse array has \"shape\" and \"row_ids\"");
    return KV_OK;
}

/* Whole numbers; whether they are ids of the array is looked at when it is made. */
static int read_ids(const source *s, const parts *p, int64_t **ids, int64_t *n)
{
    *n = cJSON_IsArray(p->row_ids) ? list_size(p->row_ids) : 0;
    *ids = mem_alloc(*n, sizeof **ids, s->e);
    if (!*ids)
        return KV_E_MEMORY;
    int64_t i = 0;
    bool ok = cJSON_IsArray(p->row_ids);
    for (const cJSON *v = p->row_ids->child; v && ok; v = v->next) {
        double x = cJSON_IsNumber(v) ? v->valuedouble : -1;
        ok = x == floor(x) && x >= 0 && x <= 0x1p53;
        (*ids)[i++] = ok ? (int64_t)x : 0;
    }
    if (ok)
        return KV_OK;
    return refuse(s, find_value(s, p->row_ids_at),
                  "\"row_ids\" is a list of whole numbers from 0 on");
}

static int new_sparse(kv_array **out, const walk *w, const parts *p, int64_t rows,
                      const int64_t *ids, int64_t n)
{
    int64_t shape[KV_MAX_NDIM];
    kv_err why = {0};
    memcpy(shape, w->shape, sizeof shape);
    shape[0] = rows;
    int rc = kv_array_new_sparse(out, w->dtype, w->ndim, shape, n, ids, (kv_ctx){0}, &why);
    if (rc == KV_E_INDEX || rc == KV_E_VALUE || rc == KV_E_SHAPE)
        return refuse(w->s, find_value(w->s, p->row_ids_at), "%s", why.text);
    return rc ? kv_err_set(w->s->e, (kv_code)rc, "%s", why.text) : KV_OK;
}

/* Makes the array from the tree. */
static int read_tree(kv_array **out, const source *s, const cJSON *tree, bool has_dtype,
                     kv_dtype dtype)
{
    walk w = {.s = s, .dtype = has_dtype ? dtype : KV_FLOAT32, .default_dtype = !has_dtype};
    parts p = {.data = tree};
    bool sparse = false;
    own_mem int64_t *ids = NULL;
    int64_t first = 0, nrows = -1;
    TRY(cJSON_IsObject(tree) ? find_parts(&p, s, tree) : KV_OK);
    TRY(read_stype(s, &p, &sparse));
    TRY(sparse ? read_ids(s, &p, &ids, &nrows) : KV_OK);
    TRY(read_dtype(&w, &p, has_dtype));
    TRY(find_shape(&w, p.data, p.data_at));
    int axes = w.ndim;
    TRY(read_shape(&w, &p, nrows, &first));
    own_array *a = NULL;
    void *data;
    TRY(sparse ? new_sparse(&a, &w, &p, first, ids, nrows)
               : kv_array_new_raw(&a, w.dtype, w.ndim, w.shape, (kv_ctx){0}, s->e));
    TRY(sparse ? kv_array_write_rows(a, &data, s->e) : kv_array_write(a, &data, s->e));
    w.data = data;
    w.seen = p.data_at - 1;
    w.ndim = axes;
    TRY(fill(&w, p.data, 0));
    return array_hand_out(out, &a);
}

/* The escape \u0000, behind which cJSON loses the rest of a text; NULL when there is none. */
static const char *find_nul_escape(const char *text, size_t n)
{
    static const char escape[] = "\\u0000";
    const char *at = text, *end = text + n;
    while ((at = memmem(at, (size_t)(end - at), escape, sizeof escape - 1))) {
        const char *begin = at;
        while (begin > text && begin[-1] == '\\')
            begin--;
        if ((at - begin) % 2 == 0)
            return at;
        at++;
    }
    return NULL;
}

/* Reads text that begins at a line of its file. */
static int read_line(kv_array **out, const char *text, size_t n, const char *name, int line,
                     bool has_dtype, kv_dtype dtype, kv_err *e)
{
    source s = {name, text, n, line, e};
    /* cJSON takes every control character for a blank. */
    const char *nul = n ? memchr(text, '\0', n) : NULL;
    if (nul)
        return refuse(&s, (size_t)(nul - text), "a NUL byte");
    if (json_numbers(out, text, n, has_dtype ? dtype : KV_FLOAT32, !has_dtype))
        return KV_OK;
    if ((nul = find_nul_escape(text, n)))
        return refuse(&s, (size_t)(nul - text), "a text with a NUL");
    const char *end = text;
    /* cJSON does not say whether it ran out of memory; malloc does. */
    errno = 0;
    cJSON *tree = cJSON_ParseWithLengthOpts(text, n, &end, false);
    if (!tree && errno == ENOMEM)
        return kv_err_set(e, KV_E_MEMORY, "%s: out of memory", name);
    size_t at = end ? (size_t)(end - text) : 0;
    int rc = KV_OK;
    if (tree) {
        while (at < n && is_blank(text[at]))
            at++;
        rc = at < n ? parse_error(&s, at) : check_grammar(&s);
    } else {
        rc = n == 0 ? kv_err_set(e, KV_E_FORMAT, "%s: the file is empty", name)
                    : parse_error(&s, at);
    }
    if (!rc)
        rc = read_tree(out, &s, tree, has_dtype, dtype);
    cJSON_Delete(tree);
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
    size_t at = n >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    for (int line = 1; at < n && !rc; line++) {
        const char *end = memchr(text + at, '\n', n - at);
        size_t size = end ? (size_t)(end - text) - at : n - at, i = 0;
        kv_array *a;
        while (i < size && is_blank(text[at + i]))
            i++;
        if (i < size &&
            !(rc = read_line(&a, text + at, size, name, line, has_dtype, dtype, e)))
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
    own_buf text = {0};
    writer w = {.a = a, .out = &text, .f = f};
    TRY(read_elements(&w, e));
    errno = 0;
    write_whole(&w);
    buf_char(&text, '\n');
    pour(&w);
    if (!w.failed)
        return KV_OK;
    TRY(buf_check(&text, e));
    return file_error(e, "write", name, errno ? errno : EIO);
}
