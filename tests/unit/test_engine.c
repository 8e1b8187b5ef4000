/* The engine against a sequential model; also meant to run under -fsanitize=thread. */
#include "engine/engine.h"

#include "engine/trace.h"
#include "thread_help.h"

/* What a test uses; each has a process of its own. */
static engine_group group;
static engine_var v[70];
static kv_err fine;

enum { VARS = 50, CALLERS = 8, USES = 4 };

#ifdef __SANITIZE_THREAD__
enum { TENS_OF_OPS = 10000 };
#else
enum { TENS_OF_OPS = 33000 };
#endif

typedef struct world {
    pthread_mutex_t order; /* callers take turns, so that the model knows the order */
    engine_group group;
    engine_var var[VARS];
    uint64_t value[VARS], model[VARS];
    uint64_t ops;
} world;

typedef struct step {
    engine_op op;
    engine_use uses[USES];
    int at[USES];
    world *w;
    uint64_t number;
    bool early; /* ends its first use before its work is done */
} step;

/* Every written value becomes a number that depends on all that was read and written before. */
static void work(const step *s, uint64_t *value, int from)
{
    uint64_t sum = s->number;
    for (int i = from; i < (int)s->op.nuses; i++)
        sum = sum * 31 + value[s->at[i]];
    for (int i = from; i < (int)s->op.nuses; i++)
        if (s->uses[i].write)
            value[s->at[i]] = value[s->at[i]] * 6364136223846793005u + sum;
}

/* The model of work: uses lose their variables when they end, so `write` alone tells. */
static int run_step(engine_op *op, kv_err *e)
{
    step *s = (step *)(void *)op;
    (void)e;
    if (s->early) {
        s->w->value[s->at[0]] += s->number;
        engine_end(op->uses, 1);
    }
    work(s, s->w->value, s->early);
    return KV_OK;
}

static void free_step(engine_op *op)
{
    free(op);
}

static uint64_t draw(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state >> 11;
}

/* Variables of one operation are different ones; those written come first. */
static step *random_step(world *w, uint64_t *state)
{
    step *s = calloc(1, sizeof *s);
    CHECK(s != NULL);
    s->w = w;
    s->op = (engine_op){.run = run_step, .done = free_step, .uses = s->uses, .group = &w->group};
    s->op.nuses = 1 + (int64_t)(draw(state) % USES);
    s->op.priority = (int32_t)(draw(state) % 5);
    int writes = (int)(draw(state) % 3), first = (int)(draw(state) % VARS);
    for (int i = 0; i < (int)s->op.nuses; i++) {
        s->at[i] = (first + 7 * i) % VARS;
        s->uses[i] = (engine_use){.var = &w->var[s->at[i]], .write = i < writes};
    }
    s->early = writes > 0 && draw(state) % 4 == 0;
    return s;
}

static void *call_engine(void *arg)
{
    world *w = arg;
    static uint64_t seeds;
    uint64_t state =
        test_seed(88172645463325252u) + 1000 * __atomic_add_fetch(&seeds, 1, __ATOMIC_RELAXED);
    for (int64_t i = 10 * test_random(TENS_OF_OPS) / CALLERS; i > 0; i--) {
        step *s = random_step(w, &state);
        engine_wait_group(&w->group, 1000);
        pthread_mutex_lock(&w->order);
        s->number = ++w->ops;
        if (s->early)
            w->model[s->at[0]] += s->number;
        work(s, w->model, s->early);
        if (draw(&state) % 16 == 0) {
            engine_run_now(&s->op, NULL);
            free(s);
        } else {
            engine_submit(&s->op);
        }
        pthread_mutex_unlock(&w->order);
    }
    return NULL;
}

TEST(engine_random_operations_of_many_callers)
{
    static world w = {.order = PTHREAD_MUTEX_INITIALIZER};
    pthread_t threads[CALLERS];
    for (int i = 0; i < CALLERS; i++)
        threads[i] = spawn(call_engine, &w);
    for (int i = 0; i < CALLERS; i++)
        join(threads[i]);
    for (int i = 0; i < VARS; i++) {
        engine_wait_write(&w.var[i]);
        CHECK_INT(w.value[i], w.model[i]);
        CHECK_INT(engine_pending(&w.var[i]), 0);
    }
    engine_wait_group(&w.group, 0);
    CHECK_INT(w.group.pending, 0);
}

