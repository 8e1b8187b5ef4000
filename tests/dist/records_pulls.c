/* Pulls of a worker alone: what it asks for, and what it makes of the answers, also of those that
 * no server gives. */
#include "requests.h"

#include "cpu/changes.h"
#include "cpu/cpu.h"
#include "distributed/request.h"
#include "engine/trace.h"

/* ---- Elements ---- */

/* Two keys, one of them with outs of two dtypes. Each out is there with its last part. */
TEST(requests_pull_parts_as_they_come)
{
    kv *s = worker_with_keys(3);
    kv_array *a = array_from(KV_FLOAT32, -1), *b = array_from(KV_FLOAT64, -1),
             *c = array_from(KV_INT32, -1), *outs[] = {a, b, c};
    kv_key keys[] = {key_of(2), key_of(1), key_of(2)};
    CHECK_OK(kv_pull(s, keys, 3, outs, &(kv_call){.priority = 7}, &e));
    const sent *x = request_of(LINK_PULL, (int64_t[]){1, 2}, 2);
    no_more();
    CHECK_INT(alone_priority, INT32_MAX - 1);
    for (int i = 0; i < 6; i++) {
        CHECK_INT(x[i].r.round, 0);
        CHECK_INT(x[i].r.priority, 7);
        CHECK_INT(x[i].r.flags, 0);
        CHECK_INT(x[i].r.bytes, 0);
    }
    give_part(&x[5].r, 200);
    give_some(&x[3].r, 0, 5, 0, 200);
    give_some(&x[3].r, 5, 11, LINK_LAST, 200);
    give_part(&x[2].r, 200);
    holds(a, 200);
    holds(c, 200);
    CHECK_INT(engine_pending(array_var(b)), 1);
    give_part(&x[0].r, 100);
    give_part(&x[4].r, 100);
    give_part(&x[1].r, 100);
    holds(b, 100);
    give_part(&x[1].r, 999); /* it has ended */
    holds(b, 100);
    end_worker(s);
    for (int i = 0; i < 3; i++)
        kv_array_unref(outs[i]);
}

/* ---- An out of several keys ---- */

/* Pulls keys into one array, of which one is asked for alone. */
static void pull_last(kv *s, const kv_key *keys, int n, kv_array *const *outs, int64_t asked)
{
    CHECK_OK(kv_pull(s, keys, n, outs, NULL, &e));
    const sent *x = request_of(LINK_PULL, &asked, 1);
    no_more();
    for (int p = 0; p < PARTS; p++)
        give_part(&x[p].r, 100 * (double)asked);
    holds(outs[0], 100 * (double)asked);
    CHECK_OK(kv_wait(s, &e));
    settle();
}

/* It holds the last of them, whose numbers may be the smaller ones, and views are the same array.
 * What the last pair overwrites is checked as well. */
TEST(requests_pull_the_last_key_of_an_out)
{
    int64_t two[] = {2, ELEMENTS / 2};
    kv *s = worker_with_keys(4);
    kv_array *o = array_from(KV_FLOAT32, -1), *p = array_from(KV_FLOAT32, -1), *view = NULL,
             *outs[] = {o, o, o, p}, *views[] = {o, NULL}, *wrong[] = {NULL, o};
    kv_key rising[] = {key_of(1), key_of(2)}, falling[] = {key_of(2), key_of(1)};
    kv_key again[] = {key_of(1), key_of(2), key_of(1)}, strange[] = {key_of(KEYS), key_of(2)};
    pull_last(s, rising, 2, outs, 2);
    pull_last(s, falling, 2, outs, 1);
    pull_last(s, again, 3, outs, 1);
    CHECK_OK(kv_array_view(&view, o, 1, (int64_t[]){ELEMENTS}, &e));
    views[1] = view;
    pull_last(s, falling, 2, views, 1);
    kv_key beside[] = {key_of(3), key_of(2), key_of(1), key_of(3)};
    CHECK_OK(kv_pull(s, beside, 4, outs, NULL, &e));
    const sent *x = request_of(LINK_PULL, (int64_t[]){1, 3}, 2);
    no_more();
    for (int i = 0; i < 2 * PARTS; i++)
        give_part(&x[i].r, (double)(x[i].r.part / 100));
    holds(o, 1);
    holds(p, 3);
    CHECK_OK(kv_array_new(&wrong[0], KV_FLOAT32, 2, two, (kv_ctx){0}, &e));
    CHECK_INT(kv_pull(s, strange, 2, outs, NULL, &e), KV_E_KEY);
    CHECK_INT(e.key_id, KEYS);
    e = (kv_err){0};
    CHECK_INT(kv_pull(s, rising, 2, wrong, NULL, &e), KV_E_SHAPE);
    CHECK_INT(e.key_id, 1);
    end_worker(s);
    kv_array_unref(wrong[0]);
    kv_array_unref(view);
    kv_array_unref(o);
    kv_array_unref(p);
}

