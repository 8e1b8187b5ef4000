/* Assertions that stay in releases. */
#include "base/kv_assert.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void (*_Atomic on_failure)(const char *report);
atomic_bool kv_assert_failed;
static char first_report[sizeof ((kv_err *)0)->text];

void kv_assert_on_failure(void (*handler)(const char *report))
{
    atomic_store(&on_failure, handler);
}

bool kv_assert_fail(const char *file, int line, const char *condition, const char *fmt, ...)
{
    char state[256], report[sizeof first_report];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(state, sizeof state, fmt, ap);
    va_end(ap);
    snprintf(report, sizeof report, "%s:%d: %s does not hold: %s; this is a bug in kvstore", file,
             line, condition, state);

    pthread_mutex_lock(&lock);
    if (!atomic_load(&kv_assert_failed)) {
        snprintf(first_report, sizeof first_report, "%s", report);
        atomic_store(&kv_assert_failed, true);
    }
    pthread_mutex_unlock(&lock);

    void (*handler)(const char *) = atomic_load(&on_failure);
    if (handler)
        handler(report);
    return false;
}

int kv_assert_report(kv_err *e)
{
    if (e)
        *e = (kv_err){0};
    return kv_err_set(e, KV_E_INTERNAL, "%s", first_report);
}