/* An operation that waits to be let go, and notes when it ran. */
typedef struct gate {
    engine_op op;
    engine_use uses[3];
    pool_flag *open; /* waits for it */
    int begun;
    int ran;         /* its turn */
    int rc;
} gate;

static int turns;

static int run_gate(engine_op *op, kv_err *e)
{
    gate *g = (gate *)(void *)op;
    set_to(&g->begun, 1);
    if (g->open)
        wait_for(&g->open->set);
    g->ran = __atomic_add_fetch(&turns, 1, __ATOMIC_RELAXED);
    return g->rc ? kv_err_set(e, (kv_code)g->rc, "operation %d refused", g->ran) : KV_OK;
}

static void submit(gate *g, engine_group *of, int64_t nuses, int32_t priority)
{
    g->op.run = run_gate;
    g->op.uses = g->uses;
    g->op.nuses = nuses;
    g->op.group = of;
    g->op.priority = priority;
    engine_submit(&g->op);
}

TEST(engine_writers_wait_for_readers)
{
    pool_flag open = {0};
    gate read = {.uses = {{.var = v}}, .open = &open};
    gate write = {.uses = {{.var = v, .write = true}}};
    gate later = {.uses = {{.var = v}}};
    submit(&read, &group, 1, 0);
    submit(&write, &group, 1, 9);
    submit(&later, &group, 1, 9);
    CHECK_INT(engine_pending(v), 3);
    CHECK(!engine_try(&(engine_op){.uses = &(engine_use){.var = v}, .nuses = 1}));
    pool_signal(&open);
    engine_wait_write(v);
    CHECK_INT(read.ran, 1);
    CHECK_INT(write.ran, 2);
    CHECK_INT(later.ran, 3);
    engine_wait_group(&group, 0);
}

static void check_pending(int64_t first, int64_t second, int64_t third)
{
    CHECK_INT(engine_pending(v), first);
    CHECK_INT(engine_pending(&v[1]), second);
    CHECK_INT(engine_pending(&v[2]), third);
}

TEST(engine_what_cannot_run_at_once_claims_nothing)
{
    pool_flag open = {0};
    gate busy = {.uses = {{.var = &v[2]}}, .open = &open};
    engine_use uses[] = {{.var = v, .write = true}, {.var = v, .write = true}, {.var = v},
                         {.var = &v[1]}, {.var = &v[2], .write = true}};
    engine_op op = {.uses = uses, .nuses = 5};
    submit(&busy, &group, 1, 0);
    CHECK(!engine_try(&op));
    check_pending(0, 0, 1);
    pool_signal(&open);
    engine_wait_group(&group, 0);
    CHECK(engine_try(&op));
    CHECK(op.repeats);
    check_pending(1, 1, 1);
    engine_finish(&op);
    check_pending(0, 0, 0);
}

TEST(engine_urgent_operations_run_first)
{
    engine_group ordered = {0};
    pool_flag open = {0}, end = {0};
    static gate busy[POOL_MAX_WORKERS], ops[6];
    int32_t priorities[] = {0, -5, 7, 7, INT32_MAX, INT32_MIN};
    int order[] = {4, 5, 2, 3, 1, 6};
    int n = pool_workers();
    for (int i = 0; i < n; i++) { /* every place is taken; one is left for the others later */
        busy[i] = (gate){.uses = {{.var = &v[i]}}, .open = i ? &end : &open};
        submit(&busy[i], &group, 1, INT32_MAX);
    }
    for (int i = 0; i < n; i++)
        wait_for(&busy[i].begun);
    for (int i = 0; i < 6; i++) {
        ops[i] = (gate){.uses = {{.var = &v[64 + i]}}};
        submit(&ops[i], &ordered, 1, priorities[i]);
    }
    pool_signal(&open);
    engine_wait_group(&ordered, 0);
    pool_signal(&end);
    engine_wait_group(&group, 0);
    for (int i = 0; i < 6; i++)
        CHECK_INT(ops[i].ran, 1 + order[i]);
}

