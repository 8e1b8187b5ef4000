/* libcuda.so.1 and libnvrtc.so.N over host memory, as much as cuda/driver.c asks for: so
 * tests/device/driver.c runs it without a GPU. There are two devices, and work is done when it is
 * given. $STUB_CUDA is the version of the driver, as 12040. Built with -DNVRTC_MAJOR=12 it is a
 * compiler of this version, which what it makes names.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef NVRTC_MAJOR
#include <cuda.h>

struct CUctx_st {
    int device;
};

/* A call that does what stands behind its parameters, and then succeeds. */
#define CALL(name, parameters, ...)                                                                \
    CUresult name parameters                                                                       \
    {                                                                                              \
        __VA_ARGS__;                                                                               \
        return CUDA_SUCCESS;                                                                       \
    }
#define WANT(what, code)                                                                           \
    if (!(what))                                                                                   \
    return code
#define HERE WANT(current, CUDA_ERROR_INVALID_CONTEXT)
#define ON(where)                                                                                  \
    WANT(current && current->device == *(const int *)(const void *)(where),                        \
         CUDA_ERROR_INVALID_HANDLE)

static struct CUctx_st contexts[] = {{0}, {1}};
static _Thread_local CUcontext current;

static void *at(CUdeviceptr p)
{
    return (void *)(uintptr_t)p;
}

/* A stream or an event: it knows its device. */
static void *new_one(void)
{
    int *made = malloc(sizeof *made);
    *made = current->device;
    return made;
}

static int attribute_of(CUdevice_attribute which, CUdevice d)
{
    return which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR   ? 9
           : which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? d
                                                                   : 132;
}

CALL(cuInit, (unsigned flags), WANT(flags == 0, CUDA_ERROR_INVALID_VALUE))
CALL(cuGetErrorName, (CUresult rc, const char **out),
     *out = rc == CUDA_ERROR_INVALID_CONTEXT ? "CONTEXT" : NULL)
CALL(cuGetErrorString, (CUresult rc, const char **out),
     *out = rc == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" : NULL)
CALL(cuDriverGetVersion, (int *out), *out = atoi(getenv("STUB_CUDA")))
CALL(cuDeviceGetCount, (int *out), *out = 2)
CALL(cuDeviceGet, (CUdevice *out, int id), WANT(id < 2, CUDA_ERROR_INVALID_DEVICE); *out = id)
CALL(cuDeviceGetName, (char *out, int n, CUdevice d), snprintf(out, (size_t)n, "stub %d", d))
CALL(cuDeviceGetAttribute, (int *out, CUdevice_attribute which, CUdevice d),
     *out = attribute_of(which, d))
CALL(cuDeviceTotalMem, (size_t *out, CUdevice d), *out = (size_t)(d + 1) << 30)
CALL(cuDeviceCanAccessPeer, (int *out, CUdevice a, CUdevice b), *out = a != b)
CALL(cuDevicePrimaryCtxRetain, (CUcontext *out, CUdevice d), *out = &contexts[d])
CALL(cuDevicePrimaryCtxRelease, (CUdevice d), (void)d)
CALL(cuCtxGetCurrent, (CUcontext *out), *out = current)
CALL(cuCtxSetCurrent, (CUcontext c), current = c)
CALL(cuCtxEnablePeerAccess, (CUcontext c, unsigned flags),
     HERE; (void)flags; WANT(c != current, CUDA_ERROR_INVALID_DEVICE))
CALL(cuMemGetInfo, (size_t *left, size_t *all), HERE; *left = *all = 1 << 20)
CALL(cuMemAlloc, (CUdeviceptr *out, size_t n),
     HERE; WANT(n < 1 << 30, CUDA_ERROR_OUT_OF_MEMORY);
     *out = (CUdeviceptr)(uintptr_t)aligned_alloc(256, (n + 255) / 256 * 256))
CALL(cuMemFree, (CUdeviceptr p), HERE; free(at(p)))
CALL(cuMemHostAlloc, (void **out, size_t n, unsigned how), HERE; (void)how; *out = malloc(n))
CALL(cuMemFreeHost, (void *p), free(p))
CALL(cuStreamCreate, (CUstream *out, unsigned how), HERE; (void)how; *out = new_one())
CALL(cuStreamSynchronize, (CUstream s), ON(s))
CALL(cuStreamWaitEvent, (CUstream s, CUevent e, unsigned how), ON(s); (void)e; (void)how)
CALL(cuEventCreate, (CUevent *out, unsigned how), HERE; (void)how; *out = new_one())
CALL(cuEventRecord, (CUevent e, CUstream s), ON(e); ON(s))
CALL(cuEventSynchronize, (CUevent e), (void)e)
CALL(cuMemsetD8Async, (CUdeviceptr p, unsigned char x, size_t n, CUstream s),
     ON(s); memset(at(p), x, n))
CALL(cuMemcpyHtoDAsync, (CUdeviceptr p, const void *from, size_t n, CUstream s),
     ON(s); memcpy(at(p), from, n))
CALL(cuMemcpyDtoHAsync, (void *to, CUdeviceptr p, size_t n, CUstream s),
     ON(s); memcpy(to, at(p), n))
CALL(cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr p, size_t n, CUstream s),
     ON(s); memcpy(at(to), at(p), n))
