/* Store types by name, plugins that bring them, GPUs, the log.
 *
 * Types come from three places: those built in, those registered (by programs and plugins), and a
 * constant table of those that a plugin would bring, which is loaded when one is asked for. Names
 * are compared without regard to case.
 */
#include "runtime.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "array/device.h"
#include "base/buf.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "base/suggest.h"
#include "engine/pool.h"
#include "local/local.h"

static _Thread_local int patience = -1;

void kv_set_patience(int ms)
{
    patience = ms;
}

int runtime_patience(void)
{
    return patience;
}

void kv_set_script(kv_place place, void *arg, bool slices)
{
    script_set(place, arg, slices);
}

static bool has_joined; /* atomic */

void runtime_joined(void)
{
    __atomic_store_n(&has_joined, true, __ATOMIC_RELEASE);
}

bool runtime_has_joined(void)
{
    return __atomic_load_n(&has_joined, __ATOMIC_ACQUIRE);
}

/* ---- Updaters that call other stores ---- */

static _Thread_local const kv *updater;

const kv *runtime_updater(void)
{
    return updater;
}

const kv *runtime_set_updater(const kv *store)
{
    const kv *before = updater;
    updater = store;
    return before;
}

/* A call that was made: the updater of `from` has called `to`. */
typedef struct store_call {
    const kv *from, *to;
} store_call;

static struct {
    pthread_mutex_t lock;
    store_call *calls;
    int64_t n, cap;
} order = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Returns true if calls lead from one store to another. The calls themselves make no circle. */
static bool leads(const kv *from, const kv *to)
{
    for (int64_t i = 0; i < order.n; i++)
        if (order.calls[i].from == from &&
            (order.calls[i].to == to || leads(order.calls[i].to, to)))
            return true;
    return false;
}

int runtime_order(const kv *from, const kv *to, kv_err *e)
{
    int rc = KV_OK;
    bool known = false;
    pthread_mutex_lock(&order.lock);
    for (int64_t i = 0; i < order.n && !known; i++)
        known = order.calls[i].from == from && order.calls[i].to == to;
    if (!known && leads(to, from)) {
        rc = kv_err_set(e, KV_E_USAGE,
                        "an updater calls a store whose updater calls the store of this one: each "
                        "could wait for the other");
        kv_err_hint(e, "pull outside of one of the two updaters");
    } else if (!known && (rc = mem_grow(&order.calls, &order.cap, order.n + 1, sizeof *order.calls,
                                        e)) == KV_OK) {
        order.calls[order.n++] = (store_call){from, to};
    }
    pthread_mutex_unlock(&order.lock);
    return rc;
}

void runtime_forget_order(const kv *store, bool gone)
{
    int64_t n = 0;
    pthread_mutex_lock(&order.lock);
    for (int64_t i = 0; i < order.n; i++)
        if (order.calls[i].from != store && !(gone && order.calls[i].to == store))
            order.calls[n++] = order.calls[i];
    order.n = n;
    if (n == 0) {
        mem_free(order.calls);
        order.calls = NULL;
        order.cap = 0;
    }
    pthread_mutex_unlock(&order.lock);
}

/* The last one is there when a plugin has brought GPUs. */
static const kv_type_ops *const built_in[] = {&local_type_ops, &device_type_ops,
                                              &teststore_type_ops, &nccl_type_ops};

enum { NBUILT_IN = sizeof built_in / sizeof *built_in, MAX_NAMES = 8 };

/* Types that are not in the library itself, and the plugin that would bring them. Those of one
 * plugin stand together. */
static const struct absent {
    const char *names[4]; /* the name and its aliases */
    const char *plugin, *file;
} absent[] = {
    {{"nccl"}, "CUDA", "kvstore_cuda.so"},
    {{"dist_sync", "dist"}, "MPI", "kvstore_mpi.so"},
    {{"dist_async"}, "MPI", "kvstore_mpi.so"},
    {{"dist_device_sync", "dist_sync_device"}, "MPI", "kvstore_mpi.so"},
    {{"dist_device_async", "dist_async_device"}, "MPI", "kvstore_mpi.so"},
    {{"horovod"}, "MPI", "kvstore_mpi.so"},
    {{"byteps"}, "MPI", "kvstore_mpi.so"},
};

