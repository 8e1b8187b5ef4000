/* Stalls: what some workers wait for because others have not done their part. A stall is told to
 * the log after 5 seconds, then at growing intervals, and given up after the timeout of net.h: the
 * calls that wait fail, with a sentence that names the ranks that are missing.
 */
#ifndef DIST_STALL_H
#define DIST_STALL_H

#include "base/buf.h"
#include "dist/served.h"

void stall_look(served *s, int64_t now_us);

/* A worker that has ended makes no store: one that lacks it is given up. */
void stall_refuse_ended(served *s);

/* " has ranks 0 2 and lacks 1": the workers, as has says of each. */
void stall_tell_ranks(const served *s, bool (*has)(const void *of, int worker), const void *of,
                      buf *out);

#endif