/* Many keys, some of whose outs are the same, in an order of their own. */
TEST(requests_pull_many_keys_into_fewer_outs)
{
    enum { FEWER = 7 };
    own_worker *s = worker_with_keys(KEYS);
    kv_array *some[FEWER], *outs[KEYS];
    kv_key keys[KEYS];
    int64_t last[FEWER];
    for (int i = 0; i < FEWER; i++)
        some[i] = array_from(KV_FLOAT32, -1);
    for (int i = 0; i < KEYS; i++) {
        keys[i] = key_of(i * 17 % KEYS);
        outs[i] = some[i * 3 % FEWER];
        last[i * 3 % FEWER] = keys[i].id;
    }
    CHECK_OK(kv_pull(s, keys, KEYS, outs, NULL, &e));
    alone_send_all();
    CHECK_INT(nsent - nread, FEWER * PARTS);
    for (; nread < nsent; nread++)
        give_part(&all[nread].r, (double)(all[nread].r.part / 100));
    for (int i = 0; i < FEWER; i++) {
        holds(some[i], (double)last[i]);
        kv_array_unref(some[i]);
    }
}

/* ---- Answers that no server gives ---- */

/* A pull with out, of key 1, of which the first and the last part have come. */
static const sent *begin_pull(kv *s, kv_array *out)
{
    kv_key key = key_of(1);
    CHECK_OK(kv_pull(s, &key, 1, &out, NULL, &e));
    const sent *x = request_of(LINK_PULL, (int64_t[]){1}, 1);
    give_part(&x[0].r, 10);
    give_part(&x[2].r, 10);
    return x;
}

/* A value that no server sends ends the pull with an error, when all of it has come. */
static void refuses(kv *s, kv_array *out, link_rec head, const void *data, int64_t n)
{
    const sent *x = begin_pull(s, out);
    head.kind = LINK_VALUE;
    head.request = x->r.request;
    head.chunk = 1;
    give(server_of(1), head, data, n);
    if (!(head.flags & LINK_LAST))
        give_part(&x[1].r, 10);
    CHECK_ERR(kv_wait(s, &e), KV_E_INTERNAL, "a record of another rank is malformed");
    CHECK(out->unfilled);
    settle();
}

TEST(requests_refuse_elements_of_no_part)
{
    enum { ALL = STEP * 4 };
    static const struct {
        int64_t offset, bytes;
        int flags;
    } bad[] = {{-4, 8, 0},       {-4, ALL + 4, LINK_LAST}, {2, 8, 0},          {0, 6, 0},
               {4, ALL, 0},      {4, ALL, LINK_LAST},      {ALL + 4, 0, 0},    {ALL + 4, 4, 0},
               {0, ALL + 4, 0},  {0, 8, LINK_LAST},        {8, 8, LINK_LAST},  {0, 0, LINK_LAST},
               {ALL + 4, 0, LINK_LAST}, {INT64_MAX - 3, 8, 0}};
    const float data[STEP + 1] = {0};
    own_worker *s = worker_with_keys(2);
    own_array *out = array_from(KV_FLOAT32, -1);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        link_rec r = {.flags = (uint8_t)bad[i].flags};
        r.from = bad[i].offset;
        refuses(s, out, r, data, bad[i].bytes);
    }
    const sent *x = begin_pull(s, out); /* these are right, also those without elements */
    give_some(&x[1].r, 0, 0, 0, 10);
    give_some(&x[1].r, 0, 16, 0, 10);
    give_some(&x[1].r, 16, 0, 0, 10);
    give_some(&x[1].r, 16, 0, LINK_LAST, 10);
    holds(out, 10);
    CHECK(!out->unfilled);
}

/* An error names the key where the pull has one, and its outs but not those that are complete. */
TEST(requests_pull_with_an_error)
{
    kv *s = worker_with_keys(3);
    own_arrays *outs[] = {array_from(KV_FLOAT32, -1), array_from(KV_FLOAT32, -1), NULL};
    kv_key keys[] = {key_of(1), key_of(2)};
    for (int n = 1; n <= 2; n++) {
        CHECK_OK(kv_pull(s, keys, n, outs, NULL, &e));
        const sent *x = request_of(LINK_PULL, (int64_t[]){1, 2}, n);
        for (int i = 0; i < n * PARTS; i++) {
            if (x[i].r.part == 101)
                give_failed(x[i].r.request, "this part is gone");
            else
                give_part(&x[i].r, 5);
        }
        CHECK_INT(kv_wait(s, &e), KV_E_VALUE);
        CHECK_TEXT(e.text, "this part is gone");
        CHECK_INT(e.has_key, n == 1);
        CHECK_INT(e.key_id, n == 1);
        CHECK(outs[0]->unfilled);
        CHECK(!outs[1]->unfilled);
        e = (kv_err){0};
        settle();
    }
    holds(outs[1], 5);
    end_worker(s);
}

