/* Calls to a server of two workers without a net: stores, counts, optimizers. */
#include "core/state_file.h"
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
    asked(1, 5, ASK_COMMAND, none, "x", 2);
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
    own_store *s = store_with_key(0);
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
    both_done(11, 21, 1);
    c = counts(1);
    CHECK_INT(c.rounds, 1);
    CHECK_INT(c.contributors, 2);
    CHECK_INT(c.late, 1);
    CHECK_INT(c.missing, 2);
    asked(0, 9, ASK_DROP, (link_args){.drop = {1, 1}}, NULL, 0);
    ask(0, 9, ASK_DROP, (link_args){.drop = {0, 1}}, NULL, 0);
    failed(0, link_call_number(9), KV_E_INTERNAL, "part 0 is in use");
    c = counts(0);
    CHECK_INT(c.keys, 1);
    CHECK_INT(c.bytes, BYTES);
    settle();
}

/* An optimizer holds for rounds that the lowest rank has not begun. */
TEST(records_an_optimizer_waits_for_open_rounds)
{
    own_store *s = store_with_key(0);
    push(0, 0, 1, 11, 1, 0);
    set_rule("{ stored = input * 10 }");
    push(0, 0, 2, 12, 2, 0);
    settle();
    CHECK_INT(s->optimizers_come, 1);
    CHECK_INT(s->optimizers_set, 0);
    push(1, 0, 1, 21, 1, 0);
    pull(0, 0, 1, 13);
    both_done(11, 21, 1);
    value(0, 13, 9, 2, 0);
    CHECK_INT(s->open_rounds, 1);
}

TEST(records_optimizers)
{
    static const char *const texts[] = {"assign", "optimizer\0sgd\0learning_rate\0000.5",
                                        "update\0\0learning_rate\0000.25"};
    static const int64_t bytes[] = {7, 32, 27};
    static const float want[] = {2, 1, 0.5f}; /* the sum; less half the sum; less a quarter */
    own_store *s = store_with_key(0);
    for (int i = 0; i < 3; i++) {
        asked(0, 4, ASK_OPTIMIZER, none, texts[i], bytes[i]);
        push(0, 0, i + 1, 11, 1, 0);
        push(1, 0, i + 1, 21, 1, 0);
        pull(0, 0, i + 1, 12);
        both_done(11, 21, 1);
        value(0, 12, 9, want[i], 0);
    }
}

/* ---- Counts ---- */

/* A key counts once, where its first part is; bytes are those of the parts that are here. */
TEST(records_counts_of_a_key_in_parts)
{
    buf b = {0};
    kv_array *a = array_of(KV_FLOAT32, 1);
    ask_key k = {.dtype = KV_FLOAT32, .ndim = 2, .shape = {4, 2}};
    k.place = (place){.first = 1, .size = N, .step = N / 2, .nparts = 2, .row = 2, .server = -1};
    own_store *s = open_store(form("dist_sync", false, false, -1));
    for (int i = 0; i < 2; i++)
        CHECK_OK(ask_put_slot(&b, &k, NULL, i, a, &e));
    asked(0, 3, ASK_INIT, (link_args){.inits = 1}, b.data, (int64_t)b.len);
    init_key(4, NULL, 0);
    ask_counts c = counts(0);
    CHECK_INT(c.keys, 2);
    CHECK_INT(c.bytes, 2 * BYTES);
    ask(0, 9, ASK_DROP, (link_args){.drop = {1, 1}}, NULL, 0); /* it moves to another server */
    replied(0, 9);
    c = counts(0);
    CHECK_INT(c.keys, 1);
    CHECK_INT(c.bytes, BYTES + BYTES / 2);
    kv_array_unref(a);
    buf_release(&b);
    settle();
}

/* The contributors are those of the last part that had a round, whichever parts come behind it. */
TEST(records_counts_of_a_part_without_rounds)
{
    own_store *s = store_with_key(0);
    init_key(1, NULL, 0);
    push(0, 0, 1, 11, 1, 0);
    push(1, 0, 1, 21, 1, 0);
    both_done(11, 21, 1);
    CHECK_INT(counts(0).contributors, 2);
    settle();
}

