/* transaction: begin, commit, rollback: values, counts, keys and updaters, and what is copied. */

#include "core/store.h"
#include "kvstore.h"
#include "store_help.h"

TEST(transaction_of_an_empty_store_takes_either_kind_afterwards)
{
    own_kv *s = make("local");
    CHECK_OK(kv_begin(s, &e));
    init_with(s, id(3), filled(1));
    CHECK_OK(kv_rollback(s, &e));
    init_with(s, (kv_key){0, "w"}, filled(2));
    check_key(s, (kv_key){0, "w"}, 2);
}

/* A key is copied at its first change, and only there. */
TEST(transaction_copies_at_the_first_change)
{
    own_kv *s = make("local");
    init_with(s, id(0), filled(1));
    init_with(s, id(1), filled(1));
    set_rule(s, "{ stored += input }");
    const kv_array *held[2] = {s->slots.items[0].stored, s->slots.items[1].stored};
    push_one(s, id(0), filled(1));
    CHECK(s->slots.items[0].stored == held[0]); /* no transaction: in place */
    CHECK_OK(kv_begin(s, &e));
    push_one(s, id(0), filled(1));
    const kv_array *copy = s->slots.items[0].stored;
    CHECK(copy != held[0]);
    push_one(s, id(0), filled(1));
    CHECK(s->slots.items[0].stored == copy); /* the second change is in place again */
    CHECK(s->slots.items[1].stored == held[1]);
    check_key(s, id(0), 4);
    CHECK_OK(kv_rollback(s, &e));
    CHECK(s->slots.items[0].stored == held[0]);
    check_key(s, id(0), 2);
    push_one(s, id(0), filled(1));
    CHECK(s->slots.items[0].stored == held[0]); /* it holds nothing any more */
}

typedef struct calls {
    int ran, done;
    bool refuse;
} calls;

static int add_one(void *arg, const kv_key *key, kv_array *input, kv_array *stored, kv_err *e)
{
    calls *c = arg;
    void *data;
    (void)key, (void)input;
    c->ran++;
    int rc = kv_array_write(stored, &data, e);
    for (int64_t i = 0; rc == KV_OK && i < kv_array_size(stored); i++)
        ((float *)data)[i] += 1;
    return rc ? rc : c->refuse ? KV_E_VALUE : KV_OK;
}

static void call_done(void *arg)
{
    ((calls *)arg)->done++;
}

TEST(transaction_puts_the_updater_back)
{
    own_kv *s = make("local");
    calls one = {0}, two = {0};
    init_with(s, id(3), filled(1));
    CHECK_OK(kv_set_updater(s, add_one, &one, call_done, &e));
    push_one(s, id(3), filled(10));
    CHECK_OK(kv_begin(s, &e));
    CHECK_OK(kv_set_updater(s, add_one, &two, call_done, &e));
    CHECK_INT(one.done, 0); /* rollback may need it */
    set_rule(s, "{ stored = input * t }");
    CHECK_INT(two.done, 1); /* nobody needs it */
    push_one(s, id(3), filled(10));
    push_one(s, id(3), filled(10));
    check_key(s, id(3), 20);
    CHECK_OK(kv_rollback(s, &e));
    check_key(s, id(3), 2);
    push_one(s, id(3), filled(10));
    CHECK_INT(one.ran, 2);
    CHECK_INT(one.done, 0);
    CHECK_OK(kv_begin(s, &e));
    CHECK_OK(kv_set_updater(s, NULL, NULL, NULL, &e));
    CHECK_INT(one.done, 0);
    CHECK_OK(kv_commit(s, &e));
    CHECK_INT(one.done, 1);
}

