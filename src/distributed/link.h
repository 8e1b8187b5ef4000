/* Links carry records between ranks. mpi.c, behind this header, is the only file that calls MPI.
 *
 * A record is a header and up to LINK_PAYLOAD bytes. The records from one rank to another arrive in
 * the order in which they were committed, but for urgent ones (link_reserve_by). Between ranks of
 * one machine they travel through rings in a shared window (MPI-3), else as MPI messages, several
 * small records in each; the sender's memory is free again when a record was committed.
 *
 * One thread at a time may be in these functions (MPI_THREAD_SERIALIZED); net.c has the lock.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "distributed/link_record.h"
#include "kv_err.h"

enum {
    LINK_PAYLOAD = 256 << 10,
    LINK_RECORD = LINK_PAYLOAD + (int)sizeof(link_rec),
    LINK_EXPRESS = 16 << 10 /* bytes of payload of a record that may overtake others */
};

/* Joins the other ranks; blocks until all have called it. Called once a process.
 * Errors: unsupported (no launch environment, a thread level that the MPI does not have), peer. */
int link_open(kv_err *e);

/* Returns true if all ranks pass the same number; else *other becomes a rank that passes another.
 * Collective: every rank calls it, right after link_open, twice at most. */
bool link_agree(int number, int *other);

int link_rank(void);
int link_size(void);
const char *link_host(int rank);      /* its machine's name */
bool link_shares_memory(int rank);    /* records to it go through a ring */

/* The processors that the ranks of this machine may use, as all of them see it: where a launcher
 * binds each to some, those of all together. */
int link_processors(void);

/* Reserves memory for a record of `bytes` of payload to a rank; the payload begins behind the
 * header. NULL: there is none now. At most one record is open at a time; link_commit sends it, with
 * the header's bytes as they are then, which may be fewer. */
link_rec *link_reserve(int rank, int64_t bytes);
void link_commit(int rank);

/* The same for a record of values or of a pull, which has a priority. One of at most LINK_EXPRESS
 * bytes may overtake those that are on their way when it is more urgent than all of them that have
 * a priority, and nothing else overtakes it; `whole`: it belongs to no others that must stay in
 * order with it. Between ranks of one machine it does; to other machines all keep their order. */
link_rec *link_reserve_by(int rank, int64_t bytes, int32_t priority, bool whole);

/* Bytes of a record with so much payload. */
static inline int64_t link_whole(int64_t payload)
{
    return (int64_t)sizeof(link_rec) + (payload + 7) / 8 * 8;
}

/* Says whether so many bytes were committed since the last link_poll that urgent records which have
 * come meanwhile should not wait for more. */
bool link_sent_much(void);

/* Makes the committed records visible to their receivers. */
void link_flush(void);

/* Hands records that have come to take, at most about `bytes` of them from each rank, in their
 * order. A record stays where it is until link_release. Returns whether there were any. */
bool link_poll(void (*take)(int rank, const link_rec *r), int64_t bytes);
void link_release(void);

/* Sleep: an idle thread calls link_prepare_sleep, looks once more for items posted in its own
 * process, and calls link_sleep, which returns at a wake-up or after `us` microseconds. The ranks
 * of this machine wake one that is `listening` when they have sent it records or made room for its
 * own; other machines and MPI send no wake-up. link_prepare_sleep is false when there is work
 * already. link_wake wakes this rank, from any thread; one thread sleeps at a time. */
bool link_prepare_sleep(bool listening);
void link_sleep(int64_t us);
void link_wake(void);

/* Tells the link that a rank is gone: what still comes from it may be dropped. To be called behind
 * link_release. */
int link_gone(int rank, kv_err *e);

/* Leaves for good, when everything was sent and received by agreement; blocks until all leave. In
 * an elastic job (alive.h) it does not block: some may be gone. */
void link_close(void);

/* Returns true if the link goes on when a rank is gone, where the launcher has asked MPI for that:
 * this MPI has ULFM. Also before link_open. */
bool link_outlives_ranks(void);