/* A push of dist_async waits for nobody, so that no round is late. */
TEST(records_counts_of_async)
{
    own_store *s = open_store(form("dist_async", true, false, 0));
    init_key(0, NULL, 0);
    push(0, 0, 1, 11, 1, 0);
    push(0, 0, 2, 12, 1, 0);
    settle();
    done(0, 11, 1);
    ask_counts c = counts(0);
    CHECK_INT(c.rounds, 1);
    CHECK_INT(c.late, 0);
    CHECK_INT(c.missing, 0);
    settle();
}

/* There are 64 bits, and may be more workers. */
TEST(records_counts_of_many_workers)
{
    enum { CROWD = 66 };
    be_server(CROWD, CROWD + 1);
    CHECK_OK(net_open(server_open, &e));
    ask_store how = form("dist_sync", false, false, -1);
    how.workers = CROWD;
    for (int rank = 0; rank < CROWD; rank++)
        ask(rank, 1, ASK_CREATE, none, &how, sizeof how);
    for (int rank = 0; rank < CROWD; rank++)
        replied(rank, 1);
    init_key(0, NULL, 0);
    push(5, 0, 1, 11, 1, 0);
    settle();
    ask_counts c = counts(65);
    CHECK_INT(c.late, 1);
    CHECK_INT(c.missing, ~(1ull << 5));
    alone_taker.left(0);
    settle();
    CHECK_INT(next_to(5, LINK_FAILED, 11)->r.part, 0);
    for (int rank = 0; rank < CROWD; rank++) {
        asked(rank, 90, ASK_FREE, none, NULL, 0);
    }
    settle();
    CHECK(!server_stores);
}

/* ---- Looks from beside the script ---- */

/* Part 0 is at this round, and all its elements are x. */
static void looks(int64_t turn, float x)
{
    ask_look head;
    float got[N];
    ask(1, 32, ASK_LOOK, (link_args){.look = 0}, NULL, 0);
    const sent *y = replied(1, 32);
    CHECK_INT(y->r.bytes, sizeof head + sizeof got);
    memcpy(&head, y->data, sizeof head);
    memcpy(got, y->data + sizeof head, sizeof got);
    CHECK_INT(head.round, turn);
    for (int i = 0; i < N; i++)
        CHECK_INT(got[i], x);
}

/* A look is no pull: it comes before pushes that were sent before it, and none waits for it. */
TEST(records_looks)
{
    ask_round x;
    own_store *s = store_with_key(2);
    looks(0, 2);
    push(0, 0, 1, 11, 4, 0);
    settle();
    looks(0, 2);
    ask(1, 33, ASK_ROUNDS, none, NULL, 0);
    const sent *reply = replied(1, 33);
    int64_t of_one = reply->r.bytes;
    memcpy(&x, reply->data, sizeof x);
    CHECK_INT(x.round, 0);
    CHECK_INT(x.pushed, 1);
    CHECK_INT(x.missing, 2);
    push(1, 0, 1, 21, 5, 0);
    both_done(11, 21, 1);
    looks(1, 9);
    ask(1, 34, ASK_LOOK, (link_args){.look = 1}, NULL, 0);
    failed(1, link_call_number(34), KV_E_KEY, "there is no such key on server 2");
    init_key(1, NULL, 3);
    init_key(2, NULL, 3);
    ask(1, 35, ASK_ROUNDS, none, NULL, 0);
    CHECK_INT(replied(1, 35)->r.bytes, 3 * of_one);
    settle();
}

/* How far the foremost worker is ahead of what is applied, of a key that begins with round 5, as
 * one of a checkpoint does. */
TEST(records_looks_at_a_worker_that_is_ahead)
{
    buf b = {0};
    ask_round x;
    kv_array *a = array_of(KV_FLOAT32, 0);
    ask_key k = {.dtype = KV_FLOAT32, .ndim = 2, .shape = {4, 2}, .round = 5};
    k.place = (place){.size = N, .step = N, .nparts = 1, .row = 2, .server = -1};
    own_store *s = open_store(form("dist_sync", false, false, -1));
    CHECK_OK(ask_put_slot(&b, &k, NULL, 0, a, &e));
    asked(0, 3, ASK_INIT, (link_args){.inits = 1}, b.data, (int64_t)b.len);
    for (int turn = 1; turn <= 3; turn++)
        push(0, 0, turn, 10 + (uint64_t)turn, 1, 0);
    push(1, 0, 1, 21, 1, 0);
    both_done(11, 21, 1);
    ask(1, 33, ASK_ROUNDS, none, NULL, 0);
    memcpy(&x, replied(1, 33)->data, sizeof x);
    CHECK_INT(x.round, 6);
    CHECK_INT(x.newest, 6);
    CHECK_INT(x.ahead, 2);
    push(1, 0, 2, 22, 1, 0);
    push(1, 0, 3, 23, 1, 0);
    both_done(12, 22, 1);
    done(0, 13, 1);
    done(1, 23, 1);
    kv_array_unref(a);
    buf_release(&b);
}

