/* Collecting tensors and texts, their checksums, and the texts of keys. */
#include "core/image.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array/device.h"
#include "base/file.h"
#include "base/kv_assert.h"
#include "base/num.h"
#include "base/stop.h"
#include "base/xxh64.h"
#include "checkpoint/in_place.h"
#include "checkpoint/scales.h"

#define TOTAL    "kvstore.xxh64"
#define TENSOR   "kvstore.xxh64."
#define SUM_BLOCK ((int64_t)256 << 10) /* stays in a processor's cache */
#define SUM_TEXT (22 * KV_MAX_NDIM + 60) /* digits, a dtype, a shape */

/* ---- Texts ----------------------------------------------------------------------------------- */

bool image_begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

bool image_is_checksum(const char *name)
{
    return strcmp(name, TOTAL) == 0 || image_begins(name, TENSOR);
}

int image_unknown(const char *path, const char *name, kv_err *e)
{
    file_bad(e, KV_E_FORMAT, path, "it holds \"%.80s\", which this version does not know", name);
    kv_err_hint(e, "a later version wrote it");
    return KV_E_FORMAT;
}

const char *image_count(const char *text, int64_t *n)
{
    bool over = false;
    size_t len = strcspn(text, " ");
    if (len == 0 || num_parse_int(text, len, n, &over) != len || over || *n < 0)
        return NULL;
    return text + len + (text[len] == ' ');
}

/* ---- Keys ------------------------------------------------------------------------------------ */

const char *image_key(char number[32], const kv_key *key)
{
    if (key->name)
        return key->name;
    number[num_int(number, key->id)] = '\0';
    return number;
}

const char *image_key_type(const slot_table *t)
{
    return t->n == 0 ? "none" : t->items[0].key.name ? "text" : "integer";
}

bool image_integer_key(const char *text, kv_key *key)
{
    char again[32];
    bool over = false;
    size_t n = strlen(text);
    return n > 0 && num_parse_int(text, n, &key->id, &over) == n && !over &&
           strcmp(image_key(again, key), text) == 0;
}

int64_t image_slot(const slot_table *t, const char *text, size_t n, int64_t guess)
{
    char name[KV_KEY_MAX + 1];
    kv_key key = {0};
    if (t->n == 0 || n > KV_KEY_MAX)
        return -1;
    memcpy(name, text, n);
    name[n] = '\0';
    if (t->items[0].key.name)
        key.name = name;
    else if (!image_integer_key(name, &key))
        return -1;
    return slot_find(t, &key, guess);
}

/* ---- Collecting ------------------------------------------------------------------------------ */

static const char *joined(image *im, const char *prefix, const char *name)
{
    size_t n = strlen(prefix), m = strlen(name);
    char *both = arena_alloc(&im->memory, n + m + 1, &im->why);
    if (both) {
        memcpy(both, prefix, n);
        memcpy(both + n, name, m);
    }
    return both;
}

void image_text(image *im, const char *prefix, const char *name, const char *text)
{
    if (im->why.code || mem_grow(&im->metadata, &im->metadata_cap, im->nmetadata + 1,
                                 sizeof *im->metadata, &im->why))
        return;
    const char *whole = joined(im, prefix, name);
    const char *copy = whole ? arena_text(&im->memory, text, strlen(text), &im->why) : NULL;
    if (copy)
        im->metadata[im->nmetadata++] = (checkpoint_text){whole, copy};
}

void image_array(image *im, const char *prefix, const char *name, kv_array *array)
{
    if (im->why.code || mem_grow(&im->items, &im->cap, im->n + 1, sizeof *im->items, &im->why))
        return;
    const char *whole = joined(im, prefix, name);
    array_source *later = array_source_of(array);
    if (!whole)
        return;
    if (!later) /* else one of its own: the store's may read its elements meanwhile */
        kv_array_ref(array);
    else if (array_new_later(&array, kv_array_dtype(array), kv_array_ndim(array),
                             kv_array_shape(array), later, &im->why))
        return;
    im->items[im->n++] = (safetensors_item){whole, array};
}

void image_buf(image *im, const char *prefix, const char *name, buf *b)
{
    if (buf_check(b, &im->why) == KV_OK)
        image_text(im, prefix, name, buf_text(b));
    buf_release(b);
}

int image_finish(image *im, kv_err *e)
{
    kv_err why = im->why;
    if (!why.code)
        return KV_OK;
    image_release(im);
    if (e && !e->code)
        *e = why;
    return why.code;
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

/* ---- Sums ------------------------------------------------------------------------------------ */

/* The sum of elements that nobody has read. */
static int sum_source(uint64_t *sum, const array_source *s, int64_t n, kv_err *e)
{
    xxh64_parts parts;
    int rc = KV_OK;
    char *block = mem_alloc(SUM_BLOCK, 1, e);
    if (!block)
        return KV_E_MEMORY;
    xxh64_begin(&parts);
    for (; n > SUM_BLOCK && !rc; n -= SUM_BLOCK) {
        rc = s->read(s, block, (int64_t)parts.n, SUM_BLOCK, e);
        rc = rc ? rc : stop_check(e);
        xxh64_add(&parts, block, SUM_BLOCK);
    }
    if (!rc && !(rc = s->read(s, block, (int64_t)parts.n, n, e)))
        *sum = xxh64_end(&parts, block, (size_t)n);
    mem_free(block);
    return rc;
}

/* "44bc2cf5ad770999 float32 (2, 3)" */
static int sum_array(char out[SUM_TEXT], kv_array *a, kv_err *e)
{
    const void *data;
    uint64_t sum = 0;
    const array_source *later = array_source_of(a);
    int rc = later ? sum_source(&sum, later, kv_array_bytes(a), e) : kv_array_read(a, &data, e);
    if (rc)
        return rc;
    if (!later)
        sum = xxh64(data, (size_t)kv_array_bytes(a));
    int n = snprintf(out, SUM_TEXT, "%016" PRIx64 " %s ", sum, kv_dtype_name(kv_array_dtype(a)));
    kv_shape_text(out + n, (size_t)(SUM_TEXT - n), kv_array_ndim(a), kv_array_shape(a));
    return KV_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const checkpoint_text *const *)a)->name,
                  (*(const checkpoint_text *const *)b)->name);
}

