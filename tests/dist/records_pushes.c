/* Pushes of a worker alone: what is in their records, and how they end. */
#include "requests.h"

#include "cpu/cpu.h"
#include "distributed/worker.h"
#include "vm/rule.h"

/* ---- Elements ---- */

/* The records of a push of some keys, and their elements, which begin with `first` behind a host
 * side of so many bytes. */
static const sent *see_push(const int64_t *ids, int n, int64_t turn, double first, int64_t prefix)
{
    const sent *x = request_of(LINK_PUSH, ids, n), *p = x;
    for (int server = 0; server < SERVERS; server++)
        for (int i = 0; i < n; i++)
            for (int j = 0; j < PARTS; j++) {
                if (rank_of[j] != server)
                    continue;
                int64_t count = place_count(&made[ids[i]].place, j);
                int64_t each = kv_dtype_bytes((kv_dtype)made[ids[i]].dtype);
                CHECK_INT(p->r.round, turn);
                CHECK_INT(p->r.from, 0);
                CHECK_INT(p->r.n, count * each);
                CHECK_INT(p->r.bytes, prefix + count * each);
                CHECK_INT(p->r.flags, LINK_LAST | (prefix ? LINK_HOST : 0));
                for (int64_t k = 0; k < count; k++)
                    CHECK_INT(number_at(p->data + prefix, (kv_dtype)made[ids[i]].dtype, k) * 8,
                              (first + (double)(j * STEP + k)) * 8);
                p++;
            }
    return x;
}

TEST(requests_push_parts)
{
    own_worker *s = worker_with_keys(3);
    own_array *a = array_from(KV_FLOAT32, 10), *b = array_from(KV_FLOAT64, -3);
    kv_key keys[] = {key_of(2), key_of(1)};
    for (int n = 1; n <= 2; n++) {
        CHECK_OK(kv_push(s, keys, 1, &a, &(kv_call){.priority = 5}, &e));
        const sent *x = see_push((int64_t[]){2}, 1, n, 10, 0);
        CHECK_INT(alone_priority, 5);
        CHECK_INT(x->r.pulls, 0);
        CHECK_INT(kv_changes(s), 3 + n); /* three inits */
        give_done(x->r.request, n);
        give_done(x->r.request, PARTS - n);
        CHECK_OK(kv_wait(s, &e));
        give_done(x->r.request, 1); /* it has ended */
    }
    CHECK_OK(kv_push(s, &keys[1], 1, &b, NULL, &e)); /* converted */
    const sent *x = see_push((int64_t[]){1}, 1, 1, -3, 0);
    give_done(x->r.request, PARTS);
}

/* A push says how many pulls of its key came before, and a pull how many pushes. */
TEST(requests_count_pushes_and_pulls)
{
    own_worker *s = open_worker("dist_sync", SERVERS);
    kv_key key = key_of(1);
    init_keys(s, 2);
    own_array *v = array_from(KV_FLOAT32, 0), *out = array_from(KV_FLOAT32, 0);
    for (int n = 1; n <= 3; n++) {
        CHECK_OK(kv_push(s, &key, 1, &v, NULL, &e));
        const sent *x = see_push((int64_t[]){1}, 1, n, 0, 0);
        CHECK_INT(x->r.pulls, n - 1);
        give_done(x->r.request, PARTS);
        CHECK_OK(kv_pull(s, &key, 1, &out, NULL, &e));
        x = request_of(LINK_PULL, (int64_t[]){1}, 1);
        for (int i = 0; i < PARTS; i++) {
            CHECK_INT(x[i].r.round, n);
            give_part(&x[i].r, 0);
        }
    }
}

/* A value may be written as soon as it is sent, whether the push has ended or not. */
TEST(requests_free_a_value_when_it_is_sent)
{
    own_worker *s = open_worker("dist_sync", SERVERS);
    kv_key key = key_of(1);
    init_keys(s, 2);
    own_array *v = array_from(KV_FLOAT32, 0);
    CHECK_OK(kv_push(s, &key, 1, &v, NULL, &e));
    CHECK_INT(engine_pending(array_var(v)), 1);
    const sent *x = see_push((int64_t[]){1}, 1, 1, 0, 0);
    CHECK_INT(engine_pending(array_var(v)), 0);
    array_data(v);
    give_done(x->r.request, PARTS);
}

