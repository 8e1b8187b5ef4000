/* Runs the unit tests: one process and a time limit each, verdicts as TAP. An argument runs only
 * the tests whose names begin with it, several in their order; after -x the first failure ends it.
 * $TEST_SECONDS is another limit, for slow builds; with $TEST_RANDOM tests of random programs and
 * rules try that many, of the seed $TEST_SEED. The exit status says whether all passed. */
#include "base/file.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "kvstore.h"
#include "test.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define TEST_SECONDS 60
#define EXIT_SKIPPED 77

#define TEST_ENTRY(name) void test_##name(void);
#include "test_list.h"
#undef TEST_ENTRY

static const struct {
    const char *name;
    void (*run)(void);
} tests[] = {
#define TEST_ENTRY(name) {#name, test_##name},
#include "test_list.h"
#undef TEST_ENTRY
};

void test_kv_free(void *variable)
{
    kv_free(*(kv **)variable);
}

void test_kv_rule_free(void *variable)
{
    kv_rule_free(*(kv_rule **)variable);
}

void test_free(void *variable)
{
    free(*(void **)variable);
}

void test_unref_all(void *list)
{
    for (kv_array **a = list; *a; a++)
        kv_array_unref(*a);
}

const void *array_elements(kv_array *a)
{
    const void *data = NULL;
    CHECK_OK(kv_array_read(a, &data, &e));
    return data;
}

void *array_data(kv_array *a)
{
    void *data = NULL;
    CHECK_OK(kv_array_write(a, &data, &e));
    return data;
}

const void *row_elements(kv_array *a)
{
    const void *data = NULL;
    CHECK_OK(kv_array_read_rows(a, &data, &e));
    return data;
}

void *row_data(kv_array *a)
{
    void *data = NULL;
    CHECK_OK(kv_array_write_rows(a, &data, &e));
    return data;
}

char *file_text(const char *path, size_t *n)
{
    char *text = NULL;
    CHECK_OK(file_read(path, &text, n, &e));
    return text;
}

void file_fill(const char *path, const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(data, 1, n, f) == n && fclose(f) == 0);
}

static void fail(const char *file, int line)
{
    printf("# %s:%d\n", file, line);
    fflush(stdout);
    _exit(1);
}

int test_begin_child(const char *threads)
{
    fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0 && threads)
        setenv("KVSTORE_THREADS", threads, 1);
    else if (child == 0)
        unsetenv("KVSTORE_THREADS");
    return child;
}

int test_end_child(int child, const char *file, int line)
{
    int status = -1;
    if (child == 0) {
        CHECK_OK(kv_assert_check(KV_OK, &e));
        fflush(stdout);
        _exit(0);
    }
    if (waitpid(child, &status, 0) == child && WIFEXITED(status) &&
        WEXITSTATUS(status) == EXIT_SKIPPED) {
        fflush(stdout);
        _exit(EXIT_SKIPPED);
    }
    test_int(status, 0, "the end of the child", file, line);
    return -1;
}

void *test_shared(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED);
    return p;
}

void test_check(int ok, const char *what, const char *file, int line)
{
    if (ok)
        return;
    printf("# does not hold: %s\n", what);
    fail(file, line);
}

void test_int(int64_t got, int64_t want, const char *what, const char *file, int line)
{
    if (got == want)
        return;
    printf("# %s is %lld, not %lld\n", what, (long long)got, (long long)want);
    fail(file, line);
}

void test_text(const char *got, const char *want, const char *what, const char *file, int line)
{
    if (got && strcmp(got, want) == 0)
        return;
    printf("# %s is \"%s\", not \"%s\"\n", what, got ? got : "(null)", want);
    fail(file, line);
}

void test_ok(int code, const kv_err *e, const char *what, const char *file, int line)
{
    if (code == KV_OK)
        return;
    printf("# %s fails: %s: %s\n", what, kv_code_name(code), e->text);
    fail(file, line);
}

