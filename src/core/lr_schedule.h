/* Learning-rate schedules of MXNet 1.9.1: from the number of updates to a base learning rate, with
 * its off-by-one and its memory (a schedule that decayed does not go back).
 *
 * A schedule is written as a call, with the names of the constructors of 1.9.1:
 *   factor(step=2, factor=0.5, stop_factor_lr=1e-8)     decays every step updates
 *   multifactor(step=[5, 7], factor=0.1)                decays behind each of the listed updates
 *   poly(max_update=100, pwr=2, final_lr=0)             falls as a power until max_update
 *   cosine(max_update=100, final_lr=0)                  falls as a half cosine
 * and for each base_lr=0.01, warmup_steps=0, warmup_begin_lr=0, warmup_mode="linear" or "constant".
 * A schedule under way, which takes the place of another one, has also what that one had reached:
 * warmup_final_lr (base_lr where it is not given), count (the decays of the updates up to it are in
 * base_lr), last_lr (of poly and cosine: the latest rate, which stays behind max_update).
 */
#pragma once

#include "base/buf.h"
#include "base/mem.h"

typedef enum lr_kind { LR_FACTOR, LR_MULTIFACTOR, LR_POLY, LR_COSINE } lr_kind;

/* May be copied: the copy has a memory of its own. steps lives as long as its maker. */
typedef struct lr_schedule {
    lr_kind kind;
    double base_lr;      /* now */
    double base_lr_orig; /* of the call */
    double warmup_begin_lr, warmup_final_lr, factor, stop_factor_lr, power, final_lr;
    int64_t warmup_steps, step, max_update;
    bool warmup_constant;
    const int64_t *steps;
    int64_t nsteps, at; /* multifactor: the next of the steps */
    int64_t count;      /* factor: where the current step began */
} lr_schedule;

/* Reads a schedule; lists live in a. Errors: syntax, usage (names), value (ranges). */
int lr_schedule_parse(lr_schedule *out, const char *text, arena *a, kv_err *e);

/* The base learning rate at this number of updates. */
double lr_schedule_rate(lr_schedule *s, int64_t num_update);

/* Appends the schedule as a call that lr_schedule_parse reads, with all parameters. */
void lr_schedule_print(const lr_schedule *s, buf *out);