/* A worker asks for the place of key 7, which has this form; the first one inits it. */
static void asks_place(int rank, uint64_t number, ask_key k)
{
    own_buf b = {0};
    k.id = 7;
    ask_put_key(&b, &k, NULL);
    ask(rank, number, ASK_PLACE, (link_args){.inits = rank == 0}, b.data, (int64_t)b.len);
}

/* The first worker's init, behind a push of another worker, which made the key in a form. */
TEST(records_an_init_behind_a_push)
{
    const ask_key made = {.dtype = KV_FLOAT32, .ndim = 2, .shape = {4, 2}};
    ask_key other[] = {made, made, made, made};
    static const char *const forms[] = {"row_sparse float32 (4, 2)", "float64 (4, 2)",
                                        "float32 (4,)", "float32 (4, 3)"};
    own_store *s = open_store(form("dist_sync", false, false, -1));
    CHECK(s != NULL);
    asks_place(1, 41, made);
    replied(1, 41);
    other[0].storage = KV_ROW_SPARSE;
    other[1].dtype = KV_FLOAT64;
    other[2].ndim = 1;
    other[3].shape[1] = 3;
    for (int i = 0; i < 4; i++) {
        char why[128];
        snprintf(why, sizeof why,
                 "rank 1 has pushed key 7 as float32 (4, 2) before this init as %s", forms[i]);
        asks_place(0, 42, other[i]);
        failed(0, link_call_number(42), KV_E_VALUE, why);
        memcpy(&e, all[nread - 1].data, sizeof e);
        CHECK(e.has_key && !e.key_is_text);
        CHECK_INT(e.key_id, 7);
        CHECK_TEXT(e.hint, "let the others come to a barrier behind init before they push");
    }
    asks_place(0, 43, made);
    replied(0, 43);
    e = (kv_err){0};
}

/* ---- Waits ---- */

/* The entries of a reply to ASK_MISSED. */
static int missed(int store, int rank, ask_missed *list)
{
    link_rec r = {.kind = LINK_CALL, .flags = LINK_LAST, .store = (uint16_t)store,
                  .request = link_call_number(31), .what = ASK_MISSED};
    give(rank, r, NULL, 0);
    const sent *x = replied(rank, 31);
    CHECK(x->r.bytes % sizeof *list == 0 && x->r.bytes <= ASK_MOST_MISSED * sizeof *list);
    memcpy(list, x->data, x->r.bytes);
    settle();
    return (int)(x->r.bytes / sizeof *list);
}

static void is_missed(const ask_missed *x, int64_t id, int64_t turn, int64_t waits)
{
    CHECK_INT(x->part, id);
    CHECK_INT(x->round, turn);
    CHECK_INT(x->waits, waits);
}

TEST(records_missed)
{
    ask_missed list[ASK_MOST_MISSED];
    own_store *s = open_store(form("dist_sync", false, false, -1));
    for (int i = 0; i < 3; i++)
        init_key(i, NULL, 0);
    CHECK_INT(missed(STORE, 1, list), 0);
    push(0, 2, 1, 11, 1, 0);
    push(0, 0, 1, 12, 1, 0);
    CHECK_INT(missed(STORE, 0, list), 0);
    CHECK_INT(missed(STORE, 1, list), 2);
    is_missed(&list[0], 0, 1, 0);
    is_missed(&list[1], 2, 1, 0);
}

/* Each other store that waits for the worker is one entry, without a part: the worker does not
 * know the parts of that store. */