/* Records that answer no part that is waited for change nothing. */
TEST(requests_pull_drops_other_values)
{
    own_worker *s = worker_with_keys(2);
    own_array *out = array_from(KV_FLOAT32, -1);
    const sent *x = begin_pull(s, out);
    link_rec r = x[1].r;
    for (int64_t number = -1; number <= PARTS; number++) {
        r.chunk = number;
        if (number != 1)
            give_part(&r, 77);
    }
    r.chunk = 1;
    r.request++;
    give_part(&r, 77);
    CHECK_INT(engine_pending(array_var(out)), 1);
    give_part(&x[1].r, 10);
    holds(out, 10);
}

/* A server that tells of a push in place of a value. */
TEST(requests_pull_refuses_the_end_of_a_push)
{
    own_worker *s = worker_with_keys(2);
    own_array *out = array_from(KV_FLOAT32, -1);
    const sent *x = begin_pull(s, out);
    give_done(x->r.request, 1);
    CHECK_ERR(kv_wait(s, &e), KV_E_INTERNAL, "a record of another rank is malformed");
    CHECK(out->unfilled);
}

/* There are more of them than lists of requests at the beginning; they end in any order. */
TEST(requests_under_way_are_found_by_their_number)
{
    enum { MANY = 40 };
    kv *s = open_worker("dist_sync", SERVERS);
    own_arrays *outs[MANY + 1] = {NULL};
    uint64_t numbers[MANY];
    link_rec asked[MANY];
    elements = STEP;
    init_keys(s, MANY);
    for (int i = 0; i < MANY; i++) {
        kv_key key = key_of(i);
        outs[i] = array_from(KV_FLOAT32, -1);
        CHECK_OK(kv_pull(s, &key, 1, &outs[i], NULL, &e));
        asked[i] = next_sent(server_of(2), LINK_PULL)->r;
        numbers[i] = asked[i].request;
        for (int j = 0; j < i; j++)
            CHECK(numbers[j] != numbers[i]);
    }
    for (int i = 0; i < MANY; i++) {
        int which = (i * 17 + 5) % MANY;
        give_part(&asked[which], which);
        holds(outs[which], which);
    }
    end_worker(s);
}

/* All of them end, wherever they are listed; one whose turn has not come does so when it comes. */
TEST(requests_end_when_a_rank_is_lost)
{
    enum { MANY = 20 };
    const kv_err why = {.code = KV_E_PEER, .text = "rank 3 is lost"};
    own_worker *s = open_worker("dist_sync", SERVERS);
    kv_array *outs[MANY];
    elements = STEP;
    init_keys(s, MANY);
    for (int i = 0; i < MANY; i++) {
        kv_key key = key_of(i);
        outs[i] = array_from(KV_FLOAT32, -1);
        CHECK_OK(kv_pull(s, &key, 1, &outs[i], NULL, &e));
    }
    alone_taker.lost(&why); /* before they are sent: the net drops what it has, and tells again */
    alone_send_all();
    CHECK_INT(engine_pending(array_var(outs[3])), 1);
    alone_taker.lost(&why);
    CHECK_ERR(kv_wait(s, &e), KV_E_PEER, "rank 3 is lost");
    for (int i = 0; i < MANY; i++) {
        CHECK(outs[i]->unfilled);
        kv_array_unref(outs[i]);
    }
    nread = nsent;
}

/* An out of a pull is not written by the next before this one has ended. */
TEST(requests_pull_into_one_array_in_their_order)
{
    own_worker *s = open_worker("dist_sync", SERVERS);
    elements = STEP;
    init_keys(s, 2);
    own_array *out = array_from(KV_FLOAT32, -1);
    link_rec asked[2];
    for (int i = 0; i < 2; i++) {
        kv_key key = key_of(i);
        CHECK_OK(kv_pull(s, &key, 1, &out, NULL, &e));
    }
    asked[0] = next_sent(server_of(2), LINK_PULL)->r;
    no_more(); /* the second waits for its turn */
    give_part(&asked[0], 1);
    asked[1] = next_sent(server_of(2), LINK_PULL)->r;
    give_part(&asked[1], 2);
    holds(out, 2);
}