TEST(engine_a_variable_listed_twice_is_used_once)
{
    gate reads = {.uses = {{.var = v}, {.var = v}, {.var = v}}};
    gate writes = {.uses = {{.var = v, .write = true}, {.var = v, .write = true}, {.var = v}}};
    submit(&reads, &group, 3, 0);
    submit(&writes, &group, 3, 0);
    engine_wait_group(&group, 0);
    CHECK_INT(writes.ran, 2);
    CHECK(writes.op.repeats);
    CHECK(!reads.op.repeats);
    CHECK_INT(engine_pending(v), 0);
}

/* A push of one array to two keys ends its use of each apart: the array is free behind both. */
TEST(engine_a_variable_read_twice_is_free_behind_both)
{
    engine_use reads[] = {{.var = v}, {.var = v}}, write = {.var = v, .write = true};
    engine_op reader = {.uses = reads, .nuses = 2}, writer = {.uses = &write, .nuses = 1};
    for (int last = 0; last < 2; last++) {
        CHECK(engine_try(&reader));
        engine_end(&reads[!last], 1);
        CHECK(!engine_try(&writer));
        engine_finish(&reader);
        CHECK(engine_try(&writer));
        engine_finish(&writer);
        reads[0].var = reads[1].var = write.var = v;
    }
}

static pthread_t waits;
static int met; /* how often the thread that waits was the one that ran free_users */

/* Ends its use, by which the user's code becomes ready, and stays until the pool has looked for a
 * place and sleeps again. */
static int free_users(engine_op *op, kv_err *e)
{
    (void)e;
    engine_end(op->uses, 1);
    if (pthread_equal(pthread_self(), waits)) {
        met++;
        sleep_ms(20);
    }
    return KV_OK;
}

/* The thread that waits works at the one place there is when the user's code becomes ready, which
 * only a thread of the pool may run. */
TEST(engine_a_place_that_is_left_wakes_the_pool)
{
    setenv("KVSTORE_THREADS", "1", 1);
    pool_set_spins(0);
    waits = pthread_self();
    for (int i = 0; i < 3000 && met < 5; i++) {
                    engine_use use = {.var = v, .write = true};
        engine_op first = {.run = free_users, .uses = &use, .nuses = 1, .group = &group};
        gate users = {.uses = {{.var = v, .write = true}}, .op.foreign = true};
        sleep_ms(1); /* the pool sleeps */
        engine_submit(&first);
        submit(&users, &group, 1, 0);
        engine_wait_group(&group, 0);
        CHECK_INT(users.ran, i + 1);
    }
    CHECK(met > 0);
}

TEST(engine_errors_come_from_the_group_once)
{
    gate bad[2] = {{.uses = {{.var = v, .write = true}}, .rc = KV_E_VALUE},
                   {.uses = {{.var = v, .write = true}}, .rc = KV_E_SHAPE}};
    submit(&bad[0], &group, 1, 0);
    submit(&bad[1], &group, 1, 0);
    engine_wait_group(&group, 0);
    CHECK_ERR(engine_take_error(&group, &e), KV_E_VALUE, "operation 1 refused");
    CHECK_OK(engine_take_error(&group, &e));
    CHECK_INT(engine_take_error(&group, NULL), KV_OK);
    bad[0].uses[0].var = v; /* an end of a use forgets it */
    submit(&bad[0], &group, 1, 0);
    engine_wait_group(&group, 0);
    kv_err_set(&e, KV_E_NAME, "an earlier error"); /* stays */
    CHECK_INT(engine_take_error(&group, &e), KV_E_VALUE);
    CHECK_TEXT(e.text, "an earlier error");
    CHECK_INT(engine_take_error(&group, NULL), KV_OK);
}

static engine_group inner_group;

