/* The table over libcuda and NVRTC, which are opened when the plugin starts and when a first rule
 * is compiled. (CUDA Driver API and NVRTC documentation, version 12 and 13.) */
#include "cuda/driver.h"

#include <cuda.h>
#include <nvrtc.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cuda/library.h"

/* Functions of libcuda: name in the library, with the version that the headers declare. */
#define CUDA_FUNCTIONS(X)                                                                          \
    X(cuInit)                                                                                      \
    X(cuGetErrorName)                                                                              \
    X(cuGetErrorString)                                                                            \
    X(cuDriverGetVersion)                                                                          \
    X(cuDeviceGetCount)                                                                            \
    X(cuDeviceGet)                                                                                 \
    X(cuDeviceGetName)                                                                             \
    X(cuDeviceGetAttribute)                                                                        \
    X(cuDeviceTotalMem)                                                                            \
    X(cuDeviceCanAccessPeer)                                                                       \
    X(cuDevicePrimaryCtxRetain)                                                                    \
    X(cuDevicePrimaryCtxRelease)                                                                   \
    X(cuCtxGetCurrent)                                                                             \
    X(cuCtxSetCurrent)                                                                             \
    X(cuCtxEnablePeerAccess)                                                                       \
    X(cuMemGetInfo)                                                                                \
    X(cuMemAlloc)                                                                                  \
    X(cuMemFree)                                                                                   \
    X(cuMemHostAlloc)                                                                              \
    X(cuMemFreeHost)                                                                               \
    X(cuStreamCreate)                                                                              \
    X(cuStreamSynchronize)                                                                         \
    X(cuStreamWaitEvent)                                                                           \
    X(cuEventCreate)                                                                               \
    X(cuEventRecord)                                                                               \
    X(cuEventSynchronize)                                                                          \
    X(cuMemsetD8Async)                                                                             \
    X(cuMemcpyHtoDAsync)                                                                           \
    X(cuMemcpyDtoHAsync)                                                                           \
    X(cuMemcpyAsync)                                                                               \
    X(cuMemcpyPeerAsync)                                                                           \
    X(cuModuleLoadData)                                                                            \
    X(cuModuleGetFunction)                                                                         \
    X(cuLaunchKernel)

#define NVRTC_FUNCTIONS(X)                                                                         \
    X(nvrtcVersion)                                                                                \
    X(nvrtcGetErrorString)                                                                         \
    X(nvrtcCreateProgram)                                                                          \
    X(nvrtcDestroyProgram)                                                                         \
    X(nvrtcCompileProgram)                                                                         \
    X(nvrtcGetCUBINSize)                                                                           \
    X(nvrtcGetCUBIN)                                                                               \
    X(nvrtcGetPTXSize)                                                                             \
    X(nvrtcGetPTX)                                                                                 \
    X(nvrtcGetProgramLogSize)                                                                      \
    X(nvrtcGetProgramLog)

/* The functions that old versions of NVRTC lack. */
#define NVRTC_EXTRAS(X)                                                                            \
    X(nvrtcGetNumSupportedArchs)                                                                   \
    X(nvrtcGetSupportedArchs)

#define FIELD(name) __typeof__(&(name)) name;
#define TEXT_(name) #name
#define TEXT(name)  TEXT_(name)

static struct {
    CUDA_FUNCTIONS(FIELD)
    CUcontext contexts[GPU_MOST];
} cu;

static struct {
    pthread_mutex_t lock;
    bool open;
    int version;
    NVRTC_FUNCTIONS(FIELD)
    NVRTC_EXTRAS(FIELD)
} nvrtc = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- libcuda ---- */

static const char *text_of(int rc)
{
    const char *name = NULL, *text = NULL;
    if (rc == CUDA_ERROR_NO_BINARY_FOR_GPU)
        return "it is older than the GPUs that its kernels are built for (CUDA_CODE, Makefile)";
    cu.cuGetErrorName((CUresult)rc, &name);
    cu.cuGetErrorString((CUresult)rc, &text);
    return text ? text : name ? name : "an error without a text";
}

