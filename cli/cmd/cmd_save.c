/* The store into a file in the middle of a run: save, commit. */
#include <string.h>
#include <sys/stat.h>

#include "cmd/commands.h"
#include "eval/eval.h"
#include "session/unit.h"
#include "syntax/safe.h"

/* FILE, or NULL after an error. */
static const char *path_of(session *s, const ast *node, result *out, kv_err *e)
{
    const char *path = eval_word(s, node, "a file name", out, e);
    if (!path || strcmp(path, "-") != 0)
        return path;
    unit_err(s, node, e, KV_E_USAGE, "a store stands in a file, not in stdout");
    kv_err_hint(e, "pull * > - shows its values; a file of that name is ./-");
    return NULL;
}

/* Receives the topic "store" of kv_describe: *arg becomes true if the store keeps an updater. */
static int look_at_updater(void *arg, const kv_field *fields, int n, kv_err *e)
{
    (void)e;
    for (int i = 0; i < n; i++)
        if (strcmp(fields[i].name, "updater") == 0 && fields[i].text)
            *(bool *)arg = strcmp(fields[i].text, "assign") != 0;
    return KV_OK;
}

/* As -s would write it: what came from another tool's file stays one while it only holds values. */
static int save_store(kv *store, const char *path, kv_err *e)
{
    bool updates = false;
    kv_err why = {0};
    int code = kv_describe(store, "store", look_at_updater, &updates, e);
    if (code || updates || !kv_is_foreign(store))
        return code ? code : kv_save(store, path, e);
    code = kv_save_arrays(store, path, &why);
    if (code == KV_E_UNSUPPORTED) /* a key is row_sparse now */
        return kv_save(store, path, e);
    *e = code ? why : *e;
    return code;
}

static bool is_state_file(const session *s, const char *path)
{
    struct stat a, b;
    return s->state.path && stat(path, &a) == 0 && stat(s->state.path, &b) == 0 &&
           a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

int cmd_save(session *s, const ast *call, result *out, kv_err *e)
{
    kv *store;
    const char *path;
    if (session_store(s, &store, e) || !(path = path_of(s, call->kid[0], out, e)))
        return e->code;
    int code = safe_write(s, path, e);
    if (code == KV_OK && kv_num_keys(store) == 0) {
        unit_err(s, call, e, KV_E_VALUE, "the store holds no keys");
        return kv_err_hint(e, "kvctl -s FILE begins with those of a file");
    }
    if (code == KV_OK && is_state_file(s, path)) {
        kv_err_set(e, KV_E_USAGE, "\"%s\" is the file of -s", path);
        kv_err_hint(e, "commit --disk writes it");
        code = e->code;
    } else if (code == KV_OK && !session_would(s, "write", path)) {
        code = save_store(store, path, e);
    }
    if (code == KV_E_UNSUPPORTED && !s->safe && kv_num_workers(store) > 1)
        kv_err_hint(e, "kvctl launch --checkpoint FILE keeps the store of a job");
    return code ? unit_at(s, call->kid[0], e) : KV_OK;
}

/* Writes the file of -s. It holds the store of this moment, also when a transaction is open. */
static int to_disk(session *s, kv_err *e)
{
    if (!s->state.path) {
        kv_err_set(e, KV_E_VALUE, "there is no file of -s to be written");
        return kv_err_hint(e, "save FILE writes the store to a file of its own");
    }
    const char *used = s->stores[s->current].name;
    if (strcmp(used, "kv") != 0) {
        kv_err_set(e, KV_E_VALUE, "\"%s\" keeps the store kv, and %s is in use", s->state.path,
                   used);
        return kv_err_hint(e, "save FILE writes the store in use");
    }
    return session_would(s, "write", s->state.path) ? KV_OK : s->state.save(s->state.arg, s, e);
}

/* First to the disk: when that fails the transaction is open as before. */
int cmd_commit(session *s, const ast *call, result *out, kv_err *e)
{
    kv *store;
    bool disk = command_option_of(call, "disk") != NULL;
    (void)out;
    if (session_store(s, &store, e) || (disk && to_disk(s, e)))
        return e->code;
    return disk && !kv_in_transaction(store) ? KV_OK : kv_commit(store, e);
}
