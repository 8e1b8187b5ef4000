/* Data in other forms than all elements in one record, to a server of two workers without a net:
 * with a host step, in codes, as rows, in parts larger than a record, as changes. */
#include "records.h"

#include "cpu/changes.h"

/* ---- Host steps ---- */

/* What stands before the elements: a rule's numbers. They are those of the lowest rank. */
static void push_with_host(int rank, int64_t turn, uint64_t request, int64_t t, int64_t n,
                           int64_t cut)
{
    char data[8192] = {0};
    rule_given given = {.t = t, .lr = 1, .dtype = KV_FLOAT32, .row = N, .size = N};
    host number = {0};
    int64_t at = sizeof given;
    memcpy(data, &given, sizeof given);
    memcpy(data + at, &n, sizeof n);
    at += (int64_t)sizeof n;
    for (int64_t i = 0; i < n && i < PLAN_MAX_STATES; i++, at += (int64_t)sizeof number)
        memcpy(data + at, &number, sizeof number);
    float x[N];
    floats(x, 1, 0);
    memcpy(data + at, x, sizeof x);
    at += (int64_t)sizeof x;
    link_rec r = push_head(0, turn, request);
    r.flags |= LINK_HOST;
    give(rank, r, data, cut >= 0 ? cut : at);
}

TEST(records_the_host_step_is_that_of_the_lowest_rank)
{
    own_store *s = store_with_key(0);
    set_rule("{ stored = input + t * 100 }");
    push_with_host(1, 1, 21, 5, 0, -1);
    settle();
    push_with_host(0, 1, 11, 7, 0, -1);
    both_done(11, 21, 1);
    push_with_host(0, 2, 12, 8, 2, -1);
    push_with_host(1, 2, 22, 6, 0, -1);
    pull(0, 0, 1, 13);
    both_done(12, 22, 1);
    value(0, 13, 9, 802, 0);
}

TEST(records_host_steps_that_are_malformed)
{
    own_store *s = store_with_key(0);
    set_rule("{ stored = input + t * 100 }");
    const int64_t head = (int64_t)sizeof(rule_given) + 8, each = (int64_t)sizeof(host);
    push_with_host(0, 1, 11, 1, -1, -1);
    push_with_host(0, 1, 11, 1, PLAN_MAX_STATES + 1, -1);
    push_with_host(0, 1, 11, 1, INT64_MAX, -1);
    push_with_host(0, 1, 11, 1, 0, head - 1);
    push_with_host(0, 1, 11, 1, 0, 0);
    push_with_host(0, 1, 11, 1, 2, head + 2 * each - 1);
    for (int i = 0; i < 6; i++)
        malformed(0, 11);
    nothing_comes();
    push_with_host(0, 1, 12, 1, PLAN_MAX_STATES, -1);
    push_with_host(1, 1, 22, 1, 0, -1);
    both_done(12, 22, 1);
}

/* The states that are numbers stand in the host step too. Those that it does not bring are none,
 * whatever the step of an earlier round was. */
TEST(records_numbers_of_a_host_step)
{
    static const char none_error[] = "none cannot be computed with arrays";
    own_store *s = store_with_key(0);
    set_rule("{ state key n = 5; stored = input + n }");
    for (int64_t n = 1; n >= 0; n--) {
        char data[1024] = {0};
        float x[N];
        floats(x, 1, 0);
        const rule_given given = {.t = 1, .lr = 1, .dtype = KV_FLOAT32, .row = N, .size = N,
                                  .have = 1};
        const host number = {.kind = HOST_FLOAT, .u.number = 70};
        int64_t at = sizeof given, turn = 2 - n;
        memcpy(data, &given, sizeof given);
        memcpy(data + at, &n, sizeof n);
        at += (int64_t)sizeof n;
        memcpy(data + at, &number, (size_t)n * sizeof number);
        at += n * (int64_t)sizeof number;
        memcpy(data + at, x, sizeof x);
        link_rec r = push_head(0, turn, 11);
        r.flags |= LINK_HOST;
        give(0, r, data, at + (int64_t)sizeof x);
        push(1, 0, turn, 21, 1, 0);
        settle();
        if (n == 1) {
            done(0, 11, 1);
            done(1, 21, 1);
        } else {
            failed(0, 11, KV_E_DTYPE, none_error);
            failed(1, 21, KV_E_DTYPE, none_error);
        }
        pull_gives(0, 0, turn, 12, 72, 0);
        no_more();
    }
}

