/* Work for GPUs, gathered over many arrays: a launch costs more than the work on a small array, so
 * all jobs of a list that a device does with one kernel in one stage are one launch. */
#pragma once

#include "array/device.h"
#include "base/mem.h"

/* A launch that a job is to be part of. A stage comes behind all earlier ones; kernels of one stage
 * run in any order. */
typedef struct gpu_launch {
    int stage;
    int id; /* of the device */
    gpu_work work;
    const gpu_rule *rule; /* NULL, or the rule that runs instead of a work */
} gpu_launch;

/* All zero but for gpu is an empty list. */
typedef struct gpu_list {
    const gpu_ops *gpu;
    struct list_launch *launches; /* by stage */
    struct list_copy *copies;
    struct list_block *blocks;
    int64_t n, cap, ncopies, copies_cap, nblocks, blocks_cap;
    int64_t latest; /* the launch that got the latest job, and mostly gets the next one */
    arena memory;   /* of the lists that jobs point at */
} gpu_list;

/* An empty list for the GPUs of this machine. Error: unsupported. */
int gpu_list_begin(gpu_list *l, kv_err *e);

/* Memory of a device, given back with the list: work that was given before may still use it then.
 * Errors: those of a device. */
int gpu_list_block_new(gpu_list *l, int id, int64_t bytes, void **out, kv_err *e);

/* Error: memory. */
int gpu_list_add(gpu_list *l, const gpu_launch *as, const gpu_job *job, kv_err *e);

/* A job of stage `stage` that converts n elements at src, or copies them. Error: memory. */
int gpu_list_convert(gpu_list *l, int stage, int id, void *dst, kv_dtype to, const void *src,
                     kv_dtype from, int64_t n, kv_err *e);

/* A copy behind all stages, from a device to a device, or where `to` is -1 to host memory, which
 * waits. Error: memory. */
int gpu_list_copy(gpu_list *l, int to, void *dst, int from, const void *src, int64_t bytes,
                  kv_err *e);

/* The devices that have launches, as bits. */
uint64_t gpu_list_devices(const gpu_list *l);

/* Does everything, and leaves no launch or copy; blocks and memory stay. Errors: those of a device.
 */
int gpu_list_run(gpu_list *l, kv_err *e);

void gpu_list_release(gpu_list *l);
#define own_gpu_list OWN(gpu_list_release) gpu_list

/* Rows of arrays on GPUs with memory of their own: their ids are in host memory, so the host says
 * which row goes where, and the elements stay on the device. Work on many arrays is gathered in a
 * list, which makes their elements when it runs; the sources stay as they are until then.
 * These functions work at once, as those of sparse.h. */

/* The array that sparse_sum makes, in a ctx on a GPU. Values elsewhere are copied there. Errors:
 * those of kv_array_new. */
int sparse_gpu_sum(gpu_list *l, kv_array **out, kv_array *const *values, int64_t n, kv_dtype dtype,
                   kv_ctx ctx, kv_err *e);

/* Does the work of sparse_retain for a src whose elements are on a GPU; the n arrays are anywhere.
 * Only the rows that they keep leave the device. Errors: memory, those of a device. */
int sparse_gpu_retain(gpu_list *l, kv_array *const *a, int64_t n, const kv_array *src, kv_err *e);