enum { NABSENT = sizeof absent / sizeof *absent, PATH_BYTES = 4096 };

typedef struct registered {
    const kv_type_ops *ops;
    const char *base; /* of a name for another type: which; else NULL */
    bool loading; /* by a plugin that has not started yet */
} registered;

/* The state. lock covers all of it; a registered table stays for ever, so pointers to it outlive
 * the lock. */
static struct runtime {
    pthread_mutex_t lock;
    registered *types;
    int64_t ntypes, cap;
    void **plugins; /* handles of the plugins that have started */
    int64_t nplugins, plugins_cap;
    bool loading;     /* a plugin starts, */
    pthread_t loader; /* on this thread */
    void (*log)(void *arg, const char *text);
    void *log_arg;
    pthread_mutex_t load_lock; /* covers the loading of a plugin as a whole; taken before lock */
} runtime = {.lock = PTHREAD_MUTEX_INITIALIZER,
             .load_lock = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP};

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
    int64_t n = NBUILT_IN - !gpu_is_there();
    if (i < n)
        return built_in[i];
    return i - n < runtime.ntypes ? runtime.types[i - n].ops : NULL;
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

/* ---- Looking for a type ---- */

/* Hints at the names close to name, and at all types but those of the same plugin as `without`
 * (NULL: none), which is not there. Whether another plugin that is not loaded can start is not
 * known, so the list does not say which types work here. */
static void hint_types(const char *name, const struct absent *without, kv_err *e)
{
    suggest close = {.word = name};
    kv_err near = {.code = KV_E_UNSUPPORTED};
    const kv_type_ops *ops;
    own_buf list = {0};
    for (int64_t i = 0; (ops = type_at(i)); i++) {
        buf_printf(&list, "%s%s", i ? ", " : "", ops->names[0]);
        for (int k = 0; k < MAX_NAMES && ops->names[k]; k++)
            suggest_add(&close, ops->names[k]);
    }
    for (int i = 0; i < NABSENT; i++) {
        const char *one = absent[i].names[0];
        if (find_type(&one))
            continue; /* its plugin is loaded */
        if (without && strcmp(absent[i].file, without->file) == 0)
            continue;
        buf_printf(&list, ", %s", one);
        suggest_add(&close, one);
    }
    suggest_done(&close, &near);
    kv_err_hint(e, "%s%stypes: %s; kvctl help types says what each needs", near.hint,
                near.hint[0] ? " " : "", buf_text(&list));
}

static const char *absent_reason(void)
{
    return plugin_possible() ? "which is not in this build"
                             : "which the static library cannot load";
}

/* Loads the plugin of a type. Call without the lock. */
static int load_absent(const struct absent *a, kv_err *e)
{
    char path[PATH_BYTES];
    kv_err why = {0};
    if (!plugin_find(path, sizeof path, a->file))
        return kv_err_set(e, KV_E_UNSUPPORTED, "the type \"%s\" needs the %s plugin, %s",
                          a->names[0], a->plugin, absent_reason());
    if (kv_load_plugin(path, &why) == KV_OK)
        return KV_OK;
    kv_err_set(e, KV_E_UNSUPPORTED, "the type \"%s\" is not available: %s", a->names[0], why.text);
    kv_err_hint(e, "%s", why.hint);
    return KV_E_UNSUPPORTED;
}

static const kv_type_ops *find_locked(const char **name)
{
    pthread_mutex_lock(&runtime.lock);
    const kv_type_ops *ops = find_type(name);
    pthread_mutex_unlock(&runtime.lock);
    return ops;
}