/* A record may end with the host step; the elements come in the next ones. */
TEST(records_a_host_step_without_elements)
{
    own_store *s = store_with_key(0);
    set_rule("{ stored = input + t * 100 }");
    char data[8192] = {0};
    float x[N];
    floats(x, 1, 0);
    for (int n = 0; n <= 2; n++) {
        rule_given given = {.t = n + 5, .lr = 1, .dtype = KV_FLOAT32, .row = N, .size = N};
        int64_t numbers = n, bytes = (int64_t)sizeof given + 8 + n * (int64_t)sizeof(host);
        memcpy(data, &given, sizeof given);
        memcpy(data + sizeof given, &numbers, sizeof numbers);
        link_rec r = push_head(0, n + 1, 21);
        r.flags = LINK_HOST;
        give(1, r, data, bytes);
        push(1, 0, n + 1, 21, 1, 0);
        push(0, 0, n + 1, 11, 1, 0); /* the lowest rank brings none */
        pull(0, 0, n + 1, 12);
        both_done(11, 21, 1);
        value(0, 12, 9, 2 + 100 * (float)(n + 5), 0);
        no_more();
    }
}

/* ---- Codes ---- */

static link_rec codes_head(int64_t turn, uint64_t request, int64_t element, int64_t n, bool last)
{
    link_rec r = push_head(0, turn, request);
    r.flags = (uint8_t)(LINK_CODES | (last ? LINK_LAST : 0));
    r.from = element;
    r.n = n;
    return r;
}

typedef struct coded {
    push_codes how;
    unsigned char codes[N];
} coded;

TEST(records_codes)
{
    own_store *s = store_with_key(0);
    coded two = {.how = {QUANTISE_2BIT, BACK_NUMBERS, 0.5f}};
    float x[N], got[N];
    for (int i = 0; i < N; i++)
        x[i] = i % 2 ? 0.5f : -0.5f;
    float residual[N] = {0};
    quantise_encode(two.codes, residual, x, QUANTISE_2BIT, 0.5f, N);
    const int64_t head = sizeof two.how;
    const coded bad[] = {{.how = {0, 0, 0.5f}},  {.how = {3, 0, 0.5f}},  {.how = {-1, 0, 0.5f}},
                         {.how = {2, -1, 0.5f}}, {.how = {2, 3, 0.5f}}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        give(0, codes_head(1, 11, 0, N, true), &bad[i], head + 4);
        malformed(0, 11);
    }
    give(0, codes_head(1, 11, -1, N, true), &two, head + 4);
    give(0, codes_head(1, 11, N + 1, 0, true), &two, head);
    give(0, codes_head(1, 11, 1, N, true), &two, head + 4);
    give(0, codes_head(1, 11, 0, -1, true), &two, head);
    give(0, codes_head(1, 11, 0, N, true), &two, head - 1);
    give(0, codes_head(1, 11, 0, N, true), &two, head + 2); /* fewer codes than it says */
    give(0, codes_head(1, 11, 0, N, true), &two, (int64_t)sizeof two); /* and more */
    for (int i = 0; i < 7; i++)
        malformed(0, 11);
    const coded rest = {.how = two.how, .codes = {two.codes[1]}};
    give(0, codes_head(1, 12, 4, 4, false), &rest, head + 4);
    give(0, codes_head(1, 12, 0, 4, true), &two, head + 4);
    nothing_comes();
    give(1, codes_head(1, 22, 0, N, true), &two, head + 4);
    both_done(12, 22, 1);
    pull(0, 0, 1, 13);
    settle();
    memcpy(got, next_to(0, LINK_VALUE, 13)->data, sizeof got);
    for (int i = 0; i < N; i++)
        CHECK_INT(got[i] * 8, x[i] * 16);
    CHECK(!s->parts[0]->codes);
}

TEST(records_codes_of_one_bit)
{
    own_store *s = store_with_key(0);
    coded one = {.how = {QUANTISE_1BIT, BACK_NUMBERS, 0}};
    float x[N], residual[N] = {0};
    for (int i = 0; i < N; i++)
        x[i] = i % 3 ? 1 : -1;
    quantise_encode(one.codes, residual, x, QUANTISE_1BIT, 0, N);
    one.codes[1] = (unsigned char)~one.codes[0]; /* behind the elements */
    for (int rank = 0; rank < 2; rank++)
        give(rank, codes_head(1, 11, 0, N, true), &one, (int64_t)sizeof one.how + 4);
    pull(0, 0, 1, 12);
    both_done(11, 11, 1);
    const sent *got = next_to(0, LINK_VALUE, 12);
    for (int i = 0; i < N; i++)
        CHECK_INT(((const float *)(const void *)got->data)[i], 2 * x[i]);
}