static CUdeviceptr address(const void *p)
{
    return (CUdeviceptr)(uintptr_t)p;
}

static int version(void)
{
    int out = 0;
    return cu.cuDriverGetVersion(&out) ? 0 : out;
}

static int count_of(int *out)
{
    return (int)cu.cuDeviceGetCount(out);
}

static int use_device(int id)
{
    CUdevice device;
    CUresult rc = CUDA_SUCCESS;
    if (!cu.contexts[id] && (rc = cu.cuDeviceGet(&device, id)) == CUDA_SUCCESS)
        rc = cu.cuDevicePrimaryCtxRetain(&cu.contexts[id], device);
    return (int)(rc ? rc : cu.cuCtxSetCurrent(cu.contexts[id]));
}

static void *current_context(void)
{
    CUcontext context = NULL;
    return cu.cuCtxGetCurrent(&context) ? NULL : (void *)context;
}

static void back_to(void *context)
{
    if (current_context() != context)
        cu.cuCtxSetCurrent((CUcontext)context);
}

static int facts_of(int id, gpu_facts *out, int *multiprocessors)
{
    CUdevice device;
    size_t bytes = 0;
    CUresult rc = cu.cuDeviceGet(&device, id);
    if (!rc)
        rc = cu.cuDeviceGetName(out->name, (int)sizeof out->name, device);
    if (!rc)
        rc = cu.cuDeviceGetAttribute(&out->major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                                     device);
    if (!rc)
        rc = cu.cuDeviceGetAttribute(&out->minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                                     device);
    if (!rc)
        rc = cu.cuDeviceGetAttribute(multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
                                     device);
    if (!rc)
        rc = cu.cuDeviceTotalMem(&bytes, device);
    out->bytes = (int64_t)bytes;
    return (int)rc;
}

/* A context takes some of the memory, and time: one that was made for this goes at once. */
static int room_of(int id, int64_t *free_bytes)
{
    CUdevice device;
    CUcontext context = cu.contexts[id];
    void *before = current_context();
    bool guest = !context;
    size_t all = 0, left = 0;
    CUresult rc = cu.cuDeviceGet(&device, id);
    if (!rc && guest)
        rc = cu.cuDevicePrimaryCtxRetain(&context, device);
    if (rc)
        return (int)rc;
    rc = cu.cuCtxSetCurrent(context);
    if (!rc)
        rc = cu.cuMemGetInfo(&left, &all);
    back_to(before);
    if (guest)
        cu.cuDevicePrimaryCtxRelease(device);
    *free_bytes = (int64_t)left;
    return (int)rc;
}

static int alloc_block(void **out, int64_t bytes)
{
    CUdeviceptr block = 0;
    CUresult rc = cu.cuMemAlloc(&block, (size_t)bytes);
    *out = (void *)(uintptr_t)block;
    return (int)rc;
}

static int free_block(void *block)
{
    return (int)cu.cuMemFree(address(block));
}

static int alloc_pinned(void **out, int64_t bytes)
{
    return (int)cu.cuMemHostAlloc(out, (size_t)bytes, CU_MEMHOSTALLOC_PORTABLE);
}

static int free_pinned(void *host)
{
    return (int)cu.cuMemFreeHost(host);
}

static int new_stream(driver_stream **out)
{
    CUstream s = NULL;
    CUresult rc = cu.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING);
    *out = (driver_stream *)(void *)s;
    return (int)rc;
}

static int new_event(driver_event **out)
{
    CUevent e = NULL;
    CUresult rc = cu.cuEventCreate(&e, CU_EVENT_DISABLE_TIMING);
    *out = (driver_event *)(void *)e;
    return (int)rc;
}

static CUstream stream_of(driver_stream *s)
{
    return (CUstream)(void *)s;
}

static CUevent event_of(driver_event *e)
{
    return (CUevent)(void *)e;
}

static int record_event(driver_event *e, driver_stream *s)
{
    return (int)cu.cuEventRecord(event_of(e), stream_of(s));
}

