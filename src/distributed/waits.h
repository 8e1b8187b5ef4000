/* Waits: some workers have come to something and others have not, a round, a barrier, a store that
 * is made. A wait goes to the log after 5 seconds (KVSTORE_NOTICE), then at growing intervals,
 * and given up after the timeout of net.h: the calls that wait fail, with a sentence that names the
 * missing ranks.
 */
#pragma once

#include "distributed/server_state.h"

/* Logs the waits of a store, and gives up the waits that are too old. */
void waits_look(server_state *s, int64_t now_us);

/* Lists the first ASK_MOST_MISSED waits that lack this worker, and returns their number
 * (backpressure.h). */
int64_t waits_for(server_state *s, int rank, ask_missed *list);

/* Finds for each worker that waits at this server one that it waits for (deadlock.h). */
void waits_lacked(ask_lack *by_worker);

/* A worker that has ended makes no store: a create that waits for it is given up. */
void waits_refuse_ended(server_state *s);
