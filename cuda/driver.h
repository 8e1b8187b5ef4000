/* The functions of the CUDA driver and of its compiler that the plugin uses, as a table: so nothing
 * is linked, a machine without them says so by name, and a test can put others in their place.
 *
 * Every function gives 0 or an error number, which text() explains. Addresses are the device's,
 * unless they are called host. They work on the device that the calling thread uses (use()).
 *
 * The thread is the program's, and another library may have chosen a device for it: who calls use()
 * asks before what is current, and makes that current again.
 */
#pragma once

#include "array/device.h"
#include "cuda/job.h"

/* The options of the compiler of rules, beside the device: no contraction, division and roots as in
 * IEEE 754, and subnormal numbers kept. */
#define DRIVER_OPTIONS                                                                             \
    "--fmad=false", "--prec-div=true", "--prec-sqrt=true", "--ftz=false", "--std=c++17"

typedef struct driver_stream driver_stream;
typedef struct driver_event driver_event;
typedef struct driver_kernel driver_kernel;

typedef struct driver {
    const char *(*text)(int code);

    int (*version)(void); /* 13010 is CUDA 13.1; 0 where it is not known */
    int (*count)(int *out);

    /* facts: the facts of a device, which is not used for it. room: its free memory. That takes a
     * context, which is made for the question unless the device is in use. */
    int (*facts)(int id, gpu_facts *out, int *multiprocessors);
    int (*room)(int id, int64_t *free_bytes);
    int (*use)(int id);
    void *(*current)(void);   /* the context of the calling thread, or NULL */
    void (*back)(void *context);

    int (*alloc)(void **out, int64_t bytes);
    int (*free)(void *block);
    int (*alloc_host)(void **out, int64_t bytes); /* pinned */
    int (*free_host)(void *host);

    int (*stream)(driver_stream **out);
    int (*event)(driver_event **out);
    int (*record)(driver_event *e, driver_stream *s);
    int (*wait_event)(driver_stream *s, driver_event *e); /* the stream does, not the host */
    int (*sync_event)(driver_event *e);                   /* the host does */
    int (*sync)(driver_stream *s);

    int (*zero)(void *dst, int64_t bytes, driver_stream *s);
    int (*copy_in)(void *dst, const void *host, int64_t bytes, driver_stream *s);
    int (*copy_out)(void *host, const void *src, int64_t bytes, driver_stream *s);

    /* From device to device, which both were used; also where they do not reach each other. */
    int (*copy)(void *dst, int to, const void *src, int from, int64_t bytes, driver_stream *s);

    /* can_reach: if id can read the memory of another device. reach: permits it; both devices must
     * have been used. */
    int (*can_reach)(int id, int other, int *can);
    int (*reach)(int id, int other);

    /* A kernel of an image, which is copied: one that was built in, whose length is not known and
     * 0 here, or a compiled one. CUDA's images contain their length; others need the bytes. */
    int (*load)(driver_kernel **out, const void *image, int64_t bytes, const char *name);
    int (*launch)(driver_kernel *k, unsigned blocks, unsigned threads, const job_list *list,
                  driver_stream *s);

    /* Compiles text for the device's abilities; the image is the caller's (mem_free). For a device
     * that is newer than the compiler it is a text, which the driver compiles when it loads it.
     * Error: unsupported, with the compiler's log. */
    int (*compile)(void **image, int64_t *bytes, const char *text, int major, int minor,
                   kv_err *e);

    /* The version of the compiler, which tells images apart: 13001 is 13.1; 0 without one. */
    int (*compiler)(void);
} driver;

/* The function `compile` of this machine's table, which needs no driver. */
int driver_compile(void **image, int64_t *bytes, const char *text, int major, int minor, kv_err *e);

/* The table of this machine. Errors: unsupported (no driver, no device), with the reason. */
int driver_open(const driver **out, kv_err *e);
