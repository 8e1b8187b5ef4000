/* Plans as source text for GPUs: for each pass a kernel over the elements, and one over the numbers
 * that it finds computed.
 *
 * The text needs the definitions that the plugin of the device puts before it (cuda/job.h,
 * cuda/element.cuh): names that begin with kv_. A thread works on a pack of N elements, which it
 * reads from all arrays before it computes; no access is wider than 16 bytes.
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
 */
#ifndef VM_PLAN_TEXT_H
#define VM_PLAN_TEXT_H

#include "vm/plan.h"

/* The programs of a pass, in the order in which they run. */
typedef enum plan_part { PLAN_NUMBERS, PLAN_ELEMENTS, PLAN_PARTS } plan_part;

/* Whether every pass can be a kernel: none goes row by row. */
bool plan_text_possible(const plan *p);

/* Whether a pass has such a part. */
bool plan_text_has(const plan *p, int pass, plan_part part);

/* The kernel of a part, called `name`. Errors end in out.
 *
 * Its jobs: `more` are the arrays by slot of the pass, and behind them the plan's numbers, a word
 * of 8 bytes each, at whose beginning a number lies in its own type. Those of PLAN_NUMBERS have one
 * element and the numbers alone. */
void plan_text(buf *out, const plan *p, int pass, plan_part part, const char *name);

/* Whether all texts of both plans are the same: quicker than to write them. */
bool plan_text_same(const plan *p, const plan *q);

/* The words that a job needs: constants, and of elements what normal() draws from. */
int64_t plan_text_words(const plan *p, int pass, plan_part part);
void plan_text_fill(double *words, const plan *p, int pass, plan_part part, uint64_t seed,
                    int64_t t);

/* Whether the words are the same for all keys. */
bool plan_text_is_shared(const plan *p, int pass, plan_part part);

#endif
