/* Pushpulls and broadcasts of a rank alone, of the types that keep nothing: the first two parts of
 * a key are summed here, the third by rank 1. */
#include "requests.h"


/* Both ranks serve. The server of this one makes its store when both have asked for it. */
static kv *open_sums(void)
{
    kv *s = open_worker("horovod", 0);
    ask_store how = {.workers = WORKERS, .servers = WORKERS, .sums = true, .staleness = -1};
    strcpy(how.type, "horovod");
    for (int rank = 0; rank < WORKERS; rank++) {
        link_rec r = {.kind = LINK_CALL, .flags = LINK_LAST,
                      .request = link_call_number(1 + (uint64_t)rank),
                      .what = ASK_CREATE};
        give(rank, r, &how, sizeof how);
    }
    nread = nsent;
    return s;
}

static void end_sums(kv *s)
{
    link_rec r = {.kind = LINK_CALL, .flags = LINK_LAST, .what = ASK_FREE};
    end_worker(s);
    for (int rank = 0; rank < WORKERS; rank++) {
        r.request = link_call_number(90 + (uint64_t)rank);
        give(rank, r, NULL, 0);
    }
    settle();
}

/* Rank 1 brings all elements of a part that this rank sums: first + their numbers. */
static void add_of_1(int64_t key, int p, int64_t turn, double first)
{
    char data[ELEMENTS * 8];
    kv_dtype type = (kv_dtype)made[key].dtype;
    int64_t n = place_count(&made[key].place, p), each = kv_dtype_bytes(type);
    for (int64_t i = 0; i < n; i++)
        put_number(data, type, i, first + (double)(p * STEP + i));
    link_rec r = {.kind = LINK_ADD, .flags = LINK_LAST, .part = 100 * key + p, .request = 77};
    r.round = turn;
    r.chunk = 5;
    r.dtype = type;
    give(1, r, data, n * each);
}

/* What this rank has sent to rank 1, for the last part of a key. */
static const sent *see_add(int64_t key, int64_t turn, int flags)
{
    const place *p = &made[key].place;
    alone_send_all();
    while (nread < nsent && all[nread].r.kind != LINK_ADD)
        nread++; /* sums for rank 1 */
    const sent *x = next_sent(1, LINK_ADD);
    CHECK_INT(x->r.part, 100 * key + 2);
    CHECK_INT(x->r.round, turn);
    CHECK_INT(x->r.dtype, made[key].dtype);
    CHECK_INT(x->r.flags, LINK_LAST | flags);
    CHECK_INT(x->r.bytes, place_count(p, 2) * kv_dtype_bytes((kv_dtype)made[key].dtype));
    return x;
}

/* The sum of the last part, of rank 1. */
static void give_sum(const sent *x, double first, double each)
{
    char data[ELEMENTS * 8];
    int64_t key = x->r.part / 100;
    kv_dtype type = (kv_dtype)made[key].dtype;
    int64_t n = place_count(&made[key].place, 2), bytes = n * kv_dtype_bytes(type);
    for (int64_t i = 0; i < n; i++)
        put_number(data, type, i, first + each * (double)(2 * STEP + i));
    link_rec r = {.kind = LINK_VALUE, .flags = LINK_LAST, .part = x->r.part,
                  .request = x->r.request};
    r.chunk = x->r.chunk;
    give(1, r, data, bytes);
}

/* Element i is first + each * i. */
static void holds_line(kv_array *a, double first, double each)
{
    const void *data = array_elements(a);
    for (int64_t i = 0; i < elements; i++)
        CHECK_INT(number_at(data, kv_array_dtype(a), i) * 8, (first + each * (double)i) * 8);
}

/* ---- Sums ---- */

