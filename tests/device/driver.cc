/* A driver without a GPU: cuda/driver.h over host memory, so that the whole plugin runs on any
 * machine. What it is given to do is done at once, in the order of the calls; kernels are those of
 * cuda/ compiled for the CPU, and rules are compiled by the C++ compiler through the same shim.
 *
 * Its devices' memory cannot be touched but by it: outside of copies and kernels every access ends
 * the process, as one that reads the memory of a real GPU would. $FAKE_GPUS says how many devices
 * there are (2), $FAKE_GPU_MB how much memory each has (64), $FAKE_GPU_TEXTS a folder where the text
 * of each rule that was compiled is kept, $FAKE_GPU_LOG a file that says at the end how many bytes
 * went in, out and between devices, tables of launches included, and how often each kernel ran.
 * $FAKE_GPU_FAIL is "copy:3" where the third copy from or to a device fails.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <string>

extern "C" {
#include "base/mem.h"
#include "cuda/driver.h"
}

enum { MAX_GPUS = 8, E_NONE = 0, E_MEMORY = 2, E_VALUE = 1, E_NOT_FOUND = 3 };

struct gpu {
    char *begin;  /* of its memory */
    char *inside; /* the same memory, where copies touch it */
    size_t bytes;
    std::map<size_t, size_t> used; /* blocks: where, how long */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static gpu gpus[MAX_GPUS];
static int count = -1;
static thread_local int current;

/* What is done, of all devices; kernels by the function that is called. */
static int64_t bytes_in, bytes_out, bytes_between;
static std::map<const void *, std::string> names;
static std::map<std::string, int64_t> launches;

static void write_log()
{
    FILE *f = fopen(getenv("FAKE_GPU_LOG"), "w");
    if (!f)
        return;
    fprintf(f, "in %lld\nout %lld\nbetween %lld\n", (long long)bytes_in, (long long)bytes_out,
            (long long)bytes_between);
    for (auto &kernel : launches)
        fprintf(f, "%s %lld\n", kernel.first.c_str(), (long long)kernel.second);
    fclose(f);
}

static size_t number(const char *name, size_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoul(text, NULL, 10) : otherwise;
}

static void begin()
{
    count = (int)number("FAKE_GPUS", 2);
    if (getenv("FAKE_GPU_LOG"))
        atexit(write_log);
    for (int i = 0; i < count; i++) {
        gpus[i].bytes = number("FAKE_GPU_MB", 64) << 20;
        int file = memfd_create("fake-gpu", MFD_CLOEXEC);
        if (file < 0 || ftruncate(file, (off_t)gpus[i].bytes))
            abort();
        gpus[i].begin = (char *)mmap(NULL, gpus[i].bytes, PROT_NONE, MAP_SHARED, file, 0);
        gpus[i].inside = (char *)mmap(NULL, gpus[i].bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                                      file, 0);
        close(file);
    }
}

/* While one of these lives its thread may touch the memory of all devices, as kernels do. */
struct access_to_all {
    access_to_all()
    {
        pthread_mutex_lock(&lock);
        allow(PROT_READ | PROT_WRITE);
    }
    ~access_to_all()
    {
        allow(PROT_NONE);
        pthread_mutex_unlock(&lock);
    }
    static void allow(int how)
    {
        for (int i = 0; i < count; i++)
            mprotect(gpus[i].begin, gpus[i].bytes, how);
    }
};

static const char *text_of(int code)
{
    return code == E_MEMORY ? "out of memory" : code == E_VALUE ? "invalid argument" : "not found";
}

static int count_of(int *out)
{
    *out = count;
    return E_NONE;
}

static int facts_of(int id, gpu_facts *out, int *multiprocessors)
{
    size_t used = 0;
    if (id >= count)
        return E_VALUE;
    pthread_mutex_lock(&lock);
    for (auto &block : gpus[id].used)
        used += block.second;
    pthread_mutex_unlock(&lock);
    snprintf(out->name, sizeof out->name, "no GPU, but host memory");
    out->bytes = (int64_t)gpus[id].bytes;
    out->free_bytes = (int64_t)(gpus[id].bytes - used);
    out->major = 9;
    out->minor = 0;
    *multiprocessors = 1;
    return E_NONE;
}

static int use_device(int id)
{
    current = id;
    return id < count ? E_NONE : E_VALUE;
}