TEST(requests_free_a_value_of_one_part_when_it_is_sent)
{
    own_worker *s = open_worker("dist_sync", SERVERS);
    kv_key key = key_of(1);
    elements = STEP;
    init_keys(s, 2);
    own_array *v = array_from(KV_FLOAT32, 0);
    CHECK_OK(kv_push(s, &key, 1, &v, NULL, &e));
    const sent *x = next_sent(server_of(2), LINK_PUSH);
    CHECK_INT(engine_pending(array_var(v)), 0);
    give_done(x->r.request, 1);
}

/* A push begins while no more bytes are on their way than may be, a pull in any case. */
TEST(requests_push_as_far_ahead_as_they_may)
{
    setenv("KVSTORE_AHEAD", "320", 1); /* two keys */
    own_worker *s = open_worker("dist_sync", SERVERS);
    kv_key keys[] = {key_of(0), key_of(1), key_of(2)};
    init_keys(s, 3);
    own_array *v = array_from(KV_FLOAT32, 1), *out = array_from(KV_FLOAT32, 0);
    for (int i = 0; i < 2; i++)
        CHECK_OK(kv_push(s, &keys[i], 1, &v, NULL, &e));
    CHECK_OK(kv_pull(s, &keys[2], 1, &out, NULL, &e));
    const sent *x = see_push((int64_t[]){0}, 1, 1, 1, 0);
    give_done(x->r.request, PARTS);
    x = see_push((int64_t[]){1}, 1, 1, 1, 0);
    give_done(x->r.request, PARTS);
    x = request_of(LINK_PULL, (int64_t[]){2}, 1);
    for (int i = 0; i < PARTS; i++)
        give_part(&x[i].r, 6);
    holds(out, 6);
    for (int i = 0; i < 2; i++) /* the bytes of those that have ended do not count */
        CHECK_OK(kv_push(s, &keys[i], 1, &v, NULL, &e));
    for (int i = 0; i < 2; i++) {
        x = see_push((int64_t[]){i}, 1, 2, 1, 0);
        give_done(x->r.request, PARTS);
    }
}

/* Records carry LINK_PAYLOAD bytes at most. */
TEST(requests_push_large_parts)
{
    enum { IN_ONE = LINK_PAYLOAD / 4 };
    own_worker *s = open_worker("dist_sync", SERVERS);
    kv_key key = key_of(0);
    elements = step = 2 * IN_ONE + 100;
    init_keys(s, 1);
    own_array *v = array_from(KV_FLOAT32, 1);
    CHECK_OK(kv_push(s, &key, 1, &v, NULL, &e));
    for (int i = 0; i < 3; i++) {
        const sent *x = next_sent(server_of(2), LINK_PUSH);
        CHECK_INT(x->r.from, i * LINK_PAYLOAD);
        CHECK_INT(x->r.n, elements * 4);
        CHECK_INT(x->r.bytes, i < 2 ? LINK_PAYLOAD : 400);
        CHECK_INT(x->r.flags, i < 2 ? 0 : LINK_LAST);
        for (int64_t j = 0; j < x->r.bytes / 4; j += 33)
            CHECK_INT(((const float *)(const void *)x->data)[j], 1 + i * IN_ONE + j);
    }
    give_done(all[0].r.request, 1);
}

/* Several values of a key are summed before they are sent. */
TEST(requests_push_sums_of_values)
{
    kv *s = worker_with_keys(3);
    kv_key keys[] = {key_of(2), key_of(1), key_of(2), key_of(0), key_of(2)};
    own_arrays *values[6] = {NULL};
    for (int i = 0; i < 5; i++)
        values[i] = array_from(i == 3 ? KV_INT32 : KV_FLOAT32, 100 * (i + 1));
    for (int n = 1; n <= 2; n++) {
        CHECK_OK(kv_push(s, keys, 5, values, NULL, &e));
        const sent *x = request_of(LINK_PUSH, (int64_t[]){0, 1, 2}, 3);
        for (int i = 0; i < 3 * PARTS; i++) {
            int key = (int)(x[i].r.part / 100), p = (int)(x[i].r.part % 100);
            int many = key == 2 ? 3 : 1, first = key == 2 ? 900 : key == 1 ? 200 : 400;
            CHECK_INT(x[i].r.round, n);
            for (int64_t j = 0; j < place_count(&made[key].place, p); j++)
                CHECK_INT(number_at(x[i].data, KV_FLOAT32, j), first + many * (p * STEP + j));
        }
        give_done(x->r.request, 3 * PARTS);
        CHECK_OK(kv_wait(s, &e));
    }
    end_worker(s);
}

