/* Locking, loading, saving; the reasons stand in state.h. */
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "cmd/explain.h"
#include "files/files.h"
#include "session/result.h"
#include "syntax/file_kind.h"
#include "term/signals.h"
#include "term/terminal.h"

/* ---- What a save must not lose --------------------------------------------------------------- */

/* Notes the contents of the store that was just loaded. Error: memory. */
static int state_guard_take(state_guard *g, kv *store, kv_err *e)
{
    int64_t n = kv_num_keys(store);
    g->foreign = kv_is_foreign(store);
    g->keys = mem_alloc(n, sizeof *g->keys, e);
    TRY(g->keys ? named_texts(store, &g->memory, &g->metadata, &g->nmetadata, e) : KV_E_MEMORY);
    for (; g->nkeys < n; g->nkeys++) {
        kv_info *k = &g->keys[g->nkeys];
        TRY(kv_info_at(store, g->nkeys, k, e));
        int64_t *shape = arena_alloc(&g->memory, (size_t)k->ndim * sizeof *shape, e);
        if (!shape || (k->key.name && !(k->key.name = arena_text(&g->memory, k->key.name,
                                                                 strlen(k->key.name), e))))
            return KV_E_MEMORY;
        for (int i = 0; i < k->ndim; i++)
            shape[i] = k->shape[i];
        k->shape = shape;
    }
    return KV_OK;
}

static void state_guard_release(state_guard *g)
{
    arena_release(&g->memory);
    mem_free(g->keys);
    *g = (state_guard){0};
}

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

static void key_count_release(key_count *c)
{
    buf_release(&c->names);
}
#define own_count OWN(key_count_release) key_count

/* The error for keys that would be gone, if there are any. done: what was not. */
static int refuse_gone(const key_count *gone, const char *path, const char *done, kv_err *e)
{
    if (gone->n == 0)
        return KV_OK;
    kv_err_set(e, KV_E_KEY, "%lld key%s of \"%s\" would be gone: %.300s", (long long)gone->n,
               gone->n == 1 ? "" : "s", path, buf_text(&gone->names));
    return kv_err_hint(e,
                       "nothing was %s; --force drops them, create --name x makes a store "
                       "beside that of the file",
                       done);
}

int state_guard_foresee(const state_guard *g, const effect_keys *script, const char *path,
                        kv_err *e)
{
    own_count gone = {0};
    for (int64_t i = 0; i < g->nkeys && script->replaces && !script->any; i++)
        if (map_get(&script->keys, g->keys[i].key) < 0)
            count_key(&gone, g->keys[i].key);
    return refuse_gone(&gone, path, "run", e);
}

/* The name of the updater of a store. NULL: of one that is not there yet. */
static int updater_of(kv *store, buf *name, kv_err *e)
{
    if (!store)
        buf_add(name, "assign");
    return store ? describe_field(store, "store", "updater", name, e) : buf_check(name, e);
}

/* Adds what changed of a file of another tool, beside values. */
static int tell_changes(kv *store, bool same, buf *out, kv_err *e)
{
    own_buf updater = {0};
    own_count added = {0}, sparse = {0};
    TRY(updater_of(store, &updater, e));
    for (int64_t i = 0; i < kv_num_keys(store); i++) {
        kv_info info;
        TRY(kv_info_at(store, i, &info, e));
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
    else if (strcmp(buf_text(&updater), "assign") != 0)
        buf_add(out, "it would keep an updater");
    return buf_check(out, e);
}

/* One key. was: in the file, or NULL; is: in the store, or NULL. */
typedef int difference_fn(void *arg, const kv_info *was, const kv_info *is, kv_err *e);

/* Calls tell for the keys of a store, then for those that only the file has. store NULL: one
 * without keys. Errors: memory, those of tell. */
static int state_guard_compare(const state_guard *g, kv *store, difference_fn *tell, void *arg,
                               kv_err *e)
{
    own_map places = {0};
    int64_t n = store ? kv_num_keys(store) : 0;
    own_mem char *met = mem_zalloc(g->nkeys, 1, e);
    if (!met)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < g->nkeys; i++)
        TRY(map_put(&places, g->keys[i].key, i, e));
    for (int64_t i = 0; i < n; i++) {
        kv_info info;
        TRY(kv_info_at(store, i, &info, e));
        int64_t at = map_get(&places, info.key);
        if (at >= 0)
            met[at] = 1;
        TRY(tell(arg, at < 0 ? NULL : &g->keys[at], &info, e));
    }
    for (int64_t i = 0; i < g->nkeys; i++)
        if (!met[i])
            TRY(tell(arg, &g->keys[i], NULL, e));
    return KV_OK;
}