/* Into outs of two dtypes; the sum of one key is made of three values, and asked for twice. */
TEST(requests_add_up_over_ranks)
{
    kv *s = open_sums();
    kv_key keys[] = {key_of(3), key_of(1), key_of(3), key_of(3)};
    kv_key okeys[] = {key_of(3), key_of(1), key_of(1)};
    kv_array *values[] = {array_from(KV_FLOAT32, 1), array_from(KV_FLOAT32, 10),
                          array_from(KV_FLOAT32, 2), array_from(KV_FLOAT32, 3)};
    kv_array *outs[] = {array_from(KV_FLOAT32, -1), array_from(KV_FLOAT64, -1),
                        array_from(KV_FLOAT32, -1)};
    for (int turn = 1; turn <= 2; turn++) {
        CHECK_OK(kv_pushpull(s, keys, 4, values, okeys, 3, outs, &(kv_call){.priority = 6}, &e));
        CHECK_INT(kv_changes(s), turn);
        const sent *x = see_add(1, turn, 0), *y = see_add(3, turn, 0);
        CHECK_INT(x->r.priority, 7);
        CHECK_INT(x->r.request, y->r.request);
        CHECK_INT(x->r.chunk, 4);
        CHECK_INT(y->r.chunk, 5);
        CHECK_INT(number_at(x->data, KV_FLOAT32, 0), 10 + 2 * STEP);
        CHECK_INT(number_at(y->data, KV_FLOAT32, 0), 6 + 3 * 2 * STEP);
        for (int p = 0; p < 2; p++) {
            add_of_1(1, p, turn, 1000);
            add_of_1(3, p, turn, 5000);
        }
        settle();
        give_sum(x, 1010, 2);
        holds_line(outs[1], 1010, 2);
        holds_line(outs[2], 1010, 2);
        CHECK_INT(engine_pending(array_var(outs[0])), 1);
        give_sum(y, 5006, 4);
        holds_line(outs[0], 5006, 4);
        CHECK_OK(kv_wait(s, &e));
        settle();
        nread = nsent;
    }
    end_sums(s);
    for (int i = 0; i < 4; i++)
        kv_array_unref(values[i]);
    for (int i = 0; i < 3; i++)
        kv_array_unref(outs[i]);
}

/* In place, and with outs that are the values of other keys: each is read before it is written. */
TEST(requests_add_up_in_place)
{
    kv *s = open_sums();
    kv_key keys[] = {key_of(0), key_of(1)};
    own_array *a = array_from(KV_FLOAT32, 1), *b = array_from(KV_FLOAT32, 100);
    kv_array *values[] = {a, b}, *crossed[] = {b, a};
    CHECK_OK(kv_pushpull(s, keys, 2, values, NULL, 0, NULL, NULL, &e));
    const sent *x = see_add(0, 1, 0), *y = see_add(1, 1, 0);
    for (int p = 0; p < 2; p++) {
        add_of_1(0, p, 1, 0);
        add_of_1(1, p, 1, 0);
    }
    settle();
    give_sum(x, 1, 2);
    give_sum(y, 100, 2);
    holds_line(a, 1, 2);
    holds_line(b, 100, 2);
    CHECK_OK(kv_pushpull(s, keys, 2, values, keys, 2, crossed, NULL, &e));
    x = see_add(0, 2, 0), y = see_add(1, 2, 0);
    for (int p = 0; p < 2; p++)
        add_of_1(0, p, 2, 0);
    settle();
    give_sum(x, 1, 3);
    holds_line(b, 1, 3); /* it was the value of key 1, which has not come to the others yet */
    for (int p = 0; p < 2; p++)
        add_of_1(1, p, 2, 0);
    settle();
    CHECK_INT(number_at(y->data, KV_FLOAT32, 0), 100 + 2 * 2 * STEP);
    give_sum(y, 100, 3);
    holds_line(a, 100, 3);
    nread = nsent;
    end_sums(s);
}

/* The sums of keys 0 and 1 of a call come, that of `first` first. */
static void end_in_turn(int64_t turn, int64_t first, double each)
{
    const sent *x[2] = {see_add(0, turn, 0), see_add(1, turn, 0)};
    for (int i = 0; i < 2; i++) {
        int64_t key = i ? 1 - first : first;
        for (int p = 0; p < 2; p++)
            add_of_1(key, p, turn, 1000 * (double)(key + 1));
        settle();
        give_sum(x[key], 1000 * (double)(key + 1) + each, 2);
        settle();
    }
    nread = nsent;
}

