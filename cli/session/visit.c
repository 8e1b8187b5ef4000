/* One lock, which nobody holds while a store works or waits. */
#include "session/visit.h"

#include "base/clock.h"
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

void visit_park(const session *s, bool parked)
{
    visit_lock(s);
    if (s->visit)
        s->visit->parked = parked;
    visit_unlock(s);
}

void visit_begin(session *s, const ast *node)
{
    visit_lock(s);
    s->visit->at = node;
    s->visit->in = s->unit;
    s->visit->since = clock_ms();
    visit_unlock(s);
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
    visit_lock(s);
    if (s->visit && s->visit->profiles) {
        kv_profile_stop(&(kv_err){0});
        s->visit->profiles = false;
    }
    visit_unlock(s);
}

/* ---- The guest's thread ---- */

int visit_enter(session *guest, const session *script, kv_err *e)
{
    pthread_mutex_lock(&script->visit->lock);
    guest->stores = mem_alloc(script->nstores, sizeof *guest->stores, e);
    for (int64_t i = 0; i < script->nstores && guest->stores; i++)
        if (script->stores[i].store)
            guest->stores[guest->nstores++] = (store_entry){.name = script->stores[i].name,
                                                            .store = script->stores[i].store};
    guest->current = script->current;
    guest->gpus_announced = script->gpus_announced;
    script->visit->pins++;
    pthread_mutex_unlock(&script->visit->lock);
    return guest->stores ? KV_OK : KV_E_MEMORY;
}

void visit_leave(session *guest, const session *script)
{
    mem_free(guest->stores);
    guest->stores = NULL;
    guest->nstores = 0;
    guest->current = -1;
    pthread_mutex_lock(&script->visit->lock);
    script->visit->pins--;
    pthread_cond_broadcast(&script->visit->changed);
    pthread_mutex_unlock(&script->visit->lock);
}