int runtime_find_type(const char **name, const kv_type_ops **ops, kv_err *e)
{
    if ((*ops = find_locked(name)))
        return KV_OK;
    const struct absent *a = find_absent(*name);
    if (a && load_absent(a, e) == KV_OK && (*ops = find_locked(name)))
        return KV_OK;
    if (a) /* a plugin was loaded that does not bring what its name promises */
        kv_err_set(e, KV_E_UNSUPPORTED, "the plugin %s brings no type \"%s\"", a->file,
                   a->names[0]);
    else
        kv_err_set(e, KV_E_UNSUPPORTED, "there is no store type \"%.64s\"", *name);
    pthread_mutex_lock(&runtime.lock);
    hint_types(a ? "" : *name, a, e);
    pthread_mutex_unlock(&runtime.lock);
    return KV_E_UNSUPPORTED;
}

int kv_find_type(const char *name, const kv_type_ops **ops, kv_err *e)
{
    TRY(arg_given(name, "name", e));
    TRY(arg_given(ops, "ops", e));
    return runtime_find_type(&name, ops, e);
}

void runtime_each_type(void (*visit)(void *arg, const kv_type_ops *ops), void *arg)
{
    const kv_type_ops *ops;
    pthread_mutex_lock(&runtime.lock);
    for (int64_t i = 0; (ops = type_at(i)); i++)
        visit(arg, ops);
    pthread_mutex_unlock(&runtime.lock);
}

/* ---- GPUs ---- */

static const char gpu_file[] = "kvstore_cuda.so";

static int load_gpus(kv_err *e)
{
    char path[PATH_BYTES];
    kv_err why = {0};
    if (!plugin_find(path, sizeof path, gpu_file))
        return kv_err_set(e, KV_E_UNSUPPORTED, "GPUs need the CUDA plugin, %s", absent_reason());
    if (kv_load_plugin(path, &why) == KV_OK)
        return KV_OK;
    size_t n = strlen(path); /* the text begins with it */
    bool named = strncmp(why.text, path, n) == 0 && strncmp(why.text + n, ": ", 2) == 0;
    kv_err_set(e, KV_E_UNSUPPORTED, "%s", named ? why.text + n + 2 : why.text);
    kv_err_hint(e, "%s", why.hint);
    return KV_E_UNSUPPORTED;
}

static void log_text(const char *text)
{
    runtime_log("%s", text);
}

/* lib knows neither plugins nor the log, and may be asked for a GPU before anything of src is. */
__attribute__((constructor)) static void serve_gpus(void)
{
    static const gpu_host serves = {.load = load_gpus, .warn = log_text};
    gpu_set_host(&serves);
}

static int describe_gpu(const gpu_ops *gpu, int id, kv_visitor visit, void *arg, kv_err *e)
{
    gpu_facts f = {0};
    own_buf reached = {0};
    int64_t room = -1;
    kv_err why = {0};
    TRY(gpu->facts(id, &f, e));
    /* The others whose memory a GPU reaches, as "1 2 5". */
    for (int other = 0; other < gpu->count; other++) {
        bool can = false;
        if (other != id)
            TRY(gpu->reaches(id, other, &can, e));
        if (can)
            buf_printf(&reached, "%s%d", reached.len > 0 ? " " : "", other);
    }
    TRY(buf_check(&reached, e));
    bool usable = gpu->room(id, &room, &why) == KV_OK;
    kv_field one[] = {{.name = "device", .number = id},
                      {.name = "name", .text = f.name},
                      {.name = "bytes", .number = f.bytes},
                      {.name = "free", .number = usable ? room : -1},
                      {.name = "major", .number = f.major},
                      {.name = "minor", .number = f.minor},
                      {.name = "reaches", .text = buf_text(&reached)},
                      {.name = "reason", .text = usable ? "" : why.text}};
    return visit(arg, one, sizeof one / sizeof *one, e);
}