/* Keys of a megabyte or more go in requests of their own, but all pairs of a key in one. */
TEST(requests_pull_large_keys_one_by_one)
{
    kv *s = open_worker("dist_sync", SERVERS);
    own_arrays *outs[5] = {NULL};
    kv_key keys[] = {key_of(0), key_of(0), key_of(1), key_of(2)};
    link_rec asked[3];
    elements = step = 150000; /* 600 kB: two of them make more than a megabyte */
    init_keys(s, 3);
    for (int i = 0; i < 4; i++)
        outs[i] = array_from(KV_FLOAT32, -1);
    CHECK_OK(kv_pull(s, keys, 4, outs, NULL, &e));
    for (int i = 0; i < 3; i++) {
        asked[i] = next_sent(server_of(2), LINK_PULL)->r;
        CHECK_INT(asked[i].part, 100 * i);
    }
    CHECK_INT(asked[1].request, asked[0].request);
    CHECK(asked[2].request != asked[0].request);
    CHECK_INT(asked[2].chunk, 0);
    for (int i = 0; i < 3; i++)
        give_failed(asked[i].request, "no");
    CHECK_ERR(kv_wait(s, &e), KV_E_VALUE, "no");
    end_worker(s);
}

/* Arrays of rows are left as they are, or filled by way of a dense one. */
static bool answers;

static bool answer_pulls(void)
{
    alone_send_all();
    bool some = false;
    for (; answers && nread < nsent; nread++, some = true)
        give_part(&all[nread].r, 10);
    return some;
}

TEST(requests_pull_into_rows)
{
    own_worker *s = open_worker("dist_sync", SERVERS);
    row = 4;
    init_keys(s, 2);
    own_array *dense = array_from(KV_FLOAT32, -1), *rows = NULL, *seen = NULL;
    CHECK_OK(kv_array_new_sparse(&rows, KV_FLOAT32, 2, (int64_t[]){10, 4}, 0, NULL, (kv_ctx){0},
                                 &e));
    kv_key keys[] = {key_of(1), key_of(0)};
    CHECK_OK(kv_pull(s, keys, 2, (kv_array *[]){rows, dense}, &(kv_call){.priority = 1}, &e));
    const sent *x = request_of(LINK_PULL, (int64_t[]){0}, 1);
    for (int i = 0; i < PARTS; i++)
        give_part(&x[i].r, 3);
    holds(dense, 3);
    nothing_comes();
    answers = true;
    pool_set_poll(answer_pulls);
    CHECK_OK(kv_pull(s, keys, 2, (kv_array *[]){rows, dense},
                     &(kv_call){.flags = KV_FILL_SPARSE}, &e));
    CHECK_OK(kv_array_to_dense(&seen, rows, &e));
    holds(seen, 10);
    holds(dense, 10);
    kv_array_unref(rows);
    CHECK_OK(kv_array_new_sparse(&rows, KV_FLOAT32, 2, (int64_t[]){10, 4}, 0, NULL, (kv_ctx){0},
                                 &e));
    CHECK_OK(kv_pull(s, keys, 1, &rows, &(kv_call){.flags = KV_FILL_SPARSE}, &e));
    kv_array_unref(seen);
    CHECK_OK(kv_array_to_dense(&seen, rows, &e));
    holds(seen, 10);
    CHECK_OK(kv_pull(s, keys, 1, &dense, &(kv_call){.flags = KV_FILL_SPARSE}, &e));
    holds(dense, 10);
    pool_set_poll(NULL);
}

/* More than so many operations are not under way, pulls included: the next one waits, and asks the
 * servers whether one of them waits for this rank. */
static int asked_for_missed;

static void *miss_nothing(const net_call *c, int64_t *bytes)
{
    ask_missed m = {.part = -1, .waits = 1};
    buf b = {0};
    if (c->what != ASK_MISSED)
        return reply_to(c, bytes);
    asked_for_missed++;
    buf_put(&b, (const char *)&m, sizeof m);
    *bytes = (int64_t)b.len;
    return b.data;
}

TEST(requests_pull_no_more_than_can_be_under_way)
{
    const kv_err why = {.code = KV_E_PEER, .text = "rank 3 is lost"};
    own_worker *s = open_worker("dist_sync", SERVERS);
    kv_key key = key_of(0);
    elements = STEP;
    init_keys(s, 1);
    alone_answers = miss_nothing;
    own_array *out = array_from(KV_FLOAT32, 0);
    for (int i = 0; i < BACKPRESSURE_PENDING; i++)
        CHECK_OK(kv_pull(s, &key, 1, &out, NULL, &e));
    CHECK_INT(asked_for_missed, 0);
    CHECK_OK(kv_pull(s, &key, 1, &out, NULL, &e));
    CHECK(asked_for_missed > 0);
    while (s->calls.group.pending > 0) { /* each has its turn when the one before has ended */
        alone_send_all();
        alone_taker.lost(&why);
        forget_sent();
    }
    CHECK_ERR(kv_wait(s, &e), KV_E_PEER, "rank 3 is lost");
}

