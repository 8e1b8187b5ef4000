/* One lock, which nobody holds while a store works or waits. */
#include "session/visit.h"

#include <string.h>

#include "base/mem.h"

void visit_init(visit *v)
{
    *v = (visit){.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
}

void visit_release(visit *v)
{
    pthread_cond_destroy(&v->changed);
    pthread_mutex_destroy(&v->lock);
}

/* ---- The script's thread ---- */

static void set_parked(const session *s, bool parked)
{
    visit_lock(s);
    if (s->visit)
        s->visit->parked = parked;
    visit_unlock(s);
}

void visit_park(const session *s)
{
    set_parked(s, true);
}

void visit_unpark(const session *s)
{
    set_parked(s, false);
}

void visit_lock(const session *s)
{
    if (s->visit)
        pthread_mutex_lock(&s->visit->lock);
}

void visit_unlock(const session *s)
{
    if (s->visit)
        pthread_mutex_unlock(&s->visit->lock);
}

/* The lock is held. */
static void turn_out(visit *v)
{
    atomic_store(&v->unwanted, true);
    pthread_cond_broadcast(&v->changed);
}

void visit_wait_unpinned(const session *s)
{
    visit_lock(s);
    bool ended = s->visit && atomic_load(&s->visit->unwanted);
    while (s->visit && s->visit->pins > 0) {
        turn_out(s->visit);
        pthread_cond_wait(&s->visit->changed, &s->visit->lock);
    }
    if (s->visit)
        atomic_store(&s->visit->unwanted, ended);
    visit_unlock(s);
}

void visit_end(const session *s)
{
    visit_lock(s);
    turn_out(s->visit);
    visit_unlock(s);
}

void visit_end_profile(const session *s)
{
    kv_err unused = {0};
    visit_lock(s);
    if (s->visit && s->visit->profiles) {
        kv_profile_stop(&unused);
        s->visit->profiles = false;
    }
    visit_unlock(s);
}

/* ---- The guest's thread ---- */

int visit_enter(session *guest, const session *script, kv_err *e)
{
    int rc = KV_OK;
    pthread_mutex_lock(&script->visit->lock);
    for (int64_t i = 0; i < script->nstores && rc == KV_OK; i++) {
        const store_entry *x = &script->stores[i];
        char *name = x->store ? mem_text(x->name, strlen(x->name), e) : NULL;
        rc = x->store && !name ? KV_E_MEMORY
                               : mem_grow(&guest->stores, &guest->stores_cap, guest->nstores + 1,
                                            sizeof *guest->stores, e);
        if (rc)
            mem_free(name);
        else
            guest->stores[guest->nstores++] = (store_entry){.name = name, .store = x->store};
    }
    guest->current = script->current;
    guest->gpus_announced = script->gpus_announced;
    script->visit->pins++;
    pthread_mutex_unlock(&script->visit->lock);
    return rc;
}

void visit_leave(session *guest, const session *script)
{
    for (int64_t i = 0; i < guest->nstores; i++)
        mem_free(guest->stores[i].name);
    mem_free(guest->stores);
    guest->stores = NULL;
    guest->nstores = guest->stores_cap = 0;
    guest->current = -1;
    pthread_mutex_lock(&script->visit->lock);
    script->visit->pins--;
    pthread_cond_broadcast(&script->visit->changed);
    pthread_mutex_unlock(&script->visit->lock);
}
