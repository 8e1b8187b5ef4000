/* Loading plugins.
 *
 * A plugin calls kv_* functions, which only the shared library offers to it; a program that holds
 * the static one would give it none, or those of another copy with types of its own. So the library
 * first finds out which of the two it is.
 */
#include "plugin.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arg.h"
#include "base/buf.h"
#include "kvstore.h"
#include "runtime.h"

/* ---- Where the library is ---- */

/* The file of the shared library, or NULL in a program that was linked with the static one: then
 * the code belongs to the program, which dlopen does not give out by its name. */
static const char *library_file(void)
{
    Dl_info here;
    union {
        int (*function)(const char *, kv_err *);
        void *address;
    } self = {kv_load_plugin};
    if (!dladdr(self.address, &here) || !here.dli_fname || !strchr(here.dli_fname, '/'))
        return NULL;
    void *handle = dlopen(here.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    bool found = handle && dlsym(handle, "kv_load_plugin") == self.address;
    if (handle)
        dlclose(handle);
    return found ? here.dli_fname : NULL;
}

bool plugin_possible(void)
{
    return library_file() != NULL;
}

static bool is_file(char *path, size_t size, const char *folder, size_t n, const char *file)
{
    int len = snprintf(path, size, "%.*s/%s", (int)n, folder, file);
    return n > 0 && len > 0 && (size_t)len < size && access(path, F_OK) == 0;
}

bool plugin_find(char *path, size_t size, const char *file)
{
    const char *library = library_file(), *at = secure_getenv("KVSTORE_PLUGINS");
    if (!library)
        return false;
    for (size_t n; at && *at; at += n + (at[n] == ':')) {
        n = strcspn(at, ":");
        if (is_file(path, size, at, n, file))
            return true;
    }
    return is_file(path, size, library, (size_t)(strrchr(library, '/') - library), file);
}

/* ---- Loading ---- */

static void log_text(const char *text)
{
    runtime_log("%s", text);
}

static const kv_host host = {.size = sizeof host,
                             .version = KV_TYPE_VERSION,
                             .library = KV_VERSION,
                             .register_type = kv_register_type,
                             .find_type = kv_find_type,
                             .log = log_text};

/* Runs the plugin's function. What it registers stays only when it succeeds. */
static int start(void *handle, const char *path, kv_plugin_init_fn init, kv_err *e)
{
    kv_err why = {0};
    int rc = runtime_start_begin(e);
    if (rc)
        return rc;
    rc = init(&host, &why);
    runtime_start_end(handle, rc == KV_OK);
    if (rc == KV_OK)
        return KV_OK;
    rc = kv_err_set(e, why.code ? (kv_code)why.code : KV_E_UNSUPPORTED, "%s: %s", path,
                    why.code ? why.text : "the plugin refuses to start and does not say why");
    if (why.hint[0])
        kv_err_hint(e, "%s", why.hint);
    return rc;
}

/* What dlopen says, without the path that often begins it. */
static const char *reason(const char *path)
{
    const char *text = dlerror(); /* stays until the next dl… function of this thread */
    size_t n = strlen(path);
    text = text ? text : "it cannot be loaded";
    return strncmp(text, path, n) == 0 && strncmp(text + n, ": ", 2) == 0 ? text + n + 2 : text;
}

static int load(const char *path, kv_err *e)
{
    union {
        void *address;
        kv_plugin_init_fn function;
    } init;
    buf from = {0};
    buf_printf(&from, strchr(path, '/') ? "%s" : "./%s", path); /* else dlopen would search */
    if (buf_check(&from, e))
        return KV_E_MEMORY;
    void *handle = dlopen(buf_text(&from), RTLD_NOW | RTLD_LOCAL);
    const char *why = handle ? "" : reason(buf_text(&from));
    buf_release(&from);
    if (!handle)
        return kv_err_set(e, KV_E_FORMAT, "%s is no plugin: %s", path, why);
    if (runtime_has_plugin(handle)) {
        dlclose(handle); /* one reference is kept already */
        return KV_OK;
    }
    init.address = dlsym(handle, "kv_plugin_init");
    if (init.address)
        return start(handle, path, init.function, e);
    dlclose(handle);
    return kv_err_set(e, KV_E_FORMAT, "%s is no plugin: it has no function kv_plugin_init", path);
}

int kv_load_plugin(const char *path, kv_err *e)
{
    int rc = arg_given(path, "path", e);
    if (rc)
        return rc;
    if (!plugin_possible())
        return kv_err_set(e, KV_E_UNSUPPORTED,
                          "%s cannot be loaded: this program has the static library, which loads "
                          "no plugins",
                          path);
    if (access(path, R_OK) != 0)
        return kv_err_set(e, KV_E_IO, "%s: %s", path, strerrordesc_np(errno));
    if ((rc = runtime_loading_enter(path, e)))
        return rc;
    rc = load(path, e);
    runtime_loading_leave();
    return rc;
}
