/* The end of a transaction, and the file of -s in the middle of a run: commit, rollback. */
#include <string.h>

#include "cmd/commands.h"
#include "session/follow.h"
#include "session/unit.h"

/* Writes the file of -s. It holds the store of this moment, also when a transaction is open. */
static int to_disk(session *s, kv_err *e)
{
    if (!s->state.path) {
        kv_err_set(e, KV_E_VALUE, "there is no file of -s to be written");
        return kv_err_hint(e, "save FILE writes the store to a file of its own"), KV_E_VALUE;
    }
    const char *used = s->stores[s->current].name;
    if (strcmp(used, "kv") != 0) {
        kv_err_set(e, KV_E_VALUE, "\"%s\" keeps the store kv, and %s is in use", s->state.path,
                   used);
        return kv_err_hint(e, "save FILE writes the store in use"), KV_E_VALUE;
    }
    return session_would(s, "write", s->state.path) ? KV_OK : s->state.save(s->state.arg, s, e);
}

/* First to the disk: when that fails the transaction is open as before. Where another process wrote
 * the file meanwhile, the store in use is a new one, without a transaction. */
int cmd_commit(session *s, const ast *call, result *out, kv_err *e)
{
    kv *store;
    bool disk = command_option_of(call, "disk") != NULL;
    (void)out;
    if (session_store(s, &store, e) || (disk && to_disk(s, e)) || session_store(s, &store, e))
        return e->code;
    bool open = kv_in_transaction(store);
    if ((disk && !open) || kv_commit(store, e))
        return e->code;
    follow_commit(s);
    return KV_OK;
}

/* Without a transaction the store of -s goes back to what its file holds. */
int cmd_rollback(session *s, const ast *call, result *out, kv_err *e)
{
    kv *store;
    (void)out, (void)call;
    if (session_store(s, &store, e))
        return e->code;
    bool open = kv_in_transaction(store);
    if (!open && s->state.path && strcmp(s->stores[s->current].name, "kv") == 0)
        return s->state.go_back(s->state.arg, s, e);
    int code = kv_rollback(store, e);
    return code ? code : follow_rollback(s, e);
}
