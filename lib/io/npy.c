/* The npy format. Its header is a dict of Python; read_header knows just the three members that it
 * has, with a cursor that never goes back. */
#include "io/npy.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "array/arrange.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "base/num.h"
#include "io/scalar.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "data go between files and memory as they are, and files are little-endian");

#define MAGIC        "\x93NUMPY"
#define MAGIC_BYTES  6
#define PREFIX_BYTES 10      /* magic, version and the length that version 1.0 has */
#define HEADER_MAX   1000000 /* of an array of our dtypes: below 1000 */
#define HEADER_ALIGN 64      /* where numpy lets the data begin */
#define GROWTH       21      /* digits that numpy leaves room for in the first size */
#define PIECE        1000000 /* bytes read at a time when the number is not known */

static const struct {
    const char *name; /* a descr without its order */
    kv_dtype dtype;
} dtypes[] = {
    {"f4", KV_FLOAT32}, {"f8", KV_FLOAT64}, {"f2", KV_FLOAT16}, {"i8", KV_INT64},
    {"i4", KV_INT32},   {"i1", KV_INT8},    {"u1", KV_UINT8},   {"b1", KV_BOOL},
};

#define NDTYPES (sizeof dtypes / sizeof *dtypes)

/* The contents of a header. */
typedef struct about {
    kv_dtype dtype;
    bool swapped; /* big-endian */
    bool fortran; /* the first index runs fastest */
    int ndim;
    int64_t shape[KV_MAX_NDIM];
} about;

/* A file, how far it was read, and where in the header we are. */
typedef struct reader {
    FILE *f;
    const char *name;
    int64_t begin; /* of the header in the file */
    char *text;    /* the header, n bytes */
    int64_t n, at;
    kv_err *e;
} reader;

/* Reads n bytes; *got says how many there were. */
static int take(reader *r, void *dst, int64_t n, int64_t *got)
{
    errno = 0;
    *got = n ? (int64_t)fread(dst, 1, (size_t)n, r->f) : 0;
    if (*got < n && ferror(r->f))
        return file_error(r->e, "read", r->name, errno ? errno : EIO);
    return KV_OK;
}

static int cut(const reader *r, const char *within, int64_t missing, int64_t n)
{
    return file_bad(r->e, KV_E_FORMAT, r->name, "cut within its %s: %lld of %lld bytes are missing",
                    within, (long long)missing, (long long)n);
}

/* ---- The header ------------------------------------------------------------------------------ */

/* `x.npy: byte 17: …`, counted from the begin of the file. */
static int refuse(const reader *r, const char *why)
{
    return file_bad(r->e, KV_E_FORMAT, r->name, "byte %lld: %s", (long long)(r->begin + r->at),
                    why);
}

