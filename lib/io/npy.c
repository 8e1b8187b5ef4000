/* Files of one array, and the header that members of npz archives have too. */
#include "io/npy.h"

#include <string.h>

#include "array/arrange.h"
#include "array/device.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "base/num.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "data go between files and memory as they are, and files are little-endian");

int npy_write(FILE *f, const char *name, kv_array *a, kv_err *e)
{
    own_buf header = {0};
    const void *data;
    kv_dtype dtype = kv_array_dtype(a);
    char kind = kv_dtype_is_float(dtype) ? 'f'
                : dtype == KV_BOOL       ? 'b'
                : dtype == KV_UINT8      ? 'u'
                                         : 'i';
    if (dtype == KV_BFLOAT16) {
        own_array *wide = NULL;
        TRY(arrange_copy(&wide, a, KV_FLOAT32, (kv_ctx){KV_CPU, 0}, e));
        return npy_write(f, name, wide, e);
    }
    TRY(kv_array_read(a, &data, e));
    TRY(npy_header_print(&header, kind, (int)kv_dtype_bytes(dtype), kv_array_ndim(a),
                         kv_array_shape(a), e));
    TRY(file_put(f, name, header.data, header.len, e));
    return file_put(f, name, data, (size_t)kv_array_bytes(a), e);
}

/* A header is a dict of Python; npy_header_read knows just the three members that it has, with a
 * cursor that never goes back. */

#define MAGIC        "\x93NUMPY"
#define MAGIC_BYTES  6
#define PREFIX_BYTES 10      /* magic, version and the length that version 1.0 has */
#define HEADER_ALIGN 64      /* where numpy lets the data begin */
#define GROWTH       21      /* digits that numpy leaves room for in the first size */

/* A header of an array of our dtypes has less than 1000 bytes. This is numpy.load's limit too,
 * max_header_size. With a larger one, a small archive of headers of blanks would take minutes. */
#define HEADER_MAX 10000

/* A header and where in it we are. */
typedef struct reader {
    const npy_source *source;
    const char *name; /* the source's */
    int64_t begin;    /* of the dict in the file */
    char *text;       /* the dict, n bytes */
    int64_t n, at;
    kv_err *e;
} reader;

static int take(reader *r, void *to, int64_t n, int64_t *got)
{
    return r->source->take(r->source->arg, to, n, got, r->e);
}

int npy_cut(const char *name, const char *within, int64_t missing, int64_t n, kv_err *e)
{
    return file_bad(e, KV_E_FORMAT, name, "cut within its %s: %lld of %lld bytes are missing",
                    within, (long long)missing, (long long)n);
}

/* ---- The header ------------------------------------------------------------------------------ */

/* `x.npy: byte 17: …`, counted from the begin of the file. */
static int refuse(const reader *r, const char *why)
{
    return file_bad(r->e, KV_E_FORMAT, r->name, "byte %lld: %s", (long long)(r->begin + r->at),
                    why);
}

/* The next byte other than a blank, '\0' at the end; a NUL in the text was refused before. */
static char look(reader *r)
{
    while (r->at < r->n && (r->text[r->at] == ' ' || r->text[r->at] == '\t' ||
                            r->text[r->at] == '\n' || r->text[r->at] == '\r'))
        r->at++;
    return r->at < r->n ? r->text[r->at] : '\0';
}

static bool accept(reader *r, char c)
{
    if (look(r) != c)
        return false;
    r->at++;
    return true;
}

static int expect(reader *r, char c)
{
    char why[32];
    if (accept(r, c))
        return KV_OK;
    snprintf(why, sizeof why, "%c is missing here", c);
    return refuse(r, why);
}

/* The text between two quotes, borrowed; Python's escapes stand in none that we know. */
static int read_text(reader *r, const char **text, int *n)
{
    char quote = look(r);
    if (quote != '\'' && quote != '"')
        return refuse(r, "a text is missing here");
    const char *begin = r->text + r->at + 1;
    const char *end = memchr(begin, quote, (size_t)(r->n - r->at - 1));
    if (!end)
        return refuse(r, "this text does not end");
    *text = begin;
    *n = (int)(end - begin);
    r->at = end + 1 - r->text;
    return KV_OK;
}

/* A list in brackets, which describes elements of several fields, borrowed. */
static int read_fields(reader *r, const char **text, int *n)
{
    char quote = 0;
    int64_t begin = r->at, depth = 0;
    do {
        if (r->at == r->n)
            return refuse(r, "this list does not end");
        char c = r->text[r->at++];
        if (quote || c == '\'' || c == '"')
            quote = quote == 0 ? c : quote == c ? '\0' : quote;
        else
            depth += (c == '[' || c == '(') - (c == ']' || c == ')');
    } while (depth > 0);
    *text = r->text + begin;
    *n = (int)(r->at - begin);
    return KV_OK;
}

