/* MXNet's files of arrays. */
#include "checkpoint/params.h"

#include <string.h>

#include "array/device.h"
#include "base/file.h"
#include "base/num.h"
#include "base/stop.h"
#include "base/utf8.h"

enum { V1 = 0xF993FAC8, V2, V3 };
enum { DENSE, ROW_SPARSE, CSR };

/* A sparse array says how large it is, and holds less: more than this is not believed. */
#define SPARSE_MOST ((int64_t)64 << 30)

/* ---- Reading --------------------------------------------------------------------------------- */

typedef struct reading {
    checkpoint *c;
    int file;
    byte_reader from;
    int64_t number; /* of the record that is read */
} reading;

static int cut(const reading *r, const char *what, kv_err *e)
{
    return BAD(r, e, "cut within %s, array %lld", what, (long long)r->number);
}

static int take(reading *r, void *to, int64_t n, kv_err *e)
{
    return n > byte_reader_left(&r->from) ? cut(r, "its header", e)
                                          : byte_reader_take(&r->from, to, n, e);
}

/* Goes over n bytes, which must be there; -1: more than there can be. */
static int skip(reading *r, int64_t n, kv_err *e)
{
    if (n < 0 || n > byte_reader_left(&r->from))
        return cut(r, "its data", e);
    r->from.at += n;
    return KV_OK;
}

static int bad(const reading *r, const char *what, int64_t x, kv_err *e)
{
    return BAD(r, e, "array %lld has %lld %s, which is not read", (long long)r->number,
               (long long)x, what);
}

/* Reads sizes of `width` bytes each. ndim: their number, or -1, which is read first. */
static int take_shape(reading *r, int64_t ndim, int width, int64_t shape[KV_MAX_NDIM], int *n,
                      kv_err *e)
{
    int32_t axes = 0;
    TRY(ndim < 0 ? take(r, &axes, sizeof axes, e) : KV_OK);
    ndim = ndim < 0 ? axes : ndim;
    *n = (int)ndim;
    if (ndim < -1 || ndim > KV_MAX_NDIM)
        return bad(r, "axes", ndim, e);
    for (int64_t i = 0; i < ndim; i++) {
        shape[i] = 0;
        TRY(take(r, &shape[i], width, e));
        if (shape[i] < 0)
            return bad(r, "as a size", shape[i], e);
    }
    return KV_OK;
}

static int take_type(reading *r, tensor_type *type, kv_err *e)
{
    uint32_t flag;
    TRY(take(r, &flag, sizeof flag, e));
    if (flag >= KV_DTYPE_END)
        return bad(r, "as its type", flag, e);
    *type = tensor_type_of((kv_dtype)flag);
    return KV_OK;
}

/* The rest of a sparse record, behind its type. values: the shape of its values. */
static int read_sparse(reading *r, int32_t storage, tensor_info *t, int nvalues, int64_t *values,
                       kv_err *e)
{
    int64_t shape[KV_MAX_NDIM] = {0}, counts[2] = {0};
    bool is_csr = storage == CSR;
    bool right = is_csr ? t->ndim == 2 && nvalues == 1 : nvalues == t->ndim;
    int n = 0;
    for (int i = 0; i < storage; i++) {
        tensor_type index;
        TRY(take_type(r, &index, e));
        TRY(take_shape(r, -1, 8, shape, &n, e));
        right &= index == TENSOR_I64 && n == 1;
        counts[i] = shape[0];
    }
    /* There are as many values as indices. Their shape may say more, the room that they had: MXNet
     * writes it before the array is computed. */
    t->first = values[0] = counts[is_csr];
    for (int i = 1; i < nvalues && right; i++)
        right = values[i] == t->shape[i];
    if (is_csr && t->first > 0)
        right = right && counts[0] == t->shape[0] + 1;
    if (!right)
        return BAD(r, e, "sparse array %lld has values and indices that do not fit its shape",
                   (long long)r->number);
    t->form = is_csr ? TENSOR_CSR : TENSOR_ROWS;
    t->offset = r->from.at;
    TRY(skip(r, tensor_bytes(t->type, nvalues, values), e));
    for (int i = 0; i < storage; i++)
        TRY(skip(r, counts[i] > INT64_MAX / 8 ? -1 : 8 * counts[i], e));
    t->stored_bytes = r->from.at - t->offset;
    return KV_OK;
}

