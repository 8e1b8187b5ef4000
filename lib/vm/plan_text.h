/* Plans as source text for GPUs: a kernel for each pass.
 *
 * The text is C++ as GPUs have it, and needs the definitions that the plugin of the device puts
 * before it (cuda/job.h, cuda/element.cuh): names that begin with kv_. It does not depend on the
 * constants of the programs, which come with each job, so that a rate that changes with every
 * update makes no other text.
 *
 * Worked example, stored += input * 2 of a float32 key:
 *     const float v0 = ((const float *)j->more[0])[i];
 *     const float v1 = kv_sum_at<kv_t_f32>(j, i);
 *     const float v2 = (float)(v0*(float)k[0] + v1*(float)k[1]);
 *     ((float *)j->more[0])[i] = v2;
 */
#ifndef VM_PLAN_TEXT_H
#define VM_PLAN_TEXT_H

#include "vm/plan.h"

/* Whether every pass can be a kernel: none goes row by row. */
bool plan_text_possible(const plan *p);

/* The kernel of a pass that has work on elements, called `name`. Errors end in out. */
void plan_text(buf *out, const plan *p, int pass, const char *name);

/* The words that a job of the pass needs: constants, four of each instruction, then the plan's
 * numbers, then what normal() draws from. */
int64_t plan_text_words(const plan *p, int pass);

/* Fills them in. numbers: a word of each of the plan's, or NULL where there are none. */
void plan_text_fill(double *words, const plan *p, int pass, const uint64_t *numbers, uint64_t seed,
                    int64_t t);

/* Whether the words of a pass are the same for all keys. */
bool plan_text_is_shared(const plan *p, int pass);

#endif
