/* The link of simulated ranks: distributed/link.h over the memory of one process, in virtual time.
 *
 * A record costs its sender the overhead o, travels for the latency L and G nanoseconds a byte, and
 * costs its receiver o again (Alexandrov and others, "LogGP", 1995). Records from one rank to
 * another keep their order; a link between two hosts that is cut for a while delivers later. Ranks
 * of one host share memory: other parameters. Each direction holds a limited number of bytes, so
 * that a slow receiver stops its senders.
 */
#pragma once

#include "world.h"

typedef struct link_costs {
    int64_t latency_ns;  /* L, the mean if jitter is drawn */
    int64_t overhead_ns; /* o, of a record, at both ends */
    double gap_ns;       /* G, of a byte: on the way, or of the sender's processor within a host */
    int64_t room_bytes;  /* of one direction */
} link_costs;

/* For a test of the tests: record number n that the net sends, of those with a payload, gets lost;
 * 0: none. */
void sim_link_lose(int64_t n);

/* Called once, after world_open: within a host, and between hosts. `drawn`: latencies are
 * exponentially distributed about their means. */
void sim_link_open(const link_costs *near, const link_costs *far, bool drawn);

/* Another latency between two hosts. */
void sim_link_longer(int host, int other, int64_t latency_ns);

/* Is called for each record with a payload when its receiver takes it. */
void sim_link_watch(void (*taken)(int from, int to, const void *head));

/* No record passes between two hosts until that time; those under way arrive later. */
void sim_link_cut(int host, int other, int64_t until_ns);

/* The time until which no record passes between them; 0: nothing was cut. */
int64_t sim_link_cut_until(int host, int other);

/* When all have joined, this rank goes on so much later than the others. */
void sim_link_late(int rank, int64_t ns);

/* Returns true once all ranks have joined the job. */
bool sim_link_joined(void);

/* A rank has ended, in link_close or elsewhere: nobody waits for it in link_close. */
void sim_link_gone(int rank);

/* Returns true of a rank that waits for the others in link_close, when all its work was done. */
bool sim_link_leaves(int rank);

/* Bytes that ranks have sent, and the records: by rank. */
int64_t sim_link_bytes(int rank);
int64_t sim_link_records(int rank);
