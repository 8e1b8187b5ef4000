/* The public functions for stores and states in files. */
#include <string.h>

#include "base/kv_assert.h"
#include "base/mem.h"
#include "checkpoint/params.h"
#include "core/state_file.h"
#include "core/store_file.h"
#include "entry.h"
#include "kvstore.h"
#include "runtime.h"

/* Writes an image that was taken under the lock, and releases it. */
static int write_image(image *im, const char *path, kv_err *e)
{
    int rc = image_write(im, path, e);
    image_release(im);
    return kv_assert_check(rc, e);
}

static int save(kv *store, const char *path, int (*take)(image *im, const kv *store, kv_err *e),
                kv_err *e)
{
    image im;
    TRY(args_store(store, e));
    TRY(arg_given(path, "path", e));
    TRY(store_enter_idle(store, e));
    TRY(store_leave(store, take(&im, store, e), e));
    return write_image(&im, path, e);
}

int kv_save(kv *store, const char *path, kv_err *e)
{
    return save(store, path, store_file_take, e);
}

int kv_save_arrays(kv *store, const char *path, kv_err *e)
{
    return save(store, path, store_file_take_arrays, e);
}

int kv_set_metadata(kv *store, const char *name, const char *text, kv_err *e)
{
    TRY(args_store(store, e));
    TRY(arg_given(name, "name", e));
    TRY(arg_given(text, "text", e));
    TRY(store_enter(store, e));
    return store_leave(store, store_file_remark(store, name, text, e), e);
}

bool kv_is_foreign(const kv *store)
{
    return store->foreign;
}

/* The store that a file asks for. A name that was registered when it was saved, and is not now,
 * stands for its base. */
static int make_loaded(kv **made, const store_file *f, kv_err *e)
{
    int rc = kv_create(f->type, NULL, 0, made, e);
    kv_err unused = {0};
    if (rc != KV_E_UNSUPPORTED || !f->base || !runtime_is_name(f->type) ||
        kv_create(f->base, NULL, 0, made, &unused))
        return rc;
    kv *s = *made;
    *e = (kv_err){0};
    s->base = s->base ? s->base : s->ops->names[0];
    s->type = arena_text(&s->remarks, f->type, strlen(f->type), e);
    if (s->type)
        return KV_OK;
    s->type = s->base;
    kv_free(s);
    *made = NULL;
    return KV_E_MEMORY;
}

static int load(kv **store, const char *path, bool later, kv_err *e)
{
    OWN(store_file_close) store_file f = {0};
    kv *made = NULL;
    kv_err why = {0};
    e = e ? e : &(kv_err){0};
    TRY(arg_given(store, "store", e));
    TRY(arg_given(path, "path", e));
    TRY(store_file_open(&f, path, e));
    f.later = later;
    int rc = make_loaded(&made, &f, &why);
    if (rc) {
        kv_err_set(e, (kv_code)rc, "%s: %s", path, why.text);
        kv_err_hint(e, "%s", why.hint);
    } else if ((rc = store_file_fill(&f, made, e))) {
        kv_free(made);
    } else {
        *store = made;
    }
    return kv_assert_check(rc, e);
}

int kv_load(kv **store, const char *path, kv_err *e)
{
    return load(store, path, false, e);
}

int kv_load_later(kv **store, const char *path, kv_err *e)
{
    return load(store, path, true, e);
}

int kv_save_list(const char *path, const kv_key *keys, int64_t n, kv_array *const *arrays,
                 kv_err *e)
{
    bool has_names = false;
    TRY(arg_given(path, "path", e));
    TRY(args_pairs(&(kv_pairs){keys, arrays, n}, "keys", "arrays", e));
    own_mem char(*numbers)[32] = mem_alloc(n, sizeof *numbers, e);
    own_mem const char **names = mem_alloc(n, sizeof *names, e);
    TRY(numbers && names ? KV_OK : KV_E_MEMORY);
    for (int64_t i = 0; i < n; i++) {
        names[i] = image_key(numbers[i], &keys[i]);
        has_names |= keys[i].name || keys[i].id != i;
    }
    return kv_assert_check(params_save(path, names, has_names, n, arrays, e), e);
}

int kv_load_list(const char *path,
                 int (*visit)(void *arg, const char *name, kv_array *array, kv_err *e), void *arg,
                 kv_err *e)
{
    own_checkpoint *c = NULL;
    TRY(arg_given(path, "path", e));
    TRY(arg_given(visit, "visit", e));
    TRY(checkpoint_open(&c, path, &(checkpoint_options){.entries = true}, e));
    return kv_assert_check(params_load(c, visit, arg, e), e);
}

/* The arguments of reading or writing the states of a store. */
typedef struct states_use {
    kv *store;
    const char *path;
    image *im;
    uint32_t flags;
    updater gone;
} states_use;

static int take_states(void *arg, kv_err *e)
{
    states_use *v = arg;
    return state_file_take(v->im, v->store, v->flags, e);
}

static int write_states(void *arg, kv_err *e)
{
    states_use *v = arg;
    TRY(take_states(v, e));
    return write_image(v->im, v->path, e);
}

/* If this process has all the states, other threads may use the store while they are written. */
int kv_save_states(kv *store, const char *path, uint32_t flags, kv_err *e)
{
    image im;
    if (flags & ~KV_DUMP_OPTIMIZER)
        return kv_err_set(e, KV_E_VALUE, "kv_save_states has no flags 0x%x", flags);
    states_use v = {.store = store, .path = path, .im = &im, .flags = flags};
    TRY(args_can(store, KV_CAN_STATES, e));
    TRY(arg_given(path, "path", e));
    if (store->ops->visit_states)
        return store_visit_states(store, KV_STATES_SAVE, write_states, &v, e);
    TRY(store_visit_states(store, KV_STATES_SAVE, take_states, &v, e));
    return write_image(&im, path, e);
}

static int read_states(void *arg, kv_err *e)
{
    states_use *v = arg;
    own_checkpoint *f = NULL;
    TRY(checkpoint_open(&f, v->path, NULL, e));
    return state_file_load(v->store, f, v->path, false, &v->gone, e);
}

int kv_load_states(kv *store, const char *path, kv_err *e)
{
    states_use v = {.store = store, .path = path};
    int rc = args_can(store, KV_CAN_STATES, e);
    if (!rc && (rc = arg_given(path, "path", e)) == KV_OK)
        rc = store_visit_states(store, KV_STATES_LOAD, read_states, &v, e);
    updater_release(&v.gone);
    return rc;
}
