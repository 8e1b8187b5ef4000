/* Rules as updaters of a store: order, parameters, printed lines, what fails and when. */
#include "kvstore.h"

#include "store_help.h"

enum { N = 3000 };

static const int64_t shape[] = {N};

static kv_array *full(kv_dtype dtype, double x)
{
    return array_full(dtype, 1, shape, x, cpu0);
}

static void init_full(kv *s, int64_t key, kv_dtype dtype, double x)
{
    init_with(s, id(key), full(dtype, x));
}

static int push(kv *s, const int64_t *ids, int n, kv_array *value, kv_err *e)
{
    kv_key keys[32];
    kv_array *values[32];
    for (int i = 0; i < n; i++)
        keys[i] = id(ids[i]), values[i] = value;
    return kv_push(s, keys, n, values, NULL, e);
}

/* Pushes x n times in one call. */
static void push_to(kv *s, int64_t key, int n, kv_dtype dtype, double x)
{
    push_n(s, id(key), full(dtype, x), n);
}

/* Pushes 1, and each element of the key is then want. */
static void step(kv *s, int64_t key, double want)
{
    own_array *out = full(KV_FLOAT64, -99);
    push_to(s, key, 1, KV_FLOAT32, 1);
    check_array(pull_into(s, id(key), out), want);
}

/* Every element of the key is want. */
static void check_full(kv *s, int64_t key, double want)
{
    own_array *out = pull_into(s, id(key), full(KV_FLOAT64, -99));
    check_array(out, want);
}

typedef struct lines {
    char text[256];
} lines;

static void take_line(void *arg, const char *line)
{
    lines *l = arg;
    size_t len = strlen(l->text);
    snprintf(l->text + len, sizeof l->text - len, "%s|", line);
}

TEST(store_rule_reads_the_sum_rounded_to_the_stored_dtype)
{
    own_kv *s = make("device");
    init_full(s, 1, KV_FLOAT16, 0);
    set_rule(s, "{ stored = input }");
    push_to(s, 1, 3, KV_FLOAT32, 1000.5);
    check_full(s, 1, 3002);
    push_to(s, 1, 1, KV_FLOAT32, 2049);
    check_full(s, 1, 2048);
    push_to(s, 1, 1, KV_FLOAT16, 5);
    check_full(s, 1, 5);
}

TEST(store_rule_parameter_errors_keep_the_updater)
{
    own_kv *s = make("device");
    kv_rule *r = NULL;
    init_full(s, 1, KV_FLOAT32, 1);
    set_rule(s, "{ stored += input }");
    CHECK_OK(kv_rule_new(&r, "updater f(a = 1.0) { stored = input * a }", NULL, 0, 0, &e));
    CHECK_INT(kv_set_rule(s, r, &(kv_opt){"b", "1"}, 1, &e), KV_E_USAGE);
    kv_rule_free(r);
    step(s, 1, 2);
}

static void change(kv *s, const char *name, const char *value)
{
    CHECK_OK(kv_update_optimizer(s, &(kv_opt){name, value}, 1, &e));
}

/* A name that a rule reads and does not define is a parameter without a default, of any kind. */
TEST(store_rule_names_from_outside)
{
    own_kv *s = make("device");
    kv_rule *r = NULL;
    const char *text =
        "{ if note == \"5\" and on { stored += rate * input } else { stored = rate } }";
    kv_opt params[] = {{"note", "\"5\""}, {"on", "true"}, {"rate", "0.5"}};
    init_full(s, 1, KV_FLOAT32, 1);
    CHECK_OK(kv_rule_new(&r, text, "r.kv", 3, 5, &e));
    CHECK_INT(kv_set_rule(s, r, params, 2, &e), KV_E_USAGE);
    CHECK_TEXT(e.text, "a rule knows no name `rate` here");
    CHECK_INT(e.line, 3);
    CHECK_INT(e.col, 5 + (int)(strstr(text, "rate") - text));
    CHECK_OK(kv_set_rule(s, r, params, 3, &e));
    kv_rule_free(r);
    step(s, 1, 1.5);
    change(s, "rate", "2"); /* an integer is a number, too */
    step(s, 1, 3.5);
    CHECK_OK(kv_begin(s, &e));
    change(s, "note", "5"); /* which is no text now */
    for (int i = 0; i < 100; i++)
        change(s, "rate", i % 2 ? "7" : "8");
    step(s, 1, 7);
    CHECK_OK(kv_rollback(s, &e));
    step(s, 1, 5.5);
}

