/* What a text may do, found in its tree before it runs: its effect on stores, and what --safe
 * refuses. */
#pragma once

#include "base/map.h"
#include "lang/ast.h"
#include "lang/source.h"
#include "session/session.h"
#include "session/unit.h"

/* ---- --safe ---- */

/* --safe: scripts of strangers. No shell, no plugins, no writes but to the state file. What is not
 * allowed is refused before anything runs, where the words show it, and again where it would
 * happen. */

/* Checks that a node is allowed in a script. Error: unsupported, at the node. */
int safe_check(const session *s, const source *src, const ast *node, kv_err *e);

/* Check that a file may be written, a shell started, a plugin loaded. Errors: unsupported; usage
 * (the file of -s, which the session itself writes). */
int safe_write(const session *s, const char *path, kv_err *e);
int safe_shell(const session *s, kv_err *e);
int safe_plugin(const session *s, kv_err *e);

/* ---- Names that are set ---- */

typedef int effect_name(void *arg, const char *name, kv_err *e);

/* Calls each with every name that the node itself, not what stands below it, gives a value: an
 * assignment, a loop, a comprehension, `-> x`, the parameters of a def, and those of rules. Ends
 * with the first error of each, which it returns. */
int effect_sets(const ast *node, effect_name *each, void *arg, kv_err *e);

/* For effect_sets: adds the name to a map. Error: memory. */
int effect_put_name(void *names, const char *name, kv_err *e);

/* effect_sets of the node, which may be NULL, and of all below it. */
int effect_sets_below(const ast *node, effect_name *each, void *arg, kv_err *e);

/* ---- The effect on stores ---- */

/* Returns true if running the node may change a store: it holds a command that changes stores, also
 * in a function that is never called, or one whose effect is unknown before it runs, such as
 * `source` of a file whose name is computed. node: may be NULL. */
bool effect_changes_store(const ast *node);

/* The effects of texts on the store kv, as far as they are known before the texts run. All zero
 * at first; map_release ends its keys. */
typedef struct effect_keys {
    map keys;       /* that commands name, to 0; texts are those of the trees */
    bool replaces;  /* a `create` surely makes another store */
    bool any;       /* others may be made as well, or nothing may come to be saved */
} effect_keys;

/* Adds what u does. Error: memory. */
int effect_add(effect_keys *k, const unit *u, kv_err *e);
