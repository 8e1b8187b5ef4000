/* The plugin: the GPUs of this machine, as a table. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "cuda/gpu_device.h"

/* The compiled kernels, which the build puts into the plugin (images.c): code for sm_80 and sm_90,
 * and PTX for later devices. */
extern const unsigned char image_sum[], image_convert[], image_quantise[];

/* Which kernel does which work, and in tiles of how many elements. */
static const struct {
    const unsigned char *image;
    const char *name;
    int64_t tile;
} works[GPU_NWORKS] = {
    [GPU_CONVERT] = {image_convert, "kv_convert_list", JOB_TILE},
    [GPU_SUM] = {image_sum, "kv_sum", JOB_TILE},
    [GPU_GATHER_ROWS] = {image_convert, "kv_gather_rows", JOB_TILE},
    [GPU_SUM_ROWS] = {image_sum, "kv_sum_rows", JOB_TILE},
    [GPU_QUANTISE] = {image_quantise, "kv_quantise", JOB_TILE},
    [GPU_DEQUANTISE] = {image_quantise, "kv_dequantise", JOB_TILE},
    [GPU_QUANTISE_SUM] = {image_quantise, "kv_quantise_sum", JOB_TILE},
    [GPU_SUM_CHUNKS] = {image_sum, "kv_sum_chunks", JOB_SUMS},
    [GPU_SUM_ALL] = {image_sum, "kv_sum_all", JOB_SUMS},
};

/* A part of the plugin's state: the kernels that were loaded, by device. */
static struct {
    pthread_mutex_t lock;
    driver_kernel *kernels[GPU_MOST][GPU_NWORKS];
} loaded = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int find_kernel(int id, gpu_work work, driver_kernel **out, kv_err *e)
{
    int rc = KV_OK;
    pthread_mutex_lock(&loaded.lock);
    driver_kernel **k = &loaded.kernels[id][work];
    if (!*k)
        rc = device_load(id, k, works[work].image, 0, works[work].name, e);
    *out = *k;
    pthread_mutex_unlock(&loaded.lock);
    return rc;
}

static int run(int id, gpu_work work, const gpu_job *jobs, int64_t n, kv_err *e)
{
    driver_kernel *k;
    int rc = find_kernel(id, work, &k, e);
    return rc ? rc : device_launch(id, k, works[work].tile, jobs, n, e);
}

/* A device that loads no kernel cannot be used, such as one that is older than those that they are
 * built for. */
static int room(int id, int64_t *free_bytes, kv_err *e)
{
    driver_kernel *unused;
    int rc = device_room(id, free_bytes, e);
    return rc ? rc : find_kernel(id, GPU_CONVERT, &unused, e);
}

/* A version that counts minor ones in tens, or in ones. */
static void add_version(char *out, size_t size, const char *name, int version, int tens)
{
    size_t n = strlen(out);
    if (version > 0)
        snprintf(out + n, size - n, "%s%s %d.%d", n > 0 ? ", " : "", name, version / 1000,
                 version % 1000 / tens);
}

static void software(char *out, size_t size)
{
    const driver *d = device_driver();
    *out = '\0';
    add_version(out, size, "CUDA", d->version(), 10);
    add_version(out, size, "NVRTC", d->compiler(), 1);
}

/* The scratch memory is large enough for launches that take longer than the time between them. */
static gpu_ops table = {
    .size = sizeof table,
    .version = GPU_TABLE_VERSION,
    .scratch = 256 << 20,
    .facts = device_facts,
    .room = room,
    .reaches = device_reaches,
    .software = software,
    .alloc = device_alloc,
    .free = device_free,
    .zero = device_zero,
    .copy_in = device_copy_in,
    .copy_out = device_copy_out,
    .carry = device_carry,
    .copy = device_copy,
    .run = run,
    .compile = rules_compile,
    .apply = rules_apply,
    .wait = device_wait,
    .group_find = group_find,
    .group_sum = group_sum,
    .group_copy = group_copy,
};

/* The library's functions for plugins (kvstore.h); GPUs are no store types and need none. */
struct kv_host;
int kv_plugin_init(const struct kv_host *lib, kv_err *e);

int kv_plugin_init(const struct kv_host *lib, kv_err *e)
{
    const driver *d;
    (void)lib;
    int rc = driver_open(&d, e);
    if (!rc)
        rc = device_open(d, &table.count, e);
    return rc ? rc : gpu_register(&table, e);
}