/* An array under two keys holds the sum of the last, whichever comes first; in place it is the
 * value of both. */
TEST(requests_add_up_into_an_array_of_two_keys)
{
    kv *s = open_sums();
    kv_array *a = array_from(KV_FLOAT32, 5), *b = array_from(KV_FLOAT32, 5), *out = NULL;
    kv_array *values[] = {a, b};
    int64_t turn = 0;
    for (int64_t last = 0; last < 2; last++)
        for (int64_t first = 0; first < 2; first++) {
            kv_key keys[] = {key_of(1 - last), key_of(last)};
            out = array_from(KV_FLOAT32, 5);
            kv_array *both[] = {out, out};
            CHECK_OK(kv_pushpull(s, keys, 2, values, keys, 2, both, NULL, &e));
            end_in_turn(++turn, first, 5);
            holds_line(out, 1000 * (double)(last + 1) + 5, 2);
            kv_array_unref(out);
            out = array_from(KV_FLOAT32, 7);
            both[0] = both[1] = out;
            CHECK_OK(kv_pushpull(s, keys, 2, both, NULL, 0, NULL, NULL, &e));
            end_in_turn(++turn, first, 7);
            holds_line(out, 1000 * (double)(last + 1) + 7, 2);
            CHECK_OK(kv_wait(s, &e));
            kv_array_unref(out);
        }
    kv_key keys[] = {key_of(0), key_of(1)};
    kv_array *both[] = {a, a};
    CHECK_INT(kv_pushpull(s, &keys[1], 1, &b, keys, 2, both, NULL, &e), KV_E_KEY);
    CHECK_INT(e.key_id, 0); /* also where its out is overwritten */
    end_sums(s);
    kv_array_unref(a);
    kv_array_unref(b);
}

/* A value that is still to come is not waited for by the call, unless another key's out is it. */
TEST(requests_add_up_what_is_on_its_way)
{
    kv *s = open_sums();
    kv_key keys[] = {key_of(0), key_of(1)};
    own_array *a = array_from(KV_FLOAT32, 1), *b = array_from(KV_FLOAT32, 0),
             *c = array_from(KV_FLOAT32, 0);
    CHECK_OK(kv_pushpull(s, keys, 1, &a, keys, 1, &b, NULL, &e));
    CHECK_OK(kv_pushpull(s, &keys[1], 1, &b, &keys[1], 1, &c, NULL, &e));
    const sent *x = see_add(0, 1, 0);
    for (int p = 0; p < 2; p++)
        add_of_1(0, p, 1, 0);
    settle();
    CHECK_INT(engine_pending(array_var(c)), 1);
    give_sum(x, 1, 2);
    settle();
    const sent *y = see_add(1, 1, 0);
    CHECK_INT(number_at(y->data, KV_FLOAT32, 0), 1 + 2 * 2 * STEP);
    for (int p = 0; p < 2; p++)
        add_of_1(1, p, 1, 0);
    settle();
    give_sum(y, 1, 3);
    holds_line(c, 1, 3);
    nread = nsent;
    end_sums(s);
}

/* The largest priorities stay as they are. */
TEST(requests_add_with_the_largest_priority)
{
    static const int32_t given[] = {INT32_MAX, INT32_MAX - 1, INT32_MAX - 2, INT32_MAX - 3, -1};
    static const int32_t want[] = {INT32_MAX, INT32_MAX - 1, INT32_MAX - 2, INT32_MAX - 2, 0};
    kv *s = open_sums();
    kv_key key = key_of(0);
    own_array *a = array_from(KV_FLOAT32, 0);
    for (int i = 0; i < 5; i++) {
        CHECK_OK(kv_pushpull(s, &key, 1, &a, NULL, 0, NULL, &(kv_call){.priority = given[i]}, &e));
        const sent *x = see_add(0, i + 1, 0);
        CHECK_INT(x->r.priority, want[i]);
        for (int p = 0; p < 2; p++)
            add_of_1(0, p, i + 1, 0);
        settle();
        give_sum(x, 0, 1);
        CHECK_OK(kv_wait(s, &e));
    }
    nread = nsent;
    end_sums(s);
}

