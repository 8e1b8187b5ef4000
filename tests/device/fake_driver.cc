/* A driver without a GPU: cuda/driver.h over host memory, so that the whole plugin runs on any
 * machine. Streams work late and in an order of their own (streams.hh); kernels are those of cuda/
 * compiled for the CPU, and rules are compiled by the C++ compiler through the same shim.
 *
 * Its devices' memory cannot be touched but by what they do: every other access ends the process,
 * as one that reads the memory of a real GPU would, and a kernel touches that of other devices only
 * once they were made reachable. It is stricter than CUDA where the documentation promises nothing:
 * memory that is freed, or host memory that is not pinned, while work is to use it ends the process
 * with a message (cuMemFree "may" wait); and everything but waiting for an event wants its own
 * device to be the current one.
 *
 * $FAKE_GPUS         how many devices there are (2)
 * $FAKE_GPU_MB       how much memory each has (64)
 * $FAKE_GPU_BUSY     those that cannot be used, as digits: 13
 * $FAKE_GPU_ISLANDS  those that reach each other, as digits: "01 23"; else each reaches all
 * $FAKE_GPU_FAIL     "copy:3": the third call of this kind fails, counted from when the variable
 *                    was set to this. Kinds: use, alloc, pin, stream, event, record, wait, sync,
 *                    zero, copy, load, launch
 * $FAKE_GPU_SEED     see streams.hh
 * $FAKE_GPU_TEXTS    a folder where the text of each rule that was compiled is kept
 * $FAKE_GPU_OPEN     leaves the memory open to everybody: for benchmarks, whose thousands of launches
 *                    would spend their time opening and closing it
 * $FAKE_GPU_LOG      a file that says at the end how many bytes went in, out and between devices,
 *                    tables of launches included, and how often each kernel ran, as it was given
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <string>

#include "tests/device/streams.hh"

extern "C" {
#include "base/mem.h"
#include "cuda/driver.h"
}

/* CUDA's numbers, which have its texts. */
enum {
    E_NONE = 0,
    E_VALUE = 1,
    E_MEMORY = 2,
    E_BUSY = 46,
    E_CONTEXT = 201,
    E_HANDLE = 400,
    E_NOT_FOUND = 500,
    E_RESOURCES = 701,
    E_UNKNOWN = 999
};

enum { MAX_GPUS = 8, NO_DEVICE = -1 };

/* Memory that somebody has: how long it is, and how much work had been given before. */
struct block {
    size_t bytes;
    uint64_t born;
};

