/* A session that another thread looks at: a guest, which is a session of its own, borrows its
 * stores and gets copies of its variables.
 *
 * Stores: calls of a store come from any thread. So the guest only has to know which ones there
 * are, and to keep them from being freed while it uses them: it pins all of them for a command, and
 * the script waits for that before it frees one.
 *
 * Variables belong to the script's thread. The guest names those that it wants, and the script's
 * thread copies them between two of its statements, and while it waits for a command of the shell;
 * arrays are shared until the script writes into them. While it waits in a call of a store the
 * guest copies them itself. Where the script is can be read at any time. A script that nobody can
 * look at reads one pointer for each statement.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "session/session.h"

typedef struct visit {
    atomic_bool wanted;    /* names wait for the script's thread */
    atomic_bool unwanted;  /* the script waits for the guest, which shall end at once */
    pthread_mutex_t lock;  /* of all below, and of the list of stores of the session */
    pthread_cond_t changed;
    atomic_int clients;    /* of attach, that are connected */
    int pins;
    const char *const *names;
    int n;
    value *values;         /* of the names; none where there is no such variable */
    bool served;
    bool parked;           /* the script's thread runs no statement now: the guest may copy them */
    kv_err error;
    bool profiles;         /* a guest takes the profile of the process */
    const struct ast *at;  /* the statement that began last; NULL: none */
    const struct unit *in; /* its text */
    int64_t since;         /* as clock_ms */
} visit;

void visit_init(visit *v);
void visit_release(visit *v);

/* ---- The script's thread ---- */

/* Between two statements, where `wanted` is set: copies the variables. */
void visit_serve(session *s);

static inline void visit_look(session *s)
{
    if (s->visit && atomic_load_explicit(&s->visit->wanted, memory_order_acquire))
        visit_serve(s);
}

/* A statement begins; NULL: none does, at the end of the script. There is a visit. */
void visit_begin(session *s, const struct ast *node);

/* The script's thread runs no statement from here to there, such as while it waits for an entry:
 * until then the guest's thread reads the variables itself. Nothing without a visit. */
void visit_park(const session *s, bool parked);

/* Around changes of the list of stores; nothing without a visit. */
void visit_lock(const session *s);
void visit_unlock(const session *s);

/* Ends what the guest does, and waits until it uses none of the stores that were there. The lock
 * is free. */
void visit_wait_unpinned(const session *s);

/* The script has ended: what the guest does ends, and nothing of it is waited for again. */
void visit_end(const session *s);

/* The script begins a profile: one that a guest takes ends. */
void visit_end_profile(const session *s);

/* ---- The guest's thread ---- */

/* guest gets the stores of the script, which it borrows until visit_leave. Error: memory. */
int visit_enter(session *guest, const session *script, kv_err *e);
void visit_leave(session *guest, const session *script);

/* Sets the variables of these names in the guest, as the script has them, those that there are.
 * Errors: busy (the script came to no end of a statement within ms), memory. */
int visit_variables(session *guest, session *script, const char *const *names, int n, int ms,
                    kv_err *e);
