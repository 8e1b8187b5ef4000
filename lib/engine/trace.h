/* Events of operations, for a profile.
 *
 * A thread adds its events to a lane, a list of its own unless there are more threads than lanes.
 * At the end the events are taken from all lanes. While no profile is taken a call of a store costs
 * one relaxed load and a branch: it gets the number 0 as an operation, which records no events.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "kv_err.h"

typedef enum trace_kind {
    TRACE_ENQUEUE, /* the call itself: checks, memory, scheduling */
    TRACE_WAIT,    /* from there to the moment when nothing is in the operation's way */
    TRACE_QUEUE,   /* from there to the moment when a thread takes it */
    TRACE_TRAVEL,  /* while other ranks have it: no thread of this one does */
    TRACE_RUN,
    TRACE_PART,  /* of an operation's work: elements of one key on one thread */
    TRACE_DEVICE /* of an operation's work: a list of keys on a GPU, from its launch to its end */
} trace_kind;

typedef struct trace_event {
    trace_kind kind;
    const char *name;      /* "push"; of a part "sum", "update", "copy"; lives for ever */
    uint64_t op;           /* the operation's number, from 1 */
    int64_t begin, end;    /* nanoseconds since the profile began */
    const kv_key *keys;    /* of a call its first TRACE_KEYS at most, of a part one */
    int64_t nkeys;         /* of the call, all */
    int64_t from;          /* of a part: its elements from … from + elements - 1 */
    int64_t elements, bytes;
    bool later;            /* of a TRACE_ENQUEUE: a thread of the pool runs the operation */
    int device;            /* of a TRACE_DEVICE: the number of the GPU */
    int thread;            /* out: threads are numbered from 1 in the order of their first event */
} trace_event;

#define TRACE_KEYS 16

/* So many events are kept, the first ones: about 200 MB, and about as much as a viewer can show. */
#define TRACE_EVENTS (1 << 20)

/* The part of an operation that its events are made from. */
typedef struct trace_op {
    uint64_t number;
    const char *name;
    int64_t begun;            /* its call */
    int64_t scheduled, ready; /* 0 where it did not have to wait */
} trace_op;

/* Not 0 while events are taken; read it with trace_on. */
extern int trace_is_on;

static inline bool trace_on(void)
{
    return __builtin_expect(__atomic_load_n(&trace_is_on, __ATOMIC_RELAXED), 0);
}

/* Events are taken from now on. Error: value (they are already). */
int trace_start(kv_err *e);

/* A number for an operation that is about to be scheduled; 0 while no events are taken. */
uint64_t trace_number(void);

/* Nanoseconds since trace_start. */
int64_t trace_now(void);

/* Adds an event; its keys and their names are copied. Does nothing when the operation's number is
 * none of the profile that is taken, or 0. */
void trace_add(const trace_event *event);

/* Ends the taking and hands the events to visit, those of a thread in the order in which it added
 * them; a result other than KV_OK ends the visit and is returned. Operations that have not ended
 * are not heard of again. visit NULL: the events are dropped. Errors: value (none are taken),
 * memory (events were lost; the others are visited first). */
int trace_stop(int (*visit)(void *arg, const trace_event *event, kv_err *e), void *arg, kv_err *e);

/* The number of events that were dropped in the taking that began last, because TRACE_EVENTS were
 * there already. */
int64_t trace_left_out(void);