static int runs_of_inner(engine_op *op, kv_err *e)
{
    (void)e;
    CHECK(op->group == &inner_group && engine_running() == &inner_group);
    return KV_OK;
}

/* Runs an operation of another group within this one. */
static int runs_of_outer(engine_op *op, kv_err *e)
{
    engine_op inner = {.run = runs_of_inner, .group = &inner_group};
    CHECK(engine_running() == op->group);
    CHECK_INT(engine_run_now(&inner, e), KV_OK);
    CHECK(engine_running() == op->group);
    return KV_OK;
}

TEST(engine_a_thread_knows_the_group_of_its_operation)
{
    engine_op now = {.run = runs_of_outer, .group = &group},
              later = {.run = runs_of_outer, .group = &group};
    CHECK(!engine_running());
    CHECK_OK(engine_run_now(&now, &e));
    CHECK(!engine_running());
    engine_submit(&later);
    engine_wait_group(&group, 0);
    CHECK(!engine_running());
}

static int begins(engine_op *op, kv_err *e)
{
    (void)op;
    (void)e;
    return KV_OK;
}

TEST(engine_waiting_for_a_group_ends_at_its_time)
{
    engine_op op = {.run = begins, .group = &group, .later = true, .quick = true};
    engine_submit(&op);
    CHECK(!engine_wait_group_for(&group, 0, 1));
    CHECK(engine_wait_group_for(&group, 1, 1));
    engine_complete(&op, &fine);
    CHECK(engine_wait_group_for(&group, 0, 1));
}

static engine_group failing;
static kv_err found;

/* The uses have ended: who waited for them looks now. */
static void look(engine_op *op)
{
    (void)op;
    engine_take_error(&failing, &found);
}

/* A read that gave up leaves the others in their order, wherever it stood among them. */
TEST(engine_waiting_for_a_variable_ends_at_its_time)
{
    for (int before = 0; before < 3; before++) {
        for (int behind = 0; behind < 3; behind++) {
            engine_use use = {.var = v, .write = true};
            engine_op first = {
                .run = begins, .uses = &use, .nuses = 1, .later = true, .quick = true};
            gate others[4] = {{.ran = 0}};
            CHECK(engine_wait_read_for(v, 0));
            engine_submit(&first);
            for (int i = 0; i < before + behind; i++) {
                gate *g = &others[i];
                if (i == before)
                    CHECK(!engine_wait_read_for(v, 1));
                g->uses[0] = (engine_use){.var = v, .write = true};
                g->op = (engine_op){.run = run_gate, .uses = g->uses, .nuses = 1, .group = &group};
                engine_submit(&g->op);
            }
            CHECK(!engine_wait_read_for(v, 1) && !engine_wait_read_for(v, 0));
            engine_complete(&first, &fine);
            CHECK(engine_wait_read_for(v, 60000));
            engine_wait_group(&group, 0);
            for (int i = 0; i < before + behind; i++)
                CHECK_INT(others[i].ran, turns - before - behind + i + 1);
            CHECK_INT(engine_pending(v), 0);
        }
    }
}

TEST(engine_an_error_is_there_before_who_waits_goes_on)
{
    engine_use use = {.var = v, .write = true};
    kv_err why = {0};
    engine_op op = {.run = begins, .done = look, .group = &failing, .uses = &use, .nuses = 1,
                    .later = true, .quick = true};
    kv_err_set(&why, KV_E_PEER, "rank 1 is lost");
    engine_submit(&op);
    engine_complete(&op, &why);
    CHECK_TEXT(found.text, "rank 1 is lost");
    CHECK_OK(engine_take_error(&failing, &e));
}

static struct {
    pool_flag held, go; /* somebody has the engine's lock; it may give it back */
    int entered, returned; /* atomic */
    engine_group group;
} seen;

static int hold_lock(void *arg, int64_t i, engine_use out[2])
{
    (void)arg, (void)i, (void)out;
    pool_signal(&seen.held);
    wait_for(&seen.go.set);
    return 0;
}