/* Rank 0 sends its value, and gets it back; what rank 1 sends has no elements. */
TEST(requests_broadcast)
{
    kv *s = open_sums();
    kv_key key = key_of(2);
    own_array *a = array_from(KV_FLOAT64, 4), *out = array_from(KV_FLOAT32, 0);
    CHECK_OK(kv_broadcast(s, &key, 1, &a, &key, 1, &out, NULL, &e));
    const sent *x = see_add(2, 1, LINK_BROADCAST);
    CHECK_INT(number_at(x->data, KV_FLOAT64, 1), 4 + 2 * STEP + 1);
    for (int p = 0; p < 2; p++) {
        link_rec r = {.kind = LINK_ADD, .flags = LINK_LAST | LINK_BROADCAST, .part = 200 + p,
                      .request = 77};
        r.round = 1;
        r.dtype = KV_FLOAT64;
        give(1, r, NULL, 0);
    }
    settle();
    give_sum(x, 4, 1);
    holds(out, 4);
    nread = nsent;
    end_sums(s);
}

/* ---- Errors ---- */

TEST(requests_add_up_says_what_is_wrong)
{
    kv *s = open_sums();
    kv_key keys[] = {key_of(0), key_of(1), key_of(1)};
    own_array *a = array_from(KV_FLOAT32, 1), *b = array_from(KV_FLOAT32, 1),
             *other = array_from(KV_FLOAT64, 1), *bad = NULL, *rows = NULL;
    CHECK_OK(kv_array_new(&bad, KV_FLOAT32, 1, (int64_t[]){41}, (kv_ctx){0}, &e));
    CHECK_OK(kv_array_new_sparse(&rows, KV_FLOAT32, 2, (int64_t[]){10, 4}, 0, NULL, (kv_ctx){0},
                                 &e));
    CHECK_CODE(kv_pushpull(s, keys, 1, &a, &keys[1], 1, &b, NULL, &e), KV_E_KEY);
    CHECK_OK(kv_pushpull(s, &keys[1], 1, &a, &keys[1], 1, &b, NULL, &e));
    const sent *x = see_add(1, 1, 0);
    for (int p = 0; p < 2; p++)
        add_of_1(1, p, 1, 0);
    settle();
    give_sum(x, 1, 2);
    CHECK_OK(kv_wait(s, &e));
    nread = nsent;
    /* the key is known now, and still no value of this call has it */
    CHECK_CODE(kv_pushpull(s, keys, 1, &a, &keys[1], 1, &b, NULL, &e), KV_E_KEY);
    CHECK_ERR(kv_pushpull(s, keys, 1, &a, keys, 2, (kv_array *[]){b, b}, NULL, &e), KV_E_KEY,
              "no value of the call has key 1");
    CHECK_CODE(kv_pushpull(s, &keys[1], 1, &bad, &keys[1], 1, &b, NULL, &e), KV_E_SHAPE);
    CHECK_CODE(kv_pushpull(s, &keys[1], 1, &a, &keys[1], 1, &bad, NULL, &e), KV_E_SHAPE);
    CHECK_CODE(kv_pushpull(s, keys, 2, (kv_array *[]){a, bad}, keys, 1, &b, NULL, &e), KV_E_SHAPE);
    CHECK_ERR(kv_pushpull(s, &keys[1], 1, &other, &keys[1], 1, &b, NULL, &e), KV_E_DTYPE,
              "the ranks add up the key as float32, this value is float64");
    CHECK_CODE(kv_pushpull(s, &keys[1], 1, &rows, &keys[1], 1, &b, NULL, &e), KV_E_UNSUPPORTED);
    CHECK_ERR(kv_pushpull(s, &keys[1], 1, &a, &keys[1], 1, &rows, NULL, &e), KV_E_UNSUPPORTED,
              "the type \"horovod\" takes no row_sparse arrays");
    CHECK_ERR(kv_broadcast(s, &keys[1], 2, (kv_array *[]){a, b}, keys, 0, NULL, NULL, &e),
              KV_E_KEY, "a key stands twice in the call");
    alone_send_all();
    no_more();
    end_sums(s);
}

