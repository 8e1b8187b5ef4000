/* Store types by name, the log, virtual GPUs.
 *
 * Types come from three places: those built in, those registered (by programs and plugins), and a
 * constant table of those that a plugin would bring. Names are compared without regard to case.
 */
#include "runtime.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <strings.h>

#include "array/device.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/suggest.h"
#include "local/local.h"

static const kv_type_ops *const built_in[] = {&local_type_ops, &device_type_ops};

enum { NBUILT_IN = sizeof built_in / sizeof *built_in, MAX_NAMES = 8 };

/* Types that are not in the library itself, and what would bring them. */
static const struct absent {
    const char *names[4]; /* the name and its aliases */
    const char *reason;
} absent[] = {
    {{"nccl"}, "needs the CUDA plugin, which is not in this build"},
    {{"dist_sync", "dist"}, "needs the MPI plugin, which is not in this build"},
    {{"dist_async"}, "needs the MPI plugin, which is not in this build"},
    {{"dist_device_sync", "dist_sync_device"}, "needs the MPI plugin, which is not in this build"},
    {{"dist_device_async", "dist_async_device"},
     "needs the MPI plugin, which is not in this build"},
    {{"horovod"}, "needs the MPI plugin, which is not in this build"},
    {{"byteps"}, "needs the MPI plugin, which is not in this build"},
    {{"teststore"}, "needs the test plugin, which is not in this build"},
};

enum { NABSENT = sizeof absent / sizeof *absent };

/* The state. lock covers all of it; a registered table stays for ever, so pointers to it outlive
 * the lock. */
static struct runtime {
    pthread_mutex_t lock;
    const kv_type_ops **types; /* registered ones */
    int64_t ntypes, cap;
    void (*log)(void *arg, const char *text);
    void *log_arg;
} runtime = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- Types ---- */

/* The name among names (NULL behind the last, or max of them) that equals one, or NULL. */
static const char *match(const char *const *names, int max, const char *one)
{
    for (int i = 0; i < max && names[i]; i++) {
        if (strcasecmp(names[i], one) == 0)
            return names[i];
    }
    return NULL;
}

/* The i-th of all types that can be made, or NULL behind the last. Call with the lock held. */
static const kv_type_ops *type_at(int64_t i)
{
    if (i < NBUILT_IN)
        return built_in[i];
    return i - NBUILT_IN < runtime.ntypes ? runtime.types[i - NBUILT_IN] : NULL;
}

static const kv_type_ops *find_type(const char **name)
{
    const kv_type_ops *ops;
    for (int64_t i = 0; (ops = type_at(i)); i++) {
        const char *found = match(ops->names, MAX_NAMES, *name);
        if (found) {
            *name = found;
            return ops;
        }
    }
    return NULL;
}

static const struct absent *find_absent(const char *name)
{
    for (int i = 0; i < NABSENT; i++) {
        if (match(absent[i].names, 4, name))
            return &absent[i];
    }
    return NULL;
}

/* Hints at the names that look like this one, else at those that can be had. */
static void hint_names(const char *name, kv_err *e)
{
    suggest close = {.word = name};
    char list[200];
    int len = 0;
    const kv_type_ops *ops;
    list[0] = '\0';
    for (int64_t i = 0; (ops = type_at(i)); i++) {
        suggest_add(&close, ops->names[0]);
        int room = (int)sizeof list - len;
        int n = snprintf(list + len, (size_t)room, "%s%s", i ? ", " : "", ops->names[0]);
        len += n < room ? n : room - 1;
    }
    for (int i = 0; i < NABSENT; i++)
        suggest_add(&close, absent[i].names[0]);
    suggest_done(&close, e);
    kv_err_hint(e, "available here: %s", list);
}

int runtime_find_type(const char **name, const kv_type_ops **ops, kv_err *e)
{
    pthread_mutex_lock(&runtime.lock);
    *ops = find_type(name);
    if (!*ops) {
        const struct absent *a = find_absent(*name);
        if (a)
            kv_err_set(e, KV_E_UNSUPPORTED, "the type \"%s\" %s", a->names[0], a->reason);
        else
            kv_err_set(e, KV_E_UNSUPPORTED, "there is no store type \"%.64s\"", *name);
        hint_names(a ? "" : *name, e);
    }
    pthread_mutex_unlock(&runtime.lock);
    return *ops ? KV_OK : KV_E_UNSUPPORTED;
}

