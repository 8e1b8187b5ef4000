/* The frame around the parts: which optimizer and which keys the states are of. */
#include "core/state_file.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/kv_assert.h"
#include "core/state_parts.h"
#include "core/value_parts.h"

#define FORMAT     "1"
#define STATES     "kvstore.states"
#define OPTIMIZER  "kvstore.optimizer"
#define KEY_TYPE   "kvstore.key_type"
#define KEY        "kvstore.key."
#define SHAPE_TEXT (22 * KV_MAX_NDIM + 3) /* holds every shape */

int state_file_check(const kv *store, kv_err *e)
{
    if (!store->in_slots && !store->ops->visit_states)
        return kv_err_set(e, KV_E_UNSUPPORTED, "stores of type \"%s\" keep no states here",
                          store->type);
    switch (store->updater.kind) {
    case UPDATER_ASSIGN:
        kv_err_set(e, KV_E_VALUE, "no optimizer is in use, so there are no states");
        kv_err_hint(e, "kv_set_optimizer sets one");
        return KV_E_VALUE;
    case UPDATER_CALLBACK:
        return kv_err_set(e, KV_E_UNSUPPORTED,
                          "the updater is a function of the program, so there are no states");
    case UPDATER_RULE:
        return KV_OK;
    }
    kv_assert(false, "an updater of kind %d is none that there is", (int)store->updater.kind);
    return kv_assert_report(e);
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* "float32 (2, 3)" */
static void print_form(buf *out, const slot *s)
{
    char shape[SHAPE_TEXT];
    const kv_array *a = s->stored;
    kv_shape_text(shape, sizeof shape, kv_array_ndim(a), kv_array_shape(a));
    buf_printf(out, "%s %s", kv_dtype_name(kv_array_dtype(a)), shape);
}

static void add_key(image *im, const slot *s)
{
    char number[32];
    buf text = {0};
    buf_printf(&text, "%lld ", (long long)s->updates);
    print_form(&text, s);
    image_buf(im, KEY, image_key(number, &s->key), &text);
}

int state_file_take(image *im, const kv *store, bool dump, kv_err *e)
{
    const slot_table *t = &store->slots;
    int rc = state_file_check(store, e);
    *im = (image){0};
    if (rc)
        return rc;
    image_text(im, STATES, "", FORMAT);
    image_text(im, OPTIMIZER, "", updater_name(&store->updater));
    image_text(im, KEY_TYPE, "", image_key_type(t));
    for (int64_t i = 0; i < t->n; i++)
        add_key(im, &t->items[i]);
    state_parts_add(im, store->updater.optimizer, t, "");
    residual_parts_add(im, &store->compression, t);
    if (dump)
        state_parts_add_rule(im, store->updater.optimizer);
    return image_finish(im, e);
}

/* ---- Reading --------------------------------------------------------------------------------- */

typedef struct reader {
    const kv *store;
    const checkpoint *f;
    const char *path;
    kv_err *e;
} reader;

static int check_format(const reader *r)
{
    const char *format = checkpoint_metadata(r->f, STATES);
    if (!format && checkpoint_metadata(r->f, "kvstore.format")) {
        file_bad(r->e, KV_E_FORMAT, r->path, "a whole store, not the states of an optimizer");
        kv_err_hint(r->e, "kv_load, or kvctl -s, reads it");
        return KV_E_FORMAT;
    }
    if (!format)
        return file_bad(r->e, KV_E_FORMAT, r->path,
                        "no states of an optimizer: the metadata have no \"" STATES "\"");
    if (strcmp(format, FORMAT) == 0)
        return KV_OK;
    file_bad(r->e, KV_E_FORMAT, r->path,
             "states in format \"%.20s\", this version reads format " FORMAT, format);
    kv_err_hint(r->e, "a later version wrote it");
    return KV_E_FORMAT;
}

static int check_names(const reader *r)
{
    for (int64_t i = 0; i < checkpoint_metadata_count(r->f); i++) {
        const char *name = checkpoint_metadata_at(r->f, i)->name;
        bool known = !image_begins(name, IMAGE_OURS) || strcmp(name, STATES) == 0 ||
                     strcmp(name, OPTIMIZER) == 0 || strcmp(name, KEY_TYPE) == 0 ||
                     strcmp(name, COMPRESSION_PART) == 0 || image_begins(name, KEY) ||
                     state_parts_has(name) || image_is_checksum(name);
        if (!known)
            return image_unknown(r->path, name, r->e);
    }
    return KV_OK;
}

static int check_optimizer(const reader *r)
{
    const char *name = checkpoint_metadata(r->f, OPTIMIZER),
               *mine = updater_name(&r->store->updater);
    if (!name)
        return file_bad(r->e, KV_E_FORMAT, r->path, "the metadata have no \"" OPTIMIZER "\"");
    if (checkpoint_metadata(r->f, RULE_PART) || strcmp(name, mine) == 0)
        return KV_OK;
    file_bad(r->e, KV_E_VALUE, r->path, "states of %.80s, the optimizer in use is %.80s", name,
             mine);
    if (strcmp(name, "rule") != 0) /* which stands for one without a name */
        kv_err_hint(r->e, "kv_set_optimizer %.80s comes first", name);
    return KV_E_VALUE;
}

static int check_key_type(const reader *r)
{
    const char *type = checkpoint_metadata(r->f, KEY_TYPE),
               *mine = image_key_type(&r->store->slots);
    if (!type)
        return file_bad(r->e, KV_E_FORMAT, r->path, "the metadata have no \"" KEY_TYPE "\"");
    if (strcmp(type, "none") == 0 || strcmp(mine, "none") == 0 || strcmp(type, mine) == 0)
        return KV_OK; /* keys that are missing are named later */
    return file_bad(r->e, KV_E_KEY, r->path, "states of %.20s keys, this store has %s keys", type,
                    mine);
}

/* dtype or shape of the file differ from those of the key. */
static int other_form(const reader *r, const slot *s, const char *form)
{
    char shape[SHAPE_TEXT];
    const kv_array *a = s->stored;
    size_t n = strcspn(form, " ");
    const char *dtype = kv_dtype_name(kv_array_dtype(a));
    const char *key = SLOT_KEY(&s->key);
    kv_shape_text(shape, sizeof shape, kv_array_ndim(a), kv_array_shape(a));
    if (strlen(dtype) != n || memcmp(dtype, form, n) != 0)
        return file_bad(r->e, KV_E_DTYPE, r->path, "key %s is %.*s in it, %s in this store", key,
                   n > 20 ? 20 : (int)n, form, dtype);
    return file_bad(r->e, KV_E_SHAPE, r->path,
                    "key %s has shape %.120s in it, %.120s in this store", key,
                    form + n + (form[n] == ' '), shape);
}

static int missing_key(const reader *r, const char *name)
{
    file_bad(r->e, KV_E_KEY, r->path, "it has the key \"%.80s\", this store does not", name);
    return kv_err_hint(r->e, "the values come first: init, or the file that kept the store"),
           KV_E_KEY;
}

/* "5 float32 (2, 3)" */
static int read_key(const reader *r, const char *name, const char *text, int64_t *last,
                    int64_t *updates)
{
    int64_t i = *last = image_slot(&r->store->slots, name, strlen(name), *last + 1), t;
    if (i < 0)
        return missing_key(r, name);
    const char *form = image_count(text, &t);
    if (!form || !*form)
        return file_bad(r->e, KV_E_FORMAT, r->path,
                        "\"" KEY "%.80s\" is not a count, dtype and shape", name);
    buf mine = {0};
    print_form(&mine, &r->store->slots.items[i]);
    int rc = buf_check(&mine, r->e);
    if (!rc && strcmp(buf_text(&mine), form) != 0)
        rc = other_form(r, &r->store->slots.items[i], form);
    buf_release(&mine);
    updates[i] = t;
    return rc;
}

/* updates[i] becomes the count of slot i. All keys are there, and no others. */
static int read_keys(const reader *r, int64_t *updates)
{
    int rc = check_key_type(r);
    int64_t last = -1;
    for (int64_t i = 0; i < r->store->slots.n; i++)
        updates[i] = -1;
    for (int64_t i = 0; i < checkpoint_metadata_count(r->f) && !rc; i++) {
        const checkpoint_text *p = checkpoint_metadata_at(r->f, i);
        if (image_begins(p->name, KEY))
            rc = read_key(r, p->name + strlen(KEY), p->text, &last, updates);
    }
    for (int64_t i = 0; i < r->store->slots.n && !rc; i++)
        if (updates[i] < 0)
            rc = file_bad(r->e, KV_E_KEY, r->path, "it has no states of key %s",
                     SLOT_KEY(&r->store->slots.items[i].key));
    return rc;
}

/* Reads the residuals of compressed gradients; the store must compress as it did when the file was
 * written. */
static int read_residuals(const reader *r, residual_parts *owed)
{
    char theirs[COMPRESSION_TEXT], mine[COMPRESSION_TEXT];
    const compression *c = &r->store->compression;
    int rc = residual_parts_read(owed, r->f, r->path, &r->store->slots, r->e);
    if (rc || !owed->how.code || compression_same(&owed->how, c))
        return rc;
    file_bad(r->e, KV_E_VALUE, r->path, "residuals of compression %s, that of this store is %s",
        compression_print(theirs, &owed->how), compression_print(mine, c));
    kv_err_hint(r->e, "kv_set_gradient_compression");
    residual_parts_release(owed);
    return KV_E_VALUE;
}

/* Everything was read: from here on nothing fails. */
static void commit(kv *store, updater *next, state_parts *parts, residual_parts *owed,
                   const int64_t *updates, updater *gone)
{
    if (next->kind == UPDATER_RULE) {
        updater old = store->updater;
        store->updater = *next;
        *next = (updater){0};
        if (!transaction_keep_updater(&store->open, &old))
            *gone = old;
    }
    kv_assert(store->updater.optimizer, "states are taken by an updater of kind %d",
              (int)store->updater.kind);
    for (int64_t i = 0; i < store->slots.n; i++)
        store->slots.items[i].updates = updates[i];
    state_parts_commit(parts, store->updater.optimizer, &store->slots);
    residual_parts_commit(owed, &store->slots);
    store->changes++;
}

int state_file_load(kv *store, const checkpoint *f, const char *path, bool numbers_only,
                    updater *gone, kv_err *e)
{
    reader r = {store, f, path, e};
    updater next = {0};
    state_parts parts;
    residual_parts owed;
    int rc = state_file_check(store, e);
    if (rc || (rc = image_check(f, path, e)) || (rc = check_format(&r)) ||
        (rc = check_names(&r)) || (rc = check_optimizer(&r)))
        return rc;
    int64_t *updates = mem_alloc(store->slots.n, sizeof *updates, e);
    rc = updates ? read_keys(&r, updates) : KV_E_MEMORY;
    if (!rc && checkpoint_metadata(f, RULE_PART))
        rc = state_parts_read_rule(&next, f, path, e);
    optimizer *o = next.optimizer ? next.optimizer : store->updater.optimizer;
    if (!rc)
        rc = read_residuals(&r, &owed);
    if (!rc && (rc = state_parts_read(&parts, f, path, "", o, &store->slots, updates, numbers_only,
                                      false, e)))
        residual_parts_release(&owed);
    if (!rc)
        commit(store, &next, &parts, &owed, updates, gone);
    updater_release(&next);
    mem_free(updates);
    return rc;
}