/* One row for the machine, then one a device. */
int runtime_describe_gpus(kv_visitor visit, void *arg, kv_err *e)
{
    char path[PATH_BYTES], software[128] = "";
    kv_err why = {0};
    bool built = plugin_find(path, sizeof path, gpu_file);
    const gpu_ops *gpu = gpu_find(&why);
    char together[sizeof why.text + 32];
    if (gpu) {
        gpu->software(software, sizeof software);
        /* the version of NCCL, by which GPUs sum and copy together, or why it is missing */
        int v = 0;
        if (gpu->group_find(&v, &why))
            snprintf(together, sizeof together, "not available: %s", why.text);
        else
            snprintf(together, sizeof together, "%d.%d.%d", v / 10000, v / 100 % 100, v % 100);
    }
    kv_field all[] = {{.name = "built", .number = built},
                      {.name = "usable", .number = gpu != NULL},
                      {.name = "reason", .text = gpu ? "" : why.text},
                      {.name = "software", .text = software},
                      {.name = "nccl", .text = gpu ? together : ""}};
    TRY(visit(arg, all, sizeof all / sizeof *all, e));
    for (int i = 0; gpu && i < gpu->count; i++)
        TRY(describe_gpu(gpu, i, visit, arg, e));
    return KV_OK;
}

/* ---- Registering ---- */

static int check_table(const kv_type_ops *ops, kv_err *e)
{
    if (ops->version != KV_TYPE_VERSION || ops->size != sizeof *ops)
        return kv_err_set(e, KV_E_VALUE,
                          "the table of a type has version %u and %u bytes, this library takes "
                          "version %u and %zu bytes",
                          ops->version, ops->size, KV_TYPE_VERSION, sizeof *ops);
    bool keeps = ops->init && ops->push && ops->pull, passes = ops->pushpull && ops->broadcast;
    if (!ops->names || !ops->names[0] || !ops->open || !(keeps || passes))
        return kv_err_set(e, KV_E_VALUE,
                          "the table of a type needs a name, open, and init, push, pull or "
                          "pushpull, broadcast");
    return KV_OK;
}

static int add_type(const kv_type_ops *ops, const char *base, kv_err *e)
{
    TRY(check_table(ops, e));
    pthread_mutex_lock(&runtime.lock);
    int rc = KV_OK;
    for (int i = 0; i < MAX_NAMES && ops->names[i] && rc == KV_OK; i++) {
        const char *name = ops->names[i];
        if (find_type(&name))
            rc = kv_err_set(e, KV_E_NAME, "there is a store type \"%s\" already", name);
    }
    if (rc == KV_OK)
        rc = mem_grow(&runtime.types, &runtime.cap, runtime.ntypes + 1, sizeof *runtime.types, e);
    if (rc == KV_OK) {
        bool loading = runtime.loading && pthread_equal(runtime.loader, pthread_self());
        runtime.types[runtime.ntypes++] = (registered){ops, base, loading};
    }
    pthread_mutex_unlock(&runtime.lock);
    return rc;
}

int kv_register_type(const kv_type_ops *ops, kv_err *e)
{
    TRY(arg_given(ops, "ops", e));
    return add_type(ops, NULL, e);
}

const char *runtime_base(const kv_type_ops *ops)
{
    const char *base = NULL;
    pthread_mutex_lock(&runtime.lock);
    for (int64_t i = 0; i < runtime.ntypes; i++)
        base = runtime.types[i].ops == ops ? runtime.types[i].base : base;
    pthread_mutex_unlock(&runtime.lock);
    return base;
}

/* ---- Loading plugins ---- */

static bool has_started(const void *handle)
{
    bool found = false;
    pthread_mutex_lock(&runtime.lock);
    for (int64_t i = 0; i < runtime.nplugins; i++)
        found |= runtime.plugins[i] == handle;
    pthread_mutex_unlock(&runtime.lock);
    return found;
}

/* All that this thread registers from here to end_start belongs to the plugin. */
static int begin_start(kv_err *e)
{
    pthread_mutex_lock(&runtime.lock);
    int rc = mem_grow(&runtime.plugins, &runtime.plugins_cap, runtime.nplugins + 1,
                      sizeof *runtime.plugins, e);
    runtime.loading = rc == KV_OK;
    runtime.loader = pthread_self();
    pthread_mutex_unlock(&runtime.lock);
    return rc;
}

