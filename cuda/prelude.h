/* The text that stands before each rule: job.h, kernel_element.cuh, lib/base/philox_rounds.h,
 * lib/vm/arith.h, curve.h, noise.h and rule_element.cuh, one behind the other, which the build puts
 * into the plugin. */
#pragma once

#define PRELUDE "%s%s%s%s%s%s%s"
#define PRELUDE_TEXTS                                                                              \
    prelude_job, prelude_kernel_element, prelude_philox_rounds, prelude_arith, prelude_curve,      \
        prelude_noise, prelude_rule_element

extern const char prelude_job[], prelude_kernel_element[], prelude_philox_rounds[], prelude_arith[],
    prelude_curve[], prelude_noise[], prelude_rule_element[];