/* The parts of a look come without their elements. */
static void *look_at_nothing(const net_call *c, int64_t *bytes)
{
    buf b = {0};
    if (c->what == ASK_KEYS)
        ask_put_key(&b, &made[1], NULL);
    *bytes = (int64_t)b.len;
    return b.data;
}

TEST(requests_look_at_parts_without_elements)
{
    own_worker *s = open_worker("dist_sync", SERVERS);
    kv_key key = key_of(1);
    kv_array *seen = NULL;
    int64_t rounds[2];
    init_keys(s, 2);
    alone_answers = look_at_nothing;
    CHECK_CODE(kv_peek(s, &key, &seen, rounds, &e), KV_E_INTERNAL);
    CHECK(!seen);
    alone_answers = reply_to;
}

/* The first request of a process needs memory for the lists of all. */
TEST(requests_open_without_memory)
{
    mem_fail_at(1);
    CHECK_INT(request_open(&e), KV_E_MEMORY);
    mem_fail_at(0);
    CHECK_INT(e.code, KV_E_MEMORY);
}

/* Behind a loss nothing begins. */
TEST(requests_do_not_begin_when_a_rank_is_lost)
{
    own_worker *s = open_worker("dist_sync", SERVERS);
    kv_key key = key_of(0);
    init_keys(s, 1);
    own_array *a = array_from(KV_FLOAT32, 0);
    alive_lost(3, "rank 3 is lost");
    for (int i = 0; i < 3; i++) {
        int64_t rounds[] = {KV_NO_ROUND};
        int rc = i == 0   ? kv_push(s, &key, 1, &a, NULL, &e)
                 : i == 1 ? kv_pull(s, &key, 1, &a, NULL, &e)
                          : kv_pull_since(s, &key, 1, &a, rounds, NULL, &e);
        CHECK_INT(rc, KV_E_PEER);
        CHECK_TEXT(e.text, "rank 3 is lost");
        CHECK_INT(e.rank, 3);
        e = (kv_err){0};
    }
}

TEST(requests_pull_says_what_is_wrong)
{
    own_worker *s = worker_with_keys(2);
    own_array *good = array_from(KV_FLOAT32, -1), *bad = NULL;
    CHECK_OK(kv_array_new(&bad, KV_FLOAT32, 1, (int64_t[]){41}, (kv_ctx){0}, &e));
    kv_key keys[] = {key_of(0), key_of(1)}, absent = key_of(7);
    CHECK_ERR(kv_pull(s, keys, 2, (kv_array *[]){good, bad}, NULL, &e), KV_E_SHAPE,
              "key 1 holds (40,), this array has shape (41,)");
    CHECK_ERR(kv_pull(s, &absent, 1, &good, NULL, &e), KV_E_KEY, "key 7 was never initialised");
}

/* ---- Codes ---- */

enum { CODED = 5000 /* more than are decoded at once */ };

/* A server sends codes of n elements from one on, and no others. */
static void pull_codes(kv *s, kv_array *const *outs, int64_t from, int64_t n)
{
    static float x[CODED], left[CODED];
    static char record[sizeof(push_codes) + CODED];
    const push_codes head = {.code = QUANTISE_2BIT, .threshold = 0.5f};
    CHECK_OK(kv_pull(s, (kv_key[]){key_of(0), key_of(0)}, 2, outs, NULL, &e));
    const sent *asked = next_sent(server_of(2), LINK_PULL);
    for (int i = 0; i < n; i++)
        x[i] = (float)(i % 7 - 3) / 3;
    memset(left, 0, sizeof left);
    memcpy(record, &head, sizeof head);
    quantise_encode(record + sizeof head, left, x, QUANTISE_2BIT, 0.5f, n);
    link_rec r = {.kind = LINK_VALUE, .request = asked->r.request, .flags = LINK_CODES};
    r.from = from;
    r.n = n;
    give(server_of(2), r, record, (int64_t)sizeof head + quantise_bytes(QUANTISE_2BIT, n));
    give_failed(asked->r.request, "the rest does not come");
    CHECK_ERR(kv_wait(s, &e), KV_E_VALUE, "the rest does not come");
    settle();
    for (int i = 0; i < n; i++) {
        float want = x[i] >= 0.5f ? 0.5f : x[i] <= -0.5f ? -0.5f : 0;
        CHECK_INT(((const float *)outs[0]->data)[from + i] * 8, want * 8);
        CHECK_INT(((const double *)outs[1]->data)[from + i] * 8, want * 8);
    }
}

