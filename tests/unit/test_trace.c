/* The recorder of events; also meant to run under -fsanitize=thread. */
#include "engine/trace.h"

#include <stdatomic.h>

#include "thread_help.h"

enum { THREADS = 8, EVENTS = 5000 };

static void add_push(uint64_t op)
{
    trace_add(&(trace_event){TRACE_RUN, .name = "push", .op = op});
}

static int count(void *arg, const trace_event *ev, kv_err *e)
{
    (void)ev, (void)e;
    ++*(int64_t *)arg;
    return KV_OK;
}

TEST(trace_off_takes_nothing)
{
    int64_t n = 0;
    CHECK(!trace_on());
    CHECK_INT(trace_number(), 0);
    add_push(1);
    CHECK_OK(trace_start(&e));
    CHECK(trace_on());
    CHECK_OK(trace_stop(count, &n, &e));
    CHECK_INT(n, 0);
    CHECK(!trace_on());
}

TEST(trace_begins_and_ends_once)
{
    CHECK_ERR(trace_stop(NULL, NULL, &e), KV_E_VALUE, "no profile is being taken");
    CHECK_OK(trace_start(&e));
    CHECK_ERR(trace_start(&e), KV_E_VALUE, "a profile is being taken already");
    CHECK_OK(trace_stop(NULL, NULL, &e));
    CHECK_OK(trace_start(&e));
    CHECK_OK(trace_stop(NULL, NULL, &e));
}

static int check_copy(void *arg, const trace_event *ev, kv_err *e)
{
    (void)e;
    ++*(int *)arg;
    CHECK_TEXT(ev->name, "pull");
    CHECK_TEXT(ev->keys[0].name, "weight");
    CHECK_INT(ev->keys[1].id, 7);
    CHECK(ev->keys[1].name == NULL);
    CHECK_INT(ev->nkeys, 2);
    CHECK(ev->thread > 0);
    CHECK(ev->begin >= 0 && ev->begin <= ev->end);
    CHECK_INT(ev->from + ev->elements * 10 + ev->bytes * 100, 321);
    return KV_OK;
}

TEST(trace_copies_keys)
{
    int seen = 0;
    char name[] = "weight";
    kv_key keys[] = {{.name = name}, {.id = 7}};
    CHECK_OK(trace_start(&e));
    int64_t begin = trace_now();
    trace_add(&(trace_event){TRACE_PART, "pull", trace_number(), begin, trace_now(), keys, 2, 1, 2,
                             3, false, 0, 0});
    memset(name, 'x', sizeof name - 1);
    keys[1].id = 9;
    CHECK_OK(trace_stop(check_copy, &seen, &e));
    CHECK_INT(seen, 1);
}

static int check_many(void *arg, const trace_event *ev, kv_err *e)
{
    (void)arg, (void)e;
    CHECK_INT(ev->nkeys, 100);
    for (int i = 0; i < TRACE_KEYS; i++)
        CHECK_INT(ev->keys[i].id, i);
    return KV_OK;
}

TEST(trace_keeps_the_first_keys)
{
    kv_key keys[100];
    for (int i = 0; i < 100; i++)
        keys[i] = (kv_key){.id = i};
    CHECK_OK(trace_start(&e));
    trace_add(&(trace_event){TRACE_RUN, .name = "push", .op = trace_number(), .keys = keys,
                             .nkeys = 100});
    CHECK_OK(trace_stop(check_many, NULL, &e));
}

/* An event that began before the profile is not in it. */
TEST(trace_drops_events_of_an_earlier_profile)
{
    int64_t n = 0;
    CHECK_OK(trace_start(&e));
    uint64_t old = trace_number();
    CHECK_OK(trace_stop(count, &n, &e));
    CHECK_OK(trace_start(&e));
    add_push(old);
    add_push(0);
    add_push(trace_number());
    CHECK_OK(trace_stop(count, &n, &e));
    CHECK_INT(n, 1);
}

