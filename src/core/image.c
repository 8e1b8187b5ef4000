/* Collecting tensors and texts, their checksums, and the texts of keys; rows and residuals. */
#include "core/image.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array/device.h"
#include "array/sparse.h"
#include "base/file.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/stop.h"
#include "base/utf8.h"
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

bool image_lists(const char *const *names, const char *name)
{
    while (*names && (utf8_ends_in(*names, ".") ? !image_begins(name, *names)
                                                : strcmp(name, *names) != 0))
        names++;
    return *names != NULL;
}

int image_check_names(const checkpoint *f, const char *path, const char *const *names,
                      const char *const *more, bool *ours, kv_err *e)
{
    static const char *const always[] = {TOTAL, TENSOR, COMPRESSION_PART, NULL};
    *ours = false;
    for (int64_t i = 0; i < checkpoint_metadata_count(f); i++) {
        const char *name = checkpoint_metadata_at(f, i)->name;
        if (!image_begins(name, IMAGE_OURS))
            continue;
        *ours = true;
        if (image_lists(always, name) || image_lists(names, name) || image_lists(more, name))
            continue;
        file_bad(e, KV_E_FORMAT, path, "it holds \"%.80s\", which this version does not know",
                 name);
        return kv_err_hint(e, "a later version wrote it"), KV_E_FORMAT;
    }
    return KV_OK;
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
    XXH64_state_t parts;
    own_mem char *block = mem_alloc(SUM_BLOCK, 1, e);
    if (!block)
        return KV_E_MEMORY;
    XXH64_reset(&parts, 0);
    for (int64_t at = 0; at < n; at += SUM_BLOCK) {
        int64_t some = n - at < SUM_BLOCK ? n - at : SUM_BLOCK;
        TRY(s->read(s, block, at, some, e));
        TRY(stop_check(e));
        XXH64_update(&parts, block, (size_t)some);
    }
    *sum = XXH64_digest(&parts);
    return KV_OK;
}

/* "44bc2cf5ad770999 float32 (2, 3)" */
static int sum_array(char out[SUM_TEXT], kv_array *a, kv_err *e)
{
    const void *data;
    uint64_t sum = 0;
    const array_source *later = array_source_of(a);
    TRY(later ? sum_source(&sum, later, kv_array_bytes(a), e) : kv_array_read(a, &data, e));
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

/* Of those texts that have one. */
static int sum_metadata(char out[SUM_TEXT], const checkpoint_text *pairs, int64_t n, kv_err *e)
{
    own_buf all = {0};
    int64_t summed = 0;
    own_mem const checkpoint_text **texts = mem_alloc(n, sizeof *texts, e);
    if (!texts)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < n; i++)
        if (image_begins(pairs[i].name, IMAGE_OURS) && strcmp(pairs[i].name, TOTAL) != 0)
            texts[summed++] = &pairs[i];
    qsort(texts, (size_t)summed, sizeof *texts, by_name);
    for (int64_t i = 0; i < summed; i++) {
        buf_put(&all, texts[i]->name, strlen(texts[i]->name) + 1);
        buf_put(&all, texts[i]->text, strlen(texts[i]->text) + 1);
    }
    TRY(buf_check(&all, e));
    snprintf(out, SUM_TEXT, "%016" PRIx64, xxh64(all.data, all.len));
    return KV_OK;
}

/* ---- Writing --------------------------------------------------------------------------------- */

static int write_around(const image *im, int fd, const char *path, kv_err *e)
{
    FILE *f;
    TRY(file_around_open(&f, fd, path, e));
    int rc = safetensors_write(f, path, im->items, im->n, im->metadata, im->nmetadata, e);
    return fclose(f) != 0 && !rc ? file_error(e, "write", path, errno) : rc;
}

int image_write(image *im, const char *path, kv_err *e)
{
    file_out out;
    if (!im->plain) {
        char sum[SUM_TEXT];
        for (int64_t i = 0; i < im->n; i++) {
            const char *known = checkpoint_later_sum(im->items[i].array);
            if (known || sum_array(sum, im->items[i].array, &im->why) == KV_OK)
                image_text(im, TENSOR, im->items[i].name, known ? known : sum);
        }
        if (sum_metadata(sum, im->metadata, im->nmetadata, &im->why) == KV_OK)
            image_text(im, TOTAL, "", sum);
    }
    kv_assert(im->why.code || im->plain || im->nmetadata > im->n,
              "%lld tensors and their total have no more than %lld sums", (long long)im->n,
              (long long)im->nmetadata);
    TRY(image_finish(im, e));
    TRY(file_out_open(&out, path, e));
    file_out_clean(&out);
    int rc = KV_OK;
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
    TRY(total ? sum_metadata(sum, checkpoint_metadata_at(f, 0), n, e) : KV_OK);
    if (total ? strcmp(total, sum) != 0 : tensors)
        return damaged(e, path, "its metadata", "");
    return KV_OK;
}

