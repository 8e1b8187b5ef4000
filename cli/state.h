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
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/mem.h"
#include "checkpoint/checkpoint.h"
#include "kvstore.h"
#include "session/session.h"
#include "syntax/effect.h"

/* ---- What a save must not lose ---- */

/* A save of -s must not lose these contents of its file.
 *
 * Keys: a file loses none but those that were deleted or renamed, which is meant. A script that
 * makes another store must give it all keys of the file again. Metadata of other tools: the store
 * that is saved gets them. The form: a file that another tool wrote stays one, as long as only
 * values of its keys change, or keys are deleted or renamed. Anything else makes it a file of
 * kvctl's, which wants --force.
 */

/* The file as it was loaded. All zero: an empty one, which guards nothing. */
typedef struct state_guard {
    arena memory;
    kv_info *keys;
    int64_t nkeys;
    checkpoint_text *metadata;
    int64_t nmetadata;
    bool foreign; /* another tool wrote it */
} state_guard;

/* Checks before anything runs that no keys of the file would be gone, as far as the text tells: a
 * long run need not come to its end for that. Error: key. */
int state_guard_foresee(const state_guard *g, const effect_keys *script, const char *path,
                        kv_err *e);

/* ---- The file ---- */

/* Begins with only what stands before `lock` set, which says how the file is opened. */
typedef struct state {
    const char *path;    /* borrowed; NULL: none */
    bool reads;          /* what will run changes no store: the lock is shared */
    bool prompt;         /* somebody types: a file that cannot be written is read, with a note */
    bool read_only;      /* nothing is ever written; `lock` then is the open file without a lock */
    bool force;          /* keys of the file may be lost */
    int lock;            /* the open file whose lock this is, or -1 */
    bool tried, is_open; /* state_open was called, and succeeded */
    bool made;           /* the file was missing, and is an empty one meanwhile */
    bool loaded;         /* it held a store: the session's kv */
    uint64_t serial, changes; /* of that store when it was loaded */
    state_guard guard;        /* the contents that must not be lost */
} state;

/* Without a path nothing is done. Locks the file and loads it as the session's store kv. Waits for
 * the lock as long as the setting store.wait says. From then on commit --disk writes the file, and
 * rollback without begin goes back to what it holds. Errors: busy, io, format, those of kv_load,
 * interrupted. Nothing is locked then. */
int state_open(state *st, session *s, kv_err *e);

/* Checks that state_save may write the store kv over the file. Error: key. */
int state_check(const state *st, const session *s, kv_err *e);

/* Lets go of the lock and of all else. May be called at any time. */
void state_close(state *st);

/* ---- The end of a session ---- */

/* How a session with -s ends: a prompt hears what was written, and is asked before the file of
 * another tool changes; a dry run says what would change. */

/* Saves what the session did (state_save). terminal: somebody typed, who hears what was written,
 * and is asked before the file of another tool changes. With -v scripts hear it as well. A file
 * that is only read gives a terminal the lines of state_preview. Errors: those of state_save. */
int state_leave(state *st, session *s, bool terminal, kv_err *e);

/* Saves nothing, and tells a terminal so if there was something to be saved. */
void state_discard(const state *st, const session *s, bool terminal);

/* Says on stderr how the file would change (--dry-run): keys new, changed and gone, states, the
 * updater. Without a state file: what the store kv holds. Errors: those of kv_load, memory, and key
 * where state_save would not write it. */
int state_preview(const state *st, session *s, kv_err *e);