/* In place of that of the C library, for the whole program: it does not keep the order of equals,
 * as few do that have much to sort. */
void qsort(void *base, size_t n, size_t size, int (*compare)(const void *a, const void *b))
{
    char *x = base, *one = malloc(size + 1), *sorted = malloc(n * size + 1);
    CHECK(one && sorted);
    for (size_t i = 0; i < n; i++) { /* the last one first */
        size_t at = 0;
        memcpy(one, x + (n - 1 - i) * size, size);
        while (at < i && compare(sorted + at * size, one) <= 0)
            at++;
        memmove(sorted + (at + 1) * size, sorted + at * size, (i - at) * size);
        memcpy(sorted + at * size, one, size);
    }
    memcpy(x, sorted, n * size);
    free(one);
    free(sorted);
}

/* From left to right: the sum of 1e8, -1e8 and 1 is 1, and in another order 0. */
TEST(requests_sum_values_in_the_order_of_the_call)
{
    kv *s = worker_with_keys(2);
    kv_key keys[] = {key_of(1), key_of(1), key_of(0), key_of(1)};
    own_arrays *values[5] = {NULL};
    for (int i = 0; i < 4; i++) {
        void *data;
        values[i] = array_from(KV_FLOAT32, 0);
        CHECK_OK(kv_array_write(values[i], &data, &e));
        for (int j = 0; j < ELEMENTS; j++)
            ((float *)data)[j] = i == 0 ? 1e8f : i == 1 ? -1e8f : 1;
    }
    CHECK_OK(kv_push(s, keys, 4, values, NULL, &e));
    const sent *x = request_of(LINK_PUSH, (int64_t[]){0, 1}, 2);
    for (int i = 0; i < 2 * PARTS; i++)
        CHECK_INT(number_at(x[i].data, KV_FLOAT32, 0), 1);
    give_done(x->r.request, 2 * PARTS);
    end_worker(s);
}

/* ---- Ends ---- */

/* Ends that no server tells: of fewer pushes than none, or of more than are under way. */
TEST(requests_refuse_ends_of_other_pushes)
{
    static const int64_t bad[] = {-1, PARTS + 1, INT64_MAX, INT64_MIN};
    own_worker *s = open_worker("dist_sync", SERVERS);
    kv_key key = key_of(1);
    init_keys(s, 2);
    own_array *v = array_from(KV_FLOAT32, 0);
    for (int i = 0; i < 4; i++) {
        CHECK_OK(kv_push(s, &key, 1, &v, NULL, &e));
        const sent *x = see_push((int64_t[]){1}, 1, i + 1, 0, 0);
        give_done(x->r.request, bad[i]);
        CHECK_ERR(kv_wait(s, &e), KV_E_INTERNAL, "a record of another rank is malformed");
    }
    CHECK_OK(kv_push(s, &key, 1, &v, NULL, &e));
    const sent *x = see_push((int64_t[]){1}, 1, 5, 0, 0);
    link_rec r = {.kind = LINK_VALUE, .flags = LINK_LAST, .request = x->r.request};
    give(server_of(0), r, NULL, 0); /* a push waits for no value */
    give_done(x->r.request, 0);
    CHECK(s->calls.group.pending > 0);
    give_failed(x->r.request, "one failed");
    give_failed(x->r.request, "and another");
    CHECK(s->calls.group.pending > 0);
    give_done(x->r.request, 1);
    CHECK_INT(kv_wait(s, &e), KV_E_VALUE);
    CHECK_TEXT(e.text, "one failed");
    CHECK_INT(e.key_id, 1);
}

/* Whoever fails says why, and nothing else is changed. */
TEST(requests_push_says_what_is_wrong)
{
    own_worker *s = open_worker("dist_sync", SERVERS);
    kv_key keys[] = {key_of(0), key_of(1)};
    init_keys(s, 2);
    own_array *v = array_from(KV_FLOAT32, 0), *bad = NULL;
    CHECK_OK(kv_array_new(&bad, KV_FLOAT32, 1, (int64_t[]){41}, (kv_ctx){0}, &e));
    CHECK_ERR(kv_push(s, keys, 2, (kv_array *[]){v, bad}, NULL, &e), KV_E_SHAPE,
              "key 1 holds (40,), this value has shape (41,)");
    no_more();
    CHECK_OK(kv_done(s, &e));
    CHECK_ERR(kv_push(s, keys, 1, &v, NULL, &e), KV_E_VALUE,
              "this worker is done: it pushes no more");
    no_more();
}