/* A word holds 32 codes of one bit: those behind the elements of the record are not read. */
TEST(records_codes_of_one_bit_in_pieces)
{
    own_store *s = open_store(form("dist_sync", false, false, -1));
    kv_array_unref(init_flat(12, 0));
    coded ones = {.how = {QUANTISE_1BIT, BACK_NUMBERS, 0}};
    float x[8] = {1, 1, 1, 1, 1, 1, 1, 1}, residual[8] = {0};
    quantise_encode(ones.codes, residual, x, QUANTISE_1BIT, 0, 8);
    ones.codes[1] = (unsigned char)~ones.codes[0];
    give(0, codes_head(1, 11, 8, 4, false), &ones, (int64_t)sizeof ones.how + 4);
    give(0, codes_head(1, 11, 0, 8, true), &ones, (int64_t)sizeof ones.how + 4);
    const float *got = (const float *)(const void *)s->parts[0]->rounds->by[0].data;
    for (int i = 0; i < 12; i++)
        CHECK_INT(got[i], 1);
    settle();
}

/* A part without elements, whose push comes in pieces. */
TEST(records_a_part_of_nothing)
{
    own_store *s = open_store(form("dist_sync", false, false, -1));
    kv_array_unref(init_flat(0, 0));
    for (int rank = 0; rank < 2; rank++) {
        link_rec r = push_head(0, 1, 11);
        r.n = 0;
        r.flags = 0;
        give(rank, r, NULL, 0);
        r.flags = LINK_LAST;
        give(rank, r, NULL, 0);
    }
    both_done(11, 11, 1);
}

/* The sum goes back in codes if the first worker wants that, with a residual that stays. */
TEST(records_codes_go_back)
{
    own_store *s = store_with_key(0);
    coded two = {.how = {QUANTISE_2BIT, BACK_CODES, 0.5f}},
          other = {.how = {QUANTISE_2BIT, 0, 0.5f}};
    float x[N], y[N], want[N], residual[N] = {0}, kept[N] = {0};
    for (int i = 0; i < N; i++)
        x[i] = i % 3 ? 0.5f : -0.5f;
    quantise_encode(two.codes, residual, x, QUANTISE_2BIT, 0.5f, N);
    memcpy(other.codes, two.codes, N);
    const int64_t bytes = (int64_t)sizeof two.how + quantise_bytes(QUANTISE_2BIT, N);
    for (int turn = 1; turn <= 3; turn++) {
        unsigned char codes[N];
        if (turn == 3) {
            two.how.back = BACK_ANEW;
            memset(kept, 0, sizeof kept);
        }
        give(1, codes_head(turn, 20, 0, N, true), &other, bytes);
        give(0, codes_head(turn, 10, 0, N, true), &two, bytes);
        pull(1, 0, turn, 21);
        both_done(10, 20, 1);
        const sent *got = next_to(1, LINK_VALUE, 21);
        for (int i = 0; i < N; i++)
            y[i] = 2 * x[i];
        quantise_encode(codes, kept, y, QUANTISE_2BIT, 0.5f, N);
        quantise_decode(want, codes, QUANTISE_2BIT, 0.5f, N);
        CHECK_INT(got->r.flags, LINK_CODES | LINK_LAST);
        CHECK_INT(got->r.bytes, bytes);
        CHECK_INT(got->r.from, 0);
        CHECK_INT(got->r.n, N);
        CHECK_INT(got->r.round, turn);
        CHECK(memcmp(got->data, &two.how, sizeof two.how) == 0);
        CHECK(memcmp(got->data + sizeof two.how, codes, (size_t)quantise_bytes(QUANTISE_2BIT, N)) ==
              0);
        CHECK(memcmp(s->store->slots.items[0].stored->data, want, sizeof want) == 0);
        CHECK(memcmp(s->parts[0]->residual, kept, sizeof kept) == 0);
    }
    push(0, 0, 4, 11, 1, 0); /* plain: no codes any more */
    push(1, 0, 4, 22, 1, 0);
    both_done(11, 22, 1);
    CHECK(!s->parts[0]->codes && !s->parts[0]->residual && !s->parts[0]->coded.code);
}

