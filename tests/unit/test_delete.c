/* kv_delete and kv_rename: what goes with a key and what stays, order, kinds, errors, what is under
 * way, transactions; and random calls against a model. */

#include "base/file.h"
#include "kvstore.h"
#include "store_help.h"

static void delete_one(kv *s, kv_key key)
{
    CHECK_OK(kv_delete(s, &key, 1, &e));
}

static void rename_one(kv *s, kv_key from, kv_key to)
{
    CHECK_OK(kv_rename(s, &from, &to, &e));
}

/* The keys in the order of updates and the number that fills each: "3=1 5=2 ", and that it has. */
static void check_keys(kv *s, const char *want)
{
    char got[400] = "";
    size_t n = 0;
    for (int64_t i = 0; i < kv_num_keys(s); i++) {
        kv_info info;
        CHECK_OK(kv_info_at(s, i, &info, &e));
        own_array *out = pull_into(s, info.key, filled(-99));
        double x = *(const float *)array_elements(out);
        check_array(out, x);
        if (info.key.name)
            n += (size_t)snprintf(got + n, sizeof got - n, "%s=%g ", info.key.name, x);
        else
            n += (size_t)snprintf(got + n, sizeof got - n, "%d=%g ", (int)info.key.id, x);
    }
    CHECK_TEXT(got, want);
}

static int64_t pushes(kv *s, kv_key key)
{
    return info_of(s, key).pushes;
}

static kv *with_names(const char *type)
{
    kv *s = make(type);
    const char *names[] = {"d", "b", "a", "c"};
    for (int i = 0; i < 4; i++)
        init_with(s, name(names[i]), filled(i));
    return s;
}

TEST(delete_keeps_the_order_of_integer_keys)
{
    own_kv *s = make("local");
    for (int i = 9; i > 0; i -= 2)
        init_with(s, id(i), filled(i));
    check_keys(s, "1=1 3=3 5=5 7=7 9=9 ");
    CHECK_OK(kv_delete(s, (kv_key[]){id(5), id(1)}, 2, &e));
    rename_one(s, id(9), id(-2));
    check_keys(s, "-2=9 3=3 7=7 ");
    init_with(s, id(5), filled(50));
    check_keys(s, "-2=9 3=3 5=50 7=7 ");
}

TEST(delete_of_no_keys_changes_nothing)
{
    own_kv *s = with_names("local");
    uint64_t before = kv_changes(s);
    CHECK_OK(kv_delete(s, NULL, 0, &e));
    CHECK(kv_changes(s) == before);
    delete_one(s, name("a"));
    CHECK(kv_changes(s) == before + 1);
}

TEST(delete_takes_keys_that_are_borrowed_from_the_store)
{
    own_kv *s = with_names("local");
    kv_info info;
    IN_FOLDER("p.json", NULL);
    CHECK_OK(kv_profile_start("p.json", &e)); /* which is told the keys, too */
    CHECK_OK(kv_info_at(s, 1, &info, &e));
    delete_one(s, info.key);
    CHECK_OK(kv_info_at(s, 1, &info, &e));
    rename_one(s, info.key, name("z"));
    check_keys(s, "d=0 z=2 c=3 ");
    CHECK_OK(kv_profile_stop(&e));
    size_t n = 0;
    own_text *text = file_text("p.json", &n);
    CHECK(strstr(text, "\"delete b\"") && strstr(text, "\"keys\":[\"b\"]"));
    CHECK(strstr(text, "\"rename a, z\"") && strstr(text, "\"keys\":[\"a\",\"z\"]"));
}

static void train(kv *s, kv_key key, int n)
{
    for (int i = 0; i < n; i++)
        push_one(s, key, filled(0.25 * i - 0.5));
}

static void set_adam(kv *s)
{
    kv_opt params[] = {{"learning_rate", "0.1"}};
    CHECK_OK(kv_set_optimizer(s, "adam", params, 1, &e));
}

static void check_same_keys(kv *a, kv_key x, kv *b, kv_key y)
{
    own_array *one = pull_into(a, x, filled(-99)), *other = pull_into(b, y, filled(-99));
    check_same_bytes(one, other);
}

