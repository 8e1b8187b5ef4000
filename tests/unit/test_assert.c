/* A failed assertion is an error of the library for ever after, and the end of the tool. */
#include "base/kv_assert.h"

#include <sys/wait.h>

#include "kvstore.h"
#include "store_help.h"
#include "term/terminal.h"

#define REPORT "test_assert.c:1: left == right does not hold: round 7 has 3 of 2 parts; " \
               "this is a bug in kvstore"

#define FAIL()                                                                                     \
    kv_assert_fail("test_assert.c", 1, "left == right", "round %d has %d of %d parts", 7, 3, 2)

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
    CHECK(ALWAYS(++asked > 0));
    CHECK(!NEVER(++asked < 0));
    CHECK_INT(asked, 3 * ASKED);
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
    CHECK(!FAIL());
    CHECK(!kv_assert_fail("test_assert.c", 2, "1 == 2", "a second report changes nothing"));
    CHECK_ERR(kv_assert_check(KV_OK, &e), KV_E_INTERNAL, REPORT);
    kv_err_set(&e, KV_E_KEY, "an error that the failure led to");
    CHECK_ERR(kv_assert_check(KV_E_KEY, &e), KV_E_INTERNAL, REPORT);
    CHECK_ERR(kv_wait(store, &e), KV_E_INTERNAL, REPORT);
    CHECK_ERR(kv_save(store, "/nowhere/s", &e), KV_E_INTERNAL, REPORT);
    kv_free(store);
}

static int fail(void)
{
    FAIL();
    return KV_OK;
}

/* Functions of a type that find a mistake of their own. */
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define FAILS(name, ...)                                                                           \
    static int name(void *self, __VA_ARGS__, kv_err *e)                                            \
    {                                                                                              \
        return fail();                                                                             \
    }

FAILS(fail_values, const kv_pairs *values, const kv_call *call)
FAILS(fail_both, const kv_pairs *values, const kv_pairs *outs, const kv_call *call)
FAILS(fail_rows, kv_array *const *ids, const kv_pairs *outs, const kv_call *call)
FAILS(fail_key, const kv_key *key)
FAILS(fail_command, int head, const char *body)
FAILS(fail_optimizer, const char *kind, const char *text, const kv_opt *params, int nparams)
FAILS(fail_states, kv_states_visit why, int (*use)(void *arg, kv_err *e), void *arg)
FAILS(fail_cluster, kv_rank_info **rows, int64_t *n)
FAILS(fail_rounds, kv_visitor visit, void *arg)
FAILS(fail_peek, const kv_key *key, kv_array **out, int64_t rounds[2])
FAILS(mistaken_updater, const kv_key *key, kv_array *input, kv_array *stored)

static int fail_store(void *self, kv_err *e)
{
    return fail();
}

static int visit(void *arg, const kv_field *fields, int n, kv_err *e)
{
    return KV_OK;
}

/* One process a call, because every call after the first failure would report it. */
#define REPORTS(call)                                                                              \
    do {                                                                                           \
        int status = -1;                                                                           \
        pid_t child = fork();                                                                      \
        if (child == 0)                                                                            \
            _exit((call) == KV_E_INTERNAL && strcmp(e.text, REPORT) == 0 ? 0 : 1);                 \
        CHECK(waitpid(child, &status, 0) == child && status == 0);                                 \
    } while (0)

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
    own_kv *s = make("mistaken");
    kv_key k = id(3);
    own_array *a = filled(1),
              *ids = MADE(kv_array, kv_array_new, KV_INT64, 1, (int64_t[]){2}, cpu0);
    kv_array *out = NULL;
    kv_info info;
    REPORTS(kv_init(s, &k, 1, &a, NULL, &e));
    REPORTS(kv_push(s, &k, 1, &a, NULL, &e));
    REPORTS(kv_pull(s, &k, 1, &a, NULL, &e));
    REPORTS(kv_row_sparse_pull(s, &k, 1, &ids, &a, NULL, &e));
    REPORTS(kv_pushpull(s, &k, 1, &a, NULL, 0, NULL, NULL, &e));
    REPORTS(kv_broadcast(s, &k, 1, &a, &k, 1, &a, NULL, &e));
    REPORTS(kv_barrier(s, &e));
    REPORTS(kv_done(s, &e));
    REPORTS(kv_send_command(s, 1, "x", &e));
    REPORTS(kv_await_key(s, &k, &info, &e));
    REPORTS(kv_set_optimizer(s, "sgd", NULL, 0, &e));
    REPORTS(kv_set_updater(s, NULL, NULL, NULL, &e));
    REPORTS(kv_save_states(s, "/nowhere/s", 0, &e));
    REPORTS(kv_load_states(s, "/nowhere/s", &e));
    REPORTS(kv_peek(s, &k, &out, (int64_t[2]){0}, &e));
    static const char *const tables[] = {"cluster", "states", "rounds", "optimizer"};
    for (int i = 0; i < 4; i++)
        REPORTS(kv_describe(s, tables[i], visit, NULL, &e));
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
        FAIL();
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
