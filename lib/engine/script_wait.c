/* The state of the one wait of the script's thread, under a lock: who reads the place holds it, so
 * that the script stays where it is meanwhile. */
#include "engine/script_wait.h"

#include <pthread.h>

static struct {
    pthread_mutex_t lock;
    uint64_t threads; /* that have been the script's */
    uint64_t owner;   /* the one that is; 0: none; atomic */
    bool slices;
    script_place place;
    void *arg;
    const int *set; /* of the wait that runs, or NULL */
    int depth;      /* waits within waits */
    uint64_t waits; /* so far */
} script = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The number of this thread among the threads that were the script's. */
static _Thread_local uint64_t mine;

void script_set(script_place place, void *arg, bool slices)
{
    pthread_mutex_lock(&script.lock);
    if (place) {
        mine = mine ? mine : ++script.threads;
        script.place = place;
        script.arg = arg;
        script.slices = slices;
        script.set = NULL;
        script.depth = 0;
        __atomic_store_n(&script.owner, mine, __ATOMIC_RELAXED);
    } else if (mine && script.owner == mine) {
        script.place = NULL;
        script.set = NULL;
        __atomic_store_n(&script.owner, 0, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&script.lock);
}

static bool is_script(bool slice)
{
    return mine && __atomic_load_n(&script.owner, __ATOMIC_RELAXED) == mine &&
           (!slice || script.slices);
}

void script_wait_begins(const int *set, bool slice)
{
    if (!is_script(slice))
        return;
    pthread_mutex_lock(&script.lock);
    if (script.owner == mine && script.depth++ == 0) {
        script.set = set;
        script.waits++;
    }
    pthread_mutex_unlock(&script.lock);
}

void script_wait_ends(bool slice)
{
    if (!is_script(slice))
        return;
    pthread_mutex_lock(&script.lock);
    if (script.owner == mine && script.depth > 0 && --script.depth == 0)
        script.set = NULL;
    pthread_mutex_unlock(&script.lock);
}

uint64_t script_waits(char *place, size_t room)
{
    pthread_mutex_lock(&script.lock);
    bool waits = script.owner && script.set && !__atomic_load_n(script.set, __ATOMIC_ACQUIRE) &&
                 (!place || script.place(script.arg, place, room));
    uint64_t number = waits ? script.waits : 0;
    pthread_mutex_unlock(&script.lock);
    return number;
}

bool script_hold(void)
{
    pthread_mutex_lock(&script.lock);
    if (script.owner && script.set)
        return true;
    pthread_mutex_unlock(&script.lock);
    return false;
}

void script_let_go(void)
{
    pthread_mutex_unlock(&script.lock);
}

void script_after_fork(void)
{
    pthread_mutex_init(&script.lock, NULL);
    script.owner = 0;
    script.set = NULL;
}
