/* The state file of an invocation: the store `kv` between one kvctl and the next.
 *
 * One invocation is one transaction on its file. The file is locked before it is read and stays
 * locked until it has been replaced, so that no change of another process is lost; scripts that
 * only read share the lock. It is replaced once, at the end, and only when the store changed.
 *
 * The lock is a flock on the state file itself, not on a second file beside it: nothing is left
 * behind, a reader needs no right to write, and the process that ends, however it does, lets go.
 * Saving renames a new file over the locked one, so a lock may turn out to be one on a file that
 * has no name any more; who gets a lock therefore looks whether the path still names what was
 * locked, and begins again if not. A file that is missing is made empty, to be locked; an empty
 * file is an empty store. If nothing is saved, the one that was made is removed again.
 *
 * Loading reads the description of the store, and a key only when a command needs its elements
 * (kv_load_later), so the file stays open as long as the store: a change in place waits for the end
 * of the session.
 */
#ifndef CLI_STATE_H
#define CLI_STATE_H

#include <stdbool.h>

#include "session/session.h"
#include "state_guard.h"

/* All zero: no state file. */
typedef struct state {
    bool tried, is_open; /* state_open was called, and succeeded */
    const char *path;  /* borrowed; NULL: none */
    int lock;          /* the open file whose lock this is, or -1 */
    bool reads;        /* the script changes nothing: the lock is shared */
    bool read_only;    /* nothing is ever written; `lock` then is the open file without a lock */
    bool made;         /* the file was missing, and is an empty one meanwhile */
    bool loaded;       /* it held a store: the session's kv */
    uint64_t serial, changes; /* of that store when it was loaded */
    state_guard guard; /* the contents that must not be lost */
    bool force;        /* all the same */
} state;

/* How a file is opened. */
typedef struct state_how {
    bool reads;     /* what will run changes no store */
    bool prompt;    /* somebody types: a file that cannot be written is read, with a note */
    bool read_only; /* nothing will be written, whatever runs: no lock */
    bool force;     /* keys of the file may be lost, see state_guard.h */
} state_how;

/* Locks the file at path and loads it as the session's store kv. path NULL: nothing. Waits for the
 * lock as long as the setting store.wait says. From then on commit --disk writes the file, and
 * rollback without begin goes back to what it holds. Errors: busy, io, format, those of kv_load,
 * interrupted. Nothing is locked then. */
int state_open(state *st, session *s, const char *path, state_how how, kv_err *e);

/* Returns true if the store kv is not what the file holds. */
bool state_changed(const state *st, const session *s);

/* The changes of the file, as one line. follows: behind a verb, see state_changes_text. gone
 * (optional) becomes the number of deleted keys. */
int state_summary(const state *st, session *s, bool follows, int64_t *gone, buf *out, kv_err *e);

/* Checks that state_save may write the store kv over the file. Error: key. */
int state_check(const state *st, const session *s, kv_err *e);

/* Writes the store kv, if it changed since it was loaded and loses nothing of the file; never one
 * that is only read. A transaction that is open is rolled back, with a warning; what other stores
 * hold is not saved, and a note says so. Nothing happens unless the state is open. Errors: key
 * (state_guard.h), io and those of kv_save; the file is as it was. */
int state_save(state *st, session *s, kv_err *e);

/* Rolls back an open transaction of the store kv, since only committed changes are saved; with a
 * warning. */
void state_end_transaction(session *s);

/* *out becomes another store of what the file held when it was opened; NULL stays where it held
 * none. Errors: those of kv_load. */
int state_load_again(const state *st, kv **out, kv_err *e);

/* Lets go of the lock and of all else. May be called at any time. */
void state_close(state *st);

#endif