TEST(requests_push_needs_an_optimizer)
{
    own_worker *s = open_worker("dist_async", SERVERS);
    kv_key key = key_of(0);
    init_keys(s, 1);
    own_array *v = array_from(KV_FLOAT32, 0);
    CHECK_INT(kv_push(s, &key, 1, &v, NULL, &e), KV_E_VALUE);
    CHECK_TEXT(e.text, "a push to a store of type \"dist_async\" needs an optimizer");
    CHECK_TEXT(e.hint, "kv_set_optimizer sets one");
}

/* A push makes its key where there is no updater, and not where there is one. */
TEST(requests_push_makes_keys)
{
    own_worker *s = open_worker("dist_sync", SERVERS);
    kv_key keys[] = {key_of(0), key_of(1)};
    own_array *v = array_from(KV_FLOAT32, 8);
    CHECK_OK(kv_push(s, keys, 1, &v, NULL, &e));
    const sent *x = see_push((int64_t[]){0}, 1, 1, 8, 0);
    give_done(x->r.request, PARTS);
    CHECK_OK(kv_wait(s, &e));
    CHECK_OK(kv_set_optimizer(s, "test", NULL, 0, &e));
    CHECK_ERR(kv_push(s, &keys[1], 1, &v, NULL, &e), KV_E_KEY, "key 1 was never initialised");
}

/* ---- The host side of updates ---- */

/* nadam keeps a number of its own beside two arrays. */
TEST(requests_push_the_host_side)
{
    enum { STATES = 3 };
    kv *s = worker_with_keys(2);
    CHECK_OK(kv_set_optimizer(s, "nadam", NULL, 0, &e));
    own_arrays *values[] = {array_from(KV_FLOAT32, 1), array_from(KV_FLOAT32, 2), NULL};
    kv_key keys[] = {key_of(0), key_of(1)};
    optimizer *o = s->updater.optimizer;
    int64_t n = o->nstates, bytes = (int64_t)(sizeof(rule_given) + sizeof n) +
                                    n * (int64_t)sizeof(host);
    double last = 2;
    for (int t = 1; t <= 3; t++) {
        CHECK_OK(kv_push(s, keys, 2, values, NULL, &e));
        const sent *x = request_of(LINK_PUSH, (int64_t[]){0, 1}, 2);
        double now = 0;
        for (int i = 0; i < 2 * PARTS; i++) {
            rule_given g;
            int64_t states;
            host numbers[PLAN_MAX_STATES];
            const char *at = x[i].data;
            int64_t p = x[i].r.part % 100;
            int64_t count = place_count(&made[0].place, (int32_t)p);
            memcpy(&g, at, sizeof g);
            memcpy(&states, at + sizeof g, sizeof states);
            CHECK_INT(states, n);
            memcpy(numbers, at + sizeof g + sizeof n, (size_t)n * sizeof *numbers);
            CHECK_INT(g.key.id, x[i].r.part / 100);
            CHECK_INT(g.t, t);
            CHECK_INT(x[i].r.flags, LINK_LAST | LINK_HOST);
            CHECK_INT(x[i].r.bytes, bytes + count * 4);
            for (int64_t j = 0; j < count; j++)
                CHECK_INT(number_at(at + bytes, KV_FLOAT32, j),
                          1 + x[i].r.part / 100 + p * STEP + j);
            for (int64_t j = 0; j < n; j++) {
                CHECK(numbers[j].kind == HOST_NONE || numbers[j].kind == HOST_FLOAT);
                now = numbers[j].kind == HOST_FLOAT ? numbers[j].u.number : now;
            }
        }
        CHECK(now > 0 && now < last); /* the product of the schedule falls */
        last = now;
        give_done(x->r.request, 2 * PARTS);
        CHECK_OK(kv_wait(s, &e));
    }
    end_worker(s);
}

/* ---- Codes ---- */