/* ---- row_sparse ---- */

/* One part with all of a key of float32, which holds some rows. */
static void init_sparse(const int64_t *shape, const int64_t *ids, int64_t n, const float *values)
{
    own_buf b = {0};
    ask_key k = {.dtype = KV_FLOAT32, .storage = KV_ROW_SPARSE, .ndim = 2,
                 .shape = {shape[0], shape[1]}};
    void *to;
    own_array *a = MADE(kv_array, kv_array_new_sparse, KV_FLOAT32, 2, shape, n, ids, (kv_ctx){0});
    CHECK_OK(kv_array_write_rows(a, &to, &e));
    if (n)
        memcpy(to, values, (size_t)(n * shape[1]) * sizeof *values);
    k.place = place_new(KV_FLOAT32, KV_ROW_SPARSE, 2, shape, PLACE_ANYWHERE, 1);
    CHECK_OK(ask_put_slot(&b, &k, NULL, 0, a, &e));
    asked(0, 3, ASK_INIT, (link_args){.inits = 1}, b.data, (int64_t)b.len);
    settle();
}

static void init_rows(void)
{
    init_sparse((int64_t[]){4, 2}, NULL, 0, NULL);
}

typedef struct rows {
    int64_t n, ids[2];
    float data[4];
} rows;

static void push_rows(int rank, uint64_t request, const rows *x, bool in_pieces)
{
    link_rec r = push_head(0, 1, request);
    r.n = sizeof *x;
    r.flags = LINK_SPARSE;
    if (in_pieces) {
        give(rank, r, x, 20);
        r.from = 20;
    }
    r.flags |= LINK_LAST;
    give(rank, r, (const char *)x + r.from, (int64_t)sizeof *x - r.from);
}

TEST(records_rows)
{
    own_store *s = open_store(form("dist_sync", false, false, -1));
    init_rows();
    const rows a = {2, {0, 3}, {1, 2, 3, 4}}, b = {2, {1, 3}, {10, 20, 30, 40}};
    const float want[N] = {1, 2, 10, 20, 0, 0, 33, 44};
    int64_t ids[] = {3, 2, 3};
    push_rows(0, 11, &a, true);
    push_rows(1, 21, &b, false);
    ask(0, 12, ASK_ROWS, (link_args){.rows = {0, 1}}, ids, sizeof ids);
    pull(1, 0, 1, 22);
    no_more();
    settle();
    const sent *some = replied(0, 12);
    int64_t n;
    memcpy(&n, some->data, sizeof n);
    CHECK_INT(n, 2);
    const int64_t got[] = {2, 3};
    CHECK(memcmp(some->data + 8, got, sizeof got) == 0);
    CHECK(memcmp(some->data + 24, want + 4, 16) == 0);
    done(0, 11, 1);
    done(1, 21, 1);
    const sent *whole = next_to(1, LINK_VALUE, 22);
    CHECK_INT(whole->r.bytes, sizeof want);
    CHECK(memcmp(whole->data, want, sizeof want) == 0);
    ask(0, 13, ASK_ROWS, (link_args){.rows = {7, 1}}, ids, sizeof ids);
    failed(0, link_call_number(13), KV_E_KEY, "there is no such key on server 2");
}

/* Rows are sent at once, so that the push behind them goes on in the same settling. */
TEST(records_a_push_behind_rows)
{
    own_store *s = open_store(form("dist_sync", false, false, -1));
    init_rows();
    const rows a = {2, {0, 3}, {1, 2, 3, 4}};
    int64_t id = 3;
    for (int rank = 0; rank < 2; rank++) {
        link_rec r = push_head(0, 1, 11);
        r.n = sizeof a;
        r.flags |= LINK_SPARSE;
        r.pulls = rank == 0;
        give(rank, r, &a, sizeof a);
    }
    nothing_comes();
    ask(0, 12, ASK_ROWS, (link_args){.rows = {0, 0}}, &id, sizeof id);
    settle();
    replied(0, 12);
    done(0, 11, 1);
    done(1, 11, 1);
    no_more();
    CHECK_INT(s->parts[0]->applied, 1);
}