static bool is_summed(const char *name)
{
    return image_begins(name, IMAGE_OURS) && strcmp(name, TOTAL) != 0;
}

/* Of those texts that have one. */
static int sum_metadata(char out[SUM_TEXT], const checkpoint_text *pairs, int64_t n, kv_err *e)
{
    buf all = {0};
    int64_t summed = 0;
    const checkpoint_text **texts = mem_alloc(n, sizeof *texts, e);
    if (!texts)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < n; i++)
        if (is_summed(pairs[i].name))
            texts[summed++] = &pairs[i];
    qsort(texts, (size_t)summed, sizeof *texts, by_name);
    for (int64_t i = 0; i < summed; i++) {
        buf_put(&all, texts[i]->name, strlen(texts[i]->name) + 1);
        buf_put(&all, texts[i]->text, strlen(texts[i]->text) + 1);
    }
    int rc = buf_check(&all, e);
    if (!rc)
        snprintf(out, SUM_TEXT, "%016" PRIx64, xxh64(all.data, all.len));
    buf_release(&all);
    mem_free(texts);
    return rc;
}

static void add_sums(image *im)
{
    char sum[SUM_TEXT];
    for (int64_t i = 0; i < im->n; i++) {
        const char *known = checkpoint_later_sum(im->items[i].array);
        if (known || sum_array(sum, im->items[i].array, &im->why) == KV_OK)
            image_text(im, TENSOR, im->items[i].name, known ? known : sum);
    }
    if (sum_metadata(sum, im->metadata, im->nmetadata, &im->why) == KV_OK)
        image_text(im, TOTAL, "", sum);
}

/* ---- Writing --------------------------------------------------------------------------------- */

static int write_around(const image *im, int fd, const char *path, kv_err *e)
{
    FILE *f;
    int rc = file_around_open(&f, fd, path, e);
    if (rc)
        return rc;
    rc = safetensors_write(f, path, im->items, im->n, im->metadata, im->nmetadata, e);
    return fclose(f) != 0 && !rc ? file_error(e, "write", path, errno) : rc;
}

int image_write(image *im, const char *path, kv_err *e)
{
    file_out out;
    if (!im->plain)
        add_sums(im);
    kv_assert(im->why.code || im->plain || im->nmetadata > im->n,
              "%lld tensors and their total have no more than %lld sums", (long long)im->n,
              (long long)im->nmetadata);
    int rc = image_finish(im, e);
    if (rc || (rc = file_out_open(&out, path, e)))
        return rc;
    file_out_clean(&out);
    if (im->around && out.temp)
        rc = write_around(im, fileno(out.f), path, e);
    else
        rc = safetensors_write(out.f, path, im->items, im->n, im->metadata, im->nmetadata, e);
    if (rc)
        file_out_abandon(&out);
    else if ((rc = file_out_commit(&out, e)) == KV_OK)
        in_place_forget(path);
    return rc;
}

int image_print(buf *out, const image *im, const char *name, kv_err *e)
{
    return safetensors_print(out, name, im->items, im->n, im->metadata, im->nmetadata, e);
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

int image_check(const checkpoint *f, const char *path, kv_err *e)
{
    char sum[SUM_TEXT];
    int64_t n = checkpoint_metadata_count(f);
    bool tensors = false;
    const char *total = checkpoint_metadata(f, TOTAL);
    for (int64_t i = 0; i < n; i++)
        tensors |= image_begins(checkpoint_metadata_at(f, i)->name, TENSOR);
    int rc = total ? sum_metadata(sum, checkpoint_metadata_at(f, 0), n, e) : KV_OK;
    if (!rc && (total ? strcmp(total, sum) != 0 : tensors))
        rc = damaged(e, path, "its metadata", "");
    return rc;
}

static int load(kv_array **out, const checkpoint *f, int64_t i, bool later, kv_err *e)
{
    return later ? checkpoint_load_later(out, f, i, e) : checkpoint_load(out, f, i, e);
}

int image_load(kv_array **out, const checkpoint *f, int64_t i, bool later, const char *path,
               kv_err *e)
{
    char sum[SUM_TEXT];
    buf name = {0};
    const char *tensor = checkpoint_at(f, i)->name;
    kv_array *a;
    if (!checkpoint_metadata(f, TOTAL)) { /* of another tool */
        scales found;
        return scales_find_of(&found, f, checkpoint_at(f, i)) ? scales_refuse(&found, false, e)
                                                              : load(out, f, i, later, e);
    }
    buf_printf(&name, TENSOR "%s", tensor);
    int rc = buf_check(&name, e);
    const char *want = rc ? NULL : checkpoint_metadata(f, buf_text(&name));
    buf_release(&name);
    if (rc || (rc = load(&a, f, i, later, e)))
        return rc;
    if ((rc = sum_array(sum, a, e)) == KV_OK && (!want || strcmp(want, sum) != 0))
        rc = damaged(e, path, "the data of \"", tensor);
    if (rc) {
        kv_array_unref(a);
        return rc;
    }
    checkpoint_later_set_sum(a, want);
    *out = a;
    return KV_OK;
}