static void compress(kv *s, const char *type, bool pulls)
{
    const kv_opt how[] = {{"type", type}, {"threshold", "0.5"}, {"pull", "true"}};
    CHECK_OK(kv_set_gradient_compression(s, how, pulls ? 3 : 2, &e));
}

/* Pushes a value with the element i % 9 * 0.3 - 1, as codes of parts. */
static void push_coded(kv *s, quantise_code code, int back)
{
    static float left[ELEMENTS];
    char codes[64];
    kv_key key = key_of(0);
    own_array *v = array_from(KV_FLOAT32, 0);
    void *data = array_data(v);
    for (int i = 0; i < ELEMENTS; i++)
        put_number(data, KV_FLOAT32, i, (float)(i % 9) * 0.3f - 1);
    quantise_encode(codes, left, data, code, 0.5f, ELEMENTS);
    CHECK_OK(kv_push(s, &key, 1, &v, NULL, &e));
    const sent *x = request_of(LINK_PUSH, (int64_t[]){0}, 1);
    for (int i = 0; i < PARTS; i++) {
        push_codes head;
        int64_t count = place_count(&made[0].place, i), bytes = quantise_bytes(code, count);
        CHECK_INT(x[i].r.bytes, (int64_t)sizeof head + bytes);
        CHECK_INT(x[i].r.flags, LINK_LAST | LINK_CODES);
        CHECK_INT(x[i].r.from, 0);
        memcpy(&head, x[i].data, sizeof head);
        CHECK_INT(head.code, code);
        CHECK_INT(head.back, back);
        CHECK_INT(head.threshold * 8, 4);
        int64_t from = i * STEP * (int64_t)code / 8, some = count * (int64_t)code / 8;
        CHECK(memcmp(x[i].data + sizeof head, codes + from, (size_t)some) == 0);
    }
    give_done(x->r.request, PARTS);
    CHECK_OK(kv_wait(s, &e));
}

TEST(requests_push_codes)
{
    own_worker *s = open_worker("dist_sync", SERVERS);
    compress(s, "2bit", false);
    init_keys(s, 1);
    for (int i = 0; i < 3; i++)
        push_coded(s, QUANTISE_2BIT, BACK_NUMBERS);
}

TEST(requests_push_codes_of_1bit)
{
    own_worker *s = open_worker("dist_sync", SERVERS);
    compress(s, "1bit", false);
    init_keys(s, 1);
    push_coded(s, QUANTISE_1BIT, BACK_NUMBERS);
    push_coded(s, QUANTISE_1BIT, BACK_NUMBERS);
}

/* The server is told when its residual begins as well. */
TEST(requests_push_codes_for_coded_pulls)
{
    own_worker *s = open_worker("dist_sync", SERVERS);
    compress(s, "2bit", true);
    init_keys(s, 1);
    push_coded(s, QUANTISE_2BIT, BACK_ANEW);
    push_coded(s, QUANTISE_2BIT, BACK_CODES);
    push_coded(s, QUANTISE_2BIT, BACK_CODES);
}

/* Codes of half a million elements in one record. */
TEST(requests_push_codes_of_large_parts)
{
    enum { AT_ONCE = 1 << 19, MORE = 320 };
    own_worker *s = open_worker("dist_sync", SERVERS);
    kv_key key = key_of(0);
    compress(s, "2bit", false);
    elements = step = AT_ONCE + MORE;
    init_keys(s, 1);
    own_array *v = array_from(KV_FLOAT32, -AT_ONCE - 3);
    CHECK_OK(kv_push(s, &key, 1, &v, NULL, &e));
    for (int i = 0; i < 2; i++) {
        const sent *x = next_sent(server_of(2), LINK_PUSH);
        int64_t bytes = (i ? MORE : AT_ONCE) / 4;
        CHECK_INT(x->r.from, i * AT_ONCE);
        CHECK_INT(x->r.bytes, (int64_t)sizeof(push_codes) + bytes);
        CHECK_INT(x->r.flags, LINK_CODES | (i ? LINK_LAST : 0));
        /* all elements but those from the fourth behind AT_ONCE on are negative */
        float some[MORE];
        quantise_decode(some, x->data + sizeof(push_codes), QUANTISE_2BIT, 0.5f, MORE);
        for (int j = 0; j < MORE; j++)
            CHECK_INT(some[j] * 8, i == 0 || j < 3 ? -4 : j == 3 ? 0 : 4);
    }
    give_done(all[0].r.request, 1);
}