TEST(records_rows_and_elements_do_not_mix)
{
    own_store *s = open_store(form("dist_sync", false, false, -1));
    init_rows();
    const rows a = {2, {0, 3}, {1, 2, 3, 4}};
    link_rec r = push_head(0, 1, 11);
    r.flags = LINK_SPARSE;
    r.n = BYTES;
    give(0, r, &a, 16);
    r.flags = 0;
    r.from = 16;
    give(0, r, (const char *)&a + 16, 16);
    malformed(0, 11);
    r.flags = LINK_SPARSE;
    r.n = BYTES + 8; /* others than the first record said */
    give(0, r, (const char *)&a + 16, 16);
    malformed(0, 11);
    settle();
}

/* A worker gets rows, or all elements, in as many records as they need. */
TEST(records_rows_larger_than_a_record)
{
    enum { ROWS = LINK_PAYLOAD / 4 + 100 };
    const int64_t ids[] = {1, 70, ROWS - 1}, shape[] = {ROWS, 2};
    const float values[] = {1, 2, 3, 4, 5, 6};
    int64_t *every = malloc(ROWS * sizeof *every), n, at = 0;
    OWN(test_free) char *got = malloc(16 * ROWS + 8);
    own_store *s = open_store(form("dist_sync", false, false, -1));
    init_sparse(shape, ids, 3, values);
    for (int i = 0; i < ROWS; i++)
        every[i] = i;
    ask(0, 12, ASK_ROWS, (link_args){.rows = {0, 0}}, every, ROWS * (int64_t)sizeof *every);
    settle();
    const sent *x;
    do {
        x = next_to(0, LINK_REPLY, link_call_number(12));
        CHECK(x->r.bytes <= LINK_PAYLOAD && at + x->r.bytes <= 16 * ROWS + 8);
        memcpy(got + at, x->data, x->r.bytes);
        at += x->r.bytes;
        CHECK_INT(x->r.flags, at == 16 * ROWS + 8 ? LINK_LAST : 0);
    } while (!x->r.flags);
    memcpy(&n, got, sizeof n);
    CHECK_INT(n, ROWS);
    CHECK(memcmp(got + 8, every, ROWS * sizeof *every) == 0);
    CHECK(memcmp(got + 8 + 8 * ROWS + 8 * 70, values + 2, 8) == 0);
    pull(1, 0, 0, 22);
    settle();
    for (at = 0; at < 8 * ROWS; at += x->r.bytes) {
        x = next_to(1, LINK_VALUE, 22);
        CHECK(x->r.bytes > 0 && x->r.bytes <= LINK_PAYLOAD);
        CHECK_INT(x->r.from, at);
        memcpy(got + at, x->data, x->r.bytes);
        CHECK_INT(x->r.flags, at + x->r.bytes == 8 * ROWS ? LINK_LAST : 0);
    }
    for (int i = 0, k = 0; i < ROWS; i++) {
        const float zeros[2] = {0}, *want = k < 3 && ids[k] == i ? values + 2 * k++ : zeros;
        CHECK(memcmp(got + 8 * i, want, 8) == 0);
    }
    no_more();
    free(every);
}

/* Without memory for the elements of rows the worker is told so, or this rank serves no more, and
 * the rows stay. */
TEST(records_rows_without_memory)
{
    const int64_t ids[] = {3}, shape[] = {4, 2};
    const float values[] = {5, 6};
    own_store *s = open_store(form("dist_sync", false, false, -1));
    init_sparse(shape, ids, 1, values);
    int refused = 0, given_up = 0;
    for (bool again = true; again;) {
        pull(1, 0, 0, 22);
        mem_fail_at(-(refused + given_up + 1));
        alone_taker.settle();
        mem_fail_at(0);
        alone_send_all();
        again = nsent == nread || all[nread].r.kind == LINK_FAILED;
        if (again && nsent > nread) {
            memcpy(&e, next_to(1, LINK_FAILED, 22)->data, sizeof e);
            CHECK_INT(e.code, KV_E_MEMORY);
            refused++;
        } else if (again) {
            CHECK_INT(alone_cannot_serve, ++given_up);
        }
    }
    CHECK(refused > 0 && given_up > 0);
    const sent *x = next_to(1, LINK_VALUE, 22);
    CHECK_INT(x->r.bytes, BYTES);
    CHECK(memcmp(x->data + 24, values, sizeof values) == 0);
    settle();
}

/* ---- Large parts ---- */