static int wait_event(driver_stream *s, driver_event *e)
{
    return (int)cu.cuStreamWaitEvent(stream_of(s), event_of(e), 0);
}

static int sync_event(driver_event *e)
{
    return (int)cu.cuEventSynchronize(event_of(e));
}

static int sync_stream(driver_stream *s)
{
    return (int)cu.cuStreamSynchronize(stream_of(s));
}

static int zero_block(void *dst, int64_t bytes, driver_stream *s)
{
    return (int)cu.cuMemsetD8Async(address(dst), 0, (size_t)bytes, stream_of(s));
}

static int copy_in(void *dst, const void *host, int64_t bytes, driver_stream *s)
{
    return (int)cu.cuMemcpyHtoDAsync(address(dst), host, (size_t)bytes, stream_of(s));
}

static int copy_out(void *host, const void *src, int64_t bytes, driver_stream *s)
{
    return (int)cu.cuMemcpyDtoHAsync(host, address(src), (size_t)bytes, stream_of(s));
}

static int copy_block(void *dst, int to, const void *src, int from, int64_t bytes,
                      driver_stream *s)
{
    if (to == from)
        return (int)cu.cuMemcpyAsync(address(dst), address(src), (size_t)bytes, stream_of(s));
    return (int)cu.cuMemcpyPeerAsync(address(dst), cu.contexts[to], address(src),
                                     cu.contexts[from], (size_t)bytes, stream_of(s));
}

static int can_reach(int id, int other, int *can)
{
    CUdevice here, there;
    CUresult rc = cu.cuDeviceGet(&here, id);
    if (!rc)
        rc = cu.cuDeviceGet(&there, other);
    if (!rc)
        rc = cu.cuDeviceCanAccessPeer(can, here, there);
    return (int)rc;
}

/* A device has a limit of others that it reaches; copies from the rest take the longer way. */
static int reach(int id, int other)
{
    CUresult rc = (CUresult)use_device(id);
    if (!rc)
        rc = cu.cuCtxEnablePeerAccess(cu.contexts[other], 0);
    bool fine = rc == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED || rc == CUDA_ERROR_TOO_MANY_PEERS;
    return fine ? 0 : (int)rc;
}

static int load_kernel(driver_kernel **out, const void *image, int64_t bytes, const char *name)
{
    CUmodule module = NULL;
    CUfunction function = NULL;
    (void)bytes; /* the image says where it ends */
    CUresult rc = cu.cuModuleLoadData(&module, image);
    if (!rc)
        rc = cu.cuModuleGetFunction(&function, module, name);
    *out = (driver_kernel *)(void *)function;
    return (int)rc;
}

static int launch_kernel(driver_kernel *k, unsigned blocks, unsigned threads, const job_list *list,
                         driver_stream *s)
{
    job_list copy = *list;
    void *arguments[] = {&copy};
    return (int)cu.cuLaunchKernel((CUfunction)(void *)k, blocks, 1, 1, threads, 1, 1, 0,
                                  stream_of(s), arguments, NULL);
}

/* ---- NVRTC ---- */

/* 12 for 12.4; 0 if the version is unknown, for example without a driver. */
static int driver_major(void)
{
    return cu.cuDriverGetVersion ? version() / 1000 : 0;
}

/* NVRTC in a file, unless it is newer than the driver, which could not load what it makes. */
static void *open_compiler(const char *name)
{
    int major = 0, minor = 0;
    void *library = library_open(&name, 1);
    bool runs = library && library_find(library, "nvrtcVersion", (void *)&nvrtc.nvrtcVersion) &&
                !nvrtc.nvrtcVersion(&major, &minor) &&
                (!driver_major() || major <= driver_major());
    return runs ? library : NULL;
}

/* That of the driver's CUDA comes first, then older ones. Packages install NVRTC under its version;
 * a toolkit of its own has the plain name. */
