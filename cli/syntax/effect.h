/* The effect of a text on stores, found in its tree before it runs. */
#ifndef SYNTAX_EFFECT_H
#define SYNTAX_EFFECT_H

#include "base/map.h"
#include "session/unit.h"

/* Returns true if running u may change a store: it holds a command that changes stores, also in a
 * function that is never called, or one whose effect is unknown before it runs, such as `source` of
 * a file whose name is computed. */
bool effect_changes_store(const unit *u);

/* The effects of texts on the store kv, as far as they are known before the texts run. All zero
 * at first. */
typedef struct effect_keys {
    map keys;       /* that commands name, to 0; texts are those of the trees */
    bool replaces;  /* a `create` surely makes another store */
    bool any;       /* others may be made as well, or nothing may come to be saved */
} effect_keys;

/* Adds what u does. Error: memory. */
int effect_add(effect_keys *k, const unit *u, kv_err *e);
void effect_release(effect_keys *k);

#endif