TEST(records_a_part_larger_than_a_record)
{
    enum { LARGE = LINK_PAYLOAD / 4 * 2 + 5 };
    int64_t n = LARGE, at = 0;
    own_store *s = open_store(form("dist_sync", false, false, -1));
    own_array *a = init_flat(n, 0);
    const char *data = a->data;
    pull(1, 0, 0, 20);
    settle();
    while (at < 4 * n) {
        const sent *x = next_to(1, LINK_VALUE, 20);
        CHECK_INT(x->r.from, at);
        CHECK_INT(x->r.bytes, 4 * n - at < LINK_PAYLOAD ? 4 * n - at : LINK_PAYLOAD);
        CHECK(memcmp(x->data, data + at, x->r.bytes) == 0);
        at += x->r.bytes;
        CHECK_INT(x->r.flags, at == 4 * n ? LINK_LAST : 0);
    }
    no_more();
}

/* Parts of one request that are larger than a record: each begins at its own first byte. */
TEST(records_two_large_parts_of_a_request)
{
    enum { LARGE = LINK_PAYLOAD / 4 + 3 };
    own_store *s = open_store(form("dist_sync", false, false, -1));
    own_arrays *a[] = {init_flat(LARGE, 0), init_flat(LARGE + 8, 1), NULL};
    pull(1, 0, 0, 20);
    pull(1, 1, 0, 20);
    settle();
    for (int i = 0; i < 2; i++)
        for (int64_t at = 0, bytes = kv_array_bytes(a[i]); at < bytes;) {
            const sent *x = next_to(1, LINK_VALUE, 20);
            CHECK_INT(x->r.part, i);
            CHECK_INT(x->r.from, at);
            CHECK(memcmp(x->data, (const char *)a[i]->data + at, x->r.bytes) == 0);
            at += x->r.bytes;
            CHECK_INT(x->r.flags, at == bytes ? LINK_LAST : 0);
        }
    no_more();
}

enum { MANY = (1 << 20) + 8 * 1000 + 3, AT_ONCE = 1 << 18 };

/* Codes of all elements from both workers, in records of AT_ONCE of them. */
static void push_many_codes(const push_codes *how, const char *codes)
{
    OWN(test_free) char *data = malloc(LINK_PAYLOAD);
    for (int rank = 0; rank < WORKERS; rank++)
        for (int64_t at = 0; at < MANY; at += AT_ONCE) {
            int64_t n = MANY - at < AT_ONCE ? MANY - at : AT_ONCE;
            int64_t bytes = quantise_bytes((quantise_code)how->code, n);
            memcpy(data, how, sizeof *how);
            memcpy(data + sizeof *how, codes + at / 8 * how->code, (size_t)bytes);
            give(rank, codes_head(1, 11, at, n, at + n == MANY), data,
                 (int64_t)sizeof *how + bytes);
        }
}

TEST(records_codes_of_a_part_larger_than_a_record)
{
    static float x[MANY], residual[MANY], kept[MANY];
    static char codes[MANY], want[MANY], got[MANY];
    const push_codes how = {QUANTISE_2BIT, BACK_CODES, 0.5f};
    int64_t at = 0;
    own_store *s = open_store(form("dist_sync", false, false, -1));
    kv_array_unref(init_flat(MANY, 0));
    for (int i = 0; i < MANY; i++)
        x[i] = (float)(i % 7 % 3 - 1) * 0.5f;
    quantise_encode(codes, residual, x, QUANTISE_2BIT, 0.5f, MANY);
    for (int i = 0; i < MANY; i++)
        x[i] *= 2;
    quantise_encode(want, kept, x, QUANTISE_2BIT, 0.5f, MANY);
    push_many_codes(&how, codes);
    pull(1, 0, 1, 22);
    both_done(11, 11, 1);
    while (at < MANY) {
        const sent *y = next_to(1, LINK_VALUE, 22);
        int64_t n = y->r.n, bytes = quantise_bytes(QUANTISE_2BIT, n);
        CHECK_INT(y->r.from, at);
        CHECK_INT(y->r.bytes, (int64_t)sizeof how + bytes);
        CHECK(n > 0 && at + n <= MANY && memcmp(y->data, &how, sizeof how) == 0);
        memcpy(got + at / 8 * how.code, y->data + sizeof how, (size_t)bytes);
        at += n;
        CHECK_INT(y->r.flags, LINK_CODES | (at == MANY ? LINK_LAST : 0));
    }
    CHECK(memcmp(got, want, (size_t)quantise_bytes(QUANTISE_2BIT, MANY)) == 0);
}