/* ---- Rows ---- */

enum { ROW = 4 };

static kv_array *rows_of(int64_t n, const int64_t *ids, float first)
{
    void *data;
    kv_array *a = MADE(kv_array, kv_array_new_sparse, KV_FLOAT32, 2,
                       (int64_t[]){ELEMENTS / ROW, ROW}, n, ids, (kv_ctx){0});
    CHECK_OK(kv_array_write_rows(a, &data, &e));
    for (int64_t i = 0; i < n * ROW; i++)
        ((float *)data)[i] = first + (float)i;
    return a;
}

/* Rows 0 to 3 are in the first part, 4 to 7 in the second, the others in the last. Every part gets
 * a list. */
TEST(requests_push_rows_to_their_parts)
{
    kv *s = open_worker("dist_sync", SERVERS);
    kv_key keys[] = {key_of(0), key_of(1)};
    row = ROW;
    storage = KV_ROW_SPARSE;
    init_keys(s, 2);
    kv_array *values[] = {rows_of(3, (int64_t[]){0, 3, 9}, 5), rows_of(1, (int64_t[]){8}, 1)};
    CHECK_OK(kv_push(s, keys, 2, values, NULL, &e));
    const sent *x = request_of(LINK_PUSH, (int64_t[]){0, 1}, 2);
    for (int i = 0; i < 2 * PARTS; i++) {
        static const int64_t counts[2][PARTS] = {{2, 0, 1}, {0, 0, 1}};
        static const int64_t firsts[2][PARTS] = {{5, 0, 13}, {0, 0, 1}};
        int64_t key = x[i].r.part / 100, p = x[i].r.part % 100, n;
        memcpy(&n, x[i].data, sizeof n);
        CHECK_INT(n, counts[key][p]);
        CHECK_INT(x[i].r.flags, LINK_LAST | LINK_SPARSE);
        CHECK_INT(x[i].r.n, x[i].r.bytes);
        CHECK_INT(x[i].r.bytes, 8 + n * (8 + ROW * 4));
        for (int64_t j = 0; j < n * ROW; j++)
            CHECK_INT(number_at(x[i].data + 8 + n * 8, KV_FLOAT32, j), firsts[key][p] + j);
    }
    give_done(x->r.request, 2 * PARTS);
    end_worker(s);
    kv_array_unref(values[0]);
    kv_array_unref(values[1]);
}

static int64_t on_their_way(const kv *s)
{
    return __atomic_load_n(&((const worker *)s->self)->pushing, __ATOMIC_ACQUIRE);
}

/* What a push takes counts until it has ended: the elements that are sent as they are or summed,
 * and of rows their records. */
TEST(requests_count_the_bytes_on_their_way)
{
    kv *s = open_worker("dist_sync", SERVERS);
    kv_key keys[] = {key_of(0), key_of(1), key_of(1)};
    init_keys(s, 2);
    kv_array *v = array_from(KV_FLOAT32, 1), *twice[] = {v, v};
    CHECK_OK(kv_push(s, keys, 1, &v, NULL, &e));
    CHECK_INT(on_their_way(s), ELEMENTS * 4);
    CHECK_OK(kv_push(s, keys + 1, 2, twice, NULL, &e));
    CHECK_INT(on_their_way(s), 2 * ELEMENTS * 4);
    for (int i = 0; i < 2; i++)
        give_done(request_of(LINK_PUSH, (int64_t[]){i}, 1)->r.request, PARTS);
    CHECK_OK(kv_wait(s, &e));
    CHECK_INT(on_their_way(s), 0);
    end_worker(s);
    kv_array_unref(v);
}

TEST(requests_count_the_bytes_of_rows_on_their_way)
{
    own_worker *s = open_worker("dist_sync", SERVERS);
    kv_key key = key_of(0);
    row = ROW;
    storage = KV_ROW_SPARSE;
    init_keys(s, 1);
    own_array *v = rows_of(3, (int64_t[]){0, 3, 9}, 5);
    CHECK_OK(kv_push(s, &key, 1, &v, NULL, &e));
    const sent *x = request_of(LINK_PUSH, (int64_t[]){0}, 1);
    CHECK_INT(on_their_way(s), PARTS * 8 + 3 * (8 + ROW * 4));
    give_done(x->r.request, PARTS);
    CHECK_OK(kv_wait(s, &e));
    CHECK_INT(on_their_way(s), 0);
}