/* Reads a record, and adds its array under its number. */
static int read_record(reading *r, kv_err *e)
{
    char name[NUM_TEXT_MAX];
    int64_t shape[KV_MAX_NDIM], values[KV_MAX_NDIM] = {0};
    uint32_t magic, device[2];
    int32_t storage = DENSE;
    int nvalues = 0;
    tensor_info t = {.name = name, .shape = shape, .file = r->file};
    num_int(name, r->number);
    TRY(take(r, &magic, sizeof magic, e));
    if (magic == V2 || magic == V3)
        TRY(take(r, &storage, sizeof storage, e));
    if (storage < DENSE || storage > (magic == V2 ? CSR : DENSE))
        return bad(r, "as its storage type", storage, e);
    TRY(storage != DENSE ? take_shape(r, -1, 8, values, &nvalues, e) : KV_OK);
    bool versioned = magic >= V1 && magic <= V3;
    TRY(take_shape(r, versioned ? -1 : (int64_t)magic, versioned ? 8 : 4, shape, &t.ndim, e));
    if (t.ndim < 0 || (t.ndim == 0 && magic != V3)) { /* there is no array */
        t.ndim = 0;
        t.type = TENSOR_NONE;
        t.odd = "none";
        t.elements = 1;
        t.value = "";
        return checkpoint_add(r->c, &t, e);
    }
    TRY(take(r, device, sizeof device, e));
    TRY(take_type(r, &t.type, e));
    t.elements = tensor_elements(t.ndim, shape);
    t.bytes = tensor_type_bytes(t.type, t.elements);
    t.offset = r->from.at;
    if (storage != DENSE && (t.bytes < 0 || t.bytes > SPARSE_MOST))
        return BAD(r, e, "sparse array %lld would have more than 64 GiB, which is not read",
                   (long long)r->number);
    t.stored_bytes = t.bytes;
    TRY(storage == DENSE ? skip(r, t.bytes, e) : read_sparse(r, storage, &t, nvalues, values, e));
    return checkpoint_add(r->c, &t, e);
}

/* Gives the arrays their names. */
static int read_names(reading *r, int64_t first, int64_t n, kv_err *e)
{
    checkpoint *c = r->c;
    uint64_t count, length;
    TRY(take(r, &count, sizeof count, e));
    if (count && count != (uint64_t)n)
        return BAD(r, e, "%lld arrays have %llu names", (long long)n, (unsigned long long)count);
    c->params = true;
    c->unnamed = count == 0;
    for (int64_t i = 0; i < (int64_t)count; i++) {
        r->number = i;
        TRY(take(r, &length, sizeof length, e));
        TRY(stop_check_at(i, e));
        if (length > (uint64_t)byte_reader_left(&r->from))
            return cut(r, "its name", e);
        char *name = arena_alloc(&c->memory, (size_t)length + 1, e);
        if (!name)
            return KV_E_MEMORY;
        TRY(take(r, name, (int64_t)length, e));
        if (strlen(name) != length || !utf8_valid(name, length))
            return BAD(r, e, "the name of array %lld is not UTF-8, or has a NUL", (long long)i);
        c->tensors[first + i].name = name;
    }
    return KV_OK;
}

/* Records without an array are entries that are not tensors. */
static int leave_out_none(reading *r, int64_t first, kv_err *e)
{
    checkpoint *c = r->c;
    int64_t n = first;
    for (int64_t i = first; i < c->ntensors; i++) {
        const tensor_info t = c->tensors[i];
        if (t.value && c->nothers++ < 2)
            buf_printf(&c->others, "%s%.*s", c->others.len ? ", " : "", SHOWN(t.name));
        if (!t.value || c->options.entries)
            c->tensors[n++] = t;
    }
    c->ntensors = n;
    return buf_check(&c->others, e);
}