TEST(records_missed_of_other_stores)
{
    ask_missed list[ASK_MOST_MISSED];
    ask_store how = form("dist_sync", false, false, -1);
    server_state *s = open_store(how);
    init_key(0, NULL, 0);
    link_rec r = {.kind = LINK_CALL, .flags = LINK_LAST, .request = link_call_number(1),
                  .what = ASK_CREATE};
    for (int other = STORE + 1; other <= STORE + 3; other++)
        for (int rank = 0; rank < (other == STORE + 3 ? 2 : 1); rank++) {
            r.store = (uint16_t)other; /* rank 1 makes the last one alone */
            give(rank, r, &how, sizeof how);
        }
    settle();
    nread = nsent;
    push(0, 0, 1, 11, 1, 0);
    CHECK_INT(missed(STORE, 0, list), 0);
    CHECK_INT(missed(STORE, 1, list), 3);
    is_missed(&list[0], 0, 1, 0);
    is_missed(&list[1], -1, 0, 0);
    is_missed(&list[2], -1, 0, 0);
    CHECK_INT(missed(STORE + 3, 1, list), 3);
    for (int i = 0; i < 3; i++)
        is_missed(&list[i], -1, 0, 0);
    no_more();
    CHECK_INT(s->open_rounds, 1);
}

TEST(records_barriers)
{
    ask_missed list[ASK_MOST_MISSED];
    ask_met met;
    own_store *s = open_store(form("dist_sync", false, false, -1));
    ask(0, 40, ASK_BARRIER, (link_args){.barrier = ASK_MEET}, NULL, 0);
    no_more();
    CHECK_INT(missed(STORE, 1, list), 1);
    is_missed(&list[0], -1, 0, 0);
    ask(1, 41, ASK_BARRIER, (link_args){.barrier = ASK_MEET}, NULL, 0);
    for (int rank = 0; rank < WORKERS; rank++) {
        const sent *x = replied(rank, 40 + (uint64_t)rank);
        CHECK_INT(x->r.bytes, sizeof met);
        memcpy(&met, x->data, sizeof met);
        CHECK_INT(met.moves, 0);
        CHECK_INT(met.epochs, 0);
    }
    CHECK_INT(missed(STORE, 1, list), 0);
}

/* ---- Commands and lines ---- */

static char heard[200];

static void hear_command(void *arg, int head, const char *body)
{
    CHECK(arg == heard);
    snprintf(heard, sizeof heard, "%d %s", head, body);
}

static void hear_line(void *arg, const char *line)
{
    CHECK(arg == heard);
    snprintf(heard, sizeof heard, "%s", line);
}

TEST(records_commands)
{
    own_store *s = open_store(form("dist_sync", false, false, -1));
    kv_set_controller(hear_command, heard);
    asked(1, 5, ASK_COMMAND, (link_args){.head = 7}, "the body", 9);
    CHECK_TEXT(heard, "7 the body");
    ask(1, 5, ASK_COMMAND, (link_args){.head = 8}, "the body", 8); /* without its end */
    malformed(1, link_call_number(5));
    CHECK_TEXT(heard, "7 the body");
    kv_set_controller(NULL, NULL);
    settle();
}

/* Lines that a rule prints on a server go to the program that serves. */
TEST(records_lines_of_a_rule)
{
    own_store *s = open_store(form("dist_sync", false, false, -1));
    kv_set_server_print(hear_line, heard);
    init_key(3, NULL, 0);
    set_rule("{ print \"key %d\" % key; stored = input }");
    push(0, 3, 1, 11, 1, 0);
    push(1, 3, 1, 21, 1, 0);
    both_done(11, 21, 1);
    CHECK_TEXT(heard, "key 3");
    kv_set_server_print(NULL, NULL);
}

/* ---- States ---- */

static const int64_t one_part[] = {1, 0}; /* a list of parts: how many, and their numbers */

/* Asks for array n of the states of part 0, from 1 on, after `turn` rounds. */
static void pull_state(int n, int64_t turn)
{
    link_rec r = pull_head(0, turn, 12);
    r.state = n;
    give(0, r, NULL, 0);
}

/* Rank 0's push comes behind so many pulls of it. */
static void push_both(int64_t turn, float first, int64_t pulls)
{
    float x[N];
    link_rec r = push_head(0, turn, 11);
    r.pulls = pulls;
    floats(x, first, 0);
    give(0, r, x, sizeof x);
    push(1, 0, turn, 21, first, 0);
}