static int load(kv_array **out, const checkpoint *f, int64_t i, bool later, kv_err *e)
{
    return later ? checkpoint_load_later(out, f, i, e) : checkpoint_load(out, f, i, e);
}

int image_load(kv_array **out, const checkpoint *f, int64_t i, bool later, const char *path,
               kv_err *e)
{
    char sum[SUM_TEXT];
    own_buf name = {0};
    const char *tensor = checkpoint_at(f, i)->name;
    own_array *a = NULL;
    if (!checkpoint_metadata(f, TOTAL)) { /* of another tool */
        scales found;
        return scales_find_of(&found, f, checkpoint_at(f, i)) ? scales_refuse(&found, false, e)
                                                              : load(out, f, i, later, e);
    }
    buf_printf(&name, TENSOR "%s", tensor);
    TRY(buf_check(&name, e));
    const char *want = checkpoint_metadata(f, buf_text(&name));
    TRY(load(&a, f, i, later, e));
    TRY(sum_array(sum, a, e));
    if (!want || strcmp(want, sum) != 0)
        return damaged(e, path, "the data of \"", tensor);
    checkpoint_later_set_sum(a, want);
    *out = a;
    a = NULL;
    return KV_OK;
}

/* ---- Values as parts of a file ----
 *
 * Rows and residuals in files. Reading puts each tensor in its place; a place that stays empty is a
 * gap. */

#define IDS    "/row_ids"
#define DATA   "/data"
#define PREFIX "__residual__/"

/* ---- Rows: writing ---- */

static void add_array(image *im, const char *key, const char *end, kv_array *a)
{
    char name[KV_KEY_MAX + sizeof IDS];
    snprintf(name, sizeof name, "%s%s", key, end);
    image_array(im, ROW_PARTS_PREFIX, name, a);
}

void row_parts_add(image *im, const char *key, kv_array *stored)
{
    char rows[NUM_TEXT_MAX];
    kv_array *ids, *data;
    if (sparse_parts(&ids, &data, stored, &im->why))
        return;
    add_array(im, key, IDS, ids);
    add_array(im, key, DATA, data);
    num_int(rows, kv_array_shape(stored)[0]);
    image_text(im, ROWS_PART, key, rows);
    kv_array_unref(ids);
    kv_array_unref(data);
}

/* ---- Rows: names ---- */

row_part row_parts_kind(const char *name)
{
    if (strncmp(name, ROW_PARTS_PREFIX, strlen(ROW_PARTS_PREFIX)) != 0)
        return ROW_PART_NONE;
    name += strlen(ROW_PARTS_PREFIX);
    return utf8_ends_in(name, IDS)    ? ROW_PART_IDS
           : utf8_ends_in(name, DATA) ? ROW_PART_DATA
                                      : ROW_PART_NONE;
}

const char *row_parts_key(arena *memory, const char *name, kv_err *e)
{
    const char *begin = name + strlen(ROW_PARTS_PREFIX);
    const char *end = strrchr(begin, '/');
    return arena_text(memory, begin, (size_t)(end - begin), e);
}

/* ---- Rows: reading ---- */

/* Finds the number of rows and the tensor of data that belong to a tensor of ids. */
static int find_others(const checkpoint *f, const char *path, const char *ids_name, int64_t *rows,
                       int64_t *data, kv_err *e)
{
    own_buf name = {0};
    int n = (int)(strlen(ids_name) - strlen(IDS)), prefix = (int)strlen(ROW_PARTS_PREFIX);
    buf_printf(&name, "%.*s" DATA, n, ids_name);
    TRY(buf_check(&name, e));
    *data = checkpoint_find(f, buf_text(&name));
    buf_clear(&name);
    buf_printf(&name, ROWS_PART "%.*s", n - prefix, ids_name + prefix);
    TRY(buf_check(&name, e));
    const char *text = checkpoint_metadata(f, buf_text(&name));
    const char *rest = text ? image_count(text, rows) : NULL;
    if (*data < 0)
        return file_bad(e, KV_E_FORMAT, path, "the tensor \"%.80s\" has no data beside it",
                        ids_name);
    if (!text)
        return file_bad(e, KV_E_FORMAT, path, "the metadata have no \"%.80s\"", buf_text(&name));
    if (!rest || *rest)
        return file_bad(e, KV_E_FORMAT, path, "\"%.80s\" is not a number of rows", buf_text(&name));
    return KV_OK;
}

