/* Work that takes long ends early when it is told to, with nothing left behind. */
#include <pthread.h>
#include <stdatomic.h>
#include <ucontext.h>

#include "array/arrange.h"
#include "array/slice.h"
#include "base/stop.h"
#include "engine/pool.h"
#include "io/csv.h"
#include "io/json.h"
#include "io/print.h"
#include "lang/parse.h"
#include "test.h"
#include "vm/expr.h"

static const kv_ctx cpu0 = {KV_CPU, 0};

static int never(void)
{
    return 0;
}

static int always(void)
{
    return 1;
}

/* 0 when it is asked the first time, so that work has begun. */
static int later(void)
{
    static _Atomic int asked;
    return asked++ % 2;
}

TEST(stop_answers)
{
    CHECK(!stop_asked());
    CHECK_OK(stop_check(&e));
    stop_ask(never);
    CHECK_OK(stop_check(&e));
    stop_ask(always);
    CHECK(stop_asked());
    CHECK_ERR(stop_check(&e), KV_E_INTERRUPTED, "interrupted");
    CHECK_ERR(stop_check_at(8192, &e), KV_E_INTERRUPTED, "interrupted");
    CHECK_OK(stop_check_at(8193, &e));
    stop_ask(NULL);
    CHECK_OK(stop_check(&e));
}

static int mine(void *arg)
{
    (*(_Atomic int *)arg)++;
    return 0;
}

static void ask(void *arg, int64_t part, int worker)
{
    (void)part, (void)worker;
    atomic_fetch_add((_Atomic int *)arg, stop_asked());
}

static pool_flag task_ended;

static void ask_as_task(pool_task *t)
{
    (void)t;
    CHECK(stop_asked());
    pool_signal(&task_ended);
}

/* A thread's own answer counts for it, and for the parts of its work in other threads, and for
 * nobody else. */
TEST(stop_answers_of_a_thread)
{
    _Atomic int asked = 0, yes = 0;
    pool_task t = {.run = ask_as_task, .priority = 1};
    stop_ask(always);
    stop_answer before = stop_ask_here((stop_answer){mine, &asked});
    CHECK(!before.pending && !stop_asked());
    CHECK_INT(asked, 1);
    pool_run(1000, ask, &yes);
    CHECK_INT(yes, 0);
    CHECK_INT(asked, 1001);
    pool_submit(&t);
    pool_wait(&task_ended); /* runs it, if no other thread does */
    CHECK(stop_ask_here(before).arg == &asked);
    pool_run(1000, ask, &yes);
    CHECK_INT(yes, 1000);
    stop_ask(NULL);
}

static kv_array *large(void)
{
    return MADE(kv_array, kv_array_new, KV_FLOAT32, 2, (int64_t[]){1000, 2000}, cpu0);
}

#define ENDS(call)                                                                                 \
    do {                                                                                           \
        kv_array *out = NULL;                                                                      \
        CHECK_ERR(call, KV_E_INTERRUPTED, "interrupted");                                          \
        CHECK(!out);                                                                               \
        stop_ask(NULL);                                                                            \
        CHECK_OK(call);                                                                            \
        kv_array_unref(out);                                                                       \
        stop_ask(how[i]);                                                                          \
    } while (0)

TEST(stop_arrangements)
{
    int (*const how[])(void) = {always, later};
    kv_array *a = large(), *pair[2] = {a, a}, *some[3] = {a, a, a};
    for (int i = 0; i < 2; i++) {
        e = (kv_err){0};
        const array_range back = {.step = -1};
        stop_ask(how[i]);
        ENDS(arrange_zeros(&out, KV_INT8, 2, kv_array_shape(a), cpu0, &e));
        ENDS(arrange_copy(&out, a, KV_FLOAT64, cpu0, &e));
        ENDS(arrange_transpose(&out, a, NULL, 0, &e));
        ENDS(arrange_reshape(&out, a, 1, (int64_t[]){-1}, &e));
        ENDS(arrange_broadcast(&out, a, 3, (int64_t[]){2, 1000, 2000}, &e));
        ENDS(arrange_concat(&out, pair, 2, 0, KV_FLOAT32, &e));
        ENDS(arrange_stack(&out, some, 3, 1, KV_FLOAT64, &e));
        ENDS(arrange_repeat(&out, a, 3, 0, &e));
        ENDS(arrange_tile(&out, a, (int64_t[]){2, 2}, 2, &e));
        ENDS(array_slice(&out, a, &back, 1, &e));
    }
    stop_ask(NULL);
    kv_array_unref(a);
}