/* Takes back what a plugin registered that failed, or keeps its handle for ever. */
static void end_start(void *handle, bool keep)
{
    int64_t n = 0;
    pthread_mutex_lock(&runtime.lock);
    for (int64_t i = 0; i < runtime.ntypes; i++) {
        registered r = runtime.types[i];
        if (keep || !r.loading)
            runtime.types[n++] = (registered){r.ops, r.base, false};
    }
    runtime.ntypes = n;
    runtime.loading = false;
    if (keep)
        runtime.plugins[runtime.nplugins++] = handle;
    pthread_mutex_unlock(&runtime.lock);
}

static const kv_host offered = {.size = sizeof offered,
                                .version = KV_TYPE_VERSION,
                                .library = KV_VERSION,
                                .register_type = kv_register_type,
                                .find_type = kv_find_type,
                                .log = log_text};

static int load(const char *path, kv_err *e)
{
    void *handle;
    kv_plugin_init_fn init;
    kv_err why = {0};
    TRY(plugin_open(&handle, &init, path, e));
    bool started = has_started(handle); /* then one reference is kept already */
    int rc = started ? KV_OK : begin_start(e);
    if (rc || started)
        return dlclose(handle), rc;
    rc = init(&offered, &why);
    end_start(handle, rc == KV_OK);
    if (rc == KV_OK)
        return KV_OK;
    rc = kv_err_set(e, why.code ? (kv_code)why.code : KV_E_UNSUPPORTED, "%s: %s", path,
                    why.code ? why.text : "the plugin refuses to start and does not say why");
    kv_err_hint(e, "%s", why.hint);
    return rc;
}

int kv_load_plugin(const char *path, kv_err *e)
{
    TRY(arg_given(path, "path", e));
    if (!plugin_possible())
        return kv_err_set(e, KV_E_UNSUPPORTED,
                          "%s cannot be loaded: this program has the static library, which loads "
                          "no plugins",
                          path);
    if (access(path, R_OK) != 0)
        return kv_err_set(e, KV_E_IO, "%s: %s", path, strerrordesc_np(errno));
    if (pthread_mutex_lock(&runtime.load_lock) == EDEADLK)
        return kv_err_set(e, KV_E_USAGE, "%s: a plugin cannot load another while it starts", path);
    int rc = load(path, e);
    pthread_mutex_unlock(&runtime.load_lock);
    return rc;
}

/* ---- Names for types ---- */

enum { NAME_MAX_BYTES = 64 };

bool runtime_is_name(const char *text)
{
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.");
    return n > 0 && n <= NAME_MAX_BYTES && !text[n];
}

static int check_name(const char *name, kv_err *e)
{
    if (!runtime_is_name(name))
        return kv_err_set(e, KV_E_VALUE,
                          "the name of a type is 1 to %d letters, digits, _, - and ., "
                          "not \"%.64s\"",
                          NAME_MAX_BYTES, name);
    const struct absent *a = find_absent(name);
    if (!a)
        return KV_OK;
    kv_err_set(e, KV_E_NAME, "\"%s\" is the name of a type that the %s plugin brings", name,
               a->plugin);
    return KV_E_NAME;
}

/* A table with a name of its own. */
typedef struct named_type {
    kv_type_ops ops;
    const char *names[2];
    char name[NAME_MAX_BYTES + 1];
} named_type;

int kv_register_name(const char *name, const char *base, kv_err *e)
{
    const kv_type_ops *ops;
    const char *of = base ? base : "local";
    TRY(arg_given(name, "name", e));
    TRY(check_name(name, e));
    TRY(runtime_find_type(&of, &ops, e));
    own_mem named_type *t = mem_zalloc(1, sizeof *t, e);
    if (!t)
        return KV_E_MEMORY;
    snprintf(t->name, sizeof t->name, "%s", name);
    t->names[0] = t->name;
    t->ops = *ops;
    t->ops.names = t->names;
    const char *earlier = runtime_base(ops);
    TRY(add_type(&t->ops, earlier ? earlier : of, e));
    t = NULL; /* it stays */
    return KV_OK;
}

/* ---- Describing ---- */

