/* cuda/driver.c and gpu_device.c over a driver and compilers that are stubs (cuda_stub.c), which
 * the loader must find before those of the machine: LD_LIBRARY_PATH. TAP. */
#include <cuda.h>
#include <string.h>

#include "base/mem.h"
#include "cuda/gpu_device.h"
#include "tap.h"

static bool kept;
static const driver *d;

static bool says(const kv_err *e, const char *text)
{
    bool ok = strstr(e->text, text) || strstr(e->hint, text);
    if (!ok)
        printf("# %s, %s; not: %s\n", e->text, e->hint, text);
    return ok;
}

/* The compiler is the driver's, though the machine has a newer one. */
static void test_versions(void)
{
    char text[20], wants[80];
    kv_err e = {0};
    void *image = NULL;
    int64_t bytes;
    snprintf(text, sizeof text, "%d", CUDA_VERSION - 1000);
    setenv("STUB_CUDA", text, 1);
    snprintf(wants, sizeof wants,
             "the driver knows CUDA %d.%d, and this build wants %d: a newer driver",
             CUDA_VERSION / 1000 - 1, CUDA_VERSION % 1000 / 10, CUDA_VERSION / 1000);
    verdict(driver_open(&d, &e) == KV_E_UNSUPPORTED && says(&e, wants),
            "a driver that is older than the build");
    setenv("STUB_CUDA", "12040", 1);
    e = (kv_err){0};
    bool ok = !driver_compile(&image, &bytes, "text", 9, 0, &e);
    verdict(ok && strcmp(image, "12 --gpu-architecture=sm_90") == 0,
            "a rule is compiled by the NVRTC of the driver's CUDA");
    mem_free(ok ? image : NULL);
    ok = !driver_compile(&image, &bytes, "text", 10, 0, &e);
    verdict(ok && strcmp(image, "12 --gpu-architecture=compute_90") == 0,
            "for a newer device it is text");
    mem_free(ok ? image : NULL);
    ok = driver_compile(&image, &bytes, "- wrong", 9, 0, &e) == KV_E_UNSUPPORTED &&
         says(&e, "it is wrong") && says(&e, "line 3");
    verdict(ok && !strchr(e.hint, '\n'), "what the compiler refuses");
    snprintf(text, sizeof text, "%d", CUDA_VERSION);
    setenv("STUB_CUDA", text, 1);
    e = (kv_err){0};
    verdict(driver_open(&d, &e) == KV_OK, "a driver of the build's CUDA opens");
}

static bool copies(int id, int other, void *here, void *there)
{
    enum { N = 5 << 20 };
    kv_err e = {0};
    char *x = calloc(N, 1), *y = calloc(N, 1);
    for (int i = 0; i < N; i++)
        x[i] = (char)(i * 7 >> 3);
    bool ok = !device_copy_in(id, here, x, N, &e) && !device_copy(other, there, id, here, N, &e) &&
              !device_zero(id, here, N, &e) && !device_copy(id, here, id, here, N, &e) &&
              !device_copy_out(other, y, there, N, &e) && memcmp(x, y, N) == 0 &&
              !device_copy_out(id, y, here, N, &e) && y[0] == 0 && y[N - 1] == 0 &&
              !device_wait(id, &e);
    says(&e, "");
    free(x);
    free(y);
    return ok;
}

static bool launches(int id, void *block)
{
    kv_err e = {0};
    driver_kernel *k = NULL;
    gpu_job job = {.dst = block, .n = 5000};
    int threads = 0;
    bool ok = !device_load(id, &k, "image", 5, "kernel", &e) &&
              !device_launch(id, k, 1000, &job, 1, &e) &&
              !device_copy_out(id, &threads, block, sizeof threads, &e) && threads == 256;
    ok &= device_load(id, &k, "image", 5, "other", &e) &&
          says(&e, "gpu(0) cannot load a kernel: an error without a text");
    e = (kv_err){0};
    return ok & (device_load(id, &k, "-", 1, "kernel", &e) &&
                 says(&e, "older than the GPUs that its kernels are built for"));
}

static int give(void *arg, driver_stream *const *streams, kv_err *e)
{
    (void)e;
    return arg || !streams[0] || !streams[1];
}

/* Notes whether a call left another context in this thread than there was before. */
static bool keeps(bool done, void *own)
{
    kept &= d->current() == own;
    return done;
}

/* A program that uses CUDA itself finds its device as it was. */
static void test_devices(void *own)
{
    enum { N = 5 << 20 };
    kv_err e = {0};
    void *block[2] = {0}, *none = NULL;
    gpu_facts facts;
    int64_t left = 0;
    int count = 0, both[] = {0, 1};
    bool can = false;
    d->back(own);
    kept = true;
    verdict(!device_open(d, &count, &e) && count == 2 && !device_facts(1, &facts, &e) &&
                strcmp(facts.name, "stub 1") == 0 && facts.major == 9 && facts.minor == 1 &&
                facts.bytes == (int64_t)2 << 30 && keeps(!device_room(0, &left, &e), own) &&
                left == 1 << 20 && !device_reaches(0, 1, &can, &e) && can,
            "devices and what they are");
    verdict(keeps(!device_alloc(0, N, &block[0], &e), own) &&
                keeps(!device_alloc(1, N, &block[1], &e), own),
            "memory");
    verdict(keeps(copies(0, 1, block[0], block[1]), own) &&
                keeps(copies(1, 0, block[1], block[0]), own),
            "copies");
    verdict(keeps(launches(0, block[0]), own), "launches");
    verdict(keeps(!device_together(both, 2, give, NULL, &e), own) &&
                keeps(device_together(both, 2, give, &e, &e), own),
            "both at once");
    bool full = keeps(device_alloc(1, (int64_t)1 << 40, &none, &e) == KV_E_MEMORY, own);
    verdict(full && says(&e, "gpu(1) has no 1099511627776 bytes of memory: out of memory"),
            "memory that is not there");
    device_free(0, block[0]);
    device_free(1, block[1]);
    verdict(keeps(true, own) && kept,
            own ? "the program's device stays current" : "no device becomes current");
}

int main(void)
{
    test_versions();
    if (d) {
        int rc = d->use(1);
        void *second = d->current();
        verdict(!rc && second, "a device is used");
        test_devices(second);
        d->use(0);
        test_devices(d->current());
        test_devices(NULL);
    }
    return end_verdicts();
}