/* The states follow a renamed key, and the keys around a deleted one keep theirs; a key that comes
 * again begins anew. */
TEST(delete_and_rename_take_the_states_with_a_key)
{
    own_kv *s = with_names("local"), *plain = with_names("local");
    set_adam(s);
    set_adam(plain);
    for (int i = 0; i < 2; i++) {
        train(i ? plain : s, name("b"), 3);
        train(i ? plain : s, name("a"), 4);
        train(i ? plain : s, name("c"), 2);
    }
    delete_one(s, name("b"));
    rename_one(s, name("a"), name("a2"));
    train(s, name("a2"), 3);
    train(plain, name("a"), 3);
    train(s, name("c"), 3);
    train(plain, name("c"), 3);
    check_same_keys(s, name("a2"), plain, name("a"));
    check_same_keys(s, name("c"), plain, name("c"));
    own_kv *fresh = make("local");
    set_adam(fresh);
    init_with(s, name("b"), filled(1));
    init_with(fresh, name("b"), filled(1));
    train(s, name("b"), 2);
    train(fresh, name("b"), 2);
    check_same_keys(s, name("b"), fresh, name("b"));
}

/* Multipliers go with the key, also into files, and a rollback brings them back. */
TEST(rename_takes_multipliers_along)
{
    own_kv *s = make("local"), *loaded = NULL;
    kv_opt params[] = {{"learning_rate", "1"}, {"lr_mult", "3=2,9=5"}, {"wd", "0"}};
    IN_FOLDER("x.kvs", NULL);
    CHECK_OK(kv_set_optimizer(s, "sgd", params, 3, &e));
    init_with(s, id(3), filled(0));
    init_with(s, id(4), filled(0));
    push_one(s, id(3), filled(1));
    CHECK_OK(kv_begin(s, &e));
    rename_one(s, id(3), id(5));
    push_one(s, id(5), filled(1));
    check_keys(s, "4=0 5=-4 ");
    CHECK_OK(kv_rollback(s, &e));
    push_one(s, id(3), filled(1));
    check_keys(s, "3=-4 4=0 ");
    rename_one(s, id(3), id(5));
    rename_one(s, id(4), id(9)); /* which loses the multiplier that stood there for another key */
    push_one(s, id(9), filled(1));
    CHECK_OK(kv_save(s, "x.kvs", &e));
    CHECK_OK(kv_load(&loaded, "x.kvs", &e));
    push_one(loaded, id(5), filled(1));
    push_one(loaded, id(9), filled(1));
    check_keys(loaded, "5=-6 9=-2 ");
}

/* A name that another key has, too, keeps its multiplier there. A key whose multiplier no text of
 * the parameters could hold is refused. */
TEST(rename_takes_names_along)
{
    own_kv *s = make("local");
    kv_opt params[] = {{"learning_rate", "1"}, {"wd", "0"}, {"names", "x=w,y=b"},
                       {"lr-mult", "w=2,b=3"}};
    CHECK_OK(kv_set_optimizer(s, "sgd", params, 4, &e));
    init_with(s, name("w"), filled(0));
    init_with(s, name("x"), filled(0));
    rename_one(s, name("w"), name("v"));
    rename_one(s, name("x"), name("z"));
    push_one(s, name("v"), filled(1));
    push_one(s, name("z"), filled(1));
    check_keys(s, "v=-2 z=-2 ");
    kv_key from = name("v"), to = name("a=b");
    CHECK_ERR(kv_rename(s, &from, &to, &e), KV_E_KEY,
              "key \"v\" has a multiplier or a name, which no key with , or = has");
    push_one(s, name("v"), filled(1));
    check_keys(s, "v=-4 z=-2 ");
}

/* Deletes n keys, or renames the first of two; the store stays as it is. */
static void refuses(kv *s, bool renames, const kv_key *keys, int64_t n, kv_code code,
                    const char *text)
{
    uint64_t before = kv_changes(s);
    CHECK_ERR(renames ? kv_rename(s, keys, keys + 1, &e) : kv_delete(s, keys, n, &e), code, text);
    CHECK(kv_changes(s) == before);
}

