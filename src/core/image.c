/* Collecting tensors and texts. */
#include "core/image.h"

#include <string.h>

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

void image_release(image *im)
{
    for (int64_t i = 0; i < im->n; i++)
        kv_array_unref(im->items[i].array);
    mem_free(im->items);
    mem_free(im->metadata);
    arena_release(&im->memory);
    *im = (image){0};
}
