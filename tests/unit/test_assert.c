/* A failed assertion is an error of the library for ever after, and the end of the tool. */
#include "base/kv_assert.h"

#include <sys/wait.h>

#include "kvstore.h"
#include "store_help.h"
#include "term/terminal.h"

#define REPORT "test_assert.c:1: left == right does not hold: round 7 has 3 of 2 parts; " \
               "this is a bug in kvstore"

/* Builds that count what tests reach ask no assertion. */
#ifdef KV_COVERAGE
#define ASKED 0
#else
#define ASKED 1
#endif

TEST(assert_holds)
{
    int asked = 0;
    CHECK(kv_assert(++asked == 1, "asked %d times", asked));
    CHECK_INT(asked, ASKED);
    CHECK_OK(kv_assert_check(KV_OK, &e));
}

TEST(assert_always_and_never_that_hold)
{
    int asked = 0;
    CHECK(ALWAYS(++asked > 0));
    CHECK(!NEVER(++asked < 0));
    CHECK_INT(asked, 2 * ASKED);
    CHECK_OK(kv_assert_check(KV_OK, &e));
}

/* The defence stays in every build that somebody uses; only those that look for mistakes report. */
TEST(assert_always_and_never_that_do_not)
{
    int two = 2;
    CHECK_INT(ALWAYS(two == 1), !ASKED);
    CHECK_INT(NEVER(two == 2), ASKED);
#ifdef KV_TEST
    CHECK_INT(kv_assert_check(KV_OK, &e), KV_E_INTERNAL);
    CHECK(strstr(e.text, "two == 1 does not hold: a defence was needed"));
#else
    CHECK_OK(kv_assert_check(KV_OK, &e));
#endif
}

TEST(assert_is_an_error_of_every_later_call)
{
    static kv *store; /* nothing frees it after a failure */
    store = make("local");
    CHECK(!kv_assert_fail("test_assert.c", 1, "left == right", "round %d has %d of %d parts", 7,
                          3, 2));
    CHECK(!kv_assert_fail("test_assert.c", 2, "1 == 2", "a second report changes nothing"));
    CHECK_ERR(kv_assert_check(KV_OK, &e), KV_E_INTERNAL, REPORT);
    kv_err_set(&e, KV_E_KEY, "an error that the failure led to");
    CHECK_ERR(kv_assert_check(KV_E_KEY, &e), KV_E_INTERNAL, REPORT);
    CHECK_ERR(kv_wait(store, &e), KV_E_INTERNAL, REPORT);
    CHECK_ERR(kv_save(store, "/nowhere/s", &e), KV_E_INTERNAL, REPORT);
    kv_free(store);
}

/* ---- The call that finds it ---- */

static int fail(void)
{
    kv_assert_fail("test_assert.c", 1, "left == right", "round %d has %d of %d parts", 7, 3, 2);
    return KV_OK;
}

static int fail_values(void *self, const kv_pairs *values, const kv_call *call, kv_err *e)
{
    (void)self, (void)values, (void)call, (void)e;
    return fail();
}

static int fail_both(void *self, const kv_pairs *values, const kv_pairs *outs, const kv_call *call,
                     kv_err *e)
{
    (void)outs;
    return fail_values(self, values, call, e);
}

static int fail_rows(void *self, kv_array *const *ids, const kv_pairs *outs, const kv_call *call,
                     kv_err *e)
{
    (void)ids;
    return fail_values(self, outs, call, e);
}

static int fail_store(void *self, kv_err *e)
{
    (void)self, (void)e;
    return fail();
}

static int fail_key(void *self, const kv_key *key, kv_err *e)
{
    (void)key;
    return fail_store(self, e);
}

static int fail_command(void *self, int head, const char *body, kv_err *e)
{
    (void)head, (void)body;
    return fail_store(self, e);
}

static int fail_optimizer(void *self, const char *kind, const char *text, const kv_opt *params,
                          int nparams, kv_err *e)
{
    (void)kind, (void)text, (void)params, (void)nparams;
    return fail_store(self, e);
}

static int fail_states(void *self, kv_states_visit why, int (*use)(void *arg, kv_err *e), void *arg,
                       kv_err *e)
{
    (void)why, (void)use, (void)arg;
    return fail_store(self, e);
}

static int fail_cluster(void *self, kv_rank_info **rows, int64_t *n, kv_err *e)
{
    (void)rows, (void)n;
    return fail_store(self, e);
}

static int fail_rounds(void *self, kv_visitor visit, void *arg, kv_err *e)
{
    (void)visit, (void)arg;
    return fail_store(self, e);
}

static int fail_peek(void *self, const kv_key *key, kv_array **out, int64_t rounds[2], kv_err *e)
{
    (void)key, (void)out, (void)rounds;
    return fail_store(self, e);
}

static int visit(void *arg, const kv_field *fields, int n, kv_err *e)
{
    (void)arg, (void)fields, (void)n, (void)e;
    return KV_OK;
}

enum { FAILING_CALLS = 19 };

