/* Links: how records reach another rank. Everything about MPI is behind this page, in mpi.c.
 *
 * A record is a header and up to LINK_PAYLOAD bytes. Those that one rank sends to another arrive in
 * the order in which they were committed. Between ranks of one machine they travel through rings in
 * a shared window (MPI-3), else as MPI messages, several small records in each; the sender's memory
 * is free again when a record was committed. What lies on a GPU may go to a rank of another machine
 * from there, as a GPU-direct message: MPI reads it on the GPU, and no copy is made.
 *
 * One thread at a time may be in these functions (MPI_THREAD_SERIALIZED); net.c has the lock.
 */
#ifndef DISTRIBUTED_LINK_H
#define DISTRIBUTED_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "distributed/link_record.h"
#include "kv_err.h"

enum { LINK_PAYLOAD = 256 << 10, LINK_RECORD = LINK_PAYLOAD + (int)sizeof(link_rec) };

/* Joins the other ranks; blocks until all have called it. Called once a process.
 * Errors: unsupported (no launch environment, a thread level that the MPI does not have), peer. */
int link_open(kv_err *e);

/* Whether all ranks say the same number, which every rank asks at the same time, behind link_open;
 * *other becomes a rank that says another. */
bool link_agree(int number, int *other);

int link_rank(void);
int link_size(void);
const char *link_host(int rank);      /* its machine's name */
bool link_shares_memory(int rank);    /* records to it go through a ring */

/* Reserves memory for a record of so many payload bytes to a rank; the payload begins behind the
 * header. NULL: there is none now. At most one record is open at a time; link_commit sends it, with
 * the header's bytes as they are then, which may be fewer. */
link_rec *link_reserve(int rank, int64_t bytes);
void link_commit(int rank);

/* ---- GPU-direct messages ----
 *
 * Where MPI reads the memory of GPUs, many bytes that lie there travel as one message, and behind
 * them records that say what they are. The bytes of each record are in host memory when it is
 * taken, and as long as the record lies there.
 */
enum { LINK_DIRECT_MOST = 8 << 20 /* bytes at most */ };

typedef struct link_direct link_direct;

/* What the payload of such a record ends with: how many bytes are its own, and where they begin in
 * the GPU-direct message; who takes it finds their address instead. */
typedef struct link_packed {
    int64_t bytes;
    union {
        int64_t from;
        const char *data;
    };
} link_packed;

/* Whether a rank receives GPU-direct messages. */
bool link_takes_direct(int rank);

/* Begins to send one. What made its bytes is done, and nothing writes them until they have left.
 * NULL: not now; or never, with an error: peer. */
link_direct *link_send_direct(int rank, const void *block, int64_t bytes, kv_err *e);

/* False: not yet; or never, with an error: peer. */
bool link_direct_left(link_direct *p, kv_err *e);

/* Reserves memory for the records of a message that has left, each of them link_whole(payload)
 * bytes. NULL: there is none now. link_direct_commit sends them, and releases the GPU-direct
 * message. */
link_rec *link_direct_reserve(const link_direct *p, int64_t bytes);
void link_direct_commit(link_direct *p);

static inline int64_t link_whole(int64_t payload)
{
    return (int64_t)sizeof(link_rec) + (payload + 7) / 8 * 8;
}

/* Makes what was committed visible to its receivers. */
void link_flush(void);

/* Hands records that have come to take, at most about `bytes` of them from each rank, in their
 * order. A record stays where it is until link_release. Returns whether there were any. */
bool link_poll(void (*take)(int rank, const link_rec *r), int64_t bytes);
void link_release(void);

/* Sleep: who has nothing to do lies down, looks once more whether something is posted in its own
 * process, and sleeps until it is woken, at most so many microseconds. The ranks of this machine
 * wake one that is `listening` when they have sent it something or made room for what it sends; of
 * other machines and MPI nobody hears. link_lie_down is false when there is something to do
 * already. link_wake wakes this rank, from any thread; one thread sleeps at a time. */
bool link_lie_down(bool listening);
void link_sleep(int64_t us);
void link_wake(void);

/* Leaves for good, when everything was sent and received by agreement; blocks until all leave. */
void link_close(void);

#endif
