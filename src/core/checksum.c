/* Sums of tensors and of texts, out and in. */
#include "core/checksum.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/xxh64.h"

#define OURS     "kvstore."
#define TOTAL    "kvstore.xxh64"
#define TENSOR   "kvstore.xxh64."
#define SUM_TEXT (22 * KV_MAX_NDIM + 60) /* digits, a dtype, a shape */

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

bool checksum_has(const char *name)
{
    return strcmp(name, TOTAL) == 0 || begins(name, TENSOR);
}

/* ---- Sums ------------------------------------------------------------------------------------ */

/* "44bc2cf5ad770999 float32 (2, 3)" */
static int sum_array(char out[SUM_TEXT], kv_array *a, kv_err *e)
{
    const void *data;
    int rc = kv_array_read(a, &data, e);
    if (rc)
        return rc;
    int n = snprintf(out, SUM_TEXT, "%016" PRIx64 " %s ", xxh64(data, (size_t)kv_array_bytes(a)),
                     kv_dtype_name(kv_array_dtype(a)));
    kv_shape_text(out + n, (size_t)(SUM_TEXT - n), kv_array_ndim(a), kv_array_shape(a));
    return KV_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const safetensors_pair *const *)a)->name,
                  (*(const safetensors_pair *const *)b)->name);
}

/* Of n texts, whose order changes. */
static int sum_texts(char out[SUM_TEXT], const safetensors_pair **texts, int64_t n, kv_err *e)
{
    buf all = {0};
    qsort(texts, (size_t)n, sizeof *texts, by_name);
    for (int64_t i = 0; i < n; i++) {
        buf_put(&all, texts[i]->name, strlen(texts[i]->name) + 1);
        buf_put(&all, texts[i]->text, strlen(texts[i]->text) + 1);
    }
    int rc = buf_check(&all, e);
    if (!rc)
        snprintf(out, SUM_TEXT, "%016" PRIx64, xxh64(all.data, all.len));
    buf_release(&all);
    return rc;
}

static bool is_summed(const char *name)
{
    return begins(name, OURS) && strcmp(name, TOTAL) != 0;
}

/* ---- Writing --------------------------------------------------------------------------------- */

static int add_total(image *im, kv_err *e)
{
    char sum[SUM_TEXT];
    int64_t n = 0;
    const safetensors_pair **texts = mem_alloc(im->nmetadata, sizeof *texts, e);
    if (!texts)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < im->nmetadata; i++)
        if (is_summed(im->metadata[i].name))
            texts[n++] = &im->metadata[i];
    int rc = sum_texts(sum, texts, n, e);
    mem_free(texts);
    return rc ? rc : image_text(im, TOTAL, "", sum, e);
}

int checksum_add(image *im, kv_err *e)
{
    char sum[SUM_TEXT];
    int rc = KV_OK;
    for (int64_t i = 0; i < im->n && !rc; i++) {
        rc = sum_array(sum, im->items[i].array, e);
        if (!rc)
            rc = image_text(im, TENSOR, im->items[i].name, sum, e);
    }
    return rc ? rc : add_total(im, e);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static int damaged(kv_err *e, const char *path, const char *what, const char *name)
{
    kv_err_set(e, KV_E_FORMAT, "%s: the file is damaged: %s%.80s%s not what was written", path,
               what, name, *name ? "\" are" : " are");
    kv_err_hint(e, "use a copy of it; a tool that changes a file on purpose leaves the metadata "
                   "\"" TOTAL "\" and \"" TENSOR "…\" out");
    return KV_E_FORMAT;
}

int checksum_check(const safetensors *f, const char *path, kv_err *e)
{
    char sum[SUM_TEXT];
    int64_t n = 0, count = safetensors_metadata_count(f);
    bool tensors = false;
    const char *total = safetensors_metadata(f, TOTAL);
    const safetensors_pair **texts = mem_alloc(count, sizeof *texts, e);
    if (!texts)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < count; i++) {
        const safetensors_pair *p = safetensors_metadata_at(f, i);
        tensors |= begins(p->name, TENSOR);
        if (is_summed(p->name))
            texts[n++] = p;
    }
    int rc = total ? sum_texts(sum, texts, n, e) : KV_OK;
    mem_free(texts);
    if (!rc && (total ? strcmp(total, sum) != 0 : tensors))
        rc = damaged(e, path, "its metadata", "");
    return rc;
}

int checksum_load(kv_array **out, const safetensors *f, int64_t i, const char *path, kv_err *e)
{
    char name[sizeof TENSOR + KV_KEY_MAX + 256], sum[SUM_TEXT];
    const char *tensor = safetensors_at(f, i)->name;
    kv_array *a;
    if (!safetensors_metadata(f, TOTAL))
        return safetensors_load(out, f, i, e);
    snprintf(name, sizeof name, TENSOR "%s", tensor);
    const char *want = safetensors_metadata(f, name);
    int rc = safetensors_load(&a, f, i, e);
    if (rc)
        return rc;
    if ((rc = sum_array(sum, a, e)) == KV_OK && (!want || strcmp(want, sum) != 0))
        rc = damaged(e, path, "the data of \"", tensor);
    if (rc)
        kv_array_unref(a);
    else
        *out = a;
    return rc;
}
