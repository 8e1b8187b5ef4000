/* Tensors as arrays. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/utf8.h"
#include "checkpoint/checkpoint_build.h"
#include "checkpoint/tensor_reader.h"
#include "io/scalar.h"

static int check_bools(const checkpoint *c, const tensor_info *t, const unsigned char *data,
                       kv_err *e)
{
    int64_t i = scalar_not_bool(data, t->bytes);
    return i < 0 ? KV_OK
                 : file_bad(e, KV_E_FORMAT, c->files[t->file].name,
                            "tensor \"%.*s\": element %lld is no bool, its byte is %d",
                            SHOWN(t->name), (long long)i, data[i]);
}

/* The data of a type that the array has, too. */
static int load_same(kv_array *a, const checkpoint *c, const tensor_info *t, kv_err *e)
{
    void *data;
    int code = kv_array_write(a, &data, e);
    if (!code)
        code = input_read(&c->files[t->file], data, t->offset, t->bytes, e);
    return code || t->type != TENSOR_BOOL ? code : check_bools(c, t, data, e);
}

int checkpoint_load(kv_array **out, const checkpoint *c, int64_t i, kv_err *e)
{
    const tensor_info *t = &c->tensors[i];
    kv_dtype dtype;
    kv_array *a;
    if (!tensor_type_dtype(t->type, &dtype) || tensor_type_of(dtype) != t->type) {
        file_bad(e, KV_E_UNSUPPORTED, c->files[t->file].name,
                 "tensor \"%.*s\" has the dtype \"%s\", which is not read", SHOWN(t->name),
                 tensor_type_name(t->type));
        return KV_E_UNSUPPORTED;
    }
    int code = kv_array_new_raw(&a, dtype, t->ndim, t->shape, (kv_ctx){0}, e);
    if (code)
        return code;
    if ((code = load_same(a, c, t, e)))
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

int checkpoint_load_all(kv_array **arrays, const checkpoint *c, kv_err *e)
{
    for (int64_t i = 0; i < c->ntensors; i++) {
        int code = checkpoint_load(&arrays[i], c, i, e);
        if (code) {
            while (i-- > 0)
                kv_array_unref(arrays[i]);
            return code;
        }
    }
    return KV_OK;
}