/* In a def a name that every rule has is taken once it is given, one that is assigned is its own,
 * and seed, which every optimizer has, is a parameter of the rule that reads it. */
TEST(store_rule_own_names_of_a_def)
{
    own_kv *s = make("device");
    init_full(s, 1, KV_FLOAT32, 1);
    set_rule(s, "def f(k, g, w):\n    w += t * g + wd\n");
    step(s, 1, 2);
    change(s, "t", "10");
    change(s, "wd", "0.5");
    step(s, 1, 12.5);
    set_rule(s, "def f(k, g, w):\n    t = 3\n    w[:] = t * g\n");
    step(s, 1, 3);
    set_rule_with(s, "{ stored += seed * input }", &(kv_opt){"seed", "-4"}, 1);
    step(s, 1, -1);
}

/* A change that finds no memory leaves the parameters as they were. */
TEST(store_rule_change_memory_faults)
{
    own_kv *s = make("device");
    init_full(s, 1, KV_FLOAT32, 0);
    set_rule_with(s, "{ if note == \"x\" { stored += rate * input } }",
                  (kv_opt[]){{"rate", "1"}, {"note", "x"}}, 2);
    for (int64_t n = 1, rc = -1; rc != KV_OK; n++) {
        rc = WITHOUT_MEMORY(n, kv_update_optimizer(s, &(kv_opt){"rate", "2"}, 1, &e));
        push_to(s, 1, 1, KV_FLOAT32, 1);
        check_full(s, 1, rc == KV_OK ? (double)n + 1 : (double)n);
    }
}

TEST(store_rule_errors_have_a_place)
{
    kv_rule *r = NULL;
    CHECK_INT(kv_rule_new(&r, "{ stored += }", "rule.kv", 3, 5, &e), KV_E_SYNTAX);
    CHECK_TEXT(e.file, "rule.kv");
    CHECK_INT(e.line, 3);
    CHECK(!r);
}

TEST(store_rule_that_fails_changes_no_key)
{
    own_kv *s = make("device");
    own_array *ones = full(KV_FLOAT32, 1);
    lines l = {{0}};
    for (int k = 1; k <= 3; k++)
        init_full(s, k, KV_FLOAT32, k);
    kv_set_print(s, take_line, &l);
    set_rule(s, "{ print key; if key == 2 { fail \"no twos\" }; stored += input }");
    CHECK_INT(push(s, (int64_t[]){1, 2, 3}, 3, ones, &e), KV_E_VALUE);
    CHECK_TEXT(e.text, "no twos");
    CHECK_INT(e.key_id, 2);
    CHECK_TEXT(l.text, "");
    for (int k = 1; k <= 3; k++)
        check_full(s, k, k);
}

TEST(store_rule_refuses_a_dtype_before_anything_changes)
{
    own_kv *s = make("device");
    own_array *ones = full(KV_FLOAT32, 1);
    init_full(s, 1, KV_FLOAT32, 1);
    init_full(s, 2, KV_INT32, 1);
    set_rule(s, "{ stored = stored / 2 + input * 0.5 }");
    CHECK_INT(push(s, (int64_t[]){1, 2}, 2, ones, &e), KV_E_DTYPE);
    CHECK_INT(e.key_id, 2);
    check_full(s, 1, 1);
    step(s, 1, 1);
}

/* ---- Printed arrays -------------------------------------------------------------------------- */

/* Shows an array as its size; refuses the second one when told so. */
typedef struct shower {
    int64_t seen, refused;
} shower;

