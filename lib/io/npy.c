/* Files of one array: the elements behind a header of npy_header.h. */
#include "io/npy.h"

#include "base/buf.h"
#include "base/file.h"
#include "io/npy_header.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "data go between files and memory as they are, and files are little-endian");

static const struct {
    char kind; /* of a descr */
    int width;
    kv_dtype dtype;
} dtypes[] = {
    {'f', 4, KV_FLOAT32}, {'f', 8, KV_FLOAT64}, {'f', 2, KV_FLOAT16}, {'i', 8, KV_INT64},
    {'i', 4, KV_INT32},   {'i', 1, KV_INT8},    {'u', 1, KV_UINT8},   {'b', 1, KV_BOOL},
};

#define NDTYPES (sizeof dtypes / sizeof *dtypes)

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