TEST(requests_pull_codes)
{
    enum { SOME = 1600 };
    const kv_opt how[] = {{"type", "2bit"}, {"threshold", "0.5"}, {"pull", "true"}};
    kv *s = open_worker("dist_sync", SERVERS);
    CHECK_OK(kv_set_gradient_compression(s, how, 3, &e));
    elements = step = CODED;
    init_keys(s, 1);
    own_arrays *outs[] = {array_from(KV_FLOAT32, -9), array_from(KV_FLOAT64, -9), NULL};
    const float *a = outs[0]->data;
    pull_codes(s, outs, 0, SOME);
    CHECK_INT(a[SOME], SOME - 9);
    pull_codes(s, outs, SOME, CODED - SOME);
    CHECK_INT(a[0] * 8, -4);
    end_worker(s);
}

TEST(requests_refuse_codes_that_do_not_fit)
{
    static const struct {
        int64_t element, elements, bytes;
        int code;
    } bad[] = {{0, 16, 4, 0},  {0, 16, 4, 3},   {0, 16, 8, 2},  {0, 16, 0, 2},
               {0, 32, 8, 2},  {-16, 32, 8, 2}, {16, 16, 4, 2}, {0, 16, -4, 2},
               {8, 16, 4, 2},  {0, 8, 4, 1},    {0, 16, 8, 1},  {-1, 17, 8, 2}};
    own_worker *s = open_worker("dist_sync", SERVERS);
    char record[64] = {0};
    init_keys(s, 2);
    own_array *out = array_from(KV_FLOAT32, -1);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        link_rec r = {.flags = LINK_LAST | LINK_CODES};
        push_codes head = {.code = (int16_t)bad[i].code, .threshold = 0.5f};
        memcpy(record, &head, sizeof head);
        r.from = bad[i].element;
        r.n = bad[i].elements;
        refuses(s, out, r, record, (int64_t)sizeof head + bad[i].bytes);
    }
}

/* A key of another dtype has no codes. */
TEST(requests_refuse_codes_of_float64)
{
    own_worker *s = open_worker("dist_sync", SERVERS);
    char record[sizeof(push_codes) + 4] = {0};
    push_codes head = {.code = QUANTISE_2BIT, .threshold = 0.5f};
    dtype = KV_FLOAT64;
    init_keys(s, 2);
    own_array *out = array_from(KV_FLOAT64, -1);
    link_rec r = {.flags = LINK_LAST | LINK_CODES};
    memcpy(record, &head, sizeof head);
    r.n = STEP;
    refuses(s, out, r, record, sizeof record);
}

/* ---- Changes ---- */

/* Of a pull of changes, the answer to each part: elements of the key as they are after so many
 * rounds, as codes of those that changed. */
static struct {
    int64_t round[PARTS]; /* of the answers */
    int64_t since;        /* the worker must ask with this one */
    link_rec bad;         /* its payload is malformed; bytes: cut by so many */
    int cut;
    bool whole;           /* plain elements */
} change;

/* Element i of a key changes in a pull where i % 5 == 1, and then is 1000 + i. */
static void give_changes(const link_rec *asked)
{
    int p = (int)(asked->part % 100);
    const place *at_home = &made[asked->part / 100].place;
    kv_dtype type = (kv_dtype)made[asked->part / 100].dtype;
    int64_t n = place_count(at_home, p), from = place_from(at_home, p), each = kv_dtype_bytes(type);
    OWN(test_free)
    char *x = malloc((size_t)(n * each)),
         *code = malloc((size_t)(n * each + n / 1024 * 2 + 8));
    OWN(test_free) uint8_t *marks = malloc((size_t)n);
    for (int64_t i = 0; i < n; i++) {
        marks[i] = change.since < 0 || (from + i) % 5 == 1;
        put_number(x, type, i, 1000 + (double)(from + i));
    }
    int64_t bytes = 0;
    for (int64_t at = 0; at < n; at += CHANGES_BLOCK) {
        int64_t some = n - at < CHANGES_BLOCK ? n - at : CHANGES_BLOCK;
        bytes += changes_encode(code + bytes, marks + at, 0, x + at * each, (int)each, some);
    }
    link_rec r = change.bad;
    r.kind = LINK_VALUE;
    r.flags |= LINK_LAST | (change.whole ? 0 : LINK_CHANGES);
    r.request = asked->request;
    r.chunk = asked->chunk;
    r.n += change.whole ? 0 : n;
    r.round += change.round[p];
    give(server_of(p), r, change.whole ? x : code, change.whole ? n * each : bytes - change.cut);
}

