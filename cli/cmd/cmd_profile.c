/* profile: the operations of the store with their times. */
#include <stdio.h>
#include <string.h>

#include "cmd/commands.h"
#include "eval/eval.h"
#include "session/unit.h"
#include "session/visit.h"
#include "syntax/effect.h"

/* Waits for the pending operations, since they belong to the profile. */
int cmd_profile_end(session *s, kv_err *e)
{
    int code = KV_OK;
    if (!s->profiles)
        return KV_OK;
    s->profiles = false;
    for (int64_t i = 0; i < s->nstores; i++) {
        int waited = kv_wait(s->stores[i].store, e);
        code = code ? code : waited;
    }
    int stopped = kv_profile_stop(e);
    return code ? code : stopped;
}

static int begin(session *s, const char *name, kv_err *e)
{
    int code = safe_write(s, name, e);
    visit_end_profile(s);
    if (code || session_would(s, "write", name))
        return code;
    if ((code = kv_profile_start(name, e)) == KV_OK)
        s->profiles = true;
    else if (s->profiles)
        kv_err_hint(e, "profile off ends it");
    return code;
}

static int end(session *s, kv_err *e)
{
    if (s->dry_run)
        return KV_OK;
    if (s->profiles)
        return cmd_profile_end(s, e);
    kv_err_set(e, KV_E_VALUE, "no profile is being taken");
    return kv_err_hint(e, "profile FILE begins one"), KV_E_VALUE;
}

int cmd_profile(session *s, const ast *call, result *out, kv_err *e)
{
    const char *name = eval_file(s, call->kid[0], "a profile stands", out, e);
    if (!name)
        return e->code;
    if (s->guest) {
        s->guest->profile(s->guest->arg, strcmp(name, "off") == 0 ? NULL : name, e);
        return unit_at(s, call->kid[0], e);
    }
    int code = strcmp(name, "off") == 0 ? end(s, e) : begin(s, name, e);
    return code ? unit_at(s, call->kid[0], e) : KV_OK;
}
