/* Reading the mail, and finding the counts of a key in it. */
#include "distributed/newcomer.h"

#include <string.h>

#include "base/map.h"
#include "base/mem.h"

typedef struct newcomer {
    newcomer_counts head;
    char *mail; /* the texts of keys lie there */
    newcomer_key *keys;
    int64_t nkeys, cap;
    map index;
    const char *updater; /* in the mail */
    bool has_pushed;
} newcomer;

static int read_counts(newcomer *n, int64_t bytes, kv_err *e)
{
    const char *at = n->mail, *end = at + bytes;
    int rc = bytes < (int64_t)sizeof n->head ? ask_malformed(e) : KV_OK;
    if (!rc) {
        memcpy(&n->head, at, sizeof n->head);
        at += sizeof n->head;
        rc = n->head.updater < 0 || n->head.updater > end - at ? ask_malformed(e) : KV_OK;
        end -= rc ? 0 : n->head.updater;
    }
    n->updater = end;
    while (at < end && !rc) {
        kv_key key;
        if (!ask_get_key(&at, end, &key) || end - at < (int64_t)sizeof *n->keys)
            return ask_malformed(e);
        if ((rc = mem_grow(&n->keys, &n->cap, n->nkeys + 1, sizeof *n->keys, e)) ||
            (rc = map_put(&n->index, key, n->nkeys, e)))
            break;
        memcpy(&n->keys[n->nkeys++], at, sizeof *n->keys);
        at += sizeof *n->keys;
    }
    return rc;
}

int newcomer_new(worker *w, void *mail, int64_t bytes, kv_err *e)
{
    newcomer *n = w->newcomer = mem_zalloc(1, sizeof *n, e);
    if (!n) {
        mem_free(mail);
        return KV_E_MEMORY;
    }
    n->mail = mail;
    int rc = read_counts(n, bytes, e);
    w->checkpoint.rounds = n->head.rounds;
    w->checkpoint.saved = n->head.saved;
    return rc;
}

void newcomer_know(worker *w, int64_t number)
{
    newcomer *n = w->newcomer;
    slot *s = &w->store->slots.items[number];
    worker_key *k = &w->keys[number];
    int64_t i = n ? map_get(&n->index, s->key) : -1;
    if (i < 0)
        return;
    s->pushes = n->keys[i].rounds;
    s->updates = n->keys[i].updates;
    k->pushes = k->place.first == n->keys[i].first ? n->keys[i].pushes : 0; /* it has moved since */
}

void newcomer_push(worker *w)
{
    if (!newcomer_catches_up(w))
        return;
    w->newcomer->has_pushed = true;
    w->epochs = w->newcomer->head.epochs;
    w->moves = w->newcomer->head.moves;
}

bool newcomer_catches_up(const worker *w)
{
    return w->newcomer && !w->newcomer->has_pushed;
}

const char *newcomer_updater(const worker *w, int64_t *bytes)
{
    *bytes = w->newcomer->head.updater;
    return w->newcomer->updater;
}

void newcomer_release(worker *w)
{
    newcomer *n = w->newcomer;
    if (!n)
        return;
    map_release(&n->index);
    mem_free(n->keys);
    mem_free(n->mail);
    mem_free(n);
    w->newcomer = NULL;
}
