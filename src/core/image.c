/* Collecting tensors and texts, and writing them. */
#include "core/image.h"

#include <string.h>

#include "base/file.h"
#include "core/checksum.h"

static const char *joined(image *im, const char *prefix, const char *name, kv_err *e)
{
    size_t n = strlen(prefix), m = strlen(name);
    char *both = arena_alloc(&im->memory, n + m + 1, e);
    if (both) {
        memcpy(both, prefix, n);
        memcpy(both + n, name, m);
    }
    return both;
}

int image_text(image *im, const char *prefix, const char *name, const char *text, kv_err *e)
{
    int64_t n = im->nmetadata;
    int rc = mem_grow(&im->metadata, &im->metadata_cap, n + 1, sizeof *im->metadata, e);
    const char *whole = rc ? NULL : joined(im, prefix, name, e);
    const char *copy = whole ? arena_text(&im->memory, text, strlen(text), e) : NULL;
    if (!copy)
        return KV_E_MEMORY;
    im->metadata[im->nmetadata++] = (safetensors_pair){whole, copy};
    return KV_OK;
}

int image_array(image *im, const char *prefix, const char *name, kv_array *array, kv_err *e)
{
    int rc = mem_grow(&im->items, &im->cap, im->n + 1, sizeof *im->items, e);
    const char *whole = rc ? NULL : joined(im, prefix, name, e);
    if (!whole)
        return KV_E_MEMORY;
    im->items[im->n++] = (safetensors_item){whole, kv_array_ref(array)};
    return KV_OK;
}

int image_write(image *im, const char *path, kv_err *e)
{
    file_out out;
    int rc = im->plain ? KV_OK : checksum_add(im, e);
    if (!rc)
        rc = file_out_open(&out, path, e);
    if (rc)
        return rc;
    file_out_clean(&out);
    rc = safetensors_write(out.f, path, im->items, im->n, im->metadata, im->nmetadata, e);
    if (rc)
        file_out_abandon(&out);
    else
        rc = file_out_commit(&out, e);
    return rc;
}

void image_release(image *im)
{
    for (int64_t i = 0; i < im->n; i++)
        kv_array_unref(im->items[i].array);
    mem_free(im->items);
    mem_free(im->metadata);
    arena_release(&im->memory);
    *im = (image){0};
}
