/* Reading puts each tensor in its place; a place that stays empty is a
 * gap. */
#include "core/residual_parts.h"

#include <stdio.h>
#include <string.h>

#include "base/kv_assert.h"
#include "base/mem.h"
#include "base/num.h"

#define PREFIX "__residual__/"

/* ---- Writing --------------------------------------------------------------------------------- */

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

/* ---- Reading --------------------------------------------------------------------------------- */

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
    int rc = find_place(r, t->name, &number, &at);
    if (rc || (rc = check_form(r, t, r->t->items[number].stored)) ||
        (rc = residuals_place(&r->p->items[number], at, &to, r->e)))
        return rc;
    /* At once: a gradient that is pushed changes all residuals of its key. */
    return image_load(to, r->f, i, false, r->path, r->e);
}

/* No position is missing. */
static int check_slot(const reader *r, int64_t number)
{
    char key[SLOT_KEY_TEXT];
    const residuals *owed = r->p->items[number];
    for (int64_t i = 0; owed && i < owed->n; i++)
        if (!owed->items[i])
            return kv_err_set(r->e, KV_E_FORMAT,
                              "%s: the residual of key %s at position %lld is missing", r->path,
                              slot_key_text(key, &r->t->items[number].key), (long long)i);
    return KV_OK;
}

static int read_setting(const reader *r)
{
    const char *text = checkpoint_metadata(r->f, COMPRESSION_PART);
    if (!text || compression_parse(&r->p->how, text))
        return KV_OK;
    return kv_err_set(r->e, KV_E_FORMAT,
                      "%s: \"" COMPRESSION_PART "\" is \"%.40s\", no type and threshold", r->path,
                      text);
}

static int read_all(reader *r)
{
    int rc = read_setting(r);
    for (int64_t i = 0; i < checkpoint_count(r->f) && !rc; i++) {
        const char *name = checkpoint_at(r->f, i)->name;
        if (!residual_parts_is(name))
            continue;
        rc = r->p->how.code ? read_tensor(r, i) : bad(r, name, "a residual that nobody uses");
    }
    for (int64_t i = 0; i < r->t->n && !rc; i++)
        rc = check_slot(r, i);
    return rc;
}

int residual_parts_read(residual_parts *p, const checkpoint *f, const char *path,
                        const slot_table *t, kv_err *e)
{
    *p = (residual_parts){.items = mem_zalloc(t->n, sizeof *p->items, e)};
    reader r = {p, f, path, t, -1, e};
    int rc = p->items ? KV_OK : KV_E_MEMORY;
    p->n = rc ? 0 : t->n;
    if (!rc)
        rc = read_all(&r);
    if (rc)
        residual_parts_release(p);
    return rc;
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
