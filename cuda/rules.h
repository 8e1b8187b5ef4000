/* Rules that were compiled for devices: in memory for as long as the process lives, and in files
 * for the next one, in $XDG_CACHE_HOME/kvctl or ~/.cache/kvctl. A file that is damaged, or cannot
 * be written, costs the time to compile and nothing else. */
#pragma once

#include "array/device.h"
#include "cuda/driver.h"

/* As gpu_ops has them. */
int rules_compile(int id, const char *text, const gpu_rule **out, kv_err *e);
int rules_apply(int id, const gpu_rule *rule, const gpu_job *jobs, int64_t n, kv_err *e);