/* First fit; blocks are 256 aligned. */
static int alloc_block(void **out, int64_t bytes)
{
    gpu &g = gpus[current];
    size_t at = 0, size = ((size_t)bytes + 255) / 256 * 256;
    pthread_mutex_lock(&lock);
    for (auto &block : g.used) {
        if (block.first - at >= size)
            break;
        at = block.first + block.second;
    }
    bool fits = at + size <= g.bytes;
    if (fits)
        g.used[at] = size;
    pthread_mutex_unlock(&lock);
    *out = fits ? g.begin + at : NULL;
    return fits ? E_NONE : E_MEMORY;
}

static int free_block(void *block)
{
    pthread_mutex_lock(&lock);
    size_t n = gpus[current].used.erase((size_t)((char *)block - gpus[current].begin));
    pthread_mutex_unlock(&lock);
    return n ? E_NONE : E_VALUE;
}

static int alloc_pinned(void **out, int64_t bytes)
{
    *out = mem_alloc_data(bytes, NULL);
    return *out ? E_NONE : E_MEMORY;
}

static int free_pinned(void *host)
{
    mem_free_data(host);
    return E_NONE;
}

/* Everything is done at once, so streams and events are names. */
static int new_stream(driver_stream **out)
{
    static char stream;
    *out = (driver_stream *)&stream;
    return E_NONE;
}

static int new_event(driver_event **out)
{
    static char event;
    *out = (driver_event *)&event;
    return E_NONE;
}

static int record_event(driver_event *, driver_stream *)
{
    return E_NONE;
}

static int wait_event(driver_stream *, driver_event *)
{
    return E_NONE;
}

static int sync_event(driver_event *)
{
    return E_NONE;
}

static int sync_stream(driver_stream *)
{
    return E_NONE;
}

/* Where a copy touches bytes that are in a block of a device which somebody has, or NULL. */
static char *inside(const void *p, int64_t bytes)
{
    for (int i = 0; i < count; i++) {
        gpu &g = gpus[i];
        if ((char *)p < g.begin || (char *)p >= g.begin + g.bytes)
            continue;
        size_t at = (size_t)((char *)p - g.begin);
        auto next = g.used.upper_bound(at);
        if (next == g.used.begin())
            return NULL;
        auto block = std::prev(next);
        return at + (size_t)bytes <= block->first + block->second ? g.inside + at : NULL;
    }
    return NULL;
}

struct locked {
    locked() { pthread_mutex_lock(&lock); }
    ~locked() { pthread_mutex_unlock(&lock); }
};

/* Whether this copy is the one that is to fail. */
static bool fails()
{
    static int64_t copies;
    const char *text = getenv("FAKE_GPU_FAIL");
    return text && strncmp(text, "copy:", 5) == 0 && ++copies == atoll(text + 5);
}

static int zero_block(void *dst, int64_t bytes, driver_stream *)
{
    locked here;
    char *to = inside(dst, bytes);
    if (!to)
        return E_VALUE;
    memset(to, 0, (size_t)bytes);
    return E_NONE;
}

static int copy_in(void *dst, const void *host, int64_t bytes, driver_stream *)
{
    locked here;
    char *to = inside(dst, bytes);
    if (!to || inside(host, bytes) || fails())
        return E_VALUE;
    memcpy(to, host, (size_t)bytes);
    bytes_in += bytes;
    return E_NONE;
}

static int copy_out(void *host, const void *src, int64_t bytes, driver_stream *)
{
    locked here;
    const char *from = inside(src, bytes);
    if (!from || inside(host, bytes) || fails())
        return E_VALUE;
    memcpy(host, from, (size_t)bytes);
    bytes_out += bytes;
    return E_NONE;
}

static int copy_block(void *dst, const void *src, int64_t bytes, driver_stream *)
{
    locked here;
    char *to = inside(dst, bytes);
    const char *from = inside(src, bytes);
    if (!to || !from || fails())
        return E_VALUE;
    memcpy(to, from, (size_t)bytes);
    bytes_between += bytes;
    return E_NONE;
}

static int reach(int, int, int *can)
{
    *can = 1;
    return E_NONE;
}

/* ---- Kernels ---- */

typedef void shim(const job_list *l, unsigned blocks, unsigned threads);

#define BUILT_IN(X)                                                                                \
    X(kv_sum) X(kv_sum_rows) X(kv_sum_chunks) X(kv_convert_list) X(kv_gather_rows) X(kv_quantise)  \
    X(kv_dequantise) X(kv_dequantise_add) X(kv_quantise_sum)

#define DECLARE(name) extern "C" shim shim_##name;
BUILT_IN(DECLARE)

