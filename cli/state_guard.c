/* Comparing the store to be saved with the file as it was loaded. */
#include "state.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "session/result.h"

/* ---- Noting ---------------------------------------------------------------------------------- */

static int note_metadata(void *arg, const kv_field *fields, int n, kv_err *e)
{
    state_guard *g = arg;
    const char *copies[2];
    (void)n;
    for (int i = 0; i < 2; i++)
        if (!(copies[i] = arena_text(&g->memory, fields[i].text, strlen(fields[i].text), e)))
            return KV_E_MEMORY;
    if (mem_grow(&g->metadata, &g->metadata_cap, g->nmetadata + 1, sizeof *g->metadata, e))
        return KV_E_MEMORY;
    g->metadata[g->nmetadata++] = (kv_opt){copies[0], copies[1]};
    return KV_OK;
}

int state_guard_take(state_guard *g, kv *store, kv_err *e)
{
    int64_t n = kv_num_keys(store);
    kv_info info;
    g->foreign = kv_is_foreign(store);
    g->keys = mem_alloc(n, sizeof *g->keys, e);
    int rc = g->keys ? kv_describe(store, "metadata", note_metadata, g, e) : KV_E_MEMORY;
    for (; g->nkeys < n && rc == KV_OK; g->nkeys++) {
        if ((rc = kv_info_at(store, g->nkeys, &info, e)))
            break;
        if (info.key.name &&
            !(info.key.name = arena_text(&g->memory, info.key.name, strlen(info.key.name), e)))
            return KV_E_MEMORY;
        g->keys[g->nkeys] = (state_key){info.key, info.pushes, info.updates, info.states};
    }
    return rc;
}

void state_guard_release(state_guard *g)
{
    arena_release(&g->memory);
    mem_free(g->keys);
    mem_free(g->metadata);
    *g = (state_guard){0};
}

/* ---- Checking -------------------------------------------------------------------------------- */

enum { NAMED = 3 }; /* keys that an error names */

typedef struct key_count {
    buf names; /* of the first */
    int64_t n;
} key_count;

static void count_key(key_count *c, kv_key key)
{
    if (c->n < NAMED) {
        buf_add(&c->names, c->n ? ", " : "");
        show_key(&c->names, key);
    } else if (c->n == NAMED) {
        buf_add(&c->names, ", …");
    }
    c->n++;
}

/* The error for keys that would be gone, if there are any. Releases them. done: what was not. */
static int refuse_gone(key_count *gone, const char *path, const char *done, kv_err *e)
{
    int rc = KV_OK;
    if (gone->n > 0) {
        rc = kv_err_set(e, KV_E_KEY, "%lld key%s of \"%s\" would be gone: %.300s",
                        (long long)gone->n, gone->n == 1 ? "" : "s", path, buf_text(&gone->names));
        kv_err_hint(e, "nothing was %s; --force drops them, create --name x makes a store beside "
                       "that of the file", done);
    }
    buf_release(&gone->names);
    return rc;
}

int state_guard_foresee(const state_guard *g, const effect_keys *script, const char *path,
                        kv_err *e)
{
    key_count gone = {0};
    for (int64_t i = 0; i < g->nkeys && script->replaces && !script->any; i++)
        if (map_get(&script->keys, g->keys[i].key) < 0)
            count_key(&gone, g->keys[i].key);
    return refuse_gone(&gone, path, "run", e);
}

int state_guard_updater(void *arg, const kv_field *fields, int n, kv_err *e)
{
    (void)e;
    snprintf(arg, STATE_UPDATER, "%s", field_text(fields, n, "updater"));
    return KV_OK;
}

/* Adds what changed of a file of another tool, beside values. */
static int tell_changes(kv *store, bool same, buf *out, kv_err *e)
{
    char updater[STATE_UPDATER] = "assign";
    key_count added = {0}, sparse = {0};
    int rc = kv_describe(store, "store", state_guard_updater, updater, e);
    for (int64_t i = 0; i < kv_num_keys(store) && rc == KV_OK; i++) {
        kv_info info;
        if ((rc = kv_info_at(store, i, &info, e)))
            break;
        if (!info.loaded)
            count_key(&added, info.key);
        if (info.storage == KV_ROW_SPARSE)
            count_key(&sparse, info.key);
    }
    if (!same)
        buf_add(out, "create made another store");
    else if (added.n > 0)
        buf_printf(out, "%lld new key%s: %.200s", (long long)added.n, added.n == 1 ? "" : "s",
                   buf_text(&added.names));
    else if (sparse.n > 0)
        buf_printf(out, "row_sparse now: %.200s", buf_text(&sparse.names));
    else if (strcmp(updater, "assign") != 0)
        buf_add(out, "it would keep an updater");
    buf_release(&added.names);
    buf_release(&sparse.names);
    return rc ? rc : buf_check(out, e);
}

