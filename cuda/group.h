/* Several devices together, through NCCL: the group entries of gpu_ops. Communicators are
 * made when a set of devices is first seen, and stay until a group of theirs fails; the next one
 * gets new ones. */
#pragma once

#include "array/device.h"

int group_find(int *version, kv_err *e);
int group_sum(const int *set, int nset, const gpu_group_job *jobs, int64_t n, kv_err *e);
int group_copy(const int *set, int nset, const gpu_group_job *jobs, int64_t n, kv_err *e);
