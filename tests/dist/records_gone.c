/* A server one of whose two workers is gone: what it has brought whole counts, all else is
 * forgotten, and the other one goes on. */
#include "records.h"

static void lose(int rank)
{
    alone_taker.gone(rank, "it was killed");
    settle();
}

/* All that worker 0 still does with a store. */
static void free_store_alone(void)
{
    asked(0, 90, ASK_FREE, none, NULL, 0);
    nothing_comes();
    CHECK(!server_stores);
}

TEST(records_rounds_without_a_worker_that_is_gone)
{
    server_state *s = store_with_key(0);
    push(0, 0, 1, 11, 1, 0);
    nothing_comes();
    lose(1);
    done(0, 11, 1);
    no_more();
    CHECK_INT(s->parts[0]->contributors, 1);
    lose(1); /* once */
    CHECK_INT(s->ndone, 1);
    push(0, 0, 2, 12, 2, 0);
    pull(0, 0, 2, 13);
    settle();
    done(0, 12, 1);
    value(0, 13, 9, 2, 0);
    free_store_alone();
}

/* Its push is in the sum of its round, which nobody waits for until another one contributes. */
TEST(records_a_push_of_a_worker_that_is_gone)
{
    server_state *s = store_with_key(0);
    push(1, 0, 1, 21, 16, 0);
    link_rec before = push_head(0, 2, 22);
    float x[N];
    floats(x, 32, 0);
    before.pulls = 1; /* behind a pull that never comes */
    give(1, before, x, sizeof x);
    settle();
    lose(1);
    no_more();
    alone_taker.look(net_now_us() + (int64_t)400e6); /* nothing is given up */
    no_more();
    push(0, 0, 1, 11, 1, 0);
    push(0, 0, 2, 12, 2, 0);
    pull(0, 0, 2, 13);
    settle();
    while (nread < nsent && all[nread].rank == 1)
        nread++;
    done(0, 11, 1);
    while (nread < nsent && all[nread].rank == 1)
        nread++;
    done(0, 12, 1);
    while (nread < nsent && all[nread].rank == 1)
        nread++;
    value(0, 13, 9, 34, 0);
    CHECK_INT(s->parts[0]->contributors, 2);
    nread = nsent;
    free_store_alone();
}

TEST(records_half_a_push_of_a_worker_that_is_gone)
{
    server_state *s = store_with_key(0);
    float x[N];
    floats(x, 8, 0);
    link_rec half = push_head(0, 1, 21);
    half.flags = 0;
    give(1, half, x, sizeof x / 2);
    pull(1, 0, 5, 22);
    settle();
    lose(1);
    no_more();
    CHECK(!s->parts[0]->pulls);
    push(0, 0, 1, 11, 1, 0);
    pull(0, 0, 1, 12);
    settle();
    done(0, 11, 1);
    value(0, 12, 9, 1, 0);
    free_store_alone();
}

/* A round of its own is applied when it and all before it have come whole. */
TEST(records_async_pushes_of_a_worker_that_is_gone)
{
    server_state *s = open_store(form("dist_async", true, false, 0));
    init_key(0, NULL, 0);
    set_rule("{ stored += input }");
    push(0, 0, 1, 11, 1, 0);
    settle();
    nread = nsent;
    push(0, 0, 2, 12, 2, 0); /* a step ahead, which the bound allows no more */
    push(1, 0, 3, 23, 64, 0);
    nothing_comes();
    lose(1);
    done(0, 12, 1);
    no_more();
    CHECK(!s->parts[0]->rounds);
    pull_gives(0, 0, 2, 13, 3, 0);
    free_store_alone();
}

/* Those that have come whole are applied one behind the other, when the bound allows each. */
TEST(records_async_pushes_before_a_worker_is_gone)
{
    server_state *s = open_store(form("dist_async", true, false, 0));
    init_key(0, NULL, 0);
    set_rule("{ stored += input }");
    for (int i = 1; i <= 3; i++)
        push(1, 0, i, 20 + (uint64_t)i, 1 << i, 0);
    settle();
    done(1, 21, 1);
    no_more();
    push(1, 0, 5, 25, 64, 0); /* behind one that never comes */
    lose(1);
    for (int i = 1; i <= 2; i++)
        push(0, 0, i, 10 + (uint64_t)i, 128, 0);
    settle();
    CHECK(!s->parts[0]->rounds);
    nread = nsent;
    pull_gives(0, 0, 2, 13, 2 + 4 + 8 + 2 * 128, 0);
    free_store_alone();
}

TEST(records_sums_without_a_worker_that_is_gone)
{
    float x[N];
    open_store(form("horovod", false, true, -1));
    floats(x, 4, 0);
    link_rec r = {.kind = LINK_ADD, .flags = LINK_LAST, .store = STORE, .part = 0, .request = 11,
                  .round = 1, .chunk = 9, .dtype = KV_FLOAT32};
    give(0, r, x, sizeof x);
    nothing_comes();
    lose(1);
    value(0, 11, 9, 4, 0);
    free_store_alone();
}

