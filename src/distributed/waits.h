/* Waits: some workers have come to something and others have not, a round, a barrier, a store that
 * is made. A wait goes to the log after 5 seconds (KVSTORE_NOTICE), then at growing intervals,
 * and given up after the timeout of net.h: the calls that wait fail, with a sentence that names the
 * missing ranks.
 */
#pragma once

#include "distributed/server_state.h"
#include "kv_err.h"

/* Logs the waits of a store, and gives up the waits that are too old. */
void waits_look(server_state *s, int64_t now_us);

/* Lists the first ASK_MOST_MISSED waits that lack this worker, and returns their number
 * (request.h). */
int64_t waits_for(server_state *s, int rank, ask_missed *list);

/* A worker that has ended makes no store: a create that waits for it is given up. */
void waits_refuse_ended(server_state *s);

/* ---- Deadlocks ----
 *
 * Every worker waits for another one, so that none can ever go on. One that is proven
 * ends the job, with a sentence that says where each rank waits.
 *
 * A rank is idle if its script waits (engine/pool.h) or has ended, its pool has no work,
 * and it has nothing to send. An idle rank goes on only when a record comes. So nothing ever
 * happens again once all ranks are idle and no record is on its way; if workers wait then, it is a
 * deadlock.
 *
 * The first server proves that. Each rank reports to it how many records it has sent and taken,
 * and whether it is idle. When all workers wait, the first server asks a question, and each rank
 * reports again. A rank whose numbers are the same before the question was sent and after it had
 * come did not send or take anything in between. If that is so for all ranks, and they have taken
 * as many records as were sent, none was on its way when the question was sent (Mattern's method
 * of four counters). Ranks that compute, sleep, read or are stopped report that they are not idle,
 * or report nothing, and then there is no proof. In addition the servers must name, for each
 * worker that waits, another waiting one that it waits for.
 *
 * A worker that only waits because it is far ahead (request.h) is not idle. Heartbeats carry
 * questions and reports, and do not count as records.
 *
 * Environment: KVSTORE_DEADLOCK, 0: a deadlock is only a warning. */

/* On every rank, when it joins: the net does the rest. Error: memory. */
int deadlock_open(kv_err *e);