static void *find_compiler(void)
{
    static const char *const others[] = {"libnvrtc.so.11.2", "libnvrtc.so",
                                         "/usr/local/cuda/lib64/libnvrtc.so"};
    enum { OTHERS = sizeof others / sizeof *others, OLDEST = 12 };
    char name[32];
    void *found = NULL;
    int major = driver_major() ? driver_major() : CUDA_VERSION / 1000;
    for (; major >= OLDEST && !found; major--) {
        snprintf(name, sizeof name, "libnvrtc.so.%d", major);
        found = open_compiler(name);
    }
    for (int i = 0; i < OTHERS && !found; i++)
        found = open_compiler(others[i]);
    return found;
}

static int need_compiler(kv_err *e)
{
    bool all = true;
    int major = 0, minor = 0;
    pthread_mutex_lock(&nvrtc.lock);
    void *library = nvrtc.open ? NULL : find_compiler();
    if (library) {
#define FIND(name) all &= library_find(library, #name, (void *)&nvrtc.name);
        NVRTC_FUNCTIONS(FIND)
#undef FIND
#define FIND(name) library_find(library, #name, (void *)&nvrtc.name);
        NVRTC_EXTRAS(FIND)
#undef FIND
        nvrtc.open = all;
        if (all && nvrtc.nvrtcVersion(&major, &minor) == NVRTC_SUCCESS)
            nvrtc.version = major * 1000 + minor;
    }
    bool open = nvrtc.open;
    pthread_mutex_unlock(&nvrtc.lock);
    if (open)
        return KV_OK;
    kv_err_set(e, KV_E_UNSUPPORTED, "rules for GPUs need NVRTC, and no libnvrtc.so can be loaded");
    kv_err_hint(e, "it comes with the CUDA Toolkit (Debian: libnvrtc), and one that is newer than "
                   "the driver is of no use");
    return KV_E_UNSUPPORTED;
}

static int compiler_version(void)
{
    kv_err why = {0};
    return need_compiler(&why) ? 0 : nvrtc.version;
}

/* The beginning of the compiler's log. */
static void add_log(nvrtcProgram p, kv_err *e)
{
    size_t bytes = 0;
    own_mem char *log = NULL;
    if (nvrtc.nvrtcGetProgramLogSize(p, &bytes) == NVRTC_SUCCESS && bytes > 1)
        log = mem_zalloc((int64_t)bytes + 1, 1, NULL);
    if (log && nvrtc.nvrtcGetProgramLog(p, log) == NVRTC_SUCCESS) {
        log[strcspn(log, "\n")] = '\0';
        kv_err_hint(e, "%.200s", log);
    }
}

/* The highest architecture that the compiler knows and the device has too, as 90 of sm_90; 0 where
 * there is none, or the compiler is too old to say. */
static int highest_known(int arch)
{
    int n = 0, best = 0;
    if (!nvrtc.nvrtcGetNumSupportedArchs || !nvrtc.nvrtcGetSupportedArchs ||
        nvrtc.nvrtcGetNumSupportedArchs(&n) || n <= 0)
        return 0;
    own_mem int *known = mem_zalloc(n, sizeof *known, NULL);
    if (known && nvrtc.nvrtcGetSupportedArchs(known) == NVRTC_SUCCESS)
        for (int i = 0; i < n; i++)
            if (known[i] <= arch && known[i] > best)
                best = known[i];
    return best;
}

/* PTX ends with a zero byte, which its size counts. */
static int take_image(nvrtcProgram p, bool is_ptx, void **image, int64_t *bytes, kv_err *e)
{
    size_t size = 0;
    nvrtcResult rc = is_ptx ? nvrtc.nvrtcGetPTXSize(p, &size) : nvrtc.nvrtcGetCUBINSize(p, &size);
    void *made = rc ? NULL : mem_alloc((int64_t)size, 1, e);
    if (!rc && !made)
        return KV_E_MEMORY;
    if (!rc)
        rc = is_ptx ? nvrtc.nvrtcGetPTX(p, made) : nvrtc.nvrtcGetCUBIN(p, made);
    if (rc) {
        mem_free(made);
        return kv_err_set(e, KV_E_UNSUPPORTED, "a compiled rule cannot be had: %s",
                          nvrtc.nvrtcGetErrorString(rc));
    }
    *image = made;
    *bytes = (int64_t)size;
    return KV_OK;
}

