/* Arrays on devices with memory of their own.
 *
 * Such an array has two places for its elements: a block of the device, and one of host memory,
 * which is a->data, so that everything that works on host memory works on it too. Either place is
 * current or not; what needs the elements in a place says so before, and they are brought there if
 * they are not current. Host memory that is never needed is never touched, so it costs
 * only address space.
 *
 * The caller of these functions has the turn to read or write the array, as the engine gives it.
 * Readers may be several at a time.
 */
#pragma once

#include "array/device.h"

/* The purpose that elements are brought for. */
typedef enum mirror_use {
    MIRROR_READ,
    MIRROR_CHANGE, /* some are read or some stay */
    MIRROR_WRITE   /* all are written, none is read: nothing is brought */
} mirror_use;

typedef struct array_mirror array_mirror;

/* Returns true if arrays of this context need a mirror: it is a GPU of this machine, no virtual
 * one. */
bool mirror_needed(kv_ctx ctx);

/* Gives a its mirror if its context is a GPU of this machine, once a->data is there. bytes: of its
 * elements. block: NULL, or the device's memory of the caller, which stays the caller's. The host's
 * place is current then, or with a block the device's. Errors: memory, unsupported. */
int mirror_new(kv_array *a, int64_t bytes, void *block, kv_err *e);
void mirror_free(array_mirror *m);

/* a's mirror, or NULL; a view has the mirror of its base. */
static inline array_mirror *mirror_of(const kv_array *a)
{
    if (a->memory == ARRAY_VIEW)
        a = a->base;
    return a->memory == ARRAY_INSIDE ? NULL : a->mirror;
}

static inline bool mirror_has(const kv_array *a)
{
    return a && mirror_of(a);
}

/* The GPU where a's elements are, or -1. */
static inline int mirror_gpu(const kv_array *a)
{
    return mirror_of(a) ? a->ctx.id : -1;
}

/* Makes a->data current for a use. Waits for the device where something must be brought. Nothing to
 * do for other arrays, also NULL. Errors: those of the device. */
int mirror_host(const kv_array *a, mirror_use use, kv_err *e);

/* The same for reading, and tells how many of the bytes are there while they come, and at last that
 * all are, unless it fails. */
int mirror_host_gradually(const kv_array *a, void (*told)(void *arg, int64_t bytes), void *arg,
                           kv_err *e);

/* Makes the device's block current for a use, and gives it. a has a mirror. */
int mirror_device(const kv_array *a, mirror_use use, void **block, kv_err *e);

/* Waits until the device works on a's memory no more. Nothing to do for other arrays. */
void mirror_wait(const kv_array *a);

/* Zeroes all elements, only on the device. a has a mirror. */
int mirror_zero(const kv_array *a, kv_err *e);

/* Returns true if the device's block is current. */
bool mirror_is_there(const kv_array *a);

/* Copies the elements that a holds into a block of a device, from the place where they are. */
int mirror_send(const kv_array *a, const gpu_ops *gpu, int id, void *block, kv_err *e);

/* mirror_can_copy: true if src can be copied to dst, of the same size, without a detour through
 * host memory: both hold the same rows (default arrays hold all), one of them has a mirror, and
 * they have one dtype or one device. mirror_copy: dst = src. If an array has memory for some rows
 * only, the caller has made dst hold the rows of src. */
bool mirror_can_copy(const kv_array *dst, const kv_array *src);
int mirror_copy(const kv_array *dst, const kv_array *src, kv_err *e);