int test_tried(int code, const kv_err *e, const char *what, const char *file, int line)
{
    mem_fail_at(0);
    if (code != KV_OK)
        test_int(code, KV_E_MEMORY, what, file, line);
    test_int(e->code, code, what, file, line);
    return code;
}

void test_err(int code, kv_err *e, int want, const char *text, const char *what, const char *file,
              int line)
{
    if (code != want || e->code != want || (text && strcmp(e->text, text) != 0)) {
        printf("# %s gives %s: \"%s\",\n#   not %s: \"%s\"\n", what, kv_code_name(code), e->text,
               kv_code_name(want), text ? text : "any text");
        fail(file, line);
    }
    memset(e, 0, sizeof *e);
}

/* Shared with the child, which leaves here why it was skipped. */
static char *skip_reason;
enum { REASON_BYTES = 256 };

void test_skip(const char *reason)
{
    snprintf(skip_reason, REASON_BYTES, "%s", reason);
    fflush(stdout);
    _exit(EXIT_SKIPPED);
}

/* A number of the environment, or the usual one. */
static uint64_t setting(const char *name, uint64_t usual)
{
    const char *text = getenv(name);
    uint64_t given = text ? strtoull(text, NULL, 10) : 0;
    return given ? given : usual;
}

int64_t test_random(int64_t usual)
{
    return (int64_t)setting("TEST_RANDOM", (uint64_t)usual);
}

uint64_t test_seed(uint64_t usual)
{
    return setting("TEST_SEED", usual);
}

/* A test whose name does not begin with assert_ makes no assertion of the library fail. */
static void check_assertions(const char *name)
{
    kv_err e = {0};
    if (strncmp(name, "assert_", 7) != 0 && kv_assert_check(KV_OK, &e)) {
        printf("# %s\n", e.text);
        fflush(stdout);
        _exit(1);
    }
}

#ifdef __SANITIZE_ADDRESS__
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:__argz_add_sep"; /* of glibc's setlocale, with LOCPATH */
}
#endif

/* Runs one test in a child; returns its wait status. */
static int run(const char *name, void (*test)(void))
{
    fflush(stdout);
    pid_t child = fork();
    if (child < 0) {
        perror("fork");
        exit(1);
    }
    if (child == 0) {
        alarm((unsigned)setting("TEST_SECONDS", TEST_SECONDS));
        test();
        check_assertions(name);
        fflush(stdout);
        /* exit, not _exit: a sanitizer reports leaks on the way out */
        exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return status;
}

static int n, failed;

/* Runs the tests whose names begin with a text, of which there must be one. */
static void run_those(const char *prefix, bool stops)
{
    int found = 0;
    for (size_t i = 0; i < sizeof tests / sizeof *tests && !(stops && failed); i++) {
        if (strncmp(tests[i].name, prefix, strlen(prefix)) != 0)
            continue;
        int status = run(tests[i].name, tests[i].run);
        found++;
        n++;
        if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SKIPPED) {
            printf("ok %d - %s # SKIP %s\n", n, tests[i].name, skip_reason);
        } else if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
            printf("ok %d - %s\n", n, tests[i].name);
        } else {
            if (WIFSIGNALED(status))
                printf("# ended by signal %d (%s)\n", WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
            printf("not ok %d - %s\n", n, tests[i].name);
            failed++;
        }
    }
    if (found == 0 && !(stops && failed)) {
        printf("# no test has a name that begins with \"%s\"\n", prefix);
        failed++;
    }
}

int main(int argc, char **argv)
{
    skip_reason = mmap(NULL, REASON_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                       -1, 0);
    if (skip_reason == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    kv_assert_on_failure(NULL); /* tests/fuzz/fuzz.c ends the process */
    bool stops = argc > 1 && strcmp(argv[1], "-x") == 0;
    int first = 1 + stops;
    if (first == argc)
        run_those("", stops);
    for (int i = first; i < argc; i++)
        run_those(argv[i], stops);
    printf("1..%d\n", n);
    return failed > 0;
}