/* The next byte that is no blank, '\0' at the end; a NUL in the text was refused before. */
static char look(reader *r)
{
    while (r->at < r->n && strchr(" \t\r\n", r->text[r->at]))
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

static bool is_text(const char *text, int n, const char *word)
{
    return (size_t)n == strlen(word) && memcmp(text, word, (size_t)n) == 0;
}

static int read_descr(reader *r, about *a)
{
    const char *text;
    int n;
    if (look(r) == '[')
        return file_bad(r->e, KV_E_UNSUPPORTED, r->name, "elements of several fields are not read");
    int rc = read_text(r, &text, &n);
    if (rc)
        return rc;
    for (size_t k = 0; k < NDTYPES; k++) {
        bool is_byte = kv_dtype_bytes(dtypes[k].dtype) == 1;
        if (n != 3 || !is_text(text + 1, 2, dtypes[k].name))
            continue;
        if (*text == '<' || *text == '>' || (*text == '|' && is_byte)) {
            a->dtype = dtypes[k].dtype;
            a->swapped = *text == '>' && !is_byte;
            return KV_OK;
        }
    }
    file_bad(r->e, KV_E_UNSUPPORTED, r->name, "elements of descr '%.*s' are not read",
             n < 40 ? n : 40, text);
    kv_err_hint(r->e,
                "f8 f4 f2 i8 i4 i1 u1 b1, with < or > before it (or | before the last three)");
    return KV_E_UNSUPPORTED;
}

static int read_fortran(reader *r, about *a)
{
    static const char *const words[] = {"False", "True"};
    look(r);
    for (int i = 0; i < 2; i++) {
        size_t n = strlen(words[i]);
        if ((size_t)(r->n - r->at) >= n && memcmp(r->text + r->at, words[i], n) == 0) {
            r->at += (int64_t)n;
            a->fortran = i;
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
static int read_shape(reader *r, about *a)
{
    int rc = expect(r, '(');
    a->ndim = 0;
    while (!rc && !accept(r, ')')) {
        if (a->ndim == KV_MAX_NDIM)
            return file_bad(r->e, KV_E_UNSUPPORTED, r->name,
                            "arrays of more than %d axes are not read", KV_MAX_NDIM);
        rc = read_size(r, &a->shape[a->ndim++]);
        /* One size without a comma would be a number, not a tuple. */
        if (!rc && !accept(r, ',') && (a->ndim == 1 || look(r) != ')'))
            rc = expect(r, ',');
    }
    return rc;
}

static const struct {
    const char *name;
    int (*read)(reader *r, about *a);
} members[] = {{"descr", read_descr}, {"fortran_order", read_fortran}, {"shape", read_shape}};

#define NMEMBERS (sizeof members / sizeof *members)

static int read_member(reader *r, about *a, bool seen[NMEMBERS])
{
    const char *name;
    int n;
    int rc = read_text(r, &name, &n);
    if (rc)
        return rc;
    size_t k = 0;
    while (k < NMEMBERS && !is_text(name, n, members[k].name))
        k++;
    if (k == NMEMBERS)
        return file_bad(r->e, KV_E_FORMAT, r->name, "'%.*s' is no part of a header",
                        n < 40 ? n : 40, name);
    if (seen[k])
        return file_bad(r->e, KV_E_FORMAT, r->name, "the header has two '%s'", members[k].name);
    seen[k] = true;
    rc = expect(r, ':');
    return rc ? rc : members[k].read(r, a);
}

static int read_dict(reader *r, about *a)
{
    bool seen[NMEMBERS] = {false};
    int rc = expect(r, '{');
    while (!rc && !accept(r, '}')) {
        rc = read_member(r, a, seen);
        if (!rc && !accept(r, ',') && look(r) != '}')
            rc = expect(r, ',');
    }
    if (!rc && look(r))
        rc = refuse(r, "only blanks may follow the header's }");
    for (size_t k = 0; k < NMEMBERS && !rc; k++) {
        if (!seen[k])
            rc = file_bad(r->e, KV_E_FORMAT, r->name, "the header has no '%s'", members[k].name);
    }
    return rc;
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
    int rc = take(r, raw, 8, &got);
    if (rc)
        return rc;
    if (got == 0)
        return file_bad(r->e, KV_E_FORMAT, r->name, "the file is empty");
    if (memcmp(raw, MAGIC, (size_t)(got < MAGIC_BYTES ? got : MAGIC_BYTES)) != 0)
        return file_bad(r->e, KV_E_FORMAT, r->name,
                        "no npy file: it does not begin with 0x93 and NUMPY");
    if (got < 8)
        return cut(r, "first bytes", 8 - got, 8);
    if (raw[6] < 1 || raw[6] > 3 || raw[7] != 0)
        return file_bad(r->e, KV_E_UNSUPPORTED, r->name,
                        "version %d.%d is not read, only 1.0, 2.0 and 3.0", raw[6], raw[7]);
    int width = raw[6] == 1 ? 2 : 4;
    rc = take(r, raw + 8, width, &got);
    if (rc)
        return rc;
    if (got < width)
        return cut(r, "first bytes", width - got, 8 + width);
    r->begin = 8 + width;
    r->n = (int64_t)raw[8] | (int64_t)raw[9] << 8 | (int64_t)raw[10] << 16 | (int64_t)raw[11] << 24;
    return KV_OK;
}

static int read_header(reader *r, about *a)
{
    int64_t got;
    int rc = read_prefix(r);
    if (rc)
        return rc;
    if (r->n > HEADER_MAX)
        return file_bad(r->e, KV_E_FORMAT, r->name,
                        "a header of %lld bytes, and at most %d are read", (long long)r->n,
                        HEADER_MAX);
    r->text = mem_alloc(r->n, 1, r->e);
    if (!r->text)
        return KV_E_MEMORY;
    rc = take(r, r->text, r->n, &got);
    if (!rc && got < r->n)
        rc = cut(r, "header", r->n - got, r->n);
    if (!rc)
        rc = check_ascii(r);
    return rc ? rc : read_dict(r, a);
}

/* ---- The elements ---------------------------------------------------------------------------- */

static int count_bytes(const reader *r, const about *a, int64_t *bytes)
{
    char shape[160];
    *bytes = scalar_bytes(a->dtype, a->ndim, a->shape);
    if (*bytes < 0)
        return file_bad(r->e, KV_E_FORMAT, r->name, "shape %s is too large: more than 2^63 bytes",
                        kv_shape_text(shape, sizeof shape, a->ndim, a->shape));
    return KV_OK;
}

/* The number of bytes from here to the end of the file, or -1 if it is not known, as for a pipe. */
static int64_t count_rest(FILE *f)
{
    struct stat s;
    int fd = fileno(f);
    if (fd < 0 || fstat(fd, &s) != 0 || !S_ISREG(s.st_mode))
        return -1;
    int64_t at = ftello(f);
    return at < 0 ? -1 : s.st_size < at ? 0 : s.st_size - at;
}

/* Reads n bytes into *data, which grows with what is there, so that a header which promises too
 * much costs no memory. */
static int take_pieces(reader *r, char **data, int64_t n)
{
    int64_t cap = 0, have = 0;
    for (int64_t got = 1; have < n && got > 0; have += got) {
        int64_t want = n - have < PIECE ? n - have : PIECE;
        int rc = mem_grow(data, &cap, have + want, 1, r->e);
        if (!rc)
            rc = take(r, *data + have, want, &got);
        if (rc)
            return rc;
    }
    return have < n ? cut(r, "data", n - have, n) : KV_OK;
}

/* Fills data, the n bytes of an array. `pieces`: what was read already, or NULL. */
static int fill(reader *r, void *data, const char *pieces, int64_t n)
{
    int64_t got = n;
    int rc = KV_OK;
    if (pieces)
        memcpy(data, pieces, (size_t)n);
    else
        rc = take(r, data, n, &got);
    if (!rc && got < n)
        rc = cut(r, "data", n - got, n);
    if (!rc && getc(r->f) != EOF)
        rc = file_bad(r->e, KV_E_FORMAT, r->name, "there are bytes behind the data");
    if (!rc && ferror(r->f))
        rc = file_error(r->e, "read", r->name, EIO);
    return rc;
}

static void swap_bytes(void *data, int64_t n, size_t width)
{
    char *p = data;
    for (int64_t i = 0; i < n; i++, p += width) {
        for (size_t j = 0; j < width / 2; j++) {
            char c = p[j];
            p[j] = p[width - 1 - j];
            p[width - 1 - j] = c;
        }
    }
}

static int check_bools(const reader *r, const unsigned char *data, int64_t n)
{
    int64_t i = scalar_not_bool(data, n);
    return i < 0 ? KV_OK
                 : file_bad(r->e, KV_E_FORMAT, r->name, "element %lld is no bool, its byte is %d",
                            (long long)i, data[i]);
}

/* A new array of the file's elements in the order of the file. */
static int read_elements(reader *r, kv_array **out, const about *a, const char *pieces)
{
    kv_array *made;
    void *data;
    int rc = kv_array_new_raw(&made, a->dtype, a->ndim, a->shape, (kv_ctx){0}, r->e);
    if (rc)
        return rc;
    rc = kv_array_write(made, &data, r->e);
    if (!rc)
        rc = fill(r, data, pieces, kv_array_bytes(made));
    if (!rc && a->swapped)
        swap_bytes(data, kv_array_size(made), (size_t)kv_dtype_bytes(a->dtype));
    if (!rc && a->dtype == KV_BOOL)
        rc = check_bools(r, data, kv_array_size(made));
    if (rc)
        kv_array_unref(made);
    else
        *out = made;
    return rc;
}

/* The same once it is known that they are there. */
static int read_data(reader *r, kv_array **out, const about *a)
{
    int64_t n;
    int rc = count_bytes(r, a, &n);
    if (rc)
        return rc;
    int64_t rest = count_rest(r->f);
    if (rest >= 0 && rest < n)
        return cut(r, "data", n - rest, n);
    char *pieces = NULL;
    if (rest < 0)
        rc = take_pieces(r, &pieces, n);
    if (!rc)
        rc = read_elements(r, out, a, pieces);
    mem_free(pieces);
    return rc;
}

/* Elements whose first index runs fastest are those of the transpose in the order of rows. */
static int read_transposed(reader *r, kv_array **out, const about *a)
{
    about t = *a;
    kv_array *rows;
    for (int i = 0; i < a->ndim; i++)
        t.shape[i] = a->shape[a->ndim - 1 - i];
    int rc = read_data(r, &rows, &t);
    if (rc)
        return rc;
    rc = arrange_transpose(out, rows, NULL, 0, r->e);
    kv_array_unref(rows);
    return rc;
}

int npy_read(kv_array **out, FILE *f, const char *name, kv_err *e)
{
    reader r = {.f = f, .name = name, .e = e};
    about a = {0};
    int rc = read_header(&r, &a);
    if (!rc)
        rc = a.fortran && a.ndim > 1 ? read_transposed(&r, out, &a) : read_data(&r, out, &a);
    mem_free(r.text);
    return rc;
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* The dict as Python prints it, with numpy's room for the first size to grow. */
static void add_dict(buf *out, kv_array *a, const char *dtype)
{
    char order = kv_dtype_bytes(kv_array_dtype(a)) == 1 ? '|' : '<';
    int ndim = kv_array_ndim(a);
    const int64_t *shape = kv_array_shape(a);
    char digits[NUM_TEXT_MAX];
    buf_printf(out, "{'descr': '%c%s', 'fortran_order': False, 'shape': (", order, dtype);
    for (int i = 0; i < ndim; i++)
        buf_printf(out, "%s%lld", i ? ", " : "", (long long)shape[i]);
    buf_add(out, ndim == 1 ? ",), }" : "), }");
    if (ndim)
        buf_repeat(out, ' ', GROWTH - num_int(digits, shape[0]));
}

/* All that stands before the data. */
static int make_header(buf *out, kv_array *a, const char *dtype, kv_err *e)
{
    buf_put(out, MAGIC "\x01\0\0\0", PREFIX_BYTES);
    add_dict(out, a, dtype);
    buf_repeat(out, ' ', (int64_t)(HEADER_ALIGN - 1 - out->len % HEADER_ALIGN));
    buf_char(out, '\n');
    if (buf_check(out, e))
        return KV_E_MEMORY;
    /* 32 axes of 19 digits are well below 2^16 bytes. */
    size_t n = out->len - PREFIX_BYTES;
    kv_assert(n <= 0xFFFF && out->len % HEADER_ALIGN == 0,
              "a header of %zu bytes is too long for its length, or not aligned", n);
    out->data[8] = (char)(n & 0xFF);
    out->data[9] = (char)(n >> 8);
    return KV_OK;
}

int npy_write(FILE *f, const char *name, kv_array *a, kv_err *e)
{
    buf header = {0};
    const void *data;
    size_t k = 0;
    while (k < NDTYPES && dtypes[k].dtype != kv_array_dtype(a))
        k++;
    if (k == NDTYPES) {
        kv_err_set(e, KV_E_UNSUPPORTED, "%s: npy has no %s", name,
                   kv_dtype_name(kv_array_dtype(a)));
        kv_err_hint(e, "write it as float32, which holds every %s, or as safetensors",
                    kv_dtype_name(kv_array_dtype(a)));
        return KV_E_UNSUPPORTED;
    }
    int rc = kv_array_read(a, &data, e);
    if (!rc)
        rc = make_header(&header, a, dtypes[k].name, e);
    if (!rc)
        rc = file_put(f, name, header.data, header.len, e);
    if (!rc)
        rc = file_put(f, name, data, (size_t)kv_array_bytes(a), e);
    buf_release(&header);
    return rc;
}