TEST(delete_and_rename_errors)
{
    own_kv *s = with_names("local"), *test = make("teststore");
    char longest[KV_KEY_MAX + 2], too_long[200];
    memset(longest, 'x', sizeof longest);
    longest[KV_KEY_MAX + 1] = '\0';
    snprintf(too_long, sizeof too_long, "the key \"%.90s...\" is longer than 4096 bytes", longest);
    const struct {
        bool renames;
        int n;
        kv_key keys[3];
        const char *text;
    } cases[] = {
        {false, 2, {name("a"), name("q")}, "there is no key \"q\""},
        {false, 3, {name("a"), name("b"), name("a")}, "key \"a\" stands twice in the call"},
        {false, 1, {id(3)}, "this store holds text keys, 3 is an integer key"},
        {false, 2, {name("a"), id(3)},
         "one call takes keys of one kind, \"a\" is a text key and 3 an integer"},
        {false, 1, {name("\xff")}, "the key \"\xff\" is not UTF-8"},
        {false, 1, {name(longest)}, too_long},
        {true, 2, {name("q"), name("z")}, "there is no key \"q\""},
        {true, 2, {name("a"), name("b")}, "key \"b\" is there already"},
        {true, 2, {name("a"), name("a")}, "key \"a\" is there already"},
        {true, 2, {name("a"), id(1)}, "this store holds text keys, 1 is an integer key"},
        {true, 2, {id(1), name("z")}, "this store holds text keys, 1 is an integer key"},
        {true, 2, {name("a"), name("\xff")}, "the key \"\xff\" is not UTF-8"},
        {true, 2, {name("a"), name(longest)}, too_long},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refuses(s, cases[i].renames, cases[i].keys, cases[i].n, KV_E_KEY, cases[i].text);
    for (int renames = 0; renames < 2; renames++)
        refuses(test, renames, cases[7].keys, 1, KV_E_UNSUPPORTED,
                "stores of type \"teststore\" have no delete or rename");
    check_keys(s, "d=0 b=1 a=2 c=3 ");
    longest[KV_KEY_MAX] = '\0';
    rename_one(s, name("a"), name(longest));
    rename_one(s, name(longest), name("e"));
    check_keys(s, "d=0 b=1 e=2 c=3 ");
}

/* An updater may not take its own keys away. */
static int delete_within(void *arg, const kv_key *key, kv_array *input, kv_array *stored,
                         kv_err *why)
{
    (void)input, (void)stored, (void)why;
    CHECK_CODE(kv_delete(arg, key, 1, &e), KV_E_USAGE);
    CHECK_CODE(kv_rename(arg, key, &(kv_key){.id = 99}, &e), KV_E_USAGE);
    return KV_OK;
}

TEST(delete_is_refused_in_an_updater)
{
    own_kv *s = make("local");
    init_with(s, id(3), filled(1));
    CHECK_OK(kv_set_updater(s, delete_within, s, NULL, &e));
    push_one(s, id(3), filled(1));
    CHECK_OK(kv_wait(s, &e));
    check_keys(s, "3=1 ");
}

enum { LARGE = 1 << 18 };

static kv_array *large(double x)
{
    return array_full(KV_FLOAT32, 1, (int64_t[]){LARGE}, x, cpu0);
}

/* Pushes and pulls that were scheduled before come to their end with the arrays of that time. */
TEST(delete_waits_for_what_is_under_way)
{
    own_kv *s = make("local");
    kv_key w = name("w"), v = name("v");
    for (int i = 0; i < 20; i++) {
        own_array *out = large(-1), *in = large(i);
        init_with(s, w, large(0));
        init_with(s, v, large(7));
        for (int k = 0; k < 3; k++)
            CHECK_OK(kv_push(s, &w, 1, &in, NULL, &e));
        CHECK_OK(kv_pull(s, &w, 1, &out, NULL, &e));
        delete_one(s, w);
        rename_one(s, v, w);
        check_array(out, i);
        CHECK_OK(kv_pull(s, &w, 1, &out, NULL, &e));
        delete_one(s, w);
        check_array(out, 7);
    }
    CHECK_INT(kv_num_keys(s), 0);
}

/* A store that is released within a transaction, and one whose keys of one kind come back. */
TEST(delete_rolled_back_gives_the_kind_of_keys_back)
{
    own_kv *s = make("local");
    init_with(s, id(3), filled(1));
    CHECK_OK(kv_begin(s, &e));
    delete_one(s, id(3));
    init_with(s, name("w"), filled(2));
    CHECK_OK(kv_rollback(s, &e));
    check_keys(s, "3=1 ");
    CHECK_OK(kv_begin(s, &e));
    delete_one(s, id(3));
    kv_free(s);
    s = make("local");
    CHECK_OK(kv_begin(s, &e)); /* of an empty store */
    init_with(s, id(3), filled(1));
    delete_one(s, id(3));
    init_with(s, id(4), filled(1));
    CHECK_OK(kv_rollback(s, &e));
    CHECK_INT(kv_num_keys(s), 0);
}

enum { NAMES = 40 };

/* What the store should hold: keys in the order of its slots, 0 to NAMES - 1. */
typedef struct model {
    int n;
    struct {
        int key, x, pushes;
    } at[NAMES + 1];
} model;

static int at_of(const model *m, int key)
{
    int i = 0;
    while (i < m->n && m->at[i].key != key)
        i++;
    return i < m->n ? i : -1;
}

static kv_key key_of(bool text, int key, char name_of[16])
{
    snprintf(name_of, 16, "k%d", (key * 7) % NAMES);
    return text ? (kv_key){.name = name_of} : (kv_key){.id = (key * 7) % NAMES};
}

static void compare(kv *s, const model *m, bool text)
{
    char name_of[16];
    CHECK_INT(kv_num_keys(s), m->n);
    for (int i = 0; i < m->n; i++) {
        kv_info info;
        kv_key key = key_of(text, m->at[i].key, name_of);
        check_key(s, key, m->at[i].x);
        CHECK_INT(pushes(s, key), m->at[i].pushes);
        CHECK_OK(kv_info_at(s, i, &info, &e));
        if (text)
            CHECK_TEXT(info.key.name, name_of);
    }
}

static void change(kv *s, model *m, bool text, int what, int key, int other, int x)
{
    kv_err e = {0};
    char one[16], two[16];
    int at = at_of(m, key), to = at_of(m, other);
    kv_key k = key_of(text, key, one), o = key_of(text, other, two);
    if (what == 0 && at < 0) {
        init_with(s, k, filled(x));
        m->at[m->n].key = key;
        m->at[m->n].x = x;
        m->at[m->n++].pushes = 0;
    } else if (what == 1 && at >= 0) {
        push_one(s, k, filled(x));
        m->at[at].x = x;
        m->at[at].pushes++;
    } else if (what == 2) {
        CHECK_INT(kv_delete(s, &k, 1, &e), at >= 0 ? KV_OK : KV_E_KEY);
        for (int i = at; at >= 0 && i < m->n; i++)
            m->at[i] = m->at[i + 1];
        m->n -= at >= 0;
    } else if (what == 3) {
        CHECK_INT(kv_rename(s, &k, &o, &e), at >= 0 && to < 0 ? KV_OK : KV_E_KEY);
        if (at >= 0 && to < 0)
            m->at[at].key = other;
    }
}

static void random_calls(bool text)
{
    own_kv *s = make("local");
    model now = {0}, then = {0};
    bool open = false;
    uint64_t state = 88172645463325252u + text;
    for (int i = 0; i < 6000; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        int what = (int)(state >> 20 & 0xffff) % 50, key = (int)(state >> 36 & 0xff) % NAMES;
        int other = (int)(state >> 44 & 0xff) % NAMES;
        if (what == 49 && !open) {
            CHECK_OK(kv_begin(s, &e));
            then = now;
            open = true;
        } else if (what == 49) {
            bool keeps = key % 3 == 0;
            CHECK_OK(keeps ? kv_commit(s, &e) : kv_rollback(s, &e));
            now = keeps ? now : then;
            open = false;
        } else {
            change(s, &now, text, what % 4, key, other, i);
        }
        if (what > 40)
            compare(s, &now, text);
    }
    CHECK(now.n > 0);
}

TEST(delete_and_rename_of_random_keys)
{
    random_calls(true);
    random_calls(false);
}