static bool answer_changes(void)
{
    bool some = false;
    alone_send_all();
    for (; nread < nsent; nread++, some = true) {
        const sent *x = &all[nread];
        CHECK_INT(x->r.kind, LINK_PULL);
        CHECK_INT(x->r.flags, LINK_CHANGES);
        CHECK_INT(x->r.from, change.since);
        give_changes(&x->r);
    }
    return some;
}

/* Two outs of a key, of which the older one says what must come, and what they hold then. */
static void pull_since(kv_dtype type, kv_dtype other)
{
    kv *s = open_worker("dist_sync", SERVERS);
    dtype = type;
    pool_set_poll(answer_changes);
    init_keys(s, 1);
    kv_key keys[] = {key_of(0), key_of(0)};
    kv_array *outs[] = {array_from(type, 0), array_from(other, 0)};
    int64_t rounds[] = {KV_NO_ROUND, KV_NO_ROUND};
    change.since = -1;
    CHECK_OK(kv_pull_since(s, keys, 2, outs, rounds, NULL, &e));
    holds(outs[0], 1000);
    holds(outs[1], 1000);
    CHECK_INT(rounds[0], 0);
    CHECK_INT(rounds[1], 0);
    own_array *v = array_from(type, 0);
    for (int i = 0; i < 4; i++) { /* rounds are not asked for that the worker has not begun */
        CHECK_OK(kv_push(s, keys, 1, &v, NULL, &e));
        alone_send_all();
        give_done(all[nread].r.request, nsent - nread);
        nread = nsent;
    }
    for (int i = 0; i < 2; i++) {
        kv_array_unref(outs[i]);
        outs[i] = array_from(i ? other : type, 0);
        rounds[i] = 4 - i;
    }
    change.since = 3;
    for (int i = 0; i < PARTS; i++)
        change.round[i] = 9 - i % 2;
    CHECK_OK(kv_pull_since(s, keys, 2, outs, rounds, NULL, &e));
    for (int i = 0; i < 2; i++) {
        CHECK_INT(rounds[i], 8);
        for (int64_t j = 0; j < elements; j++)
            CHECK_INT(number_at(outs[i]->data, kv_array_dtype(outs[i]), j),
                      j % 5 == 1 ? 1000 + j : j);
        kv_array_unref(outs[i]);
    }
    pool_set_poll(NULL);
    end_worker(s);
}

TEST(requests_pull_what_changed)
{
    pull_since(KV_FLOAT32, KV_FLOAT64);
}

/* An out of two keys holds a round of the last one alone. */
TEST(requests_pull_what_changed_of_the_last_key_of_an_out)
{
    kv *s = open_worker("dist_sync", SERVERS);
    pool_set_poll(answer_changes);
    init_keys(s, 2);
    kv_key keys[] = {key_of(1), key_of(0)};
    kv_array *out = array_from(KV_FLOAT32, 0), *outs[] = {out, out};
    int64_t rounds[] = {0, KV_NO_ROUND};
    change.since = -1;
    for (int i = 0; i < 2; i++) {
        nread = nsent;
        CHECK_OK(kv_pull_since(s, keys, 2, outs, rounds, NULL, &e));
        CHECK_INT(all[nsent - 1].r.part / 100, 0);
        CHECK_INT(rounds[0], KV_NO_ROUND);
        CHECK_INT(rounds[1], 0);
        change.since = 0;
    }
    holds(out, 1000);
    pool_set_poll(NULL);
    end_worker(s);
    kv_array_unref(out);
}

/* Of parts that are many blocks. */
TEST(requests_pull_what_changed_of_large_parts)
{
    elements = 3 * 9008;
    step = 9008;
    pull_since(KV_FLOAT64, KV_FLOAT64);
}

/* And of parts that are whole blocks. */
TEST(requests_pull_what_changed_of_blocks)
{
    elements = 6 * CHANGES_BLOCK;
    step = 2 * CHANGES_BLOCK;
    pull_since(KV_FLOAT32, KV_FLOAT32);
}

