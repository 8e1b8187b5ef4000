/* Uses wait in a ring at their variable, first come first served: a read joins the reads that run
 * only when nothing waits. One lock covers all variables and groups; it is held for some
 * instructions a use.
 *
 * An operation may list a variable twice, as when an array is pushed twice in one call. The number
 * of the operation that claimed a variable last tells.
 */
#include "engine/engine.h"

#include <pthread.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/kv_assert.h"
#include "engine/trace.h"

/* Uses that are asked for ahead. */
enum { AHEAD = 32 };

/* Part of the process-wide state that src/runtime.h lists. */
static struct {
    pthread_mutex_t lock;
    uint64_t ops; /* scheduled so far */
} engine = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* A thread that waits for a group; under the lock. */
typedef struct engine_waiter {
    int64_t most;
    pool_flag flag;
    struct engine_waiter *next;
} engine_waiter;

static _Thread_local const engine_group *running;

static void lock(void)
{
    pthread_mutex_lock(&engine.lock);
}

static void unlock(void)
{
    pthread_mutex_unlock(&engine.lock);
}

/* engine_wait_group first reads the count without the lock, so it is written atomically. */
static void add_pending(engine_group *g, int64_t n)
{
    kv_assert(g->pending + n >= 0, "a group has %lld operations pending, and %lld end",
              (long long)g->pending, (long long)-n);
    __atomic_store_n(&g->pending, g->pending + n, __ATOMIC_RELEASE);
}

/* ---- Uses: the lock is held ---- */

static bool may_run(const engine_use *u)
{
    return engine_is_unused(u->var, u->write);
}

static void begin_use(const engine_use *u)
{
    kv_assert(u->write ? u->var->running == 0 : u->var->running >= 0,
              "a %s begins on a variable with %d running", u->write ? "write" : "read",
              u->var->running);
    if (u->write)
        u->var->running = -1;
    else
        u->var->running++;
}

static void enqueue(engine_use *u, engine_op *op)
{
    engine_var *v = u->var;
    u->op = op;
    u->next = v->last ? v->last->next : u;
    if (v->last)
        v->last->next = u;
    v->last = u;
    op->missing++;
}

static void dequeue(engine_var *v)
{
    engine_use *first = v->last->next;
    if (first == v->last)
        v->last = NULL;
    else
        v->last->next = first->next;
}

/* An operation whose uses all run: it goes to the pool, or its owner is told. A quick one need not
 * wait until a thread of the pool is awake. */
static void make_ready(engine_op *op)
{
    kv_assert(op->missing == 0, "an operation begins with %lld uses missing",
              (long long)op->missing);
    if (op->trace)
        op->trace->ready = trace_now();
    if (op->task.run && op->quick)
        op->run(op, NULL);
    else if (op->task.run)
        pool_submit(&op->task);
    else if (kv_assert(!op->turn.set, "the turn of an operation with %lld uses comes again",
                       (long long)op->nuses))
        pool_signal(&op->turn);
}

/* Starts the uses that waited for the end of another. It is apart from end_use because mostly no
 * use waits. */
static __attribute__((noinline)) void begin_waiting(engine_var *v)
{
    while (v->last) {
        engine_use *u = v->last->next;
        if (u->write ? v->running != 0 : v->running < 0)
            return;
        dequeue(v);
        begin_use(u);
        kv_assert(u->op->missing > 0, "a use begins of an operation that waits for none of %lld",
                  (long long)u->op->nuses);
        if (--u->op->missing == 0)
            make_ready(u->op);
    }
}

static void end_use(engine_use *u)
{
    engine_var *v = u->var;
    if (!v || u->again)
        return;
    u->var = NULL;
    kv_assert(u->write ? v->running == -1 : v->running > 0,
              "a %s ends on a variable with %d running", u->write ? "write" : "read", v->running);
    v->running = u->write ? 0 : v->running - 1;
    if (v->last)
        begin_waiting(v);
}

/* Variables of many keys lie all over the memory: loops over uses ask for those that come later. */
static void look_ahead(const engine_use *uses, int64_t i, int64_t n)
{
    if (i + AHEAD < n)
        prefetch_write(uses[i + AHEAD].var);
}

static void end_uses(engine_use *uses, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        look_ahead(uses, i, n);
        end_use(&uses[i]);
    }
}

/* Returns true for a use that counts: the first of a variable in the operation, and each that reads
 * where none writes. These end one by one, and a writer waits for the last. */
static bool claim(engine_op *op, engine_use *u)
{
    engine_var *v = u->var;
    bool first = v->claimed != engine.ops;
    u->again = !first && (u->write || v->to_write);
    op->repeats |= u->again && u->write;
    if (first)
        v->to_write = u->write;
    v->claimed = engine.ops;
    return !u->again;
}

