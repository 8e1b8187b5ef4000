/* Files of one array: the elements behind a header of npy_header.h. */
#include "io/npy.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "array/arrange.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "io/npy_header.h"
#include "io/scalar.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "data go between files and memory as they are, and files are little-endian");

#define PIECE 1000000 /* bytes read at a time when the number is not known */

static const struct {
    char kind; /* of a descr */
    int width;
    kv_dtype dtype;
} dtypes[] = {
    {'f', 4, KV_FLOAT32},
    {'f', 8, KV_FLOAT64},
    {'f', 2, KV_FLOAT16},
    {'i', 8, KV_INT64},
    {'i', 4, KV_INT32},
    {'i', 1, KV_INT8},
    {'u', 1, KV_UINT8},
    {'b', 1, KV_BOOL},
    /* read into the next larger dtype; not written */
    {'i', 2, KV_INT32},
    {'u', 2, KV_INT32},
    {'u', 4, KV_INT64},
    {'u', 8, KV_INT64},
};

#define NDTYPES (sizeof dtypes / sizeof *dtypes)

/* An array that is read. */
typedef struct about {
    kv_dtype dtype;
    char kind; /* of the elements in the file */
    int width;
    bool swapped, fortran; /* as npy_header has them */
    int ndim;
    int64_t shape[KV_MAX_NDIM];
} about;

/* A file. */
typedef struct reader {
    FILE *f;
    const char *name;
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

/* ---- The header ------------------------------------------------------------------------------ */

static int take_header(void *arg, void *to, int64_t n, int64_t *got, kv_err *e)
{
    (void)e; /* the reader's */
    return take(arg, to, n, got);
}

static int read_header(reader *r, about *a)
{
    npy_header h;
    int rc = npy_header_read(&h, &(npy_source){take_header, r, r->name}, r->e);
    if (rc)
        return rc;
    a->swapped = h.swapped;
    a->fortran = h.fortran;
    a->ndim = h.ndim;
    memcpy(a->shape, h.shape, sizeof a->shape);
    for (size_t k = 0; k < NDTYPES; k++) {
        if (h.kind == dtypes[k].kind && h.width == dtypes[k].width) {
            a->dtype = dtypes[k].dtype;
            a->kind = h.kind;
            a->width = h.width;
            return KV_OK;
        }
    }
    if (*h.descr == '[')
        return file_bad(r->e, KV_E_UNSUPPORTED, r->name, "elements of several fields are not read");
    file_bad(r->e, KV_E_UNSUPPORTED, r->name, "elements of descr '%s' are not read", h.descr);
    kv_err_hint(r->e,
                "f8 f4 f2 i8 i4 i2 i1 u8 u4 u2 u1 b1, with < or > before it (or | before those of "
                "one byte)");
    return KV_E_UNSUPPORTED;
}

/* ---- The elements ---------------------------------------------------------------------------- */

static int count_bytes(const reader *r, const about *a, int64_t *bytes)
{
    char shape[160];
    *bytes = scalar_bytes(a->dtype, a->ndim, a->shape);
    if (*bytes >= 0)
        *bytes = *bytes / kv_dtype_bytes(a->dtype) * a->width;
    else
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
    return have < n ? npy_cut(r->name, "data", n - have, n, r->e) : KV_OK;
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
        rc = npy_cut(r->name, "data", n - got, n, r->e);
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

/* Elements of the file that no dtype has as they are, in one that holds their numbers. */
static int widen(const reader *r, void *data, const void *raw, const about *a, int64_t n)
{
    const uint64_t *large = raw;
    for (int64_t i = 0; i < n; i++) {
        if (a->width == 2)
            ((int32_t *)data)[i] =
                a->kind == 'i' ? ((const int16_t *)raw)[i] : ((const uint16_t *)raw)[i];
        else if (a->width == 4)
            ((int64_t *)data)[i] = ((const uint32_t *)raw)[i];
        else if (large[i] > INT64_MAX)
            return file_bad(r->e, KV_E_VALUE, r->name, "element %lld is 2^63 or more, beyond int64",
                            (long long)i);
        else
            ((int64_t *)data)[i] = (int64_t)large[i];
    }
    return KV_OK;
}

/* The same from the file. */
static int fill_wider(reader *r, void *data, const char *pieces, const about *a, int64_t n)
{
    void *raw = mem_alloc(n, (size_t)a->width, r->e);
    int rc = raw ? fill(r, raw, pieces, n * a->width) : KV_E_MEMORY;
    if (!rc && a->swapped)
        swap_bytes(raw, n, (size_t)a->width);
    if (!rc)
        rc = widen(r, data, raw, a, n);
    mem_free(raw);
    return rc;
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
    bool wider = a->width != kv_dtype_bytes(a->dtype) || (a->kind == 'u' && a->width == 8);
    if (!rc)
        rc = wider ? fill_wider(r, data, pieces, a, kv_array_size(made))
                   : fill(r, data, pieces, kv_array_bytes(made));
    if (!rc && a->swapped && !wider)
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
        return npy_cut(r->name, "data", n - rest, n, r->e);
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
    return rc;
}

/* ---- Writing --------------------------------------------------------------------------------- */

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
        rc = npy_header_print(&header, dtypes[k].kind, dtypes[k].width, kv_array_ndim(a),
                              kv_array_shape(a), e);
    if (!rc)
        rc = file_put(f, name, header.data, header.len, e);
    if (!rc)
        rc = file_put(f, name, data, (size_t)kv_array_bytes(a), e);
    buf_release(&header);
    return rc;
}