int row_parts_check(const checkpoint *f, const char *path, kv_err *e)
{
    int64_t ids = 0, data = 0, texts = 0, rows, other;
    for (int64_t i = 0; i < checkpoint_metadata_count(f); i++)
        texts += image_begins(checkpoint_metadata_at(f, i)->name, ROWS_PART);
    for (int64_t i = 0; i < checkpoint_count(f); i++) {
        const char *name = checkpoint_at(f, i)->name;
        row_part kind = row_parts_kind(name);
        ids += kind == ROW_PART_IDS;
        data += kind == ROW_PART_DATA;
        if (kind == ROW_PART_IDS)
            TRY(find_others(f, path, name, &rows, &other, e));
    }
    if (data > ids)
        return file_bad(e, KV_E_FORMAT, path, "it has rows without their ids");
    if (texts > ids)
        return file_bad(e, KV_E_FORMAT, path, "it says how many rows keys have that are not there");
    return KV_OK;
}

/* Makes the array of the key: ids and data are of one shape and dtype that fit each other. */
static int join(kv_array **out, const char *path, const char *name, int64_t rows, kv_array *ids,
                kv_array *data, kv_err *e)
{
    int64_t n = kv_array_size(ids), shape[KV_MAX_NDIM] = {0};
    int ndim = kv_array_ndim(data);
    const void *given;
    void *to;
    kv_err why = {0};
    kv_array *a;
    if (kv_array_dtype(ids) != KV_INT64 || kv_array_ndim(ids) != 1)
        return file_bad(e, KV_E_FORMAT, path, "the tensor \"%.80s\" is not a list of row ids",
                        name);
    if (ndim < 1 || kv_array_shape(data)[0] != n)
        return file_bad(e, KV_E_FORMAT, path,
                        "\"%.80s\" has %lld ids, its data another number of rows", name,
                        (long long)n);
    memcpy(shape, kv_array_shape(data), (size_t)ndim * sizeof *shape);
    shape[0] = rows;
    TRY(kv_array_read(ids, &given, e));
    int rc =
        kv_array_new_sparse(&a, kv_array_dtype(data), ndim, shape, n, given, (kv_ctx){0}, &why);
    if (rc)
        return rc == KV_E_MEMORY ? kv_err_set(e, KV_E_MEMORY, "%s", why.text)
                                 : file_bad(e, KV_E_FORMAT, path, "\"%.80s\": %s", name, why.text);
    if ((rc = kv_array_read(data, &given, e)) == KV_OK &&
        (rc = kv_array_write_rows(a, &to, e)) == KV_OK)
        memcpy(to, given, (size_t)kv_array_bytes(data));
    return array_give(rc, out, a);
}

/* The rows and their ids, two tensors, are copied into one array, so they are never read later. */
int row_parts_load(kv_array **out, const checkpoint *f, const char *path, int64_t i, kv_err *e)
{
    const char *name = checkpoint_at(f, i)->name;
    own_array *ids = NULL, *data = NULL;
    int64_t rows, other;
    TRY(find_others(f, path, name, &rows, &other, e));
    TRY(image_load(&ids, f, i, false, path, e));
    TRY(image_load(&data, f, other, false, path, e));
    return join(out, path, name, rows, ids, data, e);
}

/* ---- Residuals: writing ---- */

void residual_parts_add(image *im, const compression *c, const slot_table *t)
{
    char text[COMPRESSION_TEXT], number[32], name[KV_KEY_MAX + 32];
    if (!c->code)
        return;
    image_text(im, COMPRESSION_PART, "", compression_print(text, c));
    for (int64_t i = 0; i < t->n; i++) {
        const residuals *r = t->items[i].residuals;
        const char *key = image_key(number, &t->items[i].key);
        for (int64_t j = 0; r && j < r->n; j++) {
            snprintf(name, sizeof name, "%s/%lld", key, (long long)j);
            image_array(im, PREFIX, name, r->items[j]);
        }
    }
}

/* ---- Residuals: reading ---- */

/* The position at the end of a name, or NULL. States, whose names end in a word, have none. */
static const char *position_of(const char *name)
{
    const char *slash = strrchr(name, '/');
    size_t n = strlen(PREFIX);
    if (strncmp(name, PREFIX, n) != 0 || slash < name + n || !slash[1] ||
        slash[1 + strspn(slash + 1, "0123456789")])
        return NULL;
    return slash + 1;
}