static void *has_lock(void *unused)
{
    (void)unused;
    CHECK(engine_idle(1, hold_lock, NULL));
    return NULL;
}

static void *waits_for_group(void *unused)
{
    (void)unused;
    set_to(&seen.entered, 1);
    engine_wait_group(&seen.group, 0);
    set_to(&seen.returned, 1);
    return NULL;
}

/* Who has waited for all operations of a group may release it: so nobody has the engine's lock, and
 * with it perhaps the group, when the wait returns. */
TEST(engine_wait_for_an_idle_group_takes_the_lock)
{
    pthread_t holder = spawn(has_lock, NULL);
    wait_for(&seen.held.set);
    pthread_t waiter = spawn(waits_for_group, NULL);
    wait_for(&seen.entered);
    sleep_ms(20);
    CHECK(!look_at(&seen.returned));
    pool_signal(&seen.go);
    join(holder);
    join(waiter);
    CHECK_INT(seen.returned, 1);
}

/* Rests until the flag is set, and looks again at once. */
static bool rest_until_set(const int *set, int64_t us)
{
    (void)us;
    set_to(&seen.entered, 1);
    wait_for(set);
    return true;
}

/* The thread that tells of the end is still at the group: it calls this under the engine's lock. */
static void tell_slowly(void)
{
    sleep_ms(20);
    CHECK(!look_at(&seen.returned));
}

TEST(engine_wait_for_a_group_ends_behind_who_tells)
{
    engine_op op = {.run = begins, .group = &seen.group, .later = true, .quick = true};
    pool_set_rest(rest_until_set, tell_slowly);
    engine_submit(&op);
    pthread_t t = spawn(waits_for_group, NULL);
    wait_for(&seen.entered);
    sleep_ms(5);
    engine_complete(&op, &fine);
    join(t);
    pool_set_rest(NULL, NULL);
}

static void *completes_late(void *op)
{
    sleep_ms(20);
    engine_complete(op, &fine);
    return NULL;
}

/* The limit of ten minutes is not reached. */
TEST(engine_wait_with_a_limit_is_told)
{
    engine_op op = {.run = begins, .group = &seen.group, .later = true, .quick = true};
    engine_submit(&op);
    pthread_t t = spawn(completes_late, &op);
    CHECK(engine_wait_group_for(&seen.group, 0, 600000));
    join(t);
}

static int uses_of(void *arg, int64_t i, engine_use out[2])
{
    const char *use = ((char *const *)arg)[i];
    int n = 0;
    for (; use[n] >= 'A'; n++)
        out[n] = (engine_use){.var = &v[(use[n] | 32) - 'a'], .write = use[n] < 'a'};
    return use[n] == '!' ? -1 : n;
}

/* Steps with blanks between them: letters are variables, capital ones are written; - uses none, and
 * ! is the end. */
static bool idle(const char *steps)
{
    char text[32], *each[8] = {NULL}, *at = text;
    int n = 0;
    snprintf(text, sizeof text, "%s", steps);
    while (*steps && at)
        each[n++] = strsep(&at, " ");
    return engine_idle(n, uses_of, each);
}

TEST(engine_idle_says_what_could_run_at_once)
{
    engine_use held[] = {{.var = &v[0], .write = true}, {.var = &v[1]}};
    engine_op op = {.run = begins, .group = &group, .uses = held, .nuses = 2, .later = true,
                    .quick = true};
    CHECK(idle("") && idle("-") && !idle("!"));
    CHECK(idle("cd cd") && idle("Cd cd") && idle("dC"));
    CHECK(!idle("Cd dC") && !idle("Cd Cd") && !idle("cd ! cd"));
    CHECK(idle("a"));
    engine_submit(&op); /* which writes a and reads b */
    CHECK(!idle("a") && !idle("ca") && !idle("cd a"));
    CHECK(idle("b") && !idle("B"));
    engine_complete(&op, &fine);
    CHECK(idle("B"));
    for (int i = 0; i < 4; i++)
        CHECK_INT(engine_pending(&v[i]), 0);
}

static int quick_runs;

