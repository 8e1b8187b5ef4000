/* row_sparse keys in files. */
#include "core/row_parts.h"

#include <stdio.h>
#include <string.h>

#include "array/sparse.h"
#include "base/file.h"
#include "base/num.h"

#define ROWS "kvstore.rows."
#define IDS  "/row_ids"
#define DATA "/data"

/* ---- Writing --------------------------------------------------------------------------------- */

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
    image_text(im, ROWS, key, rows);
    kv_array_unref(ids);
    kv_array_unref(data);
}

/* ---- Names ----------------------------------------------------------------------------------- */

bool row_parts_has(const char *name)
{
    return strncmp(name, ROWS, strlen(ROWS)) == 0;
}

static bool ends(const char *name, const char *with)
{
    size_t n = strlen(name), m = strlen(with);
    return n >= m && strcmp(name + n - m, with) == 0;
}

row_part row_parts_kind(const char *name)
{
    if (strncmp(name, ROW_PARTS_PREFIX, strlen(ROW_PARTS_PREFIX)) != 0)
        return ROW_PART_NONE;
    name += strlen(ROW_PARTS_PREFIX);
    return ends(name, IDS) ? ROW_PART_IDS : ends(name, DATA) ? ROW_PART_DATA : ROW_PART_NONE;
}

const char *row_parts_key(arena *memory, const char *name, kv_err *e)
{
    const char *begin = name + strlen(ROW_PARTS_PREFIX);
    const char *end = strrchr(begin, '/');
    return arena_text(memory, begin, (size_t)(end - begin), e);
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* Finds the number of rows and the tensor of data that belong to a tensor of ids. */
static int find_others(const checkpoint *f, const char *path, const char *ids_name, int64_t *rows,
                       int64_t *data, kv_err *e)
{
    buf name = {0};
    int n = (int)(strlen(ids_name) - strlen(IDS)), prefix = (int)strlen(ROW_PARTS_PREFIX);
    buf_printf(&name, "%.*s" DATA, n, ids_name);
    int rc = buf_check(&name, e);
    *data = checkpoint_find(f, buf_text(&name));
    buf_clear(&name);
    buf_printf(&name, ROWS "%.*s", n - prefix, ids_name + prefix);
    rc = rc ? rc : buf_check(&name, e);
    const char *text = rc ? NULL : checkpoint_metadata(f, buf_text(&name));
    const char *rest = text ? image_count(text, rows) : NULL;
    if (!rc && *data < 0)
        rc = file_bad(e, KV_E_FORMAT, path, "the tensor \"%.80s\" has no data beside it", ids_name);
    else if (!rc && !text)
        rc = file_bad(e, KV_E_FORMAT, path, "the metadata have no \"%.80s\"", buf_text(&name));
    else if (!rc && (!rest || *rest))
        rc = file_bad(e, KV_E_FORMAT, path, "\"%.80s\" is not a number of rows", buf_text(&name));
    buf_release(&name);
    return rc;
}

int row_parts_check(const checkpoint *f, const char *path, kv_err *e)
{
    int64_t ids = 0, data = 0, texts = 0, rows, other;
    for (int64_t i = 0; i < checkpoint_metadata_count(f); i++)
        texts += row_parts_has(checkpoint_metadata_at(f, i)->name);
    for (int64_t i = 0; i < checkpoint_count(f); i++) {
        const char *name = checkpoint_at(f, i)->name;
        row_part kind = row_parts_kind(name);
        ids += kind == ROW_PART_IDS;
        data += kind == ROW_PART_DATA;
        if (kind == ROW_PART_IDS) {
            int rc = find_others(f, path, name, &rows, &other, e);
            if (rc)
                return rc;
        }
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
    int rc = kv_array_read(ids, &given, e);
    if (rc)
        return rc;
    if ((rc = kv_array_new_sparse(&a, kv_array_dtype(data), ndim, shape, n, given, (kv_ctx){0},
                                  &why)))
        return rc == KV_E_MEMORY ? kv_err_set(e, KV_E_MEMORY, "%s", why.text)
                                 : file_bad(e, KV_E_FORMAT, path, "\"%.80s\": %s", name, why.text);
    if ((rc = kv_array_read(data, &given, e)) == KV_OK &&
        (rc = kv_array_write_rows(a, &to, e)) == KV_OK)
        memcpy(to, given, (size_t)kv_array_bytes(data));
    if (rc)
        kv_array_unref(a);
    else
        *out = a;
    return rc;
}

/* The rows and their ids, two tensors, are copied into one array, so they are never read later. */
int row_parts_load(kv_array **out, const checkpoint *f, const char *path, int64_t i, kv_err *e)
{
    const char *name = checkpoint_at(f, i)->name;
    kv_array *ids = NULL, *data = NULL;
    int64_t rows, other;
    int rc = find_others(f, path, name, &rows, &other, e);
    if (rc == KV_OK && (rc = image_load(&ids, f, i, false, path, e)) == KV_OK &&
        (rc = image_load(&data, f, other, false, path, e)) == KV_OK)
        rc = join(out, path, name, rows, ids, data, e);
    kv_array_unref(ids);
    kv_array_unref(data);
    return rc;
}