/* Only PTX runs on devices that are newer than the compiler. A device older than all that it knows
 * is asked for by its name, so that the error is the compiler's own. */
int driver_compile(void **image, int64_t *bytes, const char *text, int major, int minor, kv_err *e)
{
    char arch[40];
    const char *options[] = {arch, DRIVER_OPTIONS};
    nvrtcProgram p = NULL;
    TRY(need_compiler(e));
    int own = major * 10 + minor, known = highest_known(own);
    bool is_ptx = known > 0 && known < own;
    snprintf(arch, sizeof arch, "--gpu-architecture=%s_%d", is_ptx ? "compute" : "sm",
             is_ptx ? known : own);
    nvrtcResult made = nvrtc.nvrtcCreateProgram(&p, text, "rule.cu", 0, NULL, NULL);
    if (!made)
        made = nvrtc.nvrtcCompileProgram(p, sizeof options / sizeof *options, options);
    int rc = KV_OK;
    if (made) {
        rc = kv_err_set(e, KV_E_UNSUPPORTED, "a rule does not compile for this GPU: %s",
                        nvrtc.nvrtcGetErrorString(made));
        if (p)
            add_log(p, e);
    } else {
        rc = take_image(p, is_ptx, image, bytes, e);
    }
    if (p)
        nvrtc.nvrtcDestroyProgram(&p);
    return rc;
}

/* ---- Opening ---- */

static int open_driver(kv_err *e)
{
    const char *lacking = NULL;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return kv_err_set(e, KV_E_UNSUPPORTED, "no CUDA driver: %s", dlerror());
#define FIND(name)                                                                                 \
    if (!library_find(library, TEXT(name), (void *)&cu.name))                                      \
        lacking = TEXT(name);
    CUDA_FUNCTIONS(FIND)
#undef FIND
    if (lacking)
        return kv_err_set(e, KV_E_UNSUPPORTED, "the CUDA driver is too old: it has no %s",
                          lacking);
    return KV_OK;
}

int driver_open(const driver **out, kv_err *e)
{
    static const driver table = {
        .text = text_of,
        .version = version,
        .count = count_of,
        .facts = facts_of,
        .room = room_of,
        .use = use_device,
        .current = current_context,
        .back = back_to,
        .alloc = alloc_block,
        .free = free_block,
        .alloc_host = alloc_pinned,
        .free_host = free_pinned,
        .stream = new_stream,
        .event = new_event,
        .record = record_event,
        .wait_event = wait_event,
        .sync_event = sync_event,
        .sync = sync_stream,
        .zero = zero_block,
        .copy_in = copy_in,
        .copy_out = copy_out,
        .copy = copy_block,
        .can_reach = can_reach,
        .reach = reach,
        .load = load_kernel,
        .launch = launch_kernel,
        .compile = driver_compile,
        .compiler = compiler_version,
    };
    int n = 0, rc = open_driver(e), known = rc ? 0 : version(), built = CUDA_VERSION / 1000;
    if (rc)
        return rc;
    if (known > 0 && known / 1000 < built)
        return kv_err_set(e, KV_E_UNSUPPORTED,
                          "the driver knows CUDA %d.%d, and this build wants %d: a newer driver "
                          "(580 for CUDA 13), or a build by the CUDA Toolkit %d",
                          known / 1000, known % 1000 / 10, built, known / 1000);
    CUresult code = cu.cuInit(0);
    if (!code)
        code = cu.cuDeviceGetCount(&n);
    if (code)
        return kv_err_set(e, KV_E_UNSUPPORTED, "the CUDA driver does not start: %s",
                          text_of((int)code));
    if (n == 0)
        return kv_err_set(e, KV_E_UNSUPPORTED, "the CUDA driver finds no GPU");
    *out = &table;
    return KV_OK;
}