/* ---- Changes ---- */

TEST(records_changes_behind_a_round)
{
    own_store *s = store_with_key(0);
    link_rec r = pull_head(0, 0, 12);
    r.flags |= LINK_CHANGES;
    r.from = -1;
    give(0, r, NULL, 0);
    settle();
    value(0, 12, 9, 0, 0);
    for (int turn = 1; turn <= 3; turn++) {
        float x[N] = {[3] = (float)turn};
        give(0, push_head(0, turn, 11), x, sizeof x);
        push(1, 0, turn, 21, 0, 0);
        r.round = turn;
        r.from = turn - 1;
        give(0, r, NULL, 0);
        both_done(11, 21, 1);
        const sent *got = next_to(0, LINK_VALUE, 12);
        CHECK_INT(got->r.flags, LINK_CHANGES | LINK_LAST);
        CHECK_INT(got->r.from, 0);
        CHECK_INT(got->r.n, N);
        CHECK_INT(got->r.round, turn);
        CHECK_INT(got->r.chunk, 9);
        CHECK(got->r.bytes < BYTES);
        CHECK_INT(s->copied, 0);
    }
    r.from = 99; /* a round that is not known */
    give(0, r, NULL, 0);
    settle();
    const float *got = (const float *)(const void *)next_to(0, LINK_VALUE, 12)->data;
    for (int i = 0; i < N; i++) /* all of them */
        CHECK_INT(got[i], i == 3 ? 3 : 0);
}

/* Adds 1 to each element from `first` on: rank 0 pushes 1, and rank 1 nothing. */
static void push_ones(int64_t turn, int64_t n, int64_t first)
{
    OWN(test_free) float *x = calloc((size_t)n, sizeof *x);
    for (int rank = 1; rank >= 0; rank--) {
        for (int64_t at = 0, m; at < n; at += m) {
            link_rec r = push_head(0, turn, 11);
            m = n - at < LINK_PAYLOAD / 4 ? n - at : LINK_PAYLOAD / 4;
            r.n = 4 * n;
            r.from = 4 * at;
            r.flags = at + m == n ? LINK_LAST : 0;
            for (int64_t i = 0; i < m; i++)
                x[i] = rank == 0 && at + i >= first;
            give(rank, r, x, 4 * m);
        }
    }
}

TEST(records_changes_larger_than_a_record)
{
    enum { LARGE = LINK_PAYLOAD / 4 * 2 + 5000, FIRST = 3000 };
    own_store *s = open_store(form("dist_sync", false, false, -1));
    set_rule("{ stored += input }");
    own_array *a = init_flat(LARGE, 0);
    OWN(test_free) float *now = malloc(4 * LARGE);
    changes_block b;
    memcpy(now, a->data, 4 * LARGE);
    link_rec r = pull_head(0, 0, 12);
    r.flags |= LINK_CHANGES;
    r.from = -1;
    give(1, r, NULL, 0);
    settle();
    nread = nsent; /* all of it */
    push_ones(1, LARGE, FIRST);
    r.round = 1;
    r.from = 0;
    give(1, r, NULL, 0);
    both_done(11, 11, 1);
    for (int64_t at = 0; at < LARGE;) {
        const sent *x = next_to(1, LINK_VALUE, 12);
        const char *from = x->data, *end = from + x->r.bytes;
        int64_t behind = at + x->r.n;
        CHECK_INT(x->r.from, at);
        CHECK(behind > at && behind <= LARGE);
        CHECK_INT(x->r.flags, LINK_CHANGES | (behind == LARGE ? LINK_LAST : 0));
        for (int64_t n; at < behind; at += n) {
            n = behind - at < CHANGES_BLOCK ? behind - at : CHANGES_BLOCK;
            CHECK((from = changes_decode(&b, from, end, 4, n)) != NULL);
            CHECK_INT(b.all, at >= FIRST);
            if (b.all)
                memcpy(now + at, b.elements, 4 * (size_t)n);
            else
                changes_scatter(now + at, b.elements, b.at, b.count, 4);
        }
        CHECK(from == end);
    }
    for (int i = 0; i < LARGE; i++)
        CHECK_INT(now[i], i + (i >= FIRST));
    no_more();
}
