/* Calls to a server of two workers without a net: stores, counts, optimizers. */
#include "records.h"

/* ---- Calls ---- */

TEST(records_stores_that_are_not_made)
{
    open_server();
    ask_store how = form("dist_sync", false, false, -1), bad = how;
    bad.workers = WORKERS + 1;
    ask(0, 1, ASK_CREATE, none, &bad, sizeof bad);
    bad = how;
    bad.servers = 2;
    ask(0, 1, ASK_CREATE, none, &bad, sizeof bad);
    bad = how;
    bad.sums = bad.is_async = 1;
    ask(0, 1, ASK_CREATE, none, &bad, sizeof bad);
    bad = how;
    memset(bad.type, 'x', sizeof bad.type);
    ask(0, 1, ASK_CREATE, none, &bad, sizeof bad);
    ask(0, 1, ASK_CREATE, none, &how, sizeof how - 8);
    ask(WORKERS, 1, ASK_CREATE, none, &how, sizeof how);
    for (int i = 0; i < 6; i++)
        malformed(i == 5 ? WORKERS : 0, link_call_number(1));
    CHECK(!server_stores);
    ask(0, 1, ASK_COUNTS, none, NULL, 0);
    failed(0, link_call_number(1), KV_E_INTERNAL, "server 2 has no such store");
    ask(0, 1, ASK_CREATE, none, &how, sizeof how);
    bad = form("dist_async", true, false, -1);
    ask(1, 2, ASK_CREATE, none, &bad, sizeof bad);
    failed(1, link_call_number(2), KV_E_VALUE,
           "rank 1 makes a store of type \"dist_async\", others one of \"dist_sync\"");
    bad = how;
    bad.staleness = 3;
    ask(1, 2, ASK_CREATE, none, &bad, sizeof bad);
    failed(1, link_call_number(2), KV_E_VALUE,
           "rank 1 makes a store of type \"dist_sync\", others one of \"dist_sync\"");
    ask(1, 3, ASK_CREATE, none, &how, sizeof how);
    replied(0, 1);
    replied(1, 3);
    no_more();
    ask(1, 4, (dist_ask)99, none, NULL, 0);
    failed(1, link_call_number(4), KV_E_INTERNAL, "server 2 does not know call 99");
    ask(1, 5, ASK_COMMAND, none, "x", 1); /* without its end */
    malformed(1, link_call_number(5));
    ask(1, 5, ASK_COMMAND, none, NULL, 0);
    malformed(1, link_call_number(5));
    ask(1, 5, ASK_COMMAND, none, "x", 2);
    replied(1, 5);
    no_more();
    give_up_store();
}

static ask_counts counts(int rank)
{
    ask_counts c;
    ask(rank, 30, ASK_COUNTS, none, NULL, 0);
    const sent *x = replied(rank, 30);
    CHECK_INT(x->r.bytes, sizeof c);
    memcpy(&c, x->data, sizeof c);
    return c;
}

TEST(records_counts)
{
    open_store(form("dist_sync", false, false, -1));
    init_key(0, NULL, 0);
    init_key(1, NULL, 0);
    ask_counts c = counts(0);
    CHECK_INT(c.keys, 2);
    CHECK_INT(c.bytes, 2 * BYTES);
    CHECK_INT(c.rounds, 0);
    CHECK_INT(c.late, 0);
    CHECK_INT(c.missing, 0);
    CHECK_INT(c.contributors, 0);
    push(1, 1, 1, 21, 1, 0);
    settle();
    c = counts(1);
    CHECK_INT(c.late, 1);
    CHECK_INT(c.missing, 1);
    push(0, 1, 1, 11, 1, 0);
    push(0, 0, 1, 12, 1, 0);
    settle();
    done(0, 11, 1);
    done(1, 21, 1);
    c = counts(1);
    CHECK_INT(c.rounds, 1);
    CHECK_INT(c.contributors, 2);
    CHECK_INT(c.late, 1);
    CHECK_INT(c.missing, 2);
    ask(0, 9, ASK_DROP, (link_args){.drop = {1, 1}}, NULL, 0);
    replied(0, 9);
    ask(0, 9, ASK_DROP, (link_args){.drop = {0, 1}}, NULL, 0);
    failed(0, link_call_number(9), KV_E_INTERNAL, "part 0 is in use");
    c = counts(0);
    CHECK_INT(c.keys, 1);
    CHECK_INT(c.bytes, BYTES);
    settle();
    no_more();
    give_up_store();
}

/* An optimizer holds for rounds that the lowest rank has not begun. */
TEST(records_an_optimizer_waits_for_open_rounds)
{
    server_state *s = open_store(form("dist_sync", false, false, -1));
    init_key(0, NULL, 0);
    push(0, 0, 1, 11, 1, 0);
    set_rule("{ stored = input * 10 }");
    push(0, 0, 2, 12, 2, 0);
    settle();
    CHECK_INT(s->optimizers_come, 1);
    CHECK_INT(s->optimizers_set, 0);
    push(1, 0, 1, 21, 1, 0);
    pull(0, 0, 1, 13);
    settle();
    done(0, 11, 1);
    done(1, 21, 1);
    value(0, 13, 9, 2, 0);
    CHECK_INT(s->open_rounds, 1);
    no_more();
    give_up_store();
}

TEST(records_optimizers)
{
    static const char *const texts[] = {"assign", "optimizer\0sgd\0learning_rate\0000.5",
                                        "update\0\0learning_rate\0000.25"};
    static const int64_t bytes[] = {7, 32, 27};
    static const float want[] = {2, 1, 0.5f}; /* the sum; less half the sum; less a quarter */
    open_store(form("dist_sync", false, false, -1));
    init_key(0, NULL, 0);
    for (int i = 0; i < 3; i++) {
        ask(0, 4, ASK_OPTIMIZER, none, texts[i], bytes[i]);
        replied(0, 4);
        push(0, 0, i + 1, 11, 1, 0);
        push(1, 0, i + 1, 21, 1, 0);
        pull(0, 0, i + 1, 12);
        settle();
        done(0, 11, 1);
        done(1, 21, 1);
        value(0, 12, 9, want[i], 0);
    }
    no_more();
    give_up_store();
}
