/* Plans as source text for GPUs. A plan that works row by row is one kernel, whose threads have a
 * row each. Any other plan has a kernel for each pass.
 *
 * The text needs the definitions that the plugin of the device puts before it (cuda/job.h,
 * cuda/kernel_element.cuh): names that begin with kv_.
 *
 * A thread of a kernel over elements works on a pack of N, which it reads from all arrays before it
 * computes; no access is wider than 16 bytes. Where the input has some rows of the key, N is 1, and
 * the kernel maps the element to its place in the arrays and in the input.
 *
 * Worked example, stored += input * 2 of a float32 key:
 *     struct kv_rule_work {
 *         enum { N = 4 };
 *         const job_item *j;
 *         const double *k = j->numbers;
 *         const float k0 = (float)k[0];
 *         const float k1 = (float)k[1];
 *         float *const a0 = (float *)j->more[0];
 *         const kv_values<kv_t_f32> a1 = {j};
 *         const bool packs = true && kv_fits<N>(a0) && a1.fit<N>();
 *         __device__ __forceinline__ void at(kv_i64 i, int n) const
 *         {
 *             const bool whole = packs && n == N;
 *             kv_pack<float, N> x0;
 *             kv_pack<float, N> x1;
 *             if (whole) {
 *                 x0 = kv_load<N, true>(a0, i, n);
 *                 x1 = a1.load<N, true>(i, n);
 *             } else {
 *                 …
 *             }
 *             #pragma unroll
 *             for (int e = 0; e < N; e++) {
 *                 const float v0 = x0.v[e];
 *                 const float v1 = x1.v[e];
 *                 const float v2 = (float)(v0*k0 + v1*k1);
 *                 x0.v[e] = v2;
 *             }
 *             if (whole) {
 *                 kv_store<N, true>(a0, i, n, x0);
 *             } else {
 *                 …
 *             }
 *         }
 *     };
 *
 * A kernel by rows keeps the numbers of its row in variables, and adds its sums in the order of the
 * CPU (vm/plan_rows.c). Of stored += input * rowmean(input) its middle is
 *     for (kv_i64 column = from; column < to; column++) {
 *         const kv_i64 e = row * j->row + column;
 *         const kv_i64 in = place < 0 ? -1 : place * j->row + column;
 *         const float v0 = in < 0 ? (float)0 : ((const float *)j->src[0])[in];
 *         b0 += v0;
 *     }
 *
 * Running plans on a device with memory of its own: each kernel is one launch for all keys whose
 * rules have the same text.
 *
 * Behind a pass with sums over all elements come two launches more, for all keys: one adds the
 * terms of each chunk, one the sums of the chunks, both in their order, as for the CPU. What is
 * computed of such numbers is a launch too, so they stay on the device and the host waits for
 * nothing.
 */
#pragma once

#include "array/gpu_list.h"
#include "vm/plan.h"

/* The rows that an input has: all of them, or those of a row_sparse sum. */
typedef enum plan_input {
    PLAN_INPUT_ALL,    /* all */
    PLAN_INPUT_SPREAD, /* some; the others are zeros, and present too */
    PLAN_INPUT_PRESENT /* some, which alone are present */
} plan_input;

/* The elements of a job that stand for one row, where a thread has a row. Tiles of a launch are a
 * multiple of it. */
enum { PLAN_ROW_ELEMENTS = 32 };

/* Returns true if there are texts for such an input: reductions over all elements need all rows. */
bool plan_text_possible(const plan *p, plan_input input);

/* The number of kernels of a plan, in the order in which they run: one by rows, else the passes. */
int plan_text_kernels(const plan *p);

/* The kernel, called `name`. Errors end in out.
 *
 * Its jobs: `more` are arrays of its slots, and behind them the plan's
 * numbers, a word of 8 bytes each, at whose beginning a number lies in its own type. src: the
 * values whose sum the input is; by rows the input alone. A kernel over numbers has one element. */
void plan_text(buf *out, const plan *p, int kernel, plan_input input, const char *name);

/* The work on one key. Places of arrays are the device's. */
typedef struct plan_gpu_item {
    const plan *plan;
    const plan_arrays *arrays; /* stored, weight, states; input_dtype, size, row, seed and t */
    const void *const *values; /* whose sum the input is; the host's list */
    int64_t nvalues;
    plan_input input;   /* if not PLAN_INPUT_ALL, one value, whose rows lie end to end: */
    const int64_t *ids; /* the host's list of them, ascending, */
    int64_t nids;       /* and how many there are */
} plan_gpu_item;

/* Compiles the kernels of the plan, so that running it cannot fail in this. before: NULL, or one
 * that is prepared for the same device and input. Errors: unsupported, memory. */
int plan_gpu_prepare(const gpu_ops *gpu, int id, const plan *p, plan_input input,
                     const plan *before, kv_err *e);

/* Runs all items, which touch no array of each other, through a list without launches, whose blocks
 * and memory it uses. Items with some rows, or whose plan works by rows, have elements. Errors:
 * memory, those of the device. */
int plan_gpu_run(gpu_list *l, int id, const plan_gpu_item *items, int64_t n, kv_err *e);