static int check_table(const kv_type_ops *ops, kv_err *e)
{
    if (ops->version != KV_TYPE_VERSION || ops->size != sizeof *ops)
        return kv_err_set(e, KV_E_VALUE,
                          "the table of a type has version %u and %u bytes, this library takes "
                          "version %u and %zu bytes",
                          ops->version, ops->size, KV_TYPE_VERSION, sizeof *ops);
    if (!ops->names || !ops->names[0] || !ops->open || !ops->init || !ops->push || !ops->pull)
        return kv_err_set(e, KV_E_VALUE,
                          "the table of a type needs a name, open, init, push, pull");
    return KV_OK;
}

int kv_register_type(const kv_type_ops *ops, kv_err *e)
{
    int rc = check_table(ops, e);
    if (rc)
        return rc;
    pthread_mutex_lock(&runtime.lock);
    for (int i = 0; i < MAX_NAMES && ops->names[i] && rc == KV_OK; i++) {
        const char *name = ops->names[i];
        if (find_type(&name))
            rc = kv_err_set(e, KV_E_NAME, "there is a store type \"%s\" already", name);
    }
    if (rc == KV_OK)
        rc = mem_grow(&runtime.types, &runtime.cap, runtime.ntypes + 1, sizeof *runtime.types, e);
    if (rc == KV_OK)
        runtime.types[runtime.ntypes++] = ops;
    pthread_mutex_unlock(&runtime.lock);
    return rc;
}

/* One row: the first name, the others as one text, whether it can be made, else why not. */
static int describe(const char *const *names, int max, const char *reason, kv_visitor visit,
                    void *arg, kv_err *e)
{
    buf aliases = {0};
    for (int i = 1; i < max && names[i]; i++)
        buf_printf(&aliases, "%s%s", i > 1 ? " " : "", names[i]);
    int rc = buf_check(&aliases, e);
    kv_field fields[] = {{.name = "name", .text = names[0]},
                         {.name = "aliases", .text = buf_text(&aliases)},
                         {.name = "available", .number = !reason},
                         {.name = "reason", .text = reason ? reason : ""}};
    if (rc == KV_OK)
        rc = visit(arg, fields, sizeof fields / sizeof *fields, e);
    buf_release(&aliases);
    return rc;
}

int runtime_describe_types(kv_visitor visit, void *arg, kv_err *e)
{
    int rc = KV_OK;
    for (int64_t i = 0; rc == KV_OK; i++) {
        /* The visitor runs without the lock; what was registered stays registered. */
        pthread_mutex_lock(&runtime.lock);
        const kv_type_ops *ops = type_at(i);
        pthread_mutex_unlock(&runtime.lock);
        if (!ops)
            break;
        rc = describe(ops->names, MAX_NAMES, NULL, visit, arg, e);
    }
    for (int i = 0; i < NABSENT && rc == KV_OK; i++) {
        const char *name = absent[i].names[0];
        pthread_mutex_lock(&runtime.lock);
        bool brought = find_type(&name);
        pthread_mutex_unlock(&runtime.lock);
        if (!brought)
            rc = describe(absent[i].names, 4, absent[i].reason, visit, arg, e);
    }
    return rc;
}

/* ---- Log ---- */

void kv_set_log(void (*log)(void *arg, const char *text), void *arg)
{
    pthread_mutex_lock(&runtime.lock);
    runtime.log = log;
    runtime.log_arg = arg;
    pthread_mutex_unlock(&runtime.lock);
}

void runtime_log(const char *fmt, ...)
{
    char text[512];
    va_list ap;
    pthread_mutex_lock(&runtime.lock);
    void (*log)(void *arg, const char *text) = runtime.log;
    void *arg = runtime.log_arg;
    pthread_mutex_unlock(&runtime.lock);
    if (!log)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    log(arg, text);
}

/* ---- Virtual GPUs ---- */

int kv_set_virtual_gpus(int n, kv_err *e)
{
    if (n < 0 || n > KV_CTX_MAX + 1)
        return kv_err_set(e, KV_E_VALUE, "%d virtual GPUs are not possible: 0 to %d are", n,
                          KV_CTX_MAX + 1);
    dev_set_virtual_gpus(n);
    return KV_OK;
}