/* One that was made anew under its name counts as pushed. */
static bool was_pushed(const kv_info *was, const kv_info *is)
{
    return was && is && (is->pushes != was->pushes || !is->loaded);
}

/* Returns true if the states of a key changed, or are new or gone. */
static bool states_differ(const kv_info *was, const kv_info *is)
{
    bool some = (was && was->states > 0) || (is && is->states > 0);
    return some && (!was || !is || was_pushed(was, is) || is->updates != was->updates ||
                    is->states != was->states);
}

/* How the keys of a store differ from those of the file. */
typedef struct state_changes {
    int64_t changed, added, gone; /* keys */
    int64_t states;               /* keys */
} state_changes;

static int count_difference(void *arg, const kv_info *was, const kv_info *is, kv_err *e)
{
    state_changes *c = arg;
    (void)e;
    c->changed += was_pushed(was, is);
    c->added += !was;
    c->gone += !is;
    c->states += states_differ(was, is);
    return KV_OK;
}

/* Appends "1 key changed, 2 new, 1 deleted; states of 3 keys" without the parts that are 0, or, to
 * follow a verb, "1 changed key, 2 new, 1 deleted". */
static void state_changes_text(const state_changes *c, bool follows, buf *out)
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

/* ---- The lock -------------------------------------------------------------------------------- */

/* The error of a file that cannot be opened. Commands take the folder of a model, -s does not. */
static int cannot_open(const state *st, int number, kv_err *e)
{
    file_error(e, st->reads ? "read" : "write", st->path, number);
    if (number == EISDIR)
        kv_err_hint(e, "-s keeps one file: kvctl convert FOLDER m.safetensors makes one of a "
                       "folder");
    return e->code;
}