/* Both keys in one call, of which one has two values. */
static int add_both(kv *s, kv_array *const *values, kv_array *const *outs, kv_err *e)
{
    const kv_key keys[] = {key_of(0), key_of(1), key_of(1)};
    return kv_pushpull(s, keys, 3, values, keys, 2, outs, NULL, e);
}

/* Rank 1 brings its part to both, and gives the sums. */
static void end_both(int64_t turn)
{
    const sent *x = see_add(0, turn, 0), *y = see_add(1, turn, 0);
    for (int p = 0; p < 2; p++) {
        add_of_1(0, p, turn, 0);
        add_of_1(1, p, turn, 0);
    }
    settle();
    give_sum(x, 1, 2);
    give_sum(y, 2, 3);
    forget_sent();
}

/* Each allocation of a call fails, alone or with all behind it: the call takes part in no turn. */
TEST(requests_add_up_without_memory)
{
    kv *s = open_sums();
    int64_t turn = 0;
    kv_array *a = array_from(KV_FLOAT32, 1), *b = array_from(KV_FLOAT32, 1);
    CHECK_OK(add_both(s, (kv_array *[]){a, b, a}, (kv_array *[]){a, b}, &e)); /* makes the keys */
    end_both(++turn);
    CHECK_OK(kv_wait(s, &e));
    kv_array_unref(a);
    kv_array_unref(b);
    for (int sign = 1; sign >= -1; sign -= 2)
        for (int64_t n = 1;; n++) {
            kv_array *values[] = {array_from(KV_FLOAT32, 1), array_from(KV_FLOAT32, 1),
                                  array_from(KV_FLOAT32, 1)};
            kv_array *outs[] = {array_from(KV_FLOAT32, 1), values[1]};
            mem_fail_at(sign * n);
            int rc = add_both(s, values, outs, &e);
            int64_t many = mem_fail_at(0);
            if (!rc) {
                end_both(++turn);
                holds_line(outs[0], 1, 2);
                holds_line(outs[1], 2, 3);
                CHECK_OK(kv_wait(s, &e));
            }
            CHECK(rc == KV_OK || (e.code == KV_E_MEMORY && many >= n));
            CHECK_INT(alone_cannot_serve, 0);
            e = (kv_err){0};
            for (int i = 0; i < 3; i++)
                kv_array_unref(values[i]);
            kv_array_unref(outs[0]);
            if (many < n)
                break;
        }
    CHECK_INT(turn, 3);
    end_sums(s);
}

/* The other ranks wait for the turn of one that has no memory to take part in it. */
TEST(requests_add_up_with_no_memory_for_a_turn)
{
    kv *s = open_sums();
    kv_key key = key_of(0);
    own_array *v = array_from(KV_FLOAT32, 1), *out = array_from(KV_FLOAT32, 1);
    CHECK_OK(kv_pushpull(s, &key, 1, &v, &key, 1, &out, NULL, &e));
    mem_fail_at(1);
    alone_send_all();
    mem_fail_at(0);
    CHECK_INT(alone_cannot_serve, 2); /* for each of its parts */
    give_sum(see_add(0, 1, 0), 1, 2);
    CHECK_INT(kv_wait(s, &e), KV_E_MEMORY);
    CHECK_INT(e.key_id, 0);
    CHECK(e.has_key && out->unfilled);
    end_sums(s);
}