static bool is_text(const char *text, int n, const char *word)
{
    return (size_t)n == strlen(word) && memcmp(text, word, (size_t)n) == 0;
}

/* The elements that have numbers; e.g. void ones are left to the caller. */
static const char *const known[] = {"f2", "f4", "f8", "i1", "i2", "i4", "i8",
                                    "u1", "u2", "u4", "u8", "b1", "c8"};

static int read_descr(reader *r, npy_header *h)
{
    const char *text;
    int n;
    bool fields = look(r) == '[';
    TRY(fields ? read_fields(r, &text, &n) : read_text(r, &text, &n));
    size_t kept = n < NPY_DESCR_MAX ? (size_t)n : NPY_DESCR_MAX;
    memcpy(h->descr, text, kept);
    h->descr[kept] = '\0';
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        int width = known[k][1] - '0';
        if (n != 3 || !is_text(text + 1, 2, known[k]))
            continue;
        if (*text == '<' || *text == '>' || (*text == '|' && width == 1)) {
            h->kind = known[k][0];
            h->width = width;
            h->swapped = *text == '>' && width > 1;
        }
    }
    return KV_OK;
}

static int read_fortran(reader *r, npy_header *h)
{
    static const char *const words[] = {"False", "True"};
    look(r);
    for (int i = 0; i < 2; i++) {
        size_t n = strlen(words[i]);
        if ((size_t)(r->n - r->at) >= n && memcmp(r->text + r->at, words[i], n) == 0) {
            r->at += (int64_t)n;
            h->fortran = i;
            return KV_OK;
        }
    }
    return refuse(r, "fortran_order is True or False");
}

static int read_size(reader *r, int64_t *size)
{
    bool over = false;
    char c = look(r);
    if (c == '-')
        return refuse(r, "a size is negative");
    if (c < '0' || c > '9')
        return refuse(r, "a size is missing here");
    size_t n = num_parse_int(r->text + r->at, (size_t)(r->n - r->at), size, &over);
    if (over)
        return refuse(r, "a size beyond 64 bits");
    r->at += (int64_t)n;
    /* Python 2 wrote its long integers as 3L. */
    if (r->at < r->n && r->text[r->at] == 'L')
        r->at++;
    return KV_OK;
}

/* (), (3,), (2, 3) */
static int read_shape(reader *r, npy_header *h)
{
    int rc = expect(r, '(');
    h->ndim = 0;
    while (!rc && !accept(r, ')')) {
        if (h->ndim == KV_MAX_NDIM)
            return file_bad(r->e, KV_E_UNSUPPORTED, r->name,
                            "arrays of more than %d axes are not read", KV_MAX_NDIM);
        rc = read_size(r, &h->shape[h->ndim++]);
        /* One size without a comma would be a number, not a tuple. */
        if (!rc && !accept(r, ',') && (h->ndim == 1 || look(r) != ')'))
            rc = expect(r, ',');
    }
    return rc;
}

static const struct {
    const char *name;
    int (*read)(reader *r, npy_header *h);
} members[] = {{"descr", read_descr}, {"fortran_order", read_fortran}, {"shape", read_shape}};

#define NMEMBERS (sizeof members / sizeof *members)

static int read_member(reader *r, npy_header *h, bool seen[NMEMBERS])
{
    const char *name;
    int n;
    TRY(read_text(r, &name, &n));
    size_t k = 0;
    while (k < NMEMBERS && !is_text(name, n, members[k].name))
        k++;
    if (k == NMEMBERS)
        return file_bad(r->e, KV_E_FORMAT, r->name, "'%.*s' is not a part of a header",
                        n < 40 ? n : 40, name);
    if (seen[k])
        return file_bad(r->e, KV_E_FORMAT, r->name, "the header has two '%s'", members[k].name);
    seen[k] = true;
    int rc = expect(r, ':');
    return rc ? rc : members[k].read(r, h);
}

/* A header of ours is ASCII in every version, and messages may quote it. */
static int check_ascii(reader *r)
{
    char why[64];
    for (r->at = 0; r->at < r->n; r->at++) {
        unsigned char c = (unsigned char)r->text[r->at];
        if ((c < ' ' || c > '~') && !strchr("\t\r\n", c)) {
            snprintf(why, sizeof why, "a byte 0x%02X cannot stand here", c);
            return refuse(r, why);
        }
        if (!c)
            return refuse(r, "a NUL byte cannot stand here");
    }
    r->at = 0;
    return KV_OK;
}