static int refuse(void *arg, const trace_event *ev, kv_err *e)
{
    (void)ev;
    ++*(int *)arg;
    return kv_err_set(e, KV_E_IO, "full");
}

TEST(trace_returns_what_the_visitor_says)
{
    int calls = 0;
    CHECK_OK(trace_start(&e));
    for (int i = 0; i < 3; i++)
        add_push(trace_number());
    CHECK_ERR(trace_stop(refuse, &calls, &e), KV_E_IO, "full");
    CHECK_INT(calls, 1);
    CHECK(!trace_on());
}

TEST(trace_says_when_memory_ran_out)
{
    int64_t n = 0;
    kv_key key = {.id = 1};
    CHECK_OK(trace_start(&e));
    add_push(trace_number());
    mem_fail_at(1);
    for (int i = 0; i < 3; i++)
        trace_add(
            &(trace_event){TRACE_RUN, .name = "a", .op = trace_number(), .keys = &key, .nkeys = 1});
    mem_fail_at(0);
    CHECK_ERR(trace_stop(count, &n, &e), KV_E_MEMORY, "no memory for 3 events of the profile");
    CHECK_INT(n, 1);
}

static atomic_bool ended;

static void *add_events(void *arg)
{
    (void)arg;
    kv_key key = {.name = "w"};
    for (int64_t i = 0; i < EVENTS; i++)
        trace_add(&(trace_event){TRACE_RUN, .name = "push", .op = trace_number(), .from = i,
                                 .keys = &key, .nkeys = 1});
    return NULL;
}

static int check_order(void *arg, const trace_event *ev, kv_err *e)
{
    int64_t *next = arg;
    (void)e;
    CHECK(ev->thread >= 1 && ev->thread <= THREADS);
    CHECK_INT(ev->from, next[ev->thread]++);
    return KV_OK;
}

TEST(trace_keeps_the_order_of_each_thread)
{
    pthread_t threads[THREADS];
    int64_t next[THREADS + 1] = {0};
    CHECK_OK(trace_start(&e));
    for (int i = 0; i < THREADS; i++)
        threads[i] = spawn(add_events, NULL);
    for (int i = 0; i < THREADS; i++)
        join(threads[i]);
    CHECK_OK(trace_stop(check_order, next, &e));
    for (int i = 1; i <= THREADS; i++)
        CHECK_INT(next[i], EVENTS);
}

static void *add_until_ended(void *arg)
{
    while (!atomic_load(&ended))
        add_events(arg);
    return NULL;
}

/* Ends and begins under threads that do not stop: each event is in one profile at most, whole. */
TEST(trace_may_end_at_any_time)
{
    pthread_t threads[THREADS];
    int64_t n = 0;
    for (int i = 0; i < THREADS; i++)
        threads[i] = spawn(add_until_ended, NULL);
    for (int i = 0; i < 200; i++) {
        CHECK_OK(trace_start(&e));
        CHECK_OK(trace_stop(count, &n, &e));
    }
    atomic_store(&ended, true);
    for (int i = 0; i < THREADS; i++)
        join(threads[i]);
    CHECK_OK(trace_start(&e));
    n = 0;
    CHECK_OK(trace_stop(count, &n, &e));
    CHECK_INT(n, 0);
}

TEST(trace_keeps_the_first_events)
{
    int64_t n = 0;
    CHECK_OK(trace_start(&e));
    for (int i = 0; i < TRACE_EVENTS + 3; i++)
        add_push(trace_number());
    CHECK_OK(trace_stop(count, &n, &e));
    CHECK_INT(n, TRACE_EVENTS);
    CHECK_INT(trace_left_out(), 3);
    CHECK_OK(trace_start(&e));
    CHECK_OK(trace_stop(count, &n, &e));
    CHECK_INT(n, TRACE_EVENTS);
    CHECK_INT(trace_left_out(), 0);
}
