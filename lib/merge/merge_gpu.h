/* Rules on a GPU: the work on a piece of a key that the CPU does chunk by chunk (merge_chunk.c).
 *
 * The bytes of the inputs go up as they lie in the files. The device makes float32 or float64 of
 * them, runs the kernel of the pass (vm/plan_text.h) and rounds the merged elements to the type of
 * the output, whose bytes come down. Of terms the lanes of each chunk come down (kernel_fold.h), so
 * sums are made in the order of the CPU. Numbers are computed on the host, between passes.
 *
 * Each worker has buffers of the device for a piece. A piece needs one copy for each input, three
 * launches and one copy back, which waits for them; so no work uses the buffers when the next piece
 * begins, and its copies go on beside the kernels of other workers.
 */
#ifndef MERGE_MERGE_GPU_H
#define MERGE_MERGE_GPU_H

#include "array/device.h"
#include "merge/merge_job.h"

/* The kernel over the elements of a pass. */
typedef struct merge_kernel {
    const gpu_rule *rule; /* NULL: the pass has none */
    const double *words;  /* nwords constants that it reads */
    int64_t nwords;
} merge_kernel;

/* The GPU of a merge. */
typedef struct merge_gpu {
    const gpu_ops *ops; /* NULL: the merge runs on the CPU */
    int id;
    char *block; /* memory of the device, for all workers */
    int64_t bytes;
} merge_gpu;

/* Returns true if the merge is to run on a GPU of this machine. */
bool merge_gpu_wanted(const merge *m);

/* Checks that the plan of a key runs there with the bits of the CPU. Error: unsupported. */
int merge_gpu_check(const merge *m, const merge_plan *p, kv_err *e);

/* Opens the GPU. Errors: unsupported, those of the device. release: zeroed is allowed. */
int merge_gpu_open(merge_gpu *g, const merge *m, kv_err *e);
void merge_gpu_release(merge_gpu *g);

/* Compiles the kernels of a job; the device compiles a text once. Errors: unsupported (the text
 * does not compile), memory. */
int merge_gpu_compile(const merge_gpu *g, merge_job *j, arena *memory, kv_err *e);

/* Grows the sizes of a worker's memory of the device to those that a job needs. types: of each
 * input that the job has. */
void merge_gpu_room_add(merge_room *room, const merge_job *j, const tensor_type *types,
                        int ntypes);

/* Takes memory of the device for *nworkers workers, or as many as there is room for, one at least.
 * Errors: those of the device. */
int merge_gpu_room(merge_gpu *g, const merge_room *room, int *nworkers, kv_err *e);
char *merge_gpu_memory(const merge_gpu *g, const merge_room *room, int worker);

/* Runs the pass of the job on a piece. Its sums are joined to `sums`. Where the pass stores the
 * merged elements, `out` is filled with them, or, where the device does not know their type,
 * *numbers becomes those elements before they are rounded, in memory of the worker; else NULL.
 * Errors: those of tensor_read and of the device. */
int merge_gpu_piece(const merge_gpu *g, merge_worker *w, const merge_job *j, const walk_piece *p,
                    void *out, const void **numbers, double *sums, kv_err *e);

#endif
