/* A save of -s must not lose these contents of its file.
 *
 * Keys: a file loses none but those that were deleted or renamed, which is meant. A script that
 * makes another store must give it all keys of the file again. Metadata of other tools: the store
 * that is saved gets them. The form: a file that another tool wrote stays one, as long as only
 * values of its keys change, or keys are deleted or renamed. Anything else makes it a file of
 * kvctl's, which wants --force.
 */
#ifndef CLI_STATE_GUARD_H
#define CLI_STATE_GUARD_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/mem.h"
#include "kvstore.h"
#include "syntax/effect.h"

/* A key as it was loaded. */
typedef struct state_key {
    kv_key key;
    int64_t pushes, updates;
    int states;
} state_key;

/* The file as it was loaded. All zero: an empty one, which guards nothing. */
typedef struct state_guard {
    arena memory;
    state_key *keys;
    int64_t nkeys;
    kv_opt *metadata;
    int64_t nmetadata, metadata_cap;
    bool foreign; /* another tool wrote it */
} state_guard;

/* Notes the contents of the store that was just loaded. Error: memory. */
int state_guard_take(state_guard *g, kv *store, kv_err *e);

/* Checks that `store` may be saved over the file at path. same: it is the store that was loaded,
 * not one made since. Error: key, with the contents that would be lost or changed. */
int state_guard_check(const state_guard *g, kv *store, bool same, const char *path, kv_err *e);

/* The same before anything runs, as far as its text tells: a long run need not come to its end for
 * that. Error: key. */
int state_guard_foresee(const state_guard *g, const effect_keys *script, const char *path,
                        kv_err *e);

/* Saves it. as_own: as a file of kvctl's, whatever it was. Errors: those of kv_save. */
int state_guard_save(const state_guard *g, kv *store, bool same, bool as_own, const char *path,
                     kv_err *e);

/* How the keys of a store differ from those of the file. */
typedef struct state_changes {
    int64_t changed, added, gone; /* keys; one that was made anew under its name has changed */
    int64_t states;               /* keys whose states changed, or are new or gone */
} state_changes;

/* Counts them. store NULL: one without keys. Error: memory. */
int state_guard_compare(const state_guard *g, kv *store, state_changes *out, kv_err *e);

/* Appends "1 key changed, 2 new, 1 deleted; states of 3 keys" without the parts that are 0, or, to
 * follow a verb, "1 changed key, 2 new, 1 deleted". */
void state_changes_text(const state_changes *c, bool follows, buf *out);

void state_guard_release(state_guard *g);

/* The bytes of the name of an updater. */
enum { STATE_UPDATER = 96 };
/* Receives the topic "store" of kv_describe: copies the name of the updater to arg. */
int state_guard_updater(void *arg, const kv_field *fields, int n, kv_err *e);

#endif
