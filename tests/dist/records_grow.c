/* A server of whose two workers one is a spare: rounds are of the other one alone until that lets
 * it in, and of both behind the round at which it did. */
#include "records.h"

enum { SPARE = 1 };

static server_state *open_with_spare(const char *type, bool is_async)
{
    ask_store how = form(type, is_async, false, -1);
    setenv("KVSTORE_SPARES", "1", 1);
    open_server();
    asked(0, 1, ASK_CREATE, none, &how, sizeof how);
    return server_store(STORE);
}

static void let_in(int64_t rank, int64_t number)
{
    ask(0, 50, ASK_GROW, (link_args){.grow = {rank, number}}, NULL, 0);
}

static void told(int rank, int64_t number)
{
    const sent *x = next_to(rank, LINK_GROWN, 0);
    CHECK_INT(x->r.args.grow.rank, SPARE);
    CHECK_INT(x->r.args.grow.round, number);
}

TEST(records_a_spare_is_let_in_at_a_round)
{
    ask_store how = form("dist_sync", false, false, -1);
    server_state *s = open_with_spare("dist_sync", false);
    init_key(0, NULL, 0);
    asked(0, 40, ASK_BARRIER, (link_args){.barrier = ASK_MEET}, NULL, 0);
    push(0, 0, 1, 11, 1, 0);
    settle();
    done(0, 11, 1);
    let_in(SPARE, 1);
    told(0, 1);
    told(SPARE, 1);
    replied(0, 50);
    CHECK_INT(s->ndone, 0);
    ask(SPARE, 2, ASK_CREATE, none, &how, sizeof how); /* all others have made it */
    replied(SPARE, 2);
    push(0, 0, 2, 12, 2, 0);
    nothing_comes();
    push(SPARE, 0, 2, 22, 4, 0);
    pull(SPARE, 0, 2, 23);
    settle();
    done(0, 12, 1);
    done(SPARE, 22, 1);
    value(SPARE, 23, 9, 6, 0);
    CHECK_INT(s->parts[0]->contributors, 2);
    ask(0, 41, ASK_BARRIER, (link_args){.barrier = ASK_MEET}, NULL, 0);
    no_more();
    ask(SPARE, 41, ASK_BARRIER, (link_args){.barrier = ASK_MEET}, NULL, 0);
    replied(0, 41);
    replied(SPARE, 41);
    give_up_store();
    CHECK(!server_stores);
}

/* Mail waits for it from then on, and before that for nobody. */
TEST(records_mail_of_a_spare)
{
    open_with_spare("dist_sync", false);
    asked(0, 30, ASK_SEND, (link_args){.mail = {SPARE, MAIL_GROWN}}, "old", 3);
    let_in(SPARE, 0);
    told(0, 0);
    told(SPARE, 0);
    replied(0, 50);
    ask(SPARE, 31, ASK_RECEIVE, (link_args){.mail = {0, MAIL_GROWN}}, NULL, 0);
    no_more();
    ask(0, 32, ASK_SEND, (link_args){.mail = {SPARE, MAIL_GROWN}}, "counts", 6);
    CHECK_INT(replied(SPARE, 31)->r.bytes, 6);
    replied(0, 32);
    give_up_store();
}

TEST(records_what_lets_no_spare_in)
{
    open_with_spare("dist_sync", false);
    const int64_t ranks[] = {-1, 0, SERVER, RANKS, 1 << 30, (1ll << 32) + SPARE};
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        let_in(ranks[i], 1);
        malformed(0, link_call_number(50));
    }
    ask(SPARE, 51, ASK_GROW, (link_args){.grow = {SPARE, 1}}, NULL, 0);
    malformed(SPARE, link_call_number(51));
    let_in(SPARE, 1);
    told(0, 1);
    told(SPARE, 1);
    replied(0, 50);
    let_in(SPARE, 1); /* once */
    malformed(0, link_call_number(50));
    give_up_store();
}

TEST(records_no_spare_is_let_in_without_common_rounds)
{
    open_with_spare("dist_async", true);
    let_in(SPARE, 1);
    malformed(0, link_call_number(50));
}

/* The rounds go on without a spare that was lost before it is let in. */
TEST(records_a_spare_that_is_gone_is_let_in)
{
    char why[ALIVE_WHY];
    be_elastic("all");
    server_state *s = open_with_spare("dist_sync", false);
    say_gone(SPARE);
    CHECK_INT(alive_next_gone(why), SPARE);
    alone_taker.gone(SPARE, why);
    init_key(0, NULL, 0);
    let_in(SPARE, 0);
    told(0, 0);
    replied(0, 50);
    CHECK_INT(s->ndone, 1);
    push(0, 0, 1, 11, 1, 0);
    settle();
    done(0, 11, 1);
    asked(0, 90, ASK_FREE, none, NULL, 0);
    nothing_comes();
    CHECK(!server_stores);
    end_elastic();
}

/* A spare does not count for the workers that a store still waits for, before it is lost and
 * afterwards. */
TEST(records_a_store_without_a_spare_that_is_gone)
{
    enum { ALL = 3 };
    ask_store how = form("dist_sync", false, false, -1);
    how.workers = ALL;
    setenv("KVSTORE_SPARES", "1", 1);
    be_server(ALL, ALL + 1);
    CHECK_OK(net_open(server_open, &e));
    ask(0, 1, ASK_CREATE, none, &how, sizeof how);
    alone_taker.gone(ALL - 1, "it was killed");
    no_more();
    ask(1, 2, ASK_CREATE, none, &how, sizeof how);
    replied(0, 1);
    replied(1, 2);
    give_up_store();
}
