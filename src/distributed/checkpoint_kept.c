/* Takes keys and states from the checkpoint file of an earlier run. The store of the file stays in
 * memory beside the worker's own until all of them were taken. */
#include "distributed/checkpoint_kept.h"

#include "base/file.h"
#include "base/kv_assert.h"
#include "core/store_file.h"
#include "distributed/worker.h"

static const slot *find_kept(const worker *w, const kv_key *key)
{
    const kv *kept = w->checkpoint.kept;
    int64_t i = kept ? slot_find(&kept->slots, key, -1) : -1;
    return i < 0 ? NULL : &kept->slots.items[i];
}

int checkpoint_value(const worker *w, const kv_key *key, kv_array *given, kv_array **out, kv_err *e)
{
    char text[SLOT_KEY_TEXT];
    const slot *s = find_kept(w, key);
    *out = s ? s->stored : given;
    if (!s || (s->stored->dtype == given->dtype && s->stored->storage == given->storage &&
               kv_array_same_shape(s->stored, given)))
        return KV_OK;
    file_bad(e, KV_E_VALUE, w->checkpoint.path,
             "key %s has another shape or dtype in it than this value", slot_key_text(text, key));
    kv_err_key(e, key);
    return kv_err_hint(e, "without the file the job begins anew"), KV_E_VALUE;
}

int64_t checkpoint_round(const worker *w, const kv_key *key)
{
    const slot *s = find_kept(w, key);
    return s ? s->pushes : 0;
}

/* Frees the values and states of the file if all of them were taken. */
static void drop_kept(job_checkpoint *c)
{
    if (c->left > 0 || c->has_states)
        return;
    kv_free(c->kept);
    c->kept = NULL;
}

void checkpoint_know(worker *w, int64_t number)
{
    slot *s = &w->store->slots.items[number];
    const slot *kept = find_kept(w, &s->key);
    if (!kept)
        return;
    s->pushes = kept->pushes;
    s->updates = kept->updates;
    kv_assert(w->checkpoint.left > 0, "key %lld of the store is in a file without keys left",
              (long long)number);
    w->checkpoint.left--;
    drop_kept(&w->checkpoint);
}

/* Checks that the file has the optimizer and compression in use, and no key that the job lacks. */
static int check_kept(const worker *w, kv_err *e)
{
    char text[SLOT_KEY_TEXT];
    const job_checkpoint *c = &w->checkpoint;
    const kv *kept = c->kept, *mine = w->store;
    const char *theirs = updater_name(&kept->updater);
    if (mine->updater.kind != UPDATER_RULE || strcmp(theirs, updater_name(&mine->updater)) != 0)
        return file_bad(e, KV_E_VALUE, c->path,
                        "it holds the states of %.80s, which is not the optimizer in use", theirs);
    if (!compression_same(&kept->compression, &mine->compression))
        return file_bad(e, KV_E_VALUE, c->path, "gradients were compressed in another way");
    for (int64_t i = 0; i < kept->slots.n; i++)
        if (slot_find(&mine->slots, &kept->slots.items[i].key, i) < 0)
            return file_bad(e, KV_E_VALUE, c->path,
                            "it holds key %s, which was not initialised before the first push",
                            slot_key_text(text, &kept->slots.items[i].key));
    return KV_OK;
}

int checkpoint_read_states(worker *w, kv_err *e)
{
    job_checkpoint *c = &w->checkpoint;
    store_file f;
    if (!kv_assert(c->kept, "the states of round %lld are to be read, and no file was",
                   (long long)c->rounds))
        return kv_assert_report(e);
    int rc = check_kept(w, e);
    if (rc || (rc = store_file_open(&f, c->path, e)))
        return rc;
    rc = store_file_fill_states(&f, w->store, e);
    for (int64_t i = 0; i < w->store->slots.n && !rc; i++) {
        slot *s = &w->store->slots.items[i];
        int64_t there = slot_find(&c->kept->slots, &s->key, i);
        if (there >= 0) /* an optimizer that was set behind init has begun to count anew */
            s->updates = c->kept->slots.items[there].updates;
    }
    store_file_close(&f);
    return rc;
}

void checkpoint_drop_states(worker *w)
{
    w->checkpoint.has_states = false;
    drop_kept(&w->checkpoint);
}
