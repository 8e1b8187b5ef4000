/* Tensors as arrays. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array/device.h"
#include "base/file.h"
#include "base/stop.h"
#include "base/utf8.h"
#include "base/xxh64.h"
#include "checkpoint/checkpoint_build.h"
#include "checkpoint/tensor_codec.h"
#include "checkpoint/tensor_reader.h"

/* A read of more bytes looks from block to block whether it shall end. */
#define LATER_BLOCK ((int64_t)16 << 20)

/* An error for element i, which no array here can hold. */
static int refuse(const checkpoint *c, const tensor_info *t, const unsigned char *data, int64_t i,
                  int64_t first, kv_err *e)
{
    const char *path = c->files[t->file].name;
    if (t->type == TENSOR_BOOL)
        return file_bad(e, KV_E_FORMAT, path,
                        "tensor \"%.*s\": element %lld is not a bool, its byte is %d",
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
    own_tensor_reader *r = NULL;
    TRY(tensor_reader_new(&r, c, TENSOR_BLOCK, e));
    for (int64_t first = 0, n; first < t->elements; first += n) {
        const void *data;
        n = at_most(t->elements - first, block);
        TRY(tensor_read(r, &data, i, tensor_type_bytes(t->type, first),
                        tensor_type_bytes(t->type, n), e));
        int64_t bad = tensor_to_array(to + first * kv_dtype_bytes(dtype), t->type, data, n);
        TRY(bad >= 0 ? refuse(c, t, data, bad, first, e) : stop_check(e));
    }
    return tensor_reader_check(r, e);
}

int checkpoint_load(kv_array **out, const checkpoint *c, int64_t i, kv_err *e)
{
    const tensor_info *t = &c->tensors[i];
    void *data;
    kv_dtype dtype;
    own_array *a = NULL;
    int rc = checkpoint_has_numbers(c, i, e);
    if (rc)
        return kv_err_hint(e, "%s", npz_type_hint(t->odd)), rc;
    if (!tensor_type_dtype(t->type, &dtype))
        return file_bad(e, KV_E_DTYPE, c->files[t->file].name,
                        "tensor \"%.*s\" is %s, of which no array can be made", SHOWN(t->name),
                        tensor_type_name(t->type));
    TRY(kv_array_new_raw(&a, dtype, t->ndim, t->shape, (kv_ctx){0}, e));
    TRY(kv_array_write(a, &data, e));
    if (t->form == 0 && !t->member && t->type == tensor_type_of(dtype) && t->type != TENSOR_BOOL)
        TRY(input_read(&c->files[t->file], data, t->offset, t->bytes, e));
    else
        TRY(load_blocks(data, dtype, c, i, e));
    *out = a;
    a = NULL;
    return KV_OK;
}

/* ---- Arrays that are read later -------------------------------------------------------------- */

/* Elements that a checkpoint holds as they are in memory. */
typedef struct tensor_source {
    array_source base;
    checkpoint *file; /* a reference */
    int64_t i;        /* the tensor */
    const char *sum;  /* see checkpoint_later_set_sum */
} tensor_source;

/* Compares all elements with their sum, and those of BOOL with 0 and 1. */
static int check_elements(const tensor_source *s, const void *data, kv_err *e)
{
    const tensor_info *t = &s->file->tensors[s->i];
    const input *in = &s->file->files[t->file];
    const unsigned char *bytes = data;
    char sum[17];
    if (s->sum) {
        snprintf(sum, sizeof sum, "%016" PRIx64, xxh64(data, (size_t)t->bytes));
        if (strncmp(sum, s->sum, 16) != 0)
            return input_changed(in, e);
    }
    for (int64_t i = 0; t->type == TENSOR_BOOL && i < t->elements; i++)
        if (bytes[i] > 1)
            return refuse(s->file, t, bytes + i, 0, i, e);
    return KV_OK;
}

static int read_later(const array_source *source, void *to, int64_t at, int64_t n, kv_err *e)
{
    const tensor_source *s = (const tensor_source *)source;
    const tensor_info *t = &s->file->tensors[s->i];
    const input *in = &s->file->files[t->file];
    for (int64_t done = 0, some; done < n; done += some) {
        some = at_most(n - done, LATER_BLOCK);
        TRY(input_read(in, (char *)to + done, t->offset + at + done, some, e));
        TRY(n > LATER_BLOCK ? stop_check(e) : KV_OK);
    }
    TRY(input_check_same(in, e));
    return n == t->bytes ? check_elements(s, to, e) : KV_OK;
}

static int64_t find_hole(const array_source *source, int64_t at, int64_t n)
{
    const tensor_source *s = (const tensor_source *)source;
    const tensor_info *t = &s->file->tensors[s->i];
    return input_hole(&s->file->files[t->file], t->offset + at, n);
}

static void release_source(array_source *source)
{
    checkpoint_close(((tensor_source *)source)->file);
    mem_free(source);
}

int checkpoint_load_later(kv_array **out, const checkpoint *c, int64_t i, kv_err *e)
{
    const tensor_info *t = &c->tensors[i];
    kv_dtype dtype;
    if (t->form != 0 || t->member || !tensor_type_dtype(t->type, &dtype) ||
        t->type != tensor_type_of(dtype) || c->files[t->file].fd < 0)
        return checkpoint_load(out, c, i, e);
    tensor_source *s = mem_alloc(1, sizeof *s, e);
    if (!s)
        return KV_E_MEMORY;
    *s = (tensor_source){{1, read_later, find_hole, release_source}, (checkpoint *)c, i, NULL};
    __atomic_fetch_add(&s->file->refs, 1, __ATOMIC_RELAXED);
    int rc = array_new_later(out, dtype, t->ndim, t->shape, &s->base, e);
    array_source_unref(&s->base);
    return rc;
}

static tensor_source *later_source(const kv_array *a)
{
    array_source *s = array_source_of(a);
    return s && s->read == read_later ? (tensor_source *)s : NULL;
}

void checkpoint_later_set_sum(kv_array *a, const char *sum)
{
    tensor_source *s = later_source(a);
    if (s)
        s->sum = sum;
}

const char *checkpoint_later_sum(const kv_array *a)
{
    const tensor_source *s = later_source(a);
    return s ? s->sum : NULL;
}

int64_t checkpoint_later_place(const kv_array *a, uint64_t *inode)
{
    const tensor_source *s = later_source(a);
    const tensor_info *t = s ? &s->file->tensors[s->i] : NULL;
    *inode = t ? s->file->files[t->file].inode : 0;
    return t ? t->offset : 0;
}

int checkpoint_load_name(kv_array **out, const checkpoint *c, const char *name, kv_err *e)
{
    int64_t i = checkpoint_find(c, name);
    if (i < 0)
        return file_bad(e, KV_E_NAME, c->name, "there is no tensor \"%.*s\"", SHOWN(name));
    return checkpoint_load(out, c, i, e);
}