static int run_quick(engine_op *op, kv_err *e)
{
    (void)op;
    CHECK(!e);
    quick_runs++;
    return KV_OK;
}

/* A quick operation runs in the thread that makes it ready, before that goes on. */
TEST(engine_quick_operations_run_at_once)
{
    trace_op trace[2] = {{.scheduled = -1, .ready = -1}, {.scheduled = -1, .ready = -1}};
    engine_use uses[] = {{.var = v, .write = true}, {.var = v}};
    engine_op ops[2];
    for (int i = 0; i < 2; i++) {
        ops[i] = (engine_op){.run = run_quick, .group = &group, .uses = &uses[i], .nuses = 1,
                             .later = true, .quick = true, .trace = &trace[i]};
        engine_submit(&ops[i]);
        CHECK_INT(quick_runs, 1);
        CHECK(trace[i].scheduled >= 0);
        CHECK_INT(trace[i].ready >= trace[i].scheduled, i == 0);
    }
    engine_complete(&ops[0], &fine);
    CHECK_INT(quick_runs, 2);
    CHECK(trace[1].ready >= trace[1].scheduled);
    engine_complete(&ops[1], &fine);
    engine_wait_group(&group, 0);
}

static void *opens_late(void *open)
{
    sleep_ms(20);
    pool_signal(open);
    return NULL;
}

/* An operation that was submitted once, and then twice waits for its turn on this thread. */
TEST(engine_operations_are_used_again)
{
    gate again = {.uses = {{.var = v, .write = true}}};
    submit(&again, &group, 1, 0);
    engine_wait_group(&group, 0);
    CHECK_INT(again.ran, 1);
    for (int i = 1; i <= 2; i++) {
        pool_flag open = {0};
        gate first = {.uses = {{.var = v, .write = true}}, .open = &open};
        submit(&first, &group, 1, 0);
        again.uses[0].var = v; /* an end of a use forgets it */
        pthread_t t = spawn(opens_late, &open);
        CHECK_OK(engine_run_now(&again.op, &e));
        CHECK_INT(first.ran, 2 * i);
        CHECK_INT(again.ran, 2 * i + 1);
        join(t);
        engine_wait_group(&group, 0);
    }
    CHECK_INT(turns, 5);
}

/* More uses than are looked at ahead, in memory of their own size. */
TEST(engine_operations_of_many_uses)
{
    enum { MANY = sizeof v / sizeof *v };
    OWN(test_free) engine_use *uses = calloc(MANY, sizeof *uses);
    CHECK(uses != NULL);
    for (int n = 30; n <= MANY; n++) {
        engine_op op = {.run = begins, .group = &group, .nuses = n};
        op.uses = uses + MANY - n;
        for (int turn = 0; turn < 2; turn++) {
            for (int i = 0; i < n; i++)
                op.uses[i] = (engine_use){.var = &v[i], .write = i % 3 == 0};
            if (turn) {
                engine_submit(&op);
                engine_wait_group(&group, 0);
            } else {
                CHECK_OK(engine_run_now(&op, &e));
            }
        }
    }
    for (int i = 0; i < MANY; i++)
        CHECK_INT(engine_pending(&v[i]), 0);
}

/* Each of two lots writes one variable and reads another. */
static engine_lot two_lots(const void *arg, int64_t i)
{
    (void)arg;
    return (engine_lot){2 + i, 1, i, 1};
}

static bool apart(const char *writes, const char *reads)
{
    engine_use uses[4] = {{.var = v + (writes[0] - 'a'), .write = true},
                          {.var = v + (writes[1] - 'a'), .write = true},
                          {.var = v + (reads[0] - 'a')},
                          {.var = v + (reads[1] - 'a')}};
    engine_op op = {.uses = uses, .nuses = 4};
    return engine_apart(&op, 2, two_lots, NULL);
}