/* To a key whose parts cut rows, and as one of several values, rows are sent as all elements. */
TEST(requests_push_rows_to_a_dense_key)
{
    own_worker *s = open_worker("dist_sync", SERVERS);
    kv_key keys[] = {key_of(0), key_of(0)};
    init_keys(s, 1); /* of one axis */
    row = 1;
    for (int n = 1; n <= 2; n++) {
        kv_array *a = NULL, *values[2];
        void *data;
        CHECK_OK(kv_array_new_sparse(&a, KV_FLOAT32, 1, &elements, 2, (int64_t[]){1, 33},
                                     (kv_ctx){0}, &e));
        CHECK_OK(kv_array_write_rows(a, &data, &e));
        ((float *)data)[0] = 3;
        ((float *)data)[1] = 7;
        values[0] = values[1] = a;
        CHECK_OK(kv_push(s, keys, n, values, NULL, &e));
        const sent *x = request_of(LINK_PUSH, (int64_t[]){0}, 1);
        for (int i = 0; i < PARTS; i++) {
            CHECK_INT(x[i].r.flags, LINK_LAST);
            for (int64_t j = 0; j < place_count(&made[0].place, i); j++)
                CHECK_INT(number_at(x[i].data, KV_FLOAT32, j),
                          n * (i * STEP + j == 1 ? 3 : i * STEP + j == 33 ? 7 : 0));
        }
        give_done(x->r.request, PARTS);
        CHECK_OK(kv_wait(s, &e));
        kv_array_unref(a);
    }
}

/* ---- Memory ---- */

/* Each allocation of a call fails, alone or with all behind it: the call says so, or its end does,
 * and nothing is lost. */
static void fail_each(kv *s, int (*act)(kv *s, kv_err *e), bool serves)
{
    for (int sign = 1; sign >= -1; sign -= 2)
        for (int64_t n = 1;; n++) {
            kv_err e = {0};
            alone_cannot_serve = 0;
            mem_fail_at(sign * n);
            int rc = act(s, &e);
            bool all_made = mem_fail_at(0) < n;
            alone_send_all();
            for (; nread < nsent; nread++) {
                if (all[nread].r.kind == LINK_PULL)
                    give_part(&all[nread].r, 0);
                else if (all[nread].r.flags & LINK_LAST)
                    give_done(all[nread].r.request, 1);
            }
            settle();
            bool begun = !rc;
            rc = rc ? rc : kv_wait(s, &e);
            if (all_made) {
                CHECK_INT(rc, KV_OK);
                break;
            }
            CHECK(rc == KV_OK ? e.code == KV_OK : rc == KV_E_MEMORY);
            CHECK_INT(alone_cannot_serve, begun && rc);
            CHECK(!rc || !begun || serves);
            CHECK(rc == KV_OK || e.code == KV_E_MEMORY);
        }
}

static kv_array *some[3];

static int push_some(kv *s, kv_err *e)
{
    const kv_key keys[] = {key_of(1), key_of(0), key_of(1)};
    return kv_push(s, keys, 3, some, NULL, e);
}

static int push_one(kv *s, kv_err *e)
{
    const kv_key key = key_of(0);
    return kv_push(s, &key, 1, some, NULL, e);
}

static int pull_some(kv *s, kv_err *e)
{
    const kv_key keys[] = {key_of(1), key_of(0), key_of(1)};
    return kv_pull(s, keys, 3, some, NULL, e);
}

static void drop_some(void)
{
    for (int i = 0; i < 3; i++)
        kv_array_unref(some[i]);
}

TEST(requests_lack_memory)
{
    own_worker *s = worker_with_keys(2);
    for (int i = 0; i < 3; i++)
        some[i] = array_from(KV_FLOAT32, i);
    fail_each(s, push_some, false);
    fail_each(s, pull_some, false);
    drop_some();
}

/* A value of another dtype is sent as the key has it, or not at all. Each call has a key of its
 * own, because the first one makes its sum. */