/* Calls of a store whose type finds a mistake of its own in each of them. */
static int failing_call(int which, kv *s, kv_err *e)
{
    kv_key k = id(3);
    kv_array *a = filled(1), *ids = NULL;
    int64_t two = 2;
    kv_info info;
    CHECK(kv_array_new(&ids, KV_INT64, 1, &two, cpu0, e) == KV_OK);
    switch (which) {
    case 0:
        return kv_init(s, &k, 1, &a, NULL, e);
    case 1:
        return kv_push(s, &k, 1, &a, NULL, e);
    case 2:
        return kv_pull(s, &k, 1, &a, NULL, e);
    case 3:
        return kv_row_sparse_pull(s, &k, 1, &ids, &a, NULL, e);
    case 4:
        return kv_pushpull(s, &k, 1, &a, NULL, 0, NULL, NULL, e);
    case 5:
        return kv_broadcast(s, &k, 1, &a, &k, 1, &a, NULL, e);
    case 6:
        return kv_barrier(s, e);
    case 7:
        return kv_done(s, e);
    case 8:
        return kv_send_command(s, 1, "x", e);
    case 9:
        return kv_await_key(s, &k, &info, e);
    case 10:
        return kv_set_optimizer(s, "sgd", NULL, 0, e);
    case 11:
        return kv_set_updater(s, NULL, NULL, NULL, e);
    case 12:
        return kv_save_states(s, "/nowhere/s", 0, e);
    case 13:
        return kv_load_states(s, "/nowhere/s", e);
    case 14:
        return kv_describe(s, "cluster", visit, NULL, e);
    case 15:
        return kv_describe(s, "states", visit, NULL, e);
    case 16:
        return kv_describe(s, "rounds", visit, NULL, e);
    case 17:
        return kv_peek(s, &k, &ids, (int64_t[2]){0}, e);
    default:
        return kv_describe(s, "optimizer", visit, NULL, e);
    }
}

/* One process a call, because every call after the first failure would report it. */
static bool reports(int which, kv *s)
{
    int status;
    kv_err e = {0};
    pid_t child = fork();
    if (child == 0) {
        int rc = failing_call(which, s, &e);
        _exit(rc == KV_E_INTERNAL && strcmp(e.text, REPORT) == 0 ? 0 : 1);
    }
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(assert_is_an_error_of_the_call_that_finds_it)
{
    static const char *const names[] = {"mistaken", NULL};
    const kv_type_ops *local;
    CHECK_OK(kv_find_type("local", &local, &e));
    kv_type_ops mine = *local;
    mine.names = names;
    mine.init = mine.push = mine.pull = fail_values;
    mine.pushpull = mine.broadcast = fail_both;
    mine.row_sparse_pull = fail_rows;
    mine.barrier = mine.done = fail_store;
    mine.await_key = fail_key;
    mine.send_command = fail_command;
    mine.set_optimizer = fail_optimizer;
    mine.visit_states = fail_states;
    mine.cluster = fail_cluster;
    mine.rounds = fail_rounds;
    mine.peek = fail_peek;
    CHECK_OK(kv_register_type(&mine, &e));
    own_kv *store = make("mistaken");
    for (int i = 0; i < FAILING_CALLS; i++)
        CHECK(reports(i, store));
}

static int mistaken_updater(void *arg, const kv_key *key, kv_array *input, kv_array *stored,
                            kv_err *e)
{
    (void)arg, (void)key, (void)input, (void)stored, (void)e;
    return fail();
}

/* A push that is too large to run at once: its operation finds the mistake, on the pool. */
TEST(assert_is_an_error_of_the_wait_for_what_finds_it)
{
    static kv *store; /* nothing frees it after a failure */
    store = make("local");
    kv_key k = id(3);
    int64_t many = 1 << 20;
    own_array *a = MADE(kv_array, kv_array_new, KV_FLOAT32, 1, &many, cpu0);
    CHECK_OK(kv_init(store, &k, 1, &a, NULL, &e));
    CHECK_OK(kv_set_updater(store, mistaken_updater, NULL, NULL, &e));
    int rc = kv_push(store, &k, 1, &a, NULL, &e);
    CHECK(rc == KV_OK || rc == KV_E_INTERNAL); /* when the pool is quick */
    CHECK_ERR(kv_wait(store, &e), KV_E_INTERNAL, REPORT);
}

TEST(assert_ends_the_tool_with_70)
{
    char said[1024];
    int ends[2], status;
    CHECK_INT(pipe(ends), 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        bug_ends_process();
        kv_assert_fail("test_assert.c", 1, "left == right", "round %d has %d of %d parts", 7, 3,
                       2);
        _exit(0); /* the handler has not ended the process */
    }
    close(ends[1]);
    ssize_t n = 0, got;
    while ((got = read(ends[0], said + n, sizeof said - 1 - (size_t)n)) > 0)
        n += got;
    said[n] = '\0';
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK_INT(WEXITSTATUS(status), 70);
    CHECK_TEXT(said, "kvctl: error[internal]: " REPORT "\n"
                     " hint: the file of -s is as it was; report this with the script that led "
                     "here\n");
}
