/* Takes keys from the checkpoint file of an earlier run. The store of the file stays in memory
 * beside the worker's own until all its keys and states were taken. */
#include "distributed/checkpoint_kept.h"

#include "base/file.h"
#include "base/kv_assert.h"
#include "core/store.h"
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
    return kv_err_hint(e, "without the file the job begins anew");
}

int64_t checkpoint_round(const worker *w, const kv_key *key)
{
    const slot *s = find_kept(w, key);
    return s ? s->pushes : 0;
}

void checkpoint_drop_kept(job_checkpoint *c)
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
    checkpoint_drop_kept(&w->checkpoint);
}