struct gpu {
    char *begin;  /* of its memory, as programs see it */
    char *inside; /* the same, as copies do */
    size_t bytes;
    std::map<size_t, block> used; /* by where it is */
    bool context;
    bool reaches[MAX_GPUS]; /* those that were made reachable */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static gpu gpus[MAX_GPUS];
static std::map<const char *, block> pinned;
static int count = -1;
static bool open_to_all;
static thread_local int current = NO_DEVICE;

struct locked {
    locked() { pthread_mutex_lock(&lock); }
    ~locked() { pthread_mutex_unlock(&lock); }
};

/* The bytes copied by all devices, and the launches of kernels by name. */
static int64_t bytes_in, bytes_out, bytes_between;
static std::map<std::string, int64_t> launches;

static void write_log()
{
    FILE *f = fopen(getenv("FAKE_GPU_LOG"), "w");
    if (!f)
        return;
    fprintf(f, "in %lld\nout %lld\nbetween %lld\n", (long long)bytes_in,
            (long long)bytes_out, (long long)bytes_between);
    for (auto &kernel : launches)
        fprintf(f, "%s %lld\n", kernel.first.c_str(), (long long)kernel.second);
    fclose(f);
}

static size_t number(const char *name, size_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoul(text, NULL, 10) : otherwise;
}

static char *map(int file, size_t bytes, int how)
{
    void *p = mmap(NULL, bytes, how, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (p == MAP_FAILED)
        streams_die("there is no memory for a device");
    return (char *)p;
}

static void begin()
{
    count = (int)number("FAKE_GPUS", 2);
    if (getenv("FAKE_GPU_LOG"))
        atexit(write_log);
    open_to_all = getenv("FAKE_GPU_OPEN") != NULL;
    int how = open_to_all ? PROT_READ | PROT_WRITE : PROT_NONE;
    for (int i = 0; i < count; i++) {
        gpus[i].bytes = number("FAKE_GPU_MB", 64) << 20;
        int file = memfd_create("fake-gpu", MFD_CLOEXEC);
        if (file < 0 || ftruncate(file, (off_t)gpus[i].bytes))
            streams_die("there is no memory for a device");
        gpus[i].begin = map(file, gpus[i].bytes, how);
        gpus[i].inside = map(file, gpus[i].bytes, PROT_READ | PROT_WRITE);
        close(file);
        gpus[i].reaches[i] = true;
    }
}

static const char *text_of(int code)
{
    switch (code) {
    case E_VALUE: return "invalid argument";
    case E_MEMORY: return "out of memory";
    case E_BUSY: return "CUDA-capable device(s) is/are busy or unavailable";
    case E_CONTEXT: return "invalid device context";
    case E_HANDLE: return "invalid resource handle";
    case E_NOT_FOUND: return "named symbol not found";
    case E_RESOURCES: return "too many resources requested for launch";
    default: return "unknown error";
    }
}

/* Whether this call is the one that is to fail. */
static bool fails(const char *kind)
{
    static std::string wanted;
    static unsigned long left;
    const char *text = getenv("FAKE_GPU_FAIL");
    locked here;
    if (wanted != (text ? text : "")) {
        wanted = text ? text : "";
        const char *colon = text ? strchr(text, ':') : NULL;
        left = colon ? strtoul(colon + 1, NULL, 10) : 0;
    }
    size_t n = strlen(kind);
    if (left == 0 || wanted.compare(0, n, kind) != 0 || wanted[n] != ':')
        return false;
    return --left == 0;
}

/* ---- Devices ---- */

static bool is_busy(int id)
{
    const char *busy = getenv("FAKE_GPU_BUSY");
    return busy && strchr(busy, '0' + id);
}

static int count_of(int *out)
{
    *out = count;
    return E_NONE;
}

static int facts_of(int id, gpu_facts *out, int *multiprocessors)
{
    if (id >= count)
        return E_VALUE;
    snprintf(out->name, sizeof out->name, "no GPU, but host memory");
    out->bytes = (int64_t)gpus[id].bytes;
    out->major = 9;
    out->minor = 0;
    *multiprocessors = 1;
    return E_NONE;
}

static int room_of(int id, int64_t *out)
{
    size_t used = 0;
    if (is_busy(id))
        return E_BUSY;
    locked here;
    for (auto &b : gpus[id].used)
        used += b.second.bytes;
    *out = (int64_t)(gpus[id].bytes - used);
    return E_NONE;
}

static int use_device(int id)
{
    if (id >= count)
        return E_VALUE;
    if (is_busy(id) || fails("use"))
        return E_BUSY;
    gpus[id].context = true;
    current = id;
    return E_NONE;
}

static bool are_near(int id, int other)
{
    const char *islands = getenv("FAKE_GPU_ISLANDS");
    while (islands && *islands) {
        size_t n = strcspn(islands, " ");
        if (memchr(islands, '0' + id, n) && memchr(islands, '0' + other, n))
            return true;
        islands += n + strspn(islands + n, " ");
    }
    return !islands;
}

static int can_reach(int id, int other, int *can)
{
    *can = id != other && are_near(id, other);
    return E_NONE;
}

static int reach(int id, int other)
{
    if (!are_near(id, other))
        return E_VALUE;
    if (current != id || !gpus[other].context)
        return E_CONTEXT;
    gpus[id].reaches[other] = true;
    return E_NONE;
}

/* ---- Memory ---- */

/* While one of these lives the memory that a device reaches can be touched. The driver is locked. */
struct kernel_access {
    const gpu &g;
    explicit kernel_access(const gpu &which) : g(which) { allow(PROT_READ | PROT_WRITE); }
    ~kernel_access() { allow(PROT_NONE); }
    void allow(int how) const
    {
        for (int i = 0; i < count && !open_to_all; i++)
            if (g.reaches[i])
                mprotect(gpus[i].begin, gpus[i].bytes, how);
    }
};

/* The host memory behind an address of a device or of the host, for copies. */
static void *inside(const void *p)
{
    for (int i = 0; i < count; i++)
        if ((char *)p >= gpus[i].begin && (char *)p < gpus[i].begin + gpus[i].bytes)
            return gpus[i].inside + ((char *)p - gpus[i].begin);
    return (void *)p;
}

/* First fit; blocks are 256 aligned, and hold what is not a number. */
static int alloc_block(void **out, int64_t bytes)
{
    *out = NULL;
    if (current == NO_DEVICE)
        return E_CONTEXT;
    if (fails("alloc"))
        return E_MEMORY;
    locked here;
    gpu &g = gpus[current];
    size_t at = 0, size = ((size_t)bytes + 255) / 256 * 256;
    for (auto &b : g.used) {
        if (b.first - at >= size)
            break;
        at = b.first + b.second.bytes;
    }
    if (at + size > g.bytes)
        return E_MEMORY;
    g.used[at] = block{size, streams_number()};
    memset(g.inside + at, 0xff, size);
    *out = g.begin + at;
    return E_NONE;
}

static int free_block(void *p)
{
    locked here;
    if (current == NO_DEVICE)
        return E_CONTEXT;
    auto found = gpus[current].used.find((size_t)((char *)p - gpus[current].begin));
    if (found == gpus[current].used.end())
        return E_VALUE;
    if (streams_use(p, (int64_t)found->second.bytes))
        streams_die("a block of a device is freed that queued work uses");
    gpus[current].used.erase(found);
    return E_NONE;
}

static int alloc_pinned(void **out, int64_t bytes)
{
    *out = NULL;
    if (current == NO_DEVICE)
        return E_CONTEXT;
    if (fails("pin") || !(*out = mem_alloc_data(bytes, NULL)))
        return E_MEMORY;
    locked here;
    pinned[(char *)*out] = block{(size_t)bytes, streams_number()};
    return E_NONE;
}

static int free_pinned(void *host)
{
    locked here;
    auto found = pinned.find((char *)host);
    if (found == pinned.end())
        return E_VALUE;
    if (streams_use(host, (int64_t)found->second.bytes))
        streams_die("pinned memory is freed that queued work uses");
    pinned.erase(found);
    mem_free_data(host);
    return E_NONE;
}

/* The device that has these bytes, since before so much work was given, or NO_DEVICE. */
static int owner_of(const void *p, int64_t bytes, uint64_t since)
{
    for (int i = 0; i < count; i++) {
        gpu &g = gpus[i];
        if ((char *)p < g.begin || (char *)p >= g.begin + g.bytes)
            continue;
        size_t at = (size_t)((char *)p - g.begin);
        auto next = g.used.upper_bound(at);
        if (next == g.used.begin())
            return NO_DEVICE;
        auto found = std::prev(next);
        bool holds = at + (size_t)bytes <= found->first + found->second.bytes;
        return holds && found->second.born <= since ? i : NO_DEVICE;
    }
    return NO_DEVICE;
}

static bool is_pinned(const void *p, int64_t bytes)
{
    auto next = pinned.upper_bound((const char *)p);
    if (next == pinned.begin())
        return false;
    auto found = std::prev(next);
    return (const char *)p + bytes <= found->first + found->second.bytes;
}

/* ---- Streams ---- */

static int new_stream(driver_stream **out)
{
    if (current == NO_DEVICE || fails("stream"))
        return E_CONTEXT;
    locked here;
    *out = streams_new(current);
    return E_NONE;
}

static int new_event(driver_event **out)
{
    if (current == NO_DEVICE || fails("event"))
        return E_CONTEXT;
    *out = new driver_event{current, nullptr};
    return E_NONE;
}

static int record_event(driver_event *e, driver_stream *s)
{
    if (fails("record"))
        return E_UNKNOWN;
    locked here;
    if (e->device != s->device || s->device != current)
        return E_HANDLE;
    streams_record(e, s);
    return E_NONE;
}

static int wait_event(driver_stream *s, driver_event *e)
{
    if (fails("wait"))
        return E_UNKNOWN;
    locked here;
    if (s->device != current)
        return E_HANDLE;
    streams_wait(s, e);
    return E_NONE;
}

static int sync_event(driver_event *e)
{
    if (fails("sync"))
        return E_UNKNOWN;
    locked here;
    streams_sync(e);
    return E_NONE;
}

static int sync_stream(driver_stream *s)
{
    if (fails("sync"))
        return E_UNKNOWN;
    locked here;
    if (s->device != current)
        return E_HANDLE;
    streams_sync(s);
    return E_NONE;
}

static int zero_block(void *dst, int64_t bytes, driver_stream *s)
{
    if (fails("zero"))
        return E_UNKNOWN;
    locked here;
    if (s->device != current)
        return E_HANDLE;
    if (owner_of(dst, bytes, streams_number()) != s->device)
        return E_VALUE;
    streams_add(s, {{{dst, bytes}},
                    [=](uint64_t) { memset(inside(dst), 0, (size_t)bytes); },
                    nullptr, nullptr, 0});
    return E_NONE;
}

/* Host memory is read or written when the copy is done, which only holds where it is pinned. */
static int add_copy(void *dst, const void *src, int64_t bytes, driver_stream *s)
{
    streams_add(s, {{{dst, bytes}, {src, bytes}},
                    [=](uint64_t) { memcpy(inside(dst), inside(src), (size_t)bytes); },
                    nullptr, nullptr, 0});
    return E_NONE;
}

static int copy_in(void *dst, const void *host, int64_t bytes, driver_stream *s)
{
    if (fails("copy"))
        return E_UNKNOWN;
    locked here;
    if (s->device != current)
        return E_HANDLE;
    if (owner_of(dst, bytes, streams_number()) != s->device)
        return E_VALUE;
    if (!is_pinned(host, bytes))
        streams_die("a copy is queued from memory that is not pinned");
    bytes_in += bytes;
    return add_copy(dst, host, bytes, s);
}

static int copy_out(void *host, const void *src, int64_t bytes, driver_stream *s)
{
    if (fails("copy"))
        return E_UNKNOWN;
    locked here;
    if (s->device != current)
        return E_HANDLE;
    if (owner_of(src, bytes, streams_number()) != s->device)
        return E_VALUE;
    if (!is_pinned(host, bytes))
        streams_die("a copy is queued to memory that is not pinned");
    bytes_out += bytes;
    return add_copy(host, src, bytes, s);
}

static int copy_block(void *dst, int to, const void *src, int from, int64_t bytes,
                      driver_stream *s)
{
    if (fails("copy"))
        return E_UNKNOWN;
    locked here;
    if (s->device != current || !gpus[from].context)
        return E_HANDLE;
    if (owner_of(dst, bytes, streams_number()) != to || owner_of(src, bytes, streams_number()) != from)
        return E_VALUE;
    bytes_between += bytes;
    return add_copy(dst, src, bytes, s);
}

/* ---- Kernels ---- */

/* A kernel, loaded on a device. */
typedef void shim(const job_list *l, unsigned blocks, unsigned threads);

struct driver_kernel {
    int device;
    shim *run;
    std::string name;
};

#define BUILT_IN(X)                                                                                \
    X(kv_sum) X(kv_sum_rows) X(kv_sum_chunks) X(kv_sum_all) X(kv_convert_list) X(kv_gather_rows)   \
    X(kv_quantise) X(kv_dequantise) X(kv_quantise_sum) X(kv_fold_sum)          \
    X(kv_fold_max) X(kv_fold_min)

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
    if (current == NO_DEVICE)
        return E_CONTEXT;
    if (fails("load"))
        return E_MEMORY;
#define MATCH(built_in)                                                                            \
    if (strcmp(name, #built_in) == 0)                                                              \
        found = shim_##built_in;
    BUILT_IN(MATCH)
    if (!found && bytes > 0)
        found = open_image(image, bytes, name);
    *out = found ? new driver_kernel{current, found, name} : NULL;
    return found ? E_NONE : E_NOT_FOUND;
}

/* The memory that a job's list names must still be allocated, and in no block that was taken
 * later. */
static void check_place(const gpu &g, const void *p, uint64_t since)
{
    int owner = owner_of(p, 1, since);
    if (p && owner == NO_DEVICE)
        streams_die("a kernel works on memory that was freed after it was queued, or never taken");
    if (p && !g.reaches[owner])
        streams_die("a kernel works on memory of a device that cannot be reached");
}

static void run_kernel(const driver_kernel *k, unsigned blocks, unsigned threads,
                       const job_list &list, uint64_t since)
{
    const gpu &g = gpus[k->device];
    kernel_access reachable(g);
    check_place(g, list.items, since);
    for (long long i = 0; i < list.nitems; i++) {
        const job_item &j = list.items[i];
        check_place(g, j.n > 0 ? j.dst : NULL, since);
        for (long long s = 0; s < j.nsrc && j.n > 0; s++)
            check_place(g, j.src[s], since);
    }
    k->run(&list, blocks, threads);
}

static int launch_kernel(driver_kernel *k, unsigned blocks, unsigned threads,
                         const job_list *list, driver_stream *s)
{
    if (fails("launch"))
        return E_RESOURCES;
    locked here;
    int64_t bytes = list->nitems * (int64_t)sizeof *list->items;
    if (s->device != current || k->device != current)
        return E_HANDLE;
    if (owner_of(list->items, bytes, streams_number()) != current)
        return E_VALUE;
    launches[k->name]++;
    job_list copy = *list;
    streams_add(s, {{{list->items, bytes}},
                    [=](uint64_t since) { run_kernel(k, blocks, threads, copy, since); },
                    nullptr, nullptr, 0});
    return E_NONE;
}

/* ---- Rules ---- */

/* The number of the text is its name: the first one that is free, since earlier processes kept
 * theirs in the same folder. */
static void keep_text(const char *text)
{
    static int number;
    char path[512];
    const char *folder = getenv("FAKE_GPU_TEXTS");
    FILE *f = NULL;
    if (!folder)
        return;
    do {
        snprintf(path, sizeof path, "%s/%d.cc", folder, number++);
        f = fopen(path, "wx");
    } while (!f && errno == EEXIST);
    if (!f)
        return perror(path);
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
    /* No rule needs the headers and libraries of C++, which take most of the time; none runs long. */
    snprintf(command, sizeof command,
             "c++ -std=c++17 -O0 -nostdinc++ -nostdlib -w -fno-strict-aliasing -ffp-contract=off -fPIC -shared "
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

static int version(void)
{
    return 12080;
}

static int compiler(void)
{
    return 12006;
}

extern "C" int driver_open(const driver **out, kv_err *e)
{
    static driver table;
    if (count < 0)
        begin();
    table.text = text_of;
    table.count = count_of;
    table.version = version;
    table.facts = facts_of;
    table.room = room_of;
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
    table.can_reach = can_reach;
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