TEST(requests_refuse_changes_that_do_not_fit)
{
    static const struct {
        int64_t element, elements, round;
        int cut;
    } bad[] = {{-1, 0, 0, 0}, {1, 0, 0, 0}, {0, -1, 0, 0}, {0, 1, 0, 0},
               {0, 0, -5, 0}, {0, 0, 0, 1}, {0, 0, INT64_MAX - 4, 0}};
    own_worker *s = open_worker("dist_sync", SERVERS);
    kv_key key = key_of(0);
    pool_set_poll(answer_changes);
    init_keys(s, 1);
    own_array *out = array_from(KV_FLOAT32, 0);
    change.since = -1;
    for (int i = 0; i < PARTS; i++)
        change.round[i] = 4;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int64_t rounds[] = {KV_NO_ROUND};
        change.bad.from = bad[i].element;
        change.bad.n = bad[i].elements;
        change.bad.round = bad[i].round;
        change.cut = bad[i].cut;
        CHECK_CODE(kv_pull_since(s, &key, 1, &out, rounds, NULL, &e), KV_E_INTERNAL);
        CHECK_INT(rounds[0], KV_NO_ROUND);
        settle();
    }
    change.bad = (link_rec){0};
    change.cut = 0;
    int64_t rounds[] = {KV_NO_ROUND};
    CHECK_OK(kv_pull_since(s, &key, 1, &out, rounds, NULL, &e));
    CHECK_INT(rounds[0], 4);
    CHECK_ERR(kv_pull_since(s, &key, 1, &out, (int64_t[]){3}, NULL, &e), KV_E_VALUE,
              "key 0 is at round 0, and this array would be at round 3");
    pool_set_poll(NULL);
}

/* A plain pull that is answered with changes. */
TEST(requests_refuse_changes_that_nobody_asked_for)
{
    own_worker *s = open_worker("dist_sync", SERVERS);
    char code[64];
    float x[STEP] = {0};
    uint8_t marks[STEP] = {0};
    init_keys(s, 2);
    own_array *out = array_from(KV_FLOAT32, -1);
    link_rec r = {.flags = LINK_LAST | LINK_CHANGES};
    r.n = STEP;
    int64_t n = changes_encode(code, marks, 0, x, sizeof *x, STEP);
    refuses(s, out, r, code, n);
}

/* The bytes that came are counted, with the heads of their records. */
TEST(requests_count_what_comes_of_changes)
{
    own_worker *s = open_worker("dist_sync", SERVERS);
    kv_key key = key_of(0);
    int64_t rounds[] = {KV_NO_ROUND};
    pool_set_poll(answer_changes);
    init_keys(s, 1);
    own_array *out = array_from(KV_FLOAT32, 0);
    change.since = -1;
    change.whole = true;
    CHECK_OK(kv_pull_since(s, &key, 1, &out, rounds, NULL, &e));
    CHECK_INT(s->since_moved, PARTS * (int64_t)sizeof(link_rec) + ELEMENTS * 4);
    pool_set_poll(NULL);
}

/* ---- A profile ---- */

static int look_at(void *arg, const trace_event *ev, kv_err *e)
{
    static const trace_kind kinds[] = {TRACE_ENQUEUE, TRACE_WAIT, TRACE_QUEUE, TRACE_TRAVEL};
    int *seen = arg;
    (void)e;
    CHECK_TEXT(ev->name, "pull");
    CHECK_INT(ev->nkeys, 2);
    CHECK_INT(ev->keys[0].id, 1);
    CHECK_INT(ev->keys[1].id, 2);
    CHECK(ev->begin > 0 && ev->end >= ev->begin);
    for (int i = 0; i < 4; i++)
        seen[i] += ev->kind == kinds[i];
    return KV_OK;
}

/* The second pull waits for the first, and tells of that too. */
TEST(requests_are_in_a_profile)
{
    int seen[4] = {0};
    kv *s = open_worker("dist_sync", SERVERS);
    kv_key keys[] = {key_of(2), key_of(1)};
    init_keys(s, 3);
    own_arrays *outs[] = {array_from(KV_FLOAT32, -1), array_from(KV_FLOAT32, -1), NULL};
    CHECK_OK(trace_start(&e));
    CHECK_OK(kv_pull(s, keys, 2, outs, NULL, &e));
    CHECK_OK(kv_pull(s, keys, 2, outs, NULL, &e));
    for (int n = 0; n < 2; n++) {
        const sent *x = request_of(LINK_PULL, (int64_t[]){1, 2}, 2);
        for (int i = 0; i < 2 * PARTS; i++)
            give_part(&x[i].r, n);
        settle();
    }
    holds(outs[0], 1);
    CHECK_OK(kv_wait(s, &e));
    CHECK_OK(trace_stop(look_at, seen, &e));
    CHECK_INT(seen[0], 2);
    CHECK_INT(seen[1], 1);
    CHECK_INT(seen[2], 1);
    CHECK_INT(seen[3], 2);
    end_worker(s);
}
