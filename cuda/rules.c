/* A rule is found by its text. The name of its file is a hash of all inputs of the compiler, and
 * the file begins with a hash of its other bytes, in 16 digits. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/folder_out.h"
#include "base/mem.h"
#include "base/xxh64.h"
#include "cuda/gpu_device.h"
#include "cuda/prelude.h"

#define TEXT_(...) #__VA_ARGS__
#define TEXT(...)  TEXT_(__VA_ARGS__)

enum { DIGITS = 16 };

/* A line of each source, so that the sum of a source is another with other options. */
static const char options[] = TEXT(DRIVER_OPTIONS);

struct gpu_rule {
    int id;
    uint64_t sum;
    char *text;
    driver_kernel *kernel;
    gpu_rule *next;
};

/* A part of the plugin's state; a rule stays where it is. */
static struct {
    pthread_mutex_t lock;
    gpu_rule *first;
} rules = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- Files ---- */

/* Opens the folder of this user for compiled rules, or gives -1: they are then not kept. */
static int open_folder(void)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    static bool told; /* guarded by the lock of the rules */
    own_buf path = {0};
    kv_err why = {0};
    int fd = -1;
    if (cache && *cache == '/')
        buf_printf(&path, "%s/kvctl", cache);
    else if (home && *home == '/')
        buf_printf(&path, "%s/.cache/kvctl", home);
    if (path.len > 0 && !path.failed && own_folder_open(&fd, buf_text(&path), &why) && !told) {
        char text[sizeof why.text + 64];
        snprintf(text, sizeof text, "compiled rules are not kept: %s", why.text);
        gpu_warn(text);
        told = true;
    }
    return fd;
}

/* The image that a file holds, or NULL. */
static void *read_image(const char *path, int64_t *bytes)
{
    kv_err why = {0};
    char *text = NULL, digits[DIGITS + 1];
    size_t n = 0;
    if (access(path, R_OK) || file_read(path, &text, &n, &why))
        return NULL;
    bool whole = n > DIGITS;
    if (whole) {
        snprintf(digits, sizeof digits, "%016" PRIx64, xxh64(text + DIGITS, n - DIGITS));
        whole = memcmp(digits, text, DIGITS) == 0;
    }
    if (!whole) {
        mem_free(text);
        return NULL;
    }
    memmove(text, text + DIGITS, n - DIGITS);
    *bytes = (int64_t)(n - DIGITS);
    return text;
}

static void write_image(const char *path, const void *image, int64_t bytes)
{
    file_out f = {0};
    kv_err why = {0};
    if (file_out_open(&f, path, &why))
        return;
    fprintf(f.f, "%016" PRIx64, xxh64(image, (size_t)bytes));
    fwrite(image, 1, (size_t)bytes, f.f); /* the commit finds out whether it worked */
    file_out_commit(&f, &why);
}

/* ---- Compiling ---- */

static int compile(gpu_rule *r, const char *source, const char *path, const gpu_facts *f,
                   kv_err *e)
{
    own_mem void *image = NULL;
    int64_t bytes = 0;
    int rc = device_driver()->compile(&image, &bytes, source, f->major, f->minor, e);
    if (!rc)
        rc = device_load(r->id, &r->kernel, image, bytes, GPU_RULE_KERNEL, e);
    if (!rc && *path)
        write_image(path, image, bytes);
    return rc;
}

/* The kernel of a rule, from its file or made. */
static int make_kernel(gpu_rule *r, kv_err *e)
{
    buf source = {0}, path = {0};
    gpu_facts f;
    kv_err why = {0};
    int64_t bytes = 0;
    int rc = device_facts(r->id, &f, e), folder = open_folder();
    buf_printf(&source, "// %s\n" PRELUDE "%s", options, PRELUDE_TEXTS, r->text);
    if (!rc)
        rc = buf_check(&source, e);
    if (!rc && folder >= 0) /* through the handle of the folder that was checked */
        buf_printf(&path, "/proc/self/fd/%d/rule-%016" PRIx64 "-sm%d%d-%d.bin", folder,
                   xxh64(buf_text(&source), source.len), f.major, f.minor,
                   device_driver()->compiler());
    void *image = !rc && path.len > 0 ? read_image(buf_text(&path), &bytes) : NULL;
    bool found =
        image && device_load(r->id, &r->kernel, image, bytes, GPU_RULE_KERNEL, &why) == KV_OK;
    mem_free(image);
    if (!rc && !found)
        rc = compile(r, buf_text(&source), buf_text(&path), &f, e);
    buf_release(&source);
    buf_release(&path);
    if (folder >= 0)
        close(folder);
    return rc;
}

static gpu_rule *new_rule(int id, const char *text, uint64_t sum, kv_err *e)
{
    gpu_rule *r = mem_zalloc(1, sizeof *r, e);
    if (!r)
        return NULL;
    *r = (gpu_rule){.id = id, .sum = sum, .text = mem_text(text, strlen(text), e)};
    if (r->text && make_kernel(r, e) == KV_OK)
        return r;
    mem_free(r->text);
    mem_free(r);
    return NULL;
}

int rules_compile(int id, const char *text, const gpu_rule **out, kv_err *e)
{
    uint64_t sum = xxh64(text, strlen(text));
    pthread_mutex_lock(&rules.lock);
    gpu_rule *r = rules.first;
    while (r && (r->sum != sum || r->id != id || strcmp(r->text, text) != 0))
        r = r->next;
    if (!r && (r = new_rule(id, text, sum, e))) {
        r->next = rules.first;
        rules.first = r;
    }
    pthread_mutex_unlock(&rules.lock);
    *out = r;
    return r ? KV_OK : e && e->code ? e->code : KV_E_MEMORY;
}

int rules_apply(int id, const gpu_rule *rule, const gpu_job *jobs, int64_t n, kv_err *e)
{
    return device_launch(id, rule->kernel, JOB_TILE, jobs, n, e);
}