static void pushed_both(void)
{
    both_done(11, 21, 1);
}

/* The image of a server's states. */
static buf image_of(const server_state *s)
{
    image im;
    buf b = {0};
    CHECK_OK(state_file_take(&im, s->store, false, &e));
    CHECK_OK(image_print(&b, &im, "a test", &e));
    image_release(&im);
    return b;
}

/* The reply says which arrays there are, pulls bring them as they were after their round, and
 * states that are given back take the place of later ones. */
TEST(records_states)
{
    static const char sgd[] = "optimizer\0sgd\0learning_rate\0001\0momentum\0000.5";
    uint32_t arrays;
    own_store *s = store_with_key(0);
    ask(1, 6, ASK_STATES, none, one_part, sizeof one_part);
    CHECK(next_to(1, LINK_FAILED, link_call_number(6))->r.bytes > 0); /* no optimizer yet */
    asked(0, 4, ASK_OPTIMIZER, none, sgd, sizeof sgd);
    pull_state(1, 0);
    settle();
    failed(0, 12, KV_E_VALUE, "key 0 has no array 1 of states");
    push_both(1, 1, 1);
    pushed_both();
    ask(1, 6, ASK_STATES, none, one_part, sizeof one_part);
    memcpy(&arrays, replied(1, 6)->data, sizeof arrays);
    CHECK_INT(arrays, 1);
    ask(1, 6, ASK_STATES, none, one_part, 8); /* the list is shorter than it says */
    malformed(1, link_call_number(6));
    own_buf given = {0}, before = image_of(s);
    buf_put(&given, (const char *)one_part, sizeof one_part);
    buf_put(&given, before.data, before.len);
    pull_state(1, 1);
    push_both(2, 5, 2); /* the round changes a copy of the state, which is still on its way */
    pushed_both();
    value(0, 12, 9, -2, 0);
    pull_state(1, 2);
    settle();
    value(0, 12, 9, -11, 0);
    pull_state(UINT8_MAX, 2);
    pull_state(PLAN_MAX_STATES + 1, 2); /* a master, which this key has not */
    pull_state(PLAN_MAX_STATES + 2, 2);
    settle();
    for (int i = 0; i < 3; i++)
        CHECK(next_to(0, LINK_FAILED, 12)->r.bytes > 0);
    asked(1, 7, ASK_SET_STATES, none, given.data, (int64_t)given.len);
    pull_state(1, 2);
    settle();
    value(0, 12, 9, -2, 0);
    no_more();
}

/* ---- Parameters ---- */

/* More parameters than any optimizer has: no more of them are read than there is room for. */
TEST(records_optimizers_of_many_parameters)
{
    enum { PAIRS = 300 };
    own_buf b = {0};
    own_store *s = store_with_key(0);
    buf_put(&b, "optimizer\0sgd", 14);
    for (int i = 0; i < PAIRS; i++)
        buf_put(&b, "learning_rate\0000.5", 18);
    asked(0, 4, ASK_OPTIMIZER, none, b.data, (int64_t)b.len);
    push_both(1, 1, 0);
    pushed_both();
    pull_gives(0, 0, 1, 12, -1, 0);
}

/* Without memory for an optimizer that all others have, this rank is lost. */
TEST(records_optimizers_without_memory)
{
    int lost = 0;
    own_store *s = store_with_key(0);
    for (bool again = true; again; lost += again) {
        mem_fail_at(-(lost + 1));
        set_rule("{ stored = input * 10 }");
        mem_fail_at(0);
        again = alone_cannot_serve > lost;
    }
    CHECK(lost > 2);
    push_both(1, 1, 0);
    pushed_both();
    pull_gives(0, 0, 1, 12, 20, 0);
}

/* ---- Stores ---- */

/* Whichever allocation fails: the worker is told, and asks again. */
TEST(records_stores_without_memory)
{
    ask_store how = form("dist_sync", false, false, -1);
    int refused = 0;
    open_server();
    for (bool again = true; again; refused += again) {
        mem_fail_at(-(refused + 1));
        ask(0, 1, ASK_CREATE, none, &how, sizeof how);
        mem_fail_at(0);
        again = nread < nsent;
        if (again) {
            memcpy(&e, next_to(0, LINK_FAILED, link_call_number(1))->data, sizeof e);
            CHECK_INT(e.code, KV_E_MEMORY);
            CHECK(!server_stores);
        }
    }
    CHECK(refused > 4);
    ask(1, 2, ASK_CREATE, none, &how, sizeof how);
    replied(0, 1);
    replied(1, 2);
    settle();
    give_up_store();
}