/* Opens the file to be locked. A reader takes a missing one for empty: st->lock stays -1. */
static int open_file(state *st, kv_err *e)
{
    int flags = (st->reads ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    st->lock = open(st->path, flags);
    if (st->lock < 0 && errno == ENOENT) {
        if (st->reads)
            return KV_OK;
        st->lock = open(st->path, flags | O_CREAT, 0666);
        st->made = st->lock >= 0; /* or another process did so just now, which does not matter */
    }
    return st->lock >= 0 ? KV_OK : cannot_open(st, errno, e);
}

static int check_regular(const state *st, kv_err *e)
{
    struct stat about;
    if (fstat(st->lock, &about) != 0)
        return file_error(e, "read", st->path, errno);
    if (S_ISDIR(about.st_mode))
        return cannot_open(st, EISDIR, e);
    if (!S_ISREG(about.st_mode))
        return kv_err_set(e, KV_E_IO, "\"%s\" is not a regular file, so it cannot keep a store",
                          st->path);
    return KV_OK;
}

/* A new file is written beside the old one, which shows only at the end of a long script unless it
 * is tried now. */
static int check_folder(const state *st, kv_err *e)
{
    char folder[PATH_MAX];
    char *slash = realpath(st->path, folder) ? strrchr(folder, '/') : NULL;
    if (!slash)
        return KV_OK; /* too long a name, or gone already: saving will tell */
    slash[slash == folder] = '\0';
    if (access(folder, W_OK | X_OK) == 0)
        return KV_OK;
    file_error(e, "write", st->path, errno);
    return kv_err_hint(e, "its folder must be writable: a new file is made there and renamed");
}

/* *current becomes true if the path still names the open file. A path without access is an error,
 * since it may name the same file. */
static int check_current(const state *st, bool *current, kv_err *e)
{
    struct stat open_file, named;
    *current = false;
    if (fstat(st->lock, &open_file) != 0)
        return file_error(e, "read", st->path, errno);
    if (stat(st->path, &named) != 0)
        return errno == ENOENT ? KV_OK : file_error(e, "read", st->path, errno);
    *current = open_file.st_dev == named.st_dev && open_file.st_ino == named.st_ino;
    return KV_OK;
}

/* The process that holds a lock on the file, as the system lists them; 0 when it does not say. */
static long holder(int fd)
{
    struct stat about;
    char line[256], kind[16];
    unsigned int major_number, minor_number;
    unsigned long long inode;
    long pid = 0, found = 0;
    own_stream *locks = fstat(fd, &about) == 0 ? fopen("/proc/locks", "re") : NULL;
    while (locks && !found && fgets(line, sizeof line, locks)) {
        /* 1: FLOCK  ADVISORY  WRITE 4711 08:02:131 0 EOF; a waiting process has -> before FLOCK */
        if (sscanf(line, "%*d: %15s %*s %*s %ld %x:%x:%llu", kind, &pid, &major_number,
                   &minor_number, &inode) == 5 &&
            strcmp(kind, "FLOCK") == 0 && inode == (unsigned long long)about.st_ino &&
            major_number == major(about.st_dev) && minor_number == minor(about.st_dev) && pid > 0)
            found = pid;
    }
    return found;
}

static int busy(const state *st, const session *s, kv_err *e)
{
    char who[64] = "another process", waited[32];
    long pid = holder(st->lock);
    int64_t ms = s->store_wait_ms;
    if (pid)
        snprintf(who, sizeof who, "process %ld", pid);
    snprintf(waited, sizeof waited, ms % 1000 ? "%lld.%03lld" : "%lld", (long long)(ms / 1000),
             (long long)(ms % 1000));
    kv_err_set(e, KV_E_BUSY, "\"%s\" is locked by %s; waited %s s for it", st->path, who, waited);
    return kv_err_hint(e, "kvctl --set store.wait=60 waits longer");
}

/* Locks the open file. Asking again and again, instead of letting the system wait, lets Ctrl-C and
 * the deadline in. Who has waited longer asks more often, so that others do not pass for ever. */
static int wait_for_lock(const state *st, session *s, int64_t deadline, kv_err *e)
{
    const int64_t began = deadline - s->store_wait_ms;
    const int64_t noted = began + 1000; /* then a note says why it waits */
    bool told = false;
    for (int64_t pause_ms = 1;; pause_ms += pause_ms < 40) {
        if (flock(st->lock, (st->reads ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0)
            return KV_OK;
        if (errno != EWOULDBLOCK && errno != EINTR)
            return file_error(e, "lock", st->path, errno);
        TRY(session_interrupted(s, e));
        int64_t now = clock_ms();
        if (now >= deadline)
            return busy(st, s, e);
        if (now >= noted && !told) {
            session_note(s, "waiting for \"%s\", which another process has locked", st->path);
            told = true;
        }
        int64_t begun_s = 1 + at_most(now - began, 5000) / 1000;
        nanosleep(&(struct timespec){.tv_nsec = pause_ms * 1000000 / (begun_s * begun_s)}, NULL);
    }
}

static int lock_file(state *st, session *s, kv_err *e)
{
    int64_t deadline = clock_ms() + s->store_wait_ms;
    bool current;
    if (st->read_only) { /* it is read as it is now, whoever replaces it meanwhile */
        st->lock = open(st->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        return st->lock < 0 ? file_error(e, "read", st->path, errno) : check_regular(st, e);
    }
    for (;;) {
        TRY(open_file(st, e));
        if (st->lock < 0)
            return KV_OK;
        TRY(check_regular(st, e));
        TRY(wait_for_lock(st, s, deadline, e));
        TRY(check_current(st, &current, e));
        if (current)
            return st->reads ? KV_OK : check_folder(st, e);
        close(st->lock); /* replaced or removed while we waited */
        st->lock = -1;
        st->made = false;
    }
}

void state_close(state *st)
{
    struct stat about;
    char real[PATH_MAX]; /* not a link to it */
    bool current;
    state_guard_release(&st->guard);
    if (!st->path || st->lock < 0)
        return;
    if (st->made && check_current(st, &current, NULL) == KV_OK && current &&
        fstat(st->lock, &about) == 0 && about.st_size == 0 && realpath(st->path, real))
        unlink(real);
    close(st->lock);
    st->lock = -1;
}

/* ---- Loading --------------------------------------------------------------------------------- */

/* The file holds this store. */
static void note_loaded(state *st, const store_entry *entry)
{
    st->loaded = true;
    st->serial = entry->serial;
    st->changes = kv_changes(entry->store);
}

/* The path of the file that was opened, which another one may have replaced by its name. */
static const char *opened_path(const state *st, char out[40])
{
    if (!st->read_only)
        return st->path; /* nobody replaces it while it is locked */
    snprintf(out, 40, "/proc/self/fd/%d", st->lock);
    return out;
}

static int load(state *st, session *s, kv_err *e)
{
    struct stat about;
    kv *store = NULL;
    if (st->lock < 0) {
        session_note(s, "there is no \"%s\": the store is empty", st->path);
        return KV_OK;
    }
    int rc;
    if (fstat(st->lock, &about) == 0 && about.st_size == 0) {
        rc = file_kind_check_keeps(st->path, "store", e);
        kv_err_hint(e, "-s keeps a store in a file such as store.kvs");
        return rc;
    }
    rc = kv_load_later(&store, st->path, e);
    if (rc == KV_E_UNSUPPORTED) { /* nobody typed the type, so similar names are no help */
        e->hint[0] = '\0';
        kv_err_hint(e, "when a plugin brings this type: kvctl --plugin FILE.so loads it");
    }
    const char *title = file_kind_title(file_kind_of(st->path));
    if (rc == KV_E_FORMAT && title) { /* the error of the header helps nobody here */
        *e = (kv_err){0};
        kv_err_set(e, KV_E_FORMAT, "\"%s\" is a %s file, which keeps no store", st->path, title);
        return kv_err_hint(
            e, strpbrk(st->path, " @\"'") ? "@\"%s\" reads its array" : "@%s reads its array",
            st->path);
    }
    if (rc == KV_E_FORMAT)
        kv_err_hint(e, "-s keeps a store in a safetensors file, and makes one where there is none");
    TRY(rc);
    TRY(session_adopt(s, store, "kv", e));
    note_loaded(st, &s->stores[s->current]);
    return state_guard_take(&st->guard, store, e);
}

/* ---- Saving ---------------------------------------------------------------------------------- */

/* The store that is saved, or NULL. */
static const store_entry *saved_store(const session *s)
{
    int64_t at = session_find_store(s, "kv");
    return at < 0 ? NULL : &s->stores[at];
}

static bool is_loaded(const state *st, const store_entry *entry)
{
    return st->loaded && entry->serial == st->serial;
}

/* Returns true if a save would change the file. A store that was made by `create` is saved even if
 * it is empty; a store that was made on demand is not. */
static bool has_changed(const state *st, const store_entry *entry)
{
    if (!entry)
        return false;
    if (is_loaded(st, entry))
        return kv_changes(entry->store) != st->changes;
    return st->loaded || !entry->on_demand || kv_changes(entry->store) > 0;
}

/* Returns true if the store kv is not what the file holds: `arg` is the state. */
static bool state_changed(const void *arg, const session *s)
{
    const state *st = arg;
    return st->is_open && has_changed(st, saved_store(s));
}

/* The changes of the file, as one line. follows: behind a verb, see state_changes_text. gone
 * (optional) becomes the number of deleted keys. */
static int state_summary(const state *st, session *s, bool follows, int64_t *gone, buf *out,
                         kv_err *e)
{
    const store_entry *entry = saved_store(s);
    state_changes changes = {0};
    TRY(state_guard_compare(&st->guard, entry ? entry->store : NULL, count_difference, &changes,
                            e));
    if (gone)
        *gone = changes.gone;
    state_changes_text(&changes, follows, out);
    return buf_check(out, e);
}

int state_check(const state *st, const session *s, kv_err *e)
{
    const store_entry *entry = saved_store(s);
    const state_guard *g = &st->guard;
    own_buf changes = {0};
    own_count gone = {0};
    kv_info info;
    if (!st->is_open || st->read_only || st->force || !has_changed(st, entry))
        return KV_OK;
    bool same = is_loaded(st, entry); /* then delete and rename are meant */
    for (int64_t i = 0; i < g->nkeys && !same; i++)
        if (kv_find(entry->store, &g->keys[i].key, &info, &(kv_err){0}))
            count_key(&gone, g->keys[i].key);
    TRY(refuse_gone(&gone, st->path, "written", e));
    if (!g->foreign)
        return KV_OK;
    TRY(tell_changes(entry->store, same, &changes, e));
    if (changes.len == 0)
        return KV_OK;
    kv_err_set(e, KV_E_KEY,
               "\"%s\" is another tool's file, and not only values of its keys changed: %.300s",
               st->path, buf_text(&changes));
    return kv_err_hint(e, "nothing was written; --force makes it kvctl's, which other tools can "
                          "read all the same");
}

/* Rolls back an open transaction, since only committed changes are saved. */
static void state_end_transaction(session *s)
{
    const store_entry *entry = saved_store(s);
    if (!entry || !kv_in_transaction(entry->store))
        return;
    fflush(stdout);
    fputs("warning: no commit came after begin: what it began is not saved\n", stderr);
    kv_rollback(entry->store, NULL);
}

/* Writes the store over the file, unless that would lose contents of it. */
static int write_file(state *st, const session *s, const store_entry *entry, kv_err *e)
{
    if (st->reads)
        return kv_err_set(e, KV_E_INTERNAL,
                          "the script was taken for one that only reads, and changed the store");
    const state_guard *g = &st->guard;
    TRY(state_check(st, s, e));
    for (int64_t i = 0; !is_loaded(st, entry) && i < g->nmetadata; i++)
        TRY(kv_set_metadata(entry->store, g->metadata[i].name, g->metadata[i].text, e));
    TRY((g->foreign && !st->force ? kv_save_arrays : kv_save)(entry->store, st->path, e));
    st->made = false;
    return KV_OK;
}

/* Writes the store kv, if it changed since it was loaded and loses nothing of the file; never one
 * that is only read. A transaction that is open is rolled back, with a warning; what other stores
 * hold is not saved, and a note says so. Nothing happens unless the state is open. Errors: key
 * (state_check), io and those of kv_save; the file is as it was. */
static int state_save(state *st, session *s, kv_err *e)
{
    const store_entry *entry = saved_store(s);
    if (!st->is_open || !st->path || st->read_only)
        return KV_OK;
    state_end_transaction(s);
    for (int64_t i = 0; i < s->nstores; i++) {
        const store_entry *other = &s->stores[i];
        int64_t n = kv_num_keys(other->store);
        if (n > 0 && strcmp(other->name, "kv") != 0)
            session_note(s, "\"%s\" keeps the store kv; %s and its %lld key%s end here", st->path,
                         other->name, (long long)n, n == 1 ? "" : "s");
    }
    return has_changed(st, entry) ? write_file(st, s, entry, e) : KV_OK;
}

/* The lock of the file that was just written, beside that of the file before, for which other
 * processes wait. *overtaken: one that opened the new file at this moment was faster, and has
 * changed it.
 *
 * That process may even have put its file at the path before this one looks there. The file before
 * tells: it lost its name when ours got it, which set its ctime, so data of a later time are those
 * of another. The file that is found stays open until it is locked, so that its number means no
 * other file. */
static int lock_written(state *st, session *s, bool *overtaken, kv_err *e)
{
    struct stat old, written, locked;
    own_fd before = st->lock, found = open(st->path, O_RDONLY | O_CLOEXEC);
    st->lock = -1;
    if (found < 0 || fstat(found, &written) || fstat(before, &old))
        return file_error(e, "read", st->path, errno);
    TRY(lock_file(st, s, e));
    if (st->lock < 0)
        return kv_err_set(e, KV_E_BUSY, "\"%s\" was removed by another process", st->path);
    if (fstat(st->lock, &locked))
        return file_error(e, "read", st->path, errno);
    struct timespec data = written.st_mtim, name = old.st_ctim;
    *overtaken = locked.st_ino != written.st_ino || data.tv_sec > name.tv_sec ||
                 (data.tv_sec == name.tv_sec && data.tv_nsec > name.tv_nsec);
    return KV_OK;
}

/* Writes the store in the middle of a run, an open transaction with it; the session keeps the lock.
 * `arg`: the state. Errors: those of state_save; value (it is only read); busy, when another
 * process took the new file before it was locked and changed it. */
static int write_now(void *arg, session *s, kv_err *e)
{
    state *st = arg;
    const store_entry *entry = saved_store(s);
    bool overtaken;
    if (st->read_only) {
        kv_err_set(e, KV_E_VALUE, "\"%s\" is only read, nothing is written to it", st->path);
        return kv_err_hint(e, "save FILE writes the store to a file of its own");
    }
    if (!has_changed(st, entry))
        return KV_OK;
    TRY(write_file(st, s, entry, e));
    TRY(lock_written(st, s, &overtaken, e));
    state_guard_release(&st->guard);
    if (overtaken) /* the file has this store's change and the other's */
        return load(st, s, e);
    note_loaded(st, entry);
    return state_guard_take(&st->guard, entry->store, e);
}

/* Makes the store kv what the file holds: `arg` is the state. */
static int go_back(void *arg, session *s, kv_err *e)
{
    state *st = arg;
    char path[40];
    kv *store = NULL;
    if (!has_changed(st, saved_store(s)))
        return KV_OK;
    if (!st->loaded) {
        TRY(session_create(s, s->default_type, NULL, 0, "kv", e));
        s->stores[s->current].on_demand = true;
        return KV_OK;
    }
    TRY(kv_load_later(&store, opened_path(st, path), e));
    TRY(session_adopt(s, store, "kv", e));
    note_loaded(st, &s->stores[s->current]);
    return KV_OK;
}

/* ---- Opening --------------------------------------------------------------------------------- */

int state_open(state *st, session *s, kv_err *e)
{
    const char *path = st->path;
    /* the file is there and cannot be replaced */
    bool closed = path && st->prompt && !st->read_only && access(path, F_OK) == 0 &&
                  (access(path, W_OK) != 0 || check_folder(st, &(kv_err){0}));
    st->tried = true;
    st->read_only |= closed;
    if (path && (lock_file(st, s, e) || load(st, s, e))) {
        state_close(st);
        return e->code;
    }
    st->is_open = true;
    if (path) {
        s->state.path = path;
        s->state.save = write_now;
        s->state.go_back = go_back;
        s->state.changed = state_changed;
        s->state.arg = st;
    }
    if (closed)
        session_note(s, "\"%s\" cannot be written: nothing that is done here is saved", path);
    return KV_OK;
}

/* ---- Leaving a terminal ---------------------------------------------------------------------- */

static void say_unchanged(const state *st, const session *s)
{
    if (!s->out.quiet)
        terminal_say("%s is as it was", st->path);
}

/* Reads a line of the terminal. Anything but y or yes is a no, and so are Ctrl-C, Ctrl-D and a
 * signal. */
static bool read_yes(void)
{
    char line[16] = "";
    size_t n = 0;
    char c = 0;
    interrupt_at_prompt(true);
    while (c != '\n' && !interrupt_pending()) {
        ssize_t got = read(STDIN_FILENO, &c, 1);
        if (got == 0 || (got < 0 && errno != EINTR))
            break;
        if (got > 0 && c != '\n' && n + 1 < sizeof line)
            line[n++] = c;
    }
    bool finished = c == '\n' && !interrupt_pending();
    interrupt_at_prompt(false);
    interrupt_clear();
    if (!finished)
        fputc('\n', stderr);
    return finished && (strcmp(line, "y") == 0 || strcmp(line, "yes") == 0);
}

/* Asks before another tool's file is changed. */
static int ask(const state *st, session *s, bool *yes, kv_err *e)
{
    own_buf question = {0}, visible = {0};
    buf_add(&question, "write ");
    TRY(state_summary(st, s, true, NULL, &question, e));
    buf_printf(&question, " to %s? [y/N] ", st->path);
    visible_line(&visible, buf_text(&question), question.len);
    fflush(stdout);
    fputs(buf_text(&visible), stderr);
    *yes = read_yes();
    return KV_OK;
}

int state_leave(state *st, session *s, bool terminal, kv_err *e)
{
    bool changed = st->path && state_changed(st, s), yes = true;
    int64_t gone = 0;
    own_buf summary = {0};
    if (st->read_only && terminal)
        return changed ? state_preview(st, s, e) : KV_OK;
    state_end_transaction(s);
    changed = changed && state_changed(st, s);
    if (changed && !s->out.quiet)
        TRY(state_summary(st, s, false, &gone, &summary, e));
    if (changed && terminal && st->guard.foreign && !st->force) {
        TRY(state_check(st, s, e));
        TRY(ask(st, s, &yes, e));
    }
    if (!yes)
        return say_unchanged(st, s), KV_OK;
    /* keys of another tool's file do not go silently */
    bool tells = summary.len > 0 && (terminal || s->out.verbose || st->read_only ||
                                     (st->guard.foreign && gone > 0));
    TRY(state_save(st, s, e));
    if (tells)
        terminal_say(st->read_only ? "read only: %s would change: %s" : "wrote %s: %s", st->path,
                     buf_text(&summary));
    return KV_OK;
}

void state_discard(const state *st, const session *s, bool terminal)
{
    if (terminal && st->path && state_changed(st, s))
        say_unchanged(st, s);
}

/* ---- The lines of a dry run ------------------------------------------------------------------ */

/* behind: what else stands in the line. */
static void put_line(buf *out, const char *what, const kv_info *info, const char *behind)
{
    char shape[256];
    buf_printf(out, "  %-9s", what);
    show_key(out, info->key);
    buf_printf(out, ": %s %s%s\n", kv_dtype_name(info->dtype),
               kv_shape_text(shape, sizeof shape, info->ndim, info->shape), behind);
}

/* The store of the file, which is NULL where it held none, and the one that would be saved. */
typedef struct preview {
    kv *before, *after;
    buf out;
} preview;

/* A key that both stores hold. */
static int compare_key(preview *p, const kv_info *was, const kv_info *is, kv_err *e)
{
    own_array *a = NULL, *b = NULL;
    const void *old_data, *new_data;
    bool same_form = was->dtype == is->dtype && was->ndim == is->ndim &&
                     memcmp(was->shape, is->shape, (size_t)is->ndim * sizeof *is->shape) == 0;
    if (was->unread && was->unread == is->unread && was->unread_inode == is->unread_inode)
        return KV_OK; /* the store has not read it yet, so it has not changed it */
    if (!same_form) {
        put_line(&p->out, "replaced", is, "");
        return KV_OK;
    }
    TRY(pull_stored(&a, p->before, was->key, e));
    TRY(pull_stored(&b, p->after, is->key, e));
    TRY(kv_array_read(a, &old_data, e));
    TRY(kv_array_read(b, &new_data, e));
    int64_t n = kv_array_size(a), size = kv_dtype_bytes(is->dtype), changed = 0;
    const char *x = old_data, *y = new_data;
    for (int64_t i = 0; i < n; i++, x += size, y += size)
        changed += memcmp(x, y, (size_t)size) != 0;
    if (changed > 0 || is->pushes != was->pushes) {
        char elements[80];
        snprintf(elements, sizeof elements, ", %lld of %lld elements", (long long)changed,
                 (long long)n);
        put_line(&p->out, "changed", is, elements);
    }
    return KV_OK;
}

/* What an updater keeps for a key: its count, or nothing. */
static void put_states(buf *out, const kv_info *info)
{
    if (info && info->states > 0)
        buf_printf(out, "t %lld", (long long)info->updates);
    else
        buf_add(out, "none");
}

/* The lines of a key: what becomes of it, and of its states. */
static int tell_difference(void *arg, const kv_info *was, const kv_info *is, kv_err *e)
{
    preview *p = arg;
    buf *out = &p->out;
    if (was && is)
        TRY(compare_key(p, was, is, e));
    else
        put_line(out, is ? "new" : "gone", is ? is : was, "");
    if (!states_differ(was, is))
        return KV_OK;
    buf_add(out, "  states   ");
    show_key(out, is ? is->key : was->key);
    buf_add(out, ": ");
    put_states(out, is);
    buf_add(out, ", before: ");
    put_states(out, was);
    buf_char(out, '\n');
    return KV_OK;
}

static int compare_rest(buf *out, kv *before, kv *after, kv_err *e)
{
    own_buf was = {0}, is = {0};
    const char *old_type = before ? kv_type(before) : "", *new_type = after ? kv_type(after) : "";
    TRY(updater_of(before, &was, e));
    TRY(updater_of(after, &is, e));
    if (before && after && strcmp(old_type, new_type) != 0)
        buf_printf(out, "  type     %s, before: %s\n", new_type, old_type);
    if (strcmp(buf_text(&was), buf_text(&is)) != 0)
        buf_printf(out, "  updater  %s, before: %s\n", buf_text(&is), buf_text(&was));
    return KV_OK;
}

int state_preview(const state *st, session *s, kv_err *e)
{
    const store_entry *entry = saved_store(s);
    preview p = {.after = entry ? entry->store : NULL};
    const char *why = s->dry_run ? "dry run" : "read only";
    char opened[40];
    own_buf path = {0};
    if (!st->is_open)
        return KV_OK;
    state_end_transaction(s);
    int rc = st->loaded ? kv_load_later(&p.before, opened_path(st, opened), e) : KV_OK;
    if (rc == KV_OK && state_changed(st, s) &&
        (rc = state_guard_compare(&st->guard, p.after, tell_difference, &p, e)) == KV_OK &&
        (rc = compare_rest(&p.out, p.before, p.after, e)) == KV_OK && p.out.len == 0)
        buf_add(&p.out, "  only its updater, or counts\n");
    kv_free(p.before);
    own_buf lines = p.out;
    TRY(rc);
    TRY(buf_check(&lines, e));
    fflush(stdout);
    visible_line(&path, st->path ? st->path : "", st->path ? strlen(st->path) : 0);
    if (!st->path && lines.len)
        fputs("dry run: without a state file; kv would hold:\n", stderr);
    else if (st->path)
        fprintf(stderr, "%s: \"%s\" would %s\n", why, buf_text(&path),
                !lines.len ? "stay as it is" : st->loaded ? "change:" : "be made:");
    fputs(buf_text(&lines), stderr);
    return state_check(st, s, e);
}
