/* Rounds of a server of two workers, without a net: records that workers send are handed to it,
 * and its answers are looked at one by one. Records that a job of real workers never sends are sent
 * too. */
#include "records.h"

/* ---- Rounds ---- */

TEST(records_a_round_ends_when_all_have_pushed)
{
    own_store *s = store_with_key(2);
    pull_gives(0, 0, 0, 10, 2, 0);
    push(0, 0, 1, 11, 1, 1);
    pull(0, 0, 1, 12); /* behind it */
    nothing_comes();
    CHECK_INT(s->open_rounds, 1);
    push(1, 0, 1, 21, 16, 2);
    both_done(11, 21, 1);
    value(0, 12, 9, 17, 3);
    no_more();
    CHECK_INT(s->rounds, 1);
    CHECK_INT(s->open_rounds, 0);
    CHECK_INT(s->parts[0]->contributors, 2);
    push(0, 0, 1, 13, 5, 5); /* applied already: nothing comes of it */
    nothing_comes();
    pull_gives(1, 0, 1, 22, 17, 3);
}

TEST(records_rounds_come_in_any_order)
{
    own_store *s = store_with_key(0);
    push(0, 0, 3, 13, 4, 0);
    push(0, 0, 1, 11, 1, 0);
    push(0, 0, 2, 12, 2, 0);
    nothing_comes();
    push(1, 0, 2, 22, 200, 0);
    nothing_comes();
    push(1, 0, 1, 21, 100, 0);
    both_done(11, 21, 1);
    done(0, 12, 1);
    done(1, 22, 1);
    no_more();
    pull_gives(1, 0, 2, 23, 202, 0);
    push(1, 0, 3, 24, 400, 0);
    pull(1, 0, 3, 25);
    both_done(13, 24, 1);
    value(1, 25, 9, 404, 0);
}

TEST(records_pushes_of_a_request_are_told_together)
{
    own_store *s = open_store(form("dist_sync", false, false, -1));
    for (int i = 0; i < 3; i++)
        init_key(i, NULL, 0);
    for (int i = 0; i < 3; i++) {
        push(0, i, 1, 11, 1, 0);
        push(1, i, 1, 20 + (uint64_t)i, 1, 0);
    }
    settle();
    int told = 0;
    while (nread < nsent) {
        const sent *x = &all[nread++];
        CHECK_INT(x->r.kind, LINK_DONE);
        CHECK_INT(x->r.n, x->rank == 0 ? 3 : 1);
        told++;
    }
    CHECK_INT(told, 4);
}

/* A push may have to come behind pulls of its worker. */
TEST(records_a_push_waits_for_pulls_before_it)
{
    own_store *s = store_with_key(7);
    link_rec r = push_head(0, 1, 11);
    float x[N];
    floats(x, 1, 0);
    r.pulls = 1;
    give(0, r, x, sizeof x);
    push(1, 0, 1, 21, 1, 0);
    nothing_comes();
    pull_gives(0, 0, 0, 12, 7, 0);
    no_more();
    settle(); /* the elements were sent, and can change */
    done(0, 11, 1);
    done(1, 21, 1);
}

TEST(records_a_push_in_pieces)
{
    own_store *s = store_with_key(0);
    float x[N];
    floats(x, 1, 1);
    link_rec r = push_head(0, 1, 11);
    r.flags = 0;
    r.from = 12;
    give(0, r, x + 3, BYTES - 12);
    settle();
    push(1, 0, 1, 21, 0, 0);
    nothing_comes();
    r.flags = LINK_LAST;
    r.from = 0;
    give(0, r, x, 12);
    both_done(11, 21, 1);
    pull_gives(0, 0, 1, 12, 1, 1);
}