TEST(requests_lack_memory_to_convert)
{
    own_worker *s = worker_with_keys(KEYS);
    own_array *v = array_from(KV_FLOAT64, -3);
    int64_t id = 0;
    for (int sign = 1; sign >= -1; sign -= 2) {
        bool all_made = false;
        for (int64_t n = 1; !all_made; n++) {
            CHECK(id < KEYS);
            e = (kv_err){0};
            kv_key key = key_of(id++);
            mem_fail_at(sign * n);
            int rc = kv_push(s, &key, 1, &v, NULL, &e);
            all_made = mem_fail_at(0) < n;
            if (rc) {
                CHECK_INT(rc, KV_E_MEMORY);
                continue;
            }
            CHECK_INT(e.code, KV_OK);
            give_done(see_push((int64_t[]){key.id}, 1, 1, -3, 0)->r.request, PARTS);
            CHECK_OK(kv_wait(s, &e));
        }
    }
}

/* ---- Calls of many parts ---- */

enum {
    MANY = MOST_PARTS,
    TOGETHER = 512 / MANY /* keys of so many parts that one request takes */
};

static kv_key many_keys[KEYS];
static kv_array *many[KEYS];

static int push_many(kv *s, kv_err *e)
{
    return kv_push(s, many_keys, KEYS, many, NULL, e);
}

static int pull_many(kv *s, kv_err *e)
{
    return kv_pull(s, many_keys, KEYS, many, NULL, e);
}

/* The records of such a call: of two requests, whose numbers go to token. */
static void sent_in_two(link_kind kind, uint64_t token[2])
{
    int n[2] = {0};
    alone_send_all();
    CHECK_INT(nsent - nread, KEYS * MANY);
    token[0] = all[nread].r.request;
    for (int i = nread; i < nsent; i++) {
        const link_rec *r = &all[i].r;
        int which = r->part / 100 >= TOGETHER;
        CHECK_INT(r->kind, kind);
        token[which] = which && !n[1] ? r->request : token[which];
        CHECK_INT(r->request, token[which]);
        n[which]++;
    }
    CHECK(token[0] != token[1]);
    CHECK_INT(n[0], TOGETHER * MANY);
}

/* They make several requests. Where memory lacks for one of these, none begins. */
TEST(requests_of_many_parts)
{
    uint64_t token[2];
    elements = MANY * STEP;
    own_worker *s = worker_with_keys(KEYS);
    for (int i = 0; i < KEYS; i++) {
        many_keys[i] = key_of(i);
        many[i] = array_from(KV_FLOAT32, i);
    }
    forget_sent();
    for (int64_t n = 1;; n++) {
        e = (kv_err){0};
        mem_fail_at(n);
        int rc = push_many(s, &e);
        if (mem_fail_at(0) < n)
            break;
        CHECK_INT(rc, KV_E_MEMORY);
        alone_send_all();
        no_more();
    }
    sent_in_two(LINK_PUSH, token);
    give_done(token[1], (KEYS - TOGETHER) * MANY);
    settle();
    void *data;
    CHECK_OK(kv_array_write(many[KEYS - 1], &data, &e)); /* the second one has ended, alone */
    give_done(token[0], TOGETHER * MANY);
    settle();
    CHECK_OK(kv_wait(s, &e));
    forget_sent();
    for (int i = 0; i < 3; i++) { /* in blocks that are used again */
        CHECK_OK(pull_many(s, &e));
        sent_in_two(LINK_PULL, token);
        for (; nread < nsent; nread++)
            give_part(&all[nread].r, 2 * i);
        settle();
        for (int k = 0; k < KEYS; k++)
            holds(many[k], 2 * i);
        forget_sent();
    }
    for (int i = 0; i < KEYS; i++)
        kv_array_unref(many[i]);
}

/* The codes and the rows of a push are made when its turn has come: it cannot be called back, and
 * other ranks wait for it. */
TEST(requests_lack_memory_for_codes)
{
    own_worker *s = open_worker("dist_sync", SERVERS);
    compress(s, "2bit", false);
    init_keys(s, 2);
    for (int i = 0; i < 3; i++)
        some[i] = array_from(KV_FLOAT32, i);
    fail_each(s, push_one, true);
    drop_some();
}

TEST(requests_lack_memory_for_rows)
{
    own_worker *s = open_worker("dist_sync", SERVERS);
    row = ROW;
    storage = KV_ROW_SPARSE;
    init_keys(s, 2);
    for (int i = 0; i < 3; i++)
        some[i] = rows_of(3, (int64_t[]){0, 3, 9}, 5);
    fail_each(s, push_one, true);
    drop_some();
}
