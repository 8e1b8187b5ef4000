/* A GPU of this machine: its streams, its memory, copies, launches.
 *
 * All work goes through one stream, `work`, in the order in which it is given; copies from and to
 * the host go through two more, so that one piece of 4 MB is on its way while the next one is
 * copied to pinned memory. Copies wait on the device for the work before them. The host waits
 * for the device only where it wants elements, or where pinned memory is still in use.
 *
 * A device is opened, with a context and pinned memory, when it is first given work. If a call
 * fails half way it waits for the work that it gave, so that later work need not wait for it.
 *
 * A device has a lock, which these functions take: any thread may call them.
 */
#pragma once

#include "array/device.h"
#include "cuda/driver.h"

/* Finds the devices of a driver, which stays. *count: how many. Errors: unsupported. */
int device_open(const driver *d, int *count, kv_err *e);

const driver *device_driver(void);

/* The functions of gpu_ops (array/device.h), whose comments are the contract. Of one device: */
int device_facts(int id, gpu_facts *out, kv_err *e);
int device_room(int id, int64_t *free_bytes, kv_err *e);
int device_reaches(int id, int other, bool *out, kv_err *e);
int device_alloc(int id, int64_t bytes, void **out, kv_err *e);
void device_free(int id, void *block);
int device_zero(int id, void *dst, int64_t bytes, kv_err *e);
int device_copy_in(int id, void *dst, const void *host, int64_t bytes, kv_err *e);
int device_copy_out(int id, void *host, const void *src, int64_t bytes, kv_err *e);
int device_carry(int id, void *block, int64_t bytes, bool out, kv_err *e);
int device_copy(int id, void *dst, int from, const void *src, int64_t bytes, kv_err *e);
int device_wait(int id, kv_err *e);

/* Runs a kernel on a list of jobs, cut into tiles of `tile` elements. */
int device_launch(int id, driver_kernel *k, int64_t tile, const gpu_job *jobs, int64_t n,
                  kv_err *e);

/* Calls give with the work streams of an ascending list of devices, which get no other work
 * meanwhile. If give fails, the work that it gave must not wait for work that it did not give. */
int device_together(const int *ids, int n,
                    int (*give)(void *arg, driver_stream *const *streams, kv_err *e), void *arg,
                    kv_err *e);

/* Loads a kernel for a device. */
int device_load(int id, driver_kernel **out, const void *image, int64_t bytes, const char *name,
                kv_err *e);

/* Of rules (rules.c): compiled ones stay in memory for as long as the process lives, and in files
 * for the next one, in $XDG_CACHE_HOME/kvctl or ~/.cache/kvctl. A file that is damaged, or cannot
 * be written, costs the time to compile and nothing else. */
int rules_compile(int id, const char *text, const gpu_rule **out, kv_err *e);
int rules_apply(int id, const gpu_rule *rule, const gpu_job *jobs, int64_t n, kv_err *e);

/* Of several devices together, through NCCL (group.c): communicators are made when a set of
 * devices is first seen, and stay until a group of theirs fails; the next one gets new ones. */
int group_find(int *version, kv_err *e);
int group_sum(const int *set, int nset, const gpu_group_job *jobs, int64_t n, kv_err *e);
int group_copy(const int *set, int nset, const gpu_group_job *jobs, int64_t n, kv_err *e);
