/* Jobs of one work for GPUs, gathered over many arrays: one launch for all that a device has. */
#ifndef ARRAY_GPU_LIST_H
#define ARRAY_GPU_LIST_H

#include "array/device.h"
#include "base/mem.h"

/* A job and the device that does it. */
typedef struct gpu_list_item {
    int id;
    gpu_job job;
} gpu_list_item;

/* A block of a device for as long as the list lives. */
typedef struct gpu_list_block {
    int id;
    void *block;
} gpu_list_block;

/* All zero, but for the first two, is an empty list. */
typedef struct gpu_list {
    const gpu_ops *gpu;
    gpu_work work;
    gpu_list_item *items;
    gpu_list_block *blocks;
    int64_t n, cap, nblocks, blocks_cap;
    arena memory; /* for what the jobs point at */
} gpu_list;

/* Memory of a device, given back with the list: work that was given before may still use it then.
 * Errors: those of a device. */
int gpu_list_block_new(gpu_list *l, int id, int64_t bytes, void **out, kv_err *e);

/* Error: memory. */
int gpu_list_add(gpu_list *l, int id, const gpu_job *job, kv_err *e);

/* Launches what each device has, and empties the list; blocks and memory stay. Errors: memory,
 * those of a device. */
int gpu_list_run(gpu_list *l, kv_err *e);

void gpu_list_release(gpu_list *l);

#endif