TEST(records_calls_without_a_worker_that_is_gone)
{
    open_store(form("dist_sync", false, false, -1));
    ask(0, 40, ASK_BARRIER, (link_args){.barrier = ASK_MEET}, NULL, 0);
    ask(1, 41, ASK_RECEIVE, (link_args){.mail = {0, 1}}, NULL, 0);
    no_more();
    lose(1);
    CHECK_INT(replied(0, 40)->r.bytes, sizeof(ask_met));
    ask(0, 42, ASK_RECEIVE, (link_args){.mail = {1, 2}}, NULL, 0);
    CHECK_INT(replied(0, 42)->r.bytes, 0); /* nothing will come */
    ask(0, 43, ASK_SEND, (link_args){.mail = {1, 1}}, "news", 4);
    CHECK_INT(replied(0, 43)->r.bytes, 0);
    no_more();
    free_store_alone();
}

/* Mail that it has sent is there, and one that waits for its mail gets an empty one. */
TEST(records_mail_of_a_worker_that_is_gone)
{
    open_store(form("dist_sync", false, false, -1));
    ask(1, 41, ASK_SEND, (link_args){.mail = {0, 1}}, "news", 4);
    CHECK_INT(replied(1, 41)->r.bytes, 0);
    ask(0, 42, ASK_RECEIVE, (link_args){.mail = {1, 2}}, NULL, 0);
    no_more();
    lose(1);
    CHECK_INT(replied(0, 42)->r.bytes, 0);
    ask(0, 43, ASK_RECEIVE, (link_args){.mail = {1, 1}}, NULL, 0);
    CHECK_INT(replied(0, 43)->r.bytes, 4);
    free_store_alone();
}

/* A key that it was about to make is the next one's to make. */
TEST(records_keys_of_a_worker_that_is_gone)
{
    own_buf b = {0};
    ask_key k = {.id = 7, .dtype = KV_FLOAT32, .ndim = 1, .shape = {4}};
    place p;
    open_store(form("dist_sync", false, false, -1));
    ask_put_key(&b, &k, NULL);
    ask(1, 41, ASK_PLACE, none, b.data, (int64_t)b.len);
    memcpy(&p, replied(1, 41)->data, sizeof p);
    int64_t first = p.first;
    ask(0, 42, ASK_PLACE, none, b.data, (int64_t)b.len);
    memcpy(&p, replied(0, 42)->data, sizeof p);
    CHECK_INT(p.first, -1);
    lose(1);
    ask(0, 43, ASK_PLACE, none, b.data, (int64_t)b.len);
    memcpy(&p, replied(0, 43)->data, sizeof p);
    CHECK_INT(p.first, first);
    no_more();
    free_store_alone();
}

TEST(records_a_store_without_a_worker_that_is_gone)
{
    ask_store how = form("dist_sync", false, false, -1);
    open_server();
    ask(0, 1, ASK_CREATE, none, &how, sizeof how);
    no_more();
    lose(1);
    CHECK_INT(replied(0, 1)->r.bytes, 0);
    no_more();
    free_store_alone();
}

/* It has released the store, or is the one that the others wait for with that. */
TEST(records_a_store_is_released_without_a_worker_that_is_gone)
{
    open_store(form("dist_sync", false, false, -1));
    asked(0, 90, ASK_FREE, none, NULL, 0);
    CHECK(server_stores);
    lose(1);
    CHECK(!server_stores);
    no_more();
}

/* It has released the store before, and counts once: the other one still uses it. */
TEST(records_a_store_stays_behind_a_worker_that_is_gone)
{
    open_store(form("dist_sync", false, false, -1));
    asked(1, 90, ASK_FREE, none, NULL, 0);
    lose(1);
    CHECK(server_stores);
    init_key(0, NULL, 0);
    free_store_alone();
}

TEST(records_a_new_store_without_a_worker_that_is_gone)
{
    char why[ALIVE_WHY];
    ask_store how = form("dist_sync", false, false, -1);
    be_elastic("all");
    open_server();
    say_gone(1);
    CHECK_INT(alive_next_gone(why), 1);
    asked(0, 1, ASK_CREATE, none, &how, sizeof how);
    no_more();
    free_store_alone();
    end_elastic();
}

/* ---- Which stores go on ---- */

/* The rounds of dist_sync need all workers, unless the launcher says otherwise. */
static void goes_on(const char *how, const char *type, bool is_async, bool goes)
{
    char why[ALIVE_WHY];
    kv_err e = {0};
    be_elastic(how);
    open_store(form(type, is_async, false, -1));
    say_gone(1);
    CHECK_INT(alive_next_gone(why), goes ? 1 : -1);
    CHECK(alive_is_gone(1) == goes && alive_is_lost(&e) == !goes);
    if (!goes)
        CHECK_TEXT(e.text, "rank 1 was killed");
    end_elastic();
}

TEST(records_dist_async_goes_on_without_a_worker)
{
    goes_on("1", "dist_async", true, true);
}

TEST(records_dist_sync_does_not_go_on_without_a_worker)
{
    goes_on("1", "dist_sync", false, false);
}

TEST(records_dist_sync_goes_on_where_all_do)
{
    goes_on("all", "dist_sync", false, true);
}