/* One row: the first name, the others as one text, whether it can be made, else why not. */
static int describe(const char *const *names, int max, const char *reason, kv_visitor visit,
                    void *arg, kv_err *e)
{
    own_buf aliases = {0};
    for (int i = 1; i < max && names[i]; i++)
        buf_printf(&aliases, "%s%s", i > 1 ? " " : "", names[i]);
    TRY(buf_check(&aliases, e));
    kv_field fields[] = {{.name = "name", .text = names[0]},
                         {.name = "aliases", .text = buf_text(&aliases)},
                         {.name = "available", .number = !reason},
                         {.name = "reason", .text = reason ? reason : ""}};
    return visit(arg, fields, sizeof fields / sizeof *fields, e);
}

int runtime_describe_types(kv_visitor visit, void *arg, kv_err *e)
{
    char path[PATH_BYTES];
    kv_err why = {0};
    bool gpus = plugin_find(path, sizeof path, gpu_file); /* whether it starts decides here */
    const gpu_ops *gpu = gpus ? gpu_find(&why) : NULL;
    int version;
    bool together = gpu && gpu->group_find(&version, &why) == KV_OK;
    const char *no_nccl = gpus && !together ? why.text : NULL;
    for (int64_t i = 0;; i++) {
        /* The visitor runs without the lock, since registered types stay registered. */
        pthread_mutex_lock(&runtime.lock);
        const kv_type_ops *ops = type_at(i);
        pthread_mutex_unlock(&runtime.lock);
        if (!ops)
            break;
        TRY(describe(ops->names, MAX_NAMES, ops == &nccl_type_ops ? no_nccl : NULL, visit, arg, e));
    }
    for (int i = 0; i < NABSENT; i++) {
        const struct absent *a = &absent[i];
        const char *name = a->names[0];
        char reason[128];
        if (find_locked(&name))
            continue;
        bool there = plugin_find(path, sizeof path, a->file); /* loaded when it is asked for */
        bool nccl = there && strcmp(a->file, gpu_file) == 0;
        snprintf(reason, sizeof reason, "needs the %s plugin, %s", a->plugin, absent_reason());
        TRY(describe(a->names, 4, nccl ? no_nccl : there ? NULL : reason, visit, arg, e));
    }
    return KV_OK;
}

/* ---- Commands to servers ---- */

static struct {
    pthread_mutex_t lock; /* held while a command runs, so that kv_set_controller waits for it */
    void (*control)(void *arg, int head, const char *body);
    void *arg;
    void (*print)(void *arg, const char *line);
    void *print_arg;
} controller = {.lock = PTHREAD_MUTEX_INITIALIZER};

void kv_set_controller(void (*control)(void *arg, int head, const char *body), void *arg)
{
    pthread_mutex_lock(&controller.lock);
    controller.control = control;
    controller.arg = arg;
    pthread_mutex_unlock(&controller.lock);
}

void runtime_control(int head, const char *body)
{
    pthread_mutex_lock(&controller.lock);
    if (controller.control)
        controller.control(controller.arg, head, body);
    pthread_mutex_unlock(&controller.lock);
}

void kv_set_server_print(void (*print)(void *arg, const char *line), void *arg)
{
    pthread_mutex_lock(&controller.lock);
    controller.print = print;
    controller.print_arg = arg;
    pthread_mutex_unlock(&controller.lock);
}

void runtime_print(void *unused, const char *line)
{
    (void)unused;
    pthread_mutex_lock(&controller.lock);
    if (controller.print)
        controller.print(controller.print_arg, line);
    pthread_mutex_unlock(&controller.lock);
}

/* ---- The rank ---- */

static int rank, ranks = 1; /* atomic */

void runtime_set_rank(int mine, int all)
{
    __atomic_store_n(&rank, mine, __ATOMIC_RELEASE);
    __atomic_store_n(&ranks, all, __ATOMIC_RELEASE);
}

int runtime_rank(int *all)
{
    *all = __atomic_load_n(&ranks, __ATOMIC_ACQUIRE);
    return __atomic_load_n(&rank, __ATOMIC_ACQUIRE);
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