/* t goes on where it was, and a callback that refuses leaves what the transaction holds. */
TEST(transaction_counts_of_the_updater)
{
    own_kv *s = make("local");
    init_with(s, id(3), filled(1));
    set_rule(s, "{ stored = stored + t }");
    push_one(s, id(3), filled(0));
    CHECK_OK(kv_begin(s, &e));
    push_one(s, id(3), filled(0));
    push_one(s, id(3), filled(0));
    check_key(s, id(3), 1 + 1 + 2 + 3);
    CHECK_OK(kv_rollback(s, &e));
    push_one(s, id(3), filled(0));
    check_key(s, id(3), 1 + 1 + 2);

    calls c = {.refuse = true};
    own_array *a = filled(1);
    CHECK_OK(kv_set_updater(s, add_one, &c, NULL, &e));
    CHECK_OK(kv_begin(s, &e));
    CHECK_INT(kv_push(s, &(kv_key){.id = 3}, 1, &a, NULL, &e), KV_E_VALUE);
    c.refuse = false;
    CHECK_OK(kv_push(s, &(kv_key){.id = 3}, 1, &a, NULL, &e));
    check_key(s, id(3), 5);
    CHECK_OK(kv_rollback(s, &e));
    check_key(s, id(3), 4);
}

TEST(transaction_moves_of_device_keys)
{
    own_kv *s = make("device");
    CHECK_OK(kv_set_virtual_gpus(2, &e));
    init_with(s, id(3), filled(1));
    CHECK_OK(kv_begin(s, &e));
    push_one(s, id(3), filled_as(KV_FLOAT32, 4, (kv_ctx){KV_GPU, 1}));
    CHECK_INT(info_of(s, id(3)).ctx.device, KV_GPU);
    push_one(s, id(3), filled(9));
    CHECK_INT(info_of(s, id(3)).ctx.device, KV_GPU);
    CHECK_OK(kv_rollback(s, &e));
    CHECK_INT(info_of(s, id(3)).ctx.device, KV_CPU);
    check_key(s, id(3), 1);
}

TEST(transaction_mistakes)
{
    kv *s = make("local");
    CHECK_ERR(kv_commit(s, &e), KV_E_VALUE, "no transaction is open");
    CHECK_ERR(kv_rollback(s, &e), KV_E_VALUE, "no transaction is open");
    CHECK_OK(kv_begin(s, &e));
    CHECK_INT(kv_begin(s, &e), KV_E_VALUE);
    CHECK_TEXT(e.text, "a transaction is open already, and they do not nest");
    CHECK_TEXT(e.hint, "commit or rollback ends it");
    init_with(s, id(1), filled(1));
    kv_free(s); /* an open one is no leak */
}

TEST(transaction_puts_deleted_keys_back_as_they_were)
{
    own_kv *s = make("local");
    for (int i = 0; i < 3; i++)
        init_with(s, id(i), filled(i));
    set_rule(s, "{ stored += input }");
    push_one(s, id(1), filled(5));
    s->slots.items[1].told_ignored = true;
    s->slots.items[2].loaded = true;
    CHECK_OK(kv_begin(s, &e));
    CHECK_OK(kv_delete(s, &(kv_key){.id = 0}, 1, &e));
    push_one(s, id(1), filled(5));
    CHECK_OK(kv_rollback(s, &e));
    for (int i = 0; i < 3; i++) {
        check_key(s, id(i), i == 1 ? 6 : i);
        CHECK_INT(info_of(s, id(i)).pushes, i == 1);
        CHECK_INT(s->slots.items[i].updates, i == 1);
        CHECK(s->slots.items[i].told_ignored == (i == 1));
        CHECK(info_of(s, id(i)).loaded == (i == 2));
    }
    CHECK(!s->slots.lost_keys);
    CHECK_OK(kv_delete(s, &(kv_key){.id = 0}, 1, &e));
    CHECK_OK(kv_begin(s, &e));
    CHECK_OK(kv_delete(s, &(kv_key){.id = 2}, 1, &e));
    CHECK_OK(kv_rollback(s, &e));
    CHECK(s->slots.lost_keys); /* as it was */
}
