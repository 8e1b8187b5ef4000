/* Assertions: conditions that fail only when this program itself is wrong.
 *
 * Bad input, a full disk and a lost rank are errors (kv_err.h), never assertions. Assertions stay
 * in releases, where they guard state machines and not loops over elements.
 *
 * A failed assertion calls the handler. The tool's handler prints the report and ends the process
 * with exit code 70, before wrong data can be saved. A library must not end its user's process, so
 * without a handler the first report is kept and the program goes on; the public function of a
 * store that found it and all later ones return it as KV_E_INTERNAL, because nothing in memory can
 * be trusted. Where
 * going on would leave the bounds of an array, the caller of kv_assert asks for its value:
 *
 *     if (!kv_assert(part < r->nparts, "round %lld has %d parts, not part %d", number, n, part))
 *         return;
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "base/kv_err.h"
#include "kv_err.h"

/* Returns the truth of cond. The text, as of printf, gives the state found, and why it cannot
 * be.
 *
 * ALWAYS(cond) and NEVER(cond) mark a condition that no caller can make false, or true, and that is
 * asked nonetheless so that a mistake elsewhere ends in an error and not outside of an array. They
 * are the condition itself, and nothing is reported; builds that look for mistakes (KV_TEST, which
 * the sanitizers define) assert it. The comment beside one says why it cannot happen.
 *
 * Builds that count what tests reach (KV_COVERAGE) make constants of all three and ask nothing:
 * the branch that no test can reach is compiled out and does not count as untested. */
#ifdef KV_COVERAGE
#define kv_assert(cond, ...)                                                                       \
    ((void)sizeof(!!(cond)),                                                                       \
     (void)sizeof(kv_assert_fail(__FILE__, __LINE__, #cond, __VA_ARGS__)), true)
#define ALWAYS(cond) ((void)sizeof(!!(cond)), true)
#define NEVER(cond) ((void)sizeof(!!(cond)), false)
#else
#define kv_assert(cond, ...)                                                                       \
    kv_assert_value(__builtin_expect(!!(cond), 1) ||                                               \
                    kv_assert_fail(__FILE__, __LINE__, #cond, __VA_ARGS__))
#ifdef KV_TEST
#define ALWAYS(cond) kv_assert(cond, "a defence was needed")
#define NEVER(cond) (!kv_assert(!(cond), "a defence was needed"))
#else
#define ALWAYS(cond) __builtin_expect(!!(cond), 1)
#define NEVER(cond) __builtin_expect(!!(cond), 0)
#endif
#endif

/* A function, because the compiler warns of an unused value where an assertion is a statement. */
static inline bool kv_assert_value(bool holds)
{
    return holds;
}

/* Called once for each failed assertion, on the thread that found it, with one finished sentence.
 * It may end the process. NULL, as at the start: the report is kept. */
void kv_assert_on_failure(void (*handler)(const char *report));

/* Set with the first failure, and never cleared. */
extern atomic_bool kv_assert_failed;

/* Replaces the error in e by the first report. Returns KV_E_INTERNAL. */
int kv_assert_report(kv_err *e) __attribute__((cold));

/* The return code of a public function: rc, or the first report if any assertion failed. */
static inline int kv_assert_check(int rc, kv_err *e)
{
    bool failed = atomic_load_explicit(&kv_assert_failed, memory_order_acquire);
    return __builtin_expect(failed, 0) ? kv_assert_report(e) : rc;
}

/* Returns false. Use kv_assert. */
bool kv_assert_fail(const char *file, int line, const char *condition, const char *fmt, ...)
    __attribute__((cold, noinline, format(printf, 4, 5)));

/* Arguments of public functions that may not be NULL. Elsewhere a NULL is the mistake of the caller
 * and is not looked for. */

/* KV_OK, or usage with the name of the argument. given: the pointer itself. */
static inline int arg_given(bool given, const char *name, kv_err *e)
{
    return given ? KV_OK : kv_err_set(e, KV_E_USAGE, "the argument `%s` is NULL", name);
}