/* Only a worker that leaves takes part in something. */
TEST(records_a_server_leaves)
{
    own_store *s = store_with_key(0);
    push(0, 0, 1, 11, 1, 0);
    alone_taker.left(SERVER);
    settle();
    CHECK_INT(s->ndone, 0);
    no_more();
    push(1, 0, 1, 21, 1, 0);
    both_done(11, 21, 1);
}

/* ---- A rank that only serves ---- */

static int naps;

/* Workers leave one by one, the last one first. */
static void nap(void)
{
    CHECK(++naps <= 4);
    if (naps % 2 == 0)
        alive_left(WORKERS - naps / 2);
}

TEST(records_a_rank_serves_until_all_workers_have_left)
{
    alone_naps = nap;
    be_server(SERVER, RANKS);
    CHECK_OK(server_run(&e));
    CHECK_INT(naps, 4);
}

static void lose(void)
{
    CHECK(++naps <= 1);
    alive_left(0);
    alive_lost(1, "rank 1 is gone");
}

TEST(records_a_rank_serves_until_a_rank_is_lost)
{
    alone_naps = lose;
    be_server(SERVER, RANKS);
    CHECK_ERR(server_run(&e), KV_E_PEER, "rank 1 is gone");
}

/* ---- Which ranks serve ---- */

static void ranks_are(int rank, int size, int workers, int servers)
{
    int i, first, end;
    bool serves = workers == size || rank >= workers;
    alone_ranks(rank, size);
    CHECK_INT(server_workers(), workers);
    CHECK_INT(server_count(), servers);
    CHECK_INT(server_dedicated(), workers == size ? 0 : servers);
    for (int s = 0; s < servers; s++)
        CHECK_INT(server_rank(s), size - servers + s);
    CHECK_INT(server_here(&i), serves);
    if (serves)
        CHECK_INT(i, rank - (size - servers));
    server_peers(&first, &end);
    CHECK_INT(first, serves ? 0 : workers);
    CHECK_INT(end, size);
}

TEST(records_ranks_that_all_serve)
{
    unsetenv("KVSTORE_SERVERS");
    environment_read();
    for (int rank = 0; rank < 3; rank++)
        ranks_are(rank, 3, 3, 3);
}

/* At least one rank is left to work. */
TEST(records_ranks_of_which_two_serve)
{
    setenv("KVSTORE_SERVERS", "2", 1);
    environment_read();
    for (int rank = 0; rank < 5; rank++)
        ranks_are(rank, 5, 3, 2);
    for (int rank = 0; rank < 3; rank++)
        ranks_are(rank, 3, 1, 2);
    for (int rank = 0; rank < 2; rank++)
        ranks_are(rank, 2, 2, 2);
}

TEST(records_ranks_of_no_number)
{
    setenv("KVSTORE_SERVERS", "-1", 1);
    environment_read();
    for (int rank = 0; rank < 3; rank++)
        ranks_are(rank, 3, 3, 3);
}

/* ---- Which workers are spares ---- */

static void spares_are(const char *servers, const char *spares, const int want[5])
{
    setenv("KVSTORE_SERVERS", servers, 1);
    setenv("KVSTORE_SPARES", spares, 1);
    environment_read();
    for (int size = 1; size <= 5; size++) {
        alone_ranks(0, size);
        CHECK_INT(server_spares(), want[size - 1]);
    }
}

/* At least one worker is none. */
TEST(records_ranks_of_which_two_are_spares)
{
    spares_are("1", "2", (int[]){0, 0, 0, 2, 2});
}

TEST(records_spares_of_no_number)
{
    spares_are("1", "-1", (int[]){0, 0, 0, 0, 0});
}

/* A spare cannot serve, since it may never come. */
TEST(records_no_rank_that_serves_is_a_spare)
{
    spares_are("0", "1", (int[]){0, 0, 0, 0, 0});
}
