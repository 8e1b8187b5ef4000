/* Straggler reports: some workers wait because others have not done their part. That is told to the
 * log after 5 seconds, then at growing intervals, and given up after the timeout of net.h: the
 * calls that wait fail, with a sentence that names the ranks that are missing.
 */
#ifndef DISTRIBUTED_STRAGGLER_H
#define DISTRIBUTED_STRAGGLER_H

#include "base/buf.h"
#include "distributed/server_state.h"

void straggler_look(server_state *s, int64_t now_us);

/* A worker that has ended makes no store: a create that waits for it is given up. */
void straggler_refuse_ended(server_state *s);

/* " has ranks 0 2 and lacks 1": the workers, as has says of each. */
void straggler_tell_ranks(const server_state *s, bool (*has)(const void *of, int worker),
                          const void *of, buf *out);

#endif