bool residual_parts_is(const char *name)
{
    return position_of(name) != NULL;
}

typedef struct reader {
    residual_parts *p;
    const checkpoint *f;
    const char *path;
    const slot_table *t;
    int64_t last; /* the slot found last */
    kv_err *e;
} reader;

static int bad(const reader *r, const char *name, const char *what)
{
    return kv_err_set(r->e, KV_E_FORMAT, "%s: the tensor \"%.80s\" is %s", r->path, name, what);
}

/* Finds the slot and the position. A position is smaller than the number of tensors, so that what
 * it makes room for is bounded by the file. */
static int find_place(reader *r, const char *name, int64_t *number, int64_t *at)
{
    const char *position = position_of(name), *key = name + strlen(PREFIX);
    bool over = false;
    size_t n = (size_t)(position - key) - 1;
    *number = r->last = image_slot(r->t, key, n, r->last + 1);
    if (*number < 0)
        return bad(r, name, "a residual of no key");
    num_parse_int(position, strlen(position), at, &over);
    if (over || *at >= checkpoint_count(r->f) || (position[0] == '0' && position[1]))
        return bad(r, name, "no position in a list of values");
    return KV_OK;
}

static int check_form(const reader *r, const tensor_info *t, const kv_array *stored)
{
    bool same = t->type == TENSOR_F32 && t->ndim == stored->ndim;
    for (int i = 0; i < t->ndim && same; i++)
        same = t->shape[i] == array_shape(stored)[i];
    return same ? KV_OK : bad(r, t->name, "not float32 in the shape of its key");
}

static int read_tensor(reader *r, int64_t i)
{
    const tensor_info *t = checkpoint_at(r->f, i);
    kv_array **to;
    int64_t number, at;
    TRY(find_place(r, t->name, &number, &at));
    TRY(check_form(r, t, r->t->items[number].stored));
    TRY(residuals_place(&r->p->items[number], at, &to, r->e));
    /* At once: a gradient that is pushed changes all residuals of its key. */
    return image_load(to, r->f, i, false, r->path, r->e);
}

/* No position is missing. */
static int check_slot(const reader *r, int64_t number)
{
    const residuals *owed = r->p->items[number];
    for (int64_t i = 0; owed && i < owed->n; i++)
        if (!owed->items[i])
            return kv_err_set(r->e, KV_E_FORMAT,
                              "%s: the residual of key %s at position %lld is missing", r->path,
                              SLOT_KEY(&r->t->items[number].key), (long long)i);
    return KV_OK;
}

int residual_parts_read(residual_parts *p, const checkpoint *f, const char *path,
                        const slot_table *t, kv_err *e)
{
    own_residual_parts made = {0};
    reader r = {&made, f, path, t, -1, e};
    const char *setting = checkpoint_metadata(f, COMPRESSION_PART);
    if (!(made.items = mem_zalloc(t->n, sizeof *made.items, e)))
        return KV_E_MEMORY;
    made.n = t->n;
    if (setting && !compression_parse(&made.how, setting))
        return kv_err_set(e, KV_E_FORMAT,
                          "%s: \"" COMPRESSION_PART "\" is \"%.40s\", no type and threshold", path,
                          setting);
    for (int64_t i = 0; i < checkpoint_count(f); i++) {
        const char *name = checkpoint_at(f, i)->name;
        if (residual_parts_is(name))
            TRY(made.how.code ? read_tensor(&r, i) : bad(&r, name, "a residual that nobody uses"));
    }
    for (int64_t i = 0; i < t->n; i++)
        TRY(check_slot(&r, i));
    *p = made;
    made = (residual_parts){0};
    return KV_OK;
}

void residual_parts_commit(residual_parts *p, slot_table *t)
{
    kv_assert(p->n == t->n, "residuals of %lld keys are taken by a store that has %lld",
              (long long)p->n, (long long)t->n);
    for (int64_t i = 0; i < p->n && i < t->n; i++) {
        residuals *old = t->items[i].residuals;
        t->items[i].residuals = p->items[i];
        p->items[i] = old;
    }
    residual_parts_release(p); /* it holds the old ones now */
}

void residual_parts_release(residual_parts *p)
{
    for (int64_t i = 0; i < p->n; i++)
        residuals_free(p->items[i]);
    mem_free(p->items);
    *p = (residual_parts){0};
}