static int show_size(void *arg, kv_array *a, void (*add)(void *to, const char *text, size_t n),
                     void *to, kv_err *e)
{
    shower *s = arg;
    char text[32];
    if (++s->seen == s->refused)
        return kv_err_set(e, KV_E_VALUE, "array %lld cannot be shown", (long long)s->seen);
    int n = snprintf(text, sizeof text, "<%lld>", (long long)kv_array_size(a));
    add(to, text, (size_t)n);
    return KV_OK;
}

TEST(store_rule_prints_arrays_as_it_is_told)
{
    own_kv *s = make("device");
    lines l = {{0}};
    shower shows = {0};
    own_array *ones = full(KV_FLOAT32, 1);
    init_full(s, 1, KV_FLOAT32, 1);
    init_full(s, 2, KV_FLOAT32, 2);
    kv_set_print(s, take_line, &l);
    kv_set_print_arrays(s, show_size, &shows);
    set_rule(s, "{ print key, stored, \"and\", sum(input); stored += input }");
    CHECK_OK(push(s, (int64_t[]){2, 1}, 2, ones, &e));
    CHECK_TEXT(l.text, "1 <3000> and <1>|2 <3000> and <1>|");
    /* what cannot be shown costs the lines of its key, not the updates */
    l = (lines){{0}};
    shows = (shower){.refused = 2};
    CHECK_INT(push(s, (int64_t[]){2, 1}, 2, ones, &e), KV_E_VALUE);
    CHECK_TEXT(e.text, "array 2 cannot be shown");
    CHECK_TEXT(l.text, "2 <3000> and <1>|");
    check_full(s, 1, 3);
    check_full(s, 2, 4);
    kv_set_print_arrays(s, NULL, NULL);
}

TEST(store_rule_print_memory_faults)
{
    for (int64_t n = 1, done = 0; !done; n++) {
        own_kv *s = make("device");
        e = (kv_err){0};
        lines l = {{0}};
        own_array *ones = full(KV_FLOAT32, 1);
        init_full(s, 1, KV_FLOAT32, 1);
        kv_set_print(s, take_line, &l);
        set_rule_with(s, "{ state m = 2; print sum(stored), stored; stored += m * input }", NULL,
                      0);
        int rc = WITHOUT_MEMORY(n, push(s, (int64_t[]){1}, 1, ones, &e));
        done = rc == KV_OK;
        /* either nothing happened, or only the line is missing */
        if (!done) {
            CHECK_INT(rc, KV_E_MEMORY);
            check_full(s, 1, info_of(s, id(1)).pushes ? 3 : 1);
            CHECK_TEXT(l.text, "");
        } else {
            CHECK_TEXT(l.text, "3000.0 [1. 1. 1. ... 1. 1. 1.]|");
        }
    }
}

static int copy_rule(void *arg, const kv_field *f, int n, kv_err *e)
{
    char *out = arg;
    (void)e;
    CHECK_INT(n, 4); /* and uses_lr, uses_wd */
    sprintf(out, "%s=%s; %s=%s", f[0].name, f[0].text, f[1].name, f[1].text);
    return KV_OK;
}

/* A def as MXNet takes it is a rule, and a description shows it as it was written. */
TEST(store_rule_of_a_def)
{
    own_kv *s = make("device");
    char text[200] = "";
    CHECK(kv_describe(s, "rule", copy_rule, text, &e) == KV_E_VALUE);
    CHECK_TEXT(e.text, "no rule is in use");
    init_full(s, 3, KV_FLOAT32, 1);
    set_rule(s, "def twice(k, grad, weight):\n    weight += grad * 2\n");
    CHECK_OK(kv_describe(s, "rule", copy_rule, text, &e));
    CHECK_TEXT(text, "rule=twice; text=def twice(k, grad, weight):\n    weight += grad * 2\n");
    own_array *one = full(KV_FLOAT32, 1), *out = full(KV_FLOAT32, 0);
    CHECK_OK(push(s, (int64_t[]){3}, 1, one, &e));
    CHECK_OK(kv_pull(s, &(kv_key){.id = 3}, 1, &out, NULL, &e));
    const float *data = array_elements(out);
    CHECK(data[N - 1] == 3);
}