int state_guard_check(const state_guard *g, kv *store, bool same, const char *path, kv_err *e)
{
    buf changes = {0};
    key_count gone = {0};
    kv_info info;
    for (int64_t i = 0; i < g->nkeys && !same; i++) /* delete and rename are meant */
        if (kv_find(store, &g->keys[i].key, &info, &(kv_err){0}))
            count_key(&gone, g->keys[i].key);
    int rc = refuse_gone(&gone, path, "written", e);
    if (rc || !g->foreign)
        return rc;
    rc = tell_changes(store, same, &changes, e);
    if (rc == KV_OK && changes.len > 0) {
        rc = kv_err_set(e, KV_E_KEY, "\"%s\" is another tool's file, and not only values of its "
                        "keys changed: %.300s", path, buf_text(&changes));
        kv_err_hint(e, "nothing was written; --force makes it kvctl's, which other tools can read "
                       "all the same");
    }
    buf_release(&changes);
    return rc;
}

/* ---- Counting -------------------------------------------------------------------------------- */

/* was: the key in the file, or NULL; is: in the store, or NULL. */
static void count_difference(const state_key *was, const kv_info *is, state_changes *c)
{
    bool before = was && was->states > 0, now = is && is->states > 0;
    bool pushed = was && is && (is->pushes != was->pushes || !is->loaded);
    bool updated = was && is && (is->updates != was->updates || is->states != was->states);
    c->changed += pushed;
    c->added += !was;
    c->gone += !is;
    c->states += (before || now) && (!was || !is || pushed || updated);
}

int state_guard_compare(const state_guard *g, kv *store, state_changes *out, kv_err *e)
{
    map places = {0};
    int64_t n = store ? kv_num_keys(store) : 0;
    char *met = mem_zalloc(g->nkeys, 1, e);
    int rc = met ? KV_OK : KV_E_MEMORY;
    *out = (state_changes){0};
    for (int64_t i = 0; i < g->nkeys && rc == KV_OK; i++)
        rc = map_put(&places, g->keys[i].key, i, e);
    for (int64_t i = 0; i < n && rc == KV_OK; i++) {
        kv_info info;
        if ((rc = kv_info_at(store, i, &info, e)))
            break;
        int64_t at = map_get(&places, info.key);
        if (at >= 0)
            met[at] = 1;
        count_difference(at < 0 ? NULL : &g->keys[at], &info, out);
    }
    for (int64_t i = 0; i < g->nkeys && rc == KV_OK; i++)
        if (!met[i])
            count_difference(&g->keys[i], NULL, out);
    map_release(&places);
    mem_free(met);
    return rc;
}

void state_changes_text(const state_changes *c, bool follows, buf *out)
{
    const struct {
        int64_t n;
        const char *word;
    } parts[] = {{c->changed, "changed"}, {c->added, "new"}, {c->gone, "deleted"}};
    size_t begin = out->len;
    for (size_t i = 0; i < 3; i++) {
        const char *plural = parts[i].n == 1 ? "" : "s";
        if (parts[i].n == 0)
            continue;
        if (out->len > begin)
            buf_printf(out, ", %lld %s", (long long)parts[i].n, parts[i].word);
        else if (i == 0 && !follows)
            buf_printf(out, "%lld key%s changed", (long long)parts[i].n, plural);
        else
            buf_printf(out, "%lld %s key%s", (long long)parts[i].n, parts[i].word, plural);
    }
    if (c->states > 0)
        buf_printf(out, "%sstates of %lld key%s", out->len > begin ? "; " : "",
                   (long long)c->states, c->states == 1 ? "" : "s");
    if (out->len == begin)
        buf_add(out, "only its updater, or counts");
}

/* ---- Saving ---------------------------------------------------------------------------------- */

int state_guard_save(const state_guard *g, kv *store, bool same, bool as_own, const char *path,
                     kv_err *e)
{
    int rc = KV_OK;
    for (int64_t i = 0; !same && i < g->nmetadata && rc == KV_OK; i++)
        rc = kv_set_metadata(store, g->metadata[i].name, g->metadata[i].value, e);
    if (rc)
        return rc;
    return g->foreign && !as_own ? kv_save_arrays(store, path, e) : kv_save(store, path, e);
}