/* Reads up to the header: sets r->begin and r->n. */
static int read_prefix(reader *r)
{
    unsigned char raw[12] = {0};
    int64_t got;
    TRY(take(r, raw, 8, &got));
    if (got == 0)
        return file_bad(r->e, KV_E_FORMAT, r->name, "the file is empty");
    if (memcmp(raw, MAGIC, (size_t)(got < MAGIC_BYTES ? got : MAGIC_BYTES)) != 0)
        return file_bad(r->e, KV_E_FORMAT, r->name,
                        "no npy file: it does not begin with 0x93 and NUMPY");
    if (got < 8)
        return npy_cut(r->name, "first bytes", 8 - got, 8, r->e);
    if (raw[6] < 1 || raw[6] > 3 || raw[7] != 0)
        return file_bad(r->e, KV_E_UNSUPPORTED, r->name,
                        "version %d.%d is not read, only 1.0, 2.0 and 3.0", raw[6], raw[7]);
    int width = raw[6] == 1 ? 2 : 4;
    TRY(take(r, raw + 8, width, &got));
    if (got < width)
        return npy_cut(r->name, "first bytes", width - got, 8 + width, r->e);
    r->begin = 8 + width;
    r->n = (int64_t)raw[8] | (int64_t)raw[9] << 8 | (int64_t)raw[10] << 16 | (int64_t)raw[11] << 24;
    return KV_OK;
}

static int read_header(reader *r, npy_header *h)
{
    int64_t got;
    bool seen[NMEMBERS] = {false};
    TRY(read_prefix(r));
    if (r->n > HEADER_MAX)
        return file_bad(r->e, KV_E_FORMAT, r->name,
                        "a header of %lld bytes, and at most %d are read", (long long)r->n,
                        HEADER_MAX);
    r->text = mem_alloc(r->n, 1, r->e);
    if (!r->text)
        return KV_E_MEMORY;
    TRY(take(r, r->text, r->n, &got));
    if (got < r->n)
        return npy_cut(r->name, "header", r->n - got, r->n, r->e);
    TRY(check_ascii(r));
    TRY(expect(r, '{'));
    while (!accept(r, '}')) {
        TRY(read_member(r, h, seen));
        if (!accept(r, ',') && look(r) != '}')
            TRY(expect(r, ','));
    }
    if (look(r))
        return refuse(r, "only blanks may follow the header's }");
    for (size_t k = 0; k < NMEMBERS; k++)
        if (!seen[k])
            return file_bad(r->e, KV_E_FORMAT, r->name, "the header has no '%s'", members[k].name);
    return KV_OK;
}

int npy_header_read(npy_header *h, const npy_source *s, kv_err *e)
{
    reader r = {.source = s, .name = s->name, .e = e};
    *h = (npy_header){0};
    int rc = read_header(&r, h);
    h->bytes = r.begin + r.n;
    mem_free(r.text);
    return rc;
}

/* ---- Writing --------------------------------------------------------------------------------- */

int npy_header_print(buf *out, char kind, int width, int ndim, const int64_t *shape, kv_err *e)
{
    size_t begin = out->len;
    buf_put(out, MAGIC "\x01\0\0\0", PREFIX_BYTES);
    /* The dict as Python prints it, with numpy's room for the first size to grow. */
    char digits[NUM_TEXT_MAX];
    buf_printf(out, "{'descr': '%c%c%d', 'fortran_order': False, 'shape': (",
               width == 1 ? '|' : '<', kind, width);
    for (int i = 0; i < ndim; i++)
        buf_printf(out, "%s%lld", i ? ", " : "", (long long)shape[i]);
    buf_add(out, ndim == 1 ? ",), }" : "), }");
    if (ndim)
        buf_repeat(out, ' ', GROWTH - num_int(digits, shape[0]));
    buf_repeat(out, ' ', (int64_t)(HEADER_ALIGN - 1 - (out->len - begin) % HEADER_ALIGN));
    buf_char(out, '\n');
    if (buf_check(out, e))
        return KV_E_MEMORY;
    /* 32 axes of 19 digits are well below 2^16 bytes. */
    size_t n = out->len - begin - PREFIX_BYTES;
    kv_assert(n <= 0xFFFF && (out->len - begin) % HEADER_ALIGN == 0,
              "a header of %zu bytes is too long for its length, or not aligned", n);
    out->data[begin + 8] = (char)(n & 0xFF);
    out->data[begin + 9] = (char)(n >> 8);
    return KV_OK;
}