TEST(engine_lots_are_apart)
{
    CHECK(apart("ab", "cd"));
    CHECK(apart("ab", "cc")); /* both read it */
    CHECK(apart("ab", "ab")); /* in place */
    CHECK(apart("ab", "ac"));
    CHECK(!apart("aa", "cd") && !apart("ab", "ba") && !apart("ab", "ca") && !apart("ab", "bc"));
    CHECK(!apart("ab", "aa")); /* the second lot reads what the first writes */
    CHECK(apart("ab", "ab"));
    engine_use use = {.var = &v[2]}; /* the last operation has claimed what a lot reads */
    engine_op op = {.uses = &use, .nuses = 1};
    CHECK(engine_try(&op));
    engine_finish(&op);
    CHECK(apart("ab", "cc") && apart("ab", "cd"));
}

typedef struct count {
    int64_t parts[4096];
    int64_t inner[8];
    int busy[POOL_MAX_WORKERS];
} count;

static void run_inner(void *arg, int64_t part, int worker)
{
    count *c = arg;
    (void)worker;
    __atomic_add_fetch(&c->inner[part], 1, __ATOMIC_RELAXED);
}

static void run_counted(void *arg, int64_t part, int worker)
{
    count *c = arg;
    CHECK(worker >= 0 && worker < pool_workers());
    CHECK_INT(__atomic_add_fetch(&c->busy[worker], 1, __ATOMIC_RELAXED), 1);
    c->parts[part]++;
    if (part % 512 == 0)
        pool_run(8, run_inner, c);
    __atomic_sub_fetch(&c->busy[worker], 1, __ATOMIC_RELAXED);
}

TEST(pool_runs_each_part_once_also_within_a_part)
{
    static count c;
    for (int round = 1; round <= 20; round++) {
        pool_run(4096, run_counted, &c);
        for (int i = 0; i < 4096; i++)
            CHECK_INT(c.parts[i], round);
        for (int i = 0; i < 8; i++)
            CHECK_INT(c.inner[i], 8 * round);
    }
    pool_run(0, run_counted, &c);
}

/* A place to sleep, until it is ended. All atomic. */
static struct {
    int ended, sleeping, refuses, calls;
} bed;

/* Waits with a limit go on at once. */
static bool sleep_in_bed(const int *set, int64_t us)
{
    set_to(&bed.calls, bed.calls + 1);
    if (look_at(&bed.refuses))
        return false;
    set_to(&bed.sleeping, us > 5000);
    bool late = us > 5000 && !look_at(set);
    while (late && !look_at(&bed.ended)) /* not by the flag */
        pause_shortly();
    return true;
}

static void end_bed(void)
{
    set_to(&bed.ended, 1);
}

/* Signals when its waiter sleeps in the bed, or might in the pool. */
static void signal_late(pool_task *t)
{
    while (!look_at(&bed.sleeping) && !look_at(&bed.refuses))
        pause_shortly();
    pause_shortly();
    pool_signal((pool_flag *)(void *)(t + 1));
}

TEST(pool_lets_waiting_threads_sleep_elsewhere)
{
    struct {
        pool_task task;
        pool_flag flag;
    } late;
    pool_set_rest(sleep_in_bed, end_bed);
    for (int refuses = 0; refuses < 2; refuses++) {
        memset(&late, 0, sizeof late);
        late.task.run = signal_late;
        late.task.foreign = true; /* the thread that waits does not run it */
        memset(&bed, 0, sizeof bed);
        pool_submit(&late.task);
        CHECK(!pool_wait_for(&late.flag, 1));
        CHECK(look_at(&bed.calls) > 0);
        set_to(&bed.refuses, refuses);
        pool_wait(&late.flag);
        CHECK(late.flag.set);
        CHECK_INT(look_at(&bed.ended) || refuses, 1);
    }
    pool_set_rest(NULL, NULL);
}

TEST(pool_uses_no_processor_when_idle)
{
    struct timespec from, to;
    static count c;
    pool_run(4096, run_counted, &c);
    sleep_ms(50);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    sleep_ms(500);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    int64_t ns = (to.tv_sec - from.tv_sec) * 1000000000 + to.tv_nsec - from.tv_nsec;
    CHECK(ns < 5000000);
}
