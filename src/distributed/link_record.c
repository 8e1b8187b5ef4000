/* The printer of records: one function a kind, in a table. */
#include "distributed/link_record.h"

#include <string.h>

#include "distributed/asks.h"
#include "distributed/environment.h"
#include "runtime.h"

static long long wide(int64_t n)
{
    return (long long)n;
}

static void print_part(buf *out, const link_rec *r)
{
    bool carries = r->kind == LINK_PUSH || r->kind == LINK_VALUE;
    buf_printf(out, " part %d, round %lld", r->part, wide(r->round));
    if (r->kind != LINK_PUSH)
        buf_printf(out, ", chunk %d", r->chunk);
    if (carries && r->flags & (LINK_CODES | LINK_CHANGES))
        buf_printf(out, ", elements %lld to %lld", wide(r->from), wide(r->from + r->n - 1));
    else if (carries)
        buf_printf(out, ", offset %lld of %lld", wide(r->from), wide(r->n));
    else
        buf_printf(out, ", priority %d", r->priority);
    if (r->kind == LINK_PUSH)
        buf_printf(out, ", pulls %lld", wide(r->pulls));
    if (r->kind == LINK_ADD)
        buf_printf(out, ", %s", kv_dtype_name((kv_dtype)r->dtype));
    if (r->kind == LINK_PULL && r->flags & LINK_CHANGES)
        buf_printf(out, ", since %lld", wide(r->from));
    if (r->state)
        buf_printf(out, ", array %d of states", r->state);
}

static void print_done(buf *out, const link_rec *r)
{
    buf_printf(out, ", pushes %lld", wide(r->n));
}

static void print_grown(buf *out, const link_rec *r)
{
    buf_printf(out, ": rank %lld, round %lld", wide(r->args.grow.rank), wide(r->args.grow.round));
}

static void print_failed(buf *out, const link_rec *r)
{
    kv_err e;
    buf_printf(out, " part %d", r->part);
    if (r->bytes != sizeof e)
        return;
    memcpy(&e, r + 1, sizeof e);
    buf_printf(out, " (%.*s)", (int)sizeof e.text, e.text);
}

static void print_call(buf *out, const link_rec *r)
{
    static const char *const names[] = {
        [ASK_CREATE] = "create",   [ASK_FREE] = "free",           [ASK_DONE] = "done",
        [ASK_INIT] = "init",       [ASK_DROP] = "drop",           [ASK_OPTIMIZER] = "optimizer",
        [ASK_COMMAND] = "command", [ASK_ROWS] = "rows",           [ASK_STATES] = "states",
        [ASK_SET_STATES] = "set states", [ASK_COUNTS] = "counts", [ASK_MISSED] = "missed",
        [ASK_ROUNDS] = "rounds",   [ASK_LOOK] = "look",           [ASK_GROW] = "grow",
        [ASK_KEYS] = "keys",
        [ASK_PLACE] = "place",     [ASK_READY] = "ready",         [ASK_FIND] = "find",
        [ASK_BARRIER] = "barrier", [ASK_EPOCH] = "epoch",         [ASK_SEND] = "send",
        [ASK_RECEIVE] = "receive"};
    const link_args *a = &r->args;
    int what = r->what;
    bool known = what >= 0 && what < (int)(sizeof names / sizeof *names);
    buf_printf(out, " %s", known ? names[what] : "unknown");
    switch (what) {
    case ASK_ROWS:
        buf_printf(out, " part %lld, round %lld", wide(a->rows.part), wide(a->rows.round));
        break;
    case ASK_LOOK:
        buf_printf(out, " part %lld", wide(a->look));
        break;
    case ASK_DROP:
        buf_printf(out, " %lld parts from %lld on", wide(a->drop.nparts), wide(a->drop.first));
        break;
    case ASK_SEND:
    case ASK_RECEIVE:
        buf_printf(out, " peer %lld, tag %lld", wide(a->mail.peer), wide(a->mail.tag));
        break;
    case ASK_COMMAND:
        buf_printf(out, " head %lld", wide(a->head));
        break;
    case ASK_GROW:
        buf_printf(out, " rank %lld, round %lld", wide(a->grow.rank), wide(a->grow.round));
        break;
    case ASK_EPOCH:
        buf_printf(out, " %lld optimizers", wide(a->optimizer.number));
        break;
    case ASK_BARRIER:
        if (a->barrier != ASK_MEET)
            buf_add(out, a->barrier == ASK_HOLD ? ", holds the others" : ", holds no longer");
        break;
    case ASK_DONE:
        buf_add(out, a->closes ? ", closes" : "");
        break;
    case ASK_INIT:
    case ASK_PLACE:
        buf_add(out, a->inits ? ", of the first worker's init" : "");
        break;
    case ASK_FIND:
        buf_add(out, a->any ? ", any key" : "");
        break;
    default:
        break;
    }
    buf_printf(out, ", offset %lld", wide(r->from));
}

void link_print(buf *out, const link_rec *r)
{
    static const struct {
        const char *name;
        void (*print)(buf *out, const link_rec *r); /* or NULL: there is nothing more to say */
        bool of_request;
    } kinds[] = {[LINK_SKIP] = {"skip", NULL, false},
                 [LINK_PUSH] = {"push", print_part, true},
                 [LINK_PULL] = {"pull", print_part, true},
                 [LINK_ADD] = {"add", print_part, true},
                 [LINK_CALL] = {"call", print_call, true},
                 [LINK_VALUE] = {"value", print_part, true},
                 [LINK_DONE] = {"done", print_done, true},
                 [LINK_REPLY] = {"reply", NULL, true},
                 [LINK_FAILED] = {"failed", print_failed, true},
                 [LINK_BEAT] = {"beat", NULL, false},
                 [LINK_LEFT] = {"left", NULL, false},
                 [LINK_LOST] = {"lost", NULL, false},
                 [LINK_GROWN] = {"grown", print_grown, false}};
    if (r->kind >= LINK_KINDS) {
        buf_printf(out, "a record of the unknown kind %d", r->kind);
        return;
    }
    buf_add(out, kinds[r->kind].name);
    if (kinds[r->kind].print)
        kinds[r->kind].print(out, r);
    if (kinds[r->kind].of_request)
        buf_printf(out, "; store %d, %s %llu", r->store, link_is_call(r) ? "call" : "request",
                   (unsigned long long)(r->request & ~link_call_number(0)));
    buf_printf(out, "; %u bytes", r->bytes);
    static const char *const flags[] = {"last", "codes", "host", "sparse", "broadcast", "changes"};
    for (unsigned i = 0; i < sizeof flags / sizeof *flags; i++)
        if (r->flags >> i & 1)
            buf_printf(out, ", %s", flags[i]);
}

void link_trace(const char *way, int rank, const link_rec *r)
{
    own_buf text = {0};
    int ranks;
    if (!environment(ENV_TRACE) || strcmp(environment(ENV_TRACE), "1") != 0)
        return;
    link_print(&text, r);
    runtime_log(KV_LOG_NOTE "rank %d %s rank %d: %s", runtime_rank(&ranks), way, rank,
                buf_text(&text));
}