static int read_all(reading *r, kv_err *e)
{
    checkpoint *c = r->c;
    int64_t first = c->ntensors;
    uint64_t head[3];
    TRY(take(r, head, sizeof head, e));
    if (head[2] > (uint64_t)byte_reader_left(&r->from) / 4)
        return BAD(r, e, "cut: it says that it holds %llu arrays", (unsigned long long)head[2]);
    if (head[1] && c->options.found)
        TRY(checkpoint_fault(c, NULL, r->file, e, "bytes 8 to 15 are not 0"));
    for (r->number = 0; r->number < (int64_t)head[2]; r->number++) {
        TRY(stop_check_at(r->number, e));
        TRY(read_record(r, e));
    }
    TRY(read_names(r, first, (int64_t)head[2], e));
    if (byte_reader_left(&r->from) && c->options.found)
        TRY(checkpoint_fault(c, NULL, r->file, e, "%lld bytes behind the names",
                             (long long)byte_reader_left(&r->from)));
    return leave_out_none(r, first, e);
}

int params_read(checkpoint *c, int file, kv_err *e)
{
    reading r = {.c = c, .file = file, .from.in = &c->files[file]};
    int rc = read_all(&r, e);
    byte_reader_release(&r.from);
    return rc;
}

/* ---- Writing --------------------------------------------------------------------------------- */

static void put_number(buf *out, uint64_t x)
{
    buf_put(out, (const char *)&x, sizeof x);
}

static void put_shape(buf *out, int ndim, const int64_t *shape)
{
    buf_put(out, (const char *)&ndim, sizeof ndim);
    buf_put(out, (const char *)shape, (size_t)ndim * sizeof *shape);
}

void params_put_begin(buf *out, int64_t n)
{
    buf_put(out, PARAMS_MAGIC, PARAMS_MAGIC_BYTES);
    put_number(out, 0);
    put_number(out, (uint64_t)n);
}

int params_put_head(buf *out, const char *name, tensor_type type, int ndim, const int64_t *shape,
                    int64_t nrows, const char *path, kv_err *e)
{
    uint32_t flag = 0;
    while (flag < KV_DTYPE_END && tensor_type_of((kv_dtype)flag) != type)
        flag++;
    if (flag == KV_DTYPE_END || (flag > KV_BOOL && flag < KV_BFLOAT16)) {
        file_bad(e, KV_E_DTYPE, path, "\"%.*s\" is %s, which MXNet's files do not hold",
                 SHOWN(name), tensor_type_name(type));
        return kv_err_hint(e, "--dtype NAME=f32 writes it as another type"), KV_E_DTYPE;
    }
    if (ndim == 0)
        return file_bad(e, KV_E_VALUE, path,
                        "\"%.*s\" has no axes, and MXNet's files hold no array without axes",
                        SHOWN(name));
    const uint32_t head[] = {V2, nrows < 0 ? DENSE : ROW_SPARSE}, device[] = {1, 0, flag}, ids = 6;
    int64_t values[KV_MAX_NDIM];
    memcpy(values, shape, (size_t)ndim * sizeof *shape);
    values[0] = nrows;
    buf_put(out, (const char *)head, sizeof head);
    if (nrows >= 0)
        put_shape(out, ndim, values);
    put_shape(out, ndim, shape);
    buf_put(out, (const char *)device, sizeof device);
    if (nrows >= 0) {
        buf_put(out, (const char *)&ids, sizeof ids);
        put_shape(out, 1, &nrows);
    }
    return buf_check(out, e);
}

void params_put_names(buf *out, const void *names, size_t bytes, int64_t n)
{
    put_number(out, (uint64_t)n);
    for (int64_t i = 0; i < n; i++) {
        const char *name = *(const char *const *)((const char *)names + (size_t)i * bytes);
        put_number(out, strlen(name));
        buf_add(out, name);
    }
}