/* What a push says of its size is checked against the part and against the pieces before. */
TEST(records_pushes_that_are_malformed)
{
    own_store *s = store_with_key(3);
    float x[2 * N];
    floats(x, 1, 1);
    static const struct {
        int64_t n, offset, total;
        bool fits;
    } cases[] = {{8, -1, BYTES, false},         {8, BYTES - 7, BYTES, false},
                 {8, BYTES, BYTES, false},      {BYTES + 4, 0, BYTES, false},
                 {8, INT64_MAX, BYTES, false},  {BYTES, 1, BYTES, false},
                 {8, BYTES - 8, BYTES, true},   {0, BYTES, BYTES, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        link_rec r = push_head(0, 1, 11);
        r.flags = 0;
        r.from = cases[i].offset;
        r.n = cases[i].total;
        give(0, r, x, cases[i].n);
        if (!cases[i].fits)
            malformed(0, 11);
        nothing_comes();
    }
    for (int total = BYTES - 4; total <= BYTES + 4; total += 8) {
        char text[64];
        link_rec r = push_head(0, 1, 12);
        r.n = total;
        give(0, r, x, total);
        snprintf(text, sizeof text, "a push of %d bytes came for a part of %d", total, BYTES);
        failed(0, 12, KV_E_SHAPE, text);
    }
    push(0, 1, 1, 13, 0, 0);
    failed(0, 13, KV_E_KEY, "there is no such key on server 2");
    push(0, -1, 1, 14, 0, 0);
    failed(0, 14, KV_E_KEY, "there is no such key on server 2");
    pull(1, 1, 0, 15);
    failed(1, 15, KV_E_KEY, "there is no such key on server 2");
    link_rec r = push_head(0, 1, 16);
    r.store = STORE + 1;
    give(0, r, x, BYTES);
    failed(0, 16, KV_E_INTERNAL, "server 2 has no such store");
    r = pull_head(0, 0, 17);
    r.store = STORE + 1;
    give(0, r, NULL, 0);
    failed(0, 17, KV_E_INTERNAL, "server 2 has no such store");
    give(WORKERS, push_head(0, 1, 18), x, BYTES);
    malformed(WORKERS, 18);
    r = push_head(0, 1, 19);
    r.kind = LINK_ADD;
    give(0, r, x, BYTES); /* of a store that keeps */
    malformed(0, 19);
    settle();
}

/* The last record of a push, which comes alone, brings the end of the part. */
TEST(records_the_end_of_a_part_alone)
{
    own_store *s = store_with_key(0);
    for (int rank = 0; rank < 2; rank++) {
        float x[2] = {1, 2};
        link_rec r = push_head(0, 1, 11);
        r.from = BYTES - 8;
        give(rank, r, x, sizeof x);
    }
    pull(0, 0, 1, 12);
    both_done(11, 11, 1);
    const float *got = (const float *)(const void *)next_to(0, LINK_VALUE, 12)->data;
    CHECK_INT(got[N - 2], 2);
    CHECK_INT(got[N - 1], 4);
}

/* Rounds of several parts are one push to the store. Of one that fails the others are
 * not held up. */
TEST(records_a_part_of_a_batch_fails)
{
    own_store *s = open_store(form("dist_sync", false, false, -1));
    set_rule("{ stored += input }");
    const int64_t bad[4] = {2, 0, 9, 0}; /* rows that the part does not have */
    for (int i = 0; i < 4; i++)
        init_key(i, NULL, (float)i);
    for (int rank = 0; rank < 2; rank++)
        for (int i = 0; i < 4; i++) {
            link_rec r = push_head(i, 1, 10 * (uint64_t)(rank + 1) + (uint64_t)i);
            if (i != 2) {
                push(rank, i, 1, r.request, 1, 0);
                continue;
            }
            r.flags |= LINK_SPARSE;
            r.n = sizeof bad;
            give(rank, r, bad, sizeof bad);
        }
    settle();
    int told = 0, refused = 0;
    for (; nread < nsent; nread++) {
        const sent *x = &all[nread];
        CHECK(x->r.kind == LINK_DONE || x->r.kind == LINK_FAILED);
        CHECK((x->r.request % 10 == 2) == (x->r.kind == LINK_FAILED));
        told++;
        refused += x->r.kind == LINK_FAILED;
    }
    CHECK_INT(told, 8);
    CHECK_INT(refused, 2);
    for (int i = 0; i < 4; i++) {
        pull_gives(0, i, 1, 30, (float)i + (i == 2 ? 0 : 2), 0);
    }
}

/* Settling asks for the memory of the next parts, and no part is behind the last one. */
TEST(records_many_parts_at_once)
{
    enum { MANY = 60 };
    int told = 0;
    own_store *s = open_store(form("dist_sync", false, false, -1));
    for (int i = 0; i < MANY; i++)
        init_key(i, NULL, 0);
    for (int rank = 0; rank < 2; rank++)
        for (int i = 0; i < MANY; i++)
            push(rank, i, 1, 11, (float)(i + rank), 1);
    settle();
    for (; nread < nsent; nread++) {
        CHECK_INT(all[nread].r.kind, LINK_DONE);
        told += (int)all[nread].r.n;
    }
    CHECK_INT(told, 2 * MANY);
    for (int i = 0; i < MANY; i++) {
        pull_gives(0, i, 1, 12, (float)(2 * i + 1), 2);
    }
}

/* ---- Workers that are done, or have left ---- */

TEST(records_rounds_without_a_worker_that_is_done)
{
    own_store *s = store_with_key(0);
    push(1, 0, 1, 21, 5, 0);
    nothing_comes();
    CHECK_INT(s->open_rounds, 0); /* the lowest rank has not come */
    asked(0, 8, ASK_DONE, none, NULL, 0);
    settle();
    done(1, 21, 1);
    push(1, 0, 2, 22, 6, 0);
    CHECK_INT(s->open_rounds, 1); /* now rank 1 is */
    settle();
    done(1, 22, 1);
    alone_taker.left(0); /* it counts once */
    CHECK_INT(s->ndone, 1);
    CHECK_INT(s->parts[0]->contributors, 1);
    CHECK_INT(s->open_rounds, 0);
    pull_gives(1, 0, 2, 23, 6, 0);
}

TEST(records_rounds_of_a_worker_that_has_left)
{
    own_store *s = open_store(form("dist_sync", false, false, -1));
    init_key(0, "w", 4);
    push(0, 0, 1, 11, 5, 0);
    push(0, 0, 2, 12, 5, 0);
    pull(0, 0, 1, 13);
    nothing_comes();
    alone_taker.left(1);
    settle();
    failed(0, 11, KV_E_PEER, "rank 1 has ended; key \"w\" waits for its push of round 1");
    memcpy(&e, all[nread - 1].data, sizeof e);
    CHECK(e.has_key && e.key_is_text);
    CHECK_TEXT(e.key_name, "w");
    failed(0, 13, KV_E_PEER, "rank 1 has ended; key \"w\" waits for its push of round 1");
    failed(0, 12, KV_E_PEER, "rank 1 has ended; key \"w\" waits for its push of round 2");
    no_more();
    CHECK_INT(s->open_rounds, 0);
    pull(0, 0, 2, 14);
    settle();
    value(0, 14, 9, 4, 0); /* it keeps its value */
    push(1, 0, 2, 22, 1, 0);
    failed(1, 22, KV_E_TIMEOUT, "this push came when its round had been given up");
}

/* What it has pushed before counts, in a round that waits for another worker. */
TEST(records_a_push_of_a_worker_that_has_left)
{
    own_store *s = store_with_key(4);
    push(0, 0, 1, 11, 5, 0);
    settle();
    alone_taker.left(0);
    nothing_comes();
    push(1, 0, 1, 21, 6, 0);
    pull(1, 0, 1, 22);
    both_done(11, 21, 1);
    value(1, 22, 9, 11, 0);
}

/* Of a round that was given up the pulls were answered, with its error: what comes
 * behind goes on. */
TEST(records_rounds_go_on_behind_one_that_was_given_up)
{
    own_store *s = store_with_key(4);
    for (int i = 0; i < 2000; i++)
        net_now_us(); /* the limit counts from the first push on, not from the start of the job */
    push(0, 0, 1, 11, 5, 0);
    pull(0, 0, 1, 12);
    pull(0, 0, 2, 13);
    nothing_comes();
    alone_taker.look(net_now_us() + 500000); /* the limit is a second */
    no_more();
    alone_taker.look(net_now_us() + 10000000);
    const char *why = "gave up: key 0 waits for the push of round 1 of rank 1; rank 0 has pushed";
    memcpy(&e, all[nread].data, sizeof e);
    CHECK_INT(e.code, KV_E_TIMEOUT);
    CHECK(e.has_key && e.key_id == 0);
    why = strncmp(e.text, "gave up: ", 9) == 0 ? e.text : why;
    failed(0, 11, KV_E_TIMEOUT, why);
    failed(0, 12, KV_E_TIMEOUT, why);
    no_more();
    CHECK_INT(s->parts[0]->workers[0].pulls, 1);
    link_rec r = push_head(0, 2, 14);
    float x[N];
    floats(x, 1, 0);
    r.pulls = 1;
    give(0, r, x, sizeof x);
    push(1, 0, 2, 21, 1, 0);
    both_done(14, 21, 1);
    value(0, 13, 9, 2, 0);
}

/* ---- dist_async ---- */

TEST(records_async_pushes_are_rounds_of_their_own)
{
    own_store *s = open_store(form("dist_async", true, false, -1));
    init_key(0, NULL, 0);
    set_rule("{ stored += input }");
    push(0, 0, 1, 11, 1, 0);
    push(0, 0, 2, 12, 2, 0);
    settle();
    done(0, 11, 1);
    done(0, 12, 1);
    push(1, 0, 2, 22, 16, 0); /* its first comes later */
    nothing_comes();
    push(1, 0, 1, 21, 32, 0);
    pull(1, 0, 2, 23);
    settle();
    CHECK_INT(next_to(1, LINK_DONE, 21)->r.n, 1);
    CHECK_INT(next_to(1, LINK_DONE, 22)->r.n, 1);
    value(1, 23, 9, 51, 0);
    no_more();
    CHECK_INT(s->rounds, 4);
    alone_taker.left(0);
    push(1, 0, 3, 24, 1, 0);
    settle();
    done(1, 24, 1);
}

TEST(records_async_within_a_bound)
{
    own_store *s = open_store(form("dist_async", true, false, 1));
    init_key(0, NULL, 0);
    set_rule("{ stored += input }");
    for (int i = 1; i <= 4; i++)
        push(0, 0, i, 10 + (uint64_t)i, 1, 0);
    settle();
    done(0, 11, 1);
    done(0, 12, 1);
    no_more(); /* two ahead of worker 1 */
    pull(0, 0, 2, 15);
    nothing_comes();
    push(1, 0, 1, 21, 100, 0);
    settle();
    done(1, 21, 1);
    value(0, 15, 9, 102, 0);
    settle();
    done(0, 13, 1);
    no_more();
    CHECK_INT(s->stalest, 1);
    ask(1, 8, ASK_DONE, none, NULL, 0); /* nobody waits for it */
    replied(1, 8);
    settle();
    done(0, 14, 1);
}

TEST(records_async_in_step)
{
    own_store *s = open_store(form("dist_async", true, false, 0));
    init_key(0, NULL, 0);
    push(0, 0, 1, 11, 1, 0);
    push(0, 0, 2, 12, 1, 0);
    settle();
    done(0, 11, 1);
    no_more();
    push(1, 0, 1, 21, 1, 0);
    settle();
    done(1, 21, 1);
    done(0, 12, 1);
}

/* Nobody is behind where nobody takes part any more. */
TEST(records_async_when_all_are_done)
{
    own_store *s = open_store(form("dist_async", true, false, 0));
    init_key(0, NULL, 0);
    push(0, 0, 1, 11, 5, 0);
    settle();
    done(0, 11, 1);
    for (int rank = 0; rank < 2; rank++) {
        asked(rank, 8, ASK_DONE, none, NULL, 0);
    }
    pull_gives(0, 0, 1, 12, 5, 0);
}

/* ---- Without memory ---- */

/* Whichever allocation fails: the worker is told, and the same record is taken afterwards. */
TEST(records_without_memory)
{
    own_store *s = store_with_key(0);
    float x[N];
    floats(x, 1, 0);
    for (int piece = 0; piece < 2; piece++) {
        int n = 0;
        for (bool again = true; again; n++) {
            link_rec r = push_head(0, 1 + piece, 11);
            r.flags = piece ? 0 : LINK_LAST;
            mem_fail_at(-(n + 1));
            give(0, r, x, piece ? BYTES / 2 : BYTES);
            mem_fail_at(0);
            again = nread < nsent;
            if (again)
                failed(0, 11, KV_E_MEMORY, "no memory for a push");
        }
        CHECK(n > 1);
    }
    int64_t before = s->parts[0]->workers[1].pulls;
    mem_fail_at(-1);
    pull(1, 0, 1, 22);
    mem_fail_at(0);
    CHECK_INT(next_to(1, LINK_FAILED, 22)->rank, 1);
    CHECK_INT(s->parts[0]->workers[1].pulls, before + 1); /* it was answered: pushes may go on */
    nothing_comes();
    push(1, 0, 1, 21, 1, 0);
    both_done(11, 21, 1);
}

/* Elements that would have to be copied out of the link: without memory this rank is lost. */
TEST(records_without_memory_to_keep_a_push)
{
    own_store *s = store_with_key(0);
    push(0, 0, 1, 11, 1, 0);
    CHECK_INT(alone_cannot_serve, 0);
    mem_fail_at(-1);
    alone_taker.settle();
    mem_fail_at(0);
    CHECK_INT(alone_cannot_serve, 1);
    settle();
    push(1, 0, 1, 21, 1, 0);
    settle();
    failed(0, 11, KV_E_MEMORY, "no memory for a push");
    failed(1, 21, KV_E_MEMORY, "no memory for a push");
    CHECK_INT(s->parts[0]->applied, 1);
}

/* Without memory to push a round to the store it fails, and the next one does not. */
TEST(records_without_memory_for_a_batch)
{
    own_store *s = store_with_key(3);
    set_rule("{ stored += input }");
    for (int turn = 1; turn <= 2; turn++) {
        push(0, 0, turn, 11, 1, 0);
        push(1, 0, turn, 21, 1, 0);
        mem_fail_at(turn == 1 ? -1 : 0);
        settle();
        mem_fail_at(0);
        for (int rank = 0; rank < 2; rank++) {
            const sent *x = next_to(rank, turn == 1 ? LINK_FAILED : LINK_DONE, rank ? 21 : 11);
            e = (kv_err){0};
            if (turn == 1)
                memcpy(&e, x->data, sizeof e);
            CHECK_INT(e.code, turn == 1 ? KV_E_MEMORY : KV_OK);
        }
        pull_gives(0, 0, turn, 12, turn == 1 ? 3 : 5, 0);
        no_more();
    }
}

/* Without memory for the answer to a pull this rank is lost. */
TEST(records_without_memory_to_answer_a_pull)
{
    int lost = 0;
    own_store *s = store_with_key(3);
    for (bool again = true; again; lost += again) {
        no_more();
        pull(1, 0, 0, 22);
        mem_fail_at(-(lost + 1));
        alone_taker.settle();
        mem_fail_at(0);
        again = alone_cannot_serve > lost;
    }
    CHECK(lost > 1);
    settle();
    value(1, 22, 9, 3, 0);
    no_more();
    push(0, 0, 1, 11, 1, 0); /* no answer is counted that is not sent */
    push(1, 0, 1, 21, 1, 0);
    both_done(11, 21, 1);
}

/* ---- A link without room ---- */

TEST(records_wait_for_room)
{
    own_store *s = store_with_key(3);
    link_rec r = pull_head(0, 0, 12);
    r.priority = -7;
    give(1, r, NULL, 0);
    push(0, 0, 1, 11, 1, 0);
    push(1, 0, 1, 21, 1, 0);
    alone_full = true;
    alone_taker.settle();
    alone_full = false;
    done(0, 11, 1); /* the net keeps these */
    done(1, 21, 1);
    no_more();
    CHECK_INT(alone_priority, -7);
    settle();
    value(1, 12, 9, 2, 0);
}

/* ---- Sums that are not kept ---- */

static link_rec add_head(int64_t id, int64_t turn, uint64_t request)
{
    return (link_rec){.kind = LINK_ADD, .flags = LINK_LAST, .store = STORE, .part = id,
                      .request = request, .round = turn, .chunk = 4, .dtype = KV_FLOAT32};
}

static void add(int rank, int64_t turn, uint64_t request, float first, float step, int flags)
{
    float x[N];
    link_rec r = add_head(0, turn, request);
    floats(x, first, step);
    r.flags |= (uint8_t)flags;
    give(rank, r, x, sizeof x);
}

TEST(records_sums)
{
    own_store *s = open_store(form("horovod", false, true, -1));
    add(0, 1, 11, 1, 1, 0);
    add(0, 2, 12, 5, 0, 0);
    nothing_comes();
    add(0, 1, 13, 1, 1, 0);
    failed(0, 13, KV_E_INTERNAL, "rank 0 contributes twice to one round");
    add(1, 1, 21, 10, 0, 0);
    settle();
    value(0, 11, 4, 11, 1);
    value(1, 21, 4, 11, 1);
    no_more();
    add(1, 1, 22, 10, 0, 0);
    failed(1, 22, KV_E_TIMEOUT, "these values came when their round had been given up");
    float x[N + 1] = {0};
    link_rec r = add_head(0, 2, 23);
    give(1, r, x, BYTES - 4);
    failed(1, 23, KV_E_SHAPE, "a push of 28 bytes came for a part of 32");
    give(1, r, x, BYTES - 1);
    r.dtype = UINT8_MAX;
    give(1, r, x, BYTES);
    r.dtype = KV_DTYPE_END;
    give(1, r, x, BYTES);
    r.dtype = KV_FLOAT32;
    r.part = -1;
    give(1, r, x, BYTES);
    for (int i = 0; i < 4; i++)
        malformed(1, 23);
    give(1, push_head(0, 2, 24), x, BYTES); /* of a store that keeps nothing */
    malformed(1, 24);
    const int64_t ids[] = {0};
    pull(1, 0, 1, 26);
    malformed(1, 26);
    ask(1, 27, ASK_ROWS, (link_args){.rows = {0, 1}}, ids, sizeof ids);
    failed(1, link_call_number(27), KV_E_KEY, "there is no such key on server 2");
    add(1, 2, 25, 2, 0, 0);
    settle();
    value(0, 12, 4, 7, 0);
    value(1, 25, 4, 7, 0);
    no_more();
    CHECK_INT(s->rounds, 2);
}

/* The values of a rank for part 0 in a round: all elements are `first`. */
static void add_floats(int rank, int64_t turn, uint64_t request, float first)
{
    float x[N];
    floats(x, first, 0);
    link_rec r = add_head(0, turn, request);
    r.priority = rank + 6;
    r.chunk = rank;
    give(rank, r, x, sizeof x);
}

/* Later rounds do not wait for a sum that the link has no room for. */
TEST(records_sums_wait_for_room)
{
    own_store *s = open_store(form("horovod", false, true, -1));
    alone_full = true;
    for (int turn = 1; turn <= 2; turn++) {
        for (int rank = 0; rank < 2; rank++)
            add_floats(rank, turn, 10 + (uint64_t)turn, (float)turn);
        alone_taker.settle();
        CHECK_INT(s->rounds, turn);
    }
    alone_full = false;
    no_more();
    CHECK_INT(alone_priority, 7);
    settle();
    for (int turn = 1; turn <= 2; turn++)
        for (int rank = 0; rank < 2; rank++)
            value(rank, 10 + (uint64_t)turn, rank, 2 * (float)turn, 0);
}

TEST(records_a_sum_for_one_worker_waits_for_room)
{
    open_store(form("horovod", false, true, -1));
    alone_taker.gone(1, "it was killed");
    add_floats(0, 1, 11, 5);
    alone_full = true;
    alone_taker.settle();
    alone_full = false;
    no_more();
    settle();
    value(0, 11, 0, 5, 0);
    no_more();
    asked(0, 90, ASK_FREE, none, NULL, 0);
    settle();
    CHECK(!server_stores);
}

TEST(records_sums_of_nothing)
{
    own_store *s = open_store(form("horovod", false, true, -1));
    for (int rank = 0; rank < 2; rank++)
        give(rank, add_head(0, 1, 11), NULL, 0);
    settle();
    for (int rank = 0; rank < 2; rank++) {
        const sent *x = next_to(rank, LINK_VALUE, 11);
        CHECK_INT(x->r.bytes, 0);
        CHECK_INT(x->r.flags, LINK_LAST);
    }
}

TEST(records_broadcasts)
{
    own_store *s = open_store(form("horovod", false, true, -1));
    link_rec r = add_head(0, 1, 21);
    r.flags |= LINK_BROADCAST;
    give(1, r, NULL, 0);
    settle();
    add(0, 1, 11, 3, 1, LINK_BROADCAST);
    settle();
    value(0, 11, 4, 3, 1);
    value(1, 21, 4, 3, 1);
    no_more();
    add(0, 2, 12, 3, 1, 0); /* a sum, and the other broadcasts */
    r.round = 2;
    give(1, r, NULL, 0);
    settle();
    failed(0, 12, KV_E_VALUE, "some ranks broadcast the key while others push and pull it");
    failed(1, 21, KV_E_VALUE, "some ranks broadcast the key while others push and pull it");
    no_more();
    asked(0, 8, ASK_DONE, none, NULL, 0);
    r.round = 3;
    give(1, r, NULL, 0);
    settle();
    failed(1, 21, KV_E_VALUE, "rank 0 is done, and the others broadcast its value");
}

TEST(records_sums_of_a_worker_that_has_left)
{
    own_store *s = open_store(form("horovod", false, true, -1));
    add(1, 1, 21, 1, 0, 0);
    settle();
    alone_taker.left(0);
    settle();
    failed(1, 21, KV_E_PEER, "rank 0 has ended, and a sum waits for its values");
}

/* ---- Sums of a rank that serves and works ---- */

/* More ranks than are added in one loop; elements of some blocks, and more. */
enum { PEERS = 7, HERE = 6, OWN = (16 << 10) / 4 * 3 + 5 };

static float own_sum[OWN];
static int own_ends;

static void own_ended(uint64_t request, int64_t chunk, const char *sum)
{
    CHECK_INT(request, 21);
    CHECK_INT(chunk, 6);
    memcpy(own_sum, sum, sizeof own_sum);
    own_ends++;
}

static server_state *open_peers(void)
{
    ask_store how = form("horovod", false, true, -1);
    how.workers = how.servers = PEERS;
    setenv("KVSTORE_SERVERS", "0", 1);
    environment_read();
    alone_ranks(HERE, PEERS);
    alone_sees = see;
    CHECK_OK(net_open(server_open, &e));
    for (int rank = 0; rank < PEERS; rank++)
        ask(rank, 1, ASK_CREATE, none, &how, sizeof how);
    for (int rank = 0; rank < PEERS; rank++)
        replied(rank, 1);
    return server_store(STORE);
}

/* The values of a rank, whose sum depends on its order: by rank it is the element's number. */
static void order_matters(float *x, int rank)
{
    for (int i = 0; i < OWN; i++) {
        const float large = 1e9f + 64 * (float)(i % 999);
        const float values[PEERS] = {large, -large, -1000, [HERE] = (float)i + 1000};
        x[i] = values[rank];
    }
}

/* A sum with this rank's own values at `own`, made at out. */
static void sum_with_own(server_state *s, int64_t turn, const float *own, float *out)
{
    static float x[OWN];
    link_rec r = add_head(0, turn, 21);
    local_add mine = {(const char *)own, (char *)out, own_ended};
    r.chunk = 6;
    r.bytes = sizeof x;
    own_ends = 0;
    CHECK_OK(rounds_add(s, HERE, &r, &mine, &e));
    for (int rank = HERE - 1; rank >= 0; rank--) {
        order_matters(x, rank);
        give(rank, add_head(0, turn, 11), x, sizeof x);
    }
    CHECK_INT(own_ends, 0);
    settle();
    for (int rank = 0; rank < HERE; rank++) {
        const sent *got = next_to(rank, LINK_VALUE, 11);
        CHECK_INT(got->r.bytes, sizeof x);
        for (int i = 0; i < OWN; i++)
            CHECK_INT(((const float *)(const void *)got->data)[i], i);
    }
    no_more();
    CHECK_INT(own_ends, 1);
    for (int i = 0; i < OWN; i++)
        CHECK_INT(own_sum[i], i);
}

TEST(records_sums_in_place)
{
    static float own[OWN], out[OWN];
    server_state *s = open_peers();
    order_matters(own, HERE);
    sum_with_own(s, 1, own, out);
    CHECK_INT(out[OWN - 1], OWN - 1);
    sum_with_own(s, 2, own, NULL); /* it is copied at the end */
    CHECK_INT(own[OWN - 1], OWN - 1 + 1000);
    sum_with_own(s, 3, own, own);
    CHECK_INT(own[OWN - 1], OWN - 1);
    for (int rank = 0; rank < PEERS; rank++) {
        asked(rank, 90, ASK_FREE, none, NULL, 0);
    }
    CHECK(!server_stores);
}

/* A sum that fits in a record is sent at once, a larger one when the link is driven. */
TEST(records_sums_larger_than_a_record)
{
    enum { FITS = LINK_PAYLOAD / 4 };
    OWN(test_free) float *x = calloc(FITS + 1, sizeof *x);
    own_store *s = open_store(form("horovod", false, true, -1));
    for (int n = FITS; n <= FITS + 1; n++) {
        for (int rank = 0; rank < 2; rank++) {
            link_rec r = add_head(n, 1, 11);
            x[n - 1] = (float)rank + 1;
            give(rank, r, x, 4 * n);
        }
        alone_taker.settle();
        CHECK_INT(nsent - nread, n == FITS ? 2 : 0);
        settle();
        for (int rank = 0; rank < 2; rank++) {
            const sent *y = next_to(rank, LINK_VALUE, 11);
            CHECK_INT(y->r.bytes, LINK_PAYLOAD);
            CHECK_INT(y->r.flags, n == FITS ? LINK_LAST : 0);
            if (n > FITS) {
                y = next_to(rank, LINK_VALUE, 11);
                CHECK_INT(y->r.bytes, 4);
                CHECK_INT(y->r.from, LINK_PAYLOAD);
                CHECK_INT(y->r.flags, LINK_LAST);
            }
            CHECK_INT(((const float *)(const void *)(y->data + y->r.bytes))[-1], 3);
        }
        no_more();
    }
}