/* Lots mark their variables with numbers that no operation has. */
bool engine_apart(const engine_op *op, int64_t n, engine_lot (*lot)(const void *arg, int64_t i),
                  const void *arg)
{
    bool apart = true;
    lock();
    uint64_t before = engine.ops, many = before + (uint64_t)n + 1;
    engine.ops = many;
    for (int64_t i = 0; i < n; i++) {
        engine_lot l = lot(arg, i);
        uint64_t mine = before + (uint64_t)i + 1;
        for (int64_t u = l.all; u < l.all + l.nall; u++) {
            engine_var *v = op->uses[u].var;
            v->claimed = v->claimed > before && v->claimed != mine ? many : mine;
        }
    }
    for (int64_t i = 0; i < n && apart; i++) {
        engine_lot l = lot(arg, i);
        uint64_t mine = before + (uint64_t)i + 1;
        for (int64_t u = l.write; u < l.write + l.nwrite; u++) {
            engine_var *v = op->uses[u].var;
            apart &= v->claimed <= before || v->claimed == mine;
            v->claimed = many;
        }
    }
    unlock();
    return apart;
}

static void schedule(engine_op *op)
{
    op->missing = 0;
    op->repeats = false;
    if (op->trace)
        op->trace->scheduled = trace_now();
    lock();
    engine.ops++;
    if (op->group)
        add_pending(op->group, 1);
    op->missing = 1; /* this one is ours: nothing is ready before all uses are listed */
    for (int64_t i = 0; i < op->nuses; i++) {
        engine_use *u = &op->uses[i];
        look_ahead(op->uses, i, op->nuses);
        if (!claim(op, u))
            continue;
        if (may_run(u))
            begin_use(u);
        else
            enqueue(u, op);
    }
    if (--op->missing == 0)
        make_ready(op);
    unlock();
}

/* ---- Groups: the lock is held ---- */

static void tell_waiters(engine_group *g)
{
    for (engine_waiter **at = &g->waiters; *at;) {
        engine_waiter *w = *at;
        if (g->pending > w->most) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        pool_signal(&w->flag);
    }
}

/* ---- Operations ---- */

static int run(engine_op *op, kv_err *e)
{
    const engine_group *outer = running;
    running = op->group;
    int rc = op->run(op, e);
    running = outer;
    return rc;
}

/* The error is in the group before the uses end, because a thread that waits for an array looks
 * there for the reason why it did not come. The group may be gone as soon as nothing is pending. */
void engine_complete(engine_op *op, const kv_err *e)
{
    engine_group *g = op->group;
    kv_assert(op->missing == 0, "an operation ends with %lld uses missing",
              (long long)op->missing);
    if (g && e->code) {
        lock();
        if (!g->error.code)
            g->error = *e;
        unlock();
    }
    engine_end(op->uses, op->nuses);
    if (op->done)
        op->done(op);
    if (!g)
        return;
    lock();
    add_pending(g, -1);
    tell_waiters(g);
    unlock();
}

/* On a thread of the pool. */
static void run_task(pool_task *t)
{
    engine_op *op = (engine_op *)(void *)((char *)t - offsetof(engine_op, task));
    kv_err e = {0};
    bool later = op->later; /* such a one may have ended when run returns */
    run(op, &e);
    if (!later)
        engine_complete(op, &e);
}

/* Begins the uses up to the first that must wait; returns how many. */
static int64_t begin_uses(engine_op *op)
{
    int64_t i;
    for (i = 0; i < op->nuses; i++) {
        engine_use *u = &op->uses[i];
        look_ahead(op->uses, i, op->nuses);
        if (!claim(op, u))
            continue;
        if (!may_run(u))
            break;
        begin_use(u);
    }
    return i;
}

/* Undoes begin_uses. The lock was held all the time, so no other operation waits for these uses. */
static __attribute__((noinline)) void unbegin_uses(const engine_op *op, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const engine_use *u = &op->uses[i];
        kv_assert(u->again || (u->write ? u->var->running == -1 : u->var->running > 0),
                  "use %lld is taken back of a variable with %d running", (long long)i,
                  u->var->running);
        if (!u->again)
            u->var->running = u->write ? 0 : u->var->running - 1;
    }
}

bool engine_idle(int64_t n, int (*uses)(void *arg, int64_t i, engine_use out[2]), void *arg)
{
    bool idle = true;
    lock();
    engine.ops++;
    for (int64_t i = 0; i < n && idle; i++) {
        engine_use out[2];
        int nuses = uses(arg, i, out);
        idle = nuses >= 0;
        for (int j = 0; j < nuses; j++) {
            const engine_use *u = &out[j];
            idle &= may_run(u) && !(u->write && u->var->claimed == engine.ops);
            if (u->write)
                u->var->claimed = engine.ops;
        }
    }
    unlock();
    return idle;
}

void engine_hold(void)
{
    lock();
}

void engine_let_go(void)
{
    unlock();
}