/* Writes the record of an array. */
static int save_array(const file_out *out, const char *name, kv_array *a, kv_err *e)
{
    const void *data;
    own_buf head = {0};
    bool is_sparse = kv_array_storage(a) == KV_ROW_SPARSE;
    TRY(is_sparse ? kv_array_read_rows(a, &data, e) : kv_array_read(a, &data, e));
    int64_t nrows = kv_array_nrows(a), ids = nrows * (int64_t)sizeof(int64_t);
    TRY(params_put_head(&head, name, tensor_type_of(kv_array_dtype(a)), kv_array_ndim(a),
                        kv_array_shape(a), is_sparse ? nrows : -1, out->name, e));
    TRY(file_put(out->f, out->name, head.data, head.len, e));
    TRY(file_put(out->f, out->name, data, (size_t)(kv_array_bytes(a) - ids), e));
    return file_put(out->f, out->name, kv_array_row_ids(a), (size_t)ids, e);
}

int params_save(const char *path, const char *const *names, bool has_names, int64_t n,
                kv_array *const *arrays, kv_err *e)
{
    file_out out;
    own_buf text = {0};
    TRY(file_out_open(&out, path, e));
    params_put_begin(&text, n);
    int rc = buf_check(&text, e);
    if (!rc)
        rc = file_put(out.f, path, text.data, text.len, e);
    for (int64_t i = 0; i < n && !rc; i++)
        rc = save_array(&out, names[i], arrays[i], e);
    buf_clear(&text);
    params_put_names(&text, names, sizeof *names, has_names ? n : 0);
    if (!rc && !(rc = buf_check(&text, e)) && !(rc = file_put(out.f, path, text.data, text.len, e)))
        rc = file_out_commit(&out, e);
    else
        file_out_abandon(&out);
    return rc;
}

/* ---- Lists of arrays ------------------------------------------------------------------------- */

/* A row_sparse array as it is. */
static int load_rows(kv_array **out, const checkpoint *c, const tensor_info *t, kv_dtype dtype,
                     kv_err *e)
{
    void *data;
    const input *in = &c->files[t->file];
    int64_t ids_bytes = t->first * (int64_t)sizeof(int64_t), values = t->stored_bytes - ids_bytes;
    int64_t *ids = mem_alloc(t->first, sizeof *ids, e);
    int rc = ids ? input_read(in, ids, t->offset + values, ids_bytes, e) : KV_E_MEMORY;
    kv_err why = {0};
    if (!rc &&
        (rc = kv_array_new_sparse(out, dtype, t->ndim, t->shape, t->first, ids, (kv_ctx){0}, &why)))
        rc = file_bad(e, KV_E_FORMAT, in->name, "\"%.*s\": %s", SHOWN(t->name), why.text);
    mem_free(ids);
    if (!rc && t->first && !(rc = kv_array_write_rows(*out, &data, e)))
        rc = input_read(in, data, t->offset, values, e);
    return rc;
}

int params_load(const checkpoint *c,
                int (*visit)(void *arg, const char *name, kv_array *array, kv_err *e), void *arg,
                kv_err *e)
{
    if (!c->params) {
        file_bad(e, KV_E_FORMAT, c->name, "MXNet's nd.save did not write it");
        return kv_err_hint(e, "kvstore.open(path) reads other checkpoints"), KV_E_FORMAT;
    }
    for (int64_t i = 0; i < c->ntensors; i++) {
        const tensor_info *t = &c->tensors[i];
        own_array *a = NULL;
        kv_dtype dtype;
        if ((t->form & TENSOR_ROWS) && t->type != TENSOR_BOOL &&
            tensor_type_dtype(t->type, &dtype) && t->type == tensor_type_of(dtype))
            TRY(load_rows(&a, c, t, dtype, e));
        else if (!t->value)
            TRY(checkpoint_load(&a, c, i, e));
        TRY(visit(arg, c->unnamed ? NULL : t->name, a, e));
    }
    return KV_OK;
}
