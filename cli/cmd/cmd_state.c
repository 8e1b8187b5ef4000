/* Transactions in a session: begin, commit, rollback. They concern the store in use; variables,
 * files and what was printed are no part of them. */
#include "cmd/commands.h"
#include "session/unit.h"

typedef int store_call(kv *store, kv_err *e);

static int with_store(session *s, const ast *call, store_call *run, kv_err *e)
{
    kv *store;
    int code = session_store(s, &store, e);
    if (code == KV_OK)
        code = run(store, e);
    return code ? unit_at(s, call, e) : KV_OK;
}

int cmd_begin(session *s, const ast *call, result *out, kv_err *e)
{
    (void)out;
    return with_store(s, call, kv_begin, e);
}

int cmd_commit(session *s, const ast *call, result *out, kv_err *e)
{
    (void)out;
    return with_store(s, call, kv_commit, e);
}

int cmd_rollback(session *s, const ast *call, result *out, kv_err *e)
{
    (void)out;
    return with_store(s, call, kv_rollback, e);
}
