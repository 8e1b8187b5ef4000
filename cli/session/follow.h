/* Variables that the rules of stores read. A rule has them as parameters, which an assignment to
 * the variable changes, as set-optimizer --update does.
 *
 * A variable that is followed carries a number, so that assigning another one costs nothing. A
 * name that every rule has, such as lr, may be read by a def before the script has a variable of
 * that name: the name is awaited, and followed from its first assignment on.
 */
#ifndef SESSION_FOLLOW_H
#define SESSION_FOLLOW_H

#include "session/session.h"

/* One name that the rule of a store reads. */
typedef struct followed {
    char *name;
    uint32_t number; /* of the variable; 0: it is awaited */
} followed;

/* A scalar as the value of a parameter. quoted: a text stands in "", so that "5" is none of the
 * numbers. */
int follow_text(value *out, value v, bool quoted, kv_err *e);

/* Adds a name to those that the next rule reads. here: the variable, or NULL for one to await. */
int follow_add(session *s, followed_names *f, const char *name, variable *here, kv_err *e);

/* The rule of the store in use reads these names from now on. Takes them; rule is its name. */
void follow_use(session *s, followed_names *f, const char *rule);
void follow_release(followed_names *f);

/* Behind rollback: the rule of the store in use is that of the begin, with the values that
 * variables have now. Behind commit it stays. */
int follow_rollback(session *s, kv_err *e);
void follow_commit(session *s);

/* Before a variable is assigned: changes the rules that follow it. Error: dtype (a rule holds no
 * such value), those of kv_update_optimizer; the variable is not assigned then. */
int follow_assign(session *s, uint32_t number, value v, kv_err *e);

/* The same for a new global: its number if a rule has awaited it, else 0. */
int follow_new(session *s, const char *name, value v, uint32_t *number, kv_err *e);

#endif