bool engine_try(engine_op *op)
{
    op->repeats = false;
    lock();
    engine.ops++;
    int64_t begun = begin_uses(op);
    bool all = begun == op->nuses;
    if (!all)
        unbegin_uses(op, begun);
    else if (op->group)
        add_pending(op->group, 1);
    unlock();
    return all;
}

void engine_submit(engine_op *op)
{
    kv_assert(op->run, "an operation with %lld uses has nothing to run", (long long)op->nuses);
    op->task =
        (pool_task){.run = run_task, .priority = op->priority, .foreign = op->foreign};
    schedule(op);
}

void engine_begin_now(engine_op *op)
{
    op->task.run = NULL;
    op->turn.set = 0;
    if (!engine_try(op)) {
        schedule(op);
        pool_wait(&op->turn);
    }
}

int engine_run_now(engine_op *op, kv_err *e)
{
    engine_begin_now(op);
    int rc = run(op, e);
    engine_finish(op);
    return rc;
}

void engine_end(engine_use *uses, int64_t n)
{
    lock();
    end_uses(uses, n);
    unlock();
}

void engine_finish(engine_op *op)
{
    lock();
    end_uses(op->uses, op->nuses);
    if (op->group) {
        add_pending(op->group, -1);
        tell_waiters(op->group);
    }
    unlock();
}

/* ---- Waiting ---- */

/* To wait for a variable is to be an operation that uses it and does nothing. */
static void wait_use(engine_var *var, bool write)
{
    engine_use use = {.var = var, .write = write};
    engine_op op = {.uses = &use, .nuses = 1};
    lock();
    bool free = may_run(&use);
    unlock();
    if (free)
        return;
    schedule(&op);
    pool_wait(&op.turn);
    engine_finish(&op);
}

/* Takes a use that waits out of the ring of its variable, under the lock. */
static void withdraw(engine_use *u)
{
    engine_var *v = u->var;
    engine_use *before = v->last;
    while (before->next != u)
        before = before->next;
    before->next = u->next;
    if (v->last == u)
        v->last = before == u ? NULL : before;
    begin_waiting(v); /* the calls that wait behind it */
}

bool engine_wait_read_for(engine_var *var, int ms)
{
    engine_use use = {.var = var};
    engine_op op = {.uses = &use, .nuses = 1};
    lock();
    bool free = may_run(&use);
    unlock();
    if (free)
        return true;
    schedule(&op);
    pool_wait_for(&op.turn, ms);
    lock();
    bool there = op.missing == 0; /* then its turn was signalled, under this lock */
    if (!there)
        withdraw(&use);
    unlock();
    if (there)
        engine_finish(&op);
    return there;
}

void engine_wait_read(engine_var *var)
{
    wait_use(var, false);
}

void engine_wait_write(engine_var *var)
{
    wait_use(var, true);
}

/* Lists a waiter. false: few enough operations are pending, so there is nothing to wait for. */
static bool list_waiter(engine_group *g, engine_waiter *w)
{
    lock();
    bool waits = g->pending > w->most;
    if (waits) {
        w->next = g->waiters;
        g->waiters = w;
    }
    unlock();
    return waits;
}

void engine_wait_group(engine_group *g, int64_t most)
{
    engine_waiter w = {.most = most};
    /* A caller that waits for all may release the group afterwards. It takes the lock, so that no
     * other thread is still at the group. */
    if (most > 0 && __atomic_load_n(&g->pending, __ATOMIC_ACQUIRE) <= most)
        return;
    if (!list_waiter(g, &w))
        return;
    pool_wait(&w.flag);
    lock(); /* the thread that told us is at the group until it gives the lock back */
    unlock();
}

/* Takes a waiter that waits no longer off the list; false: it was told meanwhile. */
static bool take_back(engine_group *g, const engine_waiter *w)
{
    for (engine_waiter **at = &g->waiters; *at; at = &(*at)->next) {
        if (*at == w) {
            *at = w->next;
            return true;
        }
    }
    return false;
}

bool engine_wait_group_for(engine_group *g, int64_t most, int ms)
{
    engine_waiter w = {.most = most};
    if (!list_waiter(g, &w))
        return true;
    pool_wait_for(&w.flag, ms);
    lock();
    bool told = !take_back(g, &w);
    unlock();
    return told;
}

int engine_take_error(engine_group *g, kv_err *e)
{
    lock();
    int rc = g->error.code;
    if (rc && e && !e->code)
        *e = g->error;
    g->error = (kv_err){0};
    unlock();
    return rc;
}

int64_t engine_pending(engine_var *var)
{
    lock();
    int64_t n = var->running < 0 ? 1 : var->running;
    engine_use *last = var->last, *u = last;
    if (last) {
        do {
            n++;
            u = u->next;
        } while (u != last);
    }
    unlock();
    return n;
}

const engine_group *engine_running(void)
{
    return running;
}
