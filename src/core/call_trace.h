/* Events of a call in a profile. A call that began when no profile was taken has
 * op.trace NULL, and tells nothing: that is one branch at each of these places. */
#pragma once

#include "core/call.h"
#include "engine/trace.h"

/* Gives the call a trace while a profile is taken; call_end releases it. name lives for ever.
 * Error: memory. */
int call_trace_new(call *c, const char *name, kv_err *e);

/* Adds the events; see below. */
void call_trace_add_enqueue(const call *c, bool later);
void call_trace_add_run(const call *c, int64_t begin);
void call_trace_add_part(const call *c, int64_t begin, const char *name, const kv_key *key,
                         const kv_array *a, int64_t from, int64_t n);

/* The operation turns out to be another one than its ops say. */
static inline void call_trace_rename(const call *c, const char *name)
{
    if (__builtin_expect(c->op.trace != NULL, 0))
        c->op.trace->name = name;
}

/* The call is about to become an operation; later: one that runs on the pool. */
static inline void call_trace_enqueue(const call *c, bool later)
{
    if (__builtin_expect(c->op.trace != NULL, 0))
        call_trace_add_enqueue(c, later);
}

/* The time at which the operation or a part of it begins, for the functions below. */
static inline int64_t call_trace_begin(const call *c)
{
    return __builtin_expect(c->op.trace != NULL, 0) ? trace_now() : 0;
}

/* The operation began at `begin` and ends now; its uses have not ended yet. */
static inline void call_trace_run(const call *c, int64_t begin)
{
    if (__builtin_expect(c->op.trace != NULL, 0))
        call_trace_add_run(c, begin);
}

/* A part of the work ends now: n elements of a, from `from` on. name: "sum". */
static inline void call_trace_part(const call *c, int64_t begin, const char *name,
                                   const kv_key *key, const kv_array *a, int64_t from, int64_t n)
{
    if (__builtin_expect(c->op.trace != NULL, 0))
        call_trace_add_part(c, begin, name, key, a, from, n);
}

/* Work on the call's keys of some GPUs, by their bits, ends now: an event for each of them. While a
 * profile is taken the host waits for it. */
void call_trace_add_devices(const call *c, int64_t begin, const char *name, const gpu_ops *gpu,
                            uint64_t devices);

static inline void call_trace_devices(const call *c, int64_t begin, const char *name,
                                      const gpu_ops *gpu, uint64_t devices)
{
    if (__builtin_expect(c->op.trace != NULL, 0))
        call_trace_add_devices(c, begin, name, gpu, devices);
}

/* An operation that is none of the engine's ends now. */
void call_trace_alone(uint64_t number, int64_t begin, const char *name, const kv_key *keys,
                      int64_t n);