/* An image is a shared object, which can only be opened as a file. */
static shim *open_image(const void *image, int64_t bytes, const char *name)
{
    char path[] = "/tmp/fake-gpu-XXXXXX", symbol[128];
    int file = mkstemp(path);
    if (file < 0 || write(file, image, (size_t)bytes) != bytes)
        return NULL;
    close(file);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    unlink(path);
    snprintf(symbol, sizeof symbol, "shim_%s", name);
    return library ? (shim *)dlsym(library, symbol) : NULL;
}

static int load_kernel(driver_kernel **out, const void *image, int64_t bytes, const char *name)
{
    shim *found = NULL;
#define MATCH(built_in)                                                                            \
    if (strcmp(name, #built_in) == 0)                                                              \
        found = shim_##built_in;
    BUILT_IN(MATCH)
    if (!found && bytes > 0)
        found = open_image(image, bytes, name);
    *out = (driver_kernel *)found;
    pthread_mutex_lock(&lock);
    names[(const void *)found] = name;
    pthread_mutex_unlock(&lock);
    return found ? E_NONE : E_NOT_FOUND;
}

static int launch_kernel(driver_kernel *k, unsigned blocks, unsigned threads,
                         const job_list *list, driver_stream *)
{
    access_to_all here;
    if (!inside(list->items, list->nitems * (int64_t)sizeof *list->items))
        return E_VALUE;
    ((shim *)k)(list, blocks, threads);
    launches[names[(const void *)k]]++;
    return E_NONE;
}

/* ---- Rules ---- */

/* The number of the text is its name. */
static void keep_text(const char *text)
{
    static int number;
    char path[512];
    const char *folder = getenv("FAKE_GPU_TEXTS");
    if (!folder)
        return;
    snprintf(path, sizeof path, "%s/%d.cc", folder, number++);
    FILE *f = fopen(path, "w");
    fputs(text, f);
    fclose(f);
}

static int compile_text(void **image, int64_t *bytes, const char *text, int, int, kv_err *e)
{
    char folder[] = "/tmp/fake-gpu-XXXXXX", path[64], made[64], command[1024];
    char *read = NULL;
    if (!mkdtemp(folder))
        return kv_err_set(e, KV_E_IO, "no folder for a rule");
    snprintf(path, sizeof path, "%s/rule.cc", folder);
    snprintf(made, sizeof made, "%s/rule.so", folder);
    FILE *f = fopen(path, "w");
    fputs(text, f);
    fclose(f);
    snprintf(command, sizeof command,
             "c++ -std=c++17 -O1 -w -fno-strict-aliasing -ffp-contract=off -fPIC -shared "
             "-include %s -o %s %s",
             FAKE_SHIM, made, path);
    keep_text(text);
    bool ok = system(command) == 0 && (f = fopen(made, "r"));
    if (ok) {
        fseek(f, 0, SEEK_END);
        *bytes = ftell(f);
        rewind(f);
        read = (char *)mem_alloc(*bytes, 1, e);
        ok = read && fread(read, 1, (size_t)*bytes, f) == (size_t)*bytes;
        fclose(f);
    }
    unlink(made);
    unlink(path);
    rmdir(folder);
    *image = read;
    return ok ? KV_OK : kv_err_set(e, KV_E_UNSUPPORTED, "a rule does not compile for this GPU");
}

static int compiler(void)
{
    return 0;
}

extern "C" int driver_open(const driver **out, kv_err *e)
{
    static driver table;
    if (count < 0)
        begin();
    table.text = text_of;
    table.count = count_of;
    table.facts = facts_of;
    table.use = use_device;
    table.alloc = alloc_block;
    table.free = free_block;
    table.alloc_host = alloc_pinned;
    table.free_host = free_pinned;
    table.stream = new_stream;
    table.event = new_event;
    table.record = record_event;
    table.wait_event = wait_event;
    table.sync_event = sync_event;
    table.sync = sync_stream;
    table.zero = zero_block;
    table.copy_in = copy_in;
    table.copy_out = copy_out;
    table.copy = copy_block;
    table.reach = reach;
    table.load = load_kernel;
    table.launch = launch_kernel;
    table.compile = compile_text;
    table.compiler = compiler;
    *out = &table;
    return count > 0 ? KV_OK : kv_err_set(e, KV_E_UNSUPPORTED, "the CUDA driver finds no GPU");
}

/* Images of no use here. */
extern "C" const unsigned char image_sum[1] = {0}, image_convert[1] = {0}, image_quantise[1] = {0};