CALL(cuMemcpyPeerAsync, (CUdeviceptr to, CUcontext there, CUdeviceptr p, CUcontext here, size_t n,
     CUstream s),
     ON(s); WANT(here != there, CUDA_ERROR_INVALID_VALUE); memcpy(at(to), at(p), n))
CALL(cuModuleLoadData, (CUmodule *out, const void *image),
     HERE; WANT(*(const char *)image != '-', CUDA_ERROR_NO_BINARY_FOR_GPU); *out = (CUmodule)image)
CALL(cuModuleGetFunction, (CUfunction *out, CUmodule m, const char *name),
     HERE; WANT(strcmp(name, "kernel") == 0, CUDA_ERROR_NOT_FOUND); *out = (CUfunction)m)

/* The one kernel: dst of the only job = how many threads run. */
struct item {
    int *dst;
};
CALL(cuLaunchKernel, (CUfunction f, unsigned x, unsigned y, unsigned z, unsigned tx, unsigned ty,
     unsigned tz, unsigned shared, CUstream s, void **arguments, void **extra),
     ON(s); WANT(f && !shared && !extra, CUDA_ERROR_INVALID_VALUE);
     *(*(struct item **)arguments[0])->dst = (int)(x * y * z * tx * ty * tz))

#else
#include <nvrtc.h>

#define CALL(name, parameters, ...)                                                                \
    nvrtcResult name parameters                                                                    \
    {                                                                                              \
        __VA_ARGS__;                                                                               \
        return NVRTC_SUCCESS;                                                                      \
    }

/* An image is the version of the compiler and the first option: "12 --gpu-architecture=sm_90". */
static char image[80];
static int wrong;

CALL(nvrtcVersion, (int *major, int *minor), *major = NVRTC_MAJOR; *minor = 4)
const char *nvrtcGetErrorString(nvrtcResult rc)
{
    return rc ? "it is wrong" : "success";
}
CALL(nvrtcGetNumSupportedArchs, (int *out), *out = 2)
CALL(nvrtcGetSupportedArchs, (int *out), out[0] = 80; out[1] = 90)
CALL(nvrtcCreateProgram, (nvrtcProgram *out, const char *text, const char *name, int n,
     const char *const *headers, const char *const *names),
     (void)name; (void)n; (void)headers; (void)names; wrong = *text == '-'; *out = (void *)image)
CALL(nvrtcDestroyProgram, (nvrtcProgram *p), *p = NULL)
CALL(nvrtcCompileProgram, (nvrtcProgram p, int n, const char *const *options),
     (void)p; snprintf(image, sizeof image, "%d %s", NVRTC_MAJOR, n > 0 ? options[0] : "");
     if (wrong) return NVRTC_ERROR_COMPILATION)
CALL(nvrtcGetCUBINSize, (nvrtcProgram p, size_t *n), (void)p; *n = sizeof image)
CALL(nvrtcGetCUBIN, (nvrtcProgram p, char *out), (void)p; memcpy(out, image, sizeof image))
CALL(nvrtcGetPTXSize, (nvrtcProgram p, size_t *n), (void)p; *n = sizeof image)
CALL(nvrtcGetPTX, (nvrtcProgram p, char *out), (void)p; memcpy(out, image, sizeof image))
CALL(nvrtcGetProgramLogSize, (nvrtcProgram p, size_t *n), (void)p; *n = 12)
CALL(nvrtcGetProgramLog, (nvrtcProgram p, char *out), (void)p; strcpy(out, "line 3\nmore"))
#endif
