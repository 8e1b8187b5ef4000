/* Tensors as arrays. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/stop.h"
#include "base/utf8.h"
#include "checkpoint/checkpoint_build.h"
#include "checkpoint/npz_type.h"
#include "checkpoint/tensor_codec.h"
#include "checkpoint/tensor_reader.h"

/* An error for element i, which no array here can hold. */
static int refuse(const checkpoint *c, const tensor_info *t, const unsigned char *data, int64_t i,
                  int64_t first, kv_err *e)
{
    const char *path = c->files[t->file].name;
    if (t->type == TENSOR_BOOL)
        return file_bad(e, KV_E_FORMAT, path,
                        "tensor \"%.*s\": element %lld is no bool, its byte is %d",
                        SHOWN(t->name), (long long)(first + i), data[i]);
    return file_bad(e, KV_E_VALUE, path,
                    "tensor \"%.*s\": element %lld is 2^63 or more, beyond int64",
                    SHOWN(t->name), (long long)(first + i));
}

/* Fills the memory of an array, block by block. */
static int load_blocks(char *to, kv_dtype dtype, const checkpoint *c, int64_t i, kv_err *e)
{
    const tensor_info *t = &c->tensors[i];
    int64_t block = TENSOR_BLOCK / tensor_type_run_bytes(t->type) * tensor_type_run(t->type);
    tensor_reader *r;
    int code = tensor_reader_new(&r, c, TENSOR_BLOCK, e);
    if (code)
        return code;
    for (int64_t first = 0, n; first < t->elements && !code; first += n) {
        const void *data;
        n = t->elements - first < block ? t->elements - first : block;
        code = tensor_read(r, &data, i, tensor_type_bytes(t->type, first),
                           tensor_type_bytes(t->type, n), e);
        if (code)
            break;
        int64_t bad = tensor_to_array(to + first * kv_dtype_bytes(dtype), t->type, data, n);
        code = bad >= 0 ? refuse(c, t, data, bad, first, e) : stop_check(e);
    }
    if (!code)
        code = tensor_reader_check(r, e);
    tensor_reader_free(r);
    return code;
}

int checkpoint_load(kv_array **out, const checkpoint *c, int64_t i, kv_err *e)
{
    const tensor_info *t = &c->tensors[i];
    void *data;
    kv_dtype dtype;
    kv_array *a;
    int code = checkpoint_has_numbers(c, i, e);
    if (code)
        return kv_err_hint(e, "%s", npz_type_hint(t->odd)), code;
    if (!tensor_type_dtype(t->type, &dtype))
        return file_bad(e, KV_E_DTYPE, c->files[t->file].name,
                        "tensor \"%.*s\" is %s, of which no array can be made", SHOWN(t->name),
                        tensor_type_name(t->type));
    code = kv_array_new_raw(&a, dtype, t->ndim, t->shape, (kv_ctx){0}, e);
    if (code)
        return code;
    code = kv_array_write(a, &data, e);
    if (!code && t->form == 0 && !t->member && t->type == tensor_type_of(dtype) &&
        t->type != TENSOR_BOOL)
        code = input_read(&c->files[t->file], data, t->offset, t->bytes, e);
    else if (!code)
        code = load_blocks(data, dtype, c, i, e);
    if (code)
        kv_array_unref(a);
    else
        *out = a;
    return code;
}

int checkpoint_load_name(kv_array **out, const checkpoint *c, const char *name, kv_err *e)
{
    int64_t i = checkpoint_find(c, name);
    if (i < 0)
        return file_bad(e, KV_E_NAME, c->name, "there is no tensor \"%.*s\"", SHOWN(name));
    return checkpoint_load(out, c, i, e);
}