/* A file that is written in place is written to its end. */
TEST(stop_not_in_place)
{
    own_array *a = large(), *one = NULL;
    float three = 3;
    CHECK_OK(kv_array_wrap(&one, &three, KV_FLOAT32, 0, NULL, cpu0, NULL, NULL, &e));
    stop_ask(always);
    CHECK_OK(array_assign_slice(a, NULL, 0, one, &e));
    stop_ask(NULL);
    const float *data = array_elements(a);
    CHECK(data[0] == 3 && data[1999999] == 3);
}

TEST(stop_texts)
{
    own_array *a = large();
    own_buf text = {0};
    print_style style = print_style_default();
    style.threshold = INT64_MAX;
    stop_ask(always);
    CHECK_ERR(csv_write_array(&text, a, &e), KV_E_INTERRUPTED, "interrupted");
    CHECK_ERR(json_write(&text, a, &e), KV_E_INTERRUPTED, "interrupted");
    style.may_stop = true;
    CHECK_ERR(print_array(&text, a, &style, &e), KV_E_INTERRUPTED, "interrupted");
    stop_ask(NULL);
}

TEST(stop_expressions)
{
    kv_array *a = large(), *out = NULL;
    own_arena nodes = {0};
    const source src = {.name = "x", .text = "x*2 + x", .len = 7, .line = 1, .col = 1};
    ast *tree = MADE(ast, parse_expr_text, &src, &nodes);
    const expr_leaf leaves[] = {{.array = a}, {.number = host_int(2)}, {.array = a}};
    stop_ask(always);
    CHECK_ERR(expr_eval(&out, tree, leaves, 3, &src, &e), KV_E_INTERRUPTED, "interrupted");
    CHECK(!out);
    stop_ask(NULL);
    kv_array_unref(a);
}

/* What a thread's stack has left. tests/cli/limits.bats has what recursions do then. */

static ucontext_t outside, inside;
static bool low;
static size_t room;

static void look(void)
{
    low = stack_runs_low();
    room = stack_room();
    swapcontext(&inside, &outside);
}

/* A thread's stack ends where the C library says, give or take some pages. */
TEST(stack_of_a_thread)
{
    enum { SPARE = 512 << 10, SLACK = 64 << 10 };
    pthread_attr_t attr;
    void *base;
    char here;
    CHECK(pthread_getattr_np(pthread_self(), &attr) == 0);
    CHECK(pthread_attr_getstack(&attr, &base, &(size_t){0}) == 0);
    size_t left = (size_t)(&here - (char *)base) - SPARE, found = stack_room();
    CHECK(found < left + SLACK && left < found + SLACK);
    pthread_attr_destroy(&attr);
}

/* A program may run us on a stack that it made itself: of that nothing is known. */
TEST(stack_of_a_coroutine)
{
    size_t size = 256 << 10;
    OWN(test_free) char *own = malloc(size);
    CHECK(own && !stack_runs_low() && stack_room() < SIZE_MAX);
    CHECK(getcontext(&inside) == 0);
    inside.uc_stack.ss_sp = own;
    inside.uc_stack.ss_size = size;
    inside.uc_link = &outside;
    makecontext(&inside, look, 0);
    low = true;
    CHECK(swapcontext(&outside, &inside) == 0);
    CHECK(!low && room == SIZE_MAX);
    CHECK(stack_room() < SIZE_MAX);
}
